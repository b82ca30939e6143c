#include "common/os/os_program.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"

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
