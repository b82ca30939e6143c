#include "agent/account/sched.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "agent/source/event_switch.h"
#include "common/base/mem.h"

/* KTHREAD_STATE, as a switch gives it of the thread it takes off. */
enum { OLD_READY = 1, OLD_STANDBY = 3, OLD_WAITING = 5, OLD_DEFERRED_READY = 7 };

enum cpu_state {
    CPU_UNSEEN,
    CPU_RUNS, /* `tid` since `since_ns` */
    CPU_LOST, /* a loss mark at `since_ns`: whoever has it */
};

/* u32map_entry.state; the upper bit says whether it counts, the lower in which of two counters, see
 * close_thread. */
enum thread_state { THREAD_UNKNOWN, THREAD_RUNS, THREAD_READY, THREAD_WAITS };

_Static_assert(COUNTERS_WAIT == COUNTERS_READY + 1, "one is the other and THREAD_WAITS's bit");

struct sched_cpu {
    struct instance *owner; /* of tid; dead when its generation differs; NULL unless CPU_RUNS */
    int64_t since_ns;
    union {
        struct {
            uint32_t tid, generation; /* side by side, as an entry of a thread has them */
        };
        uint64_t name; /* both */
    };
    uint32_t place; /* bytes into the table of threads, where tid was found when it was put on */
    uint8_t state;  /* enum cpu_state */
};

struct sched {
    struct lifecycle *life;
    const struct u32map *threads;
    struct counters *unattributed;
    int64_t lost_ns;       /* the last loss mark of any CPU */
    int64_t switched_ns;   /* the newest switch of any */
    struct instance *idle; /* pid 0, which tid 0 of every CPU belongs to */
    uint32_t idle_generation;
    struct sched_stats *stats;
    size_t n_cpus; /* seen: the highest number and one */
    struct sched_cpu cpus[SCHED_CPUS_MAX];
};

/* So that a place is 32 bits wide; the table has 6 times as many. */
#define SCHED_THREADS_MAX (UINT32_MAX / sizeof(struct u32map_entry) / 6)

enum err sched_create(struct sched **out, struct lifecycle *life, const struct instances *table,
                      struct counters *unattributed, struct sched_stats *stats)
{
    struct sched *s = mem_zalloc(sizeof *s);

    if (!s) {
        return ERR_NOMEM;
    }
    s->life = life;
    s->threads = instances_threads(table);
    assert(s->threads->max <= SCHED_THREADS_MAX);
    s->unattributed = unattributed;
    s->stats = stats;
    s->lost_ns = INT64_MIN;
    *out = s;
    return ERR_OK;
}

void sched_destroy(struct sched *s)
{
    mem_free(s);
}

/* -- charging -- */

/* Stamps of a broken file may be far apart: nothing overflows. */
static inline uint64_t span(int64_t from_ns, int64_t to_ns)
{
    return to_ns > from_ns ? (uint64_t)to_ns - (uint64_t)from_ns : 0;
}

static inline void charge(struct sched *s, struct instance *p, enum counters_id id, uint64_t n)
{
    if (p) {
        p->tally.n[id] += n;
        p->changed = true;
    } else {
        s->unattributed->n[id] += n;
    }
}

static inline struct u32map_entry *living(struct u32map_entry *e)
{
    return e && !instances_entry_dead(e) ? e : NULL;
}

static inline struct u32map_entry *thread_of(const struct sched *s, uint32_t tid)
{
    return living(u32map_find(s->threads, tid));
}

/* What stands at a place that was noted: never beyond the table, which does not shrink. */
static inline struct u32map_entry *entry_at(struct u32map_entry *at, uint32_t place)
{
    return (struct u32map_entry *)(void *)((char *)at + place);
}

static inline uint32_t place_of(const struct u32map_entry *at, const struct u32map_entry *e)
{
    return (uint32_t)((const char *)e - (const char *)at);
}

/* The entry of the thread a CPU had: mostly it still stands where it was found. */
static inline struct u32map_entry *thread_at(const struct sched *s, uint32_t tid, uint32_t place)
{
    struct u32map_entry *e = entry_at(s->threads->at, place);

    return e->key == tid && e->owner ? living(e) : thread_of(s, tid);
}

static struct instance *idle_process(struct sched *s, const struct event *ev)
{
    if (!s->idle || s->idle->generation != s->idle_generation) {
        s->idle = lifecycle_thread_owner(s->life, 0, ev);
        s->idle_generation = s->idle ? s->idle->generation : 0;
    }
    return s->idle;
}

/* `e` as thread_of gave it. */
static inline struct instance *owner_of(struct sched *s, uint32_t tid, const struct u32map_entry *e,
                                        const struct event *ev)
{
    if (e) {
        return e->owner;
    }
    return tid ? lifecycle_thread_owner(s->life, tid, ev) : idle_process(s, ev);
}

static inline struct instance *cpu_owner(const struct sched_cpu *cpu)
{
    struct instance *p = cpu->owner;

    return p && p->generation == cpu->generation ? p : NULL;
}

/* -- threads; without branches on what only chance decides -- */

/* What the thread did until now is over. tid 0 is many threads, one per CPU: it has no state. */
static inline void close_thread(const struct u32map_entry *e, struct instance *p, int64_t lost_ns,
                                int64_t now_ns)
{
    uint64_t counts = (e->state >> 1) & (e->key != 0);

    if (e->since_ns > lost_ns && e->since_ns < now_ns) {
        p->tally.n[COUNTERS_READY + (e->state & 1)] +=
            ((uint64_t)now_ns - (uint64_t)e->since_ns) & -counts;
    }
}

static inline void open_thread(struct u32map_entry *e, enum thread_state state, int64_t now_ns)
{
    e->state = (uint32_t)state;
    e->since_ns = now_ns;
}

static inline enum thread_state state_after(uint8_t old_state)
{
    static const uint8_t after[UINT8_MAX + 1] = {[OLD_WAITING] = THREAD_WAITS,
                                                 [OLD_READY] = THREAD_READY,
                                                 [OLD_STANDBY] = THREAD_READY,
                                                 [OLD_DEFERRED_READY] = THREAD_READY};

    return after[old_state];
}

/* -- CPUs -- */

static inline struct sched_cpu *cpu_of(struct sched *s, uint16_t number)
{
    if (number >= SCHED_CPUS_MAX) {
        return NULL;
    }
    if (number >= s->n_cpus) {
        s->n_cpus = (size_t)number + 1;
    }
    return &s->cpus[number];
}

/* The thread goes off; `e` is its entry, or NULL. */
static inline void take_off(struct sched *s, const struct sched_cpu *cpu, const struct event *ev,
                            struct u32map_entry *e)
{
    const struct ev_cswitch *sw = &ev->u.cswitch;
    uint64_t span_ns = span(cpu->since_ns, ev->mono_ns);
    struct instance *p;

    if (cpu->state == CPU_RUNS) {
        p = cpu_owner(cpu);
        if (cpu->tid == sw->old_tid) {
            p = p ? p : owner_of(s, sw->old_tid, e, ev); /* told of only after it was put on */
            charge(s, p, COUNTERS_RUN, span_ns);
        } else {
            s->stats->gaps++;
            charge(s, p, COUNTERS_RUN_LOST, span_ns);
        }
    } else if (cpu->state == CPU_LOST) {
        charge(s, owner_of(s, sw->old_tid, e, ev), COUNTERS_RUN_LOST, span_ns);
    }
    if (e) {
        open_thread(e, state_after(sw->old_state), ev->mono_ns);
    }
}

static inline struct instance *put_on(struct sched *s, struct sched_cpu *cpu,
                                      const struct event *ev)
{
    uint32_t tid = ev->u.cswitch.new_tid;
    struct u32map_entry *e = thread_of(s, tid);
    struct instance *p = owner_of(s, tid, e, ev);

    if (e) {
        close_thread(e, e->owner, s->lost_ns, ev->mono_ns);
        open_thread(e, THREAD_RUNS, ev->mono_ns);
        cpu->place = place_of(s->threads->at, e);
    }
    cpu->owner = p;
    cpu->generation = p ? p->generation : 0;
    cpu->tid = tid;
    cpu->since_ns = ev->mono_ns;
    cpu->state = CPU_RUNS;
    charge(s, p, COUNTERS_SWITCHES_IN, 1);
    return p;
}

/* Whatever the tables look like. */
__attribute__((noinline)) static struct instance *switch_slowly(struct sched *s,
                                                                const struct event *ev)
{
    struct sched_cpu *cpu = cpu_of(s, ev->cpu);
    struct instance *p = NULL;

    if (cpu) {
        take_off(s, cpu, ev, thread_at(s, ev->u.cswitch.old_tid, cpu->place));
        p = put_on(s, cpu, ev);
    }
    s->stats->cpus_max += !cpu;
    s->stats->unowned += !p;
    return p;
}

_Static_assert(offsetof(struct u32map_entry, generation) ==
                   offsetof(struct u32map_entry, key) + sizeof(uint32_t),
               "one name");

/* Thread and generation of an entry. */
static inline uint64_t name_of(const struct u32map_entry *e)
{
    uint64_t name;

    memcpy(&name, &e->key, sizeof name);
    return name;
}

static struct instance *thread_ready(struct sched *s, uint32_t tid, int64_t mono_ns)
{
    struct u32map_entry *e = thread_of(s, tid);

    if (!e || e->key == 0) {
        return NULL;
    }
    if (e->state == THREAD_WAITS || e->state == THREAD_UNKNOWN || e->since_ns <= s->lost_ns) {
        close_thread(e, e->owner, s->lost_ns, mono_ns);
        open_thread(e, THREAD_READY, mono_ns);
    }
    return e->owner;
}

/* What the quick way reads and does not change; beside a loop, so that it stays in registers. */
struct sched_view {
    struct u32map_entry *at;
    struct sched_cpu *cpus;
    uint64_t spread;
    int64_t lost_ns;
    unsigned shift;
};

static inline struct sched_view sched_look(struct sched *s)
{
    const struct u32map *t = s->threads;

    return (struct sched_view){t->at, s->cpus, t->spread, s->lost_ns, t->shift};
}

/* Nearly always both threads stand where they are looked for first, and the one taken off is the
 * one that was put on, still of the same process: one look at each says so. Then there is nothing
 * to choose, and this is what take_off and put_on do. NULL: it is not like that. Whom a CPU that
 * was not seen yet has is not known, so that n_cpus need not be looked at. */
static inline struct instance *switch_quickly(const struct sched_view *v,
                                              const struct event_switch *sw)
{
    struct u32map_entry *off, *on;
    struct sched_cpu *cpu;
    struct instance *p;

    if (sw->cpu >= SCHED_CPUS_MAX) {
        return NULL;
    }
    cpu = v->cpus + sw->cpu;
    p = cpu->owner;
    off = entry_at(v->at, cpu->place);
    if (!p || cpu->tid != sw->old_tid || name_of(off) != cpu->name || off->owner != p ||
        p->generation != cpu->generation || cpu->since_ns > sw->mono_ns) {
        return NULL;
    }
    on = &v->at[u32map_spread(sw->new_tid, v->spread, v->shift)];
    if (on->key != sw->new_tid || !on->owner || instances_entry_dead(on)) {
        return NULL;
    }
    p->tally.n[COUNTERS_RUN] += (uint64_t)sw->mono_ns - (uint64_t)cpu->since_ns;
    p->changed = true;
    open_thread(off, state_after(sw->old_state), sw->mono_ns);
    p = on->owner;
    close_thread(on, p, v->lost_ns, sw->mono_ns);
    open_thread(on, THREAD_RUNS, sw->mono_ns);
    cpu->owner = p;
    cpu->since_ns = sw->mono_ns;
    cpu->name = name_of(on);
    cpu->place = place_of(v->at, on);
    p->tally.n[COUNTERS_SWITCHES_IN]++;
    p->changed = true;
    return p;
}

struct instance *sched_switch(struct sched *s, const struct event *ev)
{
    struct event_switch sw = {.mono_ns = ev->mono_ns,
                              .new_tid = ev->u.cswitch.new_tid,
                              .old_tid = ev->u.cswitch.old_tid,
                              .cpu = ev->cpu,
                              .old_state = ev->u.cswitch.old_state};
    struct sched_view v = sched_look(s);
    struct instance *p;

    s->stats->switches++;
    s->switched_ns = ev->mono_ns;
    p = switch_quickly(&v, &sw);
    return p ? p : switch_slowly(s, ev);
}

struct instance *sched_ready(struct sched *s, const struct event *ev)
{
    return thread_ready(s, ev->u.ready.tid, ev->mono_ns);
}

static struct event switch_whole(const struct event_switch *sw)
{
    struct event ev = {.kind = EV_CSWITCH,
                       .cpu = (uint16_t)sw->cpu,
                       .pid = EVENT_NO_ID,
                       .tid = EVENT_NO_ID,
                       .wall_ns = sw->wall_ns,
                       .mono_ns = sw->mono_ns};

    ev.u.cswitch = (struct ev_cswitch){
        .new_tid = sw->new_tid, .old_tid = sw->old_tid, .old_state = sw->old_state};
    return ev;
}

/* Another event, or tables that look otherwise. */
__attribute__((noinline)) static void run_slowly(struct sched *s, const struct event_switch *sw)
{
    struct event ev;

    if (sw->cpu & EVENT_SWITCH_READY) {
        s->stats->readied++;
        s->stats->unready += !thread_ready(s, sw->new_tid, sw->mono_ns);
        return;
    }
    s->switched_ns = sw->mono_ns;
    ev = switch_whole(sw);
    (void)switch_slowly(s, &ev);
}

void sched_switches(struct sched *s, const struct event_switch *run, size_t n)
{
    struct sched_view v = sched_look(s);
    uint64_t readied = s->stats->readied;

    for (const struct event_switch *end = run + n; run < end; run++) {
        if (switch_quickly(&v, run)) {
            s->switched_ns = run->mono_ns;
        } else {
            run_slowly(s, run);
            v = sched_look(s);
        }
    }
    s->stats->switches += n - (s->stats->readied - readied);
}

struct instance *sched_running(const struct sched *s, uint16_t number)
{
    const struct sched_cpu *cpu = number < s->n_cpus ? &s->cpus[number] : NULL;

    return cpu && cpu->state == CPU_RUNS ? cpu_owner(cpu) : NULL;
}

void sched_settle(struct sched *s, int64_t now_ns)
{
    bool silent = span(s->switched_ns, now_ns) > (uint64_t)SCHED_SILENT_NS;

    for (size_t i = 0; i < s->n_cpus; i++) {
        struct sched_cpu *cpu = &s->cpus[i];
        struct instance *p = cpu->state == CPU_RUNS ? cpu_owner(cpu) : NULL;

        if (silent) {
            cpu->state = CPU_UNSEEN;
            cpu->owner = NULL;
        } else if (p && s->switched_ns > cpu->since_ns) {
            charge(s, p, COUNTERS_RUN, span(cpu->since_ns, s->switched_ns));
            cpu->since_ns = s->switched_ns;
        }
    }
}

void sched_cut(struct sched *s, int64_t now_ns, bool count)
{
    for (size_t i = 0; i < s->n_cpus; i++) {
        struct sched_cpu *cpu = &s->cpus[i];

        if (count && cpu->state == CPU_RUNS) {
            charge(s, cpu_owner(cpu), COUNTERS_RUN, span(cpu->since_ns, now_ns));
        }
        cpu->since_ns = now_ns;
    }
    for (size_t i = 0; i < s->threads->cap; i++) {
        struct u32map_entry *e = &s->threads->at[i];

        if (e->owner && living(e) && e->since_ns > s->lost_ns) {
            if (count) {
                close_thread(e, e->owner, s->lost_ns, now_ns);
            }
            e->since_ns = now_ns;
        }
    }
}

static void lose_cpu(struct sched *s, struct sched_cpu *cpu, int64_t now_ns)
{
    if (cpu->state == CPU_UNSEEN) {
        return;
    }
    if (cpu->state == CPU_RUNS) {
        charge(s, cpu_owner(cpu), COUNTERS_RUN_LOST, span(cpu->since_ns, now_ns));
        cpu->state = CPU_LOST;
        cpu->owner = NULL;
        cpu->since_ns = now_ns;
    }
    /* Lost already: the next switch says who had it since the first mark. */
}

void sched_lost(struct sched *s, const struct event *ev)
{
    s->lost_ns = ev->mono_ns;
    if (ev->u.lost.all_cpus) {
        for (size_t i = 0; i < s->n_cpus; i++) {
            lose_cpu(s, &s->cpus[i], ev->mono_ns);
        }
    } else if (ev->cpu < s->n_cpus) {
        lose_cpu(s, &s->cpus[ev->cpu], ev->mono_ns);
    }
}
