/* What many agents send: batches of generated hosts as they come off the wire, made before the
 * clock runs. Failing to make them ends the program. */
#ifndef PROCFLEET_TESTS_BENCH_LOAD_H
#define PROCFLEET_TESTS_BENCH_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/model/model.h"

struct load_batch {
    uint8_t *p;
    size_t n;
    int64_t received_ns; /* its newest tick */
    unsigned host;       /* 0 to hosts - 1 */
    struct uuid host_id;
    char host_name[64];
};

struct load {
    size_t n;
    struct load_batch *batch;
    uint64_t values, bytes;
};

/* `per_host` batches of `ticks` ticks of each of `hosts` hosts, in turns, the first one beginning
 * at begin_ns (UTC; 0: the generator's own). */
struct load load_make(unsigned hosts, unsigned per_host, size_t ticks, int64_t begin_ns);
void load_free(struct load *l);

void load_check(enum err e, const char *what); /* ends the program with a sentence */

#endif
