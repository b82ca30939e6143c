/* Requests and replies of the Ingest service and of GetServerInfo, to and from protobuf bytes
 * (wire_rpc.c), under the same rules as wire_batch.h. Decoded structs hold their text in `text`
 * arrays: nothing to release. A Push request's payload is an encoded batch as it stands
 * (wire_batch.h). */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_RPC_H
#define PROCFLEET_COMMON_WIRE_WIRE_RPC_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/model/model.h"
#include "common/wire/wire_inventory.h"

/* Full method names, the keys of dispatch. */
#define RPC_INGEST_HELLO     "procfleet.v1.Ingest/Hello"
#define RPC_INGEST_PUSH      "procfleet.v1.Ingest/Push"
#define RPC_INGEST_HEARTBEAT "procfleet.v1.Ingest/Heartbeat"

struct wire_hello {
    struct uuid host, boot;
    uint64_t stream;
    char name[64];    /* host name the agent believes to have */
    char version[32]; /* of the agent */
    char source[32];
    char system[64]; /* "Linux 6.1", "Windows 10.0.19045.4291 (10 Pro)" */
    uint32_t cpus;
    int64_t wall_ns, mono_ns; /* at sending */
    /* Of the last answered Hello or Heartbeat of this boot: when it was sent (its mono_ns), and its
     * way there and back, less the collector's own time; 0 = none yet. With what the collector
     * noted then it bounds the error of the clocks' offset. */
    int64_t last_mono_ns, last_rtt_ns;
    size_t n_told;                /* labels and inventory, encoded (wire_inventory.h), 0: none; */
    uint8_t told[WIRE_FACTS_MAX]; /* checked, where they were decoded */
};

struct wire_hello_reply {
    char version[32];       /* of the collector */
    uint32_t max_message;   /* bytes of one Push payload */
    uint32_t max_in_flight; /* Push requests at once */
    /* Highest sequence stored without a hole before it for this stream, 0 = none. */
    uint64_t last_seq;
    int64_t received_ns, replied_ns; /* collector's clock, UTC */
    bool events;                     /* it keeps events of providers */
};

struct wire_push_reply {
    bool duplicate;
    uint64_t last_seq;
};

struct wire_heartbeat {
    uint64_t stream;
    uint64_t next_seq;
    int64_t wall_ns, mono_ns;
    int64_t last_mono_ns, last_rtt_ns; /* as in wire_hello */
    size_t n_told;                     /* likewise, when they have changed */
    uint8_t told[WIRE_FACTS_MAX];
};

struct wire_heartbeat_reply {
    int64_t received_ns, replied_ns;
};

NODISCARD enum err wire_rpc_hello_encode(struct buf *out, const struct wire_hello *m);
NODISCARD enum err wire_rpc_hello_decode(struct wire_hello *m, const void *p, size_t n);
NODISCARD enum err wire_rpc_hello_reply_encode(struct buf *out, const struct wire_hello_reply *m);
NODISCARD enum err wire_rpc_hello_reply_decode(struct wire_hello_reply *m, const void *p, size_t n);
NODISCARD enum err wire_rpc_push_reply_encode(struct buf *out, const struct wire_push_reply *m);
NODISCARD enum err wire_rpc_push_reply_decode(struct wire_push_reply *m, const void *p, size_t n);
NODISCARD enum err wire_rpc_heartbeat_encode(struct buf *out, const struct wire_heartbeat *m);
NODISCARD enum err wire_rpc_heartbeat_decode(struct wire_heartbeat *m, const void *p, size_t n);
NODISCARD enum err wire_rpc_heartbeat_reply_encode(struct buf *out,
                                                   const struct wire_heartbeat_reply *m);
NODISCARD enum err wire_rpc_heartbeat_reply_decode(struct wire_heartbeat_reply *m, const void *p,
                                                   size_t n);

#endif
