/* Makes seeds for the fuzz targets from synthetic data: `make_seeds DIR` writes DIR/TARGET/NAME.
 *   fuzz_decode_*   every operation of the class, in each of its versions, 32 and 64 bits, with a
 *                   payload put together by the layout's own fields
 *   fuzz_lzxpress   what the test's own compressor makes of runs, text and noise
 *   fuzz_etl,       trace files: every header type, clock and pointer size, packed and plain, one
 *   fuzz_recording  CPU and several; a record of every layout; as files and as their parts
 *   fuzz_snap       answers of the bulk process calls
 *   fuzz_stages     noise */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/os/os.h"
#include "tests/fuzz/class_input.h"
#include "tests/fuzz/etl_shape.h"
#include "tests/support/etl_writer.h"
#include "tests/support/snap_gen.h"

#define PATH_BYTES 512

static const char *root;

static void give_up(const char *what)
{
    fprintf(stderr, "make_seeds: %s\n", what);
    exit(1);
}

static void save(const char *target, const char *name, const struct buf *b)
{
    char path[PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s/%s", root, target);

    if (b->bad || n < 0 || os_mkdirs(path, false)) {
        give_up("cannot make a directory");
    }
    n = snprintf(path, sizeof path, "%s/%s/%s", root, target, name);
    if (n < 0 || (size_t)n >= sizeof path || os_write_file(path, b->p, b->n, false)) {
        give_up("cannot write a seed");
    }
}

/* ---- payloads by their layout ---- */

static void put_number(struct buf *b, size_t bytes, uint8_t value)
{
    for (size_t i = 0; i < bytes; i++) {
        buf_put_u8(b, i == 0 ? value : 0);
    }
}

static void put_wide(struct buf *b, const char *s, bool terminated)
{
    for (; *s; s++) {
        buf_put_u16le(b, (uint8_t)*s);
    }
    if (terminated) {
        buf_put_u16le(b, 0);
    }
}

static void put_sid(struct buf *b)
{
    static const uint8_t local_system[] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};

    buf_put(b, local_system, sizeof local_system);
}

static void put_wide_fixed(struct buf *b, size_t units)
{
    put_wide(b, "UTC", false);
    for (size_t i = 3; i < units; i++) {
        buf_put_u16le(b, 0);
    }
}

/* Bytes of a number, or 0. */
static size_t number_bytes(unsigned type, size_t pointer)
{
    switch (type) {
    case LAYOUT_U8:
    case LAYOUT_I8:
    case LAYOUT_BOOL8:
        return 1;
    case LAYOUT_U16:
    case LAYOUT_I16:
    case LAYOUT_PORT:
        return 2;
    case LAYOUT_U32:
    case LAYOUT_I32:
    case LAYOUT_HEX32:
    case LAYOUT_BOOL32:
    case LAYOUT_U32_OPT:
    case LAYOUT_IP4:
        return 4;
    case LAYOUT_U64:
    case LAYOUT_I64:
    case LAYOUT_HEX64:
    case LAYOUT_FILETIME:
    case LAYOUT_TICKS:
        return 8;
    case LAYOUT_PTR:
    case LAYOUT_SIZE:
        return pointer;
    default:
        return 0;
    }
}

static void put_other(struct buf *b, const struct layout_field *f, size_t begin, size_t pointer)
{
    switch (f->type) {
    case LAYOUT_W:
    case LAYOUT_W_OPT:
        put_wide(b, "\\Device\\a.exe", true);
        break;
    case LAYOUT_W_FIXED:
        put_wide_fixed(b, f->n);
        break;
    case LAYOUT_A:
    case LAYOUT_A_REST:
        buf_put(b, "app.exe", 8);
        break;
    case LAYOUT_USER:
        buf_put_u32le(b, 1);
        put_number(b, 2 * pointer - 4, 0);
        put_sid(b);
        break;
    case LAYOUT_SID:
        put_sid(b);
        break;
    case LAYOUT_SYSTEMTIME:
    case LAYOUT_GUID:
    case LAYOUT_IP6:
        put_number(b, 16, 1);
        break;
    case LAYOUT_BYTES:
    case LAYOUT_SKIP:
        put_number(b, f->n, 2);
        break;
    case LAYOUT_REST:
    case LAYOUT_PTR_REST:
        put_number(b, 2 * pointer, 3);
        break;
    case LAYOUT_ALIGN8:
        while ((b->n - begin) % 8) {
            buf_put_u8(b, 0);
        }
        break;
    default: /* takes no bytes */
        break;
    }
}

static void put_payload(struct buf *b, const struct layout *l, uint8_t version, size_t pointer)
{
    size_t begin = b->n;
    uint8_t value = 1;

    for (const struct layout_field *f = l->fields; f->name; f++) {
        size_t bytes = number_bytes(f->type, pointer);
        size_t count = f->n == LAYOUT_TO_END ? 3 : f->n;

        if (version < f->first || (f->last && version > f->last)) {
            continue;
        }
        for (size_t i = 0; bytes && (i == 0 || i < count); i++) {
            put_number(b, bytes, value++);
        }
        if (!bytes) {
            put_other(b, f, begin, pointer);
        }
    }
}

static uint8_t index_of(const struct decode_class *k, uint16_t number)
{
    uint16_t numbers[CLASS_INPUT_NUMBERS];
    size_t n = class_input_numbers(k, numbers);

    for (size_t i = 0; i < n; i++) {
        if (numbers[i] == number) {
            return (uint8_t)i;
        }
    }
    give_up("a layout without a number");
    return 0;
}

/* The versions from the layout's first to its last, or until no field changes any more. */
static uint8_t last_version(const struct layout *l)
{
    uint8_t last = l->last > l->first ? l->last : l->first;

    for (const struct layout_field *f = l->fields; f->name && !l->last; f++) {
        uint8_t change = f->last ? (uint8_t)(f->last + 1) : f->first;

        last = change > last ? change : last;
    }
    return last < 15 ? last : 15;
}

static void layout_seeds(const char *target, const struct decode_class *k, const struct layout *l)
{
    char name[64];

    for (unsigned version = l->first; version <= last_version(l); version++) {
        for (unsigned wide = 0; wide < 2; wide++) {
            struct buf b;

            buf_init(&b, 1u << 20);
            buf_put_u8(&b, index_of(k, l->opcode));
            buf_put_u8(&b, (uint8_t)version);
            buf_put_u8(&b, (uint8_t)wide);
            buf_put_u8(&b, (uint8_t)l->opcode);
            put_payload(&b, l, (uint8_t)version, wide ? 8 : 4);
            (void)snprintf(name, sizeof name, "%u_v%u_%s", l->opcode, version, wide ? "64" : "32");
            save(target, name, &b);
            buf_fini(&b);
        }
    }
}

static void class_seeds(const char *target, const struct decode_class *k)
{
    for (size_t i = 0; i < k->n_layouts; i++) {
        layout_seeds(target, k, &k->layouts[i]);
    }
}

/* ---- compressed streams ---- */

static void lzxpress_seed(const char *name, uint8_t (*byte)(size_t i), size_t n)
{
    uint8_t *p = malloc(n);
    struct buf b;

    if (!p) {
        give_up("no memory");
    }
    for (size_t i = 0; i < n; i++) {
        p[i] = byte(i);
    }
    buf_init(&b, 1u << 20);
    etl_writer_compress(&b, p, n);
    save("fuzz_lzxpress", name, &b);
    buf_fini(&b);
    free(p);
}

static uint8_t zero_byte(size_t i)
{
    (void)i;
    return 0;
}

static uint8_t period_byte(size_t i)
{
    return (uint8_t)(i % 11);
}

static uint8_t noise_byte(size_t i)
{
    return (uint8_t)((i * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
}

/* Repeats of many lengths, at many distances. */
static uint8_t ladder_byte(size_t i)
{
    size_t step = 1;

    while (i >= step) {
        i -= step++;
    }
    return (uint8_t)(i * 7);
}

static void lzxpress_seeds(void)
{
    lzxpress_seed("zeros", zero_byte, 60000);
    lzxpress_seed("few_zeros", zero_byte, 40);
    lzxpress_seed("period", period_byte, 3000);
    lzxpress_seed("noise", noise_byte, 300);
    lzxpress_seed("ladder", ladder_byte, 5000);
    lzxpress_seed("short_ladder", ladder_byte, 300);
}

/* ---- trace files ---- */

/* A record of each header type, with and without its optional parts. */
static void put_every_type(struct buf *out, int64_t ticks)
{
    static const uint8_t payload[24] = {1, 2, 3, 4, 5, 6, 7, 8},
                         guid[16] = {0xd0, 0xa8, 0x6f, 0x3d};
    static const enum etl_record_type types[] = {
        ETL_SYSTEM32,   ETL_SYSTEM64, ETL_COMPACT32, ETL_COMPACT64,  ETL_FULL32,
        ETL_INSTANCE32, ETL_ERROR,    ETL_MESSAGE,   ETL_PERFINFO32, ETL_PERFINFO64,
        ETL_EVENT32,    ETL_EVENT64,  ETL_FULL64,    ETL_INSTANCE64};
    static const struct etl_rec_item items[] = {
        {1, payload, 16}, {5, payload, 12}, {11, payload, 9}};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        for (unsigned full = 0; full < 2; full++) {
            struct etl_rec r = {.type = types[i],
                                .ticks = ticks++,
                                .tid = 8,
                                .pid = 4,
                                .group = 3,
                                .opcode = 1,
                                .version = 2,
                                .guid = guid,
                                .counters = full ? 2 : 0,
                                .pebs = full,
                                .items = items,
                                .n_items = full ? 3 : 0,
                                .options = full ? 0xaf : ETL_REC_TIME,
                                .payload = payload,
                                .n = full ? sizeof payload : 0};

            etl_rec_put(out, &r);
        }
    }
}

static void put_layout(struct buf *out, const struct decode_class *k, const struct layout *l,
                       size_t pointer)
{
    struct etl_rec r = {.type = pointer == 8 ? ETL_EVENT64 : ETL_EVENT32,
                        .ticks = 2000 + l->opcode,
                        .tid = 8,
                        .pid = 4,
                        .opcode = (uint8_t)l->opcode,
                        .id = l->opcode,
                        .version = last_version(l),
                        .guid = k->guid,
                        .flags = k->form == RAW_CLASSIC ? ETL_REC_CLASSIC : 0};
    struct buf payload;

    buf_init(&payload, 1u << 16);
    put_payload(&payload, l, r.version, pointer);
    r.payload = payload.p;
    r.n = payload.n;
    etl_rec_put(out, &r);
    buf_fini(&payload);
}

/* One chunk of etl_shape.h with the records. */
static void put_chunk(struct buf *out, uint8_t kind, uint8_t flags, const struct buf *records)
{
    buf_put_u8(out, kind);
    buf_put_u8(out, flags);
    buf_put_u16le(out, (uint16_t)records->n);
    buf_put(out, records->p, records->n);
}

static void put_shape(struct buf *out, uint8_t kind, uint8_t clock, uint8_t cpus)
{
    const uint8_t head[ETL_SHAPE_HEADER] = {1, kind, clock, cpus};

    buf_put(out, head, sizeof head);
}

static void save_trace(const char *name, const struct buf *b)
{
    save("fuzz_etl", name, b);
    save("fuzz_recording", name, b);
}

/* Two CPUs, the second chunk packed. */
static void shape_seed(const char *name, uint8_t kind, uint8_t clock, uint8_t flags)
{
    struct buf out, records;

    buf_init(&out, 1u << 16);
    buf_init(&records, 1u << 16);
    put_every_type(&records, 2000);
    put_shape(&out, kind, clock, 2);
    put_chunk(&out, 0, flags, &records);
    put_chunk(&out, 1u << 4 | ETL_SHAPE_PACK, flags, &records);
    save_trace(name, &out);
    buf_fini(&records);
    buf_fini(&out);
}

/* A record of each layout in its newest version, as many to a seed as make about 3 KiB. */
static void class_trace(const char *class, const struct decode_class *k)
{
    size_t i = 0;

    for (unsigned part = 0; i < k->n_layouts; part++) {
        struct buf out, records;
        char name[64];

        buf_init(&out, 1u << 16);
        buf_init(&records, 1u << 16);
        for (; i < k->n_layouts && records.n < 3000; i++) {
            put_layout(&records, k, &k->layouts[i], i % 4 == 3 ? 4 : 8);
        }
        put_shape(&out, ETL_SHAPE_WIDE, 1, 0x42);
        put_chunk(&out, 0, 0, &records);
        (void)snprintf(name, sizeof name, "%s_%u", class, part);
        save_trace(name, &out);
        buf_fini(&records);
        buf_fini(&out);
    }
}

/* A file as it stands, four buffers of two CPUs. */
static void file_seed(const char *name, bool packed, uint8_t pointer)
{
    struct etl_writer_conf conf = etl_writer_defaults();
    struct buf out, records;
    struct etl_writer w;

    conf.buffer_size = 0x1000;
    conf.pointer_size = pointer;
    buf_init(&out, 1u << 16);
    buf_init(&records, 1u << 16);
    put_every_type(&records, 2000);
    etl_writer_init(&w, &conf);
    etl_writer_close(&w);
    for (uint16_t i = 0; i < 3; i++) {
        etl_writer_buffer(&w, i & 1, 0);
        etl_writer_bytes(&w, records.p, records.n);
        if (packed) {
            etl_writer_close_compressed(&w);
        } else {
            etl_writer_close(&w);
        }
    }
    buf_put_u8(&out, 0);
    buf_put(&out, w.file.p, w.file.n);
    save_trace(name, &out);
    etl_writer_fini(&w);
    buf_fini(&records);
    buf_fini(&out);
}

/* Two files whose times overlap. */
static void pair_seed(void)
{
    struct buf out, records, part;

    buf_init(&out, 1u << 16);
    buf_init(&records, 1u << 16);
    buf_init(&part, 1u << 16);
    put_every_type(&records, 2000);
    put_shape(&part, ETL_SHAPE_WIDE, 1, 2);
    put_chunk(&part, 0, 0, &records);
    buf_put_u8(&out, 2);
    buf_put_u16le(&out, (uint16_t)part.n);
    buf_put(&out, part.p, part.n);
    buf_put(&out, part.p, part.n);
    save_trace("pair", &out);
    buf_fini(&part);
    buf_fini(&records);
    buf_fini(&out);
}

static void trace_seeds(void)
{
    pair_seed();
    shape_seed("wide_counter", ETL_SHAPE_WIDE, 1, 0);
    shape_seed("narrow_counter", 0, 1, 0);
    shape_seed("system_time", ETL_SHAPE_WIDE, 2, 0);
    shape_seed("cycles", ETL_SHAPE_WIDE, 3, 0);
    shape_seed("circular", ETL_SHAPE_WIDE | ETL_SHAPE_CIRCLE, 1, 0);
    shape_seed("unended", ETL_SHAPE_WIDE | ETL_SHAPE_UNENDED, 1, 0);
    shape_seed("losses", ETL_SHAPE_WIDE, 1, 6);
    shape_seed("stream", ETL_SHAPE_WIDE, 1, 0x40); /* the chunk's bytes claim to be packed */
    file_seed("file_plain", false, 8);
    file_seed("file_packed", true, 8);
    file_seed("file_32", false, 4);
}

static void noise_seeds(void)
{
    for (unsigned k = 0; k < 4; k++) {
        struct buf b;
        char name[16];

        buf_init(&b, 1u << 16);
        for (size_t i = 0; i < 64u << k; i++) {
            buf_put_u8(&b, noise_byte(i * 8 + k));
        }
        (void)snprintf(name, sizeof name, "noise%u", k);
        save("fuzz_stages", name, &b);
        buf_fini(&b);
    }
}

static void snap_seed(const char *name, bool full)
{
    static const struct snap_gen_thread threads[] = {{.tid = 8, .state = 2, .switches = 7},
                                                     {.tid = 12, .state = 5, .reason = 5},
                                                     {.tid = 16, .state = 1, .user = 3}};
    static const uint8_t sid[] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};
    const uint64_t base = 0x10000, created = UINT64_C(133000000000000000);
    struct buf answer, b;

    buf_init(&answer, 1u << 16);
    snap_gen_put(&answer, base, full,
                 &(struct snap_gen_process){.threads = threads, .n_threads = 1}, false);
    snap_gen_put(
        &answer, base, full,
        &(struct snap_gen_process){
            .pid = 4, .created = created, .name = u"System", .threads = threads, .n_threads = 3},
        false);
    snap_gen_put(&answer, base, full,
                 &(struct snap_gen_process){.pid = 8,
                                            .created = created,
                                            .name = u"C:\\a\\b.exe",
                                            .threads = threads,
                                            .n_threads = 2,
                                            .extension = true,
                                            .sid = full ? sid : NULL,
                                            .sid_n = full ? sizeof sid : 0},
                 true);
    buf_init(&b, 1u << 16);
    buf_put_u8(&b, full);
    buf_put_u64le(&b, base);
    buf_put(&b, answer.p, answer.n); /* two tables */
    buf_put(&b, answer.p, answer.n);
    save("fuzz_snap", name, &b);
    buf_fini(&answer);
    buf_fini(&b);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        give_up("usage: make_seeds DIR");
    }
    root = argv[1];
#define X(name)                                                \
    class_seeds("fuzz_decode_" #name, &decode_##name##_class); \
    class_trace(#name, &decode_##name##_class);
    FUZZ_CLASSES
#undef X
    lzxpress_seeds();
    trace_seeds();
    noise_seeds();
    snap_seed("class_5", false);
    snap_seed("class_148", true);
    return 0;
}
