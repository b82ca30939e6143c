#include "tests/collector/query/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ask_run(struct query_answer *out, struct lab *l, enum query_kind kind,
             const struct wire_query *q, const char *scope)
{
    struct query_env env = {.view = lab_view(l), .scope = scope, .now_ns = LAB_NS(1000)};
    struct errmsg why = {""};
    enum err e = query_run(out, kind, &env, q, &why);

    if (e) {
        fprintf(stderr, "query: %s: %s\n", err_name(e), why.text);
        abort();
    }
}

int64_t ask_value(const struct wire_answer *a, const struct wire_row *row, uint8_t metric,
                  bool *have)
{
    for (unsigned i = 0; i < a->n_metrics; i++) {
        if (a->metrics[i] == metric) {
            *have = (row->have & UINT64_C(1) << i) != 0;
            return *have ? row->values[i] : 0;
        }
    }
    *have = false;
    return 0;
}

bool ask_note(const struct wire_answer *a, const char *text)
{
    size_t n = strlen(text);

    for (size_t i = 0; i < a->n_notes; i++) {
        for (size_t k = 0; k + n <= a->notes[i].n; k++) {
            if (memcmp(a->notes[i].p + k, text, n) == 0) {
                return true;
            }
        }
    }
    return false;
}

struct wire_query ask_metrics(unsigned n, const uint8_t *metrics)
{
    struct wire_query q = {.n_metrics = (uint8_t)n};

    memcpy(q.metrics, metrics, n);
    return q;
}
