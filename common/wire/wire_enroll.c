#include "common/wire/wire_enroll.h"

#include "common/wire/wire_table.h"
#include "proto/rpc.pb-c.h"

#define PACK_BYTES (4u << 10) /* memory to repair text in */

#define OF struct wire_enroll, Procfleet__V1__EnrollRequest
static const struct wire_field enroll_fields[] = {
    WIRE_CHARS(token), WIRE_DER(csr), WIRE_CHARS(name), WIRE_CHARS(version), WIRE_END,
};
#undef OF
const struct wire_table wire_enroll_table = WIRE_TABLE(wire_enroll, enroll_request, enroll_fields);

#define OF struct wire_renew, Procfleet__V1__RenewRequest
static const struct wire_field renew_fields[] = {WIRE_DER(csr), WIRE_END};
#undef OF
const struct wire_table wire_enroll_renew_table =
    WIRE_TABLE(wire_renew, renew_request, renew_fields);

#define OF struct wire_renew_expired, Procfleet__V1__RenewExpiredRequest
static const struct wire_field renew_expired_fields[] = {
    WIRE_DER(csr),
    WIRE_DER(certificate),
    WIRE_DER(signature),
    WIRE_END,
};
#undef OF
const struct wire_table wire_enroll_renew_expired_table =
    WIRE_TABLE(wire_renew_expired, renew_expired_request, renew_expired_fields);

#define OF struct wire_certificate, Procfleet__V1__CertificateReply
static const struct wire_field certificate_fields[] = {
    WIRE_DER(certificate),
    WIRE_DER(authority),
    WIRE_NUM(now_ns),
    WIRE_END,
};
#undef OF
const struct wire_table wire_enroll_certificate_table =
    WIRE_TABLE(wire_certificate, certificate_reply, certificate_fields);

WIRE_TABLE_PLAIN(wire_enroll, wire_enroll, wire_enroll_table, PACK_BYTES)
WIRE_TABLE_PLAIN(wire_enroll_renew, wire_renew, wire_enroll_renew_table, PACK_BYTES)
WIRE_TABLE_PLAIN(wire_enroll_renew_expired, wire_renew_expired, wire_enroll_renew_expired_table,
                 PACK_BYTES)
WIRE_TABLE_PLAIN(wire_enroll_certificate, wire_certificate, wire_enroll_certificate_table,
                 PACK_BYTES)
