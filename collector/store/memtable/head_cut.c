#include "collector/store/memtable/head_cut.h"

#include <string.h>

#define REST       "\xe2\x80\xa6"
#define REST_BYTES (sizeof REST - 1)

static bool inside_character(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

static struct str begin_of(struct str s, size_t max, char *room)
{
    size_t n = max - REST_BYTES;

    while (n > 0 && inside_character(s.p[n])) {
        n--;
    }
    memcpy(room, s.p, n);
    memcpy(room + n, REST, REST_BYTES);
    return (struct str){room, n + REST_BYTES};
}

static struct str end_of(struct str s, size_t max, char *room)
{
    size_t from = s.n - (max - REST_BYTES);

    while (from < s.n && inside_character(s.p[from])) {
        from++;
    }
    memcpy(room, REST, REST_BYTES);
    memcpy(room + REST_BYTES, s.p + from, s.n - from);
    return (struct str){room, REST_BYTES + s.n - from};
}

bool head_cut(struct proc_info *info, size_t max, struct head_cut_room *room)
{
    bool cuts = max <= HEAD_CUT_MAX;
    bool line = cuts && info->command_line.n > max, image = cuts && info->image.n > max;

    if (line) {
        info->command_line = begin_of(info->command_line, max, room->line);
        info->have |= INFO_COMMAND_LINE_CUT;
    }
    if (image) {
        info->image = end_of(info->image, max, room->image);
    }
    return line || image;
}

bool head_cut_is_of(struct str line, struct str whole)
{
    size_t n = line.n - REST_BYTES;

    return line.n >= REST_BYTES && line.n < whole.n && memcmp(line.p + n, REST, REST_BYTES) == 0 &&
           memcmp(line.p, whole.p, n) == 0;
}

bool head_cut_is_end_of(struct str image, struct str whole)
{
    size_t n = image.n - REST_BYTES;

    return image.n >= REST_BYTES && image.n < whole.n && memcmp(image.p, REST, REST_BYTES) == 0 &&
           memcmp(image.p + REST_BYTES, whole.p + (whole.n - n), n) == 0;
}
