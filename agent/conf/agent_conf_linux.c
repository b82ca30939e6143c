#include "agent/conf/agent_conf_host.h"

#include "common/base/mem.h"

const char agent_conf_state_dir[] = "/var/lib/procfleet-agent";

enum err agent_conf_expand(char **out, const char *text)
{
    char *copy = mem_strdup(text);

    if (!copy) {
        return ERR_NOMEM;
    }
    *out = copy;
    return ERR_OK;
}
