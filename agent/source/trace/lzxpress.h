/* Decompression of LZXPRESS plain LZ77 (MS-XCA 2.4), the method of compressed trace buffers.
 * Pure: no state, no allocation, any thread. Any input is safe. */
#ifndef PROCFLEET_AGENT_SOURCE_TRACE_LZXPRESS_H
#define PROCFLEET_AGENT_SOURCE_TRACE_LZXPRESS_H

#include <stddef.h>
#include <stdint.h>

/* Decompresses until `out` is full. Gives the number of bytes produced: fewer than out_n when the
 * stream ends early or is corrupt; what was produced before that point is good. Asking for a prefix
 * (a small out_n) is cheap and allowed. `in` and `out` must not overlap. */
size_t lzxpress_decode(uint8_t *out, size_t out_n, const uint8_t *in, size_t in_n);

#endif
