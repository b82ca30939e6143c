/* Builds answers of NtQuerySystemInformation, classes 5 and 148, to their documented layouts. */
#ifndef PROCFLEET_TESTS_SUPPORT_SNAP_GEN_H
#define PROCFLEET_TESTS_SUPPORT_SNAP_GEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uchar.h>

#include "common/base/buf.h"

struct snap_gen_thread {
    uint32_t tid, state, reason, switches;
    uint64_t created, user, kernel; /* 100 ns */
};

struct snap_gen_process {
    uint32_t pid, parent, session;
    uint64_t created;
    const char16_t *name; /* NULL: none */
    const struct snap_gen_thread *threads;
    size_t n_threads;
    uint64_t user, kernel; /* 100 ns */
    uint32_t page_faults, hard_faults;
    bool extension;
    uint64_t switches, disk_read, disk_write, sequence;
    const uint8_t *sid; /* class 148, with the extension; NULL: none */
    size_t sid_n;
};

/* Appends an entry to `b`, whose first byte lies at address `base`; every column not given above
 * holds its offset in the entry. `last`: nothing follows. */
void snap_gen_put(struct buf *b, uint64_t base, bool full, const struct snap_gen_process *p,
                  bool last);

#endif
