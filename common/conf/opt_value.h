/* What an option takes, read from its text in the table (opt.h says how it is written), for those
 * that check it, complete it or describe it. Threads: any; nothing is kept. */
#ifndef PROCFLEET_COMMON_CONF_OPT_VALUE_H
#define PROCFLEET_COMMON_CONF_OPT_VALUE_H

#include "common/conf/opt.h"

enum opt_kind {
    OPT_NOTHING, /* but the words */
    OPT_TEXT,    /* anything */
    OPT_FILE,    /* FILE */
    OPT_DIR,     /* DIR */
    OPT_COMMAND, /* COMMAND: of the program */
    OPT_HOST,    /* HOST, HOST[:PORT], HOST:PORT */
    OPT_SETTING, /* KEY=VALUE: the words are the keys */
    OPT_NUMBER,  /* N, PID, TID: decimal, or 0x and hexadecimal */
    OPT_DECIMAL, /* MS, FACTOR: 1500, 2733.175 */
    OPT_SPAN,    /* SPAN: 10s */
    OPT_TIME,    /* TIME: 5m (before now), or 2026-11-21T09:00:00Z */
};

/* Names that are safe in a shell's list of words, of CSV whose first field is a text: a host may be
 * called anything. */
#define OPT_SAFE_NAMES "sed -n '2,$s/^\"\\([A-Za-z0-9][A-Za-z0-9._-]*\\)\".*/\\1/p'"

#define OPT_WORDS_MAX 224

struct opt_takes {
    enum opt_kind kind[4]; /* n_kinds of them: it is one of the words or of these */
    size_t n_kinds;
    bool list;     /* several with commas */
    bool many;     /* operands: several words */
    bool optional; /* operands: may be missing */
    size_t n_words;
    const char *words[OPT_WORDS_MAX]; /* static, or in text */
    char text[256];
};

/* `value` as in the table, NULL takes nothing. Tables are ours: too much in one is an assert. */
void opt_takes(struct opt_takes *out, const struct opt_command *cmd, const char *value);
bool opt_takes_kind(const struct opt_takes *t, enum opt_kind kind);

/* Whether `text` is what it may be; `what` names it in the error: "--limit". Errors: ERR_USAGE */
NODISCARD enum err opt_takes_check(const struct opt_takes *t, const char *what, const char *text,
                                   struct errmsg *why);

#endif
