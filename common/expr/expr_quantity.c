#include "common/expr/expr_quantity.h"

#include "common/base/str.h"

struct unit {
    const char *name;
    long double factor;
    struct expr_dim dim;
};

static const struct unit units[] = {
    {"ns", 1, {.time = 1}},
    {"us", 1e3L, {.time = 1}},
    {"ms", 1e6L, {.time = 1}},
    {"s", 1e9L, {.time = 1}},
    {"m", 60e9L, {.time = 1}},
    {"min", 60e9L, {.time = 1}},
    {"h", 3600e9L, {.time = 1}},
    {"d", 86400e9L, {.time = 1}},
    {"B", 1, {.bytes = 1}},
    {"kB", 1e3L, {.bytes = 1}},
    {"MB", 1e6L, {.bytes = 1}},
    {"GB", 1e9L, {.bytes = 1}},
    {"TB", 1e12L, {.bytes = 1}},
    {"KiB", 1024.0L, {.bytes = 1}},
    {"MiB", 1048576.0L, {.bytes = 1}},
    {"GiB", 1073741824.0L, {.bytes = 1}},
    {"TiB", 1099511627776.0L, {.bytes = 1}},
    {"%", 0.01L, {.share = true}},
};

static bool quantity_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool quantity_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static const struct unit *unit_at(const char *text, size_t n, size_t *used)
{
    size_t k = 0;

    if (n && *text == '%') {
        k = 1;
    } else {
        while (k < n && quantity_letter(text[k])) {
            k++;
        }
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (str_eq(str_make(units[i].name), (struct str){text, k})) {
            *used = k;
            return &units[i];
        }
    }
    *used = k;
    return NULL;
}

static int hex_digit(char c)
{
    return quantity_digit(c)      ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static size_t hex_at(long double *number, const char *text, size_t n)
{
    size_t i = 2;

    if (n < 3 || text[0] != '0' || text[1] != 'x' || hex_digit(text[2]) < 0) {
        return 0;
    }
    for (*number = 0; i < n && hex_digit(text[i]) >= 0; i++) {
        *number = *number * 16 + hex_digit(text[i]);
    }
    return i > 18 ? 0 : i; /* 64 bits */
}

static size_t decimal_at(long double *number, const char *text, size_t n)
{
    size_t i = 0;
    long double part = 1;

    for (*number = 0; i < n && quantity_digit(text[i]); i++) {
        *number = *number * 10 + (text[i] - '0');
    }
    if (i && i + 1 < n && text[i] == '.' && quantity_digit(text[i + 1])) {
        for (i++; i < n && quantity_digit(text[i]); i++) {
            part /= 10;
            *number += part * (text[i] - '0');
        }
    }
    return i > 32 ? 0 : i;
}

/* "/s" behind a number: how much in a time. */
static size_t per_at(long double *number, struct expr_dim *dim, const char *text, size_t n)
{
    size_t used;
    const struct unit *u;

    if (n < 2 || text[0] != '/') {
        return 0;
    }
    u = unit_at(text + 1, n - 1, &used);
    if (!u || u->dim.time != 1 || dim->time || dim->share) {
        return 0;
    }
    *number /= u->factor;
    dim->time = -1;
    return 1 + used;
}

size_t expr_quantity(long double *number, struct expr_dim *dim, const char *text, size_t n)
{
    long double v = 0;
    size_t at = hex_at(&v, text, n);

    *dim = EXPR_PLAIN;
    *number = v;
    if (at) {
        return at < n && quantity_letter(text[at]) ? 0 : at;
    }
    *number = 0;
    do { /* 2h05m */
        size_t used = decimal_at(&v, text + at, n - at);
        const struct unit *u;

        if (!used) {
            return 0;
        }
        at += used;
        u = unit_at(text + at, n - at, &used);
        if ((!u && used) || (at && dim->time == 1 && (!u || u->dim.time != 1))) {
            return 0;
        }
        *number += v * (u ? u->factor : 1);
        *dim = u ? u->dim : EXPR_PLAIN;
        at += used;
    } while (dim->time == 1 && at < n && quantity_digit(text[at]));
    return at + per_at(number, dim, text + at, n - at);
}
