/* Sums of groups from hostile bytes; what can be read is written and read again as the same. */
#include <assert.h>

#include "collector/store/rollup/group_sums.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#define MEMORY_MAX ((size_t)64 << 20)

static void same(const struct group_sums *a, const struct group_sums *b)
{
    assert(a->n == b->n && a->metrics == b->metrics && a->t0_ns == b->t0_ns &&
           a->t1_ns == b->t1_ns);
    assert(a->before_t0_ns == b->before_t0_ns && a->before_t1_ns == b->before_t1_ns);
    for (size_t i = 0; i < a->n; i++) {
        assert(str_eq(a->groups[i].name, b->groups[i].name));
        assert(str_eq(a->groups[i].user, b->groups[i].user));
    }
    for (unsigned m = 0; m < METRIC_COLS; m++) {
        for (size_t i = 0; (a->metrics & METRIC_BIT(m)) && i < a->n; i++) {
            assert(a->parts[m][i].count == b->parts[m][i].count);
            assert(a->parts[m][i].sum == b->parts[m][i].sum);
            assert(a->parts[m][i].n_new == b->parts[m][i].n_new);
            assert(a->ticks[m] == b->ticks[m] && a->most[m].start == b->most[m].start);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct group_sums s, back;
    struct arena memory;
    struct buf b;

    arena_init(&memory, MEMORY_MAX);
    if (group_sums_get(&s, &memory, METRIC_ALL, p, n) == ERR_OK) {
        buf_init(&b, MEMORY_MAX);
        group_sums_put(&b, &s);
        assert(b.bad || group_sums_get(&back, &memory, METRIC_ALL, b.p, b.n) == ERR_OK);
        if (!b.bad) {
            same(&s, &back);
        }
        buf_fini(&b);
    }
    arena_fini(&memory);
    return 0;
}
