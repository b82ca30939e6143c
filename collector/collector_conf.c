#include "collector/collector_conf.h"

#include <string.h>

#include "common/clk.h"
#include "common/mem.h"
#include "common/os.h"

#define KIB 1024LL
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define H   (3600 * CLK_S)

static const struct conf_key keys[] = {
    {"data_dir", CONF_TEXT, "/var/lib/procfleet-collector", 0, 0, NULL,
     "absolute path: write-ahead log; one collector holds its lock; base of relative paths"},
    {"listen.ingest", CONF_TEXT, "*:7420", 0, 0, NULL, "address:port for agents; port 0 = any"},
    {"listen.query", CONF_TEXT, "*:7421", 0, 0, NULL,
     "address:port for the command line; port 0 = any"},
    {"listen.events", CONF_TEXT, "*:7422", 0, 0, NULL,
     "address:port of the live stream; port 0 = any, empty = off"},
    {"tls.ca", CONF_TEXT, "tls/ca.pem", 0, 0, NULL,
     "authority that must have signed every client's certificate"},
    {"tls.cert", CONF_TEXT, "tls/collector.pem", 0, 0, NULL,
     "own certificate, for use as a server only"},
    {"tls.key", CONF_TEXT, "tls/collector.key", 0, 0, NULL,
     "own private key; refused when others can read it"},
    {"retention.raw.age", CONF_SPAN, "48h", H, 87600 * H, NULL,
     "samples and events older than this are dropped"},
    {"head.max_bytes", CONF_SIZE, "128MiB", 16 * MIB, 64 * GIB, NULL,
     "encoded batches held in memory, all hosts; the oldest go first"},
    {"limits.hosts", CONF_INT, "10000", 1, 1000000, NULL,
     "hosts with data; a further one is refused"},
    {"limits.processes_per_host", CONF_INT, "4096", 64, 4096, NULL,
     "living processes of one host; four times as many are remembered, ended ones included"},
    {"limits.batch_bytes", CONF_SIZE, "1MiB", 64 * KIB, MIB, NULL,
     "one batch as received; told to agents"},
    {"log.level", CONF_CHOICE, "info", 0, 0, "error|warn|info|debug", "lowest level written"},
    {"log.format", CONF_CHOICE, "text", 0, 0, "text|json", "text = key=value lines"},
    {"log.file", CONF_TEXT, "", 0, 0, NULL,
     "path; empty = standard error; rotated at 16 MiB, four old files kept"},
};

#define N_KEYS (sizeof keys / sizeof *keys)

const struct conf_key *collector_conf_keys(size_t *n)
{
    *n = N_KEYS;
    return keys;
}

/* "key=value" into the source. */
static enum err set_one(struct conf *c, const char *text, struct errmsg *why)
{
    const char *eq = strchr(text, '=');
    char *key;
    enum err e;

    if (!eq) {
        return errmsg_set(why, ERR_INVALID, "--set wants key=value, not \"%s\"", text);
    }
    key = mem_strndup(text, (size_t)(eq - text));
    if (!key) {
        return ERR_NOMEM;
    }
    e = conf_set(c, key, eq + 1, why);
    mem_free(key);
    return e;
}

static enum err path_get(char **out, const struct collector_conf *c, const char *key)
{
    *out = os_path_join(c->data_dir, conf_text(c->source, key));
    return *out ? ERR_OK : ERR_NOMEM;
}

static unsigned choice(const struct conf *c, const char *key, const char *const *names)
{
    unsigned i = 0;

    while (names[i + 1] && strcmp(names[i], conf_text(c, key)) != 0) {
        i++;
    }
    return i;
}

static enum err paths_read(struct collector_conf *c, struct errmsg *why)
{
    const char *dir = conf_text(c->source, "data_dir");
    enum err e;

    if (dir[0] != '/') {
        return errmsg_set(why, ERR_INVALID, "data_dir must be an absolute path, not \"%s\"", dir);
    }
    c->data_dir = mem_strdup(dir);
    if (!c->data_dir) {
        return ERR_NOMEM;
    }
    e = path_get(&c->ca, c, "tls.ca");
    if (!e) {
        e = path_get(&c->cert, c, "tls.cert");
    }
    if (!e) {
        e = path_get(&c->key, c, "tls.key");
    }
    if (!e && conf_text(c->source, "log.file")[0]) {
        return path_get(&c->log_file, c, "log.file");
    }
    if (!e) {
        c->log_file = mem_strdup("");
        e = c->log_file ? ERR_OK : ERR_NOMEM;
    }
    return e;
}

static void values_read(struct collector_conf *c)
{
    static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
    static const char *const formats[] = {"text", "json", NULL};

    c->ingest = conf_text(c->source, "listen.ingest");
    c->query = conf_text(c->source, "listen.query");
    c->events = conf_text(c->source, "listen.events");
    c->hosts_max = (uint32_t)conf_int(c->source, "limits.hosts");
    c->processes_max = (uint32_t)conf_int(c->source, "limits.processes_per_host");
    c->batch_bytes_max = (uint32_t)conf_int(c->source, "limits.batch_bytes");
    c->age_max_ns = conf_int(c->source, "retention.raw.age");
    c->head_bytes_max = (uint64_t)conf_int(c->source, "head.max_bytes");
    c->log_level = (enum log_level)choice(c->source, "log.level", levels);
    c->log_format = (enum log_format)choice(c->source, "log.format", formats);
}

enum err collector_conf_load(struct collector_conf *out, const char *file, const char *const *sets,
                             size_t n_sets, struct errmsg *why)
{
    struct collector_conf *c = out;
    enum err e;

    *c = (struct collector_conf){.fio = fio_os()};
    e = conf_create(&c->source, keys, N_KEYS);
    if (!e && file) {
        e = conf_load_file(c->source, file, why);
    }
    for (size_t i = 0; !e && i < n_sets; i++) {
        e = set_one(c->source, sets[i], why);
    }
    if (!e) {
        e = paths_read(c, why);
    }
    if (e) {
        return e;
    }
    values_read(c);
    if (!c->ingest[0] || !c->query[0]) {
        return errmsg_set(why, ERR_INVALID, "listen.ingest and listen.query cannot be empty");
    }
    return ERR_OK;
}

void collector_conf_fini(struct collector_conf *c)
{
    conf_destroy(c->source);
    mem_free(c->data_dir);
    mem_free(c->ca);
    mem_free(c->cert);
    mem_free(c->key);
    mem_free(c->log_file);
    *c = (struct collector_conf){0};
}
