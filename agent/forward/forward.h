/* Events of chosen providers on their way out: a record that is no fact of the agent's becomes an
 * event with typed values, without secrets, as often as is permitted.
 *
 *   record → chosen? → its process wanted? → rate → schema → privacy → bytes per second → out
 *                └─ name ─┐                        ├─ asked for ─┐
 *                         └────────── held ────────┴─────────────┘
 *
 * Providers are chosen by name, glob or GUID; the name of a GUID is learnt from the record itself
 * (TraceLogging), from a manifest in the stream (EventSource), from what merged a recording, or
 * from whoever else knows (schema_source.h). That may take long: it is asked on a thread of its
 * own, and the records wait here until it answers, copied, FORWARD_HELD_BYTES of them.
 * Nothing that is not chosen leaves. A text is redacted as a command line is, the field's name
 * counting as an option's name; fields named as secrets are hidden whatever they hold.
 * The rates count by the records' own time, so that a recording gives the same at any speed.
 * Bounds:  FORWARD_GUIDS_MAX providers remembered, FORWARD_SCHEMA_MAX bytes of schemas,
 *          FORWARD_HELD_BYTES of records that wait; event_values.h for one event.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_FORWARD_FORWARD_H
#define PROCFLEET_AGENT_FORWARD_FORWARD_H

#include <stdatomic.h>

#include "agent/decode/describe_self.h"
#include "agent/privacy/privacy.h"
#include "agent/source/etw_provider.h"
#include "common/model/event_values.h"

#define FORWARD_CHOICES_MAX 64 /* entries of events.providers, and of events.drop_fields */
#define FORWARD_IDS_MAX     64 /* of one entry */
#define FORWARD_GUIDS_MAX   4096
#define FORWARD_SCHEMA_MAX  ((size_t)2 << 20)
#define FORWARD_HELD_BYTES  ((size_t)64 << 10)

struct forward;
struct schema;

/* All zero but providers: no limits. Copied but for the texts, which are borrowed until
 * forward_destroy. */
struct forward_conf {
    const char *const *providers; /* "NAME-GLOB-OR-GUID[#ID[+ID...]]" */
    size_t n_providers;
    const char *const *drop_fields; /* globs on the names of fields: their values are left out */
    size_t n_drop_fields;
    uint32_t rate, burst;    /* events a second of one provider, 0 = any; at once, at least rate */
    uint32_t host_rate;      /* of all together; 0 = any */
    size_t host_bytes;       /* of values a second, 0 = any */
    struct privacy *privacy; /* borrowed; NULL: values as they are */
    const atomic_bool *refused; /* borrowed; true: nobody takes them at present. NULL: always */
    /* Who else knows, as schema_source_put; NULL: nobody. Unless at_once, it is called on a thread
     * of its own until forward_destroy. */
    void (*schemas)(void *ctx, struct schema *out, const struct raw_event *about);
    void *schemas_ctx;
    bool at_once; /* a recording can wait: nothing is held */
};

/* Grows only, but for `held`.
 * in = out + rate + size + filtered + no_schema + undecodable + refused + held */
struct forward_stats {
    uint64_t in;          /* records of chosen providers and ids */
    uint64_t out;         /* events handed on */
    uint64_t rate;        /* above a rate */
    uint64_t size;        /* above host_bytes */
    uint64_t filtered;    /* of processes that are not reported, or not of the field's value */
    uint64_t no_schema;   /* nobody knows it; or no room until somebody did */
    uint64_t held;        /* now: wait for their schema */
    uint64_t undecodable; /* the payload does not fit its schema */
    uint64_t refused;     /* the collector is one that takes none */
    uint64_t unknown;     /* GUIDs above FORWARD_GUIDS_MAX: nobody looked whether they are chosen */
};

/* An entry of events.providers; a name may be a glob. */
struct forward_choice {
    struct str name; /* in the text that was parsed; empty: by GUID */
    uint8_t guid[16];
    uint16_t ids[FORWARD_IDS_MAX];
    size_t n_ids; /* 0: all */
};

/* Errors: ERR_INVALID (`why` says which part) */
NODISCARD enum err forward_choice_parse(struct forward_choice *out, const char *text,
                                        struct errmsg *why);

/* Errors: ERR_INVALID (a provider), ERR_FULL (too many of them), ERR_NOMEM */
NODISCARD enum err forward_create(struct forward **out, const struct forward_conf *conf,
                                  struct errmsg *why);
void forward_destroy(struct forward *f); /* NULL is allowed */

/* Learns what the record teaches; true: it is an event that was chosen, or may be once its
 * provider's name is known, and one of the next three calls follows. */
bool forward_takes(struct forward *f, const struct raw_event *raw);

/* Its process is not reported. */
void forward_hide(struct forward *f);

/* Gives the event but for `info`; it is valid until the next call. `only`: what is meant of its
 * provider, whose field must have its value; may be NULL. Errors: ERR_NOTFOUND (it stays here,
 * counted), ERR_BUSY (its schema, or its provider's name, is being asked for: forward_hold follows)
 */
NODISCARD enum err forward_event(struct forward *f, const struct raw_event *raw,
                                 const struct source_provider *only, struct life_event *out);

/* Keeps the event until its schema is there, or counts it. `info`: id and name of its process. */
void forward_hold(struct forward *f, const struct raw_event *raw,
                  const struct source_provider *only, const struct proc_info *info);

/* Whether forward_held may have something to do; as cheap as a look at a number. */
bool forward_answered(const struct forward *f);

/* All that there are at the moment, one call of `life` each. NULL is allowed. */
void forward_give_held(struct forward *f, void (*life)(void *ctx, const struct life_event *ev),
                       void *ctx);

/* The next event that was held, with `info`, valid until the next call: until ERR_NOTFOUND, which
 * says that there is no more for now. */
NODISCARD enum err forward_held(struct forward *f, struct life_event *out);

/* No answer is waited for any more: what is held is counted as no_schema. NULL is allowed. */
void forward_finish(struct forward *f);

/* As forward_event without limits, privacy and counting, for who listens on this host. */
NODISCARD enum err forward_describe(struct forward *f, const struct raw_event *raw,
                                    struct life_event *out);

const struct forward_stats *forward_stats(const struct forward *f);

#endif
