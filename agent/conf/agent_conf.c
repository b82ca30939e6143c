#include "agent/conf/agent_conf.h"

#include <stdio.h>
#include <string.h>

#include "agent/conf/agent_conf_host.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"

/* ---- process_filter ---- */

static enum err agent_conf_pids(uint32_t *to, size_t *n, const struct conf *c, const char *key,
                                struct errmsg *why)
{
    const char *const *items;
    char text[120];

    *n = conf_list(c, key, &items);
    for (size_t i = 0; i < *n; i++) {
        if (process_filter_parse_pid(&to[i], items[i])) {
            (void)snprintf(text, sizeof text, "'%.60s' is not the number of a process", items[i]);
            return conf_wrong(c, key, why, text);
        }
    }
    return ERR_OK;
}

static enum err agent_conf_names(struct process_filter_list *to, const struct conf *c,
                                 const char *key, struct errmsg *why)
{
    char text[160];

    to->n_names = conf_list(c, key, &to->names);
    for (size_t i = 0; i < to->n_names; i++) {
        if (process_filter_check_name(to->names[i])) {
            (void)snprintf(text, sizeof text,
                           "'%.60s' would fit no process: write the name without its folder",
                           to->names[i]);
            return conf_wrong(c, key, why, text);
        }
    }
    return ERR_OK;
}

static enum err agent_conf_who(struct agent_conf *c, struct errmsg *why)
{
    enum err e;

    c->pids = mem_array(2u * PROCESS_FILTER_PIDS_MAX, sizeof *c->pids);
    if (!c->pids) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    c->who.only.pids = c->pids;
    c->who.except.pids = c->pids + PROCESS_FILTER_PIDS_MAX;
    c->who.except_system = conf_bool(c->raw, "process_filter.exclude_system_processes");
    e = agent_conf_pids(c->pids, &c->who.only.n_pids, c->raw, "process_filter.target_processes",
                        why);
    if (!e) {
        e = agent_conf_pids(c->pids + PROCESS_FILTER_PIDS_MAX, &c->who.except.n_pids, c->raw,
                            "process_filter.exclude_pids", why);
    }
    if (!e) {
        e = agent_conf_names(&c->who.only, c->raw, "process_filter.target_process_names", why);
    }
    if (!e) {
        e = agent_conf_names(&c->who.except, c->raw, "process_filter.exclude_names", why);
    }
    return e;
}

#define MIB (1 << 20)

static const struct conf_key keys[] = {
    {"state_dir", CONF_TEXT, agent_conf_state_dir, 0, 0, NULL,
     "directory of the agent's lock, and base of relative paths; one agent at a time uses it; "
     "%VARIABLE% is filled in on Windows"},
    {"source", CONF_CHOICE, "auto", 0, 0, "auto|live|attach|proc|snapshot",
     "where data comes from; Windows: auto = event sessions beside process tables, tables alone "
     "while sessions are refused or lost; live = the same, but a refusal at start is an error; "
     "attach = reads the session etw.session_name of another program and never controls it; "
     "snapshot = tables alone; Linux: auto = proc"},
    {"sampling.rate_hz", CONF_NUMBER, "1", 100, 1000000, NULL,
     "samples per second wanted; the level allows 1 at first, 10 after one quiet minute and 100 "
     "after "
     "two: 'run --level L2 --for 1h' starts there"},
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
    {"spool.dir", CONF_TEXT, "spool", 0, 0, NULL,
     "directory of the batches that the collector has not acknowledged yet"},
    {"spool.max_bytes", CONF_SIZE, "1 GiB", MIB, (int64_t)1 << 40, NULL,
     "on disk; above it the oldest batches lose their samples, then their lifecycle events, and it "
     "is counted"},
    {"spool.max_age", CONF_SPAN, "7d", 60 * CLK_S, 365 * 24 * 3600 * CLK_S, NULL,
     "older batches are dropped and counted; the collector refuses what is older than its "
     "accept_age"},
    {"queue.max_bytes", CONF_SIZE, "64 MiB", MIB, 1024LL * MIB, NULL,
     "batches in memory: of a replay, which waits when it is full; live, those that are not on "
     "disk yet: above it the oldest go and are counted"},
    {"collector.addresses", CONF_LIST, "", 0, AGENT_CONF_ADDRESSES_MAX, NULL,
     "host:port of the collector's ingest listener, port 7420 if left out; several: see "
     "collector.choose"},
    {"collector.choose", CONF_CHOICE, "order", 0, 0, "order|spread",
     "of several addresses: order = the first that takes this host, spread = in an order of each "
     "host's own, so that a fleet divides evenly; after a fail-over the first is tried again "
     "after 10 to 20 minutes"},
    {"collector.enroll_address", CONF_TEXT, "", 0, 0, NULL,
     "host:port of the collector's enroll listener, for 'enroll' and for a certificate that has "
     "expired; empty = the first of collector.addresses with port 7423"},
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
    {"labels", CONF_LIST, "", 0, INVENTORY_LABELS_MAX, NULL,
     "KEY=VALUE, as rack=3: what this host is called besides its name, for --label and --where; "
     "keys of a-z, 0-9, _ . and -, 32 bytes at most, values 64; the collector's lab.labels are "
     "stronger"},
    {"privacy.command_line", CONF_CHOICE, "redact", 0, 0, "none|exe|redact|full",
     "what of command lines leaves this host: nothing, the first argument, all but the values of "
     "secret arguments, everything"},
    {"privacy.redact_names", CONF_LIST, PRIVACY_WORDS, 0, PRIVACY_WORDS_MAX, NULL,
     "redact hides the value of arguments whose name contains one of these words"},
    {"etw.session_name", CONF_TEXT, "procfleet", 0, 0, NULL,
     "name of the event session (with -hi and -kp of its companions), 1 to 1000 bytes; source "
     "attach: of the foreign one that is read"},
    {"etw.preset", CONF_CHOICE, "none", 0, 0, "none|burst",
     "burst: 64 to 512 buffers of 32 KiB, flushed every 5 ms, where these keys are not set; for "
     "bursts of short processes"},
    {"etw.buffer_size_kb", CONF_INT, "64", 4, 1024, NULL, "size of the session's buffers, KiB"},
    {"etw.min_buffers", CONF_INT, "64", 2, 4096, NULL,
     "buffers that stand from the start: only these take a sudden burst"},
    {"etw.max_buffers", CONF_INT, "256", 2, 4096, NULL,
     "buffers at most; doubled after losses as far as pool_limit_mib permits"},
    {"etw.hi.buffer_size_kb", CONF_INT, "256", 4, 1024, NULL, "the same of the high-rate session"},
    {"etw.hi.min_buffers", CONF_INT, "64", 2, 4096, NULL,
     "the same of the high-rate session; two for each CPU at least"},
    {"etw.hi.max_buffers", CONF_INT, "128", 2, 4096, NULL, "the same of the high-rate session"},
    {"etw.pool_limit_mib", CONF_INT, "64", 1, 4096, NULL,
     "buffers of one session, all together, MiB; size times max_buffers must fit"},
    {"etw.flush_timer", CONF_SPAN, "1s", CLK_S, 60 * CLK_S, NULL,
     "buffers are delivered at least so often; whole seconds"},
    {"etw.flush_ms", CONF_INT, "0", 0, 1000, NULL,
     "and so often, 5 to 1000 ms, by the agent; 0 = as flush_timer says, from level L2 on every "
     "100 ms"},
    {"etw.kernel_flags", CONF_LIST, "", 0, 32, NULL,
     "kinds of kernel events by name (PROCESS, CSWITCH, EVENT_TRACE_FLAG_DISK_IO) or 0x10, in "
     "place of the enable_ keys; the level still decides when"},
    {"etw.enable_process_events", CONF_BOOL, "true", 0, 0, NULL,
     "starts and ends of processes, images"},
    {"etw.enable_thread_events", CONF_BOOL, "true", 0, 0, NULL, "starts and ends of threads"},
    {"etw.enable_memory_events", CONF_BOOL, "true", 0, 0, NULL, "hard faults, from level L2 on"},
    {"etw.enable_disk_io", CONF_BOOL, "false", 0, 0, NULL, "disk requests, from level L2 on"},
    {"etw.enable_network", CONF_BOOL, "true", 0, 0, NULL,
     "bytes sent and received by each process, connections, retransmits; from level L2 on"},
    {"etw.enable_virtual_alloc", CONF_BOOL, "false", 0, 0, NULL,
     "address space reserved and released, from level L2 on"},
    {"etw.enable_file_io", CONF_BOOL, "false", 0, 0, NULL,
     "operations on files, from level L3 on; many"},
    {"etw.enable_registry", CONF_BOOL, "false", 0, 0, NULL,
     "operations on the registry, from level L3 on; many"},
    {"etw.enable_context_switch", CONF_BOOL, "true", 0, 0, NULL,
     "context switches, from level L3 on"},
    {"etw.enable_cpu_sampling", CONF_BOOL, "true", 0, 0, NULL, "CPU samples, at level L4"},
    {"etw.cpu_sampling_interval", CONF_INT, "1000", 1, 8000, NULL,
     "samples per second and CPU; of the whole machine, put back when the agent stops"},
    {"etw.enable_stack_walking", CONF_BOOL, "false", 0, 0, NULL,
     "stacks of context switches and samples; dear"},
    {"etw.providers", CONF_LIST, "Microsoft-Windows-Kernel-Process", 0, ETW_CONF_PROVIDERS, NULL,
     "name or GUID[:level[:any[:all]]][#id+id]: further providers of events, level 0 to 5 (4), "
     "keywords as 0x10, only these event ids; Kernel-Process is always among them while "
     "enable_process_events is true"},
    {"etw.clr", CONF_CHOICE, "gc", 0, 0, "off|gc|full",
     "what is asked of .NET's runtimes: gc, from level L1 on, is collections, pauses, heap, "
     "exceptions, contention, starvation; full, from L2 on, also each compiled method and each "
     "100 KB allocated"},
    {"etw.clr_only", CONF_LIST, "", 0, ETW_CONF_CLR_ONLY, NULL,
     "only of programs with these names, w3wp.exe and the like; a system that cannot filter asks "
     "every one"},
    {"etw.enable_presents", CONF_BOOL, "false", 0, 0, NULL,
     "frames that programs hand to the display system, by DXGI and D3D9, from level L1 on; as "
     "etw.providers says where one of the two stands there"},
    {"events.providers", CONF_LIST, "", 0, FORWARD_CHOICES_MAX, NULL,
     "NAME[#id+id], a pattern such as MyCompany-*, or {GUID}: whose events are sent as they are, "
     "with the values of their fields; of those that etw.providers has, or a recording holds"},
    {"events.manifests", CONF_TEXT, "", 0, 0, NULL,
     "a manifest (.man, .xml, or a .dll or .exe that has one), or a directory of them: what events "
     "look like that say it nowhere; before what Windows knows and the program's own tables"},
    {"events.rate", CONF_INT, "100", 0, 1000000, NULL,
     "events a second of one provider that are sent, 0 = any number,"},
    {"events.burst", CONF_INT, "1000", 1, 1000000, NULL, "so many at once,"},
    {"events.host_rate", CONF_INT, "1000", 0, 1000000, NULL,
     "and so many a second of all together; 0 = any number,"},
    {"events.host_bytes", CONF_SIZE, "256 KiB", 0, 64 * MIB, NULL,
     "or bytes of values a second; 0 = any number. What is more is counted in the loss ledger"},
    {"events.drop_fields", CONF_LIST, "", 0, FORWARD_CHOICES_MAX, NULL,
     "fields, as *token* or Cookie, whose values are left out; privacy.redact_names hides values "
     "under names that mean a secret, and secrets inside texts, in any case"},
    {"etw.ring_bytes", CONF_SIZE, "1 MiB", 64 << 10, 256 * MIB, NULL,
     "room between a session's callback and the agent, one for each session; those of low rates "
     "have half"},
    {"etw.batch_events", CONF_INT, "10000", 1, 100000, NULL, "records taken out of it at once"},
    {"etw.retry_fast", CONF_INT, "3", 0, 100, NULL,
     "a session that was lost is started again so many times at retry_pause, then once a minute"},
    {"etw.retry_pause", CONF_SPAN, "1s", 100 * CLK_MS, 60 * CLK_S, NULL, "see retry_fast"},
    {"process_filter.target_processes", CONF_LIST, "", 0, PROCESS_FILTER_PIDS_MAX, NULL,
     "report only the processes of these numbers,"},
    {"process_filter.target_process_names", CONF_LIST, "", 0, PROCESS_FILTER_NAMES_MAX, NULL,
     "and of these names: patterns with * and ? for the name without its folder, in either case"},
    {"process_filter.exclude_pids", CONF_LIST, "", 0, PROCESS_FILTER_PIDS_MAX, NULL,
     "do not report the processes of these numbers,"},
    {"process_filter.exclude_names", CONF_LIST, "", 0, PROCESS_FILTER_NAMES_MAX, NULL,
     "nor of these names; both are stronger than the targets"},
    {"process_filter.exclude_system_processes", CONF_BOOL, "false", 0, 0, NULL,
     "do not report the system's own: Idle, System, Secure System, Registry and Memory Compression "
     "on Windows, kernel threads on Linux"},
    {"privacy.user", CONF_BOOL, "true", 0, 0, NULL,
     "find out and send whose a process is; false: no account at all"},
    {"slow.top", CONF_INT, "32", 0, 256, NULL,
     "Windows: so many of the busiest processes are opened, with the least right that serves, for "
     "affinity, I/O priority, GDI and USER objects and most handles,"},
    {"slow.period", CONF_SPAN, "60s", 10 * CLK_S, 3600 * CLK_S, NULL, "once in this time"},
    {"log.level", CONF_CHOICE, "info", 0, 0, "error|warn|info|debug", "lowest level written"},
    {"log.format", CONF_CHOICE, "text", 0, 0, "text|json",
     "text = key=value lines; json = an object a line, the values in its fields"},
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

/* Bytes of an address before its port. */
static size_t host_length(const char *address)
{
    const char *last = strrchr(address, ':');
    bool bare = !last || address[strlen(address) - 1] == ']';

    return bare ? strlen(address) : (size_t)(last - address);
}

char *agent_conf_with_port(const char *address, const char *port, bool replace)
{
    size_t host_n = host_length(address), n = strlen(address) + strlen(port) + sizeof ":";
    char *text = mem_alloc(n);

    if (text && (replace || !address[host_n])) {
        (void)snprintf(text, n, "%.*s:%s", (int)host_n, address, port);
    } else if (text) {
        (void)snprintf(text, n, "%s", address);
    }
    return text;
}

static enum err read_addresses(struct agent_conf *c, struct errmsg *why)
{
    const char *const *items, *enroll = conf_text(c->raw, "collector.enroll_address");
    size_t n = conf_list(c->raw, "collector.addresses", &items);

    for (size_t i = 0; i < n; i++) {
        c->addresses[i] = agent_conf_with_port(items[i], AGENT_CONF_PORT, false);
        if (!c->addresses[i]) {
            return errmsg_set(why, ERR_NOMEM, "out of memory");
        }
        c->n_addresses = i + 1;
    }
    c->spread = strcmp(conf_text(c->raw, "collector.choose"), "spread") == 0;
    if (enroll[0]) {
        c->enroll_address = agent_conf_with_port(enroll, AGENT_CONF_ENROLL_PORT, false);
    } else if (n > 0) {
        c->enroll_address = agent_conf_with_port(items[0], AGENT_CONF_ENROLL_PORT, true);
    }
    return c->enroll_address || (!enroll[0] && n == 0)
               ? ERR_OK
               : errmsg_set(why, ERR_NOMEM, "out of memory");
}

static enum err read_paths(struct agent_conf *c, struct errmsg *why)
{
    const char *dir = conf_text(c->raw, "state_dir");
    enum err e;

    if (dir[0] == '\0') {
        return errmsg_set(why, ERR_INVALID, "state_dir: a directory is needed");
    }
    e = agent_conf_expand(&c->dir, dir);
    if (e) {
        return errmsg_set(why, e, "state_dir: '%s': %s", dir,
                          e == ERR_INVALID ? "not a path, or a variable in it is not set"
                                           : "out of memory");
    }
    c->state_dir = c->dir;
    c->ca = os_path_join(c->state_dir, conf_text(c->raw, "tls.ca"));
    c->cert = os_path_join(c->state_dir, conf_text(c->raw, "tls.cert"));
    c->key = os_path_join(c->state_dir, conf_text(c->raw, "tls.key"));
    c->spool_dir = os_path_join(c->state_dir, conf_text(c->raw, "spool.dir"));
    c->manifests = conf_text(c->raw, "events.manifests")[0]
                       ? os_path_join(c->state_dir, conf_text(c->raw, "events.manifests"))
                       : mem_strdup("");
    return c->ca && c->cert && c->key && c->spool_dir && c->manifests
               ? ERR_OK
               : errmsg_set(why, ERR_NOMEM, "out of memory");
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

static enum err read_words(struct agent_conf *c, struct errmsg *why)
{
    char text[200];

    c->filter.n_words = conf_list(c->raw, "privacy.redact_names", &c->filter.words);
    for (size_t i = 0; i < c->filter.n_words; i++) {
        if (privacy_check_word(c->filter.words[i])) {
            (void)snprintf(text, sizeof text,
                           "'%.60s' would fit no name: write letters, digits, '.', '_' or '-' "
                           "that stand anywhere in it, without dashes before them or patterns",
                           c->filter.words[i]);
            return conf_wrong(c->raw, "privacy.redact_names", why, text);
        }
    }
    return ERR_OK;
}

static enum err read_labels(struct agent_conf *c, struct errmsg *why)
{
    const char *const *items;
    size_t n = conf_list(c->raw, "labels", &items);
    char text[320];

    for (size_t i = 0; i < n; i++) {
        struct label *l = &c->labels[i];

        if (!inventory_label_parse(l, items[i])) {
            (void)snprintf(text, sizeof text, "'%.100s' is not " INVENTORY_LABEL_WANTED, items[i]);
            return conf_wrong(c->raw, "labels", why, text);
        }
        for (size_t k = 0; k < i; k++) {
            if (str_eq(c->labels[k].key, l->key)) {
                (void)snprintf(text, sizeof text, "%.*s is there twice", (int)l->key.n, l->key.p);
                return conf_wrong(c->raw, "labels", why, text);
            }
        }
        c->n_labels = i + 1;
    }
    return ERR_OK;
}

static enum err read_events(struct agent_conf *c, struct errmsg *why)
{
    struct forward_conf *f = &c->events;

    f->n_providers = conf_list(c->raw, "events.providers", &f->providers);
    f->n_drop_fields = conf_list(c->raw, "events.drop_fields", &f->drop_fields);
    f->rate = (uint32_t)conf_int(c->raw, "events.rate");
    f->burst = (uint32_t)conf_int(c->raw, "events.burst");
    f->host_rate = (uint32_t)conf_int(c->raw, "events.host_rate");
    f->host_bytes = (size_t)conf_int(c->raw, "events.host_bytes");
    for (size_t i = 0; i < f->n_providers; i++) {
        struct errmsg wrong = {""};
        struct forward_choice choice;

        if (forward_choice_parse(&choice, f->providers[i], &wrong)) {
            return conf_wrong(c->raw, "events.providers", why, wrong.text);
        }
    }
    return ERR_OK;
}

static enum err read_values(struct agent_conf *c, struct errmsg *why)
{
    const char *name = conf_text(c->raw, "identity.name");
    enum err e;

    c->source = conf_text(c->raw, "source");
    c->period_ns = 1000 * CLK_S / conf_int(c->raw, "sampling.rate_hz");
    c->batch_samples = (uint32_t)conf_int(c->raw, "batch.samples");
    c->batch_bytes = (size_t)conf_int(c->raw, "batch.max_bytes");
    c->batch_age_ns = conf_int(c->raw, "batch.max_age");
    c->queue_bytes = (size_t)conf_int(c->raw, "queue.max_bytes");
    c->spool_bytes = (uint64_t)conf_int(c->raw, "spool.max_bytes");
    c->spool_age_ns = conf_int(c->raw, "spool.max_age");
    c->heartbeat_ns = conf_int(c->raw, "collector.heartbeat");
    c->server_name = conf_text(c->raw, "collector.server_name");
    c->name = name[0] ? name : NULL;
    c->filter.hide_user = !conf_bool(c->raw, "privacy.user");
    c->slow_top = (size_t)conf_int(c->raw, "slow.top");
    c->slow_period_ns = conf_int(c->raw, "slow.period");
    c->budget.max = (unsigned)(conf_text(c->raw, "sampler.level_max")[1] - '0');
    c->budget.cpu_permille = conf_int(c->raw, "budget.cpu") / 100; /* of thousandths of percent */
    c->budget.memory_bytes = conf_int(c->raw, "budget.mem");
    c->budget.events_per_s = conf_int(c->raw, "budget.events");
    read_log(c);
    e = etw_conf_read(&c->etw, c->raw, why);
    if (!e) {
        e = read_words(c, why);
    }
    if (!e) {
        e = read_events(c, why);
    }
    if (!e) {
        e = read_labels(c, why);
    }
    if (e) {
        return e;
    }
    if (c->server_name[0] == '\0') {
        return errmsg_set(why, ERR_INVALID,
                          "collector.server_name: cannot be empty; without it any certificate of "
                          "the authority could pose as the collector");
    }
    return privacy_policy_parse(&c->filter.command_line, conf_text(c->raw, "privacy.command_line"));
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
    e = agent_conf_who(&c, why);
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
    mem_free(c->enroll_address);
    mem_free(c->dir);
    mem_free(c->ca);
    mem_free(c->cert);
    mem_free(c->key);
    mem_free(c->spool_dir);
    mem_free(c->manifests);
    mem_free(c->pids);
    conf_destroy(c->raw);
    *c = (struct agent_conf){0};
}
