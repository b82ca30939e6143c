#include "agent/status/status_file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/os/os.h"
#include "common/text/humanize.h"

#define FORMAT 1

/* -- writing -- */

/* Sets one member; what fails shows in *bad. */
static void put(json_t *o, const char *key, json_t *value, bool *bad)
{
    *bad = json_object_set_new(o, key, value) != 0 || *bad;
}

static void put_digits(json_t *o, const char *key, uint64_t v, bool *bad)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    put(o, key, json_string(text), bad);
}

static void put_number(json_t *o, const char *key, uint64_t v, bool *bad)
{
    if (v > (uint64_t)MODEL_JSON_EXACT) {
        put_digits(o, key, v < INT64_MAX ? v : INT64_MAX, bad);
    } else {
        put(o, key, json_integer((json_int_t)v), bad);
    }
}

static void put_time(json_t *o, const char *key, int64_t ns, bool *bad)
{
    put_digits(o, key, (uint64_t)ns, bad);
}

/* What is no UTF-8 is told with escapes. */
static void put_text(json_t *o, const char *key, const char *text, bool *bad)
{
    json_t *v = json_string(text);

    if (!v) {
        struct buf b;

        buf_init(&b, 8192);
        humanize_text(&b, str_make(text));
        v = json_string(buf_cstr(&b));
        buf_fini(&b);
    }
    put(o, key, v, bad);
}

static json_t *source_json(const struct status *s, bool *bad)
{
    json_t *o = json_object();

    put_text(o, "name", s->source, bad);
    put(o, "polled", json_boolean(s->polled), bad);
    put_time(o, "since", s->source_since_ns, bad);
    put_text(o, "detail", s->detail, bad);
    return o;
}

static json_t *level_json(const struct status *s, bool *bad)
{
    json_t *o = json_object();

    put_number(o, "now", s->level, bad);
    put_time(o, "since", s->level_since_ns, bad);
    return o;
}

static json_t *cost_json(const struct status *s, bool *bad)
{
    json_t *o = json_object();

    put_number(o, "cpu_ppm", s->cost.cpu_ppm, bad);
    put_time(o, "span", s->cost.span_ns, bad);
    put_number(o, "cpus", s->cost.cpus, bad);
    put_number(o, "budget_cpu_permille", s->cost.cpu_permille, bad);
    put_number(o, "memory", s->cost.memory, bad);
    put_number(o, "budget_mem", s->cost.limit, bad);
    return o;
}

static json_t *uplink_json(const struct status *s, bool *bad)
{
    json_t *o = json_object();

    put_text(o, "state", s->uplink, bad);
    put_time(o, "since", s->uplink_since_ns, bad);
    put_text(o, "why", s->why, bad);
    put_number(o, "acknowledged", s->acknowledged, bad);
    put_number(o, "quarantined", s->quarantined, bad);
    put_number(o, "bytes_sent", s->bytes_sent, bad);
    put_number(o, "breaks", s->breaks, bad);
    return o;
}

static json_t *queue_json(const struct status *s, bool *bad)
{
    json_t *o = json_object();

    put_number(o, "held", s->queue_held, bad);
    put_number(o, "bytes", s->queue_bytes, bad);
    put_number(o, "dropped", s->queue_dropped, bad);
    put_number(o, "aside", s->aside_held, bad);
    put_number(o, "aside_bytes", s->aside_bytes, bad);
    put_number(o, "aside_broken", s->aside_broken, bad);
    return o;
}

static json_t *certificate_json(const struct status *s, bool *bad)
{
    json_t *o = json_object();

    put_time(o, "ends", s->certificate_end_ns, bad);
    put_time(o, "renew_next", s->renew_ns, bad);
    put_number(o, "renewed", s->renewed, bad);
    put_number(o, "renew_failed", s->renew_failed, bad);
    put_text(o, "why", s->renew_why, bad);
    return o;
}

static json_t *notes_json(const struct status *s, bool *bad)
{
    json_t *list = json_array();

    for (size_t i = 0; i < s->n_notes; i++) {
        json_t *o = json_object();

        put_time(o, "time", s->notes[i].wall_ns, bad);
        put_text(o, "kind", s->notes[i].level ? "level" : "source", bad);
        put_text(o, "text", s->notes[i].text, bad);
        *bad = json_array_append_new(list, o) != 0 || *bad;
    }
    return list;
}

static json_t *losses_json(const struct status *s, bool *bad)
{
    json_t *list = json_array();

    for (size_t i = 0; i < s->n_losses; i++) {
        const struct status_loss *l = &s->losses[i];
        json_t *o = json_object();

        put_text(o, "stage", l->stage, bad);
        put_text(o, "reason", l->reason, bad);
        put(o, "missing", json_boolean(l->missing), bad);
        put_number(o, "total", l->total, bad);
        put_number(o, "hour", l->hour, bad);
        *bad = json_array_append_new(list, o) != 0 || *bad;
    }
    return list;
}

static json_t *status_json(const struct status *s, bool *bad)
{
    json_t *o = json_object();

    put_number(o, "format", FORMAT, bad);
    put(o, "running", json_boolean(s->running), bad);
    put_number(o, "pid", s->pid, bad);
    put_text(o, "version", s->version, bad);
    put_text(o, "host", s->host, bad);
    put_time(o, "started", s->started_ns, bad);
    put_time(o, "written", s->written_ns, bad);
    put(o, "source", source_json(s, bad), bad);
    put(o, "level", level_json(s, bad), bad);
    put(o, "cost", cost_json(s, bad), bad);
    put_number(o, "processes", s->processes, bad);
    put_number(o, "reported", s->reported, bad);
    put_number(o, "filtered", s->filtered, bad);
    put(o, "uplink", uplink_json(s, bad), bad);
    put(o, "queue", queue_json(s, bad), bad);
    put(o, "certificate", certificate_json(s, bad), bad);
    put(o, "notes", notes_json(s, bad), bad);
    put(o, "losses", losses_json(s, bad), bad);
    return o;
}

static int on_text(const char *p, size_t n, void *ctx)
{
    struct buf *out = ctx;

    buf_put(out, p, n);
    return out->bad ? -1 : 0;
}

enum err status_file_format(struct buf *out, const struct status *s)
{
    bool bad = false;
    json_t *o = status_json(s, &bad);

    if (!bad) {
        bad = json_dump_callback(o, on_text, out, JSON_INDENT(1) | JSON_PRESERVE_ORDER) != 0;
        buf_put_u8(out, '\n');
    }
    json_decref(o);
    return out->bad ? out->bad : bad ? ERR_NOMEM : ERR_OK;
}

enum err status_file_write(const char *dir, const struct status *s)
{
    char *to = os_path_join(dir, STATUS_FILE), *from = os_path_join(dir, STATUS_FILE ".tmp");
    FILE *f = NULL;
    struct buf text;
    enum err e = to && from ? ERR_OK : ERR_NOMEM;

    buf_init(&text, STATUS_FILE_MAX);
    if (!e) {
        e = status_file_format(&text, s);
    }
    if (!e) {
        f = os_fopen(from, "wb");
        e = f ? os_make_public(f) : ERR_ACCESS;
    }
    if (!e && fwrite(text.p, 1, text.n, f) != text.n) {
        e = ERR_NOSPACE;
    }
    if (f && fclose(f) != 0 && !e) {
        e = ERR_NOSPACE;
    }
    if (!e) {
        e = os_rename(from, to);
    }
    buf_fini(&text);
    mem_free(from);
    mem_free(to);
    return e;
}

/* -- reading -- */

bool status_file_locked(const char *dir)
{
    char *path = os_path_join(dir, "lock");
    struct os_lock *lock = NULL;
    bool busy = path && os_exists(path) && os_lock(&lock, path) == ERR_BUSY;

    os_unlock(lock);
    mem_free(path);
    return busy;
}

/* Members of one object; `bad` latches. */
struct get {
    const json_t *o;
    bool *bad;
};

static struct get get_object(const struct get *g, const char *key)
{
    const json_t *v = json_object_get(g->o, key);

    *g->bad = *g->bad || (v && !json_is_object(v));
    return (struct get){v, g->bad};
}

static const json_t *get_list(const struct get *g, const char *key)
{
    const json_t *v = json_object_get(g->o, key);

    *g->bad = *g->bad || (v && !json_is_array(v));
    return v;
}

static void get_text(const struct get *g, const char *key, char *to, size_t size)
{
    const json_t *v = json_object_get(g->o, key);
    size_t n = v ? json_string_length(v) : 0;

    *g->bad = *g->bad || (v && !json_is_string(v));
    n = n < size ? n : utf8_whole(json_string_value(v), size - 1);
    if (n > 0) {
        memcpy(to, json_string_value(v), n);
    }
    to[n] = '\0';
}

static bool get_bool(const struct get *g, const char *key)
{
    const json_t *v = json_object_get(g->o, key);

    *g->bad = *g->bad || (v && !json_is_boolean(v));
    return json_is_true(v);
}

/* False: it is none of up to 19 digits. */
static bool read_digits(uint64_t *out, const char *text)
{
    size_t n = strspn(text, "0123456789");

    *out = n > 0 && n < 20 && !text[n] ? strtoull(text, NULL, 10) : UINT64_MAX;
    return *out != UINT64_MAX;
}

/* A number, or its digits as a string; older versions wrote numbers only. */
static uint64_t get_number(const struct get *g, const char *key, uint64_t max)
{
    const json_t *v = json_object_get(g->o, key);
    json_int_t number = json_integer_value(v);
    uint64_t n = (uint64_t)number;
    bool ok = json_is_string(v)    ? read_digits(&n, json_string_value(v))
              : json_is_integer(v) ? number >= 0
                                   : v == NULL;

    *g->bad = *g->bad || !ok || n > max;
    return *g->bad ? 0 : n;
}

static int64_t get_time(const struct get *g, const char *key)
{
    return (int64_t)get_number(g, key, INT64_MAX);
}

static void get_parts(struct status *s, const struct get *g)
{
    struct get source = get_object(g, "source"), level = get_object(g, "level");
    struct get uplink = get_object(g, "uplink"), queue = get_object(g, "queue");
    struct get certificate = get_object(g, "certificate"), cost = get_object(g, "cost");

    get_text(&source, "name", s->source, sizeof s->source);
    get_text(&source, "detail", s->detail, sizeof s->detail);
    s->polled = get_bool(&source, "polled");
    s->source_since_ns = get_time(&source, "since");
    s->level = (unsigned)get_number(&level, "now", 4);
    s->level_since_ns = get_time(&level, "since");
    s->cost.cpu_ppm = get_number(&cost, "cpu_ppm", INT64_MAX);
    s->cost.span_ns = get_time(&cost, "span");
    s->cost.cpus = (unsigned)get_number(&cost, "cpus", UINT32_MAX);
    s->cost.cpu_permille = (unsigned)get_number(&cost, "budget_cpu_permille", 1000);
    s->cost.memory = get_number(&cost, "memory", INT64_MAX);
    s->cost.limit = get_number(&cost, "budget_mem", INT64_MAX);
    get_text(&uplink, "state", s->uplink, sizeof s->uplink);
    get_text(&uplink, "why", s->why, sizeof s->why);
    s->uplink_since_ns = get_time(&uplink, "since");
    s->acknowledged = get_number(&uplink, "acknowledged", INT64_MAX);
    s->quarantined = get_number(&uplink, "quarantined", INT64_MAX);
    s->bytes_sent = get_number(&uplink, "bytes_sent", INT64_MAX);
    s->breaks = get_number(&uplink, "breaks", INT64_MAX);
    s->queue_held = get_number(&queue, "held", INT64_MAX);
    s->queue_bytes = get_number(&queue, "bytes", INT64_MAX);
    s->queue_dropped = get_number(&queue, "dropped", INT64_MAX);
    s->aside_held = get_number(&queue, "aside", INT64_MAX);
    s->aside_bytes = get_number(&queue, "aside_bytes", INT64_MAX);
    s->aside_broken = get_number(&queue, "aside_broken", INT64_MAX);
    s->certificate_end_ns = get_time(&certificate, "ends");
    s->renew_ns = get_time(&certificate, "renew_next");
    s->renewed = get_number(&certificate, "renewed", INT64_MAX);
    s->renew_failed = get_number(&certificate, "renew_failed", INT64_MAX);
    get_text(&certificate, "why", s->renew_why, sizeof s->renew_why);
}

static void get_notes(struct status *s, const struct get *g)
{
    const json_t *list = get_list(g, "notes");

    for (size_t i = 0; i < json_array_size(list) && s->n_notes < STATUS_NOTES; i++) {
        struct get o = {json_array_get(list, i), g->bad};
        struct status_note *note = &s->notes[s->n_notes++];
        char kind[8];

        *g->bad = *g->bad || !json_is_object(o.o);
        get_text(&o, "kind", kind, sizeof kind);
        get_text(&o, "text", note->text, sizeof note->text);
        note->wall_ns = get_time(&o, "time");
        note->level = strcmp(kind, "level") == 0;
    }
}

static void get_losses(struct status *s, const struct get *g)
{
    const json_t *list = get_list(g, "losses");

    for (size_t i = 0; i < json_array_size(list) && s->n_losses < STATUS_LOSSES; i++) {
        struct get o = {json_array_get(list, i), g->bad};
        struct status_loss *l = &s->losses[s->n_losses++];

        *g->bad = *g->bad || !json_is_object(o.o);
        get_text(&o, "stage", l->stage, sizeof l->stage);
        get_text(&o, "reason", l->reason, sizeof l->reason);
        l->missing = get_bool(&o, "missing");
        l->total = get_number(&o, "total", INT64_MAX);
        l->hour = get_number(&o, "hour", INT64_MAX);
    }
}

enum err status_file_parse(struct status *out, const void *p, size_t n)
{
    bool bad = false;
    json_error_t why;
    json_t *o = n <= STATUS_FILE_MAX ? json_loadb(p, n, 0, &why) : NULL;
    struct get g = {o, &bad};
    struct status *s;

    if (!json_is_object(o)) {
        json_decref(o);
        return ERR_CORRUPT;
    }
    s = mem_zalloc(sizeof *s);
    if (!s) {
        json_decref(o);
        return ERR_NOMEM;
    }
    (void)get_number(&g, "format", FORMAT);
    s->running = get_bool(&g, "running");
    s->pid = (uint32_t)get_number(&g, "pid", UINT32_MAX);
    get_text(&g, "version", s->version, sizeof s->version);
    get_text(&g, "host", s->host, sizeof s->host);
    s->started_ns = get_time(&g, "started");
    s->written_ns = get_time(&g, "written");
    s->processes = get_number(&g, "processes", INT64_MAX);
    s->reported = get_number(&g, "reported", INT64_MAX);
    s->filtered = get_number(&g, "filtered", INT64_MAX);
    get_parts(s, &g);
    get_notes(s, &g);
    get_losses(s, &g);
    if (!bad) {
        *out = *s;
    }
    mem_free(s);
    json_decref(o);
    return bad ? ERR_CORRUPT : ERR_OK;
}

enum err status_file_read(struct status *out, const char *dir)
{
    char *path = os_path_join(dir, STATUS_FILE);
    uint8_t *text = NULL;
    size_t n = 0;
    enum err e = path ? os_read_file(&text, &n, path, STATUS_FILE_MAX) : ERR_NOMEM;

    if (!e) {
        e = status_file_parse(out, text, n);
    }
    mem_free(text);
    mem_free(path);
    return e;
}
