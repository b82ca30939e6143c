/* Asks what events look like on a thread of its own, where the answer takes longer than the thread
 * of the events may wait. Answers come in the order of the questions.
 * Bounds:  SCHEMA_LANE_ASKS questions under way.
 * Threads: one owner; `find` is called on the lane's only. Close waits for the question in hand. */
#ifndef PROCFLEET_AGENT_FORWARD_SCHEMA_LANE_H
#define PROCFLEET_AGENT_FORWARD_SCHEMA_LANE_H

#include "agent/decode/schema/schema.h"

#define SCHEMA_LANE_ASKS 16u

struct schema_lane;

/* Puts into `out` what it knows; of the record only the head is there. */
typedef void (*schema_lane_find)(void *ctx, struct schema *out, const struct raw_event *about);

NODISCARD enum err schema_lane_open(struct schema_lane **out, schema_lane_find find,
                                    void *ctx);   /* ERR_NOMEM, ERR_IO */
void schema_lane_close(struct schema_lane *lane); /* NULL is allowed */

/* False: too many are under way. */
bool schema_lane_ask(struct schema_lane *lane, const struct raw_event *about);

/* Whether there is an answer; as cheap as a look at a number. */
bool schema_lane_answered(const struct schema_lane *lane);

/* The next answer and what it is about; false: none yet. *out is the caller's, schema_destroy;
 * NULL: there was no memory for it. */
bool schema_lane_take(struct schema_lane *lane, struct schema **out, struct raw_event *about);

#endif
