/* `etl tcp`: connections: between which ends, whose, how many bytes, how they ended.
 *
 * Classic TcpIp records and those of Kernel-Network are the same bytes: PID u32, size u32, remote
 * and local address (4 or 16), remote and local port (big-endian); opcode or id 10 sent, 11
 * received, 12 connected, 13 disconnected, 14 sent again, 15 accepted, 16 reconnected, 17 failed,
 * 18 copied; from 26 on the same for IPv6. Where a recording has both, the classic ones count.
 * Microsoft-Windows-TCPIP names a connection by the address of its control block (Tcb), which is
 * used again after its end: 1017 accepted, 1300 there already, 1332 sent, 1074 received, 1077 sent
 * again with the round trip that was measured (us), 1039, 1040 and 1044 ended.
 * A connection is (process, both ends) from its opening to its end. Bounds: CONNECTIONS_MAX, and as
 * many control blocks. */
#include <stdlib.h>
#include <string.h>

#include "agent/etl/etl_commands.h"
#include "agent/etl/etl_ends.h"
#include "agent/etl/etl_range.h"
#include "agent/source/etw_guid.h"
#include "common/base/hash.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"
#include "common/text/value_text.h"

#define CONNECTIONS_MAX 65536
#define NOBODY          (CONNECTIONS_MAX + 1)

enum { SENT = 10, RECEIVED, CONNECTED, DISCONNECTED, AGAIN, ACCEPTED, RECONNECTED, FAILED, COPIED };
enum opened { OPENED_BEFORE, OPENED_CONNECT, OPENED_ACCEPT };
enum ended { ENDED_NOT, ENDED_DISCONNECT, ENDED_ABORT, ENDED_SHUTDOWN };

struct connection {
    struct etl_ends ends;
    const struct instance *owner;
    uint8_t opened, ended;
    int64_t opened_ns, ended_ns; /* UTC */
    uint64_t sent, received, retransmits;
    uint32_t rtt_n, rtt_min, rtt_max; /* us */
    uint64_t rtt_sum;
};

struct etl_tcp {
    struct etl_job *job;
    struct etl_walk *walk;
    struct etl_range range;
    struct connection *all;
    size_t n, cap;
    struct map by_ends, by_tcb;
    uint64_t seed, no_room, failed, events;
    bool classic;
    struct etl_fields fields;
};

/* -- the table -- */

static uint64_t ends_hash(const struct etl_tcp *t, const struct etl_ends *e)
{
    return hash_bytes(e, sizeof *e, t->seed);
}

/* The latest connection between these ends. */
static struct connection *find(struct etl_tcp *t, const struct etl_ends *e)
{
    uint64_t key = ends_hash(t, e), place;

    for (; (place = map_get(&t->by_ends, key)) != 0; key++) {
        if (memcmp(&t->all[place - 1].ends, e, sizeof *e) == 0) {
            return &t->all[place - 1];
        }
    }
    return NULL;
}

static struct connection *begin(struct etl_tcp *t, const struct etl_ends *e)
{
    uint64_t key = ends_hash(t, e), place;
    struct connection *c;

    while ((place = map_get(&t->by_ends, key)) != 0 &&
           memcmp(&t->all[place - 1].ends, e, sizeof *e) != 0) {
        key++;
    }
    if (VEC_ROOM(&t->all, &t->cap, t->n + 1, CONNECTIONS_MAX) || map_reserve(&t->by_ends)) {
        t->no_room++;
        return NULL;
    }
    c = &t->all[t->n++];
    memset(c, 0, sizeof *c);
    c->ends = *e;
    c->owner = instances_owner(t->walk->table, e->pid);
    (void)map_put(&t->by_ends, key, t->n);
    return c;
}

/* The one that lives between these ends, which began before the recording if it is new. */
static struct connection *living(struct etl_tcp *t, const struct etl_ends *e)
{
    struct connection *c = find(t, e);

    return c && !c->ended ? c : begin(t, e);
}

static struct connection *open_at(struct etl_tcp *t, const struct etl_ends *e, enum opened how,
                                  int64_t when)
{
    struct connection *c = find(t, e);

    c = c && !c->ended && !c->opened && !c->sent && !c->received ? c : begin(t, e);
    if (c) {
        c->opened = (uint8_t)how;
        c->opened_ns = when;
    }
    return c;
}

static void end_at(struct connection *c, enum ended how, int64_t when)
{
    if (c && !c->ended) {
        c->ended = (uint8_t)how;
        c->ended_ns = when;
    }
}

/* -- kernel records -- */

static void on_kernel(struct etl_tcp *t, const struct raw_event *raw, unsigned op)
{
    bool v6 = op >= ETL_ENDS_V6_FROM;
    struct connection *to;
    struct etl_ends e;
    uint32_t size;

    op -= v6 ? ETL_ENDS_V6_FROM - SENT : 0;
    if (op == FAILED) {
        t->failed++;
        return;
    }
    if (!etl_ends_kernel(&e, &size, raw, v6) || op > COPIED) {
        return;
    }
    if (op == CONNECTED || op == ACCEPTED || op == RECONNECTED) {
        (void)open_at(t, &e, op == ACCEPTED ? OPENED_ACCEPT : OPENED_CONNECT, raw->wall_ns);
        return;
    }
    to = op == DISCONNECTED ? find(t, &e) : living(t, &e);
    if (op == DISCONNECTED) {
        end_at(to ? to : begin(t, &e), ENDED_DISCONNECT, raw->wall_ns);
    } else if (to) {
        to->sent += op == SENT ? size : 0;
        to->received += op == RECEIVED || op == COPIED ? size : 0;
        to->retransmits += op == AGAIN;
    }
}

/* -- Microsoft-Windows-TCPIP -- */

/* A recording chooses them: as they are, they could all fall into one place of the map. */
static uint64_t tcb_key(const struct etl_tcp *t, uint64_t tcb)
{
    return tcb * (t->seed | 1);
}

/* c  NULL: of nobody that is known, whosever it was before */
static void tcb_names(struct etl_tcp *t, uint64_t tcb, const struct connection *c)
{
    uint64_t key = tcb_key(t, tcb), place = c ? (uint64_t)(c - t->all) + 1 : NOBODY;

    if (!tcb || (!c && !map_get(&t->by_tcb, key))) {
        return;
    }
    if (!map_get(&t->by_tcb, key) &&
        (t->by_tcb.n == CONNECTIONS_MAX || map_reserve(&t->by_tcb) != ERR_OK)) {
        t->no_room++;
        return;
    }
    (void)map_put(&t->by_tcb, key, place);
}

static void on_rtt(struct connection *c, uint64_t us)
{
    uint32_t rtt = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;

    c->rtt_min = c->rtt_n == 0 || rtt < c->rtt_min ? rtt : c->rtt_min;
    c->rtt_max = rtt > c->rtt_max ? rtt : c->rtt_max;
    c->rtt_sum += rtt;
    c->rtt_n++;
}

static void on_block(struct etl_tcp *t, const struct raw_event *raw, uint64_t tcb)
{
    uint64_t place = map_get(&t->by_tcb, tcb_key(t, tcb));
    struct connection *c = place && place != NOBODY ? &t->all[place - 1] : NULL;

    if (!c) {
        return;
    }
    switch (raw->id) {
    case 1332:
        c->sent += etl_fields_uint(&t->fields, "BytesSent", 0);
        break;
    case 1074:
        c->received += etl_fields_uint(&t->fields, "NumBytes", 0);
        break;
    case 1077:
        c->retransmits++;
        if (etl_fields_uint(&t->fields, "RttSample", 0)) {
            on_rtt(c, etl_fields_uint(&t->fields, "RttSample", 0));
        }
        break;
    default:
        end_at(c, raw->id == 1044 ? ENDED_SHUTDOWN : ENDED_ABORT, raw->wall_ns);
        if (raw->id != 1044) { /* its block may be another's from now on */
            tcb_names(t, tcb, NULL);
        }
        break;
    }
}

static void on_stack(struct etl_tcp *t, const struct raw_event *raw)
{
    struct etl_ends e;
    uint64_t tcb;

    if (etl_fields_read(&t->fields, t->walk, raw) != ERR_OK) {
        return;
    }
    tcb = etl_fields_uint(&t->fields, "Tcb", 0);
    if (raw->id == 1300 && etl_ends_fields(&e, &t->fields, "Pid")) {
        tcb_names(t, tcb, living(t, &e));
    } else if (raw->id == 1017 && etl_ends_fields(&e, &t->fields, "ProcessId")) {
        tcb_names(t, tcb, open_at(t, &e, OPENED_ACCEPT, raw->wall_ns));
    } else {
        on_block(t, raw, tcb);
    }
}

static bool is_stack_id(unsigned id)
{
    return id == 1017 || id == 1039 || id == 1040 || id == 1044 || id == 1074 || id == 1077 ||
           id == 1300 || id == 1332;
}

static void on_record(void *ctx, const struct etl_walk_record *r)
{
    static const uint8_t tcp_ip[16] = ETW_CLASS_TCP_IP;
    static const uint8_t network[16] = {0x49, 0x2a, 0xd4, 0x7d, 0x29, 0x53, 0x32, 0x48,
                                        0x8d, 0xfd, 0x43, 0xd9, 0x79, 0x15, 0x3a, 0x88};
    static const uint8_t stack[16] = {0xee, 0xe2, 0x07, 0x2f, 0xdb, 0x15, 0xf1, 0x40,
                                      0x90, 0xef, 0x9d, 0x7b, 0xa2, 0x82, 0x18, 0x8a};
    struct etl_tcp *t = ctx;
    const struct raw_event *raw = r->raw;
    unsigned op = raw->form == RAW_CLASSIC ? raw->opcode : raw->id;

    if (!etl_range_takes(&t->range, t->walk, r)) {
        return;
    }
    if (raw->form == RAW_CLASSIC ? memcmp(raw->guid, tcp_ip, 16) == 0
                                 : memcmp(raw->guid, network, 16) == 0 && !t->classic) {
        t->classic |= raw->form == RAW_CLASSIC;
        t->events++;
        if ((op >= SENT && op <= COPIED) ||
            (op >= ETL_ENDS_V6_FROM && op <= ETL_ENDS_V6_FROM + COPIED - SENT)) {
            on_kernel(t, raw, op);
        }
    } else if (raw->form == RAW_MANIFEST && is_stack_id(op) && memcmp(raw->guid, stack, 16) == 0) {
        t->events++;
        on_stack(t, raw);
    }
}

/* -- printing -- */

enum {
    FILE_NAME,
    PID,
    PROCESS,
    LOCAL,
    REMOTE,
    SENT_BYTES,
    RECEIVED_BYTES,
    RETRANSMITS,
    RTT,
    RTT_MIN,
    RTT_MAX,
    OPENED,
    ENDED,
    START,
    END,
    COLUMNS
};

static const struct table_column columns[COLUMNS] = {
    [FILE_NAME] = {"file", "FILE", TABLE_TEXT},
    [PID] = {"pid", "PID", TABLE_ID},
    [PROCESS] = {"process", "PROCESS", TABLE_TEXT},
    [LOCAL] = {"local", "LOCAL", TABLE_TEXT},
    [REMOTE] = {"remote", "REMOTE", TABLE_TEXT},
    [SENT_BYTES] = {"sent", "SENT", TABLE_BYTES},
    [RECEIVED_BYTES] = {"received", "RECEIVED", TABLE_BYTES},
    [RETRANSMITS] = {"retransmits", "RETRANS", TABLE_COUNT},
    [RTT] = {"rtt_mean", "RTT", TABLE_NS},
    [RTT_MIN] = {"rtt_min", NULL, TABLE_NS},
    [RTT_MAX] = {"rtt_max", NULL, TABLE_NS},
    [OPENED] = {"opened", "OPENED", TABLE_WORD},
    [ENDED] = {"ended", "ENDED", TABLE_WORD},
    [START] = {"start_time", NULL, TABLE_TIME},
    [END] = {"end_time", NULL, TABLE_TIME},
};

static int by_bytes(const void *pa, const void *pb)
{
    const struct connection *a = pa, *b = pb;
    uint64_t na = a->sent + a->received, nb = b->sent + b->received;

    if (na != nb) {
        return na > nb ? -1 : 1;
    }
    return memcmp(&a->ends, &b->ends, sizeof a->ends);
}

static void put_end(struct buf *b, const uint8_t *address, uint8_t n, uint16_t port)
{
    buf_reset(b);
    if (n == 16) {
        buf_put_u8(b, '[');
    }
    value_text_address(b, address, n);
    buf_printf(b, "%s:%u", n == 16 ? "]" : "", port);
}

static enum err put_connection(struct table *sheet, const char *file, const struct connection *c,
                               struct buf ends[2])
{
    static const char *const opened[] = {"before", "connect", "accept"};
    static const char *const ended[] = {"", "disconnect", "abort", "shutdown"};
    struct table_cell cells[COLUMNS];
    bool rtt = c->rtt_n > 0;

    put_end(&ends[0], c->ends.local, c->ends.n, c->ends.local_port);
    put_end(&ends[1], c->ends.remote, c->ends.n, c->ends.remote_port);
    cells[FILE_NAME] = table_string(str_make(file));
    cells[PID] = table_number(c->ends.pid != EVENT_NO_ID, c->ends.pid);
    cells[PROCESS] = table_string(c->owner ? c->owner->info.name : str_make(""));
    cells[LOCAL] = table_string((struct str){(const char *)ends[0].p, ends[0].n});
    cells[REMOTE] = table_string((struct str){(const char *)ends[1].p, ends[1].n});
    cells[SENT_BYTES] = table_count(c->sent);
    cells[RECEIVED_BYTES] = table_count(c->received);
    cells[RETRANSMITS] = table_count(c->retransmits);
    cells[RTT] = table_number(rtt, rtt ? (int64_t)(c->rtt_sum / c->rtt_n) * 1000 : 0);
    cells[RTT_MIN] = table_number(rtt, (int64_t)c->rtt_min * 1000);
    cells[RTT_MAX] = table_number(rtt, (int64_t)c->rtt_max * 1000);
    cells[OPENED] = table_string(str_make(opened[c->opened]));
    cells[ENDED] = table_string(str_make(ended[c->ended]));
    cells[START] = table_number(c->opened != OPENED_BEFORE, c->opened_ns);
    cells[END] = table_number(c->ended != ENDED_NOT, c->ended_ns);
    return table_row(sheet, cells);
}

static enum err put_all(struct etl_tcp *t, struct table *sheet, const char *file)
{
    struct buf ends[2];
    size_t shown = 0;
    enum err e = ERR_OK;

    buf_init(&ends[0], 128);
    buf_init(&ends[1], 128);
    if (t->n) {
        qsort(t->all, t->n, sizeof *t->all, by_bytes);
    }
    for (size_t i = 0; i < t->n && !e && etl_job_out_ok(t->job); i++) {
        if (etl_range_process(&t->range, t->all[i].ends.pid, t->all[i].owner)) {
            e = put_connection(sheet, file, &t->all[i], ends);
            shown++;
        }
    }
    buf_fini(&ends[0]);
    buf_fini(&ends[1]);
    if (shown == 0) {
        etl_job_note(sheet, file,
                     t->events ? "no connection matches"
                               : "no events of TCP are recorded (classic TcpIp, "
                                 "Kernel-Network or TCPIP)" ETL_JOB_PROVIDERS);
    }
    if (t->failed) {
        etl_job_note(sheet, file, "%llu connects failed", (unsigned long long)t->failed);
    }
    if (t->no_room) {
        etl_job_note(sheet, file, "%llu records of connections beyond 65,536 are left out",
                     (unsigned long long)t->no_room);
    }
    return e;
}

static enum err tcp_part(struct etl_job *job, size_t part, struct table *sheet, void *ctx)
{
    struct etl_tcp *t = ctx;
    struct etl_walk_conf conf = {.names = true, .progress = true, .record = on_record, .ctx = t};
    enum err e = ERR_OK;

    t->n = 0;
    t->no_room = t->failed = t->events = 0;
    t->classic = false;
    map_clear(&t->by_ends);
    map_clear(&t->by_tcb);
    etl_range_begin(&t->range);
    if (etl_job_open(job, part, &conf, &t->walk) == ERR_OK) {
        (void)etl_job_walk(job, t->walk);
        e = put_all(t, sheet, etl_job_part_name(job, part));
        etl_walk_close(t->walk);
    }
    return e;
}

static enum err tcp_run(struct etl_job *job, struct errmsg *why)
{
    static const char *const yields[] = {"RTT", "OPENED", "FILE", "PROCESS", NULL};
    struct etl_tcp *t = mem_zalloc(sizeof *t);
    const struct etl_job_list list = {columns, COLUMNS, yields, "the connections", tcp_part, t};
    enum err e;

    if (!t) {
        return ERR_NOMEM;
    }
    t->job = job;
    err_ignore(os_random(&t->seed, sizeof t->seed)); /* without it only slower */
    e = etl_range_parse(&t->range, job, why);
    e = e ? e : etl_job_rows(job, &list, why);
    map_fini(&t->by_ends);
    map_fini(&t->by_tcb);
    mem_free(t->all);
    mem_free(t);
    return e;
}

static const struct opt opts[] = {ETL_RANGE_OPTS, ETL_JOB_OPT_LIMIT, ETL_JOB_OPTS};

static const struct opt_command tcp_opts = {
    .program = ETL_JOB_PROGRAM,
    .name = "tcp",
    .brief = "TCP connections: ends, process, bytes, retransmits, how they began and ended",
    .operands = "FILE...",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples = "  procfleet-etl tcp trace.etl\n"
                "  procfleet-etl tcp trace.etl --pid 344 --format jsonl\n",
};

const struct etl_command etl_tcp_command = {&tcp_opts, NULL, tcp_run};
