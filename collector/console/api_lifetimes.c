#include "collector/console/api_lifetimes.h"

#include <stdio.h>

#include "collector/console/api_value.h"

/* Milliseconds from microseconds, without a fraction that is zero. */
static void put_us(struct jsonw *j, int64_t us)
{
    char text[32];
    uint64_t v = us < 0 ? 0 - (uint64_t)us : (uint64_t)us;

    if (v % 1000) {
        (void)snprintf(text, sizeof text, "%s%llu.%03u", us < 0 ? "-" : "",
                       (unsigned long long)(v / 1000), (unsigned)(v % 1000));
        jsonw_raw(j, NULL, text);
    } else {
        jsonw_int(j, NULL, us / 1000);
    }
}

enum life_special { LIFE_JSON_LIVES = -1, LIFE_JSON_UNKNOWN = -2 };

static void put_lives(struct jsonw *j, const struct wire_lifetimes *l)
{
    jsonw_array(j, "life_ms");
    for (size_t i = 0; i < l->n; i++) {
        if (l->life_us[i] == WIRE_LIFE_LIVES) {
            jsonw_int(j, NULL, LIFE_JSON_LIVES);
        } else if (l->life_us[i] == WIRE_LIFE_UNKNOWN) {
            jsonw_int(j, NULL, LIFE_JSON_UNKNOWN);
        } else {
            put_us(j, l->life_us[i]);
        }
    }
    jsonw_end(j);
    jsonw_array(j, "exit_code");
    for (size_t i = 0; i < l->n; i++) {
        if (l->exit_code[i] == WIRE_LIFE_NOT_KNOWN) {
            jsonw_null(j, NULL);
        } else {
            jsonw_int(j, NULL, l->exit_code[i]);
        }
    }
    jsonw_end(j);
    jsonw_array(j, "cpu_ms");
    for (size_t i = 0; i < l->n; i++) {
        if (l->cpu_us[i] == WIRE_LIFE_NOT_KNOWN) {
            jsonw_null(j, NULL);
        } else {
            put_us(j, l->cpu_us[i]);
        }
    }
    jsonw_end(j);
}

/* Of each host, from the first bucket on by turns: so many buckets not measured, so many measured.
 */
static void put_measured_host(struct jsonw *j, const struct wire_lifetimes *l, size_t host)
{
    bool on = false;
    uint32_t n = 0;

    jsonw_array(j, NULL);
    for (uint32_t b = 0; b < l->n_buckets; b++, n++) {
        if (wire_lifetimes_measured(l, host, b) != on) {
            jsonw_uint(j, NULL, n);
            on = !on;
            n = 0;
        }
    }
    jsonw_uint(j, NULL, n);
    jsonw_end(j);
}

static void put_measured(struct jsonw *j, const struct wire_lifetimes *l)
{
    if (l->hosts_in) {
        api_value_u32s(j, "hosts_in", l->hosts_in, l->n_buckets);
    }
    if (l->n_measured) {
        jsonw_array(j, "measured");
        for (size_t i = 0; i < l->n_measured; i++) {
            put_measured_host(j, l, i);
        }
        jsonw_end(j);
    }
}

static void put_density(struct jsonw *j, const struct wire_lifetimes *l)
{
    jsonw_object(j, "density");
    api_value_ms(j, "t0_ms", l->t0_ns);
    api_value_ms(j, "step_ms", l->step_ns);
    jsonw_uint(j, "n", l->n_buckets);
    api_value_u32s(j, "starts", l->starts, l->n_buckets);
    api_value_u32s(j, "ends", l->ends, l->n_buckets);
    api_value_u32s(j, "present", l->present, l->n_buckets);
    put_measured(j, l);
    jsonw_array(j, "images");
    for (size_t i = 0; i < l->n_images; i++) {
        jsonw_object(j, NULL);
        jsonw_uint(j, "name", l->images[i].name);
        api_value_u32s(j, "starts", l->images[i].starts, l->n_buckets);
        api_value_u32s(j, "ends", l->images[i].ends, l->n_buckets);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_end(j);
}

/* `start` is left out: a click asks processes by pid and moment. */
void api_lifetimes_json(struct jsonw *j, const struct wire_lifetimes *l)
{
    jsonw_object(j, "lifetimes");
    api_value_ns(j, "t0_ns", l->t0_ns);
    api_value_ms(j, "t0_ms", l->t0_ns);
    jsonw_uint(j, "n", l->n);
    jsonw_array(j, "start_ms");
    for (size_t i = 0; i < l->n; i++) {
        put_us(j, l->start_us[i]);
    }
    jsonw_end(j);
    put_lives(j, l);
    api_value_u32s(j, "host", l->host, l->n);
    api_value_u32s(j, "name", l->name, l->n);
    api_value_u32s(j, "user", l->user, l->n);
    api_value_u32s(j, "pid", l->pid, l->n);
    jsonw_array(j, "parent");
    for (size_t i = 0; i < l->n; i++) {
        jsonw_int(j, NULL, l->parent[i]);
    }
    jsonw_end(j);
    api_value_u32s(j, "flags", l->flags, l->n);
    jsonw_array(j, "names");
    for (size_t i = 0; i < l->n_names; i++) {
        jsonw_bytes(j, NULL, l->names[i]);
    }
    jsonw_end(j);
    jsonw_uint(j, "left_out", l->left_out);
    put_density(j, l);
    jsonw_end(j);
}
