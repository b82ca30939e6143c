/* The monitor over real recordings, against figures that were computed independently. */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/monitor.h"
#include "agent/source/trace/etl_file.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "tests/agent/seen.h"
#include "tests/support/corpus.h"

static json_t *expected_of(const char *name)
{
    char file[128];

    (void)snprintf(file, sizeof file, "expected/%s.json", name);
    return corpus_json(file);
}

static enum err open_etl(void *ctx, struct source **out, struct source_sink sink,
                         struct errmsg *why)
{
    const char *path = ctx;
    struct etl_file_conf conf = {
        .paths = &path, .n_paths = 1, .rebase = true, .now_ns = 1800000000 * CLK_S};

    return etl_file_open(out, &conf, sink, why);
}

static void replay(struct seen *s, const char *name, struct monitor_stats *stats)
{
    char path[1024];
    struct errmsg why = {""};
    struct monitor_conf conf = {.open = open_etl,
                                .period_ns = CLK_S,
                                .processes_max = 4096,
                                .tick = seen_tick,
                                .life = seen_life,
                                .ctx = s};
    struct monitor *m;

    (void)corpus_recording(path, sizeof path, name);
    conf.open_ctx = path;
    assert_ok(monitor_create(&m, &conf, &why));
    assert_err(monitor_run(m), ERR_END);
    monitor_stats(m, stats);
    monitor_destroy(m);
}

/* Samples with the DPC or ISR bit, by the pid whose thread they interrupted (corpus README). */
struct interrupted {
    uint32_t pid;
    int64_t samples;
};

static int64_t plain_samples(const json_t *figures, uint32_t pid, const struct interrupted *i)
{
    char key[16];
    int64_t all;

    (void)snprintf(key, sizeof key, "%u", pid);
    all = json_integer_value(json_object_get(json_object_get(figures, "samples_by_pid"), key));
    for (; i->samples; i++) {
        if (i->pid == pid) {
            all -= i->samples;
        }
    }
    return all;
}

static void check_cpu_times(const char *name, const struct interrupted *interrupted, int64_t plain)
{
    struct seen *s = mem_zalloc(sizeof *s);
    json_t *expected = expected_of(name);
    const json_t *figures = json_object_get(expected, "figures");
    struct monitor_stats stats;
    int64_t sum = 0;

    assert_non_null(s);
    replay(s, name, &stats);
    for (size_t i = 0; i < s->n_totals; i++) {
        const struct seen_process *t = &s->totals[i];
        int64_t of_pid = 0;

        for (size_t k = 0; k < s->n_totals; k++) { /* all instances of the pid */
            of_pid += s->totals[k].id.pid == t->id.pid ? s->totals[k].cpu_ns : 0;
        }
        assert_int_equal(of_pid, plain_samples(figures, t->id.pid, interrupted) * CLK_MS);
        assert_int_equal(t->origin, CPU_ORIGIN_SAMPLES);
        sum += t->cpu_ns;
    }
    assert_int_equal(sum, plain * CLK_MS);
    assert_int_equal(stats.aggregate.samples, plain);
    assert_int_equal(stats.aggregate.unattributed, 0);
    json_decref(expected);
    mem_free(s);
}

static void every_process_has_its_plain_samples(void **state)
{
    static const struct interrupted net[] = {{0, 105},  {4, 1},     {980, 1},  {1104, 1}, {1632, 2},
                                             {3516, 1}, {3676, 23}, {3988, 1}, {0, 0}};
    static const struct interrupted win7[] = {{0, 190},  {436, 1},   {452, 1},  {740, 2},
                                              {816, 1},  {896, 2},   {1004, 1}, {1740, 1},
                                              {1876, 1}, {1980, 80}, {3884, 3}, {0, 0}};

    check_cpu_times("net.4.5.2.x64", net, 79393);
    check_cpu_times("net.4.5.x86-win7", win7, 16582);
}

static size_t count_opcode(const json_t *seen, int opcode)
{
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(seen); i++) {
        n += json_integer_value(json_array_get(seen, i)) == opcode;
    }
    return n;
}

static size_t told(const struct seen *s, int kind, const json_t *proc)
{
    const char *image = json_string_value(json_object_get(proc, "image"));
    size_t n = 0;

    for (size_t i = 0; i < s->n_events; i++) {
        const struct life_event *ev = &s->events[i];

        n += ev->kind == kind &&
             ev->info.id.pid == json_integer_value(json_object_get(proc, "pid")) &&
             ev->info.parent_pid == json_integer_value(json_object_get(proc, "ppid")) &&
             strcmp(s->names[i], image) == 0 &&
             (kind == LIFE_PROCESS_START ||
              (int32_t)ev->info.exit_code ==
                  (int32_t)json_integer_value(json_object_get(proc, "exit_status")));
    }
    return n;
}

static void check_lifecycle(const char *name, const json_t *figures)
{
    struct seen *s = mem_zalloc(sizeof *s);
    const json_t *procs = json_object_get(figures, "processes");
    size_t starts = 0, stops = 0;
    struct monitor_stats stats;

    assert_non_null(s);
    replay(s, name, &stats);
    for (size_t i = 0; i < json_array_size(procs); i++) {
        const json_t *p = json_array_get(procs, i);
        size_t start = count_opcode(json_object_get(p, "seen"), 1);
        size_t stop = count_opcode(json_object_get(p, "seen"), 2);

        assert_int_equal(told(s, LIFE_PROCESS_START, p), start);
        assert_int_equal(told(s, LIFE_PROCESS_STOP, p), stop);
        starts += start;
        stops += stop;
    }
    assert_int_equal(s->n_starts, starts);
    assert_int_equal(s->n_stops, stops);
    assert_int_equal(s->n_images, json_integer_value(json_object_get(
                                      json_object_get(figures, "kernel_counts"), "image_load")));
    mem_free(s);
}

static void each_start_and_end_of_a_recording_is_told_once(void **state)
{
    static const char *const names[] = {"net.4.5.2.x64", "net.4.5.x86-win7", "diaghub.kernel.1"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        json_t *expected = expected_of(names[i]);

        check_lifecycle(names[i], json_object_get(expected, "figures"));
        json_decref(expected);
    }
}

/* The one process of the corpus that two providers tell of: pid 3676 of net.4.5.2.x64. */
static void a_process_of_two_providers_is_told_once_with_what_both_know(void **state)
{
    struct seen *s = mem_zalloc(sizeof *s);
    struct monitor_stats stats;
    const struct life_event *start, *stop;

    assert_non_null(s);
    replay(s, "net.4.5.2.x64", &stats);
    assert_int_equal(s->n_starts, 1);
    assert_int_equal(s->n_stops, 1);
    start = &s->events[0];
    stop = &s->events[1];
    assert_int_equal(start->info.id.pid, 3676);
    assert_true(start->info.have & INFO_COMMAND_LINE_KNOWN); /* classic */
    assert_true(start->info.image.n > start->info.name.n);   /* manifest: a path */
    assert_true(start->info.create_ns <= start->wall_ns);    /* exact */
    assert_true(start->wall_ns - start->info.create_ns < 100 * CLK_MS);
    assert_true(proc_id_eq(stop->info.id, start->info.id));
    assert_true(stop->info.have & INFO_FINAL_TOTALS);
    assert_int_equal(stats.lifecycle.unpaired, 0);
    assert_int_equal(stats.lifecycle.repeated, 0);
    mem_free(s);
}

/* Of each process, how far its columns grew, as a query would add it up. */
struct grown {
    struct {
        struct proc_id id;
        metric_mask ever;
        int64_t growth[METRIC_COLS], last[METRIC_COLS];
    } of[512];
    size_t n;
};

static size_t grown_place(struct grown *g, struct proc_id id)
{
    size_t i = 0;

    while (i < g->n && !proc_id_eq(g->of[i].id, id)) {
        i++;
    }
    assert_true(i < COUNT_OF(g->of));
    g->of[i].id = id;
    g->n = i < g->n ? g->n : i + 1;
    return i;
}

static void grown_tick(void *ctx, const struct sample_tick *tick)
{
    struct grown *g = ctx;

    for (size_t i = 0; i < tick->n_rows; i++) {
        const struct sample_row *row = &tick->rows[i];
        size_t at = grown_place(g, row->info->id);

        for (struct metric_mask_walk each = metric_mask_walk(row->mask);
             metric_mask_walk_next(&each);) {
            int64_t v = row->values[each.id];
            bool known = row->fresh || (g->of[at].ever & METRIC_BIT(each.id));

            g->of[at].growth[each.id] += known ? v - (row->fresh ? 0 : g->of[at].last[each.id]) : 0;
            g->of[at].last[each.id] = v;
        }
        g->of[at].ever |= row->mask;
    }
}

static void grown_life(void *ctx, const struct life_event *ev)
{
    (void)ctx;
    (void)ev;
}

static struct grown *grown_of(const char *name)
{
    struct grown *g = mem_zalloc(sizeof *g);
    char path[1024];
    struct errmsg why = {""};
    struct monitor_conf conf = {.open = open_etl,
                                .period_ns = CLK_S,
                                .processes_max = 4096,
                                .tick = grown_tick,
                                .life = grown_life,
                                .ctx = g};
    struct monitor *m;

    assert_non_null(g);
    (void)corpus_recording(path, sizeof path, name);
    conf.open_ctx = path;
    assert_ok(monitor_create(&m, &conf, &why));
    assert_err(monitor_run(m), ERR_END);
    monitor_destroy(m);
    return g;
}

/* Everybody has the column, and as much of it as `by_pid` says: who is not in it, 0. */
static void assert_grown(const struct grown *g, unsigned metric, const json_t *by_pid)
{
    int64_t all = 0, sum = 0;
    const json_t *v;
    const char *key;

    assert_true(json_is_object(by_pid));
    json_object_foreach((json_t *)(uintptr_t)by_pid, key, v)
    {
        sum += json_integer_value(v);
    }
    for (size_t i = 0; i < g->n; i++) {
        int64_t of_pid = 0;
        char pid[16];

        (void)snprintf(pid, sizeof pid, "%u", g->of[i].id.pid);
        if (!(g->of[i].ever & METRIC_BIT(metric))) {
            fail_msg("pid %u has no %s", g->of[i].id.pid, metric_by_id(metric)->name);
        }
        for (size_t k = 0; k < g->n; k++) { /* all instances of the pid */
            of_pid += g->of[k].id.pid == g->of[i].id.pid ? g->of[k].growth[metric] : 0;
        }
        assert_int_equal(of_pid, json_integer_value(json_object_get(by_pid, pid)));
        all += g->of[i].growth[metric];
    }
    assert_int_equal(all, sum);
}

static void what_events_count_equals_the_figures(void **state)
{
    static const struct {
        unsigned metric;
        const char *part, *key; /* part NULL: the key stands alone */
    } columns[] = {
        {M_DISK_READS, "disk", "reads_by_pid"},
        {M_DISK_WRITES, "disk", "writes_by_pid"},
        {M_DISK_READ_BYTES, "disk", "read_bytes_by_pid"},
        {M_DISK_WRITE_BYTES, "disk", "write_bytes_by_pid"},
        {M_HARD_FAULTS, NULL, "hardfaults_by_pid"},
        {M_HARD_FAULT_BYTES, NULL, "hardfault_bytes_by_pid"},
        {M_IMAGE_LOADS, NULL, "image_loads_by_pid"},
        {M_THREADS_STARTED, "threads", "started_by_pid"},
        {M_TCP_SEND_BYTES, "net_bytes_by_pid", "tcp_send"},
        {M_TCP_RECV_BYTES, "net_bytes_by_pid", "tcp_recv"},
        {M_UDP_SEND_BYTES, "net_bytes_by_pid", "udp_send"},
        {M_UDP_RECV_BYTES, "net_bytes_by_pid", "udp_recv"},
    };
    struct grown *g = grown_of("net.4.5.2.x64");
    json_t *expected = expected_of("net.4.5.2.x64");
    const json_t *figures = json_object_get(expected, "figures");

    for (size_t i = 0; i < COUNT_OF(columns); i++) {
        const json_t *part = columns[i].part ? json_object_get(figures, columns[i].part) : figures;

        assert_grown(g, columns[i].metric, json_object_get(part, columns[i].key));
    }
    json_decref(expected);
    mem_free(g);
}

static void what_is_not_recorded_is_absent(void **state)
{
    static const metric_mask absent =
        METRIC_BIT(M_READY_TIME) | METRIC_BIT(M_WAIT_TIME) | METRIC_BIT(M_INTERRUPT_TIME) |
        METRIC_BIT(M_SYSTEM_CALLS) | METRIC_BIT(M_REGISTRY_OPERATIONS) |
        METRIC_BIT(M_VIRTUAL_ALLOC_BYTES) | METRIC_BIT(M_CONTEXT_SWITCHES) |
        METRIC_BIT(M_KERNEL_TIME) | METRIC_BIT(M_IO_WAIT_TIME);
    struct grown *g = grown_of("net.4.5.2.x64");

    for (size_t i = 0; i < g->n; i++) {
        assert_true((g->of[i].ever & absent) == 0);
    }
    mem_free(g);
}

static size_t grown_pid(const struct grown *g, uint32_t pid)
{
    size_t i = 0;

    while (i < g->n && g->of[i].id.pid != pid) {
        i++;
    }
    assert_true(i < g->n);
    return i;
}

/* As `etl events --provider Process --event 'PerfCtr*'` shows the records. */
static void what_the_system_counted_equals_the_records(void **state)
{
    static const metric_mask sizes = METRIC_BIT(M_VIRTUAL_BYTES) | METRIC_BIT(M_WORKING_SET_SIZE) |
                                     METRIC_BIT(M_HANDLE_COUNT) | METRIC_BIT(M_PAGE_FAULTS);
    struct grown *g = grown_of("net.4.5.2.x64");
    size_t csrss = grown_pid(g, 624), ended = grown_pid(g, 3676), idle = grown_pid(g, 0);

    assert_int_equal(g->of[csrss].last[M_PAGE_FAULTS], 6776);
    assert_int_equal(g->of[csrss].last[M_HANDLE_COUNT], 150);
    assert_int_equal(g->of[csrss].last[M_PEAK_WORKING_SET], 14503936);
    assert_int_equal(g->of[csrss].last[M_VIRTUAL_BYTES], 53604352);
    assert_true((g->of[csrss].ever & sizes) == sizes);
    assert_int_equal(g->of[ended].last[M_PEAK_WORKING_SET], 18219008);
    assert_true((g->of[ended].ever & (METRIC_BIT(M_VIRTUAL_BYTES) | METRIC_BIT(M_PAGE_FAULTS))) ==
                0);
    assert_true((g->of[idle].ever & (sizes | METRIC_BIT(M_PEAK_WORKING_SET))) == 0);
    assert_int_equal(g->of[csrss].last[M_AFFINITY_MASK], 0xff);
    mem_free(g);
}

/* monitor_read_etl, as whoever uses the monitor as a library does it. */
static void a_recording_is_read_by_its_name(void **state)
{
    static struct monitor_row row;
    struct seen *s = mem_zalloc(sizeof *s);
    struct monitor_conf conf = {
        .period_ns = CLK_S, .processes_max = 4096, .tick = seen_tick, .life = seen_life, .ctx = s};
    struct errmsg why = {""};
    struct monitor *m;
    char path[1024];

    (void)corpus_recording(path, sizeof path, "net.4.5.2.x64");
    assert_ok(monitor_create(&m, &conf, &why));
    assert_err(monitor_open(m, &why), ERR_INVALID); /* no source of its own */
    if (monitor_read_etl(m, path, &why)) {
        fail_msg("%s", why.text);
    }
    assert_string_equal(monitor_source(m, &why), "etl");
    assert_ok(monitor_process(m, 3676, &row));
    assert_int_equal(row.row.values[M_CPU_TIME], 5106 * CLK_MS);
    assert_true(str_eq(row.info.name, str_make("Test.x64.exe")));
    assert_err(monitor_set_stacks(m, true, &why), ERR_UNSUPPORTED);
    monitor_destroy(m);
    mem_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_process_has_its_plain_samples),
        cmocka_unit_test(each_start_and_end_of_a_recording_is_told_once),
        cmocka_unit_test(a_process_of_two_providers_is_told_once_with_what_both_know),
        cmocka_unit_test(what_events_count_equals_the_figures),
        cmocka_unit_test(what_is_not_recorded_is_absent),
        cmocka_unit_test(what_the_system_counted_equals_the_records),
        cmocka_unit_test(a_recording_is_read_by_its_name),
    };

    return corpus_dir() ? cmocka_run_group_tests(tests, NULL, NULL) : CORPUS_SKIP;
}
