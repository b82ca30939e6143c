/* The rules' thread between store, lab.db and feed: notices in plenty, a file that changed. Data
 * are stamped with times around now, because the thread has the system's clock. */
#include "collector/rules/rules_live.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/wire/wire_batch.h"
#include "tests/collector/lab.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define PATIENCE (90 * CLK_S)
#define NOTICES  3000u
#define IDS      64u

static char dir[256];
static size_t room; /* of a batch that waits */

struct set {
    struct lab *lab;
    struct lab_db *db;
    struct journal *journal;
    struct feed *feed;
    struct rules_live *live;
    char file[300];
    uint64_t seq;
};

static void stored(void *ctx, const struct store_stored *s)
{
    struct set *t = ctx;

    room = wire_batch_room(s->batch);
    if (t->feed) {
        feed_stored(t->feed, s);
    }
    if (t->live) {
        rules_live_stored(t->live, s);
    }
}

static void send_none(void *ctx, const struct str *list, size_t n)
{
    (void)ctx;
    (void)list;
    (void)n;
}

static unsigned no_listeners(void *ctx)
{
    (void)ctx;
    return 0;
}

static void rules_write(const struct set *t, const char *yaml)
{
    assert_ok(os_write_file(t->file, yaml, strlen(yaml), false));
}

static void set_open(struct set *t, const char *yaml)
{
    struct errmsg why = {""};
    char feed_dir[300];

    memset(t, 0, sizeof *t);
    (void)snprintf(t->file, sizeof t->file, "%s/rules.yaml", dir);
    (void)snprintf(feed_dir, sizeof feed_dir, "%s/feed", dir);
    rules_write(t, yaml);
    assert_ok(lab_db_open(&t->db, dir, NULL, &why));
    assert_ok(journal_open(
        &t->journal,
        &(struct journal_conf){
            .dir = feed_dir, .fio = fio_unsynced(), .max_bytes = JOURNAL_LEAST, .hosts_max = 8},
        &why));
    assert_ok(feed_create(&t->feed, &(struct feed_conf){.journal = t->journal,
                                                        .epoch = journal_epoch(t->journal),
                                                        .queue_bytes = 1u << 20,
                                                        .hosts_max = 8,
                                                        .send = send_none,
                                                        .listeners = no_listeners}));
    t->lab = lab_open(stored, t);
    assert_ok(feed_start(t->feed, lab_store(t->lab)));
}

static void live_start_with(struct set *t, size_t queue_max)
{
    const struct rules_live_conf conf = {.store = lab_store(t->lab),
                                         .db = t->db,
                                         .feed = t->feed,
                                         .file = t->file,
                                         .queue_max = queue_max};

    assert_ok(rules_live_start(&t->live, &conf));
}

static void live_start(struct set *t)
{
    live_start_with(t, 0);
}

static void live_stop(struct set *t)
{
    struct rules_live *l = t->live;

    t->live = NULL;
    rules_live_stop(l);
}

static void set_close(struct set *t)
{
    live_stop(t);
    feed_stop(t->feed);
    lab_close(t->lab);
    feed_destroy(t->feed);
    journal_close(t->journal);
    lab_db_close(t->db);
}

/* Seconds of the lab at a time. */
static double second_of(int64_t ns)
{
    return (double)((ns - LAB_EPOCH_NS) / CLK_S);
}

/* Ten ticks, one a second, behind `second`; a process of so many bytes. */
static void batch_put(struct set *t, double second, int64_t bytes)
{
    static const uint8_t metric = M_PRIVATE_BYTES;
    int64_t values[10];

    lab_begin(t->lab, 1, 1, ++t->seq);
    for (unsigned i = 0; i < 10; i++) {
        lab_tick(t->lab, second + 1 + i);
        values[i] = bytes;
    }
    lab_run(t->lab, 100, 7, 0, 10, false, 1, &metric, values);
    lab_info(t->lab, &(struct proc_info){.id = {100, 7}, .name = str_make("cc1")});
    lab_received(t->lab, second + 10);
    lab_put(t->lab);
}

struct seen {
    size_t n;
    char text[IDS][160];
    char ids[IDS][NOTICE_ID_TEXT];
};

static bool notice_seen(void *ctx, const struct rules_found *f)
{
    struct seen *s = ctx;

    if (s->n < IDS) {
        memcpy(s->ids[s->n], f->notice->id, NOTICE_ID_TEXT);
        (void)snprintf(s->text[s->n], sizeof s->text[0], "%.*s %s %.*s", (int)f->notice->rule.n,
                       f->notice->rule.p, notice_state_name(f->notice->state),
                       (int)f->notice->reason.n, f->notice->reason.p);
    }
    s->n++;
    return true;
}

static void notices_wait(struct set *t, size_t n, struct seen *s)
{
    const struct rules_ask ask = {.since_ns = INT64_MIN, .until_ns = INT64_MAX};
    int64_t end_ns = os_mono_ns() + PATIENCE;

    do {
        os_sleep_ns(20 * CLK_MS);
        *s = (struct seen){0};
        assert_ok(rules_db_notices(t->db, &ask, notice_seen, s));
        if (os_mono_ns() > end_ns) {
            fail_msg("%zu notices, not %zu", s->n, n);
        }
    } while (s->n < n);
}

static void notices_prepare(struct set *t)
{
    struct rules_change *list = calloc(NOTICES, sizeof *list);
    struct rules_conf *rules;
    struct rules_where at;
    struct errmsg why = {""};
    struct arena texts;
    static const char yaml[] = "rules: [{name: mem, when: 'last(private_bytes) > 5B'}]";
    const struct uuid id = {{1}};

    assert_non_null(list);
    arena_init(&texts, 16u << 20);
    assert_ok(rules_conf_read(&rules, yaml, sizeof yaml - 1, &at, &why));
    for (unsigned i = 0; i < NOTICES; i++) {
        const struct rules_subject s = {.rule = rules_conf_rule(rules, 0),
                                        .host = "host-1",
                                        .id = &id,
                                        .key = "",
                                        .class_text = "",
                                        .state = i % 2 ? NOTICE_OK : NOTICE_FIRING,
                                        .before = i % 2 ? NOTICE_FIRING : NOTICE_OK,
                                        .step_ns = (i + 1) * RULES_STEP_NS};

        assert_ok(rules_db_change(&list[i], &s, &texts));
    }
    assert_ok(rules_db_write(t->db, list, NOTICES));
    rules_conf_free(rules);
    arena_fini(&texts);
    free(list);
}

/* How many notices the journal has, each the next after the one before. */
static uint64_t journal_count(struct set *t)
{
    uint64_t from = 0, next, count = 0;
    struct journal_record r;
    struct buf payload;

    buf_init(&payload, JOURNAL_PAYLOAD_MAX);
    journal_range(t->journal, &from, &next);
    while (journal_next(t->journal, &from, NULL, NULL, &r, &payload) == ERR_OK) {
        if (r.topic == FEED_RULE) {
            assert_int_equal(r.batch, ++count);
        }
        buf_reset(&payload);
    }
    buf_fini(&payload);
    return count;
}

static void more_notices_than_are_sent_at_once_arrive_in_order_each_once(void **state)
{
    int64_t end_ns = os_mono_ns() + PATIENCE;
    struct set t;

    set_open(&t, "rules: []\n");
    notices_prepare(&t);
    live_start(&t);
    while (journal_count(&t) < NOTICES) {
        if (os_mono_ns() > end_ns) {
            fail_msg("%llu notices in the journal", (unsigned long long)journal_count(&t));
        }
        os_sleep_ns(50 * CLK_MS);
    }
    live_stop(&t); /* and none comes again */
    live_start(&t);
    os_sleep_ns(600 * CLK_MS);
    assert_int_equal(journal_count(&t), NOTICES);
    set_close(&t);
}

static void a_changed_rule_that_holds_at_once_fires_anew(void **state)
{
    int64_t now_ns = os_utc_ns() / (10 * CLK_S) * (10 * CLK_S), fired_ns = now_ns - 200 * CLK_S;
    static const char before[] = "rules: [{name: mem, when: 'last(private_bytes, 10s) > 5B'}]\n";
    const struct uuid id = lab_host(1);
    struct rules_subject s = {.host = "host-1",
                              .id = &id,
                              .key = "",
                              .class_text = "",
                              .state = NOTICE_FIRING,
                              .before = NOTICE_OK,
                              .step_ns = fired_ns,
                              .since_ns = fired_ns};
    const struct rules_up up = {now_ns - 300 * CLK_S, now_ns - 5 * CLK_S, now_ns - 10 * CLK_S, 0};
    struct rules_change change;
    struct rules_conf *rules;
    struct rules_where at;
    struct errmsg why = {""};
    struct arena texts;
    static struct seen seen;
    int64_t since;
    struct set t;

    set_open(&t, "rules: [{name: mem, when: 'last(private_bytes, 10s) > 6B'}]\n");
    for (int i = -30; i < 0; i++) {
        batch_put(&t, second_of(now_ns) + 10.0 * i, 10);
    }
    arena_init(&texts, 1u << 20);
    assert_ok(rules_conf_read(&rules, before, sizeof before - 1, &at, &why));
    assert_ok(rules_db_rules(t.db, rules, now_ns - 300 * CLK_S, &since));
    s.rule = rules_conf_rule(rules, 0);
    assert_ok(rules_db_change(&change, &s, &texts));
    assert_ok(rules_db_write(t.db, &change, 1));
    assert_ok(rules_db_up_write(t.db, &up));
    rules_conf_free(rules);
    arena_fini(&texts);
    live_start(&t);
    notices_wait(&t, 2, &seen);
    for (int i = 0; i < 4; i++) {
        batch_put(&t, second_of(now_ns) + 10.0 * i, 10);
    }
    notices_wait(&t, 3, &seen);
    assert_int_equal(seen.n, 3);
    assert_string_equal(seen.text[0], "mem firing ");
    assert_string_equal(seen.text[1], "mem ok rule changed");
    assert_string_equal(seen.text[2], "mem firing ");
    set_close(&t);
}

/* -- rules that cannot keep up -- */

struct behind {
    struct set *t;
    double second; /* of the first batch */
    struct rules_stats stats;
};

/* While the engine is held, as by a rule that takes long: 24 batches come, and each is durable
 * though nobody judges. */
static void batches_come(void *ctx, struct rules_judge *j, const struct rules_conf *c)
{
    struct behind *x = ctx;

    (void)j;
    (void)c;
    for (int i = 0; i < 24; i++) {
        batch_put(x->t, x->second + 10.0 * i, i >= 8 && i < 16 ? 10 : 1);
    }
    rules_live_stats(x->t->live, &x->stats);
}

static void none_come(void *ctx, struct rules_judge *j, const struct rules_conf *c)
{
    (void)ctx;
    (void)j;
    (void)c;
}

/* Until they have been judged up to now. */
static void whole_wait(struct set *t)
{
    int64_t end_ns = os_mono_ns() + PATIENCE;
    bool whole = false;
    struct errmsg why;

    while (!rules_live_with(t->live, none_come, NULL, &whole, &why) || !whole) {
        assert_true(os_mono_ns() < end_ns);
        os_sleep_ns(5 * CLK_MS);
    }
}

struct steps {
    size_t n;
    int64_t at_ns[IDS];
    unsigned states[IDS];
};

static bool step_seen(void *ctx, const struct rules_found *f)
{
    struct steps *s = ctx;

    assert_true(s->n < IDS);
    s->at_ns[s->n] = f->notice->step_ns;
    s->states[s->n++] = f->notice->state;
    return true;
}

/* What the rule said, in steps from the first batch. */
static struct rules_stats what_is_told(struct steps *out, size_t queue_max)
{
    const struct rules_ask all = {.since_ns = INT64_MIN, .until_ns = INT64_MAX};
    int64_t now_ns = os_utc_ns() / (10 * CLK_S) * (10 * CLK_S);
    struct rules_stats stats;
    struct errmsg why;
    struct seen seen;
    struct set t;
    struct behind x = {.t = &t, .second = second_of(now_ns)};
    bool whole;

    set_open(&t, "rules: [{name: mem, when: 'min(private_bytes, 30s) > 5B'}]\n");
    for (int i = -30; i < 0; i++) {
        batch_put(&t, second_of(now_ns) + 10.0 * i, 1);
    }
    live_start_with(&t, queue_max);
    whole_wait(&t);
    assert_true(rules_live_with(t.live, batches_come, &x, &whole, &why));
    whole_wait(&t);
    notices_wait(&t, 2, &seen);
    *out = (struct steps){0};
    assert_ok(rules_db_notices(t.db, &all, step_seen, out));
    for (size_t i = 0; i < out->n; i++) {
        out->at_ns[i] -= now_ns;
    }
    rules_live_stats(t.live, &stats);
    set_close(&t);
    assert_int_equal(x.stats.behind, x.stats.left_out > 0); /* said while they wait */
    assert_int_equal(stats.behind, 0);
    return stats;
}

static void rules_that_cannot_keep_up_slow_nothing_and_say_the_same_later(void **state)
{
    struct steps told, late;
    struct rules_stats stats = what_is_told(&told, 0);

    assert_int_equal(stats.left_out, 0);
    assert_int_equal(told.n, 2);
    assert_int_equal(told.states[0], NOTICE_FIRING);
    assert_int_equal(told.at_ns[0], 110 * CLK_S); /* 30 s of more than 5 B */
    assert_int_equal(support_dir_teardown(state), 0);
    assert_int_equal(support_dir_setup(state), 0);
    stats = what_is_told(&late, room * 9 / 2);
    assert_in_range(stats.left_out, 12, 20); /* four have room, and as many are being taken */
    assert_int_equal(stats.failed, 0);
    assert_int_equal(late.n, told.n);
    assert_memory_equal(late.at_ns, told.at_ns, sizeof told.at_ns);
    assert_memory_equal(late.states, told.states, sizeof told.states);
}

/* A batch that nobody has any more, as one that cannot be read back. */
static void what_never_comes_makes_it_unknown_and_not_ok(void **state)
{
    int64_t now_ns = os_utc_ns() / (10 * CLK_S) * (10 * CLK_S);
    struct set t;
    static struct seen seen;

    set_open(&t, "rules: [{name: mem, when: 'min(private_bytes, 30s) > 5B', for: 10s}]\n");
    for (int i = -30; i < 12; i++) {
        if (i < 4 || i > 6) {
            batch_put(&t, second_of(now_ns) + 10.0 * i, 10);
        } else {
            t.seq++;
        }
        if (i == 0) {
            live_start(&t);
        }
    }
    notices_wait(&t, 2, &seen);
    assert_string_equal(seen.text[0], "mem firing ");
    assert_true(strncmp(seen.text[1], "mem unknown", 11) == 0);
    for (size_t i = 0; i < seen.n; i++) {
        assert_null(strstr(seen.text[i], "mem ok"));
    }
    set_close(&t);
}

/* Two starts within a minute: what waited for the first is still not late after the second. */
static void what_waits_for_two_starts_is_not_late(void **state)
{
    static const struct rules_up ups[] = {
        {0, 100 * CLK_S, 0, 0}, {110 * CLK_S, 130 * CLK_S, 0, 0}, {140 * CLK_S, 150 * CLK_S, 0, 0}};

    assert_true(rules_db_deadline(ups, 3, 50 * CLK_S, 30 * CLK_S) == 80 * CLK_S);
    assert_true(rules_db_deadline(ups, 3, 80 * CLK_S, 30 * CLK_S) == 200 * CLK_S);
    assert_true(rules_db_deadline(ups, 2, 80 * CLK_S, 30 * CLK_S) == 170 * CLK_S);
    assert_true(rules_db_deadline(ups, 3, 180 * CLK_S, 30 * CLK_S) == 210 * CLK_S);
}

int main(void)
{
#define T(f) \
    cmocka_unit_test_prestate_setup_teardown(f, support_dir_setup, support_dir_teardown, dir)
    const struct CMUnitTest tests[] = {
        T(more_notices_than_are_sent_at_once_arrive_in_order_each_once),
        T(a_changed_rule_that_holds_at_once_fires_anew),
        T(rules_that_cannot_keep_up_slow_nothing_and_say_the_same_later),
        T(what_never_comes_makes_it_unknown_and_not_ok),
        cmocka_unit_test(what_waits_for_two_starts_is_not_late),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
