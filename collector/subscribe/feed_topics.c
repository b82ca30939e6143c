#include "collector/subscribe/feed_topics.h"

#include <string.h>

#include "common/base/mem.h"

void feed_topics_init(struct feed_topics *t, size_t max)
{
    *t = (struct feed_topics){.max = max};
}

void feed_topics_fini(struct feed_topics *t)
{
    mem_free(t->all);
    *t = (struct feed_topics){0};
}

static bool has_room(struct feed_topics *t)
{
    size_t cap = t->cap ? t->cap * 2 : 16;
    struct feed_topic_seqs *grown;

    if (t->n >= t->max) {
        return false;
    }
    if (t->n < t->cap) {
        return true;
    }
    grown = mem_realloc_array(t->all, cap, sizeof *grown);
    if (grown) {
        t->all = grown;
        t->cap = cap;
    }
    return grown != NULL;
}

struct feed_topic_seqs *feed_topics_get(struct feed_topics *t, const char *name)
{
    size_t lo = 0, hi = t->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = strcmp(t->all[mid].name, name);

        if (order == 0) {
            return &t->all[mid];
        }
        if (order < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    if (!has_room(t)) {
        return NULL;
    }
    memmove(t->all + lo + 1, t->all + lo, (t->n - lo) * sizeof *t->all);
    t->n++;
    t->all[lo] = (struct feed_topic_seqs){.name = {0}};
    memcpy(t->all[lo].name, name, strnlen(name, MODEL_HOST_NAME_MAX));
    return &t->all[lo];
}
