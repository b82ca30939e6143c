/* What of each span was delivered and lost. Private to collector/query. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_COVER_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_COVER_H

#include "collector/query/query_impl.h"
#include "collector/query/query_ledger.h"
#include "collector/query/query_quiet.h"

/* Reads the span's ledgers, fills its query_cover and makes the remarks about it. Errors: those of
 * query_scan_accounts */
NODISCARD enum err query_cover_scan(struct query *q, const struct query_span *s,
                                    struct query_ledger *out);

/* The same, and when the host was not measured: *quiet, initialised. */
NODISCARD enum err query_cover_scan_quiet(struct query *q, const struct query_span *s,
                                          struct query_ledger *out, struct query_quiet *quiet);

/* The span's entry in the answer, without stages. Errors: ERR_FULL, ERR_NOMEM */
NODISCARD enum err query_cover_host(struct query *q, struct query_span *s, struct wire_coverage *c,
                                    const struct query_ledger *l);

#endif
