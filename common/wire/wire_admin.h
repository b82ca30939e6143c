/* The Admin service, to and from protobuf bytes, under the rules of wire_batch.h. Decoded
 * messages are released with their `_free`; encoders only read. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_ADMIN_H
#define PROCFLEET_COMMON_WIRE_WIRE_ADMIN_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/model/model.h"

#define RPC_ADMIN_STATUS        "procfleet.v1.Admin/Status"
#define RPC_ADMIN_DISCONNECT    "procfleet.v1.Admin/Disconnect"
#define RPC_ADMIN_SET_LOG_LEVEL "procfleet.v1.Admin/SetLogLevel"
#define RPC_ADMIN_FORGET_HOST   "procfleet.v1.Admin/ForgetHost"

#define WIRE_FIGURES_MAX     512u
#define WIRE_FIGURE_TEXT_MAX 256u /* bytes of a name, labels or help */

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

/* The same of all: Errors of encoding: ERR_FULL (buf), ERR_INVALID (over a bound), ERR_NOMEM; of
 * decoding: ERR_CORRUPT, ERR_FULL (over a bound), ERR_NOMEM. */
NODISCARD enum err wire_admin_status_reply_encode(struct buf *out,
                                                  const struct wire_status_reply *in);
NODISCARD enum err wire_admin_status_reply_decode(struct wire_status_reply **out, const void *p,
                                                  size_t n);
void wire_admin_status_reply_free(struct wire_status_reply *m);

/* Plain data; texts end with a NUL. */
struct wire_disconnect {
    char host[64]; /* the name in a certificate */
};

struct wire_disconnect_reply {
    uint32_t connections; /* that were ended */
};

struct wire_log_level {
    char level[16];
};

struct wire_log_level_reply {
    char before[16];
};

struct wire_forget {
    char host[64]; /* name or UUID */
};

struct wire_forget_reply {
    uint32_t hosts; /* that are hidden now */
};

NODISCARD enum err wire_admin_disconnect_encode(struct buf *out, const struct wire_disconnect *in);
NODISCARD enum err wire_admin_disconnect_decode(struct wire_disconnect *out, const void *p,
                                                size_t n);
NODISCARD enum err wire_admin_disconnect_reply_encode(struct buf *out,
                                                      const struct wire_disconnect_reply *in);
NODISCARD enum err wire_admin_disconnect_reply_decode(struct wire_disconnect_reply *out,
                                                      const void *p, size_t n);
NODISCARD enum err wire_admin_log_level_encode(struct buf *out, const struct wire_log_level *in);
NODISCARD enum err wire_admin_log_level_decode(struct wire_log_level *out, const void *p, size_t n);
NODISCARD enum err wire_admin_log_level_reply_encode(struct buf *out,
                                                     const struct wire_log_level_reply *in);
NODISCARD enum err wire_admin_log_level_reply_decode(struct wire_log_level_reply *out,
                                                     const void *p, size_t n);
NODISCARD enum err wire_admin_forget_encode(struct buf *out, const struct wire_forget *in);
NODISCARD enum err wire_admin_forget_decode(struct wire_forget *out, const void *p, size_t n);
NODISCARD enum err wire_admin_forget_reply_encode(struct buf *out,
                                                  const struct wire_forget_reply *in);
NODISCARD enum err wire_admin_forget_reply_decode(struct wire_forget_reply *out, const void *p,
                                                  size_t n);

#endif
