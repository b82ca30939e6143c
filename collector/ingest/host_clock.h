/* The clocks of one host, as far as its agent's calls tell.
 *
 * Two monotonic clocks differ by a number that hardly moves, whatever anybody does to the wall
 * clocks. A Hello or Heartbeat that the agent sent at mono m and that came here at r says: the
 * difference is at most r - m. Once the agent reports that this exchange took `rtt` there and back,
 * it is at least r - m - rtt. The estimate is what all exchanges of one boot allow, widened by
 * HOST_CLOCK_DRIFT_PPM as they grow old; its error is half of what is left. Exchanges that
 * contradict it mean that the host slept or was restored, and begin it anew; the differences before
 * are remembered for batches from before.
 *
 * What a host's wall clock shows more than its monotonic one is read off the last call. So a wall
 * clock that jumps, here or there, is known with the next call and spoils nothing.
 *
 * Bounds:  HOST_CLOCK_BOOTS boots, the one heard longest ago goes; HOST_CLOCK_STEPS differences.
 * Threads: the caller's lock guards it. Plain data, valid when zeroed. */
#ifndef PROCFLEET_COLLECTOR_INGEST_HOST_CLOCK_H
#define PROCFLEET_COLLECTOR_INGEST_HOST_CLOCK_H

#include <stddef.h>

#include "collector/store/host_offset.h"
#include "common/wire/wire_batch.h"

#define HOST_CLOCK_DRIFT_PPM 200 /* two cheap clocks and a correction that slews one of them */
#define HOST_CLOCK_BOOTS     3
#define HOST_CLOCK_STEPS     4
#define HOST_CLOCK_SENT      4 /* exchanges whose round trip may still be reported */

/* One moment by the collector's two clocks. */
struct clock_moment {
    int64_t utc_ns, mono_ns;
};

/* What an agent reports of its clocks (wire_rpc.h). mono_ns 0: it has only a wall clock. */
struct clock_told {
    struct uuid boot;
    int64_t wall_ns, mono_ns;
    int64_t last_mono_ns, last_rtt_ns; /* 0: nothing measured */
};

/* Our monotonic clock minus the host's is one of [low_ns, high_ns]. */
struct clock_span {
    bool bounded; /* low_ns holds */
    int64_t low_ns, high_ns;
};

struct host_clock {
    struct uuid boot;
    bool by_wall; /* its wall clock stands in for the monotonic one */
    struct clock_span span;
    int64_t at_ns;    /* when it was so, by our monotonic clock */
    int64_t ahead_ns; /* the host's wall clock minus its monotonic one */
    size_t n_steps;
    struct clock_span steps[HOST_CLOCK_STEPS]; /* before the host slept, oldest first */
    size_t n_sent;
    struct {
        int64_t sent_ns, received_ns; /* by the host's monotonic clock, by ours */
    } sent[HOST_CLOCK_SENT];          /* oldest first */
};

struct host_clocks {
    size_t n;
    struct host_clock at[HOST_CLOCK_BOOTS]; /* the boot heard last first */
};

/* A Hello or Heartbeat came now. */
void host_clocks_note(struct host_clocks *c, const struct clock_told *told,
                      const struct clock_moment *now);

/* A batch of this boot came now: its last tick shows how far the wall clock is ahead. */
void host_clocks_note_batch(struct host_clocks *c, const struct batch *b,
                            const struct clock_moment *now);

/* The host's wall clock as it is now, by the boot heard last. */
struct host_offset host_clocks_now(const struct host_clocks *c, const struct clock_moment *now);

/* The host's wall clock when it made this batch: by the monotonic stamps in it where its boot is
 * known, else as host_clocks_now. A monotonic clock that puts the batch behind now or before
 * oldest_ns (UTC) is not believed where the wall clock is more sensible. Recordings go by the wall
 * clock: their monotonic stamps are of another time. */
struct host_offset host_clocks_batch(const struct host_clocks *c, const struct batch *b,
                                     const struct clock_moment *now, int64_t oldest_ns);

#endif
