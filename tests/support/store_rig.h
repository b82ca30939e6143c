/* A store in a directory of its own and batches to put into it: what the tests of the collector's
 * storage share. Failing to set up ends the test. */
#ifndef PROCFLEET_TESTS_SUPPORT_STORE_RIG_H
#define PROCFLEET_TESTS_SUPPORT_STORE_RIG_H

#include "collector/store/read/store_read.h"
#include "collector/store/store.h"
#include "tests/support/fleetgen.h"

#define RIG_HOSTS_MAX 16
#define RIG_T0        1767225600000000000LL /* 2026-01-01 */

struct rig {
    char dir[256];
    struct store_conf conf;
    struct store *store; /* NULL while closed */
};

/* Small limits that no test of one or two hosts reaches, and a file layer that does not wait for
 * the disk (fio_unsynced); nothing is open yet. */
void rig_init(struct rig *r);
/* What the store takes for the time at which windows end: RIG_T0 (none has ended yet) until said
 * otherwise, in all rigs. */
void rig_set_now(int64_t now_ns);
int64_t rig_now(void);
void rig_fini(struct rig *r); /* closes, removes the directory */
void rig_open(struct rig *r);
void rig_close(struct rig *r);
/* A rig for every test, for cmocka_unit_test_prestate_setup_teardown: its last argument is the
 * struct rig, initialised before the test. */
int rig_setup(void **state);
int rig_teardown(void **state);

/* One batch of one generated host, ready to put. */
struct rig_batch {
    struct batch_head head;
    char host_name[64];
    void *bytes;
    size_t n;
    int64_t received_ns;
    struct host_offset clock; /* unknown, unless set */
};

/* The next batch of `ticks` ticks of the generator; received one second after its last tick. */
void rig_batch(struct rig_batch *out, struct fleetgen *g, size_t ticks);
/* The same with another stream and sequence number (stream 0: its own). */
void rig_batch_as(struct rig_batch *out, struct fleetgen *g, size_t ticks, uint64_t stream,
                  uint64_t seq);
void rig_batch_fini(struct rig_batch *b);
struct fleetgen *rig_host(uint64_t seed); /* three processes, two metrics; fleetgen_destroy */

/* Puts and waits for `done`. Gives store_put's error, or that of `done`. */
NODISCARD enum err rig_put(struct rig *r, const struct rig_batch *b);
/* Puts without waiting; `done` as in struct store_put. */
NODISCARD enum err rig_put_async(struct rig *r, const struct rig_batch *b,
                                 void (*done)(void *, enum err), void *ctx);

/* The next n batches of ten ticks, each waited for; none may fail. */
void rig_put_next(struct rig *r, struct fleetgen *g, size_t n);
/* The first n of a host of its own. */
void rig_put_host(struct rig *r, uint64_t seed, size_t n);

/* How often (host, stream, seq) is in the answers now, sealed or not. */
size_t rig_count(struct rig *r, const struct batch_head *key);
/* All batches in the answers now. */
size_t rig_count_all(struct rig *r);
/* Every batch of host i of the view, in the head and in rest segments; those have no rows. */
void rig_each(const struct store_view *v, size_t host,
              enum err (*each)(void *ctx, const struct batch *b), void *ctx);

#endif
