/* Nothing listens for a fleet on Windows: the collector runs on Linux. */
#include "common/net/net_reaper.h"

enum err net_reaper_tune(unsigned port)
{
    (void)port;
    return ERR_UNSUPPORTED;
}
