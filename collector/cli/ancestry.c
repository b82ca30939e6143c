#include "collector/cli/ancestry.h"

void ancestry_put(struct buf *out, const struct wire_event *ev, size_t most)
{
    const struct proc_info *p = &ev->event.info;

    for (size_t i = 0; i < most; i++) {
        const char *between = i ? " < " : "";

        if (i == ev->n_ancestors) {
            if (p->have & INFO_PARENT && p->parent_pid) {
                buf_printf(out, "%s%u", between, (unsigned)p->parent_pid);
            }
            return;
        }
        p = &ev->ancestors[i];
        buf_printf(out, "%s%.*s%s%u", between, (int)p->name.n, p->name.p, p->name.n ? " " : "",
                   (unsigned)p->id.pid);
    }
}
