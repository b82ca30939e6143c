#include "collector/console/api_args.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/utf8.h"
#include "common/conf/opt.h"
#include "common/text/field.h"
#include "common/wire/wire_run.h"

#define SHOWN_MAX  40   /* bytes of a value in a sentence */
#define DIGITS_UTC 12u  /* from so many on a moment of digits alone is UTC ns */
#define HOST_MAX   256u /* bytes of a name, glob or id, as on the wire */

/* What a reader gets: a value, decoded, with a NUL behind it and none in it. */
struct api_value {
    const char *p;
    size_t n;
    int64_t now_ns;
    struct errmsg *why;
};

static enum err value_bad(const struct api_value *v, const char *expected)
{
    return errmsg_set(v->why, ERR_INVALID, "'%.*s' is not %s", SHOWN_MAX, v->p, expected);
}

/* -- values -- */

static enum err value_number(uint64_t *out, const struct api_value *v, uint64_t least,
                             uint64_t most)
{
    if (opt_number(out, v->p, most) != ERR_OK || *out < least) {
        return errmsg_set(v->why, ERR_INVALID, "'%.*s' is not a number from %llu to %llu",
                          SHOWN_MAX, v->p, (unsigned long long)least, (unsigned long long)most);
    }
    return ERR_OK;
}

static enum err value_number32(uint32_t *out, const struct api_value *v, uint32_t least,
                               uint32_t most)
{
    uint64_t n;
    enum err e = value_number(&n, v, least, most);

    if (!e) {
        *out = (uint32_t)n;
    }
    return e;
}

static enum err value_flag(bool *out, const struct api_value *v)
{
    bool yes = !v->n || strcmp(v->p, "true") == 0 || strcmp(v->p, "1") == 0;

    if (!yes && strcmp(v->p, "false") != 0 && strcmp(v->p, "0") != 0) {
        return value_bad(v, "true or false");
    }
    *out = yes;
    return ERR_OK;
}

static enum err value_span(int64_t *out, const struct api_value *v, int64_t least, int64_t most)
{
    if (clk_parse_span(out, v->p) != ERR_OK || *out < least || *out > most) {
        return value_bad(v, most == INT64_MAX ? "a span such as 15m or 1h30m"
                                              : "a span such as 10s, at most 25s");
    }
    return ERR_OK;
}

/* *spans counts those that are spans before now. */
static enum err value_moment(int64_t *out, unsigned *spans, const struct api_value *v)
{
    size_t digits = strspn(v->p, "0123456789");
    int64_t later;
    uint64_t ns;

    if (digits == v->n && digits >= DIGITS_UTC && opt_number(&ns, v->p, INT64_MAX) == ERR_OK) {
        *out = (int64_t)ns;
        return ERR_OK;
    }
    if (clk_parse_when(out, v->p, v->now_ns) != ERR_OK || *out <= 0) {
        return value_bad(v, "a span such as 5m, a time such as 2026-11-21T09:00:00Z, or UTC in ns");
    }
    *spans += clk_parse_when(&later, v->p, v->now_ns + 1) == ERR_OK && later != *out;
    return ERR_OK;
}

static enum err value_text(struct str *out, const struct api_value *v, size_t most)
{
    if (v->n > most) {
        return errmsg_set(v->why, ERR_INVALID, "it has %zu bytes, at most %zu are taken", v->n,
                          most);
    }
    *out = (struct str){v->p, v->n};
    return ERR_OK;
}

static enum err value_word(uint8_t *out, const struct api_value *v, const char *const *words,
                           size_t n, const char *expected)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(v->p, words[i]) == 0) {
            *out = (uint8_t)i;
            return ERR_OK;
        }
    }
    return value_bad(v, expected);
}

/* -- parameters -- */

static enum err read_host(struct api_args *a, const struct api_value *v)
{
    return value_text(&a->q.host, v, HOST_MAX);
}

/* A list with commas. */
static enum err read_ids(struct api_args *a, const struct api_value *v)
{
    size_t n = 0;

    for (size_t at = 0; at < v->n; at += UUID_TEXT) {
        char id[UUID_TEXT];
        size_t len = strcspn(v->p + at, ",");

        if (n == WIRE_IDS_MAX) {
            return errmsg_set(v->why, ERR_INVALID, "at most %u", WIRE_IDS_MAX);
        }
        (void)snprintf(id, sizeof id, "%.*s", (int)(len < UUID_TEXT ? len : 0), v->p + at);
        if (len != UUID_TEXT - 1 || uuid_parse(&a->ids[n++], id) != ERR_OK) {
            return value_bad(v, "a list of ids, as hosts has them");
        }
    }
    a->q.ids = (struct str){(const char *)a->ids, n * sizeof *a->ids};
    return n ? ERR_OK : value_bad(v, "a list of ids, as hosts has them");
}

static enum err read_run(struct api_args *a, const struct api_value *v)
{
    return value_text(&a->q.run, v, WIRE_RUN_SPEC_MAX);
}

static enum err read_forgotten(struct api_args *a, const struct api_value *v)
{
    return value_flag(&a->q.forgotten, v);
}

static enum err read_since(struct api_args *a, const struct api_value *v)
{
    return value_moment(&a->q.since_ns, &a->spans, v);
}

static enum err read_until(struct api_args *a, const struct api_value *v)
{
    return value_moment(&a->q.until_ns, &a->spans, v);
}

static enum err read_last(struct api_args *a, const struct api_value *v)
{
    return value_span(&a->q.last_ns, v, 1, INT64_MAX);
}

static enum err read_at(struct api_args *a, const struct api_value *v)
{
    return value_moment(&a->q.at_ns, &a->spans, v);
}

/* A list with commas, each once. */
static enum err read_metric(struct api_args *a, const struct api_value *v)
{
    struct errmsg wrong = {""};

    for (const char *list = v->p; *list;) {
        size_t n = strcspn(list, ",");
        char name[64];
        uint8_t id;

        (void)snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1),
                       list);
        if (field_metric(&id, name, &wrong) != ERR_OK) {
            return errmsg_set(v->why, ERR_INVALID, "%s", wrong.text);
        }
        if (!memchr(a->q.metrics, id, a->q.n_metrics)) {
            if (a->q.n_metrics == WIRE_METRICS_MAX) {
                return errmsg_set(v->why, ERR_INVALID, "at most %u", WIRE_METRICS_MAX);
            }
            a->q.metrics[a->q.n_metrics++] = id;
        }
        list += n + (list[n] == ',');
    }
    return a->q.n_metrics ? ERR_OK : value_bad(v, "a list of metrics");
}

static enum err read_limit(struct api_args *a, const struct api_value *v)
{
    return value_number32(&a->q.limit, v, 1, WIRE_ROWS_MAX);
}

static enum err read_idle(struct api_args *a, const struct api_value *v)
{
    return value_flag(&a->q.idle, v);
}

static enum err read_exited(struct api_args *a, const struct api_value *v)
{
    return value_flag(&a->q.exited, v);
}

static enum err read_pid(struct api_args *a, const struct api_value *v)
{
    a->q.has_pid = true;
    return value_number32(&a->q.pid, v, 0, UINT32_MAX);
}

static enum err read_start(struct api_args *a, const struct api_value *v)
{
    return value_number(&a->q.start, v, 1, UINT64_MAX);
}

static enum err read_name(struct api_args *a, const struct api_value *v)
{
    return value_text(&a->q.name, v, MODEL_TEXT_MAX);
}

static enum err read_kinds(struct api_args *a, const struct api_value *v)
{
    struct errmsg wrong = {""};

    if (field_kinds(&a->q.kinds, v->p, &wrong) != ERR_OK) {
        return errmsg_set(v->why, ERR_INVALID, "%s", wrong.text);
    }
    return a->q.kinds ? ERR_OK : value_bad(v, "a list of kinds");
}

static enum err read_provider(struct api_args *a, const struct api_value *v)
{
    return value_text(&a->q.events.provider, v, MODEL_TEXT_MAX);
}

static enum err read_event(struct api_args *a, const struct api_value *v)
{
    return value_text(&a->q.events.event, v, MODEL_TEXT_MAX);
}

static enum err read_where(struct api_args *a, const struct api_value *v)
{
    return value_text(&a->q.events.where, v, WIRE_WHERE_MAX);
}

/* A list with commas, of names that the collector knows. */
static enum err read_class(struct api_args *a, const struct api_value *v)
{
    for (const char *list = v->p; *list;) {
        size_t n = strcspn(list, ",");

        if (a->q.n_class == WIRE_CLASS_MAX) {
            return errmsg_set(v->why, ERR_INVALID, "at most %u", WIRE_CLASS_MAX);
        }
        a->q.class_keys[a->q.n_class++] = (struct str){list, n};
        list += n + (list[n] == ',');
    }
    return a->q.n_class ? ERR_OK : value_bad(v, "a list of names of the inventory");
}

static enum err read_step(struct api_args *a, const struct api_value *v)
{
    return value_span(&a->q.step_ns, v, 1, INT64_MAX);
}

static enum err read_buckets(struct api_args *a, const struct api_value *v)
{
    return value_number32(&a->q.buckets, v, 1, 4096);
}

static enum err read_envelope(struct api_args *a, const struct api_value *v)
{
    return value_flag(&a->q.envelope, v);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static enum err read_cursor(struct api_args *a, const struct api_value *v)
{
    bool bad = v->n % 2 != 0 || v->n / 2 > sizeof a->cursor;

    for (size_t i = 0; !bad && i < v->n; i += 2) {
        int high = hex_digit(v->p[i]), low = hex_digit(v->p[i + 1]);

        bad = high < 0 || low < 0;
        a->cursor[i / 2] = (uint8_t)(bad ? 0 : high << 4 | low);
    }
    if (bad) {
        return value_bad(v, "a cursor: take it from the answer before, as it is");
    }
    a->q.cursor = (struct str){(const char *)a->cursor, v->n / 2};
    return ERR_OK;
}

static enum err read_stages(struct api_args *a, const struct api_value *v)
{
    return value_flag(&a->q.stages, v);
}

/* In the order of enum wire_by and enum wire_group. */
static enum err read_by(struct api_args *a, const struct api_value *v)
{
    static const char *const words[] = {"usual", "sum", "rate", "max", "avg"};

    return value_word(&a->q.by, v, words, sizeof words / sizeof *words,
                      "usual, sum, rate, max or avg");
}

static enum err read_group_by(struct api_args *a, const struct api_value *v)
{
    static const char *const words[] = {"process", "image", "user",      "host",
                                        "tree",    "fleet", "image-user"};

    return value_word(&a->q.group_by, v, words, sizeof words / sizeof *words,
                      "process, image, user, host, tree, fleet or image-user");
}

static enum err read_folded(struct api_args *a, const struct api_value *v)
{
    return value_flag(&a->q.folded, v);
}

static enum err read_max(struct api_args *a, const struct api_value *v)
{
    return value_number32(&a->q.max, v, 1, 1000000);
}

static enum err read_firing(struct api_args *a, const struct api_value *v)
{
    bool firing = false;
    enum err e = value_flag(&firing, v);

    a->q.rules_ask |= firing ? WIRE_RULES_FIRING : 0;
    return e;
}

static enum err read_wait(struct api_args *a, const struct api_value *v)
{
    return value_span(&a->wait_ns, v, 0, API_ARGS_WAIT_MAX_NS);
}

static enum err read_shape(struct api_args *a, const struct api_value *v)
{
    static const char *const words[] = {"columns", "rows"};
    uint8_t word = 0;
    enum err e = value_word(&word, v, words, 2, "columns or rows");

    a->rows = word == 1;
    return e;
}

#define ARG_ROW(constant, name) {#name, read_##name},
static const struct {
    const char *name;
    enum err (*read)(struct api_args *a, const struct api_value *v);
} args[API_ARGS] = {API_ARGS_LIST(ARG_ROW)};

const char *api_args_name(enum api_arg arg)
{
    assert(arg < API_ARGS);
    return args[arg].name;
}

/* -- the query -- */

/* Undoes escapes up to one of `stop` or the end; a NUL is put behind. False: an escape is cut or
 * wrong, or the text is not UTF-8 or has a NUL. */
static bool text_decode(struct str *in, const char *stop, char *to, size_t *n)
{
    size_t k = 0;

    while (in->n && !memchr(stop, in->p[0], strlen(stop))) {
        char c = in->p[0];
        size_t used = 1;

        if (c == '%') {
            int high = in->n > 2 ? hex_digit(in->p[1]) : -1;
            int low = in->n > 2 ? hex_digit(in->p[2]) : -1;

            if (high < 0 || low < 0) {
                return false;
            }
            c = (char)(high << 4 | low);
            used = 3;
        } else if (c == '+') {
            c = ' ';
        }
        if (!c) {
            return false;
        }
        to[k++] = c;
        in->p += used;
        in->n -= used;
    }
    to[k] = '\0';
    *n = k;
    return utf8_whole(to, k) == k;
}

static enum err name_unknown(const char *name, uint32_t takes, struct errmsg *why)
{
    const char *names[API_ARGS], *closest;
    size_t n = 0;

    for (size_t i = 0; i < API_ARGS; i++) {
        if (takes >> i & 1) {
            names[n++] = args[i].name;
        }
    }
    if (!n) {
        return errmsg_set(why, ERR_INVALID, "there is no parameter '%.*s': this takes none",
                          SHOWN_MAX, name);
    }
    closest = opt_closest(name, names, n);
    return errmsg_set(why, ERR_INVALID, "there is no parameter '%.*s' here%s%s%s", SHOWN_MAX, name,
                      closest ? "; did you mean '" : ": openapi.json lists those that there are",
                      closest ? closest : "", closest ? "'?" : "");
}

static enum err pair_read(struct api_args *out, const char *name, struct api_value *v,
                          uint32_t takes)
{
    struct errmsg wrong = {""};
    enum err e;

    for (unsigned i = 0; i < API_ARGS; i++) {
        if (!(takes >> i & 1) || strcmp(args[i].name, name) != 0) {
            continue;
        }
        if (out->given >> i & 1) {
            return errmsg_set(v->why, ERR_INVALID, "'%s' is given twice", name);
        }
        out->given |= 1u << i;
        e = args[i].read(out, &(struct api_value){v->p, v->n, v->now_ns, &wrong});
        return e ? errmsg_set(v->why, ERR_INVALID, "%s: %s", name, wrong.text) : ERR_OK;
    }
    return name_unknown(name, takes, v->why);
}

static enum err args_check(const struct api_args *a, struct errmsg *why)
{
    const struct wire_query *q = &a->q;

    if (q->since_ns && q->until_ns && q->since_ns >= q->until_ns) {
        return errmsg_set(why, ERR_INVALID, "since lies behind until");
    }
    if (a->given & API_LAST && a->given & API_SINCE) {
        return errmsg_set(why, ERR_INVALID,
                          "since and last both say where the range begins: "
                          "leave one of them away");
    }
    if (q->start && !q->has_pid) {
        return errmsg_set(why, ERR_INVALID, "start goes with pid");
    }
    return ERR_OK;
}

enum err api_args_read(struct api_args *out, struct str query, uint32_t takes, int64_t now_ns,
                       struct errmsg *why)
{
    size_t at = 0;
    enum err e = ERR_OK;

    memset(&out->q, 0, sizeof out->q);
    out->given = 0;
    out->spans = 0;
    out->rows = false;
    out->wait_ns = 0;
    if (query.n > WIRE_WEB_QUERY_MAX) {
        return errmsg_set(why, ERR_INVALID, "the parameters have more than %u bytes",
                          WIRE_WEB_QUERY_MAX);
    }
    while (!e && query.n) {
        char *name = out->text + at, *value;
        struct api_value v = {.now_ns = now_ns, .why = why};
        size_t name_n;
        bool ok = text_decode(&query, "=&", name, &name_n);

        at += name_n + 1;
        value = out->text + at;
        value[0] = '\0';
        if (ok && query.n && query.p[0] == '=') {
            query = (struct str){query.p + 1, query.n - 1};
            ok = text_decode(&query, "&", value, &v.n);
            at += v.n + 1;
        } else {
            value = name + name_n; /* no value: empty */
        }
        if (!ok) {
            return errmsg_set(why, ERR_INVALID,
                              "a parameter is not text in UTF-8 with its "
                              "special characters as %%XX");
        }
        if (query.n) { /* the '&' */
            query = (struct str){query.p + 1, query.n - 1};
        }
        v.p = value;
        e = name_n || v.n ? pair_read(out, name, &v, takes) : ERR_OK;
    }
    return e ? e : args_check(out, why);
}
