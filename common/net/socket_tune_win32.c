/* Nothing listens for a fleet on Windows: the collector runs on Linux. */
#include "common/net/socket_tune.h"

enum err socket_tune(unsigned port)
{
    (void)port;
    return ERR_UNSUPPORTED;
}
