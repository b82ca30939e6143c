/* Raw records to counters per process, in memory, on one core: decode_event and aggregate_event
 * over a stream that is nine tenths context switches, as a busy machine's kernel trace is: 200
 * processes, 2,000 threads, 16 CPUs, with samples, ReadyThread records, and threads and processes
 * that come and go. The stages are measured by passes that do more and more of the work. Time is
 * CPU time and the best of several rounds: what else the machine does hardly counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/account/aggregate.h"
#include "agent/decode/decode.h"
#include "agent/source/etw_guid.h"
#include "agent/source/event_switch.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/support/draw.h"

enum { PROCESSES = 200, THREADS = 2000, CPUS = 16, RECORDS = 1 << 17, PAYLOAD_MAX = 160 };
enum { ROUNDS = 40, ROUNDS_QUICK = 5 };

enum kind { SWITCH, WAKE, SAMPLE, THREAD_START, THREAD_END, PROCESS_START, PROCESS_END, KINDS };

/* As a buffer of a trace file holds it: a stamp, what it is, and the payload. */
struct record {
    int64_t ns; /* from the begin of the stream */
    uint8_t kind, cpu;
    uint16_t payload_n;
    uint32_t payload_at;
};

struct stream {
    struct record *records;
    size_t n;
    uint8_t *payloads;
    size_t payload_bytes;
    int64_t length_ns;
    struct raw_event shapes[KINDS]; /* what records of a kind have in common */
    uint64_t random;
    uint32_t running[CPUS], first[CPUS];
};

struct stages {
    struct decode *decode;
    struct instances *table;
    struct lifecycle *life;
    struct aggregate *aggregate;
    int64_t begun_ns; /* of the stream's next round */
};

static void give_up(const char *what)
{
    fprintf(stderr, "bench_decode: %s\n", what);
    exit(1);
}

/* -- the stream -- */

static uint32_t tid_of(uint32_t thread)
{
    return 1000 + 4 * thread;
}

static uint32_t pid_of(uint32_t thread)
{
    return 400 + 4 * (thread % PROCESSES);
}

static void put32(uint8_t *p, uint32_t v)
{
    for (unsigned i = 0; i < 4; i++) {
        p[i] = (uint8_t)(v >> 8 * i);
    }
}

static void push(struct stream *s, enum kind kind, unsigned cpu, const uint8_t *payload, size_t n)
{
    struct record *r = &s->records[s->n++];

    s->length_ns += 300 + draw(&s->random, 1000);
    *r = (struct record){.ns = s->length_ns,
                         .kind = (uint8_t)kind,
                         .cpu = (uint8_t)cpu,
                         .payload_n = (uint16_t)n,
                         .payload_at = (uint32_t)s->payload_bytes};
    memcpy(s->payloads + s->payload_bytes, payload, n);
    s->payload_bytes += (n + 7) / 8 * 8;
}

static void push_switch(struct stream *s, unsigned cpu, uint32_t new_tid)
{
    uint8_t p[24] = {0};

    put32(p, new_tid);
    put32(p + 4, s->running[cpu]);
    p[14] = 5; /* old state: waiting */
    s->running[cpu] = new_tid;
    push(s, SWITCH, cpu, p, sizeof p);
}

static void push_thread(struct stream *s, enum kind kind, uint32_t pid, uint32_t tid)
{
    uint8_t p[72] = {0};

    put32(p, pid);
    put32(p + 4, tid);
    push(s, kind, draw(&s->random, CPUS), p, sizeof p);
}

static void push_process(struct stream *s, enum kind kind, uint32_t pid)
{
    uint8_t p[64] = {0};

    put32(p + 8, pid);
    put32(p + 12, 400);
    memcpy(p + 44, "app.exe", 8); /* behind key, ids, session, status, directory, flags, no SID */
    push(s, kind, draw(&s->random, CPUS), p, sizeof p);
}

static void push_other(struct stream *s, uint32_t what)
{
    uint8_t p[16] = {0};
    uint32_t tid = tid_of(draw(&s->random, THREADS));

    if (what < 50) {
        put32(p, tid);
        push(s, WAKE, draw(&s->random, CPUS), p, 8);
    } else if (what < 90) {
        put32(p + 8, s->running[what % CPUS]);
        put32(p + 12, 1);
        push(s, SAMPLE, what % CPUS, p, sizeof p);
    } else if (what < 98) {
        push_thread(s, THREAD_START, pid_of(tid), tid_of(THREADS + what));
        push_thread(s, THREAD_END, pid_of(tid), tid_of(THREADS + what));
    } else {
        push_process(s, PROCESS_START, 8000 + 4 * what);
        push_thread(s, THREAD_START, 8000 + 4 * what, tid_of(THREADS + what));
        push_thread(s, THREAD_END, 8000 + 4 * what, tid_of(THREADS + what));
        push_process(s, PROCESS_END, 8000 + 4 * what);
    }
}

static void shape(struct stream *s, enum kind kind, const uint8_t guid[16], uint8_t opcode,
                  uint8_t version)
{
    struct raw_event *raw = &s->shapes[kind];

    *raw = (struct raw_event){.form = RAW_CLASSIC,
                              .opcode = opcode,
                              .version = version,
                              .pointer_size = 8,
                              .pid = EVENT_NO_ID,
                              .tid = EVENT_NO_ID,
                              .frequency = 10000000};
    memcpy(raw->guid, guid, sizeof raw->guid);
}

static void stream_make(struct stream *s)
{
    static const uint8_t thread[16] = ETW_CLASS_THREAD, process[16] = ETW_CLASS_PROCESS,
                         perf[16] = ETW_CLASS_PERF_INFO;

    memset(s, 0, sizeof *s);
    s->random = 1;
    s->records = calloc(RECORDS + CPUS + 8, sizeof *s->records);
    s->payloads = calloc(RECORDS + CPUS + 8, PAYLOAD_MAX);
    if (!s->records || !s->payloads) {
        give_up("out of memory");
    }
    shape(s, SWITCH, thread, 36, 4);
    shape(s, WAKE, thread, 50, 2);
    shape(s, SAMPLE, perf, 46, 2);
    shape(s, THREAD_START, thread, 1, 3);
    shape(s, THREAD_END, thread, 2, 3);
    shape(s, PROCESS_START, process, 1, 4);
    shape(s, PROCESS_END, process, 2, 4);
    while (s->n < RECORDS) {
        uint32_t what = draw(&s->random, 1000);

        if (what < 900) {
            push_switch(s, draw(&s->random, CPUS),
                        draw(&s->random, 4) ? tid_of(draw(&s->random, THREADS)) : 0);
        } else {
            push_other(s, what - 900);
        }
    }
    for (unsigned cpu = 0; cpu < CPUS; cpu++) { /* the next round begins where this one did */
        push_switch(s, cpu, 0);
    }
}

/* -- the stages -- */

static void ignore(void *ctx, const struct life_event *ev)
{
    (void)ctx;
    (void)ev;
}

/* The rundown: the idle process, and all others with their threads. */
static void populate(struct stages *g)
{
    struct event ev = {.kind = EV_THREAD_FOUND, .early = true};

    aggregate_groups(g->aggregate, UINT32_MAX); /* as recordings say at their begin */
    (void)aggregate_event(g->aggregate, &ev);
    for (uint32_t t = 0; t < THREADS; t++) {
        ev.u.thread.pid = pid_of(t);
        ev.u.thread.tid = tid_of(t);
        (void)aggregate_event(g->aggregate, &ev);
    }
}

static void stages_make(struct stages *g)
{
    struct instances_conf table = {
        .instances_max = 8192, .threads_max = 1 << 17, .text_max = 16 << 20, .grace_ns = CLK_MS};
    struct lifecycle_conf life = {.told = ignore};

    memset(g, 0, sizeof *g);
    if (decode_create(&g->decode) || instances_create(&g->table, &table)) {
        give_up("out of memory");
    }
    life.table = g->table;
    if (lifecycle_create(&g->life, &life) || aggregate_create(&g->aggregate, g->table, g->life)) {
        give_up("out of memory");
    }
    populate(g);
}

static void stages_free(struct stages *g)
{
    aggregate_destroy(g->aggregate);
    lifecycle_destroy(g->life);
    instances_destroy(g->table);
    decode_destroy(g->decode);
}

/* What the sampler does at its ticks: those that ended have had their last row. */
static void forget_ended(struct stages *g)
{
    for (struct instance *p = instances_first_ended(g->table); p; p = p->next) {
        p->row.final_done = true;
    }
    instances_expire(g->table, g->begun_ns + CLK_S);
}

/* -- passes -- */

/* What a source does per record once it stands in memory. */
static inline const struct raw_event *present(struct stream *s, const struct record *r,
                                              int64_t begun_ns)
{
    struct raw_event *raw = &s->shapes[r->kind];

    raw->cpu = r->cpu;
    raw->ticks = raw->mono_ns = begun_ns + r->ns;
    raw->wall_ns = raw->mono_ns + 1700000000 * CLK_S;
    raw->payload = s->payloads + r->payload_at;
    raw->payload_n = r->payload_n;
    return raw;
}

static uint64_t pass_present(struct stream *s, struct stages *g)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < s->n; i++) {
        const volatile struct raw_event *raw = present(s, &s->records[i], g->begun_ns);

        sum += raw->payload_n;
    }
    return sum;
}

/* As a recording gives them: switches, and threads made ready, are read into a run, which is handed
 * on when another record comes, or when it is full. */
static inline bool read_switch(struct stream *s, const struct stages *g, const struct record *r,
                               struct event_switch *sw)
{
    const uint8_t *payload = s->payloads + r->payload_at;

    if (r->kind == SWITCH) {
        if (!event_switch_read(sw, r->cpu, payload, r->payload_n, s->shapes[SWITCH].version)) {
            return false;
        }
    } else if (r->kind != WAKE ||
               !event_ready_read(sw, r->cpu, payload, r->payload_n, s->shapes[WAKE].version)) {
        return false;
    }
    sw->mono_ns = g->begun_ns + r->ns;
    sw->wall_ns = sw->mono_ns + 1700000000 * CLK_S;
    return true;
}

static uint64_t take_run(struct stages *g, const struct event_switch *run, size_t n, bool total)
{
    decode_switches(g->decode, n);
    if (total) {
        aggregate_switches(g->aggregate, run, n);
    }
    return n;
}

static inline uint64_t pass_records(struct stream *s, struct stages *g, bool total)
{
    struct event_switch run[SOURCE_SWITCHES_MAX];
    struct event ev;
    uint64_t sum = 0;
    size_t n = 0;

    for (const struct record *r = s->records, *end = r + s->n; r < end; r++) {
        if (read_switch(s, g, r, &run[n])) {
            if (++n == SOURCE_SWITCHES_MAX) {
                sum += take_run(g, run, n, total);
                n = 0;
            }
            continue;
        }
        sum += take_run(g, run, n, total);
        n = 0;
        if (decode_event(g->decode, present(s, r, g->begun_ns), &ev) == ERR_OK) {
            sum += !total || aggregate_event(g->aggregate, &ev) != NULL;
        }
    }
    return sum + take_run(g, run, n, total);
}

static uint64_t pass_decode(struct stream *s, struct stages *g)
{
    return pass_records(s, g, false);
}

static uint64_t pass_look_up(struct stream *s, struct stages *g)
{
    const struct u32map *threads = instances_threads(g->table);
    uint64_t sum = 0;

    for (size_t i = 0; i < s->n; i++) {
        const struct u32map_entry *e;
        uint32_t tid;

        memcpy(&tid, s->payloads + s->records[i].payload_at, sizeof tid);
        e = s->records[i].kind == SWITCH ? u32map_find(threads, tid) : NULL;
        sum += e && !instances_entry_dead(e);
    }
    return sum;
}

static uint64_t pass_totals(struct stream *s, struct stages *g)
{
    return pass_records(s, g, true);
}

/* ns per record, the best round. */
static double measure(struct stream *s, struct stages *g,
                      uint64_t (*pass)(struct stream *, struct stages *))
{
    size_t rounds = bench_quick() ? ROUNDS_QUICK : ROUNDS;
    double best = 0;

    for (size_t i = 0; i < rounds; i++) {
        int64_t began = os_cpu_ns();
        uint64_t sum = pass(s, g);
        double ns = (double)(os_cpu_ns() - began) / (double)s->n;

        if (sum == 0) {
            give_up("nothing was decoded");
        }
        if (i == 0 || ns < best) {
            best = ns;
        }
        g->begun_ns += s->length_ns;
        forget_ended(g);
    }
    return best;
}

struct counted {
    struct stream *s;
    struct stages *g;
};

static void count_totals(void *ctx)
{
    struct counted *c = ctx;

    if (pass_totals(c->s, c->g) == 0) {
        give_up("nothing was decoded");
    }
}

/* The stream's own truth: a round puts every thread on and off. */
static void check(const struct stream *s, const struct stages *g)
{
    const struct aggregate_stats *a = aggregate_stats(g->aggregate);
    struct decode_counts d;

    decode_stats(g->decode, &d);
    if (d.unknown || d.corrupt || a->sched.gaps || instances_stats(g->table)->full ||
        aggregate_unattributed(g->aggregate)->n[COUNTERS_RUN]) {
        give_up("the stream was not understood");
    }
    if (a->sched.switches < s->n / 2) {
        give_up("the stream is not what it should be");
    }
}

int main(int argc, char **argv)
{
    struct stream s;
    struct stages g;
    double present_ns, decode_ns, look_up_ns, total_ns;

    bench_begin(argc, argv, "bench_decode",
                "Raw records to counters per process, in memory, one core.");
    stream_make(&s);
    stages_make(&g);
    if (bench_counts()) { /* of a round that is not the first: tables have been filled */
        (void)pass_totals(&s, &g);
        g.begun_ns += s.length_ns;
        forget_ended(&g);
        bench_count("decode_aggregate", (double)s.n, "event", 150, count_totals,
                    &(struct counted){&s, &g});
        return bench_end();
    }
    present_ns = measure(&s, &g, pass_present);
    decode_ns = measure(&s, &g, pass_decode);
    look_up_ns = measure(&s, &g, pass_look_up);
    total_ns = measure(&s, &g, pass_totals);
    check(&s, &g);
    bench_figure("decode_aggregate", 1e3 / total_ns, "M events/s", 60, BENCH_MORE);
    bench_figure("decode_only", 1e3 / decode_ns, "M events/s", 0, BENCH_MORE);
    bench_figure("share_present", 100 * present_ns / total_ns, "%", 0, BENCH_LESS);
    bench_figure("share_decode", 100 * (decode_ns - present_ns) / total_ns, "%", 0, BENCH_LESS);
    bench_figure("share_look_up", 100 * look_up_ns / total_ns, "%", 0, BENCH_LESS);
    bench_figure("share_aggregate", 100 * (total_ns - decode_ns - look_up_ns) / total_ns, "%", 0,
                 BENCH_LESS);
    stages_free(&g);
    free(s.records);
    free(s.payloads);
    return bench_end();
}
