#include "agent/source/linux/proc_host.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/source/linux/proc_text.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define PID_MAX (1U << 22) /* of Linux; larger ones do not fit into a clock's number */

static enum err from_errno(void)
{
    switch (errno) {
    case ENOENT:
    case ESRCH:
    case ENOTDIR:
        return ERR_NOTFOUND;
    case EACCES:
    case EPERM:
        return ERR_ACCESS;
    case EMFILE:
    case ENFILE:
        return ERR_FULL;
    case ENOMEM:
        return ERR_NOMEM;
    default:
        return ERR_IO;
    }
}

static int64_t clock_ns(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * CLK_S + t.tv_nsec;
}

void proc_host_clocks(struct proc_host *h)
{
    int64_t mono = clock_ns(CLOCK_MONOTONIC);
    char on = '0';

    h->delays = h->delays_fd >= 0 && pread(h->delays_fd, &on, 1, 0) == 1 && on == '1';

    h->mono_to_wall_ns = clock_ns(CLOCK_REALTIME) - mono;
    h->mono_to_boot_ns = clock_ns(CLOCK_BOOTTIME) - clock_ns(CLOCK_MONOTONIC);
    if (h->mono_to_boot_ns < CLK_MS) {
        h->mono_to_boot_ns = 0; /* never suspended: the difference is that of the two calls */
    }
}

/* A quarter of all descriptors stays free for everything else the program does. */
static size_t descriptor_budget(void)
{
    size_t all = os_open_files_max();

    return all > 1000000 ? 750000 : all / 4 * 3;
}

static bool fd_dir_has_count(int root)
{
    struct stat st;

    return fstatat(root, "self/fd", &st, 0) == 0 && st.st_size > 0;
}

enum err proc_host_open(struct proc_host *h, const char *proc_dir, struct errmsg *why)
{
    memset(h, 0, sizeof *h);
    h->root = open(proc_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (h->root < 0) {
        return errmsg_set(why, from_errno(), "cannot read %s: %s; mount procfs there", proc_dir,
                          strerror(errno));
    }
    h->delays_fd = openat(h->root, "sys/kernel/task_delayacct", O_RDONLY | O_CLOEXEC);
    h->users = mem_array(PROC_USERS_MAX, sizeof *h->users);
    if (!h->users) {
        proc_host_close(h);
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    h->tick_ns = CLK_S / sysconf(_SC_CLK_TCK);
    h->page_bytes = sysconf(_SC_PAGESIZE);
    proc_host_clocks(h);
    h->boot_wall_ns = h->mono_to_wall_ns - h->mono_to_boot_ns;
    h->fds_left = descriptor_budget();
    h->fd_dir_has_count = fd_dir_has_count(h->root);
    return ERR_OK;
}

void proc_host_close(struct proc_host *h)
{
    if (h->root > 0) {
        close(h->root);
        if (h->delays_fd >= 0) {
            close(h->delays_fd);
        }
    }
    h->root = 0;
    mem_free(h->users);
    h->users = NULL;
}

int64_t proc_host_create_ns(const struct proc_host *h, uint64_t start_ticks)
{
    if (start_ticks > (uint64_t)(INT64_MAX / h->tick_ns)) {
        return INT64_MAX;
    }
    return clk_add(h->boot_wall_ns, (int64_t)start_ticks * h->tick_ns);
}

uint64_t proc_host_ticks_at(const struct proc_host *h, int64_t mono_ns)
{
    int64_t boot_ns = clk_add(mono_ns, h->mono_to_boot_ns);

    return boot_ns > 0 ? (uint64_t)(boot_ns / h->tick_ns) : 0;
}

void proc_host_path(char out[PROC_PATH_MAX], uint32_t pid, const char *file)
{
    char digits[10], *d = digits + sizeof digits;
    size_t file_n = strnlen(file, PROC_PATH_MAX - sizeof digits - 2), n;

    do {
        *--d = (char)('0' + pid % 10);
        pid /= 10;
    } while (pid);
    n = (size_t)(digits + sizeof digits - d);
    memcpy(out, d, n);
    out[n] = '/';
    memcpy(out + n + 1, file, file_n);
    out[n + 1 + file_n] = '\0';
}

enum err proc_host_open_file(const struct proc_host *h, int *fd, uint32_t pid, const char *file,
                             int flags)
{
    char path[PROC_PATH_MAX];
    int f;

    proc_host_path(path, pid, file);
    f = openat(h->root, path, flags | O_CLOEXEC);
    if (f < 0) {
        return from_errno();
    }
    *fd = f;
    return ERR_OK;
}

/* procfs gives each of the files read here whole in one call, as far as there is room. The C
 * library's pread is a point of cancellation: there are two further calls in it, each time. The
 * offset is 0 however many words it takes. */
static enum err read_from_start(int fd, char *buf, size_t cap, size_t *n)
{
    long got;

    do {
        got = syscall(SYS_pread64, fd, buf, cap, 0L, 0L, 0L);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        return from_errno();
    }
    *n = (size_t)got;
    return ERR_OK;
}

enum err proc_host_read(struct proc_host *h, uint32_t pid, const char *file, char *buf, size_t cap,
                        size_t *n)
{
    int fd = -1;
    enum err e = proc_host_open_file(h, &fd, pid, file, O_RDONLY);

    if (e) {
        return e;
    }
    e = read_from_start(fd, buf, cap, n);
    close(fd);
    return e;
}

enum err proc_host_keep(struct proc_host *h, int *fd, uint32_t pid, const char *file, int flags)
{
    enum err e;

    if (h->fds_left == 0) {
        return ERR_FULL;
    }
    e = proc_host_open_file(h, fd, pid, file, flags);
    if (!e) {
        h->fds_left--;
    }
    return e;
}

enum err proc_host_read_kept(struct proc_host *h, int *fd, uint32_t pid, const char *file,
                             char *buf, size_t cap, size_t *n)
{
    if (*fd < 0) {
        enum err e = proc_host_keep(h, fd, pid, file, O_RDONLY);

        if (e == ERR_FULL) {
            return proc_host_read(h, pid, file, buf, cap, n);
        }
        if (e) {
            return e;
        }
    }
    return read_from_start(*fd, buf, cap, n);
}

void proc_host_release(struct proc_host *h, int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
        h->fds_left++;
    }
}

enum err proc_host_cpu(uint32_t pid, uint64_t *run_ns)
{
    clockid_t all_threads = (clockid_t)(~pid << 3 | 2); /* as clock_getcpuclockid makes it */
    struct timespec t;

    if (pid > PID_MAX || clock_gettime(all_threads, &t) != 0) {
        return ERR_NOTFOUND;
    }
    *run_ns = (uint64_t)t.tv_sec * CLK_S + (uint64_t)t.tv_nsec;
    return ERR_OK;
}

const char *proc_host_user(struct proc_host *h, uint32_t uid)
{
    struct proc_user *u;
    struct passwd pw, *found = NULL;
    char text[2048];

    for (size_t i = 0; i < h->n_users; i++) {
        if (h->users[i].uid == uid) {
            return h->users[i].name;
        }
    }
    u = &h->users[h->n_users < PROC_USERS_MAX - 1 ? h->n_users++ : PROC_USERS_MAX - 1];
    u->uid = uid;
    snprintf(u->name, sizeof u->name, "%u", uid);
    if (u != &h->users[PROC_USERS_MAX - 1] &&
        getpwuid_r(uid, &pw, text, sizeof text, &found) == 0 && found) {
        snprintf(u->name, sizeof u->name, "%s", found->pw_name);
    }
    return u->name;
}
