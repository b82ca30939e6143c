#include "agent/source/trace/etl_census.h"

#include <stdio.h>

#include "agent/source/trace/etl_buffer.h"

void etl_census_begin(struct etl_census *c, const char *path, uint64_t file_bytes,
                      const struct etl_log_header *log)
{
    *c = (struct etl_census){
        .file_bytes = file_bytes,
        .header_bits = log->pointer_size == 8 ? 64 : 32,
        .header_ticks = log->zero_ticks,
        .buffer_size = log->buffer_size,
        .version = {log->major, log->minor, log->sub, log->sub_minor},
        .provider_version = log->build,
        .cpus = log->cpus,
        .timer_resolution = log->timer_resolution,
        .maximum_file_size = log->maximum_file_size,
        .mode = log->mode,
        .buffers_written = log->buffers_written,
        .start_buffers = log->start_buffers,
        .pointer_size = log->stored_pointer_size,
        .events_lost = log->events_lost,
        .cpu_mhz = log->cpu_mhz,
        .time_zone_bias = log->time_zone_bias,
        .boot_time = log->boot_time,
        .frequency = log->stored_frequency,
        .start_time = log->start_time,
        .end_time = log->end_time,
        .clock = log->clock,
        .buffers_lost = log->buffers_lost,
    };
    (void)snprintf(c->path, sizeof c->path, "%s", path);
    (void)snprintf(c->session_name, sizeof c->session_name, "%s", log->session_name);
    (void)snprintf(c->log_file_name, sizeof c->log_file_name, "%s", log->file_name);
}

static void count_flags(struct etl_census *c, uint16_t flags)
{
    for (size_t i = 0; i < c->n_flags; i++) {
        if (c->flags[i].flags == flags) {
            c->flags[i].count++;
            return;
        }
    }
    if (c->n_flags < ETL_CENSUS_FLAGS) {
        c->flags[c->n_flags].flags = flags;
        c->flags[c->n_flags++].count = 1;
    }
}

void etl_census_buffer(struct etl_census *c, const struct etl_buffer *b)
{
    c->buffers++;
    c->compressed += (b->flags & ETL_BUFFER_COMPRESSED) != 0;
    c->types[b->type < ETL_CENSUS_TYPES ? b->type : ETL_CENSUS_TYPES - 1]++;
    count_flags(c, b->flags);
    if (b->cpu < ETL_CENSUS_CPUS) {
        c->cpus_seen[b->cpu / 8] |= (uint8_t)(1u << b->cpu % 8);
    }
}
