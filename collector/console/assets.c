#include "collector/console/assets.h"

#include <string.h>

static bool assets_starts(struct str *s, const char *with)
{
    size_t n = strlen(with);

    if (s->n < n || memcmp(s->p, with, n) != 0) {
        return false;
    }
    s->p += n;
    s->n -= n;
    return true;
}

/* What is served under `path`: "/" is index.html, the rest is /a/HASH/NAME. NULL: nothing is. */
static const struct console_asset *assets_find(struct str path)
{
    bool root = str_eq(path, str_make("/"));

    if (!root && !assets_starts(&path, "/a/")) {
        return NULL;
    }
    for (size_t i = 0; i < console_assets_n; i++) {
        const struct console_asset *a = &console_assets[i];
        struct str rest = path;

        if (strcmp(a->name, "index.html") == 0) {
            if (root) {
                return a;
            }
        } else if (!root && assets_starts(&rest, a->hash) && assets_starts(&rest, "/") &&
                   str_eq(rest, str_make(a->name))) {
            return a;
        }
    }
    return NULL;
}

static char assets_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool assets_word(struct str s, const char *word)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!word[i] || assets_lower(s.p[i]) != word[i]) {
            return false;
        }
    }
    return word[s.n] == '\0';
}

/* q=0, q=0.0, q=0.000: not wanted. Any other weight: wanted. */
static bool assets_weight_is_zero(struct str s)
{
    if (s.n < 3 || assets_lower(s.p[0]) != 'q' || s.p[1] != '=' || s.p[2] != '0') {
        return false;
    }
    for (size_t i = 3; i < s.n; i++) {
        if (s.p[i] != '.' && s.p[i] != '0') {
            return false;
        }
    }
    return true;
}

/* The next part of `rest` up to `separator`, without blanks around it. */
static struct str assets_part(struct str *rest, char separator)
{
    struct str part = *rest;
    const char *end = memchr(rest->p, separator, rest->n);

    if (end) {
        part.n = (size_t)(end - rest->p);
        rest->p = end + 1;
        rest->n -= part.n + 1;
    } else {
        rest->n = 0;
    }
    while (part.n && (part.p[0] == ' ' || part.p[0] == '\t')) {
        part.p++;
        part.n--;
    }
    while (part.n && (part.p[part.n - 1] == ' ' || part.p[part.n - 1] == '\t')) {
        part.n--;
    }
    return part;
}

/* 1: the coding is named and wanted; 0: named and refused; -1: not named. */
static int assets_coding(struct str accept, const char *coding)
{
    while (accept.n) {
        struct str weight = assets_part(&accept, ',');
        struct str named = assets_part(&weight, ';');

        if (assets_word(named, coding)) {
            return !assets_weight_is_zero(assets_part(&weight, ';'));
        }
    }
    return -1;
}

bool assets_accepts(struct str accept_encoding, const char *coding)
{
    return assets_coding(accept_encoding, coding) == 1;
}

/* Without the header every coding may be sent (RFC 9110, 12.5.3); nothing is kept unpacked here. */
static bool assets_gzip_is_wanted(struct str accept)
{
    static const char *const names[] = {"gzip", "x-gzip", "*"};
    int wanted = -1;

    for (size_t i = 0; wanted < 0 && i < sizeof names / sizeof *names; i++) {
        wanted = assets_coding(accept, names[i]);
    }
    return wanted < 0 ? accept.n == 0 : wanted == 1;
}

static void assets_text(struct wire_web_reply *out, uint32_t status, const char *text)
{
    out->status = status;
    out->type = str_make("text/plain; charset=utf-8");
    out->body = str_make(text);
}

void assets_answer(struct wire_web_reply *out, const struct wire_web_request *ask)
{
    const struct console_asset *a = assets_find(ask->path);
    struct str tags = ask->if_none_match;
    bool root = str_eq(ask->path, str_make("/"));

    *out = (struct wire_web_reply){0};
    if (!a) {
        assets_text(out, 404, "There is nothing at this address; the console is at /\n");
        return;
    }
    if (!assets_gzip_is_wanted(ask->accept_encoding)) {
        assets_text(out, 406, "This is sent packed by gzip only: allow it in Accept-Encoding\n");
        return;
    }
    out->immutable = !root;
    out->status = 200;
    out->etag = str_make(a->etag);
    while (tags.n) {
        struct str tag = assets_part(&tags, ',');

        if (str_eq(tag, out->etag) || str_eq(tag, str_make("*"))) {
            out->status = 304;
            return;
        }
    }
    out->type = str_make(a->type);
    out->encoding = str_make("gzip");
    out->body = (struct str){(const char *)a->gzip, a->gzip_n};
}
