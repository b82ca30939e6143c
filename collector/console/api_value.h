/* Values of the API's JSON that more than one of its writers has. Threads: any; no state.
 * Private to collector/console. */
#ifndef PROCFLEET_COLLECTOR_CONSOLE_API_VALUE_H
#define PROCFLEET_COLLECTOR_CONSOLE_API_VALUE_H

#include <stdio.h>

#include "common/text/jsonw.h"

/* UTC ns, a string: JavaScript has 53 bits. */
static inline void api_value_ns(struct jsonw *j, const char *key, int64_t ns)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%lld", (long long)ns);
    jsonw_text(j, key, str_make(text));
}

/* ns as milliseconds with a fraction. */
static inline void api_value_ms(struct jsonw *j, const char *key, int64_t ns)
{
    char text[JSONW_MS_TEXT];

    jsonw_raw(j, key, jsonw_ms(text, ns, 3));
}

static inline void api_value_u32s(struct jsonw *j, const char *key, const uint32_t *v, size_t n)
{
    jsonw_array(j, key);
    for (size_t i = 0; i < n; i++) {
        jsonw_uint(j, NULL, v[i]);
    }
    jsonw_end(j);
}

#endif
