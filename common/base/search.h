/* Binary search in anything that is numbered and in order. No state; compiled in place. */
#ifndef PROCFLEET_COMMON_BASE_SEARCH_H
#define PROCFLEET_COMMON_BASE_SEARCH_H

#include <stddef.h>

/* Sets `i`, a variable of type size_t, to the first index below n for which `before` is false, or
 * to n. `before` is an expression about `i` that is true for the first elements and false for the
 * others; it is evaluated for at most log2(n) + 1 of them. With `<` it finds the first element that
 * is not less than a key, with `<=` the one behind the last that is equal:
 *
 *     SEARCH_LOWER(i, n, rows[i].number < number);
 *     found = i < n && rows[i].number == number;
 */
#define SEARCH_LOWER(i, n, before)                             \
    do {                                                       \
        size_t search_from = 0, search_to = (n);               \
                                                               \
        while (search_from < search_to) {                      \
            (i) = search_from + (search_to - search_from) / 2; \
            if (before) {                                      \
                search_from = (i) + 1;                         \
            } else {                                           \
                search_to = (i);                               \
            }                                                  \
        }                                                      \
        (i) = search_from;                                     \
    } while (0)

#endif
