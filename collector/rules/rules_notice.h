/* A change of state as a notice: its id, its sentence. Threads: any; no state. */
#ifndef PROCFLEET_COLLECTOR_RULES_RULES_NOTICE_H
#define PROCFLEET_COLLECTOR_RULES_RULES_NOTICE_H

#include "collector/rules/rules_env.h"

/* 16 bytes: a hash of rule, subject, step and state. */
#define RULES_ID_BYTES 16u
void rules_notice_id(uint8_t id[RULES_ID_BYTES], const struct rules_subject *s);
/* In hex, of the step at which the state began: the id of the notice that told of it. */
void rules_notice_id_text(char text[NOTICE_ID_TEXT], const struct rules_subject *s);

/* The notice, texts in the arena or the subject's. n and silenced are the caller's. Errors:
 * ERR_FULL */
NODISCARD enum err rules_notice_make(struct notice *out, const struct rules_subject *s,
                                     struct arena *a);

/* Why it is unknown, in words. */
const char *rules_notice_reason(unsigned reason);

/* The update that a notice travels in. Errors: ERR_FULL (buf), ERR_NOMEM, ERR_INVALID */
struct buf;
NODISCARD enum err rules_notice_encode(struct buf *out, const struct notice *n, const char *host,
                                       const struct uuid *id);

/* "31.0%", "512.0MiB", "12", in the unit. */
void rules_notice_value(struct buf *out, double value, struct expr_dim dim);

#endif
