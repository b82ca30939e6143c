#include "common/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/utf8.h"

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

enum err errmsg_set(struct errmsg *why, enum err e, const char *fmt, ...)
{
    char text[sizeof why->text];
    va_list ap;

    if (why) {
        va_start(ap, fmt);
        (void)vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
        (void)utf8_clean(why->text, sizeof why->text, text, strlen(text));
    }
    return e;
}
