#include "collector/notify/notify_conf.h"

#include <stdio.h>
#include <string.h>

#include "collector/notify/notify_exec.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
#define NAME_MAX     32u
#define H            (3600 * CLK_S)

static const struct conf_key keys[] = {
    SERVICE_CONF_KEYS("/var/lib/procfleet-notify"),
    {"subscription", CONF_TEXT, "notify", 0, 0, NULL,
     "begin of the names under which the collector keeps what was not sent yet: NAME.TARGET"},
    {"retry_for", CONF_SPAN, "24h", CLK_S, 240 * H, NULL,
     "a notice that is older than this is given up when one more attempt has failed"},
    {"allow_exec", CONF_BOOL, "false", 0, 0, NULL,
     "targets may be programs; each must be owned by root and writable by nobody else"},
    {"targets.*.type", CONF_CHOICE, "webhook", 0, 0, "webhook|exec",
     "POST to a URL, or a program with the notice on its standard input"},
    {"targets.*.url", CONF_TEXT, "", 0, 0, NULL, "of the webhook: https://HOST/PATH"},
    {"targets.*.format", CONF_CHOICE, "procfleet", 0, 0, "procfleet|alertmanager|alertmanager-api",
     "one object of the notice; what Alertmanager sends to webhooks (version 4); what it takes at "
     "/api/v2/alerts"},
    {"targets.*.headers_file", CONF_TEXT, "", 0, 0, NULL,
     "file with headers such as \"Authorization: Bearer …\", one a line, private to its owner; "
     "read for each request"},
    {"targets.*.user", CONF_TEXT, "", 0, 0, NULL, "for Basic authentication"},
    {"targets.*.password_file", CONF_TEXT, "", 0, 0, NULL,
     "with its password, private to its owner"},
    {"targets.*.ca", CONF_TEXT, "", 0, 0, NULL,
     "authority that must have signed the server's certificate; empty = those of this system"},
    {"targets.*.cert", CONF_TEXT, "", 0, 0, NULL, "client certificate to show; empty = none"},
    {"targets.*.key", CONF_TEXT, "", 0, 0, NULL, "its private key"},
    {"targets.*.timeout", CONF_SPAN, "10s", CLK_S, 30 * CLK_S, NULL,
     "of one request, or of the program, which is killed then"},
    {"targets.*.plain_http", CONF_BOOL, "false", 0, 0, NULL,
     "allow http:// to other machines than this one: everybody on the way can read it"},
    {"targets.*.proxy_from_environment", CONF_BOOL, "false", 0, 0, NULL,
     "use the proxy that https_proxy, http_proxy and no_proxy name"},
    {"targets.*.program", CONF_TEXT, "", 0, 0, NULL, "of exec: an absolute path"},
    {"targets.*.rules", CONF_LIST, "", 0, NOTIFY_RULES_MAX, NULL,
     "names or globs of rules; empty = all. A rule's own `use` chooses among targets, too"},
};

#define N_KEYS (sizeof keys / sizeof *keys)

const struct conf_key *notify_conf_keys(size_t *n)
{
    *n = N_KEYS;
    return keys;
}

const char *notify_conf_setting(size_t i)
{
    return i < N_KEYS ? keys[i].key : NULL;
}

/* "targets.NAME.LAST" stands in the table as "targets.*.LAST", which is how it is asked for. */
static enum err target_wrong(const struct notify_target_conf *t, const char *last,
                             struct errmsg *why, const char *text)
{
    return errmsg_set(why, ERR_USAGE, "targets.%s.%s: %s", t->name, last, text);
}

static enum err load_webhook(struct notify_target_conf *t, struct errmsg *why)
{
    struct service_conf *s = &t->service;
    struct post_conf *p = &t->post;
    enum err e;

    p->name = t->name;
    p->url = conf_text(s->raw, "targets.*.url");
    p->user = conf_text(s->raw, "targets.*.user");
    p->timeout_ns = t->timeout_ns;
    p->http.plain = conf_bool(s->raw, "targets.*.plain_http");
    p->http.proxy_of_environment = conf_bool(s->raw, "targets.*.proxy_from_environment");
    p->http.agent = "procfleet-notify/" PROCFLEET_VERSION;
    if (!p->url[0]) {
        return target_wrong(t, "url", why, "it is not set: https://HOST/PATH of what takes it");
    }
    e = service_conf_path(s, &p->headers_file, "targets.*.headers_file");
    e = e ? e : service_conf_path(s, &p->password_file, "targets.*.password_file");
    e = e ? e : service_conf_path(s, &p->http.ca, "targets.*.ca");
    e = e ? e : service_conf_path(s, &p->http.cert, "targets.*.cert");
    return e ? e : service_conf_path(s, &p->http.key, "targets.*.key");
}

static enum err load_exec(struct notify_target_conf *t, struct errmsg *why)
{
    struct errmsg said = {""};

    t->program = conf_text(t->service.raw, "targets.*.program");
    if (!conf_bool(t->service.raw, "allow_exec")) {
        return target_wrong(t, "type", why, "exec needs allow_exec: true");
    }
    return notify_exec_check(t->program, &said) ? target_wrong(t, "program", why, said.text)
                                                : ERR_OK;
}

static enum err load_target(struct notify_target_conf *t, struct errmsg *why)
{
    const struct conf *raw = t->service.raw;
    const char *format = conf_text(raw, "targets.*.format"), *const * items;
    size_t n = strlen(t->name);
    enum err e;

    if (n > NAME_MAX || strspn(t->name, NAME_LETTERS) != n ||
        snprintf(t->subscription, sizeof t->subscription, "%s.%s", conf_text(raw, "subscription"),
                 t->name) >= (int)sizeof t->subscription ||
        strspn(t->subscription, NAME_LETTERS) != strlen(t->subscription)) {
        return errmsg_set(why, ERR_USAGE,
                          "targets.%.64s: names of targets have 1 to %u letters, digits, '.', '_' "
                          "and '-', and so has subscription",
                          t->name, NAME_MAX);
    }
    t->timeout_ns = conf_int(raw, "targets.*.timeout");
    t->retry_ns = conf_int(raw, "retry_for");
    t->format = strcmp(format, "alertmanager") == 0       ? NOTIFY_ALERTMANAGER
                : strcmp(format, "alertmanager-api") == 0 ? NOTIFY_ALERTMANAGER_API
                                                          : NOTIFY_PROCFLEET;
    t->type = strcmp(conf_text(raw, "targets.*.type"), "exec") == 0 ? NOTIFY_EXEC : NOTIFY_WEBHOOK;
    t->n_rules = conf_list(raw, "targets.*.rules", &items);
    for (size_t i = 0; i < t->n_rules; i++) {
        t->rules[i] = str_make(items[i]);
    }
    e = service_conf_state(&t->service, &t->state, t->subscription);
    e = e ? e : t->type == NOTIFY_EXEC ? load_exec(t, why) : load_webhook(t, why);
    return e;
}

enum err notify_conf_load(struct notify_conf *out, const struct opt_args *args, struct errmsg *why)
{
    const char *const *names;
    enum err e;
    size_t n;

    *out = (struct notify_conf){.n = 0};
    e = service_conf_load(&out->service, args, keys, N_KEYS, NULL, why);
    if (e) {
        return e;
    }
    n = conf_names(out->service.raw, &names);
    if (n == 0 || n > NOTIFY_TARGETS_MAX) {
        e = errmsg_set(why, ERR_USAGE, "targets: there must be 1 to %u; config-sample shows how",
                       NOTIFY_TARGETS_MAX);
    }
    out->targets = e ? NULL : mem_array(n, sizeof *out->targets);
    e = !e && !out->targets ? ERR_NOMEM : e;
    for (size_t i = 0; i < n && !e; i++) {
        struct notify_target_conf *t = &out->targets[i];

        e = service_conf_load(&t->service, args, keys, N_KEYS, names[i], why);
        out->n += e == ERR_OK;
        t->name = names[i];
        e = e ? e : load_target(t, why);
    }
    if (e) {
        notify_conf_fini(out);
    }
    return e;
}

void notify_conf_fini(struct notify_conf *c)
{
    for (size_t i = 0; i < c->n; i++) {
        service_conf_fini(&c->targets[i].service);
    }
    mem_free(c->targets);
    service_conf_fini(&c->service);
    *c = (struct notify_conf){.n = 0};
}
