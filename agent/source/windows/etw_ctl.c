/* The properties block is always of full size, with room for both names: with a smaller one query
 * and stop fail with ERROR_MORE_DATA as soon as somebody's names are long, and the session cannot
 * be ended any more. */
#include "agent/source/windows/etw_ctl.h"

#include <stdio.h>
#include <string.h>

#include "agent/source/windows/etw_ctl_impl.h"
#include "common/base/mem.h"

#define RESEND_MAX    2
#define SESSIONS_MAX  64
#define BUFFER_KB_MAX 1024
#define BUFFERS_MAX   4096

/* ---- the block ---- */

static void block_clear(struct etw_ctl_block *b)
{
    memset(b, 0, sizeof *b);
    b->p.Wnode.BufferSize = sizeof *b;
    b->p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    b->p.LoggerNameOffset = offsetof(struct etw_ctl_block, logger);
    b->p.LogFileNameOffset = offsetof(struct etw_ctl_block, file);
}

static ULONG session_mode(const struct etw_session_conf *conf)
{
    ULONG mode = EVENT_TRACE_REAL_TIME_MODE | EVENT_TRACE_INDEPENDENT_SESSION_MODE;

    mode |= conf->kernel ? EVENT_TRACE_SYSTEM_LOGGER_MODE : 0;
    mode |= conf->one_stream ? EVENT_TRACE_NO_PER_PROCESSOR_BUFFERING : 0;
    return mode;
}

static void block_fill(struct etw_ctl *c)
{
    struct etw_ctl_block *b = &c->block;

    block_clear(b);
    memcpy(&b->p.Wnode.Guid, c->conf.guid, sizeof b->p.Wnode.Guid);
    b->p.Wnode.ClientContext = 1; /* stamps of the performance counter */
    b->p.BufferSize = c->conf.buffer_kb;
    b->p.MinimumBuffers = c->conf.min_buffers;
    b->p.MaximumBuffers = c->max_buffers;
    b->p.LogFileMode = session_mode(&c->conf);
    b->p.FlushTimer = c->conf.flush_s;
}

/* With the block as it stands; a system that wants more room is asked again. The session is named
 * by its name: a handle of an earlier life could mean somebody else's. */
static ULONG control(struct etw_ctl *c, ULONG what)
{
    struct etw_ctl_block *b = &c->block;
    ULONG flags = b->p.EnableFlags; /* an update without them would turn all off */
    ULONG code = c->api->control(0, c->name, &b->p, what);

    for (int i = 0; code == ERROR_MORE_DATA && i < RESEND_MAX; i++) {
        c->stats.resent++;
        block_fill(c);
        b->p.EnableFlags = flags;
        code = c->api->control(0, c->name, &b->p, what);
    }
    return code;
}

/* ---- open and close ---- */

static bool conf_valid(const struct etw_session_conf *conf)
{
    return conf->attach ||
           (conf->buffer_kb >= 4 && conf->buffer_kb <= BUFFER_KB_MAX && conf->min_buffers >= 2 &&
            conf->min_buffers <= conf->max_buffers && conf->max_buffers <= BUFFERS_MAX &&
            (uint64_t)conf->max_buffers * conf->buffer_kb <= (uint64_t)conf->pool_mib * 1024 &&
            conf->flush_s >= 1);
}

enum err etw_ctl_open(struct etw_ctl **out, const struct etw_api *api,
                      const struct etw_session_conf *conf, struct errmsg *why)
{
    struct etw_ctl *c;

    if (!conf_valid(conf)) {
        return errmsg_set(why, ERR_INVALID,
                          "session %s: %u to %u buffers of %u KiB cannot be; see buffer_size_kb, "
                          "min_buffers, max_buffers and pool_limit_mib",
                          conf->name, (unsigned)conf->min_buffers, (unsigned)conf->max_buffers,
                          (unsigned)conf->buffer_kb);
    }
    c = mem_zalloc(sizeof *c);
    if (!c) {
        return errmsg_set(why, ERR_NOMEM, "out of memory for a session's description");
    }
    c->api = api;
    c->conf = *conf;
    c->max_buffers = conf->max_buffers;
    c->limit = conf->attach ? 0 : conf->pool_mib * 1024 / conf->buffer_kb;
    c->limit = c->limit < BUFFERS_MAX ? c->limit : BUFFERS_MAX;
    if (!conf->name[0] || !MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, conf->name, -1,
                                               c->name, ETW_CTL_NAME_UNITS)) {
        mem_free(c);
        return errmsg_set(why, ERR_INVALID, "session_name must have 1 to %d characters of UTF-8",
                          ETW_CTL_NAME_UNITS - 1);
    }
    *out = c;
    return ERR_OK;
}

void etw_ctl_close(struct etw_ctl *c)
{
    if (c) {
        etw_ctl_sampling_end(c);
    }
    mem_free(c);
}

void etw_ctl_trust(struct etw_ctl *c)
{
    c->trusted = true;
}

/* ---- start ---- */

static void append(char *text, size_t size, const WCHAR *name)
{
    size_t n = strlen(text);
    char utf8[128];

    if (!WideCharToMultiByte(CP_UTF8, 0, name, -1, utf8, sizeof utf8, NULL, NULL)) {
        (void)snprintf(utf8, sizeof utf8, "?");
    }
    (void)snprintf(text + n, size - n, "%s%s", n ? ", " : "", utf8);
}

/* How many slots this system has, where it can be asked. */
static const char *slots_text(const struct etw_ctl *c, char *text, size_t size)
{
    ULONG max = 0, got = 0;

    text[0] = '\0';
    if (c->trusted && c->api->query_info &&
        !c->api->query_info(0, TraceMaxLoggersQuery, &max, sizeof max, &got) && max) {
        (void)snprintf(text, size, ", %lu sessions at most", (unsigned long)max);
    }
    return text;
}

/* Who holds the slots for system loggers, or all sessions where ours is none. */
static enum err no_slot(struct etw_ctl *c, struct errmsg *why)
{
    struct etw_ctl_block *blocks = mem_array(SESSIONS_MAX, sizeof *blocks);
    EVENT_TRACE_PROPERTIES *list[SESSIONS_MAX];
    char holders[320] = "", slots[40];
    ULONG n = 0;

    for (size_t i = 0; blocks && i < SESSIONS_MAX; i++) {
        block_clear(&blocks[i]);
        list[i] = &blocks[i].p;
    }
    if (blocks && c->api->list(list, SESSIONS_MAX, &n) == ERROR_SUCCESS) {
        for (ULONG i = 0; i < n && i < SESSIONS_MAX; i++) {
            if (!c->conf.kernel || (list[i]->LogFileMode & EVENT_TRACE_SYSTEM_LOGGER_MODE)) {
                blocks[i].logger[ETW_CTL_NAME_UNITS - 1] = L'\0';
                append(holders, sizeof holders, blocks[i].logger);
            }
        }
    }
    mem_free(blocks);
    return errmsg_set(why, ERR_FULL,
                      "start of %s: no session slot is free (error 1450%s), they are held by: %s; "
                      "stop one that is not needed (logman stop NAME -ets)",
                      c->conf.name, slots_text(c, slots, sizeof slots),
                      holders[0] ? holders : "unknown");
}

enum err etw_ctl_reclaim(struct etw_ctl *c, struct errmsg *why)
{
    ULONG code;

    block_fill(c);
    code = control(c, EVENT_TRACE_CONTROL_QUERY);
    if (code == ERROR_WMI_INSTANCE_NOT_FOUND) {
        return ERR_OK; /* gone by itself */
    }
    if (code) {
        return etw_ctl_failed(c, why, "query", code);
    }
    if (memcmp(&c->block.p.Wnode.Guid, c->conf.guid, sizeof c->conf.guid) != 0) {
        return etw_ctl_failed(c, why, "start", ERROR_ALREADY_EXISTS);
    }
    block_fill(c);
    code = control(c, EVENT_TRACE_CONTROL_STOP);
    if (code && code != ERROR_WMI_INSTANCE_NOT_FOUND) {
        return etw_ctl_failed(c, why, "stop", code);
    }
    c->stats.orphan_reclaimed++;
    return ERR_OK;
}

static enum err attach(struct etw_ctl *c, struct errmsg *why)
{
    struct etw_totals totals;
    enum err e = etw_ctl_query(c, &totals, why);

    if (e == ERR_LOST) {
        return errmsg_set(why, ERR_NOTFOUND, "there is no session %s to read; start it first",
                          c->conf.name);
    }
    return e;
}

enum err etw_ctl_start(struct etw_ctl *c, struct errmsg *why)
{
    ULONG code;

    if (c->conf.attach) {
        return attach(c, why);
    }
    c->running = false;
    c->told_flags = false;
    c->flags_on = 0;
    block_fill(c);
    code = c->api->start(&c->handle, c->name, &c->block.p);
    if (code == ERROR_ALREADY_EXISTS) {
        enum err e = etw_ctl_reclaim(c, why);

        if (e) {
            return e;
        }
        block_fill(c);
        code = c->api->start(&c->handle, c->name, &c->block.p);
    }
    if (code == ERROR_NO_SYSTEM_RESOURCES) {
        c->stats.failed++;
        return no_slot(c, why);
    }
    if (code) {
        return etw_ctl_failed(c, why, "start", code);
    }
    c->running = true;
    c->stats.started++;
    return ERR_OK;
}

/* ---- while it runs ---- */

enum err etw_ctl_query(struct etw_ctl *c, struct etw_totals *out, struct errmsg *why)
{
    const EVENT_TRACE_PROPERTIES *p = &c->block.p;
    ULONG code;

    block_fill(c);
    code = control(c, EVENT_TRACE_CONTROL_QUERY);
    if (code) {
        return etw_ctl_failed(c, why, "query", code);
    }
    if (!c->conf.attach && memcmp(&p->Wnode.Guid, c->conf.guid, sizeof c->conf.guid) != 0) {
        c->running = false; /* never to be stopped by us */
        return etw_ctl_failed(c, why, "query", ERROR_WMI_INSTANCE_NOT_FOUND);
    }
    *out = (struct etw_totals){
        .events_lost = p->EventsLost,
        .buffers_lost = (uint64_t)p->RealTimeBuffersLost + p->LogBuffersLost,
        .buffers_written = p->BuffersWritten,
        .buffers = p->NumberOfBuffers,
        .max_buffers = p->MaximumBuffers,
        .buffer_kb = p->BufferSize,
    };
    return ERR_OK;
}

enum err etw_ctl_flush(struct etw_ctl *c, struct errmsg *why)
{
    ULONG code;

    if (c->conf.attach) {
        return ERR_OK;
    }
    block_fill(c);
    code = control(c, EVENT_TRACE_CONTROL_FLUSH);
    return code ? etw_ctl_failed(c, why, "flush", code) : ERR_OK;
}

static enum err update(struct etw_ctl *c, uint32_t max_buffers, struct errmsg *why)
{
    uint32_t before = c->max_buffers;
    ULONG code;

    c->max_buffers = max_buffers;
    block_fill(c);
    c->block.p.EnableFlags = c->flags_on;
    code = control(c, EVENT_TRACE_CONTROL_UPDATE);
    if (code) {
        c->max_buffers = before;
        return etw_ctl_failed(c, why, "update", code);
    }
    return ERR_OK;
}

enum err etw_ctl_grow(struct etw_ctl *c, struct errmsg *why)
{
    uint32_t before = c->max_buffers;
    enum err e;

    if (c->conf.attach || before >= c->limit) {
        return errmsg_set(
            why, ERR_FULL,
            "session %s loses events with all of its %u buffers; raise pool_limit_mib",
            c->conf.name, (unsigned)before);
    }
    e = update(c, before * 2 < c->limit ? before * 2 : c->limit, why);
    c->stats.grown += e == ERR_OK;
    return e;
}

enum err etw_ctl_buffers(struct etw_ctl *c, uint32_t max_buffers, struct errmsg *why)
{
    if (c->conf.attach) {
        return errmsg_set(why, ERR_UNSUPPORTED, "session %s is not ours to change", c->conf.name);
    }
    if (max_buffers < c->conf.min_buffers || max_buffers > c->limit) {
        return errmsg_set(why, ERR_RANGE,
                          "session %s can have %u to %u buffers; see min_buffers and "
                          "pool_limit_mib",
                          c->conf.name, (unsigned)c->conf.min_buffers, (unsigned)c->limit);
    }
    if (!c->running) {
        c->max_buffers = max_buffers; /* from the next start on */
        return ERR_OK;
    }
    return update(c, max_buffers, why);
}

enum err etw_ctl_stop(struct etw_ctl *c, struct errmsg *why)
{
    ULONG code;

    etw_ctl_sampling_end(c);
    if (c->conf.attach || !c->running) {
        return ERR_OK;
    }
    block_fill(c);
    code = control(c, EVENT_TRACE_CONTROL_STOP);
    if (code && code != ERROR_WMI_INSTANCE_NOT_FOUND) {
        return etw_ctl_failed(c, why, "stop", code);
    }
    c->running = false;
    return ERR_OK;
}

void etw_ctl_stats(const struct etw_ctl *c, struct etw_ctl_stats *out)
{
    *out = c->stats;
}

const char *etw_ctl_name(const struct etw_ctl *c)
{
    return c->conf.name;
}
