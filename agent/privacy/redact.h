/* A command line without its secrets: everything stays but values, which become ***, of
 *   names that contain one of the words, or end in pass or auth: --password=X, --password X,
 *   /token:X, PGPASSWORD=X, "api-key": "X", X-Api-Key: X, $secret = X
 *   bare words: user.password X, IDENTIFIED BY X, PASSWORD X
 *   options known to take a secret, of programs that stand anywhere in the line (redact_rules.c):
 *   mysql -pX, sshpass -p X, sqlcmd -P X, curl -u user:X, net use \\server\share X, sqlplus u/X@db
 *   scheme://user:X@host, https://X@host
 *   private keys in their armour
 *   and tokens that show by their first letters: ghp_X, xoxb-X, AKIAX, eyJX
 * A value may begin with a dash unless it is an option itself. A value in quotes is hidden to its
 * closing quote, a backslash before the quote respected; one without ends at a blank. Threads: one
 * owner of the struct. */
#ifndef PROCFLEET_AGENT_PRIVACY_REDACT_H
#define PROCFLEET_AGENT_PRIVACY_REDACT_H

#include <stdbool.h>

#include "agent/privacy/redact_word.h"
#include "common/base/err.h"
#include "common/model/model.h"

struct redact_index {
    bool made; /* by the first line */
    struct redact_word_list words;
    struct redact_word_set programs[128], tokens[128]; /* of rules and marks, by first letter */
};

struct redact {
    const char *const *words; /* lower or upper case alike, 64 at most */
    size_t n_words;
    char *out; /* what does not fit is cut, never inside a character */
    size_t room, n;
    bool cut;
    bool open_end;   /* of the lines that come the end is missing: what is hidden goes on there */
    uint64_t hidden; /* values; grows from call to call */
    struct redact_index index;
};

/* Appends `line` to r->out. */
void redact_line(struct redact *r, struct str line);

/* Whether a value under this name is one to hide. */
bool redact_is_secret(struct redact *r, struct str name);

/* Appends n bytes as they are. */
void redact_put(struct redact *r, const char *p, size_t n);

/* The length of the first argument. */
size_t redact_first(struct str line);

#endif
