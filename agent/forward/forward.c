/* A flood costs what it takes to refuse it: the record's GUID is looked up, a bucket is asked. Only
 * what passes is described. */
#include "agent/forward/forward.h"

#include <stdlib.h>
#include <string.h>

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
    struct bucket bucket;
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
    const struct source_provider *only; /* NULL: whatever its fields hold */
    bool meant;                         /* the field has been seen with its value */
    struct event_values values;
    struct event_type type;
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
    return p && p->choices && provider_has(f, p, number_of(raw));
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

    if (f->only && !f->meant && f->depth == 0 && str_eq(v->name, str_make(f->only->field))) {
        f->meant = value_is(v, f->only->value);
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

void forward_hide(struct forward *f)
{
    f->stats.in++;
    f->stats.filtered++;
}

enum err forward_event(struct forward *f, const struct raw_event *raw,
                       const struct source_provider *only, struct life_event *out)
{
    const struct value_sink sink = {f, take_value, take_begin, take_end};
    enum err e;

    f->stats.in++;
    if (f->conf.refused && atomic_load_explicit(f->conf.refused, memory_order_relaxed)) {
        f->stats.refused++;
        return ERR_NOTFOUND;
    }
    if (!rate_permits(f, f->last, raw->mono_ns)) {
        f->stats.rate++;
        return ERR_NOTFOUND;
    }
    f->to = event_values_begin(&f->values);
    f->drop = f->redacted = f->named = false;
    f->depth = 0;
    f->only = only && only->field[0] ? only : NULL;
    f->meant = !f->only;
    e = describe_into(f, raw, &sink, out);
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
        describe_self_destroy(f->describe);
        map_fini(&f->by_guid);
        mem_free(f->providers);
        mem_free(f);
    }
}
