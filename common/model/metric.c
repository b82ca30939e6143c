#include "common/model/metric.h"

#include <stddef.h>
#include <string.h>

#include "common/conf/opt.h"

static const struct metric metrics[] = {
#define METRIC_ROW(id, name, kind, unit, column, help) \
    {id, METRIC_##kind, UNIT_##unit, column, #name, help},
    METRIC_LIST(METRIC_ROW)
#undef METRIC_ROW
};

#define METRIC_COUNT (sizeof metrics / sizeof *metrics)

/* Where each id stands in the list. */
enum {
#define METRIC_PLACE(id, name, kind, unit, column, help) PLACE_##id,
    METRIC_LIST(METRIC_PLACE)
#undef METRIC_PLACE
};

/* The same by id, plus 1; 0: none. */
static const uint8_t behind[METRIC_COLS] = {
#define METRIC_BEHIND(id, name, kind, unit, column, help) [id] = PLACE_##id + 1,
    METRIC_LIST(METRIC_BEHIND)
#undef METRIC_BEHIND
};

const struct metric *metric_by_id(unsigned id)
{
    return id < METRIC_COLS && behind[id] ? &metrics[behind[id] - 1] : NULL;
}

const struct metric *metric_by_name(const char *name)
{
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        if (strcmp(metrics[i].name, name) == 0) {
            return &metrics[i];
        }
    }
    return NULL;
}

const struct metric *metric_next(const struct metric *m)
{
    size_t i = m ? (size_t)(m - metrics) + 1 : 0;

    return i < METRIC_COUNT ? &metrics[i] : NULL;
}

const char *metric_closest(const char *name)
{
    const char *names[METRIC_COUNT];

    for (size_t i = 0; i < METRIC_COUNT; i++) {
        names[i] = metrics[i].name;
    }
    return opt_closest(name, names, METRIC_COUNT);
}

const char *metric_column_name(size_t i)
{
    for (const struct metric *m = metric_next(NULL); m; m = metric_next(m)) {
        if (m->column && i-- == 0) {
            return m->name;
        }
    }
    return NULL;
}
