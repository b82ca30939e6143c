/* How a process ended, by its exit code: by itself, with an error, killed from outside, or by a
 * fault of its own; and the names of signals and of NTSTATUS codes. A Linux agent says whether the
 * code is 128 and a signal's number (INFO_SIGNALLED); one of before does not, and then 139 is an
 * error like any other. Threads: any; constant data. */
#ifndef PROCFLEET_COMMON_LAB_ENDED_H
#define PROCFLEET_COMMON_LAB_ENDED_H

#include "common/lab/run_file.h"
#include "common/model/model.h"

enum ended {
    ENDED_RUNNING,
    ENDED_EXITED, /* code 0 */
    ENDED_ERROR,  /* any other */
    ENDED_KILLED, /* by a signal that is no fault, Ctrl-C, logging off, a debugger */
    ENDED_CRASH   /* SIGSEGV, ABRT, BUS, FPE, ILL, TRAP, SYS; an exception that nothing handled */
};

/* Their words in this order, NULL at the end. */
extern const char *const ended_words[];

enum ended ended_by_code(uint32_t code, bool signalled);

/* False: it ended, and nobody knows how. */
bool ended_how(const struct proc_info *info, enum ended *out);

/* What ended_how and ended_text ask of a process, of one in a run's file. */
struct proc_info ended_life(const struct run_life *l);

/* "SIGSEGV", "ACCESS_VIOLATION"; NULL: no name is known. */
const char *ended_name(uint32_t code, bool signalled);

/* "SIGSEGV", "ACCESS_VIOLATION 0xc0000005", "exit 3"; "" where the code is not known. */
#define ENDED_TEXT 48
const char *ended_text(char text[ENDED_TEXT], const struct proc_info *info);

#endif
