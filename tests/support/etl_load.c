#include "tests/support/etl_load.h"

#include <stdio.h>

#include "tests/support/etl_session.h"

struct load {
    struct etl_session s;
    uint64_t seed;
    int64_t now;
    uint32_t running[ETL_LOAD_CPUS]; /* thread of each CPU */
};

static uint32_t pick(struct load *l, uint32_t n)
{
    l->seed ^= l->seed << 13;
    l->seed ^= l->seed >> 7;
    l->seed ^= l->seed << 17;
    return (uint32_t)(l->seed >> 32) % n;
}

static uint32_t pid_of(uint32_t thread)
{
    return 4 * (1 + thread % ETL_LOAD_PROCESSES);
}

static uint32_t tid_of(uint32_t thread)
{
    return 4 * (1000 + thread);
}

static void step(struct load *l)
{
    uint16_t cpu = (uint16_t)pick(l, ETL_LOAD_CPUS);
    uint32_t what = pick(l, 1000), next = tid_of(pick(l, ETL_LOAD_THREADS));

    l->now += 1 + pick(l, 400);
    if (what < 900) {
        next = what < 300 ? 0 : next;
        etl_session_switch(&l->s, cpu, l->now, next, l->running[cpu]);
        l->running[cpu] = next;
    } else if (what < 960) {
        etl_session_ready(&l->s, cpu, l->now, next);
    } else if (what < 998) {
        etl_session_sample(&l->s, cpu, l->now, l->running[cpu], what == 970);
    } else {
        uint32_t extra = ETL_LOAD_THREADS + pick(l, 1000);

        etl_session_thread(&l->s, cpu, what == 998 ? ETL_START : ETL_END, l->now, pid_of(extra),
                           tid_of(extra));
    }
}

static void rundown(struct load *l)
{
    for (uint32_t i = 0; i < ETL_LOAD_PROCESSES; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "service%u.exe", i);
        etl_session_process(&l->s, 0, ETL_RUNDOWN_END, l->now, pid_of(i), 4, name);
    }
    for (uint32_t i = 0; i < ETL_LOAD_THREADS; i++) {
        etl_session_thread(&l->s, 0, ETL_RUNDOWN_END, l->now, pid_of(i), tid_of(i));
    }
}

uint64_t etl_load_make(const char *path, uint64_t bytes, bool compress)
{
    struct etl_session_conf conf = etl_session_defaults();
    struct load l = {.seed = 0x9e3779b97f4a7c15};

    conf.file.cpus = ETL_LOAD_CPUS;
    conf.compress = compress;
    l.now = conf.file.zero_ticks;
    etl_session_begin(&l.s, &conf, path);
    while ((uint64_t)l.s.w.n_buffers * conf.file.buffer_size < bytes) {
        step(&l);
    }
    rundown(&l);
    etl_session_end(&l.s, l.now);
    return l.s.records;
}
