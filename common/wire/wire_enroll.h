/* Requests and replies about certificates: Enroll/Enroll, Enroll/RenewExpired, Ingest/Renew; to
 * and from protobuf bytes (wire_enroll.c), under the same rules as wire_batch.h. Everything
 * decoded is held in arrays of the struct: nothing to release. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_ENROLL_H
#define PROCFLEET_COMMON_WIRE_WIRE_ENROLL_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/model/model.h"

#define RPC_ENROLL_ENROLL        "procfleet.v1.Enroll/Enroll"
#define RPC_ENROLL_RENEW_EXPIRED "procfleet.v1.Enroll/RenewExpired"
#define RPC_INGEST_RENEW         "procfleet.v1.Ingest/Renew"

#define WIRE_TOKEN_MAX     127u  /* bytes of a token's text */
#define WIRE_CSR_MAX       1024u /* bytes, DER */
#define WIRE_CERT_MAX      2048u /* bytes, DER */
#define WIRE_SIGNATURE_MAX 128u

struct wire_enroll {
    char token[WIRE_TOKEN_MAX + 1];
    char name[64]; /* host name asked for */
    char version[32];
    uint8_t csr[WIRE_CSR_MAX];
    size_t csr_n;
};

struct wire_renew {
    uint8_t csr[WIRE_CSR_MAX];
    size_t csr_n;
};

struct wire_renew_expired {
    uint8_t csr[WIRE_CSR_MAX];
    size_t csr_n;
    uint8_t certificate[WIRE_CERT_MAX];
    size_t certificate_n;
    uint8_t signature[WIRE_SIGNATURE_MAX];
    size_t signature_n;
};

struct wire_certificate {
    uint8_t certificate[WIRE_CERT_MAX];
    size_t certificate_n;
    uint8_t authority[WIRE_CERT_MAX];
    size_t authority_n;
    int64_t now_ns; /* collector's clock, UTC */
};

/* Errors of decoding: ERR_CORRUPT (not the message, or a part over its bound), ERR_NOMEM */
NODISCARD enum err wire_enroll_encode(struct buf *out, const struct wire_enroll *m);
NODISCARD enum err wire_enroll_decode(struct wire_enroll *m, const void *p, size_t n);
NODISCARD enum err wire_enroll_renew_encode(struct buf *out, const struct wire_renew *m);
NODISCARD enum err wire_enroll_renew_decode(struct wire_renew *m, const void *p, size_t n);
NODISCARD enum err wire_enroll_renew_expired_encode(struct buf *out,
                                                    const struct wire_renew_expired *m);
NODISCARD enum err wire_enroll_renew_expired_decode(struct wire_renew_expired *m, const void *p,
                                                    size_t n);
NODISCARD enum err wire_enroll_certificate_encode(struct buf *out,
                                                  const struct wire_certificate *m);
NODISCARD enum err wire_enroll_certificate_decode(struct wire_certificate *m, const void *p,
                                                  size_t n);

#endif
