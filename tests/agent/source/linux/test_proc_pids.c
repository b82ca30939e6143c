#include "agent/source/linux/proc_pids.h"

#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/agent/source/linux/pid_start.h"
#include "tests/support/t.h"

#define MAX     65536
#define SKIPPED 100 /* exit code of a child that cannot have its role here */

struct world {
    struct proc_host host;
    struct proc_pids list;
};

static struct world it; /* of the test that runs */

static void begin(struct world *w, size_t max)
{
    assert_ok(proc_host_open(&w->host, "/proc", NULL));
    assert_ok(proc_pids_open(&w->list, &w->host, "/proc", max));
}

static void end(struct world *w)
{
    proc_pids_close(&w->list);
    proc_host_close(&w->host);
}

static bool has(const struct proc_pids *l, pid_t pid, bool newly)
{
    for (size_t i = newly ? l->new_from : 0; i < (newly ? l->new_to : l->n); i++) {
        if (l->all[i] == (uint32_t)pid) {
            return true;
        }
    }
    return false;
}

static pid_t start_child(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        for (;;) {
            pause();
        }
    }
    assert_true(pid > 0);
    return pid;
}

static void end_child(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Looks until loadavg is used: the first ones read the directory. */
static void settle(struct world *w)
{
    if (w->list.loadavg < 0) {
        end(w);
        printf("skipped: loadavg does not tell the numbers of this /proc\n");
        skip();
    }
    for (int i = 0; i < 3; i++) {
        assert_ok(proc_pids_look(&w->list));
    }
}

static bool is_ascending(const struct proc_pids *l)
{
    for (size_t i = 1; i < l->n; i++) {
        if (l->all[i] <= l->all[i - 1]) {
            return false;
        }
    }
    return true;
}

static void what_starts_is_found_and_the_directory_is_read_now_and_then(void **state)
{
    uint64_t whole;

    begin(&it, MAX);
    settle(&it);
    whole = it.list.whole;
    for (int i = 0; i < 2 * PROC_PIDS_WHOLE; i++) {
        pid_t pid = start_child();

        assert_ok(proc_pids_look(&it.list));
        assert_true(has(&it.list, pid, true));
        assert_true(has(&it.list, getpid(), false));
        assert_true(is_ascending(&it.list));
        assert_ok(proc_pids_look(&it.list));
        assert_true(has(&it.list, pid, false));
        end_child(pid);
    }
    /* Four, and a few more where many others start at the same time. */
    assert_true(it.list.whole - whole < 2 * PROC_PIDS_WHOLE);
    assert_true(it.list.loadavg >= 0);
    end(&it);
}

static void what_was_removed_is_gone_from_the_next_look_on(void **state)
{
    pid_t pid = start_child();

    begin(&it, MAX);
    settle(&it);
    assert_true(has(&it.list, pid, false));
    end_child(pid);
    for (size_t i = 0; i < it.list.n; i++) {
        if (it.list.all[i] == (uint32_t)pid) {
            proc_pids_remove(&it.list, i);
        }
    }
    for (int i = 0; i < 2 * PROC_PIDS_WHOLE; i++) {
        assert_ok(proc_pids_look(&it.list));
        assert_false(has(&it.list, pid, false));
    }
    end(&it);
}

static void *tell_and_wait(void *arg)
{
    int *pipes = arg;
    pid_t tid = (pid_t)syscall(SYS_gettid);
    char c;

    if (write(pipes[1], &tid, sizeof tid) == sizeof tid) {
        (void)!read(pipes[2], &c, 1);
    }
    return NULL;
}

static void threads_are_not_processes(void **state)
{
    int pipes[4]; /* two pipes */
    pthread_t th;
    pid_t tid;

    begin(&it, MAX);
    settle(&it);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(pipe(pipes + 2), 0);
    assert_int_equal(pthread_create(&th, NULL, tell_and_wait, pipes), 0);
    assert_int_equal(read(pipes[0], &tid, sizeof tid), sizeof tid);
    for (int i = 0; i < PROC_PIDS_WHOLE; i++) {
        assert_ok(proc_pids_look(&it.list));
        assert_false(has(&it.list, tid, false));
    }
    assert_int_equal(write(pipes[3], "", 1), 1);
    pthread_join(th, NULL);
    for (int i = 0; i < 4; i++) {
        close(pipes[i]);
    }
    end(&it);
}

static void more_than_fit_are_counted_and_the_first_are_kept(void **state)
{
    begin(&it, 1);
    for (int i = 0; i < 3; i++) {
        uint64_t before = it.host.counts.capped;

        assert_ok(proc_pids_look(&it.list));
        assert_int_equal(it.list.n, 1);
        assert_true(it.list.capped);
        assert_true(it.host.counts.capped > before);
    }
    end(&it);
}

/* A child with a free number that was handed out long ago; 0 as pid_start. */
static pid_t start_with_old_number(const struct proc_pids *l)
{
    pid_t got = 0;

    for (pid_t pid = (pid_t)l->before - 1; !got && pid > 300 && pid > (pid_t)l->before - 99;
         pid--) {
        got = pid_start(pid);
    }
    return got;
}

static void
a_chosen_number_is_found_by_the_directory_which_is_read_each_time_from_then_on(void **state)
{
    struct world w;
    uint64_t whole;
    pid_t pid;

    begin(&w, MAX);
    settle(&w);
    pid = start_with_old_number(&w.list);
    if (pid == 0) {
        end(&w);
        printf("skipped: no number can be chosen here (clone3 with set_tid, a privilege)\n");
        skip();
    }
    for (int i = 0; i < PROC_PIDS_WHOLE && !has(&w.list, pid, false); i++) {
        assert_ok(proc_pids_look(&w.list));
    }
    assert_true(has(&w.list, pid, false));
    assert_true(w.list.loadavg < 0);
    whole = w.list.whole;
    assert_ok(proc_pids_look(&w.list));
    assert_ok(proc_pids_look(&w.list));
    assert_int_equal(w.list.whole, whole + 2);
    end_child(pid);
    end(&w);
}

/* Exit code: 0 when the directory is read at every look. */
static int reads_each_time(void)
{
    struct proc_host host;
    struct proc_pids list;
    bool good;

    if (proc_host_open(&host, "/proc", NULL) != ERR_OK) {
        return 1;
    }
    good = proc_pids_open(&list, &host, "/proc", MAX) == ERR_OK;
    for (int i = 0; good && i < 5; i++) {
        good = proc_pids_look(&list) == ERR_OK && list.n > 0;
    }
    good = good && list.whole == 5 && list.loadavg < 0;
    proc_pids_close(&list);
    proc_host_close(&host);
    return good ? 0 : 1;
}

static int among_hidden(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("proc", "/proc", "proc", 0, "hidepid=2") != 0 || setgroups(0, NULL) != 0 ||
        setgid(65534) != 0 || setuid(65534) != 0) {
        return SKIPPED;
    }
    return reads_each_time();
}

static int in_inner_namespace(void)
{
    int status;
    pid_t pid;

    if (unshare(CLONE_NEWPID) != 0) {
        return SKIPPED;
    }
    pid = fork();
    if (pid == 0) {
        _exit(reads_each_time());
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void where_loadavg_says_too_little_the_directory_is_read_each_time(void **state)
{
    static int (*const roles[])(void) = {among_hidden, in_inner_namespace};

    for (size_t i = 0; i < COUNT_OF(roles); i++) {
        pid_t pid = fork();
        int status;

        if (pid == 0) {
            _exit(roles[i]());
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == SKIPPED) {
            printf("skipped: namespaces of one's own need root\n");
            skip();
        }
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_starts_is_found_and_the_directory_is_read_now_and_then),
        cmocka_unit_test(what_was_removed_is_gone_from_the_next_look_on),
        cmocka_unit_test(threads_are_not_processes),
        cmocka_unit_test(more_than_fit_are_counted_and_the_first_are_kept),
        cmocka_unit_test(
            a_chosen_number_is_found_by_the_directory_which_is_read_each_time_from_then_on),
        cmocka_unit_test(where_loadavg_says_too_little_the_directory_is_read_each_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
