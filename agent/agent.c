#include "agent/agent.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "agent/agent_source.h"
#include "agent/agent_store.h"
#include "agent/batch/batch.h"
#include "agent/conf/agent_conf.h"
#include "agent/control/control_agent.h"
#include "agent/decode/schema/schema_source.h"
#include "agent/enroll/renew.h"
#include "agent/inventory/inventory_host.h"
#include "agent/monitor.h"
#include "agent/own/own.h"
#include "agent/privacy/privacy.h"
#include "agent/source/trace/etl_file.h"
#include "agent/status/event_log.h"
#include "agent/status/status.h"
#include "agent/uplink/uplink.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "common/os/os_owner.h"

struct agent_identity {
    struct tls_config *tls;
    struct net_identity own; /* as its certificate said at start; host and name never change */
    struct renew *renew;
};

#define KEEP_NS    CLK_S
#define PUBLISH_NS (250 * CLK_MS)

#define NOBODY_ROWS 3 /* hidden, while none came out: worth a warning */

struct agent {
    struct agent_opts opts;
    int64_t now_ns; /* UTC, at start */
    struct os_lock *dir_lock;
    struct agent_identity identity;
    struct privacy *filter;
    struct schema_source *schemas; /* NULL: no providers are chosen */
    struct monitor *monitor;
    struct source_about about;        /* as it was at start: the source changes its own */
    struct inventory_host *inventory; /* the uplink's thread's; NULL: a recording, of elsewhere */
    struct batch_builder *batch;
    struct agent_store store;
    struct uplink *uplink;
    struct control_agent *control;
    struct own *own; /* NULL: this system has no event tracing, or it is a replay */
    bool started;
    int64_t publish_ns;    /* monotonic: when the status is due; the core thread's */
    bool told_nobody;      /* that process_filter leaves nobody; the core thread's */
    atomic_bool no_events; /* the collector keeps none of providers; until it says so it is asked */

    struct os_mutex *lock; /* guards all below; taken after no other */
    struct os_cond *over;  /* status.ended */
    struct agent_status status;
    struct status_keeper kept;
    char source[32], detail[STATUS_TEXT]; /* struct source_about's, as of now */
    bool polled;
    int64_t source_since_ns, level_since_ns, kept_ns;
};

/* -- the certificate -- */

/* The certificate is renewed while the agent watches this machine. An agent with an expired one
 * starts all the same: its batches wait in the spool until there is another. */

static struct trust_files agent_identity_files(const struct agent_conf *c)
{
    return (struct trust_files){.ca = c->ca, .cert = c->cert, .key = c->key};
}

static enum err agent_identity_load(struct agent_identity *i, const struct agent_conf *c,
                                    struct errmsg *why)
{
    struct net_tls_conf tls = {
        .ca = c->ca, .cert = c->cert, .key = c->key, .server_name = c->server_name, .lapsed = true};
    struct errmsg inner = {""};
    enum err e = tls_config_load(&i->tls, &tls, false, &inner);

    if (e) {
        return errmsg_set(why, e, "%s%s", inner.text[0] ? inner.text : err_text(e),
                          e == ERR_NOTFOUND
                              ? "; get one with 'procfleet-agent enroll --collector HOST "
                                "--token-file FILE', with the token that 'procfleet-collector pki "
                                "token create' prints"
                          : e == ERR_TRUST ? "; mend tls.ca, tls.cert and tls.key, or enrol anew "
                                             "with 'procfleet-agent enroll --force'"
                                           : "");
    }
    tls_config_identity(i->tls, &i->own);
    return ERR_OK;
}

/* Errors: ERR_USAGE (the certificate is not of `name`), ERR_TRUST, those of tls_config_load and of
 * trust_files_mend */
static enum err agent_identity_open(struct agent_identity *i, const struct agent_conf *conf,
                                    const char *name, struct errmsg *why)
{
    struct trust_files files = agent_identity_files(conf);
    enum err e = trust_files_mend(&files, why);

    if (!e) {
        e = agent_identity_load(i, conf, why);
    }
    if (e) {
        return e;
    }
    if (!i->own.has_host || !(i->own.roles & NET_AGENT)) {
        return errmsg_set(why, ERR_TRUST,
                          "%s is not an agent's certificate; get one with 'procfleet-agent enroll'",
                          conf->cert);
    }
    if (name && strcmp(name, i->own.name) != 0) {
        return errmsg_set(why, ERR_USAGE,
                          "--name %s, but the certificate %s is of host %s; the collector believes "
                          "the certificate: leave --name out or get one for %s",
                          name, conf->cert, i->own.name, name);
    }
    return ERR_OK;
}

static enum err agent_identity_call(void *ctx, const char *method, const void *p, size_t n,
                                    int64_t timeout_ns, struct buf *reply,
                                    struct rpc_result *result)
{
    return uplink_call(ctx, method, p, n, timeout_ns, reply, result);
}

static void agent_identity_renewed(void *ctx)
{
    uplink_refresh(ctx);
}

/* Starts to renew it over this uplink, which must outlive agent_identity_rest. */
static enum err agent_identity_keep(struct agent_identity *i, const struct agent_conf *conf,
                                    struct uplink *uplink)
{
    struct renew_conf renew = {.tls = i->tls,
                               .files = agent_identity_files(conf),
                               .enroll_address = conf->enroll_address,
                               .server_name = conf->server_name,
                               .call = agent_identity_call,
                               .renewed = agent_identity_renewed,
                               .ctx = uplink};

    return renew_start(&i->renew, &renew);
}

static void agent_identity_rest(struct agent_identity *i)
{
    renew_stop(i->renew);
    i->renew = NULL;
}

static void agent_identity_close(struct agent_identity *i)
{
    agent_identity_rest(i);
    tls_config_free(i->tls);
    i->tls = NULL;
}

static void agent_identity_status(const struct agent_identity *i, struct renew_status *s)
{
    memset(s, 0, sizeof *s);
    s->not_after_ns = i->own.not_after_ns;
    if (i->renew) {
        renew_status(i->renew, s);
    }
}

static void agent_identity_tell(const struct agent_identity *i, struct status *out)
{
    struct renew_status s;

    agent_identity_status(i, &s);
    out->certificate_end_ns = s.not_after_ns;
    out->renew_ns = s.next_ns;
    out->renewed = s.renewed;
    out->renew_failed = s.failed;
    (void)snprintf(out->renew_why, sizeof out->renew_why, "%s", s.why);
}

/* -- the loss ledger -- */

/* The counters of all stages in the order data flows: always the same rows. The core thread's. */
static size_t agent_ledger(void *ctx, struct ledger_row *rows, size_t max)
{
    struct agent *a = ctx;
    struct renew_status trust;
    struct uplink_status up;
    size_t n = monitor_ledger(a->monitor, rows, max);

    agent_identity_status(&a->identity, &trust);
    uplink_status(a->uplink, &up);
    const struct ledger_row last[] = {
        {str_make("trust"), str_make("renewed"), trust.renewed},
        {str_make("trust"), str_make("renew_failed"), trust.failed},
        {str_make("uplink"), str_make("in"), up.taken},
        {str_make("uplink"), str_make("held"), up.held},
        {str_make("uplink"), str_make("out"), up.acknowledged},
        {str_make("uplink"), str_make("duplicate"), up.duplicates},
        {str_make("uplink"), str_make("quarantined"), up.quarantined},
        {str_make("uplink"), str_make("metrics_quarantined"), up.quarantined_rows},
        {str_make("uplink"), str_make("events_quarantined"), up.quarantined_events},
    };

    if (n < max) {
        rows[n++] = (struct ledger_row){str_make("filter"), str_make("redacted"),
                                        privacy_stats(a->filter)->redacted};
    }
    n += batch_ledger(a->batch, rows + n, max - n);
    n += agent_store_ledger(&a->store, rows + n, max - n);
    for (size_t i = 0; i < sizeof last / sizeof *last && n < max; i++) {
        rows[n++] = last[i];
    }
    return n;
}

/* -- the core thread -- */

/* For agent_tell: the ledger once a second. */
static void agent_keep_ledger(struct agent *a)
{
    struct ledger_row rows[BATCH_LEDGER_MAX];
    int64_t now_ns = os_mono_ns();
    size_t n;

    if (a->opts.n_files > 0 || (a->kept_ns && now_ns - a->kept_ns < KEEP_NS)) {
        return;
    }
    n = agent_ledger(a, rows, BATCH_LEDGER_MAX);
    own_losses(a->own, rows, n);
    os_mutex_lock(a->lock);
    status_keep_ledger(&a->kept, now_ns, rows, n);
    a->kept_ns = now_ns;
    os_mutex_unlock(a->lock);
}

static void agent_keep_cost(struct agent *a, const struct monitor_stats *s)
{
    if (a->opts.n_files == 0) {
        status_keep_cost(&a->kept, os_mono_ns(), s->cpu_ns, s->resident_bytes);
    }
}

static void agent_keep_source(struct agent *a, const struct source_about *about, int64_t wall_ns)
{
    os_mutex_lock(a->lock);
    if (a->polled != about->polled || strcmp(a->source, about->name) != 0) {
        a->source_since_ns = wall_ns;
    }
    a->polled = about->polled;
    (void)snprintf(a->source, sizeof a->source, "%s", about->name);
    (void)snprintf(a->detail, sizeof a->detail, "%s", about->detail);
    os_mutex_unlock(a->lock);
}

static void agent_keep_note(struct agent *a, const struct life_event *ev)
{
    os_mutex_lock(a->lock);
    status_keep_note(&a->kept, ev);
    if (ev->kind == LIFE_LEVEL) {
        a->level_since_ns = ev->wall_ns;
    }
    a->status.notes = a->kept.n_notes;
    os_mutex_unlock(a->lock);
    if (ev->kind == LIFE_SOURCE) {
        agent_keep_source(a, monitor_about(a->monitor), ev->wall_ns);
    }
}

/* A pattern that fits nobody is mistyped more often than meant, and looks like a quiet host. */
static void agent_warn_nobody(struct agent *a, const struct sampler_stats *s)
{
    if (!a->told_nobody && s->rows == 0 && s->filtered >= NOBODY_ROWS) {
        a->told_nobody = true;
        log_line(LOG_WARN, "agent", "filter",
                 "reported=0 filtered=%llu hint=\"process_filter leaves no process to report: see "
                 "its names and numbers, and 'show-wire --for 10s'\"",
                 (unsigned long long)s->filtered);
    }
}

static void agent_publish(struct agent *a, int64_t wall_ns)
{
    const struct source_about *about = monitor_about(a->monitor);
    int64_t span_ns = about->last_wall_ns - about->first_wall_ns;
    int64_t done_ns = wall_ns - about->first_wall_ns;
    struct monitor_stats s;

    monitor_stats(a->monitor, &s);
    agent_warn_nobody(a, &s.sampler);
    os_mutex_lock(a->lock);
    a->status.events = s.source.in + s.source.rows;
    a->status.processes = s.instances.instances;
    a->status.starts = s.lifecycle.starts;
    a->status.stops = s.lifecycle.stops;
    a->status.unattributed = s.lifecycle.no_owner;
    a->status.lost = s.source.lost_events + s.source.lost_buffers + s.source.damaged;
    a->status.ticks = s.sampler.ticks;
    a->status.reported = s.sampler.rows;
    a->status.filtered = s.sampler.filtered;
    a->status.level = s.level;
    a->status.batches = batch_stats(a->batch)->batches;
    agent_keep_cost(a, &s);
    a->status.permille = span_ns > 0 ? (int)((double)done_ns / (double)span_ns * 1000) : 0;
    os_mutex_unlock(a->lock);
    agent_keep_ledger(a);
}

/* Reading all counters costs more than a tick of a thousand a second. */
static void agent_publish_when_due(struct agent *a, int64_t wall_ns)
{
    int64_t now_ns = os_mono_ns();

    if (now_ns >= a->publish_ns) {
        a->publish_ns = now_ns + PUBLISH_NS;
        agent_publish(a, wall_ns);
    }
}

static void agent_on_tick(void *ctx, const struct sample_tick *tick)
{
    struct agent *a = ctx;

    if (batch_tick(a->batch, tick)) {
        monitor_stop(a->monitor); /* the store has ended: nobody wants more */
    }
    agent_publish_when_due(a, tick->wall_ns);
}

/* What the batch in hand says of its source ends with it. */
static void agent_on_source(struct agent *a, const struct life_event *ev)
{
    const struct source_about *about = monitor_about(a->monitor);
    char text[600], quoted[700];

    (void)snprintf(text, sizeof text, "%.*s", (int)ev->text.n, ev->text.p);
    log_note(EVENT_LOG_SOURCE, about->polled ? LOG_WARN : LOG_INFO, "agent", "source",
             "source=%s polled=%s detail=%s", about->name, about->polled ? "yes" : "no",
             log_str(quoted, sizeof quoted, text));
    if (batch_source(a->batch, about->name, about->polled)) {
        monitor_stop(a->monitor);
    }
}

static void agent_on_life(void *ctx, const struct life_event *ev)
{
    struct agent *a = ctx;

    if (life_is_of_host(ev->kind)) {
        agent_keep_note(a, ev);
    }
    if (ev->kind == LIFE_SOURCE) {
        agent_on_source(a, ev);
        own_source(a->own, monitor_about(a->monitor)->name, ev->text);
    }
    if (batch_event(a->batch, ev)) {
        monitor_stop(a->monitor);
    }
}

static void agent_on_level(void *ctx, const struct level_step *step)
{
    bool down = step->to < step->from && step->cause < LEVEL_CAUSE_QUIET;
    struct agent *a = ctx;

    own_level(a->own, step->from, step->to, budget_cause_name(step->cause));
    os_mutex_lock(a->lock);
    a->status.level = step->to;
    os_mutex_unlock(a->lock);
    log_note(EVENT_LOG_LEVEL, down ? LOG_WARN : LOG_INFO, "agent", "level",
             "from=L%u to=L%u cause=%s value=%lld limit=%lld", step->from, step->to,
             budget_cause_name(step->cause), (long long)step->value, (long long)step->limit);
}

static uint64_t agent_bytes_sent(void *ctx)
{
    struct agent *a = ctx;
    struct uplink_status u;

    uplink_status(a->uplink, &u);
    return u.bytes;
}

static void agent_on_number(void *ctx, uint64_t *stream, uint64_t *seq)
{
    struct agent *a = ctx;

    agent_store_number(&a->store, stream, seq);
}

static enum err agent_on_batch(void *ctx, uint64_t seq, const void *bytes, size_t n)
{
    struct agent *a = ctx;

    return agent_store_put(&a->store, seq, bytes, n);
}

static void agent_on_ended(void *ctx, enum err e)
{
    struct agent *a = ctx;

    err_ignore(batch_finish(a->batch)); /* fails only when the store has ended */
    agent_store_end(&a->store);
    agent_publish(a, monitor_about(a->monitor)->last_wall_ns);
    os_mutex_lock(a->lock);
    a->status.ended = true;
    a->status.result = e;
    os_cond_wake_all(a->over);
    os_mutex_unlock(a->lock);
}

/* -- start -- */

static enum err agent_lock_dir(struct agent *a, struct errmsg *why)
{
    const char *dir = a->opts.conf->state_dir;
    char *path;
    enum err e = os_owner_check(dir, why);

    if (e) {
        return e;
    }
    e = os_mkdirs(dir, true);
    if (e) {
        return errmsg_set(why, e, "cannot make the state directory %s: %s; set state_dir", dir,
                          err_text(e));
    }
    path = os_path_join(dir, "lock");
    if (!path) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    e = os_lock(&a->dir_lock, path);
    mem_free(path);
    if (e == ERR_BUSY) {
        return errmsg_set(why, e,
                          "another agent uses %s; stop it or set state_dir to another "
                          "directory",
                          dir);
    }
    return e ? errmsg_set(why, e, "cannot lock %s: %s", dir, err_text(e)) : ERR_OK;
}

static enum err agent_open_source(void *ctx, struct source **out, struct source_sink sink,
                                  struct errmsg *why)
{
    struct agent *a = ctx;
    struct agent_source_conf live = {.name = a->opts.conf->source,
                                     .period_ns = a->opts.conf->period_ns,
                                     .processes_max = MODEL_PROCESSES_MAX,
                                     .slow_top = a->opts.conf->slow_top,
                                     .slow_period_ns = a->opts.conf->slow_period_ns,
                                     .users = !a->opts.conf->filter.hide_user,
                                     .command_lines =
                                         a->opts.conf->filter.command_line != PRIVACY_NONE,
                                     .etw = &a->opts.conf->etw};
    struct etl_file_conf files = {.paths = a->opts.files,
                                  .n_paths = a->opts.n_files,
                                  .rebase = a->opts.rebase,
                                  .speed_permille = a->opts.speed_permille,
                                  .schemas = a->opts.conf->events.n_providers > 0,
                                  .now_ns = a->now_ns};

    return a->opts.n_files > 0 ? etl_file_open(out, &files, sink, why)
                               : agent_source_open_live(out, &live, sink, why);
}

static enum err agent_open_monitor(struct agent *a, struct errmsg *why)
{
    struct budget_conf budget = a->opts.conf->budget;
    struct forward_conf events = a->opts.conf->events;
    struct monitor_conf conf = {.open = agent_open_source,
                                .open_ctx = a,
                                .period_ns = a->opts.conf->period_ns,
                                .processes_max = MODEL_PROCESSES_MAX,
                                .who = a->opts.conf->who,
                                .events = &events,
                                .providers = a->opts.conf->etw.providers,
                                .n_providers = a->opts.conf->etw.n_providers,
                                .budget = &budget,
                                .level = agent_on_level,
                                .bytes_sent = agent_bytes_sent,
                                .tick = agent_on_tick,
                                .life = agent_on_life,
                                .ended = agent_on_ended,
                                .ctx = a};
    enum err e;

    budget.request = a->opts.level;
    budget.request_span_ns = a->opts.level_span_ns;
    e = privacy_create(&a->filter, &a->opts.conf->filter);
    if (e) {
        return errmsg_set(why, e, "cannot set up the agent's privacy: %s", err_text(e));
    }
    if (events.n_providers) {
        e = schema_source_open(&a->schemas, "events.manifests", a->opts.conf->manifests,
                               a->opts.n_files == 0, why);
        if (e) {
            return e;
        }
    }
    events.privacy = a->filter;
    events.refused = &a->no_events;
    events.schemas = a->schemas ? schema_source_put : NULL;
    events.schemas_ctx = a->schemas;
    events.at_once = a->opts.n_files > 0;
    if (a->opts.n_files == 0) {
        err_ignore(
            own_open(&a->own)); /* a service to others: without it the agent is what it was */
    }
    e = monitor_create(&a->monitor, &conf, why);
    if (!e) {
        e = monitor_open(a->monitor, why);
    }
    if (!e) {
        a->about = *monitor_about(a->monitor);
        a->level_since_ns = a->now_ns;
        agent_keep_source(a, &a->about, a->now_ns);
    }
    return e;
}

static enum err agent_open_batch(struct agent *a)
{
    const struct source_about *about = monitor_about(a->monitor);
    struct batch_conf conf = {.samples = a->opts.conf->batch_samples,
                              .max_bytes = a->opts.conf->batch_bytes,
                              .max_age_ns = a->opts.conf->batch_age_ns,
                              .filter = a->filter,
                              .ledger = agent_ledger,
                              .no_events = &a->no_events,
                              .number = agent_on_number,
                              .out = agent_on_batch,
                              .ctx = a};

    conf.head.host = a->identity.own.host;
    conf.head.boot = about->boot;
    conf.head.flags = (about->polled ? BATCH_POLLED : 0u) | (about->replay ? BATCH_REPLAY : 0u);
    conf.head.cpus = about->cpus;
    conf.head.source = str_make(about->name);
    return batch_create(&a->batch, &conf);
}

static void agent_on_limit(void *ctx, size_t bytes)
{
    struct agent *a = ctx;

    batch_limit(a->batch, bytes);
}

/* One of a release before: what it would drop does not take room in the spool. */
static void agent_on_events(void *ctx, bool kept)
{
    struct agent *a = ctx;

    if (atomic_exchange(&a->no_events, !kept) == kept && a->opts.conf->events.n_providers) {
        log_line(kept ? LOG_INFO : LOG_WARN, "agent", "events", "providers=%s",
                 kept ? "sent" : "\"the collector is older and keeps none\"");
    }
}

static size_t agent_on_facts(void *ctx, uint8_t *out, bool *changed)
{
    struct agent *a = ctx;

    *changed = inventory_host_look(a->inventory, os_mono_ns());
    return inventory_host_encode(a->inventory, out);
}

static enum err agent_open_uplink(struct agent *a, struct errmsg *why)
{
    const struct source_about *about = monitor_about(a->monitor);
    struct uplink_conf conf = {.outbox = agent_store_outbox(&a->store),
                               .tls = a->identity.tls,
                               .addresses = (const char *const *)a->opts.conf->addresses,
                               .n_addresses = a->opts.conf->n_addresses,
                               .spread = a->opts.conf->spread,
                               .heartbeat_ns = a->opts.conf->heartbeat_ns,
                               .limit = agent_on_limit,
                               .events = agent_on_events,
                               .facts = a->inventory ? agent_on_facts : NULL,
                               .ctx = a};
    struct wire_hello *h = &conf.hello;

    h->host = a->identity.own.host;
    h->boot = about->boot;
    h->cpus = about->cpus;
    (void)snprintf(h->name, sizeof h->name, "%s", a->identity.own.name);
    (void)snprintf(h->version, sizeof h->version, "%s", PROCFLEET_VERSION);
    (void)snprintf(h->source, sizeof h->source, "%s", about->name);
    (void)snprintf(h->system, sizeof h->system, "%s", about->system);
    return uplink_start(&a->uplink, &conf, why);
}

static enum err agent_open_pipeline(struct agent *a, struct errmsg *why)
{
    enum err e =
        agent_store_open(&a->store, a->opts.conf, &a->identity.own.host, a->opts.n_files > 0, why);

    if (e) {
        return e;
    }
    agent_store_mark(&a->store, a->opts.conf, &monitor_about(a->monitor)->boot);
    if (a->opts.n_files == 0) {
        e = inventory_host_create(&a->inventory, a->opts.conf->labels, a->opts.conf->n_labels);
    }
    e = e ? e : agent_open_batch(a);
    if (e) {
        return errmsg_set(why, e, "cannot set up the agent's pipeline: %s", err_text(e));
    }
    return agent_open_uplink(a, why);
}

/* Without it the agent does what it is for. */
static void agent_listen(struct agent *a)
{
    struct errmsg why = {""};
    char text[600];

    if (a->opts.n_files == 0 && control_agent_start(&a->control, a->opts.conf, a->monitor, &why)) {
        log_line(LOG_WARN, "agent", "no_control", "why=%s", log_str(text, sizeof text, why.text));
    }
}

enum err agent_start(struct agent **out, const struct agent_opts *opts, struct errmsg *why)
{
    struct agent *a;
    enum err e;

    if (opts->conf->n_addresses == 0) {
        return errmsg_set(why, ERR_USAGE,
                          "collector.addresses is not set; give it in the configuration file or "
                          "with --set collector.addresses=HOST:" AGENT_CONF_PORT);
    }
    a = mem_zalloc(sizeof *a);
    if (!a) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    a->opts = *opts;
    a->now_ns = os_utc_ns();
    e = os_mutex_create(&a->lock);
    if (!e) {
        e = os_cond_create(&a->over, a->lock);
    }
    if (e) {
        e = errmsg_set(why, e, "out of memory");
        goto fail;
    }
    e = agent_lock_dir(a, why);
    if (e) {
        goto fail;
    }
    e = agent_identity_open(&a->identity, opts->conf, opts->name, why);
    if (e) {
        goto fail;
    }
    e = agent_open_monitor(a, why);
    if (e) {
        goto fail;
    }
    e = agent_open_pipeline(a, why);
    if (e) {
        goto fail;
    }
    if (opts->n_files == 0) {
        e = agent_identity_keep(&a->identity, opts->conf, a->uplink);
        if (e) {
            e = errmsg_set(why, e, "out of memory");
            goto fail;
        }
    }
    e = monitor_start(a->monitor, why);
    if (e) {
        goto fail;
    }
    a->started = true;
    agent_listen(a);
    *out = a;
    return ERR_OK;

fail:
    agent_destroy(a, 0);
    return e;
}

/* -- running and stopping -- */

const struct source_about *agent_about(const struct agent *a)
{
    return &a->about;
}

const char *agent_name(const struct agent *a)
{
    return a->identity.own.name;
}

enum err agent_wait(struct agent *a, int64_t timeout_ns)
{
    int64_t until_ns = os_mono_ns() + timeout_ns;
    enum err e = ERR_OK;

    os_mutex_lock(a->lock);
    while (!a->status.ended && !e) {
        e = os_cond_wait_until(a->over, until_ns);
    }
    e = a->status.ended ? ERR_OK : ERR_TIMEOUT;
    os_mutex_unlock(a->lock);
    return e;
}

void agent_status(struct agent *a, struct agent_status *out)
{
    os_mutex_lock(a->lock);
    *out = a->status;
    os_mutex_unlock(a->lock);
    agent_store_stats(&a->store, &out->queue);
    uplink_status(a->uplink, &out->uplink);
}

static void agent_tell_uplink(struct agent *a, struct status *out)
{
    static const char *const states[] = {"connecting", "connected", "unreachable", "refused",
                                         "failing"};
    struct uplink_status u;
    struct queue_stats q;

    uplink_status(a->uplink, &u);
    agent_store_stats(&a->store, &q);
    (void)snprintf(out->uplink, sizeof out->uplink, "%s", states[u.state]);
    (void)snprintf(out->why, sizeof out->why, "%s", u.why);
    out->uplink_since_ns = out->written_ns - (os_mono_ns() - u.since_ns);
    out->acknowledged = u.acknowledged;
    out->quarantined = u.quarantined;
    out->bytes_sent = u.bytes;
    out->breaks = u.breaks;
    out->queue_held = q.held;
    out->queue_bytes = q.held_bytes;
    out->queue_dropped = q.overflow + q.refused;
    out->aside_held = q.aside;
    out->aside_bytes = q.aside_bytes;
    out->aside_broken = q.aside_broken;
}

void agent_tell(struct agent *a, struct status *out)
{
    memset(out, 0, sizeof *out);
    out->pid = os_process_id();
    out->started_ns = a->now_ns;
    out->written_ns = os_utc_ns();
    (void)snprintf(out->version, sizeof out->version, "%s", PROCFLEET_VERSION);
    (void)snprintf(out->host, sizeof out->host, "%s", agent_name(a));
    agent_tell_uplink(a, out);
    agent_identity_tell(&a->identity, out);
    os_mutex_lock(a->lock);
    out->running = !a->status.ended || (a->status.result && a->status.result != ERR_END);
    out->level = a->status.level;
    out->level_since_ns = a->level_since_ns;
    (void)snprintf(out->source, sizeof out->source, "%s", a->source);
    (void)snprintf(out->detail, sizeof out->detail, "%s", a->detail);
    out->polled = a->polled;
    out->source_since_ns = a->source_since_ns;
    out->processes = a->status.processes;
    out->reported = a->status.reported;
    out->filtered = a->status.filtered;
    status_keep_read(&a->kept, out);
    out->cost.cpus = os_cpu_count();
    out->cost.cpu_permille = (unsigned)a->opts.conf->budget.cpu_permille;
    out->cost.limit = (uint64_t)a->opts.conf->budget.memory_bytes;
    os_mutex_unlock(a->lock);
}

void agent_stop(struct agent *a)
{
    renew_end(a->identity.renew);
    monitor_stop(a->monitor);
}

void agent_destroy(struct agent *a, int64_t until_ns)
{
    if (!a) {
        return;
    }
    control_agent_stop(a->control);
    if (a->started) {
        monitor_stop(a->monitor);
        if (agent_wait(a, until_ns - os_mono_ns())) {
            agent_store_end(&a->store); /* it waits for room, in vain */
        }
        while (agent_wait(a, CLK_S)) {
        }
    } else {
        agent_store_end(&a->store);
    }
    agent_identity_rest(&a->identity);
    uplink_stop(a->uplink, until_ns);
    inventory_host_destroy(a->inventory);
    batch_destroy(a->batch);
    monitor_destroy(a->monitor);
    schema_source_close(a->schemas);
    own_close(a->own);
    agent_store_close(&a->store);
    privacy_destroy(a->filter);
    agent_identity_close(&a->identity);
    os_unlock(a->dir_lock);
    os_cond_destroy(a->over);
    os_mutex_destroy(a->lock);
    mem_free(a);
}
