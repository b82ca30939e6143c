#include "collector/notify/notify_exec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clk.h"
#include "common/os/os.h"

#define LOOK_MS 20

/* -- whether it may be run -- */

/* In a directory with the sticky bit nobody else can move what root has there. */
static enum err exec_check_one(const char *path, bool directory, struct errmsg *why)
{
    struct stat st;

    if (stat(path, &st) != 0) {
        return errmsg_set(why, errno == EACCES ? ERR_ACCESS : ERR_NOTFOUND, "%s: %s", path,
                          strerror(errno));
    }
    if (directory ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode)) {
        return errmsg_set(why, ERR_INVALID, "%s is no program", path);
    }
    if (st.st_uid != 0 ||
        ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(directory && st.st_mode & S_ISVTX))) {
        return errmsg_set(why, ERR_ACCESS,
                          "%s must be owned by root and writable by nobody else: chown root:root, "
                          "chmod go-w",
                          path);
    }
    return ERR_OK;
}

enum err notify_exec_check(const char *program, struct errmsg *why)
{
    char path[PATH_MAX];
    enum err e;

    if (program[0] != '/') {
        return errmsg_set(why, ERR_INVALID, "an absolute path of a program is wanted");
    }
    if (!realpath(program, path)) {
        return errmsg_set(why, errno == EACCES ? ERR_ACCESS : ERR_NOTFOUND, "%s: %s", program,
                          strerror(errno));
    }
    e = exec_check_one(path, false, why);
    for (char *slash = strrchr(path, '/'); !e && slash; slash = strrchr(path, '/')) {
        *slash = '\0';
        e = exec_check_one(path[0] ? path : "/", true, why);
    }
    if (!e && access(program, X_OK) != 0) {
        e = errmsg_set(why, ERR_ACCESS, "%s cannot be executed by this user", program);
    }
    return e;
}

/* -- running it -- */

struct running {
    pid_t pid;
    int input; /* -1: closed */
    const char *p;
    size_t n;
};

static enum err exec_spawn(struct running *r, const char *program, struct errmsg *why)
{
    char *argv[] = {(char *)(uintptr_t)program, NULL};
    char *env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int fds[2], bad;

    if (pipe2(fds, O_CLOEXEC) != 0) {
        return errmsg_set(why, ERR_IO, "pipe: %s", strerror(errno));
    }
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    posix_spawn_file_actions_adddup2(&actions, fds[0], 0);
    posix_spawn_file_actions_adddup2(&actions, 2, 1);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETSIGDEF);
    bad = posix_spawn(&r->pid, program, &actions, &attr, argv, env);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    close(fds[0]);
    if (bad) {
        close(fds[1]);
        return errmsg_set(why, ERR_IO, "%s: %s", program, strerror(bad));
    }
    (void)fcntl(fds[1], F_SETFL, O_NONBLOCK);
    r->input = fds[1];
    return ERR_OK;
}

/* Gives it what it takes; one that does not read all is none of our business. */
static void exec_feed(struct running *r)
{
    ssize_t took;

    if (r->input < 0) {
        return;
    }
    took = r->n ? write(r->input, r->p, r->n) : 0;
    if (took > 0) {
        r->p += took;
        r->n -= (size_t)took;
    }
    if (r->n == 0 || (took < 0 && errno != EAGAIN && errno != EINTR)) {
        close(r->input);
        r->input = -1;
    }
}

static enum err exec_end(int status, const char *program, struct errmsg *why)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return ERR_OK;
    }
    if (WIFEXITED(status)) {
        return errmsg_set(why, ERR_REFUSED, "%s ended with exit code %d", program,
                          WEXITSTATUS(status));
    }
    return errmsg_set(why, ERR_REFUSED, "%s was ended by signal %d", program, WTERMSIG(status));
}

enum err notify_exec_run(const char *program, const void *p, size_t n, int64_t timeout_ns,
                         bool (*stopped)(void *ctx), void *ctx, struct errmsg *why)
{
    struct running r = {.input = -1, .p = p, .n = n};
    int64_t end_ns = os_mono_ns() + timeout_ns;
    int status = 0;
    pid_t ended;
    enum err e = notify_exec_check(program, why);

    e = e ? e : exec_spawn(&r, program, why);
    if (e) {
        return e;
    }
    exec_feed(&r);
    while ((ended = waitpid(r.pid, &status, WNOHANG)) == 0) {
        if (stopped(ctx) || os_mono_ns() >= end_ns) {
            e = stopped(ctx) ? ERR_CLOSED
                             : errmsg_set(why, ERR_TIMEOUT, "%s took longer than %lld s", program,
                                          (long long)(timeout_ns / CLK_S));
            (void)kill(-r.pid, SIGKILL);
            (void)waitpid(r.pid, &status, 0);
            break;
        }
        (void)poll(NULL, 0, LOOK_MS);
        exec_feed(&r);
    }
    if (r.input >= 0) {
        close(r.input);
    }
    if (ended < 0) { /* SIGCHLD is ignored, as whoever started us had it */
        return errmsg_set(why, ERR_IO, "how %s ended is not known: %s", program, strerror(errno));
    }
    return e ? e : exec_end(status, program, why);
}
