/* What the catalogue finds of windows that are told by hand. */
#include <stdio.h>
#include <string.h>

#include "common/os/os.h"
#include "tests/collector/store/catalogue/catalogue_rig.h"
#include "tests/support/t.h"

#define S   INT64_C(1000000000)
#define DAY (86400 * S)
#define T0  (INT64_C(20000) * DAY) /* a midnight */

/* -- windows by hand -- */

static struct uuid id_of(uint8_t n)
{
    struct uuid u = {{n}};

    return u;
}

static struct proc_info proc(uint32_t pid, int64_t create_ns, int64_t exit_ns, const char *name)
{
    struct proc_info p = {.id = {pid, (uint64_t)create_ns / 100},
                          .have = INFO_CREATE_TIME,
                          .origin = ORIGIN_START,
                          .create_ns = create_ns,
                          .name = str_make(name)};

    if (exit_ns) {
        p.have |= INFO_EXITED | INFO_EXIT_TIME;
        p.exit_ns = exit_ns;
    }
    return p;
}

/* One batch of one host, with ticks from `at` to the end of its window. */
static void put_with(uint8_t host, uint8_t boot, int64_t at_ns, const struct proc_info *infos,
                     size_t n, const struct life_event *events, size_t n_events)
{
    const int64_t wall[] = {at_ns, window_of(at_ns) + WINDOW_NS - 1}, mono[] = {1, 2};
    struct window_rest rest = {.received_ns = at_ns};
    struct host_window hw = {.host = id_of(host), .name = "h", .n_rests = 1, .rests = &rest};
    static uint64_t seq;

    rest.batch.head = (struct batch_head){
        .host = hw.host, .boot = id_of(boot), .seq = ++seq, .source = str_make("etw")};
    rest.batch.n_ticks = 2;
    rest.batch.wall_ns = wall;
    rest.batch.mono_ns = mono;
    rest.batch.n_infos = n;
    rest.batch.infos = infos;
    rest.batch.n_events = n_events;
    rest.batch.events = events;
    (void)catalogue_rig_seal(window_of(at_ns), &hw, 1);
    catalogue_rig_follow();
}

static void put(uint8_t host, uint8_t boot, int64_t at_ns, const struct proc_info *infos, size_t n)
{
    put_with(host, boot, at_ns, infos, n, NULL, 0);
}

/* -- asking -- */

static struct catalogue_rig_rows *alive(uint8_t host, int64_t since_ns, int64_t until_ns)
{
    struct uuid id = id_of(host);
    struct catalogue_ask ask = {.host = &id, .since_ns = since_ns, .until_ns = until_ns};

    return catalogue_rig_find(&ask);
}

static void an_instance_is_found_while_it_lives(void **state)
{
    const int64_t t = T0 + 10 * 3600 * S;
    const struct proc_info infos[] = {
        proc(1, T0 - 5 * DAY, 0, "old"),
        proc(2, t + 10 * S, t + 20 * S, "short"),
        proc(3, t + 15 * S, t + 290 * S, "long"),
        proc(4, t + 100 * S, t + 100 * S, "instant"),
    };
    static const struct {
        int64_t since_s, until_s;
        unsigned pids; /* bits */
    } asks[] = {
        {0, 1, 2},      {0, 10, 2},    {0, 11, 6},          {12, 14, 6},
        {20, 21, 14},   {21, 22, 10},  {100, 101, 26},      {101, 102, 10},
        {290, 291, 10}, {291, 292, 2}, {-86400, 86400, 30}, {100, 100, 10},
    };

    put(1, 1, t, infos, COUNT_OF(infos));
    for (size_t i = 0; i < COUNT_OF(asks); i++) {
        const struct catalogue_rig_rows *r =
            alive(1, t + asks[i].since_s * S, t + asks[i].until_s * S);
        unsigned pids = 0;

        for (size_t k = 0; k < r->n; k++) {
            pids |= 1u << r->at[k].info.id.pid;
        }
        assert_int_equal(pids, asks[i].pids);
    }
    assert_int_equal(alive(2, 0, INT64_MAX)->n, 0);
}

static void what_is_known_comes_back(void **state)
{
    struct proc_info p = proc(7, T0 + S, T0 + 2 * S, "name"), plain;
    struct uuid host = id_of(1);
    struct catalogue_ask brief = {
        .host = &host, .since_ns = T0, .until_ns = T0 + DAY, .brief = true};
    const struct catalogue_rig_rows *r;

    p.have |= INFO_PARENT | INFO_SESSION | INFO_EXIT_CODE | INFO_COMMAND_LINE_KNOWN;
    p.id.start = UINT64_MAX - 1;
    p.parent_pid = 4;
    p.parent_start = UINT64_MAX;
    p.session_id = 3;
    p.exit_code = 0xc0000005;
    p.cpu_origin = CPU_ORIGIN_TIMES;
    p.command_line = str_make("name -x");
    put(1, 9, T0, &p, 1);
    r = alive(1, T0, T0 + DAY);
    assert_int_equal(r->n, 1);
    assert_string_equal(r->at[0].name, "name");
    assert_string_equal(r->at[0].line, "name -x");
    assert_int_equal(r->at[0].boot.b[0], 9);
    assert_int_equal(r->at[0].seen_ns, T0 + WINDOW_NS - 1);
    memset(&plain, 0, sizeof plain);
    catalogue_rig_plain(&plain, &p);
    assert_memory_equal(&r->at[0].info, &plain, sizeof plain);
    r = catalogue_rig_find(&brief);
    assert_int_equal(r->n, 1);
    assert_string_equal(r->at[0].name, "name");
    assert_string_equal(r->at[0].line, "");
    assert_memory_equal(&r->at[0].info, &plain, sizeof plain);
}

static void pids_are_told_apart_by_start_and_boot(void **state)
{
    const struct proc_info infos[] = {proc(5, T0 + S, T0 + 2 * S, "a"),
                                      proc(5, T0 + 3 * S, T0 + 4 * S, "b")};
    struct uuid host = id_of(1), boot = id_of(2);
    struct catalogue_ask ask = {
        .host = &host, .has_pid = true, .pid = 5, .since_ns = 0, .until_ns = INT64_MAX};
    const struct catalogue_rig_rows *r;

    put(1, 1, T0, infos, 2);
    put(1, 2, T0 + WINDOW_NS, &infos[1], 1);
    assert_int_equal(catalogue_rig_find(&ask)->n, 3);
    ask.start = infos[0].id.start;
    r = catalogue_rig_find(&ask);
    assert_int_equal(r->n, 1);
    assert_string_equal(r->at[0].name, "a");
    ask.start = 0;
    ask.boot = &boot;
    r = catalogue_rig_find(&ask);
    assert_int_equal(r->n, 1);
    assert_string_equal(r->at[0].name, "b");
    ask.pid = 6;
    assert_int_equal(catalogue_rig_find(&ask)->n, 0);
}

static void a_life_over_several_days_is_one(void **state)
{
    struct proc_info p = proc(5, T0 + 23 * 3600 * S, 0, "night");
    const struct catalogue_rig_rows *r;

    put(1, 1, p.create_ns, &p, 1);
    put(1, 1, T0 + DAY + 2 * WINDOW_NS, NULL, 0); /* not announced anew: carried over */
    assert_int_equal(alive(1, T0 + DAY + 9 * 3600 * S, T0 + DAY + 9 * 3600 * S + 1)->n, 1);
    p = proc(5, p.create_ns, T0 + 2 * DAY + 60 * S, "night");
    put(1, 1, T0 + 2 * DAY, &p, 1);
    assert_int_equal(alive(1, T0 + 2 * DAY + 59 * S, T0 + 2 * DAY + 60 * S)->n, 1);
    assert_int_equal(alive(1, T0 + 2 * DAY + 61 * S, T0 + 3 * DAY)->n, 0);
    r = alive(1, T0, T0 + 3 * DAY);
    assert_int_equal(r->n, 1);
    assert_int_equal(r->at[0].info.exit_ns, T0 + 2 * DAY + 60 * S);
    assert_int_equal(alive(1, T0, T0 + 22 * 3600 * S)->n, 0);
}

static void those_of_an_earlier_boot_ended_with_it(void **state)
{
    const struct proc_info a = proc(1, T0, 0, "a"), b = proc(1, T0 + 3600 * S, 0, "b");
    const struct catalogue_rig_rows *r;

    put(1, 1, T0, &a, 1);
    put(1, 2, T0 + 3600 * S, &b, 1);
    assert_int_equal(alive(1, T0 + 10 * S, T0 + 11 * S)->n, 1);
    assert_int_equal(alive(1, T0 + 1800 * S, T0 + 1801 * S)->n, 0);
    r = alive(1, T0 + 7200 * S, T0 + 7201 * S);
    assert_int_equal(r->n, 1);
    assert_string_equal(r->at[0].name, "b");
}

static void what_is_told_later_replaces_and_what_is_older_fills_in(void **state)
{
    struct proc_info p = proc(1, T0, 0, "first");
    const struct catalogue_rig_rows *r;

    put(1, 1, T0 + WINDOW_NS, &p, 1);
    p.name = str_make("renamed");
    put(1, 1, T0 + 2 * WINDOW_NS, &p, 1);
    p.name = str_make("before");
    p.command_line = str_make("line");
    p.have |= INFO_COMMAND_LINE_KNOWN;
    put(1, 1, T0, &p, 1); /* late data */
    r = alive(1, T0, T0 + DAY);
    assert_int_equal(r->n, 1);
    assert_string_equal(r->at[0].name, "renamed");
    assert_string_equal(r->at[0].line, "line");
}

/* The end knows best, then the rows, then the start, whenever that is told. */
static void a_batch_tells_of_an_instance_in_the_order_of_time(void **state)
{
    const struct proc_info began = proc(1, T0, 0, "nice"), row = proc(1, T0, 0, "sleep");
    const struct life_event start = {.kind = LIFE_PROCESS_START, .wall_ns = T0, .info = began};
    const struct life_event stop = {.kind = LIFE_PROCESS_STOP,
                                    .wall_ns = T0 + 2 * WINDOW_NS,
                                    .info = proc(1, T0, T0 + 2 * WINDOW_NS, "last")};

    put_with(1, 1, T0, &row, 1, &start, 1);
    assert_string_equal(alive(1, T0, T0 + DAY)->at[0].name, "sleep");
    put_with(1, 1, T0 + WINDOW_NS, NULL, 0, &start, 1);
    assert_string_equal(alive(1, T0, T0 + DAY)->at[0].name, "sleep");
    put_with(1, 1, T0 + 2 * WINDOW_NS, &row, 1, &stop, 1);
    assert_string_equal(alive(1, T0, T0 + DAY)->at[0].name, "last");
    assert_int_equal(alive(1, T0, T0 + DAY)->n, 1);
}

static void a_day_whose_file_is_gone_is_told_and_made_anew(void **state)
{
    const struct proc_info a = proc(1, T0, T0 + S, "a");
    const struct proc_info b = proc(2, T0 + DAY, T0 + DAY + S, "b");
    const struct uuid id = id_of(1);
    const struct catalogue_ask ask = {.host = &id, .since_ns = 0, .until_ns = INT64_MAX};
    static struct catalogue_rig_rows r;
    char path[400];

    put(1, 1, T0, &a, 1);
    put(1, 1, T0 + DAY, &b, 1);
    assert_int_equal(catalogue_rig_find(&ask)->n, 2);
    catalogue_close(catalogue_rig.c); /* with the connections that were kept */
    catalogue_rig_open(true);
    (void)snprintf(path, sizeof path, "%s/2024-10-04.db", catalogue_rig.cat_dir);
    assert_ok(os_remove(path));
    r.n = 0;
    assert_err(catalogue_find(catalogue_rig.c, &ask, catalogue_rig_add, &r), ERR_NOTFOUND);
    assert_int_equal(r.n, 1); /* the other day answers */
    assert_string_equal(r.at[0].name, "b");
    catalogue_rig_follow();
    assert_int_equal(catalogue_rig_find(&ask)->n, 2);
}

static void old_days_go_whole(void **state)
{
    struct proc_info p = proc(1, T0, T0 + S, "a");
    uint64_t before, dropped;

    for (int64_t d = 0; d < 4; d++) {
        put(1, 1, T0 + d * DAY, &p, 1);
    }
    assert_int_equal(catalogue_oldest_day(catalogue_rig.c), T0);
    assert_int_equal(alive(1, T0, T0 + S)->n, 1);
    before = catalogue_bytes(catalogue_rig.c);
    assert_ok(catalogue_drop_before(catalogue_rig.c, T0 + 2 * DAY + 5 * S, &dropped));
    assert_int_equal(catalogue_oldest_day(catalogue_rig.c), T0 + 2 * DAY);
    assert_int_equal(catalogue_bytes(catalogue_rig.c), before - dropped);
    assert_true(dropped > 0);
    assert_int_equal(alive(1, T0, T0 + S)->n, 0);
    put(1, 1, T0 + 3 * DAY + WINDOW_NS, &p, 1);
}

static void what_compaction_made_of_imported_segments_is_in(void **state)
{
    struct proc_info p = proc(1, T0, T0 + S, "a");
    struct seg_info info = {.number = 999, .kind = SEG_REST, .window_ns = T0, .n_windows = 2};
    struct catalogue_stats st;
    uint64_t old[2];
    struct manifest_list *l;

    put(1, 1, T0, &p, 1);
    put(1, 1, T0 + WINDOW_NS, &p, 1);
    l = manifest_view(catalogue_rig.m);
    old[0] = manifest_segment(l, 0)->number;
    old[1] = manifest_segment(l, 1)->number;
    manifest_list_release(l);
    catalogue_replaced(catalogue_rig.c, old, 2, &info);
    info.number = 1000;
    old[1] = 12345; /* never seen */
    catalogue_replaced(catalogue_rig.c, old, 2, &info);
    catalogue_close(catalogue_rig.c);
    catalogue_rig_open(true);
    catalogue_stats(catalogue_rig.c, &st);
    assert_int_equal(st.imported + st.failed, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, catalogue_rig_setup, catalogue_rig_teardown)
    const struct CMUnitTest tests[] = {
        T(an_instance_is_found_while_it_lives),
        T(what_is_known_comes_back),
        T(pids_are_told_apart_by_start_and_boot),
        T(a_life_over_several_days_is_one),
        T(those_of_an_earlier_boot_ended_with_it),
        T(what_is_told_later_replaces_and_what_is_older_fills_in),
        T(a_batch_tells_of_an_instance_in_the_order_of_time),
        T(a_day_whose_file_is_gone_is_told_and_made_anew),
        T(old_days_go_whole),
        T(what_compaction_made_of_imported_segments_is_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
