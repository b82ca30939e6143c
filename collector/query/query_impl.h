/* A question under way and what all questions share (query.c): which hosts, which window of each,
 * how large the answer may grow, the cursor, remarks. Private to collector/query. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_IMPL_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_IMPL_H

#include "collector/query/query_env.h"
#include "common/base/clk.h"
#include "common/lab/host_class.h"

/* One selected host and its window. */
struct query_span {
    size_t host; /* index in the view */
    const struct store_host *about;
    int64_t since_ns, until_ns;
    bool anchored;             /* the window hangs on the host's newest data */
    bool over;                 /* a recording of which nothing more is expected */
    uint32_t answer;           /* index in the answer's hosts, or QUERY_NO_HOST */
    bool asked;                /* for its facts, */
    const struct facts *facts; /* which are these; NULL: nothing is known */
};

#define QUERY_NO_HOST      UINT32_MAX
#define QUERY_REMARK_HOSTS 5 /* hosts named in one remark */
#define QUERY_PPM          1000000u

/* Why an answer has a remark. Those up to QNOTE_PARTIAL_LAST make it partial. */
enum query_note {
    QNOTE_UNREAD,
    QNOTE_FAR,
    QNOTE_LOST,
    QNOTE_GAPS,
    QNOTE_MISSING,
    QNOTE_BEGINS_LATE,
    QNOTE_ENDS_EARLY,
    QNOTE_PARTIAL_LAST = QNOTE_ENDS_EARLY,
    QNOTE_UNBELIEVED,
    QNOTE_POLLED,
    QNOTE_REPLAY,
    QNOTE_SILENT,
    QNOTE_CLONES,
    QNOTE_CERTIFICATE,
    QNOTE_CLOCK,
    QNOTE_ROOTLESS,
    QNOTE_COUNT
};

/* Where the previous page ended: the sort key of its last row. */
struct query_cursor {
    bool set;
    char name[MODEL_HOST_NAME_MAX + 1];
    struct uuid host;
    int64_t when_ns;
    uint64_t a, b; /* what further orders the rows of this kind of query */
    uint32_t c;
};

struct query_remark {
    uint32_t hosts; /* that it concerns */
    size_t n;
    char who[512]; /* the first of them, with detail */
};

struct query_unread; /* query_scan.h */
struct query_where;  /* query_where.h */

/* What is known of a span: for the last sentence. */
struct query_cover {
    bool done, missing, at_most;
    bool over;                   /* a recording that ended, without data in the window */
    uint32_t ppm;                /* but for what could not be read: query_scan_unread_ppm */
    int64_t there_ns;            /* so much of the window has data */
    struct query_unread *unread; /* NULL: all could be read */
    uint64_t ticks, events, rows, batches; /* lost */
    int64_t first_ns, last_ns;             /* of the losses; 0, 0: none */
};

/* A query under way. */
struct query {
    struct host_offset clock; /* of the host when it made the block that is being scanned */
    enum query_kind kind;
    const struct query_env *env;
    const struct wire_query *ask;
    struct query_answer *out;
    struct errmsg *why;
    size_t n_spans;
    struct query_span *spans;   /* in the view's order: by name, then id */
    struct query_cover *covers; /* one for each */
    uint32_t limit;
    size_t bytes; /* the answer so far, estimated from above */
    size_t n_hosts;
    struct wire_host *hosts; /* of the answer */
    struct query_cursor cursor;
    bool quiet;                   /* no remarks: they were made with the first page */
    size_t n_family;              /* of a run's root, itself included: no others are asked for; */
    const struct proc_id *family; /* in order; NULL: all are */
    struct store_used used;       /* what it was computed from */
    struct query_remark remarks[QNOTE_COUNT];
    size_t expected;           /* spans of hosts of which data is expected */
    struct query_where *where; /* NULL: no filter */
    bool where_is_long;        /* it asks about path or command line, which are not in brief */
    uint64_t where_unknown;    /* rows of which it is not known whether they fit */
    bool boots_cut;            /* there are more than the limit */
    const char *class_keys[HOST_CLASS_KEYS + 1]; /* none: as the collector has it */
    size_t n_absent;                             /* names asked for that are no host's */
    struct str absent[WIRE_HOSTS_MAX + 1];
};

/* Checks the question, selects hosts, sets windows. def_metrics: columns when none were asked for.
 */
NODISCARD enum err query_plan(struct query *q, const uint8_t *def_metrics, uint8_t n_def,
                              uint32_t def_limit);

/* Has what is known of the dead looked for where the spans are; again when they have changed. */
void query_known(const struct query *q);
/* store_expect of these spans, by number; NULL: of the first n. */
void query_expect(const struct query *q, const size_t *spans, size_t n);

/* Adds the span's host, with this detail or "", to a remark. */
PRINTF_LIKE(4, 5)
void query_remark(struct query *q, enum query_note kind, const struct query_span *s,
                  const char *fmt, ...);

/* What the span's host is known by; NULL: nothing. */
const struct facts *query_facts(struct query *q, const struct query_span *s);
/* Its class in words, in the answer's memory; empty: unknown. */
struct str query_class(struct query *q, const struct facts *f);

/* What the session knows of the host; all zero when it has not been heard of. */
struct query_host_state query_host_state_of(const struct query *q, const struct store_host *h);

/* The root of the run that was asked for and all that descend from it, of the span's host, in the
 * order of pid and start; n 0: it was not seen. In the answer's memory. Errors: ERR_FULL, those of
 * store_info_each */
NODISCARD enum err query_tree_family(struct query *q, const struct query_span *s,
                                     const struct proc_id **family, size_t *n);
/* False: what it counts cannot be, and is left out of sums over hosts. */
bool query_is_believed(const struct store_host *h);

/* It has said good-bye, or is a recording that was killed half-way, and has not come back: what was
 * alive then is not any more. */
bool query_has_ended(const struct store_host *h, const struct query_host_state *state);

/* Remarks that the host is a recording, and how far it came. */
void query_remark_replay(struct query *q, const struct query_span *s);

/* The host's place in the answer, entering it when needed. */
NODISCARD enum err query_host_index(struct query *q, struct query_span *s, uint32_t *index);

/* Room for a row with this much text and so many values? Counts it when there is. */
bool query_fits(struct query *q, const struct proc_info *info, size_t extra);

/* Sets the answer's cursor: the next page starts behind this key. */
void query_more(struct query *q, const struct query_cursor *key);

/* Order of hosts in answers: name, then id. */
int query_host_order(const char *name_a, const struct uuid *a, const char *name_b,
                     const struct uuid *b);

/* The span at which paging goes on (n_spans: none left); hosts before it are done. */
size_t query_first_span(const struct query *q);
bool query_is_cursor_host(const struct query *q, const struct query_span *s);
void query_key_host(struct query_cursor *key, const struct query_span *s);

/* Whether the process may be shown: pid, idle, name pattern. info may be NULL. */
bool query_wants_id(const struct query *q, struct proc_id id); /* whatever its name */
bool query_wants(const struct query *q, struct proc_id id, const struct proc_info *info);
/* The same for the sum of many short lives, of which only the image's name is left. */
bool query_wants_folded(const struct query *q, struct str name);

/* How far before a window the sample may lie that a counter's growth counts from. */
#define QUERY_LOOKBACK_NS (60 * CLK_S)

/* The questions, each in its own file: query_NAME in query_NAME.c. Errors: those of query_run. */
#define QUERY_DECLARE(kind, name) NODISCARD enum err query_##name(struct query *q);
QUERY_LIST(QUERY_DECLARE)
#undef QUERY_DECLARE

/* Processes alive in the newest data of the host, whatever window was asked for; idle left out. */
NODISCARD enum err query_hosts_alive(struct query *q, const struct query_span *s,
                                     uint32_t *processes);

static inline const char *query_utc(char text[CLK_TEXT], int64_t ns)
{
    return clk_format_utc(text, CLK_TEXT, ns, 0);
}

#endif
