/* A fleet in one process against a real collector: simulated agents (tests/support/fleet_agent) on
 * the real batch, uplink and TLS code.
 *
 *   keys → collector → agents connect → steady: measured → [the same beside live tabs of the
 *   console] → [the same with guests, who ask and subscribe] → [restart: the collector is ended,
 *   stays down, comes back] → drain → what the collector says it holds
 *
 * Prints figures like every benchmark; ends with 1 when something was lost, stored twice or not
 * stored at all, because then no figure is worth anything. Several sizes of fleet, the default, are
 * runs of their own, side by side (fleet_sweep.c). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/conf/opt.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/bench/fleet_run.h"
#include "tests/bench/fleet_sweep.h"
#include "tests/support/support.h"

static const struct opt options[] = {
    {"agents", 'n', "N[,N]...",
     "how many; several: one run for each, with guests, batches made before and both restarts "
     "(100,1000,4000)",
     false},
    {"rate", 0, "HZ", "ticks a second (1)", false},
    {"processes", 0, "N", "of each host (150)", false},
    {"metrics", 0, "N", "of each process, at most 30 (30)", false},
    {"samples-per-batch", 0, "N", "ticks of one batch (10)", false},
    {"seconds", 's', "S", "measured, once everybody is connected (20; of several sizes 30)", false},
    {"burst", 0, "K", "so many of the agents tick at 10 Hz (0)", false},
    {"generators", 0, "N", "threads that make the ticks (1)", false},
    {"connect-rate", 0, "N",
     "agents that connect for the first time, a second; 0 = all at once (200)", false},
    {"premade", 0, NULL, "batches are made before they are measured, and handed on when due",
     false},
    {"guests", 0, NULL,
     "then the same for half the time with questions, and with subscribers: one that listens, one "
     "that is slow, one that is stopped",
     false},
    {"tabs", 0, "N",
     "then the same beside so many live tabs of the console, up to 32, each with a certificate of "
     "its own: fleet and host views by turns (0)",
     false},
    {"restart", 0, "kill|term|both", "then end the collector in this way and start it again",
     false},
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
    .examples = "  bench_fleet\n"
                "  bench_fleet --agents 1000 --seconds 60\n"
                "  bench_fleet --agents 1000 --seconds 20 --restart kill --down 2\n"
                "  bench_fleet --agents 4000 --premade --seconds 60 --tabs 10\n"
                "  bench_fleet --agents 20 --seconds 60 --tabs 2\n",
};

/* -- options -- */

/* Which of `words` (NULL behind the last) the option says; the first without it. */
static const char *choose(const struct opt_args *args, const char *name, const char *const *words)
{
    const char *text = opt_value(args, name);

    for (size_t i = 0; text && words[i]; i++) {
        if (strcmp(text, words[i]) == 0) {
            return words[i];
        }
    }
    if (text) {
        fprintf(stderr, "bench_fleet: --%s does not take %s\n", name, text);
        exit(2);
    }
    return words[0];
}

static void take_agent(struct fleet_run *r, const struct opt_args *args)
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

static void take_dirs(struct fleet_run *r, const struct opt_args *args)
{
    const char *dir = opt_value(args, "dir");
    uint64_t id = 0;

    if (dir) {
        (void)snprintf(r->dir, sizeof r->dir, "%s", dir);
    } else if (r->conf.address) {
        bench_fail("--collector wants --dir, where its authority is");
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

static void take_options(struct fleet_run *r, const struct opt_args *args)
{
    static const char *const formats[] = {"text", "json", NULL};
    static const char *const restarts[] = {"kill", "term", "both", NULL};
    const char *journal = opt_value(args, "journal");

    take_agent(r, args);
    take_dirs(r, args);
    r->seconds = (unsigned)bench_number(args, "seconds", 1, 1e6, 20);
    r->connect_rate = (unsigned)bench_number(args, "connect-rate", 0, 1e6, 200);
    r->down = (unsigned)bench_number(args, "down", 0, 3600, 2);
    r->json = strcmp(choose(args, "format", formats), "json") == 0;
    r->restart = opt_value(args, "restart") ? choose(args, "restart", restarts) : NULL;
    r->premade = opt_flag(args, "premade") && !opt_flag(args, "spool") && !journal;
    r->guests = opt_flag(args, "guests") && !r->conf.address;
    r->tabs = (unsigned)bench_number(args, "tabs", 0, FLEET_TABS_MAX, 0);
    r->n_sets = opt_values(args, "set", r->sets, FLEET_RUN_SETS_MAX);
    r->no_tickets = opt_flag(args, "no-tickets");
    if (journal) {
        r->conf.journal = os_fopen(journal, "ab");
        if (!r->conf.journal) {
            bench_fail(strerror(errno));
        }
    }
}

static void begin(struct fleet_run *r)
{
    char name[] = "bench_fleet", json[] = "--json", about[200];
    char *argv[] = {name, json, NULL};

    (void)snprintf(about, sizeof about,
                   "%u agents, %u processes x %u metrics at %g Hz, %u ticks a batch, %u s%s",
                   r->conf.agents, r->conf.agent.processes, r->conf.agent.metrics, r->rate,
                   r->conf.agent.samples, r->seconds, r->conf.spool_dir ? ", spool" : "");
    bench_begin(r->json ? 2 : 1, argv, name, about);
}

static bool several_sizes(const struct opt_args *args)
{
    const char *agents = opt_value(args, "agents");

    return !agents || strchr(agents, ',');
}

int main(int argc, char **argv)
{
    static struct fleet_run r;
    struct opt_args *args = bench_options(&command, argc, argv);
    bool right;

    if (several_sizes(args)) {
        return fleet_sweep(argv[0], args);
    }
    take_options(&r, args);
    if (os_open_files_max() < r.conf.agents + 64) {
        bench_fail("too few open files are allowed for so many agents: raise ulimit -n");
    }
    begin(&r);
    right = fleet_run(&r);
    opt_free(args);
    err_ignore(bench_end() ? ERR_IO : ERR_OK);
    return right ? 0 : 1;
}
