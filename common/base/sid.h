/* Security identifiers of Windows as bytes: revision, number of parts, six bytes of authority, then
 * the parts, four bytes each. */
#ifndef PROCFLEET_COMMON_BASE_SID_H
#define PROCFLEET_COMMON_BASE_SID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SID_PARTS_MAX 15
#define SID_BYTES_MAX (8 + 4 * SID_PARTS_MAX)
#define SID_TEXT_SIZE 192 /* the longest and NUL */

/* Bytes of the SID at the start of p, which may go on; 0: there is none. */
size_t sid_bytes(const uint8_t *p, size_t n);

/* Its text, "S-1-5-18", NUL-terminated; returns the bytes without NUL, 0: no SID or no room. */
size_t sid_text(char *out, size_t size, const uint8_t *p, size_t n);

/* A SID's text as people know it: "SYSTEM" of S-1-5-18, which is the same on every Windows, and if
 * `brief` "S-1-5-21-…-1001" of an account. Returns the bytes without NUL, 0: show it as it is. */
size_t sid_people(char out[SID_TEXT_SIZE], const char *text, size_t n, bool brief);

#endif
