#include "collector/cli/lab.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define LOOK_NS (500 * CLK_MS)

static enum err lab_fail(const struct cli *c, int *code, enum err e, const char *what)
{
    *code = cli_fail(c, CLI_FAILED, "%s", what[0] ? what : err_text(e));
    return e;
}

void lab_close(struct lab *x)
{
    compare_free(x->answer);
    run_set_destroy(x->set);
    mem_free(x->a.runs);
    mem_free(x->b.runs);
    mem_free(x->history);
    x->answer = NULL;
    x->set = NULL;
    x->a.runs = x->b.runs = x->history = NULL;
}

static enum err set_open(struct lab *x, struct cli *c, struct errmsg *why)
{
    const char *dir = opt_value(c->args, "runs");
    enum err e = run_set_create(&x->set);

    if (e || !dir) {
        return e ? e
                 : errmsg_set(why, ERR_USAGE,
                              "--runs is missing: the directory that has the run files");
    }
    return run_set_add_dir(x->set, dir, why);
}

static enum err side_find(struct lab *x, struct lab_side *side, unsigned sections,
                          struct errmsg *why)
{
    const struct run_file *const *all;
    size_t n = run_set_list(x->set, &all);

    side->runs = mem_array(n ? n : 1, sizeof(void *));
    return side->runs ? run_set_find(x->set, side->patterns, side->n_patterns, false, sections,
                                     side->runs, &side->n_runs, why)
                      : ERR_NOMEM;
}

static bool side_is_open(const struct lab_side *side)
{
    for (size_t i = 0; i < side->n_runs; i++) {
        if (side->runs[i]->head.state <= RUN_CLOSING) {
            return true;
        }
    }
    return side->n_runs == 0;
}

/* a's runs and those before them, for the noise floor: all of its names that are not b's. */
static enum err history_find(struct lab *x, unsigned sections, struct errmsg *why)
{
    const struct run_file *const *all;
    size_t n = run_set_list(x->set, &all);

    x->history = mem_array(n ? n : 1, sizeof(void *));
    return x->history ? run_set_find(x->set, x->a.patterns, x->a.n_patterns, true, sections,
                                     x->history, &x->n_history, why)
                      : ERR_NOMEM;
}

static enum err sides_find(struct lab *x, struct cli *c, unsigned sections, struct errmsg *why)
{
    enum err e = set_open(x, c, why);

    if (!e) {
        e = side_find(x, &x->a, sections, why);
    }
    if (!e) {
        e = side_find(x, &x->b, sections, why);
    }
    return e ? e : history_find(x, sections, why);
}

static void side_text(struct lab_side *side)
{
    size_t n = 0;

    for (size_t i = 0; i < side->n_patterns && n < sizeof side->text; i++) {
        n += (size_t)snprintf(side->text + n, sizeof side->text - n, "%s%s", i ? ", " : "",
                              side->patterns[i]);
    }
}

static void ask_fill(struct lab *x, const struct cli *c)
{
    size_t a = x->a.n_runs, b = x->b.n_runs, h = x->n_history, max = COMPARE_RUNS_MAX;

    x->ask.a = x->a.runs + (a > max ? a - max : 0); /* the newest */
    x->ask.b = x->b.runs + (b > max ? b - max : 0);
    x->ask.history = x->history + (h > max ? h - max : 0);
    x->ask.n_a = a < max ? a : max;
    x->ask.n_b = b < max ? b : max;
    x->ask.n_history = h < max ? h : max;
    x->ask.pair = cli_word(c, "pair", COMPARE_PAIR_HOST);
    x->ask.replicate = cli_word(c, "replicate", COMPARE_REPLICATE_RUN);
    x->ask.overlap = opt_flag(c->args, "overlap");
    x->ask.assume_stable = opt_flag(c->args, "assume-stable");
    x->ask.failed = opt_flag(c->args, "all");
    x->print = (struct compare_print){.a = x->a.text, .b = x->b.text};
}

enum err lab_open(struct lab *x, struct cli *c, int64_t wait_ns, unsigned sections, int *code)
{
    int64_t end_ns = os_mono_ns() + wait_ns;
    struct errmsg why = {""};
    enum err e;

    side_text(&x->a);
    side_text(&x->b);
    for (;;) {
        e = sides_find(x, c, sections, &why);
        if (e == ERR_USAGE) {
            *code = cli_fail(c, CLI_USAGE, "%s", why.text);
            return e;
        }
        if (e) {
            return lab_fail(c, code, e, why.text);
        }
        if ((!side_is_open(&x->a) && !side_is_open(&x->b)) || os_mono_ns() >= end_ns) {
            break;
        }
        lab_close(x);
        x->a.n_runs = x->b.n_runs = x->n_history = 0;
        os_sleep_ns(LOOK_NS);
    }
    ask_fill(x, c);
    return ERR_OK;
}

enum err lab_compare(struct lab *x, struct cli *c, int *code)
{
    enum err e = compare_runs(&x->answer, &x->ask);

    x->print.c = x->answer;
    return e ? lab_fail(c, code, e, e == ERR_FULL ? "these are more data than can be compared" : "")
             : ERR_OK;
}
