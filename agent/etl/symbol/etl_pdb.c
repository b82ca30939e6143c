/* An MSF file is blocks of one size. The super block, at 0:
 *
 *   magic 32 bytes, block size u32, free map u32, blocks u32, bytes of the
 * directory u32, u32, block with the numbers of the directory's blocks u32
 *
 * The directory: number of streams u32, their sizes u32 (0xffffffff: none),
 * then the numbers of each one's blocks. Streams read here:
 *
 *   1        version u32, signature u32, age u32, GUID
 *   3        DBI, 64 bytes (-1, version, age u32 at 8; symbol records' stream
 * u16 at 20; sizes of what follows), modules, contributions, section map,
 * sources, type servers, edit and continue, then numbers of further streams: 4
 * OMAP, 5 section headers, 10 those before a rearrangement module   u32, then
 * records: size u16, kind u16, data symbols  records
 *
 * Records: procedure: parent, end, next u32, size u32, debug start and end u32,
 * type u32, offset u32, section u16, flags u8, name; public: flags u32, offset
 * u32, section u16, name. */
#include "agent/etl/symbol/etl_pdb.h"

#include <string.h>

#include "common/base/cur.h"
#include "common/base/mem.h"
#include "common/base/search.h"

#define STREAMS_MAX   65536
#define SECTIONS_MAX  4096
#define OMAP_MAX      (1u << 20)
#define NO_STREAM     0xFFFF
#define DBI_HEAD      64
#define MODULE_HEAD   64
#define DEBUG_OMAP    4
#define DEBUG_HEADERS 5
#define DEBUG_BEFORE  10
#define RECORD_HEAD   40 /* of what is read of a record at first */
#define PUBLIC_CODE   3u /* flags: code, function */

enum {
    S_PUB32 = 0x110E,
    S_LPROC32,
    S_GPROC32,
    S_LPROC32_ID = 0x1146,
    S_GPROC32_ID,
    S_LPROC32_DPC = 0x1155,
    S_LPROC32_DPC_ID
};

struct section {
    uint32_t rva, size;
};

struct omap {
    uint32_t from, to;
};

struct etl_pdb {
    const struct etl_pdb_input *in;
    uint32_t block_size;
    uint8_t *directory; /* numbers in it are little-endian */
    size_t directory_n;
    uint32_t n_streams;
    uint32_t *blocks_at; /* of each stream: where its block numbers stand in the
                          directory */
    uint8_t *block;      /* the one read last */
    uint32_t block_number;
    bool has_block;

    uint8_t guid[16];
    uint32_t age;
    uint32_t symbols; /* stream */
    uint32_t modules_n;
    struct section *sections;
    size_t n_sections;
    struct omap *omap;
    size_t n_omap;
};

/* -- blocks and streams -- */

static uint32_t stream_size(const struct etl_pdb *p, uint32_t stream)
{
    uint32_t n = stream < p->n_streams ? cur_at32le(p->directory + 4 + 4 * (size_t)stream) : 0;

    return n == UINT32_MAX ? 0 : n;
}

static bool block_read(struct etl_pdb *p, uint32_t number)
{
    if (p->has_block && p->block_number == number) {
        return true;
    }
    p->has_block =
        p->in->read(p->in->ctx, (uint64_t)number * p->block_size, p->block, p->block_size);
    p->block_number = number;
    return p->has_block;
}

/* n bytes of a stream; false: they are not there. */
static bool stream_read(struct etl_pdb *p, uint32_t stream, uint32_t at, void *to, size_t n)
{
    uint8_t *out = to;

    if (at > stream_size(p, stream) || n > stream_size(p, stream) - at) {
        return false;
    }
    while (n > 0) {
        uint32_t in_block = at % p->block_size;
        size_t part = p->block_size - in_block;
        size_t number = p->blocks_at[stream] + 4 * (size_t)(at / p->block_size);

        part = part < n ? part : n;
        if (!block_read(p, cur_at32le(p->directory + number))) {
            return false;
        }
        memcpy(out, p->block + in_block, part);
        out += part;
        at += (uint32_t)part;
        n -= part;
    }
    return true;
}

static enum err directory_read(struct etl_pdb *p, uint32_t size, uint32_t map)
{
    size_t blocks = ((size_t)size + p->block_size - 1) / p->block_size, at = 0;

    if (size > ETL_PDB_DIRECTORY) {
        return ERR_FULL;
    }
    if (size < 4) {
        return ERR_CORRUPT;
    }
    p->directory = mem_alloc(size);
    if (!p->directory) {
        return ERR_NOMEM;
    }
    p->directory_n = size;
    for (size_t i = 0; i < blocks; i++) {
        uint8_t number[4];
        size_t part = size - at < p->block_size ? size - at : p->block_size;

        if (!p->in->read(p->in->ctx, (uint64_t)map * p->block_size + 4 * i, number, 4) ||
            !p->in->read(p->in->ctx, (uint64_t)cur_at32le(number) * p->block_size,
                         p->directory + at, part)) {
            return ERR_CORRUPT;
        }
        at += part;
    }
    return ERR_OK;
}

/* Where the block numbers of each stream stand. */
static enum err streams_read(struct etl_pdb *p)
{
    size_t at;

    p->n_streams = cur_at32le(p->directory);
    if (p->n_streams > STREAMS_MAX || p->n_streams > (p->directory_n - 4) / 4) {
        p->n_streams = 0;
        return ERR_CORRUPT;
    }
    p->blocks_at = mem_array(p->n_streams + 1, sizeof *p->blocks_at);
    if (!p->blocks_at) {
        return ERR_NOMEM;
    }
    at = 4 + 4 * (size_t)p->n_streams;
    for (uint32_t i = 0; i < p->n_streams; i++) {
        size_t blocks = ((size_t)stream_size(p, i) + p->block_size - 1) / p->block_size;

        p->blocks_at[i] = (uint32_t)at;
        if (blocks > (p->directory_n - at) / 4) {
            return ERR_CORRUPT;
        }
        at += 4 * blocks;
    }
    return ERR_OK;
}

static enum err msf_open(struct etl_pdb *p)
{
    static const char magic[32] = "Microsoft C/C++ MSF 7.00\r\n\x1a"
                                  "DS\0\0";
    uint8_t head[56];
    enum err e;

    if (!p->in->read(p->in->ctx, 0, head, sizeof head)) {
        return ERR_CORRUPT;
    }
    if (memcmp(head, magic, sizeof magic) != 0) {
        return ERR_UNSUPPORTED;
    }
    p->block_size = cur_at32le(head + 32);
    if (p->block_size < 512 || p->block_size > 65536 || (p->block_size & (p->block_size - 1))) {
        return ERR_CORRUPT;
    }
    p->block = mem_alloc(p->block_size);
    if (!p->block) {
        return ERR_NOMEM;
    }
    e = directory_read(p, cur_at32le(head + 44), cur_at32le(head + 52));
    return e ? e : streams_read(p);
}

/* -- what the database says of itself -- */

static enum err sections_read(struct etl_pdb *p, uint32_t stream)
{
    uint8_t head[40];
    size_t n = stream_size(p, stream) / sizeof head;

    n = n < SECTIONS_MAX ? n : SECTIONS_MAX;
    p->sections = mem_array(n + 1, sizeof *p->sections);
    if (!p->sections) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        if (!stream_read(p, stream, (uint32_t)(i * sizeof head), head, sizeof head)) {
            return ERR_CORRUPT;
        }
        p->sections[i] = (struct section){cur_at32le(head + 12), cur_at32le(head + 8)};
        p->n_sections = i + 1;
    }
    return ERR_OK;
}

static enum err omap_read(struct etl_pdb *p, uint32_t stream)
{
    uint8_t row[8];
    size_t n = stream_size(p, stream) / sizeof row;

    n = n < OMAP_MAX ? n : OMAP_MAX;
    p->omap = mem_array(n + 1, sizeof *p->omap);
    if (!p->omap) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        if (!stream_read(p, stream, (uint32_t)(i * sizeof row), row, sizeof row) ||
            (i && cur_at32le(row) < p->omap[i - 1].from)) {
            return ERR_CORRUPT;
        }
        p->omap[i] = (struct omap){cur_at32le(row), cur_at32le(row + 4)};
        p->n_omap = i + 1;
    }
    return ERR_OK;
}

/* Numbers of further streams, NO_STREAM where there is none. */
static uint32_t debug_stream(struct etl_pdb *p, uint64_t at, uint32_t size, uint32_t which)
{
    uint8_t number[2];

    if (2 * which + 2 > size || at > UINT32_MAX ||
        !stream_read(p, 3, (uint32_t)at + 2 * which, number, 2)) {
        return NO_STREAM;
    }
    return cur_at16le(number);
}

static enum err dbi_read(struct etl_pdb *p)
{
    uint8_t head[DBI_HEAD], info[28];
    uint64_t at = DBI_HEAD;
    uint32_t omap, before, headers, debug_n;
    enum err e;

    if (!stream_read(p, 1, 0, info, sizeof info) || !stream_read(p, 3, 0, head, sizeof head)) {
        return ERR_CORRUPT;
    }
    memcpy(p->guid, info + 12, 16);
    p->age = cur_at32le(head + 8);
    p->symbols = cur_at16le(head + 20);
    p->modules_n = cur_at32le(head + 24);
    for (size_t i = 0; i < 5; i++) {
        at += cur_at32le(head + 24 + 4 * i);
    }
    at += cur_at32le(head + 52); /* edit and continue */
    debug_n = cur_at32le(head + 48);
    omap = debug_stream(p, at, debug_n, DEBUG_OMAP);
    before = debug_stream(p, at, debug_n, DEBUG_BEFORE);
    headers = debug_stream(p, at, debug_n, DEBUG_HEADERS);
    if (omap != NO_STREAM && before != NO_STREAM) {
        headers = before;
        e = omap_read(p, omap);
        if (e) {
            return e;
        }
    }
    return headers == NO_STREAM ? ERR_CORRUPT : sections_read(p, headers);
}

enum err etl_pdb_open(struct etl_pdb **out, const struct etl_pdb_input *input)
{
    struct etl_pdb *p = mem_zalloc(sizeof *p);
    enum err e;

    if (!p) {
        return ERR_NOMEM;
    }
    p->in = input;
    e = msf_open(p);
    e = e ? e : dbi_read(p);
    if (e) {
        etl_pdb_close(p);
        return e;
    }
    *out = p;
    return ERR_OK;
}

void etl_pdb_close(struct etl_pdb *p)
{
    if (p) {
        mem_free(p->directory);
        mem_free(p->blocks_at);
        mem_free(p->block);
        mem_free(p->sections);
        mem_free(p->omap);
        mem_free(p);
    }
}

bool etl_pdb_is(const struct etl_pdb *p, const uint8_t guid[16], uint32_t age)
{
    return memcmp(p->guid, guid, 16) == 0 && p->age == age;
}

/* -- functions -- */

struct search {
    const uint32_t *rvas;
    size_t n;
    struct etl_pdb_hit *procedures, *publics;
};

/* Where a place of a section is in the image; false: nowhere. */
static bool place_of(const struct etl_pdb *p, uint16_t section, uint32_t offset, uint32_t *rva)
{
    const struct section *s = &p->sections[section ? section - 1 : 0];
    size_t i;

    if (!section || section > p->n_sections || offset >= s->size || s->rva > UINT32_MAX - offset) {
        return false;
    }
    *rva = s->rva + offset;
    if (p->n_omap) {
        SEARCH_LOWER(i, p->n_omap, p->omap[i].from <= *rva);
        if (i == 0 || p->omap[i - 1].to == 0) {
            return false; /* it was left out */
        }
        *rva = p->omap[i - 1].to + (*rva - p->omap[i - 1].from);
    }
    return true;
}

/* Of functions at one place, which the linker folded into one: the longest, the first by name. */
static bool is_better(struct etl_pdb *p, const struct etl_pdb_hit *a, const struct etl_pdb_hit *b)
{
    char names[2][ETL_PDB_NAME];

    if (!b->kind || b->start != a->start) {
        return !b->kind || b->start < a->start;
    }
    if (a->size != b->size) {
        return a->size > b->size;
    }
    etl_pdb_name(p, a, names[0]);
    etl_pdb_name(p, b, names[1]);
    return strcmp(names[0], names[1]) < 0;
}

/* The nearest one below: the first address from it on has it, the rest follow at the end. */
static void on_found(struct etl_pdb *p, const struct search *s, struct etl_pdb_hit *hits,
                     const struct etl_pdb_hit *found)
{
    size_t i;

    SEARCH_LOWER(i, s->n, s->rvas[i] < found->start);
    if (i < s->n && is_better(p, found, &hits[i])) {
        hits[i] = *found;
    }
}

static void hits_follow(struct etl_pdb_hit *hits, size_t i)
{
    if (i && hits[i - 1].kind && (!hits[i].kind || hits[i].start < hits[i - 1].start)) {
        hits[i] = hits[i - 1];
    }
}

static bool is_procedure(uint16_t kind)
{
    return kind == S_LPROC32 || kind == S_GPROC32 || kind == S_LPROC32_ID || kind == S_GPROC32_ID ||
           kind == S_LPROC32_DPC || kind == S_LPROC32_DPC_ID;
}

static void on_symbol(struct etl_pdb *p, const struct search *s, uint32_t stream, uint32_t at,
                      uint16_t kind, uint32_t n)
{
    struct etl_pdb_hit found = {.kind = ETL_PDB_PROCEDURE, .stream = stream};
    bool procedure = is_procedure(kind);
    size_t head = procedure ? 35 : 10;
    uint8_t data[RECORD_HEAD];

    if (n <= head || !stream_read(p, stream, at, data, head)) {
        return;
    }
    found.name_at = at + (uint32_t)head;
    if (procedure) {
        found.size = cur_at32le(data + 12);
        if (place_of(p, cur_at16le(data + 32), cur_at32le(data + 28), &found.start)) {
            on_found(p, s, s->procedures, &found);
        }
    } else if (cur_at32le(data) & PUBLIC_CODE) {
        found.kind = ETL_PDB_PUBLIC;
        if (place_of(p, cur_at16le(data + 8), cur_at32le(data + 4), &found.start)) {
            on_found(p, s, s->publics, &found);
        }
    }
}

/* Records of a stream from `at` to `end`. */
static void symbols_scan(struct etl_pdb *p, const struct search *s, uint32_t stream, uint32_t at,
                         uint32_t end)
{
    uint8_t head[4];

    end = end < stream_size(p, stream) ? end : stream_size(p, stream);
    while (at < end && end - at >= sizeof head && stream_read(p, stream, at, head, sizeof head)) {
        uint32_t n = cur_at16le(head);
        uint16_t kind = cur_at16le(head + 2);

        if (n < 2 || n > end - at - 2) {
            return;
        }
        if (kind == S_PUB32 || is_procedure(kind)) {
            on_symbol(p, s, stream, at + 4, kind, n - 2);
        }
        at += n + 2;
    }
}

/* Bytes of a text and its end from `at`; 0: it has no end before `end`. */
static uint32_t text_skip(struct etl_pdb *p, uint32_t at, uint32_t end)
{
    uint8_t c = 1;
    uint32_t n = 0;

    while (c && at + n < end && stream_read(p, 3, at + n, &c, 1)) {
        n++;
    }
    return c ? 0 : n;
}

static void modules_scan(struct etl_pdb *p, const struct search *s)
{
    uint32_t at = DBI_HEAD, end = stream_size(p, 3), n;
    uint8_t head[MODULE_HEAD];

    end = p->modules_n < end - at ? at + p->modules_n : end;
    while (end - at >= sizeof head && stream_read(p, 3, at, head, sizeof head)) {
        uint16_t stream = cur_at16le(head + 34);

        if (stream != NO_STREAM) {
            symbols_scan(p, s, stream, 4, cur_at32le(head + 36));
        }
        at += sizeof head;
        for (unsigned i = 0; i < 2; i++) { /* its name, that of its object file */
            n = text_skip(p, at, end);
            if (!n) {
                return;
            }
            at += n;
        }
        at = (at + 3) & ~3u;
        if (at > end) {
            return;
        }
    }
}

static bool same_section(const struct etl_pdb *p, uint32_t a, uint32_t b)
{
    for (size_t i = 0; i < p->n_sections && !p->n_omap; i++) {
        if (a - p->sections[i].rva < p->sections[i].size) {
            return b - p->sections[i].rva < p->sections[i].size;
        }
    }
    return p->n_omap > 0;
}

enum err etl_pdb_find(struct etl_pdb *p, const uint32_t *rvas, size_t n, struct etl_pdb_hit *hits)
{
    struct search s = {.rvas = rvas, .n = n};
    enum err e = ERR_OK;

    memset(hits, 0, n * sizeof *hits);
    s.procedures = mem_array(n + 1, sizeof *s.procedures);
    s.publics = mem_array(n + 1, sizeof *s.publics);
    if (!s.procedures || !s.publics) {
        e = ERR_NOMEM;
        n = 0;
    } else {
        modules_scan(p, &s);
        symbols_scan(p, &s, p->symbols, 0, UINT32_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        const struct etl_pdb_hit *procedure = &s.procedures[i], *symbol = &s.publics[i];
        uint32_t in;

        hits_follow(s.procedures, i);
        hits_follow(s.publics, i);
        in = rvas[i] - procedure->start;
        if (procedure->kind && (in == 0 || in < procedure->size)) {
            hits[i] = *procedure;
        } else if (symbol->kind && same_section(p, symbol->start, rvas[i])) {
            hits[i] = *symbol;
        }
    }
    mem_free(s.procedures);
    mem_free(s.publics);
    return e;
}

/* -- names -- */

/* "?Name@Inner@Outer@@…" as "Outer::Inner::Name"; of constructors and
 * destructors too. What is decorated otherwise (operators, templates) stays as
 * it is. */
static void undecorate(char name[ETL_PDB_NAME])
{
    const char *parts[16], *from = name + 1, *at;
    size_t sizes[16], n = 0, used = 0;
    char plain[ETL_PDB_NAME], special = 0;

    if (name[0] != '?') {
        return;
    }
    if (from[0] == '?' && (from[1] == '0' || from[1] == '1')) {
        special = from[1];
        from += 2;
    }
    while (n < 16 && (at = strchr(from, '@')) != NULL && at > from) {
        if (*from == '?' || (*from >= '0' && *from <= '9')) {
            return;
        }
        parts[n] = from;
        sizes[n++] = (size_t)(at - from);
        from = at + 1;
    }
    if (n == 0 || *from != '@') {
        return;
    }
    for (size_t i = n + (special != 0); i-- > 0;) {
        size_t k = special && i > 0 ? i - 1 : i;

        if (used + sizes[k] + 4 > sizeof plain) {
            return;
        }
        if (special && i == 0 && special == '1') {
            plain[used++] = '~';
        }
        memcpy(plain + used, parts[k], sizes[k]);
        used += sizes[k];
        if (i) {
            plain[used++] = ':';
            plain[used++] = ':';
        }
    }
    memcpy(name, plain, used);
    name[used] = '\0';
}

void etl_pdb_name(struct etl_pdb *p, const struct etl_pdb_hit *hit, char name[ETL_PDB_NAME])
{
    uint32_t size = stream_size(p, hit->stream);
    size_t n = 0;

    while (hit->kind && n < ETL_PDB_NAME - 1 && hit->name_at + n < size &&
           stream_read(p, hit->stream, hit->name_at + (uint32_t)n, &name[n], 1) && name[n]) {
        n++;
    }
    name[n] = '\0';
    if (hit->kind == ETL_PDB_PUBLIC) {
        undecorate(name);
    }
}
