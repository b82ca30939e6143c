/* The thread that follows the collector's files: what is new counts without a restart. */
#include <stdio.h>

#include "collector/ca/trust.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "tests/support/certs.h"
#include "tests/support/crl.h"
#include "tests/support/net_rig.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static struct certs *pki;
static char dir[256], ca[300], cert[300], key[300], list[300];

static void count(void *ctx)
{
    atomic_fetch_add((atomic_int *)ctx, 1);
}

/* A list, then a new key and its certificate. */
static void files_that_change_are_read_anew(void **state)
{
    struct net_tls_conf files = {.ca = ca, .cert = cert, .key = key, .crl = list};
    struct trust_conf conf = {.dir = "", .ca = ca, .cert = cert, .crl = list};
    struct crl_entry one = {.serial = {1}, .n = 1};
    struct net_identity own, named = {.serial = {1}, .serial_n = 1};
    struct tls_config *tls;
    struct trust *t;
    atomic_int told = 0;

    certs_copy(pki, "ca", ".pem", ca);
    certs_copy(pki, "first", ".pem", cert);
    certs_copy(pki, "first", ".key", key);
    crl_write(list, certs_dir(pki), NULL, 0, os_utc_ns() + 3600 * CLK_S);
    assert_ok(tls_config_load(&tls, &files, true, NULL));
    conf.tls = tls;
    assert_ok(trust_open(&t, &conf, NULL));
    assert_ok(trust_follow(t, count, &told));

    crl_write(list, certs_dir(pki), &one, 1, os_utc_ns() + 3600 * CLK_S);
    net_rig_await(&told, 1);
    assert_string_equal(trust_judge(t, &named), "on the revocation list");
    certs_copy(pki, "second", ".key", key);
    certs_copy(pki, "second", ".pem", cert);
    net_rig_await(&told, 2);
    tls_config_identity(tls, &own);
    assert_string_equal(own.name, "second");
    assert_null(trust_judge(t, &own));
    trust_close(t);
    tls_config_free(tls);
}

static int set_up(void **state)
{
    support_temp_dir(dir, sizeof dir);
    snprintf(ca, sizeof ca, "%s/ca.pem", dir);
    snprintf(cert, sizeof cert, "%s/own.pem", dir);
    snprintf(key, sizeof key, "%s/own.key", dir);
    snprintf(list, sizeof list, "%s/list.pem", dir);
    assert_ok(log_open(LOG_ERROR, LOG_TEXT, NULL));
    net_rig_begin(&pki, NULL);
    certs_issue(pki, PKI_COLLECTOR, "first");
    certs_issue(pki, PKI_COLLECTOR, "second");
    return 0;
}

static int tear_down(void **state)
{
    log_close();
    support_remove_dir(dir);
    return net_rig_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_change_are_read_anew),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
