/* Layouts, offsets in bytes (linux/netlink.h, connector.h, cn_proc.h, genetlink.h, taskstats.h):
 *
 *   netlink     u32 length (header included), u16 type, u16 flags, u32 sequence, u32 port; padded
 *               to 4
 *   connector   u32 idx = 1, u32 val = 1, u32 seq, u32 ack, u16 length, u16 flags, then proc_event:
 *               u32 what, u32 cpu, u64 stamp, then by `what`
 *   generic     u8 command, u8 version, u16 0, then attributes: u16 length (4 included), u16 type,
 *               padded to 4, nested in some
 *   taskstats   one struct that only grows at its end; the offsets below hold since version 12
 */
#include "agent/source/linux/proc_net.h"

#include <string.h>

#define NL_ERROR   2  /* NLMSG_ERROR */
#define NL_DONE    3  /* NLMSG_DONE: the connector's messages bear it */
#define NL_CONTROL 16 /* GENL_ID_CTRL */
#define NL_REQUEST 1
#define NL_ACK     4

#define CTRL_GET_FAMILY 3
#define CTRL_FAMILY_ID  1 /* attributes */
#define CTRL_NAME       2

#define TASK_GET        1 /* commands */
#define TASK_NEW        2
#define TASK_ASK_TGID   2 /* attributes of a request */
#define TASK_ASK_CPUS   3
#define TASK_TID        1 /* attributes of an answer */
#define TASK_TGID       2
#define TASK_STATS      3
#define TASK_AGGR_TID   4
#define TASK_AGGR_TGID  5
#define TASK_FLAG_GROUP 0x20

#define EVENT_ACK  0x0U
#define EVENT_FORK 0x1U
#define EVENT_EXEC 0x2U
#define EVENT_UID  0x4U
#define EVENT_EXIT 0x80000000U

/* Of a connector's message: where what happened stands, and of a fork the child's thread, its
 * process behind it. */
#define WHAT_AT      36
#define CHILD_TID_AT 60

static struct sock_filter bell[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, WHAT_AT), /* big endian */
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __builtin_bswap32(EVENT_EXEC), 5, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __builtin_bswap32(EVENT_FORK), 0, 5),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, CHILD_TID_AT),
    BPF_STMT(BPF_MISC | BPF_TAX, 0),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, CHILD_TID_AT + 4),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    BPF_STMT(BPF_RET | BPF_K, 0),
};
const struct sock_fprog proc_net_bell = {sizeof bell / sizeof *bell, bell};

enum err proc_net_next(struct cur *packet, struct proc_net_msg *out)
{
    struct cur c = *packet;
    struct proc_net_msg msg;
    uint32_t length;
    const uint8_t *body;

    if (cur_left(&c) == 0) {
        return ERR_END;
    }
    length = cur_u32le(&c);
    msg.type = cur_u16le(&c);
    cur_skip(&c, 10);
    if (c.bad || length < 16) {
        return ERR_CORRUPT;
    }
    body = cur_bytes(&c, length - 16);
    if (!body) {
        return ERR_CORRUPT;
    }
    msg.body = cur_make(body, length - 16);
    /* The padding of a last message may be missing. */
    cur_skip(&c, cur_left(&c) < ((4 - length % 4) & 3) ? cur_left(&c) : ((4 - length % 4) & 3));
    *packet = c;
    *out = msg;
    return ERR_OK;
}

static void event_fork(struct proc_net_event *ev, struct cur *c)
{
    ev->kind = PROC_NET_FORK;
    cur_skip(c, 4); /* the parent's thread */
    ev->parent_pid = cur_u32le(c);
    ev->tid = cur_u32le(c);
    ev->pid = cur_u32le(c);
}

static void event_of(struct proc_net_event *ev, enum proc_net_kind kind, struct cur *c)
{
    ev->kind = kind;
    ev->tid = cur_u32le(c);
    ev->pid = cur_u32le(c);
}

enum err proc_net_event(struct proc_net_event *out, const struct proc_net_msg *msg)
{
    struct proc_net_event ev = {.kind = PROC_NET_OTHER};
    struct cur c = msg->body;
    uint32_t what, ack;
    uint64_t stamp;

    if (msg->type != NL_DONE || cur_u32le(&c) != 1 || cur_u32le(&c) != 1) {
        return ERR_CORRUPT;
    }
    cur_skip(&c, 4);
    ack = cur_u32le(&c);
    cur_skip(&c, 4);
    what = cur_u32le(&c);
    cur_skip(&c, 4);
    stamp = cur_u64le(&c);
    ev.mono_ns = stamp > INT64_MAX ? INT64_MAX : (int64_t)stamp;
    switch (what) {
    case EVENT_ACK:
        ev.kind = PROC_NET_ACK;
        ev.code = cur_u32le(&c);
        ev.token = ack - 1; /* the kernel adds one */
        break;
    case EVENT_FORK:
        event_fork(&ev, &c);
        break;
    case EVENT_EXEC:
        event_of(&ev, PROC_NET_EXEC, &c);
        break;
    case EVENT_UID:
        event_of(&ev, PROC_NET_UID, &c);
        ev.code = cur_u32le(&c);
        break;
    case EVENT_EXIT:
        event_of(&ev, PROC_NET_EXIT, &c);
        ev.code = cur_u32le(&c);
        break;
    default:
        break;
    }
    if (c.bad) {
        return ERR_CORRUPT;
    }
    *out = ev;
    return ERR_OK;
}

/* The next attribute of c; false at the end, and (c bad) when it is damaged. */
static bool next_attr(struct cur *c, uint16_t *type, struct cur *value)
{
    uint16_t length;
    size_t pad;
    const uint8_t *p;

    if (cur_left(c) == 0) {
        return false;
    }
    length = cur_u16le(c);
    *type = cur_u16le(c) & 0x3fff;
    if (c->bad || length < 4) {
        c->bad = true;
        return false;
    }
    p = cur_bytes(c, (size_t)length - 4);
    if (!p) {
        return false;
    }
    *value = cur_make(p, (size_t)length - 4);
    pad = (4 - length % 4U) & 3;
    cur_skip(c, cur_left(c) < pad ? cur_left(c) : pad);
    return true;
}

/* From offset 9 to 72. Memory: swapping in; the rest of it stands behind the switches. */
static void take_waits(struct proc_net_waits *w, struct cur *c)
{
    cur_skip(c, 7); /* niceness */
    w->ready_known = cur_u64le(c) > 0;
    w->ready_ns = cur_u64le(c);
    cur_skip(c, 8);
    w->io_ns = cur_u64le(c);
    cur_skip(c, 8);
    w->memory_ns = cur_u64le(c);
    cur_skip(c, 8);
}

/* From offset 288 to 368: reclaim, thrashing, compaction. */
static void take_more_waits(struct proc_net_waits *w, struct cur *c)
{
    cur_skip(c, 32);
    w->memory_ns += cur_u64le(c);
    cur_skip(c, 8);
    w->memory_ns += cur_u64le(c);
    cur_skip(c, 16);
    w->memory_ns += cur_u64le(c);
}

static enum err take_stats(struct proc_net_task *t, struct cur c)
{
    const uint8_t *name;
    uint8_t flags;

    t->version = cur_u16le(&c);
    cur_skip(&c, 2);
    t->exit_status = cur_u32le(&c);
    flags = cur_u8(&c);
    take_waits(&t->waits, &c);
    t->run_ns = cur_u64le(&c);
    name = cur_bytes(&c, sizeof t->name);
    cur_skip(&c, 8); /* scheduling class */
    t->uid = cur_u32le(&c);
    cur_skip(&c, 4); /* group */
    t->tid = cur_u32le(&c);
    t->parent_pid = cur_u32le(&c);
    cur_skip(&c, 16); /* start in seconds, elapsed time */
    t->user_ns = cur_u64le(&c) * 1000;
    t->kernel_ns = cur_u64le(&c) * 1000;
    t->minor_faults = cur_u64le(&c);
    t->major_faults = cur_u64le(&c);
    cur_skip(&c, 16); /* memory integrals */
    t->peak_bytes = cur_u64le(&c) * 1024;
    cur_skip(&c, 8);
    t->read_chars = cur_u64le(&c);
    t->write_chars = cur_u64le(&c);
    cur_skip(&c, 16); /* calls, rounded down to 1024: worthless */
    t->disk_read = cur_u64le(&c);
    t->disk_write = cur_u64le(&c);
    cur_skip(&c, 8);
    t->switches = cur_u64le(&c);
    t->switches += cur_u64le(&c);
    if (!c.bad && t->version < PROC_NET_EXIT_VERSION) {
        return ERR_VERSION;
    }
    take_more_waits(&t->waits, &c);
    t->pid = cur_u32le(&c);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    memcpy(t->name, name, sizeof t->name);
    t->name_n = strnlen(t->name, sizeof t->name);
    t->last = (flags & TASK_FLAG_GROUP) != 0;
    t->leader = t->pid == t->tid;
    return ERR_OK;
}

enum err proc_net_task(struct proc_net_task *out, const struct proc_net_msg *msg)
{
    struct cur c = msg->body;
    uint16_t type;
    struct cur aggr;

    if (cur_u8(&c) != TASK_NEW) {
        return c.bad ? ERR_CORRUPT : ERR_NOTFOUND;
    }
    cur_skip(&c, 3);
    while (next_attr(&c, &type, &aggr)) {
        struct proc_net_task t = {0};
        uint32_t id = 0;
        bool found = false;
        struct cur value;
        uint16_t inner;

        if (type != TASK_AGGR_TID && type != TASK_AGGR_TGID) {
            continue;
        }
        while (next_attr(&aggr, &inner, &value)) {
            if (inner == TASK_TID || inner == TASK_TGID) {
                id = cur_u32le(&value);
            } else if (inner == TASK_STATS) {
                enum err e = take_stats(&t, value);

                if (e) {
                    return e;
                }
                found = true;
            }
        }
        if (found && !aggr.bad) {
            t.group = type == TASK_AGGR_TGID;
            if (t.group) {
                t.pid = id; /* a group's record leaves the ids inside empty */
            }
            *out = t;
            return ERR_OK;
        }
        c.bad = c.bad || aggr.bad;
    }
    return c.bad ? ERR_CORRUPT : ERR_NOTFOUND;
}

enum err proc_net_family(uint16_t *out, const struct proc_net_msg *msg)
{
    struct cur c = msg->body;
    uint16_t type;
    struct cur value;

    if (msg->type != NL_CONTROL) {
        return ERR_NOTFOUND;
    }
    cur_skip(&c, 4);
    while (next_attr(&c, &type, &value)) {
        if (type == CTRL_FAMILY_ID) {
            uint16_t id = cur_u16le(&value);

            if (value.bad) {
                return ERR_CORRUPT;
            }
            *out = id;
            return ERR_OK;
        }
    }
    return c.bad ? ERR_CORRUPT : ERR_NOTFOUND;
}

enum err proc_net_result(int *error, const struct proc_net_msg *msg)
{
    struct cur c = msg->body;
    int32_t code;

    if (msg->type != NL_ERROR) {
        return ERR_NOTFOUND;
    }
    code = (int32_t)cur_u32le(&c);
    if (c.bad || code > 0 || code < -4095) {
        return ERR_CORRUPT;
    }
    *error = -code;
    return ERR_OK;
}

/* -- requests; their sizes are small and fixed, so the puts cannot fail -- */

struct put {
    uint8_t *p;
    size_t n;
};

static void put_u16(struct put *o, uint16_t v)
{
    memcpy(o->p + o->n, &v, sizeof v);
    o->n += sizeof v;
}

static void put_u32(struct put *o, uint32_t v)
{
    memcpy(o->p + o->n, &v, sizeof v);
    o->n += sizeof v;
}

static struct put put_header(uint8_t *out, uint16_t type, uint16_t flags)
{
    struct put o = {out, 0};

    memset(out, 0, PROC_NET_REQUEST_MAX);
    put_u32(&o, 0); /* length: put_end */
    put_u16(&o, type);
    put_u16(&o, flags);
    put_u32(&o, 0);
    put_u32(&o, 0);
    return o;
}

static size_t put_end(struct put *o)
{
    uint32_t n = (uint32_t)o->n;

    memcpy(o->p, &n, sizeof n);
    return o->n;
}

static struct put put_generic(uint8_t *out, uint16_t family, uint16_t flags, uint8_t command)
{
    struct put o = put_header(out, family, flags);

    put_u16(&o, (uint16_t)(command | 1 << 8)); /* command, version 1 */
    put_u16(&o, 0);
    return o;
}

static void put_attr(struct put *o, uint16_t type, const void *p, size_t n)
{
    put_u16(o, (uint16_t)(n + 4));
    put_u16(o, type);
    memcpy(o->p + o->n, p, n);
    o->n += (n + 3) & ~(size_t)3;
}

size_t proc_net_listen(uint8_t out[PROC_NET_REQUEST_MAX], bool on, uint32_t token)
{
    struct put o = put_header(out, NL_DONE, 0);

    put_u32(&o, 1);
    put_u32(&o, 1);
    put_u32(&o, 0);
    put_u32(&o, token);
    put_u16(&o, 4);
    put_u16(&o, 0);
    put_u32(&o, on ? 1 : 2);
    return put_end(&o);
}

size_t proc_net_ask_family(uint8_t out[PROC_NET_REQUEST_MAX], const char *name)
{
    struct put o = put_generic(out, NL_CONTROL, NL_REQUEST, CTRL_GET_FAMILY);

    put_attr(&o, CTRL_NAME, name, strnlen(name, 15) + 1);
    return put_end(&o);
}

size_t proc_net_register(uint8_t out[PROC_NET_REQUEST_MAX], uint16_t family, const char *cpus)
{
    struct put o = put_generic(out, family, NL_REQUEST | NL_ACK, TASK_GET);

    put_attr(&o, TASK_ASK_CPUS, cpus, strnlen(cpus, 100) + 1);
    return put_end(&o);
}

size_t proc_net_ask_group(uint8_t out[PROC_NET_REQUEST_MAX], uint16_t family, uint32_t pid)
{
    struct put o = put_generic(out, family, NL_REQUEST, TASK_GET);

    put_attr(&o, TASK_ASK_TGID, &pid, sizeof pid);
    return put_end(&o);
}
