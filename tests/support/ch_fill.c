#include "tests/support/ch_fill.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/clk.h"

#define ASK_NS (120 * CLK_S)

void ch_fill_check(enum err e, const char *what, const struct errmsg *why)
{
    if (e) {
        fprintf(stderr, "%s: %s: %s\n", what, err_name(e), why ? why->text : "");
        exit(1);
    }
}

struct ch_http *ch_fill_open(const char *url, const char *database)
{
    const struct ch_http_conf conf = {.urls = &url,
                                      .n_urls = 1,
                                      .database = database,
                                      .user = "",
                                      .password_file = "",
                                      .ca = "",
                                      .cert = "",
                                      .key = ""};
    struct errmsg why = {""};
    struct ch_http *h;

    ch_fill_check(ch_http_open(&h, &conf, &why), "ch_http_open", &why);
    ch_fill_check(ch_http_connect(h, &why), url, &why);
    return h;
}

void ch_fill_statement(struct ch_http *h, const char *sql)
{
    struct errmsg why = {""};

    ch_fill_check(ch_http_ask_nowhere(h, sql, ASK_NS, NULL, &why), sql, &why);
}

void ch_fill_drop(struct ch_http *h, const char *database)
{
    char sql[128];

    (void)snprintf(sql, sizeof sql, "DROP DATABASE IF EXISTS `%s`", database);
    ch_fill_statement(h, sql);
}

void ch_fill_make(struct ch_http *h, const char *database)
{
    struct ch_layout layout = {.dialect = ch_http_dialect(h), .database = database};
    struct buf sql;

    ch_fill_drop(h, database);
    buf_init(&sql, 1u << 20);
    buf_printf(&sql, "CREATE DATABASE `%s`", database);
    ch_fill_statement(h, buf_cstr(&sql));
    for (unsigned t = 0; t < CH_TABLES; t++) {
        buf_reset(&sql);
        ch_schema_create(&sql, &layout, (enum ch_table)t);
        ch_fill_statement(h, buf_cstr(&sql));
    }
    buf_fini(&sql);
}

void ch_fill_block(struct ch_http *h, struct ch_block *block)
{
    struct ch_http_insert in = {.token = ch_schema_table(ch_native_table(block))};
    struct errmsg why = {""};
    struct buf sql, body;

    if (!ch_native_rows(block)) {
        return;
    }
    buf_init(&sql, 1u << 20);
    buf_init(&body, (size_t)1 << 30);
    ch_fill_check(ch_native_encode(block, ch_http_dialect(h), &sql, &body), "encode", NULL);
    in.sql = buf_cstr(&sql);
    in.body = body.p;
    in.n = body.n;
    ch_fill_check(ch_http_insert(h, &in, ASK_NS, &why), "insert", &why);
    buf_fini(&sql);
    buf_fini(&body);
}

void ch_fill_rows(struct ch_http *h, struct ch_rows *rows, bool again)
{
    static const enum ch_table tables[] = {CH_CELL,    CH_SAMPLE, CH_EVENT,
                                           CH_PROCESS, CH_HOST,   CH_BATCH};

    ch_rows_announce(rows, CH_STORED, again);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        ch_fill_block(h, ch_rows_block(rows, tables[i]));
    }
    ch_rows_reset(rows);
}
