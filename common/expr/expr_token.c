#include "common/expr/expr_token.h"

#include "common/base/utf8.h"
#include "common/expr/expr_code.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

enum err expr_token_fail(const struct expr_source *s, size_t at, enum err e)
{
    size_t column = 1;

    for (size_t i = 0; i < at && i < s->text.n; i++) {
        column += ((uint8_t)s->text.p[i] & 0xC0) != 0x80;
    }
    if (s->column) {
        *s->column = column;
    }
    return e;
}

static const struct {
    const char *text;
    unsigned code;
} operators[] = {
    {"<=", EXPR_OP_LE},     {">=", EXPR_OP_GE},   {"==", EXPR_OP_EQ}, {"!=", EXPR_OP_NE},
    {"!~", EXPR_OP_UNLIKE}, {"<", EXPR_OP_LT},    {">", EXPR_OP_GT},  {"~", EXPR_OP_LIKE},
    {"+", EXPR_OP_ADD},     {"-", EXPR_OP_SUB},   {"*", EXPR_OP_MUL}, {"/", EXPR_OP_DIV},
    {"(", EXPR_OP_PAREN},   {"and", EXPR_OP_AND}, {"or", EXPR_OP_OR}, {"not", EXPR_OP_NOT},
    {"in", EXPR_OP_IN},
};

static bool begins(struct str s, const char *with)
{
    size_t n = strlen(with);

    return s.n >= n && memcmp(s.p, with, n) == 0;
}

static bool token_operator(struct expr_source *s, struct str rest, bool whole)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        const char *t = operators[i].text;

        if (is_letter(*t) == whole && (whole ? str_eq(rest, str_make(t)) : begins(rest, t))) {
            s->token.kind = TOKEN_OPERATOR;
            s->token.code = operators[i].code;
            s->token.n = strlen(t);
            return true;
        }
    }
    return false;
}

/* Keys of labels and runs may hold a `-`; elsewhere it is minus. */
static size_t word_length(struct str t)
{
    bool dash = begins(t, "label.") || begins(t, "run.");
    size_t n = 0;

    while (n < t.n && (is_letter(t.p[n]) || is_digit(t.p[n]) || (uint8_t)t.p[n] >= 0x80 ||
                       t.p[n] == '.' || t.p[n] == '#' || (dash && t.p[n] == '-'))) {
        n++;
    }
    return n;
}

static enum err token_quoted(struct expr_source *s, struct str rest)
{
    char quote = rest.p[0];
    size_t n = 1;

    while (n < rest.n && rest.p[n] != quote) {
        n += quote != '`' && rest.p[n] == '\\' && n + 1 < rest.n &&
                     (rest.p[n + 1] == quote || rest.p[n + 1] == '\\')
                 ? 2
                 : 1;
    }
    if (n >= rest.n) {
        return EXPR_FAIL(s, s->pos, "a text that begins with %c must end with it", quote);
    }
    s->token.kind = quote == '`' ? TOKEN_WORD : TOKEN_TEXT;
    s->token.word = (struct str){rest.p + 1, n - 1};
    s->token.quoted = true;
    s->token.n = n + 1;
    return ERR_OK;
}

static enum err token_number(struct expr_source *s, struct str rest)
{
    size_t n = expr_quantity(&s->token.number, &s->token.dim, rest.p, rest.n), shown = 0;

    if (n == 0 || (n < rest.n && (is_letter(rest.p[n]) || is_digit(rest.p[n])))) {
        while (shown < rest.n &&
               (is_letter(rest.p[shown]) || is_digit(rest.p[shown]) || rest.p[shown] == '.')) {
            shown++;
        }
        return EXPR_FAIL(
            s, s->pos,
            "%.*s is no number with a unit: ns us ms s m h d, B KiB MiB GiB TiB kB MB GB "
            "TB, %%",
            (int)(shown < EXPR_SHOWN_MAX ? shown : EXPR_SHOWN_MAX), rest.p);
    }
    s->token.kind = TOKEN_NUMBER;
    s->token.n = n;
    return ERR_OK;
}

static enum err token_sign(struct expr_source *s, struct str rest)
{
    static const char signs[] = ")[],";
    static const enum expr_token_kind kinds[] = {TOKEN_CLOSE, TOKEN_LIST, TOKEN_LIST_END,
                                                 TOKEN_COMMA};
    const char *sign = memchr(signs, rest.p[0], sizeof signs - 1);
    size_t n;

    if (sign) {
        s->token.kind = kinds[sign - signs];
        s->token.n = 1;
        return ERR_OK;
    }
    if (token_operator(s, rest, false)) {
        return ERR_OK;
    }
    (void)utf8_decode(rest.p, rest.n, &n);
    if (rest.p[0] == '=') {
        return EXPR_FAIL(s, s->pos, "equal is written ==");
    }
    return EXPR_FAIL(s, s->pos, "%.*s means nothing here", (int)n, rest.p);
}

enum err expr_token_next(struct expr_source *s)
{
    struct str rest;
    enum err e;

    while (s->pos < s->text.n && (s->text.p[s->pos] == ' ' || s->text.p[s->pos] == '\t' ||
                                  s->text.p[s->pos] == '\n' || s->text.p[s->pos] == '\r')) {
        s->pos++;
    }
    rest = (struct str){s->text.p + s->pos, s->text.n - s->pos};
    s->token = (struct expr_token){.kind = TOKEN_END, .at = s->pos};
    if (rest.n == 0) {
        return ERR_OK;
    }
    if (rest.p[0] == '"' || rest.p[0] == '\'' || rest.p[0] == '`') {
        e = token_quoted(s, rest);
    } else if (is_digit(rest.p[0])) {
        e = token_number(s, rest);
    } else if (is_letter(rest.p[0]) || (uint8_t)rest.p[0] >= 0x80) {
        s->token.word = (struct str){rest.p, word_length(rest)};
        e = ERR_OK;
        if (!token_operator(s, s->token.word, true)) {
            s->token.kind = TOKEN_WORD;
            s->token.n = s->token.word.n;
        }
    } else {
        e = token_sign(s, rest);
    }
    s->pos += s->token.n;
    return e;
}
