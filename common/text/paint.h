/* Bold and colours of text for people. They are an ornament: nothing is told by them alone. */
#ifndef PROCFLEET_COMMON_TEXT_PAINT_H
#define PROCFLEET_COMMON_TEXT_PAINT_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/base/err.h"

/* A style: any of the flags and at most one colour. */
enum paint {
    PAINT_PLAIN = 0,
    PAINT_BOLD = 1,
    PAINT_DIM = 2,
    PAINT_REVERSE = 4,
    PAINT_RED = 1 << 4,
    PAINT_GREEN = 2 << 4,
    PAINT_YELLOW = 3 << 4,
    PAINT_CYAN = 6 << 4,
};

#define PAINT_COLOURS 0xF0u

/* The choice of this process, made once before anything is printed: "auto" (on terminals, unless
 * NO_COLOR is set or TERM is dumb), "always" or "never". Errors: ERR_USAGE (none of them) */
NODISCARD enum err paint_choose(const char *when);

/* Whether standard output takes colours. */
bool paint_wanted(void);

/* What makes a terminal write in this style; PAINT_PLAIN ends every other. Without `colours` flags
 * still count. */
void paint_put(struct buf *out, unsigned style, bool colours);

/* The style of a word that says how something fares - silent, ended, expired, partial -; plain for
 * all others. */
unsigned paint_of_state(const char *word);

#endif
