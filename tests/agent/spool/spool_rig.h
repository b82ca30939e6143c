/* A spool in a directory of its own, and small batches with samples and events: what the tests of
 * the spool share. Failing to set up ends the test. Threads: one. */
#ifndef PROCFLEET_TESTS_AGENT_SPOOL_SPOOL_RIG_H
#define PROCFLEET_TESTS_AGENT_SPOOL_SPOOL_RIG_H

#include "agent/spool/spool.h"
#include "common/wire/wire_batch.h"
#include "tests/support/t.h"

/* A test need not look at its state. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

enum { RIG_TICKS = 4, RIG_RUNS = 3, RIG_EVENTS = 2 };
#define RIG_ROWS    (RIG_TICKS * RIG_RUNS)
#define RIG_LONG_NS (30 * CLK_S) /* nothing takes so long */

extern char rig_dir[256]; /* of this test */
extern struct buf rig_content;
int rig_setup(void **state);
int rig_teardown(void **state);

/* An encoded batch of RIG_ROWS rows and RIG_EVENTS events, the same for the same numbers. */
void rig_batch(struct buf *out, uint64_t stream, uint64_t seq);
/* Of one reason of stage "spool" in a decoded batch. */
uint64_t rig_told(const struct batch *b, const char *reason);

/* The files alone, in rig_dir; batches of up to an hour are kept. */
struct spool_disk *rig_disk_open(const struct fio *fio, uint64_t max_bytes);
struct spool_disk_stats rig_disk_stats(const struct spool_disk *d);
const char *rig_segment_path(unsigned number); /* until the next call */

/* All of it: the next batch; one that comes, waited for, or the end. */
void rig_put(struct spool *s);
NODISCARD enum err rig_try_take(struct spool *s, struct outbox_item *out);
struct spool_stats rig_stats(struct spool *s);

#endif
