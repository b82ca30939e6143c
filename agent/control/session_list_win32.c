#include "agent/control/session_list.h"

#include <stdio.h>
#include <string.h>

#include "agent/source/windows/etw_api.h"
#include "agent/source/windows/etw_ctl.h"
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

enum err session_list(void (*row)(void *ctx, const struct session_list_row *r), void *ctx,
                      struct errmsg *why)
{
    struct list_block *blocks = mem_zalloc(LISTED_MAX * sizeof *blocks);
    EVENT_TRACE_PROPERTIES *list[LISTED_MAX];
    struct session_list_row r;
    struct etw_api api;
    ULONG n = 0, code;
    enum err e = blocks ? etw_api_load(&api, why) : errmsg_set(why, ERR_NOMEM, "out of memory");

    if (!e) {
        for (size_t i = 0; i < LISTED_MAX; i++) {
            blocks[i].p.Wnode.BufferSize = sizeof blocks[i];
            blocks[i].p.LoggerNameOffset = offsetof(struct list_block, name);
            blocks[i].p.LogFileNameOffset = offsetof(struct list_block, file);
            list[i] = &blocks[i].p;
        }
        code = api.list(list, LISTED_MAX, &n);
        e = code == ERROR_MORE_DATA ? ERR_OK : etw_ctl_error(why, "listing", "sessions", code);
    }
    for (ULONG i = 0; !e && i < n && i < LISTED_MAX; i++) {
        list_row(&r, &blocks[i]);
        row(ctx, &r);
    }
    mem_free(blocks);
    return e;
}
