#include "agent/etl/schema/etl_schemas.h"

#include "agent/decode/schema/known_schemas.h"
#include "agent/etl/schema/etl_known.h"

void etl_schemas_more(void *ctx, struct schema *s, const uint8_t guid[16])
{
    struct etl_schemas *from = ctx;
    struct str name = etl_known_name(guid);

    if (from->manifests) {
        err_ignore(manifest_files_put(from->manifests, s, guid, name)); /* counted there */
    }
    err_ignore(known_schemas_put(s, guid)); /* what is known already stays */
    if (name.n) {
        err_ignore(schema_put_provider(s, guid, name));
    }
}
