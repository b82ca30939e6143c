/* Every question to a host that starts 20,000 processes in five minutes, most of them shorter than
 * its samples: it is answered, and what that takes follows the answer, not all who ever lived nor
 * how much is told of each. */
#include "tests/support/t.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/os/os.h"
#include "tests/collector/query/ask.h"

#define STEADY    150u /* processes that live all the time */
#define STARTS    667u /* in each */
#define SHORT_PID 1000u
#define LINE_MAX  3072u
#define MIB       ((size_t)1 << 20)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool measured = false; /* they keep what was freed */
#define BATCHES 5u                  /* of ten seconds */
#else
static const bool measured = true;
#define BATCHES 30u
#endif

static const uint8_t metrics[] = {
    M_CPU_TIME, M_WORKING_SET_SIZE, M_THREAD_COUNT, M_PRIVATE_BYTES, M_HANDLE_COUNT,
    M_PRIORITY, M_CONTEXT_SWITCHES, M_PAGE_FAULTS,  M_READ_BYTES,    M_WRITE_BYTES};

#define N_METRICS COUNT_OF(metrics)

static size_t line_bytes;  /* of the command line of a short one */
static unsigned pages_max; /* of an answer that are asked for */

/* As long as is asked for, and no other's. */
static void put_line(char *line, unsigned n)
{
    size_t at = (size_t)snprintf(line, LINE_MAX, "/usr/lib/tools/worker --job %u", n);
    uint64_t x = n;

    while (at < line_bytes) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        at += (size_t)snprintf(line + at, LINE_MAX - at, " --input=/srv/build/objects/%04x",
                               (unsigned)(x >> 48));
    }
}

/* One of the short ones: begins at `second`, is gone in half of one, and has a row if `seen`. */
static void put_short(struct lab *l, unsigned n, double second, bool seen, unsigned tick)
{
    static char lines[STARTS][LINE_MAX];
    uint32_t pid = SHORT_PID + n;
    char *line = lines[n % STARTS];
    struct life_event ev = {.kind = LIFE_PROCESS_START, .wall_ns = LAB_NS(second)};
    int64_t values[N_METRICS] = {0};

    put_line(line, n);
    ev.mono_ns = (int64_t)(second * 1e9) + 5;
    ev.info = (struct proc_info){.id = {pid, pid},
                                 .have = INFO_PARENT | INFO_CREATE_TIME,
                                 .parent_pid = 1,
                                 .create_ns = ev.wall_ns,
                                 .name = str_make("worker"),
                                 .image = str_make("/usr/lib/tools/worker"),
                                 .command_line = str_make(line),
                                 .user = str_make("build"),
                                 .origin = ORIGIN_START};
    lab_event(l, &ev);
    lab_info(l, &ev.info);
    ev.kind = LIFE_PROCESS_STOP;
    ev.wall_ns += CLK_S / 2;
    ev.mono_ns += CLK_S / 2;
    ev.info.have |= INFO_EXITED | INFO_EXIT_TIME;
    ev.info.exit_ns = ev.wall_ns;
    lab_event(l, &ev);
    if (seen) {
        lab_run(l, pid, pid, tick, 1, true, N_METRICS, metrics, values);
    }
}

/* Batch b: seconds 100 + 10 b and nine more. */
static void put_batch(struct lab *l, unsigned b)
{
    unsigned first = 100 + 10 * b;
    int64_t values[N_METRICS * 10];

    lab_begin(l, 1, 7, b + 1);
    for (unsigned i = 0; i < 10; i++) {
        lab_tick(l, first + i);
    }
    for (uint32_t pid = 1; pid <= STEADY; pid++) {
        for (unsigned i = 0; i < N_METRICS * 10; i++) {
            values[i] = (int64_t)(b * 10 + i % 10) * pid * 1000000;
        }
        lab_run(l, pid, pid, 0, 10, false, N_METRICS, metrics, values);
        lab_name(l, pid, "steady");
    }
    for (unsigned i = 0; i < STARTS; i++) {
        unsigned tick = i * 10 / STARTS;

        put_short(l, b * STARTS + i, first + tick - 0.25, i % 2, tick);
    }
    lab_received(l, first + 10);
    lab_put(l);
}

static int terse(void **state)
{
    line_bytes = 170;
    pages_max = 100;
    return 0;
}

static int wordy(void **state)
{
    line_bytes = 3000;
    pages_max = 5;
    return 0;
}

/* Sealed, whoever ended is known; the head forgets the dead when they are too many. */
static bool all_known;

static int seal_all(void **state)
{
    all_known = true;
    return lab_seal_all(state);
}

/* -- what an answer takes -- */

static size_t status_kib(const char *key)
{
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    size_t kib = 0;

    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, strlen(key)) == 0) {
            kib = strtoul(line + strlen(key), NULL, 10);
        }
    }
    if (f) {
        fclose(f);
    }
    return kib;
}

/* From here on the peak is counted; gives what is held now. */
static size_t peak_begin(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");

    (void)malloc_trim(0);
    if (f) {
        fputs("5", f);
        fclose(f);
    }
    return status_kib("VmRSS:") << 10;
}

/* Asks for the pages and prints what they took; false: failed, other rows, or more memory than
 * that in one of them. */
static bool answered(struct lab *l, const char *what, enum query_kind kind, struct wire_query q,
                     size_t rows, size_t mib)
{
    struct query_env env = {.view = lab_view(l), .now_ns = LAB_NS(1000)};
    uint8_t cursor[WIRE_CURSOR_MAX];
    struct errmsg why = {""};
    size_t n = 0, most = 0;
    unsigned pages = 0;
    bool more = true;
    double ms = 0;

    while (more && pages < pages_max) {
        struct query_answer a;
        size_t before = peak_begin(), peak;
        int64_t begin = os_mono_ns();
        enum err e = query_run(&a, kind, &env, &q, &why);

        ms += (double)(os_mono_ns() - begin) / 1e6;
        peak = status_kib("VmHWM:") << 10;
        most = peak > before + most ? peak - before : most;
        n += a.data.n_rows + a.data.n_events;
        more = !e && a.more && n < rows;
        memcpy(cursor, a.cursor, a.cursor_n);
        q.cursor = (struct str){(const char *)cursor, a.cursor_n};
        query_answer_fini(&a);
        pages++;
    }
    printf("%-22s %6zu rows %3u pages %8.1f ms %6.1f MiB %s\n", what, n, pages, ms,
           (double)most / (double)MIB, why.text);
    return (more ? pages == pages_max && n < rows : n == rows) && !why.text[0] &&
           (!measured || most <= mib * MIB);
}

static struct wire_query all_metrics(void)
{
    struct wire_query q = {0};

    for (const struct metric *m = metric_next(NULL); m; m = metric_next(m)) {
        if ((m->column || m->id == M_CPU_PERCENT) && q.n_metrics < WIRE_METRICS_MAX) {
            q.metrics[q.n_metrics++] = m->id;
        }
    }
    return q;
}

/* Questions that name those who ended. */
static unsigned ask_of_the_dead(struct lab *l)
{
    struct wire_query q = {.exited = true};
    unsigned failed = !answered(l, "ps --all", QUERY_PROCESSES, q, STEADY + BATCHES * STARTS, 32);

    q.limit = 10;
    failed += !answered(l, "ps --all -n 10", QUERY_PROCESSES, q, 10, 32);
    q = (struct wire_query){.group_by = WIRE_GROUP_IMAGE};
    failed += !answered(l, "top --group-by image", QUERY_TOP, q, 2, 32);
    q = (struct wire_query){.name = str_make("worker"), .step_ns = 60 * CLK_S};
    failed += !answered(l, "history --step", QUERY_HISTORY, q, BATCHES * (STARTS / 2), 32);
    return failed;
}

static void every_question_to_a_busy_host_is_answered(void **state)
{
    struct lab *l = lab_open(NULL, NULL);
    struct wire_query ps = all_metrics(), q = {0};
    unsigned failed = 0;

    for (unsigned b = 0; b < BATCHES; b++) {
        put_batch(l, b);
    }
    failed += !answered(l, "ps", QUERY_PROCESSES, ps, STEADY, 32);
    ps.name = str_make("steady");
    failed += !answered(l, "ps --name", QUERY_PROCESSES, ps, STEADY, 32);
    failed += !answered(l, "tree", QUERY_TREE, q, STEADY, 32);
    failed += !answered(l, "top", QUERY_TOP, q, 10, 32);
    q.name = str_make("steady");
    failed += !answered(l, "top --name", QUERY_TOP, q, 10, 32);
    q = (struct wire_query){.group_by = WIRE_GROUP_TREE};
    failed += !answered(l, "top --group-by tree", QUERY_TOP, q, 10, 32);
    q = (struct wire_query){0};
    failed += !answered(l, "events", QUERY_EVENTS, q, 2 * BATCHES * STARTS, 32);
    q = (struct wire_query){.has_pid = true, .pid = 7};
    failed += !answered(l, "history --pid", QUERY_HISTORY, q, 10 * BATCHES, 32);
    q = (struct wire_query){.name = str_make("steady")};
    failed += !answered(l, "history --name", QUERY_HISTORY, q, 10 * BATCHES * STEADY, 32);
    failed += all_known ? ask_of_the_dead(l) : 0;
    lab_close(l);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_question_to_a_busy_host_is_answered, terse),
        cmocka_unit_test_setup(every_question_to_a_busy_host_is_answered, wordy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ||
           cmocka_run_group_tests_name("sealed", tests, seal_all, NULL);
}
