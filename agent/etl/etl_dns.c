/* `etl dns`: which names were asked for, by whom, how often, with which result. The DNS client
 * tells of a query when it begins (3006) and when it is done (3008: status and results); 3018 is an
 * answer of its cache. A query is (process, name, type); where the version of an event has
 * ClientPID that is the process, else the header's.
 * Bounds: NAMES_MAX rows, TEXTS_MAX bytes of texts; over them queries are counted. */
#include <stdlib.h>
#include <string.h>

#include "agent/etl/etl_commands.h"
#include "agent/etl/etl_fields.h"
#include "agent/etl/etl_range.h"
#include "agent/etl/etl_spans.h"
#include "common/base/arena.h"
#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define NAMES_MAX 32768
#define TEXTS_MAX ((size_t)24 << 20)

struct name {
    const char *text, *results;
    uint32_t pid, type, status; /* of the last failure */
    const struct instance *owner;
    uint64_t n, failed, cached;
    int64_t begun_ns; /* of the query that is open; 0: none */
    struct etl_spans took;
};

struct etl_dns {
    struct etl_job *job;
    struct etl_walk *walk;
    struct etl_range range;
    struct name **all;
    size_t n;
    struct map by_key;
    struct arena texts;
    uint64_t seed, no_room, events;
    struct etl_fields fields;
};

static const char *text_keep(struct etl_dns *d, struct str text)
{
    char *p = arena_alloc(&d->texts, text.n + 1);

    if (p) {
        memcpy(p, text.p ? text.p : "", text.n);
        p[text.n] = '\0';
    }
    return p;
}

/* NULL: no room. */
static struct name *name_of(struct etl_dns *d, uint32_t pid, struct str text, uint32_t type)
{
    uint64_t key = hash_bytes(text.p, text.n, d->seed + ((uint64_t)type << 32 | pid)), place;
    struct name *n;

    for (; (place = map_get(&d->by_key, key)) != 0; key++) {
        n = d->all[place - 1];
        if (n->pid == pid && n->type == type && str_eq(str_make(n->text), text)) {
            return n;
        }
    }
    n = d->n < NAMES_MAX && map_reserve(&d->by_key) == ERR_OK ? arena_alloc(&d->texts, sizeof *n)
                                                              : NULL;
    if (n) {
        memset(n, 0, sizeof *n);
        n->text = text_keep(d, text);
    }
    if (!n || !n->text) {
        d->no_room++;
        return NULL;
    }
    n->pid = pid;
    n->type = type;
    n->owner = instances_owner(d->walk->table, pid);
    d->all[d->n++] = n;
    (void)map_put(&d->by_key, key, d->n);
    return n;
}

static void on_done(struct etl_dns *d, struct name *n, int64_t when)
{
    uint32_t status = (uint32_t)etl_fields_uint(&d->fields, "QueryStatus", 0);
    struct str results = etl_fields_text(&d->fields, "QueryResults");

    n->n++;
    if (status) {
        n->failed++;
        n->status = status;
    }
    if (n->begun_ns) {
        etl_spans_add(&n->took, clk_sub(when, n->begun_ns));
        n->begun_ns = 0;
    }
    if (results.n && !n->results) {
        n->results = text_keep(d, results);
    }
}

static void on_record(void *ctx, const struct etl_walk_record *r)
{
    static const uint8_t dns_client[16] = {0x6e, 0x12, 0x95, 0x1c, 0xea, 0x7e, 0xa9, 0x49,
                                           0xa3, 0xfe, 0xa3, 0x78, 0xb0, 0x3d, 0xdb, 0x4d};
    struct etl_dns *d = ctx;
    const struct raw_event *raw = r->raw;
    struct name *n;
    uint32_t pid;

    if (!etl_range_takes(&d->range, d->walk, r) || raw->form != RAW_MANIFEST ||
        (raw->id != 3006 && raw->id != 3008 && raw->id != 3018) ||
        memcmp(raw->guid, dns_client, sizeof dns_client) != 0) {
        return;
    }
    d->events++;
    if (etl_fields_read(&d->fields, d->walk, raw) != ERR_OK) {
        return;
    }
    pid = (uint32_t)etl_fields_uint(&d->fields, "ClientPID", raw->pid);
    n = name_of(d, pid, etl_fields_text(&d->fields, "QueryName"),
                (uint32_t)etl_fields_uint(&d->fields, "QueryType", 0));
    if (!n) {
        return;
    }
    if (raw->id == 3006) {
        n->begun_ns = raw->wall_ns;
    } else if (raw->id == 3008) {
        on_done(d, n, raw->wall_ns);
    } else {
        n->cached++;
    }
}

/* -- printing -- */

enum {
    FILE_NAME,
    PID,
    PROCESS,
    NAME,
    TYPE,
    N,
    FAILED,
    STATUS,
    CACHED,
    P50,
    LONGEST,
    RESULTS,
    COLUMNS
};

static const struct table_column columns[COLUMNS] = {
    [FILE_NAME] = {"file", "FILE", TABLE_TEXT},     [PID] = {"pid", "PID", TABLE_ID},
    [PROCESS] = {"process", "PROCESS", TABLE_TEXT}, [NAME] = {"name", "NAME", TABLE_TEXT},
    [TYPE] = {"type", "TYPE", TABLE_WORD},          [N] = {"queries", "N", TABLE_COUNT},
    [FAILED] = {"failed", "FAILED", TABLE_COUNT},   [STATUS] = {"status", NULL, TABLE_ID},
    [CACHED] = {"cached", "CACHED", TABLE_COUNT},   [P50] = {"took_p50", "P50", TABLE_NS},
    [LONGEST] = {"took_max", "MAX", TABLE_NS},      [RESULTS] = {"results", "RESULTS", TABLE_TEXT},
};

static const char *type_name(uint32_t type, char text[16])
{
    static const struct {
        uint32_t type;
        const char *name;
    } names[] = {{1, "A"},    {2, "NS"},    {5, "CNAME"}, {6, "SOA"},    {12, "PTR"}, {15, "MX"},
                 {16, "TXT"}, {28, "AAAA"}, {33, "SRV"},  {65, "HTTPS"}, {255, "ANY"}};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].type == type) {
            return names[i].name;
        }
    }
    (void)snprintf(text, 16, "%u", type);
    return text;
}

static int by_count(const void *pa, const void *pb)
{
    const struct name *a = *(struct name *const *)pa, *b = *(struct name *const *)pb;

    if (a->n + a->cached != b->n + b->cached) {
        return a->n + a->cached > b->n + b->cached ? -1 : 1;
    }
    return strcmp(a->text, b->text);
}

static enum err put_name(struct table *sheet, const char *file, const struct name *n)
{
    struct table_cell cells[COLUMNS];
    char type[16];

    cells[FILE_NAME] = table_string(str_make(file));
    cells[PID] = table_number(n->pid != EVENT_NO_ID, n->pid);
    cells[PROCESS] = table_string(n->owner ? n->owner->info.name : str_make(""));
    cells[NAME] = table_string(str_make(n->text));
    cells[TYPE] = table_string(str_make(type_name(n->type, type)));
    cells[N] = table_count(n->n);
    cells[FAILED] = table_count(n->failed);
    cells[STATUS] = table_number(n->failed > 0, n->status);
    cells[CACHED] = table_count(n->cached);
    cells[P50] = etl_spans_share(&n->took, 50);
    cells[LONGEST] = table_number(n->took.n > 0, n->took.max_ns);
    cells[RESULTS] = table_string(str_make(n->results));
    return table_row(sheet, cells);
}

static enum err put_all(struct etl_dns *d, struct table *sheet, const char *file)
{
    size_t shown = 0;
    enum err e = ERR_OK;

    if (d->n) {
        qsort(d->all, d->n, sizeof(struct name *), by_count);
    }
    for (size_t i = 0; i < d->n && !e && etl_job_out_ok(d->job); i++) {
        if (etl_range_process(&d->range, d->all[i]->pid, d->all[i]->owner)) {
            e = put_name(sheet, file, d->all[i]);
            shown++;
        }
    }
    if (shown == 0) {
        etl_job_note(sheet, file,
                     d->events ? "no query matches"
                               : "no events of Microsoft-Windows-DNS-Client are "
                                 "recorded" ETL_JOB_PROVIDERS);
    }
    if (d->no_room) {
        etl_job_note(sheet, file, "%llu queries had no room", (unsigned long long)d->no_room);
    }
    return e;
}

static enum err dns_part(struct etl_job *job, size_t part, struct table *sheet, void *ctx)
{
    struct etl_dns *d = ctx;
    struct etl_walk_conf conf = {.names = true, .progress = true, .record = on_record, .ctx = d};
    enum err e = ERR_OK;

    d->n = 0;
    d->no_room = d->events = 0;
    map_clear(&d->by_key);
    arena_fini(&d->texts);
    arena_init(&d->texts, TEXTS_MAX);
    etl_range_begin(&d->range);
    if (etl_job_open(job, part, &conf, &d->walk) == ERR_OK) {
        (void)etl_job_walk(job, d->walk);
        e = put_all(d, sheet, etl_job_part_name(job, part));
        etl_walk_close(d->walk);
    }
    return e;
}

static enum err dns_run(struct etl_job *job, struct errmsg *why)
{
    static const char *const yields[] = {"CACHED", "RESULTS", "FILE", "PROCESS", NULL};
    struct etl_dns *d = mem_zalloc(sizeof *d);
    const struct etl_job_list list = {columns, COLUMNS, yields, "the queries", dns_part, d};
    enum err e = ERR_NOMEM;

    if (!d) {
        return e;
    }
    d->job = job;
    d->all = mem_array(NAMES_MAX, sizeof(struct name *));
    arena_init(&d->texts, TEXTS_MAX);
    err_ignore(os_random(&d->seed, sizeof d->seed)); /* without it only slower */
    if (d->all) {
        e = etl_range_parse(&d->range, job, why);
        e = e ? e : etl_job_rows(job, &list, why);
    }
    arena_fini(&d->texts);
    map_fini(&d->by_key);
    mem_free(d->all);
    mem_free(d);
    return e;
}

static const struct opt opts[] = {ETL_RANGE_OPTS, ETL_JOB_OPT_LIMIT, ETL_JOB_OPTS};

static const struct opt_command dns_opts = {
    .program = ETL_JOB_PROGRAM,
    .name = "dns",
    .brief = "names that were asked for: by whom, how often, with which result",
    .operands = "FILE...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet-etl dns trace.etl\n"
                "  procfleet-etl dns trace.etl --name chrome.exe --format csv\n",
};

const struct etl_command etl_dns_command = {&dns_opts, NULL, dns_run};
