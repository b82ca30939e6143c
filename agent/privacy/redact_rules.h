/* Options that take a secret without saying so by their name, for each program that has them. Plain
 * data, for redact.c. */
#ifndef PROCFLEET_AGENT_PRIVACY_REDACT_RULES_H
#define PROCFLEET_AGENT_PRIVACY_REDACT_RULES_H

#include <stddef.h>
#include <stdint.h>

enum redact_take {
    REDACT_REST = 1 << 0,     /* the rest of the option's own word is the secret */
    REDACT_COLON = 1 << 1,    /* only what follows a ':' or '%' in the rest or the word ahead */
    REDACT_ANY_CASE = 1 << 2, /* of the option */
    REDACT_CLUSTER = 1 << 3,  /* also at the end of several letters: -sSu */
    REDACT_PREFIX = 1 << 4,   /* also a beginning of it, behind '-' or '/': -enco */
    REDACT_NAMED = 1 << 5, /* only once a secret's name has stood alone: reg add /v Password /d X */
    REDACT_ASSIGNED = 1 << 6, /* from here on what follows the '=' of any word is one */
    REDACT_SLASH = 1 << 7,    /* from here on user/SECRET@where is one */
};

struct redact_rule {
    const char *program; /* base names without .exe, with '|' between; met anywhere before */
    const char *option;  /* with '|' between; NULL: the program's own word */
    uint8_t take;        /* enum redact_take */
    uint8_t ahead;       /* the so manieth word ahead is the secret; 0 = none is, */
    uint8_t more;        /* and so many more behind it */
};

extern const struct redact_rule redact_rules[];
extern const size_t redact_n_rules;

#define REDACT_RULES_MAX 128

/* First letters of tokens; those after '?' only where a digit follows somewhere, being words too.
 */
extern const char *const redact_marks[];
extern const size_t redact_n_marks;

#endif
