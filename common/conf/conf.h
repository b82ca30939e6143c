/* Configuration files: one table per program drives parsing (YAML through libyaml's events, nested
 * maps give dotted keys), --help and the sample file. Unknown keys are errors that name line, key
 * and the closest known key. Order of precedence: default < file < command line (--set key=value).
 * Threads: read-only after loading. */
#ifndef PROCFLEET_COMMON_CONF_CONF_H
#define PROCFLEET_COMMON_CONF_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/err.h"

enum conf_type {
    CONF_TEXT,
    CONF_BOOL,
    CONF_INT,    /* min, max */
    CONF_NUMBER, /* decimal fraction; min, max in thousandths; read as thousandths */
    CONF_SIZE,   /* bytes; KiB MiB GiB TiB; min, max */
    CONF_SPAN,   /* time; ms s min h d; read as ns; min, max in ns */
    CONF_CHOICE, /* one word of `choices` */
    CONF_LIST,   /* texts; at most `max`; no entry is empty, has a comma or blanks at its ends */
};

struct conf_key {
    const char *key; /* dotted: "collector.addresses"; "*" stands for a name: "profiles.*.ca" */
    enum conf_type type;
    const char *def; /* as it would be written; "" = none */
    int64_t min, max;
    const char *choices; /* CONF_CHOICE: "none|exe|redact|full" */
    const char *help;
};

struct conf;
NODISCARD enum err conf_create(struct conf **out, const struct conf_key *keys, size_t n_keys);
void conf_destroy(struct conf *c);
/* Of keys with a "*" only what belongs to `name` is kept; that of all others is checked and
 * dropped. Borrowed; called before loading. */
void conf_choose(struct conf *c, const char *name);
/* The names that stood for "*" so far, the first CONF_NAMES_MAX; borrowed until conf_destroy. */
#define CONF_NAMES_MAX 64
size_t conf_names(const struct conf *c, const char *const **names);
NODISCARD enum err conf_load_file(struct conf *c, const char *path, struct errmsg *why);
NODISCARD enum err conf_load_text(struct conf *c, const char *text, size_t n, const char *origin,
                                  struct errmsg *why);
NODISCARD enum err conf_set(struct conf *c, const char *key, const char *value,
                            struct errmsg *why); /* lists: a,b; "" is an empty one */

/* Reading; the key must be in the table with that type (assert). Texts are borrowed until
 * conf_destroy. */
const char *conf_text(const struct conf *c, const char *key);
bool conf_bool(const struct conf *c, const char *key);
int64_t conf_int(const struct conf *c, const char *key); /* INT, NUMBER (thousandths), SIZE, SPAN */
size_t conf_list(const struct conf *c, const char *key, const char *const **items);
bool conf_is_set(const struct conf *c, const char *key); /* by anything but the default */

size_t conf_line(const struct conf *c, const char *key); /* of the file; 0 = not from a file */

/* For checks that the table cannot make: "agent.yaml:7: key: text", without the place when the
 * value is not from a file; returns ERR_INVALID. */
NODISCARD enum err conf_wrong(const struct conf *c, const char *key, struct errmsg *why,
                              const char *text);

/* What the key takes, as it would be written: "0.1 to 1000", "none|exe|redact|full", "true or
 * false", "at most 8 entries"; "" for any text. Gives `text`, cut at its size. */
#define CONF_RANGE_TEXT 128
const char *conf_range(char *text, size_t size, const struct conf_key *k);

/* A configuration file with every key, its meaning, what it takes and its default. */
void conf_print_sample(struct buf *out, const struct conf_key *keys, size_t n_keys,
                       const char *title);

/* The same for --help. */
void conf_print_help(struct buf *out, const struct conf_key *keys, size_t n_keys);

#endif
