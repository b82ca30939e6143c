#include "collector/store/memtable/head.h"

#include <stdio.h>
#include <string.h>

#include "collector/store/batch_time.h"
#include "common/base/mem.h"
#include "tests/support/t.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WORDY_INSTANCES 3000u /* the preset release takes them all */
#else
#define WORDY_INSTANCES 18000u
#endif

/* -- what is known of an instance -- */

static struct str text(const char *s)
{
    return str_make(s);
}

static void what_is_known_grows_whatever_the_order(void **state)
{
    static const struct proc_info birth = {.id = {4, 9},
                                           .have = INFO_PARENT | INFO_CREATE_TIME |
                                                   INFO_COMMAND_LINE_KNOWN,
                                           .origin = ORIGIN_START,
                                           .parent_pid = 1,
                                           .create_ns = 100,
                                           .name = {"a.exe", 5},
                                           .command_line = {"a.exe -x", 8}};
    static const struct proc_info death = {.id = {4, 9},
                                           .have = INFO_EXIT_TIME | INFO_EXIT_CODE | INFO_EXITED |
                                                   INFO_FINAL_TOTALS,
                                           .origin = ORIGIN_SNAPSHOT,
                                           .cpu_origin = CPU_ORIGIN_TIMES,
                                           .exit_code = 7,
                                           .exit_ns = 900};

    for (int order = 0; order < 2; order++) {
        struct proc_info known = order ? death : birth;

        head_info_join(&known, order ? &birth : &death, !order);
        assert_int_equal(known.have, birth.have | death.have);
        assert_int_equal(known.origin, ORIGIN_START);
        assert_int_equal(known.cpu_origin, CPU_ORIGIN_TIMES);
        assert_int_equal(known.parent_pid, 1);
        assert_int_equal(known.create_ns, 100);
        assert_int_equal(known.exit_ns, 900);
        assert_int_equal(known.exit_code, 7);
        assert_true(str_eq(known.name, text("a.exe")));
        assert_true(str_eq(known.command_line, text("a.exe -x")));
    }
}

static void an_exact_exit_time_wins_over_an_inferred_one(void **state)
{
    static const struct proc_info exact = {
        .id = {4, 9}, .have = INFO_EXIT_TIME | INFO_EXITED, .exit_ns = 900};
    static const struct proc_info guess = {
        .id = {4, 9}, .have = INFO_EXIT_TIME | INFO_EXITED | INFO_EXIT_INFERRED, .exit_ns = 1000};

    for (int order = 0; order < 2; order++) {
        struct proc_info known = order ? exact : guess;

        head_info_join(&known, order ? &guess : &exact, true);
        assert_int_equal(known.exit_ns, 900);
        assert_false(known.have & INFO_EXIT_INFERRED);
    }
}

static void text_of_a_later_batch_replaces_and_empty_text_does_not(void **state)
{
    struct proc_info known = {.name = {"bash", 4}, .user = {"root", 4}};
    struct proc_info news = {.name = {"ls", 2}};

    head_info_join(&known, &news, true);
    assert_true(str_eq(known.name, text("ls")));
    assert_true(str_eq(known.user, text("root")));
    news.name = text("late");
    head_info_join(&known, &news, false);
    assert_true(str_eq(known.name, text("ls")));
}

/* -- the table of instances -- */

static const struct uuid boot_1 = {{1}}, boot_2 = {{2}};

static void merge(struct head_infos *t, const struct uuid *boot, uint32_t pid, uint64_t start,
                  int64_t seen_ns)
{
    char name[32];
    struct proc_info info = {
        .id = {pid, start}, .have = INFO_CREATE_TIME, .create_ns = (int64_t)start};

    snprintf(name, sizeof name, "p%u.exe", (unsigned)pid % 5);
    info.name = str_make(name);
    assert_ok(head_infos_merge(t, boot, &info, seen_ns));
}

static void every_instance_is_found_in_any_order_of_arrival(void **state)
{
    enum { N = 3001 }; /* prime: i * 1999 % N visits all */
    struct head_infos *t;
    struct proc_info found;
    struct head_infos_snap *s;

    assert_ok(head_infos_create(&t, 10000));
    for (uint32_t i = 0; i < N; i++) {
        uint32_t k = i * 1999 % N;

        merge(t, k % 2 ? &boot_1 : &boot_2, k / 4, 10 + k % 4 / 2, 5);
    }
    assert_int_equal(head_infos_count(t), N);
    assert_ok(head_infos_snapshot(t, &s));
    for (uint32_t k = 0; k < N; k++) {
        const struct uuid *boot = k % 2 ? &boot_1 : &boot_2;
        struct proc_id id = {k / 4, 10 + k % 4 / 2}, any = {k / 4, 0};

        assert_true(head_infos_find(s, boot, id, &found));
        assert_true(proc_id_eq(found.id, id));
        assert_true(head_infos_find(s, boot, any, &found));
        assert_int_equal(found.id.pid, k / 4);
        assert_true(found.id.start == 11 || k / 4 == N / 4);
    }
    assert_false(head_infos_find(s, &boot_1, (struct proc_id){N, 0}, &found));
    assert_false(head_infos_find(s, &boot_1, (struct proc_id){1, 12}, &found));
    assert_false(head_infos_find(s, &(struct uuid){{3}}, (struct proc_id){1, 0}, &found));
    assert_false(head_infos_find(s, &(struct uuid){{0}}, (struct proc_id){1, 0}, &found));
    head_infos_snap_unref(s);
    head_infos_destroy(t);
}

static void the_latest_of_a_pid_over_all_boots_is_the_last_created(void **state)
{
    struct head_infos *t;
    struct proc_info found;
    struct head_infos_snap *s;

    assert_ok(head_infos_create(&t, 100));
    merge(t, &boot_1, 4, 500, 1);
    merge(t, &boot_1, 4, 200, 1);
    merge(t, &boot_2, 4, 300, 1);
    assert_ok(head_infos_snapshot(t, &s));
    assert_true(head_infos_find(s, &boot_1, (struct proc_id){.pid = 4}, &found));
    assert_int_equal(found.id.start, 500);
    assert_false(head_infos_find(s, &boot_1, (struct proc_id){.pid = 5}, &found));
    head_infos_snap_unref(s);
    head_infos_destroy(t);
}

static void a_snapshot_stays_as_it_was(void **state)
{
    struct head_infos *t;
    struct proc_info found;
    struct head_infos_snap *before, *after;
    struct proc_info exit = {.id = {7, 7}, .have = INFO_EXITED | INFO_EXIT_TIME, .exit_ns = 99};

    assert_ok(head_infos_create(&t, 100));
    merge(t, &boot_1, 7, 7, 1);
    assert_ok(head_infos_snapshot(t, &before));
    assert_ok(head_infos_snapshot(t, &after));
    assert_ptr_equal(before, after); /* nothing changed: shared */
    head_infos_snap_unref(after);
    assert_ok(head_infos_merge(t, &boot_1, &exit, 2));
    for (uint32_t pid = 1000; pid < 1090; pid++) {
        merge(t, &boot_1, pid, 1, 1);
    }
    assert_ok(head_infos_snapshot(t, &after));
    head_infos_destroy(t);
    assert_true(head_infos_find(before, &boot_1, exit.id, &found));
    assert_false(found.have & INFO_EXITED);
    assert_true(str_eq(found.name, text("p2.exe")));
    assert_false(head_infos_find(before, &boot_1, (struct proc_id){1000, 1}, &found));
    assert_true(head_infos_find(after, &boot_1, exit.id, &found));
    assert_true(found.have & INFO_EXITED);
    head_infos_snap_unref(before);
    head_infos_snap_unref(after);
}

static void the_limit_costs_those_that_ended_first(void **state)
{
    struct head_infos *t;
    struct proc_info found;
    struct head_infos_snap *s;
    struct proc_info exit = {.have = INFO_EXITED | INFO_EXIT_TIME};

    assert_ok(head_infos_create(&t, 80));
    for (uint32_t pid = 1; pid <= 80; pid++) {
        merge(t, &boot_1, pid, 1, 1000 + pid);
    }
    for (uint32_t pid = 60; pid < 75; pid++) { /* 15 ended, 60 first */
        exit.id = (struct proc_id){pid, 1};
        exit.exit_ns = 2000 + pid;
        assert_ok(head_infos_merge(t, &boot_1, &exit, 3000));
    }
    merge(t, &boot_1, 500, 1, 3000);
    assert_int_equal(head_infos_count(t), 71);
    assert_int_equal(head_infos_evicted(t), 10);
    assert_ok(head_infos_snapshot(t, &s));
    for (uint32_t pid = 1; pid <= 80; pid++) {
        bool gone = pid >= 60 && pid < 70;

        assert_int_equal(head_infos_find(s, &boot_1, (struct proc_id){pid, 1}, &found), !gone);
    }
    assert_true(head_infos_find(s, &boot_1, (struct proc_id){500, 1}, &found));
    head_infos_snap_unref(s);
    for (uint32_t pid = 501; pid < 520; pid++) { /* the last five that ended, then the oldest */
        merge(t, &boot_1, pid, 1, 3000);
    }
    assert_ok(head_infos_snapshot(t, &s));
    assert_false(head_infos_find(s, &boot_1, (struct proc_id){74, 1}, &found));
    assert_false(head_infos_find(s, &boot_1, (struct proc_id){1, 1}, &found));
    assert_true(head_infos_find(s, &boot_1, (struct proc_id){80, 1}, &found));
    head_infos_snap_unref(s);
    head_infos_destroy(t);
}

static void text_that_changes_for_ever_takes_no_more_room(void **state)
{
    struct head_infos *t;
    struct proc_info found;
    long before = mem_live();

    assert_ok(head_infos_create(&t, 100));
    for (int i = 0; i < 10000; i++) {
        struct proc_info info = {.id = {1, 10}, .have = INFO_COMMAND_LINE_KNOWN};
        struct head_infos_snap *snap;
        char line[32];

        snprintf(line, sizeof line, "worker: request %d", i);
        info.command_line = text(line);
        assert_ok(head_infos_merge(t, &boot_1, &info, i));
        assert_ok(head_infos_snapshot(t, &snap));
        assert_true(head_infos_find(snap, &boot_1, info.id, &found));
        assert_true(str_eq(found.command_line, text(line)));
        head_infos_snap_unref(snap);
    }
    assert_in_range(mem_live() - before, 1, 200);
    head_infos_destroy(t);
    assert_int_equal(mem_live(), before);
}

static void merging_survives_every_allocation_failing(void **state)
{
    long held = mem_live();

    for (long n = 0;; n++) {
        struct head_infos *t = NULL;
        struct head_infos_snap *s = NULL;
        enum err e;

        mem_fail_after(n);
        e = head_infos_create(&t, 130);
        for (uint32_t pid = 1; pid < 150 && !e; pid++) {
            struct proc_info info = {.id = {pid, 1}, .name = text("n"), .user = text("u")};

            e = head_infos_merge(t, &boot_1, &info, pid);
            if (!e && pid % 40 == 0) {
                head_infos_snap_unref(s);
                s = NULL;
                e = head_infos_snapshot(t, &s);
            }
        }
        mem_fail_after(-1);
        head_infos_destroy(t);
        head_infos_snap_unref(s);
        assert_int_equal(mem_live(), held);
        if (e == ERR_OK) {
            assert_true(n > 150);
            break;
        }
        assert_err(e, ERR_NOMEM);
    }
}

/* -- the head -- */

struct dropped {
    uint64_t files[64];
    size_t n;
};

static void note_drop(void *ctx, uint64_t file)
{
    struct dropped *d = ctx;

    assert_true(d->n < COUNT_OF(d->files));
    d->files[d->n++] = file;
}

static struct dedup_counts *counts_create(void)
{
    struct dedup_counts *c = mem_zalloc(sizeof *c);

    atomic_init(&c->refs, 1);
    return c;
}

/* Appends a batch of `size` bytes of host h at time t. */
static void append(struct head *h, uint8_t host, const char *name, int64_t t_ns, size_t size)
{
    struct batch b = {.head = {.host = {{host}}, .boot = boot_1, .source = text("proc")},
                      .n_ticks = 1,
                      .wall_ns = &t_ns,
                      .mono_ns = &t_ns};
    static const uint8_t zeros[4096];
    struct head_batch *kept;
    struct head_host *to;

    assert_ok(head_batch_create(&kept, zeros, size));
    batch_time_span(&b, 0, &kept->t0_ns, &kept->t1_ns);
    kept->made_ns = kept->t1_ns;
    kept->received_ns = t_ns;
    kept->file = (uint64_t)t_ns;
    kept->seq = (uint64_t)t_ns;
    kept->window_ns = t_ns / 100 * 100;
    kept->memory = size;
    assert_ok(head_reserve(h, &to, name, &b, counts_create(), kept));
    head_append(h, to, &b, kept);
}

static struct head *head_with(struct dropped *d)
{
    struct head_conf conf = {.instances_max = 100, .on_release = note_drop, .ctx = d};
    struct head *h;

    assert_ok(head_create(&h, &conf));
    return h;
}

static size_t held(struct head *h)
{
    struct head_state *s = head_view(h);
    size_t total = 0;

    for (size_t i = 0; i < head_view_hosts(s); i++) {
        const struct head_batch **list;
        size_t n;

        assert_ok(head_view_batches(s, i, INT64_MIN, INT64_MAX, &list, &n));
        total += n;
        mem_free(list);
    }
    head_view_release(s);
    return total;
}

static void nothing_is_seen_before_it_is_published(void **state)
{
    struct dropped d = {.n = 0};
    struct head *h = head_with(&d);

    append(h, 1, "one", 10, 100);
    assert_int_equal(held(h), 0);
    assert_ok(head_prepare(h));
    assert_int_equal(held(h), 0);
    head_publish(h);
    assert_int_equal(held(h), 1);
    head_destroy(h);
}

/* So many instances more of a host, each with a command line of its own, half of them ended. */
static void tell(struct head *h, uint8_t host, uint32_t first, uint32_t n, size_t line)
{
    static char lines[100][4096];
    struct proc_info infos[100];
    int64_t t_ns = first + 1;
    struct batch b = {.head = {.host = {{host}}, .boot = boot_1, .source = text("proc")},
                      .n_ticks = 1,
                      .wall_ns = &t_ns,
                      .mono_ns = &t_ns,
                      .n_infos = n,
                      .infos = infos};
    char name[8];
    struct head_batch *kept;
    struct head_host *to;

    for (uint32_t i = 0; i < n; i++) {
        memset(lines[i], 'x', sizeof lines[i]);
        (void)snprintf(lines[i], sizeof lines[i], "%u-%u", (unsigned)host, (unsigned)(first + i));
        lines[i][strlen(lines[i])] = ' ';
        infos[i] = (struct proc_info){.id = {first + i, 1},
                                      .have = INFO_COMMAND_LINE_KNOWN |
                                              (i % 2 ? INFO_EXITED | INFO_EXIT_TIME : 0u),
                                      .exit_ns = i % 2 ? t_ns : 0,
                                      .name = text("one"),
                                      .command_line = {lines[i], line}};
    }
    (void)snprintf(name, sizeof name, "h-%u", (unsigned)host);
    assert_ok(head_batch_create(&kept, lines, 16));
    kept->seq = first + 1;
    kept->made_ns = kept->t0_ns = kept->t1_ns = kept->received_ns = t_ns;
    assert_ok(head_reserve(h, &to, name, &b, counts_create(), kept));
    head_append(h, to, &b, kept);
}

static void wordy_hosts_take_no_more_together_than_they_may_and_cost_no_other(void **state)
{
    const uint64_t all = 4u << 20, one = 3u << 20;
    struct head_conf conf = {.instances_max = 16384, .info_host_max = one, .info_max = all};
    struct head_stats stats;
    struct head_state *s;
    struct proc_info found;
    struct head *h;

    assert_ok(head_create(&h, &conf));
    tell(h, 9, 0, 100, 400); /* 40 KB */
    for (uint32_t first = 0; first < WORDY_INSTANCES; first += 100) {
        for (uint8_t host = 1; host <= 6; host++) {
            tell(h, host, first, 100, 4096);
            head_stats(h, &stats);
            assert_true(stats.info_bytes <= all);
        }
    }
    assert_true(stats.info_bytes > all / 4);
    assert_true(stats.info_gone > WORDY_INSTANCES * 5 / 2 && stats.info_cut > 0);
    assert_ok(head_prepare(h));
    head_publish(h);
    s = head_view(h);
    assert_int_equal(head_view_hosts(s), 7);
    for (uint32_t pid = 0; pid < 100; pid++) { /* of the host that says little all is there */
        const struct head_infos_snap *infos = head_view_host(s, 6)->infos;

        assert_true(head_infos_find(infos, &boot_1, (struct proc_id){pid, 1}, &found));
        assert_int_equal(found.command_line.n, 400);
    }
    head_view_release(s);
    head_destroy(h);
}

static void hosts_stand_by_name_and_follow_a_new_name(void **state)
{
    struct dropped d = {.n = 0};
    struct head *h = head_with(&d);
    struct head_state *s;

    append(h, 1, "zeta", 10, 100);
    append(h, 2, "beta", 10, 100);
    append(h, 3, "beta", 10, 100);
    assert_ok(head_prepare(h));
    head_publish(h);
    s = head_view(h);
    assert_int_equal(head_view_host(s, 0)->id.b[0], 2);
    assert_int_equal(head_view_host(s, 1)->id.b[0], 3);
    assert_string_equal(head_view_host(s, 2)->name, "zeta");
    head_view_release(s);
    append(h, 1, "alpha", 11, 100);
    assert_ok(head_prepare(h));
    head_publish(h);
    s = head_view(h);
    assert_string_equal(head_view_host(s, 0)->name, "alpha");
    assert_int_equal(head_view_host(s, 0)->batches, 2);
    head_view_release(s);
    head_destroy(h);
}

static void windows_are_listed_oldest_first_over_all_hosts(void **state)
{
    struct dropped d = {.n = 0};
    struct head *h = head_with(&d);
    struct head_window *list;
    size_t n;

    append(h, 2, "b", 250, 100);
    append(h, 1, "a", 205, 100);
    append(h, 1, "a", 10, 100);
    for (int64_t t = 110; t < 110 + 2 * (int64_t)HEAD_CHUNK; t++) {
        append(h, 1, "a", t, 100);
    }
    assert_ok(head_windows(h, &list, &n));
    assert_int_equal(n, 3);
    assert_int_equal(list[0].window_ns, 0);
    assert_int_equal(list[1].window_ns, 100);
    assert_int_equal(list[1].batches, 2 * HEAD_CHUNK);
    assert_int_equal(list[1].received_ns, 110);
    assert_int_equal(list[2].batches, 2);
    assert_int_equal(list[2].received_ns, 205);
    mem_free(list);
    head_destroy(h);
}

static void what_is_taken_stays_until_released_and_later_batches_stay_apart(void **state)
{
    static const int64_t window = 100;
    struct dropped d = {.n = 0};
    struct head *h = head_with(&d);
    struct head_taken *t;
    struct head_stats stats;

    append(h, 1, "a", 101, 100);
    append(h, 1, "a", 201, 100);
    append(h, 2, "b", 102, 100);
    assert_ok(head_take(h, &t, &window, 1, UINT64_MAX));
    append(h, 1, "a", 103, 100); /* late: of the same window */
    assert_ok(head_prepare(h));
    head_publish(h);
    assert_int_equal(held(h), 4);
    assert_int_equal(head_taken_hosts(t), 2);
    assert_int_equal(head_taken_host(t, 0)->n, 1);
    assert_int_equal(head_taken_host(t, 0)->batches[0]->seq, 101);
    assert_string_equal(head_taken_host(t, 1)->name, "b");
    head_release(h, t);
    assert_ok(head_prepare(h));
    head_publish(h);
    assert_int_equal(held(h), 2);
    assert_int_equal(d.n, 2);
    assert_int_equal(d.files[0], 101);
    head_stats(h, &stats);
    assert_int_equal(stats.batches, 2);
    assert_int_equal(stats.hosts, 2); /* the second has nothing here any more, but is known */
    head_taken_destroy(t);
    assert_ok(head_take(h, &t, &window, 1, UINT64_MAX));
    assert_int_equal(head_taken_host(t, 0)->batches[0]->seq, 103);
    head_taken_destroy(t); /* given up: it can be taken again */
    assert_ok(head_take(h, &t, &window, 1, UINT64_MAX));
    head_release(h, t);
    head_taken_destroy(t);
    assert_err(head_take(h, &t, &window, 1, UINT64_MAX), ERR_NOTFOUND);
    head_destroy(h);
}

static void no_more_of_a_host_is_taken_at_once_than_memory_allows(void **state)
{
    static const int64_t window = 0;
    struct dropped d = {.n = 0};
    struct head *h = head_with(&d);
    struct head_taken *t;
    size_t taken = 0;

    for (int64_t i = 1; i <= 40; i++) {
        append(h, 1, "a", i, 100);
    }
    for (unsigned rounds = 0; rounds < 3; rounds++) {
        assert_ok(head_take(h, &t, &window, 1, 0));
        assert_in_range(head_taken_host(t, 0)->n, 1, HEAD_CHUNK);
        taken += head_taken_host(t, 0)->n;
        head_release(h, t);
        head_taken_destroy(t);
    }
    assert_int_equal(taken, 40);
    head_destroy(h);
}

static void a_host_is_known_as_long_as_something_of_it_is_sealed(void **state)
{
    static const int64_t windows[] = {0, 100};
    struct dropped d = {.n = 0};
    struct head *h = head_with(&d), *next;
    struct head_state *s;
    struct head_taken *t;
    struct head_record *list;
    size_t n;

    append(h, 1, "old", 10, 100);
    append(h, 2, "new", 110, 100);
    append(h, 2, "new", 220, 100); /* not taken: the log tells of it again */
    append(h, 3, "log", 230, 100);
    assert_ok(head_take(h, &t, windows, 2, UINT64_MAX));
    assert_ok(head_records(h, t, &list, &n));
    assert_int_equal(n, 2);
    assert_int_equal(list[1].batches, 1);
    assert_int_equal(list[1].held, 1);
    assert_int_equal(list[1].first_ns, 110);
    assert_int_equal(list[1].last_ns, 220);
    head_taken_destroy(t);

    next = head_with(&d);
    for (size_t i = 0; i < n; i++) {
        assert_ok(head_restore(next, &list[i], NULL));
    }
    append(next, 2, "new", 220, 100);
    assert_ok(head_prepare(next));
    head_publish(next);
    s = head_view(next);
    assert_int_equal(head_view_hosts(s), 2);
    assert_string_equal(head_view_host(s, 0)->name, "new");
    assert_int_equal(head_view_host(s, 0)->batches, 2);
    assert_int_equal(head_view_host(s, 0)->held, 2);
    assert_int_equal(head_view_host(s, 0)->first_ns, 110);
    assert_string_equal(head_view_host(s, 1)->name, "old");
    head_view_release(s);

    assert_int_equal(head_dropped(next, &list[0].id, 1, true), 1);
    head_begins(next, 100);
    assert_ok(head_prepare(next));
    head_publish(next);
    s = head_view(next);
    assert_int_equal(head_view_hosts(s), 1);
    head_view_release(s);
    mem_free(list);
    head_destroy(h);
    head_destroy(next);
}

static void taking_survives_every_allocation_failing(void **state)
{
    static const int64_t window = 0;
    enum err e = ERR_NOMEM;

    for (long n = 0; e; n++) {
        struct dropped d = {.n = 0};
        long live = mem_live();
        struct head *h = head_with(&d);
        struct head_taken *t;

        append(h, 1, "a", 1, 100);
        append(h, 2, "b", 2, 100);
        mem_fail_after(n);
        e = head_take(h, &t, &window, 1, UINT64_MAX);
        mem_fail_after(-1);
        if (!e) {
            assert_true(n >= 5);
            head_taken_destroy(t);
        } else {
            assert_err(e, ERR_NOMEM);
        }
        head_destroy(h);
        assert_int_equal(mem_live(), live);
    }
}

static void preparing_survives_every_allocation_failing(void **state)
{
    for (long n = 0;; n++) {
        struct dropped d = {.n = 0};
        long live = mem_live();
        struct head *h = head_with(&d);
        enum err e;

        append(h, 1, "one", 10, 100);
        append(h, 2, "two", 11, 100);
        mem_fail_after(n);
        e = head_prepare(h);
        mem_fail_after(-1);
        if (e) {
            assert_err(e, ERR_NOMEM);
            assert_int_equal(held(h), 0);
            assert_ok(head_prepare(h));
        }
        head_publish(h);
        assert_int_equal(held(h), 2);
        head_destroy(h);
        assert_int_equal(mem_live(), live);
        if (!e) {
            assert_true(n >= 5);
            break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_known_grows_whatever_the_order),
        cmocka_unit_test(an_exact_exit_time_wins_over_an_inferred_one),
        cmocka_unit_test(text_of_a_later_batch_replaces_and_empty_text_does_not),
        cmocka_unit_test(every_instance_is_found_in_any_order_of_arrival),
        cmocka_unit_test(the_latest_of_a_pid_over_all_boots_is_the_last_created),
        cmocka_unit_test(a_snapshot_stays_as_it_was),
        cmocka_unit_test(the_limit_costs_those_that_ended_first),
        cmocka_unit_test(text_that_changes_for_ever_takes_no_more_room),
        cmocka_unit_test(merging_survives_every_allocation_failing),
        cmocka_unit_test(nothing_is_seen_before_it_is_published),
        cmocka_unit_test(wordy_hosts_take_no_more_together_than_they_may_and_cost_no_other),
        cmocka_unit_test(hosts_stand_by_name_and_follow_a_new_name),
        cmocka_unit_test(windows_are_listed_oldest_first_over_all_hosts),
        cmocka_unit_test(what_is_taken_stays_until_released_and_later_batches_stay_apart),
        cmocka_unit_test(no_more_of_a_host_is_taken_at_once_than_memory_allows),
        cmocka_unit_test(a_host_is_known_as_long_as_something_of_it_is_sealed),
        cmocka_unit_test(taking_survives_every_allocation_failing),
        cmocka_unit_test(preparing_survives_every_allocation_failing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
