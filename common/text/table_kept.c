#include "common/text/table_kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/mem.h"
#include "common/base/vec.h"

#define ROWS_MAX (1u << 24)

struct kept_key {
    size_t column;
    enum table_unit unit;
    bool falls; /* the largest first */
};

struct kept_row {
    struct table_cell *cells;
    size_t at; /* where it was */
    const struct table_kept *of;
};

struct table_kept {
    struct arena memory;
    size_t width;
    struct kept_row *rows;
    size_t n, cap;
    struct kept_key keys[TABLE_KEPT_KEYS];
    size_t n_keys;
};

enum err table_kept_create(struct table_kept **out, size_t n, size_t max_bytes)
{
    struct table_kept *k = mem_zalloc(sizeof *k);

    if (!k) {
        return ERR_NOMEM;
    }
    k->width = n;
    arena_init(&k->memory, max_bytes);
    *out = k;
    return ERR_OK;
}

void table_kept_destroy(struct table_kept *k)
{
    if (k) {
        arena_fini(&k->memory);
        mem_free(k->rows);
        mem_free(k);
    }
}

enum err table_kept_add(struct table_kept *k, const struct table_cell *cells)
{
    size_t size = k->width * sizeof *cells;
    struct table_cell *to;
    enum err e = VEC_ROOM(&k->rows, &k->cap, k->n + 1, ROWS_MAX);

    if (e) {
        return e;
    }
    to = arena_dup(&k->memory, cells, size);
    if (!to) {
        return arena_refused(&k->memory, size);
    }
    for (size_t i = 0; i < k->width; i++) {
        if (cells[i].text.n) {
            char *text = arena_alloc(&k->memory, cells[i].text.n + 1);

            if (!text) {
                return arena_refused(&k->memory, cells[i].text.n + 1);
            }
            memcpy(text, cells[i].text.p, cells[i].text.n);
            to[i].text.p = text;
        }
    }
    k->rows[k->n] = (struct kept_row){to, k->n, k};
    k->n++;
    return ERR_OK;
}

size_t table_kept_count(const struct table_kept *k)
{
    return k->n;
}

struct table_cell *table_kept_row(struct table_kept *k, size_t i)
{
    return k->rows[i].cells;
}

/* -- order -- */

static int text_order(struct str a, struct str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int d = n ? memcmp(a.p, b.p, n) : 0;

    return d ? d : (a.n > b.n) - (a.n < b.n);
}

static int real_order(const struct table_cell *a, const struct table_cell *b)
{
    double x = a->state == TABLE_STRING ? strtod(a->text.p, NULL) : (double)a->number;
    double y = b->state == TABLE_STRING ? strtod(b->text.p, NULL) : (double)b->number;

    return (x > y) - (x < y);
}

static int cell_order(const struct kept_key *key, const struct table_cell *a,
                      const struct table_cell *b)
{
    int d;

    if (a->state == TABLE_ABSENT || b->state == TABLE_ABSENT) {
        return (a->state == TABLE_ABSENT) - (b->state == TABLE_ABSENT);
    }
    if (key->unit == TABLE_REAL) {
        d = real_order(a, b);
    } else if (a->state != b->state) {
        d = (a->state > b->state) - (a->state < b->state);
    } else if (a->state == TABLE_STRING) {
        d = text_order(a->text, b->text);
    } else {
        d = (a->number > b->number) - (a->number < b->number);
    }
    return key->falls ? -d : d;
}

static int row_order(const void *pa, const void *pb)
{
    const struct kept_row *a = pa, *b = pb;
    const struct table_kept *k = a->of;

    for (size_t i = 0; i < k->n_keys; i++) {
        size_t column = k->keys[i].column;
        int d = cell_order(&k->keys[i], &a->cells[column], &b->cells[column]);

        if (d) {
            return d;
        }
    }
    return (a->at > b->at) - (a->at < b->at);
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool is_named(const char *name, struct str word)
{
    if (!name || strlen(name) != word.n || !word.n) {
        return false;
    }
    for (size_t i = 0; i < word.n; i++) {
        if (lower(name[i]) != lower(word.p[i])) {
            return false;
        }
    }
    return true;
}

static enum err key_find(struct kept_key *out, const struct table_kept *k, struct str word,
                         const struct table_column *columns, struct errmsg *why)
{
    char names[512] = "";
    size_t at = 0;

    for (size_t i = 0; i < k->width; i++) {
        if (is_named(columns[i].key, word) || is_named(columns[i].title, word)) {
            *out = (struct kept_key){.column = i, .unit = columns[i].unit};
            return ERR_OK;
        }
        if (columns[i].key && at < sizeof names) {
            at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "",
                                   columns[i].key);
        }
    }
    return errmsg_set(why, ERR_USAGE, "--sort: there is no column '%.*s'; there are %.300s%s",
                      (int)(word.n < 64 ? word.n : 64), word.p, names, at > 300 ? "\u2026" : "");
}

enum err table_kept_sort(struct table_kept *k, const char *list, const struct table_column *columns,
                         struct errmsg *why)
{
    enum err e = ERR_OK;

    k->n_keys = 0;
    for (size_t n; !e && *list; list += n + (list[n] == ',')) {
        struct kept_key *key = &k->keys[k->n_keys];
        bool falls = list[0] == '-';

        n = strcspn(list, ",");
        if (k->n_keys == TABLE_KEPT_KEYS) {
            return errmsg_set(why, ERR_USAGE, "--sort: at most %u columns", TABLE_KEPT_KEYS);
        }
        e = key_find(key, k, (struct str){list + falls, n - falls}, columns, why);
        if (!e) {
            key->falls = falls;
            k->n_keys++;
        }
    }
    if (!e && k->n > 1 && k->n_keys) {
        qsort(k->rows, k->n, sizeof *k->rows, row_order);
    }
    return e;
}
