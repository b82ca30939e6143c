/* One simulated agent as a process of its own, to be killed at any moment: the spool is real.
 *
 *   fleet-agent --seed N --keys DIR --collector HOST:PORT --spool DIR [--offset-file FILE] …
 *
 * Standard output is the journal. What a line tells has been written before it was handed on:
 *   tick MONO_NS WALL_NS ROWS    one tick and how many processes it has
 *   event MONO_NS WALL_NS KIND PID START
 *   end ACKNOWLEDGED HELD        after SIGTERM: sent what there was, or the time was up
 *   ack NS                       with --acks: how long a batch took from its making to its answer
 * The file of the clock's error, in nanoseconds, is read at every tick while it exists. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clk.h"
#include "common/conf/opt.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "tests/support/fleet_agent.h"
#include "tests/support/fleet_pki.h"

#define DRAIN_NS      (60 * CLK_S)
#define ADDRESSES_MAX 8u

static const struct opt options[] = {
    {"seed", 0, "N", "which host: gen-N", false},
    {"keys", 0, "DIR", "where the fleet's keys are, or are to be made", false},
    {"collector", 0, "HOST:PORT", "its ingest listener; of several the next when one fails", true},
    {"spool", 0, "DIR", "the spool's directory", false},
    {"spool-bytes", 0, "N", "its limit (64 MiB)", false},
    {"rate", 0, "HZ", "ticks a second (5)", false},
    {"samples", 0, "N", "ticks of one batch (5)", false},
    {"processes", 0, "N", "alive at once (4)", false},
    {"starts-per-hour", 0, "N", "processes that start (3600)", false},
    {"offset-file", 0, "FILE", "holds the error of the host's clock", false},
    {"acks", 0, NULL, "tell of every acknowledgement", false},
    {"keys-only", 0, NULL, "makes the keys and ends", false},
};

static const struct opt_command command = {
    .program = "fleet-agent",
    .brief = "one simulated agent whose journal is standard output",
    .opts = options,
    .n_opts = sizeof options / sizeof *options,
};

static volatile sig_atomic_t stopping;

static void on_term(int signal)
{
    (void)signal;
    stopping = 1;
}

static void check(enum err e, const struct errmsg *why)
{
    if (e) {
        fprintf(stderr, "fleet-agent: %s\n", why->text[0] ? why->text : err_text(e));
        exit(1);
    }
}

static long long number(const struct opt_args *args, const char *name, long long preset)
{
    const char *text = opt_value(args, name);

    return text ? strtoll(text, NULL, 10) : preset;
}

/* One write for all, so that a kill leaves whole lines. */
static void say(const struct buf *text)
{
    size_t done = 0;

    while (done < text->n) {
        ssize_t n = write(STDOUT_FILENO, text->p + done, text->n - done);

        if (n <= 0) {
            exit(1);
        }
        done += (size_t)n;
    }
}

static void on_journal(void *ctx, const struct sample_tick *tick, const struct life_event *events,
                       size_t n_events)
{
    struct buf *text = ctx;

    buf_reset(text);
    for (size_t i = 0; i < n_events; i++) {
        buf_printf(text, "event %lld %lld %u %u %llu\n", (long long)tick->mono_ns,
                   (long long)events[i].wall_ns, events[i].kind, events[i].info.id.pid,
                   (unsigned long long)events[i].info.id.start);
    }
    buf_printf(text, "tick %lld %lld %zu\n", (long long)tick->mono_ns, (long long)tick->wall_ns,
               tick->n_rows);
    check(text->bad, &(struct errmsg){"journal"});
    say(text);
}

/* On the uplink's thread: a short line is one write, which a pipe takes whole. */
static void on_acked(void *ctx, const struct fleet_ack *ack)
{
    char line[64];
    int n = snprintf(line, sizeof line, "ack %lld\n", (long long)(ack->acked_ns - ack->made_ns));

    (void)ctx;
    if (write(STDOUT_FILENO, line, (size_t)n) != n) {
        exit(1);
    }
}

static void take_offset(struct fleet_agent *a, const char *path)
{
    FILE *f = path ? fopen(path, "r") : NULL;
    long long offset_ns;

    if (f) {
        if (fscanf(f, "%lld", &offset_ns) == 1) {
            fleet_agent_offset(a, offset_ns);
        }
        fclose(f);
    }
}

static void tick_until_stopped(struct fleet_agent *a, int64_t tick_ns, const char *offset_file)
{
    int64_t due_ns = os_mono_ns();

    while (!stopping) {
        int64_t left_ns = due_ns - os_mono_ns();

        if (left_ns > 0) {
            os_sleep_ns(left_ns < 50 * CLK_MS ? left_ns : 50 * CLK_MS);
            continue;
        }
        take_offset(a, offset_file);
        check(fleet_agent_tick(a), &(struct errmsg){"a batch could not be handed on"});
        due_ns += tick_ns;
        if (due_ns < os_mono_ns()) {
            due_ns =
                os_mono_ns() + tick_ns; /* too busy: what was missed is left out, as agents do */
        }
    }
}

/* What is held leaves, and all of the spool is sent. */
static void drain(struct fleet_agent *a, struct buf *text)
{
    int64_t until_ns = os_mono_ns() + DRAIN_NS;
    struct fleet_agent_stats s;

    fleet_agent_finish(a);
    do {
        os_sleep_ns(20 * CLK_MS);
        fleet_agent_stats(a, &s);
    } while (!s.uplink.drained && os_mono_ns() < until_ns);
    buf_reset(text);
    buf_printf(text, "end %llu %llu\n", (unsigned long long)s.uplink.acknowledged,
               (unsigned long long)s.store.held);
    say(text);
    fleet_agent_destroy(a, os_mono_ns());
}

static void run(const struct opt_args *args, struct fleet_agent_conf *conf)
{
    const char *offset_file = opt_value(args, "offset-file");
    struct errmsg why = {""};
    struct fleet_agent *a;
    struct buf text;

    buf_init(&text, 64u << 10);
    conf->journal = on_journal;
    conf->ctx = &text;
    check(net_init(&why), &why);
    check(fleet_agent_create(&a, conf, &why), &why);
    take_offset(a, offset_file);
    check(fleet_agent_start(a, &why), &why);
    tick_until_stopped(a, conf->tick_ns, offset_file);
    drain(a, &text);
    buf_fini(&text);
}

int main(int argc, char **argv)
{
    struct sigaction stop = {.sa_handler = on_term};
    struct fleet_keys keys;
    struct opt_args *args;
    struct errmsg why = {""};
    const char *addresses[ADDRESSES_MAX];
    size_t n_addresses;

    check(opt_parse(&args, &command, argc - 1, argv + 1, &why), &why);
    if (opt_flag(args, "help") || !opt_value(args, "keys") || !opt_value(args, "seed")) {
        check(ERR_USAGE, &(struct errmsg){"--seed, --keys, --collector and --spool are needed"});
    }
    check(fleet_pki_agent(&keys, opt_value(args, "keys"), (uint64_t)number(args, "seed", 0), &why),
          &why);
    n_addresses = opt_values(args, "collector", addresses, ADDRESSES_MAX);
    if (!opt_flag(args, "keys-only")) {
        struct fleet_agent_conf conf = {
            .seed = (uint64_t)number(args, "seed", 0),
            .processes = (unsigned)number(args, "processes", 4),
            .starts_per_hour = (unsigned)number(args, "starts-per-hour", 3600),
            .tick_ns = CLK_S / number(args, "rate", 5),
            .samples = (unsigned)number(args, "samples", 5),
            .batch_age_ns = 10 * CLK_S,
            .ca = keys.ca,
            .cert = keys.cert,
            .key = keys.key,
            .addresses = addresses,
            .n_addresses = n_addresses,
            .spool_dir = opt_value(args, "spool"),
            .spool_bytes = (uint64_t)number(args, "spool-bytes", 64 << 20),
            .queue_bytes = 8u << 20,
            .heartbeat_ns = 5 * CLK_S,
        };

        conf.acked = opt_flag(args, "acks") ? on_acked : NULL;
        (void)sigaction(SIGTERM, &stop, NULL);
        run(args, &conf);
    }
    opt_free(args);
    return 0;
}
