/* Where our own events go: chosen by the build. For own.c only. Threads: one owner; listens any. */
#ifndef PROCFLEET_AGENT_OWN_OWN_WRITE_H
#define PROCFLEET_AGENT_OWN_OWN_WRITE_H

#include <stdbool.h>

#include "agent/own/own_event.h"
#include "common/base/err.h"

struct own_write;

/* The traits are borrowed until close. Errors: those of own_open */
NODISCARD enum err own_write_open(struct own_write **out, const uint8_t guid[16],
                                  const uint8_t *traits, size_t n);
void own_write_close(struct own_write *w); /* NULL is allowed */
bool own_write_listens(const struct own_write *w);
void own_write_event(struct own_write *w, const struct own_event *e); /* what is lost is lost */

#endif
