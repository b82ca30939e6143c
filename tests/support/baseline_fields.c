#include "tests/support/baseline_fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/clk.h"

#define COUNT(a)       (sizeof(a) / sizeof *(a))
#define PATH_MAX_BYTES 1024
#define TEXT_BYTES     200

static bool starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* -- names -- */

/* Fields by another name: events that begin like `event`. */
static const struct {
    const char *event, *theirs, *ours;
} aliases[] = {
    {"Windows Kernel/Image/", "ImageBase", "BaseAddress"},
    {"Windows Kernel/Image/", "ImageSize", "ModuleSize"},
    {"MSNT_SystemTrace/Image/", "ImageBase", "BaseAddress"},
    {"Windows Kernel/Process/Perf", "MemoryCount", "PageFaultCount"},
    {"Windows Kernel/Process/", "PageDirectoryBase", "DirectoryTableBase"},
    {"Windows Kernel/Thread/", "StartAddr", "Affinity"},
    {"Windows Kernel/Memory/", "FileKey", "FileObject"},
    {"Windows Kernel/DiskIO/", "FileKey", "FileObject"},
    {"Windows Kernel/PerfInfo/Collection", "SampleSource", "Source"},
    {"Windows Kernel/EventTrace", "SessionName", "SessionNameString"},
    {"Windows Kernel/EventTrace", "LogFileName", "LogFileNameString"},
    {"Windows Kernel/EventTrace", "UtcOffsetMinutes", "Bias"},
    {"Microsoft-Windows-Kernel-File/Create", "IrpPtr", "Irp"},
    {"Microsoft-Windows-Kernel-File/Create", "FileAttributes", "CreateAttributes"},
    {"Microsoft-Windows-DotNETRuntime/Type/BulkType", "TypeID_0", "TypeID"},
    {"Microsoft-Windows-DotNETRuntime/Type/BulkType", "TypeName_0", "TypeName"},
};

static const struct value *field_of(const struct baseline_record *rec, const char *event,
                                    const char *name)
{
    for (size_t i = 0; i < COUNT(aliases); i++) {
        if (starts(event, aliases[i].event) && strcmp(aliases[i].theirs, name) == 0) {
            name = aliases[i].ours;
            break;
        }
    }
    for (size_t i = 0; i < rec->values->n; i++) {
        const struct value *v = &rec->values->rows[i].value;

        if (!rec->values->rows[i].group && v->name.n == strlen(name) &&
            strncasecmp(v->name.p, name, v->name.n) == 0) {
            return v;
        }
    }
    return NULL;
}

/* -- paths -- */

static char *copy_of(struct str s)
{
    char *p = malloc(s.n + 1);

    if (!p) {
        abort();
    }
    memcpy(p, s.p, s.n);
    p[s.n] = 0;
    return p;
}

void baseline_names_learn(struct baseline_names *n, const struct values *values)
{
    const struct values_row *file = values_find(values, str_make("FileName"), 0);
    const struct values_row *nt = values_find(values, str_make("NtPath"), 0);
    const struct values_row *dos = values_find(values, str_make("DosPath"), 0);

    if (file && values->n == 2 && n->n_files < BASELINE_NAMES_MAX) {
        n->files[n->n_files].object = values->rows[0].value.v.u;
        n->files[n->n_files++].path = copy_of(file->value.v.text);
    }
    if (nt && dos && n->n_volumes < BASELINE_VOLUMES_MAX) {
        n->volumes[n->n_volumes].nt = copy_of(nt->value.v.text);
        n->volumes[n->n_volumes++].dos = copy_of(dos->value.v.text);
    }
}

void baseline_names_fini(struct baseline_names *n)
{
    for (size_t i = 0; i < n->n_files; i++) {
        free(n->files[i].path);
    }
    for (size_t i = 0; i < n->n_volumes; i++) {
        free(n->volumes[i].nt);
        free(n->volumes[i].dos);
    }
}

/* -- what TraceEvent makes itself -- */

static enum baseline_verdict same_ms(const char *text, int64_t ns)
{
    return fabs(strtod(text, NULL) - (double)ns / 1e6) <= 0.001 ? BASELINE_SAME : BASELINE_DIFFERS;
}

static enum baseline_verdict elapsed(const struct baseline_record *rec, const char *text)
{
    if (!rec->fact) {
        return BASELINE_NAMED;
    }
    return same_ms(text, rec->fact->kind == EV_HARD_FAULT ? rec->fact->u.hard_fault.took_ns
                                                          : rec->fact->u.disk.took_ns);
}

/* The context a thread's start was logged in. */
static enum baseline_verdict parent_thread(const struct baseline_record *rec, const char *text)
{
    const struct value v = {.kind = VALUE_UINT, .bits = 32, .v.u = rec->raw->tid};

    return baseline_compare(text, &v);
}

static enum baseline_verdict parent_process(const struct baseline_record *rec, const char *text)
{
    const struct value v = {.kind = VALUE_UINT, .bits = 32, .v.u = rec->raw->pid};

    return baseline_compare(text, &v);
}

static enum baseline_verdict processor(const struct baseline_record *rec, const char *text)
{
    const struct value v = {.kind = VALUE_UINT, .bits = 32, .v.u = rec->raw->cpu};

    return baseline_compare(text, &v);
}

/* What the profile interrupt found: bits of the last two bytes of the sample. */
static enum baseline_verdict sample_bits(const struct baseline_record *rec, const char *text,
                                         unsigned shift, unsigned mask)
{
    const uint8_t *end = rec->raw->payload + rec->raw->payload_n;
    struct value v = {.kind = VALUE_UINT, .bits = 32};

    v.v.u = (unsigned)(end[-2] | end[-1] << 8) >> shift & mask;
    return baseline_compare(text, &v);
}

static enum baseline_verdict sample_dpc(const struct baseline_record *rec, const char *text)
{
    return sample_bits(rec, text, 0, 1);
}

static enum baseline_verdict sample_isr(const struct baseline_record *rec, const char *text)
{
    return sample_bits(rec, text, 1, 1);
}

static enum baseline_verdict sample_priority(const struct baseline_record *rec, const char *text)
{
    return sample_bits(rec, text, 3, 0x1f);
}

static enum baseline_verdict sample_rank(const struct baseline_record *rec, const char *text)
{
    return sample_bits(rec, text, 8, 0xff);
}

/* Bits by TraceEvent's names, lowest first; "" = it has none. */
static enum baseline_verdict same_bits(const char *text, uint64_t u, const char *const *names,
                                       size_t n)
{
    char s[TEXT_BYTES] = "";
    struct value v = {.kind = VALUE_TEXT};
    size_t at = 0;

    for (size_t i = 0; i < n && at < sizeof s; i++) {
        if (u >> i & 1 && *names[i]) {
            at += (size_t)snprintf(s + at, sizeof s - at, "%s%s", at ? ", " : "", names[i]);
        }
    }
    v.v.text = str_make(at ? s : "None");
    return baseline_compare(text, &v);
}

static enum baseline_verdict irp_flags(const struct baseline_record *rec, const char *text)
{
    static const char *const names[] = {"Nocache",        "MountCompletion", "SynchronousApi",
                                        "AssociatedIrp",  "BufferedIO",      "DeallocateBuffer",
                                        "InputOperation", "Create",          "Read",
                                        "Write",          "Close",           "DeferIOCompletion",
                                        "ObQueryName",    "HoldDeviceQueue"};

    if (!rec->fact || rec->fact->kind < EV_DISK_READ || rec->fact->kind > EV_DISK_FLUSH) {
        return BASELINE_NAMED;
    }
    return same_bits(text, rec->fact->u.disk.flags, names, COUNT(names));
}

/* Before version 4 there are none. */
static enum baseline_verdict process_flags(const struct baseline_record *rec, const char *text)
{
    static const char *const names[] = {"PackageFullName", "Wow64", "Protected"};
    const struct value *flags = field_of(rec, "", "Flags");

    return same_bits(text, flags ? flags->v.u : 0, names, COUNT(names));
}

/* Bits 17 to 19 of a request's flags. */
static enum baseline_verdict disk_priority(const struct baseline_record *rec, const char *text)
{
    static const char *const names[8] = {"NotSet", "Verylow",  "Low",      "Normal",
                                         "High",   "Critical", "Reserved", "Max"};

    if (!rec->fact || rec->fact->kind < EV_DISK_READ || rec->fact->kind > EV_DISK_WRITE) {
        return BASELINE_NAMED;
    }
    return strcmp(names[rec->fact->u.disk.flags >> 17 & 7], text) == 0 ? BASELINE_SAME
                                                                       : BASELINE_DIFFERS;
}

/* TraceEvent reads IPv4 records of UdpIp by the layout of version 0: pid and size in one. */
static enum baseline_verdict udp_context(const struct baseline_record *rec, const char *text)
{
    struct value v = {.kind = VALUE_HEX, .bits = 64};

    if (!rec->fact || rec->fact->kind != EV_NET) {
        return BASELINE_NAMED;
    }
    v.v.u = (uint64_t)rec->fact->u.net.bytes << 32 | rec->fact->u.net.pid;
    return baseline_compare(text, &v);
}

/* The linker's stamp as a time, signed as TraceEvent has it. */
static enum baseline_verdict build_time(const struct baseline_record *rec, const char *text)
{
    const struct value *stamp = field_of(rec, "", "TimeDateStamp");
    struct value v = {.kind = VALUE_TIME};

    (void)rec;
    if (!stamp) {
        return BASELINE_NAMED;
    }
    v.v.i = (int64_t)stamp->v.u * CLK_S;
    return baseline_compare(text, &v);
}

/* A path of the object manager as drives have it; one without a volume is on the system's. */
static enum baseline_verdict same_path(const struct baseline_names *names, const char *text,
                                       struct str path)
{
    char s[PATH_MAX_BYTES], drive[3] = "";
    struct value v = {.kind = VALUE_TEXT};

    for (size_t i = 0; i < names->n_volumes; i++) {
        size_t n = strlen(names->volumes[i].nt);

        if (path.n >= n && strncasecmp(path.p, names->volumes[i].nt, n) == 0) {
            (void)snprintf(s, sizeof s, "%s%.*s", names->volumes[i].dos, (int)(path.n - n),
                           path.p + n);
            v.v.text = str_make(s);
            return baseline_compare(text, &v);
        }
        if (strcmp(names->volumes[i].nt, "\\SystemRoot\\") == 0) {
            (void)snprintf(drive, sizeof drive, "%.2s", names->volumes[i].dos);
        }
    }
    (void)snprintf(s, sizeof s, "%s%.*s", path.n && *path.p == '\\' ? drive : "", (int)path.n,
                   path.p);
    v.v.text = str_make(s);
    return baseline_compare(text, &v);
}

static enum baseline_verdict image_path(const struct baseline_record *rec, const char *text)
{
    if (!rec->fact || rec->fact->kind < EV_IMAGE_LOAD || rec->fact->kind > EV_IMAGE_LAST) {
        return BASELINE_NAMED;
    }
    return same_path(rec->names, text, rec->fact->u.image.path);
}

/* As in the payload, which the schema describes. */
static enum baseline_verdict payload_path(const struct baseline_record *rec, const char *text)
{
    const struct value *path = field_of(rec, "", "FileName");

    (void)rec;
    return path && path->kind == VALUE_TEXT ? same_path(rec->names, text, path->v.text)
                                            : BASELINE_NAMED;
}

/* TraceEvent keeps the disposition, the top byte, apart. */
static enum baseline_verdict create_options(const struct baseline_record *rec, const char *text)
{
    const struct value *options = field_of(rec, "", "CreateOptions");
    struct value v = {.kind = VALUE_UINT, .bits = 32};

    (void)rec;
    if (!options) {
        return BASELINE_NAMED;
    }
    v.v.u = options->v.u & 0xffffff;
    return baseline_compare(text, &v);
}

static enum baseline_verdict payload_length(const struct baseline_record *rec, const char *text)
{
    const struct value v = {.kind = VALUE_UINT, .bits = 64, .v.u = rec->raw->payload_n};

    return baseline_compare(text, &v);
}

/* The last part of a path. */
static enum baseline_verdict file_of_path(const struct baseline_record *rec, const char *text)
{
    const struct value *path = field_of(rec, "", "ModuleILPath");
    struct value v = {.kind = VALUE_TEXT};
    size_t n;

    (void)rec;
    if (!path || path->kind != VALUE_TEXT) {
        return BASELINE_NAMED;
    }
    for (n = path->v.text.n; n > 0 && path->v.text.p[n - 1] != '\\'; n--) {
    }
    v.v.text = (struct str){path->v.text.p + n, path->v.text.n - n};
    return baseline_compare(text, &v);
}

/* The name some record of the trace gives the file object. */
static enum baseline_verdict file_path(const struct baseline_record *rec, const char *text)
{
    const struct value *file = field_of(rec, "", "FileObject");
    bool named = false;

    (void)rec;
    for (size_t i = 0; file && i < rec->names->n_files; i++) {
        if (rec->names->files[i].object == file->v.u) {
            named = true;
            if (same_path(rec->names, text, str_make(rec->names->files[i].path)) == BASELINE_SAME) {
                return BASELINE_SAME;
            }
        }
    }
    return named ? BASELINE_DIFFERS : BASELINE_NAMED;
}

typedef enum baseline_verdict (*made_fn)(const struct baseline_record *, const char *);

/* NULL: no way to tell. */
static const struct {
    const char *event, *field;
    made_fn check;
} made[] = {
    {"Windows Kernel/DiskIO/", "ElapsedTimeMSec", elapsed},
    {"Windows Kernel/Memory/HardFault", "ElapsedTimeMSec", elapsed},
    {"Windows Kernel/DiskIO/", "DiskServiceTimeMSec", NULL},
    {"Windows Kernel/DiskIO/", "FileName", file_path},
    {"Windows Kernel/Memory/", "FileName", file_path},
    {"Windows Kernel/Thread/Start", "ParentThreadID", parent_thread},
    {"Windows Kernel/Thread/Start", "ParentProcessID", parent_process},
    {"Windows Kernel/Thread/Stop", "ParentThreadID", NULL}, /* always -1 */
    {"Windows Kernel/Thread/Stop", "ParentProcessID", NULL},
    {"Windows Kernel/PerfInfo/Sample", "ProcessorNumber", processor},
    {"Windows Kernel/PerfInfo/Sample", "ExecutingDPC", sample_dpc},
    {"Windows Kernel/PerfInfo/Sample", "ExecutingISR", sample_isr},
    {"Windows Kernel/PerfInfo/Sample", "Priority", sample_priority},
    {"Windows Kernel/PerfInfo/Sample", "Rank", sample_rank},
    {"Windows Kernel/DiskIO/", "Priority", disk_priority},
    {"Windows Kernel/DiskIO/", "IrpFlags", irp_flags},
    {"Windows Kernel/Process/", "Flags", process_flags},
    {"Windows Kernel/UdpIp/", "context", udp_context},
    {"Windows Kernel/UdpIp/", "dsize", NULL},
    {"Windows Kernel/Image/", "BuildTime", build_time},
    {"KernelTraceControl/ImageID", "BuildTime", build_time},
    {"Windows Kernel/Image/", "FileName", image_path},
    {"Microsoft-Windows-Kernel-File/Create", "FileName", payload_path},
    {"Microsoft-Windows-Kernel-File/Create", "CreateOptions", create_options},
    {"Microsoft-Windows-Kernel-File/Create", "CreateDisposition", NULL},
    {"Microsoft-Windows-DotNETRuntime", "ModuleILFileName", file_of_path},
    {"Microsoft-Windows-DotNETRuntime/GC/HeapStats", "TotalHeapSize", NULL}, /* sums */
    {"Microsoft-Windows-DotNETRuntime/GC/HeapStats", "TotalPromoted", NULL},
    {"Microsoft-Windows-DotNETRuntime/GC/HeapStats", "Depth", NULL},
    {"Microsoft-Windows-DotNETRuntime/GC/FinalizeObject", "TypeName", NULL}, /* of the type id */
    {"PerfView/ManifestData", "PayloadLength", payload_length},
    {"System.", "PayloadLength", payload_length},
    {"Windows Kernel/SystemConfig/Services", "ProcessName", NULL}, /* of the pid, without ".exe" */
    {"KernelTraceControl/ImageID", "ProcessID", NULL},             /* always 0 */
};

/* Differences that are TraceEvent's, or that we mean. */
static const struct {
    const char *event, *field, *reason;
} explained[] = {
    {"Windows Kernel/DiskIO/FlushBuffers", "PID",
     "version 3 names the issuer at the end; TraceEvent looks for it elsewhere"},
    {"Windows Kernel/DiskIO/WriteInit", "PID",
     "version 3 names the issuer; TraceEvent takes the record's own ids"},
    {"Windows Kernel/SystemConfig/PnP", "PdoName",
     "version 3 has it already; TraceEvent shows it from version 4 on"},
    {"Windows Kernel/SystemConfig/IRQ", "IRQNum",
     "version 3 has the processor group in between; TraceEvent shows that"},
    {"Microsoft-Windows-DotNETRuntime/AppDomainResourceManagement/ThreadCreated", "Flags",
     "the schema has names for the numbers TraceEvent shows"},
    {"solar_system/PrimitiveTypesTest", "system_time_type",
     "the milliseconds; the FILETIME of the same moment beside it is equal to ours"},
};

/* Records that name their process in the payload only, or another one than the header's. */
static const char *const payload_pid[] = {
    "Windows Kernel/Process/PerfCtr",
    "Windows Kernel/SystemConfig/Services",
};

/* -- one line and one record -- */

/* Times an explanation was needed, by record offered. */
static unsigned explanations[COUNT(explained)];

static bool is_explained(const char *event, const char *field)
{
    for (size_t i = 0; i < COUNT(explained); i++) {
        if (strcmp(explained[i].event, event) == 0 && strcmp(explained[i].field, field) == 0) {
            explanations[i]++;
            return true;
        }
    }
    return false;
}

static void wrong(struct baseline_outcome *o, const char *event, const char *what,
                  const char *theirs, const char *ours)
{
    if (is_explained(event, what)) {
        o->explained++;
        return;
    }
    if (o->n_wrong < BASELINE_WRONG_MAX) {
        (void)snprintf(o->wrong[o->n_wrong], BASELINE_WRONG_TEXT, "%s: \"%s\" there, \"%s\" here",
                       what, theirs, ours);
    }
    o->n_wrong++;
}

static void judge(struct baseline_outcome *o, const char *event, const struct baseline_field *f,
                  enum baseline_verdict verdict, enum baseline_absence absence, const char *ours)
{
    if (verdict == BASELINE_SAME) {
        o->same++;
    } else if (verdict == BASELINE_NAMED) {
        o->absent[absence]++;
    } else {
        wrong(o, event, f->name, f->text, ours);
    }
}

static bool compare_made(struct baseline_outcome *o, const struct baseline_record *rec,
                         const char *event, const struct baseline_field *f)
{
    char ours[TEXT_BYTES];

    for (size_t i = 0; i < COUNT(made); i++) {
        if (starts(event, made[i].event) && strcmp(made[i].field, f->name) == 0) {
            judge(o, event, f, made[i].check ? made[i].check(rec, f->text) : BASELINE_NAMED,
                  BASELINE_MADE,
                  rec->values->n
                      ? values_print(ours, sizeof ours, &rec->values->rows[rec->values->n - 1])
                      : "");
            return true;
        }
    }
    return false;
}

static void compare_field(struct baseline_outcome *o, const struct baseline_record *rec,
                          const char *event, const struct baseline_field *f)
{
    const struct value *v;
    char ours[TEXT_BYTES];

    if (compare_made(o, rec, event, f)) {
        return;
    }
    v = field_of(rec, event, f->name);
    if (!v) {
        o->absent[*f->text == 0                           ? BASELINE_EMPTY
                  : rec->described.by == DESCRIBE_NOTHING ? BASELINE_NO_SCHEMA
                                                          : BASELINE_NO_FIELD]++;
        return;
    }
    judge(o, event, f, baseline_compare(f->text, v), BASELINE_OWN_NAME,
          values_print(ours, sizeof ours, (const struct values_row *)(const void *)v));
}

/* The process agent charges the record to; where that is nobody's business, the one the record
 * names. */
static int64_t pid_of(const struct baseline_record *rec, const char *event)
{
    const struct value *named = field_of(rec, "", "ProcessId");
    uint32_t pid = rec->raw->pid;

    if (rec->raw->form != RAW_CLASSIC) {
        return pid;
    }

    for (size_t i = 0; named && i < COUNT(payload_pid); i++) {
        if (starts(event, payload_pid[i])) {
            return (int64_t)named->v.u;
        }
    }
    if (rec->owner_pid != EVENT_NO_ID) {
        pid = rec->owner_pid;
    } else if (rec->fact && rec->fact->kind <= EV_PROC_DEFUNCT) {
        pid = rec->fact->u.proc.info.id.pid;
    } else if (rec->fact && rec->fact->kind <= EV_THREAD_LAST) {
        pid = rec->fact->u.thread.pid;
    } else if (rec->fact && rec->fact->kind <= EV_IMAGE_LAST) {
        pid = rec->fact->u.image.pid;
    } else if (rec->fact && rec->fact->kind == EV_NET) {
        pid = rec->fact->u.net.pid;
    }
    return pid == EVENT_NO_ID ? -1 : (int64_t)pid;
}

/* A schema's provider goes by the name TraceEvent gives it. */
static void compare_provider(struct baseline_outcome *o, const char *event,
                             const struct described *d)
{
    char ours[TEXT_BYTES];

    if (d->by > DESCRIBE_LAYOUT &&
        (strncmp(event, d->provider.p, d->provider.n) != 0 || event[d->provider.n] != '/')) {
        (void)snprintf(ours, sizeof ours, "%.*s", (int)d->provider.n, d->provider.p);
        wrong(o, event, "provider", event, ours);
    }
}

/* TraceEvent shows names without extension, and 20 characters of them. */
static void compare_name(struct baseline_outcome *o, const struct baseline_line *l,
                         const struct baseline_record *rec)
{
    struct value v = {.kind = VALUE_TEXT, .v.text = rec->name_of(rec->ctx, (uint32_t)l->pid)};
    char ours[TEXT_BYTES];

    if (!*l->process || strncmp(l->process, "Process(", 8) == 0 || v.v.text.n == 0) {
        o->absent[BASELINE_EMPTY]++;
        return;
    }
    for (size_t n = v.v.text.n; n > 0; n--) {
        if (v.v.text.p[n - 1] == '.') {
            v.v.text.n = n - 1;
            break;
        }
    }
    (void)snprintf(ours, sizeof ours, "%.*s", (int)v.v.text.n, v.v.text.p);
    if (baseline_compare(l->process, &v) == BASELINE_SAME) {
        o->same++;
    } else {
        wrong(o, l->event, "PName", l->process, ours);
    }
}

void baseline_fields_compare(struct baseline_outcome *o, const struct baseline_line *l,
                             const struct baseline_record *rec)
{
    int64_t pid = pid_of(rec, l->event);
    char theirs[32], ours[32];

    if (pid != l->pid) {
        (void)snprintf(theirs, sizeof theirs, "%" PRId64, l->pid);
        (void)snprintf(ours, sizeof ours, "%" PRId64, pid);
        wrong(o, l->event, "PID", theirs, ours);
    } else if (pid >= 0) {
        compare_name(o, l, rec);
    }
    if (rec->described_err == ERR_CORRUPT) {
        wrong(o, l->event, "payload", "whole", "damaged");
    }
    compare_provider(o, l->event, &rec->described);
    for (size_t i = 0; i < l->n_fields; i++) {
        compare_field(o, rec, l->event, &l->fields[i]);
    }
}

bool baseline_fields_explained(void)
{
    bool all = true;

    for (size_t i = 0; i < COUNT(explained); i++) {
        printf("%s, %s%s: %s\n", explained[i].event, explained[i].field,
               explanations[i] ? "" : " (never met)", explained[i].reason);
        all = all && explanations[i];
    }
    return all;
}
