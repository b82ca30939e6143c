#include "collector/cli/term/keys.h"

#include <string.h>

#include "tests/support/t.h"

#define MAX 64

static size_t feed(struct keys *k, const char *bytes, size_t n, struct key *out)
{
    size_t got = 0;

    for (size_t i = 0; i < n; i++) {
        assert_true(got + KEYS_OUT <= MAX);
        got += keys_byte(k, (uint8_t)bytes[i], out + got);
    }
    return got;
}

static void sequences_of_terminals_are_keys(void **state)
{
    static const struct {
        const char *bytes;
        enum key_kind kind;
        uint32_t ch;
    } table[] = {
        {"q", KEY_CHAR, 'q'},
        {"\xC3\xA9", KEY_CHAR, 0xE9},
        {"\xF0\x9F\x98\x80", KEY_CHAR, 0x1F600},
        {"\r", KEY_ENTER, 0},
        {"\x03", KEY_CTRL, 'c'},
        {"\x7f", KEY_BACKSPACE, 0},
        {"\b", KEY_BACKSPACE, 0},
        {"\t", KEY_TAB, 0},
        {"\x1b[A", KEY_UP, 0},
        {"\x1bOA", KEY_UP, 0},
        {"\x1b[1;5B", KEY_DOWN, 0},
        {"\x1b[C", KEY_RIGHT, 0},
        {"\x1b[D", KEY_LEFT, 0},
        {"\x1b[5~", KEY_PAGE_UP, 0},
        {"\x1b[6~", KEY_PAGE_DOWN, 0},
        {"\x1b[H", KEY_HOME, 0},
        {"\x1b[1~", KEY_HOME, 0},
        {"\x1b[7~", KEY_HOME, 0},
        {"\x1b[F", KEY_END, 0},
        {"\x1b[4~", KEY_END, 0},
        {"\x1bOF", KEY_END, 0},
        {"\x1b[3~", KEY_DELETE, 0},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct key out[MAX];
        struct keys k = {KEYS_PLAIN};

        assert_int_equal(feed(&k, table[i].bytes, strlen(table[i].bytes), out), 1);
        assert_int_equal(out[0].kind, table[i].kind);
        assert_int_equal(out[0].ch, table[i].ch);
        assert_false(keys_begun(&k));
    }
}

static void unknown_sequences_are_swallowed_whole(void **state)
{
    static const char *const table[] = {
        "\x1b[?64;1;2c",
        "\x1b[24;80R",
        "\x1b[15~",
        "\x1bOP",
        "\x1b[<0;10;20m",
        "\x1b[1234567890123456789012345678901234567890A", /* longer than is held */
        "\xC0\xAF",
        "\xED\xA0\x80",
        "\xC2\x9B",
        "\x1c",
        "\xFF",
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct key out[MAX];
        struct keys k = {KEYS_PLAIN};

        assert_int_equal(feed(&k, table[i], strlen(table[i]), out), 0);
        assert_int_equal(feed(&k, "x", 1, out), 1);
        assert_int_equal(out[0].ch, 'x');
    }
}

static void esc_alone_is_a_key_once_nothing_follows(void **state)
{
    struct key out[MAX];
    struct keys k = {KEYS_PLAIN};

    assert_int_equal(feed(&k, "\x1b", 1, out), 0);
    assert_true(keys_begun(&k));
    assert_int_equal(keys_idle(&k, KEYS_WAIT_NS - 1, out), 0); /* more may come */
    assert_int_equal(keys_idle(&k, KEYS_WAIT_NS, out), 1);
    assert_int_equal(out[0].kind, KEY_ESC);
    assert_false(keys_begun(&k));
    assert_int_equal(keys_idle(&k, KEYS_WAIT_NS, out), 0);

    assert_int_equal(feed(&k, "\x1bq", 2, out), 2); /* both came at once */
    assert_int_equal(out[0].kind, KEY_ESC);
    assert_int_equal(out[1].ch, 'q');
}

static void the_beginning_of_a_sequence_is_dropped_once_nothing_follows(void **state)
{
    static const char *const table[] = {"\x1b[", "\x1b[1;", "\x1bO", "\xE2\x82"};

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct key out[MAX];
        struct keys k = {KEYS_PLAIN};

        assert_int_equal(feed(&k, table[i], strlen(table[i]), out), 0);
        assert_int_equal(keys_idle(&k, KEYS_WAIT_NS, out), 0);
        assert_int_equal(feed(&k, "A", 1, out), 1);
        assert_int_equal(out[0].kind, KEY_CHAR);
    }
}

static void what_is_pasted_is_marked_and_no_longer(void **state)
{
    static const char bytes[] = "a\x1b[200~qq\r\x1b[201~b";
    struct key out[MAX];
    struct keys k = {KEYS_PLAIN};

    assert_int_equal(feed(&k, bytes, sizeof bytes - 1, out), 5);
    assert_false(out[0].pasted);
    assert_true(out[1].pasted);
    assert_true(out[2].pasted);
    assert_true(out[3].pasted);
    assert_false(out[4].pasted);
}

static void a_paste_that_does_not_end_is_over_once_nothing_follows(void **state)
{
    struct key out[MAX];
    struct keys k = {KEYS_PLAIN};

    assert_int_equal(feed(&k, "\x1b[200~q", 7, out), 1);
    assert_true(out[0].pasted);
    assert_true(keys_begun(&k));
    assert_int_equal(keys_wait_ns(&k), KEYS_PASTE_WAIT_NS);
    assert_int_equal(keys_idle(&k, KEYS_PASTE_WAIT_NS - 1, out), 0); /* a slow line */
    assert_int_equal(feed(&k, "q", 1, out), 1);
    assert_true(out[0].pasted);

    assert_int_equal(keys_idle(&k, KEYS_PASTE_WAIT_NS, out), 0);
    assert_false(keys_begun(&k));
    assert_int_equal(feed(&k, "q", 1, out), 1);
    assert_false(out[0].pasted);
}

static void a_paste_that_does_not_end_is_over_after_so_many_bytes(void **state)
{
    struct key out[MAX];
    struct keys k = {KEYS_PLAIN};

    for (int round = 0; round < 2; round++) { /* each paste has all of them */
        assert_int_equal(feed(&k, "\x1b[200~", 6, out), 0);
        for (size_t i = 0; i < KEYS_PASTE_BYTES; i++) {
            assert_int_equal(feed(&k, "q", 1, out), 1);
            assert_true(out[0].pasted);
        }
    }
    assert_int_equal(feed(&k, "q", 1, out), 1);
    assert_false(out[0].pasted);
    assert_false(keys_begun(&k));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_of_terminals_are_keys),
        cmocka_unit_test(unknown_sequences_are_swallowed_whole),
        cmocka_unit_test(esc_alone_is_a_key_once_nothing_follows),
        cmocka_unit_test(the_beginning_of_a_sequence_is_dropped_once_nothing_follows),
        cmocka_unit_test(what_is_pasted_is_marked_and_no_longer),
        cmocka_unit_test(a_paste_that_does_not_end_is_over_once_nothing_follows),
        cmocka_unit_test(a_paste_that_does_not_end_is_over_after_so_many_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
