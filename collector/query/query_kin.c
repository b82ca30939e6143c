#include "collector/query/query_kin.h"

#include <stdlib.h>
#include <string.h>

static int by_key(const void *a, const void *b)
{
    return query_key_order(&((const struct kin *)a)->key, &((const struct kin *)b)->key);
}

/* The last of those with this pid and boot that began at `start` or before. Keys are in the order
 * of pid, start, boot, so the search ends at the first of the pid. */
static size_t latest(const struct kin *kins, size_t n, const struct proc_key *key)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (query_key_order(&kins[mid].key, key) <= 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    while (lo-- > 0 && kins[lo].key.id.pid == key->id.pid) {
        if (memcmp(kins[lo].key.boot.b, key->boot.b, sizeof key->boot.b) == 0) {
            return lo;
        }
    }
    return KIN_NONE;
}

static size_t parent_of(const struct kin *kins, size_t n, size_t child)
{
    const struct proc_info *info = kins[child].info;
    struct proc_key key = kins[child].key;
    size_t at;

    if (!info || !(info->have & INFO_PARENT) || info->parent_pid == key.id.pid) {
        return KIN_NONE;
    }
    key.id.pid = info->parent_pid;
    if (info->parent_start || !key.id.start) {
        key.id.start = info->parent_start ? info->parent_start : UINT64_MAX;
    }
    at = latest(kins, n, &key);
    if (at != KIN_NONE && info->parent_start && kins[at].key.id.start != info->parent_start) {
        return KIN_NONE;
    }
    return at;
}

void query_kin_link(struct kin *kins, size_t n)
{
    if (n) {
        qsort(kins, n, sizeof *kins, by_key);
    }
    for (size_t i = 0; i < n; i++) {
        kins[i].parent = parent_of(kins, n, i);
    }
}

/* -- sums -- */

static int by_inst_key(const void *a, const void *b)
{
    const struct query_inst *x = *(const struct query_inst *const *)a;
    const struct query_inst *y = *(const struct query_inst *const *)b;

    if (x->id.pid != y->id.pid) {
        return x->id.pid < y->id.pid ? -1 : 1;
    }
    if (x->id.start != y->id.start) {
        return x->id.start < y->id.start ? -1 : 1;
    }
    return (int)x->order - (int)y->order;
}

static bool counts(const struct query_table *t, const struct query_inst *inst, bool ended)
{
    return inst && !inst->hidden && !inst->instances && (ended || query_inst_lives(t, inst));
}

/* Where the instance's boot stands among the table's, in the order of their ids. */
static void order_boots(struct query_table *t)
{
    for (size_t i = 0; i < t->cap; i++) {
        struct query_inst *inst = t->slots[i];

        if (inst && inst->boot < t->n_boots) {
            inst->order = 0;
            for (unsigned b = 0; b < t->n_boots; b++) {
                inst->order +=
                    memcmp(t->boots[b].b, t->boots[inst->boot].b, sizeof t->boots[b].b) < 0;
            }
        }
    }
}

static void add_up(struct kin_sums *out, const struct query_table *t, size_t child)
{
    size_t to = child;

    for (unsigned depth = 0; to != KIN_NONE && depth < KIN_DEPTH_MAX; depth++) {
        if (out->kins[to].met == child + 1) {
            return;
        }
        out->kins[to].met = child + 1;
        for (unsigned i = 0; i < t->n_metrics; i++) {
            query_sum_add(&out->sums[to * t->n_metrics + i], t, out->insts[child], i);
        }
        out->members[to]++;
        to = out->kins[to].parent;
    }
}

enum err query_kin_sums(struct kin_sums *out, struct query_table *t, bool ended)
{
    *out = (struct kin_sums){0};
    for (size_t i = 0; i < t->cap; i++) {
        out->n += counts(t, t->slots[i], ended);
    }
    out->insts = arena_array(&t->memory, out->n, sizeof(const struct query_inst *));
    out->kins = arena_array(&t->memory, out->n, sizeof *out->kins);
    out->sums = arena_array(&t->memory, out->n * t->n_metrics, sizeof *out->sums);
    out->members = arena_array(&t->memory, out->n, sizeof *out->members);
    if (!out->insts || !out->kins || !out->sums || !out->members) {
        return ERR_FULL;
    }
    order_boots(t);
    out->n = 0;
    for (size_t i = 0; i < t->cap; i++) {
        if (counts(t, t->slots[i], ended)) {
            out->insts[out->n++] = t->slots[i];
        }
    }
    if (out->n) {
        qsort(out->insts, out->n, sizeof *out->insts, by_inst_key);
    }
    for (size_t i = 0; i < out->n; i++) {
        const struct query_inst *inst = out->insts[i];

        out->kins[i] = (struct kin){.key = {inst->id, t->boots[inst->boot]}, .info = inst->info};
    }
    query_kin_link(out->kins, out->n); /* keeps the order: it is the same */
    for (size_t i = 0; i < out->n; i++) {
        add_up(out, t, i);
    }
    return ERR_OK;
}
