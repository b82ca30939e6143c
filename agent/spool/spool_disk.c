#include "agent/spool/spool_disk.h"

#include <string.h>

#include "agent/spool/spool_disk_impl.h"
#include "common/base/mem.h"
#include "common/os/fio_name.h"
#include "common/os/os.h"

#define SEGMENT_MIN (64u << 10)
#define SEGMENT_MAX (8u << 20)
#define SEGMENTS    16u   /* so many at least, */
#define FILES_MAX   8192u /* and never more */

char *spool_disk_path(const struct spool_disk *d, uint64_t number, const char *suffix)
{
    return fio_name_path(d->dir, "spool-", number, suffix);
}

enum err spool_disk_room(struct spool_disk *d)
{
    size_t cap = d->cap_files ? d->cap_files * 2 : 16;
    struct spool_file *grown;

    if (d->n_files < d->cap_files) {
        return ERR_OK;
    }
    grown = mem_realloc_array(d->files, cap, sizeof *grown);
    if (!grown) {
        return ERR_NOMEM;
    }
    d->files = grown;
    d->cap_files = cap;
    return ERR_OK;
}

static uint64_t segment_bytes(uint64_t max_bytes)
{
    uint64_t n = max_bytes / SEGMENTS;

    n = n > SEGMENT_MAX ? SEGMENT_MAX : n;
    n = n < SEGMENT_MIN ? SEGMENT_MIN : n;
    return max_bytes / n > FILES_MAX / 2 ? max_bytes / (FILES_MAX / 2) : n;
}

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
    if (d->dir) {
        e = wire_encoder_create(&d->encoder);
    }
    if (!e) {
        e = os_random(&d->stream, sizeof d->stream); /* an older one is found by recovery */
    }
    if (e) {
        errmsg_set(why, e, "cannot set up the spool: %s", err_text(e));
        goto fail;
    }
    e = spool_recover(d, why);
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
    spool_disk_unread(d);
    spool_mark_close(d);
    if (d->out) {
        d->conf.fio->close(d->conf.fio->ctx, d->out);
    }
    buf_fini(&d->commit);
    buf_fini(&d->scratch);
    buf_fini(&d->reduced);
    wire_encoder_destroy(d->encoder);
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

static void end_file(struct spool_disk *d)
{
    if (d->out) {
        d->conf.fio->close(d->conf.fio->ctx, d->out);
        d->out = NULL;
    }
}

void spool_disk_renew(struct spool_disk *d, uint64_t stream, uint64_t seq)
{
    end_file(d);
    d->stream = stream;
    d->next_seq = seq;
}

void spool_disk_memory(struct spool_disk *d, int64_t since_ns)
{
    d->memory_ns = since_ns;
}

/* The commit begins a file. */
static enum err begin_file(struct spool_disk *d)
{
    enum err e = spool_disk_room(d);

    d->coming = (struct spool_file){.newest_ns = INT64_MAX};
    if (!e) {
        e = os_random(&d->coming.seed, sizeof d->coming.seed);
    }
    if (e) {
        return e;
    }
    end_file(d);
    d->fresh = true;
    d->coming.number = d->next_number;
    d->coming.stream = d->stream;
    d->coming.first_seq = d->next_seq;
    d->coming.last_seq = d->next_seq - 1;
    d->coming.begin = SPOOL_HEADER_BYTES;
    d->coming.detail = SPOOL_WHOLE;
    spool_header_put(&d->commit, &(struct spool_header){.number = d->coming.number,
                                                        .stream = d->stream,
                                                        .first_seq = d->next_seq,
                                                        .seed = d->coming.seed});
    return d->commit.bad;
}

static enum err begin_commit(struct spool_disk *d, size_t n)
{
    if (d->out) {
        d->coming = d->files[d->n_files - 1];
        if (d->coming.bytes + n <= d->segment_bytes) {
            return ERR_OK;
        }
    }
    return begin_file(d);
}

static void forget_commit(struct spool_disk *d)
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
        e = begin_commit(d, n);
    }
    before = d->commit.n;
    if (!e) {
        spool_record_put(&d->commit, d->coming.seed, d->next_seq, when_ns, p, n);
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

static enum err write_commit(struct spool_disk *d, const char *path)
{
    const struct fio *fio = d->conf.fio;
    enum err e = d->fresh ? fio->create(fio->ctx, &d->out, path) : ERR_OK;

    if (!e) {
        e = fio->write(fio->ctx, d->out, d->coming.bytes, d->commit.p, d->commit.n);
    }
    if (!e) {
        e = fio->sync(fio->ctx, d->out);
    }
    if (!e && d->fresh) {
        e = fio->sync_dir(fio->ctx, d->dir);
    }
    return e;
}

/* What may have reached the disk must not be found there again, as well as that still goes. */
static void undo_commit(struct spool_disk *d, const char *path)
{
    const struct fio *fio = d->conf.fio;

    if (d->out) {
        err_ignore(fio->truncate(fio->ctx, d->out, d->coming.bytes));
        err_ignore(fio->sync(fio->ctx, d->out));
    }
    if (d->out && d->fresh) {
        end_file(d);
        err_ignore(fio->remove(fio->ctx, path));
    }
    end_file(d);
    forget_commit(d);
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
    d->stats.commits++;
    d->stats.batches += d->commit_n;
    d->stats.held += d->commit_n;
    d->stats.held_bytes += d->commit_bytes;
    d->commit_n = d->commit_bytes = 0;
    buf_reset(&d->commit);
    d->fresh = false;
    spool_mark_write(d);
    if (!d->live_set) {
        d->live = d->newest;
        d->live_set = true;
    }
}

enum err spool_disk_commit(struct spool_disk *d)
{
    char *path;
    enum err e;

    if (d->commit_n == 0) {
        return ERR_OK;
    }
    path = spool_disk_path(d, d->coming.number, ".seg");
    if (!path) {
        forget_commit(d);
        return ERR_NOMEM;
    }
    spool_shrink(d, d->commit.n);
    e = write_commit(d, path);
    if (e) {
        undo_commit(d, path);
    } else {
        commit_done(d);
    }
    mem_free(path);
    return e;
}

enum err spool_disk_probe(struct spool_disk *d, uint64_t bytes)
{
    static const uint8_t some[4096];
    const struct fio *fio = d->conf.fio;
    char *path = spool_disk_path(d, 0, ".tmp");
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
    spool_disk_discard(d, path);
    mem_free(path);
    return e;
}

void spool_disk_discard(struct spool_disk *d, const char *path)
{
    const struct fio *fio = d->conf.fio;

    err_ignore(fio->sync_dir(fio->ctx, d->dir));
    err_ignore(fio->remove(fio->ctx, path));
    err_ignore(fio->sync_dir(fio->ctx, d->dir));
}

/* -- reading -- */

void spool_disk_unread(struct spool_disk *d)
{
    if (d->in) {
        d->conf.fio->close(d->conf.fio->ctx, d->in);
        d->in = NULL;
    }
}

enum err spool_disk_view(struct spool_disk *d, const struct spool_file *f,
                         struct spool_segment *out)
{
    const struct fio *fio = d->conf.fio;
    char *path;
    enum err e;

    *out = (struct spool_segment){.fio = fio, .f = d->out, .end = f->bytes, .seed = f->seed};
    if (d->out && f == &d->files[d->n_files - 1]) {
        return ERR_OK;
    }
    if (!d->in || d->in_number != f->number) {
        spool_disk_unread(d);
        path = spool_disk_path(d, f->number, ".seg");
        e = path ? fio->open(fio->ctx, &d->in, path) : ERR_NOMEM;
        mem_free(path);
        if (e) {
            d->in = NULL;
            return e;
        }
        d->in_number = f->number;
    }
    out->f = d->in;
    return ERR_OK;
}

bool spool_disk_is_done(const struct spool_disk *d, uint64_t stream, uint64_t seq)
{
    for (size_t i = 0; i < d->n_ranges; i++) {
        const struct spool_range *r = &d->ranges[i];

        if (r->stream == stream && r->first <= seq && seq <= r->last) {
            return true;
        }
    }
    return false;
}

/* The file the cursor is in; NULL: behind the last one. */
static struct spool_file *file_of(struct spool_disk *d, struct spool_cursor *c)
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
static enum err seek(struct spool_disk *d, struct spool_cursor *c, const struct spool_file **file,
                     struct spool_record *r)
{
    struct spool_file *f;

    while ((f = file_of(d, c)) != NULL) {
        struct spool_segment view;
        enum err e = spool_disk_view(d, f, &view);
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
        if (!e && !spool_disk_is_done(d, f->stream, r->seq)) {
            *file = f;
            return ERR_OK;
        }
        if (!e) {
            c->at = spool_record_end(c->at, r);
            continue;
        }
        d->stats.unreadable += e != ERR_END;
        *c = (struct spool_cursor){f->number + 1, 0};
    }
    return ERR_END;
}

/* Ranges that touch become one, so that numbers done out of order leave no more behind than others.
 */
static void add_range(struct spool_disk *d, uint64_t stream, uint64_t seq)
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
static void settle(struct spool_disk *d)
{
    const struct spool_file *f = NULL;
    struct spool_record r = {0};
    enum err e = seek(d, &d->back, &f, &r);
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
        spool_disk_remove(d, 0);
    }
}

void spool_disk_remove(struct spool_disk *d, size_t i)
{
    const struct fio *fio = d->conf.fio;
    char *path = spool_disk_path(d, d->files[i].number, ".seg");

    spool_disk_unread(d);
    if (path) {
        err_ignore(fio->remove(fio->ctx, path)); /* should it stay, it is sent again */
    }
    mem_free(path);
    d->n_files--;
    memmove(d->files + i, d->files + i + 1, (d->n_files - i) * sizeof *d->files);
}

void spool_disk_tidy(struct spool_disk *d)
{
    const struct spool_file *f;
    struct spool_record r;
    char *path;

    if (d->n_files == 0 || d->commit_n > 0 || seek(d, &d->back, &f, &r) != ERR_END ||
        d->files[d->n_files - 1].last_seq < d->files[d->n_files - 1].first_seq) {
        return;
    }
    path = spool_disk_path(d, d->next_number, ".seg");
    buf_reset(&d->commit);
    if (!path || begin_file(d) || write_commit(d, path)) {
        if (path) {
            undo_commit(d, path);
        }
        mem_free(path);
        return;
    }
    mem_free(path);
    commit_done(d);
    while (d->n_files > 1) {
        spool_disk_remove(d, 0);
    }
}

struct spool_hand *spool_disk_hand(struct spool_disk *d, uint64_t stream, uint64_t seq)
{
    for (size_t i = 0; i < d->n_hands; i++) {
        if (d->hands[i].stream == stream && d->hands[i].seq == seq) {
            return &d->hands[i];
        }
    }
    return NULL;
}

/* As seek, but *at comes to stand behind what is in hand; the cursor itself does not pass that. */
static enum err seek_free(struct spool_disk *d, struct spool_cursor *c, struct spool_cursor *at,
                          const struct spool_file **file, struct spool_record *r)
{
    enum err e = seek(d, c, file, r);

    *at = *c;
    while (!e && spool_disk_hand(d, (*file)->stream, r->seq)) {
        at->at = spool_record_end(at->at, r);
        e = seek(d, at, file, r);
    }
    return e;
}

/* Where to take from: `live` while it is its turn, begun anew when it is far behind. */
static enum err choose(struct spool_disk *d, struct spool_cursor *from, const struct spool_file **f,
                       struct spool_record *r)
{
    const struct spool_file *live_file;
    struct spool_record live_record;
    struct spool_cursor live;
    enum err e = seek_free(d, &d->back, from, f, r), e_live;

    if (e || !d->live_set || !d->live_turn) {
        d->live_turn = true;
        return e;
    }
    d->live_turn = false;
    if (d->live.number < d->back.number ||
        (d->live.number == d->back.number && d->live.at < d->back.at)) {
        d->live = d->back;
    }
    e_live = seek_free(d, &d->live, &live, &live_file, &live_record);
    if (!e_live && d->newest_ns - live_record.when_ns > SPOOL_LIVE_LAG_NS &&
        d->n_ranges + SPOOL_HANDS_MAX < SPOOL_RANGES_MAX) {
        d->live = d->newest;
        e_live = seek_free(d, &d->live, &live, &live_file, &live_record);
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
    if (d->n_hands == SPOOL_HANDS_MAX) {
        return ERR_FULL;
    }
    for (;;) {
        const struct spool_file *f;
        struct spool_segment view;
        struct spool_cursor from;
        struct spool_record r;
        enum err e = choose(d, &from, &f, &r);

        if (e) {
            return e;
        }
        e = spool_disk_view(d, f, &view);
        if (!e) {
            e = spool_segment_read(&view, from.at, &r, content);
        }
        if (e == ERR_NOMEM) {
            return e;
        }
        *out = (struct spool_taken){f->stream, r.seq, content->p, r.n};
        if (!e) {
            d->hands[d->n_hands++] = (struct spool_hand){.stream = f->stream, .seq = r.seq};
            return ERR_OK;
        }
        d->stats.unreadable++;
        spool_disk_done(d, out);
    }
}

static void count_done(struct spool_disk *d, size_t n)
{
    d->stats.held -= d->stats.held > 0;
    d->stats.held_bytes -= d->stats.held_bytes < n ? d->stats.held_bytes : n;
}

/* Whether its file was gone. */
static bool let_go(struct spool_disk *d, const struct spool_taken *t)
{
    struct spool_hand *hand = spool_disk_hand(d, t->stream, t->seq);
    bool gone = hand && hand->gone;

    if (hand) {
        *hand = d->hands[--d->n_hands];
    }
    return gone;
}

void spool_disk_back(struct spool_disk *d, const struct spool_taken *t)
{
    if (let_go(d, t)) {
        spool_batch_count(&d->stats.dropped, t->p, t->n);
        count_done(d, t->n);
    }
}

void spool_disk_done(struct spool_disk *d, const struct spool_taken *t)
{
    const struct spool_file *f;
    struct spool_record r;

    (void)let_go(d, t);
    count_done(d, t->n);
    if (seek(d, &d->back, &f, &r) == ERR_OK && f->stream == t->stream && r.seq == t->seq) {
        d->back.at = spool_record_end(d->back.at, &r);
    }
    if (d->live_set && seek(d, &d->live, &f, &r) == ERR_OK && f->stream == t->stream &&
        r.seq == t->seq) {
        d->live.at = spool_record_end(d->live.at, &r);
    }
    add_range(d, t->stream, t->seq);
    settle(d);
}

size_t spool_disk_stored(struct spool_disk *d, uint64_t stream, uint64_t last_seq)
{
    const struct spool_file *f;
    struct spool_record r;
    size_t n = 0;

    while (seek(d, &d->back, &f, &r) == ERR_OK && f->stream == stream && r.seq <= last_seq) {
        count_done(d, r.n);
        d->back.at = spool_record_end(d->back.at, &r);
        n++;
    }
    settle(d);
    return n;
}

void spool_disk_expire(struct spool_disk *d, int64_t now_ns)
{
    size_t kept = d->out ? 1 : 0;

    while (d->n_files > kept && d->files[0].newest_ns < now_ns - d->conf.max_age_ns) {
        spool_shrink_drop(d, 0, &d->stats.expired);
    }
}
