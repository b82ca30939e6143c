#include "agent/etl/schema/etl_schemas.h"

#include "agent/etl/schema/etl_known.h"

void etl_schemas_more(void *ctx, struct schema *s, const uint8_t guid[16])
{
    struct etl_schemas *from = ctx;
    struct str name;

    if (from->manifests) {
        err_ignore(etl_manifests_put(from->manifests, s, guid)); /* counted there */
    }
    err_ignore(etl_known_put(s, guid)); /* what is known already stays */
    name = etl_known_name(guid);
    if (name.n) {
        err_ignore(schema_put_provider(s, guid, name));
    }
}
