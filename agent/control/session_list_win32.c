#include "agent/control/session_list.h"

#include <stdio.h>
#include <string.h>

#include "agent/source/windows/etw_api.h"
#include "agent/source/windows/etw_ctl.h"
#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/os/win32.h"

#define LISTED_MAX 256
#define NAME_UNITS 1024

struct list_block {
    EVENT_TRACE_PROPERTIES p;
    WCHAR name[NAME_UNITS], file[NAME_UNITS];
};

static void list_text(char *out, size_t size, const WCHAR *text)
{
    if (!WideCharToMultiByte(CP_UTF8, 0, text, -1, out, (int)size, NULL, NULL)) {
        out[0] = '\0';
    }
}

static void list_mode(char *out, size_t size, ULONG mode)
{
    static const struct {
        ULONG bit;
        const char *name;
    } bits[] = {
        {EVENT_TRACE_REAL_TIME_MODE, "real time"},
        {EVENT_TRACE_FILE_MODE_SEQUENTIAL, "file"},
        {EVENT_TRACE_FILE_MODE_CIRCULAR, "circular file"},
        {EVENT_TRACE_FILE_MODE_NEWFILE, "files"},
        {EVENT_TRACE_BUFFERING_MODE, "in memory"},
        {EVENT_TRACE_PRIVATE_LOGGER_MODE, "of a process"},
        {EVENT_TRACE_SYSTEM_LOGGER_MODE, "system logger"},
    };
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < sizeof bits / sizeof *bits && n < size; i++) {
        if (mode & bits[i].bit) {
            n += (size_t)snprintf(out + n, size - n, "%s%s", n ? ", " : "", bits[i].name);
        }
    }
}

static void list_row(struct session_list_row *r, const struct list_block *b)
{
    *r = (struct session_list_row){
        .buffers = b->p.NumberOfBuffers,
        .max_buffers = b->p.MaximumBuffers,
        .buffer_kb = b->p.BufferSize,
        .events_lost = b->p.EventsLost,
        .buffers_lost = (uint64_t)b->p.RealTimeBuffersLost + b->p.LogBuffersLost,
        .system = (b->p.LogFileMode & EVENT_TRACE_SYSTEM_LOGGER_MODE) != 0};
    list_text(r->name, sizeof r->name, b->name);
    list_text(r->file, sizeof r->file, b->file);
    list_mode(r->mode, sizeof r->mode, b->p.LogFileMode);
    r->ours = strncmp(r->name, "procfleet", sizeof "procfleet" - 1) == 0;
}

/* All there are. Errors: as session_list */
static enum err list_take(struct list_block **out, ULONG *n, struct errmsg *why)
{
    struct list_block *blocks = mem_zalloc(LISTED_MAX * sizeof *blocks);
    EVENT_TRACE_PROPERTIES *list[LISTED_MAX];
    struct etw_api api;
    ULONG code;
    enum err e = blocks ? etw_api_load(&api, why) : errmsg_set(why, ERR_NOMEM, "out of memory");

    *n = 0;
    if (!e) {
        for (size_t i = 0; i < LISTED_MAX; i++) {
            blocks[i].p.Wnode.BufferSize = sizeof blocks[i];
            blocks[i].p.LoggerNameOffset = offsetof(struct list_block, name);
            blocks[i].p.LogFileNameOffset = offsetof(struct list_block, file);
            list[i] = &blocks[i].p;
        }
        code = api.list(list, LISTED_MAX, n);
        e = code == ERROR_MORE_DATA ? ERR_OK : etw_ctl_error(why, "listing", "sessions", code);
    }
    if (e) {
        mem_free(blocks);
        return e;
    }
    *n = *n < LISTED_MAX ? *n : LISTED_MAX;
    *out = blocks;
    return ERR_OK;
}

enum err session_list(void (*row)(void *ctx, const struct session_list_row *r), void *ctx,
                      struct errmsg *why)
{
    struct list_block *blocks;
    struct session_list_row r;
    ULONG n;
    enum err e = list_take(&blocks, &n, why);

    for (ULONG i = 0; !e && i < n; i++) {
        list_row(&r, &blocks[i]);
        row(ctx, &r);
    }
    if (!e) {
        mem_free(blocks);
    }
    return e;
}

/* ---- providers ---- */

#define ANSWER_MAX (16u << 20) /* bytes of one answer of the system */
#define LOGGERS    64          /* sessions of one provider: eight, but for classic ones */

struct list_providers {
    ULONG(WINAPI *ask)(TRACE_QUERY_INFO_CLASS, void *, ULONG, void *, ULONG, ULONG *);
    const struct list_block *blocks;
    ULONG n_blocks;
    void (*row)(void *ctx, const struct session_provider_row *r);
    void *ctx;
};

/* Asks again with as much room as the system says. */
static enum err list_ask(const struct list_providers *l, TRACE_QUERY_INFO_CLASS what, GUID *of,
                         struct buf *out)
{
    ULONG n = 64u << 10, code = ERROR_INSUFFICIENT_BUFFER;

    for (int i = 0; i < 4 && code == ERROR_INSUFFICIENT_BUFFER; i++) {
        ULONG room = n;
        void *p;

        buf_reset(out);
        p = room <= ANSWER_MAX ? (void *)buf_grow(out, room) : NULL;
        if (!p) {
            return ERR_NOMEM;
        }
        code = l->ask(what, of, of ? sizeof *of : 0, p, room, &n);
        n = n > room ? n : code ? 2 * room : n;
    }
    out->n = n < out->n ? n : out->n;
    return code ? ERR_IO : ERR_OK;
}

static void list_provider_row(const struct list_providers *l, struct session_provider_row *r,
                              USHORT logger)
{
    r->session[0] = '\0';
    for (ULONG i = 0; i < l->n_blocks; i++) {
        struct session_list_row of;

        if (l->blocks[i].p.Wnode.HistoricalContext == logger) {
            list_row(&of, &l->blocks[i]);
            memcpy(r->session, of.name, sizeof r->session);
            r->events_lost = of.events_lost;
            r->buffers_lost = of.buffers_lost;
            r->ours = of.ours;
        }
    }
    l->row(l->ctx, r);
}

/* TRACE_GUID_INFO, then of each process TRACE_PROVIDER_INSTANCE_INFO and what sessions asked of it
 * there. */
static void list_provider(const struct list_providers *l, const GUID *guid, const struct buf *b)
{
    struct session_provider_row rows[LOGGERS] = {{.level = 0}};
    USHORT loggers[LOGGERS];
    size_t n = 0, at = sizeof(TRACE_GUID_INFO);
    TRACE_PROVIDER_INSTANCE_INFO of;
    TRACE_ENABLE_INFO on;

    while (at + sizeof of <= b->n) {
        memcpy(&of, b->p + at, sizeof of);
        for (size_t i = 0, from = at + sizeof of; i < of.EnableCount && from + sizeof on <= b->n;
             i++, from += sizeof on) {
            size_t k = 0;

            memcpy(&on, b->p + from, sizeof on);
            while (k < n && loggers[k] != on.LoggerId) {
                k++;
            }
            if (!on.IsEnabled || k == LOGGERS) {
                continue;
            }
            n += k == n;
            loggers[k] = on.LoggerId;
            memcpy(rows[k].guid, guid, sizeof rows[k].guid);
            rows[k].level = on.Level;
            rows[k].any = on.MatchAnyKeyword;
            rows[k].all = on.MatchAllKeyword;
            rows[k].processes += of.Pid != 0;
        }
        at += of.NextOffset;
        if (of.NextOffset < sizeof of) {
            break;
        }
    }
    for (size_t k = 0; k < n; k++) {
        list_provider_row(l, &rows[k], loggers[k]);
    }
}

static enum err list_providers(const struct list_providers *l)
{
    struct buf guids, one;
    GUID guid;
    enum err e;

    buf_init(&guids, ANSWER_MAX);
    buf_init(&one, ANSWER_MAX);
    e = list_ask(l, TraceGuidQueryList, NULL, &guids);
    for (size_t at = 0; !e && at + sizeof guid <= guids.n; at += sizeof guid) {
        memcpy(&guid, guids.p + at, sizeof guid);
        if (list_ask(l, TraceGuidQueryInfo, &guid, &one) == ERR_OK) { /* else it has just gone */
            list_provider(l, &guid, &one);
        }
    }
    buf_fini(&one);
    buf_fini(&guids);
    return e;
}

/* Where there is no session the function is not called: there it may end the program. */
enum err session_list_providers(void (*row)(void *ctx, const struct session_provider_row *r),
                                void *ctx, struct errmsg *why)
{
    struct list_providers l = {.row = row, .ctx = ctx};
    struct list_block *blocks;
    HMODULE module = LoadLibraryExW(L"sechost.dll", NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
    FARPROC ask = module ? GetProcAddress(module, "EnumerateTraceGuidsEx") : NULL;
    enum err e = list_take(&blocks, &l.n_blocks, why);

    if (e) {
        return e;
    }
    l.blocks = blocks;
    memcpy(&l.ask, &ask, sizeof ask);
    if (!ask) {
        e = errmsg_set(why, ERR_UNSUPPORTED, "this system does not tell what sessions turned on");
    } else if (l.n_blocks > 0) {
        e = list_providers(&l);
        e = e ? errmsg_set(why, e, "the list of providers: %s", err_text(e)) : ERR_OK;
    }
    mem_free(blocks);
    return e;
}
