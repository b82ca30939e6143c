#include "agent/etl/schema/etl_known.h"

#include <string.h>

#include "agent/etl/schema/etl_known_text.h"
#include "common/os/uuid.h"

struct str etl_known_name(const uint8_t guid[16])
{
    char text[UUID_TEXT];
    const char *p = strstr(etl_known_providers, uuid_format_guid(text, guid));

    if (!p) {
        return str_make("");
    }
    p += UUID_TEXT; /* and a blank */
    return (struct str){p, strcspn(p, "\n")};
}
