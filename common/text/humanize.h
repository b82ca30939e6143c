/* Numbers and texts as people read them on a terminal. */
#ifndef PROCFLEET_COMMON_TEXT_HUMANIZE_H
#define PROCFLEET_COMMON_TEXT_HUMANIZE_H

#include <stdio.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/model/model.h"

void humanize_ns(struct buf *out, int64_t ns); /* "512us", "8.69ms", "5.106s", "3m20s", "2h05m" */
void humanize_bytes(struct buf *out, int64_t bytes);       /* "512B", "64.0MiB" */
void humanize_permille(struct buf *out, int64_t permille); /* "12.3%" */

/* Text that cannot steer a terminal nor hide in it: what is not utf8_harmless is escaped. What
 * comes out is UTF-8. */
void humanize_text(struct buf *out, struct str text);

/* Prints a line of text with what strangers, files or arguments call something in it: none of it
 * steers a terminal. Up to 4 KiB; the end of the line is added. */
void humanize_line(FILE *to, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Columns that the text takes on a terminal (utf8_width). */
size_t humanize_width(const char *text, size_t n);

/* Bytes of the longest prefix that takes at most `width` columns. */
size_t humanize_prefix(const char *text, size_t n, size_t width);

#endif
