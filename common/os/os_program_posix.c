#include "common/os/os_program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/mem.h"

extern char **environ;

/* The path of `name` beside this program's own file. */
static enum err beside(char *path, size_t size, const char *name)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    char *slash;

    if (n < 0) {
        return ERR_IO;
    }
    path[n] = '\0';
    slash = strrchr(path, '/');
    if (!slash || (size_t)(slash + 1 - path) + strlen(name) >= size) {
        return ERR_RANGE;
    }
    memcpy(slash + 1, name, strlen(name) + 1);
    return ERR_OK;
}

static enum err translate(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        return ERR_NOTFOUND;
    case EACCES:
    case EPERM:
        return ERR_ACCESS;
    case E2BIG:
        return ERR_RANGE;
    case ENOMEM:
        return ERR_NOMEM;
    default:
        return ERR_IO;
    }
}

enum err os_program_run(const char *name, char **args, int *code, struct errmsg *why)
{
    char path[PATH_MAX] = "", own[NAME_MAX + 1];
    enum err e = beside(path, sizeof path, name);
    char **argv;
    size_t n = 0;

    (void)code;
    if (e) {
        return errmsg_set(why, e, "cannot tell where this program's own file is");
    }
    while (args[n]) {
        n++;
    }
    argv = mem_array(n + 2, sizeof *argv);
    if (!argv) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    snprintf(own, sizeof own, "%s", name);
    argv[0] = own;
    memcpy(argv + 1, args, (n + 1) * sizeof *argv);
    fflush(NULL);
    execv(path, argv);
    e = translate(errno);
    mem_free(argv);
    return errmsg_set(why, e, "%s cannot be started: %s", path, err_text(e));
}

/* -- a program that is waited for --
 *
 * The child waits for one byte from a pipe and then becomes the program; when that fails, its errno
 * comes back through another pipe, which closes when it succeeds. A parent that dies before closes
 * the first one, and the child ends. */

struct os_program {
    pid_t pid;
    int go, failed; /* ends of the pipes */
    const char *name;
};

static const int passed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

#define PASSED_ON (sizeof passed_on / sizeof *passed_on)

static volatile sig_atomic_t child_pid; /* for the handler */

/* What a terminal sends reaches the child by itself: it is of the same group. */
static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (child_pid > 0 && info->si_code != SI_KERNEL) {
        (void)kill((pid_t)child_pid, signal);
    }
}

static void signals_pass(void)
{
    struct sigaction act;

    memset(&act, 0, sizeof act);
    act.sa_sigaction = on_signal;
    act.sa_flags = SA_SIGINFO | SA_RESTART;
    (void)sigemptyset(&act.sa_mask);
    for (size_t i = 0; i < PASSED_ON; i++) {
        struct sigaction before;

        if (sigaction(passed_on[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
            (void)sigaction(passed_on[i], &act, NULL);
        }
    }
}

/* With `variable` in it, in place of one of its name. */
static char **environment_with(const char *variable)
{
    size_t n = 0, name = strcspn(variable, "=") + 1, k = 0;
    char **out;

    while (environ[n]) {
        n++;
    }
    out = mem_array(n + 2, sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        if (strncmp(environ[i], variable, name) != 0) {
            out[k++] = environ[i];
        }
    }
    if (out) {
        out[k] = (char *)(uintptr_t)variable;
    }
    return out;
}

/* Field 22 of /proc/PID/stat: clock ticks since the system began. */
static uint64_t start_of(pid_t pid)
{
    char path[64], text[1024] = "", *p;
    unsigned long long start = 0;
    FILE *f;

    (void)snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    f = fopen(path, "re");
    if (f) {
        size_t n = fread(text, 1, sizeof text - 1, f);

        text[n] = 0;
        fclose(f);
    }
    p = strrchr(text, ')'); /* the name before it may hold anything */
    for (unsigned i = 3; p && i <= 22; i++) {
        p = strchr(p + 1, ' ');
    }
    return p && sscanf(p, "%llu", &start) == 1 ? start : 0;
}

static void child_run(int go, int failed, char **argv, char **environment)
{
    char byte;
    int error;

    if (read(go, &byte, 1) != 1) {
        _exit(125);
    }
    (void)close(go);
    execvpe(argv[0], argv, environment);
    error = errno;
    (void)!write(failed, &error, sizeof error);
    _exit(127);
}

enum err os_program_start(struct os_program **out, char **argv, const char *variable, uint32_t *pid,
                          uint64_t *start, struct errmsg *why)
{
    struct os_program *x = mem_zalloc(sizeof *x);
    char **environment = environment_with(variable);
    int go[2] = {-1, -1}, failed[2] = {-1, -1};
    bool ok = x && environment && pipe2(go, O_CLOEXEC) == 0 && pipe2(failed, O_CLOEXEC) == 0;

    fflush(NULL);
    if (ok) {
        x->pid = fork();
        ok = x->pid >= 0;
    }
    if (ok && x->pid == 0) {
        (void)close(go[1]);
        child_run(go[0], failed[1], argv, environment);
    }
    (void)close(go[0]);
    (void)close(failed[1]);
    mem_free(environment);
    if (!ok) {
        enum err e = errmsg_set(why, ERR_IO, "cannot start a process: %s", strerror(errno));

        (void)close(go[1]);
        (void)close(failed[0]);
        mem_free(x);
        return e;
    }
    x->go = go[1];
    x->failed = failed[0];
    x->name = argv[0];
    child_pid = x->pid;
    signals_pass();
    *pid = (uint32_t)x->pid;
    *start = start_of(x->pid);
    *out = x;
    return ERR_OK;
}

enum err os_program_wait(struct os_program *x, int *code, struct errmsg *why)
{
    int status = 0, error = 0;
    ssize_t n;
    enum err e = ERR_OK;

    (void)!write(x->go, "", 1);
    (void)close(x->go);
    do {
        n = read(x->failed, &error, sizeof error);
    } while (n < 0 && errno == EINTR);
    while (waitpid(x->pid, &status, 0) < 0 && errno == EINTR) {
    }
    child_pid = 0;
    (void)close(x->failed);
    if (n == (ssize_t)sizeof error) {
        e = errmsg_set(why, translate(error), "%s: %s", x->name, strerror(error));
    }
    *code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    mem_free(x);
    return e;
}
