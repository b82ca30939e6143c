/* Events of providers in batches and answers, and what the release before, which knows of none,
 * made of them:
 *
 *   batch-events.pb         provider_batch(), as ours packs it
 *   batch-events-before.pb  what the decoder of the release before made of that, packed by its
 *                           encoder
 *
 * The first is made by this program with PROCFLEET_MAKE_FIXTURES=1 where it is missing. */
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "common/base/mem.h"
#include "common/model/event_values.h"
#include "common/os/os.h"
#include "common/wire/wire_batch.h"
#include "common/wire/wire_query.h"
#include "tests/common/wire/wire_sample.h"
#include "tests/support/t.h"

#define FIXTURES "tests/common/fixtures/"

static const struct str dns_fields[] = {{"QueryName", 9}, {"QueryType", 9}, {"Addresses", 9}};
static const struct event_type dns = {
    .guid = {0x6e, 0x12, 0x95, 0x1c, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
    .id = 3008,
    .version = 1,
    .opcode = 2,
    .level = 4,
    .keyword = UINT64_C(0x8000000000000000),
    .provider = {"Microsoft-Windows-DNS-Client", 28},
    .name = {"query", 5},
    .n_fields = 3,
    .fields = dns_fields,
};
static const struct event_type bare = {.guid = {1}}; /* of a GUID alone, without fields */

static struct life_event provider_event(const struct event_type *type, const char *values, size_t n)
{
    return (struct life_event){
        .kind = LIFE_PROVIDER,
        .wall_ns = 1700000000000000001,
        .mono_ns = 6,
        .tid = 77,
        .info = {.id = {4, 10}, .name = {"svchost.exe", 11}},
        .type = type,
        .values = {values, n},
        .value_flags = LIFE_VALUES_CUT | LIFE_VALUES_REDACTED,
    };
}

#define DNS_VALUES "\x06\x08git.corp\x02\x01\x0e\x82\x00\x0a\x04\xc0\x00\x02\x07\x00"

static struct batch provider_batch(void)
{
    static struct life_event events[6];
    struct batch b = wire_sample();

    memcpy(events, b.events, b.n_events * sizeof *events);
    events[3] = provider_event(&dns, DNS_VALUES, sizeof DNS_VALUES - 1);
    events[4] = provider_event(&bare, "", 0);
    events[4].value_flags = 0;
    events[5] = provider_event(&dns, DNS_VALUES, sizeof DNS_VALUES - 1);
    b.events = events;
    b.n_events = COUNT_OF(events);
    return b;
}

static void assert_type(const struct event_type *a, const struct event_type *b)
{
    assert_memory_equal(a->guid, b->guid, sizeof a->guid);
    assert_int_equal(a->id, b->id);
    assert_int_equal(a->version, b->version);
    assert_int_equal(a->opcode, b->opcode);
    assert_int_equal(a->level, b->level);
    assert_int_equal(a->keyword, b->keyword);
    assert_true(str_eq(a->provider, b->provider));
    assert_true(str_eq(a->task, b->task));
    assert_true(str_eq(a->name, b->name));
    assert_int_equal(a->n_fields, b->n_fields);
    for (size_t i = 0; i < a->n_fields; i++) {
        assert_true(str_eq(a->fields[i], b->fields[i]));
    }
}

static void assert_event(const struct life_event *got, const struct life_event *want)
{
    assert_int_equal(got->kind, want->kind);
    assert_int_equal(got->wall_ns, want->wall_ns);
    assert_int_equal(got->tid, want->tid);
    assert_true(proc_id_eq(got->info.id, want->info.id));
    assert_true(str_eq(got->info.name, want->info.name));
    assert_int_equal(got->type != NULL, want->type != NULL);
    if (want->type) {
        assert_type(got->type, want->type);
        assert_true(str_eq(got->values, want->values));
        assert_int_equal(got->value_flags, want->value_flags);
    }
}

static uint8_t *message_of(const struct batch *b, size_t *n)
{
    struct buf out;
    uint8_t *raw;

    assert_ok(wire_sample_encode(&out, b));
    raw = wire_sample_unwrap(n, &out);
    buf_fini(&out);
    return raw;
}

static enum err decode(struct batch **out, const void *raw, size_t n)
{
    size_t room = ZSTD_compressBound(n);
    uint8_t *frame = malloc(room);
    enum err e;

    assert_non_null(frame);
    e = wire_batch_decode(out, frame, ZSTD_compress(frame, room, raw, n, 1));
    free(frame);
    return e;
}

static void events_of_providers_come_back_as_they_were(void **state)
{
    struct batch in = provider_batch(), *out;
    struct buf b;

    (void)state;
    assert_ok(wire_sample_encode(&b, &in));
    assert_ok(wire_batch_decode(&out, b.p, b.n));
    assert_int_equal(out->n_events, in.n_events);
    for (size_t i = 0; i < in.n_events; i++) {
        assert_event(&out->events[i], &in.events[i]);
    }
    assert_ptr_equal(out->events[3].type, out->events[5].type); /* told once */
    wire_batch_free(out);
    buf_fini(&b);
}

static void an_answer_and_an_update_have_them_too(void **state)
{
    struct batch b = provider_batch();
    struct wire_event events[6];
    struct wire_host host = {.name = {"h", 1}};
    struct wire_update u = {.name = {"h", 1}}, *back;
    struct wire_answer *a;
    struct buf out;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(events); i++) {
        events[i] = (struct wire_event){.event = b.events[i]};
    }
    u.data.n_hosts = 1;
    u.data.hosts = &host;
    u.data.n_events = COUNT_OF(events);
    u.data.events = events;
    buf_init(&out, 1u << 20);
    assert_ok(wire_answer_encode(&out, &u.data));
    assert_ok(wire_answer_decode(&a, out.p, out.n));
    assert_int_equal(a->n_events, COUNT_OF(events));
    for (size_t i = 0; i < COUNT_OF(events); i++) {
        assert_event(&a->events[i].event, &b.events[i]);
    }
    wire_answer_free(a);
    buf_reset(&out);
    assert_ok(wire_update_encode(&out, &u));
    assert_ok(wire_update_decode(&back, out.p, out.n));
    assert_int_equal(back->data.n_events, COUNT_OF(events));
    for (size_t i = 0; i < COUNT_OF(events); i++) {
        assert_event(&back->data.events[i].event, &b.events[i]);
    }
    wire_update_free(back);
    buf_fini(&out);
}

static void values_that_are_none_are_not_sent(void **state)
{
    struct batch in = provider_batch(), *out;
    struct life_event events[1] = {provider_event(&dns, "\x63", 1)};
    struct buf b;

    (void)state;
    in.events = events;
    in.n_events = 1;
    assert_ok(wire_sample_encode(&b, &in));
    assert_ok(wire_batch_decode(&out, b.p, b.n));
    assert_null(out->events[0].type);
    wire_batch_free(out);
    buf_fini(&b);
}

static void more_types_than_a_batch_has_are_refused(void **state)
{
    static struct event_type types[WIRE_TYPES_MAX + 1];
    static struct life_event events[WIRE_TYPES_MAX + 1];
    struct batch in = provider_batch(), *out;
    struct buf b;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        types[i] = bare;
        types[i].id = (uint16_t)i;
        events[i] = provider_event(&types[i], "", 0);
    }
    in.events = events;
    in.n_events = WIRE_TYPES_MAX;
    assert_ok(wire_sample_encode(&b, &in));
    assert_ok(wire_batch_decode(&out, b.p, b.n));
    assert_int_equal(out->events[WIRE_TYPES_MAX - 1].type->id, WIRE_TYPES_MAX - 1);
    wire_batch_free(out);
    buf_fini(&b);
    in.n_events++;
    assert_err(wire_sample_encode(&b, &in), ERR_FULL);
    buf_fini(&b);
}

/* Every byte of the message changed in turn: sound or refused, and what is sound can be read. */
static void changed_bytes_do_no_harm(void **state)
{
    struct batch in = provider_batch(), *out;
    size_t n;
    uint8_t *raw = message_of(&in, &n);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            raw[i] ^= (uint8_t)(1u << bit);
            if (decode(&out, raw, n) == ERR_OK) {
                for (size_t k = 0; k < out->n_events; k++) {
                    const struct life_event *ev = &out->events[k];

                    assert_true(!ev->type || event_values_ok(ev->type->n_fields, ev->values));
                }
                wire_batch_free(out);
            }
            raw[i] ^= (uint8_t)(1u << bit);
        }
    }
    free(raw);
}

static void every_failed_allocation_is_survived(void **state)
{
    struct batch in = provider_batch(), *out;
    struct buf b;
    enum err e = ERR_NOMEM;

    (void)state;
    assert_ok(wire_sample_encode(&b, &in));
    for (long n = 0; e; n++) {
        mem_fail_after(n);
        e = wire_batch_decode(&out, b.p, b.n);
        mem_fail_after(-1);
        assert_true(!e || e == ERR_NOMEM);
    }
    wire_batch_free(out);
    buf_fini(&b);
}

static void the_release_before_leaves_out_what_it_does_not_know(void **state)
{
    struct batch in = provider_batch(), *out;
    uint8_t *p, *raw;
    size_t n, raw_n;

    (void)state;
    raw = message_of(&in, &raw_n);
    if (getenv("PROCFLEET_MAKE_FIXTURES") && !os_exists(FIXTURES "batch-events.pb")) {
        assert_ok(os_write_file(FIXTURES "batch-events.pb", raw, raw_n, false));
    }
    assert_ok(os_read_file(&p, &n, FIXTURES "batch-events.pb", 1u << 20));
    assert_int_equal(n, raw_n);
    assert_memory_equal(p, raw, n);
    mem_free(p);
    free(raw);
    assert_ok(os_read_file(&p, &n, FIXTURES "batch-events-before.pb", 1u << 20));
    assert_ok(decode(&out, p, n));
    mem_free(p);
    assert_int_equal(out->n_runs, in.n_runs);
    assert_int_equal(out->n_infos, in.n_infos);
    assert_int_equal(out->n_events, in.n_events);
    for (size_t i = 0; i < in.n_events; i++) {
        struct life_event want = in.events[i];

        want.type = NULL;
        assert_event(&out->events[i], &want);
    }
    wire_batch_free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_of_providers_come_back_as_they_were),
        cmocka_unit_test(an_answer_and_an_update_have_them_too),
        cmocka_unit_test(values_that_are_none_are_not_sent),
        cmocka_unit_test(more_types_than_a_batch_has_are_refused),
        cmocka_unit_test(changed_bytes_do_no_harm),
        cmocka_unit_test(every_failed_allocation_is_survived),
        cmocka_unit_test(the_release_before_leaves_out_what_it_does_not_know),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
