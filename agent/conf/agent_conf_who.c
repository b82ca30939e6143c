#include "agent/conf/agent_conf.h"

#include <stdio.h>

#include "common/base/mem.h"

static enum err read_pids(uint32_t *to, size_t *n, const struct conf *c, const char *key,
                          struct errmsg *why)
{
    const char *const *items;
    char text[120];

    *n = conf_list(c, key, &items);
    for (size_t i = 0; i < *n; i++) {
        if (process_filter_parse_pid(&to[i], items[i])) {
            (void)snprintf(text, sizeof text, "'%.60s' is not the number of a process", items[i]);
            return conf_wrong(c, key, why, text);
        }
    }
    return ERR_OK;
}

static enum err read_names(struct process_filter_list *to, const struct conf *c, const char *key,
                           struct errmsg *why)
{
    char text[160];

    to->n_names = conf_list(c, key, &to->names);
    for (size_t i = 0; i < to->n_names; i++) {
        if (process_filter_check_name(to->names[i])) {
            (void)snprintf(text, sizeof text,
                           "'%.60s' would fit no process: write the name without its folder",
                           to->names[i]);
            return conf_wrong(c, key, why, text);
        }
    }
    return ERR_OK;
}

enum err agent_conf_who(struct agent_conf *c, struct errmsg *why)
{
    enum err e;

    c->pids = mem_array(2u * PROCESS_FILTER_PIDS_MAX, sizeof *c->pids);
    if (!c->pids) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    c->who.only.pids = c->pids;
    c->who.except.pids = c->pids + PROCESS_FILTER_PIDS_MAX;
    c->who.except_system = conf_bool(c->raw, "process_filter.exclude_system_processes");
    e = read_pids(c->pids, &c->who.only.n_pids, c->raw, "process_filter.target_processes", why);
    if (!e) {
        e = read_pids(c->pids + PROCESS_FILTER_PIDS_MAX, &c->who.except.n_pids, c->raw,
                      "process_filter.exclude_pids", why);
    }
    if (!e) {
        e = read_names(&c->who.only, c->raw, "process_filter.target_process_names", why);
    }
    if (!e) {
        e = read_names(&c->who.except, c->raw, "process_filter.exclude_names", why);
    }
    return e;
}
