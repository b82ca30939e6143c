/* A flood costs what it takes to refuse it: the record's GUID is looked up, a bucket is asked. Only
 * what passes is described. */
#include "agent/forward/forward.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/decode/schema/schema.h"
#include "agent/forward/schema_lane.h"
#include "agent/source/etw_provider.h"
#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/base/glob.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"

#define EVENT_BYTES 64u          /* of an event beside its values, for host_bytes */
#define BACK_NS     (10 * CLK_S) /* CPUs write out of order; more is another clock */

/* So many things a second, and a number of them at once. Amounts are thousand-millionths, so that
 * what a nanosecond gives is whole. */
struct bucket {
    int64_t have, filled_ns;
    bool begun;
};

struct provider {
    uint8_t guid[16];
    bool named;       /* nothing more will be learnt of its name */
    uint64_t choices; /* a bit for each that it fits */
    uint64_t asked;   /* schemas there were when its name was last asked for */
    enum { NAME_OPEN, NAME_WANTED, NAME_ASKED, NAME_ANSWERED } name; /* of conf.schemas */
    uint64_t missed, hidden; /* records until it is answered: no room; not to be reported */
    struct bucket bucket;
};

/* A record that waits; behind it its payload, its extended items, the process's name, and field and
 * value that are meant, each with a NUL. */
struct held {
    size_t bytes; /* of it all */
    struct raw_event raw;
    struct proc_id id;
    size_t name_n, field_n, value_n;
    bool counted; /* in stats.in and stats.held */
};

struct forward {
    struct forward_conf conf;
    struct forward_choice choices[FORWARD_CHOICES_MAX];
    struct forward_stats stats;
    struct describe_self *describe;
    struct provider *providers; /* grows */
    size_t n, cap;
    struct map by_guid;
    uint64_t seed;
    uint64_t schemas;            /* known, when the last record was learnt */
    struct provider *last;       /* whom forward_takes found */
    struct bucket events, bytes; /* of the host */

    struct value_sink to;                  /* the writer's */
    struct str groups[EVENT_VALUES_DEPTH]; /* names of those that are open, outermost first */
    bool drop;                             /* the group that is open is left out */
    unsigned depth, dropped_at;
    bool named; /* the value before was a secret's name: this one may be the secret */
    bool redacted;
    struct str field;  /* only events where it is `value`; empty: whatever they hold */
    const char *value; /* both are valid during the call */
    bool meant;        /* the field has been seen with its value */
    struct event_values values;
    struct event_type type;

    struct schema_lane *lane; /* NULL: nothing was asked yet */
    struct {                  /* under way, oldest first */
        struct raw_event about;
    } asks[SCHEMA_LANE_ASKS];
    size_t n_asks;
    bool counted;  /* the event that forward_event could not give yet */
    uint8_t *held; /* FORWARD_HELD_BYTES, aligned; NULL: none was ever held */
    size_t held_n, held_at,
        kept; /* bytes; of a round of forward_held: read so far, kept of these */
};

/* -- what is chosen -- */

/* "#1+2". */
static enum err choice_ids(struct forward_choice *c, const char *text, struct errmsg *why)
{
    while (*text) {
        char *end;
        unsigned long id;

        text++; /* '#' or '+' */
        id = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : UINT16_MAX + 1ul;
        if (id > UINT16_MAX || (*end && *end != '+') || c->n_ids == FORWARD_IDS_MAX) {
            return errmsg_set(why, ERR_INVALID,
                              "'%s': ids are numbers up to 65535 with + between, at most %d", text,
                              FORWARD_IDS_MAX);
        }
        c->ids[c->n_ids++] = (uint16_t)id;
        text = end;
    }
    return ERR_OK;
}

enum err forward_choice_parse(struct forward_choice *out, const char *text, struct errmsg *why)
{
    const char *ids = strchr(text, '#');
    size_t n = ids ? (size_t)(ids - text) : strlen(text);

    *out = (struct forward_choice){.name = {text, n}};
    if (n == 0) {
        return errmsg_set(why, ERR_INVALID,
                          "'%s' names no provider: NAME, a pattern or {GUID}, then #ID+ID", text);
    }
    if (etw_provider_guid(out->guid, text, n) == ERR_OK) {
        out->name.n = 0;
    }
    return ids ? choice_ids(out, ids, why) : ERR_OK;
}

static bool choice_has_id(const struct forward_choice *c, uint16_t id)
{
    for (size_t i = 0; i < c->n_ids; i++) {
        if (c->ids[i] == id) {
            return true;
        }
    }
    return c->n_ids == 0;
}

static uint16_t number_of(const struct raw_event *raw)
{
    return raw->form == RAW_CLASSIC ? raw->opcode : raw->id;
}

static bool provider_has(const struct forward *f, const struct provider *p, uint16_t id)
{
    for (uint64_t left = p->choices; left; left &= left - 1) {
        if (choice_has_id(&f->choices[__builtin_ctzll(left)], id)) {
            return true;
        }
    }
    return false;
}

/* What its name chooses, once there is one. */
static void provider_ask_name(struct forward *f, struct provider *p, const struct raw_event *raw)
{
    struct described is;

    p->asked = f->schemas;
    describe_self_name(f->describe, raw, &is);
    if (is.provider.n == 0) {
        is.provider = str_make(etw_provider_name(p->guid));
    }
    p->named = is.provider.n > 0; /* without a name it fits "*" only, for now */
    for (size_t i = 0; i < f->conf.n_providers; i++) {
        if (f->choices[i].name.n && glob_match(f->choices[i].name, is.provider)) {
            p->choices |= UINT64_C(1) << i;
        }
    }
}

static struct provider *provider_add(struct forward *f, const struct raw_event *raw, uint64_t key)
{
    struct provider *p;

    if (map_reserve(&f->by_guid) || VEC_ROOM(&f->providers, &f->cap, f->n + 1, FORWARD_GUIDS_MAX)) {
        f->stats.unknown++;
        return NULL;
    }
    p = &f->providers[f->n++];
    *p = (struct provider){.asked = UINT64_MAX};
    memcpy(p->guid, raw->guid, sizeof p->guid);
    for (size_t i = 0; i < f->conf.n_providers; i++) {
        if (!f->choices[i].name.n && memcmp(f->choices[i].guid, p->guid, sizeof p->guid) == 0) {
            p->choices |= UINT64_C(1) << i;
        }
    }
    map_put(&f->by_guid, key, f->n);
    return p;
}

static struct provider *provider_find(struct forward *f, const struct raw_event *raw)
{
    uint64_t place, key;

    if (f->last && memcmp(f->last->guid, raw->guid, sizeof raw->guid) == 0) {
        return f->last;
    }
    for (key = hash_bytes(raw->guid, sizeof raw->guid, f->seed);
         (place = map_get(&f->by_guid, key)) != 0; key++) {
        if (memcmp(f->providers[place - 1].guid, raw->guid, sizeof raw->guid) == 0) {
            return &f->providers[place - 1];
        }
    }
    return provider_add(f, raw, key);
}

/* -- who else knows -- */

/* Asks where a recording can wait. */
static void schemas_ask_now(struct forward *f, const struct raw_event *raw)
{
    struct schema *answer;

    if (schema_create(&answer, FORWARD_SCHEMA_MAX) == ERR_OK) {
        f->conf.schemas(f->conf.schemas_ctx, answer, raw);
        describe_self_absorb(f->describe, answer);
        f->schemas = describe_self_schemas(f->describe);
        schema_destroy(answer);
    }
}

static bool same_event(const struct raw_event *a, const struct raw_event *b)
{
    return a->id == b->id && a->version == b->version &&
           memcmp(a->guid, b->guid, sizeof a->guid) == 0;
}

/* Whether the question is under way from now on; false: too many are, or there is no thread. */
static bool schemas_ask(struct forward *f, const struct raw_event *raw)
{
    for (size_t i = 0; i < f->n_asks; i++) {
        if (same_event(&f->asks[i].about, raw)) {
            return true;
        }
    }
    if (!f->lane && schema_lane_open(&f->lane, f->conf.schemas, f->conf.schemas_ctx)) {
        f->conf.schemas = NULL; /* no thread: as if nobody knew */
        return false;
    }
    if (!schema_lane_ask(f->lane, raw)) {
        return false;
    }
    f->asks[f->n_asks++].about = *raw;
    return true;
}

/* Whether the event's schema is being asked for. What has been asked for in vain is not again. */
static bool schemas_await(struct forward *f, const struct raw_event *raw)
{
    for (size_t i = 0; i < f->n_asks; i++) {
        if (same_event(&f->asks[i].about, raw)) {
            return true;
        }
    }
    if (!f->conf.schemas) {
        return false;
    }
    if (f->n_asks == SCHEMA_LANE_ASKS) {
        return raw->form == RAW_MANIFEST; /* later, when one of those is answered */
    }
    return describe_self_asks(f->describe, raw) && schemas_ask(f, raw);
}

/* Its name may choose it: whether that is being asked for. */
static bool provider_await_name(struct forward *f, struct provider *p, const struct raw_event *raw)
{
    bool by_name = false;

    if (p->name == NAME_OPEN && f->conf.schemas && raw->form == RAW_MANIFEST) {
        for (size_t i = 0; i < f->conf.n_providers; i++) {
            by_name = by_name || f->choices[i].name.n > 0;
        }
        p->name = !by_name || p->named || p->choices ? NAME_ANSWERED : NAME_WANTED;
    }
    if (p->name == NAME_WANTED && !f->conf.schemas) {
        p->name = NAME_ANSWERED;
    } else if (p->name == NAME_WANTED && f->conf.at_once) {
        schemas_ask_now(f, raw);
        p->name = NAME_ANSWERED;
        provider_ask_name(f, p, raw);
    } else if (p->name == NAME_WANTED && schemas_ask(f, raw)) {
        p->name = NAME_ASKED;
    }
    return p->name == NAME_WANTED || p->name == NAME_ASKED;
}

/* What could not wait for the name is counted now that it is known. */
static void provider_answered(struct forward *f, struct provider *p, const struct raw_event *about)
{
    p->name = NAME_ANSWERED;
    provider_ask_name(f, p, about);
    if (p->choices) {
        f->stats.in += p->missed + p->hidden;
        f->stats.no_schema += p->missed;
        f->stats.filtered += p->hidden;
    }
    p->missed = p->hidden = 0;
}

static void schemas_take_answers(struct forward *f)
{
    struct raw_event about;
    struct schema *answer;
    struct provider *p;

    while (f->lane && schema_lane_take(f->lane, &answer, &about)) {
        memmove(&f->asks[0], &f->asks[1], --f->n_asks * sizeof f->asks[0]);
        if (answer) {
            describe_self_absorb(f->describe, answer);
            f->schemas = describe_self_schemas(f->describe);
            schema_destroy(answer);
        }
        p = provider_find(f, &about);
        if (p && p->name == NAME_ASKED) {
            provider_answered(f, p, &about);
        }
    }
}

bool forward_takes(struct forward *f, const struct raw_event *raw)
{
    struct provider *p;

    if (describe_self_carries(raw)) {
        describe_self_learn(f->describe, raw);
        f->schemas = describe_self_schemas(f->describe);
        return false;
    }
    if (raw->early) {
        return false;
    }
    p = provider_find(f, raw);
    f->last = p;
    if (p && !p->named && p->asked != f->schemas) {
        provider_ask_name(f, p, raw);
    }
    return p &&
           (provider_await_name(f, p, raw) || (p->choices && provider_has(f, p, number_of(raw))));
}

/* -- rates -- */

/* Whether there is so much; `most` at once, `rate` comes back a second. */
static bool bucket_has(struct bucket *b, uint64_t amount, uint64_t rate, uint64_t most,
                       int64_t now_ns)
{
    int64_t full = (int64_t)most * CLK_S;
    int64_t since_ns = clk_sub(now_ns, b->filled_ns);

    if (!b->begun || since_ns > full / (int64_t)rate) {
        b->have = full;
        b->begun = true;
        b->filled_ns = now_ns;
    } else if (since_ns > 0) {
        b->have += since_ns * (int64_t)rate;
        b->have = b->have < full ? b->have : full;
        b->filled_ns = now_ns;
    } else if (since_ns < -BACK_NS) { /* a moment that was counted gives nothing again */
        b->filled_ns = now_ns;
    }
    return b->have >= (int64_t)amount * CLK_S;
}

static void bucket_take(struct bucket *b, uint64_t amount)
{
    b->have -= (int64_t)amount * CLK_S;
}

static bool rate_permits(struct forward *f, struct provider *p, int64_t now_ns)
{
    const struct forward_conf *c = &f->conf;

    return (!c->rate ||
            bucket_has(&p->bucket, 1, c->rate, c->burst > c->rate ? c->burst : c->rate, now_ns)) &&
           (!c->host_rate || bucket_has(&f->events, 1, c->host_rate, c->host_rate, now_ns));
}

/* What nobody can read, or nobody means, costs the others nothing. */
static void rate_take(struct forward *f, struct provider *p)
{
    bucket_take(&p->bucket, f->conf.rate ? 1 : 0);
    bucket_take(&f->events, f->conf.host_rate ? 1 : 0);
}

static bool size_permits(struct forward *f, size_t bytes, int64_t now_ns)
{
    size_t rate = f->conf.host_bytes;

    if (!rate) {
        return true;
    }
    if (!bucket_has(&f->bytes, bytes, rate, rate, now_ns)) {
        return false;
    }
    bucket_take(&f->bytes, bytes);
    return true;
}

/* -- what may leave of the values -- */

static bool field_dropped(const struct forward *f, struct str name)
{
    for (size_t i = 0; name.n && i < f->conf.n_drop_fields; i++) {
        if (glob_match(str_make(f->conf.drop_fields[i]), name)) {
            return true;
        }
    }
    return false;
}

/* Elements have the name of what they are in, and so have elements of elements. */
static struct str name_for(const struct forward *f, struct str name)
{
    for (unsigned i = f->depth; !name.n && i > 0; i--) {
        name = i <= EVENT_VALUES_DEPTH ? f->groups[i - 1] : name;
    }
    return name;
}

/* A group that is called a secret has no value that may leave, whatever that is called. */
static bool group_hides(const struct forward *f, unsigned kind)
{
    bool hides = false;

    for (unsigned i = 0; i < f->depth && i < EVENT_VALUES_DEPTH && !hides; i++) {
        hides = f->groups[i].n && privacy_hides(f->conf.privacy, f->groups[i], kind);
    }
    return hides;
}

/* Lists of words and of names with values: "--password", "x" and Name="password", Value="x". */
static bool follows_name(struct forward *f, const struct value *v)
{
    bool word = f->depth && !v->name.n, was = f->named;

    f->named = v->kind == VALUE_TEXT && (word || privacy_field_names(v->name)) &&
               privacy_is_name(f->conf.privacy, v->v.text);
    return was && (word || privacy_field_is_value(v->name));
}

/* Without case, as the system compares them. */
static bool text_is(struct str a, const char *b)
{
    size_t i = 0;

    while (i < a.n && b[i] &&
           (a.p[i] == b[i] ||
            ((a.p[i] ^ b[i]) == 0x20 && (b[i] | 0x20) >= 'a' && (b[i] | 0x20) <= 'z'))) {
        i++;
    }
    return i == a.n && !b[i];
}

static bool value_is(const struct value *v, const char *text)
{
    bool hex = strncmp(text, "0x", 2) == 0;
    char *end;
    uint64_t number = strtoull(text[0] == '-' ? text + 1 : text, &end, hex ? 16 : 10);
    bool is_number = *end == '\0';

    switch (v->kind) {
    case VALUE_TEXT:
        return text_is(v->v.text, text);
    case VALUE_INT:
        return is_number && v->v.i == (int64_t)(text[0] == '-' ? 0 - number : number);
    case VALUE_UINT:
    case VALUE_HEX:
    case VALUE_BOOL:
        return is_number && text[0] != '-' && v->v.u == number;
    default:
        return false;
    }
}

static void take_value(void *ctx, const struct value *v)
{
    static const struct str hidden = {"***", 3};
    struct forward *f = ctx;
    struct value shown = *v;
    bool follows;

    if (!f->meant && f->depth == 0 && str_eq(v->name, f->field)) {
        f->meant = value_is(v, f->value);
    }
    if (f->drop) {
        return;
    }
    if (field_dropped(f, v->name)) {
        f->redacted = true;
        return;
    }
    follows = follows_name(f, v);
    switch (follows || group_hides(f, v->kind)
                ? PRIVACY_VALUE_HIDDEN
                : privacy_value(f->conf.privacy, name_for(f, v->name), v->kind, &shown.v.text)) {
    case PRIVACY_VALUE_LEFT_OUT:
        f->redacted = true;
        return;
    case PRIVACY_VALUE_HIDDEN:
        f->redacted = true;
        shown.kind = VALUE_TEXT;
        shown.v.text = hidden;
        break;
    case PRIVACY_VALUE_CHANGED:
        f->redacted = true;
        break;
    case PRIVACY_VALUE_AS_IT_IS:
        break;
    }
    f->to.value(f->to.ctx, &shown);
}

static void take_begin(void *ctx, struct str name, enum value_group group)
{
    struct forward *f = ctx;

    if (!f->drop && field_dropped(f, name)) {
        f->drop = f->redacted = true;
        f->dropped_at = f->depth;
    }
    if (f->depth < EVENT_VALUES_DEPTH) {
        f->groups[f->depth] = name;
    }
    f->depth++;
    f->named = false;
    if (!f->drop) {
        f->to.begin(f->to.ctx, name, group);
    }
}

static void take_end(void *ctx)
{
    struct forward *f = ctx;

    f->depth--;
    f->named = false;
    if (!f->drop) {
        f->to.end(f->to.ctx);
    } else if (f->depth == f->dropped_at) {
        f->drop = false;
    }
}

/* -- an event -- */

static enum err describe_into(struct forward *f, const struct raw_event *raw,
                              const struct value_sink *sink, struct life_event *out)
{
    struct described is;
    enum err e = describe_self_values(f->describe, raw, sink, &is);

    if (e) {
        return e;
    }
    f->type = (struct event_type){
        .id = number_of(raw),
        .version = raw->version,
        .opcode = raw->opcode,
        .level = raw->level,
        .keyword = raw->form == RAW_CLASSIC ? 0 : raw->keyword,
        .provider = is.provider,
        .task = is.task,
        .name = is.name,
        .fields = f->values.fields,
        .n_fields = f->values.n_fields,
    };
    memcpy(f->type.guid, raw->guid, sizeof f->type.guid);
    *out = (struct life_event){
        .kind = LIFE_PROVIDER,
        .wall_ns = raw->wall_ns,
        .mono_ns = raw->mono_ns,
        .tid = raw->tid != EVENT_NO_ID ? raw->tid : 0,
        .info = {.id = {.pid = raw->pid != EVENT_NO_ID ? raw->pid : 0}},
        .type = &f->type,
        .values = {(const char *)f->values.bytes, f->values.n},
        .value_flags = f->values.cut ? LIFE_VALUES_CUT : 0,
    };
    return ERR_OK;
}

enum err forward_describe(struct forward *f, const struct raw_event *raw, struct life_event *out)
{
    struct value_sink sink = event_values_begin(&f->values);

    return describe_into(f, raw, &sink, out) ? ERR_NOTFOUND : ERR_OK;
}

static bool name_is_open(const struct provider *p)
{
    return p->name == NAME_WANTED || p->name == NAME_ASKED;
}

void forward_hide(struct forward *f)
{
    if (name_is_open(f->last)) {
        f->last->hidden++;
        return;
    }
    f->stats.in++;
    f->stats.filtered++;
}

/* Its values as far as they may leave. */
static enum err describe_meant(struct forward *f, const struct raw_event *raw,
                               struct life_event *out)
{
    const struct value_sink sink = {f, take_value, take_begin, take_end};

    f->to = event_values_begin(&f->values);
    f->drop = f->redacted = f->named = false;
    f->depth = 0;
    f->meant = !f->field.n;
    return describe_into(f, raw, &sink, out);
}

/* A chosen event of f->last, where f->field and f->value are set. ERR_BUSY: its schema is awaited;
 * nothing but that was done. */
static enum err event_give(struct forward *f, const struct raw_event *raw, struct life_event *out)
{
    enum err e;

    if (f->conf.refused && atomic_load_explicit(f->conf.refused, memory_order_relaxed)) {
        f->stats.refused++;
        return ERR_NOTFOUND;
    }
    if (!rate_permits(f, f->last, raw->mono_ns)) {
        f->stats.rate++;
        return ERR_NOTFOUND;
    }
    e = describe_meant(f, raw, out);
    if (e == ERR_NOTFOUND && f->conf.at_once && f->conf.schemas &&
        describe_self_asks(f->describe, raw)) {
        schemas_ask_now(f, raw);
        e = describe_meant(f, raw, out);
    } else if (e == ERR_NOTFOUND && !f->conf.at_once && schemas_await(f, raw)) {
        return ERR_BUSY;
    }
    if (e) {
        f->stats.no_schema += e == ERR_NOTFOUND;
        f->stats.undecodable += e != ERR_NOTFOUND;
        return ERR_NOTFOUND;
    }
    if (!f->meant) {
        f->stats.filtered++;
        return ERR_NOTFOUND;
    }
    rate_take(f, f->last);
    if (!size_permits(f, f->values.n + EVENT_BYTES, raw->mono_ns)) {
        f->stats.size++;
        return ERR_NOTFOUND;
    }
    out->value_flags |= f->redacted ? LIFE_VALUES_REDACTED : 0;
    f->stats.out++;
    return ERR_OK;
}

enum err forward_event(struct forward *f, const struct raw_event *raw,
                       const struct source_provider *only, struct life_event *out)
{
    f->counted = !name_is_open(f->last);
    if (!f->counted) {
        return ERR_BUSY;
    }
    f->stats.in++;
    f->field = str_make(only ? only->field : "");
    f->value = only ? only->value : "";
    return event_give(f, raw, out);
}

/* -- what waits -- */

#define HELD_ALIGN 16u

static uint8_t *held_put(uint8_t *to, const void *p, size_t n)
{
    if (n > 0) {
        memcpy(to, p, n);
    }
    return to + n;
}

void forward_hold(struct forward *f, const struct raw_event *raw,
                  const struct source_provider *only, const struct proc_info *info)
{
    struct held h = {.raw = *raw,
                     .id = info->id,
                     .name_n = info->name.n,
                     .field_n = (only ? strlen(only->field) : 0) + 1,
                     .value_n = (only ? strlen(only->value) : 0) + 1,
                     .counted = f->counted};
    uint8_t *to;

    assert(f->held_at == 0); /* no round of forward_held is under way */
    h.bytes = sizeof h + raw->payload_n + raw->ext_n + h.name_n + h.field_n + h.value_n;
    h.bytes = (h.bytes + HELD_ALIGN - 1) / HELD_ALIGN * HELD_ALIGN;
    f->held = f->held ? f->held : mem_alloc(FORWARD_HELD_BYTES);
    if (!f->held || h.bytes > FORWARD_HELD_BYTES - f->held_n) {
        f->stats.no_schema += h.counted;
        f->last->missed += !h.counted;
        return;
    }
    to = held_put(f->held + f->held_n, &h, sizeof h);
    to = held_put(to, raw->payload, raw->payload_n);
    to = held_put(to, raw->ext, raw->ext_n);
    to = held_put(to, info->name.p, h.name_n);
    to = held_put(to, only ? only->field : "", h.field_n);
    (void)held_put(to, only ? only->value : "", h.value_n);
    f->held_n += h.bytes;
    f->stats.held += h.counted;
}

/* The one that stands there, and what belongs to it. */
static struct held *held_read(struct forward *f, struct str *name)
{
    struct held *h = (struct held *)(void *)(f->held + f->held_at);
    const char *p = (const char *)(h + 1);

    h->raw.payload = (const uint8_t *)p;
    h->raw.ext = h->raw.ext_n ? (const uint8_t *)p + h->raw.payload_n : NULL;
    p += h->raw.payload_n + h->raw.ext_n;
    *name = (struct str){p, h->name_n};
    f->field = str_make(p + h->name_n);
    f->value = p + h->name_n + h->field_n;
    return h;
}

static void held_keep(struct forward *f, const struct held *h)
{
    size_t bytes = h->bytes;

    memmove(f->held + f->kept, h, bytes); /* to where it stands, or before */
    f->kept += bytes;
}

/* ERR_BUSY: it waits on. */
static enum err held_try(struct forward *f, struct held *h, struct life_event *out)
{
    struct provider *p = provider_find(f, &h->raw);
    enum err e;

    assert(p); /* it was remembered when the record came */
    f->last = p;
    if (provider_await_name(f, p, &h->raw)) {
        return ERR_BUSY;
    }
    if (!h->counted && (!p->choices || !provider_has(f, p, number_of(&h->raw)))) {
        return ERR_NOTFOUND; /* it was none that is chosen */
    }
    f->stats.in += !h->counted;
    f->stats.held -= h->counted;
    h->counted = true;
    e = event_give(f, &h->raw, out);
    f->stats.held += e == ERR_BUSY;
    return e;
}

bool forward_answered(const struct forward *f)
{
    return f->lane && schema_lane_answered(f->lane);
}

enum err forward_held(struct forward *f, struct life_event *out)
{
    struct str name;

    if (f->held_at == 0) {
        if (!forward_answered(f)) {
            return ERR_NOTFOUND;
        }
        schemas_take_answers(f);
    }
    while (f->held_at < f->held_n) {
        struct held *h = held_read(f, &name);
        const struct proc_id id = h->id;
        size_t bytes = h->bytes;
        enum err e = held_try(f, h, out);

        f->held_at += bytes;
        if (e == ERR_BUSY) {
            held_keep(f, h);
        } else if (e == ERR_OK) {
            out->info = (struct proc_info){.id = id, .name = name};
            return ERR_OK;
        }
    }
    f->held_n = f->kept;
    f->held_at = f->kept = 0;
    return ERR_NOTFOUND;
}

void forward_give_held(struct forward *f, void (*life)(void *ctx, const struct life_event *ev),
                       void *ctx)
{
    struct life_event ev;

    while (f && forward_held(f, &ev) == ERR_OK) {
        life(ctx, &ev);
    }
}

void forward_finish(struct forward *f)
{
    if (!f) {
        return;
    }
    f->stats.no_schema += f->stats.held;
    f->stats.held = 0;
    f->held_n = f->held_at = f->kept = 0;
}

const struct forward_stats *forward_stats(const struct forward *f)
{
    return &f->stats;
}

/* -- building -- */

enum err forward_create(struct forward **out, const struct forward_conf *conf, struct errmsg *why)
{
    struct forward *f;
    enum err e = ERR_OK;

    if (conf->n_providers > FORWARD_CHOICES_MAX || conf->n_drop_fields > FORWARD_CHOICES_MAX) {
        return errmsg_set(why, ERR_FULL, "at most %d providers, and fields, can be named",
                          FORWARD_CHOICES_MAX);
    }
    f = mem_zalloc(sizeof *f);
    if (!f) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    f->conf = *conf;
    for (size_t i = 0; !e && i < conf->n_providers; i++) {
        e = forward_choice_parse(&f->choices[i], conf->providers[i], why);
    }
    if (!e) {
        e = os_random(&f->seed, sizeof f->seed);
    }
    if (!e) {
        e = describe_self_create(&f->describe, FORWARD_SCHEMA_MAX);
    }
    if (e) {
        forward_destroy(f);
        return e == ERR_INVALID ? e : errmsg_set(why, e, "out of memory");
    }
    *out = f;
    return ERR_OK;
}

void forward_destroy(struct forward *f)
{
    if (f) {
        schema_lane_close(f->lane);
        describe_self_destroy(f->describe);
        mem_free(f->held);
        map_fini(&f->by_guid);
        mem_free(f->providers);
        mem_free(f);
    }
}
