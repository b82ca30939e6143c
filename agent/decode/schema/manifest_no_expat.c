#include "agent/decode/schema/manifest.h"

void manifest_parse(struct manifest *m, const char *xml, size_t n)
{
    (void)xml;
    (void)n;
    m->bad = ERR_UNSUPPORTED;
}
