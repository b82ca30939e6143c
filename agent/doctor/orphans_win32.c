#include "agent/doctor/orphans.h"

#include "agent/source/event.h" /* before the names of windows.h */
#include "agent/source/windows/etw_api.h"
#include "agent/source/windows/etw_orphans.h"
#include "agent/source/windows/etw_owner.h"

enum err orphans_look(struct orphans *out, const struct etw_conf *conf, bool stop,
                      struct errmsg *why)
{
    struct etw_owner *owner = NULL;
    struct etw_orphans seen = {0};
    struct etw_live_conf ours;
    struct etw_api api;
    enum err e = etw_api_load(&api, why);

    if (e) {
        return e;
    }
    e = etw_owner_take(&owner, why);
    if (e == ERR_BUSY) {
        *out = (struct orphans){.busy = true};
        return ERR_OK;
    }
    if (e) {
        return e;
    }
    etw_live_configure(&ours, conf, false);
    e = etw_orphans_look(&seen, &api, &ours, stop, why);
    etw_owner_give(owner);
    *out = (struct orphans){.found = seen.found, .stopped = seen.stopped};
    return e;
}
