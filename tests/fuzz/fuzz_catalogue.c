/* Hostile rest values into a day of the catalogue: what is taken in comes back, each instance once,
 * alive at some moment. */
#include <assert.h>

#include "collector/store/catalogue/catalogue.h"
#include "collector/store/meta/meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static const struct uuid host = {{1}};

static struct catalogue *catalogue(void)
{
    static struct catalogue c;

    if (!c.writing) {
        assert(catalogue_db_open(&c.writing, ":memory:", DAY_WRITE) == ERR_OK);
    }
    return &c;
}

struct look {
    struct day_db *db;
    struct arena memory;
    uint64_t found;
};

static enum err look_at(void *ctx, const struct day_key *k)
{
    struct look *l = ctx;
    struct day_inst inst;

    arena_reset(&l->memory);
    assert(catalogue_db_get(l->db, &l->memory, k, true, &inst) == ERR_OK);
    assert(catalogue_db_get(l->db, &l->memory, k, false, &inst) == ERR_OK);
    assert(proc_id_eq(inst.info.id, k->id));
    assert(inst.info.command_line.n <= MODEL_COMMAND_LINE_MAX);
    l->found++;
    return ERR_OK;
}

static void check(struct day_db *db, const struct window_rest *rests, size_t n)
{
    struct look l = {.db = db};
    struct day_boot *boots;
    struct day_facts facts;
    size_t n_boots;
    int64_t id = 0;

    arena_init(&l.memory, 1u << 20);
    assert(catalogue_db_facts(db, &facts) == ERR_OK);
    for (size_t i = 0; i < n; i++) {
        const struct batch *b = &rests[i].batch;

        for (size_t k = 0; k < b->n_infos; k++) {
            struct arena memory;
            uint64_t before = l.found;

            arena_init(&memory, 1u << 20);
            assert(catalogue_db_boots(db, &memory, &host, &id, &boots, &n_boots) == ERR_OK);
            for (size_t at = 0; at < n_boots; at++) {
                if (memcmp(&boots[at].uuid, &b->head.boot, sizeof b->head.boot) == 0) {
                    assert(catalogue_db_of_pid(db, boots[at].id, b->infos[k].id.pid,
                                               b->infos[k].id.start, look_at, &l) == ERR_OK);
                }
            }
            assert(l.found > before);
            arena_fini(&memory);
        }
    }
    l.found = 0;
    assert(!id || catalogue_db_alive(db, id, INT64_MIN, INT64_MAX, look_at, &l) == ERR_OK);
    arena_fini(&l.memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct catalogue *c = catalogue();
    struct window_rest *rests;
    struct arena memory;
    size_t count;
    int64_t id;
    bool more;

    arena_init(&memory, 64u << 20);
    if (meta_decode(&memory, p, n, &host, &rests, &count, &more) == ERR_OK) {
        assert(catalogue_db_begin(c->writing) == ERR_OK);
        assert(catalogue_db_host(c->writing, &host, &id) == ERR_OK);
        for (size_t i = 0; i < count; i++) {
            assert(catalogue_take_rest(c, id, &rests[i].batch) == ERR_OK);
        }
        check(c->writing, rests, count);
        catalogue_db_rollback(c->writing);
    }
    arena_fini(&memory);
    return 0;
}
