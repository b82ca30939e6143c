#include "tests/collector/store/segment/seg_rig.h"

#include <stdio.h>
#include <string.h>

#include "collector/store/segment/seg_write.h"

struct uuid seg_rig_id(unsigned host)
{
    struct uuid u = {{(uint8_t)(host * 37 + 5), (uint8_t)host, (uint8_t)(host >> 8)}};

    return u;
}

size_t seg_rig_content(uint8_t p[128], struct seg_key k)
{
    size_t n = (size_t)(k.host * 7 + k.metric * 13 + k.window * 5 + k.part) % 90;

    for (size_t i = 0; i < n; i++) {
        p[i] = (uint8_t)(k.host + k.metric * 3 + k.window * 7 + i * 11);
    }
    return n;
}

bool seg_rig_exists(struct seg_key k)
{
    return (k.host + k.metric + k.window) % 5 != 0;
}

bool seg_rig_is(struct seg_key k, const uint8_t *p, size_t n)
{
    uint8_t bytes[128];

    return n == seg_rig_content(bytes, k) && (n == 0 || memcmp(p, bytes, n) == 0);
}

size_t seg_rig_values(void)
{
    size_t n = 0;

    for (unsigned i = 0; i < SEG_RIG_METRICS * SEG_RIG_WINDOWS * SEG_RIG_HOSTS; i++) {
        n += seg_rig_exists(
            (struct seg_key){SEG_PART_COLUMN, (uint8_t)(i / SEG_RIG_WINDOWS / SEG_RIG_HOSTS),
                             (uint8_t)(i % SEG_RIG_WINDOWS), i / SEG_RIG_WINDOWS % SEG_RIG_HOSTS});
    }
    return n;
}

struct seg_info seg_rig_info(uint64_t number)
{
    struct seg_info s = {.number = number,
                         .kind = SEG_RAW,
                         .n_windows = SEG_RIG_WINDOWS,
                         .window_ns = 1000 * SEG_RIG_WINDOW,
                         .span_ns = 3 * SEG_RIG_WINDOW};

    return s;
}

static enum err add_host(struct seg_writer *w, unsigned h)
{
    static const struct seq_range first[] = {{1, 4}, {9, 9}}, second[] = {{5, 7}, {9, 12}};
    struct uuid id = seg_rig_id(h);
    char name[32];
    uint32_t index = 0;
    enum err e = ERR_OK;

    snprintf(name, sizeof name, "host-%u", h);
    for (uint8_t v = 0; v < SEG_RIG_WINDOWS && !e; v++) {
        if ((h + v) % 4 != 0) {
            e = seg_writer_host(w, &index, &id, name, v, v * SEG_RIG_WINDOW + h,
                                v * SEG_RIG_WINDOW + 100);
        }
    }
    e = e ? e
          : seg_writer_host(w, &index, &id, "another name", 1, SEG_RIG_WINDOW - 1,
                            SEG_RIG_WINDOW + 50);
    e = e ? e : seg_writer_ranges(w, &id, 70 + h, first, 2);
    e = e ? e : seg_writer_ranges(w, &id, 70 + h, second, 2);
    return !e && index != h ? ERR_INVALID : e;
}

static enum err fill(struct seg_writer *w)
{
    uint8_t bytes[128];
    enum err e = ERR_OK;

    for (unsigned h = 0; h < SEG_RIG_HOSTS && !e; h++) {
        e = add_host(w, h);
        for (unsigned i = 0; i < SEG_RIG_METRICS * SEG_RIG_WINDOWS && !e; i++) {
            struct seg_key k = {SEG_PART_COLUMN, (uint8_t)(i / SEG_RIG_WINDOWS),
                                (uint8_t)(i % SEG_RIG_WINDOWS), h};

            e = seg_rig_exists(k) ? seg_writer_add(w, k, bytes, seg_rig_content(bytes, k)) : ERR_OK;
        }
    }
    return e;
}

enum err seg_rig_write(const struct fio *fio, const char *dir, struct seg_info *info)
{
    static const int64_t windows[SEG_RIG_WINDOWS] = {1000 * SEG_RIG_WINDOW, 1001 * SEG_RIG_WINDOW,
                                                     1002 * SEG_RIG_WINDOW};
    struct seg_writer *w;
    enum err e = seg_writer_create(&w, fio, dir, info, windows, NULL);

    if (e) {
        return e;
    }
    e = fill(w);
    if (e) {
        seg_writer_abort(w);
        return e;
    }
    return seg_writer_finish(w, SEG_RIG_SAMPLES, info, NULL);
}
