/* cmocka with its own prerequisites, and the table helpers of our tests. */
#ifndef PROCFLEET_TESTS_SUPPORT_T_H
#define PROCFLEET_TESTS_SUPPORT_T_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/err.h"

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

#define assert_ok(e)     assert_int_equal((e), ERR_OK)
#define assert_err(e, c) assert_int_equal((e), (c))

/* Of doubles that other programs load. There cmocka's assertions, outside of any test of theirs,
 * would end the program with 255 and without a word. */
#define MUST(condition)                                                                         \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            (void)fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            (void)fflush(stderr);                                                               \
            exit(92);                                                                           \
        }                                                                                       \
    } while (0)

#endif
