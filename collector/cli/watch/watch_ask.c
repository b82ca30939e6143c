#include "collector/cli/watch/watch_ask.h"

#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/uuid.h"

#define RETRY_NS     (300 * CLK_MS) /* behind an attempt that failed at once */
#define HISTORY_ROWS 180u           /* what a plot shows */
#define EVENT_PAGES  64             /* read to find the newest */

struct watch_ask {
    struct cli_client *link;
    void (*on_answer)(void *ctx);
    void *ctx;
    struct os_thread *thread;
    struct os_mutex *mutex; /* guards what follows */
    struct os_cond *changed;
    bool stopping, asked, busy;
    struct watch_question question;
    struct watch_answer *answer;
};

/* -- one round -- */

struct round {
    struct watch_ask *a;
    const struct watch_question *q;
    struct watch_answer *out;
    struct errmsg why;
};

static enum err fetch(struct round *r, const char *method, const struct wire_query *q,
                      struct wire_answer **out, struct cli_client_cursor *next)
{
    return cli_client_fetch(r->a->link, method, q, out, next, &r->why);
}

static struct wire_query filtered(const struct watch_question *q)
{
    struct wire_query ask = {.host = str_make(q->host),
                             .name = str_make(q->name),
                             .has_pid = q->has_pid,
                             .pid = q->pid,
                             .last_ns = q->window_ns,
                             .idle = q->idle,
                             .folded = q->folded,
                             .limit = q->limit};

    return ask;
}

static enum err ask_table(struct round *r)
{
    struct wire_query ask = filtered(r->q);

    ask.by = r->q->by;
    ask.group_by = r->q->group_by;
    ask.exited = r->q->exited;
    ask.n_metrics = r->q->n_metrics;
    memcpy(ask.metrics, r->q->metrics, r->q->n_metrics);
    return fetch(r, RPC_QUERY_TOP, &ask, &r->out->rows, NULL);
}

/* Hosts by state, and what all of them use together. */
static enum err ask_fleet(struct round *r)
{
    struct wire_query ask = {.host = str_make(r->q->host),
                             .last_ns = r->q->window_ns,
                             .limit = WIRE_ROWS_MAX,
                             .group_by = WIRE_GROUP_HOST,
                             .n_metrics = 1,
                             .metrics = {M_CPU_PERCENT}};
    enum err e = fetch(r, RPC_QUERY_OVERVIEW, &ask, &r->out->overview, NULL);

    return e ? e : fetch(r, RPC_QUERY_TOP, &ask, &r->out->hosts, NULL);
}

static enum err ask_details(struct round *r)
{
    static const uint8_t metrics[] = {M_CPU_PERCENT, M_WORKING_SET_SIZE, M_READ_BYTES,
                                      M_WRITE_BYTES, M_THREAD_COUNT};
    const struct watch_who *who = &r->q->who;
    int64_t step_ns = r->q->past_ns / HISTORY_ROWS / CLK_S * CLK_S;
    char host[UUID_TEXT];
    struct wire_query ask = {.host = str_make(uuid_format(host, &who->host)),
                             .last_ns = r->q->past_ns,
                             .idle = true,
                             .limit = WIRE_ROWS_MAX};
    enum err e = fetch(r, RPC_QUERY_TREE, &ask, &r->out->tree, NULL);

    ask.has_pid = true;
    ask.pid = who->pid;
    ask.start = who->start;
    ask.step_ns = step_ns > CLK_S ? step_ns : CLK_S;
    ask.n_metrics = sizeof metrics;
    memcpy(ask.metrics, metrics, sizeof metrics);
    return e ? e : fetch(r, RPC_QUERY_HISTORY, &ask, &r->out->rows, NULL);
}

/* They come oldest first; the newest are on the last page. */
static enum err ask_events(struct round *r)
{
    char host[UUID_TEXT];
    struct wire_query ask = {.host = str_make(uuid_format(host, &r->q->who.host)),
                             .last_ns = r->q->past_ns,
                             .limit = WIRE_ROWS_MAX};
    struct cli_client_cursor next = {0};
    enum err e = ERR_OK;

    for (int i = 0; !e && i < EVENT_PAGES && (i == 0 || next.n); i++) {
        struct cli_client_cursor at = next;
        struct wire_answer *page = NULL;

        ask.cursor = (struct str){at.bytes, at.n};
        e = fetch(r, RPC_QUERY_EVENTS, &ask, &page, &next);
        if (!e && (page->n_events || !r->out->rows)) {
            wire_answer_free(r->out->rows);
            r->out->rows = page;
        } else {
            wire_answer_free(page);
        }
    }
    return e;
}

static struct watch_answer *ask_round(struct watch_ask *a, const struct watch_question *q)
{
    struct round r = {.a = a, .q = q, .out = mem_zalloc(sizeof *r.out)};
    enum err e;

    if (!r.out) {
        return NULL; /* the next round may have more luck */
    }
    r.out->question = *q;
    e = q->page == WATCH_DETAILS  ? ask_details(&r)
        : q->page == WATCH_EVENTS ? ask_events(&r)
                                  : ask_table(&r);
    if (!e && q->fleet) {
        e = ask_fleet(&r);
    }
    r.out->when_ns = os_utc_ns();
    if (e) {
        const char *text = r.why.text[0] ? r.why.text : err_text(e);

        memcpy(r.out->problem, text, strlen(text) + 1);
    }
    return r.out;
}

/* -- the thread -- */

static void wait_for_question(struct watch_ask *a)
{
    while (!a->asked && !a->stopping) {
        os_cond_wait(a->changed);
    }
}

/* A collector that is away refuses at once: nobody is helped by a thousand attempts a second. */
static void rest(struct watch_ask *a)
{
    int64_t until_ns = os_mono_ns() + RETRY_NS;

    while (!a->stopping && os_cond_wait_until(a->changed, until_ns) != ERR_TIMEOUT) {
        continue;
    }
}

static void run(void *arg)
{
    struct watch_ask *a = arg;

    os_mutex_lock(a->mutex);
    for (;;) {
        struct watch_question q;
        struct watch_answer *answer;
        bool failed;

        wait_for_question(a);
        if (a->stopping) {
            break;
        }
        q = a->question;
        a->asked = false;
        a->busy = true;
        os_mutex_unlock(a->mutex);
        answer = ask_round(a, &q);
        failed = !answer || answer->problem[0];
        os_mutex_lock(a->mutex);
        a->busy = false;
        watch_answer_free(a->answer);
        a->answer = answer;
        os_mutex_unlock(a->mutex);
        a->on_answer(a->ctx);
        os_mutex_lock(a->mutex);
        if (failed) {
            rest(a);
        }
    }
    os_mutex_unlock(a->mutex);
}

enum err watch_ask_start(struct watch_ask **out, struct cli_client *link,
                         void (*on_answer)(void *ctx), void *ctx)
{
    struct watch_ask *a = mem_zalloc(sizeof *a);
    enum err e;

    if (!a) {
        return ERR_NOMEM;
    }
    a->link = link;
    a->on_answer = on_answer;
    a->ctx = ctx;
    e = os_mutex_create(&a->mutex);
    if (!e) {
        e = os_cond_create(&a->changed, a->mutex);
    }
    if (!e) {
        e = os_thread_start(&a->thread, "ask", run, a);
    }
    if (e) {
        watch_ask_stop(a);
        return e;
    }
    *out = a;
    return ERR_OK;
}

void watch_ask_stop(struct watch_ask *a)
{
    if (!a) {
        return;
    }
    if (a->thread) {
        os_mutex_lock(a->mutex);
        a->stopping = true;
        os_cond_wake_all(a->changed);
        os_mutex_unlock(a->mutex);
        cli_client_hang_up(a->link);
        os_thread_join(a->thread);
    }
    watch_answer_free(a->answer);
    os_cond_destroy(a->changed);
    os_mutex_destroy(a->mutex);
    mem_free(a);
}

void watch_ask_put(struct watch_ask *a, const struct watch_question *q)
{
    os_mutex_lock(a->mutex);
    a->question = *q;
    a->asked = true;
    os_cond_wake_all(a->changed);
    os_mutex_unlock(a->mutex);
}

bool watch_ask_busy(struct watch_ask *a)
{
    bool busy;

    os_mutex_lock(a->mutex);
    busy = a->busy || a->asked;
    os_mutex_unlock(a->mutex);
    return busy;
}

struct watch_answer *watch_ask_take(struct watch_ask *a)
{
    struct watch_answer *answer;

    os_mutex_lock(a->mutex);
    answer = a->answer;
    a->answer = NULL;
    os_mutex_unlock(a->mutex);
    return answer;
}
