#include "collector/store/catalogue/catalogue.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "collector/store/catalogue/catalogue_impl.h"
#include "collector/store/meta/rest_value.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/fleetgen.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define S        INT64_C(1000000000)
#define DAY      (86400 * S)
#define T0       (INT64_C(20000) * DAY) /* a midnight */
#define NAMES    64
#define ROWS_MAX 4096

/* A store's segments without a store: what the catalogue reads. */
static struct {
    char dir[256], cat_dir[300];
    struct manifest *m;
    struct rest_written *written;
    struct packer *packer;
    struct catalogue *c;
    struct arena memory;
} x;

static void open_catalogue(bool import)
{
    struct catalogue_conf conf = {.dir = x.cat_dir};
    struct manifest_list *l = manifest_view(x.m);

    assert_ok(catalogue_open(&x.c, &conf, import ? l : NULL, NULL));
    manifest_list_release(l);
}

static int setup(void **state)
{
    struct manifest_conf conf = {support_temp_dir(x.dir, sizeof x.dir), fio_unsynced()};

    (void)state;
    (void)snprintf(x.cat_dir, sizeof x.cat_dir, "%s/catalogue", x.dir);
    assert_ok(manifest_open(&x.m, &conf, NULL));
    assert_ok(rest_written_create(&x.written));
    assert_ok(packer_create(&x.packer));
    arena_init(&x.memory, 256u << 20);
    open_catalogue(true);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    catalogue_close(x.c);
    x.c = NULL;
    manifest_close(x.m);
    rest_written_destroy(x.written);
    packer_destroy(x.packer);
    arena_fini(&x.memory);
    support_remove_dir(x.dir);
    return 0;
}

static void follow(void)
{
    struct manifest_list *l = manifest_view(x.m);

    assert_ok(catalogue_follow(x.c, l));
    manifest_list_release(l);
}

/* Seals windows of several hosts, as the sealing thread does. Gives the segment. */
static struct seg_info seal(int64_t window_ns, const struct host_window *hw, size_t n)
{
    struct seg_info info = {.number = manifest_number(x.m),
                            .kind = SEG_REST,
                            .n_windows = 1,
                            .window_ns = window_ns,
                            .span_ns = WINDOW_NS};
    struct seg_writer *w;
    uint64_t events = 0;
    uint32_t host;

    assert_ok(seg_writer_create(&w, fio_unsynced(), x.dir, &info, &window_ns, NULL));
    rest_written_begin(x.written, window_ns);
    for (size_t i = 0; i < n; i++) {
        assert_ok(seg_writer_host(w, &host, &hw[i].host, hw[i].name, 0, window_ns,
                                  window_ns + WINDOW_NS));
        assert_ok(rest_value_write(w, x.packer, host, 0, &hw[i], x.written, &events));
    }
    assert_ok(rest_accounts_write(w, x.written));
    assert_ok(seg_writer_finish(w, events, &info, NULL));
    rest_written_keep(x.written);
    assert_ok(manifest_change(x.m, &info, 1, NULL, 0, NULL));
    manifest_publish(x.m);
    return info;
}

/* -- windows by hand -- */

static struct uuid id_of(uint8_t n)
{
    struct uuid u = {{n}};

    return u;
}

static struct proc_info proc(uint32_t pid, int64_t create_ns, int64_t exit_ns, const char *name)
{
    struct proc_info p = {.id = {pid, (uint64_t)create_ns / 100},
                          .have = INFO_CREATE_TIME,
                          .origin = ORIGIN_START,
                          .create_ns = create_ns,
                          .name = str_make(name)};

    if (exit_ns) {
        p.have |= INFO_EXITED | INFO_EXIT_TIME;
        p.exit_ns = exit_ns;
    }
    return p;
}

/* One batch of one host, with ticks from `at` to the end of its window. */
static void put_with(uint8_t host, uint8_t boot, int64_t at_ns, const struct proc_info *infos,
                     size_t n, const struct life_event *events, size_t n_events)
{
    const int64_t wall[] = {at_ns, window_of(at_ns) + WINDOW_NS - 1}, mono[] = {1, 2};
    struct window_rest rest = {.received_ns = at_ns};
    struct host_window hw = {.host = id_of(host), .name = "h", .n_rests = 1, .rests = &rest};
    static uint64_t seq;

    rest.batch.head = (struct batch_head){
        .host = hw.host, .boot = id_of(boot), .seq = ++seq, .source = str_make("etw")};
    rest.batch.n_ticks = 2;
    rest.batch.wall_ns = wall;
    rest.batch.mono_ns = mono;
    rest.batch.n_infos = n;
    rest.batch.infos = infos;
    rest.batch.n_events = n_events;
    rest.batch.events = events;
    (void)seal(window_of(at_ns), &hw, 1);
    follow();
}

static void put(uint8_t host, uint8_t boot, int64_t at_ns, const struct proc_info *infos, size_t n)
{
    put_with(host, boot, at_ns, infos, n, NULL, 0);
}

/* -- asking -- */

struct rows {
    size_t n;
    struct row {
        struct uuid boot;
        struct proc_info info;
        char name[NAMES], line[NAMES];
        int64_t seen_ns;
    } at[ROWS_MAX];
};

/* Without text, and without what lies between members: to be compared as bytes. */
static void copy_plain(struct proc_info *to, const struct proc_info *from)
{
    to->id.pid = from->id.pid;
    to->id.start = from->id.start;
    to->have = from->have;
    to->origin = from->origin;
    to->cpu_origin = from->cpu_origin;
    to->parent_pid = from->parent_pid;
    to->parent_start = from->parent_start;
    to->session_id = from->session_id;
    to->exit_code = from->exit_code;
    to->create_ns = from->create_ns;
    to->exit_ns = from->exit_ns;
}

static enum err add_row(void *ctx, const struct uuid *boot, const struct proc_info *info,
                        int64_t seen_ns)
{
    struct rows *r = ctx;
    struct row *row = &r->at[r->n++];

    assert_true(r->n <= ROWS_MAX);
    memset(row, 0, sizeof *row);
    row->boot = *boot;
    copy_plain(&row->info, info);
    (void)snprintf(row->name, NAMES, "%.*s", (int)info->name.n, info->name.p);
    (void)snprintf(row->line, NAMES, "%.*s", (int)info->command_line.n, info->command_line.p);
    row->seen_ns = seen_ns;
    return ERR_OK;
}

static struct rows *find(const struct catalogue_ask *ask)
{
    static struct rows r;

    r.n = 0;
    assert_ok(catalogue_find(x.c, ask, add_row, &r));
    return &r;
}

static struct rows *alive(uint8_t host, int64_t since_ns, int64_t until_ns)
{
    struct uuid id = id_of(host);
    struct catalogue_ask ask = {.host = &id, .since_ns = since_ns, .until_ns = until_ns};

    return find(&ask);
}

/* -- the tests -- */

static void an_instance_is_found_while_it_lives(void **state)
{
    const int64_t t = T0 + 10 * 3600 * S;
    const struct proc_info infos[] = {
        proc(1, T0 - 5 * DAY, 0, "old"),
        proc(2, t + 10 * S, t + 20 * S, "short"),
        proc(3, t + 15 * S, t + 290 * S, "long"),
        proc(4, t + 100 * S, t + 100 * S, "instant"),
    };
    static const struct {
        int64_t since_s, until_s;
        unsigned pids; /* bits */
    } asks[] = {
        {0, 1, 2},      {0, 10, 2},    {0, 11, 6},          {12, 14, 6},
        {20, 21, 14},   {21, 22, 10},  {100, 101, 26},      {101, 102, 10},
        {290, 291, 10}, {291, 292, 2}, {-86400, 86400, 30}, {100, 100, 10},
    };

    (void)state;
    put(1, 1, t, infos, COUNT_OF(infos));
    for (size_t i = 0; i < COUNT_OF(asks); i++) {
        const struct rows *r = alive(1, t + asks[i].since_s * S, t + asks[i].until_s * S);
        unsigned pids = 0;

        for (size_t k = 0; k < r->n; k++) {
            pids |= 1u << r->at[k].info.id.pid;
        }
        assert_int_equal(pids, asks[i].pids);
    }
    assert_int_equal(alive(2, 0, INT64_MAX)->n, 0);
}

static void what_is_known_comes_back(void **state)
{
    struct proc_info p = proc(7, T0 + S, T0 + 2 * S, "name"), plain;
    const struct rows *r;

    (void)state;
    p.have |= INFO_PARENT | INFO_SESSION | INFO_EXIT_CODE | INFO_COMMAND_LINE_KNOWN;
    p.id.start = UINT64_MAX - 1;
    p.parent_pid = 4;
    p.parent_start = UINT64_MAX;
    p.session_id = 3;
    p.exit_code = 0xc0000005;
    p.cpu_origin = CPU_ORIGIN_TIMES;
    p.command_line = str_make("name -x");
    put(1, 9, T0, &p, 1);
    r = alive(1, T0, T0 + DAY);
    assert_int_equal(r->n, 1);
    assert_string_equal(r->at[0].name, "name");
    assert_string_equal(r->at[0].line, "name -x");
    assert_int_equal(r->at[0].boot.b[0], 9);
    assert_int_equal(r->at[0].seen_ns, T0 + WINDOW_NS - 1);
    memset(&plain, 0, sizeof plain);
    copy_plain(&plain, &p);
    assert_memory_equal(&r->at[0].info, &plain, sizeof plain);
}

static void pids_are_told_apart_by_start_and_boot(void **state)
{
    const struct proc_info infos[] = {proc(5, T0 + S, T0 + 2 * S, "a"),
                                      proc(5, T0 + 3 * S, T0 + 4 * S, "b")};
    struct uuid host = id_of(1), boot = id_of(2);
    struct catalogue_ask ask = {
        .host = &host, .has_pid = true, .pid = 5, .since_ns = 0, .until_ns = INT64_MAX};
    const struct rows *r;

    (void)state;
    put(1, 1, T0, infos, 2);
    put(1, 2, T0 + WINDOW_NS, &infos[1], 1);
    assert_int_equal(find(&ask)->n, 3);
    ask.start = infos[0].id.start;
    r = find(&ask);
    assert_int_equal(r->n, 1);
    assert_string_equal(r->at[0].name, "a");
    ask.start = 0;
    ask.boot = &boot;
    r = find(&ask);
    assert_int_equal(r->n, 1);
    assert_string_equal(r->at[0].name, "b");
    ask.pid = 6;
    assert_int_equal(find(&ask)->n, 0);
}

static void a_life_over_several_days_is_one(void **state)
{
    struct proc_info p = proc(5, T0 + 23 * 3600 * S, 0, "night");
    const struct rows *r;

    (void)state;
    put(1, 1, p.create_ns, &p, 1);
    put(1, 1, T0 + DAY + 2 * WINDOW_NS, NULL, 0); /* not announced anew: carried over */
    assert_int_equal(alive(1, T0 + DAY + 9 * 3600 * S, T0 + DAY + 9 * 3600 * S + 1)->n, 1);
    p = proc(5, p.create_ns, T0 + 2 * DAY + 60 * S, "night");
    put(1, 1, T0 + 2 * DAY, &p, 1);
    assert_int_equal(alive(1, T0 + 2 * DAY + 59 * S, T0 + 2 * DAY + 60 * S)->n, 1);
    assert_int_equal(alive(1, T0 + 2 * DAY + 61 * S, T0 + 3 * DAY)->n, 0);
    r = alive(1, T0, T0 + 3 * DAY);
    assert_int_equal(r->n, 1);
    assert_int_equal(r->at[0].info.exit_ns, T0 + 2 * DAY + 60 * S);
    assert_int_equal(alive(1, T0, T0 + 22 * 3600 * S)->n, 0);
}

static void those_of_an_earlier_boot_ended_with_it(void **state)
{
    const struct proc_info a = proc(1, T0, 0, "a"), b = proc(1, T0 + 3600 * S, 0, "b");
    const struct rows *r;

    (void)state;
    put(1, 1, T0, &a, 1);
    put(1, 2, T0 + 3600 * S, &b, 1);
    assert_int_equal(alive(1, T0 + 10 * S, T0 + 11 * S)->n, 1);
    assert_int_equal(alive(1, T0 + 1800 * S, T0 + 1801 * S)->n, 0);
    r = alive(1, T0 + 7200 * S, T0 + 7201 * S);
    assert_int_equal(r->n, 1);
    assert_string_equal(r->at[0].name, "b");
}

static void what_is_told_later_replaces_and_what_is_older_fills_in(void **state)
{
    struct proc_info p = proc(1, T0, 0, "first");
    const struct rows *r;

    (void)state;
    put(1, 1, T0 + WINDOW_NS, &p, 1);
    p.name = str_make("renamed");
    put(1, 1, T0 + 2 * WINDOW_NS, &p, 1);
    p.name = str_make("before");
    p.command_line = str_make("line");
    p.have |= INFO_COMMAND_LINE_KNOWN;
    put(1, 1, T0, &p, 1); /* late data */
    r = alive(1, T0, T0 + DAY);
    assert_int_equal(r->n, 1);
    assert_string_equal(r->at[0].name, "renamed");
    assert_string_equal(r->at[0].line, "line");
}

/* The end knows best, then the rows, then the start, whenever that is told. */
static void a_batch_tells_of_an_instance_in_the_order_of_time(void **state)
{
    const struct proc_info began = proc(1, T0, 0, "nice"), row = proc(1, T0, 0, "sleep");
    const struct life_event start = {.kind = LIFE_PROCESS_START, .wall_ns = T0, .info = began};
    const struct life_event stop = {.kind = LIFE_PROCESS_STOP,
                                    .wall_ns = T0 + 2 * WINDOW_NS,
                                    .info = proc(1, T0, T0 + 2 * WINDOW_NS, "last")};

    (void)state;
    put_with(1, 1, T0, &row, 1, &start, 1);
    assert_string_equal(alive(1, T0, T0 + DAY)->at[0].name, "sleep");
    put_with(1, 1, T0 + WINDOW_NS, NULL, 0, &start, 1);
    assert_string_equal(alive(1, T0, T0 + DAY)->at[0].name, "sleep");
    put_with(1, 1, T0 + 2 * WINDOW_NS, &row, 1, &stop, 1);
    assert_string_equal(alive(1, T0, T0 + DAY)->at[0].name, "last");
    assert_int_equal(alive(1, T0, T0 + DAY)->n, 1);
}

/* -- generated hosts over midnight -- */

#define HOSTS 3u

static void seal_fleet(int64_t begin_ns, unsigned windows)
{
    struct wire_encoder *enc;
    struct fleetgen *g[HOSTS];

    assert_ok(wire_encoder_create(&enc));
    for (unsigned h = 0; h < HOSTS; h++) {
        const struct fleetgen_conf conf = {
            .seed = h + 1, .metrics = 1, .tick_ns = 10 * S, .begin_ns = begin_ns};

        g[h] = fleetgen_create(&conf);
    }
    for (unsigned w = 0; w < windows; w++) {
        struct batch *b[HOSTS];
        struct window_rest rests[HOSTS];
        struct host_window hw[HOSTS];

        for (unsigned h = 0; h < HOSTS; h++) {
            struct buf bytes;

            buf_init(&bytes, 4u << 20);
            assert_ok(wire_batch_encode(enc, &bytes, fleetgen_batch(g[h], 30)));
            assert_ok(wire_batch_decode(&b[h], bytes.p, bytes.n));
            buf_fini(&bytes);
            rests[h] = (struct window_rest){.batch = *b[h]};
            rests[h].batch.n_runs = rests[h].batch.n_columns = 0;
            hw[h] = (struct host_window){
                .host = b[h]->head.host, .name = "g", .n_rests = 1, .rests = &rests[h]};
        }
        (void)seal(window_of(begin_ns) + (int64_t)w * WINDOW_NS, hw, HOSTS);
        for (unsigned h = 0; h < HOSTS; h++) {
            wire_batch_free(b[h]);
        }
    }
    for (unsigned h = 0; h < HOSTS; h++) {
        fleetgen_destroy(g[h]);
    }
    wire_encoder_destroy(enc);
}

static struct uuid fleet_host(unsigned h)
{
    const struct fleetgen_conf conf = {.seed = h + 1};
    struct fleetgen *g = fleetgen_create(&conf);
    struct uuid id = fleetgen_head(g)->host;

    fleetgen_destroy(g);
    return id;
}

/* Everything, in words that can be compared. */
static void dump(struct buf *out)
{
    static const int64_t moments[] = {-3000, -600, -1, 0, 1, 600, 3000};

    buf_reset(out);
    for (unsigned h = 0; h < HOSTS; h++) {
        struct uuid id = fleet_host(h);

        for (size_t k = 0; k <= COUNT_OF(moments); k++) {
            struct catalogue_ask ask = {.host = &id, .since_ns = 0, .until_ns = INT64_MAX};
            const struct rows *r;

            if (k < COUNT_OF(moments)) {
                ask.since_ns = T0 + moments[k] * S;
                ask.until_ns = ask.since_ns + 1;
            }
            r = find(&ask);
            buf_put(out, &r->n, sizeof r->n);
            buf_put(out, r->at, r->n * sizeof r->at[0]);
        }
    }
    assert_ok(out->bad);
}

static void deleted_and_made_anew_it_is_the_same(void **state)
{
    struct catalogue_stats before, after;
    struct buf live, anew;

    (void)state;
    buf_init(&live, 64u << 20);
    buf_init(&anew, 64u << 20);
    for (unsigned i = 0; i < 4; i++) { /* follows now and then, as sealing does */
        seal_fleet(T0 - 6 * WINDOW_NS, 3 + 3 * i);
        follow();
    }
    dump(&live);
    catalogue_stats(x.c, &before);
    assert_int_equal(before.days, 2);
    assert_true(before.instances > 600 && before.running >= 3 * 140 && before.bytes > 100000);
    assert_int_equal(before.failed + before.damaged + before.refused + before.rebuilt, 0);
    catalogue_close(x.c);
    support_empty_dir(x.cat_dir);
    open_catalogue(true);
    follow();
    dump(&anew);
    assert_int_equal(live.n, anew.n);
    assert_memory_equal(live.p, anew.p, live.n);
    catalogue_stats(x.c, &after);
    assert_int_equal(after.imported, before.imported);
    assert_int_equal(after.instances, before.instances);
    buf_fini(&live);
    buf_fini(&anew);
}

static void every_moment_has_the_processes_that_ran_then(void **state)
{
    const struct fleetgen_conf conf = {
        .seed = 1, .metrics = 1, .tick_ns = 10 * S, .begin_ns = T0 - 6 * WINDOW_NS};
    struct fleetgen *g = fleetgen_create(&conf);
    struct uuid host = fleetgen_head(g)->host;

    (void)state;
    seal_fleet(T0 - 6 * WINDOW_NS, 12);
    follow();
    for (unsigned i = 0; i < 360; i++) {
        const struct sample_tick *t = fleetgen_tick(g);
        struct catalogue_ask ask = {
            .host = &host, .since_ns = t->wall_ns, .until_ns = t->wall_ns + 1};
        const struct rows *r;

        if (i % 29) {
            continue;
        }
        r = find(&ask);
        for (size_t k = 0; k < t->n_rows; k++) {
            bool found = false;

            for (size_t n = 0; n < r->n && !found; n++) {
                found = proc_id_eq(r->at[n].info.id, t->rows[k].info->id);
            }
            assert_true(found);
        }
        assert_true(r->n <= t->n_rows + 3); /* those that ended in this very tick */
    }
    fleetgen_destroy(g);
}

static void opened_again_it_imports_nothing_twice(void **state)
{
    struct catalogue_stats st;

    (void)state;
    seal_fleet(T0, 3);
    follow();
    follow();
    catalogue_stats(x.c, &st);
    assert_int_equal(st.imported, 3);
    catalogue_close(x.c);
    seal_fleet(T0 + 3 * WINDOW_NS, 2);
    open_catalogue(true);
    catalogue_stats(x.c, &st);
    assert_int_equal(st.imported, 2);
}

static void it_can_be_done_a_step_at_a_time(void **state)
{
    struct catalogue_stats st;
    bool more = true;

    (void)state;
    seal_fleet(T0, 3);
    for (uint64_t i = 1; more; i++) {
        struct manifest_list *l = manifest_view(x.m);

        assert_ok(catalogue_step(x.c, l, 0, &more));
        manifest_list_release(l);
        catalogue_stats(x.c, &st);
        assert_int_equal(st.imported, i);
        assert_true(st.instances > 0);
    }
    assert_int_equal(st.imported, 3);
}

/* A limit on the size of files stands for it. */
static void a_disk_that_was_full_costs_time_only(void **state)
{
    struct rlimit free, full;
    struct catalogue_stats st;
    struct manifest_list *l;
    bool more = true;

    (void)state;
    seal_fleet(T0, 3);
    l = manifest_view(x.m);
    assert_ok(catalogue_step(x.c, l, 0, &more));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &free), 0);
    full = (struct rlimit){4096, free.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    for (int tries = 0; tries < 3; tries++) {
        assert_true(catalogue_step(x.c, l, 0, &more) != ERR_OK);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &free), 0);
    manifest_list_release(l);
    follow();
    catalogue_stats(x.c, &st);
    assert_int_equal(st.imported, 3);
    assert_int_equal(st.failed, 3);
    assert_int_equal(st.damaged + st.rebuilt, 0);
}

static void a_damaged_file_is_made_anew(void **state)
{
    static const char *const damage[] = {"empty",  "garbage", "cut",
                                         "header", "middle",  "of format 1"};
    struct catalogue_stats st;
    struct buf live, anew;
    uint64_t rebuilt = 0;

    (void)state;
    buf_init(&live, 64u << 20);
    buf_init(&anew, 64u << 20);
    seal_fleet(T0, 3);
    follow();
    dump(&live);
    for (size_t i = 0; i < COUNT_OF(damage); i++) {
        char path[400];
        uint8_t *p;
        size_t n;

        catalogue_close(x.c);
        (void)snprintf(path, sizeof path, "%s/2024-10-04.db", x.cat_dir);
        assert_ok(os_read_file(&p, &n, path, 64u << 20));
        if (i == 1) {
            memset(p, 'x', n);
        } else if (i == 3) {
            p[70] ^= 0xff;
        } else if (i == 4) {
            memset(p + 4096, 0x55, n - 4096);
        } else if (i == 5) {
            mem_free(p);
            assert_ok(
                os_read_file(&p, &n, "tests/collector/fixtures/catalogue-format1.db", 1 << 20));
        }
        assert_ok(os_write_file(path, p, i == 0 ? 0 : i == 2 ? n / 2 : n, false));
        mem_free(p);
        open_catalogue(true);
        /* What opening does not see, a find does; then it is made anew. */
        if (i == 2 || i == 4) {
            struct uuid id = fleet_host(0);
            struct catalogue_ask ask = {.host = &id, .since_ns = 0, .until_ns = INT64_MAX};
            static struct rows r;

            r.n = 0;
            (void)!catalogue_find(x.c, &ask, add_row, &r);
        }
        follow();
        dump(&anew);
        assert_int_equal(live.n, anew.n);
        assert_memory_equal(live.p, anew.p, live.n);
        catalogue_stats(x.c, &st);
        rebuilt += st.rebuilt;
    }
    assert_true(rebuilt >= 5); /* an empty file is a new one */
    buf_fini(&live);
    buf_fini(&anew);
}

static void a_day_that_is_being_made_anew_says_so(void **state)
{
    const struct uuid id = fleet_host(0);
    const struct catalogue_ask ask = {.host = &id, .since_ns = T0, .until_ns = T0 + S};
    static struct rows r;
    struct manifest_list *l;
    bool more = true;

    (void)state;
    seal_fleet(T0, 3);
    follow();
    assert_true(find(&ask)->n > 0);
    catalogue_bad(x.c, T0 - T0 % DAY);
    l = manifest_view(x.m);
    for (unsigned i = 0; more; i++) {
        assert_ok(catalogue_step(x.c, l, 0, &more)); /* one segment */
        r.n = 0;
        assert_err(catalogue_find(x.c, &ask, add_row, &r), more ? ERR_BUSY : ERR_OK);
        assert_true(i < 3 && r.n > 0);
    }
    manifest_list_release(l);
}

static void a_day_whose_file_is_gone_is_told_and_made_anew(void **state)
{
    const struct proc_info a = proc(1, T0, T0 + S, "a");
    const struct proc_info b = proc(2, T0 + DAY, T0 + DAY + S, "b");
    const struct uuid id = id_of(1);
    const struct catalogue_ask ask = {.host = &id, .since_ns = 0, .until_ns = INT64_MAX};
    static struct rows r;
    char path[400];

    (void)state;
    put(1, 1, T0, &a, 1);
    put(1, 1, T0 + DAY, &b, 1);
    assert_int_equal(find(&ask)->n, 2);
    catalogue_close(x.c); /* with the connections that were kept */
    open_catalogue(true);
    (void)snprintf(path, sizeof path, "%s/2024-10-04.db", x.cat_dir);
    assert_ok(os_remove(path));
    r.n = 0;
    assert_err(catalogue_find(x.c, &ask, add_row, &r), ERR_NOTFOUND);
    assert_int_equal(r.n, 1); /* the other day answers */
    assert_string_equal(r.at[0].name, "b");
    follow();
    assert_int_equal(find(&ask)->n, 2);
}

static void old_days_go_whole(void **state)
{
    struct proc_info p = proc(1, T0, T0 + S, "a");
    uint64_t before, dropped;

    (void)state;
    for (int64_t d = 0; d < 4; d++) {
        put(1, 1, T0 + d * DAY, &p, 1);
    }
    assert_int_equal(catalogue_oldest_day(x.c), T0);
    assert_int_equal(alive(1, T0, T0 + S)->n, 1);
    before = catalogue_bytes(x.c);
    assert_ok(catalogue_drop_before(x.c, T0 + 2 * DAY + 5 * S, &dropped));
    assert_int_equal(catalogue_oldest_day(x.c), T0 + 2 * DAY);
    assert_int_equal(catalogue_bytes(x.c), before - dropped);
    assert_true(dropped > 0);
    assert_int_equal(alive(1, T0, T0 + S)->n, 0);
    put(1, 1, T0 + 3 * DAY + WINDOW_NS, &p, 1);
}

static void what_compaction_made_of_imported_segments_is_in(void **state)
{
    struct proc_info p = proc(1, T0, T0 + S, "a");
    struct seg_info info = {.number = 999, .kind = SEG_REST, .window_ns = T0, .n_windows = 2};
    struct catalogue_stats st;
    uint64_t old[2];
    struct manifest_list *l;

    (void)state;
    put(1, 1, T0, &p, 1);
    put(1, 1, T0 + WINDOW_NS, &p, 1);
    l = manifest_view(x.m);
    old[0] = manifest_segment(l, 0)->number;
    old[1] = manifest_segment(l, 1)->number;
    manifest_list_release(l);
    catalogue_replaced(x.c, old, 2, &info);
    info.number = 1000;
    old[1] = 12345; /* never seen */
    catalogue_replaced(x.c, old, 2, &info);
    catalogue_close(x.c);
    open_catalogue(true);
    catalogue_stats(x.c, &st);
    assert_int_equal(st.imported + st.failed, 0);
}

/* -- readers beside the writer -- */

struct reader {
    struct os_thread *thread;
    int finds;
    enum err bad;
};

static enum err count_row(void *ctx, const struct uuid *boot, const struct proc_info *info,
                          int64_t seen_ns)
{
    (void)boot;
    (void)seen_ns;
    *(size_t *)ctx += info->name.n > 0;
    return ERR_OK;
}

static void read_on(void *arg)
{
    struct reader *r = arg;
    struct uuid id = fleet_host(0);
    size_t last = 0;

    for (int i = 0; i < r->finds && !r->bad; i++) {
        struct catalogue_ask ask = {.host = &id, .since_ns = 0, .until_ns = INT64_MAX};
        size_t n = 0;

        r->bad = catalogue_find(x.c, &ask, count_row, &n);
        if (n < last) {
            r->bad = ERR_LOST;
        }
        last = n;
    }
}

static void readers_see_whole_segments_while_the_writer_writes(void **state)
{
    struct reader r[3] = {{.finds = 30}, {.finds = 30}, {.finds = 30}};

    (void)state;
    seal_fleet(T0 - 3 * WINDOW_NS, 1);
    follow();
    for (size_t i = 0; i < COUNT_OF(r); i++) {
        assert_ok(os_thread_start(&r[i].thread, "reader", read_on, &r[i]));
    }
    seal_fleet(T0 - 3 * WINDOW_NS, 6);
    for (int i = 0; i < 5; i++) {
        follow();
    }
    for (size_t i = 0; i < COUNT_OF(r); i++) {
        os_thread_join(r[i].thread);
        assert_ok(r[i].bad);
    }
}

static void opening_survives_every_allocation_failing(void **state)
{
    struct catalogue_conf conf = {.dir = x.cat_dir};
    struct manifest_list *l;
    const struct seg *seg;
    enum err e = ERR_NOMEM;
    long before;

    (void)state;
    seal_fleet(T0, 1);
    catalogue_close(x.c);
    x.c = NULL;
    support_empty_dir(x.cat_dir);
    l = manifest_view(x.m);
    assert_ok(manifest_seg(l, 0, &seg)); /* stays open */
    assert_ok(catalogue_open(&x.c, &conf, l, NULL));
    catalogue_close(x.c);
    x.c = NULL;
    support_empty_dir(x.cat_dir);
    before = mem_live();
    for (long i = 0; e || i < 400; i++) {
        mem_fail_after(i);
        e = catalogue_open(&x.c, &conf, l, NULL);
        mem_fail_after(-1);
        if (!e) {
            catalogue_close(x.c);
            x.c = NULL;
        }
        assert_true(e == ERR_OK || e == ERR_NOMEM);
        assert_int_equal(mem_live(), before);
    }
    manifest_list_release(l);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(an_instance_is_found_while_it_lives),
        T(what_is_known_comes_back),
        T(pids_are_told_apart_by_start_and_boot),
        T(a_life_over_several_days_is_one),
        T(those_of_an_earlier_boot_ended_with_it),
        T(what_is_told_later_replaces_and_what_is_older_fills_in),
        T(a_batch_tells_of_an_instance_in_the_order_of_time),
        T(deleted_and_made_anew_it_is_the_same),
        T(every_moment_has_the_processes_that_ran_then),
        T(opened_again_it_imports_nothing_twice),
        T(it_can_be_done_a_step_at_a_time),
        T(a_disk_that_was_full_costs_time_only),
        T(a_damaged_file_is_made_anew),
        T(a_day_that_is_being_made_anew_says_so),
        T(a_day_whose_file_is_gone_is_told_and_made_anew),
        T(old_days_go_whole),
        T(what_compaction_made_of_imported_segments_is_in),
        T(readers_see_whole_segments_while_the_writer_writes),
        T(opening_survives_every_allocation_failing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
