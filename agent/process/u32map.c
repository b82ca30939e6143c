#include "agent/process/u32map.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"

#define GOLDEN_RATIO UINT64_C(0x9E3779B97F4A7C15)

/* So many places passed on the way to a new one are no chance. */
enum { U32MAP_PROBES_MAX = 64 };

enum { U32MAP_FIRST_CAP = 256, U32MAP_FIRST_SHIFT = 64 - 8 };

static bool dead(const struct u32map *m, const struct u32map_entry *e)
{
    return m->stale && m->stale(e);
}

enum err u32map_create(struct u32map **out, size_t max, u32map_stale_fn stale)
{
    struct u32map *m = mem_zalloc(sizeof *m);

    if (!m) {
        return ERR_NOMEM;
    }
    m->max = max;
    m->stale = stale;
    m->cap = U32MAP_FIRST_CAP;
    m->shift = U32MAP_FIRST_SHIFT;
    m->spread = GOLDEN_RATIO;
    m->at = mem_array(m->cap, sizeof *m->at);
    if (!m->at) {
        mem_free(m);
        return ERR_NOMEM;
    }
    *out = m;
    return ERR_OK;
}

void u32map_destroy(struct u32map *m)
{
    if (!m) {
        return;
    }
    mem_free(m->at);
    mem_free(m);
}

void u32map_clear(struct u32map *m)
{
    memset(m->at, 0, m->cap * sizeof *m->at);
    m->used = 0;
    m->refusals_left = 0;
    m->spread_again = 0;
    m->reach = 0;
}

struct u32map_entry *u32map_get(const struct u32map *m, uint32_t key)
{
    struct u32map_entry *e = u32map_find(m, key);

    return e && !dead(m, e) ? e : NULL;
}

/* The first empty place for `key`, which is entered there next. */
static size_t empty_place(struct u32map *m, uint32_t key)
{
    size_t home = u32map_place(m, key), n = 0;

    while (m->at[(home + n) & (m->cap - 1)].owner) {
        n++;
    }
    m->reach = n > m->reach ? n : m->reach;
    return (home + n) & (m->cap - 1);
}

static size_t count_living(const struct u32map *m)
{
    size_t n = 0;

    for (size_t i = 0; i < m->cap; i++) {
        if (m->at[i].owner && !dead(m, &m->at[i])) {
            n++;
        }
    }
    return n;
}

/* Moves the living entries into a table of `cap` places. */
static bool rebuild(struct u32map *m, size_t cap)
{
    struct u32map old = *m;
    struct u32map_entry *at = mem_array(cap, sizeof *at);

    if (!at) {
        return false;
    }
    m->at = at;
    assert(cap >= m->cap && m->used <= m->cap);
    m->shift -= cap > m->cap; /* doubled, or as it was */
    m->cap = cap;
    m->used = 0;
    m->reach = 0;
    for (size_t i = 0; i < old.cap; i++) {
        if (old.at[i].owner && !dead(m, &old.at[i])) {
            at[empty_place(m, old.at[i].key)] = old.at[i];
            m->used++;
        }
    }
    mem_free(old.at);
    return true;
}

/* Makes sure that half of the places stays empty and that no more than `max` entries live. A
 * table found full is not swept again for every refusal, nor for every entry that dies. */
static bool make_room(struct u32map *m)
{
    size_t limit = m->cap / 2;
    size_t living;

    if (m->used < limit && m->used < m->max) {
        return true;
    }
    if (m->refusals_left > 0) {
        m->refusals_left--;
        return false;
    }
    living = count_living(m);
    if (living >= m->max || (m->used >= m->max && living >= m->max - m->max / 16)) {
        m->refusals_left = m->cap / 8;
        return false;
    }
    return rebuild(m, living * 3 >= m->cap ? m->cap * 2 : m->cap);
}

static void spread_anew(struct u32map *m)
{
    uint64_t before = m->spread;

    if (os_random(&m->spread, sizeof m->spread)) {
        m->spread = before; /* slow, and still right */
        return;
    }
    m->spread |= 1;
    if (!rebuild(m, m->cap)) {
        m->spread = before;
    }
    m->spread_again = m->used + m->cap / 16;
}

struct u32map_entry *u32map_put(struct u32map *m, uint32_t key)
{
    struct u32map_entry *reuse = NULL;
    size_t i, passed = 0, reuse_after = 0;

    for (i = u32map_place(m, key); m->at[i].owner; i = (i + 1) & (m->cap - 1)) {
        if (m->at[i].key == key) {
            if (dead(m, &m->at[i])) {
                m->at[i].owner = NULL; /* filled at once by the caller, so the chain stays whole */
            }
            return &m->at[i];
        }
        if (!reuse && dead(m, &m->at[i])) {
            reuse = &m->at[i];
            reuse_after = passed;
        }
        passed++;
    }
    if (passed > U32MAP_PROBES_MAX && m->used >= m->spread_again) {
        spread_anew(m);
        reuse = NULL;
    }
    if (!reuse) {
        if (!make_room(m)) {
            return NULL;
        }
        reuse = &m->at[empty_place(m, key)];
        m->used++;
    } else if (reuse_after > m->reach) {
        m->reach = reuse_after;
    }
    *reuse = (struct u32map_entry){.key = key};
    return reuse;
}
