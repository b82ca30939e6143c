#include "agent/decode/describe_self.h"

/* An EventSource's own, of one chunk or more. */
bool describe_self_manifests_is(const struct raw_event *raw)
{
    enum { ID = 0xfffe, HEAD = 8, FORMAT = 1, MAGIC = 0x5b };

    return raw->form == RAW_MANIFEST && raw->id == ID && raw->payload_n >= HEAD &&
           raw->payload[0] == FORMAT && raw->payload[3] == MAGIC;
}

enum err describe_self_manifests_create(struct manifests **out)
{
    *out = NULL;
    return ERR_OK;
}

void describe_self_manifests_destroy(struct manifests *ms)
{
    (void)ms;
}

enum err describe_self_manifests_learn(struct manifests *ms, struct schema *s,
                                       const struct raw_event *raw, uint64_t *events)
{
    (void)ms;
    (void)s;
    (void)raw;
    (void)events;
    return ERR_UNSUPPORTED;
}
