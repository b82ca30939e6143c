/* Bold and colours of text for people. They are an ornament: no information is in them alone. */
#ifndef PROCFLEET_COMMON_TEXT_STYLE_H
#define PROCFLEET_COMMON_TEXT_STYLE_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/err.h"

/* A style: any of the flags and at most one colour. */
enum style {
    STYLE_PLAIN = 0,
    STYLE_BOLD = 1,
    STYLE_DIM = 2,
    STYLE_REVERSE = 4,
    STYLE_RED = 1 << 4,
    STYLE_GREEN = 2 << 4,
    STYLE_YELLOW = 3 << 4,
    STYLE_CYAN = 6 << 4,
};

#define STYLE_COLOURS 0xF0u

/* The choice of this process, made once before anything is printed: "auto" (on terminals, unless
 * NO_COLOR is set or TERM is dumb), "always" or "never". Errors: ERR_USAGE (none of them) */
NODISCARD enum err style_choose(const char *when);

/* Whether standard output takes colours. */
bool style_wanted(void);

/* What makes a terminal write in this style; STYLE_PLAIN ends every other. Without `colours` flags
 * still count. */
void style_put(struct buf *out, unsigned style, bool colours);

/* The style of a word that says how something fares - silent, ended, expired, partial -; plain for
 * all others. */
unsigned style_of_state(const char *word);

#endif
