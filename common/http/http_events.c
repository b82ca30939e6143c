#include "common/http/http_events.h"

#include <inttypes.h>

/* -- JSON, as far as it is needed: the members of one object -- */

struct scan {
    const char *p, *end;
};

static void scan_blanks(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r')) {
        s->p++;
    }
}

static bool scan_char(struct scan *s, char c)
{
    scan_blanks(s);
    if (s->p < s->end && *s->p == c) {
        s->p++;
        return true;
    }
    return false;
}

/* A text without its quotes, escapes as they stand. */
static bool scan_text(struct scan *s, struct str *out)
{
    if (!scan_char(s, '"')) {
        return false;
    }
    out->p = s->p;
    while (s->p < s->end && *s->p != '"') {
        s->p += *s->p == '\\' && s->end - s->p > 1 ? 2 : 1;
    }
    if (s->p >= s->end) {
        return false;
    }
    out->n = (size_t)(s->p - out->p);
    s->p++;
    return true;
}

/* Any value, of which the extent is given; how deep it is does not matter. */
static bool scan_value(struct scan *s, struct str *out)
{
    size_t depth = 0;
    struct str text;

    scan_blanks(s);
    out->p = s->p;
    while (s->p < s->end) {
        if (*s->p == '"') {
            if (!scan_text(s, &text)) {
                return false;
            }
        } else if (*s->p == '[' || *s->p == '{') {
            depth++;
            s->p++;
        } else if (depth > 0 && (*s->p == ']' || *s->p == '}')) {
            depth--;
            s->p++;
        } else if (depth == 0 && (*s->p == ',' || *s->p == '}')) {
            break;
        } else {
            s->p++;
        }
    }
    out->n = (size_t)(s->p - out->p);
    return depth == 0 && out->n > 0;
}

/* Calls `each` for the members. false: it is no object. */
static bool scan_members(struct str json,
                         void (*each)(void *ctx, struct str name, struct str value), void *ctx)
{
    struct scan s = {json.p, json.p + json.n};
    struct str name, value;

    if (!scan_char(&s, '{')) {
        return false;
    }
    if (scan_char(&s, '}')) {
        return true;
    }
    do {
        if (!scan_text(&s, &name) || !scan_char(&s, ':') || !scan_value(&s, &value)) {
            return false;
        }
        each(ctx, name, value);
    } while (scan_char(&s, ','));
    return scan_char(&s, '}');
}

/* A value that is a text without escapes. */
static bool value_text(struct str *out, struct str value)
{
    struct scan s = {value.p, value.p + value.n};

    return scan_text(&s, out) && (out->n == 0 || !memchr(out->p, '\\', out->n));
}

static uint64_t value_number(struct str value)
{
    struct str digits = value;
    uint64_t v = 0;

    (void)value_text(&digits, value);
    for (size_t i = 0; i < digits.n && digits.p[i] >= '0' && digits.p[i] <= '9'; i++) {
        v = v > UINT64_MAX / 10 - 1 ? UINT64_MAX : v * 10 + (uint64_t)(digits.p[i] - '0');
    }
    return v;
}

struct member {
    const char *name;
    struct str *out;
    bool found;
};

static void member_look(void *ctx, struct str name, struct str value)
{
    struct member *m = ctx;

    if (!m->found && str_eq(name, str_make(m->name))) {
        m->found = value_text(m->out, value);
    }
}

bool http_events_member(struct str *out, struct str json, const char *name)
{
    struct member m = {name, out, false};

    return scan_members(json, member_look, &m) && m.found;
}

static void answer_look(void *ctx, struct str name, struct str value)
{
    struct http_events_answer *a = ctx;

    if (str_eq(name, str_make("cursor"))) {
        if (!value_text(&a->cursor, value)) {
            a->cursor = (struct str){NULL, 0};
        }
    } else if (str_eq(name, str_make("lost"))) {
        a->lost = value_number(value);
    } else if (str_eq(name, str_make("more"))) {
        a->more = value.n >= 4 && memcmp(value.p, "true", 4) == 0;
    } else if (str_eq(name, str_make("updates"))) {
        struct scan s = {value.p, value.p + value.n};

        a->has_updates = scan_char(&s, '[') && !scan_char(&s, ']');
    }
}

static bool cursor_is_plain(struct str cursor)
{
    for (size_t i = 0; i < cursor.n; i++) {
        if (cursor.p[i] <= ' ' || cursor.p[i] > '~') {
            return false;
        }
    }
    return cursor.n > 0 && cursor.n <= HTTP_EVENTS_CURSOR;
}

enum err http_events_read(struct http_events_answer *out, struct str json)
{
    struct http_events_answer a = {.cursor = {NULL, 0}};

    if (!scan_members(json, answer_look, &a) || !cursor_is_plain(a.cursor)) {
        return ERR_CORRUPT;
    }
    *out = a;
    return ERR_OK;
}

/* -- what is asked next -- */

static bool parameter_is(struct str parameter, const char *name)
{
    size_t n = strlen(name);

    return parameter.n >= n && memcmp(parameter.p, name, n) == 0 &&
           (parameter.n == n || parameter.p[n] == '=');
}

static void put_escaped(struct buf *out, struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i], low = (char)(c | 0x20);

        if ((c >= '0' && c <= '9') || (low >= 'a' && low <= 'z') || c == '-' || c == '.' ||
            c == '_' || c == '~') {
            buf_put_u8(out, (uint8_t)c);
        } else {
            buf_printf(out, "%%%02X", (unsigned char)c);
        }
    }
}

void http_events_query(struct buf *out, struct str query, struct str cursor, unsigned wait_s,
                       unsigned max)
{
    buf_printf(out, "wait=%us&max=%u", wait_s, max);
    if (cursor.n > 0) {
        buf_put_str(out, "&cursor=");
        put_escaped(out, cursor);
    }
    while (query.n > 0) {
        const char *end = memchr(query.p, '&', query.n);
        struct str one = {query.p, end ? (size_t)(end - query.p) : query.n};

        if (one.n > 0 && !parameter_is(one, "wait") && !parameter_is(one, "max") &&
            (cursor.n == 0 || !parameter_is(one, "cursor"))) {
            buf_put_u8(out, '&');
            buf_put(out, one.p, one.n);
        }
        query.p += one.n + (end ? 1 : 0);
        query.n -= one.n + (end ? 1 : 0);
    }
}

/* -- events -- */

/* The text as the data of an event: no line of it can be another field. */
static void put_data(struct buf *out, struct str text)
{
    buf_put_str(out, "data: ");
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '\n' || text.p[i] == '\r') {
            buf_put_str(out, "\ndata: ");
        } else {
            buf_put_u8(out, (uint8_t)text.p[i]);
        }
    }
    buf_put_str(out, "\n\n");
}

void http_events_write(struct buf *out, const struct http_events_answer *a, struct str json,
                       bool all)
{
    if (a->lost > 0) {
        buf_printf(out, "event: gap\ndata: {\"lost\":%" PRIu64 "}\n\n", a->lost);
    }
    if (a->has_updates || all) {
        buf_put_str(out, "event: update\nid: ");
        buf_put(out, a->cursor.p, a->cursor.n);
        buf_put_str(out, "\n");
        put_data(out, json);
    }
}

void http_events_end(struct buf *out, const char *code, const char *message)
{
    buf_printf(out, "event: end\ndata: {\"code\":\"%s\",\"message\":\"%s\",\"details\":\"\"}\n\n",
               code, message);
}
