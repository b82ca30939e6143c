/* Text as a pointer and a length: borrowed UTF-8, not NUL-terminated; copy what must stay. */
#ifndef PROCFLEET_COMMON_BASE_STR_H
#define PROCFLEET_COMMON_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str {
    const char *p;
    size_t n;
};

static inline struct str str_make(const char *s)
{
    struct str r = {s ? s : "", s ? strlen(s) : 0};

    return r;
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

#endif
