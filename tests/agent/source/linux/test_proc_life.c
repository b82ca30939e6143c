#include "agent/source/linux/proc_life.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/source/linux/proc_read.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "tests/support/t.h"

/* Numbers no Linux gives to a process, so that nothing of them is found in /proc: these processes
 * live in messages only. */
#define PID_A 0x40000001U
#define PID_B 0x40000002U
#define TID_1 0x40000011U
#define TID_2 0x40000012U

#define TOLD_MAX 32

struct told {
    enum event_kind kind;
    struct proc_info info;
    char name[32];
    metric_mask mask;
    int64_t totals[METRIC_COLS];
    int64_t mono_ns;
};

struct world {
    struct proc_host host;
    struct proc_table table;
    struct proc_life life;
    struct told told[TOLD_MAX];
    size_t n_told;
};

static void on_fact(void *ctx, const struct event *ev)
{
    struct world *w = ctx;
    struct told *t = &w->told[w->n_told++];

    assert_true(w->n_told < TOLD_MAX);
    t->kind = ev->kind;
    t->info = ev->u.proc.info;
    t->mono_ns = ev->mono_ns;
    t->mask = ev->u.proc.totals_mask;
    memcpy(t->name, ev->u.proc.info.name.p, ev->u.proc.info.name.n);
    if (ev->u.proc.totals) {
        memcpy(t->totals, ev->u.proc.totals, sizeof t->totals);
    }
}

static void begin(struct world *w, size_t max, bool records)
{
    const struct source_sink sink = {.ctx = w, .fact = on_fact};

    memset(w, 0, sizeof *w);
    assert_ok(proc_host_open(&w->host, "/proc", NULL));
    assert_ok(proc_inst_init(&w->table, &w->host, max));
    proc_life_init(&w->life, &w->table, sink, records);
    w->life.now_ns = CLK_S;
}

static void end(struct world *w)
{
    proc_inst_fini(&w->table);
    proc_host_close(&w->host);
}

static struct world it;

static int set_up(void **state)
{
    begin(&it, 8, true);
    return 0;
}

static int tear_down(void **state)
{
    end(&it);
    return 0;
}

static void send(struct world *w, enum proc_net_kind kind, uint32_t pid, uint32_t tid,
                 uint32_t code)
{
    const struct proc_net_event ev = {.kind = kind,
                                      .mono_ns = w->life.now_ns,
                                      .pid = pid,
                                      .tid = tid,
                                      .parent_pid = 1,
                                      .code = code};

    proc_life_event(&w->life, &ev);
}

static enum proc_took offer_record(struct world *w, uint32_t pid, uint32_t tid, bool last,
                                   bool final)
{
    const struct proc_net_task task = {.pid = pid,
                                       .tid = tid,
                                       .last = last,
                                       .leader = pid == tid,
                                       .exit_status = 3 << 8,
                                       .name = "brief",
                                       .name_n = 5,
                                       .run_ns = 1000,
                                       .user_ns = 300,
                                       .kernel_ns = 100,
                                       .minor_faults = 5,
                                       .major_faults = 1,
                                       .peak_bytes = tid == TID_1 ? 9000 : 8000,
                                       .read_chars = 10,
                                       .write_chars = 20,
                                       .disk_read = 1,
                                       .disk_write = 2,
                                       .switches = 7,
                                       .waits = {true, 40, 50, 60}};

    return proc_life_task(&w->life, &task, final);
}

static void send_record(struct world *w, uint32_t pid, uint32_t tid, bool last)
{
    (void)offer_record(w, pid, tid, last, true);
}

static void a_brief_life_is_one_start_and_one_stop(void **state)
{
    const struct told *stop;

    it.host.delays = false;
    send(&it, PROC_NET_FORK, PID_A, PID_A, 0);
    assert_int_equal(it.n_told, 0); /* its name is its parent's yet */
    send_record(&it, PID_A, PID_A, true);
    assert_int_equal(it.n_told, 1);
    assert_int_equal(it.told[0].kind, EV_PROC_START);
    assert_string_equal(it.told[0].name, "brief");
    proc_life_due(&it.life, it.life.now_ns);
    assert_int_equal(it.n_told, 1); /* the end itself has not come */
    send(&it, PROC_NET_EXIT, PID_A, PID_A, 3 << 8);
    proc_life_due(&it.life, it.life.now_ns);
    assert_int_equal(it.n_told, 2);
    stop = &it.told[1];
    assert_int_equal(stop->kind, EV_PROC_STOP);
    assert_true(proc_id_eq(stop->info.id, it.told[0].info.id));
    assert_int_equal(stop->info.exit_code, 3);
    assert_int_equal(stop->info.parent_pid, 1);
    assert_true(stop->info.have & INFO_FINAL_TOTALS);
    assert_int_equal(stop->totals[M_CPU_TIME], 1000);
    assert_int_equal(stop->totals[M_USER_TIME], 750);
    assert_int_equal(stop->totals[M_KERNEL_TIME], 250);
    assert_int_equal(stop->totals[M_PAGE_FAULTS], 6);
    assert_int_equal(stop->totals[M_HARD_FAULTS], 1);
    assert_int_equal(stop->totals[M_PEAK_WORKING_SET], 8000);
    assert_int_equal(stop->totals[M_READ_BYTES], 10);
    assert_int_equal(stop->totals[M_WRITE_BYTES], 20);
    assert_int_equal(stop->totals[M_CONTEXT_SWITCHES], 7);
    assert_int_equal(stop->totals[M_READY_TIME], 40);
    assert_false(stop->mask & (METRIC_BIT(M_IO_WAIT_TIME) | METRIC_BIT(M_MEMORY_WAIT_TIME)));
    /* Its own files were gone, and records do not count operations. */
    assert_false(stop->mask & METRIC_BIT(M_WRITE_OPERATIONS));
    assert_int_equal(it.table.n, 0);
}

static void totals_are_those_of_all_threads(void **state)
{
    it.host.delays = true;
    send(&it, PROC_NET_FORK, PID_A, PID_A, 0);
    send(&it, PROC_NET_FORK, PID_A, TID_1, 0);
    send(&it, PROC_NET_FORK, PID_A, TID_2, 0);
    send_record(&it, PID_A, TID_1, false);
    send(&it, PROC_NET_EXIT, PID_A, TID_1, 0);
    /* The leader goes before its last thread. */
    send_record(&it, PID_A, PID_A, false);
    send(&it, PROC_NET_EXIT, PID_A, PID_A, 3 << 8);
    proc_life_due(&it.life, it.life.now_ns);
    assert_int_equal(it.n_told, 0);
    send_record(&it, PID_A, TID_2, true);
    send(&it, PROC_NET_EXIT, PID_A, TID_2, 0);
    proc_life_due(&it.life, it.life.now_ns);
    assert_int_equal(it.n_told, 2);
    assert_int_equal(it.told[1].totals[M_CPU_TIME], 3000);
    assert_int_equal(it.told[1].totals[M_WRITE_BYTES], 60);
    assert_int_equal(it.told[1].totals[M_PEAK_WORKING_SET], 9000);
    assert_int_equal(it.told[1].totals[M_READY_TIME], 120);
    assert_int_equal(it.told[1].totals[M_IO_WAIT_TIME], 150);
    assert_int_equal(it.told[1].totals[M_MEMORY_WAIT_TIME], 180);
    assert_int_equal(it.told[1].info.exit_code, 3); /* the leader's */
}

static void a_late_record_is_waited_for(void **state)
{
    send(&it, PROC_NET_FORK, PID_A, PID_A, 0);
    send(&it, PROC_NET_FORK, PID_A, TID_1, 0);
    send_record(&it, PID_A, PID_A, true); /* overtakes the other's */
    send(&it, PROC_NET_EXIT, PID_A, PID_A, 0);
    send(&it, PROC_NET_EXIT, PID_A, TID_1, 0);
    proc_life_due(&it.life, it.life.now_ns);
    assert_int_equal(it.n_told, 1);
    assert_true(proc_life_deadline(&it.life) > it.life.now_ns);
    send_record(&it, PID_A, TID_1, false);
    proc_life_due(&it.life, it.life.now_ns);
    assert_int_equal(it.n_told, 2);
    assert_int_equal(it.told[1].totals[M_CPU_TIME], 2000);
    assert_true(proc_life_deadline(&it.life) == INT64_MAX);
}

static void a_lost_record_leaves_no_exact_totals(void **state)
{
    send(&it, PROC_NET_FORK, PID_A, PID_A, 0);
    send(&it, PROC_NET_FORK, PID_A, TID_1, 0);
    send_record(&it, PID_A, PID_A, true);
    send(&it, PROC_NET_EXIT, PID_A, PID_A, 0);
    send(&it, PROC_NET_EXIT, PID_A, TID_1, 0);
    proc_life_due(&it.life, proc_life_deadline(&it.life));
    assert_int_equal(it.n_told, 2);
    assert_int_equal(it.told[1].kind, EV_PROC_STOP);
    assert_false(it.told[1].info.have & INFO_FINAL_TOTALS);
    assert_int_equal(it.told[1].mask, 0);
}

static void without_records_the_last_end_is_the_stop(void **state)
{
    it.life.records = false;
    send(&it, PROC_NET_FORK, PID_A, PID_A, 0);
    send(&it, PROC_NET_FORK, PID_A, TID_1, 0);
    send(&it, PROC_NET_EXIT, PID_A, PID_A, 9);
    proc_life_due(&it.life, it.life.now_ns);
    assert_int_equal(it.n_told, 0);
    send(&it, PROC_NET_EXIT, PID_A, TID_1, 9);
    proc_life_due(&it.life, it.life.now_ns);
    assert_int_equal(it.n_told, 2);
    assert_int_equal(it.told[1].info.exit_code, 128 + 9);
    assert_false(it.told[1].info.have & INFO_FINAL_TOTALS);
}

/* Fork, exec and end of a child of a process named "parent", all before it could be looked at. */
static void live_unseen(struct world *w)
{
    struct proc_inst *parent;

    assert_ok(proc_inst_add(&parent, &w->table, (struct proc_id){1, 1}));
    proc_inst_name(parent, "parent", 6);
    send(w, PROC_NET_FORK, PID_A, PID_A, 0);
    send(w, PROC_NET_EXEC, PID_A, PID_A, 0);
    send(w, PROC_NET_EXIT, PID_A, PID_A, 0);
}

static void a_program_gone_before_it_was_looked_at_has_the_name_of_its_record(void **state)
{
    live_unseen(&it);
    assert_int_equal(it.n_told, 0);
    send_record(&it, PID_A, PID_A, true);
    proc_life_due(&it.life, it.life.now_ns);
    assert_int_equal(it.n_told, 2);
    assert_int_equal(it.told[0].kind, EV_PROC_START);
    assert_string_equal(it.told[0].name, "brief");
    assert_int_equal(it.told[1].kind, EV_PROC_STOP);
    assert_string_equal(it.told[1].name, "brief");
}

static void without_records_such_a_program_has_no_name_rather_than_its_parents(void **state)
{
    it.life.records = false;
    live_unseen(&it);
    proc_life_due(&it.life, it.life.now_ns);
    assert_int_equal(it.n_told, 2);
    assert_string_equal(it.told[0].name, "");
    assert_string_equal(it.told[1].name, "");
}

/* After a delay records come out of their socket before the events that were before them. */
static void a_record_does_not_overtake_exec_and_end(void **state)
{
    struct proc_inst *parent;

    assert_ok(proc_inst_add(&parent, &it.table, (struct proc_id){1, 1}));
    proc_inst_name(parent, "parent", 6);
    parent->program = mem_strdup("parent");
    parent->program_n = 6;
    assert_int_equal(offer_record(&it, PID_A, PID_A, true, false), PROC_TOOK_NOT);
    send(&it, PROC_NET_FORK, PID_A, PID_A, 0);
    assert_int_equal(offer_record(&it, PID_A, PID_A, true, false), PROC_TOOK_NOT);
    assert_int_equal(it.n_told, 0);
    send(&it, PROC_NET_EXEC, PID_A, PID_A, 0);
    send(&it, PROC_NET_EXIT, PID_A, PID_A, 3 << 8);
    assert_int_equal(offer_record(&it, PID_A, PID_A, true, false), PROC_TOOK_ENDED);
    assert_int_equal(it.n_told, 2);
    assert_string_equal(it.told[0].name, "brief");
    assert_string_equal(it.told[1].name, "brief");
    /* Not even when nothing is left to wait for is a copy called otherwise than its program. */
    send(&it, PROC_NET_FORK, PID_B, PID_B, 0);
    assert_int_equal(offer_record(&it, PID_B, PID_B, true, true), PROC_TOOK);
    send(&it, PROC_NET_EXIT, PID_B, PID_B, 0);
    assert_int_equal(it.n_told, 4);
    assert_string_equal(it.told[2].name, "parent");
    assert_string_equal(it.told[3].name, "parent");
}

static void a_start_is_told_at_exec_or_after_a_while(void **state)
{
    it.life.records = false;
    send(&it, PROC_NET_FORK, PID_A, PID_A, 0);
    send(&it, PROC_NET_FORK, PID_B, PID_B, 0);
    send(&it, PROC_NET_EXEC, PID_B, PID_B, 0);
    assert_int_equal(it.n_told, 1);
    assert_int_equal(it.told[0].info.id.pid, PID_B);
    proc_life_due(&it.life, proc_life_deadline(&it.life) - 1);
    assert_int_equal(it.n_told, 1);
    proc_life_due(&it.life, proc_life_deadline(&it.life));
    assert_int_equal(it.n_told, 2);
    assert_int_equal(it.told[1].info.id.pid, PID_A);
    send(&it, PROC_NET_EXEC, PID_A, PID_A, 0); /* an update of the same instance */
    assert_int_equal(it.n_told, 3);
    assert_int_equal(it.told[2].kind, EV_PROC_START);
    assert_true(proc_id_eq(it.told[1].info.id, it.told[2].info.id));
}

static void exec_in_another_thread_is_no_end(void **state)
{
    it.life.records = false;
    send(&it, PROC_NET_FORK, PID_A, PID_A, 0);
    send(&it, PROC_NET_FORK, PID_A, TID_1, 0);
    send(&it, PROC_NET_EXIT, PID_A, PID_A, 9); /* the leader is removed … */
    send(&it, PROC_NET_EXEC, PID_A, PID_A, 0); /* … and the thread takes its number */
    proc_life_due(&it.life, it.life.now_ns);
    assert_int_equal(it.n_told, 1);
    assert_int_equal(it.told[0].kind, EV_PROC_START);
    send(&it, PROC_NET_EXIT, PID_A, PID_A, 5 << 8);
    proc_life_due(&it.life, it.life.now_ns);
    assert_int_equal(it.n_told, 2);
    assert_int_equal(it.told[1].info.exit_code, 5);
}

static void a_reused_number_is_another_process(void **state)
{
    it.life.records = false;
    send(&it, PROC_NET_FORK, PID_A, PID_A, 0);
    send(&it, PROC_NET_EXEC, PID_A, PID_A, 0);
    it.life.now_ns += 10 * CLK_S; /* its end was lost */
    send(&it, PROC_NET_FORK, PID_A, PID_A, 0);
    send(&it, PROC_NET_EXEC, PID_A, PID_A, 0);
    assert_int_equal(it.n_told, 2);
    assert_true(it.told[1].info.id.start >= it.told[0].info.id.start + 999);
    assert_int_equal(it.table.n, 1);
}

static void messages_about_strangers_change_nothing(void **state)
{
    send(&it, PROC_NET_EXEC, PID_A, PID_A, 0);
    send(&it, PROC_NET_EXIT, PID_A, PID_A, 0);
    send(&it, PROC_NET_FORK, PID_A, TID_1, 0);
    send(&it, PROC_NET_UID, PID_A, PID_A, 0);
    send_record(&it, PID_A, PID_A, true);
    proc_life_due(&it.life, INT64_MAX);
    assert_int_equal(it.n_told, 0);
    assert_int_equal(it.table.n, 0);
}

static void a_full_table_counts_whom_it_leaves_out(void **state)
{
    struct world w;

    begin(&w, 1, true);
    send(&w, PROC_NET_FORK, PID_A, PID_A, 0);
    send(&w, PROC_NET_FORK, PID_B, PID_B, 0);
    assert_int_equal(w.host.counts.capped, 1);
    send_record(&w, PID_A, PID_A, true);
    send(&w, PROC_NET_EXIT, PID_A, PID_A, 0);
    proc_life_due(&w.life, w.life.now_ns);
    send(&w, PROC_NET_FORK, PID_B, PID_B, 0); /* there is room again */
    assert_int_equal(w.host.counts.capped, 1);
    assert_non_null(proc_inst_find(&w.table, PID_B));
    end(&w);
}

static void time_never_goes_back(void **state)
{
    it.life.records = false;
    send(&it, PROC_NET_FORK, PID_A, PID_A, 0);
    it.life.last_mono_ns = 5 * CLK_S; /* a table was told meanwhile */
    send(&it, PROC_NET_EXEC, PID_A, PID_A, 0);
    assert_int_equal(it.told[0].mono_ns, 5 * CLK_S);
}

static void what_is_told_while_a_table_is_read_is_no_later_than_the_table(void **state)
{
    it.life.records = false;
    it.life.until_ns = it.life.now_ns;
    it.life.now_ns += CLK_MS;
    send(&it, PROC_NET_FORK, PID_A, PID_A, 0);
    send(&it, PROC_NET_EXEC, PID_A, PID_A, 0);
    assert_int_equal(it.told[0].mono_ns, it.life.now_ns - CLK_MS);
}

/* Files this thread has read so far. */
static uint64_t count_reads(void)
{
    char text[512];
    size_t n;
    struct proc_io io;

    assert_ok(proc_host_read(&it.host, (uint32_t)getpid(), "io", text, sizeof text, &n));
    assert_ok(proc_text_io(&io, text, n));
    return io.read_calls;
}

static void a_life_that_its_records_tell_in_full_costs_one_file(void **state)
{
    uint32_t pid = (uint32_t)fork();
    uint64_t before;
    siginfo_t gone;

    if (pid == 0) {
        _exit(0);
    }
    assert_int_equal(waitid(P_PID, pid, &gone, WEXITED | WNOWAIT), 0);
    (void)proc_host_user(&it.host, 0); /* of the record; read once */
    before = count_reads();
    send(&it, PROC_NET_FORK, pid, pid, 0);
    send_record(&it, pid, pid, true);
    send(&it, PROC_NET_EXIT, pid, pid, 0);
    assert_int_equal(count_reads() - before, 1 + 1); /* and ours */
    assert_int_equal(it.n_told, 2);
    assert_true(it.told[1].mask & METRIC_BIT(M_WRITE_OPERATIONS));
    /* Its record said 1 µs; what it took to end has been added. */
    assert_true(it.told[1].totals[M_CPU_TIME] > 1000);
    assert_int_equal(waitpid((pid_t)pid, NULL, 0), pid);
}

static void the_start_is_exact_when_exec_is_told(void **state)
{
    uint32_t pid = (uint32_t)getpid();
    struct proc_stat st;

    assert_ok(proc_read_stat(&it.table, pid, &st));
    /* The message of the fork is stamped a moment later, here in the next tick. */
    it.life.now_ns =
        (int64_t)(st.start_ticks + 1) * it.host.tick_ns - it.host.mono_to_boot_ns + CLK_MS;
    send(&it, PROC_NET_FORK, pid, pid, 0);
    send(&it, PROC_NET_FORK, PID_A, PID_A, 0);
    send(&it, PROC_NET_EXEC, pid, pid, 0);
    assert_int_equal(it.n_told, 1);
    assert_int_equal(it.told[0].info.id.start, st.start_ticks);
    assert_string_equal(it.told[0].name, "test_proc_life");
}

static void the_table_finds_what_is_in_it(void **state)
{
    struct world w;
    struct proc_inst *p;

    begin(&w, 500, true);
    for (uint32_t i = 1; i <= 500; i++) {
        assert_ok(proc_inst_add(&p, &w.table, (struct proc_id){i * 97, i}));
    }
    assert_err(proc_inst_add(&p, &w.table, (struct proc_id){1, 1}), ERR_FULL);
    for (uint32_t i = 1; i <= 500; i += 2) {
        proc_inst_remove(&w.table, proc_inst_find(&w.table, i * 97));
    }
    for (uint32_t i = 1; i <= 500; i++) {
        p = proc_inst_find(&w.table, i * 97);
        assert_int_equal(p != NULL, i % 2 == 0);
        assert_true(!p || p->id.start == i);
    }
    assert_ok(proc_inst_add(&p, &w.table, (struct proc_id){1, 1}));
    end(&w);
}

/* The record comes before the end, and on a busy machine long before it: of ourselves, who live. */
static void nobody_has_ended_who_still_is_there(void **state)
{
    uint32_t pid = (uint32_t)getpid();
    struct proc_inst *p;

    assert_ok(proc_life_met(&it.life, pid, it.life.now_ns, &p));
    send_record(&it, pid, pid, true);
    assert_int_equal(it.n_told, 1);
    proc_life_due(&it.life, it.life.now_ns + CLK_S);
    proc_life_due(&it.life, it.life.now_ns + 2 * CLK_S);
    assert_int_equal(it.n_told, 1); /* its start */
    send(&it, PROC_NET_EXIT, pid, pid, 0);
    assert_int_equal(it.n_told, 2);
    assert_int_equal(it.told[1].kind, EV_PROC_STOP);
    assert_true(it.told[1].info.have & INFO_FINAL_TOTALS);

    assert_ok(proc_life_met(&it.life, pid, it.life.now_ns, &p)); /* whose end was never told */
    send_record(&it, pid, pid, true);
    proc_life_due(&it.life, it.life.now_ns + 11 * CLK_S);
    assert_int_equal(it.n_told, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_brief_life_is_one_start_and_one_stop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nobody_has_ended_who_still_is_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            what_is_told_while_a_table_is_read_is_no_later_than_the_table, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_life_that_its_records_tell_in_full_costs_one_file, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_start_is_exact_when_exec_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(totals_are_those_of_all_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_late_record_is_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lost_record_leaves_no_exact_totals, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_records_the_last_end_is_the_stop, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_program_gone_before_it_was_looked_at_has_the_name_of_its_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            without_records_such_a_program_has_no_name_rather_than_its_parents, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_record_does_not_overtake_exec_and_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_start_is_told_at_exec_or_after_a_while, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(exec_in_another_thread_is_no_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reused_number_is_another_process, set_up, tear_down),
        cmocka_unit_test_setup_teardown(messages_about_strangers_change_nothing, set_up, tear_down),
        cmocka_unit_test(a_full_table_counts_whom_it_leaves_out),
        cmocka_unit_test_setup_teardown(time_never_goes_back, set_up, tear_down),
        cmocka_unit_test(the_table_finds_what_is_in_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
