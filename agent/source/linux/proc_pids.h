/* The numbers of all processes, in ascending order. Reading the directory /proc costs the kernel
 * about a microsecond for each process, known or not. Numbers are handed out in ascending order,
 * and the last field of /proc/loadavg is the newest one: so most looks only try the numbers that
 * were handed out since, and every PROC_PIDS_WHOLE-th reads the directory.
 *
 * A number is tried in two looks, because it is handed out a moment before its process shows.
 * Where the directory ever shows a process that this way would have missed (a restored checkpoint
 * chooses its numbers), it is read at every look from then on; so it is where loadavg is not that
 * of the kernel, counts in another namespace than /proc, or where processes are hidden (hidepid).
 * Bounds:  `max` numbers. Threads: one owner. */
#ifndef PROCFLEET_AGENT_SOURCE_LINUX_PROC_PIDS_H
#define PROCFLEET_AGENT_SOURCE_LINUX_PROC_PIDS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/source/linux/proc_host.h"
#include "common/base/err.h"

#define PROC_PIDS_WHOLE 10

struct proc_pids {
    struct proc_host *host;
    DIR *dir;
    int loadavg;         /* descriptor; -1: the directory is read at every look */
    uint32_t *all, *old; /* old: of the look before */
    size_t n, n_old, max;
    size_t new_from, new_to; /* these of all[] were found by the present look */
    bool capped;             /* there are more than max */
    uint32_t newest, before; /* numbers handed out: at the last look, and at the one before it */
    unsigned looks;          /* since the directory was read */
    uint64_t whole;          /* how often the directory was read */
};

/* Opens the list of `proc_dir`, "/proc" outside of tests. Errors: ERR_NOMEM, ERR_IO */
NODISCARD enum err proc_pids_open(struct proc_pids *l, struct proc_host *h, const char *proc_dir,
                                  size_t max);
void proc_pids_close(struct proc_pids *l);

/* Brings the list up to date. Numbers of processes that have ended since may still be in it, until
 * they are removed. Errors: ERR_IO */
NODISCARD enum err proc_pids_look(struct proc_pids *l);

/* all[i] is the number of no process any more: it is gone from the next look on. */
void proc_pids_remove(struct proc_pids *l, size_t i);

#endif
