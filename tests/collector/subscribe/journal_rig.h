/* A journal in a directory of its own and records to put into it: what the tests of the journal
 * share. Failing to set up ends the test. Threads: one. */
#ifndef PROCFLEET_TESTS_COLLECTOR_SUBSCRIBE_JOURNAL_RIG_H
#define PROCFLEET_TESTS_COLLECTOR_SUBSCRIBE_JOURNAL_RIG_H

#include "collector/subscribe/journal.h"

/* A test need not look at its state. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define JOURNAL_RIG_T0 INT64_C(1767225600000000000) /* 2026-01-01 */

extern char journal_rig_dir[256]; /* of this test */

struct journal_conf journal_rig_conf(const struct fio *fio);
struct journal *journal_rig_open_with(const struct journal_conf *conf);
struct journal *journal_rig_open(void);
struct journal_record journal_rig_event(unsigned host, uint64_t batch, size_t n);
/* A payload that says which batch it is, and that zstd makes smaller. */
const char *journal_rig_payload(uint64_t batch, size_t n);
struct journal_record journal_rig_add(struct journal *j, unsigned host, uint64_t batch);
void journal_rig_add_synced(struct journal *j, unsigned host, uint64_t batch);
/* Payloads that do not shrink, so that files fill. */
NODISCARD enum err journal_rig_add_noise(struct journal *j, unsigned host, uint64_t batch,
                                         size_t n);
size_t journal_rig_count(struct journal *j);
/* How often the batch's record is there. */
size_t journal_rig_count_batch(struct journal *j, uint64_t batch);
uint64_t journal_rig_last(struct journal *j, const char *name);
int journal_rig_setup(void **state);
int journal_rig_teardown(void **state);

#endif
