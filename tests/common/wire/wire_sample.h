/* A small batch with one of everything, and what tests of its encoding share. Threads: the test's
 * own. */
#ifndef PROCFLEET_TESTS_COMMON_WIRE_WIRE_SAMPLE_H
#define PROCFLEET_TESTS_COMMON_WIRE_WIRE_SAMPLE_H

#include "common/wire/wire_batch.h"

#define WIRE_SAMPLE_ROOM (16u << 20) /* for an encoded batch */
#define WIRE_SAMPLE_BOTH \
    (METRIC_BIT(M_CPU_TIME) | METRIC_BIT(M_WORKING_SET_SIZE)) /* its metrics \
                                                               */

/* Borrows from static memory. */
struct batch wire_sample(void);

/* Encodes once; the caller releases `out`. Errors: those of wire_batch_encode */
NODISCARD enum err wire_sample_encode(struct buf *out, const struct batch *b);

/* The packed message inside an encoded batch; the caller frees it. */
uint8_t *wire_sample_unwrap(size_t *n, const struct buf *b);

/* Decodes a raw message wrapped into a frame. Errors: those of wire_batch_decode */
NODISCARD enum err wire_sample_decode(const void *raw, size_t n);

/* Fails the test when they differ. */
void wire_sample_str(struct str a, struct str b);

#endif
