/* Any bytes as records of a provider segment's value: what is accepted lives as long as its batch,
 * and its events have values that can be read. */
#include "collector/store/meta/prov_value.h"

#include <stdlib.h>

#include "common/base/cur.h"
#include "common/model/event_values.h"
#include "tests/fuzz/touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    uint8_t *copy = touch_copy(p, n);
    struct cur c = cur_make(copy, n);
    struct window_rest rest;
    struct batch *b;

    while (cur_left(&c) && prov_value_record(&c, &b, &rest) == ERR_OK) {
        for (size_t i = 0; i < rest.batch.n_events; i++) {
            const struct life_event *ev = &rest.batch.events[i];

            touch_must(!ev->type || event_values_ok(ev->type->n_fields, ev->values));
        }
        wire_batch_free(b);
    }
    free(copy);
    return 0;
}
