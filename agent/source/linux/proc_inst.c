#include "agent/source/linux/proc_inst.h"

#include <string.h>

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
    struct proc_inst *p = take_slot(t);

    if (!p) {
        return ERR_FULL;
    }
    memset(p, 0, sizeof *p);
    p->id = id;
    p->phase = PROC_ALIVE;
    p->start_known = true;
    p->stat_fd = p->status_fd = p->io_fd = p->fd_fd = p->task_fd = -1;
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
}

void proc_inst_remove(struct proc_table *t, struct proc_inst *p)
{
    struct proc_inst **at = bucket_of(t, p->id.pid);

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
