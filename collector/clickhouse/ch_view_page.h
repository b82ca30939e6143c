/* Statements of many hosts at once: what a question asks of one host it will ask of the others,
 * too, so one statement brings the rows of as many of the hosts expected as fit into a reply, and
 * the next hosts find theirs there. What is given is the same either way: rows outside what is
 * asked for are left out, and what a page does not cover is asked anew.
 * Bounds: CH_VIEW_PAGES, CH_VIEW_PAGES_BYTES; one page is one reply. Threads: those of the view. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_VIEW_PAGE_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_VIEW_PAGE_H

#include "collector/clickhouse/ch_native.h"
#include "collector/clickhouse/ch_view_conf.h"
#include "collector/store/read/view_ops.h"

struct ch_view;

#define CH_VIEW_PAGES       24u
#define CH_VIEW_PAGES_BYTES ((size_t)192 << 20)
#define CH_VIEW_AT_ONCE     1200u /* hosts of a statement: servers take 256 KiB of SQL */
#define CH_VIEW_ASK_BOUNDS  4u

/* A bound of what is asked for, and how far around it other questions may go. */
struct ch_view_bound {
    const char *column; /* of stamps */
    bool from;          /* >= ns, else < ns */
    int64_t ns, slack_ns;
};

/* SELECT select FROM … ORDER BY order. Texts are the same for all hosts; in `from` and `tail` a '@'
 * stands for the hosts' condition. Bounds follow `from`, and `tail` them. */
struct ch_view_get {
    const char *select, *from, *tail, *order;
    size_t columns; /* of select */
    size_t n_bounds;
    struct ch_view_bound bounds[CH_VIEW_ASK_BOUNDS];
    size_t bytes_each; /* of one host, about; 0: few */
    bool loose;        /* rows somewhat outside the bounds do no harm */
    const struct deadline *deadline;
};

/* Calls `row` with each row of the host; the columns of `select` come first. Errors: those of
 * ch_view_ask_rows; ERR_FULL with v->too_large: also one host's rows do not fit, none was given */
NODISCARD enum err ch_view_page_get(struct ch_view *v, size_t host, const struct ch_view_get *get,
                                    enum err (*row)(void *ctx, const struct ch_in *in, size_t i),
                                    void *ctx);

/* The same, of this host alone, by a statement of its own. */
NODISCARD enum err ch_view_page_one(struct ch_view *v, size_t host, const struct ch_view_get *get,
                                    enum err (*row)(void *ctx, const struct ch_in *in, size_t i),
                                    void *ctx);

void ch_view_page_expect(const struct store_view *v, const struct store_expected *list, size_t n);
/* Other hosts than this one are expected to be asked the same. */
bool ch_view_page_many(const struct ch_view *v, size_t host);

/* The stretch of [since, until), both multiples of unit_ns, that this host and those expected after
 * it have in common, so that one statement can sum it up. False: there is none, or it is short. */
bool ch_view_page_core(const struct ch_view *v, size_t host, int64_t since_ns, int64_t until_ns,
                       int64_t unit_ns, int64_t *begin_ns, int64_t *end_ns);
NODISCARD enum err ch_view_page_init(struct ch_view *v);
void ch_view_page_fini(struct ch_view *v);

#endif
