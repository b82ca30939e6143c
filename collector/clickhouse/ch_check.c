#include "collector/clickhouse/ch_check.h"

#include <stdio.h>
#include <string.h>

#include "collector/clickhouse/ch_migrate.h"
#include "collector/clickhouse/ch_sent.h"
#include "common/base/buf.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/text/humanize.h"

#define LAG_WARN_NS (60 * CLK_S)

static void tables_check(struct findings *to, const struct ch_conf *c, struct ch_http *h)
{
    const struct ch_layout layout = {.dialect = ch_http_dialect(h),
                                     .database = c->server.database,
                                     .replicated = c->server.n_urls > 1,
                                     .keep = c->keep};
    struct ch_migrate_plan plan;
    struct errmsg why = {""};
    enum err e;

    ch_migrate_init(&plan);
    e = ch_migrate_look(&plan, h, &layout, &why);
    if (e) {
        check_result_report(to, "clickhouse.tables", CHECK_RESULT_FAILED,
                            "see what the server says, and the rights of clickhouse.user", "%s",
                            why.text);
    } else if (plan.n && plan.empty) {
        check_result_report(to, "clickhouse.tables", CHECK_RESULT_WARNING,
                            "procfleet-collector clickhouse migrate, or start the collector",
                            "%s has no tables yet", ch_http_url(h));
    } else if (plan.n) {
        check_result_report(
            to, "clickhouse.tables", CHECK_RESULT_FAILED, "procfleet-collector clickhouse migrate",
            "%s lacks %zu tables or columns that this collector sends", ch_http_url(h), plan.n);
    } else {
        check_result_report(to, "clickhouse.tables", CHECK_RESULT_OK, "",
                            "%s has all tables and columns in database %s", ch_http_url(h),
                            c->server.database);
    }
    ch_migrate_fini(&plan);
}

static void server_check(struct findings *to, const struct ch_conf *c, struct ch_http *h)
{
    struct errmsg why = {""};
    enum err e = ch_http_connect(h, &why);

    if (e) {
        check_result_report(to, "clickhouse.server", CHECK_RESULT_FAILED,
                            "start the server, or correct clickhouse.urls, clickhouse.user and "
                            "clickhouse.password_file; until then the store keeps what is not sent",
                            "%s", why.text);
        return;
    }
    check_result_report(to, "clickhouse.server", CHECK_RESULT_OK, "", "%s answers, version %s (%s)",
                        ch_http_url(h), ch_http_version(h),
                        ch_http_dialect(h) != CH_PLAIN ? "codecs, TTL and tokens are used"
                                                       : "an old one: no codecs, TTL and tokens");
    tables_check(to, c, h);
}

/* What was written at most 10 s ago when a collector runs. */
static void lag_check(struct findings *to, const struct ch_conf *c, const char *data_dir,
                      int64_t now_ns)
{
    char *dir = os_path_join(data_dir, "clickhouse");
    const struct ch_sent_conf conf = {fio_os(), dir, c->name, 1000000, INT64_MAX / 2};
    struct ch_sent *s = NULL;
    struct ch_sent_from from;
    struct errmsg why = {""};
    struct buf text;
    int64_t oldest_ns;

    if (!dir || !os_exists(dir) || ch_sent_open(&s, &conf, &from, &why) || !from.written_ns) {
        check_result_report(to, "clickhouse.lag", CHECK_RESULT_SKIPPED, "",
                            "nothing was sent by a collector called %s with this data_dir",
                            c->name);
        ch_sent_close(s);
        mem_free(dir);
        return;
    }
    oldest_ns = from.received_ns < from.made_ns ? from.received_ns : from.made_ns;
    buf_init(&text, 256);
    humanize_ns(&text, oldest_ns == INT64_MAX ? 0 : clk_sub(now_ns, oldest_ns));
    if (oldest_ns == INT64_MAX || clk_sub(from.written_ns, oldest_ns) < LAG_WARN_NS) {
        check_result_report(to, "clickhouse.lag", CHECK_RESULT_OK, "",
                            "what has come in is sent within a minute");
    } else if (oldest_ns <= 0) {
        check_result_report(to, "clickhouse.lag", CHECK_RESULT_WARNING,
                            "let it go on; 'clickhouse status' shows how far it is",
                            "what the store holds is being sent for the first time");
    } else {
        check_result_report(
            to, "clickhouse.lag", CHECK_RESULT_WARNING,
            "see the log for why; what retention takes before it is sent is missing "
            "in ClickHouse",
            "the oldest that is not sent came %s ago", buf_cstr(&text));
    }
    buf_fini(&text);
    ch_sent_close(s);
    mem_free(dir);
}

void ch_check_run(struct findings *to, const struct ch_conf *c, const char *data_dir,
                  int64_t now_ns)
{
    struct errmsg why = {""};
    struct ch_http *h = NULL;
    enum err e;

    if (!c->on) {
        check_result_report(to, "clickhouse", CHECK_RESULT_SKIPPED, "", "off: no clickhouse.urls");
        return;
    }
    e = ch_http_open(&h, &c->server, &why);
    if (e) {
        check_result_report(to, "clickhouse", CHECK_RESULT_FAILED, "correct the setting", "%s",
                            why.text[0] ? why.text : err_text(e));
        return;
    }
    for (size_t i = 0; i < ch_http_urls(h); i++) {
        ch_http_choose(h, i);
        server_check(to, c, h);
    }
    ch_http_close(h);
    lag_check(to, c, data_dir, now_ns);
}
