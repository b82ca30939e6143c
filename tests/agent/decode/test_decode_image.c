#include "tests/agent/decode/payload.h"

#define NAMES_1 "BaseAddress ModuleSize ProcessId ImageFileName"
#define NAMES_2                                                                           \
    "BaseAddress ModuleSize ProcessId ImageCheckSum TimeDateStamp Reserved0 DefaultBase " \
    "Reserved1 Reserved2 Reserved3 Reserved4 ImageFileName"
#define NAMES_3                                                                    \
    "BaseAddress ModuleSize ProcessId ImageCheckSum TimeDateStamp SignatureLevel " \
    "SignatureType Reserved0 DefaultBase Reserved1 Reserved2 Reserved3 Reserved4 ImageFileName"

#define IMAGE(OPCODE, NAME, KIND)                                           \
    {OPCODE, 0, "P4w", "BaseAddress ModuleSize ImageFileName", NAME, KIND}, \
        {OPCODE, 1, "PP4w", NAMES_1, NAME, KIND},                           \
        {OPCODE, 2, "PP4444P4444w", NAMES_2, NAME, KIND},                   \
    {                                                                       \
        OPCODE, 3, "PP444112P4444w", NAMES_3, NAME, KIND                    \
    }

static const struct payload_row rows[] = {
    IMAGE(10, "Load", EV_IMAGE_LOAD),
    IMAGE(2, "Unload", EV_IMAGE_UNLOAD),
    IMAGE(3, "DCStart", EV_IMAGE_FOUND),
    IMAGE(4, "DCEnd", EV_IMAGE_LAST),
    {33, 2, "P", "BaseAddress", "KernelBase", EV_KIND_COUNT},
    {34, 2, "P", "BaseAddress", "HypercallPage", EV_KIND_COUNT},
};

static void check(const struct event *ev, const struct payload *p)
{
    const struct ev_image *image = &ev->u.image;
    const char *path = p->texts[p->n - 1];
    /* Version 0 names no process: of a rundown the header's is that of whoever made it. */
    bool own = ev->kind == EV_IMAGE_LOAD || ev->kind == EV_IMAGE_UNLOAD;
    uint64_t pid = p->n > 3 ? payload_number(p, "ProcessId") : own ? 444 : EVENT_NO_ID;

    assert_true(image->base == payload_number(p, "BaseAddress"));
    assert_true(image->size == payload_number(p, "ModuleSize"));
    assert_int_equal(image->pid, pid);
    assert_int_equal(image->checksum, p->n > 4 ? payload_number(p, "ImageCheckSum") : 0);
    assert_int_equal(image->time_stamp, p->n > 4 ? payload_number(p, "TimeDateStamp") : 0);
    assert_int_equal(image->path.n, strlen(path));
    assert_memory_equal(image->path.p, path, image->path.n);
}

static void every_record_is_read_whole_or_refused(void **state)
{
    payload_check(&decode_image_class, rows, COUNT_OF(rows), check);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_read_whole_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
