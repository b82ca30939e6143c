/* Every cell holds one character with what is drawn into it; a wide one is followed by a cell
 * without text. A character that would be cut by the edge, or half overwritten, becomes blanks. */
#include "collector/cli/term/screen.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/text/humanize.h"

#define CELL_TEXT 13 /* bytes: more accents on one character are left out */
#define SAFE_MAX  4096u

struct cell {
    uint8_t n;     /* bytes of text; 0 = the right half of what stands before */
    uint8_t width; /* 1 or 2; 0 as above */
    uint8_t style;
    char text[CELL_TEXT];
};

struct screen {
    unsigned rows, columns;
    bool ascii;
    struct cell *cells; /* rows × columns */
    struct buf safe;    /* text on its way in */
};

static const struct cell blank = {.n = 1, .width = 1, .text = " "};

enum err screen_create(struct screen **out, bool ascii)
{
    struct screen *s = mem_zalloc(sizeof *s);
    enum err e;

    if (!s) {
        return ERR_NOMEM;
    }
    s->ascii = ascii;
    buf_init(&s->safe, SAFE_MAX);
    e = screen_reset(s, 24, 80);
    if (e) {
        screen_destroy(s);
        return e;
    }
    *out = s;
    return ERR_OK;
}

void screen_destroy(struct screen *s)
{
    if (s) {
        buf_fini(&s->safe);
        mem_free(s->cells);
        mem_free(s);
    }
}

static unsigned within(unsigned v)
{
    return v < 1 ? 1 : v > SCREEN_MAX ? SCREEN_MAX : v;
}

enum err screen_reset(struct screen *s, unsigned rows, unsigned columns)
{
    rows = within(rows);
    columns = within(columns);
    if (rows != s->rows || columns != s->columns) {
        struct cell *cells = mem_array((size_t)rows * columns, sizeof *cells);

        if (!cells) {
            return ERR_NOMEM;
        }
        mem_free(s->cells);
        s->cells = cells;
        s->rows = rows;
        s->columns = columns;
    }
    for (size_t i = 0; i < (size_t)rows * columns; i++) {
        s->cells[i] = blank;
    }
    return ERR_OK;
}

unsigned screen_rows(const struct screen *s)
{
    return s->rows;
}

unsigned screen_columns(const struct screen *s)
{
    return s->columns;
}

bool screen_is_ascii(const struct screen *s)
{
    return s->ascii;
}

static struct cell *cell_at(const struct screen *s, unsigned row, unsigned column)
{
    return &s->cells[(size_t)row * s->columns + column];
}

/* What loses a half becomes blank. */
static void split(struct screen *s, unsigned row, unsigned column)
{
    if (column > 0 && column < s->columns && cell_at(s, row, column)->n == 0) {
        *cell_at(s, row, column - 1) = blank;
        *cell_at(s, row, column) = blank;
    }
}

static void cell_set(struct screen *s, unsigned row, unsigned column, unsigned style,
                     struct str text, unsigned width)
{
    struct cell *c = cell_at(s, row, column);

    split(s, row, column);
    split(s, row, column + width);
    *c = (struct cell){.n = (uint8_t)text.n, .width = (uint8_t)width, .style = (uint8_t)style};
    memcpy(c->text, text.p, text.n);
    if (width == 2) {
        c[1] = (struct cell){.style = (uint8_t)style};
    }
}

/* An accent joins the character before it while there is room. */
static void cell_join(struct screen *s, unsigned row, unsigned column, struct str text)
{
    struct cell *c = cell_at(s, row, column);

    assert(row < s->rows && column < s->columns);
    if (c->n == 0 && column > 0) {
        c--;
    }
    if (c->n && c->n + text.n <= CELL_TEXT) {
        memcpy(c->text + c->n, text.p, text.n);
        c->n = (uint8_t)(c->n + text.n);
    }
}

/* Safe text into the cells; returns the columns taken. */
static unsigned cells_put(struct screen *s, unsigned row, unsigned column, unsigned style,
                          struct str text)
{
    unsigned taken = 0;

    for (size_t i = 0, len; i < text.n; i += len) {
        uint32_t c = utf8_decode(text.p + i, text.n - i, &len);
        unsigned width = utf8_width(c);
        struct str one = {text.p + i, len};

        if (s->ascii && c >= 0x80) {
            one = (struct str){"?", 1};
            width = width ? 1 : 0;
        }
        if (width == 0 && taken > 0 && !s->ascii) {
            cell_join(s, row, column + taken - 1, one);
        } else if (width > 0 && column + taken + width <= s->columns) {
            cell_set(s, row, column + taken, style, one, width);
            taken += width;
        }
    }
    return taken;
}

/* Text made harmless; what is too long for any screen is cut. */
static struct str text_harmless(struct screen *s, struct str text)
{
    buf_reset(&s->safe);
    humanize_text(&s->safe, (struct str){text.p, text.n < SAFE_MAX / 4 ? text.n : SAFE_MAX / 4});
    return (struct str){(const char *)s->safe.p, s->safe.n};
}

unsigned screen_put(struct screen *s, unsigned row, unsigned column, unsigned width, unsigned style,
                    struct str text)
{
    const char *more = s->ascii ? "~" : "\u2026";
    struct str safe;

    if (row >= s->rows || column >= s->columns || width == 0) {
        return 0;
    }
    width = width < s->columns - column ? width : s->columns - column;
    safe = text_harmless(s, text);
    if (humanize_width(safe.p, safe.n) > width) {
        unsigned taken;

        safe.n = humanize_prefix(safe.p, safe.n, width - 1);
        taken = cells_put(s, row, column, style, safe);
        cell_set(s, row, column + taken, style, str_make(more), 1);
        return taken + 1;
    }
    return cells_put(s, row, column, style, safe);
}

void screen_put_right(struct screen *s, unsigned row, unsigned column, unsigned width,
                      unsigned style, struct str text)
{
    struct str safe = text_harmless(s, text);
    size_t takes = humanize_width(safe.p, safe.n);
    unsigned left = takes < width ? width - (unsigned)takes : 0;

    (void)screen_put(s, row, column + left, width - left, style, text);
}

void screen_paint(struct screen *s, unsigned row, unsigned column, unsigned width, unsigned style)
{
    for (unsigned i = 0; i < width && row < s->rows && column + i < s->columns; i++) {
        struct cell *c = cell_at(s, row, column + i);
        unsigned colour = style & STYLE_COLOURS ? style & STYLE_COLOURS : c->style & STYLE_COLOURS;

        c->style = (uint8_t)(((c->style | style) & ~STYLE_COLOURS) | colour);
    }
}

/* -- to the terminal -- */

static bool same(const struct cell *a, const struct cell *b)
{
    return a->n == b->n && a->style == b->style && memcmp(a->text, b->text, a->n) == 0;
}

/* The end of the stretch from `column` on that has to be written again. A few cells that are the
 * same cost less than another movement of the cursor. */
static unsigned stretch(const struct cell *was, const struct cell *is, unsigned column,
                        unsigned columns)
{
    unsigned end = column + 1;

    for (unsigned i = end; i < columns && i - end < 6; i++) {
        if (!same(&was[i], &is[i])) {
            end = i + 1;
        }
    }
    while (end < columns && (is[end].n == 0 || was[end].n == 0)) {
        end++; /* no half of a wide one stays */
    }
    return end;
}

static void write_row(struct buf *out, const struct cell *was, const struct cell *is, unsigned row,
                      unsigned columns, bool colours)
{
    for (unsigned i = 0, end; i < columns; i = end) {
        unsigned style = STYLE_PLAIN;

        end = i + 1;
        if (same(&was[i], &is[i])) {
            continue;
        }
        end = stretch(was, is, i, columns);
        if (is[i].n == 0 && i > 0) {
            i--; /* begin with the whole character */
        }
        buf_printf(out, "\x1b[%u;%uH", row + 1, i + 1);
        for (; i < end; i++) {
            if (is[i].style != style) {
                style_put(out, is[i].style, colours);
                style = is[i].style;
            }
            buf_put(out, is[i].text, is[i].n);
        }
        if (style != STYLE_PLAIN) {
            style_put(out, STYLE_PLAIN, colours);
        }
    }
}

void screen_diff(struct buf *out, const struct screen *was, const struct screen *is, bool colours)
{
    static const struct cell nothing[SCREEN_MAX]; /* like no cell of a screen */
    bool fresh = !was || was->rows != is->rows || was->columns != is->columns;

    if (fresh) {
        buf_put_str(out, "\x1b[0m\x1b[2J");
    }
    for (unsigned row = 0; row < is->rows; row++) {
        write_row(out, fresh ? nothing : cell_at(was, row, 0), cell_at(is, row, 0), row,
                  is->columns, colours);
    }
}

void screen_text(struct buf *out, const struct screen *s)
{
    for (unsigned row = 0; row < s->rows; row++) {
        unsigned last = s->columns;

        while (last > 0 && cell_at(s, row, last - 1)->n == 1 &&
               cell_at(s, row, last - 1)->text[0] == ' ') {
            last--;
        }
        for (unsigned i = 0; i < last; i++) {
            buf_put(out, cell_at(s, row, i)->text, cell_at(s, row, i)->n);
        }
        buf_put_u8(out, '\n');
    }
}
