#include "agent/etl/etl_walk.h"

#include <stdio.h>

#include <jansson.h>

#include "agent/etl/etl_figures.h"
#include "agent/etl/etl_processes.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/etl_session.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define MS 10000 /* ticks */

static char dir[256], path[512];

/* Process 100 with thread 1000 runs on CPU 0 for 3 ms, 200 with 2000 on CPU 1 for 5 ms; 100 ends.
 */
static void record_it(void)
{
    struct etl_session_conf conf = etl_session_defaults();
    struct etl_session s;
    int64_t t = conf.file.zero_ticks;

    etl_session_begin(&s, &conf, path);
    etl_session_process(&s, 0, ETL_RUNDOWN, t, 100, 4, "a.exe");
    etl_session_thread(&s, 0, ETL_RUNDOWN, t, 100, 1000);
    etl_session_process(&s, 0, ETL_START, t + 1, 200, 100, "b.exe");
    etl_session_thread(&s, 0, ETL_START, t + 1, 200, 2000);
    etl_session_switch(&s, 0, t + 1 * MS, 1000, 0);
    etl_session_switch(&s, 1, t + 1 * MS, 2000, 0);
    etl_session_switch(&s, 0, t + 4 * MS, 0, 1000);
    etl_session_switch(&s, 1, t + 6 * MS, 0, 2000);
    etl_session_thread(&s, 0, ETL_END, t + 7 * MS, 100, 1000);
    etl_session_process(&s, 0, ETL_END, t + 7 * MS, 100, 4, "a.exe");
    etl_session_end(&s, t + 8 * MS);
}

static int set_up(void **state)
{
    support_temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/walk.etl", dir);
    record_it();
    return 0;
}

static int tear_down(void **state)
{
    support_remove_dir(dir);
    return 0;
}

struct seen {
    struct etl_walk *w;
    struct etl_figures *figures;
    uint64_t records, stop_at;
    int64_t last_ns;
    bool damaged; /* times may be beyond what nanoseconds hold */
};

static void on_record(void *ctx, const struct etl_walk_record *r)
{
    struct seen *s = ctx;

    assert_false(r->raw->early);
    assert_true(s->damaged || r->since_ns >= s->last_ns);
    s->last_ns = r->since_ns;
    if (s->figures) {
        etl_figures_record(s->figures, s->w, r);
    }
    if (++s->records == s->stop_at) {
        etl_walk_stop(s->w);
    }
}

static struct etl_walk_conf conf_of(struct seen *s, const char *const *paths)
{
    struct etl_walk_conf conf = {
        .paths = paths, .n_paths = 1, .names = true, .record = on_record, .ctx = s};

    return conf;
}

static void every_record_is_seen_and_charged(void **state)
{
    const char *paths[] = {path};
    struct seen s = {0};
    struct etl_walk_conf conf = conf_of(&s, paths);
    struct instance **all;
    const struct etl_instances_row **lives;
    size_t n;

    assert_ok(etl_figures_create(&s.figures));
    assert_ok(etl_walk_open(&s.w, &conf, NULL));
    assert_ok(etl_walk_run(s.w, NULL));
    assert_int_equal(s.records, s.figures->records);
    assert_int_equal(s.figures->counts[ETL_KINDS_THREAD][36], 4);

    assert_ok(etl_walk_list(s.w, &all, &n));
    for (size_t i = 0; i < n; i++) {
        uint32_t pid = all[i]->info.id.pid;

        assert_int_equal(all[i]->tally.n[COUNTERS_RUN], pid == 100 ? 3000000
                                                        : pid == 200
                                                            ? 5000000
                                                            : all[i]->tally.n[COUNTERS_RUN]);
    }
    mem_free(all);

    assert_ok(etl_instances_sort(s.figures->instances, &lives, &n));
    assert_int_equal(n, 2);
    assert_int_equal(lives[0]->pid, 100);
    assert_string_equal(lives[0]->image, "a.exe");
    assert_false(lives[0]->started);
    assert_true(lives[0]->stopped);
    assert_true(lives[1]->started);
    mem_free(lives);
    etl_figures_destroy(s.figures);
    etl_walk_close(s.w);
}

static void the_visitor_may_stop_it(void **state)
{
    const char *paths[] = {path};
    struct seen s = {.stop_at = 3};
    struct etl_walk_conf conf = conf_of(&s, paths);

    assert_ok(etl_walk_open(&s.w, &conf, NULL));
    assert_ok(etl_walk_run(s.w, NULL));
    assert_int_equal(s.records, 3);
    etl_walk_close(s.w);
}

static void what_cannot_be_opened_is_named(void **state)
{
    char missing[600];
    const char *paths[] = {missing};
    struct seen s = {0};
    struct etl_walk_conf conf = conf_of(&s, paths);
    struct errmsg why;

    (void)snprintf(missing, sizeof missing, "%s/missing.etl", dir);
    assert_err(etl_walk_open(&s.w, &conf, &why), ERR_NOTFOUND);
    assert_non_null(strstr(why.text, "missing.etl"));
}

/* The JSON of a whole walk; false: the file could not be opened. */
static bool summarize(const char *file, struct buf *out)
{
    const char *paths[] = {file};
    struct seen s = {.damaged = true};
    struct etl_walk_conf conf = conf_of(&s, paths);
    struct jsonw j;

    buf_reset(out);
    if (etl_walk_open(&s.w, &conf, NULL)) {
        return false;
    }
    assert_ok(etl_figures_create(&s.figures));
    err_ignore(etl_walk_run(s.w, NULL));
    jsonw_init_buf(&j, out);
    jsonw_object(&j, NULL);
    assert_ok(etl_figures_json(&j, s.figures, s.w, 1));
    jsonw_end(&j);
    etl_figures_destroy(s.figures);
    etl_walk_close(s.w);
    return true;
}

/* Header, clock, records: anything may be wrong, what comes out is still a document. */
static void damaged_recordings_are_summarised_without_harm(void **state)
{
    char damaged[600];
    uint64_t random = 7;
    uint8_t *bytes;
    size_t n, opened = 0;
    struct buf out;

    buf_init(&out, 1 << 20);
    (void)snprintf(damaged, sizeof damaged, "%s/damaged.etl", dir);
    assert_ok(os_read_file(&bytes, &n, path, 1 << 20));
    for (unsigned i = 0; i < 400; i++) {
        uint8_t *copy = mem_dup(bytes, n);
        json_t *parsed;

        assert_non_null(copy);
        for (unsigned k = 0; k < 1 + i % 8; k++) {
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            copy[(random >> 33) % (i % 2 && n > 0x400 ? 0x400 : n)] = (uint8_t)(random >> 24);
        }
        assert_ok(os_write_file(damaged, copy, i % 5 ? n : n - i, false));
        mem_free(copy);
        if (summarize(damaged, &out)) {
            parsed = json_loads(buf_cstr(&out), JSON_ALLOW_NUL, NULL);
            assert_non_null(parsed);
            json_decref(parsed);
            opened++;
        }
    }
    assert_in_range(opened, 100, 400);
    mem_free(bytes);
    buf_fini(&out);
}

static void every_failing_allocation_is_survived(void **state)
{
    const char *paths[] = {path};
    struct seen s = {0};
    struct etl_walk_conf conf = conf_of(&s, paths);
    long live = mem_live();
    enum err e = ERR_NOMEM;

    for (long n = 0; e && n < 500; n++) {
        mem_fail_after(n);
        e = etl_walk_open(&s.w, &conf, NULL);
        mem_fail_after(-1);
        if (e) {
            assert_err(e, ERR_NOMEM);
            assert_int_equal(mem_live(), live);
        }
    }
    assert_ok(e);
    etl_walk_close(s.w);
    assert_int_equal(mem_live(), live);
    for (long n = 0; n < 60; n++) { /* while it runs: less is known, nothing is lost */
        s = (struct seen){0};
        assert_ok(etl_figures_create(&s.figures));
        assert_ok(etl_walk_open(&s.w, &conf, NULL));
        mem_fail_after(n);
        err_ignore(etl_walk_run(s.w, NULL));
        mem_fail_after(-1);
        etl_figures_destroy(s.figures);
        etl_walk_close(s.w);
        assert_int_equal(mem_live(), live);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_seen_and_charged),
        cmocka_unit_test(the_visitor_may_stop_it),
        cmocka_unit_test(what_cannot_be_opened_is_named),
        cmocka_unit_test(damaged_recordings_are_summarised_without_harm),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
