#include "common/wire/wire_lifetimes.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/wire/wire_series.h"
#include "tests/support/t.h"

#define OUT_MAX (4u << 20)

/* Two processes: a shell that lives, its child of 20 ms. */
struct columns {
    int64_t start_us[2], life_us[2], parent[2], exit_code[2], cpu_us[2];
    uint32_t host[2], name[2], user[2], pid[2], flags[2], starts[3], ends[3], present[3],
        hosts_in[3];
    uint64_t start[2];
    struct str names[3];
    uint8_t measured[1];
    struct wire_lifetimes_image image;
};

static const struct columns usual = {
    .start_us = {-5, 20},
    .life_us = {WIRE_LIFE_LIVES, 20000},
    .parent = {-1, 1},
    .exit_code = {WIRE_LIFE_NOT_KNOWN, UINT32_MAX},
    .cpu_us = {WIRE_LIFE_NOT_KNOWN, 0},
    .host = {0, 0},
    .name = {0, 1},
    .user = {2, 2},
    .pid = {7, UINT32_MAX},
    .flags = {WIRE_LIFE_START_UNKNOWN, WIRE_LIFE_CPU_EXACT},
    .starts = {1, 0, 0},
    .ends = {0, UINT32_MAX, 0},
    .present = {1000000, 999999, 0},
    .hosts_in = {1, 1, 0},
    .measured = {3},
    .start = {3, UINT64_MAX},
    .names = {{"sh", 2}, {"ls", 2}, {"", 0}},
};

static struct wire_lifetimes lifetimes(struct columns *c)
{
    c->image = (struct wire_lifetimes_image){1, c->starts, c->ends};
    return (struct wire_lifetimes){.t0_ns = -1,
                                   .n = 2,
                                   .start_us = c->start_us,
                                   .life_us = c->life_us,
                                   .host = c->host,
                                   .name = c->name,
                                   .user = c->user,
                                   .pid = c->pid,
                                   .parent = c->parent,
                                   .start = c->start,
                                   .exit_code = c->exit_code,
                                   .flags = c->flags,
                                   .cpu_us = c->cpu_us,
                                   .n_names = 3,
                                   .names = c->names,
                                   .left_out = 5,
                                   .step_ns = INT64_MAX / 3,
                                   .n_buckets = 3,
                                   .starts = c->starts,
                                   .ends = c->ends,
                                   .present = c->present,
                                   .hosts_in = c->hosts_in,
                                   .n_measured = 1,
                                   .measured = c->measured,
                                   .n_images = 1,
                                   .images = &c->image};
}

static enum err there_and_back(const struct wire_lifetimes *l, struct wire_answer **out)
{
    static const struct wire_host host;
    struct wire_answer in = {.n_hosts = 1, .hosts = &host, .lifetimes = l};
    struct buf b;
    enum err e;

    buf_init(&b, OUT_MAX);
    e = wire_answer_encode(&b, &in);
    if (!e) {
        assert_ok(wire_answer_decode(out, b.p, b.n));
    }
    buf_fini(&b);
    return e;
}

static void lifetimes_come_back_as_they_were(void **state)
{
    struct columns c = usual;
    struct wire_lifetimes in = lifetimes(&c);
    const struct wire_lifetimes *out;
    struct wire_answer *a;

    (void)state;
    assert_ok(there_and_back(&in, &a));
    out = a->lifetimes;
    assert_true(out->t0_ns == in.t0_ns && out->n == 2 && out->left_out == 5);
    assert_true(out->step_ns == in.step_ns && out->n_buckets == 3 && out->n_images == 1);
#define SAME(field, n) assert_memory_equal(out->field, in.field, (n) * sizeof *in.field)
    SAME(start_us, 2);
    SAME(life_us, 2);
    SAME(host, 2);
    SAME(name, 2);
    SAME(user, 2);
    SAME(pid, 2);
    SAME(parent, 2);
    SAME(start, 2);
    SAME(exit_code, 2);
    SAME(flags, 2);
    SAME(cpu_us, 2);
    SAME(starts, 3);
    SAME(ends, 3);
    SAME(present, 3);
    SAME(hosts_in, 3);
    assert_int_equal(out->n_measured, 1);
    assert_true(wire_lifetimes_measured(out, 0, 1));
    assert_false(wire_lifetimes_measured(out, 0, 2));
    SAME(images[0].starts, 3);
    SAME(images[0].ends, 3);
    assert_int_equal(out->images[0].name, 1);
    assert_int_equal(out->n_names, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_true(str_eq(out->names[i], in.names[i]));
    }
    wire_answer_free(a);
}

/* A collector of before says nothing of when agents ran. */
static void what_is_not_told_counts_as_measured(void **state)
{
    struct columns c = usual;
    struct wire_lifetimes in = lifetimes(&c);
    struct wire_answer *a;

    (void)state;
    in.n_measured = 0;
    assert_ok(there_and_back(&in, &a));
    assert_false(wire_lifetimes_measured(a->lifetimes, 0, 2)); /* no host was */
    wire_answer_free(a);
    in.hosts_in = NULL;
    assert_ok(there_and_back(&in, &a));
    assert_null(a->lifetimes->hosts_in);
    assert_true(wire_lifetimes_measured(a->lifetimes, 0, 2));
    wire_answer_free(a);
    in.n_measured = 2; /* there is one host */
    assert_int_equal(there_and_back(&in, &a), ERR_INVALID);
}

static void nothing_at_all_is_an_answer_too(void **state)
{
    const struct wire_lifetimes none = {.n = 0};
    struct wire_answer *a;

    (void)state;
    assert_ok(there_and_back(&none, &a));
    assert_int_equal(a->lifetimes->n, 0);
    wire_answer_free(a);
}

static void the_largest_answer_fits(void **state)
{
    static uint32_t index[WIRE_LIVES_MAX], hosts[WIRE_LIVES_MAX], starts[WIRE_BUCKETS_MAX];
    static int64_t zero[WIRE_LIVES_MAX];
    static uint64_t start[WIRE_LIVES_MAX];
    static struct str names[WIRE_LIFE_NAMES_MAX];
    static struct wire_lifetimes_image images[WIRE_LIFE_DENSITY_MAX / WIRE_BUCKETS_MAX];
    struct wire_lifetimes in = {.n = WIRE_LIVES_MAX, .start_us = zero, .life_us = zero};
    struct wire_answer *a;

    (void)state;
    for (size_t i = 0; i < WIRE_LIVES_MAX; i++) {
        index[i] = (uint32_t)i % WIRE_LIFE_NAMES_MAX;
        names[index[i]] = str_make("a name of some length, as images have");
    }
    for (size_t i = 0; i < COUNT_OF(images); i++) {
        images[i] = (struct wire_lifetimes_image){0, starts, starts};
    }
    in.host = hosts;
    in.name = in.user = in.pid = in.flags = index;
    in.parent = in.exit_code = in.cpu_us = zero;
    in.start = start;
    in.n_names = WIRE_LIFE_NAMES_MAX;
    in.names = names;
    in.n_buckets = WIRE_BUCKETS_MAX;
    in.starts = in.ends = in.present = starts;
    in.n_images = COUNT_OF(images);
    in.images = images;
    assert_ok(there_and_back(&in, &a));
    assert_int_equal(a->lifetimes->n, WIRE_LIVES_MAX);
    wire_answer_free(a);
}

static void columns_out_of_range_are_neither_sent_nor_believed(void **state)
{
    struct columns c;
    struct wire_lifetimes l;
    struct wire_answer *a;

    (void)state;
#define REFUSED(change)                                  \
    do {                                                 \
        c = usual;                                       \
        l = lifetimes(&c);                               \
        change;                                          \
        assert_err(there_and_back(&l, &a), ERR_INVALID); \
    } while (0)
    REFUSED(c.host[1] = 1);
    REFUSED(c.name[1] = 3);
    REFUSED(c.user[0] = 3);
    REFUSED(c.parent[0] = 1); /* itself */
    REFUSED(c.parent[1] = 2);
    REFUSED(c.parent[1] = -(int64_t)UINT32_MAX - 1);
    REFUSED(c.exit_code[0] = -2);
    REFUSED(c.exit_code[0] = INT64_C(1) << 32);
    REFUSED(c.cpu_us[1] = -2);
    REFUSED(c.life_us[1] = -3);
    REFUSED(c.life_us[1] = INT64_MAX);
    REFUSED(c.start_us[1] = -6); /* before the one in front */
    REFUSED(c.start_us[0] = INT64_MIN);
    REFUSED(c.image.name = 3);
    REFUSED(l.n = WIRE_LIVES_MAX + 1);
    REFUSED(l.n_names = WIRE_LIFE_NAMES_MAX + 1);
    REFUSED(l.n_buckets = WIRE_BUCKETS_MAX + 1);
    REFUSED(l.n_images = WIRE_LIFE_IMAGES_MAX + 1);
    REFUSED(l.step_ns = INT64_MAX / 3 + 1);
    REFUSED(l.step_ns = -1);
}

/* Answer with a host and, as field 16, lifetimes of up to 64 bytes. */
static enum err decode(const void *p, uint8_t n)
{
    uint8_t bytes[69] = {0x0a, 0, 0x82, 0x01, n};
    struct wire_answer *a;
    enum err e;

    memcpy(bytes + 5, p, n);
    e = wire_answer_decode(&a, bytes, 5u + n);
    if (!e) {
        wire_answer_free(a);
    }
    return e;
}

static void hostile_columns_are_refused(void **state)
{
    /* One process with every column; its name. */
    static const uint8_t sound[] = {
        0x12, 1, 0, 0x1a, 1, 0, 0x22, 1, 0, 0x2a, 1, 0, 0x32, 1, 0, 0x3a, 1, 5, 0x42, 1, 0, 0x4a,
        8,    0, 0, 0,    0, 0, 0,    0, 0, 0x52, 1, 1, 0x5a, 1, 0, 0x62, 1, 1, 0x6a, 0};
    static const struct {
        uint8_t at, is;
    } wrong[] = {{5, 5} /* life -3 */,   {8, 1},  {11, 1}, {14, 1},
                 {20, 2} /* parent 1 */, {33, 3}, {39, 3} /* CPU -2 */};
    uint8_t bytes[sizeof sound];

    (void)state;
    assert_ok(decode(sound, sizeof sound));
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        memcpy(bytes, sound, sizeof sound);
        bytes[wrong[i].at] = wrong[i].is;
        assert_err(decode(bytes, sizeof bytes), ERR_CORRUPT);
    }
    for (uint8_t n = 1; n < sizeof sound; n++) { /* columns of unequal length, or a name short */
        assert_err(decode(sound, n), ERR_CORRUPT);
    }
    assert_err(decode("\x82\x01\x01\x05", 4), ERR_CORRUPT);         /* starts without ends */
    assert_err(decode("\x92\x01\x03\x12\x01\x05", 6), ERR_CORRUPT); /* an image's alone */
    assert_err(decode("\x92\x01\x00", 3), ERR_CORRUPT);             /* an image without a name */
    assert_err(decode("\x6a\x01\xff", 3), ERR_CORRUPT);             /* a name that is no UTF-8 */
}

static void more_rows_than_allowed_are_refused(void **state)
{
    static uint8_t many[WIRE_LIVES_MAX + 16] = {0x82, 0x01, 0xd5, 0x86, 0x03,
                                                0x12, 0xd1, 0x86, 0x03};
    struct wire_answer *a;

    (void)state;
    assert_err(wire_answer_decode(&a, many, 9 + WIRE_LIVES_MAX + 1), ERR_FULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lifetimes_come_back_as_they_were),
        cmocka_unit_test(what_is_not_told_counts_as_measured),
        cmocka_unit_test(nothing_at_all_is_an_answer_too),
        cmocka_unit_test(the_largest_answer_fits),
        cmocka_unit_test(columns_out_of_range_are_neither_sent_nor_believed),
        cmocka_unit_test(hostile_columns_are_refused),
        cmocka_unit_test(more_rows_than_allowed_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
