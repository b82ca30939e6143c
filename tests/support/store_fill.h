/* A generated fleet and a store that it fills, as fast as both go, by a clock that the caller
 * drives: what benchmarks and long tests of the collector's storage share. Batches are made first
 * (fill_make), then put (fill_put), so that one can be measured without the other. Failing ends the
 * program. Threads: one owner, one fill at a time. */
#ifndef PROCFLEET_TESTS_SUPPORT_STORE_FILL_H
#define PROCFLEET_TESTS_SUPPORT_STORE_FILL_H

#include "collector/store/read/store_read.h"
#include "collector/store/store.h"
#include "tests/support/fleetgen.h"

#define FILL_T0 INT64_C(1767225600000000000) /* 2026-01-01, first tick of every host */

struct fill_conf {
    unsigned hosts;
    struct fleetgen_conf host; /* seeds and begin are set: 1 and up, begin_ns or FILL_T0 */
    size_t ticks;              /* of a batch */
    unsigned under_way;        /* puts that may wait for their answer; 0: 64 */
};

/* What fill_conf_store gives, for changes: a large head, every limit far away, a clock that stands
 * still between two fill_set_now, sealing when fill_seal says so. */
struct store_conf fill_store_conf(const char *dir);

struct fill_batch {
    uint8_t *p;
    size_t n;
    unsigned host;
    int64_t made_ns, put_ns, took_ns; /* newest tick; monotonic; from put to the answer */
    uint64_t seq;
};

struct fill {
    struct fill_conf conf;
    struct store *store; /* the caller's */
    struct fleetgen **hosts;
    struct fill_batch *batches; /* made and not forgotten */
    size_t n_batches, cap_batches, n_put;
    uint64_t values, bytes;  /* made since fill_create */
    int64_t until_ns;        /* made so far */
    _Atomic uint64_t *acked; /* per host: highest number acknowledged, in order */
};

struct fill *fill_create(const struct fill_conf *conf);
void fill_destroy(struct fill *f); /* NULL is allowed */

void fill_open(struct fill *f, const struct store_conf *conf);
void fill_close(struct fill *f);

/* Batches of every host until the first that ends at or after until_ns, in the order of time. */
void fill_make(struct fill *f, int64_t until_ns);
/* Puts the next n of them (SIZE_MAX: all) and waits for their answers. */
void fill_put(struct fill *f, size_t n);
/* The next one, without waiting while fewer than under_way wait; fill_wait for the rest. */
void fill_put_next(struct fill *f);
void fill_wait(struct fill *f);
/* Puts all of them again: how many were known. */
size_t fill_again(struct fill *f);
void fill_forget(struct fill *f); /* the batches made so far */

/* The clock: only forwards. */
void fill_set_now(int64_t now_ns);
int64_t fill_now(void);
/* Sets the clock behind until_ns and its grace, and has the windows before sealed and what follows
 * done. */
void fill_seal(struct fill *f, int64_t until_ns);

#endif
