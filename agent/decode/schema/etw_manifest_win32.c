/* XML by Windows' own reader, xmllite, which is loaded when it is needed first: it is no part of
 * the smallest editions, which read none then. It refuses document types by itself, so there is
 * nothing to expand, and is asked for one node after the other. */
#include <string.h>

#include "agent/decode/schema/etw_manifest.h"
#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/os/win32_xml.h"

#define ATTRIBUTES_MAX 64
#define TEXT_MAX       ((size_t)1 << 20) /* of an element's name and attributes */

typedef HRESULT(WINAPI *create_fn)(REFIID id, void **out, IMalloc *memory);
typedef HRESULT(WINAPI *input_fn)(IUnknown *stream, IMalloc *memory, LPCWSTR encoding, BOOL hint,
                                  LPCWSTR base, IXmlReaderInput **out);

static const GUID reader_id = {
    0x7279fc81, 0x709d, 0x4095, {0xb6, 0x3d, 0x69, 0xfe, 0x4b, 0x0d, 0x90, 0x30}};
static const GUID stream_id = {
    0x0c733a30, 0x2a1c, 0x11ce, {0xad, 0xe5, 0x00, 0xaa, 0x00, 0x44, 0x77, 0x3d}};
static const GUID unknown_id = {0, 0, 0, {0xc0, 0, 0, 0, 0, 0, 0, 0x46}};

struct reading {
    ISequentialStream stream; /* what xmllite reads; first, so that it leads here */
    const struct etw_manifest_sink *sink;
    IXmlReader *reader;
    size_t all;             /* bytes read */
    size_t elements, depth; /* that began; open ones */
    bool any;               /* an element was there */
    struct buf text;
    enum err bad;
};

/* -- the stream: it lives as long as the reading, whoever counts on it -- */

static HRESULT STDMETHODCALLTYPE stream_query(ISequentialStream *s, REFIID id, void **out)
{
    bool is = memcmp(id, &stream_id, sizeof *id) == 0 || memcmp(id, &unknown_id, sizeof *id) == 0;

    *out = is ? s : NULL;
    return is ? S_OK : E_NOINTERFACE;
}

static ULONG STDMETHODCALLTYPE stream_count(ISequentialStream *s)
{
    (void)s;
    return 1;
}

static HRESULT STDMETHODCALLTYPE stream_read(ISequentialStream *s, void *p, ULONG n, ULONG *got)
{
    struct reading *r = (struct reading *)s;
    size_t have = 0, more = 1;

    while (have < n && more) { /* fewer bytes than asked for mean the end */
        more = r->sink->read(r->sink->ctx, (uint8_t *)p + have, n - have);
        have += more;
    }
    r->all += have;
    if (r->all > ETW_MANIFEST_FILE_MAX) {
        r->bad = ERR_CORRUPT;
        return E_FAIL;
    }
    if (got) {
        *got = (ULONG)have;
    }
    return have == n ? S_OK : S_FALSE;
}

static HRESULT STDMETHODCALLTYPE stream_write(ISequentialStream *s, const void *p, ULONG n,
                                              ULONG *put)
{
    (void)s;
    (void)p;
    (void)n;
    (void)put;
    return E_NOTIMPL;
}

static ISequentialStreamVtbl stream_calls = {stream_query, stream_count, stream_count, stream_read,
                                             stream_write};

/* -- nodes -- */

/* Appends the text with its end; gives where it begins. */
static size_t text_put(struct buf *b, const WCHAR *text, UINT units)
{
    size_t at = b->n;

    buf_put_utf16le(b, (const uint8_t *)text, units);
    buf_put_u8(b, 0);
    return at;
}

static HRESULT put_attributes(struct reading *r, size_t places[2 * ATTRIBUTES_MAX], size_t *n)
{
    HRESULT h = IXmlReader_MoveToFirstAttribute(r->reader);
    const WCHAR *name, *value;
    UINT name_n, value_n;

    for (*n = 0; h == S_OK; h = IXmlReader_MoveToNextAttribute(r->reader)) {
        if (*n == (size_t)2 * ATTRIBUTES_MAX) {
            return E_FAIL;
        }
        if (FAILED(h = IXmlReader_GetQualifiedName(r->reader, &name, &name_n))) {
            return h;
        }
        places[(*n)++] = text_put(&r->text, name, name_n);
        if (FAILED(h = IXmlReader_GetValue(r->reader, &value, &value_n))) {
            return h;
        }
        places[(*n)++] = text_put(&r->text, value, value_n);
    }
    return h;
}

/* The reader stands on an element, or its end. */
static HRESULT on_element(struct reading *r, bool begins)
{
    const char *attributes[2 * ATTRIBUTES_MAX + 1];
    size_t places[2 * ATTRIBUTES_MAX], n = 0;
    bool empty = begins && IXmlReader_IsEmptyElement(r->reader);
    const WCHAR *name;
    UINT units;
    HRESULT h = IXmlReader_GetLocalName(r->reader, &name, &units);

    buf_reset(&r->text);
    if (SUCCEEDED(h)) {
        (void)text_put(&r->text, name, units);
        h = begins ? put_attributes(r, places, &n) : S_OK;
    }
    if (FAILED(h) || r->text.bad) {
        return FAILED(h) ? h : r->text.bad == ERR_NOMEM ? E_OUTOFMEMORY : E_FAIL;
    }
    if (begins ? ++r->elements > r->all / 3 + 1 : r->depth == 0) {
        return E_FAIL; /* Wine's says the same again and again behind the end of what is cut */
    }
    r->any = true;
    r->depth += begins && !empty;
    r->depth -= !begins;
    for (size_t i = 0; i < n; i++) {
        attributes[i] = (const char *)r->text.p + places[i];
    }
    attributes[n] = NULL;
    if (begins) {
        r->sink->begin(r->sink->ctx, (const char *)r->text.p, attributes);
    }
    if (!begins || empty) {
        r->sink->end(r->sink->ctx, (const char *)r->text.p);
    }
    r->bad = r->sink->stopped(r->sink->ctx);
    return S_OK;
}

static HRESULT read_nodes(struct reading *r)
{
    XmlNodeType type;
    HRESULT h;

    while ((h = IXmlReader_Read(r->reader, &type)) == S_OK) {
        if (type == XmlNodeType_Element || type == XmlNodeType_EndElement) {
            h = on_element(r, type == XmlNodeType_Element);
        } else if (type == XmlNodeType_DocumentType) {
            h = E_FAIL;
        }
        if (FAILED(h) || r->bad) {
            return h;
        }
    }
    return SUCCEEDED(h) && (r->depth || !r->any) ? E_FAIL : h; /* it ends before its end */
}

/* -- a document -- */

static HRESULT read_input(struct reading *r, HMODULE module, LPCWSTR encoding)
{
    input_fn with_encoding =
        (input_fn)(void *)GetProcAddress(module, "CreateXmlReaderInputWithEncodingName");
    IUnknown *from = (IUnknown *)&r->stream;
    IXmlReaderInput *input = NULL;
    HRESULT h = S_OK;

    if (encoding && with_encoding) {
        h = with_encoding(from, NULL, encoding, FALSE, NULL, &input);
        from = (IUnknown *)input;
    }
    if (SUCCEEDED(h)) {
        h = IXmlReader_SetInput(r->reader, from);
    }
    if (SUCCEEDED(h)) {
        h = read_nodes(r);
    }
    (void)IXmlReader_SetInput(r->reader, NULL);
    if (input) {
        IUnknown_Release((IUnknown *)input);
    }
    return h;
}

enum err etw_manifest_stream(const struct etw_manifest_sink *sink)
{
    struct reading r = {.stream = {&stream_calls}, .sink = sink};
    HMODULE module = LoadLibraryExW(L"xmllite.dll", NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
    create_fn create = module ? (create_fn)(void *)GetProcAddress(module, "CreateXmlReader") : NULL;
    HRESULT h = create ? create(&reader_id, (void **)&r.reader, NULL) : E_NOTIMPL;

    buf_init(&r.text, TEXT_MAX);
    if (SUCCEEDED(h)) {
        h = read_input(&r, module, sink->utf8 ? L"UTF-8" : NULL);
        IXmlReader_Release(r.reader);
    } else {
        r.bad = h == E_OUTOFMEMORY ? ERR_NOMEM : ERR_UNSUPPORTED;
    }
    buf_fini(&r.text); /* the library stays: it is asked again and again */
    return r.bad ? r.bad : SUCCEEDED(h) ? ERR_OK : h == E_OUTOFMEMORY ? ERR_NOMEM : ERR_CORRUPT;
}
