/* Buffers of a trace file and the log-file header in the first of them. Pure functions over bytes
 * from outside; every length is checked. The layout is that which etl_buffer.c reads.
 * Threads: any. */
#ifndef PROCFLEET_AGENT_SOURCE_TRACE_ETL_BUFFER_H
#define PROCFLEET_AGENT_SOURCE_TRACE_ETL_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/clk.h"
#include "common/base/err.h"

#define ETL_BUFFER_HEADER 0x48
#define ETL_BUFFER_MAX    (16u << 20) /* bytes, packed or unpacked: the most Windows allows */
#define ETL_BUFFER_TYPES  16          /* told apart; the last one: all others */

enum etl_buffer_flag {
    ETL_BUFFER_EVENTS_LOST = 2,
    ETL_BUFFER_BUFFER_LOST = 4,
    ETL_BUFFER_WIDE_CPU = 0x20,
    ETL_BUFFER_COMPRESSED = 0x40,
};

struct etl_buffer {
    uint32_t size;   /* bytes in the file, header included: the step to the next one */
    uint32_t filled; /* valid bytes once unpacked, header included */
    uint16_t cpu, flags, type;
};

/* Reads the header at `p`; the body need not be there. Errors: ERR_CORRUPT (too short, impossible
 * sizes) */
NODISCARD enum err etl_buffer_read(struct etl_buffer *out, const uint8_t *p, size_t n);

/* Whether flags, type, state and fill of a header can be true. `p` as accepted by etl_buffer_read.
 */
bool etl_buffer_shaped(const struct etl_buffer *b, const uint8_t *p);

/* Whether a header that was found by searching damaged input deserves belief. `p` as accepted by
 * etl_buffer_read; buffer_size = the size the log-file header gives for unpacked buffers. */
bool etl_buffer_plausible(const struct etl_buffer *b, const uint8_t *p, uint32_t buffer_size);

enum etl_clock { ETL_CLOCK_COUNTER = 1, ETL_CLOCK_SYSTEM = 2, ETL_CLOCK_CYCLES = 3 };

#define ETL_MODE_CIRCULAR 2u

#define ETL_LOG_NAME 512 /* bytes of UTF-8, cut */

/* TRACE_LOGFILE_HEADER, the payload of the first record. */
struct etl_log_header {
    /* As stored: times FILETIME, timer_resolution 100 ns, maximum_file_size MiB. */
    uint32_t buffer_size;
    uint8_t major, minor, sub, sub_minor;
    uint32_t build;
    uint32_t cpus;
    uint64_t end_time;
    uint32_t timer_resolution, maximum_file_size;
    uint32_t mode;
    uint32_t buffers_written, start_buffers;
    uint32_t stored_pointer_size;
    uint32_t events_lost, buffers_lost;
    uint32_t cpu_mhz;
    int32_t time_zone_bias; /* minutes */
    uint64_t boot_time, stored_frequency, start_time;
    uint32_t clock; /* enum etl_clock, or what the file says */
    char session_name[ETL_LOG_NAME], file_name[ETL_LOG_NAME];

    /* Made of it. */
    uint8_t pointer_size; /* of the first record, not of the others */
    uint64_t frequency;   /* of that clock, Hz, never 0 */
    int64_t whole_ns;     /* ns of a tick, 0 when that is no whole number */
    int64_t zero_ticks;   /* the first record's own stamp: relative time 0 */
    int64_t start_ns;     /* UTC at zero_ticks */
    int64_t span_ns;      /* from start to end; 0 = the recording was not closed properly */
    int64_t boot_ns;      /* UTC of the host's boot; 0 = not said */
};

/* `p` is the first buffer, header included; it may end early behind the log-file header.
 * Errors: ERR_CORRUPT (not a trace file), ERR_NOMEM */
NODISCARD enum err etl_buffer_log_header(struct etl_log_header *out, const uint8_t *p, size_t n);

/* A stamp of the file's clock in nanoseconds since zero_ticks; saturates. */
static inline int64_t etl_buffer_ns(const struct etl_log_header *h, int64_t ticks)
{
    int64_t since;

    if (__builtin_sub_overflow(ticks, h->zero_ticks, &since)) {
        return ticks < 0 ? INT64_MIN : INT64_MAX;
    }
    if (h->whole_ns && since < INT64_MAX / CLK_S && since > -(INT64_MAX / CLK_S)) {
        return since * h->whole_ns;
    }
    return clk_ticks_to_ns(since, h->frequency);
}

/* Whether a stamp can be believed: within an hour of the recording's span, or a year where the
 * header does not know its end. */
static inline bool etl_buffer_believes_ns(const struct etl_log_header *h, int64_t since_ns)
{
    const int64_t slack_ns = 3600 * CLK_S, open_end_ns = 366 * 24 * 3600 * CLK_S;
    int64_t most = h->span_ns > 0 ? h->span_ns : open_end_ns;

    return since_ns > -slack_ns && since_ns - slack_ns < most;
}

static inline bool etl_buffer_believes(const struct etl_log_header *h, int64_t ticks)
{
    return etl_buffer_believes_ns(h, etl_buffer_ns(h, ticks));
}

#endif
