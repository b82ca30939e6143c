#include "agent/source/trace/etl_index.h"

#include <stdlib.h>
#include <string.h>

#include "agent/source/trace/etl_record.h"
#include "agent/source/trace/lzxpress.h"
#include "common/base/mem.h"
#include "common/base/vec.h"

/* A stream is what one CPU filled one after the other. Sessions may fill buffers of different types
 * side by side, so a stream is one CPU and one type; the log-file header's buffer, type 4, is then
 * one of its own.
 *
 * The scan steps from header to header by the size each one gives. Together with a header the first
 * bytes of the body are read, unpacked where needed, for the stamp of the first record: with it the
 * buffers of a circular file that has wrapped can be put in order.
 *
 * A header that makes no sense, or leads to none, loses the step to the next. Then every offset is
 * tried until one holds a header that looks like this file's own (etl_buffer_plausible). */

#define PEEK_BYTES     128  /* of a body: any record header, packed or not */
#define LOG_BYTES      8192 /* the first buffer as far as the names of session and file */
#define UNPACKED_LEAST (UINT64_C(256) << 20)
#define UNPACKED_RATIO 1024
#define SEARCH_BYTES   (256u << 10)
#define SEARCHES_MAX   1024 /* of one file: behind so much damage the rest is given up */

/* What any recorder packs into so many bytes is far less; a file made to keep us busy is not. */
static uint64_t unpacked_max(const struct etl_index *x)
{
    uint64_t most = UNPACKED_LEAST + UNPACKED_RATIO * x->census.file_bytes;

    return x->census.file_bytes > ETL_INDEX_UNPACKED_MAX / UNPACKED_RATIO ||
                   most > ETL_INDEX_UNPACKED_MAX
               ? ETL_INDEX_UNPACKED_MAX
               : most;
}

static enum err slot_push(struct etl_index *x, const struct etl_slot *slot)
{
    enum err e = x->unpacked > unpacked_max(x)
                     ? ERR_FULL
                     : VEC_ROOM(&x->slots, &x->cap, x->n_slots + 1, ETL_INDEX_BUFFERS_MAX);

    if (!e) {
        x->slots[x->n_slots++] = *slot;
    }
    return e;
}

/* Stamp of the first record; `body` holds the first n bytes behind the buffer's header. */
static int64_t first_ticks(const struct etl_buffer *b, const uint8_t *body, size_t n)
{
    uint8_t plain[PEEK_BYTES];
    size_t filled = b->filled > ETL_BUFFER_HEADER ? b->filled - ETL_BUFFER_HEADER : 0;
    struct etl_peek k;

    if (b->flags & ETL_BUFFER_COMPRESSED) {
        n = lzxpress_decode(plain, filled < sizeof plain ? filled : sizeof plain, body, n);
        body = plain;
    }
    /* The record may be longer than what is at hand; its header must not be. */
    if ((n < filled && n < ETL_RECORD_HEADER_MAX) || etl_record_peek(&k, body, filled)) {
        return ETL_RECORD_NO_TIME;
    }
    return k.ticks;
}

static void count_buffer(struct etl_index *x, const struct etl_slot *slot)
{
    x->unpacked += slot->filled;
    x->unpacked_compressed += slot->flags & ETL_BUFFER_COMPRESSED ? slot->filled : 0;
    x->compressed += (slot->flags & ETL_BUFFER_COMPRESSED) != 0;
    x->flagged_events_lost += (slot->flags & ETL_BUFFER_EVENTS_LOST) != 0;
    x->flagged_buffers_lost += (slot->flags & ETL_BUFFER_BUFFER_LOST) != 0;
    if (slot->filled > x->filled_max) {
        x->filled_max = slot->filled;
    }
    if (slot->stored > x->stored_max) {
        x->stored_max = slot->stored;
    }
}

/* Takes the buffer at `offset`, whose first n bytes are at p. */
static enum err take(struct etl_index *x, uint64_t offset, uint64_t file_size,
                     const struct etl_buffer *b, const uint8_t *p, size_t n)
{
    struct etl_slot slot = {.offset = offset, .filled = b->filled, .flags = b->flags};
    uint64_t left = file_size - offset;

    if (n > b->size) {
        n = b->size;
    }
    slot.stored = left < b->size ? (uint32_t)left : b->size;
    if (!(b->flags & ETL_BUFFER_COMPRESSED) && slot.filled > slot.stored) {
        x->damaged++; /* cut off, or said to hold more than it can */
        x->skipped_bytes += slot.filled - slot.stored;
        slot.filled = slot.stored;
    } else if (slot.stored < b->size) {
        x->damaged++;
    }
    if (slot.filled < ETL_BUFFER_HEADER) {
        slot.filled = ETL_BUFFER_HEADER;
    }
    slot.stream =
        (uint32_t)(b->type < ETL_BUFFER_TYPES ? b->type : ETL_BUFFER_TYPES - 1) << 16 | b->cpu;
    slot.gaps = (uint16_t)x->searches;
    slot.first_ticks = first_ticks(b, p + ETL_BUFFER_HEADER, n - ETL_BUFFER_HEADER);
    count_buffer(x, &slot);
    etl_census_buffer(&x->census, b);
    return slot_push(x, &slot);
}

/* The next offset from *offset on that holds a believable header, or the end of the file. */
static enum err search(struct etl_index *x, struct etl_input *in, uint64_t *offset)
{
    uint8_t *chunk = mem_alloc(SEARCH_BYTES);
    uint64_t at = *offset;
    struct etl_buffer b;
    enum err e = ERR_OK;
    size_t got, i;

    if (!chunk) {
        return ERR_NOMEM;
    }
    for (;;) {
        if (x->searches >= SEARCHES_MAX) {
            at = etl_input_size(in);
            break;
        }
        e = etl_input_read(in, at, chunk, SEARCH_BYTES, &got);
        if (e || got < ETL_BUFFER_HEADER) {
            at = etl_input_size(in);
            break;
        }
        for (i = 0; i + ETL_BUFFER_HEADER <= got; i++) {
            if (!etl_buffer_read(&b, chunk + i, ETL_BUFFER_HEADER) &&
                etl_buffer_plausible(&b, chunk + i, x->log.buffer_size)) {
                break;
            }
        }
        at += i;
        if (i + ETL_BUFFER_HEADER <= got) {
            break;
        }
    }
    mem_free(chunk);
    if (!e) {
        x->searches++;
        x->damaged++;
        x->skipped_bytes += at - *offset;
        *offset = at;
    }
    return e;
}

/* Whether the file goes on at `at` with a buffer's header, one of the usual size if `usual`. */
static enum err goes_on(const struct etl_index *x, struct etl_input *in, uint64_t at, bool usual,
                        bool *yes)
{
    uint8_t head[ETL_BUFFER_HEADER];
    struct etl_buffer b;
    size_t got;
    enum err e = etl_input_read(in, at, head, sizeof head, &got);

    if (e) {
        return e;
    }
    *yes =
        etl_buffer_read(&b, head, got) == ERR_OK &&
        (usual ? etl_buffer_plausible(&b, head, x->log.buffer_size) : etl_buffer_shaped(&b, head));
    return ERR_OK;
}

/* A header says where the next one stands, so damage in it may cost many buffers. One that is
 * unlike the others of the file is believed if another header or the end of the file stands where
 * it says, and no usual one stands where the others would have it. */
static enum err check_step(struct etl_index *x, struct etl_input *in, uint64_t offset,
                           struct etl_buffer *b, const uint8_t *head, bool *ok)
{
    bool usual = false;
    enum err e = ERR_OK;

    *ok = offset == 0 || etl_buffer_plausible(b, head, x->log.buffer_size);
    if (*ok) {
        return ERR_OK;
    }
    if (!(b->flags & ETL_BUFFER_COMPRESSED) && x->log.buffer_size >= ETL_BUFFER_HEADER) {
        e = goes_on(x, in, offset + x->log.buffer_size, true, &usual);
    }
    if (!e && usual) {
        b->size = x->log.buffer_size;
        x->damaged++;
    } else if (!e && offset + b->size < etl_input_size(in)) {
        return goes_on(x, in, offset + b->size, false, ok);
    }
    *ok = true;
    return e;
}

static enum err scan(struct etl_index *x, struct etl_input *in)
{
    uint64_t size = etl_input_size(in), offset = 0;
    uint8_t head[ETL_BUFFER_HEADER + PEEK_BYTES];
    struct etl_buffer b;
    enum err e;
    size_t got;
    bool ok;

    while (offset < size) {
        e = etl_input_read(in, offset, head, sizeof head, &got);
        if (e) {
            return e;
        }
        ok = etl_buffer_read(&b, head, got) == ERR_OK;
        e = ok ? check_step(x, in, offset, &b, head, &ok) : ERR_OK;
        if (e) {
            return e;
        }
        if (!ok) {
            offset += 1;
            x->skipped_bytes += 1;
            e = search(x, in, &offset);
        } else {
            e = take(x, offset, size, &b, head, got);
            offset += b.size;
        }
        if (e) {
            return e;
        }
    }
    return ERR_OK;
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_file_order(const void *pa, const void *pb)
{
    const struct etl_slot *a = pa, *b = pb;
    int c = compare(a->stream, b->stream);

    return c ? c : compare(a->offset, b->offset);
}

static int by_time(const void *pa, const void *pb)
{
    const struct etl_slot *a = pa, *b = pb;

    if (a->stream == b->stream && a->first_ticks != b->first_ticks) {
        return a->first_ticks < b->first_ticks ? -1 : 1;
    }
    return by_file_order(pa, pb);
}

/* A buffer whose first stamp cannot be believed stays behind the one before it in the file. */
static void settle_times(struct etl_index *x)
{
    for (size_t i = 1; i < x->n_slots; i++) {
        struct etl_slot *slot = &x->slots[i];

        if (slot->stream == slot[-1].stream && (slot->first_ticks == ETL_RECORD_NO_TIME ||
                                                !etl_buffer_believes(&x->log, slot->first_ticks))) {
            slot->first_ticks = slot[-1].first_ticks;
        }
    }
}

/* Each stream costs an open buffer and its state, so a file of one-buffer streams would cost much
 * more than it holds. Those beyond the limit, of the highest types and CPUs, are passed over. */
static void limit_streams(struct etl_index *x)
{
    size_t n = 0, streams = 0;

    for (; n < x->n_slots; n++) {
        if (n == 0 || x->slots[n].stream != x->slots[n - 1].stream) {
            streams++;
        }
        if (streams > ETL_INDEX_STREAMS_MAX) {
            break;
        }
    }
    x->damaged += x->n_slots - n;
    for (size_t i = n; i < x->n_slots; i++) {
        x->skipped_bytes += x->slots[i].stored;
    }
    x->n_slots = n;
}

static enum err read_log_header(struct etl_index *x, struct etl_input *in)
{
    uint8_t head[LOG_BYTES];
    size_t got;
    enum err e = etl_input_read(in, 0, head, sizeof head, &got);

    return e ? e : etl_buffer_log_header(&x->log, head, got);
}

enum err etl_index_init(struct etl_index *x, struct etl_input *in, const char *path,
                        struct errmsg *why)
{
    enum err e;

    memset(x, 0, sizeof *x);
    e = read_log_header(x, in);
    if (e == ERR_CORRUPT) {
        return errmsg_set(why, e, "%s is not an event trace (.etl): no trace header at its start",
                          path);
    }
    if (!e) {
        etl_census_begin(&x->census, path, etl_input_size(in), &x->log);
        e = scan(x, in);
    }
    if (e) {
        etl_index_fini(x);
        return errmsg_set(why, e, "cannot read %s: %s", path, err_text(e));
    }
    qsort(x->slots, x->n_slots, sizeof *x->slots, by_file_order);
    if (x->log.mode & ETL_MODE_CIRCULAR) {
        settle_times(x);
        qsort(x->slots, x->n_slots, sizeof *x->slots, by_time);
    } else if (x->log.end_time && x->log.buffers_written > x->n_slots) {
        x->damaged++; /* cut between two buffers, or some of them were not recognised */
    }
    limit_streams(x);
    return ERR_OK;
}

void etl_index_fini(struct etl_index *x)
{
    mem_free(x->slots);
    x->slots = NULL;
    x->n_slots = x->cap = 0;
}
