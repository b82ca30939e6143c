#include "tests/agent/spool/spool_rig.h"

#include <stdio.h>
#include <string.h>

#include "common/os/os.h"
#include "tests/support/support.h"

#define AGE_NS (3600 * CLK_S)

char rig_dir[256];
struct buf rig_content;

int rig_setup(void **state)
{
    support_temp_dir(rig_dir, sizeof rig_dir);
    buf_init(&rig_content, SPOOL_BATCH_MAX);
    return 0;
}

int rig_teardown(void **state)
{
    buf_fini(&rig_content);
    support_remove_dir(rig_dir);
    return 0;
}

/* -- batches -- */

void rig_batch(struct buf *out, uint64_t stream, uint64_t seq)
{
    int64_t wall_ns[RIG_TICKS], mono_ns[RIG_TICKS], values[RIG_TICKS * RIG_RUNS];
    struct batch_run runs[RIG_RUNS] = {{{0}, 0, 0, 0, false}};
    struct life_event events[RIG_EVENTS] = {{0}};
    struct ledger_row ledger = {str_make("source"), str_make("in"), 7};
    struct batch_column column = {M_KERNEL_TIME, RIG_TICKS * RIG_RUNS, values};
    struct batch b = {.n_ticks = RIG_TICKS,
                      .wall_ns = wall_ns,
                      .mono_ns = mono_ns,
                      .n_runs = RIG_RUNS,
                      .runs = runs,
                      .n_columns = 1,
                      .columns = &column,
                      .n_events = RIG_EVENTS,
                      .events = events,
                      .n_ledger = 1,
                      .ledger = &ledger};
    struct wire_encoder *enc;
    char name[32];

    b.head.stream = stream;
    b.head.seq = seq;
    (void)snprintf(name, sizeof name, "process-%llu", (unsigned long long)seq);
    for (unsigned i = 0; i < RIG_TICKS; i++) {
        wall_ns[i] = 1700000000000000000 + (int64_t)(seq * 100 + i) * 1000000000;
        mono_ns[i] = (int64_t)(seq * 100 + i) * 1000000000;
    }
    for (unsigned i = 0; i < RIG_RUNS; i++) {
        runs[i] = (struct batch_run){
            .id = {i + 1, i + 1}, .n_ticks = RIG_TICKS, .mask = 1ull << M_KERNEL_TIME};
    }
    for (unsigned i = 0; i < RIG_TICKS * RIG_RUNS; i++) {
        values[i] = (int64_t)(seq * 7919 + i * 104729);
    }
    for (unsigned i = 0; i < RIG_EVENTS; i++) {
        events[i].kind = LIFE_PROCESS_START;
        events[i].wall_ns = wall_ns[i];
        events[i].mono_ns = mono_ns[i];
        events[i].info.id = (struct proc_id){i + 1, i + 1};
        events[i].info.name = str_make(name);
    }
    assert_ok(wire_batch_encoder_create(&enc));
    buf_reset(out);
    assert_ok(wire_batch_encode(enc, out, &b));
    wire_batch_encoder_destroy(enc);
}

uint64_t rig_told(const struct batch *b, const char *reason)
{
    uint64_t n = 0;

    for (size_t i = 0; i < b->n_ledger; i++) {
        if (str_eq(b->ledger[i].stage, str_make("spool")) &&
            str_eq(b->ledger[i].reason, str_make(reason))) {
            n += b->ledger[i].count;
        }
    }
    return n;
}

/* -- files -- */

struct spool_disk *rig_disk_open(const struct fio *fio, uint64_t max_bytes)
{
    struct spool_disk_conf conf = {rig_dir, fio, max_bytes, AGE_NS};
    struct spool_disk *d;
    struct errmsg why = {""};

    if (spool_disk_open(&d, &conf, &why)) {
        fail_msg("%s", why.text);
    }
    return d;
}

struct spool_disk_stats rig_disk_stats(const struct spool_disk *d)
{
    struct spool_disk_stats s;

    spool_disk_stats(d, &s);
    return s;
}

const char *rig_segment_path(unsigned number)
{
    static char path[400];

    (void)snprintf(path, sizeof path, "%s/spool-%016x.seg", rig_dir, number);
    return path;
}

/* -- all of it -- */

void rig_put(struct spool *s)
{
    uint64_t stream, seq;
    struct buf b;

    buf_init(&b, SPOOL_BATCH_MAX);
    spool_next(s, &stream, &seq);
    rig_batch(&b, stream, seq);
    assert_ok(spool_put(s, stream, seq, b.p, b.n));
    buf_fini(&b);
}

enum err rig_try_take(struct spool *s, struct outbox_item *out)
{
    int64_t until_ns = os_mono_ns() + RIG_LONG_NS;
    struct outbox o = spool_outbox(s);
    enum err e = o.take(o.ctx, out);

    while (e == ERR_TIMEOUT && os_mono_ns() < until_ns) {
        o.wait(o.ctx, until_ns);
        e = o.take(o.ctx, out);
    }
    return e;
}

struct spool_stats rig_stats(struct spool *s)
{
    struct spool_stats stats;

    spool_stats(s, &stats);
    return stats;
}
