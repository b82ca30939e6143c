#include "collector/forward/service_conf.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "common/os/os_owner.h"

#define PORT "7421"

static enum err service_keep(struct service_conf *c, const char **out, char *path)
{
    if (!path) {
        return ERR_NOMEM;
    }
    if (c->n_paths == SERVICE_CONF_PATHS_MAX) {
        mem_free(path);
        return ERR_FULL;
    }
    c->paths[c->n_paths++] = path;
    *out = path;
    return ERR_OK;
}

enum err service_conf_path(struct service_conf *c, const char **out, const char *key)
{
    const char *path = conf_text(c->raw, key);

    *out = "";
    return path[0] ? service_keep(c, out, os_path_join(c->dir, path)) : ERR_OK;
}

enum err service_conf_state(struct service_conf *c, const char **out, const char *name)
{
    char file[WIRE_FEED_NAME_MAX + 16];

    (void)snprintf(file, sizeof file, "%s.state", name);
    return service_keep(c, out, os_path_join(c->dir, file));
}

/* A port that is not there is that of queries. */
static enum err service_address(struct service_conf *c, struct errmsg *why)
{
    const char *text = conf_text(c->raw, "collector.address"), *end = strrchr(text, ']');
    bool has_port = strchr(end ? end : text, ':') != NULL;
    int n = snprintf(c->address, sizeof c->address, "%s%s", text, has_port ? "" : ":" PORT);

    return text[0] && n < (int)sizeof c->address
               ? ERR_OK
               : conf_wrong(c->raw, "collector.address", why, "HOST[:PORT] is wanted");
}

static enum err service_values(struct service_conf *c, struct errmsg *why)
{
    enum err e = service_address(c, why);

    c->dir = conf_text(c->raw, "state_dir");
    c->server_name = conf_text(c->raw, "collector.server_name");
    if (!e && c->dir[0] != '/') {
        e = conf_wrong(c->raw, "state_dir", why, "an absolute path is wanted");
    }
    if (e) {
        return e;
    }
    e = service_conf_path(c, &c->ca, "tls.ca");
    e = e ? e : service_conf_path(c, &c->cert, "tls.cert");
    return e ? e : service_conf_path(c, &c->key, "tls.key");
}

static enum err service_dir(const struct service_conf *c, struct errmsg *why)
{
    enum err e = os_owner_check(c->dir, why);

    if (e) {
        return e;
    }
    e = os_mkdirs(c->dir, true);
    return e ? errmsg_set(why, e, "state_dir: cannot make %s: %s", c->dir, err_text(e)) : ERR_OK;
}

enum err service_conf_load(struct service_conf *out, const struct opt_args *args,
                           const struct conf_key *keys, size_t n_keys, const char *name,
                           struct errmsg *why)
{
    struct service_conf c = {.raw = NULL};
    const char *sets[OPT_MANY_MAX], *file = opt_value(args, "config");
    size_t n = opt_values(args, "set", sets, OPT_MANY_MAX);
    enum err e = conf_create(&c.raw, keys, n_keys);

    if (!e && name) {
        conf_choose(c.raw, name);
    }
    if (!e && file) {
        e = conf_load_file(c.raw, file, why);
    }
    for (size_t i = 0; i < n && !e; i++) {
        const char *eq = strchr(sets[i], '=');
        char key[128];

        if (!eq || (size_t)(eq - sets[i]) >= sizeof key) {
            e = errmsg_set(why, ERR_USAGE, "--set %s: KEY=VALUE is wanted", sets[i]);
            break;
        }
        (void)snprintf(key, sizeof key, "%.*s", (int)(eq - sets[i]), sets[i]);
        e = conf_set(c.raw, key, eq + 1, why);
    }
    e = e ? e : service_values(&c, why);
    if (e) {
        service_conf_fini(&c);
        return e == ERR_NOMEM ? e : ERR_USAGE;
    }
    e = service_dir(&c, why);
    if (e) {
        service_conf_fini(&c);
        return e;
    }
    *out = c;
    return ERR_OK;
}

void service_conf_fini(struct service_conf *c)
{
    for (size_t i = 0; i < c->n_paths; i++) {
        mem_free(c->paths[i]);
    }
    conf_destroy(c->raw);
    *c = (struct service_conf){.raw = NULL};
}

enum err service_conf_log(struct service_conf *c, struct errmsg *why)
{
    enum log_level level = LOG_INFO;
    const char *file = NULL;
    bool json = strcmp(conf_text(c->raw, "log.format"), "json") == 0;
    enum err e = log_level_parse(&level, conf_text(c->raw, "log.level"));

    e = e ? e : service_conf_path(c, &file, "log.file");
    e = e ? e : log_open(level, json ? LOG_JSON : LOG_TEXT, file);
    return e ? errmsg_set(why, e, "log.file: cannot open %s: %s", file ? file : "", err_text(e))
             : ERR_OK;
}

void service_conf_consumer(const struct service_conf *c, struct consumer_conf *out)
{
    out->collector = c->address;
    out->server_name = c->server_name;
    out->ca = c->ca;
    out->cert = c->cert;
    out->key = c->key;
}
