#include "collector/metrics/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "collector/metrics/om.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/model/ledger.h"
#include "common/os/uuid.h"

#define LABELS_MAX 4096u

enum value { CPU, RESIDENT, SENT, RECEIVED, READY, PAUSE, VALUES };

#define CHEAP 2u /* of these: what the store keeps ready; the others unpack every batch */

static const uint8_t metrics[VALUES] = {M_CPU_TIME,       M_WORKING_SET_SIZE, M_TCP_SEND_BYTES,
                                        M_TCP_RECV_BYTES, M_READY_TIME,       M_CLR_GC_PAUSE};

struct host {
    struct uuid id;
    char name[MODEL_HOST_NAME_MAX + 1];
    bool up;
    uint32_t processes;
    uint64_t lost;
    unsigned have; /* bit per enum value */
    double values[VALUES];
};

struct program {
    char *name; /* owned */
    size_t n;
    unsigned have;
    double values[VALUES];
};

struct sums {
    uint64_t hosts, up, processes, cpus, lost, unbelieved;
    double values[VALUES];
};

struct fleet {
    const struct fleet_conf *conf;
    struct query_env env;
    struct errmsg *why;
    struct sums sums;
    size_t n_hosts; /* listed */
    struct host *hosts;
    size_t n_programs;
    struct program *programs; /* room for twice conf->programs */
};

/* CPUs kept busy, bytes, bytes a second, and shares of the minute. */
static void row_values(unsigned *have, double values[VALUES], const struct wire_row *row)
{
    *have = (unsigned)row->have & ((1u << VALUES) - 1);
    values[CPU] = row->have & 1u << CPU ? (double)row->values[CPU] / (double)CLK_S : 0;
    values[RESIDENT] = row->have & 1u << RESIDENT ? (double)row->values[RESIDENT] : 0;
    for (unsigned v = CHEAP; v < VALUES; v++) {
        double span = (double)FLEET_SPAN_NS / (v < READY ? (double)CLK_S : 1.0);

        values[v] = row->have & 1u << v ? (double)row->values[v] / span : 0;
    }
}

/* -- asking -- */

/* Every page of the answer. */
static enum err ask(struct fleet *f, enum query_kind kind, struct wire_query *q,
                    enum err (*each)(struct fleet *f, const struct wire_answer *a))
{
    uint8_t cursor[WIRE_CURSOR_MAX];
    bool more = true;
    enum err e = ERR_OK;

    while (more && !e) {
        struct query_answer a = {0};

        e = query_run(&a, kind, &f->env, q, f->why);
        if (!e) {
            e = each(f, &a.data);
        }
        more = a.more;
        memcpy(cursor, a.cursor, a.cursor_n);
        q->cursor = (struct str){(const char *)cursor, a.cursor_n};
        query_answer_fini(&a);
    }
    return e;
}

static enum err hosts_take(struct fleet *f, const struct wire_answer *a)
{
    for (size_t i = 0; i < a->n_hosts; i++) {
        const struct wire_host *w = &a->hosts[i];
        bool gone = w->ended || (w->revoked && !w->connected);

        f->sums.hosts++;
        f->sums.up += w->connected;
        f->sums.processes += gone ? 0 : w->processes;
        f->sums.cpus += gone ? 0 : w->cpus;
        if (ledger_is_believed(w->lost_events)) {
            f->sums.lost = ledger_add(f->sums.lost, w->lost_events);
        } else {
            f->sums.unbelieved++;
        }
        if (f->n_hosts < f->conf->hosts_max && w->name.n < sizeof f->hosts->name) {
            struct host *h = &f->hosts[f->n_hosts++];

            *h = (struct host){
                .id = w->id, .up = w->connected, .processes = w->processes, .lost = w->lost_events};
            memcpy(h->name, w->name.p, w->name.n);
        }
    }
    return ERR_OK;
}

static int host_order(const void *a, const void *b)
{
    const struct host *x = a, *y = b;
    int d = strcmp(x->name, y->name);

    return d ? d : memcmp(x->id.b, y->id.b, sizeof x->id.b);
}

static struct host *host_find(struct fleet *f, const struct wire_host *w)
{
    struct host key = {.id = w->id};

    if (w->name.n >= sizeof key.name || f->n_hosts == 0) {
        return NULL;
    }
    memcpy(key.name, w->name.p, w->name.n);
    return bsearch(&key, f->hosts, f->n_hosts, sizeof key, host_order);
}

static enum err host_loads_take(struct fleet *f, const struct wire_answer *a)
{
    for (size_t i = 0; i < a->n_rows; i++) {
        const struct wire_host *w = &a->hosts[a->rows[i].host];
        double values[VALUES] = {0};
        unsigned have = 0;
        struct host *h = w->connected ? host_find(f, w) : NULL;

        row_values(&have, values, &a->rows[i]);
        if (w->cpus && values[CPU] > w->cpus) {
            values[CPU] = w->cpus; /* it cannot be more, whatever the host says */
        }
        for (unsigned v = 0; v < VALUES && w->connected; v++) {
            f->sums.values[v] += values[v];
        }
        if (h) {
            h->have = have;
            memcpy(h->values, values, sizeof values);
        }
    }
    return ERR_OK;
}

/* Where a program goes whose memory is `resident`: the first places are those of the busiest, who
 * come first; the others go to the largest of the rest. NULL: nowhere. */
static struct program *program_place(struct fleet *f, double resident)
{
    size_t busiest = f->conf->programs, all = 2 * busiest;
    struct program *least = NULL;

    if (f->n_programs < all) {
        return &f->programs[f->n_programs++];
    }
    for (size_t i = busiest; i < all; i++) {
        if (!least || f->programs[i].values[RESIDENT] < least->values[RESIDENT]) {
            least = &f->programs[i];
        }
    }
    return least && least->values[RESIDENT] < resident ? least : NULL;
}

static enum err programs_take(struct fleet *f, const struct wire_answer *a)
{
    for (size_t i = 0; i < a->n_rows; i++) {
        struct str name = a->rows[i].info.name;
        double values[VALUES];
        unsigned have;
        struct program *p;

        row_values(&have, values, &a->rows[i]);
        p = program_place(f, values[RESIDENT]);
        if (!p) {
            continue;
        }
        mem_free(p->name);
        *p = (struct program){.name = mem_strndup(name.p, name.n), .n = name.n, .have = have};
        if (!p->name) {
            return ERR_NOMEM;
        }
        memcpy(p->values, values, sizeof values);
    }
    return ERR_OK;
}

/* Groups of processes by what they use of a CPU. */
static struct wire_query question(enum wire_group group, unsigned n)
{
    struct wire_query q = {.limit = WIRE_ROWS_MAX,
                           .by = WIRE_BY_RATE,
                           .group_by = (uint8_t)group,
                           .n_metrics = (uint8_t)n};

    memcpy(q.metrics, metrics, n);
    return q;
}

static enum err ask_all(struct fleet *f)
{
    struct wire_query hosts = {.limit = WIRE_ROWS_MAX};
    struct wire_query loads = question(WIRE_GROUP_HOST, CHEAP);
    struct wire_query programs =
        question(WIRE_GROUP_IMAGE, f->conf->programs_more ? VALUES : CHEAP);
    enum err e = ask(f, QUERY_HOSTS, &hosts, hosts_take);

    loads.last_ns = FLEET_SPAN_NS;
    programs.since_ns = f->env.now_ns - FLEET_SPAN_NS;
    programs.until_ns = f->env.now_ns;
    if (!e) {
        e = ask(f, QUERY_TOP, &loads, host_loads_take);
    }
    return e || f->conf->programs == 0 ? e : ask(f, QUERY_TOP, &programs, programs_take);
}

/* -- writing -- */

static void gauge(struct buf *out, const char *name, const char *help, double value)
{
    om_family(out, name, METRICS_GAUGE, help);
    om_sample(out, name, "", value);
}

static void write_sums(struct buf *out, const struct fleet *f)
{
    const struct sums *s = &f->sums;

    gauge(out, "procfleet_fleet_hosts", "Hosts with data.", (double)s->hosts);
    gauge(out, "procfleet_fleet_hosts_up", "Of them those whose agent is connected.",
          (double)s->up);
    gauge(out, "procfleet_fleet_hosts_left_out", "Of them those without numbers of their own here.",
          (double)(s->hosts - f->n_hosts));
    gauge(out, "procfleet_fleet_cpus", "Logical CPUs of all hosts that have not ended.",
          (double)s->cpus);
    gauge(out, "procfleet_fleet_processes",
          "Processes of hosts that have not ended, at each one's newest sample.",
          (double)s->processes);
    om_family(out, "procfleet_fleet_lost_events_total", METRICS_COUNTER,
              "Events that all hosts are known to have lost.");
    om_sample(out, "procfleet_fleet_lost_events_total", "", (double)s->lost);
    gauge(out, "procfleet_fleet_ledgers_left_out",
          "Hosts whose ledger tells of more than can be: they are not in the events lost.",
          (double)s->unbelieved);
    gauge(out, "procfleet_fleet_cpu_cores",
          "CPUs that processes of connected hosts kept busy, mean of a minute.", s->values[CPU]);
    gauge(out, "procfleet_fleet_resident_bytes",
          "Resident memory of all processes of connected hosts, shared pages counted each time.",
          s->values[RESIDENT]);
}

static const char *host_labels(struct buf *labels, const struct host *h)
{
    char id[UUID_TEXT];

    buf_reset(labels);
    om_label(labels, "host", str_make(h->name));
    om_label(labels, "id", str_make(uuid_format(id, &h->id)));
    return buf_cstr(labels);
}

static void write_loads(struct buf *out, struct buf *labels, const struct fleet *f, enum value v)
{
    static const char *const names[] = {"procfleet_host_cpu_cores",
                                        "procfleet_host_resident_bytes"};
    static const char *const helps[] = {
        "CPUs that the host's processes kept busy, mean of a minute.",
        "Resident memory of the host's processes, shared pages counted each time."};

    om_family(out, names[v], METRICS_GAUGE, helps[v]);
    for (size_t i = 0; i < f->n_hosts; i++) {
        if (f->hosts[i].have & 1u << v) {
            om_sample(out, names[v], host_labels(labels, &f->hosts[i]), f->hosts[i].values[v]);
        }
    }
}

static void write_hosts(struct buf *out, struct buf *labels, const struct fleet *f)
{
    om_family(out, "procfleet_host_up", METRICS_GAUGE, "1: the host's agent is connected.");
    for (size_t i = 0; i < f->n_hosts; i++) {
        om_sample(out, "procfleet_host_up", host_labels(labels, &f->hosts[i]), f->hosts[i].up);
    }
    om_family(out, "procfleet_host_processes", METRICS_GAUGE,
              "Processes at the host's newest sample.");
    for (size_t i = 0; i < f->n_hosts; i++) {
        om_sample(out, "procfleet_host_processes", host_labels(labels, &f->hosts[i]),
                  f->hosts[i].processes);
    }
    om_family(out, "procfleet_host_lost_events_total", METRICS_COUNTER,
              "Events that the host is known to have lost.");
    for (size_t i = 0; i < f->n_hosts; i++) {
        om_sample(out, "procfleet_host_lost_events_total", host_labels(labels, &f->hosts[i]),
                  (double)f->hosts[i].lost);
    }
    write_loads(out, labels, f, CPU);
    write_loads(out, labels, f, RESIDENT);
}

static void write_programs(struct buf *out, struct buf *labels, const struct fleet *f)
{
    static const char *const names[] = {
        "procfleet_program_cpu_cores",     "procfleet_program_resident_bytes",
        "procfleet_program_tcp_send_rate", "procfleet_program_tcp_recv_rate",
        "procfleet_program_ready_threads", "procfleet_program_gc_pause_ratio"};
    static const char *const helps[] = {
        "CPUs that processes of this image name kept busy, mean of a minute; all hosts.",
        "Their resident memory, shared pages counted each time.",
        "Bytes that they sent by TCP in a second, mean of a minute; with http.programs_more.",
        "Bytes that they received by TCP in a second, likewise.",
        "Threads of theirs that were ready and waited for a CPU, likewise.",
        "Time that they stood still for collections of .NET, of the minute, all added; likewise."};
    unsigned any = (1u << CHEAP) - 1;

    for (size_t i = 0; i < f->n_programs; i++) {
        any |= f->programs[i].have;
    }
    for (unsigned v = 0; v < VALUES; v++) {
        if (!(any >> v & 1)) {
            continue;
        }
        om_family(out, names[v], METRICS_GAUGE, helps[v]);
        for (size_t i = 0; i < f->n_programs; i++) {
            const struct program *p = &f->programs[i];

            buf_reset(labels);
            om_label(labels, "program", (struct str){p->name, p->n});
            if (p->have & 1u << v) {
                om_sample(out, names[v], buf_cstr(labels), p->values[v]);
            }
        }
    }
}

/* -- all of it -- */

static enum err gather(struct fleet *f, struct store *store)
{
    struct store_view *view = NULL;
    enum err e = store_view_open(&view, store);

    if (e) {
        return e;
    }
    f->env.view = view;
    e = ask_all(f);
    store_view_close(view);
    return e;
}

static void fleet_fini(struct fleet *f)
{
    for (size_t i = 0; i < f->n_programs; i++) {
        mem_free(f->programs[i].name);
    }
    mem_free(f->programs);
    mem_free(f->hosts);
}

enum err fleet_write(struct buf *out, const struct fleet_conf *conf, int64_t now_ns,
                     const struct deadline *deadline, struct errmsg *why)
{
    struct fleet f = {.conf = conf,
                      .why = why,
                      .env = {.now_ns = now_ns,
                              .deadline = deadline,
                              .host_state = conf->host_state,
                              .is_forgotten = conf->is_forgotten,
                              .ctx = conf->ctx}};
    struct buf labels;
    enum err e = ERR_NOMEM;

    f.hosts = mem_array(conf->hosts_max + 1u, sizeof *f.hosts);
    f.programs = mem_array(2u * conf->programs + 1u, sizeof *f.programs);
    if (f.hosts && f.programs) {
        e = gather(&f, conf->store);
    }
    buf_init(&labels, LABELS_MAX);
    if (!e) {
        write_sums(out, &f);
        write_hosts(out, &labels, &f);
        write_programs(out, &labels, &f);
        e = out->bad;
    }
    buf_fini(&labels);
    fleet_fini(&f);
    return e;
}
