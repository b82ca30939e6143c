#include "collector/ca/entry.h"

#include <string.h>

#include "tests/support/t.h"

#define TIME "2026-11-21T19:00:00.123456789Z"
#define HEX8 "0001020304050607"
#define HEX  "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf"
#define UUID "01234567-89ab-cdef-0123-456789abcdef"
#define CERT HEX " " UUID " agent " TIME " " TIME " web-01 -"

static const char *const good[] = {
    "issued " TIME " " CERT,
    "issued " TIME " " HEX " - query " TIME " " TIME " alice web-*",
    "issued " TIME " " HEX " - collector " TIME " " TIME " c1 -",
    "enrolled " TIME " " HEX8 " new " CERT,
    "enrolled " TIME " " HEX8 " again " CERT,
    "token " TIME " " HEX8 " " HEX " " TIME " web-?? new",
    "token " TIME " " HEX8 " " HEX " " TIME " - again",
    "withdrawn " TIME " " HEX8,
    "revoked " TIME " cert " HEX " key was stolen",
    "revoked " TIME " host " UUID " -",
    "revoked " TIME " user alice left",
};

static void entries_come_back_as_they_were(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct entry e;
        struct buf b;

        buf_init(&b, 1024);
        assert_ok(entry_get(&e, good[i], strlen(good[i])));
        assert_ok(entry_put(&b, &e));
        assert_string_equal(buf_cstr(&b), good[i]);
        buf_fini(&b);
    }
}

/* A reason may be any words, and a name any part of one. */
static void every_shorter_entry_is_refused_or_says_what_it_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        for (size_t n = 0; n < strlen(good[i]); n++) {
            struct entry e;
            struct buf b;

            if (entry_get(&e, good[i], n) != ERR_OK) {
                continue;
            }
            buf_init(&b, 1024);
            assert_ok(entry_put(&b, &e));
            assert_int_equal(b.n, n);
            assert_memory_equal(b.p, good[i], n);
            buf_fini(&b);
        }
    }
}

static void wrong_entries_are_refused(void **state)
{
    static const struct {
        const char *text;
        enum err e;
    } rows[] = {
        {"", ERR_CORRUPT},
        {"issued", ERR_CORRUPT},
        {"Issued " TIME " " CERT, ERR_VERSION},
        {"promoted " TIME " " CERT, ERR_VERSION},
        {"issued " TIME "  " CERT, ERR_CORRUPT},
        {"issued " TIME " " CERT " more", ERR_CORRUPT},
        {"issued " TIME " " CERT " ", ERR_CORRUPT},
        {"issued yesterday " CERT, ERR_CORRUPT},
        {"issued 2026-13-21T19:00:00.123456789Z " CERT, ERR_CORRUPT},
        {"issued " TIME " " HEX "00 - query " TIME " " TIME " alice -", ERR_CORRUPT},
        {"issued " TIME " " HEX " - king " TIME " " TIME " alice -", ERR_CORRUPT},
        {"issued " TIME " " HEX " x query " TIME " " TIME " alice -", ERR_CORRUPT},
        {"issued " TIME " " HEX " - query " TIME " " TIME " al(ice -", ERR_CORRUPT},
        {"issued " TIME " " HEX " - query " TIME " " TIME " alice web,db", ERR_CORRUPT},
        {"token " TIME " " HEX8 " " HEX " " TIME " web-01 maybe", ERR_CORRUPT},
        {"revoked " TIME " king alice left", ERR_CORRUPT},
        {"revoked " TIME " host - left", ERR_CORRUPT},
        {"revoked " TIME " user alice", ERR_CORRUPT},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct entry e;

        assert_err(entry_get(&e, rows[i].text, strlen(rows[i].text)), rows[i].e);
    }
}

static void what_cannot_stand_in_a_line_is_not_written(void **state)
{
    static const struct entry rows[] = {
        {.kind = ENTRY_ISSUED, .who = {.name = "a b"}},
        {.kind = ENTRY_ISSUED, .who = {.name = "a", .scope = "x y"}},
        {.kind = ENTRY_ISSUED, .who = {.name = "a", .roles = NET_QUERY | NET_ADMIN}},
        {.kind = ENTRY_TOKEN, .names = "web 01"},
        {.kind = ENTRY_REVOKED, .target = ENTRY_USER, .who = {.name = "a"}, .reason = "a\nb"},
        {.kind = ENTRY_REVOKED, .target = ENTRY_USER, .who = {.name = ""}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct buf b;

        buf_init(&b, 1024);
        assert_err(entry_put(&b, &rows[i]), ERR_INVALID);
        buf_fini(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_come_back_as_they_were),
        cmocka_unit_test(every_shorter_entry_is_refused_or_says_what_it_says),
        cmocka_unit_test(wrong_entries_are_refused),
        cmocka_unit_test(what_cannot_stand_in_a_line_is_not_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
