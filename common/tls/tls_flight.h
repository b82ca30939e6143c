/* How much is still to come from a client whose certificate was refused. In TLS 1.2: the records of
 * its flight, up to the one behind ChangeCipherSpec. In TLS 1.3 they do not show what they are.
 * Private to tls/ and net/. */
#ifndef PROCFLEET_COMMON_TLS_TLS_FLIGHT_H
#define PROCFLEET_COMMON_TLS_TLS_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TLS_FLIGHT_MAX (16u << 10) /* bytes; key exchange, signature and Finished are far shorter */

struct tls_flight { /* starts as zeros, between two records */
    uint8_t head[5];
    size_t n_head;
    size_t left; /* of the record's body */
    size_t fed;
    bool changed; /* ChangeCipherSpec has come */
};

/* True when nothing more is to be waited for: the flight is over, or this is none. */
bool tls_flight_feed(struct tls_flight *p, const uint8_t *bytes, size_t n);

/* TLS 1.3: true when there were more than TLS_FLIGHT_MAX. */
bool tls_flight_skip(struct tls_flight *p, size_t n);

#endif
