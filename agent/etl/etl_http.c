/* `etl http`: requests that HTTP.sys answered, by URL: how often, with which status, how long until
 * a program got them and until the answer was sent. A request is followed by its id: received (1),
 * parsed (2, by the object, joined on the thread that received it), delivered to a queue (3),
 * answered by a program (4, 8: status, and whose), sent (10 to 14), or served from the cache by
 * HTTP.sys itself (16, and 17 where the client has it already; version 0 by the object alone).
 * The time to deliver is 1 to 3, the time to answer 1 to the last of sending.
 * Bounds: REQUESTS_MAX open ones, URLS_MAX kinds of request, and TEXTS_MAX bytes of these;
 * over them they are counted. */
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

#define REQUESTS_MAX 16384
#define URLS_MAX     16384
#define TEXTS_MAX    ((size_t)8 << 20)
#define STATUS_MAX   6

enum {
    RECEIVED = 1,
    PARSED,
    DELIVERED,
    ANSWERED,
    ANSWERED_FAST = 8,
    SENT_FIRST = 10,
    SENT_LAST = 14,
    CACHED = 16,
    CACHED_UNCHANGED
};

struct request {
    uint64_t id, object; /* id 0: free */
    uint32_t tid, pid;   /* of the thread that received it; the process that answered */
    uint32_t url;        /* index + 1, 0 = not parsed yet */
    bool no_room;        /* for its URL */
    uint16_t status;
    int64_t received_ns, delivered_ns, sent_ns; /* 0: not */
};

struct url {
    const char *text, *verb, *queue;
    uint32_t pid; /* that answered last */
    uint64_t n;
    struct etl_spans to_deliver, to_answer;
    struct {
        uint16_t status;
        uint32_t n;
    } status[STATUS_MAX];
    uint64_t status_more;
};

struct etl_http {
    struct etl_job *job;
    struct etl_walk *walk;
    struct etl_range range;
    bool query;
    struct request *open;
    struct url **urls;
    size_t n_open, n_urls;
    struct map by_id, by_url;
    uint64_t seed, requests, no_room, no_url, unfinished, events;
    struct arena texts;
    struct etl_fields fields;
};

/* -- requests -- */

/* A recording chooses its ids: as they are, they could all fall into one place of the map. */
static uint64_t id_key(const struct etl_http *h, uint64_t id)
{
    return id * (h->seed | 1);
}

static struct request *request_find(struct etl_http *h, uint64_t id)
{
    uint64_t place = map_get(&h->by_id, id_key(h, id));

    return place && h->open[place - 1].id == id ? &h->open[place - 1] : NULL;
}

static const char *text_keep(struct etl_http *h, struct str text)
{
    char *p = arena_alloc(&h->texts, text.n + 1);

    if (p) {
        if (text.n) {
            memcpy(p, text.p, text.n);
        }
        p[text.n] = '\0';
    }
    return p;
}

static uint32_t url_of(struct etl_http *h, struct str text)
{
    uint64_t hash, place;
    struct url *u;

    if (!h->query) {
        const char *mark = text.n ? memchr(text.p, '?', text.n) : NULL;

        text.n = mark ? (size_t)(mark - text.p) : text.n;
    }
    hash = hash_bytes(text.p, text.n, h->seed);
    for (; (place = map_get(&h->by_url, hash)) != 0; hash++) {
        if (str_eq(str_make(h->urls[place - 1]->text), text)) {
            return (uint32_t)place;
        }
    }
    u = h->n_urls < URLS_MAX && map_reserve(&h->by_url) == ERR_OK
            ? arena_alloc(&h->texts, sizeof *u)
            : NULL;
    if (u) {
        memset(u, 0, sizeof *u);
        u->text = text_keep(h, text);
    }
    if (!u || !u->text) {
        return 0;
    }
    h->urls[h->n_urls++] = u;
    (void)map_put(&h->by_url, hash, h->n_urls);
    return (uint32_t)h->n_urls;
}

static void count_status(struct url *u, uint16_t status)
{
    for (size_t i = 0; i < STATUS_MAX; i++) {
        if (u->status[i].n == 0 || u->status[i].status == status) {
            u->status[i].status = status;
            u->status[i].n++;
            return;
        }
    }
    u->status_more++;
}

/* It is over, or the recording is. */
static void request_end(struct etl_http *h, struct request *q)
{
    struct url *u = q->url ? h->urls[q->url - 1] : NULL;

    if (u && etl_range_process(&h->range, q->pid, instances_owner(h->walk->table, q->pid))) {
        h->requests++;
        u->n++;
        u->pid = q->pid != EVENT_NO_ID ? q->pid : u->pid;
        if (q->delivered_ns && q->received_ns) {
            etl_spans_add(&u->to_deliver, clk_sub(q->delivered_ns, q->received_ns));
        }
        if (q->sent_ns && q->received_ns) {
            etl_spans_add(&u->to_answer, clk_sub(q->sent_ns, q->received_ns));
        }
        if (q->status) {
            count_status(u, q->status);
        }
        h->unfinished += !q->sent_ns;
    }
    if (!u && etl_range_process(&h->range, q->pid, instances_owner(h->walk->table, q->pid))) {
        h->no_url += !q->no_room;
        h->no_room += q->no_room;
    }
    q->id = 0;
}

/* The free place, or that of the request that has been open for longest. */
static struct request *request_begin(struct etl_http *h, uint64_t id)
{
    struct request *q;

    if (map_reserve(&h->by_id)) {
        h->no_room++;
        return NULL;
    }
    q = &h->open[h->n_open++ % REQUESTS_MAX];
    if (q->id) {
        request_end(h, q);
    }
    if (h->by_id.n > 4 * REQUESTS_MAX) { /* ids that are over */
        map_clear(&h->by_id);
        for (size_t i = 0; i < REQUESTS_MAX; i++) {
            if (h->open[i].id && map_reserve(&h->by_id) == ERR_OK) {
                (void)map_put(&h->by_id, id_key(h, h->open[i].id), i + 1);
            }
        }
    }
    *q = (struct request){.id = id, .pid = EVENT_NO_ID};
    (void)map_put(&h->by_id, id_key(h, id), (uint64_t)(q - h->open) + 1);
    return q;
}

/* Event 2 has no id: it comes on the thread that has just received one. */
static struct request *request_on_thread(struct etl_http *h, uint32_t tid)
{
    for (size_t back = 1; back <= 64 && back <= h->n_open; back++) {
        struct request *q = &h->open[(h->n_open - back) % REQUESTS_MAX];

        if (q->id && q->tid == tid && !q->url) {
            return q;
        }
    }
    return NULL;
}

/* The latest that was parsed into that object. */
static struct request *request_of_object(struct etl_http *h, uint64_t object)
{
    for (size_t back = 1; object && back <= 64 && back <= h->n_open; back++) {
        struct request *q = &h->open[(h->n_open - back) % REQUESTS_MAX];

        if (q->id && q->object == object) {
            return q;
        }
    }
    return NULL;
}

/* -- records -- */

static void on_received(struct etl_http *h, const struct raw_event *raw, uint64_t id)
{
    struct request *q = request_find(h, id);

    if (q) {
        request_end(h, q);
    }
    q = id ? request_begin(h, id) : NULL;
    if (q) {
        q->tid = raw->tid;
        q->received_ns = raw->wall_ns;
    }
}

static void request_url(struct etl_http *h, struct request *q)
{
    q->url = url_of(h, etl_fields_text(&h->fields, "Url"));
    q->no_room = !q->url;
}

static void on_delivered(struct etl_http *h, const struct raw_event *raw, struct request *q)
{
    struct url *u;

    q->delivered_ns = raw->wall_ns;
    if (!q->url && !q->no_room) {
        request_url(h, q);
    }
    u = q->url ? h->urls[q->url - 1] : NULL;
    if (u && !u->queue) {
        u->queue = text_keep(h, etl_fields_text(&h->fields, "RequestQueueName"));
    }
}

static void on_answered(struct etl_http *h, const struct raw_event *raw, struct request *q)
{
    struct url *u = q->url ? h->urls[q->url - 1] : NULL;
    struct str verb = etl_fields_text(&h->fields, "Verb");

    q->pid = raw->pid;
    q->status = (uint16_t)etl_fields_uint(&h->fields, "StatusCode", 0);
    if (u && !u->verb && verb.n) {
        u->verb = text_keep(h, verb);
    }
}

static void on_http(struct etl_http *h, const struct raw_event *raw)
{
    struct request *q;
    uint64_t id;

    if (etl_fields_read(&h->fields, h->walk, raw) != ERR_OK) {
        return;
    }
    id = etl_fields_uint(&h->fields, "RequestId", 0);
    if (raw->id == RECEIVED) {
        on_received(h, raw, id);
        return;
    }
    q = raw->id == PARSED ? request_on_thread(h, raw->tid) : request_find(h, id);
    if (!q && raw->id >= CACHED) {
        q = request_of_object(h, etl_fields_uint(&h->fields, "RequestObj", 0));
    }
    if (!q) {
        return;
    }
    if (raw->id == PARSED) {
        q->object = etl_fields_uint(&h->fields, "RequestObj", 0);
        request_url(h, q);
    } else if (raw->id == DELIVERED) {
        on_delivered(h, raw, q);
    } else if (raw->id == ANSWERED || raw->id == ANSWERED_FAST) {
        on_answered(h, raw, q);
    } else if (raw->id >= CACHED) {
        q->sent_ns = raw->wall_ns;
        q->status = raw->id == CACHED ? 200 : 304;
    } else if (raw->id >= SENT_FIRST && raw->id <= SENT_LAST) {
        q->sent_ns = raw->wall_ns;
        q->status = q->status ? q->status : (uint16_t)etl_fields_uint(&h->fields, "HttpStatus", 0);
    }
}

static void on_record(void *ctx, const struct etl_walk_record *r)
{
    static const uint8_t http_service[16] = {0x0a, 0xf9, 0x5e, 0xdd, 0x98, 0x63, 0xa4, 0x47,
                                             0xad, 0x34, 0x4d, 0xce, 0xcd, 0xef, 0x79, 0x5f};
    struct etl_http *h = ctx;

    if (!etl_range_takes(&h->range, h->walk, r) || r->raw->form != RAW_MANIFEST ||
        memcmp(r->raw->guid, http_service, sizeof http_service) != 0) {
        return;
    }
    h->events++;
    if (r->raw->id <= ANSWERED || r->raw->id == ANSWERED_FAST ||
        (r->raw->id >= SENT_FIRST && r->raw->id <= SENT_LAST) || r->raw->id == CACHED ||
        r->raw->id == CACHED_UNCHANGED) {
        on_http(h, r->raw);
    }
}

/* -- printing -- */

enum {
    FILE_NAME,
    URL,
    VERB,
    N,
    STATUS,
    DELIVER_50,
    DELIVER_99,
    ANSWER_50,
    ANSWER_99,
    ANSWER_MAX,
    QUEUE,
    PID,
    UNFINISHED,
    COLUMNS
};

static const struct table_column columns[COLUMNS] = {
    [FILE_NAME] = {"file", "FILE", TABLE_TEXT},
    [URL] = {"url", "URL", TABLE_TEXT},
    [VERB] = {"verb", "VERB", TABLE_WORD},
    [N] = {"requests", "N", TABLE_COUNT},
    [STATUS] = {"status", "STATUS", TABLE_TEXT},
    [DELIVER_50] = {"deliver_p50", NULL, TABLE_NS},
    [DELIVER_99] = {"deliver_p99", "TO_DELIVER_P99", TABLE_NS},
    [ANSWER_50] = {"answer_p50", "ANSWER_P50", TABLE_NS},
    [ANSWER_99] = {"answer_p99", "ANSWER_P99", TABLE_NS},
    [ANSWER_MAX] = {"answer_max", "MAX", TABLE_NS},
    [QUEUE] = {"queue", "QUEUE", TABLE_TEXT},
    [PID] = {"pid", "PID", TABLE_ID},
    [UNFINISHED] = {"not_sent", NULL, TABLE_COUNT},
};

static int by_count(const void *pa, const void *pb)
{
    const struct url *a = *(struct url *const *)pa, *b = *(struct url *const *)pb;

    if (a->n != b->n) {
        return a->n > b->n ? -1 : 1;
    }
    return strcmp(a->text, b->text);
}

static void put_status(struct buf *out, const struct url *u)
{
    buf_reset(out);
    for (size_t i = 0; i < STATUS_MAX && u->status[i].n; i++) {
        buf_printf(out, "%s%u:%u", i ? " " : "", u->status[i].status, u->status[i].n);
    }
    if (u->status_more) {
        buf_printf(out, " other:%llu", (unsigned long long)u->status_more);
    }
}

static enum err put_url(struct table *sheet, const char *file, const struct url *u,
                        struct buf *status)
{
    struct table_cell cells[COLUMNS];

    put_status(status, u);
    cells[FILE_NAME] = table_string(str_make(file));
    cells[URL] = table_string(str_make(u->text));
    cells[VERB] = table_string(str_make(u->verb));
    cells[N] = table_count(u->n);
    cells[STATUS] = table_string((struct str){(const char *)status->p, status->n});
    cells[DELIVER_50] = etl_spans_share(&u->to_deliver, 50);
    cells[DELIVER_99] = etl_spans_share(&u->to_deliver, 99);
    cells[ANSWER_50] = etl_spans_share(&u->to_answer, 50);
    cells[ANSWER_99] = etl_spans_share(&u->to_answer, 99);
    cells[ANSWER_MAX] = table_number(u->to_answer.n > 0, u->to_answer.max_ns);
    cells[QUEUE] = table_string(str_make(u->queue));
    cells[PID] = table_number(u->pid > 0, u->pid);
    cells[UNFINISHED] = table_count(u->n - u->to_answer.n);
    return table_row(sheet, cells);
}

static enum err put_all(struct etl_http *h, struct table *sheet, const char *file)
{
    struct buf status;
    enum err e = ERR_OK;

    for (size_t i = 0; i < REQUESTS_MAX; i++) {
        if (h->open[i].id) {
            request_end(h, &h->open[i]);
        }
    }
    if (h->n_urls) {
        qsort(h->urls, h->n_urls, sizeof(struct url *), by_count);
    }
    buf_init(&status, 1024);
    for (size_t i = 0; i < h->n_urls && !e && etl_job_out_ok(h->job); i++) {
        if (h->urls[i]->n) {
            e = put_url(sheet, file, h->urls[i], &status);
        }
    }
    buf_fini(&status);
    if (h->requests == 0) {
        etl_job_note(sheet, file,
                     h->events ? "no request matches"
                               : "no events of Microsoft-Windows-HttpService are "
                                 "recorded" ETL_JOB_PROVIDERS);
    } else {
        etl_job_note(sheet, file, "%llu requests, %llu of them without an answer that was sent",
                     (unsigned long long)h->requests, (unsigned long long)h->unfinished);
    }
    if (h->no_url) {
        etl_job_note(sheet, file, "%llu requests whose URL is not recorded are left out",
                     (unsigned long long)h->no_url);
    }
    if (h->no_room) {
        etl_job_note(sheet, file, "%llu requests had no room and are left out",
                     (unsigned long long)h->no_room);
    }
    return e;
}

static void http_reset(struct etl_http *h)
{
    arena_fini(&h->texts);
    arena_init(&h->texts, TEXTS_MAX);
    map_clear(&h->by_id);
    map_clear(&h->by_url);
    memset(h->open, 0, REQUESTS_MAX * sizeof *h->open);
    h->n_open = h->n_urls = 0;
    h->requests = h->no_room = h->no_url = h->unfinished = h->events = 0;
    etl_range_begin(&h->range);
}

static enum err http_part(struct etl_job *job, size_t part, struct table *sheet, void *ctx)
{
    struct etl_http *h = ctx;
    struct etl_walk_conf conf = {.names = true, .progress = true, .record = on_record, .ctx = h};
    enum err e = ERR_OK;

    http_reset(h);
    if (etl_job_open(job, part, &conf, &h->walk) == ERR_OK) {
        (void)etl_job_walk(job, h->walk);
        e = put_all(h, sheet, etl_job_part_name(job, part));
        etl_walk_close(h->walk);
    }
    return e;
}

static enum err http_run(struct etl_job *job, struct errmsg *why)
{
    static const char *const yields[] = {"MAX", "ANSWER_P50", "QUEUE", "PID", "FILE", NULL};
    struct etl_http *h = mem_zalloc(sizeof *h);
    const struct etl_job_list list = {columns, COLUMNS, yields, "the requests", http_part, h};
    enum err e = ERR_NOMEM;

    if (h) {
        h->job = job;
        h->query = opt_flag(job->args, "query");
        h->open = mem_array(REQUESTS_MAX, sizeof *h->open);
        h->urls = mem_array(URLS_MAX, sizeof *h->urls);
        arena_init(&h->texts, TEXTS_MAX);
        err_ignore(os_random(&h->seed, sizeof h->seed)); /* without it only slower */
    }
    if (h && h->open && h->urls) {
        e = etl_range_parse(&h->range, job, why);
        e = e ? e : etl_job_rows(job, &list, why);
    }
    if (h) {
        arena_fini(&h->texts);
        map_fini(&h->by_id);
        map_fini(&h->by_url);
        mem_free(h->urls);
        mem_free(h->open);
    }
    mem_free(h);
    return e;
}

static const struct opt opts[] = {
    {"query", 0, NULL, "with the queries of URLs: what stands behind '?', which may be private",
     false},
    {"pid", 'p', "PID", "only requests that this process answered", false},
    {"name", 0, "GLOB", "only requests answered by processes whose image has this name", false},
    ETL_RANGE_OPT_TIMES,
    ETL_JOB_OPT_LIMIT,
    ETL_JOB_OPTS};

static const struct opt_command http_opts = {
    .program = ETL_JOB_PROGRAM,
    .name = "http",
    .brief = "requests that HTTP.sys served: by URL, with status and times",
    .operands = "FILE...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet-etl http trace.etl\n"
                "  procfleet-etl http trace.etl --format csv --query\n"
                "\nTimes are of a request's arrival until a program got it, and until the answer "
                "was sent; p50 and p99 are exact to a quarter.\n",
};

const struct etl_command etl_http_command = {&http_opts, NULL, http_run};
