/* The operating system behind one portable face: clocks, random, threads, files, signals.
 * Implemented by os_posix.c and os_win32.c. Paths are UTF-8. Errors are translated here:
 * ERR_NOTFOUND, ERR_EXISTS, ERR_ACCESS, ERR_READONLY, ERR_NOSPACE, ERR_BUSY, ERR_NOMEM,
 * ERR_INVALID, ERR_IO. */
#ifndef PROCFLEET_COMMON_OS_OS_H
#define PROCFLEET_COMMON_OS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/err.h"

/* -- clocks and random -- */
int64_t os_utc_ns(void);
int64_t os_mono_ns(void); /* arbitrary start, never goes back */
int64_t os_cpu_ns(void);  /* CPU time of this process, user and kernel */
int64_t os_thread_cpu_ns(void);
NODISCARD enum err os_random(void *p, size_t n); /* from the system's generator */
void os_sleep_ns(int64_t ns);

/* -- threads -- */
struct os_thread;
struct os_mutex;
struct os_cond;

NODISCARD enum err os_thread_start(struct os_thread **out, const char *name, void (*run)(void *),
                                   void *arg);
void os_thread_join(struct os_thread *t); /* waits, releases; NULL is allowed */
/* Releases a thread that is not joined; what is left is released when it ends. It must have begun
 * to run. */
void os_thread_leave(struct os_thread *t);
/* The calling thread, on Linux also those it starts, works with what the others of the program
 * leave of the processor, from now on and for good: going back would take a right that services do
 * not have. Linux never leaves it without a share, so that a lock it holds comes free soon; Windows
 * lets it wait for seconds while others keep all processors busy. Twice is once.
 * Errors: ERR_ACCESS (the system refuses; the thread works on as it can) */
NODISCARD enum err os_thread_background(void);
bool os_thread_is_background(void); /* the calling one, as the system says */

NODISCARD enum err os_mutex_create(struct os_mutex **out);
void os_mutex_destroy(struct os_mutex *m);
void os_mutex_lock(struct os_mutex *m);
void os_mutex_unlock(struct os_mutex *m);

NODISCARD enum err os_cond_create(struct os_cond **out, struct os_mutex *m);
void os_cond_destroy(struct os_cond *c);
void os_cond_wait(struct os_cond *c);
enum err os_cond_wait_until(struct os_cond *c,
                            int64_t mono_ns); /* ERR_TIMEOUT when the moment has passed */
void os_cond_wake(struct os_cond *c);         /* one waiter */
void os_cond_wake_all(struct os_cond *c);

/* -- host -- */
NODISCARD enum err os_host_name(char *text, size_t size);
NODISCARD enum err os_boot_id(uint8_t id[16]); /* new at each start of the system */
unsigned os_cpu_count(void);
uint64_t os_memory_bytes(void); /* of the machine; 0 = unknown */
uint32_t os_process_id(void);
uint32_t os_listed_id(void); /* of this process in the system's tables, where an outer namespace's
                                processes may stand */
int64_t os_resident_bytes(void); /* of this process; 0 when unknown */
size_t os_open_files_max(void);  /* of this process, raised as far as it goes; 0 = unknown */
int64_t os_resident_peak(void);  /* the most it ever was; 0 when unknown */
/* Gives the system back what the heap holds free. The C library keeps it for each thread, at the
 * most it ever was; a heap is locked while its turn lasts. Windows' heap may keep it
 * all the same. */
void os_heap_trim(void);
/* n bytes from p, just allocated, will all be used: large pages, where there are any, save the
 * system most of the work. */
void os_prefer_large_pages(void *p, size_t n);
/* For a program that shall stay small: what it frees goes back to the system soon, and large blocks
 * grow in place. Before it starts threads. */
void os_lean_heap(void);
/* For a server whose work comes in bursts: what a burst took in large blocks goes back at once, and
 * leaves no holes. Before it starts threads. */
void os_steady_heap(void);
bool os_is_terminal(int fd);  /* 0, 1 or 2 */
FILE *os_stdout_bytes(void);  /* standard output, for what is no text: nothing is translated */
bool os_output_is_pipe(void); /* standard output; writing fails only when its reader is gone */
unsigned os_terminal_columns(void); /* of standard output; 0 when unknown */
bool os_terminal_vt(void); /* standard output is a terminal that takes VT sequences; makes it take
                              them where that is a setting */

/* What comes on standard input next, blocking; 0: its end. Holds no lock of the C library's. */
size_t os_read_input(void *p, size_t n);
/* A local page in the desktop's browser, which is not waited for. Errors: ERR_UNSUPPORTED (there is
 * no desktop here), ERR_NOTFOUND (nothing there to open it with), ERR_IO */
NODISCARD enum err os_open_in_browser(const char *path);

/* argc and argv of main, in UTF-8 on every system; they stay valid until the program ends.
 * Standard output and error take UTF-8 from then on. */
NODISCARD enum err os_args(int *argc, char ***argv);

/* -- stop signal: SIGINT, SIGTERM, Ctrl-C, console close -- */
NODISCARD enum err os_stop_install(void (*on_stop)(void *),
                                   void *arg); /* runs on its own thread, once or twice */

/* -- files. Durable code writes through fio.h; this is for configuration, keys and directories --
 */
/* A NUL follows; mem_free. ERR_INVALID: it is a directory; ERR_FULL: it is larger; ERR_TIMEOUT: a
 * pipe without a writer. A name that no file can have is ERR_NOTFOUND. */
NODISCARD enum err os_read_file(uint8_t **p, size_t *n, const char *path, size_t max_bytes);
/* Why os_read_file failed, for a sentence. */
static inline const char *os_read_text(enum err e)
{
    return e == ERR_INVALID   ? "it is a directory"
           : e == ERR_TIMEOUT ? "it is a pipe, and nothing comes through it"
                              : err_text(e);
}
/* Written to a temporary neighbour, synced and renamed. `private_file`: only the owner may read it
 * (0600; on Windows also the system and administrators, see os_acl_win32.h); else whoever may enter
 * its directory, whatever the umask (0644). */
NODISCARD enum err os_write_file(const char *path, const void *p, size_t n, bool private_file);
/* fopen, for a path in UTF-8 on every system; NULL and errno as fopen has them. */
FILE *os_fopen(const char *path, const char *mode);
/* Whoever may enter its directory may read it, whatever the umask (0644; Windows: as the directory
 * says). Errors: those of the system */
NODISCARD enum err os_make_public(FILE *f);
/* Replaces what `to` was. */
NODISCARD enum err os_rename(const char *from, const char *to);
NODISCARD enum err os_mkdirs(const char *path, bool private_dir); /* existing is fine */
/* ERR_ACCESS when group or others may read it, or do anything else with it. */
NODISCARD enum err os_check_private(const char *path);
NODISCARD enum err os_remove(const char *path);     /* a file */
NODISCARD enum err os_remove_dir(const char *path); /* an empty directory */
bool os_exists(const char *path);
bool os_is_file(const char *path); /* there, and no directory, pipe or device */
/* Calls `each` with every entry's name, "." and ".." excluded, in no order; a result other than
 * ERR_OK ends it. */
NODISCARD enum err os_list_dir(const char *path, enum err (*each)(void *ctx, const char *name),
                               void *ctx);
NODISCARD enum err os_disk_free(const char *path, uint64_t *free_bytes, uint64_t *total_bytes);

/* An exclusive lock file held by this process until os_unlock or its death; ERR_BUSY when held
 * elsewhere. */
struct os_lock;
NODISCARD enum err os_lock(struct os_lock **out, const char *path);
void os_unlock(struct os_lock *l);

/* "dir/name", or name when it is absolute; mem_free. NULL: out of memory. */
char *os_path_join(const char *dir, const char *name);
const char *os_path_base(const char *path); /* borrowed from path */

#endif
