#include "common/os/uuid.h"

#include <string.h>

#include "common/base/search.h"
#include "common/os/os.h"

static bool is_dash(size_t i)
{
    return i == 8 || i == 13 || i == 18 || i == 23;
}

/* The value of a hexadecimal digit, or -1. */
static int digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

enum err uuid_parse(struct uuid *u, const char *text)
{
    struct uuid r = {{0}};
    size_t n = 0;

    if (!text || strlen(text) != UUID_TEXT - 1) {
        return ERR_INVALID;
    }
    for (size_t i = 0; i < UUID_TEXT - 1; i++) {
        int d = digit(text[i]);

        if (is_dash(i)) {
            if (text[i] != '-') {
                return ERR_INVALID;
            }
            continue;
        }
        if (d < 0) {
            return ERR_INVALID;
        }
        r.b[n / 2] = (uint8_t)(r.b[n / 2] << 4 | d);
        n++;
    }
    *u = r;
    return ERR_OK;
}

const char *uuid_format(char text[UUID_TEXT], const struct uuid *u)
{
    static const char digits[] = "0123456789abcdef";
    size_t n = 0;

    for (size_t i = 0; i < UUID_TEXT - 1; i++) {
        if (is_dash(i)) {
            text[i] = '-';
            continue;
        }
        text[i] = digits[n % 2 ? u->b[n / 2] & 15 : u->b[n / 2] >> 4];
        n++;
    }
    text[UUID_TEXT - 1] = '\0';
    return text;
}

const char *uuid_format_guid(char text[UUID_TEXT], const uint8_t guid[16])
{
    static const uint8_t from[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    struct uuid u;

    for (size_t i = 0; i < 16; i++) {
        u.b[i] = guid[from[i]];
    }
    return uuid_format(text, &u);
}

enum err uuid_random(struct uuid *u)
{
    struct uuid r;
    enum err e = os_random(r.b, sizeof r.b);

    if (e) {
        return e;
    }
    r.b[6] = (uint8_t)((r.b[6] & 0x0f) | 0x40);
    r.b[8] = (uint8_t)((r.b[8] & 0x3f) | 0x80);
    *u = r;
    return ERR_OK;
}

size_t uuid_search(const struct uuid *id, size_t n,
                   const struct uuid *(*id_at)(const void *ctx, size_t i), const void *ctx)
{
    size_t i;

    SEARCH_LOWER(i, n, memcmp(id_at(ctx, i)->b, id->b, sizeof id->b) < 0);
    return i;
}
