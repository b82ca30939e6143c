/* Sessions that nobody owns: found by name and identifier, stopped when asked to, foreign ones
 * never. */
#include "tests/support/t.h"

#include <string.h>

#include "agent/source/windows/etw_orphans.h"
#include "agent/source/windows/etw_owner.h"
#include "agent/source/windows/etw_session.h"
#include "common/base/mem.h"
#include "tests/support/etwreplay.h"

static const uint8_t foreign[16] = {9, 9, 9};

static const struct etw_api *begin(struct etw_live_conf *conf)
{
    static const struct etwreplay_script script = {
        .more_sessions = true}; /* than the list has room for: what it has is true */

    etw_live_conf_defaults(conf);
    return etwreplay_begin(&script);
}

static void no_session_is_no_orphan(void **state)
{
    struct etw_live_conf conf;
    const struct etw_api *api = begin(&conf);
    struct etw_orphans seen;

    etwreplay_add("NT Kernel Logger", foreign, true);
    assert_ok(etw_orphans_look(&seen, api, &conf, true, NULL));
    assert_int_equal(seen.found, 0);
    assert_int_equal(etwreplay_calls(REPLAY_STOP), 0);
}

static void ours_are_found_and_stopped_when_asked_to(void **state)
{
    struct etw_live_conf conf;
    const struct etw_api *api = begin(&conf);
    struct etw_orphans seen;

    for (size_t i = 0; i < conf.n_sessions; i++) {
        etwreplay_add(conf.sessions[i].session.name, conf.sessions[i].session.guid,
                      conf.sessions[i].session.kernel);
    }
    assert_ok(etw_orphans_look(&seen, api, &conf, false, NULL));
    assert_int_equal(seen.found, conf.n_sessions);
    assert_int_equal(seen.stopped, 0);
    assert_true(etwreplay_exists(conf.sessions[0].session.name));
    assert_ok(etw_orphans_look(&seen, api, &conf, true, NULL));
    assert_int_equal(seen.stopped, conf.n_sessions);
    assert_false(etwreplay_exists(conf.sessions[0].session.name));
}

static void a_foreign_session_of_our_name_is_left_alone(void **state)
{
    struct etw_live_conf conf;
    const struct etw_api *api = begin(&conf);
    struct etw_orphans seen;

    etwreplay_add(conf.sessions[0].session.name, foreign, true);
    assert_ok(etw_orphans_look(&seen, api, &conf, true, NULL));
    assert_int_equal(seen.found, 0);
    assert_true(etwreplay_exists(conf.sessions[0].session.name));
    assert_int_equal(etwreplay_calls(REPLAY_STOP), 0);
}

static void a_stop_that_fails_is_told(void **state)
{
    struct etw_live_conf conf;
    struct etwreplay_script script = {.faults = {[REPLAY_STOP] = {0, 1, ERROR_ACCESS_DENIED}}};
    struct etw_orphans seen;
    const struct etw_api *api;

    etw_live_conf_defaults(&conf);
    api = etwreplay_begin(&script);
    etwreplay_add(conf.sessions[0].session.name, conf.sessions[0].session.guid, true);
    assert_err(etw_orphans_look(&seen, api, &conf, true, NULL), ERR_ACCESS);
    assert_int_equal(seen.found, 1);
    assert_int_equal(seen.stopped, 0);
}

static void it_survives_every_failing_allocation(void **state)
{
    struct etw_live_conf conf;
    const struct etw_api *api = begin(&conf);
    struct etw_orphans seen;
    enum err e = ERR_NOMEM;

    etwreplay_add(conf.sessions[0].session.name, conf.sessions[0].session.guid, true);
    for (long n = 0; e == ERR_NOMEM; n++) {
        mem_fail_after(n);
        e = etw_orphans_look(&seen, api, &conf, true, NULL);
        mem_fail_after(-1);
    }
    assert_ok(e);
    assert_int_equal(seen.stopped, 1);
}

static void the_sessions_have_one_owner(void **state)
{
    struct etw_owner *one, *two;

    assert_ok(etw_owner_take(&one, NULL));
    assert_err(etw_owner_take(&two, NULL), ERR_BUSY);
    etw_owner_give(one);
    assert_ok(etw_owner_take(&two, NULL));
    etw_owner_give(two);
    etw_owner_give(NULL);
}

static void a_session_starts_when_the_other_agent_has_ended(void **state)
{
    struct etw_live_conf conf;
    const struct etw_api *api = begin(&conf);
    struct etw_owner *other, *own = NULL;
    atomic_int_fast64_t clock = 0;
    atomic_bool trusted = false;
    struct etw_session s;
    struct errmsg why = {""};

    memset(&s, 0, sizeof s);
    s.wall_less_mono = &clock;
    s.trusted = &trusted;
    s.owner = &own;
    assert_ok(etw_session_init(&s, api, &conf.sessions[0], 64u << 10, NULL));
    assert_ok(etw_owner_take(&other, NULL));
    assert_err(etw_session_start(&s, &why), ERR_BUSY);
    assert_non_null(strstr(why.text, "another agent"));
    assert_int_equal(etwreplay_calls(REPLAY_START), 0);
    etw_owner_give(other);
    assert_ok(etw_session_start(&s, &why));
    assert_non_null(own);
    assert_err(etw_owner_take(&other, NULL), ERR_BUSY);
    etw_session_fini(&s);
    etw_owner_give(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_session_is_no_orphan),
        cmocka_unit_test(ours_are_found_and_stopped_when_asked_to),
        cmocka_unit_test(a_foreign_session_of_our_name_is_left_alone),
        cmocka_unit_test(a_stop_that_fails_is_told),
        cmocka_unit_test(it_survives_every_failing_allocation),
        cmocka_unit_test(the_sessions_have_one_owner),
        cmocka_unit_test(a_session_starts_when_the_other_agent_has_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
