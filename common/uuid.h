/* UUIDs: hosts, boots, servers. Text form "01234567-89ab-cdef-0123-456789abcdef", read in either
 * case, written in lower case. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_UUID_H
#define PROCFLEET_COMMON_UUID_H

#include "common/err.h"
#include "common/model.h"

/* Exactly the text form and nothing behind it. Errors: ERR_INVALID */
NODISCARD enum err uuid_parse(struct uuid *u, const char *text);

/* Gives `text`. */
const char *uuid_format(char text[MODEL_UUID_TEXT], const struct uuid *u);

/* Version 4, from the system's generator. Errors: ERR_IO */
NODISCARD enum err uuid_random(struct uuid *u);

#endif
