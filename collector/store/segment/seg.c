#include "collector/store/segment/seg.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"

static const char *const kind_names[SEG_KINDS] = {"none", "raw", "10s", "1min", "1h", "rest"};

const char *seg_kind_name(unsigned kind)
{
    return kind < SEG_KINDS ? kind_names[kind] : kind_names[0];
}

/* "2026-11-21T22:00:00Z" without its punctuation and seconds; of any year. */
static void stamp_put(char *to, size_t size, int64_t utc_ns)
{
    char text[CLK_TEXT];
    size_t n = 0;

    clk_format_utc(text, sizeof text, utc_ns, 0);
    for (const char *p = text; *p && p < text + 16 && n + 2 < size; p++) {
        if (*p != '-' && *p != ':') {
            to[n++] = *p;
        }
    }
    to[n++] = 'Z';
    to[n] = 0;
}

void seg_name(char out[SEG_NAME_MAX], const struct seg_info *info)
{
    char when[CLK_TEXT];

    stamp_put(when, sizeof when, info->window_ns);
    (void)snprintf(out, SEG_NAME_MAX, "%s-%s-%" PRIu64 ".seg", seg_kind_name(info->kind), when,
                   info->number);
}

bool seg_name_is(const char *name)
{
    size_t n = strlen(name);

    if (n < 5 || n >= SEG_NAME_MAX || strcmp(name + n - 4, ".seg") != 0) {
        return false;
    }
    for (unsigned kind = 1; kind < SEG_KINDS; kind++) {
        size_t k = strlen(kind_names[kind]);

        if (n > k && memcmp(name, kind_names[kind], k) == 0 && name[k] == '-') {
            return true;
        }
    }
    return false;
}
