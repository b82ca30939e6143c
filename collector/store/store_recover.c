/* Opening: what the hosts file and the segments say, then the log over it.
 *
 *   manifest ─ hosts file ─ numbers of sealed batches ─ log: batches not sealed yet ─ head
 *
 * Most files of the log are described by their index: then a batch goes into the head without its
 * bytes, which stay in the log until a reader or sealing wants them, and a start takes time in
 * proportion to the number of batches, not to their size. Only files without a sound index are read
 * and unpacked, one as a rule after a kill, none after a clean end.
 *
 * A record of the log whose number a segment lists is left out: the collector died between sealing
 * it and letting its log file go. That list is exact (dedup forgets holes when there are many). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/batch_time.h"
#include "collector/store/dedup.h"
#include "collector/store/hosts.h"
#include "collector/store/manifest/manifest.h"
#include "collector/store/memtable/head_batch.h"
#include "collector/store/meta/loss_sum.h"
#include "collector/store/meta/meta.h"
#include "collector/store/seal/seal.h"
#include "collector/store/segment/window.h"
#include "collector/store/store_state.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/base/vec.h"
#include "common/model/ledger.h"
#include "common/os/os.h"
#include "common/os/uuid.h"

struct sealed_seqs_range {
    struct uuid host;
    uint64_t stream;
    struct seq_range at;
    int64_t end_ns; /* of the window */
};

struct sealed_seqs {
    struct sealed_seqs_range *list; /* by host, stream, first, once sorted */
    size_t n, cap;
    uint64_t unreadable; /* segments */
};

static void sealed_seqs_fini(struct sealed_seqs *x)
{
    mem_free(x->list);
    *x = (struct sealed_seqs){0};
}

struct adding {
    struct sealed_seqs *to;
    int64_t end_ns;
};

static enum err add_stream(void *ctx, const struct dedup_stream *st)
{
    const struct adding *a = ctx;
    struct sealed_seqs *x = a->to;

    enum err e = VEC_ROOM(&x->list, &x->cap, x->n + st->n_ranges, SIZE_MAX); /* of segments */

    if (e) {
        return e;
    }
    for (size_t i = 0; i < st->n_ranges; i++) {
        x->list[x->n++] =
            (struct sealed_seqs_range){st->host, st->stream, st->ranges[i], a->end_ns};
    }
    return ERR_OK;
}

/* Adds those of every segment of the kind that ends after since_ns. A segment that cannot be read
 * is counted. Errors: ERR_NOMEM */
static enum err sealed_seqs_add(struct sealed_seqs *x, const struct manifest_list *l, unsigned kind,
                                int64_t since_ns)
{
    size_t n = manifest_segments(l);

    for (size_t i = manifest_lower(l, kind, INT64_MIN); i < n; i++) {
        const struct seg_info *info = manifest_segment(l, i);
        struct adding a = {x, info->window_ns + info->span_ns};
        const struct seg *s;
        enum err e;

        if (info->kind != kind) {
            break;
        }
        if (a.end_ns <= since_ns) {
            continue;
        }
        e = manifest_seg(l, i, &s);
        if (!e) {
            e = seg_each_ranges(s, add_stream, &a);
        }
        if (e == ERR_NOMEM) {
            return e;
        }
        x->unreadable += e != ERR_OK;
    }
    return ERR_OK;
}

static int by_key(const void *a, const void *b)
{
    const struct sealed_seqs_range *x = a, *y = b;
    int c = memcmp(x->host.b, y->host.b, sizeof x->host.b);

    if (c) {
        return c;
    }
    if (x->stream != y->stream) {
        return x->stream < y->stream ? -1 : 1;
    }
    return x->at.first < y->at.first ? -1 : x->at.first > y->at.first;
}

/* One segment and another tell of the same numbers (tiers beside rows): neighbours are joined, so
 * that the last range that begins at or before a number is the only one that can hold it. */
static void sealed_seqs_sort(struct sealed_seqs *x)
{
    size_t k = 0;

    if (x->n == 0) {
        return;
    }
    qsort(x->list, x->n, sizeof *x->list, by_key);
    for (size_t i = 1; i < x->n; i++) {
        struct sealed_seqs_range *last = &x->list[k];
        const struct sealed_seqs_range *next = &x->list[i];

        if (last->stream == next->stream && next->at.first - 1 <= last->at.last &&
            memcmp(last->host.b, next->host.b, sizeof last->host.b) == 0) {
            last->at.last = next->at.last > last->at.last ? next->at.last : last->at.last;
            last->end_ns = next->end_ns > last->end_ns ? next->end_ns : last->end_ns;
        } else {
            x->list[++k] = *next;
        }
    }
    x->n = k + 1;
}

static bool is_of(const struct sealed_seqs_range *r, const struct uuid *host, uint64_t stream)
{
    return r->stream == stream && memcmp(r->host.b, host->b, sizeof host->b) == 0;
}

/* Index of the first range behind those of the stream that begin at or before seq. */
static size_t behind(const struct sealed_seqs *x, const struct uuid *host, uint64_t stream,
                     uint64_t seq)
{
    const struct sealed_seqs_range key = {*host, stream, {seq, seq}, 0};
    size_t i;

    SEARCH_LOWER(i, x->n, by_key(&x->list[i], &key) <= 0);
    return i;
}

/* As sealed_seqs_has; *last: up to which number that is the same. */
static bool sealed_seqs_span(const struct sealed_seqs *x, const struct uuid *host, uint64_t stream,
                             uint64_t seq, uint64_t *last)
{
    size_t i = behind(x, host, stream, seq);

    if (i > 0 && is_of(&x->list[i - 1], host, stream) && x->list[i - 1].at.last >= seq) {
        *last = x->list[i - 1].at.last;
        return true;
    }
    *last = i < x->n && is_of(&x->list[i], host, stream) ? x->list[i].at.first - 1 : UINT64_MAX;
    return false;
}

static bool sealed_seqs_has(const struct sealed_seqs *x, const struct uuid *host, uint64_t stream,
                            uint64_t seq)
{
    uint64_t last;

    return sealed_seqs_span(x, host, stream, seq, &last);
}

/* The highest number of the stream; 0: none. */
static uint64_t sealed_seqs_last(const struct sealed_seqs *x, const struct uuid *host,
                                 uint64_t stream)
{
    size_t i = behind(x, host, stream, UINT64_MAX);

    return i > 0 && is_of(&x->list[i - 1], host, stream) ? x->list[i - 1].at.last : 0;
}

#define FILE_BYTES   (64u << 20)
#define BATCH_MEMORY (64u << 20) /* of one, without its rows */

/* -- the log's checkpoint -- */

struct checkpoint {
    struct wal *wal;
    int64_t now_ns;
};

static enum err add_ranges(void *ctx, const struct dedup_stream *st)
{
    struct checkpoint *c = ctx;
    struct buf b;
    struct wal_record r = {.kind = WAL_RANGES,
                           .host = st->host,
                           .stream = st->stream,
                           .received_ns = st->used_ns,
                           .host_name = str_make("")};
    enum err e;

    buf_init(&b, DEDUP_RANGES_MAX * 16);
    dedup_encode(&b, st->ranges, st->n_ranges);
    r.bytes = b.p;
    r.n = b.n;
    e = b.bad ? b.bad : wal_add(c->wal, &r, c->now_ns, NULL);
    buf_fini(&b);
    return e;
}

static enum err write_checkpoint(void *ctx, struct wal *w, int64_t now_ns)
{
    struct store *s = ctx;
    struct checkpoint c = {w, now_ns};
    enum err e;

    os_mutex_lock(s->lock);
    e = dedup_each(s->seen, add_ranges, &c);
    os_mutex_unlock(s->lock);
    return e;
}

/* -- the log -- */

/* Log, segments and hosts being read. */
struct recovery {
    struct store *s;
    struct manifest_list *segments;
    struct sealed_seqs sealed;
    int64_t since_ns; /* of what ended later `sealed` knows */
    struct wire_decoder *decoder;
    struct buf note, record;
    struct arena memory; /* of one batch */
};

static enum err read_ranges(struct recovery *rec, int64_t since_ns);

/* Damage before this checkpoint: numbers it knows, of which neither an older file nor a segment
 * holds the batch, are those of lost batches. Without the first file's checkpoint older numbers
 * look the same, those of dropped segments: then only what came after the last sealed one is
 * told. `lost` has room for DEDUP_RANGES_MAX. */
static size_t find_lost(struct recovery *rec, const struct wal_record *r, struct seq_range in,
                        enum wal_trust trust, struct seq_range *lost, size_t n)
{
    const struct dedup *seen = rec->s->seen;
    uint64_t sealed_up_to = sealed_seqs_last(&rec->sealed, &r->host, r->stream);
    uint64_t at = in.first, *count = &rec->s->stats.lost_batches;

    if (trust == WAL_BASELESS) {
        if (sealed_up_to == 0 || sealed_up_to >= in.last) {
            return n;
        }
        at = sealed_up_to >= at ? sealed_up_to + 1 : at;
    }
    while (n < DEDUP_RANGES_MAX) {
        uint64_t seen_to, sealed_to, to;
        bool is_seen = dedup_span(seen, &r->host, r->stream, at, &seen_to);
        bool is_sealed = sealed_seqs_span(&rec->sealed, &r->host, r->stream, at, &sealed_to);

        to = is_seen ? seen_to : is_sealed ? sealed_to : seen_to < sealed_to ? seen_to : sealed_to;
        to = to < in.last ? to : in.last;
        if (!is_seen && !is_sealed) {
            lost[n++] = (struct seq_range){at, to};
            *count = ledger_add(*count, to - at + 1);
        }
        if (to == in.last) {
            break;
        }
        at = to + 1;
    }
    return n;
}

/* What the newest checkpoint says counts: it was written knowing what all files before it held,
 * and what they had lost. */
static enum err recover_ranges(struct recovery *rec, struct wal *w, const struct wal_record *r)
{
    struct seq_range ranges[DEDUP_RANGES_MAX], lost[DEDUP_RANGES_MAX];
    enum wal_trust trust = wal_trust(w);
    size_t n = 0, n_lost = 0;
    struct store *s = rec->s;
    enum err e = dedup_decode(ranges, &n, r->bytes, r->n);

    if (!e && trust != WAL_WHOLE && rec->since_ns > INT64_MIN) {
        e = read_ranges(rec, INT64_MIN);
    }
    if (!e) {
        e = dedup_open(s->seen, &r->host, r->stream, r->received_ns);
    }
    for (size_t i = 0; i < n && !e && trust != WAL_WHOLE; i++) {
        n_lost = find_lost(rec, r, ranges[i], trust, lost, n_lost);
    }
    if (!e) {
        e = dedup_set(s->seen, &r->host, r->stream, ranges, n);
    }
    for (size_t i = 0; i < n_lost && !e; i++) {
        dedup_remove(s->seen, &r->host, r->stream, lost[i]);
    }
    return e;
}

/* A batch that was read back, or recalled from the note of an index. */
struct recovered {
    const struct batch *batch;
    struct head_batch *kept; /* owned until the head has it */
};

/* Puts it into the head. */
static enum err recover_into_head(struct store *s, struct wal *w, uint64_t file,
                                  const struct wal_record *r, struct recovered *x)
{
    char name[MODEL_HOST_NAME_MAX + 1];
    struct dedup_counts *counts = dedup_counts_ref(s->seen, &r->host);
    struct head_batch *kept = x->kept;
    struct head_host *host;
    enum err e;

    kept->stream = r->stream;
    kept->seq = r->seq;
    kept->t0_ns = r->t0_ns;
    kept->t1_ns = r->t1_ns;
    kept->received_ns = r->received_ns;
    kept->clock = r->clock;
    kept->made_ns = batch_time_made(r->t1_ns, &r->clock, r->received_ns);
    kept->window_ns = window_of(kept->made_ns);
    kept->file = file;
    snprintf(name, sizeof name, "%.*s", (int)r->host_name.n, r->host_name.p);
    e = loss_sum_told_make(&kept->told, &kept->told_n, x->batch);
    if (!e) {
        e = head_reserve(s->head, &host, name, x->batch, counts, kept);
    }
    if (e) {
        dedup_counts_unref(counts);
        return e;
    }
    wal_hold(w, file);
    head_append(s->head, host, x->batch, kept);
    x->kept = NULL;
    s->stats.recovered_batches++;
    return ERR_OK;
}

/* As the index says it; the batch itself stays in the log. ERR_CORRUPT: the note does not say it,
 * the record has to be read. */
static enum err recover_by_note(struct recovery *rec, struct wal *w, uint64_t file,
                                const struct wal_record *r)
{
    struct recovered x = {.kept = NULL};
    struct head_batch_note recall;
    enum err e;

    arena_reset(&rec->memory);
    e = head_batch_note_get(&recall, &rec->memory, &r->host, r->note, r->note_n);
    if (e) {
        return e == ERR_NOMEM ? e : ERR_CORRUPT;
    }
    e = head_batch_create_at(&x.kept, r);
    if (!e) {
        x.batch = recall.batch;
        x.kept->memory = recall.memory;
        x.kept->alive = recall.alive;
        x.kept->has_events = recall.batch->n_events > 0;
        e = recover_into_head(rec->s, w, file, r, &x);
    }
    head_batch_destroy(x.kept);
    return e;
}

static enum err note_for_index(struct recovery *rec, struct wal *w, const struct recovered *x)
{
    enum err e;

    buf_reset(&rec->note);
    e = head_batch_note_put(&rec->note, x->batch, x->kept);
    if (!e) {
        wal_note(w, rec->note.n ? rec->note.p : (const void *)"", rec->note.n);
    }
    return e;
}

/* From its bytes, which the log's checksum vouches for. */
static enum err recover_by_bytes(struct recovery *rec, struct wal *w, uint64_t file,
                                 const struct wal_record *r)
{
    struct recovered x = {.kept = NULL};
    struct batch *b;
    enum err e = wire_batch_decode_next(rec->decoder, &b, 0, r->bytes, r->n);

    if (e) {
        return e == ERR_NOMEM ? e : ERR_CORRUPT;
    }
    e = memcmp(b->head.host.b, r->host.b, sizeof r->host.b) == 0
            ? head_batch_create(&x.kept, r->bytes, r->n)
            : ERR_CORRUPT;
    if (!e) {
        x.batch = b;
        x.kept->received_ns = r->received_ns;
        x.kept->clock = r->clock;
        head_batch_describe(x.kept, b);
        e = note_for_index(rec, w, &x);
    }
    if (!e) {
        e = recover_into_head(rec->s, w, file, r, &x);
    }
    head_batch_destroy(x.kept);
    wire_batch_free(b);
    return e;
}

/* Of an index whose note is of no use. */
static enum err recover_from_place(struct recovery *rec, struct wal *w, uint64_t file,
                                   const struct wal_record *r)
{
    struct wal_record whole;
    enum err e = wal_source_read(r->from, r->at, r->size, &rec->record, &whole);

    return e ? e : recover_by_bytes(rec, w, file, &whole);
}

static enum err recover_unsealed(struct recovery *rec, struct wal *w, uint64_t file,
                                 const struct wal_record *r)
{
    enum err e;

    if (r->bytes) {
        return recover_by_bytes(rec, w, file, r);
    }
    e = recover_by_note(rec, w, file, r);
    return e == ERR_CORRUPT ? recover_from_place(rec, w, file, r) : e;
}

/* What came very late, or under a higher limit on age, is older than what was read. */
static enum err reach_back(struct recovery *rec, const struct wal_record *r)
{
    int64_t made_ns = batch_time_made(r->t1_ns, &r->clock, r->received_ns);

    return clk_add(window_of(made_ns), WINDOW_NS) > rec->since_ns ? ERR_OK
                                                                  : read_ranges(rec, INT64_MIN);
}

static enum err recover_batch(struct recovery *rec, struct wal *w, uint64_t file,
                              const struct wal_record *r)
{
    struct store *s = rec->s;
    struct seq_range one = {r->seq, r->seq};
    enum err e;

    if (r->seq == 0) {
        return ERR_CORRUPT;
    }
    if (dedup_has(s->seen, &r->host, r->stream, r->seq)) {
        store_count_duplicate(s, &r->host);
        wal_note(w, "", 0);
        return ERR_OK;
    }
    s->newest_ns = r->received_ns > s->newest_ns ? r->received_ns : s->newest_ns;
    e = dedup_open(s->seen, &r->host, r->stream, r->received_ns);
    if (!e) {
        e = dedup_add(s->seen, &r->host, r->stream, one);
    }
    if (e) {
        return e;
    }
    e = reach_back(rec, r);
    if (e) {
        return e;
    }
    if (sealed_seqs_has(&rec->sealed, &r->host, r->stream, r->seq)) {
        s->stats.recovered_sealed++;
        wal_note(w, "", 0);
        return ERR_OK;
    }
    return recover_unsealed(rec, w, file, r);
}

static enum err recover_record(void *ctx, struct wal *w, uint64_t file, const struct wal_record *r)
{
    struct store *s = ctx;

    return r->kind == WAL_RANGES ? recover_ranges(s->recovery, w, r)
                                 : recover_batch(s->recovery, w, file, r);
}

static void tell_damaged(void *ctx, const struct wal_damage *d)
{
    struct store *s = ctx;

    s->conf.on_damaged_log(s->conf.ctx, d);
}

static void tell_progress(void *ctx, uint64_t done_bytes, uint64_t total_bytes)
{
    struct store *s = ctx;

    s->conf.on_progress(s->conf.ctx, done_bytes, total_bytes);
}

static enum err make_dir(char **out, const struct store *s, const char *name, struct errmsg *why)
{
    char *dir = os_path_join(s->conf.dir, name);
    enum err e = dir ? os_mkdirs(dir, true) : ERR_NOMEM;

    if (e) {
        errmsg_set(why, e, "cannot make %s: %s", dir ? dir : s->conf.dir, err_text(e));
        mem_free(dir);
        return e;
    }
    *out = dir;
    return ERR_OK;
}

static enum err open_log(struct store *s, struct errmsg *why)
{
    struct wal_conf conf = {
        .fio = s->conf.fio,
        .window_ns = WINDOW_NS,
        .file_bytes = FILE_BYTES,
        .checkpoint = write_checkpoint,
        .replay = recover_record,
        .progress = s->conf.on_progress ? tell_progress : NULL,
        .damaged = s->conf.on_damaged_log ? tell_damaged : NULL,
        .ctx = s,
    };
    char *dir;
    enum err e = make_dir(&dir, s, "wal", why);

    if (e) {
        return e;
    }
    conf.dir = dir;
    e = wal_open(&s->wal, &conf, why);
    mem_free(dir);
    return e;
}

/* -- segments and hosts -- */

static enum err open_manifest(struct store *s, struct errmsg *why)
{
    struct manifest_conf conf = {.fio = s->conf.fio};
    enum err e = make_dir(&s->segments_dir, s, "segments", why);

    if (e) {
        return e;
    }
    conf.dir = s->segments_dir;
    return manifest_open(&s->manifest, &conf, why);
}

/* What the log can hold of what is sealed was made after this. */
static int64_t recent_ns(const struct recovery *rec)
{
    int64_t newest_ns = INT64_MIN;

    for (size_t i = 0; i < manifest_segments(rec->segments); i++) {
        const struct seg_info *info = manifest_segment(rec->segments, i);

        newest_ns = info->window_ns > newest_ns ? info->window_ns : newest_ns;
    }
    return clk_sub(newest_ns, rec->s->conf.accept_age_ns);
}

/* Rest segments reach back furthest as a rule; what only others still have counts too. */
static enum err read_ranges(struct recovery *rec, int64_t since_ns)
{
    static const unsigned kinds[] = {SEG_REST, SEG_RAW, SEG_10S, SEG_1MIN, SEG_1H, SEG_PROVIDER};
    size_t rest = manifest_lower(rec->segments, SEG_REST, INT64_MIN);
    int64_t rest_ns = INT64_MAX;
    enum err e = ERR_OK;

    if (rest < manifest_segments(rec->segments) &&
        manifest_segment(rec->segments, rest)->kind == SEG_REST) {
        rest_ns = manifest_segment(rec->segments, rest)->window_ns;
    }
    sealed_seqs_fini(&rec->sealed);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !e; i++) {
        if (i == 0 || rest_ns > since_ns) {
            e = sealed_seqs_add(&rec->sealed, rec->segments, kinds[i], since_ns);
        }
    }
    sealed_seqs_sort(&rec->sealed);
    rec->since_ns = since_ns;
    rec->s->stats.unreadable_segments = rec->sealed.unreadable;
    return e;
}

static bool has_segment(void *ctx, uint64_t number)
{
    const struct recovery *rec = ctx;

    for (size_t i = 0; i < manifest_segments(rec->segments); i++) {
        if (manifest_segment(rec->segments, i)->number == number) {
            return true;
        }
    }
    return false;
}

/* A host as segments know it: the file of hosts is lost. */
static enum err restore_from_segment(struct store *s, const struct seg *seg)
{
    const struct seg_info *info = seg_info_of(seg);
    enum err e = ERR_OK;

    for (size_t i = 0; i < seg_hosts(seg) && !e; i++) {
        const struct seg_host *h = seg_host(seg, i);
        struct head_record r = {.id = h->id, .first_ns = INT64_MAX};

        snprintf(r.name, sizeof r.name, "%s", h->name);
        for (unsigned w = 0; w < info->n_windows; w++) {
            if (h->at[w].t1_ns < h->at[w].t0_ns) {
                continue;
            }
            r.first_ns = h->at[w].t0_ns < r.first_ns ? h->at[w].t0_ns : r.first_ns;
            r.last_ns = h->at[w].t1_ns > r.last_ns ? h->at[w].t1_ns : r.last_ns;
            r.made_ns = seg_window(seg, w);
        }
        r.received_ns = r.made_ns;
        e = r.first_ns == INT64_MAX ? ERR_OK : head_restore(s->head, &r, NULL);
    }
    return e;
}

static enum err restore_from_segments(struct recovery *rec)
{
    size_t n = manifest_segments(rec->segments);
    enum err e = ERR_OK;

    for (size_t i = 0; i < n && !e; i++) {
        const struct seg *seg;

        e = manifest_seg(rec->segments, i, &seg);
        if (e && e != ERR_NOMEM) {
            e = ERR_OK; /* counted by the manifest */
            continue;
        }
        if (!e) {
            e = restore_from_segment(rec->s, seg);
        }
    }
    return e;
}

static enum err restore_hosts(struct recovery *rec, struct errmsg *why)
{
    struct store *s = rec->s;
    struct head_record *list = NULL;
    size_t n = 0;
    enum err e = hosts_read(s->conf.fio, s->conf.dir, has_segment, rec, &list, &n);

    if (e == ERR_CORRUPT || (e == ERR_OK && n == 0)) {
        s->stats.lost_hosts_file = e == ERR_CORRUPT;
        mem_free(list);
        list = NULL;
        e = restore_from_segments(rec);
    }
    for (size_t i = 0; i < n && !e && list; i++) {
        e = head_restore(s->head, &list[i], NULL);
    }
    mem_free(list);
    return e ? errmsg_set(why, e, "cannot read the hosts in %s: %s", s->conf.dir, err_text(e))
             : ERR_OK;
}

/* The log has every number ever seen; where it is lost, segments have them. */
static enum err remember_sealed(struct recovery *rec)
{
    struct store *s = rec->s;
    enum err e = ERR_OK;

    for (size_t i = 0, next; i < rec->sealed.n && !e; i = next) {
        const struct uuid *host = &rec->sealed.list[i].host;
        struct dedup_counts *known = dedup_counts_ref(s->seen, host);

        for (next = i; next < rec->sealed.n && !e &&
                       memcmp(rec->sealed.list[next].host.b, host->b, sizeof host->b) == 0;
             next++) {
            const struct sealed_seqs_range *r = &rec->sealed.list[next];

            if (!known) {
                e = dedup_open(s->seen, host, r->stream, r->end_ns);
            }
            if (!known && !e) {
                e = dedup_add(s->seen, host, r->stream, r->at);
            }
        }
        dedup_counts_unref(known);
    }
    return e;
}

static struct dedup_counts *counts_of(void *ctx, const struct uuid *id)
{
    return dedup_counts_ref(((struct store *)ctx)->seen, id);
}

static enum err recover_all(struct recovery *rec, struct errmsg *why)
{
    struct store *s = rec->s;
    enum err e = read_ranges(rec, recent_ns(rec));

    if (e) {
        return errmsg_set(why, e, "cannot read the segments of %s: %s", s->conf.dir, err_text(e));
    }
    e = restore_hosts(rec, why);
    if (e) {
        return e;
    }
    s->recovery = rec;
    e = open_log(s, why);
    s->recovery = NULL;
    if (e) {
        return e;
    }
    e = remember_sealed(rec);
    if (!e) {
        head_begins(s->head, seal_begins(rec->segments));
        head_take_counts(s->head, counts_of, s);
        e = head_prepare(s->head);
    }
    return e ? errmsg_set(why, e, "out of memory") : ERR_OK;
}

/* Derived data: without it answers know fewer names. */
void store_recover_catalogue(struct store *s, struct manifest_list *segments)
{
    struct catalogue_conf conf = {.dir = os_path_join(s->conf.dir, "catalogue")};
    struct catalogue *c = NULL;
    struct errmsg why;
    bool opened = conf.dir && catalogue_open(&c, &conf, segments, &why) == ERR_OK;

    mem_free((char *)conf.dir);
    os_mutex_lock(s->lock);
    s->stats.no_catalogue = !opened;
    os_mutex_unlock(s->lock);
    if (opened) {
        s->catalogue = c;
    }
}

enum err store_recover(struct store *s, struct errmsg *why)
{
    struct recovery rec = {.s = s};
    enum err e = open_manifest(s, why);

    if (e) {
        return e;
    }
    buf_init(&rec.note, WAL_BYTES_MAX);
    buf_init(&rec.record, WAL_RECORD_MAX);
    arena_init(&rec.memory, BATCH_MEMORY);
    rec.segments = manifest_view(s->manifest);
    e = rec.segments && wire_batch_decoder_create(&rec.decoder) == ERR_OK
            ? recover_all(&rec, why)
            : errmsg_set(why, ERR_NOMEM, "out of memory");
    if (!e) {
        head_publish(s->head);
        store_recover_catalogue(s, rec.segments);
    }
    sealed_seqs_fini(&rec.sealed);
    manifest_list_release(rec.segments);
    wire_batch_decoder_destroy(rec.decoder);
    arena_fini(&rec.memory);
    buf_fini(&rec.record);
    buf_fini(&rec.note);
    return e;
}
