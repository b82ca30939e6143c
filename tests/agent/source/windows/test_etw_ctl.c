/* Sessions: how they start, what they are told to record, and what becomes of every refusal. */
#include "tests/support/t.h"

#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/windows/etw_ctl.h"
#include "common/base/mem.h"
#include "tests/support/etwreplay.h"

#define FLAG_PROCESS 0x1u
#define FLAG_THREAD  0x2u
#define FLAG_IMAGE   0x4u

static const uint8_t foreign[16] = {9, 9, 9};

static const struct etw_session_conf kernel = {.name = "procfleet-test",
                                               .guid = {1, 2, 3, 4},
                                               .kernel = true,
                                               .one_stream = true,
                                               .buffer_kb = 64,
                                               .min_buffers = 4,
                                               .max_buffers = 64,
                                               .pool_mib = 16,
                                               .flush_s = 1};

static struct etw_ctl *open_with(const struct etwreplay_script *script)
{
    struct etw_ctl *c;

    assert_ok(etw_ctl_open(&c, etwreplay_begin(script), &kernel, NULL));
    return c;
}

static struct etw_ctl_stats stats_of(const struct etw_ctl *c)
{
    struct etw_ctl_stats stats;

    etw_ctl_stats(c, &stats);
    return stats;
}

static void a_session_starts_is_queried_and_stops(void **state)
{
    struct etwreplay_script script = {.buffers_lost = 3};
    struct etw_ctl *c = open_with(&script);
    struct etw_totals totals;

    assert_ok(etw_ctl_start(c, NULL));
    assert_true(etwreplay_exists("procfleet-test"));
    etwreplay_lost(7, 0);
    assert_ok(etw_ctl_query(c, &totals, NULL));
    assert_int_equal(totals.events_lost, 7);
    assert_int_equal(totals.buffers_lost, 3);
    assert_int_equal(totals.max_buffers, 64);
    assert_ok(etw_ctl_flush(c, NULL));
    assert_ok(etw_ctl_stop(c, NULL));
    assert_false(etwreplay_exists("procfleet-test"));
    assert_ok(etw_ctl_stop(c, NULL));
    assert_int_equal(stats_of(c).started, 1);
    assert_int_equal(stats_of(c).failed, 0);
    etw_ctl_close(c);
}

static void a_session_of_an_earlier_run_is_reclaimed(void **state)
{
    struct etwreplay_script script = {0};
    struct etw_ctl *c = open_with(&script);

    etwreplay_add(kernel.name, kernel.guid, true);
    assert_ok(etw_ctl_start(c, NULL));
    assert_int_equal(stats_of(c).orphan_reclaimed, 1);
    assert_int_equal(etwreplay_calls(REPLAY_STOP), 1);
    assert_int_equal(etwreplay_calls(REPLAY_START), 2);
    etw_ctl_close(c);
}

static void a_foreign_session_of_our_name_is_left_alone(void **state)
{
    struct etwreplay_script script = {0};
    struct etw_ctl *c = open_with(&script);
    struct errmsg why;

    etwreplay_add(kernel.name, foreign, true);
    assert_err(etw_ctl_start(c, &why), ERR_EXISTS);
    assert_non_null(strstr(why.text, kernel.name));
    assert_true(etwreplay_exists(kernel.name));
    assert_int_equal(etwreplay_calls(REPLAY_STOP), 0);
    assert_ok(etw_ctl_stop(c, NULL)); /* not ours: not stopped */
    assert_true(etwreplay_exists(kernel.name));
    etw_ctl_close(c);
}

static void who_holds_the_slots_is_told(void **state)
{
    struct etwreplay_script script = {
        .more_sessions = true, /* than the list has room for */
        .faults[REPLAY_START] = {.times = 1, .code = ERROR_NO_SYSTEM_RESOURCES}};
    struct etw_ctl *c = open_with(&script);
    struct errmsg why;

    etwreplay_add("Circular Kernel Context Logger", foreign, true);
    etwreplay_add("Some Application", foreign, false);
    assert_err(etw_ctl_start(c, &why), ERR_FULL);
    assert_non_null(strstr(why.text, "Circular Kernel Context Logger"));
    assert_null(strstr(why.text, "Some Application")); /* holds none that we could use */
    assert_ok(etw_ctl_start(c, &why));
    etw_ctl_close(c);
}

static void every_refusal_has_its_error_and_a_remedy(void **state)
{
    static const struct {
        ULONG code;
        enum err e;
        const char *remedy;
    } rows[] = {
        {ERROR_ACCESS_DENIED, ERR_ACCESS, "administrator"},
        {ERROR_PRIVILEGE_NOT_HELD, ERR_ACCESS, "SeSystemProfilePrivilege"},
        {ERROR_INVALID_PARAMETER, ERR_INVALID, "build"},
        {ERROR_BAD_LENGTH, ERR_INVALID, "build"},
        {ERROR_MORE_DATA, ERR_INVALID, "names"},
        {ERROR_WMI_INSTANCE_NOT_FOUND, ERR_LOST, "again"},
        {ERROR_OUTOFMEMORY, ERR_NOMEM, "memory"},
        {ERROR_NOT_SUPPORTED, ERR_UNSUPPORTED, "support"},
        {ERROR_DISK_FULL, ERR_NOSPACE, "room"},
        {ERROR_NOT_ENOUGH_MEMORY, ERR_NOMEM, "memory"},
        {ERROR_CALL_NOT_IMPLEMENTED, ERR_UNSUPPORTED, "polled"},
        {4711, ERR_IO, "4711"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct etwreplay_script script = {
            .faults[REPLAY_START] = {.times = 2, .code = rows[i].code}};
        struct etw_ctl *c = open_with(&script);
        struct errmsg why;

        assert_err(etw_ctl_start(c, &why), rows[i].e);
        assert_non_null(strstr(why.text, rows[i].remedy));
        assert_int_equal(stats_of(c).failed, 1);
        etw_ctl_close(c);
    }
}

static void a_block_that_is_too_small_is_sent_again_twice(void **state)
{
    struct etwreplay_script script = {
        .faults[REPLAY_QUERY] = {.times = 2, .code = ERROR_MORE_DATA}};
    struct etw_ctl *c = open_with(&script);
    struct etw_totals totals;

    assert_ok(etw_ctl_start(c, NULL));
    assert_ok(etw_ctl_query(c, &totals, NULL));
    assert_int_equal(stats_of(c).resent, 2);
    etw_ctl_close(c);

    script.faults[REPLAY_QUERY].times = 3;
    c = open_with(&script);
    assert_ok(etw_ctl_start(c, NULL));
    assert_err(etw_ctl_query(c, &totals, NULL), ERR_INVALID);
    assert_int_equal(stats_of(c).failed, 1);
    etw_ctl_close(c);
}

static void flags_go_off_before_they_go_on(void **state)
{
    struct etwreplay_script script = {0};
    struct etw_ctl *c = open_with(&script);

    assert_ok(etw_ctl_start(c, NULL));
    assert_ok(etw_ctl_flags(c, FLAG_PROCESS | FLAG_THREAD, NULL));
    assert_int_equal(etwreplay_calls(REPLAY_SET_INFO), 2);
    assert_int_equal(etwreplay_flags(), FLAG_PROCESS | FLAG_THREAD);
    etw_ctl_close(c);
}

static void a_refused_flag_does_not_cost_the_others(void **state)
{
    struct etwreplay_script script = {.flags_refused = FLAG_THREAD};
    struct etw_ctl *c = open_with(&script);
    struct errmsg why;

    assert_ok(etw_ctl_start(c, NULL));
    assert_err(etw_ctl_flags(c, FLAG_PROCESS | FLAG_THREAD | FLAG_IMAGE, &why), ERR_PROVIDER);
    assert_non_null(strstr(why.text, "0x2;"));
    assert_int_equal(etwreplay_flags(), FLAG_PROCESS | FLAG_IMAGE);
    assert_int_equal(stats_of(c).flags_refused, 1);
    etw_ctl_close(c);
}

/* What holds for each of them is not tried 32 times. */
static void a_missing_right_is_final(void **state)
{
    static const ULONG codes[] = {ERROR_ACCESS_DENIED, ERROR_PRIVILEGE_NOT_HELD};

    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        struct etwreplay_script script = {
            .faults[REPLAY_SET_INFO] = {.times = 100, .code = codes[i]}};
        struct etw_ctl *c = open_with(&script);
        struct errmsg why;

        assert_ok(etw_ctl_start(c, NULL));
        assert_err(etw_ctl_flags(c, FLAG_PROCESS | FLAG_THREAD | FLAG_IMAGE, &why), ERR_ACCESS);
        assert_int_equal(etwreplay_calls(REPLAY_SET_INFO), 1);
        assert_int_equal(etw_ctl_flags_on(c), 0);
        etw_ctl_close(c);
    }
}

static void flags_are_added_without_touching_the_others(void **state)
{
    struct etwreplay_script script = {.flags_refused = FLAG_IMAGE};
    struct etw_ctl *c = open_with(&script);
    const uint32_t *masks;
    struct errmsg why;
    size_t n;

    assert_ok(etw_ctl_start(c, NULL));
    assert_ok(etw_ctl_flags(c, FLAG_PROCESS, NULL));
    for (int i = 0; i < 3; i++) {
        assert_err(etw_ctl_flags_add(c, FLAG_THREAD | FLAG_IMAGE, &why), ERR_PROVIDER);
        assert_int_equal(etw_ctl_flags_on(c), FLAG_PROCESS | FLAG_THREAD);
    }
    assert_non_null(strstr(why.text, "0x4;"));
    assert_int_equal(stats_of(c).flags_refused, 1); /* however often it is tried */
    n = etwreplay_masks(&masks);
    for (size_t i = 1; i < n; i++) {
        assert_true(masks[i] & FLAG_PROCESS); /* none of them goes off meanwhile */
    }
    etw_ctl_close(c);
}

static void a_timer_in_ms_needs_a_system_that_knows_it(void **state)
{
    for (int old = 0; old < 2; old++) {
        struct etwreplay_script script = {.whole_seconds = old};
        struct etw_ctl *c = open_with(&script);
        bool in_ms;

        assert_ok(etw_ctl_start(c, NULL));
        assert_true(etw_ctl_flushes(c));
        assert_ok(etw_ctl_timer_ms(c, 50, NULL));
        assert_int_equal(etw_ctl_flushes(c), !old);
        assert_int_equal(etwreplay_timer_of("procfleet-test", &in_ms), old ? 1 : 50);
        assert_int_equal(in_ms, !old);
        assert_ok(etw_ctl_timer_ms(c, 5, NULL)); /* finer than the kernel's */
        assert_false(etw_ctl_flushes(c));
        assert_ok(etw_ctl_timer_ms(c, 0, NULL));
        assert_true(etw_ctl_flushes(c));
        assert_int_equal(etwreplay_timer_of("procfleet-test", &in_ms), old ? 1 : 1000);
        etw_ctl_close(c);
    }
}

static void a_refused_provider_is_named(void **state)
{
    static const struct source_provider provider = {.guid = ETW_PROVIDER_KERNEL_PROCESS,
                                                    .level = 4};
    struct etwreplay_script script = {
        .faults[REPLAY_ENABLE] = {.times = 1, .code = ERROR_ACCESS_DENIED}};
    struct etw_ctl *c = open_with(&script);
    struct errmsg why;

    assert_ok(etw_ctl_start(c, NULL));
    assert_err(etw_ctl_enable(c, &provider, &why), ERR_PROVIDER);
    assert_non_null(strstr(why.text, "Microsoft-Windows-Kernel-Process"));
    assert_ok(etw_ctl_enable(c, &provider, &why));
    assert_int_equal(stats_of(c).providers_refused, 1);
    etw_ctl_close(c);
}

static void flags_change_without_going_off(void **state)
{
    struct etwreplay_script script = {0};
    struct etw_ctl *c = open_with(&script);

    assert_ok(etw_ctl_start(c, NULL));
    assert_ok(etw_ctl_flags(c, FLAG_THREAD, NULL));
    assert_ok(etw_ctl_flags(c, FLAG_THREAD | FLAG_IMAGE, NULL));
    assert_int_equal(etwreplay_calls(REPLAY_SET_INFO), 3); /* none, these, those */
    assert_int_equal(etwreplay_flags(), FLAG_THREAD | FLAG_IMAGE);
    assert_ok(etw_ctl_stop(c, NULL));
    assert_ok(etw_ctl_start(c, NULL));
    assert_ok(etw_ctl_flags(c, FLAG_THREAD, NULL)); /* a new life begins with a rundown again */
    assert_int_equal(etwreplay_calls(REPLAY_SET_INFO), 5);
    etw_ctl_close(c);
}

static void why_a_provider_is_refused_is_said(void **state)
{
    static const struct source_provider provider = {.guid = {7}, .level = 4};
    static const struct {
        ULONG code;
        const char *says;
    } rows[] = {
        {ERROR_ACCESS_DENIED, "LocalSystem"},
        {ERROR_NO_SYSTEM_RESOURCES, "8 sessions"},
        {ERROR_WMI_INSTANCE_NOT_FOUND, "gone"},
        {ERROR_INVALID_PARAMETER, "keywords"},
        {4711, "GUID"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct etwreplay_script script = {
            .faults[REPLAY_ENABLE] = {.times = 1, .code = rows[i].code}};
        struct etw_ctl *c = open_with(&script);
        struct errmsg why;

        assert_ok(etw_ctl_start(c, NULL));
        assert_err(etw_ctl_enable(c, &provider, &why), ERR_PROVIDER);
        assert_non_null(strstr(why.text, rows[i].says));
        assert_non_null(strstr(why.text, "00000007-0000"));
        etw_ctl_close(c);
    }
}

static void events_are_filtered_by_id_where_the_system_can(void **state)
{
    static const struct source_provider provider = {
        .guid = ETW_PROVIDER_KERNEL_PROCESS, .level = 4, .ids = {1, 2, 15}, .n_ids = 3};
    struct etwreplay_script script = {0};
    struct etw_ctl *c = open_with(&script);

    assert_ok(etw_ctl_start(c, NULL));
    assert_ok(etw_ctl_enable(c, &provider, NULL));
    assert_int_equal(etwreplay_filter_ids(), 3);
    assert_int_equal(etwreplay_enabled(kernel.name), 1);
    assert_ok(etw_ctl_disable(c, provider.guid, NULL));
    assert_int_equal(etwreplay_enabled(kernel.name), 0);
    etw_ctl_close(c);

    script.filters_refused = true;
    c = open_with(&script);
    assert_ok(etw_ctl_start(c, NULL));
    assert_ok(etw_ctl_enable(c, &provider, NULL));
    assert_int_equal(etwreplay_filter_ids(), 0);
    assert_int_equal(etwreplay_enabled(kernel.name), 1);
    assert_int_equal(stats_of(c).filters_refused, 1);
    assert_int_equal(stats_of(c).providers_refused, 0);
    etw_ctl_close(c);
}

static void processes_programs_and_values_are_filters_of_the_system_too(void **state)
{
    static const char *const texts[] = {
        "Microsoft-Windows-DXGI#42 pid=12+4294967295 exe=a.exe+b.exe where=Flags=3",
        "Microsoft-Windows-DXGI exe=a.exe", "Microsoft-Windows-DXGI pid=7",
        "Microsoft-Windows-DXGI"};
    static const char *const filters[] = {
        "ids=42 pids=12+4294967295 exe=a.exe;b.exe payload=Flags=3", "exe=a.exe", "pids=7", ""};
    struct etwreplay_script script = {0};
    struct source_provider p;
    struct etw_ctl *c;

    for (unsigned refused = 0; refused < 2; refused++) {
        script.payload_refused = refused;
        c = open_with(&script);
        assert_ok(etw_ctl_start(c, NULL));
        for (size_t i = 0; i < COUNT_OF(texts); i++) {
            assert_ok(etw_provider_parse(&p, texts[i], NULL));
            assert_ok(etw_ctl_enable(c, &p, NULL));
            assert_string_equal(etwreplay_filters(),
                                refused && i == 0 ? "ids=42 pids=12+4294967295 exe=a.exe;b.exe"
                                                  : filters[i]);
        }
        assert_int_equal(stats_of(c).filters_refused, refused);
        etw_ctl_close(c);
    }
}

/* Opens a trace of the session, as its reader does. */
static void open_trace(const struct etw_api *api)
{
    WCHAR name[] = L"procfleet-test";
    EVENT_TRACE_LOGFILEW log = {.LoggerName = name};
    TRACEHANDLE h = api->open(&log);

    assert_true(h != INVALID_PROCESSTRACE_HANDLE);
    (void)api->close(h);
}

static void the_machines_sampling_is_put_back(void **state)
{
    struct etwreplay_script script = {0};
    const struct etw_api *api = etwreplay_begin(&script);
    struct etw_ctl *c;

    assert_ok(etw_ctl_open(&c, api, &kernel, NULL));
    assert_ok(etw_ctl_start(c, NULL));
    assert_err(etw_ctl_sampling(c, 2000, NULL), ERR_UNSUPPORTED); /* it may not be asked yet */
    assert_int_equal(etwreplay_interval(), 10000);
    open_trace(api);
    etw_ctl_trust(c);
    assert_ok(etw_ctl_sampling(c, 2000, NULL));
    assert_int_equal(etwreplay_interval(), 5000);
    assert_ok(etw_ctl_sampling(c, 8000, NULL));
    assert_int_equal(etwreplay_interval(), 1250);
    etw_ctl_sampling_end(c);
    assert_int_equal(etwreplay_interval(), 10000); /* not 5000 */
    assert_ok(etw_ctl_sampling(c, 1, NULL));
    assert_ok(etw_ctl_stop(c, NULL));
    assert_int_equal(etwreplay_interval(), 10000);
    assert_ok(etw_ctl_sampling(c, 1, NULL));
    etw_ctl_close(c);
    assert_int_equal(etwreplay_interval(), 10000);
    assert_int_equal(etwreplay_calls(REPLAY_QUERY_INFO), 3); /* once for each change */
}

static void sampling_that_cannot_be_asked_or_set_stays(void **state)
{
    static const struct {
        enum etwreplay_call call;
        enum err e;
    } rows[] = {{REPLAY_QUERY_INFO, ERR_UNSUPPORTED}, {REPLAY_SET_INFO, ERR_PROVIDER}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct etwreplay_script script = {0};
        const struct etw_api *api;
        struct errmsg why;
        struct etw_ctl *c;

        script.faults[rows[i].call] = (struct etwreplay_fault){.times = 1, .code = 5};
        api = etwreplay_begin(&script);
        assert_ok(etw_ctl_open(&c, api, &kernel, NULL));
        assert_ok(etw_ctl_start(c, NULL));
        open_trace(api);
        etw_ctl_trust(c);
        assert_err(etw_ctl_sampling(c, 2000, &why), rows[i].e);
        assert_true(strlen(why.text) > 40);
        etw_ctl_close(c);
        assert_int_equal(etwreplay_interval(), 10000);
    }
}

static void stacks_go_on_and_off(void **state)
{
    struct etwreplay_script script = {
        .faults[REPLAY_SET_INFO] = {.from = 2, .times = 1, .code = ERROR_INVALID_PARAMETER}};
    struct etw_ctl *c = open_with(&script);
    struct errmsg why;

    assert_ok(etw_ctl_start(c, NULL));
    assert_ok(etw_ctl_stacks(c, true, NULL));
    assert_int_equal(etwreplay_stacks(), 2);
    assert_ok(etw_ctl_stacks(c, false, NULL));
    assert_int_equal(etwreplay_stacks(), 0);
    assert_err(etw_ctl_stacks(c, true, &why), ERR_PROVIDER);
    assert_non_null(strstr(why.text, "stacks"));
    etw_ctl_close(c);
}

static void how_many_slots_there_are_is_asked_where_it_is_safe(void **state)
{
    struct etwreplay_script script = {
        .faults[REPLAY_START] = {.from = 1, .times = 2, .code = ERROR_NO_SYSTEM_RESOURCES}};
    const struct etw_api *api = etwreplay_begin(&script);
    struct errmsg why;
    struct etw_ctl *c;

    assert_ok(etw_ctl_open(&c, api, &kernel, NULL));
    assert_ok(etw_ctl_start(c, NULL));
    open_trace(api);
    assert_ok(etw_ctl_stop(c, NULL));
    assert_err(etw_ctl_start(c, &why), ERR_FULL);
    assert_null(strstr(why.text, "at most"));
    etw_ctl_trust(c);
    assert_err(etw_ctl_start(c, &why), ERR_FULL);
    assert_non_null(strstr(why.text, "80 sessions at most"));
    etw_ctl_close(c);
}

static void buffers_are_set_within_their_limits(void **state)
{
    struct etwreplay_script script = {0};
    struct etw_ctl *c = open_with(&script);
    struct errmsg why;

    assert_ok(etw_ctl_buffers(c, 100, NULL)); /* not started yet: from the start on */
    assert_ok(etw_ctl_start(c, NULL));
    assert_int_equal(etwreplay_max_buffers(), 100);
    assert_ok(etw_ctl_buffers(c, 200, NULL));
    assert_int_equal(etwreplay_max_buffers(), 200);
    assert_err(etw_ctl_buffers(c, 257, &why), ERR_RANGE);
    assert_non_null(strstr(why.text, "pool_limit_mib"));
    assert_err(etw_ctl_buffers(c, 3, &why), ERR_RANGE);
    assert_int_equal(stats_of(c).grown, 0);
    etw_ctl_close(c);
}

static void buffers_grow_to_the_pool_and_no_further(void **state)
{
    struct etwreplay_script script = {0};
    struct etw_ctl *c = open_with(&script);
    struct errmsg why;

    assert_ok(etw_ctl_start(c, NULL));
    assert_ok(etw_ctl_grow(c, &why));
    assert_int_equal(etwreplay_max_buffers(), 128);
    assert_ok(etw_ctl_grow(c, &why));
    assert_int_equal(etwreplay_max_buffers(), 256); /* of 64 KiB: 16 MiB */
    assert_err(etw_ctl_grow(c, &why), ERR_FULL);
    assert_non_null(strstr(why.text, "pool_limit_mib"));
    assert_int_equal(stats_of(c).grown, 2);
    etw_ctl_close(c);
}

static void growing_leaves_the_flags_on(void **state)
{
    struct etwreplay_script script = {
        .flags_refused = 0x8, .faults[REPLAY_UPDATE] = {.times = 1, .code = ERROR_MORE_DATA}};
    struct etw_ctl *c = open_with(&script);
    struct errmsg why;

    assert_ok(etw_ctl_start(c, NULL));
    assert_int_equal(etw_ctl_flags_on(c), 0);
    assert_err(etw_ctl_flags(c, 0xf, &why), ERR_PROVIDER);
    assert_int_equal(etw_ctl_flags_on(c), 0x7);
    assert_ok(etw_ctl_grow(c, &why)); /* sent twice, without the one that is refused */
    assert_int_equal(etwreplay_flags(), 0x7);
    assert_int_equal(etwreplay_flags_of("procfleet-test"), 0x7);
    etw_ctl_close(c);
}

static void a_session_that_somebody_stopped_is_lost(void **state)
{
    struct etwreplay_script script = {
        .faults[REPLAY_QUERY] = {.times = 1, .code = ERROR_WMI_INSTANCE_NOT_FOUND}};
    struct etw_ctl *c = open_with(&script);
    struct etw_totals totals;

    assert_ok(etw_ctl_start(c, NULL));
    assert_err(etw_ctl_query(c, &totals, NULL), ERR_LOST);
    etw_ctl_close(c);
}

static void a_session_that_somebody_replaced_is_lost_and_left_alone(void **state)
{
    struct etwreplay_script script = {0};
    struct etw_ctl *c = open_with(&script);
    struct etw_totals totals;

    assert_ok(etw_ctl_start(c, NULL));
    etwreplay_add(kernel.name, foreign, true);
    assert_err(etw_ctl_query(c, &totals, NULL), ERR_LOST);
    assert_ok(etw_ctl_stop(c, NULL));
    assert_true(etwreplay_exists(kernel.name));
    assert_err(etw_ctl_start(c, NULL), ERR_EXISTS);
    assert_true(etwreplay_exists(kernel.name));
    etw_ctl_close(c);
}

static void a_foreign_session_is_read_and_never_controlled(void **state)
{
    static const struct source_provider provider = {.guid = ETW_PROVIDER_KERNEL_PROCESS};
    struct etwreplay_script script = {0};
    const struct etw_api *api = etwreplay_begin(&script);
    struct etw_session_conf conf = {.name = "theirs", .attach = true, .kernel = true};
    struct etw_ctl *c;

    assert_ok(etw_ctl_open(&c, api, &conf, NULL));
    assert_err(etw_ctl_start(c, NULL), ERR_NOTFOUND);
    etwreplay_add("theirs", foreign, true);
    assert_ok(etw_ctl_start(c, NULL));
    assert_ok(etw_ctl_flags(c, FLAG_PROCESS, NULL));
    assert_ok(etw_ctl_enable(c, &provider, NULL));
    assert_ok(etw_ctl_flush(c, NULL));
    assert_err(etw_ctl_grow(c, NULL), ERR_FULL);
    assert_ok(etw_ctl_stop(c, NULL));
    for (int call = 0; call < REPLAY_CALLS; call++) {
        assert_int_equal(etwreplay_calls((enum etwreplay_call)call), call == REPLAY_QUERY ? 2 : 0);
    }
    assert_true(etwreplay_exists("theirs"));
    etw_ctl_close(c);
}

static void impossible_sessions_are_refused(void **state)
{
    struct etwreplay_script script = {0};
    const struct etw_api *api = etwreplay_begin(&script);
    struct etw_session_conf rows[] = {kernel, kernel, kernel, kernel, kernel};
    struct etw_ctl *c;

    rows[0].name[0] = '\0';
    rows[1].name[0] = '\xff';
    rows[2].buffer_kb = 2048;
    rows[3].min_buffers = 65;
    rows[4].pool_mib = 3;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_err(etw_ctl_open(&c, api, &rows[i], NULL), ERR_INVALID);
    }
    mem_fail_after(0);
    assert_err(etw_ctl_open(&c, api, &kernel, NULL), ERR_NOMEM);
    mem_fail_after(-1);
}

static void the_systems_own_functions_are_found(void **state)
{
    struct etw_api api;
    int64_t ticks, utc_ns;
    uint64_t frequency = 0;

    assert_ok(etw_api_load(&api, NULL));
    assert_true(api.start && api.control && api.enable && api.set_info && api.list && api.open &&
                api.process && api.close);
    api.clock(&ticks, &frequency, &utc_ns);
    assert_true(frequency > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_starts_is_queried_and_stops),
        cmocka_unit_test(a_session_of_an_earlier_run_is_reclaimed),
        cmocka_unit_test(a_foreign_session_of_our_name_is_left_alone),
        cmocka_unit_test(who_holds_the_slots_is_told),
        cmocka_unit_test(every_refusal_has_its_error_and_a_remedy),
        cmocka_unit_test(a_block_that_is_too_small_is_sent_again_twice),
        cmocka_unit_test(flags_go_off_before_they_go_on),
        cmocka_unit_test(a_refused_flag_does_not_cost_the_others),
        cmocka_unit_test(a_missing_right_is_final),
        cmocka_unit_test(flags_are_added_without_touching_the_others),
        cmocka_unit_test(a_timer_in_ms_needs_a_system_that_knows_it),
        cmocka_unit_test(a_refused_provider_is_named),
        cmocka_unit_test(flags_change_without_going_off),
        cmocka_unit_test(why_a_provider_is_refused_is_said),
        cmocka_unit_test(events_are_filtered_by_id_where_the_system_can),
        cmocka_unit_test(processes_programs_and_values_are_filters_of_the_system_too),
        cmocka_unit_test(the_machines_sampling_is_put_back),
        cmocka_unit_test(sampling_that_cannot_be_asked_or_set_stays),
        cmocka_unit_test(stacks_go_on_and_off),
        cmocka_unit_test(how_many_slots_there_are_is_asked_where_it_is_safe),
        cmocka_unit_test(buffers_are_set_within_their_limits),
        cmocka_unit_test(buffers_grow_to_the_pool_and_no_further),
        cmocka_unit_test(growing_leaves_the_flags_on),
        cmocka_unit_test(a_session_that_somebody_stopped_is_lost),
        cmocka_unit_test(a_session_that_somebody_replaced_is_lost_and_left_alone),
        cmocka_unit_test(a_foreign_session_is_read_and_never_controlled),
        cmocka_unit_test(impossible_sessions_are_refused),
        cmocka_unit_test(the_systems_own_functions_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
