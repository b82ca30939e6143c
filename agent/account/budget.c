#include "agent/account/budget.h"

#include <stdio.h>
#include <string.h>

#include "common/base/plural.h"

#define MARK_NS       CLK_S
#define FASTEST_TABLE (100 * CLK_MS)
#define SLOW_TABLE    (500 * CLK_MS)

void budget_init(struct budget *l, const struct budget_conf *conf)
{
    memset(l, 0, sizeof *l);
    l->conf = *conf;
    l->conf.max = conf->max < BUDGET_COUNT ? conf->max : BUDGET_COUNT - 1;
    l->conf.cpus = conf->cpus > 0 ? conf->cpus : 1;
    l->ring_since_ns = -1;
    l->quiet_ns = BUDGET_QUIET_NS;
}

static bool step_to(struct budget *l, int64_t now_ns, unsigned to, enum level_cause cause,
                    struct level_step *step)
{
    if (to == l->level) {
        return false;
    }
    step->from = l->level;
    step->to = to;
    step->cause = cause;
    l->level = to;
    l->steps[cause]++;
    l->stepped_ns = now_ns;
    l->lost_new = 0;
    l->ring_since_ns = -1;
    l->n_marks = 0;
    return true;
}

/* -- means -- */

static void mark(struct budget *l, int64_t now_ns, const struct budget_reading *r)
{
    unsigned n = l->n_marks;

    if (n > 0 && now_ns - l->marks[n - 1].at_ns < MARK_NS) {
        return;
    }
    if (n == BUDGET_MARKS) {
        memmove(l->marks, l->marks + 1, (BUDGET_MARKS - 1) * sizeof *l->marks);
        n--;
    }
    l->marks[n].at_ns = now_ns;
    l->marks[n].cpu_ns = r->cpu_ns;
    l->marks[n].events = r->events;
    l->n_marks = n + 1;
}

/* The youngest mark that is old enough for a mean; -1: none is. */
static int mean_from(const struct budget *l, int64_t now_ns)
{
    for (unsigned i = l->n_marks; i > 0; i--) {
        if (now_ns - l->marks[i - 1].at_ns >= BUDGET_MEAN_NS) {
            return (int)i - 1;
        }
    }
    return -1;
}

/* -- causes -- */

static bool over(struct level_step *step, enum level_cause cause, int64_t value, int64_t limit)
{
    if (limit <= 0 || value <= limit) {
        return false;
    }
    step->cause = cause;
    step->value = value;
    step->limit = limit;
    return true;
}

/* Whether a mean is above so much of its limit. */
static bool mean_is_over(const struct budget *l, int64_t now_ns, const struct budget_reading *r,
                         unsigned permille, struct level_step *step)
{
    int i = mean_from(l, now_ns);
    double span_ns, share, rate;

    if (i < 0) {
        return false;
    }
    span_ns = (double)(now_ns - l->marks[i].at_ns);
    share = (double)(r->cpu_ns - l->marks[i].cpu_ns) * 1000 / span_ns / l->conf.cpus;
    rate = (double)(r->events - l->marks[i].events) * (double)CLK_S / span_ns;
    return over(step, LEVEL_CAUSE_CPU, (int64_t)share, l->conf.cpu_permille * permille / 1000) ||
           over(step, LEVEL_CAUSE_EVENTS, (int64_t)rate, l->conf.events_per_s * permille / 1000);
}

static void note_loss(struct budget *l, int64_t now_ns, uint64_t lost)
{
    if (lost > l->lost) {
        l->lost_new += lost - l->lost;
        l->lost = lost;
        l->lost_ns = now_ns;
    }
}

static void note_ring(struct budget *l, int64_t now_ns, unsigned permille)
{
    if (permille <= BUDGET_RING_LIMIT) {
        l->ring_since_ns = -1;
    } else if (l->ring_since_ns < 0) {
        l->ring_since_ns = now_ns;
    }
}

/* Whether something calls for a step down; *step gets cause, value and limit. */
static bool find_cause(const struct budget *l, int64_t now_ns, const struct budget_reading *r,
                       struct level_step *step)
{
    if (l->lost_new > 0 && now_ns - l->lost_ns <= BUDGET_LOSS_NS) {
        step->cause = LEVEL_CAUSE_LOSS;
        step->value = l->lost_new > INT64_MAX ? INT64_MAX : (int64_t)l->lost_new;
        return true;
    }
    if (l->ring_since_ns >= 0 && now_ns - l->ring_since_ns >= BUDGET_RING_NS) {
        return over(step, LEVEL_CAUSE_RING, r->ring_permille, BUDGET_RING_LIMIT);
    }
    return over(step, LEVEL_CAUSE_MEMORY, r->resident_bytes, l->conf.memory_bytes) ||
           mean_is_over(l, now_ns, r, 1000, step);
}

/* -- steps -- */

static void begin(struct budget *l, int64_t now_ns, const struct budget_reading *r)
{
    l->begun = true;
    l->stepped_ns = now_ns;
    l->caused_ns = now_ns;
    l->lost = r->lost; /* before our time */
}

static bool request_ended(struct budget *l, int64_t now_ns)
{
    if (l->asked_until_ns == 0 || now_ns < l->asked_until_ns) {
        return false;
    }
    l->asked_until_ns = 0;
    return true;
}

/* As high as it may go. */
static unsigned ceiling(const struct budget *l)
{
    return l->asked_until_ns != 0 ? l->asked : l->conf.max;
}

bool budget_request(struct budget *l, int64_t now_ns, unsigned level, int64_t span_ns,
                    struct level_step *step)
{
    memset(step, 0, sizeof *step);
    l->asked = level < BUDGET_COUNT ? level : BUDGET_COUNT - 1;
    l->asked_until_ns = clk_add(now_ns, span_ns);
    return step_to(l, now_ns, l->asked, LEVEL_CAUSE_REQUEST, step);
}

static bool step_down(struct budget *l, int64_t now_ns, struct level_step *step)
{
    bool settled = now_ns - l->stepped_ns >= BUDGET_SETTLE_NS;

    l->caused_ns = now_ns;
    if (l->level == 0 || !settled) {
        return false;
    }
    if (l->climbed_ns != 0) { /* the climb was too early, and nothing says that the next is not */
        l->quiet_ns = l->quiet_ns * 2 < BUDGET_PATIENCE_NS ? l->quiet_ns * 2 : BUDGET_PATIENCE_NS;
        l->climbed_ns = 0;
    }
    return step_to(l, now_ns, l->level - 1, step->cause, step);
}

static bool step_up(struct budget *l, int64_t now_ns, struct level_step *step)
{
    if (l->level >= ceiling(l) || now_ns - l->stepped_ns < l->quiet_ns ||
        now_ns - l->caused_ns < l->quiet_ns) {
        return false;
    }
    l->climbed_ns = now_ns;
    step->value = l->quiet_ns;
    return step_to(l, now_ns, l->level + 1, LEVEL_CAUSE_QUIET, step);
}

bool budget_look(struct budget *l, int64_t now_ns, const struct budget_reading *r,
                 struct level_step *step)
{
    memset(step, 0, sizeof *step);
    if (!l->begun) {
        begin(l, now_ns, r);
        mark(l, now_ns, r);
        return l->conf.request_span_ns > 0 &&
               budget_request(l, now_ns, l->conf.request, l->conf.request_span_ns, step);
    }
    note_loss(l, now_ns, r->lost);
    note_ring(l, now_ns, r->ring_permille);
    mark(l, now_ns, r);
    if (request_ended(l, now_ns) && l->level > l->conf.max) {
        return step_to(l, now_ns, l->conf.max, LEVEL_CAUSE_REQUEST_OVER, step);
    }
    if (l->climbed_ns != 0 && now_ns - l->climbed_ns >= BUDGET_FLAP_NS) {
        l->climbed_ns = 0;
        l->quiet_ns = BUDGET_QUIET_NS;
    }
    if (find_cause(l, now_ns, r, step)) {
        return step_down(l, now_ns, step);
    }
    if (mean_is_over(l, now_ns, r, BUDGET_ROOM, step)) {
        l->caused_ns = now_ns; /* a level more would cost more */
    }
    memset(step, 0, sizeof *step);
    return step_up(l, now_ns, step);
}

int64_t budget_tick_ns(unsigned level, int64_t wanted_ns)
{
    static const int64_t fastest[BUDGET_COUNT] = {CLK_S, 100 * CLK_MS, 10 * CLK_MS, CLK_MS, CLK_MS};
    int64_t least = fastest[level < BUDGET_COUNT ? level : BUDGET_COUNT - 1];

    return wanted_ns > least ? wanted_ns : least;
}

int64_t budget_table_ns(int64_t tick_ns, bool switches)
{
    int64_t least_ns = switches ? SLOW_TABLE : FASTEST_TABLE;

    return tick_ns >= least_ns ? tick_ns : SLOW_TABLE;
}

const char *budget_cause_name(enum level_cause cause)
{
    static const char *const names[LEVEL_CAUSE_COUNT] = {
        "none", "loss", "cpu", "memory", "ring", "events", "quiet", "request", "request_over",
    };

    return names[cause];
}

static void cause_text(char *text, size_t n, const struct level_step *step)
{
    long long value = step->value, limit = step->limit;

    switch (step->cause) {
    case LEVEL_CAUSE_LOSS:
        (void)snprintf(text, n, "%lld %s lost", value,
                       plural((uint64_t)value, "event or buffer was", "events or buffers were"));
        break;
    case LEVEL_CAUSE_CPU:
        (void)snprintf(text, n,
                       "own CPU time was %lld.%lld %% of the machine, above budget.cpu "
                       "(%lld.%lld %%)",
                       value / 10, value % 10, limit / 10, limit % 10);
        break;
    case LEVEL_CAUSE_MEMORY:
        (void)snprintf(text, n, "own memory is %lld KiB, above budget.mem (%lld KiB)", value >> 10,
                       limit >> 10);
        break;
    case LEVEL_CAUSE_RING:
        (void)snprintf(text, n, "the ring of a source was %lld.%lld %% full, above %lld.%lld %%",
                       value / 10, value % 10, limit / 10, limit % 10);
        break;
    case LEVEL_CAUSE_EVENTS:
        (void)snprintf(text, n, "%lld events came in a second, above budget.events (%lld)", value,
                       limit);
        break;
    case LEVEL_CAUSE_QUIET:
        (void)snprintf(text, n, "%d s without a cause to collect less",
                       (int)((value > 0 ? value : BUDGET_QUIET_NS) / CLK_S));
        break;
    case LEVEL_CAUSE_REQUEST:
        (void)snprintf(text, n, "asked for, for a time");
        break;
    default:
        (void)snprintf(text, n, "the time it was asked for is over");
        break;
    }
}

void budget_step_text(char text[BUDGET_TEXT], const struct level_step *step)
{
    int n = snprintf(text, BUDGET_TEXT, "from L%u to L%u: ", step->from, step->to);

    if (n > 0 && n < BUDGET_TEXT) {
        cause_text(text + n, BUDGET_TEXT - (size_t)n, step);
    }
}
