#include "agent/source/windows/etw_ctl_impl.h"

#include <stdio.h>
#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/etw_provider.h"

#define GROUP_MASKS    8
#define FLAG_BITS      32
#define INTERVAL_UNITS 10000000u /* in a second */

/* ---- kernel flags ---- */

static ULONG set_flags(struct etw_ctl *c, uint32_t flags)
{
    ULONG masks[GROUP_MASKS] = {flags};

    return c->api->set_info(c->handle, TraceSystemTraceEnableFlagsInfo, masks, sizeof masks);
}

/* Those the system takes, one after the other. */
static enum err flags_singly(struct etw_ctl *c, uint32_t flags, struct errmsg *why)
{
    uint32_t taken = 0, refused = 0;

    for (uint32_t i = 0; i < FLAG_BITS; i++) {
        uint32_t bit = UINT32_C(1) << i;

        if (!(flags & bit)) {
            continue;
        }
        if (set_flags(c, taken | bit)) {
            refused |= bit;
            c->stats.flags_refused++;
        } else {
            taken |= bit;
        }
    }
    c->flags_on = taken;
    if (refused && taken) { /* a refused call may have left anything */
        err_ignore(etw_ctl_failed(c, NULL, "flags", set_flags(c, taken)));
    }
    return refused ? errmsg_set(why, ERR_PROVIDER,
                                "session %s: the kernel refuses the flags 0x%x; the others are on",
                                c->conf.name, (unsigned)refused)
                   : ERR_OK;
}

enum err etw_ctl_flags(struct etw_ctl *c, uint32_t flags, struct errmsg *why)
{
    ULONG code;

    if (c->conf.attach || !c->conf.kernel) {
        return ERR_OK;
    }
    code = c->told_flags ? ERROR_SUCCESS : set_flags(c, 0);
    if (!code) {
        code = set_flags(c, flags);
    }
    if (code == ERROR_WMI_INSTANCE_NOT_FOUND || code == ERROR_ACCESS_DENIED) {
        return etw_ctl_failed(c, why, "flags", code);
    }
    c->told_flags = true;
    if (code) {
        return flags_singly(c, flags, why);
    }
    c->flags_on = flags;
    return ERR_OK;
}

uint32_t etw_ctl_flags_on(const struct etw_ctl *c)
{
    return c->flags_on;
}

/* ---- stacks and samples ---- */

enum err etw_ctl_stacks(struct etw_ctl *c, bool on, struct errmsg *why)
{
    static const struct {
        uint8_t guid[16];
        uint8_t opcode;
    } wanted[] = {{ETW_CLASS_THREAD, 36}, {ETW_CLASS_PERF_INFO, 46}}; /* switches, samples */
    CLASSIC_EVENT_ID ids[sizeof wanted / sizeof wanted[0]];
    ULONG code;

    if (c->conf.attach || !c->conf.kernel) {
        return ERR_OK;
    }
    memset(ids, 0, sizeof ids);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        memcpy(&ids[i].EventGuid, wanted[i].guid, sizeof ids[i].EventGuid);
        ids[i].Type = wanted[i].opcode;
    }
    code = c->api->set_info(c->handle, TraceStackTracingInfo, ids, on ? sizeof ids : 0);
    if (code) {
        c->stats.flags_refused++;
        return errmsg_set(why, ERR_PROVIDER,
                          "session %s: the kernel refuses stacks (error %u); they are left out",
                          c->conf.name, (unsigned)code);
    }
    return ERR_OK;
}

/* The profile source 0 is the timer. */
static ULONG set_interval(struct etw_ctl *c, uint32_t interval)
{
    TRACE_PROFILE_INTERVAL v = {.Interval = interval};

    return c->api->set_info(0, TraceSampledProfileIntervalInfo, &v, sizeof v);
}

static bool know_interval(struct etw_ctl *c)
{
    TRACE_PROFILE_INTERVAL v = {0};
    ULONG got = 0;

    if (!c->interval_was && c->trusted && c->api->query_info &&
        !c->api->query_info(0, TraceSampledProfileIntervalInfo, &v, sizeof v, &got)) {
        c->interval_was = v.Interval;
    }
    return c->interval_was != 0;
}

enum err etw_ctl_sampling(struct etw_ctl *c, uint32_t per_s, struct errmsg *why)
{
    ULONG code;

    if (c->conf.attach || !know_interval(c)) {
        return errmsg_set(why, ERR_UNSUPPORTED,
                          "session %s: the machine's distance of CPU samples cannot be asked for "
                          "and stays as it is",
                          c->conf.name);
    }
    code = set_interval(c, INTERVAL_UNITS / per_s);
    if (code) {
        c->stats.flags_refused++;
        return errmsg_set(why, ERR_PROVIDER,
                          "session %s: %u CPU samples a second are refused (error %u); the "
                          "machine's own distance holds",
                          c->conf.name, (unsigned)per_s, (unsigned)code);
    }
    return ERR_OK;
}

void etw_ctl_sampling_end(struct etw_ctl *c)
{
    if (c->interval_was) {
        err_ignore(etw_ctl_failed(c, NULL, "interval", set_interval(c, c->interval_was)));
        c->interval_was = 0;
    }
}

/* ---- providers ---- */

static const char *guid_text(char *text, size_t size, const uint8_t *bytes)
{
    GUID g;

    memcpy(&g, bytes, sizeof g);
    (void)snprintf(text, size, "%08lx-%04x-%04x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                   (unsigned long)g.Data1, g.Data2, g.Data3, g.Data4[0], g.Data4[1], g.Data4[2],
                   g.Data4[3], g.Data4[4], g.Data4[5], g.Data4[6], g.Data4[7]);
    return text;
}

static const char *provider_text(char *text, size_t size, const uint8_t *guid)
{
    const char *name = etw_provider_name(guid);

    return name ? name : guid_text(text, size, guid);
}

static const char *refusal_text(ULONG code)
{
    switch (code) {
    case ERROR_ACCESS_DENIED:
    case ERROR_PRIVILEGE_NOT_HELD:
        return "the account may not use it; run as LocalSystem or an administrator";
    case ERROR_NO_SYSTEM_RESOURCES:
        return "8 sessions use it already; stop one (logman query -ets)";
    case ERROR_WMI_INSTANCE_NOT_FOUND:
        return "the session is gone";
    case ERROR_INVALID_PARAMETER:
        return "the system does not take level, keywords or filter";
    default:
        return "check its GUID";
    }
}

/* What EVENT_FILTER_EVENT_ID holds: in or out, reserved, number, numbers. */
struct id_filter {
    uint8_t in, reserved;
    uint16_t n, ids[SOURCE_PROVIDER_IDS];
};

static ULONG enable(struct etw_ctl *c, const struct source_provider *p, ULONG control, bool filter)
{
    struct id_filter ids = {.in = TRUE, .n = (uint16_t)p->n_ids};
    EVENT_FILTER_DESCRIPTOR d = {
        .Ptr = (ULONGLONG)(uintptr_t)&ids,
        .Size = (ULONG)(offsetof(struct id_filter, ids) + p->n_ids * sizeof ids.ids[0]),
        .Type = EVENT_FILTER_TYPE_EVENT_ID};
    ENABLE_TRACE_PARAMETERS parameters = {.Version = ENABLE_TRACE_PARAMETERS_VERSION_2};
    GUID guid;

    memcpy(&guid, p->guid, sizeof guid);
    if (filter) {
        memcpy(ids.ids, p->ids, p->n_ids * sizeof ids.ids[0]);
        parameters.EnableFilterDesc = &d;
        parameters.FilterDescCount = 1;
    }
    return c->api->enable(c->handle, &guid, control, p->level, p->any, p->all, 0, &parameters);
}

enum err etw_ctl_enable(struct etw_ctl *c, const struct source_provider *p, struct errmsg *why)
{
    bool filter = p->n_ids > 0;
    char name[40];
    ULONG code;

    if (c->conf.attach) {
        return ERR_OK;
    }
    code = enable(c, p, EVENT_CONTROL_CODE_ENABLE_PROVIDER, filter);
    if (code == ERROR_INVALID_PARAMETER && filter) {
        c->stats.filters_refused++;
        code = enable(c, p, EVENT_CONTROL_CODE_ENABLE_PROVIDER, false);
    }
    if (!code && p->rundown) {
        code = enable(c, p, EVENT_CONTROL_CODE_CAPTURE_STATE, false);
    }
    if (code) {
        c->stats.providers_refused++;
        return errmsg_set(why, ERR_PROVIDER,
                          "session %s: provider %s cannot be enabled (error %u): %s", c->conf.name,
                          provider_text(name, sizeof name, p->guid), (unsigned)code,
                          refusal_text(code));
    }
    return ERR_OK;
}

enum err etw_ctl_disable(struct etw_ctl *c, const uint8_t guid[16], struct errmsg *why)
{
    struct source_provider p = {0};
    char name[40];
    ULONG code;

    if (c->conf.attach) {
        return ERR_OK;
    }
    memcpy(p.guid, guid, sizeof p.guid);
    code = enable(c, &p, EVENT_CONTROL_CODE_DISABLE_PROVIDER, false);
    return code ? errmsg_set(why, ERR_PROVIDER,
                             "session %s: provider %s cannot be disabled (error %u): %s",
                             c->conf.name, provider_text(name, sizeof name, guid), (unsigned)code,
                             refusal_text(code))
                : ERR_OK;
}
