#include "agent/doctor/orphans.h"

enum err orphans_look(struct orphans *out, const struct etw_conf *conf, bool stop,
                      struct errmsg *why)
{
    (void)out;
    (void)conf;
    (void)stop;
    return errmsg_set(why, ERR_UNSUPPORTED, "there are no trace sessions on this system");
}
