/* Makes seeds for the fuzz targets from synthetic data: `make_seeds DIR` writes DIR/TARGET/NAME.
 *   fuzz_decode_*   every operation of the class, in each of its versions, 32 and 64 bits, with a
 *                   payload put together by the layout's own fields
 *   fuzz_lzxpress   what the test's own compressor makes of runs, text and noise */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/os.h"
#include "tests/fuzz/class_input.h"
#include "tests/support/etl_writer.h"

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

static void put_other(struct buf *b, const struct layout_field *f, size_t pointer)
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
        while (b->n % 8 != CLASS_INPUT_HEADER) {
            buf_put_u8(b, 0);
        }
        break;
    default: /* takes no bytes */
        break;
    }
}

static void put_payload(struct buf *b, const struct layout *l, uint8_t version, size_t pointer)
{
    uint8_t value = 1;

    for (const struct layout_field *f = l->fields; f->name; f++) {
        size_t bytes = number_bytes(f->type, pointer);

        if (version < f->first || (f->last && version > f->last)) {
            continue;
        }
        for (size_t i = 0; bytes && (i == 0 || i < f->n); i++) {
            put_number(b, bytes, value++);
        }
        if (!bytes) {
            put_other(b, f, pointer);
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

int main(int argc, char **argv)
{
    if (argc != 2) {
        give_up("usage: make_seeds DIR");
    }
    root = argv[1];
#define X(name) class_seeds("fuzz_decode_" #name, &decode_##name##_class);
    FUZZ_CLASSES
#undef X
    lzxpress_seeds();
    return 0;
}
