#include <stdio.h>
#include <string.h>

#include "agent/cmd/agent_cmd.h"
#include "agent/enroll/enroll.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/os_owner.h"
#include "common/text/humanize.h"
#include "common/wire/wire_enroll.h"

#define TIMEOUT_NS     (30 * CLK_S)
#define CLOCK_WRONG_NS (60 * CLK_S)
#define NAME_MAX_BYTES 256

static const struct opt opts[] = {
    AGENT_CMD_CONF_OPTS,
    {"token", 0, "TOKEN",
     "one-time token, as 'procfleet-collector pki token create' printed it; others on this host "
     "can see it while this runs, so rather take",
     false},
    {"token-file", 0, "FILE", "a file that holds it; - reads it from standard input", false},
    {"collector", 0, "HOST[:PORT]",
     "the collector's enroll listener, port 7423 if left out; default: collector.enroll_address",
     false},
    {"name", 0, "NAME", "name of this host; default: identity.name, else the machine's", false},
    {"force", 0, NULL,
     "replace the identity that is there; the old files are kept with .old behind their names",
     false},
    OPT_FORMER("token", 't', "TOKEN", false),
    OPT_FORMER("name", 'n', "NAME", false),
};

static int cmd_enroll(const struct opt_args *args);

const struct opt_command cmd_enroll_opts = {
    .program = "procfleet-agent",
    .name = "enroll",
    .brief = "get this host's certificate from a collector, with a one-time token",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .sets = cmd_conf_sets,
    .examples =
        "  procfleet-agent enroll --collector collector.example --token-file - -c agent.yaml\n"
        "  procfleet-agent enroll --collector collector.example --token pf1-...\n"
        "  procfleet-agent enroll --token-file token.txt --force\n"
        "\nThe key is made here and stays here. Run it as the user that the agent runs as.\n"
        "Exit codes: 0 enrolled, 1 failed (enrolled already, files, an agent runs), 2 usage or no\n"
        "token, 3 the collector was not reached, 4 refused: by the collector, or it is not the "
        "one\n"
        "that the token names\n",
    .action = &(const struct opt_action){.judge = cmd_enroll},
};

/* What the command line asks for; texts are owned by the arguments unless said. */
struct wish {
    char token[WIRE_TOKEN_MAX + 2]; /* one more, so that too long a one is noticed */
    char *address;                  /* owned */
    const char *name;
    char machine[NAME_MAX_BYTES];
    bool force;
};

static void on_say(void *ctx, const char *text)
{
    (void)ctx;
    humanize_line(stderr, "procfleet-agent: %s", text);
}

/* -- the token -- */

static enum err read_token(char *to, size_t size, const char *path, struct errmsg *why)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : os_fopen(path, "rb");
    size_t n, first = 0;

    if (!f) {
        return errmsg_set(why, ERR_USAGE,
                          "--token-file: %s cannot be read: is it there, and may this user? A "
                          "shell of root's can hand it over: --token-file - < %s",
                          path, path);
    }
    n = fread(to, 1, size - 1, f);
    if (f != stdin) {
        (void)fclose(f);
    }
    while (n > 0 && strchr(" \t\r\n", to[n - 1])) {
        n--;
    }
    while (first < n && strchr(" \t\r\n", to[first])) {
        first++;
    }
    memmove(to, to + first, n - first);
    to[n - first] = '\0';
    return n > first ? ERR_OK
                     : errmsg_set(why, ERR_USAGE, "--token-file: there is no token in %s",
                                  f == stdin ? "standard input" : path);
}

static enum err find_token(struct wish *w, const struct opt_args *args, struct errmsg *why)
{
    const char *token = opt_value(args, "token"), *file = opt_value(args, "token-file");

    if (!token == !file) {
        return errmsg_set(why, ERR_USAGE,
                          "%s; 'procfleet-collector pki token create' makes one on the collector's "
                          "machine",
                          token ? "--token and --token-file: only one of them"
                                : "--token-file FILE or --token TOKEN is needed");
    }
    if (file) {
        return read_token(w->token, sizeof w->token, file, why);
    }
    (void)snprintf(w->token, sizeof w->token, "%s", token);
    return ERR_OK;
}

/* -- the rest of the wish -- */

static enum err find_address(struct wish *w, const struct opt_args *args,
                             const struct agent_conf *conf, struct errmsg *why)
{
    const char *given = opt_value(args, "collector");

    if (!given && !conf->enroll_address) {
        return errmsg_set(why, ERR_USAGE,
                          "--collector HOST is needed, or collector.addresses in the configuration "
                          "file");
    }
    w->address = given ? agent_conf_with_port(given, AGENT_CONF_ENROLL_PORT, false)
                       : mem_strdup(conf->enroll_address);
    return w->address ? ERR_OK : errmsg_set(why, ERR_NOMEM, "out of memory");
}

static enum err find_name(struct wish *w, const struct opt_args *args,
                          const struct agent_conf *conf, struct errmsg *why)
{
    enum err e;

    w->name = opt_value(args, "name");
    if (!w->name) {
        w->name = conf->name;
    }
    if (w->name) {
        return ERR_OK;
    }
    e = os_host_name(w->machine, sizeof w->machine);
    w->name = w->machine;
    return e ? errmsg_set(why, ERR_USAGE, "this machine has no name; give one with --name NAME")
             : ERR_OK;
}

static enum err find_wish(struct wish *w, const struct opt_args *args,
                          const struct agent_conf *conf, struct errmsg *why)
{
    enum err e = find_token(w, args, why);

    if (!e) {
        e = find_address(w, args, conf, why);
    }
    w->force = opt_flag(args, "force");
    return e ? e : find_name(w, args, conf, why);
}

/* -- doing it -- */

/* An agent that runs would go on with what it has in memory, and renew that over ours. */
static enum err lock_agent(struct os_lock **out, const char *dir, struct errmsg *why)
{
    char *path = NULL;
    enum err e = os_owner_check(dir, why);

    if (e) {
        return e;
    }
    e = os_mkdirs(dir, true);
    if (!e) {
        path = os_path_join(dir, "lock");
        e = path ? os_lock(out, path) : ERR_NOMEM;
    }
    mem_free(path);
    if (e == ERR_BUSY) {
        return errmsg_set(why, e,
                          "an agent runs with %s; stop it first, enroll, and start it again", dir);
    }
    return e ? errmsg_set(why, e,
                          "cannot use the state directory %s: %s; run this as the agent's "
                          "user, or set state_dir",
                          dir, err_text(e))
             : ERR_OK;
}

static void print_clock(const struct enroll_result *got)
{
    int64_t off_ns = got->clock_ns < 0 ? clk_sub(0, got->clock_ns) : got->clock_ns;
    struct buf span;

    if (off_ns >= CLOCK_WRONG_NS) {
        buf_init(&span, 64);
        humanize_ns(&span, off_ns);
        fprintf(stderr,
                "procfleet-agent: this host's clock is %s %s the collector's; set it: certificates "
                "go by the clock\n",
                buf_cstr(&span), got->clock_ns > 0 ? "behind" : "ahead of");
        buf_fini(&span);
    }
}

/* Results on standard output; what to do with them on standard error. */
static void print_result(const struct enroll_result *got, const struct agent_conf *conf,
                         const struct wish *w, const char *config)
{
    char until[CLK_TEXT], id[UUID_TEXT];

    humanize_line(stdout, "host         %s", got->who.name);
    printf("id           %s\n", uuid_format(id, &got->who.host));
    humanize_line(stdout, "certificate  %s", conf->cert);
    humanize_line(stdout, "key          %s", conf->key);
    humanize_line(stdout, "authority    %s", conf->ca);
    printf("valid until  %s\n", clk_format_utc(until, sizeof until, got->who.not_after_ns, 0));
    print_clock(got);
    if (conf->n_addresses == 0) {
        char *ingest = agent_conf_with_port(w->address, AGENT_CONF_PORT, true);

        fprintf(stderr,
                "procfleet-agent: no collector.addresses is set; put this into the configuration "
                "file:\n\ncollector.addresses: %s\n\n",
                ingest ? ingest : "");
        mem_free(ingest);
    }
    fprintf(stderr,
            "procfleet-agent: enrolled; next: procfleet-agent run%s%s, or start the service\n",
            config ? " --config " : "", config ? config : "");
}

static enum err enroll(const struct wish *w, const struct agent_conf *conf,
                       struct enroll_result *got, struct errmsg *why)
{
    struct trust_files files = {.ca = conf->ca, .cert = conf->cert, .key = conf->key};
    struct enroll_ask ask = {.address = w->address,
                             .server_name = conf->server_name,
                             .name = w->name,
                             .token = w->token,
                             .force = w->force,
                             .files = &files,
                             .timeout_ns = TIMEOUT_NS,
                             .say = on_say};
    struct os_lock *lock = NULL;
    enum err e = lock_agent(&lock, conf->state_dir, why);

    if (!e) {
        e = enroll_run(got, &ask, why);
    }
    os_unlock(lock);
    return e;
}

static int cmd_enroll(const struct opt_args *args)
{
    struct agent_conf conf;
    struct wish wish = {.address = NULL};
    struct enroll_result got;
    struct errmsg why = {""};
    enum err e;
    int code = AGENT_CMD_OK;

    e = agent_cmd_trusted_settings(&conf, args, &why);
    if (e) {
        return agent_cmd_fail(e, why.text);
    }
    e = find_wish(&wish, args, &conf, &why);
    if (!e) {
        e = enroll(&wish, &conf, &got, &why);
    }
    if (e) {
        code = agent_cmd_fail(e, why.text);
    } else {
        print_result(&got, &conf, &wish, opt_value(args, "config"));
    }
    memset(wish.token, 0, sizeof wish.token);
    mem_free(wish.address);
    agent_conf_fini(&conf);
    return code;
}
