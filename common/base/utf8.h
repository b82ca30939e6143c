/* Text from outside, read as UTF-8: which of it may go to a terminal as it is, and how the rest is
 * written. Everything that prints names, paths, command lines or a peer's text uses it. Threads:
 * any; no state. */
#ifndef PROCFLEET_COMMON_BASE_UTF8_H
#define PROCFLEET_COMMON_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Accents and the like that one character may carry; a pile of them is drawn over its neighbours.
 */
#define UTF8_MARKS_MAX 4

/* The first character of n > 0 bytes and its length; a byte that is no UTF-8 stands for itself. */
uint32_t utf8_decode(const char *text, size_t n, size_t *len);

/* Bytes at the start that are whole characters. */
size_t utf8_whole(const char *text, size_t n);

/* Bytes at the start, at most `max`, that end with no half of a character. */
static inline size_t utf8_cut(const char *text, size_t n, size_t max)
{
    if (n <= max) {
        return n;
    }
    while (max > 0 && ((uint8_t)text[max] & 0xC0) == 0x80) {
        max--;
    }
    return max;
}

/* Bytes at the start that do no harm on a terminal: whole characters of which each shows. Control
 * characters (C1, too), what turns the direction of writing, what is drawn as nothing at all -
 * joiners, tags, fillers -, marks without a character below them and those beyond UTF8_MARKS_MAX
 * end it. */
size_t utf8_harmless(const char *text, size_t n);

/* The first character of n > 0 bytes as an escape, for people ("\x1b", "\u202e", "\U000e0041";
 * bytes that are no UTF-8 as "\xff") or for JSON ("\u001b", "\udb40\udc41"; bytes that are no UTF-8
 * as "\ufffd"). Returns the bytes it took of the text. */
#define UTF8_ESCAPE 13
size_t utf8_escape(char out[UTF8_ESCAPE], const char *text, size_t n);
size_t utf8_escape_json(char out[UTF8_ESCAPE], const char *text, size_t n);

/* The text with escapes where it would do harm, whole ones, cut at size > 0 and ended with a NUL.
 * Returns its bytes. out and text do not overlap. */
size_t utf8_clean(char *out, size_t size, const char *text, size_t n);
size_t utf8_clean_json(char *out, size_t size, const char *text, size_t n);

/* -- characters -- */

/* 2 for the wide ones of East Asia and pictures, 0 for what is drawn into the character before it
 * (accents, joiners), else 1; also for what is no character. */
unsigned utf8_width(uint32_t code_point);

#endif
