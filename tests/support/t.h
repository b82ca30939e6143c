/* cmocka with its own prerequisites, and the table helpers of our tests. */
#ifndef PROCFLEET_TESTS_SUPPORT_T_H
#define PROCFLEET_TESTS_SUPPORT_T_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/err.h"

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

#define assert_ok(e)     assert_int_equal((e), ERR_OK)
#define assert_err(e, c) assert_int_equal((e), (c))

#endif
