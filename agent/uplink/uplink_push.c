/* Batches in hand: sent, sent again, set aside.
 *
 * Up to `in_flight` batches are under way at once; their answers come in any order. A batch that
 * the collector says it will never take is set aside at once. The others come again, for as long as
 * it takes, unless the batch itself is what breaks the exchange. Which it is shows only over time:
 *
 * A batch whose exchange failed otherwise (the connection broke under it, no answer came, the
 * collector failed inside) becomes a suspect. Nothing is proved yet: a collector that is restarted
 * breaks connections under good batches too, and one that is ill, or a relay before it, under all
 * of them. A suspect is sent again only alone, after what is no suspect: behind a batch that was
 * acknowledged since, or when there is nothing else to send. Its failure counts against it only
 * where the collector had just shown that it takes batches: one was acknowledged since the last
 * failure, over the same connection. FAULTS_MAX of these, the last one doubt_ns after the first,
 * set it aside. That nothing else was there to send, or that a Heartbeat was answered, proves
 * nothing, however often.
 *
 * So a collector that is restarted, even every few seconds, costs a good batch nothing: it would
 * have to fail under the same batch each time while the others get through. A collector that takes
 * no batch sets none aside, for as long as that lasts; and a batch that breaks everything does not
 * keep the others back, since suspects leave their place in flight (unless all hands hold such:
 * then nothing goes, and the state says so). Bad luck repairs itself: the spool gives what was set
 * aside in this way out again later, as a doubted batch, of which one more counted failure decides.
 */
#include "agent/uplink/uplink_impl.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/log/log.h"
#include "common/wire/wire_batch.h"

#define FAULTS_MAX 8u

static bool uplink_push_is_sent(const struct uplink_slot *s)
{
    return s->used && s->call;
}

static size_t uplink_push_count_sent(const struct uplink *u)
{
    size_t n = 0;

    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        n += uplink_push_is_sent(&u->slots[i]);
    }
    return n;
}

/* nothing is in hand */
static bool uplink_push_idle(const struct uplink *u)
{
    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        if (u->slots[i].used) {
            return false;
        }
    }
    return true;
}

/* -- what becomes of a batch -- */

static void uplink_push_release(struct uplink *u, struct uplink_slot *s)
{
    assert(s->used && !s->call);
    os_mutex_lock(u->lock);
    assert(u->status.held > 0);
    u->status.held--;
    os_mutex_unlock(u->lock);
    *s = (struct uplink_slot){0};
}

static void uplink_push_ack(struct uplink *u, struct uplink_slot *s, bool duplicate)
{
    uplink_talk_progress(u);
    os_mutex_lock(u->lock);
    u->status.acknowledged++;
    u->status.duplicates += duplicate;
    u->status.bytes += s->item.n;
    os_mutex_unlock(u->lock);
    u->outbox.ack(u->outbox.ctx, &s->item);
    uplink_push_release(u, s);
}

static void uplink_push_count_lost(const struct outbox_item *item, uint64_t *rows, uint64_t *events)
{
    struct batch *b;

    if (wire_batch_decode(&b, item->p, item->n) == ERR_OK) {
        wire_batch_at_stake(b, rows, events);
        wire_batch_free(b);
    }
}

/* The batch will never be taken: make way for the next. */
static void uplink_push_reject(struct uplink *u, struct uplink_slot *s, enum outbox_cause cause,
                               const char *why)
{
    uint64_t rows = 0, events = 0;
    char quoted[400];
    bool news;

    if (!s->item.doubted) { /* else it was counted when it was set aside first */
        uplink_push_count_lost(&s->item, &rows, &events);
    }
    os_mutex_lock(u->lock);
    news = u->status.quarantined == 0 || strcmp(u->status.why, why) != 0;
    u->status.quarantined += !s->item.doubted;
    u->status.quarantined_rows += rows;
    u->status.quarantined_events += events;
    (void)snprintf(u->status.why, sizeof u->status.why, "%s", why);
    os_mutex_unlock(u->lock);
    if (news) {
        log_line(LOG_WARN, "uplink", "quarantined", "seq=%llu bytes=%zu why=%s",
                 (unsigned long long)s->item.seq, s->item.n, log_str(quoted, sizeof quoted, why));
    }
    u->outbox.reject(u->outbox.ctx, &s->item, cause, why);
    uplink_push_release(u, s);
}

static void uplink_push_retry(struct uplink *u, struct uplink_slot *s, int64_t when_ns)
{
    s->again_ns = when_ns;
    os_mutex_lock(u->lock);
    u->status.resent++;
    os_mutex_unlock(u->lock);
}

/* The exchange failed in a way that may be the batch's doing. */
static void uplink_push_suspect(struct uplink *u, struct uplink_slot *s, const char *why)
{
    int64_t now_ns = os_mono_ns();

    if (s->suspect && s->alone && s->proved) {
        s->doubt_ns = s->faults++ > 0 ? s->doubt_ns : now_ns;
        if (s->faults >= FAULTS_MAX && now_ns - s->doubt_ns >= u->doubt_ns) {
            uplink_push_reject(u, s, OUTBOX_BROKEN, why);
            return;
        }
    }
    s->suspect = true;
    s->taken = u->taken;
    uplink_push_retry(u, s, now_ns + uplink_growing(u, &s->pause_ns));
}

/* -- answers -- */

/* What the collector's status means for the batch. */
static void uplink_push_on_refused(struct uplink *u, struct uplink_slot *s,
                                   const struct rpc_result *result)
{
    char why[320];

    (void)snprintf(why, sizeof why, "%s: %.256s", frame_code_name(result->code), result->message);
    if (uplink_is_busy(result->code)) {
        uplink_push_retry(u, s, uplink_retry_ns(u, result));
        return;
    }
    switch (result->code) {
    case RPC_FAILED_PRECONDITION:
    case RPC_UNAUTHENTICATED:
    case RPC_NOT_FOUND: /* it wants a Hello first, */
        u->greeted = false;
        uplink_push_suspect(u, s, why);
        break;
    case RPC_INTERNAL:
    case RPC_UNKNOWN:       /* or has trouble of its own, */
    case RPC_UNIMPLEMENTED: /* or does not know Push, whatever is in it */
        uplink_push_suspect(u, s, why);
        break;
    default:
        uplink_push_reject(u, s, OUTBOX_REFUSED, why);
        break;
    }
}

static void uplink_push_on_broken(struct uplink *u, struct uplink_slot *s, enum err e,
                                  const struct rpc_result *result)
{
    struct uplink_slot was = *s;

    if (e == ERR_NOMEM) {
        uplink_push_retry(u, s, os_mono_ns() + uplink_growing(u, &s->pause_ns));
        return;
    }
    if (e != ERR_CLOSED) {
        uplink_push_suspect(u, s,
                            e == ERR_TIMEOUT ? "no answer came to this batch again and again"
                            : e == ERR_UNREACHABLE
                                ? "the connection broke under this batch again and again"
                                : "the answer to this batch cannot be read");
    }
    if (u->greeted && was.client == u->current && was.connection == u->connection) {
        uplink_talk_failed(u, e, result); /* else it is known: a later connection stands */
    }
}

static void uplink_push_finish(struct uplink *u, struct uplink_slot *s)
{
    struct wire_push_reply answer = {0};
    struct rpc_result result = {0};
    enum err e;

    assert(uplink_push_is_sent(s));
    buf_reset(&u->reply);
    e = rpc_client_finish(s->call, &u->reply, &result, NULL);
    s->call = NULL;
    if (e == ERR_REFUSED) {
        u->timeouts = 0;
        uplink_push_on_refused(u, s, &result);
        return;
    }
    if (!e) {
        e = wire_rpc_push_reply_decode(&answer, u->reply.p, u->reply.n);
    }
    if (e) {
        uplink_push_on_broken(u, s, e, &result);
        return;
    }
    u->taken++;
    u->carried = s->client == u->current && s->connection == u->connection;
    uplink_push_ack(u, s, answer.duplicate);
    uplink_talk_succeeded(u, "push acknowledged");
}

void uplink_push_collect(struct uplink *u)
{
    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        struct uplink_slot *s = &u->slots[i];

        if (uplink_push_is_sent(s) && rpc_client_ended(s->call)) {
            uplink_push_finish(u, s);
        }
    }
}

size_t uplink_push_stored(struct uplink *u, uint64_t stream, uint64_t last_seq)
{
    size_t n = 0;

    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        struct uplink_slot *s = &u->slots[i];

        if (s->used && !s->call && s->item.stream == stream && s->item.seq <= last_seq) {
            uplink_push_ack(u, s, true);
            n++;
        }
    }
    return n;
}

/* -- sending -- */

static struct uplink_slot *uplink_push_take(struct uplink *u)
{
    struct uplink_slot *s = NULL;
    size_t places = 0;
    enum err e;

    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        places += u->slots[i].used && !u->slots[i].suspect;
        s = u->slots[i].used ? s : &u->slots[i];
    }
    if (!s || places >= u->in_flight) {
        return NULL;
    }
    assert(!s->call);
    e = u->outbox.take(u->outbox.ctx, &s->item);
    u->ended_outbox = e == ERR_END;
    s->used = !e;
    s->pause_ns = UPLINK_PAUSE_MIN_NS;
    s->suspect = !e && s->item.doubted;
    s->faults = s->suspect ? FAULTS_MAX - 1 : 0;
    s->doubt_ns = INT64_MIN;
    s->taken = u->taken;
    os_mutex_lock(u->lock);
    u->status.taken += !e;
    u->status.held += !e;
    os_mutex_unlock(u->lock);
    return e ? NULL : s;
}

static void uplink_push_send(struct uplink *u, struct uplink_slot *s)
{
    int64_t left_ns = uplink_time_left(u);
    enum err e;

    assert(s->used && !s->call && u->greeted);
    if (u->max_message && s->item.n > u->max_message) {
        uplink_push_reject(u, s, OUTBOX_REFUSED, "larger than the collector takes");
        return;
    }
    s->alone = true;
    s->proved = u->carried && u->taken > s->taken;
    s->client = u->current;
    s->connection = u->connection;
    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        if (uplink_push_is_sent(&u->slots[i])) {
            s->alone = u->slots[i].alone = false;
        }
    }
    e = rpc_client_begin(&s->call, u->clients[u->current], RPC_INGEST_PUSH, FRAME_ZSTD, s->item.p,
                         s->item.n, left_ns < u->call_ns ? left_ns : u->call_ns, uplink_woken, u);
    if (e) {
        s->call = NULL;
        uplink_push_on_broken(u, s, e, &(struct rpc_result){0});
    }
}

/* The suspect that has waited longest of those that may go now: `alone`, because nothing else is
 * there to go; else behind a batch that was taken since, over the connection of now. NULL: none. */
static struct uplink_slot *uplink_push_pick_suspect(struct uplink *u, int64_t now_ns, bool alone)
{
    struct uplink_slot *found = NULL;

    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        struct uplink_slot *s = &u->slots[i];
        bool may = alone || (u->taken > s->taken && u->carried);

        if (s->used && s->suspect && !s->call && now_ns >= s->again_ns && may &&
            (!found || s->again_ns < found->again_ns)) {
            found = s;
        }
    }
    return found;
}

/* Whether a batch is in hand that is no suspect. */
static bool uplink_push_has_others(const struct uplink *u)
{
    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        if (u->slots[i].used && !u->slots[i].suspect) {
            return true;
        }
    }
    return false;
}

/* The first moment at which a batch may be sent again. */
static int64_t uplink_push_next_ns(const struct uplink *u, int64_t now_ns)
{
    int64_t next_ns = INT64_MAX;

    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        const struct uplink_slot *s = &u->slots[i];

        if (s->used && !s->call && s->again_ns > now_ns && s->again_ns < next_ns) {
            next_ns = s->again_ns;
        }
    }
    return next_ns;
}

/* Whether a suspect is under way: then nothing else begins. */
static bool uplink_push_tries_suspect(const struct uplink *u)
{
    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX; i++) {
        if (uplink_push_is_sent(&u->slots[i]) && u->slots[i].suspect) {
            return true;
        }
    }
    return false;
}

int64_t uplink_push_step(struct uplink *u)
{
    int64_t now_ns = os_mono_ns();
    struct uplink_slot *s;

    if (!u->greeted) {
        if (uplink_push_idle(u)) {
            (void)uplink_push_take(u); /* perhaps there is nothing left to be sent, ever */
        }
        return INT64_MAX;
    }
    if (uplink_push_tries_suspect(u)) {
        return INT64_MAX;
    }
    s = uplink_push_pick_suspect(u, now_ns, false);
    if (s) {
        if (uplink_push_count_sent(u) == 0) {
            uplink_push_send(u, s);
        }
        return uplink_push_next_ns(
            u, now_ns); /* it waits for the others' answers; then it goes alone */
    }
    for (size_t i = 0; i < OUTBOX_INFLIGHT_MAX && u->greeted; i++) {
        s = &u->slots[i];
        if (s->used && !s->call && !s->suspect && now_ns >= s->again_ns) {
            uplink_push_send(u, s);
        }
    }
    while (u->greeted && (s = uplink_push_take(u)) != NULL) {
        if (!s->suspect) {
            uplink_push_send(u, s);
        }
    }
    s = uplink_push_has_others(u) ? NULL : uplink_push_pick_suspect(u, now_ns, true);
    if (u->greeted && s) {
        uplink_push_send(u, s);
    }
    return uplink_push_next_ns(u, now_ns);
}
