#include "tests/support/baseline.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clk.h"

#define LINES_MAX 4096

/* -- lines -- */

static void give_up(const char *what, const char *line)
{
    fprintf(stderr, "baseline: %s: %.200s\n", what, line);
    exit(1);
}

/* Digits without separators. */
static double number_of(const char *p, const char *end)
{
    char digits[64];
    size_t n = 0;

    for (; p < end && n < sizeof digits - 1; p++) {
        if (*p != ',') {
            digits[n++] = *p;
        }
    }
    digits[n] = 0;
    return strtod(digits, NULL);
}

/* The next "; " that another "Name=" or the end follows: texts may hold semicolons. */
static char *end_of_field(char *p)
{
    for (p = strstr(p, "; "); p; p = strstr(p + 2, "; ")) {
        const char *q = p + 2;

        while (isalnum((unsigned char)*q) || *q == '_') {
            q++;
        }
        if (*(p + 2) == 0 || *q == '=') {
            return p;
        }
    }
    return NULL;
}

/* One of the line's own fields, true when it was one. */
static bool take_head(struct baseline_line *l, const char *name, const char *text)
{
    if (strcmp(name, "PID") == 0) {
        l->pid = strtoll(text, NULL, 10);
    } else if (strcmp(name, "ProceNum") == 0) {
        l->cpu = (uint32_t)strtoul(text, NULL, 10);
    } else if (strcmp(name, "DataLen") == 0) {
        l->payload_n = strtoul(text, NULL, 10);
    } else if (strcmp(name, "PName") == 0) {
        l->process = text;
    } else {
        return strcmp(name, "TID") == 0;
    }
    return true;
}

static void take_fields(struct baseline_line *l, char *p)
{
    bool head = true; /* the payload may have names of the line's own fields */

    while (*p) {
        char *equals = strchr(p, '='), *end = equals ? end_of_field(equals) : NULL;

        if (!end) {
            give_up("no field", p);
        }
        *equals = 0;
        *end = 0;
        head = head && take_head(l, p, equals + 1);
        if (!head) {
            if (l->n_fields == BASELINE_FIELDS_MAX) {
                give_up("too many fields", l->event);
            }
            l->fields[l->n_fields++] = (struct baseline_field){p, equals + 1};
        }
        p = end + 2;
    }
}

static void take_event(struct baseline_line *l, char *p)
{
    char *colon = strstr(p, ": "), *head = colon ? strstr(colon, " PID=") : NULL;

    if (!head) {
        give_up("no event", p);
    }
    l->ns = (int64_t)(number_of(p, colon) * 1e6 + 0.5);
    *head = 0;
    l->event = colon + 2;
    take_fields(l, head + 1);
}

static void take_count(struct baseline_line *l, char *p)
{
    char *colon = strrchr(p, ':');

    if (!colon) {
        give_up("no count", p);
    }
    *colon = 0;
    l->event = p;
    l->count = true;
    l->number = (uint64_t)number_of(colon + 1, colon + strlen(colon + 1) + 1);
}

static void take_line(struct baseline *b, const char *text)
{
    struct baseline_line *l = &b->lines[b->n];
    size_t n = strcspn(text, "\r\n");

    if (b->n == LINES_MAX) {
        give_up("too many lines", text);
    }
    *l = (struct baseline_line){.line = malloc(n + 1)};
    if (!l->line) {
        give_up("out of memory", text);
    }
    memcpy(l->line, text, n);
    l->line[n] = 0;
    if (strncmp(l->line, "EVENT ", 6) == 0) {
        take_event(l, l->line + 6);
    } else if (strncmp(l->line, "COUNT ", 6) == 0) {
        take_count(l, l->line + 6);
    } else {
        give_up("neither EVENT nor COUNT", l->line);
    }
    b->n++;
}

void baseline_open(struct baseline *out, const char *path)
{
    char text[BASELINE_LINE_MAX];
    FILE *f = fopen(path, "r");

    *out = (struct baseline){.lines = calloc(LINES_MAX, sizeof *out->lines)};
    if (!f || !out->lines) {
        give_up("cannot read", path);
        return;
    }
    while (fgets(text, sizeof text, f)) {
        take_line(out, text);
    }
    (void)fclose(f);
}

void baseline_close(struct baseline *b)
{
    for (size_t i = 0; i < b->n; i++) {
        free(b->lines[i].line);
    }
    free(b->lines);
}

/* -- values -- */

/* Equal, or equal up to the dots. */
static bool same_text(const char *text, const char *full, size_t n)
{
    size_t shown = strlen(text);

    if (shown > 3 && strcmp(text + shown - 3, "...") == 0) {
        shown -= 3;
        return n > shown && memcmp(text, full, shown) == 0;
    }
    return shown == n && memcmp(text, full, n) == 0;
}

/* One flag of "a|b" or "a, b", at most *n bytes; *n becomes 0 at the end. */
static const char *next_flag(const char *p, size_t *n)
{
    while (*n && (*p == '|' || *p == ',' || *p == ' ')) {
        p++;
        --*n;
    }
    return p;
}

static size_t flag_length(const char *p, size_t n)
{
    size_t i = 0;

    while (i < n && p[i] != '|' && p[i] != ',') {
        i++;
    }
    return i;
}

static bool has_flag(const char *flag, size_t n, bool cut, const char *full, size_t full_n)
{
    for (;;) {
        size_t length;

        full = next_flag(full, &full_n);
        length = flag_length(full, full_n);
        if (length == 0) {
            return false;
        }
        if ((cut ? length >= n : length == n) && memcmp(full, flag, n) == 0) {
            return true;
        }
        full += length;
        full_n -= length;
    }
}

/* Names of bits: there is no order to them, so that those shown must be among all. */
static bool same_flags(const char *text, const char *full, size_t full_n)
{
    size_t shown = strlen(text);
    bool cut = shown > 3 && strcmp(text + shown - 3, "...") == 0;

    if (!memchr(full, '|', full_n)) {
        return false;
    }
    shown -= cut ? 3 : 0;
    for (;;) {
        size_t n;

        text = next_flag(text, &shown);
        n = flag_length(text, shown);
        if (n == 0) {
            return true;
        }
        if (!has_flag(text, n, cut && n == shown, full, full_n)) {
            return false;
        }
        text += n;
        shown -= n;
    }
}

static bool reads_as_number(const char *text, uint64_t *out)
{
    char digits[40];
    size_t n = 0;
    char *end;
    bool hex = strncmp(text, "0x", 2) == 0;

    for (const char *p = text; *p && n < sizeof digits - 1; p++) {
        if (*p != ',') {
            digits[n++] = *p;
        }
    }
    digits[n] = 0;
    *out = digits[0] == '-' ? (uint64_t)strtoll(digits, &end, 10)
                            : strtoull(digits, &end, hex ? 16 : 10);
    return n > 0 && *end == 0;
}

/* With separators, as the text has it when it was cut. */
static bool same_cut_number(const char *text, uint64_t u)
{
    bool negative = *text == '-';
    char digits[32], s[48];
    size_t n =
        (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)(negative ? 0 - u : u));
    size_t at = 0;

    if (negative) {
        s[at++] = '-';
    }
    for (size_t i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) {
            s[at++] = ',';
        }
        s[at++] = digits[i];
    }
    return same_text(text, s, at);
}

/* Equal in the bits there are: signs are a matter of taste, and so is the width. */
static enum baseline_verdict compare_number(const char *text, uint64_t u, unsigned bits)
{
    uint64_t mask = bits && bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX, shown;

    if (strcmp(text, "True") == 0 || strcmp(text, "False") == 0) {
        return (u != 0) == (*text == 'T') ? BASELINE_SAME : BASELINE_DIFFERS;
    }
    if (strcmp(text, "None") == 0 && (u & mask) == 0) {
        return BASELINE_SAME;
    }
    if (!reads_as_number(text, &shown)) {
        return same_cut_number(text, u) ? BASELINE_SAME : BASELINE_NAMED;
    }
    return (shown & mask) == (u & mask) ? BASELINE_SAME : BASELINE_DIFFERS;
}

/* "23/03/14 00:46:36.69..." */
static bool same_time(const char *text, int64_t utc_ns)
{
    char full[CLK_TEXT], s[CLK_TEXT];

    (void)clk_format_utc(full, sizeof full, utc_ns, 6); /* 2023-03-14T00:46:36.694654Z */
    (void)snprintf(s, sizeof s, "%.2s/%.2s/%.2s %.15s", full + 2, full + 5, full + 8, full + 11);
    return same_text(text, s, strlen(s));
}

static bool same_guid(const char *text, const uint8_t p[16])
{
    char s[40];

    (void)snprintf(s, sizeof s,
                   "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", p[3],
                   p[2], p[1], p[0], p[5], p[4], p[7], p[6], p[8], p[9], p[10], p[11], p[12], p[13],
                   p[14], p[15]);
    return same_text(text, s, strlen(s));
}

/* The longest run of zero groups, at least two, becomes "::". */
static void print_ip6(char *out, size_t size, const uint8_t p[16])
{
    unsigned group[8], best = 8, best_n = 1;
    size_t n = 0;

    for (unsigned i = 0; i < 8; i++) {
        group[i] = (unsigned)p[2 * i] << 8 | p[2 * i + 1];
    }
    for (unsigned i = 0; i < 8; i++) {
        unsigned run = 0;

        while (i + run < 8 && group[i + run] == 0) {
            run++;
        }
        if (run > best_n) {
            best = i;
            best_n = run;
        }
    }
    for (unsigned i = 0; i < 8 && n < size; i++) {
        if (i == best) {
            n += (size_t)snprintf(out + n, size - n, "::");
            i += best_n - 1;
        } else {
            n += (size_t)snprintf(out + n, size - n, "%s%x",
                                  i == 0 || i == best + best_n ? "" : ":", group[i]);
        }
    }
}

/* As an address, or with a port as in "10.50.10.50:0" and "[2001:db8::1]:0". */
static bool same_address(const char *text, const uint8_t *p, size_t n)
{
    char s[64] = "", with_port[80];

    if (n == 4) {
        (void)snprintf(s, sizeof s, "%u.%u.%u.%u", p[0], p[1], p[2], p[3]);
    } else if (n == 16) {
        print_ip6(s, sizeof s, p);
    }
    (void)snprintf(with_port, sizeof with_port, n == 4 ? "%s:0" : "[%s]:0", s);
    return same_text(text, s, strlen(s)) || same_text(text, with_port, strlen(with_port));
}

static bool same_bytes(const char *text, const uint8_t *p, size_t n)
{
    char s[128];
    size_t at = 0;

    for (size_t i = 0; i < n && at + 3 < sizeof s; i++) {
        at += (size_t)snprintf(s + at, sizeof s - at, "%02x", p[i]);
    }
    return same_text(text, s, at);
}

enum baseline_verdict baseline_compare(const char *text, const struct value *v)
{
    bool same = false;

    switch (v->kind) {
    case VALUE_INT:
        return compare_number(text, (uint64_t)v->v.i, v->bits);
    case VALUE_UINT:
    case VALUE_HEX:
    case VALUE_BOOL:
        return compare_number(text, v->v.u, v->bits);
    case VALUE_FLOAT:
        same = number_of(text, text + strlen(text)) - v->v.f < 0.001 &&
               v->v.f - number_of(text, text + strlen(text)) < 0.001;
        break;
    case VALUE_TEXT:
    case VALUE_SID:
        if (v->v.text.n == 1 && strlen(text) > 1) { /* a character is a number there */
            return compare_number(text, (uint8_t)v->v.text.p[0], 8);
        }
        same =
            same_text(text, v->v.text.p, v->v.text.n) || same_flags(text, v->v.text.p, v->v.text.n);
        break;
    case VALUE_TIME:
        same = same_time(text, v->v.i);
        break;
    case VALUE_GUID:
        same = same_guid(text, v->v.bytes.p);
        break;
    case VALUE_ADDRESS:
        same = same_address(text, v->v.bytes.p, v->v.bytes.n);
        break;
    default:
        same = same_bytes(text, v->v.bytes.p, v->v.bytes.n);
        break;
    }
    return same ? BASELINE_SAME : BASELINE_DIFFERS;
}
