#include "agent/decode/describe_self.h"

#include "agent/decode/schema/describe_manifest.h"
#include "agent/decode/schema/describe_metadata.h"
#include "agent/decode/schema/describe_tracelogging.h"
#include "agent/decode/schema/payload.h"
#include "agent/decode/schema/schema.h"
#include "common/base/mem.h"

struct describe_self {
    struct schema *schema;
    uint64_t schemas;
    struct payload payload;
    struct tracelogging tracelogging;
    struct metadata metadata;
    struct manifests manifests;
    bool early; /* schemas come ahead of everything, so each comes a second time */
};

enum err describe_self_create(struct describe_self **out, size_t schema_max)
{
    struct describe_self *d = mem_zalloc(sizeof *d);
    enum err e;

    if (!d) {
        return ERR_NOMEM;
    }
    describe_manifest_init(&d->manifests);
    e = schema_create(&d->schema, schema_max);
    if (e) {
        describe_self_destroy(d);
        return e;
    }
    *out = d;
    return ERR_OK;
}

void describe_self_destroy(struct describe_self *d)
{
    if (d) {
        describe_manifest_fini(&d->manifests);
        schema_destroy(d->schema);
        mem_free(d);
    }
}

bool describe_self_carries(const struct raw_event *raw)
{
    return describe_manifest_is(raw) || describe_metadata_is(raw);
}

void describe_self_learn(struct describe_self *d, const struct raw_event *raw)
{
    uint64_t events = 0, broken = 0;

    d->early |= raw->early;
    if (d->early && !raw->early) {
        return;
    }
    if (describe_manifest_is(raw)) { /* what cannot be read stays without a schema, counted so */
        err_ignore(describe_manifest_learn(&d->manifests, d->schema, raw, &events, &broken));
    } else {
        err_ignore(describe_metadata_learn(&d->metadata, d->schema, raw, &events));
    }
    d->schemas += events;
}

uint64_t describe_self_schemas(const struct describe_self *d)
{
    return d->schemas;
}

void describe_self_absorb(struct describe_self *d, const struct schema *from)
{
    uint64_t events;

    err_ignore(schema_absorb(d->schema, from, &events)); /* what has no room stays unknown */
    d->schemas++;                                        /* a provider's name is news, too */
}

bool describe_self_asks(struct describe_self *d, const struct raw_event *raw)
{
    uint64_t key = UINT64_C(1) << 32 | (uint64_t)raw->version << 16 | raw->id;

    return raw->form == RAW_MANIFEST && !describe_tracelogging_is(raw) &&
           !schema_find_event(d->schema, raw) &&
           schema_put_seen(d->schema, raw->guid, key) == ERR_OK;
}

/* The record's own schema, or what the stream taught of it; NULL: none. */
static const struct schema_event *find_schema(struct describe_self *d, const struct raw_event *raw,
                                              struct described *out)
{
    const struct schema_event *ev;

    *out = (struct described){.provider = {"", 0}, .task = {"", 0}, .name = {"", 0}};
    if (raw->form == RAW_MESSAGE) {
        return NULL;
    }
    if (describe_tracelogging_is(raw)) {
        describe_tracelogging_name(&d->tracelogging, raw);
        out->by = DESCRIBE_TRACELOGGING;
        out->group = d->tracelogging.group;
        ev = &d->tracelogging.event;
    } else {
        ev = schema_find_event(d->schema, raw);
        if (!ev) {
            out->provider = schema_find_provider(d->schema, raw->guid);
            return NULL;
        }
        out->by = ev->origin == SCHEMA_FROM_METADATA ? DESCRIBE_METADATA : DESCRIBE_MANIFEST;
    }
    out->provider = ev->provider;
    out->task = ev->task;
    out->name = ev->name;
    return ev;
}

void describe_self_name(struct describe_self *d, const struct raw_event *raw, struct described *out)
{
    (void)find_schema(d, raw, out);
}

enum err describe_self_values(struct describe_self *d, const struct raw_event *raw,
                              const struct value_sink *sink, struct described *out)
{
    const struct schema_event *ev = find_schema(d, raw, out);
    enum err e = ERR_OK;

    out->left = raw->payload_n;
    if (!ev) {
        return ERR_NOTFOUND;
    }
    if (out->by == DESCRIBE_TRACELOGGING) {
        e = describe_tracelogging_read(&d->tracelogging, raw);
    }
    return e ? e : payload_read(&d->payload, ev, d->schema, raw, sink, &out->left);
}
