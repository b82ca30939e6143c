/* The Admin service, to and from protobuf bytes, under the rules of wire.h. Decoded messages are
 * released with their `_free`; encoders only read. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_WIRE_ADMIN_H
#define PROCFLEET_COMMON_WIRE_ADMIN_H

#include "common/buf.h"
#include "common/err.h"
#include "common/model.h"

#define RPC_ADMIN_STATUS        "procfleet.v1.Admin/Status"
#define RPC_ADMIN_DISCONNECT    "procfleet.v1.Admin/Disconnect"
#define RPC_ADMIN_SET_LOG_LEVEL "procfleet.v1.Admin/SetLogLevel"

#define WIRE_FIGURES_MAX 512u

struct wire_figure {
    struct str name, labels, help;
    double value;
};

struct wire_status_reply {
    struct str version;
    int64_t started_ns, now_ns; /* UTC, collector's clock */
    size_t n;
    const struct wire_figure *figures;
};

/* For each: Errors of encoding: ERR_FULL (buf), ERR_INVALID (over a bound), ERR_NOMEM; of decoding:
 * ERR_CORRUPT, ERR_FULL (over a bound), ERR_NOMEM. */
NODISCARD enum err wire_status_reply_encode(struct buf *out, const struct wire_status_reply *in);
NODISCARD enum err wire_status_reply_decode(struct wire_status_reply **out, const void *p,
                                            size_t n);
void wire_status_reply_free(struct wire_status_reply *m);

/* The texts borrow from p. */
NODISCARD enum err wire_disconnect_encode(struct buf *out, struct str host);
NODISCARD enum err wire_disconnect_decode(struct str *host, const void *p, size_t n);
NODISCARD enum err wire_disconnect_reply_encode(struct buf *out, uint32_t connections);
NODISCARD enum err wire_disconnect_reply_decode(uint32_t *connections, const void *p, size_t n);
NODISCARD enum err wire_log_level_encode(struct buf *out, struct str level);
NODISCARD enum err wire_log_level_decode(struct str *level, const void *p, size_t n);
NODISCARD enum err wire_log_level_reply_encode(struct buf *out, struct str before);
NODISCARD enum err wire_log_level_reply_decode(struct str *before, const void *p, size_t n);

#endif
