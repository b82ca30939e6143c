/* What is remembered of processes, beside a list that is searched from one end to the other. */
#include "collector/store/memtable/head_info.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/memtable/head_page.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/draw.h"
#include "tests/support/t.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WORDY_INSTANCES 3000u /* the preset release takes them all */
#else
#define WORDY_INSTANCES 18000u
#endif

#define MODEL_MAX 400u
#define LIMIT     240u
#define HELD      4u

/* -- whatever a host may say -- */

static uint64_t seed;

static uint32_t below(uint32_t n)
{
    return draw(&seed, n);
}

static char long_text[MODEL_COMMAND_LINE_MAX];

static struct str any_text(void)
{
    static const char bytes[] = "\0\xff\xfe\x80 %s\n\"\\ \xc3\x28 C:\\a b\\c.exe";
    static const size_t sizes[] = {1, 127, 128, 129, 255, 1024, 4095, 4096};
    static char few[16][24];
    uint32_t k = below(16);

    switch (below(8)) {
    case 0:
        return (struct str){"", 0};
    case 1:
        return (struct str){bytes + k, 1 + below((uint32_t)sizeof bytes - k - 1)};
    case 2:
        return (struct str){long_text, sizes[below(COUNT_OF(sizes))]};
    case 3:
        return (struct str){long_text + below(1000), 1 + below(3000)};
    default:
        snprintf(few[k], sizeof few[k], "/usr/bin/program-%u", (unsigned)k);
        return str_make(few[k]);
    }
}

static int64_t any_time(void)
{
    static const int64_t odd[] = {0, 1, -1, INT64_MIN, INT64_MAX, 1700000000000000000};

    return below(8) ? 1000 + (int64_t)below(50) : odd[below(COUNT_OF(odd))];
}

static uint64_t any_start(void)
{
    static const uint64_t odd[] = {0,
                                   1,
                                   UINT64_MAX,
                                   UINT64_MAX - 1,
                                   UINT64_C(1) << 56,
                                   (UINT64_C(1) << 56) - 1,
                                   133000000000000000};

    return below(4) ? 5 + below(3) : odd[below(COUNT_OF(odd))];
}

static void any_info(struct proc_info *info)
{
    *info = (struct proc_info){.id = {below(60) ? below(60) : UINT32_MAX - below(2), any_start()},
                               .have = below(1u << 10),
                               .origin = (uint8_t)below(5),
                               .cpu_origin = (uint8_t)below(4),
                               .session_id = below(3) ? 0 : UINT32_MAX - below(3),
                               .parent_pid = below(3) ? below(60) : UINT32_MAX,
                               .parent_start = any_start(),
                               .exit_code = below(3) ? 0 : 0xc0000005,
                               .create_ns = any_time(),
                               .exit_ns = any_time(),
                               .name = any_text(),
                               .image = any_text(),
                               .command_line = any_text(),
                               .user = any_text()};
}

/* -- the list -- */

struct entry {
    struct uuid boot;
    struct proc_info info; /* text is static */
    int64_t seen_ns;
};

struct model {
    size_t n;
    uint64_t evicted;
    struct entry at[MODEL_MAX]; /* in order */
};

static int order(const struct entry *e, const struct uuid *boot, struct proc_id id)
{
    int c = memcmp(e->boot.b, boot->b, sizeof boot->b);

    if (c == 0 && e->info.id.pid != id.pid) {
        c = e->info.id.pid < id.pid ? -1 : 1;
    }
    return c ? c : (e->info.id.start > id.start) - (e->info.id.start < id.start);
}

static bool is_older(const struct entry *a, const struct entry *b)
{
    bool ended_a = a->info.have & INFO_EXITED, ended_b = b->info.have & INFO_EXITED;
    int64_t ns_a = ended_a && a->info.exit_ns ? a->info.exit_ns : a->seen_ns;
    int64_t ns_b = ended_b && b->info.exit_ns ? b->info.exit_ns : b->seen_ns;

    return ended_a != ended_b ? ended_a : ns_a < ns_b;
}

static void model_evict(struct model *m)
{
    for (size_t k = 0; k < LIMIT / 8; k++) {
        size_t oldest = 0;

        for (size_t i = 1; i < m->n; i++) {
            oldest = is_older(&m->at[i], &m->at[oldest]) ? i : oldest;
        }
        m->n--;
        memmove(&m->at[oldest], &m->at[oldest + 1], (m->n - oldest) * sizeof m->at[0]);
        m->evicted++;
    }
}

static void model_merge(struct model *m, const struct uuid *boot, const struct proc_info *info,
                        int64_t seen_ns)
{
    size_t i = 0;

    while (i < m->n && order(&m->at[i], boot, info->id) < 0) {
        i++;
    }
    if (i < m->n && order(&m->at[i], boot, info->id) == 0) {
        bool newer = seen_ns >= m->at[i].seen_ns;

        m->at[i].seen_ns = newer ? seen_ns : m->at[i].seen_ns;
        head_info_join(&m->at[i].info, info, newer);
        return;
    }
    if (m->n >= LIMIT) {
        model_evict(m);
        for (i = 0; i < m->n && order(&m->at[i], boot, info->id) < 0; i++) {
        }
    }
    memmove(&m->at[i + 1], &m->at[i], (m->n - i) * sizeof m->at[0]);
    m->at[i] = (struct entry){*boot, *info, seen_ns};
    m->n++;
}

static void assert_same(const struct head_infos_snap *s, const struct model *m)
{
    struct head_infos_place at = {0};
    const struct uuid *boot;
    struct proc_info info;

    for (size_t i = 0; i < m->n; i++, at.i++) {
        const struct entry *e = &m->at[i];

        assert_true(head_infos_peek(s, &at, &boot, &info));
        assert_memory_equal(boot->b, e->boot.b, sizeof boot->b);
        assert_true(head_info_same(&info, &e->info));
        assert_true(head_infos_find(s, &e->boot, e->info.id, &info));
        /* A start of 0 asks for the latest, so that one is not found by itself. */
        assert_true(e->info.id.start == 0 || head_info_same(&info, &e->info));
    }
    assert_false(head_infos_peek(s, &at, &boot, &info));
}

static void what_is_remembered_is_what_a_plain_list_has(void **state)
{
    static struct model now, then[HELD];
    long held_blocks = mem_live();

    for (uint64_t round = 1; round <= 3; round++) {
        struct head_infos_snap *held[HELD] = {NULL};
        struct head_infos *t;

        seed = round;
        now.n = now.evicted = 0;
        assert_ok(head_infos_create(&t, LIMIT));
        for (unsigned step = 0; step < 1500; step++) {
            /* Few boots, or now and then one that nobody had. */
            struct uuid boot = {{(uint8_t)(below(100) ? below(3) : below(256)), 7}};
            int64_t seen_ns = any_time();
            unsigned k = step / 100 % HELD;
            struct proc_info info;

            any_info(&info);
            assert_ok(head_infos_merge(t, &boot, &info, seen_ns));
            model_merge(&now, &boot, &info, seen_ns);
            assert_int_equal(head_infos_count(t), now.n);
            assert_int_equal(head_infos_evicted(t), now.evicted);
            if (step % 100 == 0) { /* one that was taken 400 steps ago is still as it was then */
                if (held[k]) {
                    assert_same(held[k], &then[k]);
                    head_infos_snap_unref(held[k]);
                }
                assert_ok(head_infos_snapshot(t, &held[k]));
                then[k] = now;
                assert_same(held[k], &now);
            }
        }
        head_infos_destroy(t);
        for (size_t k = 0; k < HELD; k++) { /* and outlives the table */
            assert_same(held[k], &then[k]);
            head_infos_snap_unref(held[k]);
        }
        assert_true(now.evicted > 100);
    }
    assert_int_equal(mem_live(), held_blocks);
}

/* -- bounds -- */

static void of_those_as_old_as_the_limit_only_so_many_go(void **state)
{
    struct head_infos_snap *s;
    struct head_infos *t;
    struct proc_info info = {.have = INFO_EXITED | INFO_EXIT_TIME};

    assert_ok(head_infos_create(&t, 80));
    for (uint32_t pid = 1; pid <= 80; pid++) { /* the two that ended first stand last */
        info.id = (struct proc_id){pid, 1};
        info.exit_ns = pid > 78 ? 500 : 900;
        assert_ok(head_infos_merge(t, &(struct uuid){{1}}, &info, 1000));
    }
    info.id.pid = 100;
    assert_ok(head_infos_merge(t, &(struct uuid){{1}}, &info, 1000));
    assert_int_equal(head_infos_evicted(t), 10);
    assert_ok(head_infos_snapshot(t, &s));
    for (uint32_t pid = 1; pid <= 80; pid++) {
        struct proc_id id = {pid, 1};

        assert_int_equal(head_infos_find(s, &(struct uuid){{1}}, id, &info), pid > 8 && pid < 79);
    }
    head_infos_snap_unref(s);
    head_infos_destroy(t);
}

/* Sizes of what a table allocates are not to be had from outside: the number of its blocks of
 * text, each of at most 64 KiB, is. */
static void text_of_no_use_does_not_pile_up(void **state)
{
    long before = mem_live();
    struct head_infos *t;

    assert_ok(head_infos_create(&t, 1000));
    for (uint32_t i = 0; i < 5000; i++) { /* 10 MB went through */
        struct proc_info info = {.id = {i % 50, 1}, .have = INFO_COMMAND_LINE_KNOWN};
        char line[2000];

        memset(line, 'x', sizeof line);
        memcpy(line, &i, sizeof i);
        info.command_line = (struct str){line, sizeof line};
        info.user = (struct str){line, 4 + i % 40};
        assert_ok(head_infos_merge(t, &(struct uuid){{1}}, &info, (int64_t)i));
        assert_true(mem_live() - before < 40);
    }
    head_infos_destroy(t);
    assert_int_equal(mem_live(), before);
}

/* Bytes in use, as the system's allocator counts them; under a sanitizer it does not. */
static uint64_t heap(void)
{
    struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

static struct proc_info wordy(uint32_t pid, bool ended, size_t line, size_t others)
{
    static char texts[4][MODEL_COMMAND_LINE_MAX];
    struct proc_info info = {.id = {pid, 7},
                             .have = INFO_COMMAND_LINE_KNOWN |
                                     (ended ? INFO_EXITED | INFO_EXIT_TIME : 0u),
                             .exit_ns = ended ? 1000 + (int64_t)pid : 0};

    for (size_t i = 0; i < 4; i++) {
        memset(texts[i], 'a' + (int)i, i == 0 ? line : others);
        snprintf(texts[i], 32, "%08u begin", (unsigned)pid); /* every one is of its own */
        texts[i][strlen(texts[i])] = '/';
    }
    snprintf(texts[1] + others - 8, 9, "/p%06u", (unsigned)pid % 1000000);
    info.command_line = (struct str){texts[0], line};
    info.image = (struct str){texts[1], others};
    info.name = (struct str){texts[2], others};
    info.user = (struct str){texts[3], others};
    return info;
}

static const struct uuid wordy_boot = {{9}};

/* Whatever it says, its instances take no more than it may. */
static void a_wordy_host_takes_no_more_than_it_may(void **state)
{
    static const struct {
        size_t line, others;
        unsigned running; /* one in so many; 0: none */
    } rows[] = {{4096, 1024, 0}, {4096, 1024, 1}, {4096, 1024, 3}, {4096, 30, 1},
                {30, 1024, 1},   {62, 30, 2},     {16, 16, 1}};
    const uint64_t limit = 1u << 20;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint64_t before = heap(), most = 0;
        struct head_infos *t;

        assert_ok(head_infos_create(&t, 16384));
        head_infos_limit(t, limit);
        for (uint32_t pid = 1; pid <= WORDY_INSTANCES; pid++) {
            bool ended = !rows[i].running || pid % rows[i].running;
            struct proc_info info = wordy(pid, ended, rows[i].line, rows[i].others);

            assert_ok(head_infos_merge(t, &wordy_boot, &info, pid));
            most = heap() - before > most ? heap() - before : most;
            assert_true(head_infos_bytes(t) <= limit + limit / 16); /* and what one more takes */
        }
        print_message("row %zu: %zu instances, at most %.2f MiB, %llu cuts\n", i,
                      head_infos_count(t), (double)most / 1048576,
                      (unsigned long long)head_infos_too_long(t));
        assert_true((int64_t)most < (int64_t)(2 * limit)); /* written anew, both are there */
        head_infos_destroy(t);
    }
}

static void long_texts_are_cut_before_a_running_one_is_forgotten(void **state)
{
    struct head_infos *t;
    struct head_infos_snap *s, *again;
    struct proc_info found;
    char end[8 + 1];

    assert_ok(head_infos_create(&t, 16384));
    head_infos_limit(t, 1u << 20);
    for (uint32_t pid = 1; pid <= 2000; pid++) { /* 10 MB as it is told; every second one ended */
        struct proc_info info = wordy(pid, pid % 2, 4096, 1024);

        info.name = str_make("program");
        info.user = str_make("root");
        assert_ok(head_infos_merge(t, &wordy_boot, &info, pid));
    }
    for (unsigned round = 0; round < 2; round++) {
        assert_ok(head_infos_snapshot(t, &s));
        for (uint32_t pid = 2; pid <= 2000; pid += 2) {
            struct proc_info whole = wordy(pid, false, 4096, 1024);

            assert_true(head_infos_find(s, &wordy_boot, whole.id, &found));
            assert_true(str_eq(found.name, str_make("program")));
            assert_true(found.have & INFO_COMMAND_LINE_CUT);
            assert_true(found.command_line.n < 1024 && found.command_line.n > 60);
            assert_memory_equal(found.command_line.p, whole.command_line.p,
                                found.command_line.n - 3);
            assert_memory_equal(found.command_line.p + found.command_line.n - 3, "\xe2\x80\xa6", 3);
            snprintf(end, sizeof end, "/p%06u", (unsigned)pid);
            assert_memory_equal(found.image.p + found.image.n - 8, end, 8);
            head_info_join(&whole, &found, true); /* the disk has it whole */
            assert_int_equal(whole.command_line.n, 4096);
            assert_int_equal(whole.image.n, 1024);
            assert_false(whole.have & INFO_COMMAND_LINE_CUT);
        }
        for (uint32_t pid = 2; pid <= 2000; pid += 2) { /* told again: nothing is new */
            struct proc_info info = wordy(pid, false, 4096, 1024);

            info.name = str_make("program");
            info.user = str_make("root");
            assert_ok(head_infos_merge(t, &wordy_boot, &info, 5000 + pid));
        }
        assert_ok(head_infos_snapshot(t, &again));
        assert_ptr_equal(again, s);
        head_infos_snap_unref(again);
        head_infos_snap_unref(s);
    }
    head_infos_destroy(t);
}

static void shrinking_survives_every_allocation_failing(void **state)
{
    long before = mem_live();

    for (long n = 0;; n++) {
        struct head_infos *t;
        enum err e;

        assert_ok(head_infos_create(&t, 1000));
        for (uint32_t pid = 1; pid <= 40; pid++) {
            struct proc_info info = wordy(pid, pid % 3 == 0, 1000, 200);

            assert_ok(head_infos_merge(t, &wordy_boot, &info, pid));
        }
        mem_fail_after(n);
        e = head_infos_shrink(t, 24u << 10);
        mem_fail_after(-1);
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        assert_ok(head_infos_shrink(t, 24u << 10));
        assert_true(head_infos_bytes(t) <= 24u << 10);
        head_infos_destroy(t);
        assert_int_equal(mem_live(), before);
        if (!e) {
            return;
        }
    }
}

static void a_change_survives_every_allocation_failing(void **state)
{
    long held = mem_live();
    enum err e = ERR_NOMEM;

    for (long n = 0; e; n++) {
        struct head_infos *t = NULL;

        mem_fail_after(n);
        e = head_infos_create(&t, 16);
        for (uint32_t i = 0; i < 60 && !e; i++) {
            struct proc_info info = {.id = {i % 20, 1},
                                     .have = INFO_COMMAND_LINE_KNOWN | (i & INFO_PARENT),
                                     .command_line = {long_text + i, 2000}};

            e = head_infos_merge(t, &(struct uuid){{1}}, &info, (int64_t)i);
        }
        mem_fail_after(-1);
        if (e && t) { /* it goes on as if nothing had been */
            struct proc_info info = {.id = {99, 1}, .name = str_make("late")}, found;
            struct head_infos_snap *s;

            assert_err(e, ERR_NOMEM);
            assert_ok(head_infos_merge(t, &(struct uuid){{1}}, &info, 99));
            assert_ok(head_infos_snapshot(t, &s));
            assert_true(head_infos_find(s, &(struct uuid){{1}}, info.id, &found));
            assert_true(str_eq(found.name, info.name));
            head_infos_snap_unref(s);
        }
        head_infos_destroy(t);
        assert_int_equal(mem_live(), held);
        assert_true(n < 10000);
    }
}

/* Pages are split on the way, which the test above is too small for. */
static void an_instance_that_cannot_be_added_costs_no_other(void **state)
{
    enum { N = 90 }; /* i * 37 % N visits all */
    long held = mem_live();
    enum err e = ERR_NOMEM;

    for (long n = 0; e; n++) {
        struct head_infos *t = NULL;
        struct head_infos_snap *s;
        uint32_t done = 0;

        mem_fail_after(n);
        e = head_infos_create(&t, 1000);
        while (!e && done < N) {
            struct proc_info info = {.id = {done * 37 % N, 1},
                                     .have = INFO_COMMAND_LINE_KNOWN,
                                     .command_line = {long_text + done, 20 + done}};

            e = head_infos_merge(t, &(struct uuid){{1}}, &info, 1);
            done += !e;
        }
        mem_fail_after(-1);
        if (t) {
            assert_int_equal(head_infos_count(t), done);
            assert_ok(head_infos_snapshot(t, &s));
            for (uint32_t k = 0; k < done; k++) {
                struct proc_id id = {k * 37 % N, 1};
                struct proc_info found;

                assert_true(head_infos_find(s, &(struct uuid){{1}}, id, &found));
                assert_true(str_eq(found.command_line, (struct str){long_text + k, 20 + k}));
            }
            head_infos_snap_unref(s);
        }
        head_infos_destroy(t);
        assert_int_equal(mem_live(), held);
        assert_true(n < 10000);
    }
}

/* -- pages -- */

/* As Windows tells them: the idle process comes first and began at no time. */
static void the_upper_half_of_a_page_counts_from_its_own_first(void **state)
{
    static const struct head_known nothing;
    static struct head_draft d;
    struct head_texts texts = {.seed = 1};
    struct head_page *full, *upper;
    uint32_t bytes;

    for (uint32_t i = 0; i < HEAD_PAGE; i++) {
        int64_t since_ns = i * INT64_C(1234567800);
        struct head_known now = {.info = {.id = {4 * i, 0},
                                          .have = INFO_COMMAND_LINE_KNOWN | INFO_PARENT,
                                          .parent_pid = 4,
                                          .name = str_make("some.exe"),
                                          .command_line = str_make("some.exe /quiet")}};

        if (i > 0) {
            now.info.have |= INFO_CREATE_TIME;
            now.info.id.start = UINT64_C(133000000000000000) + (uint64_t)since_ns / 100;
            now.info.create_ns = INT64_C(1655526400000000000) + since_ns;
        } else {
            head_page_draft_init(&d, &(struct uuid){{1}}, &now.info);
        }
        assert_ok(head_page_draft_add(&d, &texts, &now, &nothing, 1000 + (int64_t)i));
    }
    bytes = d.bytes / 2;
    assert_ok(head_page_draft_finish(&d, &full));
    head_page_draft_anew(&d, full, HEAD_PAGE / 2, HEAD_PAGE / 2);
    assert_true(d.bytes + 10 * HEAD_PAGE / 2 < bytes); /* 10 bytes less, each */
    assert_ok(head_page_draft_finish(&d, &upper));
    assert_int_equal(upper->n, HEAD_PAGE / 2);
    for (uint32_t i = 0; i < upper->n; i++) {
        uint32_t was = HEAD_PAGE / 2 + i;
        struct proc_info a, b;

        head_page_get(full, was, texts.blocks, &a);
        head_page_get(upper, i, texts.blocks, &b);
        assert_true(head_info_same(&a, &b));
        assert_int_equal(b.id.pid, 4 * was);
        assert_true(head_page_seen_ns(upper)[i] == 1000 + (int64_t)was);
    }
    head_page_unref(full);
    head_page_unref(upper);
    head_texts_fini(&texts);
}

/* -- text -- */

static void every_text_comes_back_and_has_one_number(void **state)
{
    struct head_texts t = {.seed = 1};
    uint32_t ids[MODEL_COMMAND_LINE_MAX], again, none = 1;

    assert_ok(head_texts_get(&t, &none, (struct str){"x", 0}));
    assert_int_equal(none, 0);
    assert_int_equal(head_text_at(t.blocks, 0).n, 0);
    for (int round = 0; round < 2; round++) {
        for (size_t n = 1; n <= sizeof long_text; n++) {
            assert_ok(head_texts_get(&t, round ? &again : &ids[n - 1], (struct str){long_text, n}));
            assert_true(round == 0 || again == ids[n - 1]);
            assert_int_not_equal(ids[n - 1], 0);
        }
    }
    for (size_t n = 1; n <= sizeof long_text; n++) {
        assert_true(str_eq(head_text_at(t.blocks, ids[n - 1]), (struct str){long_text, n}));
    }
    assert_int_equal(t.n, sizeof long_text);
    head_texts_fini(&t);
}

static void text_longer_than_a_block_has_its_own(void **state)
{
    size_t size = 200000;
    struct head_texts t = {.seed = 1};
    char *big = mem_zalloc(size);
    uint32_t a, b, c;

    assert_non_null(big);
    assert_ok(head_texts_get(&t, &a, (struct str){big, size}));
    assert_ok(head_texts_get(&t, &b, (struct str){big, size - 1}));
    assert_ok(head_texts_get(&t, &c, (struct str){big, 65536}));
    assert_int_equal(head_text_at(t.blocks, a).n, size);
    assert_int_equal(head_text_at(t.blocks, b).n, size - 1);
    assert_true(str_eq(head_text_at(t.blocks, c), (struct str){big, 65536}));
    head_texts_fini(&t);
    mem_free(big);
}

/* -- threads -- */

struct reader {
    struct os_mutex *lock; /* guards `next` */
    struct head_infos_snap *next;
    atomic_bool stop;
    unsigned looked;
};

static void look_for_ever(void *arg)
{
    struct reader *r = arg;

    while (!atomic_load(&r->stop) || r->looked == 0) {
        struct head_infos_place at = {0};
        struct head_infos_snap *s;
        const struct uuid *boot;
        struct proc_info info;

        os_mutex_lock(r->lock);
        s = head_infos_snap_ref(r->next);
        os_mutex_unlock(r->lock);
        for (; head_infos_peek(s, &at, &boot, &info); at.i++) {
            uint32_t pid;

            assert_true(info.command_line.n >= sizeof pid);
            memcpy(&pid, info.command_line.p, sizeof pid); /* each begins with its pid */
            assert_int_equal(pid, info.id.pid);
        }
        head_infos_snap_unref(s);
        r->looked++;
    }
}

static void readers_beside_the_owner_see_whole_texts(void **state)
{
    struct reader r = {.next = NULL};
    struct os_thread *thread;
    struct head_infos *t;

    assert_ok(os_mutex_create(&r.lock));
    assert_ok(head_infos_create(&t, 200));
    assert_ok(head_infos_snapshot(t, &r.next));
    assert_ok(os_thread_start(&thread, "reader", look_for_ever, &r));
    for (uint32_t i = 0; i < 4000; i++) {
        struct proc_info info = {.id = {i % 300, 1}, .have = INFO_COMMAND_LINE_KNOWN};
        struct head_infos_snap *s;
        char line[64] = {0};

        memcpy(line, &info.id.pid, sizeof info.id.pid);
        memcpy(line + 8, &i, sizeof i);
        info.command_line = (struct str){line, 12 + i % 50};
        assert_ok(head_infos_merge(t, &(struct uuid){{1}}, &info, (int64_t)i));
        assert_ok(head_infos_snapshot(t, &s));
        os_mutex_lock(r.lock);
        head_infos_snap_unref(r.next);
        r.next = s;
        os_mutex_unlock(r.lock);
    }
    atomic_store(&r.stop, true);
    os_thread_join(thread);
    assert_true(r.looked > 0);
    head_infos_snap_unref(r.next);
    head_infos_destroy(t);
    os_mutex_destroy(r.lock);
}

static int fill_text(void **state)
{
    seed = 42;
    for (size_t i = 0; i < sizeof long_text; i++) {
        long_text[i] = (char)below(256);
    }
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_remembered_is_what_a_plain_list_has),
        cmocka_unit_test(of_those_as_old_as_the_limit_only_so_many_go),
        cmocka_unit_test(text_of_no_use_does_not_pile_up),
        cmocka_unit_test(a_wordy_host_takes_no_more_than_it_may),
        cmocka_unit_test(long_texts_are_cut_before_a_running_one_is_forgotten),
        cmocka_unit_test(shrinking_survives_every_allocation_failing),
        cmocka_unit_test(a_change_survives_every_allocation_failing),
        cmocka_unit_test(an_instance_that_cannot_be_added_costs_no_other),
        cmocka_unit_test(the_upper_half_of_a_page_counts_from_its_own_first),
        cmocka_unit_test(every_text_comes_back_and_has_one_number),
        cmocka_unit_test(text_longer_than_a_block_has_its_own),
        cmocka_unit_test(readers_beside_the_owner_see_whole_texts),
    };

    return cmocka_run_group_tests(tests, fill_text, NULL);
}
