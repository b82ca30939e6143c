#include "agent/source/linux/proc_inst.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/os/os.h"

enum err proc_inst_init(struct proc_table *t, struct proc_host *host, size_t max)
{
    memset(t, 0, sizeof *t);
    t->host = host;
    t->max = max;
    t->added = (uint32_t)os_mono_ns(); /* a receiver may know another table's versions */
    t->n_buckets = 64;
    while (t->n_buckets < 2 * max) {
        t->n_buckets *= 2;
    }
    t->all = mem_array(max, sizeof *t->all);
    t->buckets = mem_array(t->n_buckets, sizeof *t->buckets);
    if (!t->all || !t->buckets) {
        proc_inst_fini(t);
        return ERR_NOMEM;
    }
    return ERR_OK;
}

void proc_inst_fini(struct proc_table *t)
{
    for (size_t i = 0; t->all && i < t->high; i++) {
        if (t->all[i].phase != PROC_FREE) {
            proc_inst_remove(t, &t->all[i]);
        }
    }
    mem_free(t->all);
    mem_free(t->buckets);
    memset(t, 0, sizeof *t);
}

static struct proc_inst **bucket_of(const struct proc_table *t, uint32_t pid)
{
    return &t->buckets[(pid * 2654435761U >> 7) & (t->n_buckets - 1)];
}

struct proc_inst *proc_inst_find(const struct proc_table *t, uint32_t pid)
{
    struct proc_inst *p = *bucket_of(t, pid);

    while (p && p->id.pid != pid) {
        p = p->next;
    }
    return p;
}

/* Slots are used from the front, so that memory beyond the most processes ever seen at once is
 * never touched. */
static struct proc_inst *take_slot(struct proc_table *t)
{
    struct proc_inst *p = t->free;

    if (p) {
        t->free = p->next;
    } else if (t->high < t->max) {
        p = &t->all[t->high++];
    }
    t->n += p != NULL;
    return p;
}

enum err proc_inst_add(struct proc_inst **out, struct proc_table *t, struct proc_id id)
{
    struct proc_inst **bucket = bucket_of(t, id.pid);
    struct proc_inst *p;

    assert(!proc_inst_find(t, id.pid));
    p = take_slot(t);
    if (!p) {
        return ERR_FULL;
    }
    memset(p, 0, sizeof *p);
    p->id = id;
    p->phase = PROC_ALIVE;
    p->start_known = true;
    p->stat_fd = p->status_fd = p->io_fd = p->fd_fd = p->task_fd = p->sched_fd = -1;
    p->quiet.statm_fd = -1;
    p->threads_changed = true;
    p->info_version = (uint64_t)++t->added << 32 | 1;
    p->next = *bucket;
    *bucket = p;
    *out = p;
    return ERR_OK;
}

static void release_threads(struct proc_table *t, struct proc_inst *p)
{
    for (size_t i = 0; i < p->n_threads; i++) {
        proc_host_release(t->host, &p->threads[i].stat_fd);
        proc_host_release(t->host, &p->threads[i].sched_fd);
    }
    proc_host_release(t->host, &p->task_fd);
}

void proc_inst_drop_threads(struct proc_table *t, struct proc_inst *p)
{
    release_threads(t, p);
    mem_free(p->threads);
    p->threads = NULL;
    p->n_threads = p->cap_threads = 0;
}

void proc_inst_release(struct proc_table *t, struct proc_inst *p)
{
    release_threads(t, p);
    proc_host_release(t->host, &p->stat_fd);
    proc_host_release(t->host, &p->status_fd);
    proc_host_release(t->host, &p->io_fd);
    proc_host_release(t->host, &p->fd_fd);
    proc_host_release(t->host, &p->sched_fd);
}

void proc_inst_remove(struct proc_table *t, struct proc_inst *p)
{
    struct proc_inst **at = bucket_of(t, p->id.pid);

    assert(p->phase != PROC_FREE && t->n > 0);
    while (*at != p) {
        at = &(*at)->next;
    }
    *at = p->next;
    proc_inst_drop_threads(t, p);
    proc_inst_release(t, p);
    proc_host_release(t->host, &p->quiet.statm_fd);
    mem_free(p->program);
    mem_free(p->image);
    mem_free(p->command_line);
    p->program = p->image = p->command_line = NULL;
    p->phase = PROC_FREE;
    p->next = t->free;
    t->free = p;
    t->n--;
}

void proc_inst_info(const struct proc_host *h, const struct proc_inst *p, struct proc_info *out)
{
    *out = (struct proc_info){.id = p->id, .have = p->have | INFO_CREATE_TIME};
    out->origin = p->by_event ? ORIGIN_START : ORIGIN_SNAPSHOT;
    out->cpu_origin = CPU_ORIGIN_TIMES;
    out->parent_pid = p->parent_pid;
    out->parent_start = p->parent_start;
    out->session_id = p->session_id;
    out->create_ns = proc_host_create_ns(h, p->id.start);
    out->name =
        p->program ? (struct str){p->program, p->program_n} : (struct str){p->name, p->name_n};
    out->image = (struct str){p->image, p->image_n};
    out->command_line = (struct str){p->command_line, p->command_line_n};
    out->user = str_make(p->user);
}

void proc_inst_row(const struct proc_host *h, const struct proc_inst *p, struct snap_row *row)
{
    if (row->info_version != p->info_version) {
        proc_inst_info(h, p, &row->info);
        row->info_version = p->info_version;
    }
}

/* -- attributes -- */

void proc_inst_name(struct proc_inst *p, const char *name, size_t n)
{
    p->name_n = proc_text_utf8(p->name, sizeof p->name, name, n);
    p->info_version++;
}

void proc_inst_parent(const struct proc_table *t, struct proc_inst *p, uint32_t parent_pid)
{
    const struct proc_inst *parent = proc_inst_find(t, parent_pid);

    p->parent_pid = parent_pid;
    p->parent_start = parent && parent->id.start <= p->id.start ? parent->id.start : 0;
    p->have |= INFO_PARENT;
    p->info_version++;
}

static void forget_text(char **text, size_t *n)
{
    mem_free(*text);
    *text = NULL;
    *n = 0;
}

/* ERR_NOMEM: what was known stays. */
static enum err keep_text(char **text, size_t *n, const char *from, size_t from_n)
{
    char *kept = mem_strndup(from, from_n);

    if (!kept) {
        return ERR_NOMEM;
    }
    mem_free(*text);
    *text = kept;
    *n = from_n;
    return ERR_OK;
}

/* A worker's comm in stat changes with its work, so the comparison is on the stable part. */
static bool name_changed(const struct proc_inst *p, const char *name, size_t n)
{
    size_t kept = n < sizeof p->comm ? n : sizeof p->comm;

    return p->comm_n != kept || memcmp(p->comm, name, kept) != 0;
}

/* Whether a program may have been started since: its memory lies elsewhere, or cannot be seen. */
static bool memory_changed(const struct proc_inst *p, const struct proc_stat *st)
{
    return st->start_code <= 1 || p->start_code != st->start_code ||
           p->start_stack != st->start_stack;
}

void proc_inst_stat(const struct proc_table *t, struct proc_inst *p, const struct proc_stat *st)
{
    size_t name_n = st->name_n;

    p->kernel_thread = (st->flags & PROC_FLAG_KTHREAD) != 0;
    if (p->kernel_thread) {
        name_n = proc_text_worker(st->name, name_n);
    }
    if (!(p->have & INFO_PARENT)) {
        proc_inst_parent(t, p, st->parent);
    }
    p->info_version += p->session_id != st->session || !(p->have & INFO_SESSION);
    p->session_id = st->session;
    p->have |= INFO_SESSION;
    if (!name_changed(p, st->name, name_n) && p->start_code == st->start_code &&
        p->start_stack == st->start_stack) {
        return;
    }
    if (st->start_code == 0 && !p->kernel_thread && p->name_n > 0) {
        return; /* it is ending, its threads perhaps not yet: no program can be seen any more */
    }
    p->comm_n = name_n < sizeof p->comm ? name_n : sizeof p->comm;
    memcpy(p->comm, st->name, p->comm_n);
    proc_inst_name(p, st->name, name_n);
    if (memory_changed(p, st)) {
        forget_text(&p->program, &p->program_n); /* else only a thread was renamed */
    }
    p->start_code = st->start_code;
    p->start_stack = st->start_stack;
    p->stale = true;
}

static void count_denied(struct proc_table *t, enum err e)
{
    if (e == ERR_ACCESS) {
        t->host->counts.denied++;
    }
}

/* The name of the file that runs. An empty one says nothing. */
static enum err keep_program(struct proc_inst *p, const char *name, size_t n)
{
    char text[PROC_PROGRAM_MAX];

    n = proc_text_utf8(text, sizeof text, name, n);
    return n > 0 ? keep_text(&p->program, &p->program_n, text, n) : ERR_OK;
}

/* *seen: the link could be read. */
static enum err read_image(struct proc_table *t, struct proc_inst *p, bool *seen)
{
    static const char deleted[] = " (deleted)";
    char path[PROC_PATH_MAX], target[PATH_MAX], text[MODEL_TEXT_MAX];
    const char *name;
    size_t name_n, n;
    ssize_t got;
    enum err e;

    proc_host_path(path, p->id.pid, "exe");
    got = readlinkat(t->host->root, path, target, sizeof target);
    if (got < 0 && errno == EACCES) {
        count_denied(t, ERR_ACCESS);
        forget_text(&p->image, &p->image_n); /* that of another program, which could be read */
    }
    *seen = got > 0;
    if (got <= 0) {
        return ERR_OK;
    }
    n = (size_t)got;
    if (n > sizeof deleted - 1 &&
        memcmp(target + n - (sizeof deleted - 1), deleted, sizeof deleted - 1) == 0) {
        n -= sizeof deleted - 1;
    }
    proc_text_file_name(&name, &name_n, target, n);
    e = keep_program(p, name, name_n);
    if (e) {
        return e;
    }
    n = proc_text_utf8(text, sizeof text, target, n);
    return keep_text(&p->image, &p->image_n, text, n);
}

static enum err read_command_line(struct proc_table *t, struct proc_inst *p, bool names_program)
{
    char raw[MODEL_COMMAND_LINE_MAX + 1], text[MODEL_COMMAND_LINE_MAX];
    const char *name;
    size_t raw_n, name_n, n;
    bool cut;
    enum err e = proc_host_read(t->host, p->id.pid, "cmdline", raw, sizeof raw, &raw_n);

    if (e) {
        count_denied(t, e);
        return ERR_OK;
    }
    if (raw_n == 0) {
        return ERR_OK; /* its memory is gone already */
    }
    if (names_program) {
        proc_text_first_argument(&name, &name_n, raw, raw_n);
        e = keep_program(p, name, name_n);
        if (e) {
            return e;
        }
    }
    n = proc_text_args(text, sizeof text, raw, raw_n, &cut);
    e = keep_text(&p->command_line, &p->command_line_n, text, n);
    if (e) {
        return e;
    }
    p->have &= ~(uint32_t)INFO_COMMAND_LINE_CUT;
    p->have |= INFO_COMMAND_LINE_KNOWN | (cut ? (uint32_t)INFO_COMMAND_LINE_CUT : 0);
    return ERR_OK;
}

void proc_inst_forget_text(struct proc_inst *p)
{
    forget_text(&p->program, &p->program_n);
    forget_text(&p->image, &p->image_n);
    forget_text(&p->command_line, &p->command_line_n);
    p->have &= ~(uint32_t)(INFO_COMMAND_LINE_CUT | INFO_COMMAND_LINE_KNOWN);
    p->info_version++;
}

static void copy_text(char **text, size_t *n, const char *from, size_t from_n)
{
    if (from) {
        err_ignore(keep_text(text, n, from, from_n));
    }
}

void proc_inst_copy(struct proc_inst *p, const struct proc_inst *from)
{
    proc_inst_forget_text(p);
    copy_text(&p->program, &p->program_n, from->program, from->program_n);
    copy_text(&p->image, &p->image_n, from->image, from->image_n);
    copy_text(&p->command_line, &p->command_line_n, from->command_line, from->command_line_n);
    if (p->command_line) {
        p->have |= from->have & (INFO_COMMAND_LINE_CUT | INFO_COMMAND_LINE_KNOWN);
    }
    memcpy(p->name, from->name, from->name_n);
    p->name_n = from->name_n;
    memcpy(p->comm, from->comm, from->comm_n);
    p->comm_n = from->comm_n;
    p->stale = from->stale || !p->program || !p->command_line;
    p->session_id = from->session_id;
    p->have |= from->have & INFO_SESSION;
    p->kernel_thread = from->kernel_thread;
    p->start_code = from->start_code;
    p->start_stack = from->start_stack;
}

enum err proc_inst_refresh(struct proc_table *t, struct proc_inst *p)
{
    enum err e = ERR_OK;
    bool seen;

    if (!p->stale) {
        return ERR_OK;
    }
    p->stale = false;
    p->info_version++;
    p->io_denied = false; /* another program, perhaps another user */
    if (!p->kernel_thread) {
        e = read_image(t, p, &seen);
        if (!e) {
            e = read_command_line(t, p, !seen);
        }
    }
    p->stale = e != ERR_OK;
    return e;
}

void proc_inst_user(struct proc_table *t, struct proc_inst *p, uint32_t uid)
{
    if (p->uid_known && p->uid == uid) {
        return;
    }
    p->uid = uid;
    p->uid_known = true;
    p->io_denied = false;
    p->info_version++;
    snprintf(p->user, sizeof p->user, "%s", proc_host_user(t->host, uid));
}
