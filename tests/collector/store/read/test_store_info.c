#include <stdio.h>

#include "collector/store/memtable/head_info.h"
#include "collector/store/read/store_read.h"
#include "common/base/mem.h"
#include "tests/support/store_rig.h"
#include "tests/support/t.h"

#define S       INT64_C(1000000000)
#define BATCHES 90 /* of ten seconds: three windows */

static struct {
    struct rig rig;
    struct uuid boot;
    size_t n;
    struct inst {
        struct proc_id id;
        char name[64];
        int64_t first_ns, last_ns; /* ticks with it */
    } at[1024];                    /* every instance there was */
    struct store_view *v;
} x;

static void note_tick(const struct sample_tick *t)
{
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct proc_info *info = t->rows[i].info;
        size_t k = 0;

        while (k < x.n && !proc_id_eq(x.at[k].id, info->id)) {
            k++;
        }
        if (k == x.n) {
            assert_true(x.n < COUNT_OF(x.at));
            x.at[x.n++] = (struct inst){.id = info->id, .first_ns = t->wall_ns};
            (void)snprintf(x.at[k].name, sizeof x.at[k].name, "%.*s", (int)info->name.n,
                           info->name.p);
        }
        x.at[k].last_ns = t->wall_ns;
    }
}

/* A host with so many starts that the head soon forgets them; the last window is not sealed. */
static int setup(void **state)
{
    const struct fleetgen_conf conf = {
        .seed = 3, .processes = 20, .metrics = 2, .starts_per_hour = 1200, .begin_ns = RIG_T0};
    struct fleetgen *g = fleetgen_create(&conf), *same = fleetgen_create(&conf);

    rig_init(&x.rig);
    x.rig.conf.instances_max = 32;
    rig_open(&x.rig);
    x.boot = fleetgen_head(g)->boot;
    for (size_t i = 0; i < BATCHES; i++) {
        rig_put_next(&x.rig, g, 1);
        for (int k = 0; k < 10; k++) {
            note_tick(fleetgen_tick(same));
        }
        if (i == 70) {
            rig_set_now(RIG_T0 + 720 * S);
            assert_ok(store_seal_now(x.rig.store, INT64_MIN));
        }
    }
    fleetgen_destroy(g);
    fleetgen_destroy(same);
    return 0;
}

static int teardown(void **state)
{
    rig_fini(&x.rig);
    return 0;
}

static int open_view(void **state)
{
    assert_ok(store_view_open(&x.v, x.rig.store));
    return 0;
}

static int close_view(void **state)
{
    store_view_close(x.v);
    return 0;
}

static void the_dead_have_names(void **state)
{
    size_t sealed = 0;

    assert_true(x.n > 150);
    for (size_t i = 0; i < x.n; i++) {
        struct proc_info info, again;
        bool known = store_info(x.v, 0, &x.boot, x.at[i].id, &info);

        if (x.at[i].first_ns < RIG_T0 + 590 * S) {
            assert_true(known);
            sealed++;
        }
        if (known) {
            assert_int_equal(info.name.n, strlen(x.at[i].name));
            assert_memory_equal(info.name.p, x.at[i].name, info.name.n);
            assert_true(store_info(x.v, 0, &x.boot, x.at[i].id, &again));
            assert_ptr_equal(info.name.p, again.name.p); /* and stays so */
        }
    }
    assert_true(sealed > 100);
}

static void many_wanted_at_once_are_what_each_is(void **state)
{
    static struct proc_key keys[2 * COUNT_OF(x.at) + 1];
    struct store_view *each;
    size_t known = 0;

    assert_ok(store_view_open(&each, x.rig.store));
    for (size_t i = 0; i < x.n; i++) {
        keys[i] = (struct proc_key){x.at[i].id, x.boot};
        keys[x.n + 1 + i] = (struct proc_key){{x.at[i].id.pid, 0}, x.boot}; /* its latest */
    }
    keys[x.n] = (struct proc_key){{1000000, 7}, x.boot}; /* never was */
    store_info_want(x.v, 0, keys, 2 * x.n + 1);
    for (size_t i = 0; i < 2 * x.n + 1; i++) {
        struct proc_info many, one;
        bool is_known = store_info(x.v, 0, &x.boot, keys[i].id, &many);

        assert_int_equal(is_known, store_info(each, 0, &x.boot, keys[i].id, &one));
        if (is_known) {
            known++;
            assert_true(str_eq(many.name, one.name) && str_eq(many.image, one.image));
            assert_int_equal(many.have, one.have);
            assert_int_equal(many.exit_ns, one.exit_ns);
        }
    }
    assert_true(known > 200 && known <= 2 * x.n);
    store_view_close(each);
}

static void a_pid_alone_is_its_latest_instance(void **state)
{
    struct proc_info info;

    for (size_t i = 0; i < 5; i++) {
        struct proc_id id = {x.at[i].id.pid, 0};

        assert_true(store_info(x.v, 0, &x.boot, id, &info));
        assert_int_equal(info.id.pid, id.pid);
    }
}

static void nobody_knows_who_never_was(void **state)
{
    struct uuid other = {{0xee}};
    struct proc_info info;

    for (uint32_t i = 0; i < 100; i++) {
        assert_false(store_info(x.v, 0, &x.boot, (struct proc_id){1000000 + i, 7}, &info));
    }
    assert_false(store_info(x.v, 0, &other, x.at[0].id, &info));
}

/* Asked for one by one, then all at once. */
static void in_brief_all_is_known_but_path_and_command_line(void **state)
{
    struct store_view *other;
    size_t known = 0, lines = 0;

    assert_ok(store_view_open(&other, x.rig.store));
    for (size_t i = 0; i < x.n; i++) {
        struct proc_info brief, whole, again;
        bool is_known = store_info_brief(x.v, 0, &x.boot, x.at[i].id, &brief);

        assert_int_equal(is_known, store_info(other, 0, &x.boot, x.at[i].id, &whole));
        if (!is_known) {
            continue;
        }
        known++;
        assert_true(str_eq(brief.name, whole.name));
        assert_true(str_eq(brief.user, whole.user) && brief.parent_pid == whole.parent_pid);
        assert_true(brief.create_ns == whole.create_ns && brief.exit_ns == whole.exit_ns);
        assert_true(store_info(x.v, 0, &x.boot, x.at[i].id, &again));
        assert_true(str_eq(again.command_line, whole.command_line) && again.have == whole.have);
        assert_true(str_eq(again.image, whole.image));
        lines += whole.command_line.n > brief.command_line.n;
    }
    assert_true(known > 100 && lines > 50);
    store_view_close(other);
}

static void outside_the_range_is_not_looked_for(void **state)
{
    struct proc_info info;
    size_t found = 0, before = 0;

    for (size_t i = 0; i < x.n; i++) {
        before += store_info(x.v, 0, &x.boot, x.at[i].id, &info);
    }
    store_info_range(x.v, RIG_T0 - 86400 * S, RIG_T0 - 86399 * S);
    for (size_t i = 0; i < x.n; i++) {
        found += store_info(x.v, 0, &x.boot, x.at[i].id, &info);
    }
    assert_true(found <= 32);
    store_info_range(x.v, INT64_MIN, INT64_MAX); /* and then it is, all the same */
    found = 0;
    for (size_t i = 0; i < x.n; i++) {
        found += store_info(x.v, 0, &x.boot, x.at[i].id, &info);
    }
    assert_true(found == before && found > 100);
}

struct seen {
    size_t n;
    struct proc_id id[2048];
};

static enum err see(void *ctx, const struct uuid *boot, const struct proc_info *info)
{
    struct seen *s = ctx;

    assert_memory_equal(boot, &x.boot, sizeof *boot);
    assert_true(s->n < COUNT_OF(s->id));
    for (size_t i = 0; i < s->n; i++) {
        assert_false(proc_id_eq(s->id[i], info->id)); /* each once */
    }
    s->id[s->n++] = info->id;
    return ERR_OK;
}

static bool has(const struct seen *s, struct proc_id id)
{
    for (size_t i = 0; i < s->n; i++) {
        if (proc_id_eq(s->id[i], id)) {
            return true;
        }
    }
    return false;
}

static void every_instance_of_a_span_is_told_once(void **state)
{
    static struct seen s;

    for (int64_t since_s = 0; since_s < 580; since_s += 37) {
        for (int64_t span_s = 1; span_s < 400; span_s *= 7) {
            const struct store_instances ask = {.since_ns = RIG_T0 + since_s * S,
                                                .until_ns = RIG_T0 + (since_s + span_s) * S,
                                                .brief = since_s % 2 != 0};
            size_t expected = 0;

            s.n = 0;
            assert_ok(store_info_each(x.v, 0, &ask, see, &s));
            for (size_t i = 0; i < x.n; i++) {
                bool in = x.at[i].first_ns < ask.until_ns && x.at[i].last_ns >= ask.since_ns;

                if (in && x.at[i].first_ns < RIG_T0 + 580 * S) {
                    assert_true(has(&s, x.at[i].id));
                }
                expected += in;
            }
            /* Up to a tick before and after, they live without being seen. */
            assert_true(s.n <= expected + 4);
        }
    }
}

static void one_pid_can_be_asked_for(void **state)
{
    static struct seen s;
    struct store_instances ask = {.until_ns = INT64_MAX, .has_pid = true};

    for (size_t i = 0; i < x.n && x.at[i].first_ns < RIG_T0 + 580 * S; i++) {
        ask.pid = x.at[i].id.pid;
        ask.start = x.at[i].id.start;
        s.n = 0;
        assert_ok(store_info_each(x.v, 0, &ask, see, &s));
        assert_int_equal(s.n, 1);
        assert_true(proc_id_eq(s.id[0], x.at[i].id));
    }
}

static enum err stop(void *ctx, const struct uuid *boot, const struct proc_info *info)
{
    (void)boot;
    (void)info;
    ++*(int *)ctx;
    return ERR_END;
}

static void a_caller_who_has_enough_ends_it(void **state)
{
    const struct store_instances ask = {.until_ns = INT64_MAX};
    int calls = 0;

    assert_err(store_info_each(x.v, 0, &ask, stop, &calls), ERR_END);
    assert_int_equal(calls, 1);
}

static void it_is_the_same_after_reopening(void **state)
{
    rig_close(&x.rig);
    rig_open(&x.rig);
    open_view(state);
    the_dead_have_names(state);
    every_instance_of_a_span_is_told_once(state);
    close_view(state);
}

/* One tick at that second, and what it tells besides. */
static void put_telling(struct rig *r, uint64_t seq, int64_t second, struct batch b)
{
    const int64_t ns = RIG_T0 + second * S;
    struct rig_batch out = {.host_name = "late", .received_ns = ns + S};
    struct wire_encoder *enc;
    struct buf bytes;

    b.head = (struct batch_head){.host = {{7}}, .boot = {{8}}, .stream = 9, .seq = seq};
    b.n_ticks = 1;
    b.wall_ns = b.mono_ns = &ns;
    out.head = b.head;
    buf_init(&bytes, WIRE_BATCH_BYTES_MAX);
    assert_ok(wire_batch_encoder_create(&enc));
    assert_ok(wire_batch_encode(enc, &bytes, &b));
    wire_batch_encoder_destroy(enc);
    out.bytes = bytes.p;
    out.n = bytes.n;
    assert_ok(rig_put(r, &out));
    rig_batch_fini(&out);
}

static void all_is_known_after_a_start_though_a_late_event_has_but_the_name(void **state)
{
    static const struct proc_info whole = {.id = {40, 4000},
                                           .have = INFO_CREATE_TIME | INFO_COMMAND_LINE_KNOWN,
                                           .origin = ORIGIN_START,
                                           .create_ns = RIG_T0 + 2 * S,
                                           .name = {"a-long-name.exe", 15},
                                           .image = {"/opt/a-long-name.exe", 20},
                                           .command_line = {"a-long-name.exe -x", 18},
                                           .user = {"ann", 3}};
    const struct life_event unload = {.kind = LIFE_IMAGE_UNLOAD,
                                      .wall_ns = RIG_T0 + 320 * S,
                                      .info = {.id = whole.id, .name = {"a-long-name.exe", 15}},
                                      .text = {"/lib/x.so", 9}};
    const struct uuid boot = {{8}};
    const struct proc_key key = {whole.id, boot};
    struct proc_info before, brief, after;
    struct rig r;

    rig_init(&r);
    rig_open(&r);
    put_telling(&r, 1, 5, (struct batch){.n_infos = 1, .infos = &whole});
    put_telling(&r, 2, 320, (struct batch){.n_events = 1, .events = &unload});
    rig_set_now(RIG_T0 + 400 * S);
    assert_ok(store_seal_now(r.store, RIG_T0 + 300 * S));
    assert_ok(store_view_open(&x.v, r.store));
    assert_true(store_info(x.v, 0, &boot, whole.id, &before));
    assert_true(head_info_same(&before, &whole));
    store_view_close(x.v);
    rig_close(&r);
    rig_open(&r);
    for (int wanted = 0; wanted < 2; wanted++) {
        assert_ok(store_view_open(&x.v, r.store));
        if (wanted) {
            store_info_want(x.v, 0, &key, 1);
        }
        assert_true(store_info_brief(x.v, 0, &boot, whole.id, &brief));
        assert_true(str_eq(brief.user, whole.user) && str_eq(brief.name, whole.name));
        assert_true(store_info(x.v, 0, &boot, (struct proc_id){40, 0}, &after));
        assert_true(head_info_same(&after, &whole));
        store_view_close(x.v);
    }
    rig_fini(&r);
    rig_set_now(RIG_T0 + 720 * S);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_view, close_view)
    const struct CMUnitTest tests[] = {
        T(the_dead_have_names),
        T(many_wanted_at_once_are_what_each_is),
        T(a_pid_alone_is_its_latest_instance),
        T(nobody_knows_who_never_was),
        T(in_brief_all_is_known_but_path_and_command_line),
        T(outside_the_range_is_not_looked_for),
        T(every_instance_of_a_span_is_told_once),
        T(one_pid_can_be_asked_for),
        T(a_caller_who_has_enough_ends_it),
        cmocka_unit_test(it_is_the_same_after_reopening),
        cmocka_unit_test(all_is_known_after_a_start_though_a_late_event_has_but_the_name),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
