/* procfleet-collector store stats and export, on segments made as sealing makes them. */
#include "collector/cmd/collector_cmd_store.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collector/store/rollup/tier.h"
#include "collector/store/segment/raw.h"
#include "collector/store/segment/seg_write.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/conf/opt_program.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/fleetgen.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define T0      (INT64_C(1767225600) * CLK_S)
#define W       (300 * CLK_S)
#define TICK    (10 * CLK_S)
#define TICKS   30u
#define HOSTS   2u
#define WINDOWS 3u

struct rig {
    char dir[256];
    struct manifest *m;
    struct packer *packer;
    struct arena memory;
    struct fleetgen *gens[HOSTS];
    struct batch *batches[HOSTS][WINDOWS];
    char out[256]; /* file that standard output goes to */
};

/* Both hosts' next window, decoded as it came over the wire. */
static void make_window(struct rig *g, struct wire_encoder *enc, size_t w)
{
    for (size_t h = 0; h < HOSTS; h++) {
        struct buf b;

        buf_init(&b, WIRE_BATCH_BYTES_MAX);
        assert_ok(wire_batch_encode(enc, &b, fleetgen_batch(g->gens[h], TICKS)));
        assert_ok(wire_batch_decode(&g->batches[h][w], b.p, b.n));
        buf_fini(&b);
    }
}

static void write_host(struct rig *g, struct seg_writer *w, unsigned kind, size_t h, size_t i,
                       uint64_t *values)
{
    struct window_batch one = {.batch = g->batches[h][i]};
    const struct batch *b = g->batches[h][i];
    struct host_window hw;
    struct tier t;
    uint32_t index;

    assert_ok(window_join(&hw, &g->memory, &one, 1, fleetgen_host_name(g->gens[h])));
    assert_ok(seg_writer_host(w, &index, &b->head.host, hw.name, 0, b->wall_ns[0],
                              b->wall_ns[b->n_ticks - 1]));
    if (kind == SEG_RAW) {
        uint64_t ignored = 0;

        assert_ok(raw_value_write(w, g->packer, index, 0, &hw, values));
        assert_ok(tier_make(&t, &g->memory, &hw, TIER_WINDOW_NS, false, NULL));
        assert_ok(tier_write(w, g->packer, index, 0, &t, &ignored));
    } else {
        assert_ok(tier_make(&t, &g->memory, &hw, TIER_1MIN_NS, true, NULL));
        assert_ok(tier_write(w, g->packer, index, 0, &t, values));
    }
}

static void write_segment(struct rig *g, unsigned kind, size_t i)
{
    int64_t start = T0 + (int64_t)i * W;
    struct seg_info info = {.number = manifest_number(g->m),
                            .kind = (uint8_t)kind,
                            .n_windows = 1,
                            .window_ns = start,
                            .span_ns = W};
    char path[300];
    struct seg_writer *w;
    uint64_t values = 0;

    snprintf(path, sizeof path, "%s/segments", g->dir);
    assert_ok(seg_writer_create(&w, fio_unsynced(), path, &info, &start, NULL));
    for (size_t h = 0; h < HOSTS; h++) {
        write_host(g, w, kind, h, i, &values);
    }
    assert_ok(seg_writer_finish(w, values, &info, NULL));
    assert_ok(manifest_change(g->m, &info, 1, NULL, 0, NULL));
    manifest_publish(g->m);
}

static void rig_init(struct rig *g)
{
    struct manifest_conf conf = {.fio = fio_unsynced()};
    struct wire_encoder *enc;
    char path[300];

    memset(g, 0, sizeof *g);
    arena_init(&g->memory, (size_t)1 << 30);
    support_temp_dir(g->dir, sizeof g->dir);
    snprintf(path, sizeof path, "%s/segments", g->dir);
    assert_ok(os_mkdirs(path, true));
    snprintf(g->out, sizeof g->out, "%.240s/out", g->dir);
    conf.dir = path;
    assert_ok(manifest_open(&g->m, &conf, NULL));
    assert_ok(packer_create(&g->packer));
    assert_ok(wire_batch_encoder_create(&enc));
    for (size_t h = 0; h < HOSTS; h++) {
        struct fleetgen_conf gen = {.seed = 60 + h,
                                    .processes = 8,
                                    .starts_per_hour = 600,
                                    .tick_ns = TICK,
                                    .begin_ns = T0};

        g->gens[h] = fleetgen_create(&gen);
    }
    for (size_t i = 0; i < WINDOWS; i++) {
        make_window(g, enc, i);
        write_segment(g, SEG_RAW, i);
        write_segment(g, SEG_1MIN, i);
    }
    wire_batch_encoder_destroy(enc);
}

static void rig_fini(struct rig *g)
{
    for (size_t h = 0; h < HOSTS; h++) {
        for (size_t i = 0; i < WINDOWS; i++) {
            wire_batch_free(g->batches[h][i]);
        }
        fleetgen_destroy(g->gens[h]);
    }
    packer_destroy(g->packer);
    manifest_close(g->m);
    arena_fini(&g->memory);
    support_remove_dir(g->dir);
}

static const struct opt_command *const commands[] = {&cmd_store_options};
static const struct opt_command top = {
    .program = "procfleet-collector", .subs = commands, .n_subs = COUNT_OF(commands)};
static const struct opt_program program = {.top = &top, .fail = collector_cmd_complain};

/* Runs "store WORD…" for the rig's directory; what it prints, mem_free. */
static char *store(struct rig *g, int *code, const char *words)
{
    char line[256], set[300], *argv[24] = {NULL}, *save = NULL;
    int argc = 0, out = dup(1), file = open(g->out, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    uint8_t *text;
    size_t n;

    snprintf(line, sizeof line, "procfleet-collector store %s", words);
    snprintf(set, sizeof set, "data_dir=%s", g->dir);
    for (char *p = strtok_r(line, " ", &save); p; p = strtok_r(NULL, " ", &save)) {
        argv[argc++] = p;
    }
    argv[argc++] = (char[]){"--set"};
    argv[argc++] = set;
    fflush(stdout);
    assert_true(file >= 0 && out >= 0 && dup2(file, 1) == 1);
    *code = opt_program_main(&program, argc, argv);
    fflush(stdout);
    assert_true(dup2(out, 1) == 1);
    close(out);
    close(file);
    assert_ok(os_read_file(&text, &n, g->out, 64u << 20));
    return (char *)text;
}

static size_t lines(const char *text)
{
    size_t n = 0;

    for (; *text; text++) {
        n += *text == '\n';
    }
    return n;
}

/* Samples (a process at a tick) and the sum of a metric over them. */
static size_t samples(const struct rig *g, int64_t since_ns, int64_t until_ns, unsigned metric,
                      int64_t *sum)
{
    size_t n = 0;

    *sum = 0;
    for (size_t i = 0; i < HOSTS * WINDOWS; i++) {
        const struct batch *b = g->batches[i / WINDOWS][i % WINDOWS];
        size_t at = 0, c = 0;

        while (b->columns[c].metric != metric) {
            c++;
        }
        for (size_t r = 0; r < b->n_runs; r++) {
            for (uint32_t k = 0; k < b->runs[r].n_ticks; k++, at++) {
                int64_t when_ns = b->wall_ns[b->runs[r].first_tick + k];

                if (when_ns >= since_ns && when_ns < until_ns) {
                    *sum += b->columns[c].values[at];
                    n++;
                }
            }
        }
    }
    return n;
}

/* The i-th field of a line of CSV without quotes. */
static const char *field(const char *line, size_t i)
{
    for (; i > 0; i--) {
        line = strchr(line, ',') + 1;
    }
    return line;
}

static void every_sample_is_exported_with_its_name(void **state)
{
    struct rig g;
    int64_t want, sum = 0;
    char *text, *line;
    size_t n;
    int code;

    rig_init(&g);
    n = samples(&g, INT64_MIN, INT64_MAX, M_CPU_TIME, &want);
    text = store(&g, &code, "export --metric cpu_time");
    assert_int_equal(code, COLLECTOR_CMD_DONE);
    assert_memory_equal(text, "host,host_id,time,pid,start,name,user,cpu_time", 46);
    assert_int_equal(lines(text), n + 1);
    for (line = strchr(text, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
        assert_memory_equal(line, "\"gen-6", 6);
        assert_true(*field(line, 5) == '"'); /* a name */
        sum += strtoll(field(line, 7), NULL, 10);
    }
    assert_true(sum == want);
    mem_free(text);
    rig_fini(&g);
}

static void hosts_and_times_are_chosen(void **state)
{
    struct rig g;
    int64_t ignored, mid = T0 + W + W / 2;
    char *text;
    size_t late;
    int code;

    rig_init(&g);
    late = samples(&g, mid, INT64_MAX, M_CPU_TIME, &ignored);
    text = store(&g, &code, "export --since 2026-01-01T00:07:30Z --format jsonl");
    assert_int_equal(lines(text), late);
    assert_memory_equal(text, "{\"host\":\"gen-60\"", 16);
    mem_free(text);
    text = store(&g, &code, "export --host gen-61 --until 2026-01-01T00:07:30Z");
    assert_null(strstr(text, "gen-60"));
    assert_non_null(strstr(text, "gen-61"));
    mem_free(text);
    text = store(&g, &code, "export --host gen-6? --since 2027-01-01T00:00:00Z");
    assert_int_equal(lines(text), 1); /* the columns */
    assert_int_equal(code, COLLECTOR_CMD_DONE);
    mem_free(text);
    rig_fini(&g);
}

static void tiers_are_exported_point_by_point(void **state)
{
    struct rig g;
    int64_t want, count = 0, ignored;
    char *text, *line;
    int code;

    rig_init(&g);
    want = (int64_t)samples(&g, INT64_MIN, INT64_MAX, M_THREAD_COUNT, &ignored);
    text = store(&g, &code, "export --tier 1min --metric thread_count");
    assert_int_equal(code, COLLECTOR_CMD_DONE);
    for (line = strchr(text, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
        count += strtoll(field(line, 10), NULL, 10);
    }
    assert_true(count == want); /* folded or not, every sample is in one point */
    assert_non_null(strstr(text, ",60000000000,"));
    mem_free(text);
    text = store(&g, &code, "export --tier 1h");
    assert_int_equal(lines(text), 1);
    mem_free(text);
    rig_fini(&g);
}

/* What all processes used inside the windows, from their beginning on. */
static int64_t used(const struct rig *g, unsigned metric)
{
    int64_t sum = 0;

    for (size_t i = 0; i < HOSTS * WINDOWS; i++) {
        const struct batch *b = g->batches[i / WINDOWS][i % WINDOWS];
        const int64_t *values;
        size_t c = 0;

        while (b->columns[c].metric != metric) {
            c++;
        }
        values = b->columns[c].values;
        for (size_t r = 0; r < b->n_runs; values += b->runs[r++].n_ticks) {
            sum += values[b->runs[r].n_ticks - 1] - (b->runs[r].fresh ? 0 : values[0]);
        }
    }
    return sum;
}

static void the_growth_of_all_rows_of_a_tier_is_what_was_used(void **state)
{
    struct rig g;
    int64_t sum = 0;
    size_t begun = 0;
    char *text, *line;
    int code;

    rig_init(&g);
    for (size_t i = 0; i < HOSTS * WINDOWS; i++) {
        const struct batch *b = g.batches[i / WINDOWS][i % WINDOWS];

        for (size_t r = 0; r < b->n_runs; r++) {
            begun += b->runs[r].fresh;
        }
    }
    assert_true(begun > 10);
    text = store(&g, &code, "export --tier 1min --metric cpu_time");
    assert_int_equal(code, COLLECTOR_CMD_DONE);
    for (line = strchr(text, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
        sum += strtoll(field(line, 16), NULL, 10);
    }
    assert_true(sum == used(&g, M_CPU_TIME));
    mem_free(text);
    rig_fini(&g);
}

static void damage_is_told_and_the_rest_is_exported(void **state)
{
    struct manifest_list *l;
    struct rig g;
    char path[400], name[SEG_NAME_MAX], *text;
    int64_t ignored;
    uint8_t *p;
    size_t n, all;
    int code;

    rig_init(&g);
    l = manifest_view(g.m);
    seg_name(name, manifest_segment(l, 0));
    manifest_list_release(l);
    snprintf(path, sizeof path, "%s/segments/%s", g.dir, name);
    assert_ok(os_read_file(&p, &n, path, 64u << 20));
    p[200] ^= 0x55; /* in the first value, of one host */
    assert_ok(os_write_file(path, p, n, false));
    mem_free(p);
    all = samples(&g, INT64_MIN, INT64_MAX, M_CPU_TIME, &ignored);
    text = store(&g, &code, "export --metric cpu_time");
    assert_int_equal(code, COLLECTOR_CMD_FAILED);
    assert_true(lines(text) < all + 1 && lines(text) > all / 2);
    mem_free(text);
    rig_fini(&g);
}

static void stats_count_files_bytes_and_values(void **state)
{
    struct rig g;
    struct manifest_stats st;
    char want[128], *text;
    int code;

    rig_init(&g);
    manifest_stats(g.m, &st);
    assert_true(st.values[SEG_RAW] > 0);
    text = store(&g, &code, "stats --format json");
    assert_int_equal(code, COLLECTOR_CMD_DONE);
    snprintf(want, sizeof want, "{\"kind\":\"raw\",\"files\":3,\"bytes\":%llu,",
             (unsigned long long)st.bytes[SEG_RAW]);
    assert_non_null(strstr(text, want));
    snprintf(want, sizeof want, "\"values\":%llu,\"oldest_time\":\"%lld\"",
             (unsigned long long)st.values[SEG_1MIN], (long long)T0);
    assert_non_null(strstr(text, want));
    mem_free(text);
    text = store(&g, &code, "stats --hosts --format csv");
    assert_int_equal(code, COLLECTOR_CMD_DONE);
    assert_int_equal(lines(text), HOSTS + 1);
    for (const char *line = strchr(text, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
        int64_t all = strtoll(field(line, 2), NULL, 10), raw = strtoll(field(line, 3), NULL, 10);

        assert_true(raw > 0 && all > raw &&
                    all < (int64_t)(st.bytes[SEG_RAW] + st.bytes[SEG_1MIN]));
        assert_true(strtoll(field(line, 9), NULL, 10) / CLK_S == T0 / CLK_S);
    }
    mem_free(text);
    text = store(&g, &code,
                 "stats --set retention.raw.bytes=16MiB --set retention.total_bytes=1GiB "
                 "--format csv");
    assert_non_null(strstr(text, ",16777216,"));
    assert_non_null(strstr(text, "1073741824"));
    mem_free(text);
    text = store(&g, &code, "stats");
    assert_non_null(strstr(text, "BYTES/VALUE"));
    assert_non_null(strstr(text, "2026-01-01T00:00"));
    mem_free(text);
    rig_fini(&g);
}

static void wrong_usage_is_told(void **state)
{
    static const char *const wrong[] = {"",
                                        "stat",
                                        "stats -f x",
                                        "export --tier raw2",
                                        "export --since never",
                                        "export --metric pid"};
    struct rig g;

    rig_init(&g);
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        int code;

        mem_free(store(&g, &code, wrong[i]));
        assert_int_equal(code, COLLECTOR_CMD_USAGE);
    }
    rig_fini(&g);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_is_exported_with_its_name),
        cmocka_unit_test(hosts_and_times_are_chosen),
        cmocka_unit_test(tiers_are_exported_point_by_point),
        cmocka_unit_test(the_growth_of_all_rows_of_a_tier_is_what_was_used),
        cmocka_unit_test(damage_is_told_and_the_rest_is_exported),
        cmocka_unit_test(stats_count_files_bytes_and_values),
        cmocka_unit_test(wrong_usage_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
