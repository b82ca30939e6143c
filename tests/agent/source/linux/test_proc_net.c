#include "agent/source/linux/proc_net.h"

#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/taskstats.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "tests/support/t.h"

/* Messages are made here from the kernel's own headers, so that the offsets in proc_net.c are
 * checked against them. */

/* The kernel's macros for these mix signs. */
#define ALIGNED(n)     (((size_t)(n) + 3) & ~(size_t)3)
#define GENERIC_HEADER sizeof(struct genlmsghdr)
#define ATTR_HEADER    sizeof(struct nlattr)
#define LENGTH(body)   (sizeof(struct nlmsghdr) + (body))

struct packet {
    _Alignas(8) uint8_t p[2048];
    size_t n;
};

static struct packet connector_packet(const struct proc_event *ev)
{
    struct packet k = {.n = LENGTH(sizeof(struct cn_msg) + sizeof *ev)};
    struct nlmsghdr nl = {.nlmsg_len = (uint32_t)k.n, .nlmsg_type = NLMSG_DONE};
    struct cn_msg cn = {.id = {CN_IDX_PROC, CN_VAL_PROC}, .len = sizeof *ev};

    memcpy(k.p, &nl, sizeof nl);
    memcpy(k.p + sizeof(struct nlmsghdr), &cn, sizeof cn);
    memcpy(k.p + sizeof(struct nlmsghdr) + sizeof cn, ev, sizeof *ev);
    return k;
}

static enum err decode_event(const struct packet *k, struct proc_net_event *ev)
{
    struct cur c = cur_make(k->p, k->n);
    struct proc_net_msg msg;
    enum err e = proc_net_next(&c, &msg);

    return e ? e : proc_net_event(ev, &msg);
}

static void connector_events_are_understood(void **state)
{
    struct proc_event fork_ev = {.what = PROC_EVENT_FORK, .timestamp_ns = 12345};
    struct proc_event exec_ev = {.what = PROC_EVENT_EXEC};
    struct proc_event uid_ev = {.what = PROC_EVENT_UID};
    struct proc_event exit_ev = {.what = PROC_EVENT_EXIT};
    struct proc_event other = {.what = PROC_EVENT_PTRACE};
    struct proc_net_event ev;
    struct packet k;

    fork_ev.event_data.fork.parent_pid = 11;
    fork_ev.event_data.fork.parent_tgid = 10;
    fork_ev.event_data.fork.child_pid = 21;
    fork_ev.event_data.fork.child_tgid = 20;
    k = connector_packet(&fork_ev);
    assert_ok(decode_event(&k, &ev));
    assert_int_equal(ev.kind, PROC_NET_FORK);
    assert_int_equal(ev.mono_ns, 12345);
    assert_int_equal(ev.parent_pid, 10);
    assert_int_equal(ev.pid, 20);
    assert_int_equal(ev.tid, 21);

    exec_ev.event_data.exec.process_pid = 31;
    exec_ev.event_data.exec.process_tgid = 30;
    k = connector_packet(&exec_ev);
    assert_ok(decode_event(&k, &ev));
    assert_int_equal(ev.kind, PROC_NET_EXEC);
    assert_int_equal(ev.pid, 30);
    assert_int_equal(ev.tid, 31);

    uid_ev.event_data.id.process_tgid = 40;
    uid_ev.event_data.id.r.ruid = 1000;
    uid_ev.event_data.id.e.euid = 1001;
    k = connector_packet(&uid_ev);
    assert_ok(decode_event(&k, &ev));
    assert_int_equal(ev.kind, PROC_NET_UID);
    assert_int_equal(ev.pid, 40);
    assert_int_equal(ev.code, 1000);

    exit_ev.event_data.exit.process_pid = 51;
    exit_ev.event_data.exit.process_tgid = 50;
    exit_ev.event_data.exit.exit_code = 7 << 8;
    k = connector_packet(&exit_ev);
    assert_ok(decode_event(&k, &ev));
    assert_int_equal(ev.kind, PROC_NET_EXIT);
    assert_int_equal(ev.pid, 50);
    assert_int_equal(ev.tid, 51);
    assert_int_equal(ev.code, 7 << 8);

    k = connector_packet(&other);
    assert_ok(decode_event(&k, &ev));
    assert_int_equal(ev.kind, PROC_NET_OTHER);
}

/* Whether the filter lets it through. */
static bool rings(const struct proc_event *ev)
{
    struct packet k = connector_packet(ev);
    uint8_t got[sizeof k.p];
    int ends[2];
    bool came;

    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends), 0);
    assert_int_equal(
        setsockopt(ends[1], SOL_SOCKET, SO_ATTACH_FILTER, &proc_net_bell, sizeof proc_net_bell), 0);
    assert_int_equal(send(ends[0], k.p, k.n, 0), k.n);
    came = recv(ends[1], got, sizeof got, 0) == (ssize_t)k.n;
    close(ends[0]);
    close(ends[1]);
    return came;
}

static void only_forks_of_processes_and_execs_ring_the_bell(void **state)
{
    struct proc_event ev = {.what = PROC_EVENT_FORK};

    ev.event_data.fork.child_pid = ev.event_data.fork.child_tgid = 20;
    assert_true(rings(&ev));
    ev.event_data.fork.child_pid = 21; /* a thread */
    assert_false(rings(&ev));
    assert_true(rings(&(struct proc_event){.what = PROC_EVENT_EXEC}));
    assert_false(rings(&(struct proc_event){.what = PROC_EVENT_EXIT}));
    assert_false(rings(&(struct proc_event){.what = PROC_EVENT_UID}));
    assert_false(rings(&(struct proc_event){.what = PROC_EVENT_NONE}));
}

static void every_short_event_is_rejected(void **state)
{
    struct proc_event exit_ev = {.what = PROC_EVENT_EXIT};
    struct packet k = connector_packet(&exit_ev);
    /* Behind the exit code nothing is read. */
    size_t used = sizeof(struct nlmsghdr) + sizeof(struct cn_msg) +
                  offsetof(struct proc_event, event_data.exit.exit_signal);

    for (size_t n = 1; n <= used; n++) {
        uint8_t *p = mem_dup(k.p, n);
        uint32_t length = (uint32_t)n;
        struct proc_net_event ev;
        struct cur c = cur_make(p, n);
        struct proc_net_msg msg;
        enum err e;

        /* Once cut off behind what the header promises, once with an honest header. */
        assert_err(proc_net_next(&c, &msg), ERR_CORRUPT);
        memcpy(p, &length, n < 4 ? n : 4);
        c = cur_make(p, n);
        e = proc_net_next(&c, &msg);
        if (!e) {
            e = proc_net_event(&ev, &msg);
        }
        assert_err(e, n < used ? ERR_CORRUPT : ERR_OK);
        mem_free(p);
    }
}

static size_t put_attr(uint8_t *p, uint16_t type, const void *value, size_t n)
{
    struct nlattr a = {(uint16_t)(ATTR_HEADER + n), type};

    memset(p, 0, ALIGNED(a.nla_len));
    memcpy(p, &a, sizeof a);
    memcpy(p + ATTR_HEADER, value, n);
    return ALIGNED(a.nla_len);
}

/* As the kernel sends it: one nested attribute with the id and the struct in it, of which
 * stats_n bytes are there; `more` bytes follow as of a newer kernel. */
static struct packet record_packet(const struct taskstats *ts, size_t stats_n, uint16_t aggregate)
{
    uint8_t inner[1024] = {0}, stats[700] = {0};
    struct genlmsghdr ge = {.cmd = TASKSTATS_CMD_NEW, .version = 1};
    uint32_t id = ts->ac_pid ? ts->ac_pid : 4711;
    struct packet k = {.n = sizeof(struct nlmsghdr)};
    struct nlmsghdr nl = {.nlmsg_type = 31};
    size_t n;

    memcpy(stats, ts, sizeof *ts);
    n = put_attr(inner,
                 aggregate == TASKSTATS_TYPE_AGGR_PID ? TASKSTATS_TYPE_PID : TASKSTATS_TYPE_TGID,
                 &id, sizeof id);
    n += put_attr(inner + n, TASKSTATS_TYPE_STATS, stats, stats_n);
    memcpy(k.p + k.n, &ge, sizeof ge);
    k.n += GENERIC_HEADER;
    k.n += put_attr(k.p + k.n, aggregate, inner, n);
    nl.nlmsg_len = (uint32_t)k.n;
    memcpy(k.p, &nl, sizeof nl);
    return k;
}

static const struct taskstats record = {.version = 13,
                                        .ac_exitcode = 7 << 8,
                                        .ac_flag = 0x20 | 1,
                                        .cpu_run_virtual_total = 2000000001,
                                        .ac_comm = "burn",
                                        .ac_uid = 1000,
                                        .ac_pid = 100,
                                        .ac_ppid = 99,
                                        .ac_utime = 1500,
                                        .ac_stime = 500,
                                        .ac_minflt = 11,
                                        .ac_majflt = 12,
                                        .hiwater_rss = 65536,
                                        .read_char = 1024,
                                        .write_char = 10485760,
                                        .read_bytes = 4096,
                                        .write_bytes = 8192,
                                        .nvcsw = 30,
                                        .nivcsw = 4,
                                        .cpu_count = 34,
                                        .cpu_delay_total = 58000001,
                                        .blkio_delay_total = 500,
                                        .swapin_delay_total = 1000,
                                        .freepages_delay_total = 200,
                                        .thrashing_delay_total = 30,
                                        .compact_delay_total = 4,
                                        .ac_tgid = 100};

static enum err decode_task(const struct packet *k, struct proc_net_task *t)
{
    struct cur c = cur_make(k->p, k->n);
    struct proc_net_msg msg;
    enum err e = proc_net_next(&c, &msg);

    return e ? e : proc_net_task(t, &msg);
}

static void the_record_of_an_ended_thread_is_understood(void **state)
{
    /* Newer kernels append fields. */
    static const size_t sizes[] = {TASKSTATS_VERSION >= 13 ? sizeof(struct taskstats) : 372, 372,
                                   560};

    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct packet k = record_packet(&record, sizes[i], TASKSTATS_TYPE_AGGR_PID);
        struct proc_net_task t;

        assert_ok(decode_task(&k, &t));
        assert_false(t.group);
        assert_true(t.last);
        assert_true(t.leader);
        assert_int_equal(t.pid, 100);
        assert_int_equal(t.tid, 100);
        assert_int_equal(t.parent_pid, 99);
        assert_int_equal(t.uid, 1000);
        assert_int_equal(t.exit_status, 7 << 8);
        assert_true(t.waits.ready_known);
        assert_int_equal(t.waits.ready_ns, 58000001);
        assert_int_equal(t.waits.io_ns, 500);
        assert_int_equal(t.waits.memory_ns, 1234);
        assert_int_equal(t.name_n, 4);
        assert_memory_equal(t.name, "burn", 4);
        assert_int_equal(t.run_ns, 2000000001);
        assert_int_equal(t.user_ns, 1500000);
        assert_int_equal(t.kernel_ns, 500000);
        assert_int_equal(t.minor_faults, 11);
        assert_int_equal(t.major_faults, 12);
        assert_int_equal(t.peak_bytes, 64 << 20);
        assert_int_equal(t.read_chars, 1024);
        assert_int_equal(t.write_chars, 10485760);
        assert_int_equal(t.disk_read, 4096);
        assert_int_equal(t.disk_write, 8192);
        assert_int_equal(t.switches, 34);
    }
}

static void the_answer_about_a_group_bears_the_id_asked_for(void **state)
{
    struct taskstats ts = {.version = 13, .nvcsw = 5, .nivcsw = 6};
    struct packet k = record_packet(&ts, sizeof ts, TASKSTATS_TYPE_AGGR_TGID);
    struct proc_net_task t;

    assert_ok(decode_task(&k, &t));
    assert_true(t.group);
    assert_int_equal(t.pid, 4711);
    assert_int_equal(t.switches, 11);
}

static void a_record_too_old_to_name_its_process_is_told_apart(void **state)
{
    struct taskstats ts = record;
    struct packet k;
    struct proc_net_task t;

    ts.version = 10;
    k = record_packet(&ts, 344, TASKSTATS_TYPE_AGGR_PID);
    assert_err(decode_task(&k, &t), ERR_VERSION);
}

static void every_short_record_is_rejected(void **state)
{
    struct packet k = record_packet(&record, 372, TASKSTATS_TYPE_AGGR_PID);

    for (size_t n = 0; n < 372; n++) {
        struct packet less = record_packet(&record, n, TASKSTATS_TYPE_AGGR_PID);
        struct proc_net_task t;

        assert_err(decode_task(&less, &t), ERR_CORRUPT);
    }
    for (size_t n = 16; n < k.n; n++) {
        uint8_t *p = mem_dup(k.p, n);
        uint32_t length = (uint32_t)n;
        struct cur c = cur_make(p, n);
        struct proc_net_task t;
        struct proc_net_msg msg;
        enum err e;

        memcpy(p, &length, sizeof length);
        assert_ok(proc_net_next(&c, &msg));
        e = proc_net_task(&t, &msg);
        assert_true(e == ERR_CORRUPT || (n == 20 && e == ERR_NOTFOUND));
        mem_free(p);
    }
}

static void several_messages_of_a_packet_come_one_by_one(void **state)
{
    struct proc_event ev = {.what = PROC_EVENT_EXEC};
    struct packet one = connector_packet(&ev);
    uint8_t two[512] = {0};
    size_t at = ALIGNED(one.n);
    struct proc_net_msg msg;
    struct cur c;

    memcpy(two, one.p, one.n);
    memcpy(two + at, one.p, one.n);
    c = cur_make(two, at + one.n);
    assert_ok(proc_net_next(&c, &msg));
    assert_ok(proc_net_next(&c, &msg));
    assert_err(proc_net_next(&c, &msg), ERR_END);
}

static void the_family_number_is_found(void **state)
{
    struct packet k = {.n = sizeof(struct nlmsghdr) + GENERIC_HEADER};
    struct nlmsghdr nl = {.nlmsg_type = GENL_ID_CTRL};
    uint16_t id = 31, family = 0;
    struct proc_net_msg msg;
    struct cur c;

    k.n += put_attr(k.p + k.n, CTRL_ATTR_FAMILY_NAME, "TASKSTATS", 10);
    k.n += put_attr(k.p + k.n, CTRL_ATTR_FAMILY_ID, &id, sizeof id);
    nl.nlmsg_len = (uint32_t)k.n;
    memcpy(k.p, &nl, sizeof nl);
    c = cur_make(k.p, k.n);
    assert_ok(proc_net_next(&c, &msg));
    assert_ok(proc_net_family(&family, &msg));
    assert_int_equal(family, 31);
}

static void an_acknowledgement_bears_an_errno(void **state)
{
    static const struct {
        int32_t code;
        enum err e;
        int error;
    } table[] = {{0, ERR_OK, 0}, {-1, ERR_OK, 1}, {-4096, ERR_CORRUPT, 0}, {5, ERR_CORRUPT, 0}};

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        uint8_t p[sizeof(struct nlmsghdr) + sizeof(int32_t)];
        struct nlmsghdr nl = {.nlmsg_len = sizeof p, .nlmsg_type = NLMSG_ERROR};
        struct cur c = cur_make(p, sizeof p);
        struct proc_net_msg msg;
        int error = 0;

        memcpy(p, &nl, sizeof nl);
        memcpy(p + sizeof(struct nlmsghdr), &table[i].code, sizeof table[i].code);
        assert_ok(proc_net_next(&c, &msg));
        assert_err(proc_net_result(&error, &msg), table[i].e);
        assert_int_equal(error, table[i].error);
    }
}

/* A request read back with the kernel's own structs. */
static void requests_have_the_kernels_layout(void **state)
{
    uint8_t p[PROC_NET_REQUEST_MAX];
    struct nlmsghdr nl;
    struct genlmsghdr ge;
    struct nlattr attr;
    struct cn_msg cn;
    uint32_t value;

    assert_int_equal(proc_net_listen(p, true, 77), LENGTH(sizeof cn + 4));
    memcpy(&nl, p, sizeof nl);
    memcpy(&cn, p + sizeof(struct nlmsghdr), sizeof cn);
    memcpy(&value, p + sizeof(struct nlmsghdr) + sizeof cn, 4);
    assert_int_equal(nl.nlmsg_type, NLMSG_DONE);
    assert_int_equal(cn.id.idx, CN_IDX_PROC);
    assert_int_equal(cn.ack, 77);
    assert_int_equal(cn.len, 4);
    assert_int_equal(value, PROC_CN_MCAST_LISTEN);

    assert_int_equal(proc_net_ask_group(p, 31, 4711), LENGTH(GENERIC_HEADER + 8));
    memcpy(&nl, p, sizeof nl);
    memcpy(&ge, p + sizeof(struct nlmsghdr), sizeof ge);
    memcpy(&attr, p + sizeof(struct nlmsghdr) + GENERIC_HEADER, sizeof attr);
    memcpy(&value, p + sizeof(struct nlmsghdr) + GENERIC_HEADER + ATTR_HEADER, 4);
    assert_int_equal(nl.nlmsg_len, LENGTH(GENERIC_HEADER + 8));
    assert_int_equal(nl.nlmsg_type, 31);
    assert_int_equal(nl.nlmsg_flags, NLM_F_REQUEST);
    assert_int_equal(ge.cmd, TASKSTATS_CMD_GET);
    assert_int_equal(attr.nla_type, TASKSTATS_CMD_ATTR_TGID);
    assert_int_equal(attr.nla_len, 8);
    assert_int_equal(value, 4711);

    (void)proc_net_register(p, 31, "0-127");
    memcpy(&attr, p + sizeof(struct nlmsghdr) + GENERIC_HEADER, sizeof attr);
    assert_int_equal(attr.nla_type, TASKSTATS_CMD_ATTR_REGISTER_CPUMASK);
    assert_string_equal((char *)p + sizeof(struct nlmsghdr) + GENERIC_HEADER + ATTR_HEADER,
                        "0-127");

    (void)proc_net_ask_family(p, TASKSTATS_GENL_NAME);
    memcpy(&attr, p + sizeof(struct nlmsghdr) + GENERIC_HEADER, sizeof attr);
    assert_int_equal(attr.nla_type, CTRL_ATTR_FAMILY_NAME);
    assert_string_equal((char *)p + sizeof(struct nlmsghdr) + GENERIC_HEADER + ATTR_HEADER,
                        TASKSTATS_GENL_NAME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connector_events_are_understood),
        cmocka_unit_test(only_forks_of_processes_and_execs_ring_the_bell),
        cmocka_unit_test(every_short_event_is_rejected),
        cmocka_unit_test(the_record_of_an_ended_thread_is_understood),
        cmocka_unit_test(the_answer_about_a_group_bears_the_id_asked_for),
        cmocka_unit_test(a_record_too_old_to_name_its_process_is_told_apart),
        cmocka_unit_test(every_short_record_is_rejected),
        cmocka_unit_test(several_messages_of_a_packet_come_one_by_one),
        cmocka_unit_test(the_family_number_is_found),
        cmocka_unit_test(an_acknowledgement_bears_an_errno),
        cmocka_unit_test(requests_have_the_kernels_layout),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
