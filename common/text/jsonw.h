/* Writes one JSON document value by value, in constant memory: to a stream or into a buffer. It is
 * the only writer of JSON. Numbers beyond MODEL_JSON_EXACT are strings of digits. A document always
 * parses and steers no terminal: text that is not UTF-8 is repaired with U+FFFD, what is not
 * utf8_harmless is escaped. Threads: one owner. Caller's storage, without memory of its own.
 * Errors: those of the stream (ferror) or of the buffer (`bad`), which the user looks at. */
#ifndef PROCFLEET_COMMON_TEXT_JSONW_H
#define PROCFLEET_COMMON_TEXT_JSONW_H

#include <stdio.h>

#include "common/base/buf.h"
#include "common/model/model.h"

#define JSONW_DEPTH 64 /* deeper levels are left out, with everything in them */

/* Instead of a document: each text, number and truth value with its path, whose parts are joined by
 * dots and are numbers from 0 within arrays. Plain data, the user's until the document ends. */
struct jsonw_leaves {
    void (*leaf)(void *ctx, struct str path,
                 struct str value); /* value: bytes as they were given */
    void *ctx;
    struct buf path; /* of the user; once it is `bad` no leaf comes any more */
    size_t ends[JSONW_DEPTH + 1];
    uint64_t next[JSONW_DEPTH + 1];
};

struct jsonw {
    FILE *to;                    /* or, when NULL, into `text` */
    struct buf *text;            /* borrowed */
    struct jsonw_leaves *leaves; /* or, when not NULL, to this; borrowed */
    unsigned pretty; /* levels printed with one member a line; the rest stands on one line */
    bool compact;    /* no spaces; control characters in their short forms ("\\n") */
    unsigned depth, hidden;
    uint64_t filled, array; /* a bit per level: has members; is an array */
};

void jsonw_init(struct jsonw *j, FILE *to, unsigned pretty);
void jsonw_init_buf(struct jsonw *j, struct buf *text);
void jsonw_init_leaves(struct jsonw *j, struct jsonw_leaves *leaves);

/* `key` is NULL within arrays and for the document itself. */
void jsonw_object(struct jsonw *j, const char *key);
void jsonw_array(struct jsonw *j, const char *key);
void jsonw_end(struct jsonw *j);
void jsonw_object_n(struct jsonw *j, struct str key); /* keys from outside */
void jsonw_array_n(struct jsonw *j, struct str key);

/* Numbers; beyond MODEL_JSON_EXACT strings of digits. What may well be beyond - times, spans,
 * identities - is always written by jsonw_wide, a string, so that programs see one type. */
void jsonw_uint(struct jsonw *j, const char *key, uint64_t v);
void jsonw_wide(struct jsonw *j, const char *key, uint64_t v);
void jsonw_int(struct jsonw *j, const char *key, int64_t v);
void jsonw_bool(struct jsonw *j, const char *key, bool v);
void jsonw_null(struct jsonw *j, const char *key);
void jsonw_text(struct jsonw *j, const char *key, struct str v);
/* Text that must not lose bytes, such as a file's name: when it is not UTF-8, what is not
 * utf8_harmless is written as people read it ("\\xff"). */
void jsonw_bytes(struct jsonw *j, const char *key, struct str v);
void jsonw_real(struct jsonw *j, const char *key, double v);     /* 15 digits; not finite: null */
void jsonw_raw(struct jsonw *j, const char *key, const char *v); /* JSON as it stands: a number */

void jsonw_uint_n(struct jsonw *j, struct str key, uint64_t v);
void jsonw_int_n(struct jsonw *j, struct str key, int64_t v);
void jsonw_text_n(struct jsonw *j, struct str key, struct str v);
void jsonw_raw_n(struct jsonw *j, struct str key, const char *v);

/* Milliseconds with the digits asked for, from ns: rounded half up. */
#define JSONW_MS_TEXT 40
const char *jsonw_ms(char text[JSONW_MS_TEXT], int64_t ns, int digits);

#endif
