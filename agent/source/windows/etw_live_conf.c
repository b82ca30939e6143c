#include "agent/source/windows/etw_live_conf.h"

#include <stdio.h>
#include <string.h>

#include "agent/source/etw_guid.h"
#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/os/os.h"

#define NAME         "procfleet"
#define POLL_NS      CLK_S
#define PAUSE_NS     (60 * CLK_S)
#define HEARTBEAT_NS (30 * CLK_S)
#define IMAGES_NS    (CLK_S / 4)
#define SETTLE_NS    (5 * CLK_S)
#define SPARE        20 /* buffers beside two for each CPU */
#define KB_LEAST     64
#define BUFFERS_MAX  4096

/* Sessions are known by name and GUID. Another name has another GUID, for the system takes each
 * only once. */
static void set_name(struct etw_session_conf *s, const char *name, const char *suffix,
                     const uint8_t guid[16])
{
    uint64_t other = strcmp(name, NAME) == 0 ? 0 : hash_bytes(name, strlen(name), 0);
    uint64_t low;

    (void)snprintf(s->name, sizeof s->name, "%s%s", name, suffix);
    memcpy(s->guid, guid, sizeof s->guid);
    memcpy(&low, s->guid, sizeof low);
    low ^= other;
    memcpy(s->guid, &low, sizeof low);
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

void etw_live_conf_buffers(struct etw_session_conf *s, const struct etw_buffers *b,
                           uint32_t pool_mib, uint32_t cpus)
{
    uint32_t own = s->one_stream ? 0 : 2 * cpus;

    s->buffer_kb = b->kb;
    s->min_buffers = larger(b->min, own);
    s->max_buffers = larger(b->max, own ? own + SPARE : 0);
    s->pool_mib = pool_mib;
    while (s->buffer_kb > KB_LEAST &&
           (uint64_t)s->max_buffers * s->buffer_kb > (uint64_t)pool_mib * 1024) {
        s->buffer_kb /= 2; /* of so many a smaller one holds as much time of its CPU */
    }
    s->max_buffers = smaller(s->max_buffers, smaller(pool_mib * 1024 / s->buffer_kb, BUFFERS_MAX));
    s->min_buffers = smaller(s->min_buffers, s->max_buffers);
}

static void set_buffers(struct etw_session_conf *s, const struct etw_buffers *b,
                        const struct etw_conf *conf)
{
    etw_live_conf_buffers(s, b, conf->pool_mib, os_cpu_count());
    s->flush_s = conf->flush_s;
}

static void add_lifecycle(struct etw_live_conf *v, const struct etw_conf *conf)
{
    static const uint8_t guid[16] =
        ETW_GUID(0x6f1b7a52, 0x93d4, 0x4c0e, 0xa1, 0x58, 0x3e, 0x90, 0x27, 0xc4, 0x6b, 0xd1);
    struct etw_session_conf *s = &v->sessions[v->n_sessions].session;

    s->flags = etw_conf_lifecycle_flags(conf->flags);
    if (!s->flags) {
        return;
    }
    s->kernel = true;
    s->one_stream = true;
    set_name(s, conf->session_name, "", guid);
    set_buffers(s, &conf->buffers, conf);
    v->n_sessions++;
}

static void add_providers(struct etw_live_conf *v, const struct etw_conf *conf)
{
    static const uint8_t guid[16] =
        ETW_GUID(0x2c8e04f9, 0x5b67, 0x4e13, 0x8f, 0x0a, 0xd2, 0x71, 0x96, 0x3c, 0xe8, 0x45);
    struct etw_live_session *s = &v->sessions[v->n_sessions];

    if (!conf->n_providers && conf->clr == ETW_CLR_OFF && !conf->presents) {
        return;
    }
    s->optional = v->n_sessions > 0;
    memcpy(s->providers, conf->providers, conf->n_providers * sizeof conf->providers[0]);
    s->n_providers = conf->n_providers;
    set_name(&s->session, conf->session_name, "-kp", guid);
    set_buffers(&s->session, &conf->buffers, conf);
    v->n_sessions++;
}

static void add_high(struct etw_live_conf *v, const struct etw_conf *conf)
{
    static const uint8_t guid[16] =
        ETW_GUID(0xb90d5c16, 0x24af, 0x4d72, 0x9e, 0x3b, 0x71, 0x0c, 0xe5, 0x88, 0x1f, 0x6a);
    struct etw_live_session *s = &v->sessions[v->n_sessions];

    if (!v->n_sessions || !etw_conf_high_flags(conf->flags, 4)) {
        return; /* without those who live nobody could be charged */
    }
    s->high = true;
    s->optional = true;
    s->session.kernel = true;
    set_name(&s->session, conf->session_name, "-hi", guid);
    set_buffers(&s->session, &conf->hi, conf);
    v->n_sessions++;
}

static void add_foreign(struct etw_live_conf *v, const struct etw_conf *conf)
{
    struct etw_session_conf *s = &v->sessions[v->n_sessions++].session;

    s->attach = true;
    (void)snprintf(s->name, sizeof s->name, "%s", conf->session_name);
}

void etw_live_conf_make(struct etw_live_conf *out, const struct etw_conf *conf, bool attach)
{
    *out = (struct etw_live_conf){.permitted = conf->flags,
                                  .clr = attach ? ETW_CLR_OFF : conf->clr,
                                  .presents = conf->presents && !attach,
                                  .stacks = conf->stacks,
                                  .samples_per_s = conf->samples_per_s,
                                  .ring_bytes = conf->ring_bytes,
                                  .batch_events = conf->batch_events,
                                  .flush_ms = conf->flush_ms,
                                  .query_ns = POLL_NS,
                                  .retry_fast = conf->retry_fast,
                                  .retry_ns = conf->retry_pause_ns,
                                  .pause_ns = PAUSE_NS,
                                  .heartbeat_ns = HEARTBEAT_NS,
                                  .images_ns = IMAGES_NS,
                                  .settle_ns = SETTLE_NS};
    (void)snprintf(out->clr_only, sizeof out->clr_only, "%s", conf->clr_only);
    if (attach) {
        add_foreign(out, conf);
        return;
    }
    add_lifecycle(out, conf);
    add_providers(out, conf);
    add_high(out, conf);
}

void etw_live_conf_defaults(struct etw_live_conf *out)
{
    static const struct etw_conf conf = {
        .session_name = NAME,
        .buffers = {64, 64, 256},
        .hi = {256, 64, 128},
        .pool_mib = 64,
        .flush_s = 1,
        .flags = ETW_FLAG_PROCESS | ETW_FLAG_PROCESS_COUNTERS | ETW_FLAG_THREAD | ETW_FLAG_IMAGE,
        .providers =
            {{.guid = ETW_PROVIDER_KERNEL_PROCESS, .level = 4, .any = 0x10, .rundown = true}},
        .n_providers = 1,
        .samples_per_s = 1000,
        .ring_bytes = RING_BYTES,
        .batch_events = 10000,
        .retry_fast = 3,
        .retry_pause_ns = CLK_S};

    etw_live_conf_make(out, &conf, false);
}
