/* What the operator's command is to use: each setting from its option, else the environment, else
 * the profile, else its default. Profiles stand in a configuration file (YAML):
 *
 *     default_profile: lab
 *     profiles:
 *       lab: {collector: lab.example, ca: ca.pem, cert: alice.pem, key: alice.key}
 *
 * Files that a profile names are looked for beside the configuration file. Threads: one. */
#ifndef PROCFLEET_COLLECTOR_CLI_PROFILE_H
#define PROCFLEET_COLLECTOR_CLI_PROFILE_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/conf/opt.h"

enum profile_setting {
    PROFILE_COLLECTOR,
    PROFILE_EVENTS,
    PROFILE_CA,
    PROFILE_CERT,
    PROFILE_KEY,
    PROFILE_SERVER_NAME,
    PROFILE_TIMEOUT,
    PROFILE_FORMAT,
    PROFILE_HOST,
    PROFILE_TIME,
    PROFILE_SETTINGS
};

struct profile;

/* Reads --config and --profile, or what stands for them. `args` is borrowed until profile_close.
 * A file that was not named may be missing. Errors: ERR_USAGE (why names file and line, the key or
 * the profile), ERR_NOMEM */
NODISCARD enum err profile_open(struct profile **out, const struct opt_args *args,
                                struct errmsg *why);
void profile_close(struct profile *p);

/* The setting's value, NULL when it has none; borrowed until profile_close. */
const char *profile_value(const struct profile *p, enum profile_setting s);
/* "collector", as in the file. */
const char *profile_name(enum profile_setting s);
/* What an error calls the place it is from: "--timeout", "PROCFLEET_TIMEOUT", "config.yaml:7:
 * profile lab", "default". Returns `text`, cut at its size. */
#define PROFILE_FROM_TEXT 320
const char *profile_from(const struct profile *p, enum profile_setting s, char *text, size_t size);
/* The profile in use and the file, NULL when there is none. */
const char *profile_chosen(const struct profile *p);
const char *profile_file(const struct profile *p);

/* A file with every key and what it means. */
void profile_print_sample(struct buf *out);

#endif
