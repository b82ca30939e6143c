/* Order of locks: ours before NNG's lock of a connection, because clearing closes streams while it
 * holds ours; that is what keeps them alive, since conn_limits_leave waits for it. So nothing that
 * runs under NNG's lock of a connection may take ours: what the engine reports from there is
 * atomic, and who was let in is taken off the list of those that wait at the next clearing.
 *
 * Who must go when places are short: the longest there first, but only who has not brought its
 * handshake forward for a while. Handshakes have a handful of steps, so a stranger cannot keep its
 * place by trickling bytes. How long the while is depends on ourselves: when a whole fleet comes
 * back at once, it is we who keep them waiting, and sending some away would only make more work. So
 * the janitor measures how late we are, and who waits no longer than that is left alone. */
#include "common/net/conn_limits.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <nng/nng.h>

#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define BUCKETS   256u
#define WAIT_MAX  (10 * CLK_S)   /* of any connection; NNG gives up then as well */
#define STALL_MAX (500 * CLK_MS) /* without a step, in a place that is needed; */
#define STALL_MIN (100 * CLK_MS) /* when newcomers are about to be turned away */

struct conn_limits {
    atomic_uint refs;
    struct conn_limits_conf conf;
    atomic_uint waiting;
    atomic_ullong counts[NET_CAUSES];
    uint64_t seed;         /* so that addresses cannot be chosen to share a bucket */
    struct os_mutex *lock; /* guards what follows */
    struct os_cond *work;
    bool woken;
    bool pressed;   /* the janitor knows that places are short, and looks often */
    unsigned going; /* of those waiting: sent away, not gone yet */
    struct conn_limits_member *oldest, *newest;
    struct conn_limits_member *near[BUCKETS];
};

enum err conn_limits_create(struct conn_limits **out, const struct conn_limits_conf *conf)
{
    struct conn_limits *c = mem_zalloc(sizeof *c);
    enum err e;

    if (!c) {
        return ERR_NOMEM;
    }
    atomic_init(&c->refs, 1);
    c->conf = *conf;
    e = os_random(&c->seed, sizeof c->seed);
    if (!e) {
        e = os_mutex_create(&c->lock);
    }
    if (!e) {
        e = os_cond_create(&c->work, c->lock);
    }
    if (e) {
        conn_limits_release(c);
        return e;
    }
    *out = c;
    return ERR_OK;
}

struct conn_limits *conn_limits_hold(struct conn_limits *c)
{
    if (c) {
        atomic_fetch_add(&c->refs, 1);
    }
    return c;
}

void conn_limits_release(struct conn_limits *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) != 1) {
        return;
    }
    os_cond_destroy(c->work);
    os_mutex_destroy(c->lock);
    mem_free(c);
}

/* -- coming and going -- */

/* "192.0.2.1:4711" becomes "192.0.2.1"; "[2001:db8:1:2:3:4:5:6]:4711" becomes "[2001:db8:1:2",
 * because the owner of one address of a /64 has them all. */
static void place_of(char *place, size_t size, const char *address)
{
    const char *end = strrchr(address, ':');

    if (address[0] == '[') {
        end = address;
        for (int groups = 0; groups < 4 && end; groups++) {
            end = strchr(end + 1, ':');
        }
    }
    snprintf(place, size, "%.*s", end ? (int)(end - address) : 0, address);
}

static struct conn_limits_member **bucket_of(struct conn_limits *c, const char *place)
{
    return &c->near[hash_bytes(place, strlen(place), c->seed) % BUCKETS];
}

/* The lock is held. */
static unsigned count_near(struct conn_limits *c, const char *place)
{
    unsigned n = 0;

    for (const struct conn_limits_member *m = *bucket_of(c, place); m; m = m->next_near) {
        n += strcmp(m->place, place) == 0;
    }
    return n;
}

/* How many wait, those on their way out not counted. The lock is held. */
static int64_t waiting(const struct conn_limits *c)
{
    /* Signed: one that was sent away may be let in at the same moment. */
    return (int64_t)atomic_load(&c->waiting) - (int64_t)c->going;
}

/* More wait than there are places. The lock is held. */
static bool crowded(const struct conn_limits *c)
{
    return waiting(c) > (int64_t)c->conf.waiting_max;
}

/* Places, and what may be taken beyond while the janitor makes room. */
static int64_t waiting_limit(const struct conn_limits *c)
{
    int64_t max = c->conf.waiting_max;

    return max + (max > 0 ? max / 2 + 1 : 0);
}

/* The lock is held. */
static void link_member(struct conn_limits *c, struct conn_limits_member *m)
{
    struct conn_limits_member **bucket = bucket_of(c, m->place);

    m->next_near = *bucket;
    m->at_near = bucket;
    if (m->next_near) {
        m->next_near->at_near = &m->next_near;
    }
    *bucket = m;
    m->older = c->newest;
    if (c->newest) {
        c->newest->newer = m;
    } else {
        c->oldest = m;
    }
    c->newest = m;
    m->listed = true;
}

/* From the list of those that wait. The lock is held. */
static void unlist(struct conn_limits *c, struct conn_limits_member *m)
{
    if (!m->listed) {
        return;
    }
    if (m->older) {
        m->older->newer = m->newer;
    } else {
        c->oldest = m->newer;
    }
    if (m->newer) {
        m->newer->older = m->older;
    } else {
        c->newest = m->older;
    }
    m->listed = false;
}

/* The lock is held. */
static const char *no_room(struct conn_limits *c, const char *place)
{
    if (waiting(c) >= waiting_limit(c) || atomic_load(&c->waiting) >= 2 * waiting_limit(c)) {
        return "too many handshakes under way";
    }
    if (c->conf.same_address_max > 0 && count_near(c, place) >= c->conf.same_address_max) {
        return "too many connections from one address";
    }
    return NULL;
}

const char *conn_limits_enter(struct conn_limits *c, struct conn_limits_member *m, void *stream,
                              const char *address)
{
    const char *reason;

    if (!c) {
        return NULL;
    }
    place_of(m->place, sizeof m->place, address);
    m->stream = stream;
    m->since_ns = os_mono_ns();
    atomic_store(&m->moved_ns, m->since_ns);
    os_mutex_lock(c->lock);
    reason = no_room(c, m->place);
    if (!reason) {
        assert(!m->crowd);
        m->crowd = c;
        link_member(c, m);
        atomic_fetch_add(&c->waiting, 1);
        if (crowded(c) && !c->pressed) {
            c->pressed = c->woken = true;
            os_cond_wake_all(c->work);
        }
    }
    os_mutex_unlock(c->lock);
    return reason;
}

void conn_limits_moved(struct conn_limits_member *m)
{
    if (m->crowd) {
        atomic_store(&m->moved_ns, os_mono_ns());
    }
}

void conn_limits_let_in(struct conn_limits_member *m)
{
    if (m->crowd && !atomic_exchange(&m->in, true)) {
        atomic_fetch_sub(&m->crowd->waiting, 1);
    }
}

const char *conn_limits_leave(struct conn_limits_member *m)
{
    struct conn_limits *c = m->crowd;

    if (!c) {
        return NULL;
    }
    os_mutex_lock(c->lock);
    assert(*m->at_near == m);
    unlist(c, m);
    *m->at_near = m->next_near;
    if (m->next_near) {
        m->next_near->at_near = m->at_near;
    }
    assert(!m->sent_away || c->going > 0);
    c->going -= m->sent_away ? 1 : 0;
    if (!atomic_load(&m->in)) {
        atomic_fetch_sub(&c->waiting, 1);
    }
    os_mutex_unlock(c->lock);
    m->crowd = NULL;
    return m->sent_away;
}

/* -- the janitor's -- */

void conn_limits_wait(struct conn_limits *c, int64_t mono_ns)
{
    os_mutex_lock(c->lock);
    while (!c->woken && os_cond_wait_until(c->work, mono_ns) != ERR_TIMEOUT) {
    }
    c->woken = false;
    os_mutex_unlock(c->lock);
}

void conn_limits_wake(struct conn_limits *c)
{
    os_mutex_lock(c->lock);
    c->woken = true;
    os_cond_wake_all(c->work);
    os_mutex_unlock(c->lock);
}

/* How long one may wait without a step: the shorter, the more of the room for newcomers is taken.
 * The lock is held. */
static int64_t patience_ns(const struct conn_limits *c)
{
    int64_t room = waiting_limit(c) - c->conf.waiting_max;
    int64_t taken = waiting(c) - (int64_t)c->conf.waiting_max;

    taken = taken < 0 ? 0 : taken > room ? room : taken;
    return STALL_MAX - (STALL_MAX - STALL_MIN) * taken / room;
}

/* Why this one must go now, or NULL. The lock is held. */
static const char *must_go(const struct conn_limits *c, const struct conn_limits_member *m,
                           int64_t now_ns, int64_t lag_ns)
{
    int64_t idle_ns = now_ns - atomic_load(&m->moved_ns);

    if (now_ns - m->since_ns > WAIT_MAX) {
        return "handshake not finished in time";
    }
    if (crowded(c) && idle_ns > patience_ns(c) + 2 * lag_ns) {
        return "handshake did not go on, and its place was needed";
    }
    return NULL;
}

bool conn_limits_clear(struct conn_limits *c, int64_t now_ns, int64_t lag_ns)
{
    struct conn_limits_member *next;
    bool pressed;

    os_mutex_lock(c->lock);
    for (struct conn_limits_member *m = c->oldest; m; m = next) {
        next = m->newer;
        if (atomic_load(&m->in)) {
            unlist(c, m);
            continue;
        }
        m->sent_away = must_go(c, m, now_ns, lag_ns);
        if (m->sent_away) {
            c->going++;
            unlist(c, m);
            nng_stream_close(m->stream);
        }
    }
    pressed = crowded(c);
    c->pressed = pressed;
    os_mutex_unlock(c->lock);
    return pressed;
}

void conn_limits_count(struct conn_limits *c, enum net_cause cause)
{
    if (c) {
        atomic_fetch_add(&c->counts[cause], 1);
    }
}

uint64_t conn_limits_counted(const struct conn_limits *c, enum net_cause cause)
{
    return atomic_load(&c->counts[cause]);
}
