#include "tests/bench/fleet_run.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clk.h"
#include "common/log/log.h"
#include "common/net/net_engine.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/support/support.h"

#define PATIENCE_NS    (120 * CLK_S)
#define LOOK_NS        (20 * CLK_MS)
#define GUESTS_COME_NS (4 * CLK_S) /* connect, and one of them is stopped */
#define PREMADE_MORE_S 55u         /* beyond the measured spans: settling, and a restart */

static void check(enum err e, const struct errmsg *why)
{
    if (e) {
        bench_fail(why->text[0] ? why->text : err_text(e));
    }
}

/* -- what can be read off at any moment -- */

struct moment {
    int64_t mono_ns;
    struct fleet_usage collector, here;
    struct fleet_load_sum sum;
    struct net_engine_stats tls;
    double idle_s; /* of all cores, since the machine began */
};

/* What no process of the machine wanted. */
static double machine_idle_s(void)
{
    unsigned long long user = 0, nice = 0, system = 0, idle = 0;
    FILE *f = fopen("/proc/stat", "r");

    if (f && fscanf(f, "cpu %llu %llu %llu %llu", &user, &nice, &system, &idle) != 4) {
        idle = 0;
    }
    if (f) {
        fclose(f);
    }
    return (double)idle / (double)sysconf(_SC_CLK_TCK);
}

static void look(struct fleet_run *r, struct moment *m)
{
    m->mono_ns = os_mono_ns();
    if (r->collector) {
        fleet_usage(&m->collector, fleet_collector_pid(r->collector));
    }
    fleet_usage(&m->here, 0);
    fleet_load_sum(r->load, &m->sum);
    net_engine_stats(&m->tls);
    m->idle_s = machine_idle_s();
}

static void rest(int64_t ns)
{
    int64_t until_ns = os_mono_ns() + ns;

    while (os_mono_ns() < until_ns) {
        os_sleep_ns(LOOK_NS);
    }
}

/* Until all are greeted (or have a batch acknowledged, too) since then. */
static bool await_back(struct fleet_run *r, int64_t since_ns, bool batch,
                       struct fleet_load_back *back)
{
    int64_t until_ns = os_mono_ns() + PATIENCE_NS;

    do {
        fleet_load_back(r->load, since_ns, back);
        if (back->greeted == r->conf.agents && (!batch || back->acked == r->conf.agents)) {
            return true;
        }
        os_sleep_ns(LOOK_NS);
    } while (os_mono_ns() < until_ns);
    return false;
}

static bool await_all_acknowledged(struct fleet_run *r)
{
    int64_t until_ns = os_mono_ns() + PATIENCE_NS;
    struct fleet_load_sum sum;

    do {
        fleet_load_sum(r->load, &sum);
        if (sum.held == 0) {
            return true;
        }
        os_sleep_ns(LOOK_NS);
    } while (os_mono_ns() < until_ns);
    return false;
}

static void figure(const char *name, double value, const char *unit, double goal,
                   enum bench_better better)
{
    char full[96];

    (void)snprintf(full, sizeof full, "fleet_%s", name);
    bench_figure(full, value, unit, goal, better);
}

static double ms(int64_t ns)
{
    return (double)ns / (double)CLK_MS;
}

static double mib(int64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static void complain(struct fleet_run *r, const char *what, double n)
{
    fprintf(stderr, "bench_fleet: WRONG: %s: %.0f\n", what, n);
    r->wrong = true;
}

/* -- phases -- */

static void start_collector(struct fleet_run *r)
{
    struct fleet_collector_conf conf = {
        .dir = r->data_dir,
        .keys = &r->collector_keys,
        .sets = r->sets,
        .n_sets = r->n_sets,
        .events = r->guests,
    };
    struct errmsg why = {""};

    check(os_mkdirs(r->keys_dir, true), &why);
    check(fleet_pki_collector(&r->collector_keys, r->keys_dir, &why), &why);
    check(fleet_pki_operator(&r->operator_keys, r->keys_dir, &why), &why);
    check(fleet_pki_subscriber(&r->subscriber_keys, r->keys_dir, &why), &why);
    check(net_init(&why), &why);
    if (!r->conf.address) {
        check(fleet_collector_start(&r->collector, &conf, &why), &why);
        r->conf.address = fleet_collector_ingest(r->collector);
    }
}

/* What the agents log is of interest when something went wrong. */
static void log_aside(struct fleet_run *r)
{
    char path[FLEET_PATH_MAX + 64];
    struct errmsg why = {"cannot write a log"};

    (void)snprintf(path, sizeof path, "%s/agents.log", r->data_dir);
    check(os_mkdirs(r->data_dir, true), &why);
    check(log_open(LOG_INFO, LOG_TEXT, path), &why);
}

/* Connections; ticks once everybody is there. */
static void connect_all(struct fleet_run *r)
{
    int64_t start_ns = os_mono_ns();
    struct fleet_load_back back;
    struct moment before, after;

    look(r, &before);
    fleet_load_connect(r->load, r->connect_rate);
    if (!await_back(r, start_ns, false, &back)) {
        complain(r, "agents not connected after two minutes", r->conf.agents - back.greeted);
    }
    look(r, &after);
    figure("connect_all", ms(back.greeted_ns - start_ns) / 1000, "s", 0, BENCH_LESS);
    figure("connect_collector_cpu", ms(after.collector.cpu_ns - before.collector.cpu_ns), "ms", 0,
           BENCH_LESS);
    figure("connect_full_handshakes", (double)(after.tls.full - before.tls.full), "", 0,
           BENCH_LESS);
    figure("connected_collector_resident", mib(after.collector.resident_bytes), "MiB", 0,
           BENCH_LESS);
    figure("connected_collector_per_agent",
           (double)(after.collector.resident_bytes - before.collector.resident_bytes) / 1024 /
               r->conf.agents,
           "KiB", 2048, BENCH_LESS);
}

/* Names of figures begin with `span`. */
static void span_figure(const char *span, const char *name, double value, const char *unit,
                        double goal, enum bench_better better)
{
    char full[64];

    (void)snprintf(full, sizeof full, "%s%s", span, name);
    figure(full, value, unit, goal, better);
}

/* Nobody falls behind: what waits in the agents' queues has not grown by more than two batches in a
 * hundred, and the ticks were not late themselves. */
static void held_figures(const struct moment *a, const struct moment *b, const char *span)
{
    double batches = (double)b->sum.measured_batches;
    double growth = (double)b->sum.held - (double)a->sum.held;
    bool late = b->sum.late_ns > CLK_S;

    span_figure(span, "waiting_batches_more", growth, "", 0, BENCH_LESS);
    span_figure(span, "ticks_late_most", ms(b->sum.late_ns), "ms", 0, BENCH_LESS);
    span_figure(span, "held", !late && growth <= batches / 50 + 5, "", 1, BENCH_MORE);
}

static void collector_figures(struct fleet_run *r, const struct moment *a, const struct moment *b,
                              const char *span)
{
    double seconds = (double)(b->mono_ns - a->mono_ns) / CLK_S;
    double values = (double)b->sum.measured_values;
    double cpu_s = (double)(b->collector.cpu_ns - a->collector.cpu_ns) / CLK_S;
    double written = (double)(b->collector.written_bytes - a->collector.written_bytes);

    if (values > 0 && cpu_s > 0) {
        span_figure(span, "collector_values_per_cpu_second", values / cpu_s / 1e6, "M",
                    r->conf.agent.samples >= 10 ? 35 : 10, BENCH_MORE);
        span_figure(span, "collector_cpu_per_million_values", cpu_s / values * 1e9, "ms", 0,
                    BENCH_LESS);
        span_figure(span, "written_per_value", written / values, "B", 0, BENCH_LESS);
    }
    span_figure(span, "collector_cpu", cpu_s / seconds * 100, "% of a core", 0, BENCH_LESS);
    span_figure(span, "collector_resident", mib(b->collector.resident_bytes), "MiB", 0, BENCH_LESS);
    span_figure(span, "collector_resident_per_agent",
                (double)b->collector.resident_bytes / 1e6 / r->conf.agents, "MB", 2, BENCH_LESS);
    span_figure(span, "collector_threads", b->collector.threads, "", 0, BENCH_LESS);
    span_figure(span, "collector_files", b->collector.files, "", 0, BENCH_LESS);
}

static void steady_figures(struct fleet_run *r, const struct moment *a, const struct moment *b,
                           const char *span)
{
    double seconds = (double)(b->mono_ns - a->mono_ns) / CLK_S;
    double here_s = (double)(b->here.cpu_ns - a->here.cpu_ns) / CLK_S;

    span_figure(span, "ack_p50", ms(fleet_load_sent_ns(r->load, 500)), "ms", 25, BENCH_LESS);
    span_figure(span, "ack_p99", ms(fleet_load_sent_ns(r->load, 990)), "ms", 250, BENCH_LESS);
    span_figure(span, "ack_most", ms(fleet_load_sent_ns(r->load, 1000)), "ms", 0, BENCH_LESS);
    span_figure(span, "made_to_ack_p99", ms(fleet_load_made_ns(r->load, 990)), "ms", 0, BENCH_LESS);
    span_figure(span, "values_per_second", (double)b->sum.measured_values / seconds / 1e6, "M", 0,
                BENCH_MORE);
    span_figure(span, "values_made_per_second",
                (double)(b->sum.values - a->sum.values) / seconds / 1e6, "M", 0, BENCH_MORE);
    span_figure(span, "batches_per_second", (double)b->sum.measured_batches / seconds, "1/s", 0,
                BENCH_MORE);
    held_figures(a, b, span);
    if (r->collector) {
        collector_figures(r, a, b, span);
    }
    span_figure(span, "agents_cpu", here_s / seconds * 100, "% of a core", 0, BENCH_LESS);
    span_figure(span, "machine_idle", (b->idle_s - a->idle_s) / seconds * 100, "% of a core", 0,
                BENCH_MORE);
}

static void measure(struct fleet_run *r, unsigned seconds, const char *span)
{
    struct moment before, after;

    fleet_load_measure(r->load, true);
    look(r, &before);
    rest(seconds * CLK_S);
    fleet_load_measure(r->load, false);
    look(r, &after);
    steady_figures(r, &before, &after, span);
}

/* Agents begin one after the other, and a first batch goes with its first tick; the measured span
 * begins when each had a whole one. */
static void steady(struct fleet_run *r)
{
    struct fleet_usage here;

    fleet_load_run(r->load);
    rest((int64_t)(2.0 * r->conf.agent.samples * (double)r->conf.agent.tick_ns) + CLK_S / 2);
    measure(r, r->seconds, "");
    fleet_usage(&here, 0);
    figure("agents_resident_each", (double)here.resident_bytes / 1024 / r->conf.agents, "KiB", 0,
           BENCH_LESS);
    figure("agents_threads", here.threads, "", 0, BENCH_LESS);
    figure("agents_files", here.files, "", 0, BENCH_LESS);
}

/* -- guests -- */

static const char *const questions[FLEET_QUESTIONS] = {"top", "hosts", "history"};

static void with_guests(struct fleet_run *r)
{
    char tail[FLEET_PATH_MAX], prefix[FLEET_PATH_MAX + 64];
    struct fleet_guests_conf conf = {.collector = r->collector,
                                     .operator_keys = &r->operator_keys,
                                     .subscriber_keys = &r->subscriber_keys,
                                     .hosts = r->conf.agents,
                                     .every_ns = 2 * CLK_S,
                                     .tail = tail,
                                     .prefix = prefix};
    struct errmsg why = {""};

    check(fleet_collector_beside(r->collector, "procfleet", tail, sizeof tail), &why);
    (void)snprintf(prefix, sizeof prefix, "%s/subscriber", r->data_dir);
    check(fleet_guests_start(&r->company, &conf, &why), &why);
    rest(GUESTS_COME_NS);
    measure(r, r->seconds > 1 ? r->seconds / 2 : 1, "guests_");
}

static void guests_leave(struct fleet_run *r)
{
    struct fleet_guests_sum sum = {.listening = 0};
    char name[48];

    fleet_guests_stop(r->company, &sum);
    r->company = NULL;
    for (int k = 0; k < FLEET_QUESTIONS; k++) {
        (void)snprintf(name, sizeof name, "%s_p50", questions[k]);
        figure(name, sum.asked[k].p50_ms, "ms", 0, BENCH_LESS);
        (void)snprintf(name, sizeof name, "%s_p99", questions[k]);
        figure(name, sum.asked[k].p99_ms, "ms", 0, BENCH_LESS);
        (void)snprintf(name, sizeof name, "%s_failed", questions[k]);
        figure(name, sum.asked[k].failed, "", 0, BENCH_LESS);
    }
    figure("subscribers_at_the_end", sum.listening, "", 0, BENCH_MORE);
}

/* -- tabs -- */

/* The same once more beside live tabs: what they cost the collector, and those who report. */
static void with_tabs(struct fleet_run *r)
{
    const struct fleet_tabs_conf conf = {.collector = r->collector,
                                         .keys_dir = r->keys_dir,
                                         .tabs = r->tabs,
                                         .hosts = r->conf.agents};
    int64_t alone_ns = fleet_load_sent_ns(r->load, 990), cpu_ns, mono_ns;
    struct fleet_usage before, after;
    struct fleet_tabs_sum sum;
    struct fleet_tabs *tabs;
    struct errmsg why = {""};
    double alone, beside;

    fleet_usage(&before, fleet_collector_pid(r->collector));
    mono_ns = os_mono_ns();
    rest(r->seconds * CLK_S);
    fleet_usage(&after, fleet_collector_pid(r->collector));
    alone = (double)(after.cpu_ns - before.cpu_ns) / (double)(os_mono_ns() - mono_ns) * 100;
    check(fleet_tabs_start(&tabs, &conf, &why), &why);
    rest(GUESTS_COME_NS);
    fleet_usage(&before, fleet_collector_pid(r->collector));
    mono_ns = os_mono_ns();
    measure(r, r->seconds, "tabs_");
    fleet_usage(&after, fleet_collector_pid(r->collector));
    cpu_ns = after.cpu_ns - before.cpu_ns;
    beside = (double)cpu_ns / (double)(os_mono_ns() - mono_ns) * 100;
    fleet_tabs_stop(tabs, &sum);
    figure("tabs_ack_p99_ratio",
           alone_ns > 0 ? (double)fleet_load_sent_ns(r->load, 990) / (double)alone_ns : 0, "", 1.2,
           BENCH_LESS);
    figure("tab_collector_cpu", (beside - alone) / r->tabs, "% of a core", 0.5, BENCH_LESS);
    figure("tabs_answered", (double)sum.answered, "", 0, BENCH_MORE);
    figure("tabs_failed", (double)sum.failed, "", 0, BENCH_LESS);
    figure("tabs_p50", sum.p50_ms, "ms", 0, BENCH_LESS);
    figure("tabs_p99", sum.p99_ms, "ms", 0, BENCH_LESS);
    figure("tabs_received", (double)sum.bytes / 1e6 / r->seconds, "MB/s", 0, BENCH_LESS);
}

/* -- restarts -- */

static void restart_figures(struct fleet_run *r, const char *span, int64_t ready_ns,
                            const struct fleet_load_back *back, const struct moment *before,
                            const struct moment *after)
{
    span_figure(span, "half_connected", ms(fleet_load_greeted_ns(r->load, 500) - ready_ns) / 1000,
                "s", 0, BENCH_LESS);
    span_figure(span, "99_percent_connected",
                ms(fleet_load_greeted_ns(r->load, 990) - ready_ns) / 1000, "s", 0, BENCH_LESS);
    span_figure(span, "all_connected", ms(back->greeted_ns - ready_ns) / 1000, "s", 15, BENCH_LESS);
    span_figure(span, "full_handshakes", (double)(after->tls.full - before->tls.full), "", 0,
                BENCH_LESS);
    span_figure(span, "resumed_handshakes", (double)(after->tls.resumed - before->tls.resumed), "",
                0, BENCH_MORE);
    span_figure(span, "failed_handshakes", (double)(after->tls.failed - before->tls.failed), "", 0,
                BENCH_LESS);
    span_figure(span, "collector_cpu", ms(after->collector.cpu_ns), "ms", 0, BENCH_LESS);
}

static void restart(struct fleet_run *r, int signal, const char *span)
{
    struct fleet_load_back back, acked;
    struct moment before, after;
    struct errmsg why = {""};
    int64_t ended_ns, ready_ns;

    look(r, &before);
    ended_ns = os_mono_ns();
    fleet_collector_end(r->collector, signal);
    rest(ended_ns + r->down * CLK_S - os_mono_ns());
    if (r->no_tickets) {
        fleet_collector_forget_tickets(r->collector);
    }
    check(fleet_collector_again(r->collector, &why), &why);
    ready_ns = os_mono_ns();
    if (!await_back(r, ended_ns, false, &back)) {
        complain(r, "agents not back after two minutes", r->conf.agents - back.greeted);
    }
    look(r, &after);
    span_figure(span, "away", ms(ready_ns - ended_ns) / 1000, "s", 5, BENCH_LESS);
    restart_figures(r, span, ready_ns, &back, &before, &after);
    if (!await_back(r, ended_ns, true, &acked)) {
        complain(r, "agents without an acknowledgement after the restart",
                 r->conf.agents - acked.acked);
    }
    span_figure(span, "all_acknowledged", ms(acked.acked_ns - ready_ns) / 1000, "s", 0, BENCH_LESS);
}

static void restarts(struct fleet_run *r)
{
    bool both = strcmp(r->restart, "both") == 0;

    if (both || strcmp(r->restart, "kill") == 0) {
        restart(r, SIGKILL, both ? "restart_kill_" : "restart_");
    }
    if (both || strcmp(r->restart, "term") == 0) {
        restart(r, SIGTERM, both ? "restart_term_" : "restart_");
    }
}

/* -- the account -- */

struct account {
    uint64_t hosts, batches, duplicates, gaps;
};

static void add_host(void *ctx, const struct wire_host *h)
{
    struct account *a = ctx;

    if (h->name.n > 4 && memcmp(h->name.p, "gen-", 4) == 0) {
        a->hosts++;
        a->batches += h->batches;
        a->duplicates += h->duplicates;
        a->gaps += h->gaps;
    }
}

static void compare(struct fleet_run *r, const struct fleet_load_sum *made)
{
    struct account held = {0};
    struct errmsg why = {""};

    check(fleet_ask_hosts(fleet_collector_query(r->collector), &r->operator_keys, add_host, &held,
                          &why),
          &why);
    figure("stored_batches", (double)held.batches, "", 0, BENCH_MORE);
    figure("stored_gaps", (double)held.gaps, "", 0, BENCH_LESS);
    figure("recognised_duplicates", (double)held.duplicates, "", 0, BENCH_LESS);
    if (held.hosts != r->conf.agents) {
        complain(r, "hosts known", (double)held.hosts);
    }
    if (held.batches != made->batches) {
        complain(r, "batches stored, but another number made", (double)held.batches);
    }
    if (held.gaps) {
        complain(r, "gaps", (double)held.gaps);
    }
}

static void account(struct fleet_run *r)
{
    struct fleet_load_sum sum;

    fleet_load_finish(r->load);
    if (!await_all_acknowledged(r)) {
        fprintf(stderr, "bench_fleet: not everything is acknowledged after two minutes\n");
    }
    fleet_load_sum(r->load, &sum);
    figure("made_batches", (double)sum.batches, "", 0, BENCH_MORE);
    figure("made_bytes_per_value", (double)sum.bytes / (double)sum.values, "B", 1.05, BENCH_LESS);
    figure("sent_again", (double)sum.resent, "", 0, BENCH_LESS);
    figure("lost_batches", (double)(sum.lost + sum.held + sum.quarantined), "", 0, BENCH_LESS);
    if (sum.lost + sum.held + sum.quarantined) {
        complain(r, "batches lost, held or quarantined",
                 (double)(sum.lost + sum.held + sum.quarantined));
    }
    if (r->collector) {
        compare(r, &sum);
    }
}

static void close_all(struct fleet_run *r)
{
    fleet_load_destroy(r->load);
    fleet_collector_close(r->collector);
    if (r->conf.journal) {
        fclose(r->conf.journal);
    }
    log_close();
    if (!r->wrong) {
        support_remove_dir(r->own_dir ? r->dir : r->data_dir);
    } else {
        fprintf(stderr, "bench_fleet: files stay in %s\n", r->data_dir);
    }
}

bool fleet_run(struct fleet_run *r)
{
    int64_t start_ns = os_mono_ns();

    log_aside(r);
    start_collector(r);
    r->load = fleet_load_create(&r->conf);
    figure("agents_made_in", ms(os_mono_ns() - start_ns) / 1000, "s", 0, BENCH_LESS);
    connect_all(r);
    if (r->premade) {
        fleet_load_premake(r->load, r->seconds * (r->guests ? 3 : 2) / 2 +
                                        (r->tabs ? 2 * r->seconds : 0) + PREMADE_MORE_S);
    }
    steady(r);
    if (r->tabs && r->collector) {
        with_tabs(r);
    }
    if (r->guests) {
        with_guests(r);
    }
    if (r->restart && r->collector) {
        restarts(r);
    }
    if (r->company) {
        guests_leave(r);
    }
    account(r);
    close_all(r);
    return !r->wrong;
}
