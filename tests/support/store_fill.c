#include "tests/support/store_fill.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/wire/wire_batch.h"

#define UNDER_WAY 64u
#define GRACE_NS  (31 * CLK_S)

static _Atomic int64_t clock_ns;
static struct os_mutex *lock; /* guards under_way */
static struct os_cond *answered;
static unsigned under_way;

static void check(enum err e, const char *what)
{
    if (e) {
        fprintf(stderr, "store_fill: %s: %s\n", what, err_text(e));
        exit(1);
    }
}

void fill_set_now(int64_t now_ns)
{
    if (now_ns > atomic_load(&clock_ns)) {
        atomic_store(&clock_ns, now_ns);
    }
}

int64_t fill_now(void)
{
    return atomic_load(&clock_ns);
}

struct store_conf fill_store_conf(const char *dir)
{
    struct store_conf conf = {
        .dir = dir,
        .fio = fio_os(),
        .head_bytes_max = (uint64_t)8 << 30,
        .now_ns = fill_now,
        .seal_poll_ns = 3600 * CLK_S,
        .accept_age_ns = 8 * 24 * 3600 * CLK_S,
        .hosts_max = 10000,
        .instances_max = 8192,
        .commit_gather_ns = 20 * CLK_MS,
        .commit_bytes = 1u << 20,
        .retain = {.total_bytes = (uint64_t)1 << 44, .disk_free_min = 1, .disk_free_stop = 1},
    };

    return conf;
}

struct fill *fill_create(const struct fill_conf *conf)
{
    struct fill *f = mem_zalloc(sizeof *f);

    check(f ? ERR_OK : ERR_NOMEM, "memory");
    f->conf = *conf;
    f->conf.under_way = conf->under_way ? conf->under_way : UNDER_WAY;
    f->conf.host.begin_ns = conf->host.begin_ns ? conf->host.begin_ns : FILL_T0;
    f->until_ns = f->conf.host.begin_ns;
    f->hosts = mem_array(conf->hosts, sizeof(struct fleetgen *));
    f->acked = mem_array(conf->hosts, sizeof *f->acked);
    check(f->hosts && f->acked ? ERR_OK : ERR_NOMEM, "memory");
    for (unsigned i = 0; i < conf->hosts; i++) {
        struct fleetgen_conf host = f->conf.host;

        host.seed = i + 1;
        f->hosts[i] = fleetgen_create(&host);
        atomic_init(&f->acked[i], 0);
    }
    check(os_mutex_create(&lock), "mutex");
    check(os_cond_create(&answered, lock), "condition");
    atomic_store(&clock_ns, f->until_ns);
    return f;
}

void fill_destroy(struct fill *f)
{
    if (!f) {
        return;
    }
    fill_close(f);
    fill_forget(f);
    for (unsigned i = 0; i < f->conf.hosts; i++) {
        fleetgen_destroy(f->hosts[i]);
    }
    os_cond_destroy(answered);
    os_mutex_destroy(lock);
    mem_free(f->batches);
    mem_free(f->acked);
    mem_free(f->hosts);
    mem_free(f);
}

void fill_open(struct fill *f, const struct store_conf *conf)
{
    struct errmsg why = {""};
    enum err e = store_open(&f->store, conf, &why);

    if (e) {
        fprintf(stderr, "store_fill: %s\n", why.text);
        exit(1);
    }
}

void fill_close(struct fill *f)
{
    store_close(f->store);
    f->store = NULL;
}

/* -- making -- */

static uint64_t values_of(const struct batch *b)
{
    uint64_t n = 0;

    for (size_t i = 0; i < b->n_columns; i++) {
        n += b->columns[i].n_values;
    }
    return n;
}

static void make_one(struct fill *f, unsigned host, struct wire_encoder *enc, struct buf *bytes)
{
    const struct batch *b = fleetgen_batch(f->hosts[host], f->conf.ticks);
    struct fill_batch *to;

    if (f->n_batches == f->cap_batches) {
        size_t cap = f->cap_batches ? f->cap_batches * 2 : 1024;
        struct fill_batch *grown = mem_realloc_array(f->batches, cap, sizeof *grown);

        check(grown ? ERR_OK : ERR_NOMEM, "memory");
        f->batches = grown;
        f->cap_batches = cap;
    }
    buf_reset(bytes);
    check(wire_batch_encode(enc, bytes, b), "encode");
    to = &f->batches[f->n_batches++];
    *to = (struct fill_batch){.p = mem_dup(bytes->p, bytes->n),
                              .n = bytes->n,
                              .host = host,
                              .made_ns = b->wall_ns[b->n_ticks - 1],
                              .seq = b->head.seq};
    check(to->p ? ERR_OK : ERR_NOMEM, "memory");
    f->values += values_of(b);
    f->bytes += bytes->n;
}

void fill_make(struct fill *f, int64_t until_ns)
{
    int64_t tick_ns = f->conf.host.tick_ns ? f->conf.host.tick_ns : CLK_S;
    struct wire_encoder *enc;
    struct buf bytes;

    check(wire_batch_encoder_create(&enc), "encoder");
    buf_init(&bytes, WIRE_BATCH_BYTES_MAX);
    while (f->until_ns < until_ns) {
        for (unsigned i = 0; i < f->conf.hosts; i++) {
            make_one(f, i, enc, &bytes);
        }
        f->until_ns += (int64_t)f->conf.ticks * tick_ns;
    }
    buf_fini(&bytes);
    wire_batch_encoder_destroy(enc);
}

void fill_forget(struct fill *f)
{
    for (size_t i = 0; i < f->n_batches; i++) {
        mem_free(f->batches[i].p);
    }
    f->n_batches = 0;
    f->n_put = 0;
}

/* -- putting -- */

struct putting {
    struct fill *f;
    size_t i;
};

static void on_done(void *ctx, enum err e)
{
    struct putting *p = ctx;
    struct fill_batch *b = &p->f->batches[p->i];

    check(e, "durable");
    b->took_ns = os_mono_ns() - b->put_ns;
    atomic_store(&p->f->acked[b->host], b->seq); /* in commit order, which is that of puts */
    mem_free(p);
    os_mutex_lock(lock);
    under_way--;
    os_cond_wake(answered);
    os_mutex_unlock(lock);
}

static void await(unsigned left)
{
    os_mutex_lock(lock);
    while (under_way > left) {
        os_cond_wait(answered);
    }
    os_mutex_unlock(lock);
}

static enum err try_put(struct fill *f, size_t i)
{
    struct fill_batch *b = &f->batches[i];
    struct putting *p = mem_zalloc(sizeof *p);
    struct store_put put = {.bytes = b->p,
                            .n = b->n,
                            .host_name = fleetgen_host_name(f->hosts[b->host]),
                            .received_ns = b->made_ns + CLK_S,
                            .done = on_done,
                            .ctx = p};
    enum err e;

    check(p ? ERR_OK : ERR_NOMEM, "memory");
    *p = (struct putting){f, i};
    b->put_ns = os_mono_ns();
    check(wire_batch_decode(&put.batch, put.bytes, put.n), "decode");
    os_mutex_lock(lock);
    under_way++;
    os_mutex_unlock(lock);
    e = store_put(f->store, &put);
    if (e) {
        os_mutex_lock(lock);
        under_way--;
        os_mutex_unlock(lock);
        mem_free(p);
    }
    return e;
}

void fill_put_next(struct fill *f)
{
    enum err e;

    await(f->conf.under_way - 1);
    e = try_put(f, f->n_put);
    while (e == ERR_FULL) { /* sealing is behind */
        os_sleep_ns(CLK_MS);
        e = try_put(f, f->n_put);
    }
    check(e, "put");
    f->n_put++;
}

void fill_wait(struct fill *f)
{
    (void)f;
    await(0);
}

void fill_put(struct fill *f, size_t n)
{
    for (size_t i = 0; i < n && f->n_put < f->n_batches; i++) {
        fill_put_next(f);
    }
    fill_wait(f);
}

size_t fill_again(struct fill *f)
{
    size_t known = 0;

    for (size_t i = 0; i < f->n_put; i++) {
        enum err e = try_put(f, i);

        check(e == ERR_EXISTS || e == ERR_RANGE ? ERR_OK : e, "put again");
        known += e != ERR_OK;
    }
    fill_wait(f);
    return known;
}

void fill_seal(struct fill *f, int64_t until_ns)
{
    fill_set_now(until_ns + GRACE_NS);
    check(store_seal_now(f->store, until_ns), "seal");
}
