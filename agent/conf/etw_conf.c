#include "agent/conf/etw_conf.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/etw_provider.h"
#include "agent/source/event_kind.h"
#include "agent/source/source_shed.h"
#include "common/base/clk.h"

#define FLAG_PREFIX "EVENT_TRACE_FLAG_"

static const struct {
    const char *name;
    uint32_t flag;
} flag_names[] = {
    {"PROCESS", ETW_FLAG_PROCESS},
    {"THREAD", ETW_FLAG_THREAD},
    {"IMAGE_LOAD", ETW_FLAG_IMAGE},
    {"PROCESS_COUNTERS", ETW_FLAG_PROCESS_COUNTERS},
    {"CSWITCH", ETW_FLAG_CSWITCH},
    {"DPC", ETW_FLAG_DPC},
    {"INTERRUPT", ETW_FLAG_INTERRUPT},
    {"SYSTEMCALL", ETW_FLAG_SYSTEMCALL},
    {"DISK_IO", ETW_FLAG_DISK_IO},
    {"DISK_FILE_IO", 0x200},
    {"DISK_IO_INIT", ETW_FLAG_DISK_INIT},
    {"DISPATCHER", ETW_FLAG_DISPATCHER},
    {"MEMORY_HARD_FAULTS", ETW_FLAG_HARD_FAULTS},
    {"MEMORY_PAGE", ETW_FLAG_HARD_FAULTS}, /* no such flag exists; old settings name it */
    {"VIRTUAL_ALLOC", ETW_FLAG_VIRTUAL_ALLOC},
    {"NETWORK_TCPIP", ETW_FLAG_NETWORK},
    {"REGISTRY", ETW_FLAG_REGISTRY},
    {"SPLIT_IO", 0x200000},
    {"PROFILE", ETW_FLAG_PROFILE},
    {"FILE_IO", ETW_FLAG_FILE_IO},
    {"FILE_IO_INIT", ETW_FLAG_FILE_IO_INIT},
};

#define FLAGS_LIFECYCLE \
    ((uint32_t)(ETW_FLAG_PROCESS | ETW_FLAG_THREAD | ETW_FLAG_IMAGE | ETW_FLAG_PROCESS_COUNTERS))
#define FLAGS_FROM_L3                                                                        \
    ((uint32_t)(ETW_FLAG_CSWITCH | ETW_FLAG_DPC | ETW_FLAG_INTERRUPT | ETW_FLAG_SYSTEMCALL | \
                ETW_FLAG_DISPATCHER | ETW_FLAG_REGISTRY | ETW_FLAG_FILE_IO |                 \
                ETW_FLAG_FILE_IO_INIT))
#define FLAGS_FROM_L4 ((uint32_t)ETW_FLAG_PROFILE)

/* ---- flags ---- */

uint32_t etw_conf_lifecycle_flags(uint32_t permitted)
{
    return permitted & FLAGS_LIFECYCLE;
}

/* Threads besides: without them nobody owns a switch, a sample or a fault. */
uint32_t etw_conf_high_flags(uint32_t permitted, unsigned level)
{
    uint32_t flags = level < 2 ? 0 : permitted & ~FLAGS_LIFECYCLE;

    flags &= level < 3 ? ~FLAGS_FROM_L3 : UINT32_MAX;
    flags &= level < 4 ? ~FLAGS_FROM_L4 : UINT32_MAX;
    return flags ? flags | ETW_FLAG_THREAD : 0;
}

uint32_t etw_conf_shed_flags(unsigned groups)
{
    static const uint32_t flags_of[SOURCE_SHED_COUNT] = {
        [SOURCE_SHED_NETWORK] = ETW_FLAG_NETWORK,
        [SOURCE_SHED_FILE] = ETW_FLAG_FILE_IO | ETW_FLAG_FILE_IO_INIT,
        [SOURCE_SHED_REGISTRY] = ETW_FLAG_REGISTRY,
        [SOURCE_SHED_VIRTUAL] = ETW_FLAG_VIRTUAL_ALLOC,
    };
    uint32_t flags = 0;

    for (unsigned g = 0; g < SOURCE_SHED_COUNT; g++) {
        flags |= groups >> g & 1 ? flags_of[g] : 0;
    }
    return flags;
}

uint32_t etw_conf_groups(uint32_t flags)
{
    static const struct {
        uint32_t flag, group;
    } groups[] = {
        {ETW_FLAG_CSWITCH, EVENT_GROUP_SWITCH},        {ETW_FLAG_DISPATCHER, EVENT_GROUP_READY},
        {ETW_FLAG_DPC, EVENT_GROUP_INTERRUPT},         {ETW_FLAG_INTERRUPT, EVENT_GROUP_INTERRUPT},
        {ETW_FLAG_SYSTEMCALL, EVENT_GROUP_SYSCALL},    {ETW_FLAG_HARD_FAULTS, EVENT_GROUP_FAULT},
        {ETW_FLAG_VIRTUAL_ALLOC, EVENT_GROUP_VIRTUAL}, {ETW_FLAG_DISK_IO, EVENT_GROUP_DISK},
        {ETW_FLAG_FILE_IO_INIT, EVENT_GROUP_FILE},     {ETW_FLAG_NETWORK, EVENT_GROUP_NET},
        {ETW_FLAG_REGISTRY, EVENT_GROUP_REGISTRY},     {ETW_FLAG_IMAGE, EVENT_GROUP_IMAGE},
        {ETW_FLAG_THREAD, EVENT_GROUP_THREAD},         {ETW_FLAG_PROFILE, EVENT_GROUP_SAMPLE},
    };
    uint32_t out = 0;

    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        out |= flags & groups[i].flag ? groups[i].group : 0;
    }
    return out;
}

uint32_t etw_conf_clr_groups(enum etw_clr clr)
{
    static const uint32_t full = EVENT_GROUP_CLR_GC | EVENT_GROUP_CLR_JIT | EVENT_GROUP_CLR_ALLOC;

    return clr == ETW_CLR_FULL ? full : clr == ETW_CLR_GC ? EVENT_GROUP_CLR_GC : 0;
}

static bool same_word(const char *a, const char *b)
{
    while (*a && toupper((unsigned char)*a) == toupper((unsigned char)*b)) {
        a++;
        b++;
    }
    return *a == *b;
}

static bool flag_of(uint32_t *out, const char *text)
{
    const char *name = text;
    unsigned long v;
    char *end;

    if (strncmp(text, "0x", 2) == 0) {
        errno = 0;
        v = strtoul(text + 2, &end, 16);
        *out = (uint32_t)v;
        return end != text + 2 && !*end && !errno && v <= UINT32_MAX;
    }
    if (strncmp(name, FLAG_PREFIX, sizeof FLAG_PREFIX - 1) == 0) {
        name += sizeof FLAG_PREFIX - 1;
    }
    for (size_t i = 0; i < sizeof flag_names / sizeof flag_names[0]; i++) {
        if (same_word(flag_names[i].name, name)) {
            *out = flag_names[i].flag;
            return true;
        }
    }
    return false;
}

static enum err read_flag_list(uint32_t *out, const struct conf *c, struct errmsg *why)
{
    const char *const *items;
    size_t n = conf_list(c, "etw.kernel_flags", &items);
    char text[160];
    uint32_t flag;

    for (size_t i = 0; i < n; i++) {
        if (!flag_of(&flag, items[i])) {
            (void)snprintf(text, sizeof text,
                           "'%.40s' is no kind of kernel events; write PROCESS, CSWITCH and their "
                           "like, or 0x10",
                           items[i]);
            return conf_wrong(c, "etw.kernel_flags", why, text);
        }
        if (flag & ETW_FLAG_ALL_FAULTS) {
            return conf_wrong(c, "etw.kernel_flags", why,
                              "0x1000 (every page fault) is not collected; MEMORY_HARD_FAULTS is");
        }
        *out |= flag;
    }
    return ERR_OK;
}

static enum err read_flags(struct etw_conf *v, const struct conf *c, struct errmsg *why)
{
    static const struct {
        const char *key;
        uint32_t flags;
    } permits[] = {
        {"etw.enable_process_events",
         ETW_FLAG_PROCESS | ETW_FLAG_PROCESS_COUNTERS | ETW_FLAG_IMAGE},
        {"etw.enable_thread_events", ETW_FLAG_THREAD},
        {"etw.enable_memory_events", ETW_FLAG_HARD_FAULTS},
        {"etw.enable_disk_io", ETW_FLAG_DISK_IO | ETW_FLAG_DISK_INIT},
        {"etw.enable_network", ETW_FLAG_NETWORK},
        {"etw.enable_virtual_alloc", ETW_FLAG_VIRTUAL_ALLOC},
        {"etw.enable_file_io", ETW_FLAG_FILE_IO | ETW_FLAG_FILE_IO_INIT},
        {"etw.enable_registry", ETW_FLAG_REGISTRY},
        {"etw.enable_context_switch", ETW_FLAG_CSWITCH},
        {"etw.enable_cpu_sampling", ETW_FLAG_PROFILE},
    };
    enum err e = read_flag_list(&v->flags, c, why);

    if (e || v->flags) {
        return e;
    }
    for (size_t i = 0; i < sizeof permits / sizeof permits[0]; i++) {
        v->flags |= conf_bool(c, permits[i].key) ? permits[i].flags : 0;
    }
    return ERR_OK;
}

/* ---- providers ---- */

static enum err add_kernel_process(struct etw_conf *v, const struct conf *c, struct errmsg *why)
{
    struct source_provider first;
    enum err e = etw_provider_parse(&first, ETW_PROVIDER_KERNEL_PROCESS_NAME, why);

    if (e) {
        return e;
    }
    for (size_t i = 0; i < v->n_providers; i++) {
        if (memcmp(v->providers[i].guid, first.guid, sizeof first.guid) == 0) {
            first = v->providers[i];
            memmove(&v->providers[1], &v->providers[0], i * sizeof first);
            v->providers[0] = first;
            return ERR_OK;
        }
    }
    if (v->n_providers == ETW_CONF_PROVIDERS) {
        return conf_wrong(c, "etw.providers", why,
                          "16 at most, " ETW_PROVIDER_KERNEL_PROCESS_NAME " among them");
    }
    memmove(&v->providers[1], &v->providers[0], v->n_providers * sizeof first);
    v->providers[0] = first;
    v->n_providers++;
    return ERR_OK;
}

static enum err read_providers(struct etw_conf *v, const struct conf *c, struct errmsg *why)
{
    const char *const *items;
    size_t n = conf_list(c, "etw.providers", &items);
    struct errmsg inner = {""};

    for (size_t i = 0; i < n; i++) {
        struct source_provider *p = &v->providers[v->n_providers];

        if (etw_provider_parse(p, items[i], &inner)) {
            return conf_wrong(c, "etw.providers", why, inner.text);
        }
        for (size_t k = 0; k < v->n_providers; k++) {
            if (memcmp(v->providers[k].guid, p->guid, sizeof p->guid) == 0) {
                return conf_wrong(c, "etw.providers", why, "one provider stands there twice");
            }
        }
        v->n_providers++;
    }
    return conf_bool(c, "etw.enable_process_events") ? add_kernel_process(v, c, why) : ERR_OK;
}

/* ---- .NET ---- */

static const uint8_t clr_guid[16] = ETW_PROVIDER_CLR;

#define CLR_KEYWORDS_GC \
    UINT64_C(0x1c001) /* GC 0x1, Contention 0x4000, Exception 0x8000, Threading 0x10000 */
#define CLR_KEYWORD_JIT UINT64_C(0x10)

enum etw_clr etw_conf_clr(enum etw_clr permitted, unsigned level, unsigned shed)
{
    enum etw_clr clr = permitted == ETW_CLR_FULL && level < 2 ? ETW_CLR_GC : permitted;

    if (shed >> SOURCE_SHED_CLR & 1) {
        clr = clr == ETW_CLR_FULL ? ETW_CLR_GC : ETW_CLR_OFF;
    }
    return level == 0 ? ETW_CLR_OFF : clr;
}

void etw_conf_clr_provider(struct source_provider *out, enum etw_clr clr, const char *only)
{
    static const uint16_t ids[] = {1, 2, 3, 4, 9, 55, 80, 81, 91, 10, 141, 143, 145};
    static const size_t of_gc = 9;

    *out = (struct source_provider){.level = clr == ETW_CLR_FULL ? 5 : 4, .any = CLR_KEYWORDS_GC};
    memcpy(out->guid, clr_guid, sizeof out->guid);
    out->any |= clr == ETW_CLR_FULL ? CLR_KEYWORD_JIT : 0;
    out->n_ids = clr == ETW_CLR_FULL ? sizeof ids / sizeof ids[0] : of_gc;
    memcpy(out->ids, ids, out->n_ids * sizeof ids[0]);
    (void)snprintf(out->exe, sizeof out->exe, "%s", only);
}

/* ---- frames ---- */

static const struct {
    uint8_t guid[16];
    uint16_t ids[2];
    size_t n_ids;
} presents[ETW_CONF_PRESENTS] = {
    {ETW_PROVIDER_DXGI, {42, 55}, 2},
    {ETW_PROVIDER_D3D9, {1}, 1},
};

#define PRESENTS_KEYWORD UINT64_C(0x2) /* Events, of both */

void etw_conf_present_provider(struct source_provider *out, size_t i)
{
    *out =
        (struct source_provider){.level = 4, .any = PRESENTS_KEYWORD, .n_ids = presents[i].n_ids};
    memcpy(out->guid, presents[i].guid, sizeof out->guid);
    memcpy(out->ids, presents[i].ids, sizeof presents[i].ids);
}

static enum err read_presents(struct etw_conf *v, const struct conf *c, struct errmsg *why)
{
    bool own = true;

    (void)why;
    for (size_t i = 0; i < v->n_providers * ETW_CONF_PRESENTS; i++) {
        const struct source_provider *p = &v->providers[i / ETW_CONF_PRESENTS];

        own = own && memcmp(p->guid, presents[i % ETW_CONF_PRESENTS].guid, sizeof p->guid) != 0;
    }
    v->presents = own && conf_bool(c, "etw.enable_presents");
    return ERR_OK;
}

static enum err read_clr_only(struct etw_conf *v, const struct conf *c, struct errmsg *why)
{
    const char *const *items;
    size_t n = conf_list(c, "etw.clr_only", &items), at = 0;

    for (size_t i = 0; i < n; i++) {
        int put =
            snprintf(v->clr_only + at, sizeof v->clr_only - at, "%s%s", i ? ";" : "", items[i]);

        if (put < 0 || (size_t)put >= sizeof v->clr_only - at) {
            return conf_wrong(c, "etw.clr_only", why, "255 bytes at most, all names together");
        }
        if (!items[i][0] || strpbrk(items[i], ";*?\\/")) {
            return conf_wrong(c, "etw.clr_only", why,
                              "names of programs without folder and without patterns, as w3wp.exe");
        }
        at += (size_t)put;
    }
    return ERR_OK;
}

static enum err read_clr(struct etw_conf *v, const struct conf *c, struct errmsg *why)
{
    const char *text = conf_text(c, "etw.clr");

    v->clr = strcmp(text, "full") == 0 ? ETW_CLR_FULL
             : strcmp(text, "gc") == 0 ? ETW_CLR_GC
                                       : ETW_CLR_OFF;
    for (size_t i = 0; i < v->n_providers; i++) {
        if (memcmp(v->providers[i].guid, clr_guid, sizeof clr_guid) == 0) {
            v->clr = ETW_CLR_OFF; /* as etw.providers says, and not otherwise */
        }
    }
    return read_clr_only(v, c, why);
}

/* ---- buffers ---- */

static uint32_t number(const struct conf *c, const char *key, bool burst, uint32_t in_burst)
{
    return burst && !conf_is_set(c, key) ? in_burst : (uint32_t)conf_int(c, key);
}

static enum err check_buffers(const struct etw_buffers *b, uint32_t pool_mib, const struct conf *c,
                              const char *min_key, const char *max_key, struct errmsg *why)
{
    char text[200];

    if (b->min > b->max) {
        (void)snprintf(text, sizeof text, "%u is more than %s, which is %u", (unsigned)b->min,
                       max_key, (unsigned)b->max);
        return conf_wrong(c, min_key, why, text);
    }
    if ((uint64_t)b->max * b->kb > (uint64_t)pool_mib * 1024) {
        (void)snprintf(text, sizeof text,
                       "%u buffers of %u KiB are more than etw.pool_limit_mib, which is %u",
                       (unsigned)b->max, (unsigned)b->kb, (unsigned)pool_mib);
        return conf_wrong(c, max_key, why, text);
    }
    return ERR_OK;
}

static enum err read_buffers(struct etw_conf *v, const struct conf *c, struct errmsg *why)
{
    bool burst = strcmp(conf_text(c, "etw.preset"), "burst") == 0;
    enum err e;

    v->buffers.kb = number(c, "etw.buffer_size_kb", burst, 32);
    v->buffers.min = number(c, "etw.min_buffers", burst, 64);
    v->buffers.max = number(c, "etw.max_buffers", burst, 512);
    v->flush_ms = number(c, "etw.flush_ms", burst, 5);
    v->hi.kb = (uint32_t)conf_int(c, "etw.hi.buffer_size_kb");
    v->hi.min = (uint32_t)conf_int(c, "etw.hi.min_buffers");
    v->hi.max = (uint32_t)conf_int(c, "etw.hi.max_buffers");
    v->pool_mib = (uint32_t)conf_int(c, "etw.pool_limit_mib");
    v->flush_s = (uint32_t)(conf_int(c, "etw.flush_timer") / CLK_S);
    if (conf_int(c, "etw.flush_timer") % CLK_S) {
        return conf_wrong(c, "etw.flush_timer", why, "whole seconds; see etw.flush_ms for less");
    }
    if (v->flush_ms && v->flush_ms < 5) {
        return conf_wrong(c, "etw.flush_ms", why, "5 to 1000, or 0 for none");
    }
    e = check_buffers(&v->buffers, v->pool_mib, c, "etw.min_buffers", "etw.max_buffers", why);
    return e ? e
             : check_buffers(&v->hi, v->pool_mib, c, "etw.hi.min_buffers", "etw.hi.max_buffers",
                             why);
}

/* ---- name ---- */

static enum err read_name(struct etw_conf *v, const struct conf *c, struct errmsg *why)
{
    static const char *const shared[] = {"NT Kernel Logger", "Circular Kernel Context Logger"};
    bool attach = strcmp(conf_text(c, "source"), "attach") == 0;
    size_t n;

    v->session_name = conf_text(c, "etw.session_name");
    n = strlen(v->session_name);
    if (n == 0 || n > ETW_CONF_NAME_MAX) {
        return conf_wrong(c, "etw.session_name", why, "1 to 1000 bytes");
    }
    for (size_t i = 0; i < sizeof shared / sizeof shared[0] && !attach; i++) {
        if (same_word(shared[i], v->session_name)) {
            return conf_wrong(c, "etw.session_name", why,
                              "this session is shared, other programs stop or change it; take "
                              "another name, or read it with source: attach");
        }
    }
    return ERR_OK;
}

enum err etw_conf_read(struct etw_conf *out, const struct conf *c, struct errmsg *why)
{
    enum err (*const parts[])(struct etw_conf *, const struct conf *, struct errmsg *) = {
        read_name, read_buffers, read_flags, read_providers, read_clr, read_presents};
    struct etw_conf v = {
        .samples_per_s = (uint32_t)conf_int(c, "etw.cpu_sampling_interval"),
        .stacks = conf_bool(c, "etw.enable_stack_walking"),
        .ring_bytes = (size_t)conf_int(c, "etw.ring_bytes"),
        .batch_events = (size_t)conf_int(c, "etw.batch_events"),
        .retry_fast = (unsigned)conf_int(c, "etw.retry_fast"),
        .retry_pause_ns = conf_int(c, "etw.retry_pause"),
    };

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        enum err e = parts[i](&v, c, why);

        if (e) {
            return e;
        }
    }
    *out = v;
    return ERR_OK;
}
