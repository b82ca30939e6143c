/* 'service prepare': what an installer of Windows calls, whichever it is: a directory that nobody
 * else can have prepared, the configuration in it, and the host's identity. What is there already
 * is kept, so that it can be called again by an upgrade or a repair. */
#include <stdio.h>
#include <string.h>

#include "agent/cmd/agent_cmd.h"
#include "agent/service/service.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/os_owner.h"

#define CONFIG_MAX (64u << 10)
#define FILE_MAX   (1u << 20)
#define LINE_END   "\n"

static const struct opt opts[] = {
    {"data", 0, "DIR",
     "configuration, keys and state; must not be another program's; default: where the installed "
     "service has them, else %ProgramData%\\procfleet",
     false},
    {"programs", 0, "DIR",
     "where the service's programs are: refused when others can change it or anything in it",
     false},
    {"accept", 0, NULL,
     "files in it that others could change until now are kept and closed: you have looked at what "
     "they hold",
     false},
    {"account", 0, "NAME",
     "whom the service runs as, who may change it too; default: that of the service that is "
     "installed",
     false},
    {"collector", 0, "HOST[:PORT],...",
     "with this a configuration is written unless there is one: collector.addresses", false},
    {"line", 0, "TEXT", "one more line of that configuration, KEY: VALUE; may be repeated", true},
    {"settings", 0, "LINES", "more of them, with ; between them", false},
    {"token-file", 0, "FILE", "enrols the host unless it has a certificate: the token is in FILE",
     false},
    {"token", 0, "TOKEN", "the token itself, which others on this host can see while this runs",
     false},
    {"certs", 0, "DIR",
     "in place of a token: ca.pem, NAME.pem and NAME.key, as 'procfleet-collector pki issue' "
     "writes "
     "them",
     false},
    {"name", 0, "NAME", "name of this host; default: the machine's", false},
};

static int prepare_run(const struct opt_args *args);

const struct opt_command cmd_prepare_opts = {
    .program = "procfleet-agent service",
    .name = "prepare",
    .brief = "make the directory a Windows service works in, closed to others; and what it needs",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet-agent service prepare --data C:\\ProgramData\\procfleet\n"
        "  procfleet-agent service prepare --data C:\\ProgramData\\procfleet --collector "
        "collector.example --token-file token.txt\n"
        "\nA directory that is there is taken only when it and all that is in it belongs to the "
        "system, administrators or the service's account, nothing in it is a link, and no file "
        "in it could be changed by others.\n"
        "Exit codes: 0 done, 1 the directory cannot be trusted or made, 2 usage or a wrong "
        "setting, "
        "3 the collector was not reached, 4 not enrolled\n",
    .action = &(const struct opt_action){.judge = prepare_run},
};

struct prepare {
    const char *data, *programs, *account, *collector, *settings, *token, *token_file, *certs,
        *name;
    const char *lines[OPT_MANY_MAX];
    size_t n_lines;
    bool accept;
    struct service_installed installed;
    char machine[256];
    char *dir;              /* owned: data, when it was not given */
    char *config;           /* owned: its path */
    bool is_new;            /* we wrote it */
    struct agent_conf conf; /* as it says, once loaded */
    bool loaded;
};

/* An installer's property that was not set is "". */
static const char *prepare_value(const struct opt_args *args, const char *name)
{
    const char *value = opt_value(args, name);

    return value && value[0] ? value : NULL;
}

/* Of the installed service, or the default of state_dir. */
static enum err prepare_find_data(struct prepare *p, struct errmsg *why)
{
    const char *config = p->installed.config, *base = os_path_base(config);
    struct agent_conf conf;
    enum err e;

    if (base > config + 1) {
        p->dir = mem_strdup(config);
        if (p->dir) {
            p->dir[base - config - 1] = '\0';
        }
    } else {
        e = agent_conf_load(&conf, NULL, NULL, 0, why);
        if (e) {
            return e;
        }
        p->dir = mem_strdup(conf.state_dir);
        agent_conf_fini(&conf);
    }
    p->data = p->dir;
    return p->dir ? ERR_OK : errmsg_set(why, ERR_NOMEM, "out of memory");
}

static enum err prepare_read(struct prepare *p, const struct opt_args *args, struct errmsg *why)
{
    bool is_there = service_installed(&p->installed, NULL) == ERR_OK;

    p->data = prepare_value(args, "data");
    p->programs = prepare_value(args, "programs");
    p->account = prepare_value(args, "account");
    p->collector = prepare_value(args, "collector");
    p->settings = prepare_value(args, "settings");
    p->token = prepare_value(args, "token");
    p->token_file = prepare_value(args, "token-file");
    p->certs = prepare_value(args, "certs");
    p->name = prepare_value(args, "name");
    p->accept = opt_flag(args, "accept");
    p->n_lines = opt_values(args, "line", p->lines, OPT_MANY_MAX);
    if ((p->token != NULL) + (p->token_file != NULL) + (p->certs != NULL) > 1) {
        return errmsg_set(why, ERR_USAGE, "--token, --token-file and --certs: only one of them");
    }
    if (!p->name && os_host_name(p->machine, sizeof p->machine) == ERR_OK) {
        p->name = p->machine;
    }
    if (!p->account && is_there && p->installed.account[0]) {
        p->account = p->installed.account;
    }
    if (!p->data) {
        enum err e;

        p->installed.config[0] = is_there ? p->installed.config[0] : '\0';
        e = prepare_find_data(p, why);
        if (e) {
            return e;
        }
    }
    p->config = os_path_join(p->data, "agent.yaml");
    return p->config ? ERR_OK : errmsg_set(why, ERR_NOMEM, "out of memory");
}

/* -- the configuration -- */

static void prepare_quote(struct buf *out, const char *text)
{
    buf_put_u8(out, '\'');
    for (; *text; text++) {
        buf_put(out, *text == '\'' ? "''" : text, *text == '\'' ? 2 : 1);
    }
    buf_put_u8(out, '\'');
}

static void prepare_settings(struct buf *out, const char *text)
{
    while (text && *text) {
        size_t n;

        text += strspn(text, "; ");
        n = strcspn(text, ";");
        buf_put(out, text, n);
        buf_put_str(out, LINE_END);
        text += n;
    }
}

static enum err prepare_write_config(const struct prepare *p, const char *path, struct errmsg *why)
{
    struct buf text;
    enum err e;

    buf_init(&text, CONFIG_MAX);
    buf_put_str(&text,
                "# Every setting: agent.sample.yaml beside the programs." LINE_END "state_dir: ");
    prepare_quote(&text, p->data);
    buf_printf(&text, LINE_END "collector.addresses: [%s]" LINE_END, p->collector);
    for (size_t i = 0; i < p->n_lines; i++) {
        buf_printf(&text, "%s" LINE_END, p->lines[i]);
    }
    prepare_settings(&text, p->settings);
    e = text.bad ? text.bad : os_write_file(path, text.p, text.n, false);
    buf_fini(&text);
    return e ? errmsg_set(why, e, "%s cannot be written: %s", path, err_text(e)) : ERR_OK;
}

/* Under another name until it has been read: one that is wrong must not stand in the way of the
 * next try. */
static enum err prepare_config(struct prepare *p, struct errmsg *why)
{
    char *path;
    enum err e;

    if (os_exists(p->config) || !p->collector) {
        return ERR_OK;
    }
    path = os_path_join(p->data, "agent.yaml.new");
    if (!path) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    e = prepare_write_config(p, path, why);
    if (!e) {
        struct agent_conf conf;

        e = agent_conf_load(&conf, path, NULL, 0, why);
        if (!e) {
            agent_conf_fini(&conf);
            e = os_rename(path, p->config);
            p->is_new = !e;
            e = e ? errmsg_set(why, e, "%s cannot be written: %s", p->config, err_text(e)) : ERR_OK;
        } else {
            err_ignore(os_remove(path));
            e = e == ERR_NOMEM ? e : ERR_USAGE;
        }
    }
    mem_free(path);
    return e;
}

/* -- the identity -- */

static enum err prepare_copy(const char *to, const char *dir, const char *name, const char *suffix,
                             struct errmsg *why)
{
    char file[300];
    char *from;
    uint8_t *p;
    size_t n;
    enum err e;

    (void)snprintf(file, sizeof file, "%s%s", name, suffix);
    from = os_path_join(dir, file);
    if (!from) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    e = os_read_file(&p, &n, from, FILE_MAX);
    if (e) {
        e = errmsg_set(why, ERR_USAGE, "%s: %s; see --certs and --name", from, os_read_text(e));
    } else {
        e = os_write_file(to, p, n, true);
        memset(p, 0, n);
        mem_free(p);
        e = e ? errmsg_set(why, e, "%s cannot be written: %s", to, err_text(e)) : ERR_OK;
    }
    mem_free(from);
    return e;
}

static enum err prepare_certs(const struct prepare *p, struct errmsg *why)
{
    char *tls = os_path_join(p->data, "tls");
    enum err e = tls ? os_mkdirs(tls, true) : ERR_NOMEM;

    mem_free(tls);
    if (e) {
        return errmsg_set(why, e, "%s\\tls cannot be made: %s", p->data, err_text(e));
    }
    e = prepare_copy(p->conf.ca, p->certs, "ca", ".pem", why);
    e = e ? e : prepare_copy(p->conf.cert, p->certs, p->name, ".pem", why);
    return e ? e
             : prepare_copy(p->conf.key, p->certs, p->name, ".key", why); /* the last: complete */
}

/* The exit code of 'enroll', where "failed" and "usage" are a token that is none. */
static int prepare_enroll(const struct prepare *p)
{
    char config[] = "--config", file[] = "--token-file", token[] = "--token", name[] = "--name";
    char *argv[] = {config,
                    p->config,
                    p->token ? token : file,
                    (char *)(p->token ? p->token : p->token_file),
                    name,
                    (char *)p->name};
    struct opt_args *args = NULL;
    struct errmsg why = {""};
    enum err e = opt_parse(&args, &cmd_enroll_opts, p->name ? 6 : 4, argv, &why);
    int code = e ? agent_cmd_fail(e, why.text) : cmd_enroll_opts.action->judge(args);

    opt_free(args);
    return code == AGENT_CMD_OK || code == AGENT_CMD_UNREACHABLE ? code : AGENT_CMD_REFUSED;
}

static int prepare_identity(struct prepare *p)
{
    struct errmsg why = {""};
    enum err e;

    if (!os_exists(p->config)) { /* the directory alone was asked for */
        return p->token || p->token_file || p->certs
                   ? agent_cmd_fail(ERR_USAGE, "--collector is needed, there is no agent.yaml yet")
                   : AGENT_CMD_OK;
    }
    e = agent_conf_load(&p->conf, p->config, NULL, 0, &why);
    if (e) {
        return agent_cmd_fail(ERR_USAGE, why.text);
    }
    p->loaded = true;
    if (os_exists(p->conf.key)) {
        return AGENT_CMD_OK;
    }
    if (p->certs) {
        e = prepare_certs(p, &why);
        return e ? agent_cmd_fail(e, why.text) : AGENT_CMD_OK;
    }
    if (p->token || p->token_file) {
        return prepare_enroll(p);
    }
    return agent_cmd_fail(ERR_USAGE, "--token-file, --token or --certs is needed: this host has no "
                                     "certificate yet");
}

/* What is made on the way belongs to others than the service's account; the second time it is all
 * his. */
static int prepare(struct prepare *p)
{
    struct errmsg why = {""};
    enum err e = p->programs ? os_owner_check_programs(p->programs, &why) : ERR_OK;
    int code;

    e = e || !p->programs ? e : os_owner_check_above(p->programs, &why);
    e = e ? e : os_owner_claim(p->data, p->account, p->accept, &why);
    e = e ? e : prepare_config(p, &why);
    if (e) {
        return agent_cmd_fail(e, why.text);
    }
    code = prepare_identity(p);
    if (code == AGENT_CMD_OK && os_owner_claim(p->data, p->account, false, &why)) {
        code = agent_cmd_fail(ERR_ACCESS, why.text);
    }
    if (code != AGENT_CMD_OK && p->is_new) {
        err_ignore(os_remove(p->config));
    }
    return code;
}

static int prepare_run(const struct opt_args *args)
{
    struct errmsg why = {""};
    struct prepare p = {.data = NULL};
    enum err e;
    int code;

    agent_cmd_also_note();
    e = prepare_read(&p, args, &why);
    code = e ? agent_cmd_fail(e, why.text) : prepare(&p);
    if (code == AGENT_CMD_OK) {
        puts("prepared");
    }
    if (p.loaded) {
        agent_conf_fini(&p.conf);
    }
    mem_free(p.config);
    mem_free(p.dir);
    return code;
}

char *agent_cmd_default_config(void)
{
    struct prepare p = {.data = NULL};
    struct errmsg why;
    char *path = NULL;

    if (service_installed(&p.installed, NULL)) {
        p.installed.config[0] = '\0';
    }
    if (prepare_find_data(&p, &why) == ERR_OK) {
        path = os_path_join(p.data, "agent.yaml");
    }
    mem_free(p.dir);
    return path;
}
