/* The properties block is always of full size, with room for both names: with a smaller one query
 * and stop fail with ERROR_MORE_DATA as soon as somebody's names are long, and the session cannot
 * be ended any more. */
#include "agent/source/etw_ctl.h"

#include <stdio.h>
#include <string.h>

#include "agent/source/etw_api.h"
#include "common/mem.h"

#define NAME_UNITS    1024 /* of session and of log file, terminators included */
#define RESEND_MAX    2
#define SESSIONS_MAX  64
#define GROUP_MASKS   8
#define FLAG_BITS     32
#define BUFFER_KB_MAX 1024
#define BUFFERS_MAX   4096

struct block {
    EVENT_TRACE_PROPERTIES p;
    WCHAR logger[NAME_UNITS];
    WCHAR file[NAME_UNITS];
};

struct etw_ctl {
    const struct etw_api *api;
    struct etw_session_conf conf;
    WCHAR name[NAME_UNITS];
    TRACEHANDLE handle;
    uint32_t max_buffers; /* now */
    uint32_t limit;       /* of it */
    bool running;
    struct etw_ctl_stats stats;
    struct block block; /* of the call under way */
};

/* ---- errors ---- */

static const struct {
    uint32_t code;
    enum err e;
    const char *text;
} codes[] = {
    {ERROR_ACCESS_DENIED, ERR_ACCESS,
     "access denied; run as LocalSystem or an administrator, or join Performance Log Users"},
    {ERROR_PRIVILEGE_NOT_HELD, ERR_ACCESS,
     "the right to profile the system is missing; grant SeSystemProfilePrivilege to the account"},
    {ERROR_NO_SYSTEM_RESOURCES, ERR_FULL,
     "no session slot is free; stop a session that is not needed (logman query -ets)"},
    {ERROR_ALREADY_EXISTS, ERR_EXISTS,
     "another program's session has this name; stop it or configure another session_name"},
    {ERROR_INVALID_PARAMETER, ERR_INVALID,
     "the system does not take these parameters; its build is too old, or this is our mistake"},
    {ERROR_BAD_LENGTH, ERR_INVALID,
     "the system does not take a block of this length; its build is too old, or this is our "
     "mistake"},
    {ERROR_MORE_DATA, ERR_INVALID,
     "the session's names are longer than any are allowed to be; stop it with logman"},
    {ERROR_WMI_INSTANCE_NOT_FOUND, ERR_LOST,
     "the session is gone: another program stopped it; it will be started again"},
    {ERROR_DISK_FULL, ERR_NOSPACE, "the disk is full; make room"},
    {ERROR_NOT_ENOUGH_MEMORY, ERR_NOMEM, "out of memory"},
    {ERROR_OUTOFMEMORY, ERR_NOMEM, "out of memory"},
    {ERROR_CALL_NOT_IMPLEMENTED, ERR_UNSUPPORTED,
     "this system has no event tracing; processes are polled instead"},
    {ERROR_NOT_SUPPORTED, ERR_UNSUPPORTED, "this system does not support it"},
};

enum err etw_ctl_error(struct errmsg *why, const char *call, const char *what, uint32_t code)
{
    if (code == ERROR_SUCCESS) {
        return ERR_OK;
    }
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (codes[i].code == code) {
            return errmsg_set(why, codes[i].e, "%s of %s: %s (error %u)", call, what, codes[i].text,
                              (unsigned)code);
        }
    }
    return errmsg_set(why, ERR_IO, "%s of %s failed with error %u; see net helpmsg %u", call, what,
                      (unsigned)code, (unsigned)code);
}

static enum err failed(struct etw_ctl *c, struct errmsg *why, const char *call, uint32_t code)
{
    c->stats.failed++;
    return etw_ctl_error(why, call, c->conf.name, code);
}

/* ---- the block ---- */

static void block_clear(struct block *b)
{
    memset(b, 0, sizeof *b);
    b->p.Wnode.BufferSize = sizeof *b;
    b->p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    b->p.LoggerNameOffset = offsetof(struct block, logger);
    b->p.LogFileNameOffset = offsetof(struct block, file);
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
    struct block *b = &c->block;

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
    struct block *b = &c->block;
    ULONG code = c->api->control(0, c->name, &b->p, what);

    for (int i = 0; code == ERROR_MORE_DATA && i < RESEND_MAX; i++) {
        c->stats.resent++;
        block_fill(c);
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
    if (!conf->name[0] ||
        !MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, conf->name, -1, c->name, NAME_UNITS)) {
        mem_free(c);
        return errmsg_set(why, ERR_INVALID, "session_name must have 1 to %d characters of UTF-8",
                          NAME_UNITS - 1);
    }
    *out = c;
    return ERR_OK;
}

void etw_ctl_close(struct etw_ctl *c)
{
    mem_free(c);
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

/* Who holds the slots for system loggers, or all sessions where ours is none. */
static enum err no_slot(struct etw_ctl *c, struct errmsg *why)
{
    struct block *blocks = mem_array(SESSIONS_MAX, sizeof *blocks);
    EVENT_TRACE_PROPERTIES *list[SESSIONS_MAX];
    char holders[320] = "";
    ULONG n = 0;

    for (size_t i = 0; blocks && i < SESSIONS_MAX; i++) {
        block_clear(&blocks[i]);
        list[i] = &blocks[i].p;
    }
    if (blocks && c->api->list(list, SESSIONS_MAX, &n) == ERROR_SUCCESS) {
        for (ULONG i = 0; i < n && i < SESSIONS_MAX; i++) {
            if (!c->conf.kernel || (list[i]->LogFileMode & EVENT_TRACE_SYSTEM_LOGGER_MODE)) {
                blocks[i].logger[NAME_UNITS - 1] = L'\0';
                append(holders, sizeof holders, blocks[i].logger);
            }
        }
    }
    mem_free(blocks);
    return errmsg_set(why, ERR_FULL,
                      "start of %s: no session slot is free (error 1450), they are held by: %s; "
                      "stop one that is not needed (logman stop NAME -ets)",
                      c->conf.name, holders[0] ? holders : "unknown");
}

/* A session of our name exists. Ours of an earlier run: stopped, then the caller starts anew. */
static enum err reclaim(struct etw_ctl *c, struct errmsg *why)
{
    ULONG code;

    block_fill(c);
    code = control(c, EVENT_TRACE_CONTROL_QUERY);
    if (code == ERROR_WMI_INSTANCE_NOT_FOUND) {
        return ERR_OK; /* gone by itself */
    }
    if (code) {
        return failed(c, why, "query", code);
    }
    if (memcmp(&c->block.p.Wnode.Guid, c->conf.guid, sizeof c->conf.guid) != 0) {
        return failed(c, why, "start", ERROR_ALREADY_EXISTS);
    }
    block_fill(c);
    code = control(c, EVENT_TRACE_CONTROL_STOP);
    if (code && code != ERROR_WMI_INSTANCE_NOT_FOUND) {
        return failed(c, why, "stop", code);
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
    block_fill(c);
    code = c->api->start(&c->handle, c->name, &c->block.p);
    if (code == ERROR_ALREADY_EXISTS) {
        enum err e = reclaim(c, why);

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
        return failed(c, why, "start", code);
    }
    c->running = true;
    c->stats.started++;
    return ERR_OK;
}

/* ---- what it records ---- */

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
    if (refused && taken) { /* a refused call may have left anything */
        err_ignore(failed(c, NULL, "flags", set_flags(c, taken)));
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
    code = set_flags(c, 0);
    if (!code) {
        code = set_flags(c, flags);
    }
    if (code == ERROR_WMI_INSTANCE_NOT_FOUND || code == ERROR_ACCESS_DENIED) {
        return failed(c, why, "flags", code);
    }
    c->conf.flags = flags;
    return code ? flags_singly(c, flags, why) : ERR_OK;
}

static const char *guid_text(char *text, size_t size, const uint8_t *bytes)
{
    GUID g;

    memcpy(&g, bytes, sizeof g);
    (void)snprintf(text, size, "%08lx-%04x-%04x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                   (unsigned long)g.Data1, g.Data2, g.Data3, g.Data4[0], g.Data4[1], g.Data4[2],
                   g.Data4[3], g.Data4[4], g.Data4[5], g.Data4[6], g.Data4[7]);
    return text;
}

enum err etw_ctl_enable(struct etw_ctl *c, const struct etw_provider *p, struct errmsg *why)
{
    ENABLE_TRACE_PARAMETERS parameters = {.Version = ENABLE_TRACE_PARAMETERS_VERSION_2};
    char name[40];
    ULONG code;
    GUID guid;

    if (c->conf.attach) {
        return ERR_OK;
    }
    memcpy(&guid, p->guid, sizeof guid);
    code = c->api->enable(c->handle, &guid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, p->level, p->any,
                          p->all, 0, &parameters);
    if (!code && p->rundown) {
        code = c->api->enable(c->handle, &guid, EVENT_CONTROL_CODE_CAPTURE_STATE, p->level, p->any,
                              p->all, 0, &parameters);
    }
    if (code) {
        c->stats.providers_refused++;
        return errmsg_set(why, ERR_PROVIDER,
                          "session %s: provider %s cannot be enabled (error %u); check its GUID, "
                          "its rights, and that no 8 sessions use it already",
                          c->conf.name, guid_text(name, sizeof name, p->guid), (unsigned)code);
    }
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
        return failed(c, why, "query", code);
    }
    if (!c->conf.attach && memcmp(&p->Wnode.Guid, c->conf.guid, sizeof c->conf.guid) != 0) {
        c->running = false; /* never to be stopped by us */
        return failed(c, why, "query", ERROR_WMI_INSTANCE_NOT_FOUND);
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
    return code ? failed(c, why, "flush", code) : ERR_OK;
}

enum err etw_ctl_grow(struct etw_ctl *c, struct errmsg *why)
{
    uint32_t before = c->max_buffers;
    ULONG code;

    if (c->conf.attach || before >= c->limit) {
        return errmsg_set(
            why, ERR_FULL,
            "session %s loses events with all of its %u buffers; raise pool_limit_mib",
            c->conf.name, (unsigned)before);
    }
    c->max_buffers = before * 2 < c->limit ? before * 2 : c->limit;
    block_fill(c);
    c->block.p.EnableFlags = c->conf.flags;
    code = control(c, EVENT_TRACE_CONTROL_UPDATE);
    if (code) {
        c->max_buffers = before;
        return failed(c, why, "update", code);
    }
    c->stats.grown++;
    return ERR_OK;
}

enum err etw_ctl_stop(struct etw_ctl *c, struct errmsg *why)
{
    ULONG code;

    if (c->conf.attach || !c->running) {
        return ERR_OK;
    }
    block_fill(c);
    code = control(c, EVENT_TRACE_CONTROL_STOP);
    if (code && code != ERROR_WMI_INSTANCE_NOT_FOUND) {
        return failed(c, why, "stop", code);
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
