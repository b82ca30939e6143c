/* Stack tags as WPA has them in XML: names for kinds of work, by patterns of module and method.
 *
 *   <Tags> <Tag Name="GC"> <Tag Name="Mark"> <Entrypoint Module="clr.dll" Method="*mark*"/> …
 *
 * The first entry that fits a frame gives its tag; a tag within a tag is called "GC\\Mark". Of the
 * tags of a stack the one with the highest Priority counts (0 where none is said; a tag within
 * another has the other's), of equal ones the innermost frame's.
 * Bounds:  ETL_STACK_TAGS_MAX tags, ETL_STACK_TAGS_ENTRIES entries.
 * Threads: any, once read. */
#ifndef PROCFLEET_AGENT_ETL_ETL_STACK_TAGS_H
#define PROCFLEET_AGENT_ETL_ETL_STACK_TAGS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/base/str.h"

#define ETL_STACK_TAGS_MAX     8192
#define ETL_STACK_TAGS_ENTRIES 16384

struct etl_stack_tags;

/* Errors: ERR_NOTFOUND, ERR_CORRUPT (no such XML), ERR_FULL, ERR_NOMEM, ERR_UNSUPPORTED (this build
 * reads no XML); `why` says it */
NODISCARD enum err etl_stack_tags_read(struct etl_stack_tags **out, const char *path,
                                       struct errmsg *why);
/* The same of what `read` gives piece by piece: up to n bytes, 0 at the end. */
NODISCARD enum err etl_stack_tags_stream(struct etl_stack_tags **out,
                                         size_t (*read)(void *ctx, void *p, size_t n), void *ctx);
void etl_stack_tags_free(struct etl_stack_tags *t); /* NULL is allowed */

/* The tag of a frame by its name; 0: none, which has a name too. */
uint32_t etl_stack_tags_of(const struct etl_stack_tags *t, struct str frame);
size_t etl_stack_tags_count(const struct etl_stack_tags *t);
struct str etl_stack_tags_name(const struct etl_stack_tags *t, uint32_t tag);
/* Below that of every other of tag 0, which is none. */
int32_t etl_stack_tags_priority(const struct etl_stack_tags *t, uint32_t tag);

#endif
