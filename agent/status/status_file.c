#include "agent/status/status_file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/os/os.h"
#include "common/text/jsonw.h"

#define FORMAT 1

/* -- writing -- */

/* Readers take no more. */
static void put_number(struct jsonw *j, const char *key, uint64_t v)
{
    jsonw_uint(j, key, v < INT64_MAX ? v : INT64_MAX);
}

static void put_time(struct jsonw *j, const char *key, int64_t ns)
{
    jsonw_wide(j, key, (uint64_t)ns);
}

static void put_text(struct jsonw *j, const char *key, const char *text)
{
    jsonw_bytes(j, key, str_make(text));
}

static void put_source(struct jsonw *j, const struct status *s)
{
    jsonw_object(j, "source");
    put_text(j, "name", s->source);
    jsonw_bool(j, "polled", s->polled);
    put_time(j, "since", s->source_since_ns);
    put_text(j, "detail", s->detail);
    jsonw_end(j);
    jsonw_object(j, "level");
    put_number(j, "now", s->level);
    put_time(j, "since", s->level_since_ns);
    jsonw_end(j);
}

static void put_cost(struct jsonw *j, const struct status *s)
{
    jsonw_object(j, "cost");
    put_number(j, "cpu_ppm", s->cost.cpu_ppm);
    put_time(j, "span", s->cost.span_ns);
    put_number(j, "cpus", s->cost.cpus);
    put_number(j, "budget_cpu_permille", s->cost.cpu_permille);
    put_number(j, "memory", s->cost.memory);
    put_number(j, "budget_mem", s->cost.limit);
    jsonw_end(j);
}

static void put_uplink(struct jsonw *j, const struct status *s)
{
    jsonw_object(j, "uplink");
    put_text(j, "state", s->uplink);
    put_time(j, "since", s->uplink_since_ns);
    put_text(j, "why", s->why);
    put_number(j, "acknowledged", s->acknowledged);
    put_number(j, "quarantined", s->quarantined);
    put_number(j, "bytes_sent", s->bytes_sent);
    put_number(j, "breaks", s->breaks);
    jsonw_end(j);
    jsonw_object(j, "queue");
    put_number(j, "held", s->queue_held);
    put_number(j, "bytes", s->queue_bytes);
    put_number(j, "dropped", s->queue_dropped);
    put_number(j, "aside", s->aside_held);
    put_number(j, "aside_bytes", s->aside_bytes);
    put_number(j, "aside_broken", s->aside_broken);
    jsonw_end(j);
}

static void put_certificate(struct jsonw *j, const struct status *s)
{
    jsonw_object(j, "certificate");
    put_time(j, "ends", s->certificate_end_ns);
    put_time(j, "renew_next", s->renew_ns);
    put_number(j, "renewed", s->renewed);
    put_number(j, "renew_failed", s->renew_failed);
    put_text(j, "why", s->renew_why);
    jsonw_end(j);
}

static void put_lists(struct jsonw *j, const struct status *s)
{
    jsonw_array(j, "notes");
    for (size_t i = 0; i < s->n_notes; i++) {
        jsonw_object(j, NULL);
        put_time(j, "time", s->notes[i].wall_ns);
        put_text(j, "kind", s->notes[i].level ? "level" : "source");
        put_text(j, "text", s->notes[i].text);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_array(j, "losses");
    for (size_t i = 0; i < s->n_losses; i++) {
        const struct status_loss *l = &s->losses[i];

        jsonw_object(j, NULL);
        put_text(j, "stage", l->stage);
        put_text(j, "reason", l->reason);
        jsonw_bool(j, "missing", l->missing);
        put_number(j, "total", l->total);
        put_number(j, "hour", l->hour);
        jsonw_end(j);
    }
    jsonw_end(j);
}

enum err status_file_format(struct buf *out, const struct status *s)
{
    struct jsonw j;

    jsonw_init_buf(&j, out);
    j.pretty = JSONW_DEPTH;
    jsonw_object(&j, NULL);
    put_number(&j, "format", FORMAT);
    jsonw_bool(&j, "running", s->running);
    put_number(&j, "pid", s->pid);
    put_text(&j, "version", s->version);
    put_text(&j, "host", s->host);
    put_time(&j, "started", s->started_ns);
    put_time(&j, "written", s->written_ns);
    put_source(&j, s);
    put_cost(&j, s);
    put_number(&j, "processes", s->processes);
    put_number(&j, "reported", s->reported);
    put_number(&j, "filtered", s->filtered);
    put_uplink(&j, s);
    put_certificate(&j, s);
    put_lists(&j, s);
    jsonw_end(&j);
    buf_put_u8(out, '\n');
    return out->bad;
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
