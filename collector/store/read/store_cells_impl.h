/* What choosing (store_cells.c) and reading (store_cells_read.c) share of a scan of cells. */
#ifndef PROCFLEET_COLLECTOR_STORE_READ_STORE_CELLS_IMPL_H
#define PROCFLEET_COLLECTOR_STORE_READ_STORE_CELLS_IMPL_H

#include "collector/store/read/store_read.h"
#include "collector/store/read/store_ticks.h"
#include "collector/store/read/store_windows.h"
#include "collector/store/store_impl.h"

enum form { FORM_RAW, FORM_10S, FORM_1MIN, FORM_1H, FORMS };

/* One window's data in the forms that are left, or a batch of the head. */
struct choice {
    int64_t t0_ns, t1_ns;
    const struct store_window *form[FORMS];
    const struct head_batch *batch;
    const struct recent_columns *hot; /* of the batch; NULL: it is decoded */
};

struct store_cells_scan {
    const struct store_view *v;
    size_t host;
    const struct store_cells *ask;
    enum err (*each)(void *ctx, const struct store_cell_row *row);
    void *ctx;
    int64_t lo_ns; /* since - before */
    struct packer *packer;
    struct arena list, memory; /* of choices and ticks; of one window */
    struct choice *choices;
    size_t n, cap;
    struct store_tick_sum ticks;
    struct cell cells[METRIC_COLS];
    struct store_beside beside; /* what was not opened, or could not be */
    bool given;                 /* of the choice at hand something went to the caller */
    bool head;                  /* something of the head was read */
};

static inline int64_t store_cells_floor(int64_t when_ns, int64_t step_ns)
{
    int64_t rest = when_ns % step_ns;

    return when_ns - (rest < 0 ? rest + step_ns : rest);
}

/* Each gives the caller what lies in the range, and adds its ticks. Errors: those of
 * store_unread_is (not of the head's, which are noted here), what `each` gives, ERR_NOMEM, ERR_FULL
 */
NODISCARD enum err store_cells_batch(struct store_cells_scan *s, const struct batch *b);
NODISCARD enum err store_cells_head(struct store_cells_scan *s, const struct choice *c);
NODISCARD enum err store_cells_rows(struct store_cells_scan *s, const struct store_window *w);
NODISCARD enum err store_cells_tier(struct store_cells_scan *s, const struct store_window *w,
                                    int64_t bucket_ns);

#endif
