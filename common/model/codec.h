/* The column codec: 64-bit integers of many runs to bytes and back, without loss for any value.
 * Shared by batches on the wire and segments on disk; PROTOCOL.md has the format byte by byte.
 * A column is the values of its runs one after the other; counts[r] is the length of run r, at
 * least 1. Threads: any; no allocation. */
#ifndef PROCFLEET_COMMON_MODEL_CODEC_H
#define PROCFLEET_COMMON_MODEL_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

/* How a run's differences are written. */
enum codec_mode {
    CODEC_GROWING = 0, /* values that seldom fall: counters */
    CODEC_MOVING = 1,  /* values that go both ways: gauges */
};

/* No column of so many values and runs needs more bytes. */
size_t codec_bound(size_t n_values, size_t n_runs);

/* Writes the column to `out`, which has room for codec_bound bytes; returns the bytes used. */
size_t codec_encode(uint8_t *out, const int64_t *values, const uint32_t *counts, size_t n_runs,
                    enum codec_mode mode);

/* Reads a column of exactly n bytes into `values`, which has room for the sum of counts.
 * Errors: ERR_CORRUPT (too short, too long, a number of more than 64 bits); `values` is then
 * undefined. */
NODISCARD enum err codec_decode(int64_t *values, const uint32_t *counts, size_t n_runs,
                                enum codec_mode mode, const void *p, size_t n);

/* Which runs of a column are wanted: `n` from `first` on. */
struct codec_range {
    size_t first, n;
};

/* Reads only those runs, for less than the whole costs; `values` has room for them. Damage in the
 * others may stay unseen. Errors: as codec_decode */
NODISCARD enum err codec_decode_range(int64_t *values, const uint32_t *counts, size_t n_runs,
                                      struct codec_range range, enum codec_mode mode, const void *p,
                                      size_t n);

/* With true as on a processor that has no instructions for bits (bits.h), from now on: for tests.
 * Bytes and values are the same. */
void codec_only_plain(bool plain);

#endif
