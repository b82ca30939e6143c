#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/cmd/threads.h"
#include "agent/source/linux/proc_text.h"
#include "common/os/os_posix.h"

static int by_tid(const void *a, const void *b)
{
    const struct thread_use *x = a, *y = b;

    return x->tid < y->tid ? -1 : x->tid > y->tid;
}

/* A file of the directory, as far as it fits; 0: nothing could be read. */
static size_t read_file(char *out, size_t size, int dir, uint32_t tid, const char *file)
{
    char path[64];
    ssize_t n;
    int fd;

    (void)snprintf(path, sizeof path, "%u/%s", tid, file);
    fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    n = read(fd, out, size);
    close(fd);
    return n > 0 ? (size_t)n : 0;
}

/* False: it has ended. Run time of the scheduler where it is kept, else clock ticks. */
static bool read_thread(struct thread_use *out, int dir, uint32_t tid)
{
    struct thread_use t = {.tid = tid, .has_cpu = true};
    long hz = sysconf(_SC_CLK_TCK);
    struct proc_stat st;
    char text[1024];
    struct proc_turns turns;
    size_t n = read_file(text, sizeof text, dir, tid, "stat");

    if (proc_text_stat(&st, text, n)) {
        return false;
    }
    t.name[proc_text_utf8(t.name, sizeof t.name - 1, st.name, st.name_n)] = '\0';
    n = read_file(text, sizeof text, dir, tid, "schedstat");
    if (n > 0 && proc_text_schedstat(&turns, text, n) == ERR_OK && turns.turns > 0) {
        t.cpu_ns = (int64_t)turns.run_ns;
    } else {
        t.cpu_ns =
            (int64_t)(st.user_ticks + st.kernel_ticks) * (1000000000LL / (hz > 0 ? hz : 100));
    }
    *out = t;
    return true;
}

enum err threads_read(struct thread_use *out, size_t max, uint32_t pid, size_t *n, bool *cut)
{
    const struct dirent *entry;
    size_t have = 0;
    char path[64];
    DIR *dir;

    (void)snprintf(path, sizeof path, "/proc/%u/task", pid);
    dir = opendir(path);
    if (!dir) {
        return errno == ENOENT ? ERR_NOTFOUND : os_posix_err(errno);
    }
    *cut = false;
    while ((entry = readdir(dir)) != NULL) {
        uint32_t tid;

        if (proc_text_pid(&tid, entry->d_name)) {
            continue;
        }
        if (have == max) {
            *cut = true;
            break;
        }
        have += read_thread(&out[have], dirfd(dir), tid);
    }
    closedir(dir);
    qsort(out, have, sizeof *out, by_tid);
    *n = have;
    return have > 0 ? ERR_OK : ERR_NOTFOUND;
}
