/* One host after the other, each in three passes:
 *
 *   1. query_extract: what every process did, some metrics at a time, goes to its cell: image, user
 *      and whether it belongs to the run's tree. Rows over several cells are their sums.
 *   2. Blocks of samples, tick by tick: what the processes of a cell had of a gauge together has
 *      its peak at a moment of its own, which no sum of cells tells. Where samples are gone the
 *      peak is the larger of the mean of the sum and the peak of one: peak_step_ns is 0 then.
 *   3. What is known of every process that lived: starts, ends, exit codes, lives, crashes.
 *
 * Coverage and series are the answers to the questions of that name. A process is found again by a
 * hash of boot, pid and start; two of one hash would be counted as one, which a random seed leaves
 * to chance.
 *
 * While it is being made every row has the slots of all metrics; at the end those that nothing was
 * measured of are taken out. */
#include "collector/lab/extract.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "collector/query/query_extract.h"
#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/lab/ended.h"
#include "common/os/os.h"
#include "common/wire/wire_series.h"

#define SERIES_ROWS   (RUN_FILE_GROUPS_MAX - 1)
#define INSTANCES_MAX (1u << 20) /* of one host */

/* A process of the host that is read. */
struct ex_inst {
    uint32_t row;   /* of its cell */
    int64_t cpu_ns; /* -1: not known */
};

struct ex_life {
    struct run_life life;
    bool crashed;
};

struct extract {
    const struct extract_ask *ask;
    struct query_env env;
    struct run_file *f;
    struct errmsg *why;
    uint64_t seed;
    struct query_answer answer; /* of the questions */
    /* rows, of all hosts */
    struct run_row *rows;
    size_t n_rows, cap_rows, first_row; /* first of the host */
    struct map cells;                   /* of the host, by names and tree: row + 1 */
    uint16_t slots[METRIC_COLS];        /* first slot of each metric */
    size_t n_slots;
    metric_mask have, gauges; /* measured anywhere; which are gauges */
    /* the host that is read */
    struct query_extract_host at;
    struct run_host *host;
    struct ex_inst *insts;
    size_t n_insts, cap_insts;
    struct map by_inst; /* index + 1 */
    uint64_t ticks;
    /* texts that are kept once */
    struct map texts;
    struct str *known;
    size_t n_known, cap_known;
    /* lives */
    struct ex_life *lives;
    struct run_life *crashes;
    size_t n_lives, cap_lives, n_crashes, cap_crashes;
    int64_t step_ns; /* the longest between samples */
    bool coarse;
};

/* -- texts -- */

static enum err text_keep(struct extract *x, struct str s, struct str *out)
{
    uint64_t key = hash_bytes(s.p, s.n, x->seed), at;
    char *copy;
    enum err e;

    if (!s.n) {
        *out = (struct str){"", 0};
        return ERR_OK;
    }
    for (; (at = map_get(&x->texts, key)) != 0; key++) {
        if (str_eq(x->known[at - 1], s)) {
            *out = x->known[at - 1];
            return ERR_OK;
        }
    }
    e = map_reserve(&x->texts);
    e = e ? e : VEC_ROOM(&x->known, &x->cap_known, x->n_known + 1, INSTANCES_MAX);
    copy = e ? NULL : arena_dup(&x->f->memory, s.p, s.n);
    if (!copy) {
        return e ? e : ERR_FULL;
    }
    *out = x->known[x->n_known++] = (struct str){copy, s.n};
    (void)map_put(&x->texts, key, x->n_known);
    return ERR_OK;
}

/* -- rows -- */

static enum err row_add(struct extract *x, uint8_t of, bool in_tree, struct str image,
                        struct str user, uint32_t *at)
{
    enum err e = VEC_ROOM(&x->rows, &x->cap_rows, x->n_rows + 1, RUN_FILE_ROWS_MAX);
    struct run_row *r;

    if (e) {
        return e;
    }
    r = &x->rows[x->n_rows];
    *r = (struct run_row){.host = (uint32_t)(x->host - x->f->hosts), .of = of, .in_tree = in_tree};
    r->values = arena_array(&x->f->memory, x->n_slots, sizeof *r->values);
    e = r->values ? ERR_OK : ERR_FULL;
    e = e ? e : text_keep(x, image, &r->image);
    e = e ? e : text_keep(x, user, &r->user);
    *at = (uint32_t)x->n_rows;
    x->n_rows += !e;
    return e;
}

/* Rows are written until the file is done; to those who read it they are const. */
static int64_t *row_values(const struct run_row *r)
{
    return (int64_t *)(uintptr_t)r->values;
}

static enum err cell_find(struct extract *x, struct str image, struct str user, bool in_tree,
                          uint32_t *row)
{
    uint64_t key = hash_bytes(image.p, image.n, hash_bytes(user.p, user.n, x->seed + in_tree)), at;
    enum err e;

    for (; (at = map_get(&x->cells, key)) != 0; key++) {
        const struct run_row *r = &x->rows[at - 1];

        if (str_eq(r->image, image) && str_eq(r->user, user) && r->in_tree == in_tree) {
            *row = (uint32_t)(at - 1);
            return ERR_OK;
        }
    }
    e = map_reserve(&x->cells);
    e = e ? e : row_add(x, RUN_ROW_CELL, in_tree, image, user, row);
    if (!e) {
        (void)map_put(&x->cells, key, (uint64_t)*row + 1);
    }
    return e;
}

static int64_t sum_capped(int64_t a, int64_t b)
{
    int64_t sum = cell_sum(a, b < 0 ? 0 : b);

    return sum < 0 ? INT64_MAX : sum;
}

static void value_add(struct extract *x, struct run_row *r, uint8_t metric,
                      const struct query_extract_value *v)
{
    int64_t *slot = row_values(r) + x->slots[metric];
    metric_mask bit = METRIC_BIT(metric);

    if (!v->has_total) {
        return;
    }
    slot[0] = (x->gauges & bit) ? slot[0] : sum_capped(slot[0], v->total);
    if (x->gauges & bit) { /* the sum of samples until the host's ticks are known */
        slot[RUN_MEAN_SUM] = sum_capped(slot[RUN_MEAN_SUM], v->total);
        if (v->has_most && v->most > slot[RUN_PEAK_ONE]) {
            slot[RUN_PEAK_ONE] = v->most;
        }
    }
    r->have |= bit;
    x->have |= bit;
}

/* -- first: what each process did -- */

static uint64_t inst_key(const struct extract *x, const struct uuid *boot, struct proc_id id)
{
    const struct {
        struct uuid boot;
        uint64_t start, pid;
    } key = {*boot, id.start, id.pid};

    return hash_bytes(&key, sizeof key, x->seed);
}

static enum err inst_get(struct extract *x, const struct uuid *boot, struct proc_id id,
                         const struct proc_info *info, bool in_tree, struct ex_inst **out)
{
    uint64_t key = inst_key(x, boot, id), at = map_get(&x->by_inst, key);
    struct str none = {"", 0};
    uint32_t row = 0;
    enum err e;

    if (at) {
        *out = &x->insts[at - 1];
        return ERR_OK;
    }
    e = map_reserve(&x->by_inst);
    e = e ? e : VEC_ROOM(&x->insts, &x->cap_insts, x->n_insts + 1, INSTANCES_MAX);
    e = e ? e : cell_find(x, info ? info->name : none, info ? info->user : none, in_tree, &row);
    if (e) {
        return e;
    }
    *out = &x->insts[x->n_insts++];
    **out = (struct ex_inst){row, -1};
    x->rows[row].instances++;
    (void)map_put(&x->by_inst, key, x->n_insts);
    return ERR_OK;
}

static enum err on_inst(void *ctx, const struct query_extract_inst *i)
{
    struct extract *x = ctx;
    struct ex_inst *inst = NULL;
    struct str none = {"", 0};
    uint32_t row = 0;
    enum err e;

    if (i->boot) {
        e = inst_get(x, i->boot, i->id, i->info, i->in_tree, &inst);
        row = e ? 0 : inst->row;
    } else {
        e = cell_find(x, i->info ? i->info->name : none, i->info ? i->info->user : none, false,
                      &row);
    }
    if (e) {
        return e;
    }
    x->rows[row].instances += i->boot || !i->first ? 0 : i->instances;
    for (size_t k = 0; k < i->n; k++) {
        value_add(x, &x->rows[row], i->metrics[k], &i->values[k]);
        if (inst && i->metrics[k] == M_CPU_TIME && i->values[k].has_total) {
            inst->cpu_ns = i->values[k].total;
        }
    }
    if (inst && i->info && i->info->cpu_origin && !x->host->cpu_origin) {
        x->host->cpu_origin = i->info->cpu_origin;
    }
    return ERR_OK;
}

/* -- rows over several cells -- */

static bool rows_of(const struct run_row *cell, const struct run_row *sum)
{
    bool tree = !sum->in_tree || cell->in_tree;

    switch (sum->of) {
    case RUN_ROW_HOST:
        return tree;
    case RUN_ROW_IMAGE:
        return tree && str_eq(cell->image, sum->image);
    default:
        return tree && str_eq(cell->user, sum->user);
    }
}

static void row_sum(const struct extract *x, struct run_row *to, const struct run_row *from)
{
    int64_t *a = row_values(to);
    const int64_t *b = from->values;

    to->instances += from->instances;
    to->starts += from->starts;
    to->ends += from->ends;
    to->failed += from->failed;
    to->crashed += from->crashed;
    to->have |= from->have;
    for (unsigned m = 0; m < METRIC_COLS; m++) {
        size_t s = x->slots[m];

        if (!(from->have & METRIC_BIT(m))) {
            continue;
        }
        if (x->gauges & METRIC_BIT(m)) {
            a[s + RUN_MEAN_SUM] = sum_capped(a[s + RUN_MEAN_SUM], b[s + RUN_MEAN_SUM]);
            a[s + RUN_PEAK_ONE] = b[s + RUN_PEAK_ONE] > a[s + RUN_PEAK_ONE] ? b[s + RUN_PEAK_ONE]
                                                                            : a[s + RUN_PEAK_ONE];
        } else {
            a[s] = sum_capped(a[s], b[s]);
        }
    }
}

/* A sum over the host's cells where there are at least two; of the host always. */
static enum err sum_add(struct extract *x, uint8_t of, bool in_tree, struct str image,
                        struct str user, size_t n_cells)
{
    const struct run_row like = {.of = of, .in_tree = in_tree, .image = image, .user = user};
    size_t fit = 0;

    for (size_t i = x->first_row; i < x->first_row + n_cells; i++) {
        fit += rows_of(&x->rows[i], &like);
    }
    for (size_t i = x->first_row + n_cells; i < x->n_rows; i++) { /* there already */
        const struct run_row *r = &x->rows[i];

        if (r->of == of && r->in_tree == in_tree && str_eq(r->image, image) &&
            str_eq(r->user, user)) {
            return ERR_OK;
        }
    }
    if (of != RUN_ROW_HOST && fit < 2) {
        return ERR_OK;
    }
    return row_add(x, of, in_tree, image, user, &(uint32_t){0});
}

static enum err sums_add(struct extract *x)
{
    struct str none = {"", 0};
    size_t n = x->n_rows - x->first_row;
    enum err e = sum_add(x, RUN_ROW_HOST, false, none, none, n);

    if (!e && x->at.has_tree) {
        e = sum_add(x, RUN_ROW_HOST, true, none, none, n);
    }
    for (size_t i = x->first_row; !e && i < x->first_row + n; i++) {
        struct str image = x->rows[i].image, user = x->rows[i].user;

        for (unsigned tree = 0; !e && tree <= x->at.has_tree; tree++) {
            e = sum_add(x, RUN_ROW_IMAGE, tree, image, none, n);
            e = e ? e : sum_add(x, RUN_ROW_USER, tree, none, user, n);
        }
    }
    for (size_t k = x->first_row + n; !e && k < x->n_rows; k++) {
        for (size_t i = x->first_row; i < x->first_row + n; i++) {
            if (rows_of(&x->rows[i], &x->rows[k])) {
                row_sum(x, &x->rows[k], &x->rows[i]);
            }
        }
    }
    return e;
}

/* -- second: peaks of sums -- */

struct peaks {
    struct extract *x;
    size_t n_cells;
    int64_t *sums; /* cells × ticks of the block that is read */
    size_t cap_sums;
    uint32_t *cells; /* of each run of the block: cell + 1, 0: none */
    size_t cap_cells;
    int64_t *line; /* of a row over several */
    size_t cap_line;
};

static void peak_take(const struct extract *x, struct run_row *r, uint8_t metric,
                      const int64_t *sums, size_t n)
{
    int64_t *peak = row_values(r) + x->slots[metric] + RUN_PEAK_SUM;

    for (size_t i = 0; i < n; i++) {
        *peak = sums[i] > *peak ? sums[i] : *peak;
    }
}

static void peaks_rows(struct peaks *p, uint8_t metric, size_t n)
{
    struct extract *x = p->x;

    for (size_t i = 0; i < p->n_cells; i++) {
        peak_take(x, &x->rows[x->first_row + i], metric, p->sums + i * n, n);
    }
    for (size_t k = x->first_row + p->n_cells; k < x->n_rows; k++) {
        memset(p->line, 0, n * sizeof *p->line);
        for (size_t i = 0; i < p->n_cells; i++) {
            if (rows_of(&x->rows[x->first_row + i], &x->rows[k])) {
                for (size_t t = 0; t < n; t++) {
                    p->line[t] = sum_capped(p->line[t], p->sums[i * n + t]);
                }
            }
        }
        peak_take(x, &x->rows[k], metric, p->line, n);
    }
}

static void peaks_column(struct peaks *p, const struct batch *b, const struct batch_column *c,
                         size_t first, size_t last)
{
    size_t n = last - first, at = 0;
    metric_mask bit = METRIC_BIT(c->metric);

    memset(p->sums, 0, p->n_cells * n * sizeof *p->sums);
    for (size_t r = 0; r < b->n_runs; r++) {
        const struct batch_run *run = &b->runs[r];

        if (!(run->mask & bit)) {
            continue;
        }
        for (size_t t = 0; p->cells[r] && t < run->n_ticks; t++) {
            size_t tick = run->first_tick + t;

            if (tick >= first && tick < last) {
                int64_t *sum = &p->sums[(p->cells[r] - 1) * n + tick - first];

                *sum = sum_capped(*sum, c->values[at + t]);
            }
        }
        at += run->n_ticks;
    }
    peaks_rows(p, c->metric, n);
}

static enum err peaks_block(void *ctx, const struct store_block *block)
{
    struct peaks *p = ctx;
    struct extract *x = p->x;
    const struct batch *b = block->batch;
    size_t first = 0, last = b->n_ticks, n;
    enum err e;

    while (first < last && b->wall_ns[first] < x->at.since_ns) {
        first++;
    }
    while (last > first && b->wall_ns[last - 1] >= x->at.until_ns) {
        last--;
    }
    n = last - first;
    if (!n || !b->n_runs) {
        return ERR_OK;
    }
    e = VEC_ROOM(&p->sums, &p->cap_sums, p->n_cells * n, EXTRACT_MEMORY_MAX / sizeof *p->sums);
    e = e ? e : VEC_ROOM(&p->cells, &p->cap_cells, b->n_runs, SIZE_MAX);
    e = e ? e : VEC_ROOM(&p->line, &p->cap_line, n, SIZE_MAX);
    for (size_t r = 0; !e && r < b->n_runs; r++) {
        uint64_t at = map_get(&x->by_inst, inst_key(x, &b->head.boot, b->runs[r].id));

        p->cells[r] = at ? x->insts[at - 1].row - (uint32_t)x->first_row + 1 : 0;
    }
    for (size_t c = 0; !e && c < b->n_columns; c++) {
        if ((x->gauges & x->have) & METRIC_BIT(b->columns[c].metric)) {
            peaks_column(p, b, &b->columns[c], first, last);
        }
    }
    return e;
}

/* Means are known now; a peak is never below them, whatever samples are gone. */
static void gauges_end(struct extract *x)
{
    for (size_t i = x->first_row; i < x->n_rows; i++) {
        struct run_row *r = &x->rows[i];

        for (unsigned m = 0; m < METRIC_COLS; m++) {
            int64_t *v = row_values(r) + x->slots[m];

            if (!(r->have & x->gauges & METRIC_BIT(m))) {
                continue;
            }
            v[RUN_MEAN_SUM] = x->ticks ? v[RUN_MEAN_SUM] / (int64_t)x->ticks : 0;
            for (unsigned k = RUN_MEAN_SUM; k <= RUN_PEAK_ONE; k++) {
                v[RUN_PEAK_SUM] = v[k] > v[RUN_PEAK_SUM] ? v[k] : v[RUN_PEAK_SUM];
            }
        }
    }
}

static enum err peaks_find(struct extract *x, size_t n_cells)
{
    struct peaks p = {.x = x, .n_cells = n_cells};
    const struct store_range range = {.since_ns = x->at.since_ns,
                                      .until_ns = x->at.until_ns,
                                      .made_since_ns = INT64_MIN,
                                      .metrics = x->gauges & x->have,
                                      .no_rests = true,
                                      .deadline = x->env.deadline};
    enum err e = ERR_OK;

    if (range.metrics && n_cells) {
        e = store_blocks_scan(x->env.view, x->at.host, &range, peaks_block, &p);
    }
    mem_free(p.sums);
    mem_free(p.cells);
    mem_free(p.line);
    return e;
}

/* -- third: lives -- */

static int life_order(const void *a, const void *b)
{
    const struct ex_life *x = a, *y = b;
    int64_t lx = x->life.end_ns - x->life.begin_ns, ly = y->life.end_ns - y->life.begin_ns;

    if (x->crashed != y->crashed) {
        return x->crashed ? -1 : 1;
    }
    if (lx != ly) {
        return lx > ly ? -1 : 1;
    }
    return x->life.begin_ns < y->life.begin_ns ? -1 : x->life.begin_ns > y->life.begin_ns;
}

static int crash_order(const void *a, const void *b)
{
    const struct run_life *x = a, *y = b;

    return x->end_ns < y->end_ns ? -1 : x->end_ns > y->end_ns;
}

static enum err life_make(struct extract *x, const struct uuid *boot, const struct proc_info *info,
                          const struct ex_inst *inst, struct run_life *out)
{
    bool ended = (info->have & INFO_EXITED) && (info->have & INFO_EXIT_TIME) &&
                 info->exit_ns < x->at.until_ns;
    const struct proc_id parent_id = {info->parent_pid, info->parent_start};
    const uint32_t signalled = info->have & INFO_SIGNALLED ? 128 : 0;
    struct proc_info parent;
    enum err e;

    *out = (struct run_life){
        .host = (uint32_t)(x->host - x->f->hosts),
        .pid = info->id.pid,
        .parent_pid = (info->have & INFO_PARENT) ? info->parent_pid : 0,
        .exit_code = ended && (info->have & INFO_EXIT_CODE) ? info->exit_code - signalled : 0,
        .flags = (x->rows[inst->row].in_tree ? RUN_LIFE_IN_TREE : 0u) |
                 (ended ? RUN_LIFE_ENDED : 0u) |
                 (ended && (info->have & INFO_EXIT_INFERRED) ? RUN_LIFE_END_INFERRED : 0u) |
                 (ended && (info->have & INFO_EXIT_CODE) ? RUN_LIFE_EXIT_KNOWN : 0u) |
                 (ended && (info->have & INFO_SIGNALLED) ? RUN_LIFE_SIGNALLED : 0u),
        .start = info->id.start,
        .begin_ns = (info->have & INFO_CREATE_TIME) ? info->create_ns : x->at.since_ns,
        .end_ns = ended ? info->exit_ns : x->at.until_ns,
        .cpu_ns = inst->cpu_ns,
    };
    out->end_ns = out->end_ns > out->begin_ns ? out->end_ns : out->begin_ns;
    e = text_keep(x, info->name, &out->name);
    e = e ? e : text_keep(x, info->user, &out->user);
    if (!e && (info->have & INFO_PARENT) &&
        store_info_brief(x->env.view, x->at.host, boot, parent_id, &parent)) {
        e = text_keep(x, parent.name, &out->parent_name);
    }
    return !e && x->ask->command_lines ? text_keep(x, info->command_line, &out->command) : e;
}

static enum err life_keep(struct extract *x, const struct run_life *life, bool crashed)
{
    enum err e = VEC_ROOM(&x->lives, &x->cap_lives, x->n_lives + 1, 4 * RUN_FILE_LIVES_MAX);

    if (e) {
        return e;
    }
    x->lives[x->n_lives++] = (struct ex_life){*life, crashed};
    if (x->n_lives == 4 * RUN_FILE_LIVES_MAX) {
        qsort(x->lives, x->n_lives, sizeof *x->lives, life_order);
        x->f->lives_left_out += x->n_lives - RUN_FILE_LIVES_MAX;
        x->n_lives = RUN_FILE_LIVES_MAX;
    }
    if (!crashed || x->n_crashes == RUN_FILE_ENDED_MAX) {
        return ERR_OK;
    }
    e = VEC_ROOM(&x->crashes, &x->cap_crashes, x->n_crashes + 1, RUN_FILE_ENDED_MAX);
    if (!e) {
        x->crashes[x->n_crashes++] = *life;
    }
    return e;
}

static bool info_crashed(const struct proc_info *info)
{
    enum ended how;

    return ended_how(info, &how) && how == ENDED_CRASH;
}

static bool in_tree(const struct extract *x, const struct uuid *boot, struct proc_id id)
{
    return x->at.has_tree && memcmp(boot->b, x->env.run->boot.b, sizeof boot->b) == 0 &&
           query_extract_has(x->at.family, x->at.n_family, id);
}

static enum err on_life(void *ctx, const struct uuid *boot, const struct proc_info *info)
{
    struct extract *x = ctx;
    struct ex_inst *inst;
    struct run_life life;
    struct run_row *r;
    bool began, ended;
    enum err e;

    if (info->id.pid == 0) {
        return ERR_OK;
    }
    e = inst_get(x, boot, info->id, info, in_tree(x, boot, info->id), &inst);
    e = e ? e : life_make(x, boot, info, inst, &life);
    if (e) {
        return e;
    }
    r = &x->rows[inst->row];
    began = (info->have & INFO_CREATE_TIME) && info->create_ns >= x->at.since_ns &&
            info->create_ns < x->at.until_ns;
    ended = (life.flags & RUN_LIFE_ENDED) && info->exit_ns >= x->at.since_ns;
    r->starts += began;
    r->ends += ended;
    r->failed += ended && life.exit_code != 0;
    r->crashed += ended && info_crashed(info);
    return life_keep(x, &life, ended && info_crashed(info));
}

static enum err lives_find(struct extract *x)
{
    const struct store_instances ask = {
        .since_ns = x->at.since_ns, .until_ns = x->at.until_ns, .brief = !x->ask->command_lines};

    return store_info_each(x->env.view, x->at.host, &ask, on_life, x);
}

/* -- host by host -- */

static enum err host_end(struct extract *x)
{
    size_t n_cells;
    enum err e;

    if (!x->host) {
        return ERR_OK;
    }
    e = lives_find(x); /* they may add cells */
    n_cells = x->n_rows - x->first_row;
    e = e ? e : sums_add(x);
    e = e ? e : peaks_find(x, n_cells);
    if (!e) {
        gauges_end(x);
    }
    return e;
}

static struct run_host *host_by_id(struct extract *x, const struct uuid *id)
{
    struct run_host *all = (struct run_host *)(uintptr_t)x->f->hosts;

    for (size_t i = 0; i < x->f->n_hosts; i++) {
        if (memcmp(all[i].id.b, id->b, sizeof id->b) == 0) {
            return &all[i];
        }
    }
    return NULL;
}

static enum err on_host(void *ctx, const struct query_extract_host *h)
{
    struct extract *x = ctx;
    enum err e = host_end(x);

    if (e) {
        return e;
    }
    x->at = *h;
    x->host = host_by_id(x, &h->about->id);
    assert(x->host);
    x->first_row = x->n_rows;
    x->n_insts = 0;
    map_clear(&x->by_inst);
    map_clear(&x->cells);
    x->ticks = h->ticks->ticks;
    x->coarse = x->coarse || h->coarse;
    if (h->ticks->ticks > 1) {
        x->host->step_ns = clk_sub(h->ticks->last_wall_ns, h->ticks->first_wall_ns) /
                           (int64_t)(h->ticks->ticks - 1);
        x->step_ns = x->host->step_ns > x->step_ns ? x->host->step_ns : x->step_ns;
    }
    return ERR_OK;
}

static enum err tables_make(struct extract *x)
{
    const struct wire_query ask = {.limit = 1};
    const struct query_extract to = {on_host, on_inst, x};
    struct query_answer scratch;
    enum err e = query_extract(&scratch, &x->env, &ask, &to, x->why);

    e = e ? e : host_end(x);
    query_answer_fini(&scratch);
    return e;
}

/* -- hosts -- */

static enum err hosts_make(struct extract *x)
{
    const struct query_run *run = x->env.run;
    struct arena *a = &x->f->memory;
    struct run_host *hosts = arena_array(a, run->n, sizeof *hosts);
    enum err e = ERR_OK;

    if (!hosts) {
        return ERR_FULL;
    }
    x->f->hosts = hosts;
    for (size_t i = 0; !e && i < store_view_hosts(x->env.view); i++) {
        const struct store_host *h = store_view_host(x->env.view, i);
        struct run_host *out = &hosts[x->f->n_hosts];
        struct query_host_state state = {.connected = false};
        const struct query_run_host *of = NULL;

        for (size_t k = 0; k < run->n && !of; k++) {
            of = memcmp(run->hosts[k].id.b, h->id.b, sizeof h->id.b) == 0 ? &run->hosts[k] : NULL;
        }
        if (!of) {
            continue;
        }
        *out = (struct run_host){.id = h->id,
                                 .polled = (h->flags & BATCH_POLLED) != 0,
                                 .absent = true,
                                 .begin_ns = of->since_ns,
                                 .end_ns = of->until_ns ? of->until_ns : clk_add(h->last_ns, 1),
                                 .clock_error_ns = x->ask->clock_error_ns};
        e = text_keep(x, str_make(h->name), &out->name);
        e = e ? e : text_keep(x, str_make(h->source), &out->source);
        if (!e && x->env.host_state && x->env.host_state(x->env.ctx, &h->id, &state)) {
            e = text_keep(x, str_make(state.version), &out->agent);
        }
        if (!e && h->clock.known && h->clock.bounded) {
            out->clock_error_ns += h->clock.error_ns;
        }
        x->f->n_hosts += !e;
        e = !e && x->ask->about ? x->ask->about(x->ask->ctx, &h->id, a, out) : e;
    }
    return e;
}

/* -- what arrived -- */

static enum err cover_take(struct extract *x, const struct wire_coverage *c, struct run_host *h)
{
    struct arena *a = &x->f->memory;
    size_t n_spans = c->n_spans < RUN_FILE_SPANS_MAX ? c->n_spans : RUN_FILE_SPANS_MAX;
    size_t n_stages = c->n_stages < RUN_FILE_STAGES_MAX ? c->n_stages : RUN_FILE_STAGES_MAX;
    struct run_span *spans = arena_array(a, n_spans, sizeof *spans);
    struct run_stage *stages = arena_array(a, n_stages, sizeof *stages);
    enum err e = spans && stages ? ERR_OK : ERR_FULL;

    for (size_t i = 0; !e && i < n_spans; i++) {
        const struct wire_loss_span *s = &c->spans[i];

        spans[i] = (struct run_span){s->first_ns, s->last_ns, s->ticks, s->events,
                                     c->at_most && !s->events};
    }
    for (size_t i = 0; !e && i < n_stages; i++) {
        const struct wire_stage *s = &c->stages[i];

        stages[i] = (struct run_stage){.role = s->role, .unit = s->unit, .count = s->count};
        e = text_keep(x, s->stage, &stages[i].stage);
        e = e ? e : text_keep(x, s->reason, &stages[i].reason);
    }
    h->ppm = c->ppm;
    h->at_most = c->at_most;
    h->absent = c->missing;
    h->ticks = c->ticks;
    h->lost_ticks = c->lost_ticks;
    h->events = c->events;
    h->lost_events = c->lost_events;
    h->spans = spans;
    h->n_spans = e ? 0 : n_spans;
    h->stages = stages;
    h->n_stages = e ? 0 : n_stages;
    return e;
}

static enum err cover_make(struct extract *x)
{
    struct wire_query ask = {.limit = WIRE_ROWS_MAX, .stages = true};
    char cursor[WIRE_CURSOR_MAX];
    bool more = true;
    enum err e = ERR_OK;

    while (!e && more) {
        struct query_answer *a = &x->answer;

        e = query_run(a, QUERY_COVERAGE, &x->env, &ask, x->why);
        for (size_t i = 0; !e && i < a->data.n_coverage; i++) {
            const struct wire_coverage *c = &a->data.coverage[i];
            struct run_host *h = host_by_id(x, &a->data.hosts[c->host].id);

            e = h ? cover_take(x, c, h) : ERR_OK;
        }
        more = !e && a->more;
        if (more) {
            memcpy(cursor, a->cursor, a->cursor_n);
            ask.cursor = (struct str){cursor, a->cursor_n};
        }
        query_answer_fini(a);
    }
    return e;
}

/* -- series -- */

static enum err series_take(struct extract *x, const struct wire_answer *a)
{
    const struct wire_series *s = a->series;
    struct run_series *out = &x->f->series;
    struct arena *m = &x->f->memory;
    size_t n = s->n_groups * a->n_metrics * (size_t)s->n_buckets;
    struct str *groups = arena_array(m, s->n_groups, sizeof *groups);
    int64_t *values = arena_array(m, n, sizeof *values);
    enum err e = groups && values ? ERR_OK : ERR_FULL;

    for (size_t g = 0; !e && g < s->n_groups; g++) {
        e = text_keep(x, g < a->n_rows ? a->rows[g].info.name : str_make("(rest)"), &groups[g]);
    }
    for (size_t i = 0; !e && i < n; i++) {
        const struct wire_series_column *c = &s->columns[i / s->n_buckets];
        uint32_t b = (uint32_t)(i % s->n_buckets);

        values[i] = wire_series_has(c, b) && c->avg[b] >= 0 ? c->avg[b] : -1;
    }
    *out = (struct run_series){.t0_ns = s->t0_ns,
                               .step_ns = s->step_ns,
                               .n_buckets = s->n_buckets,
                               .n_groups = e ? 0 : s->n_groups,
                               .n_metrics = a->n_metrics,
                               .groups = groups,
                               .values = values};
    out->present = arena_dup(m, s->present, s->n_buckets * sizeof *s->present);
    out->metrics = arena_dup(m, a->metrics, a->n_metrics);
    return e ? e : out->present && out->metrics ? ERR_OK : ERR_FULL;
}

static enum err series_make(struct extract *x)
{
    const struct wire_query ask = {
        .limit = SERIES_ROWS,
        .group_by = WIRE_GROUP_IMAGE,
        .buckets = RUN_FILE_BUCKETS_MAX,
        .n_metrics = 4,
        .metrics = {M_CPU_TIME, M_PRIVATE_BYTES, M_READ_BYTES, M_WRITE_BYTES}};
    enum err e = query_run(&x->answer, QUERY_SERIES, &x->env, &ask, x->why);

    if (!e && x->answer.data.series && x->answer.data.series->n_buckets &&
        x->answer.data.series->n_buckets <= RUN_FILE_BUCKETS_MAX) {
        e = series_take(x, &x->answer.data);
    }
    query_answer_fini(&x->answer);
    return e;
}

/* -- the file -- */

/* Every metric has its slots at first. */
static void layout_wide(struct extract *x)
{
    for (const struct metric *m = metric_next(NULL); m; m = metric_next(m)) {
        if (m->column) {
            bool gauge = m->kind == METRIC_GAUGE;

            x->slots[m->id] = (uint16_t)x->n_slots;
            x->n_slots += gauge ? RUN_GAUGE_SLOTS : 1;
            x->gauges |= gauge ? METRIC_BIT(m->id) : 0;
        }
    }
}

/* Then those that were measured. */
static enum err layout_narrow(struct extract *x)
{
    struct run_file *f = x->f;
    uint8_t ids[METRIC_COLS];
    struct run_column *columns;

    for (unsigned m = 0; m < METRIC_COLS; m++) {
        if (x->have & METRIC_BIT(m)) {
            ids[f->n_columns++] = (uint8_t)m;
        }
    }
    columns = arena_array(&f->memory, f->n_columns, sizeof *columns);
    if (!columns) {
        return ERR_FULL;
    }
    f->n_slots = run_file_layout(columns, ids, f->n_columns);
    f->columns = columns;
    for (size_t i = 0; i < x->n_rows; i++) { /* slots move down only */
        int64_t *v = row_values(&x->rows[i]);

        for (size_t c = 0; c < f->n_columns; c++) {
            size_t n = columns[c].gauge ? RUN_GAUGE_SLOTS : 1;

            memmove(v + columns[c].slot, v + x->slots[columns[c].metric], n * sizeof *v);
        }
    }
    f->rows = arena_dup(&f->memory, x->rows, x->n_rows * sizeof *x->rows);
    f->n_rows = x->n_rows;
    return f->rows ? ERR_OK : ERR_FULL;
}

static enum err lives_end(struct extract *x)
{
    struct run_file *f = x->f;
    size_t n = x->n_lives < RUN_FILE_LIVES_MAX ? x->n_lives : RUN_FILE_LIVES_MAX;
    struct run_life *lives;

    if (x->n_lives) {
        qsort(x->lives, x->n_lives, sizeof *x->lives, life_order);
    }
    if (x->n_crashes) {
        qsort(x->crashes, x->n_crashes, sizeof *x->crashes, crash_order);
    }
    f->lives_left_out += x->n_lives - n;
    lives = arena_array(&f->memory, n, sizeof *lives);
    for (size_t i = 0; lives && i < n; i++) {
        lives[i] = x->lives[i].life;
    }
    f->lives = lives;
    f->n_lives = lives ? n : 0;
    f->crashes = arena_dup(&f->memory, x->crashes, x->n_crashes * sizeof *x->crashes);
    f->n_crashes = x->n_crashes;
    return f->lives && f->crashes ? ERR_OK : ERR_FULL;
}

static enum err head_make(struct extract *x)
{
    struct run_head *h = &x->f->head;
    struct run_pair *labels;
    enum err e;

    *h = x->ask->head;
    if (!h->made_by.n) {
        h->made_by = str_make("procfleet-collector " PROCFLEET_VERSION);
    }
    h->revision = h->revision ? h->revision : 1;
    labels = arena_array(&x->f->memory, h->n_labels, sizeof *labels);
    e = labels ? text_keep(x, h->name, &h->name) : ERR_FULL;
    e = e ? e : text_keep(x, h->owner, &h->owner);
    e = e ? e : text_keep(x, h->source, &h->source);
    for (size_t i = 0; !e && i < h->n_labels; i++) {
        e = text_keep(x, h->labels[i].key, &labels[i].key);
        e = e ? e : text_keep(x, h->labels[i].value, &labels[i].value);
    }
    h->labels = labels;
    return e;
}

static enum err extract_all(struct extract *x)
{
    enum err e = head_make(x);

    e = e ? e : hosts_make(x);
    e = e ? e : cover_make(x);
    e = e ? e : tables_make(x);
    e = e ? e : series_make(x);
    e = e ? e : layout_narrow(x);
    e = e ? e : lives_end(x);
    if (!e && x->f->head.has_root && !x->at.has_tree) {
        x->f->head.root_pid = 0; /* it was not seen: the whole host was taken */
    }
    if (!e && !x->f->head.peak_step_ns) {
        x->f->head.peak_step_ns = x->coarse ? 0 : x->step_ns;
    }
    return e;
}

enum err extract_run(struct run_file **out, const struct extract_ask *ask, struct errmsg *why)
{
    struct extract x = {.ask = ask, .env = ask->env, .why = why, .f = mem_zalloc(sizeof *x.f)};
    enum err e = x.f ? os_random(&x.seed, sizeof x.seed) : ERR_NOMEM;

    x.env.run = ask->run;
    if (x.f) {
        arena_init(&x.f->memory, EXTRACT_MEMORY_MAX);
    }
    layout_wide(&x);
    e = e ? e : extract_all(&x);
    map_fini(&x.cells);
    map_fini(&x.by_inst);
    map_fini(&x.texts);
    mem_free(x.known);
    mem_free(x.rows);
    mem_free(x.insts);
    mem_free(x.lives);
    mem_free(x.crashes);
    if (e) {
        run_file_free(x.f);
        return e;
    }
    *out = x.f;
    return ERR_OK;
}
