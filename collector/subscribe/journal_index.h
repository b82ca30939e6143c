/* What stands where in the journal's files: records in the order of positions, and of each topic in
 * the order of its numbers. Only what finds a record and tells whom it may be for; the rest is read
 * from the file (journal.c), so that a record takes some 30 bytes of memory, 20 here and 8 in
 * its topic. Threads: the journal's lock. Whole files go, the oldest first. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_JOURNAL_INDEX_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_JOURNAL_INDEX_H

#include "collector/subscribe/journal_format.h"

/* In the place of a channel: of a record that is damaged. It is known to have been there, and
 * cannot be read. */
#define JOURNAL_DAMAGED UINT32_MAX

/* A record as it is kept. */
struct journal_entry {
    uint32_t position; /* behind the file's first */
    uint32_t seq;      /* its lower half; a topic's kept numbers are closer than that */
    uint32_t topic;    /* channel * FEED_TOPICS + enum feed_topic, or JOURNAL_DAMAGED */
    uint32_t offset;   /* in its file */
    uint32_t n;        /* of the payload, unpacked */
};

/* A record on its way in. */
struct journal_fresh {
    uint64_t position, seq;
    int64_t stored_ns;
    uint32_t channel, offset, n;
    uint8_t topic;
};

struct journal_file {
    uint64_t number, seed, bytes;
    uint64_t position;         /* of its first record */
    int64_t first_ns, last_ns; /* stored_ns of the first and the last */
    struct journal_entry *entries;
    size_t n, cap;
    size_t damaged; /* of n */
};

/* Where a topic's records are: the file as a number since opening, and which of its entries. */
struct journal_spot {
    uint32_t file, entry;
};

struct journal_spots {
    struct journal_spot *all;
    size_t first, n, cap;
    size_t waiting; /* room kept for what is not synced yet */
};

struct journal_channel {
    char name[MODEL_HOST_NAME_MAX + 1];
    uint64_t seq[FEED_TOPICS];  /* the newest given */
    uint64_t last[FEED_TOPICS]; /* the newest that readers may know of */
    struct journal_spots spots[FEED_TOPICS];
};

struct journal_index {
    struct journal_file *files;
    size_t n_files, cap_files;
    uint32_t dropped; /* files before the first */
    struct journal_channel *channels;
    uint32_t *by_name; /* indices of channels */
    size_t n_channels, cap_channels;
    uint64_t floor[FEED_TOPICS]; /* numbers of topics that were forgotten */
    uint64_t records, bytes;
};

void journal_index_fini(struct journal_index *x);

/* NULL: no such channel. */
struct journal_channel *journal_index_channel(const struct journal_index *x, const char *name);
/* Its index; made when there is none: in place of one without records when there are `max`.
 * Errors: ERR_FULL, ERR_NOMEM */
NODISCARD enum err journal_index_take(struct journal_index *x, uint32_t *out, const char *name,
                                      size_t max);

/* Room, so that the adding cannot fail. Errors: ERR_NOMEM */
NODISCARD enum err journal_index_room_file(struct journal_index *x);
NODISCARD enum err journal_index_room_entries(struct journal_file *f, size_t more);
NODISCARD enum err journal_index_room_spot(struct journal_channel *c, enum feed_topic topic);

/* Adds to the newest file. */
void journal_index_add_file(struct journal_index *x, uint64_t number, uint64_t seed);
void journal_index_add(struct journal_index *x, const struct journal_fresh *r);
void journal_index_grew(struct journal_index *x, uint64_t bytes); /* the newest file */
void journal_index_drop_oldest(struct journal_index *x);

/* The first record at or behind the position: file and entry; false: none. */
bool journal_index_at(const struct journal_index *x, uint64_t position, size_t *file,
                      size_t *entry);
/* The topic's first record with at least this number. */
bool journal_index_find(const struct journal_index *x, const struct journal_channel *c,
                        enum feed_topic topic, uint64_t seq, size_t *file, size_t *entry);

/* The number of its last record kept; 0: none is. */
uint64_t journal_index_newest(const struct journal_index *x, uint32_t channel,
                              enum feed_topic topic);

/* Where a record stands, and what is known without reading it. */
struct journal_place {
    uint64_t position, seq;
    enum feed_topic topic;
    const char *name;    /* valid under the lock; empty: its host is unknown */
    uint64_t file, seed; /* the file's number */
    uint32_t offset, n;
    uint64_t bytes; /* at most, from the offset on */
};
void journal_index_place(const struct journal_index *x, size_t file, size_t entry,
                         struct journal_place *out);

#endif
