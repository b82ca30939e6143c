/* The name of any record and its values by name: kernel records by the layouts of decode_*.c, those
 * of other providers by the schema they bring along: TraceLogging (in the record), EventSource
 * manifests and event metadata (in earlier or later records of the stream), WPP by its header, with
 * text where message files (.tmf) are given. For people and for comparison; facts come from
 * decode.h, which is made for speed.
 * Bounds:  schemas together take at most schema_max bytes; further ones are counted as refused.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_DECODE_DESCRIBE_H
#define PROCFLEET_AGENT_DECODE_DESCRIBE_H

#include "agent/source/source.h"
#include "common/base/err.h"
#include "common/model/value.h"

struct describe;
struct schema;

struct describe_conf {
    size_t schema_max;   /* bytes; 0 = 8 MiB */
    const char *tmf_dir; /* of *.tmf files, or NULL */
    /* Asked once for each provider with an event that the stream does not describe: puts what it
     * knows of it. NULL: nothing is known beside the stream. */
    void (*more)(void *ctx, struct schema *s, const uint8_t guid[16]);
    void *more_ctx;
};

enum describe_by {
    DESCRIBE_NOTHING, /* no schema known: header and raw payload are all there is */
    DESCRIBE_LAYOUT,
    DESCRIBE_TRACELOGGING,
    DESCRIBE_MANIFEST, /* an EventSource's own */
    DESCRIBE_METADATA, /* TRACE_EVENT_INFO embedded by the tool that merged the trace */
    DESCRIBE_FILE,     /* a manifest that was given */
    DESCRIBE_TABLE,    /* the program's own tables */
    DESCRIBE_WPP,      /* by header; by text where a .tmf file knows it */
};

/* Texts are valid until the next call with the same `d`. */
struct described {
    enum describe_by by;
    /* "Process", "Microsoft-Windows-PowerShell"; empty = only a GUID is known */
    struct str provider;
    struct str task;      /* may be empty */
    struct str name;      /* of the event or opcode: "Start", "ReadIO"; may be empty */
    size_t left;          /* describe_values: bytes of the payload no field covers */
    const uint8_t *group; /* TraceLogging: GUID of the provider's group, as stored, or NULL */
};

struct describe_stats {
    uint64_t schemas;    /* events known by manifest or metadata */
    uint64_t refused;    /* schemas over schema_max; manifests where the build has no expat */
    uint64_t damaged;    /* schemas that could not be read; chunks of manifests without the rest */
    uint64_t unfinished; /* manifests whose last chunks have not come yet */
    uint64_t messages, messages_damaged; /* of the message files; lines nobody could read */
};

/* Errors: ERR_NOMEM; tmf_dir: ERR_NOTFOUND, ERR_ACCESS, ERR_IO */
NODISCARD enum err describe_create(struct describe **out, const struct describe_conf *conf,
                                   struct errmsg *why);
void describe_destroy(struct describe *d); /* NULL is allowed */

/* Keeps the schema a record carries; others are ignored. Repeated schemas are known already, of
 * different ones for the same event the first is kept. Once a schema came early, only early ones
 * are looked at: they all do. */
void describe_learn(struct describe *d, const struct raw_event *raw);

/* Provider, task and name only. */
void describe_name(struct describe *d, const struct raw_event *raw, struct described *out);

/* Name and values. Errors: ERR_NOTFOUND (by is DESCRIBE_NOTHING; nothing was given), ERR_CORRUPT
 * (the values given are those before the damage) */
NODISCARD enum err describe_values(struct describe *d, const struct raw_event *raw,
                                   const struct value_sink *sink, struct described *out);

void describe_stats(const struct describe *d, struct describe_stats *out);

#endif
