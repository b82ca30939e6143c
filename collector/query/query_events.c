/* Events: lifecycle events of all selected hosts in time order, what agents tell of themselves
 * included.
 *
 * Every host is scanned once; a bounded heap whose root is the latest event keeps the earliest ones
 * behind the cursor, no more of them than a page has rows nor more text than it has bytes, so that
 * memory depends on the page and not on the window. Time is by the
 * collector's clock: the event's stamp plus the offset that the store keeps with its batch, which
 * never changes, so that the order is the same for every page. The key of an event, (time, host,
 * stream, sequence, place in its batch), is unique, and a page begins right behind the last key of
 * the one before. What an event itself does not tell (a stop rarely repeats the command line) is
 * filled in from what is known of the process, of those on the page; only its name is looked for
 * earlier, where it decides. */
#include "collector/query/query_impl.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "collector/query/query_scan.h"
#include "collector/query/query_where.h"
#include "common/base/buf.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/model/event_values.h"
#include "common/text/field.h"

#define TEXTS   6
#define NOTE_NS CLK_S /* clocks that differ less need no remark */
/* Sealed windows have events of providers elsewhere: either sort is counted by itself, so that an
 * event's place stays what it is. */
#define PROVIDER_PLACE 0x80000000u
#define ASK_AT_ONCE    256u /* what is known of so many events' processes is looked for together */

struct kept {
    size_t span;
    uint64_t stream, seq;
    uint32_t at;     /* in the batch */
    int64_t when_ns; /* by the collector's clock */
    struct uuid boot;
    struct life_event event;
    size_t text_n; /* bytes of both: */
    char *text;    /* the event's texts and values; owned */
    void *type;    /* its type; owned, NULL: it has none */
};

struct events {
    bool several; /* the last span is that of notices of no single host */
    enum err e;   /* of a notice */
    struct query *q;
    size_t span;
    size_t n, cap;
    struct kept *heap;
    size_t text_n; /* of all in the heap */
    bool overflow; /* more events than fit */
    const struct batch *batch;
    struct host_offset most; /* the largest offset of the span's batches */
    uint32_t kinds;
    const struct event_type **types; /* of the answer's events */
    size_t n_types;
};

/* Order of two keys: time, host, stream, sequence, place. */
static int kept_order(const struct events *x, const struct kept *a, const struct kept *b)
{
    if (a->when_ns != b->when_ns) {
        return a->when_ns < b->when_ns ? -1 : 1;
    }
    if (a->span != b->span) {
        const struct store_host *h = x->q->spans[a->span].about;
        const struct store_host *g = x->q->spans[b->span].about;

        return query_host_order(h->name, &h->id, g->name, &g->id);
    }
    if (a->stream != b->stream) {
        return a->stream < b->stream ? -1 : 1;
    }
    if (a->seq != b->seq) {
        return a->seq < b->seq ? -1 : 1;
    }
    return a->at < b->at ? -1 : a->at > b->at;
}

static bool kept_is_behind(const struct events *x, const struct kept *k)
{
    const struct query_cursor *c = &x->q->cursor;
    const struct store_host *h = x->q->spans[k->span].about;
    int d;

    if (!c->set || k->when_ns != c->when_ns) {
        return !c->set || k->when_ns > c->when_ns;
    }
    d = query_host_order(h->name, &h->id, c->name, &c->host);
    if (d) {
        return d > 0;
    }
    if (k->stream != c->a) {
        return k->stream > c->a;
    }
    return k->seq != c->b ? k->seq > c->b : k->at > c->c;
}

static void text_list(struct life_event *ev, struct str *list[TEXTS])
{
    list[0] = &ev->info.name;
    list[1] = &ev->info.image;
    list[2] = &ev->info.command_line;
    list[3] = &ev->info.user;
    list[4] = &ev->text;
    list[5] = &ev->values;
}

static void kept_free(struct kept *k)
{
    mem_free(k->text);
    mem_free(k->type);
}

/* Moves the event's texts, the batch's until now, into memory of its own. */
static enum err texts_keep(struct kept *k)
{
    struct str *list[TEXTS];
    size_t n = 0;
    char *p;

    text_list(&k->event, list);
    for (unsigned i = 0; i < TEXTS; i++) {
        n += list[i]->n;
    }
    k->text_n = n + (k->event.type ? event_values_type_bytes(k->event.type) : 0);
    k->text = mem_alloc(n);
    k->type = k->event.type ? mem_alloc(event_values_type_bytes(k->event.type)) : NULL;
    if (!k->text || (k->event.type && !k->type)) {
        kept_free(k);
        return ERR_NOMEM;
    }
    if (k->event.type) {
        k->event.type = event_values_copy_type(k->type, k->event.type);
    }
    p = k->text;
    for (unsigned i = 0; i < TEXTS; i++) {
        if (list[i]->n) {
            memcpy(p, list[i]->p, list[i]->n);
        }
        list[i]->p = p;
        p += list[i]->n;
    }
    return ERR_OK;
}

static void kept_sift_up(const struct events *x, size_t i)
{
    while (i > 0 && kept_order(x, &x->heap[(i - 1) / 2], &x->heap[i]) < 0) {
        struct kept t = x->heap[i];

        x->heap[i] = x->heap[(i - 1) / 2];
        x->heap[(i - 1) / 2] = t;
        i = (i - 1) / 2;
    }
}

static void kept_sift_down(const struct events *x)
{
    size_t i = 0;

    for (;;) {
        size_t last = i, l = 2 * i + 1;
        struct kept t;

        if (l < x->n && kept_order(x, &x->heap[last], &x->heap[l]) < 0) {
            last = l;
        }
        if (l + 1 < x->n && kept_order(x, &x->heap[last], &x->heap[l + 1]) < 0) {
            last = l + 1;
        }
        if (last == i) {
            return;
        }
        t = x->heap[i];
        x->heap[i] = x->heap[last];
        x->heap[last] = t;
        i = last;
    }
}

/* The latest gives way. */
static void kept_drop_root(struct events *x)
{
    assert(x->n > 0 && x->text_n >= x->heap[0].text_n);
    x->text_n -= x->heap[0].text_n;
    kept_free(&x->heap[0]);
    x->heap[0] = x->heap[--x->n];
    kept_sift_down(x);
    x->overflow = true;
}

static enum err kept_add(struct events *x, struct kept *k)
{
    enum err e;

    if (x->n && (x->n == x->cap || x->text_n >= QUERY_REPLY_MAX) &&
        kept_order(x, k, &x->heap[0]) > 0) {
        x->overflow = true;
        return ERR_OK;
    }
    e = texts_keep(k);
    if (e) {
        return e;
    }
    if (x->n == x->cap) {
        kept_drop_root(x);
    }
    x->text_n += k->text_n;
    x->heap[x->n++] = *k;
    kept_sift_up(x, x->n - 1);
    while (x->text_n - x->heap[0].text_n >= QUERY_REPLY_MAX) { /* no page has more */
        kept_drop_root(x);
    }
    return ERR_OK;
}

static void fill_str(struct str *to, struct str from)
{
    if (!to->n) {
        *to = from;
    }
}

/* What the event does not tell and the store knows. */
static void event_complete(struct proc_info *to, const struct proc_info *from)
{
    fill_str(&to->name, from->name);
    fill_str(&to->image, from->image);
    fill_str(&to->user, from->user);
    if (!(to->have & INFO_COMMAND_LINE_KNOWN)) {
        to->command_line = from->command_line;
        to->have |= from->have & (INFO_COMMAND_LINE_KNOWN | INFO_COMMAND_LINE_CUT);
    }
    if (!(to->have & INFO_PARENT) && (from->have & INFO_PARENT)) {
        to->parent_pid = from->parent_pid;
        to->parent_start = from->parent_start;
        to->have |= INFO_PARENT;
    }
    if (!(to->have & INFO_SESSION) && (from->have & INFO_SESSION)) {
        to->session_id = from->session_id;
        to->have |= INFO_SESSION;
    }
    if (!(to->have & INFO_CREATE_TIME) && (from->have & INFO_CREATE_TIME)) {
        to->create_ns = from->create_ns;
        to->have |= INFO_CREATE_TIME;
    }
}

/* Whether it is of a process that may be shown, or of the host when no process was asked for. */
static bool wants_event(struct events *x, const struct life_event *ev)
{
    const struct wire_query *ask = x->q->ask;
    const struct query_span *s = &x->q->spans[x->span];
    struct proc_info info = ev->info, known;

    if (life_is_of_host(ev->kind)) {
        return !ask->has_pid && ask->name.n == 0;
    }
    if (ev->kind == LIFE_PROVIDER &&
        (!ev->type || !event_values_is(ev->type, ask->events.provider, ask->events.event))) {
        return false; /* one without type is of a collector of before */
    }
    if (ask->name.n && !info.name.n && query_wants_id(x->q, info.id) &&
        store_info_brief(x->q->env->view, s->host, &x->batch->head.boot, info.id, &known)) {
        info.name = known.name;
    }
    if (ev->kind == LIFE_PROVIDER && info.id.pid == 0 && !ask->has_pid) {
        return ask->name.n == 0; /* whoever ran, or nobody: not the idle process's own */
    }
    return query_wants(x->q, info.id, &info);
}

/* By what the event tells of its process and by what is known of it, its end included. */
static bool event_fits(struct events *x, const struct life_event *ev)
{
    const struct query_span *s = &x->q->spans[x->span];
    struct query_where_row row = {.span = s, .event = ev};
    struct proc_info info = ev->info, known;

    if (x->q->where && !life_is_of_host(ev->kind)) {
        if (query_where_process(x->q) &&
            store_info(x->q->env->view, s->host, &x->batch->head.boot, info.id, &known)) {
            event_complete(&info, &known);
            if (!(info.have & INFO_EXITED)) {
                info.have |=
                    known.have & (INFO_EXITED | INFO_EXIT_TIME | INFO_EXIT_CODE | INFO_SIGNALLED);
                info.exit_ns = known.exit_ns;
                info.exit_code = known.exit_code;
            }
        }
        row.info = &info;
    }
    return query_where_fits(x->q, &row);
}

static enum err kept_consider(struct events *x, const struct life_event *ev, uint32_t at)
{
    const struct query_span *s = &x->q->spans[x->span];
    struct kept k = {.span = x->span,
                     .stream = x->batch->head.stream,
                     .seq = x->batch->head.seq,
                     .at = at,
                     .when_ns = clk_add(ev->wall_ns, x->q->clock.known ? x->q->clock.offset_ns : 0),
                     .boot = x->batch->head.boot,
                     .event = *ev};

    if (ev->kind >= 32 || !(x->kinds & 1u << ev->kind) || ev->wall_ns < s->since_ns ||
        ev->wall_ns >= s->until_ns || !kept_is_behind(x, &k)) {
        return ERR_OK;
    }
    return wants_event(x, &k.event) && event_fits(x, &k.event) ? kept_add(x, &k) : ERR_OK;
}

static int64_t event_size(int64_t ns)
{
    return ns < 0 ? clk_sub(0, ns) : ns;
}

/* Says whose events stand elsewhere than their stamps would have it, and how sure that is. */
static void events_note_clock(struct events *x, const struct query_span *s)
{
    struct buf b;

    if (x->q->n_spans < 2 || event_size(x->most.offset_ns) < NOTE_NS) {
        return;
    }
    buf_init(&b, 128);
    buf_printf(&b, "stamps up to %.3f s %s", (double)event_size(x->most.offset_ns) / 1e9,
               x->most.offset_ns < 0 ? "ahead" : "behind");
    if (x->most.bounded) {
        buf_printf(&b, ", give or take %.3f s", (double)x->most.error_ns / 1e9);
    }
    query_remark(x->q, QNOTE_CLOCK, s, "%s", buf_cstr(&b));
    buf_fini(&b);
}

static enum err block_take(void *ctx, const struct store_block *block)
{
    const struct batch *b = block->batch;
    uint32_t n_providers = 0, n_others = 0;
    struct events *x = ctx;
    enum err e = ERR_OK;

    x->batch = b;
    if (x->q->clock.known && event_size(x->q->clock.offset_ns) >= event_size(x->most.offset_ns)) {
        x->most = x->q->clock;
    }
    for (size_t i = 0; !e && i < b->n_events; i++) {
        bool provider = b->events[i].kind == LIFE_PROVIDER;
        uint32_t at = provider ? PROVIDER_PLACE | n_providers++ : n_others++;

        e = kept_consider(x, &b->events[i], at);
    }
    return e;
}

/* Heap sort in place: the root, the latest, goes to the end. */
static void kept_sort(struct events *x)
{
    size_t n = x->n;

    while (x->n > 1) {
        struct kept t = x->heap[0];

        x->n--;
        x->heap[0] = x->heap[x->n];
        x->heap[x->n] = t;
        kept_sift_down(x);
    }
    x->n = n;
}

static void events_page_end(struct events *x, const struct kept *last)
{
    struct query_cursor key = {
        .when_ns = last->when_ns, .a = last->stream, .b = last->seq, .c = last->at};

    query_key_host(&key, &x->q->spans[last->span]);
    query_more(x->q, &key);
}

/* Has the store look for what it knows of those that come next, host by host. */
static void known_want(const struct events *x, size_t from)
{
    size_t n = x->n - from < ASK_AT_ONCE ? x->n - from : ASK_AT_ONCE;
    const struct kept *list = x->heap + from;
    bool asked[ASK_AT_ONCE] = {false};

    for (size_t i = 0; i < n; i++) {
        struct proc_key keys[ASK_AT_ONCE];
        size_t n_keys = 0;

        for (size_t k = i; k < n; k++) {
            if (!asked[k] && list[k].span == list[i].span) {
                asked[k] = true;
                if (!life_is_of_host(list[k].event.kind)) {
                    keys[n_keys++] = (struct proc_key){list[k].event.info.id, list[k].boot};
                }
            }
        }
        store_info_want(x->q->env->view, x->q->spans[list[i].span].host, keys, n_keys);
    }
}

static void known_add(const struct events *x, struct kept *k)
{
    const struct query_span *s = &x->q->spans[k->span];
    struct proc_info known;

    if (!life_is_of_host(k->event.kind) &&
        store_info(x->q->env->view, s->host, &k->boot, k->event.info.id, &known)) {
        event_complete(&k->event.info, &known);
    }
}

/* The answer's own copy of a type, each once; NULL: no memory. */
static const struct event_type *events_type(struct events *x, const struct event_type *type)
{
    void *room;

    for (size_t i = x->n_types; i > 0; i--) {
        if (event_values_same_type(x->types[i - 1], type)) {
            return x->types[i - 1];
        }
    }
    room = arena_alloc(&x->q->out->memory, event_values_type_bytes(type));
    if (!room) {
        return NULL;
    }
    x->types[x->n_types] = event_values_copy_type(room, type);
    return x->types[x->n_types++];
}

/* Who started it, and who started that one, as far as is known. */
static enum err kept_ancestors(const struct events *x, const struct kept *k, struct wire_event *out)
{
    const struct query_span *s = &x->q->spans[k->span];
    struct proc_info *list = arena_array(&x->q->out->memory, WIRE_ANCESTORS, sizeof *list);
    struct proc_info child = k->event.info;

    if (!list) {
        return ERR_FULL;
    }
    while (out->n_ancestors < WIRE_ANCESTORS && (child.have & INFO_PARENT)) {
        struct proc_info *p = &list[out->n_ancestors];
        struct proc_id id = {child.parent_pid, child.parent_start};
        bool later;

        if (id.pid == child.id.pid || !store_info(x->q->env->view, s->host, &k->boot, id, p)) {
            break;
        }
        later = (p->have & INFO_CREATE_TIME) && (child.have & INFO_CREATE_TIME) &&
                p->create_ns > child.create_ns;
        if (later || !query_fits(x->q, p, 0)) {
            break; /* another one has the number now */
        }
        child = *p;
        out->n_ancestors++;
    }
    out->ancestors = list;
    return ERR_OK;
}

static enum err kept_row(struct events *x, const struct kept *k, struct wire_event *out)
{
    struct query *q = x->q;
    struct str *list[TEXTS];

    out->event = k->event;
    text_list(&out->event, list);
    for (unsigned i = 0; i < TEXTS; i++) {
        list[i]->p = arena_dup(&q->out->memory, list[i]->p, list[i]->n);
        if (!list[i]->p) {
            return ERR_FULL;
        }
    }
    q->out->data.n_events++;
    if (out->event.type) {
        out->event.type = events_type(x, out->event.type);
        if (!out->event.type) {
            return ERR_FULL;
        }
    }
    if (q->ask->ancestors && !life_is_of_host(k->event.kind) && kept_ancestors(x, k, out)) {
        return ERR_FULL;
    }
    return query_host_index(q, &q->spans[k->span], &out->host);
}

static size_t kept_values_bytes(const struct kept *k)
{
    return k->event.type ? k->event.values.n + event_values_type_bytes(k->event.type) : 0;
}

static enum err events_rows(struct events *x)
{
    struct query *q = x->q;
    struct wire_event *out = arena_array(&q->out->memory, x->n, sizeof *out);
    enum err e = ERR_OK;

    x->types = arena_array(&q->out->memory, x->n, sizeof *x->types);
    if (!out || !x->types) {
        return ERR_FULL;
    }
    kept_sort(x);
    for (size_t i = 0; !e && i < x->n; i++) {
        struct kept *k = &x->heap[i];

        if (i % ASK_AT_ONCE == 0) {
            known_want(x, i);
        }
        known_add(x, k);
        if (i && !query_fits(q, &k->event.info, k->event.text.n + kept_values_bytes(k))) {
            events_page_end(x, &x->heap[i - 1]);
            break;
        }
        e = kept_row(x, k, &out[i]);
    }
    if (!e && x->overflow && !q->out->more) {
        events_page_end(x, &x->heap[x->n - 1]);
    }
    q->out->data.events = out;
    return e;
}

/* -- notices of rules -- */

/* A window that ends with a host's newest data ends now: that there are none may be the news. */
static int64_t notices_until(const struct query *q, int64_t until_ns)
{
    return q->env->run || q->ask->until_ns ? until_ns : INT64_MAX;
}

static bool notice_take(void *to, const struct uuid *host, uint64_t n, const struct life_event *ev)
{
    static const struct store_host several = {.name = "*"};
    struct events *x = to;
    struct query *q = x->q;
    const struct batch as = {.head = {.seq = n}};

    x->span = 0;
    while (x->span < q->n_spans &&
           memcmp(q->spans[x->span].about->id.b, host->b, sizeof host->b) != 0) {
        x->span++;
    }
    if (x->span == q->n_spans && memcmp(several.id.b, host->b, sizeof host->b) == 0 &&
        !(q->env->scope && q->env->scope[0]) && !q->ask->host.n && !q->ask->n_hosts) {
        q->spans[q->n_spans++] = (struct query_span){.about = &several,
                                                     .since_ns = INT64_MIN,
                                                     .until_ns = INT64_MAX,
                                                     .answer = QUERY_NO_HOST};
        x->several = true;
    }
    if (x->span < q->n_spans) {
        struct query_span *s = &q->spans[x->span];
        int64_t until_ns = s->until_ns;

        s->until_ns = notices_until(q, until_ns);
        x->batch = &as;
        x->e = kept_consider(x, ev, 0);
        x->batch = NULL;
        s->until_ns = until_ns;
    }
    return !x->e;
}

static enum err events_notices(struct events *x)
{
    struct query *q = x->q;
    int64_t since_ns = INT64_MAX, until_ns = INT64_MIN;
    enum err e;

    for (size_t i = 0; i < q->n_spans; i++) {
        since_ns = q->spans[i].since_ns < since_ns ? q->spans[i].since_ns : since_ns;
        until_ns = q->spans[i].until_ns > until_ns ? q->spans[i].until_ns : until_ns;
    }
    q->clock = (struct host_offset){0}; /* their stamps are ours */
    until_ns = notices_until(q, until_ns);
    e = q->env->notices && since_ns < until_ns
            ? q->env->notices(q->env->ctx, since_ns, until_ns, notice_take, x)
            : ERR_OK;
    return e ? e : x->e;
}

enum err query_events(struct query *q)
{
    struct events x = {.q = q};
    enum err e = query_plan(q, NULL, 0, WIRE_ROWS_MAX);

    if (e) {
        return e;
    }
    x.kinds = wire_events_named(&q->ask->events) ? 1u << LIFE_PROVIDER
              : q->ask->kinds                    ? q->ask->kinds
                                                 : LIFE_KINDS_DEFAULT;
    x.cap = q->limit;
    x.heap = arena_array(&q->out->memory, x.cap, sizeof *x.heap);
    if (!x.heap) {
        return ERR_NOMEM;
    }
    for (x.span = 0; !e && x.span < q->n_spans; x.span++) {
        const struct query_span *s = &q->spans[x.span];

        const struct store_range range = {.since_ns = s->since_ns,
                                          .until_ns = s->until_ns,
                                          .no_rests = x.kinds == 1u << LIFE_PROVIDER,
                                          .providers = (x.kinds & 1u << LIFE_PROVIDER) != 0,
                                          .made_since_ns =
                                              q->cursor.set ? q->cursor.when_ns : INT64_MIN};

        x.most = (struct host_offset){0};
        e = query_scan_blocks(q, s, &range, block_take, &x);
        events_note_clock(&x, s);
    }
    if (!e && (x.kinds & 1u << LIFE_RULE)) {
        e = events_notices(&x);
    }
    if (!e) {
        e = events_rows(&x);
    }
    q->n_spans -= x.several;
    for (size_t i = 0; i < x.n; i++) {
        kept_free(&x.heap[i]);
    }
    return e;
}
