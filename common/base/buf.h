/* A growable byte buffer with a maximum. Failure latches: after the first one `bad` holds the
 * error, later puts do nothing, and the caller checks once at the end. Threads: one owner.
 * Ownership: caller's storage, memory released by buf_fini. */
#ifndef PROCFLEET_COMMON_BASE_BUF_H
#define PROCFLEET_COMMON_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

struct buf {
    uint8_t *p;   /* content, valid until the next put */
    size_t n;     /* bytes used */
    size_t cap;   /* bytes allocated */
    size_t max;   /* never grows beyond */
    enum err bad; /* ERR_OK, ERR_NOMEM or ERR_FULL, the first failure */
};

void buf_init(struct buf *b, size_t max_bytes);
void buf_fini(struct buf *b);
void buf_reset(struct buf *b); /* empties, keeps the memory, clears the failure */

void buf_put(struct buf *b, const void *p, size_t n);
void buf_put_u8(struct buf *b, uint8_t v);
void buf_put_u16le(struct buf *b, uint16_t v);
void buf_put_u32le(struct buf *b, uint32_t v);
void buf_put_u64le(struct buf *b, uint64_t v);
void buf_put_varint(struct buf *b, uint64_t v); /* LEB128, 1 to 10 bytes */
void buf_put_svarint(struct buf *b, int64_t v); /* zigzag, then LEB128 */
void buf_put_str(struct buf *b, const char *s); /* bytes without the NUL */
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_put_utf16le(struct buf *b, const void *utf16le,
                     size_t n_units); /* as UTF-8; lone surrogates become U+FFFD */
uint8_t *buf_grow(struct buf *b,
                  size_t n); /* room for n more bytes, counted as used; NULL when bad */

/* Terminates with NUL (not counted) and returns the text; "" when bad. */
const char *buf_cstr(struct buf *b);

#endif
