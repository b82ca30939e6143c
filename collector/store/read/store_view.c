#include "collector/store/read/store_view.h"

#include "collector/store/read/store_lookup.h"
#include "collector/store/segment/pack.h"
#include "collector/store/segment/seg_readahead.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

static void fill(struct store_host *out, const struct head_seen *seen)
{
    *out = (struct store_host){
        .id = seen->id,
        .boot = seen->boot,
        .name = seen->name,
        .source = seen->source,
        .flags = seen->flags,
        .cpus = seen->cpus,
        .first_ns = seen->first_ns,
        .last_ns = seen->last_ns,
        .has_alive = seen->has_alive,
        .alive = seen->alive,
        .clock = seen->clock,
        .received_ns = seen->received_ns,
        .batches = seen->batches,
        .duplicates = seen->counts ? atomic_load(&seen->counts->duplicates) : 0,
        .gaps = seen->counts ? atomic_load(&seen->counts->gaps) : 0,
        .lost_events = seen->lost_events,
        .held = seen->held,
        .too_old = seen->too_old,
        .no_room = seen->no_room,
    };
}

static void local_close(struct store_view *v)
{
    head_view_release(v->head);
    store_lookup_destroy(v->lookup);
    manifest_list_release(v->segments);
    packer_destroy(v->packer);
    wire_batch_decoder_destroy(v->decoder);
    seg_readahead_destroy(v->ahead);
    mem_free(v);
}

enum err store_view_packer(const struct store_view *v, struct packer **out)
{
    struct store_view *own = (struct store_view *)v; /* it is one thread's at a time */
    enum err e = own->packer ? ERR_OK : packer_create(&own->packer);

    *out = own->packer;
    return e;
}

enum err store_view_decode(const struct store_view *v, struct batch **out, metric_mask metrics,
                           const struct head_batch *kept)
{
    struct store_view *own = (struct store_view *)v; /* as above */
    enum err e = own->decoder ? ERR_OK : wire_batch_decoder_create(&own->decoder);

    return e ? e : head_batch_decode(kept, own->decoder, metrics, out);
}

struct seg_readahead *store_view_ahead(const struct store_view *v)
{
    struct store_view *own = (struct store_view *)v; /* as above */

    if (!own->ahead && seg_readahead_create(&own->ahead)) {
        own->ahead = NULL;
    }
    return own->ahead;
}

static size_t local_hosts(const struct store_view *v)
{
    return head_view_hosts(v->head);
}

static const struct store_host *local_host(const struct store_view *v, size_t i)
{
    return &v->hosts[i];
}

static size_t local_find(const struct store_view *v, const char *name, const struct uuid *id)
{
    return head_view_find(v->head, name, id);
}

static const struct view_ops local = {
    .close = local_close,
    .hosts = local_hosts,
    .host = local_host,
    .find = local_find,
    .blocks_scan = store_blocks_local,
    .cells_scan = store_cells_local,
    .cells_gone = store_cells_local_gone,
    .groups = store_groups_local,
    .accounts_scan = store_accounts_local,
    .info_each = store_info_local_each,
    .info_range = store_info_local_range,
    .info = store_info_local,
    .info_want = store_info_local_want,
    .info_unlisted = store_info_local_unlisted,
};

enum err store_view_open(struct store_view **out, struct store *s)
{
    struct manifest_list *segments;
    struct head_state *head;
    struct store_view *v;
    size_t n;
    enum err e = store_state(s, &head, &segments);

    if (e) {
        return e;
    }
    n = head_view_hosts(head);
    v = mem_alloc(sizeof *v + n * sizeof v->hosts[0]);
    if (!v) {
        head_view_release(head);
        manifest_list_release(segments);
        return ERR_NOMEM;
    }
    v->ops = &local;
    v->store = s;
    v->head = head;
    v->segments = segments;
    v->catalogue = store_catalogue(s);
    v->lookup = NULL;
    v->packer = NULL;
    v->decoder = NULL;
    v->ahead = NULL;
    v->unlisted = 0;
    if (store_lookup_create(&v->lookup)) { /* the head answers alone */
        v->lookup = NULL;
    }
    for (size_t i = 0; i < n; i++) {
        fill(&v->hosts[i], head_view_host(head, i));
    }
    *out = v;
    return ERR_OK;
}

static enum err give_raw(const struct head_batch *b, struct buf *room,
                         enum err (*each)(void *ctx, const struct store_raw *b), void *ctx)
{
    struct store_raw raw = {.stream = b->stream,
                            .seq = b->seq,
                            .received_ns = b->received_ns,
                            .clock = &b->clock,
                            .has_events = b->has_events,
                            .n = b->n};
    enum err e = head_batch_bytes(b, room, &raw.bytes);

    if (e == ERR_CORRUPT || e == ERR_IO) {
        return ERR_OK; /* sealing counts it; a bad sector must not keep the feed from starting */
    }
    return e ? e : each(ctx, &raw);
}

/* Whether it is wanted now; one that is wanted later is only noted. */
static bool is_asked_for(struct store_raw_ask *ask, const struct head_batch *b)
{
    if (b->received_ns < ask->since_ns || (ask->events_only && !b->has_events)) {
        return false;
    }
    if (b->received_ns < ask->until_ns) {
        return true;
    }
    ask->next_ns = b->received_ns < ask->next_ns ? b->received_ns : ask->next_ns;
    return false;
}

enum err store_view_raw(const struct store_view *v, size_t host, struct store_raw_ask *ask,
                        enum err (*each)(void *ctx, const struct store_raw *b), void *ctx)
{
    const struct head_batch **list;
    struct buf room;
    size_t n;
    enum err e = head_view_batches(v->head, host, INT64_MIN, INT64_MAX, &list, &n);

    if (e) {
        return e;
    }
    buf_init(&room, WAL_RECORD_MAX);
    for (size_t i = 0; i < n && !e; i++) {
        e = is_asked_for(ask, list[i]) ? give_raw(list[i], &room, each, ctx) : ERR_OK;
    }
    buf_fini(&room);
    mem_free(list);
    return e;
}

enum err store_view_scan(const struct store_view *v, size_t host, int64_t since_ns,
                         int64_t until_ns, enum err (*each)(void *ctx, const struct batch *b),
                         void *ctx)
{
    const struct head_batch **list;
    size_t n;
    enum err e = head_view_batches(v->head, host, since_ns, until_ns, &list, &n);

    if (e) {
        return e;
    }
    for (size_t i = 0; i < n && !e; i++) {
        struct batch *b;

        e = store_view_decode(v, &b, METRIC_ALL, list[i]);
        if (!e) {
            e = each(ctx, b);
            wire_batch_free(b);
        }
    }
    mem_free(list);
    return e;
}

/* -- what the disk does not give -- */

#define TOLD_NS (600 * CLK_S) /* one sentence in so long: the figures count all */

/* Whether it is time to log again; the caller that gets true does so. */
static bool is_due(struct store_reading *r)
{
    int64_t now_ns = os_mono_ns(), told_ns = atomic_load(&r->told_ns);

    return (!told_ns || now_ns - told_ns >= TOLD_NS) &&
           atomic_compare_exchange_strong(&r->told_ns, &told_ns, now_ns);
}

void store_view_unread(const struct store_view *v, size_t host, struct store_used *used,
                       enum store_unread_kind kind, int64_t first_ns, int64_t last_ns, enum err e)
{
    struct store_reading *r = &v->store->reading;
    const struct store_conf *conf = &v->store->conf;
    const struct store_unread_what what = {v->hosts[host].name, kind, first_ns, last_ns, e};

    if (used) {
        used->damaged++;
        store_used_hole_add(&used->holes, first_ns, last_ns);
    }
    atomic_fetch_add_explicit(&r->unread[kind], 1, memory_order_relaxed);
    if (conf->on_unread && is_due(r)) {
        conf->on_unread(conf->ctx, &what);
    }
}
