/* The envelope of every request and reply (PROTOCOL.md): u8 magic, u8 version, u16 header length,
 * header (protobuf), payload. Text in it must be UTF-8 without NUL and
 * fit its array. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_WIRE_FRAME_H
#define PROCFLEET_COMMON_WIRE_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/err.h"

#define FRAME_MAGIC       0xB7
#define FRAME_VERSION     1
#define FRAME_HEADER_MAX  4096u
#define FRAME_DETAILS_MAX 8u

enum frame_encoding { FRAME_RAW = 0, FRAME_ZSTD = 1 };

/* gRPC's canonical codes. */
enum rpc_code {
    RPC_OK = 0,
    RPC_CANCELLED = 1,
    RPC_UNKNOWN = 2,
    RPC_INVALID_ARGUMENT = 3,
    RPC_DEADLINE_EXCEEDED = 4,
    RPC_NOT_FOUND = 5,
    RPC_ALREADY_EXISTS = 6,
    RPC_PERMISSION_DENIED = 7,
    RPC_RESOURCE_EXHAUSTED = 8,
    RPC_FAILED_PRECONDITION = 9,
    RPC_ABORTED = 10,
    RPC_OUT_OF_RANGE = 11,
    RPC_UNIMPLEMENTED = 12,
    RPC_INTERNAL = 13,
    RPC_UNAVAILABLE = 14,
    RPC_DATA_LOSS = 15,
    RPC_UNAUTHENTICATED = 16,
};

const char *frame_code_name(enum rpc_code code); /* "RESOURCE_EXHAUSTED" */

struct frame_detail {
    char key[32];
    char value[128];
};

struct frame_request {
    char method[96];    /* full name, or empty when method_id is given */
    uint32_t method_id; /* 0 = by name */
    uint8_t call_id[16];
    uint32_t timeout_ms; /* left at sending; 0 = the server's default */
    uint8_t encoding;    /* enum frame_encoding, of the payload */
    uint32_t raw_bytes;  /* payload after decoding */
    char client[32];     /* name and version of the caller */
    uint64_t trace_id;
    uint8_t n_metadata;
    struct frame_detail metadata[FRAME_DETAILS_MAX];
};

struct frame_reply {
    uint8_t call_id[16];
    enum rpc_code code;
    char message[256]; /* for people, empty when ok */
    uint8_t n_details;
    struct frame_detail details[FRAME_DETAILS_MAX];
    uint32_t retry_after_ms;
    bool more; /* further rows: ask again with the cursor */
    uint8_t cursor_n;
    uint8_t cursor[255];
    uint64_t epoch; /* of the server's start */
    uint8_t encoding;
    uint32_t raw_bytes;
};

/* Appends a whole frame. Errors: ERR_NOMEM, ERR_FULL, ERR_INVALID */
NODISCARD enum err frame_put_request(struct buf *out, const struct frame_request *h,
                                     const void *payload, size_t n);
NODISCARD enum err frame_put_reply(struct buf *out, const struct frame_reply *h,
                                   const void *payload, size_t n);

/* Splits a frame; *payload points into `p`. Errors: ERR_CORRUPT, ERR_VERSION (another frame
 * version), ERR_FULL */
NODISCARD enum err frame_get_request(struct frame_request *h, const uint8_t **payload,
                                     size_t *payload_n, const void *p, size_t n);
NODISCARD enum err frame_get_reply(struct frame_reply *h, const uint8_t **payload,
                                   size_t *payload_n, const void *p, size_t n);

#endif
