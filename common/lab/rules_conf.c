/* The file becomes libyaml's tree of nodes, each with its place; what is read from it is in one
 * arena. Expressions stand in scalars: a column of theirs is one of the file where the scalar is
 * one line, else the place is the scalar's. */
#include "common/lab/rules_conf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "common/base/arena.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

#define MEMORY_MAX   ((size_t)48 << 20)
#define SETS_MAX     64u
#define ITEMS_MAX    1024u /* of a set */
#define FOR_MAX      (24 * 3600 * CLK_S)
#define LATE_MAX     (600 * CLK_S)
#define EVERY_MAX    (3600 * CLK_S)
#define USES_MAX     16u
#define SPAN_DEFAULT (30 * CLK_S) /* of last and count */

static const char *const of_names[RULES_OFS] = {"process", "tree",  "image", "user",
                                                "host",    "class", "fleet"};

struct set {
    struct str name;
    size_t n;
    struct str *items;
};

struct rules_conf {
    struct arena memory;
    size_t n, n_sets;
    struct rules_rule *rules;
    struct set sets[SETS_MAX];
};

struct reader {
    struct rules_conf *c;
    yaml_document_t doc;
    struct rules_where *at;
    struct errmsg *why;
    struct rules_rule defaults;
};

const char *rules_conf_of_name(unsigned of)
{
    return of < RULES_OFS ? of_names[of] : "";
}

/* -- nodes -- */

static enum err fail_at(struct reader *r, const yaml_node_t *node, enum err e)
{
    r->at->line = node->start_mark.line + 1;
    r->at->column = node->start_mark.column + 1;
    return e;
}

#define FAIL(r, node, ...) fail_at(r, node, errmsg_set((r)->why, ERR_INVALID, __VA_ARGS__))

static yaml_node_t *node_get(struct reader *r, int index)
{
    return yaml_document_get_node(&r->doc, index);
}

static struct str scalar_str(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE
               ? (struct str){(const char *)node->data.scalar.value, node->data.scalar.length}
               : (struct str){"", 0};
}

static enum err keep_str(struct reader *r, const yaml_node_t *node, struct str s, struct str *out)
{
    out->n = s.n;
    out->p = arena_dup(&r->c->memory, s.p, s.n);
    return out->p ? ERR_OK : fail_at(r, node, errmsg_set(r->why, ERR_NOMEM, "out of memory"));
}

/* A scalar of 1 to `max` bytes without control characters. */
static enum err read_text(struct reader *r, const yaml_node_t *node, const char *key, size_t max,
                          struct str *out)
{
    struct str s = scalar_str(node);

    if (node->type != YAML_SCALAR_NODE || s.n == 0) {
        return FAIL(r, node, "%s is a text", key);
    }
    if (!inventory_text_ok(s, max)) {
        return FAIL(r, node, "%s is UTF-8 of at most %zu bytes without control characters", key,
                    max);
    }
    return keep_str(r, node, s, out);
}

static bool is_name(struct str s)
{
    bool ok = s.n > 0 && s.n <= RULES_NAME_MAX;

    for (size_t i = 0; ok && i < s.n; i++) {
        ok = (s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= 'A' && s.p[i] <= 'Z') ||
             (s.p[i] >= '0' && s.p[i] <= '9') || s.p[i] == '-' || s.p[i] == '_' || s.p[i] == '.';
    }
    return ok;
}

static enum err read_name(struct reader *r, const yaml_node_t *node, const char *key,
                          struct str *out)
{
    struct str s = scalar_str(node);

    return is_name(s)
               ? keep_str(r, node, s, out)
               : FAIL(r, node, "%s is 1 to %u letters, digits, '-', '_' and '.', not \"%.*s\"", key,
                      RULES_NAME_MAX, (int)(s.n < 40 ? s.n : 40), s.p);
}

static enum err read_span(struct reader *r, const yaml_node_t *node, const char *key, int64_t max,
                          int64_t *out)
{
    struct str s = scalar_str(node);
    char text[40];

    (void)snprintf(text, sizeof text, "%.*s", (int)(s.n < sizeof text ? s.n : 0), s.p);
    if (clk_parse_span(out, text) != ERR_OK || *out < 0 || *out > max) {
        return FAIL(r, node, "%s is a time from 0s to %llds, as 5m", key, (long long)(max / CLK_S));
    }
    return ERR_OK;
}

static bool parse_number(struct str s, long double *number, bool *share)
{
    struct expr_dim dim;

    if (s.n == 0 || expr_quantity(number, &dim, s.p, s.n) != s.n || dim.time || dim.bytes) {
        return false;
    }
    *share = dim.share;
    return true;
}

static enum err read_coverage(struct reader *r, const yaml_node_t *node, double *out)
{
    long double v;
    bool share;

    if (!parse_number(scalar_str(node), &v, &share) || !share || v < 0 || v > 1) {
        return FAIL(r, node, "coverage is a share from 0%% to 100%%");
    }
    *out = (double)v;
    return ERR_OK;
}

static enum err read_severity(struct reader *r, const yaml_node_t *node, struct str *out)
{
    static const char *const words[] = {"info", "warning", "critical"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (str_eq(scalar_str(node), str_make(words[i]))) {
            *out = str_make(words[i]);
            return ERR_OK;
        }
    }
    return FAIL(r, node, "severity is info, warning or critical");
}

static enum err read_of(struct reader *r, const yaml_node_t *node, uint8_t *out)
{
    for (uint8_t i = 0; i < RULES_OFS; i++) {
        if (str_eq(scalar_str(node), str_make(of_names[i]))) {
            *out = i;
            return ERR_OK;
        }
    }
    return FAIL(r, node, "of is process, tree, image, user, host, class or fleet");
}

static enum err read_hosts(struct reader *r, const yaml_node_t *node, struct rules_rule *rule)
{
    struct str s = scalar_str(node);
    long double v = 0;
    bool share = false;

    if (str_eq(s, str_make("any")) || str_eq(s, str_make("all"))) {
        rule->many = s.p[1] == 'n' ? RULES_ANY : RULES_ALL;
        return ERR_OK;
    }
    if (!parse_number(s, &v, &share) || v <= 0 || (share && v > 1) ||
        (!share && (v != (long double)(uint32_t)v || v > 1000000))) {
        return FAIL(r, node, "hosts is any, all, a number of hosts, or a share of them as 20%%");
    }
    rule->many = share ? RULES_SHARE : RULES_COUNT;
    rule->many_n = (uint32_t)(share ? v * 1000 + 0.5L : v);
    return ERR_OK;
}

static enum err read_at_most(struct reader *r, const yaml_node_t *node, struct rules_rule *rule)
{
    struct str s = scalar_str(node);
    char text[40], *end = text;
    unsigned long n;

    (void)snprintf(text, sizeof text, "%.*s", (int)(s.n < sizeof text ? s.n : 0), s.p);
    n = text[0] >= '1' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
    if (n == 0 || n > 1000 || *end != '/' || clk_parse_span(&rule->at_most_ns, end + 1) != ERR_OK ||
        rule->at_most_ns < 60 * CLK_S || rule->at_most_ns > 7 * 86400 * CLK_S) {
        return FAIL(r, node, "at_most is NUMBER/TIME, as 6/1h: 1 to 1000 notices in 1m to 7d");
    }
    rule->at_most = (uint32_t)n;
    return ERR_OK;
}

static enum err read_use(struct reader *r, yaml_node_t *node, struct str *out)
{
    char all[USES_MAX * (RULES_NAME_MAX + 1) + 1];
    size_t n = 0, count = 0;

    if (node->type != YAML_SEQUENCE_NODE) {
        return FAIL(r, node, "use is a list of names of targets in notify.yaml: [lab-hook]");
    }
    for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top;
         i++, count++) {
        const yaml_node_t *item = node_get(r, *i);
        struct str s = scalar_str(item);

        if (!is_name(s) || count == USES_MAX) {
            return FAIL(r, item, "use is a list of at most %u names of targets in notify.yaml",
                        USES_MAX);
        }
        if (n) {
            all[n++] = ',';
        }
        memcpy(all + n, s.p, s.n);
        n += s.n;
    }
    return keep_str(r, node, (struct str){all, n}, out);
}

/* What {…} in `say` may be. */
static bool say_word_ok(struct str w)
{
    static const char *const words[] = {"rule",  "name",  "host",  "subject",  "state",
                                        "value", "limit", "class", "coverage", "severity"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (str_eq(w, str_make(words[i]))) {
            return true;
        }
    }
    return false;
}

static enum err read_say(struct reader *r, const yaml_node_t *node, struct str *out)
{
    enum err e = read_text(r, node, "say", RULES_SAY_MAX, out);

    for (size_t i = 0; !e && i < out->n; i++) {
        const char *close;
        struct str word;

        if (out->p[i] != '{') {
            continue;
        }
        close = memchr(out->p + i, '}', out->n - i);
        word = (struct str){out->p + i + 1, close ? (size_t)(close - out->p) - i - 1 : 0};
        if (!close || !say_word_ok(word)) {
            return FAIL(r, node,
                        "{%.*s} is not {rule}, {name}, {host}, {subject}, {state}, {value}, "
                        "{limit}, {class}, {coverage} or {severity}",
                        (int)(word.n < 40 ? word.n : 40), word.p);
        }
        i += word.n + 1;
    }
    return e;
}

/* -- expressions -- */

struct compile {
    struct rules_conf *c;
    struct rules_rule *rule;
    struct expr_host_labels *labels;
    bool when;
};

static bool env_field(void *ctx, struct str name, struct expr_field *out)
{
    struct compile *x = ctx;

    if (expr_process_field(name, out)) {
        bool metric = expr_process_metric(out->slot) != NULL;

        if (x->when || metric) {
            return x->when; /* inside a function; outside of one env_check sees it */
        }
        x->rule->where_process = true;
        x->rule->where_end = x->rule->where_end || str_eq(name, str_make("exit")) ||
                             str_eq(name, str_make("ended")) || str_eq(name, str_make("life"));
        x->rule->where_unsure = x->rule->where_unsure || str_eq(name, str_make("command")) ||
                                str_eq(name, str_make("image"));
        return !str_eq(name, str_make("age"));
    }
    if (x->when && str_eq(name, str_make("coverage"))) {
        *out = (struct expr_field){EXPR_PROCESS_END - 1, EXPR_TYPE_NUMBER, EXPR_SHARE, NULL};
        return true;
    }
    if (x->when && str_eq(name, str_make("runs"))) {
        x->rule->runs = true;
        *out = (struct expr_field){RULES_SLOT_RUNS, EXPR_TYPE_NUMBER, EXPR_PLAIN, NULL};
        return true;
    }
    return expr_host_field(name, x->labels, out);
}

static bool env_set(void *ctx, struct str name, const struct str **items, size_t *n)
{
    const struct compile *x = ctx;

    for (size_t i = 0; i < x->c->n_sets; i++) {
        if (str_eq(x->c->sets[i].name, name)) {
            *items = x->c->sets[i].items;
            *n = x->c->sets[i].n;
            return true;
        }
    }
    return false;
}

static const char *env_closest(void *ctx, struct str name)
{
    (void)ctx;
    return expr_process_closest(name);
}

/* Where the value comes from, by function and field. */
static enum err call_source(struct rules_call *call, enum expr_fn fn, const struct expr_field *of,
                            struct errmsg *why)
{
    const struct metric *m = expr_process_metric(of->slot);
    const char *name = expr_fn_name(fn);

    call->dim = of->dim;
    if (fn == EXPR_COUNT || (fn >= EXPR_STARTS && fn <= EXPR_CRASHES)) {
        static const uint8_t sources[] = {RULES_PROCESSES, RULES_STARTS, RULES_ENDS, RULES_FAILED,
                                          RULES_CRASHES};

        call->source = sources[fn - EXPR_COUNT];
        call->dim = EXPR_PLAIN;
        return of->slot < EXPR_PROCESS_METRIC
                   ? ERR_OK
                   : errmsg_set(why, ERR_INVALID, "%s counts processes: %s(pid, 5m)", name, name);
    }
    if (of->slot == EXPR_PROCESS_END - 1) {
        call->source = RULES_COVERAGE;
        return fn == EXPR_AVG || fn == EXPR_MIN || fn == EXPR_LAST
                   ? ERR_OK
                   : errmsg_set(why, ERR_INVALID, "of coverage there are avg, min and last");
    }
    if (!m) {
        return errmsg_set(why, ERR_INVALID, "%s is of a metric, as %s(private_bytes, 5m)", name,
                          name);
    }
    call->metric = m->id == M_CPU_PERCENT ? M_CPU_TIME : m->id;
    if (m->kind == METRIC_COUNTER) {
        call->source = RULES_COUNTER;
        if (fn == EXPR_RATE) {
            call->dim.time--;
            call->dim.share = m->unit == UNIT_NS;
        }
        return fn == EXPR_RATE || fn == EXPR_GROWTH
                   ? ERR_OK
                   : errmsg_set(why, ERR_INVALID,
                                "%s is a counter: of it there are rate and growth", m->name);
    }
    call->source = m->id == M_CPU_PERCENT ? RULES_CPU : RULES_GAUGE;
    if (fn == EXPR_STEADY) {
        call->dim = EXPR_SHARE;
    }
    return fn != EXPR_RATE
               ? ERR_OK
               : errmsg_set(why, ERR_INVALID,
                            "%s is no counter: take growth, avg, min, max or last", m->name);
}

static enum err env_call(void *ctx, enum expr_fn fn, const struct expr_field *of, int64_t span_ns,
                         struct expr_field *out, struct errmsg *why)
{
    struct compile *x = ctx;
    struct rules_call call = {.fn = (uint8_t)fn};
    enum err e = call_source(&call, fn, of, why);
    uint8_t i = 0;

    if (e) {
        return e;
    }
    if (!span_ns && fn != EXPR_LAST && fn != EXPR_COUNT) {
        return errmsg_set(why, ERR_INVALID, "%s needs a span, as 5m", expr_fn_name(fn));
    }
    span_ns = span_ns ? span_ns : SPAN_DEFAULT;
    if (span_ns < RULES_STEP_NS || span_ns > RULES_SPAN_MAX) {
        return errmsg_set(why, ERR_INVALID, "a span is 10s to 24h");
    }
    call.span_ns = (span_ns + RULES_STEP_NS - 1) / RULES_STEP_NS * RULES_STEP_NS;
    call.part_ns = (call.span_ns / RULES_PARTS + RULES_STEP_NS - 1) / RULES_STEP_NS * RULES_STEP_NS;
    call.part_ns = call.part_ns ? call.part_ns : RULES_STEP_NS;
    call.n_parts = (uint8_t)((call.span_ns + call.part_ns - 1) / call.part_ns);
    while (i < x->rule->n_calls &&
           memcmp(&x->rule->calls[i], &call, offsetof(struct rules_call, dim)) != 0) {
        i++;
    }
    if (i == RULES_CALLS) {
        return errmsg_set(why, ERR_INVALID, "a rule has at most %u functions", RULES_CALLS);
    }
    x->rule->calls[i] = call;
    x->rule->n_calls = x->rule->n_calls > i ? x->rule->n_calls : (uint8_t)(i + 1);
    *out = (struct expr_field){RULES_SLOT_CALL + i, EXPR_TYPE_NUMBER, call.dim, NULL};
    return ERR_OK;
}

static enum err read_expr(struct reader *r, const yaml_node_t *node, struct rules_rule *rule,
                          bool when)
{
    struct expr *x = arena_alloc(&r->c->memory, sizeof *x);
    struct expr_host_labels *labels = arena_alloc(&r->c->memory, sizeof *labels);
    struct compile ctx = {r->c, rule, labels, when};
    const struct expr_env env = {.ctx = &ctx,
                                 .field = env_field,
                                 .set = env_set,
                                 .call = when ? env_call : NULL,
                                 .closest = env_closest};
    struct str text;
    size_t column = 0;
    uint32_t slot;
    enum err e;

    if (!x || !labels) {
        return fail_at(r, node, errmsg_set(r->why, ERR_NOMEM, "out of memory"));
    }
    if (node->type != YAML_SCALAR_NODE) {
        return FAIL(r, node, "%s is an expression; quote one that has ': ', ' #' or begins with [",
                    when ? "when" : "where");
    }
    e = keep_str(r, node, scalar_str(node), &text);
    e = e ? e : expr_compile(x, text, &env, &column, r->why);
    if (e) {
        bool line = node->start_mark.line == node->end_mark.line;
        bool quoted = node->data.scalar.style == YAML_SINGLE_QUOTED_SCALAR_STYLE ||
                      node->data.scalar.style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;

        e = fail_at(r, node, e);
        r->at->column += line && column ? column - 1 + quoted : 0;
        return e;
    }
    if (when && expr_field_below(x, EXPR_PROCESS_END, &slot)) {
        const struct metric *m = expr_process_metric(slot);

        return FAIL(r, node, "%s stands in a function: last(%s), avg(%s, 5m)",
                    m ? m->name : "a process's field", m ? m->name : "cpu_percent",
                    m ? m->name : "cpu_percent");
    }
    if (when) {
        rule->when = x;
        rule->when_labels = labels;
    } else {
        rule->where = x;
        rule->where_labels = labels;
    }
    return ERR_OK;
}

/* The number that the first function is compared with. */
static void find_limit(struct rules_rule *rule)
{
    long double number;
    double factor;

    (void)rules_conf_unit(rule->calls[0].dim, &factor);
    if (expr_limit(rule->when, RULES_SLOT_CALL, &number)) {
        rule->limit = (double)number * factor;
        rule->has_limit = isfinite(rule->limit);
    }
}

const char *rules_conf_unit(struct expr_dim dim, double *factor)
{
    *factor = dim.time == -1 ? 1e9 : 1;
    if (dim.share) {
        *factor = 1;
        return "share";
    }
    switch (dim.time * 4 + dim.bytes) {
    case 4:
        return "ns";
    case 1:
        return "bytes";
    case -4:
        return "/s";
    case -3:
        return "bytes/s";
    default:
        return "";
    }
}

/* -- rules -- */

static enum err read_key(struct reader *r, struct str key, yaml_node_t *key_node, yaml_node_t *node,
                         struct rules_rule *rule, bool defaults)
{
    static const char *const common[] = {"coverage", "late", "severity", "every", "at_most", "use"};
    bool is_common = false;
    enum err e;

    for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
        is_common = is_common || str_eq(key, str_make(common[i]));
    }
#define IS(name) str_eq(key, str_make(name))
    if (defaults && !is_common) {
        return FAIL(r, key_node, "defaults has coverage, late, severity, every, at_most and use");
    }
    if (IS("coverage")) {
        return read_coverage(r, node, &rule->coverage);
    }
    if (IS("late")) {
        return read_span(r, node, "late", LATE_MAX, &rule->late_ns);
    }
    if (IS("severity")) {
        return read_severity(r, node, &rule->severity);
    }
    if (IS("every")) {
        e = read_span(r, node, "every", EVERY_MAX, &rule->every_ns);
        return e || (rule->every_ns && rule->every_ns % RULES_STEP_NS == 0)
                   ? e
                   : FAIL(r, node, "every is a multiple of 10s");
    }
    if (IS("at_most")) {
        return read_at_most(r, node, rule);
    }
    if (IS("use")) {
        return read_use(r, node, &rule->use);
    }
    if (IS("name")) {
        return read_name(r, node, "name", &rule->name);
    }
    if (IS("of")) {
        return read_of(r, node, &rule->of);
    }
    if (IS("hosts")) {
        return read_hosts(r, node, rule);
    }
    if (IS("for")) {
        return read_span(r, node, "for", FOR_MAX, &rule->for_ns);
    }
    if (IS("clear")) {
        return read_span(r, node, "clear", FOR_MAX, &rule->clear_ns);
    }
    if (IS("say")) {
        return read_say(r, node, &rule->say);
    }
    if (IS("where") || IS("when")) {
        return read_expr(r, node, rule, key.n == 4);
    }
#undef IS
    return FAIL(r, key_node,
                "%.*s is no key of a rule: name, of, where, when, for, clear, hosts, every, late, "
                "coverage, severity, at_most, say, use",
                (int)(key.n < 40 ? key.n : 40), key.p);
}

/* Each key of the mapping once. */
static enum err read_keys(struct reader *r, yaml_node_t *map, struct rules_rule *rule,
                          bool defaults)
{
    enum err e = ERR_OK;

    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; !e && p < map->data.mapping.pairs.top;
         p++) {
        yaml_node_t *key = node_get(r, p->key);

        for (yaml_node_pair_t *before = map->data.mapping.pairs.start; before < p; before++) {
            if (str_eq(scalar_str(node_get(r, before->key)), scalar_str(key))) {
                return FAIL(r, key, "%.*s stands there twice", (int)scalar_str(key).n,
                            scalar_str(key).p);
            }
        }
        e = read_key(r, scalar_str(key), key, node_get(r, p->value), rule, defaults);
    }
    return e;
}

static uint64_t hash_str(struct str s, uint64_t seed)
{
    return hash_bytes(s.p, s.n, seed ^ s.n);
}

static uint64_t hash_sets(const struct expr *x, uint64_t h)
{
    for (size_t i = 0; x && i < x->n_sets; i++) {
        for (size_t k = 0; k < x->sets[i].n; k++) {
            h = hash_str(x->sets[i].items[k], h);
        }
    }
    return h;
}

/* Of all that decides which states it has, but for the times of the step that judges it. */
static void rule_hash(struct rules_rule *rule, struct str where, struct str when)
{
    const int64_t numbers[] = {rule->of, rule->many, rule->many_n};
    uint64_t h = hash_bytes(numbers, sizeof numbers, 1);

    h = hash_str(when, hash_str(where, h));
    h = hash_sets(rule->where, h);
    rule->hash = hash_sets(rule->when, h);
}

static struct str key_text(struct reader *r, yaml_node_t *map, const char *name)
{
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top;
         p++) {
        if (str_eq(scalar_str(node_get(r, p->key)), str_make(name))) {
            return scalar_str(node_get(r, p->value));
        }
    }
    return (struct str){"", 0};
}

static enum err rule_check(struct reader *r, yaml_node_t *node, struct rules_rule *rule)
{
    uint32_t slot;

    if (!rule->name.n || !rule->when) {
        return FAIL(r, node, "a rule needs name and when");
    }
    for (size_t i = 0; i < r->c->n; i++) {
        if (str_eq(r->c->rules[i].name, rule->name)) {
            return FAIL(r, node, "there are two rules %.*s, the other in line %u",
                        (int)rule->name.n, rule->name.p, r->c->rules[i].line);
        }
    }
    if (rule->of >= RULES_CLASS && rule->many != RULES_ANY) {
        return FAIL(r, node, "hosts counts hosts of rules of process, tree, image, user and host");
    }
    if (rule->runs && rule->of >= RULES_CLASS) {
        return FAIL(r, node, "runs are of a host: take of: host");
    }
    if (rule->of >= RULES_CLASS && expr_field_below(rule->when, EXPR_HOST_END, &slot)) {
        return FAIL(r, node,
                    "when has a field of a host, which a class or the fleet has not: functions and "
                    "numbers alone, or of: host with hosts: N");
    }
    if (rule->n_calls == 0) {
        return FAIL(r, node, "when needs a function over time, as last(private_bytes) > 1GiB");
    }
    return ERR_OK;
}

static enum err read_rule(struct reader *r, yaml_node_t *node)
{
    struct rules_rule *rule = &r->c->rules[r->c->n];
    enum err e;

    if (node->type != YAML_MAPPING_NODE) {
        return FAIL(r, node, "a rule is a mapping: - name: …");
    }
    *rule = r->defaults;
    rule->of = RULES_HOST;
    rule->line = (unsigned)node->start_mark.line + 1;
    e = read_keys(r, node, rule, false);
    e = e ? e : rule_check(r, node, rule);
    if (!e) {
        find_limit(rule);
        rule_hash(rule, key_text(r, node, "where"), key_text(r, node, "when"));
        r->c->n++;
    }
    return e;
}

static enum err read_rules(struct reader *r, yaml_node_t *node)
{
    size_t n = 0;
    enum err e = ERR_OK;

    if (node->type != YAML_SEQUENCE_NODE) {
        return FAIL(r, node, "rules is a list");
    }
    n = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
    if (n > RULES_MAX) {
        return FAIL(r, node, "a file has at most %u rules", RULES_MAX);
    }
    r->c->rules = arena_array(&r->c->memory, n + 1, sizeof *r->c->rules);
    if (!r->c->rules) {
        return fail_at(r, node, errmsg_set(r->why, ERR_NOMEM, "out of memory"));
    }
    for (size_t i = 0; !e && i < n; i++) {
        e = read_rule(r, node_get(r, node->data.sequence.items.start[i]));
    }
    return e;
}

static enum err read_set(struct reader *r, yaml_node_t *key, yaml_node_t *node)
{
    struct set *set = &r->c->sets[r->c->n_sets];
    struct expr_field field;
    struct compile none = {
        .when = true, .rule = &(struct rules_rule){0}, .labels = &(struct expr_host_labels){0}};
    enum err e = read_name(r, key, "the name of a set", &set->name);
    size_t n;

    if (e) {
        return e;
    }
    if (node->type != YAML_SEQUENCE_NODE || r->c->n_sets == SETS_MAX) {
        return FAIL(r, node, "sets are at most %u lists of texts", SETS_MAX);
    }
    if (env_field(&none, set->name, &field)) {
        return FAIL(r, key, "%.*s is a field: give the set another name", (int)set->name.n,
                    set->name.p);
    }
    n = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
    set->items = n <= ITEMS_MAX ? arena_array(&r->c->memory, n + 1, sizeof *set->items) : NULL;
    if (!set->items) {
        return FAIL(r, node, "a set has at most %u texts", ITEMS_MAX);
    }
    for (set->n = 0; !e && set->n < n; set->n++) {
        e = read_text(r, node_get(r, node->data.sequence.items.start[set->n]), "an item of a set",
                      MODEL_TEXT_MAX, &set->items[set->n]);
    }
    r->c->n_sets++;
    return e;
}

static enum err read_sets(struct reader *r, yaml_node_t *node)
{
    enum err e = ERR_OK;

    if (node->type != YAML_MAPPING_NODE) {
        return FAIL(r, node, "sets is a mapping: sets: {name: [text, text]}");
    }
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start;
         !e && p < node->data.mapping.pairs.top; p++) {
        e = read_set(r, node_get(r, p->key), node_get(r, p->value));
    }
    return e;
}

/* -- the file -- */

static yaml_node_t *top_get(struct reader *r, yaml_node_t *root, const char *name)
{
    for (yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top;
         p++) {
        if (str_eq(scalar_str(node_get(r, p->key)), str_make(name))) {
            return node_get(r, p->value);
        }
    }
    return NULL;
}

static enum err read_top(struct reader *r, yaml_node_t *root)
{
    yaml_node_t *defaults, *sets, *rules;
    enum err e = ERR_OK;

    if (root->type != YAML_MAPPING_NODE) {
        return FAIL(r, root, "a file of rules has defaults, sets and rules");
    }
    for (yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top;
         p++) {
        struct str key = scalar_str(node_get(r, p->key));

        if (!str_eq(key, str_make("defaults")) && !str_eq(key, str_make("sets")) &&
            !str_eq(key, str_make("rules"))) {
            return FAIL(r, node_get(r, p->key), "a file of rules has defaults, sets and rules");
        }
    }
    defaults = top_get(r, root, "defaults");
    sets = top_get(r, root, "sets");
    rules = top_get(r, root, "rules");
    if (defaults && defaults->type != YAML_MAPPING_NODE) {
        return FAIL(r, defaults, "defaults is a mapping: {coverage: 99%%, late: 30s}");
    }
    e = defaults ? read_keys(r, defaults, &r->defaults, true) : ERR_OK;
    e = e || !sets ? e : read_sets(r, sets);
    return e || !rules ? e : read_rules(r, rules);
}

static enum err read_document(struct reader *r, yaml_parser_t *parser)
{
    yaml_node_t *root;
    enum err e;

    if (!yaml_parser_load(parser, &r->doc)) {
        r->at->line = parser->problem_mark.line + 1;
        r->at->column = parser->problem_mark.column + 1;
        return errmsg_set(r->why, parser->error == YAML_MEMORY_ERROR ? ERR_NOMEM : ERR_INVALID,
                          "%s", parser->problem ? parser->problem : "not YAML");
    }
    root = yaml_document_get_root_node(&r->doc);
    e = root ? read_top(r, root) : ERR_OK; /* an empty file has no rules */
    yaml_document_delete(&r->doc);
    return e;
}

enum err rules_conf_read(struct rules_conf **out, const char *text, size_t n,
                         struct rules_where *at, struct errmsg *why)
{
    struct rules_conf *c = mem_zalloc(sizeof *c);
    struct reader r = {.c = c,
                       .at = at,
                       .why = why,
                       .defaults = {.severity = {"warning", 7},
                                    .coverage = 0.99,
                                    .late_ns = 30 * CLK_S,
                                    .every_ns = RULES_STEP_NS}};
    yaml_parser_t parser;
    enum err e;

    *at = (struct rules_where){0};
    if (!c) {
        return ERR_NOMEM;
    }
    arena_init(&c->memory, MEMORY_MAX);
    if (n > RULES_FILE_MAX) {
        e = errmsg_set(why, ERR_RANGE, "a file of rules has at most 256 KiB");
    } else if (utf8_whole(text, n) != n || memchr(text, 0, n)) {
        e = errmsg_set(why, ERR_INVALID, "the file is not UTF-8");
    } else if (!yaml_parser_initialize(&parser)) {
        e = ERR_NOMEM;
    } else {
        yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
        e = read_document(&r, &parser);
        yaml_parser_delete(&parser);
    }
    if (e) {
        rules_conf_free(c);
        return e;
    }
    *out = c;
    return ERR_OK;
}

void rules_conf_free(struct rules_conf *c)
{
    if (c) {
        arena_fini(&c->memory);
        mem_free(c);
    }
}

size_t rules_conf_n(const struct rules_conf *c)
{
    return c->n;
}

const struct rules_rule *rules_conf_rule(const struct rules_conf *c, size_t i)
{
    return &c->rules[i];
}

int64_t rules_conf_span(const struct rules_conf *c)
{
    int64_t most = RULES_STEP_NS;

    for (size_t i = 0; i < c->n; i++) {
        for (size_t k = 0; k < c->rules[i].n_calls; k++) {
            const struct rules_call *call = &c->rules[i].calls[k];

            most = call->n_parts * call->part_ns > most ? call->n_parts * call->part_ns : most;
        }
    }
    return most;
}

int64_t rules_conf_wait(const struct rules_conf *c)
{
    int64_t most = 0;

    for (size_t i = 0; i < c->n; i++) {
        const struct rules_rule *x = &c->rules[i];
        int64_t longer = x->for_ns > x->clear_ns ? x->for_ns : x->clear_ns;

        most = longer + x->late_ns > most ? longer + x->late_ns : most;
    }
    return most;
}
