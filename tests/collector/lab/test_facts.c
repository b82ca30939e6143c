/* What hosts are known by: told, kept, assigned, of a moment. */
#include "collector/lab/facts.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/wire/wire_inventory.h"
#include "tests/support/sqlite_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define TEXT(s)          \
    {                    \
        s, sizeof(s) - 1 \
    }
#define MINUTE_N (60 * CLK_S)

static char dir[256];
static struct lab_db *db;
static struct facts_book *book;
static struct facts_rule *rules;
static size_t n_rules;
static const struct uuid host = {{1, 2, 3}}, other = {{9}};

static void book_open(void)
{
    struct errmsg why = {""};
    struct facts_conf conf = {.rules = rules, .n_rules = n_rules};

    assert_ok(lab_db_open(&db, dir, sqlite_fault_fio(), &why));
    conf.db = db;
    assert_ok(facts_open(&book, &conf));
}

static void book_close(void)
{
    facts_close(book);
    lab_db_close(db);
    facts_rules_free(rules, n_rules);
    rules = NULL;
    n_rules = 0;
}

static struct facts machine(const char *governor, const char *rack, int64_t boot_ns)
{
    return (struct facts){
        .inventory = {.os_name = TEXT("Some Linux 12"),
                      .os_build = TEXT("6.1"),
                      .governor = str_make(governor),
                      .cpu_model = TEXT("a CPU"),
                      .cpu_cores = 4,
                      .memory_bytes = UINT64_C(16) << 30,
                      .boot_time = boot_ns},
        .n_labels = 2,
        .labels = {{.key = TEXT("rack"), .value = str_make(rack), .assigned = true},
                   {.key = TEXT("image"), .value = TEXT("v12")}}};
}

static void tell(const struct uuid *id, const struct facts *f, int64_t now_ns)
{
    struct buf b;

    buf_init(&b, WIRE_FACTS_MAX);
    assert_ok(wire_facts_encode(&b, f));
    facts_told(book, id, b.p, b.n, now_ns);
    buf_fini(&b);
}

static void label_is(const struct facts *f, const char *key, const char *value, bool assigned)
{
    for (size_t i = 0; i < f->n_labels; i++) {
        if (str_eq(f->labels[i].key, str_make(key))) {
            assert_true(str_eq(f->labels[i].value, str_make(value)));
            assert_int_equal(f->labels[i].assigned, assigned);
            return;
        }
    }
    fail_msg("no label %s", key);
}

static int64_t versions(void)
{
    static const char sql[] = "SELECT count(*) FROM host_fact";
    struct sqlite3_stmt *st;
    struct db *d;
    int64_t n = -1;

    assert_ok(facts_flush(book));
    assert_ok(lab_db_begin(db, &d, LAB_DB_READ));
    assert_ok(lab_db_statement(db, &st, sql));
    assert_ok(lab_db_end(db, db_number(d, st, &n)));
    return n;
}

static void what_is_told_is_known_and_kept(void **state)
{
    struct facts f = machine("powersave", "3", 1000);
    const struct facts *known;
    struct arena a;

    (void)state;
    arena_init(&a, 1u << 20);
    book_open();
    assert_null(facts_now(book, &host, "h", &a));
    tell(&host, &f, 100);
    known = facts_now(book, &host, "h", &a);
    assert_true(known && str_eq(known->inventory.cpu_model, str_make("a CPU")));
    label_is(known, "rack", "3", false); /* a host cannot say that it was assigned */
    assert_null(facts_now(book, &other, "o", &a));
    assert_int_equal(versions(), 1);
    book_close();
    book_open();
    known = facts_now(book, &host, "h", &a);
    assert_true(known && known->inventory.cpu_cores == 4);
    book_close();
    arena_fini(&a);
}

static void only_changes_are_versions(void **state)
{
    struct facts f = machine("powersave", "3", 100 * MINUTE_N), g = f;

    (void)state;
    book_open();
    tell(&host, &f, 100);
    assert_int_equal(versions(), 1);
    g.inventory.boot_time += CLK_S; /* the same boot */
    tell(&host, &g, 200);
    assert_int_equal(versions(), 1);
    g.inventory.boot_time += 2 * MINUTE_N; /* another */
    tell(&host, &g, 300);
    assert_int_equal(versions(), 2);
    for (int i = 0; i < 100; i++) {
        char rack[8];

        snprintf(rack, sizeof rack, "%d", i);
        f = machine("powersave", rack, 0);
        tell(&host, &f, 1000 + i);
        assert_in_range(versions(), 1, FACTS_VERSIONS);
    }
    assert_int_equal(versions(), FACTS_VERSIONS);
    book_close();
}

static void a_moment_has_what_held_then(void **state)
{
    struct facts f = machine("powersave", "3", 0), g = machine("performance", "4", 0);
    const struct facts *then;
    struct arena a;

    (void)state;
    arena_init(&a, 1u << 20);
    book_open();
    tell(&host, &f, 100);
    assert_ok(facts_flush(book));
    tell(&host, &g, 200);
    assert_ok(facts_then(book, &host, "h", 199, &a, &then));
    label_is(then, "rack", "3", false);
    assert_ok(facts_then(book, &host, "h", 200, &a, &then));
    label_is(then, "rack", "4", false);
    assert_ok(facts_then(book, &host, "h", 50, &a, &then)); /* the first that is known */
    label_is(then, "rack", "3", false);
    assert_ok(facts_then(book, &other, "o", 50, &a, &then));
    assert_null(then);
    book_close();
    arena_fini(&a);
}

static void assigned_labels_are_stronger(void **state)
{
    static const char *const items[] = {"lab-* rack=7", "lab-3* rack=8", "* site=north east"};
    struct facts f = machine("powersave", "3", 0);
    const struct facts *known;
    struct arena a;
    size_t bad;

    (void)state;
    arena_init(&a, 1u << 20);
    n_rules = 3;
    assert_ok(facts_rules_read(&rules, items, n_rules, &bad));
    book_open();
    tell(&host, &f, 100);
    known = facts_now(book, &host, "lab-33", &a);
    label_is(known, "rack", "8", true);
    label_is(known, "image", "v12", false);
    label_is(known, "site", "north east", true);
    known = facts_now(book, &other, "lab-1", &a); /* nothing was told of it */
    label_is(known, "rack", "7", true);
    book_close();
    arena_fini(&a);
}

static void rules_that_are_none_are_refused(void **state)
{
    static const char *const bad[] = {"lab-1", "lab-1 rack", "lab-1 Rack=3", " rack=3",
                                      "lab-1 os=x"};
    struct facts_rule *out;
    size_t at;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const char *items[] = {"a b=c", bad[i]};

        assert_err(facts_rules_read(&out, items, 2, &at), ERR_INVALID);
        assert_int_equal(at, 1);
    }
}

static void hosts_that_are_alike_have_a_class(void **state)
{
    static const char *const keys[] = {"cpu_cores"}, *const wrong[] = {"colour"};
    struct facts f = machine("powersave", "3", 0);
    struct facts_conf conf = {.class_keys = keys, .n_class_keys = 1};
    struct facts_book *few;
    struct run_host pairs = {.n_facts = 0};
    struct arena a;

    (void)state;
    arena_init(&a, 1u << 20);
    book_open();
    assert_true(str_eq(facts_class(book, &f, NULL, &a), str_make("Some Linux 12/6/a CPU/4c/16G")));
    assert_ok(facts_pairs(&f, &a, &pairs));
    assert_true(
        str_eq(host_class_fact(pairs.facts, pairs.n_facts, "governor"), str_make("powersave")));
    assert_int_equal(pairs.n_labels, 2);
    conf.db = db;
    assert_ok(facts_open(&few, &conf));
    assert_true(str_eq(facts_class(few, &f, NULL, &a), str_make("4c")));
    facts_close(few);
    conf.class_keys = wrong;
    assert_err(facts_open(&few, &conf), ERR_INVALID);
    f = (struct facts){.n_labels = 0};
    assert_int_equal(facts_class(book, &f, NULL, &a).n, 0);
    book_close();
    arena_fini(&a);
}

#define FACTS_TEST(f) \
    cmocka_unit_test_prestate_setup_teardown(f, support_dir_setup, support_dir_teardown, dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FACTS_TEST(what_is_told_is_known_and_kept),  FACTS_TEST(only_changes_are_versions),
        FACTS_TEST(a_moment_has_what_held_then),     FACTS_TEST(assigned_labels_are_stronger),
        FACTS_TEST(rules_that_are_none_are_refused), FACTS_TEST(hosts_that_are_alike_have_a_class),
    };

    sqlite_fault_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
