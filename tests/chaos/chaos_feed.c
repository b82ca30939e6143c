/* The feed against kill -9, again and again: a child opens store and journal, makes up what the
 * journal lacks, and stores batches of three hosts, telling every acknowledgement through a pipe;
 * windows are sealed all the time. The parent kills it at a random moment, opens both, lets the
 * feed start, and looks: the events of every batch acknowledged in any life are in the journal,
 * all of them and once. In every other life the kill is a power cut.
 *
 * PROCFLEET_KILLS (20) and PROCFLEET_SEED (1) in the environment. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collector/subscribe/feed.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "common/wire/wire_query.h"
#include "tests/support/draw.h"
#include "tests/support/fio_fault.h"
#include "tests/support/store_rig.h"
#include "tests/support/t.h"

#define HOSTS 3
#define EACH  400 /* batches of a host, all lives */
#define LIFE  40  /* of which one life tries so many */
#define TICKS 30
#define HOUR  (3600 * CLK_S)

struct ack {
    uint32_t host, i;
};

static struct rig rig;
static char feed_dir[300];
static struct rig_batch batch[HOSTS][EACH];
static size_t events[HOSTS][EACH];
static bool acknowledged[HOSTS][EACH];
static uint64_t rng;

static struct journal *journal;
static struct feed *feed;
static int tell; /* the child's end of the pipe */

/* -- store, journal and feed -- */

static void on_stored(void *ctx, const struct store_stored *s)
{
    (void)ctx;
    if (feed) {
        feed_stored(feed, s);
    }
}

static bool before_forget(void *ctx)
{
    (void)ctx;
    return feed && feed_keep(feed);
}

static void send_nothing(void *ctx, const struct str *list, size_t n)
{
    (void)ctx;
    (void)list;
    (void)n;
}

static unsigned nobody(void *ctx)
{
    (void)ctx;
    return 0;
}

static void open_all(const struct fio *fio)
{
    struct journal_conf of_journal = {
        .dir = feed_dir, .fio = fio, .max_bytes = 256u << 20, .hosts_max = HOSTS};
    struct feed_conf conf = {
        .queue_bytes = 64u << 20, .hosts_max = HOSTS, .send = send_nothing, .listeners = nobody};
    struct feed *made;
    struct errmsg why = {""};

    rig.conf.fio = fio;
    rig.conf.on_stored = on_stored;
    rig.conf.before_forget = before_forget;
    rig.conf.seal_poll_ns = HOUR; /* when it is said */
    rig_open(&rig);
    assert_ok(journal_open(&journal, &of_journal, &why));
    conf.journal = journal;
    conf.epoch = journal_epoch(journal);
    assert_ok(feed_create(&made, &conf));
    assert_ok(feed_start(made, rig.store));
    feed = made;
}

static void close_all(void)
{
    feed_stop(feed);
    rig_close(&rig);
    feed_destroy(feed);
    feed = NULL;
    journal_close(journal);
}

/* -- the child -- */

static void on_done(void *ctx, enum err e)
{
    if (e != ERR_OK || write(tell, ctx, sizeof(struct ack)) != sizeof(struct ack)) {
        _exit(4);
    }
}

static void child(bool power_cut, unsigned life)
{
    static struct ack acks[HOSTS][EACH];
    struct fio_fault *f;
    unsigned tried[HOSTS] = {0};

    if (power_cut) {
        assert_ok(fio_fault_create(&f));
    }
    open_all(power_cut ? fio_fault_fio(f) : fio_os());
    for (uint32_t i = 0; i < EACH; i++) {
        for (uint32_t h = 0; h < HOSTS; h++) {
            struct rig_batch *b = &batch[h][i];
            enum err e;

            if (acknowledged[h][i] || tried[h] == LIFE) {
                continue;
            }
            tried[h]++;
            b->received_ns = RIG_T0 + life * HOUR + i * CLK_S; /* it comes now */
            rig_set_now(b->received_ns + HOUR / 2);
            acks[h][i] = (struct ack){h, i};
            e = rig_put_async(&rig, b, on_done, &acks[h][i]);
            if (e == ERR_EXISTS) {
                on_done(&acks[h][i], ERR_OK);
            } else if (e != ERR_OK) {
                _exit(5);
            }
            if (tried[h] % 16 == 7 && store_seal_now(rig.store, INT64_MAX) != ERR_OK) {
                _exit(6);
            }
        }
    }
    for (;;) {
        pause();
    }
}

/* -- the parent -- */

/* What the next life will put. */
static unsigned left_over(void)
{
    unsigned n = 0;

    for (uint32_t h = 0; h < HOSTS; h++) {
        unsigned of_host = 0;

        for (uint32_t i = 0; i < EACH && of_host < LIFE; i++) {
            of_host += !acknowledged[h][i];
        }
        n += of_host;
    }
    return n;
}

static void one_life(unsigned life)
{
    unsigned want = 1 + draw(&rng, left_over());
    int fds[2], status;
    struct ack a;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(fds[0]);
        tell = fds[1];
        child(life % 2, life);
    }
    close(fds[1]);
    for (unsigned n = 0; n < want && read(fds[0], &a, sizeof a) == sizeof a; n++) {
        acknowledged[a.host][a.i] = true;
    }
    os_sleep_ns(draw(&rng, 60) * CLK_MS);
    assert_int_equal(kill(pid, SIGKILL), 0);
    while (read(fds[0], &a, sizeof a) == sizeof a) {
        acknowledged[a.host][a.i] = true;
    }
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static uint32_t host_of(const char *name)
{
    uint32_t h = 0;

    while (strcmp(batch[h][0].host_name, name) != 0) {
        h++;
        assert_true(h < HOSTS);
    }
    return h;
}

/* Events of whole batches, by what the journal says of its records and by what is in them. */
static void look(void)
{
    static uint8_t found[HOSTS][EACH];
    size_t said[HOSTS] = {0}, held[HOSTS] = {0};
    struct journal_record r;
    struct buf b;
    uint64_t from = 0;

    memset(found, 0, sizeof found);
    buf_init(&b, JOURNAL_PAYLOAD_MAX);
    open_all(fio_os());
    while (journal_next(journal, &from, NULL, NULL, &r, &b) == ERR_OK) {
        uint32_t h = host_of(r.name);
        struct wire_update *u;

        assert_ok(wire_update_decode(&u, b.p, b.n));
        held[h] += u->data.n_events;
        for (uint64_t seq = r.batch; seq <= r.last_batch && !r.more; seq++) {
            found[h][seq - 1]++;
            said[h] += events[h][seq - 1];
        }
        wire_update_free(u);
        buf_reset(&b);
    }
    close_all();
    buf_fini(&b);
    for (uint32_t h = 0; h < HOSTS; h++) {
        assert_int_equal(held[h], said[h]);
        for (uint32_t i = 0; i < EACH; i++) {
            bool must = acknowledged[h][i] && events[h][i] > 0;

            assert_in_range(found[h][i], must, 1);
        }
    }
}

static void begin_anew(void)
{
    rig_init(&rig);
    rig.conf.accept_age_ns = 100000 * HOUR;
    snprintf(feed_dir, sizeof feed_dir, "%s/feed", rig.dir);
    memset(acknowledged, 0, sizeof acknowledged);
}

static void every_acknowledged_event_is_journalled_once_after_every_kill(void **state)
{
    const char *kills = getenv("PROCFLEET_KILLS"), *seed = getenv("PROCFLEET_SEED");
    unsigned lives = kills ? (unsigned)strtoul(kills, NULL, 10) : 20;
    struct fleetgen *gen[HOSTS];

    rng = seed ? strtoull(seed, NULL, 10) : 1;
    begin_anew();
    for (uint32_t h = 0; h < HOSTS; h++) {
        gen[h] = rig_host(h + 1);
        for (uint32_t i = 0; i < EACH; i++) {
            struct batch *b;

            rig_batch(&batch[h][i], gen[h], TICKS);
            assert_ok(wire_batch_decode(&b, batch[h][i].bytes, batch[h][i].n));
            events[h][i] = b->n_events;
            wire_batch_free(b);
        }
    }
    for (unsigned life = 0; life < lives; life++) {
        one_life(life);
        look();
        if (left_over() == 0) {
            rig_fini(&rig);
            begin_anew();
        }
    }
    for (uint32_t h = 0; h < HOSTS; h++) {
        for (uint32_t i = 0; i < EACH; i++) {
            rig_batch_fini(&batch[h][i]);
        }
        fleetgen_destroy(gen[h]);
    }
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_acknowledged_event_is_journalled_once_after_every_kill),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
