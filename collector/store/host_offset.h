/* How far a host's clock is from the collector's: what the session estimates and the store keeps
 * with every batch. Plain data. */
#ifndef PROCFLEET_COLLECTOR_STORE_HOST_OFFSET_H
#define PROCFLEET_COLLECTOR_STORE_HOST_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

struct host_offset {
    bool known;
    bool bounded;      /* error_ns holds */
    int64_t offset_ns; /* collector's clock minus the host's */
    int64_t error_ns;  /* how far offset_ns may be off, never negative */
};

#endif
