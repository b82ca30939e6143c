/* Updates written straight to bytes, against the same by way of protobuf-c's messages. */
#include "common/wire/wire_update.h"

#include "common/wire/wire_answer.h"
#include "tests/support/t.h"

#define OUT_MAX (1u << 20)

/* What differs from one call to the next: presence, size and content of everything. */
static uint32_t some(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33 >> (*seed >> 40) % 31);
}

static struct str some_text(uint64_t *seed)
{
    static const char text[] =
        "C:\\Program Files\\\xc3\x84pfel & Co\\very-long-name-of-a-program.exe --with "
        "many --options and \xe2\x82\xac signs, up to two bytes of length: "
        "0123456789012345678901234567890123456789012345678901234567890123456789";
    size_t n = some(seed) % sizeof text;

    while (n < sizeof text - 1 && (text[n] & 0xc0) == 0x80) {
        n++; /* between characters */
    }
    return n % 3 ? (struct str){text, n} : (struct str){"", 0};
}

static struct proc_info some_info(uint64_t *seed)
{
    return (struct proc_info){.id = {some(seed), some(seed)},
                              .have = some(seed) & 0x3ff,
                              .origin = (uint8_t)(some(seed) % 5),
                              .cpu_origin = (uint8_t)(some(seed) % 4),
                              .parent_pid = some(seed),
                              .parent_start = some(seed),
                              .session_id = some(seed),
                              .exit_code = some(seed),
                              .create_ns = -(int64_t)some(seed),
                              .exit_ns = (int64_t)some(seed),
                              .name = some_text(seed),
                              .image = some_text(seed),
                              .command_line = some_text(seed),
                              .user = some_text(seed)};
}

enum { SOME = 40, SOME_METRICS = 100 };

static void some_update(struct wire_update *u, uint64_t seed)
{
    static struct wire_host hosts[2];
    static struct wire_row rows[SOME];
    static struct wire_event events[SOME];
    static int64_t values[SOME][SOME_METRICS];

    hosts[0] = (struct wire_host){.name = str_make("web-1"), .source = str_make("etw"), .cpus = 4};
    *u = (struct wire_update){.name = str_make("web-1")};
    u->data.hosts = hosts;
    u->data.n_hosts = 2;
    u->data.n_metrics = (uint8_t)(some(&seed) % (SOME_METRICS + 1)); /* of which 64 are low */
    u->data.rows = rows;
    u->data.n_rows = some(&seed) % SOME;
    u->data.events = events;
    u->data.n_events = some(&seed) % SOME;
    for (size_t i = 0; i < SOME; i++) {
        for (size_t k = 0; k < SOME_METRICS; k++) {
            values[i][k] =
                (int64_t)((uint64_t)some(&seed) * some(&seed)) * (some(&seed) % 2 ? 1 : -1);
        }
        rows[i] = (struct wire_row){.host = some(&seed) % 2,
                                    .info = i && some(&seed) % 4 == 0 ? rows[i - 1].info
                                                                      : some_info(&seed),
                                    .when_ns = (int64_t)some(&seed) * 1000,
                                    .have = ((uint64_t)some(&seed) << 31 | some(&seed)),
                                    .have_high = (uint64_t)some(&seed) << 5,
                                    .values = values[i],
                                    .instances = some(&seed) % 3,
                                    .hosts = some(&seed) % 2,
                                    .depth = some(&seed) % 200};
        events[i] = (struct wire_event){.host = some(&seed) % 2,
                                        .event = {.kind = (uint8_t)(1 + some(&seed) % LIFE_SOURCE),
                                                  .wall_ns = (int64_t)some(&seed),
                                                  .mono_ns = (int64_t)some(&seed) % 2,
                                                  .tid = some(&seed) % 300,
                                                  .info = some_info(&seed),
                                                  .text = some_text(&seed)}};
    }
}

static void an_update_written_straight_has_the_bytes_of_its_message(void **state)
{
    struct wire_update u;
    struct buf straight, packed;

    buf_init(&straight, OUT_MAX);
    buf_init(&packed, OUT_MAX);
    for (uint64_t seed = 0; seed < 500; seed++) {
        buf_reset(&straight);
        buf_reset(&packed);
        some_update(&u, seed);
        buf_put_u8(&straight, 1); /* appended, whatever is there */
        buf_put_u8(&packed, 1);
        assert_ok(wire_update_encode(&straight, &u));
        assert_ok(wire_update_pack(&packed, &u));
        assert_int_equal(straight.n, packed.n);
        if (u.data.n_metrics <= 64) { /* else the list of the others stands elsewhere */
            assert_memory_equal(straight.p, packed.p, packed.n);
        }
    }
    buf_fini(&straight);
    buf_fini(&packed);
}

static void assert_rows(const struct wire_answer *out, const struct wire_answer *in, size_t n)
{
    assert_int_equal(out->n_metrics, n);
    assert_int_equal(out->n_rows, in->n_rows);
    for (size_t i = 0; i < in->n_rows; i++) {
        for (size_t k = 0; k < n; k++) {
            bool has = wire_row_has(&in->rows[i], k);

            assert_int_equal(wire_row_has(&out->rows[i], k), has);
            assert_true(!has || out->rows[i].values[k] == in->rows[i].values[k]);
        }
        assert_false(wire_row_has(&out->rows[i], n));
    }
}

/* Both ways of writing; and who knows of the first 64 alone has all of those. */
static void an_update_has_more_metrics_than_an_answer(void **state)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct wire_update *out, u;
        Procfleet__V1__Answer *m;
        Procfleet__V1__Update *of;
        struct wire_answer low = {0};
        struct wire_arena a;
        struct buf b;

        some_update(&u, seed);
        for (unsigned k = 0; k < SOME_METRICS; k++) {
            u.data.metrics[k] = (uint8_t)(k + 1);
        }
        buf_init(&b, OUT_MAX);
        assert_ok(seed % 2 ? wire_update_encode(&b, &u) : wire_update_pack(&b, &u));
        assert_ok(wire_update_decode(&out, b.p, b.n));
        assert_memory_equal(out->data.metrics, u.data.metrics, u.data.n_metrics);
        assert_rows(&out->data, &u.data, u.data.n_metrics);
        wire_update_free(out);
        wire_arena_init(&a, 0);
        assert_ok(wire_unpack(&of, &a, &procfleet__v1__update__descriptor, b.p, b.n));
        m = of->data;
        m->n_metrics_high = 0; /* as a field that is not known */
        for (size_t i = 0; i < m->n_rows; i++) {
            m->rows[i]->high = NULL;
        }
        assert_ok(wire_answer_get(&low, m, &a));
        assert_rows(&low, &u.data, u.data.n_metrics < 64 ? u.data.n_metrics : 64);
        wire_arena_fini(&a);
        buf_fini(&b);
    }
}

static void high_values_without_their_metrics_are_refused(void **state)
{
    struct wire_update *out, u;
    Procfleet__V1__Update m;
    struct wire_arena a;
    struct buf b;

    some_update(&u, 1);
    u.data.n_metrics = 70;
    u.data.n_rows = 1;
    ((struct wire_row *)(uintptr_t)u.data.rows)->have_high = 3;
    for (unsigned wrong = 0; wrong < 3; wrong++) {
        wire_arena_init(&a, OUT_MAX);
        buf_init(&b, OUT_MAX);
        assert_ok(wire_update_put(&m, &u, &a));
        m.data->rows[0]->high->have += wrong == 0 ? 64 : 0;
        m.data->n_metrics_high = wrong == 1 ? 1 : m.data->n_metrics_high;
        m.data->n_metrics -= wrong == 2;
        assert_ok(wire_pack(&b, &m));
        assert_err(wire_update_decode(&out, b.p, b.n), ERR_CORRUPT);
        buf_fini(&b);
        wire_arena_fini(&a);
    }
}

static void text_of_an_update_that_breaks_the_rules_is_mended(void **state)
{
    struct wire_update *out, u;
    struct wire_event events[2] = {{.event = {.kind = LIFE_PROCESS_START}},
                                   {.event = {.kind = LIFE_PROCESS_STOP}}};
    struct buf b;

    some_update(&u, 1);
    events[1].event.info.name = str_make("a\xff.exe");
    u.data.events = events;
    u.data.n_events = 2;
    buf_init(&b, OUT_MAX);
    assert_ok(wire_update_encode(&b, &u));
    assert_ok(wire_update_decode(&out, b.p, b.n));
    assert_true(str_eq(out->data.events[1].event.info.name, str_make("a?.exe")));
    wire_update_free(out);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_update_written_straight_has_the_bytes_of_its_message),
        cmocka_unit_test(an_update_has_more_metrics_than_an_answer),
        cmocka_unit_test(high_values_without_their_metrics_are_refused),
        cmocka_unit_test(text_of_an_update_that_breaks_the_rules_is_mended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
