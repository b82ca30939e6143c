#include "collector/cli/cli.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

#include "collector/cli/profile.h"
#include "collector/cli/times.h"
#include "common/base/clk.h"
#include "common/base/utf8.h"
#include "common/lab/host_class.h"
#include "common/log/log.h"
#include "common/os/os.h"
#include "common/text/style.h"

static void tell_list(const struct cli *c, const char *fmt, va_list ap)
{
    char text[1024], clean[1024];

    (void)vsnprintf(text, sizeof text, fmt, ap);
    (void)utf8_clean(clean, sizeof clean, text, strlen(text));
    fflush(stdout);
    fprintf(stderr, "%s %s: %s\n", c->cmd->program, c->cmd->name, clean);
}

void cli_tell(const struct cli *c, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    tell_list(c, fmt, ap);
    va_end(ap);
}

int cli_fail(const struct cli *c, enum cli_exit code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    tell_list(c, fmt, ap);
    va_end(ap);
    return (int)code;
}

/* "host" becomes "host:port"; "[v6]" and "host:port" are told apart by what follows the last
 * bracket. */
static void address_with_port(char *out, size_t size, const char *address, const char *port)
{
    const char *after = strrchr(address, ']');

    if (strchr(after ? after : address, ':')) {
        snprintf(out, size, "%s", address);
    } else {
        snprintf(out, size, "%s:%s", address, port);
    }
}

/* Another port of the same host. */
static void address_beside(char *out, size_t size, const char *address, const char *port)
{
    const char *colon = strrchr(address, ':');

    snprintf(out, size, "%.*s:%s", (int)(colon ? colon - address : 0), address, port);
}

static enum err setting_wrong(const struct cli *c, enum profile_setting s, struct errmsg *why,
                              const char *expected)
{
    char from[PROFILE_FROM_TEXT];

    return errmsg_set(why, ERR_USAGE, "%s: '%s' is not %s",
                      profile_from(c->profile, s, from, sizeof from), profile_value(c->profile, s),
                      expected);
}

/* It says JSON, unless JSONL, which has it by itself. */
static enum err read_envelope(struct cli *c, struct errmsg *why)
{
    bool given = opt_value(c->args, "format") != NULL;

    if (!opt_flag(c->args, "envelope") || c->format == TABLE_AS_JSON ||
        c->format == TABLE_AS_JSONL) {
        return ERR_OK;
    }
    c->format = TABLE_AS_JSON;
    return given ? errmsg_set(why, ERR_USAGE, "--envelope goes with --format json or jsonl")
                 : ERR_OK;
}

static enum err read_settings(struct cli *c, struct errmsg *why)
{
    static const char *const formats[] = {"table", "json", "csv", "jsonl"};
    struct cli_settings *s = &c->settings;
    const char *format;
    enum err e = profile_open(&c->profile, c->args, why);

    if (e) {
        return e;
    }
    address_with_port(s->collector, sizeof s->collector,
                      profile_value(c->profile, PROFILE_COLLECTOR), "7421");
    if (profile_value(c->profile, PROFILE_EVENTS)) {
        address_with_port(s->events, sizeof s->events, profile_value(c->profile, PROFILE_EVENTS),
                          "7422");
    } else {
        address_beside(s->events, sizeof s->events, s->collector, "7422");
    }
    s->ca = profile_value(c->profile, PROFILE_CA);
    s->cert = profile_value(c->profile, PROFILE_CERT);
    s->key = profile_value(c->profile, PROFILE_KEY);
    s->server_name = profile_value(c->profile, PROFILE_SERVER_NAME);
    s->host = profile_value(c->profile, PROFILE_HOST);
    if (clk_parse_span(&s->timeout_ns, profile_value(c->profile, PROFILE_TIMEOUT)) != ERR_OK) {
        return setting_wrong(c, PROFILE_TIMEOUT, why, "a time such as 10s");
    }
    format = profile_value(c->profile, PROFILE_TIME);
    s->local = strcmp(format, "local") == 0;
    if (!s->local && strcmp(format, "utc") != 0) {
        return setting_wrong(c, PROFILE_TIME, why, "utc or local");
    }
    format = profile_value(c->profile, PROFILE_FORMAT);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(format, formats[i]) == 0) {
            c->format = (enum table_format)i;
            return read_envelope(c, why);
        }
    }
    return setting_wrong(c, PROFILE_FORMAT, why, "table, json, csv or jsonl");
}

static enum err need_certificate(const struct cli *c, struct errmsg *why)
{
    const struct cli_settings *s = &c->settings;

    if (s->ca && s->cert && s->key) {
        return ERR_OK;
    }
    return errmsg_set(why, ERR_USAGE,
                      "no certificate: give --ca, --cert and --key, set PROCFLEET_CA, "
                      "PROCFLEET_CERT and PROCFLEET_KEY, or write a profile ('procfleet config "
                      "sample'); 'procfleet-collector pki issue --role query' makes one");
}

static enum err read_colour(struct cli *c, struct errmsg *why)
{
    const char *when = opt_value(c->args, "color");

    if (when && style_choose(when) != ERR_OK) {
        return errmsg_set(why, ERR_USAGE, "--color: '%s' is not auto, always or never", when);
    }
    return ERR_OK;
}

static int print_help(const struct opt_command *cmd)
{
    struct buf out;

    buf_init(&out, 1 << 16);
    opt_print_help(&out, cmd);
    fputs(buf_cstr(&out), stdout);
    buf_fini(&out);
    return CLI_OK;
}

int cli_connected(struct cli *c, int (*body)(struct cli *c))
{
    struct errmsg why = {""};
    int code;

    if (need_certificate(c, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    if (net_init(&why) != ERR_OK) {
        return cli_fail(c, CLI_FAILED, "%s", why.text);
    }
    code = body(c);
    net_fini();
    return code;
}

static int run_body(struct cli *c, const struct cli_command *cmd)
{
    struct errmsg why = {""};
    int code;

    if (opt_flag(c->args, "help")) {
        return print_help(c->cmd);
    }
    if (cmd->needs != CLI_NEEDS_NOTHING &&
        (read_colour(c, &why) != ERR_OK || read_settings(c, &why) != ERR_OK)) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    code = cmd->needs == CLI_NEEDS_COLLECTOR ? cli_connected(c, cmd->body) : cmd->body(c);
    if ((fflush(stdout) != 0 || ferror(stdout)) && (code == CLI_OK || code == CLI_PARTIAL)) {
        code = cli_fail(c, CLI_FAILED, "cannot write the answer");
    }
    return code;
}

static int run_command(const struct cli_command *cmd, int argc, char **argv)
{
    struct cli c = {.cmd = cmd->usage};
    struct errmsg why = {""};
    int code;

    err_ignore(log_open(LOG_ERROR, LOG_TEXT, NULL));
    if (opt_parse(&c.args, c.cmd, argc, argv, &why) != ERR_OK) {
        return cli_fail(&c, CLI_USAGE, "%s", why.text);
    }
    code = run_body(&c, cmd);
    profile_close(c.profile);
    opt_free(c.args);
    return code;
}

int cli_run(const struct cli_command *cmd, int argc, char **argv)
{
    const struct opt_command *chosen = cmd->usage;
    int code = CLI_USAGE;

    if (cmd->subs) {
        chosen = opt_choose(cmd->usage, argc, argv, &code);
    }
    if (chosen == cmd->usage) {
        return run_command(cmd, argc, argv);
    }
    for (size_t i = 0; chosen && i < cmd->usage->n_subs; i++) {
        assert(cmd->subs[i].usage == cmd->usage->subs[i]);
        if (cmd->subs[i].usage == chosen) {
            code = run_command(&cmd->subs[i], argc - 1, argv + 1);
        }
    }
    return code;
}

enum err cli_table(const struct cli *c, struct table **out, bool live,
                   const struct table_column *columns, size_t n, const char *const *yields)
{
    const char *order = opt_value(c->args, "sort");
    struct errmsg why = {""};
    struct table *t;
    enum err e = table_begin(&t, stdout, c->format, live, columns, n);

    if (e) {
        return e;
    }
    table_times(t, c->settings.local ? times_format_local : clk_format_utc);
    table_fit(t, yields, opt_flag(c->args, "wide"));
    if (opt_flag(c->args, "envelope")) {
        table_envelope(t);
    }
    e = order ? table_sort(t, order, &why) : ERR_OK;
    if (e) {
        table_drop(t);
        cli_tell(c, "%s", why.text[0] ? why.text : err_text(e));
        return ERR_USAGE;
    }
    *out = t;
    return ERR_OK;
}

int cli_table_failed(const struct cli *c, enum err e)
{
    return e == ERR_USAGE ? (int)CLI_USAGE : cli_fail(c, CLI_FAILED, "%s", err_text(e));
}

void cli_table_range(const struct cli *c, struct table *t, int64_t since_ns, int64_t until_ns,
                     bool moment)
{
    const char *(*format)(char *, size_t, int64_t, int) =
        c->settings.local ? times_format_local : clk_format_utc;
    char since[2 * CLK_TEXT], until[2 * CLK_TEXT], text[6 * CLK_TEXT];

    if (c->format != TABLE_AS_TABLE || since_ns >= until_ns) {
        return;
    }
    (void)format(since, sizeof since, since_ns, 0);
    (void)format(until, sizeof until, until_ns, 0);
    (void)snprintf(text, sizeof text, "%s %s%s%s, times %s", moment ? "at" : "from",
                   moment ? "" : since, moment ? "" : " to ", until,
                   c->settings.local ? "of this machine's zone" : "in UTC");
    table_note(t, str_make(text));
}

enum err cli_number(const struct cli *c, const char *option, uint32_t def, uint32_t max,
                    uint32_t *out, struct errmsg *why)
{
    const char *text = opt_value(c->args, option);
    uint64_t v = def;

    if (text && opt_number(&v, text, max) != ERR_OK) {
        return errmsg_set(why, ERR_USAGE, "--%s: '%s' is not a number from 0 to %u", option, text,
                          (unsigned)max);
    }
    *out = (uint32_t)v;
    return ERR_OK;
}

void cli_events(const struct cli *c, struct wire_events *out)
{
    out->provider = str_make(opt_value(c->args, "provider"));
    out->event = str_make(opt_value(c->args, "event"));
    out->where = str_make(opt_value(c->args, "where"));
}

enum err cli_moment(const struct cli *c, const char *option, int64_t now_ns, int64_t *out,
                    struct errmsg *why)
{
    const char *text = opt_value(c->args, option);
    struct errmsg wrong = {""};

    if (text && times_parse(out, text, now_ns, c->settings.local, &wrong)) {
        return errmsg_set(why, ERR_USAGE, "--%s: %s", option, wrong.text);
    }
    return ERR_OK;
}

uint8_t cli_word(const struct cli *c, const char *option, uint8_t def)
{
    return (uint8_t)opt_word(c->args, c->cmd, option, def);
}

/* Names from options; one alone, or of the environment or the profile, is `host`. */
static void read_hosts(const struct cli *c, struct wire_query *q)
{
    const char *names[WIRE_HOSTS_MAX];
    size_t n = opt_values(c->args, "host", names, WIRE_HOSTS_MAX);

    if (n < 2) {
        q->host = str_make(c->settings.host);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        q->hosts[q->n_hosts++] = str_make(names[i]);
    }
}

static enum err read_labels(const struct cli *c, struct wire_query *q, struct errmsg *why)
{
    const char *given[OPT_MANY_MAX];
    size_t n = opt_values(c->args, "label", given, OPT_MANY_MAX);

    if (n > INVENTORY_LABELS_MAX) {
        return errmsg_set(why, ERR_USAGE, "--label: at most %d", INVENTORY_LABELS_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        const char *equal = strchr(given[i], '=');
        struct label *l = &q->labels[q->n_labels++];

        if (!equal) {
            return errmsg_set(why, ERR_USAGE, "--label: '%s' is not KEY=GLOB, as rack=3", given[i]);
        }
        l->key = (struct str){given[i], (size_t)(equal - given[i])};
        l->value = str_make(equal + 1);
        if (!inventory_key_ok(l->key)) {
            return errmsg_set(why, ERR_USAGE,
                              "--label: '%.*s' is no key of a label: small letters, digits, _ . -",
                              (int)l->key.n, l->key.p);
        }
    }
    return ERR_OK;
}

static enum err read_class(const struct cli *c, struct wire_query *q, struct errmsg *why)
{
    const char *list = opt_value(c->args, "class"), *keys[HOST_CLASS_KEYS + 1];
    struct errmsg wrong = {""};

    if (list && host_class_parse(keys, list, &wrong) != ERR_OK) {
        return errmsg_set(why, ERR_USAGE, "--class: %s", wrong.text);
    }
    for (; list && keys[q->n_class]; q->n_class++) {
        q->class_keys[q->n_class] = str_make(keys[q->n_class]);
    }
    return ERR_OK;
}

enum err cli_query(const struct cli *c, struct wire_query *q, uint32_t default_limit,
                   struct errmsg *why)
{
    int64_t now_ns = os_utc_ns();
    enum err e;

    memset(q, 0, sizeof *q);
    read_hosts(c, q);
    q->run = str_make(opt_value(c->args, "run"));
    q->name = str_make(opt_value(c->args, "name"));
    q->events.where = str_make(opt_value(c->args, "where"));
    e = read_labels(c, q, why);
    e = e ? e : read_class(c, q, why);
    if (!e && q->events.where.n > WIRE_WHERE_MAX) {
        e = errmsg_set(why, ERR_USAGE, "--where: at most %u bytes", WIRE_WHERE_MAX);
    }
    e = e ? e : cli_moment(c, "since", now_ns, &q->since_ns, why);
    if (!e) {
        e = cli_moment(c, "until", now_ns, &q->until_ns, why);
    }
    if (!e && q->since_ns && q->until_ns && q->since_ns >= q->until_ns) {
        e = errmsg_set(why, ERR_USAGE, "--since lies behind --until");
    }
    if (!e) {
        q->has_pid = opt_value(c->args, "pid") != NULL;
        e = cli_number(c, "pid", 0, UINT32_MAX, &q->pid, why);
    }
    if (!e) {
        e = cli_number(c, "limit", default_limit, 1000000, &q->limit, why);
    }
    if (!e && q->limit == 0) {
        e = errmsg_set(why, ERR_USAGE, "--limit: at least 1");
    }
    return e;
}
