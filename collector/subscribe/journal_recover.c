/* Opening: every file is read from its beginning, and all its sound records are indexed. Damage
 * between them costs the records it is in. The positions around it tell how many these are; each
 * has an entry in the index that cannot be read, so that readers get the error. Writing goes on in
 * the newest file when nothing before its end is damaged; its end may be torn: that has no sound
 * record behind it, and no reader has seen it, since readers see only what is synced. The end of an
 * older file is not torn but damaged, and the next file's first position says how many records it
 * held; so it does for a file whose header is lost.
 *
 * The numbers of topics come from the newest file's checkpoint and from all records. When that
 * cannot be read, they are not known: a new epoch begins, and positions go on far above. What the
 * next opening must know is in a new file before the damaged one goes. */
#include "collector/subscribe/journal_recover.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"
#include "common/reclog/reclog.h"

#define FILES_MAX 65536u
#define FAR_ABOVE (UINT64_C(1) << 32)         /* more records than a file holds */
#define LEAST     (JOURNAL_RECORD_FIXED + 8u) /* bytes of any record */

enum fate { READ, TORN, BLIND }; /* torn: never finished, nothing in it was seen */

struct found_file {
    uint64_t number, size, end, epoch, seed;
    enum fate fate;
    bool numbered;    /* its checkpoint is whole */
    uint64_t damaged; /* bytes before `end`; the header's apart: */
    uint32_t header;
};

struct recovery {
    struct journal_recovered *out;
    struct journal_index *index;
    const struct fio *fio;
    const char *dir;
    struct found_file *files;
    size_t n, cap;
    struct found_file *now;      /* being read */
    struct journal_fresh *fresh; /* its records, until it is known how far it counts */
    size_t n_fresh, cap_fresh, whole;
    uint64_t position; /* the greatest given so far */
    uint64_t tail;     /* bytes since the last sound record of the files before */
};

static enum err collect_name(void *ctx, const char *name)
{
    struct recovery *r = ctx;
    uint64_t number;
    enum err e;

    if (!fio_name_parse(&number, name, JOURNAL_PREFIX, JOURNAL_SUFFIX)) {
        return ERR_OK;
    }
    e = VEC_ROOM(&r->files, &r->cap, r->n + 1, FILES_MAX);
    if (e) {
        return e;
    }
    r->files[r->n++] = (struct found_file){.number = number};
    return ERR_OK;
}

/* -- one file -- */

static uint64_t greater(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static enum err learn_numbers(struct recovery *r, const struct journal_topic *t)
{
    struct journal_index *x = r->index;
    char name[MODEL_HOST_NAME_MAX + 1] = {0};
    uint32_t channel;
    enum err e;

    if (t->name.n == 0) {
        for (unsigned i = 0; i < FEED_TOPICS; i++) {
            x->floor[i] = greater(x->floor[i], t->seq[i]);
        }
        return ERR_OK;
    }
    memcpy(name, t->name.p, t->name.n);
    e = journal_index_take(x, &channel, name, UINT32_MAX); /* all, under a lower limit too */
    for (unsigned i = 0; i < FEED_TOPICS && !e; i++) {
        struct journal_channel *c = &x->channels[channel];

        c->last[i] = c->seq[i] = greater(c->seq[i], t->seq[i]);
    }
    return e;
}

static enum err learn_topics(struct recovery *r, const struct journal_part *part)
{
    const uint8_t *p = part->content;
    size_t n = part->content_n;
    struct journal_topic t;
    enum err e = ERR_OK;

    while (!e) {
        e = journal_format_topic(&t, part->kind, &p, &n);
        if (!e) {
            e = learn_numbers(r, &t);
        }
    }
    r->now->numbered = r->now->numbered || (e == ERR_END && !part->about.more);
    return e == ERR_END || e == ERR_CORRUPT ? ERR_OK : e;
}

static enum err add_fresh(struct recovery *r, const struct journal_fresh *record)
{
    enum err e = VEC_ROOM(&r->fresh, &r->cap_fresh, r->n_fresh + 1, SIZE_MAX);

    if (e) {
        return e;
    }
    r->fresh[r->n_fresh++] = *record;
    return ERR_OK;
}

/* How many records a damaged span held that was followed by this position. */
static uint64_t records_in(uint64_t bytes, uint64_t before, uint64_t position)
{
    uint64_t most = bytes / LEAST, n = position > before ? position - before - 1 : 0;

    return n < most ? n : most;
}

/* Where it stood is not known, nor read. */
static struct journal_fresh damaged_record(uint64_t position, uint64_t offset, int64_t stored_ns)
{
    return (struct journal_fresh){.position = position,
                                  .stored_ns = stored_ns,
                                  .channel = JOURNAL_DAMAGED,
                                  .offset = (uint32_t)offset};
}

static enum err keep_damaged(struct recovery *r, uint64_t before, const struct journal_found *found)
{
    const struct journal_record *about = &found->part->about;
    uint64_t n = records_in(found->damaged, before, about->position);
    enum err e = ERR_OK;

    for (uint64_t i = 1; i <= n && !e; i++) {
        const struct journal_fresh one =
            damaged_record(before + i, found->offset - found->damaged, about->stored_ns);

        e = add_fresh(r, &one);
    }
    r->out->damaged_records += n;
    return e;
}

static enum err keep_entry(struct recovery *r, uint32_t channel, const struct journal_found *found)
{
    const struct journal_record *about = &found->part->about;
    const struct journal_fresh one = {.position = about->position,
                                      .seq = about->seq,
                                      .stored_ns = about->stored_ns,
                                      .channel = channel,
                                      .offset = (uint32_t)found->offset,
                                      .n = (uint32_t)about->n,
                                      .topic = (uint8_t)about->topic};
    enum err e = add_fresh(r, &one);

    if (!e && !about->more) {
        r->whole = r->n_fresh;
    }
    return e;
}

static void learn_record(struct recovery *r, uint32_t channel, enum feed_topic topic, uint64_t seq,
                         uint64_t position)
{
    struct journal_channel *c = &r->index->channels[channel];

    c->last[topic] = c->seq[topic] = greater(c->seq[topic], seq);
    r->position = greater(r->position, position);
}

/* The position before the record's, as far as is known. A header may name that of the second. */
static uint64_t position_before(const struct recovery *r, const struct journal_found *found)
{
    uint64_t begin = found->header->position > 1 ? found->header->position - 2 : 0;

    return r->n_fresh ? r->fresh[r->n_fresh - 1].position : greater(r->position, begin);
}

/* Anything else is not ours. */
static bool is_in_order(const struct recovery *r, const struct journal_found *found)
{
    uint64_t position = found->part->about.position;

    return position > position_before(r, found) && found->offset <= UINT32_MAX &&
           (r->n_fresh == 0 || position - r->fresh[0].position <= UINT32_MAX);
}

static enum err take_record(void *ctx, const struct journal_found *found)
{
    struct recovery *r = ctx;
    const struct journal_record *about = &found->part->about;
    uint32_t channel;
    enum err e;

    if (found->part->kind == JOURNAL_TOPICS || found->part->kind == JOURNAL_TOPICS3) {
        return learn_topics(r, found->part);
    }
    if (found->part->kind != JOURNAL_MESSAGE) {
        return ERR_OK;
    }
    e = journal_index_take(r->index, &channel, about->name, UINT32_MAX);
    if (e) {
        return e;
    }
    if (!is_in_order(r, found)) {
        return ERR_OK;
    }
    e = keep_damaged(r, position_before(r, found), found);
    return e ? e : keep_entry(r, channel, found);
}

/* Numbers are used up when the record could be seen: by a batch that is complete, or was. */
static void learn_entries(struct recovery *r)
{
    size_t n = r->now->damaged ? r->n_fresh : r->whole;

    for (size_t i = 0; i < n; i++) {
        const struct journal_fresh *e = &r->fresh[i];

        if (e->channel != JOURNAL_DAMAGED) {
            learn_record(r, e->channel, (enum feed_topic)e->topic, e->seq, e->position);
        }
    }
}

/* What stood at the damaged end of the file that was indexed before this one, and in files between
 * them whose header is lost. */
static enum err index_tail(struct recovery *r, uint64_t next)
{
    struct journal_index *x = r->index;
    struct journal_file *f = x->n_files > 0 ? &x->files[x->n_files - 1] : NULL;
    uint64_t n = f ? records_in(r->tail, r->position, next) : 0;
    enum err e = n > 0 ? journal_index_room_entries(f, n) : ERR_OK;

    for (uint64_t i = 1; i <= n && !e; i++) {
        const struct journal_fresh one = damaged_record(r->position + i, f->bytes, f->last_ns);

        journal_index_add(x, &one);
    }
    r->out->damaged_records += e ? 0 : n;
    return e;
}

/* What counts of the file goes into the index. A topic's numbers must grow: find relies on it. */
static enum err index_file(struct recovery *r)
{
    struct journal_index *x = r->index;
    struct journal_file *f;
    enum err e = journal_index_room_file(x);

    if (e) {
        return e;
    }
    learn_entries(r);
    journal_index_add_file(x, r->now->number, r->now->seed);
    f = &x->files[x->n_files - 1];
    e = journal_index_room_entries(f, r->whole);
    for (size_t i = 0; i < r->whole && !e; i++) {
        const struct journal_fresh *record = &r->fresh[i];
        enum feed_topic topic = (enum feed_topic)record->topic;

        if (record->channel == JOURNAL_DAMAGED) {
            journal_index_add(x, record);
            continue;
        }
        if (journal_index_newest(x, record->channel, topic) >= record->seq) {
            continue;
        }
        e = journal_index_room_spot(&x->channels[record->channel], topic);
        if (!e) {
            journal_index_add(x, record);
        }
    }
    if (r->whole < r->n_fresh) { /* a batch that never was complete, at the end */
        r->now->end = r->fresh[r->whole].offset;
    }
    r->out->first_ns = r->whole > 0 ? r->fresh[0].stored_ns : 0;
    journal_index_grew(x, r->now->size);
    return e;
}

static enum err read_open(struct recovery *r, struct fio_file *f)
{
    const struct fio *fio = r->fio;
    struct journal_scan job = {fio, f, 0, take_record, r};
    struct journal_scanned done = {.end = 0};
    uint64_t tail;
    enum err e = fio->size(fio->ctx, f, &job.size);

    r->now->size = job.size;
    if (e) {
        return e;
    }
    e = journal_format_scan(&done, &job);
    if (e == ERR_CORRUPT) {
        r->now->fate = job.size < JOURNAL_HEADER_BYTES ? TORN : BLIND;
        r->tail += r->now->fate == BLIND ? job.size : 0;
        return ERR_OK;
    }
    if (e) {
        return e;
    }
    r->now->end = done.end;
    tail = job.size - done.end;
    r->now->epoch = done.header.epoch;
    r->now->seed = done.header.seed;
    r->now->damaged = done.damaged;
    r->now->header = done.header.damaged;
    if (!r->now->numbered && done.damaged == 0) {
        r->now->fate = TORN;
        return ERR_OK;
    }
    if (tail > 0 && r->now != &r->files[r->n - 1]) {
        r->whole = r->n_fresh; /* the end of the batch is what is damaged */
    }
    e = index_tail(r, r->n_fresh ? r->fresh[0].position : done.header.position);
    r->position = greater(r->position, done.header.position - 1);
    if (!e) {
        e = index_file(r);
    }
    r->tail = tail;
    return e;
}

static enum err read_file(struct recovery *r, struct found_file *file, struct errmsg *why)
{
    const struct fio *fio = r->fio;
    char *path = fio_name_path(r->dir, JOURNAL_PREFIX, file->number, JOURNAL_SUFFIX);
    struct fio_file *f;
    enum err e = path ? fio->open(fio->ctx, &f, path) : ERR_NOMEM;

    r->now = file;
    r->n_fresh = r->whole = 0;
    if (!e) {
        e = read_open(r, f);
        fio->close(fio->ctx, f);
    }
    if (e == ERR_VERSION) {
        errmsg_set(why, e, "%s was written by a newer version of the collector: use that one",
                   path);
    } else if (e) {
        errmsg_set(why, e, "cannot read %s: %s", path ? path : r->dir, err_text(e));
    }
    mem_free(path);
    return e;
}

/* -- all of them -- */

/* Of what is not read; its files go when the journal goes on in another one. */
static enum err count_unread(struct recovery *r, const struct found_file *newest)
{
    struct journal_recovered *out = r->out;

    out->unread = mem_array(r->n + 1, sizeof *out->unread);
    if (!out->unread) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < r->n; i++) {
        const struct found_file *f = &r->files[i];

        if (f->fate == READ) {
            out->damaged_bytes += f->damaged + f->header;
            out->damaged_bytes += f != newest || f->damaged ? f->size - f->end : 0;
            continue;
        }
        out->damaged_bytes += f->fate == BLIND ? f->size : 0;
        out->torn_bytes += f->fate == TORN ? f->size : 0;
        out->unread[out->n_unread++] = f->number;
    }
    return ERR_OK;
}

static enum err conclude(struct recovery *r)
{
    struct journal_recovered *out = r->out;
    const struct found_file *newest = r->n ? &r->files[r->n - 1] : NULL;
    bool blind, known;
    enum err e = ERR_OK;

    while (newest && newest->fate == TORN) {
        newest = newest > r->files ? newest - 1 : NULL;
    }
    blind = newest && (newest->fate == BLIND || !newest->numbered);
    known = newest && !blind;
    out->number = r->n ? r->files[r->n - 1].number : 0;
    out->position = r->position + 1 + (blind ? FAR_ABOVE : 0);
    if (known) {
        out->epoch = newest->epoch;
    } else {
        e = os_random(&out->epoch, sizeof out->epoch);
        out->epoch |= 1; /* 0 is none */
    }
    out->sound = known && newest->damaged + newest->header == 0;
    out->end = newest ? newest->end : 0;
    return e ? e : count_unread(r, newest);
}

enum err journal_recover(struct journal_recovered *out, struct journal_index *index,
                         const struct fio *fio, const char *dir, struct errmsg *why)
{
    struct recovery r = {.out = out, .index = index, .fio = fio, .dir = dir};
    enum err e = os_list_dir(dir, collect_name, &r);

    if (e) {
        errmsg_set(why, e, "cannot list %s: %s", dir, err_text(e));
    } else if (r.n > 0) {
        qsort(r.files, r.n, sizeof *r.files, reclog_by_number);
    }
    for (size_t i = 0; i < r.n && !e; i++) {
        e = read_file(&r, &r.files[i], why);
    }
    if (!e) {
        e = conclude(&r);
        if (e) {
            errmsg_set(why, e, "cannot recover %s: %s", dir, err_text(e));
        }
    }
    mem_free(r.fresh);
    mem_free(r.files);
    return e;
}

enum err journal_recover_clean(const struct journal_recovered *r, const struct fio *fio,
                               const char *dir)
{
    enum err e = ERR_OK;

    for (size_t i = 0; i < r->n_unread && !e; i++) {
        char *path = fio_name_path(dir, JOURNAL_PREFIX, r->unread[i], JOURNAL_SUFFIX);

        e = path ? fio->remove(fio->ctx, path) : ERR_NOMEM;
        mem_free(path);
    }
    return e;
}
