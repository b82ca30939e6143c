/* The figures of a recording: what `etl summary` prints. Counted record by record during a walk;
 * docs/etl-tool.md defines each. Plain data, read by the printers.
 * Bounds: those of etl_kinds.h, etl_pids.h and etl_instances.h, and the lists below; what does not
 * fit is counted.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_ETL_FIGURES_H
#define PROCFLEET_AGENT_ETL_ETL_FIGURES_H

#include "agent/etl/etl_buffer_order.h"
#include "agent/etl/etl_instances.h"
#include "agent/etl/etl_kinds.h"
#include "agent/etl/etl_pids.h"
#include "agent/etl/etl_walk.h"
#include "agent/source/trace/etl_record.h"
#include "common/text/jsonw.h"

#define ETL_FIGURES_ODD_MAX  256  /* kinds of payloads with bytes left over, or too short */
#define ETL_FIGURES_LIST_MAX 1024 /* records listed one by one */
#define ETL_FIGURES_CPUS     2048
#define ETL_FIGURES_NO_NS    INT64_MAX

struct etl_figures_odd {
    const char *class;
    uint8_t version;
    uint32_t bytes;
    uint64_t n;
};

struct etl_figures_manifest { /* an event of Microsoft-Windows-Kernel-Process */
    int64_t since_ns;
    uint32_t pid;
    uint16_t id;
    uint8_t version;
};

struct etl_figures_cpu {
    int64_t ticks; /* of the last switch */
    uint32_t pid;  /* runs since then */
    bool known;
};

struct etl_figures {
    struct etl_kinds *kinds;
    struct etl_pids *pids;
    struct etl_instances *instances;
    struct etl_buffer_order *order;
    uint64_t records;
    uint64_t header_types[ETL_TYPE_COUNT];
    uint64_t counts[ETL_KINDS_CLASS_COUNT][256]; /* kernel records by class and opcode */
    uint64_t samples_idle, samples_idle_interrupt;
    uint64_t with_counters;    /* kernel records with PMC values */
    int64_t first_ns, last_ns; /* since the recording's start */
    uint64_t unresolved_samples, unresolved_hard_faults, unresolved_disk, unresolved_switches;
    uint64_t dpc_ticks, isr_ticks;
    struct etl_figures_odd residual[ETL_FIGURES_ODD_MAX], undecodable[ETL_FIGURES_ODD_MAX];
    size_t n_residual, n_undecodable;
    struct etl_figures_manifest manifest[ETL_FIGURES_LIST_MAX];
    size_t n_manifest;
    int64_t errors[ETL_FIGURES_LIST_MAX]; /* times of ERROR records, since the start */
    size_t n_errors;
    uint64_t dropped; /* entries that had no room in these lists */
    struct etl_figures_cpu cpus[ETL_FIGURES_CPUS];
};

/* Errors: ERR_NOMEM */
NODISCARD enum err etl_figures_create(struct etl_figures **out);
void etl_figures_destroy(struct etl_figures *f); /* NULL is allowed */

/* Counts one record of the walk; `d` for names, or NULL. */
void etl_figures_record(struct etl_figures *f, const struct etl_walk *w,
                        const struct etl_walk_record *r);

/* What a recording lacks, as a sentence for people. */
void etl_figures_loss(struct buf *out, const struct etl_walk *w);

/* -- as members of a JSON object that is open -- */

/* All figures docs/etl-tool.md lists, in its order. With several files the header is that of the
 * one that began first. Errors: ERR_NOMEM */
NODISCARD enum err etl_figures_json(struct jsonw *j, const struct etl_figures *f,
                                    const struct etl_walk *w, size_t n_files);

/* Members "header", "start_time", "end_time" and "buffers" of a file. */
void etl_figures_json_header(struct jsonw *j, const struct etl_census *c);

/* Member "loss". */
void etl_figures_json_loss(struct jsonw *j, const struct etl_walk *w);

#endif
