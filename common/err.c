#include "common/err.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
    const char *name;
    const char *text;
} errors[] = {
#define ERR_ROW(code, text) {#code, text},
    ERR_LIST(ERR_ROW)
#undef ERR_ROW
};

const char *err_name(enum err e)
{
    return (unsigned)e < ERR_COUNT ? errors[e].name : "ERR_?";
}

const char *err_text(enum err e)
{
    return (unsigned)e < ERR_COUNT ? errors[e].text : "unknown";
}

int err_transient(enum err e)
{
    switch (e) {
    case ERR_NOMEM:
    case ERR_NOSPACE:
    case ERR_FULL:
    case ERR_TIMEOUT:
    case ERR_UNREACHABLE:
    case ERR_BUSY:
        return 1;
    default:
        return 0;
    }
}

enum err errmsg_set(struct errmsg *why, enum err e, const char *fmt, ...)
{
    va_list ap;

    if (why) {
        va_start(ap, fmt);
        vsnprintf(why->text, sizeof why->text, fmt, ap);
        va_end(ap);
    }
    return e;
}
