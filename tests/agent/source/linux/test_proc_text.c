#include "agent/source/linux/proc_text.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/support/t.h"

/* A copy of exactly n bytes, so that the address sanitizer sees a read beyond. */
static char *exact(const char *p, size_t n)
{
    char *copy = mem_alloc(n);

    assert_non_null(copy);
    if (n) {
        memcpy(copy, p, n);
    }
    return copy;
}

static const char stat_text[] =
    "6696 (cat) R 6685 6685 3618 0 -1 4194304 99 1 2 3 40 50 60 70 20 0 4 0 287648 3133440 359 "
    "18446744073709551615 94703769436160 94703769456041 140727468598336 0 0 0 0 0 0 0 0 0 17 0 0 "
    "0 0 0 0 94703769472048 94703769473664 94704195989504 140727468604009 140727468604061\n";

static void stat_fields_are_where_the_kernel_puts_them(void **state)
{
    struct proc_stat st;

    assert_ok(proc_text_stat(&st, stat_text, sizeof stat_text - 1));
    assert_int_equal(st.pid, 6696);
    assert_int_equal(st.parent, 6685);
    assert_int_equal(st.session, 3618);
    assert_int_equal(st.name_n, 3);
    assert_memory_equal(st.name, "cat", 3);
    assert_int_equal(st.state, 'R');
    assert_int_equal(st.flags, 4194304);
    assert_int_equal(st.minor_faults, 99);
    assert_int_equal(st.major_faults, 2);
    assert_int_equal(st.user_ticks, 40);
    assert_int_equal(st.kernel_ticks, 50);
    assert_int_equal(st.priority, 20);
    assert_int_equal(st.threads, 4);
    assert_int_equal(st.start_ticks, 287648);
    assert_int_equal(st.virtual_bytes, 3133440);
    assert_int_equal(st.resident_pages, 359);
    assert_true(st.start_code == 94703769436160);
    assert_true(st.start_stack == 140727468598336);
}

static void every_short_stat_is_rejected(void **state)
{
    /* Behind field 28 nothing is read. */
    size_t used = (size_t)(strstr(stat_text, "140727468598336 ") + 16 - stat_text);
    struct proc_stat st;

    for (size_t n = 0; n <= used; n++) {
        char *p = exact(stat_text, n);

        assert_err(proc_text_stat(&st, p, n), n < used ? ERR_CORRUPT : ERR_OK);
        mem_free(p);
    }
}

static void a_name_may_hold_anything(void **state)
{
    static const struct {
        const char *written, *name;
    } table[] = {
        {"(sh)", "sh"},
        {"()", ""},
        {"(a) R 1 (b)", "a) R 1 (b"},
        {"(two\nlines)", "two\nlines"},
        {"(back\\slash)", "back\\slash"},
        {"(\xff\xfe)", "\xff\xfe"},
        {"(kworker/u4:2-events_unbound)", "kworker/u4:2-events_unbound"},
    };
    char text[512];

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct proc_stat st;
        int n =
            snprintf(text, sizeof text, "7 %s S%s", table[i].written, strstr(stat_text, " 6685"));

        assert_ok(proc_text_stat(&st, text, (size_t)n));
        assert_int_equal(st.name_n, strlen(table[i].name));
        assert_memory_equal(st.name, table[i].name, st.name_n);
        assert_int_equal(st.state, 'S');
        assert_int_equal(st.parent, 6685);
    }
}

static void a_name_longer_than_any_is_cut(void **state)
{
    char name[200], text[600];
    struct proc_stat st;
    int n;

    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    n = snprintf(text, sizeof text, "7 (%s) S%s", name, strstr(stat_text, " 6685"));
    assert_ok(proc_text_stat(&st, text, (size_t)n));
    assert_int_equal(st.name_n, PROC_NAME_MAX);
}

static void damaged_stats_are_rejected(void **state)
{
    static const char *table[] = {
        "0 (cat) R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 1 1 1 1 1 1 0\n",
        "x (cat) R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 1 1 1 1 1 1 0\n",
        "1 cat R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 1 1 1 1 1 1 0\n",
        "1 (cat R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 1 1 1 1 1 1 0\n",
        "1 (cat) R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99999999999999999999999 1 1 1 1 1 1 0\n",
        "4294967296 (cat) R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 1 1 1 1 1 1 0\n",
    };
    struct proc_stat st;

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        assert_err(proc_text_stat(&st, table[i], strlen(table[i])), ERR_CORRUPT);
    }
}

static void negative_ids_mean_none(void **state)
{
    static const char text[] =
        "2 (kthreadd) S 0 -1 -1 0 -1 2129984 0 0 0 0 0 0 0 0 -2 0 1 0 5 0 -3 1 0 0 0 0\n";
    struct proc_stat st;

    assert_ok(proc_text_stat(&st, text, sizeof text - 1));
    assert_int_equal(st.parent, 0);
    assert_int_equal(st.session, 0);
    assert_int_equal(st.priority, -2);
    assert_int_equal(st.resident_pages, -3);
    assert_true(st.flags & PROC_FLAG_KTHREAD);
}

static const char status_text[] =
    "Name:\tx\nUmask:\t0022\nState:\tS (sleeping)\nUid:\t1000\t0\t0\t0\nVmPeak:\t 9 kB\n"
    "VmHWM:\t    1616 kB\nVmRSS:\t    1500 kB\nRssAnon:\t     116 kB\nVmSwap:\t       4 kB\n"
    "CoreDumping:\t0\nCpus_allowed:\tffffffff,00000003,0000000f\nCpus_allowed_list:\t0-3\n"
    "voluntary_ctxt_switches:\t41\nnonvoluntary_ctxt_switches:\t1\n";

static void status_lines_are_found_by_their_label(void **state)
{
    struct proc_status st;

    assert_ok(proc_text_status(&st, status_text, sizeof status_text - 1));
    assert_int_equal(st.have,
                     STATUS_UID | STATUS_PEAK | STATUS_PRIVATE | STATUS_CPUS | STATUS_SWITCHES);
    assert_int_equal(st.uid, 1000);
    assert_int_equal(st.peak_bytes, 1616 * 1024);
    assert_int_equal(st.private_bytes, 120 * 1024);
    assert_true(st.cpus_allowed == 0x30000000f);
    assert_int_equal(st.switches, 42);
}

static void a_status_cut_within_a_line_is_rejected(void **state)
{
    struct proc_status st;

    for (size_t n = 0; n < sizeof status_text; n++) {
        char *p = exact(status_text, n);
        bool whole_lines = n > 0 && n < sizeof status_text && status_text[n - 1] == '\n';

        if (n == sizeof status_text - 1) {
            whole_lines = true;
        }
        assert_err(proc_text_status(&st, p, n), whole_lines ? ERR_OK : ERR_CORRUPT);
        mem_free(p);
    }
}

static void what_a_kernel_thread_lacks_is_absent(void **state)
{
    static const char text[] = "Name:\tkthreadd\nUid:\t0\t0\t0\t0\nCpus_allowed:\t3\n"
                               "voluntary_ctxt_switches:\t41\nnonvoluntary_ctxt_switches:\t1\n";
    struct proc_status st;

    assert_ok(proc_text_status(&st, text, sizeof text - 1));
    assert_int_equal(st.have, STATUS_UID | STATUS_CPUS | STATUS_SWITCHES);
}

static const char io_text[] = "rchar: 8676\nwchar: 1700\nsyscr: 14\nsyscw: 2\nread_bytes: 4096\n"
                              "write_bytes: 512\ncancelled_write_bytes: 0\n";

static void io_needs_all_six_lines(void **state)
{
    size_t used = (size_t)(strstr(io_text, "cancelled") - io_text);
    struct proc_io io;

    for (size_t n = 0; n <= used; n++) {
        char *p = exact(io_text, n);

        assert_err(proc_text_io(&io, p, n), n < used ? ERR_CORRUPT : ERR_OK);
        mem_free(p);
    }
    assert_int_equal(io.read_chars, 8676);
    assert_int_equal(io.write_chars, 1700);
    assert_int_equal(io.read_calls, 14);
    assert_int_equal(io.write_calls, 2);
    assert_int_equal(io.disk_read, 4096);
    assert_int_equal(io.disk_write, 512);
}

static void schedstat_says_how_long_and_how_often(void **state)
{
    struct proc_turns turns;

    assert_ok(proc_text_schedstat(&turns, "1234567 89 10\n", 14));
    assert_int_equal(turns.run_ns, 1234567);
    assert_int_equal(turns.ready_ns, 89);
    assert_int_equal(turns.turns, 10);
    for (size_t n = 0; n < 14; n++) { /* without the byte behind it a number may be cut */
        assert_err(proc_text_schedstat(&turns, "1234567 89 10\n", n), ERR_CORRUPT);
    }
    assert_err(proc_text_schedstat(&turns, "1 2 x\n", 6), ERR_CORRUPT);
}

static void statm_begins_with_the_size_and_what_is_resident(void **state)
{
    struct proc_pages pages;

    assert_ok(proc_text_statm(&pages, "700 250 100 4 0 90 0\n", 21));
    assert_int_equal(pages.size, 700);
    assert_int_equal(pages.resident, 250);
    for (size_t n = 0; n < 8; n++) {
        assert_err(proc_text_statm(&pages, "700 250 ", n), ERR_CORRUPT);
    }
    assert_err(proc_text_statm(&pages, "-1 250 1\n", 9), ERR_CORRUPT);
}

static void only_digits_are_a_pid(void **state)
{
    static const struct {
        const char *name;
        enum err e;
        uint32_t pid;
    } table[] = {
        {"1", ERR_OK, 1},        {"4194304", ERR_OK, 4194304}, {"0", ERR_CORRUPT, 0},
        {"", ERR_CORRUPT, 0},    {"self", ERR_CORRUPT, 0},     {"12a", ERR_CORRUPT, 0},
        {" 12", ERR_CORRUPT, 0}, {"-1", ERR_CORRUPT, 0},       {"99999999999", ERR_CORRUPT, 0},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        uint32_t pid = 0;

        assert_err(proc_text_pid(&pid, table[i].name), table[i].e);
        assert_int_equal(pid, table[i].pid);
    }
}

static void wrong_bytes_become_question_marks(void **state)
{
    static const struct {
        const char *in, *out;
        size_t cap;
    } table[] = {
        {"plain", "plain", 64},
        {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
         64},
        {"\xc3", "?", 64},                /* cut */
        {"\xc0\xaf", "??", 64},           /* overlong */
        {"\xed\xa0\x80", "???", 64},      /* surrogate */
        {"\xf4\x90\x80\x80", "????", 64}, /* beyond the last character */
        {"a\xc3\xa9", "a", 2},            /* does not fit whole */
        {"abc", "", 0},
    };
    char out[64];

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        size_t n = proc_text_utf8(out, table[i].cap, table[i].in, strlen(table[i].in));

        assert_int_equal(n, strlen(table[i].out));
        assert_memory_equal(out, table[i].out, n);
    }
}

static void arguments_are_joined_with_spaces(void **state)
{
    static const struct {
        const char *in;
        size_t n;
        const char *out;
        size_t cap;
        bool cut;
    } table[] = {
        {"ls\0-l\0", 6, "ls -l", 64, false},
        {"ls\0-l\0\0\0", 8, "ls -l", 64, false},
        {"a\0\0b\0", 5, "a  b", 64, false},
        {"title without end", 17, "title without end", 64, false},
        {"sh\0-c\0echo a b\0", 16, "sh -c \"echo a b\"", 64, false},
        {"a\0b \"c\"\0", 8, "a 'b \"c\"'", 64, false},
        {"a\0b ' \\\"\0", 9, "a \"b ' \\\\\\\"\"", 64, false},
        {"a\0b c\\\0", 7, "a \"b c\\\\\"", 64, false},
        {"a\0b c\0", 6, "a \"b c", 6, true},
        {"a\0b c\0", 6, "a ", 2, true},
        {"ls\0-l\0", 6, "ls -", 4, true},
        {"ls\0-l\0", 6, "ls", 2, true},
        {"ls\0-l\0", 6, "ls -l", 5, false},
        {"", 0, "", 64, false},
    };
    char out[64];

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        char *in = exact(table[i].in, table[i].n);
        bool cut;
        size_t n = proc_text_args(out, table[i].cap, in, table[i].n, &cut);

        assert_int_equal(n, strlen(table[i].out));
        assert_memory_equal(out, table[i].out, n);
        assert_int_equal(cut, table[i].cut);
        mem_free(in);
    }
}

static void the_first_argument_names_a_program_if_it_is_a_path(void **state)
{
    static const struct {
        const char *in;
        size_t n;
        const char *out;
    } table[] = {
        {"/usr/bin/ls\0-l\0", 15, "ls"},
        {"/opt/my app\0-l\0", 15, "my app"},
        {"/opt/x/x --type=a/b\0\0", 21, "x"}, /* a title: the first word */
        {"/usr/bin/ls", 11, "ls"},            /* cut */
        {"ls\0/usr/bin\0", 12, ""},
        {"nginx: master /usr/sbin/nginx\0", 30, ""},
        {"-bash\0", 6, ""},
        {"/usr/bin/\0-l\0", 13, ""},
        {"/\0", 2, ""},
        {"\0\0", 2, ""},
        {"", 0, ""},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        char *in = exact(table[i].in, table[i].n);
        const char *name;
        size_t n;

        proc_text_first_argument(&name, &n, in, table[i].n);
        assert_int_equal(n, strlen(table[i].out));
        assert_memory_equal(name, table[i].out, n);
        mem_free(in);
    }
}

static void a_workers_present_task_is_not_its_name(void **state)
{
    static const char *table[][2] = {
        {"kworker/0:1-events", "kworker/0:1"},  {"kworker/u4:2+flush-8:0", "kworker/u4:2"},
        {"kworker/0:0H", "kworker/0:0H"},       {"kworker/R-rcu_gp", "kworker/R-rcu_gp"},
        {"not-a:kworker-x", "not-a:kworker-x"}, {"kworker/", "kworker/"},
    };

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        assert_int_equal(proc_text_worker(table[i][0], strlen(table[i][0])), strlen(table[i][1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stat_fields_are_where_the_kernel_puts_them),
        cmocka_unit_test(every_short_stat_is_rejected),
        cmocka_unit_test(a_name_may_hold_anything),
        cmocka_unit_test(a_name_longer_than_any_is_cut),
        cmocka_unit_test(damaged_stats_are_rejected),
        cmocka_unit_test(negative_ids_mean_none),
        cmocka_unit_test(status_lines_are_found_by_their_label),
        cmocka_unit_test(a_status_cut_within_a_line_is_rejected),
        cmocka_unit_test(what_a_kernel_thread_lacks_is_absent),
        cmocka_unit_test(io_needs_all_six_lines),
        cmocka_unit_test(schedstat_says_how_long_and_how_often),
        cmocka_unit_test(statm_begins_with_the_size_and_what_is_resident),
        cmocka_unit_test(only_digits_are_a_pid),
        cmocka_unit_test(wrong_bytes_become_question_marks),
        cmocka_unit_test(arguments_are_joined_with_spaces),
        cmocka_unit_test(the_first_argument_names_a_program_if_it_is_a_path),
        cmocka_unit_test(a_workers_present_task_is_not_its_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
