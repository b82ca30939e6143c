/* What judging costs: the ten ready rules twice, 20 in all, over hosts of 150 processes whose
 * agents send a batch of ten ticks every ten seconds, as 4,000 hosts would. A figure is of one
 * batch: 4,000 hosts at 50 us each are 2 % of a core. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/rules/rules_judge.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"
#include "tests/support/draw.h"

#define PROCESSES 150u
#define TICKS     10u
#define FLEET     4000u
#define T0        (INT64_C(1700000000) * CLK_S)
#define WARM      14u /* steps before anything is counted */
#define COUNTED   6u

static unsigned n_hosts = FLEET;
static uint64_t chance = 1;
static struct rules_conf *conf;
static struct rules_judge *judge;
static char host_names[FLEET][16], image_names[40][16];
static struct batch_run runs[PROCESSES];
static struct proc_info infos[PROCESSES];
static int64_t wall[TICKS], mono[TICKS], values[8][PROCESSES * TICKS];
static const uint8_t metrics[8] = {M_CPU_TIME,      M_KERNEL_TIME,  M_WORKING_SET_SIZE,
                                   M_PRIVATE_BYTES, M_THREAD_COUNT, M_READ_BYTES,
                                   M_WRITE_BYTES,   M_HANDLE_COUNT};
static struct batch_column columns[8];
static uint64_t step, changes;

static void on_change(void *ctx, const struct rules_subject *s)
{
    (void)ctx;
    (void)s;
    changes++;
}

static const struct facts *on_facts(void *ctx, const struct uuid *host, const char *name,
                                    struct arena *a)
{
    struct facts *f = arena_alloc(a, sizeof *f);

    (void)ctx;
    (void)host;
    (void)name;
    if (f) {
        f->inventory.memory_bytes = UINT64_C(32) << 30;
        f->inventory.cpu_cores = 12;
    }
    return f;
}

static unsigned on_runs(void *ctx, const struct uuid *host, int64_t when_ns)
{
    (void)ctx;
    (void)host;
    (void)when_ns;
    return 0;
}

/* The ready rules, and once more under other names. */
static void rules_read(void)
{
    struct rules_where at;
    struct errmsg why = {""};
    uint8_t *text;
    char *twice, *rules, *half;
    size_t n;

    bench_check(os_read_file(&text, &n, "docs/examples/lab-rules.yaml", RULES_FILE_MAX),
                "docs/examples/lab-rules.yaml");
    twice = malloc(3 * n + 1);
    rules = twice ? strstr(memcpy(twice, text, n), "rules:\n") : NULL;
    if (!rules) {
        bench_fail("no rules");
    }
    twice[n] = '\0';
    half = twice + n;
    memcpy(twice + n, rules + 7, n - (size_t)(rules + 7 - twice));
    n += n - (size_t)(rules + 7 - twice);
    twice[n] = '\0';
    for (char *p = strstr(half, "- name: "); p; p = strstr(p + 8, "- name: ")) {
        p[8] = (char)(p[8] - 'a' + 'A');
    }
    if (rules_conf_read(&conf, twice, n, &at, &why) != ERR_OK) {
        (void)fprintf(stderr, "%zu:%zu: %s\n", at.line, at.column, why.text);
        bench_fail("the rules are not sound");
    }
}

static void fleet_make(void)
{
    for (unsigned i = 0; i < 40; i++) {
        (void)snprintf(image_names[i], sizeof image_names[i], i ? "image-%u" : "MsMpEng.exe", i);
    }
    for (unsigned h = 0; h < n_hosts; h++) {
        (void)snprintf(host_names[h], sizeof host_names[h], "lab-%u", h);
    }
    for (unsigned p = 0; p < PROCESSES; p++) {
        runs[p] = (struct batch_run){.id = {1000 + p, 7}, .n_ticks = TICKS};
        infos[p] = (struct proc_info){.id = {1000 + p, 7}, .name = str_make(image_names[p % 40])};
        for (unsigned m = 0; m < 8; m++) {
            runs[p].mask |= METRIC_BIT(metrics[m]);
        }
    }
    for (unsigned m = 0; m < 8; m++) {
        columns[m] = (struct batch_column){metrics[m], PROCESSES * TICKS, values[m]};
        for (unsigned i = 0; i < PROCESSES * TICKS; i++) {
            values[m][i] = draw(&chance, 1u << 20);
        }
    }
}

/* A batch of every host. */
static void round_feed(void)
{
    for (unsigned k = 0; k < TICKS; k++) {
        wall[k] = T0 + (int64_t)(step * TICKS + k + 1) * CLK_S;
        mono[k] = wall[k] - T0 + CLK_S;
    }
    for (unsigned p = 0; p < PROCESSES * TICKS; p++) {
        values[0][p] += 3 * CLK_MS;
        values[6][p] += 4096;
    }
    for (unsigned h = 0; h < n_hosts; h++) {
        const struct uuid id = {{(uint8_t)h, (uint8_t)(h >> 8), 1}};
        const struct batch b = {.head = {.stream = 1, .seq = step + 1, .boot = {{1}}},
                                .n_ticks = TICKS,
                                .wall_ns = wall,
                                .mono_ns = mono,
                                .n_runs = PROCESSES,
                                .runs = runs,
                                .n_columns = 8,
                                .columns = columns,
                                .n_infos = step % 30 == 0 ? PROCESSES : 0,
                                .infos = infos};
        const struct rules_input in = {.host = host_names[h],
                                       .id = &id,
                                       .rest = &b,
                                       .rows = &b,
                                       .n_ticks = TICKS,
                                       .received_ns = wall[TICKS - 1] + CLK_S};

        bench_check(rules_judge_feed(judge, &in), "feed");
    }
    step++;
}

static void pass(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < COUNTED; i++) {
        round_feed();
    }
}

int main(int argc, char **argv)
{
    struct rules_judge_conf jc = {.env = {.change = on_change, .facts = on_facts, .runs = on_runs}};
    struct rules_counts counts;
    int64_t began_ns;

    bench_begin(argc, argv, "bench_rules", "20 rules over 4,000 hosts of 150 processes");
    n_hosts = bench_counts() ? 40 : bench_quick() ? 200 : FLEET;
    rules_read();
    fleet_make();
    jc.rules = conf;
    bench_check(rules_judge_create(&judge, &jc), "engine");
    for (unsigned i = 0; i < WARM; i++) {
        round_feed();
    }
    bench_count("rules_batch", (double)n_hosts * COUNTED, "batch", 150000, pass, NULL);
    if (!bench_counts()) {
        began_ns = os_thread_cpu_ns();
        pass(NULL);
        bench_figure("rules_batch_us",
                     (double)(os_thread_cpu_ns() - began_ns) / 1000 / ((double)n_hosts * COUNTED),
                     "us", 50, BENCH_LESS);
        rules_judge_counts(judge, &counts);
        bench_figure("rules_memory", (double)counts.bytes / (1 << 20), "MiB", 64, BENCH_LESS);
        bench_figure("rules_subjects", (double)counts.subjects, "subjects", 0, BENCH_MORE);
        bench_figure("rules_refused", (double)counts.refused, "subjects", 0, BENCH_LESS);
    }
    rules_judge_destroy(judge);
    rules_conf_free(conf);
    return bench_end();
}
