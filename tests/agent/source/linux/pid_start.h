/* A child whose number is chosen, to use one again. It waits until it is killed. */
#ifndef PROCFLEET_TESTS_AGENT_SOURCE_LINUX_PID_START_H
#define PROCFLEET_TESTS_AGENT_SOURCE_LINUX_PID_START_H

#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Gives pid; 0: the number is not free, or choosing one takes a privilege. */
static inline pid_t pid_start(pid_t pid)
{
    struct clone_args args = {
        .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&pid, .set_tid_size = 1};
    long got = syscall(SYS_clone3, &args, sizeof args);

    while (got == 0) {
        pause();
    }
    return got == pid ? pid : 0;
}

#endif
