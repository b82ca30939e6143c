#include "tests/support/t.h"

#include "agent/process/instances.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

static const struct instances_conf roomy = {
    .instances_max = 100, .threads_max = 1000, .text_max = 10000, .grace_ns = 10 * CLK_S};

static struct instances *table_of(const struct instances_conf *conf)
{
    struct instances *t;

    assert_ok(instances_create(&t, conf));
    return t;
}

static struct proc_info info_of(uint32_t pid, uint64_t start, const char *name)
{
    return (struct proc_info){.id = {pid, start}, .name = str_make(name)};
}

static struct instance *add(struct instances *t, uint32_t pid, uint64_t start)
{
    struct proc_info info = info_of(pid, start, "x");
    struct instance *p;

    assert_ok(instances_add(t, &info, &p));
    return p;
}

static void end_at(struct instances *t, struct instance *p, int64_t mono_ns)
{
    instances_end(t, p, &(struct proc_info){0}, mono_ns);
    p->row.final_done = true;
}

static void a_reused_pid_belongs_to_the_newest_instance(void **state)
{
    struct instances *t = table_of(&roomy);
    struct instance *a = add(t, 8, 100), *b;

    end_at(t, a, 0);
    b = add(t, 8, 200);
    assert_ptr_equal(instances_owner(t, 8), b);
    assert_ptr_equal(instances_find(t, (struct proc_id){8, 100}), a);
    assert_ptr_equal(instances_find(t, (struct proc_id){8, 200}), b);
    assert_null(instances_find(t, (struct proc_id){8, 300}));
    assert_int_equal(instances_stats(t)->reused, 1);
    instances_destroy(t);
}

static void an_ended_instance_is_findable_for_its_grace_and_not_longer(void **state)
{
    struct instances *t = table_of(&roomy);
    struct instance *p = add(t, 8, 100);

    assert_ok(instances_thread_start(t, 80, p));
    end_at(t, p, 5 * CLK_S);
    instances_expire(t, 15 * CLK_S);
    assert_ptr_equal(instances_thread(t, 80), p);
    instances_expire(t, 15 * CLK_S + 1);
    assert_null(instances_thread(t, 80));
    assert_null(instances_owner(t, 8));
    p = add(t, 9, 1); /* takes over the slot */
    assert_null(instances_thread(t, 80));
    assert_null(instances_owner(t, 8));
    assert_ptr_equal(instances_owner(t, 9), p);
    instances_destroy(t);
}

static void a_kept_instance_stays_in_the_list_and_loses_its_numbers(void **state)
{
    struct instances_conf keep = roomy;
    struct instances *t;
    struct instance *p, *q;

    keep.keep = true;
    assert_ok(instances_create(&t, &keep));
    p = add(t, 8, 1);
    assert_ok(instances_thread_start(t, 80, p));
    end_at(t, p, 0);
    instances_expire(t, keep.grace_ns);
    assert_ptr_equal(instances_owner(t, 8), p);
    assert_ptr_equal(instances_thread(t, 80), p);
    instances_expire(t, keep.grace_ns + 1);
    instances_expire(t, keep.grace_ns + 2);
    assert_null(instances_owner(t, 8));
    assert_null(instances_thread(t, 80));
    assert_ptr_equal(instances_first_ended(t), p);
    q = add(t, 8, 2);
    end_at(t, q, keep.grace_ns + 5);
    assert_ptr_equal(instances_owner(t, 8), q);
    instances_expire(t, 3 * keep.grace_ns);
    assert_null(instances_owner(t, 8));
    assert_ptr_equal(instances_first_ended(t)->next, q);
    instances_destroy(t);
}

static void an_instance_without_its_last_row_is_not_forgotten(void **state)
{
    struct instances *t = table_of(&roomy);
    struct instance *p = add(t, 8, 100);

    instances_end(t, p, &(struct proc_info){0}, 0);
    instances_expire(t, 100 * CLK_S);
    assert_ptr_equal(instances_owner(t, 8), p);
    instances_destroy(t);
}

static void forgetting_the_older_instance_leaves_the_newer(void **state)
{
    struct instances *t = table_of(&roomy);
    struct instance *a = add(t, 8, 100), *b;

    end_at(t, a, 0);
    b = add(t, 8, 200);
    instances_expire(t, 11 * CLK_S);
    assert_null(instances_find(t, (struct proc_id){8, 100}));
    assert_ptr_equal(instances_owner(t, 8), b);
    assert_null(b->older);
    instances_destroy(t);
}

static void a_thread_belongs_to_who_started_it_last(void **state)
{
    struct instances *t = table_of(&roomy);
    struct instance *a = add(t, 8, 1), *b = add(t, 12, 1);

    assert_null(instances_thread(t, 80));
    assert_ok(instances_thread_start(t, 80, a));
    assert_ok(instances_thread_start(t, 84, a));
    assert_int_equal(a->threads, 2);
    instances_thread_stop(t, 80);
    assert_int_equal(a->threads, 1);
    assert_ptr_equal(instances_thread(t, 80), a); /* late records still find it */
    instances_thread_stop(t, 80);
    assert_int_equal(a->threads, 1);
    assert_ok(instances_thread_start(t, 80, b));
    assert_ok(instances_thread_start(t, 84, b)); /* its end was lost */
    assert_int_equal(a->threads, 0);
    assert_int_equal(b->threads, 2);
    assert_ptr_equal(instances_thread(t, 80), b);
    instances_destroy(t);
}

static void a_full_table_refuses_and_counts(void **state)
{
    struct instances_conf small = roomy;
    struct proc_info info = info_of(99, 1, "x");
    struct instance *p;
    struct instances *t;

    small.instances_max = 3;
    t = table_of(&small);
    p = add(t, 1, 1);
    (void)add(t, 2, 1);
    (void)add(t, 3, 1);
    assert_err(instances_add(t, &info, &p), ERR_FULL);
    assert_int_equal(instances_stats(t)->full, 1);
    end_at(t, instances_owner(t, 1), 0); /* its grace is not over, but its row is made */
    assert_ok(instances_add(t, &info, &p));
    assert_null(instances_owner(t, 1));
    instances_destroy(t);
}

static void an_update_adds_what_was_unknown_and_keeps_the_parent(void **state)
{
    struct instances *t = table_of(&roomy);
    struct proc_info info = info_of(8, 1, "sh");
    struct instance *p;

    info.have = INFO_PARENT;
    info.parent_pid = 4;
    assert_ok(instances_add(t, &info, &p));
    info.parent_pid = 1;
    instances_update(t, p, &info);
    assert_int_equal(p->info.parent_pid, 4);
    assert_int_equal(p->info_version, 1);

    info.name = str_make("make");
    info.have |= INFO_CREATE_TIME;
    info.create_ns = 77;
    instances_update(t, p, &info);
    assert_memory_equal(p->info.name.p, "make", 4);
    assert_int_equal(p->info.create_ns, 77);
    assert_int_equal(p->info_version, 2);
    instances_destroy(t);
}

static void an_account_has_its_name_once_it_is_known(void **state)
{
    static const struct {
        const char *told, *kept;
    } cases[] = {
        {"S-1-5-18", "S-1-5-18"},
        {"", "S-1-5-18"},
        {"S-1-5-19", "S-1-5-19"},
        {"NT AUTHORITY\\SYSTEM", "NT AUTHORITY\\SYSTEM"},
        {"S-1-5-18", "NT AUTHORITY\\SYSTEM"},
        {"joe", "joe"},
    };
    struct instances *t = table_of(&roomy);
    struct instance *p = add(t, 7, 1);

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct proc_info info = info_of(7, 1, "x");

        info.user = str_make(cases[i].told);
        instances_update(t, p, &info);
        assert_true(str_eq(p->info.user, str_make(cases[i].kept)));
    }
    instances_destroy(t);
}

static void text_beyond_the_limits_is_cut_between_characters_or_left_out(void **state)
{
    struct instances_conf small = roomy;
    char name[MODEL_TEXT_MAX + 2];
    struct proc_info info = {.id = {8, 1}};
    struct instance *p;
    struct instances *t;

    memset(name, 'a', sizeof name);
    memcpy(name + MODEL_TEXT_MAX - 1, "\xc3\xa4", 2);
    info.name = (struct str){name, MODEL_TEXT_MAX + 1};
    small.text_max = MODEL_TEXT_MAX + 10;
    t = table_of(&small);
    assert_ok(instances_add(t, &info, &p));
    assert_int_equal(p->info.name.n, MODEL_TEXT_MAX - 1);
    info.id.pid = 9;
    assert_ok(instances_add(t, &info, &p));
    assert_int_equal(p->info.name.n, 0);
    assert_int_equal(instances_stats(t)->text_full, 1);
    instances_destroy(t);
}

static void a_revived_instance_runs_again(void **state)
{
    struct instances *t = table_of(&roomy);
    struct instance *p = add(t, 8, 1);
    struct proc_info end = {.have = INFO_EXIT_TIME | INFO_EXIT_INFERRED, .exit_ns = 5};

    instances_end(t, p, &end, 5);
    assert_true(instances_ended(p));
    assert_int_equal(p->info.exit_ns, 5);
    instances_revive(t, p);
    assert_false(instances_ended(p));
    assert_int_equal(p->info.have, 0);
    assert_ptr_equal(instances_first_running(t), p);
    assert_null(instances_first_ended(t));
    instances_destroy(t);
}

static void creation_and_adding_survive_every_failing_allocation(void **state)
{
    struct proc_info info = info_of(8, 1, "name");
    long before = mem_live();
    bool done = false;

    for (long n = 0; !done; n++) {
        struct instances *t = NULL;
        struct instance *p;

        mem_fail_after(n);
        if (!instances_create(&t, &roomy)) {
            done = instances_add(t, &info, &p) == ERR_OK && p->info.name.n > 0;
        }
        instances_destroy(t);
        assert_int_equal(mem_live(), before);
        assert_true(n < 50);
    }
    mem_fail_after(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reused_pid_belongs_to_the_newest_instance),
        cmocka_unit_test(an_ended_instance_is_findable_for_its_grace_and_not_longer),
        cmocka_unit_test(a_kept_instance_stays_in_the_list_and_loses_its_numbers),
        cmocka_unit_test(an_instance_without_its_last_row_is_not_forgotten),
        cmocka_unit_test(forgetting_the_older_instance_leaves_the_newer),
        cmocka_unit_test(a_thread_belongs_to_who_started_it_last),
        cmocka_unit_test(a_full_table_refuses_and_counts),
        cmocka_unit_test(an_update_adds_what_was_unknown_and_keeps_the_parent),
        cmocka_unit_test(an_account_has_its_name_once_it_is_known),
        cmocka_unit_test(text_beyond_the_limits_is_cut_between_characters_or_left_out),
        cmocka_unit_test(a_revived_instance_runs_again),
        cmocka_unit_test(creation_and_adding_survive_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
