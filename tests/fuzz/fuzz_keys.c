/* Any bytes from a terminal: keys are whole characters, nothing is held for ever, and what follows
 * a paste is not taken for one. */
#include <stdlib.h>

#include "collector/cli/term/keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void judge(const struct keys *k, const struct key *out, size_t n)
{
    if (n > KEYS_OUT || k->n > KEYS_HELD) {
        abort();
    }
    for (size_t i = 0; i < n; i++) {
        bool text = out[i].kind == KEY_CHAR;

        if (text && (out[i].ch < 0x20 || out[i].ch == 0x7F || out[i].ch > 0x10FFFF ||
                     (out[i].ch >= 0x80 && out[i].ch < 0xA0))) {
            abort();
        }
        if (out[i].kind == KEY_CTRL && (out[i].ch < 'a' || out[i].ch > 'z')) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static const uint8_t end[] = {0x1B, '[', '2', '0', '1', '~'};
    struct keys k = {.state = KEYS_PLAIN};
    struct key out[KEYS_OUT];

    for (size_t i = 0; i < n; i++) {
        judge(&k, out, keys_byte(&k, p[i], out));
        if (p[i] == 0xFF) { /* a pause */
            judge(&k, out, keys_idle(&k, KEYS_WAIT_NS, out));
        }
    }
    judge(&k, out, keys_idle(&k, KEYS_PASTE_WAIT_NS, out));
    for (size_t i = 0; i < sizeof end; i++) {
        judge(&k, out, keys_byte(&k, end[i], out));
    }
    if (keys_begun(&k) || keys_byte(&k, 'q', out) != 1 || out[0].ch != 'q' || out[0].pasted) {
        abort();
    }
    return 0;
}
