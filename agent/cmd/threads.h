/* The threads of one process, asked of the system at this moment: for people at this host
 * (`watch --threads`), never sent. threads_linux.c and threads_win32.c, chosen by the build.
 * Threads: any; no state. */
#ifndef PROCFLEET_AGENT_CMD_THREADS_H
#define PROCFLEET_AGENT_CMD_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define THREADS_MAX  4096
#define THREADS_NAME 64

struct thread_use {
    uint32_t tid;
    bool has_cpu, has_cycles; /* absent where the system does not say, or not to us */
    int64_t cpu_ns;
    uint64_t cycles;
    char name[THREADS_NAME]; /* UTF-8; "" = it has none */
};

/* Fills `out`, which has room for `max`, by tid; *cut: there are more. A thread that ends meanwhile
 * is left out. Errors: ERR_NOTFOUND (no such process), ERR_ACCESS, ERR_NOMEM, ERR_IO */
NODISCARD enum err threads_read(struct thread_use *out, size_t max, uint32_t pid, size_t *n,
                                bool *cut);

#endif
