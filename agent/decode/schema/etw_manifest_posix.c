#include <expat.h>
#include <string.h>

#include "agent/decode/schema/etw_manifest.h"
#include "common/base/mem.h"

#define PIECE 65536

struct reading {
    const struct etw_manifest_sink *sink;
    XML_Parser parser;
    enum err bad;
};

static void *xml_realloc(void *p, size_t n)
{
    return mem_realloc_array(p, n, 1);
}

static const char *local(const char *name)
{
    const char *colon = strrchr(name, ':');

    return colon ? colon + 1 : name;
}

/* Nothing more is called of a parser that was stopped. */
static void stop(struct reading *r, enum err e)
{
    if (e && !r->bad) {
        r->bad = e;
        (void)XML_StopParser(r->parser, XML_FALSE);
    }
}

static void XMLCALL on_begin(void *ctx, const XML_Char *name, const XML_Char **attributes)
{
    struct reading *r = ctx;

    r->sink->begin(r->sink->ctx, local(name), (const char *const *)attributes);
    stop(r, r->sink->stopped(r->sink->ctx));
}

static void XMLCALL on_end(void *ctx, const XML_Char *name)
{
    struct reading *r = ctx;

    r->sink->end(r->sink->ctx, local(name));
    stop(r, r->sink->stopped(r->sink->ctx));
}

/* Entities are declared in document types only: without these nothing can grow. */
static void XMLCALL on_doctype(void *ctx, const XML_Char *name, const XML_Char *system,
                               const XML_Char *public, int internal)
{
    (void)name;
    (void)system;
    (void)public;
    (void)internal;
    stop(ctx, ERR_CORRUPT);
}

static void read_all(struct reading *r)
{
    size_t n = 1, all = 0;

    while (n && !r->bad) {
        void *piece = XML_GetBuffer(r->parser, PIECE);

        if (!piece) {
            r->bad = ERR_NOMEM;
            return;
        }
        n = r->sink->read(r->sink->ctx, piece, PIECE);
        all += n;
        if (all > ETW_MANIFEST_FILE_MAX) {
            r->bad = ERR_CORRUPT;
        } else if (XML_ParseBuffer(r->parser, (int)n, n == 0) != XML_STATUS_OK && !r->bad) {
            r->bad = XML_GetErrorCode(r->parser) == XML_ERROR_NO_MEMORY ? ERR_NOMEM : ERR_CORRUPT;
        }
    }
}

enum err etw_manifest_stream(const struct etw_manifest_sink *sink)
{
    static const XML_Memory_Handling_Suite memory = {mem_alloc, xml_realloc, mem_free};
    struct reading r = {.sink = sink};

    r.parser = XML_ParserCreate_MM(sink->utf8 ? "UTF-8" : NULL, &memory, NULL);
    if (!r.parser) {
        return ERR_NOMEM;
    }
    XML_SetUserData(r.parser, &r);
    XML_SetElementHandler(r.parser, on_begin, on_end);
    XML_SetStartDoctypeDeclHandler(r.parser, on_doctype);
    read_all(&r);
    XML_ParserFree(r.parser);
    return r.bad;
}
