#include "common/wire/wire_lifetimes.h"

#include "common/wire/wire.h"
#include "common/wire/wire_series.h"
#include "proto/query.pb-c.h"

/* Lifetimes of answers: see wire_lifetimes.h. Columns are borrowed in both directions: encoding
 * packs the caller's arrays, and what is decoded points into the unpacked message. One check serves
 * both, so that whoever reads a column may use its numbers as indices. */

#define LIFE_MAX_US (INT64_MAX / 4000) /* sums of two fit as nanoseconds */

static bool life_is_in_range(int64_t us)
{
    return us >= -LIFE_MAX_US && us <= LIFE_MAX_US;
}

static bool life_row_is_sound(const struct wire_lifetimes *l, size_t i, size_t n_hosts)
{
    return l->host[i] < n_hosts && l->name[i] < l->n_names && l->user[i] < l->n_names &&
           life_is_in_range(l->start_us[i]) && life_is_in_range(l->life_us[i]) &&
           l->life_us[i] >= WIRE_LIFE_UNKNOWN && l->parent[i] >= -(int64_t)UINT32_MAX &&
           l->parent[i] <= (int64_t)i && l->exit_code[i] >= WIRE_LIFE_NOT_KNOWN &&
           l->exit_code[i] <= (int64_t)UINT32_MAX && l->cpu_us[i] >= WIRE_LIFE_NOT_KNOWN &&
           life_is_in_range(l->cpu_us[i]) && (i == 0 || l->start_us[i - 1] <= l->start_us[i]);
}

static bool life_is_sound(const struct wire_lifetimes *l, size_t n_hosts)
{
    bool sound = l->step_ns >= 0 && l->step_ns <= INT64_MAX / (l->n_buckets ? l->n_buckets : 1);

    for (size_t i = 0; sound && i < l->n; i++) {
        sound = life_row_is_sound(l, i, n_hosts);
    }
    for (size_t i = 0; sound && i < l->n_images; i++) {
        sound = l->images[i].name < l->n_names;
    }
    return sound;
}

/* Of one host. */
static size_t life_measured_bytes(size_t n_buckets)
{
    return (n_buckets + 7) / 8;
}

static bool life_is_bounded(size_t n, size_t names, size_t buckets, size_t images)
{
    return n <= WIRE_LIVES_MAX && names <= WIRE_LIFE_NAMES_MAX && buckets <= WIRE_BUCKETS_MAX &&
           images <= WIRE_LIFE_IMAGES_MAX && images * buckets <= WIRE_LIFE_DENSITY_MAX;
}

/* -- encode -- */

#define LIFE_LEND(m, field, from, n) \
    ((m)->field = (void *)(uintptr_t)(from)->field, (m)->n_##field = (n))

static void life_put_columns(Procfleet__V1__Lifetimes *m, const struct wire_lifetimes *l)
{
    LIFE_LEND(m, start_us, l, l->n);
    LIFE_LEND(m, life_us, l, l->n);
    LIFE_LEND(m, host, l, l->n);
    LIFE_LEND(m, name, l, l->n);
    LIFE_LEND(m, user, l, l->n);
    LIFE_LEND(m, pid, l, l->n);
    LIFE_LEND(m, parent, l, l->n);
    LIFE_LEND(m, start, l, l->n);
    LIFE_LEND(m, exit_code, l, l->n);
    LIFE_LEND(m, flags, l, l->n);
    LIFE_LEND(m, cpu_us, l, l->n);
    LIFE_LEND(m, starts, l, l->n_buckets);
    LIFE_LEND(m, ends, l, l->n_buckets);
    LIFE_LEND(m, present, l, l->n_buckets);
    LIFE_LEND(m, hosts_in, l, l->hosts_in ? l->n_buckets : 0);
    m->has_measured = l->n_measured > 0;
    m->measured.data = (uint8_t *)(uintptr_t)l->measured;
    m->measured.len = l->n_measured * life_measured_bytes(l->n_buckets);
}

static enum err life_put_names(Procfleet__V1__Lifetimes *m, const struct wire_lifetimes *l,
                               struct wire_arena *a)
{
    enum err e = ERR_OK;

    m->names = wire_arena_array(a, l->n_names, sizeof *m->names);
    if (!m->names) {
        return a->bad;
    }
    for (size_t i = 0; !e && i < l->n_names; i++) {
        protobuf_c_boolean has;

        e = wire_text_put(&has, &m->names[i], l->names[i], MODEL_TEXT_MAX, a);
    }
    m->n_names = l->n_names;
    return e;
}

static enum err life_put_images(Procfleet__V1__Lifetimes *m, const struct wire_lifetimes *l,
                                struct wire_arena *a)
{
    Procfleet__V1__LifetimesImage *items = wire_list(&m->images, l->n_images, sizeof *items, a);

    if (!items) {
        return a->bad;
    }
    for (size_t i = 0; i < l->n_images; i++) {
        procfleet__v1__lifetimes_image__init(&items[i]);
        WIRE_PUT(&items[i], name, l->images[i].name);
        LIFE_LEND(&items[i], starts, &l->images[i], l->n_buckets);
        LIFE_LEND(&items[i], ends, &l->images[i], l->n_buckets);
    }
    m->n_images = l->n_images;
    return ERR_OK;
}

enum err wire_lifetimes_put(struct Procfleet__V1__Answer *out, const struct wire_answer *in,
                            struct wire_arena *a)
{
    const struct wire_lifetimes *l = in->lifetimes;
    Procfleet__V1__Lifetimes *m;
    enum err e;

    if (!l) {
        return ERR_OK;
    }
    if (!life_is_bounded(l->n, l->n_names, l->n_buckets, l->n_images) ||
        (l->n_measured && l->n_measured != in->n_hosts) ||
        l->n_measured * life_measured_bytes(l->n_buckets) > WIRE_LIFE_MEASURED_MAX ||
        !life_is_sound(l, in->n_hosts)) {
        return ERR_INVALID;
    }
    m = wire_arena_array(a, 1, sizeof *m);
    if (!m) {
        return a->bad;
    }
    procfleet__v1__lifetimes__init(m);
    WIRE_PUT(m, t0_ns, l->t0_ns);
    WIRE_PUT(m, left_out, l->left_out);
    WIRE_PUT(m, step_ns, (uint64_t)l->step_ns);
    life_put_columns(m, l);
    out->lifetimes = m;
    e = life_put_names(m, l, a);
    return e ? e : life_put_images(m, l, a);
}

/* -- decode -- */

static bool life_is_equal(const Procfleet__V1__Lifetimes *m)
{
    const size_t columns[] = {m->n_life_us, m->n_host,  m->n_name,      m->n_user,  m->n_pid,
                              m->n_parent,  m->n_start, m->n_exit_code, m->n_flags, m->n_cpu_us};
    bool equal = m->n_ends == m->n_starts && m->n_present == m->n_starts &&
                 (!m->n_hosts_in || m->n_hosts_in == m->n_starts);

    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        equal = equal && columns[i] == m->n_start_us;
    }
    for (size_t i = 0; i < m->n_images; i++) {
        equal =
            equal && m->images[i]->n_starts == m->n_starts && m->images[i]->n_ends == m->n_starts;
    }
    return equal;
}

static struct wire_lifetimes life_get_columns(const Procfleet__V1__Lifetimes *m)
{
    return (struct wire_lifetimes){.t0_ns = m->t0_ns,
                                   .n = m->n_start_us,
                                   .start_us = m->start_us,
                                   .life_us = m->life_us,
                                   .host = m->host,
                                   .name = m->name,
                                   .user = m->user,
                                   .pid = m->pid,
                                   .parent = m->parent,
                                   .start = m->start,
                                   .exit_code = m->exit_code,
                                   .flags = m->flags,
                                   .cpu_us = m->cpu_us,
                                   .n_names = m->n_names,
                                   .left_out = m->left_out,
                                   .step_ns = (int64_t)m->step_ns,
                                   .n_buckets = (uint32_t)m->n_starts,
                                   .starts = m->starts,
                                   .ends = m->ends,
                                   .present = m->present,
                                   .hosts_in = m->n_hosts_in ? m->hosts_in : NULL,
                                   .n_images = m->n_images};
}

enum err wire_lifetimes_get(struct wire_answer *out, const struct Procfleet__V1__Answer *in,
                            struct wire_arena *a)
{
    const Procfleet__V1__Lifetimes *m = in->lifetimes;
    struct wire_lifetimes_image *images;
    struct wire_lifetimes *l;
    struct str *names;

    if (!m) {
        return ERR_OK;
    }
    if (!life_is_bounded(m->n_start_us, m->n_names, m->n_starts, m->n_images) ||
        (m->has_measured && m->measured.len > WIRE_LIFE_MEASURED_MAX)) {
        return ERR_FULL;
    }
    if (!life_is_equal(m) || m->step_ns > INT64_MAX ||
        (m->has_measured && m->measured.len != out->n_hosts * life_measured_bytes(m->n_starts))) {
        return ERR_CORRUPT;
    }
    wire_arena_allow(a, WIRE_LIFE_NAMES_MAX * sizeof *names + (64u << 10));
    l = wire_arena_array(a, 1, sizeof *l);
    names = wire_arena_array(a, m->n_names, sizeof *names);
    images = wire_arena_array(a, m->n_images, sizeof *images);
    if (!l || !names || !images) {
        return a->bad;
    }
    for (size_t i = 0; i < m->n_names; i++) {
        if (!wire_text_get(&names[i], 1, &m->names[i], MODEL_TEXT_MAX)) {
            return ERR_CORRUPT;
        }
    }
    for (size_t i = 0; i < m->n_images; i++) {
        images[i] = (struct wire_lifetimes_image){m->images[i]->name, m->images[i]->starts,
                                                  m->images[i]->ends};
    }
    *l = life_get_columns(m);
    if (m->has_measured && m->measured.len) {
        l->measured = m->measured.data;
        l->n_measured = out->n_hosts;
    }
    l->names = names;
    l->images = images;
    out->lifetimes = l;
    return life_is_sound(l, out->n_hosts) ? ERR_OK : ERR_CORRUPT;
}
