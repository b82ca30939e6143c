#include "agent/agent_store.h"

#include "common/base/clk.h"
#include "common/log/log.h"
#include "common/os/os.h"

#define SYNC_NS CLK_S /* a batch is on disk so long after it was put, at most */

static enum err open_spool(struct agent_store *s, const struct agent_conf *conf,
                           const struct uuid *host, struct errmsg *why)
{
    struct spool_conf spool = {.disk = {.dir = conf->spool_dir,
                                        .fio = fio_os(),
                                        .max_bytes = conf->spool_bytes,
                                        .max_age_ns = conf->spool_age_ns},
                               .memory_bytes = conf->queue_bytes,
                               .host = host};
    uint64_t seq;
    enum err e = spool_open(&s->spool, &spool, why);

    if (!e) {
        spool_next(s->spool, &s->stream, &seq);
    }
    return e;
}

enum err agent_store_open(struct agent_store *s, const struct agent_conf *conf,
                          const struct uuid *host, bool replay, struct errmsg *why)
{
    enum err e;

    if (!replay) {
        return open_spool(s, conf, host, why);
    }
    e = os_random(&s->stream, sizeof s->stream);
    if (!e) {
        e = queue_create(&s->queue, conf->queue_bytes);
    }
    return e ? errmsg_set(why, e, "cannot set up the agent's queue: %s", err_text(e)) : ERR_OK;
}

void agent_store_mark(struct agent_store *s, const struct agent_conf *conf, const struct uuid *boot)
{
    struct agent_run_start start = {.boot = *boot,
                                    .wall_ns = os_utc_ns(),
                                    .mono_ns = os_mono_ns(),
                                    .period_ns = conf->period_ns,
                                    .memory_ns = conf->batch_age_ns + SYNC_NS};
    struct spool_stats found;
    enum err e;

    if (!s->spool) {
        return;
    }
    spool_stats(s->spool, &found);
    start.newest_ns = found.disk.newest_ns;
    e = agent_run_begin(&s->run, conf->spool_dir, &start);
    if (e || s->run.untold) {
        log_line(LOG_WARN, "agent", e ? "run_unmarked" : "killed", "why=\"%s\" ticks=%llu",
                 e               ? err_text(e)
                 : s->run.killed ? "ended without a word"
                                 : "the system went down",
                 (unsigned long long)(s->run.killed + s->run.power_lost));
    }
}

/* Whether a later start has nothing to tell of this run. */
static bool is_told(struct agent_store *s)
{
    struct spool_stats done;
    bool whole = spool_stop(s->spool);

    spool_stats(s->spool, &done);
    return whole && (done.in > 0 || !s->run.untold);
}

void agent_store_close(struct agent_store *s)
{
    if (s->spool) {
        agent_run_end(&s->run, is_told(s));
    }
    queue_destroy(s->queue);
    spool_close(s->spool);
    s->queue = NULL;
    s->spool = NULL;
}

struct outbox agent_store_outbox(struct agent_store *s)
{
    return s->spool ? spool_outbox(s->spool) : queue_outbox(s->queue, s->stream);
}

void agent_store_number(struct agent_store *s, uint64_t *stream, uint64_t *seq)
{
    if (s->spool) {
        spool_next(s->spool, &s->stream, seq);
    }
    *stream = s->stream;
}

enum err agent_store_put(struct agent_store *s, uint64_t seq, const void *p, size_t n)
{
    enum err e;

    if (s->spool) {
        return spool_put(s->spool, s->stream, seq, p, n);
    }
    e = queue_put(s->queue, seq, p, n, true);
    return e == ERR_CLOSED ? e : ERR_OK; /* what the queue refuses it has counted */
}

void agent_store_end(struct agent_store *s)
{
    if (s->spool) {
        spool_end(s->spool);
    } else if (s->queue) {
        queue_close(s->queue);
    }
}

void agent_store_stats(struct agent_store *s, struct queue_stats *out)
{
    struct spool_stats p;

    if (s->queue) {
        queue_stats(s->queue, out);
        return;
    }
    spool_stats(s->spool, &p);
    *out = (struct queue_stats){.in = p.in,
                                .out = p.out,
                                .overflow = p.disk.dropped.batches + p.disk.expired.batches +
                                            p.unwritten.batches,
                                .held = p.disk.held + p.waiting,
                                .held_bytes = p.disk.held_bytes + p.waiting_bytes,
                                .aside = p.dead_letters.held,
                                .aside_bytes = p.dead_letters.held_bytes,
                                .aside_broken = p.dead_letters.held_broken};
}

static size_t put_rows(struct ledger_row *rows, size_t max, const struct ledger_row *all, size_t n)
{
    n = n < max ? n : max;
    for (size_t i = 0; i < n; i++) {
        rows[i] = all[i];
    }
    return n;
}

static size_t spool_ledger(struct spool *spool, struct ledger_row *rows, size_t max)
{
    struct str stage = str_make("spool");
    struct spool_stats s;

    spool_stats(spool, &s);
    const struct ledger_row all[] = {
        {stage, str_make("in"), s.in},
        {stage, str_make("recovered"), s.recovered},
        {stage, str_make("again"), s.again},
        {stage, str_make("out"), s.out},
        {stage, str_make("held"), s.disk.held + s.waiting},
        {stage, str_make("dropped"), s.disk.dropped.batches},
        {stage, str_make("expired"), s.disk.expired.batches},
        {stage, str_make("other_host"), s.disk.other_host.batches},
        {stage, str_make("unwritten"), s.unwritten.batches},
        {stage, str_make("metrics_dropped"), s.disk.dropped.rows},
        {stage, str_make("events_dropped"), s.disk.dropped.events},
        {stage, str_make("metrics_expired"), s.disk.expired.rows},
        {stage, str_make("events_expired"), s.disk.expired.events},
        {stage, str_make("metrics_other_host"), s.disk.other_host.rows},
        {stage, str_make("events_other_host"), s.disk.other_host.events},
        {stage, str_make("metrics_unwritten"), s.unwritten.rows},
        {stage, str_make("events_unwritten"), s.unwritten.events},
        {stage, str_make("unreadable"), s.disk.unreadable},
        {stage, str_make("header_damaged"), s.disk.damaged_headers},
        {stage, str_make("forgotten"), s.disk.forgotten},
    };

    return put_rows(rows, max, all, sizeof all / sizeof *all);
}

size_t agent_store_ledger(struct agent_store *s, struct ledger_row *rows, size_t max)
{
    struct str stage = str_make("queue");
    struct queue_stats q;
    size_t n;

    if (s->spool) {
        n = agent_run_ledger(&s->run, rows, max);
        return n + spool_ledger(s->spool, rows + n, max - n);
    }
    queue_stats(s->queue, &q);
    const struct ledger_row all[] = {
        {stage, str_make("in"), q.in},           {stage, str_make("out"), q.out},
        {stage, str_make("held"), q.held},       {stage, str_make("oldest_dropped"), q.overflow},
        {stage, str_make("refused"), q.refused},
    };

    return put_rows(rows, max, all, sizeof all / sizeof *all);
}
