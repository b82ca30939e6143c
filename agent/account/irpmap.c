#include "agent/account/irpmap.h"

#include <string.h>

#include "common/base/mem.h"

/* A cache of sets: an address belongs to one set, and a set holds eight. Requests whose end is
 * never recorded are pushed out by newer ones. */

enum { WAYS = 8, SETS = IRPMAP_MAX / WAYS };

struct request {
    uint64_t irp;
    struct instance *owner;
    uint32_t generation;
    uint32_t number; /* of the put, from 1; 0 = free */
};

struct irpmap {
    uint32_t puts;
    uint32_t cleared; /* requests up to this one are forgotten */
    uint64_t *dropped;
    struct request sets[SETS][WAYS];
};

enum err irpmap_create(struct irpmap **out, uint64_t *dropped)
{
    struct irpmap *m = mem_zalloc(sizeof *m);

    if (!m) {
        return ERR_NOMEM;
    }
    m->dropped = dropped;
    *out = m;
    return ERR_OK;
}

void irpmap_destroy(struct irpmap *m)
{
    mem_free(m);
}

/* Every loss mark clears, and damage can make as many of them as there are records: the memory is
 * left alone. */
void irpmap_clear(struct irpmap *m)
{
    m->cleared = m->puts;
}

static bool held(const struct irpmap *m, const struct request *r)
{
    return r->number > m->cleared;
}

static uint32_t next_number(struct irpmap *m)
{
    if (++m->puts == 0) { /* begun anew once in 2^32 */
        memset(m->sets, 0, sizeof m->sets);
        m->cleared = 0;
        m->puts = 1;
    }
    return m->puts;
}

static struct request *set_of(struct irpmap *m, uint64_t irp)
{
    return m->sets[(irp * UINT64_C(0x9E3779B97F4A7C15)) >> 32 & (SETS - 1)];
}

void irpmap_put(struct irpmap *m, uint64_t irp, struct instance *p)
{
    struct request *set = set_of(m, irp), *to = &set[0];
    uint32_t number = next_number(m);

    for (size_t i = 0; i < WAYS; i++) {
        if (held(m, &set[i]) && set[i].irp == irp) {
            to = &set[i];
            break;
        }
        if (set[i].number < to->number) {
            to = &set[i]; /* free, or older */
        }
    }
    *m->dropped += held(m, to) && to->irp != irp;
    *to = (struct request){irp, p, p ? p->generation : 0, number};
}

bool irpmap_take(struct irpmap *m, uint64_t irp, struct instance **out)
{
    struct request *set = set_of(m, irp);

    for (size_t i = 0; i < WAYS; i++) {
        struct instance *p = set[i].owner;

        if (held(m, &set[i]) && set[i].irp == irp) {
            set[i].number = 0;
            *out = p && p->generation == set[i].generation ? p : NULL;
            return true;
        }
    }
    return false;
}
