#include "tests/support/t.h"

#include <stdio.h>

#include "collector/console/assets.h"

static struct wire_web_reply ask(const char *path, const char *encoding, const char *etag)
{
    struct wire_web_request r = {.path = str_make(path),
                                 .accept_encoding = str_make(encoding),
                                 .if_none_match = str_make(etag)};
    struct wire_web_reply reply;

    assets_answer(&reply, &r);
    return reply;
}

static bool is(struct str s, const char *text)
{
    return str_eq(s, str_make(text));
}

static void the_page_is_in_the_program_and_fits_a_reply(void **state)
{
    size_t sum = 0;

    (void)state;
    assert_true(console_assets_n > 3);
    for (size_t i = 0; i < console_assets_n; i++) {
        const struct console_asset *a = &console_assets[i];

        assert_int_equal(strlen(a->hash), 12);
        assert_true(a->gzip_n > 18 && a->gzip[0] == 0x1f && a->gzip[1] == 0x8b);
        assert_true(a->gzip_n <= WIRE_WEB_BODY_MAX);
        sum += a->gzip_n;
    }
    assert_true(sum <= 150000);
}

static void every_asset_has_an_address_that_may_be_kept_for_a_year(void **state)
{
    char path[256];

    (void)state;
    for (size_t i = 0; i < console_assets_n; i++) {
        const struct console_asset *a = &console_assets[i];
        struct wire_web_reply r;

        snprintf(path, sizeof path, "/a/%s/%s", a->hash, a->name);
        r = ask(path, "gzip", "");
        if (strcmp(a->name, "index.html") == 0) {
            assert_int_equal(r.status, 404);
            r = ask("/", "gzip", "");
            assert_false(r.immutable);
        } else {
            assert_true(r.immutable);
        }
        assert_int_equal(r.status, 200);
        assert_true(is(r.encoding, "gzip") && is(r.type, a->type));
        assert_ptr_equal(r.body.p, a->gzip);
        assert_int_equal(r.body.n, a->gzip_n);
    }
}

static void other_addresses_are_not_found(void **state)
{
    static const char *const paths[] = {
        "",   "/a",           "/a/",   "/a/000000000000/app.js", "/x",          "/index.html",
        "//", "/a/../app.js", "/a/x/", "/api/v1/info",           "/style.css/", "/a/app.js"};

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_int_equal(ask(paths[i], "gzip", "").status, 404);
        assert_true(ask(paths[i], "gzip", "").body.n > 0);
    }
}

static void what_the_browser_has_is_not_sent_again(void **state)
{
    struct wire_web_reply first = ask("/", "", "");
    char tags[128];

    (void)state;
    snprintf(tags, sizeof tags, "\"0\", %.*s", (int)first.etag.n, first.etag.p);
    assert_int_equal(ask("/", "", tags).status, 304);
    assert_int_equal(ask("/", "", "*").status, 304);
    assert_int_equal(ask("/", "", "\"0\"").status, 200);
    assert_int_equal(ask("/", "", tags).body.n, 0);
}

static void a_browser_that_refuses_gzip_is_told_so(void **state)
{
    static const struct {
        const char *accept;
        uint32_t status;
    } rows[] = {
        {"", 200},
        {"gzip", 200},
        {"br, GZIP", 200},
        {"identity", 406},
        {"*", 200},
        {"gzip;q=0, *", 406},
        {"gzip; q=0.5", 200},
        {"gzip ; q=0.000", 406},
        {"*;q=0", 406},
        {"deflate, x-gzip", 200},
        {",,", 406},
        {"gzipped", 406},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(ask("/", rows[i].accept, "").status, rows[i].status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_is_in_the_program_and_fits_a_reply),
        cmocka_unit_test(every_asset_has_an_address_that_may_be_kept_for_a_year),
        cmocka_unit_test(other_addresses_are_not_found),
        cmocka_unit_test(what_the_browser_has_is_not_sent_again),
        cmocka_unit_test(a_browser_that_refuses_gzip_is_told_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
