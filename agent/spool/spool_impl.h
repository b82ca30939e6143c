/* The inside of spool.c, which spool_hand.c shares. Nobody else includes this. */
#ifndef PROCFLEET_AGENT_SPOOL_SPOOL_IMPL_H
#define PROCFLEET_AGENT_SPOOL_SPOOL_IMPL_H

#include "agent/spool/dead_letter.h"
#include "agent/spool/spool.h"
#include "common/os/os.h"

struct waiting {
    struct waiting *next;
    uint64_t stream, seq;
    int64_t when_ns;
    int64_t since_ns; /* when the one before it was put: it holds what happened since */
    size_t n;
    uint8_t *p;
};

struct list {
    struct waiting *first, **end;
    uint64_t n, bytes;
};

enum hand_state {
    HAND_EMPTY,
    HAND_READY, /* for the reader */
    HAND_TAKEN,
    HAND_DONE, /* by the reader; the rest is the disk thread's */
    HAND_ASIDE,
};

struct hand {
    enum hand_state state;
    uint64_t order; /* in which they were filled */
    struct spool_taken taken;
    struct buf content;          /* unless it comes from memory: */
    struct waiting *from_memory; /* this one, */
    uint64_t from_quarantine;    /* or number of a file there; 0 = neither */
    bool doubted;                /* of the quarantine, because exchanges broke under it */
    enum outbox_cause cause;     /* of HAND_ASIDE */
    char why[QUARANTINE_WHY + 1];
};

struct spool {
    struct spool_conf conf;
    struct os_lock *dir_lock;
    struct os_thread *thread;

    /* of the disk thread alone */
    struct spool_disk *disk;
    struct dead_letter *quarantine;
    int64_t synced_ns, retry_ns, retry_pause_ns, expired_ns;
    bool tried; /* numbers may have reached the disk */
    bool memory_turn;

    struct os_mutex *lock; /* guards all below */
    struct os_cond *work;  /* for the disk thread */
    struct os_cond *news;  /* for the reader */
    struct list waiting;
    struct wire_encoder *encoder;
    struct buf renumbered;
    uint64_t stream, next_seq;
    int64_t put_ns; /* UTC, of the last batch; at first, of the start */
    bool ended, stopping;
    bool woken;   /* there is news for the reader */
    bool drained; /* ended, and the disk thread has found nothing to hand out */
    bool failing;
    uint64_t told_damage; /* of the disk, in the log */
    struct hand hands[OUTBOX_HANDS];
    uint64_t handed;
    bool stored_news;                             /* the reader has told: */
    uint64_t stored_stream, stored_seq, stored_n; /* and the answer */
    struct spool_stats stats;
};

/* -- spool.c; lock held -- */
void spool_list_init(struct list *l);
void spool_list_add(struct list *l, struct waiting *w);
struct waiting *spool_list_take(struct list *l);
void spool_list_move(struct list *to, struct list *from); /* all of it, behind what is there */
void spool_waiting_free(struct waiting *w);               /* NULL is allowed */
void spool_ring(struct spool *s);                         /* wakes the reader */

/* -- spool_hand.c: for the disk thread. Lock held, and given up where they say so -- */
/* Puts away what the reader is through with; given up meanwhile. */
void spool_hand_back(struct spool *s);
/* Fills one hand. False: nothing to fill it with, or enough is ready. Given up meanwhile. */
bool spool_hand_out(struct spool *s);
/* Answers outbox.stored; given up meanwhile. */
void spool_hand_stored(struct spool *s);
/* Before the end: what was not sent waits again, or stays on disk; given up meanwhile. */
void spool_hand_end(struct spool *s);
bool spool_hand_waits(const struct spool *s); /* for the disk thread */
/* Batches in hand that are not on disk; adds their bytes. Lock held. */
size_t spool_hand_memory(const struct spool *s, uint64_t *bytes);
/* Since when these hold what happened, UTC; 0: there are none. Lock held. */
int64_t spool_hand_since(const struct spool *s);

#endif
