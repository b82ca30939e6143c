/* The texts of the instances in a ptable: copies, all of them together within a limit.
 * Only ptable.c uses it. Threads: one owner. */
#ifndef PROCFLEET_AGENT_PROCESS_PTABLE_TEXT_H
#define PROCFLEET_AGENT_PROCESS_PTABLE_TEXT_H

#include "agent/process/ptable.h"

struct ptable_text {
    size_t bytes, max;
    struct ptable_stats *stats; /* text_full and nomem are counted there */
};

/* Replaces the texts of `own` by copies of those that `info` has, cut to the model's lengths; gives
 * whether one changed. What does not fit stays as it was, and a user's name does not become a SID
 * again. */
bool ptable_text_set(struct ptable_text *t, struct proc_info *own, const struct proc_info *info);
void ptable_text_drop(struct ptable_text *t, struct proc_info *own);

#endif
