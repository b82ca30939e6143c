#include "agent/etl/etl_stack_rows.h"

#include <stdlib.h>

#include "agent/etl/stack/etl_stack_out.h"
#include "common/base/mem.h"

enum {
    FILE_NAME,
    FRAME,
    SELF,
    SELF_SHARE,
    TOTAL,
    TOTAL_SHARE,
    SELF_BEFORE,
    SELF_GROWTH,
    TOTAL_BEFORE,
    TOTAL_GROWTH,
    COLUMNS
};
#define COLUMNS_ALONE SELF_BEFORE

static struct table_column columns_of(enum table_unit unit, size_t i)
{
    const struct table_column all[COLUMNS] = {
        [FILE_NAME] = {"file", "FILE", TABLE_TEXT},
        [FRAME] = {"frame", "FRAME", TABLE_TEXT},
        [SELF] = {"self", "SELF", unit},
        [SELF_SHARE] = {"self_share", "SELF%", TABLE_PERMILLE},
        [TOTAL] = {"total", "TOTAL", unit},
        [TOTAL_SHARE] = {"total_share", "TOTAL%", TABLE_PERMILLE},
        [SELF_BEFORE] = {"self_before", "SELF_BEFORE", unit},
        [SELF_GROWTH] = {"self_growth", "SELF%+", TABLE_PERMILLE},
        [TOTAL_BEFORE] = {"total_before", "TOTAL_BEFORE", unit},
        [TOTAL_GROWTH] = {"total_growth", "TOTAL%+", TABLE_PERMILLE},
    };

    return all[i];
}

struct row {
    uint64_t self, total, self_before, total_before;
    int64_t self_growth, total_growth; /* of the share, permille */
    uint32_t name;
};

static int by_self(const void *pa, const void *pb)
{
    const struct row *a = pa, *b = pb;

    if (a->self != b->self) {
        return a->self > b->self ? -1 : 1;
    }
    if (a->total != b->total) {
        return a->total > b->total ? -1 : 1;
    }
    return (a->name > b->name) - (a->name < b->name);
}

/* With --diff: what grew most or went away. */
static int by_growth(const void *pa, const void *pb)
{
    const struct row *a = pa, *b = pb;
    int64_t of_a = a->self_growth < 0 ? -a->self_growth : a->self_growth;
    int64_t of_b = b->self_growth < 0 ? -b->self_growth : b->self_growth;

    return of_a != of_b ? (of_a > of_b ? -1 : 1) : by_self(pa, pb);
}

static int64_t permille(uint64_t part, uint64_t whole)
{
    return whole ? (int64_t)((double)part * 1000 / (double)whole + 0.5) : 0;
}

static enum err put_row(const struct etl_stack_rows *s, struct table *sheet, const char *file,
                        const struct row *r, struct str name)
{
    struct table_cell cells[COLUMNS];

    cells[FILE_NAME] = table_string(str_make(file));
    cells[FRAME] = table_string(name);
    cells[SELF] = table_count(r->self);
    cells[SELF_SHARE] = table_number(true, permille(r->self, s->weight));
    cells[TOTAL] = table_count(r->total);
    cells[TOTAL_SHARE] = table_number(true, permille(r->total, s->weight));
    cells[SELF_BEFORE] = table_count(r->self_before);
    cells[SELF_GROWTH] = table_number(true, r->self_growth);
    cells[TOTAL_BEFORE] = table_count(r->total_before);
    cells[TOTAL_GROWTH] = table_number(true, r->total_growth);
    return table_row(sheet, cells);
}

static enum err put_frames(const struct etl_stack_rows *s, struct table *sheet, const char *file)
{
    const struct str *all;
    uint64_t *self, *total;
    struct row *rows;
    uint64_t before = s->base ? s->base->weight : 0;
    size_t names, n = 0;
    enum err e;

    all = etl_stack_names_all(s->names, &names);
    self = mem_array(names, sizeof *self);
    total = mem_array(names, sizeof *total);
    rows = mem_array(names, sizeof *rows);
    e = self && total && rows ? etl_stack_out_sums(s->tree, self, total) : ERR_NOMEM;

    for (size_t i = 0; i < names && !e; i++) {
        struct row r = {.self = self[i], .total = total[i], .name = (uint32_t)i};

        if (s->base && i < s->base->n) {
            r.self_before = s->base->self[i];
            r.total_before = s->base->total[i];
        }
        r.self_growth = permille(r.self, s->weight) - permille(r.self_before, before);
        r.total_growth = permille(r.total, s->weight) - permille(r.total_before, before);
        if (r.total || r.total_before) {
            rows[n++] = r;
        }
    }
    if (n) {
        qsort(rows, n, sizeof *rows, s->base ? by_growth : by_self);
    }
    for (size_t i = 0; i < n && i < s->limit && !e && etl_job_out_ok(s->job); i++) {
        e = put_row(s, sheet, file, &rows[i], all[rows[i].name]);
    }
    if (n > s->limit) {
        etl_job_note(sheet, file, "%zu further frames (--limit)", n - (size_t)s->limit);
    }
    mem_free(self);
    mem_free(total);
    mem_free(rows);
    return e;
}

/* -- by tag -- */

/* The tag of what ends at each node, by those of its frames: a caller stands before its callees. */
static void tags_down(const struct etl_stack_rows *s, const uint32_t *tags, uint32_t *of)
{
    of[0] = 0;
    for (uint32_t i = 1; i < s->tree->n; i++) {
        uint32_t own = tags[s->tree->nodes[i].frame], above = of[s->tree->nodes[i].parent];

        of[i] = etl_stack_tags_priority(s->tags, own) >= etl_stack_tags_priority(s->tags, above)
                    ? own
                    : above;
    }
}

static enum err put_tags(const struct etl_stack_rows *s, struct table *sheet, const char *file)
{
    size_t names, n = etl_stack_tags_count(s->tags);
    const struct str *all = etl_stack_names_all(s->names, &names);
    uint32_t *tags = mem_array(names, sizeof *tags);
    uint32_t *of = mem_array(s->tree->n, sizeof *of);
    struct row *rows = mem_array(n, sizeof *rows);
    enum err e = tags && of && rows ? ERR_OK : ERR_NOMEM;

    for (size_t i = 0; i < names && !e; i++) {
        tags[i] = etl_stack_tags_of(s->tags, all[i]);
    }
    if (!e) {
        tags_down(s, tags, of);
    }
    for (uint32_t i = 1; i < s->tree->n && !e; i++) {
        rows[of[i]].self += s->tree->nodes[i].weight;
    }
    for (size_t i = 0; i < n && !e; i++) {
        rows[i].name = (uint32_t)i;
        rows[i].total = rows[i].self;
    }
    if (!e) {
        qsort(rows, n, sizeof *rows, by_self);
    }
    for (size_t i = 0; i < n && i < s->limit && !e && rows[i].self && etl_job_out_ok(s->job); i++) {
        e = put_row(s, sheet, file, &rows[i], etl_stack_tags_name(s->tags, rows[i].name));
    }
    mem_free(tags);
    mem_free(of);
    mem_free(rows);
    return e;
}

enum err etl_stack_rows_put(const struct etl_stack_rows *r, struct table *sheet, const char *file)
{
    return r->tags ? put_tags(r, sheet, file) : put_frames(r, sheet, file);
}

enum err etl_stack_rows_all(struct etl_job *job, enum table_unit unit, bool compared,
                            enum err (*part)(struct etl_job *job, size_t part, struct table *sheet,
                                             void *ctx),
                            void *ctx, struct errmsg *why)
{
    static const char *const yields[] = {"FILE",  "TOTAL_BEFORE", "SELF_BEFORE",
                                         "SELF%", "TOTAL%",       NULL};
    struct table_column columns[COLUMNS];
    const struct etl_job_list list = {
        columns, compared ? COLUMNS : COLUMNS_ALONE, yields, "the stacks", part, ctx};

    for (size_t i = 0; i < COLUMNS; i++) {
        columns[i] = columns_of(unit, i);
    }
    return etl_job_rows(job, &list, why);
}
