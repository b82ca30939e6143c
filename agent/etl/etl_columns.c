#include "agent/etl/etl_columns.h"

#include <stdlib.h>

#include "common/base/mem.h"
#include "common/conf/opt.h"

#define UNIT_OF_COUNT TABLE_COUNT
#define UNIT_OF_BYTES TABLE_BYTES
#define UNIT_OF_NS    TABLE_NS

enum {
    KEY_CPU_TIME,
    KEY_TALLY,
    KEY_DISK = KEY_TALLY + COUNTERS_COUNT,
    KEY_NET,
    KEY_FAULTS,
    KEY_COUNT,
};

_Static_assert(KEY_COUNT <= ETL_COLUMNS_KEYS_MAX, "room for every figure");

static const struct etl_columns_key keys[] = {
    {"cpu_time", TABLE_NS, "time on a CPU; its origin is times, cswitch or samples"},
#define ETL_COLUMNS_KEY(id, key, unit, help) {#key, UNIT_OF_##unit, help},
    COUNTERS_LIST(ETL_COLUMNS_KEY)
#undef ETL_COLUMNS_KEY
        {"disk", TABLE_BYTES, "bytes read from and written to disk"},
    {"net", TABLE_BYTES, "bytes sent and received by TCP and UDP"},
    {"faults", TABLE_COUNT, "hard and soft page faults"},
};

const struct etl_columns_key *etl_columns_keys(size_t *n)
{
    *n = KEY_COUNT;
    return keys;
}

enum err etl_columns_key_find(size_t *key, const char *name, struct errmsg *why)
{
    const char *names[KEY_COUNT], *closest;

    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (strcmp(keys[i].name, name) == 0) {
            *key = i;
            return ERR_OK;
        }
        names[i] = keys[i].name;
    }
    closest = opt_closest(name, names, KEY_COUNT);
    return errmsg_set(why, ERR_USAGE, "there is no figure '%s'%s%s%s; --help lists them", name,
                      closest ? "; did you mean '" : "", closest ? closest : "",
                      closest ? "'?" : "");
}

int64_t etl_columns_value_of_tally(const struct counters *t, size_t key)
{
    const uint64_t *n = t->n;

    if (key >= KEY_TALLY && key < KEY_DISK) {
        return (int64_t)n[key - KEY_TALLY];
    }
    switch (key) {
    case KEY_DISK:
        return (int64_t)(n[COUNTERS_DISK_READ_BYTES] + n[COUNTERS_DISK_WRITE_BYTES]);
    case KEY_NET:
        return (int64_t)(n[COUNTERS_TCP_SEND] + n[COUNTERS_TCP_RECV] + n[COUNTERS_UDP_SEND] +
                         n[COUNTERS_UDP_RECV]);
    case KEY_FAULTS:
        return (int64_t)(n[COUNTERS_HARD_FAULTS] + n[COUNTERS_SOFT_FAULTS]);
    default:
        return 0;
    }
}

bool etl_columns_value(const struct ptable_proc *p, size_t key, int64_t *v)
{
    if (key == KEY_CPU_TIME) {
        *v = p->count.values[M_CPU_TIME];
        return (p->count.mask & METRIC_BIT(M_CPU_TIME)) != 0;
    }
    *v = etl_columns_value_of_tally(&p->tally, key);
    return true;
}

uint64_t etl_columns_recorded(const struct etl_walk *w, struct ptable_proc *const *all, size_t n)
{
    const struct counters *nobody = aggregate_unattributed(etl_walk_aggregate(w));
    uint64_t recorded = 0;

    for (size_t k = 0; k < KEY_COUNT; k++) {
        bool any = etl_columns_value_of_tally(nobody, k) != 0;

        for (size_t i = 0; i < n && !any; i++) {
            int64_t v;

            any = etl_columns_value(all[i], k, &v) && v != 0;
        }
        recorded |= (uint64_t)any << k;
    }
    return recorded;
}

const char *etl_columns_cpu_origin(const struct ptable_proc *p)
{
    switch (p->info.cpu_origin) {
    case CPU_ORIGIN_TIMES:
        return "times";
    case CPU_ORIGIN_CSWITCH:
        return "cswitch";
    case CPU_ORIGIN_SAMPLES:
        return "samples";
    default:
        return "";
    }
}

/* -- the list -- */

static int by_pid(const void *pa, const void *pb)
{
    const struct ptable_proc *a = *(struct ptable_proc *const *)pa;
    const struct ptable_proc *b = *(struct ptable_proc *const *)pb;

    if (a->info.id.pid != b->info.id.pid) {
        return a->info.id.pid < b->info.id.pid ? -1 : 1;
    }
    return (a->info.id.start > b->info.id.start) - (a->info.id.start < b->info.id.start);
}

enum err etl_columns_list(const struct etl_walk *w, struct ptable_proc ***out, size_t *n)
{
    const struct ptable_stats *s = ptable_stats(etl_walk_table(w));
    struct ptable_proc *const heads[] = {ptable_first_running(etl_walk_table(w)),
                                         ptable_first_ended(etl_walk_table(w))};
    struct ptable_proc **all = mem_array(s->running + s->ended + 1, sizeof *all);
    size_t at = 0;

    if (!all) {
        return ERR_NOMEM;
    }
    for (size_t h = 0; h < 2; h++) {
        for (struct ptable_proc *p = heads[h]; p && at < s->running + s->ended; p = p->next) {
            aggregate_settle(etl_walk_aggregate(w), p);
            all[at++] = p;
        }
    }
    qsort(all, at, sizeof *all, by_pid);
    *out = all;
    *n = at;
    return ERR_OK;
}
