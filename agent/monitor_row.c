#include "agent/monitor_row.h"

#include <string.h>

static void row_text(struct monitor_row *out, size_t *used, struct str *s)
{
    size_t room = sizeof out->text - *used;

    s->n = s->n < room ? s->n : room;
    if (s->n > 0) {
        memcpy(out->text + *used, s->p, s->n);
    }
    s->p = out->text + *used;
    *used += s->n;
}

void monitor_row_copy(struct monitor_row *out, const struct instance *p)
{
    size_t used = 0;

    out->info = p->info;
    row_text(out, &used, &out->info.name);
    row_text(out, &used, &out->info.image);
    row_text(out, &used, &out->info.user);
    row_text(out, &used, &out->info.command_line);
    out->row = (struct sample_row){
        .info = &out->info, .info_version = p->info_version, .mask = p->count.mask};
    for (struct metric_mask_walk each = metric_mask_walk(out->row.mask);
         metric_mask_walk_next(&each);) {
        unsigned id = each.id;

        out->row.values[id] = p->count.values[id];
    }
}
