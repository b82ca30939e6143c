#include "common/sid.h"

#include <stdio.h>

#include "common/cur.h"

size_t sid_bytes(const uint8_t *p, size_t n)
{
    size_t bytes = n >= 8 && p[0] == 1 && p[1] <= SID_PARTS_MAX ? 8u + 4u * p[1] : 0;

    return bytes <= n ? bytes : 0;
}

size_t sid_text(char *out, size_t size, const uint8_t *p, size_t n)
{
    size_t bytes = sid_bytes(p, n), at;
    uint64_t authority;
    struct cur c;

    if (bytes == 0 || size < SID_TEXT_SIZE) {
        return 0;
    }
    c = cur_make(p + 2, bytes - 2);
    authority = (uint64_t)cur_u16be(&c) << 32;
    authority |= (uint64_t)cur_u16be(&c) << 16;
    authority |= cur_u16be(&c);
    /* SID_TEXT_SIZE holds the longest of all, so nothing below is cut. */
    at = (size_t)snprintf(out, size, authority >> 32 ? "S-1-0x%llx" : "S-1-%llu",
                          (unsigned long long)authority);
    for (unsigned i = 0; i < p[1]; i++) {
        at += (size_t)snprintf(out + at, size - at, "-%u", (unsigned)cur_u32le(&c));
    }
    return at;
}
