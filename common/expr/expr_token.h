/* An expression's text as tokens, and errors with their column. */
#ifndef PROCFLEET_COMMON_EXPR_EXPR_TOKEN_H
#define PROCFLEET_COMMON_EXPR_EXPR_TOKEN_H

#include "common/base/err.h"
#include "common/base/str.h"
#include "common/expr/expr_quantity.h"

enum expr_token_kind {
    TOKEN_END,
    TOKEN_NUMBER,
    TOKEN_TEXT,
    TOKEN_WORD,
    TOKEN_OPERATOR, /* code says which */
    TOKEN_CLOSE,
    TOKEN_LIST,
    TOKEN_LIST_END,
    TOKEN_COMMA
};

struct expr_token {
    enum expr_token_kind kind;
    size_t at, n; /* in the source, quotes included */
    unsigned code;
    long double number;
    struct expr_dim dim;
    struct str word; /* without back quotes */
    bool quoted;     /* it has some: no keyword */
};

#define EXPR_SHOWN_MAX 60 /* bytes of the source in an error */

struct expr_source {
    struct str text;
    size_t pos; /* behind the token */
    struct expr_token token;
    size_t *column;
    struct errmsg *why;
};

/* Sets the column of the byte `at`; returns e. */
NODISCARD enum err expr_token_fail(const struct expr_source *s, size_t at, enum err e);

#define EXPR_FAIL(s, at, ...) expr_token_fail(s, at, errmsg_set((s)->why, ERR_INVALID, __VA_ARGS__))
#define EXPR_MANY(s, at, ...) expr_token_fail(s, at, errmsg_set((s)->why, ERR_RANGE, __VA_ARGS__))

/* Reads the token at pos and goes behind it. Errors: ERR_INVALID */
NODISCARD enum err expr_token_next(struct expr_source *s);

#endif
