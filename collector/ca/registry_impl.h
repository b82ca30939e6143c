/* What the registry*.c files share. Nobody else includes this. */
#ifndef PROCFLEET_COLLECTOR_CA_REGISTRY_IMPL_H
#define PROCFLEET_COLLECTOR_CA_REGISTRY_IMPL_H

#include "collector/ca/book.h"
#include "collector/ca/registry.h"
#include "collector/ca/roll.h"
#include "common/os/os.h"

struct registry {
    struct os_mutex *file; /* guards all down to `lock`, and is taken before it */
    struct book *book;
    struct roll fresh; /* the book written anew, until it is read to its end */
    bool building;
    bool news;             /* revocations were read that registry_refresh has not told */
    struct os_mutex *lock; /* guards what follows */
    struct roll roll;
};

/* Decides what is to be written, with everything read and nobody else writing; `lock` is held. */
typedef enum err (*registry_decide)(struct registry *r, struct entry *e, void *ctx,
                                    struct errmsg *why);

/* Reads what others appended; revocations among it are told by the next registry_refresh.
 * Errors: as registry_refresh */
NODISCARD enum err registry_catch_up(struct registry *r, struct errmsg *why);

/* One entry, durable and known here afterwards. */
NODISCARD enum err registry_write(struct registry *r, registry_decide decide, void *ctx,
                                  struct errmsg *why);

#endif
