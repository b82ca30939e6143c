#include "collector/ca/ca_db.h"

#include <stdio.h>
#include <string.h>

#include "collector/ca/ca_cert.h"
#include "collector/ca/ca_token.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/uuid.h"
#include "tests/support/sqlite_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define NOW (INT64_C(1763750000) * CLK_S)
#define DAY (86400 * CLK_S)

struct rig {
    char dir[256];
    struct ca_db *reg, *other; /* as the command line would open it beside the collector */
    struct errmsg why;
};

static const uint8_t pin[PKI_PIN_BYTES] = {9, 8, 7};

static void rig_open(struct rig *r)
{
    memset(r, 0, sizeof *r);
    support_temp_dir(r->dir, sizeof r->dir);
    assert_ok(ca_db_open(&r->reg, r->dir, sqlite_fault_fio(), &r->why));
    assert_ok(ca_db_open(&r->other, r->dir, sqlite_fault_fio(), &r->why));
}

static void rig_close(struct rig *r)
{
    ca_db_close(r->reg);
    ca_db_close(r->other);
    support_remove_dir(r->dir);
}

/* Everybody closes and opens anew. */
static void restart(struct rig *r)
{
    ca_db_close(r->reg);
    ca_db_close(r->other);
    r->other = NULL;
    assert_ok(ca_db_open(&r->reg, r->dir, sqlite_fault_fio(), &r->why));
}

/* An agent's identity of number n with the k-th certificate. */
static struct net_identity agent(const char *name, uint8_t n, uint8_t k)
{
    struct net_identity who = {.has_host = true,
                               .host = {{n, 1}},
                               .roles = NET_AGENT,
                               .fingerprint = {n, k, 0xab, 0xcd, 0xef},
                               .not_before_ns = NOW - DAY,
                               .not_after_ns = NOW + 90 * DAY};

    snprintf(who.name, sizeof who.name, "%s", name);
    return who;
}

static struct net_identity user(const char *name, uint8_t k)
{
    struct net_identity who = {.roles = NET_QUERY,
                               .fingerprint = {0xee, k, 0x12, 0x34},
                               .scope = "web-*",
                               .not_after_ns = NOW + DAY};

    snprintf(who.name, sizeof who.name, "%s", name);
    return who;
}

static struct pki_token token(struct rig *r, const char *names, bool again)
{
    struct ca_token what = {.again = again, .made_ns = NOW, .expires_ns = NOW + 3600 * CLK_S};
    char text[PKI_TOKEN_TEXT];
    struct pki_token t;

    snprintf(what.names, sizeof what.names, "%s", names);
    assert_ok(ca_token_make(r->reg, &what, pin, text, &r->why));
    assert_ok(pki_token_parse(&t, text));
    assert_memory_equal(t.pin, pin, sizeof pin);
    return t;
}

static enum err check(struct rig *r, const struct pki_token *t, const char *name, int64_t now_ns)
{
    struct ca_token_grant g;

    return ca_token_check(r->reg, &g, t, name, now_ns, &r->why);
}

static void a_token_works_once(void **state)
{
    struct rig r;
    struct pki_token t;
    struct net_identity a = agent("web-01", 1, 1), b = agent("web-02", 2, 1);

    (void)state;
    rig_open(&r);
    t = token(&r, "", false);
    assert_ok(check(&r, &t, "web-01", NOW));
    assert_ok(ca_token_enroll(r.reg, &t, &a, NOW, &r.why));
    assert_err(ca_token_enroll(r.reg, &t, &b, NOW, &r.why), ERR_EXISTS);
    assert_non_null(strstr(r.why.text, "web-01"));
    assert_err(ca_token_enroll(r.other, &t, &b, NOW, &r.why), ERR_EXISTS);
    restart(&r);
    assert_err(check(&r, &t, "web-02", NOW), ERR_EXISTS);
    rig_close(&r);
}

static void tokens_are_refused_for_a_reason(void **state)
{
    struct rig r;
    struct pki_token t, fitting, wrong;
    char id[17];

    (void)state;
    rig_open(&r);
    t = token(&r, "web-*", false);
    assert_err(check(&r, &t, "db-01", NOW), ERR_REFUSED);
    assert_err(check(&r, &t, "web-01", NOW + 3600 * CLK_S), ERR_TIMEOUT);
    assert_ok(check(&r, &t, "web-01", NOW + 3599 * CLK_S));
    wrong = t;
    wrong.secret[3] ^= 1;
    assert_err(check(&r, &wrong, "web-01", NOW), ERR_NOTFOUND);
    wrong = t;
    wrong.id[3] ^= 1;
    assert_err(check(&r, &wrong, "web-01", NOW), ERR_NOTFOUND);
    for (size_t i = 0; i < sizeof t.id; i++) {
        snprintf(id + 2 * i, 3, "%02x", t.id[i]);
    }
    fitting = token(&r, "", false);
    assert_err(ca_token_withdraw(r.other, "0011223344556677", &r.why), ERR_NOTFOUND);
    assert_ok(ca_token_withdraw(r.other, id, &r.why));
    assert_err(check(&r, &t, "web-01", NOW), ERR_CLOSED);
    assert_ok(check(&r, &fitting, "anything", NOW));
    rig_close(&r);
}

static void the_secret_of_a_token_is_written_nowhere(void **state)
{
    struct rig r;
    struct pki_token t;
    char path[300], secret[33];
    uint8_t *p;
    size_t n;

    (void)state;
    rig_open(&r);
    t = token(&r, "", false);
    for (size_t i = 0; i < sizeof t.secret; i++) {
        snprintf(secret + 2 * i, 3, "%02x", t.secret[i]);
    }
    snprintf(path, sizeof path, "%s/book.db", r.dir);
    assert_ok(os_read_file(&p, &n, path, 1u << 20));
    assert_null(memmem(p, n, secret, strlen(secret)));
    assert_null(memmem(p, n, t.secret, sizeof t.secret));
    assert_non_null(memmem(p, n, t.id, sizeof t.id));
    mem_free(p);
    rig_close(&r);
}

static void a_name_that_another_host_has_needs_a_token_for_it(void **state)
{
    struct rig r;
    struct pki_token plain, again;
    struct ca_token_grant grant;
    struct net_identity first = agent("web-01", 1, 1), second = agent("web-01", 2, 1);
    bool had;

    (void)state;
    rig_open(&r);
    assert_ok(ca_cert_issued(r.reg, &first, NOW, &r.why));
    plain = token(&r, "", false);
    assert_err(check(&r, &plain, "web-01", NOW), ERR_ACCESS);
    assert_non_null(strstr(r.why.text, "--replace"));
    assert_ok(check(&r, &plain, "web-01", NOW + 0 * DAY) == ERR_ACCESS ? ERR_OK : ERR_INVALID);
    again = token(&r, "web-01", true);
    assert_ok(ca_cert_had_host(r.reg, "web-01", &had, &r.why));
    assert_true(had);
    assert_ok(ca_cert_had_host(r.reg, "web-02", &had, &r.why));
    assert_false(had);
    assert_ok(ca_token_check(r.reg, &grant, &again, "web-01", NOW, &r.why));
    assert_true(grant.has_host);
    assert_memory_equal(&grant.host, &first.host, sizeof grant.host);
    assert_err(check(&r, &plain, "Web-01", NOW), ERR_ACCESS); /* in any case */
    assert_ok(ca_token_check(r.reg, &grant, &again, "WEB-01", NOW, &r.why));
    assert_true(grant.has_host);
    assert_memory_equal(&grant.host, &first.host, sizeof grant.host);
    assert_err(ca_token_enroll(r.reg, &again, &second, NOW, &r.why), ERR_BUSY);
    second = agent("web-01", 1, 2);
    assert_ok(ca_token_enroll(r.reg, &again, &second, NOW, &r.why));
    assert_string_equal(ca_db_judge(r.reg, &first), "revoked");
    assert_null(ca_db_judge(r.reg, &second));
    restart(&r);
    assert_string_equal(ca_db_judge(r.reg, &first), "revoked");
    assert_null(ca_db_judge(r.reg, &second));
    rig_close(&r);
}

static void a_name_is_free_again_when_its_holder_is_revoked_or_over(void **state)
{
    struct rig r;
    struct pki_token t;
    struct ca_cert_meant m;
    struct net_identity first = agent("web-01", 1, 1), late = agent("web-02", 2, 1);

    (void)state;
    rig_open(&r);
    late.not_after_ns = NOW - 1;
    assert_ok(ca_cert_issued(r.reg, &first, NOW, &r.why));
    assert_ok(ca_cert_issued(r.reg, &late, NOW, &r.why));
    t = token(&r, "", false);
    assert_err(check(&r, &t, "web-01", NOW), ERR_ACCESS);
    assert_ok(check(&r, &t, "web-02", NOW));
    assert_ok(ca_cert_revoke(r.reg, "web-01", "sold", NOW, &m, &r.why));
    assert_ok(check(&r, &t, "web-01", NOW));
    rig_close(&r);
}

static void revocation_reaches_what_the_words_mean(void **state)
{
    static const char host[] = "01010000-0000-0000-0000-000000000000";
    static const struct {
        const char *what;
        enum err e;
        bool a1, a2, b, u; /* revoked afterwards */
    } rows[] = {
        {"web-01", ERR_OK, true, true, false, false},
        {host, ERR_OK, true, true, false, false},
        {"0101abcd", ERR_OK, true, false, false, false},
        {"0102ABCDE", ERR_OK, false, true, false, false},
        {"alice", ERR_OK, false, false, false, true},
        {"nobody", ERR_NOTFOUND, false, false, false, false},
        {"0101", ERR_NOTFOUND, false, false, false, false}, /* too few digits */
        {"ffffffff", ERR_NOTFOUND, false, false, false, false},
        {"twins", ERR_INVALID, false, false, false, false},
        {"collector", ERR_INVALID, false, false, false, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct net_identity a1 = agent("web-01", 1, 1), a2 = agent("web-01", 1, 2),
                            b = agent("web-02", 2, 1), u = user("alice", 1),
                            t1 = agent("twins", 3, 1), t2 = agent("twins", 4, 1),
                            c = {.name = "collector", .fingerprint = {0xcc}};
        const struct net_identity *all[] = {&a1, &a2, &b, &u, &t1, &t2, &c};
        struct ca_cert_meant m;
        struct rig r;

        rig_open(&r);
        a1.host = a2.host = (struct uuid){{1, 1}};
        for (size_t k = 0; k < COUNT_OF(all); k++) {
            assert_ok(ca_cert_issued(r.reg, all[k], NOW, &r.why));
        }
        assert_err(ca_cert_revoke(r.reg, rows[i].what, "lost", NOW, &m, &r.why), rows[i].e);
        for (unsigned again = 0; again < 2; again++) {
            assert_int_equal(ca_db_judge(r.reg, &a1) != NULL, rows[i].a1);
            assert_int_equal(ca_db_judge(r.reg, &a2) != NULL, rows[i].a2);
            assert_int_equal(ca_db_judge(r.reg, &b) != NULL, rows[i].b);
            assert_int_equal(ca_db_judge(r.reg, &u) != NULL, rows[i].u);
            restart(&r);
        }
        if (!rows[i].e) {
            assert_int_equal(m.valid, rows[i].a1 + rows[i].a2 + rows[i].b + rows[i].u);
            assert_err(ca_cert_revoke(r.reg, rows[i].what, "", NOW, &m, &r.why),
                       strcmp(rows[i].what, host) == 0 ? ERR_OK : ERR_EXISTS);
        }
        rig_close(&r);
    }
}

static void a_name_that_begins_anothers_fingerprint_means_several(void **state)
{
    struct rig r;
    struct net_identity a = agent("0201abcd", 1, 1), b = agent("web-02", 2, 1),
                        alone = agent("0909beef", 3, 1);
    struct ca_cert_meant m;

    (void)state;
    rig_open(&r);
    assert_ok(ca_cert_issued(r.reg, &a, NOW, &r.why));
    assert_ok(ca_cert_issued(r.reg, &b, NOW, &r.why));
    assert_ok(ca_cert_issued(r.reg, &alone, NOW, &r.why));
    assert_err(ca_cert_revoke(r.reg, "0201abcd", "", NOW, &m, &r.why), ERR_INVALID);
    assert_non_null(strstr(r.why.text, "web-02"));
    assert_null(ca_db_judge(r.reg, &a));
    assert_null(ca_db_judge(r.reg, &b));
    assert_ok(ca_cert_revoke(r.reg, "0909beef", "", NOW, &m, &r.why));
    assert_non_null(ca_db_judge(r.reg, &alone));
    rig_close(&r);
}

static void what_the_book_never_saw_can_be_revoked_whole(void **state)
{
    struct rig r;
    struct net_identity a = agent("old", 7, 7), b = agent("older", 8, 8), u = user("bob", 9);
    struct ca_cert_meant m;
    char digits[65] = "";

    (void)state;
    rig_open(&r);
    assert_ok(ca_cert_revoke(r.reg, "07010000-0000-0000-0000-000000000000", "", NOW, &m, &r.why));
    assert_int_equal(m.valid, 0);
    for (size_t i = 0; i < 32; i++) {
        snprintf(digits + 2 * i, 3, "%02x", b.fingerprint[i]);
    }
    assert_ok(ca_cert_revoke(r.reg, digits, "", NOW, &m, &r.why));
    assert_non_null(ca_db_judge(r.reg, &a));
    assert_non_null(ca_db_judge(r.reg, &b));
    assert_null(ca_db_judge(r.reg, &u));
    rig_close(&r);
}

static void what_is_issued_after_a_revocation_comes_in(void **state)
{
    struct rig r;
    struct net_identity old = agent("web-01", 1, 1), new = agent("web-01", 1, 2);
    struct ca_cert_meant m;

    (void)state;
    rig_open(&r);
    assert_ok(ca_cert_issued(r.reg, &old, NOW, &r.why));
    assert_ok(ca_cert_revoke(r.reg, "web-01", "", NOW, &m, &r.why));
    assert_ok(ca_cert_issued(r.reg, &new, NOW, &r.why));
    assert_non_null(ca_db_judge(r.reg, &old));
    assert_null(ca_db_judge(r.reg, &new));
    restart(&r);
    assert_non_null(ca_db_judge(r.reg, &old));
    assert_null(ca_db_judge(r.reg, &new));
    rig_close(&r);
}

static void a_renewal_does_not_outrun_a_revocation(void **state)
{
    struct rig r;
    struct ca_cert_meant m;
    struct net_identity a = agent("web-01", 1, 1), next = agent("web-01", 1, 2);
    bool changed;

    (void)state;
    rig_open(&r);
    assert_ok(ca_cert_issued(r.reg, &a, NOW, &r.why));
    assert_ok(ca_cert_may_renew(r.reg, &a, NOW, &r.why));
    assert_ok(ca_cert_revoke(r.other, "web-01", "stolen", NOW, &m, &r.why));
    assert_err(ca_cert_renewed(r.reg, &a, &next, NOW, &r.why), ERR_REFUSED);
    assert_non_null(strstr(r.why.text, "revoked"));
    assert_ok(ca_db_refresh(r.reg, &changed, &r.why));
    assert_true(changed);
    assert_non_null(ca_db_judge(r.reg, &next));
    assert_err(ca_cert_may_renew(r.reg, &a, NOW, &r.why), ERR_REFUSED);
    rig_close(&r);
}

static void another_process_revokes_and_the_refresh_tells(void **state)
{
    struct rig r;
    struct net_identity a = agent("web-01", 1, 1);
    struct ca_cert_meant m;
    bool changed = true;

    (void)state;
    rig_open(&r);
    assert_ok(ca_cert_issued(r.reg, &a, NOW, &r.why));
    assert_ok(ca_db_refresh(r.reg, &changed, &r.why));
    assert_false(changed);
    assert_ok(ca_cert_revoke(r.other, "web-01", "", NOW, &m, &r.why));
    assert_null(ca_db_judge(r.reg, &a));
    assert_ok(ca_db_refresh(r.reg, &changed, &r.why));
    assert_true(changed);
    assert_non_null(ca_db_judge(r.reg, &a));
    assert_ok(ca_db_refresh(r.reg, &changed, &r.why));
    assert_false(changed);
    rig_close(&r);
}

static void a_revocation_read_while_writing_is_told_as_well(void **state)
{
    struct rig r;
    struct net_identity a = agent("web-01", 1, 1), b = agent("web-02", 2, 1);
    struct ca_cert_meant m;
    bool changed = true;

    (void)state;
    rig_open(&r);
    assert_ok(ca_cert_issued(r.reg, &a, NOW, &r.why));
    assert_ok(ca_db_refresh(r.reg, &changed, &r.why));
    assert_ok(ca_cert_revoke(r.other, "web-01", "", NOW, &m, &r.why));
    assert_ok(ca_cert_issued(r.reg, &b, NOW, &r.why)); /* somebody else enrols */
    assert_ok(ca_db_refresh(r.reg, &changed, &r.why));
    assert_true(changed);
    assert_ok(ca_db_refresh(r.reg, &changed, &r.why));
    assert_false(changed);
    rig_close(&r);
}

static void a_token_is_good_the_moment_it_is_made(void **state)
{
    struct ca_db *held;
    struct rig r;
    struct pki_token t;
    struct ca_token_grant g;

    (void)state;
    rig_open(&r);
    t = token(&r, "", false);
    held = r.other; /* has not read it yet */
    assert_ok(ca_token_check(held, &g, &t, "web-01", NOW, &r.why));
    t.secret[0] ^= 1;
    assert_err(ca_token_check(held, &g, &t, "web-01", NOW, &r.why), ERR_NOTFOUND);
    assert_non_null(strstr(r.why.text, "pki token create"));
    rig_close(&r);
}

/* -- one token, many takers -- */

struct taker {
    struct ca_db *reg;
    const struct pki_token *token;
    struct net_identity who;
    struct os_thread *thread;
    enum err e;
};

static void take(void *arg)
{
    struct taker *t = arg;
    struct errmsg why;

    t->e = ca_token_enroll(t->reg, t->token, &t->who, NOW, &why);
}

static void a_token_taken_by_many_at_once_is_given_to_one(void **state)
{
    enum { N = 8 };
    struct taker takers[N];
    struct pki_token t;
    struct rig r;
    unsigned won = 0;

    (void)state;
    rig_open(&r);
    t = token(&r, "", false);
    for (unsigned i = 0; i < N; i++) {
        char name[16];

        snprintf(name, sizeof name, "web-%u", i);
        takers[i] = (struct taker){
            .reg = i % 2 ? r.reg : r.other, .token = &t, .who = agent(name, (uint8_t)(i + 1), 1)};
        assert_ok(os_thread_start(&takers[i].thread, "taker", take, &takers[i]));
    }
    for (unsigned i = 0; i < N; i++) {
        os_thread_join(takers[i].thread);
        assert_true(!takers[i].e || takers[i].e == ERR_EXISTS);
        won += takers[i].e == ERR_OK;
    }
    assert_int_equal(won, 1);
    rig_close(&r);
}

/* -- failures -- */

static void a_damaged_book_refuses_to_open_and_keeps_what_is_known(void **state)
{
    struct rig r;
    struct net_identity a = agent("web-01", 1, 1), b = agent("web-02", 2, 1);
    struct ca_cert_meant m;
    struct ca_db *reg;
    char path[300];
    uint8_t *p;
    size_t n;
    bool changed;

    (void)state;
    rig_open(&r);
    assert_ok(ca_cert_issued(r.reg, &a, NOW, &r.why));
    assert_ok(ca_cert_revoke(r.reg, "web-01", "", NOW, &m, &r.why));
    assert_ok(ca_cert_issued(r.other, &b, NOW, &r.why));
    snprintf(path, sizeof path, "%s/book.db", r.dir);
    assert_ok(os_read_file(&p, &n, path, 1u << 20));
    p[n / 2] ^= 1;
    assert_ok(os_write_file(path, p, n, true));
    assert_err(ca_db_refresh(r.reg, &changed, &r.why), ERR_CORRUPT);
    assert_non_null(strstr(r.why.text, "book.db is damaged"));
    assert_non_null(ca_db_judge(r.reg, &a));
    assert_err(ca_db_open(&reg, r.dir, NULL, &r.why), ERR_CORRUPT);
    mem_free(p);
    rig_close(&r);
}

static void tidying_takes_out_what_is_over_and_nothing_else(void **state)
{
    enum { HOSTS = 300, EACH = 5 };
    struct rig r;
    struct ca_rows_counts before, after;
    struct ca_cert_meant m;
    struct net_identity stolen = agent("host-0", 0, 0), late;
    size_t recent;

    (void)state;
    rig_open(&r);
    for (unsigned i = 0; i < HOSTS * EACH; i++) { /* renewed each day, two days of life */
        char name[16];
        struct net_identity who;

        snprintf(name, sizeof name, "host-%u", i % HOSTS);
        who = agent(name, (uint8_t)(i % HOSTS), (uint8_t)(i / HOSTS));
        who.host.b[2] = who.fingerprint[5] = (uint8_t)(i % HOSTS >> 8);
        who.not_after_ns = NOW + (i / HOSTS + 2) * DAY;
        assert_ok(ca_cert_issued(r.reg, &who, NOW + (i / HOSTS) * DAY, &r.why));
    }
    assert_ok(ca_cert_revoke(r.reg, "0000abcdef00", "stolen", NOW, &m, &r.why));
    assert_ok(ca_db_count(r.reg, &before, &r.why));
    assert_int_equal(before.rows, HOSTS * EACH + 1);
    assert_ok(ca_db_tidy(r.reg, NOW + DAY, &r.why));
    assert_ok(ca_db_count(r.reg, &after, &r.why));
    assert_int_equal(after.rows, before.rows);
    assert_ok(ca_db_tidy(r.reg, NOW + 5 * DAY, &r.why));
    assert_ok(ca_db_count(r.reg, &after, &r.why));
    assert_int_equal(after.certs, 2 * HOSTS + 1); /* two of each valid or newest; the stolen one */
    assert_int_equal(after.revocations, 1);
    assert_non_null(ca_db_judge(r.reg, &stolen));
    late = agent("host-new", 77, 77);
    assert_ok(ca_cert_issued(r.other, &late, NOW, &r.why));
    assert_ok(ca_db_count(r.other, &before, &r.why));
    assert_int_equal(before.rows, after.rows + 1);
    late = agent("host-7", 7, 4);
    late.host.b[2] = 0;
    assert_ok(ca_cert_recent(r.reg, &late.host, NOW, &recent, &r.why));
    assert_int_equal(recent, 2);
    assert_ok(ca_cert_recent(r.reg, &late.host, NOW + 4 * DAY, &recent, &r.why));
    assert_int_equal(recent, 1);
    rig_close(&r);
}

static void a_revocation_outlives_the_certificates_line(void **state)
{
    enum { N = 1100 };
    struct rig r;
    struct ca_rows_counts s;
    struct ca_cert_meant m;
    struct net_identity stolen = agent("host-0", 1, 0);

    (void)state;
    rig_open(&r);
    stolen.not_after_ns = NOW + DAY;
    assert_ok(ca_cert_issued(r.reg, &stolen, NOW, &r.why));
    assert_ok(ca_cert_revoke(r.reg, "0100abcdef", "", NOW, &m, &r.why));
    for (unsigned i = 0; i < N; i++) {
        struct net_identity who = agent("host-1", 2, (uint8_t)i);

        who.fingerprint[6] = (uint8_t)(i >> 8);
        who.not_after_ns = NOW + DAY;
        assert_ok(ca_cert_issued(r.reg, &who, NOW, &r.why));
    }
    assert_ok(ca_db_tidy(r.reg, NOW + 400 * DAY, &r.why));
    assert_ok(ca_db_count(r.reg, &s, &r.why));
    assert_int_equal(s.certs, 0);
    assert_int_equal(s.revocations, 1);
    assert_non_null(ca_db_judge(r.reg, &stolen));
    rig_close(&r);
}

/* Certificates enough that tidying is worth it, all over by then. */
static void fill_for_tidying(struct rig *r)
{
    enum { N = 1100 };

    for (unsigned i = 0; i < N; i++) {
        struct net_identity who = agent("filler", 99, (uint8_t)i);

        who.fingerprint[6] = (uint8_t)(i >> 8);
        who.not_after_ns = NOW + DAY;
        assert_ok(ca_cert_issued(r->reg, &who, NOW, &r->why));
    }
}

static void tidying_keeps_what_an_enrolment_says_beside_its_certificate(void **state)
{
    struct ca_token what = {.made_ns = NOW, .expires_ns = NOW + 30 * DAY};
    struct net_identity first = agent("web-01", 1, 1), next = agent("web-01", 1, 2),
                        last = agent("web-01", 1, 3);
    struct ca_rows_counts before, after;
    char text[PKI_TOKEN_TEXT];
    struct pki_token t, again;
    struct rig r;

    (void)state;
    rig_open(&r);
    assert_ok(ca_token_make(r.reg, &what, pin, text, &r.why));
    assert_ok(pki_token_parse(&t, text));
    first.not_after_ns = NOW + 4 * DAY;
    assert_ok(ca_token_enroll(r.reg, &t, &first, NOW, &r.why));
    again = token(&r, "", true);
    next.not_after_ns = NOW + 2 * DAY;
    assert_ok(ca_token_enroll(r.reg, &again, &next, NOW, &r.why));
    assert_ok(ca_cert_issued(r.reg, &last, NOW, &r.why)); /* both are replaced */
    fill_for_tidying(&r);
    assert_ok(ca_db_count(r.reg, &before, &r.why));
    assert_ok(ca_db_tidy(r.reg, NOW + 10 * DAY, &r.why));
    assert_ok(ca_db_count(r.reg, &after, &r.why));
    assert_in_range(after.rows, 1, before.rows / 2);
    assert_err(check(&r, &t, "web-02", NOW + 10 * DAY), ERR_EXISTS);
    assert_non_null(ca_db_judge(r.reg, &first)); /* for as long as the grace of renewal may be */
    assert_null(ca_db_judge(r.reg, &last));
    assert_ok(ca_db_tidy(r.reg, NOW + 300 * DAY, &r.why));
    assert_non_null(ca_db_judge(r.reg, &first));
    rig_close(&r);
}

static void opening_survives_every_failed_allocation(void **state)
{
    struct rig r;
    struct net_identity a = agent("web-01", 1, 1), u = user("alice", 1);
    struct ca_cert_meant m;
    enum err e = ERR_NOMEM;
    long live;

    (void)state;
    rig_open(&r);
    (void)token(&r, "web-*", false);
    assert_ok(ca_cert_issued(r.reg, &a, NOW, &r.why));
    assert_ok(ca_cert_issued(r.reg, &u, NOW, &r.why));
    assert_ok(ca_cert_revoke(r.reg, "web-01", "", NOW, &m, &r.why));
    live = mem_live();
    for (long n = 0; e; n++) {
        struct ca_db *reg = NULL;

        assert_true(n < 60);
        mem_fail_after(n);
        e = ca_db_open(&reg, r.dir, NULL, &r.why);
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM);
        if (!e) {
            assert_non_null(ca_db_judge(reg, &a));
            ca_db_close(reg);
        }
        assert_int_equal(mem_live(), live);
    }
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_works_once),
        cmocka_unit_test(tokens_are_refused_for_a_reason),
        cmocka_unit_test(the_secret_of_a_token_is_written_nowhere),
        cmocka_unit_test(a_name_that_another_host_has_needs_a_token_for_it),
        cmocka_unit_test(a_name_is_free_again_when_its_holder_is_revoked_or_over),
        cmocka_unit_test(revocation_reaches_what_the_words_mean),
        cmocka_unit_test(a_name_that_begins_anothers_fingerprint_means_several),
        cmocka_unit_test(what_the_book_never_saw_can_be_revoked_whole),
        cmocka_unit_test(what_is_issued_after_a_revocation_comes_in),
        cmocka_unit_test(a_renewal_does_not_outrun_a_revocation),
        cmocka_unit_test(another_process_revokes_and_the_refresh_tells),
        cmocka_unit_test(a_revocation_read_while_writing_is_told_as_well),
        cmocka_unit_test(a_token_is_good_the_moment_it_is_made),
        cmocka_unit_test(a_token_taken_by_many_at_once_is_given_to_one),
        cmocka_unit_test(a_damaged_book_refuses_to_open_and_keeps_what_is_known),
        cmocka_unit_test(tidying_takes_out_what_is_over_and_nothing_else),
        cmocka_unit_test(tidying_keeps_what_an_enrolment_says_beside_its_certificate),
        cmocka_unit_test(a_revocation_outlives_the_certificates_line),
        cmocka_unit_test(opening_survives_every_failed_allocation),
    };

    sqlite_fault_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
