/* What the log says of a disk that fails under the collector: the cause, and what mends it. */
#include <stdio.h>
#include <string.h>

#include "collector/collector_store.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "tests/support/fio_fault.h"
#include "tests/support/store_rig.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

#define WAIT_NS (20 * CLK_S)

static const struct row {
    enum err e;
    const char *remedy, *never;
} rows[] = {
    {ERR_IO, "errors of the disk of data_dir", "make room"},
    {ERR_READONLY, "mount the disk of data_dir writable", "make room"},
    {ERR_ACCESS, "let the collector's user write", "make room"},
    {ERR_NOMEM, "head.max_bytes", "disk"},
    {ERR_NOSPACE, "make room", "errors of the disk"}, /* the journal waits: test_feed */
};
#define LOSING (COUNT_OF(rows) - 1)

static struct rig rig;

/* -- the log -- */

static struct {
    struct os_mutex *lock;
    char event[64], text[1024]; /* the newest of event "*_failed" or "*_works" */
} told;

static void listen(void *ctx, unsigned note, enum log_level level, const char *module,
                   const char *event, const char *text)
{
    (void)note;
    (void)ctx;
    (void)level;
    (void)module;
    if (strstr(event, "_failed") || strstr(event, "_works")) {
        os_mutex_lock(told.lock);
        (void)snprintf(told.event, sizeof told.event, "%s", event);
        (void)snprintf(told.text, sizeof told.text, "%s", text);
        os_mutex_unlock(told.lock);
    }
}

static void wait_for(const char *event)
{
    int64_t until_ns = os_mono_ns() + WAIT_NS;
    bool seen = false;

    while (!seen) {
        os_mutex_lock(told.lock);
        seen = strcmp(told.event, event) == 0;
        os_mutex_unlock(told.lock);
        if (!seen && os_mono_ns() > until_ns) {
            fail_msg("the log never said %s", event);
        }
        os_sleep_ns(CLK_MS);
    }
}

static void expect_remedy(const struct row *row)
{
    const char *remedy = strstr(told.text, "remedy=");

    assert_non_null(strstr(told.text, err_text(row->e)));
    assert_non_null(remedy);
    if (!strstr(remedy, row->remedy) || strstr(remedy, row->never)) {
        fail_msg("%s: %s", err_name(row->e), told.text);
    }
}

static int set_up(void **state)
{
    assert_ok(os_mutex_create(&told.lock));
    log_tee(listen, NULL);
    return 0;
}

static int tear_down(void **state)
{
    log_tee(NULL, NULL);
    os_mutex_destroy(told.lock);
    return 0;
}

static void load(struct collector_conf *conf, const struct fio *fio)
{
    struct errmsg why = {""};
    char dir[300];
    const char *sets[] = {dir, "feed.max_bytes=4MiB"};

    (void)snprintf(dir, sizeof dir, "data_dir=%s", rig.dir);
    assert_ok(collector_conf_load(conf, NULL, sets, COUNT_OF(sets), &why));
    conf->retain = rig.conf.retain;
    conf->accept_age_ns = 3650 * 24 * 3600 * CLK_S;
    conf->fio = fio;
}

/* -- the journal -- */

static void send_nowhere(void *ctx, const struct str *list, size_t n)
{
    (void)ctx;
    (void)list;
    (void)n;
}

static unsigned one(void *ctx)
{
    (void)ctx;
    return 1;
}

static void the_journal_says_what_mends_it_and_goes_on_by_itself(void **state)
{
    for (size_t i = 0; i < LOSING; i++) {
        struct collector_conf conf;
        struct collector_feed feed = {.journal = NULL};
        const struct collector_feed_conf how = {&conf, send_nowhere, one, NULL};
        struct errmsg why = {""};
        struct fio_fault *f;
        struct fleetgen *g = rig_host(1);

        rig_init(&rig);
        assert_ok(fio_fault_create(&f));
        load(&conf, fio_fault_fio(f));
        rig.conf.on_stored = collector_store_feed_stored;
        rig.conf.before_forget = collector_store_feed_keep;
        rig.conf.ctx = &feed;
        rig_open(&rig);
        assert_ok(collector_store_feed_open(&feed, &how, &why));
        assert_ok(collector_store_feed_start(&feed, rig.store, &why));
        fio_fault_fail(f, FIO_WRITE, 0, rows[i].e, true);
        rig_put_next(&rig, g, 1);
        wait_for("journal_failed");
        expect_remedy(&rows[i]);
        assert_null(strstr(told.text, "then restart"));
        fio_fault_fail(f, FIO_WRITE, -1, ERR_OK, false);
        rig_put_next(&rig, g, 1);
        wait_for("journal_works");
        collector_store_feed_stop(&feed);
        rig_close(&rig);
        collector_store_feed_close(&feed);
        fleetgen_destroy(g);
        collector_conf_fini(&conf);
        rig_fini(&rig);
        fio_fault_destroy(f);
    }
}

/* -- sealing -- */

static void sealing_says_what_mends_it_and_goes_on_by_itself(void **state)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct collector_conf conf;
        struct collector_store c = {.conf = &conf};
        struct errmsg why = {""};
        struct fio_fault *f;

        rig_init(&rig);
        assert_ok(fio_fault_create(&f));
        load(&conf, fio_fault_fio(f));
        conf.feed_bytes = 0;
        assert_ok(collector_store_open(&c, &why));
        rig.store = c.store;
        fio_fault_fail(f, FIO_RENAME, 0, rows[i].e, true);
        rig_put_host(&rig, 1, 3);
        assert_err(store_seal_now(rig.store, INT64_MAX), rows[i].e);
        wait_for("sealing_failed");
        expect_remedy(&rows[i]);
        fio_fault_fail(f, FIO_RENAME, -1, ERR_OK, false);
        assert_ok(store_seal_now(rig.store, INT64_MAX));
        wait_for("sealing_works");
        pulse_stop(c.pulse);
        rig_close(&rig);
        pulse_destroy(c.pulse);
        collector_conf_fini(&conf);
        rig_fini(&rig);
        fio_fault_destroy(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_journal_says_what_mends_it_and_goes_on_by_itself),
        cmocka_unit_test(sealing_says_what_mends_it_and_goes_on_by_itself),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
