/* Rest values and accounts against hostile bytes; and what was understood, written again, is
 * understood in the same way. */
#include <assert.h>

#include "collector/store/meta/loss_sum.h"
#include "collector/store/meta/meta.h"
#include "collector/store/segment/window.h"
#include "collector/store/store.h"
#include "tests/fuzz/touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static const struct uuid host = {{1}};

static void check(const struct window_rest *rests, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct batch *b = &rests[i].batch;

        for (size_t k = 0; k < b->n_ticks; k++) {
            assert(b->wall_ns[k] >= 0 && b->wall_ns[k] <= WINDOW_STAMP_MAX);
            assert(k == 0 ||
                   (b->wall_ns[k] > b->wall_ns[k - 1] && b->mono_ns[k] > b->mono_ns[k - 1]));
        }
        for (size_t k = 0; k < b->n_events; k++) {
            assert(b->events[k].info.command_line.n <= MODEL_COMMAND_LINE_MAX);
        }
        assert(b->n_runs == 0 && b->n_columns == 0);
    }
}

static void again(struct arena *memory, struct window_rest *rests, size_t n)
{
    const struct host_window hw = {.host = host, .n_rests = n, .rests = rests};
    struct window_rest *back;
    struct loss_sum a;
    struct buf raw;
    size_t done, n_back;
    bool more;

    buf_init(&raw, META_RAW_MAX);
    if (n && meta_encode(&raw, &hw, 0, NULL, &done) == ERR_OK) {
        assert(meta_decode(memory, raw.p, raw.n, &host, &back, &n_back, &more) == ERR_OK);
        assert(n_back == done && more == (done < n));
        check(back, n_back);
    }
    buf_reset(&raw);
    if (n && loss_sum_encode(&raw, &hw) == ERR_OK) {
        assert(loss_sum_decode(&a, memory, raw.p, raw.n) == ERR_OK);
    }
    buf_fini(&raw);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct window_rest *rests;
    struct loss_sum a;
    struct arena memory;
    struct touch t = {0};
    size_t count;
    bool more;

    arena_init(&memory, 64u << 20);
    if (loss_sum_decode(&a, &memory, p, n) == ERR_OK) {
        assert(a.n_counts <= n && a.n_streams <= n && a.last_ns >= a.first_ns);
        for (size_t i = 0; i < a.n_counts; i++) {
            touch_text(&t, a.counts[i].stage);
            touch_text(&t, a.counts[i].reason);
        }
    }
    if (meta_decode(&memory, p, n, &host, &rests, &count, &more) == ERR_OK) {
        check(rests, count);
        again(&memory, rests, count);
    }
    arena_fini(&memory);
    return 0;
}
