#include "tests/support/t.h"

#include <stdio.h>

#include "agent/agent_run.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/support.h"

#define WALL (1700000000LL * CLK_S)

static char dir[256];

static int make_dir(void **state)
{
    (void)support_temp_dir(dir, sizeof dir);
    return 0;
}

static int drop_dir(void **state)
{
    support_remove_dir(dir);
    return 0;
}

/* A start `s` seconds after the first one, in that boot, with a newest batch of second `newest`
 * (0: none). */
static struct agent_run_start at(int64_t s, uint8_t boot, double newest)
{
    struct agent_run_start start = {.wall_ns = WALL + s * CLK_S,
                                    .mono_ns = (1000 + s) * CLK_S,
                                    .period_ns = CLK_S,
                                    .memory_ns = 11 * CLK_S};

    memset(start.boot.b, boot, sizeof start.boot.b);
    start.newest_ns = newest > 0 ? WALL + (int64_t)(newest * 1e9) : 0;
    return start;
}

static struct agent_run begin(struct agent_run_start start)
{
    struct agent_run r = {.path = NULL};

    assert_ok(agent_run_begin(&r, dir, &start));
    return r;
}

/* As a kill leaves it. */
static void kill_it(struct agent_run *r)
{
    mem_free(r->path);
}

static void an_orderly_end_leaves_nothing_to_tell(void **state)
{
    struct agent_run r = begin(at(0, 1, 0));
    struct ledger_row rows[4];

    assert_false(r.untold);
    assert_int_equal(agent_run_ledger(&r, rows, COUNT_OF(rows)), 2);
    assert_int_equal(rows[0].count + rows[1].count, 0);
    agent_run_end(&r, true);
    assert_int_equal(agent_run_ledger(&r, rows, COUNT_OF(rows)), 0);
    r = begin(at(100, 1, 50));
    assert_false(r.untold);
    agent_run_end(&r, true);
}

static void a_kill_costs_the_ticks_since_the_newest_batch(void **state)
{
    static const struct {
        int64_t again;
        uint8_t boot;
        double newest;
        uint64_t killed, power_lost;
    } table[] = {
        {100, 1, 90, 10, 0},    {100, 1, 90.5, 9, 0}, /* a whole period each */
        {100, 1, 99.5, 0, 0},                         /* nothing was missed */
        {100, 1, 0, 100, 0},                          /* nothing ever reached the disk */
        {3600, 1, 60, 3540, 0}, {100, 2, 95, 0, 5},   /* the system went down */
        {5000, 2, 60, 0, 11},                         /* and was away: what memory held */
        {100, 2, 99.9, 0, 1},                         /* at least one */
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct agent_run r = begin(at(0, 1, 0));

        kill_it(&r);
        r = begin(at(table[i].again, table[i].boot, table[i].newest));
        if (r.killed != table[i].killed || r.power_lost != table[i].power_lost) {
            fail_msg("row %zu: %llu killed, %llu power_lost", i, (unsigned long long)r.killed,
                     (unsigned long long)r.power_lost);
        }
        assert_int_equal(r.untold, table[i].killed + table[i].power_lost > 0);
        agent_run_end(&r, true);
    }
}

static void a_clock_that_was_set_makes_it_no_longer_than_it_was(void **state)
{
    struct agent_run r = begin(at(0, 1, 0));
    struct agent_run_start start = at(100, 1, 90);

    kill_it(&r);
    start.wall_ns += 3600 * CLK_S;
    r = begin(start);
    assert_int_equal(r.killed, 100);
    agent_run_end(&r, true);
    r = begin(at(0, 1, 0));
    kill_it(&r);
    start = at(100, 1, 90);
    start.wall_ns -= 50 * CLK_S;
    r = begin(start);
    assert_int_equal(r.killed, 100);
    agent_run_end(&r, true);
}

static void a_second_kill_before_it_was_told_changes_nothing(void **state)
{
    struct agent_run r = begin(at(0, 1, 0));

    kill_it(&r);
    r = begin(at(100, 1, 90));
    kill_it(&r); /* at once */
    r = begin(at(110, 1, 90));
    assert_int_equal(r.killed, 20);
    agent_run_end(&r, false); /* stopped, but nothing of it was told */
    r = begin(at(120, 1, 90));
    assert_int_equal(r.killed, 30);
    kill_it(&r);
    r = begin(at(200, 1, 190)); /* that run was told of, and went on to 190 */
    assert_int_equal(r.killed, 10);
    agent_run_end(&r, true);
}

static void a_file_that_is_damaged_or_cut_tells_nothing(void **state)
{
    struct agent_run r = begin(at(0, 1, 0));
    char path[300];
    uint8_t *p;
    size_t n;

    (void)snprintf(path, sizeof path, "%s/%s", dir, AGENT_RUN_FILE);
    kill_it(&r);
    assert_ok(os_read_file(&p, &n, path, 4096));
    for (size_t i = 0; i < 2 * n; i++) {
        p[i / 2] ^= i % 2 ? 0x10 : 0;
        assert_ok(os_write_file(path, p, i % 2 ? n : i / 2, true));
        p[i / 2] ^= i % 2 ? 0x10 : 0;
        r = begin(at(100, 1, 50));
        assert_false(r.untold);
        kill_it(&r);
    }
    mem_free(p);
    r = begin(at(200, 1, 150)); /* the last start has put it right */
    assert_int_equal(r.killed, 50);
    agent_run_end(&r, true);
}

static void want_of_memory_and_of_a_disk_cost_the_telling_only(void **state)
{
    struct agent_run_start start = at(0, 1, 0);
    enum err e = ERR_NOMEM;

    for (int n = 0; e; n++) {
        struct agent_run r = {.path = NULL};

        mem_fail_after(n);
        e = agent_run_begin(&r, dir, &start);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        agent_run_end(&r, e == ERR_OK);
    }
    support_remove_dir(dir);
    {
        struct agent_run r = {.path = NULL};

        assert_true(agent_run_begin(&r, dir, &start) != ERR_OK);
        agent_run_end(&r, true);
    }
    (void)support_temp_dir(dir, sizeof dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_orderly_end_leaves_nothing_to_tell),
        cmocka_unit_test(a_kill_costs_the_ticks_since_the_newest_batch),
        cmocka_unit_test(a_clock_that_was_set_makes_it_no_longer_than_it_was),
        cmocka_unit_test(a_second_kill_before_it_was_told_changes_nothing),
        cmocka_unit_test(a_file_that_is_damaged_or_cut_tells_nothing),
        cmocka_unit_test(want_of_memory_and_of_a_disk_cost_the_telling_only),
    };

    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
