/* Makes trace files for tests, buffer by buffer, in memory (up to 64 MiB) or straight into a file
 * of any size: the layout of the etl-format document from the other side. Any shape is allowed,
 * also what no recorder writes. For a recording as Windows makes it, with records of several CPUs
 * put in order of time, and for random schedules, see etl_session.h. Ends the program when memory
 * or disk fails. Threads: one owner. */
#ifndef PROCFLEET_TESTS_SUPPORT_ETL_WRITER_H
#define PROCFLEET_TESTS_SUPPORT_ETL_WRITER_H

#include <stdio.h>

#include "common/base/buf.h"
#include "tests/support/etl_rec.h"

struct etl_writer {
    struct buf file;  /* what has not gone to a FILE: damage may be done here */
    size_t buffer_at; /* of the open buffer's header, in `file` */
    uint32_t buffer_size;
    uint8_t pointer_size;
    bool narrow_cpu;
    FILE *to;           /* borrowed */
    uint64_t gone;      /* bytes written to it */
    uint32_t n_buffers; /* closed ones */
};

struct etl_writer_conf {
    uint32_t buffer_size; /* of unpacked buffers, the first one included */
    uint32_t cpus, mode, clock, cpu_mhz, events_lost, buffers_lost, build, buffers_written;
    uint8_t pointer_size; /* 4 or 8, of the log-file header */
    uint64_t frequency;
    uint64_t boot, start, end; /* FILETIME */
    int64_t zero_ticks;
    bool narrow_cpu; /* 8-bit CPU numbers in buffer headers, as up to Windows 7 */
    const char *session_name, *file_name; /* ASCII; NULL = empty */
};

/* 64-bit, 2 CPUs, 4 KiB buffers, 10 MHz counter that starts at 1000, 2026-01-01 for one minute. */
struct etl_writer_conf etl_writer_defaults(void);

/* Starts a file: the header buffer with the log-file header in it, still open for records. */
void etl_writer_init(struct etl_writer *w, const struct etl_writer_conf *conf);
void etl_writer_fini(struct etl_writer *w);

/* From now on every buffer goes to the file when it is closed; call it before the first is closed.
 * The caller closes the file. */
void etl_writer_to(struct etl_writer *w, FILE *f);

/* Opens a buffer of the CPU; the one before it must be closed. Type 0 is what holds events. */
void etl_writer_buffer(struct etl_writer *w, uint16_t cpu, uint16_t flags);
void etl_writer_buffer_as(struct etl_writer *w, uint16_t cpu, uint16_t flags, uint16_t type);

/* Closes the open buffer; a compressed one has no filling. */
void etl_writer_close(struct etl_writer *w);
void etl_writer_close_compressed(struct etl_writer *w);

/* Ends the recording properly: end time, number of buffers and losses go into the log-file header,
 * which must not be compressed. */
void etl_writer_finish(struct etl_writer *w, uint64_t end, uint32_t events_lost,
                       uint32_t buffers_lost);

/* Records into the open buffer: any (etl_rec.h), or the usual ones in short. */
void etl_writer_put(struct etl_writer *w, const struct etl_rec *r);
void etl_writer_system(struct etl_writer *w, uint8_t group, uint8_t opcode, uint8_t version,
                       int64_t ticks, const void *payload, size_t n);
void etl_writer_perfinfo(struct etl_writer *w, uint8_t group, uint8_t opcode, uint8_t version,
                         int64_t ticks, const void *payload, size_t n);
void etl_writer_full(struct etl_writer *w, uint8_t type, const uint8_t guid[16], uint8_t opcode,
                     int64_t ticks, const void *payload, size_t n);
void etl_writer_bytes(struct etl_writer *w, const void *p, size_t n); /* padded to 8 */

/* Writes what is in memory as it is; close first. */
void etl_writer_save(const struct etl_writer *w, const char *path);

/* LZXPRESS plain LZ77 with real matches. */
void etl_writer_compress(struct buf *out, const uint8_t *p, size_t n);

#endif
