#include "agent/source/linux/proc_attr.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"

void proc_attr_name(struct proc_inst *p, const char *name, size_t n)
{
    p->name_n = proc_text_utf8(p->name, sizeof p->name, name, n);
    p->info_version++;
}

void proc_attr_parent(const struct proc_table *t, struct proc_inst *p, uint32_t parent_pid)
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

void proc_attr_stat(const struct proc_table *t, struct proc_inst *p, const struct proc_stat *st)
{
    size_t name_n = st->name_n;

    p->kernel_thread = (st->flags & PROC_FLAG_KTHREAD) != 0;
    if (p->kernel_thread) {
        name_n = proc_text_worker(st->name, name_n);
    }
    if (!(p->have & INFO_PARENT)) {
        proc_attr_parent(t, p, st->parent);
    }
    p->info_version += p->session_id != st->session || !(p->have & INFO_SESSION);
    p->session_id = st->session;
    p->have |= INFO_SESSION;
    if (!name_changed(p, st->name, name_n) && p->start_code == st->start_code &&
        p->start_stack == st->start_stack) {
        return;
    }
    p->comm_n = name_n < sizeof p->comm ? name_n : sizeof p->comm;
    memcpy(p->comm, st->name, p->comm_n);
    proc_attr_name(p, st->name, name_n);
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

void proc_attr_forget_text(struct proc_inst *p)
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

void proc_attr_copy(struct proc_inst *p, const struct proc_inst *from)
{
    proc_attr_forget_text(p);
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

enum err proc_attr_refresh(struct proc_table *t, struct proc_inst *p)
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

void proc_attr_user(struct proc_table *t, struct proc_inst *p, uint32_t uid)
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
