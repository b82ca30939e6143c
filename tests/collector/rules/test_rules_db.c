/* What rules keep in lab.db: each change once, numbers without holes, at_most, what was at a
 * moment, rules that changed. */
#include "collector/rules/rules_db.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static char dir[256];

static const struct uuid host = {{7}};

struct rig {
    struct lab_db *db;
    struct rules_conf *rules;
    struct arena memory;
    struct rules_change list[16];
    size_t n;
};

static struct rules_conf *rules_of(const char *yaml)
{
    struct rules_conf *c;
    struct rules_where at;
    struct errmsg why = {""};

    if (rules_conf_read(&c, yaml, strlen(yaml), &at, &why)) {
        fail_msg("%s", why.text);
    }
    return c;
}

static void rig_open(struct rig *r, const char *yaml)
{
    struct errmsg why;

    memset(r, 0, sizeof *r);
    arena_init(&r->memory, 1u << 20);
    r->rules = rules_of(yaml);
    assert_ok(lab_db_open(&r->db, dir, NULL, &why));
}

static void rig_close(struct rig *r)
{
    lab_db_close(r->db);
    rules_conf_free(r->rules);
    arena_fini(&r->memory);
}

static void change(struct rig *r, size_t rule, int64_t step, uint8_t before, uint8_t state)
{
    const struct rules_subject s = {.rule = rules_conf_rule(r->rules, rule),
                                    .host = "lab-1",
                                    .id = &host,
                                    .key = "cc1",
                                    .class_text = "",
                                    .state = state,
                                    .before = before,
                                    .step_ns = step,
                                    .since_ns = step};

    assert_ok(rules_db_change(&r->list[r->n++], &s, &r->memory));
}

static void write_all(struct rig *r)
{
    assert_ok(rules_db_write(r->db, r->list, r->n));
}

struct seen {
    char text[512];
};

static bool notice_seen(void *ctx, const struct rules_found *f)
{
    struct seen *s = ctx;
    size_t n = strlen(s->text);

    (void)snprintf(s->text + n, sizeof s->text - n, "%llu %.*s %s %lld %llu; ",
                   (unsigned long long)f->notice->n, (int)f->notice->rule.n, f->notice->rule.p,
                   notice_state_name(f->notice->state), (long long)f->notice->step_ns,
                   (unsigned long long)f->notice->skipped);
    assert_string_equal(f->host, "lab-1");
    assert_memory_equal(f->id.b, host.b, sizeof host.b);
    return true;
}

static const char *seen(struct rig *r, uint64_t after)
{
    static struct seen s;
    const struct rules_ask ask = {.after = after, .until_ns = INT64_MAX};

    s.text[0] = '\0';
    assert_ok(rules_db_notices(r->db, &ask, notice_seen, &s));
    return s.text;
}

#define ONE \
    "rules: [{name: a, when: 'last(coverage) < 1%'}, {name: b, when: 'last(coverage) < 2%', "

static void a_change_is_there_once_whoever_writes_it_again(void **state)
{
    struct rig r;

    rig_open(&r, ONE "at_most: 2/1h}]");
    change(&r, 0, 100, NOTICE_OK, NOTICE_FIRING);
    change(&r, 0, 200, NOTICE_FIRING, NOTICE_OK);
    write_all(&r);
    assert_int_equal(r.list[0].notice.n, 1);
    assert_int_equal(r.list[1].notice.n, 2);
    change(&r, 0, 300, NOTICE_OK, NOTICE_UNKNOWN); /* the first two once more, and this */
    write_all(&r);
    assert_int_equal(r.list[0].notice.n, 0);
    assert_int_equal(r.list[1].notice.n, 0);
    assert_int_equal(r.list[2].notice.n, 3);
    rig_close(&r);
    rig_open(&r, ONE "at_most: 2/1h}]");
    assert_string_equal(seen(&r, 0), "1 a firing 100 0; 2 a ok 200 0; 3 a unknown 300 0; ");
    assert_string_equal(seen(&r, 2), "3 a unknown 300 0; ");
    rig_close(&r);
}

static void at_most_holds_back_and_counts_into_the_next(void **state)
{
    const int64_t h = 3600 * CLK_S;
    struct rig r;

    rig_open(&r, ONE "at_most: 2/1h}]");
    change(&r, 1, h + 1, NOTICE_OK, NOTICE_FIRING);
    change(&r, 1, h + 2, NOTICE_FIRING, NOTICE_OK);
    change(&r, 1, h + 3, NOTICE_OK, NOTICE_FIRING);
    change(&r, 1, h + 4, NOTICE_FIRING, NOTICE_OK);
    change(&r, 1, 2 * h + 2, NOTICE_OK, NOTICE_FIRING);
    write_all(&r);
    assert_true(r.list[2].held && r.list[3].held && !r.list[4].held);
    assert_int_equal(r.list[4].notice.n, 3);
    assert_int_equal(r.list[4].notice.skipped, 2);
    rig_close(&r);
}

static enum err alert_seen(void *ctx, const struct rules_alert *a)
{
    struct seen *s = ctx;
    size_t n = strlen(s->text);

    (void)snprintf(s->text + n, sizeof s->text - n, "%.*s %s %s; ", (int)a->rule.n, a->rule.p,
                   a->key, notice_state_name(a->state));
    return ERR_OK;
}

static const char *alerts(struct rig *r, int64_t at_ns)
{
    static struct seen s;

    s.text[0] = '\0';
    assert_ok(rules_db_alerts(r->db, at_ns, alert_seen, &s));
    return s.text;
}

static void alerts_are_known_as_of_a_moment(void **state)
{
    struct rig r;

    rig_open(&r, ONE "at_most: 2/1h}]");
    change(&r, 0, 100, NOTICE_OK, NOTICE_FIRING);
    change(&r, 0, 200, NOTICE_FIRING, NOTICE_OK);
    change(&r, 1, 150, NOTICE_OK, NOTICE_FIRING);
    write_all(&r);
    assert_string_equal(alerts(&r, 50), "");
    assert_string_equal(alerts(&r, 120), "a cc1 firing; ");
    assert_string_equal(alerts(&r, 160), "b cc1 firing; a cc1 firing; ");
    assert_string_equal(alerts(&r, 250), "b cc1 firing; ");
    rig_close(&r);
}

static void a_changed_rule_ends_its_alerts_and_begins_anew(void **state)
{
    struct rules_change *ended;
    struct rules_conf *other;
    int64_t since[2];
    struct rig r;
    size_t n;

    rig_open(&r, ONE "say: x}]");
    assert_ok(rules_db_rules(r.db, r.rules, 1000, since));
    assert_true(since[0] == 1000 && since[1] == 1000);
    change(&r, 0, 2000, NOTICE_OK, NOTICE_FIRING);
    change(&r, 1, 2000, NOTICE_OK, NOTICE_FIRING);
    write_all(&r);
    other = rules_of("rules: [{name: a, when: 'last(coverage) < 1%', say: other},"
                     " {name: b, when: 'last(coverage) < 3%'}]");
    assert_ok(rules_db_ended(r.db, other, 3000, &ended, &n, &r.memory));
    assert_int_equal(n, 1);
    assert_true(str_eq(ended[0].notice.rule, str_make("b")));
    assert_true(str_eq(ended[0].notice.reason, str_make("rule changed")));
    assert_int_equal(ended[0].notice.state, NOTICE_OK);
    assert_ok(rules_db_write(r.db, ended, n));
    assert_string_equal(alerts(&r, 4000), "a cc1 firing; ");
    assert_ok(rules_db_rules(r.db, other, 3000, since));
    assert_true(since[0] == 1000 && since[1] == 3000);
    mem_free(ended);
    rules_conf_free(other);
    other = rules_of("rules: []");
    assert_ok(rules_db_ended(r.db, other, 5000, &ended, &n, &r.memory));
    assert_int_equal(n, 1); /* a is gone */
    mem_free(ended);
    rules_conf_free(other);
    rig_close(&r);
}

static void times_and_the_last_sound_file_stay(void **state)
{
    struct rules_up list[RULES_DB_UPS];
    struct rig r;
    char *text;
    size_t n;

    rig_open(&r, ONE "say: x}]");
    for (int64_t i = 1; i <= RULES_DB_UPS + 6; i++) {
        assert_ok(rules_db_up_write(r.db, &(struct rules_up){i, i + 1, i + 2, (uint64_t)i}));
    }
    assert_ok(rules_db_up_write(r.db, &(struct rules_up){RULES_DB_UPS + 6, 500, 400, 9}));
    assert_ok(rules_db_up(r.db, list, &n));
    assert_int_equal(n, RULES_DB_UPS);
    assert_int_equal(list[0].since_ns, 7);
    assert_int_equal(list[n - 1].until_ns, 500);
    assert_int_equal(list[n - 1].sent, 9);
    assert_ok(rules_db_file(r.db, &text, &n));
    assert_null(text);
    assert_ok(rules_db_file_write(r.db, "rules: []", 9));
    assert_ok(rules_db_file(r.db, &text, &n));
    assert_int_equal(n, 9);
    assert_memory_equal(text, "rules: []", 9);
    mem_free(text);
    rig_close(&r);
}

static void a_run_has_the_notices_of_its_hosts_and_time(void **state)
{
    struct run_host hosts[] = {{.id = {{6}}}, {.id = host}};
    struct run_file f = {.head = {.begin_ns = 200, .end_ns = 300}, .n_hosts = 2, .hosts = hosts};
    struct rig r;

    rig_open(&r, ONE "say: '$host'}]");
    change(&r, 0, 199, NOTICE_OK, NOTICE_FIRING);
    change(&r, 0, 200, NOTICE_FIRING, NOTICE_OK);
    change(&r, 0, 300, NOTICE_OK, NOTICE_UNKNOWN);
    change(&r, 0, 301, NOTICE_UNKNOWN, NOTICE_OK);
    write_all(&r);
    arena_init(&f.memory, 1u << 20);
    assert_ok(rules_db_run_notices(r.db, &f));
    assert_int_equal(f.n_notices, 2);
    assert_int_equal(f.notices[0].when_ns, 200);
    assert_true(str_eq(f.notices[0].rule, str_make("a")));
    assert_true(str_eq(f.notices[0].subject, str_make("lab-1 cc1")));
    assert_true(str_eq(f.notices[0].state, str_make("ok")));
    assert_int_equal(f.notices[1].when_ns, 300);
    assert_true(str_eq(f.notices[1].state, str_make("unknown")));

    f.n_hosts = 1;
    assert_ok(rules_db_run_notices(r.db, &f));
    assert_int_equal(f.n_notices, 0);
    arena_fini(&f.memory);
    arena_init(&f.memory, 16);
    assert_int_equal(rules_db_run_notices(r.db, &f), ERR_FULL);
    arena_fini(&f.memory);
    rig_close(&r);
}

static void what_of_a_run_s_notices_has_no_room_is_counted(void **state)
{
    struct run_host hosts[] = {{.id = host}};
    struct run_file f = {.head = {.begin_ns = 1, .end_ns = 2000}, .n_hosts = 1, .hosts = hosts};
    struct rig r;

    rig_open(&r, ONE "say: '$host'}]");
    for (int64_t t = 1; t <= 1010; t++) {
        change(&r, 0, t, NOTICE_OK, NOTICE_FIRING);
        if (r.n == 10) {
            write_all(&r);
            r.n = 0;
        }
    }
    arena_init(&f.memory, 1u << 20);
    assert_ok(rules_db_run_notices(r.db, &f));
    assert_int_equal(f.n_notices, RUN_FILE_NOTICES_MAX);
    assert_int_equal(f.notices[RUN_FILE_NOTICES_MAX - 2].when_ns, RUN_FILE_NOTICES_MAX - 1);
    assert_true(str_eq(f.notices[RUN_FILE_NOTICES_MAX - 1].text, str_make("11 more had no room")));
    arena_fini(&f.memory);
    rig_close(&r);
}

int main(void)
{
#define T(f) \
    cmocka_unit_test_prestate_setup_teardown(f, support_dir_setup, support_dir_teardown, dir)
    const struct CMUnitTest tests[] = {
        T(a_change_is_there_once_whoever_writes_it_again),
        T(at_most_holds_back_and_counts_into_the_next),
        T(alerts_are_known_as_of_a_moment),
        T(a_changed_rule_ends_its_alerts_and_begins_anew),
        T(times_and_the_last_sound_file_stay),
        T(a_run_has_the_notices_of_its_hosts_and_time),
        T(what_of_a_run_s_notices_has_no_room_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
