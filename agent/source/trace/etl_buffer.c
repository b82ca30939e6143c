#include "agent/source/trace/etl_buffer.h"

#include "agent/source/trace/etl_record.h"
#include "common/base/buf.h"
#include "common/base/cur.h"

#define TIME_ZONE_BYTES 0xac
#define HZ_FILETIME     10000000u
#define SPAN_MAX_NS     (3653 * 24 * 3600 * CLK_S)
#define FLAGS_KNOWN     0x7f
#define TYPES_KNOWN     7
#define NAME_UNITS      1024 /* the longest name Windows takes */

enum err etl_buffer_read(struct etl_buffer *out, const uint8_t *p, size_t n)
{
    struct cur c = cur_make(p, n);
    struct etl_buffer b = {0};
    uint16_t cpu;

    b.size = cur_u32le(&c);
    cur_skip(&c, 0x24); /* saved and current offset, references, stamp, sequence, clock */
    cpu = cur_u16le(&c);
    cur_skip(&c, 6); /* logger, state */
    b.filled = cur_u32le(&c);
    b.flags = cur_u16le(&c);
    b.type = cur_u16le(&c);
    cur_skip(&c, 0x10);
    if (c.bad || b.size < ETL_BUFFER_HEADER || b.size > ETL_BUFFER_MAX ||
        b.filled > ETL_BUFFER_MAX) {
        return ERR_CORRUPT;
    }
    /* Older systems keep an alignment in the high byte. */
    b.cpu = b.flags & ETL_BUFFER_WIDE_CPU ? cpu : cpu & 0xff;
    *out = b;
    return ERR_OK;
}

bool etl_buffer_shaped(const struct etl_buffer *b, const uint8_t *p)
{
    struct cur c = cur_make(p + 0x2c, 4);
    uint32_t state = cur_u32le(&c);
    bool packed = b->flags & ETL_BUFFER_COMPRESSED;

    return b->filled >= ETL_BUFFER_HEADER && (b->flags & ~FLAGS_KNOWN) == 0 &&
           b->type <= TYPES_KNOWN && state <= 3 && (packed || b->filled <= b->size);
}

bool etl_buffer_plausible(const struct etl_buffer *b, const uint8_t *p, uint32_t buffer_size)
{
    bool packed = b->flags & ETL_BUFFER_COMPRESSED;

    return etl_buffer_shaped(b, p) &&
           (packed ? b->filled <= buffer_size && b->size <= buffer_size : b->size == buffer_size);
}

/* The clock's frequency; what a broken header leaves at zero is taken for the usual 100 ns. */
static uint64_t frequency_of(uint32_t clock, uint64_t counter_hz, uint32_t cpu_mhz)
{
    uint64_t hz = counter_hz;

    if (clock == ETL_CLOCK_SYSTEM) {
        hz = HZ_FILETIME;
    } else if (clock == ETL_CLOCK_CYCLES) {
        hz = (uint64_t)cpu_mhz * 1000000u;
    }
    return hz ? hz : HZ_FILETIME;
}

/* UTC between 1970 and 2116; 0 for all others, so that sums of times cannot overflow. */
static int64_t sane_time(uint64_t filetime)
{
    int64_t ns = clk_from_filetime(filetime);

    return ns < 0 || ns > INT64_MAX / 2 ? 0 : ns;
}

/* The payload, X = pointer size: buffer size u32, version u8 × 4, build u32, processors u32, end
 * i64, timer u32, maximum u32, mode u32, written u32, start buffers u32, pointer size u32, events
 * lost u32, MHz u32, X × 2, time zone (bias i32 first), pad to 8, boot i64, frequency i64, start
 * i64, clock u32, buffers lost u32; two names follow. */
static bool payload_read(struct etl_log_header *h, struct cur *c)
{
    h->buffer_size = cur_u32le(c);
    h->major = cur_u8(c);
    h->minor = cur_u8(c);
    h->sub = cur_u8(c);
    h->sub_minor = cur_u8(c);
    h->build = cur_u32le(c);
    h->cpus = cur_u32le(c);
    h->end_time = cur_u64le(c);
    h->timer_resolution = cur_u32le(c);
    h->maximum_file_size = cur_u32le(c);
    h->mode = cur_u32le(c);
    h->buffers_written = cur_u32le(c);
    h->start_buffers = cur_u32le(c);
    h->stored_pointer_size = cur_u32le(c);
    h->events_lost = cur_u32le(c);
    h->cpu_mhz = cur_u32le(c);
    cur_skip(c, 2u * h->pointer_size);
    h->time_zone_bias = (int32_t)cur_u32le(c);
    cur_skip(c, TIME_ZONE_BYTES - 4 + 4);
    h->boot_time = cur_u64le(c);
    h->stored_frequency = cur_u64le(c);
    h->start_time = cur_u64le(c);
    h->clock = cur_u32le(c);
    h->buffers_lost = cur_u32le(c);
    return !c->bad;
}

static void set_clock(struct etl_log_header *h)
{
    int64_t end_ns = sane_time(h->end_time);

    h->frequency = frequency_of(h->clock, h->stored_frequency, h->cpu_mhz);
    h->whole_ns = (uint64_t)CLK_S % h->frequency ? 0 : CLK_S / (int64_t)h->frequency;
    h->start_ns = sane_time(h->start_time);
    h->span_ns = h->start_ns && end_ns > h->start_ns ? end_ns - h->start_ns : 0;
    if (h->span_ns > SPAN_MAX_NS) {
        h->span_ns = 0;
    }
    h->boot_ns = sane_time(h->boot_time);
}

/* UTF-16 up to a NUL, or to the end where there is none; the rest of what does not fit is lost. */
static enum err name_read(char out[ETL_LOG_NAME], struct cur *c)
{
    struct buf text;
    const uint8_t *from = c->p;
    size_t units = 0;
    enum err e;

    while (cur_left(c) >= 2 && cur_u16le(c) != 0) {
        units++;
    }
    buf_init(&text, ETL_LOG_NAME - 1); /* full: what was put before is whole characters */
    buf_put_utf16le(&text, from, units < NAME_UNITS ? units : NAME_UNITS);
    if (text.n > 0) {
        memcpy(out, text.p, text.n);
    }
    out[text.n] = 0;
    e = text.bad == ERR_NOMEM ? ERR_NOMEM : ERR_OK;
    buf_fini(&text);
    return e;
}

enum err etl_buffer_log_header(struct etl_log_header *out, const uint8_t *p, size_t n)
{
    struct etl_log_header h = {0};
    struct etl_buffer b;
    struct etl_peek k;
    struct cur c;
    size_t valid;
    enum err e;

    if (etl_buffer_read(&b, p, n) || b.flags & ETL_BUFFER_COMPRESSED) {
        return ERR_CORRUPT;
    }
    valid = (b.size < n ? b.size : n) - ETL_BUFFER_HEADER;
    p += ETL_BUFFER_HEADER;
    if (etl_record_peek(&k, p, valid) || (k.type != ETL_SYSTEM32 && k.type != ETL_SYSTEM64) ||
        etl_record_hook(&k, p) != 0) {
        return ERR_CORRUPT;
    }
    h.pointer_size = k.type == ETL_SYSTEM64 ? 8 : 4;
    h.zero_ticks = k.ticks;
    c = cur_make(p + ETL_RECORD_SYSTEM_HEADER, k.size - ETL_RECORD_SYSTEM_HEADER);
    if (!payload_read(&h, &c)) {
        return ERR_CORRUPT;
    }
    e = name_read(h.session_name, &c);
    e = e ? e : name_read(h.file_name, &c);
    if (e) {
        return e;
    }
    set_clock(&h);
    *out = h;
    return ERR_OK;
}
