/* Messages that are plain data, each behind one shape, so that every rule is tried on all of them.
 * Threads: one. */
#ifndef PROCFLEET_TESTS_COMMON_WIRE_WIRE_SHAPE_H
#define PROCFLEET_TESTS_COMMON_WIRE_WIRE_SHAPE_H

#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "tests/support/t.h"

struct wire_shape {
    enum err (*put)(struct buf *out, const void *m);
    enum err (*get)(void *m, const void *p, size_t n);
    const void *sample;
    size_t size;
};

struct wire_shapes {
    const struct wire_shape *p;
    size_t n;
};

/* Defines what WIRE_SHAPE_ROW(KIND) needs, for struct wire_KIND and wire_CODE_encode and _decode;
 * behind it the sample's braces. */
#define WIRE_SHAPE(kind, code, ...)                              \
    static enum err put_##kind(struct buf *out, const void *m)   \
    {                                                            \
        return wire_##code##_encode(out, m);                     \
    }                                                            \
    static enum err get_##kind(void *m, const void *p, size_t n) \
    {                                                            \
        return wire_##code##_decode(m, p, n);                    \
    }                                                            \
    static const struct wire_##kind sample_##kind = __VA_ARGS__;

#define WIRE_SHAPE_ROW(kind)                                         \
    {                                                                \
        put_##kind, get_##kind, &sample_##kind, sizeof sample_##kind \
    }

/* The tests below, for one struct wire_shapes. */
#define WIRE_SHAPE_TESTS(all)                                                                \
    cmocka_unit_test_prestate(messages_come_back_as_they_were, &(all)),                      \
        cmocka_unit_test_prestate(every_shorter_message_is_refused_or_lacks_fields, &(all)), \
        cmocka_unit_test_prestate(a_refused_message_changes_nothing, &(all)),                \
        cmocka_unit_test_prestate(unknown_fields_meet_the_budget, &(all)),                   \
        cmocka_unit_test_prestate(every_failed_allocation_is_survived, &(all))

/* Sent as `m`. */
static inline void wire_shape_assert_same(const struct wire_shape *s, const void *m)
{
    void *out = mem_zalloc(s->size);
    struct buf b;

    assert_non_null(out);
    buf_init(&b, 4096);
    assert_ok(s->put(&b, m));
    assert_ok(s->get(out, b.p, b.n));
    assert_memory_equal(out, m, s->size);
    buf_fini(&b);
    mem_free(out);
}

static inline void messages_come_back_as_they_were(void **state)
{
    const struct wire_shapes *shapes = *state;

    for (size_t i = 0; i < shapes->n; i++) {
        void *zeros = mem_zalloc(shapes->p[i].size);

        assert_non_null(zeros);
        wire_shape_assert_same(&shapes->p[i], shapes->p[i].sample);
        wire_shape_assert_same(&shapes->p[i], zeros);
        mem_free(zeros);
    }
}

/* Protobuf cannot tell a message cut between two fields from one without the later fields. */
static inline void every_shorter_message_is_refused_or_lacks_fields(void **state)
{
    const struct wire_shapes *shapes = *state;

    for (size_t i = 0; i < shapes->n; i++) {
        const struct wire_shape *s = &shapes->p[i];
        void *out = mem_zalloc(s->size);
        size_t refused = 0;
        struct buf b;

        assert_non_null(out);
        buf_init(&b, 4096);
        assert_ok(s->put(&b, s->sample));
        for (size_t n = 0; n < b.n; n++) {
            enum err e = s->get(out, b.p, n);

            assert_true(e == ERR_OK || e == ERR_CORRUPT);
            refused += e != ERR_OK;
        }
        assert_true(refused > 0);
        buf_fini(&b);
        mem_free(out);
    }
}

static inline void a_refused_message_changes_nothing(void **state)
{
    const struct wire_shapes *shapes = *state;

    for (size_t i = 0; i < shapes->n; i++) {
        const struct wire_shape *s = &shapes->p[i];
        void *out = mem_zalloc(s->size);

        assert_non_null(out);
        memcpy(out, s->sample, s->size);
        assert_err(s->get(out, "\x0a\xff", 2), ERR_CORRUPT);
        assert_memory_equal(out, s->sample, s->size);
        mem_free(out);
    }
}

static inline void unknown_fields_meet_the_budget(void **state)
{
    enum { N = 300000 };
    static uint8_t many[3 * N];
    const struct wire_shapes *shapes = *state;

    for (size_t i = 0; i < N; i++) {
        memcpy(many + 3 * i, "\xf8\x07\x01", 3); /* field 127 = 1 */
    }
    for (size_t i = 0; i < shapes->n; i++) {
        const struct wire_shape *s = &shapes->p[i];
        void *out = mem_zalloc(s->size);
        long live = mem_live();

        assert_non_null(out);
        assert_ok(s->get(out, many, 30));
        assert_err(s->get(out, many, sizeof many), ERR_FULL);
        assert_int_equal(mem_live(), live);
        mem_free(out);
    }
}

static inline void wire_shape_run_short(const struct wire_shape *s, void *out)
{
    long live = mem_live();
    enum err e = ERR_NOMEM;

    for (long k = 0; e; k++) {
        struct buf b;

        buf_init(&b, 4096);
        mem_fail_after(k);
        e = s->put(&b, s->sample);
        if (!e) {
            e = s->get(out, b.p, b.n);
        }
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        buf_fini(&b);
        assert_int_equal(mem_live(), live);
        assert_true(k < 50);
    }
}

static inline void every_failed_allocation_is_survived(void **state)
{
    const struct wire_shapes *shapes = *state;

    for (size_t i = 0; i < shapes->n; i++) {
        void *out = mem_zalloc(shapes->p[i].size);

        assert_non_null(out);
        wire_shape_run_short(&shapes->p[i], out);
        mem_free(out);
    }
}

#endif
