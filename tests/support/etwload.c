/* Processes that live all along have the pids ETWLOAD_PID + 4 i; thread j of process i the number
 * 16 + 4 (i × ETWLOAD_THREADS + j), and belongs to one CPU: its number of threads modulo. Brief
 * process k begins k / ETWLOAD_BRIEF seconds after the first record: so both the stream and the
 * tables can tell of it without knowing each other. */
#include "tests/support/etwload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/source/etw_guid.h"
#include "tests/support/draw.h"
#include "tests/support/snap_gen.h"

#define PAYLOAD_MAX  192
#define FREQUENCY    10000000
#define BRIEF_NS     (CLK_S / ETWLOAD_BRIEF)
#define BRIEF_PIDS   4096
#define PARENT       ETWLOAD_PID
#define FIRST_TID    16
#define BRIEF_STEPS  6 /* records of a start, and as many of an end */
#define START_OPCODE 1
#define END_OPCODE   2
#define FOUND_OPCODE 3

enum class_id {
    CLASS_PROCESS,
    CLASS_THREAD,
    CLASS_IMAGE,
    CLASS_DISK,
    CLASS_FAULT,
    CLASS_NETWORK,
    CLASS_MANIFEST,
    CLASS_CLR
};

struct etwload {
    struct etwload_conf conf;
    uint64_t random;
    uint32_t n_threads;
    uint32_t found;      /* records of the rundown handed out */
    uint64_t n;          /* records of the stream proper */
    uint64_t begun, end; /* brief processes: starts, ends, handed out in full */
    unsigned step;       /* of the one under way */
    uint32_t running[ETWLOAD_CPUS];
    uint32_t disk_tid; /* whose request is to be ended next; 0 = none */
    uint32_t extra;    /* threads begun */
    uint64_t asked;    /* records of gc_network */
    unsigned kept;
    uint8_t payloads[ETWLOAD_KEPT][PAYLOAD_MAX];
    size_t payload_n;
};

static void check(bool good)
{
    if (!good) {
        fprintf(stderr, "etwload: out of memory\n");
        exit(1);
    }
}

struct etwload *etwload_create(const struct etwload_conf *conf)
{
    struct etwload *l = calloc(1, sizeof *l);

    check(l != NULL);
    l->conf = *conf;
    l->random = conf->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    l->n_threads = conf->processes * ETWLOAD_THREADS;
    return l;
}

void etwload_destroy(struct etwload *l)
{
    free(l);
}

static uint32_t tid_of(uint32_t thread)
{
    return FIRST_TID + 4 * thread;
}

static uint32_t pid_of(uint32_t thread)
{
    return ETWLOAD_PID + 4 * (thread / ETWLOAD_THREADS);
}

static uint32_t brief_pid(uint64_t k)
{
    return ETWLOAD_BRIEF_PID + 4 * (uint32_t)(k % BRIEF_PIDS);
}

static uint32_t brief_tid(const struct etwload *l, uint64_t k)
{
    return tid_of(l->n_threads + (uint32_t)(k % BRIEF_PIDS));
}

static uint64_t brief_created(const struct etwload_conf *conf, uint64_t k)
{
    return clk_to_filetime(conf->begin_wall + (int64_t)k * BRIEF_NS);
}

/* -- payloads -- */

static void add(struct etwload *l, uint64_t v, size_t bytes)
{
    uint8_t *p = l->payloads[l->kept] + l->payload_n;

    for (size_t i = 0; i < bytes; i++) {
        p[i] = (uint8_t)(v >> 8 * i);
    }
    l->payload_n += bytes;
}

static void add_text(struct etwload *l, const char *text, size_t unit)
{
    for (const char *p = text;; p++) {
        add(l, (uint8_t)*p, unit);
        if (!*p) {
            return;
        }
    }
}

static void set(struct raw_event *raw, enum class_id id, uint8_t opcode, uint8_t version)
{
    static const uint8_t guids[][16] = {
        [CLASS_PROCESS] = ETW_CLASS_PROCESS,  [CLASS_THREAD] = ETW_CLASS_THREAD,
        [CLASS_IMAGE] = ETW_CLASS_IMAGE,      [CLASS_DISK] = ETW_CLASS_DISK_IO,
        [CLASS_FAULT] = ETW_CLASS_PAGE_FAULT, [CLASS_MANIFEST] = ETW_PROVIDER_KERNEL_PROCESS,
        [CLASS_NETWORK] = ETW_CLASS_TCP_IP,   [CLASS_CLR] = ETW_PROVIDER_CLR,
    };
    bool manifest = id >= CLASS_MANIFEST;

    memcpy(raw->guid, guids[id], sizeof raw->guid);
    raw->form = manifest ? RAW_MANIFEST : RAW_CLASSIC;
    raw->opcode = opcode;
    raw->id = manifest ? opcode : 0;
    raw->version = version;
    raw->level = manifest ? 4 : 0;
    raw->keyword = manifest ? UINT64_C(0x8000000000000010) : 0;
}

/* Version 4: P key, u32 pid, parent, session, exit code, P directory, u32 flags, no SID (u32 0), a
 * image, w command line, package, application. */
static void process(struct etwload *l, struct raw_event *raw, uint8_t opcode, uint32_t pid)
{
    char name[32];

    (void)snprintf(name, sizeof name, "app%u.exe", pid % 97);
    set(raw, CLASS_PROCESS, opcode, 4);
    add(l, UINT64_C(0xffff800000000000) + 4096u * (uint64_t)pid, 8);
    add(l, pid, 4);
    add(l, PARENT, 4);
    add(l, 1, 4);
    add(l, opcode == END_OPCODE ? 0 : 259, 4);
    add(l, 0, 8);
    add(l, 0, 4);
    add(l, 0, 4);
    add_text(l, name, 1);
    add_text(l, "app.exe --serve --port 80", 2);
    add(l, 0, 4);
}

/* Version 3: u32 pid, u32 tid, P × 7, u32 service tag, u8 × 4. */
static void thread(struct etwload *l, struct raw_event *raw, uint8_t opcode, uint32_t pid,
                   uint32_t tid)
{
    set(raw, CLASS_THREAD, opcode, 3);
    add(l, pid, 4);
    add(l, tid, 4);
    for (unsigned i = 0; i < 7; i++) {
        add(l, UINT64_C(0x7ff000000000) + tid, 8);
    }
    add(l, 0, 4);
    add(l, 0x00020508, 4);
}

/* Version 3: P base, P size, u32 pid, u32 checksum, u32 time stamp, u8 signature × 2, u16, P
 * default base, u32 × 4, w path. */
static void image(struct etwload *l, struct raw_event *raw, uint8_t opcode, uint32_t pid)
{
    set(raw, CLASS_IMAGE, opcode, 3);
    add(l, UINT64_C(0x7ff000000000) + (uint64_t)draw(&l->random, 4096) * 65536, 8);
    add(l, 0x20000, 8);
    add(l, pid, 4);
    add(l, 0, 4);
    add(l, 0, 4);
    add(l, 0, 4);
    add(l, 0, 8);
    add(l, 0, 8);
    add(l, 0, 8);
    add_text(l, "\\Windows\\System32\\shared.dll", 2);
}

/* Start, version 1: u32 pid, t created, u32 parent, session, flags, w image. Stop, version 1: u32
 * pid, t created, t ended, u32 exit code, elevation, handles, u64 committed, most committed,
 * cycles, u32 reads, writes, KiB read, KiB written, hard faults, a image. */
static void manifest(struct etwload *l, struct raw_event *raw, bool start, uint64_t k)
{
    static const uint32_t counts[] = {300, 40, 1200, 160, 12};
    uint64_t created = brief_created(&l->conf, k);

    set(raw, CLASS_MANIFEST, start ? 1 : 2, 1);
    raw->pid = brief_pid(k);
    add(l, brief_pid(k), 4);
    add(l, created, 8);
    if (start) {
        add(l, PARENT, 4);
        add(l, 1, 4);
        add(l, 0, 4);
        add_text(l, "\\Device\\HarddiskVolume3\\Tools\\app.exe", 2);
        return;
    }
    add(l, created + ETWLOAD_LIFE_NS / 100, 8);
    add(l, 0, 8);
    add(l, 40, 4);
    add(l, 1 << 20, 8);
    add(l, 2 << 20, 8);
    add(l, 40000000, 8);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        add(l, counts[i], 4);
    }
    add_text(l, "app.exe", 1);
}

/* u32 new, u32 old, i8 × 2 priorities, u8, i8, u8 wait reason, i8 wait mode, u8 state, u8, u32 wait
 * time, u32. The old one waits (state 5). */
static void context_switch(struct etwload *l, struct raw_event *raw)
{
    unsigned cpu = draw(&l->random, ETWLOAD_CPUS);
    uint32_t thread = draw(&l->random, l->n_threads / ETWLOAD_CPUS) * ETWLOAD_CPUS + cpu;
    uint32_t next = draw(&l->random, 10) < 3 ? 0 : tid_of(thread);

    if (next == l->running[cpu]) {
        next = next ? 0 : tid_of(thread);
    }
    set(raw, CLASS_THREAD, 36, 4);
    raw->cpu = (uint16_t)cpu;
    add(l, next, 4);
    add(l, l->running[cpu], 4);
    add(l, UINT64_C(0x0005010600000808), 8);
    add(l, 0, 8);
    l->running[cpu] = next;
}

/* Version 3. Begun: P irp, u32 tid. Done: u32 disk, flags, bytes, reserved, u64 offset, P file,
 * irp, u64 ticks, u32 tid. */
static void disk(struct etwload *l, struct raw_event *raw)
{
    uint64_t irp = UINT64_C(0xffffa00000001000);

    if (!l->disk_tid) {
        l->disk_tid = tid_of(draw(&l->random, l->n_threads));
        set(raw, CLASS_DISK, 12, 3);
        add(l, irp, 8);
        add(l, l->disk_tid, 4);
        return;
    }
    set(raw, CLASS_DISK, (uint8_t)(10 + draw(&l->random, 2)), 3);
    add(l, 0, 8);
    add(l, 4096u << draw(&l->random, 5), 8);
    add(l, UINT64_C(4096) * draw(&l->random, 1 << 20), 8);
    add(l, UINT64_C(0xffffb00000001000), 8);
    add(l, irp, 8);
    add(l, 500 + draw(&l->random, 5000), 8);
    add(l, l->disk_tid, 4);
    l->disk_tid = 0;
}

/* Version 2: u64 begin, u64 offset, P address, P file, u32 tid, u32 bytes. */
static void hard_fault(struct etwload *l, struct raw_event *raw)
{
    set(raw, CLASS_FAULT, 32, 2);
    add(l, (uint64_t)raw->ticks - 2000, 8);
    add(l, UINT64_C(4096) * draw(&l->random, 1 << 16), 8);
    add(l, UINT64_C(0x7ff000000000), 8);
    add(l, UINT64_C(0xffffb00000002000), 8);
    add(l, tid_of(draw(&l->random, l->n_threads)), 4);
    add(l, 4096, 4);
}

/* Version 2: u32 pid, u32 bytes, two addresses and ports of IPv4, u32 × 3, P connection. */
static void network(struct etwload *l, struct raw_event *raw)
{
    set(raw, CLASS_NETWORK, l->asked % 2 ? 11 : 10, 2);
    add(l, ETWLOAD_PID + 4 * draw(&l->random, l->conf.processes), 4);
    add(l, 1460, 4);
    for (unsigned i = 0; i < 4; i++) {
        add(l, 0, 8);
    }
}

/* Version 1, four records a collection: u32 number, generation, reason, type, u16 of the runtime;
 * u32 reason 1, number, u16; u16; u32 number, generation, u16. */
static void collection(struct etwload *l, struct raw_event *raw)
{
    static const uint8_t ids[] = {1, 9, 3, 2}, words[] = {4, 2, 0, 2};
    uint64_t nth = l->asked / 25;
    unsigned kind = nth % 4;

    set(raw, CLASS_CLR, ids[kind], 1);
    raw->opcode = 0;
    raw->pid = ETWLOAD_PID + 4 * (uint32_t)(nth / 4 % l->conf.processes);
    raw->tid = tid_of((uint32_t)(nth / 4 % l->conf.processes) * ETWLOAD_THREADS);
    for (unsigned i = 0; i < words[kind]; i++) {
        add(l, i ? 0 : kind == 1 ? 1 : nth / 4, 4);
    }
    add(l, 0, 2);
}

/* -- the stream -- */

static void begin_record(struct etwload *l, struct raw_event *raw, int64_t at_ns)
{
    l->kept = (l->kept + 1) % ETWLOAD_KEPT;
    l->payload_n = 0;
    *raw = (struct raw_event){.pid = EVENT_NO_ID,
                              .tid = EVENT_NO_ID,
                              .pointer_size = 8,
                              .cpu = (uint16_t)(l->n % ETWLOAD_CPUS),
                              .mono_ns = at_ns,
                              .wall_ns = l->conf.begin_wall + (at_ns - l->conf.begin_ns),
                              .ticks = at_ns / (CLK_S / FREQUENCY),
                              .frequency = FREQUENCY};
}

/* Processes, each followed by its threads. */
static void found(struct etwload *l, struct raw_event *raw)
{
    uint32_t group = 1 + ETWLOAD_THREADS, i = l->found / group, j = l->found % group;

    begin_record(l, raw, l->conf.begin_ns);
    if (j == 0) {
        process(l, raw, FOUND_OPCODE, ETWLOAD_PID + 4 * i);
    } else {
        thread(l, raw, FOUND_OPCODE, ETWLOAD_PID + 4 * i, tid_of(i * ETWLOAD_THREADS + j - 1));
    }
    l->found++;
}

static int64_t brief_ns(const struct etwload *l, uint64_t k, bool start)
{
    return l->conf.begin_ns + (int64_t)k * BRIEF_NS + (start ? 0 : ETWLOAD_LIFE_NS);
}

static void brief(struct etwload *l, struct raw_event *raw, bool start,
                  enum etwload_session *session)
{
    uint64_t k = start ? l->begun : l->end;
    uint8_t opcode = start ? START_OPCODE : END_OPCODE;
    unsigned what = start ? l->step : BRIEF_STEPS - 1 - l->step;

    begin_record(l, raw, brief_ns(l, k, start));
    if (what == 0) {
        manifest(l, raw, start, k);
        *session = ETWLOAD_MANIFEST;
    } else if (what == 1) {
        process(l, raw, opcode, brief_pid(k));
    } else if (what == 2) {
        thread(l, raw, opcode, brief_pid(k), brief_tid(l, k));
    } else {
        image(l, raw, start ? 10 : 2, brief_pid(k));
    }
    l->step = (l->step + 1) % BRIEF_STEPS;
    if (l->step == 0) {
        l->begun += start;
        l->end += !start;
    }
}

static void other(struct etwload *l, struct raw_event *raw, uint32_t what,
                  enum etwload_session *session)
{
    *session = ETWLOAD_RATE;
    if (what < 60) {
        disk(l, raw);
    } else if (what < 80) {
        hard_fault(l, raw);
    } else {
        uint32_t tid = tid_of(l->n_threads + BRIEF_PIDS + l->extra / 2 % 64);

        *session = ETWLOAD_LIFECYCLE;
        if (what < 110) {
            thread(l, raw, l->extra++ % 2 ? END_OPCODE : START_OPCODE, pid_of(tid % l->n_threads),
                   tid);
        } else {
            image(l, raw, what < 115 ? 10 : 2, pid_of(draw(&l->random, l->n_threads)));
        }
    }
}

static int64_t stream_ns(const struct etwload *l)
{
    uint64_t at = l->n * (uint64_t)(CLK_S / FREQUENCY) * FREQUENCY / l->conf.per_second;

    return l->conf.begin_ns + (int64_t)at;
}

bool etwload_next(struct etwload *l, int64_t until_ns, struct raw_event *raw,
                  enum etwload_session *session)
{
    int64_t starts_ns = brief_ns(l, l->begun, true), ends_ns = brief_ns(l, l->end, false);
    int64_t at_ns = stream_ns(l), brief_at_ns = starts_ns < ends_ns ? starts_ns : ends_ns;

    *session = ETWLOAD_LIFECYCLE;
    if (until_ns < l->conf.begin_ns) {
        return false;
    }
    if (l->found < l->n_threads + l->conf.processes) {
        found(l, raw);
    } else if (brief_at_ns <= at_ns && brief_at_ns <= until_ns) {
        brief(l, raw, starts_ns <= ends_ns, session);
    } else if (at_ns <= until_ns && brief_at_ns > at_ns) {
        uint32_t what = draw(&l->random, 1000);

        begin_record(l, raw, at_ns);
        if (l->conf.gc_network && draw(&l->random, 1000) < l->conf.gc_network) {
            *session = ++l->asked % 25 ? ETWLOAD_RATE : ETWLOAD_MANIFEST;
            (*session == ETWLOAD_RATE ? network : collection)(l, raw);
        } else if (what < 880) {
            *session = ETWLOAD_RATE;
            context_switch(l, raw);
        } else {
            other(l, raw, what - 880, session);
        }
        l->n++;
    } else {
        return false;
    }
    raw->payload = l->payloads[l->kept];
    raw->payload_n = l->payload_n;
    return true;
}

/* -- tables -- */

struct etwload_tables {
    struct etwload_conf conf;
    bool extension;
    struct buf fixed; /* entries of who lives all along */
    size_t *at;       /* of each */
    unsigned n;       /* answers given */
};

static void put_process(struct buf *b, uint32_t pid, uint64_t created, uint32_t first_tid,
                        size_t n_threads, bool extension, bool last)
{
    struct snap_gen_thread threads[ETWLOAD_THREADS];
    char16_t name[16] = u"app00.exe";
    struct snap_gen_process p = {.pid = pid,
                                 .parent = PARENT,
                                 .session = 1,
                                 .created = created,
                                 .name = name,
                                 .threads = threads,
                                 .n_threads = n_threads,
                                 .extension = extension};

    name[3] = (char16_t)(u'0' + pid % 97 / 10);
    name[4] = (char16_t)(u'0' + pid % 97 % 10);
    for (size_t i = 0; i < n_threads; i++) {
        threads[i] = (struct snap_gen_thread){
            .tid = first_tid + 4 * (uint32_t)i, .state = i ? 5 : 2, .reason = 6};
    }
    snap_gen_put(b, ETWLOAD_ADDRESS, false, &p, last);
}

struct etwload_tables *etwload_tables_create(const struct etwload_conf *conf, bool extension)
{
    struct etwload_tables *t = calloc(1, sizeof *t);
    uint64_t created = clk_to_filetime(conf->begin_wall - 3600 * CLK_S);

    check(t != NULL);
    t->conf = *conf;
    t->extension = extension;
    t->at = calloc(conf->processes, sizeof *t->at);
    check(t->at != NULL);
    buf_init(&t->fixed, SIZE_MAX / 2);
    for (uint32_t i = 0; i < conf->processes; i++) {
        t->at[i] = t->fixed.n;
        put_process(&t->fixed, ETWLOAD_PID + 4 * i, created + i, tid_of(i * ETWLOAD_THREADS),
                    ETWLOAD_THREADS, extension, false);
    }
    check(!t->fixed.bad);
    return t;
}

void etwload_tables_destroy(struct etwload_tables *t)
{
    if (t) {
        buf_fini(&t->fixed);
        free(t->at);
        free(t);
    }
}

size_t etwload_tables_bytes(const struct etwload_tables *t)
{
    return t->fixed.n;
}

static void raise(uint8_t *p, uint64_t by, size_t bytes)
{
    uint64_t v = by;

    for (size_t i = 0; i < bytes; i++) {
        v += p[i];
        p[i] = (uint8_t)v;
        v >>= 8;
    }
}

/* What a process did since the answer before. */
static void live_on(uint8_t *e, unsigned i)
{
    raise(e + 0x18, 40000000, 8);  /* cycles */
    raise(e + 0x28, 156250, 8);    /* user time */
    raise(e + 0x80, 3 + i % 7, 4); /* page faults */
    raise(e + 0x90, 4096 * (i % 5), 8);
    raise(e + 0xc8, 4096 * (i % 3), 8);
    raise(e + 0xd0, i % 4, 8); /* reads */
    raise(e + 0xe8, 512 * (i % 4), 8);
    raise(e + 0x100 + 0x40, 1 + i % 9, 4); /* context switches of its first thread */
}

void etwload_table(struct etwload_tables *t, int64_t mono_ns, struct buf *answer)
{
    int64_t since_ns = mono_ns - t->conf.begin_ns;
    uint64_t last = since_ns > 0 ? (uint64_t)(since_ns / BRIEF_NS) : 0;
    uint64_t first =
        last > 2 * (ETWLOAD_LIFE_NS / BRIEF_NS) ? last - ETWLOAD_LIFE_NS / BRIEF_NS : 0;
    uint32_t tids = t->conf.processes * ETWLOAD_THREADS;

    for (uint32_t i = t->n++ % 3; i < t->conf.processes; i += 3) {
        live_on(t->fixed.p + t->at[i], i);
    }
    buf_reset(answer);
    buf_put(answer, t->fixed.p, t->fixed.n);
    for (uint64_t k = first; k <= last; k++) {
        if ((int64_t)k * BRIEF_NS + ETWLOAD_LIFE_NS > since_ns) {
            put_process(answer, brief_pid(k), brief_created(&t->conf, k),
                        tid_of(tids + (uint32_t)(k % BRIEF_PIDS)), 1, t->extension, k == last);
        }
    }
    check(!answer->bad);
}
