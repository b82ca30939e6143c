#include "common/base/glob.h"

static unsigned char fold(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* Bytes of the UTF-8 character that starts at i. */
static size_t char_bytes(struct str text, size_t i)
{
    size_t n = 1;

    while (i + n < text.n && ((unsigned char)text.p[i + n] & 0xc0) == 0x80) {
        n++;
    }
    return n;
}

bool glob_match(struct str pattern, struct str text)
{
    size_t p = 0, t = 0;
    size_t star = SIZE_MAX, resume = 0; /* the last `*`, and where its text ends so far */

    while (t < text.n) {
        if (p < pattern.n && pattern.p[p] == '*') {
            star = p++;
            resume = t;
        } else if (p < pattern.n && pattern.p[p] == '?') {
            p++;
            t += char_bytes(text, t);
        } else if (p < pattern.n && fold(pattern.p[p]) == fold(text.p[t])) {
            p++;
            t++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            t = ++resume;
        } else {
            return false;
        }
    }
    while (p < pattern.n && pattern.p[p] == '*') {
        p++;
    }
    return p == pattern.n;
}

bool glob_may_match(struct str pattern, struct str beginning)
{
    size_t p = 0, t = 0;

    while (t < beginning.n && p < pattern.n && pattern.p[p] != '*') {
        if (pattern.p[p] == '?') {
            t += char_bytes(beginning, t);
        } else if (fold(pattern.p[p]) == fold(beginning.p[t])) {
            t++;
        } else {
            return false;
        }
        p++;
    }
    return t == beginning.n || p < pattern.n; /* a `*` takes whatever follows, seen or not */
}

bool glob_is_pattern(struct str text)
{
    return text.n && (memchr(text.p, '*', text.n) || memchr(text.p, '?', text.n));
}
