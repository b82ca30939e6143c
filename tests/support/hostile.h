/* Texts as strangers choose them for hosts, images, paths and messages, and whether what a program
 * printed of them does harm on a terminal: judged by a list of its own, not by common/utf8. */
#ifndef PROCFLEET_TESTS_SUPPORT_HOSTILE_H
#define PROCFLEET_TESTS_SUPPORT_HOSTILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/base/utf8.h"

static const char *const hostile_texts[] = {
    "\x1b[2J\x1b]0;title\x07", /* clears the screen, sets the title */
    "a\rb\nc\td\x7f",          /* writes over the line, begins another */
    "\xc2\x9b"
    "31mred"
    "\xc2\x90\xc2\x9d", /* the same with C1 */
    "\x9b"
    "31m",                             /* C1 of one byte: no UTF-8 */
    "invoice\u202efdp.exe",            /* right to left from here on */
    "a\u2066b\u2069c\u200ed\u061ce",   /* isolates and marks of direction */
    "pay\u200bpal\u200c\u200d\u2060",  /* joiners: two names that look alike */
    "ad\u00admin\ufeff\u034f",         /* soft hyphen, no-break of no width, joiner */
    "x\U000e0041\U000e0042\U000e007f", /* tags: whole sentences that nobody sees */
    "y\ufe0f\U000e0100z",              /* variation selectors carry bytes */
    "\u3164\uffa0\u115f\u180e",        /* fillers: a name of nothing */
    "line\u2028para\u2029",            /* other ends of lines */
    "z\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308\u0309\u030a\u030b\u030c", /* a pile */
    "\u0301on the cell before",                     /* a mark with nothing below it */
    "\xc0\x9b\xed\xa0\x80\xf4\x90\x80\x80\xe2\x80", /* no UTF-8: overlong, a surrogate, beyond, cut
                                                     */
    "caf\xe9 \"quoted\" \\back=slash, comma",
};

#define HOSTILE_TEXTS (sizeof hostile_texts / sizeof *hostile_texts)

static inline bool hostile_char(uint32_t c)
{
    static const uint32_t bad[][2] = {
        {0, 0x09},        {0x0B, 0x0C},     {0x0E, 0x1F},       {0x7F, 0x9F},     {0xAD, 0xAD},
        {0x34F, 0x34F},   {0x61C, 0x61C},   {0x115F, 0x1160},   {0x180B, 0x180F}, {0x200B, 0x200F},
        {0x2028, 0x202E}, {0x2060, 0x206F}, {0x3164, 0x3164},   {0xFE00, 0xFE0F}, {0xFEFF, 0xFEFF},
        {0xFFA0, 0xFFA0}, {0xFFF0, 0xFFFB}, {0xE0000, 0xE0FFF},
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (c >= bad[i][0] && c <= bad[i][1]) {
            return true;
        }
    }
    return false;
}

/* Whether printed text could steer a terminal or hide in it. Ends of lines are the printer's own:
 * as many as there should be. */
static inline bool hostile_shown(const char *text, size_t n, size_t line_ends)
{
    size_t marks = 0, ends = 0;

    for (size_t at = 0, len; at < n; at += len) {
        uint32_t c = utf8_decode(text + at, n - at, &len);

        marks = c >= 0x300 && c < 0x370 ? marks + 1 : 0;
        ends += c == '\n';
        if (hostile_char(c) || (c >= 0x80 && len == 1) || marks > 4 ||
            (c == '\r' && (at + 1 == n || text[at + 1] != '\n'))) {
            fprintf(stderr, "U+%04X at %zu: %.*s\n", (unsigned)c, at, (int)n, text);
            return true;
        }
    }
    return ends != line_ends;
}

#endif
