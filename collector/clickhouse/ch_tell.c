#include "collector/clickhouse/ch_tell.h"

#include <inttypes.h>
#include <stdio.h>

#include "collector/store/read/store_read.h"
#include "common/base/clk.h"
#include "common/log/log.h"
#include "common/os/os.h"

static enum err tell_insert(struct ch_tell *t, struct ch_block *b, struct errmsg *why)
{
    char token[256];
    struct ch_http_insert in = {.token = token};
    enum err e;

    buf_reset(t->sql);
    buf_reset(t->body);
    e = ch_native_encode(b, ch_http_dialect(t->http), t->sql, t->body);
    (void)snprintf(token, sizeof token, "%.100s/%s/%" PRId64, t->name,
                   ch_schema_table(ch_native_table(b)), os_utc_ns());
    in.sql = buf_cstr(t->sql);
    in.body = t->body->p;
    in.n = t->body->n;
    return e ? e : ch_http_insert(t->http, &in, 10 * CLK_S, why);
}

static void put_host_states(const struct ch_tell *t, struct ch_block *b, const struct store_view *v)
{
    int64_t now_ns = os_utc_ns();

    for (size_t i = 0; i < store_view_hosts(v); i++) {
        const struct store_host *h = store_view_host(v, i);
        struct ch_host_state state;

        if (!t->host_state || !t->host_state(t->ctx, &h->id, &state)) {
            continue;
        }
        ch_native_row(b);
        ch_native_uuid(b, CH_HOST_STATE_host_id, &h->id);
        ch_native_str(b, CH_HOST_STATE_collector, str_make(t->name));
        ch_native_u64(b, CH_HOST_STATE_seen, (uint64_t)now_ns);
        ch_native_str(b, CH_HOST_STATE_name, str_make(h->name));
        ch_native_uuid(b, CH_HOST_STATE_boot, &h->boot);
        ch_native_u64(b, CH_HOST_STATE_heard, (uint64_t)state.heard_ns);
        ch_native_u64(b, CH_HOST_STATE_connected, state.connected);
        ch_native_u64(b, CH_HOST_STATE_clones, state.clones);
    }
}

void ch_tell_all(struct ch_tell *t)
{
    struct ch_block *self = NULL, *hosts = NULL;
    struct store_view *view = NULL;
    struct errmsg why = {""};
    enum err e = ch_native_block_create(&self, CH_COLLECTOR);

    if (!e) {
        ch_native_row(self);
        ch_native_str(self, CH_COLLECTOR_name, str_make(t->name));
        ch_native_uuid(self, CH_COLLECTOR_id, t->id);
        ch_native_str(self, CH_COLLECTOR_version, str_make(PROCFLEET_VERSION));
        ch_native_u64(self, CH_COLLECTOR_started, (uint64_t)t->started_ns);
        ch_native_u64(self, CH_COLLECTOR_seen, (uint64_t)os_utc_ns());
        e = tell_insert(t, self, &why);
    }
    e = e ? e : ch_native_block_create(&hosts, CH_HOST_STATE);
    e = e ? e : store_view_open(&view, t->store);
    if (!e) {
        put_host_states(t, hosts, view);
        e = ch_native_rows(hosts) ? tell_insert(t, hosts, &why) : ERR_OK;
    }
    store_view_close(view);
    ch_native_block_destroy(hosts);
    ch_native_block_destroy(self);
    if (e) {
        log_line(LOG_DEBUG, "clickhouse", "state_untold", "reason=%s", err_name(e));
    }
}
