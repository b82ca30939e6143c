/* What a subscriber is told of messages that it did not get. */
#include "collector/subscribe/subscriptions.h"

#include "common/base/mem.h"
#include "common/os/fio.h"
#include "common/os/os.h"
#include "tests/collector/feed_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/t.h"

static struct feed_rig rig;

static void drops_are_counted_for_whom_they_concern(void **state)
{
    struct feed_rig_client all = feed_rig_subscriber("all"), web = feed_rig_subscriber("web"),
                           none = feed_rig_subscriber("none");

    (void)state;
    web.scope = "web-*";
    none.scope = "nobody";
    assert_err(feed_rig_poll(&rig, &all, true), ERR_END);
    assert_err(feed_rig_poll(&rig, &web, true), ERR_END);
    assert_err(feed_rig_poll(&rig, &none, true), ERR_END);
    feed_rig_events(&rig, "web-1", 1, 5, "x");
    feed_rig_events(&rig, "db-1", 10, 5, "x");
    feed_rig_flood(&rig);
    for (int i = 0; i < 2; i++) { /* told as long as it is not acknowledged */
        assert_ok(feed_rig_poll(&rig, &all, false));
        assert_int_equal(all.dropped_now, 2);
        assert_int_equal(all.dropped, 2);
    }
    assert_ok(feed_rig_poll(&rig, &all, true));
    assert_err(feed_rig_poll(&rig, &all, true), ERR_END);
    assert_int_equal(all.dropped_now, 0);
    assert_int_equal(all.dropped, 2);
    assert_ok(feed_rig_poll(&rig, &web, true));
    assert_int_equal(web.dropped_now, 1);
    assert_err(feed_rig_poll(&rig, &none, true), ERR_END);
    assert_int_equal(none.dropped_now, 0);
}

static void drops_outlive_the_collector(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a");

    (void)state;
    assert_err(feed_rig_poll(&rig, &c, true), ERR_END);
    feed_rig_events(&rig, "web-1", 1, 1, "x");
    feed_rig_flood(&rig);
    feed_rig_close(&rig);
    feed_rig_open(&rig);
    assert_ok(feed_rig_poll(&rig, &c, true));
    assert_int_equal(c.dropped_now, 1);
    assert_err(feed_rig_poll(&rig, &c, true), ERR_END);
    assert_int_equal(c.dropped, 1);
}

/* Delivered, then dropped by the journal, then acknowledged. */
static void what_was_delivered_is_not_dropped(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a");

    (void)state;
    feed_rig_events(&rig, "web-1", 1, 2, "x");
    assert_ok(feed_rig_poll(&rig, &c, true));
    feed_rig_assert_pids(&c, 2, 1);
    feed_rig_flood(&rig);
    assert_err(feed_rig_poll(&rig, &c, true), ERR_END);
    assert_int_equal(c.dropped_now, 0);
    assert_int_equal(c.dropped, 0);
}

static void a_cursor_before_the_journals_begin_is_told(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("");

    (void)state;
    feed_rig_events(&rig, "web-1", 1, 1, "x");
    assert_ok(feed_rig_poll(&rig, &c, true));
    feed_rig_events(&rig, "web-1", 2, 1, "x");
    feed_rig_flood(&rig);
    feed_rig_events(&rig, "web-1", 3, 1, "x");
    assert_ok(feed_rig_poll(&rig, &c, true));
    feed_rig_assert_pids(&c, 1, 3);
    assert_true(c.dropped_now >= 1);
    assert_err(feed_rig_poll(&rig, &c, true), ERR_END);
    assert_int_equal(c.dropped_now, 0);
}

static void another_epoch_gives_all_that_is_kept(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a"), nameless = feed_rig_subscriber("");

    (void)state;
    feed_rig_events(&rig, "web-1", 1, 1, "x");
    assert_ok(feed_rig_poll(&rig, &c, true));
    assert_ok(feed_rig_poll(&rig, &nameless, true));
    feed_rig_close(&rig);
    feed_rig_forget_journal(&rig);
    feed_rig_open(&rig);
    feed_rig_events(&rig, "web-1", 7, 1, "x");
    assert_ok(feed_rig_poll(&rig, &c, true));
    feed_rig_assert_pids(&c, 1, 7);
    assert_int_equal(c.dropped_now, 1);
    assert_err(feed_rig_poll(&rig, &c, true), ERR_END);
    assert_ok(feed_rig_poll(&rig, &nameless, true));
    feed_rig_assert_pids(&nameless, 1, 7);
    assert_int_equal(nameless.dropped_now, 1);
}

static void another_epoch_with_nothing_in_it_is_told_once(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a");

    (void)state;
    feed_rig_events(&rig, "web-1", 1, 1, "x");
    assert_ok(feed_rig_poll(&rig, &c, true));
    feed_rig_close(&rig);
    feed_rig_forget_journal(&rig);
    feed_rig_open(&rig);
    assert_ok(feed_rig_poll(&rig, &c, true));
    assert_int_equal(c.dropped_now, 1);
    assert_err(feed_rig_poll(&rig, &c, true), ERR_END);
    assert_int_equal(c.dropped_now, 0);
}

static void another_epoch_is_counted_once_however_often_it_is_told(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a");

    (void)state;
    feed_rig_events(&rig, "web-1", 1, 1, "x");
    assert_ok(feed_rig_poll(&rig, &c, true));
    feed_rig_close(&rig);
    feed_rig_forget_journal(&rig);
    feed_rig_open(&rig);
    feed_rig_events(&rig, "web-1", 7, 1, "x");
    for (unsigned i = 0; i < 3; i++) { /* replies that got lost, and a restart between them */
        assert_ok(feed_rig_poll(&rig, &c, false));
        feed_rig_assert_pids(&c, 1, 7);
        assert_int_equal(c.dropped_now, 1);
        assert_int_equal(c.dropped, 1);
        if (i == 1) {
            feed_rig_close(&rig);
            feed_rig_open(&rig);
        }
    }
    assert_ok(feed_rig_poll(&rig, &c, true));
    feed_rig_events(&rig, "web-1", 8, 1, "x");
    assert_ok(feed_rig_poll(&rig, &c, true));
    assert_int_equal(c.dropped_now, 0);
    assert_int_equal(c.dropped, 1);
}

/* A journal that drops everything whenever a poll has found something: files that are read tell. */
static struct fio racing;
static unsigned opened, floods;
static bool race_on;

static enum err racing_open(void *ctx, struct fio_file **out, const char *path)
{
    if (race_on && opened++ % 3 == 0) { /* a record is opened twice, its head and then all of it */
        race_on = false;
        feed_rig_flood(&rig);
        feed_rig_events(&rig, "web-1", 5, 1, "x");
        race_on = true;
        floods++;
    }
    return fio_unsynced()->open(ctx, out, path);
}

static void a_poll_that_is_overtaken_again_and_again_says_so(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a");

    (void)state;
    racing = *fio_unsynced();
    racing.open = racing_open;
    opened = floods = 0;
    feed_rig_init(&rig, &racing);
    feed_rig_events(&rig, "web-1", 1, 1, "x");
    race_on = true;
    assert_err(feed_rig_poll(&rig, &c, true), ERR_BUSY);
    race_on = false;
    assert_int_equal(floods, 8);
    assert_ok(feed_rig_poll(&rig, &c, true));
    feed_rig_assert_pids(&c, 1, 5);
    assert_int_equal(c.dropped, 8); /* what went unseen, and nothing that came */
    assert_int_equal(c.dropped_now, 8);
    assert_err(feed_rig_poll(&rig, &c, true), ERR_END);
    feed_rig_fini(&rig);
}

/* Three events, and a bit in the head of the second one's record. */
static void rot_second(void)
{
    char *path = fio_name_path(rig.dir, "feed-", 1, ".log");
    struct fio_file *f;
    size_t begin, n;
    uint8_t *p;

    feed_rig_events(&rig, "web-1", 10, 1, "x");
    assert_ok(os_read_file(&p, &begin, path, 1 << 20));
    mem_free(p);
    feed_rig_events(&rig, "web-1", 11, 1, "x");
    feed_rig_events(&rig, "web-1", 12, 1, "x");
    assert_ok(os_read_file(&p, &n, path, 1 << 20));
    p[begin + 60] ^= 1;
    assert_ok(fio_os()->open(NULL, &f, path));
    assert_ok(fio_os()->write(NULL, f, 0, p, n));
    fio_os()->close(NULL, f);
    mem_free(p);
    mem_free(path);
}

static void assert_second_is_dropped(struct feed_rig_client *c)
{
    assert_ok(feed_rig_poll(&rig, c, true));
    assert_int_equal(c->n, 2);
    assert_int_equal(c->pids[0], 10);
    assert_int_equal(c->pids[1], 12);
    assert_int_equal(c->dropped_now, 1);
    assert_int_equal(c->dropped, 1);
    assert_err(feed_rig_poll(&rig, c, true), ERR_END);
    assert_int_equal(c->dropped_now, 0);
}

/* Damage while the collector runs: counted, and what follows comes. */
static void a_record_that_rots_is_dropped_alone(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a");

    (void)state;
    rot_second();
    assert_second_is_dropped(&c);
}

/* Found at the start: nobody knows whose it was, so it counts for all. */
static void a_record_that_rotted_meanwhile_is_dropped_alone(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a"), other = feed_rig_subscriber("b");

    (void)state;
    other.has_filter = true;
    other.filter = (struct wire_filter){.n_hosts = 1, .hosts = {str_make("db-*")}};
    rot_second();
    feed_rig_close(&rig);
    feed_rig_open(&rig);
    assert_second_is_dropped(&c);
    assert_ok(feed_rig_poll(&rig, &other, true));
    assert_int_equal(other.n, 0);
    assert_int_equal(other.dropped_now, 1);
    feed_rig_flood(&rig); /* the file goes: what was damaged is told once */
    assert_err(feed_rig_poll(&rig, &other, true), ERR_END);
    assert_int_equal(other.dropped, 1);
}

static void messages_that_never_were_count_as_dropped(void **state)
{
    struct feed_rig_client all = feed_rig_subscriber("a"), web = feed_rig_subscriber("web"),
                           db = feed_rig_subscriber("db"), nameless = feed_rig_subscriber("");

    (void)state;
    web.has_filter = db.has_filter = true;
    web.filter = (struct wire_filter){.n_hosts = 1, .hosts = {str_make("web-*")}};
    db.filter = (struct wire_filter){.n_hosts = 1, .hosts = {str_make("db-*")}};
    feed_rig_events(&rig, "web-1", 10, 1, "x");
    feed_rig_gap(&rig, "web-1", 3);
    feed_rig_events(&rig, "db-1", 11, 1, "x");
    assert_ok(feed_rig_poll(&rig, &all, false)); /* it comes again, and counts once */
    assert_ok(feed_rig_poll(&rig, &all, true));
    feed_rig_assert_pids(&all, 2, 10);
    assert_int_equal(all.dropped_now, 3);
    assert_int_equal(all.dropped, 3);
    assert_err(feed_rig_poll(&rig, &all, true), ERR_END);
    assert_int_equal(all.dropped_now, 0);
    assert_ok(feed_rig_poll(&rig, &web, true));
    feed_rig_assert_pids(&web, 1, 10);
    assert_int_equal(web.dropped_now, 3);
    assert_ok(feed_rig_poll(&rig, &db, true));
    feed_rig_assert_pids(&db, 1, 11);
    assert_int_equal(db.dropped, 0);
    assert_ok(feed_rig_poll(&rig, &nameless, true));
    assert_int_equal(nameless.dropped_now, 3);
}

#define T(f) cmocka_unit_test_prestate_setup_teardown(f, feed_rig_setup, feed_rig_teardown, &rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(drops_are_counted_for_whom_they_concern),
        T(drops_outlive_the_collector),
        T(what_was_delivered_is_not_dropped),
        T(a_cursor_before_the_journals_begin_is_told),
        T(another_epoch_gives_all_that_is_kept),
        T(another_epoch_with_nothing_in_it_is_told_once),
        T(another_epoch_is_counted_once_however_often_it_is_told),
        T(a_record_that_rots_is_dropped_alone),
        T(a_record_that_rotted_meanwhile_is_dropped_alone),
        T(messages_that_never_were_count_as_dropped),
        cmocka_unit_test(a_poll_that_is_overtaken_again_and_again_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
