/* The processes that live at the end of a span, and on demand those that ended in it. Two
 * readings where a host had many, so that memory follows the answer and not all who ever lived:
 * query_processes_find lists them, query_processes_read reads values, only of those in the
 * answer alone.
 * Bounds: those of the table, and half as much for the list. Private to collector/query. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_PROCESSES_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_PROCESSES_H

#include "collector/query/query_table.h"

struct query_living {
    struct proc_key key;
    bool ended;                    /* inside the span */
    bool shown;                    /* set by the caller: its values are wanted */
    int64_t seen_ns;               /* newest sample; QUERY_NEVER: none */
    const struct proc_info *info;  /* NULL: nothing is known */
    const struct query_inst *inst; /* its values, after query_processes_read; NULL: is not there */
};

struct query_living_list {
    struct query *q;
    const struct query_span *s;
    const struct query_living_ask *ask;
    struct query_table table;
    struct arena memory; /* of the list, emptied for each host */
    size_t n, cap;
    struct query_living *list; /* by pid, start, boot */
    uint32_t counted[STORE_TIERS];
    bool valued; /* so few that their values were read at once */
};

struct query_living_ask {
    bool ended;     /* those too that ended since s->since_ns */
    bool chosen;    /* only those of query_wants; else all but the idle process */
    size_t limit;   /* the first so many, and one more if there is one; SIZE_MAX: all */
    bool has_after; /* only those behind that one */
    struct proc_id after;
};

void query_processes_init(struct query_living_list *a, struct query *q);
void query_processes_fini(struct query_living_list *a);

/* A process lives when nothing says that it ended, it belongs to the newest boot, and its newest
 * row is not much older than the host's newest data: an agent that was away for a while cannot tell
 * how a process it knew has ended. Processes that never had a row (a trace that only names them)
 * are taken at their word. Errors: ERR_FULL, and those of query_table_fill */
NODISCARD enum err query_processes_find(struct query_living_list *a, const struct query_span *s,
                                        const struct query_living_ask *ask);

/* Values of the last seconds before s->until_ns, and before them the newest, of those shown. */
NODISCARD enum err query_processes_read(struct query_living_list *a);

/* Whether the question's filter fits one whose values were read. */
bool query_processes_fits(const struct query_living_list *a, const struct query_living *x);

/* The row of one that is shown, whose host is the span's; added to the answer's. Not added when its
 * values tell that it was gone. */
NODISCARD enum err query_processes_row(struct query_living_list *a, const struct query_living *x,
                                       struct query_span *s, struct wire_row *rows, uint32_t depth);

#endif
