#include "agent/etl/etl_instances.h"

#include <assert.h>
#include <stdlib.h>

#include "agent/process/u32map.h"
#include "common/base/arena.h"
#include "common/base/mem.h"
#include "common/base/vec.h"

#define NO_SESSION UINT32_MAX

struct etl_instances {
    struct etl_instances_row *rows; /* grows */
    size_t n, cap;
    struct u32map *latest; /* pid → mark: index + 1 of its latest instance */
    struct arena text;
    uint64_t dropped;
};

enum err etl_instances_create(struct etl_instances **out)
{
    struct etl_instances *l = mem_zalloc(sizeof *l);
    enum err e;

    if (!l) {
        return ERR_NOMEM;
    }
    arena_init(&l->text, ETL_INSTANCES_TEXT_MAX);
    e = u32map_create(&l->latest, ETL_INSTANCES_MAX, NULL);
    if (e) {
        etl_instances_destroy(l);
        return e;
    }
    *out = l;
    return ERR_OK;
}

void etl_instances_destroy(struct etl_instances *l)
{
    if (l) {
        u32map_destroy(l->latest);
        arena_fini(&l->text);
        mem_free(l->rows);
        mem_free(l);
    }
}

static struct etl_instances_row *row_add(struct etl_instances *l, uint32_t pid)
{
    struct u32map_entry *e;

    if (VEC_ROOM(&l->rows, &l->cap, l->n + 1, ETL_INSTANCES_MAX)) {
        return NULL;
    }
    e = u32map_put(l->latest, pid);
    if (!e) {
        return NULL;
    }
    l->rows[l->n] =
        (struct etl_instances_row){.pid = pid, .session = NO_SESSION, .order = (uint32_t)l->n};
    e->owner = l; /* anything but NULL */
    e->mark = (uint32_t)++l->n;
    return &l->rows[l->n - 1];
}

/* The instance a record is about, new or known; NULL: there is no room. */
static struct etl_instances_row *row_of(struct etl_instances *l, uint32_t pid, enum event_kind kind)
{
    struct u32map_entry *e = u32map_get(l->latest, pid);
    struct etl_instances_row *r = e ? &l->rows[e->mark - 1] : NULL;

    assert(!e || (e->mark > 0 && e->mark <= l->n));
    if (!r || kind == EV_PROC_START || (kind == EV_PROC_FOUND && r->stopped)) {
        return row_add(l, pid);
    }
    return r;
}

static const char *text_keep(struct etl_instances *l, const char *old, struct str text, bool known)
{
    char *p;

    if (!known) {
        return old;
    }
    if (old && strlen(old) == text.n && memcmp(old, text.n ? text.p : "", text.n) == 0) {
        return old;
    }
    p = arena_alloc(&l->text, text.n + 1);
    if (!p) {
        l->dropped++;
        return old;
    }
    if (text.n) {
        memcpy(p, text.p, text.n);
    }
    return p;
}

static void describe_row(struct etl_instances *l, struct etl_instances_row *row,
                         const struct ev_proc *p, uint8_t version)
{
    row->parent_pid = p->info.parent_pid;
    row->session = version == 0 ? NO_SESSION : p->info.session_id;
    row->version = version;
    row->image = text_keep(l, row->image, p->info.name, true);
    row->cmdline = text_keep(l, row->cmdline, p->info.command_line, version >= 2);
    row->sid = text_keep(l, row->sid, p->info.user, p->info.user.n > 0);
    row->package = text_keep(l, row->package, p->package, p->package.n > 0);
}

static uint8_t opcode_of(enum event_kind kind)
{
    switch (kind) {
    case EV_PROC_START:
        return 1;
    case EV_PROC_STOP:
        return 2;
    case EV_PROC_FOUND:
        return 3;
    case EV_PROC_LAST:
        return 4;
    default:
        return 39;
    }
}

static void mark_seen(struct etl_instances_row *row, enum event_kind kind)
{
    if (row->n_seen < ETL_INSTANCES_SEEN_MAX) {
        row->seen[row->n_seen++] = opcode_of(kind);
    } else {
        row->seen_more++;
    }
}

void etl_instances_event(struct etl_instances *l, const struct etl_walk_record *r)
{
    const struct event *ev = r->ev;
    const struct ev_proc *p;
    struct etl_instances_row *row;

    if (!ev || ev->kind > EV_PROC_DEFUNCT || ev->u.proc.manifest) {
        return;
    }
    p = &ev->u.proc;
    row = row_of(l, p->info.id.pid, ev->kind);
    if (!row) {
        l->dropped++;
        return;
    }
    if (row->n_seen == 0 || ev->kind == EV_PROC_FOUND) {
        describe_row(l, row, p, r->raw->version);
    } else if (row->cmdline && !row->cmdline[0]) {
        row->cmdline = text_keep(l, row->cmdline, p->info.command_line, p->info.command_line.n > 0);
    }
    mark_seen(row, ev->kind);
    if (ev->kind == EV_PROC_START) {
        row->started = true;
        row->start_ns = r->raw->wall_ns;
        row->creator_pid = r->raw->pid;
    } else if (ev->kind == EV_PROC_STOP) {
        row->stopped = true;
        row->stop_ns = r->raw->wall_ns;
        row->exit_code = p->info.exit_code;
    }
    if (r->charged) {
        row->charged = r->charged;
    }
}

uint64_t etl_instances_dropped(const struct etl_instances *l)
{
    return l->dropped;
}

static int by_pid(const void *pa, const void *pb)
{
    const struct etl_instances_row *a = *(const struct etl_instances_row *const *)pa;
    const struct etl_instances_row *b = *(const struct etl_instances_row *const *)pb;

    if (a->pid != b->pid) {
        return a->pid < b->pid ? -1 : 1;
    }
    return (a->order > b->order) - (a->order < b->order);
}

enum err etl_instances_sort(const struct etl_instances *l, const struct etl_instances_row ***out,
                            size_t *n)
{
    const struct etl_instances_row **all = mem_array(l->n + 1, sizeof *all);

    if (!all) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < l->n; i++) {
        all[i] = &l->rows[i];
    }
    qsort(all, l->n, sizeof *all, by_pid);
    *out = all;
    *n = l->n;
    return ERR_OK;
}
