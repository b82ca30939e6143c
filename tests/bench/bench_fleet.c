/* A fleet in one process against a real collector: simulated agents (tests/support/fleet_agent) on
 * the real batch, uplink and TLS code.
 *
 *   keys → collector → agents connect → steady: measured → [restart: the collector is
 *   ended, stays down, comes back] → drain → what the collector says it holds
 *
 * Prints figures like every benchmark; ends with 1 when something was lost, stored twice or not
 * stored at all, because then no figure is worth anything. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/clk.h"
#include "common/log.h"
#include "common/opt.h"
#include "common/os.h"
#include "tests/bench/bench.h"
#include "tests/bench/fleet_load.h"
#include "tests/support/fleet_collector.h"
#include "tests/support/support.h"

#define PATIENCE_NS (120 * CLK_S)
#define LOOK_NS     (20 * CLK_MS)
#define SETS_MAX    32u

static const struct opt options[] = {
    {"agents", 'n', "N", "how many (100)", false},
    {"rate", 0, "HZ", "ticks a second (1)", false},
    {"processes", 0, "N", "of each host (150)", false},
    {"metrics", 0, "N", "of each process, at most 30 (30)", false},
    {"samples-per-batch", 0, "N", "ticks of one batch (10)", false},
    {"seconds", 's', "S", "measured, once everybody is connected (20)", false},
    {"burst", 0, "K", "so many of the agents tick at 10 Hz (0)", false},
    {"generators", 0, "N", "threads that make the ticks (1)", false},
    {"connect-rate", 0, "N",
     "agents that connect for the first time, a second; 0 = all at once (200)", false},
    {"restart", 0, "kill|term", "then end the collector in this way and start it again", false},
    {"down", 0, "S", "how long it is away at a restart (2)", false},
    {"no-tickets", 0, NULL,
     "the collector loses the keys of its TLS tickets before it starts again", false},
    {"spool", 0, NULL, "batches wait on disk, as in a real agent, not in memory", false},
    {"dir", 0, "DIR", "keys are kept there for the next run; else all files are temporary", false},
    {"collector", 0, "HOST:PORT", "an existing one's ingest listener, for keys of --dir", false},
    {"set", 0, "KEY=VALUE", "a setting of the collector", true},
    {"journal", 0, "FILE", "a line for each tick and event made", false},
    {"format", 0, "text|json", "how figures are printed (text)", false},
};

static const struct opt_command command = {
    .program = "bench_fleet",
    .brief = "many simulated agents on real connections to a real collector",
    .opts = options,
    .n_opts = sizeof options / sizeof *options,
    .examples = "  bench_fleet --agents 1000 --seconds 60\n"
                "  bench_fleet --agents 1000 --seconds 20 --restart kill --down 2\n",
};

struct run {
    struct fleet_load_conf conf;
    double rate;
    unsigned seconds, down, connect_rate;
    int restart; /* signal, 0 = none */
    bool own_dir, json, no_tickets;
    char dir[FLEET_PATH_MAX], keys_dir[FLEET_PATH_MAX + 8], data_dir[FLEET_PATH_MAX + 32],
        spool_dir[FLEET_PATH_MAX + 48];
    const char *sets[SETS_MAX];
    size_t n_sets;
    struct fleet_collector *collector; /* NULL: somebody else's */
    struct fleet_keys collector_keys, operator_keys;
    struct fleet_load *load;
    int64_t all_connected_ns; /* from the first attempt on */
    bool wrong;
};

static void die(const char *what)
{
    fprintf(stderr, "bench_fleet: %s\n", what);
    exit(2);
}

static void check(enum err e, const struct errmsg *why)
{
    if (e) {
        die(why->text[0] ? why->text : err_text(e));
    }
}

/* -- options -- */

static bool choose(const struct opt_args *args, const char *name, const char *no, const char *yes)
{
    const char *text = opt_value(args, name);

    if (text && strcmp(text, yes) != 0 && strcmp(text, no) != 0) {
        fprintf(stderr, "bench_fleet: --%s is %s or %s\n", name, no, yes);
        exit(2);
    }
    return text && strcmp(text, yes) == 0;
}

static void take_agent(struct run *r, const struct opt_args *args)
{
    struct fleet_agent_conf *a = &r->conf.agent;

    r->rate = bench_number(args, "rate", 0.01, 1000, 1);
    a->tick_ns = (int64_t)(CLK_S / r->rate);
    a->processes = (unsigned)bench_number(args, "processes", 1, MODEL_PROCESSES_MAX, 150);
    a->metrics = (unsigned)bench_number(args, "metrics", 1, 30, 30);
    a->samples = (unsigned)bench_number(args, "samples-per-batch", 1, 1000, 10);
    a->batch_age_ns = 3600 * CLK_S; /* the samples decide */
    a->queue_bytes = 64u << 20;
    a->spool_bytes = 256u << 20;
    a->heartbeat_ns = 30 * CLK_S;
    r->conf.agents = (unsigned)bench_number(args, "agents", 1, 20000, 100);
    r->conf.burst = (unsigned)bench_number(args, "burst", 0, 20000, 0);
    r->conf.generators = (unsigned)bench_number(args, "generators", 1, 8, 1);
    r->conf.address = opt_value(args, "collector");
}

static void take_dirs(struct run *r, const struct opt_args *args)
{
    const char *dir = opt_value(args, "dir");
    uint64_t id = 0;

    if (dir) {
        (void)snprintf(r->dir, sizeof r->dir, "%s", dir);
    } else if (r->conf.address) {
        die("--collector wants --dir, where its authority is");
    } else {
        support_temp_dir(r->dir, sizeof r->dir);
        r->own_dir = true;
    }
    err_ignore(os_random(&id, sizeof id));
    (void)snprintf(r->keys_dir, sizeof r->keys_dir, "%s/keys", r->dir);
    (void)snprintf(r->data_dir, sizeof r->data_dir, "%s/run-%06x", r->dir,
                   (unsigned)(id & 0xffffff));
    (void)snprintf(r->spool_dir, sizeof r->spool_dir, "%s/spools", r->data_dir);
    r->conf.keys_dir = r->keys_dir;
    r->conf.spool_dir = opt_flag(args, "spool") ? r->spool_dir : NULL;
}

static void take_options(struct run *r, const struct opt_args *args)
{
    const char *journal = opt_value(args, "journal");

    take_agent(r, args);
    take_dirs(r, args);
    r->seconds = (unsigned)bench_number(args, "seconds", 1, 1e6, 20);
    r->connect_rate = (unsigned)bench_number(args, "connect-rate", 0, 1e6, 200);
    r->down = (unsigned)bench_number(args, "down", 0, 3600, 2);
    r->json = choose(args, "format", "text", "json");
    if (opt_value(args, "restart")) {
        r->restart = choose(args, "restart", "term", "kill") ? SIGKILL : SIGTERM;
    }
    r->n_sets = opt_values(args, "set", r->sets, SETS_MAX);
    r->no_tickets = opt_flag(args, "no-tickets");
    if (journal) {
        r->conf.journal = os_fopen(journal, "ab");
        if (!r->conf.journal) {
            die(strerror(errno));
        }
    }
}

/* -- what can be read off at any moment -- */

struct moment {
    int64_t mono_ns;
    struct fleet_usage collector, here;
    struct fleet_load_sum sum;
    struct net_tls_stats tls;
};

static void look(struct run *r, struct moment *m)
{
    m->mono_ns = os_mono_ns();
    if (r->collector) {
        fleet_usage(&m->collector, fleet_collector_pid(r->collector));
    }
    fleet_usage(&m->here, 0);
    fleet_load_sum(r->load, &m->sum);
    net_tls_stats(&m->tls);
}

static void rest(int64_t ns)
{
    int64_t until_ns = os_mono_ns() + ns;

    while (os_mono_ns() < until_ns) {
        os_sleep_ns(LOOK_NS);
    }
}

/* Until all are greeted (or have a batch acknowledged, too) since then. */
static bool await_back(struct run *r, int64_t since_ns, bool batch, struct fleet_load_back *back)
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

static bool await_all_acknowledged(struct run *r)
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
    char full[64];

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

static void complain(struct run *r, const char *what, double n)
{
    fprintf(stderr, "bench_fleet: WRONG: %s: %.0f\n", what, n);
    r->wrong = true;
}

/* -- phases -- */

static void start_collector(struct run *r)
{
    struct fleet_collector_conf conf = {
        .dir = r->data_dir, .keys = &r->collector_keys, .sets = r->sets, .n_sets = r->n_sets};
    struct errmsg why = {""};

    check(os_mkdirs(r->keys_dir, true), &why);
    check(fleet_pki_collector(&r->collector_keys, r->keys_dir, &why), &why);
    check(fleet_pki_operator(&r->operator_keys, r->keys_dir, &why), &why);
    check(net_init(&why), &why);
    if (!r->conf.address) {
        check(fleet_collector_start(&r->collector, &conf, &why), &why);
        r->conf.address = fleet_collector_ingest(r->collector);
    }
}

/* What the agents log is of interest when something went wrong. */
static void log_aside(struct run *r)
{
    char path[FLEET_PATH_MAX + 64];
    struct errmsg why = {"cannot write a log"};

    (void)snprintf(path, sizeof path, "%s/agents.log", r->data_dir);
    check(os_mkdirs(r->data_dir, true), &why);
    check(log_open(LOG_INFO, LOG_TEXT, path), &why);
}

/* Connections; ticks once everybody is there. */
static void connect_all(struct run *r)
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

static void steady_figures(struct run *r, const struct moment *a, const struct moment *b)
{
    double seconds = (double)(b->mono_ns - a->mono_ns) / CLK_S;
    double values = (double)b->sum.measured_values, batches = (double)b->sum.measured_batches;
    double cpu_s = (double)(b->collector.cpu_ns - a->collector.cpu_ns) / CLK_S;
    double here_s = (double)(b->here.cpu_ns - a->here.cpu_ns) / CLK_S;
    double made = (double)(b->sum.values - a->sum.values);

    figure("ack_p50", ms(fleet_load_sent_ns(r->load, 500)), "ms", 25, BENCH_LESS);
    figure("ack_p99", ms(fleet_load_sent_ns(r->load, 990)), "ms", 250, BENCH_LESS);
    figure("ack_most", ms(fleet_load_sent_ns(r->load, 1000)), "ms", 0, BENCH_LESS);
    figure("made_to_ack_p99", ms(fleet_load_made_ns(r->load, 990)), "ms", 0, BENCH_LESS);
    figure("values_per_second", values / seconds / 1e6, "M", 0, BENCH_MORE);
    figure("values_made_per_second", made / seconds / 1e6, "M", 0, BENCH_MORE);
    figure("batches_per_second", batches / seconds, "1/s", 0, BENCH_MORE);
    if (r->collector) {
        figure("collector_values_per_cpu_second", cpu_s > 0 ? values / cpu_s / 1e6 : 0, "M",
               r->conf.agent.samples >= 10 ? 35 : 10, BENCH_MORE);
        figure("collector_cpu", cpu_s / seconds * 100, "% of a core", 0, BENCH_LESS);
        figure("collector_resident", mib(b->collector.resident_bytes), "MiB", 0, BENCH_LESS);
        figure("collector_threads", b->collector.threads, "", 0, BENCH_LESS);
        figure("collector_files", b->collector.files, "", 0, BENCH_LESS);
    }
    figure("ticks_late_most", ms(b->sum.late_ns), "ms", 0, BENCH_LESS);
    figure("agents_cpu", here_s / seconds * 100, "% of a core", 0, BENCH_LESS);
    figure("agents_resident_each", (double)b->here.resident_bytes / 1024 / r->conf.agents, "KiB", 0,
           BENCH_LESS);
    figure("agents_threads", b->here.threads, "", 0, BENCH_LESS);
    figure("agents_files", b->here.files, "", 0, BENCH_LESS);
}

/* A first batch goes with its first tick; the measured span begins when each had a whole one. */
static void steady(struct run *r)
{
    struct moment before, after;

    fleet_load_run(r->load);
    rest((int64_t)(r->conf.agent.samples * (double)r->conf.agent.tick_ns) + CLK_S / 2);
    look(r, &before);
    fleet_load_measure(r->load, true);
    rest(r->seconds * CLK_S);
    fleet_load_measure(r->load, false);
    look(r, &after);
    steady_figures(r, &before, &after);
}

static void restart(struct run *r)
{
    struct fleet_load_back back, acked;
    struct moment before, after;
    struct errmsg why = {""};
    int64_t ended_ns, ready_ns;

    look(r, &before);
    ended_ns = os_mono_ns();
    fleet_collector_end(r->collector, r->restart);
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
    figure("restart_away", ms(ready_ns - ended_ns) / 1000, "s", 5, BENCH_LESS);
    figure("restart_half_connected", ms(fleet_load_greeted_ns(r->load, 500) - ready_ns) / 1000, "s",
           0, BENCH_LESS);
    figure("restart_99_percent_connected",
           ms(fleet_load_greeted_ns(r->load, 990) - ready_ns) / 1000, "s", 0, BENCH_LESS);
    figure("restart_all_connected", ms(back.greeted_ns - ready_ns) / 1000, "s", 15, BENCH_LESS);
    figure("restart_full_handshakes", (double)(after.tls.full - before.tls.full), "", 0,
           BENCH_LESS);
    figure("restart_resumed_handshakes", (double)(after.tls.resumed - before.tls.resumed), "", 0,
           BENCH_MORE);
    figure("restart_failed_handshakes", (double)(after.tls.failed - before.tls.failed), "", 0,
           BENCH_LESS);
    figure("restart_collector_cpu", ms(after.collector.cpu_ns), "ms", 0, BENCH_LESS);
    if (!await_back(r, ended_ns, true, &acked)) {
        complain(r, "agents without an acknowledgement after the restart",
                 r->conf.agents - acked.acked);
    }
    figure("restart_all_acknowledged", ms(acked.acked_ns - ready_ns) / 1000, "s", 0, BENCH_LESS);
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

static void compare(struct run *r, const struct fleet_load_sum *made)
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

static void account(struct run *r)
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

static void close_all(struct run *r)
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

static void begin(struct run *r)
{
    char name[] = "bench_fleet", json[] = "--json", about[200];
    char *argv[] = {name, json, NULL};

    (void)snprintf(about, sizeof about,
                   "%u agents, %u processes x %u metrics at %g Hz, %u ticks a batch, %u s%s",
                   r->conf.agents, r->conf.agent.processes, r->conf.agent.metrics, r->rate,
                   r->conf.agent.samples, r->seconds, r->conf.spool_dir ? ", spool" : "");
    bench_begin(r->json ? 2 : 1, argv, name, about);
}

int main(int argc, char **argv)
{
    static struct run r;
    struct errmsg why = {""};
    struct opt_args *args;
    struct buf help;
    int64_t start_ns;

    if (opt_parse(&args, &command, argc - 1, argv + 1, &why)) {
        die(why.text);
    }
    if (opt_flag(args, "help")) {
        buf_init(&help, 64u << 10);
        opt_print_help(&help, &command);
        fputs(buf_cstr(&help), stdout);
        return 0;
    }
    take_options(&r, args);
    if (os_open_files_max() < r.conf.agents + 64) {
        die("too few open files are allowed for so many agents: raise ulimit -n");
    }
    begin(&r);
    log_aside(&r);
    start_collector(&r);
    start_ns = os_mono_ns();
    r.load = fleet_load_create(&r.conf);
    figure("agents_made_in", ms(os_mono_ns() - start_ns) / 1000, "s", 0, BENCH_LESS);
    connect_all(&r);
    steady(&r);
    if (r.restart && r.collector) {
        restart(&r);
    }
    account(&r);
    close_all(&r);
    opt_free(args);
    err_ignore(bench_end() ? ERR_IO : ERR_OK);
    return r.wrong ? 1 : 0;
}
