#include "common/text/table.h"

#include <string.h>

#include <jansson.h>

#include "common/base/mem.h"
#include "common/text/humanize.h"
#include "tests/support/hostile.h"
#include "tests/support/t.h"

static const struct table_column columns[] = {
    {"host", "HOST", TABLE_TEXT},
    {"pid", "PID", TABLE_ID},
    {"cpu_time", "CPU", TABLE_NS},
    {"hidden", NULL, TABLE_COUNT},
    {"ended", "ENDED", TABLE_FLAG},
    {"exit_code", "EXIT", TABLE_EXIT},
    {NULL, "WHAT", TABLE_TEXT}, /* for people only */
    {"command_line", "COMMAND", TABLE_TEXT},
};

#define N COUNT_OF(columns)

/* Two rows, the second with as much absent as can be, and a note. */
static void print(FILE *to, enum table_format format, bool live)
{
    const struct table_cell full[N] = {
        table_string(str_make("lab-7")),
        table_number(true, 4711),
        table_number(true, 5106000000),
        table_number(true, 3),
        table_number(true, 1),
        table_number(true, 0xC000013A),
        table_string(str_make("only here")),
        table_string(str_make("a \"b\", c\x1b")),
    };
    const struct table_cell bare[N] = {table_string(str_make("x")), table_number(true, 0)};
    struct table *s;

    assert_ok(table_begin(&s, to, format, live, columns, N));
    assert_ok(table_row(s, full));
    assert_ok(table_row(s, bare));
    if (format == TABLE_AS_TABLE) {
        table_note(s, str_make("polled"));
        table_note(s, str_make("polled"));
    }
    table_end(s);
}

static void expect(enum table_format format, bool live, const char *expected)
{
    char text[2048];
    FILE *f = tmpfile();
    size_t n;

    assert_non_null(f);
    print(f, format, live);
    rewind(f);
    n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    fclose(f);
    assert_string_equal(text, expected);
}

static void tables_are_aligned_and_end_with_their_notes(void **state)
{
    expect(TABLE_AS_TABLE, false,
           "HOST    PID     CPU  ENDED        EXIT  WHAT       COMMAND\n"
           "lab-7  4711  5.106s    yes  0xc000013a  only here  a \"b\", c\\x1b\n"
           "x         0       -      -           -  -          -\n"
           "polled\n");
}

static void json_is_an_array_that_omits_the_absent(void **state)
{
    expect(
        TABLE_AS_JSON, false,
        "[\n  "
        "{\"host\":\"lab-7\",\"pid\":4711,\"cpu_time\":\"5106000000\",\"hidden\":3,\"ended\":true,"
        "\"exit_code\":3221225786,\"command_line\":\"a \\\"b\\\", c\\u001B\"},\n"
        "  {\"host\":\"x\",\"pid\":0}\n]\n");
    expect(
        TABLE_AS_JSON, true,
        "{\"host\":\"lab-7\",\"pid\":4711,\"cpu_time\":\"5106000000\",\"hidden\":3,\"ended\":true,"
        "\"exit_code\":3221225786,\"command_line\":\"a \\\"b\\\", c\\u001B\"}\n"
        "{\"host\":\"x\",\"pid\":0}\n");
    expect(
        TABLE_AS_JSONL, false,
        "{\"host\":\"lab-7\",\"pid\":4711,\"cpu_time\":\"5106000000\",\"hidden\":3,\"ended\":true,"
        "\"exit_code\":3221225786,\"command_line\":\"a \\\"b\\\", c\\u001B\"}\n"
        "{\"host\":\"x\",\"pid\":0}\n");
}

static void json_and_csv_are_utf_8_whatever_the_text(void **state)
{
    static const struct {
        enum table_format format;
        const char *text;
    } table[] = {{TABLE_AS_JSONL, "{\"host\":\"z\\\\xff\\\"\"}\n"},
                 {TABLE_AS_CSV, "host,pid,cpu_time,hidden,ended,exit_code,command_line\r\n"
                                "\"z\xEF\xBF\xBD\"\"\",,,,,,\r\n"}};
    const struct table_cell cells[N] = {table_string(str_make("z\xFF\""))};

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        char text[256] = "";
        FILE *f = tmpfile();
        struct table *s;

        assert_ok(table_begin(&s, f, table[i].format, false, columns, N));
        assert_ok(table_row(s, cells));
        table_end(s);
        rewind(f);
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
        fclose(f);
        assert_string_equal(text, table[i].text);
    }
}

/* One cell of every unit, as JSON and as CSV. */
static void numbers_that_a_double_cannot_hold_are_strings_and_shares_are_percents(void **state)
{
    static const struct {
        enum table_unit unit;
        int64_t value;
        const char *json, *csv;
    } table[] = {
        {TABLE_ID, 4711, "4711", "4711"},
        {TABLE_WIDE, 7, "\"7\"", "7"},
        {TABLE_TIME, 1795357258731000000, "\"1795357258731000000\"", "1795357258731000000"},
        {TABLE_NS, 5, "\"5\"", "5"},
        {TABLE_NS, -5, "\"-5\"", "-5"},
        {TABLE_HEX, -1, "\"18446744073709551615\"", "18446744073709551615"},
        {TABLE_COUNT, 1LL << 53, "9007199254740992", "9007199254740992"},
        {TABLE_COUNT, (1LL << 53) + 1, "\"9007199254740993\"", "9007199254740993"},
        {TABLE_BYTES, INT64_MIN, "\"-9223372036854775808\"", "-9223372036854775808"},
        {TABLE_PERMILLE, 123, "12.3", "12.3"},
        {TABLE_PERMILLE, -7, "-0.7", "-0.7"},
        {TABLE_PERMILLE, 1000, "100.0", "100.0"},
        {TABLE_EXIT, 0xC000013A, "3221225786", "3221225786"},
        {TABLE_FLAG, 1, "true", "true"},
    };

    for (size_t i = 0; i < COUNT_OF(table) * 2; i++) {
        bool json = i % 2 == 0;
        const struct table_column column = {"v", NULL, table[i / 2].unit};
        const struct table_cell cell = table_number(true, table[i / 2].value);
        char text[64] = "", expected[64];
        FILE *f = tmpfile();
        struct table *s;

        assert_ok(table_begin(&s, f, json ? TABLE_AS_JSONL : TABLE_AS_CSV, false, &column, 1));
        assert_ok(table_row(s, &cell));
        table_end(s);
        rewind(f);
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
        fclose(f);
        snprintf(expected, sizeof expected, json ? "{\"v\":%s}\n" : "v\r\n%s\r\n",
                 json ? table[i / 2].json : table[i / 2].csv);
        assert_string_equal(text, expected);
    }
}

/* What is printed of a row of the text, `format` as on a terminal or not. */
static size_t print_text(char *out, size_t size, enum table_format format, bool terminal,
                         const char *text)
{
    const struct table_cell cells[N] = {table_string(str_make(text)),
                                        [N - 1] = table_string(str_make(text))};
    FILE *f = tmpfile();
    struct table *s;
    size_t n;

    assert_ok(table_begin(&s, f, format, false, columns, N));
    if (terminal) {
        table_terminal(s, 1000);
    }
    assert_ok(table_row(s, cells));
    if (format == TABLE_AS_TABLE) {
        table_note(s, str_make(text));
    }
    table_end(s);
    rewind(f);
    n = fread(out, 1, size - 1, f);
    fclose(f);
    out[n] = '\0';
    return n;
}

static void no_text_steers_a_terminal(void **state)
{
    static const struct {
        enum table_format format;
        size_t lines;
    } table[] = {{TABLE_AS_TABLE, 3}, {TABLE_AS_JSON, 3}, {TABLE_AS_JSONL, 1}, {TABLE_AS_CSV, 2}};
    char out[4096];

    for (size_t i = 0; i < HOSTILE_TEXTS * COUNT_OF(table); i++) {
        const char *text = hostile_texts[i % HOSTILE_TEXTS];
        size_t n, k = i / HOSTILE_TEXTS;

        n = print_text(out, sizeof out, table[k].format, true, text);
        assert_false(hostile_shown(out, n, table[k].lines));
        if (table[k].format != TABLE_AS_CSV) { /* wherever they go */
            n = print_text(out, sizeof out, table[k].format, false, text);
            assert_false(hostile_shown(out, n, table[k].lines));
        }
    }
}

/* Escapes are for terminals: to a program a name is what it was. */
static void programs_get_every_character(void **state)
{
    char out[4096], expected[1024];

    for (size_t i = 0; i < HOSTILE_TEXTS; i++) {
        const char *text = hostile_texts[i];
        bool quotes = strchr(text, '"') != NULL;
        json_t *row;

        if (utf8_whole(text, strlen(text)) < strlen(text)) {
            continue; /* no UTF-8, which is neither in JSON nor in CSV */
        }
        print_text(out, sizeof out, TABLE_AS_JSONL, true, text);
        row = json_loads(out, 0, NULL);
        assert_string_equal(json_string_value(json_object_get(row, "host")), text);
        json_decref(row);
        print_text(out, sizeof out, TABLE_AS_CSV, false, text);
        snprintf(expected, sizeof expected, "\r\n\"%s\",,,,,,\"%s\"\r\n", text, text);
        assert_true(quotes || strstr(out, expected) != NULL);
    }
}

static void csv_quotes_text_and_leaves_the_absent_empty(void **state)
{
    expect(TABLE_AS_CSV, false,
           "host,pid,cpu_time,hidden,ended,exit_code,command_line\r\n"
           "\"lab-7\",4711,5106000000,3,true,3221225786,\"a \"\"b\"\", c\x1b\"\r\n"
           "\"x\",0,,,,,\r\n");
}

static void an_empty_sheet_is_still_a_document(void **state)
{
    static const struct {
        enum table_format format;
        const char *text;
    } table[] = {{TABLE_AS_JSON, "[]\n"},
                 {TABLE_AS_CSV, "host,pid,cpu_time,hidden,ended,exit_code,command_line\r\n"},
                 {TABLE_AS_JSONL, ""},
                 {TABLE_AS_TABLE, ""}};

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        char text[256] = "";
        FILE *f = tmpfile();
        struct table *s;

        assert_ok(table_begin(&s, f, table[i].format, false, columns, N));
        table_end(s);
        rewind(f);
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
        fclose(f);
        assert_string_equal(text, table[i].text);
    }
}

/* Bytes printed of `rows` rows whose last cell has n bytes. */
static long printed(enum table_format format, size_t rows, size_t n, char fill)
{
    struct table_cell cells[N] = {table_string(str_make("x")), table_number(true, 1)};
    char *text = mem_zalloc(n);
    FILE *f = tmpfile();
    struct table *s;
    long end;

    assert_non_null(text);
    memset(text, fill, n);
    cells[N - 1] = table_string((struct str){text, n});
    assert_ok(table_begin(&s, f, format, false, columns, N));
    for (size_t i = 0; i < rows; i++) {
        assert_ok(table_row(s, cells));
    }
    table_end(s);
    end = ftell(f);
    fclose(f);
    mem_free(text);
    return end;
}

static void cells_of_any_size_are_whole_in_csv_and_json_and_cut_in_tables(void **state)
{
    enum { BIG = 300000 };

    assert_int_equal(printed(TABLE_AS_CSV, 3, BIG, 'a') - printed(TABLE_AS_CSV, 3, 1, 'a'),
                     3 * (BIG - 1));
    assert_int_equal(printed(TABLE_AS_CSV, 1, BIG, '"') - printed(TABLE_AS_CSV, 1, 1, '"'),
                     2 * (BIG - 1));
    assert_int_equal(printed(TABLE_AS_JSONL, 3, BIG, 'a') - printed(TABLE_AS_JSONL, 3, 1, 'a'),
                     3 * (BIG - 1));
    assert_in_range(printed(TABLE_AS_TABLE, 3, BIG, 'a'), 3 * 16384, 3 * 17000);
    assert_in_range(printed(TABLE_AS_TABLE, 3, BIG, 1), 3 * 4 * 16000, 3 * 66000);
    assert_in_range(printed(TABLE_AS_TABLE, 3000, 60000, 'a'), 3000L * 60000, 3000L * 60100);
}

static const struct table_column process_columns[] = {
    {"host", "HOST", TABLE_TEXT},   {"pid", "PID", TABLE_ID},
    {"user", "USER", TABLE_USER},   {"cpu_time", "cpu_time", TABLE_NS},
    {"memory", "MEM", TABLE_BYTES}, {"command_line", "COMMAND", TABLE_TEXT},
};

#define PROCESS_COLUMNS COUNT_OF(process_columns)

enum fit { FIT, FIT_WIDE, FIT_NOT_A_TERMINAL, FIT_LIVE };

/* Two processes on a terminal of so many columns. */
static const char *print_fitted(enum fit how, size_t room)
{
    static const char *const yields[] = {"MEM", "USER", "nowhere", "cpu_time", NULL};
    static char out[2048];
    const struct table_cell rows[][PROCESS_COLUMNS] = {
        {table_string(str_make("lab-7")), table_number(true, 4711),
         table_string(str_make("S-1-5-21-305419896-1-4294967295-1001")),
         table_number(true, 5106000000), table_number(true, 65536),
         table_string(str_make("/usr/bin/thing --with \u65e5\u672c many options"))},
        {table_string(str_make("a-host-of-a-long-name")), table_number(true, 1),
         table_string(str_make("S-1-5-18")), table_number(true, 1000), table_number(true, 1),
         table_string(str_make("init"))},
    };
    FILE *f = tmpfile();
    struct table *s;

    assert_ok(
        table_begin(&s, f, TABLE_AS_TABLE, how == FIT_LIVE, process_columns, PROCESS_COLUMNS));
    if (how != FIT_NOT_A_TERMINAL) {
        table_terminal(s, room);
    }
    table_fit(s, yields, how == FIT_WIDE);
    assert_ok(table_row(s, rows[0]));
    assert_ok(table_row(s, rows[1]));
    table_end(s);
    rewind(f);
    out[fread(out, 1, sizeof out - 1, f)] = '\0';
    fclose(f);
    return out;
}

static void columns_give_way_in_order_and_texts_are_cut(void **state)
{
    static const char whole[] =
        "HOST                    PID  USER                                  cpu_time      MEM  "
        "COMMAND\n"
        "lab-7                  4711  S-1-5-21-305419896-1-4294967295-1001    5.106s  64.0KiB  "
        "/usr/bin/thing --with \u65e5\u672c many options\n"
        "a-host-of-a-long-name     1  SYSTEM                                     1us       1B  "
        "init\n";

    assert_string_equal(print_fitted(FIT_NOT_A_TERMINAL, 0), whole);
    assert_string_equal(print_fitted(FIT_WIDE, 40), whole);
    assert_string_equal(print_fitted(FIT, 118),
                        "HOST                    PID  USER             cpu_time      MEM  COMMAND\n"
                        "lab-7                  4711  S-1-5-21-\u2026-1001    5.106s  64.0KiB  "
                        "/usr/bin/thing --with \u65e5\u672c many options\n"
                        "a-host-of-a-long-name     1  SYSTEM                1us       1B  init\n");
    assert_string_equal(
        print_fitted(FIT, 75),
        "HOST           PID  USER        cpu_time      MEM  COMMAND\n"
        "lab-7         4711  S-1-5-21-\u2026    5.106s  64.0KiB  /usr/bin/thing --with \u2026\n"
        "a-host-of-a\u2026     1  SYSTEM           1us       1B  init\n");
    assert_string_equal(print_fitted(FIT, 60),
                        "HOST                 PID  cpu_time  COMMAND\n"
                        "lab-7               4711    5.106s  /usr/bin/thing --with \u2026\n"
                        "a-host-of-a-long-\u2026     1       1us  init\n"
                        "no room for USER, MEM; --wide shows all\n");
    assert_string_equal(print_fitted(FIT, 40),
                        "HOST         PID  COMMAND\n"
                        "lab-7       4711  /usr/bin/thing --with\u2026\n"
                        "a-host-of\u2026     1  init\n"
                        "no room for USER, cpu_time, MEM; --wide shows all\n");
    assert_string_equal(print_fitted(FIT, 20),
                        "HOST         PID  C\u2026\n"
                        "lab-7       4711  /\u2026\n"
                        "a-host-of\u2026     1  i\u2026\n"
                        "no room for USER, cpu_time, MEM; --wide shows all\n");
}

/* Events of a host: `moments` are in ns; the first column is the time. */
static const char *print_moments(bool live, size_t room, const int64_t *moments, size_t n)
{
    static const struct table_column event_columns[] = {
        {"time", "TIME", TABLE_TIME},     {"host", "HOST", TABLE_TEXT},
        {"kind", "EVENT", TABLE_WORD},    {"exit_code", "EXIT", TABLE_EXIT},
        {"exit_time", "END", TABLE_TIME}, {"text", "DETAIL", TABLE_TEXT},
    };
    static const char *const yields[] = {"EXIT", "END", NULL};
    static char out[2048];
    FILE *f = tmpfile();
    struct table *s;

    assert_ok(table_begin(&s, f, TABLE_AS_TABLE, live, event_columns, COUNT_OF(event_columns)));
    table_terminal(s, room);
    table_fit(s, yields, false);
    for (size_t i = 0; i < n; i++) {
        const struct table_cell cells[] = {
            table_number(true, moments[i]),
            table_string(str_make("lab-7")),
            table_string(str_make("process_start")),
            table_number(false, 0),
            table_number(true, moments[i]),
            table_string(str_make("/usr/bin/thing --with many options")),
        };

        assert_ok(table_row(s, cells));
    }
    table_end(s);
    rewind(f);
    out[fread(out, 1, sizeof out - 1, f)] = '\0';
    fclose(f);
    return out;
}

/* Before a column goes, and a command line is cut to nothing, the date goes where it is one. */
static void moments_of_one_day_say_it_once(void **state)
{
    static const int64_t day[] = {1795453800123000000, 1795453801000000000};
    static const int64_t days[] = {1795453800123000000, 1795453800123000000 + 86400000000000};

    assert_string_equal(
        print_moments(false, 130, day, 2),
        "TIME                      HOST   EVENT          EXIT  END                       DETAIL\n"
        "2026-11-23T17:10:00.123Z  lab-7  process_start     -  2026-11-23T17:10:00.123Z  "
        "/usr/bin/thing --with many options\n"
        "2026-11-23T17:10:01.000Z  lab-7  process_start     -  2026-11-23T17:10:01.000Z  "
        "/usr/bin/thing --with many options\n");
    assert_string_equal(
        print_moments(false, 68, day, 2),
        "2026-11-23     HOST   EVENT          DETAIL\n"
        "17:10:00.123Z  lab-7  process_start  /usr/bin/thing --with many opt\u2026\n"
        "17:10:01.000Z  lab-7  process_start  /usr/bin/thing --with many opt\u2026\n"
        "no room for EXIT, END; --wide shows all\n");
    assert_string_equal(
        print_moments(false, 72, days, 2),
        "TIME                      HOST   EVENT          DETAIL\n"
        "2026-11-23T17:10:00.123Z  lab-7  process_start  /usr/bin/thing --with m\u2026\n"
        "2026-11-24T17:10:00.123Z  lab-7  process_start  /usr/bin/thing --with m\u2026\n"
        "no room for EXIT, END; --wide shows all\n");
    assert_string_equal(
        print_moments(true, 68, days, 2),
        "2026-11-23     HOST        EVENT          DETAIL\n"
        "17:10:00.123Z  lab-7       process_start  /usr/bin/thing --with man\u2026\n"
        "2026-11-24     HOST        EVENT          DETAIL\n"
        "17:10:00.123Z  lab-7       process_start  /usr/bin/thing --with man\u2026\n"
        "no room for EXIT, END; --wide shows all\n");
}

static void no_line_of_a_table_is_wider_than_the_terminal(void **state)
{
    for (size_t room = 1; room < 130; room++) {
        for (enum fit how = FIT; how <= FIT_LIVE; how += FIT_LIVE) {
            const char *line = print_fitted(how, room);
            size_t lines = 0;

            for (; strncmp(line, "no room", 7) != 0 && *line; line = strchr(line, '\n') + 1) {
                assert_true(humanize_width(line, strcspn(line, "\n")) <= room);
                lines++;
            }
            assert_int_equal(lines, 3);
        }
    }
}

/* Three rows in the order asked for, with an answer that has more of them. */
static const char *print_answer(enum table_format format, bool envelope, const char *order)
{
    static const struct table_column short_columns[] = {{"host", "HOST", TABLE_TEXT},
                                                        {"cpu_time", "CPU", TABLE_NS},
                                                        {"share", "SHARE", TABLE_REAL}};
    static const struct table_answer answer = {.since_ns = 1,
                                               .until_ns = INT64_MAX,
                                               .partial = true,
                                               .has_coverage = true,
                                               .at_most = true,
                                               .ppm = 999900,
                                               .lost_ticks = 3,
                                               .total = 7,
                                               .n_used = 2,
                                               .used = {4, 5}};
    static char text[1024];
    struct errmsg why;
    FILE *f = tmpfile();
    struct table *s;

    assert_ok(table_begin(&s, f, format, false, short_columns, 3));
    if (envelope) {
        table_envelope(s);
    }
    assert_ok(table_sort(s, order, &why));
    for (size_t i = 0; i < 3; i++) {
        char host[2] = {(char)('c' - i), 0}, share[8] = "10.5";
        const struct table_cell cells[] = {table_string(str_make(host)),
                                           table_number(i != 1, i == 2 ? -5 : 7),
                                           i ? table_string(str_make(share)) : table_count(9)};

        assert_ok(table_row(s, cells));
        memset(host, 'x', 1); /* rows that wait are copies */
        memset(share, '0', 2);
    }
    table_note(s, str_make("a \"note\""));
    table_answer(s, &answer);
    table_end(s);
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

static void rows_are_sorted_with_the_absent_last(void **state)
{
    static const struct {
        const char *order, *rows;
    } table[] = {{"host", "abc"},          {"HOST", "abc"},      {"-host", "cba"},
                 {"cpu_time,host", "acb"}, {"-CPU,host", "cab"}, {"share,-host", "cba"},
                 {"-share,host", "abc"},   {"", "cba"}};
    struct errmsg why = {""};
    struct table *s;
    FILE *f = tmpfile();

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        const char *at = print_answer(TABLE_AS_CSV, false, table[i].order);

        for (size_t k = 0; k < 3; k++) {
            at = strchr(at, '\n') + 1;
            assert_int_equal(at[1], table[i].rows[k]);
        }
    }
    assert_ok(table_begin(&s, f, TABLE_AS_CSV, false, columns, N));
    assert_err(table_sort(s, "host,-nothing", &why), ERR_USAGE);
    assert_non_null(strstr(why.text, "'nothing'; there are host, pid,"));
    table_drop(s);
    assert_int_equal(ftell(f), 0);
    assert_ok(table_begin(&s, f, TABLE_AS_CSV, false, columns, N));
    assert_err(table_sort(s, "pid,pid,pid,pid,pid,pid,pid,pid,pid", &why), ERR_USAGE);
    table_drop(s);
    fclose(f);
}

static void an_envelope_has_what_the_rows_answer(void **state)
{
    static const char answer[] =
        "\"since\":\"1\",\"until\":\"9223372036854775807\",\"partial\":true,\"coverage\":{\"ppm\":"
        "999900,\"at_most\":true,\"lost_ticks\":3,\"lost_events\":0},\"notes\":[\"a "
        "\\\"note\\\"\"],\"shown\":3,\"total\":7,\"used\":[4,5]}\n";
    json_error_t error;
    const char *text = print_answer(TABLE_AS_JSON, true, "host"), *line;
    json_t *root = json_loads(text, 0, &error);

    assert_non_null(root);
    assert_int_equal(json_array_size(json_object_get(root, "rows")), 3);
    json_decref(root);
    assert_string_equal(strstr(text, "],\"since") + 2, answer);
    text = print_answer(TABLE_AS_JSON, false, "host");
    assert_int_equal(text[0], '[');
    assert_null(strstr(text, "since"));
    line = text = print_answer(TABLE_AS_JSONL, false, "host");
    for (size_t i = 0; i < 3; i++) {
        line = strchr(line, '\n') + 1;
    }
    assert_int_equal(line[0], '{');
    assert_string_equal(line + 1, answer);
}

static void every_failing_allocation_is_survived(void **state)
{
    FILE *f = tmpfile();
    long live = mem_live();

    for (long n = 0; n < 2; n++) {
        struct table *s;

        mem_fail_after(n);
        assert_err(table_begin(&s, f, TABLE_AS_TABLE, false, columns, N), ERR_NOMEM);
        mem_fail_after(-1);
        assert_int_equal(mem_live(), live);
    }
    fclose(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_aligned_and_end_with_their_notes),
        cmocka_unit_test(json_is_an_array_that_omits_the_absent),
        cmocka_unit_test(json_and_csv_are_utf_8_whatever_the_text),
        cmocka_unit_test(numbers_that_a_double_cannot_hold_are_strings_and_shares_are_percents),
        cmocka_unit_test(no_text_steers_a_terminal),
        cmocka_unit_test(programs_get_every_character),
        cmocka_unit_test(csv_quotes_text_and_leaves_the_absent_empty),
        cmocka_unit_test(an_empty_sheet_is_still_a_document),
        cmocka_unit_test(cells_of_any_size_are_whole_in_csv_and_json_and_cut_in_tables),
        cmocka_unit_test(columns_give_way_in_order_and_texts_are_cut),
        cmocka_unit_test(moments_of_one_day_say_it_once),
        cmocka_unit_test(no_line_of_a_table_is_wider_than_the_terminal),
        cmocka_unit_test(rows_are_sorted_with_the_absent_last),
        cmocka_unit_test(an_envelope_has_what_the_rows_answer),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
