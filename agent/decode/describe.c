/* Who knows a record: its class's layouts, its own TraceLogging schema, or what the stream taught
 * before (manifests, metadata). Each of them gives a provider, a name and a way to read the
 * payload; this file only asks them in turn. */
#include "agent/decode/describe.h"

#include "agent/decode/decode_class.h"
#include "agent/decode/describe_manifest.h"
#include "agent/decode/describe_metadata.h"
#include "agent/decode/describe_tracelogging.h"
#include "agent/decode/payload.h"
#include "agent/decode/schema.h"
#include "common/mem.h"

#define SCHEMA_MAX_DEFAULT ((size_t)8 << 20)

struct describe {
    struct schema *schema;
    struct describe_stats stats;
    struct payload payload;
    struct tracelogging tracelogging;
    struct metadata metadata;
    struct manifests manifests;
    bool early; /* schemas come ahead of everything, so each comes a second time */
};

enum err describe_create(struct describe **out, const struct describe_conf *conf,
                         struct errmsg *why)
{
    struct describe *d = mem_zalloc(sizeof *d);
    enum err e;

    (void)why;
    if (!d) {
        return ERR_NOMEM;
    }
    manifests_init(&d->manifests);
    e = schema_create(&d->schema, conf->schema_max ? conf->schema_max : SCHEMA_MAX_DEFAULT);
    if (e) {
        goto fail;
    }
    *out = d;
    return ERR_OK;

fail:
    describe_destroy(d);
    return e;
}

void describe_destroy(struct describe *d)
{
    if (!d) {
        return;
    }
    manifests_fini(&d->manifests);
    schema_destroy(d->schema);
    mem_free(d);
}

static void count_learnt(struct describe *d, enum err e, uint64_t events)
{
    d->stats.schemas += events;
    d->stats.refused += e == ERR_FULL || e == ERR_NOMEM || e == ERR_UNSUPPORTED;
    d->stats.damaged += e == ERR_CORRUPT;
}

void describe_learn(struct describe *d, const struct raw_event *raw)
{
    bool metadata = metadata_is(raw);
    uint64_t events = 0, broken = 0;
    enum err e;

    if (!metadata && !manifest_is(raw)) {
        return;
    }
    d->early |= raw->early;
    if (d->early && !raw->early) {
        return;
    }
    if (metadata) {
        e = metadata_learn(&d->metadata, d->schema, raw, &events);
    } else {
        e = manifests_learn(&d->manifests, d->schema, raw, &events, &broken);
    }
    d->stats.damaged += broken;
    count_learnt(d, e, events);
}

/* What is known of a record, once it is known by whom. */
struct known {
    const struct layout *layout;
    const struct schema_event *schema;
};

static struct described nothing(void)
{
    return (struct described){.provider = {"", 0}, .task = {"", 0}, .name = {"", 0}};
}

static void name_schema(struct described *out, enum describe_by by, const struct schema_event *ev)
{
    out->by = by;
    out->provider = ev->provider;
    out->task = ev->task;
    out->name = ev->name;
}

static void find(struct describe *d, const struct raw_event *raw, struct known *k,
                 struct described *out)
{
    const struct decode_class *class = decode_class_find(raw);

    *out = nothing();
    *k = (struct known){0};
    if (class) {
        out->provider = str_make(class->name);
        k->layout = layout_find(class->layouts, class->n_layouts, decode_number(raw), raw->version);
    }
    if (k->layout) {
        out->by = DESCRIBE_LAYOUT;
        out->name = str_make(k->layout->name);
        return;
    }
    if (metadata_is(raw)) {
        k->layout = metadata_layout(raw);
        out->by = DESCRIBE_LAYOUT;
        out->name = str_make(k->layout->name);
        out->provider = str_make("EventMetadata");
        return;
    }
    if (manifest_is(raw)) {
        k->layout = &manifest_layout;
        out->by = DESCRIBE_MANIFEST;
        out->name = str_make(k->layout->name);
        out->provider = schema_find_provider(d->schema, raw->guid);
        return;
    }
    k->schema = raw->form == RAW_MESSAGE ? NULL : schema_find_event(d->schema, raw);
    if (k->schema) {
        name_schema(out, k->schema->manifest ? DESCRIBE_MANIFEST : DESCRIBE_METADATA, k->schema);
    } else if (out->provider.n == 0) {
        out->provider = schema_find_provider(d->schema, raw->guid);
    }
}

void describe_name(struct describe *d, const struct raw_event *raw, struct described *out)
{
    struct known k;

    if (tracelogging_is(raw)) {
        *out = nothing();
        tracelogging_name(&d->tracelogging, raw);
        name_schema(out, DESCRIBE_TRACELOGGING, &d->tracelogging.event);
        out->group = d->tracelogging.group;
        return;
    }
    find(d, raw, &k, out);
}

static enum err values_tracelogging(struct describe *d, const struct raw_event *raw,
                                    const struct value_sink *sink, struct described *out)
{
    enum err e = tracelogging_read(&d->tracelogging, raw);

    *out = nothing();
    name_schema(out, DESCRIBE_TRACELOGGING, &d->tracelogging.event);
    out->group = d->tracelogging.group;
    if (e) {
        return e;
    }
    return payload_read(&d->payload, &d->tracelogging.event, NULL, raw, sink, &out->left);
}

enum err describe_values(struct describe *d, const struct raw_event *raw,
                         const struct value_sink *sink, struct described *out)
{
    struct known k;

    if (tracelogging_is(raw)) {
        return values_tracelogging(d, raw, sink, out);
    }
    find(d, raw, &k, out);
    if (k.layout) {
        decode_text_reset(&d->payload.text);
        return layout_read(k.layout, raw, sink, &d->payload.text, &out->left);
    }
    if (k.schema) {
        return payload_read(&d->payload, k.schema, d->schema, raw, sink, &out->left);
    }
    out->left = raw->payload_n;
    return ERR_NOTFOUND;
}

void describe_stats(const struct describe *d, struct describe_stats *out)
{
    *out = d->stats;
    out->unfinished = manifests_open(&d->manifests);
}
