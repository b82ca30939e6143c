#include "common/wire/wire_outliers.h"

#include "common/wire/wire.h"
#include "common/wire/wire_query.h"
#include "common/wire/wire_table.h"
#include "proto/query.pb-c.h"

#define CLASS_TEXT 256u

#define OF struct wire_outlier_class, Procfleet__V1__OutlierClass
static const struct wire_field class_fields[] = {
    WIRE_TEXT(name, CLASS_TEXT),
    WIRE_TEXT(image, MODEL_TEXT_MAX),
    WIRE_NUM(hosts),
    WIRE_NUM(not_judged),
    WIRE_NUM(median),
    WIRE_NUM(spread_ppm),
    WIRE_END,
};
#undef OF
const struct wire_table wire_outliers_class_table =
    WIRE_TABLE(wire_outlier_class, outlier_class, class_fields);

#define OF struct wire_outlier, Procfleet__V1__Outlier
static const struct wire_field outlier_fields[] = {
    WIRE_NUM_AS(class, class_), /* one of the classes */
    WIRE_NUM(times_milli),
    WIRE_NUM(z_milli),
    WIRE_NUM(parts), /* at most WIRE_OUTLIER_PARTS */
    WIRE_TEXT(most, MODEL_TEXT_MAX),
    WIRE_NUM(most_value),
    WIRE_TEXT(differs, MODEL_TEXT_MAX),
    WIRE_END,
};
#undef OF
const struct wire_table wire_outliers_table = WIRE_TABLE(wire_outlier, outlier, outlier_fields);

static bool outliers_are_sound(const struct wire_outliers *o, size_t n)
{
    bool sound = true;

    for (size_t i = 0; i < n; i++) {
        sound = sound && o->rows[i].class < o->n_classes && o->rows[i].parts <= WIRE_OUTLIER_PARTS;
    }
    return sound;
}

enum err wire_outliers_put(Procfleet__V1__Answer *m, const struct wire_answer *in,
                           struct wire_arena *a)
{
    const struct wire_outliers *o = in->outliers;
    enum err e;

    if (!o) {
        return ERR_OK;
    }
    if (o->n_classes > WIRE_OUTLIER_CLASSES || !outliers_are_sound(o, in->n_rows)) {
        return ERR_INVALID;
    }
    m->n_outlier_classes = o->n_classes;
    m->n_outliers = in->n_rows;
    e = wire_table_put_list(&m->outlier_classes, o->classes, o->n_classes,
                            &wire_outliers_class_table, a);
    return e ? e : wire_table_put_list(&m->outliers, o->rows, in->n_rows, &wire_outliers_table, a);
}

enum err wire_outliers_get(struct wire_answer *out, const Procfleet__V1__Answer *m,
                           struct wire_arena *a)
{
    size_t n = m->n_outlier_classes;
    struct wire_outliers *o;
    enum err e;

    if (n == 0 && m->n_outliers == 0) {
        return ERR_OK;
    }
    if (m->n_outliers != m->n_rows || n > WIRE_OUTLIER_CLASSES) {
        return n > WIRE_OUTLIER_CLASSES ? ERR_FULL : ERR_CORRUPT;
    }
    wire_arena_allow(a,
                     sizeof *o + (n + 1) * sizeof *o->classes + (m->n_rows + 1) * sizeof *o->rows);
    o = wire_arena_alloc(a, sizeof *o);
    if (!o) {
        return a->bad;
    }
    o->n_classes = n;
    out->outliers = o;
    e = wire_table_get_list(&o->classes, m->outlier_classes, n, &wire_outliers_class_table, a);
    e = e ? e : wire_table_get_list(&o->rows, m->outliers, m->n_rows, &wire_outliers_table, a);
    return e || outliers_are_sound(o, m->n_rows) ? e : ERR_CORRUPT;
}
