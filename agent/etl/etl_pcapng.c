/* A block is: type u32, length u32, body, options, length u32; everything little-endian and padded
 * to 4 bytes. An option is: code u16, length u16, value; code 0 ends them. */
#include "agent/etl/etl_pcapng.h"

#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/os/os.h"

#define FILE_BUFFER (2u << 20)
#define BLOCK_MAX   (1u << 20)
#define TEXT_MAX    4096 /* of an option, bytes */

enum { BLOCK_INTERFACE = 1, BLOCK_STATISTICS = 5, BLOCK_PACKET = 6, BLOCK_SECTION = 0x0A0D0D0A };

struct etl_pcapng {
    FILE *f;
    char *buffer; /* of f */
    bool failed;
    struct buf block;
};

static bool is_replaceable(const char *path)
{
    static const uint8_t magic[4] = {0x0A, 0x0D, 0x0D, 0x0A};
    FILE *f = os_is_file(path) ? os_fopen(path, "rb") : NULL; /* a pipe has no content yet */
    uint8_t head[4];
    size_t n = 0;

    if (f) {
        n = fread(head, 1, sizeof head, f);
        fclose(f);
    }
    return n == 0 || (n == 4 && memcmp(head, magic, 4) == 0);
}

enum err etl_pcapng_open(struct etl_pcapng **out, const char *path, struct errmsg *why)
{
    struct etl_pcapng *w;

    if (path && !is_replaceable(path)) {
        return errmsg_set(why, ERR_EXISTS, "%s is there and no packet capture: it is not replaced",
                          path);
    }
    w = mem_zalloc(sizeof *w);
    if (!w) {
        return ERR_NOMEM;
    }
    buf_init(&w->block, BLOCK_MAX);
    w->buffer = mem_alloc(FILE_BUFFER);
    w->f = !w->buffer ? NULL : path ? os_fopen(path, "wb") : os_stdout_bytes();
    if (!w->f) {
        bool memory = !w->buffer;

        err_ignore(etl_pcapng_close(w));
        return memory ? ERR_NOMEM : errmsg_set(why, ERR_IO, "%s cannot be written", path);
    }
    (void)setvbuf(w->f, w->buffer, _IOFBF, FILE_BUFFER);
    *out = w;
    return ERR_OK;
}

enum err etl_pcapng_close(struct etl_pcapng *w)
{
    bool failed = false;

    if (w) {
        failed = w->failed;
        failed |= w->f && fclose(w->f) != 0;
        mem_free(w->buffer);
        buf_fini(&w->block);
        mem_free(w);
    }
    return failed ? ERR_IO : ERR_OK;
}

bool etl_pcapng_ok(const struct etl_pcapng *w)
{
    return !w->failed;
}

/* -- blocks -- */

static void pad(struct buf *b)
{
    static const uint8_t zero[4];

    buf_put(b, zero, -b->n & 3);
}

static void block_begin(struct etl_pcapng *w, uint32_t type)
{
    buf_reset(&w->block);
    buf_put_u32le(&w->block, type);
    buf_put_u32le(&w->block, 0);
}

static void block_end(struct etl_pcapng *w)
{
    struct buf *b = &w->block;
    uint32_t n = (uint32_t)b->n + 4;

    buf_put_u32le(b, n);
    if (b->bad) {
        w->failed = true;
        return;
    }
    for (unsigned i = 0; i < 4; i++) {
        b->p[4 + i] = (uint8_t)(n >> 8 * i);
    }
    w->failed |= fwrite(b->p, 1, b->n, w->f) != b->n;
}

static void option(struct buf *b, uint16_t code, const void *p, size_t n)
{
    buf_put_u16le(b, code);
    buf_put_u16le(b, (uint16_t)n);
    buf_put(b, p, n);
    pad(b);
}

static void option_text(struct buf *b, uint16_t code, struct str text)
{
    if (text.n) {
        option(b, code, text.p, utf8_cut(text.p, text.n, TEXT_MAX));
    }
}

static void option_u64(struct buf *b, uint16_t code, uint64_t v)
{
    buf_put_u16le(b, code);
    buf_put_u16le(b, 8);
    buf_put_u64le(b, v);
}

static void option_end(struct buf *b)
{
    buf_put_u32le(b, 0);
}

/* A moment has its high half first. */
static void put_moment(struct buf *b, int64_t wall_ns)
{
    buf_put_u32le(b, (uint32_t)((uint64_t)wall_ns >> 32));
    buf_put_u32le(b, (uint32_t)wall_ns);
}

void etl_pcapng_section(struct etl_pcapng *w, struct str system, struct str program)
{
    struct buf *b = &w->block;

    block_begin(w, BLOCK_SECTION);
    buf_put_u32le(b, 0x1A2B3C4D);
    buf_put_u16le(b, 1);
    buf_put_u16le(b, 0);
    buf_put_u64le(b, UINT64_MAX); /* its length is not known */
    option_text(b, 3, system);
    option_text(b, 4, program);
    option_end(b);
    block_end(w);
}

static void option_address(struct buf *b, const uint8_t *p, uint8_t n)
{
    static const uint8_t host_mask[4] = {255, 255, 255, 255}; /* it is not recorded */
    uint8_t value[17] = {0};

    memcpy(value, p, n);
    if (n == 4) {
        memcpy(value + 4, host_mask, 4);
        option(b, 4, value, 8);
    } else if (n == 6) {
        option(b, 6, value, 6);
    } else {
        value[16] = 128;
        option(b, 5, value, 17);
    }
}

void etl_pcapng_interface(struct etl_pcapng *w, const struct etl_pcapng_interface *i)
{
    static const uint8_t nanoseconds = 9;
    struct buf *b = &w->block;

    block_begin(w, BLOCK_INTERFACE);
    buf_put_u16le(b, i->link);
    buf_put_u16le(b, 0);
    buf_put_u32le(b, 0);
    option_text(b, 2, i->name);
    option_text(b, 3, i->description);
    for (size_t k = 0; k < i->n_addresses; k++) {
        option_address(b, i->addresses[k].b, i->addresses[k].n);
    }
    option(b, 9, &nanoseconds, 1);
    option_end(b);
    block_end(w);
}

void etl_pcapng_packet(struct etl_pcapng *w, const struct etl_pcapng_packet *p)
{
    struct buf *b = &w->block;

    block_begin(w, BLOCK_PACKET);
    buf_put_u32le(b, p->interface);
    put_moment(b, p->wall_ns);
    buf_put_u32le(b, (uint32_t)p->n);
    buf_put_u32le(b, p->original);
    buf_put(b, p->bytes, p->n);
    pad(b);
    if (p->way) {
        buf_put_u16le(b, 2);
        buf_put_u16le(b, 4);
        buf_put_u32le(b, p->way);
    }
    if (p->has_id) {
        option_u64(b, 5, p->id);
    }
    option_text(b, 1, p->comment);
    option_end(b);
    block_end(w);
}

void etl_pcapng_statistics(struct etl_pcapng *w, uint32_t interface, int64_t wall_ns,
                           uint64_t received, uint64_t dropped)
{
    struct buf *b = &w->block;

    block_begin(w, BLOCK_STATISTICS);
    buf_put_u32le(b, interface);
    put_moment(b, wall_ns);
    option_u64(b, 4, received);
    option_u64(b, 5, dropped);
    option_end(b);
    block_end(w);
}
