/* Late data: of every run whose file was made while samples of it can still come, the windows of
 * its hosts stand in one array in the order of hosts, under `lock`. A stored batch that meets one
 * marks it; the thread writes that into the run's row, so that it is not forgotten, and makes the
 * file again when the last time is long enough ago.
 *
 * Locks: `lock` guards the array and what wakes the thread, and is held across no I/O. */
#include "collector/lab/lab_keeper.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/lab/boots.h"
#include "collector/lab/extract_range.h"
#include "collector/lab/runs_trim.h"
#include "common/base/clk.h"
#include "common/base/glob.h"
#include "common/base/mem.h"
#include "common/base/search.h"
#include "common/base/vec.h"
#include "common/log/log.h"
#include "common/os/deadline.h"
#include "common/os/os.h"
#include "common/os/uuid.h"

#define WAIT_NS      (180 * CLK_S)
#define AGAIN_NS     (600 * CLK_S)
#define POLL_NS      CLK_S
#define TICK_WAIT_NS (5 * CLK_S)
#define SILENT_NS    (6 * CLK_S)  /* a tree's range reaches 5 s beyond its end at most */
#define SLOW_NS      (5 * CLK_S)  /* ttl, hosts that come later, retention */
#define REST_NS      (15 * CLK_S) /* after a file could not be made: a disk is full, say */
#define AT_ONCE      256u         /* runs of one look */
#define WINDOWS_MAX  (1u << 18)
#define MEMORY_MAX   ((size_t)64 << 20)
#define RECENT       256u

struct keeper_window {
    struct uuid host;
    int64_t since_ns, until_ns; /* by the host's clock */
    uint64_t run;
    bool late; /* data came */
};

struct lab_keeper {
    struct lab_keeper_conf conf;
    char *dir; /* data_dir/runs */
    struct os_thread *thread;
    struct deadline deadline; /* ends with the thread */
    struct os_mutex *lock;
    struct os_cond *wake;
    bool stopping, woken, late; /* under the lock; late: some window is */
    size_t n_windows, cap_windows;
    struct keeper_window *windows; /* by host */
    /* of the thread alone */
    int64_t slow_ns, rest_ns; /* nothing before, monotonic */
    int64_t boots_ns;         /* how far boots go is written then, monotonic */
    size_t n_recent;
    struct {
        uint64_t run;
        int64_t mono_ns;
    } recent[RECENT]; /* files made, the newest at n_recent - 1, round */
};

/* -- windows -- */

static size_t host_in_view(const struct store_view *view, const struct uuid *id)
{
    size_t n = store_view_hosts(view);

    for (size_t i = 0; i < n; i++) {
        if (memcmp(store_view_host(view, i)->id.b, id->b, sizeof id->b) == 0) {
            return i;
        }
    }
    return n;
}

static int range_order(const void *a, const void *b)
{
    return memcmp(((const struct query_run_host *)a)->id.b,
                  ((const struct query_run_host *)b)->id.b, sizeof(struct uuid));
}

/* The end of a process tree: what its last processes used comes with the tick behind it. */
static enum err range_last_tick(struct query_run_host *out, const struct store_view *view,
                                size_t host)
{
    int64_t tick_ns;
    enum err e = extract_range_tick(&tick_ns, view, host, out->until_ns);

    out->until_ns = tick_ns == INT64_MAX ? clk_add(out->until_ns, TICK_WAIT_NS) : tick_ns + 1;
    return e;
}

static enum err range_host(struct query_run_host *out, const struct store_view *view, size_t host,
                           const struct wire_run *run)
{
    struct host_offset began = {.known = false}, ended = {.known = false};
    enum err e = extract_range_clock(&began, view, host, run->began_ns);

    if (!e && run->ended_ns) {
        e = extract_range_clock(&ended, view, host, run->ended_ns);
    }
    *out = (struct query_run_host){
        .id = store_view_host(view, host)->id,
        .since_ns = clk_sub(run->began_ns, began.known ? began.offset_ns : 0),
        .until_ns = run->ended_ns ? clk_sub(run->ended_ns, ended.known ? ended.offset_ns : 0) : 0};
    if (run->ended_ns && out->until_ns <= out->since_ns) {
        out->until_ns = out->since_ns + 1;
    }
    return !e && run->ended_ns && run->root_pid ? range_last_tick(out, view, host) : e;
}

enum err lab_keeper_range(struct query_run *out, const struct store_view *view,
                          const struct wire_run *run, struct arena *memory)
{
    struct query_run_host *hosts = arena_array(memory, run->n_hosts, sizeof *hosts);
    enum err e = hosts ? ERR_OK : ERR_FULL;

    *out = (struct query_run){.hosts = hosts};
    for (size_t i = 0; !e && i < run->n_hosts; i++) {
        size_t at = host_in_view(view, &run->hosts[i].id);

        if (at < store_view_hosts(view)) {
            e = range_host(&hosts[out->n++], view, at, run);
        }
    }
    if (out->n) {
        qsort(hosts, out->n, sizeof *hosts, range_order);
    }
    out->has_root = run->root_pid && out->n == 1 && run->n_hosts == 1;
    out->boot = run->boot;
    out->root = (struct proc_id){run->root_pid, run->root_start};
    return e;
}

/* -- late data -- */

static int window_order(const void *a, const void *b)
{
    return memcmp(((const struct keeper_window *)a)->host.b,
                  ((const struct keeper_window *)b)->host.b, sizeof(struct uuid));
}

static size_t windows_first(const struct lab_keeper *k, const struct uuid *host)
{
    size_t i;

    SEARCH_LOWER(i, k->n_windows, memcmp(k->windows[i].host.b, host->b, sizeof host->b) < 0);
    return i;
}

void lab_keeper_stored(struct lab_keeper *k, const struct uuid *host, int64_t first_ns,
                       int64_t last_ns)
{
    os_mutex_lock(k->lock);
    for (size_t i = windows_first(k, host);
         i < k->n_windows && memcmp(k->windows[i].host.b, host->b, sizeof host->b) == 0; i++) {
        struct keeper_window *w = &k->windows[i];

        if (!w->late && first_ns < w->until_ns && last_ns >= w->since_ns) {
            w->late = k->late = true;
        }
    }
    os_mutex_unlock(k->lock);
}

/* From now on batches of these windows are late ones. Those of the run before go, and those that
 * are too old. */
static void windows_put(struct lab_keeper *k, uint64_t run, const struct query_run *range)
{
    int64_t oldest_ns = clk_sub(os_utc_ns(), k->conf.samples_age_ns);
    size_t n = 0;

    os_mutex_lock(k->lock);
    for (size_t i = 0; i < k->n_windows; i++) {
        if (k->windows[i].run != run && k->windows[i].until_ns > oldest_ns) {
            k->windows[n++] = k->windows[i];
        }
    }
    k->n_windows = n;
    for (size_t i = 0; i < range->n; i++) {
        if (VEC_ROOM(&k->windows, &k->cap_windows, k->n_windows + 1, WINDOWS_MAX) != ERR_OK) {
            break; /* its late data will not be seen */
        }
        k->windows[k->n_windows++] = (struct keeper_window){.host = range->hosts[i].id,
                                                            .since_ns = range->hosts[i].since_ns,
                                                            .until_ns = range->hosts[i].until_ns,
                                                            .run = run};
    }
    if (k->n_windows) {
        qsort(k->windows, k->n_windows, sizeof *k->windows, window_order);
    }
    os_mutex_unlock(k->lock);
}

/* The next run that data came for, 0: none. */
static uint64_t windows_late(struct lab_keeper *k)
{
    uint64_t run = 0;

    os_mutex_lock(k->lock);
    for (size_t i = 0; k->late && i < k->n_windows; i++) {
        if (k->windows[i].late && (!run || k->windows[i].run == run)) {
            run = k->windows[i].run;
            k->windows[i].late = false;
        }
    }
    k->late = run != 0;
    os_mutex_unlock(k->lock);
    return run;
}

/* -- files -- */

static void keeper_trouble(const char *event, uint64_t run, enum err e, const struct errmsg *why)
{
    char text[600];

    log_line(LOG_WARN, "lab", event, "run=%" PRIu64 " reason=%s", run,
             log_str(text, sizeof text, why && why->text[0] ? why->text : err_text(e)));
}

char *lab_keeper_path(const struct lab_keeper *k, const struct uuid *id)
{
    char name[UUID_TEXT + 8], text[UUID_TEXT];

    (void)snprintf(name, sizeof name, "%s.pfr", uuid_format(text, id));
    return os_path_join(k->dir, name);
}

/* "NAME.new": what is not yet a run's file. mem_free. */
static char *staged_path(const struct lab_keeper *k, const struct uuid *name)
{
    char text[UUID_TEXT], file[UUID_TEXT + 8];

    (void)snprintf(file, sizeof file, "%s.new", uuid_format(text, name));
    return os_path_join(k->dir, file);
}

static enum err file_place(struct lab_keeper *k, const char *staged, const struct uuid *id)
{
    const struct fio *fio = k->conf.fio;
    char *path = lab_keeper_path(k, id);
    enum err e = path ? fio->rename(fio->ctx, staged, path) : ERR_NOMEM;

    mem_free(path);
    return e ? e : fio->sync_dir(fio->ctx, k->dir);
}

static enum err file_write(struct lab_keeper *k, const struct uuid *id, const void *p, size_t n)
{
    char *staged = staged_path(k, id);
    enum err e = staged ? fio_write_whole(k->conf.fio, staged, p, n) : ERR_NOMEM;

    e = e ? e : file_place(k, staged, id);
    mem_free(staged);
    return e;
}

enum err lab_keeper_read(const struct lab_keeper *k, const struct uuid *id, uint64_t offset,
                         void *p, size_t *n, uint64_t *total)
{
    const struct fio *fio = k->conf.fio;
    char *path = lab_keeper_path(k, id);
    struct fio_file *f = NULL;
    size_t got = 0;
    enum err e = path ? fio->open(fio->ctx, &f, path) : ERR_NOMEM;

    mem_free(path);
    if (e) {
        return e;
    }
    e = fio->size(fio->ctx, f, total);
    e = e ? e : fio->read(fio->ctx, f, offset, p, *n, &got);
    fio->close(fio->ctx, f);
    *n = got;
    return e;
}

static void file_remove(struct lab_keeper *k, const struct uuid *id)
{
    char *path = lab_keeper_path(k, id);

    if (path) {
        err_ignore(k->conf.fio->remove(k->conf.fio->ctx, path)); /* the next start does it, else */
    }
    mem_free(path);
}

struct keeper_import {
    struct lab_keeper *k;
    const char *staged;
    const struct uuid *id;
    bool placed;
};

static enum err import_place(void *ctx)
{
    struct keeper_import *i = ctx;

    i->placed = true;
    return file_place(i->k, i->staged, i->id);
}

enum err lab_keeper_import(struct lab_keeper *k, const struct uuid *transfer,
                           const struct wire_run *row, const void *p, size_t n,
                           struct arena *memory, struct wire_run *out, struct errmsg *why)
{
    const struct fio *fio = k->conf.fio;
    char *staged = staged_path(k, transfer);
    struct keeper_import i = {.k = k, .staged = staged, .id = &row->id};
    bool known = true;
    enum err e = staged ? fio_write_whole(fio, staged, p, n) : ERR_NOMEM;

    e = e ? e : runs_import(k->conf.db, row, memory, out, import_place, &i, why);
    if (e && staged) {
        err_ignore(fio->remove(fio->ctx, staged)); /* the next start does it, else */
    }
    if (e && i.placed && runs_known(k->conf.db, &row->id, &known) == ERR_OK && !known) {
        file_remove(k, &row->id);
    }
    mem_free(staged);
    return e;
}

struct keeper_about {
    struct lab_keeper *k;
    const struct wire_run *run;
};

static enum err keeper_about(void *ctx, const struct uuid *host, struct arena *memory,
                             struct run_host *out)
{
    const struct keeper_about *a = ctx;
    const struct facts *f = NULL;
    char name[MODEL_HOST_NAME_MAX + 1];
    enum err e = runs_overlaps(a->k->conf.db, a->run, host, &out->overlapped);

    (void)snprintf(name, sizeof name, "%.*s", (int)out->name.n, out->name.p);
    if (!e && a->k->conf.facts) {
        e = facts_then(a->k->conf.facts, host, name, a->run->began_ns, memory, &f);
    }
    return !e && f ? facts_pairs(f, memory, out) : e;
}

static enum err run_labels(struct run_head *head, const struct wire_run *run, struct arena *memory)
{
    struct run_pair *labels = arena_array(memory, run->n_labels, sizeof *labels);

    for (size_t i = 0; labels && i < run->n_labels; i++) {
        labels[i] = (struct run_pair){run->labels[i].key, run->labels[i].value};
    }
    head->labels = labels;
    head->n_labels = run->n_labels;
    return labels ? ERR_OK : ERR_FULL;
}

static uint8_t run_state_of(const struct wire_run *run, bool expired)
{
    return expired ? RUN_EXPIRED : run->has_exit && run->exit_code ? RUN_FAILED : RUN_READY;
}

static enum err run_extract(struct lab_keeper *k, struct store_view *view,
                            const struct wire_run *run, const struct query_run *range,
                            struct arena *memory, struct run_file **out, struct errmsg *why)
{
    struct keeper_about about = {k, run};
    bool expired = !run->has_exit && run->ended_ns >= clk_add(run->began_ns, run->ttl_ns);
    struct extract_ask ask = {.env = {.view = view,
                                      .now_ns = os_utc_ns(),
                                      .deadline = &k->deadline,
                                      .host_state = k->conf.host_state,
                                      .is_forgotten = k->conf.is_forgotten,
                                      .ctx = k->conf.ctx},
                              .run = range,
                              .head = {.id = run->id,
                                       .parent = run->parent,
                                       .name = run->name,
                                       .owner = run->owner,
                                       .state = run_state_of(run, expired),
                                       .origin = RUN_OF_STORE,
                                       .revision = run->revision + 1,
                                       .begin_ns = run->began_ns,
                                       .end_ns = run->ended_ns,
                                       .has_exit = run->has_exit,
                                       .exit_code = run->exit_code,
                                       .has_root = range->has_root,
                                       .boot = run->boot,
                                       .root_pid = run->root_pid},
                              .clock_error_ns = run->error_ns,
                              .about = keeper_about,
                              .ctx = &about};
    enum err e = run_labels(&ask.head, run, memory);

    return e ? e : extract_run(out, &ask, why);
}

/* A host whose data ended before the run did: what it did from then on nobody knows. */
static enum err run_silences(struct run_file *f, const struct store_view *view)
{
    struct run_host *hosts = arena_dup(&f->memory, f->hosts, f->n_hosts * sizeof *hosts);

    for (size_t i = 0; hosts && i < f->n_hosts; i++) {
        struct run_host *h = &hosts[i];
        int64_t last_ns = store_view_host(view, host_in_view(view, &h->id))->last_ns;
        double heard = (double)(last_ns - h->begin_ns) / (double)(h->end_ns - h->begin_ns);
        struct run_span *spans;

        if (h->absent || heard < 0 || h->end_ns - last_ns < SILENT_NS) {
            continue;
        }
        spans = arena_array(&f->memory, h->n_spans + 1, sizeof *spans);
        if (!spans) {
            return ERR_FULL;
        }
        if (h->n_spans) {
            memcpy(spans, h->spans, h->n_spans * sizeof *spans);
        }
        spans[h->n_spans] = (struct run_span){last_ns, h->end_ns, .at_most = true};
        h->spans = spans;
        h->n_spans += h->n_spans < RUN_FILE_SPANS_MAX;
        h->ppm = heard * 1e6 < h->ppm ? (uint32_t)(heard * 1e6) : h->ppm;
        h->at_most = true;
    }
    f->hosts = hosts;
    return hosts ? ERR_OK : ERR_FULL;
}

#define CLASSES_MAX   4u
#define CLASSES_BYTES 512u

/* "Windows 11/26100/i7-12700/20c/32G ×20, …": the classes of the hosts that are in it. */
static void run_classes(const struct lab_keeper *k, struct wire_run *run, const struct run_file *f,
                        struct arena *memory)
{
    struct str classes[CLASSES_MAX];
    unsigned counts[CLASSES_MAX], n = 0;
    char text[CLASSES_BYTES] = "";
    size_t used = 0;
    bool more = false;

    for (size_t i = 0; k->conf.facts && i < f->n_hosts; i++) {
        const struct run_host *h = &f->hosts[i];
        struct str class = facts_class_pairs(k->conf.facts, h->facts, h->n_facts, memory);
        unsigned at = 0;

        while (at < n && !str_eq(classes[at], class)) {
            at++;
        }
        if (!class.n || h->absent) {
            continue;
        }
        more = more || at == CLASSES_MAX;
        if (at == n && n < CLASSES_MAX) {
            classes[n] = class;
            counts[n++] = 0;
        }
        counts[at < n ? at : 0] += at < n;
    }
    for (unsigned i = 0; i < n && used + classes[i].n + 24 < sizeof text; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.*s \u00d7%u", i ? ", " : "",
                                 (int)classes[i].n, classes[i].p, counts[i]);
    }
    if (more && used + 8 < sizeof text) {
        used += (size_t)snprintf(text + used, sizeof text - used, ", \u2026");
    }
    run->classes = (struct str){arena_dup(memory, text, used), used};
    run->classes.n = run->classes.p ? used : 0;
}

/* What the row says of the file. */
static void run_sums(struct wire_run *run, const struct run_file *f)
{
    uint64_t ppm = 0;

    run->hosts_in = 0;
    for (size_t i = 0; i < f->n_hosts; i++) {
        run->hosts_in += !f->hosts[i].absent;
        ppm += f->hosts[i].ppm;
    }
    run->coverage = f->n_hosts ? (uint32_t)(ppm / f->n_hosts) : 0;
    run->revision = f->head.revision;
}

static enum err run_file_make(struct lab_keeper *k, struct store_view *view, struct wire_run *run,
                              const struct query_run *range, struct arena *memory,
                              struct errmsg *why)
{
    struct run_file *f = NULL;
    bool root_found = true;
    struct buf bytes;
    enum err e = run_extract(k, view, run, range, memory, &f, why);

    if (e) {
        return e;
    }
    buf_init(&bytes, RUN_FILE_MAX);
    e = run_silences(f, view);
    e = e || !k->conf.notices ? e : k->conf.notices(k->conf.db, f);
    e = e ? e : run_file_encode(&bytes, f);
    e = e ? e : file_write(k, &run->id, bytes.p, bytes.n);
    if (!e) {
        run_sums(run, f);
        run_classes(k, run, f, memory);
        run->file_bytes = bytes.n;
        root_found = !run->root_pid || (f->head.has_root && f->head.root_pid);
        e = runs_filed(k->conf.db, run, root_found);
    }
    buf_fini(&bytes);
    run_file_free(f);
    return e;
}

/* -- runs that have ended -- */

/* Whether every host's data have passed the end. */
static bool run_is_complete(const struct store_view *view, const struct query_run *range,
                            const struct wire_run *run)
{
    for (size_t i = 0; i < range->n; i++) {
        size_t at = host_in_view(view, &range->hosts[i].id);

        if (store_view_host(view, at)->last_ns < range->hosts[i].until_ns) {
            return false;
        }
    }
    return range->n == run->n_hosts;
}

static void recent_put(struct lab_keeper *k, uint64_t run)
{
    k->recent[k->n_recent % RECENT].run = run;
    k->recent[k->n_recent++ % RECENT].mono_ns = os_mono_ns();
}

static bool recent_has(const struct lab_keeper *k, uint64_t run)
{
    int64_t again_ns = k->conf.again_ns ? k->conf.again_ns : AGAIN_NS;

    for (size_t i = 0; i < RECENT; i++) {
        if (k->recent[i].run == run && os_mono_ns() - k->recent[i].mono_ns < again_ns) {
            return true;
        }
    }
    return false;
}

static void run_close(struct lab_keeper *k, uint64_t number, bool again)
{
    int64_t wait_ns = k->conf.wait_ns ? k->conf.wait_ns : WAIT_NS, began_ns = os_mono_ns();
    struct store_view *view = NULL;
    struct query_run range;
    struct errmsg why = {""};
    struct arena memory;
    struct wire_run run;
    enum err e;

    arena_init(&memory, MEMORY_MAX);
    e = runs_read(k->conf.db, number, &memory, &run);
    e = e ? e : store_view_open(&view, k->conf.store);
    e = e ? e : lab_keeper_range(&range, view, &run, &memory);
    if (!e && (again || os_utc_ns() >= clk_add(run.ended_ns, wait_ns) ||
               run_is_complete(view, &range, &run))) {
        windows_put(k, number, &range); /* what comes from now on is late; all before is in a */
        store_view_close(view);         /* view that is opened after */
        view = NULL;
        e = store_view_open(&view, k->conf.store);
        e = e ? e : run_file_make(k, view, &run, &range, &memory, &why);
        if (!e) {
            char name[WIRE_RUN_NAME_MAX * 4 + 3], text[WIRE_RUN_NAME_MAX + 1];

            recent_put(k, number);
            (void)snprintf(text, sizeof text, "%.*s", (int)run.name.n, run.name.p);
            log_line(LOG_INFO, "lab", "run_filed",
                     "run=%" PRIu64 " name=%s revision=%u hosts=%u bytes=%" PRIu64 " ms=%" PRId64,
                     number, log_str(name, sizeof name, text), (unsigned)run.revision,
                     (unsigned)run.hosts_in, run.file_bytes,
                     (int64_t)((os_mono_ns() - began_ns) / CLK_MS));
        }
    }
    if ((e == ERR_FULL || e == ERR_INVALID) && !again && !deadline_passed(&k->deadline)) {
        keeper_trouble("run_without_file", number, e, &why); /* nor would it be the next time */
        run.revision = run.hosts_in = run.coverage = 0;
        run.file_bytes = 0;
        e = runs_filed(k->conf.db, &run, true);
    }
    if (e && e != ERR_NOTFOUND && !deadline_passed(&k->deadline)) {
        keeper_trouble("run_not_filed", number, e, &why);
        k->rest_ns = os_mono_ns() + REST_NS;
    }
    store_view_close(view);
    arena_fini(&memory);
}

/* Whether samples that its file was made of are gone already: made again it would have less. Of a
 * run longer than they are kept they were gone the first time, too. */
static bool run_is_past(const struct lab_keeper *k, const struct wire_run *run)
{
    int64_t oldest_ns = clk_sub(os_utc_ns(), k->conf.samples_age_ns);

    return run->ended_ns < oldest_ns ||
           (run->began_ns < oldest_ns && run->ended_ns - run->began_ns < k->conf.samples_age_ns);
}

static void run_make_again(struct lab_keeper *k, uint64_t number)
{
    struct arena memory;
    struct wire_run run;
    bool past = false;

    arena_init(&memory, MEMORY_MAX);
    if (runs_read(k->conf.db, number, &memory, &run) == ERR_OK) {
        past = run_is_past(k, &run);
    }
    if (past) { /* the row as it was, no longer stale */
        enum err e = runs_filed(k->conf.db, &run, run.n_notes == 0);

        if (e) {
            keeper_trouble("run_late_data", number, e, NULL);
        }
    }
    arena_fini(&memory);
    if (!past) {
        run_close(k, number, true);
    }
}

static void look_closing(struct lab_keeper *k)
{
    uint64_t numbers[AT_ONCE], late;
    size_t n = 0;

    if (os_mono_ns() < k->rest_ns) {
        return;
    }
    if (runs_list(k->conf.db, RUNS_CLOSING, 0, numbers, AT_ONCE, &n) == ERR_OK) {
        for (size_t i = 0; i < n && !deadline_passed(&k->deadline); i++) {
            run_close(k, numbers[i], false);
        }
    }
    while ((late = windows_late(k)) != 0) {
        enum err e = runs_stale(k->conf.db, late);

        if (e) {
            keeper_trouble("run_late_data", late, e, NULL);
        }
    }
    if (runs_list(k->conf.db, RUNS_STALE, 0, numbers, AT_ONCE, &n) != ERR_OK) {
        return;
    }
    for (size_t i = 0; i < n && !deadline_passed(&k->deadline); i++) {
        if (!recent_has(k, numbers[i])) {
            run_make_again(k, numbers[i]);
        }
    }
}

/* -- what is done now and then -- */

/* Hosts that fit an open run's patterns and its owner's scope and were not there at its begin. */
static void open_hosts_add(struct lab_keeper *k, const struct store_view *view,
                           const struct wire_run *run)
{
    for (size_t i = 0; i < store_view_hosts(view); i++) {
        const struct store_host *h = store_view_host(view, i);
        bool fits = false, there = false;

        for (size_t p = 0; p < run->n_asked && !fits; p++) {
            fits = glob_match(run->asked[p], str_make(h->name));
        }
        for (size_t n = 0; fits && n < run->n_hosts && !there; n++) {
            there = memcmp(run->hosts[n].id.b, h->id.b, sizeof h->id.b) == 0;
        }
        fits = fits && (!run->scope.n || glob_match(run->scope, str_make(h->name)));
        if (fits && !there && h->last_ns >= run->began_ns) {
            enum err e = runs_host_add(k->conf.db, run->number, &h->id, str_make(h->name));

            if (e) {
                keeper_trouble("run_host", run->number, e, NULL);
            }
        }
    }
}

static void look_open(struct lab_keeper *k)
{
    uint64_t numbers[AT_ONCE];
    struct store_view *view;
    size_t n = 0;

    if (runs_list(k->conf.db, RUNS_OPEN, 0, numbers, AT_ONCE, &n) != ERR_OK || n == 0 ||
        store_view_open(&view, k->conf.store) != ERR_OK) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        struct arena memory;
        struct wire_run run;

        arena_init(&memory, MEMORY_MAX);
        if (runs_read(k->conf.db, numbers[i], &memory, &run) == ERR_OK) {
            open_hosts_add(k, view, &run);
        }
        arena_fini(&memory);
    }
    store_view_close(view);
}

static void look_room(struct lab_keeper *k)
{
    static const char *const why[] = {"age", "number", "max_bytes"};
    const struct runs_bounds bounds = {clk_sub(os_utc_ns(), k->conf.age_ns),
                                       k->conf.max_runs ? k->conf.max_runs : RUNS_MAX,
                                       k->conf.max_bytes};
    struct runs_gone gone[AT_ONCE];
    size_t n = 0;

    do {
        enum err e = runs_trim(k->conf.db, &bounds, gone, AT_ONCE, &n);

        if (e) {
            keeper_trouble("runs", 0, e, NULL);
            return;
        }
        for (size_t i = 0; i < n; i++) {
            log_line(LOG_INFO, "lab", "run_dropped", "run=%" PRIu64 " reason=%s", gone[i].number,
                     why[gone[i].why]);
            file_remove(k, &gone[i].id);
        }
    } while (n == AT_ONCE && !deadline_passed(&k->deadline));
}

/* -- at a start -- */

/* False: the name is none of "ID.suffix". */
static bool file_id(struct uuid *id, const char *name, const char *suffix)
{
    const char *dot = strrchr(name, '.');
    char text[UUID_TEXT];

    if (!dot || (size_t)(dot - name) != UUID_TEXT - 1 || strcmp(dot, suffix) != 0) {
        return false;
    }
    memcpy(text, name, UUID_TEXT - 1);
    text[UUID_TEXT - 1] = 0;
    return uuid_parse(id, text) == ERR_OK;
}

static enum err file_look_staged(void *ctx, const char *name)
{
    const struct lab_keeper *k = ctx;
    struct uuid id;
    char *path = file_id(&id, name, ".new") ? os_path_join(k->dir, name) : NULL;

    if (path) {
        err_ignore(k->conf.fio->remove(k->conf.fio->ctx, path));
    }
    mem_free(path);
    return ERR_OK;
}

/* Files of rows that are gone. */
static enum err file_look_stray(void *ctx, const char *name)
{
    struct lab_keeper *k = ctx;
    struct uuid id;
    bool known = true;

    if (file_id(&id, name, ".pfr") && runs_known(k->conf.db, &id, &known) == ERR_OK && !known) {
        file_remove(k, &id);
    }
    return deadline_passed(&k->deadline) ? ERR_END : ERR_OK;
}

static void imported_look(struct lab_keeper *k, uint64_t number)
{
    struct arena memory;
    struct wire_run run;
    char *path = NULL;

    arena_init(&memory, MEMORY_MAX);
    if (runs_read(k->conf.db, number, &memory, &run) == ERR_OK) {
        path = lab_keeper_path(k, &run.id);
    }
    if (path && !os_exists(path)) {
        enum err e = runs_trim_one(k->conf.db, number);

        keeper_trouble("run_without_file", number, e ? e : ERR_NOTFOUND, NULL);
    }
    mem_free(path);
    arena_fini(&memory);
}

/* Rows whose file came from elsewhere and is gone: nobody can make it again. A collector of before
 * that was killed while it took one left such a row. */
static void look_imported(struct lab_keeper *k)
{
    uint64_t numbers[AT_ONCE], last = 0;
    size_t n = 0;

    do {
        if (runs_list(k->conf.db, RUNS_IMPORTED, (int64_t)last, numbers, AT_ONCE, &n) != ERR_OK) {
            return;
        }
        for (size_t i = 0; i < n; i++) {
            imported_look(k, numbers[i]);
            last = numbers[i];
        }
    } while (n == AT_ONCE && !deadline_passed(&k->deadline));
}

/* -- what is done now and then, all together -- */

static void look_boots(struct lab_keeper *k)
{
    bool all = os_mono_ns() >= k->boots_ns;
    enum err e = k->conf.boots ? boots_flush(k->conf.boots, all) : ERR_OK;

    if (all) {
        k->boots_ns = os_mono_ns() + BOOTS_LATER_NS;
    }
    if (e) {
        keeper_trouble("boot", 0, e, NULL);
    }
}

static void look_slow(struct lab_keeper *k)
{
    int64_t now_ns = os_utc_ns();
    uint32_t ended = 0;
    enum err e;

    if (os_mono_ns() < k->slow_ns) {
        return;
    }
    k->slow_ns =
        os_mono_ns() + (k->conf.poll_ns && k->conf.poll_ns < SLOW_NS ? k->conf.poll_ns : SLOW_NS);
    e = k->conf.facts ? facts_flush(k->conf.facts) : ERR_OK;
    if (e) {
        keeper_trouble("host_fact", 0, e, NULL);
    }
    look_boots(k);
    e = runs_expire(k->conf.db, now_ns, &ended);
    if (e) {
        keeper_trouble("runs", 0, e, NULL);
    }
    look_open(k);
    look_room(k);
}

/* -- the thread -- */

static bool keeper_wait(struct lab_keeper *k)
{
    int64_t until_ns = os_mono_ns() + (k->conf.poll_ns ? k->conf.poll_ns : POLL_NS);
    bool go;

    os_mutex_lock(k->lock);
    while (!k->stopping && !k->woken && os_cond_wait_until(k->wake, until_ns) != ERR_TIMEOUT) {
    }
    k->woken = false;
    go = !k->stopping;
    os_mutex_unlock(k->lock);
    return go;
}

/* Runs whose late data are waited for: a start knows of none. */
static void windows_load(struct lab_keeper *k)
{
    int64_t since_ns = clk_sub(os_utc_ns(), k->conf.samples_age_ns);
    uint64_t numbers[4 * AT_ONCE];
    struct store_view *view;
    size_t n = 0;

    if (runs_list(k->conf.db, RUNS_ENDED, since_ns, numbers, 4 * AT_ONCE, &n) != ERR_OK || !n ||
        store_view_open(&view, k->conf.store) != ERR_OK) {
        return;
    }
    for (size_t i = 0; i < n && !deadline_passed(&k->deadline); i++) {
        struct query_run range;
        struct arena memory;
        struct wire_run run;

        arena_init(&memory, MEMORY_MAX);
        if (runs_read(k->conf.db, numbers[i], &memory, &run) == ERR_OK &&
            lab_keeper_range(&range, view, &run, &memory) == ERR_OK) {
            windows_put(k, numbers[i], &range);
        }
        arena_fini(&memory);
    }
    store_view_close(view);
}

static void keeper_run(void *arg)
{
    struct lab_keeper *k = arg;

    err_ignore(os_thread_background());                  /* works on as it can */
    err_ignore(os_list_dir(k->dir, file_look_stray, k)); /* the next start looks again */
    look_imported(k);
    windows_load(k);
    do {
        look_slow(k);
        look_closing(k);
    } while (keeper_wait(k));
}

static enum err keeper_make(struct lab_keeper *k, struct errmsg *why)
{
    enum err e;

    k->dir = os_path_join(k->conf.data_dir, "runs");
    e = k->dir ? os_mkdirs(k->dir, true) : ERR_NOMEM;
    if (e) {
        return errmsg_set(why, e, "cannot make %s: %s", k->dir ? k->dir : "runs", err_text(e));
    }
    err_ignore(os_list_dir(k->dir, file_look_staged, k)); /* before there can be new ones */
    e = os_mutex_create(&k->lock);
    e = e ? e : os_cond_create(&k->wake, k->lock);
    return e ? e : os_thread_start(&k->thread, "lab", keeper_run, k);
}

enum err lab_keeper_start(struct lab_keeper **out, const struct lab_keeper_conf *conf,
                          struct errmsg *why)
{
    struct lab_keeper *k = mem_zalloc(sizeof *k);
    enum err e = k ? ERR_OK : ERR_NOMEM;

    if (!e) {
        k->conf = *conf;
        k->conf.fio = conf->fio ? conf->fio : fio_os();
        deadline_set(&k->deadline, INT64_MAX);
        e = keeper_make(k, why);
    }
    if (e) {
        lab_keeper_stop(k);
        return e;
    }
    *out = k;
    return ERR_OK;
}

void lab_keeper_wake(struct lab_keeper *k)
{
    os_mutex_lock(k->lock);
    k->woken = true;
    os_cond_wake(k->wake);
    os_mutex_unlock(k->lock);
}

void lab_keeper_stop(struct lab_keeper *k)
{
    if (!k) {
        return;
    }
    if (k->thread) {
        deadline_end(&k->deadline);
        os_mutex_lock(k->lock);
        k->stopping = true;
        os_cond_wake(k->wake);
        os_mutex_unlock(k->lock);
        os_thread_join(k->thread);
    }
    os_cond_destroy(k->wake);
    os_mutex_destroy(k->lock);
    mem_free(k->windows);
    mem_free(k->dir);
    mem_free(k);
}
