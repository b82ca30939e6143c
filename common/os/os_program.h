/* Other programs: one of ours in place of this one, or any that is waited for. Threads: the main
 * one. */
#ifndef PROCFLEET_COMMON_OS_OS_PROGRAM_H
#define PROCFLEET_COMMON_OS_OS_PROGRAM_H

#include <stdint.h>

#include "common/base/err.h"

/* As the last act of this program: runs the program `name` that lies in the directory of its own
 * file, with `args`, which end with NULL and begin behind its name. On POSIX it takes this process
 * over: its signals and its exit code are the process's, and the function returns only with an
 * error. Windows: waits for its end; Ctrl-C reaches it through the console, and it ends with this
 * process.
 * code    its exit code
 * Errors: ERR_NOTFOUND (there is none), ERR_ACCESS, ERR_RANGE (a command line too long for the
 * system), ERR_NOMEM, ERR_IO; `why` names the path */
NODISCARD enum err os_program_run(const char *name, char **args, int *code, struct errmsg *why);

/* -- any program, with signals passed on; one at a time. On Windows it lives in a job object, so
 * that nothing of it outlives this program -- */
struct os_program;

/* Starts argv, which ends with NULL, and holds it before its first instruction. `variable`,
 * "NAME=value", is set for it. pid and start: the instance, as agents tell it; start 0: unknown.
 * Errors: ERR_NOMEM, ERR_IO; Windows: also those of os_program_wait; why says more */
NODISCARD enum err os_program_start(struct os_program **out, char **argv, const char *variable,
                                    uint32_t *pid, uint64_t *start, struct errmsg *why);

/* Lets it go, waits for its end, releases it. code: its exit code; POSIX: 128 and the number of the
 * signal that ended it. Errors: ERR_NOTFOUND (no such program), ERR_ACCESS, ERR_IO; why names it */
NODISCARD enum err os_program_wait(struct os_program *x, int *code, struct errmsg *why);

#endif
