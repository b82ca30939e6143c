/* Trace files of every shape there is, also those no recording at hand has, made by the writer and
 * read back. */
#include "tests/support/t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/source/etl_file.h"
#include "common/clk.h"
#include "common/os.h"
#include "tests/support/etl_session.h"
#include "tests/support/support.h"

static char dir[256], path[300];

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* What a reading gave. */
struct got {
    uint64_t records, early, bytes;
    int64_t last_ns;
    uint64_t by_cpu[1024];
    struct source_stats stats;
    struct source_about about;
};

static void on_raw(void *ctx, const struct raw_event *ev)
{
    struct got *g = ctx;

    if (ev->early) {
        g->early++;
        return;
    }
    assert_int_equal(ev->wall_ns, g->last_ns);
    g->records++;
    g->bytes += ev->payload_n;
    assert_true(ev->cpu < COUNT_OF(g->by_cpu));
    g->by_cpu[ev->cpu]++;
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct got *g = ctx;

    (void)mono_ns;
    assert_true(wall_ns > g->last_ns);
    g->last_ns = wall_ns;
}

static void read_path(struct got *g)
{
    const char *paths[1] = {path};
    struct etl_file_conf conf = {.paths = paths, .n_paths = 1};
    struct source_sink sink = {.ctx = g, .raw = on_raw, .advance = on_advance};
    struct source *src;

    memset(g, 0, sizeof *g);
    g->last_ns = INT64_MIN;
    assert_ok(etl_file_open(&src, &conf, sink, NULL));
    assert_err(src->ops->run(src), ERR_END);
    src->ops->stats(src, &g->stats);
    g->about = src->about;
    src->ops->close(src);
}

/* Records of all CPUs at random; by_cpu gets how many each has. */
static void put_random(struct etl_session *s, uint64_t seed, size_t n, uint64_t *by_cpu)
{
    int64_t now = s->conf.file.zero_ticks;

    for (size_t i = 0; i < n; i++) {
        uint16_t cpu = (uint16_t)(next_random(&seed) % s->conf.file.cpus);

        now += (int64_t)(next_random(&seed) % 1000);
        by_cpu[cpu]++;
        switch (next_random(&seed) % 8) {
        case 0:
            etl_session_process(s, cpu, ETL_START, now, (uint32_t)i * 4, 4, "a.exe");
            break;
        case 1:
            etl_session_thread(s, cpu, ETL_RUNDOWN, now, 4, (uint32_t)i * 4);
            break;
        case 2:
            etl_session_ready(s, cpu, now, 8);
            break;
        case 3:
            etl_session_sample(s, cpu, now, 8, false);
            break;
        case 4:
            etl_session_interval(s, cpu, now, 10000);
            break;
        default:
            etl_session_switch(s, cpu, now, 8, 12);
        }
    }
    etl_session_end(s, now);
}

static void random_sessions_of_every_kind_read_back_whole(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 48; seed++) {
        struct etl_session_conf conf = etl_session_defaults();
        uint64_t by_cpu[1024] = {0};
        struct etl_session s;
        struct got g;

        conf.file.cpus = seed % 5 == 0 ? 300 : 1 + (uint32_t)seed % 9;
        conf.file.pointer_size = seed % 3 ? 8 : 4;
        conf.file.clock = 1 + (uint32_t)seed % 3;
        conf.file.buffer_size = 1024u << seed % 7;
        conf.file.narrow_cpu = seed % 4 == 0 && conf.file.cpus < 256;
        conf.compress = seed % 2;
        conf.crash = seed % 7 == 0;
        etl_session_begin(&s, &conf, path);
        put_random(&s, seed, 5000, by_cpu);
        read_path(&g);
        assert_int_equal(g.records, 5001);
        assert_int_equal(g.records, s.records);
        by_cpu[0]++; /* the log-file header */
        assert_memory_equal(g.by_cpu, by_cpu, sizeof by_cpu);
        assert_int_equal(g.stats.damaged, 0);
        assert_int_equal(g.stats.lost_events + g.stats.lost_buffers, 0);
        assert_int_equal(g.last_ns, g.about.last_wall_ns);
    }
}

static int make_dir(void **state)
{
    (void)state;
    support_temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/shape.etl", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    support_remove_dir(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_sessions_of_every_kind_read_back_whole),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
