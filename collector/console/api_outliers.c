#include "collector/console/api_outliers.h"

#include <stdio.h>

#include "common/text/table.h"

static void put_value(struct jsonw *j, const char *key, const struct wire_answer *a, bool known,
                      int64_t v)
{
    const struct metric *m = a->n_metrics ? metric_by_id(a->metrics[0]) : NULL;
    struct table_cell c = table_number(known, v);

    table_put_json(j, key, m ? table_unit_of(m) : TABLE_COUNT, &c);
}

static void put_milli(struct jsonw *j, const char *key, int64_t v)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%.3f", (double)v / 1000.0);
    jsonw_raw(j, key, text);
}

/* In the order of the command line's columns. */
static const char *const keys[] = {"host",       "name",   "value", "times_median",
                                   "z",          "parts",  "most",  "most_value",
                                   "differs_in", "median", "class"};

#define KEYS (sizeof keys / sizeof *keys)

/* class: its words, or in columns its place among the classes */
static void put_key(struct jsonw *j, const struct wire_answer *a, size_t row, size_t key, bool rows)
{
    const struct wire_outlier *o = &a->outliers->rows[row];
    const struct wire_outlier_class *c = &a->outliers->classes[o->class];
    const struct wire_row *r = &a->rows[row];
    const char *name = rows ? keys[key] : NULL;

    switch (key) {
    case 0:
        if (rows) {
            jsonw_bytes(j, name, a->hosts[r->host].name);
        } else {
            jsonw_uint(j, name, r->host);
        }
        break;
    case 1:
        jsonw_bytes(j, name, r->info.name);
        break;
    case 2:
        put_value(j, name, a, r->have & 1, r->have & 1 ? r->values[0] : 0);
        break;
    case 3:
        put_milli(j, name, o->times_milli);
        break;
    case 4:
        put_milli(j, name, o->z_milli);
        break;
    case 5:
        jsonw_uint(j, name, o->parts);
        break;
    case 6:
        jsonw_bytes(j, name, o->most);
        break;
    case 7:
        put_value(j, name, a, o->most.n > 0, o->most_value);
        break;
    case 8:
        jsonw_bytes(j, name, o->differs);
        break;
    case 9:
        put_value(j, name, a, true, c->median);
        break;
    default:
        if (rows) {
            jsonw_bytes(j, name, c->name);
        } else {
            jsonw_uint(j, name, o->class);
        }
    }
}

static void put_flat(struct jsonw *j, const struct wire_answer *a)
{
    jsonw_array(j, "rows");
    for (size_t i = 0; i < a->n_rows; i++) {
        jsonw_object(j, NULL);
        for (size_t k = 0; k < KEYS; k++) {
            put_key(j, a, i, k, true);
        }
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void put_columns(struct jsonw *j, const struct wire_answer *a)
{
    jsonw_object(j, "rows");
    jsonw_uint(j, "n", a->n_rows);
    for (size_t k = 0; k < KEYS; k++) {
        jsonw_array(j, keys[k]);
        for (size_t i = 0; i < a->n_rows; i++) {
            put_key(j, a, i, k, false);
        }
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void put_class(struct jsonw *j, const struct wire_answer *a,
                      const struct wire_outlier_class *c)
{
    jsonw_object(j, NULL);
    jsonw_bytes(j, "name", c->name);
    jsonw_bytes(j, "image", c->image);
    jsonw_uint(j, "hosts", c->hosts);
    jsonw_uint(j, "not_judged", c->not_judged);
    put_value(j, "median", a, c->hosts > 0, c->median);
    if (c->hosts) {
        jsonw_uint(j, "spread_ppm", c->spread_ppm);
    } else {
        jsonw_null(j, "spread_ppm");
    }
    jsonw_end(j);
}

void api_outliers_json(struct jsonw *j, const struct wire_answer *a, bool rows)
{
    if (rows) {
        put_flat(j, a);
    } else {
        put_columns(j, a);
    }
    jsonw_array(j, "classes");
    for (size_t i = 0; i < a->outliers->n_classes; i++) {
        put_class(j, a, &a->outliers->classes[i]);
    }
    jsonw_end(j);
}
