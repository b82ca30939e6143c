#include "agent/enroll/renew.h"

#include <stdio.h>

#include "common/base/mem.h"
#include "common/log/log.h"
#include "tests/agent/enroll/desk.h"
#include "tests/agent/enroll/identity.h"
#include "tests/support/net_rig.h"
#include "tests/support/support.h"

#define DAY_NS  (24 * 3600 * CLK_S)
#define LONG_NS (30 * CLK_S)

static struct certs *pki, *foreign;
static struct desk *desk;

/* A host that renews; its calls to the collector in use end here. */
struct host {
    char dir[256];
    struct places place;
    struct tls_config *tls;
    struct net_identity first;
    struct renew *renew;
    struct renew_status now;
    atomic_uint calls, told;
    atomic_bool away; /* no collector is connected */
    atomic_bool refuses;
    int64_t (*utc_ns)(void);
};

static enum err on_call(void *ctx, const char *method, const void *p, size_t n, int64_t timeout_ns,
                        struct buf *reply, struct rpc_result *result)
{
    struct wire_renew *m = mem_zalloc(sizeof *m);
    struct host *h = ctx;
    enum err e = ERR_REFUSED;

    (void)timeout_ns;
    assert_non_null(m);
    assert_string_equal(method, RPC_INGEST_RENEW);
    assert_ok(wire_enroll_renew_decode(m, p, n));
    atomic_fetch_add(&h->calls, 1);
    if (atomic_load(&h->away)) {
        e = ERR_UNREACHABLE;
    } else if (atomic_load(&h->refuses)) {
        result->code = RPC_PERMISSION_DENIED;
        (void)snprintf(result->message, sizeof result->message, "revoked");
    } else {
        e = desk_sign(desk, reply, m->csr, m->csr_n, &h->first);
    }
    mem_free(m);
    return e;
}

/* What was logged since the last host_init; read when the host has ended. */
static struct buf lines;
static struct os_mutex *lines_lock; /* guards it: whoever logs is heard on his own thread */

static void on_line(void *ctx, unsigned note, enum log_level level, const char *module,
                    const char *event, const char *text)
{
    (void)note;
    (void)ctx;
    (void)level;
    os_mutex_lock(lines_lock);
    buf_printf(&lines, "%s %s %s\n", module, event, text);
    os_mutex_unlock(lines_lock);
}

static bool logged(const char *words)
{
    bool found;

    os_mutex_lock(lines_lock);
    found = strstr(buf_cstr(&lines), words) != NULL;
    os_mutex_unlock(lines_lock);
    return found;
}

static void on_renewed(void *ctx)
{
    struct host *h = ctx;

    atomic_fetch_add(&h->told, 1);
}

/* With a certificate that was issued so long ago. */
static void host_init(struct host *h, int64_t age_ns, int64_t life_ns)
{
    struct pki_issue what = {
        .use = PKI_AGENT, .name = "host-1", .now_ns = os_utc_ns() - age_ns, .life_ns = life_ns};
    struct net_tls_conf tls = {.server_name = PKI_SERVER_NAME, .lapsed = true};
    struct errmsg why = {""};

    memset(h, 0, sizeof *h);
    os_mutex_lock(lines_lock);
    buf_reset(&lines);
    os_mutex_unlock(lines_lock);
    support_temp_dir(h->dir, sizeof h->dir);
    places_in(&h->place, h->dir);
    assert_ok(pki_authority_issue(certs_dir(pki), &what, h->place.cert, h->place.key, &why));
    certs_copy(pki, "ca", ".pem", h->place.ca);
    tls.ca = h->place.ca;
    tls.cert = h->place.cert;
    tls.key = h->place.key;
    if (tls_config_load(&h->tls, &tls, false, &why)) {
        fail_msg("%s", why.text);
    }
    tls_config_identity(h->tls, &h->first);
}

static void host_start(struct host *h)
{
    struct renew_conf conf = {.tls = h->tls,
                              .files = h->place.files,
                              .enroll_address = desk->address,
                              .server_name = PKI_SERVER_NAME,
                              .call = on_call,
                              .renewed = on_renewed,
                              .ctx = h,
                              .utc_ns = h->utc_ns};

    assert_ok(renew_start(&h->renew, &conf));
}

static void host_fini(struct host *h)
{
    renew_stop(h->renew);
    tls_config_free(h->tls);
    support_remove_dir(h->dir);
}

/* Until it has renewed or failed so often. */
static void await_tries(struct host *h, uint64_t renewed, uint64_t failed)
{
    int64_t until_ns = os_mono_ns() + LONG_NS;

    do {
        renew_status(h->renew, &h->now);
        os_sleep_ns(5 * CLK_MS);
    } while ((h->now.renewed < renewed || h->now.failed < failed) && os_mono_ns() < until_ns);
    assert_true(h->now.renewed >= renewed);
    assert_true(h->now.failed >= failed);
}

static void it_is_due_after_two_thirds_of_the_life(void **state)
{
    struct net_identity who = {.not_before_ns = 100 * DAY_NS, .not_after_ns = 190 * DAY_NS};

    assert_int_equal(renew_due_ns(&who, 0), 160 * DAY_NS);
    assert_true(renew_due_ns(&who, 1023) > 167 * DAY_NS);
    assert_true(renew_due_ns(&who, 1023) < 168 * DAY_NS);
}

/* One failure after another until no more than that is left: the last pause. */
static int64_t pause_after(int64_t *left_ns, int64_t *grown_ns, int64_t until_left_ns, enum err e)
{
    int64_t pause_ns = 0;

    for (int i = 0; i < 100000 && *left_ns > until_left_ns; i++) {
        pause_ns = renew_pause_ns(grown_ns, *left_ns, e);
        *left_ns -= pause_ns;
    }
    return pause_ns;
}

static void a_collector_that_returns_after_the_expiry_is_found_within_half_a_minute(void **state)
{
    int64_t grown_ns = CLK_S, left_ns = 20 * CLK_S;

    /* Many tries in a short life do not make the pauses after it long. */
    (void)pause_after(&left_ns, &grown_ns, 0, ERR_UNREACHABLE);
    assert_true(renew_pause_ns(&grown_ns, left_ns, ERR_UNREACHABLE) <= 2 * CLK_S);
    assert_int_equal(pause_after(&left_ns, &grown_ns, -DAY_NS, ERR_UNREACHABLE), 30 * CLK_S);
    /* One that answers and refuses is asked less often. */
    assert_int_equal(pause_after(&left_ns, &grown_ns, -2 * DAY_NS, ERR_REFUSED), 600 * CLK_S);
    assert_int_equal(renew_pause_ns(&grown_ns, left_ns, ERR_UNREACHABLE), 30 * CLK_S);
}

static void pauses_before_the_expiry_grow_to_an_hour_and_shrink_with_what_is_left(void **state)
{
    int64_t grown_ns = CLK_S, left_ns = 30 * DAY_NS;

    assert_int_equal(renew_pause_ns(&grown_ns, left_ns, ERR_UNREACHABLE), CLK_S);
    assert_int_equal(renew_pause_ns(&grown_ns, left_ns, ERR_UNREACHABLE), 2 * CLK_S);
    assert_int_equal(pause_after(&left_ns, &grown_ns, 29 * DAY_NS, ERR_REFUSED), 3600 * CLK_S);
    assert_int_equal(renew_pause_ns(&grown_ns, 80 * CLK_S, ERR_REFUSED), 10 * CLK_S);
}

static void a_young_certificate_is_left_alone(void **state)
{
    struct host h;

    host_init(&h, 0, 3600 * CLK_S);
    host_start(&h);
    do {
        renew_status(h.renew, &h.now);
    } while (h.now.next_ns == 0);
    assert_true(h.now.next_ns > os_utc_ns() + 1800 * CLK_S);
    assert_true(h.now.next_ns < h.now.not_after_ns);
    assert_int_equal(h.now.not_after_ns, h.first.not_after_ns);
    host_fini(&h);
    assert_int_equal(atomic_load(&h.calls), 0);
}

static void an_old_one_is_renewed_and_used(void **state)
{
    struct net_identity who;
    struct errmsg why = {""};
    struct host h;

    host_init(&h, 3000 * CLK_S, 3600 * CLK_S);
    host_start(&h);
    await_tries(&h, 1, 0);
    assert_true(h.now.not_after_ns > h.first.not_after_ns);
    assert_string_equal(h.now.why, "");
    tls_config_identity(h.tls, &who);
    assert_int_equal(who.not_after_ns, h.now.not_after_ns);
    assert_memory_equal(&who.host, &h.first.host, sizeof who.host);
    assert_ok(identity_of(&who, &h.place.files, &why));
    assert_int_equal(who.not_after_ns, h.now.not_after_ns);
    host_fini(&h);
    assert_int_equal(atomic_load(&h.calls), 1); /* the new one is young */
    assert_int_equal(atomic_load(&h.told), 1);
    assert_true(logged("trust renewed until="));
}

static void what_fails_is_told_and_tried_again(void **state)
{
    struct host h;

    host_init(&h, 3000 * CLK_S, 3600 * CLK_S);
    atomic_store(&h.refuses, true);
    host_start(&h);
    await_tries(&h, 0, 1);
    assert_non_null(strstr(h.now.why, "revoked"));
    assert_int_equal(h.now.not_after_ns, h.first.not_after_ns);
    atomic_store(&h.refuses, false);
    atomic_store(&h.away, true);
    await_tries(&h, 0, 2);
    assert_non_null(strstr(h.now.why, "no collector is connected"));
    atomic_store(&h.away, false);
    await_tries(&h, 1, 2);
    assert_string_equal(h.now.why, "");
    host_fini(&h);
    assert_true(logged("trust renew_failed why="));
    assert_true(logged("agent certificate days=0 ")); /* less than a day is left */
}

static void an_expired_one_goes_to_the_enroll_listener(void **state)
{
    unsigned before = atomic_load(&desk->calls);
    struct host h;

    host_init(&h, 7200 * CLK_S, 3600 * CLK_S);
    atomic_store(&h.away, true); /* no collector takes it any more */
    host_start(&h);
    await_tries(&h, 1, 0);
    assert_true(h.now.not_after_ns > os_utc_ns());
    host_fini(&h);
    assert_int_equal(atomic_load(&desk->calls), before + 1);
}

static int64_t next_week(void)
{
    return os_utc_ns() + 7 * DAY_NS;
}

static void a_clock_that_is_far_ahead_renews_ever_more_slowly(void **state)
{
    unsigned before = atomic_load(&desk->calls);
    struct host h;

    host_init(&h, 0, 3600 * CLK_S);
    h.utc_ns = next_week;
    host_start(&h);
    await_tries(&h, 2, 2);
    assert_non_null(strstr(h.now.why, "clock"));
    host_fini(&h);
    /* it stands only by its own clock, and its connection is still good */
    assert_in_range(atomic_load(&h.calls), 2, 3);
    assert_int_equal(atomic_load(&desk->calls), before);
}

static void a_certificate_of_another_host_is_not_taken(void **state)
{
    struct net_identity who;
    struct errmsg why = {""};
    struct host h;

    host_init(&h, 3000 * CLK_S, 3600 * CLK_S);
    desk->trick = DESK_OTHER_HOST;
    host_start(&h);
    await_tries(&h, 0, 1);
    assert_non_null(strstr(h.now.why, "another host"));
    assert_ok(identity_of(&who, &h.place.files, &why));
    assert_memory_equal(who.fingerprint, h.first.fingerprint, sizeof who.fingerprint);
    host_fini(&h);
    desk->trick = DESK_HONEST;
}

static void a_new_authority_of_the_same_collector_is_learned(void **state)
{
    struct net_identity who;
    struct errmsg why = {""};
    struct host h;

    host_init(&h, 3000 * CLK_S, 3600 * CLK_S);
    desk->trick = DESK_OTHER_AUTHORITY;
    host_start(&h);
    await_tries(&h, 1, 0);
    assert_ok(identity_of(&who, &h.place.files, &why));
    assert_memory_equal(&who.host, &h.first.host, sizeof who.host);
    assert_true(who.not_after_ns > h.first.not_after_ns);
    host_fini(&h);
    desk->trick = DESK_HONEST;
}

static void a_stop_waits_for_nothing(void **state)
{
    int64_t begun_ns = os_mono_ns();

    for (int i = 0; i < 20; i++) {
        struct host h;

        host_init(&h, i % 2 ? 3000 * CLK_S : 0, 3600 * CLK_S);
        host_start(&h);
        host_fini(&h);
    }
    assert_true(os_mono_ns() - begun_ns < LONG_NS);
    renew_stop(NULL);
}

static void running_out_of_memory_at_the_start_leaves_nothing(void **state)
{
    enum err e = ERR_NOMEM;
    struct host h;

    host_init(&h, 0, 3600 * CLK_S);
    for (long i = 0; e; i++) {
        struct renew_conf conf = {.tls = h.tls,
                                  .files = h.place.files,
                                  .server_name = PKI_SERVER_NAME,
                                  .call = on_call,
                                  .ctx = &h};

        mem_fail_after(i);
        e = renew_start(&h.renew, &conf);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
    }
    host_fini(&h);
}

static int set_up(void **state)
{
    assert_ok(os_mutex_create(&lines_lock));
    buf_init(&lines, 1u << 20);
    log_tee(on_line, NULL);
    net_rig_begin(&pki, &foreign);
    certs_issue(pki, PKI_COLLECTOR, "collector");
    desk = desk_open(pki, foreign);
    return 0;
}

static int tear_down(void **state)
{
    desk_close(desk);
    log_tee(NULL, NULL);
    buf_fini(&lines);
    os_mutex_destroy(lines_lock);
    return net_rig_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_due_after_two_thirds_of_the_life),
        cmocka_unit_test(a_collector_that_returns_after_the_expiry_is_found_within_half_a_minute),
        cmocka_unit_test(pauses_before_the_expiry_grow_to_an_hour_and_shrink_with_what_is_left),
        cmocka_unit_test(a_young_certificate_is_left_alone),
        cmocka_unit_test(an_old_one_is_renewed_and_used),
        cmocka_unit_test(what_fails_is_told_and_tried_again),
        cmocka_unit_test(an_expired_one_goes_to_the_enroll_listener),
        cmocka_unit_test(a_clock_that_is_far_ahead_renews_ever_more_slowly),
        cmocka_unit_test(a_certificate_of_another_host_is_not_taken),
        cmocka_unit_test(a_new_authority_of_the_same_collector_is_learned),
        cmocka_unit_test(a_stop_waits_for_nothing),
        cmocka_unit_test(running_out_of_memory_at_the_start_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
