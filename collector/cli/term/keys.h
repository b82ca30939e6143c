/* Keys out of the bytes a terminal sends: characters of UTF-8, control characters, and the escape
 * sequences of VT terminals. Any bytes may come - a paste, noise of a line, the answer to a
 * question nobody asked -: unknown sequences are swallowed whole, none is held for longer than
 * KEYS_HELD bytes, and a paste whose end never comes is over after KEYS_PASTE_BYTES, or once
 * nothing came for KEYS_PASTE_WAIT_NS. Threads: one. */
#ifndef PROCFLEET_COLLECTOR_CLI_TERM_KEYS_H
#define PROCFLEET_COLLECTOR_CLI_TERM_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEYS_HELD 24
#define KEYS_OUT  2 /* most keys that one byte can end */

/* How long the rest of an escape sequence may take before what is there is Esc by itself. */
#define KEYS_WAIT_NS 50000000

#define KEYS_PASTE_BYTES   (64u << 10)
#define KEYS_PASTE_WAIT_NS 1000000000

enum key_kind {
    KEY_CHAR, /* `ch` is the code point */
    KEY_CTRL, /* `ch` is the letter, lower case */
    KEY_ENTER,
    KEY_ESC,
    KEY_TAB,
    KEY_BACKSPACE,
    KEY_DELETE,
    KEY_UP,
    KEY_DOWN,
    KEY_LEFT,
    KEY_RIGHT,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_HOME,
    KEY_END,
};

struct key {
    enum key_kind kind;
    uint32_t ch;
    bool pasted; /* part of a paste: text, and never a command */
};

enum keys_state { KEYS_PLAIN, KEYS_ESC, KEYS_CSI, KEYS_SS3, KEYS_UTF8 };

struct keys { /* zeroed to begin with */
    enum keys_state state;
    bool pasting;
    size_t pasted; /* bytes since the paste began */
    uint8_t held[KEYS_HELD];
    size_t n; /* of held; more were not kept when it is full */
    size_t need;
};

/* Returns how many keys the byte ended, in `out`. */
size_t keys_byte(struct keys *k, uint8_t byte, struct key out[KEYS_OUT]);

/* Whether something is begun that keys_idle would end. */
bool keys_begun(const struct keys *k);

/* How long nothing may come before keys_idle ends what is begun. */
int64_t keys_wait_ns(const struct keys *k);

/* Nothing came for so long: a lone Esc is a key, other beginnings are dropped, a paste is over. */
size_t keys_idle(struct keys *k, int64_t idle_ns, struct key out[KEYS_OUT]);

#endif
