#include "common/base/clk.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int64_t clk_from_filetime(uint64_t filetime)
{
    int64_t since_1970;

    if (filetime > INT64_MAX) {
        return INT64_MAX;
    }
    since_1970 = (int64_t)filetime - CLK_FILETIME_UNIX_DIFF;
    if (since_1970 > INT64_MAX / 100) {
        return INT64_MAX;
    }
    if (since_1970 < INT64_MIN / 100) {
        return INT64_MIN;
    }
    return since_1970 * 100;
}

uint64_t clk_to_filetime(int64_t utc_ns)
{
    int64_t ticks = utc_ns / 100 - (utc_ns % 100 < 0);

    return ticks < -CLK_FILETIME_UNIX_DIFF ? 0 : (uint64_t)(ticks + CLK_FILETIME_UNIX_DIFF);
}

int64_t clk_ticks_to_ns(int64_t ticks, uint64_t frequency)
{
    bool negative = ticks < 0;
    uint64_t t = negative ? 0 - (uint64_t)ticks : (uint64_t)ticks;
    uint64_t whole, rest, ns;

    if (frequency == 0) {
        return 0;
    }
    whole = t / frequency;
    rest = t % frequency;
    if (whole > INT64_MAX / CLK_S - 1) {
        return negative ? INT64_MIN : INT64_MAX;
    }
    /* rest < frequency; above 2^33 Hz the product could overflow, so scale both down. */
    while (frequency >= UINT64_C(1) << 33) {
        frequency >>= 1;
        rest >>= 1;
    }
    ns = whole * CLK_S + rest * CLK_S / frequency;
    if (negative) {
        return -(int64_t)ns - (rest * CLK_S % frequency != 0);
    }
    return (int64_t)ns;
}

/* Days since 1970-01-01 to a date of the proleptic Gregorian calendar, counted from March so that
 * the leap day is the year's last. */
static void civil_from_days(int64_t days, int64_t *year, unsigned *month, unsigned *day)
{
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    unsigned doe = (unsigned)(z - era * 146097);
    unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    unsigned mp = (5 * doy + 2) / 153;

    *day = doy - (153 * mp + 2) / 5 + 1;
    *month = mp < 10 ? mp + 3 : mp - 9;
    *year = (int64_t)yoe + era * 400 + (*month <= 2);
}

static int64_t days_from_civil(int64_t year, unsigned month, unsigned day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    unsigned yoe = (unsigned)(y - era * 400);
    unsigned doy = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    unsigned doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;

    return era * 146097 + (int64_t)doe - 719468;
}

const char *clk_format_utc(char *text, size_t size, int64_t utc_ns, int digits)
{
    int64_t s = utc_ns / CLK_S - (utc_ns % CLK_S < 0);
    int64_t ns = utc_ns % CLK_S + (utc_ns % CLK_S < 0 ? CLK_S : 0); /* s * CLK_S may not fit */
    int64_t days = s / 86400 - (s % 86400 < 0);
    int64_t in_day = s - days * 86400;
    int64_t year;
    unsigned month, day;
    char fraction[12] = "";

    civil_from_days(days, &year, &month, &day);
    if (digits > 0) {
        snprintf(fraction, sizeof fraction, ".%09d", (int)ns);
        fraction[digits < 9 ? digits + 1 : 10] = '\0';
    }
    snprintf(text, size, "%04d-%02u-%02uT%02d:%02d:%02d%sZ", (int)year, month, day,
             (int)(in_day / 3600), (int)(in_day / 60 % 60), (int)(in_day % 60), fraction);
    return text;
}

/* Exactly n digits as a number; moves *s behind them. */
static bool digits_n(const char **s, unsigned n, unsigned *value)
{
    *value = 0;
    for (unsigned i = 0; i < n; i++) {
        char c = **s;

        if (c < '0' || c > '9') {
            return false;
        }
        *value = *value * 10 + (unsigned)(c - '0');
        (*s)++;
    }
    return true;
}

static bool expect(const char **s, char c)
{
    if (**s != c) {
        return false;
    }
    (*s)++;
    return true;
}

/* ".123" to nanoseconds; digits beyond nine are dropped. */
static int64_t parse_fraction(const char **s)
{
    int64_t ns = 0, unit = CLK_S / 10;

    if (**s != '.') {
        return 0;
    }
    for ((*s)++; **s >= '0' && **s <= '9'; (*s)++) {
        ns += unit * (**s - '0');
        unit /= 10;
    }
    return ns;
}

/* "Z", "+02:00" or "-0500" to seconds east of UTC. */
static bool parse_zone(const char **s, int64_t *east_s)
{
    unsigned h, m;
    int64_t sign = **s == '-' ? -1 : 1;

    *east_s = 0;
    if (**s == 'Z' || **s == 'z') {
        (*s)++;
        return true;
    }
    if (**s != '+' && **s != '-') {
        return false;
    }
    (*s)++;
    if (!digits_n(s, 2, &h)) {
        return false;
    }
    if (**s == ':') {
        (*s)++;
    }
    if (!digits_n(s, 2, &m) || h > 23 || m > 59) {
        return false;
    }
    *east_s = sign * (int64_t)(h * 3600 + m * 60);
    return true;
}

static enum err parse_rfc3339(int64_t *utc_ns, const char *s)
{
    unsigned y, mo, d, h = 0, mi = 0, sec = 0;
    int64_t fraction = 0, east_s = 0;

    if (!digits_n(&s, 4, &y) || !expect(&s, '-') || !digits_n(&s, 2, &mo) || !expect(&s, '-') ||
        !digits_n(&s, 2, &d)) {
        return ERR_INVALID;
    }
    if (*s == 'T' || *s == 't' || *s == ' ') {
        s++;
        if (!digits_n(&s, 2, &h) || !expect(&s, ':') || !digits_n(&s, 2, &mi)) {
            return ERR_INVALID;
        }
        if (*s == ':' && (s++, !digits_n(&s, 2, &sec))) {
            return ERR_INVALID;
        }
        fraction = parse_fraction(&s);
        if (!parse_zone(&s, &east_s)) {
            return ERR_INVALID;
        }
    }
    if (*s != '\0' || y < 1970 || y > 2261 || mo < 1 || mo > 12 || d < 1 || d > 31 || h > 23 ||
        mi > 59 || sec > 60) {
        return ERR_INVALID;
    }
    *utc_ns =
        (days_from_civil(y, mo, d) * 86400 + (int64_t)(h * 3600 + mi * 60 + sec) - east_s) * CLK_S +
        fraction;
    return ERR_OK;
}

enum err clk_parse_span(int64_t *ns, const char *text)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {{"ns", 1},    {"us", CLK_US},    {"ms", CLK_MS},      {"min", 60 * CLK_S},
                 {"s", CLK_S}, {"m", 60 * CLK_S}, {"h", 3600 * CLK_S}, {"d", 86400 * CLK_S}};
    int64_t total = 0;

    if (*text == '\0') {
        return ERR_INVALID;
    }
    while (*text) {
        int64_t v = 0, fraction;
        const char *start = text;
        size_t u = 0;

        for (; *text >= '0' && *text <= '9'; text++) {
            if (v > INT64_MAX / 10 - 9) {
                return ERR_RANGE;
            }
            v = v * 10 + (*text - '0');
        }
        if (text == start) {
            return ERR_INVALID;
        }
        fraction = parse_fraction(&text);
        if (*text == ' ') {
            text++;
        }
        while (u < sizeof units / sizeof *units &&
               strncmp(text, units[u].name, strlen(units[u].name)) != 0) {
            u++;
        }
        if (u == sizeof units / sizeof *units) {
            return ERR_INVALID;
        }
        if (v > (INT64_MAX - total) / units[u].ns - 1) {
            return ERR_RANGE;
        }
        total += v * units[u].ns +
                 (int64_t)((double)fraction / (double)CLK_S * (double)units[u].ns + 0.5);
        text += strlen(units[u].name);
    }
    *ns = total;
    return ERR_OK;
}

/* "14:02", "14:02:05.25", "14:02:05Z": the latest such time of day that is not behind now. */
static enum err parse_time_of_day(int64_t *utc_ns, const char *s, int64_t now_ns)
{
    int64_t day_ns = 86400 * CLK_S, ns, past_ns = now_ns % day_ns;
    unsigned h, m, sec = 0;

    if (!digits_n(&s, 2, &h) || !expect(&s, ':') || !digits_n(&s, 2, &m) ||
        (*s == ':' && (s++, !digits_n(&s, 2, &sec)))) {
        return ERR_INVALID;
    }
    ns = (int64_t)(h * 3600 + m * 60 + sec) * CLK_S + parse_fraction(&s);
    s += *s == 'Z' || *s == 'z';
    if (*s != '\0' || h > 23 || m > 59 || sec > 59) {
        return ERR_INVALID;
    }
    past_ns += past_ns < 0 ? day_ns : 0;
    *utc_ns = clk_sub(clk_add(clk_sub(now_ns, past_ns), ns), ns > past_ns ? day_ns : 0);
    return ERR_OK;
}

enum err clk_parse_when(int64_t *utc_ns, const char *text, int64_t now_ns)
{
    int64_t span;

    if (strcmp(text, "now") == 0) {
        *utc_ns = now_ns;
        return ERR_OK;
    }
    if (strlen(text) > 4 && text[4] == '-') {
        return parse_rfc3339(utc_ns, text);
    }
    if (strlen(text) > 4 && text[2] == ':') {
        return parse_time_of_day(utc_ns, text, now_ns);
    }
    if (clk_parse_span(&span, text) != ERR_OK) {
        return ERR_INVALID;
    }
    *utc_ns = clk_sub(now_ns, span);
    return ERR_OK;
}
