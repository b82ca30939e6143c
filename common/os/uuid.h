/* UUIDs: hosts, boots, servers. Text form "01234567-89ab-cdef-0123-456789abcdef", read in either
 * case, written in lower case. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_OS_UUID_H
#define PROCFLEET_COMMON_OS_UUID_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define UUID_TEXT 37 /* bytes of the text form and NUL */

struct uuid {
    uint8_t b[16];
};

/* Exactly the text form and nothing behind it. Errors: ERR_INVALID */
NODISCARD enum err uuid_parse(struct uuid *u, const char *text);

/* Returns `text`. */
const char *uuid_format(char text[UUID_TEXT], const struct uuid *u);

/* A GUID as Windows has it in memory: the first three groups are numbers, lowest byte first.
 * Returns `text`. */
const char *uuid_format_guid(char text[UUID_TEXT], const uint8_t guid[16]);

/* Version 4, from the system's generator. Errors: ERR_IO */
NODISCARD enum err uuid_random(struct uuid *u);

/* Where `id` is, or is to be put, among n things in the order of their ids: the index of the first
 * that is not below it. id_at returns the id of the i-th. */
size_t uuid_search(const struct uuid *id, size_t n,
                   const struct uuid *(*id_at)(const void *ctx, size_t i), const void *ctx);

#endif
