/* How much is still to come from a TLS 1.2 client whose certificate was refused: the records of its
 * flight, up to the one behind ChangeCipherSpec. For net_conn.c only. */
#ifndef PROCFLEET_COMMON_TLS_NET_PARTING_H
#define PROCFLEET_COMMON_TLS_NET_PARTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NET_PARTING_MAX \
    (16u << 10) /* bytes; key exchange, signature and Finished are far shorter */

struct net_parting { /* starts as zeros, between two records */
    uint8_t head[5];
    size_t n_head;
    size_t left; /* of the record's body */
    size_t fed;
    bool changed; /* ChangeCipherSpec has come */
};

/* True when nothing more is to be waited for: the flight is over, or this is none. */
bool net_parting_feed(struct net_parting *p, const uint8_t *bytes, size_t n);

#endif
