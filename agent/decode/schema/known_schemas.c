/* The text has a part for each provider, its lines are cut by tabs:
 *
 *   P GUID NAME
 *   M NAME v|b NUMBER=TEXT …                 a map of values or of bits
 *   T NUMBER FIELD …                         a template: fields of one or several events
 *   E ID VERSION TASK OPCODE SYMBOL TEMPLATE an event; the last four may be empty
 *
 * FIELD is NAME:TYPE[/OUT][%MAP][@LENGTH][*COUNT]; {NAME[*COUNT] … } encloses the members of a
 * struct. Each line becomes the elements that a manifest would have had for it, so that there is
 * one way from words to schemas. */
#include "agent/decode/schema/known_schemas.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <zstd.h>

#include "common/base/mem.h"
#include "common/os/uuid.h"

#define LINE_BYTES 4096 /* the text is ours: longer ones are an assert */
#define WORDS_MAX  256

struct line {
    char text[LINE_BYTES];
    char *words[WORDS_MAX];
    size_t n;
};

/* -- the text: one zstd frame of the build's, unpacked when it is first asked for -- */

extern const uint8_t known_schemas_packed[], known_schemas_packed_end[];

const char *known_schemas_text(void)
{
    static _Atomic(char *) unpacked; /* stays: others may be reading it */
    size_t size = (size_t)(known_schemas_packed_end - known_schemas_packed);
    char *text = atomic_load(&unpacked), *none = NULL;

    if (text) {
        return text;
    }
    text = mem_alloc(KNOWN_SCHEMAS_BYTES + 1);
    if (!text) {
        return NULL;
    }
    if (ZSTD_decompress(text, KNOWN_SCHEMAS_BYTES, known_schemas_packed, size) !=
        KNOWN_SCHEMAS_BYTES) {
        mem_free(text); /* no memory for its tables: the frame is the build's own */
        return NULL;
    }
    text[KNOWN_SCHEMAS_BYTES] = '\0';
    if (!atomic_compare_exchange_strong(&unpacked, &none, text)) {
        mem_free(text); /* another thread was faster */
        text = none;
    }
    return text;
}

/* The line at `p`, cut into words; returns the next one, NULL behind the last. */
static const char *line_read(struct line *l, const char *p)
{
    size_t n = strcspn(p, "\n");

    assert(n < sizeof l->text);
    memcpy(l->text, p, n);
    l->text[n] = '\0';
    l->n = 0;
    for (char *w = l->text; w;) {
        char *tab = strchr(w, '\t');

        assert(l->n < WORDS_MAX);
        l->words[l->n++] = w;
        if (tab) {
            *tab++ = '\0';
        }
        w = tab;
    }
    return p[n] && p[n + 1] ? p + n + 1 : NULL;
}

/* -- lines as elements -- */

static void element(struct etw_manifest *m, const char *name, const char *const *attributes)
{
    etw_manifest_begin(m, name, attributes);
    etw_manifest_end(m, name);
}

static void map_line(struct etw_manifest *m, struct line *l)
{
    const char *name = l->words[2][0] == 'b' ? "bitMap" : "valueMap";
    const char *const head[] = {"name", l->words[1], NULL};

    etw_manifest_begin(m, name, head);
    for (size_t i = 3; i < l->n; i++) {
        char *text = strchr(l->words[i], '=');
        const char *const entry[] = {"value", l->words[i], "message", text ? text + 1 : "", NULL};

        if (text) {
            *text = '\0';
        }
        element(m, "map", entry);
    }
    etw_manifest_end(m, name);
}

/* Cuts the part that begins with `mark` off `text`; empty when there is none. */
static char *part(char *text, char mark)
{
    char *at = strchr(text, mark);

    if (!at) {
        return text + strlen(text);
    }
    *at = '\0';
    return at + 1;
}

static void field(struct etw_manifest *m, char *text)
{
    /* From the end on, as they stand. */
    const char *count = part(text, '*'), *length = part(text, '@'), *map = part(text, '%');
    const char *out = part(text, '/'), *in = part(text, ':');
    const char *const attributes[] = {"name", text,     "inType", in,      "outType", out,  "map",
                                      map,    "length", length,   "count", count,     NULL, NULL};

    element(m, "data", attributes);
}

static void template_line(struct etw_manifest *m, struct line *l)
{
    const char *const head[] = {"tid", l->words[1], NULL};

    etw_manifest_begin(m, "template", head);
    for (size_t i = 2; i < l->n; i++) {
        char *word = l->words[i];

        if (word[0] == '{') {
            const char *count = part(word, '*');
            const char *const attributes[] = {"name", word + 1, "count", count, NULL};

            etw_manifest_begin(m, "struct", attributes);
        } else if (word[0] == '}') {
            etw_manifest_end(m, "struct");
        } else {
            field(m, word);
        }
    }
    etw_manifest_end(m, "template");
}

static void event_line(struct etw_manifest *m, struct line *l)
{
    const char *const attributes[] = {
        "value",     l->words[1], "version",   l->words[2], "task",      l->words[3], "opcode",
        l->words[4], "symbol",    l->words[5], "template",  l->words[6], NULL};

    element(m, "event", attributes);
}

static void provider_lines(struct etw_manifest *m, struct line *l, const char *p)
{
    do {
        p = line_read(l, p);
        switch (l->words[0][0]) {
        case 'P': {
            const char *const attributes[] = {"name", l->words[2], NULL};

            etw_manifest_begin(m, "provider", attributes);
            break;
        }
        case 'M':
            map_line(m, l);
            break;
        case 'T':
            template_line(m, l);
            break;
        default:
            event_line(m, l);
            break;
        }
    } while (p && *p != 'P');
    etw_manifest_end(m, "provider");
}

/* -- what is asked -- */

enum err known_schemas_put(struct schema *s, const uint8_t guid[16])
{
    char head[UUID_TEXT + 4] = "P\t";
    struct etw_manifest *m;
    struct line *l;
    uint64_t events;
    const char *text, *p;
    enum err e = ERR_NOMEM;

    (void)uuid_format_guid(head + 2, guid);
    text = known_schemas_text();
    if (!text) {
        return ERR_NOMEM;
    }
    p = strstr(text, head);
    if (!p) {
        return ERR_NOTFOUND;
    }
    m = mem_alloc(sizeof *m);
    l = mem_alloc(sizeof *l);
    if (m && l) {
        etw_manifest_init(m);
        m->origin = SCHEMA_FROM_TABLE;
        provider_lines(m, l, p);
        e = etw_manifest_finish(m, guid, s, &events);
        etw_manifest_fini(m);
    }
    mem_free(l);
    mem_free(m);
    return e;
}

bool known_schemas_provider(size_t i, uint8_t guid[16])
{
    static const uint8_t to[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    char text[UUID_TEXT];
    const char *p = known_schemas_text();
    struct uuid u;

    for (; i > 0 && p; i--) {
        p = strstr(p, "\nP\t");
        p = p ? p + 1 : NULL;
    }
    if (!p) {
        return false;
    }
    memcpy(text, p + 2, UUID_TEXT - 1);
    text[UUID_TEXT - 1] = 0;
    if (uuid_parse(&u, text) != ERR_OK) {
        return false;
    }
    for (size_t k = 0; k < 16; k++) {
        guid[to[k]] = u.b[k];
    }
    return true;
}
