/* What is kept of one subscription, and its file. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_SUBSCRIBE_SUBSCRIPTIONS_FILE_H
#define PROCFLEET_COLLECTOR_SUBSCRIBE_SUBSCRIPTIONS_FILE_H

#include "collector/subscribe/subscriptions_cursor.h"
#include "common/os/fio.h"
#include "common/wire/wire_feed.h"

#define SUBSCRIPTIONS_FILE_MAX  (16u << 10)
#define SUBSCRIPTIONS_OWNER_MAX 63u
#define SUBSCRIPTIONS_SCOPE_MAX 127u

struct subscriptions_state {
    uint64_t number; /* of its file */
    char name[WIRE_FEED_NAME_MAX + 1];
    char owner[SUBSCRIPTIONS_OWNER_MAX + 1];
    char scope[SUBSCRIPTIONS_SCOPE_MAX + 1]; /* of the certificate that polled last */
    struct wire_filter filter;               /* texts borrow from `bytes` */
    int64_t created_ns, polled_ns;           /* UTC */
    struct subscriptions_cursor at;          /* acknowledged */
    uint64_t floor;              /* records before this position were counted or looked at */
    uint64_t lost, lost_end;     /* messages behind `at` that went unread; behind the last */
    uint64_t dropped, delivered; /* messages; events and rows */
    uint8_t *bytes;              /* as in the file; owned, NULL for one that borrows */
};

/* Whether this may be a subscription's name. */
bool subscriptions_file_name_ok(struct str name);

/* Appends the file's content. */
void subscriptions_file_encode(struct buf *out, const struct subscriptions_state *s);
/* Errors: ERR_CORRUPT, ERR_VERSION, ERR_NOMEM */
NODISCARD enum err subscriptions_file_decode(struct subscriptions_state *out, const void *p,
                                             size_t n);
void subscriptions_file_fini(struct subscriptions_state *s);

/* Replaces the file as a whole, durably. Errors: those of fio, ERR_NOMEM, ERR_FULL */
NODISCARD enum err subscriptions_file_write(const struct fio *fio, const char *dir,
                                            const struct subscriptions_state *s);
/* Errors: those of fio and subscriptions_file_decode, ERR_CORRUPT (the number is another's) */
NODISCARD enum err subscriptions_file_read(struct subscriptions_state *out, const struct fio *fio,
                                           const char *dir, uint64_t number);
NODISCARD enum err subscriptions_file_remove(const struct fio *fio, const char *dir,
                                             uint64_t number);

/* Calls `each` with the number of every file; leftovers of writes that were cut off are removed.
 * Errors: ERR_IO, ERR_ACCESS, ERR_NOMEM, what `each` gives */
NODISCARD enum err subscriptions_files(const struct fio *fio, const char *dir,
                                       enum err (*each)(void *ctx, uint64_t number), void *ctx);
/* A file that cannot be read is renamed. */
NODISCARD enum err subscriptions_file_aside(const struct fio *fio, const char *dir,
                                            uint64_t number);

#endif
