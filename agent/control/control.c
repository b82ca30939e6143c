#include "agent/control/control.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "agent/conf/etw_conf.h"
#include "agent/control/control_pipe.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/text/jsonw.h"

#define LEVEL_MAX 4

/* -- names of the kernel's flags -- */

static const struct {
    const char *name;
    uint32_t flag;
} flags[] = {
    {"process", ETW_FLAG_PROCESS},
    {"thread", ETW_FLAG_THREAD},
    {"image", ETW_FLAG_IMAGE},
    {"counters", ETW_FLAG_PROCESS_COUNTERS},
    {"cswitch", ETW_FLAG_CSWITCH},
    {"dpc", ETW_FLAG_DPC},
    {"interrupt", ETW_FLAG_INTERRUPT},
    {"syscall", ETW_FLAG_SYSTEMCALL},
    {"disk", ETW_FLAG_DISK_IO},
    {"disk_init", ETW_FLAG_DISK_INIT},
    {"ready", ETW_FLAG_DISPATCHER},
    {"hard_faults", ETW_FLAG_HARD_FAULTS},
    {"virtual_alloc", ETW_FLAG_VIRTUAL_ALLOC},
    {"network", ETW_FLAG_NETWORK},
    {"registry", ETW_FLAG_REGISTRY},
    {"profile", ETW_FLAG_PROFILE},
    {"file", ETW_FLAG_FILE_IO},
    {"file_init", ETW_FLAG_FILE_IO_INIT},
};

#define FLAGS (sizeof flags / sizeof *flags)

static enum err control_flag(uint32_t *out, const char *word, size_t n, struct errmsg *why)
{
    char text[32], *end;
    unsigned long long v;

    for (size_t i = 0; i < FLAGS; i++) {
        if (strlen(flags[i].name) == n && memcmp(flags[i].name, word, n) == 0) {
            *out |= flags[i].flag;
            return ERR_OK;
        }
    }
    if (n > 2 && n < sizeof text && memcmp(word, "0x", 2) == 0) {
        memcpy(text, word, n);
        text[n] = '\0';
        v = strtoull(text, &end, 16);
        if (*end == '\0' && v > 0 && v <= UINT32_MAX) {
            *out |= (uint32_t)v;
            return ERR_OK;
        }
    }
    return errmsg_set(why, ERR_INVALID,
                      "'%.*s' is no flag of the kernel: one of process, thread, image, counters, "
                      "cswitch, dpc, interrupt, syscall, disk, disk_init, ready, hard_faults, "
                      "virtual_alloc, network, registry, profile, file, file_init, or 0x…",
                      (int)(n < 40 ? n : 40), word);
}

enum err control_flags(uint32_t *out, const char *text, size_t n, struct errmsg *why)
{
    uint32_t all = 0;
    enum err e = ERR_OK;

    for (size_t from = 0; !e && from <= n;) {
        const char *plus = memchr(text + from, '+', n - from);
        size_t to = plus ? (size_t)(plus - text) : n;

        e = control_flag(&all, text + from, to - from, why);
        from = to + 1;
    }
    *out = e ? *out : all;
    return e;
}

void control_flags_text(struct buf *out, uint32_t set)
{
    const char *comma = "";

    for (size_t i = 0; i < FLAGS; i++) {
        if (set & flags[i].flag) {
            buf_printf(out, "%s%s", comma, flags[i].name);
            set &= ~flags[i].flag;
            comma = ",";
        }
    }
    if (set) {
        buf_printf(out, "%s%#x", comma, set);
    } else if (!comma[0]) {
        buf_put_str(out, "none");
    }
}

/* -- lines: hostile bytes -- */

static const char *const whats[CONTROL_WHATS] = {
    [CONTROL_STATE] = "state", [CONTROL_FLAGS] = "flags",   [CONTROL_STACKS] = "stacks",
    [CONTROL_ADD] = "add",     [CONTROL_REMOVE] = "remove", [CONTROL_LEVEL] = "level",
};

/* A whole number, or a text of digits. */
static enum err control_number(uint64_t *out, const json_t *line, const char *key, uint64_t max,
                               struct errmsg *why)
{
    const json_t *v = json_object_get(line, key);
    uint64_t n = UINT64_MAX;
    char *end;

    if (json_is_integer(v) && json_integer_value(v) >= 0) {
        n = (uint64_t)json_integer_value(v);
    } else if (json_is_string(v) && json_string_value(v)[0] >= '0' &&
               json_string_value(v)[0] <= '9') {
        errno = 0;
        n = strtoull(json_string_value(v), &end, 10);
        n = *end || errno ? UINT64_MAX : n;
    }
    if (n > max) {
        return errmsg_set(why, ERR_INVALID, "\"%s\" is a whole number of at most %llu", key,
                          (unsigned long long)max);
    }
    *out = n;
    return ERR_OK;
}

static enum err control_read_flags(struct control_wish *out, const json_t *line, struct errmsg *why)
{
    uint64_t on, off;
    enum err e = control_number(&on, line, "on", UINT32_MAX, why);

    e = e ? e : control_number(&off, line, "off", UINT32_MAX, why);
    if (!e) {
        out->flags_on = (uint32_t)on;
        out->flags_off = (uint32_t)off;
        e = on & off ? errmsg_set(why, ERR_INVALID, "a flag is asked for on and off") : ERR_OK;
    }
    return e;
}

static enum err control_read_level(struct control_wish *out, const json_t *line, struct errmsg *why)
{
    uint64_t level, span;
    enum err e = control_number(&level, line, "level", LEVEL_MAX, why);

    e = e ? e : control_number(&span, line, "for_ns", CONTROL_SPAN_MAX, why);
    if (!e) {
        out->level = (unsigned)level;
        out->span_ns = (int64_t)span;
        e = span == 0 ? errmsg_set(why, ERR_INVALID, "\"for_ns\" is above 0") : ERR_OK;
    }
    return e;
}

static enum err control_read_provider(struct control_wish *out, const json_t *line,
                                      struct errmsg *why)
{
    const json_t *v = json_object_get(line, "provider");
    size_t n = json_is_string(v) ? json_string_length(v) : 0;

    if (n == 0 || n >= sizeof out->provider || strlen(json_string_value(v)) != n) {
        return errmsg_set(why, ERR_INVALID, "\"provider\" is a text of at most %d bytes",
                          (int)sizeof out->provider - 1);
    }
    memcpy(out->provider, json_string_value(v), n + 1);
    return ERR_OK;
}

static enum err control_read_wish(struct control_wish *out, const json_t *line, struct errmsg *why)
{
    const json_t *what = json_object_get(line, "do"), *on = json_object_get(line, "on");
    int i = 0;

    while (i < CONTROL_WHATS &&
           !(json_is_string(what) && strcmp(json_string_value(what), whats[i]) == 0)) {
        i++;
    }
    out->what = (enum control_what)i;
    switch (out->what) {
    case CONTROL_STATE:
        return ERR_OK;
    case CONTROL_FLAGS:
        return control_read_flags(out, line, why);
    case CONTROL_STACKS:
        out->on = json_is_true(on);
        return json_is_boolean(on) ? ERR_OK
                                   : errmsg_set(why, ERR_INVALID, "\"on\" is true or false");
    case CONTROL_ADD:
    case CONTROL_REMOVE:
        return control_read_provider(out, line, why);
    case CONTROL_LEVEL:
        return control_read_level(out, line, why);
    case CONTROL_WHATS:
        break;
    }
    return errmsg_set(why, ERR_INVALID, "\"do\" is none of those this agent knows");
}

static json_t *control_load(const char *line, size_t n, struct errmsg *why)
{
    json_error_t wrong;
    json_t *o = n <= CONTROL_LINE ? json_loadb(line, n, JSON_REJECT_DUPLICATES, &wrong) : NULL;

    if (!json_is_object(o)) {
        json_decref(o);
        (void)errmsg_set(why, ERR_INVALID, "one line of JSON is expected, an object");
        return NULL;
    }
    return o;
}

enum err control_read(struct control_wish *out, const char *line, size_t n, struct errmsg *why)
{
    struct control_wish wish = {.what = CONTROL_STATE};
    json_t *o = control_load(line, n, why);
    enum err e = o ? control_read_wish(&wish, o, why) : ERR_INVALID;

    json_decref(o);
    if (!e) {
        *out = wish;
    }
    return e;
}

/* -- the agent's side -- */

struct control {
    struct control_pipe *pipe;
    struct os_thread *thread;
    control_do run;
    void *ctx;
};

static void control_answer(void *arg, const char *line, size_t n, struct buf *out)
{
    struct control *c = arg;
    struct control_wish wish;
    struct errmsg why = {""};
    struct buf text;
    struct jsonw j;
    enum err e;

    buf_init(&text, CONTROL_LINE / 2);
    e = control_read(&wish, line, n, &why);
    e = e ? e : c->run(c->ctx, &wish, &text, &why);
    jsonw_init_buf(&j, out);
    jsonw_object(&j, NULL);
    jsonw_bool(&j, "ok", !e);
    jsonw_text(&j, "text", str_make(!e ? buf_cstr(&text) : why.text[0] ? why.text : err_text(e)));
    jsonw_end(&j);
    buf_put_u8(out, '\n');
    buf_fini(&text);
}

static void control_serve(void *arg)
{
    struct control *c = arg;

    control_pipe_serve(c->pipe, control_answer, c);
}

enum err control_open(struct control **out, const char *dir, control_do run, void *ctx,
                      struct errmsg *why)
{
    struct control *c = mem_zalloc(sizeof *c);
    enum err e = c ? ERR_OK : errmsg_set(why, ERR_NOMEM, "out of memory");

    if (e) {
        return e;
    }
    c->run = run;
    c->ctx = ctx;
    e = control_pipe_open(&c->pipe, dir, why);
    if (!e) {
        e = os_thread_start(&c->thread, "control", control_serve, c);
        e = e ? errmsg_set(why, e, "a thread for the local control: %s", err_text(e)) : ERR_OK;
    }
    if (e) {
        control_close(c);
        return e;
    }
    *out = c;
    return ERR_OK;
}

void control_close(struct control *c)
{
    if (!c) {
        return;
    }
    if (c->thread) {
        control_pipe_stop(c->pipe);
        os_thread_join(c->thread);
    }
    control_pipe_close(c->pipe);
    mem_free(c);
}

/* -- the asker's side -- */

static void control_write(struct buf *out, const struct control_wish *w)
{
    struct jsonw j;

    jsonw_init_buf(&j, out);
    jsonw_object(&j, NULL);
    jsonw_text(&j, "do", str_make(whats[w->what]));
    if (w->what == CONTROL_FLAGS) {
        jsonw_uint(&j, "on", w->flags_on);
        jsonw_uint(&j, "off", w->flags_off);
    } else if (w->what == CONTROL_STACKS) {
        jsonw_bool(&j, "on", w->on);
    } else if (w->what == CONTROL_LEVEL) {
        jsonw_uint(&j, "level", w->level);
        jsonw_wide(&j, "for_ns", (uint64_t)w->span_ns);
    } else if (w->what != CONTROL_STATE) {
        jsonw_text(&j, "provider", str_make(w->provider));
    }
    jsonw_end(&j);
    buf_put_u8(out, '\n');
}

/* What a terminal would obey is told as '?': of the two bytes of U+0080 to U+009F the second. */
static void control_put_clean(struct buf *out, const char *said)
{
    for (const uint8_t *p = (const uint8_t *)said; *p; p++) {
        bool second = p > (const uint8_t *)said && p[-1] == 0xC2 && *p < 0xA0;

        if (second) {
            out->n -= out->n > 0;
        }
        buf_put_u8(out, second || (*p < 0x20 && *p != '\n') || *p == 0x7F ? '?' : *p);
    }
}

/* The agent is trusted no further than the asker: it may be another program in its place. */
static enum err control_read_answer(struct buf *text, const struct buf *line, struct errmsg *why)
{
    json_t *o = control_load((const char *)line->p, line->n, why);
    const json_t *ok = json_object_get(o, "ok"), *said = json_object_get(o, "text");
    enum err e = ERR_CORRUPT;

    if (json_is_boolean(ok) && json_is_string(said)) {
        control_put_clean(text, json_string_value(said));
        e = json_is_true(ok) ? ERR_OK : errmsg_set(why, ERR_REFUSED, "%s", buf_cstr(text));
        if (e) {
            buf_reset(text);
        }
    } else {
        e = errmsg_set(why, e, "what answered is no agent of this version");
    }
    json_decref(o);
    return e;
}

enum err control_ask(const char *dir, const struct control_wish *wish, struct buf *text,
                     struct errmsg *why)
{
    struct buf line, answer;
    enum err e;

    buf_init(&line, CONTROL_LINE);
    buf_init(&answer, CONTROL_LINE);
    control_write(&line, wish);
    e = line.bad ? errmsg_set(why, line.bad, "%s", err_text(line.bad))
                 : control_pipe_ask(dir, (const char *)line.p, line.n, &answer, why);
    e = e ? e : control_read_answer(text, &answer, why);
    e = e ? e : text->bad;
    buf_fini(&answer);
    buf_fini(&line);
    return e;
}
