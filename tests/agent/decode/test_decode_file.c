#include "tests/agent/decode/payload.h"

#define NAME "Pw", "FileObject FileName"
#define CREATE_2 \
    "PPP444w", "IrpPtr TTID FileObject CreateOptions FileAttributes ShareAccess OpenPath"
#define CREATE_3 \
    "PP4444w", "IrpPtr FileObject TTID CreateOptions FileAttributes ShareAccess OpenPath"
#define SIMPLE_2 "PPPP", "IrpPtr TTID FileObject FileKey"
#define SIMPLE_3 "PPP4", "IrpPtr FileObject FileKey TTID"
#define MOVE_2   "8PPPP44", "Offset IrpPtr TTID FileObject FileKey IoSize IoFlags"
#define MOVE_3   "8PPP444", "Offset IrpPtr FileObject FileKey TTID IoSize IoFlags"
#define INFO_2   "PPPPP4", "IrpPtr TTID FileObject FileKey ExtraInfo InfoClass"
#define INFO_3   "PPPP44", "IrpPtr FileObject FileKey ExtraInfo TTID InfoClass"
#define DIR_2    "PPPP444w", "IrpPtr TTID FileObject FileKey Length InfoClass FileIndex FileName"
#define DIR_3    "PPP4444w", "IrpPtr FileObject FileKey TTID Length InfoClass FileIndex FileName"
#define END      "PP4", "IrpPtr ExtraInfo NtStatus"
#define PATH     "PPPP44w", "IrpPtr FileObject FileKey ExtraInfo TTID InfoClass FileName"

static const struct payload_row rows[] = {
    {0, 0, NAME, "Name", EV_KIND_COUNT},         {0, 2, NAME, "Name", EV_KIND_COUNT},
    {32, 1, NAME, "FileCreate", EV_KIND_COUNT},  {35, 2, NAME, "FileDelete", EV_KIND_COUNT},
    {36, 2, NAME, "FileRundown", EV_KIND_COUNT}, {64, 2, CREATE_2, "Create", EV_FILE_OP},
    {64, 3, CREATE_3, "Create", EV_FILE_OP},     {65, 2, SIMPLE_2, "Cleanup", EV_FILE_OP},
    {65, 3, SIMPLE_3, "Cleanup", EV_FILE_OP},    {66, 2, SIMPLE_2, "Close", EV_FILE_OP},
    {66, 3, SIMPLE_3, "Close", EV_FILE_OP},      {67, 2, MOVE_2, "Read", EV_FILE_OP},
    {67, 3, MOVE_3, "Read", EV_FILE_OP},         {68, 2, MOVE_2, "Write", EV_FILE_OP},
    {68, 3, MOVE_3, "Write", EV_FILE_OP},        {69, 2, INFO_2, "SetInfo", EV_FILE_OP},
    {69, 3, INFO_3, "SetInfo", EV_FILE_OP},      {70, 2, INFO_2, "Delete", EV_FILE_OP},
    {70, 3, INFO_3, "Delete", EV_FILE_OP},       {71, 2, INFO_2, "Rename", EV_FILE_OP},
    {71, 3, INFO_3, "Rename", EV_FILE_OP},       {72, 2, DIR_2, "DirEnum", EV_FILE_OP},
    {72, 3, DIR_3, "DirEnum", EV_FILE_OP},       {73, 2, SIMPLE_2, "Flush", EV_FILE_OP},
    {73, 3, SIMPLE_3, "Flush", EV_FILE_OP},      {74, 2, INFO_2, "QueryInfo", EV_FILE_OP},
    {74, 3, INFO_3, "QueryInfo", EV_FILE_OP},    {75, 2, INFO_2, "FSControl", EV_FILE_OP},
    {75, 3, INFO_3, "FSControl", EV_FILE_OP},    {76, 2, END, "OperationEnd", EV_FILE_OP},
    {76, 3, END, "OperationEnd", EV_FILE_OP},    {77, 2, DIR_2, "DirNotify", EV_FILE_OP},
    {77, 3, DIR_3, "DirNotify", EV_FILE_OP},     {79, 3, PATH, "DeletePath", EV_KIND_COUNT},
    {80, 3, PATH, "RenamePath", EV_KIND_COUNT},  {81, 3, PATH, "SetLinkPath", EV_KIND_COUNT},
};

static bool has(const struct payload *p, const char *name)
{
    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void check(const struct event *ev, const struct payload *p)
{
    const struct ev_file *file = &ev->u.file;
    const char *text = p->texts[p->n - 1]; /* texts stand at the end */

    assert_true(file->irp == payload_number(p, "IrpPtr"));
    assert_int_equal(file->tid, has(p, "TTID") ? (uint32_t)payload_number(p, "TTID") : EVENT_NO_ID);
    assert_true(file->object == (has(p, "FileObject") ? payload_number(p, "FileObject") : 0));
    assert_true(file->offset == (has(p, "Offset") ? payload_number(p, "Offset") : 0));
    assert_int_equal(file->bytes, has(p, "IoSize") ? payload_number(p, "IoSize") : 0);
    assert_int_equal(file->path.n, strlen(text));
    assert_memory_equal(file->path.p, text, file->path.n);
}

static void every_record_is_read_whole_or_refused(void **state)
{
    payload_check(&decode_file_io_class, rows, COUNT_OF(rows), check);
}

static void opcodes_are_told_by_what_they_do(void **state)
{
    static const uint8_t op_of[][2] = {
        {64, FILE_CREATE},   {65, FILE_CLEANUP},    {66, FILE_CLOSE},   {67, FILE_READ},
        {68, FILE_WRITE},    {69, FILE_SET_INFO},   {70, FILE_DELETE},  {71, FILE_RENAME},
        {72, FILE_DIR_ENUM}, {73, FILE_FLUSH},      {75, FILE_CONTROL}, {74, FILE_QUERY_INFO},
        {76, FILE_OP_END},   {77, FILE_DIR_NOTIFY},
    };
    static const uint8_t payload[80];
    struct decode *d;

    assert_ok(decode_create(&d));
    for (size_t i = 0; i < COUNT_OF(op_of); i++) {
        for (uint8_t version = 2; version <= 3; version++) {
            struct raw_event raw = {.form = RAW_CLASSIC,
                                    .version = version,
                                    .opcode = op_of[i][0],
                                    .pointer_size = 8,
                                    .payload = payload,
                                    .payload_n = sizeof payload};
            struct event ev;

            memcpy(raw.guid, decode_file_io_class.guid, sizeof raw.guid);
            assert_ok(decode_event(d, &raw, &ev));
            assert_int_equal(ev.u.file.op, op_of[i][1]);
        }
    }
    decode_destroy(d);
}

static void on_value(void *ctx, const struct value *v)
{
    if (v->name.n == 10 && memcmp(v->name.p, "ExtraFlags", 10) == 0) {
        *(uint64_t *)ctx = v->v.u;
    }
}

static void newer_reads_have_flags_behind_them(void **state)
{
    static const uint8_t payload[48] = {[44] = 7};
    const struct raw_event raw = {
        .version = 3, .pointer_size = 8, .payload = payload, .payload_n = sizeof payload};
    const struct layout *l =
        layout_find(decode_file_io_class.layouts, decode_file_io_class.n_layouts, 67, 3);
    uint64_t flags = 0;
    const struct value_sink sink = {&flags, on_value, payload_on_begin, payload_on_end};
    struct decode_text text;
    size_t left;

    assert_ok(layout_read(l, &raw, &sink, &text, &left));
    assert_int_equal(flags, 7);
    assert_int_equal(left, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_read_whole_or_refused),
        cmocka_unit_test(opcodes_are_told_by_what_they_do),
        cmocka_unit_test(newer_reads_have_flags_behind_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
