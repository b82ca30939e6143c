/* Patterns for host and image names: `*` any bytes, `?` one character, everything else itself,
 * ASCII letters in either case. Neither recursion nor memory; cost at most pattern × text. */
#ifndef PROCFLEET_COMMON_BASE_GLOB_H
#define PROCFLEET_COMMON_BASE_GLOB_H

#include <stdbool.h>

#include "common/base/str.h"

bool glob_match(struct str pattern, struct str text);

/* Whether some text that begins with this one would match: of a name whose end was cut off. */
bool glob_may_match(struct str pattern, struct str beginning);

/* Whether the text holds `*` or `?`, and is therefore more than a name. */
bool glob_is_pattern(struct str text);

#endif
