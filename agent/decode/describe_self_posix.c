#include "agent/decode/describe_self.h"

#include "agent/decode/schema/describe_manifest.h"
#include "common/base/mem.h"

bool describe_self_manifests_is(const struct raw_event *raw)
{
    return describe_manifest_is(raw);
}

enum err describe_self_manifests_create(struct manifests **out)
{
    *out = mem_zalloc(sizeof **out);
    if (!*out) {
        return ERR_NOMEM;
    }
    describe_manifest_init(*out);
    return ERR_OK;
}

void describe_self_manifests_destroy(struct manifests *ms)
{
    if (ms) {
        describe_manifest_fini(ms);
        mem_free(ms);
    }
}

enum err describe_self_manifests_learn(struct manifests *ms, struct schema *s,
                                       const struct raw_event *raw, uint64_t *events)
{
    uint64_t broken = 0;

    return describe_manifest_learn(ms, s, raw, events, &broken);
}
