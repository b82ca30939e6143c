#include "tests/collector/subscribe/feed_rig.h"

#include <stdio.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/clk.h"
#include "common/os/fio.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static int64_t now = FEED_RIG_T0;

void feed_rig_set_now(int64_t now_ns)
{
    now = now_ns;
}

static int64_t rig_clock(void)
{
    return now;
}

void feed_rig_open(struct feed_rig *r)
{
    const struct journal_conf journal = {
        .dir = r->dir, .fio = r->fio, .max_bytes = JOURNAL_LEAST, .hosts_max = 100};
    struct subscriptions_conf roster = {
        .dir = r->dir, .fio = r->fio, .idle_ns = 3600 * CLK_S, .now_ns = rig_clock};
    struct errmsg why = {""};

    r->roster = NULL;
    if (journal_open(&r->journal, &journal, &why) != ERR_OK) {
        fail_msg("%s", why.text);
    }
    roster.journal = r->journal;
    if (subscriptions_open(&r->roster, &roster, &why) != ERR_OK) {
        fail_msg("%s", why.text);
    }
}

void feed_rig_close(struct feed_rig *r)
{
    subscriptions_close(r->roster);
    r->roster = NULL;
    journal_close(r->journal);
    r->journal = NULL;
}

void feed_rig_init(struct feed_rig *r, const struct fio *fio)
{
    *r = (struct feed_rig){.fio = fio};
    feed_rig_set_now(FEED_RIG_T0);
    support_temp_dir(r->dir, sizeof r->dir);
    feed_rig_open(r);
}

void feed_rig_fini(struct feed_rig *r)
{
    feed_rig_close(r);
    support_remove_dir(r->dir);
}

int feed_rig_setup(void **state)
{
    feed_rig_init(*state, fio_unsynced());
    return 0;
}

int feed_rig_teardown(void **state)
{
    feed_rig_fini(*state);
    return 0;
}

static enum err remove_log(void *ctx, const char *name)
{
    const struct feed_rig *r = ctx;
    char path[512];
    uint64_t number;

    if (!fio_name_parse(&number, name, "feed-", ".log")) {
        return ERR_OK;
    }
    snprintf(path, sizeof path, "%s/%s", r->dir, name);
    return os_remove(path);
}

void feed_rig_forget_journal(struct feed_rig *r)
{
    assert_ok(os_list_dir(r->dir, remove_log, r));
}

/* -- messages -- */

static void put(struct feed_rig *r, enum feed_topic topic, const struct wire_update *u,
                int64_t when_ns)
{
    struct journal_record record = {.topic = topic,
                                    .host = u->host,
                                    .stream = 1,
                                    .batch = ++r->batch,
                                    .last_batch = r->batch,
                                    .stored_ns = FEED_RIG_T0 + (int64_t)r->batch,
                                    .first_ns = when_ns,
                                    .last_ns = when_ns};
    struct buf b;

    buf_init(&b, JOURNAL_PAYLOAD_MAX);
    assert_ok(wire_update_encode(&b, u));
    record.n = b.n;
    memcpy(record.name, u->name.p, u->name.n);
    assert_ok(journal_append(r->journal, &record, b.p));
    assert_ok(journal_sync(r->journal));
    buf_fini(&b);
}

void feed_rig_events(struct feed_rig *r, const char *host, uint32_t pid, size_t n, const char *name)
{
    static struct wire_event events[WIRE_ROWS_MAX];
    struct wire_host h = {.name = str_make(host)};
    struct wire_update u = {.name = str_make(host),
                            .data = {.n_hosts = 1, .hosts = &h, .n_events = n, .events = events}};

    for (size_t i = 0; i < n; i++) {
        events[i] = (struct wire_event){
            .event = {.kind = LIFE_PROCESS_START,
                      .wall_ns = FEED_RIG_T0,
                      .info = {.id = {pid + (uint32_t)i, 1}, .name = str_make(name)}}};
    }
    put(r, FEED_EVENT, &u, FEED_RIG_T0);
}

void feed_rig_sample(struct feed_rig *r, const char *host, uint32_t pid, int64_t when_ns)
{
    static const int64_t values[] = {1000, 4096};
    struct wire_host h = {.name = str_make(host)};
    struct wire_row row = {.info = {.id = {pid, 1}, .name = str_make("app")},
                           .when_ns = when_ns,
                           .have = 3,
                           .values = values};
    struct wire_update u = {.name = str_make(host),
                            .data = {.n_hosts = 1,
                                     .hosts = &h,
                                     .n_metrics = 2,
                                     .metrics = {M_CPU_TIME, M_WORKING_SET_SIZE},
                                     .n_rows = 1,
                                     .rows = &row}};

    put(r, FEED_SAMPLE, &u, when_ns);
}

void feed_rig_gap(struct feed_rig *r, const char *host, uint64_t n)
{
    struct journal_record record = {.topic = FEED_EVENT, .batch = 1, .last_batch = n};

    memcpy(record.name, host, strlen(host));
    assert_ok(journal_append(r->journal, &record, ""));
    assert_ok(journal_sync(r->journal));
}

void feed_rig_flood(struct feed_rig *r)
{
    static uint8_t noise[128 << 10];
    uint64_t first, next, end;

    journal_range(r->journal, &first, &end);
    for (first = 0; first < end;) {
        struct journal_record record = {.topic = FEED_SAMPLE,
                                        .name = "noise",
                                        .stream = 2,
                                        .batch = ++r->batch,
                                        .last_batch = r->batch,
                                        .n = sizeof noise};

        assert_ok(os_random(noise, sizeof noise));
        assert_ok(journal_append(r->journal, &record, noise));
        journal_trim(r->journal, FEED_RIG_T0, subscriptions_lost, r->roster);
        assert_ok(journal_sync(r->journal));
        journal_range(r->journal, &first, &next);
    }
}

/* -- clients -- */

static void note(struct feed_rig_client *c, const struct wire_poll_reply *reply)
{
    c->n = 0;
    for (size_t i = 0; i < reply->n_updates; i++) {
        const struct wire_answer *a = &reply->updates[i].data;

        assert_true(c->n + a->n_events + a->n_rows <= COUNT_OF(c->pids));
        for (size_t k = 0; k < a->n_events; k++) {
            c->pids[c->n++] = a->events[k].event.info.id.pid;
        }
        for (size_t k = 0; k < a->n_rows; k++) {
            c->pids[c->n++] = a->rows[k].info.id.pid;
        }
    }
    c->dropped = reply->dropped;
    c->dropped_now = reply->dropped_now;
    c->more = reply->more;
}

enum err feed_rig_poll(struct feed_rig *r, struct feed_rig_client *c, bool keep)
{
    const struct wire_poll poll = {.name = str_make(c->name),
                                   .cursor = {(const char *)c->cursor, c->cursor_n},
                                   .has_filter = c->has_filter,
                                   .filter = c->filter,
                                   .max = c->max,
                                   .from_oldest = c->from_oldest};
    const struct subscriptions_peer peer = {c->owner, c->scope ? c->scope : ""};
    struct subscriptions_cursor seen = {0, 0, 0};
    struct wire_poll_reply reply;
    struct errmsg why = {""};
    struct arena memory;
    enum err e;

    arena_init(&memory, 64u << 20);
    c->n = 0;
    e = subscriptions_poll(r->roster, &peer, &poll, &seen, &reply, &memory, &why);
    memcpy(c->why, why.text, sizeof c->why);
    if (!e || e == ERR_END) {
        note(c, &reply);
        if (keep) {
            assert_int_equal(reply.cursor.n, sizeof c->cursor);
            memcpy(c->cursor, reply.cursor.p, reply.cursor.n);
            c->cursor_n = reply.cursor.n;
        }
    }
    arena_fini(&memory);
    return e;
}

struct feed_rig_client feed_rig_subscriber(const char *name)
{
    return (struct feed_rig_client){.owner = "ann", .name = name, .from_oldest = true};
}

void feed_rig_assert_pids(const struct feed_rig_client *c, size_t n, uint32_t first)
{
    assert_int_equal(c->n, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(c->pids[i], first + i);
    }
}
