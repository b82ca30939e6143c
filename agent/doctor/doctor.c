#include "agent/doctor/doctor.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "agent/agent_source.h"
#include "agent/doctor/doctor_host.h"
#include "agent/enroll/trust_files.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/plural.h"
#include "common/net/net.h"
#include "common/os/os.h"

#define DAY_NS      (24 * 3600 * CLK_S)
#define DAYS_WARN   30
#define DISK_FAIL   (16ULL << 20)
#define DISK_WARN   (256ULL << 20)
#define RECEIVE_MAX (64u << 10)
#define GRACE_DAYS  7 /* after expiry, unless the collector's pki.renew_grace says otherwise */
#define ENROLL_HELP                                                                            \
    "make a token where the collector runs (procfleet-collector pki token create) and use it " \
    "here: procfleet-agent enroll --token-file FILE"

/* -- the state directory -- */

/* The nearest directory above `path` that exists; mem_free. NULL: out of memory. */
static char *existing_parent(const char *path)
{
    char *text = mem_strdup(path);

    while (text && text[0] && !os_exists(text)) {
        size_t n = strlen(text);

        do {
            n--;
        } while (n > 0 && text[n] != '/' && text[n] != '\\');
        text[n == 0 ? 0 : n] = '\0';
    }
    if (text && !text[0]) {
        mem_free(text);
        text = mem_strdup(path[0] == '/' ? "/" : ".");
    }
    return text;
}

static void check_writing(struct doctor *d, const char *dir)
{
    char *path = os_path_join(dir, "doctor.probe");
    enum err e = path ? os_write_file(path, "x", 1, true) : ERR_NOMEM;

    if (!e) {
        e = os_remove(path);
    }
    mem_free(path);
    if (e) {
        check_result_report(
            d->all, "state.write", CHECK_RESULT_FAILED,
            e == ERR_NOSPACE ? "make room on that disk, or set state_dir to a larger one"
            : e == ERR_READONLY
                ? "mount that disk writable (the system's log says why it is not), "
                  "or set state_dir to another one"
                : "run doctor as the agent's user, give that user the directory, or "
                  "set state_dir to another one",
            "%s cannot be written: %s", dir, err_text(e));
    } else {
        check_result_report(d->all, "state.write", CHECK_RESULT_OK, "", "%s can be written", dir);
    }
}

static void check_lock(struct doctor *d, const char *dir)
{
    char *path = os_path_join(dir, "lock");
    struct os_lock *lock = NULL;
    enum err e = ERR_NOMEM;

    if (path) {
        e = os_exists(path) ? os_lock(&lock, path) : ERR_NOTFOUND;
    }
    mem_free(path);
    os_unlock(lock);
    if (!e || e == ERR_NOTFOUND) {
        check_result_report(d->all, "state.lock", CHECK_RESULT_OK, "",
                            "no agent uses this directory now");
    } else if (e == ERR_BUSY) {
        check_result_report(
            d->all, "state.lock", CHECK_RESULT_OK, "",
            "an agent is running with this directory; a second one needs a state_dir of its "
            "own");
    } else {
        check_result_report(
            d->all, "state.lock", CHECK_RESULT_FAILED,
            "give the file 'lock' in it to the agent's user, or remove it while no agent "
            "runs",
            "the lock in %s cannot be taken: %s", dir, err_text(e));
    }
}

static void check_disk(struct doctor *d, const char *dir)
{
    uint64_t available, total;
    enum err e = os_disk_free(dir, &available, &total);
    enum check_result_state state = CHECK_RESULT_OK;

    if (e) {
        check_result_report(d->all, "disk.room", CHECK_RESULT_SKIPPED, "",
                            "the room on the disk of %s is unknown: %s", dir, err_text(e));
        return;
    }
    if (available < DISK_WARN) {
        state = available < DISK_FAIL ? CHECK_RESULT_FAILED : CHECK_RESULT_WARNING;
    }
    check_result_report(
        d->all, "disk.room", state,
        state == CHECK_RESULT_OK ? "" : "make room, or set state_dir to a larger disk",
        "%llu of %llu MiB are free on the disk of %s", (unsigned long long)(available >> 20),
        (unsigned long long)(total >> 20), dir);
}

static void check_state(struct doctor *d)
{
    const char *dir = d->conf->state_dir;
    char *parent = existing_parent(dir);

    if (!parent) {
        check_result_report(d->all, "state.write", CHECK_RESULT_FAILED, "", "out of memory");
        return;
    }
    if (strcmp(parent, dir) == 0) {
        check_result_owner(d->all, "state.owner", dir);
        check_writing(d, dir);
        check_lock(d, dir);
    } else {
        check_result_report(
            d->all, "state.write", CHECK_RESULT_WARNING,
            "make it, owned by the agent's user; an agent that may do so makes it at its "
            "first start",
            "the state directory %s does not exist", dir);
    }
    check_disk(d, parent);
    mem_free(parent);
}

/* -- who we are -- */

static enum err check_key(struct doctor *d)
{
    const char *key = d->conf->key;
    enum err e = os_check_private(key);

    if (e == ERR_NOTFOUND) {
        check_result_report(d->all, "tls.key", CHECK_RESULT_FAILED, ENROLL_HELP,
                            "there is no key %s", key);
    } else if (e == ERR_ACCESS) {
        check_result_report(
            d->all, "tls.key", CHECK_RESULT_FAILED,
            "let only the agent's user read it (Linux: chmod 600, Windows: icacls); if "
            "others may have read "
            "it, enrol anew: procfleet-agent enroll --force",
            "others can read the key %s, or we cannot", key);
    } else if (e) {
        check_result_report(d->all, "tls.key", CHECK_RESULT_FAILED, "", "the key %s: %s", key,
                            err_text(e));
    } else {
        check_result_report(d->all, "tls.key", CHECK_RESULT_OK, "", "others cannot read the key %s",
                            key);
    }
    return e;
}

/* Days, counted away from zero: an hour too late is a day too late. */
static long long days_of(int64_t ns)
{
    return (ns < 0 ? ns - DAY_NS + 1 : ns) / DAY_NS;
}

static void check_lapsed(struct doctor *d, const struct net_identity *own)
{
    long long late = -days_of(own->not_after_ns - d->now_ns);
    char when[CLK_TEXT];

    if (d->now_ns < own->not_before_ns) {
        check_result_report(
            d->all, "tls.expiry", CHECK_RESULT_FAILED,
            "set this host's clock; if it is right, the clock of the collector that issued "
            "the certificate was wrong: enrol anew with procfleet-agent enroll --force",
            "the certificate is not valid before %s",
            clk_format_utc(when, sizeof when, own->not_before_ns, 0));
        return;
    }
    check_result_report(
        d->all, "tls.expiry", CHECK_RESULT_FAILED,
        late > GRACE_DAYS
            ? "collectors renew no certificate that expired more than 7 days ago, unless "
              "pki.renew_grace says so: " ENROLL_HELP " --force"
            : "a running agent renews it by itself at collector.enroll_address: start it and "
              "see agent.certificate; if the clock is wrong, set it",
        "the certificate expired at %s", clk_format_utc(when, sizeof when, own->not_after_ns, 0));
}

static void check_life(struct doctor *d, const struct net_identity *own)
{
    int64_t life_ns = own->not_after_ns - own->not_before_ns;
    int64_t left_ns = own->not_after_ns - d->now_ns;
    bool late = left_ns < DAYS_WARN * DAY_NS && left_ns < life_ns / 4; /* renewed at a third */
    char until[CLK_TEXT];

    if (left_ns <= 0 || d->now_ns < own->not_before_ns) {
        check_lapsed(d, own);
        return;
    }
    check_result_report(d->all, "tls.expiry", late ? CHECK_RESULT_WARNING : CHECK_RESULT_OK,
                        late ? "a running agent should have renewed it: see agent.certificate" : "",
                        "the certificate is good for %lld more %s, until %s", days_of(left_ns),
                        plural((uint64_t)days_of(left_ns), "day", "days"),
                        clk_format_utc(until, sizeof until, own->not_after_ns, 0));
}

/* Whether both begin with the same label, whatever its case: "web-1" is "WEB-1.example". */
static bool same_label(const char *a, const char *b)
{
    while (*a && *a != '.' && tolower((unsigned char)*a) == tolower((unsigned char)*b)) {
        a++;
        b++;
    }
    return (*a == '\0' || *a == '.') && (*b == '\0' || *b == '.');
}

static void check_name(struct doctor *d, const struct net_identity *own)
{
    const char *wanted = d->conf->name;
    char machine[256] = "";

    if (!own->has_host || !(own->roles & NET_AGENT)) {
        check_result_report(d->all, "tls.role", CHECK_RESULT_FAILED, ENROLL_HELP " --force",
                            "the certificate of %s is not an agent's", own->name);
        return;
    }
    check_result_report(d->all, "tls.role", CHECK_RESULT_OK, "", "the certificate is an agent's");
    if (!wanted) {
        err_ignore(os_host_name(machine, sizeof machine));
        wanted = machine;
    }
    if (same_label(own->name, wanted)) {
        check_result_report(d->all, "tls.name", CHECK_RESULT_OK, "", "this host is %s", own->name);
    } else {
        check_result_report(
            d->all, "tls.name", CHECK_RESULT_WARNING,
            "if the files were copied from another host, enrol this one anew (procfleet-agent "
            "enroll --force): two hosts with one certificate spoil each other's data. If the name "
            "is meant, set "
            "identity.name to it",
            "the certificate is of host %s, but this is %s", own->name,
            wanted[0] ? wanted : "a host without a name");
    }
}

/* Renewal replaces the files. */
static void check_files(struct doctor *d)
{
    const struct agent_conf *c = d->conf;
    struct trust_files files = {.ca = c->ca, .cert = c->cert, .key = c->key};
    struct errmsg why = {""};
    enum err e = trust_files_prepare(&files, &why);

    check_result_report(
        d->all, "tls.renewal", e ? CHECK_RESULT_WARNING : CHECK_RESULT_OK,
        e ? "let the agent's user write these directories, or the certificate ends without "
            "another; if doctor runs as another user than the agent, run it as that"
          : "",
        "%s", e ? why.text : "the directories of the certificate and the key can be written");
}

/* NULL when there is no usable certificate; tls_config_free. */
static struct tls_config *check_certificate(struct doctor *d)
{
    const struct agent_conf *c = d->conf;
    struct net_tls_conf conf = {
        .ca = c->ca, .cert = c->cert, .key = c->key, .server_name = c->server_name, .lapsed = true};
    struct tls_config *tls = NULL;
    struct net_identity own;
    struct errmsg why = {""};
    enum err e = tls_config_load(&tls, &conf, false, &why);

    if (e) {
        check_result_report(
            d->all, "tls.certificate", CHECK_RESULT_FAILED,
            e == ERR_TRUST ? "see that tls.ca is the authority that signed it, or enrol anew "
                             "(procfleet-agent enroll --force)"
                           : ENROLL_HELP "; or set tls.ca, tls.cert and tls.key to where they are",
            "%s", why.text[0] ? why.text : err_text(e));
        return NULL;
    }
    check_result_report(d->all, "tls.certificate", CHECK_RESULT_OK, "",
                        "%s is signed by %s, its key fits", c->cert, c->ca);
    tls_config_identity(tls, &own);
    check_life(d, &own);
    check_files(d);
    check_name(d, &own);
    return tls;
}

/* -- the collectors -- */

struct attempt {
    enum err e;
    struct errmsg why;
    enum tls_cause cause;
    int64_t took_ns;
};

static void attempt(struct attempt *out, const char *address, struct tls_config *tls,
                    int64_t limit_ns)
{
    struct net_client_conf conf = {.address = address, .tls = tls, .receive_max = RECEIVE_MAX};
    struct net_client *client = NULL;
    int64_t begun_ns = os_mono_ns();

    out->why.text[0] = '\0';
    out->cause = TLS_CAUSE_NONE;
    out->e = net_client_open(&client, &conf, &out->why);
    if (!out->e) {
        out->e = net_client_wait(client, limit_ns, &out->why);
        out->cause = net_client_cause(client);
    }
    out->took_ns = os_mono_ns() - begun_ns;
    net_client_close(client);
}

static const char *fix_refusal(enum tls_cause cause)
{
    if (cause == TLS_CAUSE_REFUSED_REVOKED) {
        return "make a token where the collector runs (procfleet-collector pki token create) and "
               "use it here: procfleet-agent enroll --token-file FILE --force";
    }
    if (cause == TLS_CAUSE_REFUSED_TIME) {
        return "see tls.expiry above; if it is good there, one of the two clocks is wrong";
    }
    return "see that tls.ca is the collector's authority, and that collector.server_name is a name "
           "in its certificate";
}

static void say_attempt(struct doctor *d, const char *address, const struct attempt *a, bool spare)
{
    bool refused = a->e == ERR_TRUST || a->e == ERR_REFUSED;

    if (!a->e) {
        check_result_report(d->all, "collector", CHECK_RESULT_OK, "",
                            "%s answers, and both certificates are accepted (%lld ms)", address,
                            (long long)(a->took_ns / CLK_MS));
        return;
    }
    d->reach = d->reach ? d->reach : refused ? ERR_TRUST : ERR_UNREACHABLE;
    check_result_report(
        d->all, "collector", spare ? CHECK_RESULT_WARNING : CHECK_RESULT_FAILED,
        refused ? fix_refusal(a->cause)
                : "see that the collector runs, that the name and port are right (7420 is "
                  "its ingest listener), and that firewalls let TCP out to it",
        "%s", a->why.text[0] ? a->why.text : address);
}

static void check_collectors(struct doctor *d, struct tls_config *tls)
{
    const struct agent_conf *c = d->conf;
    struct attempt attempts[AGENT_CONF_ADDRESSES_MAX];
    bool spare = false;

    if (c->n_addresses == 0) {
        check_result_report(d->all, "collector", CHECK_RESULT_FAILED,
                            "set collector.addresses to HOST:" AGENT_CONF_PORT,
                            "collector.addresses is not set: nobody would get the data");
        return;
    }
    if (!tls) {
        check_result_report(d->all, "collector", CHECK_RESULT_SKIPPED, "",
                            "cannot be tried without a certificate");
        return;
    }
    for (size_t i = 0; i < c->n_addresses; i++) {
        attempt(&attempts[i], c->addresses[i], tls, d->connect_ns);
        spare = spare || !attempts[i].e;
    }
    for (size_t i = 0; i < c->n_addresses; i++) {
        say_attempt(d, c->addresses[i], &attempts[i], spare);
    }
}

/* -- the source of events -- */

/* Not beside an agent that runs: it has the sessions, and there is one of each. */
static void check_source(struct doctor *d, bool running)
{
    const struct agent_conf *c = d->conf;
    struct agent_source_conf conf = {.name = c->source,
                                     .period_ns = c->period_ns,
                                     .processes_max = MODEL_PROCESSES_MAX,
                                     .etw = &c->etw};
    struct source_sink sink = {0}; /* it delivers only when it runs */
    struct source *s = NULL;
    struct errmsg why = {""};
    enum err e;

    if (running) {
        check_result_report(d->all, "source", CHECK_RESULT_SKIPPED, "",
                            "the agent that runs has it, see agent.source");
        return;
    }
    e = agent_source_open_live(&s, &conf, sink, &why);
    if (e) {
        check_result_report(d->all, "source", CHECK_RESULT_FAILED,
                            "set source to auto, or see what 'rights' says", "%s",
                            why.text[0] ? why.text : err_text(e));
        return;
    }
    check_result_report(d->all, "source", s->about.polled ? CHECK_RESULT_WARNING : CHECK_RESULT_OK,
                        s->about.polled
                            ? "processes that live shorter than a sample are missed; give the "
                              "agent the rights named above to see every start and end"
                            : "",
                        "%s on %s: %s", s->about.name, s->about.system, s->about.detail);
    s->ops->close(s);
}

/* -- what a killed agent has left behind -- */

static void check_orphans(struct doctor *d)
{
    struct doctor_orphans seen;
    struct errmsg why = {""};
    enum err e = doctor_orphans(&seen, &d->conf->etw, d->fix, &why);

    if (e == ERR_UNSUPPORTED) {
        return;
    }
    if (e) {
        check_result_report(d->all, "etw.orphans", CHECK_RESULT_WARNING,
                            "run doctor as an administrator", "%s", why.text);
    } else if (seen.busy) {
        check_result_report(d->all, "etw.orphans", CHECK_RESULT_OK, "",
                            "an agent is running on this host; sessions of ours are its own");
    } else if (seen.found > seen.stopped) {
        check_result_report(
            d->all, "etw.orphans", CHECK_RESULT_WARNING,
            "start the agent, which takes over what is there, or stop it: doctor --fix",
            "%u %s there although no agent runs", seen.found,
            plural(seen.found, "session of ours is", "sessions of ours are"));
    } else {
        check_result_report(d->all, "etw.orphans", CHECK_RESULT_OK, "",
                            "no session was left behind%s",
                            seen.stopped ? " any more: what was there has been stopped" : "");
    }
}

enum err doctor_run(struct findings *to, const struct doctor_conf *conf)
{
    struct doctor d = {.conf = conf->conf,
                       .now_ns = conf->now_ns,
                       .connect_ns = conf->connect_ns,
                       .fix = conf->fix,
                       .facts = conf->facts,
                       .dump = conf->dump,
                       .anonymous = conf->anonymous,
                       .all = to};
    struct tls_config *tls = NULL;
    bool here; /* something failed on this side */
    bool running;

    doctor_host(&d);
    check_result_clock(to, conf->now_ns);
    check_state(&d);
    running = doctor_agent(&d);
    if (check_key(&d) == ERR_ACCESS) {
        check_result_report(d.all, "tls.certificate", CHECK_RESULT_SKIPPED, "",
                            "cannot be tried with such a key");
    } else {
        tls = check_certificate(&d);
    }
    check_orphans(&d);
    check_source(&d, running);
    here = to->count[CHECK_RESULT_FAILED] > 0;
    check_collectors(&d, tls);
    tls_config_free(tls);
    doctor_host_facts(&d);
    if (to->count[CHECK_RESULT_FAILED] == 0) {
        return ERR_OK;
    }
    return !here && d.reach ? d.reach : ERR_INVALID;
}
