/* `etl providers`: who wrote what into a recording: records, bytes and rate of each kind of event,
 * and by whom it can be named. */
#include <stdlib.h>
#include <string.h>

#include "agent/etl/etl_commands.h"
#include "agent/etl/etl_kinds.h"
#include "agent/etl/etl_range.h"
#include "common/base/glob.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/base/vec.h"
#include "common/os/os.h"

#define KINDS_MAX 8192
#define PIDS_MAX  32 /* different ones of a kind that are counted */
#define TEXT_MAX  160

struct kind {
    uint8_t guid[16];
    uint8_t form, version, opcode, by;
    uint16_t number;
    uint64_t named; /* TraceLogging gives all its events number 0: hash of the name, else 0 */
    char provider[TEXT_MAX], event[TEXT_MAX];
    uint64_t records, bytes;
    uint32_t pids[PIDS_MAX];
    uint8_t n_pids;
};

struct etl_providers {
    struct etl_job *job;
    struct etl_walk *walk;
    struct etl_range range;
    struct kind *all;
    size_t n, cap;
    struct map by_key;
    uint64_t seed, dropped, records, bytes;
    int64_t first_ns, last_ns;
    struct str provider; /* glob, or empty */
};

static uint64_t kind_key(const struct etl_providers *p, const struct raw_event *raw,
                         uint16_t number, uint64_t named)
{
    uint64_t rest = (uint64_t)raw->form << 24 | (uint64_t)raw->version << 16 | number;

    return hash_bytes(raw->guid, sizeof raw->guid, p->seed + rest) ^ named;
}

static bool is_kind(const struct kind *k, const struct raw_event *raw, uint16_t number,
                    uint64_t named)
{
    return k->form == raw->form && k->version == raw->version && k->number == number &&
           k->named == named && memcmp(k->guid, raw->guid, sizeof k->guid) == 0;
}

static uint64_t named_of(struct etl_providers *p, const struct raw_event *raw)
{
    struct described is;

    if (raw->form != RAW_MANIFEST || raw->id != 0 || !raw->ext_n) {
        return 0;
    }
    describe_name(p->walk->describe, raw, &is);
    return is.by == DESCRIBE_TRACELOGGING ? hash_bytes(is.name.p, is.name.n, p->seed) : 0;
}

static void copy_text(char *to, struct str text)
{
    size_t n = utf8_cut(text.p, text.n, TEXT_MAX - 1);

    if (n) {
        memcpy(to, text.p, n);
    }
    to[n] = '\0';
}

static void kind_name(struct etl_providers *p, struct kind *k, const struct raw_event *raw)
{
    struct described is;
    char guid[UUID_TEXT];
    struct buf title;

    describe_name(p->walk->describe, raw, &is);
    k->by = (uint8_t)is.by;
    copy_text(k->provider,
              is.provider.n ? is.provider : str_make(value_text_guid(guid, raw->guid)));
    buf_init(&title, 4 * MODEL_TEXT_MAX);
    etl_kinds_title(&title, &is);
    copy_text(k->event, (struct str){(const char *)title.p, title.n});
    buf_fini(&title);
}

/* The kind of a record; NULL: there is no room for a new one. */
static struct kind *kind_of(struct etl_providers *p, const struct raw_event *raw)
{
    uint16_t number = raw->form == RAW_CLASSIC ? raw->opcode : raw->id;
    uint64_t named = named_of(p, raw), key = kind_key(p, raw, number, named), place;
    struct kind *k;

    for (; (place = map_get(&p->by_key, key)) != 0; key++) {
        if (is_kind(&p->all[place - 1], raw, number, named)) {
            return &p->all[place - 1];
        }
    }
    if (VEC_ROOM(&p->all, &p->cap, p->n + 1, KINDS_MAX) || map_reserve(&p->by_key)) {
        p->dropped++;
        return NULL;
    }
    k = &p->all[p->n++];
    memset(k, 0, sizeof *k);
    memcpy(k->guid, raw->guid, sizeof k->guid);
    k->form = raw->form;
    k->version = raw->version;
    k->number = number;
    k->named = named;
    (void)map_put(&p->by_key, key, p->n);
    kind_name(p, k, raw);
    return k;
}

static void count_pid(struct kind *k, uint32_t pid)
{
    size_t i = 0;

    while (i < k->n_pids && k->pids[i] != pid) {
        i++;
    }
    if (i == k->n_pids && i < PIDS_MAX && pid != EVENT_NO_ID) {
        k->pids[k->n_pids++] = pid;
    }
}

static void on_record(void *ctx, const struct etl_walk_record *r)
{
    struct etl_providers *p = ctx;
    uint32_t pid = r->charged ? r->charged->info.id.pid : r->raw->pid;
    struct kind *k;

    if (!etl_range_takes(&p->range, p->walk, r) || !etl_range_process(&p->range, pid, r->charged)) {
        return;
    }
    p->first_ns = p->records == 0 || r->raw->wall_ns < p->first_ns ? r->raw->wall_ns : p->first_ns;
    p->last_ns = p->records == 0 || r->raw->wall_ns > p->last_ns ? r->raw->wall_ns : p->last_ns;
    p->records++;
    p->bytes += r->raw->payload_n;
    k = kind_of(p, r->raw);
    if (k) {
        k->records++;
        k->bytes += r->raw->payload_n;
        count_pid(k, pid);
    }
}

/* -- printing -- */

enum {
    FILE_NAME,
    PROVIDER,
    EVENT,
    KIND,
    NUMBER,
    VERSION,
    RECORDS,
    BYTES,
    RATE,
    SHARE,
    SCHEMA,
    PROCESSES,
    COLUMNS
};

static const struct table_column columns[COLUMNS] = {
    [FILE_NAME] = {"file", "FILE", TABLE_TEXT},
    [PROVIDER] = {"provider", "PROVIDER", TABLE_TEXT},
    [EVENT] = {"event", "EVENT", TABLE_TEXT},
    [KIND] = {"kind", NULL, TABLE_WORD},
    [NUMBER] = {"id", "ID", TABLE_ID},
    [VERSION] = {"version", "V", TABLE_ID},
    [RECORDS] = {"records", "RECORDS", TABLE_COUNT},
    [BYTES] = {"bytes", "BYTES", TABLE_BYTES},
    [RATE] = {"records_per_second", "PER_S", TABLE_COUNT},
    [SHARE] = {"share", "SHARE", TABLE_PERMILLE},
    [SCHEMA] = {"schema", "SCHEMA", TABLE_WORD},
    [PROCESSES] = {"processes", "PROCESSES", TABLE_COUNT},
};

static const char *schema_word(uint8_t by)
{
    static const char *const words[] = {
        [DESCRIBE_NOTHING] = "",
        [DESCRIBE_LAYOUT] = "class",
        [DESCRIBE_TRACELOGGING] = "record",
        [DESCRIBE_MANIFEST] = "eventsource",
        [DESCRIBE_METADATA] = "metadata",
        [DESCRIBE_FILE] = "manifest",
        [DESCRIBE_TABLE] = "table",
        [DESCRIBE_WPP] = "wpp",
    };

    return by < sizeof words / sizeof *words && words[by] ? words[by] : "";
}

static int by_records(const void *pa, const void *pb)
{
    const struct kind *a = pa, *b = pb;

    if (a->records != b->records) {
        return a->records > b->records ? -1 : 1;
    }
    return strcmp(a->event, b->event);
}

static enum err put_kind(const struct etl_providers *p, struct table *sheet, const char *file,
                         const struct kind *k)
{
    int64_t span_ns = p->last_ns - p->first_ns;
    struct table_cell cells[COLUMNS];

    cells[FILE_NAME] = table_string(str_make(file));
    cells[PROVIDER] = table_string(str_make(k->provider));
    cells[EVENT] = table_string(str_make(k->event));
    cells[KIND] = table_string(str_make(etl_kinds_form(k->form)));
    cells[NUMBER] = table_number(true, k->number);
    cells[VERSION] = table_number(true, k->version);
    cells[RECORDS] = table_count(k->records);
    cells[BYTES] = table_count(k->bytes);
    cells[RATE] = table_number(
        span_ns > 0, span_ns > 0 ? (int64_t)((double)k->records * 1e9 / (double)span_ns + 0.5) : 0);
    cells[SHARE] = table_number(p->records > 0, (int64_t)(k->records * 1000 / p->records));
    cells[SCHEMA] = table_string(str_make(schema_word(k->by)));
    cells[PROCESSES] = table_number(k->n_pids > 0 && k->n_pids < PIDS_MAX, k->n_pids);
    return table_row(sheet, cells);
}

static bool is_wanted(const struct etl_providers *p, const struct kind *k)
{
    char guid[UUID_TEXT];

    return !p->provider.n || glob_match(p->provider, str_make(k->provider)) ||
           str_eq(p->provider, str_make(value_text_guid(guid, k->guid)));
}

static enum err put_all(struct etl_providers *p, struct table *sheet, const char *file)
{
    size_t shown = 0;
    enum err e = ERR_OK;

    if (p->n) {
        qsort(p->all, p->n, sizeof *p->all, by_records);
    }
    for (size_t i = 0; i < p->n && !e && etl_job_out_ok(p->job); i++) {
        if (is_wanted(p, &p->all[i])) {
            e = put_kind(p, sheet, file, &p->all[i]);
            shown++;
        }
    }
    if (shown == 0) {
        etl_job_note(sheet, file, "no record matches");
    }
    if (p->dropped) {
        etl_job_note(sheet, file, "kinds of events beyond 8,192 are left out: %llu records",
                     (unsigned long long)p->dropped);
    }
    return e;
}

static enum err providers_part(struct etl_job *job, size_t part, struct table *sheet, void *ctx)
{
    struct etl_providers *p = ctx;
    struct etl_walk_conf conf = {.names = true, .progress = true, .record = on_record, .ctx = p};
    enum err e = ERR_OK;

    p->n = 0;
    p->records = p->bytes = p->dropped = 0;
    map_clear(&p->by_key);
    etl_range_begin(&p->range);
    if (etl_job_open(job, part, &conf, &p->walk) == ERR_OK) {
        (void)etl_job_walk(job, p->walk);
        e = put_all(p, sheet, etl_job_part_name(job, part));
        etl_walk_close(p->walk);
    }
    return e;
}

static enum err providers_run(struct etl_job *job, struct errmsg *why)
{
    static const char *const yields[] = {"V", "PROCESSES", "SCHEMA", "SHARE", "FILE", NULL};
    struct etl_providers p = {.job = job, .provider = str_make(opt_value(job->args, "provider"))};
    const struct etl_job_list list = {columns,         COLUMNS,        yields,
                                      "the providers", providers_part, &p};
    enum err e = etl_range_parse(&p.range, job, why);

    err_ignore(os_random(&p.seed, sizeof p.seed)); /* without it only slower */
    e = e ? e : etl_job_rows(job, &list, why);
    map_fini(&p.by_key);
    mem_free(p.all);
    return e;
}

static const struct opt opts[] = {
    {"provider", 0, "NAME|GUID", "only of this provider or class; NAME may be a glob", false},
    ETL_RANGE_OPTS,
    ETL_JOB_OPT_LIMIT,
    ETL_JOB_OPTS};

static const struct opt_command providers_opts = {
    .program = ETL_JOB_PROGRAM,
    .name = "providers",
    .brief = "which providers and events a recording holds: records, bytes, rate, schema",
    .operands = "FILE...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet-etl providers trace.etl\n"
                "  procfleet-etl providers trace.etl --provider 'Microsoft-Windows-*'\n"
                "  procfleet-etl providers trace.etl --name sqlservr.exe --format csv\n"
                "\nSCHEMA: class (of the kernel), record (TraceLogging), eventsource, metadata (by "
                "the tool that merged), manifest (--manifests), table (the program's own), wpp; - "
                "means only raw bytes. PROCESSES: - with 32 or more.\n",
};

const struct etl_command etl_providers_command = {&providers_opts, NULL, providers_run};
