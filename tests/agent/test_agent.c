/* The whole agent against an ingest listener: a recording goes in, batches come out. */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/agent.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/wire/wire_batch.h"
#include "tests/support/certs.h"
#include "tests/support/corpus.h"
#include "tests/support/ingest.h"
#include "tests/support/support.h"

#define LONG_NS   (60 * CLK_S)
#define RECORDING "net.4.5.2.x64"

static struct certs *pki;
static struct tls_config *server_tls;

/* -- what arrived, added up as a query would -- */

struct arrived {
    uint64_t seq;
    int64_t cpu_ns, last_ns; /* of pid 3676 */
    bool any;
    size_t infos, starts, stops;
    uint32_t flags;
    uint64_t source_in;
};

static const struct batch_column *column_of(const struct batch *b, uint8_t metric)
{
    for (size_t i = 0; i < b->n_columns; i++) {
        if (b->columns[i].metric == metric) {
            return &b->columns[i];
        }
    }
    return NULL;
}

static void add_cpu_time(struct arrived *a, const struct batch *b)
{
    const struct batch_column *c = column_of(b, M_CPU_TIME);
    size_t at = 0;

    for (size_t r = 0; c && r < b->n_runs; r++) {
        const struct batch_run *run = &b->runs[r];

        if (!(run->mask & METRIC_BIT(M_CPU_TIME))) {
            continue;
        }
        for (uint32_t i = 0; i < run->n_ticks && run->id.pid == 3676; i++) {
            bool fresh = run->fresh && i == 0;

            a->cpu_ns += a->any || fresh ? c->values[at + i] - (fresh ? 0 : a->last_ns) : 0;
            a->last_ns = c->values[at + i];
            a->any = true;
        }
        at += run->n_ticks;
    }
}

static void on_batch(void *ctx, const void *p, size_t n)
{
    struct arrived *a = ctx;
    struct batch *b;

    assert_ok(wire_batch_decode(&b, p, n));
    assert_int_equal(b->head.seq, ++a->seq);
    a->flags = b->head.flags;
    a->infos += b->n_infos;
    for (size_t i = 0; i < b->n_events; i++) {
        a->starts += b->events[i].kind == LIFE_PROCESS_START;
        a->stops += b->events[i].kind == LIFE_PROCESS_STOP;
    }
    for (size_t i = 0; i < b->n_ledger; i++) {
        if (str_eq(b->ledger[i].stage, str_make("source")) &&
            str_eq(b->ledger[i].reason, str_make("in"))) {
            a->source_in += b->ledger[i].count;
        }
    }
    add_cpu_time(a, b);
    wire_batch_free(b);
}

/* -- the agent under test -- */

struct bench {
    struct ingest *ingest;
    struct arrived arrived;
    struct agent_conf conf;
    char dir[256], path[1024];
    const char *file;
    struct agent_opts opts;
    struct agent *agent;
};

static void load_conf(struct bench *b)
{
    char sets[5][1200];
    const char *list[5];
    struct errmsg why = {""};

    (void)snprintf(sets[0], sizeof sets[0], "state_dir=%s/state", b->dir);
    (void)snprintf(sets[1], sizeof sets[1], "collector.addresses=127.0.0.1:%u",
                   ingest_port(b->ingest));
    (void)snprintf(sets[2], sizeof sets[2], "tls.ca=%s/ca.pem", certs_dir(pki));
    (void)snprintf(sets[3], sizeof sets[3], "tls.cert=%s", certs_path(pki, "host-1", ".pem"));
    (void)snprintf(sets[4], sizeof sets[4], "tls.key=%s", certs_path(pki, "host-1", ".key"));
    for (size_t i = 0; i < COUNT_OF(list); i++) {
        list[i] = sets[i];
    }
    if (agent_conf_load(&b->conf, NULL, list, COUNT_OF(list), &why)) {
        fail_msg("%s", why.text);
    }
}

static struct bench *bench_new(void)
{
    struct bench *b = mem_zalloc(sizeof *b);

    assert_non_null(b);
    b->ingest = ingest_create(server_tls);
    b->ingest->on_batch = on_batch;
    b->ingest->ctx = &b->arrived;
    (void)support_temp_dir(b->dir, sizeof b->dir);
    load_conf(b);
    b->file = b->path;
    b->opts =
        (struct agent_opts){.conf = &b->conf, .files = &b->file, .n_files = 1, .rebase = true};
    (void)corpus_recording(b->path, sizeof b->path, RECORDING);
    return b;
}

static void bench_free(struct bench *b)
{
    agent_destroy(b->agent, 0);
    agent_conf_fini(&b->conf);
    ingest_destroy(b->ingest);
    support_remove_dir(b->dir);
    mem_free(b);
}

static void start(struct bench *b)
{
    struct errmsg why = {""};

    if (agent_start(&b->agent, &b->opts, &why)) {
        fail_msg("%s", why.text);
    }
}

static struct agent_status finish(struct bench *b)
{
    int64_t end_ns = os_mono_ns() + LONG_NS;
    struct agent_status s;

    assert_ok(agent_wait(b->agent, LONG_NS));
    for (agent_status(b->agent, &s); !s.uplink.drained; agent_status(b->agent, &s)) {
        assert_true(os_mono_ns() < end_ns);
        os_sleep_ns(2 * CLK_MS);
    }
    return s;
}

static void a_recording_arrives_whole(void **state)
{
    struct bench *b = bench_new();
    struct agent_status s;

    start(b);
    assert_string_equal(agent_name(b->agent), "host-1");
    s = finish(b);
    assert_int_equal(s.result, ERR_END);
    assert_int_equal(s.uplink.acknowledged, s.batches);
    assert_int_equal(b->arrived.seq, s.batches);
    assert_int_equal(b->arrived.cpu_ns, 5106 * CLK_MS);
    assert_int_equal(b->arrived.starts, 1);
    assert_int_equal(b->arrived.stops, 1);
    assert_true(b->arrived.infos >= 33);
    assert_int_equal(b->arrived.flags, BATCH_REPLAY | BATCH_LAST);
    assert_int_equal(b->arrived.source_in, s.events);
    assert_int_equal(s.permille, 1000);
    bench_free(b);
}

/* A queue far smaller than what the recording becomes, and nobody who takes it. */
static void fill_queue(struct bench *b)
{
    int64_t end_ns = os_mono_ns() + LONG_NS;
    struct agent_status s = {0};

    b->conf.period_ns = 20 * CLK_MS;
    b->conf.queue_bytes = 8 << 10;
    b->conf.batch_bytes = 4 << 10;
    ingest_stop(b->ingest);
    start(b);
    while (s.queue.waits == 0) {
        assert_true(os_mono_ns() < end_ns);
        os_sleep_ns(2 * CLK_MS);
        agent_status(b->agent, &s);
    }
    assert_false(s.ended);
}

static void a_full_queue_makes_a_replay_wait_and_loses_nothing(void **state)
{
    struct bench *b = bench_new();
    char address[32];
    struct agent_status s;

    (void)snprintf(address, sizeof address, "%s", b->conf.addresses[0]);
    fill_queue(b);
    ingest_listen(b->ingest, address);
    s = finish(b);
    assert_int_equal(s.queue.overflow, 0);
    assert_int_equal(b->arrived.seq, s.batches);
    assert_int_equal(b->arrived.cpu_ns, 5106 * CLK_MS);
    bench_free(b);
}

static void an_agent_whose_collector_is_gone_ends_when_told(void **state)
{
    struct bench *b = bench_new();

    fill_queue(b);
    bench_free(b);
}

static void what_cannot_start_says_why(void **state)
{
    struct bench *b = bench_new();
    struct errmsg why = {""};
    struct agent *second = NULL;

    b->opts.name = "host-2";
    assert_err(agent_start(&second, &b->opts, &why), ERR_USAGE);
    assert_non_null(strstr(why.text, "host-1"));
    assert_non_null(strstr(why.text, "host-2"));
    b->opts.name = "host-1";
    start(b);
    assert_err(agent_start(&second, &b->opts, &why), ERR_BUSY);
    assert_non_null(strstr(why.text, "state_dir"));
    b->conf.n_addresses = 0;
    assert_err(agent_start(&second, &b->opts, &why), ERR_USAGE);
    assert_non_null(strstr(why.text, "collector.addresses"));
    b->conf.n_addresses = 1;
    bench_free(b);
}

static int set_up(void **state)
{
    struct errmsg why = {""};

    if (net_init(&why)) {
        return -1;
    }
    pki = certs_create();
    certs_issue(pki, PKI_COLLECTOR, "collector");
    certs_issue(pki, PKI_AGENT, "host-1");
    server_tls = certs_load(pki, "collector", pki, true);
    return 0;
}

static int tear_down(void **state)
{
    tls_config_free(server_tls);
    certs_destroy(pki);
    net_fini();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recording_arrives_whole),
        cmocka_unit_test(a_full_queue_makes_a_replay_wait_and_loses_nothing),
        cmocka_unit_test(an_agent_whose_collector_is_gone_ends_when_told),
        cmocka_unit_test(what_cannot_start_says_why),
    };

    return corpus_dir() ? cmocka_run_group_tests(tests, set_up, tear_down) : CORPUS_SKIP;
}
