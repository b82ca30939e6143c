/* For messages that are plain data: what is accepted must be encoded and accepted once more. */
#ifndef PROCFLEET_TESTS_FUZZ_AGAIN_H
#define PROCFLEET_TESTS_FUZZ_AGAIN_H

#include <stdlib.h>

#include "common/base/buf.h"

/* Defines try_KIND(p, n) for struct wire_KIND. */
#define AGAIN(kind, code)                                                             \
    static void try_##kind(const uint8_t *p, size_t n)                                \
    {                                                                                 \
        struct wire_##kind m, again;                                                  \
        struct buf b;                                                                 \
                                                                                      \
        if (wire_##code##_decode(&m, p, n)) {                                         \
            return;                                                                   \
        }                                                                             \
        buf_init(&b, 1u << 20);                                                       \
        if (wire_##code##_encode(&b, &m) || wire_##code##_decode(&again, b.p, b.n)) { \
            abort();                                                                  \
        }                                                                             \
        buf_fini(&b);                                                                 \
    }

#endif
