#include "collector/rules/rules_state.h"

void rules_state_subject(const struct rules_judge *j, uint32_t at, struct rules_subject *out)
{
    const struct rules_sub *s = &j->subs[at];
    const struct rules_host *h = s->host != RULES_NONE ? j->hosts[s->host] : NULL;
    const struct rules_rule *rule = rules_types_rule(j, s->rule);

    *out = (struct rules_subject){
        .rule = rule,
        .host = h ? h->name : NOTICE_NO_HOST,
        .id = h ? &h->id : NULL,
        .key = s->key,
        .start = s->start,
        .class_text = h               ? h->class_text
                      : s->class_text ? s->class_text
                                      : "",
        .state = s->state,
        .before = s->before,
        .truth = s->truth,
        .reason = s->truth == EXPR_UNKNOWN ? s->reason : RULES_NO_REASON,
        .pending = s->state == NOTICE_OK && s->true_ns && s->truth == EXPR_TRUE,
        .since_ns = s->since_ns,
        .step_ns = s->step_ns,
        .changed_ns = s->changed_ns,
        .has_value = s->has_value,
        .value = s->value,
        .coverage = s->coverage,
        .dim = rule->many != RULES_ANY ? EXPR_PLAIN : rule->calls[0].dim,
    };
}

static void state_set(struct rules_judge *j, uint32_t at, int64_t step_ns, uint8_t state,
                      int64_t since_ns)
{
    struct rules_sub *s = &j->subs[at];
    struct rules_subject subject;

    s->before = s->state;
    s->state = state;
    s->since_ns = since_ns;
    s->step_ns = s->changed_ns = step_ns;
    j->counts.changes++;
    rules_state_subject(j, at, &subject);
    j->conf.env.change(j->conf.env.ctx, &subject);
}

static void step_unknown(struct rules_judge *j, uint32_t at, int64_t step_ns, uint8_t reason)
{
    struct rules_sub *s = &j->subs[at];
    bool news = s->of_host || s->host == RULES_NONE || s->state == NOTICE_FIRING;

    s->reason = reason;
    s->false_ns = 0;
    if ((s->state == NOTICE_UNKNOWN ? s->under : s->state) != NOTICE_FIRING) {
        s->true_ns = 0;
    }
    s->unknown_ns = s->unknown_ns ? s->unknown_ns : step_ns;
    if (s->state != NOTICE_UNKNOWN && news && reason != RULES_FILLING &&
        step_ns - s->unknown_ns > rules_types_rule(j, s->rule)->for_ns) {
        s->under = s->state;
        state_set(j, at, step_ns, NOTICE_UNKNOWN, s->unknown_ns);
    }
}

static void step_true(struct rules_judge *j, uint32_t at, int64_t step_ns)
{
    struct rules_sub *s = &j->subs[at];
    uint8_t state = s->state == NOTICE_UNKNOWN ? s->under : s->state;

    s->false_ns = 0;
    s->true_ns = s->true_ns ? s->true_ns : step_ns;
    if (state == NOTICE_FIRING) {
        if (s->state == NOTICE_UNKNOWN) {
            state_set(j, at, step_ns, NOTICE_FIRING, s->true_ns);
        }
    } else if (step_ns - s->true_ns >= rules_types_rule(j, s->rule)->for_ns) {
        state_set(j, at, step_ns, NOTICE_FIRING, s->true_ns);
    } else if (s->state == NOTICE_UNKNOWN) {
        state_set(j, at, step_ns, NOTICE_OK, s->unknown_ns);
    }
}

static void step_false(struct rules_judge *j, uint32_t at, int64_t step_ns)
{
    struct rules_sub *s = &j->subs[at];
    uint8_t state = s->state == NOTICE_UNKNOWN ? s->under : s->state;
    int64_t fired_ns = s->true_ns;

    if (state != NOTICE_FIRING) {
        s->true_ns = 0;
        if (s->state == NOTICE_UNKNOWN) {
            state_set(j, at, step_ns, NOTICE_OK, s->unknown_ns);
        }
        return;
    }
    s->false_ns = s->false_ns ? s->false_ns : step_ns;
    if (step_ns - s->false_ns >= rules_types_rule(j, s->rule)->clear_ns) {
        s->true_ns = s->false_ns = 0;
        state_set(j, at, step_ns, NOTICE_OK, fired_ns);
    }
}

void rules_state_step(struct rules_judge *j, uint32_t at, int64_t step_ns, enum expr_truth truth,
                      uint8_t reason)
{
    struct rules_sub *s = &j->subs[at];

    s->truth = (uint8_t)truth;
    s->step_ns = step_ns;
    if (truth == EXPR_UNKNOWN) {
        step_unknown(j, at, step_ns, reason);
        return;
    }
    s->reason = RULES_NO_REASON;
    if (truth == EXPR_TRUE) {
        step_true(j, at, step_ns);
    } else {
        step_false(j, at, step_ns);
    }
    j->subs[at].unknown_ns = 0;
}

void rules_state_end(struct rules_judge *j, uint32_t at, int64_t step_ns)
{
    struct rules_sub *s = &j->subs[at];

    s->true_ns = s->false_ns = s->unknown_ns = 0;
    s->truth = EXPR_FALSE;
    if (s->state != NOTICE_OK) {
        state_set(j, at, step_ns, NOTICE_OK, s->since_ns);
    }
}
