/* A journal and a roster in a directory of their own, and updates to put into it: what the tests of
 * subscriptions share. Failing to set up ends the test. Threads: one. */
#ifndef PROCFLEET_TESTS_COLLECTOR_SUBSCRIBE_FEED_RIG_H
#define PROCFLEET_TESTS_COLLECTOR_SUBSCRIBE_FEED_RIG_H

#include "collector/subscribe/subscriptions.h"

#define FEED_RIG_T0 INT64_C(1767225600000000000) /* 2026-01-01 */

struct feed_rig {
    char dir[256];
    const struct fio *fio;
    uint64_t batch; /* the last one given */
    struct journal *journal;
    struct subscriptions *roster; /* NULL: it could not be opened */
};

/* The clock that rosters read. */
void feed_rig_set_now(int64_t now_ns);

void feed_rig_init(struct feed_rig *r, const struct fio *fio); /* opens both */
void feed_rig_fini(struct feed_rig *r);                        /* closes, removes the directory */
/* A rig for every test, for cmocka_unit_test_prestate_setup_teardown: its last argument is the
 * struct feed_rig; files do not wait for the disk. */
int feed_rig_setup(void **state);
int feed_rig_teardown(void **state);
void feed_rig_open(struct feed_rig *r);
void feed_rig_close(struct feed_rig *r);
/* The directory without the journal's files: the next one has another epoch. */
void feed_rig_forget_journal(struct feed_rig *r);

/* One message of `n` process starts of this host, pids from `pid` on, all of them called `name`. */
void feed_rig_events(struct feed_rig *r, const char *host, uint32_t pid, size_t n,
                     const char *name);
/* One message of a row with cpu_time and working_set_size. */
void feed_rig_sample(struct feed_rig *r, const char *host, uint32_t pid, int64_t when_ns);
/* The record of `n` messages of the host's events that never were. */
void feed_rig_gap(struct feed_rig *r, const char *host, uint64_t n);
/* So much noise that every message before it goes, and those are told to the roster. */
void feed_rig_flood(struct feed_rig *r);

/* What a subscriber does: polls, and keeps the cursor of the reply. */
struct feed_rig_client {
    const char *owner, *scope, *name;
    uint8_t cursor[SUBSCRIPTIONS_CURSOR_BYTES];
    size_t cursor_n;
    struct wire_filter filter;
    bool has_filter, from_oldest;
    uint32_t max;

    /* of the last poll */
    size_t n;
    uint32_t pids[4096]; /* of events and rows, in order */
    uint64_t dropped, dropped_now;
    bool more;
    char why[512];
};

/* One of ann's, from the oldest message on. */
struct feed_rig_client feed_rig_subscriber(const char *name);
/* The last poll brought n pids: first, first + 1 and so on. */
void feed_rig_assert_pids(const struct feed_rig_client *c, size_t n, uint32_t first);

/* Polls; the cursor becomes the reply's when `keep`. */
NODISCARD enum err feed_rig_poll(struct feed_rig *r, struct feed_rig_client *c, bool keep);

#endif
