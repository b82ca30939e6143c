/* Another program of ours, started in place of this one. Threads: the main one, as its last act. */
#ifndef PROCFLEET_COMMON_OS_OS_PROGRAM_H
#define PROCFLEET_COMMON_OS_OS_PROGRAM_H

#include "common/base/err.h"

/* Runs the program `name` that lies in the directory of this program's own file, with `args`, which
 * end with NULL and begin behind its name. On POSIX it takes this process over: its signals and its
 * exit code are the process's, and the function returns only with an error. Windows: waits for its
 * end; Ctrl-C reaches it through the console, and it ends with this process.
 * code    its exit code
 * Errors: ERR_NOTFOUND (there is none), ERR_ACCESS, ERR_RANGE (a command line too long for the
 * system), ERR_NOMEM, ERR_IO; `why` names the path */
NODISCARD enum err os_program_run(const char *name, char **args, int *code, struct errmsg *why);

#endif
