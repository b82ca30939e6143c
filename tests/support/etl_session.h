/* Records a trace file as Windows does: one open buffer for each CPU, written to the file when it
 * is full, so that the file mixes the CPUs while each CPU's records are in order of time. Memory is
 * one buffer per CPU however long the recording. Ends the program when memory or disk fails.
 * Threads: one owner.
 *
 * A random schedule, with the truth beside it:
 *
 *     struct etl_session_conf conf = etl_session_defaults();
 *     struct etl_session s;
 *     int64_t now = conf.file.zero_ticks;
 *
 *     etl_session_begin(&s, &conf, path);
 *     etl_session_process(&s, 0, ETL_RUNDOWN, now, pid, 4, "a.exe");   each process and thread that
 *     etl_session_thread(&s, 0, ETL_RUNDOWN, now, pid, tid);           lives; or at the end
 *                                                                      with ETL_RUNDOWN_END
 *     for (…) {                         now must never go back on a CPU
 *         now += random; cpu = random; next = a random thread that runs on no CPU, or 0
 *         truth[pid of running[cpu]] += now - since[cpu];
 *         etl_session_switch(&s, cpu, now, next, running[cpu]);
 *         running[cpu] = next; since[cpu] = now;
 *     }
 *     sometimes: a thread ends and its id is used again (ETL_END, later ETL_START);
 *     etl_session_lose_buffer(&s, cpu): what is in the CPU's open buffer never reaches the file, so
 *     take back what the truth got since etl_session_open_since(&s, cpu)
 *     etl_session_end(&s, now);
 *
 * Damage: read the file, change bytes, write it back; or use etl_writer.h for odd shapes. */
#ifndef PROCFLEET_TESTS_SUPPORT_ETL_SESSION_H
#define PROCFLEET_TESTS_SUPPORT_ETL_SESSION_H

#include "tests/support/etl_writer.h"

struct etl_session_conf {
    struct etl_writer_conf file;
    bool compress;
    /* Above 0: beside the first, the file has so many buffers, and is overwritten from its start
     * once they are full. file.mode must then hold 2 (circular); not together with compress. */
    uint32_t circular_buffers;
    bool crash; /* the recorder dies: no end time, and one buffer too few in the header */
};

struct etl_session {
    struct etl_session_conf conf;
    struct etl_writer w;
    FILE *f;
    struct etl_session_cpu *cpus; /* conf.file.cpus of them */
    struct buf one;               /* a record being made */
    uint32_t events_lost, buffers_lost;
    uint64_t records; /* in the file, the log-file header's included; less what was overwritten
                         later */
};

enum etl_life { ETL_START = 1, ETL_END = 2, ETL_RUNDOWN = 3, ETL_RUNDOWN_END = 4 };

/* etl_writer_defaults with 64 KiB buffers. */
struct etl_session_conf etl_session_defaults(void);

void etl_session_begin(struct etl_session *s, const struct etl_session_conf *conf,
                       const char *path);
/* Writes every open buffer, the log-file header's end (zero_ticks is its start) and closes. */
void etl_session_end(struct etl_session *s, int64_t ticks);

/* Any record; cpu below conf.file.cpus. */
void etl_session_put(struct etl_session *s, uint16_t cpu, const struct etl_rec *r);
void etl_session_flush(struct etl_session *s, uint16_t cpu); /* writes the open buffer, if any */

/* The open buffer is lost with all that is in it; the CPU's next one tells. Gives how many records
 * are gone. */
uint64_t etl_session_lose_buffer(struct etl_session *s, uint16_t cpu);
/* n events are lost now: the CPU's next record begins a buffer that tells. */
void etl_session_lose_events(struct etl_session *s, uint16_t cpu, uint32_t n);
/* Stamp of the first record in the open buffer; INT64_MAX when there is none. */
int64_t etl_session_open_since(const struct etl_session *s, uint16_t cpu);

/* Kernel records by the file's pointer size: process version 4, thread version 3, switch version 4,
 * ready and sample version 2; the interval of samples in units of 100 ns. */
void etl_session_process(struct etl_session *s, uint16_t cpu, enum etl_life life, int64_t ticks,
                         uint32_t pid, uint32_t parent, const char *name);
void etl_session_thread(struct etl_session *s, uint16_t cpu, enum etl_life life, int64_t ticks,
                        uint32_t pid, uint32_t tid);
void etl_session_switch(struct etl_session *s, uint16_t cpu, int64_t ticks, uint32_t next,
                        uint32_t last);
void etl_session_ready(struct etl_session *s, uint16_t cpu, int64_t ticks, uint32_t tid);
void etl_session_sample(struct etl_session *s, uint16_t cpu, int64_t ticks, uint32_t tid,
                        bool interrupt);
void etl_session_interval(struct etl_session *s, uint16_t cpu, int64_t ticks, uint32_t units);

#endif
