#include <unistd.h>

#include "agent/service/service.h"

#define ANY_CONFIG "/etc/procfleet/agent.yaml"

static enum err systemd_does(struct errmsg *why)
{
    return errmsg_set(why, ERR_UNSUPPORTED,
                      "on Linux systemd does this: 'procfleet-agent service unit "
                      ">/etc/systemd/system/" SERVICE_NAME
                      ".service', then 'systemctl daemon-reload' "
                      "and 'systemctl enable --now " SERVICE_NAME "'");
}

enum err service_install(const char *config, const char *account, struct buf *notes,
                         struct errmsg *why)
{
    (void)config;
    (void)account;
    (void)notes;
    return systemd_does(why);
}

enum err service_uninstall(struct errmsg *why)
{
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

/* The rights of docs/metrics-linux.md and no more; the state directory is made by systemd. */
enum err service_unit(struct buf *out, const char *config, struct errmsg *why)
{
    char exe[4096], here[4096] = "";
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

    exe[n > 0 ? n : 0] = '\0';
    if (config && config[0] != '/' && !getcwd(here, sizeof here)) { /* systemd begins in / */
        return errmsg_set(why, ERR_NOTFOUND, "--config takes the whole path of %s here", config);
    }
    buf_printf(out,
               "[Unit]\n"
               "Description=procfleet agent: process telemetry of this host\n"
               "After=network.target\n"
               "\n"
               "[Service]\n"
               "Type=notify\n"
               "NotifyAccess=main\n"
               "WatchdogSec=2min\n"
               "ExecStart=\"%s\" run --config \"%s%s%s\"\n"
               "Restart=on-failure\n"
               "RestartSec=5\n"
               "TimeoutStopSec=10\n"
               "StateDirectory=procfleet-agent\n"
               "StateDirectoryMode=0700\n"
               "AmbientCapabilities=CAP_NET_ADMIN CAP_SYS_PTRACE\n"
               "CapabilityBoundingSet=CAP_NET_ADMIN CAP_SYS_PTRACE CAP_DAC_READ_SEARCH\n"
               "NoNewPrivileges=yes\n"
               "ProtectSystem=strict\n"
               "ProtectHome=read-only\n"
               "\n"
               "[Install]\n"
               "WantedBy=multi-user.target\n",
               n > 0 ? exe : "/usr/local/bin/procfleet-agent", here, here[0] ? "/" : "",
               config ? config : ANY_CONFIG);
    return out->bad ? errmsg_set(why, out->bad, "out of memory") : ERR_OK;
}
