#include "agent/source/linux/proc_read.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/source/linux/proc_read.h"
#include "tests/agent/source/linux/pid_start.h"
#include "tests/support/t.h"

#define THREADS   5
#define PATIENCE  10000 /* looks of 1 ms */
#define PAGES     64
#define PAGE_SIZE 4096

/* A child that does what it is told by a byte, and waits for the next in all of its threads. */
struct child {
    pid_t pid;
    int orders, answers;
};

struct world {
    struct proc_host host;
    struct proc_table table;
    struct proc_inst *p;
    struct child child;
};

static const struct proc_switches every_thread = {NULL, NULL, false};

static struct world it; /* of the test that runs */

static void *wait_for_ever(void *arg)
{
    (void)arg;
    for (;;) {
        pause();
    }
    return NULL;
}

static void start_thread(void)
{
    pthread_t th;

    if (pthread_create(&th, NULL, wait_for_ever, NULL) != 0) {
        _exit(1);
    }
}

static void obey(int orders, int answers, unsigned threads)
{
    char *memory =
        mmap(NULL, PAGES * PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char order = 0;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    for (unsigned i = 1; i < threads; i++) {
        start_thread();
    }
    while (write(answers, &order, 1) == 1 && read(orders, &order, 1) == 1) {
        if (order == 'o') {
            (void)!dup(orders);
        } else if (order == 't') {
            start_thread();
        } else if (order == 'm') {
            memset(memory, 1, PAGES * PAGE_SIZE);
        }
    }
    _exit(0);
}

static void await_answer(const struct child *c)
{
    char answer;

    assert_int_equal(read(c->answers, &answer, 1), 1);
}

/* Until whoever runs has been charged for it. */
static void wait_a_tick(void)
{
    const struct timespec two = {0, 2 * PROC_TICK_NS};

    nanosleep(&two, NULL);
}

static void tell(const struct child *c, char order)
{
    assert_int_equal(write(c->orders, &order, 1), 1);
    await_answer(c);
    wait_a_tick();
}

static void start_child(struct child *c, unsigned threads)
{
    int orders[2], answers[2];

    assert_int_equal(pipe(orders), 0);
    assert_int_equal(pipe(answers), 0);
    c->pid = fork();
    if (c->pid == 0) {
        close(orders[1]);
        close(answers[0]);
        obey(orders[0], answers[1], threads);
    }
    close(orders[0]);
    close(answers[1]);
    c->orders = orders[1];
    c->answers = answers[0];
    await_answer(c);
}

static void begin(struct world *w, unsigned threads)
{
    struct proc_stat st;

    memset(w, 0, sizeof *w);
    start_child(&w->child, threads);
    assert_ok(proc_host_open(&w->host, "/proc", NULL));
    assert_ok(proc_inst_init(&w->table, &w->host, 16));
    assert_ok(proc_read_stat(&w->table, (uint32_t)w->child.pid, &st));
    assert_ok(proc_inst_add(&w->p, &w->table, (struct proc_id){st.pid, st.start_ticks}));
}

static void end(struct world *w)
{
    proc_inst_fini(&w->table);
    proc_host_close(&w->host);
    kill(w->child.pid, SIGKILL);
    assert_int_equal(waitpid(w->child.pid, NULL, 0), w->child.pid);
    close(w->child.orders);
    close(w->child.answers);
}

static void read_row(struct world *w, struct snap_row *row)
{
    memset(row, 0, sizeof *row);
    assert_ok(proc_read_row(&w->table, w->p, &every_thread, row));
}

/* Until it sleeps and is left alone: gives a row that was not read in full. */
static void read_quiet(struct world *w, struct snap_row *row)
{
    const struct timespec ms = {0, 1000000};

    for (int i = 0; i < PATIENCE; i++) {
        read_row(w, row);
        if (w->p->quiet.rows > 0) {
            return;
        }
        nanosleep(&ms, NULL);
    }
    fail_msg("the child does not come to rest, or no row is quiet");
}

static void read_in_full(struct world *w, struct snap_row *row)
{
    w->host.every_file = true;
    read_row(w, row);
    w->host.every_file = false;
}

/* The next row, not read in full, and one that is are the same. */
static void compare_with_everything(struct world *w, struct snap_row *quiet)
{
    struct snap_row full;

    read_quiet(w, quiet);
    read_in_full(w, &full);
    assert_true(quiet->mask == full.mask);
    for (unsigned id = 0; id < METRIC_COLS; id++) {
        if (full.mask & METRIC_BIT(id)) {
            assert_int_equal(quiet->values[id], full.values[id]);
        }
    }
}

static void a_row_of_who_has_not_run_is_what_reading_everything_gives(void **state)
{
    for (unsigned threads = 1; threads <= THREADS; threads += THREADS - 1) {
        struct snap_row row;

        begin(&it, threads);
        for (int i = 0; i < 3; i++) {
            compare_with_everything(&it, &row);
            assert_int_equal(row.values[M_THREADS_WAITING], threads);
            assert_int_equal(row.values[M_ACTIVE_THREADS], 0);
            assert_true(row.mask & METRIC_BIT(M_ACTIVE_THREADS));
        }
        end(&it);
    }
}

static void what_a_process_does_shows_in_the_next_row(void **state)
{
    for (unsigned threads = 1; threads <= THREADS; threads += THREADS - 1) {
        struct snap_row before, after;

        begin(&it, threads);
        read_quiet(&it, &before);
        tell(&it.child, 'o');
        read_row(&it, &after);
        assert_int_equal(after.values[M_HANDLE_COUNT], before.values[M_HANDLE_COUNT] + 1);
        assert_true(after.values[M_READ_OPERATIONS] > before.values[M_READ_OPERATIONS]);
        assert_true(after.values[M_WRITE_BYTES] > before.values[M_WRITE_BYTES]);
        assert_true(after.values[M_CONTEXT_SWITCHES] > before.values[M_CONTEXT_SWITCHES]);
        assert_true(after.values[M_ACTIVE_THREADS] >= 1);
        compare_with_everything(&it, &before);
        tell(&it.child, 'm');
        read_row(&it, &after);
        assert_true(after.values[M_PRIVATE_BYTES] >=
                    before.values[M_PRIVATE_BYTES] + PAGES / 2 * PAGE_SIZE);
        assert_true(after.values[M_PAGE_FAULTS] > before.values[M_PAGE_FAULTS]);
        compare_with_everything(&it, &before);
        tell(&it.child, 't');
        read_row(&it, &after);
        assert_int_equal(after.values[M_THREAD_COUNT], threads + 1);
        compare_with_everything(&it, &before);
        assert_int_equal(before.values[M_THREADS_WAITING], threads + 1);
        kill(it.child.pid, SIGSTOP);
        do {
            read_row(&it, &after);
        } while (after.values[M_THREADS_STOPPED] != threads + 1);
        compare_with_everything(&it, &after);
        kill(it.child.pid, SIGCONT);
        end(&it);
    }
}

static void after_one_row_read_in_full_the_next_may_be_quiet(void **state)
{
    struct snap_row row;

    begin(&it, 1);
    read_quiet(&it, &row);
    for (int i = 0; i < 100 && (i == 0 || it.p->quiet.rows != 1); i++) { /* it may be slow */
        read_quiet(&it, &row);
        tell(&it.child, 'o');
        read_row(&it, &row);
        assert_int_equal(it.p->quiet.rows, 0);
        read_row(&it, &row);
    }
    assert_int_equal(it.p->quiet.rows, 1);
    end(&it);
}

/* As many rows as what others seldom change may take to show. */
static void read_four(struct world *w, struct snap_row *row)
{
    for (int i = 0; i < PROC_QUIET_OTHERS; i++) {
        read_row(w, row);
    }
}

static void what_others_change_shows_in_the_fourth_row_at_the_latest(void **state)
{
    struct snap_row before, after;
    cpu_set_t cpus;
    size_t first = 0;

    begin(&it, 1);
    assert_int_equal(sched_getaffinity(0, sizeof cpus, &cpus), 0);
    while (!CPU_ISSET(first, &cpus)) {
        first++;
    }
    CPU_ZERO(&cpus);
    CPU_SET(first, &cpus);
    read_quiet(&it, &before);
    assert_int_equal(setpriority(PRIO_PROCESS, (id_t)it.child.pid, 7), 0);
    read_four(&it, &after);
    assert_int_equal(after.values[M_PRIORITY], 27);
    read_quiet(&it, &before);
    assert_int_equal(sched_setaffinity(it.child.pid, sizeof cpus, &cpus), 0);
    read_four(&it, &after);
    assert_int_equal(after.values[M_AFFINITY_MASK], 1LL << first);
    read_quiet(&it, &before);
    assert_int_equal(syscall(SYS_ioprio_set, 1, it.child.pid, 3 << 13), 0); /* idle */
    read_four(&it, &after);
    assert_int_equal(after.values[M_IO_PRIORITY], 0);
    compare_with_everything(&it, &after);
    end(&it);
}

static void after_many_quiet_rows_few_descriptors_are_kept_and_one_row_is_read_in_full(void **state)
{
    struct snap_row row;
    size_t before;

    begin(&it, 1);
    before = it.host.fds_left;
    read_quiet(&it, &row);
    tell(&it.child, 'm');
    read_row(&it, &row);
    assert_int_equal(it.host.fds_left, before - 6);
    read_quiet(&it, &row);
    while (it.p->quiet.rows < PROC_QUIET_RELEASE) {
        read_quiet(&it, &row);
    }
    assert_int_equal(it.host.fds_left, before - 1); /* statm */
    while (it.p->quiet.rows > 0) {
        assert_true(it.p->quiet.rows < PROC_QUIET_ROWS);
        read_row(&it, &row);
    }
    assert_int_equal(it.host.fds_left, before - 1);
    proc_inst_remove(&it.table, it.p);
    assert_int_equal(it.host.fds_left, before);
    end(&it);
}

static void threads_that_do_not_run_keep_no_descriptor(void **state)
{
    struct snap_row row;
    size_t before;

    begin(&it, THREADS);
    before = it.host.fds_left;
    do {
        read_quiet(&it, &row);
    } while (it.p->quiet.rows < PROC_QUIET_RELEASE);
    assert_int_equal(it.host.fds_left, before - 1); /* statm */
    end(&it);
}

static void without_descriptors_to_keep_rows_are_quiet_as_well(void **state)
{
    struct snap_row row;

    begin(&it, THREADS);
    it.host.fds_left = 0;
    compare_with_everything(&it, &row);
    assert_int_equal(it.host.fds_left, 0);
    end(&it);
}

static void who_has_ended_has_no_quiet_row(void **state)
{
    struct snap_row row;
    siginfo_t gone;

    begin(&it, 1);
    read_quiet(&it, &row);
    kill(it.child.pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)it.child.pid, &gone, WEXITED | WNOWAIT), 0);
    wait_a_tick();
    assert_err(proc_read_row(&it.table, it.p, &every_thread, &row), ERR_END);
    end(&it);
}

static void a_number_used_again_while_its_files_are_open_is_another_process(void **state)
{
    struct snap_row row;
    pid_t again;

    begin(&it, 1);
    read_quiet(&it, &row);
    tell(&it.child, 'o');
    read_row(&it, &row);
    assert_true(it.p->stat_fd >= 0);
    kill(it.child.pid, SIGKILL);
    assert_int_equal(waitpid(it.child.pid, NULL, 0), it.child.pid);
    again = pid_start(it.child.pid);
    if (again == 0) {
        proc_inst_fini(&it.table);
        proc_host_close(&it.host);
        printf("skipped: no number can be chosen here (clone3 with set_tid, a privilege)\n");
        skip();
    }
    it.p->id.start--; /* both may have started within one tick */
    assert_err(proc_read_row(&it.table, it.p, &every_thread, &row), ERR_EXISTS);
    end(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_of_who_has_not_run_is_what_reading_everything_gives),
        cmocka_unit_test(what_a_process_does_shows_in_the_next_row),
        cmocka_unit_test(after_one_row_read_in_full_the_next_may_be_quiet),
        cmocka_unit_test(what_others_change_shows_in_the_fourth_row_at_the_latest),
        cmocka_unit_test(
            after_many_quiet_rows_few_descriptors_are_kept_and_one_row_is_read_in_full),
        cmocka_unit_test(threads_that_do_not_run_keep_no_descriptor),
        cmocka_unit_test(without_descriptors_to_keep_rows_are_quiet_as_well),
        cmocka_unit_test(who_has_ended_has_no_quiet_row),
        cmocka_unit_test(a_number_used_again_while_its_files_are_open_is_another_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
