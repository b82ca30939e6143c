#include "collector/cli/term/keys.h"

#include <assert.h>
#include <string.h>

#define ESC 0x1B

static size_t key_give(const struct keys *k, struct key *out, enum key_kind kind, uint32_t ch)
{
    *out = (struct key){.kind = kind, .ch = ch, .pasted = k->pasting};
    return 1;
}

static void keys_begin(struct keys *k, enum keys_state state)
{
    k->state = state;
    k->n = 0;
    k->need = 0;
}

/* The first byte of a character of several; its length says how many follow. */
static size_t begin_utf8(struct keys *k, uint8_t byte)
{
    if (byte < 0xC2 || byte > 0xF4) {
        return 0; /* the middle of one, or no UTF-8: dropped */
    }
    keys_begin(k, KEYS_UTF8);
    k->held[k->n++] = byte;
    k->need = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return 0;
}

static size_t key_plain(struct keys *k, uint8_t byte, struct key *out)
{
    keys_begin(k, KEYS_PLAIN);
    switch (byte) {
    case ESC:
        keys_begin(k, KEYS_ESC);
        return 0;
    case '\r':
    case '\n':
        return key_give(k, out, KEY_ENTER, 0);
    case '\t':
        return key_give(k, out, KEY_TAB, 0);
    case 0x08:
    case 0x7F:
        return key_give(k, out, KEY_BACKSPACE, 0);
    case 0:
        return 0;
    default:
        break;
    }
    if (byte >= 0x80) {
        return begin_utf8(k, byte);
    }
    if (byte < 0x20) {
        return byte <= 26 ? key_give(k, out, KEY_CTRL, 'a' + byte - 1u) : 0;
    }
    return key_give(k, out, KEY_CHAR, byte);
}

static size_t keys_in_utf8(struct keys *k, uint8_t byte, struct key *out)
{
    uint32_t c;

    if ((byte & 0xC0) != 0x80) {
        return key_plain(k, byte, out);
    }
    assert(k->n < k->need && k->need <= sizeof k->held);
    k->held[k->n++] = byte;
    if (k->n < k->need) {
        return 0;
    }
    c = k->held[0] & (0xFFu >> (k->need + 1));
    for (size_t i = 1; i < k->need; i++) {
        c = c << 6 | (k->held[i] & 0x3F);
    }
    keys_begin(k, KEYS_PLAIN);
    if (c < 0xA0 || (c >= 0xD800 && c < 0xE000) || c > 0x10FFFF) {
        return 0; /* a control character in disguise, half a pair, beyond the last */
    }
    return key_give(k, out, KEY_CHAR, c);
}

/* The key that a final letter stands for, after "ESC [" as after "ESC O". */
static size_t key_by_letter(const struct keys *k, uint8_t final, struct key *out)
{
    static const struct {
        char final;
        enum key_kind kind;
    } table[] = {{'A', KEY_UP},   {'B', KEY_DOWN}, {'C', KEY_RIGHT}, {'D', KEY_LEFT},
                 {'H', KEY_HOME}, {'F', KEY_END},  {'M', KEY_ENTER}};

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (table[i].final == (char) final) {
            return key_give(k, out, table[i].kind, 0);
        }
    }
    return 0;
}

/* "ESC [ number ~"; also where a paste begins and ends. */
static size_t key_by_number(struct keys *k, struct key *out)
{
    static const struct {
        unsigned number;
        enum key_kind kind;
    } table[] = {{1, KEY_HOME},      {3, KEY_DELETE}, {4, KEY_END}, {5, KEY_PAGE_UP},
                 {6, KEY_PAGE_DOWN}, {7, KEY_HOME},   {8, KEY_END}};
    unsigned number = 0;

    for (size_t i = 0; i < k->n && k->held[i] >= '0' && k->held[i] <= '9' && number < 1000; i++) {
        number = number * 10 + k->held[i] - '0';
    }
    if (number == 200 || number == 201) {
        k->pasting = number == 200;
        k->pasted = 0;
        return 0;
    }
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (table[i].number == number) {
            return key_give(k, out, table[i].kind, 0);
        }
    }
    return 0;
}

static size_t in_csi(struct keys *k, uint8_t byte, struct key *out)
{
    size_t n;

    if (byte < 0x20 || byte > 0x7E) { /* broken off */
        return key_plain(k, byte, out);
    }
    if (byte < 0x40) {
        if (k->n < KEYS_HELD) {
            k->held[k->n++] = byte;
        }
        return 0;
    }
    n = k->n == KEYS_HELD ? 0 : byte == '~' ? key_by_number(k, out) : key_by_letter(k, byte, out);
    keys_begin(k, KEYS_PLAIN);
    return n;
}

/* Behind Esc: the beginning of a sequence, or a key of its own. */
static size_t in_esc(struct keys *k, uint8_t byte, struct key *out)
{
    size_t n;

    if (byte == '[' || byte == 'O') {
        keys_begin(k, byte == '[' ? KEYS_CSI : KEYS_SS3);
        return 0;
    }
    n = key_give(k, out, KEY_ESC, 0);
    return n + key_plain(k, byte, out + n);
}

size_t keys_byte(struct keys *k, uint8_t byte, struct key out[KEYS_OUT])
{
    if (k->pasting && k->pasted++ >= KEYS_PASTE_BYTES) {
        k->pasting = false;
    }
    switch (k->state) {
    case KEYS_ESC:
        return in_esc(k, byte, out);
    case KEYS_CSI:
        return in_csi(k, byte, out);
    case KEYS_SS3:
        keys_begin(k, KEYS_PLAIN);
        return byte < 0x20 ? key_plain(k, byte, out) : key_by_letter(k, byte, out);
    case KEYS_UTF8:
        return keys_in_utf8(k, byte, out);
    default:
        return key_plain(k, byte, out);
    }
}

bool keys_begun(const struct keys *k)
{
    return k->state != KEYS_PLAIN || k->pasting;
}

int64_t keys_wait_ns(const struct keys *k)
{
    return k->state != KEYS_PLAIN ? KEYS_WAIT_NS : KEYS_PASTE_WAIT_NS;
}

size_t keys_idle(struct keys *k, int64_t idle_ns, struct key out[KEYS_OUT])
{
    enum keys_state was = k->state;

    if (idle_ns >= KEYS_PASTE_WAIT_NS) {
        k->pasting = false;
    }
    if (idle_ns < KEYS_WAIT_NS) {
        return 0;
    }
    keys_begin(k, KEYS_PLAIN);
    return was == KEYS_ESC ? key_give(k, out, KEY_ESC, 0) : 0;
}
