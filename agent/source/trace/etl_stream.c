#include "agent/source/trace/etl_stream.h"

#include <string.h>

#include "agent/source/trace/etl_groups.h"
#include "agent/source/trace/lzxpress.h"
#include "common/base/mem.h"

#define AHEAD \
    256 /* bytes, asked for before they are needed: streams in turn defeat the CPU's own guess */

void etl_stream_release(struct etl_stream *s)
{
    mem_free(s->body);
    s->body = NULL;
    s->body_cap = 0;
    s->p = s->end = NULL;
    s->at_record = false;
}

void etl_stream_rewind(struct etl_stream *s, enum etl_want want)
{
    const struct etl_log_header *log = &s->part->index.log;
    int64_t first = s->slots[0].first_ticks;

    if (first == ETL_RECORD_NO_TIME || !etl_buffer_believes(log, first)) {
        first = log->zero_ticks;
    }
    s->p = s->end = NULL;
    s->next_slot = 0;
    s->last_ticks = first;
    s->wall_ns = clk_add(log->start_ns, etl_buffer_ns(log, first));
    s->want = want;
    s->gap = s->ahead = (struct etl_gap){0};
    s->at_record = s->started = false;
}

/* Room for n bytes; not NULL even for none. */
static enum err grow(uint8_t **p, size_t *cap, size_t n)
{
    uint8_t *larger;

    if (*p && n <= *cap) {
        return ERR_OK;
    }
    larger = mem_alloc(n);
    if (!larger) {
        return ERR_NOMEM;
    }
    mem_free(*p);
    *p = larger;
    *cap = n;
    return ERR_OK;
}

static enum err read_body(struct etl_stream *s, const struct etl_slot *slot, uint8_t *p, size_t n)
{
    size_t got;
    enum err e = etl_input_read(s->part->in, slot->offset + ETL_BUFFER_HEADER, p, n, &got);

    if (e) {
        return e;
    }
    return got == n ? ERR_OK : ERR_IO; /* the index has seen these bytes */
}

static void count_damage(struct etl_stream *s, struct etl_damage *damage, size_t bytes)
{
    damage->damaged++;
    damage->skipped_bytes += bytes;
    s->ahead.open = true;
}

/* What is missing before the slot's first record. */
static void look_for_gap(struct etl_stream *s, const struct etl_slot *slot)
{
    uint16_t gaps = slot > s->slots ? slot[-1].gaps : 0;

    s->ahead.open |= slot->gaps != gaps;
    if (slot->flags & ETL_BUFFER_EVENTS_LOST) {
        s->ahead.open = true;
        s->ahead.events++;
    }
    if (slot->flags & ETL_BUFFER_BUFFER_LOST) {
        s->ahead.open = true;
        s->ahead.buffers++;
    }
}

/* Where to unpack the slot: into memory that lasts while there is room and the last pass has not
 * begun, else into the stream's own body. Buffers are kept first come, first served: each is read
 * once a pass, in the same order, so that nothing else would be found again more often. */
static enum err choose_room(uint8_t **to, struct etl_stream *s, struct etl_memory *mem, size_t n)
{
    enum err e;

    if (mem->filling && n <= mem->keep_cap - mem->keep_used) {
        *to = mem->keep + mem->keep_used;
        mem->keep_used += n;
        return ERR_OK;
    }
    e = grow(&s->body, &s->body_cap, n);
    *to = s->body;
    return e;
}

static enum err unpack(struct etl_stream *s, struct etl_slot *slot, struct etl_memory *mem,
                       struct etl_damage *damage)
{
    size_t packed = slot->stored < ETL_BUFFER_HEADER ? 0 : slot->stored - ETL_BUFFER_HEADER;
    size_t n = slot->filled - ETL_BUFFER_HEADER, got;
    uint8_t *to;
    enum err e = grow(&mem->packed, &mem->packed_cap, packed);

    e = e ? e : read_body(s, slot, mem->packed, packed);
    e = e ? e : choose_room(&to, s, mem, n);
    if (e) {
        return e;
    }
    got = lzxpress_decode(to, n, mem->packed, packed);
    if (got < n) {
        count_damage(s, damage, n - got);
    } else if (to != s->body) {
        slot->plain = to;
    }
    s->p = to;
    s->end = to + got;
    return ERR_OK;
}

/* Makes the slot's unpacked body the current one. */
static enum err load(struct etl_stream *s, struct etl_slot *slot, struct etl_memory *mem,
                     struct etl_damage *damage)
{
    size_t n = slot->filled - ETL_BUFFER_HEADER;
    enum err e = ERR_OK;

    if (slot->plain) {
        s->p = slot->plain;
        s->end = slot->plain + n;
        return ERR_OK;
    }
    if (slot->flags & ETL_BUFFER_COMPRESSED) {
        return unpack(s, slot, mem, damage);
    }
    e = grow(&s->body, &s->body_cap, n);
    e = e ? e : read_body(s, slot, s->body, n);
    if (!e) {
        s->p = s->body;
        s->end = s->body + n;
    }
    return e;
}

#define CLASSIC_EVENT 0x100 /* EVENT_HEADER.Flags */

/* What the record tells, and which groups it is of: asked once for each kind as a rule. */
static bool stream_asks(struct etl_stream *s)
{
    s->groups |= etl_groups_of(&s->peek, s->p);
    return etl_record_tells_life(&s->peek, s->p) ||
           (s->want == ETL_WANT_SCHEMAS && etl_record_tells_schema(&s->peek, s->p));
}

/* Of the kernel's records; all of one hook are alike. */
static inline bool wants_hook(struct etl_stream *s, uint32_t *dull, uint32_t hook)
{
    if (*dull == hook + 1) {
        return false;
    }
    if (stream_asks(s)) {
        return true;
    }
    *dull = hook + 1;
    return false;
}

/* Of records with a GUID; those of one GUID and number are alike. */
static inline bool wants_named(struct etl_stream *s, struct etl_dull *dull, uint64_t number)
{
    uint64_t guid[2];
    size_t at;

    memcpy(guid, s->p + 0x18, sizeof guid);
    at = (guid[0] ^ number) & (ETL_DULL_KINDS - 1);
    if (guid[0] == dull->named[at].guid[0] && guid[1] == dull->named[at].guid[1] &&
        number == dull->named[at].number) {
        return false;
    }
    if (stream_asks(s)) {
        return true;
    }
    memcpy(dull->named[at].guid, guid, sizeof guid);
    dull->named[at].number = number;
    return false;
}

/* What is told apart by it: of an event its id, version, channel, level and opcode, and whether it
 * is a classic one; of others the opcode. Never 0. */
static inline uint64_t number_of_event(const uint8_t *p)
{
    uint64_t kind = cur_at16le(p + 4) & CLASSIC_EVENT ? 2 : 1;

    return (cur_at64le(p + 0x28) & 0xffffffffffff) | kind << 48;
}

static inline uint64_t number_of_full(const uint8_t *p)
{
    return p[4] | UINT64_C(3) << 48;
}

static inline bool wanted(struct etl_stream *s, struct etl_dull *dull)
{
    uint32_t hook;

    if (s->want == ETL_WANT_ALL) {
        return true;
    }
    if (s->peek.type == ETL_EVENT64 || s->peek.type == ETL_EVENT32) {
        return wants_named(s, dull, number_of_event(s->p));
    }
    if (s->peek.type == ETL_FULL64 || s->peek.type == ETL_FULL32) {
        return wants_named(s, dull, number_of_full(s->p));
    }
    hook = etl_record_hook(&s->peek, s->p);
    return hook == UINT32_MAX ? stream_asks(s)
                              : wants_hook(s, &dull->hooks[hook & (ETL_DULL_HOOKS - 1)], hook);
}

/* Looks at the record at s->p. False: there is none, or it is to be passed over; s->p has moved. */
static bool look(struct etl_stream *s, struct etl_dull *dull, struct etl_damage *damage)
{
    const struct etl_log_header *log = &s->part->index.log;
    size_t left = (size_t)(s->end - s->p);
    int64_t since_ns;
    enum err e;

    __builtin_prefetch(s->p + (left > AHEAD ? AHEAD : left));
    e = etl_record_peek(&s->peek, s->p, left);

    if (e) {
        if (e == ERR_CORRUPT || left >= 8) { /* a marker before the end that the buffer gives */
            count_damage(s, damage, left);
        }
        s->p = s->end;
        return false;
    }
    if (!wanted(s, dull)) {
        goto pass;
    }
    if (s->peek.ticks == ETL_RECORD_NO_TIME) {
        s->peek.ticks = s->last_ticks;
    }
    since_ns = etl_buffer_ns(log, s->peek.ticks);
    if (!etl_buffer_believes_ns(log, since_ns)) {
        count_damage(s, damage, s->peek.size);
        goto pass;
    }
    s->last_ticks = s->peek.ticks;
    s->wall_ns = log->start_ns + since_ns; /* both are bounded, see etl_buffer.h */
    return true;

pass:
    s->p += etl_record_step(&s->peek) < left ? etl_record_step(&s->peek) : left;
    return false;
}

/* A gap behind the last record is told once more at that record's time. */
static enum err finish(struct etl_stream *s)
{
    struct etl_gap gap = s->ahead;

    etl_stream_release(s);
    if (!gap.open || !s->started || s->want != ETL_WANT_ALL) {
        return ERR_END;
    }
    s->peek = (struct etl_peek){.type = ETL_NOTHING, .ticks = s->last_ticks};
    s->gap = gap;
    s->ahead = (struct etl_gap){0};
    s->at_record = true;
    return ERR_OK;
}

enum err etl_stream_next(struct etl_stream *s, struct etl_memory *mem, struct etl_damage *damage)
{
    enum err e;

    if (s->at_record) {
        size_t left = (size_t)(s->end - s->p), step = etl_record_step(&s->peek);

        if (s->peek.type != ETL_NOTHING) {
            s->p += step < left ? step : left;
        }
        s->at_record = false;
    }
    for (;;) {
        while (s->p < s->end) {
            if (look(s, &mem->dull, damage)) {
                s->at_record = s->started = true;
                if (s->gap.open || s->ahead.open) {
                    s->gap = s->ahead;
                    s->ahead = (struct etl_gap){0};
                }
                return ERR_OK;
            }
        }
        if (s->next_slot == s->n_slots) {
            return finish(s);
        }
        look_for_gap(s, &s->slots[s->next_slot]);
        e = load(s, &s->slots[s->next_slot], mem, damage);
        if (e) {
            return e;
        }
        s->next_slot++;
    }
}

enum err etl_stream_last(struct etl_stream *s, struct etl_memory *mem, int64_t *wall_ns)
{
    struct etl_damage ignored = {0};
    bool found = false;
    enum err e;

    for (size_t i = s->n_slots; i-- > 0 && !found;) {
        etl_stream_rewind(s, ETL_WANT_ALL);
        s->next_slot = s->n_slots;
        e = load(s, &s->slots[i], mem, &ignored);
        while (!e) {
            e = etl_stream_next(s, mem, &ignored);
            if (!e && (!found || s->wall_ns > *wall_ns)) {
                *wall_ns = s->wall_ns;
                found = true;
            }
        }
        if (e != ERR_END) {
            return e;
        }
    }
    return found ? ERR_OK : ERR_END;
}
