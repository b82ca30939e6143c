/* Programs as targets: the notice goes to standard input and nowhere else; no argument, variable or
 * file name is made of it. Threads: any. */
#ifndef PROCFLEET_COLLECTOR_NOTIFY_NOTIFY_EXEC_H
#define PROCFLEET_COLLECTOR_NOTIFY_NOTIFY_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

/* Whether it may be run: an absolute path of a file that root owns and nobody else can write, and
 * so are, where links lead, all directories above it. Errors: ERR_INVALID, ERR_NOTFOUND,
 * ERR_ACCESS */
NODISCARD enum err notify_exec_check(const char *program, struct errmsg *why);

/* Checks it again, runs it without arguments and with PATH alone in its environment, and waits. It
 * is killed, with what it started in its process group, after timeout_ns and when `stopped` says
 * so. What it prints goes where our standard error goes.
 * Errors: ERR_CLOSED (stopped), ERR_TIMEOUT, ERR_REFUSED (another exit code than 0; why says
 * which), those of notify_exec_check, ERR_IO, ERR_NOMEM */
NODISCARD enum err notify_exec_run(const char *program, const void *p, size_t n, int64_t timeout_ns,
                                   bool (*stopped)(void *ctx), void *ctx, struct errmsg *why);

#endif
