#include <string.h>

#include "agent/agent_source.h"
#include "agent/source/linux/proc_linux.h"

enum err agent_source_open_live(struct source **out, const struct agent_source_conf *conf,
                                struct source_sink sink, struct errmsg *why)
{
    struct proc_linux_conf proc = {
        .period_ns = conf->period_ns, .processes_max = conf->processes_max, .events = true};

    if (strcmp(conf->name, "auto") != 0 && strcmp(conf->name, "proc") != 0) {
        return errmsg_set(why, ERR_INVALID, "source: %s does not exist on Linux; use auto",
                          conf->name);
    }
    return proc_linux_open(out, &proc, sink, why);
}
