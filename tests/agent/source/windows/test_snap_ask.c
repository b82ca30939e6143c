#include "tests/support/t.h"

#include <string.h>

#include "agent/source/windows/snap_ask.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

/* What is asked, in the thread inside; read by the test when it has waited. */
struct asked {
    uint32_t pids[4 * SNAP_ASK_MAX];
    size_t n;
    char line[32];
};

static void read_job(void *ctx, const struct snap_job *job, struct snap_answer *out)
{
    struct asked *asked = ctx;
    int64_t until_ns = os_mono_ns() + CLK_US;

    asked->pids[asked->n++] = job->id.pid;
    asked->line[0] = (char)('a' + job->id.pid % 26); /* the same place for each */
    out->line = (struct str){asked->line, 1};
    out->image = str_make("image");
    out->have = job->id.pid;
    while (os_mono_ns() < until_ns) { /* takes time, however little */
    }
}

static struct snap_ask *open_ask(struct asked *asked, int64_t budget_ns)
{
    const struct snap_ask_conf conf = {
        .read = read_job, .ctx = asked, .budget_ns = budget_ns, .patience_ns = 60 * CLK_S};
    struct snap_ask *a;

    assert_ok(snap_ask_open(&a, &conf));
    return a;
}

static size_t put_all(struct snap_ask *a, unsigned what, uint32_t round)
{
    struct snap_job job = {.what = what, .round = round};

    while (snap_ask_has_room(a)) {
        snap_ask_put(a, &job);
        job.id.pid++;
    }
    return job.id.pid;
}

static void answers_come_in_the_order_of_jobs_with_texts_of_their_own(void **state)
{
    struct asked asked = {.n = 0};
    struct snap_ask *a = open_ask(&asked, CLK_S);

    for (int i = 0; i < 3; i++) {
        size_t n = put_all(a, SNAP_JOB_LINE, 1);

        assert_int_equal(n, SNAP_ASK_MAX);
        snap_ask_wait(a);
        assert_false(snap_ask_has_room(a)); /* answers wait in their places */
        for (uint32_t pid = 0; pid < n; pid++) {
            struct snap_answer *answer = snap_ask_take(a);

            assert_non_null(answer);
            assert_int_equal(answer->job.id.pid, pid);
            assert_int_equal(answer->have, pid);
            assert_int_equal(answer->line.n, 1);
            assert_int_equal(answer->line.p[0], 'a' + pid % 26);
            assert_memory_equal(answer->image.p, "image", 5);
            mem_free(answer);
        }
        assert_null(snap_ask_take(a));
    }
    assert_int_equal(asked.n, 3 * SNAP_ASK_MAX);
    snap_ask_close(a);
}

static size_t count_late(struct snap_ask *a)
{
    struct snap_answer *answer;
    size_t late = 0;

    snap_ask_wait(a);
    while ((answer = snap_ask_take(a))) {
        late += answer->error == ERR_TIMEOUT;
        mem_free(answer);
    }
    return late;
}

static void a_period_has_its_time_and_no_more(void **state)
{
    struct asked asked = {.n = 0};
    struct snap_ask *a = open_ask(&asked, 0);

    assert_int_equal(put_all(a, SNAP_JOB_GAUGES, 1), SNAP_ASK_MAX);
    assert_int_equal(count_late(a), SNAP_ASK_MAX - 1);
    put_all(a, SNAP_JOB_GAUGES, 1);
    assert_int_equal(count_late(a), SNAP_ASK_MAX);
    put_all(a, SNAP_JOB_GAUGES, 2);
    assert_int_equal(count_late(a), SNAP_ASK_MAX - 1);
    put_all(a, SNAP_JOB_LINE, 0); /* asked once in a life: not by period */
    assert_int_equal(count_late(a), 0);
    assert_int_equal(asked.n, 2 + SNAP_ASK_MAX);
    snap_ask_close(a);
}

static void closing_drops_what_waits(void **state)
{
    long live = mem_live();

    for (int i = 0; i < 20; i++) {
        struct asked asked = {.n = 0};
        struct snap_ask *a = open_ask(&asked, CLK_S);

        put_all(a, SNAP_JOB_LINE, 0);
        if (i % 2) {
            snap_ask_wait(a);
        }
        snap_ask_close(a);
    }
    assert_int_equal(mem_live(), live);
}

/* A call that does not come back before it is let. */
struct stuck {
    struct os_mutex *lock;
    struct os_cond *changed;
    bool inside, let, released;
};

static void say(struct stuck *s, bool *what)
{
    os_mutex_lock(s->lock);
    *what = true;
    os_cond_wake_all(s->changed);
    os_mutex_unlock(s->lock);
}

static void wait_for(struct stuck *s, const bool *what)
{
    os_mutex_lock(s->lock);
    while (!*what) {
        os_cond_wait(s->changed);
    }
    os_mutex_unlock(s->lock);
}

static void read_stuck(void *ctx, const struct snap_job *job, struct snap_answer *out)
{
    struct stuck *s = ctx;

    (void)job;
    (void)out;
    say(s, &s->inside);
    wait_for(s, &s->let);
}

static void release_stuck(void *ctx)
{
    struct stuck *s = ctx;

    say(s, &s->released);
}

static void closing_does_not_wait_for_a_call_that_is_stuck(void **state)
{
    struct stuck s = {NULL, NULL, false, false, false};
    const struct snap_ask_conf conf = {
        .read = read_stuck, .release = release_stuck, .ctx = &s, .patience_ns = CLK_MS};
    const struct snap_job job = {.what = SNAP_JOB_ACCOUNT};
    struct snap_ask *a;

    assert_ok(os_mutex_create(&s.lock));
    assert_ok(os_cond_create(&s.changed, s.lock));
    assert_ok(snap_ask_open(&a, &conf));
    snap_ask_put(a, &job);
    snap_ask_put(a, &job);
    wait_for(&s, &s.inside);
    snap_ask_close(a);
    assert_false(s.released); /* it is still used */
    say(&s, &s.let);
    wait_for(&s, &s.released);
    os_cond_destroy(s.changed);
    os_mutex_destroy(s.lock);
}

static void what_is_closed_in_time_is_released_at_once(void **state)
{
    struct stuck s = {NULL, NULL, false, true, false};
    const struct snap_ask_conf conf = {
        .read = read_stuck, .release = release_stuck, .ctx = &s, .patience_ns = 60 * CLK_S};
    struct snap_ask *a;

    assert_ok(os_mutex_create(&s.lock));
    assert_ok(os_cond_create(&s.changed, s.lock));
    assert_ok(snap_ask_open(&a, &conf));
    snap_ask_close(a);
    assert_true(s.released);
    os_cond_destroy(s.changed);
    os_mutex_destroy(s.lock);
}

static void opening_survives_any_failing_allocation(void **state)
{
    const struct snap_ask_conf conf = {.read = read_job, .patience_ns = 60 * CLK_S};
    long live = mem_live();
    enum err e = ERR_NOMEM;

    for (long n = 0; e; n++) {
        struct snap_ask *a;

        mem_fail_after(n);
        e = snap_ask_open(&a, &conf);
        mem_fail_after(-1);
        if (e) {
            assert_int_equal(e, ERR_NOMEM);
        } else {
            snap_ask_close(a);
        }
    }
    assert_int_equal(mem_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_come_in_the_order_of_jobs_with_texts_of_their_own),
        cmocka_unit_test(a_period_has_its_time_and_no_more),
        cmocka_unit_test(closing_drops_what_waits),
        cmocka_unit_test(closing_does_not_wait_for_a_call_that_is_stuck),
        cmocka_unit_test(what_is_closed_in_time_is_released_at_once),
        cmocka_unit_test(opening_survives_any_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
