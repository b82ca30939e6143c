/* Any bytes as a stream of facts and tables, through lifecycle, aggregate, sampler and batch, with
 * tables so small that every limit is reached. Whatever a source claims: counters never go back, an
 * instance has one row in a tick, and every batch can be read. */
#include <stdlib.h>
#include <string.h>

#include "agent/account/aggregate.h"
#include "agent/batch/batch.h"
#include "agent/sample/sampler.h"
#include "common/base/clk.h"
#include "common/base/cur.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum { ROWS_MAX = 8, STEPS_MAX = 2000 };

struct stages {
    struct instances *table;
    struct lifecycle *life;
    struct aggregate *aggregate;
    struct sampler *sampler;
    struct privacy *filter;
    struct batch_builder *batch;
    uint64_t seq;
    int64_t wall_ns, mono_ns;
};

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

static enum err on_batch(void *ctx, uint64_t seq, const void *bytes, size_t n)
{
    struct stages *s = ctx;
    struct batch *b;

    must(seq == ++s->seq);
    must(wire_batch_decode(&b, bytes, n) == ERR_OK);
    wire_batch_free(b);
    return ERR_OK;
}

static void on_life(void *ctx, const struct life_event *ev)
{
    struct stages *s = ctx;

    must(batch_event(s->batch, ev) == ERR_OK);
}

static void on_tick(void *ctx, const struct sample_tick *tick)
{
    struct stages *s = ctx;

    must(tick->n_rows <= ROWS_MAX);
    for (size_t i = 0; i < tick->n_rows; i++) {
        must(!(tick->rows[i].mask & METRIC_BIT(M_CPU_TIME)) ||
             tick->rows[i].values[M_CPU_TIME] >= 0);
        for (size_t k = 0; k < i; k++) {
            must(!proc_id_eq(tick->rows[i].info->id, tick->rows[k].info->id));
        }
    }
    must(batch_tick(s->batch, tick) == ERR_OK);
}

static void open_stages(struct stages *s, uint8_t mode)
{
    static const char *const words[] = {"key"};
    struct instances_conf table = {
        .instances_max = 12, .threads_max = 20, .text_max = 64, .grace_ns = CLK_S};
    struct privacy_conf filter = {.command_line = PRIVACY_REDACT, .words = words, .n_words = 1};
    struct lifecycle_conf life = {.polled = (mode & 1) != 0, .told = on_life, .ctx = s};
    struct sampler_conf sampler = {.period_ns = mode & 4 ? 10 * CLK_MS : CLK_S,
                                   .by_table = (mode & 2) != 0,
                                   .processes_max = ROWS_MAX,
                                   .tick = on_tick,
                                   .ctx = s};
    struct batch_conf batch = {.samples = 1 + (mode >> 4),
                               .max_bytes = 2000,
                               .max_age_ns = 10 * CLK_S,
                               .out = on_batch,
                               .ctx = s};

    must(instances_create(&s->table, &table) == ERR_OK);
    life.table = sampler.table = s->table;
    must(lifecycle_create(&s->life, &life) == ERR_OK);
    must(aggregate_create(&s->aggregate, s->table, s->life) == ERR_OK);
    sampler.aggregate = s->aggregate;
    must(sampler_create(&s->sampler, &sampler) == ERR_OK);
    must(privacy_create(&s->filter, &filter) == ERR_OK);
    batch.filter = s->filter;
    must(batch_create(&s->batch, &batch) == ERR_OK);
    s->wall_ns = 1700000000 * CLK_S;
}

static void close_stages(struct stages *s)
{
    sampler_finish(s->sampler);
    must(batch_finish(s->batch) == ERR_OK);
    batch_destroy(s->batch);
    privacy_destroy(s->filter);
    sampler_destroy(s->sampler);
    aggregate_destroy(s->aggregate);
    lifecycle_destroy(s->life);
    instances_destroy(s->table);
}

static struct proc_info read_info(struct cur *c)
{
    static const char text[] = "app --key=v \xc3\xa4\xff";
    struct proc_info info = {.have = cur_u16le(c), .origin = cur_u8(c) % 5};
    uint8_t id = cur_u8(c);

    info.id = (struct proc_id){id & 7, id >> 6};
    info.parent_pid = (id >> 3) & 7;
    info.name = (struct str){text, cur_u8(c) % sizeof text};
    info.command_line = info.name;
    info.create_ns = 1700000000 * CLK_S + (int64_t)cur_u16le(c) * CLK_MS;
    return info;
}

static uint32_t read_tid(struct cur *c)
{
    uint8_t v = cur_u8(c);

    return v == 255 ? EVENT_NO_ID : v & 31;
}

static uint32_t read_pid(struct cur *c)
{
    uint8_t v = cur_u8(c);

    return v == 255 ? EVENT_NO_ID : v & 7;
}

/* Mostly short, sometimes as long or as wrong as a hostile record can make it. */
static int64_t read_took(struct cur *c)
{
    uint16_t v = cur_u16le(c);

    return v == 0xffff ? INT64_MAX : (int64_t)v * CLK_US;
}

static void read_who_lives(struct event *ev, struct cur *c)
{
    static int64_t totals[METRIC_COLS];

    if (ev->kind <= EV_PROC_DEFUNCT) {
        ev->u.proc.info = read_info(c);
        ev->u.proc.key = cur_u8(c) & 3;
        ev->u.proc.manifest = cur_u8(c) & 1;
        ev->u.proc.totals_mask =
            cur_u8(c) & 1 ? METRIC_BIT(M_USER_TIME) | METRIC_BIT(M_KERNEL_TIME) : 0;
        ev->u.proc.totals = totals;
        totals[M_USER_TIME] = cur_u8(c);
    } else if (ev->kind <= EV_THREAD_LAST) {
        ev->u.thread.pid = read_pid(c);
        ev->u.thread.tid = read_tid(c);
    } else {
        ev->u.image.pid = read_pid(c);
        ev->u.image.path = str_make("image");
    }
}

static void read_cpu_use(struct event *ev, struct cur *c)
{
    switch (ev->kind) {
    case EV_CPU_SAMPLE:
        ev->u.sample.tid = read_tid(c);
        ev->u.sample.interrupt = cur_u8(c) & 1;
        break;
    case EV_CPU_PMC:
        ev->u.pmc.tid = read_tid(c);
        break;
    case EV_CSWITCH:
        ev->u.cswitch.new_tid = read_tid(c);
        ev->u.cswitch.old_tid = read_tid(c);
        ev->u.cswitch.old_state = cur_u8(c);
        ev->u.cswitch.old_wait_reason = cur_u8(c);
        break;
    case EV_READY:
        ev->u.ready.tid = read_tid(c);
        break;
    case EV_DPC:
    case EV_ISR:
        ev->u.interrupt.took_ns = read_took(c);
        break;
    case EV_CPU_SAMPLE_INTERVAL:
        ev->u.interval_ns = cur_u16le(c);
        break;
    default:
        break;
    }
}

static void read_io(struct event *ev, struct cur *c)
{
    switch (ev->kind) {
    case EV_SOFT_FAULT:
        ev->u.soft_fault.what = cur_u8(c) % FAULT_COUNT;
        break;
    case EV_HARD_FAULT:
        ev->u.hard_fault.tid = read_tid(c);
        ev->u.hard_fault.bytes = cur_u32le(c);
        ev->u.hard_fault.took_ns = read_took(c);
        break;
    case EV_VIRTUAL_ALLOC:
    case EV_VIRTUAL_FREE:
        ev->u.vm.pid = read_pid(c);
        ev->u.vm.size = cur_u64le(c);
        break;
    case EV_DISK_INIT:
    case EV_DISK_READ:
    case EV_DISK_WRITE:
    case EV_DISK_FLUSH:
        ev->u.disk.irp = cur_u8(c) & 7;
        ev->u.disk.issuer_tid = read_tid(c);
        ev->u.disk.bytes = cur_u32le(c);
        ev->u.disk.took_ns = read_took(c);
        break;
    case EV_FILE_OP:
        ev->u.file.tid = read_tid(c);
        ev->u.file.op = cur_u8(c) % FILE_OP_COUNT;
        ev->u.file.bytes = cur_u32le(c);
        ev->u.file.path = str_make("file");
        break;
    case EV_NET:
        ev->u.net.pid = read_pid(c);
        ev->u.net.op = cur_u8(c) % (NET_FAIL + 1);
        ev->u.net.udp = cur_u8(c) & 1;
        ev->u.net.bytes = cur_u32le(c);
        break;
    default:
        break;
    }
}

static void read_rest(struct event *ev, struct cur *c)
{
    switch (ev->kind) {
    case EV_THREAD_NAME:
        ev->u.thread.pid = read_pid(c);
        ev->u.thread.tid = read_tid(c);
        ev->u.thread.name = str_make("worker");
        break;
    case EV_STACK:
        ev->u.stack.pid = read_pid(c);
        ev->u.stack.tid = read_tid(c);
        break;
    case EV_LOST:
        ev->u.lost.all_cpus = cur_u8(c) & 1;
        ev->u.lost.events = cur_u8(c);
        break;
    default:
        break;
    }
}

static void one_event(struct stages *s, struct cur *c)
{
    struct event ev;
    uint8_t cpu;

    memset(&ev, 0, sizeof ev); /* all members of the union */
    ev.kind = (enum event_kind)(cur_u8(c) % EV_KIND_COUNT);
    ev.wall_ns = s->wall_ns;
    ev.mono_ns = s->mono_ns;
    ev.early = cur_u8(c) > 200;
    cpu = cur_u8(c);
    ev.cpu = cpu > 250 ? UINT16_MAX : cpu & 3;
    ev.pid = read_pid(c);
    ev.tid = read_tid(c);
    if (ev.kind <= EV_IMAGE_LAST) {
        read_who_lives(&ev, c);
    } else {
        read_cpu_use(&ev, c); /* each takes its own kinds */
        read_io(&ev, c);
        read_rest(&ev, c);
    }
    aggregate_event(s->aggregate, &ev);
}

static void one_table(struct stages *s, struct cur *c)
{
    struct snap_row rows[8] = {0};
    struct snapshot snap = {.wall_ns = s->wall_ns,
                            .mono_ns = s->mono_ns,
                            .rows = rows,
                            .n_rows = cur_u8(c) % 8,
                            .complete = cur_u8(c) & 1};

    for (size_t i = 0; i < snap.n_rows; i++) {
        rows[i].info = read_info(c);
        rows[i].info.id.pid = (uint32_t)i; /* a table lists nobody twice */
        rows[i].mask = (uint64_t)(cur_u16le(c) & 0x3f) << M_KERNEL_TIME;
        rows[i].values[M_KERNEL_TIME] = cur_u16le(c);
        rows[i].values[M_USER_TIME] = cur_u16le(c);
    }
    aggregate_table(s->aggregate, &snap);
    sampler_table(s->sampler, snap.wall_ns, snap.mono_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct cur c = cur_make(p, n);
    struct stages s = {0};

    open_stages(&s, cur_u8(&c));
    for (int i = 0; i < STEPS_MAX && !c.bad; i++) {
        uint8_t step = cur_u8(&c);

        s.mono_ns += (int64_t)(step >> 3) * CLK_MS * 40 + 1;
        s.wall_ns += (int64_t)(step >> 3) * CLK_MS * (step & 4 ? 40 : -3) + 1;
        sampler_advance(s.sampler, s.wall_ns, s.mono_ns);
        lifecycle_advance(s.life, s.wall_ns, s.mono_ns);
        instances_expire(s.table, s.mono_ns);
        if (step & 1) {
            one_event(&s, &c);
        } else if (step & 2) {
            one_table(&s, &c);
        }
    }
    close_stages(&s);
    return 0;
}
