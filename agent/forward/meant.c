#include "agent/forward/meant.h"

#include <string.h>

const struct source_provider *meant_of(const struct meant *m, const uint8_t guid[16])
{
    for (size_t i = 0; i < m->n; i++) {
        if (memcmp(m->rows[i].guid, guid, sizeof m->rows[i].guid) == 0) {
            return &m->rows[i];
        }
    }
    return NULL;
}

void meant_put(struct meant *m, const struct source_provider *p)
{
    const struct source_provider *before = meant_of(m, p->guid);

    if (before) {
        m->rows[before - m->rows] = m->rows[m->n - 1];
        m->n--;
    }
    if (etw_provider_filters(p) && m->n < MEANT_MAX) {
        m->rows[m->n++] = *p;
    }
}

void meant_init(struct meant *m, const struct source_provider *rows, size_t n)
{
    m->n = 0;
    for (size_t i = 0; i < n; i++) {
        meant_put(m, &rows[i]);
    }
}
