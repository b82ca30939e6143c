/* Any text as the agent's configuration: refused with a reason, or read into settings that are as
 * the table promises. */
#include <stdlib.h>
#include <string.h>

#include "agent/conf/agent_conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check(const struct etw_conf *v)
{
    uint64_t size = (uint64_t)v->buffers.max * v->buffers.kb;
    uint64_t high = (uint64_t)v->hi.max * v->hi.kb;

    if (v->buffers.min > v->buffers.max || v->hi.min > v->hi.max || size > v->pool_mib * 1024u ||
        high > v->pool_mib * 1024u || v->n_providers > ETW_CONF_PROVIDERS || v->flush_s < 1 ||
        (v->flush_ms && v->flush_ms < 5) || !v->samples_per_s ||
        strlen(v->session_name) > ETW_CONF_NAME_MAX) {
        abort();
    }
    for (size_t i = 0; i < v->n_providers; i++) {
        if (v->providers[i].level > 5 || v->providers[i].n_ids > SOURCE_PROVIDER_IDS) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    size_t n_keys;
    const struct conf_key *keys = agent_conf_keys(&n_keys);
    struct errmsg why = {""};
    struct etw_conf v;
    struct conf *c;
    enum err e;

    if (conf_create(&c, keys, n_keys)) {
        return 0;
    }
    e = conf_load_text(c, (const char *)p, n, "fuzz.yaml", &why);
    if (!e) {
        e = etw_conf_read(&v, c, &why);
    }
    if (!e) {
        check(&v);
    } else if (e != ERR_NOMEM && !why.text[0]) {
        abort(); /* a refusal without a reason */
    }
    conf_destroy(c);
    return 0;
}
