/* The live stream: one SUB connection, topics `event/` or `sample/`. A hole in a topic's sequence
 * is filled by Fetch before the message behind it is printed; so is what passed while the
 * connection was lost. What comes twice that way is known by its number. Of a host first heard of
 * after such a loss everything since the start of this program is asked for; how many there may be
 * of which nothing was heard yet is told when the connection is back. */
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "collector/cli/tail.h"
#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/os/os.h"
#include "common/wire/wire_feed.h"

#define MESSAGE_MAX WIRE_FEED_UPDATE_MAX
#define REPLY_MAX   (4u << 20)
#define TOPICS_MAX  20000u
#define POLL_NS     (200 * CLK_MS)

/* Where a topic's sequence stands. */
struct tail_topic {
    char name[TAIL_TOPIC_MAX + 1];
    uint64_t epoch, seq;
    UT_hash_handle hh;
};

/* -- what was missed -- */

struct span {
    uint64_t from, to; /* to 0: up to the newest */
    int64_t since_ns;
    uint64_t came, missing; /* messages */
};

static bool linked(struct tail *t)
{
    int code;

    if (!t->link && !t->no_link) {
        t->no_link = cli_client_open(&t->link, t->c, &code) != ERR_OK;
    }
    return t->link != NULL;
}

/* Whether it is of before the span's time: so are those with smaller numbers. */
static bool is_older(const struct wire_answer *a, int64_t since_ns)
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
static enum err take_messages(struct tail *t, struct tail_topic *topic,
                              const struct wire_fetch_reply *got, struct span *s)
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
        if (is_older(&u->data, s->since_ns)) { /* nobody missed it */
            s->missing = 0;
        } else {
            s->came++;
            e = tail_print(t, u, s->since_ns);
        }
        wire_update_free(u);
    }
    return e;
}

static enum err fetch_page(struct tail *t, struct tail_topic *topic, struct span *s, bool *more)
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
        e = take_messages(t, topic, got, s);
        wire_feed_fetch_reply_free(got);
    }
    buf_fini(&request);
    buf_fini(&reply);
    return e;
}

/* Asks for the span and prints it; says what came. Errors: ERR_END (enough lines) */
static enum err fill(struct tail *t, struct tail_topic *topic, struct span s)
{
    uint64_t wanted = s.to ? s.to - s.from + 1 : 0;
    enum err e = linked(t) ? ERR_OK : ERR_UNREACHABLE;
    bool more = true;

    while (!e && more) {
        e = fetch_page(t, topic, &s, &more);
    }
    if (e == ERR_END) {
        return e;
    }
    if (e) { /* said already; without an end nobody knows how many */
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

/* -- where topics stand -- */

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
static enum err follow(struct tail *t, const char *name, uint64_t epoch, uint64_t seq, bool *again)
{
    struct tail_topic *topic;
    enum err e = ERR_OK;

    *again = false;
    HASH_FIND_STR(t->topics, name, topic);
    if (!topic) {
        topic = topic_add(t, name, epoch);
        if (topic && t->was_away && seq > 1) {
            e = fill(t, topic, (struct span){1, seq - 1, t->begun_ns, 0, 0});
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
            e = fill(t, topic, (struct span){1, seq - 1, INT64_MIN, 0, 0});
        }
    } else if (seq <= topic->seq) {
        *again = true;
        return ERR_OK;
    } else if (seq > topic->seq + 1) {
        e = fill(t, topic, (struct span){topic->seq + 1, seq - 1, INT64_MIN, 0, 0});
    }
    if (topic && !e) {
        topic->seq = seq;
    }
    return e;
}

/* Hosts that the collector has and that were never heard here may have spoken meanwhile. A
 * certificate of role subscribe is told how many there are, not which. */
static void tell_unheard(struct tail *t)
{
    struct rpc_result result = {.code = RPC_OK};
    struct errmsg why = {""};
    struct wire_server_info info;
    struct buf reply;
    unsigned heard = HASH_COUNT(t->topics);
    enum err e;

    if (!linked(t)) {
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
static enum err catch_up(struct tail *t)
{
    struct tail_topic *topic, *next;

    HASH_ITER(hh, t->topics, topic, next)
    {
        if (tail_over(t)) {
            break;
        }
        if (fill(t, topic, (struct span){topic->seq + 1, 0, INT64_MIN, 0, 0})) {
            return ERR_END;
        }
    }
    if (!tail_over(t)) {
        tell_unheard(t);
    }
    return ERR_OK;
}

static void free_topics(struct tail *t)
{
    struct tail_topic *topic, *next;

    HASH_ITER(hh, t->topics, topic, next)
    {
        HASH_DEL(t->topics, topic);
        mem_free(topic);
    }
}

/* -- the stream -- */

/* One message: topic with its NUL, epoch, sequence, update. */
static enum err take(struct tail *t, const struct buf *message)
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
    e = follow(t, name, epoch, seq, &again);
    if (!e && !again) {
        e = tail_print(t, u, INT64_MIN);
    }
    wire_update_free(u);
    return e;
}

/* Says when the connection is lost, and when it is back; then what passed is made up for. Errors:
 * ERR_END */
static enum err watch(struct tail *t, const struct net_sub *sub)
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
    return back ? catch_up(t) : ERR_OK;
}

static int follow_stream(struct tail *t, struct net_sub *sub)
{
    struct buf message;
    enum err e = ERR_OK;

    buf_init(&message, MESSAGE_MAX);
    while (!tail_over(t) && (!e || e == ERR_TIMEOUT)) {
        e = watch(t, sub);
        if (e) {
            break;
        }
        buf_reset(&message);
        e = net_sub_receive(sub, POLL_NS, &message);
        if (!e) {
            e = take(t, &message);
        }
    }
    buf_fini(&message);
    if (!e || e == ERR_TIMEOUT || e == ERR_END) {
        return t->missed || t->away ? CLI_PARTIAL : CLI_OK;
    }
    return cli_fail(t->c, CLI_FAILED, "event stream %s: %s", t->c->settings.events, err_text(e));
}

int tail_live(struct tail *t)
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
        code = follow_stream(t, sub);
    }
    net_sub_close(sub);
    tls_config_free(tls);
    cli_client_close(t->link);
    free_topics(t);
    return code;
}
