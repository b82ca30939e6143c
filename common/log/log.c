/* One line is built in a fixed buffer and written with one call, so that lines of several threads
 * do not mix. `state.lock` guards everything; it is a plain atomic flag because the log must work
 * before and after everything else, and is held for one formatted write only. */
#include "common/log/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/utf8.h"
#include "common/os/os.h"

#define LINE_MAX_BYTES 1024
#define ROTATE_BYTES   (16L << 20)
#define ROTATE_KEEP    4
#define LIMIT_SLOTS    64
#define LIMIT_LINES    10
#define LIMIT_NS       (10 * CLK_S)

struct limit {
    char key[64]; /* "module event" */
    int64_t since_ns;
    unsigned lines;
    unsigned muted;
};

static struct {
    atomic_flag lock;
    atomic_int level; /* enum log_level */
    enum log_format format;
    FILE *file; /* NULL = standard error */
    char path[512];
    struct limit limits[LIMIT_SLOTS];
    log_tee_fn tee;
    void *tee_ctx;
} state = {.lock = ATOMIC_FLAG_INIT, .level = LOG_INFO};

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static void lock(void)
{
    while (atomic_flag_test_and_set_explicit(&state.lock, memory_order_acquire)) {
        os_sleep_ns(10 * CLK_US);
    }
}

static void unlock(void)
{
    atomic_flag_clear_explicit(&state.lock, memory_order_release);
}

enum err log_open(enum log_level level, enum log_format format, const char *path)
{
    FILE *file = NULL;

    if (path && *path) {
        file = os_fopen(path, "ab");
        if (!file) {
            return ERR_IO;
        }
    }
    lock();
    atomic_store(&state.level, level);
    state.format = format;
    state.file = file;
    snprintf(state.path, sizeof state.path, "%s", path ? path : "");
    unlock();
    return ERR_OK;
}

void log_close(void)
{
    lock();
    if (state.file) {
        fclose(state.file);
    }
    state.file = NULL;
    unlock();
}

static int log_enabled(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&state.level, memory_order_relaxed);
}

enum log_level log_set_level(enum log_level level)
{
    return (enum log_level)atomic_exchange(&state.level, level);
}

enum err log_level_parse(enum log_level *out, const char *name)
{
    for (size_t i = 0; i < sizeof level_names / sizeof *level_names; i++) {
        if (strcmp(level_names[i], name) == 0) {
            *out = (enum log_level)i;
            return ERR_OK;
        }
    }
    return ERR_INVALID;
}

const char *log_level_name(enum log_level level)
{
    return level_names[level];
}

/* path.3 → path.4, …, path → path.1; then a new file. */
static void file_rotate(void)
{
    char from[540], to[540];

    fclose(state.file);
    for (int i = ROTATE_KEEP; i > 0; i--) {
        snprintf(to, sizeof to, "%s.%d", state.path, i);
        if (i > 1) {
            snprintf(from, sizeof from, "%s.%d", state.path, i - 1);
        } else {
            snprintf(from, sizeof from, "%s", state.path);
        }
        err_ignore(os_rename(from, to)); /* the first times there is none */
    }
    state.file = os_fopen(state.path, "ab");
}

/* Says whether the line may be written, and how many were muted before it. */
static bool rate_admit(const char *module, const char *event, int64_t now_ns, unsigned *muted)
{
    char key[64];
    struct limit *slot = NULL;
    unsigned hash = 5381;

    snprintf(key, sizeof key, "%s %s", module, event);
    for (const char *c = key; *c; c++) {
        hash = hash * 33 + (unsigned char)*c;
    }
    slot = &state.limits[hash % LIMIT_SLOTS];
    *muted = 0;
    if (strcmp(slot->key, key) != 0 || now_ns - slot->since_ns > LIMIT_NS) {
        *muted = strcmp(slot->key, key) == 0 ? slot->muted : 0;
        memcpy(slot->key, key, sizeof key);
        slot->since_ns = now_ns;
        slot->lines = 0;
        slot->muted = 0;
    }
    if (slot->lines >= LIMIT_LINES) {
        slot->muted++;
        return false;
    }
    slot->lines++;
    return true;
}

/* Bytes of the UTF-8 character that begins here; 0 = none does. */
static size_t utf8_length(const char *s)
{
    size_t len;

    return *s && utf8_decode(s, strnlen(s, 4), &len) >= 0x80 && len == 1 ? 0 : *s ? len : 1;
}

/* Appends text as a JSON string's content that steers no terminal: whole characters only. */
static size_t json_escape(char *out, size_t size, const char *s)
{
    size_t n = 0, run = 0; /* bytes from s on that may stand as they are */

    for (size_t left = strlen(s), len, put; left > 0; s += len, left -= len) {
        char one[UTF8_ESCAPE] = {'\\', *s};

        run = run > 0 ? run : utf8_harmless(s, left);
        if (*s == '"' || *s == '\\') {
            len = 1;
            put = 2;
        } else if (run > 0) {
            put = len = utf8_length(s);
            memcpy(one, s, len);
        } else {
            len = utf8_escape_json(one, s, left);
            put = strlen(one);
        }
        if (n + put >= size) {
            break;
        }
        memcpy(out + n, one, put);
        n += put;
        run -= run > 0 ? len : 0;
    }
    out[n] = '\0';
    return n;
}

/* Bytes of what stands for one character in a line's text: an escape inside quotes, or a character.
 */
static size_t unit_length(const char *s, bool quoted)
{
    size_t n = quoted && s[0] == '\\' ? s[1] == 'u' ? 6 : 2 : utf8_length(s);

    return n == 0 ? 1 : n;
}

/* Ends a text that was cut off, at its end or before, behind a whole character, and its quotes. */
static void end_cut(char *text, size_t size)
{
    bool quoted = false;
    size_t n = 0, next;

    for (;; n = next) {
        next = n + unit_length(text + n, quoted);
        if (next > size - 2 || !text[n]) { /* room for a quote and the NUL */
            break;
        }
        quoted ^= text[n] == '"';
    }
    if (quoted) {
        text[n++] = '"';
    }
    text[n] = '\0';
}

/* -- lines as JSON: text is `key=value key="value"`, as log_str writes values -- */

struct out {
    char *p; /* ends with NUL */
    size_t n, size;
};

static bool out_append(struct out *o, const char *s, size_t n)
{
    if (o->n + n >= o->size) {
        return false;
    }
    memcpy(o->p + o->n, s, n);
    o->n += n;
    o->p[o->n] = '\0';
    return true;
}

/* Whether the character, or escape, that begins here may stand in a JSON string. */
static bool unit_is_json(const char *s)
{
    if (s[0] != '\\') {
        return (unsigned char)s[0] >= 0x20 && utf8_length(s) > 0;
    }
    return s[1] == 'u' ? strspn(s + 2, "0123456789abcdefABCDEF") >= 4
                       : s[1] && strchr("\"\\/bfnrt", s[1]);
}

/* Bytes of the JSON string that begins here, quotes included; 0 = it is none. */
static size_t string_length(const char *s)
{
    size_t n = 1;

    while (s[n] != '"') {
        if (!unit_is_json(s + n)) {
            return 0;
        }
        n += unit_length(s + n, true);
    }
    return n + 1;
}

/* The bare value that begins at s, n bytes, in quotes. */
static bool append_bare(struct out *o, const char *s, size_t n)
{
    char plain[LINE_MAX_BYTES], escaped[LINE_MAX_BYTES + 8];

    if (n >= sizeof plain) {
        return false;
    }
    memcpy(plain, s, n);
    plain[n] = '\0';
    n = json_escape(escaped, sizeof escaped, plain);
    return out_append(o, "\"", 1) && out_append(o, escaped, n) && out_append(o, "\"", 1);
}

/* Members of an object, one for each key; every value is a string, so that a name of digits alone
 * is what another name is. False: the text is not of this form, or there is no room. */
static bool append_fields(struct out *o, const char *text)
{
    static const char key_chars[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

    while (*text) {
        size_t key = strspn(text, key_chars), n;
        const char *value = text + key + 1;

        if (key == 0 || text[key] != '=' || (o->n > 0 && !out_append(o, ",", 1)) ||
            !out_append(o, "\"", 1) || !out_append(o, text, key) || !out_append(o, "\":", 2)) {
            return false;
        }
        n = *value == '"' ? string_length(value) : strcspn(value, " ");
        if ((*value == '"' && n == 0) || (value[n] && value[n] != ' ') ||
            !(*value == '"' ? out_append(o, value, n) : append_bare(o, value, n))) {
            return false;
        }
        text = value + n + (value[n] == ' ');
    }
    return true;
}

/* What follows the event: "fields":{…}, or "text":"…" when the text is something else. */
static void put_json(struct out *o, const char *text, const char *note)
{
    char escaped[2 * LINE_MAX_BYTES];
    struct out fields = {escaped, 0, sizeof escaped};

    escaped[0] = '\0';
    if (append_fields(&fields, text) && append_fields(&fields, note)) {
        o->n += (size_t)snprintf(o->p + o->n, o->size - o->n, "\"fields\":{%s}", escaped);
        return;
    }
    json_escape(escaped, sizeof escaped, text);
    o->n += (size_t)snprintf(o->p + o->n, o->size - o->n, "\"text\":\"%s%s%s\"", escaped,
                             *note ? " " : "", note);
}

static void write_line(enum log_level level, const char *module, const char *event,
                       const char *text, unsigned muted)
{
    char line[2 * LINE_MAX_BYTES + 256], when[CLK_TEXT], note[40] = "";
    FILE *to = state.file ? state.file : stderr;

    clk_format_utc(when, sizeof when, os_utc_ns(), 3);
    if (muted) {
        snprintf(note, sizeof note, "muted=%u", muted);
    }
    if (state.format == LOG_JSON) {
        struct out o = {line, 0, sizeof line - 3};

        o.n = (size_t)snprintf(
            line, sizeof line,
            "{\"time\":\"%s\",\"level\":\"%s\",\"module\":\"%s\",\"event\":\"%s\",", when,
            level_names[level], module, event);
        put_json(&o, text, note);
        snprintf(line + o.n, sizeof line - o.n, "}\n");
    } else {
        snprintf(line, sizeof line, "%s %-5s %s %s%s%s%s%s\n", when, level_names[level], module,
                 event, *text ? " " : "", text, *note ? " " : "", note);
    }
    fputs(line, to);
    fflush(to);
    if (state.file && ftell(state.file) > ROTATE_BYTES) {
        file_rotate();
    }
}

/* A value that was not written by log_str steers no terminal either. */
static void text_clean(char text[LINE_MAX_BYTES], const char *raw)
{
    size_t n = strlen(raw), whole = utf8_harmless(raw, n);

    if (whole == n) {
        memcpy(text, raw, n + 1);
    } else if (utf8_clean_json(text, LINE_MAX_BYTES, raw, n) + UTF8_ESCAPE >= LINE_MAX_BYTES) {
        end_cut(text, LINE_MAX_BYTES);
    }
}

PRINTF_LIKE(5, 0)
static void log_write(unsigned note, enum log_level level, const char *module, const char *event,
                      const char *fmt, va_list ap)
{
    char raw[LINE_MAX_BYTES], text[LINE_MAX_BYTES];
    unsigned muted;
    bool admitted;

    if (vsnprintf(raw, sizeof raw, fmt, ap) >= (int)sizeof raw) {
        end_cut(raw, sizeof raw);
    }
    text_clean(text, raw);
    lock();
    admitted = rate_admit(module, event, os_mono_ns(), &muted);
    if (admitted) {
        write_line(level, module, event, text, muted);
    }
    unlock();
    if (admitted && state.tee) {
        state.tee(state.tee_ctx, note, level, module, event, text);
    }
}

void log_line(enum log_level level, const char *module, const char *event, const char *fmt, ...)
{
    va_list ap;

    if (log_enabled(level)) {
        va_start(ap, fmt);
        log_write(0, level, module, event, fmt, ap);
        va_end(ap);
    }
}

void log_note(unsigned note, enum log_level level, const char *module, const char *event,
              const char *fmt, ...)
{
    va_list ap;

    if (log_enabled(level)) {
        va_start(ap, fmt);
        log_write(note, level, module, event, fmt, ap);
        va_end(ap);
    }
}

void log_tee(log_tee_fn tee, void *ctx)
{
    state.tee = tee;
    state.tee_ctx = ctx;
}

const char *log_quote(char *out, unsigned size, const char *s)
{
    size_t n = 0;

    if (size < 16) {
        snprintf(out, size, "\"\"");
        return out;
    }
    out[n++] = '"';
    n += json_escape(out + n, size - 2, s);
    out[n++] = '"';
    out[n] = '\0';
    return out;
}

const char *log_str(char *out, unsigned size, const char *s)
{
    bool plain = *s != '\0';

    for (const char *c = s; *c; c++) {
        plain = plain && *c > ' ' && *c != '"' && *c != '=' && *c != '\\' && *c != 0x7f;
    }
    if (plain) {
        snprintf(out, size, "%s", s);
        return out;
    }
    return log_quote(out, size, s);
}
