/* Events or samples as they arrive: from the live stream, or from a durable subscription. */
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "collector/cli/cli_client.h"
#include "collector/cli/fields.h"
#include "collector/cli/tail_cursor.h"
#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/base/glob.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/expr/expr_event.h"
#include "common/model/event_values.h"
#include "common/os/os.h"
#include "common/wire/wire_feed.h"

#define REPLY_MAX (4u << 20)

static const struct opt opts[] = {
    {"samples", 0, NULL, "the newest samples instead of events", 0},
    {"kind", 'k', "KIND,...", "as for 'procfleet events' (process,level,source)", 1},
    CLI_OPTS_PROVIDER,
    CLI_OPT_HOST,
    CLI_OPTS_PROCESS,
    {"limit", 'n', "N", "end after so many lines (never)", 0},
    {"for", 0, "SPAN", "end after so long (never)", 0},
    {"durable", 0, "NAME", "from a subscription that the collector keeps: goes on where it was", 0},
    {"from-oldest", 0, NULL, "a new durable subscription begins with the oldest event kept", 0},
    {"events", 0, "HOST[:PORT]",
     "event stream to follow (PROCFLEET_EVENTS; port 7422 of the collector's host)", 0},
    CLI_OPTS_CONNECTION,
    OPT_FORMER("samples", 's', NULL, false),
};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "tail",
    .brief = "follows events, or samples, as they arrive",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .sets = fields_sets,
    .examples =
        "  procfleet tail\n"
        "  procfleet tail --host 'lab-*' --name 'powershell*'\n"
        "  procfleet tail --samples --format json -n 1000\n"
        "  procfleet tail --durable audit --from-oldest --format json >> audit.jsonl\n"
        "  procfleet tail --provider 'Microsoft-Windows-DNS-*' --event 3008\n"
        "\n"
        "With a certificate of role subscribe and no scope it follows the live stream; with "
        "another of role\n"
        "subscribe, query or admin it asks the query port for what that may see, unless "
        "--events is given.\n"
        "--durable takes role subscribe or admin.\n"
        "JSON is one object a line. What was missed is asked for again; exit code 5 when "
        "it did not come.\n",
};

#define TAIL_TOPIC_MAX (8u + MODEL_HOST_NAME_MAX)

struct tail_topic;

struct tail {
    struct cli *c;
    struct table *sheet;
    struct fields fields;
    struct wire_query q; /* the filters */
    struct expr_event where;
    bool samples;
    uint64_t left;  /* lines */
    uint64_t lines; /* printed */
    int64_t end_ns; /* monotonic; 0 = never */
    const atomic_bool *stop;

    /* the live stream */
    int64_t begun_ns; /* UTC */
    struct tail_topic *topics;
    struct cli_client *link; /* for what was missed; NULL until then */
    bool no_link;            /* it could not be made */
    uint64_t missed;         /* messages that stayed missing */
    bool away;               /* the connection is lost at the moment */
    bool was_away;           /* or was */
};

/* -- what is wanted, and its lines -- */

/* Told to stop, or out of time. */
static bool tail_over(const struct tail *t)
{
    return atomic_load(t->stop) || (t->end_ns && os_mono_ns() >= t->end_ns);
}

static bool wanted_process(const struct tail *t, const struct proc_info *p)
{
    return (!t->q.has_pid || p->id.pid == t->q.pid) &&
           (t->q.name.n == 0 || glob_match(t->q.name, p->name));
}

static bool wanted_host(const struct tail *t, const struct wire_update *u)
{
    return t->q.host.n == 0 || glob_match(t->q.host, u->name);
}

static bool wanted_event(const struct tail *t, struct str host, const struct life_event *ev)
{
    const struct wire_events *p = &t->q.events;
    uint32_t kinds = wire_events_named(p) ? 1u << LIFE_PROVIDER
                     : t->q.kinds         ? t->q.kinds
                                          : LIFE_KINDS_DEFAULT;
    bool of_host = life_is_of_host(ev->kind);

    if (ev->kind == LIFE_PROVIDER &&
        (!ev->type || !event_values_is(ev->type, p->provider, p->event))) {
        return false;
    }
    return ev->kind < 32 && (kinds >> ev->kind & 1) &&
           (of_host ? !t->q.has_pid && t->q.name.n == 0 : wanted_process(t, &ev->info)) &&
           (p->where.n == 0 ||
            expr_event_run(&t->where, ev, host, str_make(field_kind_name(ev->kind))) == EXPR_TRUE);
}

static enum err tail_put(struct tail *t, const struct table_cell *cells)
{
    enum err e = table_row(t->sheet, cells);

    t->left--;
    t->lines++;
    return !e && (t->left == 0 || ferror(stdout)) ? ERR_END : e;
}

/* Prints what is wanted of an update: events from `since_ns` on (INT64_MIN: any). Errors: ERR_END
 * (enough lines, or the reader is gone), ERR_NOMEM */
static enum err tail_print(struct tail *t, const struct wire_update *u, int64_t since_ns)
{
    struct table_cell cells[TABLE_COLUMNS];
    const struct wire_answer *a = &u->data;
    enum err e = ERR_OK;

    if (!wanted_host(t, u)) {
        return ERR_OK;
    }
    for (size_t i = 0; i < a->n_events && !e && !t->samples; i++) {
        if (a->events[i].event.wall_ns >= since_ns &&
            wanted_event(t, u->name, &a->events[i].event)) {
            fields_event(&t->fields, cells, a, &a->events[i]);
            e = tail_put(t, cells);
        }
    }
    for (size_t i = 0; i < a->n_rows && !e && t->samples; i++) {
        if (a->rows[i].when_ns >= since_ns && wanted_process(t, &a->rows[i].info)) {
            fields_row(&t->fields, cells, a, &a->rows[i]);
            e = tail_put(t, cells);
        }
    }
    return e;
}

static void tail_fields(struct tail *t)
{
    static const uint8_t shown[] = {M_CPU_TIME, M_WORKING_SET_SIZE, M_THREAD_COUNT};
    struct fields *f = &t->fields;

    fields_add(f, FIELD_TIME, true);
    fields_add(f, FIELD_HOST, true);
    if (!t->samples) {
        fields_add(f, FIELD_KIND, true);
    }
    fields_add(f, FIELD_PID, true);
    if (t->samples) {
        for (size_t i = 0; i < sizeof shown; i++) {
            fields_add_metric(f, shown[i], true);
        }
        for (const struct metric *m = metric_next(NULL); m; m = metric_next(m)) {
            if (m->column) {
                fields_add_metric(f, m->id, false);
            }
        }
        fields_add(f, FIELD_NAME, true);
        fields_add(f, FIELD_START, false);
        fields_add(f, FIELD_CPU_TIME_ORIGIN, false);
        return;
    }
    fields_add(f, FIELD_TID, false);
    fields_add(f, FIELD_PARENT_PID, true);
    fields_add(f, FIELD_EXIT_CODE, true);
    fields_add(f, FIELD_NAME, true);
    fields_add(f, FIELD_DETAIL, true);
    fields_add(f, FIELD_START, false);
    fields_add(f, FIELD_USER, false);
    fields_add(f, FIELD_CREATE_TIME, false);
    fields_add(f, FIELD_EXIT_TIME, false);
    fields_add(f, FIELD_COMMAND_LINE, false);
    fields_add(f, FIELD_PATH, false);
    fields_add(f, FIELD_TEXT, false);
    fields_add_provider(f);
}

/* -- polling: of a durable subscription, or of what a certificate may see -- */

/* Polls, prints, flushes, keeps the cursor, polls with it. Of a durable subscription the cursor
 * is a file: killed between the flush and the cursor, the next run prints those lines again, and
 * the file says how many lines were printed up to it, so that who reads them can tell. Without a
 * name it begins with now and is kept in memory. */
#define ITEMS_MAX 1024u

struct durable {
    struct tail *t;
    struct tail_cursor cursor;
    uint64_t before; /* lines of earlier runs */
    struct cli_client *link;
    struct wire_poll poll;
    bool lost; /* the connection */
    uint64_t dropped;
};

static void durable_choose(struct durable *d, const char *name, bool from_oldest)
{
    const struct wire_query *q = &d->t->q;
    struct wire_filter *f = &d->poll.filter;

    d->poll.name = str_make(name ? name : "");
    d->poll.from_oldest = from_oldest;
    d->poll.has_filter = true;
    if (q->host.n) {
        f->hosts[f->n_hosts++] = q->host;
    }
    f->program = q->name;
    f->kinds = q->kinds;
    f->providers = q->events;
    f->samples = f->no_events = d->t->samples;
}

/* How long a poll may wait: as long as it can, or up to the end. */
static uint32_t durable_wait_ms(const struct tail *t)
{
    int64_t left = t->end_ns ? (t->end_ns - os_mono_ns()) / CLK_MS : WIRE_POLL_WAIT_MAX_MS;

    return left <= 0 ? 0 : left < WIRE_POLL_WAIT_MAX_MS ? (uint32_t)left : WIRE_POLL_WAIT_MAX_MS;
}

static enum err durable_poll(struct durable *d, struct wire_poll_reply **out,
                             struct rpc_result *result, struct errmsg *why)
{
    const struct tail *t = d->t;
    struct buf request, reply;
    enum err e;

    d->poll.cursor = (struct str){(const char *)d->cursor.bytes, d->cursor.n};
    d->poll.wait_ms = durable_wait_ms(t);
    d->poll.max = t->left < ITEMS_MAX ? (uint32_t)t->left : ITEMS_MAX;
    buf_init(&request, 64u << 10);
    buf_init(&reply, REPLY_MAX);
    e = wire_feed_poll_encode(&request, &d->poll);
    if (!e) {
        e = cli_client_call(d->link,
                            &(struct cli_client_request){
                                RPC_QUERY_POLL, request.p, request.n,
                                d->poll.wait_ms * CLK_MS + t->c->settings.timeout_ns, t->stop},
                            &reply, result, why);
    }
    if (!e) {
        e = wire_feed_poll_reply_decode(out, reply.p, reply.n);
    }
    buf_fini(&request);
    buf_fini(&reply);
    return e;
}

/* Prints, flushes, keeps the cursor: in this order. Errors: ERR_END, those of tail_cursor_write */
static enum err durable_take(struct durable *d, const struct wire_poll_reply *reply,
                             struct errmsg *why)
{
    struct tail *t = d->t;
    bool end = false;
    enum err e = ERR_OK;

    if (reply->dropped_now) {
        d->dropped += reply->dropped_now;
        cli_tell(t->c, "up to %llu %s asked for", (unsigned long long)reply->dropped_now,
                 plural(reply->dropped_now, "message was dropped before it was",
                        "messages were dropped before they were"));
    }
    for (size_t i = 0; i < reply->n_updates && !e; i++) {
        e = tail_print(t, &reply->updates[i], INT64_MIN);
        if (e == ERR_END && t->left == 0) { /* the rest of the reply has no wanted line */
            end = true;
            e = ERR_OK;
            break;
        }
    }
    if (e || fflush(stdout) != 0 || ferror(stdout)) {
        return e ? e : ERR_END; /* what was not printed is not done with */
    }
    if (reply->cursor.n != d->cursor.n ||
        memcmp(reply->cursor.p, d->cursor.bytes, d->cursor.n) != 0) {
        assert(reply->cursor.n <= sizeof d->cursor.bytes); /* the decoder checked it */
        d->cursor.n = reply->cursor.n;
        memcpy(d->cursor.bytes, reply->cursor.p, reply->cursor.n);
        d->cursor.lines = d->before + t->lines;
        e = d->cursor.path ? tail_cursor_write(&d->cursor, why) : ERR_OK;
    }
    return e ? e : end ? ERR_END : ERR_OK;
}

/* Says what is wrong, once. Who is not asked to come again has to do something first. */
static bool durable_passes(struct durable *d, enum err e, const struct rpc_result *result,
                           const struct errmsg *why)
{
    bool passing = e == ERR_UNREACHABLE || e == ERR_TIMEOUT ||
                   (e == ERR_REFUSED &&
                    (result->code == RPC_UNAVAILABLE ||
                     (result->code == RPC_RESOURCE_EXHAUSTED && result->retry_after_ms > 0)));

    if (passing && !d->lost) {
        cli_tell(d->t->c, "%s; trying again", why->text[0] ? why->text : err_text(e));
        d->lost = true;
    }
    return passing;
}

static int durable_follow(struct durable *d)
{
    struct tail *t = d->t;

    while (!tail_over(t)) {
        struct rpc_result result = {.code = RPC_OK};
        struct wire_poll_reply *reply;
        struct errmsg why = {""};
        enum err e = durable_poll(d, &reply, &result, &why);

        if (e == ERR_CLOSED || (e && durable_passes(d, e, &result, &why))) {
            continue;
        }
        if (e) {
            return cli_fail(t->c, cli_client_call_exit(e, &result), "%s",
                            why.text[0] ? why.text : err_text(e));
        }
        if (d->lost) {
            cli_tell(t->c, "connected again");
            d->lost = false;
        }
        e = durable_take(d, reply, &why);
        wire_feed_poll_reply_free(reply);
        if (e == ERR_END) {
            break;
        }
        if (e) {
            return cli_fail(t->c, CLI_FAILED, "%s", why.text[0] ? why.text : err_text(e));
        }
    }
    return d->dropped ? CLI_PARTIAL : CLI_OK;
}

/* name: of the durable subscription; NULL: none, from now on. Returns the exit code. */
static int tail_poll(struct tail *t, const char *name, bool from_oldest)
{
    struct durable d = {.t = t};
    char owner[sizeof((struct net_identity *)0)->name];
    struct errmsg why = {""};
    int code;
    enum err e = ERR_OK;

    durable_choose(&d, name, from_oldest);
    if (cli_client_open(&d.link, t->c, &code) != ERR_OK) {
        return code;
    }
    if (name) {
        cli_client_own_name(d.link, owner, sizeof owner);
        e = tail_cursor_open(&d.cursor, t->c->settings.collector, owner, name, &why);
    }
    if (e) {
        code = cli_fail(t->c, e == ERR_USAGE ? CLI_USAGE : CLI_FAILED, "%s",
                        why.text[0] ? why.text : err_text(e));
    } else {
        d.before = d.cursor.lines;
        code = durable_follow(&d);
    }
    tail_cursor_close(&d.cursor);
    cli_client_close(d.link);
    return code;
}

/* -- the live stream -- */

/* The live stream: one SUB connection, topics `event/` or `sample/`. A hole in a topic's sequence
 * is filled by Fetch before the message behind it is printed; so is what passed while the
 * connection was lost. What comes twice that way is known by its number. Of a host first heard of
 * after such a loss everything since the start of this program is asked for; how many there may be
 * of which nothing was heard yet is told when the connection is back. */
#define MESSAGE_MAX WIRE_FEED_UPDATE_MAX
#define TOPICS_MAX  20000u
#define POLL_NS     (200 * CLK_MS)

/* Where a topic's sequence stands. */
struct tail_topic {
    char name[TAIL_TOPIC_MAX + 1];
    uint64_t epoch, seq;
    UT_hash_handle hh;
};

/* what was missed */

struct missed_span {
    uint64_t from, to; /* to 0: up to the newest */
    int64_t since_ns;
    uint64_t came, missing; /* messages */
};

static bool live_linked(struct tail *t)
{
    int code;

    if (!t->link && !t->no_link) {
        t->no_link = cli_client_open(&t->link, t->c, &code) != ERR_OK;
    }
    return t->link != NULL;
}

/* Whether it is of before the span's time: so are those with smaller numbers. */
static bool update_is_older(const struct wire_answer *a, int64_t since_ns)
{
    bool older = since_ns > INT64_MIN;

    for (size_t i = 0; older && i < a->n_events; i++) {
        older = a->events[i].event.wall_ns < since_ns;
    }
    for (size_t i = 0; older && i < a->n_rows; i++) {
        older = a->rows[i].when_ns < since_ns;
    }
    return older;
}

/* Errors: ERR_END (enough lines) */
static enum err span_take(struct tail *t, struct tail_topic *topic,
                          const struct wire_fetch_reply *got, struct missed_span *s)
{
    enum err e = ERR_OK;

    s->missing += got->missing;
    for (size_t i = 0; i < got->n && !e; i++) {
        const struct wire_feed_message *m = &got->messages[i];
        struct wire_update *u;

        topic->seq = m->seq;
        s->from = m->seq + 1;
        if (wire_update_decode(&u, m->update.p, m->update.n)) {
            s->missing++;
            continue;
        }
        if (update_is_older(&u->data, s->since_ns)) { /* it was not missed */
            s->missing = 0;
        } else {
            s->came++;
            e = tail_print(t, u, s->since_ns);
        }
        wire_update_free(u);
    }
    return e;
}

static enum err span_fetch(struct tail *t, struct tail_topic *topic, struct missed_span *s,
                           bool *more)
{
    const struct wire_fetch q = {topic->epoch, s->from, s->to, str_make(topic->name)};
    struct wire_fetch_reply *got;
    struct rpc_result result = {.code = RPC_OK};
    struct errmsg why = {""};
    struct buf request, reply;
    enum err e;

    buf_init(&request, 4096);
    buf_init(&reply, REPLY_MAX);
    e = wire_feed_fetch_encode(&request, &q);
    if (!e) {
        e = cli_client_call(t->link,
                            &(struct cli_client_request){RPC_QUERY_FETCH, request.p, request.n,
                                                         t->c->settings.timeout_ns, t->stop},
                            &reply, &result, &why);
    }
    if (!e) {
        e = wire_feed_fetch_reply_decode(&got, reply.p, reply.n);
    }
    if (e) {
        cli_tell(t->c, "%s", why.text[0] ? why.text : err_text(e));
    } else {
        *more = result.more;
        e = span_take(t, topic, got, s);
        wire_feed_fetch_reply_free(got);
    }
    buf_fini(&request);
    buf_fini(&reply);
    return e;
}

/* Asks for the span and prints it; says what came. Errors: ERR_END (enough lines) */
static enum err span_fill(struct tail *t, struct tail_topic *topic, struct missed_span s)
{
    uint64_t wanted = s.to ? s.to - s.from + 1 : 0;
    enum err e = live_linked(t) ? ERR_OK : ERR_UNREACHABLE;
    bool more = true;

    while (!e && more) {
        e = span_fetch(t, topic, &s, &more);
    }
    if (e == ERR_END) {
        return e;
    }
    if (e) { /* reported already; without an end the number is unknown */
        s.missing = wanted > s.came ? wanted - s.came : 1;
    }
    t->missed += s.missing;
    if (s.came || s.missing) {
        char rest[48] = "";

        if (s.missing) {
            (void)snprintf(rest, sizeof rest, "; %llu more did not", (unsigned long long)s.missing);
        }
        cli_tell(t->c, "%llu %s of %s %s missed and came again%s", (unsigned long long)s.came,
                 plural(s.came, "message", "messages"), topic->name, plural(s.came, "was", "were"),
                 rest);
    }
    return ERR_OK;
}

static struct tail_topic *topic_add(struct tail *t, const char *name, uint64_t epoch)
{
    struct tail_topic *topic =
        HASH_COUNT(t->topics) < TOPICS_MAX ? mem_zalloc(sizeof *topic) : NULL;

    if (topic) {
        memcpy(topic->name, name, strlen(name) + 1);
        topic->epoch = epoch;
        HASH_ADD_STR(t->topics, name, topic);
    }
    return topic;
}

/* Fills what is missing before this message. *again: it was printed already. Errors: ERR_END */
static enum err topic_follow(struct tail *t, const char *name, uint64_t epoch, uint64_t seq,
                             bool *again)
{
    struct tail_topic *topic;
    enum err e = ERR_OK;

    *again = false;
    HASH_FIND_STR(t->topics, name, topic);
    if (!topic) {
        topic = topic_add(t, name, epoch);
        if (topic && t->was_away && seq > 1) {
            e = span_fill(t, topic, (struct missed_span){1, seq - 1, t->begun_ns, 0, 0});
        }
    } else if (topic->epoch != epoch) {
        cli_tell(t->c,
                 "the collector's journal began anew: messages of %s may be "
                 "missing",
                 name);
        t->missed++;
        topic->epoch = epoch;
        topic->seq = 0;
        if (seq > 1) { /* numbers began anew, too */
            e = span_fill(t, topic, (struct missed_span){1, seq - 1, INT64_MIN, 0, 0});
        }
    } else if (seq <= topic->seq) {
        *again = true;
        return ERR_OK;
    } else if (seq > topic->seq + 1) {
        e = span_fill(t, topic, (struct missed_span){topic->seq + 1, seq - 1, INT64_MIN, 0, 0});
    }
    if (topic && !e) {
        topic->seq = seq;
    }
    return e;
}

/* Hosts that the collector has and that were never heard here may have spoken meanwhile. A
 * certificate of role subscribe is told how many there are, not which. */
static void live_tell_unheard(struct tail *t)
{
    struct rpc_result result = {.code = RPC_OK};
    struct errmsg why = {""};
    struct wire_server_info info;
    struct buf reply;
    unsigned heard = HASH_COUNT(t->topics);
    enum err e;

    if (!live_linked(t)) {
        return;
    }
    buf_init(&reply, REPLY_MAX);
    e = cli_client_call(t->link,
                        &(struct cli_client_request){RPC_QUERY_SERVER_INFO, NULL, 0,
                                                     t->c->settings.timeout_ns, t->stop},
                        &reply, &result, &why);
    if (!e) {
        e = wire_query_server_info_decode(&info, reply.p, reply.n);
    }
    if (e) {
        cli_tell(t->c, "%s", why.text[0] ? why.text : err_text(e));
    } else if (info.hosts > heard) {
        cli_tell(t->c,
                 "%u of %u %s not heard yet; what one of them told meanwhile "
                 "is asked for when it is heard",
                 info.hosts - heard, info.hosts, plural(info.hosts, "host was", "hosts were"));
    }
    buf_fini(&reply);
}

/* What passed meanwhile, of every topic. Errors: ERR_END */
static enum err live_catch_up(struct tail *t)
{
    struct tail_topic *topic, *next;

    HASH_ITER(hh, t->topics, topic, next)
    {
        if (tail_over(t)) {
            break;
        }
        if (span_fill(t, topic, (struct missed_span){topic->seq + 1, 0, INT64_MIN, 0, 0})) {
            return ERR_END;
        }
    }
    if (!tail_over(t)) {
        live_tell_unheard(t);
    }
    return ERR_OK;
}

static void topics_free(struct tail *t)
{
    struct tail_topic *topic, *next;

    HASH_ITER(hh, t->topics, topic, next)
    {
        HASH_DEL(t->topics, topic);
        mem_free(topic);
    }
}

/* One message: topic with its NUL, epoch, sequence, update. */
static enum err live_take(struct tail *t, const struct buf *message)
{
    struct cur c = cur_make(message->p, message->n);
    size_t n;
    const char *name = cur_cstr(&c, &n);
    uint64_t epoch = cur_u64le(&c), seq = cur_u64le(&c);
    struct wire_update *u;
    bool again;
    enum err e;

    if (c.bad || n > TAIL_TOPIC_MAX) {
        return ERR_CORRUPT;
    }
    e = wire_update_decode(&u, c.p, cur_left(&c));
    if (e) {
        return e;
    }
    e = topic_follow(t, name, epoch, seq, &again);
    if (!e && !again) {
        e = tail_print(t, u, INT64_MIN);
    }
    wire_update_free(u);
    return e;
}

/* Says when the connection is lost, and when it is back; then what passed is made up for. Errors:
 * ERR_END */
static enum err live_watch(struct tail *t, const struct net_sub *sub)
{
    bool away = !net_sub_connected(sub), back = !away && t->away;

    if (away && !t->away) {
        t->was_away = true;
        cli_tell(t->c,
                 "connection to %s lost; what passes until it is back is asked for "
                 "then",
                 t->c->settings.events);
    } else if (back) {
        cli_tell(t->c, "connected again");
        t->no_link = false; /* once more */
    }
    t->away = away;
    return back ? live_catch_up(t) : ERR_OK;
}

static int live_follow(struct tail *t, struct net_sub *sub)
{
    struct buf message;
    enum err e = ERR_OK;

    buf_init(&message, MESSAGE_MAX);
    while (!tail_over(t) && (!e || e == ERR_TIMEOUT)) {
        e = live_watch(t, sub);
        if (e) {
            break;
        }
        buf_reset(&message);
        e = net_sub_receive(sub, POLL_NS, &message);
        if (!e) {
            e = live_take(t, &message);
        }
    }
    buf_fini(&message);
    if (!e || e == ERR_TIMEOUT || e == ERR_END) {
        return t->missed || t->away ? CLI_PARTIAL : CLI_OK;
    }
    return cli_fail(t->c, CLI_FAILED, "event stream %s: %s", t->c->settings.events, err_text(e));
}

static int tail_live(struct tail *t)
{
    struct net_sub_conf conf = {.address = t->c->settings.events, .receive_max = MESSAGE_MAX};
    struct errmsg why = {""};
    struct tls_config *tls = NULL;
    struct net_sub *sub = NULL;
    int code = CLI_FAILED;
    enum err e;

    conf.topic = t->samples ? "sample/" : "event/";
    conf.topic_n = strlen(conf.topic);
    if (cli_client_tls(&tls, t->c, &code) != ERR_OK) {
        return code;
    }
    conf.tls = tls;
    t->begun_ns = os_utc_ns();
    e = net_sub_open(&sub, &conf, &why);
    if (!e) {
        e = net_sub_wait(sub, t->c->settings.timeout_ns, &why);
    }
    if (e) {
        code = cli_fail(t->c, cli_client_exit(e), "event stream %s%s",
                        why.text[0] ? why.text : t->c->settings.events,
                        cli_client_remedy(e, sub ? net_sub_cause(sub) : TLS_CAUSE_NONE));
    } else {
        code = live_follow(t, sub);
    }
    net_sub_close(sub);
    tls_config_free(tls);
    cli_client_close(t->link);
    topics_free(t);
    return code;
}

/* -- the command -- */

static atomic_bool stopped; /* set by the signal thread, which outlives every function */

static void on_stop(void *arg)
{
    (void)arg;
    atomic_store(&stopped, true);
}

static enum err tail_options(struct tail *t, struct errmsg *why)
{
    const char *span = opt_value(t->c->args, "for");
    int64_t ns;
    enum err e = cli_query(t->c, &t->q, UINT32_MAX, why);

    if (!e) {
        e = fields_kinds_given(&t->q.kinds, t->c, why);
    }
    if (!e && span) {
        if (clk_parse_span(&ns, span) != ERR_OK) {
            return errmsg_set(why, ERR_USAGE, "--for: '%s' is not a time such as 30s", span);
        }
        t->end_ns = os_mono_ns() + ns;
    }
    t->left = t->q.limit == UINT32_MAX ? UINT64_MAX : t->q.limit;
    cli_events(t->c, &t->q.events);
    if (!e && t->q.events.where.n) {
        struct errmsg wrong = {""};

        e = expr_event_compile(&t->where, t->q.events.where, &wrong);
        if (e) {
            return errmsg_set(why, ERR_USAGE, "--where: %s", wrong.text);
        }
    }
    t->samples = opt_flag(t->c->args, "samples");
    if (!e && t->samples && wire_events_named(&t->q.events)) {
        return errmsg_set(why, ERR_USAGE,
                          "--provider and --event are of events: not with "
                          "--samples");
    }
    if (!e && opt_flag(t->c->args, "from-oldest") && !opt_value(t->c->args, "durable")) {
        return errmsg_set(why, ERR_USAGE, "--from-oldest is for --durable NAME");
    }
    return e;
}

/* Whether the certificate may see something, but not the whole stream: a wrong one is refused
 * there. *code: not CLI_OK when it cannot be read. */
static bool tail_must_poll(const struct tail *t, int *code)
{
    struct tls_config *tls = NULL;
    struct net_identity own;

    *code = CLI_OK;
    if (opt_value(t->c->args, "events") || cli_client_tls(&tls, t->c, code) != ERR_OK) {
        return false;
    }
    tls_config_identity(tls, &own);
    tls_config_free(tls);
    return own.roles & NET_SUBSCRIBE ? own.scope[0] != '\0'
                                     : (own.roles & (NET_QUERY | NET_ADMIN)) != 0;
}

static int tail_follow(struct tail *t)
{
    const char *durable = opt_value(t->c->args, "durable");
    int code = CLI_OK;

    if (durable || tail_must_poll(t, &code)) {
        return tail_poll(t, durable, opt_flag(t->c->args, "from-oldest"));
    }
    return code == CLI_OK ? tail_live(t) : code;
}

static int tail_body(struct cli *c)
{
    struct tail t = {.c = c, .stop = &stopped};
    struct errmsg why = {""};
    int code;

    if (tail_options(&t, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    tail_fields(&t);
    if (os_stop_install(on_stop, NULL) != ERR_OK ||
        fields_sheet(&t.fields, c, &t.sheet, true) != ERR_OK) {
        return cli_fail(c, CLI_FAILED, "out of memory");
    }
    code = tail_follow(&t);
    table_end(t.sheet);
    return code;
}

const struct cli_command cmd_tail = {&usage, tail_body, CLI_NEEDS_COLLECTOR, NULL};
