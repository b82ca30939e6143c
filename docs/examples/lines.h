/* An update as lines of JSON, one for each event or row (PROTOCOL.md, sections 8 and 9). */
#ifndef PROCFLEET_DOCS_EXAMPLES_LINES_H
#define PROCFLEET_DOCS_EXAMPLES_LINES_H

#include <stdio.h>

#include "proto/query.pb-c.h"

void lines_put(FILE *f, const Procfleet__V1__Update *u);

#endif
