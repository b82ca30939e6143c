#include "agent/decode/schema/describe_wpp.h"

#include <stdio.h>
#include <string.h>

#include "agent/decode/describe.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/agent/decode/schema/values.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define SECTION "00000001-0002-0003-0405-060708090a0b driver // SRC=queue.c MJ= MN=\n"

static const uint8_t guid[16] = {1, 0, 0, 0, 2, 0, 3, 0, 4, 5, 6, 7, 8, 9, 10, 11};

static struct values values;

static int set_up(void **state)
{
    values_init(&values);
    return 0;
}

static int tear_down(void **state)
{
    values_fini(&values);
    return 0;
}

static struct raw_event message(uint16_t number, const uint8_t *payload, size_t n)
{
    struct raw_event raw = {.form = RAW_MESSAGE,
                            .id = number,
                            .pointer_size = 8,
                            .pid = 0x10,
                            .tid = 0x2c,
                            .cpu = 3,
                            .payload = payload,
                            .payload_n = n};

    memcpy(raw.guid, guid, sizeof guid);
    return raw;
}

/* Values and text of message 10 of a file with one message. */
static enum err read_one(const char *text, const char *items, struct raw_event raw, size_t *left)
{
    const struct value_sink sink = values_sink(&values);
    static struct wpp wpp;
    char file[4096];
    struct tmf *tmf;
    enum err e;
    int n;

    n = snprintf(file, sizeof file,
                 SECTION "#typev queue_c7 10 \"%s\" //   LEVEL=ERROR FLAGS=IO FUNC=Read\n{\n%s}\n",
                 text, items);
    assert_in_range(n, 1, (int)sizeof file - 1);
    assert_ok(tmf_create(&tmf));
    assert_ok(tmf_read(tmf, file, (size_t)n));
    assert_non_null(tmf_find(tmf, guid, 10));
    describe_wpp_init(&wpp);
    e = describe_wpp_read(&wpp, tmf_find(tmf, guid, 10), &raw, &sink, left);
    describe_wpp_fini(&wpp);
    tmf_destroy(tmf);
    assert_int_equal(values.depth, 0);
    return e;
}

static const struct row {
    const char *text, *items;
    const uint8_t *payload;
    size_t n;
    const char *expected;
} rows[] = {
    {"%0plain 100%%", "", BYTES(""), "Message='plain 100%'"},
    {"%!FUNC! %!LEVEL! %!FLAGS! %!What!.", "", BYTES(""), "Message='Read ERROR IO .'"},
    {"%1 %2 %3 %8 %9", "", BYTES(""), "Message='driver queue_c7 002C 0010 3'"},
    {"%10!d! %11!u! %12!x!", "a, ItemLong -- 10\nb->c, ItemULong -- 11\nf(x, y), ItemLong -- 12\n",
     BYTES("\xfe\xff\xff\xff\xff\xff\xff\xff\x10\0\0\0"),
     "a=-2 b->c=4294967295 f(x, y)=16 Message='-2 4294967295 10'"},
    {"%12!d! %10!d!", "a, ItemUChar -- 10\nb, ItemChar -- 11\nc, ItemShort -- 12\n",
     BYTES("\xff\x80\xff\xff"), "a=255 b=-128 c=-1 Message='-1 -1'"},
    {"%10!hu! %11!I64d! %12!I64x! %13!#x!",
     "a, ItemUShort -- 10\nb, ItemLongLong -- 11\nc, ItemULongLong -- 12\nd, ItemLongLongX -- 13\n",
     BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\x80\x01\0\0\0\0\0\0\0"),
     "a=65535 b=-1 c=9223372036854841343 d=0x1 Message='65535 -1 800000000000ffff 0x1'"},
    {"[%10!8d!] [%10!-8d!] [%10!08d!] [%10!+d!] [%10!.4d!] [%10!08X!]", "a, ItemLong -- 10\n",
     BYTES("\x2a\0\0\0"),
     "a=42 Message='[      42] [42      ] [00000042] [+42] [0042] [0000002A]'"},
    {"%10!c!%11!o!", "a, ItemUChar -- 10\nb, ItemULong -- 11\n", BYTES("A\x08\0\0\0"),
     "a=65 b=8 Message='A10'"},
    {"%10!p!", "ctx, ItemPtr -- 10\n", BYTES("\xef\xbe\xad\xde\0\0\xff\xff"),
     "ctx=0xffff0000deadbeef Message='FFFF0000DEADBEEF'"},
    {"<%10!s!> <%11!S!> <%10!6s!> <%10!-6s!> <%10!.1s!>",
     "a, ItemString -- 10\nw, ItemWString -- 11\n", BYTES("abc\0x\0y\0\0\0"),
     "a='abc' w='xy' Message='<abc> <xy> <   abc> <abc   > <a>'"},
    {"%10!s! %11!s!", "a, ItemPString -- 10\nw, ItemPWString -- 11\n",
     BYTES("\x02\0hi\x04\0h\0o\0"), "a='hi' w='ho' Message='hi ho'"},
    {"%10!s!", "d, ItemHEXDump -- 10\n", BYTES("\x03\0\x01\x02\xff"),
     "d=#0102ff Message='01 02 FF'"},
    {"%10!s!", "s, ItemSid -- 10\n", BYTES("\x01\x01\0\0\0\0\0\x05\x12\0\0\0"),
     "s=S-1-5-18 Message='S-1-5-18'"},
    {"%10!s!", "g, ItemGuid -- 10\n",
     BYTES("\x33\x22\x11\x00\x55\x44\x77\x66\x88\x99\xaa\xbb\xcc\xdd\xee\xff"),
     "g=guid:33221100554477668899aabbccddeeff Message='00112233-4455-6677-8899-aabbccddeeff'"},
    {"%10!s!:%11!d! %12!s! %13!s!",
     "a, ItemIPAddr -- 10\np, ItemPort -- 11\nm, ItemMACAddr -- 12\ns, ItemIPV6Addr -- 13\n",
     BYTES("\x0a\0\0\x01\x01\xbb\x02\0\0\0\0\x01\x20\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\x01"),
     "a=ip:0a000001 p=443 m=#020000000001 s=ip:20010000000000000000000000000001 "
     "Message='10.0.0.1:443 02-00-00-00-00-01 2001:0:0:0:0:0:0:1'"},
    {"%10!s! %11!s! %12!s! %12!d!",
     "n, ItemNTSTATUS -- 10\nh, ItemHRESULT -- 11\nw, ItemWINERROR -- 12\n",
     BYTES("\x22\0\0\xc0\x05\0\x07\x80\x05\0\0\0"),
     "n=0xc0000022 h=0x80070005 w=5 Message='0xc0000022 0x80070005 5 5'"},
    {"%10!s! %11!s! %12!s! %12!d! %13!s!",
     "a, ItemListByte(no,yes) -- 10\nb, ItemListLong(x=5,y,z=0x10) -- 11\n"
     "c, ItemListShort(a) -- 12\nd, ItemEnum(State) -- 13\n",
     BYTES("\x01\x06\0\0\0\x07\0\x03\0\0\0"), "a='yes' b='y' c=7 d=3 Message='yes y 7 7 3'"},
    {"%10!s! %11!s!", "a, ItemSetByte(r,w,x) -- 10\nb, ItemSetLong(p) -- 11\n",
     BYTES("\x05\x03\0\0\0"), "a='r|x' b='p|1' Message='r|x p|1'"},
    {"%10!.2f! %10!s! %11!s!", "a, ItemDouble -- 10\nb, ItemFloat -- 11\n",
     BYTES("\0\0\0\0\0\0\xf8\x3f\0\0\0\x3f"), "a=1.5 b=0.5 Message='1.50 1.5 0.5'"},
    {"%10!s! %11!d!", "t, ItemTimestamp -- 10\nd, ItemTimeDelta -- 11\n",
     BYTES("\0\x80\x3e\xd5\xde\xb1\x9d\x01\x0a\0\0\0\0\0\0\0"),
     "t=1970-01-01T00:00:00.000Z d=10 Message='1970-01-01T00:00:00.000000Z 10'"},
    {"%10!s!", "c, ItemChar4 -- 10\n", BYTES("Tag1"), "c='Tag1' Message='Tag1'"},
    {"%10 and %11!s!", "a, ItemLong -- 10\n", BYTES("\x01\0\0\0"), "a=1 Message='1 and <missing>'"},
    {"50% of %", "", BYTES(""), "Message='50% of '"},
    {"a \\\"quoted\\\" word", "", BYTES(""), "Message='a \\\"quoted\\\" word'"},
};

static void arguments_and_text_come_by_the_message_file(void **state)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t left;

        assert_ok(
            read_one(rows[i].text, rows[i].items, message(10, rows[i].payload, rows[i].n), &left));
        assert_string_equal(buf_cstr(&values.text), rows[i].expected);
        assert_int_equal(left, 0);
    }
}

static void every_shorter_payload_is_damaged(void **state)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t n = 0; n < rows[i].n; n++) {
            uint8_t *exact = mem_dup(rows[i].payload, n);
            size_t left;

            assert_err(read_one(rows[i].text, rows[i].items, message(10, exact, n), &left),
                       ERR_CORRUPT);
            mem_free(exact);
        }
    }
}

static void an_unknown_kind_ends_the_arguments(void **state)
{
    size_t left;

    assert_ok(read_one("%10!d! %11!s!", "a, ItemUChar -- 10\nb, ItemWhat -- 11\n",
                       message(10, BYTES("\x05xyz")), &left));
    assert_string_equal(buf_cstr(&values.text), "a=5 Message='5 <missing>' Rest=#78797a");
    assert_int_equal(left, 3);
}

static void without_a_file_there_is_the_payload(void **state)
{
    struct raw_event raw = message(10, BYTES("\x01\x02"));
    const struct value_sink sink = values_sink(&values);
    struct describe *d;
    struct described out;

    raw.has_sequence = raw.has_component = true;
    raw.sequence = 7;
    raw.component = 12;
    assert_ok(describe_create(&d, &(struct describe_conf){0}, NULL));
    assert_ok(describe_values(d, &raw, &sink, &out));
    assert_string_equal(buf_cstr(&values.text), "Sequence=7 Component=12 Payload=#0102");
    assert_int_equal(out.by, DESCRIBE_WPP);
    assert_int_equal(out.left, 2);
    describe_destroy(d);
}

static void pointers_are_as_wide_as_the_record_says(void **state)
{
    struct raw_event raw = message(10, BYTES("\x01\0\0\x80"));
    size_t left;

    raw.pointer_size = 4;
    assert_ok(read_one("%10!p!", "p, ItemPtr -- 10\n", raw, &left));
    assert_string_equal(buf_cstr(&values.text), "p=0x80000001 Message='80000001'");
}

static void files_are_read_for_what_they_hold(void **state)
{
    static const struct {
        const char *file;
        uint64_t messages, damaged;
    } files[] = {
        {"", 0, 0},
        {"// PDB: driver.pdb\r\n" SECTION "#typev a 10 \"x\" // FUNC=f\r\n{\r\n}\r\n", 1, 0},
        {SECTION "#typev a 10 \"x\"\n#typev b 11 \"y\"\n", 2, 0},
        {SECTION "#typev a 10 \"x\"\n#typev b 10 \"y\"\n", 1, 0},    /* the first stays */
        {SECTION "#typev a 10 \"x\"\n{\na, ItemLong -- 10\n", 0, 0}, /* has no end */
        {"#typev a 10 \"x\"\n", 0, 1},
        {"nonsense\n#typev a 10 \"x\"\n", 0, 2},
        {SECTION "#typev\n#typev a\n#typev a 10\n#typev a 10 x\n#typev a 10 \"x\n", 0, 5},
        {SECTION "#typev a 99999 \"x\"\n#typev a 1x \"x\"\n", 0, 2},
        {SECTION "#typev a 10 \"x\"\n{\na, ItemLong\n}\n#typev b 11 \"y\"\n", 1, 1},
        {SECTION "#typev a 10 \"x\"\n{\na ItemLong -- 10\n}\n#enumv what\n", 0, 2},
        {"00000001-0002-0003-0405-06070809zzzz c\n", 0, 1},
        {"00000001-0002-0003-0405-060708090x0b c\n", 0, 1},
    };

    for (size_t i = 0; i < COUNT_OF(files); i++) {
        uint64_t messages, damaged;
        struct tmf *t;

        assert_ok(tmf_create(&t));
        assert_ok(tmf_read(t, files[i].file, strlen(files[i].file)));
        tmf_counts(t, &messages, &damaged);
        assert_int_equal(messages, files[i].messages);
        assert_int_equal(damaged, files[i].damaged);
        tmf_destroy(t);
    }
}

static void every_shorter_file_is_survived(void **state)
{
    static const char file[] =
        SECTION "#typev queue_c7 10 \"%0%10!d! %11!s!\" //   LEVEL=ERROR FLAGS=IO FUNC=Read\n{\n"
                "f(a, b), ItemLong -- 10\nname, ItemListLong(a,b=5) -- 11\n}\n";

    for (size_t n = 0; n < sizeof file - 1; n++) {
        char *exact = mem_dup(file, n);
        struct tmf *t;

        assert_ok(tmf_create(&t));
        assert_ok(tmf_read(t, exact, n));
        tmf_destroy(t);
        mem_free(exact);
    }
}

static void too_many_arguments_and_too_long_lines_are_damage(void **state)
{
    uint64_t messages, damaged;
    struct buf file;
    struct tmf *t;

    buf_init(&file, (size_t)1 << 20);
    buf_put_str(&file, SECTION "#typev a 10 \"x\"\n{\n");
    for (unsigned i = 0; i <= TMF_ITEMS_MAX; i++) {
        buf_printf(&file, "a%u, ItemLong -- %u\n", i, 10 + i);
    }
    buf_put_str(&file, "}\n#typev b 11 \"");
    (void)memset(buf_grow(&file, 70000), '%', 70000);
    buf_put_str(&file, "\"\n");
    assert_ok(file.bad);
    assert_ok(tmf_create(&t));
    assert_ok(tmf_read(t, (const char *)file.p, file.n));
    tmf_counts(t, &messages, &damaged);
    assert_int_equal(messages, 0);
    assert_int_equal(damaged, 2);
    tmf_destroy(t);
    buf_fini(&file);
}

static void wide_formats_are_cut(void **state)
{
    size_t left;

    assert_ok(read_one("%10!999999999d!", "a, ItemLong -- 10\n", message(10, BYTES("\x01\0\0\0")),
                       &left));
    assert_in_range(values.text.n, 1000, 2000);
}

static void a_directory_is_read_with_every_allocation_failing_in_turn(void **state)
{
    static const char file[] = SECTION "#typev queue_c7 10 \"%10!d!\"\n{\na, ItemLong -- 10\n}\n";
    struct raw_event raw = message(10, BYTES("\x05\0\0\0"));
    const struct value_sink sink = values_sink(&values);
    char dir[256], path[300];
    struct describe *d = NULL;
    struct describe_stats stats;
    struct described out;
    long held = mem_live();
    enum err e = ERR_NOMEM;

    (void)support_temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/driver.tmf", dir);
    assert_ok(os_write_file(path, file, sizeof file - 1, false));
    (void)snprintf(path, sizeof path, "%s/other.txt", dir);
    assert_ok(os_write_file(path, "#typev", 6, false));
    for (long n = 0; e; n++) {
        mem_fail_after(n);
        e = describe_create(&d, &(struct describe_conf){.tmf_dir = dir}, NULL);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        assert_true(e == ERR_OK || mem_live() == held);
    }
    assert_ok(describe_values(d, &raw, &sink, &out));
    assert_string_equal(buf_cstr(&values.text), "a=5 Message='5'");
    assert_true(str_eq(out.provider, str_make("driver")));
    assert_true(str_eq(out.task, str_make("queue.c")));
    assert_true(str_eq(out.name, str_make("queue_c7")));
    describe_stats(d, &stats);
    assert_int_equal(stats.messages, 1);
    assert_int_equal(stats.messages_damaged, 0);
    describe_destroy(d);
    support_remove_dir(dir);
}

static void a_missing_directory_is_told(void **state)
{
    struct describe_conf conf = {.tmf_dir = "/nonexistent/tmf"};
    struct describe *d;
    struct errmsg why = {""};

    assert_err(describe_create(&d, &conf, &why), ERR_NOTFOUND);
    assert_non_null(strstr(why.text, "/nonexistent/tmf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_and_text_come_by_the_message_file),
        cmocka_unit_test(every_shorter_payload_is_damaged),
        cmocka_unit_test(an_unknown_kind_ends_the_arguments),
        cmocka_unit_test(without_a_file_there_is_the_payload),
        cmocka_unit_test(pointers_are_as_wide_as_the_record_says),
        cmocka_unit_test(files_are_read_for_what_they_hold),
        cmocka_unit_test(every_shorter_file_is_survived),
        cmocka_unit_test(too_many_arguments_and_too_long_lines_are_damage),
        cmocka_unit_test(wide_formats_are_cut),
        cmocka_unit_test(a_directory_is_read_with_every_allocation_failing_in_turn),
        cmocka_unit_test(a_missing_directory_is_told),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
