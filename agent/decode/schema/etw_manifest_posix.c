#include <expat.h>
#include <string.h>

#include "agent/decode/schema/etw_manifest.h"
#include "common/base/mem.h"

struct reading {
    struct etw_manifest *m;
    XML_Parser parser;
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
static void stop_when_bad(struct reading *r)
{
    if (r->m->bad) {
        (void)XML_StopParser(r->parser, XML_FALSE);
    }
}

static void XMLCALL on_begin(void *ctx, const XML_Char *name, const XML_Char **attributes)
{
    struct reading *r = ctx;

    etw_manifest_begin(r->m, local(name), (const char *const *)attributes);
    stop_when_bad(r);
}

static void XMLCALL on_end(void *ctx, const XML_Char *name)
{
    struct reading *r = ctx;

    etw_manifest_end(r->m, local(name));
    stop_when_bad(r);
}

/* Entities are declared in document types only: without these nothing can grow. */
static void XMLCALL on_doctype(void *ctx, const XML_Char *name, const XML_Char *system,
                               const XML_Char *public, int internal)
{
    struct reading *r = ctx;

    (void)name;
    (void)system;
    (void)public;
    (void)internal;
    r->m->bad = ERR_CORRUPT;
    stop_when_bad(r);
}

void etw_manifest_parse(struct etw_manifest *m, const char *xml, size_t n)
{
    static const XML_Memory_Handling_Suite memory = {mem_alloc, xml_realloc, mem_free};
    struct reading r = {.m = m};

    if (n > ETW_MANIFEST_XML_MAX) {
        m->bad = ERR_CORRUPT;
        return;
    }
    r.parser = XML_ParserCreate_MM("UTF-8", &memory, NULL);
    if (!r.parser) {
        m->bad = ERR_NOMEM;
        return;
    }
    XML_SetUserData(r.parser, &r);
    XML_SetElementHandler(r.parser, on_begin, on_end);
    XML_SetStartDoctypeDeclHandler(r.parser, on_doctype);
    if (XML_Parse(r.parser, xml, (int)n, XML_TRUE) != XML_STATUS_OK && !m->bad) {
        m->bad = XML_GetErrorCode(r.parser) == XML_ERROR_NO_MEMORY ? ERR_NOMEM : ERR_CORRUPT;
    }
    XML_ParserFree(r.parser);
}
