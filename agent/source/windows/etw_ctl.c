/* The properties block is always of full size, with room for both names: with a smaller one query
 * and stop fail with ERROR_MORE_DATA as soon as somebody's names are long, and the session cannot
 * be ended any more. */
#include "agent/source/windows/etw_ctl.h"

#include <stdio.h>
#include <string.h>

#include "agent/source/etw_guid.h"
#include "agent/source/etw_provider.h"
#include "agent/source/windows/etw_api.h"
#include "common/base/mem.h"
#include "common/os/win32.h"

#define RESEND_MAX     2
#define SESSIONS_MAX   64
#define BUFFER_KB_MAX  1024
#define BUFFERS_MAX    4096
#define GROUP_MASKS    8
#define FLAG_BITS      32
#define FLUSH_MS_LEAST 16        /* the kernel's own timer is not finer */
#define INTERVAL_UNITS 10000000u /* in a second */

#define ETW_CTL_NAME_UNITS 1024 /* of session and of log file, terminators included */

struct etw_ctl_block {
    EVENT_TRACE_PROPERTIES p;
    WCHAR logger[ETW_CTL_NAME_UNITS];
    WCHAR file[ETW_CTL_NAME_UNITS];
};

struct etw_ctl {
    const struct etw_api *api;
    struct etw_session_conf conf;
    WCHAR name[ETW_CTL_NAME_UNITS];
    TRACEHANDLE handle;
    uint32_t max_buffers; /* now */
    uint32_t limit;       /* of it */
    uint32_t flush_ms;    /* buffers are delivered at least so often */
    bool whole_seconds;   /* the system has refused a timer in ms */
    bool running;
    bool trusted;          /* a trace of ours could be opened */
    bool told_flags;       /* of this life */
    uint32_t flags_on;     /* likewise: what the kernel has taken, */
    uint32_t refused;      /* and what not when it was asked last */
    uint32_t interval_was; /* of the machine's samples, 100 ns; 0 = not ours to put back */
    struct etw_ctl_stats stats;
    struct etw_ctl_block block; /* of the call under way */
};

/* ---- errors ---- */

static const struct {
    uint32_t code;
    enum err e;
    const char *text;
} etw_ctl_codes[] = {
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
    for (size_t i = 0; i < sizeof etw_ctl_codes / sizeof etw_ctl_codes[0]; i++) {
        if (etw_ctl_codes[i].code == code) {
            return errmsg_set(why, etw_ctl_codes[i].e, "%s of %s: %s (error %u)", call, what,
                              etw_ctl_codes[i].text, (unsigned)code);
        }
    }
    return errmsg_set(why, ERR_IO, "%s of %s failed with error %u; see net helpmsg %u", call, what,
                      (unsigned)code, (unsigned)code);
}

/* Says why and counts it; ERROR_SUCCESS gives ERR_OK. */
static enum err etw_ctl_failed(struct etw_ctl *c, struct errmsg *why, const char *call,
                               uint32_t code)
{
    c->stats.failed += code != ERROR_SUCCESS;
    return etw_ctl_error(why, call, c->conf.name, code);
}

/* ---- the block ---- */

static void etw_ctl_block_clear(struct etw_ctl_block *b)
{
    memset(b, 0, sizeof *b);
    b->p.Wnode.BufferSize = sizeof *b;
    b->p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    b->p.LoggerNameOffset = offsetof(struct etw_ctl_block, logger);
    b->p.LogFileNameOffset = offsetof(struct etw_ctl_block, file);
}

static ULONG etw_ctl_mode(const struct etw_ctl *c)
{
    static const ULONG files[] = {[ETW_FILE_WHOLE] = EVENT_TRACE_FILE_MODE_SEQUENTIAL,
                                  [ETW_FILE_LAST] = EVENT_TRACE_FILE_MODE_CIRCULAR,
                                  [ETW_FILE_RING] = EVENT_TRACE_BUFFERING_MODE};
    ULONG mode = EVENT_TRACE_INDEPENDENT_SESSION_MODE |
                 (c->conf.file ? files[c->conf.file_as] : EVENT_TRACE_REAL_TIME_MODE);

    mode |= c->conf.kernel ? EVENT_TRACE_SYSTEM_LOGGER_MODE : 0;
    mode |= c->conf.one_stream ? EVENT_TRACE_NO_PER_PROCESSOR_BUFFERING : 0;
    mode |= c->whole_seconds ? 0 : EVENT_TRACE_USE_MS_FLUSH_TIMER;
    return mode;
}

/* In the unit that the mode says. */
static ULONG etw_ctl_timer(const struct etw_ctl *c)
{
    if (c->whole_seconds) {
        return c->conf.flush_s;
    }
    return c->flush_ms > FLUSH_MS_LEAST ? c->flush_ms : FLUSH_MS_LEAST;
}

static void etw_ctl_block_fill(struct etw_ctl *c)
{
    struct etw_ctl_block *b = &c->block;

    etw_ctl_block_clear(b);
    memcpy(&b->p.Wnode.Guid, c->conf.guid, sizeof b->p.Wnode.Guid);
    b->p.Wnode.ClientContext = 1; /* stamps of the performance counter */
    b->p.BufferSize = c->conf.buffer_kb;
    b->p.MinimumBuffers = c->conf.min_buffers;
    b->p.MaximumBuffers = c->max_buffers;
    b->p.LogFileMode = etw_ctl_mode(c);
    b->p.FlushTimer = etw_ctl_timer(c);
}

/* False: it is no text, or too long. */
static bool etw_ctl_block_name_file(struct etw_ctl *c)
{
    c->block.p.LogFileNameOffset = offsetof(struct etw_ctl_block, file);
    return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, c->conf.file, -1, c->block.file,
                               ETW_CTL_NAME_UNITS) > 0;
}

/* Of a start or an update. Sessions in real time have no file: its name must not be there. */
static void etw_ctl_block_fill_new(struct etw_ctl *c)
{
    etw_ctl_block_fill(c);
    c->block.p.LogFileNameOffset = 0;
    if (c->conf.file && c->conf.file_as != ETW_FILE_RING) {
        (void)etw_ctl_block_name_file(c); /* etw_ctl_open has tried it */
        c->block.p.MaximumFileSize = c->conf.file_mib;
    }
}

/* With the block as it stands; a system that wants more room is asked again. The session is named
 * by its name: a handle of an earlier life could mean somebody else's. */
static ULONG etw_ctl_control(struct etw_ctl *c, ULONG what)
{
    struct etw_ctl_block *b = &c->block;
    ULONG flags = b->p.EnableFlags; /* an update without them would turn all off */
    ULONG code = c->api->control(0, c->name, &b->p, what);

    for (int i = 0; code == ERROR_MORE_DATA && i < RESEND_MAX; i++) {
        c->stats.resent++;
        etw_ctl_block_fill(c);
        b->p.EnableFlags = flags;
        code = c->api->control(0, c->name, &b->p, what);
    }
    return code;
}

/* ---- open and close ---- */

static bool etw_ctl_conf_valid(const struct etw_session_conf *conf)
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

    if (!etw_ctl_conf_valid(conf)) {
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
    c->flush_ms = conf->flush_s * 1000;
    c->limit = conf->attach ? 0 : conf->pool_mib * 1024 / conf->buffer_kb;
    c->limit = c->limit < BUFFERS_MAX ? c->limit : BUFFERS_MAX;
    if (!conf->name[0] || !MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, conf->name, -1,
                                               c->name, ETW_CTL_NAME_UNITS)) {
        mem_free(c);
        return errmsg_set(why, ERR_INVALID, "session_name must have 1 to %d characters of UTF-8",
                          ETW_CTL_NAME_UNITS - 1);
    }
    if (conf->file && !etw_ctl_block_name_file(c)) {
        mem_free(c);
        return errmsg_set(why, ERR_INVALID, "%s: the path is no UTF-8, or too long", conf->file);
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

static void etw_ctl_append(char *text, size_t size, const WCHAR *name)
{
    size_t n = strlen(text);
    char utf8[128];

    if (!WideCharToMultiByte(CP_UTF8, 0, name, -1, utf8, sizeof utf8, NULL, NULL)) {
        (void)snprintf(utf8, sizeof utf8, "?");
    }
    (void)snprintf(text + n, size - n, "%s%s", n ? ", " : "", utf8);
}

/* How many slots this system has, where it can be asked. */
static const char *etw_ctl_slots_text(const struct etw_ctl *c, char *text, size_t size)
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
static enum err etw_ctl_no_slot(struct etw_ctl *c, struct errmsg *why)
{
    struct etw_ctl_block *blocks = mem_array(SESSIONS_MAX, sizeof *blocks);
    EVENT_TRACE_PROPERTIES *list[SESSIONS_MAX];
    char holders[320] = "", slots[40];
    ULONG n = 0, code;

    for (size_t i = 0; blocks && i < SESSIONS_MAX; i++) {
        etw_ctl_block_clear(&blocks[i]);
        list[i] = &blocks[i].p;
    }
    code = blocks ? c->api->list(list, SESSIONS_MAX, &n) : ERROR_OUTOFMEMORY;
    if (code == ERROR_SUCCESS || code == ERROR_MORE_DATA) { /* of more than that, the first ones */
        for (ULONG i = 0; i < n && i < SESSIONS_MAX; i++) {
            if (!c->conf.kernel || (list[i]->LogFileMode & EVENT_TRACE_SYSTEM_LOGGER_MODE)) {
                blocks[i].logger[ETW_CTL_NAME_UNITS - 1] = L'\0';
                etw_ctl_append(holders, sizeof holders, blocks[i].logger);
            }
        }
    }
    mem_free(blocks);
    return errmsg_set(why, ERR_FULL,
                      "start of %s: no session slot is free (error 1450%s), they are held by: %s; "
                      "stop one that is not needed (logman stop NAME -ets)",
                      c->conf.name, etw_ctl_slots_text(c, slots, sizeof slots),
                      holders[0] ? holders : "unknown");
}

enum err etw_ctl_reclaim(struct etw_ctl *c, struct errmsg *why)
{
    ULONG code;

    etw_ctl_block_fill(c);
    code = etw_ctl_control(c, EVENT_TRACE_CONTROL_QUERY);
    if (code == ERROR_WMI_INSTANCE_NOT_FOUND) {
        return ERR_OK; /* gone by itself */
    }
    if (code) {
        return etw_ctl_failed(c, why, "query", code);
    }
    if (memcmp(&c->block.p.Wnode.Guid, c->conf.guid, sizeof c->conf.guid) != 0) {
        return etw_ctl_failed(c, why, "start", ERROR_ALREADY_EXISTS);
    }
    etw_ctl_block_fill(c);
    code = etw_ctl_control(c, EVENT_TRACE_CONTROL_STOP);
    if (code && code != ERROR_WMI_INSTANCE_NOT_FOUND) {
        return etw_ctl_failed(c, why, "stop", code);
    }
    c->stats.orphan_reclaimed++;
    return ERR_OK;
}

static enum err etw_ctl_attach(struct etw_ctl *c, struct errmsg *why)
{
    struct etw_totals totals;
    enum err e = etw_ctl_query(c, &totals, why);

    if (e == ERR_LOST) {
        return errmsg_set(why, ERR_NOTFOUND, "there is no session %s to read; start it first",
                          c->conf.name);
    }
    return e;
}

/* A system that does not know timers in ms gets one in seconds. */
static ULONG etw_ctl_start_once(struct etw_ctl *c)
{
    ULONG code;

    etw_ctl_block_fill_new(c);
    code = c->api->start(&c->handle, c->name, &c->block.p);
    if (code == ERROR_INVALID_PARAMETER && !c->whole_seconds) {
        c->whole_seconds = true;
        etw_ctl_block_fill_new(c);
        code = c->api->start(&c->handle, c->name, &c->block.p);
        c->whole_seconds = code == ERROR_SUCCESS || code == ERROR_ALREADY_EXISTS;
    }
    return code;
}

enum err etw_ctl_start(struct etw_ctl *c, struct errmsg *why)
{
    ULONG code;

    if (c->conf.attach) {
        return etw_ctl_attach(c, why);
    }
    c->running = false;
    c->told_flags = false;
    c->flags_on = c->refused = 0;
    code = etw_ctl_start_once(c);
    if (code == ERROR_ALREADY_EXISTS) {
        enum err e = etw_ctl_reclaim(c, why);

        if (e) {
            return e;
        }
        code = etw_ctl_start_once(c);
    }
    if (code == ERROR_NO_SYSTEM_RESOURCES) {
        c->stats.failed++;
        return etw_ctl_no_slot(c, why);
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

    etw_ctl_block_fill(c);
    code = etw_ctl_control(c, EVENT_TRACE_CONTROL_QUERY);
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
    etw_ctl_block_fill(c);
    code = etw_ctl_control(c, EVENT_TRACE_CONTROL_FLUSH);
    return code ? etw_ctl_failed(c, why, "flush", code) : ERR_OK;
}

enum err etw_ctl_write(struct etw_ctl *c, struct errmsg *why)
{
    etw_ctl_block_fill(c);
    (void)etw_ctl_block_name_file(c);
    return etw_ctl_failed(c, why, "writing", etw_ctl_control(c, EVENT_TRACE_CONTROL_FLUSH));
}

static enum err etw_ctl_update(struct etw_ctl *c, uint32_t max_buffers, struct errmsg *why)
{
    uint32_t before = c->max_buffers;
    ULONG code;

    c->max_buffers = max_buffers;
    etw_ctl_block_fill_new(c);
    c->block.p.EnableFlags = c->flags_on;
    code = etw_ctl_control(c, EVENT_TRACE_CONTROL_UPDATE);
    if (code) {
        c->max_buffers = before;
        return etw_ctl_failed(c, why, "update", code);
    }
    return ERR_OK;
}

bool etw_ctl_flushes(const struct etw_ctl *c)
{
    return c->conf.attach || (!c->whole_seconds && c->flush_ms >= FLUSH_MS_LEAST) ||
           c->flush_ms >= c->conf.flush_s * 1000;
}

enum err etw_ctl_timer_ms(struct etw_ctl *c, uint32_t ms, struct errmsg *why)
{
    uint32_t before = c->flush_ms;
    enum err e;

    c->flush_ms = ms ? ms : c->conf.flush_s * 1000;
    if (c->flush_ms == before || !c->running || c->conf.attach || c->whole_seconds) {
        return ERR_OK;
    }
    e = etw_ctl_update(c, c->max_buffers, why);
    if (!e && c->flush_ms < before) {
        return etw_ctl_flush(c, why); /* the timer that runs is the longer one still */
    }
    c->flush_ms = e ? before : c->flush_ms;
    return e;
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
    e = etw_ctl_update(c, before * 2 < c->limit ? before * 2 : c->limit, why);
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
    return etw_ctl_update(c, max_buffers, why);
}

enum err etw_ctl_stop(struct etw_ctl *c, struct errmsg *why)
{
    ULONG code;

    etw_ctl_sampling_end(c);
    if (c->conf.attach || !c->running) {
        return ERR_OK;
    }
    etw_ctl_block_fill(c);
    code = etw_ctl_control(c, EVENT_TRACE_CONTROL_STOP);
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

uint64_t etw_ctl_handle(const struct etw_ctl *c)
{
    return c->handle;
}

/* ---- kernel flags ---- */

static ULONG etw_ctl_set_flags(struct etw_ctl *c, uint32_t flags)
{
    ULONG masks[GROUP_MASKS] = {flags};

    return c->api->set_info(c->handle, TraceSystemTraceEnableFlagsInfo, masks, sizeof masks);
}

static enum err etw_ctl_flags_refused(const struct etw_ctl *c, uint32_t refused, struct errmsg *why)
{
    return refused ? errmsg_set(why, ERR_PROVIDER,
                                "session %s: the kernel refuses the flags 0x%x; the others are on",
                                c->conf.name, (unsigned)refused)
                   : ERR_OK;
}

/* Those the system takes, one after the other. */
static enum err etw_ctl_flags_singly(struct etw_ctl *c, uint32_t flags, struct errmsg *why)
{
    uint32_t taken = 0, refused = 0;

    for (uint32_t i = 0; i < FLAG_BITS; i++) {
        uint32_t bit = UINT32_C(1) << i;

        if (!(flags & bit)) {
            continue;
        }
        if (etw_ctl_set_flags(c, taken | bit)) {
            refused |= bit;
            c->stats.flags_refused++;
        } else {
            taken |= bit;
        }
    }
    c->flags_on = taken;
    c->refused = refused;
    if (refused && taken) { /* a refused call may have left anything */
        err_ignore(etw_ctl_failed(c, NULL, "flags", etw_ctl_set_flags(c, taken)));
    }
    return etw_ctl_flags_refused(c, refused, why);
}

enum err etw_ctl_flags(struct etw_ctl *c, uint32_t flags, struct errmsg *why)
{
    ULONG code;

    if (c->conf.attach || !c->conf.kernel) {
        return ERR_OK;
    }
    code = c->told_flags ? ERROR_SUCCESS : etw_ctl_set_flags(c, 0);
    if (!code) {
        code = etw_ctl_set_flags(c, flags);
    }
    if (code == ERROR_WMI_INSTANCE_NOT_FOUND || code == ERROR_ACCESS_DENIED ||
        code == ERROR_PRIVILEGE_NOT_HELD) { /* that holds for each of them */
        return etw_ctl_failed(c, why, "flags", code);
    }
    c->told_flags = true;
    if (code) {
        return etw_ctl_flags_singly(c, flags, why);
    }
    c->flags_on = flags;
    return ERR_OK;
}

enum err etw_ctl_flags_add(struct etw_ctl *c, uint32_t flags, struct errmsg *why)
{
    uint32_t refused = 0;

    if (c->conf.attach || !c->conf.kernel) {
        return ERR_OK;
    }
    if (!c->told_flags) {
        return etw_ctl_flags(c, c->flags_on | flags, why);
    }
    for (uint32_t i = 0; i < FLAG_BITS; i++) {
        uint32_t bit = UINT32_C(1) << i;
        ULONG code;

        if (!(flags & bit & ~c->flags_on)) {
            continue;
        }
        code = etw_ctl_set_flags(c, c->flags_on | bit);
        if (code == ERROR_WMI_INSTANCE_NOT_FOUND) {
            return etw_ctl_failed(c, why, "flags", code);
        }
        if (code) {
            refused |= bit;
            c->stats.flags_refused += !(c->refused & bit); /* once in a life */
        } else {
            c->flags_on |= bit;
        }
    }
    c->refused = refused;
    if (refused) { /* a refused call may have left anything */
        err_ignore(etw_ctl_failed(c, NULL, "flags", etw_ctl_set_flags(c, c->flags_on)));
    }
    return etw_ctl_flags_refused(c, refused, why);
}

uint32_t etw_ctl_flags_on(const struct etw_ctl *c)
{
    return c->flags_on;
}

/* ---- stacks and samples ---- */

#define ETW_CTL_KINDS 16

enum err etw_ctl_stacks_of(struct etw_ctl *c, const struct etw_kind *kinds, size_t n,
                           struct errmsg *why)
{
    CLASSIC_EVENT_ID ids[ETW_CTL_KINDS];
    ULONG code;

    if (c->conf.attach || !c->conf.kernel) {
        return ERR_OK;
    }
    memset(ids, 0, sizeof ids);
    n = n < ETW_CTL_KINDS ? n : ETW_CTL_KINDS;
    for (size_t i = 0; i < n; i++) {
        memcpy(&ids[i].EventGuid, kinds[i].guid, sizeof ids[i].EventGuid);
        ids[i].Type = kinds[i].opcode;
    }
    code = c->api->set_info(c->handle, TraceStackTracingInfo, ids, (ULONG)(n * sizeof ids[0]));
    if (code) {
        c->stats.flags_refused++;
        return errmsg_set(why, ERR_PROVIDER,
                          "session %s: the kernel refuses stacks (error %u); they are left out",
                          c->conf.name, (unsigned)code);
    }
    return ERR_OK;
}

enum err etw_ctl_stacks(struct etw_ctl *c, bool on, struct errmsg *why)
{
    static const struct etw_kind kinds[] = {{ETW_CLASS_THREAD, 36}, {ETW_CLASS_PERF_INFO, 46}};

    return etw_ctl_stacks_of(c, kinds, on ? sizeof kinds / sizeof *kinds : 0, why);
}

/* The profile source 0 is the timer. */
static ULONG etw_ctl_set_interval(struct etw_ctl *c, uint32_t interval)
{
    TRACE_PROFILE_INTERVAL v = {.Interval = interval};

    return c->api->set_info(0, TraceSampledProfileIntervalInfo, &v, sizeof v);
}

static bool etw_ctl_know_interval(struct etw_ctl *c)
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

    if (c->conf.attach || !etw_ctl_know_interval(c)) {
        return errmsg_set(why, ERR_UNSUPPORTED,
                          "session %s: the machine's distance of CPU samples cannot be asked for "
                          "and stays as it is",
                          c->conf.name);
    }
    code = etw_ctl_set_interval(c, INTERVAL_UNITS / per_s);
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
        err_ignore(etw_ctl_failed(c, NULL, "interval", etw_ctl_set_interval(c, c->interval_was)));
        c->interval_was = 0;
    }
}

/* ---- providers ---- */

static const char *etw_ctl_guid_text(char *text, size_t size, const uint8_t *bytes)
{
    GUID g;

    memcpy(&g, bytes, sizeof g);
    (void)snprintf(text, size, "%08lx-%04x-%04x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                   (unsigned long)g.Data1, g.Data2, g.Data3, g.Data4[0], g.Data4[1], g.Data4[2],
                   g.Data4[3], g.Data4[4], g.Data4[5], g.Data4[6], g.Data4[7]);
    return text;
}

static const char *etw_ctl_provider_text(char *text, size_t size, const uint8_t *guid)
{
    const char *name = etw_provider_name(guid);

    return name ? name : etw_ctl_guid_text(text, size, guid);
}

static const char *etw_ctl_refusal_text(ULONG code)
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

/* What a provider's filters point to, while it is told of them. */
struct etw_ctl_filters {
    struct { /* what EVENT_FILTER_EVENT_ID holds: in or out, reserved, number, numbers */
        uint8_t in, reserved;
        uint16_t n, ids[SOURCE_PROVIDER_IDS];
    } ids;
    ULONG pids[SOURCE_PROVIDER_PIDS];
    wchar_t exe[SOURCE_PROVIDER_EXE];
    EVENT_FILTER_DESCRIPTOR d[4];
    ULONG n;
    bool payload; /* the last one, which the system made */
};

static void etw_ctl_filters_put(struct etw_ctl_filters *f, ULONG type, const void *p, size_t n)
{
    f->d[f->n++] =
        (EVENT_FILTER_DESCRIPTOR){.Ptr = (ULONGLONG)(uintptr_t)p, .Size = (ULONG)n, .Type = type};
}

/* False: one of them cannot be made here. */
static bool etw_ctl_filters_make(struct etw_ctl_filters *f, const struct etw_ctl *c,
                                 const struct source_provider *p)
{
    f->ids.in = TRUE;
    f->ids.n = (uint16_t)p->n_ids;
    memcpy(f->ids.ids, p->ids, sizeof p->ids);
    if (p->n_ids) {
        etw_ctl_filters_put(f, EVENT_FILTER_TYPE_EVENT_ID, &f->ids,
                            offsetof(struct etw_ctl_filters, ids.ids) +
                                p->n_ids * sizeof f->ids.ids[0]);
    }
    for (size_t i = 0; i < p->n_pids; i++) {
        f->pids[i] = p->pids[i];
    }
    if (p->n_pids) {
        etw_ctl_filters_put(f, EVENT_FILTER_TYPE_PID, f->pids, p->n_pids * sizeof f->pids[0]);
    }
    if (p->exe[0]) {
        int n = MultiByteToWideChar(CP_UTF8, 0, p->exe, -1, f->exe, SOURCE_PROVIDER_EXE);

        etw_ctl_filters_put(f, EVENT_FILTER_TYPE_EXECUTABLE_NAME, f->exe,
                            (size_t)n * sizeof f->exe[0]);
    }
    f->payload = p->field[0] && c->api->payload && c->api->payload(p, &f->d[f->n]);
    f->n += f->payload;
    return !p->field[0] || f->payload;
}

static ULONG etw_ctl_enable_once(struct etw_ctl *c, const struct source_provider *p,
                                 ULONG etw_ctl_control, struct etw_ctl_filters *filters)
{
    ENABLE_TRACE_PARAMETERS parameters = {.Version = ENABLE_TRACE_PARAMETERS_VERSION_2};
    GUID guid;

    memcpy(&guid, p->guid, sizeof guid);
    if (filters && filters->n) {
        parameters.EnableFilterDesc = filters->d;
        parameters.FilterDescCount = filters->n;
    }
    return c->api->enable(c->handle, &guid, etw_ctl_control, p->level, p->any, p->all, 0,
                          &parameters);
}

/* With its filters as far as the system takes them. */
static ULONG etw_ctl_enable_filtered(struct etw_ctl *c, const struct source_provider *p)
{
    struct etw_ctl_filters f = {.n = 0};
    bool all = etw_ctl_filters_make(&f, c, p);
    ULONG code = etw_ctl_enable_once(c, p, EVENT_CONTROL_CODE_ENABLE_PROVIDER, &f);

    if (code == ERROR_INVALID_PARAMETER && f.n > 0) {
        all = false;
        code = etw_ctl_enable_once(c, p, EVENT_CONTROL_CODE_ENABLE_PROVIDER, NULL);
    }
    if (f.payload) {
        c->api->payload_free(&f.d[f.n - 1]);
    }
    c->stats.filters_refused += !all;
    return code;
}

enum err etw_ctl_enable(struct etw_ctl *c, const struct source_provider *p, struct errmsg *why)
{
    char name[40];
    ULONG code;

    if (c->conf.attach) {
        return ERR_OK;
    }
    code = etw_ctl_enable_filtered(c, p);
    if (!code && p->rundown) {
        code = etw_ctl_enable_once(c, p, EVENT_CONTROL_CODE_CAPTURE_STATE, NULL);
    }
    if (code) {
        c->stats.providers_refused++;
        return errmsg_set(why, ERR_PROVIDER,
                          "session %s: provider %s cannot be enabled (error %u): %s", c->conf.name,
                          etw_ctl_provider_text(name, sizeof name, p->guid), (unsigned)code,
                          etw_ctl_refusal_text(code));
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
    code = etw_ctl_enable_once(c, &p, EVENT_CONTROL_CODE_DISABLE_PROVIDER, NULL);
    return code ? errmsg_set(why, ERR_PROVIDER,
                             "session %s: provider %s cannot be disabled (error %u): %s",
                             c->conf.name, etw_ctl_provider_text(name, sizeof name, guid),
                             (unsigned)code, etw_ctl_refusal_text(code))
                : ERR_OK;
}
