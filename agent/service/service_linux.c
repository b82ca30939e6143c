#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/service/service.h"
#include "common/base/utf8.h"

#define ANY_CONFIG "/etc/procfleet/agent.yaml"

static enum err systemd_does(struct errmsg *why)
{
    return errmsg_set(why, ERR_UNSUPPORTED,
                      "on Linux systemd does this: 'procfleet-agent service unit "
                      ">/etc/systemd/system/" SERVICE_NAME
                      ".service', then 'systemctl daemon-reload' "
                      "and 'systemctl enable --now " SERVICE_NAME "'");
}

enum err service_install(const struct service_setup *what, struct buf *notes, struct errmsg *why)
{
    (void)what;
    (void)notes;
    return systemd_does(why);
}

enum err service_installed(struct service_installed *out, struct errmsg *why)
{
    (void)out;
    return systemd_does(why);
}

enum err service_uninstall(const uint8_t (*sessions)[16], size_t n_sessions, struct errmsg *why)
{
    (void)sessions;
    (void)n_sessions;
    return systemd_does(why);
}

enum err service_start(struct errmsg *why)
{
    return systemd_does(why);
}

enum err service_stop(struct errmsg *why)
{
    return systemd_does(why);
}

enum err service_status(struct buf *out, bool *running, struct errmsg *why)
{
    (void)out;
    (void)running;
    return systemd_does(why);
}

enum err service_run(const struct service_calls *calls, struct errmsg *why)
{
    (void)calls;
    return errmsg_set(why, ERR_UNSUPPORTED, "use 'procfleet-agent run'");
}

void service_note(enum service_note kind, const char *text)
{
    (void)kind;
    (void)text;
}

/* -- the unit -- */

/* packaging/procfleet-agent.service.in, made a text by agent/CMakeLists.txt. */
extern const char service_template[];

#define CONF_DIR "@PROCFLEET_CONF_DIR@"

/* Where this program and its configuration are: what the packages know when they are built. */
struct places {
    const char *exe, *config;
    size_t dir_n; /* of the configuration's directory */
};

static bool begins(const char *line, const char *with)
{
    return strncmp(line, with, strlen(with)) == 0;
}

static void put_line(struct buf *out, const struct places *p, const char *line, size_t n)
{
    const char *mark = strstr(line, CONF_DIR);

    if (begins(line, "Documentation=")) {
        return; /* files of the packages */
    }
    if (begins(line, "ExecStart=")) {
        buf_printf(out, "ExecStart=\"%s\" run --config \"%s\"", p->exe, p->config);
    } else if (begins(line, "ConditionPathExists=")) {
        buf_printf(out, "ConditionPathExists=%s", p->config);
    } else if (mark && mark < line + n) {
        buf_put(out, line, (size_t)(mark - line));
        buf_put(out, p->config, p->dir_n);
        mark += sizeof CONF_DIR - 1;
        buf_put(out, mark, (size_t)(line + n - mark));
    } else {
        buf_put(out, line, n);
    }
    buf_put_u8(out, '\n');
}

/* Whether systemd reads it in a unit as it stands. */
static bool is_plain(const char *path)
{
    return !strpbrk(path, "\"\\%$\n") && utf8_harmless(path, strlen(path)) == strlen(path);
}

enum err service_unit(struct buf *out, const char *config, struct errmsg *why)
{
    char exe[4096], here[4096] = "", path[8200];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    struct places p = {.exe = n > 0 ? exe : "/usr/local/bin/procfleet-agent", .config = path};

    exe[n > 0 ? n : 0] = '\0';
    if (config && config[0] != '/' && !getcwd(here, sizeof here)) { /* systemd begins in / */
        return errmsg_set(why, ERR_NOTFOUND, "--config takes the whole path of %s here", config);
    }
    if (snprintf(path, sizeof path, "%s%s%s", here, here[0] ? "/" : "",
                 config ? config : ANY_CONFIG) >= (int)sizeof path) {
        return errmsg_set(why, ERR_RANGE, "--config: too long");
    }
    if (!is_plain(path)) {
        return errmsg_set(why, ERR_USAGE,
                          "--config: a unit cannot name '%s': systemd reads \" \\ %% $ and line "
                          "ends in another way; give it a plain name",
                          path);
    }
    p.dir_n = (size_t)(strrchr(path, '/') - path);
    for (const char *line = service_template; *line;) {
        size_t length = strcspn(line, "\n");

        put_line(out, &p, line, length);
        line += length + (line[length] == '\n');
    }
    return out->bad ? errmsg_set(why, out->bad, "out of memory") : ERR_OK;
}
