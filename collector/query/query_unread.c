#include "collector/query/query_unread.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/plural.h"

#define PPM 1000000u

uint32_t query_unread_add(struct query *q, const struct query_span *s,
                          const struct store_used *used)
{
    struct query_cover *c = &q->covers[s - q->spans];
    uint32_t add = used->damaged;
    int64_t known_ns;

    if (!c->unread) {
        c->unread = arena_array(&q->out->memory, 1, sizeof *c->unread);
        if (!c->unread) { /* the answer says that there is some, not where */
            return add;
        }
        *c->unread = (struct query_unread){.values = 0};
    }
    known_ns = store_holes_within(&c->unread->holes, s->since_ns, s->until_ns);
    for (size_t i = 0; i < used->holes.n; i++) {
        const struct store_hole *h = &used->holes.at[i];

        store_holes_add(&c->unread->all, h->first_ns, h->last_ns);
        if (h->last_ns >= s->since_ns && h->first_ns < s->until_ns) {
            store_holes_add(&c->unread->holes,
                            h->first_ns > s->since_ns ? h->first_ns : s->since_ns,
                            h->last_ns < s->until_ns ? h->last_ns : s->until_ns - 1);
        }
    }
    if (known_ns > 0 &&
        store_holes_within(&c->unread->holes, s->since_ns, s->until_ns) == known_ns) {
        add -= add < c->unread->values ? add : c->unread->values; /* all of it at known times */
    }
    c->unread->values += add;
    return add;
}

bool query_unread_span(const struct query_unread *u, int64_t *first_ns, int64_t *last_ns)
{
    for (size_t i = 0; i < u->holes.n; i++) {
        const struct store_hole *h = &u->holes.at[i];

        *first_ns = i == 0 || h->first_ns < *first_ns ? h->first_ns : *first_ns;
        *last_ns = i == 0 || h->last_ns > *last_ns ? h->last_ns : *last_ns;
    }
    return u->holes.n > 0;
}

bool query_unread_between(const struct query *q, const struct query_span *s, int64_t after_ns,
                          int64_t before_ns)
{
    const struct query_unread *u = q->covers[s - q->spans].unread;

    return u && store_holes_within(&u->all, clk_add(after_ns, 1), before_ns) > 0;
}

uint32_t query_unread_ppm(const struct query *q, const struct query_span *s)
{
    const struct query_cover *c = &q->covers[s - q->spans];
    int64_t unread_ns =
        c->unread ? store_holes_within(&c->unread->holes, s->since_ns, s->until_ns) : 0;
    double left;

    if (unread_ns == 0 || c->there_ns <= 0) {
        return c->ppm;
    }
    left = 1 - (double)unread_ns / (double)c->there_ns;
    left = left > 0 ? left * (double)c->ppm : 0;
    return left < PPM - 1 ? (uint32_t)left : PPM - 1;
}

void query_unread_remark(struct query *q)
{
    for (size_t i = 0; i < q->n_spans; i++) {
        const struct query_unread *u = q->covers[i].unread;
        char detail[160], first[CLK_TEXT], last[CLK_TEXT];
        int64_t first_ns, last_ns;

        if (!u) {
            continue;
        }
        if (query_unread_span(u, &first_ns, &last_ns)) {
            (void)snprintf(detail, sizeof detail, "%" PRIu32 " %s, %s to %s", u->values,
                           plural(u->values, "value", "values"),
                           clk_format_utc(first, sizeof first, first_ns, 0),
                           clk_format_utc(last, sizeof last, last_ns, 0));
        } else { /* what counters grow from */
            (void)snprintf(detail, sizeof detail, "%" PRIu32 " from before the window", u->values);
        }
        query_remark(q, QNOTE_UNREAD, &q->spans[i], detail);
    }
}

/* Whether a question about values got none of them, though there are some. */
static bool nothing_read(const struct query *q)
{
    bool asks = q->kind != QUERY_HOSTS && q->kind != QUERY_OVERVIEW && q->kind != QUERY_COVERAGE;
    uint32_t read = 0;

    if (!asks || !q->used.damaged || q->cursor.set) {
        return false;
    }
    for (unsigned i = 0; i < STORE_TIERS; i++) {
        read |= q->used.windows[i];
    }
    for (size_t i = 0; i < q->n_spans && !read; i++) {
        read |= !q->covers[i].missing || !q->covers[i].unread;
    }
    return !read;
}

enum err query_unread_check(const struct query *q)
{
    if (!nothing_read(q)) {
        return ERR_OK;
    }
    return errmsg_set(q->why, ERR_IO,
                      "nothing of what was asked for can be read from the collector's disk: its "
                      "log and the system's tell of errors of the disk, 'procfleet-collector "
                      "store check' there names what is damaged");
}
