#include "collector/conf/collector_conf.h"

#include <stdio.h>
#include <string.h>

#include "collector/ca/ca_db.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define KIB 1024LL
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define H   (3600 * CLK_S)

#define SIZE_MAX_SET (1024 * 1024 * GIB)
#define HEAD_MIN     (128u * (uint64_t)MIB) /* by default */
#define HEAD_MAX     (8u * (uint64_t)GIB)
#define HEAD_SET_MIN (16 * MIB)
#define PROCESS_MIN  (64u * (uint64_t)MIB)
#define SHARE_MIN    (16 * MIB)
#define TOTAL_MIN    (256 * MIB)
#define FEED_MIN     (4 * MIB) /* JOURNAL_LEAST */

static const struct conf_key keys[] = {
    {"data_dir", CONF_TEXT, "/var/lib/procfleet-collector", 0, 0, NULL,
     "absolute path: write-ahead log; one collector holds its lock; base of relative paths"},
    {"listen.ingest", CONF_TEXT, "*:7420", 0, 0, NULL, "address:port for agents; port 0 = any"},
    {"listen.query", CONF_TEXT, "*:7421", 0, 0, NULL,
     "address:port for the command line; port 0 = any"},
    {"listen.events", CONF_TEXT, "*:7422", 0, 0, NULL,
     "address:port of the live stream; port 0 = any, empty = off"},
    {"listen.enroll", CONF_TEXT, "*:7423", 0, 0, NULL,
     "address:port for hosts that enrol, who have no certificate yet; port 0 = any, empty = off; "
     "off without pki.dir"},
    {"listen.http", CONF_TEXT, "127.0.0.1:7424", 0, 0, NULL,
     "address:port of /metrics, /healthz and /readyz, plain HTTP for every client that reaches it; "
     "port "
     "0 = any, empty = off"},
    {"listen.console", CONF_TEXT, "", 0, 0, NULL,
     "address:port of the console for browsers, plain HTTP, of this machine only, such as "
     "127.0.0.1:7425: a proxy with TLS stands in front of it; empty = off ('procfleet console' "
     "needs it only for --direct)"},
    {"tls.ca", CONF_TEXT, "tls/ca.pem", 0, 0, NULL,
     "authority that must have signed every client's certificate"},
    {"tls.cert", CONF_TEXT, "tls/collector.pem", 0, 0, NULL,
     "own certificate, for use as a server only"},
    {"tls.key", CONF_TEXT, "tls/collector.key", 0, 0, NULL,
     "own private key; refused when others can read it"},
    {"tls.crl", CONF_TEXT, "", 0, 0, NULL,
     "revocation list in PEM, of an authority kept outside procfleet; read again when it changes; "
     "empty = none"},
    {"pki.dir", CONF_TEXT, "pki", 0, 0, NULL,
     "authority and its book: who may enrol, who is revoked; a default directory that is not "
     "there, "
     "and empty, is none"},
    {"pki.cert_life", CONF_SPAN, "90d", 20 * CLK_S, 87600 * H, NULL,
     "how long an agent's certificate is valid; renewed at two thirds of it"},
    {"pki.renew_grace", CONF_SPAN, "7d", 0, CA_ROWS_GRACE_MAX, NULL,
     "how long after its end an agent's certificate can still be renewed"},
    {"accept_age", CONF_SPAN, "8d", 60 * CLK_S, 876000 * H, NULL,
     "batches older than this by the corrected clock are refused; longer than the agents' "
     "spool.max_age, so that an outage loses nothing"},
    {"retention.raw.age", CONF_SPAN, "48h", H, 87600 * H, NULL,
     "samples as they came, and their summaries, older than this are dropped"},
    {"retention.10s.age", CONF_SPAN, "5d", H, 87600 * H, NULL, "the same of the 10 s tier"},
    {"retention.1min.age", CONF_SPAN, "30d", H, 87600 * H, NULL, "the same of the 1 min tier"},
    {"retention.1h.age", CONF_SPAN, "90d", H, 87600 * H, NULL, "the same of the 1 h tier"},
    {"retention.events.age", CONF_SPAN, "0s", 0, 87600 * H, NULL,
     "the same of events, names of processes and ledgers; 0 = the longest of the tiers"},
    {"retention.provider.age", CONF_SPAN, "7d", H, 87600 * H, NULL,
     "the same of events of the providers that agents' settings name (events.providers)"},
    {"retention.raw.bytes", CONF_SIZE, "0", 0, SIZE_MAX_SET, NULL,
     "bytes of samples; beyond, the oldest go; 0 = 25 % of retention.total_bytes"},
    {"retention.10s.bytes", CONF_SIZE, "0", 0, SIZE_MAX_SET, NULL,
     "the same of the 10 s tier; 0 = 22 %"},
    {"retention.1min.bytes", CONF_SIZE, "0", 0, SIZE_MAX_SET, NULL,
     "the same of the 1 min tier; 0 = 35 %"},
    {"retention.1h.bytes", CONF_SIZE, "0", 0, SIZE_MAX_SET, NULL,
     "the same of the 1 h tier; 0 = 13 %"},
    {"retention.events.bytes", CONF_SIZE, "0", 0, SIZE_MAX_SET, NULL,
     "the same of events; 0 = 5 %"},
    {"retention.provider.bytes", CONF_SIZE, "0", 0, SIZE_MAX_SET, NULL,
     "the same of providers' events; 0 = 5 %, of which the others keep theirs"},
    {"retention.total_bytes", CONF_SIZE, "0", 0, 5 * SIZE_MAX_SET, NULL,
     "ceiling over all that the store keeps in data_dir; 0 = 80 % of the file system"},
    {"head.max_bytes", CONF_SIZE, "0", 0, SIZE_MAX_SET, NULL,
     "encoded batches held in memory until they are sealed, all hosts (about 1.5 MB a host at 1 "
     "Hz); "
     "from three quarters on windows are sealed early, at the limit agents wait; 0 = a quarter of "
     "the machine's memory, 128 MiB to 8 GiB"},
    {"feed.max_bytes", CONF_SIZE, "1GiB", 0, SIZE_MAX_SET, NULL,
     "journal of updates that subscribers can ask for again, at most an eighth of "
     "retention.total_bytes; 0 = none: no Fetch, no durable subscriptions"},
    {"feed.max_age", CONF_SPAN, "24h", 60 * CLK_S, 876000 * H, NULL,
     "updates older than this go from the journal"},
    {"feed.idle", CONF_SPAN, "7d", 60 * CLK_S, 876000 * H, NULL,
     "a durable subscription that was not polled for so long is dropped"},
    {"runs.age", CONF_SPAN, "400d", H, 876000 * H, NULL,
     "runs that ended before are dropped, with their files in data_dir/runs"},
    {"runs.max_bytes", CONF_SIZE, "1GiB", MIB, SIZE_MAX_SET, NULL,
     "bytes of these files, at most an eighth of retention.total_bytes; beyond, the oldest go of "
     "whoever has the most"},
    {"lab.labels", CONF_LIST, "", 0, 256, NULL,
     "HOST KEY=VALUE, as 'lab-3* rack=3': labels of the hosts whose names fit; stronger than those "
     "that agents tell, and of two for one key the later one holds"},
    {"lab.class", CONF_LIST, "", 0, 16, NULL,
     "names of the inventory in which hosts of one class are the same; empty = os_name,os_build,"
     "cpu_model,cpu_cores,memory_bytes"},
    {"rules.file", CONF_TEXT, "", 0, 0, NULL,
     "file of rules that are judged on what hosts send, see docs/lab.md; empty = none. It is read "
     "again when it changes"},
    {"limits.hosts", CONF_INT, "10000", 1, 1000000, NULL,
     "hosts with data; a further one is refused"},
    {"limits.processes_per_host", CONF_INT, "4096", 64, 4096, NULL,
     "living processes of one host; four times as many are remembered, ended ones included"},
    {"limits.process_bytes_per_host", CONF_SIZE, "16MiB", MIB, SIZE_MAX_SET, NULL,
     "memory for what is remembered of one host's processes; beyond it those that ended are "
     "looked up on disk, then long command lines and paths are cut in memory"},
    {"limits.process_bytes", CONF_SIZE, "0", 0, SIZE_MAX_SET, NULL,
     "the same of all hosts together; the host that takes most gives way; 0 = an eighth of the "
     "machine's memory, at least 64 MiB"},
    {"limits.batch_bytes", CONF_SIZE, "1MiB", 64 * KIB, MIB, NULL,
     "one batch as received; told to agents"},
    {"http.names", CONF_LIST, "", 0, 16, NULL,
     "names by which listen.http may be asked, besides localhost and its own address; as they "
     "stand "
     "in the address of the page or of the scraper, without a port"},
    {"http.refresh", CONF_SPAN, "10s", CLK_S, H, NULL,
     "the text of /metrics is made anew at most once in this time"},
    {"http.hosts_max", CONF_INT, "1000", 0, 100000, NULL,
     "hosts with numbers of their own in /metrics, by name; sums are over all"},
    {"http.programs", CONF_INT, "20", 0, 500, NULL,
     "programs in /metrics: so many by CPU, and as many of the others by memory"},
    {"http.programs_more", CONF_BOOL, "false", 0, 0, NULL,
     "in /metrics also what programs send and receive by TCP, how long they wait for a CPU, and "
     "pauses of .NET; costs 1.5 ms of CPU a host each time that it is made anew"},
    {"collector.name", CONF_TEXT, "", 0, 0, NULL,
     "what this collector is called in ClickHouse's ledger: one of its kind; empty = the host's "
     "name"},
    {"clickhouse.urls", CONF_LIST, "", 0, 8, NULL,
     "a server, or the replicas of one: http://127.0.0.1:8123, else https://NAME:8443; what comes "
     "in is sent there, too; empty = off"},
    {"clickhouse.database", CONF_TEXT, "procfleet", 0, 0, NULL, "letters, digits and _"},
    {"clickhouse.user", CONF_TEXT, "", 0, 0, NULL,
     "who writes: INSERT, SELECT, and for 'clickhouse migrate' CREATE and ALTER; empty = default"},
    {"clickhouse.password_file", CONF_TEXT, "", 0, 0, NULL,
     "file with the password in its first line, private to its owner; empty = none"},
    {"clickhouse.reader", CONF_TEXT, "", 0, 0, NULL, "who asks; empty = clickhouse.user"},
    {"clickhouse.reader_password_file", CONF_TEXT, "", 0, 0, NULL, "likewise"},
    {"clickhouse.tls.ca", CONF_TEXT, "", 0, 0, NULL,
     "authority of the servers' certificates; empty = those that the system trusts"},
    {"clickhouse.tls.cert", CONF_TEXT, "", 0, 0, NULL,
     "own certificate towards the servers; empty = none"},
    {"clickhouse.tls.key", CONF_TEXT, "", 0, 0, NULL, "its key"},
    {"clickhouse.samples", CONF_LIST, "", 0, 64, NULL,
     "names of hosts, with * and ?, whose every sample is sent, not only what each process did in "
     "10 s; '*' doubles the bytes"},
    {"clickhouse.gather", CONF_SPAN, "2s", CLK_S / 10, 10 * CLK_S, NULL,
     "so long batches are gathered for one insert; up to five times as long when there are few"},
    {"clickhouse.quorum", CONF_INT, "0", 0, 8, NULL,
     "replicas that must have an insert; 0 = all that clickhouse.urls names"},
    {"clickhouse.view", CONF_CHOICE, "auto", 0, 0, "auto|local|far",
     "what questions read: local = the store of this collector, far = ClickHouse, auto = "
     "ClickHouse when other collectors feed it, too, else the store, joined with ClickHouse for "
     "what is older"},
    {"clickhouse.keep.sample", CONF_SPAN, "2d", 0, 87600 * H, NULL,
     "how long the table keeps its rows, when it is made; 0 = for ever"},
    {"clickhouse.keep.cell", CONF_SPAN, "14d", 0, 87600 * H, NULL, "likewise"},
    {"clickhouse.keep.minute", CONF_SPAN, "90d", 0, 87600 * H, NULL, "likewise"},
    {"clickhouse.keep.hour", CONF_SPAN, "730d", 0, 87600 * H, NULL, "likewise"},
    {"clickhouse.keep.event", CONF_SPAN, "90d", 0, 87600 * H, NULL, "likewise"},
    {"console.names", CONF_LIST, "", 0, 16, NULL,
     "names by which listen.console may be asked, besides localhost, its own address and the one "
     "in console.url"},
    {"console.url", CONF_TEXT, "", 0, 0, NULL,
     "where browsers find it through the proxy, such as https://console.example.org; links begin "
     "with it"},
    {"console.tokens", CONF_TEXT, "", 0, 0, NULL,
     "file with tokens of programs, private to its owner: lines of NAME TOKEN [scope=GLOB] "
     "[until=TIME]; read again when it changes; empty = none"},
    {"console.user_header", CONF_TEXT, "", 0, 0, NULL,
     "header in which the proxy names its user, for the log only; empty = none"},
    {"console.audit", CONF_BOOL, "false", 0, 0, NULL,
     "log each question of the console with who asked it"},
    {"log.level", CONF_CHOICE, "info", 0, 0, "error|warn|info|debug", "lowest level written"},
    {"log.format", CONF_CHOICE, "text", 0, 0, "text|json",
     "text = key=value lines; json = an object a line, the values in its fields"},
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

static enum err pki_read(struct collector_conf *c)
{
    if (conf_text(c->source, "pki.dir")[0]) {
        return path_get(&c->pki_dir, c, "pki.dir");
    }
    c->pki_dir = mem_strdup("");
    return c->pki_dir ? ERR_OK : ERR_NOMEM;
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
    if (!e && conf_text(c->source, "tls.crl")[0]) {
        e = path_get(&c->crl, c, "tls.crl");
    }
    if (!e && conf_text(c->source, "console.tokens")[0]) {
        e = path_get(&c->console_tokens, c, "console.tokens");
    }
    if (!e) {
        e = pki_read(c);
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

static const struct {
    unsigned kind;
    const char *age, *bytes;
} tiers[] = {
    {SEG_RAW, "retention.raw.age", "retention.raw.bytes"},
    {SEG_10S, "retention.10s.age", "retention.10s.bytes"},
    {SEG_1MIN, "retention.1min.age", "retention.1min.bytes"},
    {SEG_1H, "retention.1h.age", "retention.1h.bytes"},
    {SEG_REST, "retention.events.age", "retention.events.bytes"},
    {SEG_PROVIDER, "retention.provider.age", "retention.provider.bytes"},
};

#define N_TIERS (sizeof tiers / sizeof *tiers)

static uint64_t head_default(void)
{
    uint64_t quarter = os_memory_bytes() / 4;

    return quarter < HEAD_MIN ? HEAD_MIN : quarter > HEAD_MAX ? HEAD_MAX : quarter;
}

static uint64_t process_default(void)
{
    uint64_t eighth = os_memory_bytes() / 8;

    return eighth < PROCESS_MIN ? PROCESS_MIN : eighth;
}

/* What the table cannot say: 0 is "by default", less than the least is not. */
static enum err least(const struct collector_conf *c, const char *key, int64_t min,
                      struct errmsg *why)
{
    int64_t value = conf_int(c->source, key);
    char text[96];

    if (value == 0 || value >= min) {
        return ERR_OK;
    }
    (void)snprintf(text, sizeof text, "0 or at least %lld MiB", (long long)(min / MIB));
    return conf_wrong(c->source, key, why, text);
}

static enum err retention_read(struct collector_conf *c, struct errmsg *why)
{
    struct retain_conf *r = &c->retain;
    uint64_t sum = 0;
    enum err e = ERR_OK;

    r->total_bytes = (uint64_t)conf_int(c->source, "retention.total_bytes");
    for (size_t i = 0; i < N_TIERS && !e; i++) {
        unsigned kind = tiers[i].kind;

        r->age_ns[kind] = conf_int(c->source, tiers[i].age);
        r->share[kind] = (uint64_t)conf_int(c->source, tiers[i].bytes);
        sum += r->share[kind];
        if (i > 0 && r->age_ns[kind] > 0 && r->age_ns[kind] < r->age_ns[tiers[i - 1].kind] &&
            kind < SEG_REST) {
            return conf_wrong(c->source, tiers[i].age, why,
                              "shorter than the tier below it is kept");
        }
        e = least(c, tiers[i].bytes, SHARE_MIN, why);
    }
    if (!e) {
        e = least(c, "retention.total_bytes", TOTAL_MIN, why);
    }
    if (!e && r->total_bytes > 0 && sum > r->total_bytes) {
        e = conf_wrong(c->source, "retention.total_bytes", why,
                       "less than the shares together: retention.raw.bytes and the others");
    }
    if (!e) {
        e = least(c, "feed.max_bytes", FEED_MIN, why);
    }
    if (!e) {
        e = least(c, "limits.process_bytes", HEAD_SET_MIN, why);
    }
    return e ? e : least(c, "head.max_bytes", HEAD_SET_MIN, why);
}

static void values_read(struct collector_conf *c)
{
    static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
    static const char *const formats[] = {"text", "json", NULL};

    c->ingest = conf_text(c->source, "listen.ingest");
    c->query = conf_text(c->source, "listen.query");
    c->events = conf_text(c->source, "listen.events");
    c->enroll = conf_text(c->source, "listen.enroll");
    c->http = conf_text(c->source, "listen.http");
    c->n_http_names = conf_list(c->source, "http.names", &c->http_names);
    c->console = conf_text(c->source, "listen.console");
    c->n_console_names = conf_list(c->source, "console.names", &c->console_names);
    c->console_url = conf_text(c->source, "console.url");
    c->console_user_header = conf_text(c->source, "console.user_header");
    c->console_audit = conf_bool(c->source, "console.audit");
    c->http_refresh_ns = conf_int(c->source, "http.refresh");
    c->http_hosts_max = (uint32_t)conf_int(c->source, "http.hosts_max");
    c->http_programs = (uint32_t)conf_int(c->source, "http.programs");
    c->http_programs_more = conf_bool(c->source, "http.programs_more");
    c->pki_required = conf_is_set(c->source, "pki.dir");
    c->cert_life_ns = conf_int(c->source, "pki.cert_life");
    c->renew_grace_ns = conf_int(c->source, "pki.renew_grace");
    c->hosts_max = (uint32_t)conf_int(c->source, "limits.hosts");
    c->processes_max = (uint32_t)conf_int(c->source, "limits.processes_per_host");
    c->batch_bytes_max = (uint32_t)conf_int(c->source, "limits.batch_bytes");
    c->accept_age_ns = conf_int(c->source, "accept_age");
    c->head_bytes_max = (uint64_t)conf_int(c->source, "head.max_bytes");
    if (c->head_bytes_max == 0) {
        c->head_bytes_max = head_default();
    }
    c->process_bytes_host = (uint64_t)conf_int(c->source, "limits.process_bytes_per_host");
    c->process_bytes = (uint64_t)conf_int(c->source, "limits.process_bytes");
    if (c->process_bytes == 0) {
        c->process_bytes = process_default();
    }
    c->feed_bytes = (uint64_t)conf_int(c->source, "feed.max_bytes");
    c->feed_age_ns = conf_int(c->source, "feed.max_age");
    c->feed_idle_ns = conf_int(c->source, "feed.idle");
    c->runs_age_ns = conf_int(c->source, "runs.age");
    c->runs_bytes = (uint64_t)conf_int(c->source, "runs.max_bytes");
    c->rules_file = conf_text(c->source, "rules.file");
    c->n_lab_labels = conf_list(c->source, "lab.labels", &c->lab_labels);
    c->n_lab_class = conf_list(c->source, "lab.class", &c->lab_class);
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
    e = retention_read(c, why);
    if (e) {
        return e;
    }
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
    mem_free(c->crl);
    mem_free(c->cert);
    mem_free(c->key);
    mem_free(c->pki_dir);
    mem_free(c->log_file);
    mem_free(c->console_tokens);
    *c = (struct collector_conf){0};
}
