#include "collector/clickhouse/ch_conf.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/http/http_client.h"
#include "common/os/os.h"

static const char *const path_keys[] = {
    "clickhouse.password_file", "clickhouse.reader_password_file",
    "clickhouse.tls.ca",        "clickhouse.tls.cert",
    "clickhouse.tls.key",
};
enum { PATH_PASSWORD, PATH_READER, PATH_CA, PATH_CERT, PATH_KEY, PATHS };

/* It stands in SQL and in paths of the servers' Keeper. */
static bool is_name(const char *text)
{
    size_t n = strlen(text);

    return n > 0 && n < 64 && (text[0] < '0' || text[0] > '9') &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == n;
}

static enum err name_read(struct ch_conf *c, const struct conf *source, struct errmsg *why)
{
    const char *text = conf_text(source, "collector.name");
    char host[256];
    enum err e;

    if (!text[0]) {
        e = os_host_name(host, sizeof host);
        if (e) {
            return errmsg_set(why, e, "the host has no name: set collector.name");
        }
        text = host;
    }
    for (const char *s = text; *s; s++) {
        if ((uint8_t)*s <= ' ' || (uint8_t)*s >= 0x7f) {
            return conf_wrong(source, "collector.name", why, "letters, digits and marks of ASCII");
        }
    }
    if (strlen(text) >= sizeof c->name) {
        return conf_wrong(source, "collector.name", why, "at most 63 characters");
    }
    (void)snprintf(c->name, sizeof c->name, "%s", text);
    return ERR_OK;
}

static enum err urls_read(struct ch_conf *c, const struct conf *source, struct errmsg *why)
{
    struct errmsg wrong = {""};

    c->server.n_urls = conf_list(source, "clickhouse.urls", &c->server.urls);
    c->on = c->server.n_urls > 0;
    for (size_t i = 0; i < c->server.n_urls; i++) {
        enum err e = http_client_check_url(c->server.urls[i], false, &wrong);

        if (e || strchr(c->server.urls[i], '?')) {
            return e == ERR_NOMEM
                       ? e
                       : conf_wrong(source, "clickhouse.urls", why,
                                    wrong.text[0] ? wrong.text
                                                  : "an address such as https://ch1:8443");
        }
    }
    return ERR_OK;
}

enum err ch_conf_read(struct ch_conf *out, const struct conf *source, const char *data_dir,
                      struct errmsg *why)
{
    struct ch_conf *c = out;
    enum err e;

    *c = (struct ch_conf){.on = false};
    e = urls_read(c, source, why);
    e = e ? e : name_read(c, source, why);
    for (size_t i = 0; i < PATHS && !e; i++) {
        if (conf_text(source, path_keys[i])[0]) {
            c->paths[i] = os_path_join(data_dir, conf_text(source, path_keys[i]));
            e = c->paths[i] ? ERR_OK : ERR_NOMEM;
        }
    }
    if (e) {
        return e;
    }
    c->server.database = conf_text(source, "clickhouse.database");
    if (!is_name(c->server.database)) {
        return conf_wrong(source, "clickhouse.database", why, "letters, digits and _");
    }
    c->server.user = conf_text(source, "clickhouse.user");
    c->server.password_file = c->paths[PATH_PASSWORD];
    c->server.ca = c->paths[PATH_CA];
    c->server.cert = c->paths[PATH_CERT];
    c->server.key = c->paths[PATH_KEY];
    c->reader = c->server;
    if (conf_text(source, "clickhouse.reader")[0]) {
        c->reader.user = conf_text(source, "clickhouse.reader");
        c->reader.password_file = c->paths[PATH_READER];
    }
    c->keep = (struct ch_keep){
        .sample_ns = conf_int(source, "clickhouse.keep.sample"),
        .cell_ns = conf_int(source, "clickhouse.keep.cell"),
        .minute_ns = conf_int(source, "clickhouse.keep.minute"),
        .hour_ns = conf_int(source, "clickhouse.keep.hour"),
        .event_ns = conf_int(source, "clickhouse.keep.event"),
    };
    c->n_samples = conf_list(source, "clickhouse.samples", &c->samples);
    c->gather_ns = conf_int(source, "clickhouse.gather");
    c->quorum = (unsigned)conf_int(source, "clickhouse.quorum");
    return ERR_OK;
}

void ch_conf_fini(struct ch_conf *c)
{
    for (size_t i = 0; i < PATHS; i++) {
        mem_free(c->paths[i]);
    }
    *c = (struct ch_conf){.on = false};
}
