/* A column is a bucket of the answer's density. A process takes the columns from that of its start
 * to that of its end, at least one, and the first lane of its group that is free there; what finds
 * none is counted in a line below, where a failure still shows. Those that lived throughout are one
 * pale line, so that lanes are for what changed. */
#include "collector/cli/plot/lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/text/humanize.h"
#include "common/text/style.h"

#define LABEL       22u /* columns of a label, the blank behind it included */
#define LANES_MAX   64u
#define INDENT_MAX  6u
#define TICK_WIDTH  14u /* columns from one moment on the axis to the next, at least */
#define WHOLE       1000000u
#define BAR_LEVELS  8u
#define NAME_BUFFER 4096u

enum sign {
    SIGN_NONE,
    SIGN_HATCH,
    SIGN_BEFORE,
    SIGN_QUIET,
    SIGN_THROUGH,
    SIGN_BODY,
    SIGN_BEGIN,
    SIGN_END,
    SIGN_SHORT,
    SIGN_FAILED,
    SIGN_INFERRED,
    SIGN_FADE,
    SIGN_BAR, /* and the levels above it */
    SIGNS = SIGN_BAR + BAR_LEVELS,
};

static const struct {
    const char *utf8, *ascii, *meaning;
    unsigned style;
} signs[SIGNS] = {
    [SIGN_NONE] = {" ", " ", NULL, STYLE_PLAIN},
    [SIGN_HATCH] = {"\xe2\x95\xb1", "/", "not all data arrived", STYLE_YELLOW},
    [SIGN_BEFORE] = {"\xc2\xb7", ".", "before the first data", STYLE_DIM},
    [SIGN_QUIET] = {"\xc2\xb7", ".", "no agent ran", STYLE_DIM},
    [SIGN_THROUGH] = {"\xe2\x96\x91", ":", "lived throughout", STYLE_DIM},
    [SIGN_BODY] = {"\xe2\x94\x81", "=", NULL, STYLE_PLAIN},
    [SIGN_BEGIN] = {"\xe2\x95\xba", "[", NULL, STYLE_PLAIN},
    [SIGN_END] = {"\xe2\x95\xb8", "]", NULL, STYLE_PLAIN},
    [SIGN_SHORT] = {"\xe2\x96\xaa", "o", "shorter than a column", STYLE_PLAIN},
    [SIGN_FAILED] = {"\xe2\x9c\x95", "X", "ended with a code other than 0", STYLE_RED | STYLE_BOLD},
    [SIGN_INFERRED] = {"\xe2\x89\x88", "~", "ended then or before", STYLE_PLAIN},
    [SIGN_FADE] = {"\xe2\x94\x84", "-", "start or end not known", STYLE_PLAIN},
    [SIGN_BAR] = {"\xe2\x96\x81", "_", NULL, STYLE_CYAN},
    {"\xe2\x96\x82", ".", NULL, STYLE_CYAN},
    {"\xe2\x96\x83", ":", NULL, STYLE_CYAN},
    {"\xe2\x96\x84", "-", NULL, STYLE_CYAN},
    {"\xe2\x96\x85", "=", NULL, STYLE_CYAN},
    {"\xe2\x96\x86", "+", NULL, STYLE_CYAN},
    {"\xe2\x96\x87", "*", NULL, STYLE_CYAN},
    {"\xe2\x96\x88", "#", NULL, STYLE_CYAN},
};

struct lane_group {
    uint32_t key; /* index of a name or a host */
    uint32_t n, through, changed;
    uint32_t first; /* of its processes in by_group */
};

struct drawing {
    const struct lanes *how;
    const struct wire_answer *a;
    const struct wire_lifetimes *l;
    struct buf *out;
    uint32_t n; /* columns */
    uint32_t n_groups;
    struct lane_group *groups;
    uint32_t *by_group; /* processes, group by group, by start */
    uint8_t cells[LANES_MAX][LANES_COLUMNS_MAX];
    uint32_t beyond[LANES_COLUMNS_MAX]; /* processes that found no lane */
    bool failed[LANES_COLUMNS_MAX];     /* one of them with a code other than 0 */
    bool used[SIGNS];
    uint32_t before; /* columns in front of the first data of any host */
    uint32_t host;   /* that the line is of; n_hosts: all */
};

unsigned lanes_buckets(unsigned columns)
{
    return columns > LABEL ? columns - LABEL : 1;
}

/* -- lines -- */

static void put_label(struct drawing *d, const char *text, size_t n)
{
    size_t cut = humanize_prefix(text, n, LABEL - 1);

    buf_put(d->out, text, cut);
    for (size_t w = humanize_width(text, cut); w < LABEL; w++) {
        buf_put_u8(d->out, ' ');
    }
}

static unsigned sign_style(const struct drawing *d, uint8_t sign, uint32_t column)
{
    bool pale = d->l->present[column] == 0 && sign != SIGN_HATCH;

    return signs[sign].style | (pale ? STYLE_DIM : 0);
}

/* Whether something is known to be lost in the column, of the line's host or of any. */
static bool column_has_loss(const struct drawing *d, uint32_t column)
{
    int64_t from_ns = clk_add(d->l->t0_ns, column * d->l->step_ns);

    for (size_t i = 0; i < d->a->n_coverage; i++) {
        const struct wire_coverage *c = &d->a->coverage[i];

        for (size_t k = 0; k < c->n_spans; k++) {
            if ((d->host == d->a->n_hosts || c->host == d->host) &&
                c->spans[k].first_ns < clk_add(from_ns, d->l->step_ns) &&
                c->spans[k].last_ns >= from_ns) {
                return true;
            }
        }
    }
    return false;
}

/* Whether nothing of the column was measured, and nothing of it lost. */
static bool column_is_quiet(const struct drawing *d, uint32_t column)
{
    bool one = d->host < d->a->n_hosts;
    bool measured = one              ? wire_lifetimes_measured(d->l, d->host, column)
                    : d->l->hosts_in ? d->l->hosts_in[column] > 0
                                     : true;

    return !measured && !column_has_loss(d, column);
}

/* What stands where nothing is drawn. */
static uint8_t open_sign(const struct drawing *d, uint32_t column)
{
    if (column < d->before) {
        return SIGN_BEFORE;
    }
    if (column_is_quiet(d, column)) {
        return SIGN_QUIET;
    }
    /* one host that was measured for a part of the column lost nothing by that */
    if (d->l->present[column] == WHOLE ||
        (d->l->hosts_in && d->host < d->a->n_hosts && !column_has_loss(d, column))) {
        return SIGN_NONE;
    }
    return SIGN_HATCH;
}

/* The cells, hatched where nothing stands and data is missing, dotted where no agent ran. */
static void put_cells(struct drawing *d, const uint8_t *cells)
{
    unsigned style = STYLE_PLAIN;

    for (uint32_t i = 0; i < d->n; i++) {
        bool nothing = i < d->before || !d->l->present[i] || column_is_quiet(d, i);
        bool open = cells[i] == SIGN_NONE || (cells[i] == SIGN_THROUGH && nothing);
        uint8_t sign = open ? open_sign(d, i) : cells[i];
        unsigned wanted;

        wanted = sign_style(d, sign, i);
        if (d->how->colours && wanted != style) {
            style_put(d->out, STYLE_PLAIN, true);
            style_put(d->out, wanted, true);
            style = wanted;
        }
        d->used[sign] = true;
        buf_put_str(d->out, d->how->ascii ? signs[sign].ascii : signs[sign].utf8);
    }
    if (style != STYLE_PLAIN) {
        style_put(d->out, STYLE_PLAIN, true);
    }
    buf_put_u8(d->out, '\n');
}

static void put_counts(struct drawing *d, const uint32_t *counts, const bool *failed)
{
    uint8_t cells[LANES_COLUMNS_MAX];
    uint32_t most = 1;

    for (uint32_t i = 0; i < d->n; i++) {
        most = counts[i] > most ? counts[i] : most;
    }
    for (uint32_t i = 0; i < d->n; i++) {
        double level = (double)counts[i] / (double)most * (BAR_LEVELS - 1) + 0.5;

        cells[i] = counts[i] ? (uint8_t)(SIGN_BAR + (unsigned)level) : SIGN_NONE;
        cells[i] = failed && failed[i] ? SIGN_FAILED : cells[i];
    }
    put_cells(d, cells);
}

/* -- processes -- */

static bool life_failed(const struct wire_lifetimes *l, uint32_t i)
{
    return l->exit_code[i] > 0;
}

/* It began before the window and is there at its end. */
static bool life_is_through(const struct drawing *d, uint32_t i)
{
    int64_t began_ns = clk_add(d->l->t0_ns, d->l->start_us[i] * CLK_US);

    return began_ns <= d->a->since_ns && d->l->life_us[i] == WIRE_LIFE_LIVES;
}

/* Column of a moment; -1: before the first, n: behind the last. */
static int64_t column_of(const struct drawing *d, int64_t us)
{
    int64_t column = us < 0 ? -1 : us * CLK_US / d->l->step_ns;

    return column < d->n ? column : d->n;
}

struct extent {
    int64_t start, end; /* columns, as column_of; end: of its last moment */
    uint32_t from, to;  /* what is drawn */
};

static struct extent life_extent(const struct drawing *d, uint32_t i)
{
    int64_t start_us = d->l->start_us[i], life_us = d->l->life_us[i];
    struct extent x = {.start = column_of(d, start_us), .end = d->n};

    if (life_us != WIRE_LIFE_LIVES) {
        life_us = life_us > 0 ? life_us - 1 : 0; /* an end on an edge belongs to what is before */
        x.end = column_of(d, start_us + life_us);
    }
    x.from = x.start < 0 ? 0 : x.start < d->n ? (uint32_t)x.start : d->n - 1;
    x.to = x.end < d->n ? (x.end < 0 ? 0 : (uint32_t)x.end) : d->n - 1;
    x.to = x.to > x.from ? x.to : x.from;
    return x;
}

static uint8_t end_sign(const struct drawing *d, uint32_t i)
{
    uint32_t flags = d->l->flags[i];

    return life_failed(d->l, i)             ? SIGN_FAILED
           : flags & WIRE_LIFE_END_UNKNOWN  ? SIGN_FADE
           : flags & WIRE_LIFE_END_INFERRED ? SIGN_INFERRED
                                            : SIGN_END;
}

static void life_paint(const struct drawing *d, uint32_t i, const struct extent *x, uint8_t *cells)
{
    bool known = !(d->l->flags[i] & WIRE_LIFE_START_UNKNOWN);
    uint8_t end = end_sign(d, i);

    memset(cells + x->from, SIGN_BODY, x->to - x->from + 1);
    if (x->start >= 0) {
        cells[x->from] = known ? SIGN_BEGIN : SIGN_FADE;
    }
    if (x->end < d->n) {
        cells[x->to] = end;
    }
    if (x->from == x->to && x->start >= 0 && x->end < d->n && end == SIGN_END) {
        cells[x->to] = SIGN_SHORT;
    }
}

static void life_count(struct drawing *d, uint32_t i, const struct extent *x)
{
    for (uint32_t c = x->from; c <= x->to; c++) {
        d->beyond[c]++;
    }
    d->failed[x->to] |= life_failed(d->l, i) && x->end < d->n;
}

static void beyond_clear(struct drawing *d)
{
    memset(d->beyond, 0, sizeof d->beyond);
    memset(d->failed, 0, sizeof d->failed);
}

/* -- groups -- */

static uint32_t group_key(const struct drawing *d, uint32_t i)
{
    switch (d->how->group) {
    case LANES_USER:
        return d->l->user[i];
    case LANES_HOST:
        return d->l->host[i];
    default:
        return d->l->name[i];
    }
}

static struct str group_name(const struct drawing *d, uint32_t key)
{
    struct str name = d->how->group == LANES_HOST ? d->a->hosts[key].name : d->l->names[key];

    return name.n ? name : str_make("?");
}

static int group_by_changes(const void *a, const void *b)
{
    const struct lane_group *x = a, *y = b;

    if (x->changed != y->changed) {
        return x->changed > y->changed ? -1 : 1;
    }
    return x->key < y->key ? -1 : 1;
}

static void groups_fill(struct drawing *d)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < d->l->n; i++) {
        struct lane_group *g = &d->groups[group_key(d, i)];

        g->n++;
        g->through += life_is_through(d, i);
    }
    for (uint32_t k = 0; k < d->n_groups; k++) {
        struct lane_group *g = &d->groups[k];

        g->key = k;
        g->changed = g->n - g->through;
        g->first = at;
        at += g->n;
        g->n = 0;
    }
    for (uint32_t i = 0; i < d->l->n; i++) {
        struct lane_group *g = &d->groups[group_key(d, i)];

        d->by_group[g->first + g->n++] = i;
    }
    if (d->n_groups) {
        qsort(d->groups, d->n_groups, sizeof *d->groups, group_by_changes);
    }
}

/* Its processes in lanes; how many lanes were taken, and how many processes found none. */
static unsigned group_pack(struct drawing *d, const struct lane_group *g, uint32_t *left)
{
    int64_t taken[LANES_MAX]; /* last column of each lane */
    unsigned n = 0;

    *left = 0;
    beyond_clear(d);
    for (uint32_t k = 0; k < g->n; k++) {
        uint32_t i = d->by_group[g->first + k];
        struct extent x = life_extent(d, i);
        unsigned lane = 0;

        if (life_is_through(d, i)) {
            continue;
        }
        while (lane < n && taken[lane] >= x.from) {
            lane++;
        }
        if (lane == d->how->lanes || lane == LANES_MAX) {
            life_count(d, i, &x);
            ++*left;
            continue;
        }
        if (lane == n) {
            memset(d->cells[n++], SIGN_NONE, d->n);
        }
        taken[lane] = x.to;
        life_paint(d, i, &x, d->cells[lane]);
    }
    return n;
}

static void put_through(struct drawing *d, uint32_t n)
{
    uint8_t cells[LANES_COLUMNS_MAX];
    char label[32];

    memset(cells, SIGN_THROUGH, d->n);
    put_label(d, label, (size_t)snprintf(label, sizeof label, "  %u throughout", (unsigned)n));
    put_cells(d, cells);
}

static void put_group(struct drawing *d, const struct lane_group *g)
{
    uint32_t left;
    unsigned lanes = group_pack(d, g, &left);
    uint32_t host = d->host;
    struct buf label;

    d->host = d->how->group == LANES_HOST ? g->key : host;
    buf_init(&label, NAME_BUFFER);
    humanize_text(&label, group_name(d, g->key));
    label.n = humanize_prefix(buf_cstr(&label), label.n, LABEL - 9);
    if (g->changed > 1) {
        buf_printf(&label, " %s%u", d->how->ascii ? "x" : "\xc3\x97", (unsigned)g->changed);
    }
    for (unsigned k = 0; k < lanes; k++) {
        put_label(d, buf_cstr(&label), k ? 0 : label.n);
        put_cells(d, d->cells[k]);
    }
    if (left) {
        label.n = 0;
        buf_printf(&label, "  +%u", (unsigned)left);
        put_label(d, buf_cstr(&label), label.n);
        put_counts(d, d->beyond, d->failed);
    }
    buf_fini(&label);
    if (g->through) {
        put_through(d, g->through);
    }
    d->host = host;
}

/* "+12 images" */
static size_t group_count(const struct drawing *d, char *text, size_t size, uint32_t n,
                          const char *behind)
{
    static const char *const many[] = {"images", "", "users", "hosts"};
    static const char *const one[] = {"image", "", "user", "host"};

    return (size_t)snprintf(text, size, "+%u %s%s", (unsigned)n,
                            plural(n, one[d->how->group], many[d->how->group]), behind);
}

/* The groups that are left over: what changed as counts, what did not as one number. */
static void put_other_groups(struct drawing *d, uint32_t from)
{
    uint32_t changed = 0, still = 0;
    char label[64];

    beyond_clear(d);
    for (uint32_t k = from; k < d->n_groups; k++) {
        const struct lane_group *g = &d->groups[k];

        changed += g->changed > 0;
        still += g->n && !g->changed;
        for (uint32_t i = 0; i < g->n; i++) {
            uint32_t p = d->by_group[g->first + i];
            struct extent x = life_extent(d, p);

            if (!life_is_through(d, p)) {
                life_count(d, p, &x);
            }
        }
    }
    if (changed) {
        put_label(d, label, group_count(d, label, sizeof label, changed, ""));
        put_counts(d, d->beyond, d->failed);
    }
    if (still) {
        uint8_t cells[LANES_COLUMNS_MAX];

        memset(cells, SIGN_THROUGH, d->n);
        put_label(d, label, group_count(d, label, sizeof label, still, " unchanged"));
        put_cells(d, cells);
    }
}

static void put_groups(struct drawing *d)
{
    uint32_t k = 0;

    groups_fill(d);
    for (; k < d->n_groups && k < d->how->groups && d->groups[k].changed; k++) {
        put_group(d, &d->groups[k]);
    }
    put_other_groups(d, k);
}

/* -- the tree -- */

/* Children of each process, as lists; index n is the parent of those without one. */
struct kin {
    uint32_t *child, *next; /* + 1; 0: there is none */
    uint32_t *depth;
    bool *shown; /* it changed, or one of its descendants did */
    uint32_t *stack;
};

static void kin_link(const struct drawing *d, struct kin *kin)
{
    uint32_t n = (uint32_t)d->l->n;

    for (uint32_t i = n; i-- > 0;) { /* the last becomes the first's next: lists go by start */
        uint32_t up = d->l->parent[i] > 0 ? (uint32_t)d->l->parent[i] - 1 : n;

        kin->shown[i] |= !life_is_through(d, i);
        if (up < n) {
            kin->shown[up] |= kin->shown[i];
        }
        kin->next[i] = kin->child[up];
        kin->child[up] = i + 1;
    }
    for (uint32_t i = 0; i < n; i++) {
        kin->depth[i] = d->l->parent[i] > 0 ? kin->depth[d->l->parent[i] - 1] + 1 : 0;
    }
}

static void put_relative(struct drawing *d, uint32_t i, uint32_t depth)
{
    struct extent x = life_extent(d, i);
    uint8_t cells[LANES_COLUMNS_MAX];
    struct str name = d->l->names[d->l->name[i]];
    struct buf label;

    buf_init(&label, NAME_BUFFER);
    for (uint32_t k = 0; k < depth && k < INDENT_MAX; k++) {
        buf_put_u8(&label, ' ');
    }
    humanize_text(&label, name.n ? name : str_make("?"));
    label.n = humanize_prefix(buf_cstr(&label), label.n, LABEL - 9);
    buf_printf(&label, " %u", (unsigned)d->l->pid[i]);
    memset(cells, SIGN_NONE, d->n);
    if (life_is_through(d, i)) {
        memset(cells, SIGN_THROUGH, d->n);
    } else {
        life_paint(d, i, &x, cells);
    }
    put_label(d, buf_cstr(&label), label.n);
    put_cells(d, cells);
    buf_fini(&label);
}

/* Parents before children, children by start. */
static void put_tree_rows(struct drawing *d, struct kin *kin)
{
    uint32_t n = (uint32_t)d->l->n, depth = 0, shown = 0, left = 0;
    uint32_t at = kin->child[n];
    char label[32];

    beyond_clear(d);
    while (at || depth) {
        uint32_t i = at - 1;

        if (!at) { /* up */
            at = kin->next[kin->stack[--depth]];
            continue;
        }
        if (!kin->shown[i]) {
            at = kin->next[i];
            continue;
        }
        if (shown < d->how->groups) {
            put_relative(d, i, kin->depth[i]);
            shown++;
        } else if (!life_is_through(d, i)) {
            struct extent x = life_extent(d, i);

            life_count(d, i, &x);
            left++;
        }
        kin->stack[depth++] = i;
        at = kin->child[i];
    }
    if (left) {
        put_label(d, label, (size_t)snprintf(label, sizeof label, "+%u", (unsigned)left));
        put_counts(d, d->beyond, d->failed);
    }
}

static enum err put_tree(struct drawing *d)
{
    size_t n = d->l->n + 1;
    struct kin kin = {.child = mem_array(n, sizeof *kin.child),
                      .next = mem_array(n, sizeof *kin.next),
                      .depth = mem_array(n, sizeof *kin.depth),
                      .shown = mem_array(n, sizeof *kin.shown),
                      .stack = mem_array(n, sizeof *kin.stack)};
    bool room = kin.child && kin.next && kin.depth && kin.shown && kin.stack;

    if (room) {
        kin_link(d, &kin);
        put_tree_rows(d, &kin);
    }
    mem_free(kin.child);
    mem_free(kin.next);
    mem_free(kin.depth);
    mem_free(kin.shown);
    mem_free(kin.stack);
    return room ? ERR_OK : ERR_NOMEM;
}

/* -- what stands around -- */

static void put_density(struct drawing *d, const char *what, const uint32_t *counts)
{
    uint64_t sum = 0;
    char label[64];

    for (uint32_t i = 0; i < d->n; i++) {
        sum += counts[i];
    }
    put_label(d, label,
              (size_t)snprintf(label, sizeof label, "%s %llu", what, (unsigned long long)sum));
    put_counts(d, counts, NULL);
}

/* "|14:05:00" where a moment of the axis begins. */
static void put_axis(struct drawing *d)
{
    static const int64_t seconds[] = {1,   2,    5,    10,   15,    30,    60,    120,   300,   600,
                                      900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 604800};
    int64_t every_ns = seconds[0] * CLK_S;
    uint32_t column = 0;

    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        every_ns = seconds[i] * CLK_S;
        if (every_ns / d->l->step_ns >= TICK_WIDTH) {
            break;
        }
    }
    put_label(d, "", 0);
    while (column < d->n) {
        int64_t ns = clk_add(d->l->t0_ns, column * d->l->step_ns), past = ns % every_ns;
        char text[CLK_TEXT], short_text[16];
        int n;

        if (past >= d->l->step_ns || past < 0 || column + 9 > d->n) {
            buf_put_u8(d->out, ' ');
            column++;
            continue;
        }
        (void)clk_format_utc(text, sizeof text, ns, 0);
        n = every_ns >= 86400 * CLK_S ? snprintf(short_text, sizeof short_text, "|%.10s", text)
                                      : snprintf(short_text, sizeof short_text, "|%.8s", text + 11);
        buf_put(d->out, short_text, (size_t)n);
        column += (uint32_t)n;
    }
    buf_put_u8(d->out, '\n');
}

static void put_legend(struct drawing *d)
{
    char day[CLK_TEXT];

    buf_printf(d->out, "%.10s, a column is ",
               clk_format_utc(day, sizeof day, clk_add(d->l->t0_ns, d->l->step_ns), 0));
    humanize_ns(d->out, d->l->step_ns);
    for (unsigned s = 0; s < SIGNS; s++) {
        if (d->used[s] && signs[s].meaning) {
            buf_printf(d->out, ", %s %s", d->how->ascii ? signs[s].ascii : signs[s].utf8,
                       signs[s].meaning);
        }
    }
    buf_put_u8(d->out, '\n');
}

/* Columns that end before any host's first data. */
static uint32_t columns_before(const struct drawing *d)
{
    int64_t first_ns = INT64_MAX;

    for (size_t i = 0; i < d->a->n_hosts; i++) {
        first_ns = d->a->hosts[i].first_ns < first_ns ? d->a->hosts[i].first_ns : first_ns;
    }
    for (uint32_t c = 0; c < d->n; c++) {
        if (clk_add(d->l->t0_ns, (c + 1) * d->l->step_ns) > first_ns) {
            return c;
        }
    }
    return d->n;
}

static enum err put_all(struct drawing *d)
{
    enum err e = ERR_OK;

    d->before = columns_before(d);
    d->host = d->a->n_hosts == 1 ? 0 : (uint32_t)d->a->n_hosts;

    put_density(d, "starts", d->l->starts);
    put_density(d, "ends", d->l->ends);
    if (d->how->group == LANES_TREE) {
        e = put_tree(d);
    } else {
        put_groups(d);
    }
    put_axis(d);
    put_legend(d);
    return e ? e : d->out->bad;
}

enum err lanes_draw(struct buf *out, const struct lanes *how, const struct wire_answer *a)
{
    struct drawing *d = mem_zalloc(sizeof *d);
    enum err e = d ? ERR_OK : ERR_NOMEM;

    if (e) {
        return e;
    }
    d->how = how;
    d->a = a;
    d->l = a->lifetimes;
    d->out = out;
    d->n = d->l->n_buckets < LANES_COLUMNS_MAX ? d->l->n_buckets : LANES_COLUMNS_MAX;
    d->n_groups = (uint32_t)(how->group == LANES_HOST ? a->n_hosts : d->l->n_names);
    d->groups = mem_array(d->n_groups + 1, sizeof *d->groups);
    d->by_group = mem_array(d->l->n + 1, sizeof *d->by_group);
    if (!d->groups || !d->by_group) {
        e = ERR_NOMEM;
    } else if (d->n && d->l->step_ns > 0) {
        e = put_all(d);
    }
    mem_free(d->groups);
    mem_free(d->by_group);
    mem_free(d);
    return e;
}
