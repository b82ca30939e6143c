/* Which revocation lists are believed, and that those they name go and do not come back. */
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "tests/support/certs.h"
#include "tests/support/crl.h"
#include "tests/support/net_rig.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

static struct certs *pki, *foreign;
static char dir[256], list[300];

static struct tls_config *collector, *agent, *other;

static enum err load(struct tls_config **out, struct errmsg *why)
{
    char ca[400], cert[400], key[400];
    struct net_tls_conf conf = {.ca = ca, .cert = cert, .key = key, .crl = list};

    snprintf(ca, sizeof ca, "%s", certs_path(pki, "ca", ".pem"));
    snprintf(cert, sizeof cert, "%s", certs_path(pki, "collector", ".pem"));
    snprintf(key, sizeof key, "%s", certs_path(pki, "collector", ".key"));
    return tls_config_load(out, &conf, true, why);
}

static struct crl_entry entry_of(struct tls_config *t)
{
    struct net_identity who;
    struct crl_entry e = {.n = 0};

    tls_config_identity(t, &who);
    assert_true(who.serial_n > 0);
    memcpy(e.serial, who.serial, who.serial_n);
    e.n = who.serial_n;
    return e;
}

/* -- what is believed -- */

static void flip(long at)
{
    uint8_t *p;
    size_t n;

    assert_ok(os_read_file(&p, &n, list, 1 << 14));
    p[(size_t)at % n] ^= 2;
    assert_ok(os_write_file(list, p, n, false));
    mem_free(p);
}

static void lists_that_cannot_be_believed_are_not_loaded(void **state)
{
    struct crl_entry one = {.serial = {1, 2, 3}, .n = 3};
    struct tls_config *t = NULL;
    struct errmsg why = {""};

    assert_err(load(&t, &why), ERR_NOTFOUND);
    crl_write(list, certs_dir(foreign), &one, 1, os_utc_ns() + 3600 * CLK_S);
    assert_err(load(&t, &why), ERR_TRUST);
    assert_non_null(strstr(why.text, "not signed"));
    crl_write(list, certs_dir(pki), &one, 1, os_utc_ns() + 3600 * CLK_S);
    assert_ok(load(&t, &why));
    tls_config_free(t);
    for (long at = 30; at < 200; at++) { /* inside the base64 */
        flip(at);
        assert_true(load(&t, &why) != ERR_OK);
        flip(at);
    }
    assert_ok(os_write_file(list, "nothing", 7, false));
    assert_err(load(&t, &why), ERR_INVALID);
    assert_ok(os_remove(list));
}

static void running_out_of_memory_leaves_nothing(void **state)
{
    struct crl_entry one = {.serial = {1, 2, 3}, .n = 3};
    struct tls_config *t = NULL;
    enum err e = ERR_NOMEM;
    long live = mem_live();

    crl_write(list, certs_dir(pki), &one, 1, os_utc_ns() + 3600 * CLK_S);
    for (long i = 0; e; i++) {
        assert_true(i < 100);
        mem_fail_after(i);
        e = load(&t, NULL);
        mem_fail_after(-1);
        assert_true(!e || (e == ERR_NOMEM && mem_live() == live));
    }
    tls_config_free(t);
    assert_int_equal(mem_live(), live);
}

/* -- what it does -- */

/* Both are connected; the list that is read anew names one, and is late besides. */
static void who_is_on_a_new_list_goes_and_does_not_come_back(void **state)
{
    struct crl_entry revoked = entry_of(agent);
    struct net_server_conf conf = {.roles = NET_AGENT};
    struct net_client *a, *b;
    struct net_rig g;

    crl_write(list, certs_dir(pki), NULL, 0, os_utc_ns() + 3600 * CLK_S);
    assert_ok(load(&collector, NULL));
    conf.tls = collector;
    net_rig_start(&g, &conf);
    a = net_rig_dial(g.address, agent);
    b = net_rig_dial(g.address, other);
    assert_ok(net_rig_ask(a, NET_RIG_LONG_NS));
    assert_ok(net_rig_ask(b, NET_RIG_LONG_NS));
    crl_write(list, certs_dir(pki), &revoked, 1, os_utc_ns() - 3600 * CLK_S);
    assert_ok(tls_config_reload(collector, NULL));
    net_server_review(g.server);
    net_rig_await(&g.left, 1);
    net_rig_refused(a, "revoked");
    assert_ok(net_rig_ask(b, NET_RIG_LONG_NS));
    assert_int_equal(atomic_load(&g.left), 1);
    net_client_close(a);
    net_client_close(b);
    net_rig_stop(&g);
    tls_config_free(collector);
}

static int set_up(void **state)
{
    support_temp_dir(dir, sizeof dir);
    snprintf(list, sizeof list, "%s/list.pem", dir);
    assert_ok(log_open(LOG_ERROR, LOG_TEXT, NULL));
    net_rig_begin(&pki, &foreign);
    certs_issue(pki, PKI_COLLECTOR, "collector");
    agent = certs_tls(pki, PKI_AGENT, "agent");
    other = certs_tls(pki, PKI_AGENT, "other");
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
        cmocka_unit_test(lists_that_cannot_be_believed_are_not_loaded),
        cmocka_unit_test(running_out_of_memory_leaves_nothing),
        cmocka_unit_test(who_is_on_a_new_list_goes_and_does_not_come_back),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
