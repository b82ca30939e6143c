#include "tests/support/t.h"

#include <string.h>

#include "agent/decode/decode.h"
#include "agent/source/windows/snap_rows.h"
#include "tests/support/etwload.h"

#define SECONDS 5

static const struct etwload_conf conf = {.seed = 7,
                                         .processes = 50,
                                         .per_second = 10000,
                                         .begin_wall = INT64_C(1700000000) * CLK_S,
                                         .begin_ns = 3 * CLK_S};

static uint64_t mixed(uint64_t sum, uint64_t v)
{
    return (sum ^ v) * UINT64_C(0x100000001b3);
}

/* What comes until the end, asked for in steps. */
static uint64_t stream_sum(int64_t step_ns, size_t *n)
{
    struct etwload *l = etwload_create(&conf);
    uint64_t sum = 0;
    enum etwload_session session;
    struct raw_event raw;
    int64_t last_ns = 0;

    *n = 0;
    for (int64_t at_ns = 0; at_ns <= conf.begin_ns + SECONDS * CLK_S; at_ns += step_ns) {
        while (etwload_next(l, at_ns, &raw, &session)) {
            assert_true(raw.mono_ns >= last_ns);
            assert_true(raw.mono_ns <= at_ns);
            last_ns = raw.mono_ns;
            sum = mixed(mixed(sum, (uint64_t)raw.mono_ns), session);
            for (size_t i = 0; i < raw.payload_n; i++) {
                sum = mixed(sum, raw.payload[i]);
            }
            (*n)++;
        }
    }
    etwload_destroy(l);
    return sum;
}

static void records_are_the_same_however_they_are_asked_for(void **state)
{
    size_t n, n_other;
    uint64_t sum = stream_sum(CLK_MS, &n);

    assert_int_equal(stream_sum(250 * CLK_MS, &n_other), sum);
    assert_int_equal(n, n_other);
    assert_true(n > SECONDS * conf.per_second + 50 * (1 + ETWLOAD_THREADS));
    assert_true(n < SECONDS * conf.per_second * 102 / 100 + 50 * (1 + ETWLOAD_THREADS));
}

struct seen {
    size_t kinds[EV_KIND_COUNT];
    uint32_t running[ETWLOAD_CPUS];
    bool brief[16]; /* lives, as classic records say */
};

static void look(struct seen *s, const struct event *ev)
{
    s->kinds[ev->kind]++;
    if (ev->kind == EV_CSWITCH) {
        assert_int_equal(ev->u.cswitch.old_tid, s->running[ev->cpu]);
        s->running[ev->cpu] = ev->u.cswitch.new_tid;
    }
    if ((ev->kind == EV_PROC_START || ev->kind == EV_PROC_STOP) && !ev->u.proc.manifest) {
        uint32_t k = (ev->u.proc.info.id.pid - ETWLOAD_BRIEF_PID) / 4;

        assert_true(k < COUNT_OF(s->brief));
        assert_int_equal(s->brief[k], ev->kind == EV_PROC_STOP);
        s->brief[k] = ev->kind == EV_PROC_START;
    }
}

static void check_table(struct etwload_tables *t, int64_t mono_ns, const struct seen *s)
{
    size_t n = 0, brief = 0, expected = 0;
    struct snap_walk w;
    struct snap_row row;
    struct buf answer;

    buf_init(&answer, 1 << 20);
    etwload_table(t, mono_ns, &answer);
    snap_rows_init(&w, answer.p, answer.n, ETWLOAD_ADDRESS, false);
    while (snap_rows_next(&w, &row) == ERR_OK) {
        uint32_t pid = row.info.id.pid;

        n++;
        brief += pid >= ETWLOAD_BRIEF_PID && s->brief[(pid - ETWLOAD_BRIEF_PID) / 4];
        assert_true(row.info.name.n > 0);
    }
    for (size_t i = 0; i < COUNT_OF(s->brief); i++) {
        expected += s->brief[i];
    }
    assert_int_equal(brief, expected);
    assert_int_equal(n, conf.processes + expected);
    buf_fini(&answer);
}

static void records_and_tables_tell_of_the_same_host(void **state)
{
    struct etwload *l = etwload_create(&conf);
    struct etwload_tables *t = etwload_tables_create(&conf, false);
    struct seen seen = {.kinds = {0}};
    enum etwload_session session;
    struct decode_counts counts;
    struct raw_event raw;
    struct decode *d;

    assert_ok(decode_create(&d));
    for (int64_t ns = conf.begin_ns; ns < conf.begin_ns + SECONDS * CLK_S; ns += 70 * CLK_MS) {
        while (etwload_next(l, ns, &raw, &session)) {
            struct event ev;

            assert_ok(decode_event(d, &raw, &ev));
            assert_int_equal(session == ETWLOAD_MANIFEST, raw.form == RAW_MANIFEST);
            look(&seen, &ev);
        }
        check_table(t, ns, &seen);
    }
    decode_stats(d, &counts);
    assert_int_equal(counts.in, counts.decoded);
    for (size_t kind = 0; kind < EV_KIND_COUNT; kind++) {
        bool expected = kind == EV_PROC_START || kind == EV_PROC_STOP || kind == EV_PROC_FOUND ||
                        kind == EV_THREAD_START || kind == EV_THREAD_STOP ||
                        kind == EV_THREAD_FOUND || kind == EV_IMAGE_LOAD ||
                        kind == EV_IMAGE_UNLOAD || kind == EV_CSWITCH || kind == EV_DISK_INIT ||
                        kind == EV_DISK_READ || kind == EV_DISK_WRITE || kind == EV_HARD_FAULT;

        assert_int_equal(seen.kinds[kind] > 0, expected);
    }
    decode_destroy(d);
    etwload_tables_destroy(t);
    etwload_destroy(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_the_same_however_they_are_asked_for),
        cmocka_unit_test(records_and_tables_tell_of_the_same_host),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
