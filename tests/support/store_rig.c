#include "tests/support/store_rig.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "collector/store/meta/meta.h"
#include "collector/store/read/store_view.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static _Atomic int64_t now_ns;

void rig_set_now(int64_t ns)
{
    atomic_store(&now_ns, ns);
}

int64_t rig_now(void)
{
    return atomic_load(&now_ns);
}

void rig_init(struct rig *r)
{
    memset(r, 0, sizeof *r);
    rig_set_now(RIG_T0);
    support_temp_dir(r->dir, sizeof r->dir);
    r->conf = (struct store_conf){
        .dir = r->dir,
        .fio = fio_unsynced(),
        .head_bytes_max = 64u << 20,
        .accept_age_ns = 3600 * 1000000000LL,
        .hosts_max = RIG_HOSTS_MAX,
        .instances_max = 256,
        .commit_gather_ns = 1000000,
        .commit_bytes = 1u << 20,
        .now_ns = rig_now,
        .retain = {.total_bytes = (uint64_t)1 << 40, .disk_free_min = 1, .disk_free_stop = 1},
    };
}

void rig_fini(struct rig *r)
{
    rig_close(r);
    support_remove_dir(r->dir);
}

void rig_open(struct rig *r)
{
    struct errmsg why = {""};
    enum err e = store_open(&r->store, &r->conf, &why);

    if (e) {
        print_message("store_open: %s: %s\n", err_name(e), why.text);
    }
    assert_ok(e);
}

void rig_close(struct rig *r)
{
    store_close(r->store);
    r->store = NULL;
}

int rig_setup(void **state)
{
    rig_init(*state);
    return 0;
}

int rig_teardown(void **state)
{
    rig_fini(*state);
    return 0;
}

struct fleetgen *rig_host(uint64_t seed)
{
    struct fleetgen_conf conf = {
        .seed = seed, .processes = 3, .metrics = 2, .starts_per_hour = 60, .begin_ns = RIG_T0};

    return fleetgen_create(&conf);
}

void rig_batch_as(struct rig_batch *out, struct fleetgen *g, size_t ticks, uint64_t stream,
                  uint64_t seq)
{
    struct batch b = *fleetgen_batch(g, ticks);
    struct wire_encoder *enc;
    struct buf bytes;

    if (stream) {
        b.head.stream = stream;
        b.head.seq = seq;
    }
    buf_init(&bytes, WIRE_BATCH_BYTES_MAX);
    assert_ok(wire_batch_encoder_create(&enc));
    assert_ok(wire_batch_encode(enc, &bytes, &b));
    wire_batch_encoder_destroy(enc);
    out->head = b.head;
    out->head.source = str_make("proc");
    out->bytes = bytes.p;
    out->n = bytes.n;
    out->clock = (struct host_offset){0};
    out->received_ns = b.wall_ns[b.n_ticks - 1] + 1000000000LL;
    snprintf(out->host_name, sizeof out->host_name, "%s", fleetgen_host_name(g));
}

void rig_batch(struct rig_batch *out, struct fleetgen *g, size_t ticks)
{
    rig_batch_as(out, g, ticks, 0, 0);
}

void rig_batch_fini(struct rig_batch *b)
{
    mem_free(b->bytes);
    memset(b, 0, sizeof *b);
}

enum err rig_put_async(struct rig *r, const struct rig_batch *b, void (*done)(void *, enum err),
                       void *ctx)
{
    struct store_put put = {.bytes = b->bytes,
                            .n = b->n,
                            .host_name = b->host_name,
                            .received_ns = b->received_ns,
                            .clock = b->clock,
                            .done = done,
                            .ctx = ctx};

    assert_ok(wire_batch_decode(&put.batch, b->bytes, b->n));
    return store_put(r->store, &put);
}

struct waiter {
    struct os_mutex *lock;
    struct os_cond *cond;
    bool answered;
    enum err result;
};

static void wake(void *ctx, enum err e)
{
    struct waiter *w = ctx;

    os_mutex_lock(w->lock);
    w->answered = true;
    w->result = e;
    os_cond_wake(w->cond);
    os_mutex_unlock(w->lock);
}

enum err rig_put(struct rig *r, const struct rig_batch *b)
{
    struct waiter w = {0};
    enum err e;

    assert_ok(os_mutex_create(&w.lock));
    assert_ok(os_cond_create(&w.cond, w.lock));
    e = rig_put_async(r, b, wake, &w);
    if (e == ERR_OK) {
        os_mutex_lock(w.lock);
        while (!w.answered) {
            os_cond_wait(w.cond);
        }
        os_mutex_unlock(w.lock);
        e = w.result;
    }
    os_cond_destroy(w.cond);
    os_mutex_destroy(w.lock);
    return e;
}

void rig_put_next(struct rig *r, struct fleetgen *g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct rig_batch b;

        rig_batch(&b, g, 10);
        assert_ok(rig_put(r, &b));
        rig_batch_fini(&b);
    }
}

void rig_put_host(struct rig *r, uint64_t seed, size_t n)
{
    struct fleetgen *g = rig_host(seed);

    rig_put_next(r, g, n);
    fleetgen_destroy(g);
}

/* The batches of one host in one segment. */
static void each_rest(const struct seg *s, const struct uuid *id,
                      enum err (*each)(void *ctx, const struct batch *b), void *ctx)
{
    size_t host = seg_find_host(s, id);
    struct packer *p;

    assert_ok(packer_create(&p));
    for (uint8_t w = 0; host < seg_hosts(s) && w < seg_info_of(s)->n_windows; w++) {
        const struct window_rest *rest;
        struct meta_reader *r;
        enum err e;

        assert_ok(meta_reader_open(&r, s, p, (uint32_t)host, w));
        while (!(e = meta_reader_next(r, &rest))) {
            assert_ok(each(ctx, &rest->batch));
        }
        assert_true(e == ERR_END || e == ERR_NOTFOUND);
        meta_reader_close(r);
    }
    packer_destroy(p);
}

void rig_each(const struct store_view *v, size_t host,
              enum err (*each)(void *ctx, const struct batch *b), void *ctx)
{
    const struct manifest_list *l = v->segments;

    assert_ok(store_view_scan(v, host, INT64_MIN, INT64_MAX, each, ctx));
    for (size_t i = manifest_lower(l, SEG_REST, INT64_MIN); i < manifest_segments(l); i++) {
        const struct seg *s;

        if (manifest_segment(l, i)->kind == SEG_REST) {
            assert_ok(manifest_seg(l, i, &s));
            each_rest(s, &store_view_host(v, host)->id, each, ctx);
        }
    }
}

struct tally {
    const struct batch_head *key; /* NULL: every batch */
    size_t n;
};

static enum err tally_one(void *ctx, const struct batch *b)
{
    struct tally *t = ctx;

    t->n += !t->key || (b->head.seq == t->key->seq && b->head.stream == t->key->stream &&
                        memcmp(b->head.host.b, t->key->host.b, sizeof b->head.host.b) == 0);
    return ERR_OK;
}

static size_t tally(struct rig *r, const struct batch_head *key)
{
    struct tally t = {key, 0};
    struct store_view *v;

    assert_ok(store_view_open(&v, r->store));
    for (size_t i = 0; i < store_view_hosts(v); i++) {
        rig_each(v, i, tally_one, &t);
    }
    store_view_close(v);
    return t.n;
}

size_t rig_count(struct rig *r, const struct batch_head *key)
{
    return tally(r, key);
}

size_t rig_count_all(struct rig *r)
{
    return tally(r, NULL);
}
