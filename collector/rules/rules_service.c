#include "collector/rules/rules_service.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/rules/rules_test.h"
#include "common/base/glob.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/deadline.h"
#include "common/os/os.h"
#include "common/wire/wire_query.h"

#define MEMORY_MAX ((size_t)64 << 20)
#define REPLY_MAX  (4u << 20)
#define ROWS_BYTES (3u << 20)
#define TESTS_MAX  2u
#define WATCH_NS   (120 * CLK_S)
#define DAY_NS     (86400 * CLK_S)
#define SUBJECTS   RULES_SUBJECTS_MAX

struct rules_service {
    struct rules_live_conf conf;
    struct rules_live *live;
    atomic_uint tests;
};

struct call {
    struct rules_service *s;
    struct rpc_call *rpc;
    const struct net_identity *peer;
    const struct wire_query *q;
    struct wire_query *asked; /* the same, where it came by RPC; owned */
    struct errmsg why;
    struct arena memory;
    size_t n_hosts, cap_hosts, n_events, cap_events, n_types, cap_types, n_notes;
    struct wire_host *hosts;
    struct wire_event *events;
    const struct event_type **types;
    struct str notes[4];
    size_t bytes;
    bool more, partial;
    uint64_t next;
};

static enum rpc_code call_code(enum err e)
{
    switch (e) {
    case ERR_INVALID:
    case ERR_RANGE:
    case ERR_CORRUPT:
        return RPC_INVALID_ARGUMENT;
    case ERR_NOTFOUND:
        return RPC_NOT_FOUND;
    case ERR_TIMEOUT:
        return RPC_DEADLINE_EXCEEDED;
    case ERR_FULL:
    case ERR_NOMEM:
    case ERR_BUSY:
        return RPC_RESOURCE_EXHAUSTED;
    default:
        return RPC_INTERNAL;
    }
}

static void call_init(struct call *c, struct rules_service *s, const struct net_identity *peer)
{
    *c = (struct call){.s = s, .peer = peer};
    arena_init(&c->memory, MEMORY_MAX);
}

static enum err call_begin(struct call *c, struct rules_service *s, struct rpc_call *rpc)
{
    size_t n;
    const uint8_t *p = rpc_call_payload(rpc, &n);

    call_init(c, s, rpc_call_peer(rpc));
    c->rpc = rpc;
    if (wire_query_decode(&c->asked, p, n) != ERR_OK) {
        return ERR_CORRUPT;
    }
    c->q = c->asked;
    return ERR_OK;
}

static void call_fini(struct call *c)
{
    mem_free(c->hosts);
    mem_free(c->events);
    mem_free(c->types);
    wire_query_free(c->asked);
    arena_fini(&c->memory);
}

static struct wire_answer call_answer(const struct call *c)
{
    return (struct wire_answer){.n_hosts = c->n_hosts,
                                .hosts = c->hosts,
                                .n_events = c->n_events,
                                .events = c->events,
                                .partial = c->partial,
                                .n_notes = c->n_notes,
                                .notes = c->notes};
}

static void call_end(struct call *c, enum err e)
{
    struct rpc_answer_opt opt = {.more = c->more, .cursor = &c->next, .cursor_n = sizeof c->next};
    const struct wire_answer a = call_answer(c);
    struct buf out;

    buf_init(&out, REPLY_MAX);
    e = e ? e : wire_answer_encode(&out, &a);
    if (e) {
        rpc_fail(c->rpc, call_code(e), e == ERR_BUSY || e == ERR_NOMEM ? 1000 : 0, "%s",
                 c->why.text[0] ? c->why.text : err_text(e));
    } else {
        opt.cursor_n = c->more ? sizeof c->next : 0;
        rpc_answer(c->rpc, out.p, out.n, &opt);
    }
    buf_fini(&out);
    call_fini(c);
}

static void note(struct call *c, const char *text)
{
    char *copy = text[0] && c->n_notes < 4 ? arena_dup(&c->memory, text, strlen(text) + 1) : NULL;

    if (copy) {
        c->notes[c->n_notes++] = str_make(copy);
    }
}

/* -- rows -- */

static bool in_scope(const struct call *c, const char *host)
{
    return !c->peer->scope[0] || glob_match(str_make(c->peer->scope), str_make(host));
}

static bool is_asked(const struct call *c, const char *host, const struct uuid *id)
{
    char text[UUID_TEXT];
    bool any = c->q->host.n == 0 && c->q->n_hosts == 0;

    if (!in_scope(c, host)) {
        return false;
    }
    any = any || (c->q->host.n && (glob_match(c->q->host, str_make(host)) ||
                                   (id && str_eq(c->q->host, str_make(uuid_format(text, id))))));
    for (size_t i = 0; !any && i < c->q->n_hosts; i++) {
        any = glob_match(c->q->hosts[i], str_make(host)) ||
              (id && str_eq(c->q->hosts[i], str_make(uuid_format(text, id))));
    }
    return any;
}

static enum err row_host(struct call *c, const char *name, const struct uuid *id, uint32_t *at)
{
    enum err e;

    for (size_t i = c->n_hosts; i > 0; i--) {
        if (str_eq(c->hosts[i - 1].name, str_make(name))) {
            *at = (uint32_t)(i - 1);
            return ERR_OK;
        }
    }
    e = VEC_ROOM(&c->hosts, &c->cap_hosts, c->n_hosts + 1, WIRE_ROWS_MAX);
    if (!e) {
        char *copy = arena_dup(&c->memory, name, strlen(name) + 1);

        c->hosts[c->n_hosts] = (struct wire_host){.name = str_make(copy)};
        if (id) {
            c->hosts[c->n_hosts].id = *id;
        }
        *at = (uint32_t)c->n_hosts++;
        e = copy ? ERR_OK : ERR_FULL;
    }
    return e;
}

static const struct event_type *row_type(struct call *c, const struct event_type *type)
{
    void *room;

    for (size_t i = 0; i < c->n_types; i++) {
        if (event_values_same_type(c->types[i], type)) {
            return c->types[i];
        }
    }
    room = arena_alloc(&c->memory, event_values_type_bytes(type));
    if (!room || VEC_ROOM(&c->types, &c->cap_types, c->n_types + 1, WIRE_ROWS_MAX)) {
        return NULL;
    }
    c->types[c->n_types] = event_values_copy_type(room, type);
    return c->types[c->n_types++];
}

/* ERR_END: the answer is full. */
static enum err row_add(struct call *c, const struct notice *n, const char *host,
                        const struct uuid *id)
{
    struct notice_room room;
    struct wire_event event = {0};
    enum err e;

    notice_event(&event.event, n, &room);
    c->bytes += 64 + event.event.values.n + event.event.text.n;
    if (c->n_events == WIRE_ROWS_MAX || c->n_events == c->q->limit || c->bytes > ROWS_BYTES) {
        return ERR_END;
    }
    e = row_host(c, host, id, &event.host);
    e = e ? e : VEC_ROOM(&c->events, &c->cap_events, c->n_events + 1, WIRE_ROWS_MAX);
    if (e) {
        return e;
    }
    event.event.type = row_type(c, event.event.type);
    event.event.values.p = arena_dup(&c->memory, event.event.values.p, event.event.values.n);
    event.event.text.p =
        arena_dup(&c->memory, event.event.text.p ? event.event.text.p : "", event.event.text.n);
    if (!event.event.type || !event.event.values.p || !event.event.text.p) {
        return ERR_FULL;
    }
    c->events[c->n_events++] = event;
    return ERR_OK;
}

/* -- what each subject is -- */

struct status {
    struct call *c;
    struct rules_runs runs;
    uint64_t from, at;
    enum err e;
    unsigned pass; /* firing, unknown, ok */
};

static unsigned status_rank(const struct rules_subject *s)
{
    return s->state == NOTICE_FIRING                                ? 0
           : s->truth == EXPR_UNKNOWN || s->state == NOTICE_UNKNOWN ? 1
           : s->pending                                             ? 2
                                                                    : 3;
}

static bool status_wants(const struct status *x, const struct rules_subject *s)
{
    const struct wire_query *q = x->c->q;

    return status_rank(s) == x->pass && is_asked(x->c, s->host, s->id) &&
           (q->name.n == 0 || glob_match(q->name, s->rule->name)) &&
           (!(q->rules_ask & WIRE_RULES_FIRING) || x->pass == 0) &&
           (!(q->rules_ask & WIRE_RULES_TOLD) || s->state != NOTICE_OK);
}

static bool status_subject(void *ctx, const struct rules_subject *s)
{
    struct status *x = ctx;
    struct notice n;
    const char *by;

    if (!status_wants(x, s) || x->at++ < x->from) {
        return true;
    }
    x->e = rules_notice_make(&n, s, &x->c->memory);
    if (!x->e) {
        rules_notice_id_text(n.id, s); /* of the notice that told of the state */
        n.step_ns = x->c->q->rules_ask & WIRE_RULES_TOLD ? s->changed_ns : n.step_ns;
        by = s->id ? rules_db_runs_silence(&x->runs, s->id, n.rule, os_utc_ns()) : NULL;
        n.silenced = str_make(by ? by : "");
        if (x->pass == 1) {
            n.state = NOTICE_UNKNOWN;
        } else if (x->pass == 2) {
            n.reason = str_make("true, not for long enough yet");
        }
        x->e = row_add(x->c, &n, s->host, s->id);
    }
    return !x->e;
}

static void status_rows(void *ctx, struct rules_judge *j, const struct rules_conf *rules)
{
    struct status *x = ctx;

    (void)rules;
    for (x->pass = 0; !x->e && x->pass < 4; x->pass++) {
        rules_judge_each(j, status_subject, x);
    }
}

static enum err status_run(struct call *c)
{
    struct status x = {.c = c};
    struct errmsg remark = {""};
    char fault[256], left_out[128] = "";
    struct rules_stats stats;
    bool whole = false;
    enum err e;

    if (c->q->cursor.n == sizeof x.from) {
        memcpy(&x.from, c->q->cursor.p, sizeof x.from);
    }
    e = rules_db_runs(c->s->conf.db, os_utc_ns(), INT64_MAX, &x.runs);
    if (!e) {
        (void)rules_live_with(c->s->live, status_rows, &x, &whole, &remark);
        c->partial = !whole;
        rules_live_fault(c->s->live, fault, sizeof fault);
        rules_live_stats(c->s->live, &stats);
        if (stats.left_out) {
            (void)snprintf(left_out, sizeof left_out,
                           "since the collector's start %" PRIu64 " batches found the queue of the "
                           "rules full and were read from the store instead",
                           stats.left_out);
        }
        note(c, remark.text);
        note(c, left_out);
        note(c, fault);
        e = x.e == ERR_END ? ERR_OK : x.e;
        c->more = x.e == ERR_END;
        c->next = x.from + c->n_events;
    }
    rules_db_runs_free(&x.runs);
    return e;
}

static void on_status(void *ctx, struct rpc_call *rpc)
{
    struct call c;
    enum err e = call_begin(&c, ctx, rpc);

    e = e ? e : status_run(&c);
    call_end(&c, e);
}

enum err rules_service_status(void *s, const struct net_identity *who, const struct wire_query *q,
                              struct query_answer *out)
{
    struct call c;
    enum err e;

    call_init(&c, s, who);
    c.q = q;
    e = status_run(&c);
    *out = (struct query_answer){.data = call_answer(&c), .more = c.more, .memory = c.memory};
    out->data.hosts = arena_dup(&out->memory, c.hosts, c.n_hosts * sizeof *c.hosts);
    out->data.events = arena_dup(&out->memory, c.events, c.n_events * sizeof *c.events);
    out->data.notes = arena_dup(&out->memory, c.notes, sizeof c.notes);
    if (c.more) {
        memcpy(out->cursor, &c.next, sizeof c.next);
        out->cursor_n = sizeof c.next;
    }
    c.memory = (struct arena){0}; /* it is the answer's */
    call_fini(&c);
    return e ? e : out->data.hosts && out->data.events && out->data.notes ? ERR_OK : ERR_NOMEM;
}

/* -- the back-test -- */

static bool test_wants(void *ctx, const struct store_host *h)
{
    const struct call *c = ctx;
    const struct rules_live_conf *conf = &c->s->conf;

    return is_asked(c, h->name, &h->id) &&
           !(conf->is_forgotten && conf->is_forgotten(conf->ctx, &h->id));
}

static const struct facts *test_facts(void *ctx, const struct uuid *host, const char *name,
                                      struct arena *a)
{
    const struct rules_live_conf *conf = &((struct call *)ctx)->s->conf;

    return conf->facts ? conf->facts(conf->ctx, host, name, a) : NULL;
}

static struct str test_class(void *ctx, const struct facts *f, struct arena *a)
{
    const struct rules_live_conf *conf = &((struct call *)ctx)->s->conf;

    return conf->host_class ? conf->host_class(conf->ctx, f, NULL, a) : str_make("");
}

/* How many hosts, processes and subjects each rule watches. */
static enum err watch_rows(struct call *c, const struct rules_test *t,
                           const struct rules_conf *rules)
{
    enum err e = ERR_OK;

    for (size_t i = 0; !e && i < rules_conf_n(rules); i++) {
        const struct rules_rule *r = rules_conf_rule(rules, i);
        const struct notice n = {.id = "00000000000000000000000000000000",
                                 .rule = r->name,
                                 .severity = r->severity,
                                 .of = str_make(rules_conf_of_name(r->of)),
                                 .has_watch = true,
                                 .hosts = t->watch[i].hosts,
                                 .processes = t->watch[i].processes,
                                 .subjects = t->watch[i].subjects};

        e = row_add(c, &n, NOTICE_NO_HOST, NULL);
    }
    if (!e && t->counts.refused) {
        note(c, "there are more subjects than 100,000, or than 64 MiB hold: those beyond are "
                "unknown");
    }
    return e;
}

static enum err test_rows(struct call *c, const struct rules_test *t)
{
    char text[160];
    size_t held = 0;
    enum err e = ERR_OK;

    for (size_t i = 0; !e && i < t->n; i++) {
        const struct rules_change *x = &t->changes[i];

        held += x->held;
        if (!x->held && (c->q->name.n == 0 || glob_match(c->q->name, x->notice.rule))) {
            e = row_add(c, &x->notice, x->host, &x->id);
        }
    }
    if (e == ERR_END || t->more) {
        note(c, "there are more notices than fit an answer: the first are shown");
        e = ERR_OK;
    }
    if (held) {
        (void)snprintf(text, sizeof text, "at_most holds back %zu more", held);
        note(c, text);
    }
    if (!e && t->counts.late_ticks) {
        (void)snprintf(text, sizeof text,
                       "late data: %llu ticks and events came after their step had been judged, "
                       "and count for nothing",
                       (unsigned long long)t->counts.late_ticks);
        note(c, text);
    }
    return e;
}

static enum err test_run(struct call *c, const struct rules_conf *rules)
{
    bool check = (c->q->rules_ask & WIRE_RULES_CHECK) != 0;
    int64_t now_ns = os_utc_ns();
    struct rules_test_conf conf = {.rules = rules,
                                   .db = c->s->conf.db,
                                   .since_ns = check ? now_ns - WATCH_NS : c->q->since_ns,
                                   .until_ns = check || !c->q->until_ns ? now_ns : c->q->until_ns,
                                   .now_ns = now_ns,
                                   .watch = check,
                                   .deadline = rpc_call_deadline(c->rpc),
                                   .wants = test_wants,
                                   .facts = test_facts,
                                   .host_class = test_class,
                                   .ctx = c};
    struct rules_test t = {.n = 0};
    struct store_view *view;
    enum err e;

    conf.since_ns = conf.since_ns ? conf.since_ns : now_ns - DAY_NS;
    conf.since_ns -= conf.since_ns % RULES_STEP_NS;
    if (conf.since_ns >= conf.until_ns || conf.since_ns < 0) {
        return errmsg_set(&c->why, ERR_INVALID, "the range ends before it begins");
    }
    e = store_view_open(&view, c->s->conf.store);
    if (e) {
        return e;
    }
    conf.view = view;
    e = rules_test_run(&t, &conf);
    e = e ? e : check ? watch_rows(c, &t, rules) : test_rows(c, &t);
    rules_test_fini(&t);
    store_view_close(view);
    return e == ERR_TIMEOUT ? errmsg_set(&c->why, e,
                                         "the time for this answer was not enough: give more with "
                                         "--timeout, or ask for less with --since or --host")
                            : e;
}

/* Of the question, or those in use. */
static enum err test_rules(struct call *c, struct rules_conf **rules)
{
    struct rules_where at;
    struct errmsg why = {""};
    char *text = NULL;
    size_t n = c->q->rules.n;
    enum err e;

    if (!n) {
        text = rules_live_text(c->s->live, &n);
        if (!text) {
            return errmsg_set(&c->why, ERR_NOTFOUND,
                              "the collector has no rules: name a file, or set rules.file");
        }
    }
    e = rules_conf_read(rules, text ? text : c->q->rules.p, n, &at, &why);
    mem_free(text);
    return e ? errmsg_set(&c->why, e, "line %zu, column %zu: %s", at.line, at.column, why.text)
             : ERR_OK;
}

static void on_test(void *ctx, struct rpc_call *rpc)
{
    struct rules_service *s = ctx;
    struct rules_conf *rules = NULL;
    struct call c;
    enum err e = call_begin(&c, s, rpc);

    if (!e && atomic_fetch_add(&s->tests, 1) >= TESTS_MAX) {
        e = errmsg_set(&c.why, ERR_BUSY, "other back-tests are under way");
    }
    e = e ? e : test_rules(&c, &rules);
    e = e ? e : test_run(&c, rules);
    if (c.q) {
        atomic_fetch_sub(&s->tests, 1);
    }
    rules_conf_free(rules);
    call_end(&c, e);
}

/* -- events -- */

struct notices {
    bool (*each)(void *to, const struct uuid *host, uint64_t n, const struct life_event *ev);
    void *to;
};

static bool notices_give(void *ctx, const struct rules_found *f)
{
    const struct notices *x = ctx;
    struct notice_room room;
    struct life_event ev;

    notice_event(&ev, f->notice, &room);
    return x->each(x->to, &f->id, f->notice->n, &ev);
}

enum err rules_service_notices(struct lab_db *db, int64_t since_ns, int64_t until_ns,
                               query_notice_each each, void *to)
{
    const struct rules_ask ask = {.since_ns = since_ns, .until_ns = until_ns};
    struct notices x = {each, to};

    return rules_db_notices(db, &ask, notices_give, &x);
}

/* -- the service -- */

enum err rules_service_open(struct rules_service **out, const struct rules_live_conf *conf)
{
    struct rules_service *s = mem_zalloc(sizeof *s);
    enum err e = s ? rules_live_start(&s->live, conf) : ERR_NOMEM;

    if (e) {
        mem_free(s);
        return e;
    }
    s->conf = *conf;
    *out = s;
    return ERR_OK;
}

void rules_service_close(struct rules_service *s)
{
    if (s) {
        rules_live_stop(s->live);
        mem_free(s);
    }
}

struct rules_live *rules_service_live(const struct rules_service *s)
{
    return s ? s->live : NULL;
}

void rules_service_methods(struct rules_service *s,
                           struct rpc_method methods[RULES_SERVICE_METHODS])
{
    methods[0] =
        (struct rpc_method){RPC_QUERY_RULES, NET_QUERY | NET_SUBSCRIBE | NET_ADMIN, on_status, s};
    methods[1] = (struct rpc_method){RPC_QUERY_RULES_TEST, NET_QUERY | NET_ADMIN, on_test, s};
}
