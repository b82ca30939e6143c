#include "common/text/paint.h"

#include <stdlib.h>
#include <string.h>

#include "common/os/os.h"

static enum { AUTO, ALWAYS, NEVER } chosen; /* set before threads are started */

enum err paint_choose(const char *when)
{
    static const char *const words[] = {"auto", "always", "never"};

    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(when, words[i]) == 0) {
            chosen = i == 0 ? AUTO : i == 1 ? ALWAYS : NEVER;
            return ERR_OK;
        }
    }
    return ERR_USAGE;
}

bool paint_wanted(void)
{
    const char *no = getenv("NO_COLOR");

    if (chosen != AUTO) {
        return chosen == ALWAYS;
    }
    return !(no && *no) && os_terminal_vt();
}

void paint_put(struct buf *out, unsigned style, bool colours)
{
    buf_put_str(out, "\x1b[0");
    buf_put_str(out, style & PAINT_BOLD ? ";1" : "");
    buf_put_str(out, style & PAINT_DIM ? ";2" : "");
    buf_put_str(out, style & PAINT_REVERSE ? ";7" : "");
    if (colours && (style & PAINT_COLOURS)) {
        buf_printf(out, ";3%u", style >> 4 & 7);
    }
    buf_put_u8(out, 'm');
}

unsigned paint_of_state(const char *word)
{
    static const struct {
        const char *word;
        unsigned style;
    } table[] = {
        {"connected", PAINT_GREEN},          {"silent", PAINT_YELLOW | PAINT_BOLD},
        {"clone", PAINT_RED | PAINT_BOLD},   {"expired", PAINT_RED | PAINT_BOLD},
        {"partial", PAINT_YELLOW},           {"ended", PAINT_DIM},
        {"revoked", PAINT_RED | PAINT_BOLD}, {"forgotten", PAINT_DIM},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(word, table[i].word) == 0) {
            return table[i].style;
        }
    }
    return PAINT_PLAIN;
}
