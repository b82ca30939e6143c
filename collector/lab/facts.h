/* What hosts are known by, in the table host_fact of lab.db: what their agents told, as often as it
 * changed, with the labels that this installation assigns (lab.labels) and its classes (lab.class).
 *
 * What is told stands in memory at once and in the database with the next facts_flush: a collector
 * that is killed in between hears it again, since agents say Hello to its next start.
 *
 * Bounds:  FACTS_VERSIONS of a host, the oldest go; FACTS_HOSTS hosts, others are not known.
 * Threads: any. One lock, held across no I/O. */
#ifndef PROCFLEET_COLLECTOR_LAB_FACTS_H
#define PROCFLEET_COLLECTOR_LAB_FACTS_H

#include "collector/lab/lab_db.h"
#include "common/base/arena.h"
#include "common/lab/host_class.h"
#include "common/model/inventory.h"
#include "common/model/model.h"

#define FACTS_VERSIONS 64u
#define FACTS_HOSTS    (1u << 20)

struct facts_book;

/* A label that all hosts whose name fits have; of two for one key the later one holds. */
struct facts_rule {
    char *host; /* glob */
    struct label label;
};

/* "lab-3* rack=3" for each: *rules is released by facts_rules_free, texts are the items'. False:
 * items[*bad] is none. Errors: ERR_NOMEM, ERR_INVALID */
NODISCARD enum err facts_rules_read(struct facts_rule **rules, const char *const *items, size_t n,
                                    size_t *bad);
void facts_rules_free(struct facts_rule *rules, size_t n);

struct facts_conf {
    struct lab_db *db; /* borrowed, as all below, until facts_close */
    const struct facts_rule *rules;
    size_t n_rules;
    const char *const *class_keys; /* n of HOST_CLASS_KEYS at most; 0: host_class_default */
    size_t n_class_keys;
};

/* Errors: ERR_INVALID (a key of the class is no name of the inventory), ERR_NOMEM, those of SQLite
 */
NODISCARD enum err facts_open(struct facts_book **out, const struct facts_conf *conf);
void facts_close(struct facts_book *b); /* NULL is allowed */

/* An agent told this now (wire_facts_decode): nothing happens when it is what is known already, but
 * for a boot that is off by less than a minute. */
void facts_told(struct facts_book *b, const struct uuid *host, const void *p, size_t n,
                int64_t now_ns);

/* Makes what was told durable. Errors: those of SQLite; it is tried again then */
NODISCARD enum err facts_flush(struct facts_book *b);

/* As of now, with what is assigned to this name; in the arena. NULL: nothing is known. */
const struct facts *facts_now(struct facts_book *b, const struct uuid *host, const char *name,
                              struct arena *a);

/* When its system started, UTC ns by its clock, as it told last; 0: not known. */
int64_t facts_boot_time(struct facts_book *b, const struct uuid *host);

/* As they were at a moment; before the first that is known as that says. *out NULL: nothing is
 * known. Reads the database. Errors: ERR_FULL, those of SQLite */
NODISCARD enum err facts_then(struct facts_book *b, const struct uuid *host, const char *name,
                              int64_t when_ns, struct arena *a, const struct facts **out);

/* The class in words, in the arena; empty: unknown. _pairs: of facts in a run's file. */
struct str facts_class_pairs(const struct facts_book *b, const struct run_pair *facts, size_t n,
                             struct arena *a);
/* keys: as of host_class_text; NULL: lab.class. */
struct str facts_class(const struct facts_book *b, const struct facts *f, const char *const *keys,
                       struct arena *a);
const char *const *facts_class_keys(const struct facts_book *b); /* NULL at the end */

/* As a run's file has them: the inventory but for the boot, which every comparison would call a
 * difference, and what parts it has; and the labels. Errors: ERR_FULL */
NODISCARD enum err facts_pairs(const struct facts *f, struct arena *a, struct run_host *out);

#endif
