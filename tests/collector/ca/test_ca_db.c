#include "collector/ca/ca_db.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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
    char dir[256], path[300];
    struct ca_db *reg, *other; /* as the command line would open it beside the collector */
    struct pki_token token;
    struct errmsg why;
};

static struct rig rig;
static const uint8_t pin[PKI_PIN_BYTES] = {9, 8, 7};

static void rig_open(struct rig *r)
{
    memset(r, 0, sizeof *r);
    support_temp_dir(r->dir, sizeof r->dir);
    snprintf(r->path, sizeof r->path, "%s/book.db", r->dir);
    assert_ok(ca_db_open(&r->reg, r->dir, sqlite_fault_fio(), &r->why));
    assert_ok(ca_db_open(&r->other, r->dir, sqlite_fault_fio(), &r->why));
}

static void rig_close(struct rig *r)
{
    sqlite_fault_arm(SQLITE_FAULT_EIO, -1);
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
    struct pki_token t;
    struct net_identity a = agent("web-01", 1, 1), b = agent("web-02", 2, 1);

    t = token(&rig, "", false);
    assert_ok(check(&rig, &t, "web-01", NOW));
    assert_ok(ca_token_enroll(rig.reg, &t, &a, NOW, &rig.why));
    assert_err(ca_token_enroll(rig.reg, &t, &b, NOW, &rig.why), ERR_EXISTS);
    assert_non_null(strstr(rig.why.text, "web-01"));
    assert_err(ca_token_enroll(rig.other, &t, &b, NOW, &rig.why), ERR_EXISTS);
    restart(&rig);
    assert_err(check(&rig, &t, "web-02", NOW), ERR_EXISTS);
}

static void tokens_are_refused_for_a_reason(void **state)
{
    struct pki_token t, fitting, wrong;
    char id[17];

    t = token(&rig, "web-*", false);
    assert_err(check(&rig, &t, "db-01", NOW), ERR_REFUSED);
    assert_err(check(&rig, &t, "web-01", NOW + 3600 * CLK_S), ERR_TIMEOUT);
    assert_ok(check(&rig, &t, "web-01", NOW + 3599 * CLK_S));
    wrong = t;
    wrong.secret[3] ^= 1;
    assert_err(check(&rig, &wrong, "web-01", NOW), ERR_NOTFOUND);
    wrong = t;
    wrong.id[3] ^= 1;
    assert_err(check(&rig, &wrong, "web-01", NOW), ERR_NOTFOUND);
    for (size_t i = 0; i < sizeof t.id; i++) {
        snprintf(id + 2 * i, 3, "%02x", t.id[i]);
    }
    fitting = token(&rig, "", false);
    assert_err(ca_token_withdraw(rig.other, "0011223344556677", &rig.why), ERR_NOTFOUND);
    assert_ok(ca_token_withdraw(rig.other, id, &rig.why));
    assert_err(check(&rig, &t, "web-01", NOW), ERR_CLOSED);
    assert_ok(check(&rig, &fitting, "anything", NOW));
}

static void the_secret_of_a_token_is_written_nowhere(void **state)
{
    struct pki_token t;
    char secret[33];
    uint8_t *p;
    size_t n;

    t = token(&rig, "", false);
    for (size_t i = 0; i < sizeof t.secret; i++) {
        snprintf(secret + 2 * i, 3, "%02x", t.secret[i]);
    }
    assert_ok(os_read_file(&p, &n, rig.path, 1u << 20));
    assert_null(memmem(p, n, secret, strlen(secret)));
    assert_null(memmem(p, n, t.secret, sizeof t.secret));
    assert_non_null(memmem(p, n, t.id, sizeof t.id));
    mem_free(p);
}

static void a_name_that_another_host_has_needs_a_token_for_it(void **state)
{
    struct pki_token plain, again;
    struct ca_token_grant grant;
    struct net_identity first = agent("web-01", 1, 1), second = agent("web-01", 2, 1);
    bool had;

    assert_ok(ca_cert_issued(rig.reg, &first, NOW, &rig.why));
    plain = token(&rig, "", false);
    assert_err(check(&rig, &plain, "web-01", NOW), ERR_ACCESS);
    assert_non_null(strstr(rig.why.text, "--replace"));
    again = token(&rig, "web-01", true);
    assert_ok(ca_cert_had_host(rig.reg, "web-01", &had, &rig.why));
    assert_true(had);
    assert_ok(ca_cert_had_host(rig.reg, "web-02", &had, &rig.why));
    assert_false(had);
    assert_ok(ca_token_check(rig.reg, &grant, &again, "web-01", NOW, &rig.why));
    assert_true(grant.has_host);
    assert_memory_equal(&grant.host, &first.host, sizeof grant.host);
    assert_err(check(&rig, &plain, "Web-01", NOW), ERR_ACCESS); /* in any case */
    assert_ok(ca_token_check(rig.reg, &grant, &again, "WEB-01", NOW, &rig.why));
    assert_true(grant.has_host);
    assert_memory_equal(&grant.host, &first.host, sizeof grant.host);
    assert_err(ca_token_enroll(rig.reg, &again, &second, NOW, &rig.why), ERR_BUSY);
    second = agent("web-01", 1, 2);
    assert_ok(ca_token_enroll(rig.reg, &again, &second, NOW, &rig.why));
    assert_string_equal(ca_db_judge(rig.reg, &first), "revoked");
    assert_null(ca_db_judge(rig.reg, &second));
    restart(&rig);
    assert_string_equal(ca_db_judge(rig.reg, &first), "revoked");
    assert_null(ca_db_judge(rig.reg, &second));
}

static void a_name_is_free_again_when_its_holder_is_revoked_or_over(void **state)
{
    struct pki_token t;
    struct ca_cert_meant m;
    struct net_identity first = agent("web-01", 1, 1), late = agent("web-02", 2, 1);

    late.not_after_ns = NOW - 1;
    assert_ok(ca_cert_issued(rig.reg, &first, NOW, &rig.why));
    assert_ok(ca_cert_issued(rig.reg, &late, NOW, &rig.why));
    t = token(&rig, "", false);
    assert_err(check(&rig, &t, "web-01", NOW), ERR_ACCESS);
    assert_ok(check(&rig, &t, "web-02", NOW));
    assert_ok(ca_cert_revoke(rig.reg, "web-01", "sold", NOW, &m, &rig.why));
    assert_ok(check(&rig, &t, "web-01", NOW));
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
    struct net_identity a = agent("0201abcd", 1, 1), b = agent("web-02", 2, 1),
                        alone = agent("0909beef", 3, 1);
    struct ca_cert_meant m;

    assert_ok(ca_cert_issued(rig.reg, &a, NOW, &rig.why));
    assert_ok(ca_cert_issued(rig.reg, &b, NOW, &rig.why));
    assert_ok(ca_cert_issued(rig.reg, &alone, NOW, &rig.why));
    assert_err(ca_cert_revoke(rig.reg, "0201abcd", "", NOW, &m, &rig.why), ERR_INVALID);
    assert_non_null(strstr(rig.why.text, "web-02"));
    assert_null(ca_db_judge(rig.reg, &a));
    assert_null(ca_db_judge(rig.reg, &b));
    assert_ok(ca_cert_revoke(rig.reg, "0909beef", "", NOW, &m, &rig.why));
    assert_non_null(ca_db_judge(rig.reg, &alone));
}

static void what_the_book_never_saw_can_be_revoked_whole(void **state)
{
    struct net_identity a = agent("old", 7, 7), b = agent("older", 8, 8), u = user("bob", 9);
    struct ca_cert_meant m;
    char digits[65] = "";

    assert_ok(
        ca_cert_revoke(rig.reg, "07010000-0000-0000-0000-000000000000", "", NOW, &m, &rig.why));
    assert_int_equal(m.valid, 0);
    for (size_t i = 0; i < 32; i++) {
        snprintf(digits + 2 * i, 3, "%02x", b.fingerprint[i]);
    }
    assert_ok(ca_cert_revoke(rig.reg, digits, "", NOW, &m, &rig.why));
    assert_non_null(ca_db_judge(rig.reg, &a));
    assert_non_null(ca_db_judge(rig.reg, &b));
    assert_null(ca_db_judge(rig.reg, &u));
}

static void what_is_issued_after_a_revocation_comes_in(void **state)
{
    struct net_identity old = agent("web-01", 1, 1), new = agent("web-01", 1, 2);
    struct ca_cert_meant m;

    assert_ok(ca_cert_issued(rig.reg, &old, NOW, &rig.why));
    assert_ok(ca_cert_revoke(rig.reg, "web-01", "", NOW, &m, &rig.why));
    assert_ok(ca_cert_issued(rig.reg, &new, NOW, &rig.why));
    assert_non_null(ca_db_judge(rig.reg, &old));
    assert_null(ca_db_judge(rig.reg, &new));
    restart(&rig);
    assert_non_null(ca_db_judge(rig.reg, &old));
    assert_null(ca_db_judge(rig.reg, &new));
}

static void a_renewal_does_not_outrun_a_revocation(void **state)
{
    struct ca_cert_meant m;
    struct net_identity a = agent("web-01", 1, 1), next = agent("web-01", 1, 2);
    bool changed;

    assert_ok(ca_cert_issued(rig.reg, &a, NOW, &rig.why));
    assert_ok(ca_cert_may_renew(rig.reg, &a, NOW, &rig.why));
    assert_ok(ca_cert_revoke(rig.other, "web-01", "stolen", NOW, &m, &rig.why));
    assert_err(ca_cert_renewed(rig.reg, &a, &next, NOW, &rig.why), ERR_REFUSED);
    assert_non_null(strstr(rig.why.text, "revoked"));
    assert_ok(ca_db_refresh(rig.reg, &changed, &rig.why));
    assert_true(changed);
    assert_non_null(ca_db_judge(rig.reg, &next));
    assert_err(ca_cert_may_renew(rig.reg, &a, NOW, &rig.why), ERR_REFUSED);
}

static void another_process_revokes_and_the_refresh_tells(void **state)
{
    struct net_identity a = agent("web-01", 1, 1);
    struct ca_cert_meant m;
    bool changed = true;

    assert_ok(ca_cert_issued(rig.reg, &a, NOW, &rig.why));
    assert_ok(ca_db_refresh(rig.reg, &changed, &rig.why));
    assert_false(changed);
    assert_ok(ca_cert_revoke(rig.other, "web-01", "", NOW, &m, &rig.why));
    assert_null(ca_db_judge(rig.reg, &a));
    assert_ok(ca_db_refresh(rig.reg, &changed, &rig.why));
    assert_true(changed);
    assert_non_null(ca_db_judge(rig.reg, &a));
    assert_ok(ca_db_refresh(rig.reg, &changed, &rig.why));
    assert_false(changed);
}

static void a_revocation_read_while_writing_is_told_as_well(void **state)
{
    struct net_identity a = agent("web-01", 1, 1), b = agent("web-02", 2, 1);
    struct ca_cert_meant m;
    bool changed = true;

    assert_ok(ca_cert_issued(rig.reg, &a, NOW, &rig.why));
    assert_ok(ca_db_refresh(rig.reg, &changed, &rig.why));
    assert_ok(ca_cert_revoke(rig.other, "web-01", "", NOW, &m, &rig.why));
    assert_ok(ca_cert_issued(rig.reg, &b, NOW, &rig.why)); /* somebody else enrols */
    assert_ok(ca_db_refresh(rig.reg, &changed, &rig.why));
    assert_true(changed);
    assert_ok(ca_db_refresh(rig.reg, &changed, &rig.why));
    assert_false(changed);
}

static void a_token_is_good_the_moment_it_is_made(void **state)
{
    struct ca_db *held;
    struct pki_token t;
    struct ca_token_grant g;

    t = token(&rig, "", false);
    held = rig.other; /* has not read it yet */
    assert_ok(ca_token_check(held, &g, &t, "web-01", NOW, &rig.why));
    t.secret[0] ^= 1;
    assert_err(ca_token_check(held, &g, &t, "web-01", NOW, &rig.why), ERR_NOTFOUND);
    assert_non_null(strstr(rig.why.text, "pki token create"));
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
    unsigned won = 0;

    t = token(&rig, "", false);
    for (unsigned i = 0; i < N; i++) {
        char name[16];

        snprintf(name, sizeof name, "web-%u", i);
        takers[i] = (struct taker){.reg = i % 2 ? rig.reg : rig.other,
                                   .token = &t,
                                   .who = agent(name, (uint8_t)(i + 1), 1)};
        assert_ok(os_thread_start(&takers[i].thread, "taker", take, &takers[i]));
    }
    for (unsigned i = 0; i < N; i++) {
        os_thread_join(takers[i].thread);
        assert_true(!takers[i].e || takers[i].e == ERR_EXISTS);
        won += takers[i].e == ERR_OK;
    }
    assert_int_equal(won, 1);
}

/* -- failures -- */

static void a_damaged_book_refuses_to_open_and_keeps_what_is_known(void **state)
{
    struct net_identity a = agent("web-01", 1, 1), b = agent("web-02", 2, 1);
    struct ca_cert_meant m;
    struct ca_db *reg;
    uint8_t *p;
    size_t n;
    bool changed;

    assert_ok(ca_cert_issued(rig.reg, &a, NOW, &rig.why));
    assert_ok(ca_cert_revoke(rig.reg, "web-01", "", NOW, &m, &rig.why));
    assert_ok(ca_cert_issued(rig.other, &b, NOW, &rig.why));
    assert_ok(os_read_file(&p, &n, rig.path, 1u << 20));
    p[n / 2] ^= 1;
    assert_ok(os_write_file(rig.path, p, n, true));
    assert_err(ca_db_refresh(rig.reg, &changed, &rig.why), ERR_CORRUPT);
    assert_non_null(strstr(rig.why.text, "book.db is damaged"));
    assert_non_null(ca_db_judge(rig.reg, &a));
    assert_err(ca_db_open(&reg, rig.dir, NULL, &rig.why), ERR_CORRUPT);
    mem_free(p);
}

static void tidying_takes_out_what_is_over_and_nothing_else(void **state)
{
    enum { HOSTS = 300, EACH = 5 };
    struct ca_rows_counts before, after;
    struct ca_cert_meant m;
    struct net_identity stolen = agent("host-0", 0, 0), late;
    size_t recent;

    for (unsigned i = 0; i < HOSTS * EACH; i++) { /* renewed each day, two days of life */
        char name[16];
        struct net_identity who;

        snprintf(name, sizeof name, "host-%u", i % HOSTS);
        who = agent(name, (uint8_t)(i % HOSTS), (uint8_t)(i / HOSTS));
        who.host.b[2] = who.fingerprint[5] = (uint8_t)(i % HOSTS >> 8);
        who.not_after_ns = NOW + (i / HOSTS + 2) * DAY;
        assert_ok(ca_cert_issued(rig.reg, &who, NOW + (i / HOSTS) * DAY, &rig.why));
    }
    assert_ok(ca_cert_revoke(rig.reg, "0000abcdef00", "stolen", NOW, &m, &rig.why));
    assert_ok(ca_db_count(rig.reg, &before, &rig.why));
    assert_int_equal(before.rows, HOSTS * EACH + 1);
    assert_ok(ca_db_tidy(rig.reg, NOW + DAY, &rig.why));
    assert_ok(ca_db_count(rig.reg, &after, &rig.why));
    assert_int_equal(after.rows, before.rows);
    assert_ok(ca_db_tidy(rig.reg, NOW + 5 * DAY, &rig.why));
    assert_ok(ca_db_count(rig.reg, &after, &rig.why));
    assert_int_equal(after.certs, 2 * HOSTS + 1); /* two of each valid or newest; the stolen one */
    assert_int_equal(after.revocations, 1);
    assert_non_null(ca_db_judge(rig.reg, &stolen));
    late = agent("host-new", 77, 77);
    assert_ok(ca_cert_issued(rig.other, &late, NOW, &rig.why));
    assert_ok(ca_db_count(rig.other, &before, &rig.why));
    assert_int_equal(before.rows, after.rows + 1);
    late = agent("host-7", 7, 4);
    late.host.b[2] = 0;
    assert_ok(ca_cert_recent(rig.reg, &late.host, NOW, &recent, &rig.why));
    assert_int_equal(recent, 2);
    assert_ok(ca_cert_recent(rig.reg, &late.host, NOW + 4 * DAY, &recent, &rig.why));
    assert_int_equal(recent, 1);
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

static void a_revocation_outlives_the_certificates_line(void **state)
{
    struct ca_rows_counts s;
    struct ca_cert_meant m;
    struct net_identity stolen = agent("host-0", 1, 0);

    stolen.not_after_ns = NOW + DAY;
    assert_ok(ca_cert_issued(rig.reg, &stolen, NOW, &rig.why));
    assert_ok(ca_cert_revoke(rig.reg, "0100abcdef", "", NOW, &m, &rig.why));
    fill_for_tidying(&rig);
    assert_ok(ca_db_tidy(rig.reg, NOW + 400 * DAY, &rig.why));
    assert_ok(ca_db_count(rig.reg, &s, &rig.why));
    assert_int_equal(s.certs, 0);
    assert_int_equal(s.revocations, 1);
    assert_non_null(ca_db_judge(rig.reg, &stolen));
}

static void tidying_keeps_what_an_enrolment_says_beside_its_certificate(void **state)
{
    struct ca_token what = {.made_ns = NOW, .expires_ns = NOW + 30 * DAY};
    struct net_identity first = agent("web-01", 1, 1), next = agent("web-01", 1, 2),
                        last = agent("web-01", 1, 3);
    struct ca_rows_counts before, after;
    char text[PKI_TOKEN_TEXT];
    struct pki_token t, again;

    assert_ok(ca_token_make(rig.reg, &what, pin, text, &rig.why));
    assert_ok(pki_token_parse(&t, text));
    first.not_after_ns = NOW + 4 * DAY;
    assert_ok(ca_token_enroll(rig.reg, &t, &first, NOW, &rig.why));
    again = token(&rig, "", true);
    next.not_after_ns = NOW + 2 * DAY;
    assert_ok(ca_token_enroll(rig.reg, &again, &next, NOW, &rig.why));
    assert_ok(ca_cert_issued(rig.reg, &last, NOW, &rig.why)); /* both are replaced */
    fill_for_tidying(&rig);
    assert_ok(ca_db_count(rig.reg, &before, &rig.why));
    assert_ok(ca_db_tidy(rig.reg, NOW + 10 * DAY, &rig.why));
    assert_ok(ca_db_count(rig.reg, &after, &rig.why));
    assert_in_range(after.rows, 1, before.rows / 2);
    assert_err(check(&rig, &t, "web-02", NOW + 10 * DAY), ERR_EXISTS);
    assert_non_null(ca_db_judge(rig.reg, &first)); /* for as long as the grace of renewal may be */
    assert_null(ca_db_judge(rig.reg, &last));
    assert_ok(ca_db_tidy(rig.reg, NOW + 300 * DAY, &rig.why));
    assert_non_null(ca_db_judge(rig.reg, &first));
}

/* -- killed, failing and damaged -- */

/* Alone, with one host, one that is revoked, and a token to set up the first one anew. */
static void rig_open_host(struct rig *r)
{
    struct net_identity a = agent("web-01", 1, 1), b = agent("web-02", 2, 1);
    struct ca_cert_meant meant;

    rig_open(r);
    ca_db_close(r->other);
    r->other = NULL;
    assert_ok(ca_cert_issued(r->reg, &a, NOW, &r->why));
    assert_ok(ca_cert_issued(r->reg, &b, NOW, &r->why));
    assert_ok(ca_cert_revoke(r->reg, "web-02", "lost", NOW, &meant, &r->why));
    r->token = token(r, "", true);
}

static bool count_cert(void *ctx, const struct ca_cert *c)
{
    (void)c;
    ++*(size_t *)ctx;
    return true;
}

static bool find_token(void *ctx, const struct ca_token *t)
{
    *(struct ca_token *)ctx = *t;
    return false;
}

/* The enrolment of web-01 with a new key happened as a whole, or not at all. */
static bool is_enrolled(struct rig *r)
{
    struct net_identity before = agent("web-01", 1, 1), other = agent("web-02", 2, 1);
    struct ca_token t;
    size_t certs = 0;

    assert_ok(ca_cert_list(r->reg, count_cert, &certs, &r->why));
    assert_ok(ca_token_list(r->reg, find_token, &t, &r->why));
    assert_true(certs == 2 || certs == 3);
    assert_int_equal(t.used_ns != 0, certs == 3);
    assert_int_equal(ca_db_judge(r->reg, &before) != NULL, certs == 3);
    assert_non_null(ca_db_judge(r->reg, &other));
    return certs == 3;
}

static enum err enroll(struct rig *r)
{
    struct net_identity who = agent("web-01", 1, 1);

    who.fingerprint[1] = 0x77; /* a new key */
    r->why.text[0] = '\0';
    return ca_token_enroll(r->reg, &r->token, &who, NOW, &r->why);
}

static void an_enrolment_that_is_killed_happens_whole_or_not_at_all(void **state)
{
    unsigned whole = 0, none = 0;
    bool killed = true;

    for (long k = 0; killed; k++) {
        struct rig r;
        int status = 0;
        pid_t child;

        rig_open_host(&r);
        ca_db_close(r.reg);
        r.reg = NULL;
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (ca_db_open(&r.reg, r.dir, sqlite_fault_fio(), &r.why) != ERR_OK) {
                _exit(1);
            }
            sqlite_fault_arm(SQLITE_FAULT_KILL, k);
            _exit(enroll(&r) == ERR_OK ? 0 : 2);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 9));
        killed = WEXITSTATUS(status) == 9;
        restart(&r);
        if (is_enrolled(&r)) {
            whole++;
            assert_err(enroll(&r), ERR_EXISTS);
        } else {
            none++;
            assert_true(killed); /* what was answered did happen */
            assert_ok(enroll(&r));
        }
        rig_close(&r);
    }
    assert_true(none > 5);
    assert_true(whole >= 1);
}

static void a_failing_or_full_disk_loses_nothing(void **state)
{
    for (int fault = SQLITE_FAULT_EIO; fault <= SQLITE_FAULT_FULL; fault++) {
        enum err e = ERR_IO;

        for (long k = 0; e; k++) {
            struct rig r;

            rig_open_host(&r);
            sqlite_fault_arm((enum sqlite_fault)fault, k);
            e = enroll(&r);
            assert_true(e == ERR_OK || e == (fault == SQLITE_FAULT_EIO ? ERR_IO : ERR_NOSPACE));
            assert_true(!e || strstr(r.why.text, "book.db"));
            sqlite_fault_arm((enum sqlite_fault)fault, -1);
            if (e) {
                bool whole = is_enrolled(&r); /* with the same connection */

                assert_err(enroll(&r), whole ? ERR_EXISTS : ERR_OK);
            }
            restart(&r);
            assert_true(is_enrolled(&r));
            rig_close(&r);
        }
    }
}

/* Every byte of some, and one of each stretch of the others. */
static void a_flipped_bit_anywhere_is_found(void **state)
{
    struct ca_db *db;
    uint8_t *p;
    size_t n, found = 0, tried = 0;

    assert_ok(os_read_file(&p, &n, rig.path, 1u << 20));
    for (size_t bit = 0; bit < 8 * n; bit += bit < 8 * 120 ? 1 : 1009) {
        p[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_ok(os_remove(rig.path)); /* not over it: that flushes */
        support_write_file(rig.path, p, n);
        p[bit / 8] ^= (uint8_t)(1 << bit % 8);
        rig.why.text[0] = '\0';
        if (ca_db_open(&db, rig.dir, sqlite_fault_fio(), &rig.why) == ERR_CORRUPT) {
            assert_non_null(strstr(rig.why.text, "book.db is damaged"));
            found++;
        }
        tried++;
    }
    assert_int_equal(found, tried);
    assert_ok(os_write_file(rig.path, p, n - 4096, true)); /* cut */
    assert_err(ca_db_open(&db, rig.dir, sqlite_fault_fio(), &rig.why), ERR_CORRUPT);
    assert_ok(os_write_file(rig.path, "", 0, true));
    assert_err(ca_db_open(&db, rig.dir, sqlite_fault_fio(), &rig.why), ERR_CORRUPT);
    mem_free(p);
}

static void others_cannot_read_it_under_any_umask(void **state)
{
    static const mode_t umasks[] = {0, 022, 077};
    struct ca_db *db;

    for (size_t i = 0; i < COUNT_OF(umasks); i++) {
        mode_t before = umask(umasks[i]);
        struct rig r;

        rig_open_host(&r);
        assert_ok(os_check_private(r.path));
        assert_int_equal(chmod(r.path, 0640), 0);
        assert_err(ca_db_open(&db, r.dir, sqlite_fault_fio(), &r.why), ERR_ACCESS);
        assert_non_null(strstr(r.why.text, "chmod"));
        rig_close(&r);
        (void)umask(before);
    }
}

static enum err open_fails(void *e, struct fio_file **out, const char *path)
{
    (void)out;
    (void)path;
    return *(enum err *)e;
}

static void what_is_wrong_is_said_with_its_remedy(void **state)
{
    enum err e = ERR_READONLY;
    const struct fio fio = {.open = open_fails, .ctx = &e};
    struct ca_rows r = {.path = "/x/book.db", .fio = &fio};
    struct errmsg why;
    struct ca_db *db;

    assert_err(ca_rows_explain(&r, ERR_READONLY, &why), ERR_READONLY);
    assert_non_null(strstr(why.text, "mount it writable"));
    assert_null(strstr(why.text, "run this as"));
    e = ERR_ACCESS;
    assert_err(ca_rows_explain(&r, ERR_READONLY, &why), ERR_ACCESS);
    assert_non_null(strstr(why.text, "run this as"));
    assert_err(ca_rows_failed(&r, ERR_NOSPACE, &why), ERR_NOSPACE);
    assert_err(ca_rows_failed(&r, ERR_BUSY, &why), ERR_IO);
    assert_non_null(strstr(why.text, "another program"));
    assert_err(ca_db_open(&db, "/nonexistent/pki", NULL, &why), ERR_NOTFOUND);
    assert_non_null(strstr(why.text, "pki init"));
}

/* Another file takes its place, as when it is brought back from a copy. */
static void a_file_that_takes_its_place_is_followed(void **state)
{
    struct net_identity a = agent("web-01", 1, 1), b = agent("web-02", 2, 1);
    struct ca_cert_meant meant;
    bool changed;
    uint8_t *p;
    size_t n;

    assert_ok(os_read_file(&p, &n, rig.path, 1u << 20));
    assert_ok(ca_cert_revoke(rig.reg, "web-01", "", NOW, &meant, &rig.why));
    assert_ok(ca_db_refresh(rig.reg, &changed, &rig.why));
    assert_true(changed);
    assert_ok(os_write_file(rig.path, "", 0, true));
    assert_err(ca_db_refresh(rig.reg, &changed, &rig.why), ERR_CORRUPT);
    assert_non_null(ca_db_judge(rig.reg, &a)); /* what was known stays known */
    assert_err(enroll(&rig), ERR_IO);
    assert_ok(os_write_file(rig.path, p, n, true));
    assert_ok(ca_db_refresh(rig.reg, &changed, &rig.why));
    assert_true(changed);
    assert_null(ca_db_judge(rig.reg, &a));
    assert_non_null(ca_db_judge(rig.reg, &b));
    assert_ok(enroll(&rig));
    mem_free(p);
}

/* Else a revoked certificate would come in again. */
static void a_file_that_is_gone_is_no_new_one_while_it_is_open(void **state)
{
    struct net_identity a = agent("web-01", 1, 1);
    struct ca_cert_meant meant;
    char away[320];
    bool changed;

    snprintf(away, sizeof away, "%s.away", rig.path);
    assert_ok(ca_cert_issued(rig.reg, &a, NOW, &rig.why));
    assert_ok(ca_cert_revoke(rig.reg, "web-01", "", NOW, &meant, &rig.why));
    assert_ok(ca_db_refresh(rig.reg, &changed, &rig.why));
    assert_int_equal(rename(rig.path, away), 0);
    assert_int_not_equal(ca_db_refresh(rig.reg, &changed, &rig.why), ERR_OK);
    assert_non_null(strstr(rig.why.text, "is gone: bring it back"));
    assert_false(os_exists(rig.path));
    assert_non_null(ca_db_judge(rig.reg, &a));
    assert_int_equal(rename(away, rig.path), 0);
    assert_ok(ca_db_refresh(rig.reg, &changed, &rig.why));
    assert_non_null(ca_db_judge(rig.reg, &a));
}

static void a_journal_of_a_file_that_is_gone_goes_too(void **state)
{
    char journal[320];

    snprintf(journal, sizeof journal, "%s-journal", rig.path);
    ca_db_close(rig.reg);
    ca_db_close(rig.other);
    rig.reg = rig.other = NULL;
    assert_int_equal(remove(rig.path), 0);
    assert_ok(os_write_file(journal, "of another file", 15, true));
    assert_ok(ca_db_open(&rig.reg, rig.dir, NULL, &rig.why));
    assert_false(os_exists(journal));
}

/* -- several processes -- */

enum { PROCESSES = 6, EACH = 25 };

static int write_much(const char *dir, uint8_t process)
{
    struct net_identity who = agent("host", process, 1);
    struct errmsg why;
    struct ca_db *db;
    enum err e = ca_db_open(&db, dir, sqlite_fault_fio(), &why);

    for (uint8_t i = 0; !e && i < EACH; i++) {
        who.fingerprint[5] = i;
        e = ca_cert_issued(db, &who, NOW, &why);
    }
    return e != ERR_OK;
}

static void processes_make_it_and_write_at_once(void **state)
{
    struct rig r = {.reg = NULL};
    size_t certs = 0;

    support_temp_dir(r.dir, sizeof r.dir);
    for (uint8_t i = 0; i < PROCESSES; i++) {
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
            _exit(write_much(r.dir, i));
        }
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status = 0;

        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    restart(&r);
    assert_ok(ca_cert_list(r.reg, count_cert, &certs, &r.why));
    assert_int_equal(certs, PROCESSES * EACH);
    rig_close(&r);
}

static void opening_survives_every_failed_allocation(void **state)
{
    struct net_identity a = agent("web-01", 1, 1), u = user("alice", 1);
    struct ca_cert_meant m;
    enum err e = ERR_NOMEM;
    long live;

    (void)token(&rig, "web-*", false);
    assert_ok(ca_cert_issued(rig.reg, &a, NOW, &rig.why));
    assert_ok(ca_cert_issued(rig.reg, &u, NOW, &rig.why));
    assert_ok(ca_cert_revoke(rig.reg, "web-01", "", NOW, &m, &rig.why));
    live = mem_live();
    for (long n = 0; e; n++) {
        struct ca_db *reg = NULL;

        assert_true(n < 60);
        mem_fail_after(n);
        e = ca_db_open(&reg, rig.dir, NULL, &rig.why);
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM);
        if (!e) {
            assert_non_null(ca_db_judge(reg, &a));
            ca_db_close(reg);
        }
        assert_int_equal(mem_live(), live);
    }
}

static int setup(void **state)
{
    rig_open(&rig);
    return 0;
}

static int setup_host(void **state)
{
    rig_open_host(&rig);
    return 0;
}

static int teardown(void **state)
{
    rig_close(&rig);
    return 0;
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define H(f) cmocka_unit_test_setup_teardown(f, setup_host, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_token_works_once),
        T(tokens_are_refused_for_a_reason),
        T(the_secret_of_a_token_is_written_nowhere),
        T(a_name_that_another_host_has_needs_a_token_for_it),
        T(a_name_is_free_again_when_its_holder_is_revoked_or_over),
        cmocka_unit_test(revocation_reaches_what_the_words_mean),
        T(a_name_that_begins_anothers_fingerprint_means_several),
        T(what_the_book_never_saw_can_be_revoked_whole),
        T(what_is_issued_after_a_revocation_comes_in),
        T(a_renewal_does_not_outrun_a_revocation),
        T(another_process_revokes_and_the_refresh_tells),
        T(a_revocation_read_while_writing_is_told_as_well),
        T(a_token_is_good_the_moment_it_is_made),
        T(a_token_taken_by_many_at_once_is_given_to_one),
        T(a_damaged_book_refuses_to_open_and_keeps_what_is_known),
        T(tidying_takes_out_what_is_over_and_nothing_else),
        T(tidying_keeps_what_an_enrolment_says_beside_its_certificate),
        T(a_revocation_outlives_the_certificates_line),
        T(opening_survives_every_failed_allocation),
        cmocka_unit_test(an_enrolment_that_is_killed_happens_whole_or_not_at_all),
        cmocka_unit_test(a_failing_or_full_disk_loses_nothing),
        H(a_flipped_bit_anywhere_is_found),
        cmocka_unit_test(others_cannot_read_it_under_any_umask),
        cmocka_unit_test(what_is_wrong_is_said_with_its_remedy),
        H(a_file_that_takes_its_place_is_followed),
        H(a_file_that_is_gone_is_no_new_one_while_it_is_open),
        H(a_journal_of_a_file_that_is_gone_goes_too),
        cmocka_unit_test(processes_make_it_and_write_at_once),
    };

    (void)umask(077);
    sqlite_fault_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
