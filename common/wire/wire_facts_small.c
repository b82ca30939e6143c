/* Facts without the messages' machinery: pieces of the encoding put one behind the other. The agent
 * on Windows, whose size is bounded, needs no more. */
#include <string.h>

#include "common/wire/wire_facts.h"

#define TAG(field, type) ((uint64_t)(field) << 3 | (type))
#define VARINT           0u
#define BYTES            2u

struct piece {
    uint8_t *p;
    size_t n;
};

static void put_varint(struct piece *to, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) {
        to->p[to->n++] = (uint8_t)(v | 0x80);
    }
    to->p[to->n++] = (uint8_t)v;
}

static void put_bytes(struct piece *to, unsigned field, const void *p, size_t n)
{
    put_varint(to, TAG(field, BYTES));
    put_varint(to, n);
    memcpy(to->p + to->n, p, n);
    to->n += n;
}

static void put_number(struct piece *to, unsigned field, uint64_t v)
{
    if (v) {
        put_varint(to, TAG(field, VARINT));
        put_varint(to, v);
    }
}

size_t wire_facts_small_encode(uint8_t out[WIRE_FACTS_MAX], const struct facts *f)
{
    uint8_t part[256];
    struct piece to = {out, 0}, inside = {part, 0};

    put_bytes(&inside, 1, f->inventory.os.p, f->inventory.os.n);
    put_number(&inside, 16, f->inventory.cpus);
    put_number(&inside, 18, f->inventory.memory_bytes);
    put_bytes(&to, 1, part, inside.n);
    for (size_t i = 0; i < f->n_labels; i++) { /* checked, as agent_conf has them */
        inside.n = 0;
        put_bytes(&inside, 1, f->labels[i].key.p, f->labels[i].key.n);
        put_bytes(&inside, 2, f->labels[i].value.p, f->labels[i].value.n);
        put_bytes(&to, 2, part, inside.n);
    }
    return to.n;
}

/* Of a Facts message the inventory is field 1, the labels are field 2: all of them bytes. */
enum err wire_facts_small_append(struct buf *out, const uint8_t *told, size_t n, unsigned inventory,
                                 unsigned labels)
{
    for (size_t i = 0; i < n;) {
        unsigned field = told[i] == TAG(1, BYTES) ? inventory : labels, shift = 0;
        size_t from = ++i, bytes = 0;
        uint8_t tag = (uint8_t)TAG(field, BYTES);

        do {
            bytes |= (size_t)(told[i] & 0x7f) << shift;
            shift += 7;
        } while (told[i++] & 0x80);
        buf_put(out, &tag, 1);
        buf_put(out, told + from, i - from + bytes);
        i += bytes;
    }
    return out->bad;
}
