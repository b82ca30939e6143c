#include "collector/rules/rules_notice.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/hash.h"
#include "common/text/humanize.h"
#include "common/wire/wire_query.h"

static const char *const reasons[RULES_REASONS] = {
    [RULES_NO_REASON] = "",
    [RULES_FILLING] = "the window is not full yet",
    [RULES_COVERED] = "too little was delivered",
    [RULES_ABSENT] = "an input is absent",
    [RULES_TOO_MANY] = "too many subjects",
};

const char *rules_notice_reason(unsigned reason)
{
    return reason < RULES_REASONS ? reasons[reason] : "";
}

static uint64_t hash_text(const char *text, size_t n, uint64_t seed)
{
    return hash_bytes(text, n, seed ^ n);
}

void rules_notice_id(uint8_t id[RULES_ID_BYTES], const struct rules_subject *s)
{
    for (unsigned half = 0; half < 2; half++) {
        const int64_t numbers[] = {s->step_ns, s->state, (int64_t)s->start};
        uint64_t h = hash_text(s->rule->name.p, s->rule->name.n, half);

        h = s->id ? hash_bytes(s->id->b, sizeof s->id->b, h)
                  : hash_text(s->class_text, strlen(s->class_text), h);
        h = hash_text(s->key, strlen(s->key), h);
        h = hash_bytes(numbers, sizeof numbers, h);
        for (unsigned i = 0; i < 8; i++) {
            id[half * 8 + i] = (uint8_t)(h >> (8 * i));
        }
    }
}

static void id_format(char text[NOTICE_ID_TEXT], const uint8_t id[RULES_ID_BYTES])
{
    for (size_t i = 0; i < RULES_ID_BYTES; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", id[i]);
    }
}

void rules_notice_id_text(char text[NOTICE_ID_TEXT], const struct rules_subject *s)
{
    struct rules_subject told = *s;
    uint8_t id[RULES_ID_BYTES];

    told.step_ns = s->changed_ns;
    rules_notice_id(id, &told);
    id_format(text, id);
}

static int64_t whole(double v)
{
    return v >= 9e18 ? INT64_MAX : v <= -9e18 ? INT64_MIN : (int64_t)llround(v);
}

void rules_notice_value(struct buf *out, double value, struct expr_dim dim)
{
    if (dim.share) {
        buf_printf(out, "%.4g%%", value * 100);
    } else if (dim.bytes == 1) {
        humanize_bytes(out, whole(value));
        buf_put_str(out, dim.time < 0 ? "/s" : "");
    } else if (dim.time == 1) {
        humanize_ns(out, whole(value));
    } else {
        buf_printf(out, dim.time < 0 ? "%.6g/s" : "%.6g", value);
    }
}

/* -- the sentence -- */

static void put_text(struct buf *out, const char *text)
{
    buf_put_str(out, text[0] ? text : "-");
}

static void put_word(struct buf *out, struct str word, const struct rules_subject *s)
{
#define IS(name) str_eq(word, str_make(name))
    if (IS("rule")) {
        buf_put(out, s->rule->name.p, s->rule->name.n);
    } else if (IS("name") || IS("subject")) {
        put_text(out, s->key[0] ? s->key : s->host);
    } else if (IS("host")) {
        put_text(out, strcmp(s->host, NOTICE_NO_HOST) == 0 ? "several hosts" : s->host);
    } else if (IS("state")) {
        buf_put_str(out, notice_state_name(s->state));
    } else if (IS("severity")) {
        buf_put(out, s->rule->severity.p, s->rule->severity.n);
    } else if (IS("class")) {
        put_text(out, s->class_text);
    } else if (IS("coverage")) {
        buf_printf(out, "%.4g%%", s->coverage * 100);
    } else if (IS("limit") && s->rule->has_limit) {
        rules_notice_value(out, s->rule->limit, s->dim);
    } else if (IS("value") && s->has_value) {
        rules_notice_value(out, s->value, s->dim);
    } else {
        buf_put_str(out, "-");
    }
#undef IS
}

static void put_say(struct buf *out, struct str say, const struct rules_subject *s)
{
    for (size_t i = 0; i < say.n;) {
        const char *close = say.p[i] == '{' ? memchr(say.p + i, '}', say.n - i) : NULL;

        if (close) {
            put_word(out, (struct str){say.p + i + 1, (size_t)(close - say.p) - i - 1}, s);
            i = (size_t)(close - say.p) + 1;
        } else {
            buf_put_u8(out, (uint8_t)say.p[i++]);
        }
    }
}

/* Without `say`, and of other states than firing. */
static void put_plain(struct buf *out, const struct rules_subject *s)
{
    buf_printf(out, "%.*s: %s%s%s is %s", (int)s->rule->name.n, s->rule->name.p, s->key,
               s->key[0] ? " on " : "",
               strcmp(s->host, NOTICE_NO_HOST) == 0 ? "several hosts" : s->host,
               notice_state_name(s->state));
    if (s->state == NOTICE_UNKNOWN) {
        buf_printf(out, ": %s", rules_notice_reason(s->reason));
    } else if (s->has_value) {
        buf_put_str(out, ": ");
        rules_notice_value(out, s->value, s->dim);
        if (s->rule->has_limit && s->rule->many == RULES_ANY) {
            buf_put_str(out, ", limit ");
            rules_notice_value(out, s->rule->limit, s->dim);
        }
    }
}

enum err rules_notice_make(struct notice *out, const struct rules_subject *s, struct arena *a)
{
    uint8_t id[RULES_ID_BYTES];
    struct buf say;
    double factor;
    char *text;

    *out = (struct notice){.rule = s->rule->name,
                           .severity = s->rule->severity,
                           .of = str_make(rules_conf_of_name(s->rule->of)),
                           .subject = str_make(s->key),
                           .state = s->state,
                           .before = s->before,
                           .step_ns = s->step_ns,
                           .since_ns = s->since_ns,
                           .has_value = s->has_value,
                           .value = s->value,
                           .has_limit = s->rule->has_limit && s->rule->many == RULES_ANY,
                           .limit = s->rule->limit,
                           .unit = str_make(rules_conf_unit(s->dim, &factor)),
                           .has_coverage = true,
                           .coverage = s->coverage,
                           .reason = str_make(rules_notice_reason(s->reason)),
                           .use = s->rule->use};
    rules_notice_id(id, s);
    id_format(out->id, id);
    buf_init(&say, 4 * RULES_SAY_MAX);
    if (s->state == NOTICE_FIRING && s->rule->say.n) {
        put_say(&say, s->rule->say, s);
    } else {
        put_plain(&say, s);
    }
    text = arena_dup(a, say.p ? (const char *)say.p : "", say.n);
    out->say = (struct str){text, utf8_cut(text ? text : "", say.n, MODEL_TEXT_MAX)};
    buf_fini(&say);
    return text ? ERR_OK : ERR_FULL;
}

enum err rules_notice_encode(struct buf *out, const struct notice *n, const char *host,
                             const struct uuid *id)
{
    const struct wire_host about = {.id = *id, .name = str_make(host)};
    struct wire_event event = {0};
    const struct wire_update u = {
        .host = *id,
        .name = str_make(host),
        .data = {.n_hosts = 1, .hosts = &about, .n_events = 1, .events = &event}};
    struct notice_room room;

    notice_event(&event.event, n, &room);
    return wire_update_encode(out, &u);
}
