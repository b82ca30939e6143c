/* Random messages of every kind, drawn from their descriptors: what each is decoded to is encoded
 * again. The hash of all errors and bytes of a kind was noted when the fields were still copied one
 * by one (wire_table.h); fields that are added to a message change it. */
#include <inttypes.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/hash.h"
#include "common/wire/wire_admin.h"
#include "common/wire/wire_enroll.h"
#include "common/wire/wire_feed.h"
#include "common/wire/wire_query.h"
#include "common/wire/wire_rpc.h"
#include "common/wire/wire_run.h"
#include "common/wire/wire_web.h"
#include "proto/query.pb-c.h"
#include "proto/rpc.pb-c.h"
#include "tests/support/t.h"

#define MESSAGES 3000
#define OUT_MAX  (8u << 20)
#define ROOM     (64u << 20)

static struct arena arena;
static uint64_t seed;
static bool wild; /* a field is still to break a rule: one, so that there is one error */
static unsigned depth;

static unsigned draw(unsigned below)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (unsigned)((seed >> 33) % below);
}

/* -- messages -- */

static ProtobufCBinaryData draw_bytes(bool tame)
{
    static const uint16_t sizes[] = {0,   1,   15,  17,  31,  32,   33,   63,   64,   65,   128,
                                     129, 256, 257, 512, 513, 1024, 1025, 2048, 8193, 17000};
    ProtobufCBinaryData b = {tame ? 16 : sizes[draw(COUNT_OF(sizes))], NULL};

    b.data = arena_alloc(&arena, b.len + 1);
    for (size_t i = 0; i < b.len; i++) {
        b.data[i] = (uint8_t)("/abcdefghijklmno"[draw(16)]);
    }
    if (!tame && b.len && draw(4) == 0) {
        b.data[draw((unsigned)b.len)] = (uint8_t)draw(256);
    }
    if (tame) {
        b.data[0] = (uint8_t) "/az"[draw(3)];
    }
    return b;
}

static uint64_t draw_number(bool tame)
{
    static const uint64_t numbers[] = {4,
                                       5,
                                       6,
                                       99,
                                       100,
                                       255,
                                       256,
                                       599,
                                       600,
                                       65535,
                                       65536,
                                       1000000,
                                       1u << 20,
                                       64u << 20,
                                       INT32_MAX,
                                       UINT32_MAX,
                                       UINT64_C(1) << 32,
                                       INT64_MAX,
                                       UINT64_C(1) << 63,
                                       UINT64_MAX};

    return tame ? draw(4) : numbers[draw(COUNT_OF(numbers))];
}

static ProtobufCMessage *draw_message(const ProtobufCMessageDescriptor *type);

static size_t size_of(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(ProtobufCMessage *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return sizeof(uint32_t);
    default:
        return sizeof(uint64_t);
    }
}

static void draw_value(void *to, const ProtobufCFieldDescriptor *f, bool tame)
{
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        ProtobufCMessage *m = draw_message(f->descriptor);

        memcpy(to, &m, sizeof m);
    } else if (f->type == PROTOBUF_C_TYPE_BYTES) {
        ProtobufCBinaryData b = draw_bytes(tame);

        memcpy(to, &b, sizeof b);
    } else if (f->type == PROTOBUF_C_TYPE_BOOL) {
        protobuf_c_boolean b = (protobuf_c_boolean)draw(2);

        memcpy(to, &b, sizeof b);
    } else {
        uint64_t v = draw_number(tame);

        memcpy(to, &v, size_of(f));
    }
}

static void draw_field(uint8_t *m, const ProtobufCFieldDescriptor *f)
{
    static const unsigned counts[] = {5, 8, 9, 16, 17, 64, 65, 128, 256, 257};
    bool tame = !wild || draw(8) != 0;

    wild = wild && tame;
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t n = tame || depth > 1 ? draw(4) : counts[draw(COUNT_OF(counts))];
        uint8_t *list = arena_array(&arena, n, size_of(f));

        for (size_t i = 0; i < n; i++) {
            draw_value(list + i * size_of(f), f, true);
        }
        memcpy(m + f->quantifier_offset, &n, sizeof n);
        memcpy(m + f->offset, &list, sizeof list);
    } else if (draw(4)) {
        const protobuf_c_boolean has = 1;

        draw_value(m + f->offset, f, tame);
        if (f->type != PROTOBUF_C_TYPE_MESSAGE) {
            memcpy(m + f->quantifier_offset, &has, sizeof has);
        }
    }
}

/* Columns and rows have rules that chance seldom keeps: these are the tests' of their own. */
static void tame_answer(Procfleet__V1__Answer *m)
{
    m->series = NULL;
    m->lifetimes = NULL;
    m->n_metrics_high = m->n_metrics = 0;
    m->n_rows = m->n_infos && m->n_hosts ? m->n_rows : 0;
    for (size_t i = 0; i < m->n_rows; i++) {
        m->rows[i]->info = m->rows[i]->host = 0;
        m->rows[i]->n_values = 0;
        m->rows[i]->have = 0;
        m->rows[i]->high = NULL;
    }
    m->n_trends = m->n_trends == m->n_rows ? m->n_rows : 0;
    m->n_outliers = m->n_outliers == m->n_rows && m->n_outlier_classes ? m->n_rows : 0;
    m->n_outlier_classes = m->n_outliers ? m->n_outlier_classes : 0;
    for (size_t i = 0; i < m->n_outliers && draw(8); i++) {
        m->outliers[i]->class_ = 0;
    }
    if (draw(2)) {
        m->n_providers = 0;
    } else {
        m->n_events = 0;
        m->n_providers = m->n_event_types < m->n_providers ? m->n_event_types : m->n_providers;
        m->n_event_types = m->n_providers;
    }
    for (size_t i = 0; i < m->n_coverage && draw(8); i++) {
        m->coverage[i]->host = 0;
    }
    m->n_coverage = m->n_hosts ? m->n_coverage : 0;
    m->n_boots = m->n_hosts ? m->n_boots : 0;
    for (size_t i = 0; i < m->n_boots && draw(8); i++) {
        m->boots[i]->host = 0;
    }
    m->n_events = m->n_hosts ? m->n_events : 0;
    for (size_t i = 0; i < m->n_events && draw(8); i++) {
        m->events[i]->host = 0;
    }
    m->n_providers = m->n_hosts ? m->n_providers : 0;
    for (size_t i = 0; i < m->n_providers && draw(8); i++) {
        m->providers[i]->host = 0;
    }
}

static void tame_labels(Procfleet__V1__Label **labels, size_t n)
{
    for (size_t i = 0; i < n && draw(8); i++) {
        labels[i]->has_key = labels[i]->has_value = 1;
        labels[i]->key = labels[i]->value = draw_bytes(true);
        labels[i]->key.data[0] = (uint8_t)('a' + i % 26);
    }
}

static ProtobufCMessage *draw_message(const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *m = arena_alloc(&arena, type->sizeof_message);

    assert_non_null(m);
    protobuf_c_message_init(type, m);
    depth++;
    for (unsigned i = 0; i < type->n_fields; i++) {
        draw_field((uint8_t *)m, &type->fields[i]);
    }
    depth--;
    if (type == &procfleet__v1__answer__descriptor) {
        tame_answer((Procfleet__V1__Answer *)m);
    } else if (type == &procfleet__v1__host__descriptor) {
        tame_labels(((Procfleet__V1__Host *)m)->labels, ((Procfleet__V1__Host *)m)->n_labels);
    } else if (type == &procfleet__v1__hello_request__descriptor) {
        tame_labels(((Procfleet__V1__HelloRequest *)m)->labels,
                    ((Procfleet__V1__HelloRequest *)m)->n_labels);
    } else if (type == &procfleet__v1__overview__descriptor) {
        Procfleet__V1__Overview *o = (Procfleet__V1__Overview *)m;

        o->next_tier = draw(8) && o->n_tiers < o->next_tier ? 0 : o->next_tier;
    } else if (type == &procfleet__v1__web_reply__descriptor && draw(8)) {
        ((Procfleet__V1__WebReply *)m)->status = 599;
    }
    return m;
}

/* -- there and back -- */

/* How it is decoded, its message, what its functions or kind are called, its struct, the hash. */
#define KINDS(OWNED, PLAIN, RUN)                                                               \
    OWNED(answer, wire_answer, wire_answer, 0x05ed5a37d9ebbd9b)                                \
    OWNED(query_request, wire_query, wire_query, 0xbb9bd5d25d0746d5)                           \
    OWNED(update, wire_update, wire_update, 0x8e921bc1a10b927c)                                \
    OWNED(fetch_request, wire_feed_fetch, wire_fetch, 0x5d584d99aaf7c21d)                      \
    OWNED(fetch_reply, wire_feed_fetch_reply, wire_fetch_reply, 0x3aa5bb90ac0454d3)            \
    OWNED(poll_request, wire_feed_poll, wire_poll, 0x4d498a2921fb78fa)                         \
    OWNED(poll_reply, wire_feed_poll_reply, wire_poll_reply, 0x8481f08c1c45a932)               \
    OWNED(subscriptions_reply, wire_feed_subscriptions_reply, wire_subscriptions_reply,        \
          0x3f59c3ec0c60530c)                                                                  \
    OWNED(unsubscribe_request, wire_feed_unsubscribe, wire_unsubscribe, 0x43b9911e19804cfc)    \
    OWNED(status_reply, wire_admin_status_reply, wire_status_reply, 0x51238258a8e6107b)        \
    OWNED(web_request, wire_web_request, wire_web_request, 0x3cb7005d566d979c)                 \
    OWNED(web_reply, wire_web_reply, wire_web_reply, 0x38565c698f5f9ca3)                       \
    PLAIN(server_info, wire_query_server_info, wire_server_info, 0xecc747ee686c9a6c)           \
    PLAIN(disconnect_request, wire_admin_disconnect, wire_disconnect, 0x390418ebb18c7280)      \
    PLAIN(disconnect_reply, wire_admin_disconnect_reply, wire_disconnect_reply,                \
          0x36156f405c961d19)                                                                  \
    PLAIN(set_log_level_request, wire_admin_log_level, wire_log_level, 0x3516e117e305be3e)     \
    PLAIN(set_log_level_reply, wire_admin_log_level_reply, wire_log_level_reply,               \
          0x3516e117e305be3e)                                                                  \
    PLAIN(forget_host_request, wire_admin_forget, wire_forget, 0x390418ebb18c7280)             \
    PLAIN(forget_host_reply, wire_admin_forget_reply, wire_forget_reply, 0x36156f405c961d19)   \
    PLAIN(enroll_request, wire_enroll, wire_enroll, 0x270d2406043456a7)                        \
    PLAIN(renew_request, wire_enroll_renew, wire_renew, 0x34ceb60b2354e516)                    \
    PLAIN(renew_expired_request, wire_enroll_renew_expired, wire_renew_expired,                \
          0xdf6adf5be133a921)                                                                  \
    PLAIN(certificate_reply, wire_enroll_certificate, wire_certificate, 0x5aced0ff87e7e637)    \
    PLAIN(hello_request, wire_rpc_hello, wire_hello, 0x0110a411e5b1a56c)                       \
    PLAIN(hello_reply, wire_rpc_hello_reply, wire_hello_reply, 0xa6992b609ecd25af)             \
    PLAIN(push_reply, wire_rpc_push_reply, wire_push_reply, 0xf54b93057ddbca52)                \
    PLAIN(heartbeat_request, wire_rpc_heartbeat, wire_heartbeat, 0x24b38e4277e63b8a)           \
    PLAIN(heartbeat_reply, wire_rpc_heartbeat_reply, wire_heartbeat_reply, 0xf21b52395c62da2a) \
    RUN(run_mark, run_mark, WIRE_RUN_MARK, 0xb7d8605c4fe7f8bc)                                 \
    RUN(run_state, run_state, WIRE_RUN_RUN, 0x2f20bac390b73315)                                \
    RUN(runs_request, runs_request, WIRE_RUN_ASK, 0xaaec9e17b985273e)                          \
    RUN(runs_reply, runs_reply, WIRE_RUN_LIST, 0xd84cbe4c976abb81)                             \
    RUN(run_get_request, run_get_request, WIRE_RUN_FETCH, 0x036e22a0f42367e7)                  \
    RUN(run_part, run_part, WIRE_RUN_PART, 0x9823e7dc4768c8dd)

#define OWNED(message, name, type, hash)                                      \
    static enum err message##_again(struct buf *out, const void *p, size_t n) \
    {                                                                         \
        struct type *m;                                                       \
        enum err e = name##_decode(&m, p, n);                                 \
                                                                              \
        if (!e) {                                                             \
            e = name##_encode(out, m);                                        \
            name##_free(m);                                                   \
        }                                                                     \
        return e;                                                             \
    }
#define PLAIN(message, name, type, hash)                                      \
    static enum err message##_again(struct buf *out, const void *p, size_t n) \
    {                                                                         \
        struct type m;                                                        \
        enum err e = name##_decode(&m, p, n);                                 \
                                                                              \
        return e ? e : name##_encode(out, &m);                                \
    }
#define RUN(message, name, kind, hash)                                        \
    static enum err message##_again(struct buf *out, const void *p, size_t n) \
    {                                                                         \
        void *m;                                                              \
        enum err e = wire_run_decode(&m, kind, p, n);                         \
                                                                              \
        if (!e) {                                                             \
            e = wire_run_encode(out, kind, m);                                \
            wire_run_free(m);                                                 \
        }                                                                     \
        return e;                                                             \
    }
KINDS(OWNED, PLAIN, RUN)

static const struct kind {
    const ProtobufCMessageDescriptor *type;
    enum err (*again)(struct buf *out, const void *p, size_t n);
    uint64_t hash;
} kinds[] = {
#define KIND(message, name, type, hash) \
    {&procfleet__v1__##message##__descriptor, message##_again, UINT64_C(hash)},
    KINDS(KIND, KIND, KIND)
#undef KIND
};

static uint64_t hash_of_kind(const struct kind *k, size_t *good)
{
    uint64_t hash = 0;

    seed = 1;
    *good = 0;
    for (size_t i = 0; i < MESSAGES; i++) {
        const ProtobufCMessage *m;
        struct buf b;
        uint8_t *p;
        enum err e;

        arena_reset(&arena);
        wild = i % 2;
        m = draw_message(k->type);
        p = arena_alloc(&arena, protobuf_c_message_get_packed_size(m) + 1);
        buf_init(&b, OUT_MAX);
        e = k->again(&b, p, protobuf_c_message_pack(m, p));
        if (getenv("WIRE_BYTES_LOG")) {
            printf("%s %zu %d %zu %" PRIx64 "\n", k->type->short_name, i, e, b.n,
                   hash_bytes(b.n ? b.p : (const uint8_t *)"", b.n, 0));
        }
        *good += !e;
        hash = hash_bytes(b.n ? b.p : (const uint8_t *)"", b.n, hash + (uint64_t)e);
        buf_fini(&b);
    }
    return hash;
}

static void errors_and_bytes_are_what_they_were(void **state)
{
    size_t good, other = 0;

    (void)state;
    arena_init(&arena, ROOM);
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        uint64_t hash = hash_of_kind(&kinds[i], &good);

        if (hash != kinds[i].hash || good < MESSAGES / 8) {
            printf("%s: 0x%016" PRIx64 ", %zu of %d are good\n", kinds[i].type->short_name, hash,
                   good, MESSAGES);
            other++;
        }
    }
    arena_fini(&arena);
    assert_int_equal(other, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors_and_bytes_are_what_they_were)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
