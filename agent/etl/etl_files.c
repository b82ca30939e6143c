/* `etl files`: which files were opened, read and written, and what the disk had to do for them. I/O
 * names a file by the address of its object; names come with the object's creation, or for those
 * that were open all along in the rundown at the very end, so that sums are kept by object and get
 * their name last. An object's address is used again: a new name for it begins a new sum.
 * Bounds: OBJECTS_MAX objects, NAMES_MAX bytes of names; over them I/O is counted as one row.
 * Where classic records come, what manifest providers tell of the same is left out. */
#include <stdlib.h>
#include <string.h>

#include "agent/etl/etl_commands.h"
#include "agent/etl/etl_fields.h"
#include "agent/etl/etl_range.h"
#include "agent/source/etw_guid.h"
#include "common/base/arena.h"
#include "common/base/clk.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"

#define OBJECTS_MAX 131072
#define NAMES_MAX   ((size_t)20 << 20)
#define OWNERS_MAX  3
#define NO_PLACE    (OBJECTS_MAX + 1)

struct sums {
    uint64_t opens, reads, writes, bytes; /* asked of the file system */
    uint64_t disk_requests, disk_bytes;
    int64_t disk_ns;
};

struct file {
    uint64_t object;
    const char *name; /* NULL: not known */
    struct sums sums;
    const struct instance *owners[OWNERS_MAX];
    uint32_t more_owners; /* times another one than these */
};

struct etl_files {
    struct etl_job *job;
    struct etl_walk *walk;
    struct etl_range range;
    struct file *all;
    size_t n, cap;
    struct map latest; /* object → index + 1 */
    struct arena names;
    struct sums no_room;
    uint64_t names_dropped, seed;
    bool classic, classic_disk;
    unsigned by, depth;
    struct etl_fields fields;
};

/* -- objects -- */

/* A recording chooses its addresses: as they are, they could all fall into one place. Multiplied
 * by an odd number they stay different. */
static uint64_t key_of(const struct etl_files *f, uint64_t object)
{
    return object * (f->seed | 1);
}

static struct file *file_add(struct etl_files *f, uint64_t object)
{
    if (VEC_ROOM(&f->all, &f->cap, f->n + 1, OBJECTS_MAX) || map_reserve(&f->latest)) {
        return NULL;
    }
    memset(&f->all[f->n], 0, sizeof f->all[f->n]);
    f->all[f->n].object = object;
    (void)map_put(&f->latest, key_of(f, object), f->n + 1);
    return &f->all[f->n++];
}

/* NULL: no room, or it is another file by now that had none. */
static struct file *file_of(struct etl_files *f, uint64_t object)
{
    uint64_t place = map_get(&f->latest, key_of(f, object));

    return place == NO_PLACE ? NULL : place ? &f->all[place - 1] : file_add(f, object);
}

static struct sums *sums_of(struct etl_files *f, uint64_t object, const struct instance *owner)
{
    struct file *file = object ? file_of(f, object) : NULL;
    size_t i = 0;

    if (!file) {
        return &f->no_room;
    }
    while (owner && i < OWNERS_MAX && file->owners[i] && file->owners[i] != owner) {
        i++;
    }
    if (owner && i < OWNERS_MAX) {
        file->owners[i] = owner;
    } else if (owner) {
        file->more_owners++;
    }
    return &file->sums;
}

/* `again`: the name of an object that is new, whatever its address had been before. */
static void file_name(struct etl_files *f, uint64_t object, struct str name, bool again)
{
    struct file *file = object && name.n ? file_of(f, object) : NULL;
    char *p;

    if (!object || !name.n || (file && file->name && str_eq(str_make(file->name), name))) {
        return;
    }
    if (file && file->name && !again) {
        return;
    }
    if (file && file->name) {
        file = file_add(f, object);
        if (!file) { /* it is no longer the one before */
            (void)map_put(&f->latest, key_of(f, object), NO_PLACE);
        }
    }
    if (!file) {
        f->names_dropped++;
        return;
    }
    p = arena_alloc(&f->names, name.n + 1);
    if (!p) {
        f->names_dropped++;
        return;
    }
    memcpy(p, name.p ? name.p : "", name.n);
    p[name.n] = '\0';
    file->name = p;
}

/* -- records -- */

static const uint8_t file_io[16] = ETW_CLASS_FILE_IO;
static const uint8_t kernel_file[16] = ETW_PROVIDER_KERNEL_FILE;

static void on_disk(struct etl_files *f, const struct etl_walk_record *r)
{
    struct sums *s;

    f->classic_disk |= !r->ev->u.disk.manifest;
    if (f->classic_disk && r->ev->u.disk.manifest) {
        return;
    }
    s = sums_of(f, r->ev->u.disk.file, r->charged);
    s->disk_requests++;
    s->disk_bytes += r->ev->u.disk.bytes;
    s->disk_ns = clk_add(s->disk_ns, r->ev->u.disk.took_ns);
}

static void on_operation(struct etl_files *f, const struct etl_walk_record *r)
{
    const struct ev_file *ev = &r->ev->u.file;
    struct sums *s;

    if (ev->op == FILE_OP_END || !ev->object) {
        return;
    }
    if (ev->op == FILE_CREATE) {
        file_name(f, ev->object, ev->path, true);
    }
    s = sums_of(f, ev->object, r->charged);
    s->opens += ev->op == FILE_CREATE;
    s->reads += ev->op == FILE_READ;
    s->writes += ev->op == FILE_WRITE;
    s->bytes += ev->op == FILE_READ || ev->op == FILE_WRITE ? ev->bytes : 0;
}

/* Names: of classic FileIo 0, 32, 35 and 36, of Kernel-File 10; what is deleted keeps the name it
 * had. */
static bool is_name(const struct raw_event *raw)
{
    if (raw->form == RAW_CLASSIC) {
        return (raw->opcode == 0 || raw->opcode == 32 || raw->opcode == 35 || raw->opcode == 36) &&
               memcmp(raw->guid, file_io, sizeof file_io) == 0;
    }
    return raw->form == RAW_MANIFEST && raw->id == 10 &&
           memcmp(raw->guid, kernel_file, sizeof kernel_file) == 0;
}

static void on_name(struct etl_files *f, const struct raw_event *raw)
{
    const char *object = raw->form == RAW_CLASSIC ? "FileObject" : "FileKey";

    if (etl_fields_read(&f->fields, f->walk, raw) == ERR_OK) {
        file_name(f, etl_fields_uint(&f->fields, object, 0),
                  etl_fields_text(&f->fields, "FileName"),
                  raw->form == RAW_CLASSIC && raw->opcode == 32);
    }
}

/* Microsoft-Windows-Kernel-File: 12 opened, 30 told beside 12 when the file is new, 15 read, 16
 * written. Files that were open all along are known by their key only. */
static void on_manifest(struct etl_files *f, const struct etl_walk_record *r)
{
    uint64_t object, key;
    struct str name;
    struct sums *s;

    if (etl_fields_read(&f->fields, f->walk, r->raw) != ERR_OK) {
        return;
    }
    object = etl_fields_uint(&f->fields, "FileObject", 0);
    key = etl_fields_uint(&f->fields, "FileKey", 0);
    name = etl_fields_text(&f->fields, "FileName");
    if (r->raw->id == 12 || r->raw->id == 30) {
        file_name(f, object, name, true);
        sums_of(f, object, r->charged)->opens += r->raw->id == 12;
        return;
    }
    s = sums_of(f, map_get(&f->latest, key_of(f, object)) ? object : key, r->charged);
    s->reads += r->raw->id == 15;
    s->writes += r->raw->id == 16;
    s->bytes += etl_fields_uint(&f->fields, "IOSize", 0);
}

static void on_record(void *ctx, const struct etl_walk_record *r)
{
    struct etl_files *f = ctx;
    const struct raw_event *raw = r->raw;

    if (is_name(raw)) {
        on_name(f, raw); /* wherever it stands: it may be about what was before */
    }
    if (!etl_range_takes(&f->range, f->walk, r) ||
        !etl_range_process(&f->range, r->charged ? r->charged->info.id.pid : raw->pid,
                           r->charged)) {
        return;
    }
    if (r->ev && (r->ev->kind == EV_DISK_READ || r->ev->kind == EV_DISK_WRITE)) {
        on_disk(f, r);
    } else if (r->ev && r->ev->kind == EV_FILE_OP && raw->form == RAW_CLASSIC) {
        f->classic = true;
        on_operation(f, r);
    } else if (raw->form == RAW_MANIFEST && !f->classic &&
               memcmp(raw->guid, kernel_file, 16) == 0 &&
               (raw->id == 12 || raw->id == 15 || raw->id == 16 || raw->id == 30)) {
        on_manifest(f, r);
    }
}

/* -- rows: objects of one name, or below one directory -- */

enum {
    FILE_NAME,
    PATH,
    OPENS,
    READS,
    WRITES,
    BYTES,
    REQUESTS,
    DISK_BYTES,
    DISK_TIME,
    PROCESSES,
    COLUMNS
};

static const struct table_column columns[COLUMNS] = {
    [FILE_NAME] = {"file", "RECORDING", TABLE_TEXT},
    [PATH] = {"path", "FILE", TABLE_TEXT},
    [OPENS] = {"opens", "OPENS", TABLE_COUNT},
    [READS] = {"reads", "READS", TABLE_COUNT},
    [WRITES] = {"writes", "WRITES", TABLE_COUNT},
    [BYTES] = {"bytes", "BYTES", TABLE_BYTES},
    [REQUESTS] = {"disk_requests", "DISK_REQS", TABLE_COUNT},
    [DISK_BYTES] = {"disk_bytes", "DISK_BYTES", TABLE_BYTES},
    [DISK_TIME] = {"disk_time", "DISK_TIME", TABLE_NS},
    [PROCESSES] = {"processes", "PROCESSES", TABLE_TEXT},
};

/* The first parts of a path: its directory at that depth, or all of it with depth 0. */
static struct str cut_path(const char *name, unsigned depth)
{
    struct str s = str_make(name);
    unsigned parts = 0;

    for (size_t i = 1; i < s.n && depth; i++) {
        if (s.p[i] == '\\' && ++parts == depth) {
            s.n = i;
        }
    }
    return s;
}

static const struct etl_files *sorting; /* qsort has no context; one thread */

static int compare_text(struct str a, struct str b)
{
    int d = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);

    return d ? d : (a.n > b.n) - (a.n < b.n);
}

static int by_name(const void *pa, const void *pb)
{
    const struct file *a = pa, *b = pb;

    if (!a->name || !b->name) {
        return !a->name - !b->name;
    }
    return compare_text(cut_path(a->name, sorting->depth), cut_path(b->name, sorting->depth));
}

static uint64_t weight(const struct file *f, unsigned by)
{
    return by == 0   ? f->sums.bytes + f->sums.disk_bytes
           : by == 1 ? (uint64_t)f->sums.disk_ns
                     : f->sums.opens;
}

static int by_weight(const void *pa, const void *pb)
{
    const struct file *a = pa, *b = pb;
    uint64_t wa = weight(a, sorting->by), wb = weight(b, sorting->by);

    if (wa != wb) {
        return wa > wb ? -1 : 1;
    }
    return by_name(pa, pb);
}

static void sums_add(struct sums *to, const struct sums *from)
{
    to->opens += from->opens;
    to->reads += from->reads;
    to->writes += from->writes;
    to->bytes += from->bytes;
    to->disk_requests += from->disk_requests;
    to->disk_bytes += from->disk_bytes;
    to->disk_ns = clk_add(to->disk_ns, from->disk_ns);
}

static void owners_add(struct file *to, const struct file *from)
{
    to->more_owners += from->more_owners;
    for (size_t i = 0; i < OWNERS_MAX && from->owners[i]; i++) {
        size_t k = 0;

        while (k < OWNERS_MAX && to->owners[k] && to->owners[k] != from->owners[i]) {
            k++;
        }
        if (k < OWNERS_MAX) {
            to->owners[k] = from->owners[i];
        } else {
            to->more_owners++;
        }
    }
}

/* Sorted by name; rows of one name become one. */
static void join(struct etl_files *f)
{
    size_t n = 0;

    sorting = f;
    if (f->n) {
        qsort(f->all, f->n, sizeof *f->all, by_name);
    }
    for (size_t i = 0; i < f->n; i++) {
        if (n && by_name(&f->all[n - 1], &f->all[i]) == 0) {
            sums_add(&f->all[n - 1].sums, &f->all[i].sums);
            owners_add(&f->all[n - 1], &f->all[i]);
        } else {
            f->all[n++] = f->all[i];
        }
    }
    f->n = n;
    if (n) {
        qsort(f->all, n, sizeof *f->all, by_weight);
    }
}

static void put_owners(struct buf *out, const struct file *f)
{
    buf_reset(out);
    for (size_t i = 0; i < OWNERS_MAX && f->owners[i]; i++) {
        buf_put_str(out, i ? " " : "");
        buf_put(out, f->owners[i]->info.name.p, f->owners[i]->info.name.n);
    }
    buf_put_str(out, f->more_owners ? " …" : "");
}

static bool is_empty(const struct sums *s)
{
    return !s->opens && !s->reads && !s->writes && !s->disk_requests;
}

static enum err put_row(struct table *sheet, const char *recording, struct str path,
                        const struct sums *s, struct str owners)
{
    struct table_cell cells[COLUMNS];

    cells[FILE_NAME] = table_string(str_make(recording));
    cells[PATH] = table_string(path);
    cells[OPENS] = table_count(s->opens);
    cells[READS] = table_count(s->reads);
    cells[WRITES] = table_count(s->writes);
    cells[BYTES] = table_count(s->bytes);
    cells[REQUESTS] = table_count(s->disk_requests);
    cells[DISK_BYTES] = table_count(s->disk_bytes);
    cells[DISK_TIME] = table_number(true, s->disk_ns);
    cells[PROCESSES] = table_string(owners);
    return table_row(sheet, cells);
}

static enum err put_all(struct etl_files *f, struct table *sheet, const char *recording,
                        uint64_t limit)
{
    struct buf owners;
    uint64_t shown = 0;
    enum err e = ERR_OK;

    buf_init(&owners, 4096);
    for (size_t i = 0; i < f->n && shown < limit && !e && etl_job_out_ok(f->job); i++) {
        const struct file *file = &f->all[i];

        if (!is_empty(&file->sums)) {
            put_owners(&owners, file);
            e = put_row(sheet, recording,
                        file->name ? cut_path(file->name, f->depth)
                                   : str_make("(no name recorded)"),
                        &file->sums, (struct str){(const char *)owners.p, owners.n});
            shown++;
        }
    }
    buf_fini(&owners);
    if (!e && !is_empty(&f->no_room) && shown < limit) {
        e = put_row(sheet, recording, str_make("(no file, or no room)"), &f->no_room, str_make(""));
        shown++;
    }
    if (shown == 0) {
        etl_job_note(sheet, recording,
                     "nothing is recorded about files and disks, or it does "
                     "not match");
    }
    if (f->names_dropped) {
        etl_job_note(sheet, recording, "%llu names had no room",
                     (unsigned long long)f->names_dropped);
    }
    return e;
}

/* -- the command -- */

static enum err files_part(struct etl_job *job, size_t part, struct table *sheet, void *ctx)
{
    struct etl_files *f = ctx;
    struct etl_walk_conf conf = {.names = true, .progress = true, .record = on_record, .ctx = f};
    struct errmsg why;
    uint64_t limit;
    enum err e = etl_job_number(job, "limit", UINT64_MAX, &limit, &why);

    f->n = 0;
    f->names_dropped = 0;
    f->classic = f->classic_disk = false;
    f->no_room = (struct sums){0};
    map_clear(&f->latest);
    arena_fini(&f->names);
    arena_init(&f->names, NAMES_MAX);
    etl_range_begin(&f->range);
    if (!e && etl_job_open(job, part, &conf, &f->walk) == ERR_OK) {
        (void)etl_job_walk(job, f->walk);
        join(f);
        e = put_all(f, sheet, etl_job_part_name(job, part), limit);
        etl_walk_close(f->walk);
    }
    return e;
}

static const struct opt opts[] = {
    {"by", 'b', "bytes|time|opens", "order: bytes of both kinds, time of disks, opens (bytes)",
     false},
    {"depth", 0, "N", "by directory: the first N parts of paths", false},
    {"limit", 'n', "N", "at most so many of each recording", false},
    ETL_RANGE_OPTS,
    ETL_JOB_OPTS};

static const struct opt_command files_opts = {
    .program = ETL_JOB_PROGRAM,
    .name = "files",
    .brief = "which files were opened, read and written, and what disks did for them",
    .operands = "FILE...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet-etl files trace.etl -n 20\n"
        "  procfleet-etl files trace.etl --by time --name sqlservr.exe\n"
        "  procfleet-etl files trace.etl --depth 4\n"
        "\nBYTES are asked of the file system, DISK_BYTES of disks: what a cache had is not "
        "among the latter.\n",
};

static enum err files_run(struct etl_job *job, struct errmsg *why)
{
    static const char *const yields[] = {"WRITES", "READS", "DISK_REQS", "RECORDING", NULL};
    struct etl_files *f = mem_zalloc(sizeof *f);
    const struct etl_job_list list = {columns, COLUMNS, yields, "the files", files_part, f};
    uint64_t depth = 0, limit;
    enum err e;

    if (!f) {
        return ERR_NOMEM;
    }
    f->job = job;
    err_ignore(os_random(&f->seed, sizeof f->seed)); /* without it only slower */
    f->by = (unsigned)opt_word(job->args, &files_opts, "by", 0);
    arena_init(&f->names, NAMES_MAX);
    e = etl_range_parse(&f->range, job, why);
    if (!e) {
        e = etl_job_number(job, "depth", 0, &depth, why);
    }
    if (!e) {
        e = etl_job_number(job, "limit", UINT64_MAX, &limit, why);
    }
    f->depth = depth < 64 ? (unsigned)depth : 64;
    e = e ? e : etl_job_rows(job, &list, why);
    arena_fini(&f->names);
    map_fini(&f->latest);
    mem_free(f->all);
    mem_free(f);
    return e;
}

const struct etl_command etl_files_command = {&files_opts, NULL, files_run};
