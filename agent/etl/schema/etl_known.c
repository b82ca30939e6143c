#include "agent/etl/schema/etl_known.h"

#include <string.h>

#include "agent/etl/schema/etl_known_text.h"
#include "common/os/uuid.h"

static const char *guid_text(char text[UUID_TEXT], const uint8_t guid[16])
{
    static const uint8_t from[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    struct uuid u;

    for (size_t i = 0; i < 16; i++) {
        u.b[i] = guid[from[i]];
    }
    return uuid_format(text, &u);
}

struct str etl_known_name(const uint8_t guid[16])
{
    char text[UUID_TEXT];
    const char *p = strstr(etl_known_providers, guid_text(text, guid));

    if (!p) {
        return str_make("");
    }
    p += UUID_TEXT; /* and a blank */
    return (struct str){p, strcspn(p, "\n")};
}
