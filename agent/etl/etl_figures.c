#include "agent/etl/etl_figures.h"

#include <string.h>

#include "agent/etl/etl_residual.h"
#include "agent/source/etw_guid.h"
#include "common/base/cur.h"
#include "common/base/mem.h"

/* Microsoft-Windows-Kernel-Process */
static const uint8_t kernel_process[16] =
    ETW_GUID(0x22fb2cd6, 0x0e7b, 0x422b, 0xa0, 0xc7, 0x2f, 0xad, 0x1f, 0xd0, 0xe7, 0x16);

enum err etl_figures_create(struct etl_figures **out)
{
    struct etl_figures *f = mem_zalloc(sizeof *f);
    enum err e;

    if (!f) {
        return ERR_NOMEM;
    }
    f->first_ns = ETL_FIGURES_NO_NS;
    f->last_ns = ETL_FIGURES_NO_NS;
    e = etl_kinds_create(&f->kinds);
    if (!e) {
        e = etl_pids_create(&f->pids);
    }
    if (!e) {
        e = etl_instances_create(&f->lives);
    }
    if (!e) {
        e = etl_buffer_order_create(&f->order);
    }
    if (e) {
        etl_figures_destroy(f);
        return e;
    }
    *out = f;
    return ERR_OK;
}

void etl_figures_destroy(struct etl_figures *f)
{
    if (f) {
        etl_kinds_destroy(f->kinds);
        etl_pids_destroy(f->pids);
        etl_instances_destroy(f->lives);
        etl_buffer_order_destroy(f->order);
        mem_free(f);
    }
}

/* -- who -- */

/* Pid of a thread at this moment; false: unknown. */
static bool pid_of_thread(const struct etl_walk *w, uint32_t tid, uint32_t *pid)
{
    const struct ptable_proc *p = ptable_thread(etl_walk_table(w), tid);

    *pid = p ? p->info.id.pid : 0;
    return p || tid == 0;
}

/* -- kernel records, class by class -- */

static void count_thread(struct etl_figures *f, const struct event *ev)
{
    enum etl_pids_column column = ev->kind == EV_THREAD_START  ? ETL_PIDS_THREADS_STARTED
                                  : ev->kind == EV_THREAD_STOP ? ETL_PIDS_THREADS_ENDED
                                                               : ETL_PIDS_THREAD_RUNDOWN;

    etl_pids_add(f->pids, ev->u.thread.pid, column, 1);
}

static void count_image(struct etl_figures *f, const struct etl_walk_record *r)
{
    const struct event *ev = r->ev;
    bool named = r->raw->version > 0; /* version 0 has no pid in its payload */

    if (ev->kind == EV_IMAGE_LOAD) {
        etl_pids_add(f->pids, named ? ev->u.image.pid : r->raw->pid, ETL_PIDS_IMAGE_LOADS, 1);
    } else if (ev->kind == EV_IMAGE_FOUND || ev->kind == EV_IMAGE_LAST) {
        etl_pids_add(f->pids, named ? ev->u.image.pid : EVENT_NO_ID, ETL_PIDS_IMAGE_RUNDOWN, 1);
    }
}

static void count_sample(struct etl_figures *f, const struct etl_walk *w, const struct event *ev)
{
    uint32_t pid;

    if (ev->u.sample.tid == 0) {
        f->samples_idle += !ev->u.sample.interrupt;
        f->samples_idle_interrupt += ev->u.sample.interrupt;
    }
    if (pid_of_thread(w, ev->u.sample.tid, &pid)) {
        etl_pids_add(f->pids, pid, ETL_PIDS_SAMPLES, 1);
    } else {
        f->unresolved_samples++;
    }
}

static void count_disk(struct etl_figures *f, const struct etl_walk_record *r)
{
    bool read = r->ev->kind == EV_DISK_READ;
    uint32_t pid;

    if (!r->charged) {
        f->unresolved_disk++;
        return;
    }
    pid = r->charged->info.id.pid;
    etl_pids_add(f->pids, pid, read ? ETL_PIDS_DISK_READS : ETL_PIDS_DISK_WRITES, 1);
    etl_pids_add(f->pids, pid, read ? ETL_PIDS_DISK_READ_BYTES : ETL_PIDS_DISK_WRITE_BYTES,
                 r->ev->u.disk.bytes);
}

static void count_hard_fault(struct etl_figures *f, const struct etl_walk *w,
                             const struct event *ev)
{
    uint32_t pid;

    if (!pid_of_thread(w, ev->u.hard_fault.tid, &pid)) {
        f->unresolved_hard_faults++;
        return;
    }
    etl_pids_add(f->pids, pid, ETL_PIDS_HARD_FAULTS, 1);
    etl_pids_add(f->pids, pid, ETL_PIDS_HARD_FAULT_BYTES, ev->u.hard_fault.bytes);
}

static void count_net(struct etl_figures *f, const struct event *ev)
{
    const struct ev_net *n = &ev->u.net;

    if (n->op == NET_SEND || n->op == NET_RECV) {
        bool send = n->op == NET_SEND;
        enum etl_pids_column column = n->udp ? (send ? ETL_PIDS_UDP_SEND : ETL_PIDS_UDP_RECV)
                                             : (send ? ETL_PIDS_TCP_SEND : ETL_PIDS_TCP_RECV);

        etl_pids_add(f->pids, n->pid, column, n->bytes);
    }
}

/* Time on a CPU lasts from one switch of that CPU to the next. */
static void count_switch(struct etl_figures *f, const struct etl_walk *w,
                         const struct etl_walk_record *r)
{
    struct etl_figures_cpu *cpu = r->raw->cpu < ETL_FIGURES_CPUS ? &f->cpus[r->raw->cpu] : NULL;
    uint32_t pid;
    bool known = pid_of_thread(w, r->ev->u.cswitch.new_tid, &pid);

    if (known) {
        etl_pids_add(f->pids, pid, ETL_PIDS_SWITCHES_IN, 1);
    } else {
        f->unresolved_switches++;
    }
    if (!cpu) {
        f->untold++;
        return;
    }
    if (cpu->known && r->raw->ticks > cpu->ticks) {
        etl_pids_add(f->pids, cpu->pid, ETL_PIDS_SWITCH_TICKS,
                     (uint64_t)(r->raw->ticks - cpu->ticks));
    }
    *cpu = (struct etl_figures_cpu){r->raw->ticks, pid, known};
}

/* InitialTime is the payload's first field. */
static void count_interrupt(struct etl_figures *f, const struct etl_walk_record *r)
{
    struct cur c = cur_make(r->raw->payload, r->raw->payload_n);
    int64_t begun = (int64_t)cur_u64le(&c), took;

    if (!c.bad && !__builtin_sub_overflow(r->raw->ticks, begun, &took) && took > 0) {
        *(r->ev->kind == EV_DPC ? &f->dpc_ticks : &f->isr_ticks) += (uint64_t)took;
    }
}

static void count_fact(struct etl_figures *f, const struct etl_walk *w,
                       const struct etl_walk_record *r)
{
    switch (r->ev->kind) {
    case EV_PROC_START:
    case EV_PROC_STOP:
    case EV_PROC_FOUND:
    case EV_PROC_LAST:
    case EV_PROC_DEFUNCT:
        etl_instances_event(f->lives, r);
        break;
    case EV_THREAD_START:
    case EV_THREAD_STOP:
    case EV_THREAD_FOUND:
    case EV_THREAD_LAST:
        count_thread(f, r->ev);
        break;
    case EV_IMAGE_LOAD:
    case EV_IMAGE_FOUND:
    case EV_IMAGE_LAST:
        count_image(f, r);
        break;
    case EV_CPU_SAMPLE:
        count_sample(f, w, r->ev);
        break;
    case EV_CSWITCH:
        count_switch(f, w, r);
        break;
    case EV_DPC:
    case EV_ISR:
        count_interrupt(f, r);
        break;
    case EV_DISK_READ:
    case EV_DISK_WRITE:
        count_disk(f, r);
        break;
    case EV_HARD_FAULT:
        count_hard_fault(f, w, r->ev);
        break;
    case EV_SOFT_FAULT:
        etl_pids_add(f->pids, r->raw->pid, ETL_PIDS_SOFT_FAULTS, 1);
        break;
    case EV_NET:
        count_net(f, r->ev);
        break;
    default:
        break;
    }
}

/* -- oddities -- */

static void count_odd(struct etl_figures *f, struct etl_figures_odd *list, size_t *n,
                      const char *class, const struct raw_event *raw, size_t bytes)
{
    for (size_t i = 0; i < *n; i++) {
        if (list[i].class == class && list[i].version == raw->version && list[i].bytes == bytes) {
            list[i].n++;
            return;
        }
    }
    if (*n == ETL_FIGURES_ODD_MAX) {
        f->untold++;
        return;
    }
    list[(*n)++] = (struct etl_figures_odd){class, raw->version, (uint32_t)bytes, 1};
}

static void look_for_odd(struct etl_figures *f, const struct etl_kinds_event *kind,
                         const struct etl_walk_record *r)
{
    const char *class = etl_residual_name(kind);
    size_t left;

    if (!class) {
        return;
    }
    if (r->decoded == ERR_CORRUPT) {
        count_odd(f, f->undecodable, &f->n_undecodable, class, r->raw, 0);
        return;
    }
    left = etl_residual_bytes(kind, r->raw);
    if (left > 0) {
        count_odd(f, f->residual, &f->n_residual, class, r->raw, left);
    }
}

static void count_manifest(struct etl_figures *f, const struct etl_walk_record *r)
{
    const struct raw_event *raw = r->raw;
    struct cur c = cur_make(raw->payload, raw->payload_n);

    if (raw->form != RAW_MANIFEST || (raw->id != 1 && raw->id != 2) ||
        memcmp(raw->guid, kernel_process, sizeof kernel_process) != 0) {
        return;
    }
    if (f->n_manifest == ETL_FIGURES_LIST_MAX) {
        f->untold++;
        return;
    }
    f->manifest[f->n_manifest++] =
        (struct etl_figures_manifest){r->since_ns, cur_u32le(&c), raw->id, raw->version};
}

/* -- a record -- */

void etl_figures_record(struct etl_figures *f, const struct etl_walk *w,
                        const struct etl_walk_record *r)
{
    const struct raw_event *raw = r->raw;
    const struct etl_kinds_event *kind = etl_kinds_count(f->kinds, etl_walk_describe(w), raw);

    f->records++;
    f->with_counters += raw->counters > 0;
    etl_buffer_order_record(f->order, raw);
    f->header_types[raw->header < ETL_TYPE_COUNT ? raw->header : 0]++;
    f->first_ns = f->first_ns > r->since_ns ? r->since_ns : f->first_ns;
    f->last_ns =
        f->last_ns == ETL_FIGURES_NO_NS || f->last_ns < r->since_ns ? r->since_ns : f->last_ns;
    if (raw->header == ETL_ERROR) {
        if (f->n_errors < ETL_FIGURES_LIST_MAX) {
            f->errors[f->n_errors++] = r->since_ns;
        } else {
            f->untold++;
        }
    }
    if (!kind) {
        return;
    }
    if (kind->kernel) {
        f->counts[kind->kernel][kind->opcode]++;
        look_for_odd(f, kind, r);
        if (r->ev) {
            count_fact(f, w, r);
        }
    } else {
        count_manifest(f, r);
    }
}
