/* Labels and inventory: as they are kept, in Hello and Heartbeat, and in answers. */
#include <string.h>

#include "common/wire/wire_inventory.h"
#include "common/wire/wire_query.h"
#include "common/wire/wire_rpc.h"
#include "tests/support/t.h"

#define TEXT(s)          \
    {                    \
        s, sizeof(s) - 1 \
    }

static const struct facts lab = {
    .inventory = {.os = TEXT("linux"),
                  .os_name = TEXT("Debian GNU/Linux 12"),
                  .cpu_model = TEXT("größe"),
                  .cpu_cores = 8,
                  .memory_bytes = UINT64_C(16) << 30,
                  .boot_time = 1700000000000000000,
                  .n_disks = 1,
                  .disks = {{.model = TEXT("disk"), .bytes = 1u << 30, .rotational = true}},
                  .n_gpus = 1,
                  .gpus = {TEXT("gpu")},
                  .n_nics = 1,
                  .nics = {{.name = TEXT("eth0"), .bits = 1000000000}}},
    .n_labels = 2,
    .labels = {{.key = TEXT("rack"), .value = TEXT("3"), .assigned = true},
               {.key = TEXT("image"), .value = TEXT("")}},
};

static void facts_equal(const struct facts *a, const struct facts *b)
{
    assert_true(str_eq(a->inventory.os_name, b->inventory.os_name));
    assert_true(str_eq(a->inventory.cpu_model, b->inventory.cpu_model));
    assert_true(str_eq(a->inventory.governor, b->inventory.governor));
    assert_int_equal(a->inventory.cpu_cores, b->inventory.cpu_cores);
    assert_int_equal(a->inventory.memory_bytes, b->inventory.memory_bytes);
    assert_int_equal(a->inventory.boot_time, b->inventory.boot_time);
    assert_int_equal(a->inventory.n_disks, b->inventory.n_disks);
    assert_true(str_eq(a->inventory.disks[0].model, b->inventory.disks[0].model));
    assert_int_equal(a->inventory.disks[0].rotational, b->inventory.disks[0].rotational);
    assert_true(str_eq(a->inventory.gpus[0], b->inventory.gpus[0]));
    assert_int_equal(a->inventory.nics[0].bits, b->inventory.nics[0].bits);
    assert_int_equal(a->n_labels, b->n_labels);
    for (size_t i = 0; i < a->n_labels; i++) {
        assert_true(str_eq(a->labels[i].key, b->labels[i].key));
        assert_true(str_eq(a->labels[i].value, b->labels[i].value));
        assert_int_equal(a->labels[i].assigned, b->labels[i].assigned);
    }
}

static void told_equal(const void *told, size_t n)
{
    struct facts f;
    struct arena a;

    arena_init(&a, 1u << 20);
    assert_ok(wire_facts_decode(&f, told, n, &a));
    facts_equal(&f, &lab);
    arena_fini(&a);
}

static void what_is_kept_is_read_again(void **state)
{
    struct facts f;
    struct arena a;
    struct buf b;

    (void)state;
    buf_init(&b, 1u << 20);
    assert_ok(wire_facts_encode(&b, &lab));
    told_equal(b.p, b.n);
    for (size_t n = 0; n < b.n; n++) { /* cut anywhere: less of it, or refused */
        arena_init(&a, 1u << 20);
        err_ignore(wire_facts_decode(&f, b.p, n, &a));
        arena_fini(&a);
    }
    buf_fini(&b);
}

static size_t told_put(uint8_t *told, const struct facts *f)
{
    size_t n;
    struct buf b;

    buf_init(&b, WIRE_FACTS_MAX);
    assert_ok(wire_facts_encode(&b, f));
    memcpy(told, b.p, b.n);
    n = b.n;
    buf_fini(&b);
    return n;
}

static void hello_and_heartbeat_tell_them(void **state)
{
    struct wire_hello hello = {.name = "h"}, heard;
    struct wire_heartbeat beat = {.next_seq = 7}, beaten;
    struct buf b;

    (void)state;
    buf_init(&b, 1u << 20);
    hello.n_told = told_put(hello.told, &lab);
    beat.n_told = told_put(beat.told, &lab);
    assert_ok(wire_rpc_hello_encode(&b, &hello));
    assert_ok(wire_rpc_hello_decode(&heard, b.p, b.n));
    told_equal(heard.told, heard.n_told);
    buf_reset(&b);
    assert_ok(wire_rpc_heartbeat_encode(&b, &beat));
    assert_ok(wire_rpc_heartbeat_decode(&beaten, b.p, b.n));
    told_equal(beaten.told, beaten.n_told);
    assert_int_equal(beaten.next_seq, 7);
    buf_reset(&b);
    beat.n_told = 0; /* as an agent of before */
    assert_ok(wire_rpc_heartbeat_encode(&b, &beat));
    assert_ok(wire_rpc_heartbeat_decode(&beaten, b.p, b.n));
    assert_int_equal(beaten.n_told, 0);
    buf_fini(&b);
}

static void few_fields_are_encoded_without_the_machinery(void **state)
{
    const struct facts f = {
        .inventory = {.os = TEXT("windows"), .cpus = 200, .memory_bytes = UINT64_C(32) << 30},
        .n_labels = 2,
        .labels = {{.key = TEXT("rack"), .value = TEXT("3")},
                   {.key = TEXT("image"), .value = TEXT("")}}};
    struct wire_hello hello = {.name = "h"}, heard;
    struct facts out;
    struct arena a;
    struct buf b;

    (void)state;
    buf_init(&b, 1u << 20);
    arena_init(&a, 1u << 20);
    hello.n_told = wire_facts_small_encode(hello.told, &f);
    assert_ok(wire_rpc_hello_encode(&b, &hello));
    assert_ok(wire_rpc_hello_decode(&heard, b.p, b.n));
    assert_ok(wire_facts_decode(&out, heard.told, heard.n_told, &a));
    facts_equal(&out, &f);
    assert_int_equal(out.inventory.cpus, 200);
    assert_true(str_eq(out.inventory.os, f.inventory.os));
    arena_fini(&a);
    buf_fini(&b);
}

/* What an agent that means harm sends. */
static void rules_are_the_receivers_too(void **state)
{
    static const struct label bad[] = {
        {.key = TEXT("Rack"), .value = TEXT("3")},     {.key = TEXT("os_name"), .value = TEXT("x")},
        {.key = TEXT("rack"), .value = TEXT("a\x1b")}, {.key = TEXT("image"), .value = TEXT("2")},
        {.key = TEXT(""), .value = TEXT("x")},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct wire_hello hello = {.name = "h"}, heard;
        struct facts f = lab;
        struct buf b;

        buf_init(&b, 1u << 20);
        f.labels[0] = bad[i];
        assert_err(wire_facts_encode(&b, &f), ERR_INVALID);
        buf_reset(&b);
        hello.n_told = wire_facts_small_encode(hello.told, &f); /* checks nothing */
        assert_ok(wire_rpc_hello_encode(&b, &hello));
        assert_err(wire_rpc_hello_decode(&heard, b.p, b.n), ERR_CORRUPT);
        buf_fini(&b);
    }
}

static void too_much_is_refused(void **state)
{
    struct wire_hello hello = {.name = "h"}, heard;
    struct facts f = lab;
    struct buf b;

    (void)state;
    buf_init(&b, 1u << 20);
    hello.n_told = wire_facts_small_encode(hello.told, &f); /* the same label again and again */
    for (size_t one = 9; hello.n_told + one < sizeof hello.told - 2000; hello.n_told += one) {
        memcpy(hello.told + hello.n_told, "\x12\x07\x0a\x01x\x12\x02yz", one);
    }
    assert_ok(wire_rpc_hello_encode(&b, &hello));
    assert_err(wire_rpc_hello_decode(&heard, b.p, b.n), ERR_FULL);
    buf_reset(&b);
    f.n_labels = INVENTORY_LABELS_MAX + 1;
    assert_err(wire_facts_encode(&b, &f), ERR_INVALID);
    buf_fini(&b);
}

static void hosts_of_answers_have_them(void **state)
{
    const struct wire_host hosts[] = {
        {.name = TEXT("a"), .facts = &lab, .class = TEXT("Debian GNU/Linux 12/6/-/8c/16G")},
        {.name = TEXT("b")}};
    struct wire_answer a = {.n_hosts = 2, .hosts = hosts}, *out;
    struct buf b;

    (void)state;
    buf_init(&b, 1u << 20);
    assert_ok(wire_answer_encode(&b, &a));
    assert_ok(wire_answer_decode(&out, b.p, b.n));
    assert_int_equal(out->n_hosts, 2);
    facts_equal(out->hosts[0].facts, &lab);
    assert_true(str_eq(out->hosts[0].class, hosts[0].class));
    assert_null(out->hosts[1].facts);
    assert_int_equal(out->hosts[1].class.n, 0);
    wire_answer_free(out);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_read_again),
        cmocka_unit_test(hello_and_heartbeat_tell_them),
        cmocka_unit_test(few_fields_are_encoded_without_the_machinery),
        cmocka_unit_test(rules_are_the_receivers_too),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(hosts_of_answers_have_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
