/* What judging costs: the ten ready rules twice, 20 in all, over hosts of 150 processes whose
 * agents send a batch of ten ticks every ten seconds, as 4,000 hosts would. A figure is of one
 * batch: 4,000 hosts at 50 us each are 2 % of a core.
 *
 * Then truer ones, `busy`: in each batch three processes start that live for two seconds, 1,080 an
 * hour, and of the rules one is of images: 25 hosts' images are 1,000 subjects, so that at 4,000
 * hosts the bound of 100,000 is met and what lies beyond is refused. */
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

#define BRIEF 3u /* processes that come and go with a batch */

static bool busy;
static struct life_event events[2 * BRIEF];
static const char of_image[] =
    "  - {name: of-image, of: image, when: 'avg(cpu_percent, 1m) > 95%'}\n";

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

/* The ready rules, and once more under other names; of a busy fleet one less of these and one of
 * images. */
static void rules_read(void)
{
    struct rules_where at;
    struct errmsg why = {""};
    uint8_t *text;
    char *twice, *rules, *half;
    size_t n;

    bench_check(os_read_file(&text, &n, "docs/examples/lab-rules.yaml", RULES_FILE_MAX),
                "docs/examples/lab-rules.yaml");
    twice = malloc(3 * n + sizeof of_image);
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
    if (busy) {
        char *last = NULL;

        for (char *p = strstr(half, "  - name: "); p; p = strstr(p + 8, "  - name: ")) {
            last = p;
        }
        memcpy(last, of_image, sizeof of_image);
        n = (size_t)(last - twice) + sizeof of_image - 1;
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

/* Processes that were born and died between two ticks of the batch. */
static void brief_make(void)
{
    for (unsigned i = 0; i < BRIEF; i++) {
        struct life_event *e = &events[2 * i];

        e[0] = (struct life_event){.kind = LIFE_PROCESS_START,
                                   .wall_ns = wall[3 * i] + CLK_MS,
                                   .mono_ns = mono[3 * i] + CLK_MS,
                                   .info = {.id = {100000 + (uint32_t)step * BRIEF + i, 9},
                                            .name = str_make(image_names[i + 1]),
                                            .have = INFO_PARENT,
                                            .parent_pid = 1000,
                                            .parent_start = 7}};
        e[1] = e[0];
        e[1].kind = LIFE_PROCESS_STOP;
        e[1].wall_ns += 2 * CLK_S;
        e[1].mono_ns += 2 * CLK_S;
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
    brief_make();
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
                                .infos = infos,
                                .n_events = busy ? 2 * BRIEF : 0,
                                .events = events};
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

static void engine_open(void)
{
    struct rules_judge_conf jc = {.env = {.change = on_change, .facts = on_facts, .runs = on_runs}};

    rules_read();
    jc.rules = conf;
    bench_check(rules_judge_create(&judge, &jc), "engine");
    for (unsigned i = 0; i < WARM; i++) {
        round_feed();
    }
}

static void engine_close(void)
{
    rules_judge_destroy(judge);
    rules_conf_free(conf);
}

/* goal: 0, where it is what was found and not what was wanted. */
static void figures(const char *const names[4], double goal_us)
{
    int64_t began_ns = os_thread_cpu_ns();
    struct rules_counts counts;

    pass(NULL);
    bench_figure(names[0],
                 (double)(os_thread_cpu_ns() - began_ns) / 1000 / ((double)n_hosts * COUNTED), "us",
                 goal_us, BENCH_LESS);
    rules_judge_counts(judge, &counts);
    bench_figure(names[1], (double)counts.bytes / (1 << 20), "MiB", 64, BENCH_LESS);
    bench_figure(names[2], (double)counts.subjects, "subjects", 0, BENCH_MORE);
    bench_figure(names[3], (double)counts.refused, "subjects", 0, BENCH_LESS);
}

int main(int argc, char **argv)
{
    static const char *const quiet_names[] = {"rules_batch_us", "rules_memory", "rules_subjects",
                                              "rules_refused"};
    static const char *const busy_names[] = {"busy_batch_us", "busy_memory", "busy_subjects",
                                             "busy_refused"};

    bench_begin(argc, argv, "bench_rules", "20 rules over 4,000 hosts of 150 processes");
    n_hosts = bench_counts() ? 40 : bench_quick() ? 200 : FLEET;
    fleet_make();
    engine_open();
    bench_count("rules_batch", (double)n_hosts * COUNTED, "batch", 150000, pass, NULL);
    if (!bench_counts()) {
        figures(quiet_names, 50);
    }
    engine_close();
    busy = true;
    engine_open();
    bench_count("busy_batch", (double)n_hosts * COUNTED, "batch", 0, pass, NULL);
    if (!bench_counts()) {
        figures(busy_names, 50);
    }
    engine_close();
    return bench_end();
}
