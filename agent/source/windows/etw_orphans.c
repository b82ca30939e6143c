#include "agent/source/windows/etw_orphans.h"

#include <string.h>

#include "agent/source/windows/etw_api.h"
#include "common/base/mem.h"

#define SESSIONS_MAX 64
#define NAME_UNITS   1024

struct block {
    EVENT_TRACE_PROPERTIES p;
    WCHAR logger[NAME_UNITS], file[NAME_UNITS];
};

struct list {
    struct block blocks[SESSIONS_MAX];
    EVENT_TRACE_PROPERTIES *at[SESSIONS_MAX];
    ULONG n;
};

static enum err list_sessions(struct list *l, const struct etw_api *api, struct errmsg *why)
{
    ULONG code;

    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        l->blocks[i].p.Wnode.BufferSize = sizeof l->blocks[i];
        l->blocks[i].p.LoggerNameOffset = offsetof(struct block, logger);
        l->blocks[i].p.LogFileNameOffset = offsetof(struct block, file);
        l->at[i] = &l->blocks[i].p;
    }
    l->n = 0;
    code = api->list(l->at, SESSIONS_MAX, &l->n);
    l->n = l->n < SESSIONS_MAX ? l->n : SESSIONS_MAX;
    if (code == ERROR_MORE_DATA) {
        code = ERROR_SUCCESS; /* there are more of them; these were told all the same */
    }
    return etw_ctl_error(why, "listing", "sessions", code);
}

static bool is_there(const struct list *l, const struct etw_session_conf *s)
{
    WCHAR name[NAME_UNITS];

    if (!MultiByteToWideChar(CP_UTF8, 0, s->name, -1, name, NAME_UNITS)) {
        return false;
    }
    for (ULONG i = 0; i < l->n; i++) {
        const struct block *b = &l->blocks[i];

        if (b->logger[NAME_UNITS - 1] == L'\0' && _wcsicmp(b->logger, name) == 0 &&
            memcmp(&b->p.Wnode.Guid, s->guid, sizeof s->guid) == 0) {
            return true;
        }
    }
    return false;
}

static enum err stop_session(struct etw_orphans *out, const struct etw_api *api,
                             const struct etw_session_conf *s, struct errmsg *why)
{
    struct etw_ctl_stats stats;
    struct etw_ctl *c;
    enum err e = etw_ctl_open(&c, api, s, why);

    if (e) {
        return e;
    }
    e = etw_ctl_reclaim(c, why);
    etw_ctl_stats(c, &stats);
    out->stopped += (unsigned)stats.orphan_reclaimed;
    etw_ctl_close(c);
    return e;
}

enum err etw_orphans_look(struct etw_orphans *out, const struct etw_api *api,
                          const struct etw_live_conf *conf, bool stop, struct errmsg *why)
{
    struct list *l = mem_zalloc(sizeof *l);
    struct etw_orphans seen = {0};
    enum err e, failed = ERR_OK;

    if (!l) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    e = list_sessions(l, api, why);
    for (size_t i = 0; !e && i < conf->n_sessions; i++) {
        const struct etw_session_conf *s = &conf->sessions[i].session;

        if (s->attach || !is_there(l, s)) {
            continue;
        }
        seen.found++;
        if (stop && !failed) { /* after a failure they are only counted */
            failed = stop_session(&seen, api, s, why);
        }
    }
    mem_free(l);
    *out = seen;
    return e ? e : failed;
}
