#include "collector/lab/lab_service.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "collector/lab/boots.h"
#include "collector/lab/extract_range.h"
#include "collector/lab/lab_keeper.h"
#include "collector/lab/mark_limit.h"
#include "collector/lab/runs.h"
#include "collector/store/batch_time.h"
#include "common/base/clk.h"
#include "common/base/glob.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "common/os/uuid.h"

#define MEMORY_MAX   ((size_t)64 << 20) /* of one call */
#define REPLY_MAX    (4u << 20)
#define DAY_NS       (86400 * CLK_S)
#define LATE_MAX_NS  (8 * DAY_NS)  /* a mark may be told so long afterwards */
#define AHEAD_MAX_NS (5 * CLK_S)   /* and may lie so far ahead of its arrival */
#define SKEW_NS      (50 * CLK_MS) /* how far a mark of another machine's clock may be off */
#define PUTS_MAX     4u
#define PUT_IDLE_NS  (60 * CLK_S)
#define BOOT_SKEW_NS CLK_S /* a kernel tells its start to the second */
#define WINDOWS_OF   16u   /* a list of no more runs has their hosts' windows */

/* A file that is being sent. */
struct put {
    struct uuid id; /* of the transfer */
    char owner[64];
    uint8_t *bytes;
    uint64_t n, total, hash;
    int64_t used_ns; /* monotonic; 0: free */
};

struct lab_service {
    struct lab_service_conf conf;
    struct lab_db *db;
    struct facts_rule *rules;
    struct facts_book *facts;
    struct boots_book *boots;
    struct lab_keeper *keeper;
    struct os_mutex *lock; /* guards what follows */
    struct mark_limit limit;
    struct put puts[PUTS_MAX];
};

/* -- calls -- */

struct call {
    struct lab_service *s;
    struct rpc_call *rpc;
    const struct net_identity *peer;
    struct runs_who who;
    struct arena memory;
    struct errmsg why;
    struct store_view *view;
    void *message;
};

static enum err call_begin(struct call *c, struct lab_service *s, struct rpc_call *rpc,
                           enum wire_run_kind kind)
{
    size_t n;
    const uint8_t *p = rpc_call_payload(rpc, &n);
    const struct net_identity *peer = rpc_call_peer(rpc);

    *c = (struct call){.s = s,
                       .rpc = rpc,
                       .peer = peer,
                       .who = {peer->name, peer->scope, (peer->roles & NET_ADMIN) != 0}};
    arena_init(&c->memory, MEMORY_MAX);
    return wire_run_decode(&c->message, kind, p, n);
}

static enum rpc_code call_code(enum err e)
{
    switch (e) {
    case ERR_INVALID:
    case ERR_CORRUPT:
    case ERR_VERSION:
        return RPC_INVALID_ARGUMENT;
    case ERR_NOTFOUND:
        return RPC_NOT_FOUND;
    case ERR_EXISTS:
        return RPC_ALREADY_EXISTS;
    case ERR_ACCESS:
        return RPC_PERMISSION_DENIED;
    case ERR_END:
        return RPC_FAILED_PRECONDITION;
    case ERR_FULL:
    case ERR_NOMEM:
    case ERR_NOSPACE:
    case ERR_BUSY:
        return RPC_RESOURCE_EXHAUSTED;
    default:
        return RPC_INTERNAL;
    }
}

/* Answers with the message, or says why not, and releases the call. */
static void call_end(struct call *c, enum err e, enum wire_run_kind kind, const void *reply)
{
    struct buf out;

    buf_init(&out, REPLY_MAX);
    e = e ? e : wire_run_encode(&out, kind, reply);
    if (e) {
        rpc_fail(c->rpc, call_code(e), e == ERR_BUSY || e == ERR_NOMEM ? 1000 : 0, "%s",
                 c->why.text[0] ? c->why.text : err_text(e));
    } else {
        rpc_answer(c->rpc, out.p, out.n, NULL);
    }
    buf_fini(&out);
    store_view_close(c->view);
    wire_run_free(c->message);
    arena_fini(&c->memory);
}

/* -- marks -- */

/* True: too many; the call has been answered. */
static bool limited(struct lab_service *s, struct rpc_call *rpc)
{
    const struct net_identity *peer = rpc_call_peer(rpc);
    char name[160];
    int64_t wait_ns;

    os_mutex_lock(s->lock);
    wait_ns = mark_limit_take(&s->limit, peer->name, os_mono_ns());
    os_mutex_unlock(s->lock);
    if (!wait_ns) {
        return false;
    }
    log_line(LOG_WARN, "lab", "marks_limited", "peer=%s name=%s wait_ms=%" PRId64, peer->address,
             log_str(name, sizeof name, peer->name), wait_ns / (int64_t)CLK_MS);
    rpc_fail(rpc, RPC_RESOURCE_EXHAUSTED, (uint32_t)(wait_ns / CLK_MS + 1),
             "more than %d marks in a second or %d in a day of one certificate", MARK_LIMIT_SECOND,
             MARK_LIMIT_DAY);
    return true;
}

static bool id_is_set(const struct uuid *id)
{
    static const struct uuid none;

    return memcmp(id->b, none.b, sizeof none.b) != 0;
}

static bool in_scope(const struct call *c, const char *host)
{
    return !c->who.scope[0] || glob_match(str_make(c->who.scope), str_make(host));
}

/* The host of that boot, inside the scope; their number when there is none. */
static size_t host_of_boot(const struct call *c, const struct uuid *boot)
{
    size_t n = store_view_hosts(c->view);

    for (size_t i = 0; i < n && id_is_set(boot); i++) {
        const struct store_host *h = store_view_host(c->view, i);

        if (memcmp(h->boot.b, boot->b, sizeof boot->b) == 0 && in_scope(c, h->name)) {
            return i;
        }
    }
    return n;
}

/* The moment by the collector's clock. The sender's own clock counts where it is the host's, whose
 * offset is known, or where the mark comes late: then as far as it was off at its sending. */
static enum err mark_when(const struct call *c, const struct wire_run_mark *m,
                          struct runs_mark *out)
{
    size_t host = host_of_boot(c, &m->boot);
    struct host_offset clock = {.known = false};
    int64_t when_ns = m->when_ns;
    enum err e = ERR_OK;

    out->when_ns = out->now_ns;
    out->error_ns = SKEW_NS;
    if (!when_ns) {
        return ERR_OK;
    }
    if (host < store_view_hosts(c->view)) {
        e = extract_range_clock(&clock, c->view, host, when_ns);
        when_ns = clk_add(when_ns, clock.known ? clock.offset_ns : 0);
        out->error_ns = 0; /* extraction adds the clock's own */
    } else if (m->late && m->now_ns) {
        when_ns = clk_add(when_ns, clk_sub(out->now_ns, m->now_ns));
    } else {
        return ERR_OK;
    }
    if (when_ns > clk_sub(out->now_ns, LATE_MAX_NS) &&
        when_ns < clk_add(out->now_ns, AHEAD_MAX_NS)) {
        out->when_ns = when_ns;
    }
    return e;
}

static enum err host_take(struct call *c, struct runs_mark *out, struct wire_run_host *hosts,
                          const struct store_host *h)
{
    if (out->n_hosts == WIRE_RUN_HOSTS_MAX) {
        return errmsg_set(&c->why, ERR_FULL, "more than %u hosts", WIRE_RUN_HOSTS_MAX);
    }
    hosts[out->n_hosts++] = (struct wire_run_host){.id = h->id, .name = str_make(h->name)};
    return ERR_OK;
}

static enum err hosts_check(struct call *c, const struct wire_run_mark *m)
{
    for (size_t i = 0; i < m->n_hosts; i++) {
        if (!m->hosts[i].n) {
            return errmsg_set(&c->why, ERR_INVALID, "an empty host name");
        }
        if (!glob_is_pattern(m->hosts[i]) && c->who.scope[0] &&
            !glob_match(str_make(c->who.scope), m->hosts[i])) {
            return errmsg_set(&c->why, ERR_ACCESS,
                              "this certificate may mark hosts that fit '%s' only", c->who.scope);
        }
    }
    return ERR_OK;
}

/* Those that fit and are in the scope; without patterns the sender's own. */
static enum err mark_hosts(struct call *c, const struct wire_run_mark *m, struct runs_mark *out)
{
    size_t n = store_view_hosts(c->view), own = host_of_boot(c, &m->boot);
    struct wire_run_host *hosts = arena_array(&c->memory, n, sizeof *hosts);
    enum err e = hosts ? hosts_check(c, m) : ERR_NOMEM;

    out->hosts = hosts;
    for (size_t i = 0; !e && i < n; i++) {
        const struct store_host *h = store_view_host(c->view, i);
        bool fits = m->n_hosts == 0 && i == own, forgotten;

        for (size_t k = 0; k < m->n_hosts && !fits; k++) {
            forgotten = c->s->conf.is_forgotten && glob_is_pattern(m->hosts[k]) &&
                        c->s->conf.is_forgotten(c->s->conf.ctx, &h->id);
            fits = !forgotten && glob_match(m->hosts[k], str_make(h->name));
        }
        if (fits && in_scope(c, h->name)) {
            e = host_take(c, out, hosts, h);
        }
    }
    if (!e && m->n_hosts == 0 && own == n && !m->root_pid) {
        e = errmsg_set(&c->why, ERR_NOTFOUND,
                       "this machine is no host of the collector: --host says whose run it is");
    }
    return e;
}

static void mark_log(const struct call *c, const char *event, const struct wire_run *run)
{
    char name[160], peer[160], id[UUID_TEXT], text[WIRE_RUN_NAME_MAX + 1];

    (void)snprintf(text, sizeof text, "%.*s", (int)run->name.n, run->name.p);
    log_line(LOG_INFO, "lab", event, "peer=%s name=%s run=%s id=%s hosts=%u late=%d",
             c->peer->address, log_str(peer, sizeof peer, c->peer->name),
             log_str(name, sizeof name, text), uuid_format(id, &run->id),
             (unsigned)run->hosts_asked, run->late);
}

static void on_begin(void *ctx, struct rpc_call *rpc)
{
    struct runs_mark mark = {.now_ns = os_utc_ns()};
    struct wire_run run = {.number = 0};
    struct wire_run_mark m;
    struct call c;
    enum err e;

    if (limited(ctx, rpc)) {
        return;
    }
    e = call_begin(&c, ctx, rpc, WIRE_RUN_MARK);
    e = e ? e : store_view_open(&c.view, c.s->conf.store);
    if (!e) {
        m = *(const struct wire_run_mark *)c.message;
        mark.m = &m;
        e = mark_when(&c, &m, &mark);
        e = e ? e : mark_hosts(&c, &m, &mark);
    }
    if (!e && (mark.n_hosts != 1 || host_of_boot(&c, &m.boot) == store_view_hosts(c.view) ||
               memcmp(store_view_host(c.view, host_of_boot(&c, &m.boot))->id.b, mark.hosts[0].id.b,
                      sizeof m.id.b) != 0)) {
        m.root_pid = 0; /* a process of another machine than the run's one host */
    }
    e = e ? e : runs_begin(c.s->db, &c.who, &mark, &c.memory, &run, &c.why);
    if (!e) {
        mark_log(&c, "run_begin", &run);
    }
    call_end(&c, e, WIRE_RUN_RUN, &run);
}

static void on_end(void *ctx, struct rpc_call *rpc)
{
    struct runs_mark mark = {.now_ns = os_utc_ns()};
    struct wire_run run = {.number = 0};
    struct call c;
    enum err e;

    if (limited(ctx, rpc)) {
        return;
    }
    e = call_begin(&c, ctx, rpc, WIRE_RUN_MARK);
    e = e ? e : store_view_open(&c.view, c.s->conf.store);
    if (!e) {
        mark.m = c.message;
        e = mark_when(&c, mark.m, &mark);
    }
    e = e ? e : runs_end(c.s->db, &c.who, &mark, &c.memory, &run, &c.why);
    if (!e) {
        mark_log(&c, "run_end", &run);
        lab_keeper_wake(c.s->keeper);
    }
    call_end(&c, e, WIRE_RUN_RUN, &run);
}

/* -- reading -- */

/* What each host's own clock showed when the run began and ended. */
static enum err windows_fill(struct call *c, struct wire_run *run)
{
    struct wire_run_host *hosts =
        arena_dup(&c->memory, run->hosts, run->n_hosts * sizeof *run->hosts);
    struct query_run range;
    enum err e = hosts ? lab_keeper_range(&range, c->view, run, &c->memory) : ERR_FULL;

    for (size_t i = 0; !e && i < run->n_hosts; i++) {
        for (size_t k = 0; k < range.n; k++) {
            if (memcmp(range.hosts[k].id.b, hosts[i].id.b, sizeof hosts[i].id.b) == 0) {
                hosts[i].since_ns = range.hosts[k].since_ns;
                hosts[i].until_ns = range.hosts[k].until_ns;
            }
        }
    }
    run->hosts = hosts;
    return e;
}

/* What hosts of one class share here: comparisons are made elsewhere. */
static enum err class_keys_tell(struct call *c, struct wire_runs *runs)
{
    const char *const *keys = facts_class_keys(c->s->facts);
    struct str *list = arena_array(&c->memory, HOST_CLASS_KEYS, sizeof *list);

    if (!list) {
        return ERR_FULL;
    }
    for (runs->n_class = 0; keys[runs->n_class]; runs->n_class++) {
        list[runs->n_class] = str_make(keys[runs->n_class]);
    }
    runs->class_keys = list;
    return ERR_OK;
}

static void on_runs(void *ctx, struct rpc_call *rpc)
{
    const struct wire_runs_ask *ask;
    struct wire_runs runs = {.n = 0};
    struct call c;
    enum err e = call_begin(&c, ctx, rpc, WIRE_RUN_ASK);

    ask = c.message;
    e = e ? e : runs_find(c.s->db, &c.who, ask, &c.memory, &runs, &c.why);
    if (!e && ask->hosts && runs.n <= WINDOWS_OF) {
        struct wire_run *list = arena_dup(&c.memory, runs.runs, runs.n * sizeof *list);

        e = list ? store_view_open(&c.view, c.s->conf.store) : ERR_FULL;
        runs.runs = list;
        for (size_t i = 0; !e && i < runs.n; i++) {
            e = windows_fill(&c, &list[i]);
        }
    }
    if (!e) {
        e = class_keys_tell(&c, &runs);
    }
    call_end(&c, e, WIRE_RUN_LIST, &runs);
}

/* The newest run that fits. */
static enum err run_of(struct lab_db *db, const struct runs_who *who, struct str name,
                       struct arena *memory, struct wire_run *out, struct errmsg *why)
{
    const struct wire_runs_ask ask = {.name = name, .limit = 1, .hosts = true};
    struct wire_runs runs = {.n = 0};
    enum err e = runs_find(db, who, &ask, memory, &runs, why);

    if (!e && runs.n == 0) {
        e = errmsg_set(why, ERR_NOTFOUND, "no run '%.*s'", (int)name.n, name.p);
    }
    if (!e) {
        *out = runs.runs[0];
    }
    return e;
}

enum err lab_service_run(struct lab_service *s, const struct store_view *view,
                         const struct net_identity *who, struct str name, struct arena *memory,
                         struct query_run *out, struct errmsg *why)
{
    const struct runs_who own = {who->name, who->scope, (who->roles & NET_ADMIN) != 0};
    struct wire_run run;
    enum err e = run_of(s->db, &own, name, memory, &run, why);

    return e ? e : lab_keeper_range(out, view, &run, memory);
}

/* Of the file's begin the whole, for its hash; of what follows the piece alone. */
static enum err file_piece(struct call *c, const struct wire_run *run,
                           const struct wire_run_get *ask, uint8_t **bytes,
                           struct wire_run_part *out)
{
    const struct lab_keeper *k = c->s->keeper;
    uint64_t total = 0, again = 0;
    size_t n = 0;
    enum err e = lab_keeper_read(k, &run->id, 0, NULL, &n, &total);

    if (e == ERR_NOTFOUND) {
        return errmsg_set(&c->why, ERR_IO, "the run's file is gone from data_dir/runs");
    }
    if (!e && ask->offset > total) {
        return errmsg_set(&c->why, ERR_INVALID, "the file has %" PRIu64 " bytes", total);
    }
    n = (size_t)(total - ask->offset);
    n = ask->offset && n > WIRE_RUN_PART_MAX ? WIRE_RUN_PART_MAX : n;
    e = e ? e : n > WIRE_RUN_FILE_MAX ? ERR_FULL : ERR_OK;
    *bytes = e ? NULL : mem_alloc(n ? n : 1);
    e = e || *bytes ? e : ERR_NOMEM;
    e = e ? e : lab_keeper_read(k, &run->id, ask->offset, *bytes, &n, &again);
    if (!e && (again != total || (run->state != WIRE_RUN_IMPORTED && total != run->file_bytes))) {
        e = errmsg_set(&c->why, ERR_BUSY, "the file is being made again: begin anew");
    }
    if (e) {
        return e;
    }
    *out = (struct wire_run_part){
        .id = run->id,
        .name = run->name,
        .offset = ask->offset,
        .total = total,
        .hash = ask->offset ? 0 : hash_bytes(*bytes, n, 0),
        .data = {(const char *)*bytes, n < WIRE_RUN_PART_MAX ? n : WIRE_RUN_PART_MAX},
        .revision = run->revision};
    return ERR_OK;
}

/* A range that is no run, extracted while the caller waits: in one piece, since another call could
 * find other data. */
static enum err range_piece(struct call *c, const struct wire_run_get *ask, struct buf *bytes,
                            struct wire_run_part *out)
{
    const struct lab_service_conf *conf = &c->s->conf;
    const struct query_env env = {.view = c->view,
                                  .scope = c->who.scope,
                                  .now_ns = os_utc_ns(),
                                  .deadline = rpc_call_deadline(c->rpc),
                                  .host_state = conf->host_state,
                                  .is_forgotten = conf->is_forgotten,
                                  .ctx = conf->ctx};
    const struct extract_range range = {ask->n_hosts, ask->hosts, ask->since_ns, ask->until_ns};
    struct run_file *f;
    enum err e;

    if (ask->since_ns >= ask->until_ns || ask->since_ns < 0) {
        return errmsg_set(&c->why, ERR_INVALID, "the range ends before it begins");
    }
    e = extract_range(&f, &env, &range, str_make("range"), &c->why);
    if (e) {
        return e;
    }
    e = run_file_encode(bytes, f);
    run_file_free(f);
    if (!e && bytes->n > WIRE_RUN_PART_MAX) {
        e = errmsg_set(&c->why, ERR_FULL, "the range is larger than 1 MiB: take fewer hosts");
    }
    *out = (struct wire_run_part){.total = bytes->n,
                                  .hash = hash_bytes(bytes->p, bytes->n, 0),
                                  .data = {(const char *)bytes->p, bytes->n},
                                  .revision = 1};
    return e;
}

static void get_range(struct call *c, const struct wire_run_get *ask)
{
    struct wire_run_part part = {.total = 0};
    struct buf bytes;
    enum err e;

    buf_init(&bytes, RUN_FILE_MAX);
    e = store_view_open(&c->view, c->s->conf.store);
    e = e ? e : range_piece(c, ask, &bytes, &part);
    call_end(c, e, WIRE_RUN_PART, &part);
    buf_fini(&bytes);
}

static void on_get(void *ctx, struct rpc_call *rpc)
{
    struct wire_run_part part = {.total = 0};
    const struct wire_run_get *ask;
    uint8_t *bytes = NULL;
    struct wire_run run;
    struct call c;
    enum err e = call_begin(&c, ctx, rpc, WIRE_RUN_FETCH);

    ask = c.message;
    if (!e && ask->name.n == 0 && ask->until_ns) {
        get_range(&c, ask);
        return;
    }
    e = e ? e : run_of(c.s->db, &c.who, ask->name, &c.memory, &run, &c.why);
    if (!e && !run.revision) {
        e = errmsg_set(
            &c.why, ERR_END,
            run.state == WIRE_RUN_OPEN ? "the run is still open: 'procfleet run end' ends it"
            : run.state != WIRE_RUN_CLOSING
                ? "the run has no file: it is larger than one may be, see the collector's log"
                : "the run's file is being made: it waits for its hosts' data, 3 minutes "
                  "at most");
    }
    if (!e && ask->revision && ask->revision != run.revision) {
        e = errmsg_set(&c.why, ERR_INVALID, "the file was made again meanwhile: begin anew");
    }
    e = e ? e : file_piece(&c, &run, ask, &bytes, &part);
    call_end(&c, e, WIRE_RUN_PART, &part);
    mem_free(bytes);
}

/* -- files from elsewhere -- */

/* The transfer's place; a new one begins at offset 0. Under the lock. */
static struct put *put_find(struct lab_service *s, const struct call *c,
                            const struct wire_run_part *p)
{
    struct put *free_one = NULL;

    for (size_t i = 0; i < PUTS_MAX; i++) {
        struct put *x = &s->puts[i];

        if (x->used_ns && os_mono_ns() - x->used_ns > PUT_IDLE_NS) {
            mem_free(x->bytes);
            *x = (struct put){.used_ns = 0};
        }
        if (x->used_ns && memcmp(x->id.b, p->id.b, sizeof p->id.b) == 0 &&
            strcmp(x->owner, c->peer->name) == 0) {
            return x;
        }
        free_one = x->used_ns ? free_one : x;
    }
    if (!free_one || p->offset || !p->total) {
        return NULL;
    }
    *free_one = (struct put){
        .id = p->id, .total = p->total, .hash = p->hash, .bytes = mem_alloc((size_t)p->total)};
    (void)snprintf(free_one->owner, sizeof free_one->owner, "%s", c->peer->name);
    return free_one->bytes ? free_one : NULL;
}

/* Takes a piece. *whole: the file's bytes when it was the last one, the caller's. */
static enum err put_piece(struct call *c, const struct wire_run_part *p, uint8_t **whole, size_t *n)
{
    struct lab_service *s = c->s;
    struct put *x;
    enum err e = ERR_OK;

    os_mutex_lock(s->lock);
    x = put_find(s, c, p);
    if (!x) {
        e = errmsg_set(&c->why, p->offset ? ERR_INVALID : ERR_BUSY,
                       p->offset ? "no such transfer: begin anew" : "other files are being sent");
    } else if (p->offset != x->n || p->total != x->total) {
        e = errmsg_set(&c->why, ERR_INVALID, "the piece does not follow the one before");
    } else {
        memcpy(x->bytes + x->n, p->data.p, p->data.n);
        x->n += p->data.n;
        x->used_ns = os_mono_ns();
        if (x->n == x->total) {
            e = x->hash == hash_bytes(x->bytes, (size_t)x->n, 0) ? ERR_OK : ERR_CORRUPT;
            *whole = x->bytes;
            *n = (size_t)x->n;
            *x = (struct put){.used_ns = 0};
        }
    }
    os_mutex_unlock(s->lock);
    return e;
}

/* The row of a file. */
static enum err import_row(struct call *c, const struct run_file *f, struct str name,
                           struct wire_run *out)
{
    const struct run_head *h = &f->head;
    struct wire_label *labels = arena_array(&c->memory, WIRE_RUN_LABELS, sizeof *labels);
    struct wire_run_host *hosts = arena_array(&c->memory, f->n_hosts, sizeof *hosts);
    uint64_t ppm = 0;

    if (!labels || !hosts) {
        return ERR_FULL;
    }
    *out = (struct wire_run){.id = h->id,
                             .parent = h->parent,
                             .name = name.n ? name : h->name,
                             .owner = str_make(c->who.name),
                             .began_ns = h->begin_ns,
                             .ended_ns = h->end_ns,
                             .has_exit = h->has_exit,
                             .exit_code = h->exit_code,
                             .labels = labels,
                             .hosts = hosts,
                             .revision = h->revision ? h->revision : 1};
    for (size_t i = 0; i < h->n_labels && out->n_labels < WIRE_RUN_LABELS; i++) {
        labels[out->n_labels] = (struct wire_label){h->labels[i].key, h->labels[i].value};
        out->n_labels += wire_run_label_ok(&labels[out->n_labels]);
    }
    for (size_t i = 0; i < f->n_hosts && out->n_hosts < WIRE_RUN_HOSTS_MAX; i++) {
        hosts[out->n_hosts++] =
            (struct wire_run_host){.id = f->hosts[i].id, .name = f->hosts[i].name};
        out->hosts_in += !f->hosts[i].absent;
        ppm += f->hosts[i].ppm;
    }
    out->coverage = f->n_hosts ? (uint32_t)(ppm / f->n_hosts) : 0;
    if (!wire_run_name_ok(out->name) || !id_is_set(&out->id)) {
        return errmsg_set(
            &c->why, ERR_INVALID,
            "the file names no run: give it a name of letters, digits, '.', '_', '-'");
    }
    return ERR_OK;
}

static enum err import(struct call *c, const struct uuid *transfer, const uint8_t *bytes, size_t n,
                       struct str name, struct wire_run *out)
{
    struct run_file *f = NULL;
    struct wire_run row;
    enum err e = run_file_decode(&f, bytes, n, RUN_FILE_ALL, &c->why);

    e = e ? e : import_row(c, f, name, &row);
    if (!e) {
        row.file_bytes = n;
        e = lab_keeper_import(c->s->keeper, transfer, &row, bytes, n, &c->memory, out, &c->why);
    }
    run_file_free(f);
    return e;
}

static void on_put(void *ctx, struct rpc_call *rpc)
{
    struct wire_run run = {.number = 0};
    const struct wire_run_part *p;
    uint8_t *bytes = NULL;
    struct call c;
    size_t n = 0;
    enum err e = call_begin(&c, ctx, rpc, WIRE_RUN_PART);

    p = c.message;
    if (!e && c.who.scope[0]) {
        e = errmsg_set(&c.why, ERR_ACCESS,
                       "this certificate is limited to hosts that fit '%s': use one without a "
                       "scope",
                       c.who.scope);
    }
    e = e ? e : put_piece(&c, p, &bytes, &n);
    if (!e && bytes) {
        e = import(&c, &p->id, bytes, n, p->name, &run);
        if (!e) {
            mark_log(&c, "run_import", &run);
        }
    }
    call_end(&c, e, WIRE_RUN_RUN, &run);
    mem_free(bytes);
}

/* -- the service -- */

void lab_service_methods(struct lab_service *s, struct rpc_method methods[LAB_SERVICE_METHODS])
{
    const struct rpc_method all[LAB_SERVICE_METHODS] = {
        {RPC_MARK_RUN_BEGIN, NET_MARK | NET_ADMIN, on_begin, s},
        {RPC_MARK_RUN_END, NET_MARK | NET_ADMIN, on_end, s},
        {RPC_MARK_RUN_PUT, NET_ADMIN, on_put, s},
        {RPC_QUERY_RUNS, NET_QUERY | NET_ADMIN, on_runs, s},
        {RPC_QUERY_RUN_GET, NET_QUERY | NET_ADMIN, on_get, s},
    };

    memcpy(methods, all, sizeof all);
}

/* Recordings tell of a boot that is over. What the host said of its boot is of the newest one: a
 * batch from before it is of another. */
static void boot_note(struct lab_service *s, const struct batch *b, int64_t first_ns,
                      int64_t last_ns)
{
    struct boots_note note = {.host = b->head.host,
                              .boot = b->head.boot,
                              .booted_ns = facts_boot_time(s->facts, &b->head.host),
                              .first_ns = first_ns,
                              .last_ns = last_ns,
                              .good_bye = (b->head.flags & BATCH_LAST) != 0};

    if (b->head.flags & BATCH_REPLAY) {
        return;
    }
    if (note.booted_ns > clk_add(first_ns, BOOT_SKEW_NS)) {
        note.booted_ns = 0;
    }
    boots_stored(s->boots, &note);
}

void lab_service_stored(struct lab_service *s, const struct batch *b, int64_t received_ns)
{
    int64_t first_ns, last_ns;

    batch_time_span(b, received_ns, &first_ns, &last_ns);
    if (b->n_ticks || b->n_events) {
        lab_keeper_stored(s->keeper, &b->head.host, first_ns, last_ns);
    }
    if (b->n_ticks || b->n_events || b->head.flags & BATCH_LAST) {
        boot_note(s, b, first_ns, last_ns);
    }
}

enum err lab_service_boots(struct lab_service *s, const struct uuid *host, int64_t since_ns,
                           int64_t until_ns, query_boot_each each, void *to)
{
    enum err e = boots_flush(s->boots, false);

    return e ? e : boots_each(s->boots, host, since_ns, until_ns, each, to);
}

struct facts_book *lab_service_facts(struct lab_service *s)
{
    return s->facts;
}

static enum err facts_make(struct lab_service *s, struct errmsg *why)
{
    const struct lab_service_conf *conf = &s->conf;
    struct facts_conf facts = {.db = s->db,
                               .n_rules = conf->n_labels,
                               .class_keys = conf->class_keys,
                               .n_class_keys = conf->n_class_keys};
    size_t bad = 0;
    enum err e = facts_rules_read(&s->rules, conf->labels, conf->n_labels, &bad);

    if (e == ERR_INVALID) {
        return errmsg_set(why, e,
                          "lab.labels: '%s' is not HOST KEY=VALUE: a name or a pattern, a blank, a "
                          "label such as rack=3",
                          conf->labels[bad]);
    }
    facts.rules = s->rules;
    e = e ? e : facts_open(&s->facts, &facts);
    return e == ERR_INVALID
               ? errmsg_set(why, e,
                            "lab.class: each has to be a name of the inventory: os_name, cpu_model")
               : e;
}

struct lab_db *lab_service_db(struct lab_service *s)
{
    return s->db;
}

enum err lab_service_open(struct lab_service **out, const struct lab_service_conf *conf,
                          struct errmsg *why)
{
    struct lab_service *s = mem_zalloc(sizeof *s);
    struct lab_keeper_conf keeper = {.store = conf->store,
                                     .fio = conf->fio,
                                     .data_dir = conf->data_dir,
                                     .age_ns = conf->age_ns,
                                     .max_bytes = conf->max_bytes,
                                     .samples_age_ns = conf->samples_age_ns,
                                     .wait_ns = conf->wait_ns,
                                     .again_ns = conf->again_ns,
                                     .poll_ns = conf->poll_ns,
                                     .notices = conf->notices,
                                     .host_state = conf->host_state,
                                     .is_forgotten = conf->is_forgotten,
                                     .ctx = conf->ctx};
    enum err e = s ? os_mutex_create(&s->lock) : ERR_NOMEM;

    if (!e) {
        s->conf = *conf;
        e = lab_db_open(&s->db, conf->data_dir, NULL, why); /* SQLite has its own way to it */
    }
    e = e ? e : facts_make(s, why);
    e = e ? e : boots_create(&s->boots, s->db);
    if (!e) {
        keeper.db = s->db;
        keeper.facts = s->facts;
        keeper.boots = s->boots;
        e = lab_keeper_start(&s->keeper, &keeper, why);
    }
    if (e) {
        lab_service_close(s);
        return e;
    }
    *out = s;
    return ERR_OK;
}

void lab_service_close(struct lab_service *s)
{
    if (!s) {
        return;
    }
    lab_keeper_stop(s->keeper);
    if (s->facts) {
        err_ignore(facts_flush(s->facts)); /* agents tell it again, else */
    }
    facts_close(s->facts);
    if (s->boots) {
        err_ignore(boots_flush(s->boots, true)); /* short by so much, else */
    }
    boots_destroy(s->boots);
    facts_rules_free(s->rules, s->conf.n_labels);
    lab_db_close(s->db);
    for (size_t i = 0; i < PUTS_MAX; i++) {
        mem_free(s->puts[i].bytes);
    }
    os_mutex_destroy(s->lock);
    mem_free(s);
}
