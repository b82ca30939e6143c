/* Answers of the bulk process calls: no input may do more than be refused. The first byte chooses
 * the class; the address the answer lay at is the next eight. */
#include <string.h>

#include "agent/source/snap_rows.h"
#include "agent/source/snap_wide.h"
#include "common/cur.h"
#include "common/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static volatile unsigned char hole;

static void touch(const struct snap_row *row)
{
    if (row->info.name.n > SNAP_NAME_MAX || row->info.image.n > SNAP_IMAGE_MAX) {
        __builtin_trap();
    }
    for (size_t i = 0; i < row->info.name.n; i++) {
        hole = (unsigned char)row->info.name.p[i];
    }
    for (unsigned i = 0; i < METRIC_COLS; i++) {
        if (row->values[i] < 0) {
            __builtin_trap(); /* none of these can be negative */
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct cur c = cur_make(p, n);
    bool full = cur_u8(&c) & 1;
    uint64_t base = cur_u64le(&c);
    struct snap_wide *wide;
    struct snap_walk w;
    struct snap_row row;

    if (c.bad || snap_wide_create(&wide, 8) != ERR_OK) {
        return 0;
    }
    snap_walk_init(&w, c.p, cur_left(&c), base, full);
    snap_wide_begin(wide);
    while (snap_walk_next(&w, &row) == ERR_OK) {
        touch(&row);
        (void)snap_unfit(&row, 8);
        snap_wide_row(wide, &row);
        touch(&row);
    }
    snap_wide_destroy(wide);
    return 0;
}
