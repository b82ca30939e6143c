#include "agent/agent_conf.h"

#include <stdio.h>
#include <string.h>

#include "common/clk.h"
#include "common/mem.h"
#include "common/os.h"

#define MIB (1 << 20)

static const struct conf_key keys[] = {
    {"state_dir", CONF_TEXT, "/var/lib/procfleet-agent", 0, 0, NULL,
     "directory of the agent's lock, and base of relative paths; one agent at a time uses it"},
    {"source", CONF_CHOICE, "auto", 0, 0, "auto|proc|snapshot",
     "where events come from; auto takes what this system has (Linux: proc, Windows: snapshot)"},
    {"sampling.rate_hz", CONF_NUMBER, "1", 100, 1000000, NULL, "samples per second"},
    {"sampler.level_max", CONF_CHOICE, "L2", 0, 0, "L0|L1|L2|L3|L4",
     "highest level of collection; ticks per second at most: L0 1, L1 10, L2 100, L3 and L4 1000; "
     "the agent begins at L0 and climbs one level a minute"},
    {"budget.cpu", CONF_NUMBER, "2", 100, 50000, NULL,
     "percent of the machine; own CPU time above it for 5 s: one level down"},
    {"budget.mem", CONF_SIZE, "50 MiB", 8 * MIB, 1024LL * MIB, NULL,
     "own resident memory above it: one level down"},
    {"budget.events", CONF_INT, "10000", 100, 10000000, NULL,
     "events per second above it for 5 s: one level down"},
    {"batch.samples", CONF_INT, "10", 1, 1000, NULL, "a batch closes after so many samples,"},
    {"batch.max_bytes", CONF_SIZE, "256 KiB", 16 << 10, 768 << 10, NULL,
     "or at this encoded size,"},
    {"batch.max_age", CONF_SPAN, "10s", 100 * CLK_MS, 300 * CLK_S, NULL,
     "or at this age; and always at a multiple of 5 minutes"},
    {"queue.max_bytes", CONF_SIZE, "64 MiB", MIB, 1024LL * MIB, NULL,
     "batches in memory that wait for the collector; above it the oldest go first and are counted "
     "(a replay waits instead)"},
    {"collector.addresses", CONF_LIST, "", 0, AGENT_CONF_ADDRESSES_MAX, NULL,
     "host:port of the collector's ingest listener, port 7420 if left out; several are tried in "
     "order"},
    {"collector.server_name", CONF_TEXT, "procfleet-collector", 0, 0, NULL,
     "DNS name that the collector's certificate must carry"},
    {"collector.heartbeat", CONF_SPAN, "30s", 5 * CLK_S, 60 * CLK_S, NULL,
     "sent when nothing else was sent for so long"},
    {"tls.ca", CONF_TEXT, "tls/ca.pem", 0, 0, NULL,
     "certificate of the authority that must have signed the collector's"},
    {"tls.cert", CONF_TEXT, "tls/agent.pem", 0, 0, NULL, "own certificate, of role agent"},
    {"tls.key", CONF_TEXT, "tls/agent.key", 0, 0, NULL,
     "own private key; refused when others can read it"},
    {"identity.name", CONF_TEXT, "", 0, 0, NULL,
     "name of this host, default the machine's; the certificate's name is what counts, a "
     "difference is logged"},
    {"privacy.command_line", CONF_CHOICE, "redact", 0, 0, "none|exe|redact|full",
     "what of command lines leaves this host: nothing, the first argument, all but the values of "
     "secret arguments, everything"},
    {"privacy.redact_names", CONF_LIST, FILTER_WORDS, 0, FILTER_WORDS_MAX, NULL,
     "redact hides the value of arguments whose name contains one of these words"},
    {"log.level", CONF_CHOICE, "info", 0, 0, "error|warn|info|debug", "lowest level written"},
    {"log.format", CONF_CHOICE, "text", 0, 0, "text|json", "text is key=value lines"},
    {"log.file", CONF_TEXT, "", 0, 0, NULL,
     "path, rotated at 16 MiB with four old files; empty = standard error"},
};

const struct conf_key *agent_conf_keys(size_t *n)
{
    *n = sizeof keys / sizeof *keys;
    return keys;
}

static enum err apply_sets(struct conf *c, const char *const *sets, size_t n, struct errmsg *why)
{
    for (size_t i = 0; i < n; i++) {
        const char *eq = strchr(sets[i], '=');
        char key[128];
        enum err e;

        if (!eq || (size_t)(eq - sets[i]) >= sizeof key) {
            return errmsg_set(why, ERR_INVALID, "--set %s: expected key=value", sets[i]);
        }
        memcpy(key, sets[i], (size_t)(eq - sets[i]));
        key[eq - sets[i]] = '\0';
        e = conf_set(c, key, eq + 1, why);
        if (e) {
            return e;
        }
    }
    return ERR_OK;
}

/* "host" becomes "host:7420"; "[::1]" too. */
static char *with_port(const char *address)
{
    const char *last = strrchr(address, ':');
    bool bare = !last || address[strlen(address) - 1] == ']';
    size_t n = strlen(address) + sizeof ":" AGENT_CONF_PORT;
    char *text = mem_alloc(n);

    if (text) {
        (void)snprintf(text, n, "%s%s", address, bare ? ":" AGENT_CONF_PORT : "");
    }
    return text;
}

static enum err read_addresses(struct agent_conf *c, struct errmsg *why)
{
    const char *const *items;
    size_t n = conf_list(c->raw, "collector.addresses", &items);

    for (size_t i = 0; i < n; i++) {
        c->addresses[i] = with_port(items[i]);
        if (!c->addresses[i]) {
            return errmsg_set(why, ERR_NOMEM, "out of memory");
        }
        c->n_addresses = i + 1;
    }
    return ERR_OK;
}

static enum err read_paths(struct agent_conf *c, struct errmsg *why)
{
    c->state_dir = conf_text(c->raw, "state_dir");
    if (c->state_dir[0] == '\0') {
        return errmsg_set(why, ERR_INVALID, "state_dir: a directory is needed");
    }
    c->ca = os_path_join(c->state_dir, conf_text(c->raw, "tls.ca"));
    c->cert = os_path_join(c->state_dir, conf_text(c->raw, "tls.cert"));
    c->key = os_path_join(c->state_dir, conf_text(c->raw, "tls.key"));
    return c->ca && c->cert && c->key ? ERR_OK : errmsg_set(why, ERR_NOMEM, "out of memory");
}

static void read_log(struct agent_conf *c)
{
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    const char *level = conf_text(c->raw, "log.level");

    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (strcmp(level, levels[i]) == 0) {
            c->log_level = (enum log_level)i;
        }
    }
    c->log_format = strcmp(conf_text(c->raw, "log.format"), "json") == 0 ? LOG_JSON : LOG_TEXT;
    c->log_file = conf_text(c->raw, "log.file");
}

static enum err read_values(struct agent_conf *c, struct errmsg *why)
{
    const char *name = conf_text(c->raw, "identity.name");

    c->source = conf_text(c->raw, "source");
    c->period_ns = 1000 * CLK_S / conf_int(c->raw, "sampling.rate_hz");
    c->batch_samples = (uint32_t)conf_int(c->raw, "batch.samples");
    c->batch_bytes = (size_t)conf_int(c->raw, "batch.max_bytes");
    c->batch_age_ns = conf_int(c->raw, "batch.max_age");
    c->queue_bytes = (size_t)conf_int(c->raw, "queue.max_bytes");
    c->heartbeat_ns = conf_int(c->raw, "collector.heartbeat");
    c->server_name = conf_text(c->raw, "collector.server_name");
    c->name = name[0] ? name : NULL;
    c->filter.n_words = conf_list(c->raw, "privacy.redact_names", &c->filter.words);
    c->levels.max = (unsigned)(conf_text(c->raw, "sampler.level_max")[1] - '0');
    c->levels.cpu_permille = conf_int(c->raw, "budget.cpu") / 100; /* of thousandths of percent */
    c->levels.memory_bytes = conf_int(c->raw, "budget.mem");
    c->levels.events_per_s = conf_int(c->raw, "budget.events");
    read_log(c);
    if (c->server_name[0] == '\0') {
        return errmsg_set(why, ERR_INVALID,
                          "collector.server_name: cannot be empty; without it any certificate of "
                          "the authority could pose as the collector");
    }
    return filter_policy_parse(&c->filter.command_line, conf_text(c->raw, "privacy.command_line"));
}

enum err agent_conf_load(struct agent_conf *out, const char *file, const char *const *sets,
                         size_t n_sets, struct errmsg *why)
{
    struct agent_conf c = {0};
    enum err e = conf_create(&c.raw, keys, sizeof keys / sizeof *keys);

    if (e) {
        return errmsg_set(why, e, "out of memory");
    }
    if (file) {
        e = conf_load_file(c.raw, file, why);
        if (e) {
            goto fail;
        }
    }
    e = apply_sets(c.raw, sets, n_sets, why);
    if (e) {
        goto fail;
    }
    e = read_values(&c, why);
    if (e) {
        goto fail;
    }
    e = read_addresses(&c, why);
    if (e) {
        goto fail;
    }
    e = read_paths(&c, why);
    if (e) {
        goto fail;
    }
    *out = c;
    return ERR_OK;

fail:
    agent_conf_fini(&c);
    return e;
}

void agent_conf_fini(struct agent_conf *c)
{
    for (size_t i = 0; i < c->n_addresses; i++) {
        mem_free(c->addresses[i]);
    }
    mem_free(c->ca);
    mem_free(c->cert);
    mem_free(c->key);
    conf_destroy(c->raw);
    *c = (struct agent_conf){0};
}
