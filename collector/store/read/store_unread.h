/* Which errors of the disk are left out of an answer, and marked and counted in it
 * (store_view_unread). No state. */
#ifndef PROCFLEET_COLLECTOR_STORE_READ_STORE_UNREAD_H
#define PROCFLEET_COLLECTOR_STORE_READ_STORE_UNREAD_H

#include <stdbool.h>

#include "common/base/err.h"

/* Whether the error is of what was to be read, so that the others can still be read; not of memory,
 * time or the reader. ERR_BUSY is: on Windows another program may hold the file. */
static inline bool store_unread_is(enum err e)
{
    return e == ERR_CORRUPT || e == ERR_IO || e == ERR_VERSION || e == ERR_ACCESS ||
           e == ERR_READONLY || e == ERR_NOTFOUND || e == ERR_BUSY;
}

/* The same of a batch of the log: one that unpacks to more than any batch was never accepted. */
static inline bool store_unread_is_batch(enum err e)
{
    return e == ERR_FULL || store_unread_is(e);
}

#endif
