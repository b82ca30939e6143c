#include "tests/agent/decode/payload.h"

#define DONE \
    "DiskNumber IrpFlags TransferSize Reserved ByteOffset FileObject Irp HighResResponseTime"
#define FLUSHED "DiskNumber IrpFlags HighResResponseTime Irp"
#define ISSUER  " IssuingThreadId"

static const struct payload_row rows[] = {
    {10, 2, "44448PP8", DONE, "Read", EV_DISK_READ},
    {10, 3, "44448PP84", DONE ISSUER, "Read", EV_DISK_READ},
    {11, 2, "44448PP8", DONE, "Write", EV_DISK_WRITE},
    {11, 3, "44448PP84", DONE ISSUER, "Write", EV_DISK_WRITE},
    {12, 2, "P", "Irp", "ReadInit", EV_DISK_INIT},
    {12, 3, "P4", "Irp" ISSUER, "ReadInit", EV_DISK_INIT},
    {13, 2, "P", "Irp", "WriteInit", EV_DISK_INIT},
    {13, 3, "P4", "Irp" ISSUER, "WriteInit", EV_DISK_INIT},
    {14, 2, "448P", FLUSHED, "FlushBuffers", EV_DISK_FLUSH},
    {14, 3, "448P4", FLUSHED ISSUER, "FlushBuffers", EV_DISK_FLUSH},
    {15, 2, "P", "Irp", "FlushInit", EV_DISK_INIT},
    {15, 3, "P4", "Irp" ISSUER, "FlushInit", EV_DISK_INIT},
    {34, 2, "44PPP4", "MajorFunction MinorFunction RoutineAddr FileObject Irp UniqMatchId",
     "DrvMjFnCall", EV_KIND_COUNT},
    {35, 2, "P4", "Irp UniqMatchId", "DrvMjFnRet", EV_KIND_COUNT},
    {37, 2, "PP4", "Routine IrpPtr UniqMatchId", "DrvComplRout", EV_KIND_COUNT},
    {52, 2, "PP4", "RoutineAddr Irp UniqMatchId", "DrvComplReq", EV_KIND_COUNT},
    {53, 2, "P4", "Irp UniqMatchId", "DrvComplReqRet", EV_KIND_COUNT},
    {55, 3, "44448PP84", DONE ISSUER, "OpticalRead", EV_KIND_COUNT},
    {56, 3, "44448PP84", DONE ISSUER, "OpticalWrite", EV_KIND_COUNT},
    {57, 3, "448P4", FLUSHED ISSUER, "OpticalFlushBuffers", EV_KIND_COUNT},
    {58, 3, "P4", "Irp" ISSUER, "OpticalReadInit", EV_KIND_COUNT},
    {59, 3, "P4", "Irp" ISSUER, "OpticalWriteInit", EV_KIND_COUNT},
    {60, 3, "P4", "Irp" ISSUER, "OpticalFlushInit", EV_KIND_COUNT},
};

static void check(const struct event *ev, const struct payload *p)
{
    const struct ev_disk *disk = &ev->u.disk;
    bool issuer = strcmp(p->names[p->n - 1], "IssuingThreadId") == 0;

    assert_true(disk->irp == payload_number(p, "Irp"));
    assert_int_equal(disk->issuer_tid, issuer ? payload_number(p, "IssuingThreadId") : EVENT_NO_ID);
    if (ev->kind == EV_DISK_INIT) {
        return;
    }
    assert_int_equal(disk->disk, payload_number(p, "DiskNumber"));
    assert_int_equal(disk->flags, payload_number(p, "IrpFlags"));
    assert_true(disk->took_ns == (int64_t)payload_number(p, "HighResResponseTime"));
    if (ev->kind == EV_DISK_FLUSH) {
        return;
    }
    assert_int_equal(disk->bytes, payload_number(p, "TransferSize"));
    assert_true(disk->offset == payload_number(p, "ByteOffset"));
    assert_true(disk->file == payload_number(p, "FileObject"));
}

static void every_record_is_read_whole_or_refused(void **state)
{
    payload_check(&decode_disk_io_class, rows, COUNT_OF(rows), check);
}

static void versions_before_vista_are_unknown(void **state)
{
    assert_null(layout_find(decode_disk_io_class.layouts, decode_disk_io_class.n_layouts, 10, 0));
    assert_null(layout_find(decode_disk_io_class.layouts, decode_disk_io_class.n_layouts, 12, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_read_whole_or_refused),
        cmocka_unit_test(versions_before_vista_are_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
