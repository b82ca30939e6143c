/* EV_CLR of event.h: what a runtime of .NET says about itself. Plain data. */
#ifndef PROCFLEET_AGENT_SOURCE_EVENT_CLR_H
#define PROCFLEET_AGENT_SOURCE_EVENT_CLR_H

#include <stdint.h>

struct ev_clr_text {
    const uint8_t *units; /* UTF-16LE, borrowed */
    uint32_t n;           /* units */
};

#define CLR_NO_GENERATION UINT32_MAX /* version 0 names none */
#define CLR_VERSIONS      9

/* What is not of the op is 0. The process is the event's own. */
struct ev_clr {
    uint16_t id;       /* of the record */
    uint16_t instance; /* of several runtimes in one process; version 0 of a record has 0 */
    uint8_t op;        /* enum clr_op */
    uint8_t n_sizes;   /* heap: 4, or 5 with the pinned objects' */
    uint32_t count;    /* number of the collection; objects, threads, bytes of code or IL */
    uint32_t generation, reason;
    uint32_t type;   /* of a collection; kind of an allocation */
    uint32_t flags;  /* method; contention: 0 = managed; exception: HRESULT */
    int64_t took_ns; /* contention: as the runtime measured, or -1 */
    uint64_t method; /* pairs the begin of a compilation with its end */
    uint64_t bytes;  /* allocation; heap: all of it */
    uint64_t promoted;
    /* These three are set by the events that have them; n_sizes of the first. */
    uint64_t sizes[5];
    double throughput;
    uint16_t versions[CLR_VERSIONS]; /* runtime: kind; of library and runtime, four parts each */
    /* allocation, exception: type; method: namespace, name, signature; runtime: command, path */
    struct ev_clr_text text[3];
};

#endif
