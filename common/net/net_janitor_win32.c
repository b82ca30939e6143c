/* Nothing listens for a fleet on Windows: the collector runs on Linux. */
#include "common/net/net_janitor.h"

enum err net_janitor_tune(unsigned port)
{
    (void)port;
    return ERR_UNSUPPORTED;
}
