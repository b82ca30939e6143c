/* The live view of 'top --watch': what is asked, what is shown, and how keys change both. It knows
 * no terminal and no connection: keys and answers come in, questions and pictures go out, so that
 * all of it is tested as text.
 * Threads: one, but questions and answers may be made and freed by any. */
#ifndef PROCFLEET_COLLECTOR_CLI_WATCH_WATCH_H
#define PROCFLEET_COLLECTOR_CLI_WATCH_WATCH_H

#include "collector/cli/term/keys.h"
#include "collector/cli/term/screen.h"
#include "common/wire/wire_query.h"

#define WATCH_TEXT        256 /* bytes of a filter */
#define WATCH_ROWS        200u
#define WATCH_EVERY_NS    INT64_C(2000000000)   /* refresh */
#define WATCH_WINDOW_NS   INT64_C(30000000000)  /* what a table is about */
#define WATCH_PAST_NS     INT64_C(900000000000) /* what details and events are about */
#define WATCH_METRICS_MAX 8u

enum watch_page { WATCH_TABLE, WATCH_DETAILS, WATCH_EVENTS };

/* A process of a host, or the host alone. */
struct watch_who {
    struct uuid host;
    uint32_t pid;
    uint64_t start;
    char host_name[WATCH_TEXT], name[WATCH_TEXT];
};

/* All that a round of questions to the collector needs; plain data. */
struct watch_question {
    unsigned number;      /* changes with each change of what is asked */
    enum watch_page page; /* what it is for */
    char host[WATCH_TEXT], name[WATCH_TEXT];
    bool has_pid, idle, exited, folded;
    uint32_t pid;
    uint8_t by, group_by;                          /* enum wire_by, enum wire_group */
    uint8_t n_metrics, metrics[WATCH_METRICS_MAX]; /* the first is the order */
    uint32_t limit;
    int64_t window_ns, past_ns;     /* of the table; of details and events */
    struct watch_who who;           /* details: of this process; events: of its host */
    bool fleet;                     /* also the figures of the fleet */
    const struct wire_query *given; /* labels, hosts and a condition; borrowed; NULL: none */
};

/* What came of it. Whatever is NULL was not asked or did not come. */
struct watch_answer {
    struct watch_question question;
    struct wire_answer *rows; /* Top, History or Events */
    struct wire_answer *tree; /* details: of the whole host */
    struct wire_answer *overview, *hosts;
    int64_t when_ns;   /* UTC */
    char problem[512]; /* "" or why there is no answer */
};

void watch_answer_free(struct watch_answer *a); /* NULL is allowed */

enum watch_prompt { WATCH_NO_PROMPT, WATCH_ASK_HOST, WATCH_ASK_NAME };

struct watch {
    struct watch_question ask;
    const char *collector; /* borrowed */
    uint8_t own_metric;    /* of --by, when it is none of the usual columns; else 0 */
    int64_t every_ns;
    bool paused, help;
    enum watch_prompt prompt;
    char typed[WATCH_TEXT]; /* into the prompt, UTF-8 */
    size_t typed_n;
    /* shown */
    struct watch_answer *table, *details, *events;
    struct watch_answer *fleet; /* the last one that had the fleet's figures */
    char problem[512];
    int64_t answered_ns; /* UTC; 0 = never */
    unsigned rows, columns;
    size_t selected, first; /* of the table's rows; the first on the screen */
    bool follows;           /* the cursor stays on `marked` */
    struct watch_who marked;
    size_t back; /* events: rows scrolled back from the newest */
};

/* The question's members are set by the caller before or behind it. */
void watch_init(struct watch *w, const char *collector);
void watch_fini(struct watch *w);

/* What the keys want of the owner of terminal and connection; bits. */
enum watch_wish { WATCH_AGAIN = 1, WATCH_QUIT = 2, WATCH_SUSPEND = 4, WATCH_REDRAW = 8 };
unsigned watch_key(struct watch *w, const struct key *k);

/* An answer, moved. Late ones to another question are dropped. */
void watch_take(struct watch *w, struct watch_answer *a);

/* The size of the screen, before drawing: keeps the cursor in sight. */
void watch_fit(struct watch *w, unsigned rows, unsigned columns);

/* The picture at this moment (UTC); pure. In watch_draw.c, as is how many rows of the table it
 * shows. */
void watch_draw(const struct watch *w, struct screen *s, int64_t now_ns);
unsigned watch_draw_table_rows(const struct watch *w);

/* The metrics of the table, in the order of its columns. */
size_t watch_metrics(const struct watch *w, uint8_t out[WATCH_METRICS_MAX]);
void watch_order(struct watch *w, uint8_t metric); /* sorts by it */

#endif
