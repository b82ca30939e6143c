/* Follows the framing of the SP protocols in a stream of bytes, to say what is wrong with a peer: 8
 * bytes of greeting, then messages of a length (u64, big endian) and a body. For net*.c only.
 * Threads: one owner. */
#ifndef PROCFLEET_COMMON_NET_NET_METER_H
#define PROCFLEET_COMMON_NET_NET_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Protocol numbers, as they stand in the greeting. */
enum net_sp { NET_SP_PUB = 0x20, NET_SP_SUB = 0x21, NET_SP_REQ = 0x30, NET_SP_REP = 0x31 };

/* Starts as zeros. */
struct net_meter {
    uint8_t head[8]; /* greeting or length, as far as it has come */
    uint8_t have;
    bool greeted;
    uint64_t left; /* of the body; the declared length after "message too large" */
};

/* Takes the next n bytes, however they were cut. Gives words for the log when the peer is not
 * `peer`, does not speak SP, or declares a message of more than `max` bytes; else NULL. Nothing is
 * to be fed after words. */
const char *net_meter_feed(struct net_meter *m, enum net_sp peer, uint64_t max, const uint8_t *p,
                           size_t n);

#endif
