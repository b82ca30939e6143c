/* A notice: a rule of the collector changed its state for a subject. It travels as a lifecycle
 * event of kind LIFE_RULE:
 *
 *   wall_ns    the step at which it changed, UTC by the collector's clock
 *   text       what the rule's `say` makes of it, one sentence
 *   type       provider NOTICE_PROVIDER, task "rule", name "notice", id 1
 *   values     n uint · id text of 32 hex digits · rule · severity · of · subject texts ·
 *              state, before: "ok", "firing" or "unknown" · since time · value, limit floats ·
 *              unit text · coverage float · reason, silenced, use texts · skipped uint;
 *              of a rule that is checked, hosts, processes, subjects uints
 *
 * What is not known is absent, and readers skip what they do not know. The host is that of the
 * update or row it stands in: topic `rule/<host>`, or `rule/` and NOTICE_NO_HOST for a notice that
 * is of no single host (a class, the fleet, an image on many hosts), so that a scope sees the
 * notices of its hosts. A journal record of a notice has its `n` as batch.
 *
 * `id` is a hash of rule, subject, step and state: whoever keeps ids sees each notice once.
 * Threads: any; no state. */
#ifndef PROCFLEET_COMMON_LAB_NOTICE_H
#define PROCFLEET_COMMON_LAB_NOTICE_H

#include "common/base/err.h"
#include "common/model/event_values.h"

#define NOTICE_PROVIDER "procfleet-collector"
#define NOTICE_NO_HOST  "*" /* no host's name */
#define NOTICE_ID_TEXT  33u

enum notice_state { NOTICE_OK, NOTICE_FIRING, NOTICE_UNKNOWN, NOTICE_STATES };

struct notice {
    uint64_t n;              /* in the order they came, from 1 */
    char id[NOTICE_ID_TEXT]; /* hex digits, NUL */
    struct str rule, severity;
    struct str of;         /* process, tree, image, user, host, class, fleet */
    struct str subject;    /* of the host: "MsMpEng.exe", "cc1 4711"; empty: the host itself */
    uint8_t state, before; /* enum notice_state */
    int64_t step_ns;       /* UTC, as all times */
    int64_t since_ns;      /* since when it is true, of firing; what it ended was, of ok */
    bool has_value, has_limit, has_coverage;
    double value, limit; /* in ns, bytes, parts of 1 or counts: */
    struct str unit;     /* "ns", "bytes", "share", "count", "/s", "bytes/s" or empty */
    double coverage;     /* share of the window that was delivered, 0 to 1 */
    struct str reason;   /* why it is unknown, or why an alert ended other than by its rule */
    struct str silenced; /* the run that silences it; empty: none */
    struct str use;      /* names of targets, ',' between them */
    bool has_watch;      /* of a rule instead of a change: how much it watches */
    uint64_t hosts, processes, subjects;
    uint64_t skipped; /* notices of this rule before it that at_most held back */
    struct str say;
};

const char *notice_state_name(unsigned state);

/* Room of notice_event for what the event points into. */
struct notice_room {
    struct event_values values;
    struct event_type type;
};

/* The event; it borrows from `n` and `room`. Texts are cut to EVENT_VALUES_TEXT. */
void notice_event(struct life_event *out, const struct notice *n, struct notice_room *room);

/* The notice of an event; texts are the event's. Errors: ERR_INVALID (it is none) */
NODISCARD enum err notice_read(struct notice *out, const struct life_event *ev);

#endif
