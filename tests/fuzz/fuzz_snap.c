/* Answers of the bulk process calls: no input may do more than be refused. The first byte chooses
 * the class; the address the answer lay at is the next eight. */
#include <string.h>

#include "agent/source/windows/snap_rows.h"
#include "agent/source/windows/snap_threads.h"
#include "agent/source/windows/snap_wide.h"
#include "common/base/cur.h"
#include "common/base/mem.h"
#include "common/base/sid.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static volatile unsigned char hole;

static void touch(const struct snap_row *row)
{
    if (row->info.name.n > SNAP_NAME_MAX || row->info.image.n > SNAP_IMAGE_MAX ||
        row->info.user.n >= SID_TEXT_SIZE) {
        __builtin_trap();
    }
    for (size_t i = 0; i < row->info.name.n; i++) {
        hole = (unsigned char)row->info.name.p[i];
    }
    for (size_t i = 0; i < row->info.user.n; i++) {
        hole = (unsigned char)row->info.user.p[i];
    }
    for (unsigned i = 0; i < METRIC_COLS; i++) {
        if (row->values[i] < 0) {
            __builtin_trap(); /* none of these can be negative */
        }
    }
}

struct memory {
    struct snap_wide *wide;
    struct snap_threads *threads;
};

static void one_table(struct memory *m, const uint8_t *p, size_t n, uint64_t base, bool full)
{
    struct snap_walk w;
    struct snap_row row;

    snap_rows_init(&w, p, n, base, full);
    snap_wide_begin(m->wide);
    snap_threads_begin(m->threads);
    while (snap_rows_next(&w, &row) == ERR_OK) {
        touch(&row);
        (void)snap_rows_unfit(&row, 8);
        (void)snap_threads_probe(m->threads, &w);
        snap_wide_row(m->wide, &row);
        snap_threads_row(m->threads, &w, &row);
        touch(&row);
    }
}

/* The first half is an answer, the second half the next one, then all of it. */
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct cur c = cur_make(p, n);
    bool full = cur_u8(&c) & 1;
    uint64_t base = cur_u64le(&c);
    size_t half = cur_left(&c) / 2;
    struct memory m = {NULL, NULL};

    if (!c.bad && snap_wide_create(&m.wide, 8) == ERR_OK &&
        snap_threads_create(&m.threads, 8) == ERR_OK) {
        one_table(&m, c.p, half, base, full);
        one_table(&m, c.p + half, half, base, full);
        one_table(&m, c.p, cur_left(&c), base, full);
        one_table(&m, c.p, cur_left(&c), base, full);
    }
    snap_wide_destroy(m.wide);
    snap_threads_destroy(m.threads);
    return 0;
}
