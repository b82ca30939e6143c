#include "agent/source/proc_attr.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"

#define COMM_MAX 15 /* bytes of a name the kernel keeps */

/* A name of COMM_MAX bytes may be cut; then the file of the program, if it begins so, has it whole.
 */
static struct str whole_name(const struct proc_inst *p, struct str name)
{
    const char *slash = p->image ? memrchr(p->image, '/', p->image_n) : NULL;
    struct str base;

    if (!slash || name.n != COMM_MAX) {
        return name;
    }
    base = (struct str){slash + 1, (size_t)(p->image + p->image_n - (slash + 1))};
    return base.n > name.n && memcmp(base.p, name.p, name.n) == 0 ? base : name;
}

void proc_attr_name(struct proc_inst *p, const char *name, size_t n)
{
    struct str whole = whole_name(p, (struct str){name, n});

    p->name_n = proc_text_utf8(p->name, sizeof p->name, whole.p, whole.n);
}

void proc_attr_parent(const struct proc_table *t, struct proc_inst *p, uint32_t parent_pid)
{
    const struct proc_inst *parent = proc_inst_find(t, parent_pid);

    p->parent_pid = parent_pid;
    p->parent_start = parent && parent->id.start <= p->id.start ? parent->id.start : 0;
    p->have |= INFO_PARENT;
}

/* A worker's comm in stat changes with its work, so the comparison is on the stable part. */
static bool name_changed(const struct proc_inst *p, const char *name, size_t n)
{
    size_t kept = n < sizeof p->comm ? n : sizeof p->comm;

    return p->comm_n != kept || memcmp(p->comm, name, kept) != 0;
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
    p->session_id = st->session;
    p->have |= INFO_SESSION;
    if (!name_changed(p, st->name, name_n) && p->start_code == st->start_code &&
        p->start_stack == st->start_stack) {
        return;
    }
    p->comm_n = name_n < sizeof p->comm ? name_n : sizeof p->comm;
    memcpy(p->comm, st->name, p->comm_n);
    proc_attr_name(p, st->name, name_n);
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

static void forget_image(struct proc_inst *p)
{
    mem_free(p->image);
    p->image = NULL;
    p->image_n = 0;
}

static enum err read_image(struct proc_table *t, struct proc_inst *p)
{
    static const char deleted[] = " (deleted)";
    char path[32], target[PATH_MAX], text[MODEL_TEXT_MAX];
    ssize_t got;
    size_t n;
    char *image;

    snprintf(path, sizeof path, "%u/exe", p->id.pid);
    got = readlinkat(t->host->root, path, target, sizeof target);
    if (got < 0 && errno == EACCES) {
        count_denied(t, ERR_ACCESS);
        forget_image(p); /* that of another program, which could be read */
    }
    if (got <= 0) {
        return ERR_OK;
    }
    n = (size_t)got;
    if (n > sizeof deleted - 1 &&
        memcmp(target + n - (sizeof deleted - 1), deleted, sizeof deleted - 1) == 0) {
        n -= sizeof deleted - 1;
    }
    n = proc_text_utf8(text, sizeof text, target, n);
    image = mem_strndup(text, n);
    if (!image) {
        return ERR_NOMEM;
    }
    mem_free(p->image);
    p->image = image;
    p->image_n = n;
    if (p->comm_n > 0) {
        proc_attr_name(p, p->comm, p->comm_n);
    }
    return ERR_OK;
}

static enum err read_command_line(struct proc_table *t, struct proc_inst *p)
{
    char raw[MODEL_COMMAND_LINE_MAX + 1], text[MODEL_COMMAND_LINE_MAX];
    size_t raw_n, n;
    bool cut;
    char *line;
    enum err e = proc_host_read(t->host, p->id.pid, "cmdline", raw, sizeof raw, &raw_n);

    if (e) {
        count_denied(t, e);
        return ERR_OK;
    }
    if (raw_n == 0) {
        return ERR_OK; /* its memory is gone already */
    }
    n = proc_text_args(text, sizeof text, raw, raw_n, &cut);
    line = mem_strndup(text, n);
    if (!line) {
        return ERR_NOMEM;
    }
    mem_free(p->command_line);
    p->command_line = line;
    p->command_line_n = n;
    p->have &= ~(uint32_t)INFO_COMMAND_LINE_CUT;
    p->have |= INFO_COMMAND_LINE_KNOWN | (cut ? (uint32_t)INFO_COMMAND_LINE_CUT : 0);
    return ERR_OK;
}

void proc_attr_forget_text(struct proc_inst *p)
{
    forget_image(p);
    mem_free(p->command_line);
    p->command_line = NULL;
    p->command_line_n = 0;
    p->have &= ~(uint32_t)(INFO_COMMAND_LINE_CUT | INFO_COMMAND_LINE_KNOWN);
}

void proc_attr_copy_text(struct proc_inst *p, const struct proc_inst *from)
{
    proc_attr_forget_text(p);
    if (from->image) {
        p->image = mem_strndup(from->image, from->image_n);
        p->image_n = p->image ? from->image_n : 0;
    }
    if (from->command_line) {
        p->command_line = mem_strndup(from->command_line, from->command_line_n);
        p->command_line_n = p->command_line ? from->command_line_n : 0;
    }
    if (p->command_line) {
        p->have |= from->have & (INFO_COMMAND_LINE_CUT | INFO_COMMAND_LINE_KNOWN);
    }
}

enum err proc_attr_refresh(struct proc_table *t, struct proc_inst *p)
{
    enum err e = ERR_OK;

    if (!p->stale) {
        return ERR_OK;
    }
    p->stale = false;
    p->io_denied = false; /* another program, perhaps another user */
    if (!p->kernel_thread) {
        e = read_image(t, p);
        if (!e) {
            e = read_command_line(t, p);
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
    snprintf(p->user, sizeof p->user, "%s", proc_host_user(t->host, uid));
}
