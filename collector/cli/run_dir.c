#include "collector/cli/run_dir.h"

#include <stdio.h>

#include "common/base/glob.h"
#include "common/base/mem.h"
#include "common/lab/host_class.h"
#include "common/lab/run_set.h"

/* The runs that a pattern names, by time; *set is run_set_destroy's, *runs mem_free's. */
static int dir_find(struct cli *c, const char *dir, const char *pattern, unsigned sections,
                    struct run_set **set, const struct run_file ***runs, size_t *n)
{
    const struct run_file *const *all;
    struct errmsg why = {""};
    enum err e = run_set_create(set);

    e = e ? e : run_set_add_dir(*set, dir, &why);
    if (!e) {
        *runs = mem_array(run_set_list(*set, &all) + 1, sizeof(void *));
        e = *runs ? run_set_find(*set, &pattern, 1, false, sections, *runs, n, &why) : ERR_NOMEM;
    }
    return e ? cli_fail(c, CLI_FAILED, "%s", why.text[0] ? why.text : err_text(e)) : CLI_OK;
}

static bool labels_fit(const struct wire_runs_ask *ask, const struct run_head *h)
{
    for (size_t i = 0; i < ask->n_labels; i++) {
        bool fits = false;

        for (size_t k = 0; k < h->n_labels && !fits; k++) {
            fits = str_eq(ask->labels[i].key, h->labels[k].key) &&
                   glob_match(ask->labels[i].value, h->labels[k].value);
        }
        if (!fits) {
            return false;
        }
    }
    return true;
}

static bool run_fits(const struct wire_runs_ask *ask, const struct run_head *h)
{
    return (!ask->states || ask->states >> h->state & 1) &&
           (!ask->since_ns || h->end_ns >= ask->since_ns) &&
           (!ask->until_ns || h->begin_ns < ask->until_ns) && labels_fit(ask, h);
}

/* "Windows 11/26100/i7-12700/20c/32G ×20" when all are of one class. */
static void classes_put(char *text, size_t size, const struct run_file *f)
{
    char class[HOST_CLASS_TEXT], other[HOST_CLASS_TEXT];
    size_t n = 0;
    bool same = true;

    class[0] = text[0] = '\0';
    for (size_t i = 0; i < f->n_hosts; i++) {
        const struct run_host *h = &f->hosts[i];

        if (h->absent) {
            continue;
        }
        (void)host_class_text(n ? other : class, h->facts, h->n_facts, host_class_default);
        same = same && (n == 0 || strcmp(class, other) == 0);
        n++;
    }
    if (class[0]) {
        (void)snprintf(text, size, same ? "%s \u00d7%zu" : "%s and others \u00d7%zu", class, n);
    }
}

static enum err run_tell(const struct run_file *f,
                         enum err (*each)(void *ctx, const struct wire_run *run), void *ctx)
{
    const struct run_head *h = &f->head;
    struct wire_label labels[RUN_FILE_LABELS_MAX];
    char classes[HOST_CLASS_TEXT + 32];
    uint64_t ppm = 0;
    struct wire_run run = {.id = h->id,
                           .parent = h->parent,
                           .name = h->name,
                           .owner = h->owner,
                           .state = h->state,
                           .began_ns = h->begin_ns,
                           .ended_ns = h->end_ns,
                           .has_exit = h->has_exit,
                           .exit_code = h->exit_code,
                           .n_labels = h->n_labels,
                           .labels = labels,
                           .hosts_asked = (uint32_t)f->n_hosts,
                           .revision = h->revision ? h->revision : 1};

    for (size_t i = 0; i < h->n_labels; i++) {
        labels[i] = (struct wire_label){h->labels[i].key, h->labels[i].value};
    }
    for (size_t i = 0; i < f->n_hosts; i++) {
        const struct run_host *host = &f->hosts[i];

        run.hosts_in += !host->absent;
        ppm += host->ppm;
        run.error_ns = host->clock_error_ns > run.error_ns ? host->clock_error_ns : run.error_ns;
    }
    run.coverage = f->n_hosts ? (uint32_t)(ppm / f->n_hosts) : 0;
    classes_put(classes, sizeof classes, f);
    run.classes = str_make(classes);
    return each(ctx, &run);
}

int run_dir_list(struct cli *c, const char *dir, const struct wire_runs_ask *ask, uint32_t limit,
                 enum err (*each)(void *ctx, const struct wire_run *run), void *ctx, bool *more)
{
    char pattern[WIRE_RUN_SPEC_MAX + 1] = "*";
    const struct run_file **runs = NULL;
    struct run_set *set = NULL;
    size_t n = 0;
    uint32_t shown = 0;
    int code;

    if (ask->name.n) {
        (void)snprintf(pattern, sizeof pattern, "%.*s", (int)ask->name.n, ask->name.p);
    }
    *more = false;
    code = dir_find(c, dir, pattern, 0, &set, &runs, &n);
    for (size_t i = n; code == CLI_OK && i-- > 0;) {
        enum err e = ERR_OK;

        if (!run_fits(ask, &runs[i]->head)) {
            continue;
        }
        *more = shown == limit;
        if (*more) {
            break;
        }
        e = run_tell(runs[i], each, ctx);
        shown++;
        code = e ? cli_fail(c, CLI_FAILED, "%s", err_text(e)) : CLI_OK;
    }
    mem_free(runs);
    run_set_destroy(set);
    return code;
}

int run_dir_show(struct cli *c, const char *dir, const char *name,
                 int (*show)(struct cli *c, const struct run_file *f))
{
    const struct run_file **runs = NULL;
    struct run_set *set = NULL;
    size_t n = 0;
    int code = dir_find(c, dir, name, RUN_FILE_ALL, &set, &runs, &n);

    if (code == CLI_OK && n == 0) {
        code = cli_fail(c, CLI_FAILED, "no run '%s' in %s", name, dir);
    }
    code = code == CLI_OK ? show(c, runs[n - 1]) : code;
    mem_free(runs);
    run_set_destroy(set);
    return code;
}
