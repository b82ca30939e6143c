#include "tests/support/etl_session.h"

#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES   0x48
#define FLAG_EVENTS    2
#define FLAG_BUFFER    4
#define GROUP_PROCESS  3
#define GROUP_THREAD   5
#define GROUP_PERFINFO 15
#define HZ_FILETIME    10000000

struct etl_session_cpu {
    struct buf body; /* records of the open buffer */
    uint64_t records;
    int64_t since;  /* stamp of the first one */
    uint16_t flags; /* what this buffer tells */
};

static void check(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "etl_session: %s\n", what);
        exit(1);
    }
}

struct etl_session_conf etl_session_defaults(void)
{
    struct etl_session_conf conf = {.file = etl_writer_defaults()};

    conf.file.buffer_size = 65536;
    return conf;
}

void etl_session_begin(struct etl_session *s, const struct etl_session_conf *conf, const char *path)
{
    memset(s, 0, sizeof *s);
    s->conf = *conf;
    s->f = fopen(path, "wb+");
    check(s->f != NULL, "cannot make the file");
    s->cpus = calloc(conf->file.cpus, sizeof *s->cpus);
    check(s->cpus != NULL, "out of memory");
    for (uint32_t i = 0; i < conf->file.cpus; i++) {
        buf_init(&s->cpus[i].body, conf->file.buffer_size);
    }
    buf_init(&s->one, UINT16_MAX + 8);
    etl_writer_init(&s->w, &conf->file);
    etl_writer_to(&s->w, s->f);
    etl_writer_close(&s->w);
    s->records = 1;
}

void etl_session_flush(struct etl_session *s, uint16_t cpu)
{
    struct etl_session_cpu *c = &s->cpus[cpu];

    if (c->body.n == 0) {
        return;
    }
    if (s->conf.circular_buffers) {
        uint32_t at = 1 + (s->w.n_buffers - 1) % s->conf.circular_buffers;

        check(fseek(s->f, (long)at * (long)s->conf.file.buffer_size, SEEK_SET) == 0, "cannot seek");
    }
    etl_writer_buffer(&s->w, cpu, c->flags);
    buf_put(&s->w.file, c->body.p, c->body.n);
    if (s->conf.compress) {
        etl_writer_close_compressed(&s->w);
    } else {
        etl_writer_close(&s->w);
    }
    s->records += c->records;
    buf_reset(&c->body);
    c->records = 0;
    c->flags = 0;
}

void etl_session_put(struct etl_session *s, uint16_t cpu, const struct etl_rec *r)
{
    size_t room = s->conf.file.buffer_size - HEADER_BYTES;
    struct etl_session_cpu *c;

    check(cpu < s->conf.file.cpus, "no such CPU");
    c = &s->cpus[cpu];
    buf_reset(&s->one);
    etl_rec_put(&s->one, r);
    check(s->one.n <= room, "a record does not fit into a buffer");
    if (s->one.n > room - c->body.n) {
        etl_session_flush(s, cpu);
    }
    if (c->body.n == 0) {
        c->since = r->ticks;
    }
    buf_put(&c->body, s->one.p, s->one.n);
    check(!c->body.bad, "out of memory");
    c->records++;
}

uint64_t etl_session_lose_buffer(struct etl_session *s, uint16_t cpu)
{
    struct etl_session_cpu *c = &s->cpus[cpu];
    uint64_t n = c->records;

    if (n) {
        buf_reset(&c->body);
        c->records = 0;
        c->flags |= FLAG_BUFFER;
        s->buffers_lost++;
    }
    return n;
}

void etl_session_lose_events(struct etl_session *s, uint16_t cpu, uint32_t n)
{
    etl_session_flush(s, cpu);
    s->cpus[cpu].flags |= FLAG_EVENTS;
    s->events_lost += n;
}

int64_t etl_session_open_since(const struct etl_session *s, uint16_t cpu)
{
    return s->cpus[cpu].body.n ? s->cpus[cpu].since : INT64_MAX;
}

static uint64_t filetime_at(const struct etl_session *s, int64_t ticks)
{
    const struct etl_writer_conf *c = &s->conf.file;
    uint64_t hz = c->clock == 2   ? HZ_FILETIME
                  : c->clock == 3 ? c->cpu_mhz * UINT64_C(1000000)
                                  : c->frequency;
    uint64_t since = (uint64_t)(ticks - c->zero_ticks);

    return c->start + since / hz * HZ_FILETIME + since % hz * HZ_FILETIME / hz;
}

void etl_session_end(struct etl_session *s, int64_t ticks)
{
    for (uint16_t i = 0; i < s->conf.file.cpus; i++) {
        etl_session_flush(s, i);
        buf_fini(&s->cpus[i].body);
    }
    if (s->conf.crash) {
        s->w.n_buffers--;
        etl_writer_finish(&s->w, 0, 0, 0);
    } else {
        etl_writer_finish(&s->w, filetime_at(s, ticks), s->events_lost, s->buffers_lost);
    }
    check(fclose(s->f) == 0, "cannot write the file");
    free(s->cpus);
    buf_fini(&s->one);
    etl_writer_fini(&s->w);
}

static void put_pointer(const struct etl_session *s, struct buf *b, uint64_t v)
{
    if (s->conf.file.pointer_size == 8) {
        buf_put_u64le(b, v);
    } else {
        buf_put_u32le(b, (uint32_t)v);
    }
}

/* A SYSTEM or PERFINFO record of the file's pointer size with the payload, which it releases. */
static void put_kernel(struct etl_session *s, uint16_t cpu, struct etl_rec r, struct buf *payload)
{
    check(!payload->bad, "out of memory");
    r.payload = payload->p;
    r.n = payload->n;
    if (s->conf.file.pointer_size == 4) {
        r.type = r.type == ETL_SYSTEM64 ? ETL_SYSTEM32 : ETL_PERFINFO32;
    }
    etl_session_put(s, cpu, &r);
    buf_fini(payload);
}

/* Version 4: P key, u32 pid, u32 parent, u32 session, i32 exit, P page directory, u32 flags, no
 * SID (u32 0), a image, w command line, w package, w application. */
void etl_session_process(struct etl_session *s, uint16_t cpu, enum etl_life life, int64_t ticks,
                         uint32_t pid, uint32_t parent, const char *name)
{
    struct buf b;

    buf_init(&b, 1024);
    put_pointer(s, &b, UINT64_C(0xffff800000000000) + 4096u * pid);
    buf_put_u32le(&b, pid);
    buf_put_u32le(&b, parent);
    buf_put_u32le(&b, 1);
    buf_put_u32le(&b, life == ETL_END ? 0 : 259);
    put_pointer(s, &b, 0);
    buf_put_u32le(&b, 0);
    buf_put_u32le(&b, 0);
    buf_put(&b, name, strlen(name) + 1);
    buf_put(&b, "\0\0\0\0\0", 6);
    put_kernel(s, cpu, etl_rec_system(GROUP_PROCESS, (uint8_t)life, 4, ticks, NULL, 0), &b);
}

/* Version 3: u32 pid, u32 tid, P × 7, u32 service tag, u8 × 4. */
void etl_session_thread(struct etl_session *s, uint16_t cpu, enum etl_life life, int64_t ticks,
                        uint32_t pid, uint32_t tid)
{
    struct buf b;

    buf_init(&b, 1024);
    buf_put_u32le(&b, pid);
    buf_put_u32le(&b, tid);
    for (unsigned i = 0; i < 7; i++) {
        put_pointer(s, &b, UINT64_C(0x7ff000000000) + tid);
    }
    buf_put_u32le(&b, 0);
    buf_put_u32le(&b, 0x00020508);
    put_kernel(s, cpu, etl_rec_system(GROUP_THREAD, (uint8_t)life, 3, ticks, NULL, 0), &b);
}

/* u32 new, u32 old, i8 × 2 priorities, u8, i8, u8 wait reason, i8 wait mode, u8 state, u8, u32 wait
 * time, u32. The old thread waits (state 5), by its own will (reason 6: user request). */
void etl_session_switch(struct etl_session *s, uint16_t cpu, int64_t ticks, uint32_t next,
                        uint32_t last)
{
    static const uint8_t middle[8] = {8, 8, 0, 0, 6, 1, 5, 0};
    struct buf b;

    buf_init(&b, 64);
    buf_put_u32le(&b, next);
    buf_put_u32le(&b, last);
    buf_put(&b, middle, sizeof middle);
    buf_put_u64le(&b, 0);
    put_kernel(s, cpu, etl_rec_perfinfo(GROUP_THREAD, 36, 4, ticks, NULL, 0), &b);
}

void etl_session_ready(struct etl_session *s, uint16_t cpu, int64_t ticks, uint32_t tid)
{
    struct buf b;

    buf_init(&b, 64);
    buf_put_u32le(&b, tid);
    buf_put_u32le(&b, 0);
    put_kernel(s, cpu, etl_rec_perfinfo(GROUP_THREAD, 50, 2, ticks, NULL, 0), &b);
}

/* P address, u32 thread, u16 count, u8 flags (1: a DPC ran), u8. */
void etl_session_sample(struct etl_session *s, uint16_t cpu, int64_t ticks, uint32_t tid,
                        bool interrupt)
{
    struct buf b;

    buf_init(&b, 64);
    put_pointer(s, &b, UINT64_C(0xfffff80000001234));
    buf_put_u32le(&b, tid);
    buf_put_u16le(&b, 1);
    buf_put_u16le(&b, interrupt ? 1 : 0);
    put_kernel(s, cpu, etl_rec_perfinfo(GROUP_PERFINFO, 46, 2, ticks, NULL, 0), &b);
}

/* u32 source (0: the clock), u32 new, u32 old interval. */
void etl_session_interval(struct etl_session *s, uint16_t cpu, int64_t ticks, uint32_t units)
{
    struct buf b;

    buf_init(&b, 64);
    buf_put_u32le(&b, 0);
    buf_put_u32le(&b, units);
    buf_put_u32le(&b, units);
    put_kernel(s, cpu, etl_rec_perfinfo(GROUP_PERFINFO, 73, 2, ticks, NULL, 0), &b);
}
