/* What a service manager hears, on a socket of our own. */
#include "common/os/os_notify.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/clk.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

struct manager {
    char dir[256], path[300];
    int fd;
};

static struct manager manager_open(bool abstract)
{
    struct manager m = {.fd = socket(AF_UNIX, SOCK_DGRAM, 0)};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    size_t n;

    support_temp_dir(m.dir, sizeof m.dir);
    (void)snprintf(m.path, sizeof m.path, "%s%s/n", abstract ? "@" : "", m.dir);
    n = strlen(m.path);
    assert_true(m.fd >= 0 && n < sizeof at.sun_path);
    memcpy(at.sun_path, m.path, n);
    if (abstract) {
        at.sun_path[0] = '\0';
    }
    assert_int_equal(
        bind(m.fd, (struct sockaddr *)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)),
        0);
    assert_int_equal(setenv("NOTIFY_SOCKET", m.path, 1), 0);
    return m;
}

static void manager_close(struct manager *m)
{
    close(m->fd);
    unlink(m->path);
    support_remove_dir(m->dir);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

static void assert_heard(const struct manager *m, const char *expected)
{
    char text[2048];
    ssize_t n = recv(m->fd, text, sizeof text - 1, MSG_DONTWAIT);

    assert_true(n >= 0);
    text[n] = '\0';
    assert_string_equal(text, expected);
}

static void a_message_arrives_as_one_datagram(void **state)
{
    for (int abstract = 0; abstract < 2; abstract++) {
        struct manager m = manager_open(abstract);

        os_notify("READY=1\nSTATUS=%s", "ready");
        assert_heard(&m, "READY=1\nSTATUS=ready");
        manager_close(&m);
    }
}

static void a_message_that_is_too_long_is_cut(void **state)
{
    struct manager m = manager_open(false);
    char text[2 * OS_NOTIFY_MAX], cut[OS_NOTIFY_MAX];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    memcpy(cut, text, sizeof cut - 1);
    cut[sizeof cut - 1] = '\0';
    os_notify("%s", text);
    assert_heard(&m, cut);
    manager_close(&m);
}

static void nobody_and_nonsense_are_no_address(void **state)
{
    static const char *const addresses[] = {"", "@", "/", "relative", "/no/such/socket"};
    char long_path[400];

    unsetenv("NOTIFY_SOCKET");
    os_notify("READY=1");
    for (size_t i = 0; i < COUNT_OF(addresses); i++) {
        setenv("NOTIFY_SOCKET", addresses[i], 1);
        os_notify("READY=1");
    }
    memset(long_path, '/', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    setenv("NOTIFY_SOCKET", long_path, 1);
    os_notify("READY=1");
    unsetenv("NOTIFY_SOCKET");
}

static void the_watchdog_is_asked_for_this_process_alone(void **state)
{
    static const struct {
        const char *us;
        int64_t expected_ns;
    } table[] = {
        {"2000000", 2 * CLK_S},
        {"0", 0},
        {"-5", 0},
        {"5s", 0},
        {"", 0},
        {"99999999999999999999", 0},
        {"9223372036854775807", 0},
    };
    struct manager m = manager_open(false);
    char pid[32];

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        setenv("WATCHDOG_USEC", table[i].us, 1);
        assert_int_equal(os_notify_watchdog_ns(), table[i].expected_ns);
    }
    setenv("WATCHDOG_USEC", "2000000", 1);
    (void)snprintf(pid, sizeof pid, "%ld", (long)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    assert_int_equal(os_notify_watchdog_ns(), 2 * CLK_S);
    setenv("WATCHDOG_PID", "1", 1);
    assert_int_equal(os_notify_watchdog_ns(), 0);
    manager_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_arrives_as_one_datagram),
        cmocka_unit_test(a_message_that_is_too_long_is_cut),
        cmocka_unit_test(nobody_and_nonsense_are_no_address),
        cmocka_unit_test(the_watchdog_is_asked_for_this_process_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
