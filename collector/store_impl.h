/* Between the store's own files. */
#ifndef PROCFLEET_COLLECTOR_STORE_IMPL_H
#define PROCFLEET_COLLECTOR_STORE_IMPL_H

#include "collector/head.h"

struct store;

struct head *store_head(struct store *s); /* borrowed */

#endif
