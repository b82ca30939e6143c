#include "collector/query/query.h"

#include "collector/query/query_plan.h"

static enum err (*const runs[])(struct query *) = {
    [QUERY_HOSTS] = query_hosts,         [QUERY_TOP] = query_top,
    [QUERY_PROCESSES] = query_processes, [QUERY_HISTORY] = query_history,
    [QUERY_EVENTS] = query_events,       [QUERY_COVERAGE] = query_coverage,
    [QUERY_TREE] = query_tree,           [QUERY_OVERVIEW] = query_overview,
};

enum err query_run(struct query_answer *out, enum query_kind kind, const struct query_env *env,
                   const struct wire_query *ask, struct errmsg *why)
{
    struct query q = {.kind = kind, .env = env, .ask = ask, .out = out, .why = why};
    enum err e;

    *out = (struct query_answer){0};
    arena_init(&out->memory, QUERY_MEMORY_MAX);
    e = runs[kind](&q);
    if (!e) {
        e = query_finish(&q);
    }
    if (e == ERR_TIMEOUT) {
        return errmsg_set(why, e,
                          "the deadline passed while the answer was being computed: ask for a "
                          "shorter span or allow more time");
    }
    if (e == ERR_FULL) {
        return errmsg_set(why, e,
                          "the answer needs more working memory than a question may have: ask for "
                          "fewer processes or a shorter span");
    }
    return e;
}

void query_answer_fini(struct query_answer *a)
{
    arena_fini(&a->memory);
    *a = (struct query_answer){0};
}
