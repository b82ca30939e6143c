/* etl_forks PATH RESIDENTS STARTS MS: a trace of a host on which RESIDENTS processes live all along
 * while STARTS more come and go within MS milliseconds, 40 at a time as a make does: the first of
 * each 101 is the parent of the others. Each has both providers' records of its start and end, a
 * thread, two images, a little CPU time, an exit code and final totals of its own, and a number
 * that comes again after STARTS / 2 others. Prints "records N starts N". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/source/etw_guid.h"
#include "common/base/clk.h"
#include "tests/support/etl_session.h"

#define CPUS          4
#define TREE          101
#define AT_ONCE       40
#define FIRST_PID     400
#define FIRST_TID     1000000
#define HZ            10000000
#define GROUP_PROCESS 3
#define GROUP_IMAGE   0x14
#define LAST_NS       (3 * CLK_S) /* after the last end: who lives is told by tables, too */

struct forks {
    struct etl_session s;
    int64_t now;
    uint32_t residents, starts, pids; /* pids: of those that come and go */
    int64_t step;                     /* ticks from one start to the next */
};

static uint32_t pid_of(const struct forks *f, uint32_t k)
{
    return FIRST_PID + 4 * (f->residents + k % f->pids);
}

static uint32_t parent_of(const struct forks *f, uint32_t k)
{
    return k % TREE ? pid_of(f, k - k % TREE) : FIRST_PID;
}

static uint32_t tid_of(const struct forks *f, uint32_t k)
{
    return FIRST_TID + 4 * (f->residents + k % f->pids);
}

static uint64_t sequence_of(const struct forks *f, uint32_t k)
{
    return UINT64_C(1000) + f->residents + k;
}

static uint64_t filetime_at(const struct forks *f, int64_t ticks)
{
    return f->s.conf.file.start + (uint64_t)(ticks - f->s.conf.file.zero_ticks);
}

static int64_t start_ticks(const struct forks *f, uint32_t k)
{
    return f->s.conf.file.zero_ticks + HZ / 2 + (int64_t)k * f->step;
}

static void put_text(struct buf *b, const char *text, size_t unit)
{
    for (const char *p = text;; p++) {
        buf_put(b, p, 1);
        if (unit == 2) {
            buf_put(b, "", 1);
        }
        if (!*p) {
            return;
        }
    }
}

static void put(struct forks *f, struct etl_rec r, struct buf *payload)
{
    r.payload = payload->p;
    r.n = payload->n;
    etl_session_put(&f->s, (uint16_t)(r.ticks % CPUS), &r);
    buf_fini(payload);
}

/* As etl_session_process, with exit code and command line. */
static void classic(struct forks *f, enum etl_life life, uint32_t pid, uint32_t parent,
                    const char *name, const char *line, uint32_t code)
{
    struct buf b;

    buf_init(&b, 1024);
    buf_put_u64le(&b, UINT64_C(0xffff800000000000) + 4096u * (uint64_t)pid);
    buf_put_u32le(&b, pid);
    buf_put_u32le(&b, parent);
    buf_put_u32le(&b, 1);
    buf_put_u32le(&b, life == ETL_END ? code : 259);
    buf_put_u64le(&b, 0);
    buf_put_u64le(&b, 0);
    put_text(&b, name, 1);
    put_text(&b, line, 2);
    buf_put_u32le(&b, 0);
    put(f, etl_rec_system(GROUP_PROCESS, (uint8_t)life, 4, f->now, NULL, 0), &b);
}

static void image(struct forks *f, uint8_t opcode, uint32_t pid, unsigned nth)
{
    struct buf b;

    buf_init(&b, 1024);
    buf_put_u64le(&b, UINT64_C(0x7ff000000000) + nth * 0x100000u);
    buf_put_u64le(&b, 0x20000);
    buf_put_u32le(&b, pid);
    buf_put_u64le(&b, 0);
    buf_put_u32le(&b, 0);
    for (unsigned i = 0; i < 3; i++) {
        buf_put_u64le(&b, 0);
    }
    put_text(&b, nth ? "\\Windows\\System32\\ntdll.dll" : "\\Tools\\step.exe", 2);
    put(f, etl_rec_system(GROUP_IMAGE, opcode, 3, f->now, NULL, 0), &b);
}

static struct etl_rec manifest(const struct forks *f, uint16_t id, uint8_t version, uint32_t pid)
{
    static const uint8_t guid[16] = ETW_PROVIDER_KERNEL_PROCESS;

    return (struct etl_rec){.type = ETL_EVENT64,
                            .ticks = f->now,
                            .pid = pid,
                            .tid = 8,
                            .guid = guid,
                            .id = id,
                            .version = version,
                            .level = 4,
                            .opcode = (uint8_t)id,
                            .flags = 0x40, /* 64-bit */
                            .keyword = UINT64_C(0x8000000000000010)};
}

/* Version 3. */
static void manifest_start(struct forks *f, uint32_t k)
{
    static const uint8_t label[12] = {1, 1, 0, 0, 0, 0, 0, 16, 0, 0x30, 0, 0};
    struct buf b;

    buf_init(&b, 1024);
    buf_put_u32le(&b, pid_of(f, k));
    buf_put_u64le(&b, sequence_of(f, k));
    buf_put_u64le(&b, filetime_at(f, start_ticks(f, k)));
    buf_put_u32le(&b, parent_of(f, k));
    buf_put_u64le(&b, k % TREE ? sequence_of(f, k - k % TREE) : 1000);
    buf_put_u32le(&b, 1);
    buf_put_u32le(&b, 0);
    buf_put_u64le(&b, 1);
    buf_put(&b, label, sizeof label);
    put_text(&b, "\\Device\\HarddiskVolume3\\Tools\\step.exe", 2);
    buf_put_u64le(&b, 0);
    buf_put_u32le(&b, 0);
    put(f, manifest(f, 1, 3, parent_of(f, k)), &b);
}

/* Version 2. */
static void manifest_stop(struct forks *f, uint32_t k)
{
    struct buf b;

    buf_init(&b, 1024);
    buf_put_u32le(&b, pid_of(f, k));
    buf_put_u64le(&b, sequence_of(f, k));
    buf_put_u64le(&b, filetime_at(f, start_ticks(f, k)));
    buf_put_u64le(&b, filetime_at(f, f->now));
    buf_put_u32le(&b, k % 256);
    buf_put_u32le(&b, 1);
    buf_put_u32le(&b, 10 + k % 90);
    buf_put_u64le(&b, 1 << 20);
    buf_put_u64le(&b, 2 << 20);
    buf_put_u64le(&b, UINT64_C(1000000) + 17 * (uint64_t)k); /* cycles */
    buf_put_u32le(&b, 1000 + k % 1000); /* above what recorded_host.h's tables say */
    buf_put_u32le(&b, 1000 + k % 700);
    buf_put_u32le(&b, 1000 + k % 5000);
    buf_put_u32le(&b, 1000 + k % 3000);
    buf_put_u32le(&b, 1000 + k % 40);
    put_text(&b, "step.exe", 1);
    put(f, manifest(f, 2, 2, pid_of(f, k)), &b);
}

/* The records of one moment are a microsecond apart. */
static void start(struct forks *f, uint32_t k)
{
    char line[64];

    (void)snprintf(line, sizeof line, "step.exe --job %u --of %u", (unsigned)k,
                   (unsigned)f->starts);
    f->now = start_ticks(f, k);
    classic(f, ETL_START, pid_of(f, k), parent_of(f, k), "step.exe", line, 0);
    f->now += 10;
    manifest_start(f, k);
    f->now += 10;
    etl_session_thread(&f->s, 0, ETL_START, f->now, pid_of(f, k), tid_of(f, k));
    for (unsigned i = 0; i < 2; i++) {
        f->now += 10;
        image(f, 10, pid_of(f, k), i);
    }
    f->now += 10;
    etl_session_switch(&f->s, 1, f->now, tid_of(f, k), 0);
    f->now += 100;
    etl_session_switch(&f->s, 1, f->now, 0, tid_of(f, k));
}

static void end(struct forks *f, uint32_t k)
{
    f->now += 10;
    etl_session_thread(&f->s, 0, ETL_END, f->now, pid_of(f, k), tid_of(f, k));
    f->now += 10;
    classic(f, ETL_END, pid_of(f, k), parent_of(f, k), "step.exe", "", k % 256);
    f->now += 10;
    manifest_stop(f, k);
}

static void residents(struct forks *f)
{
    char name[32], line[64];

    for (uint32_t i = 0; i < f->residents; i++) {
        (void)snprintf(name, sizeof name, "app%u.exe", (unsigned)i % 97);
        (void)snprintf(line, sizeof line, "app.exe --serve %u", (unsigned)i);
        f->now++;
        classic(f, ETL_RUNDOWN, FIRST_PID + 4 * i, 4, name, line, 0);
        f->now++;
        etl_session_thread(&f->s, 0, ETL_RUNDOWN, f->now, FIRST_PID + 4 * i, FIRST_TID + 4 * i);
    }
}

int main(int argc, char **argv)
{
    struct etl_session_conf conf = etl_session_defaults();
    struct forks f = {0};
    int64_t ms;

    if (argc != 5) {
        fprintf(stderr, "usage: etl_forks PATH RESIDENTS STARTS MS\n");
        return 2;
    }
    f.residents = (uint32_t)strtoul(argv[2], NULL, 10);
    f.starts = (uint32_t)strtoul(argv[3], NULL, 10);
    ms = strtoll(argv[4], NULL, 10);
    f.pids = f.starts / 2;
    f.step = ms * (HZ / 1000) / (f.starts ? f.starts : 1);
    if (!f.residents || f.residents > 10000 || f.pids <= AT_ONCE + TREE || f.step < 300) {
        fprintf(stderr, "etl_forks: 1 to 10000 residents, 300 starts or more, 30 us each\n");
        return 2;
    }
    conf.file.cpus = CPUS;
    f.now = conf.file.zero_ticks + 1;
    etl_session_begin(&f.s, &conf, argv[1]);
    residents(&f);
    for (uint32_t k = 0; k < f.starts + AT_ONCE; k++) {
        if (k < f.starts) {
            start(&f, k);
        } else {
            f.now = start_ticks(&f, k);
        }
        if (k >= AT_ONCE) {
            end(&f, k - AT_ONCE);
        }
    }
    f.now += LAST_NS / (CLK_S / HZ);
    etl_session_thread(&f.s, 0, ETL_START, f.now, FIRST_PID, FIRST_TID - 4);
    etl_session_end(&f.s, f.now + 1);
    printf("records %llu starts %u\n", (unsigned long long)f.s.records, (unsigned)f.starts);
    return 0;
}
