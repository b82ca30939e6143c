/* The tables of common/wire against the generated descriptors: each field of each message once, or
 * named as left out, of a type that the member can hold. */
#include "common/wire/wire_table.h"

#include <string.h>

#include "common/wire/wire_run.h"
#include "proto/query.pb-c.h"
#include "tests/support/t.h"

#define TABLES(X)                  \
    X(wire_admin_disconnect)       \
    X(wire_admin_disconnect_reply) \
    X(wire_admin_forget)           \
    X(wire_admin_forget_reply)     \
    X(wire_admin_log_level)        \
    X(wire_admin_log_level_reply)  \
    X(wire_admin_status)           \
    X(wire_answer)                 \
    X(wire_answer_trend)           \
    X(wire_answer_boot)            \
    X(wire_enroll)                 \
    X(wire_enroll_certificate)     \
    X(wire_enroll_renew)           \
    X(wire_enroll_renew_expired)   \
    X(wire_facts)                  \
    X(wire_feed_fetch)             \
    X(wire_feed_fetch_reply)       \
    X(wire_feed_poll)              \
    X(wire_feed_poll_reply)        \
    X(wire_feed_subscriptions)     \
    X(wire_feed_unsubscribe)       \
    X(wire_answer_outlier)         \
    X(wire_answer_outlier_class)   \
    X(wire_answer_provider)        \
    X(wire_query)                  \
    X(wire_query_server_info)      \
    X(wire_rpc_heartbeat)          \
    X(wire_rpc_heartbeat_reply)    \
    X(wire_rpc_hello)              \
    X(wire_rpc_hello_reply)        \
    X(wire_rpc_push_reply)         \
    X(wire_web_reply)              \
    X(wire_web_request)

#define DECLARE(name) extern const struct wire_table name##_table;
TABLES(DECLARE)
extern const struct wire_table *const wire_run_tables[];

static size_t n_fields;

#define TYPE(name) (1u << PROTOBUF_C_TYPE_##name)
#define SMALL      (TYPE(UINT32) | TYPE(SINT32) | TYPE(FIXED32))
#define LARGE      (TYPE(UINT64) | TYPE(SINT64) | TYPE(FIXED64) | TYPE(SFIXED64) | TYPE(DOUBLE))

/* What a kind's field may be, and the bytes of the member, if all of the kind have as many. */
static const struct {
    uint32_t types;
    bool list;
    size_t width;
} kinds[] = {
    [WIRE_KIND_BOOL] = {TYPE(BOOL), false, sizeof(bool)},
    [WIRE_KIND_8] = {TYPE(UINT32), false, sizeof(uint8_t)},
    [WIRE_KIND_32] = {SMALL, false, sizeof(uint32_t)},
    [WIRE_KIND_64] = {LARGE, false, sizeof(uint64_t)},
    [WIRE_KIND_POSITIVE] = {TYPE(UINT64), false, sizeof(int64_t)},
    [WIRE_KIND_TEXT] = {TYPE(BYTES), false, sizeof(struct str)},
    [WIRE_KIND_CHARS] = {TYPE(BYTES), false, 0},
    [WIRE_KIND_UUID] = {TYPE(BYTES), false, sizeof(struct uuid)},
    [WIRE_KIND_ID] = {TYPE(BYTES), false, sizeof(struct uuid)},
    [WIRE_KIND_BYTES] = {TYPE(BYTES), false, sizeof(struct str)},
    [WIRE_KIND_DER] = {TYPE(BYTES), false, 0},
    [WIRE_KIND_METRICS] = {TYPE(UINT32), true, 0},
    [WIRE_KIND_TEXTS] = {TYPE(BYTES), true, sizeof(void *)},
    [WIRE_KIND_TEXTS_IN] = {TYPE(BYTES), true, 0},
    [WIRE_KIND_LIST] = {TYPE(MESSAGE), true, sizeof(void *)},
    [WIRE_KIND_LIST_IN] = {TYPE(MESSAGE), true, 0},
    [WIRE_KIND_SUB] = {TYPE(MESSAGE), false, sizeof(void *)},
    [WIRE_KIND_PART] = {TYPE(MESSAGE), false, 0},
};

static size_t width_of(const struct wire_field *f)
{
    size_t each = f->each ? f->each->size : f->kind == WIRE_KIND_TEXTS_IN ? sizeof(struct str) : 1;

    return kinds[f->kind].width         ? kinds[f->kind].width
           : f->kind == WIRE_KIND_CHARS ? f->max + 1
           : f->kind == WIRE_KIND_DER   ? f->max
           : kinds[f->kind].list        ? f->list_max * each
                                        : each;
}

static size_t faults_of_row(const struct wire_table *t, const struct wire_field *f, uint8_t *taken,
                            const ProtobufCFieldDescriptor *d)
{
    size_t faults = 0, width;

    if (f->kind == WIRE_KIND_BY_HAND) {
        return 0;
    }
    width = width_of(f);
    if (!(kinds[f->kind].types >> d->type & 1) || f->ours + width > t->size ||
        kinds[f->kind].list != (d->label == PROTOBUF_C_LABEL_REPEATED) ||
        (f->each ? f->each->message != d->descriptor : f->n_theirs != d->quantifier_offset) ||
        (kinds[f->kind].list && (!f->list_max || f->n_theirs != d->quantifier_offset)) ||
        (f->n_ours < WIRE_ALWAYS && f->n_ours >= t->size) ||
        (f->n_ours < WIRE_ALWAYS && f->kind < WIRE_KIND_TEXT && f->kind != WIRE_KIND_32 &&
         f->kind != WIRE_KIND_64)) { /* wire_table_get reads no other's flag */
        printf("%s.%s: not as it is in the message\n", t->message->short_name, d->name);
        return 1;
    }
    for (size_t i = 0; i < width; i++) {
        faults += taken[f->ours + i]++ != 0; /* two fields are one member */
    }
    return faults;
}

static size_t faults_of(const struct wire_table *t)
{
    const ProtobufCMessageDescriptor *m = t->message;
    uint8_t *taken = test_calloc(t->size, 1);
    size_t faults = 0;

    for (unsigned i = 0; i < m->n_fields; i++) {
        size_t rows = 0;

        for (const struct wire_field *f = t->fields; f->kind != WIRE_KIND_END; f++) {
            if (f->theirs == m->fields[i].offset) {
                faults += faults_of_row(t, f, taken, &m->fields[i]);
                rows++;
            }
        }
        if (rows != 1) {
            printf("%s.%s: %zu rows\n", m->short_name, m->fields[i].name, rows);
            faults++;
        }
    }
    for (const struct wire_field *f = t->fields; f->kind != WIRE_KIND_END; f++) {
        faults += f->each ? faults_of(f->each) : 0;
        n_fields++;
    }
    test_free(taken);
    return faults;
}

static void every_table_is_that_of_its_message(void **state)
{
#define LIST(name) &name##_table,
    static const struct wire_table *const tables[] = {TABLES(LIST)};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(tables); i++) {
        assert_int_equal(faults_of(tables[i]), 0);
    }
    for (size_t i = 0; i <= WIRE_RUN_PART; i++) {
        assert_int_equal(faults_of(wire_run_tables[i]), 0);
    }
    assert_true(n_fields > 300);
}

struct boot {
    uint64_t host, same;
};

static void a_wrong_table_is_found(void **state)
{
#define OF struct boot, Procfleet__V1__Boot
    const struct wire_field rows[] = {
        WIRE_BY_HAND(host),
        WIRE_BY_HAND(boot),
        WIRE_NUM_AS(same, booted_ns),
        WIRE_BY_HAND(first_ns),
        WIRE_BY_HAND(last_ns),
        WIRE_BY_HAND(end),
        WIRE_END,
    };
#undef OF
    struct wire_field wrong[COUNT_OF(rows)];
    const struct wire_table t = WIRE_TABLE(boot, boot, wrong);
    const struct wire_field good = rows[2];

    (void)state;
    memcpy(wrong, rows, sizeof rows);
    assert_int_equal(faults_of(&t), 0);
    wrong[2].kind = WIRE_KIND_32;
    assert_true(faults_of(&t) > 0);
    wrong[2] = good;
    wrong[2].ours = sizeof(struct boot);
    assert_true(faults_of(&t) > 0);
    wrong[2] = good;
    wrong[2].n_theirs++;
    assert_true(faults_of(&t) > 0);
    wrong[2] = good;
    wrong[3] = good;
    wrong[3].theirs = rows[3].theirs;
    wrong[3].n_theirs = offsetof(Procfleet__V1__Boot, has_first_ns);
    assert_true(faults_of(&t) > 0); /* two fields are one member */
    wrong[3] = wrong[6];
    assert_true(faults_of(&t) > 0); /* not all of them */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_table_is_that_of_its_message),
        cmocka_unit_test(a_wrong_table_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
