/* Whatever a taker does with what the spool gives it, and whatever the spool must drop meanwhile:
 * every batch that was made durable is acknowledged, set aside or counted as lost, and nothing is
 * given twice within one run. And each run's account is whole: what was found and put is what was
 * done with, lies there or was lost. PROCFLEET_SEEDS says over how many seeds (60), PROCFLEET_SEED
 * which is the first. */
#include <stdlib.h>

#include "agent/spool/spool_disk.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "tests/agent/spool/spool_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"

enum { MADE_MAX = 1200, HANDS = 8, STEPS = 500 };
#define NOW_NS (1700000000 * CLK_S)
#define AGE_NS (7200 * CLK_S)

/* A row is a process at a tick. */
struct sums {
    uint64_t batches, rows, events;
};

struct hand {
    bool full;
    struct spool_taken taken;
    struct buf content;
};

struct trial {
    unsigned seed;
    uint64_t random;
    const char *dir;
    struct spool_disk *d;
    struct hand hands[HANDS];
    uint64_t made;
    bool seen[MADE_MAX + 1]; /* acknowledged or set aside */
    struct sums acked, told, aside, lost;
    struct {
        uint64_t found, put, done;
    } run;
    bool restarts; /* what was done with may come again */
    int64_t now_ns;
};

static struct buf made[MADE_MAX + 1]; /* batch by number */

static unsigned chance(struct trial *t, unsigned n)
{
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    return (unsigned)(t->random % n);
}

static void open_spool(struct trial *t)
{
    struct spool_disk_conf conf = {t->dir, fio_unsynced(), 128 << 10, AGE_NS};
    struct spool_disk_stats s;
    struct errmsg why = {""};

    if (spool_disk_open(&t->d, &conf, &why)) {
        fail_msg("seed %u: %s", t->seed, why.text);
    }
    spool_disk_stats(t->d, &s);
    memset(&t->run, 0, sizeof t->run);
    t->run.found = s.held;
}

/* The losses of one run; stats begin anew with the next. Nothing is in hand. */
static void add_losses(struct trial *t)
{
    struct spool_disk_stats s;
    uint64_t gone;

    spool_disk_stats(t->d, &s);
    gone = t->run.done + s.dropped.batches + s.expired.batches;
    if (t->run.found + t->run.put != gone + s.held) {
        fail_msg("seed %u: found %llu and put %llu, but %llu are gone and %llu held", t->seed,
                 (unsigned long long)t->run.found, (unsigned long long)t->run.put,
                 (unsigned long long)gone, (unsigned long long)s.held);
    }
    t->lost.batches += s.dropped.batches + s.expired.batches;
    t->lost.rows += s.dropped.rows + s.expired.rows;
    t->lost.events += s.dropped.events + s.expired.events;
    assert_int_equal(s.unreadable, 0);
}

static void make(struct trial *t)
{
    unsigned n = 1 + chance(t, 20);

    for (unsigned i = 0; i < n && t->made < MADE_MAX; i++) {
        const struct buf *b = &made[++t->made];

        assert_ok(spool_disk_add(t->d, t->now_ns, b->p, b->n));
        t->run.put++;
    }
    assert_ok(spool_disk_commit(t->d));
}

static struct hand *a_hand(struct trial *t, bool full)
{
    unsigned first = chance(t, HANDS);

    for (unsigned i = 0; i < HANDS; i++) {
        struct hand *h = &t->hands[(first + i) % HANDS];

        if (h->full == full) {
            return h;
        }
    }
    return NULL;
}

static bool take(struct trial *t)
{
    struct hand *h = a_hand(t, false);
    enum err e = h ? spool_disk_next(t->d, &h->content, &h->taken) : ERR_FULL;

    if (h && !e) {
        h->full = true;
    }
    return !e;
}

/* The batch went to the collector, or aside. */
static void let_go(struct trial *t, struct hand *h, struct sums *to)
{
    struct batch *b;

    assert_ok(wire_batch_decode(&b, h->taken.p, h->taken.n));
    if (t->seen[b->head.seq] && !t->restarts) {
        fail_msg("seed %u: batch %llu was given twice", t->seed, (unsigned long long)b->head.seq);
    }
    if (!t->seen[b->head.seq]) {
        to->batches++;
        to->events += b->n_events;
        for (size_t i = 0; i < b->n_runs; i++) {
            to->rows += b->runs[i].n_ticks;
        }
        t->told.rows += rig_told(b, "metrics_dropped");
        t->told.events += rig_told(b, "events_dropped");
    }
    t->seen[b->head.seq] = true;
    wire_batch_free(b);
    spool_disk_ack(t->d, &h->taken);
    t->run.done++;
    h->full = false;
}

static void put_back(struct trial *t, struct hand *h)
{
    spool_disk_return(t->d, &h->taken);
    h->full = false;
}

static void restart(struct trial *t)
{
    for (unsigned i = 0; i < HANDS; i++) {
        if (t->hands[i].full) {
            put_back(t, &t->hands[i]);
        }
    }
    add_losses(t);
    spool_disk_close(t->d);
    open_spool(t);
}

static void step(struct trial *t)
{
    struct hand *h = a_hand(t, true);
    unsigned what = chance(t, 32);

    t->now_ns += (int64_t)chance(t, 60) * CLK_S;
    if (what < 8) {
        make(t);
    } else if (what < 20) {
        (void)take(t);
    } else if (what < 28 && h) {
        let_go(t, h, &t->acked);
    } else if (what == 28 && h) {
        put_back(t, h);
    } else if (what == 29 && h) {
        let_go(t, h, &t->aside);
    } else if (what == 30) {
        spool_disk_expire(t->d, t->now_ns);
    } else if (what == 31 && t->restarts) {
        restart(t);
    }
}

static void drain(struct trial *t)
{
    struct hand *h;

    do {
        while ((h = a_hand(t, true)) != NULL) {
            let_go(t, h, &t->acked);
        }
    } while (take(t));
}

static void judge(const struct trial *t, const struct spool_disk_stats *s)
{
    uint64_t gone = t->acked.batches + t->aside.batches + t->lost.batches;

    if (s->held != 0 || s->held_bytes != 0) {
        fail_msg("seed %u: %llu batches are left", t->seed, (unsigned long long)s->held);
    }
    if (t->restarts ? gone < t->made : gone != t->made) {
        fail_msg("seed %u: %llu made, %llu acknowledged, %llu aside, %llu lost", t->seed,
                 (unsigned long long)t->made, (unsigned long long)t->acked.batches,
                 (unsigned long long)t->aside.batches, (unsigned long long)t->lost.batches);
    }
    if (!t->restarts) {
        assert_int_equal(t->acked.rows + t->aside.rows + t->told.rows + t->lost.rows,
                         t->made * RIG_ROWS);
        assert_int_equal(t->acked.events + t->aside.events + t->told.events + t->lost.events,
                         t->made * RIG_EVENTS);
    }
}

static void run(unsigned seed, struct sums *lost)
{
    char dir[256];
    struct trial *t = mem_zalloc(sizeof *t);
    struct spool_disk_stats s;

    assert_non_null(t);
    support_temp_dir(dir, sizeof dir);
    t->seed = seed;
    t->random = seed * 0x9e3779b97f4a7c15u + 1;
    t->dir = dir;
    t->restarts = seed % 3 == 0;
    t->now_ns = NOW_NS;
    for (unsigned i = 0; i < HANDS; i++) {
        buf_init(&t->hands[i].content, SPOOL_BATCH_MAX);
    }
    open_spool(t);
    for (unsigned i = 0; i < STEPS; i++) {
        step(t);
    }
    drain(t);
    add_losses(t);
    spool_disk_stats(t->d, &s);
    judge(t, &s);
    lost->batches += t->lost.batches;
    lost->rows += t->told.rows;
    spool_disk_close(t->d);
    for (unsigned i = 0; i < HANDS; i++) {
        buf_fini(&t->hands[i].content);
    }
    support_remove_dir(dir);
    mem_free(t);
}

static unsigned setting(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);

    return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

static void every_batch_is_acknowledged_set_aside_or_counted_as_lost(void **state)
{
    unsigned first = setting("PROCFLEET_SEED", 1), n = setting("PROCFLEET_SEEDS", 60);
    struct sums lost = {0};

    for (uint64_t i = 1; i <= MADE_MAX; i++) {
        buf_init(&made[i], SPOOL_BATCH_MAX);
        rig_batch(&made[i], 1, i);
    }
    for (unsigned seed = first; seed < first + n; seed++) {
        run(seed, &lost);
    }
    assert_true(lost.batches > 0 && lost.rows > 0); /* the spool had too little room, often */
    for (uint64_t i = 1; i <= MADE_MAX; i++) {
        buf_fini(&made[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_batch_is_acknowledged_set_aside_or_counted_as_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
