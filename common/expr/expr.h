/* The one small language of filters (--where) and rules: compare fields, combine with and, or, not.
 *
 *     exit != 0 and life < 1s        command ~ "*build 123*"        label.rack in ["3", "4"]
 *
 *     or   = and {"or" and}        and = not {"and" not}        not = ["not"] cmp
 *     cmp  = sum [("<"|"<="|">"|">="|"=="|"!="|"~"|"!~"|"in") sum]
 *     sum  = mul {("+"|"-") mul}   mul = val {("*"|"/") val}
 *     val  = ["-"] number[unit] | "text" | word | `word` | list | fn "(" field ["," span] ")" |
 *            "(" or ")"            list = "[" item {"," item} "]"
 *
 * A word is a field or a set of the environment, or one of the words a field is compared with
 * (`ended == crash`). Numbers carry a dimension: time, bytes, shares (%), rates ("/s"); 0 has every
 * one. Text is compared byte for byte; `~` is a glob (glob.h). What is not known makes a comparison
 * unknown; and, or, not are Kleene's.
 * Bounds:  EXPR_TEXT_MAX bytes, EXPR_NODES_MAX nodes, EXPR_DEPTH_MAX parentheses in each other.
 * Threads: any; a compiled expression is only read. Nothing is allocated, ever. */
#ifndef PROCFLEET_COMMON_EXPR_EXPR_H
#define PROCFLEET_COMMON_EXPR_EXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/base/str.h"
#include "common/expr/expr_quantity.h"

#define EXPR_TEXT_MAX  1024
#define EXPR_NODES_MAX 64
#define EXPR_DEPTH_MAX 16

enum expr_type {
    EXPR_TYPE_UNKNOWN, /* a value that is not there */
    EXPR_TYPE_BOOL,
    EXPR_TYPE_NUMBER,
    EXPR_TYPE_TEXT,
    EXPR_TYPE_ANY /* of a field: each value says which; what does not fit is unknown */
};

/* A number is in ns, bytes or parts of 1, by its dimension; 64 bits of a whole one are exact. */
struct expr_value {
    enum expr_type type;
    long double number; /* BOOL: 0 or 1 */
    struct str text;    /* borrowed until expr_run returns, or longer */
};

struct expr_field {
    uint32_t slot; /* the environment's own number: what expr_run asks for */
    enum expr_type type;
    struct expr_dim dim;
    const char *const *words; /* TEXT: what it may be, NULL at the end; NULL: anything */
};

enum expr_fn {
    EXPR_AVG,
    EXPR_MIN,
    EXPR_MAX,
    EXPR_LAST,
    EXPR_RATE,
    EXPR_GROWTH,
    EXPR_STEADY,
    EXPR_COUNT,
    EXPR_STARTS,
    EXPR_ENDS,
    EXPR_FAILED,
    EXPR_CRASHES,
    EXPR_PEAK
};

/* What an expression can speak of. Names are asked for once, when it is compiled. */
struct expr_env {
    void *ctx;
    /* false: there is no such field */
    bool (*field)(void *ctx, struct str name, struct expr_field *out);
    /* A named set of texts, which stays as long as the expression; NULL: there are none. */
    bool (*set)(void *ctx, struct str name, const struct str **items, size_t *n);
    /* A function over a span (0: none was said) of a field; NULL: there are none. Sets type and
     * dim of what comes out. Errors: ERR_INVALID (why: what is wrong, without a column) */
    enum err (*call)(void *ctx, enum expr_fn fn, const struct expr_field *of, int64_t span_ns,
                     struct expr_field *out, struct errmsg *why);
    /* The likeliest meant name, or NULL; the function may be NULL. */
    const char *(*closest)(void *ctx, struct str name);
};

/* -- compiled: plain data, may be copied -- */

struct expr_op {
    uint16_t code;  /* enum expr_code */
    uint16_t count; /* constants of a list, or where a jump goes */
    uint32_t arg;   /* slot, constant, the list's first one, or set */
};

struct expr_const {
    long double number;
    uint16_t at, n; /* text: bytes of `text` */
    uint8_t type;   /* enum expr_type */
};

struct expr_set {
    const struct str *items; /* the environment's */
    size_t n;
};

#define EXPR_OPS_MAX  (2 * EXPR_NODES_MAX)
#define EXPR_SETS_MAX 8

struct expr {
    uint16_t n_ops, n_consts, n_text, n_sets;
    struct expr_op ops[EXPR_OPS_MAX];
    struct expr_const consts[EXPR_NODES_MAX];
    struct expr_set sets[EXPR_SETS_MAX];
    char text[EXPR_TEXT_MAX];
};

/* Parses, checks and compiles a condition.
 * out     the caller's; written only on ERR_OK
 * column  of the error, in characters, from 1; may be NULL
 * Errors: ERR_INVALID (why: what is wrong), ERR_RANGE (too long, too many nodes, too deep) */
NODISCARD enum err expr_compile(struct expr *out, struct str text, const struct expr_env *env,
                                size_t *column, struct errmsg *why);

enum expr_truth { EXPR_FALSE, EXPR_TRUE, EXPR_UNKNOWN };

/* Supplies a field's value; EXPR_TYPE_UNKNOWN where it has none. */
typedef void (*expr_get)(void *ctx, uint32_t slot, struct expr_value *out);

enum expr_truth expr_run(const struct expr *x, expr_get get, void *ctx);

/* The number that the field of this slot is compared with, where it is compared with one; the first
 * of them. */
bool expr_limit(const struct expr *x, uint32_t slot, long double *number);

/* The first field of a slot below this, if there is one. */
bool expr_field_below(const struct expr *x, uint32_t end, uint32_t *slot);

const char *expr_fn_name(enum expr_fn fn);

/* Makers of values, for `get`. */
static inline struct expr_value expr_number(long double number)
{
    return (struct expr_value){.type = EXPR_TYPE_NUMBER, .number = number};
}

static inline struct expr_value expr_text(struct str text)
{
    return (struct expr_value){.type = EXPR_TYPE_TEXT, .text = text};
}

static inline struct expr_value expr_bool(bool b)
{
    return (struct expr_value){.type = EXPR_TYPE_BOOL, .number = b};
}

#endif
