#include "tests/agent/decode/payload.h"

#define DONE                                                                           \
    "DiskNumber IrpFlags TransferSize Reserved ByteOffset FileObject IORequestPacket " \
    "HighResResponseTime"

static const struct payload_row rows[] = {
    {10, 0, "44448PP8", DONE, "DiskRead", EV_DISK_READ},
    {11, 0, "44448PP8", DONE, "DiskWrite", EV_DISK_WRITE},
    {14, 0, "448P", "DiskNumber IrpFlags HighResResponseTime IORequestPacket", "DiskFlush",
     EV_DISK_FLUSH},
};

static void check(const struct event *ev, const struct payload *p)
{
    const struct ev_disk *disk = &ev->u.disk;

    assert_true(disk->manifest);
    assert_int_equal(disk->issuer_tid, EVENT_NO_ID);
    assert_int_equal(disk->disk, payload_number(p, "DiskNumber"));
    assert_int_equal(disk->flags, payload_number(p, "IrpFlags"));
    assert_true(disk->irp == payload_number(p, "IORequestPacket"));
    assert_true(disk->took_ns == (int64_t)payload_number(p, "HighResResponseTime"));
    if (ev->kind != EV_DISK_FLUSH) {
        assert_int_equal(disk->bytes, payload_number(p, "TransferSize"));
        assert_true(disk->offset == payload_number(p, "ByteOffset"));
        assert_true(disk->file == payload_number(p, "FileObject"));
    }
}

static void every_record_is_read_whole_or_refused(void **state)
{
    payload_check(&decode_kernel_disk_class, rows, COUNT_OF(rows), check);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_read_whole_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
