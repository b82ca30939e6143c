/* Who is watched: hosts, instances with the subjects they add to, and subjects. `where` is run when
 * something new is known of an instance, not at each sample. Private to the engine. */
#ifndef PROCFLEET_COLLECTOR_RULES_RULES_MATCH_H
#define PROCFLEET_COLLECTOR_RULES_RULES_MATCH_H

#include "collector/rules/rules_types.h"

/* NULL: no memory. Made when it is not there. */
struct rules_host *rules_match_host(struct rules_judge *j, const char *name, const struct uuid *id);
struct rules_host *rules_match_host_find(const struct rules_judge *j, const struct uuid *id);
void rules_match_host_free(struct rules_judge *j, struct rules_host *h);

/* Asks again what the host is known by, and what follows from it. */
void rules_match_facts(struct rules_judge *j, uint32_t host, int64_t now_ns);

/* The infos of a batch, whose processes are there until seen_ns at least. Errors: ERR_NOMEM,
 * ERR_FULL */
NODISCARD enum err rules_match_infos(struct rules_judge *j, uint32_t host, const struct batch *b,
                                     int64_t seen_ns);

/* The place of an instance, made when it is not there. Errors: ERR_NOMEM */
NODISCARD enum err rules_match_inst(struct rules_judge *j, uint32_t host, const struct uuid *boot,
                                    struct proc_id id, uint32_t *place);

/* Drops instances that no tick has had for a while. */
void rules_match_sweep(struct rules_judge *j, struct rules_host *h);

/* Subjects of several hosts that are gone leave their keys behind. */
void rules_match_sweep_cross(struct rules_judge *j);

/* Subjects of the rule are left out on this host, or were so lately. */
bool rules_match_too_many(const struct rules_host *h, uint32_t rule, int64_t step_ns);

/* What the event counts for, into the host's pending. Errors: ERR_NOMEM, ERR_FULL */
NODISCARD enum err rules_match_event(struct rules_judge *j, uint32_t host, const struct uuid *boot,
                                     const struct life_event *ev, int64_t step_ns, uint32_t tag);

/* A subject, made when it is not there. host RULES_NONE: of many hosts, of this class.
 * RULES_NONE: no room. */
uint32_t rules_match_sub(struct rules_judge *j, uint32_t rule, uint32_t host, struct str key,
                         uint64_t start, const char *class_text);
void rules_match_sub_free(struct rules_judge *j, uint32_t sub);

uint64_t rules_match_hash(uint32_t rule, struct str key, uint64_t start, const char *class_text);

#endif
