#include "common/text/table.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/base/sid.h"
#include "common/base/utf8.h"
#include "common/os/os.h"
#include "common/text/humanize.h"
#include "common/text/jsonw.h"
#include "common/text/style.h"
#include "common/text/table_kept.h"

#define MEMORY_MAX ((size_t)64 << 20)
#define SORTED_MAX ((size_t)512 << 20) /* rows that wait for their order */
#define NOTES_MAX  64
#define ANSWER_MAX (2u << 20)          /* notes and figures beside the rows */
#define TEXT_MAX   (64u << 10)         /* one cell of a table; longer ones are cut */
#define TEXT_CUT   (TEXT_MAX / 4 - 16) /* fits even when each byte becomes an escape of four */
#define CUT_LEAST  10u                 /* columns that a text keeps where there is no room */
#define LAST_LEAST 24u                 /* the last keeps while others can go: it says most */
#define DAY_TEXT   10u                 /* "2026-11-21" of a moment; "T" and the time follow */

struct table {
    FILE *to;
    enum table_format format;
    bool live, colours, terminal, wide;
    size_t terminal_columns; /* 0 = the terminal is asked */
    const struct table_column *columns;
    size_t n;
    size_t n_rows;          /* printed or waiting */
    uint64_t room, refused; /* rows until the limit, and beyond it */
    /* table: rows wait until their widths are known */
    struct arena memory;
    const char **waiting; /* TABLE_ROWS × n texts */
    size_t n_waiting;
    size_t width[TABLE_COLUMNS]; /* of the widest text */
    size_t shows[TABLE_COLUMNS]; /* as laid out */
    bool left_out[TABLE_COLUMNS];
    bool header_done, fits, short_times; /* of the first column shown */
    const char *const *yields;
    const char *(*time_text)(char *text, size_t size, int64_t utc_ns, int digits); /* NULL: UTC */
    char day[DAY_TEXT + 1]; /* its title then */
    struct buf line;
    size_t n_notes;
    char *notes[NOTES_MAX];
    struct table_kept *kept; /* rows to be sorted; NULL: they are printed as they come */
    const char *order;       /* by what; borrowed */
    bool envelope, answered;
    struct table_answer answer;
};

void table_drop(struct table *s)
{
    if (!s) {
        return;
    }
    for (size_t i = 0; i < s->n_notes; i++) {
        mem_free(s->notes[i]);
    }
    buf_fini(&s->line);
    arena_fini(&s->memory);
    table_kept_destroy(s->kept);
    mem_free(s->waiting);
    mem_free(s);
}

/* What values of this kind mostly take: rows that are printed as they come should stand in line. */
static size_t usual_width(const struct table_column *c)
{
    static const size_t usual[] = {
        [TABLE_TEXT] = 10, [TABLE_ID] = 5,       [TABLE_COUNT] = 5, [TABLE_NS] = 7,
        [TABLE_BYTES] = 8, [TABLE_PERMILLE] = 6, [TABLE_REAL] = 0,
    };
    size_t title = c->title ? strlen(c->title) : 0;

    return title > usual[c->unit] ? title : usual[c->unit];
}

enum err table_begin(struct table **out, FILE *to, enum table_format format, bool live,
                     const struct table_column *columns, size_t n)
{
    struct table *s = mem_zalloc(sizeof *s);

    if (!s) {
        return ERR_NOMEM;
    }
    s->to = to;
    s->format = format == TABLE_AS_JSON && live ? TABLE_AS_JSONL : format;
    s->live = live;
    s->room = UINT64_MAX;
    s->colours = to == stdout && style_wanted();
    s->terminal = to == stdout && os_is_terminal(1);
    s->columns = columns;
    s->n = n < TABLE_COLUMNS ? n : TABLE_COLUMNS;
    arena_init(&s->memory, MEMORY_MAX);
    buf_init(&s->line, TEXT_MAX);
    for (size_t i = 0; i < s->n && live; i++) {
        s->width[i] = usual_width(&columns[i]);
    }
    s->waiting = mem_array(TABLE_ROWS * s->n, sizeof *s->waiting);
    if (!s->waiting) {
        table_drop(s);
        return ERR_NOMEM;
    }
    *out = s;
    return ERR_OK;
}

enum table_unit table_unit_of(const struct metric *m)
{
    switch (m->unit) {
    case UNIT_NS:
        return TABLE_NS;
    case UNIT_UTC_NS:
        return TABLE_TIME;
    case UNIT_BYTES:
        return TABLE_BYTES;
    case UNIT_PERMILLE:
        return TABLE_PERMILLE;
    case UNIT_MASK:
        return TABLE_HEX;
    default: /* 2^53 cycles have passed within weeks */
        return m->id == M_CPU_CYCLES ? TABLE_WIDE : TABLE_COUNT;
    }
}

/* A number as programs read it; n bytes of `text` hold any. */
#define NUMBER_TEXT 32

static const char *number_text(char text[NUMBER_TEXT], enum table_unit unit, int64_t v)
{
    uint64_t size = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

    if (unit == TABLE_PERMILLE) {
        (void)snprintf(text, NUMBER_TEXT, "%s%llu.%u", v < 0 ? "-" : "",
                       (unsigned long long)(size / 10), (unsigned)(size % 10));
    } else if (unit == TABLE_HEX) {
        (void)snprintf(text, NUMBER_TEXT, "%llu", (unsigned long long)v);
    } else {
        (void)snprintf(text, NUMBER_TEXT, "%lld", (long long)v);
    }
    return text;
}

/* -- CSV, RFC 4180 -- */

static void csv_quoted(FILE *to, struct str t)
{
    while (t.n) {
        const char *quote = memchr(t.p, '"', t.n);
        size_t n = quote ? (size_t)(quote - t.p) + 1 : t.n;

        fwrite(t.p, 1, n, to);
        if (quote) {
            fputc('"', to);
        }
        t = (struct str){t.p + n, t.n - n};
    }
}

/* Straight to the stream: a cell may be larger than any line for people. Programs get the text as
 * it is, with U+FFFD for what is no UTF-8; on a terminal what would do harm is an escape. */
static void csv_text(const struct table *s, struct str t)
{
    char escape[UTF8_ESCAPE];

    fputc('"', s->to);
    while (t.n) {
        size_t n = s->terminal ? utf8_harmless(t.p, t.n) : utf8_whole(t.p, t.n);

        csv_quoted(s->to, (struct str){t.p, n});
        t = (struct str){t.p + n, t.n - n};
        if (t.n) {
            n = utf8_escape(escape, t.p, t.n);
            fputs(s->terminal ? escape : "\xEF\xBF\xBD", s->to);
            t = (struct str){t.p + n, t.n - n};
        }
    }
    fputc('"', s->to);
}

static void csv_header(struct table *s)
{
    const char *between = "";

    for (size_t i = 0; i < s->n; i++) {
        if (s->columns[i].key) {
            fprintf(s->to, "%s%s", between, s->columns[i].key);
            between = ",";
        }
    }
    fputs("\r\n", s->to);
}

static void csv_row(struct table *s, const struct table_cell *cells)
{
    const char *between = "";
    char text[NUMBER_TEXT];

    for (size_t i = 0; i < s->n; i++) {
        if (!s->columns[i].key) {
            continue;
        }
        fputs(between, s->to);
        between = ",";
        if (cells[i].state == TABLE_STRING) {
            csv_text(s, cells[i].text);
        } else if (cells[i].state == TABLE_NUMBER && s->columns[i].unit == TABLE_FLAG) {
            fputs(cells[i].number ? "true" : "false", s->to);
        } else if (cells[i].state == TABLE_NUMBER) {
            fputs(number_text(text, s->columns[i].unit, cells[i].number), s->to);
        }
    }
    fputs("\r\n", s->to);
}

/* -- JSON -- */

bool table_is_wide(enum table_unit unit)
{
    return unit == TABLE_TIME || unit == TABLE_NS || unit == TABLE_HEX || unit == TABLE_WIDE;
}

static void json_number(struct jsonw *j, const char *key, enum table_unit unit, int64_t v)
{
    char text[NUMBER_TEXT];

    if (unit == TABLE_FLAG) {
        jsonw_bool(j, key, v != 0);
    } else if (unit == TABLE_PERMILLE) {
        jsonw_raw(j, key, number_text(text, unit, v));
    } else if (table_is_wide(unit)) {
        jsonw_text(j, key, str_make(number_text(text, unit, v)));
    } else {
        jsonw_int(j, key, v);
    }
}

void table_put_json(struct jsonw *j, const char *key, enum table_unit unit,
                    const struct table_cell *c)
{
    if (c->state == TABLE_STRING && unit == TABLE_REAL) {
        jsonw_real(j, key, strtod(c->text.p, NULL));
    } else if (c->state == TABLE_STRING && unit == TABLE_JSON) {
        jsonw_raw(j, key, c->text.p);
    } else if (c->state == TABLE_STRING) {
        jsonw_bytes(j, key, c->text);
    } else if (c->state == TABLE_NUMBER) {
        json_number(j, key, unit, c->number);
    } else {
        jsonw_null(j, key);
    }
}

static void json_row(struct table *s, const struct table_cell *cells)
{
    bool lines = s->format == TABLE_AS_JSONL;
    struct jsonw j;

    jsonw_init(&j, s->to, 0);
    j.compact = true;
    fputs(lines ? "" : s->n_rows ? ",\n  " : s->envelope ? "{\"rows\":[\n  " : "[\n  ", s->to);
    jsonw_object(&j, NULL);
    for (size_t i = 0; i < s->n; i++) {
        const struct table_column *c = &s->columns[i];

        if (c->key && cells[i].state != TABLE_ABSENT) {
            table_put_json(&j, c->key, c->unit, &cells[i]);
        }
    }
    jsonw_end(&j);
    fputs(lines ? "\n" : "", s->to);
}

/* -- table -- */

#define USER_IN_FULL ((enum table_unit)(TABLE_REAL + 1)) /* TABLE_USER where there is room */

static void format_number(struct buf *b, enum table_unit unit, int64_t v)
{
    char when[CLK_TEXT];

    switch (unit) {
    case TABLE_NS:
        humanize_ns(b, v);
        break;
    case TABLE_BYTES:
        humanize_bytes(b, v);
        break;
    case TABLE_PERMILLE:
        humanize_permille(b, v);
        break;
    case TABLE_TIME:
        buf_put_str(b, clk_format_utc(when, sizeof when, v, 3));
        break;
    case TABLE_HEX:
        buf_printf(b, "0x%llx", (unsigned long long)v);
        break;
    case TABLE_EXIT:
        buf_printf(b, v >= 0 && v <= 255 ? "%lld" : "0x%08llx", (long long)v);
        break;
    case TABLE_FLAG:
        buf_put_str(b, v ? "yes" : "-");
        break;
    default:
        buf_printf(b, "%lld", (long long)v);
        break;
    }
}

void table_put_cell(struct buf *b, enum table_unit unit, const struct table_cell *c)
{
    char user[SID_TEXT_SIZE];
    size_t n = 0;

    if (c->state == TABLE_STRING && (unit == TABLE_USER || unit == USER_IN_FULL)) {
        n = sid_people(user, c->text.p, c->text.n, unit == TABLE_USER);
    }
    if (n > 0) {
        buf_put(b, user, n);
    } else if (c->state == TABLE_STRING) {
        humanize_text(b, c->text);
    } else if (c->state == TABLE_NUMBER) {
        format_number(b, unit, c->number);
    } else {
        buf_put_u8(b, '-');
    }
}

/* Of a cell of the body. */
static unsigned style_of(enum table_unit unit, const char *text)
{
    if (unit == TABLE_STATE) {
        return style_of_state(text);
    }
    return unit == TABLE_ALARM && strcmp(text, "0") != 0 && strcmp(text, "-") != 0 ? STYLE_YELLOW
                                                                                   : STYLE_PLAIN;
}

static void put_style(struct table *s, unsigned style)
{
    if (s->colours) {
        buf_reset(&s->line);
        style_put(&s->line, style, true);
        fwrite(s->line.p, 1, s->line.n, s->to);
    }
}

static void table_text(struct table *s, const char *text, size_t n, unsigned style)
{
    if (style != STYLE_PLAIN) {
        put_style(s, style);
    }
    fwrite(text, 1, n, s->to);
    if (style != STYLE_PLAIN) {
        put_style(s, STYLE_PLAIN);
    }
}

static bool is_text(enum table_unit unit)
{
    return unit == TABLE_TEXT || unit == TABLE_WORD || unit == TABLE_TIME || unit == TABLE_STATE ||
           unit == TABLE_USER;
}

/* -- what finds room -- */

/* Columns of the terminal; 0: as many as it takes. */
static size_t room_of(const struct table *s)
{
    return !s->terminal || s->wide   ? 0
           : s->terminal_columns > 0 ? s->terminal_columns
                                     : os_terminal_columns();
}

static bool is_shown(const struct table *s, size_t i)
{
    return s->columns[i].title && !s->left_out[i];
}

/* The last column shown: it is not padded. */
static size_t last_shown(const struct table *s)
{
    size_t last = 0;

    for (size_t i = 0; i < s->n; i++) {
        last = is_shown(s, i) ? i : last;
    }
    return last;
}

/* What a column takes of its widest text; at least `last` of it if it is a text and the last one.
 */
static size_t least(const struct table *s, size_t i, size_t last)
{
    enum table_unit unit = s->columns[i].unit;
    size_t n = strlen(s->columns[i].title), keep = i == last_shown(s) ? last : CUT_LEAST;

    n = n > keep ? n : keep;
    return (unit == TABLE_TEXT || unit == TABLE_USER) && s->width[i] > n ? n : s->width[i];
}

static size_t least_of_all(const struct table *s, size_t last)
{
    size_t sum = 0;

    for (size_t i = 0; i < s->n; i++) {
        sum += is_shown(s, i) ? least(s, i, last) + (sum ? 2 : 0) : 0;
    }
    return sum;
}

/* False: there is none that may go. */
static bool leave_one_out(struct table *s)
{
    for (const char *const *title = s->yields; title && *title; title++) {
        for (size_t i = 0; i < s->n; i++) {
            if (is_shown(s, i) && strcmp(s->columns[i].title, *title) == 0) {
                s->left_out[i] = true;
                return true;
            }
        }
    }
    return false;
}

static size_t first_shown(const struct table *s)
{
    size_t i = 0;

    while (i < s->n && !is_shown(s, i)) {
        i++;
    }
    return i;
}

static bool is_moment(const char *text)
{
    return strlen(text) > DAY_TEXT && text[DAY_TEXT] == 'T';
}

/* Whether the moments in the first column are of one day. Rows that come one by one need not be:
 * each new day has its titles. */
static bool is_one_day(const struct table *s, size_t first)
{
    for (size_t r = 0; r < s->n_waiting; r++) {
        const char *text = s->waiting[r * s->n + first];

        if (!is_moment(text) || (!s->live && strncmp(text, s->waiting[first], DAY_TEXT) != 0)) {
            return false;
        }
    }
    return s->n_waiting > 0;
}

/* The day's title and the times take less than both in each row. */
static void shorten_times(struct table *s)
{
    size_t first = first_shown(s);

    if (first < s->n && s->columns[first].unit == TABLE_TIME && is_one_day(s, first)) {
        s->short_times = true;
        s->width[first] -= DAY_TEXT + 1;
    }
}

/* Once a header stands no column goes any more. */
static void make_room(struct table *s, size_t room)
{
    size_t last = s->yields ? LAST_LEAST : CUT_LEAST;

    if (least_of_all(s, last) > room) {
        shorten_times(s);
    }
    while (least_of_all(s, last) > room && leave_one_out(s)) {
    }
}

/* Gives a column as much of what is left as it can use of `wanted` columns. */
static void widen(struct table *s, size_t i, size_t wanted, size_t *spare)
{
    size_t more = wanted > s->shows[i] ? wanted - s->shows[i] : 0;

    more = more < *spare ? more : *spare;
    s->shows[i] += more;
    *spare -= more;
}

/* What a text does not need is the next one's; the last is heard first. */
static void lay_out(struct table *s, size_t room)
{
    size_t last, sum, spare;

    memcpy(s->shows, s->width, sizeof s->shows);
    if (!room || !s->fits) {
        return;
    }
    if (!s->header_done) {
        make_room(s, room);
    }
    last = last_shown(s);
    sum = least_of_all(s, CUT_LEAST);
    spare = room > sum ? room - sum : 0;
    for (size_t i = 0; i < s->n; i++) {
        s->shows[i] = is_shown(s, i) ? least(s, i, CUT_LEAST) : 0;
    }
    if (is_shown(s, last)) {
        widen(s, last, least(s, last, LAST_LEAST), &spare);
    }
    for (size_t i = 0; i < s->n; i++) {
        if (is_shown(s, i)) {
            widen(s, i, s->width[i], &spare);
        }
    }
}

/* One cell; others follow in the line if `more`. What is cut ends with "…". */
static void table_put(struct table *s, size_t i, const char *text, size_t columns, bool more,
                      unsigned style)
{
    size_t n = strlen(text), width = humanize_width(text, n), pad;
    bool cut = width > columns, right = !is_text(s->columns[i].unit);

    if (cut) {
        n = humanize_prefix(text, n, columns > 0 ? columns - 1 : 0);
        width = humanize_width(text, n) + (columns > 0);
    }
    pad = columns > width ? columns - width : 0;
    fprintf(s->to, "%*s", right ? (int)pad : 0, "");
    table_text(s, text, n, style);
    fputs(cut && columns > 0 ? "\u2026" : "", s->to);
    fprintf(s->to, "%*s", !right && more ? (int)pad : 0, "");
}

static void table_line(struct table *s, const char *const *texts, size_t room, bool header)
{
    size_t at = 0, last = last_shown(s);

    for (size_t i = 0; i <= last && (!room || !s->fits || at < room); i++) {
        size_t columns = s->shows[i];
        bool day = s->short_times && at == 0 && !header && is_moment(texts[i]);

        if (!is_shown(s, i)) {
            continue;
        }
        if (room && (s->fits || i == last) && at + columns > room) {
            columns = room > at ? room - at : 0;
        }
        fputs(at ? "  " : "", s->to);
        table_put(s, i, texts[i] + (day ? DAY_TEXT + 1 : 0), columns, i != last,
                  header ? STYLE_BOLD : style_of(s->columns[i].unit, texts[i]));
        at += s->shows[i] + 2;
    }
    fputc('\n', s->to);
}

/* Before a row: the titles, again where a new day is in them. */
static void table_titles(struct table *s, const char *const *row, size_t room)
{
    const char *titles[TABLE_COLUMNS], *when = row[first_shown(s) < s->n ? first_shown(s) : 0];
    bool new_day = s->short_times && is_moment(when) && strncmp(when, s->day, DAY_TEXT) != 0;

    if (s->header_done && !new_day) {
        return;
    }
    for (size_t i = 0; i < s->n; i++) {
        titles[i] = s->columns[i].title ? s->columns[i].title : "";
    }
    if (new_day) {
        memcpy(s->day, when, DAY_TEXT);
        titles[first_shown(s)] = s->day;
    }
    table_line(s, titles, room, true);
    s->header_done = true;
}

static void aligned_flush(struct table *s)
{
    size_t room = room_of(s);

    lay_out(s, room);
    for (size_t r = 0; r < s->n_waiting; r++) {
        table_titles(s, s->waiting + r * s->n, room);
        table_line(s, s->waiting + r * s->n, room, false);
    }
    s->n_waiting = 0;
    arena_reset(&s->memory);
}

/* A cell as text that lasts until the next flush; what is longer than a line is cut. */
static const char *aligned_cell(struct table *s, size_t i, const struct table_cell *cell)
{
    enum table_unit unit = s->columns[i].unit;
    struct table_cell cut = *cell;

    buf_reset(&s->line);
    if (!s->columns[i].title) {
        return "";
    }
    if (unit == TABLE_USER && !(s->fits && room_of(s))) {
        unit = USER_IN_FULL;
    }
    if (unit == TABLE_TIME && cell->state == TABLE_NUMBER && s->time_text) {
        char when[2 * CLK_TEXT];

        buf_put_str(&s->line, s->time_text(when, sizeof when, cell->number, 3));
    } else {
        table_put_cell(&s->line, unit, cell);
    }
    if (s->line.bad == ERR_FULL && cell->state == TABLE_STRING) {
        buf_reset(&s->line);
        cut.text.n = cut.text.n < TEXT_CUT ? cut.text.n : TEXT_CUT;
        table_put_cell(&s->line, unit, &cut);
    }
    return s->line.bad ? NULL : arena_dup(&s->memory, buf_cstr(&s->line), s->line.n + 1);
}

static enum err table_cells(struct table *s, const struct table_cell *cells, const char **texts)
{
    for (size_t i = 0; i < s->n; i++) {
        size_t width;

        texts[i] = aligned_cell(s, i, &cells[i]);
        if (!texts[i]) {
            return ERR_NOMEM;
        }
        width = humanize_width(texts[i], strlen(texts[i]));
        width -= s->short_times && i == first_shown(s) && is_moment(texts[i]) ? DAY_TEXT + 1 : 0;
        if (s->columns[i].title && strlen(s->columns[i].title) > width) {
            width = strlen(s->columns[i].title);
        }
        s->width[i] = width > s->width[i] ? width : s->width[i];
    }
    return ERR_OK;
}

static enum err aligned_row(struct table *s, const struct table_cell *cells)
{
    enum err e = table_cells(s, cells, s->waiting + s->n_waiting * s->n);

    if (e && s->n_waiting) { /* the rows that wait take all the room */
        aligned_flush(s);
        e = table_cells(s, cells, s->waiting);
    }
    if (e) {
        return e;
    }
    s->n_waiting++;
    if (s->live || s->n_waiting == TABLE_ROWS) {
        aligned_flush(s);
    }
    return ERR_OK;
}

static enum err table_put_row(struct table *s, const struct table_cell *cells)
{
    enum err e = ERR_OK;

    if (s->room == 0) {
        s->refused++;
        return ERR_OK;
    }
    s->room--;
    if (s->format == TABLE_AS_JSON || s->format == TABLE_AS_JSONL) {
        json_row(s, cells);
    } else if (s->format == TABLE_AS_TABLE) {
        e = aligned_row(s, cells);
    } else {
        if (s->n_rows == 0) {
            csv_header(s);
        }
        csv_row(s, cells);
    }
    s->n_rows++;
    if (s->live) {
        fflush(s->to);
    }
    return e;
}

enum err table_row(struct table *s, const struct table_cell *cells)
{
    return s->kept ? table_kept_add(s->kept, cells) : table_put_row(s, cells);
}

enum err table_sort(struct table *s, const char *list, struct errmsg *why)
{
    enum err e = table_kept_create(&s->kept, s->n, SORTED_MAX);

    s->order = list;
    return e ? e : table_kept_sort(s->kept, list, s->columns, why);
}

static void put_sorted(struct table *s)
{
    enum err e = ERR_OK;

    if (!s->kept) {
        return;
    }
    err_ignore(table_kept_sort(s->kept, s->order, s->columns, NULL)); /* it has been checked */
    for (size_t i = 0; i < table_kept_count(s->kept) && !e; i++) {
        e = table_put_row(s, table_kept_row(s->kept, i));
    }
    if (e) {
        table_note(s, str_make("rows are missing: out of memory"));
    }
}

uint64_t table_limit(struct table *s, uint64_t rows)
{
    uint64_t refused = s->refused;

    s->room = rows;
    s->refused = 0;
    return refused;
}

void table_terminal(struct table *s, size_t columns)
{
    s->terminal = true;
    s->terminal_columns = columns;
}

void table_times(struct table *s,
                 const char *(*format)(char *text, size_t size, int64_t utc_ns, int digits))
{
    s->time_text = format;
}

void table_fit(struct table *s, const char *const *yields, bool wide)
{
    s->fits = !wide;
    s->wide = wide;
    s->yields = yields;
}

void table_note(struct table *s, struct str text)
{
    for (size_t i = 0; i < s->n_notes; i++) {
        if (str_eq(str_make(s->notes[i]), text)) {
            return;
        }
    }
    if (s->n_notes < NOTES_MAX) {
        s->notes[s->n_notes] = mem_strndup(text.p, text.n);
        s->n_notes += s->notes[s->n_notes] != NULL;
    }
}

/* -- what the rows answer -- */

void table_envelope(struct table *s)
{
    s->envelope = s->format == TABLE_AS_JSON;
}

void table_answer(struct table *s, const struct table_answer *a)
{
    s->answered = true;
    s->answer = *a;
}

static bool answer_is_told(const struct table *s)
{
    return s->envelope || (s->format == TABLE_AS_JSONL && s->answered);
}

static void answer_members(struct jsonw *j, const struct table *s)
{
    const struct table_answer *a = &s->answer;

    if (s->answered && a->since_ns < a->until_ns) {
        table_put_json(j, "since", TABLE_TIME,
                       &(struct table_cell){TABLE_NUMBER, a->since_ns, {0}});
        table_put_json(j, "until", TABLE_TIME,
                       &(struct table_cell){TABLE_NUMBER, a->until_ns, {0}});
    }
    jsonw_bool(j, "partial", a->partial);
    if (a->has_coverage) {
        jsonw_object(j, "coverage");
        jsonw_uint(j, "ppm", a->ppm);
        jsonw_bool(j, "at_most", a->at_most);
        jsonw_uint(j, "lost_ticks", a->lost_ticks);
        jsonw_uint(j, "lost_events", a->lost_events);
        jsonw_end(j);
    } else {
        jsonw_null(j, "coverage");
    }
    jsonw_array(j, "notes");
    for (size_t i = 0; i < s->n_notes; i++) {
        jsonw_bytes(j, NULL, str_make(s->notes[i]));
    }
    jsonw_end(j);
    jsonw_uint(j, "shown", s->n_rows);
    if (a->cut) {
        jsonw_null(j, "total");
    } else {
        jsonw_uint(j, "total", a->total > s->n_rows ? a->total : s->n_rows);
    }
    jsonw_array(j, "used");
    for (size_t i = 0; i < a->n_used && i < sizeof a->used / sizeof *a->used; i++) {
        jsonw_uint(j, NULL, a->used[i]);
    }
    jsonw_end(j);
}

/* Behind the rows: the rest of the object, or a line of its own. */
static void put_answer(struct table *s)
{
    struct jsonw j;
    struct buf b;

    if (!answer_is_told(s)) {
        return;
    }
    buf_init(&b, ANSWER_MAX);
    jsonw_init_buf(&j, &b);
    j.compact = true;
    jsonw_object(&j, NULL);
    answer_members(&j, s);
    jsonw_end(&j);
    if (s->envelope) {
        fprintf(s->to, "%s],%s\n", s->n_rows ? "\n" : "{\"rows\":[", buf_cstr(&b) + 1);
    } else {
        fprintf(s->to, "%s\n", buf_cstr(&b));
    }
    buf_fini(&b);
}

/* Full coverage is as it should be; what is missing stands out. */
static unsigned style_of_note(const char *note)
{
    bool full = strncmp(note, "coverage 100 %", 14) == 0;

    return strncmp(note, "coverage", 8) == 0 && !full ? STYLE_YELLOW : STYLE_PLAIN;
}

/* Which columns are not there; behind all other notes, which say what the answer is worth. */
static void note_left_out(struct table *s)
{
    const char *between = "no room for ";

    buf_reset(&s->line);
    for (size_t i = 0; i < s->n; i++) {
        if (s->left_out[i]) {
            buf_printf(&s->line, "%s%s", between, s->columns[i].title);
            between = ", ";
        }
    }
    if (s->line.n > 0) {
        fprintf(s->to, "%s; --wide shows all\n", buf_cstr(&s->line));
    }
}

static void print_notes(struct table *s)
{
    FILE *to = s->format == TABLE_AS_TABLE ? s->to : stderr;

    for (size_t i = 0; i < s->n_notes && !answer_is_told(s); i++) {
        unsigned style =
            s->format == TABLE_AS_TABLE ? style_of_note(s->notes[i]) : (unsigned)STYLE_PLAIN;

        if (style) {
            put_style(s, style);
        }
        buf_reset(&s->line);
        humanize_text(&s->line, str_make(s->notes[i]));
        fputs(buf_cstr(&s->line), to);
        if (style) {
            put_style(s, STYLE_PLAIN);
        }
        fputc('\n', to);
    }
}

void table_end(struct table *s)
{
    if (!s) {
        return;
    }
    put_sorted(s);
    if (s->format == TABLE_AS_TABLE) {
        aligned_flush(s);
    } else if (s->format == TABLE_AS_JSON && !s->envelope) {
        fputs(s->n_rows ? "\n]\n" : "[]\n", s->to);
    } else if (s->format == TABLE_AS_CSV && s->n_rows == 0) {
        csv_header(s);
    }
    put_answer(s);
    fflush(s->to);
    print_notes(s);
    note_left_out(s);
    table_drop(s);
}
