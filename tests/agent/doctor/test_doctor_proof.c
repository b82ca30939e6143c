/* What follows from a first run on a Windows host; what its tables say of themselves, from any
 * bytes. */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/doctor/doctor_proof.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "tests/support/snap_gen.h"

#define BASE 0x10000u

struct found {
    char text[64][400]; /* "check state detail" */
    size_t n;
};

static void on_found(void *ctx, const struct check_result *f)
{
    struct found *all = ctx;

    assert_true(all->n < COUNT_OF(all->text));
    (void)snprintf(all->text[all->n++], sizeof all->text[0], "%s %s %s", f->check,
                   check_result_state_text(f->state), f->detail);
    assert_true(f->state != CHECK_RESULT_WARNING || f->fix[0]);
}

static void judge(struct found *out, const struct doctor_proof *proof, bool anonymous)
{
    struct findings to = {.found = on_found, .ctx = out};
    struct doctor d = {.all = &to, .anonymous = anonymous};

    memset(out, 0, sizeof *out);
    doctor_proof_tell(&d, proof);
}

static bool says(const struct found *all, const char *begin)
{
    for (size_t i = 0; i < all->n; i++) {
        if (strncmp(all->text[i], begin, strlen(begin)) == 0) {
            return true;
        }
    }
    return false;
}

static void assert_all_ok(const struct found *all)
{
    for (size_t i = 0; i < all->n; i++) {
        if (!strstr(all->text[i], " ok ")) {
            fail_msg("%s", all->text[i]);
        }
    }
}

/* A host as everybody says. */
static struct doctor_proof sound(void)
{
    struct doctor_proof p = {
        .sessions = true,
        .guid_query = true,
        .guid_list = true,
        .updated = true,
        .flags_asked = 1,
        .flags_got = 1,
        .buffers_asked = 128,
        .buffers_got = 128,
        .mode_asked = 0x2000100,
        .mode_got = 0x2000100,
        .flags = {{"THREAD", "Thread", 2, true, true, false, 40},
                  {"HARD_FAULTS", "PageFault", 0x2000, true, true, true, 0}},
        .bursts = {{4, 0, 400, 400, 0, 0, 8, 64}, {64, 5, 400, 400, 0, 0, 64, 64}},
        .with_reader = {true, 9000, 0, 0},
        .without_reader = {true, 6000, 3000, 4},
        .account = true,
        .user = "dagny",
        .privileges = "SystemProfilePrivilege",
        .provider_code = 234,
        .provider_bytes = 120,
        .tables = {{.class = 5,
                    .bytes = 100000,
                    .processes = 200,
                    .named = 199,
                    .gap_least = 0x170,
                    .gap_most = 0x178,
                    .own_switches = 50,
                    .thread_switches = 44,
                    .disk_after = 9u << 20,
                    .wall_ns = CLK_S},
                   {.class = 148, .status = 0xc0000022}},
        .children = 20,
        .both = 20,
        .times_equal = 20,
        .sequences = 20,
        .sequences_equal = 20,
        .skew = {20, -CLK_MS, 0, CLK_MS},
        .pair = {20, -3 * CLK_MS, CLK_MS, 9 * CLK_MS},
        .timers = {{CLK_MS, {40, CLK_MS, 15 * CLK_MS / 10, 2 * CLK_MS}}},
        .negative = {.second_tried = true,
                     .second_refused = true,
                     .foreign_tried = true,
                     .foreign = ERR_EXISTS,
                     .foreign_kept = true,
                     .slots = 5,
                     .slots_code = 1450,
                     .full = ERR_FULL,
                     .full_why = "no slot is free, they are held by: xperf",
                     .less_tried = true,
                     .less_start = 5,
                     .less_table = 0xc0000022},
        .kind = {.asked = true,
                 .installation = "Server Core",
                 .administrators = "Administratoren",
                 .language = 0x407,
                 .fips = true},
        .renames = 200,
        .drift_over_ns = 10 * CLK_S,
    };

    return p;
}

static void a_host_as_everybody_says_confirms_all(void **state)
{
    static const char *const checks[] = {
        "fact.guid ok",     "fact.update ok",  "fact.flags ok",      "fact.burst ok",
        "fact.identity ok", "fact.sequence",   "fact.start_loss ok", "fact.skew ok",
        "fact.pair ok",     "fact.account",    "fact.table ok",      "fact.own ok",
        "fact.time ok",     "fact.timer ok",   "fact.rename ok",     "fact.clock ok",
        "fact.second ok",   "fact.foreign ok", "fact.slots ok",      "fact.refused ok",
        "fact.kind ok",
    };
    struct doctor_proof p = sound();
    struct found all;

    (void)state;
    judge(&all, &p, false);
    for (size_t i = 0; i < COUNT_OF(checks); i++) {
        if (!says(&all, checks[i])) {
            fail_msg("%s is missing", checks[i]);
        }
    }
    assert_true(says(&all, "fact.account ok dagny"));
    assert_true(says(&all, "fact.table skipped class 148 is refused with 0xc0000022"));
    p.tables[1].class = 0;
    judge(&all, &p, true);
    assert_all_ok(&all);
    assert_true(says(&all, "fact.account ok (covered)"));
}

static void each_surprise_is_a_warning_of_its_own(void **state)
{
#define SURPRISE(member, value, check)                                     \
    do {                                                                   \
        struct doctor_proof p = sound();                                   \
        struct found all;                                                  \
                                                                           \
        p.member = value;                                                  \
        judge(&all, &p, false);                                            \
        if (!says(&all, check " warning")) {                               \
            fail_msg("%s = %s: no warning of %s", #member, #value, check); \
        }                                                                  \
    } while (0)
    (void)state;
    SURPRISE(guid_query, false, "fact.guid");
    SURPRISE(guid_list, false, "fact.guid");
    SURPRISE(flags_got, 0, "fact.update");
    SURPRISE(buffers_got, 64, "fact.update");
    SURPRISE(mode_got, 1, "fact.update");
    SURPRISE(flags[0].taken, false, "fact.flags");
    SURPRISE(flags[0].seen, 0, "fact.flags");
    SURPRISE(flags[1].taken, false, "fact.flags");
    SURPRISE(bursts[1].seen, 399, "fact.burst");
    SURPRISE(with_reader.events_lost, 1, "fact.start_loss");
    SURPRISE(times_equal, 19, "fact.identity");
    SURPRISE(sequences_equal, 19, "fact.sequence");
    SURPRISE(sequences, 0, "fact.sequence");
    SURPRISE(skew.most, 51 * CLK_MS, "fact.skew");
    SURPRISE(both, 19, "fact.pair");
    SURPRISE(tables[0].gap_least, 0x168, "fact.table");
    SURPRISE(tables[0].own_switches, 43, "fact.own");
    SURPRISE(tables[0].disk_before, 2u << 20, "fact.own");
    SURPRISE(timers[0].took.median, 16 * CLK_MS, "fact.timer");
    SURPRISE(negative.second_refused, false, "fact.second");
    SURPRISE(negative.foreign, ERR_OK, "fact.foreign");
    SURPRISE(negative.foreign_kept, false, "fact.foreign");
    SURPRISE(negative.slots_code, 0, "fact.slots");
    SURPRISE(negative.full, ERR_IO, "fact.slots");
    SURPRISE(negative.less_start, 0, "fact.refused");
    SURPRISE(negative.less_table, 0, "fact.refused");
    SURPRISE(kind.container, 2, "fact.kind");
    SURPRISE(renames_failed, 1, "fact.rename");
    SURPRISE(drift_ns, -11 * CLK_MS, "fact.clock");
}

static void without_sessions_the_rest_is_told_all_the_same(void **state)
{
    struct doctor_proof p = sound();
    struct found all;

    (void)state;
    p.sessions = false;
    (void)snprintf(p.why.text, sizeof p.why.text, "refused");
    judge(&all, &p, false);
    assert_true(says(&all, "fact.proof skipped"));
    assert_false(says(&all, "fact.guid"));
    assert_false(says(&all, "fact.slots"));
    assert_true(says(&all, "fact.own ok"));
    assert_true(says(&all, "fact.account ok"));
}

static void build(struct buf *b, bool full)
{
    static const struct snap_gen_thread threads[] = {{.tid = 1, .switches = 5},
                                                     {.tid = 2, .switches = 6}};
    static const uint8_t sid[] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};
    const struct snap_gen_process idle = {.threads = threads, .n_threads = 1, .kernel = 10};
    const struct snap_gen_process plain = {
        .pid = 4, .created = 77, .name = u"a", .threads = threads, .n_threads = 1};
    const struct snap_gen_process own = {.pid = 42,
                                         .created = 78,
                                         .name = u"own.exe",
                                         .threads = threads,
                                         .n_threads = 2,
                                         .user = 20,
                                         .extension = true,
                                         .switches = 12,
                                         .disk_write = 4096,
                                         .sid = full ? sid : NULL,
                                         .sid_n = full ? sizeof sid : 0};

    buf_init(b, 1 << 16);
    snap_gen_put(b, BASE, full, &idle, false);
    snap_gen_put(b, BASE, full, &plain, false);
    snap_gen_put(b, BASE, full, &own, true);
}

static void a_table_tells_its_gaps_and_this_process(void **state)
{
    (void)state;
    for (unsigned full = 0; full < 2; full++) {
        struct doctor_proof_table t = {.class = full ? 148 : 5};
        struct doctor_proof_entry e = {0, 9};
        struct buf b;

        build(&b, full);
        assert_ok(doctor_proof_read(&t, b.p, b.n, BASE, full, 42));
        assert_int_equal(t.processes, 3);
        assert_int_equal(t.named, 2);
        assert_int_equal(t.sids, full);
        assert_int_equal(t.gap_least, 0);
        assert_true(t.gap_most >= 0x30);
        assert_int_equal(t.own_switches, 12);
        assert_int_equal(t.thread_switches, 11);
        assert_int_equal(t.disk_after, 4096);
        assert_true(t.cpu_ns >= 3000);
        if (!full) {
            assert_true(doctor_proof_find(&e, b.p, b.n, BASE, 42));
            assert_int_equal(e.created, 78);
            assert_int_equal(e.sequence, 0); /* an extension that ends earlier */
            assert_false(doctor_proof_find(&e, b.p, b.n, BASE, 43));
        }
        buf_fini(&b);
    }
}

/* Cut anywhere, and with any byte of it changed: refused or read, never beyond. */
static void damaged_tables_are_survived(void **state)
{
    struct doctor_proof_entry e;
    struct buf b;

    (void)state;
    build(&b, false);
    for (size_t n = 0; n < b.n; n++) {
        struct doctor_proof_table t = {0};
        uint8_t *part = mem_dup(b.p, n);
        enum err err = doctor_proof_read(&t, part, n, BASE, false, 42);

        assert_true(err == ERR_CORRUPT || err == ERR_OK);
        (void)doctor_proof_find(&e, part, n, BASE, 42);
        mem_free(part);
    }
    for (size_t at = 0; at < b.n; at++) {
        struct doctor_proof_table t = {0};
        uint8_t *part = mem_dup(b.p, b.n);

        part[at] ^= 0xff;
        err_ignore(doctor_proof_read(&t, part, b.n, BASE, false, 42));
        (void)doctor_proof_find(&e, part, b.n, BASE, 42);
        mem_free(part);
    }
    buf_fini(&b);
}

static void a_spread_has_its_median_in_the_middle(void **state)
{
    int64_t ns[] = {9, 1, 5};
    struct doctor_proof_spread s;

    (void)state;
    doctor_proof_spread(&s, ns, 3);
    assert_int_equal(s.least, 1);
    assert_int_equal(s.median, 5);
    assert_int_equal(s.most, 9);
    doctor_proof_spread(&s, ns, 0);
    assert_int_equal(s.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_as_everybody_says_confirms_all),
        cmocka_unit_test(each_surprise_is_a_warning_of_its_own),
        cmocka_unit_test(without_sessions_the_rest_is_told_all_the_same),
        cmocka_unit_test(a_table_tells_its_gaps_and_this_process),
        cmocka_unit_test(damaged_tables_are_survived),
        cmocka_unit_test(a_spread_has_its_median_in_the_middle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
