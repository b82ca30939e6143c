#include "tests/agent/decode/payload.h"

#define V0       "Irp ThreadId FileObject"
#define V1       "Irp FileObject"
#define ISSUER   " IssuingThreadId"
#define CREATE   " CreateOptions CreateAttributes ShareAccess FileName"
#define TRANSFER " IOSize IOFlags"
#define LISTING  " Length InfoClass FileIndex FileName"
#define INFO_V0  V0 " FileKey ExtraInformation InfoClass"
#define INFO_V1  V1 " FileKey ExtraInformation" ISSUER " InfoClass"

#define INFO(id, op)                             \
    {id, 0, "PPPPP4", INFO_V0, op, EV_FILE_OP},  \
    {                                            \
        id, 1, "PPPP44", INFO_V1, op, EV_FILE_OP \
    }

#define SIMPLE(id, op)                                      \
    {id, 0, "PPPP", V0 " FileKey", op, EV_FILE_OP},         \
    {                                                       \
        id, 1, "PPP4", V1 " FileKey" ISSUER, op, EV_FILE_OP \
    }

#define MOVE(id, op)                                                                      \
    {id, 0, "8PPPP44", "ByteOffset " V0 " FileKey" TRANSFER, op, EV_FILE_OP},             \
    {                                                                                     \
        id, 1, "8PPP4444", "ByteOffset " V1 " FileKey" ISSUER TRANSFER " ExtraFlags", op, \
            EV_FILE_OP                                                                    \
    }

static const struct payload_row rows[] = {
    {10, 0, "Pw", "FileKey FileName", "NameCreate", EV_KIND_COUNT},
    {11, 0, "Pw", "FileKey FileName", "NameDelete", EV_KIND_COUNT},
    {12, 0, "PPP444w", V0 CREATE, "Create", EV_FILE_OP},
    {12, 1, "PP4444w", V1 ISSUER CREATE, "Create", EV_FILE_OP},
    SIMPLE(13, "Cleanup"),
    SIMPLE(14, "Close"),
    MOVE(15, "Read"),
    MOVE(16, "Write"),
    INFO(17, "SetInformation"),
    INFO(18, "SetDelete"),
    INFO(19, "Rename"),
    {20, 0, "PPPP444w", V0 " FileKey" LISTING, "DirEnum", EV_FILE_OP},
    {20, 1, "PPP4444w", V1 " FileKey" ISSUER LISTING, "DirEnum", EV_FILE_OP},
    SIMPLE(21, "Flush"),
    INFO(22, "QueryInformation"),
    INFO(23, "FSCTL"),
    {24, 0, "PP4", "Irp ExtraInformation Status", "OperationEnd", EV_FILE_OP},
    {25, 1, "PPP4444w", V1 " FileKey" ISSUER LISTING, "DirNotify", EV_FILE_OP},
    {26, 0, "PPPPP4w", INFO_V0 " FilePath", "DeletePath", EV_KIND_COUNT},
    {27, 1, "PPPP44w", INFO_V1 " FilePath", "RenamePath", EV_KIND_COUNT},
    INFO(29, "Rename29"),
    {30, 1, "PP4444w", V1 ISSUER CREATE, "CreateNewFile", EV_KIND_COUNT},
    INFO(31, "QuerySecurity"),
    INFO(34, "SetEA"),
};

static void check(const struct event *ev, const struct payload *p)
{
    const struct ev_file *file = &ev->u.file;
    const char *path = payload_has(p, "FileName") ? payload_text(p, "FileName") : "";

    assert_true(file->manifest);
    assert_true(file->irp == payload_number(p, "Irp"));
    if (file->op == FILE_OP_END) {
        assert_int_equal(file->tid, EVENT_NO_ID);
        return;
    }
    assert_true(file->object == payload_number(p, "FileObject"));
    assert_int_equal(
        file->tid,
        (uint32_t)payload_number(p, payload_has(p, "ThreadId") ? "ThreadId" : "IssuingThreadId"));
    assert_int_equal(file->path.n, strlen(path));
    assert_memory_equal(file->path.p, path, file->path.n);
    if (file->op == FILE_READ || file->op == FILE_WRITE) {
        assert_int_equal(file->bytes, payload_number(p, "IOSize"));
        assert_true(file->offset == payload_number(p, "ByteOffset"));
    }
}

static void every_record_is_read_whole_or_refused(void **state)
{
    payload_check(&decode_kernel_file_class, rows, COUNT_OF(rows), check);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_read_whole_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
