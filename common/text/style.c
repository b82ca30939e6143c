#include "common/text/style.h"

#include <stdlib.h>
#include <string.h>

#include "common/os/os.h"

static enum { AUTO, ALWAYS, NEVER } chosen; /* set before threads are started */

enum err style_choose(const char *when)
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

bool style_wanted(void)
{
    const char *no = getenv("NO_COLOR");

    if (chosen != AUTO) {
        return chosen == ALWAYS;
    }
    return !(no && *no) && os_terminal_vt();
}

void style_put(struct buf *out, unsigned style, bool colours)
{
    buf_put_str(out, "\x1b[0");
    buf_put_str(out, style & STYLE_BOLD ? ";1" : "");
    buf_put_str(out, style & STYLE_DIM ? ";2" : "");
    buf_put_str(out, style & STYLE_REVERSE ? ";7" : "");
    if (colours && (style & STYLE_COLOURS)) {
        buf_printf(out, ";3%u", style >> 4 & 7);
    }
    buf_put_u8(out, 'm');
}

unsigned style_of_state(const char *word)
{
    static const struct {
        const char *word;
        unsigned style;
    } table[] = {
        {"connected", STYLE_GREEN},          {"silent", STYLE_YELLOW | STYLE_BOLD},
        {"clone", STYLE_RED | STYLE_BOLD},   {"expired", STYLE_RED | STYLE_BOLD},
        {"partial", STYLE_YELLOW},           {"ended", STYLE_DIM},
        {"revoked", STYLE_RED | STYLE_BOLD}, {"forgotten", STYLE_DIM},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(word, table[i].word) == 0) {
            return table[i].style;
        }
    }
    return STYLE_PLAIN;
}
