#include "collector/subscribe/journal_index.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/base/vec.h"

_Static_assert(sizeof(struct journal_entry) + sizeof(struct journal_spot) <= 30,
               "docs/limits.md says what a record takes");

static void channel_fini(struct journal_channel *c)
{
    for (unsigned t = 0; t < FEED_TOPICS; t++) {
        mem_free(c->spots[t].all);
    }
}

void journal_index_fini(struct journal_index *x)
{
    for (size_t i = 0; i < x->n_files; i++) {
        mem_free(x->files[i].entries);
    }
    for (size_t i = 0; i < x->n_channels; i++) {
        channel_fini(&x->channels[i]);
    }
    mem_free(x->files);
    mem_free(x->channels);
    mem_free(x->by_name);
    *x = (struct journal_index){0};
}

/* -- channels -- */

/* Where the name is, or is to be put, in by_name. */
static size_t name_search(const struct journal_index *x, const char *name, bool *found)
{
    size_t i;

    SEARCH_LOWER(i, x->n_channels, strcmp(x->channels[x->by_name[i]].name, name) < 0);
    *found = i < x->n_channels && strcmp(x->channels[x->by_name[i]].name, name) == 0;
    return i;
}

struct journal_channel *journal_index_channel(const struct journal_index *x, const char *name)
{
    bool found;
    size_t at = name_search(x, name, &found);

    return found ? &x->channels[x->by_name[at]] : NULL;
}

static bool is_idle(const struct journal_channel *c)
{
    for (unsigned t = 0; t < FEED_TOPICS; t++) {
        if (c->spots[t].n + c->spots[t].waiting > 0) {
            return false;
        }
    }
    return true;
}

/* A topic that comes back must not seem to begin anew: its numbers go on above all forgotten. */
static bool forget_one(struct journal_index *x, uint32_t *slot)
{
    for (size_t i = 0; i < x->n_channels; i++) {
        struct journal_channel *c = &x->channels[x->by_name[i]];

        if (!is_idle(c)) {
            continue;
        }
        for (unsigned t = 0; t < FEED_TOPICS; t++) {
            x->floor[t] = c->seq[t] > x->floor[t] ? c->seq[t] : x->floor[t];
        }
        *slot = x->by_name[i];
        channel_fini(c);
        x->n_channels--;
        memmove(x->by_name + i, x->by_name + i + 1, (x->n_channels - i) * sizeof *x->by_name);
        return true;
    }
    return false;
}

static enum err channel_room(struct journal_index *x)
{
    size_t cap = x->cap_channels;
    enum err e = VEC_ROOM(&x->channels, &cap, x->n_channels + 1, UINT32_MAX);

    cap = x->cap_channels;
    if (!e) {
        e = VEC_ROOM(&x->by_name, &cap, x->n_channels + 1, UINT32_MAX);
    }
    if (!e) {
        x->cap_channels = cap;
    }
    return e;
}

enum err journal_index_take(struct journal_index *x, uint32_t *out, const char *name, size_t max)
{
    bool found;
    size_t at = name_search(x, name, &found);
    struct journal_channel *c;
    uint32_t slot = (uint32_t)x->n_channels;
    enum err e;

    if (found) {
        *out = x->by_name[at];
        return ERR_OK;
    }
    if (x->n_channels >= max && !forget_one(x, &slot)) {
        return ERR_FULL;
    }
    e = channel_room(x);
    if (e) {
        return e;
    }
    at = name_search(x, name, &found);
    memmove(x->by_name + at + 1, x->by_name + at, (x->n_channels - at) * sizeof *x->by_name);
    x->by_name[at] = slot;
    x->n_channels++;
    c = &x->channels[slot];
    *c = (struct journal_channel){.name = {0}};
    memcpy(c->name, name, strnlen(name, sizeof c->name - 1));
    memcpy(c->seq, x->floor, sizeof c->seq);
    memcpy(c->last, x->floor, sizeof c->last);
    *out = slot;
    return ERR_OK;
}

/* -- room -- */

enum err journal_index_room_file(struct journal_index *x)
{
    return VEC_ROOM(&x->files, &x->cap_files, x->n_files + 1, UINT32_MAX);
}

enum err journal_index_room_entries(struct journal_file *f, size_t more)
{
    return VEC_ROOM(&f->entries, &f->cap, f->n + more, UINT32_MAX);
}

enum err journal_index_room_spot(struct journal_channel *c, enum feed_topic topic)
{
    struct journal_spots *s = &c->spots[topic];
    size_t need = s->n + s->waiting + 1;

    if (s->first > 0 && s->first + need > s->cap) {
        memmove(s->all, s->all + s->first, s->n * sizeof *s->all);
        s->first = 0;
    }
    return VEC_ROOM(&s->all, &s->cap, s->first + need, SIZE_MAX);
}

/* -- files and records -- */

/* What was room for more in a file that is full. */
static void give_back(struct journal_file *f)
{
    struct journal_entry *fit = f->n ? mem_realloc_array(f->entries, f->n, sizeof *fit) : NULL;

    if (fit) {
        f->entries = fit;
        f->cap = f->n;
    }
}

void journal_index_add_file(struct journal_index *x, uint64_t number, uint64_t seed)
{
    if (x->n_files > 0) {
        give_back(&x->files[x->n_files - 1]);
    }
    x->files[x->n_files++] = (struct journal_file){.number = number, .seed = seed};
}

void journal_index_add(struct journal_index *x, const struct journal_fresh *r)
{
    struct journal_file *f = &x->files[x->n_files - 1];
    bool damaged = r->channel == JOURNAL_DAMAGED;

    if (f->n == 0) {
        f->position = r->position;
        f->first_ns = r->stored_ns;
    }
    f->last_ns = r->stored_ns;
    if (!damaged) {
        struct journal_spots *s = &x->channels[r->channel].spots[r->topic];

        s->all[s->first + s->n++] =
            (struct journal_spot){x->dropped + (uint32_t)(x->n_files - 1), (uint32_t)f->n};
    }
    f->entries[f->n++] = (struct journal_entry){
        .position = (uint32_t)(r->position - f->position),
        .seq = (uint32_t)r->seq,
        .topic = damaged ? JOURNAL_DAMAGED : r->channel * (uint32_t)FEED_TOPICS + r->topic,
        .offset = r->offset,
        .n = r->n};
    f->damaged += damaged;
    x->records += !damaged;
}

void journal_index_grew(struct journal_index *x, uint64_t bytes)
{
    x->files[x->n_files - 1].bytes += bytes;
    x->bytes += bytes;
}

void journal_index_drop_oldest(struct journal_index *x)
{
    struct journal_file gone = x->files[0];

    for (size_t i = 0; i < gone.n; i++) {
        uint32_t topic = gone.entries[i].topic;

        if (topic != JOURNAL_DAMAGED) {
            struct journal_spots *s = &x->channels[topic / FEED_TOPICS].spots[topic % FEED_TOPICS];

            s->first++;
            s->n--;
        }
    }
    x->n_files--;
    x->dropped++;
    memmove(x->files, x->files + 1, x->n_files * sizeof *x->files);
    x->records -= gone.n - gone.damaged;
    x->bytes -= gone.bytes;
    mem_free(gone.entries);
}

/* -- looking up -- */

bool journal_index_at(const struct journal_index *x, uint64_t position, size_t *file, size_t *entry)
{
    const struct journal_file *f;
    size_t i = 0;

    while (i < x->n_files &&
           (x->files[i].n == 0 ||
            x->files[i].position + x->files[i].entries[x->files[i].n - 1].position < position)) {
        i++;
    }
    if (i == x->n_files) {
        return false;
    }
    f = &x->files[i];
    *file = i;
    SEARCH_LOWER(i, f->n, f->position + f->entries[i].position < position);
    *entry = i;
    return true;
}

/* The whole number: the nearest at or below the topic's newest. */
static uint64_t seq_of(const struct journal_index *x, const struct journal_entry *e)
{
    uint64_t newest = x->channels[e->topic / FEED_TOPICS].seq[e->topic % FEED_TOPICS];

    return newest - (uint32_t)((uint32_t)newest - e->seq);
}

static const struct journal_entry *entry_of(const struct journal_index *x,
                                            const struct journal_spots *s, size_t i)
{
    struct journal_spot at = s->all[s->first + i];

    return &x->files[at.file - x->dropped].entries[at.entry];
}

uint64_t journal_index_newest(const struct journal_index *x, uint32_t channel,
                              enum feed_topic topic)
{
    const struct journal_spots *s = &x->channels[channel].spots[topic];

    return s->n ? seq_of(x, entry_of(x, s, s->n - 1)) : 0;
}

bool journal_index_find(const struct journal_index *x, const struct journal_channel *c,
                        enum feed_topic topic, uint64_t seq, size_t *file, size_t *entry)
{
    const struct journal_spots *s = &c->spots[topic];
    size_t i;

    SEARCH_LOWER(i, s->n, seq_of(x, entry_of(x, s, i)) < seq);
    if (i == s->n) {
        return false;
    }
    *file = s->all[s->first + i].file - x->dropped;
    *entry = s->all[s->first + i].entry;
    return true;
}

void journal_index_place(const struct journal_index *x, size_t file, size_t entry,
                         struct journal_place *out)
{
    const struct journal_file *f = &x->files[file];
    const struct journal_entry *e = &f->entries[entry];
    uint64_t end = entry + 1 < f->n ? f->entries[entry + 1].offset : f->bytes;

    *out = (struct journal_place){.position = f->position + e->position,
                                  .name = "",
                                  .file = f->number,
                                  .seed = f->seed,
                                  .offset = e->offset,
                                  .n = e->n,
                                  .bytes = end - e->offset};
    if (e->topic != JOURNAL_DAMAGED) {
        out->seq = seq_of(x, e);
        out->topic = (enum feed_topic)(e->topic % FEED_TOPICS);
        out->name = x->channels[e->topic / FEED_TOPICS].name;
    }
}
