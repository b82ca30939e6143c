/* Any bytes as a PE file with a compiled manifest; also as the resource alone. */
#include "agent/decode/schema/wevt.h"
#include "common/base/mem.h"
#include "tests/fuzz/touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void on_begin(void *ctx, const char *name, const char *const *attributes)
{
    struct touch *t = ctx;

    t->depth++;
    touch_bytes(t, name, strlen(name));
    for (; attributes[0]; attributes++) {
        touch_bytes(t, attributes[0], strlen(attributes[0]));
    }
}

static void on_end(void *ctx, const char *name)
{
    struct touch *t = ctx;

    (void)name;
    touch_must(--t->depth >= 0);
}

static enum err on_stopped(void *ctx)
{
    (void)ctx;
    return ERR_OK;
}

static void try_elements(const uint8_t *p, size_t n)
{
    struct touch touch = {0};
    const struct wevt_sink sink = {&touch, on_begin, on_end, on_stopped};
    uint8_t *copy = touch_copy(p, n);

    err_ignore(wevt_elements(copy, n, copy, n, &sink)); /* any bytes are messages, too */
    touch_balanced(&touch);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct touch_input b = {p, n};
    const struct wevt_input input = {touch_read, &b};
    uint8_t *resource;
    size_t size;

    if (wevt_resource(&input, WEVT_MESSAGES, &resource, &size) == ERR_OK) {
        mem_free(resource);
    }
    if (wevt_resource(&input, WEVT_TEMPLATE, &resource, &size) == ERR_OK) {
        try_elements(resource, size);
        mem_free(resource);
    }
    try_elements(p, n);
    return 0;
}
