#include "collector/query/query.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/query/query_extract.h"
#include "collector/query/query_impl.h"
#include "collector/query/query_where.h"
#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/base/glob.h"
#include "common/model/ledger.h"
#include "common/os/os.h"
#include "common/os/uuid.h"

/* Reply bytes kept free for hosts, notes and the envelope. */
#define REPLY_ROOM   ((size_t)QUERY_REPLY_MAX - (512u << 10))
#define ROW_OVERHEAD 160u

#define KNOWN_NS (600 * CLK_S) /* answers name processes that lived so long before the window */

/* -- cursor: the sort key of the last row of the previous page -- */

static enum err cursor_read(struct query *q)
{
    struct cur c = cur_make(q->ask->cursor.p, q->ask->cursor.n);
    struct query_cursor key = {.set = true};
    const uint8_t *bytes;
    size_t n;

    if (!q->ask->cursor.n) {
        return ERR_OK;
    }
    if (cur_u8(&c) != (uint8_t)q->kind) {
        c.bad = true;
    }
    key.when_ns = (int64_t)cur_u64le(&c);
    key.a = cur_u64le(&c);
    key.b = cur_u64le(&c);
    key.c = cur_u32le(&c);
    bytes = cur_bytes(&c, sizeof key.host.b);
    if (bytes) {
        memcpy(key.host.b, bytes, sizeof key.host.b);
    }
    n = cur_left(&c);
    bytes = cur_bytes(&c, n);
    if (c.bad || n >= sizeof key.name) {
        return errmsg_set(q->why, ERR_INVALID, "the cursor is not one of this method's");
    }
    memcpy(key.name, bytes, n);
    q->cursor = key;
    return ERR_OK;
}

static void cursor_put(uint8_t **p, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        *(*p)++ = (uint8_t)(v >> 8 * i);
    }
}

void query_more(struct query *q, const struct query_cursor *key)
{
    uint8_t *p = q->out->cursor;
    size_t n = strlen(key->name);

    *p++ = (uint8_t)q->kind;
    cursor_put(&p, (uint64_t)key->when_ns, 8);
    cursor_put(&p, key->a, 8);
    cursor_put(&p, key->b, 8);
    cursor_put(&p, key->c, 4);
    memcpy(p, key->host.b, sizeof key->host.b);
    p += sizeof key->host.b;
    memcpy(p, key->name, n);
    p += n;
    assert(p <= q->out->cursor + sizeof q->out->cursor);
    q->out->cursor_n = (uint8_t)(p - q->out->cursor);
    q->out->more = true;
}

void query_key_host(struct query_cursor *key, const struct query_span *s)
{
    size_t n = strlen(s->about->name);

    n = n < sizeof key->name ? n : sizeof key->name - 1;
    memcpy(key->name, s->about->name, n);
    key->name[n] = 0;
    key->host = s->about->id;
    key->set = true;
}

int query_host_order(const char *name_a, const struct uuid *a, const char *name_b,
                     const struct uuid *b)
{
    int d = strcmp(name_a, name_b);

    return d ? d : memcmp(a->b, b->b, sizeof a->b);
}

size_t query_first_span(const struct query *q)
{
    size_t i = 0;

    if (!q->cursor.set) {
        return 0;
    }
    while (i < q->n_spans && query_host_order(q->spans[i].about->name, &q->spans[i].about->id,
                                              q->cursor.name, &q->cursor.host) < 0) {
        i++;
    }
    return i;
}

bool query_is_cursor_host(const struct query *q, const struct query_span *s)
{
    return q->cursor.set &&
           query_host_order(s->about->name, &s->about->id, q->cursor.name, &q->cursor.host) == 0;
}

/* -- hosts and windows -- */

/* What the question calls a host: an id, a pattern or a name. */
struct wanted {
    struct str text;
    bool is_id;
    bool found; /* there is such a host */
    struct uuid id;
};

static struct wanted wanted_make(struct str text)
{
    struct wanted w = {.text = text};
    char copy[UUID_TEXT];

    if (text.n == UUID_TEXT - 1) {
        memcpy(copy, text.p, text.n);
        copy[text.n] = 0;
        w.is_id = uuid_parse(&w.id, copy) == ERR_OK;
    }
    return w;
}

static bool host_is_forgotten(const struct query_env *env, const struct store_host *h)
{
    return env->is_forgotten && env->is_forgotten(env->ctx, &h->id);
}

static bool host_in_scope(const struct query_env *env, const struct store_host *h)
{
    return !env->scope || !env->scope[0] || glob_match(str_make(env->scope), str_make(h->name));
}

static bool host_fits(const struct query *q, const struct wanted *w, const struct store_host *h)
{
    bool named = w->is_id || (w->text.n && !glob_is_pattern(w->text));

    if (!q->ask->forgotten && !named && host_is_forgotten(q->env, h)) {
        return false;
    }
    if (!w->text.n) {
        return true;
    }
    return w->is_id ? memcmp(w->id.b, h->id.b, sizeof w->id.b) == 0
                    : glob_match(w->text, str_make(h->name));
}

/* One of the names fits; which of them have a host is noted. */
static bool host_is_selected(const struct query *q, struct wanted *w, size_t n,
                             const struct store_host *h)
{
    bool selected = false;

    for (size_t i = 0; i < n && host_in_scope(q->env, h); i++) {
        if (host_fits(q, &w[i], h)) {
            w[i].found = selected = true;
        }
    }
    return selected;
}

/* Of each key that is asked for one of the globs fits. */
static bool host_has_labels(struct query *q, const struct query_span *s)
{
    const struct wire_query *ask = q->ask;
    const struct facts *f = ask->n_labels ? query_facts(q, s) : NULL;

    for (size_t i = 0; i < ask->n_labels; i++) {
        struct str key = ask->labels[i].key;
        struct str value = f ? inventory_label(f, key) : (struct str){NULL, 0};
        bool fits = false;

        for (size_t k = 0; k < ask->n_labels && value.p; k++) {
            fits = fits ||
                   (str_eq(ask->labels[k].key, key) && glob_match(ask->labels[k].value, value));
        }
        if (!fits) {
            return false;
        }
    }
    return true;
}

/* One of those that the question names by their ids, if it does. */
static bool host_is_listed(struct str ids, const struct uuid *id)
{
    for (size_t i = 0; i + sizeof id->b <= ids.n; i += sizeof id->b) {
        if (memcmp(ids.p + i, id->b, sizeof id->b) == 0) {
            return true;
        }
    }
    return ids.n == 0;
}

uint32_t query_count_hosts(const struct query_env *env)
{
    uint32_t n = 0;

    for (size_t i = 0; i < store_view_hosts(env->view); i++) {
        const struct store_host *h = store_view_host(env->view, i);

        n += host_in_scope(env, h) && !host_is_forgotten(env, h);
    }
    return n;
}

static void span_window(const struct wire_query *ask, struct query_span *s)
{
    int64_t newest = clk_add(s->about->last_ns, 1);
    int64_t last = ask->last_ns > 0 ? ask->last_ns : QUERY_LAST_NS;

    s->anchored = !ask->since_ns && !ask->until_ns;
    s->until_ns = ask->until_ns ? ask->until_ns : newest;
    s->since_ns = ask->since_ns ? ask->since_ns : clk_add(s->until_ns, -last);
}

void query_known(const struct query *q)
{
    int64_t since = INT64_MAX, until = INT64_MIN;

    for (size_t i = 0; i < q->n_spans; i++) {
        since = q->spans[i].since_ns < since ? q->spans[i].since_ns : since;
        until = q->spans[i].until_ns > until ? q->spans[i].until_ns : until;
    }
    if (since < until) {
        store_info_range(q->env->view, clk_add(since, -KNOWN_NS), until);
    }
}

/* Without memory it is asked host by host. */
void query_expect(const struct query *q, const size_t *spans, size_t n)
{
    struct store_expected *list = n > 1 ? arena_array(&q->out->memory, n, sizeof *list) : NULL;

    for (size_t i = 0; list && i < n; i++) {
        const struct query_span *s = &q->spans[spans ? spans[i] : i];

        list[i] = (struct store_expected){s->host, s->since_ns, s->until_ns};
    }
    store_expect(q->env->view, list, list ? n : 0);
}

struct query_host_state query_host_state_of(const struct query *q, const struct store_host *h)
{
    struct query_host_state state = {0};

    if (q->env->host_state && !q->env->host_state(q->env->ctx, &h->id, &state)) {
        state = (struct query_host_state){0};
    }
    return state;
}

bool query_has_ended(const struct store_host *h, const struct query_host_state *state)
{
    return (h->flags & (BATCH_LAST | BATCH_REPLAY)) && !state->connected;
}

/* A recording that said it has ended, or that is not played any more. */
static bool host_is_over(const struct query *q, const struct store_host *h)
{
    return (h->flags & BATCH_REPLAY) &&
           ((h->flags & BATCH_LAST) || !query_host_state_of(q, h).connected);
}

static int run_host_order(const void *id, const void *host)
{
    return memcmp(((const struct uuid *)id)->b, ((const struct query_run_host *)host)->id.b,
                  sizeof(struct uuid));
}

/* The window is the run's, of which the question may want a part. False: it is not of the run. */
static bool span_of_run(const struct query *q, struct query_span *s)
{
    const struct query_run *run = q->env->run;
    const struct query_run_host *h =
        run->n ? bsearch(&s->about->id, run->hosts, run->n, sizeof *h, run_host_order) : NULL;

    if (!h) {
        return false;
    }
    s->anchored = !h->until_ns && !q->ask->until_ns;
    s->since_ns = h->since_ns > q->ask->since_ns ? h->since_ns : q->ask->since_ns;
    s->until_ns = h->until_ns ? h->until_ns : clk_add(s->about->last_ns, 1);
    if (q->ask->until_ns && q->ask->until_ns < s->until_ns) {
        s->until_ns = q->ask->until_ns;
    }
    s->until_ns = s->until_ns > s->since_ns ? s->until_ns : clk_add(s->since_ns, 1);
    return true;
}

/* Of a run of one process tree only what belongs to it is asked for. */
static enum err family_find(struct query *q)
{
    const struct query_run *run = q->env->run;

    enum err e;

    if (!run || !run->has_root || q->n_spans != 1) {
        return ERR_OK;
    }
    e = query_tree_family(q, &q->spans[0], &q->family, &q->n_family);
    if (!e && !q->n_family) {
        q->family = NULL;
        query_remark(q, QNOTE_ROOTLESS, &q->spans[0], "pid %u", (unsigned)run->root.pid);
    }
    return e;
}

const struct facts *query_facts(struct query *q, const struct query_span *s)
{
    struct query_span *own = (struct query_span *)s;

    if (!s->asked) {
        own->asked = true;
        own->facts = q->env->facts ? q->env->facts(q->env->ctx, &s->about->id, s->about->name,
                                                   &q->out->memory)
                                   : NULL;
    }
    return s->facts;
}

/* What the question calls its hosts: without a name all of them. */
static size_t wanted_list(const struct wire_query *ask, struct wanted *w)
{
    size_t n = 0;

    if (ask->host.n || !ask->n_hosts) {
        w[n++] = wanted_make(ask->host);
    }
    for (size_t i = 0; i < ask->n_hosts && i < WIRE_HOSTS_MAX; i++) {
        w[n++] = wanted_make(ask->hosts[i]);
    }
    return n;
}

static enum err spans_make(struct query *q)
{
    struct wanted w[WIRE_HOSTS_MAX + 1];
    size_t n_wanted = wanted_list(q->ask, w);
    size_t n = store_view_hosts(q->env->view);

    /* one more: notices of rules that are of no single host */
    q->spans = arena_array(&q->out->memory, n + 1, sizeof *q->spans);
    q->covers = arena_array(&q->out->memory, n + 1, sizeof *q->covers);
    q->hosts = arena_array(&q->out->memory, n + 1, sizeof *q->hosts);
    if (!q->spans || !q->covers || !q->hosts) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        const struct store_host *h = store_view_host(q->env->view, i);

        if (host_is_listed(q->ask->ids, &h->id) && host_is_selected(q, w, n_wanted, h)) {
            struct query_span *s = &q->spans[q->n_spans];

            *s = (struct query_span){.host = i, .about = h, .answer = QUERY_NO_HOST};
            if (q->env->run && !span_of_run(q, s)) {
                continue;
            }
            if (!q->env->run) {
                span_window(q->ask, s);
            }
            if (!host_has_labels(q, s) || !query_where_host(q, s)) {
                continue;
            }
            s->over = host_is_over(q, h);
            q->expected += !s->over;
            q->n_spans++;
        }
    }
    for (size_t i = 0; i < n_wanted; i++) {
        if (w[i].text.n && !w[i].found) {
            q->absent[q->n_absent++] = w[i].text;
        }
    }
    query_known(q);
    query_expect(q, NULL, q->n_spans);
    return family_find(q);
}

/* -- the question -- */

/* False: there is no room. */
static bool metric_add(struct query *q, uint8_t id)
{
    struct wire_answer *a = &q->out->data;

    if (memchr(a->metrics, id, a->n_metrics)) {
        return true;
    }
    if (a->n_metrics == WIRE_METRICS_MAX) {
        return false;
    }
    a->metrics[a->n_metrics++] = id;
    return true;
}

/* Whether rows are ranked or chosen by the first metric. */
static bool metrics_decide(const struct query *q)
{
    return q->kind == QUERY_TOP || q->kind == QUERY_SERIES || q->kind == QUERY_OUTLIERS;
}

/* The first decides; those that the filter asks about follow it, then the others. What a later
 * release has and this one does not know is left out: the answer names those that it has. */
static enum err metrics_check(struct query *q, const uint8_t *def_metrics, uint8_t n_def)
{
    const uint8_t *ids = q->ask->n_metrics ? q->ask->metrics : def_metrics;
    uint8_t n = q->ask->n_metrics ? q->ask->n_metrics : n_def, n_known = 0;

    for (uint8_t i = 0; i < n; i++) {
        const struct metric *m = metric_by_id(ids[i]);

        if (!m && (i > 0 || !metrics_decide(q))) {
            continue;
        }
        if (!m || !(m->column || m->id == M_CPU_PERCENT)) {
            return errmsg_set(q->why, ERR_INVALID, "metric %u (%s) has no values over time", ids[i],
                              m ? m->name : "unknown to this collector");
        }
        if (!metric_add(q, ids[i])) {
            return errmsg_set(q->why, ERR_INVALID, "at most %u metrics", WIRE_METRICS_MAX);
        }
        for (unsigned k = 0; n_known == 0 && query_where_metric(q, k); k++) {
            (void)metric_add(q, query_where_metric(q, k)); /* room: 64 nodes have fewer fields */
        }
        n_known++;
    }
    if (n > 0 && n_known == 0) {
        return errmsg_set(q->why, ERR_INVALID, "this collector knows none of these metrics");
    }
    return ERR_OK;
}

enum err query_plan(struct query *q, const uint8_t *def_metrics, uint8_t n_def, uint32_t def_limit)
{
    const struct wire_query *ask = q->ask;
    enum err e;

    if (ask->n_metrics > WIRE_METRICS_MAX || ask->last_ns < 0 || ask->step_ns < 0) {
        return errmsg_set(q->why, ERR_INVALID, "a count or a span of the question is out of range");
    }
    if (ask->since_ns && ask->until_ns && ask->since_ns >= ask->until_ns) {
        return errmsg_set(q->why, ERR_INVALID, "the window is empty: it ends before it begins");
    }
    q->limit = ask->limit ? ask->limit : def_limit;
    q->limit = q->limit < WIRE_ROWS_MAX ? q->limit : WIRE_ROWS_MAX;
    for (size_t i = 0; i < q->ask->n_class; i++) {
        q->class_keys[i] = host_class_key(q->ask->class_keys[i]);
        if (!q->class_keys[i]) {
            return errmsg_set(q->why, ERR_INVALID, "class: '%.*s' is no name of the inventory",
                              (int)(q->ask->class_keys[i].n < 40 ? q->ask->class_keys[i].n : 40),
                              q->ask->class_keys[i].p);
        }
    }
    e = query_where_make(q, n_def > 0);
    e = e ? e : metrics_check(q, def_metrics, n_def);
    if (e) {
        return e;
    }
    e = cursor_read(q);
    if (e) {
        return e;
    }
    return spans_make(q);
}

bool query_wants_id(const struct query *q, struct proc_id id)
{
    if (q->family && !query_extract_has(q->family, q->n_family, id)) {
        return false;
    }
    if (id.pid == 0 && !q->ask->idle && !(q->ask->has_pid && q->ask->pid == 0)) {
        return false;
    }
    if (q->ask->has_pid && id.pid != q->ask->pid) {
        return false;
    }
    return !q->ask->has_pid || !q->ask->start || id.start == q->ask->start;
}

bool query_wants(const struct query *q, struct proc_id id, const struct proc_info *info)
{
    if (!query_wants_id(q, id)) {
        return false;
    }
    /* Of whom nothing is known but figures has an empty name: "*" shows it. */
    return q->ask->name.n == 0 || glob_match(q->ask->name, info ? info->name : str_make(""));
}

bool query_wants_folded(const struct query *q, struct str name)
{
    return !q->family && !q->ask->has_pid &&
           (q->ask->name.n == 0 || glob_match(q->ask->name, name));
}

/* -- remarks -- */

void query_remark(struct query *q, enum query_note kind, const struct query_span *s,
                  const char *fmt, ...)
{
    struct query_remark *r = &q->remarks[kind];
    char detail[192];
    int n;
    va_list ap;

    if (q->quiet) {
        return;
    }
    r->hosts++;
    if (r->hosts > QUERY_REMARK_HOSTS) {
        return;
    }
    va_start(ap, fmt);
    (void)vsnprintf(detail, sizeof detail, fmt, ap);
    va_end(ap);
    n = snprintf(r->who + r->n, sizeof r->who - r->n, "%s%.63s%s%s%s", r->n ? ", " : "",
                 s->about->name, detail[0] ? " (" : "", detail, detail[0] ? ")" : "");
    if (n < 0 || (size_t)n >= sizeof r->who - r->n) {
        r->who[r->n] = 0; /* no room for the whole: leave it out */
        return;
    }
    r->n += (size_t)n;
}

/* A recording that was killed half-way. */
static bool query_broke_off(const struct query_span *s)
{
    return s->over && !(s->about->flags & BATCH_LAST);
}

bool query_is_believed(const struct store_host *h)
{
    return ledger_is_believed(h->lost_events) && ledger_is_believed(h->gaps);
}

void query_remark_replay(struct query *q, const struct query_span *s)
{
    const struct store_host *h = s->about;
    char a[CLK_TEXT];

    query_remark(q, QNOTE_REPLAY, s, "%s %s",
                 h->flags & BATCH_LAST ? "ended"
                 : query_broke_off(s)  ? "broke off at"
                                       : "so far up to",
                 query_utc(a, h->last_ns));
}

/* -- size of the answer -- */

bool query_fits(struct query *q, const struct proc_info *info, size_t extra)
{
    size_t n = ROW_OVERHEAD + extra + (size_t)q->out->data.n_metrics * 11;

    if (info) {
        n += info->name.n + info->image.n + info->command_line.n + info->user.n;
    }
    if (q->bytes + n > REPLY_ROOM) {
        return false;
    }
    q->bytes += n;
    return true;
}

struct str query_class(struct query *q, const struct facts *f)
{
    return q->env->host_class && f
               ? q->env->host_class(q->env->ctx, f, q->class_keys[0] ? q->class_keys : NULL,
                                    &q->out->memory)
               : str_make(NULL);
}

/* ListHosts: what the host is known by. Counts all of it as part of the answer. */
static void host_known(struct query *q, const struct query_span *s, struct wire_host *w)
{
    const struct inventory *in;

    w->facts = query_facts(q, s);
    if (!w->facts) {
        return;
    }
    in = &w->facts->inventory;
    w->class = query_class(q, w->facts);
    q->bytes += 2 * ROW_OVERHEAD + w->class.n + w->facts->n_labels * 16;
#define COUNT(name) q->bytes += in->name.n;
    INVENTORY_TEXTS(COUNT)
#undef COUNT
    for (size_t i = 0; i < w->facts->n_labels; i++) {
        q->bytes += w->facts->labels[i].key.n + w->facts->labels[i].value.n;
    }
    q->bytes += in->n_disks + in->n_gpus + in->n_nics ? INVENTORY_MAX : 0;
}

enum err query_host_index(struct query *q, struct query_span *s, uint32_t *index)
{
    const struct store_host *h = s->about;
    struct query_host_state state;
    const struct host_offset *clock = &h->clock; /* of its newest data, */
    struct wire_host *w;

    if (s->answer == QUERY_NO_HOST) {
        assert(q->n_hosts < q->n_spans); /* each span enters its host once */
        state = query_host_state_of(q, h);
        if (state.clock.known) {
            clock = &state.clock; /* unless its agent told since */
        }
        w = &q->hosts[q->n_hosts];
        *w = (struct wire_host){
            .id = h->id,
            .name = str_make(h->name),
            .source = str_make(h->source),
            .boot = h->boot,
            .connected = state.connected,
            .polled = (h->flags & BATCH_POLLED) != 0,
            .replay = (h->flags & BATCH_REPLAY) != 0,
            .ended = query_has_ended(h, &state),
            .forgotten = host_is_forgotten(q->env, h),
            .revoked = state.revoked,
            .cpus = h->cpus,
            .first_ns = h->first_ns,
            .last_ns = h->last_ns,
            .offset_ns = clock->offset_ns,
            .has_offset = clock->known && clock->bounded,
            .offset_error_ns = clock->error_ns,
            .not_after_ns = state.not_after_ns,
            .heard_ns = state.heard_ns,
            .clones = state.clones,
            .batches = h->batches,
            .duplicates = h->duplicates,
            .gaps = h->gaps,
            .lost_events = h->lost_events,
        };
        if (state.clones) {
            query_remark(q, QNOTE_CLONES, s, "%s", "");
        }
        if (q->kind == QUERY_HOSTS && query_broke_off(s)) {
            query_remark_replay(q, s);
        }
        if (q->kind == QUERY_HOSTS && !query_is_believed(h)) {
            query_remark(q, QNOTE_UNBELIEVED, s, "%s", ""); /* others tell of their window */
        }
        w->version.p = arena_dup(&q->out->memory, state.version, sizeof state.version);
        if (!w->version.p) {
            return ERR_NOMEM;
        }
        w->version.n = strnlen(state.version, sizeof state.version);
        q->bytes += ROW_OVERHEAD;
        if (q->kind == QUERY_HOSTS) {
            host_known(q, s, w);
        }
        s->answer = (uint32_t)q->n_hosts++;
    }
    assert(s->answer < q->n_hosts);
    *index = s->answer;
    return ERR_OK;
}

void query_answer_fini(struct query_answer *a)
{
    arena_fini(&a->memory);
    *a = (struct query_answer){0};
}
