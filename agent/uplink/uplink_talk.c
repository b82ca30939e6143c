/* The connection, Hello and Heartbeat. Hello comes before anything else on a new connection, and
 * again after every failure; one of the two is under way at a time. */
#include "agent/uplink/uplink_impl.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define LOOK_MIN_NS CLK_S /* at why nobody answers: NNG's counters are costly to read */
#define LOOK_MAX_NS (60 * CLK_S)

/* While batches go no Heartbeat is due for the connection's sake. For the clocks' it is: the first
 * tells how long Hello took, so that the collector knows the offset's error, later ones keep it. */
#define CLOCK_FIRST_NS (10 * CLK_S)
#define CLOCK_NS       (300 * CLK_S)

/* So many broken exchanges without a batch acknowledged, or Hellos in a row that the collector is
 * too busy for, and the state says that no batch gets through: more than the restart of a collector
 * makes. */
#define FUTILE_MAX 3u

#define ENROLL                                                                              \
    "make a token where the collector runs (procfleet-collector pki token create) and run " \
    "procfleet-agent enroll --force here"

static const char *uplink_talk_remedy(enum err e, enum tls_cause cause)
{
    switch (e) {
    case ERR_TRUST:
        if (cause == TLS_CAUSE_REFUSED_REVOKED) {
            return ENROLL;
        }
        return cause == TLS_CAUSE_REFUSED_TIME
                   ? "the agent renews it by itself, see agent.certificate of doctor; is the clock "
                     "right?"
                   : "check tls.ca, tls.cert, tls.key and collector.server_name";
    case ERR_REFUSED:
        return "check that the certificate is an agent's, of this host, from this collector's "
               "authority";
    default:
        return "check collector.addresses and that the collector is running";
    }
}

static void uplink_talk_tell(struct uplink *u, enum err e, const char *problem)
{
    char why[512];

    (void)snprintf(why, sizeof why, "%.300s; %s", problem[0] ? problem : err_text(e),
                   uplink_talk_remedy(e, rpc_client_cause(u->clients[u->current])));
    uplink_set_state(u, e == ERR_TRUST ? UPLINK_REFUSED : UPLINK_UNREACHABLE, why);
}

static void uplink_talk_refused(struct uplink *u, const struct rpc_result *result)
{
    bool own = result->code == RPC_FAILED_PRECONDITION; /* names its remedy: a clone, for one */
    char why[512];

    (void)snprintf(why, sizeof why, "the collector says %s: %.255s%s%s",
                   frame_code_name(result->code), result->message, own ? "" : "; ",
                   own ? "" : uplink_talk_remedy(ERR_REFUSED, TLS_CAUSE_NONE));
    uplink_set_state(u, UPLINK_REFUSED, why);
}

void uplink_talk_succeeded(struct uplink *u, const char *what)
{
    u->timeouts = 0;
    u->beat_ns = os_mono_ns() + u->heartbeat_ns * 3 / 4 + uplink_chance(u, u->heartbeat_ns / 8);
    if (u->futile < FUTILE_MAX) {
        uplink_set_state(u, UPLINK_CONNECTED, what);
    }
}

/* TLS, Hello and Heartbeats succeed also where no batch gets through: they let no pause begin small
 * again. */
void uplink_talk_progress(struct uplink *u)
{
    u->pause_ns = UPLINK_PAUSE_MIN_NS;
    u->futile = 0;
    rpc_client_useful(u->clients[u->current]);
}

/* The exchange broke, whose connection had stood. At most one state is told; why a connection was
 * lost look says, if it lasts. */
static void uplink_talk_note_futile(struct uplink *u, enum err e)
{
    char why[256];

    os_mutex_lock(u->lock);
    u->broke_ns[u->n_broke++ % UPLINK_BREAKS] = os_mono_ns();
    os_mutex_unlock(u->lock);
    if (++u->futile >= FUTILE_MAX) {
        (void)snprintf(why, sizeof why,
                       "the last %u exchanges broke before a batch was acknowledged (%s); see the "
                       "collector's log, and what stands between here and there",
                       u->futile, err_text(e));
        uplink_set_state(u, UPLINK_FAILING, why);
    } else if (e != ERR_UNREACHABLE) {
        uplink_talk_tell(u, e, "");
    }
}

void uplink_talk_failed(struct uplink *u, enum err e, const struct rpc_result *result)
{
    struct rpc_client *c = u->clients[u->current];

    if (e == ERR_CLOSED) {
        return; /* the thread has hung up */
    }
    u->greeted = false;
    u->settled = true;
    u->busy = 0;
    if (e == ERR_REFUSED) {
        uplink_talk_refused(u, result);
    } else if (e == ERR_TRUST) {
        uplink_talk_tell(u, e, "");
    } else {
        uplink_talk_note_futile(u, e);
    }
    u->greet_ns = os_mono_ns() + uplink_growing(u, &u->pause_ns);
    if (e == ERR_TIMEOUT && ++u->timeouts > 1) {
        u->timeouts = 0;
        rpc_client_redial(c); /* perhaps nobody is at its other end any more */
    }
    u->current = (u->current + 1) % u->n_clients;
}

/* -- while there is no connection -- */

static bool uplink_talk_prefer_connected(struct uplink *u)
{
    for (size_t i = 0; i < (u->settled ? u->n_clients : 1); i++) {
        size_t at = (u->current + i) % u->n_clients;

        if (rpc_client_connected(u->clients[at])) {
            u->current = at;
            u->look_ns = 0;
            return true;
        }
    }
    return false;
}

/* Who is refused by TLS comes back more seldom, until something else happens there. */
static void uplink_talk_choose_pauses(struct uplink *u)
{
    for (size_t i = 0; i < u->n_clients; i++) {
        bool refused = rpc_client_fault(u->clients[i], NULL) == ERR_TRUST;

        if (refused != u->patient[i]) {
            u->patient[i] = refused;
            rpc_client_pause(u->clients[i],
                             refused ? UPLINK_REFUSED_MAX_NS : UPLINK_RECONNECT_MAX_NS);
        }
    }
}

/* Why nobody answers: what TLS says at once, the rest after a while. When to look again; what TLS
 * says meanwhile wakes us. */
static int64_t uplink_talk_look(struct uplink *u)
{
    int64_t now_ns = os_mono_ns();
    struct errmsg problem = {""};
    enum err e = rpc_client_fault(u->clients[u->current], &problem);

    if (u->look_ns == 0) {
        u->look_pause_ns = LOOK_MIN_NS;
        u->look_ns = now_ns + u->look_pause_ns;
    }
    if (e == ERR_TRUST) {
        uplink_talk_tell(u, e, problem.text);
    }
    u->settled = u->settled || e == ERR_TRUST || now_ns >= u->look_ns;
    if (now_ns < u->look_ns) {
        return u->look_ns;
    }
    if (e != ERR_TRUST) {
        rpc_client_problem(u->clients[u->current], &problem);
        if (u->futile < FUTILE_MAX) { /* else the pauses between connections are long, no more */
            uplink_talk_tell(u, ERR_UNREACHABLE, problem.text);
        }
        u->current = (u->current + 1) % u->n_clients;
    }
    u->look_pause_ns = u->look_pause_ns * 2 < LOOK_MAX_NS ? u->look_pause_ns * 2 : LOOK_MAX_NS;
    u->look_ns = now_ns + uplink_chance(u, u->look_pause_ns);
    return u->look_ns;
}

/* -- saying it -- */

static void uplink_talk_begin(struct uplink *u, enum uplink_talk what, const char *method)
{
    int64_t left_ns = uplink_time_left(u);
    struct rpc_client *c = u->clients[u->current];
    enum err e;

    u->connection = what == TALK_HELLO ? rpc_client_connection(c) : u->connection;
    e = rpc_client_begin(&u->talk_call, c, method, FRAME_RAW, u->request.p, u->request.n,
                         left_ns < u->call_ns ? left_ns : u->call_ns, uplink_woken, u);
    u->talk = e ? TALK_NONE : what;
    if (e) {
        u->talk_call = NULL;
        uplink_talk_failed(u, e, &(struct rpc_result){0});
    }
}

static int64_t uplink_talk_utc_ns(const struct uplink *u)
{
    return u->utc_ns ? u->utc_ns(u->ctx) : os_utc_ns();
}

static size_t uplink_talk_facts(struct uplink *u, uint8_t *out)
{
    bool changed = false;
    size_t n = u->facts ? u->facts(u->ctx, out, &changed) : 0;

    u->facts_due = u->facts_due || changed;
    return n;
}

static void uplink_talk_hello(struct uplink *u)
{
    uint64_t next_seq;

    u->outbox.next(u->outbox.ctx, &u->hello.stream, &next_seq);
    u->hello.wall_ns = uplink_talk_utc_ns(u);
    u->talk_mono_ns = u->hello.mono_ns = os_mono_ns();
    u->hello.n_told = uplink_talk_facts(u, u->hello.told);
    u->carried = false;
    buf_reset(&u->request);
    err_ignore(
        wire_rpc_hello_encode(&u->request, &u->hello)); /* what fails is refused as no Hello */
    uplink_talk_begin(u, TALK_HELLO, RPC_INGEST_HELLO);
}

static void uplink_talk_heartbeat(struct uplink *u)
{
    struct wire_heartbeat beat = {.last_mono_ns = u->hello.last_mono_ns,
                                  .last_rtt_ns = u->hello.last_rtt_ns};

    beat.n_told = uplink_talk_facts(u, beat.told);
    beat.n_told = u->facts_due ? beat.n_told : 0;
    u->outbox.next(u->outbox.ctx, &beat.stream, &beat.next_seq);
    beat.wall_ns = uplink_talk_utc_ns(u);
    u->talk_mono_ns = beat.mono_ns = os_mono_ns();
    buf_reset(&u->request);
    err_ignore(wire_rpc_heartbeat_encode(&u->request, &beat));
    uplink_talk_begin(u, TALK_BEAT, RPC_INGEST_HEARTBEAT);
}

/* -- answers -- */

/* What the next Hello or Heartbeat tells of this one. */
static void uplink_talk_measured(struct uplink *u, int64_t took_ns, int64_t received_ns,
                                 int64_t replied_ns)
{
    int64_t inside_ns = replied_ns > received_ns ? replied_ns - received_ns : 0;

    u->hello.last_mono_ns = u->talk_mono_ns;
    u->hello.last_rtt_ns =
        took_ns > inside_ns ? took_ns - inside_ns : took_ns; /* its clock jumped */
}

static void uplink_talk_limits(struct uplink *u, const struct wire_hello_reply *r)
{
    size_t n = r->max_in_flight;

    u->in_flight = n < 1 ? 1 : n < UPLINK_IN_FLIGHT_MAX ? n : UPLINK_IN_FLIGHT_MAX;
    u->max_message = r->max_message;
    if (u->limit && r->max_message > 0) {
        u->limit(u->ctx, r->max_message);
    }
    if (u->events) {
        u->events(u->ctx, r->events);
    }
}

/* What the collector made durable although its answer never reached us: acknowledged like the rest.
 */
static void uplink_talk_stored(struct uplink *u, uint64_t last_seq)
{
    size_t n;

    (void)uplink_push_stored(u, u->hello.stream, last_seq);
    n = u->outbox.ack_upto(u->outbox.ctx, u->hello.stream, last_seq);
    os_mutex_lock(u->lock);
    u->status.taken += n;
    u->status.acknowledged += n;
    u->status.duplicates += n;
    os_mutex_unlock(u->lock);
    if (n > 0) {
        uplink_talk_progress(u);
    }
}

/* A collector that holds batches of ours unanswered says so too, for as long as they fill what it
 * allows one agent at once. The connection stays: over another one it would hold still more. */
static void uplink_talk_note_busy(struct uplink *u, const struct rpc_result *result)
{
    char why[400];

    u->greet_ns = uplink_retry_ns(u, result);
    u->timeouts = 0;
    if (++u->busy >= FUTILE_MAX) {
        (void)snprintf(why, sizeof why, "the collector says %s: %.255s; see its log and its disk",
                       frame_code_name(result->code), result->message);
        uplink_set_state(u, UPLINK_FAILING, why);
    }
}

/* A full collector: at once to the next one, until all have said so. */
static bool uplink_talk_elsewhere(struct uplink *u, const struct rpc_result *result)
{
    if (strcmp(result->detail, "elsewhere") != 0 || ++u->full >= u->n_clients) {
        u->full = 0;
        return false;
    }
    u->current = (u->current + 1) % u->n_clients;
    u->settled = true;
    u->greet_ns = 0;
    return true;
}

static void uplink_talk_on_hello(struct uplink *u, enum err e, const struct rpc_result *result,
                                 int64_t took_ns)
{
    struct wire_hello_reply answer;

    if (!e) {
        e = wire_rpc_hello_reply_decode(&answer, u->reply.p, u->reply.n);
    }
    if (e == ERR_REFUSED && uplink_is_busy(result->code)) {
        if (!uplink_talk_elsewhere(u, result)) {
            uplink_talk_note_busy(u, result);
        }
        return;
    }
    if (e) {
        uplink_talk_failed(u, e, result);
        return;
    }
    u->busy = 0;
    u->full = 0;
    u->again_home_ns = os_mono_ns() + uplink_chance(u, u->home_ns);
    uplink_talk_measured(u, took_ns, answer.received_ns, answer.replied_ns);
    uplink_talk_limits(u, &answer);
    uplink_talk_stored(u, answer.last_seq);
    u->greeted = true;
    u->facts_due = false;
    u->clock_ns = os_mono_ns() + CLOCK_FIRST_NS;
    uplink_talk_succeeded(u, "hello accepted");
}

static void uplink_talk_on_heartbeat(struct uplink *u, enum err e, const struct rpc_result *result,
                                     int64_t took_ns)
{
    struct wire_heartbeat_reply answer;

    if (!e) {
        e = wire_rpc_heartbeat_reply_decode(&answer, u->reply.p, u->reply.n);
    }
    if (e == ERR_REFUSED && uplink_is_busy(result->code)) {
        u->beat_ns = u->clock_ns = uplink_retry_ns(u, result);
    } else if (e == ERR_REFUSED) {
        u->greeted = false; /* a restarted collector does not know us: greet again */
        u->greet_ns = os_mono_ns() + uplink_growing(u, &u->pause_ns);
    } else if (e) {
        uplink_talk_failed(u, e, result);
    } else {
        uplink_talk_measured(u, took_ns, answer.received_ns, answer.replied_ns);
        u->clock_ns = os_mono_ns() + CLOCK_NS + uplink_chance(u, CLOCK_NS / 8);
        u->facts_due = false;
        uplink_talk_succeeded(u, "heartbeat");
        os_mutex_lock(u->lock);
        u->status.heartbeats++;
        os_mutex_unlock(u->lock);
    }
}

/* Whether an answer has come. */
static bool uplink_talk_collect(struct uplink *u)
{
    enum uplink_talk what = u->talk;
    struct rpc_result result = {0};
    int64_t took_ns;
    enum err e;

    if (what == TALK_NONE || !rpc_client_ended(u->talk_call)) {
        return false;
    }
    buf_reset(&u->reply);
    e = rpc_client_finish(u->talk_call, &u->reply, &result, &took_ns);
    u->talk_call = NULL;
    u->talk = TALK_NONE;
    if (what == TALK_HELLO) {
        uplink_talk_on_hello(u, e, &result, took_ns);
    } else {
        uplink_talk_on_heartbeat(u, e, &result, took_ns);
    }
    return true;
}

/* A connection that shows the certificate of now, once nothing is under way on the old one. */
static void uplink_talk_refresh(struct uplink *u)
{
    bool wanted;

    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        if (u->slots[i].call) {
            return;
        }
    }
    os_mutex_lock(u->lock);
    wanted = u->refresh;
    u->refresh = false;
    os_mutex_unlock(u->lock);
    for (size_t i = 0; wanted && i < u->n_clients; i++) {
        u->stale[i] = rpc_client_connection(u->clients[i]);
        rpc_client_redial(u->clients[i]);
        u->patient[i] = false;
    }
    u->greeted = u->greeted && !wanted;
}

int64_t uplink_talk_step(struct uplink *u)
{
    bool answered = uplink_talk_collect(u);
    int64_t now_ns, due_ns;

    if (u->greeted && rpc_client_connection(u->clients[u->current]) != u->connection) {
        /* Lost; what is under way on it will hear of that too. */
        uplink_talk_failed(u, ERR_UNREACHABLE, &(struct rpc_result){0});
    }
    if (u->talk != TALK_NONE) {
        return INT64_MAX;
    }
    assert(!u->talk_call);
    uplink_talk_refresh(u);
    now_ns = os_mono_ns();
    if (u->greeted && u->current && now_ns >= u->again_home_ns &&
        rpc_client_connected(u->clients[0])) {
        u->greeted = false;
        u->current = 0;
        u->greet_ns = now_ns;
    }
    if (!u->greeted) {
        if (!uplink_talk_prefer_connected(u)) {
            uplink_talk_choose_pauses(u);
            return uplink_talk_look(u);
        }
        if (rpc_client_connection(u->clients[u->current]) == u->stale[u->current]) {
            return INT64_MAX; /* its end is under way, and wakes us */
        }
        if (now_ns < u->greet_ns) {
            return u->greet_ns;
        }
        uplink_talk_hello(u);
        return u->talk == TALK_NONE ? u->greet_ns : INT64_MAX;
    }
    if (answered) {
        return now_ns; /* batches first: it may have been what they waited for */
    }
    due_ns = u->beat_ns < u->clock_ns ? u->beat_ns : u->clock_ns;
    if (now_ns < due_ns) {
        return due_ns;
    }
    uplink_talk_heartbeat(u);
    return u->talk == TALK_NONE ? u->greet_ns : INT64_MAX;
}
