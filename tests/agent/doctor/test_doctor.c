/* The doctor on hosts with known faults: real certificates, a real listener, real files. */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/doctor/doctor.h"
#include "agent/status/status_file.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/certs.h"
#include "tests/support/ingest.h"
#include "tests/support/support.h"

#define CONNECT_NS (20 * CLK_S)
#define DAY_NS     (24 * 3600 * CLK_S)

static struct certs *pki, *foreign;
static struct tls_config *server_tls;

/* -- what was found -- */

struct seen {
    struct findings all;
    enum err e;
    char text[64][400]; /* "check state detail" */
    size_t n, without_fix;
    char fix[600];   /* of tls.expiry; */
    char agent[600]; /* of agent.cost, level, uplink or quarantine, the first that had one */
};

static void on_found(void *ctx, const struct check_result *f)
{
    struct seen *s = ctx;

    assert_true(s->n < COUNT_OF(s->text));
    (void)snprintf(s->text[s->n++], sizeof s->text[0], "%s %s %s", f->check,
                   check_result_state_text(f->state), f->detail);
    if (strcmp(f->check, "tls.expiry") == 0) {
        (void)snprintf(s->fix, sizeof s->fix, "%s", f->fix);
    }
    if ((strcmp(f->check, "agent.uplink") == 0 || strcmp(f->check, "agent.quarantine") == 0 ||
         strcmp(f->check, "agent.cost") == 0 || strcmp(f->check, "agent.level") == 0) &&
        !s->agent[0]) {
        (void)snprintf(s->agent, sizeof s->agent, "%s", f->fix);
    }
    s->without_fix +=
        (f->state == CHECK_RESULT_FAILED || f->state == CHECK_RESULT_WARNING) && !f->fix[0];
}

/* The text of the finding that begins so, or NULL. */
static const char *finding(const struct seen *s, const char *begin)
{
    for (size_t i = 0; i < s->n; i++) {
        if (strncmp(s->text[i], begin, strlen(begin)) == 0) {
            return s->text[i];
        }
    }
    return NULL;
}

static void assert_found(const struct seen *s, const char *begin)
{
    if (!finding(s, begin)) {
        for (size_t i = 0; i < s->n; i++) {
            print_message("%s\n", s->text[i]);
        }
        fail_msg("nothing begins with '%s'", begin);
    }
}

/* -- a host -- */

struct host {
    char dir[256], sets[6][1200];
    struct agent_conf conf;
    struct seen seen;
};

static struct host *host_new(const char *cert, struct certs *ca, const char *addresses)
{
    struct host *h = mem_zalloc(sizeof *h);
    const char *list[COUNT_OF(h->sets)];
    struct errmsg why = {""};

    assert_non_null(h);
    (void)support_temp_dir(h->dir, sizeof h->dir);
    (void)snprintf(h->sets[0], sizeof h->sets[0], "state_dir=%s", h->dir);
    (void)snprintf(h->sets[1], sizeof h->sets[1], "tls.ca=%s/ca.pem", certs_dir(ca));
    (void)snprintf(h->sets[2], sizeof h->sets[2], "tls.cert=%s", certs_path(pki, cert, ".pem"));
    (void)snprintf(h->sets[3], sizeof h->sets[3], "tls.key=%s", certs_path(pki, cert, ".key"));
    (void)snprintf(h->sets[4], sizeof h->sets[4], "collector.addresses=%s", addresses);
    (void)snprintf(h->sets[5], sizeof h->sets[5], "identity.name=host-1.example");
    for (size_t i = 0; i < COUNT_OF(list); i++) {
        list[i] = h->sets[i];
    }
    if (agent_conf_load(&h->conf, NULL, list, COUNT_OF(list), &why)) {
        fail_msg("%s", why.text);
    }
    return h;
}

static void examine(struct host *h, int64_t now_ns)
{
    struct doctor_conf conf = {.conf = &h->conf, .now_ns = now_ns, .connect_ns = CONNECT_NS};

    memset(&h->seen, 0, sizeof h->seen);
    h->seen.all = (struct findings){.found = on_found, .ctx = &h->seen};
    h->seen.e = doctor_run(&h->seen.all, &conf);
    assert_int_equal(h->seen.without_fix, 0);
}

static void host_free(struct host *h)
{
    agent_conf_fini(&h->conf);
    support_remove_dir(h->dir);
    mem_free(h);
}

static const char *address_of(char text[64], const struct ingest *c)
{
    (void)snprintf(text, 64, "127.0.0.1:%u", ingest_port(c));
    return text;
}

/* -- tests -- */

static void a_sound_host_has_nothing_failed(void **state)
{
    struct ingest *c = ingest_create(server_tls);
    char address[64];
    struct host *h = host_new("host-1", pki, address_of(address, c));

    examine(h, os_utc_ns());
    assert_ok(h->seen.e);
    assert_int_equal(h->seen.all.count[CHECK_RESULT_FAILED], 0);
    assert_found(&h->seen, "collector ok 127.0.0.1");
    assert_found(&h->seen, "tls.certificate ok");
    assert_found(&h->seen, "tls.name ok this host is host-1");
    assert_found(&h->seen, "state.write ok");
    assert_found(&h->seen, "state.lock ok no agent");
    assert_found(&h->seen, "source ");
    assert_int_equal(c->hellos, 0);
    host_free(h);
    ingest_destroy(c);
}

static enum err count_entry(void *ctx, const char *name)
{
    size_t *n = ctx;

    (void)name;
    (*n)++;
    return ERR_OK;
}

static void examining_leaves_nothing_behind(void **state)
{
    struct host *h = host_new("host-1", pki, "");
    size_t n = 0;

    examine(h, os_utc_ns());
    assert_ok(os_list_dir(h->dir, count_entry, &n));
    assert_int_equal(n, 0);
    host_free(h);
}

static void a_running_agent_is_told_and_not_disturbed(void **state)
{
    struct host *h = host_new("host-1", pki, "");
    char *path = os_path_join(h->dir, "lock");
    struct os_lock *lock, *second;

    assert_ok(os_lock(&lock, path));
    examine(h, os_utc_ns());
    assert_found(&h->seen, "state.lock ok an agent is running");
    assert_err(os_lock(&second, path), ERR_BUSY);
    os_unlock(lock);
    mem_free(path);
    host_free(h);
}

/* What a running agent has left there. */
static struct status told_at(int64_t now_ns)
{
    struct status s = {.running = true,
                       .pid = 4711,
                       .version = "1",
                       .source = "live",
                       .detail = "session procfleet",
                       .level = 2,
                       .started_ns = CLK_S,
                       .written_ns = now_ns - CLK_S,
                       .uplink = "connected"};

    return s;
}

static void what_a_running_agent_tells_is_judged(void **state)
{
    struct host *h = host_new("host-1", pki, "");
    char *path = os_path_join(h->dir, "lock");
    int64_t now_ns = os_utc_ns();
    struct status told = told_at(now_ns);
    struct os_lock *lock;

    assert_ok(os_lock(&lock, path));
    assert_ok(status_file_write(h->dir, &told));
    examine(h, now_ns);
    assert_found(&h->seen, "agent.running ok process 4711, version 1, runs since "
                           "1970-01-01T00:00:01Z at level L2");
    assert_found(&h->seen, "agent.source ok live since 1970-01-01T00:00:00Z: session procfleet");
    assert_found(&h->seen, "agent.losses ok nothing was lost in the last hour");
    assert_found(&h->seen, "agent.uplink ok connected");
    assert_found(&h->seen,
                 "agent.filter ok 0 rows of processes reported since the start, 0 hidden");
    assert_found(&h->seen, "agent.certificate skipped");
    assert_found(&h->seen, "source skipped the agent that runs has it");

    told.polled = true;
    told.filtered = 40;
    told.n_notes = 2;
    told.notes[0] = (struct status_note){1, false, "no slot: A, B and C hold them"};
    told.notes[1] = (struct status_note){2, true, "from L2 to L1"};
    told.n_losses = 6;
    told.losses[0] = (struct status_loss){"source", "lost_events", true, 9, 7};
    told.losses[1] = (struct status_loss){"etw", "full_thread", false, 5, 5};
    told.losses[2] = (struct status_loss){"etw", "session_lost", false, 1, 1};
    told.losses[3] = (struct status_loss){"queue", "oldest_dropped", true, 3, 0};
    told.losses[4] = (struct status_loss){"etw", "late", false, 3, 3};
    told.losses[5] = (struct status_loss){"spool", "header_damaged", false, 1, 1};
    (void)snprintf(told.uplink, sizeof told.uplink, "unreachable");
    (void)snprintf(told.why, sizeof told.why, "nobody answers");
    told.certificate_end_ns = 2 * CLK_S;
    told.renew_ns = CLK_S;
    assert_ok(status_file_write(h->dir, &told));
    examine(h, now_ns);
    assert_found(&h->seen, "agent.certificate ok the certificate ends 1970-01-01T00:00:02Z");
    told.renew_failed = 3;
    (void)snprintf(told.renew_why, sizeof told.renew_why, "revoked");
    assert_ok(status_file_write(h->dir, &told));
    examine(h, now_ns);
    assert_found(&h->seen, "agent.certificate warning the certificate ends 1970-01-01T00:00:02Z "
                           "and was not renewed, 3 tries failed, the next is due "
                           "1970-01-01T00:00:01Z: revoked");
    assert_found(&h->seen,
                 "agent.source warning live, polled, since 1970-01-01T00:00:00Z: no slot: "
                 "A, B and C hold them");
    assert_found(&h->seen, "agent.filter warning 0 rows of processes reported since the start, 40 "
                           "hidden by process_filter");
    assert_found(&h->seen, "agent.losses warning source lost_events: 7 in the last hour, 9 since");
    assert_found(&h->seen, "agent.losses warning etw full_thread: 5");
    assert_found(&h->seen, "agent.losses warning etw session_lost: 1");
    assert_found(&h->seen, "agent.losses warning spool header_damaged: 1");
    assert_null(finding(&h->seen, "agent.losses warning queue")); /* long ago */
    assert_null(finding(&h->seen, "agent.losses warning etw late"));
    assert_found(&h->seen, "agent.uplink warning unreachable since");
    os_unlock(lock);
    mem_free(path);
    host_free(h);
}

static void what_the_agent_costs_is_held_against_its_limits(void **state)
{
    static const struct {
        unsigned level;
        struct status_cost cost;
        const char *found, *fix;
    } rows[] = {
        {0,
         {300 * CLK_S, 19900, 4, 20, 20 << 20, 50 << 20},
         "agent.cost ok 1.99 % of a core in the last 300 s at L0, 9 processes; 0.50 % of the "
         "machine (budget.cpu 2.0 %), 20 MiB (budget.mem 50 MiB)",
         ""},
        {0, {300 * CLK_S, 20100, 4, 20, 0, 0}, "agent.cost warning 2.01 % of", "0.5 halves it"},
        {1, {300 * CLK_S, 79000, 4, 20, 0, 0}, "agent.cost ok 7.90 % of a core", ""},
        {1, {300 * CLK_S, 81000, 4, 20, 0, 0}, "agent.cost warning 8.10 %", "raise budget.cpu"},
        {1, {60 * CLK_S, 1, 4, 20, 51 << 20, 50 << 20}, "agent.cost warning", "budget.mem"},
        {0, {59 * CLK_S, 999999, 1, 20, 0, 0}, "agent.cost skipped the agent tells its cost", ""},
    };
    struct host *h = host_new("host-1", pki, "");
    char *path = os_path_join(h->dir, "lock");
    int64_t now_ns = os_utc_ns();
    struct os_lock *lock;

    assert_ok(os_lock(&lock, path));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct status told = told_at(now_ns);

        told.level = rows[i].level;
        told.cost = rows[i].cost;
        told.processes = 9;
        assert_ok(status_file_write(h->dir, &told));
        examine(h, now_ns);
        assert_found(&h->seen, rows[i].found);
        assert_non_null(strstr(h->seen.agent, rows[i].fix));
        assert_int_equal(h->seen.agent[0] != 0, rows[i].fix[0] != 0);
    }
    os_unlock(lock);
    mem_free(path);
    host_free(h);
}

static void a_level_that_cannot_be_held_is_told_with_its_cause(void **state)
{
    struct host *h = host_new("host-1", pki, "");
    char *path = os_path_join(h->dir, "lock");
    int64_t now_ns = os_utc_ns();
    struct status told = told_at(now_ns);
    struct os_lock *lock;

    assert_ok(os_lock(&lock, path));
    told.n_losses = 4;
    told.losses[0] = (struct status_loss){"level", "down_cpu", false, 7, 1};
    told.losses[1] = (struct status_loss){"level", "down_events", false, 1, 1};
    told.losses[2] = (struct status_loss){"level", "up_quiet", false, 9, 9};
    told.losses[3] = (struct status_loss){"level", "request", false, 9, 9};
    assert_ok(status_file_write(h->dir, &told));
    examine(h, now_ns);
    assert_found(&h->seen, "agent.level ok L2 since 1970-01-01T00:00:00Z, 2 steps down in the last "
                           "hour: cpu 1, events 1");
    told.losses[1].hour = 2;
    assert_ok(status_file_write(h->dir, &told));
    examine(h, now_ns);
    assert_found(&h->seen, "agent.level warning L2 since 1970-01-01T00:00:00Z, 3 steps down in the "
                           "last hour: cpu 1, events 2");
    assert_non_null(strstr(h->seen.agent, "raise budget.events"));
    os_unlock(lock);
    mem_free(path);
    host_free(h);
}

/* Each trouble of the uplink has its way out. */
static void an_uplink_in_trouble_is_told_with_the_way_out(void **state)
{
    static const struct {
        const char *uplink;
        uint64_t breaks, aside, broken;
        const char *found[2], *fix;
    } rows[] = {
        {"refused", 0, 0, 0, {"agent.uplink warning refused since"}, "procfleet-agent enroll"},
        {"failing", 9, 0, 0, {"agent.uplink warning failing since"}, "no batch gets through"},
        {"connected", 4, 0, 0, {"agent.uplink ok connected since"}, NULL},
        {"connected", 5, 0, 0, {"agent.uplink warning connected since"}, "ends connections"},
        {"connected",
         0,
         3,
         1,
         {"agent.quarantine warning 2 batches, 77 bytes, were refused by the collector",
          "agent.quarantine warning connections broke under 1 batch while"},
         "spool retry all"},
        {"connected", 0, 0, 0, {"agent.quarantine ok no batch is set aside"}, NULL},
    };
    struct host *h = host_new("host-1", pki, "");
    char *path = os_path_join(h->dir, "lock");
    int64_t now_ns = os_utc_ns();
    struct os_lock *lock;

    assert_ok(os_lock(&lock, path));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct status told = told_at(now_ns);

        (void)snprintf(told.uplink, sizeof told.uplink, "%s", rows[i].uplink);
        (void)snprintf(told.why, sizeof told.why, "because");
        told.breaks = rows[i].breaks;
        told.aside_held = rows[i].aside;
        told.aside_broken = rows[i].broken;
        told.aside_bytes = 77;
        assert_ok(status_file_write(h->dir, &told));
        examine(h, now_ns);
        for (size_t k = 0; k < 2 && rows[i].found[k]; k++) {
            assert_found(&h->seen, rows[i].found[k]);
        }
        assert_non_null(strstr(h->seen.agent, rows[i].fix ? rows[i].fix : ""));
        assert_int_equal(h->seen.agent[0] != 0, rows[i].fix != NULL);
    }
    os_unlock(lock);
    mem_free(path);
    host_free(h);
}

static void an_agent_that_is_silent_or_gone_is_told_apart(void **state)
{
    struct host *h = host_new("host-1", pki, "");
    char *path = os_path_join(h->dir, "lock");
    int64_t now_ns = os_utc_ns();
    struct status told = told_at(now_ns);
    struct os_lock *lock;

    examine(h, now_ns);
    assert_found(&h->seen, "agent.running skipped no agent has run");
    assert_found(&h->seen, "agent.losses skipped");
    assert_ok(status_file_write(h->dir, &told));
    examine(h, now_ns);
    assert_found(&h->seen, "agent.running warning no agent runs; the last one, process 4711, did");
    told.running = false;
    assert_ok(status_file_write(h->dir, &told));
    examine(h, now_ns);
    assert_found(&h->seen, "agent.running skipped no agent runs; the last one ended in good order");
    assert_ok(os_lock(&lock, path));
    examine(h, now_ns + 60 * CLK_S);
    assert_found(&h->seen, "agent.running warning an agent runs, but has told nothing");
    os_unlock(lock);
    mem_free(path);
    path = os_path_join(h->dir, STATUS_FILE);
    assert_ok(os_write_file(path, "{\"pid\":-1}", 10, false));
    examine(h, now_ns);
    assert_found(&h->seen, "agent.running warning what the agent tells of itself");
    mem_free(path);
    host_free(h);
}

static void a_missing_address_is_a_failure_here(void **state)
{
    struct host *h = host_new("host-1", pki, "");

    examine(h, os_utc_ns());
    assert_err(h->seen.e, ERR_INVALID);
    assert_found(&h->seen, "collector failed collector.addresses");
    host_free(h);
}

static void a_collector_that_is_away_is_unreachable(void **state)
{
    struct ingest *c = ingest_create(server_tls);
    char address[64];
    struct host *h = host_new("host-1", pki, address_of(address, c));

    ingest_stop(c);
    examine(h, os_utc_ns());
    assert_err(h->seen.e, ERR_UNREACHABLE);
    assert_found(&h->seen, "collector failed 127.0.0.1");
    host_free(h);
    ingest_destroy(c);
}

static void one_of_two_collectors_that_is_away_is_a_warning(void **state)
{
    struct ingest *away = ingest_create(server_tls), *there = ingest_create(server_tls);
    char first[64], second[64], both[200];
    struct host *h;

    (void)snprintf(both, sizeof both, "%s,%s", address_of(first, away), address_of(second, there));
    h = host_new("host-1", pki, both);
    ingest_stop(away);
    examine(h, os_utc_ns());
    assert_ok(h->seen.e);
    assert_found(&h->seen, "collector warning");
    assert_found(&h->seen, "collector ok");
    host_free(h);
    ingest_destroy(away);
    ingest_destroy(there);
}

static void a_collector_of_another_authority_is_refused(void **state)
{
    struct tls_config *tls = certs_load(foreign, "collector", foreign, true);
    struct ingest *c = ingest_create(tls);
    char address[64];
    struct host *h = host_new("host-1", pki, address_of(address, c));

    examine(h, os_utc_ns());
    assert_err(h->seen.e, ERR_TRUST);
    assert_found(&h->seen, "collector failed 127.0.0.1");
    host_free(h);
    ingest_destroy(c);
    tls_config_free(tls);
}

static void a_wrong_authority_is_found_before_connecting(void **state)
{
    struct host *h = host_new("host-1", foreign, "127.0.0.1:1");

    examine(h, os_utc_ns());
    assert_err(h->seen.e, ERR_INVALID);
    assert_found(&h->seen, "tls.certificate failed");
    assert_found(&h->seen, "collector skipped");
    host_free(h);
}

static void a_certificate_of_another_role_is_found(void **state)
{
    struct host *h = host_new("operator", pki, "");

    examine(h, os_utc_ns());
    assert_found(&h->seen, "tls.role failed");
    host_free(h);
}

static void a_certificate_of_another_host_is_a_warning(void **state)
{
    struct host *h = host_new("host-2", pki, "");

    examine(h, os_utc_ns());
    assert_found(&h->seen,
                 "tls.name warning the certificate is of host host-2, but this is host-1");
    host_free(h);
}

static void the_end_of_a_certificate_is_told_in_time(void **state)
{
    struct host *h = host_new("long", pki, "");
    int64_t now_ns = os_utc_ns();

    examine(h, now_ns);
    assert_found(&h->seen, "tls.expiry ok the certificate is good for 99 more days");
    examine(h, now_ns + 74 * DAY_NS); /* before that the agent has time to renew it */
    assert_found(&h->seen, "tls.expiry ok the certificate is good for 25 more days");
    examine(h, now_ns + 80 * DAY_NS);
    assert_found(&h->seen, "tls.expiry warning the certificate is good for 19 more days");
    host_free(h);
}

static void a_certificate_outside_its_time_is_told_with_its_remedy(void **state)
{
    struct host *h = host_new("long", pki, "");
    int64_t now_ns = os_utc_ns();

    examine(h, now_ns + 101 * DAY_NS);
    assert_found(&h->seen, "tls.expiry failed the certificate expired at ");
    assert_non_null(strstr(h->seen.fix, "renews it by itself"));
    assert_found(&h->seen, "tls.certificate ok");
    examine(h, now_ns + 108 * DAY_NS);
    assert_non_null(strstr(h->seen.fix, "procfleet-agent enroll --token-file FILE --force"));
    examine(h, now_ns - 3600 * CLK_S);
    assert_found(&h->seen, "tls.expiry failed the certificate is not valid before ");
    assert_non_null(strstr(h->seen.fix, "set this host's clock"));
    host_free(h);
}

static void a_clock_far_behind_is_a_failure(void **state)
{
    struct host *h = host_new("host-1", pki, "");

    examine(h, 0);
    assert_found(&h->seen, "clock.time failed the clock says 1970-01-01T00:00:00Z");
    host_free(h);
}

static void a_state_directory_to_be_made_is_a_warning(void **state)
{
    struct host *h = host_new("host-1", pki, "");
    char *path = os_path_join(h->dir, "a/b");

    h->conf.state_dir = path;
    examine(h, os_utc_ns());
    assert_found(&h->seen, "state.write warning");
    assert_found(&h->seen, "disk.room ");
    assert_false(os_exists(path));
    mem_free(path);
    host_free(h);
}

static void a_state_directory_that_is_a_file_is_a_failure(void **state)
{
    struct host *h = host_new("host-1", pki, "");
    char *path = os_path_join(h->dir, "file");

    assert_ok(os_write_file(path, "x", 1, true));
    h->conf.state_dir = path;
    examine(h, os_utc_ns());
    assert_err(h->seen.e, ERR_INVALID);
    assert_found(&h->seen, "state.write failed");
    mem_free(path);
    host_free(h);
}

static void a_missing_key_is_found(void **state)
{
    struct host *h = host_new("nobody", pki, "");

    examine(h, os_utc_ns());
    assert_found(&h->seen, "tls.key failed there is no key");
    assert_found(&h->seen, "tls.certificate failed");
    host_free(h);
}

static void a_key_that_others_can_read_is_found(void **state)
{
    struct host *h = host_new("open", pki, "");

    assert_int_equal(chmod(h->conf.key, 0644), 0);
    examine(h, os_utc_ns());
    assert_found(&h->seen, "tls.key failed others can read the key");
    assert_found(&h->seen, "tls.certificate skipped");
    host_free(h);
}

static void an_unknown_source_is_a_failure(void **state)
{
    struct host *h = host_new("host-1", pki, "");

    h->conf.source = "no such";
    examine(h, os_utc_ns());
    assert_found(&h->seen, "source failed");
    host_free(h);
}

static int set_up(void **state)
{
    struct pki_issue lasting = {
        .use = PKI_AGENT, .name = "long", .now_ns = os_utc_ns(), .life_ns = 100 * DAY_NS - CLK_S};

    assert_ok(net_init(NULL));
    pki = certs_create();
    foreign = certs_create();
    certs_issue(pki, PKI_COLLECTOR, "collector");
    certs_issue(foreign, PKI_COLLECTOR, "collector");
    certs_issue(pki, PKI_AGENT, "host-1");
    certs_issue(pki, PKI_AGENT, "host-2");
    certs_issue(pki, PKI_AGENT, "open");
    certs_issue(pki, PKI_QUERY, "operator");
    certs_issue_as(pki, &lasting);
    server_tls = certs_load(pki, "collector", pki, true);
    return 0;
}

static int tear_down(void **state)
{
    tls_config_free(server_tls);
    certs_destroy(pki);
    certs_destroy(foreign);
    net_fini();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_host_has_nothing_failed),
        cmocka_unit_test(examining_leaves_nothing_behind),
        cmocka_unit_test(a_running_agent_is_told_and_not_disturbed),
        cmocka_unit_test(what_a_running_agent_tells_is_judged),
        cmocka_unit_test(what_the_agent_costs_is_held_against_its_limits),
        cmocka_unit_test(a_level_that_cannot_be_held_is_told_with_its_cause),
        cmocka_unit_test(an_uplink_in_trouble_is_told_with_the_way_out),
        cmocka_unit_test(an_agent_that_is_silent_or_gone_is_told_apart),
        cmocka_unit_test(a_missing_address_is_a_failure_here),
        cmocka_unit_test(a_collector_that_is_away_is_unreachable),
        cmocka_unit_test(one_of_two_collectors_that_is_away_is_a_warning),
        cmocka_unit_test(a_collector_of_another_authority_is_refused),
        cmocka_unit_test(a_wrong_authority_is_found_before_connecting),
        cmocka_unit_test(a_certificate_of_another_role_is_found),
        cmocka_unit_test(a_certificate_of_another_host_is_a_warning),
        cmocka_unit_test(the_end_of_a_certificate_is_told_in_time),
        cmocka_unit_test(a_certificate_outside_its_time_is_told_with_its_remedy),
        cmocka_unit_test(a_clock_far_behind_is_a_failure),
        cmocka_unit_test(a_state_directory_to_be_made_is_a_warning),
        cmocka_unit_test(a_state_directory_that_is_a_file_is_a_failure),
        cmocka_unit_test(a_missing_key_is_found),
        cmocka_unit_test(a_key_that_others_can_read_is_found),
        cmocka_unit_test(an_unknown_source_is_a_failure),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
