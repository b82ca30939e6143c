/* Any bytes as what an OTLP server replies, and as the sums that stand beside a cursor. What is
 * accepted stays within the bytes, and sums that were loaded are saved and loaded once more. */
#include <stdlib.h>
#include <string.h>

#include "collector/forward/otlp.h"
#include "common/base/utf8.h"
#include "common/model/metric.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void look_at(struct str s, const uint8_t *p, size_t n)
{
    if (s.n &&
        (s.p < (const char *)p || s.p + s.n > (const char *)p + n || utf8_whole(s.p, s.n) != s.n)) {
        abort();
    }
}

static void try_sums(const uint8_t *p, size_t n)
{
    struct program_sums_conf conf = {.n_metrics = 2,
                                     .metrics = {M_CPU_TIME, M_WORKING_SET_SIZE},
                                     .interval_ns = CLK_S,
                                     .hosts_max = 16,
                                     .processes_max = 64};
    struct program_sums *s, *again;
    struct buf b, c;

    if (program_sums_create(&s, &conf) || program_sums_create(&again, &conf)) {
        abort();
    }
    if (program_sums_load(s, p, n) == ERR_OK) {
        buf_init(&b, 1u << 20);
        buf_init(&c, 1u << 20);
        program_sums_save(s, &b);
        if (program_sums_load(again, b.p, b.n)) {
            abort();
        }
        program_sums_save(again, &c);
        if (b.n != c.n || memcmp(b.p, c.p, b.n) != 0) {
            abort();
        }
        buf_fini(&b);
        buf_fini(&c);
    }
    program_sums_destroy(s);
    program_sums_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct otlp_reply r;

    if (otlp_reply_read(&r, p, n) == ERR_OK) {
        look_at(r.message, p, n);
    }
    look_at(otlp_status_message(p, n), p, n);
    try_sums(p, n);
    return 0;
}
