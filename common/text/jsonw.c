#include "common/text/jsonw.h"

#include <assert.h>
#include <float.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/utf8.h"

void jsonw_init(struct jsonw *j, FILE *to, unsigned pretty)
{
    *j = (struct jsonw){.to = to, .pretty = pretty};
}

void jsonw_init_buf(struct jsonw *j, struct buf *text)
{
    *j = (struct jsonw){.text = text};
}

void jsonw_init_leaves(struct jsonw *j, struct jsonw_leaves *leaves)
{
    *j = (struct jsonw){.leaves = leaves};
    leaves->ends[0] = 0;
}

static void put_raw(struct jsonw *j, const void *p, size_t n)
{
    if (n == 0) {
        return; /* p may be NULL */
    }
    if (j->to) {
        (void)fwrite(p, 1, n, j->to);
    } else {
        buf_put(j->text, p, n);
    }
}

static void put_char(struct jsonw *j, char c)
{
    if (j->to) {
        (void)fputc(c, j->to);
    } else {
        buf_put_u8(j->text, (uint8_t)c);
    }
}

static void put_cstr(struct jsonw *j, const char *s)
{
    put_raw(j, s, strlen(s));
}

/* The first character as JSON escapes it. Returns the bytes it took of the text. */
static size_t escape_first(const struct jsonw *j, char out[UTF8_ESCAPE], struct str v)
{
    static const char letters[] = {'b', 't', 'n', 0, 'f', 'r'}; /* of 8 to 13 */
    uint8_t c = (uint8_t)v.p[0];

    if (!j->compact || c >= 0x20) {
        return utf8_escape_json(out, v.p, v.n);
    }
    if (c >= 8 && c < 8 + sizeof letters && letters[c - 8]) {
        (void)snprintf(out, UTF8_ESCAPE, "\\%c", letters[c - 8]);
    } else {
        (void)snprintf(out, UTF8_ESCAPE, "\\u%04X", c);
    }
    return 1;
}

/* Harmless on a terminal, where the document may end up. people: escapes are text */
static void put_text(struct jsonw *j, struct str v, bool people)
{
    char escape[UTF8_ESCAPE];

    put_char(j, '"');
    while (v.n > 0) {
        size_t n = utf8_harmless(v.p, v.n), quote = 0;

        while (quote < n && v.p[quote] != '"' && v.p[quote] != '\\') {
            quote++;
        }
        put_raw(j, v.p, quote);
        if (quote < n) {
            put_char(j, '\\');
            put_char(j, v.p[quote]);
            n = quote + 1;
        } else if (n == 0 && people) {
            n = utf8_escape(escape, v.p, v.n);
            put_char(j, '\\'); /* before that of the escape */
            put_cstr(j, escape);
        } else if (n == 0) {
            n = escape_first(j, escape, v);
            put_cstr(j, escape);
        }
        v = (struct str){v.p + n, v.n - n};
    }
    put_char(j, '"');
}

static void break_line(struct jsonw *j, unsigned depth)
{
    if (depth <= j->pretty && depth > 0) {
        put_char(j, '\n');
        for (unsigned i = 0; i < depth; i++) {
            put_char(j, ' ');
        }
    }
}

static uint64_t level_bit(unsigned depth)
{
    return UINT64_C(1) << (depth - 1);
}

/* -- leaves: the path of what is open stands in `path` up to ends[depth] -- */

static void leaves_enter(struct jsonw *j, struct str key)
{
    struct jsonw_leaves *l = j->leaves;

    l->path.n = l->path.n < l->ends[j->depth] ? l->path.n : l->ends[j->depth];
    if (j->depth == 0) {
        return;
    }
    if (l->path.n) {
        buf_put_u8(&l->path, '.');
    }
    if (j->array & level_bit(j->depth)) {
        buf_printf(&l->path, "%llu", (unsigned long long)l->next[j->depth]++);
    } else {
        buf_put(&l->path, key.p, key.n);
    }
}

/* False: they are not asked for. */
static bool leaves_put(struct jsonw *j, struct str key, struct str value)
{
    struct jsonw_leaves *l = j->leaves;

    if (l && !j->hidden) {
        leaves_enter(j, key);
        if (!l->path.bad) {
            l->leaf(l->ctx, (struct str){(const char *)l->path.p, l->path.n}, value);
        }
    }
    return l != NULL;
}

static void leaves_open(struct jsonw *j, struct str key)
{
    leaves_enter(j, key);
    j->depth++;
    j->leaves->ends[j->depth] = j->leaves->path.n;
    j->leaves->next[j->depth] = 0;
}

/* What stands before a value: comma, line, key. */
static bool begin_value(struct jsonw *j, struct str key)
{
    if (j->hidden) {
        return false;
    }
    if (j->depth == 0) {
        return true;
    }
    if (j->filled & level_bit(j->depth)) {
        put_cstr(j, j->depth > j->pretty && !j->compact ? ", " : ",");
    }
    j->filled |= level_bit(j->depth);
    break_line(j, j->depth);
    if (!(j->array & level_bit(j->depth))) {
        put_text(j, key, false);
        put_cstr(j, j->compact ? ":" : ": ");
    }
    return true;
}

static void open_level(struct jsonw *j, struct str key, bool array)
{
    if (j->depth == JSONW_DEPTH || j->hidden || (!j->leaves && !begin_value(j, key))) {
        j->hidden++;
        return;
    }
    if (j->leaves) {
        leaves_open(j, key);
    } else {
        j->depth++;
        put_char(j, array ? '[' : '{');
    }
    j->filled &= ~level_bit(j->depth);
    j->array = array ? j->array | level_bit(j->depth) : j->array & ~level_bit(j->depth);
}

void jsonw_object_n(struct jsonw *j, struct str key)
{
    open_level(j, key, false);
}

void jsonw_array_n(struct jsonw *j, struct str key)
{
    open_level(j, key, true);
}

void jsonw_object(struct jsonw *j, const char *key)
{
    open_level(j, str_make(key), false);
}

void jsonw_array(struct jsonw *j, const char *key)
{
    open_level(j, str_make(key), true);
}

void jsonw_end(struct jsonw *j)
{
    unsigned depth = j->depth;

    if (j->hidden) {
        j->hidden--;
        return;
    }
    assert(depth > 0 && depth <= JSONW_DEPTH);
    j->depth--;
    if (j->leaves) {
        return;
    }
    if (j->filled & level_bit(depth) && depth <= j->pretty) {
        put_char(j, '\n');
        for (unsigned i = 1; i < depth; i++) {
            put_char(j, ' ');
        }
    }
    put_char(j, j->array & level_bit(depth) ? ']' : '}');
}

void jsonw_raw_n(struct jsonw *j, struct str key, const char *v)
{
    if (!leaves_put(j, key, str_make(v)) && begin_value(j, key)) {
        put_cstr(j, v);
    }
}

void jsonw_text_n(struct jsonw *j, struct str key, struct str v)
{
    if (!leaves_put(j, key, v) && begin_value(j, key)) {
        put_text(j, v, false);
    }
}

void jsonw_bytes(struct jsonw *j, const char *key, struct str v)
{
    if (!leaves_put(j, str_make(key), v) && begin_value(j, str_make(key))) {
        put_text(j, v, utf8_whole(v.p, v.n) < v.n);
    }
}

/* Always with a point or an exponent, which shows that it is no whole number. */
void jsonw_real(struct jsonw *j, const char *key, double v)
{
    char text[40], *e, *digits;

    if (!(v >= -DBL_MAX && v <= DBL_MAX)) { /* isfinite converts to float in MinGW */
        jsonw_null(j, key);
        return;
    }
    (void)snprintf(text, sizeof text - 2, "%.15g", v);
    e = strchr(text, 'e');
    if (e) { /* e+07 and e-07 are e7 and e-7 */
        e += e[1] == '-' ? 2 : 1;
        digits = e + strspn(e, "+0");
        memmove(e, digits, strlen(digits) + 1);
    } else if (!strchr(text, '.')) {
        memcpy(text + strlen(text), ".0", sizeof ".0");
    }
    jsonw_raw(j, key, text);
}

static void put_digits(struct jsonw *j, struct str key, bool quoted, bool minus, uint64_t v)
{
    const char *quote = quoted && !j->leaves ? "\"" : "";
    char text[24];

    (void)snprintf(text, sizeof text, "%s%s%llu%s", quote, minus ? "-" : "", (unsigned long long)v,
                   quote);
    jsonw_raw_n(j, key, text);
}

void jsonw_uint_n(struct jsonw *j, struct str key, uint64_t v)
{
    put_digits(j, key, v > (uint64_t)MODEL_JSON_EXACT, false, v);
}

void jsonw_int_n(struct jsonw *j, struct str key, int64_t v)
{
    uint64_t size = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

    put_digits(j, key, size > (uint64_t)MODEL_JSON_EXACT, v < 0, size);
}

void jsonw_uint(struct jsonw *j, const char *key, uint64_t v)
{
    jsonw_uint_n(j, str_make(key), v);
}

void jsonw_int(struct jsonw *j, const char *key, int64_t v)
{
    jsonw_int_n(j, str_make(key), v);
}

void jsonw_wide(struct jsonw *j, const char *key, uint64_t v)
{
    put_digits(j, str_make(key), true, false, v);
}

void jsonw_bool(struct jsonw *j, const char *key, bool v)
{
    jsonw_raw_n(j, str_make(key), v ? "true" : "false");
}

void jsonw_null(struct jsonw *j, const char *key)
{
    if (!j->leaves || j->hidden) {
        jsonw_raw_n(j, str_make(key), "null");
    } else {
        (void)leaves_put(j, str_make(key), str_make(""));
    }
}

void jsonw_text(struct jsonw *j, const char *key, struct str v)
{
    jsonw_text_n(j, str_make(key), v);
}

void jsonw_raw(struct jsonw *j, const char *key, const char *v)
{
    jsonw_raw_n(j, str_make(key), v);
}

const char *jsonw_ms(char text[JSONW_MS_TEXT], int64_t ns, int digits)
{
    uint64_t v = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns, unit = 1, whole = CLK_MS;

    for (int i = digits; i < 6; i++) {
        unit *= 10;
    }
    v = (v + unit / 2) / unit;
    whole /= unit;
    (void)snprintf(text, JSONW_MS_TEXT, "%s%llu.%0*llu", ns < 0 && v ? "-" : "",
                   (unsigned long long)(v / whole), digits, (unsigned long long)(v % whole));
    return text;
}
