/* Any bytes as a batch: as they come, and as the message inside a proper zstd frame, where the
 * format's own checks are reached. What is accepted must encode again to the same values. */
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "common/wire/wire_batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#define INPUT_MAX 65536u

static void same_values(const struct batch *a, const struct batch *b)
{
    if (a->n_ticks != b->n_ticks || a->n_runs != b->n_runs || a->n_infos != b->n_infos ||
        a->n_events != b->n_events || a->n_ledger != b->n_ledger) {
        abort();
    }
    for (size_t i = 0, k = 0; i < a->n_columns; i++) {
        const struct batch_column *c = &a->columns[i];

        if (c->n_values == 0) {
            continue; /* not written again */
        }
        if (k == b->n_columns || b->columns[k].n_values != c->n_values ||
            memcmp(b->columns[k].values, c->values, c->n_values * sizeof *c->values) != 0) {
            abort();
        }
        k++;
    }
}

static void encode_again(const struct batch *b)
{
    static struct wire_encoder *enc;
    struct batch *back;
    struct buf out;

    if (!enc && wire_batch_encoder_create(&enc)) {
        abort();
    }
    buf_init(&out, WIRE_BATCH_BYTES_MAX);
    if (wire_batch_encode(enc, &out, b) || wire_batch_decode(&back, out.p, out.n)) {
        abort();
    }
    same_values(b, back);
    wire_batch_free(back);
    buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static uint8_t frame[ZSTD_COMPRESSBOUND(INPUT_MAX)];
    struct batch *b;

    if (n > INPUT_MAX) {
        return 0;
    }
    if (!wire_batch_decode(&b, p, n)) {
        wire_batch_free(b);
    }
    if (!wire_batch_decode(&b, frame, ZSTD_compress(frame, sizeof frame, p, n, 1))) {
        encode_again(b);
        wire_batch_free(b);
    }
    return 0;
}
