/* The headers of frames to and from protobuf bytes; frame.c puts them into frames. Under the rules
 * of wire.h: text must be UTF-8 without NUL and fit its array, at most FRAME_DETAILS_MAX details.
 * Threads: any; no state. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_FRAME_H
#define PROCFLEET_COMMON_WIRE_WIRE_FRAME_H

#include "common/wire/frame.h"

/* Appended to `out`; text that breaks the rules is mended. Errors: ERR_NOMEM, ERR_FULL, ERR_INVALID
 * (too many details) */
NODISCARD enum err wire_frame_put_request(struct buf *out, const struct frame_request *h);
NODISCARD enum err wire_frame_put_reply(struct buf *out, const struct frame_reply *h);

/* Errors: ERR_CORRUPT, ERR_FULL (memory beyond the budget), ERR_NOMEM */
NODISCARD enum err wire_frame_get_request(struct frame_request *h, const void *p, size_t n);
NODISCARD enum err wire_frame_get_reply(struct frame_reply *h, const void *p, size_t n);

#endif
