/* From text to postfix in one pass, by operator precedence with a stack of operators and, for the
 * check of types, a stack of what the values will be. Neither recurses: both are bounded by the
 * number of nodes.
 *
 * and, or skip their right side when the left decides: a jump is emitted when the operator is read
 * and gets its goal when it is emitted. */
#include "common/expr/expr.h"

#include <stdio.h>

#include "common/base/utf8.h"
#include "common/expr/expr_code.h"
#include "common/expr/expr_token.h"

enum operand_kind {
    OPERAND_VALUE,
    OPERAND_FIELD,
    OPERAND_LITERAL,
    OPERAND_WORD, /* stands for itself, if the other side knows it */
    OPERAND_LIST,
    OPERAND_SET
};

/* What a value on the stack will be. */
struct operand {
    enum operand_kind kind;
    enum expr_type type;
    struct expr_dim dim;
    bool zero;                /* the number 0, of any dimension */
    const char *const *words; /* of a field */
    uint32_t first;           /* constants of a list; set */
    uint16_t count;
    size_t at, end; /* in the source */
};

struct pending {
    unsigned code;
    size_t at;
    size_t jump; /* of and, or: its op + 1 */
};

struct parser {
    struct expr_source in;
    const struct expr_env *env;
    struct expr *out;
    struct operand operands[EXPR_NODES_MAX];
    struct pending pending[EXPR_OPS_MAX];
    size_t n_operands, n_pending, depth, nodes;
};

static struct str source(const struct parser *p, size_t at, size_t end)
{
    struct str s = {p->in.text.p + at, end - at};

    while (s.n && s.p[s.n - 1] == ' ') {
        s.n--;
    }
    s.n = utf8_cut(s.p, s.n, EXPR_SHOWN_MAX);
    return s;
}

/* "a time", "bytes": for error texts. */
static const char *expr_dim_name(struct expr_dim dim)
{
    if (dim.share) {
        return "a share, as 25%";
    }
    switch (dim.time * 4 + dim.bytes) {
    case 0:
        return "a number without a unit";
    case 4:
        return "a time, as 10s";
    case 1:
        return "bytes, as 64MiB";
    case -4:
        return "a rate, as 5/s";
    case -3:
        return "bytes in a time, as 1MiB/s";
    default:
        return "of another unit";
    }
}

static const char *operand_name(const struct operand *o)
{
    if (o->kind == OPERAND_LIST || o->kind == OPERAND_SET) {
        return "a list";
    }
    switch (o->type) {
    case EXPR_TYPE_BOOL:
        return "true or false";
    case EXPR_TYPE_TEXT:
        return "a text";
    case EXPR_TYPE_NUMBER:
        return expr_dim_name(o->dim);
    default:
        return "any value";
    }
}

static enum err operand_wrong(struct parser *p, const struct operand *o, const char *wanted)
{
    struct str s = source(p, o->at, o->end);

    return EXPR_FAIL(&p->in, o->at, "%.*s is %s; wanted is %s", (int)s.n, s.p, operand_name(o),
                     wanted);
}

static enum err operands_differ(struct parser *p, const struct operand *a, const struct operand *b)
{
    struct str s = source(p, a->at, a->end), t = source(p, b->at, b->end);

    return EXPR_FAIL(&p->in, b->at, "%.*s is %s, and %.*s is %s", (int)s.n, s.p, operand_name(a),
                     (int)t.n, t.p, operand_name(b));
}

static enum err word_unknown(struct parser *p, const struct operand *o)
{
    struct str s = source(p, o->at, o->end);
    const char *like = p->env->closest ? p->env->closest(p->env->ctx, s) : NULL;

    return EXPR_FAIL(&p->in, o->at, "there is no field %.*s%s%s%s; texts stand in quotes", (int)s.n,
                     s.p, like ? " (is " : "", like ? like : "", like ? " meant?)" : "");
}

/* -- emitting -- */

static void emit(struct parser *p, unsigned code, uint32_t arg, size_t count)
{
    struct expr *x = p->out;

    x->ops[x->n_ops++] =
        (struct expr_op){.code = (uint16_t)code, .arg = arg, .count = (uint16_t)count};
}

/* Every operator and operand passes here: what follows has room. */
static enum err node(struct parser *p, size_t at)
{
    if (++p->nodes > EXPR_NODES_MAX) {
        return EXPR_MANY(&p->in, at, "an expression has at most %d fields, values and operators",
                         EXPR_NODES_MAX);
    }
    return ERR_OK;
}

static uint32_t const_number(struct parser *p, long double number)
{
    p->out->consts[p->out->n_consts] =
        (struct expr_const){.type = EXPR_TYPE_NUMBER, .number = number};
    return p->out->n_consts++;
}

/* The constants' text is never longer than the source. */
static uint32_t const_text(struct parser *p, struct str s, bool escapes)
{
    struct expr *x = p->out;
    struct expr_const c = {.type = EXPR_TYPE_TEXT, .at = x->n_text};

    for (size_t i = 0; i < s.n; i++) {
        if (escapes && s.p[i] == '\\' && i + 1 < s.n &&
            (s.p[i + 1] == '\\' || s.p[i + 1] == '"' || s.p[i + 1] == '\'')) {
            i++;
        }
        x->text[x->n_text++] = s.p[i];
    }
    c.n = (uint16_t)(x->n_text - c.at);
    x->consts[x->n_consts] = c;
    return x->n_consts++;
}

static struct str const_str(const struct parser *p, uint32_t i)
{
    return (struct str){p->out->text + p->out->consts[i].at, p->out->consts[i].n};
}

/* -- types -- */

static bool words_have(const char *const *words, struct str s)
{
    for (size_t i = 0; words[i]; i++) {
        if (str_eq(str_make(words[i]), s)) {
            return true;
        }
    }
    return false;
}

/* The constants of `b` are compared with the field `a`, whose words are known. */
static enum err words_check(struct parser *p, const struct operand *a, const struct operand *b)
{
    bool constant =
        b->kind == OPERAND_WORD || b->kind == OPERAND_LITERAL || b->kind == OPERAND_LIST;

    for (uint32_t i = b->first; constant && i < b->first + b->count; i++) {
        struct str s = const_str(p, i), of = source(p, a->at, a->end);
        char all[256] = "";

        if (p->out->consts[i].type != EXPR_TYPE_TEXT || words_have(a->words, s)) {
            continue;
        }
        for (size_t k = 0; a->words[k]; k++) {
            size_t n = strlen(all);

            (void)snprintf(all + n, sizeof all - n, "%s%s", n ? " " : "", a->words[k]);
        }
        return EXPR_FAIL(&p->in, b->at, "%.*s is one of: %s", (int)of.n, of.p, all);
    }
    return ERR_OK;
}

/* A word that is no field is a text where the other side has it among its words. */
static enum err words_settle(struct parser *p, struct operand *a, struct operand *b, bool like)
{
    if (b->kind == OPERAND_WORD && a->kind == OPERAND_FIELD && a->words) {
        b->type = EXPR_TYPE_TEXT;
    } else if (a->kind == OPERAND_WORD && b->kind == OPERAND_FIELD && b->words) {
        a->type = EXPR_TYPE_TEXT;
        return words_check(p, b, a);
    }
    if (a->kind == OPERAND_WORD && a->type != EXPR_TYPE_TEXT) {
        return word_unknown(p, a);
    }
    if (b->kind == OPERAND_WORD && b->type != EXPR_TYPE_TEXT) {
        return word_unknown(p, b);
    }
    return !like && a->words && a->kind == OPERAND_FIELD ? words_check(p, a, b) : ERR_OK;
}

static bool dims_equal(struct expr_dim a, struct expr_dim b)
{
    return a.time == b.time && a.bytes == b.bytes && a.share == b.share;
}

static bool is_list(const struct operand *o)
{
    return o->kind == OPERAND_LIST || o->kind == OPERAND_SET;
}

static enum err check_bool(struct parser *p, const struct operand *o)
{
    if (o->kind == OPERAND_WORD) {
        return word_unknown(p, o);
    }
    if (is_list(o) || (o->type != EXPR_TYPE_BOOL && o->type != EXPR_TYPE_ANY)) {
        return operand_wrong(p, o, "a condition, as exit != 0");
    }
    return ERR_OK;
}

static enum err check_number(struct parser *p, const struct operand *o)
{
    if (o->kind == OPERAND_WORD) {
        return word_unknown(p, o);
    }
    if (is_list(o) || (o->type != EXPR_TYPE_NUMBER && o->type != EXPR_TYPE_ANY)) {
        return operand_wrong(p, o, "a number");
    }
    return ERR_OK;
}

static bool is_like(unsigned code)
{
    return code == EXPR_OP_LIKE || code == EXPR_OP_UNLIKE;
}

static enum err check_compare(struct parser *p, unsigned code, struct operand *a, struct operand *b)
{
    bool any = a->type == EXPR_TYPE_ANY || b->type == EXPR_TYPE_ANY;
    bool same = code == EXPR_OP_EQ || code == EXPR_OP_NE;
    enum err e = words_settle(p, a, b, is_like(code));

    if (e) {
        return e;
    }
    if (is_list(a) || is_list(b)) {
        return operand_wrong(p, is_list(a) ? a : b, "one value; lists follow `in`");
    }
    if (is_like(code)) {
        const struct operand *o = a->type != EXPR_TYPE_TEXT && a->type != EXPR_TYPE_ANY ? a : b;

        return o->type == EXPR_TYPE_TEXT || o->type == EXPR_TYPE_ANY
                   ? ERR_OK
                   : operand_wrong(p, o, "a text");
    }
    if (a->type == EXPR_TYPE_NUMBER && b->type == EXPR_TYPE_NUMBER) {
        return dims_equal(a->dim, b->dim) || a->zero || b->zero ? ERR_OK : operands_differ(p, a, b);
    }
    if (!any && a->type != b->type) {
        return operands_differ(p, a, b);
    }
    if (!same && (a->type == EXPR_TYPE_TEXT || a->type == EXPR_TYPE_BOOL)) {
        return operand_wrong(p, a, "a number: of others is known whether they are equal");
    }
    return ERR_OK;
}

static enum err check_in(struct parser *p, struct operand *a, struct operand *b)
{
    enum err e;

    if (a->kind == OPERAND_WORD) {
        return word_unknown(p, a);
    }
    if (!is_list(b)) {
        return b->kind == OPERAND_WORD
                   ? EXPR_FAIL(&p->in, b->at, "there is no set %.*s",
                               (int)source(p, b->at, b->end).n, source(p, b->at, b->end).p)
                   : operand_wrong(p, b, "a list, as [\"a\", \"b\"]");
    }
    if (is_list(a) || a->type == EXPR_TYPE_BOOL) {
        return operand_wrong(p, a, "a text or a number");
    }
    e = words_settle(p, a, b, false);
    if (e || a->type == EXPR_TYPE_ANY) {
        return e;
    }
    if (a->type != b->type) {
        return EXPR_FAIL(&p->in, b->at, "the list's values are %s",
                         b->type == EXPR_TYPE_TEXT ? "texts" : "numbers");
    }
    if (a->type == EXPR_TYPE_NUMBER && !b->zero && !dims_equal(a->dim, b->dim)) {
        return EXPR_FAIL(&p->in, b->at, "the list's values are %s", expr_dim_name(b->dim));
    }
    return ERR_OK;
}

static int8_t dim_sum(int a, int b)
{
    return (int8_t)(a + b);
}

#define EXPONENT_MAX 8

static enum err combine_dims(struct parser *p, unsigned code, struct operand *a,
                             const struct operand *b)
{
    int sign = code == EXPR_OP_DIV ? -1 : 1;

    if (a->type == EXPR_TYPE_ANY || b->type == EXPR_TYPE_ANY) {
        a->type = EXPR_TYPE_ANY;
        return ERR_OK;
    }
    if (code == EXPR_OP_ADD || code == EXPR_OP_SUB) {
        if (!dims_equal(a->dim, b->dim) && !a->zero && !b->zero) {
            return operands_differ(p, a, b);
        }
        a->dim = a->zero ? b->dim : a->dim;
        a->zero = a->zero && b->zero;
        return ERR_OK;
    }
    if (a->dim.share && b->dim.share && sign < 0) {
        a->dim = EXPR_PLAIN;
    } else {
        a->dim.share = a->dim.share || b->dim.share;
        a->dim.time = dim_sum(a->dim.time, sign * b->dim.time);
        a->dim.bytes = dim_sum(a->dim.bytes, sign * b->dim.bytes);
        if (a->dim.time || a->dim.bytes) {
            a->dim.share = false;
        }
    }
    if (a->dim.time > EXPONENT_MAX || a->dim.time < -EXPONENT_MAX || a->dim.bytes > EXPONENT_MAX ||
        a->dim.bytes < -EXPONENT_MAX) {
        return EXPR_FAIL(&p->in, a->at, "this unit is of no use");
    }
    a->zero = false;
    return ERR_OK;
}

static enum err check_arithmetic(struct parser *p, unsigned code, struct operand *a,
                                 const struct operand *b)
{
    enum err e = check_number(p, a);

    e = e ? e : check_number(p, b);
    return e ? e : combine_dims(p, code, a, b);
}

static bool is_compare(unsigned code)
{
    return code >= EXPR_OP_LT && code <= EXPR_OP_IN;
}

/* -- operators -- */

static unsigned binding(unsigned code)
{
    switch (code) {
    case EXPR_OP_PAREN:
        return 0;
    case EXPR_OP_OR:
        return 1;
    case EXPR_OP_AND:
        return 2;
    case EXPR_OP_NOT:
        return 3;
    case EXPR_OP_ADD:
    case EXPR_OP_SUB:
        return 5;
    case EXPR_OP_MUL:
    case EXPR_OP_DIV:
        return 6;
    case EXPR_OP_NEG:
        return 7;
    default:
        return 4; /* comparisons */
    }
}

/* Emits an operator whose operands are there: they become one. */
static enum err reduce(struct parser *p, const struct pending *op)
{
    bool one = op->code == EXPR_OP_NOT || op->code == EXPR_OP_NEG;
    struct operand *b = &p->operands[p->n_operands - 1], *a = one ? b : b - 1;
    unsigned code = op->code;
    size_t end = b->end;
    enum err e = ERR_OK;

    if (code == EXPR_OP_NEG) {
        e = check_number(p, a);
    } else if (code == EXPR_OP_NOT) {
        e = check_bool(p, a);
    } else if (code == EXPR_OP_AND || code == EXPR_OP_OR) {
        e = check_bool(p, b); /* a: when the operator was read */
    } else if (code == EXPR_OP_IN) {
        e = check_in(p, a, b);
    } else if (is_compare(code)) {
        e = check_compare(p, code, a, b);
    } else {
        e = check_arithmetic(p, code, a, b);
    }
    if (e) {
        return e;
    }
    if (code == EXPR_OP_IN) {
        code = b->kind == OPERAND_SET ? EXPR_OP_IN_SET : EXPR_OP_IN_LIST;
    }
    emit(p, code, op->code == EXPR_OP_IN ? b->first : 0, op->code == EXPR_OP_IN ? b->count : 0);
    if (op->jump) {
        p->out->ops[op->jump - 1].count = p->out->n_ops;
    }
    if (code < EXPR_OP_ADD) {
        a->type = EXPR_TYPE_BOOL;
        a->dim = EXPR_PLAIN;
        a->zero = false;
    }
    a->kind = OPERAND_VALUE;
    a->words = NULL;
    a->at = one ? op->at : a->at;
    a->end = end;
    p->n_operands -= !one;
    return ERR_OK;
}

static enum err reduce_to(struct parser *p, unsigned least)
{
    enum err e = ERR_OK;

    while (!e && p->n_pending && binding(p->pending[p->n_pending - 1].code) >= least) {
        e = reduce(p, &p->pending[--p->n_pending]);
    }
    return e;
}

static unsigned pending_top(const struct parser *p)
{
    return p->n_pending ? p->pending[p->n_pending - 1].code : EXPR_OP_PAREN;
}

static void pend(struct parser *p, unsigned code, size_t jump)
{
    p->pending[p->n_pending++] = (struct pending){code, p->in.token.at, jump};
}

/* One between two values. */
static enum err take_operator(struct parser *p)
{
    unsigned code = p->in.token.code;
    size_t jump = 0;
    enum err e = node(p, p->in.token.at);

    if (!e && (code == EXPR_OP_PAREN || code == EXPR_OP_NOT)) {
        return EXPR_FAIL(&p->in, p->in.token.at, "an operator is missing before %s",
                         code == EXPR_OP_NOT ? "not" : "(");
    }
    e = e ? e : reduce_to(p, is_compare(code) ? binding(code) + 1 : binding(code));
    if (!e && is_compare(code) && is_compare(pending_top(p))) {
        return EXPR_FAIL(&p->in, p->in.token.at,
                         "comparisons do not follow each other: join them by and");
    }
    if (!e && (code == EXPR_OP_AND || code == EXPR_OP_OR)) {
        e = check_bool(p, &p->operands[p->n_operands - 1]);
        emit(p, code == EXPR_OP_AND ? EXPR_OP_IF_NOT : EXPR_OP_IF, 0, 0);
        jump = p->out->n_ops;
    }
    if (!e) {
        pend(p, code, jump);
    }
    return e;
}

static enum err take_close(struct parser *p)
{
    enum err e = reduce_to(p, 1);

    if (e) {
        return e;
    }
    if (!p->n_pending) {
        return EXPR_FAIL(&p->in, p->in.token.at, "nothing is open that ) could close");
    }
    p->operands[p->n_operands - 1].at = p->pending[--p->n_pending].at;
    p->operands[p->n_operands - 1].end = p->in.pos;
    p->depth--;
    return ERR_OK;
}

/* -- operands -- */

static const char *const fns[] = {"avg",    "min",     "max",   "last",   "rate",
                                  "growth", "steady",  "count", "starts", "ends",
                                  "failed", "crashes", "peak"};

const char *expr_fn_name(enum expr_fn fn)
{
    return fns[fn];
}

static void push(struct parser *p, struct operand o)
{
    o.end = p->in.pos;
    p->operands[p->n_operands++] = o;
}

static void push_field(struct parser *p, const struct expr_field *f, size_t at)
{
    emit(p, EXPR_OP_FIELD, f->slot, 0);
    push(p,
         (struct operand){
             .kind = OPERAND_FIELD, .type = f->type, .dim = f->dim, .words = f->words, .at = at});
}

static enum err take_call(struct parser *p, enum expr_fn fn, size_t at)
{
    struct expr_field of = {0}, out = {0};
    struct str name;
    int64_t span_ns = 0;
    enum err e = expr_token_next(&p->in); /* behind the parenthesis */

    if (!e && p->in.token.kind != TOKEN_WORD) {
        return EXPR_FAIL(&p->in, p->in.token.at, "%s needs a field: %s(cpu_time, 5m)", fns[fn],
                         fns[fn]);
    }
    name = p->in.token.word;
    if (!e && !p->env->field(p->env->ctx, name, &of)) {
        return word_unknown(p, &(struct operand){.at = p->in.token.at, .end = p->in.pos});
    }
    e = e ? e : expr_token_next(&p->in);
    if (!e && p->in.token.kind == TOKEN_COMMA) {
        e = expr_token_next(&p->in);
        if (!e && (p->in.token.kind != TOKEN_NUMBER || !dims_equal(p->in.token.dim, EXPR_TIME) ||
                   p->in.token.number < 1 || p->in.token.number > 400 * 86400e9L)) {
            return EXPR_FAIL(&p->in, p->in.token.at, "a span is a time up to 400 days, as 5m");
        }
        span_ns = (int64_t)p->in.token.number;
        e = e ? e : expr_token_next(&p->in);
    }
    if (!e && p->in.token.kind != TOKEN_CLOSE) {
        return EXPR_FAIL(&p->in, p->in.token.at, "%s ends with )", fns[fn]);
    }
    if (!e && !p->env->call) {
        return EXPR_FAIL(&p->in, at, "there are no functions here: %s is for rules", fns[fn]);
    }
    e = e ? e : p->env->call(p->env->ctx, fn, &of, span_ns, &out, p->in.why);
    if (e) {
        return expr_token_fail(&p->in, at, e);
    }
    push_field(p, &out, at);
    return ERR_OK;
}

static bool take_set(struct parser *p, struct str name, size_t at)
{
    struct expr_set *set = &p->out->sets[p->out->n_sets];

    if (!p->env->set || p->out->n_sets == EXPR_SETS_MAX ||
        !p->env->set(p->env->ctx, name, &set->items, &set->n)) {
        return false;
    }
    push(p, (struct operand){
                .kind = OPERAND_SET, .type = EXPR_TYPE_TEXT, .first = p->out->n_sets++, .at = at});
    return true;
}

static void push_word(struct parser *p, struct str name, size_t at)
{
    bool yes = str_eq(name, str_make("true")), no = str_eq(name, str_make("false"));
    uint32_t c = yes || no ? const_number(p, yes) : const_text(p, name, false);

    emit(p, EXPR_OP_CONST, c, 0);
    if (yes || no) {
        p->out->consts[c].type = EXPR_TYPE_BOOL;
    }
    push(p, (struct operand){.kind = yes || no ? OPERAND_LITERAL : OPERAND_WORD,
                             .type = yes || no ? EXPR_TYPE_BOOL : EXPR_TYPE_UNKNOWN,
                             .first = c,
                             .count = 1,
                             .at = at});
}

static enum err take_word(struct parser *p)
{
    struct str name = p->in.token.word;
    struct expr_field f = {0};
    size_t at = p->in.token.at;
    bool quoted = p->in.token.quoted;
    enum err e;

    for (size_t i = 0; !quoted && i < sizeof fns / sizeof *fns; i++) {
        if (str_eq(name, str_make(fns[i])) && p->in.pos < p->in.text.n &&
            p->in.text.p[p->in.pos] == '(') {
            e = expr_token_next(&p->in);
            return e ? e : take_call(p, (enum expr_fn)i, at);
        }
    }
    if (p->env->field(p->env->ctx, name, &f)) {
        push_field(p, &f, at);
        return ERR_OK;
    }
    if (!take_set(p, name, at)) {
        push_word(p, name, at);
    }
    return ERR_OK;
}

static enum err list_item(struct parser *p, struct operand *list)
{
    const struct expr_token *t = &p->in.token;
    enum expr_type type = t->kind == TOKEN_NUMBER ? EXPR_TYPE_NUMBER : EXPR_TYPE_TEXT;
    bool zero = t->kind == TOKEN_NUMBER && t->number == 0;

    if (t->kind != TOKEN_NUMBER && t->kind != TOKEN_TEXT && t->kind != TOKEN_WORD) {
        return EXPR_FAIL(&p->in, t->at, "a list has numbers or texts: [\"a\", \"b\"]");
    }
    if (list->count &&
        (type != list->type || (!list->zero && !zero && !dims_equal(list->dim, t->dim)))) {
        return EXPR_FAIL(&p->in, t->at, "a list's values are of one kind and unit");
    }
    if (!list->count || list->zero) {
        list->type = type;
        list->dim = t->dim;
        list->zero = zero;
    }
    if (type == EXPR_TYPE_NUMBER) {
        (void)const_number(p, t->number);
    } else {
        (void)const_text(p, t->word, t->kind == TOKEN_TEXT);
    }
    list->count++;
    return ERR_OK;
}

static enum err take_list(struct parser *p)
{
    struct operand list = {.kind = OPERAND_LIST, .first = p->out->n_consts, .at = p->in.token.at};
    enum err e;

    do {
        e = expr_token_next(&p->in);
        e = e ? e : list.count ? node(p, p->in.token.at) : ERR_OK;
        e = e ? e : list_item(p, &list);
        e = e ? e : expr_token_next(&p->in);
    } while (!e && p->in.token.kind == TOKEN_COMMA);
    if (!e && p->in.token.kind != TOKEN_LIST_END) {
        return EXPR_FAIL(&p->in, p->in.token.at, "a list is [VALUE, VALUE]");
    }
    if (!e) {
        push(p, list);
    }
    return e;
}

static enum err take_prefix(struct parser *p)
{
    unsigned code = p->in.token.code == EXPR_OP_SUB ? EXPR_OP_NEG : p->in.token.code;
    unsigned top = pending_top(p);

    if (code == EXPR_OP_PAREN) {
        if (++p->depth > EXPR_DEPTH_MAX) {
            return EXPR_MANY(&p->in, p->in.token.at, "at most %d parentheses stand in each other",
                             EXPR_DEPTH_MAX);
        }
    } else if (code == EXPR_OP_NOT) {
        if (binding(top) > binding(EXPR_OP_NOT)) {
            return EXPR_FAIL(&p->in, p->in.token.at, "put not and what it denies in parentheses");
        }
    } else if (code != EXPR_OP_NEG) {
        return EXPR_FAIL(&p->in, p->in.token.at, "a value is missing before this");
    }
    pend(p, code, 0);
    return ERR_OK;
}

/* Where a value begins; *more: it has not come yet. */
static enum err take_operand(struct parser *p, bool *more)
{
    struct expr_token *t = &p->in.token;
    enum err e = t->kind == TOKEN_END ? ERR_OK : node(p, t->at);

    *more = false;
    if (e) {
        return e;
    }
    switch (t->kind) {
    case TOKEN_NUMBER:
        emit(p, EXPR_OP_CONST, const_number(p, t->number), 0);
        push(p, (struct operand){.kind = OPERAND_LITERAL,
                                 .type = EXPR_TYPE_NUMBER,
                                 .dim = t->dim,
                                 .zero = t->number == 0,
                                 .at = t->at});
        return ERR_OK;
    case TOKEN_TEXT:
        emit(p, EXPR_OP_CONST, const_text(p, t->word, true), 0);
        push(p, (struct operand){.kind = OPERAND_LITERAL,
                                 .type = EXPR_TYPE_TEXT,
                                 .first = p->out->n_consts - 1u,
                                 .count = 1,
                                 .at = t->at});
        return ERR_OK;
    case TOKEN_WORD:
        return take_word(p);
    case TOKEN_LIST:
        return take_list(p);
    case TOKEN_OPERATOR:
        *more = true;
        return take_prefix(p);
    case TOKEN_END:
        return EXPR_FAIL(&p->in, p->in.text.n,
                         p->nodes ? "the expression ends too early" : "it is empty");
    default:
        return EXPR_FAIL(&p->in, t->at, "a value is missing before this");
    }
}

static enum err expr_parse(struct parser *p)
{
    enum err e;

    for (bool wanted = true;;) {
        e = expr_token_next(&p->in);
        if (e) {
            return e;
        }
        if (wanted) {
            e = take_operand(p, &wanted);
        } else if (p->in.token.kind == TOKEN_OPERATOR) {
            wanted = true;
            e = take_operator(p);
        } else if (p->in.token.kind == TOKEN_CLOSE) {
            e = take_close(p);
        } else if (p->in.token.kind == TOKEN_END) {
            break;
        } else {
            e = EXPR_FAIL(&p->in, p->in.token.at, "an operator is missing before this");
        }
        if (e) {
            return e;
        }
    }
    e = reduce_to(p, 1);
    if (!e && p->n_pending) {
        return EXPR_FAIL(&p->in, p->pending[p->n_pending - 1].at, "this parenthesis is not closed");
    }
    return e ? e : check_bool(p, &p->operands[0]);
}

enum err expr_compile(struct expr *out, struct str text, const struct expr_env *env, size_t *column,
                      struct errmsg *why)
{
    struct expr x = {0};
    struct parser p = {.in = {.text = text, .column = column, .why = why}, .env = env, .out = &x};
    enum err e;

    if (text.n > EXPR_TEXT_MAX) {
        return EXPR_MANY(&p.in, EXPR_TEXT_MAX, "an expression has at most %d bytes", EXPR_TEXT_MAX);
    }
    e = expr_parse(&p);
    if (!e) {
        *out = x;
    }
    return e;
}

/* -- looked at, not run -- */

bool expr_limit(const struct expr *x, uint32_t slot, long double *number)
{
    for (size_t i = 0; i + 2 < x->n_ops; i++) {
        const struct expr_op *op = &x->ops[i];

        if (op->code == EXPR_OP_FIELD && op->arg == slot && op[1].code == EXPR_OP_CONST &&
            op[2].code >= EXPR_OP_LT && op[2].code <= EXPR_OP_NE &&
            x->consts[op[1].arg].type == EXPR_TYPE_NUMBER) {
            *number = x->consts[op[1].arg].number;
            return true;
        }
    }
    return false;
}

bool expr_field_below(const struct expr *x, uint32_t end, uint32_t *slot)
{
    for (size_t i = 0; i < x->n_ops; i++) {
        if (x->ops[i].code == EXPR_OP_FIELD && x->ops[i].arg < end) {
            *slot = x->ops[i].arg;
            return true;
        }
    }
    return false;
}
