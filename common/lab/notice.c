#include "common/lab/notice.h"

#include <math.h>
#include <string.h>

static const char *const state_names[NOTICE_STATES] = {"ok", "firing", "unknown"};

/* Never changes: readers know notices by it. */
static const uint8_t guid[16] = {0x6b, 0x1e, 0x5a, 0x02, 0x8d, 0x4f, 0x4c, 0x91,
                                 0xa3, 0x7c, 0x10, 0xf2, 0x2e, 0x90, 0x5d, 0x3a};

const char *notice_state_name(unsigned state)
{
    return state < NOTICE_STATES ? state_names[state] : "unknown";
}

/* -- to an event -- */

static void put_text(const struct value_sink *to, const char *name, struct str text)
{
    const struct value v = {
        .name = str_make(name), .kind = VALUE_TEXT, .v.text = {text.p ? text.p : "", text.n}};

    if (text.n) {
        to->value(to->ctx, &v);
    }
}

static void put_uint(const struct value_sink *to, const char *name, uint64_t number)
{
    const struct value v = {.name = str_make(name), .kind = VALUE_UINT, .bits = 64, .v.u = number};

    to->value(to->ctx, &v);
}

static void put_float(const struct value_sink *to, const char *name, bool has, double number)
{
    const struct value v = {.name = str_make(name), .kind = VALUE_FLOAT, .bits = 64, .v.f = number};

    if (has && isfinite(number)) {
        to->value(to->ctx, &v);
    }
}

void notice_event(struct life_event *out, const struct notice *n, struct notice_room *room)
{
    const struct value_sink to = event_values_begin(&room->values);
    const struct value since = {
        .name = str_make("since"), .kind = VALUE_TIME, .bits = 64, .v.i = n->since_ns};

    put_uint(&to, "n", n->n);
    put_text(&to, "id", str_make(n->id));
    put_text(&to, "rule", n->rule);
    put_text(&to, "severity", n->severity);
    put_text(&to, "of", n->of);
    put_text(&to, "subject", n->subject);
    put_text(&to, "state", str_make(notice_state_name(n->state)));
    put_text(&to, "before", str_make(notice_state_name(n->before)));
    if (n->since_ns) {
        to.value(to.ctx, &since);
    }
    put_float(&to, "value", n->has_value, n->value);
    put_float(&to, "limit", n->has_limit, n->limit);
    put_text(&to, "unit", n->unit);
    put_float(&to, "coverage", n->has_coverage, n->coverage);
    put_text(&to, "reason", n->reason);
    put_text(&to, "silenced", n->silenced);
    put_text(&to, "use", n->use);
    if (n->skipped) {
        put_uint(&to, "skipped", n->skipped);
    }
    if (n->has_watch) {
        put_uint(&to, "hosts", n->hosts);
        put_uint(&to, "processes", n->processes);
        put_uint(&to, "subjects", n->subjects);
    }
    room->type = (struct event_type){.id = 1,
                                     .version = 1,
                                     .provider = str_make(NOTICE_PROVIDER),
                                     .task = str_make("rule"),
                                     .name = str_make("notice"),
                                     .n_fields = room->values.n_fields,
                                     .fields = room->values.fields};
    memcpy(room->type.guid, guid, sizeof guid);
    *out = (struct life_event){.kind = LIFE_RULE,
                               .value_flags = room->values.cut ? LIFE_VALUES_CUT : 0,
                               .wall_ns = n->step_ns,
                               .text = n->say,
                               .type = &room->type,
                               .values = {(const char *)room->values.bytes, room->values.n}};
}

/* -- from an event -- */

static bool find(struct value *v, const struct life_event *ev, const char *name, unsigned kind)
{
    return event_values_find(v, ev->type, ev->values, str_make(name)) && v->kind == kind;
}

static struct str get_text(const struct life_event *ev, const char *name)
{
    struct value v;

    return find(&v, ev, name, VALUE_TEXT) ? v.v.text : str_make("");
}

static uint64_t get_uint(const struct life_event *ev, const char *name)
{
    struct value v;

    return find(&v, ev, name, VALUE_UINT) ? v.v.u : 0;
}

static bool get_float(const struct life_event *ev, const char *name, double *out)
{
    struct value v;
    bool has = find(&v, ev, name, VALUE_FLOAT) && isfinite(v.v.f);

    *out = has ? v.v.f : 0;
    return has;
}

static bool get_state(const struct life_event *ev, const char *name, uint8_t *out)
{
    struct str text = get_text(ev, name);

    for (uint8_t i = 0; i < NOTICE_STATES; i++) {
        if (str_eq(text, str_make(state_names[i]))) {
            *out = i;
            return true;
        }
    }
    return false;
}

enum err notice_read(struct notice *out, const struct life_event *ev)
{
    struct notice n = {.step_ns = ev->wall_ns, .say = ev->text};
    struct value since;
    struct str id;

    if (ev->kind != LIFE_RULE || !ev->type || memcmp(ev->type->guid, guid, sizeof guid) != 0 ||
        !event_values_ok(ev->type->n_fields, ev->values)) {
        return ERR_INVALID;
    }
    id = get_text(ev, "id");
    n.n = get_uint(ev, "n");
    n.rule = get_text(ev, "rule");
    if (id.n != NOTICE_ID_TEXT - 1 || n.rule.n == 0 || !get_state(ev, "state", &n.state) ||
        !get_state(ev, "before", &n.before)) {
        return ERR_INVALID;
    }
    memcpy(n.id, id.p, id.n);
    n.severity = get_text(ev, "severity");
    n.of = get_text(ev, "of");
    n.subject = get_text(ev, "subject");
    n.since_ns = find(&since, ev, "since", VALUE_TIME) ? since.v.i : 0;
    n.has_value = get_float(ev, "value", &n.value);
    n.has_limit = get_float(ev, "limit", &n.limit);
    n.unit = get_text(ev, "unit");
    n.has_coverage = get_float(ev, "coverage", &n.coverage);
    n.reason = get_text(ev, "reason");
    n.silenced = get_text(ev, "silenced");
    n.use = get_text(ev, "use");
    n.skipped = get_uint(ev, "skipped");
    n.has_watch = find(&since, ev, "hosts", VALUE_UINT);
    n.hosts = get_uint(ev, "hosts");
    n.processes = get_uint(ev, "processes");
    n.subjects = get_uint(ev, "subjects");
    *out = n;
    return ERR_OK;
}
