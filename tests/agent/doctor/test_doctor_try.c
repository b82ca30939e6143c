/* The trials of doctor --facts with a table of functions of our own: a recorded host, and refusals.
 */
#include "tests/support/t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doctor/doctor_dump.h"
#include "agent/doctor/doctor_facts.h"
#include "agent/doctor/doctor_proof.h"
#include "agent/doctor/doctor_trial_win32.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "tests/support/etwreplay.h"
#include "tests/support/support.h"

#define PATIENCE_NS      (100 * CLK_MS)
#define PATIENCE_MOST_NS (64 * PATIENCE_NS)
#define CHILDREN         3

static char dir[256];

static void try_for(struct doctor_seen *out, const struct etwreplay_script *script,
                    int64_t patience_ns)
{
    memset(out, 0, sizeof *out);
    doctor_try_with(out, etwreplay_begin(script), dir, CHILDREN, patience_ns);
}

static void try(struct doctor_seen *out, const struct etwreplay_script *script)
{
    try_for(out, script, PATIENCE_NS);
}

static void what_needs_no_session_is_measured_on_this_system(void **state)
{
    struct etwreplay_script script = {.faults = {[REPLAY_OPEN] = {0, 1000, ERROR_ACCESS_DENIED}}};
    struct doctor_seen seen;

    try(&seen, &script);
    assert_false(seen.reads);
    assert_non_null(strstr(seen.why.text, "access denied"));
    assert_int_equal(etwreplay_calls(REPLAY_START), etwreplay_calls(REPLAY_STOP));
    assert_int_equal(etwreplay_calls(REPLAY_QUERY_INFO), 0);
    assert_true(seen.cpus > 0);
    assert_true(seen.cycles_ns >= PATIENCE_NS / 2);
    assert_true(seen.path_tried && seen.path_works);
    assert_int_equal(seen.handles, 0);
    assert_true(seen.resident > 0);
}

static void a_recorded_host_tells_its_rundown_and_versions(void **state)
{
    const char *plain = getenv("PROCFLEET_PLAIN");
    struct etwreplay_script script = {0};
    struct doctor_seen seen;
    char path[512];

    (void)snprintf(path, sizeof path, "%s/net.4.5.2.x64.etl", plain ? plain : ".");
    if (!os_exists(path)) {
        print_message("skipped: corpus not found (PROCFLEET_CORPUS names another place)\n");
        skip();
    }
    script.path = path;
    /* A busy machine reads the recording late. */
    for (int64_t ns = PATIENCE_NS; ns <= PATIENCE_MOST_NS; ns *= 4) {
        try_for(&seen, &script, ns);
        if (seen.told == 32 && seen.told_once == 32) {
            break;
        }
    }
    assert_true(seen.reads);
    assert_int_equal(seen.told, 32);
    assert_int_equal(seen.told_once, 32);
    assert_int_equal(seen.keys, seen.told);
    assert_true(seen.living > 0);
    assert_int_equal(seen.loggers, 80);
    assert_int_equal(seen.interval_before, seen.interval_after);
    assert_true(seen.masks >> 3 & 1);
    assert_int_equal(seen.children, CHILDREN); /* they ran, and the recording knows none of them */
    assert_int_equal(seen.children_seen, 0);
    assert_false(etwreplay_exists("procfleet-doctor"));
    assert_false(etwreplay_exists("procfleet-doctor-kp"));
}

static void loss_on_purpose_is_read_from_both_places(void **state)
{
    struct etwreplay_script script = {.buffers_lost = 4};
    struct doctor_seen seen;

    try(&seen, &script);
    assert_true(seen.forced);
    assert_int_equal(seen.counted_buffers, 4);
    assert_int_equal(seen.told_buffers, 0);
    assert_int_equal(seen.kp_start, -1);
}

/* The double knows neither real children nor most flags: what can be asked of it is answered, and
 * no session stays. */
static void the_first_run_is_tried_with_sessions_of_its_own(void **state)
{
    struct etwreplay_script script = {.flags_refused = 0x100};
    struct doctor_proof *proof = mem_zalloc(sizeof *proof);
    struct doctor_dump *dump;
    char *path;

    assert_non_null(proof);
    assert_ok(doctor_dump_open(&dump, dir, true, NULL));
    doctor_proof_sessions(proof, etwreplay_begin(&script), dump, 1, PATIENCE_NS);
    assert_ok(doctor_dump_close(dump, NULL));
    assert_true(proof->sessions);
    assert_true(proof->guid_query && proof->guid_list);
    assert_true(proof->updated);
    assert_int_equal(proof->buffers_got, proof->buffers_asked);
    assert_int_equal(proof->mode_got, proof->mode_asked);
    for (size_t i = 0; i < DOCTOR_PROOF_FLAGS; i++) {
        assert_true(proof->flags[i].tried);
        assert_int_equal(proof->flags[i].taken, proof->flags[i].flag != 0x100);
    }
    for (size_t i = 0; i < DOCTOR_PROOF_BURSTS; i++) {
        assert_int_equal(proof->bursts[i].started, 4);
        assert_int_equal(proof->bursts[i].seen, 0);
    }
    assert_true(proof->with_reader.tried && proof->without_reader.tried);
    assert_int_equal(proof->children, 1);
    assert_int_equal(proof->both, 0);
    assert_true(proof->negative.second_tried && proof->negative.second_refused);
    assert_true(proof->negative.foreign_tried && proof->negative.foreign_kept);
    assert_int_equal(proof->negative.foreign, ERR_EXISTS);
    assert_int_equal(proof->negative.slots, 6); /* the double has eight for all names it met */
    assert_int_equal(proof->negative.slots_code, ERROR_NO_SYSTEM_RESOURCES);
    assert_false(etwreplay_exists("procfleet-doctor-0") || etwreplay_exists("procfleet-doctor-5"));
    path = os_path_join(dir, "calls.jsonl");
    assert_true(os_exists(path));
    mem_free(path);
    mem_free(proof);
    assert_false(etwreplay_exists("procfleet-doctor"));
    assert_false(etwreplay_exists("procfleet-doctor-kp"));
}

static void what_needs_no_session_is_proven_on_this_system(void **state)
{
    struct doctor_proof *proof = mem_zalloc(sizeof *proof);
    struct doctor_dump *dump;
    char *path;

    assert_non_null(proof);
    assert_ok(doctor_dump_open(&dump, dir, false, NULL));
    doctor_proof_host(proof, dir, dump, PATIENCE_NS);
    assert_ok(doctor_dump_close(dump, NULL));
    assert_true(proof->account && proof->user[0]);
    assert_true(proof->kind.asked && proof->kind.administrators[0] && proof->kind.ansi);
    assert_int_equal(proof->tables[0].status, 0);
    assert_true(proof->tables[0].processes > 0);
    assert_int_equal(proof->timers[2].took.n, 40);
    assert_true(proof->timers[2].took.least >= 9 * CLK_MS);
    assert_int_equal(proof->renames, 200);
    assert_int_equal(proof->renames_failed, 0);
    assert_true(proof->drift_over_ns >= 4 * PATIENCE_NS);
    path = os_path_join(dir, "class-5.bin");
    assert_true(os_exists(path));
    mem_free(path);
    mem_free(proof);
}

static void a_trial_survives_every_failing_allocation(void **state)
{
    struct etwreplay_script script = {0};
    struct doctor_trial_conf conf = {.api = etwreplay_begin(&script), .flags = 1};
    struct doctor_trial *t = NULL;
    enum err e = ERR_NOMEM;

    for (long n = 0; e == ERR_NOMEM; n++) {
        mem_fail_after(n);
        e = doctor_trial_begin(&t, &conf, NULL);
        mem_fail_after(-1);
    }
    assert_ok(e);
    assert_true(etwreplay_exists("procfleet-doctor"));
    doctor_trial_free(t);
    doctor_trial_free(NULL);
    assert_false(etwreplay_exists("procfleet-doctor"));
}

static int set_up(void **state)
{
    return support_temp_dir(dir, sizeof dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    support_remove_dir(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_needs_no_session_is_measured_on_this_system),
        cmocka_unit_test(a_recorded_host_tells_its_rundown_and_versions),
        cmocka_unit_test(loss_on_purpose_is_read_from_both_places),
        cmocka_unit_test(the_first_run_is_tried_with_sessions_of_its_own),
        cmocka_unit_test(what_needs_no_session_is_proven_on_this_system),
        cmocka_unit_test(a_trial_survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
