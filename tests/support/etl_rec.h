/* One record of a trace file, of every header type there is, as the etl-format document lays it
 * out: what a reader must understand, from the other side. Fields a type does not have are ignored.
 * Ends the program when the record is longer than its size field can say. Threads: any. */
#ifndef PROCFLEET_TESTS_SUPPORT_ETL_REC_H
#define PROCFLEET_TESTS_SUPPORT_ETL_REC_H

#include <stdbool.h>

#include "agent/source/trace/etl_record.h"
#include "common/base/buf.h"

enum etl_rec_option { /* MESSAGE: which optional parts it has */
                      ETL_REC_SEQUENCE = 1,
                      ETL_REC_GUID = 2,
                      ETL_REC_COMPONENT = 4,
                      ETL_REC_TIME = 8,
                      ETL_REC_IDS = 0x20,
                      ETL_REC_32BIT = 0x40,
                      ETL_REC_64BIT = 0x80,
};

#define ETL_REC_CLASSIC  0x100 /* EVENT_HEADER.Flags */
#define ETL_REC_COUNTERS 7     /* the most that a PERFINFO record's version word can announce */

/* An extended item of an EVENT_HEADER record. */
struct etl_rec_item {
    uint16_t type;
    const void *p;
    uint16_t n;
};

struct etl_rec {
    enum etl_record_type type;
    int64_t ticks;
    uint32_t tid, pid;     /* not in PERFINFO; MESSAGE with ETL_REC_IDS */
    uint8_t group, opcode; /* group: SYSTEM, COMPACT, PERFINFO */
    uint8_t version, level, channel;
    uint16_t id, task; /* EVENT; id: MESSAGE too, its number */
    uint64_t keyword;
    const uint8_t *guid; /* 16 bytes as stored; NULL = zeros */

    uint8_t counters; /* PERFINFO: so many u64 between header and payload */
    bool pebs;        /* PERFINFO: one more */

    uint32_t instance, parent; /* INSTANCE */

    uint16_t flags; /* EVENT_HEADER.Flags; bit 0 is set where there are items */
    const struct etl_rec_item *items;
    size_t n_items;

    uint16_t options; /* MESSAGE: enum etl_rec_option */
    uint32_t sequence, component;

    const void *payload;
    size_t n;
};

/* A record as kernels write most of them: SYSTEM64, logged by thread 8 of process 4. */
struct etl_rec etl_rec_system(uint8_t group, uint8_t opcode, uint8_t version, int64_t ticks,
                              const void *payload, size_t n);

/* PERFINFO64, which names no thread. */
struct etl_rec etl_rec_perfinfo(uint8_t group, uint8_t opcode, uint8_t version, int64_t ticks,
                                const void *payload, size_t n);

/* Appends it, padded to 8 bytes with what is not zero: padding has no meaning. */
void etl_rec_put(struct buf *out, const struct etl_rec *r);

#endif
