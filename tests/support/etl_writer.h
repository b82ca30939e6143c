/* Makes small trace files for tests: the layout of the etl-format document from the other side.
 * Ends the program when memory or disk fails. Threads: one owner. */
#ifndef PROCFLEET_TESTS_SUPPORT_ETL_WRITER_H
#define PROCFLEET_TESTS_SUPPORT_ETL_WRITER_H

#include "common/buf.h"

struct etl_writer {
    struct buf file;
    size_t buffer_at; /* of the open buffer's header */
    uint32_t buffer_size;
};

struct etl_writer_conf {
    uint32_t buffer_size; /* of unpacked buffers, the first one included */
    uint32_t cpus, mode, clock, cpu_mhz, events_lost, buffers_lost;
    uint8_t pointer_size; /* 4 or 8, of the log-file header */
    uint64_t frequency;
    uint64_t boot, start, end; /* FILETIME */
    int64_t zero_ticks;
};

/* 64-bit, 2 CPUs, 4 KiB buffers, 10 MHz counter that starts at 1000, 2026-01-01 for one minute. */
struct etl_writer_conf etl_writer_defaults(void);

/* Starts a file: the header buffer with the log-file header in it, still open for records. */
void etl_writer_init(struct etl_writer *w, const struct etl_writer_conf *conf);
void etl_writer_fini(struct etl_writer *w);

/* Closes the open buffer, filled up to its size, and opens one of the CPU. */
void etl_writer_buffer(struct etl_writer *w, uint16_t cpu, uint16_t flags);

/* Closes the open buffer; a compressed one has no filling. */
void etl_writer_close(struct etl_writer *w);
void etl_writer_close_compressed(struct etl_writer *w);

/* Records into the open buffer. */
void etl_writer_system(struct etl_writer *w, uint8_t group, uint8_t opcode, uint8_t version,
                       int64_t ticks, const void *payload, size_t n);
void etl_writer_perfinfo(struct etl_writer *w, uint8_t group, uint8_t opcode, uint8_t version,
                         int64_t ticks, const void *payload, size_t n);
void etl_writer_full(struct etl_writer *w, uint8_t type, const uint8_t guid[16], uint8_t opcode,
                     int64_t ticks, const void *payload, size_t n);
void etl_writer_bytes(struct etl_writer *w, const void *p, size_t n); /* padded to 8 */

/* Writes the file as it is; close first. */
void etl_writer_save(const struct etl_writer *w, const char *path);

/* LZXPRESS plain LZ77 with real matches. */
void etl_writer_compress(struct buf *out, const uint8_t *p, size_t n);

#endif
