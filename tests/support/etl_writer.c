#include "tests/support/etl_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX      (64u << 20)
#define BUFFER_HEADER 0x48
#define TIME_ZONE     0xac
#define FLAG_PACKED   0x40
#define FLAG_WIDE_CPU 0x20
#define TYPE_HEADER   4
#define HASH_SIZE     4096
#define DISTANCE_MAX  8192
#define LOG_PAYLOAD   (BUFFER_HEADER + 0x20) /* of the log-file header, in the first buffer */
#define LOG_END_TIME  (LOG_PAYLOAD + 16)
#define LOG_WRITTEN   (LOG_PAYLOAD + 36)
#define LOG_LOST      (LOG_PAYLOAD + 48)
#define NARROW_CPU    0x0800 /* the alignment that stood above an 8-bit number */

static void check(const struct etl_writer *w)
{
    if (w->file.bad) {
        fprintf(stderr, "etl_writer: %s\n", err_text(w->file.bad));
        exit(1);
    }
}

struct etl_writer_conf etl_writer_defaults(void)
{
    struct etl_writer_conf conf = {
        .buffer_size = 4096,
        .cpus = 2,
        .clock = 1,
        .cpu_mhz = 2000,
        .pointer_size = 8,
        .frequency = 10000000,
        .boot = UINT64_C(134116992000000000),
        .start = UINT64_C(134117856000000000),
        .end = UINT64_C(134117856600000000),
        .zero_ticks = 1000,
        .build = 19045,
        .session_name = "session",
        .file_name = "C:\\session.etl",
    };

    return conf;
}

static void put_zeros(struct buf *b, size_t n)
{
    uint8_t *p = buf_grow(b, n);

    if (p) {
        memset(p, 0, n);
    }
}

static void patch32(struct etl_writer *w, size_t at, uint32_t v)
{
    for (unsigned i = 0; i < 4; i++) {
        w->file.p[at + i] = (uint8_t)(v >> 8 * i);
    }
}

static void open_buffer(struct etl_writer *w, uint16_t cpu, uint16_t flags, uint16_t type)
{
    w->buffer_at = w->file.n;
    put_zeros(&w->file, 0x28);
    buf_put_u16le(&w->file, w->narrow_cpu ? (uint16_t)(NARROW_CPU | cpu) : cpu);
    buf_put_u16le(&w->file, 1); /* logger */
    buf_put_u32le(&w->file, 3); /* state: flushed */
    buf_put_u32le(&w->file, 0); /* filled: on closing */
    buf_put_u16le(&w->file, flags | (w->narrow_cpu ? 0 : FLAG_WIDE_CPU));
    buf_put_u16le(&w->file, type);
    put_zeros(&w->file, 0x10);
    check(w);
}

static void put_pointer(struct buf *b, unsigned size, uint64_t v)
{
    if (size == 8) {
        buf_put_u64le(b, v);
    } else {
        buf_put_u32le(b, (uint32_t)v);
    }
}

static void put_name(struct buf *b, const char *ascii)
{
    for (; ascii && *ascii; ascii++) {
        buf_put_u16le(b, (uint16_t)(unsigned char)*ascii);
    }
    buf_put_u16le(b, 0);
}

static void log_header(struct buf *b, const struct etl_writer_conf *c)
{
    buf_put_u32le(b, c->buffer_size);
    buf_put_u32le(b, 10 | 5 << 16); /* 10.0 */
    buf_put_u32le(b, c->build);
    buf_put_u32le(b, c->cpus);
    buf_put_u64le(b, c->end);
    buf_put_u32le(b, 156250);
    buf_put_u32le(b, 0);
    buf_put_u32le(b, c->mode);
    buf_put_u32le(b, c->buffers_written);
    buf_put_u32le(b, 1);
    buf_put_u32le(b, c->pointer_size);
    buf_put_u32le(b, c->events_lost);
    buf_put_u32le(b, c->cpu_mhz);
    put_pointer(b, c->pointer_size, 0);
    put_pointer(b, c->pointer_size, 0);
    put_zeros(b, TIME_ZONE + 4);
    buf_put_u64le(b, c->boot);
    buf_put_u64le(b, c->frequency);
    buf_put_u64le(b, c->start);
    buf_put_u32le(b, c->clock);
    buf_put_u32le(b, c->buffers_lost);
    put_name(b, c->session_name);
    put_name(b, c->file_name);
}

void etl_writer_init(struct etl_writer *w, const struct etl_writer_conf *conf)
{
    struct etl_rec r;
    struct buf payload;

    buf_init(&w->file, FILE_MAX);
    buf_init(&payload, 4096);
    w->buffer_size = conf->buffer_size;
    w->narrow_cpu = conf->narrow_cpu;
    w->pointer_size = conf->pointer_size;
    w->to = NULL;
    w->gone = 0;
    w->n_buffers = 0;
    open_buffer(w, 0, 0, TYPE_HEADER);
    log_header(&payload, conf);
    r = etl_rec_system(0, 0, 2, conf->zero_ticks, payload.p, payload.n);
    r.type = conf->pointer_size == 8 ? ETL_SYSTEM64 : ETL_SYSTEM32;
    etl_writer_put(w, &r);
    buf_fini(&payload);
}

void etl_writer_fini(struct etl_writer *w)
{
    buf_fini(&w->file);
}

/* What is closed goes to the file where there is one. */
static void hand_over(struct etl_writer *w)
{
    w->n_buffers++;
    if (!w->to) {
        return;
    }
    if (fwrite(w->file.p, 1, w->file.n, w->to) != w->file.n) {
        fprintf(stderr, "etl_writer: cannot write\n");
        exit(1);
    }
    w->gone += w->file.n;
    w->file.n = 0;
}

void etl_writer_to(struct etl_writer *w, FILE *f)
{
    w->to = f;
}

void etl_writer_close(struct etl_writer *w)
{
    size_t filled = w->file.n - w->buffer_at;

    if (filled > w->buffer_size) {
        fprintf(stderr, "etl_writer: a buffer holds more than its size\n");
        exit(1);
    }
    buf_put(&w->file, "\xff\xff\xff\xff", filled < w->buffer_size ? 4 : 0);
    put_zeros(&w->file, w->buffer_size - (w->file.n - w->buffer_at));
    check(w);
    patch32(w, w->buffer_at, w->buffer_size);
    patch32(w, w->buffer_at + 0x30, (uint32_t)filled);
    hand_over(w);
}

void etl_writer_close_compressed(struct etl_writer *w)
{
    size_t body = w->buffer_at + BUFFER_HEADER, filled = w->file.n - w->buffer_at;
    struct buf packed;

    buf_init(&packed, FILE_MAX);
    etl_writer_compress(&packed, w->file.p + body, w->file.n - body);
    w->file.n = body;
    buf_put(&w->file, packed.p, packed.n);
    buf_fini(&packed);
    check(w);
    patch32(w, w->buffer_at, (uint32_t)(w->file.n - w->buffer_at));
    patch32(w, w->buffer_at + 0x30, (uint32_t)filled);
    w->file.p[w->buffer_at + 0x34] |= FLAG_PACKED;
    hand_over(w);
}

void etl_writer_buffer(struct etl_writer *w, uint16_t cpu, uint16_t flags)
{
    open_buffer(w, cpu, flags, 0);
}

void etl_writer_buffer_as(struct etl_writer *w, uint16_t cpu, uint16_t flags, uint16_t type)
{
    open_buffer(w, cpu, flags, type);
}

static void write_over(struct etl_writer *w, size_t at, const struct buf *b)
{
    if (w->to) {
        if (fseek(w->to, (long)at, SEEK_SET) != 0 || fwrite(b->p, 1, b->n, w->to) != b->n ||
            fseek(w->to, 0, SEEK_END) != 0) {
            fprintf(stderr, "etl_writer: cannot write\n");
            exit(1);
        }
        return;
    }
    memcpy(w->file.p + at, b->p, b->n);
}

void etl_writer_finish(struct etl_writer *w, uint64_t end, uint32_t events_lost,
                       uint32_t buffers_lost)
{
    size_t lost_at = LOG_PAYLOAD + 56 + 2u * w->pointer_size + TIME_ZONE + 4 + 3 * 8 + 4;
    struct buf b;

    buf_init(&b, 16);
    buf_put_u64le(&b, end);
    write_over(w, LOG_END_TIME, &b);
    buf_reset(&b);
    buf_put_u32le(&b, w->n_buffers);
    write_over(w, LOG_WRITTEN, &b);
    buf_reset(&b);
    buf_put_u32le(&b, events_lost);
    write_over(w, LOG_LOST, &b);
    buf_reset(&b);
    buf_put_u32le(&b, buffers_lost);
    write_over(w, lost_at, &b);
    buf_fini(&b);
}

void etl_writer_bytes(struct etl_writer *w, const void *p, size_t n)
{
    buf_put(&w->file, p, n);
    put_zeros(&w->file, (8 - (w->file.n - w->buffer_at - BUFFER_HEADER) % 8) % 8);
    check(w);
}

void etl_writer_put(struct etl_writer *w, const struct etl_rec *r)
{
    etl_rec_put(&w->file, r);
}

void etl_writer_system(struct etl_writer *w, uint8_t group, uint8_t opcode, uint8_t version,
                       int64_t ticks, const void *payload, size_t n)
{
    struct etl_rec r = etl_rec_system(group, opcode, version, ticks, payload, n);

    etl_writer_put(w, &r);
}

void etl_writer_perfinfo(struct etl_writer *w, uint8_t group, uint8_t opcode, uint8_t version,
                         int64_t ticks, const void *payload, size_t n)
{
    struct etl_rec r = etl_rec_perfinfo(group, opcode, version, ticks, payload, n);

    etl_writer_put(w, &r);
}

void etl_writer_full(struct etl_writer *w, uint8_t type, const uint8_t guid[16], uint8_t opcode,
                     int64_t ticks, const void *payload, size_t n)
{
    struct etl_rec r = etl_rec_system(0, opcode, 2, ticks, payload, n);

    r.type = (enum etl_record_type)type;
    r.guid = guid;
    etl_writer_put(w, &r);
}

void etl_writer_save(const struct etl_writer *w, const char *path)
{
    FILE *f = fopen(path, "wb");

    if (!f || fwrite(w->file.p, 1, w->file.n, f) != w->file.n || fclose(f) != 0) {
        fprintf(stderr, "etl_writer: cannot write %s\n", path);
        exit(1);
    }
}

/* The packer's state: the flag word being filled and the byte whose high half is free. */
struct packer {
    struct buf *out;
    size_t flags_at;
    uint32_t flags;
    unsigned n_flags;
    size_t nibble_at; /* 0 = none */
};

static void put_flag(struct packer *k, unsigned flag)
{
    if (k->n_flags == 32) {
        k->n_flags = 0;
        k->flags = 0;
        k->flags_at = k->out->n;
        buf_put_u32le(k->out, 0);
    }
    k->flags |= flag << (31 - k->n_flags++);
    for (unsigned i = 0; i < 4 && !k->out->bad; i++) {
        k->out->p[k->flags_at + i] = (uint8_t)(k->flags >> 8 * i);
    }
}

static void put_long_length(struct packer *k, size_t over) /* length - 3 - 7 */
{
    uint8_t nibble = (uint8_t)(over < 15 ? over : 15);

    if (k->nibble_at) {
        k->out->p[k->nibble_at] |= (uint8_t)(nibble << 4);
        k->nibble_at = 0;
    } else {
        k->nibble_at = k->out->n;
        buf_put_u8(k->out, nibble);
    }
    if (over < 15) {
        return;
    }
    if (over - 15 < 255) {
        buf_put_u8(k->out, (uint8_t)(over - 15));
        return;
    }
    buf_put_u8(k->out, 255);
    if (over + 7 <= UINT16_MAX) {
        buf_put_u16le(k->out, (uint16_t)(over + 7));
    } else {
        buf_put_u16le(k->out, 0);
        buf_put_u32le(k->out, (uint32_t)(over + 7));
    }
}

static void put_match(struct packer *k, size_t distance, size_t length)
{
    size_t low = length - 3 < 7 ? length - 3 : 7;

    put_flag(k, 1);
    buf_put_u16le(k->out, (uint16_t)((distance - 1) << 3 | low));
    if (low == 7) {
        put_long_length(k, length - 10);
    }
}

static size_t match_length(const uint8_t *p, size_t from, size_t at, size_t n)
{
    size_t length = 0;

    while (at + length < n && p[from + length] == p[at + length]) {
        length++;
    }
    return length;
}

void etl_writer_compress(struct buf *out, const uint8_t *p, size_t n)
{
    static size_t last[HASH_SIZE]; /* position + 1 of the latest three bytes with this hash */
    struct packer k = {.out = out, .n_flags = 32};

    memset(last, 0, sizeof last);
    for (size_t at = 0; at < n;) {
        size_t slot = 0, from = 0, length = 0;

        if (n - at >= 3) {
            slot = (p[at] * 131u + p[at + 1] * 31u + p[at + 2]) % HASH_SIZE;
            from = last[slot];
            last[slot] = at + 1;
        }
        if (from && at - (from - 1) <= DISTANCE_MAX) {
            length = match_length(p, from - 1, at, n);
        }
        if (length >= 3) {
            put_match(&k, at - (from - 1), length);
            at += length;
        } else {
            put_flag(&k, 0);
            buf_put_u8(out, p[at++]);
        }
    }
}
