/* Runs the view: keys and answers change it, it is drawn, what changed is written. */
#include "collector/cli/watch/watch_run.h"

#include <string.h>

#include "collector/cli/cli_client.h"
#include "collector/cli/term/term.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/uuid.h"

#define PICTURE_MAX  (16u << 20) /* bytes of one picture: every cell of the largest screen styled */
#define FLEET_NS     (5 * CLK_S) /* how often the numbers of the fleet are asked for */
#define RETRY_NS     (300 * CLK_MS) /* behind an attempt that failed at once */
#define HISTORY_ROWS 180u           /* what a plot shows */
#define EVENT_PAGES  64             /* read to find the newest */

/* -- asking: on a thread of its own, so that keys never wait for an answer. One question at a time;
 * a newer one takes the place of one that waits. -- */

struct asker {
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
    struct asker *a;
    const struct watch_question *q;
    struct watch_answer *out;
    struct errmsg why;
};

static enum err round_fetch(struct round *r, const char *method, const struct wire_query *q,
                            struct wire_answer **out, struct cli_client_cursor *next)
{
    return cli_client_fetch(r->a->link, method, q, out, next, &r->why);
}

/* Labels, and several hosts unless one was chosen since; of processes the condition, too. */
static void round_given(struct wire_query *ask, const struct watch_question *q, bool where)
{
    const struct wire_query *g = q->given;

    if (!g) {
        return;
    }
    ask->n_labels = g->n_labels;
    memcpy(ask->labels, g->labels, sizeof ask->labels);
    if (!q->host[0]) {
        ask->n_hosts = g->n_hosts;
        memcpy(ask->hosts, g->hosts, sizeof ask->hosts);
    }
    ask->events.where = where ? g->events.where : str_make("");
}

static struct wire_query round_query(const struct watch_question *q)
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

static enum err round_table(struct round *r)
{
    struct wire_query ask = round_query(r->q);

    ask.by = r->q->by;
    ask.group_by = r->q->group_by;
    ask.exited = r->q->exited;
    ask.n_metrics = r->q->n_metrics;
    memcpy(ask.metrics, r->q->metrics, r->q->n_metrics);
    round_given(&ask, r->q, true);
    return round_fetch(r, RPC_QUERY_TOP, &ask, &r->out->rows, NULL);
}

/* Hosts by state, and what all of them use together. */
static enum err round_fleet(struct round *r)
{
    struct wire_query ask = {.host = str_make(r->q->host),
                             .last_ns = r->q->window_ns,
                             .limit = WIRE_ROWS_MAX,
                             .group_by = WIRE_GROUP_HOST,
                             .n_metrics = 1,
                             .metrics = {M_CPU_PERCENT}};
    enum err e;

    round_given(&ask, r->q, false);
    e = round_fetch(r, RPC_QUERY_OVERVIEW, &ask, &r->out->overview, NULL);
    return e ? e : round_fetch(r, RPC_QUERY_TOP, &ask, &r->out->hosts, NULL);
}

static enum err round_details(struct round *r)
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
    enum err e = round_fetch(r, RPC_QUERY_TREE, &ask, &r->out->tree, NULL);

    ask.has_pid = true;
    ask.pid = who->pid;
    ask.start = who->start;
    ask.step_ns = step_ns > CLK_S ? step_ns : CLK_S;
    ask.n_metrics = sizeof metrics;
    memcpy(ask.metrics, metrics, sizeof metrics);
    return e ? e : round_fetch(r, RPC_QUERY_HISTORY, &ask, &r->out->rows, NULL);
}

/* They come oldest first; the newest are on the last page. */
static enum err round_events(struct round *r)
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
        e = round_fetch(r, RPC_QUERY_EVENTS, &ask, &page, &next);
        if (!e && (page->n_events || !r->out->rows)) {
            wire_answer_free(r->out->rows);
            r->out->rows = page;
        } else {
            wire_answer_free(page);
        }
    }
    return e;
}

static struct watch_answer *round_run(struct asker *a, const struct watch_question *q)
{
    struct round r = {.a = a, .q = q, .out = mem_zalloc(sizeof *r.out)};
    enum err e;

    if (!r.out) {
        return NULL; /* the next round may have more luck */
    }
    r.out->question = *q;
    e = q->page == WATCH_DETAILS  ? round_details(&r)
        : q->page == WATCH_EVENTS ? round_events(&r)
                                  : round_table(&r);
    if (!e && q->fleet) {
        e = round_fleet(&r);
    }
    r.out->when_ns = os_utc_ns();
    if (e) {
        const char *text = r.why.text[0] ? r.why.text : err_text(e);

        memcpy(r.out->problem, text, strlen(text) + 1);
    }
    return r.out;
}

/* -- the thread -- */

static void asker_wait(struct asker *a)
{
    while (!a->asked && !a->stopping) {
        os_cond_wait(a->changed);
    }
}

/* A collector that is away refuses at once: pause before the next attempt. */
static void asker_rest(struct asker *a)
{
    int64_t until_ns = os_mono_ns() + RETRY_NS;

    while (!a->stopping && os_cond_wait_until(a->changed, until_ns) != ERR_TIMEOUT) {
        continue;
    }
}

static void asker_run(void *arg)
{
    struct asker *a = arg;

    os_mutex_lock(a->mutex);
    for (;;) {
        struct watch_question q;
        struct watch_answer *answer;
        bool failed;

        asker_wait(a);
        if (a->stopping) {
            break;
        }
        q = a->question;
        a->asked = false;
        a->busy = true;
        os_mutex_unlock(a->mutex);
        answer = round_run(a, &q);
        failed = !answer || answer->problem[0];
        os_mutex_lock(a->mutex);
        a->busy = false;
        watch_answer_free(a->answer);
        a->answer = answer;
        os_mutex_unlock(a->mutex);
        a->on_answer(a->ctx);
        os_mutex_lock(a->mutex);
        if (failed) {
            asker_rest(a);
        }
    }
    os_mutex_unlock(a->mutex);
}

/* Hangs the link up. */
static void asker_stop(struct asker *a)
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

/* on_answer: called on the thread when there is an answer to take. The link is borrowed until
 * asker_stop. Errors: ERR_NOMEM and those of os_thread_start */
static enum err asker_start(struct asker **out, struct cli_client *link,
                            void (*on_answer)(void *ctx), void *ctx)
{
    struct asker *a = mem_zalloc(sizeof *a);
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
        e = os_thread_start(&a->thread, "ask", asker_run, a);
    }
    if (e) {
        asker_stop(a);
        return e;
    }
    *out = a;
    return ERR_OK;
}

static void asker_put(struct asker *a, const struct watch_question *q)
{
    os_mutex_lock(a->mutex);
    a->question = *q;
    a->asked = true;
    os_cond_wake_all(a->changed);
    os_mutex_unlock(a->mutex);
}

/* A question waits or is asked. */
static bool asker_busy(struct asker *a)
{
    bool busy;

    os_mutex_lock(a->mutex);
    busy = a->busy || a->asked;
    os_mutex_unlock(a->mutex);
    return busy;
}

/* Owned; NULL when there is none. */
static struct watch_answer *asker_take(struct asker *a)
{
    struct watch_answer *answer;

    os_mutex_lock(a->mutex);
    answer = a->answer;
    a->answer = NULL;
    os_mutex_unlock(a->mutex);
    return answer;
}

/* -- the loop -- */

struct loop {
    struct watch *w;
    struct term *term;
    struct asker *ask;
    struct keys keys;
    int64_t key_ns; /* monotonic: when the last byte of a key came */
    struct screen *shown, *next;
    struct buf out;
    bool colours, anew;       /* anew: what the terminal shows is unknown */
    bool stop, again;         /* again: ask at once */
    int64_t ask_ns, fleet_ns; /* monotonic: when to ask next */
};

static void on_answer(void *ctx)
{
    term_wake(ctx);
}

/* -- drawing -- */

static void loop_show(struct loop *l)
{
    struct screen *swap;
    unsigned rows, columns;

    term_size(l->term, &rows, &columns);
    if (screen_reset(l->next, rows, columns) != ERR_OK) {
        return;
    }
    rows = screen_rows(l->next);
    columns = screen_columns(l->next);
    watch_fit(l->w, rows, columns);
    watch_draw(l->w, l->next, os_utc_ns());
    buf_reset(&l->out);
    screen_diff(&l->out, l->anew ? NULL : l->shown, l->next, l->colours);
    l->anew = l->out.bad != ERR_OK;
    if (l->out.n && !l->out.bad) {
        term_write(l->term, l->out.p, l->out.n);
    }
    swap = l->shown;
    l->shown = l->next;
    l->next = swap;
}

/* -- asking -- */

static void loop_ask(struct loop *l, int64_t now_ns)
{
    struct watch_question q = l->w->ask;

    q.fleet = now_ns >= l->fleet_ns;
    if (q.fleet) {
        l->fleet_ns = now_ns + FLEET_NS;
    }
    asker_put(l->ask, &q);
    l->ask_ns = now_ns + l->w->every_ns;
    l->again = false;
}

static void loop_ask_when_due(struct loop *l, int64_t now_ns)
{
    bool due = now_ns >= l->ask_ns && !l->w->paused && !asker_busy(l->ask);

    if (l->again || due) {
        loop_ask(l, now_ns);
    }
}

static void loop_take_answer(struct loop *l)
{
    struct watch_answer *a = asker_take(l->ask);

    if (a) {
        if (a->problem[0]) {
            l->fleet_ns = 0; /* what the question lost is asked again */
        }
        watch_take(l->w, a);
    }
}

/* -- keys -- */

static void loop_act(struct loop *l, const struct key *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned wish = watch_key(l->w, &keys[i]);

        l->stop = l->stop || (wish & WATCH_QUIT);
        l->again = l->again || (wish & WATCH_AGAIN);
        l->anew = l->anew || (wish & (WATCH_SUSPEND | WATCH_REDRAW));
        if (wish & WATCH_SUSPEND) {
            term_suspend(l->term);
        }
    }
}

static void loop_read_keys(struct loop *l)
{
    uint8_t bytes[256];
    size_t n = term_read(l->term, bytes, sizeof bytes);

    l->key_ns = os_mono_ns();
    for (size_t i = 0; i < n && !l->stop; i++) {
        struct key keys[KEYS_OUT];

        loop_act(l, keys, keys_byte(&l->keys, bytes[i], keys));
    }
}

/* Until a key's rest, the next question, or the clock of a lost connection moves on. */
static int64_t loop_wait_ns(const struct loop *l, int64_t now_ns)
{
    int64_t ns = l->w->paused ? CLK_S : l->ask_ns - now_ns;
    int64_t rest_ns = l->key_ns + keys_wait_ns(&l->keys) - now_ns;

    ns = ns > CLK_S ? CLK_S : ns;
    ns = keys_begun(&l->keys) && rest_ns < ns ? rest_ns : ns;
    return ns < 50 * CLK_MS ? 50 * CLK_MS : ns;
}

static void loop_turn(struct loop *l)
{
    unsigned saw = term_wait(l->term, loop_wait_ns(l, os_mono_ns()));
    struct key keys[KEYS_OUT];

    l->stop = l->stop || (saw & TERM_STOP);
    l->anew = l->anew || (saw & TERM_RESIZED);
    if (saw & TERM_KEYS) {
        loop_read_keys(l);
    } else if (keys_begun(&l->keys)) {
        loop_act(l, keys, keys_idle(&l->keys, os_mono_ns() - l->key_ns, keys));
    }
    loop_take_answer(l);
}

static void loop_run(struct loop *l)
{
    while (!l->stop) {
        loop_ask_when_due(l, os_mono_ns());
        loop_show(l);
        loop_turn(l);
    }
}

static int loop_start(struct cli *c, struct loop *l, struct cli_client *link)
{
    struct errmsg why = {""};
    enum err e = ERR_OK;

    if (screen_create(&l->shown, !term_is_utf8()) != ERR_OK ||
        screen_create(&l->next, !term_is_utf8()) != ERR_OK) {
        return cli_fail(c, CLI_FAILED, "out of memory");
    }
    e = term_open(&l->term, &why);
    if (e) {
        return cli_fail(c, e == ERR_INVALID ? CLI_USAGE : CLI_FAILED, "--watch: %s", why.text);
    }
    e = asker_start(&l->ask, link, on_answer, l->term);
    if (!e) {
        loop_run(l);
    }
    asker_stop(l->ask); /* it wakes the terminal: that is given back last */
    term_close(l->term);
    return e ? cli_fail(c, CLI_FAILED, "%s", err_text(e)) : CLI_OK;
}

int watch_run(struct cli *c, struct watch *w)
{
    struct loop l = {.w = w, .colours = style_wanted(), .anew = true, .again = true};
    struct errmsg why = {""};
    struct cli_client *link;
    int code = CLI_FAILED;

    if (term_usable(&why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "--watch: %s", why.text);
    }
    if (cli_client_open(&link, c, &code) != ERR_OK) {
        return code;
    }
    buf_init(&l.out, PICTURE_MAX);
    code = loop_start(c, &l, link);
    buf_fini(&l.out);
    screen_destroy(l.shown);
    screen_destroy(l.next);
    cli_client_close(link);
    return code;
}
