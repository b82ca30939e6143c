#include "agent/spool/spool_disk.h"

#include <assert.h>
#include <string.h>

#include "agent/spool/spool_files.h"
#include "common/base/cur.h"
#include "common/base/mem.h"
#include "common/os/fio.h"
#include "common/os/os.h"

#define SEGMENT_MIN (64u << 10)
#define SEGMENT_MAX (8u << 20)
#define SEGMENTS    16u   /* so many at least, */
#define FILES_MAX   8192u /* and never more */

#define MARK_BYTES   40u /* magic, version, stream, last_seq, memory_ns, checksum of these */
#define MARK_VERSION 1u

static const char mark_magic[4] = {'P', 'F', 'S', 'M'};

static uint64_t segment_bytes(uint64_t max_bytes)
{
    uint64_t n = max_bytes / SEGMENTS;

    n = n > SEGMENT_MAX ? SEGMENT_MAX : n;
    n = n < SEGMENT_MIN ? SEGMENT_MIN : n;
    return max_bytes / n > FILES_MAX / 2 ? max_bytes / (FILES_MAX / 2) : n;
}

/* -- the mark -- */

/* The file `mark`: which stream and number were the last to become durable, and since when memory
 * alone holds something older. Written after each commit and never synced: a kill leaves it in the
 * page cache, and what loss of power takes of it makes it say less, never more. When it says more
 * than the segments do, these have lost records that had been durable, and that may be stored by
 * the collector. Were their numbers given again, new batches would be taken for old ones and be
 * lost: so a new stream begins. Without a usable mark a torn end alone is taken for such a loss. */
static enum err mark_open(struct spool_disk *d)
{
    const struct fio *fio = d->conf.fio;
    char *path = os_path_join(d->dir, SPOOL_MARK_NAME);
    enum err e = path ? fio->open(fio->ctx, &d->mark, path) : ERR_NOMEM;

    if (e == ERR_NOTFOUND) {
        e = fio->create(fio->ctx, &d->mark, path);
    }
    mem_free(path);
    if (e) {
        d->mark = NULL;
    }
    return e;
}

static void mark_close(struct spool_disk *d)
{
    if (d->mark) {
        d->conf.fio->close(d->conf.fio->ctx, d->mark);
        d->mark = NULL;
    }
}

static void mark_write(struct spool_disk *d)
{
    const struct fio *fio = d->conf.fio;
    struct buf b;

    if (!d->mark && mark_open(d)) {
        return;
    }
    buf_init(&b, MARK_BYTES);
    buf_put(&b, mark_magic, sizeof mark_magic);
    buf_put_u32le(&b, MARK_VERSION);
    buf_put_u64le(&b, d->stream);
    buf_put_u64le(&b, d->next_seq - 1);
    buf_put_u64le(&b, (uint64_t)d->memory_ns);
    reclog_seal(&b, 0, 0);
    if (b.bad || fio->write(fio->ctx, d->mark, 0, b.p, b.n)) {
        mark_close(d);
    }
    buf_fini(&b);
}

/* False: there is none, or none that can be believed. */
static bool mark_read(struct spool_disk *d, uint64_t *stream, uint64_t *last_seq,
                      int64_t *memory_ns)
{
    uint8_t bytes[MARK_BYTES];
    struct cur c = cur_make(bytes, sizeof bytes);
    size_t got = 0;
    bool known;

    if (mark_open(d) ||
        d->conf.fio->read(d->conf.fio->ctx, d->mark, 0, bytes, sizeof bytes, &got) ||
        got < sizeof bytes || memcmp(bytes, mark_magic, sizeof mark_magic) != 0) {
        return false;
    }
    cur_skip(&c, sizeof mark_magic);
    known = cur_u32le(&c) == MARK_VERSION;
    *stream = cur_u64le(&c);
    *last_seq = cur_u64le(&c);
    *memory_ns = (int64_t)cur_u64le(&c);
    return reclog_is_sealed(&c, bytes, 0) && known;
}

static enum err mark_check(struct spool_disk *d)
{
    uint64_t stream, last_seq;
    int64_t memory_ns;
    bool reused;

    if (mark_read(d, &stream, &last_seq, &memory_ns)) {
        if (memory_ns && memory_ns < d->stats.newest_ns) {
            d->stats.newest_ns = memory_ns;
        }
        reused = stream != d->stream || last_seq >= d->next_seq;
        d->stats.forgotten += stream == d->stream && reused ? last_seq - d->next_seq + 1 : 0;
    } else {
        reused = d->stats.torn_bytes > 0;
    }
    if (!reused) {
        return ERR_OK;
    }
    d->next_seq = 1;
    return os_random(&d->stream, sizeof d->stream);
}

/* -- open, close -- */

enum err spool_disk_open(struct spool_disk **out, const struct spool_disk_conf *conf,
                         struct errmsg *why)
{
    struct spool_disk *d = mem_zalloc(sizeof *d);
    enum err e = ERR_NOMEM;

    if (!d) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    d->conf = *conf;
    d->segment_bytes = segment_bytes(conf->max_bytes);
    d->next_seq = 1;
    buf_init(&d->commit, SPOOL_COMMIT_MAX + SPOOL_BATCH_MAX + SPOOL_HEADER_BYTES * 2);
    buf_init(&d->scratch, SPOOL_BATCH_MAX);
    buf_init(&d->reduced, SPOOL_BATCH_MAX);
    d->dir = mem_strdup(conf->dir);
    d->out = (struct reclog_writer){
        .fio = conf->fio, .dir = d->dir, .prefix = SPOOL_PREFIX, .suffix = SPOOL_SUFFIX};
    if (d->dir) {
        e = wire_batch_encoder_create(&d->encoder);
    }
    if (!e) {
        e = os_random(&d->stream, sizeof d->stream); /* an older one is found by recovery */
    }
    if (e) {
        errmsg_set(why, e, "cannot set up the spool: %s", err_text(e));
        goto fail;
    }
    e = spool_files_recover(d, why);
    if (!e && d->n_files > 0) {
        e = mark_check(d);
    }
    if (e) {
        goto fail;
    }
    *out = d;
    return ERR_OK;

fail:
    spool_disk_close(d);
    return e;
}

void spool_disk_close(struct spool_disk *d)
{
    if (!d) {
        return;
    }
    spool_files_unread(d);
    mark_close(d);
    reclog_writer_close(&d->out);
    buf_fini(&d->commit);
    buf_fini(&d->scratch);
    buf_fini(&d->reduced);
    wire_batch_encoder_destroy(d->encoder);
    mem_free(d->files);
    mem_free(d->dir);
    mem_free(d);
}

uint64_t spool_disk_stream(const struct spool_disk *d)
{
    return d->stream;
}

uint64_t spool_disk_next_seq(const struct spool_disk *d)
{
    return d->next_seq;
}

void spool_disk_stats(const struct spool_disk *d, struct spool_disk_stats *out)
{
    *out = d->stats;
    out->segments = d->n_files;
    for (size_t i = 0; i < d->n_files; i++) {
        out->bytes += d->files[i].bytes;
    }
}

/* -- writing -- */

void spool_disk_renew(struct spool_disk *d, uint64_t stream, uint64_t seq)
{
    reclog_writer_close(&d->out);
    d->stream = stream;
    d->next_seq = seq;
}

void spool_disk_memory(struct spool_disk *d, int64_t since_ns)
{
    d->memory_ns = since_ns;
}

/* The commit begins a file. */
static enum err commit_begin_file(struct spool_disk *d)
{
    enum err e = spool_files_room(d);

    d->coming = (struct spool_file){.newest_ns = INT64_MAX};
    if (!e) {
        e = os_random(&d->coming.seed, sizeof d->coming.seed);
    }
    if (e) {
        return e;
    }
    reclog_writer_close(&d->out);
    d->fresh = true;
    d->coming.number = d->next_number;
    d->coming.stream = d->stream;
    d->coming.first_seq = d->next_seq;
    d->coming.last_seq = d->next_seq - 1;
    d->coming.begin = SPOOL_HEADER_BYTES;
    d->coming.detail = SPOOL_WHOLE;
    spool_segment_put_header(&d->commit, &(struct spool_header){.number = d->coming.number,
                                                                .stream = d->stream,
                                                                .first_seq = d->next_seq,
                                                                .seed = d->coming.seed});
    return d->commit.bad;
}

static enum err commit_begin(struct spool_disk *d, size_t n)
{
    if (d->out.f) {
        d->coming = d->files[d->n_files - 1];
        if (d->coming.bytes + n <= d->segment_bytes) {
            return ERR_OK;
        }
    }
    return commit_begin_file(d);
}

static void commit_forget(struct spool_disk *d)
{
    buf_reset(&d->commit);
    d->fresh = false;
    d->next_seq -= d->commit_n;
    d->commit_n = d->commit_bytes = 0;
}

enum err spool_disk_add(struct spool_disk *d, int64_t when_ns, const void *p, size_t n)
{
    size_t before;
    enum err e = ERR_OK;

    if (n > SPOOL_BATCH_MAX) {
        return ERR_INVALID;
    }
    if (d->commit_n == 0) {
        buf_reset(&d->commit);
        d->fresh = false;
        e = commit_begin(d, n);
    }
    before = d->commit.n;
    if (!e) {
        spool_segment_put_record(&d->commit, d->coming.seed, d->next_seq, when_ns, p, n);
        e = d->commit.bad;
    }
    if (e) {
        d->commit.n = before;
        d->commit.bad = ERR_OK;
        return e;
    }
    d->coming.last_seq = d->next_seq++;
    d->coming.newest_ns = when_ns;
    d->commit_n++;
    d->commit_bytes += n;
    return ERR_OK;
}

size_t spool_disk_waiting(const struct spool_disk *d)
{
    return d->commit_n ? d->commit.n : 0;
}

static enum err commit_write(struct spool_disk *d)
{
    return reclog_commit(&d->out, d->fresh ? d->coming.number : 0, &d->commit);
}

/* What may have reached the disk must not be found there again, as well as that still goes. */
static void commit_undo(struct spool_disk *d)
{
    reclog_undo(&d->out);
    if (d->out.f) {
        err_ignore(d->conf.fio->sync(d->conf.fio->ctx, d->out.f));
    }
    if (d->out.f && d->fresh) {
        reclog_discard(&d->out);
    }
    reclog_writer_close(&d->out);
    commit_forget(d);
}

static void commit_done(struct spool_disk *d)
{
    d->newest.number = d->coming.number;
    d->newest.at = d->fresh ? d->coming.begin : d->coming.bytes;
    d->newest_ns = d->coming.newest_ns;
    d->coming.bytes += d->commit.n;
    if (d->fresh) {
        d->next_number++;
        d->n_files++;
    }
    d->files[d->n_files - 1] = d->coming;
    d->out.bytes = d->coming.bytes;
    d->stats.commits++;
    d->stats.batches += d->commit_n;
    d->stats.held += d->commit_n;
    d->stats.held_bytes += d->commit_bytes;
    d->commit_n = d->commit_bytes = 0;
    buf_reset(&d->commit);
    d->fresh = false;
    mark_write(d);
    if (!d->live_set) {
        d->live = d->newest;
        d->live_set = true;
    }
}

enum err spool_disk_commit(struct spool_disk *d)
{
    enum err e;

    if (d->commit_n == 0) {
        return ERR_OK;
    }
    assert(d->next_seq == d->coming.last_seq + 1 &&
           d->commit_n <= d->next_seq - d->coming.first_seq);
    spool_files_shrink(d, d->commit.n);
    e = commit_write(d);
    if (e) {
        commit_undo(d);
    } else {
        commit_done(d);
    }
    return e;
}

enum err spool_disk_probe(struct spool_disk *d, uint64_t bytes)
{
    static const uint8_t some[4096];
    const struct fio *fio = d->conf.fio;
    char *path = spool_files_path(d, 0, ".tmp");
    struct fio_file *f;
    enum err e = path ? ERR_OK : ERR_NOMEM;

    if (!e) {
        e = fio->create(fio->ctx, &f, path);
    }
    if (e) {
        mem_free(path);
        return e;
    }
    for (uint64_t at = 0; !e && at < bytes && at < SPOOL_COMMIT_MAX; at += sizeof some) {
        e = fio->write(fio->ctx, f, at, some, sizeof some);
    }
    if (!e) {
        e = fio->sync(fio->ctx, f);
    }
    fio->close(fio->ctx, f);
    spool_files_discard(d, path);
    mem_free(path);
    return e;
}

/* -- reading -- */

/* The file the cursor is in; NULL: behind the last one. */
static struct spool_file *cursor_file(struct spool_disk *d, struct spool_cursor *c)
{
    for (size_t i = 0; i < d->n_files; i++) {
        struct spool_file *f = &d->files[i];

        if (f->number < c->number) {
            continue;
        }
        if (f->number > c->number || c->at < f->begin) {
            *c = (struct spool_cursor){f->number, f->begin};
        }
        return f;
    }
    return NULL;
}

/* The first record from the cursor on that is not done; the cursor comes to stand at it.
 * Errors: ERR_END, ERR_NOMEM */
static enum err cursor_seek(struct spool_disk *d, struct spool_cursor *c,
                            const struct spool_file **file, struct spool_record *r)
{
    struct spool_file *f;

    while ((f = cursor_file(d, c)) != NULL) {
        struct spool_segment view;
        enum err e = spool_files_view(d, f, &view);
        uint64_t damaged = 0;

        if (!e) {
            e = spool_segment_next(&view, &c->at, r, &damaged);
        }
        if (e == ERR_END && f == &d->files[d->n_files - 1]) {
            return ERR_END; /* more may come */
        }
        d->stats.unreadable += damaged;
        if (e == ERR_NOMEM) {
            return e;
        }
        if (!e && !spool_files_is_done(d, f->stream, r->seq)) {
            *file = f;
            return ERR_OK;
        }
        if (!e) {
            c->at = spool_segment_end(c->at, r);
            continue;
        }
        d->stats.unreadable += e != ERR_END;
        *c = (struct spool_cursor){f->number + 1, 0};
    }
    return ERR_END;
}

/* Ranges that touch become one, so that numbers done out of order leave no more behind than others.
 */
static void ranges_add(struct spool_disk *d, uint64_t stream, uint64_t seq)
{
    struct spool_range *before = NULL, *behind = NULL;

    for (size_t i = 0; i < d->n_ranges; i++) {
        struct spool_range *x = &d->ranges[i];

        if (x->stream == stream && x->last + 1 == seq) {
            before = x;
        } else if (x->stream == stream && seq + 1 == x->first) {
            behind = x;
        }
    }
    if (before && behind) {
        before->last = behind->last;
        *behind = d->ranges[--d->n_ranges];
        before = before == &d->ranges[d->n_ranges] ? behind : before; /* it was the one moved */
    } else if (before) {
        before->last = seq;
    } else if (behind) {
        behind->first = seq;
        before = behind;
    } else if (d->n_ranges < SPOOL_RANGES_MAX) {
        before = &d->ranges[d->n_ranges++];
        *before = (struct spool_range){.stream = stream, .first = seq, .last = seq};
    }
    if (before) {
        before->number = d->next_number;
    }
}

/* `back` moves to what is next to do; files behind it go, and ranges it has passed. */
static void ranges_settle(struct spool_disk *d)
{
    const struct spool_file *f = NULL;
    struct spool_record r = {0};
    enum err e = cursor_seek(d, &d->back, &f, &r);
    size_t kept = 0;

    if (e == ERR_NOMEM) {
        return;
    }
    for (size_t i = 0; i < d->n_ranges; i++) {
        struct spool_range *x = &d->ranges[i];
        bool passed = f && (x->stream == f->stream ? x->last < r.seq : x->number < f->number);

        if (!passed) {
            d->ranges[kept++] = *x;
        }
    }
    d->n_ranges = kept;
    while (d->n_files > 1 && d->files[0].number < d->back.number) {
        spool_files_remove(d, 0);
    }
}

void spool_disk_tidy(struct spool_disk *d)
{
    const struct spool_file *f;
    struct spool_record r;

    if (d->n_files == 0 || d->commit_n > 0 || cursor_seek(d, &d->back, &f, &r) != ERR_END ||
        d->files[d->n_files - 1].last_seq < d->files[d->n_files - 1].first_seq) {
        return;
    }
    buf_reset(&d->commit);
    if (commit_begin_file(d) || commit_write(d)) {
        commit_undo(d);
        return;
    }
    commit_done(d);
    while (d->n_files > 1) {
        spool_files_remove(d, 0);
    }
}

/* As cursor_seek, but *at comes to stand behind what is in flight; the cursor itself does not pass
 * that. */
static enum err cursor_seek_free(struct spool_disk *d, struct spool_cursor *c,
                                 struct spool_cursor *at, const struct spool_file **file,
                                 struct spool_record *r)
{
    enum err e = cursor_seek(d, c, file, r);

    *at = *c;
    while (!e && spool_files_inflight(d, (*file)->stream, r->seq)) {
        at->at = spool_segment_end(at->at, r);
        e = cursor_seek(d, at, file, r);
    }
    return e;
}

/* Where to take from: `live` while it is its turn, begun anew when it is far behind. */
static enum err cursor_choose(struct spool_disk *d, struct spool_cursor *from,
                              const struct spool_file **f, struct spool_record *r)
{
    const struct spool_file *live_file;
    struct spool_record live_record;
    struct spool_cursor live;
    enum err e = cursor_seek_free(d, &d->back, from, f, r), e_live;

    if (e || !d->live_set || !d->live_turn) {
        d->live_turn = true;
        return e;
    }
    d->live_turn = false;
    if (d->live.number < d->back.number ||
        (d->live.number == d->back.number && d->live.at < d->back.at)) {
        d->live = d->back;
    }
    e_live = cursor_seek_free(d, &d->live, &live, &live_file, &live_record);
    if (!e_live && d->newest_ns - live_record.when_ns > SPOOL_LIVE_LAG_NS &&
        d->n_ranges + SPOOL_INFLIGHT_MAX < SPOOL_RANGES_MAX) {
        d->live = d->newest;
        e_live = cursor_seek_free(d, &d->live, &live, &live_file, &live_record);
    }
    if (e_live == ERR_OK) {
        *from = live;
        *f = live_file;
        *r = live_record;
    }
    return ERR_OK;
}

enum err spool_disk_next(struct spool_disk *d, struct buf *content, struct spool_taken *out)
{
    if (d->n_inflight == SPOOL_INFLIGHT_MAX) {
        return ERR_FULL;
    }
    for (;;) {
        const struct spool_file *f;
        struct spool_segment view;
        struct spool_cursor from;
        struct spool_record r;
        enum err e = cursor_choose(d, &from, &f, &r);

        if (e) {
            return e;
        }
        e = spool_files_view(d, f, &view);
        if (!e) {
            e = spool_segment_read(&view, from.at, &r, content);
        }
        if (e == ERR_NOMEM) {
            return e;
        }
        *out = (struct spool_taken){f->stream, r.seq, content->p, r.n};
        if (!e) {
            assert(!spool_files_inflight(d, f->stream, r.seq));
            d->inflight[d->n_inflight++] =
                (struct spool_inflight){.stream = f->stream, .seq = r.seq};
            return ERR_OK;
        }
        d->stats.unreadable++;
        spool_disk_ack(d, out);
    }
}

static void inflight_count_ack(struct spool_disk *d, size_t n)
{
    d->stats.held -= d->stats.held > 0;
    d->stats.held_bytes -= d->stats.held_bytes < n ? d->stats.held_bytes : n;
}

/* Whether its file was gone. */
static bool inflight_end(struct spool_disk *d, const struct spool_taken *t)
{
    struct spool_inflight *hand = spool_files_inflight(d, t->stream, t->seq);
    bool gone = hand && hand->gone;

    if (hand) {
        *hand = d->inflight[--d->n_inflight];
    }
    return gone;
}

void spool_disk_return(struct spool_disk *d, const struct spool_taken *t)
{
    if (inflight_end(d, t)) {
        spool_batch_count(&d->stats.dropped, t->p, t->n);
        inflight_count_ack(d, t->n);
    }
}

void spool_disk_ack(struct spool_disk *d, const struct spool_taken *t)
{
    const struct spool_file *f;
    struct spool_record r;

    (void)inflight_end(d, t);
    inflight_count_ack(d, t->n);
    if (cursor_seek(d, &d->back, &f, &r) == ERR_OK && f->stream == t->stream && r.seq == t->seq) {
        d->back.at = spool_segment_end(d->back.at, &r);
    }
    if (d->live_set && cursor_seek(d, &d->live, &f, &r) == ERR_OK && f->stream == t->stream &&
        r.seq == t->seq) {
        d->live.at = spool_segment_end(d->live.at, &r);
    }
    ranges_add(d, t->stream, t->seq);
    ranges_settle(d);
}

size_t spool_disk_ack_upto(struct spool_disk *d, uint64_t stream, uint64_t last_seq)
{
    const struct spool_file *f;
    struct spool_record r;
    size_t n = 0;

    while (cursor_seek(d, &d->back, &f, &r) == ERR_OK && f->stream == stream && r.seq <= last_seq) {
        inflight_count_ack(d, r.n);
        d->back.at = spool_segment_end(d->back.at, &r);
        n++;
    }
    ranges_settle(d);
    return n;
}

void spool_disk_expire(struct spool_disk *d, int64_t now_ns)
{
    size_t kept = d->out.f ? 1 : 0;

    while (d->n_files > kept && d->files[0].newest_ns < now_ns - d->conf.max_age_ns) {
        spool_files_drop(d, 0, &d->stats.expired);
    }
}

/* -- whose batches they are -- */

/* The host of the file's first sound batch; false: there is none, or it cannot be read. */
static bool owner_read_host(struct spool_disk *d, const struct spool_file *f, struct uuid *out)
{
    uint64_t at = SPOOL_HEADER_BYTES, damaged = 0;
    struct spool_segment view;
    struct spool_record r;
    enum err e = spool_files_view(d, f, &view);

    while (!e) {
        struct batch *b;

        e = spool_segment_next(&view, &at, &r, &damaged);
        if (!e && spool_segment_read(&view, at, &r, &d->scratch) == ERR_OK &&
            wire_batch_decode(&b, d->scratch.p, r.n) == ERR_OK) {
            *out = b->head.host;
            wire_batch_free(b);
            return true;
        }
        at = e ? at : spool_segment_end(at, &r);
    }
    return false;
}

enum err spool_disk_keep(struct spool_disk *d, const struct uuid *host)
{
    uint64_t newest = d->n_files > 0 ? d->files[d->n_files - 1].number : 0, stream;
    size_t before = d->n_files;
    enum err e;

    for (size_t i = 0; i < d->n_files;) {
        struct uuid of;

        if (owner_read_host(d, &d->files[i], &of) && memcmp(&of, host, sizeof of) != 0) {
            spool_files_drop(d, i, &d->stats.other_host);
        } else {
            i++;
        }
    }
    if (d->n_files == before || (d->n_files > 0 && d->files[d->n_files - 1].number == newest)) {
        return ERR_OK;
    }
    e = os_random(&stream, sizeof stream); /* the other one's goes on elsewhere, perhaps */
    if (!e) {
        spool_disk_renew(d, stream, 1);
    }
    return e;
}
