/* Growable arrays. An array is three members of its user's struct: a pointer with the element's
 * type, the number used and the number allocated. So elements are read and written as in any C
 * array, and only growing comes here:
 *
 *     struct row *rows;
 *     size_t n, cap;
 *
 *     e = VEC_ROOM(&x->rows, &x->cap, x->n + 1, ROWS_MAX);
 *     if (e) {
 *         return e;
 *     }
 *     x->rows[x->n++] = row;
 *
 * Bounds: `max` elements; there is no array without a limit. Memory: mem_*; the user releases the
 * pointer with mem_free. Threads: those of the user's struct. */
#ifndef PROCFLEET_COMMON_BASE_VEC_H
#define PROCFLEET_COMMON_BASE_VEC_H

#include <stddef.h>

#include "common/base/err.h"

/* Makes room for `need` elements of `size` bytes: at least doubles what is allocated, never above
 * `max`. `array` is the address of the pointer. New elements are not initialised. On failure the
 * array is as it was. Errors: ERR_FULL (need is above max), ERR_NOMEM */
NODISCARD enum err vec_grow(void *array, size_t *cap, size_t need, size_t max, size_t size);

/* The same, without a call when there is room. array  T **, so that the size is the element's */
#define VEC_ROOM(array, cap, need, max) vec_room((array), (cap), (need), (max), sizeof **(array))

NODISCARD static inline enum err vec_room(void *array, size_t *cap, size_t need, size_t max,
                                          size_t size)
{
    return need <= *cap ? ERR_OK : vec_grow(array, cap, need, max, size);
}

#endif
