#include "collector/cli/times.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DAY_S 86400

/* A day and a time of day, in some zone. */
struct civil {
    int year, month, day; /* month from 1 */
    int hour, minute, second;
};

/* -- the calendar -- */

/* Days since 1970 (Hinnant). */
static int64_t days_of(int year, int month, int day)
{
    int64_t y = year - (month <= 2), era = (y >= 0 ? y : y - 399) / 400, yoe = y - era * 400;
    int64_t doy = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

static void civil_of_days(struct civil *c, int64_t days)
{
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097, doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;

    c->day = (int)(doy - (153 * mp + 2) / 5 + 1);
    c->month = (int)(mp < 10 ? mp + 3 : mp - 9);
    c->year = (int)(yoe + era * 400 + (c->month <= 2));
}

static int64_t civil_seconds(const struct civil *c)
{
    return days_of(c->year, c->month, c->day) * DAY_S + c->hour * 3600 + c->minute * 60 + c->second;
}

/* What clocks show at this moment, as if it were UTC. */
static int64_t shown_at(int64_t utc_s, bool local)
{
    time_t t = (time_t)utc_s;
    const struct tm *tm = local ? localtime(&t) : NULL;
    struct civil c;

    if (!tm) {
        return utc_s;
    }
    c = (struct civil){tm->tm_year + 1900, tm->tm_mon + 1, tm->tm_mday,
                       tm->tm_hour,        tm->tm_min,     tm->tm_sec};
    return civil_seconds(&c);
}

static void offset_text(char *text, size_t size, int64_t offset_s)
{
    int64_t size_s = offset_s < 0 ? -offset_s : offset_s;

    (void)snprintf(text, size, "%c%02d:%02d", offset_s < 0 ? '-' : '+', (int)(size_s / 3600),
                   (int)(size_s / 60 % 60));
}

const char *times_format_local(char *text, size_t size, int64_t utc_ns, int digits)
{
    int64_t utc_s = utc_ns / CLK_S - (utc_ns % CLK_S < 0);
    int64_t offset_s = shown_at(utc_s, true) - utc_s;
    size_t n;

    (void)clk_format_utc(text, size, clk_add(utc_ns, offset_s * CLK_S), digits);
    n = strlen(text);
    if (n && text[n - 1] == 'Z') {
        offset_text(text + n - 1, size - n + 1, offset_s);
    }
    return text;
}

/* The moments at which clocks show this: zones are at most a day off, and turn at whole quarters of
 * an hour. */
static size_t moments_of(int64_t out[2], int64_t shown_s, bool local)
{
    int64_t last = INT64_MIN;
    size_t n = 0;

    if (!local) {
        out[0] = shown_s;
        return 1;
    }
    for (int64_t off = -DAY_S; off <= DAY_S && n < 2; off += 900) {
        int64_t at = shown_s + off;

        if (shown_at(at, true) == shown_s && at != last) {
            out[n++] = last = at;
        }
    }
    return n;
}

static enum err moment_of(int64_t *utc_ns, const struct civil *c, bool local, const char *text,
                          struct errmsg *why)
{
    int64_t at[2], shown_s = civil_seconds(c);
    char a[CLK_TEXT + 8], b[CLK_TEXT + 8];
    size_t n = moments_of(at, shown_s, local);

    if (n == 1) {
        *utc_ns = at[0] * CLK_S;
        return ERR_OK;
    }
    if (n == 2) {
        return errmsg_set(why, ERR_USAGE, "'%s' comes twice here: say %s or %s", text,
                          times_format_local(a, sizeof a, at[0] * CLK_S, 0),
                          times_format_local(b, sizeof b, at[1] * CLK_S, 0));
    }
    at[0] = shown_s - (shown_at(shown_s - DAY_S, true) - (shown_s - DAY_S)); /* as it was before, */
    at[1] = shown_s - (shown_at(shown_s + DAY_S, true) - (shown_s + DAY_S)); /* and is after */
    return errmsg_set(why, ERR_USAGE, "'%s' never comes here, clocks are put on then: say %s or %s",
                      text, times_format_local(a, sizeof a, at[0] * CLK_S, 0),
                      times_format_local(b, sizeof b, at[1] * CLK_S, 0));
}

/* -- text -- */

static bool number(const char **s, int digits, int *out)
{
    *out = 0;
    for (int i = 0; i < digits; i++, (*s)++) {
        if (**s < '0' || **s > '9') {
            return false;
        }
        *out = *out * 10 + (**s - '0');
    }
    return true;
}

/* "14:02[:05]" at the end of the text. */
static bool time_of_day(const char *s, struct civil *c)
{
    c->second = 0;
    if (!number(&s, 2, &c->hour) || *s++ != ':' || !number(&s, 2, &c->minute)) {
        return false;
    }
    if (*s == ':') {
        s++;
        if (!number(&s, 2, &c->second)) {
            return false;
        }
    }
    return *s == '\0' && c->hour < 24 && c->minute < 60 && c->second < 60;
}

static int days_in_month(int year, int month)
{
    return (int)(days_of(month == 12 ? year + 1 : year, month == 12 ? 1 : month + 1, 1) -
                 days_of(year, month, 1));
}

static bool date(const char **s, struct civil *c)
{
    return number(s, 4, &c->year) && *(*s)++ == '-' && number(s, 2, &c->month) && *(*s)++ == '-' &&
           number(s, 2, &c->day) && c->month >= 1 && c->month <= 12 && c->day >= 1 &&
           c->day <= days_in_month(c->year, c->month);
}

/* How many days before today the word at the beginning names; -1: none. *rest: behind it. */
static int64_t days_back(const char *text, const char **rest, int64_t today)
{
    static const char *const days[] = {"thu", "fri", "sat", "sun", "mon", "tue", "wed"};
    size_t n = strcspn(text, " ");

    *rest = text + n + (text[n] == ' ');
    if (n == 5 && memcmp(text, "today", n) == 0) {
        return 0;
    }
    if (n == 9 && memcmp(text, "yesterday", n) == 0) {
        return 1;
    }
    for (int64_t i = 0; i < 7; i++) { /* 1970 began with a Thursday */
        if (n == 3 && memcmp(text, days[i], 3) == 0) {
            return ((today - i) % 7 + 7) % 7;
        }
    }
    return -1;
}

enum err times_parse(int64_t *utc_ns, const char *text, int64_t now_ns, bool local,
                     struct errmsg *why)
{
    int64_t now_s = shown_at(now_ns / CLK_S, local), today = now_s / DAY_S;
    struct civil c = {0};
    const char *rest = text;
    int64_t back = days_back(text, &rest, today);
    bool ok;

    if (back >= 0) {
        civil_of_days(&c, today - back);
        ok = *rest == '\0' || time_of_day(rest, &c);
        if (ok && back == 0 && strncmp(text, "today", 5) != 0 && civil_seconds(&c) > now_s) {
            civil_of_days(&c, today - 7); /* "mon 14:00" on a Monday morning */
        }
        return ok ? moment_of(utc_ns, &c, local, text, why)
                  : errmsg_set(why, ERR_USAGE, "'%s': what follows the day is no time as 14:00",
                               text);
    }
    if (strlen(text) >= 5 && text[2] == ':' && time_of_day(text, &c)) {
        civil_of_days(&c, today);
        if (civil_seconds(&c) > now_s) {
            civil_of_days(&c, today - 1);
        }
        return moment_of(utc_ns, &c, local, text, why);
    }
    rest = text;
    if (strlen(text) >= 10 && text[4] == '-' && (text[10] == '\0' || text[10] == ' ')) {
        if (!date(&rest, &c)) {
            return errmsg_set(why, ERR_USAGE, "'%s': there is no such day", text);
        }
        ok = *rest == '\0' || time_of_day(rest + 1, &c);
        return ok ? moment_of(utc_ns, &c, local, text, why)
                  : errmsg_set(why, ERR_USAGE, "'%s': what follows the day is no time as 14:00",
                               text);
    }
    return clk_parse_when(utc_ns, text, now_ns)
               ? errmsg_set(why, ERR_USAGE,
                            "'%s' is neither a span such as 5m nor a time such as 14:02, today, "
                            "yesterday 14:00, mon, 2026-11-21 09:00 or 2026-11-21T09:00:00Z",
                            text)
               : ERR_OK;
}
