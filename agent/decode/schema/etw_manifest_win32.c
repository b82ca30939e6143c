#include "agent/decode/schema/etw_manifest.h"

void etw_manifest_parse(struct etw_manifest *m, const char *xml, size_t n)
{
    (void)xml;
    (void)n;
    m->bad = ERR_UNSUPPORTED;
}

enum err etw_manifest_stream(const struct etw_manifest_sink *sink)
{
    (void)sink;
    return ERR_UNSUPPORTED;
}
