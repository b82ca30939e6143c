/* Runs made for tests: up to 24 hosts, each with the images "cc1" and "ld", alike in everything.
 * Tests then change what they are about. Threads: one. */
#ifndef PROCFLEET_TESTS_COMMON_LAB_RUN_MADE_H
#define PROCFLEET_TESTS_COMMON_LAB_RUN_MADE_H

#include <stdio.h>
#include <string.h>

#include "common/lab/run_file.h"

#define RUN_MADE_HOSTS 24u
#define RUN_MADE_S     INT64_C(1000000000)
#define RUN_MADE_T0    (INT64_C(1795000000) * RUN_MADE_S)

enum { RUN_MADE_CC1, RUN_MADE_LD, RUN_MADE_ROWS }; /* and a row of the host's sums */

#define RUN_MADE_TEXT(s) \
    {                    \
        s, sizeof(s) - 1 \
    }

struct run_made {
    struct run_file f;
    char name[65], host_names[RUN_MADE_HOSTS][16];
    struct run_host hosts[RUN_MADE_HOSTS];
    struct run_pair facts[RUN_MADE_HOSTS][6];
    struct run_span spans[RUN_MADE_HOSTS];
    struct run_column columns[3];
    struct run_row rows[RUN_MADE_HOSTS * (RUN_MADE_ROWS + 1)];
    int64_t values[RUN_MADE_HOSTS * (RUN_MADE_ROWS + 1)][5];
};

/* Slots: cpu_time 0; private_bytes 1 peak, 2 mean, 3 of one; read_bytes 4. */
static inline int64_t *run_made_values(struct run_made *m, size_t host, unsigned row)
{
    return m->values[host * (RUN_MADE_ROWS + 1) + row];
}

static inline void run_made_host(struct run_made *m, size_t i, unsigned number)
{
    static const struct run_pair facts[] = {
        {RUN_MADE_TEXT("os_name"), RUN_MADE_TEXT("Windows 11")},
        {RUN_MADE_TEXT("os_build"), RUN_MADE_TEXT("26100")},
        {RUN_MADE_TEXT("cpu_model"), RUN_MADE_TEXT("i7-12700")},
        {RUN_MADE_TEXT("cpu_cores"), RUN_MADE_TEXT("12")},
        {RUN_MADE_TEXT("memory_bytes"), RUN_MADE_TEXT("34276126720")},
        {RUN_MADE_TEXT("os_revision"), RUN_MADE_TEXT("2605")},
    };
    struct run_host *h = &m->hosts[i];

    (void)snprintf(m->host_names[i], sizeof m->host_names[i], "lab-%u", number);
    memcpy(m->facts[i], facts, sizeof facts);
    *h = (struct run_host){.id = {{1, (uint8_t)number, (uint8_t)(number >> 8)}},
                           .name = str_make(m->host_names[i]),
                           .agent = RUN_MADE_TEXT("0.3.0"),
                           .source = RUN_MADE_TEXT("etw"),
                           .cpu_origin = CPU_ORIGIN_CSWITCH,
                           .step_ns = RUN_MADE_S,
                           .begin_ns = m->f.head.begin_ns,
                           .end_ns = m->f.head.end_ns,
                           .clock_error_ns = 12000000,
                           .ppm = 1000000,
                           .ticks = 600,
                           .events = 100000,
                           .n_facts = 6,
                           .facts = m->facts[i]};
}

/* A run of `hosts` hosts, the first of which is lab-`first`; it begins so many seconds after T0 and
 * takes ten minutes. */
static inline void run_made_init(struct run_made *m, const char *name, int64_t at_s, size_t hosts,
                                 unsigned first)
{
    static const uint8_t metrics[] = {M_CPU_TIME, M_PRIVATE_BYTES, M_READ_BYTES};
    static const int64_t cells[][5] = {{3900 * RUN_MADE_S, 800 << 20, 500 << 20, 300 << 20, 4000},
                                       {212 * RUN_MADE_S, 100 << 20, 50 << 20, 100 << 20, 1000},
                                       {0, 850 << 20, 550 << 20, 300 << 20, 0}};
    static uint32_t number;

    memset(m, 0, sizeof *m);
    number++;
    (void)snprintf(m->name, sizeof m->name, "%s", name);
    m->f = (struct run_file){
        .head = {.id = {{2, (uint8_t)number, (uint8_t)(number >> 8), (uint8_t)(number >> 16)}},
                 .name = str_make(m->name),
                 .state = RUN_READY,
                 .revision = 1,
                 .begin_ns = RUN_MADE_T0 + at_s * RUN_MADE_S,
                 .end_ns = RUN_MADE_T0 + (at_s + 600) * RUN_MADE_S,
                 .peak_step_ns = RUN_MADE_S},
        .hosts = m->hosts,
        .n_hosts = hosts,
        .columns = m->columns,
        .n_columns = 3,
        .n_slots = run_file_layout(m->columns, metrics, 3),
        .rows = m->rows,
        .n_rows = hosts * (RUN_MADE_ROWS + 1),
    };
    for (size_t i = 0; i < hosts; i++) {
        run_made_host(m, i, first + (unsigned)i);
        for (unsigned k = 0; k <= RUN_MADE_ROWS; k++) {
            struct run_row *row = &m->rows[i * (RUN_MADE_ROWS + 1) + k];

            memcpy(run_made_values(m, i, k), cells[k], sizeof cells[k]);
            *row = (struct run_row){.host = (uint32_t)i,
                                    .of = k == RUN_MADE_ROWS ? RUN_ROW_HOST : RUN_ROW_CELL,
                                    .image = str_make(k == RUN_MADE_CC1  ? "cc1"
                                                      : k == RUN_MADE_LD ? "ld"
                                                                         : ""),
                                    .user = str_make(k == RUN_MADE_ROWS ? "" : "pg"),
                                    .instances = k == RUN_MADE_ROWS ? 0 : 100,
                                    .starts = k == RUN_MADE_ROWS ? 0 : 100,
                                    .ends = k == RUN_MADE_ROWS ? 0 : 100,
                                    .have = METRIC_BIT(M_CPU_TIME) | METRIC_BIT(M_PRIVATE_BYTES) |
                                            METRIC_BIT(M_READ_BYTES),
                                    .values = run_made_values(m, i, k)};
        }
    }
}

/* The CPU time of both images of a host, times a factor. */
static inline void run_made_scale(struct run_made *m, size_t host, double factor)
{
    for (unsigned k = 0; k < RUN_MADE_ROWS; k++) {
        int64_t *v = run_made_values(m, host, k);

        v[0] = (int64_t)((double)v[0] * factor);
    }
}

#endif
