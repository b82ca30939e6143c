#include "collector/rules/rules_judge.h"

#include <assert.h>
#include <string.h>

#include "collector/rules/rules_cross.h"
#include "collector/rules/rules_match.h"
#include "collector/rules/rules_slice.h"
#include "collector/rules/rules_state.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/model/ledger.h"

#define SCRATCH_MAX ((size_t)32 << 20)
#define FACTS_NS    (60 * CLK_S)
#define SWEEP_NS    (60 * CLK_S)
#define AHEAD_NS    (30 * CLK_S)   /* stamps farther ahead of their arrival are of a wrong clock */
#define OLD_NS      (3600 * CLK_S) /* a new host is judged from no earlier before its first batch */
#define GAP_TIMES   5              /* halves: one that comes after 2.5 is late */

/* -- making -- */

static size_t metric_of(struct rules_judge *j, const struct rules_call *call, bool total)
{
    size_t i = 0;

    if (call->source > RULES_CPU) {
        return RULES_METRICS_MAX;
    }
    while (i < j->n_metrics && j->metrics[i].id != call->metric) {
        i++;
    }
    if (i == RULES_METRICS_MAX) {
        return i;
    }
    if (i == j->n_metrics) {
        bool counter = call->source != RULES_GAUGE;

        j->metrics[j->n_metrics++] = (struct rules_metric){
            .id = call->metric, .counter = counter, .place = (uint8_t)j->n_counters};
        j->n_counters += counter;
    }
    j->metrics[i].total = j->metrics[i].total || total;
    return i;
}

static uint16_t span_of(struct rules_judge *j, const struct rules_call *call)
{
    uint16_t i = 0;

    while (i < j->n_spans && j->spans[i].span_ns != call->span_ns) {
        i++;
    }
    if (i == j->n_spans) {
        j->spans[i].span_ns = call->span_ns;
        j->spans[i].part_ns = call->part_ns;
        j->spans[i].n_parts = call->n_parts;
        j->n_spans++;
    }
    return i;
}

/* Two functions of the same over the same span see one window. */
static void window_choose(struct rules_judge *j, uint32_t r, uint8_t c)
{
    const struct rules_rule *rule = rules_types_rule(j, r);
    uint8_t i = 0;

    if (rule->calls[c].source == RULES_COVERAGE) {
        j->call_window[r][c] = RULES_NO_WINDOW;
        return;
    }
    while (rule->calls[i].source != rule->calls[c].source ||
           rule->calls[i].metric != rule->calls[c].metric ||
           rule->calls[i].span_ns != rule->calls[c].span_ns) {
        i++;
    }
    j->call_first[r][c] = i == c;
    j->call_window[r][c] = i == c ? j->n_windows[r]++ : j->call_window[r][i];
}

static void rule_prepare(struct rules_judge *j, uint32_t r)
{
    const struct rules_rule *rule = rules_types_rule(j, r);
    int64_t longest[2] = {0, 0}; /* of coverage, of data */

    j->any_cross = j->any_cross || rules_types_cross(rule);
    j->any_tree = j->any_tree || rule->of == RULES_TREE;
    j->late_ns = rule->late_ns > j->late_ns ? rule->late_ns : j->late_ns;
    j->rule_samples[r] = j->conf.all_refs;
    for (uint8_t c = 0; c < rule->n_calls; c++) {
        const struct rules_call *call = &rule->calls[c];
        bool data = call->source != RULES_COVERAGE;
        bool samples = call->source <= RULES_CPU || call->source == RULES_PROCESSES;

        window_choose(j, r, c);
        j->rule_samples[r] = j->rule_samples[r] || samples;
        j->rule_there[r] = j->rule_there[r] || (samples && call->source != RULES_COUNTER);

        j->call_metric[r][c] = (uint8_t)metric_of(j, call, rules_types_total(rule));
        j->call_span[r][c] = span_of(j, call);
        if (call->span_ns > longest[data]) {
            longest[data] = call->span_ns;
            if (data || !longest[1]) {
                j->rule_span[r] = j->call_span[r][c];
            }
        }
        j->rule_data[r] = j->rule_data[r] || data;
    }
}

enum err rules_judge_create(struct rules_judge **out, const struct rules_judge_conf *conf)
{
    struct rules_judge *j = mem_zalloc(sizeof *j);
    size_t n = rules_conf_n(conf->rules);

    if (!j) {
        return ERR_NOMEM;
    }
    j->conf = *conf;
    j->conf.memory_max = conf->memory_max ? conf->memory_max : RULES_MEMORY_MAX;
    j->n_rules = n;
    j->free_sub = RULES_NONE;
    arena_init(&j->scratch, SCRATCH_MAX);
    j->spans = mem_array(n * RULES_CALLS + 1, sizeof *j->spans);
    j->call_span = mem_array(n + 1, sizeof *j->call_span);
    j->call_metric = mem_array(n + 1, sizeof *j->call_metric);
    j->rule_span = mem_array(n + 1, sizeof *j->rule_span);
    j->rule_data = mem_array(n + 1, sizeof *j->rule_data);
    j->cross_heads = mem_array(n + 1, sizeof *j->cross_heads);
    j->call_window = mem_array(n + 1, sizeof *j->call_window);
    j->call_first = mem_array(n + 1, sizeof *j->call_first);
    j->n_windows = mem_array(n + 1, sizeof *j->n_windows);
    j->rule_samples = mem_array(n + 1, sizeof *j->rule_samples);
    j->rule_there = mem_array(n + 1, sizeof *j->rule_there);
    if (!j->spans || !j->call_span || !j->call_metric || !j->rule_span || !j->rule_data ||
        !j->cross_heads || !j->call_window || !j->call_first || !j->n_windows || !j->rule_samples ||
        !j->rule_there) {
        rules_judge_destroy(j);
        return ERR_NOMEM;
    }
    for (uint32_t r = 0; r < n; r++) {
        j->cross_heads[r] = RULES_NONE;
        rule_prepare(j, r);
    }
    *out = j;
    return ERR_OK;
}

void rules_judge_destroy(struct rules_judge *j)
{
    if (!j) {
        return;
    }
    for (size_t i = 0; i < j->n_subs; i++) {
        mem_free(j->subs[i].key);
        mem_free(j->subs[i].class_text);
        mem_free(j->subs[i].windows);
    }
    for (size_t i = 0; i < j->n_hosts; i++) {
        rules_match_host_free(j, j->hosts[i]);
    }
    for (size_t i = 0; i < j->n_open; i++) {
        rules_cross_free(j->open[i]);
    }
    mem_free(j->subs);
    mem_free(j->hosts);
    mem_free(j->open);
    mem_free(j->spans);
    mem_free(j->call_span);
    mem_free(j->call_metric);
    mem_free(j->rule_span);
    mem_free(j->rule_data);
    mem_free(j->cross_heads);
    mem_free(j->call_window);
    mem_free(j->call_first);
    mem_free(j->n_windows);
    mem_free(j->rule_samples);
    mem_free(j->rule_there);
    mem_free(j->acc);
    mem_free(j->touched);
    map_fini(&j->by_host);
    map_fini(&j->cross);
    arena_fini(&j->scratch);
    mem_free(j);
}

/* -- a verdict -- */

struct verdict {
    struct rules_judge *j;
    struct rules_host *h;
    const struct rules_rule *rule;
    uint32_t r, sub;
    int64_t step_ns;
    double coverage;
    uint8_t reason; /* of the host: every subject is unknown */
    bool has[RULES_CALLS];
    long double values[RULES_CALLS];
};

static void verdict_value(void *ctx, uint32_t slot, struct expr_value *out)
{
    struct verdict *v = ctx;
    const struct rules_env *env = &v->j->conf.env;

    *out = (struct expr_value){0};
    if (slot >= RULES_SLOT_CALL && slot - RULES_SLOT_CALL < v->rule->n_calls) {
        if (v->has[slot - RULES_SLOT_CALL]) {
            *out = expr_number(v->values[slot - RULES_SLOT_CALL]);
        }
    } else if (slot == RULES_SLOT_RUNS) {
        if (env->runs) {
            *out = expr_number(env->runs(env->ctx, &v->h->id, v->step_ns));
        }
    } else {
        expr_host_value(slot, v->rule->when_labels, str_make(v->h->name), v->h->facts, out);
    }
}

/* Values of all functions. False: the subject had no samples in any window. */
static bool verdict_values(struct verdict *v)
{
    struct rules_sub *s = &v->j->subs[v->sub];
    bool any = false;
    double factor;

    for (uint32_t c = 0; c < v->rule->n_calls; c++) {
        const struct rules_call *call = &v->rule->calls[c];
        uint8_t at = v->j->call_window[v->r][c];
        const struct rules_window *w = at == RULES_NO_WINDOW ? NULL : &s->windows[at];
        const struct rules_time *time = &v->h->times[v->j->call_span[v->r][c]];

        v->has[c] = rules_window_value(w, call, time, v->step_ns, &v->values[c]);
        any = any || (v->has[c] && (v->values[c] != 0 || call->source == RULES_COVERAGE ||
                                    !rules_window_empty(w, call, v->step_ns)));
    }
    (void)rules_conf_unit(v->rule->calls[0].dim, &factor);
    s->has_value = v->has[0];
    s->value = v->has[0] ? (double)v->values[0] * factor : 0;
    s->coverage = v->coverage;
    return any;
}

/* A subject that is not the host itself and has no samples is not there. */
static enum expr_truth verdict_truth(struct verdict *v, uint8_t *reason)
{
    bool any = verdict_values(v);

    *reason = v->reason;
    if (v->reason) {
        v->j->subs[v->sub].has_value = v->j->subs[v->sub].has_value && any;
        return EXPR_UNKNOWN;
    }
    if (!any && !v->j->subs[v->sub].of_host) {
        v->j->subs[v->sub].has_value = false;
        return EXPR_FALSE;
    }
    *reason = RULES_ABSENT;
    return expr_run(v->rule->when, verdict_value, v);
}

static void verdict_vote(struct verdict *v, enum expr_truth truth)
{
    const struct rules_sub *s = &v->j->subs[v->sub];
    const struct rules_vote vote = {.rule = v->r,
                                    .key = s->key,
                                    .start = s->start,
                                    .truth = (uint8_t)truth,
                                    .coverage = v->coverage};

    if (v->rule->of < RULES_CLASS && !v->reason && truth != EXPR_FALSE) {
        rules_cross_vote(v->j, v->h, v->step_ns, &vote);
    }
}

/* That the host counts, and what it has of a rule over all. */
static void verdict_vote_host(struct verdict *v)
{
    struct rules_vote vote = {.rule = v->r,
                              .truth = v->reason || rules_match_too_many(v->h, v->r, v->step_ns)
                                           ? EXPR_UNKNOWN
                                           : EXPR_FALSE,
                              .filling = v->reason == RULES_FILLING,
                              .coverage = v->coverage};

    if (v->rule->of >= RULES_CLASS && !v->reason && v->h->heads[v->r] != RULES_NONE) {
        bool all = true;

        v->sub = v->h->heads[v->r];
        (void)verdict_values(v);
        for (uint32_t c = 0; c < v->rule->n_calls; c++) {
            all = all && v->has[c];
        }
        vote.values = all ? v->values : NULL;
    }
    rules_cross_vote(v->j, v->h, v->step_ns, &vote);
}

static bool sub_is_gone(const struct rules_sub *s)
{
    return !s->of_host && s->refs == 0 && s->state == NOTICE_OK && !s->true_ns &&
           s->truth == EXPR_FALSE && !s->has_value;
}

static void verdict_subject(struct verdict *v)
{
    struct rules_judge *j = v->j;
    uint8_t reason;
    enum expr_truth truth = verdict_truth(v, &reason);

    if (rules_types_cross(v->rule)) {
        verdict_vote(v, truth);
        j->subs[v->sub].truth = (uint8_t)truth;
    } else {
        rules_state_step(j, v->sub, v->step_ns, truth, reason);
    }
    if (sub_is_gone(&j->subs[v->sub])) {
        rules_match_sub_free(j, v->sub);
    }
}

static void rule_judge(struct rules_judge *j, struct rules_host *h, uint32_t r, int64_t step_ns)
{
    const struct rules_rule *rule = rules_types_rule(j, r);
    const struct rules_time *time = &h->times[j->rule_span[r]];
    struct verdict v = {.j = j, .h = h, .rule = rule, .r = r, .step_ns = step_ns};
    uint32_t next;

    v.coverage = rules_window_share(time, step_ns);
    if (rules_window_begin(time, step_ns) < h->first_ns) {
        v.reason = RULES_FILLING;
    } else if (j->rule_data[r] && v.coverage < rule->coverage) {
        v.reason = RULES_COVERED;
    }
    if (rules_types_cross(rule)) {
        verdict_vote_host(&v);
    }
    if (rule->of >= RULES_CLASS) {
        return;
    }
    for (v.sub = h->heads[r]; v.sub != RULES_NONE; v.sub = next) {
        next = j->subs[v.sub].next;
        verdict_subject(&v);
    }
}

/* A rule that is not about the host any more, as its labels are others: its alerts end. */
static void rule_leave(struct rules_judge *j, struct rules_host *h, uint32_t r, int64_t step_ns)
{
    uint32_t next;

    for (uint32_t at = h->heads[r]; at != RULES_NONE; at = next) {
        next = j->subs[at].next;
        rules_state_end(j, at, step_ns);
        j->subs[at].has_value = j->subs[at].of_host = false;
        if (sub_is_gone(&j->subs[at])) {
            rules_match_sub_free(j, at);
        }
    }
}

static void host_judge(struct rules_judge *j, struct rules_host *h, int64_t step_ns)
{
    j->counts.steps++;
    if (j->any_cross) {
        rules_cross_open(j, step_ns); /* also where no host is of a rule any more */
    }
    for (uint32_t r = 0; r < j->n_rules; r++) {
        if (step_ns < rules_types_since(j, r)) {
            continue;
        }
        if (!h->applies[r] && h->heads[r] != RULES_NONE) {
            rule_leave(j, h, r, step_ns);
        }
        if (h->applies[r] && step_ns % rules_types_rule(j, r)->every_ns == 0) {
            rule_judge(j, h, r, step_ns);
        }
    }
}

/* -- steps of a host -- */

static int64_t floor_step(int64_t ns)
{
    return ns - (ns % RULES_STEP_NS + RULES_STEP_NS) % RULES_STEP_NS;
}

static int64_t deadline_of(const struct rules_judge *j, int64_t step_ns)
{
    const struct rules_env *env = &j->conf.env;

    return env->deadline ? env->deadline(env->ctx, step_ns, j->late_ns)
                         : clk_add(step_ns, j->late_ns);
}

/* Events that count up to this step. */
static void pending_take(struct rules_judge *j, struct rules_host *h, int64_t step_ns)
{
    size_t n = 0;

    for (size_t i = 0; i < h->n_pending; i++) {
        struct rules_pending *p = &h->pending[i];
        struct rules_sub *s = &j->subs[p->sub];
        struct rules_part *part;

        if (p->tag || p->step_ns > step_ns) {
            h->pending[n++] = *p;
            continue;
        }
        part = rules_window_part(&s->windows[j->call_window[s->rule][p->call]],
                                 &rules_types_rule(j, s->rule)->calls[p->call], p->step_ns);
        if (part) {
            part->sum++;
        }
        s->refs--;
    }
    h->n_pending = n;
}

/* Those that came with this rest: what is of a step that has been judged counts for the next, or
 * for nothing when it is late. */
static void pending_arrive(struct rules_judge *j, struct rules_host *h, uint32_t tag,
                           int64_t received_ns)
{
    size_t n = 0;

    for (size_t i = 0; i < h->n_pending; i++) {
        struct rules_pending *p = &h->pending[i];

        if (p->tag == tag) {
            p->tag = 0;
            if (received_ns && deadline_of(j, p->step_ns) < received_ns) {
                j->subs[p->sub].refs--;
                j->counts.late_ticks++;
                continue;
            }
            p->step_ns = p->step_ns > h->step_ns ? p->step_ns : h->step_ns + RULES_STEP_NS;
        }
        h->pending[n++] = *p;
    }
    h->n_pending = n;
}

/* How much of (from, to] lies in the step. */
static int64_t overlap(int64_t from_ns, int64_t to_ns, int64_t step_ns)
{
    int64_t begin = step_ns - RULES_STEP_NS;

    begin = from_ns > begin ? from_ns : begin;
    to_ns = to_ns < step_ns ? to_ns : step_ns;
    return to_ns > begin ? to_ns - begin : 0;
}

/* Ends the open step; in (gap_from, gap_to] nothing came. */
static void step_end(struct rules_judge *j, struct rules_host *h, int64_t gap_from, int64_t gap_to)
{
    int64_t step_ns = h->step_ns + RULES_STEP_NS;
    int64_t missing = h->open_missing_ns + overlap(gap_from, gap_to, step_ns);

    missing = missing < RULES_STEP_NS ? missing : RULES_STEP_NS;
    for (size_t i = 0; i < j->n_spans; i++) {
        struct rules_time_part *p = rules_window_time(&h->times[i], step_ns);

        if (p) {
            p->ticks += h->open_ticks;
            p->missing_ns += missing;
        }
    }
    pending_take(j, h, step_ns);
    if (step_ns - h->facts_ns >= FACTS_NS) {
        rules_match_facts(j, h->index, step_ns);
    }
    host_judge(j, h, step_ns);
    h->step_ns = step_ns;
    h->open_ticks = h->open_missing_ns = 0;
    h->sweep = h->sweep || step_ns % SWEEP_NS == 0;
}

static bool gap_is(const struct rules_host *h, int64_t to_ns)
{
    return h->expected_ns && to_ns - h->tick_ns > h->expected_ns * GAP_TIMES / 2;
}

/* Nothing more comes that arrived before now_ns. */
static void host_until(struct rules_judge *j, struct rules_host *h, int64_t now_ns)
{
    while (h->step_ns && deadline_of(j, h->step_ns + RULES_STEP_NS) < now_ns) {
        bool gap = !h->expected_ns || gap_is(h, h->step_ns + RULES_STEP_NS);

        step_end(j, h, gap ? h->tick_ns : INT64_MAX, INT64_MAX);
    }
}

/* -- ticks -- */

/* By how many whole steps the host's clock is off. A batch of the future is taken as of now. */
static int64_t shift_of(const struct rules_input *in, int64_t last_ns)
{
    int64_t off = in->clock && in->clock->known ? in->clock->offset_ns : 0;
    int64_t shift = floor_step(clk_add(off, RULES_STEP_NS / 2));
    int64_t ahead = clk_sub(clk_add(last_ns, shift), in->received_ns);

    if (in->received_ns && ahead > AHEAD_NS) {
        shift = clk_sub(shift, floor_step(ahead) + RULES_STEP_NS);
    }
    return shift;
}

static void host_begin(struct rules_judge *j, struct rules_host *h, int64_t tick_ns,
                       int64_t received_ns)
{
    int64_t old_ns = floor_step(clk_sub(received_ns, OLD_NS));

    h->step_ns = floor_step(tick_ns - 1);
    h->step_ns = received_ns && old_ns > h->step_ns ? old_ns : h->step_ns;
    h->step_ns = h->step_ns > 0 ? h->step_ns : RULES_STEP_NS;
    while (received_ns && deadline_of(j, h->step_ns + RULES_STEP_NS) < received_ns) {
        h->step_ns += RULES_STEP_NS;
    }
    h->first_ns = h->step_ns;
    h->facts_ns = h->facts_ns ? h->facts_ns : h->step_ns;
}

struct ticks {
    const struct batch *b; /* whose stamps count */
    size_t at, n;
    int64_t shift_ns;
    double lost; /* share of it that was lost on the way */
    struct rules_runs runs;
    bool rows;
};

static int64_t tick_ns_at(const struct ticks *t, size_t i)
{
    return clk_add(t->b->wall_ns[t->at + i], t->shift_ns);
}

/* Counts a tick of the open step, and what is missing before it in that step. Returns the time
 * before it that it speaks of: behind a gap the usual one. *real_ns: all of it. */
static int64_t tick_count(struct rules_host *h, const struct ticks *t, size_t i, int64_t *real_ns)
{
    int64_t now_ns = tick_ns_at(t, i), dt_ns = h->tick_ns ? now_ns - h->tick_ns : 0;
    int64_t mono_ns = t->b->mono_ns[t->at + i], step_ns = h->step_ns + RULES_STEP_NS, own_ns;

    *real_ns = h->mono_ns && mono_ns > h->mono_ns ? mono_ns - h->mono_ns : dt_ns;
    own_ns = *real_ns;
    if (h->expected_ns == 0) {
        h->expected_ns = dt_ns;
    } else if (gap_is(h, now_ns)) {
        bool slower = h->gap_ns && dt_ns <= h->gap_ns * GAP_TIMES / 2;

        h->open_missing_ns += slower ? 0 : overlap(h->tick_ns, now_ns - h->expected_ns, step_ns);
        own_ns = !slower && own_ns > h->expected_ns ? h->expected_ns : own_ns;
        h->expected_ns = slower ? dt_ns : h->expected_ns;
        h->gap_ns = dt_ns;
    } else {
        h->expected_ns =
            dt_ns > h->expected_ns ? dt_ns : h->expected_ns - (h->expected_ns - dt_ns) / 8;
        h->gap_ns = 0;
    }
    h->open_missing_ns +=
        (int64_t)(t->lost * (double)(dt_ns < h->expected_ns ? dt_ns : h->expected_ns));
    h->mono_ns = mono_ns;
    h->tick_ns = now_ns;
    h->open_ticks++;
    return own_ns;
}

/* Ticks [i, …) of the step that is open; returns the first that is not. */
static size_t ticks_slice(struct rules_judge *j, struct rules_host *h, const struct ticks *t,
                          size_t i, enum err *e)
{
    int64_t dt_ns[RULES_SLICE_TICKS], real_ns[RULES_SLICE_TICKS];
    int64_t step_ns = h->step_ns + RULES_STEP_NS;
    size_t n = 0;

    while (i + n < t->n && n < RULES_SLICE_TICKS && tick_ns_at(t, i + n) <= step_ns) {
        dt_ns[n] = tick_count(h, t, i + n, &real_ns[n]);
        n++;
    }
    if (t->rows && !*e) {
        *e = rules_slice_take(j, h, &t->runs, t->at + i, n, dt_ns, real_ns, step_ns);
    }
    return i + n;
}

static enum err ticks_take(struct rules_judge *j, struct rules_host *h, const struct ticks *t)
{
    enum err e = ERR_OK;
    size_t i = 0;

    while (i < t->n) {
        int64_t now_ns = tick_ns_at(t, i);
        bool slower = h->gap_ns && now_ns - h->tick_ns <= h->gap_ns * GAP_TIMES / 2;
        bool gap = !h->tick_ns || (gap_is(h, now_ns) && !slower);

        if (now_ns <= h->step_ns || now_ns <= h->tick_ns) {
            j->counts.late_ticks++;
            i++;
            continue;
        }
        while (h->step_ns + RULES_STEP_NS < now_ns) {
            step_end(j, h, gap ? h->tick_ns : INT64_MAX, now_ns - h->expected_ns);
        }
        i = ticks_slice(j, h, t, i, &e);
    }
    return e;
}

/* -- batches -- */

/* The share of what the batch is about that never came. */
static double lost_of(const struct batch *b)
{
    uint64_t lost[LEDGER_TIMES + 1] = {0}, in = 0;
    const struct ledger_kind *kind = NULL;
    double share, most = 0;

    for (size_t i = 0; i < b->n_ledger; i++) {
        kind = ledger_kind_after(kind, &b->ledger[i]);
        if (kind->loss && kind->unit <= LEDGER_TIMES) {
            lost[kind->unit] = ledger_add(lost[kind->unit], b->ledger[i].count);
        } else if (kind->role == LEDGER_IN && kind->unit == LEDGER_EVENTS) {
            in = in > b->ledger[i].count ? in : b->ledger[i].count;
        }
    }
    share = lost[LEDGER_EVENTS]
                ? (double)lost[LEDGER_EVENTS] / ((double)lost[LEDGER_EVENTS] + (double)in)
                : 0;
    most = share > most ? share : most;
    share = lost[LEDGER_TICKS]
                ? (double)lost[LEDGER_TICKS] / (double)(lost[LEDGER_TICKS] + b->n_ticks)
                : 0;
    most = share > most ? share : most;
    share = lost[LEDGER_ROWS]
                ? (double)lost[LEDGER_ROWS] /
                      ((double)lost[LEDGER_ROWS] + (double)b->n_runs * (double)b->n_ticks + 1)
                : 0;
    return share > most ? share : most;
}

static enum err events_take(struct rules_judge *j, struct rules_host *h,
                            const struct rules_input *in, int64_t shift_ns, uint32_t tag)
{
    enum err e = ERR_OK;

    for (size_t i = 0; !e && i < in->rest->n_events; i++) {
        const struct life_event *ev = &in->rest->events[i];
        int64_t ns = clk_add(ev->wall_ns, shift_ns);

        e = rules_match_event(j, h->index, &in->rest->head.boot, ev,
                              floor_step(ns - 1) + RULES_STEP_NS, tag);
    }
    return e;
}

static int64_t last_stamp(const struct batch *b)
{
    return b->n_ticks    ? b->wall_ns[b->n_ticks - 1]
           : b->n_events ? b->events[b->n_events - 1].wall_ns
                         : 0;
}

enum err rules_judge_rest(struct rules_judge *j, const struct rules_input *in, uint32_t tag,
                          struct rules_rest *out)
{
    const struct batch *b = in->rest;
    struct rules_host *h;
    enum err e;

    *out = (struct rules_rest){0};
    if (b->head.flags & BATCH_REPLAY) {
        return ERR_OK;
    }
    h = rules_match_host(j, in->host, in->id);
    if (!h) {
        return ERR_NOMEM;
    }
    out->shift_ns = shift_of(in, last_stamp(b));
    out->lost = lost_of(b);
    e = rules_match_infos(j, h->index, b, clk_add(last_stamp(b), out->shift_ns));
    return e ? e : events_take(j, h, in, out->shift_ns, tag);
}

enum err rules_judge_rows(struct rules_judge *j, const struct rules_input *in, uint32_t tag,
                          const struct rules_rest *rest)
{
    const struct batch *b = in->rows ? in->rows : in->rest;
    struct ticks t = {.b = b,
                      .at = in->tick,
                      .n = in->n_ticks,
                      .shift_ns = rest->shift_ns,
                      .lost = rest->lost,
                      .rows = in->rows != NULL};
    struct rules_host *h;
    enum err e = ERR_OK;

    if (b->head.flags & BATCH_REPLAY) {
        return ERR_OK;
    }
    assert(in->tick + in->n_ticks <= b->n_ticks);
    h = rules_match_host(j, in->host, in->id);
    if (!h) {
        return ERR_NOMEM;
    }
    if (!h->step_ns && t.n) {
        host_begin(j, h, tick_ns_at(&t, 0), in->received_ns);
    }
    if (in->received_ns) {
        host_until(j, h, in->received_ns);
    }
    pending_arrive(j, h, tag, in->received_ns);
    if (h->has_boot && memcmp(h->boot.b, b->head.boot.b, sizeof h->boot.b) != 0) {
        h->mono_ns = 0;
    }
    h->boot = b->head.boot;
    h->has_boot = true;
    arena_reset(&j->scratch);
    if (t.rows && t.n) {
        e = rules_slice_runs(j, h, b, t.at, t.n, &t.runs);
        t.rows = !e;
    }
    if (h->step_ns) {
        enum err taken = ticks_take(j, h, &t);

        e = e ? e : taken;
    }
    if (h->sweep) {
        rules_match_sweep(j, h);
        h->sweep = false;
    }
    return e;
}

enum err rules_judge_feed(struct rules_judge *j, const struct rules_input *in)
{
    struct rules_rest rest;
    enum err e = rules_judge_rest(j, in, 1, &rest), rows = rules_judge_rows(j, in, 1, &rest);

    rules_judge_close(j);
    return e ? e : rows;
}

void rules_judge_close(struct rules_judge *j)
{
    if (j->n_open) {
        rules_cross_close(j, rules_judge_step(j));
    }
}

void rules_judge_time(struct rules_judge *j, int64_t now_ns)
{
    for (size_t i = 0; i < j->n_hosts; i++) {
        host_until(j, j->hosts[i], now_ns);
        if (j->hosts[i]->sweep) {
            rules_match_sweep(j, j->hosts[i]);
            j->hosts[i]->sweep = false;
        }
    }
    rules_judge_close(j);
}

/* -- states from before, lists, counts -- */

enum err rules_judge_begin(struct rules_judge *j, const char *name, const struct uuid *id,
                           int64_t step_ns, int64_t first_ns)
{
    struct rules_host *h = rules_match_host(j, name, id);

    if (h && !h->step_ns && step_ns > RULES_STEP_NS) {
        h->step_ns = floor_step(step_ns);
        h->first_ns = floor_step(first_ns);
        h->facts_ns = h->step_ns;
    }
    return h ? ERR_OK : ERR_NOMEM;
}

void rules_judge_forget(struct rules_judge *j, const struct uuid *id, int64_t now_ns)
{
    struct rules_host *h = rules_match_host_find(j, id);
    int64_t step_ns = h && h->step_ns ? h->step_ns : floor_step(now_ns);

    if (!h) {
        return;
    }
    for (size_t i = 0; i < h->n_pending; i++) {
        j->subs[h->pending[i].sub].refs--;
    }
    h->n_pending = 0;
    for (uint32_t r = 0; r < j->n_rules; r++) {
        for (uint32_t at = h->heads[r]; at != RULES_NONE; at = j->subs[at].next) {
            rules_state_end(j, at, step_ns);
        }
    }
    h->step_ns = h->tick_ns = h->mono_ns = h->expected_ns = 0;
    if (rules_judge_step(j) == INT64_MAX) {
        rules_cross_end(j, step_ns); /* nothing judges them any more */
    }
}

enum err rules_judge_restore(struct rules_judge *j, const struct rules_subject *s, struct str name)
{
    bool one = strcmp(s->host, NOTICE_NO_HOST) != 0;
    struct rules_host *h = one ? rules_match_host(j, s->host, s->id) : NULL;
    uint32_t r = 0, at;
    struct rules_sub *sub;

    while (r < j->n_rules && !str_eq(rules_types_rule(j, r)->name, name)) {
        r++;
    }
    if (r == j->n_rules || rules_types_cross(rules_types_rule(j, r)) == one) {
        return ERR_NOTFOUND;
    }
    if (one && !h) {
        return ERR_NOMEM;
    }
    at = rules_match_sub(j, r, one ? h->index : RULES_NONE, str_make(s->key), s->start,
                         one ? NULL : s->class_text);
    if (at == RULES_NONE) {
        return ERR_FULL;
    }
    sub = &j->subs[at];
    sub->state = s->state;
    sub->under = s->state == NOTICE_UNKNOWN ? s->before : s->state;
    sub->before = s->before;
    sub->since_ns = s->since_ns;
    sub->changed_ns = s->changed_ns;
    sub->true_ns = sub->under == NOTICE_FIRING ? s->since_ns : 0;
    sub->unknown_ns = s->state == NOTICE_UNKNOWN ? s->since_ns : 0;
    return ERR_OK;
}

void rules_judge_each(struct rules_judge *j, bool (*each)(void *ctx, const struct rules_subject *s),
                      void *ctx)
{
    struct rules_subject s;

    for (uint32_t i = 0; i < j->n_subs; i++) {
        if (!j->subs[i].key || (j->subs[i].host != RULES_NONE &&
                                rules_types_cross(rules_types_rule(j, j->subs[i].rule)))) {
            continue;
        }
        rules_state_subject(j, i, &s);
        if (!each(ctx, &s)) {
            return;
        }
    }
}

int64_t rules_judge_step(const struct rules_judge *j)
{
    int64_t least = INT64_MAX;

    for (size_t i = 0; i < j->n_hosts; i++) {
        if (j->hosts[i]->step_ns && j->hosts[i]->step_ns < least) {
            least = j->hosts[i]->step_ns;
        }
    }
    return least;
}

int64_t rules_judge_host_step(const struct rules_judge *j, const struct uuid *id)
{
    const struct rules_host *h = rules_match_host_find(j, id);

    return h ? h->step_ns : 0;
}

void rules_judge_watch(const struct rules_judge *j, size_t rule, struct rules_watch *out)
{
    bool total = rules_types_total(rules_types_rule(j, (uint32_t)rule));

    *out = (struct rules_watch){0};
    for (size_t i = 0; i < j->n_hosts; i++) {
        const struct rules_host *h = j->hosts[i];

        if (!h->applies[rule]) {
            continue;
        }
        out->hosts++;
        out->processes += total ? h->n_insts : 0;
        for (uint32_t at = h->heads[rule]; at != RULES_NONE; at = j->subs[at].next) {
            out->subjects++;
            out->processes += total ? 0 : j->subs[at].refs;
        }
    }
}

void rules_judge_counts(const struct rules_judge *j, struct rules_counts *out)
{
    *out = j->counts;
    out->hosts = j->n_hosts;
    out->subjects = j->n_living;
    out->bytes = j->bytes;
    for (size_t i = 0; i < j->n_subs; i++) {
        const struct rules_sub *s = &j->subs[i];

        out->firing += s->key && s->state == NOTICE_FIRING;
        out->unknown += s->key && s->truth == EXPR_UNKNOWN;
    }
}
