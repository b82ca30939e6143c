/* `procfleet-agent show-wire`: exactly what would be sent, on standard output instead. The same
 * stages and settings as `run`; each batch is encoded as for the collector, decoded again as the
 * collector does it, and printed. Nothing is dialled, locked or written. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/batch/batch.h"
#include "agent/cmd/agent_cmd.h"
#include "agent/cmd/wire_text.h"
#include "agent/monitor.h"
#include "common/base/clk.h"
#include "common/os/os.h"

static const struct opt opts[] = {
    {"for", 0, "SPAN", "end after so long; default: until Ctrl-C", false},
    {"format", 'f', "text|jsonl", "how it is printed; default text", false},
    AGENT_CMD_CONF_OPTS,
};

static enum err show_wire_run(const struct opt_args *args, struct errmsg *why);

const struct opt_command cmd_show_wire_opts = {
    .program = "procfleet-agent",
    .name = "show-wire",
    .brief = "print exactly what would be sent, of this machine or of a recording (.etl)",
    .operands = "[FILE]",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .sets = cmd_conf_sets,
    .examples = "  procfleet-agent show-wire --for 10s --config agent.yaml\n"
                "  procfleet-agent show-wire --set privacy.command_line=none | grep command_line\n"
                "  procfleet-agent show-wire trace.etl --format jsonl\n",
    .action = &(const struct opt_action){.run = show_wire_run},
};

struct show {
    struct agent_conf conf;
    const char *file; /* NULL: this machine */
    int64_t for_ns, end_ns;
    struct monitor *monitor;
    struct privacy *filter;
    struct batch_builder *batch;
    struct wire_text text;
    enum err failed; /* ERR_END: whoever read went away */
};

/* -- what would be sent -- */

static enum err on_batch(void *ctx, uint64_t seq, const void *bytes, size_t n)
{
    struct show *s = ctx;
    struct batch *b;
    enum err e = wire_batch_decode(&b, bytes, n);

    (void)seq;
    if (e) {
        s->failed = e;
        return e;
    }
    wire_text_batch(&s->text, b, n);
    wire_batch_free(b);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        s->failed = errno == EPIPE ? ERR_END : ERR_IO;
    }
    return s->failed;
}

static size_t ledger(void *ctx, struct ledger_row *rows, size_t max)
{
    struct show *s = ctx;
    size_t n = monitor_ledger(s->monitor, rows, max);

    n += batch_ledger(s->batch, rows + n, max - n);
    if (n < max) {
        rows[n++] = (struct ledger_row){str_make("filter"), str_make("redacted"),
                                        privacy_stats(s->filter)->redacted};
    }
    return n;
}

static enum err open_batch(struct show *s)
{
    const struct source_about *about = monitor_about(s->monitor);
    struct batch_conf conf = {.samples = s->conf.batch_samples,
                              .max_bytes = s->conf.batch_bytes,
                              .max_age_ns = s->conf.batch_age_ns,
                              .filter = s->filter,
                              .ledger = ledger,
                              .out = on_batch,
                              .ctx = s};

    conf.head.boot = about->boot;
    conf.head.flags = (about->polled ? BATCH_POLLED : 0u) | (about->replay ? BATCH_REPLAY : 0u);
    conf.head.cpus = about->cpus;
    conf.head.source = str_make(about->name);
    return batch_create(&s->batch, &conf);
}

/* The first thing that comes out says that the source is open. */
static bool ready(struct show *s)
{
    if (!s->batch && !s->failed) {
        s->failed = open_batch(s);
    }
    return !s->failed;
}

static void on_tick(void *ctx, const struct sample_tick *tick)
{
    struct show *s = ctx;
    enum err e = ready(s) ? batch_tick(s->batch, tick) : s->failed;

    if (e || agent_cmd_stopped() || (s->for_ns > 0 && os_mono_ns() >= s->end_ns)) {
        monitor_stop(s->monitor);
    }
}

static void on_life(void *ctx, const struct life_event *ev)
{
    struct show *s = ctx;

    if (!ready(s) || batch_event(s->batch, ev)) {
        monitor_stop(s->monitor);
    }
}

static void on_ended(void *ctx, enum err result)
{
    struct show *s = ctx;

    (void)result;
    if (ready(s)) {
        err_ignore(batch_finish(s->batch)); /* kept in s->failed */
    }
}

static void print_sums(struct show *s)
{
    const struct wire_text_sums *t = &s->text.sums;
    const struct privacy_stats *f = privacy_stats(s->filter);
    const struct {
        const char *key;
        uint64_t n;
    } all[] = {
        {"batches", t->batches},     {"bytes", t->bytes},       {"ticks", t->ticks},
        {"processes", t->processes}, {"samples", t->samples},   {"values", t->values},
        {"events", t->events},       {"redacted", f->redacted}, {"withheld", f->withheld},
    };
    struct monitor_stats stats;

    monitor_stats(s->monitor, &stats);
    fputs(s->text.json ? "{\"type\": \"total\"" : "total", stdout);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        printf(s->text.json ? ", \"%s\": %llu" : " %s=%llu", all[i].key,
               (unsigned long long)all[i].n);
    }
    printf(s->text.json ? ", \"filtered\": %llu}\n" : " filtered=%llu\n",
           (unsigned long long)stats.filtered);
}

/* -- running -- */

static enum err open_parts(struct show *s, struct errmsg *why)
{
    struct monitor_conf conf = {.open = agent_cmd_open_source,
                                .open_ctx = &s->conf,
                                .period_ns = s->conf.period_ns,
                                .budget = &s->conf.budget,
                                .processes_max = MODEL_PROCESSES_MAX,
                                .who = s->conf.who,
                                .events = &s->conf.events,
                                .tick = on_tick,
                                .life = on_life,
                                .ended = on_ended,
                                .ctx = s};
    enum err e = privacy_create(&s->filter, &s->conf.filter);

    if (e) {
        return errmsg_set(why, e, "cannot set up the filter: %s", err_text(e));
    }
    s->conf.events.privacy = s->filter;
    return monitor_create(&s->monitor, &conf, why);
}

static enum err play(struct show *s, struct errmsg *why)
{
    enum err e;

    if (s->file) {
        return monitor_read_etl(s->monitor, s->file, why);
    }
    e = monitor_open(s->monitor, why);
    if (e) {
        return e;
    }
    s->end_ns = clk_add(os_mono_ns(), s->for_ns);
    e = monitor_run(s->monitor);
    return e ? errmsg_set(why, e, "the source of events failed: %s", err_text(e)) : ERR_OK;
}

static enum err run(struct show *s, struct errmsg *why)
{
    enum err e = open_parts(s, why);

    if (!e) {
        e = agent_cmd_catch_stop(why);
    }
    if (!e) {
        e = play(s, why);
    }
    if (!e && s->failed && s->failed != ERR_END) {
        e = errmsg_set(why, s->failed, "what would be sent could not be printed: %s",
                       err_text(s->failed));
    }
    if (!e && !s->failed) {
        print_sums(s);
    }
    batch_destroy(s->batch);
    monitor_destroy(s->monitor);
    privacy_destroy(s->filter);
    return e;
}

static enum err read_options(struct show *s, const struct opt_args *args, struct errmsg *why)
{
    const char *format = opt_value(args, "format"), *span = opt_value(args, "for");
    char **files;
    size_t n = opt_operands(args, &files);

    if (n > 1) {
        return errmsg_set(why, ERR_USAGE, "one recording at a time");
    }
    s->file = n > 0 ? files[0] : NULL;
    s->text = (struct wire_text){.to = stdout, .json = format && strcmp(format, "jsonl") == 0};
    if (format && !s->text.json && strcmp(format, "text") != 0) {
        return errmsg_set(why, ERR_USAGE, "--format: '%s' is not text or jsonl", format);
    }
    if (span && (clk_parse_span(&s->for_ns, span) || s->for_ns <= 0)) {
        return errmsg_set(why, ERR_USAGE, "--for: '%s' is not a time such as 10s or 5min", span);
    }
    if (span && s->file) {
        return errmsg_set(why, ERR_USAGE, "--for: a recording has its own end");
    }
    return ERR_OK;
}

static enum err show_wire_run(const struct opt_args *args, struct errmsg *why)
{
    struct show s = {.file = NULL};
    enum err e;

    e = read_options(&s, args, why);
    if (!e) {
        e = agent_cmd_settings(&s.conf, args, why);
    }
    if (!e) {
        e = run(&s, why);
        agent_conf_fini(&s.conf);
    }
    return e;
}
