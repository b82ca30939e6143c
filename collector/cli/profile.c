#include "collector/cli/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/conf/conf.h"
#include "common/os/os.h"
#include "common/pki/pki_authority.h"

#define TIMEOUT_MAX (3600 * CLK_S)

static const struct conf_key keys[] = {
    {"default_profile", CONF_TEXT, "", 0, 0, NULL,
     "the profile used unless --profile says another"},
    {"profiles.*.collector", CONF_TEXT, "", 0, 0, NULL, "collector to ask, HOST[:PORT]"},
    {"profiles.*.events", CONF_TEXT, "", 0, 0, NULL, "event stream to follow, HOST[:PORT]"},
    {"profiles.*.ca", CONF_TEXT, "", 0, 0, NULL, "file: certificate of the authority"},
    {"profiles.*.cert", CONF_TEXT, "", 0, 0, NULL, "file: own certificate"},
    {"profiles.*.key", CONF_TEXT, "", 0, 0, NULL, "file: own private key; nobody else may read it"},
    {"profiles.*.server_name", CONF_TEXT, "", 0, 0, NULL,
     "name the collector's certificate must carry"},
    {"profiles.*.timeout", CONF_SPAN, "10s", CLK_MS, TIMEOUT_MAX, NULL,
     "longest wait for an answer"},
    {"profiles.*.format", CONF_CHOICE, "table", 0, 0, "table|json|csv|jsonl",
     "how answers are printed"},
    {"profiles.*.time", CONF_CHOICE, "utc", 0, 0, "utc|local", "zone of times read and shown"},
    {"profiles.*.host", CONF_TEXT, "", 0, 0, NULL, "name, glob or uuid of the hosts asked for"},
};

#define KEYS (sizeof keys / sizeof *keys)

static const struct {
    const char *name, *option, *variable, *key, *def;
} settings[PROFILE_SETTINGS] = {
    [PROFILE_COLLECTOR] = {"collector", "collector", "PROCFLEET_COLLECTOR", "profiles.*.collector",
                           "localhost"},
    [PROFILE_EVENTS] = {"events", "events", "PROCFLEET_EVENTS", "profiles.*.events", NULL},
    [PROFILE_CA] = {"ca", "ca", "PROCFLEET_CA", "profiles.*.ca", NULL},
    [PROFILE_CERT] = {"cert", "cert", "PROCFLEET_CERT", "profiles.*.cert", NULL},
    [PROFILE_KEY] = {"key", "key", "PROCFLEET_KEY", "profiles.*.key", NULL},
    [PROFILE_SERVER_NAME] = {"server_name", "server-name", "PROCFLEET_SERVER_NAME",
                             "profiles.*.server_name", PKI_SERVER_NAME},
    [PROFILE_TIMEOUT] = {"timeout", "timeout", "PROCFLEET_TIMEOUT", "profiles.*.timeout", "10s"},
    [PROFILE_TIME] = {"time", "time", "PROCFLEET_TIME", "profiles.*.time", "utc"},
    [PROFILE_FORMAT] = {"format", "format", "PROCFLEET_FORMAT", "profiles.*.format", "table"},
    [PROFILE_HOST] = {"host", "host", "PROCFLEET_HOST", "profiles.*.host", NULL},
};

struct profile {
    const struct opt_args *args;
    char *file; /* NULL: none */
    char *chosen;
    struct conf *conf;             /* NULL: no file */
    char *paths[PROFILE_SETTINGS]; /* of files, made absolute */
};

/* -- the file -- */

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

/* Where the file is by default; NULL: nowhere. On Windows it is below APPDATA. */
static char *file_default(void)
{
    static const struct {
        const char *variable, *below;
    } places[] = {{"XDG_CONFIG_HOME", "procfleet/config.yaml"},
                  {"APPDATA", "procfleet/config.yaml"},
                  {"HOME", ".config/procfleet/config.yaml"}};

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (variable(places[i].variable)) {
            return os_path_join(variable(places[i].variable), places[i].below);
        }
    }
    return NULL;
}

static enum err file_find(struct profile *p, struct errmsg *why)
{
    const char *named = opt_value(p->args, "config");

    named = named ? named : variable("PROCFLEET_CONFIG");
    p->file = named ? mem_strdup(named) : file_default();
    if (named && !p->file) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    if (p->file && !named && !os_exists(p->file)) {
        mem_free(p->file);
        p->file = NULL;
    }
    return ERR_OK;
}

static enum err file_load(struct profile *p, struct errmsg *why)
{
    enum err e = conf_create(&p->conf, keys, KEYS);

    if (e) {
        return errmsg_set(why, e, "out of memory");
    }
    conf_choose(p->conf, p->chosen);
    e = conf_load_file(p->conf, p->file, why);
    return e == ERR_OK || e == ERR_NOMEM ? e : ERR_USAGE;
}

static enum err profile_unknown(const struct profile *p, struct errmsg *why)
{
    const char *const *names;
    size_t n = conf_names(p->conf, &names);
    const char *closest = opt_closest(p->chosen, names, n);

    if (closest) {
        return errmsg_set(why, ERR_USAGE, "there is no profile '%s' in %s; did you mean '%s'?",
                          p->chosen, p->file, closest);
    }
    if (n == 0) {
        return errmsg_set(
            why, ERR_USAGE,
            "there is no profile '%s' in %s, nor any other; 'procfleet config sample' "
            "shows how one is written",
            p->chosen, p->file);
    }
    return errmsg_set(why, ERR_USAGE, "there is no profile '%s' in %s; it has %zu, the first is %s",
                      p->chosen, p->file, n, names[0]);
}

/* A file is read twice: first to learn which profile it takes by itself, then for that profile. */
static enum err profile_choose(struct profile *p, struct errmsg *why)
{
    const char *named = opt_value(p->args, "profile");
    const char *const *names;
    size_t n;
    enum err e;

    named = named ? named : variable("PROCFLEET_PROFILE");
    if (!p->file) {
        return named ? errmsg_set(why, ERR_USAGE,
                                  "profile '%s' is asked for, but there is no configuration file; "
                                  "'procfleet config sample' shows one",
                                  named)
                     : ERR_OK;
    }
    e = file_load(p, why);
    if (e) {
        return e;
    }
    named = named ? named : conf_text(p->conf, "default_profile");
    if (!*named) {
        return ERR_OK;
    }
    p->chosen = mem_strdup(named);
    if (!p->chosen) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    conf_destroy(p->conf);
    p->conf = NULL;
    e = file_load(p, why);
    n = e ? 0 : conf_names(p->conf, &names);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(names[i], p->chosen) == 0) {
            return ERR_OK;
        }
    }
    return e ? e : profile_unknown(p, why);
}

/* -- files beside the file -- */

static bool is_absolute(const char *path)
{
    return path[0] == '/' || path[0] == '\\' || (path[0] && path[1] == ':');
}

static enum err path_resolve(struct profile *p, enum profile_setting s, struct errmsg *why)
{
    const char *path = conf_text(p->conf, settings[s].key);
    size_t dir = 0;
    char *base;

    for (size_t i = 0; p->file[i]; i++) {
        dir = p->file[i] == '/' || p->file[i] == '\\' ? i : dir;
    }
    if (!*path || is_absolute(path) || dir == 0) {
        return ERR_OK;
    }
    base = mem_strndup(p->file, dir);
    p->paths[s] = base ? os_path_join(base, path) : NULL;
    mem_free(base);
    return p->paths[s] ? ERR_OK : errmsg_set(why, ERR_NOMEM, "out of memory");
}

enum err profile_open(struct profile **out, const struct opt_args *args, struct errmsg *why)
{
    struct profile *p = mem_zalloc(sizeof *p);
    enum err e;

    if (!p) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    p->args = args;
    e = file_find(p, why);
    if (!e) {
        e = profile_choose(p, why);
    }
    for (enum profile_setting s = PROFILE_CA; s <= PROFILE_KEY && !e && p->chosen; s++) {
        e = path_resolve(p, s, why);
    }
    if (e) {
        profile_close(p);
        return e;
    }
    *out = p;
    return ERR_OK;
}

void profile_close(struct profile *p)
{
    if (!p) {
        return;
    }
    for (size_t i = 0; i < PROFILE_SETTINGS; i++) {
        mem_free(p->paths[i]);
    }
    conf_destroy(p->conf);
    mem_free(p->chosen);
    mem_free(p->file);
    mem_free(p);
}

/* -- reading -- */

enum from { FROM_OPTION, FROM_ENVIRONMENT, FROM_PROFILE, FROM_DEFAULT };

static enum from setting_from(const struct profile *p, enum profile_setting s)
{
    const char *option = opt_value(p->args, settings[s].option);

    if (option && *option) {
        return FROM_OPTION;
    }
    if (variable(settings[s].variable)) {
        return FROM_ENVIRONMENT;
    }
    return p->chosen && conf_is_set(p->conf, settings[s].key) ? FROM_PROFILE : FROM_DEFAULT;
}

const char *profile_value(const struct profile *p, enum profile_setting s)
{
    switch (setting_from(p, s)) {
    case FROM_OPTION:
        return opt_value(p->args, settings[s].option);
    case FROM_ENVIRONMENT:
        return variable(settings[s].variable);
    case FROM_PROFILE:
        return p->paths[s] ? p->paths[s] : conf_text(p->conf, settings[s].key);
    default:
        return settings[s].def;
    }
}

const char *profile_name(enum profile_setting s)
{
    return settings[s].name;
}

const char *profile_from(const struct profile *p, enum profile_setting s, char *text, size_t size)
{
    switch (setting_from(p, s)) {
    case FROM_OPTION:
        snprintf(text, size, "--%s", settings[s].option);
        break;
    case FROM_ENVIRONMENT:
        snprintf(text, size, "%s", settings[s].variable);
        break;
    case FROM_PROFILE:
        snprintf(text, size, "%s:%zu: profile %s", p->file, conf_line(p->conf, settings[s].key),
                 p->chosen);
        break;
    default:
        snprintf(text, size, "default");
    }
    return text;
}

const char *profile_chosen(const struct profile *p)
{
    return p->chosen;
}

const char *profile_file(const struct profile *p)
{
    return p->file;
}

/* -- the sample -- */

void profile_print_sample(struct buf *out)
{
    static const char *const examples[PROFILE_SETTINGS] = {"collector.example:7421",
                                                           "collector.example:7422",
                                                           "ca.pem",
                                                           "alice.pem",
                                                           "alice.key",
                                                           PKI_SERVER_NAME,
                                                           "10s",
                                                           "table",
                                                           "'lab-*'"};

    buf_put_str(out, "# Profiles of procfleet. Each setting is taken from its option, else the "
                     "environment, else the\n# profile, else its default. Files are looked for "
                     "beside this one.\n\n");
    buf_printf(out, "# %s\ndefault_profile: lab\n\nprofiles:\n  lab:\n", keys[0].help);
    for (size_t s = 0; s < PROFILE_SETTINGS; s++) {
        buf_printf(out, "    # %s; --%s, %s%s%s\n    %s%s: %s\n", keys[s + 1].help,
                   settings[s].option, settings[s].variable, settings[s].def ? "; default " : "",
                   settings[s].def ? settings[s].def : "",
                   s == PROFILE_EVENTS || s >= PROFILE_SERVER_NAME ? "# " : "", settings[s].name,
                   examples[s]);
    }
}
