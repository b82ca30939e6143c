#include "collector/rules/rules_test.h"

#include <stdlib.h>
#include <string.h>

#include "collector/rules/rules_live.h"
#include "collector/rules/rules_replay.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/deadline.h"

#define MEMORY_MAX ((size_t)64 << 20)
#define SLACK_NS   (5 * CLK_S) /* as live */

struct testing {
    const struct rules_test_conf *conf;
    struct rules_test *out;
    struct rules_replay *replay;
    struct rules_up ups[RULES_DB_UPS];
    size_t n_ups;
    struct rules_runs runs;
    enum err e; /* of a change */
};

static int64_t testing_deadline(void *ctx, int64_t step_ns, int64_t late_ns)
{
    const struct testing *x = ctx;

    return rules_db_deadline(x->ups, x->n_ups, step_ns, late_ns);
}

static unsigned testing_runs(void *ctx, const struct uuid *host, int64_t when_ns)
{
    const struct testing *x = ctx;

    return rules_db_runs_open(&x->runs, host, when_ns);
}

static const struct facts *testing_facts(void *ctx, const struct uuid *host, const char *name,
                                         struct arena *a)
{
    const struct testing *x = ctx;

    return x->conf->facts ? x->conf->facts(x->conf->ctx, host, name, a) : NULL;
}

static struct str testing_class(void *ctx, const struct facts *f, struct arena *a)
{
    const struct testing *x = ctx;

    return x->conf->host_class ? x->conf->host_class(x->conf->ctx, f, a) : str_make("");
}

static bool testing_info(void *ctx, const struct uuid *host, const struct uuid *boot,
                         struct proc_id id, struct proc_info *out)
{
    const struct testing *x = ctx;

    return rules_replay_info(x->replay, host, boot, id, out);
}

/* As rules_db_write decides it: of one rule and host they come in the order of time. */
static void change_limit(const struct rules_test *t, struct rules_change *c)
{
    int64_t since_ns = clk_sub(c->notice.step_ns, c->at_most_ns);
    uint32_t sent = 0;
    uint64_t skipped = 0;

    for (size_t i = t->n; c->at_most && i > 0; i--) {
        const struct rules_change *b = &t->changes[i - 1];

        if (!str_eq(b->notice.rule, c->notice.rule) ||
            memcmp(b->id.b, c->id.b, sizeof b->id.b) != 0) {
            continue;
        }
        sent += !b->held && b->notice.step_ns > since_ns;
        skipped += b->held && sent == 0 && skipped < i;
        if (b->notice.step_ns <= since_ns && !b->held) {
            break;
        }
    }
    c->held = c->at_most && sent >= c->at_most;
    c->notice.skipped = c->held ? 0 : skipped;
}

static void testing_change(void *ctx, const struct rules_subject *s)
{
    struct testing *x = ctx;
    struct rules_test *t = x->out;
    struct rules_change c;
    enum err e;

    if (s->step_ns > x->conf->until_ns || x->e) {
        return;
    }
    e = VEC_ROOM(&t->changes, &t->cap, t->n + 1, RULES_TEST_CHANGES);
    e = e ? e : rules_db_change(&c, s, &t->memory);
    if (e == ERR_FULL) {
        t->more = true;
    } else if (e) {
        x->e = e;
    } else {
        const char *by = rules_db_runs_silence(&x->runs, &c.id, c.notice.rule, c.notice.step_ns);
        char *copy = by ? arena_dup(&t->memory, by, strlen(by) + 1) : NULL;

        c.notice.silenced = str_make(copy ? copy : "");
        change_limit(t, &c);
        t->changes[t->n++] = c;
    }
}

static int by_step(const void *a, const void *b)
{
    const struct rules_change *x = a, *y = b;
    int d;

    if (x->notice.step_ns != y->notice.step_ns) {
        return x->notice.step_ns < y->notice.step_ns ? -1 : 1;
    }
    d = strcmp(x->host, y->host);
    return d ? d : strcmp(x->notice.id, y->notice.id);
}

static bool is_cross(const struct rules_conf *c)
{
    bool cross = false;

    for (size_t i = 0; i < rules_conf_n(c); i++) {
        const struct rules_rule *r = rules_conf_rule(c, i);

        cross = cross || r->many != RULES_ANY || r->of >= RULES_CLASS;
    }
    return cross;
}

/* Rules over several hosts want them side by side, else one host after the other is cheaper. */
static enum err testing_feed(struct testing *x, struct rules_judge *j)
{
    const struct rules_test_conf *conf = x->conf;
    int64_t first_ns = conf->since_ns - rules_conf_span(conf->rules) - RULES_STEP_NS;
    int64_t last_ns = clk_add(conf->until_ns, rules_conf_wait(conf->rules) + 60 * CLK_S);
    int64_t piece_ns = is_cross(conf->rules) ? RULES_REPLAY_CHUNK_NS : last_ns - first_ns;
    enum err e = ERR_OK;

    for (int64_t at = first_ns; !e && at < last_ns; at += piece_ns) {
        for (size_t i = 0; !e && i < store_view_hosts(conf->view); i++) {
            const struct store_host *h = store_view_host(conf->view, i);
            int64_t off = h->clock.known ? h->clock.offset_ns : 0;

            if (h->last_ns >= clk_sub(at, off) && conf->wants(conf->ctx, h)) {
                e = rules_replay_host(x->replay, j, i, clk_sub(at, off),
                                      clk_sub(clk_add(at, piece_ns), off), conf->deadline);
            }
            e = !e && deadline_passed(conf->deadline) ? ERR_TIMEOUT : e;
        }
        rules_judge_close(j);
    }
    return e;
}

static enum err testing_run(struct testing *x, struct rules_judge *j)
{
    const struct rules_test_conf *conf = x->conf;
    int64_t end_ns = clk_add(conf->until_ns, rules_conf_wait(conf->rules) + 120 * CLK_S);
    enum err e;

    store_info_range(conf->view, conf->since_ns, conf->until_ns);
    e = testing_feed(x, j);
    if (!e) {
        rules_judge_time(j, end_ns < conf->now_ns - SLACK_NS ? end_ns : conf->now_ns - SLACK_NS);
        rules_judge_counts(j, &x->out->counts);
        for (size_t i = 0; i < rules_conf_n(conf->rules); i++) {
            rules_judge_watch(j, i, &x->out->watch[i]);
        }
    }
    return e ? e : x->e;
}

enum err rules_test_run(struct rules_test *out, const struct rules_test_conf *conf)
{
    struct testing x = {.conf = conf, .out = out};
    const struct rules_judge_conf judge = {.rules = conf->rules,
                                           .since_ns = conf->since_ns,
                                           .all_refs = conf->watch,
                                           .env = {.change = testing_change,
                                                   .facts = testing_facts,
                                                   .host_class = testing_class,
                                                   .runs = testing_runs,
                                                   .deadline = testing_deadline,
                                                   .info = testing_info,
                                                   .ctx = &x}};
    struct rules_judge *j = NULL;
    enum err e;

    *out = (struct rules_test){.n = 0};
    arena_init(&out->memory, MEMORY_MAX);
    out->watch = mem_array(rules_conf_n(conf->rules) + 1, sizeof *out->watch);
    e = out->watch ? rules_db_up(conf->db, x.ups, &x.n_ups) : ERR_NOMEM;
    e = e ? e : rules_db_runs(conf->db, conf->since_ns, conf->until_ns, &x.runs);
    e = e ? e : rules_replay_create(&x.replay, conf->rules, conf->view);
    e = e ? e : rules_judge_create(&j, &judge);
    e = e ? e : testing_run(&x, j);
    rules_judge_destroy(j);
    rules_replay_destroy(x.replay);
    rules_db_runs_free(&x.runs);
    if (!e && out->n) {
        qsort(out->changes, out->n, sizeof *out->changes, by_step);
    }
    return e;
}

void rules_test_fini(struct rules_test *t)
{
    mem_free(t->changes);
    mem_free(t->watch);
    arena_fini(&t->memory);
}
