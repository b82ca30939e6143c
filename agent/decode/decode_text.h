/* Text of records as UTF-8. Results live in the scratch memory until decode_text_reset, or are
 * borrowed from the payload where nothing had to be converted. Cutting happens between characters.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_DECODE_DECODE_TEXT_H
#define PROCFLEET_AGENT_DECODE_DECODE_TEXT_H

#include "common/base/cur.h"
#include "common/model/model.h"

/* Enough for all text of any one record (64 KiB of UTF-16): when it is full, text is cut. */
#define DECODE_TEXT_BYTES (3 * 32768)

struct decode_text {
    size_t n;
    char p[DECODE_TEXT_BYTES];
    int64_t totals[METRIC_COLS]; /* what struct ev_proc borrows beside text */
};

static inline void decode_text_reset(struct decode_text *t)
{
    t->n = 0;
}

/* UTF-16LE; lone surrogates become U+FFFD. *cut (may be NULL) tells whether max_bytes was too
 * little. */
struct str decode_text_utf16(struct decode_text *t, const uint8_t *utf16le, size_t n_units,
                             size_t max_bytes, bool *cut);

/* 8-bit text of an unknown code page: UTF-8 where it is valid, otherwise Latin-1. */
struct str decode_text_8bit(struct decode_text *t, const char *s, size_t n, size_t max_bytes);

/* Takes a SID from the cursor, as "S-1-5-18"; bad where none stands there. */
struct str decode_text_sid_at(struct decode_text *t, struct cur *c);

/* Takes a user as kernel records have it from the cursor: a u32 of 0 is nobody (empty text),
 * otherwise TOKEN_USER, two pointers of no meaning, and a SID. */
struct str decode_text_user_at(struct decode_text *t, struct cur *c, unsigned pointer_size);

#endif
