/* Listings that Microsoft's TraceEvent made of recordings (NAME.baseline.txt of the corpus), line
 * by line, and what its text of a value says about a value of ours:
 *
 *   EVENT 1,491.295: Provider/Task/Opcode PID=144; …; ProceNum=3; DataLen=40; Name=value; …
 *   COUNT Provider/Task/Opcode:153
 *
 * Its numbers have thousands separators, its texts end in "..." after 20 characters. */
#ifndef PROCFLEET_TESTS_SUPPORT_BASELINE_H
#define PROCFLEET_TESTS_SUPPORT_BASELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/model/value.h"

#define BASELINE_LINE_MAX   8192
#define BASELINE_FIELDS_MAX 64

struct baseline_field {
    const char *name, *text; /* of the line's own */
};

struct baseline_line {
    char *line;        /* taken apart */
    const char *event; /* "Windows Kernel/Process/Start" */
    bool count;        /* a COUNT line: number only */
    uint64_t number;
    int64_t ns; /* since the first record */
    int64_t pid;
    const char *process; /* its name without extension; "Process(PID)" = TraceEvent knows none */
    uint32_t cpu;
    size_t payload_n;
    struct baseline_field fields[BASELINE_FIELDS_MAX]; /* those of the payload */
    size_t n_fields;
};

struct baseline {
    struct baseline_line *lines;
    size_t n;
};

/* Ends the program when the file is missing or cannot be understood. */
void baseline_open(struct baseline *out, const char *path);
void baseline_close(struct baseline *b);

enum baseline_verdict {
    BASELINE_SAME,
    BASELINE_DIFFERS,
    BASELINE_NAMED, /* TraceEvent writes its own name for our number */
};

/* Whether `text` may stand for `v`. */
enum baseline_verdict baseline_compare(const char *text, const struct value *v);

#endif
