#include "collector/store/store_used.h"

#include <stdbool.h>

#include "common/base/clk.h"

#define NEAR_NS (2 * CLK_S) /* between batches at 1 Hz there is a second */

static bool touches(const struct store_hole *a, const struct store_hole *b)
{
    return a->first_ns <= clk_add(b->last_ns, NEAR_NS) &&
           b->first_ns <= clk_add(a->last_ns, NEAR_NS);
}

/* Takes the i-th out and gives both as one. */
static struct store_hole join(struct store_holes *h, size_t i, const struct store_hole *with)
{
    struct store_hole one = h->at[i];

    one.first_ns = with->first_ns < one.first_ns ? with->first_ns : one.first_ns;
    one.last_ns = with->last_ns > one.last_ns ? with->last_ns : one.last_ns;
    h->at[i] = h->at[--h->n];
    return one;
}

static size_t nearest(const struct store_holes *h, const struct store_hole *to)
{
    int64_t least_ns = INT64_MAX;
    size_t found = 0;

    for (size_t i = 0; i < h->n; i++) {
        int64_t ns = h->at[i].first_ns > to->last_ns ? clk_sub(h->at[i].first_ns, to->last_ns)
                                                     : clk_sub(to->first_ns, h->at[i].last_ns);

        if (ns < least_ns) {
            least_ns = ns;
            found = i;
        }
    }
    return found;
}

void store_used_hole_add(struct store_holes *h, int64_t first_ns, int64_t last_ns)
{
    struct store_hole add = {first_ns, last_ns > first_ns ? last_ns : first_ns};
    size_t i = 0;

    while (i < h->n || h->n == STORE_HOLES_MAX) {
        if (i == h->n) { /* no room: with what is between them */
            add = join(h, nearest(h, &add), &add);
            i = 0;
        } else if (touches(&h->at[i], &add)) {
            add = join(h, i, &add);
            i = 0; /* it may touch another one now */
        } else {
            i++;
        }
    }
    h->at[h->n++] = add;
}

int64_t store_used_within(const struct store_holes *h, int64_t since_ns, int64_t until_ns)
{
    int64_t sum_ns = 0;

    for (size_t i = 0; i < h->n; i++) {
        int64_t from = h->at[i].first_ns > since_ns ? h->at[i].first_ns : since_ns;
        int64_t to = clk_add(h->at[i].last_ns, 1);

        to = to < until_ns ? to : until_ns;
        sum_ns = to > from ? clk_add(sum_ns, clk_sub(to, from)) : sum_ns;
    }
    return sum_ns;
}
