/* The table of the view. */
#include "collector/clickhouse/ch_view.h"

#include <string.h>

#include "collector/clickhouse/ch_view_ask.h"
#include "collector/clickhouse/ch_view_hosts.h"
#include "collector/clickhouse/ch_view_page.h"
#include "common/base/mem.h"
#include "common/base/search.h"

#define SQL_MAX   ((size_t)1 << 20)
#define KNOWN_MAX ((size_t)256 << 20) /* bytes: what is known, by host */

/* As the list is sorted. */
static int by_name(const struct store_host *a, const struct store_host *b)
{
    int d = strcmp(a->name, b->name);

    return d ? d : memcmp(a->id.b, b->id.b, sizeof a->id.b);
}

static void far_close(struct store_view *view)
{
    struct ch_view *v = ch_view_ask_of(view);

    ch_view_info_fini(v);
    ch_view_page_fini(v);
    ch_view_hosts_unref(v->list);
    arena_fini(&v->memory);
    buf_fini(&v->sql);
    if (v->conf.closed) {
        v->conf.closed(v->conf.ctx);
    }
    mem_free(v);
}

static size_t far_hosts(const struct store_view *view)
{
    return ch_view_ask_of(view)->n;
}

static const struct store_host *far_host(const struct store_view *view, size_t i)
{
    return &ch_view_ask_of(view)->hosts[i];
}

static size_t far_find(const struct store_view *view, const char *name, const struct uuid *id)
{
    const struct ch_view *v = ch_view_ask_of(view);
    const struct store_host key = {.id = *id, .name = name};
    size_t i;

    SEARCH_LOWER(i, v->n, by_name(&v->hosts[i], &key) < 0);
    return i < v->n && by_name(&v->hosts[i], &key) == 0 ? i : v->n;
}

static const struct view_ops far = {
    .close = far_close,
    .hosts = far_hosts,
    .host = far_host,
    .find = far_find,
    .blocks_scan = ch_view_rest_blocks,
    .cells_scan = ch_view_cells_scan,
    .cells_gone = ch_view_cells_gone,
    .accounts_scan = ch_view_rest_accounts,
    .info_each = ch_view_info_each,
    .info_range = ch_view_info_range,
    .info = ch_view_info_find,
    .info_want = ch_view_info_want,
    .info_unlisted = ch_view_info_unlisted,
    .expect = ch_view_page_expect,
};

static enum err hosts_take(struct ch_view *v, struct ch_view_hosts *list)
{
    enum err e = ERR_OK;

    if (list) {
        v->list = ch_view_hosts_ref(list);
    } else {
        e = ch_view_hosts_read(&v->list, v);
    }
    if (e) {
        return e;
    }
    v->hosts = ch_view_hosts_list(v->list, &v->n);
    v->known = arena_array(&v->memory, v->n + 1, sizeof *v->known);
    return v->known ? ch_view_page_init(v) : arena_refused(&v->memory, v->n * sizeof *v->known);
}

enum err ch_view_open(struct store_view **out, const struct ch_view_conf *conf, struct errmsg *why)
{
    struct ch_view *v = mem_zalloc(sizeof *v);
    enum err e;

    if (!v) {
        if (conf->closed) {
            conf->closed(conf->ctx);
        }
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    v->ops = &far;
    v->conf = *conf;
    v->until_ns = INT64_MAX;
    arena_init(&v->memory, KNOWN_MAX);
    buf_init(&v->sql, SQL_MAX);
    e = hosts_take(v, conf->hosts);
    if (e) {
        far_close((struct store_view *)(void *)v);
        return errmsg_set(why, e, "ClickHouse did not list the hosts: %s", err_text(e));
    }
    *out = (struct store_view *)(void *)v;
    return ERR_OK;
}

struct ch_view_hosts *ch_view_hosts_of(const struct store_view *view)
{
    return ch_view_hosts_ref(ch_view_ask_of(view)->list);
}
