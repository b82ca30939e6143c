#include "tests/support/t.h"

#include "agent/account/aggregate.h"
#include "common/base/mem.h"
#include "tests/agent/account/stages.h"
#include "tests/support/draw.h"

struct bench {
    struct instances *table;
    struct lifecycle *life;
    struct aggregate *agg;
};

static void ignore(void *ctx, const struct life_event *ev)
{
    (void)ctx;
    (void)ev;
}

static struct bench bench_new(void)
{
    static const struct instances_conf table_conf = {
        .instances_max = 100, .threads_max = 1000, .text_max = 10000, .grace_ns = 10 * CLK_S};
    struct lifecycle_conf conf = {.polled = true, .told = ignore};
    struct bench b;

    assert_ok(instances_create(&b.table, &table_conf));
    conf.table = b.table;
    assert_ok(lifecycle_create(&b.life, &conf));
    assert_ok(aggregate_create(&b.agg, b.table, b.life));
    return b;
}

static void bench_free(struct bench *b)
{
    aggregate_destroy(b->agg);
    lifecycle_destroy(b->life);
    instances_destroy(b->table);
}

static void feed(struct bench *b, struct event ev)
{
    aggregate_event(b->agg, &ev);
}

static void feed_one_row(struct bench *b, int64_t ms, const struct snap_row *row)
{
    struct snapshot snap = feed_table(ms, row, 1);

    aggregate_table(b->agg, &snap);
}

static struct instance *settled(struct bench *b, uint32_t pid)
{
    struct instance *p = instances_owner(b->table, pid);

    assert_non_null(p);
    aggregate_settle(b->agg, p);
    return p;
}

static bool has(const struct instance *p, unsigned id)
{
    return (p->count.mask & METRIC_BIT(id)) != 0;
}

static void two_processes(struct bench *b)
{
    feed(b, feed_early(feed_proc(EV_PROC_FOUND, 0, 8, 0)));
    feed(b, feed_early(feed_thread(EV_THREAD_FOUND, 0, 8, 80)));
    feed(b, feed_early(feed_proc(EV_PROC_FOUND, 0, 12, 0)));
    feed(b, feed_early(feed_thread(EV_THREAD_FOUND, 0, 12, 120)));
}

static void plain_samples_are_cpu_time_and_interrupts_are_nobodys(void **state)
{
    struct bench b = bench_new();

    two_processes(&b);
    feed(&b, feed_interval(0, CLK_MS));
    for (int i = 0; i < 7; i++) {
        feed(&b, feed_sample(i, 80, i >= 5));
    }
    feed(&b, feed_sample(9, 999, false));
    assert_int_equal(settled(&b, 8)->count.values[M_CPU_TIME], 5 * CLK_MS);
    assert_int_equal(settled(&b, 8)->info.cpu_origin, CPU_ORIGIN_SAMPLES);
    assert_true(has(settled(&b, 12), M_CPU_TIME)); /* none is a measurement too */
    assert_int_equal(settled(&b, 12)->count.values[M_CPU_TIME], 0);
    assert_int_equal(aggregate_stats(b.agg)->samples, 5);
    assert_int_equal(aggregate_stats(b.agg)->samples_interrupt, 2);
    assert_int_equal(aggregate_stats(b.agg)->unattributed, 1);
    bench_free(&b);
}

static void the_latest_interval_counts_and_the_first_also_for_what_came_before(void **state)
{
    struct bench b = bench_new();

    two_processes(&b);
    feed(&b, feed_sample(0, 80, false));
    assert_false(has(settled(&b, 8), M_CPU_TIME));
    feed(&b, feed_interval(1, 2 * CLK_MS));
    feed(&b, feed_sample(2, 80, false));
    feed(&b, feed_interval(3, 5 * CLK_MS));
    feed(&b, feed_sample(4, 80, false));
    assert_int_equal(settled(&b, 8)->count.values[M_CPU_TIME], 9 * CLK_MS);
    bench_free(&b);
}

static void without_an_interval_cpu_time_is_absent(void **state)
{
    struct bench b = bench_new();

    two_processes(&b);
    feed(&b, feed_sample(0, 80, false));
    assert_false(has(settled(&b, 8), M_CPU_TIME));
    bench_free(&b);
}

static void threads_are_counted_where_records_show_them_all(void **state)
{
    struct bench b = bench_new();

    two_processes(&b);
    feed(&b, feed_thread(EV_THREAD_START, 1, 8, 84));
    feed(&b, feed_thread(EV_THREAD_STOP, 2, 12, 120));
    assert_int_equal(settled(&b, 8)->count.values[M_THREAD_COUNT], 2);
    assert_int_equal(settled(&b, 12)->count.values[M_THREAD_COUNT], 0);
    bench_free(&b);

    b = bench_new();
    feed(&b, feed_proc(EV_PROC_FOUND, 0, 8, 0));
    feed(&b, feed_thread(EV_THREAD_START, 1, 8, 84));
    assert_false(has(settled(&b, 8), M_THREAD_COUNT)); /* nobody said what it had before */
    bench_free(&b);
}

static struct snap_row row_of(int64_t kernel_ns, int64_t user_ns)
{
    struct snap_row row = feed_row(8, 1, -9000);

    row.mask = METRIC_BIT(M_KERNEL_TIME) | METRIC_BIT(M_USER_TIME) | METRIC_BIT(M_HANDLE_COUNT) |
               METRIC_BIT(M_WORKING_SET_SIZE);
    row.values[M_KERNEL_TIME] = kernel_ns;
    row.values[M_USER_TIME] = user_ns;
    row.values[M_HANDLE_COUNT] = 5;
    row.values[M_WORKING_SET_SIZE] = 4096;
    return row;
}

static void a_row_gives_cpu_time_from_its_halves(void **state)
{
    struct bench b = bench_new();
    struct snap_row row = row_of(10, 30);

    feed_one_row(&b, 0, &row);
    assert_int_equal(settled(&b, 8)->count.values[M_CPU_TIME], 40);
    assert_int_equal(settled(&b, 8)->info.cpu_origin, CPU_ORIGIN_TIMES);
    assert_int_equal(settled(&b, 8)->count.values[M_PEAK_HANDLE_COUNT], 5);
    row.values[M_HANDLE_COUNT] = 3;
    feed_one_row(&b, 1000, &row);
    assert_int_equal(settled(&b, 8)->count.values[M_HANDLE_COUNT], 3);
    assert_int_equal(settled(&b, 8)->count.values[M_PEAK_HANDLE_COUNT], 5);
    bench_free(&b);
}

static void a_counter_never_goes_back_and_a_missing_column_is_absent(void **state)
{
    struct bench b = bench_new();
    struct snap_row row = row_of(10, 30);

    feed_one_row(&b, 0, &row);
    row = row_of(9, 31);
    row.mask &= ~METRIC_BIT(M_WORKING_SET_SIZE);
    feed_one_row(&b, 1000, &row);
    assert_int_equal(settled(&b, 8)->count.values[M_KERNEL_TIME], 10);
    assert_int_equal(settled(&b, 8)->count.values[M_CPU_TIME], 41);
    assert_int_equal(aggregate_stats(b.agg)->stepped_back, 1);
    assert_false(has(settled(&b, 8), M_WORKING_SET_SIZE));
    bench_free(&b);
}

static void exit_totals_replace_smaller_counters_and_gauges_go(void **state)
{
    struct bench b = bench_new();
    struct snap_row row = row_of(10, 30);
    struct event stop = feed_proc(EV_PROC_STOP, 1500, 8, 1);
    int64_t totals[METRIC_COLS] = {0};

    feed_one_row(&b, 0, &row);
    totals[M_KERNEL_TIME] = 9;
    totals[M_USER_TIME] = 50;
    totals[M_WRITE_BYTES] = 10485760;
    stop.u.proc.totals = totals;
    stop.u.proc.totals_mask =
        METRIC_BIT(M_KERNEL_TIME) | METRIC_BIT(M_USER_TIME) | METRIC_BIT(M_WRITE_BYTES);
    feed(&b, stop);
    assert_int_equal(settled(&b, 8)->count.values[M_KERNEL_TIME], 10);
    assert_int_equal(settled(&b, 8)->count.values[M_USER_TIME], 50);
    assert_int_equal(settled(&b, 8)->count.values[M_CPU_TIME], 60);
    assert_int_equal(settled(&b, 8)->count.values[M_WRITE_BYTES], 10485760);
    assert_false(has(settled(&b, 8), M_WORKING_SET_SIZE));
    assert_true(has(settled(&b, 8), M_PEAK_HANDLE_COUNT));
    assert_true(settled(&b, 8)->info.have & INFO_FINAL_TOTALS);
    bench_free(&b);
}

/* -- who is charged for what; processes 8 (threads 80, 84) and 12 (thread 120) -- */

struct charged {
    const char *what;
    struct event ev;
    uint32_t pid; /* EVENT_NO_ID: nobody */
    struct {
        enum counters_id id;
        uint64_t n;
    } counts[4]; /* n 0 ends the list */
};

#define BY(kind_, pid_, tid_) .kind = kind_, .pid = pid_, .tid = tid_
#define NONE                  EVENT_NO_ID

static const struct charged charges[] = {
    {"sample",
     {BY(EV_CPU_SAMPLE, NONE, NONE), .u.sample = {.tid = 80}},
     8,
     {{COUNTERS_SAMPLES, 1}}},
    {"sample that found an interrupt",
     {BY(EV_CPU_SAMPLE, NONE, NONE), .u.sample = {.tid = 120, .interrupt = true}},
     12,
     {{COUNTERS_SAMPLES, 1}, {COUNTERS_SAMPLES_INTERRUPT, 1}}},
    {"sample of an unknown thread",
     {BY(EV_CPU_SAMPLE, 8, 80), .u.sample = {.tid = 1000}},
     NONE,
     {{COUNTERS_SAMPLES, 1}}},
    {"counter", {BY(EV_CPU_PMC, NONE, NONE), .u.pmc = {.tid = 84}}, 8, {{COUNTERS_PMC_SAMPLES, 1}}},
    {"interrupt without switches",
     {BY(EV_DPC, 8, 80), .u.interrupt = {.took_ns = 7}},
     NONE,
     {{COUNTERS_DPC, 7}}},
    {"system call", {BY(EV_SYSCALL_ENTER, NONE, 120)}, 12, {{COUNTERS_SYSCALLS, 1}}},
    {"soft fault by header pid", {BY(EV_SOFT_FAULT, 12, 80)}, 12, {{COUNTERS_SOFT_FAULTS, 1}}},
    {"hard fault by payload tid",
     {BY(EV_HARD_FAULT, 12, 120), .u.hard_fault = {.tid = 84, .bytes = 4096}},
     8,
     {{COUNTERS_HARD_FAULTS, 1}, {COUNTERS_HARD_FAULT_BYTES, 4096}}},
    {"hard fault of nobody",
     {BY(EV_HARD_FAULT, 8, 80), .u.hard_fault = {.tid = 5, .bytes = 2}},
     NONE,
     {{COUNTERS_HARD_FAULTS, 1}, {COUNTERS_HARD_FAULT_BYTES, 2}}},
    {"allocation",
     {BY(EV_VIRTUAL_ALLOC, 8, 80), .u.vm = {.pid = 12, .size = 65536}},
     12,
     {{COUNTERS_VIRTUAL_ALLOC, 65536}}},
    {"release",
     {BY(EV_VIRTUAL_FREE, 8, 80), .u.vm = {.pid = 12, .size = 4096}},
     12,
     {{COUNTERS_VIRTUAL_FREE, 4096}}},
    {"disk read by issuer",
     {BY(EV_DISK_READ, 12, 120),
      .u.disk = {.irp = 1, .issuer_tid = 80, .bytes = 512, .took_ns = 9}},
     8,
     {{COUNTERS_DISK_READS, 1}, {COUNTERS_DISK_READ_BYTES, 512}, {COUNTERS_DISK_TIME, 9}}},
    {"disk write without init",
     {BY(EV_DISK_WRITE, 12, 120), .u.disk = {.irp = 1, .issuer_tid = NONE, .bytes = 512}},
     NONE,
     {{COUNTERS_DISK_WRITES, 1}, {COUNTERS_DISK_WRITE_BYTES, 512}}},
    {"flush",
     {BY(EV_DISK_FLUSH, 8, 80), .u.disk = {.irp = 1, .issuer_tid = 120}},
     12,
     {{COUNTERS_DISK_FLUSHES, 1}}},
    {"file read",
     {BY(EV_FILE_OP, 8, 80), .u.file = {.tid = 120, .op = FILE_READ, .bytes = 9}},
     12,
     {{COUNTERS_FILE_OPS, 1}, {COUNTERS_FILE_READ_BYTES, 9}}},
    {"file write by header",
     {BY(EV_FILE_OP, 8, 80), .u.file = {.tid = NONE, .op = FILE_WRITE, .bytes = 9}},
     8,
     {{COUNTERS_FILE_OPS, 1}, {COUNTERS_FILE_WRITE_BYTES, 9}}},
    {"end of a file operation",
     {BY(EV_FILE_OP, 8, 80), .u.file = {.tid = 80, .op = FILE_OP_END}},
     8,
     {{0, 0}}},
    {"tcp send",
     {BY(EV_NET, 12, 120), .u.net = {.pid = 8, .op = NET_SEND, .bytes = 100}},
     8,
     {{COUNTERS_TCP_SEND, 100}}},
    {"udp receive",
     {BY(EV_NET, NONE, NONE), .u.net = {.pid = 8, .op = NET_RECV, .bytes = 50, .udp = true}},
     8,
     {{COUNTERS_UDP_RECV, 50}}},
    {"tcp copy",
     {BY(EV_NET, NONE, NONE), .u.net = {.pid = 8, .op = NET_COPY, .bytes = 50}},
     8,
     {{0, 0}}},
    {"retransmit",
     {BY(EV_NET, NONE, NONE), .u.net = {.pid = 8, .op = NET_RETRANSMIT}},
     8,
     {{COUNTERS_TCP_RETRANSMITS, 1}}},
    {"accept",
     {BY(EV_NET, NONE, NONE), .u.net = {.pid = 8, .op = NET_ACCEPT}},
     8,
     {{COUNTERS_TCP_CONNECTS, 1}}},
    {"bytes of nobody",
     {BY(EV_NET, 8, 80), .u.net = {.pid = 9, .op = NET_SEND, .bytes = 3}},
     NONE,
     {{COUNTERS_TCP_SEND, 3}}},
    {"registry", {BY(EV_REGISTRY, 12, 120)}, 12, {{COUNTERS_REGISTRY_OPS, 1}}},
    {"frame", {BY(EV_PRESENT, 12, 120)}, 12, {{COUNTERS_PRESENTS, 1}}},
    {"image load",
     {BY(EV_IMAGE_LOAD, 12, 120), .u.image = {.pid = 8}},
     8,
     {{COUNTERS_IMAGE_LOADS, 1}}},
    {"image unload",
     {BY(EV_IMAGE_UNLOAD, 12, 120), .u.image = {.pid = 8}},
     8,
     {{COUNTERS_IMAGE_UNLOADS, 1}}},
    {"image of a rundown",
     {BY(EV_IMAGE_FOUND, NONE, NONE), .u.image = {.pid = 8}},
     8,
     {{COUNTERS_IMAGE_RUNDOWN, 1}}},
    {"image without process",
     {BY(EV_IMAGE_LAST, 8, 80), .u.image = {.pid = NONE}},
     NONE,
     {{COUNTERS_IMAGE_RUNDOWN, 1}}},
    {"thread start",
     {BY(EV_THREAD_START, 8, 80), .u.thread = {.pid = 12, .tid = 124}},
     12,
     {{COUNTERS_THREADS_STARTED, 1}}},
    {"thread end",
     {BY(EV_THREAD_STOP, 8, 80), .u.thread = {.pid = 12, .tid = 120}},
     12,
     {{COUNTERS_THREADS_ENDED, 1}}},
    {"thread of a rundown",
     {BY(EV_THREAD_LAST, 8, 80), .u.thread = {.pid = 12, .tid = 120}},
     12,
     {{COUNTERS_THREAD_RUNDOWN, 1}}},
    {"thread name", {BY(EV_THREAD_NAME, 8, 80), .u.thread = {.pid = 12, .tid = 120}}, 12, {{0, 0}}},
    {"stack",
     {BY(EV_STACK, NONE, NONE), .u.stack = {.pid = 12, .tid = 120}},
     12,
     {{COUNTERS_STACKS, 1}}},
    {"record without any id", {BY(EV_SYSCALL_ENTER, NONE, NONE)}, NONE, {{COUNTERS_SYSCALLS, 1}}},
    {"record of an unknown process",
     {BY(EV_SYSCALL_ENTER, 77, 80)},
     NONE,
     {{COUNTERS_SYSCALLS, 1}}},
};

static void each_event_is_charged_to_its_owner_and_to_nobody_else(void **state)
{
    static const uint32_t pids[] = {8, 12, NONE};

    for (size_t i = 0; i < COUNT_OF(charges); i++) {
        struct stages s = stages_new(10 * CLK_S);
        struct counters want[COUNT_OF(pids)] = {0};
        struct instance *p;

        stages_populate(&s);
        p = stages_feed(&s, charges[i].ev);
        if (charges[i].pid == NONE ? p != NULL : !p || p->info.id.pid != charges[i].pid) {
            fail_msg("%s: wrong owner", charges[i].what);
        }
        for (size_t k = 0; k < COUNT_OF(pids); k++) {
            for (size_t c = 0; charges[i].pid == pids[k] && charges[i].counts[c].n; c++) {
                want[k].n[charges[i].counts[c].id] = charges[i].counts[c].n;
            }
            for (size_t id = 0; id < COUNTERS_COUNT; id++) {
                if (stages_tally(&s, pids[k], id) != want[k].n[id]) {
                    fail_msg("%s: counter %zu of %u", charges[i].what, id, pids[k]);
                }
            }
        }
        stages_free(&s);
    }
}

static struct event disk(enum event_kind kind, int64_t ms, uint64_t irp, uint32_t pid)
{
    struct event ev = feed_at(kind, ms);

    ev.pid = pid;
    ev.u.disk = (struct ev_disk){.irp = irp, .issuer_tid = EVENT_NO_ID, .bytes = 512};
    return ev;
}

static void a_disk_request_of_version_2_belongs_to_the_issuer_of_its_init_event(void **state)
{
    struct stages s = stages_new(10 * CLK_S);

    stages_populate(&s);
    (void)stages_feed(&s, disk(EV_DISK_INIT, 1, 0x1000, 8));
    (void)stages_feed(&s, disk(EV_DISK_INIT, 2, 0x2000, 12));
    (void)stages_feed(&s, disk(EV_DISK_WRITE, 3, 0x2000, 8)); /* completes in another's context */
    (void)stages_feed(&s, disk(EV_DISK_READ, 4, 0x1000, 12));
    (void)stages_feed(&s, disk(EV_DISK_READ, 5, 0x1000, 12)); /* once only */
    assert_int_equal(stages_tally(&s, 12, COUNTERS_DISK_WRITE_BYTES), 512);
    assert_int_equal(stages_tally(&s, 8, COUNTERS_DISK_READ_BYTES), 512);
    assert_int_equal(stages_tally(&s, EVENT_NO_ID, COUNTERS_DISK_READS), 1);
    assert_int_equal(aggregate_stats(s.agg)->disk_unmatched, 1);

    (void)stages_feed(&s, disk(EV_DISK_INIT, 6, 0x3000, 8));
    (void)stages_feed(&s, feed_at(EV_LOST, 7));
    (void)stages_feed(&s, disk(EV_DISK_READ, 8, 0x3000, 8)); /* another request, for all we know */
    assert_int_equal(stages_tally(&s, EVENT_NO_ID, COUNTERS_DISK_READS), 2);
    assert_int_equal(aggregate_stats(s.agg)->lost_marks, 1);
    stages_free(&s);
}

/* Kernel-Network, -File, -Disk and -Registry: alone they count; beside classic records they repeat
 * them. Nobody is charged for disks. */
static void what_two_providers_tell_counts_once(void **state)
{
    const struct event both[] = {
        {BY(EV_NET, 8, 80), .u.net = {.pid = 12, .op = NET_RECV, .bytes = 70, .manifest = true}},
        {BY(EV_FILE_OP, 8, 80),
         .u.file = {.tid = 120, .op = FILE_READ, .bytes = 9, .manifest = true}},
        {BY(EV_REGISTRY, 12, 120), .u.registry = {.manifest = true}},
    };
    static const struct {
        enum counters_id id;
        uint64_t n;
    } counts[] = {
        {COUNTERS_TCP_RECV, 70}, {COUNTERS_FILE_READ_BYTES, 9}, {COUNTERS_REGISTRY_OPS, 1}};
    struct stages s = stages_new(10 * CLK_S);
    struct event request = disk(EV_DISK_READ, 1, 1, 8);

    stages_populate(&s);
    for (size_t i = 0; i < COUNT_OF(both); i++) {
        struct event classic = both[i];

        classic.u.net.manifest = i == 0 ? false : classic.u.net.manifest;
        classic.u.file.manifest = i == 1 ? false : classic.u.file.manifest;
        classic.u.registry.manifest = i == 2 ? false : classic.u.registry.manifest;
        assert_int_equal(stages_feed(&s, both[i])->info.id.pid, 12);
        assert_int_equal(stages_tally(&s, 12, counts[i].id), counts[i].n);
        (void)stages_feed(&s, classic);
        assert_int_equal(stages_feed(&s, both[i])->info.id.pid, 12);
        assert_int_equal(stages_tally(&s, 12, counts[i].id), 2 * counts[i].n);
    }
    request.u.disk.manifest = true;
    assert_null(stages_feed(&s, request));
    assert_int_equal(stages_tally(&s, EVENT_NO_ID, COUNTERS_DISK_READ_BYTES), 512);
    assert_int_equal(aggregate_stats(s.agg)->disk_unmatched, 0);
    (void)stages_feed(&s, disk(EV_DISK_INIT, 2, 1, 12));
    (void)stages_feed(&s, request);
    assert_int_equal(stages_tally(&s, EVENT_NO_ID, COUNTERS_DISK_READ_BYTES), 512);
    stages_free(&s);
}

static struct event clr(uint8_t op, int64_t ms)
{
    struct event ev = feed_at(EV_CLR, ms);

    ev.pid = 8;
    ev.tid = 80;
    ev.u.clr = (struct ev_clr){
        .op = op, .count = 1, .generation = 2, .reason = 1, .took_ns = -1, .bytes = 100};
    return ev;
}

static void what_dotnet_does_is_charged_to_its_process(void **state)
{
    struct stages s = stages_new(10 * CLK_S);

    stages_populate(&s);
    (void)stages_feed(&s, clr(CLR_SUSPEND, 1));
    (void)stages_feed(&s, clr(CLR_GC_START, 2));
    (void)stages_feed(&s, clr(CLR_GC_START, 2)); /* written twice */
    (void)stages_feed(&s, clr(CLR_RESTART, 5));
    assert_int_equal(stages_feed(&s, clr(CLR_EXCEPTION, 6))->info.id.pid, 8);
    (void)stages_feed(&s, clr(CLR_ALLOC, 6));
    (void)stages_feed(&s, clr(CLR_CONTENTION_START, 7));
    (void)stages_feed(&s, clr(CLR_CONTENTION_STOP, 9));
    assert_int_equal(stages_tally(&s, 8, COUNTERS_CLR_GCS), 1);
    assert_int_equal(stages_tally(&s, 8, COUNTERS_CLR_GEN1), 0);
    assert_int_equal(stages_tally(&s, 8, COUNTERS_CLR_GEN2), 1);
    assert_int_equal(stages_tally(&s, 8, COUNTERS_CLR_PAUSE), 4 * CLK_MS);
    assert_int_equal(stages_tally(&s, 8, COUNTERS_CLR_EXCEPTIONS), 1);
    assert_int_equal(stages_tally(&s, 8, COUNTERS_CLR_ALLOC), 100);
    assert_int_equal(stages_tally(&s, 8, COUNTERS_CLR_CONTENTIONS), 1);
    assert_int_equal(stages_tally(&s, 8, COUNTERS_CLR_CONTENTION_TIME), 2 * CLK_MS);
    assert_int_equal(stages_tally(&s, 12, COUNTERS_CLR_GCS), 0);

    (void)stages_feed(&s, clr(CLR_JIT_START, 10));
    (void)stages_feed(&s, feed_at(EV_LOST, 11));
    (void)stages_feed(&s, clr(CLR_METHOD_LOAD, 12)); /* its begin has no known end */
    (void)stages_feed(&s, clr(CLR_JIT_START, 13));
    (void)stages_feed(&s, clr(CLR_METHOD_LOAD, 15));
    assert_int_equal(stages_tally(&s, 8, COUNTERS_CLR_JIT_METHODS), 1);
    assert_int_equal(stages_tally(&s, 8, COUNTERS_CLR_JIT_TIME), 2 * CLK_MS);
    assert_int_equal(aggregate_stats(s.agg)->groups[SOURCE_SHED_CLR], 12);
    stages_free(&s);
}

/* -- metrics fed by events -- */

static struct event switch_of(int64_t ms, uint32_t old_tid, uint32_t new_tid)
{
    struct event ev = feed_at(EV_CSWITCH, ms);

    ev.u.cswitch.old_tid = old_tid;
    ev.u.cswitch.new_tid = new_tid;
    return ev;
}

static int64_t column(struct stages *s, uint32_t pid, unsigned id)
{
    struct instance *p = instances_owner(s->table, pid);

    aggregate_settle(s->agg, p);
    return p->count.mask & METRIC_BIT(id) ? p->count.values[id] : -1;
}

static void switches_win_over_samples_and_an_origin_stays(void **state)
{
    struct stages s = stages_new(10 * CLK_S);

    stages_populate(&s);
    (void)stages_feed(&s, feed_interval(0, CLK_MS));
    (void)stages_feed(&s, feed_sample(1, 80, false));
    assert_int_equal(column(&s, 8, M_CPU_TIME), CLK_MS); /* settled: 8 goes by samples from now */
    assert_int_equal(column(&s, 8, M_CONTEXT_SWITCHES), -1);
    (void)stages_feed(&s, switch_of(2, 0, 80));
    (void)stages_feed(&s, switch_of(5, 80, 120));
    (void)stages_feed(&s, feed_sample(6, 120, false));
    (void)stages_feed(&s, switch_of(9, 120, 0));
    assert_int_equal(column(&s, 8, M_CPU_TIME), CLK_MS);
    assert_int_equal(instances_owner(s.table, 8)->info.cpu_origin, CPU_ORIGIN_SAMPLES);
    assert_int_equal(column(&s, 12, M_CPU_TIME), 4 * CLK_MS);
    assert_int_equal(instances_owner(s.table, 12)->info.cpu_origin, CPU_ORIGIN_CSWITCH);
    assert_int_equal(column(&s, 12, M_CONTEXT_SWITCHES), 1);
    stages_free(&s);
}

static void times_win_over_switches_until_an_origin_is_settled(void **state)
{
    struct stages s = stages_new(10 * CLK_S);
    struct snap_row rows[] = {row_of(10, 30), row_of(10, 30)};
    struct snapshot snap = feed_table(4, rows, 2);

    rows[0].info.id.start = rows[1].info.id.start = 0;
    rows[1].info.id.pid = 12;
    stages_populate(&s);
    (void)stages_feed(&s, switch_of(2, 0, 120));
    (void)stages_feed(&s, switch_of(3, 120, 0));
    assert_int_equal(column(&s, 12, M_CPU_TIME), CLK_MS);
    aggregate_table(s.agg, &snap);
    assert_int_equal(column(&s, 8, M_CPU_TIME), 40);
    assert_int_equal(instances_owner(s.table, 8)->info.cpu_origin, CPU_ORIGIN_TIMES);
    assert_int_equal(column(&s, 12, M_CPU_TIME), CLK_MS);
    assert_int_equal(column(&s, 12, M_KERNEL_TIME), 10);
    assert_int_equal(instances_owner(s.table, 12)->info.cpu_origin, CPU_ORIGIN_CSWITCH);
    stages_free(&s);
}

static void disk_bytes_are_columns_once_requests_are_recorded(void **state)
{
    struct stages s = stages_new(10 * CLK_S);
    struct event read = disk(EV_DISK_READ, 1, 1, EVENT_NO_ID);

    stages_populate(&s);
    assert_int_equal(column(&s, 8, M_DISK_READ_BYTES), -1);
    read.u.disk.issuer_tid = 80;
    (void)stages_feed(&s, read);
    assert_int_equal(column(&s, 8, M_DISK_READ_BYTES), 512);
    assert_int_equal(column(&s, 8, M_DISK_WRITE_BYTES), 0);
    assert_int_equal(column(&s, 12, M_DISK_READ_BYTES), 0);
    stages_free(&s);
}

static void fault_events_count_hard_faults_and_no_others(void **state)
{
    struct stages s = stages_new(10 * CLK_S);
    struct event ev = feed_at(EV_HARD_FAULT, 1);

    stages_populate(&s);
    ev.u.hard_fault.tid = 80;
    (void)stages_feed(&s, ev);
    assert_int_equal(column(&s, 8, M_HARD_FAULTS), 1);
    assert_int_equal(column(&s, 12, M_HARD_FAULTS), 0);
    assert_int_equal(column(&s, 8, M_PAGE_FAULTS), -1);
    stages_free(&s);
}

static void early_events_are_not_counted(void **state)
{
    struct stages s = stages_new(10 * CLK_S);

    stages_populate(&s);
    assert_int_equal(aggregate_stats(s.agg)->events, 0);
    assert_int_equal(stages_tally(&s, 8, COUNTERS_THREAD_RUNDOWN), 0);
    stages_free(&s);
}

static void creation_survives_every_failing_allocation(void **state)
{
    struct stages s = stages_new(0);
    struct aggregate *a = NULL;
    long before = mem_live(), n = 0;

    for (mem_fail_after(n); aggregate_create(&a, s.table, s.life); mem_fail_after(++n)) {
        assert_int_equal(mem_live(), before);
    }
    mem_fail_after(-1);
    assert_true(n >= 3);
    aggregate_destroy(a);
    stages_free(&s);
}

/* -- one life in events, tables and totals at exit, in any order that can be -- */

struct mixed {
    uint64_t random;
    int64_t truth[METRIC_COLS]; /* what the process has used so far */
    int64_t shown[METRIC_COLS];
    metric_mask ever;
};

static const unsigned mixed_columns[] = {M_KERNEL_TIME,     M_USER_TIME,       M_CONTEXT_SWITCHES,
                                         M_READ_BYTES,      M_WRITE_BYTES,     M_CPU_CYCLES,
                                         M_DISK_READ_BYTES, M_DISK_WRITE_BYTES};

/* Some columns, of now or of a moment ago: tables and records come from different moments. */
static metric_mask draw_values(struct mixed *m, int64_t *values, unsigned kib)
{
    metric_mask mask = 0;

    for (size_t i = 0; i < COUNT_OF(mixed_columns); i++) {
        unsigned id = mixed_columns[i];

        if (draw(&m->random, 4) > 0) {
            mask |= METRIC_BIT(id);
            values[id] = m->truth[id] - (int64_t)draw(&m->random, 3) * draw(&m->random, 100);
            values[id] = (values[id] > 0 ? values[id] : 0) / kib * kib;
        }
    }
    return mask;
}

static void use(struct mixed *m)
{
    for (size_t i = 0; i < COUNT_OF(mixed_columns); i++) {
        m->truth[mixed_columns[i]] += draw(&m->random, 1000);
    }
}

/* Nothing that grows is ever less than it was. */
static void check_shown(struct bench *b, struct mixed *m)
{
    const struct instance *p = settled(b, 8);
    metric_mask growing = aggregate_growing(b->agg) & p->count.mask;

    for (struct metric_mask_walk each = metric_mask_walk(growing); metric_mask_walk_next(&each);) {
        unsigned id = each.id;

        assert_true(p->count.values[id] >= m->shown[id]);
        m->shown[id] = p->count.values[id];
    }
    m->ever |= p->count.mask;
}

static void one_step(struct bench *b, struct mixed *m, int64_t ms)
{
    struct event read = disk(EV_DISK_READ, ms, (uint64_t)ms, 80);
    struct snap_row row = feed_row(8, 1, 0);

    use(m);
    switch (draw(&m->random, 4)) {
    case 0:
        read.u.disk.bytes = draw(&m->random, 1000);
        feed(b, read);
        break;
    case 1:
        feed(b, feed_sample(ms, 80, false));
        break;
    default:
        row.mask = draw_values(m, row.values, 1);
        feed_one_row(b, ms, &row);
        break;
    }
}

static void what_grows_never_goes_back_whoever_tells_of_it(void **state)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct mixed m = {.random = seed * UINT64_C(0x9e3779b97f4a7c15)};
        struct event stop = feed_proc(EV_PROC_STOP, 1500, 8, 1);
        struct snap_row late = feed_row(8, 1, 0);
        int64_t totals[METRIC_COLS] = {0}, ms = 1;
        struct bench b = bench_new();

        feed(&b, feed_interval(0, CLK_US));
        feed(&b, feed_proc(EV_PROC_START, 0, 8, 1));
        feed(&b, feed_thread(EV_THREAD_START, 0, 8, 80));
        for (; ms < 40; ms++) {
            one_step(&b, &m, ms);
            check_shown(&b, &m);
        }
        stop.u.proc.totals_mask = draw_values(&m, totals, 1024);
        stop.u.proc.totals = totals;
        feed(&b, stop);
        check_shown(&b, &m);
        late.mask = draw_values(&m, late.values, 1);
        feed_one_row(&b, 1600, &late); /* listed still */
        check_shown(&b, &m);
        assert_true(!stop.u.proc.totals_mask == !(settled(&b, 8)->info.have & INFO_FINAL_TOTALS));
        for (size_t i = 0; i < COUNT_OF(mixed_columns); i++) {
            unsigned id = mixed_columns[i];

            assert_true(!(stop.u.proc.totals_mask & METRIC_BIT(id)) || m.shown[id] >= totals[id]);
        }
        assert_true(m.ever & METRIC_BIT(M_CPU_TIME));
        bench_free(&b);
    }
}

static void is_balanced(void *ctx, const struct life_event *ev)
{
    const struct bench *b = ctx;
    const struct aggregate_stats *s = aggregate_stats(b->agg);

    (void)ev;
    assert_int_equal(s->events, s->charged);
}

/* A batch may end, and take the ledger along, while an event's process is told. */
static void an_event_that_is_under_way_is_no_loss(void **state)
{
    struct bench b = bench_new();
    struct lifecycle_conf conf = {.polled = true, .table = b.table, .told = is_balanced, .ctx = &b};

    aggregate_destroy(b.agg);
    lifecycle_destroy(b.life);
    assert_ok(lifecycle_create(&b.life, &conf));
    assert_ok(aggregate_create(&b.agg, b.table, b.life));
    feed(&b, feed_proc(EV_PROC_START, 0, 8, 0));
    assert_int_equal(aggregate_stats(b.agg)->events, 1);
    assert_int_equal(aggregate_stats(b.agg)->charged, 1);
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_samples_are_cpu_time_and_interrupts_are_nobodys),
        cmocka_unit_test(the_latest_interval_counts_and_the_first_also_for_what_came_before),
        cmocka_unit_test(without_an_interval_cpu_time_is_absent),
        cmocka_unit_test(threads_are_counted_where_records_show_them_all),
        cmocka_unit_test(a_row_gives_cpu_time_from_its_halves),
        cmocka_unit_test(a_counter_never_goes_back_and_a_missing_column_is_absent),
        cmocka_unit_test(exit_totals_replace_smaller_counters_and_gauges_go),
        cmocka_unit_test(each_event_is_charged_to_its_owner_and_to_nobody_else),
        cmocka_unit_test(a_disk_request_of_version_2_belongs_to_the_issuer_of_its_init_event),
        cmocka_unit_test(what_two_providers_tell_counts_once),
        cmocka_unit_test(what_dotnet_does_is_charged_to_its_process),
        cmocka_unit_test(switches_win_over_samples_and_an_origin_stays),
        cmocka_unit_test(times_win_over_switches_until_an_origin_is_settled),
        cmocka_unit_test(disk_bytes_are_columns_once_requests_are_recorded),
        cmocka_unit_test(fault_events_count_hard_faults_and_no_others),
        cmocka_unit_test(early_events_are_not_counted),
        cmocka_unit_test(creation_survives_every_failing_allocation),
        cmocka_unit_test(what_grows_never_goes_back_whoever_tells_of_it),
        cmocka_unit_test(an_event_that_is_under_way_is_no_loss),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
