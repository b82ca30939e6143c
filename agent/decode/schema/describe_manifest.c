/* A record with id 0xfffe: u8 1, u8 major, u8 minor version of the format, u8 0x5b, u16 chunks,
 * u16 this chunk, then its share of the text, UTF-8. */
#include "agent/decode/schema/describe_manifest.h"

#include "common/base/cur.h"
#include "common/base/hash.h"

#define MANIFEST_ID     0xfffe
#define MANIFEST_HEAD   8
#define MANIFEST_FORMAT 1
#define MANIFEST_MAGIC  0x5b

static const struct layout_field fields[] = {
    {"Format", LAYOUT_U8, 0, 0, 0},       {"MajorVersion", LAYOUT_U8, 0, 0, 0},
    {"MinorVersion", LAYOUT_U8, 0, 0, 0}, {"Magic", LAYOUT_U8, 0, 0, 0},
    {"TotalChunks", LAYOUT_U16, 0, 0, 0}, {"ChunkNumber", LAYOUT_U16, 0, 0, 0},
    {"Manifest", LAYOUT_A_REST, 0, 0, 0}, {0},
};

const struct layout manifest_layout = {MANIFEST_ID, 0, 0, "ManifestData", fields};

void describe_manifest_init(struct manifests *ms)
{
    ms->age = 0;
    ms->bytes = 0;
    for (size_t i = 0; i < MANIFEST_OPEN_MAX; i++) {
        ms->open[i] = (struct manifest_open){0};
        buf_init(&ms->open[i].xml, ETW_MANIFEST_XML_MAX);
    }
}

void describe_manifest_fini(struct manifests *ms)
{
    for (size_t i = 0; i < MANIFEST_OPEN_MAX; i++) {
        buf_fini(&ms->open[i].xml);
    }
}

bool describe_manifest_is(const struct raw_event *raw)
{
    return raw->form == RAW_MANIFEST && raw->id == MANIFEST_ID && raw->payload_n >= MANIFEST_HEAD &&
           raw->payload[0] == MANIFEST_FORMAT && raw->payload[3] == MANIFEST_MAGIC;
}

static void close_one(struct manifests *ms, struct manifest_open *o)
{
    ms->bytes -= o->xml.n;
    o->total = 0;
    buf_fini(&o->xml);
}

static struct manifest_open *find(struct manifests *ms, const struct raw_event *raw)
{
    for (size_t i = 0; i < MANIFEST_OPEN_MAX; i++) {
        struct manifest_open *o = &ms->open[i];

        if (o->total && o->pid == raw->pid && o->tid == raw->tid &&
            memcmp(o->guid, raw->guid, sizeof o->guid) == 0) {
            return o;
        }
    }
    return NULL;
}

/* The oldest, a free one if there is any. */
static struct manifest_open *oldest(struct manifests *ms)
{
    struct manifest_open *best = &ms->open[0];

    for (size_t i = 1; i < MANIFEST_OPEN_MAX; i++) {
        struct manifest_open *o = &ms->open[i];

        if (best->total && (!o->total || o->age < best->age)) {
            best = o;
        }
    }
    return best;
}

static struct manifest_open *open_one(struct manifests *ms, const struct raw_event *raw,
                                      uint16_t total, uint64_t *broken)
{
    struct manifest_open *o = oldest(ms);

    if (o->total) {
        (*broken)++;
        close_one(ms, o);
    }
    memcpy(o->guid, raw->guid, sizeof o->guid);
    o->pid = raw->pid;
    o->tid = raw->tid;
    o->total = total;
    o->next = 0;
    o->age = ++ms->age;
    return o;
}

/* The same text from another process or another time is known. */
static enum err read_whole(struct manifests *ms, struct schema *s, const uint8_t guid[16],
                           const void *xml, size_t n, uint64_t *events)
{
    enum err e = schema_put_seen(s, guid, hash_bytes(xml, n, 0));

    if (e) {
        return e == ERR_EXISTS ? ERR_OK : e;
    }
    etw_manifest_init(&ms->manifest);
    etw_manifest_parse(&ms->manifest, xml, n);
    e = etw_manifest_finish(&ms->manifest, guid, s, events);
    etw_manifest_fini(&ms->manifest);
    return e;
}

static enum err append(struct manifests *ms, struct manifest_open *o, const uint8_t *p, size_t n)
{
    size_t before = o->xml.n;

    if (n > MANIFEST_OPEN_BYTES - ms->bytes) {
        return ERR_FULL;
    }
    buf_put(&o->xml, p, n);
    ms->bytes += o->xml.n - before;
    return o->xml.bad;
}

enum err describe_manifest_learn(struct manifests *ms, struct schema *s,
                                 const struct raw_event *raw, uint64_t *events, uint64_t *broken)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct manifest_open *o = find(ms, raw);
    uint16_t total, chunk;
    enum err e;

    *events = *broken = 0;
    cur_skip(&c, 4);
    total = cur_u16le(&c);
    chunk = cur_u16le(&c);
    if (o && (chunk != o->next || total != o->total)) {
        close_one(ms, o);
        (*broken)++;
        o = NULL;
        if (chunk != 0) {
            return ERR_OK; /* broken says it */
        }
    }
    if (c.bad || chunk >= total || (!o && chunk != 0)) {
        return ERR_CORRUPT;
    }
    if (total == 1) {
        return read_whole(ms, s, raw->guid, c.p, cur_left(&c), events);
    }
    if (!o) {
        o = open_one(ms, raw, total, broken);
    }
    e = append(ms, o, c.p, cur_left(&c));
    o->next++;
    if (!e && o->next < o->total) {
        return ERR_OK;
    }
    if (!e) {
        e = read_whole(ms, s, raw->guid, o->xml.p, o->xml.n, events);
    }
    close_one(ms, o);
    return e;
}

size_t describe_manifest_open(const struct manifests *ms)
{
    size_t n = 0;

    for (size_t i = 0; i < MANIFEST_OPEN_MAX; i++) {
        n += ms->open[i].total != 0;
    }
    return n;
}
