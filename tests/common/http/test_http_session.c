#include "common/http/http_session.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/t.h"

#define BEGIN_NS  (1000 * CLK_S)
#define HOUR_NS   (3600 * CLK_S)
#define UTC_OF(m) ((m) + 1000000 * CLK_S)

static struct http_session_table *open_table(void)
{
    struct http_session_table *t;

    assert_ok(http_session_create(&t, HTTP_SESSION_LIFE_NS));
    return t;
}

static struct http_session_now at(int64_t mono_ns)
{
    return (struct http_session_now){mono_ns, UTC_OF(mono_ns)};
}

static struct net_identity holder(uint8_t n)
{
    struct net_identity who = {.roles = NET_QUERY, .fingerprint = {n}};

    (void)snprintf(who.name, sizeof who.name, "holder-%u", n);
    return who;
}

static struct http_session_login log_in(struct http_session_table *t, uint8_t n, int64_t ns)
{
    struct net_identity who = holder(n);
    struct http_session_login login;
    char ticket[HTTP_SESSION_TEXT];

    assert_ok(http_session_ticket(t, &who, at(ns), ticket));
    assert_ok(http_session_login(t, str_make(ticket), "127.0.0.1", at(ns), &login));
    return login;
}

static enum err enter(struct http_session_table *t, const char *cookie, const char *key,
                      const char *bearer, int64_t ns, uint64_t *id)
{
    const struct http_session_proof proof = {str_make(cookie), str_make(key), str_make(bearer)};
    const struct net_identity *who;
    uint64_t other;

    return http_session_enter(t, &proof, at(ns), id ? id : &other, &who);
}

static void a_ticket_becomes_a_session_once(void **state)
{
    struct http_session_table *t = open_table();
    struct net_identity who = holder(1);
    struct http_session_login login, again;
    char ticket[HTTP_SESSION_TEXT];

    (void)state;
    assert_ok(http_session_ticket(t, &who, at(BEGIN_NS), ticket));
    assert_int_equal(strspn(ticket, "0123456789abcdef"), 32);
    assert_ok(http_session_login(t, str_make(ticket), "::1", at(BEGIN_NS), &login));
    assert_string_equal(login.who.name, "holder-1");
    assert_int_equal(login.until_ns, UTC_OF(BEGIN_NS) + HTTP_SESSION_LIFE_NS);
    assert_string_not_equal(login.cookie, login.key);
    assert_err(http_session_login(t, str_make(ticket), "::1", at(BEGIN_NS), &again), ERR_ACCESS);
    assert_ok(enter(t, login.cookie, login.key, "", BEGIN_NS, NULL));
    http_session_destroy(t);
}

static void a_ticket_is_good_for_a_minute(void **state)
{
    struct http_session_table *t = open_table();
    struct net_identity who = holder(1);
    struct http_session_login login;
    char ticket[2][HTTP_SESSION_TEXT];

    (void)state;
    assert_ok(http_session_ticket(t, &who, at(BEGIN_NS), ticket[0]));
    assert_ok(http_session_ticket(t, &who, at(BEGIN_NS), ticket[1]));
    assert_ok(http_session_login(t, str_make(ticket[0]), "a",
                                 at(BEGIN_NS + HTTP_SESSION_TICKET_NS - 1), &login));
    assert_err(http_session_login(t, str_make(ticket[1]), "a",
                                  at(BEGIN_NS + HTTP_SESSION_TICKET_NS), &login),
               ERR_ACCESS);
    http_session_destroy(t);
}

static void both_halves_are_needed_and_of_one_session(void **state)
{
    struct http_session_table *t = open_table();
    struct http_session_login a = log_in(t, 1, BEGIN_NS), b = log_in(t, 2, BEGIN_NS);

    (void)state;
    assert_ok(enter(t, a.cookie, a.key, "", BEGIN_NS, NULL));
    assert_err(enter(t, a.cookie, "", "", BEGIN_NS, NULL), ERR_ACCESS);
    assert_err(enter(t, "", a.key, "", BEGIN_NS, NULL), ERR_ACCESS);
    assert_err(enter(t, "", "", "", BEGIN_NS, NULL), ERR_ACCESS);
    assert_err(enter(t, a.key, a.cookie, "", BEGIN_NS, NULL), ERR_ACCESS);
    assert_err(enter(t, a.cookie, b.key, "", BEGIN_NS, NULL), ERR_ACCESS);
    assert_err(enter(t, a.cookie, a.key, a.key, BEGIN_NS, NULL), ERR_ACCESS); /* no token */
    http_session_destroy(t);
}

static void a_session_ends_by_age_by_disuse_and_with_its_certificate(void **state)
{
    struct http_session_table *t = open_table();
    struct http_session_login a = log_in(t, 1, BEGIN_NS), b;
    struct net_identity who = holder(2);
    char ticket[HTTP_SESSION_TEXT];
    int64_t ns = BEGIN_NS;

    (void)state;
    for (; ns < BEGIN_NS + HTTP_SESSION_LIFE_NS; ns += HTTP_SESSION_IDLE_NS - 1) {
        assert_ok(enter(t, a.cookie, a.key, "", ns, NULL));
    }
    assert_err(enter(t, a.cookie, a.key, "", BEGIN_NS + HTTP_SESSION_LIFE_NS, NULL), ERR_ACCESS);

    a = log_in(t, 1, BEGIN_NS);
    assert_err(enter(t, a.cookie, a.key, "", BEGIN_NS + HTTP_SESSION_IDLE_NS, NULL), ERR_ACCESS);

    who.not_after_ns = UTC_OF(BEGIN_NS) + 10 * CLK_S;
    assert_ok(http_session_ticket(t, &who, at(BEGIN_NS), ticket));
    assert_ok(http_session_login(t, str_make(ticket), "a", at(BEGIN_NS), &b));
    assert_int_equal(b.until_ns, who.not_after_ns);
    assert_ok(enter(t, b.cookie, b.key, "", BEGIN_NS + 10 * CLK_S - 1, NULL));
    assert_err(enter(t, b.cookie, b.key, "", BEGIN_NS + 10 * CLK_S, NULL), ERR_ACCESS);
    assert_err(http_session_ticket(t, &who, at(BEGIN_NS + 10 * CLK_S), ticket), ERR_ACCESS);
    http_session_destroy(t);
}

static const char *unwanted;
static char ended[200];

static const char *keep(void *ctx, const struct net_identity *who)
{
    (void)ctx;
    return unwanted && strcmp(who->name, unwanted) == 0 ? "revoked" : NULL;
}

static void on_end(void *ctx, const struct net_identity *who, const char *reason)
{
    (void)ctx;
    (void)snprintf(ended, sizeof ended, "%s: %s", who->name, reason);
}

static void a_sweep_ends_whom_nobody_wants_with_their_tickets(void **state)
{
    struct http_session_table *t = open_table();
    struct http_session_login a = log_in(t, 1, BEGIN_NS), b = log_in(t, 2, BEGIN_NS);
    struct net_identity who = holder(1);
    struct http_session_login login;
    char ticket[HTTP_SESSION_TEXT];
    uint64_t id;

    (void)state;
    assert_ok(http_session_ticket(t, &who, at(BEGIN_NS), ticket));
    unwanted = "holder-1";
    http_session_sweep(t, at(BEGIN_NS), keep, on_end, NULL);
    assert_string_equal(ended, "holder-1: revoked");
    assert_err(enter(t, a.cookie, a.key, "", BEGIN_NS, NULL), ERR_ACCESS);
    assert_err(http_session_login(t, str_make(ticket), "a", at(BEGIN_NS), &login), ERR_ACCESS);
    assert_ok(enter(t, b.cookie, b.key, "", BEGIN_NS, &id));
    assert_int_equal(http_session_count(t), 1);
    http_session_logout(t, id, on_end, NULL);
    assert_string_equal(ended, "holder-2: logout");
    assert_false(http_session_lives(t, id, at(BEGIN_NS)));
    log_in(t, 3, BEGIN_NS);
    http_session_sweep(t, at(BEGIN_NS + HTTP_SESSION_IDLE_NS), NULL, on_end, NULL);
    assert_string_equal(ended, "holder-3: not used");
    http_session_destroy(t);
}

static void wrong_tickets_are_counted_by_address_and_a_right_one_is_taken_all_the_same(void **state)
{
    static const char wrong[] = "00000000000000000000000000000000";
    struct http_session_table *t = open_table();
    struct http_session_login login;
    struct net_identity who = holder(1);
    char ticket[HTTP_SESSION_TEXT];

    (void)state;
    for (unsigned i = 0; i < 3 * HTTP_SESSION_LOGINS; i++) {
        assert_err(http_session_login(t, str_make(wrong), "a", at(BEGIN_NS + i), &login),
                   i < HTTP_SESSION_LOGINS ? ERR_ACCESS : ERR_FULL);
    }
    assert_err(http_session_login(t, str_make(wrong), "b", at(BEGIN_NS), &login), ERR_ACCESS);
    assert_err(http_session_login(t, str_make("short"), "b", at(BEGIN_NS), &login), ERR_ACCESS);
    assert_ok(http_session_ticket(t, &who, at(BEGIN_NS), ticket));
    assert_ok(http_session_login(t, str_make(ticket), "a", at(BEGIN_NS), &login));
    assert_err(http_session_login(t, str_make(wrong), "a", at(BEGIN_NS + 60 * CLK_S), &login),
               ERR_ACCESS);
    for (unsigned i = 0; i < 1000; i++) { /* more addresses than there is room for */
        char address[64];

        (void)snprintf(address, sizeof address, "10.0.%u.%u", i / 250, i % 250);
        assert_err(http_session_login(t, str_make(wrong), address, at(BEGIN_NS + i), &login),
                   ERR_ACCESS);
    }
    http_session_destroy(t);
}

static void a_session_asks_so_often_a_second(void **state)
{
    struct http_session_table *t = open_table();
    struct http_session_login a = log_in(t, 1, BEGIN_NS), b = log_in(t, 1, BEGIN_NS);
    unsigned asked = 0;

    (void)state;
    for (unsigned i = 0; i < HTTP_SESSION_RATE; i++) {
        assert_ok(enter(t, a.cookie, a.key, "", BEGIN_NS, NULL));
    }
    assert_err(enter(t, a.cookie, a.key, "", BEGIN_NS, NULL), ERR_FULL);
    assert_ok(enter(t, b.cookie, b.key, "", BEGIN_NS, NULL)); /* another's is its own */
    assert_ok(enter(t, a.cookie, a.key, "", BEGIN_NS + CLK_S / HTTP_SESSION_RATE, NULL));
    for (int64_t ns = BEGIN_NS + CLK_S; ns < BEGIN_NS + 11 * CLK_S; ns += 7 * CLK_MS) {
        asked += enter(t, a.cookie, a.key, "", ns, NULL) == ERR_OK;
    }
    assert_in_range(asked, 10 * HTTP_SESSION_RATE, 11 * HTTP_SESSION_RATE);
    http_session_destroy(t);
}

static void so_many_questions_of_a_session_are_under_way(void **state)
{
    struct http_session_table *t = open_table();
    struct http_session_login a = log_in(t, 1, BEGIN_NS);
    uint64_t id;

    (void)state;
    assert_ok(enter(t, a.cookie, a.key, "", BEGIN_NS, &id));
    for (unsigned i = 0; i < HTTP_SESSION_AT_ONCE; i++) {
        assert_true(http_session_begin(t, id));
    }
    assert_false(http_session_begin(t, id));
    http_session_done(t, id);
    assert_true(http_session_begin(t, id));
    http_session_logout(t, id, NULL, NULL);
    http_session_done(t, id); /* of one that has ended */
    assert_true(http_session_begin(t, id));
    http_session_destroy(t);
}

static void of_one_certificate_the_oldest_go_first(void **state)
{
    struct http_session_table *t = open_table();
    struct http_session_login first = log_in(t, 1, BEGIN_NS), other = log_in(t, 2, BEGIN_NS), last;
    struct net_identity who = holder(1);
    struct http_session_login login;
    char tickets[HTTP_SESSION_TICKETS_SAME + 1][HTTP_SESSION_TEXT];

    (void)state;
    for (unsigned i = 1; i <= HTTP_SESSION_SAME; i++) {
        last = log_in(t, 1, BEGIN_NS + i);
    }
    assert_false(first.replaces);
    assert_true(last.replaces);
    assert_string_equal(last.replaced.name, "holder-1");
    assert_err(enter(t, first.cookie, first.key, "", BEGIN_NS + CLK_S, NULL), ERR_ACCESS);
    assert_ok(enter(t, last.cookie, last.key, "", BEGIN_NS + CLK_S, NULL));
    assert_ok(enter(t, other.cookie, other.key, "", BEGIN_NS + CLK_S, NULL));
    assert_int_equal(http_session_count(t), HTTP_SESSION_SAME + 1);
    for (unsigned i = 0; i <= HTTP_SESSION_TICKETS_SAME; i++) {
        assert_ok(http_session_ticket(t, &who, at(BEGIN_NS + i), tickets[i]));
    }
    assert_err(http_session_login(t, str_make(tickets[0]), "a", at(BEGIN_NS + 99), &login),
               ERR_ACCESS);
    assert_ok(http_session_login(t, str_make(tickets[1]), "a", at(BEGIN_NS + 99), &login));
    http_session_destroy(t);
}

static void sessions_and_tickets_have_a_bound(void **state)
{
    struct http_session_table *t = open_table();
    struct net_identity who;
    char ticket[HTTP_SESSION_TEXT];
    unsigned tickets = 0;

    (void)state;
    for (unsigned i = 0; i < 2 * HTTP_SESSION_MAX; i++) {
        log_in(t, (uint8_t)(i % 200), BEGIN_NS + i);
    }
    assert_int_equal(http_session_count(t), HTTP_SESSION_MAX);
    for (unsigned i = 0; i < 2 * HTTP_SESSION_TICKETS; i++) {
        who = holder((uint8_t)i);
        tickets += http_session_ticket(t, &who, at(BEGIN_NS), ticket) == ERR_OK;
    }
    assert_int_equal(tickets, HTTP_SESSION_TICKETS);
    http_session_destroy(t);
}

static void a_file_of_tokens_is_read(void **state)
{
    static const struct {
        const char *text;
        bool scopes;
        enum err e;
        const char *says;
    } rows[] = {
        {"", false, ERR_OK, ""},
        {"# nothing\n\n  # else\r\n", false, ERR_OK, ""},
        {"grafana 0123456789abcdef0123456789abcdef", false, ERR_OK, ""},
        {"grafana 0123456789abcdef0123456789abcdef scope=web-* until=2027-01-31T00:00:00Z\n", true,
         ERR_OK, ""},
        {"grafana 0123456789abcdef0123456789abcdef scope=web-*\n", false, ERR_INVALID,
         "console.tokens"},
        {"\ngrafana 0123456789abcdef0123456789abcde\n", false, ERR_INVALID, "line 2: "},
        {"grafana\n", false, ERR_INVALID, "openssl"},
        {"grafana 0123456789abcdef0123456789abcdef until=soon\n", false, ERR_INVALID, "until=TIME"},
        {"grafana 0123456789abcdef0123456789abcdef x\n", false, ERR_INVALID, "until=TIME"},
        {"a 0123456789abcdef0123456789abcdef scope=a scope=b\n", true, ERR_INVALID, "one scope"},
        {"a 0123456789abcdef0123456789abcdef scope=a\nb 0123456789abcdef0123456789abcdef\n", true,
         ERR_INVALID, "line 2: its token stands in a line before"},
        {"a-name-that-is-so-long-that-nobody-would-want-to-read-it-in-any-log-at-all 0123\n", false,
         ERR_INVALID, "name"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct http_session_table *t = open_table();
        struct errmsg why = {""};

        assert_err(http_session_tokens(t, str_make(rows[i].text), rows[i].scopes, &why), rows[i].e);
        if (!strstr(why.text, rows[i].says)) {
            fail_msg("%s: %s", rows[i].text, why.text);
        }
        http_session_destroy(t);
    }
}

static void a_token_asks_until_its_end_and_cannot_log_out(void **state)
{
    static const char token[] = "0123456789abcdef0123456789abcdef";
    struct http_session_table *t = open_table();
    const struct http_session_proof proof = {.bearer = str_make(token)};
    const struct net_identity *who;
    struct errmsg why = {""};
    char text[300];
    char until[CLK_TEXT];
    uint64_t id;

    (void)state;
    (void)snprintf(text, sizeof text, "grafana %s scope=web-* until=%s\n", token,
                   clk_format_utc(until, sizeof until, UTC_OF(BEGIN_NS + 100 * HOUR_NS), 0));
    assert_ok(http_session_tokens(t, str_make(text), true, &why));
    assert_ok(http_session_enter(t, &proof, at(BEGIN_NS + 99 * HOUR_NS), &id, &who));
    assert_string_equal(who->name, "grafana");
    assert_string_equal(who->scope, "web-*");
    assert_int_equal(who->roles, NET_QUERY);
    http_session_logout(t, id, NULL, NULL);
    assert_int_equal(http_session_count(t), 0);
    assert_true(http_session_lives(t, id, at(BEGIN_NS)));
    assert_err(enter(t, token, token, "", BEGIN_NS, NULL), ERR_ACCESS);
    assert_err(enter(t, "", "", "0123456789abcdef0123456789abcdee", BEGIN_NS, NULL), ERR_ACCESS);
    assert_err(enter(t, "", "", token, BEGIN_NS + 100 * HOUR_NS, NULL), ERR_ACCESS);
    http_session_destroy(t);
}

static const char first_token[] = "0123456789abcdef0123456789abcdef";
static const char second_token[] = "fedcba9876543210fedcba9876543210";

static enum err tokens_of(struct http_session_table *t, const char *names, const char *one,
                          const char *other)
{
    struct errmsg why = {""};
    char text[300];

    (void)snprintf(text, sizeof text, "%s %s\n%s%s%s\n", names, one, other ? names : "",
                   other ? "-2 " : "", other ? other : "");
    return http_session_tokens(t, str_make(text), true, &why);
}

static void a_file_that_is_read_again_replaces_its_tokens(void **state)
{
    struct http_session_table *t = open_table();
    const struct http_session_proof first = {.bearer = str_make(first_token)};
    const struct http_session_proof second = {.bearer = str_make(second_token)};
    const struct net_identity *who;
    uint64_t id, again;

    (void)state;
    assert_ok(tokens_of(t, "old", first_token, NULL));
    assert_ok(http_session_enter(t, &first, at(BEGIN_NS), &id, &who));
    assert_ok(tokens_of(t, "new", first_token, second_token));
    http_session_sweep(t, at(BEGIN_NS), NULL, NULL, NULL);
    assert_true(http_session_lives(t, id, at(BEGIN_NS))); /* what is under way goes on */
    assert_ok(http_session_enter(t, &first, at(BEGIN_NS), &again, &who));
    assert_int_equal(again, id);
    assert_string_equal(who->name, "new");
    assert_ok(http_session_enter(t, &second, at(BEGIN_NS), &again, &who));
    assert_err(tokens_of(t, "new", "short", NULL), ERR_INVALID); /* nothing changes */
    http_session_sweep(t, at(BEGIN_NS), NULL, NULL, NULL);
    assert_true(http_session_lives(t, id, at(BEGIN_NS)));
    assert_ok(tokens_of(t, "new", second_token, NULL));
    http_session_sweep(t, at(BEGIN_NS), NULL, NULL, NULL);
    assert_false(http_session_lives(t, id, at(BEGIN_NS)));
    assert_err(http_session_enter(t, &first, at(BEGIN_NS), &id, &who), ERR_ACCESS);
    assert_ok(http_session_enter(t, &second, at(BEGIN_NS), &id, &who));
    http_session_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ticket_becomes_a_session_once),
        cmocka_unit_test(a_ticket_is_good_for_a_minute),
        cmocka_unit_test(both_halves_are_needed_and_of_one_session),
        cmocka_unit_test(a_session_ends_by_age_by_disuse_and_with_its_certificate),
        cmocka_unit_test(a_sweep_ends_whom_nobody_wants_with_their_tickets),
        cmocka_unit_test(
            wrong_tickets_are_counted_by_address_and_a_right_one_is_taken_all_the_same),
        cmocka_unit_test(a_session_asks_so_often_a_second),
        cmocka_unit_test(so_many_questions_of_a_session_are_under_way),
        cmocka_unit_test(of_one_certificate_the_oldest_go_first),
        cmocka_unit_test(sessions_and_tickets_have_a_bound),
        cmocka_unit_test(a_file_of_tokens_is_read),
        cmocka_unit_test(a_token_asks_until_its_end_and_cannot_log_out),
        cmocka_unit_test(a_file_that_is_read_again_replaces_its_tokens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
