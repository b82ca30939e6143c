#include "common/lab/outlier.h"

#include <math.h>

#include "common/lab/stat.h"

#define ERROR_RATE 0.05 /* of an answer, both sides together */
#define WHOLE      OUTLIER_PARTS
#define NOTHING    0.001 /* of the median: stands for zero, whose logarithm there is none of */

/* Median and spread of logarithms. */
struct level {
    double median, spread, zero;
    bool known;
};

static double level_log(const struct level *l, double value)
{
    return log(value + l->zero);
}

/* Of the whole range for WHOLE, else of a part. */
static double outlier_value(const struct outlier *o, size_t part)
{
    return part == WHOLE ? o->value : o->parts[part];
}

/* Of the values that are known. */
static void level_find(struct level *l, const struct outlier *list, size_t n, size_t part,
                       double *room)
{
    size_t known = 0;
    bool zero = false;

    *l = (struct level){.known = false};
    for (size_t i = 0; i < n; i++) {
        double v = outlier_value(&list[i], part);

        if (isfinite(v) && v >= 0) {
            room[known++] = v;
            zero = zero || v == 0;
        }
    }
    stat_sort(room, known);
    if (known < OUTLIER_HOSTS_MIN || !(stat_median(room, known) > 0)) {
        return;
    }
    l->zero = zero ? NOTHING * stat_median(room, known) : 0;
    for (size_t i = 0; i < known; i++) {
        room[i] = level_log(l, room[i]);
    }
    l->median = stat_median(room, known);
    l->spread = stat_mad(room, known, room + n);
    l->spread = fmax(l->spread, log1p(OUTLIER_SPREAD));
    l->known = true;
}

/* 1: more than usual, -1: less, 0: neither. */
static int level_side(const struct level *l, double value, double limit, double *z, double *times)
{
    double d = level_log(l, value) - l->median;

    *z = d / l->spread;
    *times = exp(d);
    if (fabs(*z) <= limit || fabs(d) < log(OUTLIER_TIMES)) {
        return 0;
    }
    return d > 0 ? 1 : -1;
}

void outlier_judge(struct outlier_class *out, struct outlier *list, size_t n, size_t tests,
                   double *room)
{
    double limit = stat_normal_quantile(1 - ERROR_RATE / 2 / (double)(tests > n ? tests : n + !n));
    double limit_part = stat_normal_quantile(1 - ERROR_RATE / 2);
    struct level whole, part;
    double z, times;

    *out = (struct outlier_class){.judged = false};
    for (size_t i = 0; i < n; i++) {
        list[i].times = list[i].z = 0;
        list[i].parts_out = 0;
        list[i].is_one = false;
    }
    level_find(&whole, list, n, WHOLE, room);
    if (!whole.known) {
        return;
    }
    *out = (struct outlier_class){exp(whole.median) - whole.zero, expm1(whole.spread), true};
    for (size_t p = 0; p < OUTLIER_PARTS; p++) {
        level_find(&part, list, n, p, room);
        for (size_t i = 0; part.known && i < n; i++) {
            int side = level_side(&whole, list[i].value, limit, &z, &times);

            if (side && isfinite(list[i].parts[p]) &&
                level_side(&part, list[i].parts[p], limit_part, &z, &times) == side) {
                list[i].parts_out++;
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        list[i].is_one =
            level_side(&whole, list[i].value, limit, &list[i].z, &list[i].times) != 0 &&
            list[i].parts_out >= OUTLIER_PARTS_OUT;
    }
}
