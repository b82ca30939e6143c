#include "common/base/sid.h"

#include <stdio.h>
#include <string.h>

#include "common/base/cur.h"

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

/* -- for people -- */

/* A prefix ends with a dash: what follows is kept, as DWM-1. */
static const struct {
    const char *sid, *name;
} known[] = {
    {"S-1-1-0", "Everyone"},
    {"S-1-5-7", "ANONYMOUS LOGON"},
    {"S-1-5-11", "Authenticated Users"},
    {"S-1-5-18", "SYSTEM"},
    {"S-1-5-19", "LOCAL SERVICE"},
    {"S-1-5-20", "NETWORK SERVICE"},
    {"S-1-5-32-544", "Administrators"},
    {"S-1-5-32-545", "Users"},
    {"S-1-5-32-546", "Guests"},
    {"S-1-5-80-0", "ALL SERVICES"},
    {"S-1-5-90-0-", "DWM-"},
    {"S-1-5-96-0-", "UMFD-"},
};

/* Where the last of at least `parts` numbers begins, if text is of digits and dashes behind "S-".
 */
static size_t last_part(const char *text, size_t n, unsigned parts)
{
    unsigned dashes = 0;
    size_t last = 0;

    for (size_t i = 1; i < n; i++) {
        if (text[i] != '-' && (text[i] < '0' || text[i] > '9')) {
            return 0;
        }
        if (text[i] == '-') {
            dashes++;
            last = i + 1;
        }
    }
    return dashes >= parts && last < n ? last : 0;
}

size_t sid_people(char out[SID_TEXT_SIZE], const char *text, size_t n, bool brief)
{
    size_t last;

    if (n < 7 || n >= SID_TEXT_SIZE || memcmp(text, "S-1-", 4) != 0) {
        return 0;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t size = strlen(known[i].sid);
        bool prefix = known[i].sid[size - 1] == '-';
        bool fits = prefix ? n > size && last_part(text, n, 1) == size : n == size;

        if (fits && memcmp(text, known[i].sid, size) == 0) {
            return (size_t)snprintf(out, SID_TEXT_SIZE, "%s%.*s", known[i].name, (int)(n - size),
                                    text + size);
        }
    }
    last = brief ? last_part(text, n, 5) : 0;
    if (last == 0) {
        return 0;
    }
    /* "S-1-5-21-": the authority and what kind of account it is */
    size_t head = 4 + strcspn(text + 4, "-") + 1;
    head += strcspn(text + head, "-") + 1;
    return (size_t)snprintf(out, SID_TEXT_SIZE, "%.*s\u2026-%.*s", (int)head, text, (int)(n - last),
                            text + last);
}
