/* What os_thread_background asks of Linux, as Linux tells it; pipes; what errno means to us. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/os_posix.h"
#include "tests/support/t.h"

#define STEP 10
#define MOST 19

static int least(int a, int b)
{
    return a < b ? a : b;
}

struct seen {
    int first; /* a nice value that the thread takes before; 0: none */
    int once, twice, class;
};

static void step_back(void *arg)
{
    struct seen *s = arg;

    if (s->first) {
        assert_int_equal(setpriority(PRIO_PROCESS, 0, s->first), 0);
    }
    assert_ok(os_thread_background());
    s->once = getpriority(PRIO_PROCESS, 0);
    s->class = sched_getscheduler(0);
    assert_ok(os_thread_background());
    s->twice = getpriority(PRIO_PROCESS, 0);
}

static struct seen run(int first)
{
    struct seen s = {.first = first};
    struct os_thread *t;

    assert_ok(os_thread_start(&t, "step", step_back, &s));
    os_thread_join(t);
    return s;
}

static void nice_rises_by_ten_once_and_wakes_of_the_thread_interrupt_nobody(void **state)
{
    int own = getpriority(PRIO_PROCESS, (id_t)getpid());
    struct seen s = run(0);

    assert_int_equal(s.once, least(own + STEP, MOST));
    assert_int_equal(s.twice, s.once);
    assert_int_equal(s.class, SCHED_BATCH);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), own); /* of this thread, and so the program's */
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
}

static void a_thread_that_stands_further_back_stays_there(void **state)
{
    struct seen s = run(MOST);

    assert_int_equal(s.once, MOST);
    assert_int_equal(s.twice, MOST);
}

static void write_late(void *path)
{
    int fd;

    os_sleep_ns(100 * CLK_MS);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    os_sleep_ns(100 * CLK_MS);
    assert_int_equal(write(fd, "late", 4), 4);
    close(fd);
}

/* A pipe in place of a file: what comes through it is read, and one where nobody writes holds up
 * nobody for ever. */
static void a_pipe_is_read_and_waited_for_no_longer_than_it_is_worth(void **state)
{
    char dir[] = "/tmp/test_os_linux-XXXXXX", path[64];
    int64_t begun_ns;
    struct os_thread *t;
    uint8_t *p;
    size_t n;

    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/pipe", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_ok(os_thread_start(&t, "late", write_late, path));
    assert_ok(os_read_file(&p, &n, path, 100));
    os_thread_join(t);
    assert_int_equal(n, 4);
    assert_memory_equal(p, "late", 4);
    mem_free(p);
    begun_ns = os_mono_ns();
    assert_err(os_read_file(&p, &n, path, 100), ERR_TIMEOUT);
    assert_true(os_mono_ns() - begun_ns < 30 * CLK_S);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void a_read_only_disk_is_no_matter_of_rights(void **state)
{
    assert_string_equal(err_text(os_posix_err(EROFS)), "the disk is read-only");
    assert_err(os_posix_err(EACCES), ERR_ACCESS);
    assert_err(os_posix_err(EPERM), ERR_ACCESS);
    assert_err(os_posix_err(EIO), ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nice_rises_by_ten_once_and_wakes_of_the_thread_interrupt_nobody),
        cmocka_unit_test(a_thread_that_stands_further_back_stays_there),
        cmocka_unit_test(a_pipe_is_read_and_waited_for_no_longer_than_it_is_worth),
        cmocka_unit_test(a_read_only_disk_is_no_matter_of_rights),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
