/* `etl clr`: what .NET did in a recording: a row for each process, or the list --what names. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/etl/etl_clr_figures.h"
#include "agent/etl/etl_commands.h"
#include "common/base/buf.h"
#include "common/base/plural.h"

#define CELLS_MAX  64
#define TEXTS      2 /* long ones in a row */
#define TEXT_MAX   (1u << 18)
#define WORDS      4 /* numbers that no word is known for, in a row */
#define WORD_BYTES 12

struct clr_print {
    const struct etl_clr_figures *f;
    const char *file;
    struct buf texts[TEXTS];
    char words[WORDS][WORD_BYTES];
    size_t n_words;
};

static const char *const lists[ETL_CLR_LISTS] = {
    [ETL_CLR_PROCESSES] = "processes",   [ETL_CLR_GC] = "gc",
    [ETL_CLR_PAUSES] = "pauses",         [ETL_CLR_JIT] = "jit",
    [ETL_CLR_EXCEPTIONS] = "exceptions", [ETL_CLR_ALLOC] = "alloc",
    [ETL_CLR_THREADPOOL] = "threadpool", [ETL_CLR_CONTENTION] = "contention",
    [ETL_CLR_RUNTIMES] = "runtimes",     [ETL_CLR_EVENTS] = "events",
};

/* -- cells -- */

static const char *const gc_reasons[] = {
    "AllocSmall",        "Induced",
    "LowMemory",         "Empty",
    "AllocLarge",        "OutOfSpaceSOH",
    "OutOfSpaceLOH",     "InducedNotForced",
    "Internal",          "InducedLowMemory",
    "InducedCompacting", "LowMemoryHost",
    "PMFullGC",          "LowMemoryHostBlocking",
};
static const char *const gc_types[] = {"NonConcurrentGC", "BackgroundGC", "ForegroundGC"};
static const char *const suspend_reasons[] = {
    "SuspendOther",
    "SuspendForGC",
    "SuspendForAppDomainShutdown",
    "SuspendForCodePitching",
    "SuspendForShutdown",
    "SuspendForDebugger",
    "SuspendForGCPrep",
    "SuspendForDebuggerSweep",
};
static const char *const adjustment_reasons[] = {
    "Warmup",      "Initializing", "RandomMove", "ClimbingMove",
    "ChangePoint", "Stabilizing",  "Starvation", "ThreadTimedOut",
};
static const char *const lock_kinds[] = {"managed", "native"};
static const char *const runtime_kinds[] = {NULL, "Framework", "Core"};

#define WORD(list, value) clr_word(c, list, sizeof(list) / sizeof *(list), value)

/* Numbers that no word is known for are shown as they are. */
static struct table_cell clr_word(struct clr_print *c, const char *const *list, size_t n,
                                  uint64_t value)
{
    char *text = c->words[c->n_words++ % WORDS];

    if (value < n && list[value]) {
        return table_string(str_make(list[value]));
    }
    (void)snprintf(text, WORD_BYTES, "%" PRIu32, (uint32_t)value);
    return table_string(str_make(text));
}

static struct table_cell clr_text(struct clr_print *c, size_t i, const struct ev_clr_text *text)
{
    struct buf *b = &c->texts[i];

    buf_reset(b);
    buf_put_utf16le(b, text->units, text->n);
    return table_string((struct str){(const char *)b->p, b->n});
}

static struct table_cell clr_method(struct clr_print *c, const struct etl_clr_item *item)
{
    struct buf *b = &c->texts[0];

    buf_reset(b);
    buf_put_utf16le(b, item->text[0].units, item->text[0].n);
    if (item->text[0].n) {
        buf_put_u8(b, '.');
    }
    buf_put_utf16le(b, item->text[1].units, item->text[1].n);
    return table_string((struct str){(const char *)b->p, b->n});
}

static struct table_cell clr_version(const uint16_t parts[4], char text[32])
{
    (void)snprintf(text, 32, "%u.%u.%u.%u", parts[0], parts[1], parts[2], parts[3]);
    return table_string(str_make(text));
}

static struct table_cell clr_pid(const struct clr_print *c, uint32_t process)
{
    const struct etl_clr_process *p = &c->f->processes[process];

    return table_number(!p->rest, p->pid);
}

static struct table_cell clr_name(const struct clr_print *c, uint32_t process)
{
    const struct etl_clr_process *p = &c->f->processes[process];

    return table_string(p->rest    ? str_make("(more)")
                        : p->owner ? p->owner->info.name
                                   : (struct str){"", 0});
}

/* Absent where the recording has no event of the kind, of no process. */
static struct table_cell clr_of(const struct clr_print *c, enum clr_op op, uint64_t v)
{
    return c->f->n[op] ? table_count(v) : table_number(false, 0);
}

static struct table_cell clr_moment(const struct etl_clr_spans *s)
{
    return table_number(s->n > 0, s->longest_at_ns);
}

static struct table_cell clr_size(const struct etl_clr_process *p, unsigned generation)
{
    return table_number(generation < p->heap.n_sizes, (int64_t)p->heap.sizes[generation]);
}

/* -- columns: key, title, unit, cell -- */

#define COLUMN(key, title, unit, cell) {#key, title, TABLE_##unit},
#define CELL(key, title, unit, cell)   *cells++ = (cell);

#define OWNER(X, place)                                    \
    X(file, "FILE", TEXT, table_string(str_make(c->file))) \
    X(pid, "PID", ID, clr_pid(c, place))                   \
    X(process, "PROCESS", TEXT, clr_name(c, place))

#define PROCESS_COLUMNS(X)                                                                    \
    OWNER(X, (uint32_t)(p - c->f->processes))                                                 \
    X(pointer_size, NULL, ID, table_number(!p->rest, p->pointer_size))                        \
    X(runtimes, NULL, COUNT, table_count(p->n_runtimes))                                      \
    X(gcs, "GCS", COUNT, clr_of(c, CLR_GC_START, p->gcs))                                     \
    X(gc_gen0, NULL, COUNT, clr_of(c, CLR_GC_START, p->generations[0]))                       \
    X(gc_gen1, "GEN1", COUNT, clr_of(c, CLR_GC_START, p->generations[1]))                     \
    X(gc_gen2, "GEN2", COUNT, clr_of(c, CLR_GC_START, p->generations[2]))                     \
    X(gc_completed, NULL, COUNT, clr_of(c, CLR_GC_END, p->gc.n))                              \
    X(gc_repeated, NULL, COUNT, clr_of(c, CLR_GC_START, p->repeated))                         \
    X(gc_unstarted, NULL, COUNT, clr_of(c, CLR_GC_END, p->unstarted))                         \
    X(gc_triggered, NULL, COUNT, clr_of(c, CLR_TRIGGERED, p->n[CLR_TRIGGERED]))               \
    X(gc_time, NULL, NS, clr_of(c, CLR_GC_END, p->gc.ns))                                     \
    X(gc_longest, NULL, NS, clr_of(c, CLR_GC_END, p->gc.longest_ns))                          \
    X(pauses, NULL, COUNT, clr_of(c, CLR_RESTART, p->paused.n))                               \
    X(pause, "PAUSE", NS, clr_of(c, CLR_RESTART, p->paused.ns))                               \
    X(pause_longest, "MAX", NS, clr_of(c, CLR_RESTART, p->paused.longest_ns))                 \
    X(suspensions, NULL, COUNT, clr_of(c, CLR_SUSPEND, p->n[CLR_SUSPEND]))                    \
    X(suspended, NULL, NS, clr_of(c, CLR_RESTART, p->suspended.ns))                           \
    X(suspended_longest, NULL, NS, clr_of(c, CLR_RESTART, p->suspended.longest_ns))           \
    X(suspended_longest_time, NULL, TIME, clr_moment(&p->suspended))                          \
    X(suspended_again, NULL, COUNT, clr_of(c, CLR_SUSPEND, p->replaced))                      \
    X(restarts_unsuspended, NULL, COUNT, clr_of(c, CLR_RESTART, p->unsuspended))              \
    X(alloc_bytes, "ALLOC", BYTES, clr_of(c, CLR_ALLOC, p->alloc_bytes))                      \
    X(alloc_ticks, NULL, COUNT, clr_of(c, CLR_ALLOC, p->n[CLR_ALLOC]))                        \
    X(heap_bytes, "HEAP", BYTES, table_number(p->heap.n_sizes > 0, (int64_t)p->heap.bytes))   \
    X(heap_gen0, NULL, BYTES, clr_size(p, 0))                                                 \
    X(heap_gen1, NULL, BYTES, clr_size(p, 1))                                                 \
    X(heap_gen2, NULL, BYTES, clr_size(p, 2))                                                 \
    X(heap_large, NULL, BYTES, clr_size(p, 3))                                                \
    X(heap_pinned, NULL, BYTES, clr_size(p, 4))                                               \
    X(heap_largest, NULL, BYTES, table_number(p->heap.n_sizes > 0, (int64_t)p->heap_largest)) \
    X(jit_methods, "JIT", COUNT, clr_of(c, CLR_JIT_START, p->jit.n))                          \
    X(jit_time, "JIT_TIME", NS, clr_of(c, CLR_JIT_START, p->jit.ns))                          \
    X(jit_started, NULL, COUNT, clr_of(c, CLR_JIT_START, p->n[CLR_JIT_START]))                \
    X(methods_loaded, NULL, COUNT, clr_of(c, CLR_METHOD_LOAD, p->n[CLR_METHOD_LOAD]))         \
    X(methods_plain, NULL, COUNT, clr_of(c, CLR_METHOD_LOAD, p->plain))                       \
    X(methods_jitted, NULL, COUNT, clr_of(c, CLR_METHOD_LOAD, p->jitted))                     \
    X(methods_dynamic, NULL, COUNT, clr_of(c, CLR_METHOD_LOAD, p->dynamic))                   \
    X(methods_unloaded, NULL, COUNT, clr_of(c, CLR_METHOD_UNLOAD, p->n[CLR_METHOD_UNLOAD]))   \
    X(exceptions, "EXC", COUNT, clr_of(c, CLR_EXCEPTION, p->n[CLR_EXCEPTION]))                \
    X(contentions, "LOCKS", COUNT, clr_of(c, CLR_CONTENTION_START, p->contentions))           \
    X(contention_time, NULL, NS, clr_of(c, CLR_CONTENTION_STOP, p->contended.ns))             \
    X(contention_longest, NULL, NS, clr_of(c, CLR_CONTENTION_STOP, p->contended.longest_ns))  \
    X(adjustments, NULL, COUNT, clr_of(c, CLR_ADJUSTMENT, p->n[CLR_ADJUSTMENT]))              \
    X(starvations, "STARVED", COUNT, clr_of(c, CLR_ADJUSTMENT, p->starvations))               \
    X(finalizer_runs, NULL, COUNT, clr_of(c, CLR_FINALIZED, p->n[CLR_FINALIZED]))             \
    X(finalized, NULL, COUNT, clr_of(c, CLR_FINALIZED, p->finalized))

#define ITEM_BEGIN(X)    \
    OWNER(X, i->process) \
    X(runtime, NULL, ID, table_number(true, i->instance))

#define GC_COLUMNS(X)                                                                              \
    ITEM_BEGIN(X)                                                                                  \
    X(number, "GC", ID, table_number(true, i->count))                                              \
    X(generation, "GEN", ID, table_number(i->generation != CLR_NO_GENERATION, i->generation))      \
    X(reason, "REASON", WORD, WORD(gc_reasons, i->reason))                                         \
    X(type, "TYPE", WORD, WORD(gc_types, i->type))                                                 \
    X(trigger, NULL, WORD, i->trigger ? WORD(gc_reasons, i->trigger - 1) : table_number(false, 0)) \
    X(start_time, "START", TIME, table_number(true, i->begin_ns))                                  \
    X(took, "TOOK", NS, table_number(i->ended, i->took_ns))                                        \
    X(pause, "PAUSE", NS, table_number(i->has_pause, i->u.gc.pause_ns))                            \
    X(heap_after, "HEAP", BYTES, table_number(i->has_heap, (int64_t)i->u.gc.heap_bytes))           \
    X(promoted, "PROMOTED", BYTES, table_number(i->has_heap, (int64_t)i->u.gc.promoted))

#define PAUSE_COLUMNS(X)                                          \
    ITEM_BEGIN(X)                                                 \
    X(start_time, "START", TIME, table_number(true, i->begin_ns)) \
    X(took, "TOOK", NS, table_number(true, i->took_ns))           \
    X(reason, "REASON", WORD, WORD(suspend_reasons, i->reason))   \
    X(collections, NULL, ID, table_number(true, i->count))

#define JIT_COLUMNS(X)                                            \
    ITEM_BEGIN(X)                                                 \
    X(tid, "TID", ID, table_number(true, i->tid))                 \
    X(start_time, "START", TIME, table_number(true, i->begin_ns)) \
    X(took, "TOOK", NS, table_number(true, i->took_ns))           \
    X(code_bytes, "CODE", BYTES, table_number(true, i->count))    \
    X(method, "METHOD", TEXT, clr_method(c, i))

#define POOL_COLUMNS(X)                                            \
    ITEM_BEGIN(X)                                                  \
    X(time, "TIME", TIME, table_number(true, i->begin_ns))         \
    X(threads, "THREADS", COUNT, table_count(i->count))            \
    X(reason, "REASON", WORD, WORD(adjustment_reasons, i->reason)) \
    X(throughput, "THROUGHPUT", REAL, clr_real(c, i->u.throughput))

#define RUNTIME_COLUMNS(X)                                               \
    ITEM_BEGIN(X)                                                        \
    X(time, "TIME", TIME, table_number(true, i->begin_ns))               \
    X(kind, "KIND", WORD, WORD(runtime_kinds, i->u.versions[0]))         \
    X(version, "RUNTIME", WORD, clr_version(i->u.versions + 5, version)) \
    X(library, "LIBRARY", WORD, clr_version(i->u.versions + 1, library)) \
    X(startup_flags, NULL, HEX, table_number(true, i->flags))            \
    X(startup_mode, NULL, ID, table_number(true, i->type))               \
    X(command_line, "COMMAND", TEXT, clr_text(c, 0, &i->text[0]))        \
    X(path, "PATH", TEXT, clr_text(c, 1, &i->text[1]))

#define MORE table_string(str_make("(more)"))

#define GROUP_BEGIN(X)                                                           \
    X(file, "FILE", TEXT, table_string(str_make(c->file)))                       \
    X(pid, "PID", ID, g->rest ? table_number(false, 0) : clr_pid(c, g->process)) \
    X(process, "PROCESS", TEXT, g->rest ? MORE : clr_name(c, g->process))

#define GROUP_END(X)                                               \
    X(first_time, NULL, TIME, table_number(g->n > 0, g->first_ns)) \
    X(last_time, NULL, TIME, table_number(g->n > 0, g->last_ns))

#define ALLOC_COLUMNS(X)                                        \
    GROUP_BEGIN(X)                                              \
    X(bytes, "BYTES", BYTES, table_count(g->bytes))             \
    X(ticks, "TICKS", COUNT, table_count(g->n))                 \
    X(large_bytes, "LARGE", BYTES, table_count(g->large_bytes)) \
    X(large_ticks, NULL, COUNT, table_count(g->large))          \
    GROUP_END(X)                                                \
    X(type, "TYPE", TEXT, g->rest ? MORE : clr_text(c, 0, &g->text))

#define EXCEPTION_COLUMNS(X)                                            \
    GROUP_BEGIN(X)                                                      \
    X(count, "COUNT", COUNT, table_count(g->n))                         \
    X(hresult, "HRESULT", HEX, table_number(!g->rest, (int64_t)g->key)) \
    GROUP_END(X)                                                        \
    X(type, "TYPE", TEXT, g->rest ? MORE : clr_text(c, 0, &g->text))

#define CONTENTION_COLUMNS(X)                                        \
    GROUP_BEGIN(X)                                                   \
    X(kind, "KIND", WORD, g->rest ? MORE : WORD(lock_kinds, g->key)) \
    X(count, "COUNT", COUNT, table_count(g->n))                      \
    X(paired, NULL, COUNT, table_count(g->paired))                   \
    X(time, "TIME", NS, table_count(g->spans.ns))                    \
    X(longest, "MAX", NS, table_count(g->spans.longest_ns))          \
    X(measured, NULL, NS, table_count(g->measured_ns))               \
    GROUP_END(X)

#define EVENT_COLUMNS(X)                                                         \
    GROUP_BEGIN(X)                                                               \
    X(provider, "PROVIDER", WORD,                                                \
      g->rest ? MORE : table_string(str_make(etl_clr_figures_provider(g->key)))) \
    X(id, "ID", ID, table_number(!g->rest, g->key >> 8 & 0xffff))                \
    X(version, "VERSION", ID, table_number(!g->rest, g->key & 0xff))             \
    X(count, "COUNT", COUNT, table_count(g->n))                                  \
    X(payload_bytes, "BYTES", BYTES, table_count(g->bytes))                      \
    GROUP_END(X)

#define FILL(name, type, var, COLUMNS)                                                             \
    static const struct table_column name##_columns[] = {COLUMNS(COLUMN)};                         \
    static void name##_fill(struct clr_print *c, const struct type *var, struct table_cell *cells) \
    {                                                                                              \
        COLUMNS(CELL)                                                                              \
    }                                                                                              \
    _Static_assert(sizeof name##_columns / sizeof *name##_columns <= CELLS_MAX, "room for cells")

/* A number that is whole or not; its text is as long as it must be. */
static struct table_cell clr_real(struct clr_print *c, double v)
{
    struct buf *b = &c->texts[0];

    if (!(v > -1e15 && v < 1e15)) {
        return table_number(false, 0);
    }
    buf_reset(b);
    buf_printf(b, "%.15g", v);
    return table_string(str_make(buf_cstr(b)));
}

FILL(process, etl_clr_process, p, PROCESS_COLUMNS);
FILL(gc, etl_clr_item, i, GC_COLUMNS);
FILL(pause, etl_clr_item, i, PAUSE_COLUMNS);
FILL(jit, etl_clr_item, i, JIT_COLUMNS);
FILL(pool, etl_clr_item, i, POOL_COLUMNS);
FILL(alloc, etl_clr_group, g, ALLOC_COLUMNS);
FILL(exception, etl_clr_group, g, EXCEPTION_COLUMNS);
FILL(contention, etl_clr_group, g, CONTENTION_COLUMNS);
FILL(event, etl_clr_group, g, EVENT_COLUMNS);

static const struct table_column runtime_columns[] = {RUNTIME_COLUMNS(COLUMN)};

static void runtime_fill(struct clr_print *c, const struct etl_clr_item *i,
                         struct table_cell *cells)
{
    static char version[32], library[32]; /* until the row has been printed */

    RUNTIME_COLUMNS(CELL)
}

#define LIST(name) name##_columns, sizeof name##_columns / sizeof *name##_columns

static const struct {
    const struct table_column *columns;
    size_t n;
    void (*process)(struct clr_print *c, const struct etl_clr_process *p, struct table_cell *);
    void (*item)(struct clr_print *c, const struct etl_clr_item *i, struct table_cell *);
    void (*group)(struct clr_print *c, const struct etl_clr_group *g, struct table_cell *);
} prints[ETL_CLR_LISTS] = {
    [ETL_CLR_PROCESSES] = {LIST(process), .process = process_fill},
    [ETL_CLR_GC] = {LIST(gc), .item = gc_fill},
    [ETL_CLR_PAUSES] = {LIST(pause), .item = pause_fill},
    [ETL_CLR_JIT] = {LIST(jit), .item = jit_fill},
    [ETL_CLR_EXCEPTIONS] = {LIST(exception), .group = exception_fill},
    [ETL_CLR_ALLOC] = {LIST(alloc), .group = alloc_fill},
    [ETL_CLR_THREADPOOL] = {LIST(pool), .item = pool_fill},
    [ETL_CLR_CONTENTION] = {LIST(contention), .group = contention_fill},
    [ETL_CLR_RUNTIMES] = {LIST(runtime), .item = runtime_fill},
    [ETL_CLR_EVENTS] = {LIST(event), .group = event_fill},
};

/* -- rows -- */

static int process_before(const void *pa, const void *pb)
{
    const struct etl_clr_process *a = pa, *b = pb;

    if (a->rest != b->rest) {
        return a->rest ? 1 : -1;
    }
    if (a->pid != b->pid) {
        return a->pid < b->pid ? -1 : 1;
    }
    return a->owner && b->owner ? (a->owner->info.id.start > b->owner->info.id.start) -
                                      (a->owner->info.id.start < b->owner->info.id.start)
                                : (a->owner > b->owner) - (a->owner < b->owner);
}

static int more(uint64_t a, uint64_t b)
{
    return (a < b) - (a > b);
}

/* The largest first, what is summed up last. */
static int group_before(const void *pa, const void *pb)
{
    const struct etl_clr_group *a = pa, *b = pb;
    int by = (int)a->rest - (int)b->rest;

    by = by ? by : more(a->bytes, b->bytes);
    by = by ? by : more(a->spans.ns, b->spans.ns);
    by = by ? by : more(a->n, b->n);
    by = by ? by : more(b->process, a->process);
    return by ? by : more(b->key, a->key);
}

static int event_before(const void *pa, const void *pb)
{
    const struct etl_clr_group *a = pa, *b = pb;
    int by = (int)a->rest - (int)b->rest;

    by = by ? by : more(b->process, a->process);
    return by ? by : more(b->key, a->key);
}

static void clr_sort(struct etl_clr_figures *f)
{
    if (f->list == ETL_CLR_PROCESSES && f->n_processes) {
        qsort(f->processes, f->n_processes, sizeof *f->processes, process_before);
    }
    if (f->n_groups) {
        qsort(f->groups, f->n_groups, sizeof *f->groups,
              f->list == ETL_CLR_EVENTS ? event_before : group_before);
    }
}

static size_t clr_rows(const struct etl_clr_figures *f)
{
    return prints[f->list].process ? f->n_processes
           : prints[f->list].item  ? f->n_items
                                   : f->n_groups;
}

static enum err clr_row(struct clr_print *c, struct table *sheet, size_t i)
{
    struct table_cell cells[CELLS_MAX];

    c->n_words = 0;
    if (prints[c->f->list].process) {
        prints[c->f->list].process(c, &c->f->processes[i], cells);
    } else if (prints[c->f->list].item) {
        prints[c->f->list].item(c, &c->f->items[i], cells);
    } else {
        prints[c->f->list].group(c, &c->f->groups[i], cells);
    }
    return table_row(sheet, cells);
}

static enum err clr_print(const struct etl_job *job, const char *file, struct table *sheet,
                          const struct etl_clr_figures *f)
{
    struct clr_print c = {.f = f, .file = file};
    enum err e = f->failed;

    (void)job;
    for (size_t i = 0; i < TEXTS; i++) {
        buf_init(&c.texts[i], TEXT_MAX);
    }
    for (size_t i = 0; i < clr_rows(f) && !e; i++) {
        e = clr_row(&c, sheet, i);
    }
    for (size_t i = 0; i < TEXTS; i++) {
        buf_fini(&c.texts[i]);
    }
    return e;
}

/* What the rows do not say: why there are none, what had no room, what was not to be read. */
static void clr_notes(struct table *sheet, const char *file, const struct etl_clr_figures *f)
{
    char text[400];

    if (clr_rows(f) == 0 && f->records) {
        (void)snprintf(text, sizeof text, "%.200s: none of %" PRIu64 " %s for this list", file,
                       f->records, plural(f->records, "event of .NET is", "events of .NET is"));
        table_note(sheet, str_make(text));
    } else if (clr_rows(f) == 0) {
        (void)snprintf(
            text, sizeof text, "%.200s: no events of .NET's runtime are recorded%s", file,
            f->range->by_pid || f->range->name.n ? " for this process" : ETL_JOB_PROVIDERS);
        table_note(sheet, str_make(text));
    }
    if (f->over_limits) {
        (void)snprintf(text, sizeof text,
                       "%.200s: %" PRIu64 " %s no room and %s left out or summed", file,
                       f->over_limits, plural(f->over_limits, "entry had", "entries had"),
                       plural(f->over_limits, "is", "are"));
        table_note(sheet, str_make(text));
    }
    if (f->undecodable) {
        (void)snprintf(text, sizeof text, "%.200s: %" PRIu64 " damaged %s left out", file,
                       f->undecodable, plural(f->undecodable, "event is", "events are"));
        table_note(sheet, str_make(text));
    }
    if (clr_stats(f->clr)->lost) {
        table_note(sheet, str_make("events were lost: what was open then has no known end and does "
                                   "not count"));
    }
}

/* -- the command -- */

static void clr_on_record(void *ctx, const struct etl_walk_record *r)
{
    etl_clr_figures_record(ctx, r);
}

static void clr_on_fact(void *ctx, const struct event *ev)
{
    etl_clr_figures_fact(ctx, ev);
}

struct clr_asked {
    enum etl_clr_list list;
    struct etl_range range;
};

static enum err clr_part(struct etl_job *job, size_t part, struct table *sheet, void *ctx)
{
    struct clr_asked *asked = ctx;
    enum etl_clr_list list = asked->list;
    struct etl_walk_conf conf = {.progress = true, .record = clr_on_record, .fact = clr_on_fact};
    const char *name = etl_job_part_name(job, part);
    struct etl_clr_figures *f;
    struct etl_walk *w;
    enum err e = etl_clr_figures_create(&f, list, &asked->range);

    if (e) {
        return e;
    }
    conf.ctx = f;
    etl_range_limit(&asked->range, &conf);
    if (etl_job_open(job, part, &conf, &w) == ERR_OK) {
        f->walk = w;
        (void)etl_job_walk(job, w);
        clr_sort(f);
        e = clr_print(job, name, sheet, f);
        clr_notes(sheet, name, f);
        etl_walk_close(w);
    }
    etl_clr_figures_destroy(f);
    return e;
}

static enum err clr_list(enum etl_clr_list *out, const struct etl_job *job, struct errmsg *why)
{
    const char *name = opt_value(job->args, "what"), *closest;

    *out = ETL_CLR_PROCESSES;
    for (size_t i = 0; name && i < ETL_CLR_LISTS; i++) {
        if (strcmp(name, lists[i]) == 0) {
            *out = (enum etl_clr_list)i;
            return ERR_OK;
        }
    }
    closest = name ? opt_closest(name, lists, ETL_CLR_LISTS) : NULL;
    return name ? errmsg_set(why, ERR_USAGE, "--what: there is no list '%s'%s%s%s", name,
                             closest ? "; did you mean '" : "", closest ? closest : "",
                             closest ? "'?" : "")
                : ERR_OK;
}

static enum err clr_run(struct etl_job *job, struct errmsg *why)
{
    static const char *const yields[] = {"FILE",     "START", "LIBRARY", "PATH", "STARVED",
                                         "PROMOTED", "LOCKS", "TYPE",    NULL};
    struct clr_asked asked = {.list = ETL_CLR_PROCESSES};
    struct etl_job_list rows = {
        .yields = yields, .what = "what .NET did", .part = clr_part, .ctx = &asked};
    enum err e = clr_list(&asked.list, job, why);

    if (!e) {
        e = etl_range_parse(&asked.range, job, why);
    }
    if (e) {
        return e;
    }
    rows.columns = prints[asked.list].columns;
    rows.n = prints[asked.list].n;
    return etl_job_rows(job, &rows, why);
}

static const struct opt opts[] = {{"what", 0, "LIST",
                                   "processes (default), gc, pauses, jit, exceptions, alloc, "
                                   "threadpool, contention, runtimes, or "
                                   "events: records of .NET's providers by id and version",
                                   false},
                                  ETL_RANGE_OPTS,
                                  ETL_JOB_OPT_LIMIT,
                                  ETL_JOB_OPTS};

static const struct opt_command clr_opts = {
    .program = ETL_JOB_PROGRAM,
    .name = "clr",
    .brief = "what .NET did: collections, pauses, heap, allocations, compiled methods, exceptions",
    .operands = "FILE...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet-etl clr trace.etl\n"
                "  procfleet-etl clr trace.etl --what gc --pid 3676\n"
                "  procfleet-etl clr trace.etl --what alloc --format csv\n",
};

const struct etl_command etl_clr_command = {&clr_opts, NULL, clr_run};
