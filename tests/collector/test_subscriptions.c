#include "collector/subscribe/subscriptions.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "tests/collector/feed_rig.h"
#include "tests/support/t.h"

static struct feed_rig rig;

/* -- cursors -- */

static void updates_follow_the_cursor_in_order(void **state)
{
    struct feed_rig_client c = feed_rig_subscriber("a");

    (void)state;
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

    (void)state;
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

    (void)state;
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

    (void)state;
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

    (void)state;
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

    (void)state;
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

    (void)state;
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

    (void)state;
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

    (void)state;
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

    (void)state;
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

    (void)state;
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

    (void)state;
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

    (void)state;
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

    (void)state;
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

    (void)state;
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

    (void)state;
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
