/* procfleet-collector pki issue: keys and certificates made where the authority is, for collectors
 * and people; hosts rather enrol. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/cmd/collector_cmd_pki.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/uuid.h"
#include "common/pki/pki_authority.h"
#include "common/text/humanize.h"

#define DAY_NS      (86400 * CLK_S)
#define LIFE_MAX_NS (3650 * DAY_NS)
#define CA_PEM_MAX  (64u << 10)

static const struct opt issue_opts[] = {
    {"role", 'r', "agent|query|subscribe|admin|mark|collector,...",
     "what it is for; mark may stand beside query, subscribe or admin", false},
    {"name", 0, "NAME", "common name: the host's or the user's", false},
    {"dns", 0, "NAME", "collector: a further DNS name or IP address; may be repeated", true},
    {"scope", 0, "GLOB", "query, subscribe, mark: only hosts whose name fits", false},
    {"host", 0, "UUID", "agent: the host's identity; default a new random one", false},
    {"life", 'l', "SPAN", "how long it is valid, 1d to 3650d; default 365d", false},
    {"dir", 'd', "DIR", COLLECTOR_CMD_PKI_DIRECT, false},
    {"output", 'o', "DIR", "where NAME.pem, NAME.key and a copy of ca.pem go; default .", false},
    OPT_FORMER("name", 'n', "NAME", false),
    OPT_FORMER("days", 0, "N", false),
    OPT_FORMER("out", 0, "DIR", false),
};

static enum err run_issue(const struct opt_args *a, struct errmsg *why);

const struct opt_command cmd_pki_issue_options = {
    .program = "procfleet-collector pki",
    .name = "issue",
    .brief = "make a key and its certificate, signed by the authority",
    .opts = issue_opts,
    .n_opts = sizeof issue_opts / sizeof *issue_opts,
    .examples = "  procfleet-collector pki issue --role collector --name collector --dns "
                "collector.example\n"
                "  procfleet-collector pki issue --role agent --name web-01 --output web-01\n"
                "  procfleet-collector pki issue --role query --name alice --scope 'web-*'\n"
                "  procfleet-collector pki issue --role query,mark --name ci --scope 'lab-*'\n",
    .action = &(const struct opt_action){.run = run_issue},
};

static const char *issue_output(const struct opt_args *a)
{
    return collector_cmd_value_or(a, "output", collector_cmd_value_or(a, "out", "."));
}

static enum err read_life(int64_t *life_ns, const struct opt_args *a, struct errmsg *why)
{
    const char *life = opt_value(a, "life"), *days = opt_value(a, "days");
    char text[32];

    if (life && days) {
        return errmsg_set(why, ERR_USAGE, "--days is the former name of --life; give one");
    }
    if (days) {
        (void)snprintf(text, sizeof text, "%.20sd", days);
    }
    return collector_cmd_span(life_ns, "life",
                              life   ? life
                              : days ? text
                                     : "365d",
                              DAY_NS, LIFE_MAX_NS, " from 1d to 3650d,", why);
}

/* One role, and perhaps mark. */
static enum err read_role(struct pki_issue *what, const char *text, struct errmsg *why)
{
    const char *comma = strchr(text, ',');
    char first[16] = "";
    size_t n = comma ? (size_t)(comma - text) : strlen(text);
    bool ok = n < sizeof first;

    memcpy(first, text, ok ? n : 0);
    if (comma && strcmp(first, "mark") == 0) { /* in either order */
        what->mark = true;
        ok = ok && pki_authority_use(&what->use, comma + 1) == ERR_OK;
    } else {
        what->mark = comma && strcmp(comma + 1, "mark") == 0;
        ok = ok && (!comma || what->mark) && pki_authority_use(&what->use, first) == ERR_OK;
    }
    return ok ? ERR_OK
              : errmsg_set(why, ERR_USAGE,
                           "no role '%s': agent, query, subscribe, admin, mark or collector, or "
                           "mark beside one of query, subscribe and admin",
                           text);
}

static enum err read_options(struct pki_issue *what, const char **dns, const struct opt_args *a,
                             struct errmsg *why)
{
    const char *role = opt_value(a, "role"), *host = opt_value(a, "host");

    what->name = opt_value(a, "name");
    if (!role || !what->name) {
        return errmsg_set(why, ERR_USAGE, "--role and --name are needed");
    }
    if (read_role(what, role, why) != ERR_OK) {
        return ERR_USAGE;
    }
    what->n_dns = opt_values(a, "dns", dns, OPT_MANY_MAX);
    what->dns = dns;
    what->scope = opt_value(a, "scope");
    what->has_host = host != NULL;
    if (host && uuid_parse(&what->host, host) != ERR_OK) {
        return errmsg_set(why, ERR_USAGE,
                          "--host takes a UUID like "
                          "01234567-89ab-cdef-0123-456789abcdef");
    }
    what->now_ns = os_utc_ns();
    return read_life(&what->life_ns, a, why);
}

/* Where one certificate and its companions go. */
struct places {
    char *cert, *key, *ca;
};

static void places_fini(struct places *p)
{
    mem_free(p->cert);
    mem_free(p->key);
    mem_free(p->ca);
}

static enum err places_init(struct places *p, const char *out, const char *name)
{
    char cert[MODEL_HOST_NAME_MAX + 8], key[MODEL_HOST_NAME_MAX + 8];

    snprintf(cert, sizeof cert, "%s.pem", name);
    snprintf(key, sizeof key, "%s.key", name);
    p->cert = os_path_join(out, cert);
    p->key = os_path_join(out, key);
    p->ca = os_path_join(out, "ca.pem");
    return p->cert && p->key && p->ca ? ERR_OK : ERR_NOMEM;
}

/* A copy of the authority's certificate, unless one with the same content is there already. */
static enum err copy_authority(const char *dir, const char *to, struct errmsg *why)
{
    uint8_t *pem = NULL, *old = NULL;
    size_t n = 0, old_n = 0;
    char *from = os_path_join(dir, "ca.pem");
    enum err e = from ? os_read_file(&pem, &n, from, CA_PEM_MAX) : ERR_NOMEM;

    if (!e && os_exists(to)) {
        e = os_read_file(&old, &old_n, to, CA_PEM_MAX);
        if (!e && (old_n != n || memcmp(old, pem, n) != 0)) {
            e = errmsg_set(why, ERR_EXISTS,
                           "%s belongs to another authority; choose another --output", to);
        }
    } else if (!e) {
        e = os_write_file(to, pem, n, false);
    }
    if (e && !why->text[0]) {
        errmsg_set(why, e, "cannot copy the authority's certificate to %s: %s", to, err_text(e));
    }
    mem_free(from);
    mem_free(pem);
    mem_free(old);
    return e;
}

struct record {
    struct ca_db *book;
    int64_t now_ns;
};

/* Into the book, before the certificate is there. */
static enum err record(void *ctx, const void *der, size_t n, struct errmsg *why)
{
    const struct record *r = ctx;
    struct net_identity who;
    enum err e = tls_cert_parse(&who, der, n);

    return e ? e : ca_cert_issued(r->book, &who, r->now_ns, why);
}

static enum err issue_into(const struct places *p, const struct opt_args *a,
                           const struct pki_issue *what, struct errmsg *why)
{
    const char *dir = collector_cmd_value_or(a, "dir", COLLECTOR_CMD_PKI_DIR);
    const char *out = issue_output(a);
    char *ca = os_path_join(dir, "ca.pem");
    enum err e = ca ? ERR_OK : ERR_NOMEM;

    if (!e && os_exists(ca)) { /* else pki_issue says what is missing, before a directory is made */
        e = os_mkdirs(out, false);
        if (e) {
            errmsg_set(why, e,
                       "cannot create the directory %s: %s; name one that this user may make with "
                       "--output",
                       out, err_text(e));
        } else {
            e = copy_authority(dir, p->ca, why);
        }
    }
    mem_free(ca);
    return e ? e : pki_authority_issue(dir, what, p->cert, p->key, why);
}

static enum err run_issue(const struct opt_args *a, struct errmsg *why)
{
    const char *dns[OPT_MANY_MAX];
    struct pki_issue what = {.name = NULL};
    struct places p = {NULL, NULL, NULL};
    struct record to = {NULL, 0};
    enum err e = read_options(&what, dns, a, why);

    if (!e && pki_name_wrong(what.name, true)) {
        e = errmsg_set(why, ERR_USAGE, "--name %s: %s", what.name, pki_name_wrong(what.name, true));
    }
    if (!e) {
        e = places_init(&p, issue_output(a), what.name);
    }
    if (!e) {
        e = collector_cmd_pki_book(&to.book, a, why);
    }
    if (!e) {
        to.now_ns = what.now_ns;
        what.record = record;
        what.record_ctx = &to;
        e = issue_into(&p, a, &what, why);
    }
    ca_db_close(to.book);
    if (!e) {
        humanize_line(stdout, "%s  the certificate", p.cert);
        humanize_line(stdout, "%s  its key, readable by you only", p.key);
        humanize_line(stdout, "%s  the authority's certificate", p.ca);
    }
    places_fini(&p);
    return e;
}
