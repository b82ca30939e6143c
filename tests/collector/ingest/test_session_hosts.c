#include "collector/ingest/session_hosts.h"

#include <stdio.h>

#include "common/base/mem.h"
#include "tests/support/t.h"

static struct net_identity who_is(uint8_t id)
{
    struct net_identity who = {.has_host = true, .not_before_ns = 3, .not_after_ns = 4};

    who.host.b[0] = id;
    (void)snprintf(who.name, sizeof who.name, "host-%u", id);
    return who;
}

static struct clock_moment at(int64_t seconds)
{
    return (struct clock_moment){(1000000 + seconds) * CLK_S, seconds * CLK_S};
}

static struct session_entry *get(struct session_hosts *h, uint8_t id, int64_t seconds)
{
    const struct net_identity who = who_is(id);
    const struct clock_moment now = at(seconds);
    struct session_entry *e = NULL;

    assert_ok(session_hosts_get(h, &e, &who, &now));
    return e;
}

static void a_host_is_found_again_among_many(void **state)
{
    struct session_hosts h = {.max = 200};

    for (unsigned i = 0; i < 200; i++) {
        (void)get(&h, (uint8_t)(i * 77 % 200), 1);
    }
    assert_int_equal(h.n, 200);
    for (uint8_t i = 0; i < 200; i++) {
        struct session_entry *e = get(&h, i, 2);

        assert_int_equal(e->id.b[0], i);
        assert_ptr_equal(session_hosts_find(&h, &e->id), e);
        assert_int_equal(e->seen.heard_ns, at(2).utc_ns);
        assert_int_equal(e->seen.not_after_ns, 4);
    }
    assert_int_equal(h.n, 200);
    session_hosts_fini(&h);
}

static void only_a_host_that_is_silent_and_gone_gives_place(void **state)
{
    struct session_hosts h = {.max = 2};
    const struct net_identity third = who_is(3);
    struct session_entry *e;
    struct clock_moment now = at(700);

    get(&h, 1, 1)->connections = 1;
    (void)get(&h, 2, 150);
    assert_err(session_hosts_get(&h, &e, &third, &now), ERR_FULL);
    now = at(751);
    assert_ok(session_hosts_get(&h, &e, &third, &now));
    assert_int_equal(h.n, 2);
    assert_int_equal(h.at[0]->id.b[0], 1); /* connected */
    assert_int_equal(h.at[1]->id.b[0], 3);
    session_hosts_fini(&h);
}

static void a_host_that_only_connected_gives_place_at_once(void **state)
{
    struct session_hosts h = {.max = 2};
    const struct net_identity third = who_is(3);
    struct session_entry *e;
    struct clock_moment now = at(3);

    get(&h, 1, 1)->connections = 1;
    e = get(&h, 2, 2);
    e->connections = 1;
    e->standby = true;
    assert_ok(session_hosts_get(&h, &e, &third, &now));
    assert_int_equal(h.n, 2);
    assert_int_equal(h.at[0]->id.b[0], 1);
    assert_int_equal(h.at[1]->id.b[0], 3);
    session_hosts_fini(&h);
}

static void silence_is_not_measured_by_a_clock_that_jumps(void **state)
{
    struct session_hosts h = {.max = 1};
    const struct net_identity second = who_is(2);
    struct session_entry *e;
    struct clock_moment now = at(10);

    (void)get(&h, 1, 1);
    now.utc_ns += 86400 * CLK_S;
    assert_err(session_hosts_get(&h, &e, &second, &now), ERR_FULL);
    session_hosts_fini(&h);
}

static void hosts_survive_every_allocation_failing(void **state)
{
    const struct net_identity who = who_is(1);
    const struct clock_moment now = at(1);
    long held = mem_live();

    for (long n = 0;; n++) {
        struct session_hosts h = {.max = 4};
        struct session_entry *entry;
        enum err e;

        mem_fail_after(n);
        e = session_hosts_get(&h, &entry, &who, &now);
        mem_fail_after(-1);
        session_hosts_fini(&h);
        assert_int_equal(mem_live(), held);
        if (e == ERR_OK) {
            assert_int_equal(n, 2);
            return;
        }
        assert_err(e, ERR_NOMEM);
    }
}

static void a_conflict_shows_as_a_clone_for_ten_minutes(void **state)
{
    struct session_hosts h = {.max = 1};
    struct session_entry *e = get(&h, 1, 1);
    struct session_host out;
    struct clock_moment now = at(20);

    session_hosts_state(e, &now, &out);
    assert_int_equal(out.clones, 0);
    e->conflict_ns = now.mono_ns;
    session_hosts_state(e, &now, &out);
    assert_int_equal(out.clones, 1);
    now = at(620);
    session_hosts_state(e, &now, &out);
    assert_int_equal(out.clones, 0);
    session_hosts_fini(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_is_found_again_among_many),
        cmocka_unit_test(only_a_host_that_is_silent_and_gone_gives_place),
        cmocka_unit_test(a_host_that_only_connected_gives_place_at_once),
        cmocka_unit_test(silence_is_not_measured_by_a_clock_that_jumps),
        cmocka_unit_test(hosts_survive_every_allocation_failing),
        cmocka_unit_test(a_conflict_shows_as_a_clone_for_ten_minutes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
