/* What a trace file says about itself before its records are read: the log-file header as stored,
 * and its buffers by kind. Plain data, filled by etl_file_census. */
#ifndef PROCFLEET_AGENT_SOURCE_TRACE_ETL_CENSUS_H
#define PROCFLEET_AGENT_SOURCE_TRACE_ETL_CENSUS_H

#include "agent/source/source.h"

#define ETL_CENSUS_TYPES 16 /* buffer types told apart, the last one: all others */
#define ETL_CENSUS_FLAGS 32 /* combinations of flags told apart */
#define ETL_CENSUS_CPUS  1024
#define ETL_CENSUS_NAME  512 /* bytes of UTF-8, cut */

struct etl_census {
    char path[ETL_CENSUS_NAME]; /* as given, cut */
    uint64_t file_bytes;        /* unpacked from .xz */

    /* TRACE_LOGFILE_HEADER, as stored: times FILETIME, TimerResolution 100 ns, size MiB */
    uint8_t header_bits; /* 32 or 64: type of the first record */
    int64_t header_ticks;
    uint32_t buffer_size;
    uint8_t version[4]; /* major, minor, sub, sub-minor */
    uint32_t provider_version, cpus, timer_resolution, maximum_file_size, mode;
    uint32_t buffers_written, start_buffers, pointer_size, events_lost, cpu_mhz;
    int32_t time_zone_bias; /* minutes */
    uint64_t boot_time, frequency, start_time, end_time;
    uint32_t clock, buffers_lost;
    char session_name[ETL_CENSUS_NAME], log_file_name[ETL_CENSUS_NAME];

    uint64_t buffers, compressed;
    uint64_t types[ETL_CENSUS_TYPES];
    size_t n_flags;
    struct {
        uint16_t flags;
        uint64_t count;
    } flags[ETL_CENSUS_FLAGS];
    uint8_t cpus_seen[ETL_CENSUS_CPUS / 8]; /* bit set; of all buffers, the header's 0 too */
    uint64_t damaged, skipped_bytes;        /* met by the index */
};

struct etl_buffer;
struct etl_log_header;

/* For etl_index: what the log-file header says, then each buffer of the file. */
void etl_census_begin(struct etl_census *c, const char *path, uint64_t file_bytes,
                      const struct etl_log_header *log);
void etl_census_buffer(struct etl_census *c, const struct etl_buffer *b);

/* File i in the order of the paths given to etl_file_open. Errors: ERR_NOTFOUND (no such file) */
NODISCARD enum err etl_file_census(const struct source *s, size_t i, struct etl_census *out);

#endif
