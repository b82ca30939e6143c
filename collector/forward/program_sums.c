/* Of each host: its living processes in the order of their ids, each with its newest values, and
 * its programs, the first of which is the host itself. The state as bytes: u8 version, u8 n and the
 * metrics, then each host (see save_host), all numbers LEB128, signed ones zigzag. */
#include "collector/forward/program_sums.h"

#include <assert.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/base/vec.h"
#include "common/model/metric.h"

#define VERSION        1u
#define PROGRAMS_MAX   8192u  /* of a host */
#define PROCESSES_EACH 16384u /* of a host; one alone must not have the room of all */
#define NAME_MAX       256u   /* bytes; longer ones are cut */

/* `values` of a process or a program lie in an array beside them, n_metrics of each. */
struct sums_process {
    struct proc_id id;
    uint32_t program;
    int64_t when_ns; /* of the newest row */
    uint64_t have;
};

struct sums_program {
    struct str name; /* owned */
    int64_t start_ns, alive_ns;
    uint64_t have; /* of the counters */
};

struct sums_host {
    struct uuid id;
    struct str name;  /* owned */
    int64_t since_ns; /* its first tick */
    int64_t tick_ns;  /* that comes in now; 0: none yet */
    int64_t last_ns;  /* the one before it, or the same; 0: none */
    int64_t given_ns; /* the last one that was given; 0: none */
    size_t n, cap, values_cap;
    struct sums_process *processes;
    int64_t *values;
    size_t n_programs, programs_cap, sums_cap;
    struct sums_program *programs;
    int64_t *sums;
};

struct program_sums {
    struct program_sums_conf conf;
    uint64_t counters;                      /* bit i: metric i is one */
    size_t n, cap, n_processes, n_programs; /* of all hosts, without the hosts' own */
    struct sums_host *hosts;                /* in the order of their ids */
    uint64_t left_out;
    /* of one tick */
    size_t rows_cap, row_values_cap;
    struct program_sums_row *rows;
    int64_t *row_values;
};

static void host_fini(struct sums_host *h)
{
    for (size_t i = 0; i < h->n_programs; i++) {
        mem_free((void *)(uintptr_t)h->programs[i].name.p);
    }
    mem_free((void *)(uintptr_t)h->name.p);
    mem_free(h->processes);
    mem_free(h->values);
    mem_free(h->programs);
    mem_free(h->sums);
}

static void sums_clear(struct program_sums *s)
{
    for (size_t i = 0; i < s->n; i++) {
        host_fini(&s->hosts[i]);
    }
    s->n = s->n_processes = s->n_programs = 0;
}

enum err program_sums_create(struct program_sums **out, const struct program_sums_conf *conf)
{
    struct program_sums *s = mem_zalloc(sizeof *s);

    if (!s) {
        return ERR_NOMEM;
    }
    s->conf = *conf;
    for (size_t i = 0; i < conf->n_metrics; i++) {
        const struct metric *m = metric_by_id(conf->metrics[i]);

        assert(m && m->column);
        s->counters |= (uint64_t)(m->kind == METRIC_COUNTER) << i;
    }
    *out = s;
    return ERR_OK;
}

void program_sums_destroy(struct program_sums *s)
{
    if (s) {
        sums_clear(s);
        mem_free(s->hosts);
        mem_free(s->rows);
        mem_free(s->row_values);
        mem_free(s);
    }
}

uint64_t program_sums_left_out(const struct program_sums *s)
{
    return s->left_out;
}

/* -- hosts, programs, processes -- */

static bool text_keep(struct str *out, struct str from)
{
    char *p = mem_alloc(from.n);

    if (p && from.n) {
        memcpy(p, from.p, from.n); /* there may be NULs */
    }
    *out = (struct str){p, p ? from.n : 0};
    return p != NULL;
}

static const struct uuid *host_id_at(const void *ctx, size_t i)
{
    return &((const struct program_sums *)ctx)->hosts[i].id;
}

static enum err program_add(const struct program_sums *s, struct sums_host *h, struct str name,
                            int64_t start_ns, uint32_t *at)
{
    size_t m = s->conf.n_metrics;
    struct sums_program p = {.start_ns = start_ns, .alive_ns = start_ns};
    enum err e = VEC_ROOM(&h->programs, &h->programs_cap, h->n_programs + 1, PROGRAMS_MAX);

    if (!e) {
        e = VEC_ROOM(&h->sums, &h->sums_cap, (h->n_programs + 1) * m, PROGRAMS_MAX * m);
    }
    if (e) {
        return e;
    }
    if (!text_keep(&p.name, name)) {
        return ERR_NOMEM;
    }
    memset(h->sums + h->n_programs * m, 0, m * sizeof *h->sums);
    *at = (uint32_t)h->n_programs;
    h->programs[h->n_programs++] = p;
    return ERR_OK;
}

/* NULL with ERR_OK: there are too many. */
static enum err host_find(struct program_sums *s, struct sums_host **out, const struct uuid *id,
                          struct str name)
{
    size_t at = uuid_search(id, s->n, host_id_at, s);
    struct sums_host h = {.id = *id};
    uint32_t first;
    enum err e;

    *out = NULL;
    if (at < s->n && memcmp(&s->hosts[at].id, id, sizeof *id) == 0) {
        *out = &s->hosts[at];
        return ERR_OK;
    }
    if (s->n == s->conf.hosts_max) {
        return ERR_OK;
    }
    e = VEC_ROOM(&s->hosts, &s->cap, s->n + 1, s->conf.hosts_max);
    e = e ? e : text_keep(&h.name, name) ? ERR_OK : ERR_NOMEM;
    e = e ? e : program_add(s, &h, (struct str){"", 0}, 0, &first);
    if (e) {
        host_fini(&h);
        return e;
    }
    memmove(&s->hosts[at + 1], &s->hosts[at], (s->n - at) * sizeof h);
    s->hosts[at] = h;
    s->n++;
    *out = &s->hosts[at];
    return ERR_OK;
}

static enum err program_find(struct program_sums *s, struct sums_host *h, struct str name,
                             uint32_t *at)
{
    enum err e;

    for (size_t i = 1; i < h->n_programs; i++) {
        if (str_eq(h->programs[i].name, name)) {
            *at = (uint32_t)i;
            return ERR_OK;
        }
    }
    if (s->n_programs >= s->conf.processes_max) {
        return ERR_FULL;
    }
    e = program_add(s, h, name, h->last_ns, at);
    s->n_programs += !e;
    return e;
}

/* Where it is, or belongs. */
static size_t process_search(const struct sums_host *h, const struct proc_id *id, bool *found)
{
    size_t lo = 0, hi = h->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct proc_id *at = &h->processes[mid].id;

        if (at->pid < id->pid || (at->pid == id->pid && at->start < id->start)) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    *found = lo < h->n && proc_id_eq(h->processes[lo].id, *id);
    return lo;
}

static enum err process_insert(struct program_sums *s, struct sums_host *h, size_t at,
                               const struct proc_id *id, uint32_t program)
{
    size_t m = s->conf.n_metrics;
    enum err e = VEC_ROOM(&h->processes, &h->cap, h->n + 1, s->conf.processes_max);

    if (!e) {
        e = VEC_ROOM(&h->values, &h->values_cap, (h->n + 1) * m, s->conf.processes_max * m);
    }
    if (e) {
        return e;
    }
    memmove(&h->processes[at + 1], &h->processes[at], (h->n - at) * sizeof *h->processes);
    memmove(h->values + (at + 1) * m, h->values + at * m, (h->n - at) * m * sizeof *h->values);
    h->processes[at] = (struct sums_process){.id = *id, .program = program};
    h->n++;
    s->n_processes++;
    return ERR_OK;
}

/* -- a tick that is whole -- */

/* Processes that did not come for long, and programs without any, are forgotten. */
static void host_forget(struct program_sums *s, struct sums_host *h, uint32_t *places)
{
    size_t m = s->conf.n_metrics, n = 0, kept = 1;

    for (size_t i = 0; i < h->n; i++) {
        if (clk_sub(h->tick_ns, h->processes[i].when_ns) >= PROGRAM_SUMS_IDLE_NS) {
            continue;
        }
        h->processes[n] = h->processes[i];
        memmove(h->values + n * m, h->values + i * m, m * sizeof *h->values);
        n++;
    }
    s->n_processes -= h->n - n;
    h->n = n;
    places[0] = 0;
    for (size_t i = 1; i < h->n_programs; i++) {
        places[i] = 0;
    }
    for (size_t i = 0; i < h->n; i++) {
        places[h->processes[i].program] = 1;
    }
    for (size_t i = 1; i < h->n_programs; i++) {
        if (!places[i] && clk_sub(h->tick_ns, h->programs[i].alive_ns) >= PROGRAM_SUMS_IDLE_NS) {
            mem_free((void *)(uintptr_t)h->programs[i].name.p);
            continue;
        }
        places[i] = (uint32_t)kept;
        h->programs[kept] = h->programs[i];
        memmove(h->sums + kept * m, h->sums + i * m, m * sizeof *h->sums);
        kept++;
    }
    s->n_programs -= h->n_programs - kept;
    h->n_programs = kept;
    for (size_t i = 0; i < h->n; i++) {
        h->processes[i].program = places[h->processes[i].program];
    }
}

static void row_add(const struct program_sums *s, struct program_sums_row *row, int64_t *values,
                    const struct sums_process *p, const int64_t *from)
{
    row->processes++;
    for (size_t i = 0; i < s->conf.n_metrics; i++) {
        if ((p->have & ~s->counters) >> i & 1) {
            row->have |= UINT64_C(1) << i;
            values[i] += from[i];
        }
    }
}

static enum err tick_room(struct program_sums *s, const struct sums_host *h)
{
    size_t m = s->conf.n_metrics;
    enum err e = VEC_ROOM(&s->rows, &s->rows_cap, h->n_programs, PROGRAMS_MAX);

    return e ? e
             : VEC_ROOM(&s->row_values, &s->row_values_cap, h->n_programs * m + h->n_programs,
                        PROGRAMS_MAX * (m + 1));
}

static enum err tick_give(struct program_sums *s, struct sums_host *h,
                          const struct program_sums_sink *sink)
{
    size_t m = s->conf.n_metrics;
    struct program_sums_tick t = {
        .host = h->id, .name = h->name, .when_ns = h->tick_ns, .n = h->n_programs};
    enum err e = tick_room(s, h);

    if (e) {
        return e;
    }
    for (size_t i = 0; i < h->n_programs; i++) {
        s->rows[i] = (struct program_sums_row){.name = h->programs[i].name,
                                               .start_ns = h->programs[i].start_ns,
                                               .have = h->programs[i].have,
                                               .values = s->row_values + i * m};
        for (size_t k = 0; k < m; k++) {
            s->row_values[i * m + k] = s->counters >> k & 1 ? h->sums[i * m + k] : 0;
        }
    }
    for (size_t i = 0; i < h->n; i++) {
        const struct sums_process *p = &h->processes[i];

        if (p->when_ns == h->tick_ns) {
            row_add(s, &s->rows[0], s->row_values, p, h->values + i * m);
            row_add(s, &s->rows[p->program], s->row_values + p->program * m, p, h->values + i * m);
            h->programs[p->program].alive_ns = h->tick_ns;
        }
    }
    t.rows = s->rows;
    e = sink->tick(sink->ctx, &t);
    if (!e) {
        h->given_ns = h->tick_ns;
        host_forget(s, h, (uint32_t *)(void *)s->row_values);
    }
    return e;
}

/* A row of this moment comes: the tick before it is whole. */
static enum err host_turn(struct program_sums *s, struct sums_host *h, int64_t when_ns,
                          const struct program_sums_sink *sink)
{
    bool due = h->tick_ns && when_ns > h->tick_ns &&
               (!h->given_ns || clk_sub(h->tick_ns, h->given_ns) >= s->conf.interval_ns);
    enum err e = due ? tick_give(s, h, sink) : ERR_OK;

    if (e) {
        return e;
    }
    if (!h->since_ns) {
        h->since_ns = h->programs[0].start_ns = when_ns;
    }
    if (h->given_ns > when_ns) { /* its clock was set back */
        h->given_ns = when_ns;
    }
    h->last_ns = h->tick_ns && h->tick_ns < when_ns ? h->tick_ns : when_ns;
    h->tick_ns = when_ns;
    return ERR_OK;
}

/* -- rows -- */

/* Which of our metrics each of the update's is; PROGRAM_SUMS_METRICS: none. */
static void columns_of(const struct program_sums *s, const struct wire_answer *a,
                       uint8_t place[WIRE_COLUMNS_MAX])
{
    for (size_t i = 0; i < a->n_metrics; i++) {
        place[i] = PROGRAM_SUMS_METRICS;
        for (uint8_t k = 0; k < s->conf.n_metrics; k++) {
            place[i] = s->conf.metrics[k] == a->metrics[i] ? k : place[i];
        }
    }
}

static void process_take(struct program_sums *s, struct sums_host *h, size_t at, bool whole,
                         const struct wire_row *row, const struct wire_answer *a,
                         const uint8_t place[WIRE_COLUMNS_MAX])
{
    size_t m = s->conf.n_metrics;
    struct sums_process *p = &h->processes[at];
    int64_t *values = h->values + at * m, *program = h->sums + p->program * m;
    uint64_t before = p->have;

    p->have = 0;
    p->when_ns = row->when_ns;
    for (size_t i = 0; i < a->n_metrics; i++) {
        uint8_t k = place[i];
        int64_t grew;

        if (k == PROGRAM_SUMS_METRICS || !wire_row_has(row, i)) {
            continue;
        }
        p->have |= UINT64_C(1) << k;
        if (s->counters >> k & 1) {
            grew = before >> k & 1 ? (int64_t)((uint64_t)row->values[i] - (uint64_t)values[k])
                   : whole         ? row->values[i]
                                   : 0;
            grew = grew > 0 ? grew : 0;
            program[k] = (int64_t)((uint64_t)program[k] + (uint64_t)grew);
            h->sums[k] = (int64_t)((uint64_t)h->sums[k] + (uint64_t)grew);
            h->programs[p->program].have |= UINT64_C(1) << k;
            h->programs[0].have |= UINT64_C(1) << k;
        }
        values[k] = row->values[i];
    }
    p->have |= before & s->counters; /* the value before still counts when one was left out */
}

static enum err row_take(struct program_sums *s, struct sums_host *h, const struct wire_row *row,
                         const struct wire_answer *a, const uint8_t place[WIRE_COLUMNS_MAX])
{
    const struct proc_info *info = &row->info;
    bool found, whole = false;
    size_t at = process_search(h, &info->id, &found);
    struct str name = info->name;
    uint32_t program;
    enum err e;

    name.n = name.n <= NAME_MAX ? name.n : utf8_whole(name.p, NAME_MAX);
    if (!found && (s->n_processes == s->conf.processes_max || h->n == PROCESSES_EACH)) {
        s->left_out++;
        return ERR_OK;
    }
    if (!found || !str_eq(h->programs[h->processes[at].program].name, name)) {
        e = program_find(s, h, name, &program);
        if (e == ERR_FULL) {
            s->left_out++;
            return ERR_OK;
        }
        if (!e && !found) {
            e = process_insert(s, h, at, &info->id, program);
            whole = (info->have & INFO_CREATE_TIME) && info->create_ns > h->since_ns;
        }
        if (e) {
            return e;
        }
        h->processes[at].program = program;
    }
    process_take(s, h, at, whole, row, a, place);
    return ERR_OK;
}

enum err program_sums_take(struct program_sums *s, const struct wire_update *u,
                           const struct program_sums_sink *sink)
{
    const struct wire_answer *a = &u->data;
    uint8_t place[WIRE_COLUMNS_MAX];
    struct sums_host *h;
    enum err e = ERR_OK;

    if (a->n_rows == 0) {
        return ERR_OK;
    }
    e = host_find(s, &h, &u->host, u->name);
    if (e || !h) {
        s->left_out += e ? 0 : a->n_rows;
        return e;
    }
    columns_of(s, a, place);
    for (size_t i = 0; i < a->n_rows && !e; i++) {
        const struct wire_row *row = &a->rows[i];

        if (row->when_ns != h->tick_ns) {
            e = host_turn(s, h, row->when_ns, sink);
        }
        if (!e && row->info.id.pid != 0) { /* 0: what idles */
            e = row_take(s, h, row, a, place);
        }
    }
    return e;
}

/* -- the state as bytes -- */

static void save_text(struct buf *out, struct str s)
{
    buf_put_varint(out, s.n);
    buf_put(out, s.p, s.n);
}

static void save_values(struct buf *out, const int64_t *values, uint64_t have)
{
    buf_put_varint(out, have);
    for (size_t i = 0; have >> i; i++) {
        if (have >> i & 1) {
            buf_put_svarint(out, values[i]);
        }
    }
}

static void save_host(const struct program_sums *s, const struct sums_host *h, struct buf *out)
{
    size_t m = s->conf.n_metrics;

    buf_put(out, &h->id, sizeof h->id);
    save_text(out, h->name);
    buf_put_svarint(out, h->since_ns);
    buf_put_svarint(out, h->tick_ns);
    buf_put_svarint(out, h->last_ns);
    buf_put_svarint(out, h->given_ns);
    buf_put_varint(out, h->n_programs);
    for (size_t i = 0; i < h->n_programs; i++) {
        save_text(out, h->programs[i].name);
        buf_put_svarint(out, h->programs[i].start_ns);
        buf_put_svarint(out, h->programs[i].alive_ns);
        save_values(out, h->sums + i * m, h->programs[i].have);
    }
    buf_put_varint(out, h->n);
    for (size_t i = 0; i < h->n; i++) {
        const struct sums_process *p = &h->processes[i];

        buf_put_varint(out, p->id.pid);
        buf_put_varint(out, p->id.start);
        buf_put_varint(out, p->program);
        buf_put_svarint(out, (int64_t)((uint64_t)h->tick_ns - (uint64_t)p->when_ns));
        save_values(out, h->values + i * m, p->have);
    }
}

void program_sums_save(const struct program_sums *s, struct buf *out)
{
    buf_put_u8(out, VERSION);
    buf_put_u8(out, s->conf.n_metrics);
    buf_put(out, s->conf.metrics, s->conf.n_metrics);
    buf_put_varint(out, s->n);
    for (size_t i = 0; i < s->n; i++) {
        save_host(s, &s->hosts[i], out);
    }
}

static struct str load_text(struct cur *c)
{
    uint64_t n = cur_varint(c);
    const uint8_t *p = n <= MODEL_TEXT_MAX ? cur_bytes(c, (size_t)n) : NULL;

    c->bad = c->bad || !p;
    return (struct str){p ? (const char *)p : "", p ? (size_t)n : 0};
}

static uint64_t load_values(const struct program_sums *s, struct cur *c, int64_t *values)
{
    uint64_t have = cur_varint(c);

    c->bad = c->bad || have >> s->conf.n_metrics;
    for (size_t i = 0; !c->bad && have >> i; i++) {
        if (have >> i & 1) {
            values[i] = cur_svarint(c);
        }
    }
    return have;
}

static enum err load_programs(struct program_sums *s, struct sums_host *h, struct cur *c)
{
    uint64_t n = cur_varint(c);
    enum err e = n >= 1 && n <= PROGRAMS_MAX ? ERR_OK : ERR_CORRUPT;

    for (uint64_t i = 0; i < n && !e; i++) {
        struct str name = load_text(c);
        uint32_t at = 0;

        if (c->bad) {
            return ERR_CORRUPT;
        }
        if (i > 0) {
            e = program_add(s, h, name, 0, &at);
            s->n_programs += !e;
        }
        if (!e) {
            h->programs[at].start_ns = cur_svarint(c);
            h->programs[at].alive_ns = cur_svarint(c);
            h->programs[at].have =
                load_values(s, c, h->sums + (size_t)at * s->conf.n_metrics) & s->counters;
        }
    }
    return e;
}

static enum err load_processes(struct program_sums *s, struct sums_host *h, struct cur *c)
{
    uint64_t n = cur_varint(c);
    enum err e = ERR_OK;

    for (uint64_t i = 0; i < n && !e && !c->bad; i++) {
        struct proc_id id;
        uint64_t pid = cur_varint(c), program;
        int64_t ago;
        bool found;

        id = (struct proc_id){.pid = (uint32_t)pid};
        id.start = cur_varint(c);
        program = cur_varint(c);
        ago = cur_svarint(c);
        if (c->bad || pid > UINT32_MAX || program == 0 || program >= h->n_programs ||
            s->n_processes == s->conf.processes_max ||
            process_search(h, &id, &found) != h->n) { /* in their order, each once */
            return ERR_CORRUPT;
        }
        e = process_insert(s, h, h->n, &id, (uint32_t)program);
        if (!e) {
            struct sums_process *p = &h->processes[h->n - 1];

            p->when_ns = (int64_t)((uint64_t)h->tick_ns - (uint64_t)ago);
            p->have = load_values(s, c, h->values + (h->n - 1) * s->conf.n_metrics);
        }
    }
    return e;
}

static enum err load_host(struct program_sums *s, struct cur *c)
{
    struct sums_host *h;
    struct uuid id = {{0}};
    const uint8_t *p = cur_bytes(c, sizeof id);
    struct str name = load_text(c);
    size_t before = s->n;
    enum err e;

    if (c->bad) {
        return ERR_CORRUPT;
    }
    memcpy(&id, p, sizeof id);
    e = host_find(s, &h, &id, name);
    if (e || !h || s->n == before) {
        return e ? e : ERR_CORRUPT;
    }
    h->since_ns = cur_svarint(c);
    h->tick_ns = cur_svarint(c);
    h->last_ns = cur_svarint(c);
    h->given_ns = cur_svarint(c);
    e = load_programs(s, h, c);
    e = e ? e : load_processes(s, h, c);
    return e ? e : c->bad ? ERR_CORRUPT : ERR_OK;
}

enum err program_sums_load(struct program_sums *s, const void *p, size_t n)
{
    struct cur c = cur_make(p, n);
    uint8_t version = cur_u8(&c), n_metrics = cur_u8(&c);
    const uint8_t *metrics = cur_bytes(&c, n_metrics);
    uint64_t hosts;
    enum err e = ERR_OK;

    sums_clear(s);
    if (c.bad) {
        return n == 0 ? ERR_OK : ERR_CORRUPT; /* 0: saved without metrics */
    }
    if (version != VERSION) {
        return ERR_CORRUPT;
    }
    if (n_metrics != s->conf.n_metrics || memcmp(metrics, s->conf.metrics, n_metrics) != 0) {
        return ERR_OK; /* other metrics were chosen since */
    }
    hosts = cur_varint(&c);
    for (uint64_t i = 0; i < hosts && !e; i++) {
        e = load_host(s, &c);
    }
    if (!e && (c.bad || cur_left(&c))) {
        e = ERR_CORRUPT;
    }
    if (e) {
        sums_clear(s);
    }
    return e;
}
