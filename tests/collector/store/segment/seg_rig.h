/* A small segment whose every value can be told from its key. */
#ifndef PROCFLEET_TESTS_COLLECTOR_STORE_SEGMENT_SEG_RIG_H
#define PROCFLEET_TESTS_COLLECTOR_STORE_SEGMENT_SEG_RIG_H

#include "collector/store/segment/seg.h"

/* A test need not look at its state. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define SEG_RIG_WINDOW  INT64_C(300000000000)
#define SEG_RIG_HOSTS   12u
#define SEG_RIG_METRICS 20u
#define SEG_RIG_WINDOWS 3u
#define SEG_RIG_SAMPLES 4711u /* told to the writer */

struct uuid seg_rig_id(unsigned host);
bool seg_rig_exists(struct seg_key k);
size_t seg_rig_content(uint8_t p[128], struct seg_key k);
bool seg_rig_is(struct seg_key k, const uint8_t *p, size_t n);
size_t seg_rig_values(void);
struct seg_info seg_rig_info(uint64_t number);

/* Host h: windows v with (h + v) % 4 != 0 hold [v * WINDOW + h, v * WINDOW + 100], window 1 also
 * [WINDOW - 1, WINDOW + 50]; stream 70 + h: 1 to 7, 9 to 12. */
NODISCARD enum err seg_rig_write(const struct fio *fio, const char *dir, struct seg_info *info);

#endif
