#include "tests/agent/uplink/link.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/certs.h"
#include "tests/support/t.h"

struct link_tls link_tls;

static struct certs *pki, *other_pki;

static void on_limit(void *ctx, size_t bytes)
{
    ((struct link *)ctx)->limit = bytes;
}

struct link *link_new(const struct ingest *c)
{
    struct link *l = mem_zalloc(sizeof *l);

    assert_non_null(l);
    assert_ok(queue_create(&l->queue, 1 << 20));
    (void)snprintf(l->addresses[0], sizeof l->addresses[0], "127.0.0.1:%u", ingest_port(c));
    l->list[0] = l->addresses[0];
    l->list[1] = l->addresses[1];
    l->conf = (struct uplink_conf){.outbox = queue_outbox(l->queue, 9),
                                   .tls = link_tls.agent,
                                   .addresses = l->list,
                                   .n_addresses = 1,
                                   .heartbeat_ns = LINK_LONG_NS,
                                   .limit = on_limit,
                                   .ctx = l};
    return l;
}

void link_start(struct link *l)
{
    struct errmsg why = {""};

    if (uplink_start(&l->uplink, &l->conf, &why)) {
        fail_msg("%s", why.text);
    }
}

void link_put(struct link *l, uint64_t seq, const char *text)
{
    assert_ok(queue_put(l->queue, seq, text, strlen(text), true));
}

/* Until `reached` says so; the time limit only ends a test that has failed. */
struct uplink_status link_wait(struct link *l, bool (*reached)(const struct uplink_status *))
{
    int64_t end_ns = os_mono_ns() + LINK_LONG_NS;
    struct uplink_status s;

    for (uplink_status(l->uplink, &s); !reached(&s); uplink_status(l->uplink, &s)) {
        assert_true(os_mono_ns() < end_ns);
        os_sleep_ns(2 * CLK_MS);
    }
    return s;
}

bool link_drained(const struct uplink_status *s)
{
    return s->drained;
}

bool link_refused(const struct uplink_status *s)
{
    return s->state == UPLINK_REFUSED;
}

bool link_acknowledged(const struct uplink_status *s)
{
    return s->acknowledged > 0;
}

struct uplink_status link_drain(struct link *l)
{
    queue_close(l->queue);
    return link_wait(l, link_drained);
}

void link_free(struct link *l)
{
    queue_close(l->queue);
    uplink_stop(l->uplink, 0);
    queue_destroy(l->queue);
    mem_free(l);
}

void link_check_got(struct ingest *c, const char *want)
{
    os_mutex_lock(c->lock);
    c->got[c->n_got] = '\0';
    os_mutex_unlock(c->lock);
    assert_string_equal(c->got, want);
}

int link_set_up(void **state)
{
    struct errmsg why = {""};

    if (net_init(&why)) {
        return -1;
    }
    pki = certs_create();
    other_pki = certs_create();
    certs_issue(pki, PKI_COLLECTOR, "collector");
    certs_issue(pki, PKI_AGENT, "host-1");
    certs_issue(other_pki, PKI_AGENT, "host-1");
    link_tls.server = certs_load(pki, "collector", pki, true);
    link_tls.agent = certs_load(pki, "host-1", pki, false);
    link_tls.stranger = certs_load(other_pki, "host-1", other_pki, false);
    return 0;
}

int link_tear_down(void **state)
{
    tls_config_free(link_tls.server);
    tls_config_free(link_tls.agent);
    tls_config_free(link_tls.stranger);
    certs_destroy(pki);
    certs_destroy(other_pki);
    net_fini();
    return 0;
}
