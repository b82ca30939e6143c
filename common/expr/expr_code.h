/* What a compiled expression does, one after the other, on a stack of values. */
#ifndef PROCFLEET_COMMON_EXPR_EXPR_CODE_H
#define PROCFLEET_COMMON_EXPR_EXPR_CODE_H

enum expr_code {
    EXPR_OP_CONST,   /* arg: constant */
    EXPR_OP_FIELD,   /* arg: slot */
    EXPR_OP_IF_NOT,  /* the top is false: go on at `count`, it stays */
    EXPR_OP_IF,      /* the top is true: likewise */
    EXPR_OP_IN_LIST, /* arg, count: constants */
    EXPR_OP_IN_SET,  /* arg: set */
    /* from here on also the parser's operators */
    EXPR_OP_OR,
    EXPR_OP_AND,
    EXPR_OP_NOT,
    EXPR_OP_LT,
    EXPR_OP_LE,
    EXPR_OP_GT,
    EXPR_OP_GE,
    EXPR_OP_EQ,
    EXPR_OP_NE,
    EXPR_OP_LIKE,
    EXPR_OP_UNLIKE,
    EXPR_OP_IN,
    EXPR_OP_ADD,
    EXPR_OP_SUB,
    EXPR_OP_MUL,
    EXPR_OP_DIV,
    EXPR_OP_NEG,
    EXPR_OP_PAREN
};

#endif
