#include "common/os/os_posix.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/os_awake.h"

enum err os_posix_err(int errno_value)
{
    switch (errno_value) {
    case ENOENT:
    case ENOTDIR:
        return ERR_NOTFOUND;
    case EEXIST:
        return ERR_EXISTS;
    case EACCES:
    case EPERM:
        return ERR_ACCESS;
    case EROFS:
        return ERR_READONLY;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return ERR_NOSPACE;
    case ENOMEM:
        return ERR_NOMEM;
    case EWOULDBLOCK:
        return ERR_BUSY;
    case ENAMETOOLONG:
    case EINVAL:
        return ERR_INVALID;
    default:
        return ERR_IO;
    }
}

static enum err err_from_errno(void)
{
    return os_posix_err(errno);
}

/* -- clocks and random -- */

static int64_t clock_ns(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * CLK_S + t.tv_nsec;
}

int64_t os_utc_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}

int64_t os_mono_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

int64_t os_awake_ns(void)
{
    return os_mono_ns(); /* CLOCK_MONOTONIC does not count sleep */
}

int64_t os_cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t os_thread_cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

enum err os_random(void *p, size_t n)
{
    uint8_t *to = p;

    while (n > 0) {
        ssize_t got = getrandom(to, n, 0);

        if (got < 0 && errno != EINTR) {
            return ERR_IO;
        }
        if (got > 0) {
            to += got;
            n -= (size_t)got;
        }
    }
    return ERR_OK;
}

void os_sleep_ns(int64_t ns)
{
    struct timespec t = {ns / CLK_S, ns % CLK_S};

    if (ns > 0) {
        while (nanosleep(&t, &t) != 0 && errno == EINTR) {
        }
    }
}

/* -- threads -- */

struct os_thread {
    pthread_t id;
    char name[16];
    void (*run)(void *);
    void *arg;
};

struct os_mutex {
    pthread_mutex_t m;
};

struct os_cond {
    pthread_cond_t c;
    struct os_mutex *m;
};

static void *thread_main(void *p)
{
    struct os_thread *t = p;

    pthread_setname_np(pthread_self(), t->name);
    t->run(t->arg);
    return NULL;
}

enum err os_thread_start(struct os_thread **out, const char *name, void (*run)(void *), void *arg)
{
    struct os_thread *t = mem_zalloc(sizeof *t);

    if (!t) {
        return ERR_NOMEM;
    }
    snprintf(t->name, sizeof t->name, "%s", name);
    t->run = run;
    t->arg = arg;
    if (pthread_create(&t->id, NULL, thread_main, t) != 0) {
        mem_free(t);
        return ERR_NOMEM;
    }
    *out = t;
    return ERR_OK;
}

void os_thread_join(struct os_thread *t)
{
    if (t) {
        pthread_join(t->id, NULL);
        mem_free(t);
    }
}

void os_thread_leave(struct os_thread *t)
{
    pthread_detach(t->id);
    mem_free(t);
}

/* Against a thread that has none, ten of nice leave a tenth of the time. */
#define BACKGROUND_NICE 10
#define NICE_MOST       19

/* A thread has its own nice value and class on Linux, where 0 is the calling one; the main thread's
 * is the program's. */
static int background_nice(void)
{
    int nice = getpriority(PRIO_PROCESS, (id_t)getpid()) + BACKGROUND_NICE;

    return nice < NICE_MOST ? nice : NICE_MOST;
}

/* Threads of the batch class do not interrupt others when they wake. The idle class would give way
 * at once, but its share is next to none: what waits for a lock such a thread holds could wait for
 * seconds. A class that the program was started with stays. */
enum err os_thread_background(void)
{
    const struct sched_param none = {0};
    int nice = background_nice();

    if (getpriority(PRIO_PROCESS, 0) < nice && setpriority(PRIO_PROCESS, 0, nice) != 0) {
        return ERR_ACCESS;
    }
    if (sched_getscheduler(0) == SCHED_OTHER && sched_setscheduler(0, SCHED_BATCH, &none) != 0) {
        return ERR_ACCESS;
    }
    return ERR_OK;
}

bool os_thread_is_background(void)
{
    return getpriority(PRIO_PROCESS, 0) >= background_nice() &&
           sched_getscheduler(0) != SCHED_OTHER;
}

enum err os_mutex_create(struct os_mutex **out)
{
    struct os_mutex *m = mem_zalloc(sizeof *m);

    if (!m) {
        return ERR_NOMEM;
    }
    if (pthread_mutex_init(&m->m, NULL) != 0) {
        mem_free(m);
        return ERR_NOMEM;
    }
    *out = m;
    return ERR_OK;
}

void os_mutex_destroy(struct os_mutex *m)
{
    if (m) {
        pthread_mutex_destroy(&m->m);
        mem_free(m);
    }
}

void os_mutex_lock(struct os_mutex *m)
{
    pthread_mutex_lock(&m->m);
}

void os_mutex_unlock(struct os_mutex *m)
{
    pthread_mutex_unlock(&m->m);
}

enum err os_cond_create(struct os_cond **out, struct os_mutex *m)
{
    struct os_cond *c = mem_zalloc(sizeof *c);
    pthread_condattr_t attr;
    int failed;

    if (!c) {
        return ERR_NOMEM;
    }
    c->m = m;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    failed = pthread_cond_init(&c->c, &attr);
    pthread_condattr_destroy(&attr);
    if (failed) {
        mem_free(c);
        return ERR_NOMEM;
    }
    *out = c;
    return ERR_OK;
}

void os_cond_destroy(struct os_cond *c)
{
    if (c) {
        pthread_cond_destroy(&c->c);
        mem_free(c);
    }
}

void os_cond_wait(struct os_cond *c)
{
    pthread_cond_wait(&c->c, &c->m->m);
}

enum err os_cond_wait_until(struct os_cond *c, int64_t mono_ns)
{
    struct timespec t = {mono_ns / CLK_S, mono_ns % CLK_S};

    return pthread_cond_timedwait(&c->c, &c->m->m, &t) == ETIMEDOUT ? ERR_TIMEOUT : ERR_OK;
}

void os_cond_wake(struct os_cond *c)
{
    pthread_cond_signal(&c->c);
}

void os_cond_wake_all(struct os_cond *c)
{
    pthread_cond_broadcast(&c->c);
}

/* -- host -- */

enum err os_host_name(char *text, size_t size)
{
    if (gethostname(text, size) != 0) {
        return err_from_errno();
    }
    text[size - 1] = '\0';
    return ERR_OK;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

enum err os_boot_id(uint8_t id[16])
{
    uint8_t *text;
    size_t n, digits = 0;
    enum err e = os_read_file(&text, &n, "/proc/sys/kernel/random/boot_id", 64);

    if (e) {
        return e;
    }
    for (size_t i = 0; i < n && digits < 32; i++) {
        int d = hex_digit((char)text[i]);

        if (d >= 0) {
            id[digits / 2] = (uint8_t)(digits % 2 ? id[digits / 2] << 4 | d : d);
            digits++;
        }
    }
    mem_free(text);
    return digits == 32 ? ERR_OK : ERR_CORRUPT;
}

uint32_t os_process_id(void)
{
    return (uint32_t)getpid();
}

uint32_t os_listed_id(void)
{
    char text[24];
    ssize_t n = readlink("/proc/self", text, sizeof text - 1);

    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? (uint32_t)strtoul(text, NULL, 10) : os_process_id();
}

unsigned os_cpu_count(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n > 0 ? (unsigned)n : 1;
}

uint64_t os_memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

/* Asked every second: without a stream and its buffer. */
int64_t os_resident_bytes(void)
{
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    char text[128], *end = text;
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);

    if (fd >= 0) {
        close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    (void)strtoll(text, &end, 10); /* all pages; then the resident ones */
    return strtoll(end, NULL, 10) * sysconf(_SC_PAGESIZE);
}

/* One heap instead of one for each thread. Blocks of 64 KiB or more are mappings of their own:
 * growing moves pages instead of bytes and leaves no hole; the library's own limit would rise to
 * the largest block ever freed. */
void os_lean_heap(void)
{
#ifdef M_ARENA_MAX /* glibc's */
    (void)mallopt(M_ARENA_MAX, 1);
    (void)mallopt(M_MMAP_THRESHOLD, 64 << 10);
    (void)mallopt(M_TRIM_THRESHOLD, 64 << 10);
    (void)mallopt(M_TOP_PAD, 16 << 10);
#endif
}

/* Large blocks stay mappings of their own: with the library's limit, which rises to the largest
 * block ever freed, they would lie among small ones that stay. */
void os_steady_heap(void)
{
#ifdef M_ARENA_MAX
    (void)mallopt(M_MMAP_THRESHOLD, 256 << 10);
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 20);
#endif
}

void os_heap_trim(void)
{
    (void)malloc_trim(0);
}

size_t os_open_files_max(void)
{
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) != 0) {
        return 0;
    }
    if (lim.rlim_cur < lim.rlim_max) {
        struct rlimit wanted = {lim.rlim_max, lim.rlim_max};

        if (setrlimit(RLIMIT_NOFILE, &wanted) == 0) {
            lim = wanted;
        }
    }
    return lim.rlim_cur > SIZE_MAX / 2 ? SIZE_MAX / 2 : (size_t)lim.rlim_cur;
}

int64_t os_resident_peak(void)
{
    struct rusage use;

    return getrusage(RUSAGE_SELF, &use) == 0 ? (int64_t)use.ru_maxrss * 1024 : 0;
}

void os_prefer_large_pages(void *p, size_t n)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t skip = (page - (uintptr_t)p % page) % page;

    if (n > skip + page) {
        /* A hint: systems without large pages refuse it. */
        (void)madvise((uint8_t *)p + skip, (n - skip) / page * page, MADV_HUGEPAGE);
    }
}

FILE *os_stdout_bytes(void)
{
    return stdout;
}

bool os_is_terminal(int fd)
{
    return isatty(fd) == 1;
}

size_t os_read_input(void *p, size_t n)
{
    ssize_t got;

    do {
        got = read(STDIN_FILENO, p, n);
    } while (got < 0 && errno == EINTR);
    return got > 0 ? (size_t)got : 0;
}

/* In a process whose parent ends at once, so that it cannot become a zombie of ours. */
static void browser_start(const char *path)
{
    int null = open("/dev/null", O_RDWR);

    if (fork() != 0) {
        _exit(0);
    }
    (void)setsid();
    if (null >= 0) {
        (void)dup2(null, STDIN_FILENO);
        (void)dup2(null, STDOUT_FILENO);
        (void)dup2(null, STDERR_FILENO);
    }
    execlp("xdg-open", "xdg-open", path, (char *)NULL);
    _exit(1);
}

/* Whether a program of this name is in PATH. */
static bool program_exists(const char *name)
{
    const char *at = getenv("PATH");
    char path[4096];

    while (at && *at) {
        size_t n = strcspn(at, ":");

        (void)snprintf(path, sizeof path, "%.*s/%s", (int)n, at, name);
        if (access(path, X_OK) == 0) {
            return true;
        }
        at += n + (at[n] == ':');
    }
    return false;
}

enum err os_open_in_browser(const char *path)
{
    pid_t child;
    int status;

    if (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY")) {
        return ERR_UNSUPPORTED;
    }
    if (!program_exists("xdg-open")) {
        return ERR_NOTFOUND;
    }
    child = fork();
    if (child == 0) {
        browser_start(path);
    }
    return child > 0 && waitpid(child, &status, 0) == child ? ERR_OK : ERR_IO;
}

bool os_output_is_pipe(void)
{
    struct stat st;

    return fstat(STDOUT_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

bool os_terminal_vt(void)
{
    const char *name = getenv("TERM");

    return os_is_terminal(1) && !(name && strcmp(name, "dumb") == 0);
}

unsigned os_terminal_columns(void)
{
    struct winsize w;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 ? w.ws_col : 0;
}

enum err os_args(int *argc, char ***argv)
{
    (void)argc; /* taken for UTF-8 as they are */
    (void)argv;
    return ERR_OK;
}

/* -- stop signal: handlers only write to a pipe; a thread reads it and calls -- */

static struct {
    int pipe[2];
    void (*on_stop)(void *);
    void *arg;
} stop = {.pipe = {-1, -1}};

static void stop_handler(int sig)
{
    int saved = errno;
    ssize_t ignored = write(stop.pipe[1], "x", 1);

    (void)sig;
    (void)ignored;
    errno = saved;
}

static void *stop_main(void *unused)
{
    char c;

    (void)unused;
    for (;;) {
        ssize_t n = read(stop.pipe[0], &c, 1);

        if (n == 1) {
            stop.on_stop(stop.arg);
        } else if (n == 0 || errno != EINTR) {
            return NULL;
        }
    }
}

enum err os_stop_install(void (*on_stop)(void *), void *arg)
{
    struct sigaction sa = {.sa_handler = stop_handler, .sa_flags = SA_RESTART};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    pthread_t id;

    stop.on_stop = on_stop;
    stop.arg = arg;
    if (stop.pipe[0] >= 0) {
        return ERR_OK;
    }
    if (pipe(stop.pipe) != 0) {
        return err_from_errno();
    }
    fcntl(stop.pipe[0], F_SETFD, FD_CLOEXEC);
    fcntl(stop.pipe[1], F_SETFD, FD_CLOEXEC);
    if (pthread_create(&id, NULL, stop_main, NULL) != 0) {
        return ERR_NOMEM;
    }
    pthread_detach(id);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL); /* a file at its limit: writing fails, as on a full disk */
    return ERR_OK;
}

/* -- files -- */

#define PIPE_UNUSED_MS 2000  /* for a writer, */
#define PIPE_SLOW_MS   60000 /* and for what that one has to say: people type passwords */

/* Waits at a pipe, which does not block: ERR_OK: there is more; ERR_CLOSED: its writer has left. */
static enum err pipe_wait(int fd, int wait_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int ready = poll(&p, 1, wait_ms);

    return ready == 0                           ? ERR_TIMEOUT
           : ready < 0 && errno != EINTR        ? err_from_errno()
           : ready > 0 && !(p.revents & POLLIN) ? ERR_CLOSED
                                                : ERR_OK;
}

static enum err read_all(int fd, bool is_pipe, uint8_t *p, size_t cap, size_t *n)
{
    enum err e = ERR_OK;

    *n = 0;
    while (*n < cap && !e) {
        ssize_t got = read(fd, p + *n, cap - *n);

        if (got > 0) {
            *n += (size_t)got;
        } else if (got < 0 && errno == EAGAIN) {
            e = pipe_wait(fd, PIPE_SLOW_MS);
        } else if (got == 0 && is_pipe && *n == 0) {
            e = pipe_wait(fd, PIPE_UNUSED_MS);
        } else if (got == 0) {
            e = ERR_CLOSED;
        } else if (errno != EINTR) {
            e = err_from_errno();
        }
    }
    return e == ERR_CLOSED ? ERR_OK : e ? e : ERR_FULL;
}

enum err os_read_file(uint8_t **p, size_t *n, const char *path, size_t max_bytes)
{
    size_t got = 0, room;
    uint8_t *data;
    struct stat st;
    enum err e;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* or a pipe waits for a writer */

    if (fd < 0) {
        e = err_from_errno();
        return e == ERR_INVALID ? ERR_NOTFOUND : e; /* the name is too long */
    }
    e = fstat(fd, &st) != 0 ? ERR_IO : S_ISDIR(st.st_mode) ? ERR_INVALID : ERR_OK;
    if (!e && !S_ISFIFO(st.st_mode) && fcntl(fd, F_SETFL, O_RDONLY) != 0) {
        e = ERR_IO;
    }
    if (e) {
        close(fd);
        return e;
    }
    room = st.st_size > 0 && (uint64_t)st.st_size < max_bytes ? (size_t)st.st_size : max_bytes;
    data = mem_alloc(room + 1);
    if (!data) {
        close(fd);
        return ERR_NOMEM;
    }
    /* One byte more than may be there, to see that nothing follows. */
    e = read_all(fd, S_ISFIFO(st.st_mode), data, room + 1, &got);
    close(fd);
    if (e) {
        mem_free(data);
        return e;
    }
    data[got] = '\0';
    *p = data;
    *n = got;
    return ERR_OK;
}

static enum err write_all(int fd, const uint8_t *p, size_t n)
{
    while (n > 0) {
        ssize_t put = write(fd, p, n);

        if (put < 0 && errno != EINTR) {
            return err_from_errno();
        }
        if (put > 0) {
            p += put;
            n -= (size_t)put;
        }
    }
    return ERR_OK;
}

/* Makes the new name durable. */
static void sync_parent(const char *path)
{
    char dir[4096];
    const char *slash = strrchr(path, '/');
    int fd;

    if (!slash) {
        snprintf(dir, sizeof dir, ".");
    } else {
        snprintf(dir, sizeof dir, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    }
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

enum err os_write_file(const char *path, const void *p, size_t n, bool private_file)
{
    char tmp[4096];
    enum err e;
    int fd;

    if (snprintf(tmp, sizeof tmp, "%s.%ld.tmp", path, (long)getpid()) >= (int)sizeof tmp) {
        return ERR_INVALID;
    }
    fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
              private_file ? 0600 : 0644);
    if (fd < 0) {
        return err_from_errno();
    }
    e = fchmod(fd, private_file ? 0600 : 0644) != 0 ? err_from_errno() : write_all(fd, p, n);
    if (!e && fsync(fd) != 0) {
        e = err_from_errno();
    }
    close(fd);
    if (!e && rename(tmp, path) != 0) {
        e = err_from_errno();
    }
    if (e) {
        unlink(tmp);
        return e;
    }
    sync_parent(path);
    return ERR_OK;
}

FILE *os_fopen(const char *path, const char *mode)
{
    return fopen(path, mode);
}

enum err os_make_public(FILE *f)
{
    return fchmod(fileno(f), 0644) == 0 ? ERR_OK : err_from_errno();
}

enum err os_rename(const char *from, const char *to)
{
    return rename(from, to) == 0 ? ERR_OK : os_posix_err(errno);
}

enum err os_mkdirs(const char *path, bool private_dir)
{
    char part[4096];
    size_t n = strlen(path);
    struct stat st;

    if (n == 0 || n >= sizeof part) {
        return ERR_INVALID;
    }
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        snprintf(part, sizeof part, "%.*s", (int)i, path);
        if (mkdir(part, private_dir && i == n ? 0700 : 0755) != 0 && errno != EEXIST) {
            return err_from_errno();
        }
    }
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? ERR_OK : ERR_EXISTS;
}

enum err os_check_private(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0) {
        return err_from_errno();
    }
    return st.st_mode & (S_IRWXG | S_IRWXO) ? ERR_ACCESS : ERR_OK;
}

enum err os_remove(const char *path)
{
    return unlink(path) == 0 ? ERR_OK : err_from_errno();
}

enum err os_remove_dir(const char *path)
{
    return rmdir(path) == 0 ? ERR_OK : err_from_errno();
}

bool os_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool os_is_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

enum err os_list_dir(const char *path, enum err (*each)(void *ctx, const char *name), void *ctx)
{
    DIR *d = opendir(path);
    struct dirent *entry;
    enum err e = ERR_OK;

    if (!d) {
        return err_from_errno();
    }
    while (!e && (entry = readdir(d)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            e = each(ctx, entry->d_name);
        }
    }
    closedir(d);
    return e;
}

enum err os_disk_free(const char *path, uint64_t *free_bytes, uint64_t *total_bytes)
{
    struct statvfs v;

    if (statvfs(path, &v) != 0) {
        return err_from_errno();
    }
    *free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
    *total_bytes = (uint64_t)v.f_blocks * v.f_frsize;
    return ERR_OK;
}

struct os_lock {
    int fd;
};

enum err os_lock(struct os_lock **out, const char *path)
{
    struct os_lock *l = mem_zalloc(sizeof *l);
    enum err e;

    if (!l) {
        return ERR_NOMEM;
    }
    l->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (l->fd < 0) {
        e = err_from_errno();
        mem_free(l);
        return e;
    }
    if (flock(l->fd, LOCK_EX | LOCK_NB) != 0) {
        e = err_from_errno();
        os_unlock(l);
        return e;
    }
    *out = l;
    return ERR_OK;
}

void os_unlock(struct os_lock *l)
{
    if (l) {
        close(l->fd);
        mem_free(l);
    }
}

char *os_path_join(const char *dir, const char *name)
{
    size_t n = strlen(dir) + strlen(name) + 2;
    char *path;

    if (name[0] == '/' || dir[0] == '\0') {
        return mem_strdup(name);
    }
    path = mem_alloc(n);
    if (path) {
        snprintf(path, n, "%s%s%s", dir, dir[strlen(dir) - 1] == '/' ? "" : "/", name);
    }
    return path;
}

const char *os_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}
