#include "agent/batch/batch_types.h"

#include "common/model/event_values.h"

static const struct event_type *types_find(const struct batch_types *t,
                                           const struct event_type *type)
{
    for (uint32_t i = t->n; i > 0; i--) {
        if (event_values_same_type(t->list[i - 1], type)) {
            return t->list[i - 1];
        }
    }
    return NULL;
}

bool batch_types_fits(const struct batch_types *t, const struct event_type *type)
{
    return t->n < WIRE_TYPES_MAX || types_find(t, type);
}

const struct event_type *batch_types_keep(struct batch_types *t, struct arena *memory,
                                          const struct event_type *type)
{
    const struct event_type *known = types_find(t, type);
    void *room = known ? NULL : arena_alloc(memory, event_values_type_bytes(type));

    if (known || !room) {
        return known;
    }
    t->list[t->n++] = event_values_copy_type(room, type);
    return t->list[t->n - 1];
}
