/* Events of providers in the store: in memory, sealed in a segment of their own, after a restart;
 * beside them everything else is as if there were none. */
#include "collector/store/meta/prov_value.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/base/mem.h"
#include "common/model/event_values.h"
#include "tests/support/store_rig.h"
#include "tests/support/t.h"

#define BATCHES 12
#define EACH    5 /* events of a provider in a batch */

static const struct str names[] = {{"n", 1}};
static const struct event_type type = {
    .guid = {1, 2, 3}, .id = 5, .provider = {"P", 1}, .n_fields = 1, .fields = names};

/* Puts a batch of the generator with events among its own. */
static void put(struct rig *r, struct fleetgen *g, uint8_t *number)
{
    static struct life_event events[1024];
    static char values[1024][2];
    struct batch b = *fleetgen_batch(g, 10);
    struct wire_encoder *enc;
    struct rig_batch out = {.head = b.head};
    struct buf bytes;
    size_t n = 0;

    for (size_t i = 0; i < b.n_events; i++) {
        events[n++] = b.events[i];
    }
    for (size_t i = 0; i < EACH; i++) {
        values[i][0] = VALUE_UINT + 1;
        values[i][1] = (char)(*number)++;
        events[n++] = (struct life_event){.kind = LIFE_PROVIDER,
                                          .wall_ns = b.wall_ns[9],
                                          .mono_ns = b.mono_ns[9],
                                          .info = {.id = {77, 1}, .name = {"x", 1}},
                                          .type = &type,
                                          .values = {values[i], 2}};
    }
    b.events = events;
    b.n_events = n;
    buf_init(&bytes, WIRE_BATCH_BYTES_MAX);
    assert_ok(wire_batch_encoder_create(&enc));
    assert_ok(wire_batch_encode(enc, &bytes, &b));
    wire_batch_encoder_destroy(enc);
    (void)snprintf(out.host_name, sizeof out.host_name, "host");
    out.bytes = bytes.p;
    out.n = bytes.n;
    out.received_ns = b.wall_ns[9] + CLK_S;
    assert_ok(rig_put(r, &out));
    buf_fini(&bytes);
}

struct found {
    unsigned seen[256];
    size_t n, others;
};

static enum err look(void *ctx, const struct store_block *b)
{
    struct found *f = ctx;

    for (size_t i = 0; i < b->batch->n_events; i++) {
        const struct life_event *ev = &b->batch->events[i];
        struct value v;

        if (ev->kind != LIFE_PROVIDER) {
            f->others++;
            continue;
        }
        assert_true(ev->type && ev->type->id == 5 && str_eq(ev->type->provider, str_make("P")));
        assert_int_equal(ev->info.id.pid, 77);
        assert_true(event_values_find(&v, ev->type, ev->values, str_make("n")));
        f->seen[v.v.u]++;
        f->n++;
    }
    return ERR_OK;
}

static struct found ask(struct rig *r, bool providers, bool rests)
{
    struct store_range range = {.since_ns = INT64_MIN,
                                .until_ns = INT64_MAX,
                                .made_since_ns = INT64_MIN,
                                .no_rests = !rests,
                                .providers = providers};
    struct found f = {.n = 0};
    struct store_view *v;

    assert_ok(store_view_open(&v, r->store));
    assert_int_equal(store_view_hosts(v), 1);
    assert_ok(store_blocks_scan(v, 0, &range, look, &f));
    store_view_close(v);
    return f;
}

static enum err count(void *ctx, const struct store_block *b)
{
    *(size_t *)ctx += b->batch->n_events;
    return ERR_OK;
}

static size_t ask_any(struct rig *r)
{
    const struct store_range range = {.since_ns = INT64_MIN,
                                      .until_ns = INT64_MAX,
                                      .made_since_ns = INT64_MIN,
                                      .no_rests = true,
                                      .providers = true};
    struct store_view *v;
    size_t n = 0;

    assert_ok(store_view_open(&v, r->store));
    assert_ok(store_blocks_scan(v, 0, &range, count, &n));
    store_view_close(v);
    return n;
}

static void each_once(struct rig *r, size_t others)
{
    struct found f = ask(r, true, true);

    assert_int_equal(f.n, BATCHES * EACH);
    for (size_t i = 0; i < BATCHES * EACH; i++) {
        assert_int_equal(f.seen[i], 1);
    }
    assert_int_equal(f.others, others);
}

static void they_are_kept_apart_and_each_comes_once(void **state)
{
    struct rig *r = *state;
    struct fleetgen *g = rig_host(1);
    struct store_room room;
    uint8_t number = 0;
    size_t others;

    rig_set_now(RIG_T0);
    rig_open(r);
    for (int i = 0; i < BATCHES; i++) {
        put(r, g, &number);
    }
    others = ask(r, true, true).others;
    each_once(r, others);
    rig_close(r);
    rig_open(r); /* from the log */
    each_once(r, others);
    rig_set_now(RIG_T0 + 3600 * CLK_S);
    assert_ok(store_seal_now(r->store, rig_now()));
    store_room(r->store, &room);
    assert_int_equal(room.kind[SEG_PROVIDER].values, BATCHES * EACH);
    assert_true(room.kind[SEG_PROVIDER].files > 0);
    each_once(r, others);
    assert_int_equal(ask(r, false, true).n, 0); /* rests have none */
    assert_int_equal(ask(r, false, true).others, others);
    assert_int_equal(ask(r, true, false).n, BATCHES * EACH);
    assert_int_equal(ask(r, true, false).others, 0);
    rig_close(r);
    rig_open(r); /* from segments */
    each_once(r, others);
    fleetgen_destroy(g);
}

static void without_them_there_is_no_such_file(void **state)
{
    struct rig *r = *state;
    struct fleetgen *g = rig_host(2);
    struct store_room room;

    rig_set_now(RIG_T0);
    rig_open(r);
    rig_put_next(r, g, 4);
    rig_set_now(RIG_T0 + 3600 * CLK_S);
    assert_ok(store_seal_now(r->store, rig_now()));
    store_room(r->store, &room);
    assert_int_equal(room.kind[SEG_PROVIDER].files, 0);
    assert_true(room.kind[SEG_REST].files > 0);
    fleetgen_destroy(g);
}

/* A batch that takes less memory than it would of an honest sender, who tells each event's process:
 * what was taken can be sealed, or one host would stop the whole store. */
static void what_was_taken_can_be_sealed(void **state)
{
    enum { MANY = 20000 };
    struct rig *r = *state;
    struct fleetgen *g = rig_host(3);
    struct batch b = *fleetgen_batch(g, 1);
    struct life_event ev = {
        .kind = LIFE_PROVIDER, .wall_ns = b.wall_ns[0], .type = &type, .values = {"\x02\x05", 2}};
    struct rig_batch out = {.head = b.head, .received_ns = b.wall_ns[0] + CLK_S};
    struct wire_encoder *enc;
    struct buf message;
    size_t packed;

    rig_set_now(RIG_T0);
    rig_open(r);
    b.events = &ev;
    b.n_events = 1;
    buf_init(&message, WIRE_BATCH_RAW_MAX);
    assert_ok(wire_batch_encoder_create(&enc));
    assert_ok(wire_batch_pack(enc, &message, &b));
    wire_batch_encoder_destroy(enc);
    for (int i = 1; i < MANY; i++) {
        buf_put(&message, "\x7a\x11\x08\x09\x11", 5); /* events: kind, wall_ns */
        buf_put_u64le(&message, (uint64_t)ev.wall_ns);
        buf_put(&message, "\x38\x01\x42\x02\x02\x05", 6); /* type, values */
    }
    assert_ok(message.bad);
    out.bytes = malloc(ZSTD_compressBound(message.n));
    packed = ZSTD_compress(out.bytes, ZSTD_compressBound(message.n), message.p, message.n, 1);
    assert_false(ZSTD_isError(packed));
    out.n = packed;
    (void)snprintf(out.host_name, sizeof out.host_name, "host");
    assert_ok(rig_put(r, &out));
    free(out.bytes);
    buf_fini(&message);
    rig_set_now(RIG_T0 + 3600 * CLK_S);
    assert_ok(store_seal_now(r->store, rig_now()));
    {
        struct store_room room;

        store_room(r->store, &room);
        assert_int_equal(room.kind[SEG_PROVIDER].values, MANY);
    }
    assert_int_equal(ask_any(r), MANY);
    fleetgen_destroy(g);
}

static void every_shorter_record_is_refused(void **state)
{
    struct batch b = {.head = {.seq = 1, .host = {{1}}}}, *out;
    struct life_event ev = {
        .kind = LIFE_PROVIDER, .wall_ns = RIG_T0, .type = &type, .values = {"\x02\x05", 2}};
    struct window_rest rest;
    struct wire_encoder *enc;
    struct buf message, record;

    (void)state;
    b.events = &ev;
    b.n_events = 1;
    buf_init(&message, 1u << 16);
    buf_init(&record, 1u << 16);
    assert_ok(wire_batch_encoder_create(&enc));
    assert_ok(wire_batch_pack(enc, &message, &b));
    wire_batch_encoder_destroy(enc);
    buf_put_svarint(&record, RIG_T0);
    buf_put_u8(&record, 1);
    buf_put_svarint(&record, -5);
    buf_put_svarint(&record, 6);
    buf_put_varint(&record, message.n);
    buf_put(&record, message.p, message.n);
    for (size_t n = 0; n < record.n; n++) {
        uint8_t *copy = malloc(n + 1);
        struct cur c = cur_make(copy, n);

        memcpy(copy, record.p, n);
        assert_err(prov_value_record(&c, &out, &rest), ERR_CORRUPT);
        free(copy);
    }
    {
        struct cur c = cur_make(record.p, record.n);

        assert_ok(prov_value_record(&c, &out, &rest));
        assert_int_equal(cur_left(&c), 0);
        assert_int_equal(rest.batch.n_events, 1);
        assert_int_equal(rest.clock.offset_ns, -5);
        assert_true(rest.clock.known && !rest.clock.bounded);
        wire_batch_free(out);
    }
    buf_fini(&record);
    buf_fini(&message);
}

int main(void)
{
    static struct rig rig;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate_setup_teardown(they_are_kept_apart_and_each_comes_once, rig_setup,
                                                 rig_teardown, &rig),
        cmocka_unit_test_prestate_setup_teardown(without_them_there_is_no_such_file, rig_setup,
                                                 rig_teardown, &rig),
        cmocka_unit_test_prestate_setup_teardown(what_was_taken_can_be_sealed, rig_setup,
                                                 rig_teardown, &rig),
        cmocka_unit_test(every_shorter_record_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
