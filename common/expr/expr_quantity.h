/* Numbers with units, as they stand in expressions. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_EXPR_EXPR_QUANTITY_H
#define PROCFLEET_COMMON_EXPR_EXPR_QUANTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exponents of ns and bytes; share: a part of a whole, 1 = 100 %. All 0: a plain number. */
struct expr_dim {
    int8_t time, bytes;
    bool share;
};

#define EXPR_PLAIN ((struct expr_dim){0})
#define EXPR_TIME  ((struct expr_dim){.time = 1})
#define EXPR_BYTES ((struct expr_dim){.bytes = 1})
#define EXPR_SHARE ((struct expr_dim){.share = true})

/* A number with its unit at the beginning of the text: "5%", "2h05m", "10MiB/s", "0xc0000005"; in
 * ns, bytes or parts of 1. Returns the bytes it took, 0 where there is none or its unit is not
 * known. */
size_t expr_quantity(long double *number, struct expr_dim *dim, const char *text, size_t n);

#endif
