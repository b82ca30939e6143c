#include "tests/collector/lab.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"

#define VIEWS_MAX 4096

struct lab {
    char dir[256];
    struct store *store;
    size_t n_views;
    struct store_view *views[VIEWS_MAX];
    unsigned host;
    struct host_offset clock;
    int64_t received_ns;
    struct wire_encoder *encoder;
    struct arena texts; /* of the batch being made */
    struct batch batch;
    int64_t wall[LAB_MAX], mono[LAB_MAX];
    struct batch_run runs[LAB_MAX];
    int64_t *values[METRIC_COLS];
    struct batch_column columns[METRIC_COLS];
    struct proc_info infos[LAB_MAX];
    struct life_event events[LAB_MAX];
    struct ledger_row ledger[16];
    struct os_mutex *lock;
    struct os_cond *stored;
    bool done;
    enum err result;
};

static void check(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "lab: %s failed\n", what);
        abort();
    }
}

static atomic_llong now; /* read by the store's threads */

void lab_now(int64_t now_ns)
{
    atomic_store(&now, now_ns);
}

static int64_t time_now(void)
{
    return atomic_load(&now);
}

struct lab *lab_open(void (*on_stored)(void *, const struct store_stored *), void *ctx)
{
    struct lab *l = mem_zalloc(sizeof *l);
    struct store_conf conf = {
        .fio = fio_unsynced(),
        .head_bytes_max = 64u << 20,
        .accept_age_ns = INT64_MAX / 2,
        .now_ns = time_now,
        .seal_poll_ns = INT64_C(3600) * 1000000000, /* only when a test says so */
        .retain = {.total_bytes = (uint64_t)1 << 40, .disk_free_min = 1, .disk_free_stop = 1},
        .hosts_max = 256,
        .instances_max = 10000,
        .commit_gather_ns = 1000000,
        .commit_bytes = 1u << 20,
        .on_stored = on_stored,
        .ctx = ctx,
    };
    struct errmsg why;

    check(l != NULL, "memory");
    l->received_ns = LAB_NS(0);
    conf.dir = support_temp_dir(l->dir, sizeof l->dir);
    for (unsigned m = 0; m < METRIC_COLS; m++) {
        l->values[m] = mem_array(LAB_MAX, sizeof(int64_t));
        check(l->values[m] != NULL, "memory");
    }
    check(os_mutex_create(&l->lock) == ERR_OK, "mutex");
    check(os_cond_create(&l->stored, l->lock) == ERR_OK, "condition");
    arena_init(&l->texts, 1u << 20);
    check(wire_batch_encoder_create(&l->encoder) == ERR_OK, "encoder");
    check(store_open(&l->store, &conf, &why) == ERR_OK, "store_open");
    return l;
}

void lab_close(struct lab *l)
{
    for (size_t i = 0; i < l->n_views; i++) {
        store_view_close(l->views[i]);
    }
    store_close(l->store);
    for (unsigned m = 0; m < METRIC_COLS; m++) {
        mem_free(l->values[m]);
    }
    wire_batch_encoder_destroy(l->encoder);
    arena_fini(&l->texts);
    os_cond_destroy(l->stored);
    os_mutex_destroy(l->lock);
    support_remove_dir(l->dir);
    mem_free(l);
}

struct store *lab_store(struct lab *l)
{
    return l->store;
}

struct store_view *lab_view(struct lab *l)
{
    check(l->n_views < VIEWS_MAX, "room for a view");
    check(store_view_open(&l->views[l->n_views], l->store) == ERR_OK, "store_view_open");
    return l->views[l->n_views++];
}

struct uuid lab_host(unsigned host)
{
    struct uuid u = {{0xaa, 0xbb}};

    u.b[15] = (uint8_t)host;
    u.b[14] = (uint8_t)(host >> 8);
    return u;
}

static struct str text(struct lab *l, const char *s)
{
    struct str t = {arena_dup(&l->texts, s, strlen(s)), strlen(s)};

    check(t.p != NULL, "memory");
    return t;
}

void lab_begin(struct lab *l, unsigned host, uint64_t stream, uint64_t seq)
{
    l->host = host;
    arena_reset(&l->texts);
    l->batch = (struct batch){
        .head = {.host = lab_host(host),
                 .stream = stream,
                 .seq = seq,
                 .cpus = 4,
                 .source = str_make("proc")},
        .wall_ns = l->wall,
        .mono_ns = l->mono,
        .runs = l->runs,
        .columns = l->columns,
        .infos = l->infos,
        .events = l->events,
        .ledger = l->ledger,
    };
    lab_boot(l, 1);
    memset(l->columns, 0, sizeof l->columns);
}

void lab_flags(struct lab *l, uint32_t flags)
{
    l->batch.head.flags = flags;
}

void lab_boot(struct lab *l, uint8_t boot)
{
    memset(l->batch.head.boot.b, boot, sizeof l->batch.head.boot.b);
}

void lab_clock(struct lab *l, struct host_offset clock)
{
    l->clock = clock;
}

void lab_received(struct lab *l, double second)
{
    l->received_ns = LAB_NS(second);
}

void lab_tick_at(struct lab *l, double second, double mono_second)
{
    l->wall[l->batch.n_ticks] = LAB_NS(second);
    l->mono[l->batch.n_ticks++] = (int64_t)(mono_second * 1e9) + 5;
}

void lab_tick(struct lab *l, double second)
{
    lab_tick_at(l, second, second);
}

void lab_run(struct lab *l, uint32_t pid, uint64_t start, unsigned first_tick, unsigned n,
             bool fresh, unsigned n_metrics, const uint8_t *metrics, const int64_t *values)
{
    struct batch_run *run = &l->runs[l->batch.n_runs++];

    *run = (struct batch_run){
        .id = {pid, start}, .first_tick = first_tick, .n_ticks = n, .fresh = fresh};
    for (unsigned i = 0; i < n_metrics; i++) {
        struct batch_column *c = &l->columns[metrics[i]]; /* by id; packed by lab_put */

        run->mask |= METRIC_BIT(metrics[i]);
        check(c->n_values + n <= LAB_MAX, "room for values");
        memcpy(l->values[metrics[i]] + c->n_values, values + i * n, n * sizeof *values);
        c->n_values += n;
    }
}

void lab_cpu(struct lab *l, uint32_t pid, bool fresh, unsigned first_tick, unsigned n,
             const int64_t *cpu_ms)
{
    static const uint8_t metric = M_CPU_TIME;
    int64_t ns[LAB_MAX];

    for (unsigned i = 0; i < n; i++) {
        ns[i] = cpu_ms[i] * 1000000;
    }
    lab_run(l, pid, pid, first_tick, n, fresh, 1, &metric, ns);
}

void lab_info(struct lab *l, const struct proc_info *info)
{
    l->infos[l->batch.n_infos++] = *info;
}

void lab_name(struct lab *l, uint32_t pid, const char *name)
{
    struct proc_info info = {.id = {pid, pid}, .have = INFO_PARENT, .parent_pid = 1};

    info.name = text(l, name);
    info.origin = ORIGIN_SNAPSHOT;
    info.cpu_origin = CPU_ORIGIN_TIMES;
    lab_info(l, &info);
}

void lab_event(struct lab *l, const struct life_event *ev)
{
    l->events[l->batch.n_events++] = *ev;
}

void lab_life(struct lab *l, uint8_t kind, double second, uint32_t pid, const char *name)
{
    struct life_event ev = {.kind = kind, .wall_ns = LAB_NS(second), .info = {.id = {pid, pid}}};

    ev.mono_ns = (int64_t)(second * 1e9) + 5;
    ev.info.name = text(l, name);
    ev.info.origin = ORIGIN_START;
    if (kind == LIFE_PROCESS_STOP) {
        ev.info.have = INFO_EXITED | INFO_EXIT_TIME | INFO_EXIT_CODE;
        ev.info.exit_ns = ev.wall_ns;
        ev.info.exit_code = 7;
    }
    lab_event(l, &ev);
}

void lab_ledger(struct lab *l, const char *stage, const char *reason, uint64_t count)
{
    l->ledger[l->batch.n_ledger++] = (struct ledger_row){str_make(stage), str_make(reason), count};
}

static void on_done(void *ctx, enum err e)
{
    struct lab *l = ctx;

    os_mutex_lock(l->lock);
    l->done = true;
    l->result = e;
    os_cond_wake_all(l->stored);
    os_mutex_unlock(l->lock);
}

static void columns_pack(struct lab *l)
{
    for (unsigned m = 0; m < METRIC_COLS; m++) {
        size_t n = l->columns[m].n_values;

        if (n) {
            l->columns[l->batch.n_columns++] = (struct batch_column){(uint8_t)m, n, l->values[m]};
        }
    }
}

static bool sealing;

int lab_seal_all(void **state)
{
    (void)state;
    sealing = true;
    return 0;
}

void lab_put(struct lab *l)
{
    struct buf bytes;
    struct batch *copy;
    struct store_put put = {
        .received_ns = l->received_ns, .clock = l->clock, .done = on_done, .ctx = l};
    char name[32];

    columns_pack(l);
    buf_init(&bytes, WIRE_BATCH_BYTES_MAX);
    check(wire_batch_encode(l->encoder, &bytes, &l->batch) == ERR_OK, "wire_batch_encode");
    check(wire_batch_decode(&copy, bytes.p, bytes.n) == ERR_OK, "wire_batch_decode");
    (void)snprintf(name, sizeof name, "host-%u", l->host);
    put.batch = copy;
    put.bytes = bytes.p;
    put.n = bytes.n;
    put.host_name = name;
    l->done = false;
    check(store_put(l->store, &put) == ERR_OK, "store_put");
    os_mutex_lock(l->lock);
    while (!l->done) {
        os_cond_wait(l->stored);
    }
    os_mutex_unlock(l->lock);
    check(l->result == ERR_OK, "storing");
    check(!sealing || store_seal_now(l->store, INT64_MAX) == ERR_OK, "sealing");
    buf_fini(&bytes);
}
