/* What only Windows does: others look at our files for a moment and do not share them, and waits
 * last until the next tick of the clock. */
#include "tests/support/t.h"

#include <stdatomic.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/fio.h"
#include "common/os/os.h"
#include "common/os/os_wait_win32.h"
#include "common/os/win32.h"
#include "tests/support/support.h"

#define HELD_MS         80
#define TRIES           60
#define BRIEF_NS        (300 * CLK_US)
#define HIGH_RESOLUTION 2 /* CREATE_WAITABLE_TIMER_HIGH_RESOLUTION */

static char dir[256];

/* ---- files that somebody else has open ---- */

struct scanner {
    HANDLE file;
    struct os_thread *thread;
};

static void scanner_run(void *arg)
{
    struct scanner *s = arg;

    os_sleep_ns(HELD_MS * CLK_MS);
    CloseHandle(s->file);
}

/* As a virus scanner does: it reads, and lets nobody rename or remove. */
static void scanner_look(struct scanner *s, const char *path)
{
    WCHAR wide[512];

    assert_true(MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, 512) > 0);
    s->file = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL);
    assert_true(s->file != INVALID_HANDLE_VALUE);
    assert_ok(os_thread_start(&s->thread, "scanner", scanner_run, s));
}

static enum err rename_by_os(const char *from, const char *to)
{
    return os_rename(from, to);
}

static enum err rename_by_fio(const char *from, const char *to)
{
    return fio_os()->rename(fio_os()->ctx, from, to);
}

static enum err remove_both(const char *from, const char *to)
{
    enum err e = os_remove(from);

    return e ? e : os_remove(to);
}

/* Over the file itself: its contents go to a file beside it, which replaces it. */
static enum err write_over(const char *from, const char *to)
{
    enum err e = os_write_file(to, "new", 3, false);

    return e ? e : os_remove(from);
}

static void a_scanner_delays_and_refuses_nothing(void **state)
{
    static enum err (*const rows[])(const char *from, const char *to) = {
        rename_by_os, rename_by_fio, remove_both, write_over};
    char *from = os_path_join(dir, "from"), *to = os_path_join(dir, "to");

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (int which = 0; which < 2; which++) {
            int64_t began_ns;
            struct scanner s;

            assert_ok(os_write_file(from, "new", 3, false));
            assert_ok(os_write_file(to, "old", 3, false));
            scanner_look(&s, which ? to : from);
            began_ns = os_mono_ns();
            assert_ok(rows[i](from, to));
            assert_true(os_mono_ns() - began_ns < 5 * CLK_S);
            os_thread_join(s.thread);
            assert_false(os_exists(from));
            if (os_exists(to)) {
                assert_ok(os_remove(to));
            }
        }
    }
    mem_free(from);
    mem_free(to);
}

static void who_never_shares_is_told_after_a_while(void **state)
{
    char *path = os_path_join(dir, "held");
    WCHAR wide[512];
    int64_t began_ns;
    HANDLE h;

    assert_ok(os_write_file(path, "x", 1, false));
    assert_true(MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, 512) > 0);
    h = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL);
    assert_true(h != INVALID_HANDLE_VALUE);
    began_ns = os_mono_ns();
    assert_err(os_remove(path), ERR_BUSY);
    assert_true(os_mono_ns() - began_ns > 200 * CLK_MS);
    CloseHandle(h);
    began_ns = os_mono_ns();
    assert_err(os_remove(dir), ERR_ACCESS); /* a directory stays one */
    assert_err(os_remove("C:\\no\\such\\file"), ERR_NOTFOUND);
    assert_true(os_mono_ns() - began_ns < 200 * CLK_MS);
    assert_ok(os_remove(path));
    mem_free(path);
}

/* ---- waits ---- */

struct bell {
    struct os_mutex *lock;
    struct os_cond *cond;
    atomic_bool ready;
    bool rung;
};

static int64_t wait_brief(struct bell *b)
{
    int64_t began_ns = os_mono_ns(), until_ns = began_ns + BRIEF_NS;

    os_mutex_lock(b->lock);
    while (os_cond_wait_until(b->cond, until_ns) != ERR_TIMEOUT) {
    }
    os_mutex_unlock(b->lock);
    return os_mono_ns() - began_ns;
}

static int64_t sleep_brief(struct bell *b)
{
    int64_t began_ns = os_mono_ns();

    (void)b;
    os_sleep_ns(BRIEF_NS);
    return os_mono_ns() - began_ns;
}

static void bell_init(struct bell *b)
{
    *b = (struct bell){.rung = false};
    assert_ok(os_mutex_create(&b->lock));
    assert_ok(os_cond_create(&b->cond, b->lock));
}

static void bell_fini(struct bell *b)
{
    os_cond_destroy(b->cond);
    os_mutex_destroy(b->lock);
}

/* On a busy machine not each of them, but the best. Wine's timers know milliseconds, and so do all
 * of its waits: that Windows's own last until the clock's next tick shows there only. */
static void brief_waits_are_brief(void **state)
{
    static int64_t (*const rows[])(struct bell * b) = {wait_brief, sleep_brief};
    struct bell b;

    bell_init(&b);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t least_ns = INT64_MAX;

        for (int n = 0; n < TRIES; n++) {
            int64_t took_ns = rows[i](&b);

            assert_true(took_ns >= BRIEF_NS - 100 * CLK_US);
            least_ns = took_ns < least_ns ? took_ns : least_ns;
        }
        assert_true(least_ns < 10 * CLK_MS);
    }
    bell_fini(&b);
}

/* By a timer of high resolution, where the system has them (Windows 10 1803 and newer). */
static void a_brief_wait_has_a_timer_of_its_own(void **state)
{
    HANDLE timer = CreateWaitableTimerExW(NULL, NULL, HIGH_RESOLUTION, TIMER_ALL_ACCESS);
    struct os_wait_win32_list list = {.first = NULL};
    SRWLOCK lock = SRWLOCK_INIT;

    AcquireSRWLockExclusive(&lock);
    assert_int_equal(os_wait_win32_sleep(BRIEF_NS), timer != NULL);
    assert_int_equal(os_wait_win32_for(&list, &lock, BRIEF_NS), timer != NULL);
    assert_false(os_wait_win32_sleep(OS_WAIT_WIN32_NS));
    ReleaseSRWLockExclusive(&lock);
    if (timer) {
        CloseHandle(timer);
    }
}

static void ring(void *arg)
{
    struct bell *b = arg;

    while (!atomic_load(&b->ready)) {
        os_sleep_ns(CLK_MS);
    }
    os_mutex_lock(b->lock);
    b->rung = true;
    os_cond_wake(b->cond);
    os_mutex_unlock(b->lock);
}

static void a_brief_waiter_is_woken(void **state)
{
    unsigned woken = 0;

    for (int n = 0; n < 20; n++) {
        struct os_thread *t;
        struct bell b;

        bell_init(&b);
        assert_ok(os_thread_start(&t, "bell", ring, &b));
        os_mutex_lock(b.lock);
        atomic_store(&b.ready, true);
        while (!b.rung) { /* each of these is a brief one */
            woken += os_cond_wait_until(b.cond, os_mono_ns() + 49 * CLK_MS) == ERR_OK;
        }
        os_mutex_unlock(b.lock);
        os_thread_join(t);
        bell_fini(&b);
    }
    assert_true(woken > 0); /* else each of them has waited to its end */
}

static int with_dir(void **state)
{
    (void)state;
    support_temp_dir(dir, sizeof dir);
    return 0;
}

static int without_dir(void **state)
{
    (void)state;
    support_remove_dir(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scanner_delays_and_refuses_nothing),
        cmocka_unit_test(who_never_shares_is_told_after_a_while),
        cmocka_unit_test(brief_waits_are_brief),
        cmocka_unit_test(a_brief_wait_has_a_timer_of_its_own),
        cmocka_unit_test(a_brief_waiter_is_woken),
    };

    return cmocka_run_group_tests(tests, with_dir, without_dir);
}
