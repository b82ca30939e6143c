/* Starts of hosts' systems, as answers carry them. Plain data, coded in wire_answer.c. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_BOOTS_H
#define PROCFLEET_COMMON_WIRE_WIRE_BOOTS_H

#include "common/model/model.h"

#define WIRE_BOOTS_MAX 4096u /* of an answer */

enum wire_boot_end {
    WIRE_BOOT_GOES_ON, /* the host is connected */
    WIRE_BOOT_SILENT,  /* the newest one; neither connected nor said good-bye */
    WIRE_BOOT_CLEAN,   /* the agent said good-bye, and nothing came of this boot after it */
    WIRE_BOOT_CUT,     /* it did not, and the host has started again */
    WIRE_BOOT_ENDS
};

/* Times are UTC ns by the host's clock. */
struct wire_boot {
    uint32_t host; /* index */
    struct uuid boot;
    int64_t booted_ns;         /* 0: not known */
    int64_t first_ns, last_ns; /* oldest and newest stamp of what the agent sent */
    uint8_t end;               /* enum wire_boot_end */
};

struct wire_boots {
    size_t n;
    const struct wire_boot *list;
};

#endif
