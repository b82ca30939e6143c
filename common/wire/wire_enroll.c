#include "common/wire/wire_enroll.h"

#include "common/wire/wire.h"
#include "proto/rpc.pb-c.h"

#define PACK_BYTES (4u << 10) /* memory to repair text in */

/* Bytes of a field into an array; absent is none. */
static bool get_bytes(uint8_t *to, size_t *n, size_t max, protobuf_c_boolean has,
                      const ProtobufCBinaryData *from)
{
    *n = has ? from->len : 0;
    if (*n > max) {
        return false;
    }
    if (*n > 0) {
        memcpy(to, from->data, *n);
    }
    return true;
}

static void put_bytes(protobuf_c_boolean *has, ProtobufCBinaryData *to, const uint8_t *p, size_t n)
{
    to->data = (uint8_t *)(uintptr_t)p;
    to->len = n;
    *has = n > 0;
}

/* A field and the member of the same name, with its length in NAME_n. */
#define GET(out, m, field) \
    get_bytes((out)->field, &(out)->field##_n, sizeof(out)->field, (m)->has_##field, &(m)->field)
#define PUT(m, in, field) put_bytes(&(m)->has_##field, &(m)->field, (in)->field, (in)->field##_n)

#define GET_TEXT(out, m, field) \
    wire_text_copy((out)->field, sizeof(out)->field, (m)->has_##field, &(m)->field)
#define PUT_TEXT(m, in, field, a)                                                               \
    wire_text_put(&(m)->has_##field, &(m)->field, wire_text_of((in)->field, sizeof(in)->field), \
                  sizeof(in)->field - 1, a)

enum err wire_enroll_encode(struct buf *out, const struct wire_enroll *in)
{
    Procfleet__V1__EnrollRequest m = PROCFLEET__V1__ENROLL_REQUEST__INIT;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, PACK_BYTES);
    PUT(&m, in, csr);
    e = PUT_TEXT(&m, in, token, &a);
    if (!e) {
        e = PUT_TEXT(&m, in, name, &a);
    }
    if (!e) {
        e = PUT_TEXT(&m, in, version, &a);
    }
    if (!e) {
        e = wire_pack(out, &m);
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_enroll_decode(struct wire_enroll *out, const void *p, size_t n)
{
    struct wire_enroll v = {.csr_n = 0};
    Procfleet__V1__EnrollRequest *m;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, 0);
    e = wire_unpack(&m, &a, &procfleet__v1__enroll_request__descriptor, p, n);
    if (!e && !(GET(&v, m, csr) && GET_TEXT(&v, m, token) && GET_TEXT(&v, m, name) &&
                GET_TEXT(&v, m, version))) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        *out = v;
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_enroll_renew_encode(struct buf *out, const struct wire_renew *in)
{
    Procfleet__V1__RenewRequest m = PROCFLEET__V1__RENEW_REQUEST__INIT;

    PUT(&m, in, csr);
    return wire_pack(out, &m);
}

enum err wire_enroll_renew_decode(struct wire_renew *out, const void *p, size_t n)
{
    struct wire_renew v = {.csr_n = 0};
    Procfleet__V1__RenewRequest *m;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, 0);
    e = wire_unpack(&m, &a, &procfleet__v1__renew_request__descriptor, p, n);
    if (!e && !GET(&v, m, csr)) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        *out = v;
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_enroll_renew_expired_encode(struct buf *out, const struct wire_renew_expired *in)
{
    Procfleet__V1__RenewExpiredRequest m = PROCFLEET__V1__RENEW_EXPIRED_REQUEST__INIT;

    PUT(&m, in, csr);
    PUT(&m, in, certificate);
    PUT(&m, in, signature);
    return wire_pack(out, &m);
}

enum err wire_enroll_renew_expired_decode(struct wire_renew_expired *out, const void *p, size_t n)
{
    struct wire_renew_expired v = {.csr_n = 0};
    Procfleet__V1__RenewExpiredRequest *m;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, 0);
    e = wire_unpack(&m, &a, &procfleet__v1__renew_expired_request__descriptor, p, n);
    if (!e && !(GET(&v, m, csr) && GET(&v, m, certificate) && GET(&v, m, signature))) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        *out = v;
    }
    wire_arena_fini(&a);
    return e;
}

enum err wire_enroll_certificate_encode(struct buf *out, const struct wire_certificate *in)
{
    Procfleet__V1__CertificateReply m = PROCFLEET__V1__CERTIFICATE_REPLY__INIT;

    PUT(&m, in, certificate);
    PUT(&m, in, authority);
    m.now_ns = in->now_ns;
    m.has_now_ns = in->now_ns != 0;
    return wire_pack(out, &m);
}

enum err wire_enroll_certificate_decode(struct wire_certificate *out, const void *p, size_t n)
{
    struct wire_certificate v = {.certificate_n = 0};
    Procfleet__V1__CertificateReply *m;
    struct wire_arena a;
    enum err e;

    wire_arena_init(&a, 0);
    e = wire_unpack(&m, &a, &procfleet__v1__certificate_reply__descriptor, p, n);
    if (!e && !(GET(&v, m, certificate) && GET(&v, m, authority))) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        v.now_ns = m->now_ns;
        *out = v;
    }
    wire_arena_fini(&a);
    return e;
}
