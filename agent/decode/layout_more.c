#include "agent/decode/layout_more.h"

#include <string.h>

const struct decode_class *layout_more_class(size_t i)
{
    const struct {
        const struct decode_class *classes;
        size_t n;
    } rooms[] = {
        {layout_work_classes, layout_work_n},
        {layout_memory_classes, layout_memory_n},
        {layout_files_classes, layout_files_n},
    };

    for (size_t k = 0; k < sizeof rooms / sizeof *rooms; k++) {
        if (i < rooms[k].n) {
            return &rooms[k].classes[i];
        }
        i -= rooms[k].n;
    }
    return NULL;
}

const struct layout *layout_more_find(const struct raw_event *raw,
                                      const struct decode_class **class)
{
    const struct decode_class *k;

    for (size_t i = 0; (k = layout_more_class(i)) != NULL; i++) {
        if (k->form == raw->form && memcmp(k->guid, raw->guid, sizeof k->guid) == 0) {
            *class = k;
            return layout_find(k->layouts, k->n_layouts, decode_number(raw), raw->version);
        }
    }
    return NULL;
}
