#include <math.h>

#include "common/base/glob.h"
#include "common/expr/expr.h"
#include "common/expr/expr_code.h"

static struct expr_value truth_value(enum expr_truth t)
{
    return t == EXPR_UNKNOWN ? (struct expr_value){0} : expr_bool(t == EXPR_TRUE);
}

static enum expr_truth truth_of(const struct expr_value *v)
{
    if (v->type != EXPR_TYPE_BOOL) {
        return EXPR_UNKNOWN;
    }
    return v->number != 0 ? EXPR_TRUE : EXPR_FALSE;
}

static enum expr_truth truth_not(enum expr_truth t)
{
    return t == EXPR_UNKNOWN ? t : t == EXPR_TRUE ? EXPR_FALSE : EXPR_TRUE;
}

static enum expr_truth truth_and(enum expr_truth a, enum expr_truth b)
{
    if (a == EXPR_FALSE || b == EXPR_FALSE) {
        return EXPR_FALSE;
    }
    return a == EXPR_TRUE && b == EXPR_TRUE ? EXPR_TRUE : EXPR_UNKNOWN;
}

static bool is_number(const struct expr_value *v)
{
    return v->type == EXPR_TYPE_NUMBER || v->type == EXPR_TYPE_BOOL;
}

static enum expr_truth truth_make(bool b)
{
    return b ? EXPR_TRUE : EXPR_FALSE;
}

static enum expr_truth numbers_compare(unsigned code, long double a, long double b)
{
    switch (code) {
    case EXPR_OP_LT:
        return truth_make(a < b);
    case EXPR_OP_LE:
        return truth_make(a <= b);
    case EXPR_OP_GT:
        return truth_make(a > b);
    case EXPR_OP_GE:
        return truth_make(a >= b);
    case EXPR_OP_EQ:
        return truth_make(a == b);
    case EXPR_OP_NE:
        return truth_make(a != b);
    default:
        return EXPR_UNKNOWN;
    }
}

static enum expr_truth texts_compare(unsigned code, struct str a, struct str b)
{
    switch (code) {
    case EXPR_OP_EQ:
        return truth_make(str_eq(a, b));
    case EXPR_OP_NE:
        return truth_make(!str_eq(a, b));
    case EXPR_OP_LIKE:
        return truth_make(glob_match(b, a));
    case EXPR_OP_UNLIKE:
        return truth_make(!glob_match(b, a));
    default:
        return EXPR_UNKNOWN;
    }
}

static enum expr_truth values_compare(unsigned code, const struct expr_value *a,
                                      const struct expr_value *b)
{
    if (is_number(a) && is_number(b)) {
        return numbers_compare(code, a->number, b->number);
    }
    if (a->type == EXPR_TYPE_TEXT && b->type == EXPR_TYPE_TEXT) {
        return texts_compare(code, a->text, b->text);
    }
    return EXPR_UNKNOWN;
}

static struct expr_value values_combine(unsigned code, const struct expr_value *a,
                                        const struct expr_value *b)
{
    long double r;

    if (a->type != EXPR_TYPE_NUMBER || b->type != EXPR_TYPE_NUMBER) {
        return (struct expr_value){0};
    }
    switch (code) {
    case EXPR_OP_ADD:
        r = a->number + b->number;
        break;
    case EXPR_OP_SUB:
        r = a->number - b->number;
        break;
    case EXPR_OP_MUL:
        r = a->number * b->number;
        break;
    default:
        if (b->number == 0) {
            return (struct expr_value){0};
        }
        r = a->number / b->number;
        break;
    }
    return __builtin_isfinite(r) ? expr_number(r) : (struct expr_value){0};
}

static struct expr_value const_value(const struct expr *x, uint32_t i)
{
    const struct expr_const *c = &x->consts[i];

    return (struct expr_value){
        .type = c->type, .number = c->number, .text = {x->text + c->at, c->n}};
}

static enum expr_truth in_list(const struct expr *x, const struct expr_op *op,
                               const struct expr_value *v)
{
    bool comparable = false;

    for (uint32_t i = op->arg; i < op->arg + op->count; i++) {
        struct expr_value item = const_value(x, i);
        enum expr_truth t = values_compare(EXPR_OP_EQ, v, &item);

        if (t == EXPR_TRUE) {
            return t;
        }
        comparable = comparable || t == EXPR_FALSE;
    }
    return comparable ? EXPR_FALSE : EXPR_UNKNOWN;
}

static enum expr_truth in_set(const struct expr_set *set, const struct expr_value *v)
{
    if (v->type != EXPR_TYPE_TEXT) {
        return EXPR_UNKNOWN;
    }
    for (size_t i = 0; i < set->n; i++) {
        if (str_eq(set->items[i], v->text)) {
            return EXPR_TRUE;
        }
    }
    return EXPR_FALSE;
}

/* One with two operands: the second is v[1], the result takes the first one's place. */
static void run_two(unsigned code, struct expr_value *v)
{
    if (code == EXPR_OP_AND) {
        v[0] = truth_value(truth_and(truth_of(&v[0]), truth_of(&v[1])));
    } else if (code == EXPR_OP_OR) {
        v[0] = truth_value(
            truth_not(truth_and(truth_not(truth_of(&v[0])), truth_not(truth_of(&v[1])))));
    } else if (code >= EXPR_OP_ADD) {
        v[0] = values_combine(code, &v[0], &v[1]);
    } else {
        v[0] = truth_value(values_compare(code, &v[0], &v[1]));
    }
}

static void run_one(const struct expr *x, const struct expr_op *op, struct expr_value *v)
{
    switch (op->code) {
    case EXPR_OP_NOT:
        *v = truth_value(truth_not(truth_of(v)));
        break;
    case EXPR_OP_NEG:
        *v = v->type == EXPR_TYPE_NUMBER ? expr_number(-v->number) : (struct expr_value){0};
        break;
    case EXPR_OP_IN_LIST:
        *v = truth_value(in_list(x, op, v));
        break;
    default:
        *v = truth_value(in_set(&x->sets[op->arg], v));
        break;
    }
}

enum expr_truth expr_run(const struct expr *x, expr_get get, void *ctx)
{
    struct expr_value stack[EXPR_NODES_MAX];
    size_t n = 0;

    for (size_t i = 0; i < x->n_ops;) {
        const struct expr_op *op = &x->ops[i++];

        switch (op->code) {
        case EXPR_OP_CONST:
            stack[n++] = const_value(x, op->arg);
            break;
        case EXPR_OP_FIELD:
            stack[n] = (struct expr_value){0};
            get(ctx, op->arg, &stack[n++]);
            break;
        case EXPR_OP_IF:
        case EXPR_OP_IF_NOT:
            if (truth_of(&stack[n - 1]) == (op->code == EXPR_OP_IF ? EXPR_TRUE : EXPR_FALSE)) {
                i = op->count;
            }
            break;
        case EXPR_OP_NOT:
        case EXPR_OP_NEG:
        case EXPR_OP_IN_LIST:
        case EXPR_OP_IN_SET:
            run_one(x, op, &stack[n - 1]);
            break;
        default:
            n--;
            run_two(op->code, &stack[n - 1]);
            break;
        }
    }
    return n ? truth_of(&stack[n - 1]) : EXPR_UNKNOWN;
}
