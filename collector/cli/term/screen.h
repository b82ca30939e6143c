/* A picture of a terminal: what is drawn into it is compared with what was shown before, and only
 * the difference is written. Drawing knows no terminal and is tested as text.
 * Text from outside is made harmless where it is put: no byte of it can steer the terminal.
 * Bounds: SCREEN_MAX rows and columns. Threads: one. */
#ifndef PROCFLEET_COLLECTOR_CLI_TERM_SCREEN_H
#define PROCFLEET_COLLECTOR_CLI_TERM_SCREEN_H

#include "common/base/buf.h"
#include "common/model/model.h"
#include "common/text/style.h"

#define SCREEN_MAX 1000u

struct screen;

/* ascii: what is not ASCII is shown as '?', for terminals that are not UTF-8. Errors: ERR_NOMEM */
NODISCARD enum err screen_create(struct screen **out, bool ascii);
void screen_destroy(struct screen *s); /* NULL is allowed */

/* Empties it at this size, cut to 1 .. SCREEN_MAX. Errors: ERR_NOMEM (it stays as it was) */
NODISCARD enum err screen_reset(struct screen *s, unsigned rows, unsigned columns);
unsigned screen_rows(const struct screen *s);
unsigned screen_columns(const struct screen *s);
bool screen_is_ascii(const struct screen *s);

/* Writes text into at most `width` columns and returns how many it took; what does not fit ends in
 * "…". What lies outside the screen is dropped. */
unsigned screen_put(struct screen *s, unsigned row, unsigned column, unsigned width, unsigned style,
                    struct str text);
/* The same, ending at the right edge of the columns. */
void screen_put_right(struct screen *s, unsigned row, unsigned column, unsigned width,
                      unsigned style, struct str text);
/* Gives a style to what stands there, its own flags kept. */
void screen_paint(struct screen *s, unsigned row, unsigned column, unsigned width, unsigned style);

/* What turns a terminal that shows `was` (NULL: anything) into one that shows `is`. */
void screen_diff(struct buf *out, const struct screen *was, const struct screen *is, bool colours);

/* The picture as lines of text without what is blank at their ends. */
void screen_text(struct buf *out, const struct screen *s);

#endif
