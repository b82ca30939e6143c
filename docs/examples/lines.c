#include "docs/examples/lines.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>

/* One character of UTF-8, and how many bytes it has; U+FFFD of one byte for what is none. */
static uint32_t decode(const uint8_t *p, size_t n, size_t *len)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    size_t more = p[0] < 0x80 ? 0 : p[0] >= 0xF0 && p[0] < 0xF8 ? 3 : p[0] >= 0xE0 ? 2 : 1;
    uint32_t c = p[0] < 0x80 ? p[0] : p[0] & (0x3Fu >> more);
    bool ok = p[0] < 0x80 || (p[0] >= 0xC0 && p[0] < 0xF8 && more < n);

    for (size_t i = 1; ok && i <= more; i++) {
        ok = (p[i] & 0xC0) == 0x80;
        c = c << 6 | (p[i] & 0x3F);
    }
    ok = ok && c >= least[more] && c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
    *len = ok ? more + 1 : 1;
    return ok ? c : 0xFFFD;
}

/* Names are a stranger's choice, and the lines may end on a terminal: ASCII alone, the rest as
 * JSON's escapes. */
static void put_text(FILE *f, const char *key, ProtobufCBinaryData text)
{
    fprintf(f, ",\"%s\":\"", key);
    for (size_t i = 0, len; i < text.len; i += len) {
        uint32_t c = decode(text.data + i, text.len - i, &len);

        if (c == '"' || c == '\\') {
            fprintf(f, "\\%c", (char)c);
        } else if (c >= 0x20 && c < 0x7F) {
            fputc((char)c, f);
        } else if (c < 0x10000) {
            fprintf(f, "\\u%04" PRIx32, c);
        } else {
            fprintf(f, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xD7C0 + (c >> 10), 0xDC00 + (c & 0x3FF));
        }
    }
    fputc('"', f);
}

static void put_process(FILE *f, const Procfleet__V1__ProcInfo *info)
{
    static const Procfleet__V1__ProcInfo none = PROCFLEET__V1__PROC_INFO__INIT;

    info = info ? info : &none;
    fprintf(f, ",\"pid\":%" PRIu32 ",\"start\":\"%" PRIu64 "\"", info->pid, info->start);
    put_text(f, "name", info->name);
}

static void put_event(FILE *f, ProtobufCBinaryData host, const Procfleet__V1__LifeEvent *e)
{
    static const char *const kinds[] = {"unknown",      "process_start", "process_stop",
                                        "thread_start", "thread_stop",   "image_load",
                                        "image_unload", "level",         "source"};
    bool known = e->kind < sizeof kinds / sizeof *kinds;

    fprintf(f, "{\"time\":\"%" PRId64 "\"", e->wall_ns);
    put_text(f, "host", host);
    fprintf(f, ",\"kind\":\"%s\"", kinds[known ? e->kind : 0]);
    put_process(f, e->info);
    if (e->text.len) {
        put_text(f, "text", e->text);
    }
    fputs("}\n", f);
}

/* The newest row of each process; values by metric id (section 11). Absent is not zero. */
static void put_samples(FILE *f, ProtobufCBinaryData host, const Procfleet__V1__Answer *a)
{
    int64_t when_ns = 0;

    for (size_t i = 0; i < a->n_rows; i++) {
        const Procfleet__V1__Row *r = a->rows[i];
        const char *comma = "";
        size_t value = 0;

        when_ns += r->when_ns;
        fprintf(f, "{\"time\":\"%" PRId64 "\"", when_ns);
        put_text(f, "host", host);
        put_process(f, r->info < a->n_infos ? a->infos[r->info] : NULL);
        fputs(",\"values\":{", f);
        for (size_t m = 0; m < a->n_metrics && m < 64; m++) {
            if ((r->have >> m & 1) && value < r->n_values) {
                fprintf(f, "%s\"%" PRIu32 "\":\"%" PRId64 "\"", comma, a->metrics[m],
                        r->values[value++]);
                comma = ",";
            }
        }
        fputs("}}\n", f);
    }
}

void lines_put(FILE *f, const Procfleet__V1__Update *u)
{
    for (size_t i = 0; u->data && i < u->data->n_events; i++) {
        if (u->data->events[i]->event) {
            put_event(f, u->name, u->data->events[i]->event);
        }
    }
    if (u->data) {
        put_samples(f, u->name, u->data);
    }
}
