/* Any text as an expression, over fields of every type whose values the text itself decides: it
 * compiles or says where not; what compiles runs, twice alike, and `not (...)` around it is its
 * opposite. */
#include <stdlib.h>

#include "common/expr/expr.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static const char *const words[] = {"crash", "killed", NULL};

static const struct {
    const char *name;
    enum expr_type type;
    struct expr_dim dim;
    const char *const *words;
} fields[] = {
    {"n", EXPR_TYPE_NUMBER, {0}, NULL},
    {"t", EXPR_TYPE_NUMBER, {.time = 1}, NULL},
    {"b", EXPR_TYPE_NUMBER, {.bytes = 1}, NULL},
    {"p", EXPR_TYPE_NUMBER, {.share = true}, NULL},
    {"name", EXPR_TYPE_TEXT, {0}, NULL},
    {"ended", EXPR_TYPE_TEXT, {0}, words},
    {"y", EXPR_TYPE_BOOL, {0}, NULL},
    {"any", EXPR_TYPE_ANY, {0}, NULL},
    {"label.a-b", EXPR_TYPE_TEXT, {0}, NULL},
};

static bool env_field(void *ctx, struct str name, struct expr_field *out)
{
    (void)ctx;
    for (uint32_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (str_eq(str_make(fields[i].name), name)) {
            *out = (struct expr_field){i, fields[i].type, fields[i].dim, fields[i].words};
            return true;
        }
    }
    return false;
}

static bool env_set(void *ctx, struct str name, const struct str **items, size_t *n)
{
    static const struct str set[] = {{"a", 1}, {"crash", 5}};

    (void)ctx;
    *items = set;
    *n = 2;
    return str_eq(name, str_make("s"));
}

static enum err env_call(void *ctx, enum expr_fn fn, const struct expr_field *of, int64_t span_ns,
                         struct expr_field *out, struct errmsg *why)
{
    (void)ctx;
    *out = *of;
    out->slot += 100;
    return span_ns < 0 ? errmsg_set(why, ERR_INVALID, "%s", expr_fn_name(fn)) : ERR_OK;
}

static void get(void *ctx, uint32_t slot, struct expr_value *out)
{
    const struct str *s = ctx;
    uint8_t byte = s->n ? (uint8_t)s->p[slot % s->n] : 0;

    switch ((byte + slot) % 5) { /* also of types that the field does not have */
    case 0:
        *out = expr_number(byte);
        break;
    case 1:
        *out = expr_text(*s);
        break;
    case 2:
        *out = expr_bool(byte & 1);
        break;
    case 3:
        *out = expr_text((struct str){words[0], 5});
        break;
    default:
        break;
    }
}

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static const struct expr_env env = {NULL, env_field, env_set, env_call, NULL};
    struct str text = {(const char *)p, n};
    char denied[EXPR_TEXT_MAX];
    struct expr x;
    struct errmsg why;
    size_t column = 0;
    enum err e = expr_compile(&x, text, &env, &column, &why);
    enum expr_truth t;

    if (e) {
        must((e == ERR_INVALID || e == ERR_RANGE) && column >= 1 && column <= n + 1);
        return 0;
    }
    must(x.n_ops <= EXPR_OPS_MAX && x.n_consts <= EXPR_NODES_MAX && x.n_sets <= EXPR_SETS_MAX);
    t = expr_run(&x, get, &text);
    must(t == expr_run(&x, get, &text));
    if (n + 6 <= sizeof denied) {
        memcpy(denied, "not (", 5);
        memcpy(denied + 5, p, n);
        denied[5 + n] = ')';
        e = expr_compile(&x, (struct str){denied, n + 6}, &env, NULL, NULL);
        must(e == ERR_OK || e == ERR_RANGE);
        must(e || expr_run(&x, get, &text) == (t == EXPR_UNKNOWN ? t : EXPR_TRUE - t));
    }
    return 0;
}
