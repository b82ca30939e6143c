/* Who knows a record: its class's layouts, its own TraceLogging schema, or what the stream taught
 * before (manifests, metadata). Each of them gives a provider, a name and a way to read the
 * payload; this file only asks them in turn. */
#include "agent/decode/describe.h"

#include "agent/decode/layout_more.h"
#include "agent/decode/schema/describe_manifest.h"
#include "agent/decode/schema/describe_metadata.h"
#include "agent/decode/schema/describe_tracelogging.h"
#include "agent/decode/schema/describe_wpp.h"
#include "agent/decode/schema/payload.h"
#include "agent/decode/schema/schema.h"
#include "agent/decode/schema/tmf.h"
#include "common/base/mem.h"

#define SCHEMA_MAX_DEFAULT ((size_t)8 << 20)
#define SEEN_MORE          UINT64_C(0x6d6f7265) /* among what was seen of a provider */

struct describe {
    struct schema *schema;
    struct describe_stats stats;
    struct payload payload;
    struct tracelogging tracelogging;
    struct metadata metadata;
    struct manifests manifests;
    struct wpp wpp;
    struct tmf *tmf; /* NULL: no directory was given */
    void (*more)(void *ctx, struct schema *s, const uint8_t guid[16]);
    void *more_ctx;
    bool early; /* schemas come ahead of everything, so each comes a second time */
};

enum err describe_create(struct describe **out, const struct describe_conf *conf,
                         struct errmsg *why)
{
    struct describe *d = mem_zalloc(sizeof *d);
    enum err e;

    if (!d) {
        return ERR_NOMEM;
    }
    d->more = conf->more;
    d->more_ctx = conf->more_ctx;
    describe_manifest_init(&d->manifests);
    describe_wpp_init(&d->wpp);
    e = schema_create(&d->schema, conf->schema_max ? conf->schema_max : SCHEMA_MAX_DEFAULT);
    if (e) {
        goto fail;
    }
    if (conf->tmf_dir) {
        e = tmf_create(&d->tmf);
        if (e) {
            goto fail;
        }
        e = tmf_read_dir(d->tmf, conf->tmf_dir, why);
        if (e) {
            goto fail;
        }
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
    tmf_destroy(d->tmf);
    describe_wpp_fini(&d->wpp);
    describe_manifest_fini(&d->manifests);
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
    bool metadata = describe_metadata_is(raw);
    uint64_t events = 0, broken = 0;
    enum err e;

    if (!metadata && !describe_manifest_is(raw)) {
        return;
    }
    d->early |= raw->early;
    if (d->early && !raw->early) {
        return;
    }
    if (metadata) {
        e = describe_metadata_learn(&d->metadata, d->schema, raw, &events);
    } else {
        e = describe_manifest_learn(&d->manifests, d->schema, raw, &events, &broken);
    }
    d->stats.damaged += broken;
    count_learnt(d, e, events);
}

/* What is known of a record, once it is known by whom; all NULL: nothing. */
struct known {
    const struct layout *layout;
    const struct schema_event *schema; /* of the stream, or the record's own */
    const struct tmf_message *message;
};

static void by_layout(struct known *k, struct described *out, const struct layout *layout)
{
    k->layout = layout;
    out->by = DESCRIBE_LAYOUT;
    out->name = str_make(layout->name);
}

static void by_schema(struct known *k, struct described *out, const struct schema_event *ev)
{
    static const uint8_t by[] = {
        [SCHEMA_FROM_METADATA] = DESCRIBE_METADATA,
        [SCHEMA_FROM_EVENTSOURCE] = DESCRIBE_MANIFEST,
        [SCHEMA_FROM_FILE] = DESCRIBE_FILE,
        [SCHEMA_FROM_TABLE] = DESCRIBE_TABLE,
    };

    k->schema = ev;
    out->by = (enum describe_by)by[ev->origin];
    out->provider = ev->provider;
    out->task = ev->task;
    out->name = ev->name;
}

static void by_tracelogging(struct describe *d, const struct raw_event *raw, struct known *k,
                            struct described *out)
{
    describe_tracelogging_name(&d->tracelogging, raw);
    by_schema(k, out, &d->tracelogging.event);
    out->by = DESCRIBE_TRACELOGGING;
    out->group = d->tracelogging.group;
}

static void by_message(struct describe *d, const struct raw_event *raw, struct known *k,
                       struct described *out)
{
    out->by = DESCRIBE_WPP;
    k->message = d->tmf && !raw->has_component ? tmf_find(d->tmf, raw->guid, raw->id) : NULL;
    if (k->message) {
        out->provider = k->message->component;
        out->task = k->message->source;
        out->name = k->message->name;
    }
}

/* Records that carry schemas are read as what they are, too. */
static void by_carrier(struct describe *d, const struct raw_event *raw, struct known *k,
                       struct described *out)
{
    if (describe_metadata_is(raw)) {
        by_layout(k, out, describe_metadata_layout(raw));
        out->provider = str_make("EventMetadata");
    } else {
        by_layout(k, out, &manifest_layout);
        out->by = DESCRIBE_MANIFEST;
        out->provider = schema_find_provider(d->schema, raw->guid);
    }
}

/* Of the stream; else of whoever knows more, who is asked once. */
static const struct schema_event *find_schema(struct describe *d, const struct raw_event *raw)
{
    const struct schema_event *ev = schema_find_event(d->schema, raw);

    if (!ev && d->more && schema_put_seen(d->schema, raw->guid, SEEN_MORE) == ERR_OK) {
        d->more(d->more_ctx, d->schema, raw->guid);
        ev = schema_find_event(d->schema, raw);
    }
    return ev;
}

static void find(struct describe *d, const struct raw_event *raw, struct known *k,
                 struct described *out)
{
    const struct decode_class *class = decode_class_find(raw);
    const struct layout *layout = NULL;
    const struct schema_event *ev;

    *k = (struct known){0};
    *out = (struct described){.provider = {"", 0}, .task = {"", 0}, .name = {"", 0}};
    if (class) {
        out->provider = str_make(class->name);
        layout = layout_find(class->layouts, class->n_layouts, decode_number(raw), raw->version);
    }
    if (!layout) {
        layout = layout_more_find(raw, &class);
        out->provider = class ? str_make(class->name) : out->provider;
    }
    if (raw->form == RAW_MESSAGE) {
        by_message(d, raw, k, out);
    } else if (describe_tracelogging_is(raw)) {
        by_tracelogging(d, raw, k, out);
    } else if (layout && raw->form == RAW_CLASSIC) {
        by_layout(k, out, layout);
    } else if (describe_metadata_is(raw) || describe_manifest_is(raw)) {
        by_carrier(d, raw, k, out);
    } else {
        ev = find_schema(d, raw);
        if (ev) { /* the recording, or a manifest, knows best */
            by_schema(k, out, ev);
        } else if (layout) {
            by_layout(k, out, layout);
        } else if (!class) {
            out->provider = schema_find_provider(d->schema, raw->guid);
        }
    }
}

void describe_name(struct describe *d, const struct raw_event *raw, struct described *out)
{
    struct known k;

    find(d, raw, &k, out);
}

enum err describe_values(struct describe *d, const struct raw_event *raw,
                         const struct value_sink *sink, struct described *out)
{
    struct known k;
    enum err e = ERR_OK;

    find(d, raw, &k, out);
    out->left = raw->payload_n;
    switch (out->by) {
    case DESCRIBE_WPP:
        return describe_wpp_read(&d->wpp, k.message, raw, sink, &out->left);
    case DESCRIBE_TRACELOGGING:
        e = describe_tracelogging_read(&d->tracelogging, raw);
        break;
    case DESCRIBE_NOTHING:
        return ERR_NOTFOUND;
    default:
        break;
    }
    if (e) {
        return e;
    }
    if (k.layout) {
        decode_text_reset(&d->payload.text);
        return layout_read(k.layout, raw, sink, &d->payload.text, &out->left);
    }
    return payload_read(&d->payload, k.schema, d->schema, raw, sink, &out->left);
}

void describe_stats(const struct describe *d, struct describe_stats *out)
{
    *out = d->stats;
    out->unfinished = describe_manifest_open(&d->manifests);
    if (d->tmf) {
        tmf_counts(d->tmf, &out->messages, &out->messages_damaged);
    }
}
