/* Methods of service Query about rules: Rules (what each subject is now) and RulesTest (what a file
 * would have told in a span, or what it would watch). Answers are notices (common/lab/notice.h) as
 * events. Threads: handlers run on the RPC server's workers, any number at once. */
#ifndef PROCFLEET_COLLECTOR_RULES_RULES_SERVICE_H
#define PROCFLEET_COLLECTOR_RULES_RULES_SERVICE_H

#include "collector/query/query.h"
#include "collector/rules/rules_live.h"
#include "common/rpc/rpc.h"

struct rules_service;

/* Starts the rules (rules_live.h), too. conf is copied. Errors: those of rules_live_start */
NODISCARD enum err rules_service_open(struct rules_service **out,
                                      const struct rules_live_conf *conf);
/* Stops them; the RPC server must have stopped, the feed and the store not. NULL is allowed. */
void rules_service_close(struct rules_service *s);
struct rules_live *rules_service_live(const struct rules_service *s); /* NULL: of none */

/* The notices of a span as events; query_env.h. */
NODISCARD enum err rules_service_notices(struct lab_db *db, int64_t since_ns, int64_t until_ns,
                                         query_notice_each each, void *to);

/* As the method Rules answers, for console_conf.rules: s is a struct rules_service. The answer is
 * the caller's, also on failure: query_answer_fini. Errors: ERR_NOMEM, ERR_FULL, ERR_IO */
NODISCARD enum err rules_service_status(void *s, const struct net_identity *who,
                                        const struct wire_query *q, struct query_answer *out);

#define RULES_SERVICE_METHODS 2
void rules_service_methods(struct rules_service *s,
                           struct rpc_method methods[RULES_SERVICE_METHODS]);

#endif
