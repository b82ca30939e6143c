#include "agent/source/linux/proc_pids.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/source/linux/proc_text.h"
#include "common/base/mem.h"
#include "common/os/os.h"

/* Whether a process has this number; those of other threads do not count. */
static bool pids_has(uint32_t pid)
{
    return syscall(SYS_tgkill, pid, pid, 0) == 0 || errno != ESRCH;
}

/* The newest number that was handed out; 0: not known. */
static uint32_t pids_newest(int loadavg)
{
    char text[128];
    ssize_t n = pread(loadavg, text, sizeof text - 1, 0);
    const char *last;
    uint32_t pid;

    if (n <= 0) {
        return 0;
    }
    text[n] = '\0';
    text[strcspn(text, "\n")] = '\0';
    last = strrchr(text, ' ');
    return last && proc_text_pid(&pid, last + 1) == ERR_OK ? pid : 0;
}

/* -- whether loadavg can be used -- */

struct pids_trial {
    int loadavg;
    bool passed;
};

/* The number of a new thread must be the newest or near it, and no process's. */
static void pids_try_thread(void *arg)
{
    struct pids_trial *trial = arg;
    uint32_t tid = (uint32_t)syscall(SYS_gettid), newest = pids_newest(trial->loadavg);

    trial->passed = newest >= tid && newest - tid < 10000 && !pids_has(tid);
}

static bool pids_can_use(const struct proc_pids *l)
{
    struct pids_trial trial = {.loadavg = l->loadavg};
    struct os_thread *th;
    struct statfs fs;
    char text[1024];
    size_t n;

    if (fstatfs(l->loadavg, &fs) != 0 || (uint64_t)fs.f_type != PROC_SUPER_MAGIC ||
        os_listed_id() != os_process_id() ||
        proc_host_read(l->host, 1, "stat", text, sizeof text, &n) != ERR_OK ||
        os_thread_start(&th, "trial", pids_try_thread, &trial) != ERR_OK) {
        return false;
    }
    os_thread_join(th);
    return trial.passed && pids_has(os_process_id());
}

static void pids_forgo(struct proc_pids *l)
{
    if (l->loadavg >= 0) {
        close(l->loadavg);
        l->loadavg = -1;
    }
}

enum err proc_pids_open(struct proc_pids *l, struct proc_host *h, const char *proc_dir, size_t max)
{
    *l = (struct proc_pids){.host = h, .max = max, .loadavg = -1};
    l->all = mem_array(max, sizeof *l->all);
    l->old = mem_array(max, sizeof *l->old);
    if (!l->all || !l->old) {
        proc_pids_close(l);
        return ERR_NOMEM;
    }
    l->dir = opendir(proc_dir);
    if (!l->dir) {
        proc_pids_close(l);
        return ERR_IO;
    }
    l->loadavg = openat(dirfd(l->dir), "loadavg", O_RDONLY | O_CLOEXEC);
    if (l->loadavg >= 0 && !pids_can_use(l)) {
        pids_forgo(l);
    }
    return ERR_OK;
}

void proc_pids_close(struct proc_pids *l)
{
    if (!l->host) {
        return;
    }
    pids_forgo(l);
    if (l->dir) {
        closedir(l->dir);
    }
    mem_free(l->all);
    mem_free(l->old);
    *l = (struct proc_pids){.loadavg = -1};
}

/* -- looks -- */

static void pids_add(struct proc_pids *l, uint32_t pid)
{
    if (l->n < l->max) {
        l->all[l->n++] = pid;
    } else {
        l->capped = true;
        l->host->counts.capped++;
    }
}

/* What was in the list becomes l->old, the list is empty. */
static void pids_begin(struct proc_pids *l)
{
    uint32_t *old = l->all;

    l->all = l->old;
    l->n_old = l->n;
    l->old = old;
    l->n = 0;
    l->capped = false;
}

/* Tries every number after l->before; the others stay, also higher ones from before the numbers
 * began again. */
static void pids_try(struct proc_pids *l, uint32_t newest)
{
    size_t at = 0;

    pids_begin(l);
    l->looks++;
    for (; at < l->n_old && l->old[at] <= l->before; at++) {
        if (l->old[at] > 0) {
            pids_add(l, l->old[at]);
        }
    }
    l->new_from = l->n;
    for (uint32_t pid = l->before + 1; pid <= newest; pid++) {
        if (pids_has(pid)) {
            pids_add(l, pid);
            l->new_from += pid <= l->newest;
        }
    }
    l->new_to = l->n;
    for (; at < l->n_old; at++) {
        if (l->old[at] > newest) {
            pids_add(l, l->old[at]);
        }
    }
}

static enum err pids_read_dir(struct proc_pids *l)
{
    const struct dirent *d;
    uint32_t pid;

    pids_begin(l);
    l->looks = 0;
    l->whole++;
    rewinddir(l->dir);
    errno = 0;
    while ((d = readdir(l->dir))) {
        if (proc_text_pid(&pid, d->d_name) == ERR_OK) {
            pids_add(l, pid);
        }
        errno = 0;
    }
    l->new_from = 0;
    l->new_to = l->n;
    return errno ? ERR_IO : ERR_OK;
}

/* Whether every process the directory has shown anew was handed out since l->before. */
static bool pids_foreseen(const struct proc_pids *l)
{
    uint32_t newest = pids_newest(l->loadavg);
    size_t at = 0;

    for (size_t i = 0; i < l->n; i++) {
        uint32_t pid = l->all[i];

        while (at < l->n_old && l->old[at] < pid) {
            at++; /* it was removed, or has ended */
        }
        if (at < l->n_old && l->old[at] == pid) {
            continue;
        }
        if (pid <= l->before || pid > newest) {
            return false;
        }
    }
    return true;
}

enum err proc_pids_look(struct proc_pids *l)
{
    uint32_t newest = l->loadavg >= 0 ? pids_newest(l->loadavg) : 0;
    bool in_order = l->before > 0 && newest >= l->newest; /* else they begin again from the front */
    enum err e = ERR_OK;

    if (in_order && !l->capped && l->looks + 1 < PROC_PIDS_WHOLE && newest - l->before <= l->n) {
        pids_try(l, newest);
    } else {
        e = pids_read_dir(l);
        if (!e && in_order && !l->capped && !pids_foreseen(l)) {
            pids_forgo(l);
        }
    }
    l->before = l->newest;
    l->newest = newest;
    return e;
}

void proc_pids_remove(struct proc_pids *l, size_t i)
{
    l->all[i] = 0;
}
