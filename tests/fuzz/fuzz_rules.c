/* Any text as a file of rules: it is read, or it is said what is wrong and where; what is read
 * keeps its bounds, and the same again is the same. */
#include <stdlib.h>

#include "common/lab/rules_conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void need(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void rule_check(const struct rules_rule *r)
{
    need(r->name.n >= 1 && r->name.n <= RULES_NAME_MAX && r->when && r->of < RULES_OFS);
    need(r->n_calls >= 1 && r->n_calls <= RULES_CALLS && r->coverage >= 0 && r->coverage <= 1);
    need(r->every_ns >= RULES_STEP_NS && r->every_ns % RULES_STEP_NS == 0);
    for (size_t i = 0; i < r->n_calls; i++) {
        const struct rules_call *c = &r->calls[i];

        need(c->n_parts >= 1 && c->n_parts <= RULES_PARTS && c->part_ns % RULES_STEP_NS == 0);
        need(c->part_ns > 0 && c->part_ns * c->n_parts >= c->span_ns);
        need(c->part_ns * (c->n_parts - 1) < c->span_ns && c->span_ns <= RULES_SPAN_MAX);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct rules_conf *c = NULL, *again = NULL;
    struct rules_where at;
    struct errmsg why = {""};
    enum err e = rules_conf_read(&c, (const char *)p, n, &at, &why);

    if (e) {
        need(why.text[0] || e == ERR_NOMEM);
        return 0;
    }
    need(rules_conf_n(c) <= RULES_MAX);
    need(rules_conf_read(&again, (const char *)p, n, &at, &why) == ERR_OK);
    for (size_t i = 0; i < rules_conf_n(c); i++) {
        rule_check(rules_conf_rule(c, i));
        need(rules_conf_rule(c, i)->hash == rules_conf_rule(again, i)->hash);
    }
    rules_conf_free(c);
    rules_conf_free(again);
    return 0;
}
