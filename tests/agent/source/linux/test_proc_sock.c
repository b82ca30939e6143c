#include "agent/source/linux/proc_sock.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/t.h"

enum { TOO_LONG_S = 20 };

static void make_events(void)
{
    const struct timespec pause = {0, 10000000};

    for (;;) {
        pid_t child = fork();

        if (child == 0) {
            _exit(0);
        }
        if (child < 0 || waitpid(child, NULL, 0) != child) {
            _exit(1);
        }
        nanosleep(&pause, NULL);
    }
}

/* Exit code: an enum err, or 100 when there are no such namespaces here. */
static void open_in_another_namespace(void)
{
    struct proc_sock *s = NULL;
    struct errmsg why = {""};
    enum err e;

    if (unshare(CLONE_NEWUSER) != 0) {
        _exit(100);
    }
    alarm(TOO_LONG_S);
    e = proc_sock_open(&s, &why);
    proc_sock_close(s);
    _exit((int)e);
}

/* Another user namespace's subscription is not answered, but the events that somebody else has
 * subscribed do arrive. */
static void unanswered_a_subscription_ends_though_events_arrive(void **state)
{
    struct proc_sock *s;
    struct errmsg why = {""};
    pid_t maker, opener;
    int status = 0;

    if (proc_sock_open(&s, &why) != ERR_OK) {
        printf("skipped: %s\n", why.text);
        skip();
    }
    maker = fork();
    if (maker == 0) {
        make_events();
    }
    opener = fork();
    if (opener == 0) {
        open_in_another_namespace();
    }
    assert_true(maker > 0 && opener > 0);
    assert_int_equal(waitpid(opener, &status, 0), opener);
    assert_int_equal(kill(maker, SIGKILL), 0);
    assert_int_equal(waitpid(maker, NULL, 0), maker);
    proc_sock_close(s);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 100) {
        printf("skipped: a user namespace of its own could not be made\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), ERR_TIMEOUT);
}

#define LIVES     300
#define STRANGERS 8 /* half of what is received at once */

/* Lives of our children as a table would see them, but for those that nobody knows. */
struct backlog {
    uint32_t pids[LIVES];
    bool ended[LIVES], stranger[LIVES];
    size_t strangers;                /* the first ones */
    size_t n, known, recorded, most; /* most: known, begun and without record at once */
};

static size_t life_of(const struct backlog *b, uint32_t pid)
{
    size_t i = b->n;

    while (i > 0 && b->pids[i - 1] != pid) {
        i--;
    }
    return i; /* 0: not one of ours, or not begun */
}

static void see_event(void *ctx, const struct proc_net_event *ev)
{
    struct backlog *b = ctx;
    size_t i = life_of(b, ev->pid), held;

    if (ev->kind == PROC_NET_FORK && ev->pid == ev->tid && ev->parent_pid == (uint32_t)getpid() &&
        b->n < LIVES) {
        b->stranger[b->n] = b->n < b->strangers;
        b->known += !b->stranger[b->n];
        b->pids[b->n++] = ev->pid;
        held = b->known - b->recorded;
        b->most = held > b->most ? held : b->most;
    } else if (ev->kind == PROC_NET_EXIT && i > 0) {
        b->ended[i - 1] = true;
    }
}

static enum proc_took see_record(void *ctx, const struct proc_net_task *task, bool final)
{
    struct backlog *b = ctx;
    size_t i = life_of(b, task->pid);

    if (task->parent_pid != (uint32_t)getpid()) {
        return PROC_TOOK; /* of this machine */
    }
    if (i == 0 || b->stranger[i - 1] || (!b->ended[i - 1] && !final)) {
        return PROC_TOOK_NOT;
    }
    b->recorded++;
    return b->ended[i - 1] ? PROC_TOOK_ENDED : PROC_TOOK;
}

static void live_briefly(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        _exit(0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Processes end that are not in the table (any more): their records are never taken. Those behind
 * must not wait until all starts of the backlog have filled the table. */
static void records_of_strangers_do_not_hold_up_those_behind_them(void **state)
{
    static struct backlog b;
    const struct proc_sock_sink sink = {&b, see_event, see_record};
    struct errmsg why = {""};
    uint64_t lost, damaged;

    for (size_t strangers = 1; strangers <= STRANGERS; strangers += STRANGERS - 1) {
        struct proc_sock *s = NULL;

        if (proc_sock_open(&s, &why) != ERR_OK || !proc_sock_has_records(s)) {
            proc_sock_close(s);
            printf("skipped: %s\n", why.text);
            skip();
        }
        b = (struct backlog){.strangers = strangers};
        for (int i = 0; i < LIVES; i++) {
            live_briefly();
        }
        proc_sock_drain(s, &sink, &lost, &damaged);
        proc_sock_close(s);
        printf("%zu of %d at once\n", b.most, LIVES);
        assert_int_equal(lost, 0);
        assert_int_equal(b.n, LIVES);
        assert_int_equal(b.recorded, LIVES - strangers);
        assert_true(b.most <= LIVES / 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_of_strangers_do_not_hold_up_those_behind_them),
        cmocka_unit_test(unanswered_a_subscription_ends_though_events_arrive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
