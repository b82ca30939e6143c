#include "agent/etl/etl_figures.h"

#include <string.h>

#include "agent/source/etw_guid.h"
#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/os/os.h"

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
        e = etl_instances_create(&f->instances);
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
        etl_instances_destroy(f->instances);
        etl_buffer_order_destroy(f->order);
        mem_free(f);
    }
}

/* -- processes of threads -- */

/* Pid of a thread at this moment; false: unknown. */
static bool pid_of_thread(const struct etl_walk *w, uint32_t tid, uint32_t *pid)
{
    const struct instance *p = instances_thread(w->table, tid);

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
        f->dropped++;
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
        etl_instances_event(f->instances, r);
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
        f->dropped++;
        return;
    }
    list[(*n)++] = (struct etl_figures_odd){class, raw->version, (uint32_t)bytes, 1};
}

static void look_for_odd(struct etl_figures *f, const struct etl_kinds_event *kind,
                         const struct etl_walk_record *r)
{
    const char *class = etl_kinds_class_name(kind);
    size_t left;

    if (!class) {
        return;
    }
    if (r->decoded == ERR_CORRUPT) {
        count_odd(f, f->undecodable, &f->n_undecodable, class, r->raw, 0);
        return;
    }
    left = etl_kinds_left_over(kind, r->raw);
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
        f->dropped++;
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
    const struct etl_kinds_event *kind = etl_kinds_count(f->kinds, w->describe, raw);

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
            f->dropped++;
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

#define TEXT_MAX 64

/* -- the file -- */

/* FILETIME as "2020-07-29T00:07:03.356792Z"; null where it is 0. */
static void put_filetime(struct jsonw *j, const char *key, uint64_t filetime)
{
    char text[CLK_TEXT];

    if (filetime == 0) {
        jsonw_null(j, key);
        return;
    }
    jsonw_text(j, key, str_make(clk_format_utc(text, sizeof text, clk_from_filetime(filetime), 6)));
}

static void put_header(struct jsonw *j, const struct etl_census *c)
{
    char version[TEXT_MAX];

    (void)snprintf(version, sizeof version, "%u.%u.%u.%u", c->version[0], c->version[1],
                   c->version[2], c->version[3]);
    jsonw_object(j, "header");
    jsonw_uint(j, "BufferSize", c->buffer_size);
    jsonw_text(j, "Version", str_make(version));
    jsonw_uint(j, "ProviderVersion", c->provider_version);
    jsonw_uint(j, "NumberOfProcessors", c->cpus);
    jsonw_wide(j, "EndTime", c->end_time);
    jsonw_uint(j, "TimerResolution", c->timer_resolution);
    jsonw_uint(j, "MaximumFileSize", c->maximum_file_size);
    jsonw_uint(j, "LogFileMode", c->mode);
    jsonw_uint(j, "BuffersWritten", c->buffers_written);
    jsonw_uint(j, "StartBuffers", c->start_buffers);
    jsonw_uint(j, "PointerSize", c->pointer_size);
    jsonw_uint(j, "EventsLost", c->events_lost);
    jsonw_uint(j, "CpuSpeedMHz", c->cpu_mhz);
    jsonw_wide(j, "BootTime", c->boot_time);
    jsonw_int(j, "PerfFreq", (int64_t)c->frequency);
    jsonw_wide(j, "StartTime", c->start_time);
    jsonw_uint(j, "ReservedFlags", c->clock);
    jsonw_uint(j, "BuffersLost", c->buffers_lost);
    jsonw_text(j, "LoggerName", str_make(c->session_name));
    jsonw_text(j, "LogFileName", str_make(c->log_file_name));
    jsonw_int(j, "TimeZoneBias", c->time_zone_bias);
    jsonw_wide(j, "headerTS", (uint64_t)c->header_ticks);
    jsonw_uint(j, "headerBits", c->header_bits);
    jsonw_end(j);
}

static void put_buffers(struct jsonw *j, const struct etl_census *c)
{
    char key[TEXT_MAX];

    jsonw_object(j, "buffers");
    jsonw_uint(j, "count", c->buffers);
    jsonw_object(j, "types");
    for (size_t i = 0; i < ETL_CENSUS_TYPES; i++) {
        if (c->types[i]) {
            (void)snprintf(key, sizeof key, i + 1 < ETL_CENSUS_TYPES ? "%zu" : "other", i);
            jsonw_uint(j, key, c->types[i]);
        }
    }
    jsonw_end(j);
    jsonw_object(j, "flags");
    for (size_t i = 0; i < c->n_flags; i++) {
        (void)snprintf(key, sizeof key, "0x%x", c->flags[i].flags);
        jsonw_uint(j, key, c->flags[i].count);
    }
    jsonw_end(j);
    jsonw_uint(j, "compressed", c->compressed);
    jsonw_array(j, "cpus_seen");
    for (unsigned i = 0; i < ETL_CENSUS_CPUS; i++) {
        if (c->cpus_seen[i / 8] >> (i % 8) & 1) {
            jsonw_uint(j, NULL, i);
        }
    }
    jsonw_end(j);
    jsonw_end(j);
}

void etl_figures_json_header(struct jsonw *j, const struct etl_census *c)
{
    put_header(j, c);
    put_filetime(j, "start_time", c->start_time);
    put_filetime(j, "end_time", c->end_time);
    put_buffers(j, c);
}

static void put_header_types(struct jsonw *j, const struct etl_figures *f)
{
    static const char *const names[ETL_TYPE_COUNT] = {
        [0] = "OTHER",
        [ETL_SYSTEM32] = "SYSTEM32",
        [ETL_SYSTEM64] = "SYSTEM64",
        [ETL_COMPACT32] = "COMPACT32",
        [ETL_COMPACT64] = "COMPACT64",
        [ETL_FULL32] = "FULL32",
        [ETL_INSTANCE32] = "INSTANCE32",
        [ETL_ERROR] = "ERROR",
        [ETL_MESSAGE] = "MESSAGE",
        [ETL_PERFINFO32] = "PERFINFO32",
        [ETL_PERFINFO64] = "PERFINFO64",
        [ETL_EVENT32] = "EVENT32",
        [ETL_EVENT64] = "EVENT64",
        [ETL_FULL64] = "FULL64",
        [ETL_INSTANCE64] = "INSTANCE64",
    };

    jsonw_object(j, "header_types");
    for (size_t i = 0; i < ETL_TYPE_COUNT; i++) {
        if (f->header_types[i]) {
            jsonw_uint(j, names[i] ? names[i] : names[0], f->header_types[i]);
        }
    }
    jsonw_end(j);
}

static void put_notes(struct jsonw *j, const struct etl_walk *w, size_t n_files)
{
    struct source_stats s;
    uint64_t n = 0;
    char text[160];

    etl_walk_source_stats(w, &s);
    jsonw_array(j, "notes");
    if (s.damaged || s.skipped_bytes) {
        (void)snprintf(text, sizeof text, "%llu %s could not be read, %llu %s passed over",
                       (unsigned long long)s.damaged, plural(s.damaged, "place", "places"),
                       (unsigned long long)s.skipped_bytes,
                       plural(s.skipped_bytes, "byte was", "bytes were"));
        jsonw_text(j, NULL, str_make(text));
        n++;
    }
    for (size_t i = 0; i < n_files; i++) {
        const struct etl_census *c = &w->census[i];

        if (c->damaged) {
            (void)snprintf(text, sizeof text, "%.80s: %llu damaged %s", os_path_base(c->path),
                           (unsigned long long)c->damaged, plural(c->damaged, "buffer", "buffers"));
            jsonw_text(j, NULL, str_make(text));
            n++;
        }
    }
    jsonw_end(j);
    jsonw_uint(j, "notes_count", n);
}

static void put_time(struct jsonw *j, const char *key, int64_t ns)
{
    char text[JSONW_MS_TEXT];

    if (ns == ETL_FIGURES_NO_NS) {
        jsonw_null(j, key);
    } else {
        jsonw_raw(j, key, jsonw_ms(text, ns, 3));
    }
}

/* -- records by kind -- */

static enum err put_providers(struct jsonw *j, const struct etl_figures *f)
{
    const struct etl_kinds_provider **all;
    char guid[UUID_TEXT];
    size_t n;
    enum err e = etl_kinds_sort_providers(f->kinds, &all, &n);

    if (e) {
        return e;
    }
    jsonw_object(j, "by_provider");
    for (size_t i = 0; i < n; i++) {
        jsonw_uint(j, value_text_guid(guid, all[i]->guid), all[i]->count);
    }
    jsonw_end(j);
    mem_free(all);
    return ERR_OK;
}

static enum err put_events(struct jsonw *j, const struct etl_figures *f)
{
    const struct etl_kinds_event **all;
    char guid[UUID_TEXT];
    size_t n;
    enum err e = etl_kinds_sort_events(f->kinds, &all, &n);

    if (e) {
        return e;
    }
    jsonw_array(j, "by_event");
    for (size_t i = 0; i < n; i++) {
        const struct etl_kinds_event *k = all[i];

        jsonw_object(j, NULL);
        jsonw_text(j, "provider", str_make(value_text_guid(guid, k->guid)));
        jsonw_uint(j, "id", k->id);
        jsonw_uint(j, "opcode", k->opcode);
        jsonw_uint(j, "version", k->version);
        jsonw_text(j, "kind", str_make(etl_kinds_form(k->form)));
        jsonw_uint(j, "count", k->count);
        jsonw_end(j);
    }
    jsonw_end(j);
    mem_free(all);
    return ERR_OK;
}

/* Kernel records that have names of their own, and those that are numbered. */
static void put_kernel_counts(struct jsonw *j, const struct etl_figures *f)
{
    static const struct {
        uint8_t class, opcode;
        const char *name;
    } named[] = {
        {ETL_KINDS_PROCESS, 1, "process_start"},    {ETL_KINDS_PROCESS, 2, "process_end"},
        {ETL_KINDS_PROCESS, 3, "process_dcstart"},  {ETL_KINDS_PROCESS, 4, "process_dcend"},
        {ETL_KINDS_PROCESS, 39, "process_defunct"}, {ETL_KINDS_THREAD, 1, "thread_start"},
        {ETL_KINDS_THREAD, 2, "thread_end"},        {ETL_KINDS_THREAD, 3, "thread_dcstart"},
        {ETL_KINDS_THREAD, 4, "thread_dcend"},      {ETL_KINDS_THREAD, 36, "cswitch"},
        {ETL_KINDS_THREAD, 50, "ready_thread"},     {ETL_KINDS_IMAGE, 10, "image_load"},
        {ETL_KINDS_IMAGE, 2, "image_unload"},       {ETL_KINDS_IMAGE, 3, "image_dcstart"},
        {ETL_KINDS_IMAGE, 4, "image_dcend"},        {ETL_KINDS_PERF_INFO, 46, "sample"},
        {ETL_KINDS_DISK_IO, 10, "disk_read"},       {ETL_KINDS_DISK_IO, 11, "disk_write"},
        {ETL_KINDS_PAGE_FAULT, 32, "hardfault"},    {ETL_KINDS_STACK_WALK, 32, "stackwalk"},
    };
    static const struct {
        uint8_t class;
        const char *name;
    } numbered[] = {{ETL_KINDS_DISK_IO, "disk"},
                    {ETL_KINDS_FILE_IO, "fileio"},
                    {ETL_KINDS_TCP_IP, "tcp"},
                    {ETL_KINDS_UDP_IP, "udp"}};
    char key[TEXT_MAX];

    jsonw_object(j, "kernel_counts");
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        if (f->counts[named[i].class][named[i].opcode]) {
            jsonw_uint(j, named[i].name, f->counts[named[i].class][named[i].opcode]);
        }
    }
    if (f->samples_idle) {
        jsonw_uint(j, "sample_tid0_idle", f->samples_idle);
    }
    if (f->samples_idle_interrupt) {
        jsonw_uint(j, "sample_tid0_in_dpc_isr", f->samples_idle_interrupt);
    }
    for (size_t i = 0; i < sizeof numbered / sizeof numbered[0]; i++) {
        for (unsigned op = 0; op < 256; op++) {
            bool has_name = numbered[i].class == ETL_KINDS_DISK_IO && (op == 10 || op == 11);

            if (f->counts[numbered[i].class][op] && !has_name) {
                (void)snprintf(key, sizeof key, "%s_op_%u", numbered[i].name, op);
                jsonw_uint(j, key, f->counts[numbered[i].class][op]);
            }
        }
    }
    jsonw_end(j);
}

/* -- processes -- */

static void put_moment(struct jsonw *j, const char *what, int64_t utc_ns, int64_t begin_ns)
{
    char key[TEXT_MAX], text[CLK_TEXT], ms[JSONW_MS_TEXT];

    jsonw_wide(j, what, clk_to_filetime(utc_ns));
    (void)snprintf(key, sizeof key, "%s_utc", what);
    jsonw_text(j, key, str_make(clk_format_utc(text, sizeof text, utc_ns, 6)));
    (void)snprintf(key, sizeof key, "%s_relms", what);
    jsonw_raw(j, key, jsonw_ms(ms, clk_sub(utc_ns, begin_ns), 3));
}

static void put_text(struct jsonw *j, const char *key, const char *text)
{
    if (text) {
        jsonw_text(j, key, str_make(text));
    } else {
        jsonw_null(j, key);
    }
}

static void put_process(struct jsonw *j, const struct etl_instances_row *p, int64_t begin_ns)
{
    jsonw_object(j, NULL);
    jsonw_uint(j, "pid", p->pid);
    jsonw_uint(j, "ppid", p->parent_pid);
    put_text(j, "image", p->image);
    put_text(j, "cmdline", p->cmdline);
    jsonw_uint(j, "session", p->session);
    put_text(j, "sid", p->sid);
    jsonw_uint(j, "version", p->version);
    if (p->package) {
        put_text(j, "package", p->package);
    }
    if (p->started) {
        put_moment(j, "start", p->start_ns, begin_ns);
        if (p->creator_pid != EVENT_NO_ID) {
            jsonw_uint(j, "creator_pid", p->creator_pid);
        }
    }
    jsonw_array(j, "seen");
    for (size_t i = 0; i < p->n_seen; i++) {
        jsonw_uint(j, NULL, p->seen[i]);
    }
    jsonw_end(j);
    if (p->seen_more) {
        jsonw_uint(j, "seen_more", p->seen_more);
    }
    if (p->stopped) {
        put_moment(j, "stop", p->stop_ns, begin_ns);
        jsonw_int(j, "exit_status", (int32_t)p->exit_code);
    }
    jsonw_end(j);
}

static enum err put_processes(struct jsonw *j, const struct etl_figures *f, int64_t begin_ns)
{
    const struct etl_instances_row **all;
    size_t n;
    enum err e = etl_instances_sort(f->instances, &all, &n);

    if (e) {
        return e;
    }
    jsonw_array(j, "processes");
    for (size_t i = 0; i < n; i++) {
        put_process(j, all[i], begin_ns);
    }
    jsonw_end(j);
    mem_free(all);
    return ERR_OK;
}

/* -- by pid -- */

static void put_column(struct jsonw *j, const char *key, const struct etl_figures *f,
                       enum etl_pids_column column)
{
    const struct etl_pids_row *const *rows;
    char pid[TEXT_MAX];
    size_t n;

    rows = etl_pids_sorted(f->pids, &n);
    jsonw_object(j, key);
    for (size_t i = 0; i < n; i++) {
        if (rows[i]->n[column]) {
            (void)snprintf(pid, sizeof pid, "%u", rows[i]->pid);
            jsonw_uint(j, rows[i]->pid == EVENT_NO_ID ? "None" : pid, rows[i]->n[column]);
        }
    }
    jsonw_end(j);
}

static void put_columns(struct jsonw *j, const struct etl_figures *f)
{
    jsonw_object(j, "threads");
    put_column(j, "started_by_pid", f, ETL_PIDS_THREADS_STARTED);
    put_column(j, "ended_by_pid", f, ETL_PIDS_THREADS_ENDED);
    put_column(j, "rundown_by_pid", f, ETL_PIDS_THREAD_RUNDOWN);
    jsonw_end(j);
    put_column(j, "cswitch_in_by_pid", f, ETL_PIDS_SWITCHES_IN);
    put_column(j, "cpu_ticks_by_pid_from_cswitch", f, ETL_PIDS_SWITCH_TICKS);
    put_column(j, "samples_by_pid", f, ETL_PIDS_SAMPLES);
    jsonw_object(j, "disk");
    put_column(j, "read_bytes_by_pid", f, ETL_PIDS_DISK_READ_BYTES);
    put_column(j, "write_bytes_by_pid", f, ETL_PIDS_DISK_WRITE_BYTES);
    put_column(j, "reads_by_pid", f, ETL_PIDS_DISK_READS);
    put_column(j, "writes_by_pid", f, ETL_PIDS_DISK_WRITES);
    jsonw_end(j);
    put_column(j, "hardfaults_by_pid", f, ETL_PIDS_HARD_FAULTS);
    put_column(j, "hardfault_bytes_by_pid", f, ETL_PIDS_HARD_FAULT_BYTES);
    put_column(j, "softfaults_by_pid", f, ETL_PIDS_SOFT_FAULTS);
    put_column(j, "image_loads_by_pid", f, ETL_PIDS_IMAGE_LOADS);
    put_column(j, "image_rundown_by_pid", f, ETL_PIDS_IMAGE_RUNDOWN);
    jsonw_object(j, "net_bytes_by_pid");
    put_column(j, "tcp_send", f, ETL_PIDS_TCP_SEND);
    put_column(j, "tcp_recv", f, ETL_PIDS_TCP_RECV);
    put_column(j, "udp_send", f, ETL_PIDS_UDP_SEND);
    put_column(j, "udp_recv", f, ETL_PIDS_UDP_RECV);
    jsonw_end(j);
}

/* -- lists -- */

static void put_manifest(struct jsonw *j, const struct etl_figures *f)
{
    jsonw_array(j, "kernel_process_manifest_events");
    for (size_t i = 0; i < f->n_manifest; i++) {
        jsonw_object(j, NULL);
        jsonw_uint(j, "event", f->manifest[i].id);
        jsonw_uint(j, "version", f->manifest[i].version);
        put_time(j, "relms", f->manifest[i].since_ns);
        jsonw_uint(j, "pid", f->manifest[i].pid);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void put_unresolved(struct jsonw *j, const struct etl_figures *f)
{
    const struct {
        const char *key;
        uint64_t n;
    } all[] = {{"sample", f->unresolved_samples},
               {"hardfault", f->unresolved_hard_faults},
               {"disk", f->unresolved_disk},
               {"cswitch_new", f->unresolved_switches}};

    jsonw_object(j, "unresolved");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i].n) {
            jsonw_uint(j, all[i].key, all[i].n);
        }
    }
    jsonw_end(j);
}

static void put_odd(struct jsonw *j, const char *key, const struct etl_figures_odd *list, size_t n,
                    bool with_bytes)
{
    char k[TEXT_MAX];

    jsonw_array(j, key);
    for (size_t i = 0; i < n; i++) {
        jsonw_object(j, NULL);
        if (with_bytes) {
            (void)snprintf(k, sizeof k, "('%s', %u, %u)", list[i].class, list[i].version,
                           list[i].bytes);
        } else {
            (void)snprintf(k, sizeof k, "('%s', %u)", list[i].class, list[i].version);
        }
        jsonw_text(j, "k", str_make(k));
        jsonw_uint(j, "n", list[i].n);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void put_errors(struct jsonw *j, const struct etl_figures *f)
{
    jsonw_array(j, "error_records");
    for (size_t i = 0; i < f->n_errors; i++) {
        put_time(j, NULL, f->errors[i]);
    }
    jsonw_end(j);
}

/* -- loss -- */

void etl_figures_loss(struct buf *out, const struct etl_walk *w)
{
    struct source_stats s;

    etl_walk_source_stats(w, &s);
    buf_printf(out, "%llu %s, %llu %s; %llu %s damaged, %llu %s skipped",
               (unsigned long long)s.lost_events, plural(s.lost_events, "event", "events"),
               (unsigned long long)s.lost_buffers, plural(s.lost_buffers, "buffer", "buffers"),
               (unsigned long long)s.damaged, plural(s.damaged, "place", "places"),
               (unsigned long long)s.skipped_bytes, plural(s.skipped_bytes, "byte", "bytes"));
}

void etl_figures_json_loss(struct jsonw *j, const struct etl_walk *w)
{
    struct source_stats s;

    etl_walk_source_stats(w, &s);
    jsonw_object(j, "loss");
    jsonw_uint(j, "events", s.lost_events);
    jsonw_uint(j, "buffers", s.lost_buffers);
    jsonw_uint(j, "damaged", s.damaged);
    jsonw_uint(j, "skipped_bytes", s.skipped_bytes);
    jsonw_end(j);
}

/* -- all -- */

static const struct etl_census *first_census(const struct etl_walk *w, size_t n_files)
{
    const struct etl_census *first = &w->census[0];

    for (size_t i = 1; i < n_files; i++) {
        if (w->census[i].start_time < first->start_time) {
            first = &w->census[i];
        }
    }
    return first;
}

/* Of one file; several ones have no common order. */
static void put_inversions(struct jsonw *j, const struct etl_figures *f, size_t n_files)
{
    uint64_t n;

    if (n_files == 1 && etl_buffer_order_inversions(f->order, &n)) {
        jsonw_uint(j, "timestamp_inversions_in_file_order", n);
    } else {
        jsonw_null(j, "timestamp_inversions_in_file_order");
    }
}

static void put_file(struct jsonw *j, const struct etl_figures *f, const struct etl_walk *w,
                     size_t n_files)
{
    const struct etl_census *c = first_census(w, n_files);
    struct str file = str_make(os_path_base(c->path));

    if (file.n > 3 && memcmp(file.p + file.n - 3, ".xz", 3) == 0) {
        file.n -= 3;
    }
    jsonw_text(j, "file", file);
    etl_figures_json_header(j, c);
    jsonw_uint(j, "events_total", f->records);
    put_header_types(j, f);
    put_notes(j, w, n_files);
    jsonw_uint(j, "pmc_extended_kernel_events", f->with_counters);
    put_time(j, "first_event_relms", f->first_ns);
    put_time(j, "last_event_relms", f->last_ns);
    put_inversions(j, f, n_files);
}

enum err etl_figures_json(struct jsonw *j, const struct etl_figures *f, const struct etl_walk *w,
                          size_t n_files)
{
    enum err e;

    put_file(j, f, w, n_files);
    e = put_providers(j, f);
    if (!e) {
        e = put_events(j, f);
    }
    put_kernel_counts(j, f);
    if (!e) {
        e = put_processes(j, f, w->start_ns);
    }
    put_columns(j, f);
    put_manifest(j, f);
    put_unresolved(j, f);
    put_odd(j, "undecodable", f->undecodable, f->n_undecodable, false);
    put_odd(j, "residual_bytes", f->residual, f->n_residual, true);
    jsonw_uint(j, "dpc_ticks", f->dpc_ticks);
    jsonw_uint(j, "isr_ticks", f->isr_ticks);
    put_errors(j, f);
    return e;
}
