/* Bits that flip in the files beside the store, as chaos_flips does it to the store's own: the
 * feed's journal, subscriptions, the hosts that are forgotten and the session ticket keys (the
 * authority's book: test_ca_db). What is read again is what was written, what is lost is told, and
 * no number is given twice.
 *
 * PROCFLEET_FLIPS (16) places of each kind and PROCFLEET_SEED (1) in the environment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "collector/ingest/forgotten.h"
#include "collector/subscribe/feed_check.h"
#include "collector/subscribe/journal.h"
#include "collector/subscribe/subscriptions_file.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/tls/tls_ticket.h"
#include "tests/support/draw.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define FILES_MAX 16
#define RECORDS   400
#define HOSTS     3
#define NOW_NS    (INT64_C(1767225600) * 1000000000)

static char dir[256];
static uint64_t rng;
static unsigned places;

/* -- files -- */

struct file {
    char name[64];
    uint8_t *p;
    size_t n;
};

static struct file files[FILES_MAX];
static size_t n_files;

static void path_in(char out[400], const char *name)
{
    (void)snprintf(out, 400, "%s/%s", dir, name);
}

static enum err keep_one(void *ctx, const char *name)
{
    struct file *f = &files[n_files];
    char path[400];

    (void)ctx;
    path_in(path, name);
    assert_true(n_files < FILES_MAX);
    (void)snprintf(f->name, sizeof f->name, "%s", name);
    assert_ok(os_read_file(&f->p, &f->n, path, 64u << 20));
    n_files++;
    return ERR_OK;
}

static void keep(void)
{
    n_files = 0;
    assert_ok(os_list_dir(dir, keep_one, NULL));
    assert_true(n_files > 0);
}

static void put(const char *name, const uint8_t *p, size_t n)
{
    char path[400];

    path_in(path, name);
    support_write_file(path, p, n);
}

/* All as it was, but for one bit of one file whose name begins so; gives its place. */
static size_t flip(const char *begins)
{
    uint64_t all = 0, place;
    uint8_t bit;
    size_t i = 0;

    support_empty_dir(dir);
    for (size_t k = 0; k < n_files; k++) {
        put(files[k].name, files[k].p, files[k].n);
        all += strncmp(files[k].name, begins, strlen(begins)) == 0 ? files[k].n : 0;
    }
    assert_in_range(all, 1, UINT32_MAX);
    place = draw(&rng, (uint32_t)all);
    while (strncmp(files[i].name, begins, strlen(begins)) != 0 || place >= files[i].n) {
        place -= strncmp(files[i].name, begins, strlen(begins)) == 0 ? files[i].n : 0;
        i++;
    }
    bit = (uint8_t)(1u << draw(&rng, 8));
    files[i].p[place] ^= bit;
    put(files[i].name, files[i].p, files[i].n);
    files[i].p[place] ^= bit;
    return (size_t)place;
}

/* -- the journal -- */

static uint64_t payloads[RECORDS * 2]; /* hashes, by position */
static uint64_t last_seq[HOSTS];
static uint64_t last_position;

static struct journal *journal(void)
{
    const struct journal_conf conf = {
        .dir = dir, .fio = fio_unsynced(), .max_bytes = JOURNAL_LEAST, .hosts_max = 10};
    struct journal *j;

    assert_ok(journal_open(&j, &conf, NULL));
    return j;
}

static void append(struct journal *j, unsigned i, struct journal_record *r)
{
    static uint8_t payload[6000];

    for (size_t k = 0; k < sizeof payload; k++) { /* nothing that packs well */
        payload[k] = (uint8_t)draw(&rng, 256);
    }
    *r = (struct journal_record){.topic = FEED_EVENT,
                                 .host = {{(uint8_t)(i % HOSTS)}},
                                 .stream = 7,
                                 .batch = i + 1,
                                 .last_batch = i + 1,
                                 .stored_ns = i + 1,
                                 .n = sizeof payload};
    (void)snprintf(r->name, sizeof r->name, "host-%u", i % HOSTS);
    assert_ok(journal_append(j, r, payload));
    assert_ok(journal_sync(j));
    assert_in_range(r->position, 1, COUNT_OF(payloads) - 1);
    payloads[r->position] = hash_bytes(payload, sizeof payload, r->seq);
    last_seq[i % HOSTS] = r->seq;
    last_position = r->position;
}

/* *missing: records that are told to be there and cannot be read. */
static size_t read_journal(struct journal *j, size_t *missing)
{
    struct journal_record r;
    uint64_t from = 0;
    struct buf b;
    size_t n = 0;
    enum err e;

    *missing = 0;
    do {
        buf_init(&b, JOURNAL_PAYLOAD_MAX);
        e = journal_next(j, &from, NULL, NULL, &r, &b);
        if (!e && r.n) {
            assert_in_range(r.position, 1, last_position);
            assert_true(payloads[r.position] == hash_bytes(b.p, b.n, r.seq));
            n++;
        }
        *missing += e == ERR_CORRUPT;
        buf_fini(&b);
    } while (!e || e == ERR_CORRUPT);
    assert_err(e, ERR_END);
    return n;
}

struct found {
    uint64_t damaged;
};

static void see(void *ctx, const struct feed_check_file *f)
{
    struct found *x = ctx;

    x->damaged += f->damaged;
}

static void a_flipped_bit_in_the_journal_is_told_and_gives_no_number_twice(void **state)
{
    struct journal_record r;
    struct journal *j;
    size_t whole, missing, lost = 0;
    unsigned found = 0;

    j = journal();
    for (unsigned i = 0; i < RECORDS; i++) {
        append(j, i, &r);
    }
    whole = read_journal(j, &missing);
    assert_int_equal(missing, 0);
    assert_true(whole > RECORDS / 2);
    journal_close(j);
    keep();
    for (unsigned i = 0; i < places; i++) {
        uint64_t sums[COUNT_OF(payloads)], seqs[HOSTS], position = last_position;
        struct found x = {0};
        struct journal_stats st;
        size_t n, place;

        memcpy(sums, payloads, sizeof sums);
        memcpy(seqs, last_seq, sizeof seqs);
        place = flip("feed-");
        assert_ok(feed_check(fio_unsynced(), dir, see, &x));
        j = journal();
        journal_stats(j, &st);
        n = read_journal(j, &missing);
        if (n + 1 < whole) {
            fail_msg("byte %zu: %zu records of %zu are left", place, n, whole);
        }
        assert_true(n == whole || st.damaged_bytes + st.torn_bytes > 0);
        assert_true(n + missing == whole || st.torn_bytes > 0);
        lost += whole - n;
        found += x.damaged > 0;
        assert_true(x.damaged > 0 || st.torn_bytes > 0); /* the last record may be torn */
        append(j, RECORDS, &r);
        assert_true(r.position > position || st.torn_bytes > 0);
        assert_true(r.seq > seqs[RECORDS % HOSTS] || st.torn_bytes > 0 || st.damaged_bytes > 0);
        journal_close(j);
        memcpy(payloads, sums, sizeof sums);
        memcpy(last_seq, seqs, sizeof seqs);
        last_position = position;
    }
    print_message("journal      %u flips, %u found by check, %zu of %zu records lost each\n",
                  places, found, lost / places, whole);
}

/* -- subscriptions, forgotten hosts, ticket keys -- */

static void every_flipped_bit_of_a_subscription_is_found(void **state)
{
    const struct subscriptions_state in = {.number = 3,
                                           .name = "mine",
                                           .owner = "ann",
                                           .scope = "web-*",
                                           .filter = {.kinds = 5},
                                           .created_ns = 1,
                                           .polled_ns = 2};

    assert_ok(subscriptions_file_write(fio_unsynced(), dir, &in));
    keep();
    for (unsigned i = 0; i < places; i++) {
        struct subscriptions_state out;
        struct found x = {0};

        (void)flip("sub-");
        assert_ok(feed_check(fio_unsynced(), dir, see, &x));
        assert_int_equal(x.damaged, 1);
        assert_true(subscriptions_file_read(&out, fio_unsynced(), dir, 3) != ERR_OK);
    }
}

static void a_flipped_bit_hides_no_other_host(void **state)
{
    struct forgotten *f;

    assert_ok(forgotten_open(&f, fio_unsynced(), dir, NULL));
    for (uint8_t i = 1; i < 30; i++) {
        assert_ok(forgotten_add(f, &(struct uuid){{i}}));
    }
    forgotten_close(f);
    keep();
    for (unsigned i = 0; i < places; i++) {
        (void)flip("forgotten");
        if (forgotten_open(&f, fio_unsynced(), dir, NULL) != ERR_OK) {
            continue; /* of a newer version */
        }
        for (uint8_t k = 1; k < 30; k++) {
            assert_false(forgotten_has(f, &(struct uuid){{k}}));
        }
        forgotten_close(f);
    }
}

static void ticket_keys_with_a_flipped_bit_open_no_ticket(void **state)
{
    static const uint8_t binding[32] = {1};
    uint8_t sealed[TLS_TICKET_HEAD + 64 + TLS_TICKET_TAIL] = {0};
    struct tls_ticket *t;
    char path[400];
    size_t content;

    path_in(path, "ticket.keys");
    assert_ok(tls_ticket_open(&t, path, NOW_NS, NULL));
    assert_ok(tls_ticket_seal(t, binding, NOW_NS, sealed, 64));
    tls_ticket_close(t);
    keep();
    for (unsigned i = 0; i < places; i++) {
        uint8_t ticket[sizeof sealed];

        (void)flip("ticket");
        assert_int_equal(chmod(path, 0600), 0);
        memcpy(ticket, sealed, sizeof ticket);
        assert_ok(tls_ticket_open(&t, path, NOW_NS, NULL));
        assert_true(tls_ticket_unseal(t, binding, NOW_NS, ticket, sizeof ticket, &content) !=
                    ERR_OK);
        tls_ticket_close(t);
    }
}

/* -- all of them -- */

static int teardown(void **state)
{
    for (size_t i = 0; i < n_files; i++) {
        mem_free(files[i].p);
    }
    n_files = 0;
    support_remove_dir(dir);
    return 0;
}

#define T(f) cmocka_unit_test_prestate_setup_teardown(f, support_dir_setup, teardown, dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_flipped_bit_in_the_journal_is_told_and_gives_no_number_twice),
        T(every_flipped_bit_of_a_subscription_is_found),
        T(a_flipped_bit_hides_no_other_host),
        T(ticket_keys_with_a_flipped_bit_open_no_ticket),
    };
    const char *flips = getenv("PROCFLEET_FLIPS"), *seed = getenv("PROCFLEET_SEED");

    places = flips ? (unsigned)strtoul(flips, NULL, 10) : 16;
    rng = seed ? strtoull(seed, NULL, 10) : 1;
    print_message("seed %llu, %u places of each kind\n", (unsigned long long)rng, places);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
