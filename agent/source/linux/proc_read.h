/* One process into one row of a table: every column Linux can supply, the others absent.
 * Descriptors stay open between rows, which halves the cost of procfs. Threads: one owner. */
#ifndef PROCFLEET_AGENT_SOURCE_LINUX_PROC_READ_H
#define PROCFLEET_AGENT_SOURCE_LINUX_PROC_READ_H

#include "agent/source/linux/proc_inst.h"
#include "agent/source/linux/proc_net.h"
#include "agent/source/source.h"

#define PROC_QUIET_ROWS    300 /* repeated rows; the one after them is read in full */
#define PROC_QUIET_OTHERS  4   /* priority, CPUs and I/O priority are compared in each fourth */
#define PROC_QUIET_RELEASE 10  /* after so many, descriptors of the other files are closed */

/* Where the switches and waits of a process with several threads come from: asks the kernel for the
 * sum over its living threads (and, on some kernels, ended ones). */
struct proc_switches {
    void *ctx;
    enum err (*ask)(void *ctx, uint32_t pid, struct proc_net_task *out); /* NULL: read every one */
    bool with_ended; /* the answer includes ended threads */
};

/* Reads stat of a pid the table does not know.
 * Errors: ERR_NOTFOUND (gone), ERR_END (ended, its parent has not taken note yet), ERR_CORRUPT,
 * ERR_ACCESS, ERR_IO */
NODISCARD enum err proc_read_stat(struct proc_table *t, uint32_t pid, struct proc_stat *out);

/* Fills `row` from process p.
 * Errors: ERR_NOTFOUND (gone), ERR_END (ended), ERR_EXISTS (the pid belongs to a younger process
 * now), ERR_CORRUPT, ERR_NOMEM, ERR_IO; then the row means nothing */
NODISCARD enum err proc_read_row(struct proc_table *t, struct proc_inst *p,
                                 const struct proc_switches *sw, struct snap_row *row);

/* I/O of a process that is just ending, and with_stat its times and faults, from its files if they
 * are still there: into p->last_io and p->last_stat. with_stat also makes sure whose they are. */
void proc_read_last(struct proc_table *t, struct proc_inst *p, bool with_stat);

#endif
