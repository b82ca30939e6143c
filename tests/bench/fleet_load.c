#include "tests/bench/fleet_load.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/fleet_pki.h"

#define GENERATORS_MAX 8u
#define BURST_TICK_NS  (100 * CLK_MS)
#define NAP_NS         (20 * CLK_MS)
#define PREMAKE_NS     (120 * CLK_US) /* what making a tick is expected to take */

/* Times by powers of two, each cut into 32 parts. */
enum { TIME_PARTS = 32, TIME_SLOTS = 48 * TIME_PARTS };

struct times {
    atomic_uint n[TIME_SLOTS];
};

/* One agent among those that a generator drives; these form a heap by due_ns. */
struct driven {
    int64_t due_ns, tick_ns;
    struct fleet_agent *agent;
};

struct generator {
    struct fleet_load *load;
    struct os_thread *thread;
    struct driven *heap;
    size_t n;
};

struct member {
    struct fleet_load *load;
    struct fleet_agent *agent;
    struct fleet_keys keys;
    char name[64], spool[FLEET_PATH_MAX];
    int64_t tick_ns;
    atomic_llong greeted_ns, acked_ns;
};

struct fleet_load {
    struct fleet_load_conf conf;
    struct member *members;
    struct generator generators[GENERATORS_MAX];
    int64_t begin_ns; /* monotonic, of the ticks that are made before; 0 = there are none */
    atomic_bool stop, measuring;
    atomic_llong late_ns;
    atomic_ullong measured_batches, measured_values;
    struct times made, sent;
};

static void check(enum err e, const struct errmsg *why)
{
    if (e) {
        fprintf(stderr, "bench_fleet: %s\n", why->text[0] ? why->text : err_text(e));
        exit(1);
    }
}

static void *must(void *p)
{
    check(p ? ERR_OK : ERR_NOMEM, &(struct errmsg){""});
    return p;
}

/* -- times -- */

static void times_add(struct times *t, int64_t ns)
{
    uint64_t v = ns > TIME_PARTS ? (uint64_t)ns : TIME_PARTS;
    unsigned log = 0, slot;

    while (v >> log >= 2 * TIME_PARTS) {
        log++;
    }
    slot = log * TIME_PARTS + (unsigned)(v >> log) - TIME_PARTS;
    atomic_fetch_add(&t->n[slot < TIME_SLOTS ? slot : TIME_SLOTS - 1], 1);
}

static int64_t times_quantile(const struct times *t, unsigned permille)
{
    uint64_t total = 0, below = 0;

    for (size_t i = 0; i < TIME_SLOTS; i++) {
        total += atomic_load(&t->n[i]);
    }
    for (size_t i = 0; i < TIME_SLOTS && total; i++) {
        below += atomic_load(&t->n[i]);
        if (below * 1000 >= total * permille) {
            return ((int64_t)(i % TIME_PARTS) + TIME_PARTS + 1) << i / TIME_PARTS;
        }
    }
    return 0;
}

int64_t fleet_load_made_ns(const struct fleet_load *l, unsigned permille)
{
    return times_quantile(&l->made, permille);
}

int64_t fleet_load_sent_ns(const struct fleet_load *l, unsigned permille)
{
    return times_quantile(&l->sent, permille);
}

/* -- what agents tell -- */

static void on_acked(void *ctx, const struct fleet_ack *ack)
{
    struct member *m = ctx;
    struct fleet_load *l = m->load;

    atomic_store(&m->acked_ns, ack->acked_ns);
    if (atomic_load(&l->measuring)) {
        atomic_fetch_add(&l->measured_batches, 1);
        atomic_fetch_add(&l->measured_values, ack->values);
        times_add(&l->made, ack->acked_ns - ack->made_ns);
        times_add(&l->sent, ack->acked_ns - ack->sent_ns);
    }
}

static void on_greeted(void *ctx)
{
    atomic_store(&((struct member *)ctx)->greeted_ns, os_mono_ns());
}

static void on_journal(void *ctx, const struct sample_tick *tick, const struct life_event *events,
                       size_t n_events)
{
    struct member *m = ctx;

    for (size_t i = 0; i < n_events; i++) {
        const struct life_event *ev = &events[i];

        fprintf(m->load->conf.journal, "%s event %lld %u %u %llu\n", m->name,
                (long long)ev->wall_ns, ev->kind, ev->info.id.pid,
                (unsigned long long)ev->info.id.start);
    }
    fprintf(m->load->conf.journal, "%s tick %lld %zu\n", m->name, (long long)tick->wall_ns,
            tick->n_rows);
}

/* -- making -- */

static void member_create(struct fleet_load *l, unsigned i)
{
    struct member *m = &l->members[i];
    struct fleet_agent_conf conf = l->conf.agent;
    struct errmsg why = {""};
    struct uuid host;

    m->load = l;
    fleet_agent_host(i + 1, &host, m->name, sizeof m->name);
    check(fleet_pki_agent(&m->keys, l->conf.keys_dir, i + 1, &why), &why);
    m->tick_ns = i < l->conf.burst ? BURST_TICK_NS : conf.tick_ns;
    conf.seed = i + 1;
    conf.tick_ns = m->tick_ns;
    conf.ca = m->keys.ca;
    conf.cert = m->keys.cert;
    conf.key = m->keys.key;
    conf.addresses = &l->conf.address;
    conf.n_addresses = 1;
    if (l->conf.spool_dir) {
        (void)snprintf(m->spool, sizeof m->spool, "%s/%s", l->conf.spool_dir, m->name);
        conf.spool_dir = m->spool;
    }
    conf.acked = on_acked;
    conf.greeted = on_greeted;
    conf.journal = l->conf.journal ? on_journal : NULL;
    conf.ctx = m;
    check(fleet_agent_create(&m->agent, &conf, &why), &why);
}

struct fleet_load *fleet_load_create(const struct fleet_load_conf *conf)
{
    struct fleet_load *l = must(mem_zalloc(sizeof *l));
    struct errmsg why = {""};

    l->conf = *conf;
    if (conf->generators < 1 || conf->generators > GENERATORS_MAX) {
        l->conf.generators = 1;
    }
    if (conf->spool_dir) {
        check(os_mkdirs(conf->spool_dir, true), &why);
    }
    l->members = must(mem_array(conf->agents, sizeof *l->members));
    memset(l->members, 0, conf->agents * sizeof *l->members);
    for (unsigned i = 0; i < conf->agents; i++) {
        member_create(l, i);
    }
    return l;
}

void fleet_load_connect(struct fleet_load *l, unsigned per_second)
{
    int64_t start_ns = os_mono_ns();
    struct errmsg why = {""};

    for (unsigned i = 0; i < l->conf.agents; i++) {
        int64_t due_ns = per_second ? start_ns + i * CLK_S / per_second : 0;
        int64_t left_ns = due_ns - os_mono_ns();

        if (left_ns > 0) {
            os_sleep_ns(left_ns);
        }
        check(fleet_agent_start(l->members[i].agent, &why), &why);
    }
}

/* -- driving -- */

static void swap(struct driven *a, struct driven *b)
{
    struct driven t = *a;

    *a = *b;
    *b = t;
}

/* The first one's due time has grown: puts it where it belongs. */
static void sink(struct driven *heap, size_t n, size_t i)
{
    for (;;) {
        size_t least = i;

        for (size_t k = 2 * i + 1; k < n && k <= 2 * i + 2; k++) {
            least = heap[k].due_ns < heap[least].due_ns ? k : least;
        }
        if (least == i) {
            return;
        }
        swap(&heap[i], &heap[least]);
        i = least;
    }
}

static void note_late(struct fleet_load *l, int64_t ns)
{
    long long most = atomic_load(&l->late_ns);

    while (atomic_load(&l->measuring) && ns > most &&
           !atomic_compare_exchange_weak(&l->late_ns, &most, ns)) {
    }
}

static void generate(void *arg)
{
    struct generator *g = arg;
    struct driven *first = g->heap;

    while (g->n > 0 && !atomic_load(&g->load->stop)) {
        int64_t left_ns = first->due_ns - os_mono_ns();

        if (left_ns > 0) {
            os_sleep_ns(left_ns < NAP_NS ? left_ns : NAP_NS);
            continue;
        }
        note_late(g->load, -left_ns);
        check(fleet_agent_tick(first->agent), &(struct errmsg){"a batch could not be handed on"});
        first->due_ns += first->tick_ns;
        sink(g->heap, g->n, 0);
    }
}

/* Agents begin spread over the time of a batch, so that batches come evenly. */
static int64_t phase_ns(const struct fleet_load *l, unsigned i)
{
    double batch_ns = (double)l->members[i].tick_ns * l->conf.agent.samples;

    return (int64_t)(batch_ns * i / l->conf.agents);
}

struct premaker {
    struct fleet_load *load;
    struct os_thread *thread;
    unsigned first, step, seconds;
};

static void premake(void *arg)
{
    struct premaker *p = arg;
    struct fleet_load *l = p->load;

    for (unsigned i = p->first; i < l->conf.agents; i += p->step) {
        struct member *m = &l->members[i];

        check(fleet_agent_premake(m->agent, l->begin_ns + phase_ns(l, i),
                                  (unsigned)(p->seconds * CLK_S / m->tick_ns)),
              &(struct errmsg){"a batch could not be made"});
    }
}

void fleet_load_premake(struct fleet_load *l, unsigned seconds)
{
    unsigned n = os_cpu_count() < GENERATORS_MAX ? os_cpu_count() : GENERATORS_MAX;
    struct premaker all[GENERATORS_MAX];

    l->begin_ns = os_mono_ns() + CLK_S + (int64_t)l->conf.agents * seconds * PREMAKE_NS / n;
    for (unsigned t = 0; t < n; t++) {
        all[t] = (struct premaker){.load = l, .first = t, .step = n, .seconds = seconds};
        check(os_thread_start(&all[t].thread, "premaker", premake, &all[t]),
              &(struct errmsg){"no thread"});
    }
    for (unsigned t = 0; t < n; t++) {
        os_thread_join(all[t].thread);
    }
}

void fleet_load_run(struct fleet_load *l)
{
    unsigned n_threads = l->conf.generators;
    int64_t now_ns = os_mono_ns(), begin_ns = l->begin_ns > now_ns ? l->begin_ns : now_ns;

    for (unsigned t = 0; t < n_threads; t++) {
        struct generator *g = &l->generators[t];

        g->load = l;
        g->heap = must(mem_array(l->conf.agents / n_threads + 1, sizeof *g->heap));
        for (unsigned i = t; i < l->conf.agents; i += n_threads) {
            const struct member *m = &l->members[i];

            g->heap[g->n++] = (struct driven){begin_ns + phase_ns(l, i), m->tick_ns, m->agent};
        }
        for (size_t i = g->n; i-- > 0;) {
            sink(g->heap, g->n, i);
        }
        check(os_thread_start(&g->thread, "generator", generate, g), &(struct errmsg){"no thread"});
    }
}

static void times_clear(struct times *t)
{
    for (size_t i = 0; i < TIME_SLOTS; i++) {
        atomic_store(&t->n[i], 0);
    }
}

void fleet_load_measure(struct fleet_load *l, bool on)
{
    if (on) {
        times_clear(&l->made);
        times_clear(&l->sent);
        atomic_store(&l->measured_batches, 0);
        atomic_store(&l->measured_values, 0);
        atomic_store(&l->late_ns, 0);
    }
    atomic_store(&l->measuring, on);
}

void fleet_load_finish(struct fleet_load *l)
{
    atomic_store(&l->stop, true);
    for (unsigned t = 0; t < l->conf.generators; t++) {
        os_thread_join(l->generators[t].thread);
        l->generators[t].thread = NULL;
        mem_free(l->generators[t].heap);
        l->generators[t].heap = NULL;
    }
    for (unsigned i = 0; i < l->conf.agents; i++) {
        fleet_agent_finish(l->members[i].agent);
    }
}

void fleet_load_destroy(struct fleet_load *l)
{
    if (l) {
        for (unsigned i = 0; i < l->conf.agents; i++) {
            fleet_agent_destroy(l->members[i].agent, os_mono_ns());
        }
        mem_free(l->members);
        mem_free(l);
    }
}

/* -- sums -- */

static void add(struct fleet_load_sum *sum, const struct fleet_agent_stats *s)
{
    sum->ticks += s->ticks;
    sum->events += s->events;
    sum->rows += s->rows;
    sum->values += s->values;
    sum->batches += s->batch.batches;
    sum->bytes += s->batch.bytes;
    sum->acknowledged += s->uplink.acknowledged;
    sum->duplicates += s->uplink.duplicates;
    sum->resent += s->uplink.resent;
    sum->quarantined += s->uplink.quarantined;
    sum->lost += s->store.overflow + s->store.refused + s->batch.nomem + s->batch.oversize;
    sum->held += s->store.held;
}

void fleet_load_sum(struct fleet_load *l, struct fleet_load_sum *out)
{
    *out = (struct fleet_load_sum){.measured_batches = atomic_load(&l->measured_batches),
                                   .measured_values = atomic_load(&l->measured_values),
                                   .late_ns = atomic_load(&l->late_ns)};
    for (unsigned i = 0; i < l->conf.agents; i++) {
        struct fleet_agent_stats s;

        fleet_agent_stats(l->members[i].agent, &s);
        add(out, &s);
    }
}

void fleet_load_back(struct fleet_load *l, int64_t since_ns, struct fleet_load_back *out)
{
    *out = (struct fleet_load_back){0};
    for (unsigned i = 0; i < l->conf.agents; i++) {
        int64_t greeted_ns = atomic_load(&l->members[i].greeted_ns);
        int64_t acked_ns = atomic_load(&l->members[i].acked_ns);

        out->greeted += greeted_ns > since_ns;
        out->acked += acked_ns > since_ns;
        out->greeted_ns = greeted_ns > out->greeted_ns ? greeted_ns : out->greeted_ns;
        out->acked_ns = acked_ns > out->acked_ns ? acked_ns : out->acked_ns;
    }
}

static int by_time(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;

    return a < b ? -1 : a > b;
}

int64_t fleet_load_greeted_ns(struct fleet_load *l, unsigned permille)
{
    size_t n = l->conf.agents, at = n * permille / 1000;
    int64_t *all = must(mem_array(n, sizeof *all)), found;

    for (size_t i = 0; i < n; i++) {
        all[i] = atomic_load(&l->members[i].greeted_ns);
    }
    qsort(all, n, sizeof *all, by_time);
    found = all[at < n ? at : n - 1];
    mem_free(all);
    return found;
}
