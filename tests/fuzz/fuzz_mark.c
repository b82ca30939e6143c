/* Any bytes as each message about runs: marks, lists, pieces of files. What is accepted must be
 * encoded and accepted once more; names and labels are judged without a fault. */
#include <stdlib.h>

#include "common/wire/wire_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    for (unsigned kind = WIRE_RUN_MARK; kind <= WIRE_RUN_PART; kind++) {
        void *m, *again;
        struct buf b;

        if (wire_run_decode(&m, (enum wire_run_kind)kind, p, n)) {
            continue;
        }
        if (kind == WIRE_RUN_MARK) {
            const struct wire_run_mark *mark = m;

            (void)wire_run_name_ok(mark->name);
            for (size_t i = 0; i < mark->n_labels; i++) {
                (void)wire_run_label_ok(&mark->labels[i]);
            }
        }
        buf_init(&b, 32u << 20);
        if (wire_run_encode(&b, (enum wire_run_kind)kind, m) ||
            wire_run_decode(&again, (enum wire_run_kind)kind, b.p, b.n)) {
            abort();
        }
        wire_run_free(again);
        wire_run_free(m);
        buf_fini(&b);
    }
    return 0;
}
