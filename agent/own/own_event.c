/*   schema   u16 size of it all, u8 tag 0, name NUL, then each field: name NUL, u8 type, [u8 how]
 *   traits   u16 size of it all, name NUL
 * Texts are UTF-8 with a NUL (type 2, shown as 35); numbers unsigned, of 64 bits (type 10); GUIDs
 * (type 15); bytes behind a u16 that says how many (type 14). */
#include "agent/own/own_event.h"

#include <assert.h>
#include <string.h>

#define IN_TEXT   0x82 /* and how it is shown follows */
#define OUT_UTF8  35
#define IN_UINT64 10
#define IN_BINARY 14
#define IN_GUID   15

static void own_put(uint8_t *to, size_t size, size_t *n, const void *p, size_t bytes)
{
    assert(bytes <= size - *n);
    if (bytes > 0) {
        memcpy(to + *n, p, bytes);
    }
    *n += bytes;
}

static void own_put_size(uint8_t *p, size_t n)
{
    p[0] = (uint8_t)n;
    p[1] = (uint8_t)(n >> 8);
}

/* Nothing is cut in the middle of a character. */
static size_t own_text_bytes(struct str text)
{
    const char *nul = text.n ? memchr(text.p, 0, text.n) : NULL;
    size_t n = nul ? (size_t)(nul - text.p) : text.n;

    if (n > OWN_EVENT_TEXT) {
        n = OWN_EVENT_TEXT;
        while (n > 0 && ((unsigned char)text.p[n] & 0xc0) == 0x80) {
            n--;
        }
    }
    return n;
}

static void own_put_field(struct own_event *e, const struct own_field *f)
{
    static const uint8_t types[][2] = {[OWN_NUMBER] = {IN_UINT64},
                                       [OWN_TEXT] = {IN_TEXT, OUT_UTF8},
                                       [OWN_ID] = {IN_GUID},
                                       [OWN_BYTES] = {IN_BINARY}};
    uint8_t bytes[8], n[2];

    own_put(e->schema, sizeof e->schema, &e->schema_n, f->name, strlen(f->name) + 1);
    own_put(e->schema, sizeof e->schema, &e->schema_n, types[f->kind], f->kind == OWN_TEXT ? 2 : 1);
    switch (f->kind) {
    case OWN_TEXT:
        own_put(e->payload, sizeof e->payload, &e->payload_n, f->text.p, own_text_bytes(f->text));
        own_put(e->payload, sizeof e->payload, &e->payload_n, "", 1);
        break;
    case OWN_BYTES:
        own_put_size(n, f->text.n);
        own_put(e->payload, sizeof e->payload, &e->payload_n, n, sizeof n);
        own_put(e->payload, sizeof e->payload, &e->payload_n, f->text.p, f->text.n);
        break;
    case OWN_ID:
        own_put(e->payload, sizeof e->payload, &e->payload_n, f->text.p, f->text.n);
        break;
    case OWN_NUMBER:
        for (size_t i = 0; i < sizeof bytes; i++) {
            bytes[i] = (uint8_t)(f->number >> 8 * i);
        }
        own_put(e->payload, sizeof e->payload, &e->payload_n, bytes, sizeof bytes);
        break;
    }
}

void own_event_make(struct own_event *e, const char *name, const struct own_field *fields, size_t n)
{
    e->schema[2] = 0; /* the tag */
    e->schema_n = 3;
    e->payload_n = 0;
    e->opcode = 0;
    own_put(e->schema, sizeof e->schema, &e->schema_n, name, strlen(name) + 1);
    for (size_t i = 0; i < n; i++) {
        own_put_field(e, &fields[i]);
    }
    own_put_size(e->schema, e->schema_n);
}

size_t own_event_traits(uint8_t *out, size_t size, const char *provider)
{
    size_t n = 2;

    own_put(out, size, &n, provider, strlen(provider) + 1);
    own_put_size(out, n);
    return n;
}
