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

    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unanswered_a_subscription_ends_though_events_arrive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
