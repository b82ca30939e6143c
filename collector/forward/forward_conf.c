#include "collector/forward/forward_conf.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/model/metric.h"
#include "common/text/field.h"

#define H (3600 * CLK_S)
#define METRICS_BY_CUSTOM \
    "cpu_time,working_set_size,private_bytes,thread_count,handle_count,read_bytes,write_bytes"

static const struct conf_key keys[] = {
    SERVICE_CONF_KEYS("/var/lib/procfleet-forward"),
    {"otlp.url", CONF_TEXT, "", 0, 0, NULL,
     "where OTLP/HTTP is taken: https://HOST:4318; /v1/logs and /v1/metrics are appended"},
    {"otlp.headers_file", CONF_TEXT, "", 0, 0, NULL,
     "file with headers such as \"Authorization: Bearer …\", one a line, private to its owner; "
     "read for each request; empty = none"},
    {"otlp.user", CONF_TEXT, "", 0, 0, NULL, "for Basic authentication; empty = none"},
    {"otlp.password_file", CONF_TEXT, "", 0, 0, NULL, "with its password, private to its owner"},
    {"otlp.ca", CONF_TEXT, "", 0, 0, NULL,
     "authority that must have signed the server's certificate; empty = those of this system"},
    {"otlp.cert", CONF_TEXT, "", 0, 0, NULL, "client certificate to show; empty = none"},
    {"otlp.key", CONF_TEXT, "", 0, 0, NULL, "its private key"},
    {"otlp.timeout", CONF_SPAN, "10s", CLK_S, 300 * CLK_S, NULL, "of one request"},
    {"otlp.plain_http", CONF_BOOL, "false", 0, 0, NULL,
     "allow http:// to other machines than this one: everybody on the way can read it"},
    {"otlp.proxy_from_environment", CONF_BOOL, "false", 0, 0, NULL,
     "use the proxy that https_proxy, http_proxy and no_proxy name"},
    {"send", CONF_LIST, "logs,metrics", 0, 2, NULL,
     "logs: lifecycle events; metrics: of programs and hosts"},
    {"metrics", CONF_LIST, METRICS_BY_CUSTOM, 0, PROGRAM_SUMS_METRICS, NULL,
     "metrics to send, of those that 'procfleet top --help' lists"},
    {"interval", CONF_SPAN, "30s", CLK_S, H, NULL,
     "time between two data points of a host, at least"},
    {"events", CONF_LIST, "process_start,process_stop,level,source", 0, 16, NULL,
     "kinds of events to send: also image_load, image_unload, thread_start, thread_stop, provider, "
     "rule"},
    {"hosts", CONF_LIST, "", 0, WIRE_FEED_HOSTS_MAX, NULL,
     "names or globs of hosts; empty = all that the certificate may see"},
    {"program", CONF_TEXT, "", 0, 0, NULL,
     "glob on the image name, of events and samples; empty = all"},
    {"subscription", CONF_TEXT, "otlp", 0, 0, NULL,
     "name under which the collector keeps what was not sent yet"},
    {"from_oldest", CONF_BOOL, "false", 0, 0, NULL,
     "begin with the oldest update that the collector keeps, not with now; counts once, when the "
     "subscription is made"},
    {"limits.hosts", CONF_INT, "10000", 1, 1000000, NULL, "hosts with sums of their own"},
    {"limits.processes", CONF_INT, "500000", 100, 10000000, NULL,
     "processes whose last values are remembered, of all hosts, about 250 bytes each"},
};

#define N_KEYS (sizeof keys / sizeof *keys)

const struct conf_key *forward_conf_keys(size_t *n)
{
    *n = N_KEYS;
    return keys;
}

const char *forward_conf_setting(size_t i)
{
    return i < N_KEYS ? keys[i].key : NULL;
}

static enum err load_send(struct forward_conf_otlp *c, struct errmsg *why)
{
    const char *const *items;
    size_t n = conf_list(c->service.raw, "send", &items);

    for (size_t i = 0; i < n; i++) {
        if (strcmp(items[i], "logs") == 0) {
            c->logs = true;
        } else if (strcmp(items[i], "metrics") == 0) {
            c->metrics = true;
        } else {
            return conf_wrong(c->service.raw, "send", why, "logs and metrics are all there is");
        }
    }
    return n ? ERR_OK : conf_wrong(c->service.raw, "send", why, "nothing would be sent");
}

static const struct metric *metric_named(const char *name)
{
    for (const struct metric *m = metric_next(NULL); m; m = metric_next(m)) {
        if (m->column && strcmp(m->name, name) == 0) {
            return m;
        }
    }
    return NULL;
}

/* Into the order of their ids, each once. */
static enum err load_metrics(struct forward_conf_otlp *c, struct errmsg *why)
{
    const char *const *items;
    size_t n = conf_list(c->service.raw, "metrics", &items);
    bool chosen[METRIC_COLS] = {false};

    for (size_t i = 0; i < n; i++) {
        const struct metric *m = metric_named(items[i]);

        if (!m || m->id >= METRIC_COLS) {
            return conf_wrong(c->service.raw, "metrics", why,
                              "one of them is no metric with values: see 'procfleet top --help'");
        }
        chosen[m->id] = true;
    }
    for (unsigned id = 0; id < METRIC_COLS; id++) {
        if (chosen[id]) {
            c->sums.metrics[c->sums.n_metrics++] = (uint8_t)id;
        }
    }
    memcpy(c->filter.metrics, c->sums.metrics, c->sums.n_metrics);
    c->filter.n_metrics = c->sums.n_metrics;
    return c->metrics && !n ? conf_wrong(c->service.raw, "metrics", why, "there are none") : ERR_OK;
}

static enum err load_events(struct forward_conf_otlp *c, struct errmsg *why)
{
    const char *const *items;
    size_t n = conf_list(c->service.raw, "events", &items);

    for (size_t i = 0; i < n; i++) {
        unsigned kind = 1;

        while (kind < 32 && (!field_kind_name(kind) || strcmp(field_kind_name(kind), items[i]))) {
            kind++;
        }
        if (kind == 32) {
            return conf_wrong(c->service.raw, "events", why, "one of them is no kind of event");
        }
        c->filter.kinds |= 1u << kind;
    }
    return c->logs && !n ? conf_wrong(c->service.raw, "events", why, "there are none") : ERR_OK;
}

static void load_filter(struct forward_conf_otlp *c)
{
    const char *const *items;
    size_t n = conf_list(c->service.raw, "hosts", &items);

    for (size_t i = 0; i < n; i++) {
        c->filter.hosts[c->filter.n_hosts++] = str_make(items[i]);
    }
    c->filter.program = str_make(conf_text(c->service.raw, "program"));
    c->filter.samples = c->metrics;
    c->filter.no_events = !c->logs;
    if (!c->metrics) {
        c->filter.n_metrics = 0;
    }
    c->sums.interval_ns = conf_int(c->service.raw, "interval");
    c->sums.hosts_max = (size_t)conf_int(c->service.raw, "limits.hosts");
    c->sums.processes_max = (size_t)conf_int(c->service.raw, "limits.processes");
    c->from_oldest = conf_bool(c->service.raw, "from_oldest");
}

static enum err load_url(struct forward_conf_otlp *c, struct errmsg *why)
{
    const char *url = conf_text(c->service.raw, "otlp.url");
    size_t n = strlen(url);

    if (n == 0) {
        return conf_wrong(c->service.raw, "otlp.url", why,
                          "it is not set: https://HOST:4318 of what takes OTLP over HTTP");
    }
    if (url[strcspn(url, "?#")]) {
        return conf_wrong(c->service.raw, "otlp.url", why,
                          "a path is appended to it: no '?' or '#'; secrets belong into "
                          "otlp.headers_file");
    }
    while (n && url[n - 1] == '/') {
        n--;
    }
    if (n >= sizeof c->url) {
        return conf_wrong(c->service.raw, "otlp.url", why, "it is too long");
    }
    (void)snprintf(c->url, sizeof c->url, "%.*s", (int)n, url);
    c->post.url = c->url;
    return ERR_OK;
}

static enum err load_post(struct forward_conf_otlp *c, struct errmsg *why)
{
    struct service_conf *s = &c->service;
    enum err e = load_url(c, why);

    c->post.name = "otlp";
    c->post.holds = true;
    c->post.user = conf_text(s->raw, "otlp.user");
    c->post.timeout_ns = conf_int(s->raw, "otlp.timeout");
    c->post.http.plain = conf_bool(s->raw, "otlp.plain_http");
    c->post.http.proxy_of_environment = conf_bool(s->raw, "otlp.proxy_from_environment");
    c->post.http.agent = "procfleet-forward/" PROCFLEET_VERSION;
    e = e ? e : service_conf_path(s, &c->post.headers_file, "otlp.headers_file");
    e = e ? e : service_conf_path(s, &c->post.password_file, "otlp.password_file");
    e = e ? e : service_conf_path(s, &c->post.http.ca, "otlp.ca");
    e = e ? e : service_conf_path(s, &c->post.http.cert, "otlp.cert");
    return e ? e : service_conf_path(s, &c->post.http.key, "otlp.key");
}

static enum err load_name(struct forward_conf_otlp *c, struct errmsg *why)
{
    const char *name = conf_text(c->service.raw, "subscription");
    size_t n = strlen(name);

    if (n == 0 || n > WIRE_FEED_NAME_MAX ||
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != n) {
        return conf_wrong(c->service.raw, "subscription", why,
                          "1 to 64 letters, digits, '.', '_' and '-' are wanted");
    }
    c->subscription = name;
    return service_conf_state(&c->service, &c->state, name);
}

enum err forward_conf_load(struct forward_conf_otlp *out, const struct opt_args *args,
                           struct errmsg *why)
{
    enum err e;

    *out = (struct forward_conf_otlp){.logs = false};
    e = service_conf_load(&out->service, args, keys, N_KEYS, NULL, why);
    if (e) {
        return e;
    }
    e = load_send(out, why);
    e = e ? e : load_metrics(out, why);
    e = e ? e : load_events(out, why);
    e = e ? e : load_name(out, why);
    e = e ? e : load_post(out, why);
    if (e) {
        forward_conf_fini(out);
        return e == ERR_NOMEM ? e : ERR_USAGE;
    }
    load_filter(out);
    return ERR_OK;
}

void forward_conf_fini(struct forward_conf_otlp *c)
{
    service_conf_fini(&c->service);
}
