/* etl_gen PATH BYTES [compress]: a trace of about so many bytes before compression, as a busy host
 * with 8 CPUs records it: context switches, samples, and processes that come and go, whose ids are
 * used again. Prints what is in it: "records N processes N ticks N", the last being all time on
 * CPUs between switches. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/draw.h"
#include "tests/support/etl_session.h"

#define CPUS          8
#define PROCESSES     256   /* alive at a time */
#define THREADS       8     /* of each */
#define LIFE_SWITCHES 20000 /* switches until the next process is replaced */

struct gen {
    struct etl_session s;
    uint64_t random;
    int64_t now;
    uint32_t running[CPUS]; /* tid, 0 = idle */
    int64_t since[CPUS];
    uint64_t processes, ticks;
};

static uint32_t pid_of(uint32_t process)
{
    return 1000 + process * 4;
}

static uint32_t tid_of(uint32_t process, uint32_t thread)
{
    return 100000 + (process * THREADS + thread) * 4;
}

static void live(struct gen *g, enum etl_life life, uint32_t process)
{
    char name[32];

    (void)snprintf(name, sizeof name, "p%u.exe", process);
    if (life == ETL_END) {
        for (uint32_t t = 0; t < THREADS; t++) {
            etl_session_thread(&g->s, 0, life, g->now, pid_of(process), tid_of(process, t));
        }
        etl_session_process(&g->s, 0, life, g->now, pid_of(process), 4, name);
        return;
    }
    g->processes++;
    etl_session_process(&g->s, 0, life, g->now, pid_of(process), 4, name);
    for (uint32_t t = 0; t < THREADS; t++) {
        etl_session_thread(&g->s, 0, life, g->now, pid_of(process), tid_of(process, t));
    }
}

static bool runs_elsewhere(const struct gen *g, uint32_t tid)
{
    for (uint32_t c = 0; c < CPUS; c++) {
        if (g->running[c] == tid) {
            return true;
        }
    }
    return false;
}

static void switch_to(struct gen *g, uint16_t cpu, uint32_t tid)
{
    if (g->since[cpu]) {
        g->ticks += (uint64_t)(g->now - g->since[cpu]);
    }
    etl_session_switch(&g->s, cpu, g->now, tid, g->running[cpu]);
    g->running[cpu] = tid;
    g->since[cpu] = g->now;
}

/* Nobody runs a thread that ends. */
static void replace(struct gen *g, uint32_t process)
{
    for (uint16_t c = 0; c < CPUS; c++) {
        if (g->running[c] >= tid_of(process, 0) && g->running[c] < tid_of(process + 1, 0)) {
            switch_to(g, c, 0);
        }
    }
    live(g, ETL_END, process);
    g->now++;
    live(g, ETL_START, process);
}

static void schedule(struct gen *g, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint16_t cpu = (uint16_t)draw(&g->random, CPUS);
        uint32_t tid = tid_of(draw(&g->random, PROCESSES), draw(&g->random, THREADS));

        g->now += 1 + draw(&g->random, 40);
        if (i % 16 == 0) {
            etl_session_sample(&g->s, cpu, g->now, g->running[cpu], false);
        } else {
            switch_to(g, cpu, draw(&g->random, 4) == 0 || runs_elsewhere(g, tid) ? 0 : tid);
        }
        if (i % LIFE_SWITCHES == LIFE_SWITCHES - 1) {
            replace(g, draw(&g->random, PROCESSES));
        }
    }
}

int main(int argc, char **argv)
{
    struct etl_session_conf conf = etl_session_defaults();
    static struct gen g;
    uint64_t bytes;

    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: etl_gen PATH BYTES [compress]\n");
        return 2;
    }
    bytes = strtoull(argv[2], NULL, 10);
    conf.file.cpus = CPUS;
    conf.compress = argc == 4;
    g.random = 1;
    g.now = conf.file.zero_ticks + 1;
    etl_session_begin(&g.s, &conf, argv[1]);
    etl_session_interval(&g.s, 0, g.now, 10000);
    for (uint32_t p = 0; p < PROCESSES; p++) {
        live(&g, ETL_RUNDOWN, p);
    }
    schedule(&g, bytes / 40); /* bytes of a switch */
    etl_session_end(&g.s, g.now);
    printf("records %llu processes %llu ticks %llu\n", (unsigned long long)g.s.records,
           (unsigned long long)g.processes, (unsigned long long)g.ticks);
    return 0;
}
