/* One line of a TraceEvent listing against one record of ours, field by field: which of our fields
 * it means, what TraceEvent makes of several fields or records by itself, and which differences are
 * known and whose they are. */
#ifndef PROCFLEET_TESTS_SUPPORT_BASELINE_FIELDS_H
#define PROCFLEET_TESTS_SUPPORT_BASELINE_FIELDS_H

#include "agent/decode/describe.h"
#include "agent/source/event.h"
#include "agent/source/source.h"
#include "common/base/err.h"
#include "tests/support/baseline.h"
#include "tests/support/vectors.h"

/* Why a field of a line could not be compared. */
enum baseline_absence {
    BASELINE_NO_SCHEMA, /* nobody says what is in the payload */
    BASELINE_NO_FIELD,  /* neither layout nor schema has a field of that name */
    BASELINE_OWN_NAME,  /* TraceEvent has a name for the number, we have not */
    BASELINE_MADE,      /* TraceEvent made it from other records or by rules of its own */
    BASELINE_EMPTY,     /* it is empty there and absent here */
    BASELINE_ABSENCES,
};

#define BASELINE_WRONG_MAX  8
#define BASELINE_WRONG_TEXT 256

/* What comparing a line with one record gave. */
struct baseline_outcome {
    unsigned same, explained, absent[BASELINE_ABSENCES];
    unsigned n_wrong; /* the first of them in words */
    char wrong[BASELINE_WRONG_MAX][BASELINE_WRONG_TEXT];
};

#define BASELINE_NAMES_MAX   16384
#define BASELINE_VOLUMES_MAX 64

/* What records at the end of a trace say about paths. */
struct baseline_names {
    struct {
        uint64_t object;
        char *path;
    } files[BASELINE_NAMES_MAX];
    size_t n_files;
    struct {
        char *nt, *dos;
    } volumes[BASELINE_VOLUMES_MAX];
    size_t n_volumes;
};

/* Takes file names and volumes from the values of a kernel record; others are ignored. */
void baseline_names_learn(struct baseline_names *n, const struct values *values);
void baseline_names_fini(struct baseline_names *n);

/* The record under comparison. */
struct baseline_record {
    const struct raw_event *raw;
    const struct event *fact; /* NULL: none */
    struct described described;
    enum err described_err;
    const struct values *values; /* what describe_values gave */
    const struct baseline_names *names;
    uint32_t owner_pid; /* the process it was charged to; EVENT_NO_ID = nobody */
    struct str (*name_of)(void *ctx, uint32_t pid); /* of a process at this time; may be empty */
    void *ctx;
};

/* Adds to *o. */
void baseline_fields_compare(struct baseline_outcome *o, const struct baseline_line *l,
                             const struct baseline_record *rec);

/* Prints the differences that are explained, with reason. False: one of them was never met. */
bool baseline_fields_explained(void);

#endif
