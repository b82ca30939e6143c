/* What Series takes from sums of groups equals, byte by byte, what it adds up process by process:
 * over hosts whose batches are lost, come late, rename processes, step counters back, leave out
 * metrics or reboot; after compaction, a start, and when retention dropped the oldest rows. */
#include "tests/support/t.h"

#include <stdio.h>

#include "collector/query/query.h"
#include "common/base/mem.h"
#include "common/wire/wire_series.h"
#include "tests/support/draw.h"
#include "tests/support/fio_fault.h"
#include "tests/support/store_rig.h"

#define S       INT64_C(1000000000)
#define HOSTS   2u
#define WINDOWS 30u
#define TICKS   10u /* of ten seconds, in a batch */
#define PER     3u  /* batches in a window */

struct site {
    struct rig rig;
    uint64_t d;
    bool wild; /* something happens to the hosts */
    struct fleetgen *gen[HOSTS];
    struct host {
        uint32_t renamed, stepped; /* pids; 0: none */
        int64_t step;
        uint8_t reboots;
        struct rig_batch late;
        bool has_late;
    } at[HOSTS];
    uint64_t held; /* windows with sums that hold, as seen */
};

/* -- batches to which something happened -- */

struct altered {
    struct batch b;
    struct batch_run *runs;
    struct batch_column *columns;
    int64_t *values;
    struct proc_info *infos;
};

static struct altered alter(const struct batch *b)
{
    struct altered a = {.b = *b};
    size_t n = 0;

    a.runs = mem_array(b->n_runs, sizeof *a.runs);
    a.columns = mem_array(b->n_columns, sizeof *a.columns);
    a.values = NULL;
    a.infos = mem_array(b->n_infos + 1, sizeof *a.infos);
    memcpy(a.runs, b->runs, b->n_runs * sizeof *a.runs);
    memcpy(a.columns, b->columns, b->n_columns * sizeof *a.columns);
    memcpy(a.infos, b->infos, b->n_infos * sizeof *a.infos);
    for (size_t r = 0; r < b->n_runs; r++) {
        n += b->runs[r].n_ticks;
    }
    a.values = mem_array(n, sizeof *a.values);
    assert_true(a.runs && a.columns && a.infos && a.values);
    a.b.runs = a.runs;
    a.b.columns = a.columns;
    a.b.infos = a.infos;
    return a;
}

static void altered_fini(struct altered *a)
{
    mem_free(a->runs);
    mem_free(a->columns);
    mem_free(a->values);
    mem_free(a->infos);
}

/* The counters' first column counts less from now on, for one process. */
static void step_back(struct altered *a, uint32_t pid, int64_t by)
{
    size_t n = 0;

    for (size_t r = 0; r < a->b.n_runs; r++) {
        for (uint32_t k = 0; k < a->runs[r].n_ticks; k++, n++) {
            int64_t v = a->columns[0].values[n];

            a->values[n] = a->runs[r].id.pid == pid && v > by ? v - by : v;
        }
    }
    a->columns[0].values = a->values;
}

/* One metric is not in the batch. */
static void leave_out(struct altered *a, size_t column)
{
    metric_mask bit = METRIC_BIT(a->columns[column].metric);

    for (size_t r = 0; r < a->b.n_runs; r++) {
        a->runs[r].mask &= ~bit;
    }
    a->b.n_columns--;
    memmove(&a->columns[column], &a->columns[column + 1],
            (a->b.n_columns - column) * sizeof *a->columns);
}

static void rename_one(struct altered *a, uint32_t pid)
{
    for (size_t i = 0; i < a->b.n_infos; i++) {
        if (a->infos[i].id.pid == pid) {
            a->infos[i].name = str_make("renamed");
        }
    }
    for (size_t r = 0; r < a->b.n_runs; r++) {
        if (a->runs[r].id.pid == pid) {
            a->infos[a->b.n_infos++] =
                (struct proc_info){.id = a->runs[r].id, .name = str_make("renamed")};
            return;
        }
    }
}

static void encode(struct rig_batch *out, const struct batch *b, const char *name)
{
    struct wire_encoder *enc;
    struct buf bytes;

    buf_init(&bytes, WIRE_BATCH_BYTES_MAX);
    assert_ok(wire_batch_encoder_create(&enc));
    assert_ok(wire_batch_encode(enc, &bytes, b));
    wire_batch_encoder_destroy(enc);
    *out = (struct rig_batch){.head = b->head,
                              .bytes = bytes.p,
                              .n = bytes.n,
                              .received_ns = b->wall_ns[b->n_ticks - 1] + S};
    (void)snprintf(out->host_name, sizeof out->host_name, "%s", name);
}

static uint32_t some_pid(struct site *s, const struct batch *b)
{
    return b->runs[draw(&s->d, (uint32_t)b->n_runs)].id.pid;
}

static void happen(struct site *s, struct host *h, struct altered *a)
{
    switch (draw(&s->d, 60)) {
    case 0:
        h->renamed = some_pid(s, &a->b);
        break;
    case 1:
        h->stepped = some_pid(s, &a->b);
        h->step = 1 + draw(&s->d, 1u << 30);
        break;
    case 2:
        h->reboots++;
        break;
    case 3:
        leave_out(a, 1 + draw(&s->d, (uint32_t)a->b.n_columns - 1));
        break;
    case 4:
        for (size_t r = 0; r < a->b.n_runs; r++) {
            a->runs[r].fresh = false;
        }
        break;
    default:
        break;
    }
}

static void put_one(struct site *s, unsigned host)
{
    struct host *h = &s->at[host];
    struct altered a = alter(fleetgen_batch(s->gen[host], TICKS));
    uint32_t fate = s->wild ? draw(&s->d, 50) : 9;
    struct rig_batch b;

    if (s->wild) {
        happen(s, h, &a);
    }
    a.b.head.boot.b[0] = (uint8_t)(a.b.head.boot.b[0] + h->reboots);
    if (h->stepped) {
        step_back(&a, h->stepped, h->step);
    }
    if (h->renamed) {
        rename_one(&a, h->renamed);
    }
    encode(&b, &a.b, fleetgen_host_name(s->gen[host]));
    altered_fini(&a);
    if (fate == 0) { /* lost */
        rig_batch_fini(&b);
    } else if (fate == 1 && !h->has_late) {
        h->late = b;
        h->has_late = true;
    } else {
        assert_ok(rig_put(&s->rig, &b));
        rig_batch_fini(&b);
    }
}

static void put_late(struct site *s)
{
    for (unsigned h = 0; h < HOSTS; h++) {
        if (s->at[h].has_late && draw(&s->d, 4) == 0) {
            assert_ok(rig_put(&s->rig, &s->at[h].late));
            rig_batch_fini(&s->at[h].late);
            s->at[h].has_late = false;
        }
    }
}

static void fill(struct site *s, uint64_t seed, bool wild)
{
    s->d = seed;
    s->wild = wild;
    rig_init(&s->rig);
    s->rig.conf.accept_age_ns = 86400 * S;
    rig_open(&s->rig);
    for (unsigned h = 0; h < HOSTS; h++) {
        const struct fleetgen_conf conf = {.seed = seed * 10 + h + 1,
                                           .processes = 12,
                                           .metrics = 8,
                                           .starts_per_hour = 120,
                                           .tick_ns = 10 * S,
                                           .begin_ns = RIG_T0};

        s->gen[h] = fleetgen_create(&conf);
    }
    for (unsigned w = 1; w <= WINDOWS; w++) {
        for (unsigned i = 0; i < PER * HOSTS; i++) {
            put_one(s, i % HOSTS);
        }
        if (w < WINDOWS) {
            rig_set_now(RIG_T0 + w * 300 * S + 45 * S);
            assert_ok(store_seal_now(s->rig.store, INT64_MIN));
        }
        put_late(s);
    }
}

static void empty(struct site *s)
{
    for (unsigned h = 0; h < HOSTS; h++) {
        fleetgen_destroy(s->gen[h]);
        if (s->at[h].has_late) {
            rig_batch_fini(&s->at[h].late);
        }
    }
    rig_fini(&s->rig);
}

/* -- questions -- */

static void answer(const struct store_view *v, const struct wire_query *q, bool plain,
                   struct buf *out)
{
    struct query_env env = {.view = v, .now_ns = rig_now(), .no_sums = plain};
    struct query_answer a;
    struct errmsg why = {""};
    enum err e = query_run(&a, QUERY_SERIES, &env, q, &why);

    if (e) {
        fail_msg("%s: %s", err_name(e), why.text);
    }
    buf_init(out, QUERY_REPLY_MAX);
    assert_ok(wire_answer_encode(out, &a.data));
    query_answer_fini(&a);
}

static struct wire_query question(struct site *s)
{
    static const uint8_t groups[] = {WIRE_GROUP_IMAGE, WIRE_GROUP_USER, WIRE_GROUP_HOST,
                                     WIRE_GROUP_FLEET};
    static const uint8_t metrics[] = {M_CPU_PERCENT, M_CPU_TIME, M_WORKING_SET_SIZE,
                                      M_CONTEXT_SWITCHES, M_KERNEL_TIME};
    static const int64_t steps[] = {300, 300, 600, 900, 3600, 60, 450};
    int64_t grain = draw(&s->d, 3) ? 300 : 7;
    uint32_t all = WINDOWS * 300 / (uint32_t)grain;
    uint32_t from = draw(&s->d, all / 2), n = 1 + draw(&s->d, all - from);
    struct wire_query q = {.since_ns = RIG_T0 + from * grain * S,
                           .until_ns = RIG_T0 + (from + n) * grain * S,
                           .limit = 1 + draw(&s->d, 4),
                           .group_by = groups[draw(&s->d, 4)],
                           .step_ns = steps[draw(&s->d, 7)] * S,
                           .n_metrics = (uint8_t)(1 + draw(&s->d, 2))};

    q.metrics[0] = metrics[draw(&s->d, 5)];
    q.metrics[1] = q.metrics[0] == M_WORKING_SET_SIZE ? M_CPU_PERCENT : M_WORKING_SET_SIZE;
    if (draw(&s->d, 8) == 0) {
        q.until_ns = 0; /* up to the newest */
    }
    return q;
}

static void count_held(struct site *s, const struct store_view *v)
{
    struct arena memory;

    arena_init(&memory, 16u << 20);
    for (size_t h = 0; h < store_view_hosts(v); h++) {
        struct store_groups *list;
        size_t n;

        assert_ok(store_groups_list(v, h, INT64_MIN, INT64_MAX, METRIC_BIT(M_CPU_TIME), &memory,
                                    &list, &n));
        for (size_t i = 0; i < n; i++) {
            s->held += list[i].holds;
        }
    }
    arena_fini(&memory);
}

static void compare(struct site *s, unsigned questions)
{
    struct store_view *v;

    assert_ok(store_view_open(&v, s->rig.store));
    count_held(s, v);
    for (unsigned i = 0; i < questions; i++) {
        struct wire_query q = question(s);
        struct buf with, without;

        answer(v, &q, false, &with);
        answer(v, &q, true, &without);
        if (with.n != without.n || memcmp(with.p, without.p, with.n) != 0) {
            fail_msg(
                "question %u: [%lld, %lld) step %lld group %u metric %u of %u, %zu and %zu bytes",
                i, (long long)(q.since_ns - RIG_T0) / S, (long long)(q.until_ns - RIG_T0) / S,
                (long long)q.step_ns / S, q.group_by, q.metrics[0], q.n_metrics, with.n, without.n);
        }
        buf_fini(&with);
        buf_fini(&without);
    }
    store_view_close(v);
}

static void sums_say_what_every_process_says(void **state)
{
    struct site s = {.held = 0};

    (void)state;
    fill(&s, 1, false);
    compare(&s, 60);
    assert_int_equal(s.held, HOSTS * (WINDOWS - 2)); /* but the first, and the one in the head */
    rig_close(&s.rig);
    rig_open(&s.rig);
    compare(&s, 20);
    assert_int_equal(s.held, 2 * HOSTS * (WINDOWS - 2));
    empty(&s);
}

static void whatever_happens_to_a_host_they_say_the_same(void **state)
{
    uint64_t held = 0;

    (void)state;
    for (uint64_t seed = 2; seed < 8; seed++) {
        struct site s = {.held = 0};

        fill(&s, seed, true);
        compare(&s, 40);
        assert_true(s.held < HOSTS * (WINDOWS - 2));
        held += s.held;
        s.rig.conf.retain.age_ns[SEG_RAW] = 3600 * S;
        rig_close(&s.rig);
        rig_open(&s.rig);
        rig_set_now(RIG_T0 + WINDOWS * 300 * S + 45 * S);
        assert_ok(store_seal_now(s.rig.store, INT64_MIN));
        compare(&s, 20);
        empty(&s);
    }
    assert_true(held > 60); /* or nothing was compared */
}

/* -- killed while it seals -- */

/* Batches of all windows are acknowledged, nothing is sealed. */
static void fill_log(struct site *s, const struct fio *fio)
{
    s->d = 1;
    rig_init(&s->rig);
    rig_set_now(RIG_T0);
    s->rig.conf.accept_age_ns = 86400 * S;
    s->rig.conf.fio = fio;
    rig_open(&s->rig);
    for (unsigned h = 0; h < HOSTS; h++) {
        const struct fleetgen_conf conf = {.seed = 90 + h,
                                           .processes = 12,
                                           .metrics = 8,
                                           .starts_per_hour = 120,
                                           .tick_ns = 10 * S,
                                           .begin_ns = RIG_T0};

        s->gen[h] = fleetgen_create(&conf);
    }
    for (unsigned i = 0; i < WINDOWS * PER * HOSTS; i++) {
        put_one(s, i % HOSTS);
    }
}

/* One window after the other, as they end. */
static enum err seal_all(struct site *s)
{
    enum err e = ERR_OK;

    for (unsigned w = 1; !e && w < WINDOWS; w++) {
        rig_set_now(RIG_T0 + w * 300 * S + 45 * S);
        e = store_seal_now(s->rig.store, INT64_MIN);
    }
    return e;
}

/* The power fails at the `after`-th write, sync, new name or removal of sealing all windows. Then
 * the store is opened, seals what is left, and says by sums what it says by processes. False: it
 * was sealed before. */
static bool killed_at(long after, enum fio_fault_keep keep, uint64_t *held)
{
    struct site s = {.held = 0};
    struct fio_fault *f;
    enum err e;

    assert_ok(fio_fault_create(&f));
    fill_log(&s, fio_fault_fio(f));
    fio_fault_fail(f, FIO_WRITE | FIO_SYNC | FIO_RENAME | FIO_CREATE | FIO_SYNC_DIR | FIO_REMOVE,
                   after, ERR_IO, true);
    e = seal_all(&s);
    fio_fault_power_cut(f, keep, (uint64_t)after + 1);
    rig_close(&s.rig);
    fio_fault_destroy(f);
    s.rig.conf.fio = fio_unsynced();
    rig_set_now(RIG_T0);
    rig_open(&s.rig);
    assert_ok(seal_all(&s));
    compare(&s, 12);
    *held += s.held;
    empty(&s);
    return e != ERR_OK;
}

#if defined(__SANITIZE_THREAD__) /* a kill takes twenty times as long */
#define FURTHER(after) (3 * (after))
#else
#define FURTHER(after) ((after) / 2)
#endif

static void a_store_killed_while_it_seals_has_sums_that_hold_or_none(void **state)
{
    static const enum fio_fault_keep keeps[] = {FIO_KEEP_NOTHING, FIO_KEEP_PREFIX,
                                                FIO_KEEP_SECTORS};
    uint64_t held = 0;
    unsigned n = 0;

    (void)state;
    for (long after = 0; killed_at(after, keeps[n % 3], &held); after += 1 + FURTHER(after)) {
        n++;
    }
    assert_true(n > 3);
    assert_true(held > n * WINDOWS); /* what was not sealed, or not whole, is sealed again */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_say_what_every_process_says),
        cmocka_unit_test(whatever_happens_to_a_host_they_say_the_same),
        cmocka_unit_test(a_store_killed_while_it_seals_has_sums_that_hold_or_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
