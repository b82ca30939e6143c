/* The parameters of a request for the API: names and values as the fields of QueryRequest and the
 * command line's options have them, into a question. All of it comes from outside; whatever is not
 * understood is refused with a sentence that says what would be. Threads: any; no state. */
#ifndef PROCFLEET_COLLECTOR_CONSOLE_API_ARGS_H
#define PROCFLEET_COLLECTOR_CONSOLE_API_ARGS_H

#include "common/wire/wire_query.h"
#include "common/wire/wire_web.h"

/* Every parameter once: constant and name. */
#define API_ARGS_LIST(X)    \
    X(HOST, host)           \
    X(IDS, ids)             \
    X(RUN, run)             \
    X(FORGOTTEN, forgotten) \
    X(SINCE, since)         \
    X(UNTIL, until)         \
    X(LAST, last)           \
    X(AT, at)               \
    X(METRIC, metric)       \
    X(LIMIT, limit)         \
    X(IDLE, idle)           \
    X(EXITED, exited)       \
    X(PID, pid)             \
    X(START, start)         \
    X(NAME, name)           \
    X(KINDS, kinds)         \
    X(PROVIDER, provider)   \
    X(EVENT, event)         \
    X(WHERE, where)         \
    X(CLASS, class)         \
    X(STEP, step)           \
    X(BUCKETS, buckets)     \
    X(ENVELOPE, envelope)   \
    X(CURSOR, cursor)       \
    X(STAGES, stages)       \
    X(BY, by)               \
    X(GROUP_BY, group_by)   \
    X(FOLDED, folded)       \
    X(MAX, max)             \
    X(WAIT, wait)           \
    X(FIRING, firing)       \
    X(SHAPE, shape)

#define API_ARGS_INDEX(constant, name) API_ARG_##constant,
enum api_arg { API_ARGS_LIST(API_ARGS_INDEX) API_ARGS };
#undef API_ARGS_INDEX

#define API_ARGS_BIT(constant, name) API_##constant = 1u << API_ARG_##constant,
enum api_args_bit { API_ARGS_LIST(API_ARGS_BIT) };
#undef API_ARGS_BIT

#define API_ARGS_WAIT_MAX_NS (25 * INT64_C(1000000000))

struct api_args {
    struct wire_query q; /* texts point into this struct */
    uint32_t given;      /* API_* */
    unsigned spans;      /* of the moments given, those that are spans before now */
    bool rows;           /* shape=rows */
    int64_t wait_ns;     /* at most API_ARGS_WAIT_MAX_NS */
    uint8_t cursor[WIRE_CURSOR_MAX];
    struct uuid ids[WIRE_IDS_MAX];
    char text[WIRE_WEB_QUERY_MAX + 2]; /* names and values, decoded */
};

/* query  what follows '?', escapes kept
 * takes  the parameters that the path has, API_*
 * now_ns UTC, for spans before now
 * why    names the parameter, and the closest one to an unknown name
 * Errors: ERR_INVALID */
NODISCARD enum err api_args_read(struct api_args *out, struct str query, uint32_t takes,
                                 int64_t now_ns, struct errmsg *why);

const char *api_args_name(enum api_arg arg);

#endif
