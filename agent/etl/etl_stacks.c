/* `etl stacks`: what was counted (samples, waits, bytes) by call stack. Two walks: the first learns
 * which images and compiled methods were where and when, the second joins events with their stacks
 * into a tree of places. Places get their names at the end, each once: of a method as the runtime
 * says it, else `module!function` where symbols are found, else `module+0x1234`, else the address.
 *
 * Stacks come as records of the class StackWalk behind their event, at once (32) or by keys (37, 38
 * refer to 35, 36), in the header of events of providers, and from the CLR itself (82), for the
 * event before it on that thread.
 * Bounds: those of stack/ and symbol/; NAMES_TEXT bytes of names, WAITS_MAX threads that wait. */
#include <stdlib.h>
#include <string.h>

#include "agent/etl/etl_commands.h"
#include "agent/etl/etl_fields.h"
#include "agent/etl/etl_range.h"
#include "agent/etl/etl_stack_rows.h"
#include "agent/etl/stack/etl_stack_join.h"
#include "agent/etl/stack/etl_stack_live.h"
#include "agent/etl/stack/etl_stack_out.h"
#include "agent/source/etw_guid.h"
#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/base/glob.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"
#include "common/text/value_text.h"

/* KTHREAD_STATE of one that is taken off and could go on. */
enum { OLD_READY = 1, OLD_STANDBY = 3, OLD_DEFERRED_READY = 7 };

#define WAITS_MAX    131072
#define PLACES       16384 /* a power of two */
#define PROCESSES    1024  /* likewise */
#define THREADS      4096  /* likewise */
#define GUIDS        64
#define CPUS         2048
#define MEMORY       ((size_t)36 << 20) /* of images, methods and the tree */
#define LIVE_MEMORY  ((size_t)20 << 20) /* of ranges and weights, which are taken off it */
#define NODE_MEMORY  36                 /* bytes, with its share of tables */
#define NODES_LEAST  65536
#define NOTHING      "no %s are recorded, or none is meant; see --event, and 'providers'"
#define SHOWN        40 /* rows of a table without --limit */
#define STACK_EXT_32 5
#define STACK_EXT_64 6

enum event_of {
    OF_SAMPLE,
    OF_SWITCH,
    OF_READY,
    OF_ALLOC,
    OF_VIRTUAL,
    OF_FAULT,
    OF_DISK,
    OF_PROVIDER, /* PROVIDER#ID */
};

static const struct {
    const char *word, *what, *unit;
} events_of[] = {
    [OF_SAMPLE] = {"sample", "samples", "count"},
    [OF_SWITCH] = {"switch", "waits", "nanoseconds"},
    [OF_READY] = {"ready", "threads made ready", "count"},
    [OF_ALLOC] = {"alloc", "allocations", "bytes"},
    [OF_VIRTUAL] = {"virtual", "allocations", "bytes"},
    [OF_FAULT] = {"fault", "hard faults", "count"},
    [OF_DISK] = {"disk", "disk requests", "count"},
    [OF_PROVIDER] = {"", "events", "count"},
};

enum { FORMAT_FOLDED = 1, FORMAT_SPEEDSCOPE, FORMAT_PPROF, FORMAT_HTML };
static const char *const formats[] = {"folded", "speedscope", "pprof", "html", NULL};

struct place { /* an address that was looked up, while its answer is true */
    uint64_t address;
    int64_t from_ns, to_ns;
    uint32_t pid, frame;
};

/* A thread that does not run. */
struct wait {
    int64_t since_ns;     /* 0: it runs, or is not known */
    int64_t ready_ns;     /* 0: it waits */
    uint32_t later, node; /* --ready: of the stack that made it ready; its node without stack */
    bool preempted;       /* it was ready all along */
};

struct etl_stacks {
    struct etl_job *job;
    struct etl_walk *walk;
    struct etl_range range;
    enum event_of of;
    struct str provider; /* OF_PROVIDER: glob or GUID */
    uint32_t id;
    bool only_modules, split, live; /* --modules, --ready, --live */
    uint64_t limit;
    const char *dirs[OPT_MANY_MAX]; /* --symbols */
    size_t n_dirs;

    struct etl_images *images;
    struct etl_methods *methods;
    struct etl_stack_tree tree;
    struct etl_stack_join *join;

    struct etl_stack_names *names;
    uint32_t no_stack, not_recorded, interrupt, waiting, ready; /* frames */

    struct place *places;
    struct {
        const struct instance *p;
        uint32_t node;
    } processes[PROCESSES];
    struct {
        uint32_t tid;
        bool counts; /* the latest record of the CLR on the thread is one that is counted */
    } threads[THREADS];
    struct {
        uint8_t guid[16];
        bool used, is;
    } guids[GUIDS];
    struct wait *waits;
    uint32_t on_cpu[CPUS]; /* the thread that runs; 0: the idle one, or not known */
    struct etl_stack_live *ranges;
    size_t n_waits, cap_waits;
    struct map by_tid;

    struct etl_stack_join_stats joined; /* of the recording that was read */
    uint64_t images_full, methods_full;
    uint64_t seed, no_room, weight;
    struct etl_stack_base base; /* --diff: the other recording */
    struct etl_stack_tags *tags;
    int64_t start_ns, span_ns;
    struct etl_fields fields;
};

/* -- names -- */

static uint32_t name_frame(struct etl_stacks *s, struct str text)
{
    return etl_stack_tree_frame(&s->tree, ETL_STACK_TEXT, 0, etl_stack_names_put(s->names, text));
}

static uint32_t text_frame(struct etl_stacks *s, const char *text)
{
    return name_frame(s, str_make(text));
}

/* -- places -- */

static bool is_kernel(void *ctx, uint64_t address, uint8_t pointer_size)
{
    const struct etl_stacks *s = ctx;

    return address >= etl_images_kernel_base(s->images) ||
           (pointer_size == 8 ? address >> 63 != 0 : address >= 0x80000000);
}

static uint32_t frame_of(void *ctx, uint32_t pid, uint64_t address, int64_t wall_ns)
{
    struct etl_stacks *s = ctx;
    bool kernel = address >= etl_images_kernel_base(s->images);
    uint64_t hash = ((address ^ (uint64_t)pid << 44) * (s->seed | 1)) >> 40;
    struct place *at = &s->places[hash & (PLACES - 1)];
    const struct etl_methods_one *method;
    const struct etl_images_one *image;

    pid = kernel ? 0 : pid;
    if (at->address == address && at->pid == pid && at->from_ns <= wall_ns && wall_ns < at->to_ns) {
        return at->frame;
    }
    method = kernel ? NULL : etl_methods_find(s->methods, pid, address, wall_ns);
    image = method ? NULL : etl_images_find(s->images, pid, address, wall_ns);
    *at = (struct place){.address = address, .pid = pid};
    if (method) {
        at->from_ns = method->from_ns;
        at->to_ns = method->to_ns;
        at->frame = etl_stack_tree_frame(&s->tree, ETL_STACK_METHOD, 0,
                                         etl_methods_index(s->methods, method));
    } else if (image) {
        at->from_ns = image->from_ns;
        at->to_ns = image->to_ns;
        at->frame =
            etl_stack_tree_frame(&s->tree, ETL_STACK_IMAGE, image->module, address - image->base);
    } else {
        at->frame = etl_stack_tree_frame(&s->tree, ETL_STACK_ADDRESS, 0, address);
    }
    return at->frame;
}

/* -- first walk: what is where -- */

static void on_symbols(struct etl_stacks *s, const struct raw_event *raw)
{
    const struct etl_fields_one *guid;

    if (etl_fields_read(&s->fields, s->walk, raw) != ERR_OK) {
        return;
    }
    guid = etl_fields_get(&s->fields, "GuidSig");
    if (guid && guid->text.n == 16) {
        etl_images_symbols(s->images, (uint32_t)etl_fields_uint(&s->fields, "ProcessId", 0),
                           etl_fields_uint(&s->fields, "ImageBase", 0),
                           (const uint8_t *)guid->text.p,
                           (uint32_t)etl_fields_uint(&s->fields, "Age", 0),
                           etl_fields_text(&s->fields, "PDBFileName"));
    }
}

static void on_look(void *ctx, const struct etl_walk_record *r)
{
    static const uint8_t image_id[16] = ETW_CONTROL_IMAGE_ID, own[16] = ETW_PROVIDER_OWN;
    struct etl_stacks *s = ctx;

    if (etl_methods_record(s->methods, r->raw)) {
        return;
    }
    if (r->ev) {
        etl_images_event(s->images, r->ev);
    } else if (r->raw->opcode == ETW_OWN_IMAGE &&
               (memcmp(r->raw->guid, image_id, 16) == 0 || memcmp(r->raw->guid, own, 16) == 0)) {
        on_symbols(s, r->raw);
    }
}

/* -- second walk: events -- */

static uint32_t process_node(struct etl_stacks *s, const struct instance *p, const char *other)
{
    size_t at = (size_t)((uintptr_t)p >> 6) & (PROCESSES - 1);
    char text[24];

    if (!p) {
        return etl_stack_tree_child(&s->tree, 0, text_frame(s, other));
    }
    if (s->processes[at].p != p) {
        struct str name = p->info.name;

        if (!name.n) {
            (void)snprintf(text, sizeof text, "pid %u", (unsigned)p->info.id.pid);
            name = str_make(text);
        }
        s->processes[at].p = p;
        s->processes[at].node = etl_stack_tree_child(&s->tree, 0, name_frame(s, name));
    }
    return s->processes[at].node;
}

static uint32_t process_base(struct etl_stacks *s, const struct instance *p, uint32_t tid)
{
    return process_node(s, p, tid == 0 ? "Idle" : "[unknown process]");
}

/* Counts it; p  NULL: of a process that is not known. part  a frame below the process, or 0 */
static bool take(struct etl_stacks *s, const struct raw_event *raw, const struct instance *p,
                 uint32_t tid, uint64_t weight, uint64_t ip, uint32_t part)
{
    uint32_t pid = p ? p->info.id.pid : tid == 0 ? 0 : EVENT_NO_ID;
    struct etl_stack_event ev = {.ticks = raw->ticks,
                                 .wall_ns = raw->wall_ns,
                                 .pid = pid,
                                 .tid = tid,
                                 .cpu = raw->cpu,
                                 .ip = ip,
                                 .weight = weight};

    if (!etl_range_process(&s->range, pid, p)) {
        return false;
    }
    ev.base = process_base(s, p, tid);
    if (part) {
        ev.base = etl_stack_tree_child(&s->tree, ev.base, part);
    }
    s->weight += weight;
    etl_stack_join_event(s->join, &ev);
    return true;
}

static const struct instance *thread_owner(const struct etl_stacks *s, uint32_t tid)
{
    return instances_thread(s->walk->table, tid);
}

/* What is known of a thread that does not run. NULL: no room. */
static struct wait *wait_of(struct etl_stacks *s, uint32_t tid)
{
    uint64_t key = tid * (s->seed | 1), place = map_get(&s->by_tid, key);

    if (place) {
        return &s->waits[place - 1];
    }
    if (VEC_ROOM(&s->waits, &s->cap_waits, s->n_waits + 1, WAITS_MAX) || map_reserve(&s->by_tid)) {
        s->no_room++;
        return NULL;
    }
    s->waits[s->n_waits] = (struct wait){0};
    (void)map_put(&s->by_tid, key, ++s->n_waits);
    return &s->waits[s->n_waits - 1];
}

/* Whose thread ran on the CPU when the record was written, which kernel records do not say. */
static uint32_t running_tid(const struct etl_stacks *s, const struct raw_event *raw)
{
    return raw->tid != EVENT_NO_ID ? raw->tid : raw->cpu < CPUS ? s->on_cpu[raw->cpu] : 0;
}

/* A thread is made ready, by the one that runs: the stack of that belongs to the time until it is
 * put on, which is not known yet. */
static void on_ready(struct etl_stacks *s, const struct etl_walk_record *r)
{
    uint32_t tid = running_tid(s, r->raw), of = r->ev->u.ready.tid;
    const struct instance *by = thread_owner(s, tid), *p = thread_owner(s, of);
    struct wait *w = of ? wait_of(s, of) : NULL;
    struct etl_stack_event ev = {.ticks = r->raw->ticks,
                                 .wall_ns = r->raw->wall_ns,
                                 .pid = by ? by->info.id.pid : EVENT_NO_ID,
                                 .tid = tid,
                                 .cpu = r->raw->cpu};

    if (!w || !w->since_ns || w->ready_ns || w->preempted ||
        !etl_range_process(&s->range, p ? p->info.id.pid : EVENT_NO_ID, p)) {
        return;
    }
    w->ready_ns = r->raw->wall_ns;
    ev.base = etl_stack_tree_child(&s->tree, process_base(s, p, of), s->ready);
    w->node = etl_stack_tree_child(&s->tree, ev.base, s->no_stack);
    w->later = ev.later = etl_stack_join_later(s->join);
    if (!w->later) {
        s->no_room++;
        return;
    }
    if (by) {
        ev.base = etl_stack_tree_child(&s->tree, ev.base, name_frame(s, by->info.name));
    }
    etl_stack_join_event(s->join, &ev);
}

/* --ready: what it waited, by its own stack; what it stood ready, by the stack that made it so. */
static void count_split(struct etl_stacks *s, const struct raw_event *raw, uint32_t tid,
                        struct wait *w)
{
    int64_t ready_ns = w->preempted ? w->since_ns : w->ready_ns ? w->ready_ns : raw->wall_ns;
    uint64_t waited = (uint64_t)clk_sub(ready_ns, w->since_ns);
    uint64_t ready = (uint64_t)clk_sub(raw->wall_ns, ready_ns);

    (void)take(s, raw, thread_owner(s, tid), tid, w->preempted ? ready : waited, 0,
               w->preempted ? s->ready : s->waiting);
    s->weight += w->ready_ns ? ready : 0;
    if (w->later) {
        etl_stack_join_weigh(s->join, w->later, ready);
    } else if (w->ready_ns) {
        etl_stack_tree_add(&s->tree, w->node, ready, 1);
    }
}

/* How long the thread that is put on had waited. */
static void on_switch(struct etl_stacks *s, const struct etl_walk_record *r, bool wanted)
{
    const struct ev_cswitch *ev = &r->ev->u.cswitch;
    struct wait *w = ev->old_tid ? wait_of(s, ev->old_tid) : NULL;
    int64_t now_ns = r->raw->wall_ns;

    if (w && !w->since_ns) {
        *w =
            (struct wait){.since_ns = now_ns,
                          .preempted = ev->old_state == OLD_READY || ev->old_state == OLD_STANDBY ||
                                       ev->old_state == OLD_DEFERRED_READY};
    }
    w = ev->new_tid ? wait_of(s, ev->new_tid) : NULL;
    if (w && w->since_ns && wanted && now_ns >= w->since_ns) {
        if (s->split) {
            count_split(s, r->raw, ev->new_tid, w);
        } else {
            (void)take(s, r->raw, thread_owner(s, ev->new_tid), ev->new_tid,
                       (uint64_t)clk_sub(now_ns, w->since_ns), 0, 0);
        }
    }
    if (w) {
        if (w->later) {
            etl_stack_join_release(s->join, w->later);
        }
        *w = (struct wait){0};
    }
}

static void waits_forget(struct etl_stacks *s)
{
    for (size_t i = 0; i < s->n_waits && s->join; i++) {
        if (s->waits[i].later) {
            etl_stack_join_release(s->join, s->waits[i].later);
        }
    }
    s->n_waits = 0;
    map_clear(&s->by_tid);
}

/* --live: the bytes of an allocation count when it is known what of them is freed. */
static bool on_range(struct etl_stacks *s, const struct etl_walk_record *r)
{
    const struct ev_virtual *vm = &r->ev->u.vm;
    const struct instance *p = instances_owner(s->walk->table, vm->pid);
    struct etl_stack_event ev = {.ticks = r->raw->ticks,
                                 .wall_ns = r->raw->wall_ns,
                                 .pid = vm->pid,
                                 .tid = r->raw->tid,
                                 .cpu = r->raw->cpu};

    if (!etl_range_process(&s->range, vm->pid, p)) {
        return false;
    }
    if (r->ev->kind == EV_VIRTUAL_FREE) {
        etl_stack_live_free(s->ranges, (uintptr_t)p, vm->base, vm->size);
        return false;
    }
    ev.later = etl_stack_join_later(s->join);
    if (!ev.later) {
        s->no_room++;
        return false;
    }
    ev.base = process_base(s, p, ev.tid);
    etl_stack_join_event(s->join, &ev);
    etl_stack_live_put(s->ranges, (uintptr_t)p, vm->base, vm->size, ev.later);
    return true;
}

static bool on_fact(struct etl_stacks *s, const struct etl_walk_record *r)
{
    const struct event *ev = r->ev;

    if (s->of == OF_SAMPLE && ev->kind == EV_CPU_SAMPLE) {
        return take(s, r->raw, thread_owner(s, ev->u.sample.tid), ev->u.sample.tid, 1,
                    ev->u.sample.ip, ev->u.sample.interrupt ? s->interrupt : 0);
    }
    if (s->of == OF_READY && ev->kind == EV_READY) {
        uint32_t tid = running_tid(s, r->raw);

        return take(s, r->raw, thread_owner(s, tid), tid, 1, 0, 0);
    }
    if (s->live && (ev->kind == EV_VIRTUAL_ALLOC || ev->kind == EV_VIRTUAL_FREE)) {
        return on_range(s, r);
    }
    if (s->of == OF_ALLOC && ev->kind == EV_CLR && ev->u.clr.op == CLR_ALLOC) {
        return take(s, r->raw, r->charged, r->raw->tid, ev->u.clr.bytes, 0, 0);
    }
    if (s->of == OF_VIRTUAL && ev->kind == EV_VIRTUAL_ALLOC) {
        return take(s, r->raw, instances_owner(s->walk->table, ev->u.vm.pid), r->raw->tid,
                    ev->u.vm.size, 0, 0);
    }
    if (s->of == OF_FAULT && ev->kind == EV_HARD_FAULT) {
        return take(s, r->raw, thread_owner(s, ev->u.hard_fault.tid), ev->u.hard_fault.tid, 1, 0,
                    0);
    }
    return s->of == OF_DISK && ev->kind == EV_DISK_INIT &&
           take(s, r->raw, thread_owner(s, r->raw->tid), r->raw->tid, 1, 0, 0);
}

/* Whether the provider is the one that is meant; its name is asked for once in a while. */
static bool is_provider(struct etl_stacks *s, const struct raw_event *raw)
{
    size_t at = raw->guid[0] & (GUIDS - 1);
    struct described is;
    char guid[UUID_TEXT];

    if (!s->guids[at].used || memcmp(s->guids[at].guid, raw->guid, 16) != 0) {
        describe_name(s->walk->describe, raw, &is);
        memcpy(s->guids[at].guid, raw->guid, 16);
        s->guids[at].used = true;
        s->guids[at].is = glob_match(s->provider, is.provider) ||
                          glob_match(s->provider, str_make(value_text_guid(guid, raw->guid)));
    }
    return s->guids[at].is;
}

static bool on_event(struct etl_stacks *s, const struct etl_walk_record *r)
{
    const struct raw_event *raw = r->raw;
    uint32_t id = raw->form == RAW_CLASSIC ? raw->opcode : raw->id;

    return id == s->id && is_provider(s, raw) &&
           take(s, raw, r->charged ? r->charged : thread_owner(s, raw->tid), raw->tid, 1, 0, 0);
}

/* -- second walk: stacks -- */

static void on_stack_walk(struct etl_stacks *s, const struct raw_event *raw)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct etl_stack_part part = {.pointer_size = raw->pointer_size};
    bool defines = raw->opcode == 35 || raw->opcode == 36;
    uint64_t number = 0;
    int64_t ticks = 0;
    uint32_t tid = 0;

    if (!defines && raw->opcode != 32 && raw->opcode != 37 && raw->opcode != 38) {
        return;
    }
    if (!defines) {
        ticks = (int64_t)cur_u64le(&c);
        cur_skip(&c, 4);
        tid = cur_u32le(&c);
    }
    if (raw->opcode != 32) {
        number = cur_uptr(&c, raw->pointer_size);
    }
    part.p = c.p;
    part.n = cur_left(&c) / raw->pointer_size;
    if (c.bad) {
        return;
    }
    if (defines) {
        etl_stack_join_define(s->join, number, raw->wall_ns, &part);
    } else if (raw->opcode == 32) {
        etl_stack_join_part(s->join, ticks, tid, raw->cpu, &part);
    } else {
        etl_stack_join_key(s->join, ticks, tid, raw->cpu, number, raw->opcode == 38);
    }
}

/* In the record's header: match u64, addresses. */
static void on_own_stack(struct etl_stacks *s, const struct raw_event *raw)
{
    struct cur c = cur_make(raw->ext, raw->ext_n);

    while (cur_left(&c) >= 8) {
        size_t size = cur_u16le(&c), data;
        uint16_t type = cur_u16le(&c);
        const uint8_t *p;

        cur_skip(&c, 2);
        data = cur_u16le(&c);
        p = cur_bytes(&c, size < 8 ? SIZE_MAX : size - 8);
        if (!p || data > size - 8) {
            return;
        }
        if ((type == STACK_EXT_32 || type == STACK_EXT_64) && data > 8) {
            struct etl_stack_part part = {p + 8, 0, type == STACK_EXT_64 ? 8 : 4};

            part.n = (data - 8) / part.pointer_size;
            etl_stack_join_part(s->join, raw->ticks, raw->tid, raw->cpu, &part);
        }
    }
}

/* The CLR's own: runtime u16, 2 bytes, number u32, addresses. */
static void on_clr_stack(struct etl_stacks *s, const struct raw_event *raw)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct etl_stack_part part = {.pointer_size = raw->pointer_size};

    cur_skip(&c, 4);
    part.n = cur_u32le(&c);
    part.p = c.p;
    if (!c.bad && part.n <= cur_left(&c) / raw->pointer_size) {
        etl_stack_join_latest(s->join, raw->tid, &part);
    }
}

static void on_count(void *ctx, const struct etl_walk_record *r)
{
    static const uint8_t stack_walk[16] = ETW_CLASS_STACK_WALK, clr[16] = ETW_PROVIDER_CLR;
    struct etl_stacks *s = ctx;
    const struct raw_event *raw = r->raw;
    bool wanted = etl_range_takes(&s->range, s->walk, r), counted = false;
    size_t thread = raw->tid & (THREADS - 1);
    bool is_clr = raw->form == RAW_MANIFEST && memcmp(raw->guid, clr, 16) == 0;

    if (raw->form == RAW_CLASSIC && memcmp(raw->guid, stack_walk, 16) == 0) {
        on_stack_walk(s, raw);
        return;
    }
    if (is_clr && raw->id == 82) {
        if (s->threads[thread].tid == raw->tid && s->threads[thread].counts) {
            on_clr_stack(s, raw);
        }
        s->threads[thread].counts = false;
        return;
    }
    if (s->of == OF_PROVIDER) {
        counted = wanted && on_event(s, r);
    } else if (s->of == OF_SWITCH && r->ev && r->ev->kind == EV_CSWITCH) {
        on_switch(s, r, wanted);
    } else if (s->split && r->ev && r->ev->kind == EV_READY) {
        on_ready(s, r);
    } else if (r->ev) {
        counted = wanted && on_fact(s, r);
    }
    if (r->ev && r->ev->kind == EV_CSWITCH && raw->cpu < CPUS) {
        s->on_cpu[raw->cpu] = r->ev->u.cswitch.new_tid;
    }
    if (counted && raw->ext_n) {
        on_own_stack(s, raw);
    }
    if (is_clr) {
        s->threads[thread].tid = raw->tid;
        s->threads[thread].counts = counted;
    }
}

/* -- one recording -- */

/* Its names may go on. */
static void tables_end(struct etl_stacks *s)
{
    etl_stack_live_destroy(s->ranges);
    etl_stack_join_destroy(s->join);
    etl_stack_tree_fini(&s->tree);
    etl_images_destroy(s->images);
    etl_methods_destroy(s->methods);
    s->ranges = NULL;
    s->join = NULL;
    s->images = NULL;
    s->methods = NULL;
}

static void recording_end(struct etl_stacks *s)
{
    tables_end(s);
    etl_stack_names_destroy(s->names);
    s->names = NULL;
}

static enum err recording_begin(struct etl_stacks *s)
{
    enum err e;

    s->no_room = s->weight = 0;
    memset(s->places, 0, PLACES * sizeof *s->places);
    memset(s->processes, 0, sizeof s->processes);
    memset(s->threads, 0, sizeof s->threads);
    memset(s->guids, 0, sizeof s->guids);
    memset(s->on_cpu, 0, sizeof s->on_cpu);
    waits_forget(s);
    etl_range_begin(&s->range);
    e = s->names ? ERR_OK : etl_stack_names_create(&s->names, s->seed); /* or those of --diff */
    e = e ? e : etl_stack_tree_init(&s->tree, s->seed);
    e = e ? e : etl_images_create(&s->images);
    return e ? e : etl_methods_create(&s->methods);
}

static enum err join_begin(struct etl_stacks *s)
{
    struct etl_stack_join_conf conf = {
        .tree = &s->tree, .frame = frame_of, .is_kernel = is_kernel, .ctx = s};
    size_t used = etl_images_bytes(s->images) + etl_methods_bytes(s->methods);
    size_t whole = s->live ? MEMORY - LIVE_MEMORY : MEMORY;
    size_t memory = opt_value(s->job->args, "diff") ? whole / 2 : whole; /* two trees */
    size_t nodes = used < memory ? (memory - used) / NODE_MEMORY : 0;

    enum err e;

    nodes = nodes > NODES_LEAST ? nodes : NODES_LEAST;
    s->tree.nodes_max = nodes < ETL_STACK_NODES ? nodes : ETL_STACK_NODES;
    s->no_stack = conf.no_stack = text_frame(s, "[no stack]");
    s->not_recorded = conf.not_recorded = text_frame(s, "[stack not recorded]");
    s->interrupt = text_frame(s, "[interrupt]");
    s->waiting = text_frame(s, "[waiting]");
    s->ready = text_frame(s, "[ready]");
    e = etl_stack_join_create(&s->join, &conf);
    return e || !s->live ? e : etl_stack_live_create(&s->ranges, s->join);
}

static bool walk_once(struct etl_stacks *s, size_t part,
                      void (*record)(void *ctx, const struct etl_walk_record *r))
{
    struct etl_walk_conf conf = {.names = true, .progress = true, .record = record, .ctx = s};

    if (etl_job_open(s->job, part, &conf, &s->walk) != ERR_OK) {
        return false;
    }
    s->start_ns = s->walk->start_ns;
    (void)etl_job_walk(s->job, s->walk);
    s->span_ns = clk_sub(s->walk->reached_ns, s->walk->start_ns);
    return true;
}

static enum err name_all(struct etl_stacks *s)
{
    const struct etl_stack_names_how how = {.tree = &s->tree,
                                            .images = s->images,
                                            .methods = s->methods,
                                            .dirs = s->dirs,
                                            .n_dirs = s->n_dirs,
                                            .only_modules = s->only_modules};

    return etl_stack_names_apply(s->names, &how);
}

/* The recording's tree with names; *read false: there is none. */
static enum err recording_read(struct etl_stacks *s, size_t part, bool *read)
{
    enum err e = recording_begin(s);

    *read = false;
    if (e || !walk_once(s, part, on_look)) {
        return e;
    }
    etl_walk_close(s->walk);
    etl_images_done(s->images);
    etl_methods_done(s->methods);
    if (s->job->partial) {
        return ERR_OK;
    }
    e = join_begin(s);
    if (e || !walk_once(s, part, on_count)) {
        return e;
    }
    waits_forget(s);
    if (s->ranges) {
        s->weight = etl_stack_live_end(s->ranges);
        s->no_room += etl_stack_live_no_room(s->ranges);
    }
    etl_stack_join_end(s->join);
    etl_walk_close(s->walk);
    *read = true;
    s->joined = *etl_stack_join_stats(s->join);
    etl_stack_join_destroy(s->join);
    s->join = NULL;
    e = name_all(s);
    s->images_full = etl_images_no_room(s->images);
    s->methods_full = etl_methods_no_room(s->methods);
    etl_images_destroy(s->images);
    etl_methods_destroy(s->methods);
    s->images = NULL;
    s->methods = NULL;
    return e;
}

/* -- printing -- */

/* What is said of it: below rows, on standard error with other formats. */
static void say(struct table *sheet, const char *file, uint64_t n, const char *text)
{
    if (n && sheet) {
        etl_job_note(sheet, file, "%llu %s", (unsigned long long)n, text);
    } else if (n) {
        fprintf(stderr, ETL_JOB_PROGRAM ": %s: %llu %s\n", file, (unsigned long long)n, text);
    }
}

static void put_notes(struct etl_stacks *s, struct table *sheet, const char *file)
{
    const struct etl_stack_join_stats *j = &s->joined;
    const struct etl_stack_names_stats *n = etl_stack_names_stats(s->names);

    if (!j->events && sheet) {
        etl_job_note(sheet, file, NOTHING, events_of[s->of].what);
    } else if (!j->events) {
        fprintf(stderr, ETL_JOB_PROGRAM ": %s: " NOTHING "\n", file, events_of[s->of].what);
    } else if (sheet) {
        etl_job_note(sheet, file, "%llu %s, %llu of them with a stack",
                     (unsigned long long)j->events, events_of[s->of].what,
                     (unsigned long long)j->joined);
    }
    say(sheet, file, j->undefined, "stacks whose frames are not in the recording");
    say(sheet, file, j->cut, "stacks are deeper than is shown");
    say(sheet, file, j->no_room, "halves of stacks had no room");
    say(sheet, file, s->tree.truncated, "paths had no room and end with (more)");
    say(sheet, file, s->images_full, "images had no room");
    say(sheet, file, s->methods_full, "methods had no room");
    say(sheet, file, s->no_room + n->no_room, "names, threads or allocations had no room");
    if (opt_value(s->job->args, "symbols")) {
        say(sheet, file, n->named, "images are named by their symbols");
        say(sheet, file, n->not_named, "images have no symbols in these directories");
        say(sheet, file, n->others, "images have symbols of another build there");
        say(sheet, file, n->unreadable, "files of symbols cannot be read");
    }
}

static enum err put_other(struct etl_stacks *s, const char *file)
{
    struct etl_stack_out out = {.to = s->job->out,
                                .tree = &s->tree,
                                .title = str_make(file),
                                .what = events_of[s->of].what,
                                .unit = events_of[s->of].unit,
                                .start_ns = s->start_ns,
                                .span_ns = s->span_ns};

    out.names = etl_stack_names_all(s->names, &out.n_names);
    if (s->base.n) {
        return etl_stack_out_difference(&out, &s->tree, &s->base.tree);
    }
    switch (s->job->other) {
    case FORMAT_SPEEDSCOPE:
        return etl_stack_out_speedscope(&out);
    case FORMAT_PPROF:
        return etl_stack_out_pprof(&out);
    case FORMAT_HTML:
        return etl_stack_out_html(&out);
    default:
        etl_stack_out_folded(&out);
        return ERR_OK;
    }
}

static enum err put_rows(struct etl_stacks *s, struct table *sheet, const char *file)
{
    const struct etl_stack_rows rows = {.job = s->job,
                                        .tree = &s->tree,
                                        .names = s->names,
                                        .base = s->base.n ? &s->base : NULL,
                                        .tags = s->tags,
                                        .weight = s->weight,
                                        .limit = s->limit};

    return etl_stack_rows_put(&rows, sheet, file);
}

static enum err stacks_part(struct etl_job *job, size_t part, struct table *sheet, void *ctx)
{
    const char *file = etl_job_part_name(job, part);
    struct etl_stacks *s = ctx;
    bool read;
    enum err e = recording_read(s, part, &read);

    if (!e && read) {
        e = sheet ? put_rows(s, sheet, file) : put_other(s, file);
        put_notes(s, sheet, file);
    }
    recording_end(s);
    return e;
}

/* -- the other recording -- */

static enum err base_sums(struct etl_stacks *s)
{
    (void)etl_stack_names_all(s->names, &s->base.n);
    s->base.self = mem_array(s->base.n, sizeof *s->base.self);
    s->base.total = mem_array(s->base.n, sizeof *s->base.total);
    s->base.weight = s->weight;
    return s->base.self && s->base.total ? etl_stack_out_sums(&s->tree, s->base.self, s->base.total)
                                         : ERR_NOMEM;
}

/* Its tree and sums are kept, and its names go on. */
static enum err base_read(struct etl_stacks *s, const char *path)
{
    struct etl_job *job = s->job;
    const char *const *files = job->files;
    size_t n = job->n_files;
    bool merge = job->merge, read;
    enum err e;

    job->files = &path;
    job->n_files = 1;
    job->merge = false;
    e = recording_read(s, 0, &read);
    job->files = files;
    job->n_files = n;
    job->merge = merge;
    if (!e && read) {
        e = base_sums(s);
        s->base.tree = s->tree;
        memset(&s->tree, 0, sizeof s->tree);
    }
    tables_end(s);
    return e;
}

static void base_free(struct etl_stacks *s)
{
    etl_stack_tree_fini(&s->base.tree);
    mem_free(s->base.self);
    mem_free(s->base.total);
    etl_stack_names_destroy(s->names);
}

/* -- the command -- */

static enum err parse_event(struct etl_stacks *s, struct errmsg *why)
{
    const char *text = opt_value(s->job->args, "event"), *mark;
    uint64_t id;

    s->of = OF_SAMPLE;
    for (size_t i = 0; text && i < OF_PROVIDER; i++) {
        if (strcmp(text, events_of[i].word) == 0) {
            s->of = (enum event_of)i;
            return ERR_OK;
        }
    }
    mark = text ? strrchr(text, '#') : NULL;
    if (mark && mark > text && opt_number(&id, mark + 1, UINT16_MAX) == ERR_OK) {
        s->of = OF_PROVIDER;
        s->provider = (struct str){text, (size_t)(mark - text)};
        s->id = (uint32_t)id;
        return ERR_OK;
    }
    return text ? errmsg_set(why, ERR_USAGE,
                             "--event: '%s' is not sample, switch, ready, alloc, virtual, fault, "
                             "disk or PROVIDER#ID",
                             text)
                : ERR_OK;
}

static enum err run_all(struct etl_stacks *s, struct errmsg *why)
{
    struct etl_job *job = s->job;
    const char *diff = opt_value(job->args, "diff");
    enum err e;

    if (diff && (etl_job_parts(job) > 1 || job->other > FORMAT_FOLDED)) {
        return errmsg_set(why, ERR_USAGE,
                          "--diff compares two recordings, as rows or --format folded");
    }
    if (s->tags && (diff || job->other)) {
        return errmsg_set(why, ERR_USAGE, "--tags are shown as rows, without --diff");
    }
    if (etl_job_parts(job) > 1 && job->other > FORMAT_FOLDED) {
        return errmsg_set(why, ERR_USAGE, "--format %s takes one recording, or --merge",
                          formats[job->other - 1]);
    }
    e = etl_job_output(job, why);
    e = !e && diff ? base_read(s, diff) : e;
    if (e || (diff && !s->base.n)) {
        return e; /* why is printed */
    }
    if (!job->other) {
        return etl_stack_rows_all(job,
                                  s->of == OF_SWITCH                         ? TABLE_NS
                                  : s->of == OF_ALLOC || s->of == OF_VIRTUAL ? TABLE_BYTES
                                                                             : TABLE_COUNT,
                                  diff != NULL, stacks_part, s, why);
    }
    for (size_t i = 0; i < etl_job_parts(job) && !e && !job->partial && etl_job_out_ok(job); i++) {
        e = stacks_part(job, i, NULL, s);
    }
    return e ? errmsg_set(why, e, "cannot show the stacks: %s", err_text(e)) : ERR_OK;
}

static enum err stacks_run(struct etl_job *job, struct errmsg *why)
{
    struct etl_stacks *s = mem_zalloc(sizeof *s);
    bool table = !job->other && job->format == TABLE_AS_TABLE;
    enum err e;

    if (!s) {
        return ERR_NOMEM;
    }
    s->job = job;
    s->places = mem_array(PLACES, sizeof *s->places);
    s->only_modules = opt_flag(job->args, "modules");
    err_ignore(os_random(&s->seed, sizeof s->seed)); /* without it only slower */
    e = s->places ? etl_range_parse(&s->range, job, why) : ERR_NOMEM;
    s->range.goes_on = true; /* keys are told at the end */
    e = e ? e : parse_event(s, why);
    s->split = opt_flag(job->args, "ready");
    s->live = opt_flag(job->args, "live");
    if (!e && (s->split ? s->of != OF_SWITCH : s->live && s->of != OF_VIRTUAL)) {
        e = errmsg_set(why, ERR_USAGE, "--%s",
                       s->split ? "ready is of --event switch" : "live is of --event virtual");
    }
    e = e ? e : etl_job_dirs(job, "symbols", s->dirs, &s->n_dirs, why);
    e = e ? e : etl_job_number(job, "limit", table ? SHOWN : UINT64_MAX, &s->limit, why);
    if (!e && opt_value(job->args, "tags")) {
        e = etl_stack_tags_read(&s->tags, opt_value(job->args, "tags"), why);
    }
    e = e ? e : run_all(s, why);
    base_free(s);
    etl_stack_tags_free(s->tags);
    map_fini(&s->by_tid);
    mem_free(s->waits);
    mem_free(s->places);
    mem_free(s);
    return e;
}

static const struct opt opts[] = {
    {"event", 'e', "EVENT",
     "what is counted: sample (default), switch, ready, alloc, virtual, fault, disk, PROVIDER#ID",
     false},
    {"ready", 0, NULL,
     "with --event switch: what threads stood ready apart, by the stack that made them so", false},
    {"live", 0, NULL, "with --event virtual: only what was not freed until the end", false},
    {"symbols", 0, "DIR", "directory of symbols (PDB), flat or a symbol store; may be repeated",
     true},
    {"diff", 0, "FILE", "compares with this recording: what grew, in percent of all", false},
    {"tags", 0, "FILE", "rows by the stack tags of this file (WPA's XML), the innermost frame's",
     false},
    {"modules", 0, NULL, "modules alone, without functions and offsets", false},
    {"limit", 'n', "N", "at most so many rows; default 40 in tables", false},
    {"output", 'o', "FILE", "where to; default standard output", false},
    ETL_RANGE_OPTS,
    ETL_JOB_OPTS_FORMAT("table|json|jsonl|csv|folded|speedscope|pprof|html")};

static const struct opt_command stacks_opts = {
    .program = ETL_JOB_PROGRAM,
    .name = "stacks",
    .brief = "call stacks of samples and other events: where time and memory went",
    .operands = "FILE...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet-etl stacks trace.etl --pid 3676\n"
                "  procfleet-etl stacks trace.etl --format html -o flame.html\n"
                "  procfleet-etl stacks trace.etl --event alloc --format folded | flamegraph.pl\n"
                "  procfleet-etl stacks trace.etl --format pprof -o cpu.pb; go tool pprof cpu.pb\n",
};

const struct etl_command etl_stacks_command = {&stacks_opts, formats, stacks_run};
