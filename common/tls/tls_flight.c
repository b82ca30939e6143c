#include "common/tls/tls_flight.h"

#include <assert.h>

/* TLS record types */
#define CHANGE_CIPHER_SPEC 20
#define ALERT              21
#define HANDSHAKE          22

/* A record has come whole; whether it was the last one. */
static bool ends(struct tls_flight *p)
{
    uint8_t type = p->head[0];
    bool last = type == ALERT || (type == HANDSHAKE && p->changed);

    p->changed = p->changed || type == CHANGE_CIPHER_SPEC;
    p->n_head = 0;
    return last;
}

static bool is_flight(const struct tls_flight *p)
{
    return p->head[0] >= CHANGE_CIPHER_SPEC && p->head[0] <= HANDSHAKE;
}

bool tls_flight_feed(struct tls_flight *p, const uint8_t *bytes, size_t n)
{
    assert(p->fed <= TLS_FLIGHT_MAX && p->n_head <= sizeof p->head);
    if (n > TLS_FLIGHT_MAX - p->fed) {
        return true;
    }
    p->fed += n;
    while (n > 0) {
        if (p->n_head < sizeof p->head) {
            p->head[p->n_head++] = *bytes++;
            n--;
            p->left = p->n_head == sizeof p->head ? (size_t)p->head[3] << 8 | p->head[4] : 0;
        } else {
            size_t some = n < p->left ? n : p->left;

            p->left -= some;
            bytes += some;
            n -= some;
        }
        if (p->n_head == sizeof p->head && (!is_flight(p) || (p->left == 0 && ends(p)))) {
            return true;
        }
    }
    return false;
}

bool tls_flight_skip(struct tls_flight *p, size_t n)
{
    assert(p->fed <= TLS_FLIGHT_MAX);
    if (n > TLS_FLIGHT_MAX - p->fed) {
        return true;
    }
    p->fed += n;
    return false;
}
