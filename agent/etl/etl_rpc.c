/* `etl rpc`: remote procedure calls by interface and procedure: how many, how many failed, how long
 * they took. A call begins (5 a client's, 6 a server's) and ends (7, 8: status) on one thread;
 * calls within calls end in reverse order.
 * Bounds: ROWS_MAX interfaces and procedures, THREADS_MAX threads with open calls, DEEP of them
 * within each other; over them calls are counted. Lost events leave the open calls without an end.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/etl/etl_commands.h"
#include "agent/etl/etl_fields.h"
#include "agent/etl/etl_kinds.h"
#include "agent/etl/etl_range.h"
#include "agent/etl/etl_spans.h"
#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"

#define ROWS_MAX    8192
#define THREADS_MAX 16384
#define DEEP        4
#define ENDPOINT    64

struct row {
    uint8_t interface[16];
    uint32_t procedure, protocol, pid;
    bool server;
    const struct instance *owner;
    char endpoint[ENDPOINT];
    uint64_t calls, failed;
    uint32_t status; /* of the last failure */
    struct etl_spans took;
};

struct thread {
    uint32_t tid;
    uint8_t n;
    uint32_t deeper; /* calls within the last of `open` that have no room */
    struct {
        uint32_t row; /* index + 1; 0: a call that had no room */
        bool server;
        int64_t begun_ns;
    } open[DEEP];
};

struct etl_rpc {
    struct etl_job *job;
    struct etl_walk *walk;
    struct etl_range range;
    struct row *all;
    struct thread *threads;
    size_t n, cap, n_threads, cap_threads;
    struct map by_key, by_tid;
    uint64_t seed, no_room, unpaired, events;
    struct etl_fields fields;
};

/* -- tables -- */

static bool is_row(const struct row *r, const uint8_t interface[16], uint32_t procedure,
                   uint32_t pid, bool server)
{
    return r->procedure == procedure && r->pid == pid && r->server == server &&
           memcmp(r->interface, interface, 16) == 0;
}

/* Index + 1; 0: no room. */
static uint32_t row_of(struct etl_rpc *c, uint32_t pid, bool server)
{
    const struct etl_fields_one *guid = etl_fields_get(&c->fields, "InterfaceUuid");
    uint32_t procedure = (uint32_t)etl_fields_uint(&c->fields, "ProcNum", 0);
    struct str endpoint = etl_fields_text(&c->fields, "Endpoint");
    uint64_t key, place;
    struct row *r;

    if (!guid || guid->text.n != 16) {
        return 0;
    }
    key = hash_bytes(guid->text.p, 16,
                     c->seed + ((uint64_t)procedure << 33 | (uint64_t)server << 32 | pid));
    for (; (place = map_get(&c->by_key, key)) != 0; key++) {
        if (is_row(&c->all[place - 1], (const uint8_t *)guid->text.p, procedure, pid, server)) {
            return (uint32_t)place;
        }
    }
    if (VEC_ROOM(&c->all, &c->cap, c->n + 1, ROWS_MAX) || map_reserve(&c->by_key)) {
        c->no_room++;
        return 0;
    }
    r = &c->all[c->n++];
    memset(r, 0, sizeof *r);
    memcpy(r->interface, guid->text.p, 16);
    memcpy(r->endpoint, endpoint.p ? endpoint.p : "",
           endpoint.n < ENDPOINT - 1 ? endpoint.n : ENDPOINT - 1);
    r->procedure = procedure;
    r->protocol = (uint32_t)etl_fields_uint(&c->fields, "Protocol", 0);
    r->pid = pid;
    r->server = server;
    r->owner = instances_owner(c->walk->table, pid);
    (void)map_put(&c->by_key, key, c->n);
    return (uint32_t)c->n;
}

static uint64_t tid_key(const struct etl_rpc *c, uint32_t tid)
{
    return tid * (c->seed | 1);
}

static struct thread *thread_of(struct etl_rpc *c, uint32_t tid)
{
    uint64_t place = map_get(&c->by_tid, tid_key(c, tid));

    if (place) {
        return &c->threads[place - 1];
    }
    if (VEC_ROOM(&c->threads, &c->cap_threads, c->n_threads + 1, THREADS_MAX) ||
        map_reserve(&c->by_tid)) {
        return NULL;
    }
    c->threads[c->n_threads] = (struct thread){.tid = tid};
    (void)map_put(&c->by_tid, tid_key(c, tid), c->n_threads + 1);
    return &c->threads[c->n_threads++];
}

/* -- records -- */

static void on_start(struct etl_rpc *c, const struct raw_event *raw)
{
    bool server = raw->id == 6;
    struct thread *t = thread_of(c, raw->tid);
    uint32_t row = row_of(c, raw->pid, server);

    if (row) {
        c->all[row - 1].calls++;
    }
    if (!t || t->n == DEEP) {
        c->no_room += row != 0;
        if (t) {
            t->deeper++;
        }
        return;
    }
    t->open[t->n].row = row;
    t->open[t->n].server = server;
    t->open[t->n++].begun_ns = raw->wall_ns;
}

static void on_stop(struct etl_rpc *c, const struct raw_event *raw)
{
    bool server = raw->id == 8;
    uint64_t place = map_get(&c->by_tid, tid_key(c, raw->tid));
    struct thread *t = place ? &c->threads[place - 1] : NULL;
    uint32_t status = (uint32_t)etl_fields_uint(&c->fields, "Status", 0);
    struct row *r;

    if (t && t->deeper) {
        t->deeper--;
        return;
    }
    while (t && t->n && t->open[t->n - 1].server != server) {
        t->n--; /* its end was lost */
        c->unpaired++;
    }
    if (!t || !t->n) {
        c->unpaired++;
        return;
    }
    t->n--;
    if (!t->open[t->n].row) {
        return;
    }
    r = &c->all[t->open[t->n].row - 1];
    etl_spans_add(&r->took, clk_sub(raw->wall_ns, t->open[t->n].begun_ns));
    if (status) {
        r->failed++;
        r->status = status;
    }
}

static void forget_open(struct etl_rpc *c)
{
    for (size_t i = 0; i < c->n_threads; i++) {
        c->unpaired += c->threads[i].n;
        c->threads[i].n = 0;
        c->threads[i].deeper = 0;
    }
}

static void on_fact(void *ctx, const struct event *ev)
{
    if (ev->kind == EV_LOST) {
        forget_open(ctx);
    }
}

static void on_record(void *ctx, const struct etl_walk_record *r)
{
    static const uint8_t rpc[16] = {0x32, 0x2b, 0xd5, 0x6a, 0x09, 0xd6, 0xe9, 0x4b,
                                    0xae, 0x07, 0xce, 0x8d, 0xae, 0x93, 0x7e, 0x39};
    struct etl_rpc *c = ctx;
    const struct raw_event *raw = r->raw;

    if (!etl_range_takes(&c->range, c->walk, r) || raw->form != RAW_MANIFEST || raw->id < 5 ||
        raw->id > 8 || memcmp(raw->guid, rpc, sizeof rpc) != 0) {
        return;
    }
    c->events++;
    if (etl_fields_read(&c->fields, c->walk, raw) != ERR_OK) {
        return;
    }
    if (raw->id < 7) {
        on_start(c, raw);
    } else {
        on_stop(c, raw);
    }
}

/* -- printing -- */

enum {
    FILE_NAME,
    PID,
    PROCESS,
    SIDE,
    INTERFACE,
    PROCEDURE,
    CALLS,
    FAILED,
    STATUS,
    P50,
    P99,
    LONGEST,
    PROTOCOL,
    ENDPOINT_,
    COLUMNS
};

static const struct table_column columns[COLUMNS] = {
    [FILE_NAME] = {"file", "FILE", TABLE_TEXT},
    [PID] = {"pid", "PID", TABLE_ID},
    [PROCESS] = {"process", "PROCESS", TABLE_TEXT},
    [SIDE] = {"side", "SIDE", TABLE_WORD},
    [INTERFACE] = {"interface", "INTERFACE", TABLE_WORD},
    [PROCEDURE] = {"procedure", "PROC", TABLE_ID},
    [CALLS] = {"calls", "CALLS", TABLE_COUNT},
    [FAILED] = {"failed", "FAILED", TABLE_COUNT},
    [STATUS] = {"status", NULL, TABLE_ID},
    [P50] = {"took_p50", "P50", TABLE_NS},
    [P99] = {"took_p99", "P99", TABLE_NS},
    [LONGEST] = {"took_max", "MAX", TABLE_NS},
    [PROTOCOL] = {"protocol", "PROTOCOL", TABLE_ID},
    [ENDPOINT_] = {"endpoint", "ENDPOINT", TABLE_TEXT},
};

static int by_calls(const void *pa, const void *pb)
{
    const struct row *a = pa, *b = pb;

    if (a->calls != b->calls) {
        return a->calls > b->calls ? -1 : 1;
    }
    if (a->pid != b->pid) {
        return a->pid < b->pid ? -1 : 1;
    }
    return (a->procedure > b->procedure) - (a->procedure < b->procedure);
}

static enum err put_one(struct table *sheet, const char *file, const struct row *r)
{
    struct table_cell cells[COLUMNS];
    char interface[UUID_TEXT];

    cells[FILE_NAME] = table_string(str_make(file));
    cells[PID] = table_number(r->pid != EVENT_NO_ID, r->pid);
    cells[PROCESS] = table_string(r->owner ? r->owner->info.name : str_make(""));
    cells[SIDE] = table_string(str_make(r->server ? "server" : "client"));
    cells[INTERFACE] = table_string(str_make(value_text_guid(interface, r->interface)));
    cells[PROCEDURE] = table_number(true, r->procedure);
    cells[CALLS] = table_count(r->calls);
    cells[FAILED] = table_count(r->failed);
    cells[STATUS] = table_number(r->failed > 0, r->status);
    cells[P50] = etl_spans_share(&r->took, 50);
    cells[P99] = etl_spans_share(&r->took, 99);
    cells[LONGEST] = table_number(r->took.n > 0, r->took.max_ns);
    cells[PROTOCOL] = table_number(true, r->protocol);
    cells[ENDPOINT_] = table_string(str_make(r->endpoint));
    return table_row(sheet, cells);
}

static enum err put_all(struct etl_rpc *c, struct table *sheet, const char *file)
{
    size_t shown = 0;
    enum err e = ERR_OK;

    if (c->n) {
        qsort(c->all, c->n, sizeof *c->all, by_calls);
    }
    for (size_t i = 0; i < c->n && !e && etl_job_out_ok(c->job); i++) {
        if (etl_range_process(&c->range, c->all[i].pid, c->all[i].owner)) {
            e = put_one(sheet, file, &c->all[i]);
            shown++;
        }
    }
    if (shown == 0) {
        etl_job_note(sheet, file,
                     c->events
                         ? "no call matches"
                         : "no events of Microsoft-Windows-RPC are recorded" ETL_JOB_PROVIDERS);
    }
    if (c->unpaired) {
        etl_job_note(sheet, file, "%llu calls whose begin or end is not recorded",
                     (unsigned long long)c->unpaired);
    }
    if (c->no_room) {
        etl_job_note(sheet, file, "%llu calls had no room for their times, or at all",
                     (unsigned long long)c->no_room);
    }
    return e;
}

static enum err rpc_part(struct etl_job *job, size_t part, struct table *sheet, void *ctx)
{
    struct etl_rpc *c = ctx;
    struct etl_walk_conf conf = {
        .names = true, .progress = true, .record = on_record, .fact = on_fact, .ctx = c};
    enum err e = ERR_OK;

    c->n = c->n_threads = 0;
    c->no_room = c->unpaired = c->events = 0;
    map_clear(&c->by_key);
    map_clear(&c->by_tid);
    etl_range_begin(&c->range);
    if (etl_job_open(job, part, &conf, &c->walk) == ERR_OK) {
        (void)etl_job_walk(job, c->walk);
        forget_open(c);
        e = put_all(c, sheet, etl_job_part_name(job, part));
        etl_walk_close(c->walk);
    }
    return e;
}

static enum err rpc_run(struct etl_job *job, struct errmsg *why)
{
    static const char *const yields[] = {"PROTOCOL", "P50", "ENDPOINT", "FILE", "PROCESS", NULL};
    struct etl_rpc *c = mem_zalloc(sizeof *c);
    const struct etl_job_list list = {columns, COLUMNS, yields, "the calls", rpc_part, c};
    enum err e;

    if (!c) {
        return ERR_NOMEM;
    }
    c->job = job;
    err_ignore(os_random(&c->seed, sizeof c->seed)); /* without it only slower */
    e = etl_range_parse(&c->range, job, why);
    e = e ? e : etl_job_rows(job, &list, why);
    map_fini(&c->by_key);
    map_fini(&c->by_tid);
    mem_free(c->threads);
    mem_free(c->all);
    mem_free(c);
    return e;
}

static const struct opt opts[] = {ETL_RANGE_OPTS, ETL_JOB_OPT_LIMIT, ETL_JOB_OPTS};

static const struct opt_command rpc_opts = {
    .program = ETL_JOB_PROGRAM,
    .name = "rpc",
    .brief = "remote procedure calls: interface, procedure, how many, failures, times",
    .operands = "FILE...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet-etl rpc trace.etl\n"
                "  procfleet-etl rpc trace.etl --name services.exe --format csv\n",
};

const struct etl_command etl_rpc_command = {&rpc_opts, NULL, rpc_run};
