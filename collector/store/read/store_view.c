#include "collector/store/read/store_view.h"

#include "collector/store/memtable/head_info.h"
#include "collector/store/read/store_lookup.h"
#include "collector/store/read/store_unread.h"
#include "collector/store/segment/pack.h"
#include "collector/store/segment/seg_readahead.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

/* -- instances -- */

/* What is known of instances, by the head and by the catalogue. The head knows what is newest and
 * forgets the dead; the catalogue has what is sealed. Where both know one, what they say is joined.
 */

static uint32_t store_info_local_unlisted(const struct store_view *v)
{
    return v->unlisted;
}

static void unlisted(const struct store_view *v, size_t host, int64_t since_ns, int64_t until_ns,
                     enum err e)
{
    struct store_view *own = (struct store_view *)v; /* it is one thread's at a time */

    own->unlisted++;
    store_view_unread(v, host, NULL, STORE_UNREAD_CATALOGUE, since_ns, until_ns, e);
}

/* Whether the head knows an instance only by events of its threads, images or providers, which have
 * no more than its name: after a start, what is sealed knows the rest. */
static bool is_known_by_name(const struct proc_info *info)
{
    return !info->origin && !(info->have & (INFO_CREATE_TIME | INFO_EXITED));
}

static bool known_sealed(const struct store_view *v, size_t host, const struct uuid *boot,
                         struct proc_id id, bool brief, struct proc_info *out)
{
    const struct head_seen *seen = head_view_host(v->head, host);
    bool found;
    enum err e;

    if (!v->lookup) {
        return false;
    }
    if (!v->catalogue) { /* it could not be opened: told once */
        if (!v->unlisted) {
            unlisted(v, host, 0, 0, ERR_NOTFOUND);
        }
        return false;
    }
    found = store_lookup_find(v->lookup, v->catalogue, &seen->id, boot, id, brief, out);
    e = store_lookup_unread(v->lookup);
    if (e) {
        unlisted(v, host, 0, 0, e);
    }
    return found;
}

static bool store_info_local(const struct store_view *v, size_t host, const struct uuid *boot,
                             struct proc_id id, bool brief, struct proc_info *out)
{
    struct proc_info sealed;

    if (!head_infos_find(head_view_host(v->head, host)->infos, boot, id, out)) {
        return known_sealed(v, host, boot, id, brief, out);
    }
    if (is_known_by_name(out) && known_sealed(v, host, boot, out->id, brief, &sealed)) {
        head_info_join(&sealed, out, true);
        *out = sealed;
    }
    return true;
}

static void store_info_local_want(const struct store_view *v, size_t host,
                                  const struct proc_key *keys, size_t n)
{
    const struct head_seen *seen = head_view_host(v->head, host);
    struct proc_key missing[64];
    struct proc_info info;
    size_t n_missing = 0;

    for (size_t i = 0; i < n && v->lookup && v->catalogue; i++) {
        bool found = head_infos_find(seen->infos, &keys[i].boot, keys[i].id, &info);

        if (!found || is_known_by_name(&info)) {
            missing[n_missing++] = (struct proc_key){found ? info.id : keys[i].id, keys[i].boot};
        }
        if (n_missing == sizeof missing / sizeof *missing || (n_missing && i + 1 == n)) {
            store_lookup_want(v->lookup, v->catalogue, &seen->id, missing, n_missing);
            n_missing = 0;
        }
    }
}

static void store_info_local_range(const struct store_view *v, int64_t since_ns, int64_t until_ns)
{
    if (v->lookup) {
        store_lookup_range(v->lookup, since_ns, until_ns);
    }
}

/* -- every instance -- */

struct every {
    const struct head_seen *seen;
    const struct store_instances *ask;
    enum err (*each)(void *ctx, const struct uuid *boot, const struct proc_info *info);
    void *ctx;
    struct head_infos_place at; /* the head's next one */
    enum err bad;               /* each gave it */
    int64_t rebooted_ns;        /* from when on there are no processes of an earlier boot */
};

static int compare(const struct uuid *boot_a, struct proc_id a, const struct uuid *boot_b,
                   struct proc_id b)
{
    int d = memcmp(boot_a->b, boot_b->b, sizeof boot_a->b);

    if (d == 0 && a.pid != b.pid) {
        d = a.pid < b.pid ? -1 : 1;
    }
    if (d == 0 && a.start != b.start) {
        d = a.start < b.start ? -1 : 1;
    }
    return d;
}

static bool asked_for(const struct every *x, struct proc_id id)
{
    return !x->ask->has_pid ||
           (id.pid == x->ask->pid && (!x->ask->start || id.start == x->ask->start));
}

static bool is_newest_boot(const struct every *x, const struct uuid *boot)
{
    return memcmp(boot->b, x->seen->boot.b, sizeof boot->b) == 0;
}

/* As far as the info itself says. */
static bool in_range(const struct every *x, const struct proc_info *info)
{
    bool ended = (info->have & INFO_EXITED) && (info->have & INFO_EXIT_TIME);

    return (!ended || info->exit_ns >= x->ask->since_ns) &&
           (!(info->have & INFO_CREATE_TIME) || info->create_ns < x->ask->until_ns);
}

static enum err give_head(struct every *x, const struct uuid *boot, const struct proc_info *info)
{
    bool running = !(info->have & INFO_EXITED);

    if (!asked_for(x, info->id) || !in_range(x, info) ||
        (running && !is_newest_boot(x, boot) && x->ask->since_ns >= x->rebooted_ns)) {
        return ERR_OK;
    }
    return x->each(x->ctx, boot, info);
}

/* Those of the head that come before this one; NULL: all that are left. When the head has it too,
 * *has_same is set, and *same to what it knows. */
static enum err give_up_to(struct every *x, const struct uuid *boot, const struct proc_info *to,
                           struct proc_info *same, bool *has_same)
{
    const struct uuid *its;
    struct proc_info info;
    enum err e = ERR_OK;

    *has_same = false;
    while (!e && head_infos_peek(x->seen->infos, &x->at, &its, &info)) {
        int d = to ? compare(its, info.id, boot, to->id) : -1;

        if (d > 0) {
            break;
        }
        x->at.i++;
        if (d == 0) {
            *same = info;
            *has_same = true;
            break;
        }
        e = give_head(x, its, &info);
    }
    return e;
}

static enum err from_catalogue(void *ctx, const struct uuid *boot, const struct proc_info *info,
                               int64_t seen_ns)
{
    struct proc_info joined = *info, same;
    struct every *x = ctx;
    bool has_same;
    enum err e = give_up_to(x, boot, info, &same, &has_same);

    (void)seen_ns;
    if (!e && has_same) {
        head_info_join(&joined, &same, true);
    }
    if (!e && in_range(x, &joined)) {
        e = x->each(x->ctx, boot, &joined);
    }
    x->bad = e;
    return e;
}

/* The earliest creation in the newest boot. */
static int64_t newest_boot_began(const struct head_seen *seen)
{
    struct head_infos_place at = {0};
    int64_t began_ns = INT64_MAX;
    const struct uuid *boot;
    struct proc_info info;

    for (; head_infos_peek(seen->infos, &at, &boot, &info); at.i++) {
        if (memcmp(boot->b, seen->boot.b, sizeof boot->b) == 0 && (info.have & INFO_CREATE_TIME) &&
            info.create_ns > 0 && info.create_ns < began_ns) {
            began_ns = info.create_ns;
        }
    }
    return began_ns;
}

static enum err store_info_local_each(
    const struct store_view *v, size_t host, const struct store_instances *ask,
    enum err (*each)(void *ctx, const struct uuid *boot, const struct proc_info *info), void *ctx)
{
    struct every x = {.seen = head_view_host(v->head, host), .ask = ask, .each = each, .ctx = ctx};
    const struct catalogue_ask sealed = {.host = &x.seen->id,
                                         .has_pid = ask->has_pid,
                                         .pid = ask->pid,
                                         .start = ask->start,
                                         .since_ns = ask->since_ns,
                                         .until_ns = ask->until_ns,
                                         .brief = ask->brief};
    struct proc_info same;
    bool has_same;
    enum err e;

    x.rebooted_ns = newest_boot_began(x.seen);
    if (v->catalogue) { /* a damaged day is made anew; the head and the other days still answer */
        e = catalogue_find(v->catalogue, &sealed, from_catalogue, &x);
    } else {
        e = ERR_NOTFOUND;
    }
    if (x.bad) {
        return x.bad;
    }
    if (store_unread_is(e)) {
        unlisted(v, host, ask->since_ns, ask->until_ns, e);
        e = ERR_OK;
    }
    return e ? e : give_up_to(&x, NULL, NULL, &same, &has_same);
}

/* -- the view -- */

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
