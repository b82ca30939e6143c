#include "tests/collector/subscribe/journal_rig.h"

#include <stdio.h>
#include <string.h>

#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

char journal_rig_dir[256];

struct journal_conf journal_rig_conf(const struct fio *fio)
{
    return (struct journal_conf){
        .dir = journal_rig_dir, .fio = fio, .max_bytes = JOURNAL_LEAST, .hosts_max = 100};
}

struct journal *journal_rig_open_with(const struct journal_conf *conf)
{
    struct errmsg why = {""};
    struct journal *j = NULL;

    if (journal_open(&j, conf, &why) != ERR_OK) {
        fail_msg("%s", why.text);
    }
    return j;
}

struct journal *journal_rig_open(void)
{
    struct journal_conf conf = journal_rig_conf(fio_unsynced());

    return journal_rig_open_with(&conf);
}

struct journal_record journal_rig_event(unsigned host, uint64_t batch, size_t n)
{
    struct journal_record r = {.topic = FEED_EVENT,
                               .host = {{(uint8_t)host}},
                               .stream = 7,
                               .batch = batch,
                               .last_batch = batch,
                               .stored_ns = JOURNAL_RIG_T0 + (int64_t)batch,
                               .first_ns = 1,
                               .last_ns = 2,
                               .n = n};

    snprintf(r.name, sizeof r.name, "host-%u", host);
    return r;
}

/* A payload that says which batch it is, and that zstd makes smaller. */
const char *journal_rig_payload(uint64_t batch, size_t n)
{
    static char text[JOURNAL_PAYLOAD_MAX];

    memset(text, 'x', n);
    snprintf(text, n, "batch %llu", (unsigned long long)batch);
    return text;
}

struct journal_record journal_rig_add(struct journal *j, unsigned host, uint64_t batch)
{
    struct journal_record r = journal_rig_event(host, batch, 300);

    assert_ok(journal_append(j, &r, journal_rig_payload(batch, 300)));
    return r;
}

void journal_rig_add_synced(struct journal *j, unsigned host, uint64_t batch)
{
    (void)journal_rig_add(j, host, batch);
    assert_ok(journal_sync(j));
}

/* Payloads that do not shrink, so that files fill. */
enum err journal_rig_add_noise(struct journal *j, unsigned host, uint64_t batch, size_t n)
{
    static uint8_t noise[JOURNAL_PAYLOAD_MAX];
    struct journal_record r = journal_rig_event(host, batch, n);
    enum err e;

    assert_ok(os_random(noise, n));
    e = journal_append(j, &r, noise);
    return e ? e : journal_sync(j);
}

size_t journal_rig_count(struct journal *j)
{
    struct journal_record r;
    uint64_t from = 0;
    size_t n = 0;
    enum err e;

    while ((e = journal_next(j, &from, NULL, NULL, &r, NULL)) == ERR_OK || e == ERR_CORRUPT) {
        n += e == ERR_OK;
    }
    return n;
}

/* How often the batch's record is there. */
size_t journal_rig_count_batch(struct journal *j, uint64_t batch)
{
    struct journal_record r;
    uint64_t from = 0;
    size_t n = 0;
    enum err e;

    while ((e = journal_next(j, &from, NULL, NULL, &r, NULL)) == ERR_OK || e == ERR_CORRUPT) {
        n += e == ERR_OK && r.batch <= batch && batch <= r.last_batch;
    }
    return n;
}

uint64_t journal_rig_last(struct journal *j, const char *name)
{
    struct journal_record r;
    uint64_t last;

    err_ignore(journal_find(j, FEED_EVENT, name, 1, &r, NULL, &last));
    return last;
}

int journal_rig_setup(void **state)
{
    support_temp_dir(journal_rig_dir, sizeof journal_rig_dir);
    return 0;
}

int journal_rig_teardown(void **state)
{
    support_remove_dir(journal_rig_dir);
    return 0;
}
