/* Attributes of a process: name, program, image, command line, user, parent. They are read once
 * when a process is met and again after exec, which shows in its stat. Threads: one owner. */
#ifndef PROCFLEET_AGENT_SOURCE_LINUX_PROC_ATTR_H
#define PROCFLEET_AGENT_SOURCE_LINUX_PROC_ATTR_H

#include "agent/source/linux/proc_inst.h"

/* Takes what stat says into p; p->stale afterwards: a program was started in it since. */
void proc_attr_stat(const struct proc_table *t, struct proc_inst *p, const struct proc_stat *st);

/* Reads program, image and command line of a stale instance: two calls for each exec or new name of
 * the main thread, none for a sample. What cannot be read stays absent (ended
 * meanwhile, or no right to see it: counted). Errors: ERR_NOMEM, then it is still stale */
NODISCARD enum err proc_attr_refresh(struct proc_table *t, struct proc_inst *p);

/* The real user is known to be `uid`. */
void proc_attr_user(struct proc_table *t, struct proc_inst *p, uint32_t uid);

/* Parent at start; its own start becomes known when it is in the table and is not younger. */
void proc_attr_parent(const struct proc_table *t, struct proc_inst *p, uint32_t parent_pid);

/* The name as the kernel has it, that of the main thread: tells only where the program is unknown.
 */
void proc_attr_name(struct proc_inst *p, const char *name, size_t n);

/* Name, program, image, command line and session as another process's, as far as memory allows,
 * until its stat shows exec; or, but for the name, unknown again. */
void proc_attr_copy(struct proc_inst *p, const struct proc_inst *from);
void proc_attr_forget_text(struct proc_inst *p);

#endif
