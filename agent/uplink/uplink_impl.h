/* The inside of the uplink: uplink.c has the thread, start and end; uplink_talk.c connection, Hello
 * and Heartbeat; uplink_push.c the batches. Only these three include it. */
#ifndef PROCFLEET_AGENT_UPLINK_UPLINK_IMPL_H
#define PROCFLEET_AGENT_UPLINK_UPLINK_IMPL_H

#include "agent/spool/outbox.h"
#include "agent/uplink/uplink_status.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "common/rpc/rpc.h"
#include "common/wire/wire_rpc.h"

#define UPLINK_CALL_NS      (10 * CLK_S)
#define UPLINK_PAUSE_MIN_NS (100 * CLK_MS)
#define UPLINK_PAUSE_MAX_NS (30 * CLK_S)
#define UPLINK_DOUBT_NS     (120 * CLK_S)
#define UPLINK_HOME_NS      (600 * CLK_S)

/* Pauses between attempts to connect are chosen by chance below a bound that doubles up to this
 * one. It decides how long after a collector's return the last of a fleet is back. */
#define UPLINK_RECONNECT_MAX_NS (8 * CLK_S)
/* The same where TLS refuses us: only somebody's doing changes that, and each attempt is a line in
 * the collector's log. */
#define UPLINK_REFUSED_MAX_NS (60 * CLK_S)

/* A batch in hand. */
struct uplink_slot {
    bool used;
    struct outbox_item item;
    struct rpc_pending *call; /* NULL: not under way */
    size_t client;            /* which it went to, */
    uint64_t connection;      /* over this one */
    bool alone;               /* nothing else has been under way with it */
    int64_t again_ns;         /* not before, monotonic */
    int64_t pause_ns;         /* after the next failure */

    /* Of a suspect (see uplink_push.c): */
    bool suspect;
    bool proved;      /* when it was sent, the collector had just shown that it takes batches */
    unsigned faults;  /* that count against it, */
    int64_t doubt_ns; /* since then, monotonic */
    uint64_t taken;   /* u->taken at its last failure */
};

enum uplink_talk { TALK_NONE, TALK_HELLO, TALK_BEAT };

struct uplink {
    struct outbox outbox;
    struct wire_hello hello;
    int64_t heartbeat_ns, call_ns, pause_max_ns, doubt_ns, home_ns;
    void (*limit)(void *ctx, size_t bytes);
    void (*events)(void *ctx, bool kept);
    int64_t (*utc_ns)(void *ctx);
    size_t (*facts)(void *ctx, uint8_t *out, bool *changed);
    void *ctx;
    struct rpc_client *clients[UPLINK_ADDRESSES_MAX];
    char *addresses[UPLINK_ADDRESSES_MAX];
    size_t n_clients;
    struct os_thread *thread;

    /* of the thread alone */
    uint64_t chance;                      /* state of the generator */
    size_t current;                       /* client in use */
    uint64_t connection;                  /* of that client, which Hello was said on */
    uint64_t stale[UPLINK_ADDRESSES_MAX]; /* the clients' connections that were given up */
    bool patient[UPLINK_ADDRESSES_MAX];   /* the clients that make long pauses */
    bool settled;   /* the first address had its time: any that is connected will do */
    bool greeted;   /* Hello succeeded and nothing failed since */
    bool facts_due; /* they have changed since they were told */
    enum uplink_talk talk;
    struct rpc_pending *talk_call;
    int64_t talk_mono_ns; /* what it said */
    int64_t greet_ns;     /* not before, monotonic */
    int64_t pause_ns; /* after the next failure; small again only when a batch is acknowledged */
    unsigned futile;  /* exchanges that broke since */
    unsigned busy;    /* Hellos in a row that the collector was too busy for */
    size_t full;      /* collectors in a row that said `elsewhere` */
    int64_t again_home_ns; /* not at the first address: when it is tried again */
    int64_t beat_ns;       /* when a Heartbeat is due */
    int64_t clock_ns;      /* when one is due although batches go: it is the clocks' exchange */
    int64_t look_ns, look_pause_ns; /* at why nobody answers */
    unsigned timeouts;              /* in a row */
    struct uplink_slot slots[OUTBOX_INFLIGHT_MAX];
    size_t in_flight;   /* what the collector takes at once */
    bool ended_outbox;  /* the outbox has nothing and never will */
    uint64_t taken;     /* batches that the collector took; */
    bool carried;       /* the last one since Hello was said, over this connection */
    size_t max_message; /* the collector's; 0 = not known */
    struct buf request, reply;

    struct os_mutex *lock; /* guards all below */
    bool stopping;
    bool refresh; /* uplink_refresh was called */
    int64_t until_ns;
    int64_t broke_ns[UPLINK_BREAKS]; /* when connections broke, in a circle; 0 = none */
    size_t n_broke;                  /* ever */
    struct uplink_status status;
};

/* -- uplink.c -- */
/* `ns`, and up to as much again by chance: a fleet must not act in one moment. */
int64_t uplink_chance(struct uplink *u, int64_t ns);
int64_t uplink_growing(struct uplink *u, int64_t *pause_ns); /* the pause, then twice as long */
int64_t uplink_time_left(struct uplink *u);                  /* until the thread has to end */
void uplink_woken(void *ctx);                                /* wakes the thread; from any */
/* One log line when the state changes. why: of unreachable and refused. */
void uplink_set_state(struct uplink *u, enum uplink_state state, const char *why);
/* The collector cannot take this now: it says so, or is about something else. */
bool uplink_is_busy(enum rpc_code code);
int64_t uplink_retry_ns(struct uplink *u, const struct rpc_result *result); /* when, monotonic */

/* -- uplink_talk.c -- */
/* Says Hello and Heartbeat as they are due; gives the moment at which it wants to be called. */
int64_t uplink_talk_step(struct uplink *u);
/* An exchange failed with e: Hello comes first, at the next address if this one has gone. */
void uplink_talk_failed(struct uplink *u, enum err e, const struct rpc_result *result);
void uplink_talk_succeeded(struct uplink *u, const char *what); /* an exchange */
void uplink_talk_progress(struct uplink *u);                    /* a batch got through */

/* -- uplink_push.c -- */
void uplink_push_collect(struct uplink *u); /* what has ended */
int64_t uplink_push_step(struct uplink *u); /* sends; when it wants to be called */
/* The collector holds all of the stream up to this number; what is in hand of it is done. */
size_t uplink_push_stored(struct uplink *u, uint64_t stream, uint64_t last_seq);

#endif
