/* What rules keep in lab.db: every change of state with its notice, alerts as they are, which rules
 * there are since when, when the collector judged, and the last sound file.
 *
 * A transaction writes the changes of a round and what follows from them, or nothing. A change that
 * is there already (its id is) is left out: judging the same data again changes nothing. Notices
 * are numbered from 1 without holes; those that at_most holds back have no number.
 * Bounds:  NOTICES_KEPT notices, the oldest go. Threads: any (lab_db.h). */
#ifndef PROCFLEET_COLLECTOR_RULES_RULES_DB_H
#define PROCFLEET_COLLECTOR_RULES_RULES_DB_H

#include "collector/lab/lab_db.h"
#include "collector/rules/rules_notice.h"
#include "common/lab/run_file.h"

#define RULES_DB_NOTICES 100000u
#define RULES_DB_UPS     64u

/* A change, with texts of its own. */
struct rules_change {
    struct notice notice; /* n is set when it was written and is to be sent */
    const char *host;     /* its name, or NOTICE_NO_HOST */
    struct uuid id;       /* of the host; zero: none */
    const char *class_text;
    uint64_t start;
    uint32_t at_most;
    int64_t at_most_ns;
    bool held; /* at_most holds it back: n stays 0 */
};

/* Copies what the change points to. Errors: ERR_FULL */
NODISCARD enum err rules_db_change(struct rules_change *out, const struct rules_subject *s,
                                   struct arena *a);

/* Sets n of those that are new and are not held back, and what silences them. Errors: those of
 * SQLite; nothing is written then */
NODISCARD enum err rules_db_write(struct lab_db *l, struct rules_change *list, size_t n);

/* Notices behind a number, or in [since, until) by their step; `each` gets them in the order of
 * numbers, valid during the call; false ends it. */
struct rules_found {
    const struct notice *notice;
    const char *host;
    struct uuid id;
};
struct rules_ask {
    uint64_t after;
    int64_t since_ns, until_ns;
    bool newest_first;
};
NODISCARD enum err rules_db_notices(struct lab_db *l, const struct rules_ask *ask,
                                    bool (*each)(void *ctx, const struct rules_found *f),
                                    void *ctx);

/* The notices of a run's time, of its hosts and of none (a class, the fleet), into the run's file,
 * texts into its memory; lab_service_conf.notices. What has no room is counted in a last one.
 * Errors: ERR_FULL, those of rules_db_notices */
NODISCARD enum err rules_db_run_notices(struct lab_db *l, struct run_file *f);

/* -- alerts, for a start -- */

struct rules_alert {
    struct str rule;
    const char *host, *class_text, *key;
    struct uuid id;
    uint64_t start, hash;
    uint8_t state, before;
    int64_t since_ns, step_ns;
};

/* What each subject was at that moment, as far as it was not ok. */
NODISCARD enum err rules_db_alerts(struct lab_db *l, int64_t at_ns,
                                   enum err (*each)(void *ctx, const struct rules_alert *a),
                                   void *ctx);

/* -- rules and times -- */

/* Since when the rule is as it is now: a new one, or another hash, since now_ns. Rules that are not
 * in the list go; the alerts of those and of changed ones end as changes of state, which are made
 * by rules_db_ended. */
NODISCARD enum err rules_db_rules(struct lab_db *l, const struct rules_conf *c, int64_t now_ns,
                                  int64_t *since_ns);

/* Alerts whose rule is gone or another: as changes to ok at now_ns, for rules_db_write. */
NODISCARD enum err rules_db_ended(struct lab_db *l, const struct rules_conf *c, int64_t now_ns,
                                  struct rules_change **list, size_t *n, struct arena *a);

/* When the collector judged, and how far: rows of [since, until], oldest first. */
struct rules_up {
    int64_t since_ns, until_ns, judged_ns;
    uint64_t sent; /* notices up to this are in the journal */
};
NODISCARD enum err rules_db_up(struct lab_db *l, struct rules_up list[RULES_DB_UPS], size_t *n);
/* The row of since_ns becomes this. */
NODISCARD enum err rules_db_up_write(struct lab_db *l, const struct rules_up *up);

/* The last sound file. *text is released by mem_free; NULL: there is none. */
NODISCARD enum err rules_db_file(struct lab_db *l, char **text, size_t *n);
NODISCARD enum err rules_db_file_write(struct lab_db *l, const char *text, size_t n);

/* -- runs and silences -- */

/* Runs of whole hosts that meet [since, until), with the hosts they are of; silences have a
 * pattern. */
struct rules_run {
    struct uuid host;
    int64_t since_ns, until_ns; /* INT64_MAX: open */
    char *silence;              /* glob of names of rules; NULL: it is none */
    char *name;
};
struct rules_runs {
    size_t n, cap;
    struct rules_run *list;
};
NODISCARD enum err rules_db_runs(struct lab_db *l, int64_t since_ns, int64_t until_ns,
                                 struct rules_runs *out);
void rules_db_runs_free(struct rules_runs *r);
unsigned rules_db_runs_open(const struct rules_runs *r, const struct uuid *host, int64_t when_ns);
const char *rules_db_runs_silence(const struct rules_runs *r, const struct uuid *host,
                                  struct str rule, int64_t when_ns); /* NULL: none */

/* Until when data for a step count, given when the collector judged: what waits for it while it is
 * down is not late. */
int64_t rules_db_deadline(const struct rules_up *ups, size_t n, int64_t step_ns, int64_t late_ns);

#endif
