/* Any bytes as stack tags; then frames are asked for. */
#include "agent/etl/etl_stack_tags.h"
#include "tests/fuzz/touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

struct bytes {
    const uint8_t *p;
    size_t n;
};

static size_t bytes_read(void *ctx, void *p, size_t n)
{
    struct bytes *b = ctx;

    n = n < b->n ? n : b->n;
    memcpy(p, b->p, n);
    b->p += n;
    b->n -= n;
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static const char *const frames[] = {"",    "!",       "a!b", "clr!Mark", "clr.dll+0x12",
                                         "+0x", "N.C.Run", "[x]", "app.exe"};
    struct bytes b = {p, n};
    struct touch touch = {0};
    struct etl_stack_tags *t;

    if (etl_stack_tags_stream(&t, bytes_read, &b)) {
        return 0;
    }
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        uint32_t tag = etl_stack_tags_of(t, str_make(frames[i]));

        touch_must(tag < etl_stack_tags_count(t));
        touch_text(&touch, etl_stack_tags_name(t, tag));
    }
    etl_stack_tags_free(t);
    return 0;
}
