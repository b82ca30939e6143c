/* The loop: keys and answers change the view, the view is drawn, what changed is written. */
#include "collector/cli/watch/watch_run.h"

#include "collector/cli/cli_client.h"
#include "collector/cli/term/term.h"
#include "collector/cli/watch/watch_ask.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define PICTURE_MAX \
    (16u << 20)              /* bytes of one picture, every cell of the largest screen styled \
                              */
#define FLEET_NS (5 * CLK_S) /* figures of the fleet are asked for no more often */

struct loop {
    struct watch *w;
    struct term *term;
    struct watch_ask *ask;
    struct keys keys;
    int64_t key_ns; /* monotonic: when the last byte of a key came */
    struct screen *shown, *next;
    struct buf out;
    bool colours, anew;       /* nobody knows what the terminal shows */
    bool stop, again;         /* again: ask at once */
    int64_t ask_ns, fleet_ns; /* monotonic: when to ask next */
};

static void on_answer(void *ctx)
{
    term_wake(ctx);
}

/* -- drawing -- */

static void show(struct loop *l)
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

static void ask(struct loop *l, int64_t now_ns)
{
    struct watch_question q = l->w->ask;

    q.fleet = now_ns >= l->fleet_ns;
    if (q.fleet) {
        l->fleet_ns = now_ns + FLEET_NS;
    }
    watch_ask_put(l->ask, &q);
    l->ask_ns = now_ns + l->w->every_ns;
    l->again = false;
}

static void ask_when_due(struct loop *l, int64_t now_ns)
{
    bool due = now_ns >= l->ask_ns && !l->w->paused && !watch_ask_busy(l->ask);

    if (l->again || due) {
        ask(l, now_ns);
    }
}

static void take_answer(struct loop *l)
{
    struct watch_answer *a = watch_ask_take(l->ask);

    if (a) {
        if (a->problem[0]) {
            l->fleet_ns = 0; /* what the question lost is asked again */
        }
        watch_take(l->w, a);
    }
}

/* -- keys -- */

static void act(struct loop *l, const struct key *keys, size_t n)
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

static void read_keys(struct loop *l)
{
    uint8_t bytes[256];
    size_t n = term_read(l->term, bytes, sizeof bytes);

    l->key_ns = os_mono_ns();
    for (size_t i = 0; i < n && !l->stop; i++) {
        struct key keys[KEYS_OUT];

        act(l, keys, keys_byte(&l->keys, bytes[i], keys));
    }
}

/* -- the loop -- */

/* Until a key's rest, the next question, or the clock of a lost connection moves on. */
static int64_t patience(const struct loop *l, int64_t now_ns)
{
    int64_t ns = l->w->paused ? CLK_S : l->ask_ns - now_ns;
    int64_t rest_ns = l->key_ns + keys_wait_ns(&l->keys) - now_ns;

    ns = ns > CLK_S ? CLK_S : ns;
    ns = keys_begun(&l->keys) && rest_ns < ns ? rest_ns : ns;
    return ns < 50 * CLK_MS ? 50 * CLK_MS : ns;
}

static void turn(struct loop *l)
{
    unsigned saw = term_wait(l->term, patience(l, os_mono_ns()));
    struct key keys[KEYS_OUT];

    l->stop = l->stop || (saw & TERM_STOP);
    l->anew = l->anew || (saw & TERM_RESIZED);
    if (saw & TERM_KEYS) {
        read_keys(l);
    } else if (keys_begun(&l->keys)) {
        act(l, keys, keys_idle(&l->keys, os_mono_ns() - l->key_ns, keys));
    }
    take_answer(l);
}

static void run(struct loop *l)
{
    while (!l->stop) {
        ask_when_due(l, os_mono_ns());
        show(l);
        turn(l);
    }
}

static int start(struct cli *c, struct loop *l, struct cli_client *link)
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
    e = watch_ask_start(&l->ask, link, on_answer, l->term);
    if (!e) {
        run(l);
    }
    watch_ask_stop(l->ask); /* it wakes the terminal: that is given back last */
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
    code = start(c, &l, link);
    buf_fini(&l.out);
    screen_destroy(l.shown);
    screen_destroy(l.next);
    cli_client_close(link);
    return code;
}
