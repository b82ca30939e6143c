#include "common/net/sp_framing.h"

#include <string.h>

static const char *greeting(struct sp_framing *m, enum sp_framing_kind peer)
{
    const uint8_t want[8] = {0, 'S', 'P', 0, (uint8_t)((unsigned)peer >> 8), (uint8_t)peer, 0, 0};

    m->greeted = true;
    if (memcmp(m->head, want, 4) != 0) {
        return "garbage instead of SP";
    }
    return memcmp(m->head, want, sizeof want) == 0 ? NULL : "other SP protocol";
}

static const char *length(struct sp_framing *m, uint64_t max)
{
    uint64_t n = 0;

    for (size_t i = 0; i < sizeof m->head; i++) {
        n = n << 8 | m->head[i];
    }
    m->left = n;
    return n > max ? "message too large" : NULL;
}

const char *sp_framing_feed(struct sp_framing *m, enum sp_framing_kind peer, uint64_t max,
                            const uint8_t *p, size_t n)
{
    const char *why = NULL;

    while (n > 0 && !why) {
        if (m->left > 0) {
            size_t part = m->left < n ? (size_t)m->left : n;

            m->left -= part;
            p += part;
            n -= part;
            continue;
        }
        m->head[m->have++] = *p++;
        n--;
        if (m->have == sizeof m->head) {
            m->have = 0;
            why = m->greeted ? length(m, max) : greeting(m, peer);
        }
    }
    return why;
}
