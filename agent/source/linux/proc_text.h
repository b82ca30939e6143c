/* The text of procfs files as plain structs: pure functions over bytes, no file is touched here.
 * The kernel writes these files, but a process chooses its own name and command line, so every
 * byte is treated as hostile. Errors: ERR_CORRUPT, `out` untouched. */
#ifndef PROCFLEET_AGENT_SOURCE_LINUX_PROC_TEXT_H
#define PROCFLEET_AGENT_SOURCE_LINUX_PROC_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define PROC_NAME_MAX    64  /* bytes; the kernel gives 15, 63 for workers */
#define PROC_PROGRAM_MAX 255 /* bytes of a file's name */

#define PROC_FLAG_EXITING 0x00000004U /* PF_EXITING */
#define PROC_FLAG_KTHREAD 0x00200000U /* PF_KTHREAD */

/* /proc/PID/stat and /proc/PID/task/TID/stat. */
struct proc_stat {
    uint32_t pid, parent, session;
    char name[PROC_NAME_MAX]; /* unescaped, not yet UTF-8, not terminated */
    size_t name_n;
    char state;
    uint32_t flags;
    uint64_t minor_faults, major_faults;
    uint64_t user_ticks, kernel_ticks;
    int64_t priority;
    uint32_t threads;
    uint64_t start_ticks;
    uint64_t virtual_bytes;
    int64_t resident_pages;
    uint64_t start_code, start_stack; /* 0 without the right to see them; new after exec */
};
NODISCARD enum err proc_text_stat(struct proc_stat *out, const char *p, size_t n);

/* /proc/PID/status, as far as used. Memory lines are absent for kernel threads. */
enum proc_status_have {
    STATUS_UID = 1 << 0,
    STATUS_PEAK = 1 << 1,
    STATUS_PRIVATE = 1 << 2, /* anonymous and swapped are both known */
    STATUS_CPUS = 1 << 3,
    STATUS_SWITCHES = 1 << 4,
};
struct proc_status {
    unsigned have; /* STATUS_* */
    uint32_t uid;  /* real */
    uint64_t peak_bytes;
    uint64_t private_bytes; /* RssAnon + VmSwap */
    uint64_t cpus_allowed;  /* the first 64 */
    uint64_t switches;      /* voluntary + nonvoluntary, of this thread */
};
NODISCARD enum err proc_text_status(struct proc_status *out, const char *p, size_t n);

/* /proc/PID/io, as far as used. */
struct proc_io {
    uint64_t read_chars, write_chars, read_calls, write_calls;
    uint64_t disk_read, disk_write;
};
NODISCARD enum err proc_text_io(struct proc_io *out, const char *p, size_t n);

/* /proc/PID/schedstat, of one thread: time on a CPU, time ready and waiting for one, and how often
 * it got one. All are 0 where the kernel does not keep them. */
struct proc_turns {
    uint64_t run_ns, ready_ns, turns;
};
NODISCARD enum err proc_text_schedstat(struct proc_turns *out, const char *p, size_t n);

/* /proc/PID/statm, as far as used. */
struct proc_pages {
    uint64_t size, resident;
};
NODISCARD enum err proc_text_statm(struct proc_pages *out, const char *p, size_t n);

/* A directory entry's name as pid: digits only. */
NODISCARD enum err proc_text_pid(uint32_t *out, const char *name);

/* Copies text from outside as valid UTF-8 into `out` (cap bytes, no NUL added) and gives its
 * length: wrong bytes become '?', a character that does not fit is left out whole. */
size_t proc_text_utf8(char *out, size_t cap, const char *p, size_t n);

/* The arguments in `p` (NUL after each) with single spaces between them, trailing NULs dropped, as
 * UTF-8 into `out` (cap bytes); *cut: more was there. Gives the length. Of several arguments those
 * with blanks stand in quotes; a single one may be a title the process has given itself and stays
 * as it is. */
size_t proc_text_args(char *out, size_t cap, const char *p, size_t n, bool *cut);

/* The file name of a path, as bytes within it: nothing if it is not absolute or ends with a slash.
 */
void proc_text_file_name(const char **name, size_t *name_n, const char *path, size_t n);

/* The same of the first argument in `p` (NUL after each). An argument alone may be a title the
 * process has given itself ("/opt/x/x --type=y"): its first word counts. */
void proc_text_first_argument(const char **name, size_t *name_n, const char *p, size_t n);

/* A kernel worker shows what it does at the moment behind its name ("kworker/0:1-events"): gives
 * the length of the stable part. */
size_t proc_text_worker(const char *name, size_t n);

#endif
