/* How many columns of a terminal a character takes. Pure; any thread. */
#ifndef PROCFLEET_COMMON_BASE_WIDTH_H
#define PROCFLEET_COMMON_BASE_WIDTH_H

#include <stdbool.h>
#include <stdint.h>

/* 2 for the wide ones of East Asia and pictures, 0 for what is drawn into the character before it
 * (accents, joiners), else 1; also for what is no character. */
unsigned width_of(uint32_t code_point);

/* Characters that a terminal obeys or shows as nothing, so that text is not what it looks like:
 * controls, changes of the direction of writing, joiners, tags, fillers, variation selectors. */
bool width_is_hidden(uint32_t code_point);

#endif
