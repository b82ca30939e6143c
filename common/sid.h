/* Security identifiers of Windows as bytes: revision, number of parts, six bytes of authority, then
 * the parts, four bytes each. */
#ifndef PROCFLEET_COMMON_SID_H
#define PROCFLEET_COMMON_SID_H

#include <stddef.h>
#include <stdint.h>

#define SID_PARTS_MAX 15
#define SID_BYTES_MAX (8 + 4 * SID_PARTS_MAX)
#define SID_TEXT_SIZE 192 /* the longest and NUL */

/* Bytes of the SID at the start of p, which may go on; 0: there is none. */
size_t sid_bytes(const uint8_t *p, size_t n);

/* Its text, "S-1-5-18", NUL-terminated; gives the bytes without NUL, 0: no SID or no room. */
size_t sid_text(char *out, size_t size, const uint8_t *p, size_t n);

#endif
