/* The order matters: the kernel tells who lives when its flags are set, so that comes last at the
 * start; at the end it is written what is loaded and what events look like, then the runtimes of
 * .NET are asked where their methods lie, and only when what they write has come to rest everything
 * stops. What cannot be had is said and left out; whatever happens, what was started is stopped. */
#include "agent/record/record_sessions.h"

#include <stdio.h>
#include <string.h>

#include "agent/own/own.h"
#include "agent/record/record_identities.h"
#include "agent/source/etw_guid.h"
#include "agent/source/windows/etw_api.h"
#include "agent/source/windows/etw_ctl.h"
#include "common/base/clk.h"
#include "common/os/os.h"

#define NAME_KERNEL  "procfleet-record"
#define NAME_USER    "procfleet-record-user"
#define KERNEL_KB    1024u
#define USER_KB      256u
#define FLUSH_S      1
#define REST_STEP_NS (CLK_S / 2)
#define REST_LEAST   4 /* steps without a buffer more */
#define REST_MOST    40
#define LEVEL_ALL    5

struct recorder {
    struct etw_api api;
    struct etw_ctl *kernel, *user;
    struct record_result *out;
};

static void record_refused(struct recorder *r, const struct errmsg *why)
{
    size_t n = strlen(r->out->refused);

    (void)snprintf(r->out->refused + n, sizeof r->out->refused - n, "%s%s", n ? "; " : "",
                   why->text);
}

static void record_conf(struct etw_session_conf *c, const struct record_files *f, bool kernel)
{
    static const uint8_t kernel_guid[16] =
        ETW_GUID(0x2c1b0f4e, 0x5d70, 0x4f83, 0x9a, 0x41, 0x7e, 0xb2, 0x15, 0x60, 0xd3, 0xa8),
                         user_guid[16] = ETW_GUID(0x84e95a37, 0x1f0c, 0x4e6d, 0xb7, 0x25, 0x3c,
                                                  0xd8, 0x92, 0x4b, 0xf6, 0x10);
    uint32_t least = kernel ? 64 : 32, ring = f->ring_mib * 1024u / (kernel ? KERNEL_KB : USER_KB);

    *c = (struct etw_session_conf){
        .kernel = kernel,
        .buffer_kb = kernel ? KERNEL_KB : USER_KB,
        .min_buffers = ring ? ring : least,
        .max_buffers = ring ? ring : 2 * least,
        .pool_mib = f->ring_mib > 2 * least ? f->ring_mib : 2 * least,
        .flush_s = FLUSH_S,
        .file = kernel ? f->kernel : f->user,
        .file_as = f->ring_mib  ? ETW_FILE_RING
                   : f->max_mib ? ETW_FILE_LAST
                                : ETW_FILE_WHOLE,
        .file_mib = f->max_mib ? f->max_mib : RECORD_WHOLE_MIB,
    };
    (void)snprintf(c->name, sizeof c->name, "%s", kernel ? NAME_KERNEL : NAME_USER);
    memcpy(c->guid, kernel ? kernel_guid : user_guid, sizeof c->guid);
}

static enum err record_open(struct recorder *r, const struct record_files *f, struct errmsg *why)
{
    struct etw_session_conf conf;
    enum err e = etw_api_load(&r->api, why);

    if (!e) {
        record_conf(&conf, f, true);
        e = etw_ctl_open(&r->kernel, &r->api, &conf, why);
    }
    if (!e) {
        record_conf(&conf, f, false);
        e = etw_ctl_open(&r->user, &r->api, &conf, why);
    }
    return e;
}

/* One that stands would be taken for an orphan, and stopped, by a start. */
static enum err record_stands(struct recorder *r, struct errmsg *why)
{
    struct etw_totals totals;

    if (etw_ctl_query(r->kernel, &totals, NULL) == ERR_OK ||
        etw_ctl_query(r->user, &totals, NULL) == ERR_OK) {
        return errmsg_set(why, ERR_BUSY,
                          "a recording is under way on this host, or was left behind by a program "
                          "that was killed: 'procfleet-agent record --end' ends it");
    }
    return ERR_OK;
}

static enum err record_start(struct recorder *r, const struct record_plan *plan, bool stacks,
                             struct errmsg *why)
{
    static const struct source_provider own = {.guid = OWN_GUID, .level = LEVEL_ALL};
    struct etw_kind kinds[RECORD_STACKS];
    struct errmsg refused = {""};
    enum err e = etw_ctl_start(r->user, why);

    if (e) {
        return e;
    }
    err_ignore(etw_ctl_enable(r->user, &own, NULL)); /* marks, and what the agent here changes */
    for (size_t i = 0; i < plan->n_providers; i++) {
        if (etw_ctl_enable(r->user, &plan->providers[i], &refused)) {
            record_refused(r, &refused);
        }
    }
    e = etw_ctl_start(r->kernel, why);
    if (e) {
        return e;
    }
    for (size_t i = 0; i < plan->n_stacks; i++) {
        memcpy(kinds[i].guid, plan->stacks[i].guid, sizeof kinds[i].guid);
        kinds[i].opcode = plan->stacks[i].opcode;
    }
    if (stacks && plan->n_stacks && etw_ctl_stacks_of(r->kernel, kinds, plan->n_stacks, &refused)) {
        record_refused(r, &refused);
    }
    e = etw_ctl_flags(r->kernel, plan->flags, &refused);
    if (e == ERR_PROVIDER) {
        record_refused(r, &refused);
        return ERR_OK;
    }
    return e ? errmsg_set(why, e, "%s", refused.text) : ERR_OK;
}

static void record_rest(struct recorder *r)
{
    struct etw_totals before = {0}, now;
    unsigned still = 0;

    for (unsigned i = 0; i < REST_MOST && still < REST_LEAST; i++) {
        os_sleep_ns(REST_STEP_NS);
        if (etw_ctl_query(r->user, &now, NULL)) {
            return;
        }
        still = now.buffers_written == before.buffers_written ? still + 1 : 0;
        before = now;
    }
}

/* Where methods lie that were compiled, of every process that runs .NET. */
static void record_clr_rundown(struct recorder *r)
{
    static const struct source_provider rundown = {
        .guid = RECORD_CLR_RUNDOWN, .level = LEVEL_ALL, .any = RECORD_CLR_RUNDOWN_KEYWORDS};
    struct errmsg refused = {""};

    if (etw_ctl_enable(r->user, &rundown, &refused)) {
        record_refused(r, &refused);
        return;
    }
    record_rest(r);
}

static void record_identities(struct recorder *r, const struct record_plan *plan)
{
    struct record_identities done;

    record_identities_write(plan, &done);
    r->out->images = done.images;
    r->out->schemas = done.schemas;
}

static enum err record_finish_one(struct recorder *r, struct etw_ctl *c, bool ring,
                                  struct errmsg *why)
{
    struct etw_totals totals;
    enum err e = ERR_OK, stopped;

    if (ring) { /* without its flags the kernel tells once more who lives */
        err_ignore(etw_ctl_flags(c, 0, NULL));
        e = etw_ctl_write(c, why);
    }

    if (etw_ctl_query(c, &totals, NULL) == ERR_OK) {
        r->out->events_lost += totals.events_lost;
        r->out->buffers_lost += totals.buffers_lost;
    }
    stopped = etw_ctl_stop(c, e ? NULL : why);
    return e ? e : stopped;
}

enum err record_sessions_run(const struct record_plan *plan, const struct record_files *files,
                             void (*wait)(void *ctx), void *ctx, struct record_result *out,
                             struct errmsg *why)
{
    struct recorder r = {.out = out};
    bool ring = files->ring_mib > 0;
    enum err e = record_open(&r, files, why), user;

    *out = (struct record_result){.events_lost = 0};
    e = e ? e : record_stands(&r, why);
    e = e ? e : record_start(&r, plan, files->stacks, why);
    if (!e) {
        wait(ctx);
        record_identities(&r, plan);
        if (plan->clr_rundown) {
            record_clr_rundown(&r);
        }
        e = record_finish_one(&r, r.kernel, ring, why);
        user = record_finish_one(&r, r.user, ring, e ? NULL : why);
        e = e ? e : user;
    }
    if (r.kernel) {
        err_ignore(etw_ctl_stop(r.kernel, NULL)); /* where it did not come so far */
    }
    if (r.user) {
        err_ignore(etw_ctl_stop(r.user, NULL));
    }
    etw_ctl_close(r.kernel);
    etw_ctl_close(r.user);
    return e;
}

enum err record_sessions_end(struct errmsg *why)
{
    static const struct record_files none = {.kernel = "", .user = ""};
    struct record_result out = {.events_lost = 0};
    struct recorder r = {.out = &out};
    struct etw_ctl_stats kernel, user;
    enum err e = record_open(&r, &none, why);

    e = e ? e : etw_ctl_reclaim(r.kernel, why);
    e = e ? e : etw_ctl_reclaim(r.user, why);
    if (!e) {
        etw_ctl_stats(r.kernel, &kernel);
        etw_ctl_stats(r.user, &user);
        e = kernel.orphan_reclaimed + user.orphan_reclaimed
                ? ERR_OK
                : errmsg_set(why, ERR_NOTFOUND, "no recording is under way on this host");
    }
    etw_ctl_close(r.kernel);
    etw_ctl_close(r.user);
    return e;
}
