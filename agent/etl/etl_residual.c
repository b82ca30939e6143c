#include "agent/etl/etl_residual.h"

#include "common/base/cur.h"

#define SID_SUB_MAX 15

const char *etl_residual_name(const struct etl_kinds_event *kind)
{
    uint8_t op = kind->opcode;

    switch (kind->kernel) {
    case ETL_KINDS_PROCESS:
        return (op >= 1 && op <= 4) || op == 39 ? "process" : NULL;
    case ETL_KINDS_THREAD:
        return op >= 1 && op <= 4 ? "thread" : op == 36 ? "cswitch" : NULL;
    case ETL_KINDS_IMAGE:
        return op == 10 || (op >= 2 && op <= 4) ? "image" : NULL;
    case ETL_KINDS_PERF_INFO:
        return op == 46 ? "sample" : NULL;
    case ETL_KINDS_DISK_IO:
        return op == 10 || op == 11 ? "disk" : NULL;
    case ETL_KINDS_PAGE_FAULT:
        return op == 32 ? "hardfault" : op >= 10 && op <= 15 ? "softfault" : NULL;
    case ETL_KINDS_TCP_IP:
        return op == 10 || op == 11 || op == 26 || op == 27 ? "tcp" : NULL;
    case ETL_KINDS_UDP_IP:
        return op == 10 || op == 11 || op == 26 || op == 27 ? "udp" : NULL;
    default:
        return NULL;
    }
}

static void skip_sid(struct cur *c, unsigned pointer_size)
{
    struct cur at = *c;
    uint8_t n;

    if (cur_u32le(&at) == 0) {
        cur_skip(c, 4);
        return;
    }
    cur_skip(c, 2u * pointer_size);
    (void)cur_u8(c);
    n = cur_u8(c);
    cur_skip(c, n <= SID_SUB_MAX ? 6u + 4u * n : cur_left(c) + 1);
}

/* key, pid, parent, session, exit status, page directory (3), flags (4), SID, image, command line
 * (2), package and application (4) */
static void skip_process(struct cur *c, unsigned version, unsigned p)
{
    size_t n;

    cur_skip(c, version == 0 ? 2u * p : p + 16u);
    cur_skip(c, (version >= 3 ? p : 0u) + (version >= 4 ? 4u : 0u));
    skip_sid(c, p);
    (void)cur_cstr(c, &n);
    for (unsigned i = version >= 4 ? 3 : version >= 2 ? 1 : 0; i > 0; i--) {
        (void)cur_wstr(c, &n);
    }
}

static void skip_thread(struct cur *c, const struct raw_event *raw)
{
    unsigned p = raw->pointer_size;

    cur_skip(c, 8);
    if (raw->version == 1 && raw->opcode == 1) {
        cur_skip(c, 6u * p + 1);
    } else if (raw->version >= 2) {
        cur_skip(c, 7u * p + 4u + (raw->version >= 3 ? 4u : 0u));
    }
}

static void skip_image(struct cur *c, unsigned version, unsigned p)
{
    size_t n;

    cur_skip(c, version == 0 ? p + 4u : 2u * p + 4u);
    cur_skip(c, version >= 2 ? 12u + p + 16u : 0u);
    (void)cur_wstr(c, &n);
}

/* pid, size, two addresses, two ports; TCP send: times, sequence, connection */
static size_t net_size(const struct etl_kinds_event *kind, unsigned p)
{
    size_t base = 8u + (kind->opcode >= 26 ? 32u : 8u) + 4u;
    bool sent = kind->opcode == 10 || kind->opcode == 26;

    return base + 4u + p + (kind->kernel == ETL_KINDS_TCP_IP && sent ? 8u : 0u);
}

static size_t fixed_size(const struct etl_kinds_event *kind, const struct raw_event *raw)
{
    unsigned p = raw->pointer_size;

    switch (kind->kernel) {
    case ETL_KINDS_THREAD:
        return 24;
    case ETL_KINDS_PERF_INFO:
        return p + 8u;
    case ETL_KINDS_DISK_IO:
        return 32u + 2u * p + (raw->version >= 3 ? 4u : 0u);
    case ETL_KINDS_PAGE_FAULT:
        return kind->opcode == 32 ? 24u + 2u * p : 2u * p;
    default:
        return net_size(kind, p);
    }
}

size_t etl_residual_bytes(const struct etl_kinds_event *kind, const struct raw_event *raw)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);

    switch (kind->kernel) {
    case ETL_KINDS_PROCESS:
        skip_process(&c, raw->version, raw->pointer_size);
        break;
    case ETL_KINDS_THREAD:
        if (kind->opcode == 36) {
            cur_skip(&c, fixed_size(kind, raw));
        } else {
            skip_thread(&c, raw);
        }
        break;
    case ETL_KINDS_IMAGE:
        skip_image(&c, raw->version, raw->pointer_size);
        break;
    default:
        cur_skip(&c, fixed_size(kind, raw));
        break;
    }
    return c.bad ? 0 : cur_left(&c);
}
