/* Follows the framing of the SP protocols in a stream of bytes, to say what is wrong with a peer: 8
 * bytes of greeting, then messages of a length (u64, big endian) and a body. For net*.c only.
 * Threads: one owner. */
#ifndef PROCFLEET_COMMON_NET_SP_FRAMING_H
#define PROCFLEET_COMMON_NET_SP_FRAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Protocol numbers, as they stand in the greeting. */
enum sp_framing_kind {
    SP_FRAMING_PUB = 0x20,
    SP_FRAMING_SUB = 0x21,
    SP_FRAMING_REQ = 0x30,
    SP_FRAMING_REP = 0x31
};

/* Starts as zeros. */
struct sp_framing {
    uint8_t head[8]; /* greeting or length, as far as it has come */
    uint8_t have;
    bool greeted;
    uint64_t left; /* of the body; the declared length after "message too large" */
};

/* Takes the next n bytes, however they were cut. Gives words for the log when the peer is not
 * `peer`, does not speak SP, or declares a message of more than `max` bytes; else NULL. Nothing is
 * to be fed after words. */
const char *sp_framing_feed(struct sp_framing *m, enum sp_framing_kind peer, uint64_t max,
                            const uint8_t *p, size_t n);

#endif
