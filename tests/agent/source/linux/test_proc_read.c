#include "agent/source/linux/proc_read.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "tests/support/t.h"

#define NO_SUCH_PID 0x40000001U /* beyond any number Linux gives */

struct world {
    struct proc_host host;
    struct proc_table table;
    struct proc_inst *me;
};

static struct snap_row row; /* the last one read */
static const struct proc_switches every_thread = {NULL, NULL, false};

static void begin(struct world *w)
{
    struct proc_stat st;

    memset(w, 0, sizeof *w);
    assert_ok(proc_host_open(&w->host, "/proc", NULL));
    assert_ok(proc_inst_init(&w->table, &w->host, 16));
    assert_ok(proc_read_stat(&w->table, (uint32_t)getpid(), &st));
    assert_ok(proc_inst_add(&w->me, &w->table, (struct proc_id){st.pid, st.start_ticks}));
}

static void end(struct world *w)
{
    proc_inst_fini(&w->table);
    proc_host_close(&w->host);
}

static struct world it; /* of tests that need one */

static int set_up(void **state)
{
    begin(&it);
    return 0;
}

static int tear_down(void **state)
{
    end(&it);
    return 0;
}

static void own_attributes_are_read(void **state)
{
    assert_ok(proc_read_row(&it.table, it.me, &every_thread, &row));
    assert_memory_equal(row.info.name.p, "test_proc_read", row.info.name.n);
    assert_int_equal(row.info.name.n, 14);
    assert_int_equal(row.info.parent_pid, getppid());
    assert_int_equal(row.info.session_id, getsid(0));
    assert_string_equal(row.info.image.p + row.info.image.n - 14, "test_proc_read");
    assert_true(row.info.have & INFO_COMMAND_LINE_KNOWN);
    assert_non_null(strstr(row.info.command_line.p, "test_proc_read"));
    assert_true(row.info.user.n > 0);
    assert_int_equal(row.info.cpu_origin, CPU_ORIGIN_TIMES);
    assert_true(row.info.create_ns > it.host.boot_wall_ns);
}

/* A child whose main thread has renamed itself, as database servers do; waits for its end. */
static pid_t fork_renamed(void)
{
    int ready[2];
    char c;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        (void)prctl(PR_SET_NAME, "MergeMutate", 0, 0, 0);
        (void)!write(ready[1], "r", 1);
        for (;;) {
            pause();
        }
    }
    assert_true(pid > 0);
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void end_child(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* The name of a process as one row gives it. */
static void name_of(struct world *w, pid_t pid, char *out, size_t cap)
{
    struct proc_inst *p = proc_inst_find(&w->table, (uint32_t)pid);
    struct proc_stat st;

    if (!p) {
        assert_ok(proc_read_stat(&w->table, (uint32_t)pid, &st));
        assert_ok(proc_inst_add(&p, &w->table, (struct proc_id){st.pid, st.start_ticks}));
    }
    assert_ok(proc_read_row(&w->table, p, &every_thread, &row));
    snprintf(out, cap, "%.*s", (int)row.info.name.n, row.info.name.p);
}

static void a_process_bears_the_name_of_its_program_not_of_a_thread(void **state)
{
    char name[64], own[16];
    pid_t pid;

    pid = fork_renamed();
    name_of(&it, pid, name, sizeof name);
    assert_string_equal(name, "test_proc_read");
    end_child(pid);
    /* Renamed when it is known already: by a thread of its own. */
    name_of(&it, getpid(), name, sizeof name);
    assert_string_equal(name, "test_proc_read");
    assert_int_equal(prctl(PR_GET_NAME, own, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_NAME, "later", 0, 0, 0), 0);
    name_of(&it, getpid(), name, sizeof name);
    assert_int_equal(prctl(PR_SET_NAME, own, 0, 0, 0), 0);
    assert_string_equal(name, "test_proc_read");
}

static void *read_until_closed(void *fd)
{
    char c;

    while (read(*(int *)fd, &c, 1) > 0) {
    }
    _exit(0);
}

/* A child whose main thread, called otherwise, ends when it reads a byte; the other one, when there
 * are no more. */
static pid_t fork_leader(int *orders)
{
    int p[2];
    pthread_t other;
    pid_t pid;
    char c;

    assert_int_equal(pipe(p), 0);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        (void)prctl(PR_SET_NAME, "MergeMutate", 0, 0, 0);
        close(p[1]);
        if (read(p[0], &c, 1) != 1 || pthread_create(&other, NULL, read_until_closed, &p[0]) != 0) {
            _exit(1);
        }
        pthread_exit(NULL);
    }
    assert_true(pid > 0);
    close(p[0]);
    *orders = p[1];
    return pid;
}

static void a_process_keeps_its_name_while_its_last_threads_end(void **state)
{
    struct proc_host *h = &it.host;
    char name[64], buf[512];
    struct proc_stat st = {0};
    size_t n;
    int orders;
    pid_t pid = fork_leader(&orders);

    name_of(&it, pid, name, sizeof name);
    assert_string_equal(name, "test_proc_read");
    assert_int_equal(write(orders, "e", 1), 1);
    while (st.state != 'Z') {
        assert_ok(proc_host_read(h, (uint32_t)pid, "stat", buf, sizeof buf, &n));
        assert_ok(proc_text_stat(&st, buf, n));
    }
    assert_int_equal(st.start_code, 0);
    name_of(&it, pid, name, sizeof name);
    assert_string_equal(name, "test_proc_read");
    close(orders);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Runs `argv` until its memory is that of the new program. */
static pid_t spawn_other(char *const *argv)
{
    int gone[2];
    char c;
    pid_t pid;

    assert_int_equal(pipe2(gone, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        execv("/bin/sleep", argv);
        _exit(127);
    }
    assert_true(pid > 0);
    close(gone[1]);
    assert_int_equal(read(gone[0], &c, 1), 0); /* closed by exec */
    close(gone[0]);
    return pid;
}

/* In a process of its own, because rights do not come back. */
static int names_seen_by_a_stranger(const pid_t *pids, const char *const *names, size_t n)
{
    struct world w;
    char name[64];
    size_t wrong = 0;

    begin(&w);
    if (setgid(65534) != 0 || setuid(65534) != 0) {
        return 100;
    }
    for (size_t i = 0; i < n; i++) {
        name_of(&w, pids[i], name, sizeof name);
        if (strcmp(name, names[i]) != 0) {
            fprintf(stderr, "%s, not %s\n", name, names[i]);
            wrong++;
        }
    }
    if (w.host.counts.denied < n) {
        wrong += 50; /* the links could be read: nothing was tried */
    }
    end(&w);
    return (int)wrong;
}

static void without_the_right_to_see_the_program_the_first_argument_names_it(void **state)
{
    char *const absolute[] = {"/opt/tools/waiter", "60", NULL};
    char *const relative[] = {"waiter", "60", NULL};
    static const char *const names[] = {"waiter", "sleep"};
    pid_t pids[2], stranger;
    int status;

    if (geteuid() != 0) {
        printf("skipped: only root can become somebody else\n");
        skip();
    }
    pids[0] = spawn_other(absolute);
    pids[1] = spawn_other(relative);
    stranger = fork();
    if (stranger == 0) {
        _exit(names_seen_by_a_stranger(pids, names, 2));
    }
    assert_int_equal(waitpid(stranger, &status, 0), stranger);
    end_child(pids[0]);
    end_child(pids[1]);
    assert_int_equal(status, 0);
}

static void descriptors_are_given_back(void **state)
{
    size_t before;

    before = it.host.fds_left;
    assert_ok(proc_read_row(&it.table, it.me, &every_thread, &row));
    assert_int_equal(it.host.fds_left, before - 1); /* schedstat: it may not run again */
    assert_ok(proc_read_row(&it.table, it.me, &every_thread, &row));
    assert_int_equal(it.host.fds_left, before - 6); /* stat, status, io, fd, schedstat */
    proc_inst_remove(&it.table, it.me);
    assert_int_equal(it.host.fds_left, before);
}

static void without_descriptors_to_keep_a_row_is_the_same(void **state)
{
    struct snap_row kept, opened;
    struct world w;

    begin(&w);
    assert_ok(proc_read_row(&w.table, w.me, &every_thread, &kept));
    end(&w);
    begin(&w);
    w.host.fds_left = 0;
    assert_ok(proc_read_row(&w.table, w.me, &every_thread, &opened));
    assert_int_equal(w.host.fds_left, 0);
    assert_true(opened.mask == kept.mask);
    end(&w);
}

static void counted_one_by_one_open_descriptors_are_as_many(void **state)
{
    int64_t before;
    int fd;

    assert_ok(proc_read_row(&it.table, it.me, &every_thread, &row));
    assert_ok(
        proc_read_row(&it.table, it.me, &every_thread, &row)); /* what it keeps open is open */
    for (int counted = 0; counted < 2; counted++) {
        it.host.fd_dir_has_count = it.host.fd_dir_has_count && !counted;
        assert_ok(proc_read_row(&it.table, it.me, &every_thread, &row));
        before = row.values[M_HANDLE_COUNT];
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_ok(proc_read_row(&it.table, it.me, &every_thread, &row));
        assert_int_equal(row.values[M_HANDLE_COUNT], before + 1);
        close(fd);
        assert_ok(proc_read_row(&it.table, it.me, &every_thread, &row));
        assert_int_equal(row.values[M_HANDLE_COUNT], before);
        assert_true(row.values[M_PEAK_HANDLE_COUNT] >= before + 1);
    }
}

static void a_number_in_other_hands_is_told_apart(void **state)
{
    it.me->id.start--;
    assert_err(proc_read_row(&it.table, it.me, &every_thread, &row), ERR_EXISTS);
}

static void a_process_that_is_gone_has_no_row(void **state)
{
    struct proc_inst *p;
    struct proc_stat st;

    assert_err(proc_read_stat(&it.table, NO_SUCH_PID, &st), ERR_NOTFOUND);
    assert_ok(proc_inst_add(&p, &it.table, (struct proc_id){NO_SUCH_PID, 1}));
    assert_err(proc_read_row(&it.table, p, &every_thread, &row), ERR_NOTFOUND);
}

#define THREADS  12
#define SWITCHES 50 /* of each, at least */

struct crowd {
    pthread_t threads[THREADS];
    pthread_barrier_t born, leave;
};

static void *stand(void *arg)
{
    const struct timespec shortest = {0, 1};
    struct crowd *c = arg;

    for (int i = 0; i < SWITCHES; i++) {
        nanosleep(&shortest, NULL);
    }
    pthread_barrier_wait(&c->born);
    pthread_barrier_wait(&c->leave);
    return NULL;
}

/* THREADS threads that wait, and this one. */
static void gather(struct crowd *c)
{
    assert_int_equal(pthread_barrier_init(&c->born, NULL, THREADS + 1), 0);
    assert_int_equal(pthread_barrier_init(&c->leave, NULL, THREADS + 1), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&c->threads[i], NULL, stand, c), 0);
    }
    pthread_barrier_wait(&c->born);
}

static void disperse(struct crowd *c)
{
    pthread_barrier_wait(&c->leave);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(c->threads[i], NULL);
    }
    pthread_barrier_destroy(&c->born);
    pthread_barrier_destroy(&c->leave);
}

static int64_t sum_of_states(const struct snap_row *of)
{
    return of->values[M_THREADS_RUNNING] + of->values[M_THREADS_WAITING] +
           of->values[M_THREADS_DISK_WAIT] + of->values[M_THREADS_STOPPED] +
           of->values[M_THREADS_TERMINATED] + of->values[M_THREADS_IDLE];
}

static void threads_are_counted_as_they_come_and_go(void **state)
{
    static struct crowd crowd;
    int64_t alone, many, switches;
    size_t fds;

    gather(&crowd); /* a sanitizer makes a thread of its own with our first */
    disperse(&crowd);
    fds = it.host.fds_left;
    assert_ok(proc_read_row(&it.table, it.me, &every_thread, &row));
    alone = row.values[M_THREAD_COUNT];
    assert_int_equal(sum_of_states(&row), alone);
    gather(&crowd);
    assert_ok(proc_read_row(&it.table, it.me, &every_thread, &row));
    many = row.values[M_THREAD_COUNT];
    assert_int_equal(many, alone + THREADS);
    assert_int_equal(sum_of_states(&row), many);
    assert_true(row.values[M_THREADS_RUNNING] >= 1);
    assert_true(row.values[M_ACTIVE_THREADS] >= 1);
    switches = row.values[M_CONTEXT_SWITCHES];
    assert_true(switches > 0);
    disperse(&crowd);
    assert_ok(proc_read_row(&it.table, it.me, &every_thread, &row));
    assert_int_equal(row.values[M_THREAD_COUNT], alone);
    assert_int_equal(sum_of_states(&row), alone);
    proc_inst_remove(&it.table, it.me);
    assert_int_equal(it.host.fds_left, fds);
}

static void what_one_thread_needs_is_closed_when_there_are_several(void **state)
{
    static struct crowd crowd;

    assert_ok(proc_read_row(&it.table, it.me, &every_thread, &row));
    assert_ok(proc_read_row(&it.table, it.me, &every_thread, &row));
    if (row.values[M_THREAD_COUNT] > 1) {
        printf("skipped: a sanitizer has a thread of its own\n");
        skip();
    }
    assert_true(it.me->sched_fd >= 0);
    gather(&crowd);
    assert_ok(proc_read_row(&it.table, it.me, &every_thread, &row));
    assert_int_equal(it.me->sched_fd, -1);
    disperse(&crowd);
}

static void without_descriptors_to_keep_threads_are_counted_as_well(void **state)
{
    static struct crowd crowd;

    it.host.fds_left = 0;
    gather(&crowd);
    assert_ok(proc_read_row(&it.table, it.me, &every_thread, &row));
    assert_int_equal(sum_of_states(&row), row.values[M_THREAD_COUNT]);
    assert_true(row.values[M_THREAD_COUNT] > THREADS);
    assert_int_equal(it.host.fds_left, 0);
    disperse(&crowd);
}

static void switches_of_ended_threads_are_not_forgotten(void **state)
{
    static struct crowd first, second;

    gather(&first);
    assert_ok(proc_read_row(&it.table, it.me, &every_thread, &row));
    assert_true(row.values[M_CONTEXT_SWITCHES] >= THREADS * SWITCHES);
    disperse(&first);
    gather(&second);
    assert_ok(proc_read_row(&it.table, it.me, &every_thread, &row));
    assert_true(row.values[M_CONTEXT_SWITCHES] >= 2 * THREADS * SWITCHES);
    disperse(&second);
    assert_ok(proc_read_row(&it.table, it.me, &every_thread, &row));
    assert_true(row.values[M_CONTEXT_SWITCHES] >= 2 * THREADS * SWITCHES);
}

static void a_failing_allocation_leaves_the_process_readable(void **state)
{
    enum err e = ERR_NOMEM;
    static struct crowd crowd;

    gather(&crowd);
    for (long n = 0; e != ERR_OK; n++) {
        it.me->stale = true;
        mem_fail_after(n);
        e = proc_read_row(&it.table, it.me, &every_thread, &row);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        assert_true(n < 100);
    }
    assert_int_equal(sum_of_states(&row), row.values[M_THREAD_COUNT]);
    disperse(&crowd);
}

static void names_of_users_are_remembered_within_bounds(void **state)
{
    assert_string_equal(proc_host_user(&it.host, 0), "root");
    for (uint32_t uid = 3000000000U; uid < 3000000000U + 2 * PROC_USERS_MAX; uid++) {
        char number[16];

        snprintf(number, sizeof number, "%u", uid);
        assert_string_equal(proc_host_user(&it.host, uid), number);
    }
    assert_true(it.host.n_users <= PROC_USERS_MAX);
    assert_string_equal(proc_host_user(&it.host, 0), "root");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(own_attributes_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_process_bears_the_name_of_its_program_not_of_a_thread,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_process_keeps_its_name_while_its_last_threads_end, set_up,
                                        tear_down),
        cmocka_unit_test(without_the_right_to_see_the_program_the_first_argument_names_it),
        cmocka_unit_test_setup_teardown(descriptors_are_given_back, set_up, tear_down),
        cmocka_unit_test(without_descriptors_to_keep_a_row_is_the_same),
        cmocka_unit_test_setup_teardown(counted_one_by_one_open_descriptors_are_as_many, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_number_in_other_hands_is_told_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_process_that_is_gone_has_no_row, set_up, tear_down),
        cmocka_unit_test_setup_teardown(threads_are_counted_as_they_come_and_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_one_thread_needs_is_closed_when_there_are_several,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_descriptors_to_keep_threads_are_counted_as_well,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(switches_of_ended_threads_are_not_forgotten, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_failing_allocation_leaves_the_process_readable, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(names_of_users_are_remembered_within_bounds, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
