#include "common/wire/wire_outliers.h"

#include "common/wire/wire.h"
#include "common/wire/wire_query.h"
#include "proto/query.pb-c.h"

#define CLASS_TEXT 256u

static enum err classes_put(Procfleet__V1__Answer *m, const struct wire_outliers *in,
                            struct wire_arena *a)
{
    Procfleet__V1__OutlierClass *items;
    enum err e = ERR_OK;

    if (in->n_classes > WIRE_OUTLIER_CLASSES) {
        return ERR_INVALID;
    }
    items = wire_list(&m->outlier_classes, in->n_classes, sizeof *items, a);
    if (!items) {
        return a->bad;
    }
    for (size_t i = 0; !e && i < in->n_classes; i++) {
        const struct wire_outlier_class *c = &in->classes[i];

        procfleet__v1__outlier_class__init(&items[i]);
        e = WIRE_PUT_TEXT(&items[i], name, c->name, CLASS_TEXT, a);
        e = e ? e : WIRE_PUT_TEXT(&items[i], image, c->image, MODEL_TEXT_MAX, a);
        WIRE_PUT(&items[i], hosts, c->hosts);
        WIRE_PUT(&items[i], not_judged, c->not_judged);
        WIRE_PUT(&items[i], median, c->median);
        WIRE_PUT(&items[i], spread_ppm, c->spread_ppm);
    }
    m->n_outlier_classes = in->n_classes;
    return e;
}

enum err wire_outliers_put(Procfleet__V1__Answer *m, const struct wire_answer *in,
                           struct wire_arena *a)
{
    Procfleet__V1__Outlier *items;
    enum err e;

    if (!in->outliers) {
        return ERR_OK;
    }
    e = classes_put(m, in->outliers, a);
    items = e ? NULL : wire_list(&m->outliers, in->n_rows, sizeof *items, a);
    if (!items) {
        return e ? e : a->bad;
    }
    for (size_t i = 0; !e && i < in->n_rows; i++) {
        const struct wire_outlier *o = &in->outliers->rows[i];

        if (o->class >= in->outliers->n_classes || o->parts > WIRE_OUTLIER_PARTS) {
            return ERR_INVALID;
        }
        procfleet__v1__outlier__init(&items[i]);
        e = WIRE_PUT_TEXT(&items[i], most, o->most, MODEL_TEXT_MAX, a);
        e = e ? e : WIRE_PUT_TEXT(&items[i], differs, o->differs, MODEL_TEXT_MAX, a);
        WIRE_PUT(&items[i], class_, o->class);
        WIRE_PUT(&items[i], times_milli, o->times_milli);
        WIRE_PUT(&items[i], z_milli, o->z_milli);
        WIRE_PUT(&items[i], parts, o->parts);
        WIRE_PUT(&items[i], most_value, o->most_value);
    }
    m->n_outliers = in->n_rows;
    return e;
}

static bool class_get(struct wire_outlier_class *c, const Procfleet__V1__OutlierClass *m)
{
    *c = (struct wire_outlier_class){.hosts = m->hosts,
                                     .not_judged = m->not_judged,
                                     .median = m->median,
                                     .spread_ppm = m->spread_ppm};
    return wire_text_get(&c->name, m->has_name, &m->name, CLASS_TEXT) &&
           wire_text_get(&c->image, m->has_image, &m->image, MODEL_TEXT_MAX);
}

static bool outlier_get(struct wire_outlier *o, const Procfleet__V1__Outlier *m, size_t n_classes)
{
    *o = (struct wire_outlier){.class = m->class_,
                               .times_milli = m->times_milli,
                               .z_milli = m->z_milli,
                               .parts = (uint8_t)m->parts,
                               .most_value = m->most_value};
    return m->class_ < n_classes && m->parts <= WIRE_OUTLIER_PARTS &&
           wire_text_get(&o->most, m->has_most, &m->most, MODEL_TEXT_MAX) &&
           wire_text_get(&o->differs, m->has_differs, &m->differs, MODEL_TEXT_MAX);
}

enum err wire_outliers_get(struct wire_answer *out, const Procfleet__V1__Answer *m,
                           struct wire_arena *a)
{
    size_t n = m->n_outlier_classes;
    struct wire_outlier_class *classes;
    struct wire_outliers *o;
    struct wire_outlier *rows;

    if (n == 0 && m->n_outliers == 0) {
        return ERR_OK;
    }
    if (m->n_outliers != m->n_rows || n > WIRE_OUTLIER_CLASSES) {
        return n > WIRE_OUTLIER_CLASSES ? ERR_FULL : ERR_CORRUPT;
    }
    wire_arena_allow(a, sizeof *o + (n + 1) * sizeof *classes + (m->n_rows + 1) * sizeof *rows);
    o = wire_arena_alloc(a, sizeof *o);
    classes = wire_arena_array(a, n, sizeof *classes);
    rows = wire_arena_array(a, m->n_rows, sizeof *rows);
    if (!o || !classes || !rows) {
        return a->bad;
    }
    for (size_t i = 0; i < n; i++) {
        if (!class_get(&classes[i], m->outlier_classes[i])) {
            return ERR_CORRUPT;
        }
    }
    for (size_t i = 0; i < m->n_rows; i++) {
        if (!outlier_get(&rows[i], m->outliers[i], n)) {
            return ERR_CORRUPT;
        }
    }
    *o = (struct wire_outliers){n, classes, rows};
    out->outliers = o;
    return ERR_OK;
}
