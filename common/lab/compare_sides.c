#include "common/lab/compare_sides.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/plural.h"
#include "common/lab/host_class.h"

#define NOTES_MAX    64u
#define GROUPS_MAX   65536u
#define HISTORY_NS   (INT64_C(90) * 86400 * 1000000000)
#define LEAST_PPM    990000u
#define LEAST_TICKS  30
#define LEAST_ERRORS 50
#define AT_MOST_NS   INT64_C(1000000000)
#define STR_ARG(s)   (int)((s).n < 256 ? (s).n : 256), (s).p

enum err compare_sides_note(struct compare *c, enum compare_code code, bool refuses,
                            const char *fmt, ...)
{
    struct compare_note *note;
    struct str text;
    char line[512];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    c->refused = c->refused || refuses;
    text = str_make(line);
    for (size_t i = 0; i < c->n_notes; i++) {
        if (str_eq(c->notes[i].text, text)) {
            c->notes[i].refuses = c->notes[i].refuses || refuses;
            return ERR_OK;
        }
    }
    if (c->n_notes == NOTES_MAX && !refuses) {
        return ERR_OK; /* there are enough to see what is wrong */
    }
    if (!c->notes) {
        c->notes = arena_array(&c->memory, NOTES_MAX, sizeof *c->notes);
    }
    text.p = arena_dup(&c->memory, line, text.n);
    if (!c->notes || !text.p) {
        return arena_refused(&c->memory, NOTES_MAX * sizeof *c->notes);
    }
    note = &c->notes[c->n_notes < NOTES_MAX ? c->n_notes++ : NOTES_MAX - 1];
    *note = (struct compare_note){(uint8_t)code, refuses, text};
    return ERR_OK;
}

static void *room(struct compare_sides *s, size_t n, size_t size)
{
    return arena_array(&s->c->memory, n, size);
}

static enum err no_room(const struct compare_sides *s, size_t n)
{
    return arena_refused(&s->c->memory, n);
}

/* -- runs: by time, each once -- */

static int by_time(const void *x, const void *y)
{
    const struct compare_sides_run *a = x, *b = y;
    int64_t d = a->f->head.begin_ns - b->f->head.begin_ns;

    if (d) {
        return d < 0 ? -1 : 1;
    }
    return memcmp(a->f->head.id.b, b->f->head.id.b, sizeof a->f->head.id.b);
}

static struct compare_sides_run *run_find(struct compare_sides *s, const struct run_file *f)
{
    static const struct uuid none;

    for (size_t i = 0; i < s->n_runs; i++) {
        if (s->runs[i].f == f || (memcmp(&f->head.id, &none, sizeof none) != 0 &&
                                  memcmp(&s->runs[i].f->head.id, &f->head.id, sizeof none) == 0)) {
            return &s->runs[i];
        }
    }
    return NULL;
}

/* A run on both sides would be compared with itself: it stays on the first. */
static void runs_add(struct compare_sides *s, const struct run_file *const *files, size_t n,
                     unsigned side)
{
    for (size_t i = 0; i < n; i++) {
        struct compare_sides_run *r = run_find(s, files[i]);

        if (!r) {
            s->runs[s->n_runs++] =
                (struct compare_sides_run){.f = files[i], .given = side, .side = side};
        } else if (side == COMPARE_SIDE_HISTORY && r->side != COMPARE_SIDE_B) {
            r->side |= side;
        }
    }
}

/* Hosts whose clock is off, or samples that are few, make a run's ends blurred. */
static bool run_is_short(const struct run_file *f, char *text, size_t size)
{
    int64_t took = f->head.end_ns - f->head.begin_ns, error = 0, step = 0;

    for (size_t i = 0; i < f->n_hosts; i++) {
        const struct run_host *h = &f->hosts[i];

        error = !h->absent && h->clock_error_ns > error ? h->clock_error_ns : error;
        step = !h->absent && h->step_ns > step ? h->step_ns : step;
    }
    (void)snprintf(text, size,
                   "%.3g s are too short where clocks may be off by %.3g s and samples come every "
                   "%.3g s",
                   (double)took / 1e9, (double)error / 1e9, (double)step / 1e9);
    return took / LEAST_ERRORS < error || (!f->head.has_root && took / LEAST_TICKS < step);
}

static enum err run_judge(struct compare_sides *s, struct compare_sides_run *r)
{
    const struct run_head *h = &r->f->head;
    bool told = r->side != COMPARE_SIDE_HISTORY;
    enum compare_code code = COMPARE_FINE;
    const char *text = "";
    char shortness[160];

    r->tree =
        h->has_root && h->root_pid && (s->ask->n_limits || s->ask->group_by != COMPARE_BY_TREE);
    if (h->state == RUN_FAILED || (h->has_exit && h->exit_code)) {
        code = s->ask->failed ? COMPARE_FINE : COMPARE_FAILED;
        text = "it failed; --all takes it all the same";
    } else if (h->state != RUN_READY && h->state != RUN_IMPORTED) {
        code = COMPARE_NOT_READY;
        text = h->state == RUN_EXPIRED ? "nobody ended it" : "it has not ended yet";
    }
    if (!code && run_is_short(r->f, shortness, sizeof shortness)) {
        code = COMPARE_SHORT;
        text = shortness;
    }
    if (!code) {
        return ERR_OK;
    }
    r->side = 0;
    return told ? compare_sides_note(s->c, code, false, "%.*s is left out: %s", STR_ARG(h->name),
                                     text)
                : ERR_OK;
}

static void history_cut(struct compare_sides *s)
{
    int64_t newest = 0;

    for (size_t i = 0; i < s->n_runs; i++) {
        if (s->runs[i].side & COMPARE_SIDE_A) {
            newest = s->runs[i].f->head.begin_ns; /* they are by time */
        }
    }
    for (size_t i = 0; i < s->n_runs; i++) {
        if (s->runs[i].f->head.begin_ns < newest - HISTORY_NS) {
            s->runs[i].side &= ~(unsigned)COMPARE_SIDE_HISTORY;
        }
    }
}

static enum err runs_open(struct compare_sides *s)
{
    const struct compare_ask *ask = s->ask;
    size_t most = ask->n_a + ask->n_b + ask->n_history;
    enum err e = ERR_OK;

    s->runs = room(s, most ? most : 1, sizeof *s->runs);
    if (!s->runs) {
        return no_room(s, most * sizeof *s->runs);
    }
    runs_add(s, ask->a, ask->n_a, COMPARE_SIDE_A);
    runs_add(s, ask->b, ask->n_b, COMPARE_SIDE_B);
    runs_add(s, ask->history, ask->n_history, COMPARE_SIDE_HISTORY);
    qsort(s->runs, s->n_runs, sizeof *s->runs, by_time);
    history_cut(s);
    for (size_t i = 0; i < s->n_runs && !e; i++) {
        e = run_judge(s, &s->runs[i]);
    }
    return e;
}

/* -- numbers for hosts and groups -- */

/* The number of a key that same() knows in the table, counted from 0; *n grows with a new one. */
static enum err number_of(uint32_t *out, struct map *map, uint64_t key, struct str *table,
                          size_t *n, struct str text)
{
    uint64_t place;
    enum err e;

    for (; (place = map_get(map, key)) != 0; key++) {
        if (str_eq(table[place - 1], text)) {
            *out = (uint32_t)(place - 1);
            return ERR_OK;
        }
    }
    e = map_reserve(map);
    if (!e) {
        table[*n] = text;
        *out = (uint32_t)*n;
        *n += 1;
        (void)map_put(map, key, *n);
    }
    return e;
}

/* Hosts are told apart by their id; without one, as in a file that was made anonymous, by name. */
static struct str host_key(const struct run_host *h)
{
    static const struct uuid none;

    return memcmp(&h->id, &none, sizeof none) == 0
               ? h->name
               : (struct str){(const char *)h->id.b, sizeof h->id.b};
}

static enum err hosts_open(struct compare_sides *s)
{
    struct map map = {0};
    size_t most = 0;
    struct str *keys;
    enum err e = ERR_OK;

    for (size_t i = 0; i < s->n_runs; i++) {
        most += s->runs[i].f->n_hosts;
    }
    keys = room(s, most ? most : 1, sizeof *keys);
    s->hosts = room(s, most ? most : 1, sizeof *s->hosts);
    s->in_use = room(s, most ? most : 1, sizeof *s->in_use);
    s->first = room(s, most ? most : 1, sizeof *s->first);
    if (!keys || !s->hosts || !s->in_use || !s->first) {
        return no_room(s, most * sizeof *keys);
    }
    for (size_t i = 0; i < s->n_runs && !e; i++) {
        struct compare_sides_run *r = &s->runs[i];

        r->hosts = room(s, r->f->n_hosts ? r->f->n_hosts : 1, sizeof *r->hosts);
        e = r->hosts ? ERR_OK : no_room(s, r->f->n_hosts * sizeof *r->hosts);
        for (size_t k = 0; k < r->f->n_hosts && !e; k++) {
            struct str key = host_key(&r->f->hosts[k]);

            e = number_of(&r->hosts[k].number, &map, hash_bytes(key.p, key.n, 1), keys, &s->n_hosts,
                          key);
            if (!e) {
                s->hosts[r->hosts[k].number] = r->f->hosts[k].name;
            }
        }
    }
    for (size_t i = 0; i < s->n_runs && !e; i++) {
        s->runs[i].at = room(s, s->n_hosts ? s->n_hosts : 1, sizeof *s->runs[i].at);
        e = s->runs[i].at ? ERR_OK : no_room(s, s->n_hosts * sizeof *s->runs[i].at);
    }
    map_fini(&map);
    return e;
}

static unsigned group_by(const struct compare_ask *ask)
{
    return ask->n_limits && ask->group_by != COMPARE_BY_USER ? COMPARE_BY_IMAGE : ask->group_by;
}

/* False: the row is part of no group of this kind. */
static bool group_of_row(struct str *out, unsigned by, const struct run_file *f,
                         const struct run_row *row)
{
    bool cell = row->of == RUN_ROW_CELL;

    switch (by) {
    case COMPARE_BY_IMAGE:
        *out = row->image;
        return cell || row->of == RUN_ROW_IMAGE;
    case COMPARE_BY_USER:
        *out = row->user;
        return cell || row->of == RUN_ROW_USER;
    case COMPARE_BY_TREE:
        *out = str_make(row->in_tree ? "tree" : "rest");
        return cell || (row->of == RUN_ROW_HOST && row->in_tree);
    case COMPARE_BY_HOST:
        *out = f->hosts[row->host].name;
        return cell || row->of == RUN_ROW_HOST;
    default:
        return false;
    }
}

static enum err groups_open(struct compare_sides *s)
{
    unsigned by = group_by(s->ask);
    struct map map = {0};
    enum err e = ERR_OK;

    if (by == COMPARE_TOTALS) {
        by = s->ask->n_limits ? COMPARE_BY_IMAGE : by;
    }
    s->groups = room(s, GROUPS_MAX, sizeof *s->groups);
    e = s->groups ? ERR_OK : no_room(s, GROUPS_MAX * sizeof *s->groups);
    for (size_t i = 0; i < s->n_runs && !e; i++) {
        struct compare_sides_run *r = &s->runs[i];

        r->group = room(s, r->f->n_rows ? r->f->n_rows : 1, sizeof *r->group);
        e = r->group ? ERR_OK : no_room(s, r->f->n_rows * sizeof *r->group);
        for (size_t k = 0; k < r->f->n_rows && !e; k++) {
            struct str name;
            uint32_t number;

            if (group_of_row(&name, by, r->f, &r->f->rows[k]) && s->n_groups < GROUPS_MAX) {
                e = number_of(&number, &map, hash_bytes(name.p, name.n, 2), s->groups, &s->n_groups,
                              name);
                r->group[k] = e ? 0 : number + 1;
            }
        }
    }
    map_fini(&map);
    return e;
}

static enum err classes_open(struct compare_sides *s)
{
    const char *const *keys = s->ask->class_keys ? s->ask->class_keys : host_class_default;

    for (size_t i = 0; i < s->n_runs; i++) {
        const struct run_file *f = s->runs[i].f;

        for (size_t k = 0; k < f->n_hosts; k++) {
            char text[HOST_CLASS_TEXT];

            (void)host_class_text(text, f->hosts[k].facts, f->hosts[k].n_facts, keys);
            s->runs[i].hosts[k].class_hash = text[0] ? hash_bytes(text, strlen(text), 3) | 1 : 0;
        }
    }
    return ERR_OK;
}

enum err compare_sides_open(struct compare_sides *out, struct compare *c,
                            const struct compare_ask *ask)
{
    enum err e;

    *out = (struct compare_sides){.ask = ask, .c = c};
    e = runs_open(out);
    if (!e) {
        e = hosts_open(out);
    }
    if (!e) {
        e = classes_open(out);
    }
    return e ? e : groups_open(out);
}

/* -- what counts for a limit -- */

static int64_t at_most_ns(const struct run_host *h)
{
    int64_t sum = 0;

    for (size_t i = 0; i < h->n_spans; i++) {
        if (h->spans[i].at_most) {
            sum += h->spans[i].last_ns - h->spans[i].first_ns;
        }
    }
    return h->at_most && h->n_spans == 0 ? INT64_MAX : sum;
}

static enum compare_code host_judge(const struct compare_sides *s, const struct run_file *f,
                                    const struct run_host *h, double limit)
{
    if (h->absent) {
        return COMPARE_ABSENT;
    }
    if (s->lenient) {
        return COMPARE_FINE;
    }
    if (h->ppm < LEAST_PPM || (limit > 0 && 1 - h->ppm / 1e6 > limit / 3)) {
        return COMPARE_COVERAGE;
    }
    if (at_most_ns(h) > AT_MOST_NS) {
        return COMPARE_AT_MOST;
    }
    return h->overlapped && !f->head.has_root && !s->ask->overlap ? COMPARE_OVERLAP : COMPARE_FINE;
}

static enum err host_left(struct compare_sides *s, const struct run_file *f,
                          const struct run_host *h, enum compare_code code)
{
    struct str run = f->head.name, host = h->name;

    switch (code) {
    case COMPARE_ABSENT:
        return compare_sides_note(s->c, code, false, "%.*s: nothing came from %.*s", STR_ARG(run),
                                  STR_ARG(host));
    case COMPARE_COVERAGE:
        return compare_sides_note(s->c, code, false,
                                  "%.*s: %.*s is left out, only %.2f %% of its data arrived",
                                  STR_ARG(run), STR_ARG(host), h->ppm / 1e4);
    case COMPARE_AT_MOST:
        return compare_sides_note(
            s->c, code, false, "%.*s: %.*s is left out, an unknown number of its events is missing",
            STR_ARG(run), STR_ARG(host));
    default:
        return compare_sides_note(s->c, code, false,
                                  "%.*s: %.*s is left out, another run was there at the same time",
                                  STR_ARG(run), STR_ARG(host));
    }
}

static enum err run_choose(struct compare_sides *s, struct compare_sides_run *r, double limit)
{
    bool told = (r->side & (COMPARE_SIDE_A | COMPARE_SIDE_B)) && !s->lenient;
    size_t left = 0;
    enum err e = ERR_OK;

    memset(r->at, 0, s->n_hosts * sizeof *r->at);
    r->counts = r->side != 0;
    for (size_t i = 0; i < r->f->n_hosts && r->counts && !e; i++) {
        const struct run_host *h = &r->f->hosts[i];
        enum compare_code code = host_judge(s, r->f, h, limit);

        r->hosts[i].leaves = code != COMPARE_FINE;
        left += !r->hosts[i].leaves;
        if (code == COMPARE_FINE) {
            r->at[r->hosts[i].number] = (uint32_t)i + 1;
        } else if (told) {
            e = host_left(s, r->f, h, code);
        }
    }
    if (r->counts && (left == 0 || (2 * left < r->f->n_hosts && !s->lenient))) {
        r->counts = false;
        if (told && !e) {
            e = compare_sides_note(s->c, COMPARE_COVERAGE, false,
                                   "%.*s is left out: of %zu %s only %zu can be judged",
                                   STR_ARG(r->f->head.name), r->f->n_hosts,
                                   plural(r->f->n_hosts, "host", "hosts"), left);
        }
    }
    return e;
}

static bool is_judged(const struct compare_sides_run *r)
{
    return r->counts && (r->side & (COMPARE_SIDE_A | COMPARE_SIDE_B));
}

static size_t hosts_left(const struct compare_sides *s, const struct compare_sides_run *r)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_hosts; i++) {
        n += r->at[i] != 0;
    }
    return n;
}

/* The hosts that all judged runs have; false: they are less than half of some run's. */
static bool hosts_common(struct compare_sides *s)
{
    s->n_used = 0;
    for (uint32_t h = 0; h < s->n_hosts; h++) {
        s->in_use[h] = true;
        for (size_t i = 0; i < s->n_runs && s->in_use[h]; i++) {
            s->in_use[h] = !is_judged(&s->runs[i]) || s->runs[i].at[h];
        }
        s->n_used += s->in_use[h];
    }
    for (size_t i = 0; i < s->n_runs; i++) {
        if (is_judged(&s->runs[i]) && 2 * s->n_used < hosts_left(s, &s->runs[i])) {
            return false;
        }
    }
    return s->n_used > 0;
}

static enum err hosts_not_common(struct compare_sides *s)
{
    enum err e = ERR_OK;

    for (size_t i = 0; i < s->n_runs && !e; i++) {
        for (uint32_t h = 0; h < s->n_hosts && is_judged(&s->runs[i]) && !e; h++) {
            if (s->runs[i].at[h] && !s->in_use[h]) {
                e = compare_sides_note(s->c, COMPARE_HOSTS, false,
                                       "%.*s is left out: not every run has it",
                                       STR_ARG(s->hosts[h]));
            }
        }
    }
    return e;
}

/* Hosts are not what is in common: each that counts in a run is used. */
static void hosts_all(struct compare_sides *s, enum compare_design design)
{
    s->design = design;
    s->n_strata = s->n_hosts;
    s->n_used = s->n_hosts;
    memset(s->in_use, true, s->n_hosts * sizeof *s->in_use);
}

/* In a pool: the host's number, or that of the first host of its class. */
static uint32_t stratum_of(const struct compare_sides *s, uint64_t class_hash, uint32_t host)
{
    for (size_t i = 0; class_hash && s->ask->pair == COMPARE_PAIR_CLASS && i < s->n_runs; i++) {
        for (size_t k = 0; k < s->runs[i].f->n_hosts; k++) {
            if (s->runs[i].hosts[k].class_hash == class_hash) {
                return s->runs[i].hosts[k].number;
            }
        }
    }
    return host;
}

static enum err pool_choose(struct compare_sides *s)
{
    bool met = false;

    hosts_all(s, COMPARE_OF_POOL);
    for (size_t i = 0; i < s->n_runs; i++) {
        struct compare_sides_run *r = &s->runs[i];

        for (size_t k = 0; k < r->f->n_hosts && r->counts; k++) {
            if (!r->hosts[k].leaves) {
                r->stratum = stratum_of(s, r->hosts[k].class_hash, r->hosts[k].number);
            }
        }
    }
    for (size_t i = 0; i < s->n_runs && !met; i++) {
        for (size_t k = 0; k < s->n_runs && !met; k++) {
            met = is_judged(&s->runs[i]) && is_judged(&s->runs[k]) &&
                  (s->runs[i].side & COMPARE_SIDE_A) && (s->runs[k].side & COMPARE_SIDE_B) &&
                  s->runs[i].stratum == s->runs[k].stratum;
        }
    }
    if (!met) {
        hosts_all(s, COMPARE_OF_RUNS);
        s->n_strata = 1;
        return compare_sides_note(
            s->c, s->ask->pair == COMPARE_PAIR_CLASS ? COMPARE_CLASS : COMPARE_HOSTS, true,
            s->ask->pair == COMPARE_PAIR_CLASS
                ? "no class of hosts has runs of both sides"
                : "no host has runs of both sides; --pair class compares hosts that are alike");
    }
    return ERR_OK;
}

static enum err design_choose(struct compare_sides *s)
{
    bool single = true;

    if (s->ask->replicate == COMPARE_REPLICATE_HOST) {
        hosts_all(s, COMPARE_OF_HOSTS);
        return ERR_OK;
    }
    s->design = COMPARE_OF_RUNS;
    s->n_strata = 1;
    if (hosts_common(s)) {
        return hosts_not_common(s);
    }
    for (size_t i = 0; i < s->n_runs; i++) {
        single = single && (!is_judged(&s->runs[i]) || hosts_left(s, &s->runs[i]) == 1);
    }
    if (single) {
        return pool_choose(s);
    }
    hosts_all(s, COMPARE_OF_RUNS); /* figures are shown all the same */
    s->n_strata = 1;
    return compare_sides_note(s->c, COMPARE_HOSTS, true,
                              "the runs have less than half of their hosts in common");
}

/* -- what makes the sides unlike -- */

static bool same_release(struct str a, struct str b)
{
    for (unsigned dots = 0, i = 0;; i++) {
        char x = i < a.n ? a.p[i] : '.', y = i < b.n ? b.p[i] : '.';

        if (x != y) {
            return false;
        }
        dots += x == '.';
        if (dots == 2) {
            return true;
        }
    }
}

/* Samples come as they can: what differs by less than half is the same rate. 0: not known. */
static bool rates_differ(int64_t a, int64_t b)
{
    return a > 0 && b > 0 && (a > b + b / 2 || b > a + a / 2);
}

/* Compares a host of a run with the same host, or one of the same class, of another. */
static enum err hosts_alike(struct compare_sides *s, const struct compare_sides_run *x, size_t i,
                            const struct compare_sides_run *y, size_t k)
{
    const struct run_host *a = &x->f->hosts[i], *b = &y->f->hosts[k];
    enum compare_code code = COMPARE_FINE;
    const char *what = "";

    s->rates_differ = s->rates_differ || rates_differ(a->step_ns, b->step_ns);
    if (x->hosts[i].class_hash != y->hosts[k].class_hash) {
        code = COMPARE_CLASS;
        what = "is of different classes";
    } else if (a->cpu_origin != b->cpu_origin) {
        code = COMPARE_CPU_ORIGIN;
        what = "has its CPU time from different origins";
    } else if (!str_eq(a->source, b->source) || a->polled != b->polled) {
        code = COMPARE_SOURCE;
        what = "was measured by different sources";
    } else if (!same_release(a->agent, b->agent)) {
        code = COMPARE_AGENT;
        what = "had agents of different releases";
    }
    return code ? compare_sides_note(s->c, code, true, "%.*s %s in %.*s and %.*s", STR_ARG(b->name),
                                     what, STR_ARG(x->f->head.name), STR_ARG(y->f->head.name))
                : ERR_OK;
}

/* What a host, or in a pool its stratum, has to be like: its first appearance. */
static size_t reference_of(const struct compare_sides *s, const struct compare_sides_run *r,
                           size_t host)
{
    return s->design == COMPARE_OF_POOL ? r->stratum : r->hosts[host].number;
}

static size_t reference_host(const struct compare_sides *s, const struct compare_sides_run *first,
                             uint32_t number)
{
    size_t at = 0;

    while (s->design == COMPARE_OF_POOL ? first->hosts[at].leaves
                                        : first->hosts[at].number != number) {
        at++;
    }
    return at;
}

static enum err sides_alike(struct compare_sides *s)
{
    enum err e = ERR_OK;

    s->rates_differ = false;
    memset(s->first, 0, s->n_hosts * sizeof *s->first);
    for (size_t i = 0; i < s->n_runs && !e; i++) {
        const struct compare_sides_run *r = &s->runs[i], *x;

        for (size_t k = 0; k < r->f->n_hosts && is_judged(r) && !e; k++) {
            size_t key = reference_of(s, r, k);

            if (r->hosts[k].leaves || !s->in_use[r->hosts[k].number]) {
                continue;
            }
            if (!s->first[key]) {
                s->first[key] = (uint32_t)(i + 1);
                continue;
            }
            x = &s->runs[s->first[key] - 1];
            e = hosts_alike(s, x, reference_host(s, x, r->hosts[k].number), r, k);
        }
    }
    return e;
}

/* A run of the history counts if it could have been one of a's. */
static void history_choose(struct compare_sides *s)
{
    for (size_t i = 0; i < s->n_runs; i++) {
        struct compare_sides_run *r = &s->runs[i];
        size_t found = 0;
        bool fits = true;

        if (is_judged(r) || !r->counts) {
            continue;
        }
        for (size_t k = 0; k < r->f->n_hosts && fits; k++) {
            uint32_t number = r->hosts[k].number, first;

            if (r->hosts[k].leaves || !s->in_use[number]) {
                continue;
            }
            first = s->first[reference_of(s, r, k)];
            found++;
            fits = first != 0 && s->runs[first - 1]
                                         .hosts[reference_host(s, &s->runs[first - 1], number)]
                                         .class_hash == r->hosts[k].class_hash;
        }
        r->counts = fits && found > 0 &&
                    (s->design == COMPARE_OF_RUNS   ? found == s->n_used
                     : s->design == COMPARE_OF_POOL ? found == 1
                                                    : true);
    }
}

static size_t count_of(const struct compare_sides *s, unsigned side)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_runs; i++) {
        n += s->runs[i].counts && (s->runs[i].side & side);
    }
    return n;
}

static enum err runs_choose(struct compare_sides *s, double limit)
{
    enum err e = ERR_OK;

    for (size_t i = 0; i < s->n_runs && !e; i++) {
        e = run_choose(s, &s->runs[i], limit);
    }
    return e;
}

/* A side of which nothing can be judged gets no verdict; its figures are shown all the same. */
static enum err runs_show(struct compare_sides *s, unsigned side)
{
    enum err e = compare_sides_note(s->c, COMPARE_NO_RUNS, true, "no run of %s can be judged",
                                    side == COMPARE_SIDE_A ? "A" : "B");

    s->lenient = true;
    for (size_t i = 0; i < s->n_runs; i++) {
        s->runs[i].side |= s->runs[i].given;
    }
    return e ? e : runs_choose(s, 0);
}

enum err compare_sides_choose(struct compare_sides *s, double limit)
{
    enum err e = runs_choose(s, limit);

    for (unsigned side = COMPARE_SIDE_A; side <= COMPARE_SIDE_B && !e; side++) {
        if (count_of(s, side) == 0) {
            e = runs_show(s, side);
        }
    }
    if (!e && (count_of(s, COMPARE_SIDE_A) == 0 || count_of(s, COMPARE_SIDE_B) == 0)) {
        s->n_used = 0;
        s->n_strata = 1;
        s->design = COMPARE_OF_RUNS;
        memset(s->in_use, false, s->n_hosts * sizeof *s->in_use);
        return ERR_OK;
    }
    if (!e) {
        e = design_choose(s);
    }
    if (!e) {
        e = sides_alike(s);
        history_choose(s);
    }
    return e;
}
