/* The store against kill -9, again and again: a child opens it, recovers, puts batches of three
 * hosts and tells every acknowledgement through a pipe; the parent kills it at a random moment, at
 * times while it still recovers, opens the same directory and looks: every batch acknowledged in
 * any life is in the answers once, and nothing is there twice. In every other life the child's file
 * layer keeps what is not synced in its own memory, so that the kill is a power cut.
 *
 * The child's clock is that of its data, which runs some thousand times faster than ours: windows
 * are sealed, hours compacted and old segments dropped all the time. What retention may have
 * dropped is not asked for, only that it is not there twice.
 *
 * PROCFLEET_KILLS (40) and PROCFLEET_SEED (1) in the environment. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/os.h"
#include "tests/support/draw.h"
#include "tests/support/fio_fault.h"
#include "tests/support/store_rig.h"
#include "tests/support/t.h"

#define HOSTS  3
#define AHEAD  40    /* batches of a host that a life may put */
#define LIVES  100   /* of one directory: recovery grows with all that was stored */
#define ALL    20000 /* batches of a host in so many lives */
#define WINDOW 12    /* put and not answered */
#define TICKS  80    /* of a batch */
#define SECOND 1000000000LL
#define HOUR   (3600 * SECOND)
#define KEPT   (4 * HOUR) /* of everything; of rows half of it */

struct ack {
    uint32_t host;
    uint32_t i;
};

static struct rig rig;
static struct fleetgen *gen[HOSTS];
static struct rig_batch batch[HOSTS][AHEAD]; /* those from first[] on, not all acknowledged */
static uint32_t first[HOSTS];
static bool acknowledged[HOSTS][ALL];
static int64_t made[HOSTS][ALL]; /* when the batch was received */
static uint8_t found[HOSTS][ALL];
static uint64_t rng;

static void set_up(void)
{
    memset(first, 0, sizeof first);
    memset(acknowledged, 0, sizeof acknowledged);
    memset(made, 0, sizeof made);
    rig_init(&rig);
    rig.conf.fio = fio_os();
    rig.conf.accept_age_ns = 1000 * HOUR;
    rig.conf.seal_poll_ns = SECOND / 1000;
    for (unsigned k = SEG_RAW; k < SEG_KINDS; k++) {
        rig.conf.retain.age_ns[k] = k == SEG_REST ? KEPT : KEPT / 2;
    }
    for (uint32_t h = 0; h < HOSTS; h++) {
        gen[h] = rig_host(h + 1);
        for (uint32_t i = 0; i < AHEAD; i++) {
            rig_batch(&batch[h][i], gen[h], TICKS);
            made[h][i] = batch[h][i].received_ns;
        }
    }
}

/* Batch i of all lives is in slot i % AHEAD; acknowledged ones at the front make room. */
static void refill(uint32_t h)
{
    while (acknowledged[h][first[h]] && first[h] + AHEAD + 1 < ALL) {
        struct rig_batch *b = &batch[h][first[h] % AHEAD];

        rig_batch_fini(b);
        rig_batch(b, gen[h], TICKS);
        made[h][first[h] + AHEAD] = b->received_ns;
        first[h]++;
    }
}

/* -- the child -- */

static int tell;
static struct os_mutex *lock;
static struct os_cond *answered;
static unsigned under_way;

static void report(const struct ack *a)
{
    if (write(tell, a, sizeof *a) != sizeof *a) { /* whole: far below PIPE_BUF */
        _exit(3);
    }
}

static void on_done(void *ctx, enum err e)
{
    if (e != ERR_OK) {
        _exit(4);
    }
    report(ctx);
    os_mutex_lock(lock);
    under_way--;
    os_cond_wake(answered);
    os_mutex_unlock(lock);
}

/* Everything that is due is done before the parent hears of it. */
static void seal_all(void)
{
    const struct ack sealed = {HOSTS, 0};

    os_mutex_lock(lock);
    while (under_way > 0) {
        os_cond_wait(answered);
    }
    os_mutex_unlock(lock);
    if (store_seal_now(rig.store, INT64_MIN) != ERR_OK) {
        _exit(6);
    }
    report(&sealed);
}

static void child(bool power_cut, bool thorough)
{
    static struct ack acks[HOSTS][AHEAD]; /* for the store to give back */
    struct fio_fault *f;

    if (power_cut) {
        assert_ok(fio_fault_create(&f));
        rig.conf.fio = fio_fault_fio(f);
    }
    assert_ok(os_mutex_create(&lock));
    assert_ok(os_cond_create(&answered, lock));
    rig_open(&rig);
    for (uint32_t k = 0; k < AHEAD; k++) {
        for (uint32_t h = 0; h < HOSTS; h++) {
            uint32_t i = first[h] + k;
            struct ack *a = &acks[h][k];
            enum err e;

            *a = (struct ack){h, i};
            os_mutex_lock(lock);
            while (under_way >= WINDOW) {
                os_cond_wait(answered);
            }
            under_way++;
            os_mutex_unlock(lock);
            if (batch[h][i % AHEAD].received_ns > rig_now()) {
                rig_set_now(batch[h][i % AHEAD].received_ns);
            }
            e = rig_put_async(&rig, &batch[h][i % AHEAD], on_done, a);
            while (e == ERR_FULL) { /* sealing is behind */
                os_sleep_ns(SECOND / 1000);
                e = rig_put_async(&rig, &batch[h][i % AHEAD], on_done, a);
            }
            if (e == ERR_EXISTS) {
                on_done(a, ERR_OK); /* acknowledged as a duplicate */
            } else if (e != ERR_OK) {
                _exit(5);
            }
        }
    }
    if (thorough) {
        seal_all();
    }
    for (;;) {
        pause();
    }
}

/* -- the parent -- */

static void note(const struct ack *a)
{
    assert_true(a->host <= HOSTS && a->i < ALL);
    if (a->host < HOSTS) { /* else: all is sealed */
        acknowledged[a->host][a->i] = true;
    }
}

/* Reads acknowledgements until `want` came, then kills; what was told before death still counts. */
static unsigned kill_after(pid_t pid, int from, unsigned want)
{
    struct ack a;
    unsigned n = 0;

    while (n < want && read(from, &a, sizeof a) == sizeof a) {
        note(&a);
        n++;
    }
    os_sleep_ns(draw(&rng, draw(&rng, 3) ? 400000 : 4000) * 1000LL); /* long enough to seal */
    assert_int_equal(kill(pid, SIGKILL), 0);
    while (read(from, &a, sizeof a) == sizeof a) {
        note(&a);
        n++;
    }
    return n;
}

static unsigned one_life(bool power_cut, bool thorough)
{
    int fds[2], status;
    unsigned n;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(fds[0]);
        tell = fds[1];
        child(power_cut, thorough);
    }
    close(fds[1]);
    n = kill_after(pid, fds[0],
                   thorough        ? HOSTS * AHEAD + 1
                   : draw(&rng, 3) ? 1 + draw(&rng, HOSTS * AHEAD - 1)
                                   : 0);
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return n;
}

static enum err count_batch(void *ctx, const struct batch *b)
{
    uint32_t *h = ctx;

    assert_true(b->head.seq >= 1 && b->head.seq <= ALL);
    found[*h][b->head.seq - 1]++;
    return ERR_OK;
}

/* That all of it took place. */
static uint64_t segments, dropped, hours;

static void count_sealing(void)
{
    struct store_room room;

    store_room(rig.store, &room);
    segments += room.kind[SEG_RAW].files;
    hours += room.kind[SEG_1H].files;
    dropped += room.kind[SEG_REST].oldest_ns > RIG_T0;
}

static void look(void)
{
    int64_t newest = 0;
    struct store_stats stats;
    struct store_view *v;

    memset(found, 0, sizeof found);
    rig.conf.fio = fio_os();
    rig_open(&rig);
    store_stats(rig.store, &stats);
    assert_int_equal(stats.bad_records, 0);
    assert_ok(store_view_open(&v, rig.store));
    for (size_t i = 0; i < store_view_hosts(v); i++) {
        uint32_t h = 0;

        while (strcmp(store_view_host(v, i)->name, batch[h][0].host_name) != 0) {
            h++;
            assert_true(h < HOSTS);
        }
        rig_each(v, i, count_batch, &h);
    }
    store_view_close(v);
    count_sealing();
    rig_close(&rig);
    for (uint32_t h = 0; h < HOSTS; h++) {
        int64_t last = made[h][first[h] + AHEAD - 1];

        newest = last > newest ? last : newest;
    }
    for (uint32_t h = 0; h < HOSTS; h++) {
        for (uint32_t i = 0; i < first[h] + AHEAD; i++) {
            bool must = acknowledged[h][i] && made[h][i] > newest - KEPT + HOUR;

            assert_in_range(found[h][i], must, 1);
        }
    }
}

static void tear_down(void)
{
    for (uint32_t h = 0; h < HOSTS; h++) {
        for (uint32_t i = 0; i < AHEAD; i++) {
            rig_batch_fini(&batch[h][i]);
        }
        fleetgen_destroy(gen[h]);
    }
    rig_fini(&rig);
}

static unsigned long many_lives(unsigned lives)
{
    unsigned long acks = 0;

    set_up();
    for (unsigned life = 0; life < lives; life++) {
        acks += one_life(life % 2, life % 7 == 3);
        look();
        for (uint32_t h = 0; h < HOSTS; h++) {
            refill(h);
        }
    }
    tear_down();
    return acks;
}

static void every_acknowledged_batch_is_there_once_after_every_kill(void **state)
{
    const char *kills = getenv("PROCFLEET_KILLS"), *seed = getenv("PROCFLEET_SEED");
    unsigned all = kills ? (unsigned)strtoul(kills, NULL, 10) : 40;
    unsigned long acks = 0;

    rng = seed ? strtoull(seed, NULL, 10) : 1;
    for (unsigned done = 0; done < all; done += LIVES) {
        acks += many_lives(all - done < LIVES ? all - done : LIVES);
    }
    print_message("%u kills, %lu acknowledgements, none lost, none twice\n", all, acks);
    assert_true(acks > 0 && segments > 0);
    assert_true(all < 30 || (hours > 0 && dropped > 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_acknowledged_batch_is_there_once_after_every_kill),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
