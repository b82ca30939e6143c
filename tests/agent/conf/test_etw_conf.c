#include "agent/conf/etw_conf.h"

#include <stdio.h>
#include <string.h>

#include "agent/conf/agent_conf.h"
#include "agent/source/etw_guid.h"
#include "agent/source/etw_provider.h"
#include "agent/source/source_shed.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "tests/support/t.h"

static const uint8_t kernel_process[16] = ETW_PROVIDER_KERNEL_PROCESS;

/* One setting in a file of three lines. */
static enum err read_text(struct etw_conf *out, struct conf **owner, const char *text,
                          struct errmsg *why)
{
    size_t n;
    const struct conf_key *keys = agent_conf_keys(&n);
    enum err e;

    assert_ok(conf_create(owner, keys, n));
    e = conf_load_text(*owner, text, strlen(text), "t.yaml", why);
    return e ? e : etw_conf_read(out, *owner, why);
}

static void defaults_are_those_of_the_documents(void **state)
{
    struct etw_conf v;
    struct conf *c;

    assert_ok(read_text(&v, &c, "", NULL));
    assert_string_equal(v.session_name, "procfleet");
    assert_int_equal(v.buffers.kb, 64);
    assert_int_equal(v.buffers.min, 64);
    assert_int_equal(v.buffers.max, 256);
    assert_int_equal(v.hi.kb, 256);
    assert_int_equal(v.hi.min, 64);
    assert_int_equal(v.hi.max, 128);
    assert_int_equal(v.pool_mib, 64);
    assert_int_equal(v.flush_s, 1);
    assert_int_equal(v.flush_ms, 0);
    assert_int_equal(v.flags, 0x0101201f); /* all but disk, files, registry, address space */
    assert_int_equal(v.clr, ETW_CLR_GC);
    assert_string_equal(v.clr_only, "");
    assert_int_equal(v.samples_per_s, 1000);
    assert_false(v.stacks);
    assert_int_equal(v.ring_bytes, 1 << 20);
    assert_int_equal(v.batch_events, 10000);
    assert_int_equal(v.retry_fast, 3);
    assert_int_equal(v.retry_pause_ns, CLK_S);
    assert_int_equal(v.n_providers, 1);
    assert_memory_equal(v.providers[0].guid, kernel_process, 16);
    assert_int_equal(v.providers[0].level, 4);
    assert_int_equal(v.providers[0].any, 0x10);
    assert_true(v.providers[0].rundown);
    conf_destroy(c);
}

static void a_preset_fills_what_is_not_set(void **state)
{
    struct etw_conf v;
    struct conf *c;

    assert_ok(read_text(&v, &c, "etw: {preset: burst}\n", NULL));
    assert_int_equal(v.buffers.kb, 32);
    assert_int_equal(v.buffers.min, 64);
    assert_int_equal(v.buffers.max, 512);
    assert_int_equal(v.flush_ms, 5);
    assert_int_equal(v.hi.kb, 256);
    conf_destroy(c);
    assert_ok(read_text(&v, &c, "etw: {preset: burst, max_buffers: 100, flush_ms: 0}\n", NULL));
    assert_int_equal(v.buffers.max, 100);
    assert_int_equal(v.flush_ms, 0);
    assert_int_equal(v.buffers.kb, 32);
    conf_destroy(c);
}

static void flags_come_from_names_hex_or_permissions(void **state)
{
    static const struct {
        const char *text;
        uint32_t flags;
    } rows[] = {
        {"enable_disk_io: true", 0x0101251f},
        {"enable_process_events: false", 0x01012012},
        {"enable_thread_events: false", 0x0101201d},
        {"enable_memory_events: false", 0x0101001f},
        {"enable_network: false", 0x0100201f},
        {"enable_virtual_alloc: true", 0x0101601f},
        {"enable_file_io: true", 0x0701201f},
        {"enable_registry: true", 0x0103201f},
        {"enable_context_switch: false", 0x0101200f},
        {"enable_cpu_sampling: false", 0x0001201f},
        {"kernel_flags: [PROCESS]", 0x1},
        {"kernel_flags: [process, EVENT_TRACE_FLAG_THREAD, 0x100]", 0x103},
        {"kernel_flags: [EVENT_TRACE_FLAG_MEMORY_PAGE]", 0x2000},
        {"kernel_flags: [0xC]", 0xc},
        {"kernel_flags: []", 0x0101201f},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct errmsg why = {""};
        struct etw_conf v;
        struct conf *c;
        char text[128];

        (void)snprintf(text, sizeof text, "etw:\n  %s\n", rows[i].text);
        if (read_text(&v, &c, text, &why)) {
            fail_msg("%s: %s", rows[i].text, why.text);
        }
        assert_int_equal(v.flags, rows[i].flags);
        conf_destroy(c);
    }
}

static void the_level_decides_what_of_the_permitted_is_on(void **state)
{
    static const uint32_t all = 0x0100251f;
    static const uint32_t high[] = {0, 0, 0x2502, 0x2512, 0x01002512};
    static const uint32_t only_switches[] = {0, 0, 0, 0x12, 0x12};

    assert_int_equal(etw_conf_lifecycle_flags(all), 0xf);
    assert_int_equal(etw_conf_lifecycle_flags(0x100), 0);
    for (unsigned level = 0; level < COUNT_OF(high); level++) {
        assert_int_equal(etw_conf_high_flags(all, level), high[level]);
        assert_int_equal(etw_conf_high_flags(0x13, level), only_switches[level]);
        assert_int_equal(etw_conf_high_flags(0xf, level), 0);
    }
    assert_int_equal(etw_conf_high_flags(0x06034000, 2), 0x00014002);
    assert_int_equal(etw_conf_high_flags(0x06034000, 3), 0x06034002);
}

/* What of .NET is asked for: by level, by event, by program. */
static void dotnet_is_asked_for_what_the_level_permits(void **state)
{
    static const uint8_t guid[16] = ETW_PROVIDER_CLR;
    struct source_provider p;
    struct etw_conf v;
    struct conf *c;

    for (unsigned level = 0; level <= 4; level++) {
        assert_int_equal(etw_conf_clr(ETW_CLR_OFF, level, 0), ETW_CLR_OFF);
        assert_int_equal(etw_conf_clr(ETW_CLR_GC, level, 0), level ? ETW_CLR_GC : ETW_CLR_OFF);
        assert_int_equal(etw_conf_clr(ETW_CLR_FULL, level, 0), level == 0   ? ETW_CLR_OFF
                                                               : level == 1 ? ETW_CLR_GC
                                                                            : ETW_CLR_FULL);
    }
    assert_int_equal(etw_conf_clr(ETW_CLR_FULL, 2, 1u << SOURCE_SHED_CLR), ETW_CLR_GC);
    assert_int_equal(etw_conf_clr(ETW_CLR_GC, 2, 1u << SOURCE_SHED_CLR), ETW_CLR_OFF);
    assert_ok(read_text(&v, &c, "etw: {clr: full, clr_only: [w3wp.exe, app.exe]}\n", NULL));
    assert_int_equal(v.clr, ETW_CLR_FULL);
    assert_string_equal(v.clr_only, "w3wp.exe;app.exe");
    conf_destroy(c);
    etw_conf_clr_provider(&p, ETW_CLR_GC, v.clr_only);
    assert_memory_equal(p.guid, guid, sizeof guid);
    assert_int_equal(p.level, 4);
    assert_true(p.any == 0x1c001);
    assert_int_equal(p.n_ids, 9);
    assert_string_equal(p.exe, "w3wp.exe;app.exe");
    etw_conf_clr_provider(&p, ETW_CLR_FULL, "");
    assert_int_equal(p.level, 5);
    assert_true(p.any == 0x1c011);
    assert_int_equal(p.n_ids, 13);
    assert_ok(read_text(&v, &c, "etw: {providers: [Microsoft-Windows-DotNETRuntime]}\n", NULL));
    assert_int_equal(v.clr, ETW_CLR_OFF); /* as the user's own line says */
    conf_destroy(c);
}

/* Frames are asked of two providers, unless the user's own line says how. */
static void frames_are_asked_for_when_permitted(void **state)
{
    static const struct {
        const char *text;
        bool presents;
    } rows[] = {
        {"etw: {enable_presents: true}\n", true},
        {"etw: {enable_presents: false}\n", false},
        {"etw: {enable_presents: true, providers: [Microsoft-Windows-D3D9]}\n", false},
        {"etw: {enable_presents: true, providers: ['Microsoft-Windows-DXGI#10']}\n", false},
    };
    static const uint8_t guids[][16] = {ETW_PROVIDER_DXGI, ETW_PROVIDER_D3D9};
    struct source_provider p;
    struct etw_conf v;
    struct conf *c;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_ok(read_text(&v, &c, rows[i].text, NULL));
        assert_int_equal(v.presents, rows[i].presents);
        conf_destroy(c);
    }
    for (size_t i = 0; i < ETW_CONF_PRESENTS; i++) {
        etw_conf_present_provider(&p, i);
        assert_memory_equal(p.guid, guids[i], 16);
        assert_int_equal(p.n_ids, i == 0 ? 2 : 1);
        assert_int_equal(p.ids[0], i == 0 ? 42 : 1);
        assert_true(p.any == 2);
    }
}

static void wrong_settings_name_line_and_key(void **state)
{
    static const struct {
        const char *text; /* below etw: */
        const char *says[3];
    } rows[] = {
        {"session_name: ''", {"t.yaml:2: etw.session_name", "1 to 1000"}},
        {"session_name: nt kernel logger", {"t.yaml:2: etw.session_name", "attach"}},
        {"session_name: Circular Kernel Context Logger", {"t.yaml:2: etw.session_name"}},
        {"preset: fast", {"t.yaml:2: etw.preset", "none|burst"}},
        {"buffer_size_kb: 2", {"t.yaml:2: etw.buffer_size_kb", "4 to 1024"}},
        {"min_buffers: 257", {"t.yaml:2: etw.min_buffers", "etw.max_buffers, which is 256"}},
        {"max_buffers: 2048", {"t.yaml:2: etw.max_buffers", "pool_limit_mib"}},
        {"hi: {max_buffers: 257}", {"t.yaml:2: etw.hi.max_buffers", "pool_limit_mib"}},
        {"hi: {max_buffers: 8}", {"etw.hi.min_buffers", "64 is more"}},
        {"flush_ms: 4", {"t.yaml:2: etw.flush_ms", "5 to 1000"}},
        {"flush_ms: 1001", {"t.yaml:2: etw.flush_ms", "0 to 1000"}},
        {"flush_timer: 500ms", {"t.yaml:2: etw.flush_timer"}},
        {"flush_timer: 1500ms", {"t.yaml:2: etw.flush_timer", "whole seconds"}},
        {"kernel_flags: [PROCES]", {"t.yaml:2: etw.kernel_flags", "'PROCES'"}},
        {"kernel_flags: [0x]", {"t.yaml:2: etw.kernel_flags"}},
        {"kernel_flags: [0x1FFFFFFFF]", {"t.yaml:2: etw.kernel_flags"}},
        {"kernel_flags: [0x1001]", {"t.yaml:2: etw.kernel_flags", "page fault"}},
        {"cpu_sampling_interval: 8001", {"t.yaml:2: etw.cpu_sampling_interval", "1 to 8000"}},
        {"clr: some", {"t.yaml:2: etw.clr", "off|gc|full"}},
        {"clr_only: ['*.exe']", {"t.yaml:2: etw.clr_only", "without patterns"}},
        {"clr_only: ['a;b.exe']", {"t.yaml:2: etw.clr_only"}},
        {"providers: [Kernel]", {"t.yaml:2: etw.providers", "no provider 'Kernel'"}},
        {"providers: [Microsoft-Windows-DXGI, microsoft-windows-dxgi:3]",
         {"t.yaml:2: etw.providers", "twice"}},
        {"providers: [Microsoft-Windows-DXGJ]", {"did you mean 'Microsoft-Windows-DXGI'"}},
        {"ring_bytes: 1KiB", {"t.yaml:2: etw.ring_bytes"}},
        {"batch_events: 0", {"t.yaml:2: etw.batch_events"}},
        {"retry_fast: 101", {"t.yaml:2: etw.retry_fast"}},
        {"retry_pause: 10ms", {"t.yaml:2: etw.retry_pause"}},
        {"max_bufers: 1", {"etw.max_buffers"}},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct errmsg why = {""};
        struct etw_conf v;
        struct conf *c;
        char text[160];

        (void)snprintf(text, sizeof text, "etw:\n  %s\n", rows[i].text);
        assert_int_not_equal(read_text(&v, &c, text, &why), ERR_OK);
        for (size_t k = 0; k < COUNT_OF(rows[i].says) && rows[i].says[k]; k++) {
            if (!strstr(why.text, rows[i].says[k])) {
                fail_msg("%s: '%s' does not say '%s'", rows[i].text, why.text, rows[i].says[k]);
            }
        }
        conf_destroy(c);
    }
}

/* ---- providers ---- */

static void a_provider_is_a_name_or_a_guid_with_parts(void **state)
{
    static const struct {
        const char *text;
        uint8_t first; /* byte of the GUID: the lowest of its first number */
        uint8_t level;
        uint64_t any, all;
        size_t n_ids;
        uint16_t last_id;
        bool rundown;
    } rows[] = {
        {"Microsoft-Windows-Kernel-Process", 0xd6, 4, 0x10, 0, 0, 0, true},
        {"microsoft-windows-kernel-process:5:0x70", 0xd6, 5, 0x70, 0, 0, 0, true},
        {"22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716#1+2+15", 0xd6, 4, 0x10, 0, 3, 15, true},
        {"{22FB2CD6-0E7B-422B-A0C7-2FAD1FD0E716}:0", 0xd6, 0, 0x10, 0, 0, 0, true},
        {"Microsoft-Windows-DotNETRuntime:4:0x1:16", 0x23, 4, 1, 16, 0, 0, false},
        {"IIS: WWW Server:3", 0x84, 3, 0, 0, 0, 0, false},
        {"Microsoft-Windows-IIS-Logging", 0x7f, 4, 0, 0, 0, 0, false},
        {"Microsoft-Windows-Direct3D11", 0xdb, 4, 0, 0, 0, 0, false},
        {"Microsoft-Windows-DXGI#42", 0x36, 4, 0, 0, 1, 42, false},
        {"Microsoft-Windows-Dwm-Core:1:0xffffffffffffffff", 0x3c, 1, UINT64_MAX, 0, 0, 0, false},
        {"00000000-0000-0000-0000-000000000001:2", 0, 2, 0, 0, 0, 0, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct errmsg why = {""};
        struct source_provider p;

        if (etw_provider_parse(&p, rows[i].text, &why)) {
            fail_msg("%s: %s", rows[i].text, why.text);
        }
        assert_int_equal(p.guid[0], rows[i].first);
        assert_int_equal(p.level, rows[i].level);
        assert_true(p.any == rows[i].any && p.all == rows[i].all);
        assert_int_equal(p.n_ids, rows[i].n_ids);
        assert_int_equal(p.n_ids ? p.ids[p.n_ids - 1] : 0, rows[i].last_id);
        assert_int_equal(p.rundown, rows[i].rundown);
    }
    assert_string_equal(etw_provider_name(kernel_process), "Microsoft-Windows-Kernel-Process");
}

static void a_provider_may_mean_some_processes_programs_and_values_only(void **state)
{
    struct source_provider p;

    assert_ok(
        etw_provider_parse(&p, "IIS: WWW Server:3#7  pid=8+9 where=a=b=c exe=W3wp.exe+x", NULL));
    assert_true(p.level == 3 && p.n_ids == 1 && p.n_pids == 2 && p.pids[1] == 9);
    assert_string_equal(p.exe, "W3wp.exe;x");
    assert_string_equal(p.field, "a");
    assert_string_equal(p.value, "b=c");
    assert_true(etw_provider_filters(&p));
    assert_true(etw_provider_means(&p, 7, 8, "w3WP.EXE", 8));
    assert_true(etw_provider_means(&p, 7, 9, "", 0)); /* nobody knows what runs there */
    assert_false(etw_provider_means(&p, 6, 8, "x", 1));
    assert_false(etw_provider_means(&p, 7, 7, "x", 1));
    assert_false(etw_provider_means(&p, 7, 8, "w3wp.ex", 7));
    assert_ok(etw_provider_parse(&p, "22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716 pid=0", NULL));
    assert_true(p.n_pids == 1 && etw_provider_filters(&p));
}

static void what_is_no_provider_says_which_part(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "no provider"},
        {"Microsoft-Windows-DXGIX", "did you mean"},
        {"22fb2cd6-0e7b-422b-a0c7-2fad1fd0e71", "no provider"},
        {"22fb2cd6x0e7b-422b-a0c7-2fad1fd0e716", "no provider"},
        {"22fb2cd6-0e7b-422b-a0c7-2fad1fd0e71g", "no provider"},
        {"{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716", "no provider"},
        {"Microsoft-Windows-DXGI:", "level"},
        {"Microsoft-Windows-DXGI:6", "level"},
        {"Microsoft-Windows-DXGI:x", "level"},
        {"Microsoft-Windows-DXGI:4:", "any"},
        {"Microsoft-Windows-DXGI:4:0x10000000000000000", "any"},
        {"Microsoft-Windows-DXGI:4:0:-1", "all"},
        {"Microsoft-Windows-DXGI:4:0:0:0", "too much"},
        {"Microsoft-Windows-DXGI#", "event ids"},
        {"Microsoft-Windows-DXGI#65536", "event ids"},
        {"Microsoft-Windows-DXGI#1+", "event ids"},
        {"Microsoft-Windows-DXGI#1-2", "event ids"},
        {"Microsoft-Windows-DXGI pid=", "pid="},
        {"Microsoft-Windows-DXGI pid=1+", "pid="},
        {"Microsoft-Windows-DXGI pid=1+2+3+4+5+6+7+8+9", "pid="},
        {"Microsoft-Windows-DXGI pid=4294967296", "pid="},
        {"Microsoft-Windows-DXGI pid=1 pid=2", "too much"},
        {"Microsoft-Windows-DXGI who=1", "too much"},
        {"Microsoft-Windows-DXGI pid=1 stack=1+2", "record --stacks"},
        {"Microsoft-Windows-DXGI exe=", "exe="},
        {"Microsoft-Windows-DXGI exe=a++b", "exe="},
        {"Microsoft-Windows-DXGI exe=c:\\a.exe", "exe="},
        {"Microsoft-Windows-DXGI#1 where=a", "where="},
        {"Microsoft-Windows-DXGI where=a=b", "ids"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct errmsg why = {""};
        struct source_provider p;

        assert_int_not_equal(etw_provider_parse(&p, rows[i].text, &why), ERR_OK);
        if (!strstr(why.text, rows[i].says)) {
            fail_msg("'%s': '%s'", rows[i].text, why.text);
        }
    }
}

static void no_more_ids_than_the_system_takes(void **state)
{
    char text[512] = "Microsoft-Windows-DXGI#1";
    size_t n = strlen(text);
    struct source_provider p;

    for (int i = 1; i < SOURCE_PROVIDER_IDS; i++, n += 2) {
        memcpy(text + n, "+1", 3);
    }
    assert_ok(etw_provider_parse(&p, text, NULL));
    assert_int_equal(p.n_ids, SOURCE_PROVIDER_IDS);
    memcpy(text + n, "+1", 3);
    assert_err(etw_provider_parse(&p, text, NULL), ERR_INVALID);
}

static void the_first_provider_is_kernel_process_unless_it_is_off(void **state)
{
    static const struct {
        const char *text;
        size_t n;
        uint64_t any; /* of the first */
        bool kernel_process;
    } rows[] = {
        {"providers: [Microsoft-Windows-DXGI]", 2, 0x10, true},
        {"providers: [Microsoft-Windows-DXGI, 'Microsoft-Windows-Kernel-Process:4:0x30']", 2, 0x30,
         true},
        {"providers: []", 1, 0x10, true},
        {"{providers: [], enable_process_events: false}", 0, 0, false},
        {"{providers: [Microsoft-Windows-DXGI], enable_process_events: false}", 1, 0, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct etw_conf v;
        struct conf *c;
        char text[200];

        (void)snprintf(text, sizeof text, "etw:\n  %s\n", rows[i].text);
        assert_ok(read_text(&v, &c, text, NULL));
        assert_int_equal(v.n_providers, rows[i].n);
        assert_true(v.providers[0].any == rows[i].any);
        assert_int_equal(memcmp(v.providers[0].guid, kernel_process, 16) == 0,
                         rows[i].kernel_process);
        conf_destroy(c);
    }
}

static void the_shared_session_may_be_read(void **state)
{
    struct etw_conf v;
    struct conf *c;

    assert_ok(read_text(&v, &c, "", NULL));
    assert_ok(conf_set(c, "etw.session_name", "NT Kernel Logger", NULL));
    assert_err(etw_conf_read(&v, c, NULL), ERR_INVALID);
    if (conf_set(c, "source", "attach", NULL) == ERR_OK) { /* where this system has it */
        assert_ok(etw_conf_read(&v, c, NULL));
    }
    conf_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_documents),
        cmocka_unit_test(a_preset_fills_what_is_not_set),
        cmocka_unit_test(flags_come_from_names_hex_or_permissions),
        cmocka_unit_test(the_level_decides_what_of_the_permitted_is_on),
        cmocka_unit_test(dotnet_is_asked_for_what_the_level_permits),
        cmocka_unit_test(frames_are_asked_for_when_permitted),
        cmocka_unit_test(wrong_settings_name_line_and_key),
        cmocka_unit_test(a_provider_is_a_name_or_a_guid_with_parts),
        cmocka_unit_test(a_provider_may_mean_some_processes_programs_and_values_only),
        cmocka_unit_test(what_is_no_provider_says_which_part),
        cmocka_unit_test(no_more_ids_than_the_system_takes),
        cmocka_unit_test(the_first_provider_is_kernel_process_unless_it_is_off),
        cmocka_unit_test(the_shared_session_may_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
