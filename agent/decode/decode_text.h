/* Text of records as UTF-8. Results live in the scratch memory until decode_text_reset, or are
 * borrowed from the payload where nothing had to be converted. Cutting happens between characters.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_DECODE_TEXT_H
#define PROCFLEET_AGENT_DECODE_TEXT_H

#include "common/model.h"

/* Enough for the texts of any one record: when it is full, text is cut. */
#define DECODE_TEXT_BYTES (MODEL_COMMAND_LINE_MAX + 3 * MODEL_TEXT_MAX)

struct decode_text {
    size_t n;
    char p[DECODE_TEXT_BYTES];
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

/* "S-1-5-18" of a SID whose 8 + 4 × p[1] bytes are all there. */
struct str decode_text_sid(struct decode_text *t, const uint8_t *sid);

#endif
