#include "collector/subscribe/subscriptions.h"

#include <stdio.h>
#include <string.h>

#include "collector/subscribe/feed_filter.h"
#include "collector/subscribe/subscriptions_file.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/fio.h"
#include "common/os/os.h"
#include "tests/collector/subscribe/feed_rig.h"
#include "tests/support/fio_fault.h"
#include "tests/support/t.h"

static struct feed_rig rig;

/* -- cursors -- */

static void updates_follow_the_cursor_in_order(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a");

    feed_rig_events(&rig, "web-1", 1, 2, "x");
    feed_rig_events(&rig, "web-2", 3, 2, "x");
    assert_ok(feed_rig_poll(&rig, &c, true));
    feed_rig_assert_pids(&c, 4, 1);
    assert_err(feed_rig_poll(&rig, &c, true), ERR_END);
    feed_rig_events(&rig, "web-1", 5, 1, "x");
    assert_ok(feed_rig_poll(&rig, &c, true));
    feed_rig_assert_pids(&c, 1, 5);
}

static void a_new_subscription_begins_now(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a");

    c.from_oldest = false;
    feed_rig_events(&rig, "web-1", 1, 1, "x");
    assert_err(feed_rig_poll(&rig, &c, true), ERR_END);
    feed_rig_events(&rig, "web-1", 2, 1, "x");
    assert_ok(feed_rig_poll(&rig, &c, true));
    feed_rig_assert_pids(&c, 1, 2);
}

static void what_was_not_acknowledged_comes_again(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a");

    feed_rig_events(&rig, "web-1", 1, 3, "x");
    assert_ok(feed_rig_poll(&rig, &c, false));
    feed_rig_assert_pids(&c, 3, 1);
    assert_ok(feed_rig_poll(&rig, &c, true));
    feed_rig_assert_pids(&c, 3, 1);
}

static void a_cursor_stands_inside_a_message(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a");
    uint32_t next = 1;

    feed_rig_events(&rig, "web-1", 1, 10, "x");
    feed_rig_events(&rig, "web-1", 11, 10, "x");
    c.max = 3;
    while (next <= 20) {
        assert_ok(feed_rig_poll(&rig, &c, true));
        assert_true(c.n > 0 && c.n <= 3);
        feed_rig_assert_pids(&c, c.n, next);
        next += (uint32_t)c.n;
        feed_rig_close(&rig);
        feed_rig_open(&rig);
    }
    assert_err(feed_rig_poll(&rig, &c, true), ERR_END);
}

static void without_a_name_only_the_cursor_counts(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber(""), d = feed_rig_subscriber("");

    feed_rig_events(&rig, "web-1", 1, 2, "x");
    assert_ok(feed_rig_poll(&rig, &c, true));
    feed_rig_assert_pids(&c, 2, 1);
    assert_err(feed_rig_poll(&rig, &c, true), ERR_END);
    assert_ok(feed_rig_poll(&rig, &d, true));
    feed_rig_assert_pids(&d, 2, 1);
}

static void garbage_is_no_cursor(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a"), bad;

    feed_rig_events(&rig, "web-1", 1, 1, "x");
    assert_ok(feed_rig_poll(&rig, &c, true));
    for (size_t i = 0; i < sizeof c.cursor; i++) {
        bad = c;
        bad.cursor[i] ^= 0x10;
        assert_err(feed_rig_poll(&rig, &bad, false), ERR_INVALID);
        bad = c;
        bad.cursor_n = i;
        assert_err(feed_rig_poll(&rig, &bad, false), i ? ERR_INVALID : ERR_OK);
    }
}

static void names_and_bounds_are_checked(void **state)
{
    static const char *const bad[] = {"a b", "a/b", "\303\274", "a\n", ".\\"};
    struct feed_rig_client c = feed_rig_subscriber("A-z_0.9");

    assert_err(feed_rig_poll(&rig, &c, false), ERR_END);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        c.name = bad[i];
        assert_err(feed_rig_poll(&rig, &c, false), ERR_INVALID);
        assert_true(strlen(c.why) > 10);
    }
    c = feed_rig_subscriber("a");
    c.max = WIRE_UPDATES_MAX + 1;
    assert_err(feed_rig_poll(&rig, &c, false), ERR_INVALID);
}

/* -- what is kept -- */

static void cursors_and_filters_outlive_the_collector(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a"), d = feed_rig_subscriber("a");

    c.has_filter = true;
    c.filter.n_hosts = 1;
    c.filter.hosts[0] = str_make("web-*");
    feed_rig_events(&rig, "web-1", 1, 1, "x");
    feed_rig_events(&rig, "db-1", 100, 1, "x");
    feed_rig_events(&rig, "web-2", 2, 1, "x");
    assert_ok(feed_rig_poll(&rig, &c, true));
    feed_rig_assert_pids(&c, 2, 1);
    assert_err(feed_rig_poll(&rig, &c, true), ERR_END); /* acknowledges */
    feed_rig_close(&rig);
    feed_rig_open(&rig);
    feed_rig_events(&rig, "db-1", 101, 1, "x");
    feed_rig_events(&rig, "web-1", 3, 1, "x");
    assert_ok(feed_rig_poll(&rig, &d, true)); /* without cursor and filter */
    feed_rig_assert_pids(&d, 1, 3);
}

static void others_subscriptions_are_not_found(void **state)
{
    struct feed_rig_client ann = feed_rig_subscriber("a"), bob = feed_rig_subscriber("a");
    const struct wire_subscription *list;
    struct arena memory;
    size_t n;

    bob.owner = "bob";
    feed_rig_events(&rig, "web-1", 1, 1, "x");
    assert_ok(feed_rig_poll(&rig, &ann, true));
    assert_ok(feed_rig_poll(&rig, &bob, true)); /* his own, from the oldest */
    arena_init(&memory, 8u << 20);
    assert_ok(subscriptions_list(rig.roster, "ann", &list, &n, &memory));
    assert_int_equal(n, 1);
    assert_true(str_eq(list[0].owner, str_make("ann")));
    assert_int_equal(list[0].delivered, 1);
    assert_ok(subscriptions_list(rig.roster, NULL, &list, &n, &memory));
    assert_int_equal(n, 2);
    arena_fini(&memory);
    assert_err(subscriptions_remove(rig.roster, "carl", "a"), ERR_NOTFOUND);
    assert_ok(subscriptions_remove(rig.roster, "bob", "a"));
    assert_err(subscriptions_remove(rig.roster, "bob", "a"), ERR_NOTFOUND);
    feed_rig_close(&rig);
    feed_rig_open(&rig);
    assert_err(subscriptions_remove(rig.roster, "bob", "a"), ERR_NOTFOUND);
    assert_ok(subscriptions_remove(rig.roster, "ann", "a"));
}

static void one_name_has_so_many_subscriptions_and_no_more(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a");
    char name[16];

    c.name = name;
    for (unsigned i = 0; i <= SUBSCRIPTIONS_EACH; i++) {
        snprintf(name, sizeof name, "s%u", i);
        assert_err(feed_rig_poll(&rig, &c, false), i < SUBSCRIPTIONS_EACH ? ERR_END : ERR_FULL);
    }
    c.owner = "bob";
    assert_err(feed_rig_poll(&rig, &c, false), ERR_END);
}

static void one_that_nobody_polls_is_dropped(void **state)
{
    struct feed_rig_client a = feed_rig_subscriber("a"), b = feed_rig_subscriber("b");

    assert_err(feed_rig_poll(&rig, &a, true), ERR_END);
    assert_err(feed_rig_poll(&rig, &b, true), ERR_END);
    feed_rig_set_now(FEED_RIG_T0 + 3500 * CLK_S);
    assert_err(feed_rig_poll(&rig, &b, true), ERR_END);
    feed_rig_set_now(FEED_RIG_T0 + 3601 * CLK_S);
    subscriptions_expire(rig.roster);
    assert_err(subscriptions_remove(rig.roster, "ann", "a"), ERR_NOTFOUND);
    assert_ok(subscriptions_remove(rig.roster, "ann", "b"));
}

static void a_collector_that_was_away_drops_nobody_at_once(void **state)
{
    struct feed_rig_client a = feed_rig_subscriber("a");

    assert_err(feed_rig_poll(&rig, &a, true), ERR_END);
    feed_rig_close(&rig);
    feed_rig_set_now(FEED_RIG_T0 + 86400 * CLK_S);
    feed_rig_open(&rig);
    subscriptions_expire(rig.roster);
    assert_ok(subscriptions_remove(rig.roster, "ann", "a"));
}

/* -- scope -- */

static void the_scope_of_the_moment_bounds_every_poll(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a");

    feed_rig_events(&rig, "web-1", 1, 1, "x");
    feed_rig_events(&rig, "db-1", 100, 1, "x");
    c.scope = "web-*";
    assert_ok(feed_rig_poll(&rig, &c, false));
    feed_rig_assert_pids(&c, 1, 1);
    c.scope = "db-*";
    assert_ok(feed_rig_poll(&rig, &c, false));
    feed_rig_assert_pids(&c, 1, 100);
    c.scope = "nobody";
    assert_err(feed_rig_poll(&rig, &c, false), ERR_END);
}

/* -- samples -- */

static void samples_come_when_they_are_asked_for(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a");

    assert_false(subscriptions_wants_samples(rig.roster));
    feed_rig_events(&rig, "web-1", 1, 1, "x");
    feed_rig_sample(&rig, "web-1", 2, FEED_RIG_T0);
    c.has_filter = true;
    c.filter.samples = true;
    assert_ok(feed_rig_poll(&rig, &c, false));
    feed_rig_assert_pids(&c, 2, 1);
    assert_true(subscriptions_wants_samples(rig.roster));
    c.filter.no_events = true;
    assert_ok(feed_rig_poll(&rig, &c, false));
    feed_rig_assert_pids(&c, 1, 2);
    feed_rig_close(&rig);
    feed_rig_open(&rig);
    assert_true(subscriptions_wants_samples(rig.roster));
    assert_ok(subscriptions_remove(rig.roster, "ann", "a"));
    assert_false(subscriptions_wants_samples(rig.roster));
}

static void samples_are_wanted_for_a_while_after_a_nameless_poll(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("");

    c.has_filter = true;
    c.filter.samples = true;
    assert_err(feed_rig_poll(&rig, &c, true), ERR_END);
    assert_true(subscriptions_wants_samples(rig.roster));
    feed_rig_set_now(FEED_RIG_T0 + 121 * CLK_S);
    assert_false(subscriptions_wants_samples(rig.roster));
}

static void one_sample_of_each_interval_comes_whoever_was_killed(void **state)
{
    static const int64_t seconds[] = {0, 1, 9, 10, 11, 25, 26, 39, 40};
    static const uint32_t wanted[] = {1, 4, 6, 8, 9}; /* one behind the index */
    struct feed_rig_client c = feed_rig_subscriber("a");

    for (uint32_t i = 0; i < COUNT_OF(seconds); i++) {
        feed_rig_sample(&rig, "web-1", i + 1, FEED_RIG_T0 + seconds[i] * CLK_S);
        feed_rig_sample(&rig, "web-2", 0, FEED_RIG_T0);
    }
    c.has_filter = true;
    c.filter = (struct wire_filter){
        .n_hosts = 1, .hosts = {str_make("web-1")}, .samples = true, .min_interval_ns = 10 * CLK_S};
    c.max = 1;
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        assert_ok(feed_rig_poll(&rig, &c, false)); /* a reply that got lost */
        feed_rig_assert_pids(&c, 1, wanted[i]);
        assert_ok(feed_rig_poll(&rig, &c, true));
        feed_rig_assert_pids(&c, 1, wanted[i]);
    }
    assert_err(feed_rig_poll(&rig, &c, true), ERR_END);
}

/* -- messages that a subscriber did not get -- */

static void drops_are_counted_for_whom_they_concern(void **state)
{
    struct feed_rig_client all = feed_rig_subscriber("all"), web = feed_rig_subscriber("web"),
                           none = feed_rig_subscriber("none");

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

    rot_second();
    assert_second_is_dropped(&c);
}

/* Found at the start: nobody knows whose it was, so it counts for all. */
static void a_record_that_rotted_meanwhile_is_dropped_alone(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a"), other = feed_rig_subscriber("b");

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

/* -- damaged files, power cuts, no room -- */

static void states_come_back_as_they_were(void **state)
{
    const struct subscriptions_state in = {
        .number = UINT64_MAX,
        .name = "n",
        .owner = "ann",
        .scope = "web-*",
        .filter = {.n_hosts = 2,
                   .hosts = {str_make("a*"), str_make("")},
                   .program = str_make("*.exe"),
                   .kinds = 6,
                   .no_events = true,
                   .samples = true,
                   .n_metrics = 2,
                   .metrics = {M_CPU_TIME, 255},
                   .min_interval_ns = 5},
        .created_ns = INT64_MIN,
        .polled_ns = 2,
        .at = {3, 4, 5},
        .floor = 6,
        .lost = 7,
        .lost_end = 10,
        .dropped = 8,
        .delivered = 9,
    };
    struct subscriptions_state out;
    struct buf b, again;

    buf_init(&b, SUBSCRIPTIONS_FILE_MAX);
    buf_init(&again, SUBSCRIPTIONS_FILE_MAX);
    subscriptions_file_encode(&b, &in);
    assert_ok(subscriptions_file_decode(&out, b.p, b.n));
    assert_true(feed_filter_same(&in.filter, &out.filter));
    subscriptions_file_encode(&again, &out);
    assert_int_equal(b.n, again.n);
    assert_memory_equal(b.p, again.p, b.n);
    subscriptions_file_fini(&out);
    for (size_t n = 0; n < b.n; n++) {
        assert_err(subscriptions_file_decode(&out, b.p, n), ERR_CORRUPT);
    }
    buf_fini(&b);
    buf_fini(&again);
}

static void damaged_files_are_put_aside(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a");
    char *path = fio_name_path(rig.dir, "sub-", 1, ".state");
    uint8_t *p;
    size_t n;

    assert_err(feed_rig_poll(&rig, &c, true), ERR_END);
    feed_rig_close(&rig);
    assert_ok(os_read_file(&p, &n, path, 1 << 20));
    p[n / 2] ^= 1;
    assert_ok(os_write_file(path, p, n, false));
    mem_free(p);
    feed_rig_open(&rig);
    assert_false(os_exists(path));
    assert_err(subscriptions_remove(rig.roster, "ann", "a"), ERR_NOTFOUND);
    assert_err(feed_rig_poll(&rig, &c, true), ERR_END);
    mem_free(path);
}

/* Polls until the power fails at the k-th operation; then what was acknowledged is so, and what was
 * not comes again: together each event once. False: it did not fail any more. */
static bool cut_power_at(long k, enum fio_fault_keep keep)
{
    struct feed_rig_client c = feed_rig_subscriber("a");
    struct fio_fault *faults;
    struct feed_rig r;
    uint32_t next = 1;
    enum err e = ERR_OK;

    assert_ok(fio_fault_create(&faults));
    feed_rig_init(&r, fio_fault_fio(faults));
    feed_rig_events(&r, "web-1", 1, 12, "x");
    fio_fault_fail(faults, FIO_ALL & ~(unsigned)(FIO_READ | FIO_OPEN), k, ERR_IO, true);
    c.max = 2;
    while ((e = feed_rig_poll(&r, &c, true)) == ERR_OK) {
        feed_rig_assert_pids(&c, c.n, next);
        next += (uint32_t)c.n;
    }
    fio_fault_power_cut(faults, keep, (uint64_t)k);
    feed_rig_close(&r);
    fio_fault_destroy(faults);

    r.fio = fio_unsynced();
    feed_rig_open(&r);
    if (e != ERR_END) { /* the subscriber goes on from where it was */
        while (feed_rig_poll(&r, &c, true) == ERR_OK) {
            assert_int_equal(c.dropped_now, 0);
            feed_rig_assert_pids(&c, c.n, next);
            next += (uint32_t)c.n;
        }
    }
    assert_int_equal(next, 13);
    feed_rig_fini(&r);
    return e != ERR_END;
}

static void a_power_cut_at_any_moment_loses_and_repeats_nothing(void **state)
{
    for (unsigned keep = FIO_KEEP_NOTHING; keep <= FIO_KEEP_SECTORS; keep++) {
        long k = 0;

        while (cut_power_at(k, (enum fio_fault_keep)keep)) {
            k++;
        }
        assert_true(k > 20);
    }
}

/* Without a cursor of its own the subscriber relies on the collector's: nothing is lost. */
static void an_acknowledgement_is_durable_before_the_reply(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a"), blank = feed_rig_subscriber("a");
    struct fio_fault *faults;
    struct feed_rig r;

    assert_ok(fio_fault_create(&faults));
    feed_rig_init(&r, fio_fault_fio(faults));
    feed_rig_events(&r, "web-1", 1, 4, "x");
    c.max = blank.max = 2;
    assert_ok(feed_rig_poll(&r, &c, true));
    assert_ok(feed_rig_poll(&r, &c, true)); /* acknowledges 1 and 2 */
    fio_fault_power_cut(faults, FIO_KEEP_NOTHING, 1);
    feed_rig_close(&r);
    fio_fault_destroy(faults);
    r.fio = fio_unsynced();
    feed_rig_open(&r);
    assert_ok(feed_rig_poll(&r, &blank, true));
    feed_rig_assert_pids(&blank, 2, 3);
    feed_rig_fini(&r);
}

static void a_full_disk_refuses_and_changes_nothing(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a");
    struct fio_fault *faults;
    struct feed_rig r;

    assert_ok(fio_fault_create(&faults));
    feed_rig_init(&r, fio_fault_fio(faults));
    feed_rig_events(&r, "web-1", 1, 4, "x");
    c.max = 2;
    assert_ok(feed_rig_poll(&r, &c, true));
    fio_fault_disk_full(faults, 0);
    assert_err(feed_rig_poll(&r, &c, true), ERR_NOSPACE);
    fio_fault_disk_full(faults, 1u << 20);
    assert_ok(feed_rig_poll(&r, &c, true));
    feed_rig_assert_pids(&c, 2, 3);
    feed_rig_fini(&r);
    fio_fault_destroy(faults);
}

static void every_failed_allocation_is_survived(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a");
    enum err e = ERR_NOMEM;

    feed_rig_events(&rig, "web-1", 1, 3, "x");
    for (long k = 0; e; k++) {
        c = feed_rig_subscriber("a");
        c.has_filter = true;
        c.filter.n_hosts = 1;
        c.filter.hosts[0] = str_make("*");
        mem_fail_after(k);
        e = feed_rig_poll(&rig, &c, true);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM || e == ERR_FULL);
        assert_true(k < 300);
    }
    feed_rig_assert_pids(&c, 3, 1);
}

#define T(f) cmocka_unit_test_prestate_setup_teardown(f, feed_rig_setup, feed_rig_teardown, &rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(updates_follow_the_cursor_in_order),
        T(a_new_subscription_begins_now),
        T(what_was_not_acknowledged_comes_again),
        T(a_cursor_stands_inside_a_message),
        T(without_a_name_only_the_cursor_counts),
        T(garbage_is_no_cursor),
        T(names_and_bounds_are_checked),
        T(cursors_and_filters_outlive_the_collector),
        T(others_subscriptions_are_not_found),
        T(one_name_has_so_many_subscriptions_and_no_more),
        T(one_that_nobody_polls_is_dropped),
        T(a_collector_that_was_away_drops_nobody_at_once),
        T(the_scope_of_the_moment_bounds_every_poll),
        T(samples_come_when_they_are_asked_for),
        T(samples_are_wanted_for_a_while_after_a_nameless_poll),
        T(one_sample_of_each_interval_comes_whoever_was_killed),
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
        T(damaged_files_are_put_aside),
        T(every_failed_allocation_is_survived),
        cmocka_unit_test(states_come_back_as_they_were),
        cmocka_unit_test(a_power_cut_at_any_moment_loses_and_repeats_nothing),
        cmocka_unit_test(an_acknowledgement_is_durable_before_the_reply),
        cmocka_unit_test(a_full_disk_refuses_and_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
