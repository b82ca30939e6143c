#include "common/base/vec.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"

#define FIRST 8u /* elements: many arrays stay that small */

enum err vec_grow(void *array, size_t *cap, size_t need, size_t max, size_t size)
{
    size_t want = *cap < FIRST / 2 ? FIRST : *cap * 2;
    void *p;

    assert(need > *cap && size > 0);
    if (need > max) {
        return ERR_FULL;
    }
    want = want > max || *cap > max / 2 ? max : want;
    want = want < need ? need : want;
    memcpy(&p, array, sizeof p);
    p = mem_realloc_array(p, want, size);
    if (!p) {
        return ERR_NOMEM;
    }
    memcpy(array, &p, sizeof p);
    *cap = want;
    return ERR_OK;
}
