/* The back-test: the engine over what the store has, as it came. What it gives for a span in which
 * the collector judged live is what was live, but for data that came after their deadline.
 * Threads: any; one engine each. */
#ifndef PROCFLEET_COLLECTOR_RULES_RULES_TEST_H
#define PROCFLEET_COLLECTOR_RULES_RULES_TEST_H

#include "collector/rules/rules_db.h"
#include "collector/rules/rules_judge.h"
#include "collector/store/read/store_read.h"

#define RULES_TEST_CHANGES 20000u

struct rules_test_conf {
    const struct store_view *view;
    const struct rules_conf *rules;
    struct lab_db *db; /* when the collector judged, runs */
    int64_t since_ns, until_ns, now_ns;
    bool watch; /* what rules watch is asked, not what they tell */
    const struct deadline *deadline;
    /* Whether the host is of the test. */
    bool (*wants)(void *ctx, const struct store_host *h);
    const struct facts *(*facts)(void *ctx, const struct uuid *host, const char *name,
                                 struct arena *a);
    struct str (*host_class)(void *ctx, const struct facts *f, struct arena *a);
    void *ctx;
};

struct rules_test {
    struct arena memory;
    size_t n, cap;
    struct rules_change *changes; /* by step; those with held are held back */
    bool more;                    /* there were more than RULES_TEST_CHANGES */
    struct rules_counts counts;
    struct rules_watch *watch; /* of each rule, at the end */
};

/* Released by rules_test_fini, also after an error. Errors: ERR_TIMEOUT, ERR_NOMEM, ERR_FULL, those
 * of SQLite */
NODISCARD enum err rules_test_run(struct rules_test *out, const struct rules_test_conf *conf);
void rules_test_fini(struct rules_test *t);

#endif
