/* `etl modules`: the images that processes had loaded: version, size, and the identity of their
 * symbols. Image records say where one was loaded and from which path; merging tools put records
 * of ImageID behind them: 0 size and stamp, 36 and 37 the identity (RSDS) of its symbols, by
 * process and base address; 64 the version, by size and stamp. A recording that was not merged has
 * no identities.
 * Bounds: IMAGES_MAX loads, VERSIONS_MAX versions, TEXTS_N_MAX paths and
 * names of TEXTS_MAX bytes. */
#include <stdlib.h>
#include <string.h>

#include "agent/etl/etl_commands.h"
#include "agent/etl/etl_fields.h"
#include "agent/etl/etl_range.h"
#include "agent/source/etw_guid.h"
#include "common/base/arena.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"

#define IMAGES_MAX   131072
#define VERSIONS_MAX 16384
#define TEXTS_MAX    ((size_t)16 << 20)
#define TEXTS_N_MAX  (2 * IMAGES_MAX)

struct version {
    uint32_t size, stamp;
    const char *text;
};

struct image {
    uint64_t base, size;
    uint32_t pid, stamp, age;
    const struct instance *owner;
    const char *path, *original, *pdb; /* NULL: not known; its own name of the file */
    uint8_t guid[16];                  /* as stored; of the symbols */
    uint64_t processes;                /* after joining */
};

struct etl_modules {
    struct etl_job *job;
    struct etl_walk *walk;
    struct etl_range range;
    const char *dirs[OPT_MANY_MAX]; /* --symbols */
    size_t n_dirs;
    struct image *all;
    struct version *versions;
    size_t n, cap, n_versions, cap_versions;
    struct map by_base, texts_by_hash;
    struct arena texts;
    uint64_t seed, no_room;
    struct etl_fields fields;
};

/* -- tables -- */

/* One copy of equal texts. NULL: no room. */
static const char *text_keep(struct etl_modules *m, struct str text)
{
    uint64_t hash = hash_bytes(text.p, text.n, m->seed), place;
    char *p;

    for (; (place = map_get(&m->texts_by_hash, hash)) != 0; hash++) {
        p = (char *)(uintptr_t)place;
        if (str_eq(str_make(p), text)) {
            return p;
        }
    }
    p = text.n && m->texts_by_hash.n < TEXTS_N_MAX && map_reserve(&m->texts_by_hash) == ERR_OK
            ? arena_alloc(&m->texts, text.n + 1)
            : NULL;
    if (!p) {
        m->no_room += text.n > 0;
        return NULL;
    }
    memcpy(p, text.p, text.n);
    p[text.n] = '\0';
    (void)map_put(&m->texts_by_hash, hash, (uint64_t)(uintptr_t)p);
    return p;
}

/* A recording chooses them: as they are, they could all fall into one place of the map. */
static uint64_t base_key(const struct etl_modules *m, uint32_t pid, uint64_t base)
{
    return (base ^ (uint64_t)pid << 44) * (m->seed | 1);
}

static struct image *image_find(struct etl_modules *m, uint32_t pid, uint64_t base)
{
    uint64_t place = map_get(&m->by_base, base_key(m, pid, base));

    return place ? &m->all[place - 1] : NULL;
}

static struct image *image_add(struct etl_modules *m, uint32_t pid, uint64_t base)
{
    if (VEC_ROOM(&m->all, &m->cap, m->n + 1, IMAGES_MAX) || map_reserve(&m->by_base)) {
        m->no_room++;
        return NULL;
    }
    m->all[m->n] =
        (struct image){.base = base, .pid = pid, .owner = instances_owner(m->walk->table, pid)};
    (void)map_put(&m->by_base, base_key(m, pid, base), m->n + 1);
    return &m->all[m->n++];
}

/* -- records -- */

static void on_image(struct etl_modules *m, const struct ev_image *ev)
{
    struct image *i = image_find(m, ev->pid, ev->base);
    const char *path = text_keep(m, ev->path);

    if (i && i->size && i->size != ev->size) {
        i = NULL; /* another one at that place */
    }
    i = i ? i : image_add(m, ev->pid, ev->base);
    if (!i) {
        return;
    }
    if (path && (!i->path || strlen(path) > strlen(i->path))) {
        i->path = path; /* loads and unloads spell it differently, with and without the volume */
    }
    i->size = ev->size;
    i->stamp = ev->time_stamp ? ev->time_stamp : i->stamp;
}

static void on_symbols(struct etl_modules *m, struct image *i)
{
    const struct etl_fields_one *guid = etl_fields_get(&m->fields, "GuidSig");

    if (guid && guid->text.n == 16) {
        memcpy(i->guid, guid->text.p, 16);
        i->age = (uint32_t)etl_fields_uint(&m->fields, "Age", 0);
        i->pdb = text_keep(m, etl_fields_text(&m->fields, "PDBFileName"));
    }
}

static void on_version(struct etl_modules *m)
{
    struct version v = {.size = (uint32_t)etl_fields_uint(&m->fields, "ImageSize", 0),
                        .stamp = (uint32_t)etl_fields_uint(&m->fields, "TimeDateStamp", 0),
                        .text = text_keep(m, etl_fields_text(&m->fields, "FileVersion"))};

    if (!v.text) {
        return;
    }
    if (VEC_ROOM(&m->versions, &m->cap_versions, m->n_versions + 1, VERSIONS_MAX)) {
        m->no_room++;
        return;
    }
    m->versions[m->n_versions++] = v;
}

static void on_identity(struct etl_modules *m, const struct raw_event *raw)
{
    struct image *i;
    uint32_t pid;
    uint64_t base;

    if (etl_fields_read(&m->fields, m->walk, raw) != ERR_OK) {
        return;
    }
    if (raw->opcode == 64) {
        on_version(m);
        return;
    }
    pid = (uint32_t)etl_fields_uint(&m->fields, "ProcessId", EVENT_NO_ID);
    base = etl_fields_uint(&m->fields, "ImageBase", 0);
    i = image_find(m, pid, base);
    i = i ? i : image_add(m, pid, base);
    if (i && raw->form == RAW_MANIFEST) { /* our own recorder's, which has it all */
        i->stamp = (uint32_t)etl_fields_uint(&m->fields, "TimeDateStamp", i->stamp);
        i->size = i->size ? i->size : etl_fields_uint(&m->fields, "ImageSize", 0);
        i->path = i->path ? i->path : text_keep(m, etl_fields_text(&m->fields, "FileName"));
        on_symbols(m, i);
    } else if (i && raw->opcode == 0) {
        i->stamp = (uint32_t)etl_fields_uint(&m->fields, "TimeDateStamp", i->stamp);
        i->size = i->size ? i->size : etl_fields_uint(&m->fields, "ImageSize", 0);
        i->original = text_keep(m, etl_fields_text(&m->fields, "OriginalFileName"));
    } else if (i && (raw->opcode == 36 || !i->pdb)) {
        on_symbols(m, i); /* native ones count where there are both */
    }
}

static void on_record(void *ctx, const struct etl_walk_record *r)
{
    static const uint8_t image_id[16] = ETW_CONTROL_IMAGE_ID, own[16] = ETW_PROVIDER_OWN;
    struct etl_modules *m = ctx;
    const struct raw_event *raw = r->raw;

    if (raw->form == RAW_CLASSIC && memcmp(raw->guid, image_id, 16) == 0) {
        if (raw->opcode == 0 || raw->opcode == 36 || raw->opcode == 37 || raw->opcode == 64) {
            on_identity(m, raw); /* they stand at the end */
        }
    } else if (raw->form == RAW_MANIFEST && raw->opcode == ETW_OWN_IMAGE &&
               memcmp(raw->guid, own, sizeof own) == 0) {
        on_identity(m, raw);
    } else if (etl_range_takes(&m->range, m->walk, r) && r->ev &&
               (r->ev->kind == EV_IMAGE_LOAD || r->ev->kind == EV_IMAGE_FOUND ||
                r->ev->kind == EV_IMAGE_LAST || r->ev->kind == EV_IMAGE_UNLOAD)) {
        on_image(m, &r->ev->u.image);
    }
}

/* -- rows: an image, whoever had it -- */

enum { FILE_NAME, MODULE, VERSION, SIZE, STAMP, SYMBOLS, PROCESSES, IN, PATH, COLUMNS };

static const struct table_column columns[COLUMNS] = {
    [FILE_NAME] = {"file", "FILE", TABLE_TEXT},
    [MODULE] = {"module", "MODULE", TABLE_TEXT},
    [VERSION] = {"version", "VERSION", TABLE_TEXT},
    [SIZE] = {"size", "SIZE", TABLE_BYTES},
    [STAMP] = {"time_stamp", NULL, TABLE_HEX},
    [SYMBOLS] = {"symbols", "SYMBOLS", TABLE_TEXT},
    [PROCESSES] = {"processes", "LOADS", TABLE_COUNT},
    [IN] = {"in", "IN", TABLE_TEXT},
    [PATH] = {"path", NULL, TABLE_TEXT},
};

static struct str base_name(const char *path)
{
    struct str s = str_make(path);

    for (size_t i = s.n; i-- > 0;) {
        if (s.p[i] == '\\' || s.p[i] == '/') {
            return (struct str){s.p + i + 1, s.n - i - 1};
        }
    }
    return s;
}

static const char *path_of(const struct image *i)
{
    return i->path ? i->path : i->original;
}

static int compare_paths(const char *a, const char *b)
{
    return !a || !b ? !a - !b : strcmp(a, b);
}

static int by_identity(const void *pa, const void *pb)
{
    const struct image *a = pa, *b = pb;
    int d = compare_paths(path_of(a), path_of(b));

    if (!d) {
        d = memcmp(a->guid, b->guid, sizeof a->guid);
    }
    if (!d) {
        d = (a->size > b->size) - (a->size < b->size);
    }
    return d ? d : (a->stamp > b->stamp) - (a->stamp < b->stamp);
}

/* "name.pdb/GUIDAGE/name.pdb", as symbol stores have it; empty: not known. */
static void put_symbols(struct buf *out, const struct image *i)
{
    struct str pdb = base_name(i->pdb ? i->pdb : "");
    static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};

    buf_reset(out);
    if (!pdb.n) {
        return;
    }
    buf_put(out, pdb.p, pdb.n);
    buf_put_u8(out, '/');
    for (size_t k = 0; k < 16; k++) {
        buf_printf(out, "%02X", i->guid[order[k]]);
    }
    buf_printf(out, "%X/", i->age);
    buf_put(out, pdb.p, pdb.n);
}

static int by_size_and_stamp(const void *pa, const void *pb)
{
    const struct version *a = pa, *b = pb;

    if (a->size != b->size) {
        return a->size < b->size ? -1 : 1;
    }
    return (a->stamp > b->stamp) - (a->stamp < b->stamp);
}

static const char *version_of(const struct etl_modules *m, const struct image *i)
{
    const struct version key = {.size = (uint32_t)i->size, .stamp = i->stamp}, *found;

    if (!m->n_versions || !i->stamp || i->size > UINT32_MAX) {
        return "";
    }
    found = bsearch(&key, m->versions, m->n_versions, sizeof key, by_size_and_stamp);
    return found ? found->text : "";
}

static enum err put_image(struct etl_modules *m, struct table *sheet, const char *file,
                          const struct image *i, struct buf text[2])
{
    struct table_cell cells[COLUMNS];
    struct str owner = i->owner ? i->owner->info.name : str_make("");

    put_symbols(&text[0], i);
    buf_reset(&text[1]);
    buf_put(&text[1], owner.p, owner.n);
    if (i->processes > 1) {
        buf_printf(&text[1], " +%llu", (unsigned long long)i->processes - 1);
    }
    cells[FILE_NAME] = table_string(str_make(file));
    cells[MODULE] = table_string(base_name(path_of(i) ? path_of(i) : ""));
    cells[VERSION] = table_string(str_make(version_of(m, i)));
    cells[SIZE] = table_number(i->size > 0, (int64_t)i->size);
    cells[STAMP] = table_number(i->stamp > 0, i->stamp);
    cells[SYMBOLS] = table_string((struct str){(const char *)text[0].p, text[0].n});
    cells[PROCESSES] = table_count(i->processes);
    cells[IN] = table_string((struct str){(const char *)text[1].p, text[1].n});
    cells[PATH] = table_string(str_make(i->path));
    return table_row(sheet, cells);
}

/* Whether one of the symbol stores has them. */
static bool is_there(const struct etl_modules *m, const char *symbols)
{
    bool found = false;

    for (size_t i = 0; i < m->n_dirs && !found; i++) {
        char *whole = os_path_join(m->dirs[i], symbols);

        found = whole && os_exists(whole);
        mem_free(whole);
    }
    return found;
}

/* One row for each image, whichever processes had it. */
static void join(struct etl_modules *m)
{
    size_t n = 0;

    if (m->n_versions) {
        qsort(m->versions, m->n_versions, sizeof *m->versions, by_size_and_stamp);
    }
    if (m->n) {
        qsort(m->all, m->n, sizeof *m->all, by_identity);
    }
    for (size_t i = 0; i < m->n; i++) {
        if (!etl_range_process(&m->range, m->all[i].pid, m->all[i].owner)) {
            continue;
        }
        if (n && by_identity(&m->all[n - 1], &m->all[i]) == 0) {
            m->all[n - 1].processes++;
        } else {
            m->all[n] = m->all[i];
            m->all[n++].processes = 1;
        }
    }
    m->n = n;
}

static enum err put_all(struct etl_modules *m, struct table *sheet, const char *file)
{
    bool missing = opt_flag(m->job->args, "missing-symbols");
    struct buf text[2];
    size_t shown = 0;
    enum err e = ERR_OK;

    buf_init(&text[0], 4096);
    buf_init(&text[1], 4096);
    for (size_t i = 0; i < m->n && !e && etl_job_out_ok(m->job); i++) {
        put_symbols(&text[0], &m->all[i]);
        if (!missing || (text[0].n && !is_there(m, buf_cstr(&text[0])))) {
            e = put_image(m, sheet, file, &m->all[i], text);
            shown++;
        }
    }
    buf_fini(&text[0]);
    buf_fini(&text[1]);
    if (shown == 0) {
        etl_job_note(sheet, file,
                     m->n ? "no image matches" : "no images are recorded" ETL_JOB_PROVIDERS);
    }
    if (m->no_room) {
        etl_job_note(sheet, file, "%llu images or names had no room",
                     (unsigned long long)m->no_room);
    }
    return e;
}

/* -- the command -- */

static void modules_reset(struct etl_modules *m)
{
    m->n = m->n_versions = 0;
    m->no_room = 0;
    map_clear(&m->by_base);
    map_clear(&m->texts_by_hash);
    arena_fini(&m->texts);
    arena_init(&m->texts, TEXTS_MAX);
    etl_range_begin(&m->range);
}

static enum err modules_part(struct etl_job *job, size_t part, struct table *sheet, void *ctx)
{
    struct etl_modules *m = ctx;
    struct etl_walk_conf conf = {.names = true, .progress = true, .record = on_record, .ctx = m};
    enum err e = ERR_OK;

    modules_reset(m);
    if (etl_job_open(job, part, &conf, &m->walk) == ERR_OK) {
        (void)etl_job_walk(job, m->walk);
        join(m);
        e = put_all(m, sheet, etl_job_part_name(job, part));
        etl_walk_close(m->walk);
    }
    return e;
}

static enum err modules_run(struct etl_job *job, struct errmsg *why)
{
    static const char *const yields[] = {"LOADS", "SIZE", "FILE", "IN", NULL};
    struct etl_modules *m = mem_zalloc(sizeof *m);
    const struct etl_job_list list = {columns, COLUMNS, yields, "the modules", modules_part, m};
    enum err e;

    if (!m) {
        return ERR_NOMEM;
    }
    m->job = job;
    arena_init(&m->texts, TEXTS_MAX);
    err_ignore(os_random(&m->seed, sizeof m->seed)); /* without it only slower */
    e = etl_range_parse(&m->range, job, why);
    e = e ? e : etl_job_dirs(job, "symbols", m->dirs, &m->n_dirs, why);
    e = e ? e : etl_job_rows(job, &list, why);
    arena_fini(&m->texts);
    map_fini(&m->by_base);
    map_fini(&m->texts_by_hash);
    mem_free(m->versions);
    mem_free(m->all);
    mem_free(m);
    return e;
}

static const struct opt opts[] = {
    {"missing-symbols", 0, NULL, "only images with the identity of symbols that are not there",
     false},
    {"symbols", 0, "DIR", "a symbol store: name.pdb/GUIDAGE/name.pdb; may be repeated", true},
    ETL_RANGE_OPTS,
    ETL_JOB_OPT_LIMIT,
    ETL_JOB_OPTS};

static const struct opt_command modules_opts = {
    .program = ETL_JOB_PROGRAM,
    .name = "modules",
    .brief = "which images were loaded: version, size, identity of symbols, by whom",
    .operands = "FILE...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet-etl modules trace.etl --pid 3676\n"
        "  procfleet-etl modules trace.etl --missing-symbols --format jsonl | jq -r .symbols\n"
        "  procfleet-etl modules trace.etl --missing-symbols --symbols ./pdb\n",
};

const struct etl_command etl_modules_command = {&modules_opts, NULL, modules_run};
