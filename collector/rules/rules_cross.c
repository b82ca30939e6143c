#include "collector/rules/rules_cross.h"

#include <string.h>

#include "collector/rules/rules_match.h"
#include "collector/rules/rules_state.h"
#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/base/vec.h"

#define OPEN_MAX    8192u /* steps that wait for a host */
#define OPEN_BYTES  ((size_t)8 << 20)
#define TALLIES_MAX 65536u
#define SWEEP_NS    (60 * CLK_S)

void rules_cross_free(struct rules_open *o)
{
    if (o) {
        map_fini(&o->by_hash);
        arena_fini(&o->memory);
        mem_free(o->tallies);
        mem_free(o);
    }
}

static struct rules_open *open_get(struct rules_judge *j, int64_t step_ns)
{
    struct rules_open *o;
    size_t i;

    if (step_ns <= j->closed_ns) {
        return NULL; /* the host was not there when it was judged */
    }
    SEARCH_LOWER(i, j->n_open, j->open[i]->step_ns < step_ns);
    if (i < j->n_open && j->open[i]->step_ns == step_ns) {
        return j->open[i];
    }
    if (VEC_ROOM(&j->open, &j->cap_open, j->n_open + 1, OPEN_MAX)) {
        return NULL;
    }
    o = mem_zalloc(sizeof *o);
    if (!o) {
        return NULL;
    }
    o->step_ns = step_ns;
    arena_init(&o->memory, OPEN_BYTES);
    memmove(j->open + i + 1, j->open + i, (j->n_open - i) * sizeof(struct rules_open *));
    j->open[i] = o;
    j->n_open++;
    return o;
}

void rules_cross_open(struct rules_judge *j, int64_t step_ns)
{
    (void)open_get(j, step_ns);
}

static const char *keep(struct rules_open *o, const char *text)
{
    return arena_dup(&o->memory, text, strlen(text) + 1);
}

/* Whose hosts count together. */
static const char *group_of(const struct rules_rule *rule, const struct rules_host *h)
{
    bool fleet = rule->of == RULES_FLEET || rule->many == RULES_COUNT;

    return fleet ? "" : h->class_text;
}

/* A tally by its hash; the group as a whole: key NULL. */
static struct rules_tally *tally_find(struct rules_open *o, uint64_t hash)
{
    uint64_t place = map_get(&o->by_hash, hash);

    return place ? &o->tallies[place - 1] : NULL;
}

static uint64_t tally_hash(uint32_t rule, const char *key, uint64_t start, const char *class_text)
{
    uint64_t h = rules_match_hash(rule, str_make(key ? key : ""), start, class_text);

    return key ? h : ~h;
}

static struct rules_tally *tally_get(struct rules_open *o, const struct rules_vote *v,
                                     const char *class_text)
{
    uint64_t hash = tally_hash(v->rule, v->key, v->start, class_text);
    struct rules_tally *t = tally_find(o, hash);

    if (t) {
        return t;
    }
    if (map_reserve(&o->by_hash) || VEC_ROOM(&o->tallies, &o->cap, o->n + 1, TALLIES_MAX)) {
        return NULL;
    }
    t = &o->tallies[o->n];
    *t = (struct rules_tally){.hash = hash,
                              .rule = v->rule,
                              .start = v->start,
                              .key = v->key ? keep(o, v->key) : NULL,
                              .class_text = keep(o, class_text)};
    if ((v->key && !t->key) || !t->class_text) {
        return NULL;
    }
    o->n++;
    (void)map_put(&o->by_hash, hash, o->n);
    return t;
}

/* Of several hosts: sums, but the least, the most, and means of shares. */
static void values_add(struct rules_tally *t, const struct rules_rule *rule,
                       const long double *values)
{
    for (uint32_t c = 0; c < rule->n_calls; c++) {
        unsigned fn = rule->calls[c].fn;

        if (t->n_values == 0) {
            t->values[c] = values[c];
        } else if (fn == EXPR_MIN) {
            t->values[c] = values[c] < t->values[c] ? values[c] : t->values[c];
        } else if (fn == EXPR_MAX || fn == EXPR_PEAK) {
            t->values[c] = values[c] > t->values[c] ? values[c] : t->values[c];
        } else {
            t->values[c] += values[c];
        }
    }
    t->n_values++;
}

void rules_cross_vote(struct rules_judge *j, const struct rules_host *h, int64_t step_ns,
                      const struct rules_vote *vote)
{
    const struct rules_rule *rule = rules_types_rule(j, vote->rule);
    struct rules_open *o = open_get(j, step_ns);
    struct rules_tally *t = o ? tally_get(o, vote, group_of(rule, h)) : NULL;

    if (!t) {
        return;
    }
    t->n_hosts++;
    t->n_true += vote->truth == EXPR_TRUE;
    t->n_unknown += vote->truth == EXPR_UNKNOWN;
    t->n_filling += vote->filling;
    t->coverage += vote->coverage;
    if (vote->values) {
        values_add(t, rule, vote->values);
    }
}

/* -- judging -- */

struct summed {
    const struct rules_rule *rule;
    const struct rules_tally *tally;
};

static void summed_value(void *ctx, uint32_t slot, struct expr_value *out)
{
    const struct summed *s = ctx;
    uint32_t c = slot - RULES_SLOT_CALL;
    long double v;

    *out = (struct expr_value){0};
    if (slot < RULES_SLOT_CALL || c >= s->rule->n_calls || !s->tally->n_values) {
        return;
    }
    v = s->tally->values[c];
    if (s->rule->calls[c].source == RULES_COVERAGE || s->rule->calls[c].fn == EXPR_STEADY) {
        v = s->rule->calls[c].fn == EXPR_MIN ? v : v / s->tally->n_values;
    }
    *out = expr_number(v);
}

static enum expr_truth sums_judge(const struct rules_rule *rule, const struct rules_tally *group,
                                  struct rules_sub *sub, uint8_t *reason)
{
    struct summed s = {rule, group};
    struct expr_value first;
    double factor;

    sub->has_value = false;
    if (group->n_values < rule->coverage * group->n_hosts || group->n_values == 0) {
        *reason = group->n_filling ? RULES_FILLING : RULES_COVERED;
        return EXPR_UNKNOWN;
    }
    (void)rules_conf_unit(rule->calls[0].dim, &factor);
    summed_value(&s, RULES_SLOT_CALL, &first);
    sub->has_value = first.type == EXPR_TYPE_NUMBER;
    sub->value = (double)first.number * factor;
    *reason = RULES_ABSENT;
    return expr_run(rule->when, summed_value, &s);
}

/* Three ways: enough hosts hold; not even all that are unknown would make them enough; or that is
 * unknown. */
static enum expr_truth hosts_judge(const struct rules_rule *rule, const struct rules_tally *group,
                                   const struct rules_tally *t, struct rules_sub *sub,
                                   uint8_t *reason)
{
    uint64_t n_true = t ? t->n_true : 0, need = rule->many_n;
    uint64_t n_unknown = (t ? t->n_unknown : 0) + group->n_unknown;

    if (rule->many != RULES_COUNT) {
        uint64_t share = rule->many == RULES_ALL ? 1000 : rule->many_n;

        need = (group->n_hosts * share + 999) / 1000;
        need = need ? need : 1;
    }
    sub->has_value = true;
    sub->value = (double)n_true;
    *reason = group->n_filling ? RULES_FILLING : RULES_COVERED;
    return n_true >= need ? EXPR_TRUE : n_true + n_unknown < need ? EXPR_FALSE : EXPR_UNKNOWN;
}

/* A group without hosts, as when its class is no host's any more, does not hold. */
static void sub_judge(struct rules_judge *j, struct rules_open *o, uint32_t at)
{
    static const struct rules_tally nobody;
    struct rules_sub *s = &j->subs[at];
    const struct rules_rule *rule = rules_types_rule(j, s->rule);
    const struct rules_tally *group = tally_find(o, tally_hash(s->rule, NULL, 0, s->class_text));
    const struct rules_tally *t =
        tally_find(o, tally_hash(s->rule, s->key, s->start, s->class_text));
    enum expr_truth truth;
    uint8_t reason;

    if (s->step_ns == o->step_ns) {
        return; /* it has been */
    }
    group = group ? group : &nobody;
    s->coverage = group->n_hosts ? group->coverage / group->n_hosts : 0;
    truth = rule->of >= RULES_CLASS ? sums_judge(rule, group, s, &reason)
                                    : hosts_judge(rule, group, t, s, &reason);
    if (group->n_hosts == 0) {
        truth = EXPR_FALSE;
        s->of_host = s->has_value = false;
    }
    rules_state_step(j, at, o->step_ns, truth, reason);
}

/* Subjects come into being when some host holds, those without a key with the first host. */
static void tally_judge(struct rules_judge *j, struct rules_open *o, size_t i)
{
    const struct rules_tally *t = &o->tallies[i];
    const struct rules_rule *rule = rules_types_rule(j, t->rule);
    uint32_t at;

    if (t->key ? t->n_true == 0 : rule->of < RULES_HOST) {
        return;
    }
    at = rules_match_sub(j, t->rule, RULES_NONE, str_make(t->key ? t->key : ""), t->start,
                         t->class_text);
    if (at != RULES_NONE) {
        j->subs[at].of_host = j->subs[at].of_host || !t->key;
        sub_judge(j, o, at);
    }
}

static void step_close(struct rules_judge *j, struct rules_open *o)
{
    for (size_t i = 0; i < o->n; i++) {
        tally_judge(j, o, i);
    }
    for (uint32_t r = 0; r < j->n_rules; r++) {
        const struct rules_rule *rule = rules_types_rule(j, r);
        uint32_t next;

        if (!rules_types_cross(rule) || o->step_ns % rule->every_ns ||
            o->step_ns < rules_types_since(j, r)) {
            continue;
        }
        for (uint32_t at = j->cross_heads[r]; at != RULES_NONE; at = next) {
            struct rules_sub *s = &j->subs[at];

            next = s->next;
            sub_judge(j, o, at);
            s = &j->subs[at];
            if (!s->of_host && s->state == NOTICE_OK && s->truth == EXPR_FALSE && !s->true_ns) {
                rules_match_sub_free(j, at);
            }
        }
    }
    j->closed_ns = o->step_ns;
    if (o->step_ns % SWEEP_NS == 0) {
        rules_match_sweep_cross(j);
    }
}

void rules_cross_end(struct rules_judge *j, int64_t step_ns)
{
    for (uint32_t r = 0; r < j->n_rules; r++) {
        for (uint32_t at = j->cross_heads[r]; at != RULES_NONE; at = j->subs[at].next) {
            rules_state_end(j, at, step_ns);
        }
    }
}

void rules_cross_close(struct rules_judge *j, int64_t step_ns)
{
    size_t n = 0;

    while (n < j->n_open && (j->open[n]->step_ns <= step_ns || j->n_open - n > OPEN_MAX - 64)) {
        step_close(j, j->open[n]);
        rules_cross_free(j->open[n]);
        n++;
    }
    if (n) {
        memmove(j->open, j->open + n, (j->n_open - n) * sizeof(struct rules_open *));
        j->n_open -= n;
    }
}
