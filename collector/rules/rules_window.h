/* Windows: what a function of a rule sees of its subject, in parts that slide with time. A window
 * has at most RULES_PARTS parts of 40 bytes; a part is a multiple of RULES_STEP_NS long and begins
 * at a multiple of its length, so that a step lies in one part of each window. The newest part is
 * not full before its end: what a window covers is up to one part shorter than its span.
 * Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_RULES_RULES_WINDOW_H
#define PROCFLEET_COLLECTOR_RULES_RULES_WINDOW_H

#include "common/lab/rules_conf.h"

struct rules_part {
    int64_t sum;      /* of the values at ticks, of growth, of events */
    int64_t min, max; /* of one tick; min > max: there was none */
    int64_t first, last;
};

struct rules_window {
    int64_t newest; /* number of the newest part: its end, divided by its length */
    struct rules_part parts[RULES_PARTS];
};

/* The host's side of the windows of one span. */
struct rules_time_part {
    int64_t ticks;
    int64_t missing_ns; /* not delivered, and what was lost of the rest */
};

struct rules_time {
    int64_t span_ns, part_ns;
    uint8_t n_parts;
    int64_t newest;
    struct rules_time_part parts[RULES_PARTS];
};

/* The part that the step ends in, made when it is new; NULL: it is older than the window. */
struct rules_part *rules_window_part(struct rules_window *w, const struct rules_call *call,
                                     int64_t step_ns);
struct rules_time_part *rules_window_time(struct rules_time *w, int64_t step_ns);

void rules_window_init(struct rules_window *w);
bool rules_window_empty(const struct rules_window *w, const struct rules_call *call,
                        int64_t step_ns);

/* One tick's value. */
void rules_window_tick(struct rules_part *p, int64_t value);

/* Where the window that ends with the step begins; ticks inside, and the share that was delivered.
 * newest: the last of its parts alone; min: the worst of them. */
int64_t rules_window_begin(const struct rules_time *w, int64_t step_ns);
int64_t rules_window_ticks(const struct rules_time *w, int64_t step_ns);
double rules_window_share(const struct rules_time *w, int64_t step_ns);
double rules_window_share_part(const struct rules_time *w, int64_t step_ns, bool newest);

/* What the function gives; false: there is nothing to say it of. */
bool rules_window_value(const struct rules_window *w, const struct rules_call *call,
                        const struct rules_time *time, int64_t step_ns, long double *value);

#endif
