#include "collector/cli/watch/watch.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/model/metric.h"

void watch_answer_free(struct watch_answer *a)
{
    if (a) {
        wire_answer_free(a->rows);
        wire_answer_free(a->tree);
        wire_answer_free(a->overview);
        wire_answer_free(a->hosts);
        mem_free(a);
    }
}

/* -- order and columns -- */

size_t watch_metrics(const struct watch *w, uint8_t out[WATCH_METRICS_MAX])
{
    static const uint8_t usual[] = {M_CPU_PERCENT, M_WORKING_SET_SIZE, M_READ_BYTES,
                                    M_WRITE_BYTES, M_THREAD_COUNT,     M_CPU_TIME};
    size_t n = 0;

    if (w->own_metric) {
        out[n++] = w->own_metric;
    }
    memcpy(out + n, usual, sizeof usual);
    return n + sizeof usual;
}

void watch_order(struct watch *w, uint8_t metric)
{
    uint8_t all[WATCH_METRICS_MAX];
    size_t n = watch_metrics(w, all), at = 0;
    bool there = false;

    for (size_t i = 0; i < n; i++) {
        there = there || all[i] == metric;
    }
    if (!there) {
        w->own_metric = metric;
        n = watch_metrics(w, all);
    }
    w->ask.metrics[at++] = metric;
    for (size_t i = 0; i < n; i++) {
        if (all[i] != metric) {
            w->ask.metrics[at++] = all[i];
        }
    }
    assert(at <= WATCH_METRICS_MAX);
    w->ask.n_metrics = (uint8_t)at;
}

void watch_init(struct watch *w, const char *collector)
{
    memset(w, 0, sizeof *w);
    w->collector = collector;
    w->every_ns = WATCH_EVERY_NS;
    w->ask.window_ns = WATCH_WINDOW_NS;
    w->ask.past_ns = WATCH_PAST_NS;
    w->ask.limit = WATCH_ROWS;
    w->rows = 24;
    w->columns = 80;
    watch_order(w, M_CPU_PERCENT);
}

void watch_fini(struct watch *w)
{
    watch_answer_free(w->fleet);
    watch_answer_free(w->table);
    watch_answer_free(w->details);
    watch_answer_free(w->events);
    w->table = w->details = w->events = w->fleet = NULL;
}

/* -- the cursor -- */

static size_t table_row_count(const struct watch *w)
{
    return w->table ? w->table->rows->n_rows : 0;
}

static void text_copy(char out[WATCH_TEXT], struct str text)
{
    size_t n = text.n < WATCH_TEXT ? text.n : WATCH_TEXT - 1;

    if (n) {
        memcpy(out, text.p, n);
    }
    out[n] = '\0';
}

/* Of an image and a user: both, with a tab between them. */
static void row_name(char out[WATCH_TEXT], const struct watch_answer *t, const struct wire_row *row)
{
    uint8_t by = t->question.group_by;
    size_t n;

    text_copy(out, by == WIRE_GROUP_USER ? row->info.user : row->info.name);
    n = strlen(out);
    if (by == WIRE_GROUP_IMAGE_USER) {
        (void)snprintf(out + n, WATCH_TEXT - n, "\t%.*s", (int)row->info.user.n, row->info.user.p);
    }
}

/* An image's or user's row has no id, and its host is only the one with most of it. */
static bool row_is_who(const struct watch_answer *t, const struct wire_row *row,
                       const struct watch_who *who)
{
    const struct wire_answer *a = t->rows;
    uint8_t by = t->question.group_by;
    char name[WATCH_TEXT];

    if (by == WIRE_GROUP_IMAGE || by == WIRE_GROUP_USER || by == WIRE_GROUP_IMAGE_USER) {
        row_name(name, t, row);
        return strcmp(name, who->name) == 0;
    }
    return row->host < a->n_hosts && row->info.id.pid == who->pid &&
           row->info.id.start == who->start &&
           memcmp(&a->hosts[row->host].id, &who->host, sizeof who->host) == 0;
}

static void cursor_mark(struct watch *w)
{
    const struct wire_answer *a = w->table ? w->table->rows : NULL;
    const struct wire_row *row;

    w->follows = false;
    if (!a || w->selected >= a->n_rows || a->rows[w->selected].host >= a->n_hosts) {
        return;
    }
    row = &a->rows[w->selected];
    w->follows = true;
    w->marked.host = a->hosts[row->host].id;
    w->marked.pid = row->info.id.pid;
    w->marked.start = row->info.id.start;
    text_copy(w->marked.host_name, a->hosts[row->host].name);
    row_name(w->marked.name, w->table, row);
}

/* The cursor goes where its process has gone. */
static void cursor_follow(struct watch *w)
{
    const struct wire_answer *a = w->table->rows;

    for (size_t i = 0; i < a->n_rows && w->follows; i++) {
        if (row_is_who(w->table, &a->rows[i], &w->marked)) {
            w->selected = i;
            return;
        }
    }
    w->follows = false;
}

void watch_fit(struct watch *w, unsigned rows, unsigned columns)
{
    size_t n = table_row_count(w), seen;

    w->rows = rows;
    w->columns = columns;
    seen = watch_draw_table_rows(w);
    w->selected = w->selected < n ? w->selected : n ? n - 1 : 0;
    w->first = w->first < n ? w->first : 0;
    if (w->selected < w->first) {
        w->first = w->selected;
    } else if (seen && w->selected >= w->first + seen) {
        w->first = w->selected - seen + 1;
    }
    if (w->first + seen > n) {
        w->first = n > seen ? n - seen : 0;
    }
    assert(n == 0 || (w->first <= w->selected && w->selected < n));
}

static unsigned question_change(struct watch *w)
{
    w->ask.number++;
    return WATCH_AGAIN;
}

/* Moves the cursor; at the end of what was asked for more is asked. */
static unsigned cursor_move(struct watch *w, int64_t by)
{
    int64_t n = (int64_t)table_row_count(w), to = (int64_t)w->selected + by;

    w->selected = (size_t)(to < 0 ? 0 : to >= n ? (n ? n - 1 : 0) : to);
    cursor_mark(w);
    if (w->selected == 0 && by < 0) {
        w->follows = false; /* the cursor stays at the first row */
    }
    watch_fit(w, w->rows, w->columns);
    if (to >= n && n == (int64_t)w->ask.limit && w->ask.limit < WIRE_ROWS_MAX) {
        w->ask.limit += WATCH_ROWS;
        w->ask.limit = w->ask.limit < WIRE_ROWS_MAX ? w->ask.limit : WIRE_ROWS_MAX;
        return question_change(w);
    }
    return 0;
}

static unsigned cursor_to_top(struct watch *w)
{
    w->selected = w->first = 0;
    w->follows = false;
    return question_change(w);
}

/* -- pages -- */

static unsigned page_show(struct watch *w, enum watch_page page)
{
    w->ask.page = page;
    w->back = 0;
    watch_answer_free(w->details);
    watch_answer_free(w->events);
    w->details = w->events = NULL; /* of another process */
    if (page != WATCH_TABLE) {
        w->ask.who = w->marked;
    }
    return question_change(w);
}

static bool question_is_of_processes(const struct watch *w)
{
    return w->ask.group_by == WIRE_GROUP_NONE || w->ask.group_by == WIRE_GROUP_TREE;
}

/* Details of a process; of a group its processes. */
static unsigned page_enter(struct watch *w)
{
    cursor_mark(w);
    if (!w->follows) {
        return 0;
    }
    if (question_is_of_processes(w)) {
        return page_show(w, WATCH_DETAILS);
    }
    if (w->ask.group_by == WIRE_GROUP_IMAGE || w->ask.group_by == WIRE_GROUP_IMAGE_USER) {
        memcpy(w->ask.name, w->marked.name, sizeof w->ask.name);
        w->ask.name[strcspn(w->ask.name, "\t")] = '\0';
    } else if (w->ask.group_by == WIRE_GROUP_HOST) {
        memcpy(w->ask.host, w->marked.host_name, sizeof w->ask.host);
    } else {
        return 0; /* there is no filter by user */
    }
    w->ask.group_by = WIRE_GROUP_NONE;
    return cursor_to_top(w);
}

static unsigned page_show_events(struct watch *w)
{
    cursor_mark(w);
    return w->follows ? page_show(w, WATCH_EVENTS) : 0;
}

/* -- the prompt -- */

static void prompt_open(struct watch *w, enum watch_prompt prompt)
{
    const char *now = prompt == WATCH_ASK_HOST ? w->ask.host : w->ask.name;

    w->prompt = prompt;
    memcpy(w->typed, now, sizeof w->typed);
    w->typed_n = strlen(now);
}

static void prompt_type(struct watch *w, uint32_t c)
{
    uint8_t bytes[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

    for (size_t i = n; i-- > 1;) {
        bytes[i] = (uint8_t)(0x80 | (c & 0x3F));
        c >>= 6;
    }
    bytes[0] = (uint8_t)(n == 1 ? c : (0xF00u >> n) | c);
    if (w->typed_n + n < sizeof w->typed) {
        memcpy(w->typed + w->typed_n, bytes, n);
        w->typed_n += n;
        w->typed[w->typed_n] = '\0';
    }
}

static void prompt_erase(struct watch *w)
{
    while (w->typed_n > 0 && (w->typed[w->typed_n - 1] & 0xC0) == 0x80) {
        w->typed_n--;
    }
    w->typed_n -= w->typed_n > 0;
    w->typed[w->typed_n] = '\0';
}

/* What was typed becomes a filter. A name without glob signs means every name that contains it. */
static unsigned prompt_apply(struct watch *w)
{
    char *filter = w->prompt == WATCH_ASK_HOST ? w->ask.host : w->ask.name;
    bool plain = w->typed_n && !strpbrk(w->typed, "*?[");

    if (w->prompt == WATCH_ASK_NAME && plain && w->typed_n + 2 < WATCH_TEXT) {
        memmove(w->typed + 1, w->typed, w->typed_n);
        w->typed[0] = w->typed[w->typed_n + 1] = '*';
        w->typed[w->typed_n + 2] = '\0';
    }
    memcpy(filter, w->typed, WATCH_TEXT);
    w->prompt = WATCH_NO_PROMPT;
    return cursor_to_top(w);
}

static unsigned prompt_key(struct watch *w, const struct key *k)
{
    switch (k->kind) {
    case KEY_CHAR:
        prompt_type(w, k->ch);
        return 0;
    case KEY_BACKSPACE:
        prompt_erase(w);
        return 0;
    case KEY_ENTER:
        return k->pasted ? 0 : prompt_apply(w);
    case KEY_ESC:
        w->prompt = WATCH_NO_PROMPT;
        return 0;
    case KEY_CTRL:
        if (k->ch == 'u' && !k->pasted) {
            w->typed_n = 0;
            w->typed[0] = '\0';
        }
        return k->ch == 'c' && !k->pasted ? WATCH_QUIT : 0;
    default:
        return 0;
    }
}

/* -- commands -- */

static unsigned order_by(struct watch *w, uint8_t metric)
{
    w->ask.by = WIRE_BY_USUAL;
    watch_order(w, metric);
    return cursor_to_top(w);
}

static unsigned order_by_next(struct watch *w, bool right)
{
    uint8_t all[WATCH_METRICS_MAX];
    size_t n = watch_metrics(w, all), at = 0;

    while (at < n && all[at] != w->ask.metrics[0]) {
        at++;
    }
    return order_by(w, all[(at + (right ? 1 : n - 1)) % n]);
}

/* The neighbour of a value in a list that grows. */
static int64_t list_step(const int64_t *list, size_t n, int64_t now, bool up)
{
    for (size_t i = 0; i < n; i++) {
        if (up && list[i] > now) {
            return list[i];
        }
        if (!up && list[n - 1 - i] < now) {
            return list[n - 1 - i];
        }
    }
    return now;
}

static void refresh_change(struct watch *w, bool slower)
{
    static const int64_t list[] = {CLK_S / 2,  CLK_S,      2 * CLK_S, 5 * CLK_S,
                                   10 * CLK_S, 30 * CLK_S, 60 * CLK_S};

    w->every_ns = list_step(list, sizeof list / sizeof *list, w->every_ns, slower);
}

static unsigned window_change(struct watch *w, bool longer)
{
    static const int64_t list[] = {10 * CLK_S,  30 * CLK_S,   60 * CLK_S,   300 * CLK_S,
                                   900 * CLK_S, 3600 * CLK_S, 86400 * CLK_S};
    int64_t *ns = w->ask.page == WATCH_TABLE ? &w->ask.window_ns : &w->ask.past_ns;

    *ns = list_step(list, sizeof list / sizeof *list, *ns, longer);
    return question_change(w);
}

static unsigned group_next(struct watch *w)
{
    w->ask.group_by =
        w->ask.group_by >= WIRE_GROUP_TREE ? WIRE_GROUP_NONE : (uint8_t)(w->ask.group_by + 1);
    w->ask.exited = w->ask.exited && w->ask.group_by == WIRE_GROUP_TREE;
    return cursor_to_top(w);
}

/* Letters of the table alone. */
static unsigned table_letter(struct watch *w, uint32_t letter)
{
    switch (letter) {
    case 'c':
        return order_by(w, M_CPU_PERCENT);
    case 'm':
        return order_by(w, M_WORKING_SET_SIZE);
    case 'r':
        return order_by(w, M_READ_BYTES);
    case 'w':
        return order_by(w, M_WRITE_BYTES);
    case 't':
        return order_by(w, M_THREAD_COUNT);
    case '<':
    case '>':
        return order_by_next(w, letter == '>');
    case 'g':
        return group_next(w);
    case 'i':
        w->ask.idle = !w->ask.idle;
        return question_change(w);
    case 'h':
        prompt_open(w, WATCH_ASK_HOST);
        return 0;
    case '/':
        prompt_open(w, WATCH_ASK_NAME);
        return 0;
    case 'e':
        return page_show_events(w);
    default:
        return 0;
    }
}

static unsigned any_letter(struct watch *w, uint32_t c)
{
    switch (c) {
    case 'q':
        return WATCH_QUIT;
    case '?':
        w->help = true;
        return 0;
    case ' ':
        w->paused = !w->paused;
        return w->paused ? 0 : WATCH_AGAIN;
    case '+':
    case '-':
        refresh_change(w, c == '+');
        return 0;
    case '[':
    case ']':
        return window_change(w, c == ']');
    default:
        return w->ask.page == WATCH_TABLE ? table_letter(w, c) : 0;
    }
}

static unsigned table_move(struct watch *w, enum key_kind kind)
{
    int64_t page = watch_draw_table_rows(w) > 1 ? watch_draw_table_rows(w) - 1 : 1;

    switch (kind) {
    case KEY_UP:
        return cursor_move(w, -1);
    case KEY_DOWN:
        return cursor_move(w, 1);
    case KEY_PAGE_UP:
        return cursor_move(w, -page);
    case KEY_PAGE_DOWN:
        return cursor_move(w, page);
    case KEY_HOME:
        return cursor_move(w, -(int64_t)WIRE_ROWS_MAX);
    case KEY_END:
        return cursor_move(w, WIRE_ROWS_MAX);
    case KEY_LEFT:
    case KEY_RIGHT:
        return order_by_next(w, kind == KEY_RIGHT);
    default:
        return kind == KEY_ENTER ? page_enter(w) : 0;
    }
}

static void events_move(struct watch *w, enum key_kind kind)
{
    size_t page = w->rows > 6 ? w->rows - 5 : 1, n = w->events ? w->events->rows->n_events : 0;
    size_t by = kind == KEY_UP || kind == KEY_DOWN    ? 1
                : kind == KEY_HOME || kind == KEY_END ? n
                                                      : page;

    if (kind == KEY_UP || kind == KEY_PAGE_UP || kind == KEY_HOME) {
        w->back = w->back + by < n ? w->back + by : n ? n - 1 : 0;
    } else if (kind == KEY_DOWN || kind == KEY_PAGE_DOWN || kind == KEY_END) {
        w->back = w->back > by ? w->back - by : 0;
    }
}

static unsigned control_letter(uint32_t c)
{
    return c == 'c' ? WATCH_QUIT : c == 'z' ? WATCH_SUSPEND : c == 'l' ? WATCH_REDRAW : 0;
}

unsigned watch_key(struct watch *w, const struct key *k)
{
    if (w->prompt != WATCH_NO_PROMPT) {
        return prompt_key(w, k);
    }
    if (k->pasted) {
        return 0; /* text, not commands */
    }
    if (k->kind == KEY_CTRL) {
        return control_letter(k->ch);
    }
    if (w->help) {
        w->help = false;
        return k->kind == KEY_CHAR && k->ch == 'q' ? WATCH_QUIT : 0;
    }
    if (k->kind == KEY_CHAR) {
        return any_letter(w, k->ch);
    }
    if (w->ask.page == WATCH_TABLE) {
        return table_move(w, k->kind);
    }
    if (k->kind == KEY_ESC || k->kind == KEY_ENTER || k->kind == KEY_BACKSPACE) {
        return page_show(w, WATCH_TABLE);
    }
    events_move(w, k->kind);
    return 0;
}

/* -- answers -- */

/* The figures of the fleet come more rarely than the rest: the last ones stay. */
static void fleet_take(struct watch *w, struct watch_answer *a)
{
    struct watch_answer *f;

    if (!a->overview && !a->hosts) {
        return;
    }
    f = mem_zalloc(sizeof *f);
    if (f) {
        watch_answer_free(w->fleet);
        f->overview = a->overview;
        f->hosts = a->hosts;
        a->overview = a->hosts = NULL;
        w->fleet = f;
    }
}

void watch_take(struct watch *w, struct watch_answer *a)
{
    enum watch_page page = a->question.page;
    struct watch_answer **place = page == WATCH_TABLE     ? &w->table
                                  : page == WATCH_DETAILS ? &w->details
                                                          : &w->events;

    memcpy(w->problem, a->problem, sizeof w->problem);
    if (!a->problem[0]) {
        w->answered_ns = a->when_ns;
        fleet_take(w, a);
    }
    if (!a->rows || a->question.number != w->ask.number) {
        watch_answer_free(a);
        return;
    }
    watch_answer_free(*place);
    *place = a;
    if (place == &w->table) {
        cursor_follow(w);
        watch_fit(w, w->rows, w->columns);
    }
}
