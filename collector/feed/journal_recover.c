/* Opening: every file is read from its beginning. Of each only what stands before its first damage
 * is indexed; sound records behind that still say which numbers were given, so that none is given
 * twice. Writing goes on in the newest file when its end is sound or torn; torn is what has no
 * sound record behind it, and nobody has seen that, since nobody sees what is not synced.
 *
 * The numbers of topics come from the newest file's checkpoint and from all records. When that file
 * cannot be read, they are not known: a new epoch begins, and positions go on far above. What the
 * next opening must know is in a new file before the damaged one goes. */
#include <stdlib.h>
#include <string.h>

#include "collector/feed/journal_impl.h"
#include "collector/feed/journal_scan.h"
#include "common/fio_name.h"
#include "common/mem.h"

#define FILES_MAX 65536u
#define FAR_ABOVE (UINT64_C(1) << 32) /* more records than a file holds */

enum fate { READ, TORN, BLIND }; /* torn: never finished, nothing in it was seen */

struct found_file {
    uint64_t number, size, end, epoch, seed;
    enum fate fate;
    bool behind; /* sound records behind damage */
};

struct recovery {
    struct journal *j;
    struct found_file *files;
    size_t n, cap;
    struct found_file *now;      /* being read */
    bool topics;                 /* its checkpoint is whole */
    struct journal_fresh *fresh; /* its records, until it is known how far it counts */
    size_t n_fresh, cap_fresh, whole;
    uint64_t position; /* the greatest given so far */
};

static enum err collect_name(void *ctx, const char *name)
{
    struct recovery *r = ctx;
    uint64_t number;

    if (!fio_name_parse(&number, name, JOURNAL_PREFIX, ".log")) {
        return ERR_OK;
    }
    if (r->n == FILES_MAX) {
        return ERR_FULL;
    }
    if (r->n == r->cap) {
        size_t cap = r->cap ? r->cap * 2 : 32;
        struct found_file *grown = mem_realloc_array(r->files, cap, sizeof *grown);

        if (!grown) {
            return ERR_NOMEM;
        }
        r->files = grown;
        r->cap = cap;
    }
    r->files[r->n++] = (struct found_file){.number = number};
    return ERR_OK;
}

static int by_number(const void *a, const void *b)
{
    const struct found_file *x = a, *y = b;

    return x->number < y->number ? -1 : x->number > y->number;
}

/* -- one file -- */

static uint64_t greater(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static enum err learn_numbers(struct recovery *r, const struct journal_topic *t)
{
    struct journal_index *x = &r->j->index;
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
        e = journal_topic_parse(&t, &p, &n);
        if (!e) {
            e = learn_numbers(r, &t);
        }
    }
    r->topics = r->topics || (e == ERR_END && !part->about.more);
    return e == ERR_END || e == ERR_CORRUPT ? ERR_OK : e;
}

static enum err keep_entry(struct recovery *r, uint32_t channel, const struct journal_found *found)
{
    const struct journal_record *about = &found->part->about;

    if (r->n_fresh == r->cap_fresh) {
        size_t cap = r->cap_fresh ? r->cap_fresh * 2 : 256;
        struct journal_fresh *grown = mem_realloc_array(r->fresh, cap, sizeof *grown);

        if (!grown) {
            return ERR_NOMEM;
        }
        r->fresh = grown;
        r->cap_fresh = cap;
    }
    r->fresh[r->n_fresh++] = (struct journal_fresh){.position = about->position,
                                                    .seq = about->seq,
                                                    .stored_ns = about->stored_ns,
                                                    .channel = channel,
                                                    .offset = (uint32_t)found->offset,
                                                    .n = (uint32_t)about->n,
                                                    .topic = (uint8_t)about->topic};
    if (!about->more) {
        r->whole = r->n_fresh;
    }
    return ERR_OK;
}

static void learn_record(struct recovery *r, uint32_t channel, enum feed_topic topic, uint64_t seq,
                         uint64_t position)
{
    struct journal_channel *c = &r->j->index.channels[channel];

    c->last[topic] = c->seq[topic] = greater(c->seq[topic], seq);
    r->position = greater(r->position, position);
}

/* Anything else is not ours. */
static bool is_in_order(const struct recovery *r, const struct journal_found *found)
{
    uint64_t position = found->part->about.position;
    uint64_t before = r->n_fresh ? r->fresh[r->n_fresh - 1].position : r->position;

    return position > before && found->offset <= UINT32_MAX &&
           (r->n_fresh == 0 || position - r->fresh[0].position <= UINT32_MAX);
}

static enum err take_record(void *ctx, const struct journal_found *found)
{
    struct recovery *r = ctx;
    const struct journal_record *about = &found->part->about;
    uint32_t channel;
    enum err e;

    r->now->behind = r->now->behind || found->behind;
    if (found->part->kind == JOURNAL_TOPICS) {
        return learn_topics(r, found->part);
    }
    if (found->part->kind != JOURNAL_MESSAGE) {
        return ERR_OK;
    }
    e = journal_index_take(&r->j->index, &channel, about->name, UINT32_MAX);
    if (e) {
        return e;
    }
    if (found->behind) {
        learn_record(r, channel, about->topic, about->seq, about->position);
        return ERR_OK;
    }
    return is_in_order(r, found) ? keep_entry(r, channel, found) : ERR_OK;
}

/* Numbers are used up when the record could be seen: by a batch that is complete, or was. */
static void learn_entries(struct recovery *r)
{
    size_t n = r->now->behind ? r->n_fresh : r->whole;

    for (size_t i = 0; i < n; i++) {
        const struct journal_fresh *e = &r->fresh[i];

        learn_record(r, e->channel, (enum feed_topic)e->topic, e->seq, e->position);
    }
}

/* What counts of the file goes into the index. A topic's numbers must grow: find relies on it. */
static enum err index_file(struct recovery *r)
{
    struct journal_index *x = &r->j->index;
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
    r->j->out_first_ns = r->whole > 0 ? r->fresh[0].stored_ns : 0;
    journal_index_grew(x, r->now->size);
    return e;
}

static enum err read_open(struct recovery *r, struct fio_file *f)
{
    const struct fio *fio = r->j->conf.fio;
    struct journal_scan job = {fio, f, 0, take_record, r};
    struct journal_scanned done = {.end = 0};
    enum err e = fio->size(fio->ctx, f, &job.size);

    r->now->size = job.size;
    if (e) {
        return e;
    }
    e = journal_scan(&done, &job);
    if (e == ERR_CORRUPT) {
        r->now->fate = job.size < JOURNAL_HEADER_BYTES ? TORN : BLIND;
        return ERR_OK;
    }
    if (e) {
        return e;
    }
    r->now->end = done.end;
    r->now->epoch = done.header.epoch;
    r->now->seed = done.header.seed;
    if (!r->topics) {
        r->now->fate = r->now->behind ? BLIND : TORN;
        return ERR_OK;
    }
    r->position = greater(r->position, done.header.position - 1);
    return index_file(r);
}

static enum err read_file(struct recovery *r, struct found_file *file, struct errmsg *why)
{
    const struct fio *fio = r->j->conf.fio;
    char *path = journal_path(r->j, file->number);
    struct fio_file *f;
    enum err e = path ? fio->open(fio->ctx, &f, path) : ERR_NOMEM;

    r->now = file;
    r->topics = false;
    r->n_fresh = r->whole = 0;
    if (!e) {
        e = read_open(r, f);
        fio->close(fio->ctx, f);
    }
    if (e == ERR_VERSION) {
        errmsg_set(why, e, "%s was written by a newer version of the collector: use that one",
                   path);
    } else if (e) {
        errmsg_set(why, e, "cannot read %s: %s", path ? path : r->j->dir, err_text(e));
    }
    mem_free(path);
    return e;
}

/* -- all of them -- */

/* The newest file again as the one to write to: its torn end is cut, durably. */
static enum err resume(struct journal *j, const struct found_file *file)
{
    const struct fio *fio = j->conf.fio;
    char *path = journal_path(j, file->number);
    enum err e = path ? fio->open(fio->ctx, &j->out, path) : ERR_NOMEM;

    mem_free(path);
    if (!e && file->end < file->size) {
        j->stats.torn_bytes += file->size - file->end;
        j->index.files[j->index.n_files - 1].bytes = file->end;
        j->index.bytes -= file->size - file->end;
        e = fio->truncate(fio->ctx, j->out, file->end);
    }
    if (!e) {
        e = fio->sync(fio->ctx, j->out);
    }
    if (!e) {
        e = fio->sync_dir(fio->ctx, j->dir);
    }
    j->out_bytes = file->end;
    j->out_seed = file->seed;
    return e;
}

static enum err remove_unread(struct recovery *r, const struct found_file *newest)
{
    const struct fio *fio = r->j->conf.fio;
    enum err e = ERR_OK;

    for (size_t i = 0; i < r->n && !e; i++) {
        const struct found_file *f = &r->files[i];
        char *path = f->fate != READ ? journal_path(r->j, f->number) : NULL;

        if (f->fate == READ) {
            r->j->stats.damaged_bytes += f != newest || f->behind ? f->size - f->end : 0;
            continue;
        }
        r->j->stats.damaged_bytes += f->fate == BLIND ? f->size : 0;
        r->j->stats.torn_bytes += f->fate == TORN ? f->size : 0;
        e = path ? fio->remove(fio->ctx, path) : ERR_NOMEM;
        mem_free(path);
    }
    return e;
}

static enum err go_on(struct recovery *r)
{
    struct journal *j = r->j;
    const struct found_file *newest = r->n ? &r->files[r->n - 1] : NULL;
    bool blind, known;
    enum err e = ERR_OK;

    while (newest && newest->fate == TORN) {
        newest = newest > r->files ? newest - 1 : NULL;
    }
    blind = newest && newest->fate == BLIND;
    known = newest && !blind;
    j->number = r->n ? r->files[r->n - 1].number : 0;
    j->position = r->position + 1 + (blind ? FAR_ABOVE : 0);
    j->next = j->position;
    if (known) {
        j->epoch = newest->epoch;
    } else {
        e = os_random(&j->epoch, sizeof j->epoch);
        j->epoch |= 1; /* 0 is none */
    }
    if (!e && known && !newest->behind) {
        e = resume(j, newest);
    } else if (!e) {
        e = journal_begin(j);
        e = e ? e : journal_sync(j);
    }
    return e ? e : remove_unread(r, newest);
}

enum err journal_recover(struct journal *j, struct errmsg *why)
{
    struct recovery r = {.j = j};
    enum err e = os_list_dir(j->dir, collect_name, &r);

    if (e) {
        errmsg_set(why, e, "cannot list %s: %s", j->dir, err_text(e));
    } else if (r.n > 0) {
        qsort(r.files, r.n, sizeof *r.files, by_number);
    }
    for (size_t i = 0; i < r.n && !e; i++) {
        e = read_file(&r, &r.files[i], why);
    }
    if (!e) {
        e = go_on(&r);
        if (e) {
            errmsg_set(why, e, "cannot write to %s: %s", j->dir, err_text(e));
        }
    }
    mem_free(r.fresh);
    mem_free(r.files);
    return e;
}
