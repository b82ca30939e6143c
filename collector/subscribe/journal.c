/* Records wait in memory and become durable by one write and one sync; only then does the index,
 * and with it any reader, know of them. A file begins with the newest numbers of all topics (its
 * checkpoint), so that older ones can go while numbers go on. Header, checkpoint and first records
 * are one write.
 *
 * A commit that finds no room on the disk stays, and all of it is written again by the next sync.
 * After any other failed write or sync the file is cut back to its durable length and left: the
 * next commit begins another. Numbers and positions of what was lost are used up, so that what
 * reached the disk in spite of the failure cannot meet another record of the same number.
 *
 * Rejected: reading back what was written through the page cache before the sync (a message that is
 * out and whose number is given again after loss of power could not be told from another); one
 * descriptor for all readers (fio's files have one owner each). */
#include "collector/subscribe/journal.h"

#include <assert.h>
#include <string.h>
#include <zstd.h>

#include "collector/subscribe/journal_recover.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/fio.h"
#include "common/os/os.h"
#include "common/reclog/reclog.h"

#define COMMIT_MAX     (64u << 20)
#define PACK_LEVEL     (-3)
#define PACK_LEAST     128u /* bytes; less is not worth it */
#define PARTS          16u  /* of max_bytes and max_age_ns: what goes at once */
#define FILE_BYTES_MIN (256u << 10)
#define FILE_BYTES_MAX (256u << 20)
#define LOOK           16u                          /* records that are looked at at once */
#define TOPICS_BYTES   (JOURNAL_PAYLOAD_MAX - 128u) /* of one part of a checkpoint */

struct journal {
    struct journal_conf conf;
    char *dir;
    uint64_t epoch;

    struct os_mutex *lock;      /* guards what follows, up to the next blank line */
    struct journal_index index; /* changed by the writer alone */
    uint64_t next;              /* behind the last that readers see */
    struct journal_stats stats; /* without what the index knows */

    /* The writer's own. */
    uint64_t number;               /* of the newest file ever begun */
    uint64_t position;             /* the next to give */
    struct reclog_writer out;      /* not open: the next commit begins a file */
    uint64_t out_seed, file_bytes; /* of the records of `out`; when it is full */
    int64_t out_first_ns;          /* of its oldest record; 0 = none */
    struct buf commit;             /* what the next write holds */
    bool fresh;                    /* it begins a file, with this seed: */
    uint64_t fresh_seed;
    struct journal_fresh *waiting; /* what it holds */
    size_t n_waiting, cap_waiting;
    void *packer; /* ZSTD_CCtx */
    uint8_t *packed;
    size_t packed_cap;
};

/* What the index says of a record; all else is zero. Under the lock. */
static void journal_known(struct journal_record *out, const struct journal_place *at)
{
    *out = (struct journal_record){
        .position = at->position, .seq = at->seq, .topic = at->topic, .n = at->n};
    memcpy(out->name, at->name, strnlen(at->name, sizeof out->name - 1));
}

uint64_t journal_epoch(const struct journal *j)
{
    return j->epoch;
}

/* -- beginning a file -- */

static void checkpoint_put_part(struct journal *j, const struct buf *content, bool more)
{
    struct journal_part p = {.kind = JOURNAL_TOPICS3,
                             .about = {.n = content->n, .more = more},
                             .content = content->p,
                             .content_n = content->n};

    journal_format_put_part(&j->commit, &p, j->fresh_seed);
}

/* The newest numbers of all topics, in as many records as it takes. */
static enum err checkpoint_put(struct journal *j)
{
    struct journal_topic floor = {.name = str_make("")};
    struct buf content;
    enum err e;

    buf_init(&content, JOURNAL_PAYLOAD_MAX);
    memcpy(floor.seq, j->index.floor, sizeof floor.seq);
    journal_format_put_topic(&content, JOURNAL_TOPICS3, &floor);
    for (size_t i = 0; i < j->index.n_channels; i++) {
        const struct journal_channel *c = &j->index.channels[i];
        struct journal_topic t = {.name = str_make(c->name)};

        if (content.n > TOPICS_BYTES) {
            checkpoint_put_part(j, &content, true);
            buf_reset(&content);
        }
        memcpy(t.seq, c->seq, sizeof t.seq);
        journal_format_put_topic(&content, JOURNAL_TOPICS3, &t);
    }
    e = content.bad;
    checkpoint_put_part(j, &content, false);
    buf_fini(&content);
    return e ? e : j->commit.bad;
}

static enum err journal_begin(struct journal *j)
{
    struct journal_header h = {.number = j->number + 1, .epoch = j->epoch, .position = j->position};
    enum err e = os_random(&j->fresh_seed, sizeof j->fresh_seed);

    if (e) {
        return e;
    }
    h.seed = j->fresh_seed;
    journal_format_put_header(&j->commit, &h);
    e = checkpoint_put(j);
    if (e) {
        buf_reset(&j->commit);
        return e;
    }
    j->number++;
    j->fresh = true;
    j->out_first_ns = 0;
    return ERR_OK;
}

static bool journal_file_is_over(const struct journal *j, int64_t now_ns)
{
    int64_t age_ns = j->conf.max_age_ns;

    return !j->out.f || j->out.bytes >= j->file_bytes ||
           (age_ns && j->out_first_ns && now_ns - j->out_first_ns > age_ns / PARTS);
}

/* -- appending -- */

/* Under the lock: whatever readers look at may move. The number is taken whatever comes. */
static enum err append_number(struct journal *j, struct journal_record *r, uint32_t *channel)
{
    struct journal_channel *c;
    enum err e = journal_index_take(&j->index, channel, r->name, j->conf.hosts_max);

    if (e) {
        return e;
    }
    c = &j->index.channels[*channel];
    r->seq = ++c->seq[r->topic];
    return journal_index_room_spot(c, r->topic);
}

static void append_pack(struct journal *j, struct journal_part *p)
{
    size_t n;

    if (p->content_n < PACK_LEAST) {
        return;
    }
    n = ZSTD_compressCCtx(j->packer, j->packed, j->packed_cap, p->content, p->content_n,
                          PACK_LEVEL);
    if (!ZSTD_isError(n) && n < p->content_n) {
        p->packed = true;
        p->content = j->packed;
        p->content_n = n;
    }
}

static enum err append_put(struct journal *j, const struct journal_record *r, uint32_t channel,
                           const void *payload)
{
    struct journal_part p = {
        .kind = JOURNAL_MESSAGE, .about = *r, .content = payload, .content_n = r->n};
    size_t before = j->commit.n;
    uint64_t base = j->fresh ? 0 : j->out.bytes;

    append_pack(j, &p);
    journal_format_put_part(&j->commit, &p, j->fresh ? j->fresh_seed : j->out_seed);
    if (j->commit.bad) {
        enum err e = j->commit.bad;

        j->commit.n = before;
        j->commit.bad = ERR_OK;
        return e;
    }
    j->waiting[j->n_waiting++] = (struct journal_fresh){.position = r->position,
                                                        .seq = r->seq,
                                                        .stored_ns = r->stored_ns,
                                                        .channel = channel,
                                                        .offset = (uint32_t)(base + before),
                                                        .n = (uint32_t)r->n,
                                                        .topic = (uint8_t)r->topic};
    j->index.channels[channel].spots[r->topic].waiting++;
    if (!j->out_first_ns) {
        j->out_first_ns = r->stored_ns;
    }
    return ERR_OK;
}

static bool append_in_bounds(const struct journal_record *r)
{
    return r->n <= JOURNAL_PAYLOAD_MAX && r->last_batch >= r->batch &&
           r->last_batch - r->batch <= UINT32_MAX && r->topic < FEED_TOPICS;
}

enum err journal_append(struct journal *j, struct journal_record *r, const void *payload)
{
    uint32_t channel;
    enum err e;

    if (!memchr(r->name, 0, sizeof r->name)) {
        return ERR_INVALID;
    }
    os_mutex_lock(j->lock);
    e = append_number(j, r, &channel);
    os_mutex_unlock(j->lock);
    r->position = j->position++;
    if (!e && !append_in_bounds(r)) {
        e = ERR_INVALID;
    }
    if (!e) {
        e = VEC_ROOM(&j->waiting, &j->cap_waiting, j->n_waiting + 1, SIZE_MAX);
    }
    if (!e && j->commit.n == 0 && journal_file_is_over(j, r->stored_ns)) {
        e = journal_begin(j);
    }
    return e ? e : append_put(j, r, channel, payload);
}

size_t journal_waiting(const struct journal *j)
{
    return j->commit.n;
}

/* -- becoming durable -- */

/* What a failed commit left on the disk goes. */
static void commit_undo(struct journal *j)
{
    reclog_undo(&j->out);
    if (j->fresh) {
        reclog_discard(&j->out);
    }
}

/* The file is not written to any more. */
void journal_drop(struct journal *j)
{
    commit_undo(j);
    reclog_writer_close(&j->out);
    os_mutex_lock(j->lock);
    for (size_t i = 0; i < j->n_waiting; i++) {
        const struct journal_fresh *e = &j->waiting[i];

        j->index.channels[e->channel].spots[e->topic].waiting = 0;
    }
    os_mutex_unlock(j->lock);
    j->fresh = false;
    j->n_waiting = 0;
    buf_reset(&j->commit);
}

/* Room for what becomes durable, before it does. Under the lock. */
static enum err commit_room(struct journal *j)
{
    struct journal_index *x = &j->index;
    enum err e = j->fresh ? journal_index_room_file(x) : ERR_OK;

    if (!e && !j->fresh) {
        e = journal_index_room_entries(&x->files[x->n_files - 1], j->n_waiting);
    }
    return e;
}

/* Readers know of it from here on. */
static void commit_publish(struct journal *j, struct journal_file *begun)
{
    struct journal_index *x = &j->index;

    os_mutex_lock(j->lock);
    if (j->fresh) {
        journal_index_add_file(x, j->number, j->fresh_seed);
        x->files[x->n_files - 1].entries = begun->entries;
        x->files[x->n_files - 1].cap = begun->cap;
    }
    for (size_t i = 0; i < j->n_waiting; i++) {
        const struct journal_fresh *e = &j->waiting[i];
        struct journal_channel *c = &x->channels[e->channel];

        c->spots[e->topic].waiting = 0;
        c->last[e->topic] = e->seq;
        journal_index_add(x, e);
    }
    journal_index_grew(x, j->commit.n);
    assert(j->position > j->next || j->n_waiting == 0); /* positions only grow */
    j->next = j->position;
    j->stats.appended += j->n_waiting;
    os_mutex_unlock(j->lock);
    if (j->fresh) {
        j->out_seed = j->fresh_seed;
        j->fresh = false;
    }
    j->out.bytes += j->commit.n;
    j->n_waiting = 0;
    buf_reset(&j->commit);
}

enum err journal_sync(struct journal *j)
{
    struct journal_file begun = {.number = 0};
    enum err e;

    if (j->commit.n == 0) {
        return ERR_OK;
    }
    os_mutex_lock(j->lock);
    e = commit_room(j);
    os_mutex_unlock(j->lock);
    if (!e && j->fresh) {
        e = journal_index_room_entries(&begun, j->n_waiting);
    }
    if (!e) {
        e = reclog_commit(&j->out, j->fresh ? j->number : 0, &j->commit);
    }
    if (e) {
        mem_free(begun.entries);
        os_mutex_lock(j->lock);
        j->stats.failed_writes++;
        os_mutex_unlock(j->lock);
        if (e == ERR_NOSPACE) {
            commit_undo(j);
        } else {
            journal_drop(j);
        }
        return e;
    }
    commit_publish(j, &begun);
    return ERR_OK;
}

/* -- opening, closing -- */

static uint64_t journal_file_bytes(uint64_t max_bytes)
{
    uint64_t part = max_bytes / PARTS;

    return part < FILE_BYTES_MIN ? FILE_BYTES_MIN : part > FILE_BYTES_MAX ? FILE_BYTES_MAX : part;
}

static enum err journal_open_parts(struct journal *j)
{
    enum err e = os_mutex_create(&j->lock);

    if (e) {
        return e;
    }
    j->dir = mem_strdup(j->conf.dir);
    j->packer = ZSTD_createCCtx();
    j->packed_cap = ZSTD_compressBound(JOURNAL_PAYLOAD_MAX);
    j->packed = mem_alloc(j->packed_cap);
    if (!j->dir || !j->packer || !j->packed) {
        return ERR_NOMEM;
    }
    j->out = (struct reclog_writer){
        .fio = j->conf.fio, .dir = j->dir, .prefix = JOURNAL_PREFIX, .suffix = JOURNAL_SUFFIX};
    return os_mkdirs(j->dir, true);
}

/* The newest file again as the one to write to: its torn end is cut, durably. */
static enum err open_resumed(struct journal *j, const struct journal_recovered *r)
{
    struct journal_file *newest = &j->index.files[j->index.n_files - 1];
    char *path = fio_name_path(j->dir, JOURNAL_PREFIX, newest->number, JOURNAL_SUFFIX);
    uint64_t size = newest->bytes;
    enum err e = path ? j->conf.fio->open(j->conf.fio->ctx, &j->out.f, path) : ERR_NOMEM;

    mem_free(path);
    if (e) {
        j->out.f = NULL;
        return e;
    }
    if (r->end < size) {
        j->stats.torn_bytes += size - r->end;
        newest->bytes = r->end;
        j->index.bytes -= size - r->end;
    }
    j->out.number = newest->number;
    j->out.bytes = r->end;
    j->out_seed = newest->seed;
    return reclog_cut(j->conf.fio, j->out.f, j->dir, size, r->end);
}

/* What the next opening must know is in a new file before a damaged one goes. */
static enum err open_go_on(struct journal *j, const struct journal_recovered *r)
{
    enum err e;

    j->number = r->number;
    j->next = j->position = r->position;
    j->epoch = r->epoch;
    j->out_first_ns = r->first_ns;
    j->stats.torn_bytes = r->torn_bytes;
    j->stats.damaged_bytes = r->damaged_bytes;
    j->stats.damaged_records = r->damaged_records;
    if (r->sound) {
        return open_resumed(j, r);
    }
    e = journal_begin(j);
    return e ? e : journal_sync(j);
}

static enum err open_recovered(struct journal *j, struct errmsg *why)
{
    struct journal_recovered r = {.number = 0};
    enum err e = journal_recover(&r, &j->index, j->conf.fio, j->dir, why);

    if (!e) {
        e = open_go_on(j, &r);
        e = e ? e : journal_recover_clean(&r, j->conf.fio, j->dir);
        if (e) {
            errmsg_set(why, e, "cannot write to %s: %s", j->dir, err_text(e));
        }
    }
    mem_free(r.unread);
    return e;
}

enum err journal_open(struct journal **out, const struct journal_conf *conf, struct errmsg *why)
{
    struct journal *j = mem_zalloc(sizeof *j);
    enum err e;

    if (!j) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    j->conf = *conf;
    j->file_bytes = journal_file_bytes(conf->max_bytes);
    buf_init(&j->commit, COMMIT_MAX);
    e = journal_open_parts(j);
    if (e) {
        errmsg_set(why, e, "cannot open %s: %s", conf->dir, err_text(e));
        goto fail;
    }
    e = open_recovered(j, why);
    if (e) {
        goto fail;
    }
    *out = j;
    return ERR_OK;

fail:
    journal_close(j);
    return e;
}

void journal_close(struct journal *j)
{
    if (!j) {
        return;
    }
    if (j->n_waiting > 0) {
        err_ignore(journal_sync(j));
    }
    reclog_writer_close(&j->out);
    journal_index_fini(&j->index);
    buf_fini(&j->commit);
    mem_free(j->waiting);
    mem_free(j->packed);
    ZSTD_freeCCtx(j->packer);
    os_mutex_destroy(j->lock);
    mem_free(j->dir);
    mem_free(j);
}

/* -- reading back -- */

/* The index says where, the bytes are read without the lock by a file of the reader's own. A file
 * that went meanwhile is as if its records had gone before. Of a record whose payload is not asked
 * for only the head is read. */
/* One record and where it stands. */
struct place {
    struct journal_record r; /* as far as the index knows */
    struct journal_place at; /* without its name */
};

static void place_make(const struct journal_index *x, size_t file, size_t entry, struct place *out)
{
    journal_index_place(x, file, entry, &out->at);
    journal_known(&out->r, &out->at);
    out->at.name = NULL;
}

static enum err place_read_bytes(const struct journal *j, const struct place *p, uint8_t *to,
                                 size_t *n)
{
    const struct fio *fio = j->conf.fio;
    char *path = fio_name_path(j->dir, JOURNAL_PREFIX, p->at.file, JOURNAL_SUFFIX);
    struct fio_file *f;
    enum err e = path ? fio->open(fio->ctx, &f, path) : ERR_NOMEM;

    mem_free(path);
    if (e) {
        return e;
    }
    e = fio->read(fio->ctx, f, p->at.offset, to, *n, n);
    fio->close(fio->ctx, f);
    return e;
}

/* Whether it is the record that the index means, and what that does not know. */
static enum err place_complete(struct place *p, const struct journal_part *part)
{
    const struct journal_record *r = &part->about;

    if (r->position != p->r.position || r->seq != p->r.seq || r->topic != p->r.topic ||
        r->n != p->r.n) {
        return ERR_CORRUPT;
    }
    memcpy(p->r.host.b, r->host.b, sizeof p->r.host.b);
    p->r.stream = r->stream;
    p->r.batch = r->batch;
    p->r.last_batch = r->last_batch;
    p->r.more = r->more;
    p->r.stored_ns = r->stored_ns;
    p->r.first_ns = r->first_ns;
    p->r.last_ns = r->last_ns;
    return ERR_OK;
}

/* Fills in what the index does not know. Errors: ERR_NOTFOUND (the file has gone), ERR_CORRUPT and
 * others */
static enum err place_read(const struct journal *j, struct place *p, struct buf *payload)
{
    size_t most = payload ? JOURNAL_RECORD_MAX : JOURNAL_RECORD_FIXED, used;
    size_t n = p->at.bytes < most ? (size_t)p->at.bytes : most;
    uint8_t *bytes = mem_alloc(n);
    struct journal_part part;
    enum err e = bytes ? place_read_bytes(j, p, bytes, &n) : ERR_NOMEM;

    if (!e && payload) {
        e = journal_format_part(&part, &used, bytes, n, p->at.seed);
    } else if (!e) {
        e = journal_format_part_head(&part, bytes, n, p->at.seed);
    }
    if (!e) {
        e = place_complete(p, &part);
    }
    if (!e && payload) {
        e = journal_format_unpack(payload, &part);
    }
    mem_free(bytes);
    return e;
}

void journal_range(struct journal *j, uint64_t *first, uint64_t *next)
{
    size_t file, entry;

    os_mutex_lock(j->lock);
    *next = j->next;
    *first =
        journal_index_at(&j->index, 0, &file, &entry) ? j->index.files[file].position : j->next;
    os_mutex_unlock(j->lock);
}

/* Up to LOOK records from the position on. */
static size_t places_from(struct journal *j, uint64_t from, struct place *out, uint64_t *next)
{
    const struct journal_index *x = &j->index;
    size_t n = 0, file = 0, entry = 0;

    os_mutex_lock(j->lock);
    *next = j->next;
    if (journal_index_at(x, from, &file, &entry)) {
        for (; file < x->n_files && n < LOOK; file++, entry = 0) {
            for (; entry < x->files[file].n && n < LOOK; entry++) {
                place_make(x, file, entry, &out[n++]);
            }
        }
    }
    os_mutex_unlock(j->lock);
    return n;
}

enum err journal_next(struct journal *j, uint64_t *from,
                      bool (*want)(void *ctx, const struct journal_record *r), void *ctx,
                      struct journal_record *r, struct buf *payload)
{
    struct place places[LOOK];
    uint64_t next;
    size_t n;

    while ((n = places_from(j, *from, places, &next)) > 0) {
        for (size_t i = 0; i < n; i++) {
            struct place *at = &places[i];
            enum err e;

            if (want && !want(ctx, &at->r)) {
                *from = at->r.position + 1;
                continue;
            }
            e = at->r.name[0] ? place_read(j, at, payload) : ERR_CORRUPT;
            if (e && e != ERR_CORRUPT && e != ERR_NOTFOUND) {
                return e;
            }
            *from = at->r.position + 1;
            if (e != ERR_NOTFOUND) {
                *r = at->r;
                return e;
            }
        }
    }
    *from = next > *from ? next : *from;
    return ERR_END;
}

enum err journal_find(struct journal *j, enum feed_topic topic, const char *name, uint64_t seq,
                      struct journal_record *r, struct buf *payload, uint64_t *last)
{
    enum err e = ERR_NOTFOUND;

    while (e == ERR_NOTFOUND) {
        const struct journal_channel *c;
        struct place at;
        size_t file, entry;

        os_mutex_lock(j->lock);
        c = journal_index_channel(&j->index, name);
        *last = c ? c->last[topic] : 0;
        if (!c || !journal_index_find(&j->index, c, topic, seq, &file, &entry)) {
            os_mutex_unlock(j->lock);
            return ERR_END;
        }
        place_make(&j->index, file, entry, &at);
        os_mutex_unlock(j->lock);
        e = place_read(j, &at, payload);
        *r = at.r;
        seq = at.r.seq + 1;
    }
    return e;
}

/* The index is changed by the caller's thread alone, so it may be looked at without the lock. */
bool journal_has(struct journal *j, enum feed_topic topic, const char *name,
                 const struct journal_batch *b)
{
    const struct journal_index *x = &j->index;
    const struct journal_channel *c = journal_index_channel(x, name);
    const struct journal_spots *s = c ? &c->spots[topic] : NULL;

    for (size_t i = s ? s->n : 0; i > 0; i--) {
        struct journal_spot spot = s->all[s->first + i - 1];
        struct place at;

        place_make(x, spot.file - x->dropped, spot.entry, &at);
        if (at.r.n == 0 || (b->before && at.r.position >= b->before)) {
            continue;
        }
        if (place_read(j, &at, NULL) != ERR_OK) {
            continue;
        }
        if (at.r.stored_ns < b->since_ns) {
            return false;
        }
        if (at.r.stream == b->stream && !at.r.more && at.r.batch <= b->seq &&
            b->seq <= at.r.last_batch) {
            return true;
        }
    }
    return false;
}

/* -- going -- */

/* The oldest file's records. */
static void trim_report(struct journal *j, void (*lost)(void *ctx, const struct journal_record *r),
                        void *ctx)
{
    for (size_t i = 0; i < j->index.files[0].n && lost; i++) {
        struct journal_place at;
        struct journal_record r;

        journal_index_place(&j->index, 0, i, &at);
        journal_known(&r, &at);
        lost(ctx, &r);
    }
}

/* Only this thread changes the index, so it may look without the lock. */
static bool trim_oldest_goes(const struct journal *j, int64_t now_ns)
{
    const struct journal_index *x = &j->index;
    const struct journal_file *f = &x->files[0];

    if (x->n_files < 2) { /* the newest has the numbers of all topics */
        return false;
    }
    return x->bytes + j->commit.n > j->conf.max_bytes || f->n == 0 ||
           (j->conf.max_age_ns && f->last_ns < now_ns - j->conf.max_age_ns);
}

void journal_trim(struct journal *j, int64_t now_ns,
                  void (*lost)(void *ctx, const struct journal_record *r), void *ctx)
{
    const struct fio *fio = j->conf.fio;

    while (trim_oldest_goes(j, now_ns)) {
        const struct journal_file *f = &j->index.files[0];
        char *path = fio_name_path(j->dir, JOURNAL_PREFIX, f->number, JOURNAL_SUFFIX);
        bool gone;

        trim_report(j, lost, ctx);
        gone = path && fio->remove(fio->ctx, path) == ERR_OK;
        mem_free(path);
        os_mutex_lock(j->lock);
        if (gone) {
            j->stats.trimmed += f->n - f->damaged;
            journal_index_drop_oldest(&j->index);
        } else {
            j->stats.failed_writes++;
        }
        os_mutex_unlock(j->lock);
        if (!gone) {
            return;
        }
    }
}

void journal_stats(struct journal *j, struct journal_stats *out)
{
    const struct journal_index *x = &j->index;

    os_mutex_lock(j->lock);
    *out = j->stats;
    out->records = x->records;
    out->bytes = x->bytes;
    out->files = x->n_files;
    for (size_t i = 0; i < x->n_files && !out->oldest_ns; i++) {
        out->oldest_ns = x->files[i].n ? x->files[i].first_ns : 0;
    }
    for (size_t i = x->n_files; i > 0 && !out->newest_ns; i--) {
        const struct journal_file *f = &x->files[i - 1];

        out->newest_ns = f->n ? f->last_ns : 0;
    }
    os_mutex_unlock(j->lock);
}
