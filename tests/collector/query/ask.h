/* Running one query over a lab and looking into its answer. */
#ifndef PROCFLEET_TESTS_COLLECTOR_QUERY_ASK_H
#define PROCFLEET_TESTS_COLLECTOR_QUERY_ASK_H

#include "collector/query/query.h"
#include "tests/collector/lab.h"

/* The answer; ends the test when the query fails. */
void ask_run(struct query_answer *out, struct lab *l, enum query_kind kind,
             const struct wire_query *q, const char *scope);

/* The value of a metric in a row; *have says whether it is there. */
int64_t ask_value(const struct wire_answer *a, const struct wire_row *row, uint8_t metric,
                  bool *have);

/* Whether a note holds the text. */
bool ask_note(const struct wire_answer *a, const char *text);

/* A question with these metrics. */
struct wire_query ask_metrics(unsigned n, const uint8_t *metrics);

#endif
