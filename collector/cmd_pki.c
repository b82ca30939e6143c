/* procfleet-collector pki init | issue: the authority and the certificates of a fleet, made on the
 * collector's machine until enrolment makes keys where they are used. */
#include "collector/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clk.h"
#include "common/mem.h"
#include "common/os.h"
#include "common/pki.h"

#define DEFAULT_DIR    "pki"
#define DEFAULT_NAME   "procfleet authority"
#define DAY_NS         (86400 * CLK_S)
#define AUTHORITY_DAYS 3650
#define DAYS_MAX       3650
#define CA_PEM_MAX     (64u << 10)

enum { DONE, FAILED, USAGE };

static const struct opt init_opts[] = {
    {"dir", 'd', "DIR", "where the authority goes; default " DEFAULT_DIR, false},
    {"name", 'n', "NAME", "its common name; default \"" DEFAULT_NAME "\"", false},
};

static const struct opt_command init_command = {
    .program = "procfleet-collector",
    .name = "pki init",
    .brief = "make the authority that signs all certificates of a fleet",
    .opts = init_opts,
    .n_opts = sizeof init_opts / sizeof *init_opts,
    .examples = "  procfleet-collector pki init --dir /etc/procfleet/pki\n",
};

static const struct opt issue_opts[] = {
    {"role", 'r', "ROLE", "agent, query, subscribe, admin or collector", false},
    {"name", 'n', "NAME", "common name: the host's or the user's", false},
    {"dns", 0, "NAME", "collector: a further DNS name or IP address; may be repeated", true},
    {"scope", 0, "GLOB", "query, subscribe: only hosts whose name fits", false},
    {"host", 0, "UUID", "agent: the host's identity; default a new random one", false},
    {"days", 0, "N", "how long it is valid; default 365", false},
    {"dir", 'd', "DIR", "where the authority is; default " DEFAULT_DIR, false},
    {"out", 'o', "DIR", "where NAME.pem, NAME.key and a copy of ca.pem go; default .", false},
};

static const struct opt_command issue_command = {
    .program = "procfleet-collector",
    .name = "pki issue",
    .brief = "make a key and its certificate, signed by the authority",
    .opts = issue_opts,
    .n_opts = sizeof issue_opts / sizeof *issue_opts,
    .examples = "  procfleet-collector pki issue --role collector --name collector --dns "
                "collector.example\n"
                "  procfleet-collector pki issue --role agent --name web-01 --out web-01\n"
                "  procfleet-collector pki issue --role query --name alice --scope 'web-*'\n",
};

static int complain(const struct opt_command *cmd, enum err e, const char *text)
{
    fprintf(stderr, "procfleet-collector: %s\n", text[0] ? text : err_text(e));
    if (e == ERR_USAGE) {
        fprintf(stderr, "'%s %s --help' shows options and examples.\n", cmd->program, cmd->name);
    }
    return e == ERR_USAGE || e == ERR_INVALID ? USAGE : FAILED;
}

static void print(struct buf *out)
{
    fputs(buf_cstr(out), stdout);
    buf_fini(out);
}

static int help(const struct opt_command *cmd)
{
    struct buf out;

    buf_init(&out, 16 << 10);
    opt_print_help(&out, cmd);
    print(&out);
    return DONE;
}

static const char *value_or(const struct opt_args *a, const char *name, const char *otherwise)
{
    const char *v = opt_value(a, name);

    return v ? v : otherwise;
}

/* -- init -- */

static int run_init(const struct opt_args *a)
{
    const char *dir = value_or(a, "dir", DEFAULT_DIR);
    struct errmsg why = {""};
    enum err e = pki_init(dir, value_or(a, "name", DEFAULT_NAME), os_utc_ns(),
                          AUTHORITY_DAYS * DAY_NS, &why);

    if (e) {
        return complain(&init_command, e, why.text);
    }
    printf("%s/ca.pem  the authority's certificate: every program gets a copy\n", dir);
    printf("%s/ca.key  its key: whoever has it can sign; keep it on this machine\n", dir);
    return DONE;
}

/* -- issue -- */

static enum err parse_days(int64_t *life_ns, const char *text, struct errmsg *why)
{
    char *end;
    long days = strtol(text, &end, 10);

    if (end == text || *end || days < 1 || days > DAYS_MAX) {
        return errmsg_set(why, ERR_USAGE, "--days takes a number from 1 to %d", DAYS_MAX);
    }
    *life_ns = days * DAY_NS;
    return ERR_OK;
}

static enum err read_options(struct pki_issue *what, const char **dns, const struct opt_args *a,
                             struct errmsg *why)
{
    const char *role = opt_value(a, "role"), *host = opt_value(a, "host");

    what->name = opt_value(a, "name");
    if (!role || !what->name) {
        return errmsg_set(why, ERR_USAGE, "--role and --name are needed");
    }
    if (pki_use_parse(&what->use, role) != ERR_OK) {
        return errmsg_set(why, ERR_USAGE,
                          "no role '%s': agent, query, subscribe, admin or collector", role);
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
    return parse_days(&what->life_ns, value_or(a, "days", "365"), why);
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
            e = errmsg_set(why, ERR_EXISTS, "%s belongs to another authority; choose another --out",
                           to);
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

static enum err issue_into(const struct places *p, const struct opt_args *a,
                           const struct pki_issue *what, struct errmsg *why)
{
    const char *dir = value_or(a, "dir", DEFAULT_DIR);
    const char *out = value_or(a, "out", ".");
    char *ca = os_path_join(dir, "ca.pem");
    enum err e = ca ? ERR_OK : ERR_NOMEM;

    if (!e && os_exists(ca)) { /* else pki_issue says what is missing, before a directory is made */
        e = os_mkdirs(out, false);
        if (e) {
            errmsg_set(why, e, "cannot create the directory %s: %s", out, err_text(e));
        } else {
            e = copy_authority(dir, p->ca, why);
        }
    }
    mem_free(ca);
    return e ? e : pki_issue(dir, what, p->cert, p->key, why);
}

static int run_issue(const struct opt_args *a)
{
    const char *dns[OPT_MANY_MAX];
    struct pki_issue what = {.name = NULL};
    struct places p = {NULL, NULL, NULL};
    struct errmsg why = {""};
    enum err e = read_options(&what, dns, a, &why);

    if (!e && !pki_name_ok(what.name)) {
        e = errmsg_set(&why, ERR_USAGE, "--name takes 1 to %d letters, digits, '.', '_' or '-'",
                       MODEL_HOST_NAME_MAX);
    }
    if (!e) {
        e = places_init(&p, value_or(a, "out", "."), what.name);
    }
    if (!e) {
        e = issue_into(&p, a, &what, &why);
    }
    if (!e) {
        printf("%s  the certificate\n%s  its key, readable by you only\n%s  the authority's "
               "certificate\n",
               p.cert, p.key, p.ca);
    }
    places_fini(&p);
    return e ? complain(&issue_command, e, why.text) : DONE;
}

/* -- the command -- */

static int with_options(const struct opt_command *cmd, int argc, char **argv,
                        int (*run)(const struct opt_args *a))
{
    struct opt_args *a;
    struct errmsg why = {""};
    enum err e = opt_parse(&a, cmd, argc, argv, &why);
    int code;

    if (e) {
        return complain(cmd, e, why.text);
    }
    code = opt_flag(a, "help") ? help(cmd) : run(a);
    opt_free(a);
    return code;
}

static int overview(void)
{
    static const struct opt_command *const commands[] = {&init_command, &issue_command};
    struct buf out;

    buf_init(&out, 16 << 10);
    opt_print_commands(&out, "procfleet-collector", "keys and certificates of a fleet", commands,
                       sizeof commands / sizeof *commands, init_command.examples);
    print(&out);
    return DONE;
}

int cmd_pki(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "init") == 0) {
        return with_options(&init_command, argc - 2, argv + 2, run_init);
    }
    if (argc > 1 && strcmp(argv[1], "issue") == 0) {
        return with_options(&issue_command, argc - 2, argv + 2, run_issue);
    }
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        return overview();
    }
    fprintf(stderr,
            "procfleet-collector: pki needs init or issue; 'procfleet-collector pki --help' "
            "shows both\n");
    return USAGE;
}
