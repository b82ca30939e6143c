/* The lifetimes of an answer: when which process lived, in columns; to and from its messages for
 * wire_answer.c. Plain data. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_LIFETIMES_H
#define PROCFLEET_COMMON_WIRE_WIRE_LIFETIMES_H

#include "common/wire/wire_query.h"

#define WIRE_LIVES_MAX         50000u /* processes */
#define WIRE_LIVES_DEFAULT     20000u
#define WIRE_LIFE_NAMES_MAX    16384u
#define WIRE_LIFE_IMAGES_MAX   64u          /* images with a density of their own */
#define WIRE_LIFE_DENSITY_MAX  65536u       /* images x buckets */
#define WIRE_LIFE_MEASURED_MAX (256u << 10) /* bytes: hosts x buckets / 8 */

/* Of life_us, exit_code and cpu_us. */
#define WIRE_LIFE_LIVES     (-1) /* at the end of the window */
#define WIRE_LIFE_UNKNOWN   (-2) /* ended, unknown when */
#define WIRE_LIFE_NOT_KNOWN (-1)

enum wire_life_flag {
    WIRE_LIFE_END_INFERRED = 1 << 0,  /* it ended at this time or before, seen by comparison */
    WIRE_LIFE_START_UNKNOWN = 1 << 1, /* it began at start_us or before */
    WIRE_LIFE_CPU_EXACT = 1 << 2,     /* cpu_us is exact up to its end, not to the last sample */
    WIRE_LIFE_END_UNKNOWN = 1 << 3,   /* it ended; life_us reaches to its last sample, or is
                                         WIRE_LIFE_UNKNOWN where there is none */
};

struct wire_lifetimes_image {
    uint32_t name;                 /* index into names */
    const uint32_t *starts, *ends; /* of each bucket */
};

/* An index of a column is a process. */
struct wire_lifetimes {
    int64_t t0_ns;           /* UTC, start of the first bucket */
    size_t n;                /* by start_us; parents before their children */
    const int64_t *start_us; /* since t0_ns; negative: before */
    const int64_t *life_us;  /* or WIRE_LIFE_LIVES, WIRE_LIFE_UNKNOWN */
    const uint32_t *host;    /* index into the answer's hosts */
    const uint32_t *name;    /* of the image: index into names */
    const uint32_t *user;    /* likewise */
    const uint32_t *pid;
    const int64_t *parent; /* index + 1, at most the process's own index; or minus the pid, or 0 */
    const uint64_t *start; /* with pid the instance: struct proc_id */
    const int64_t *exit_code; /* or WIRE_LIFE_NOT_KNOWN */
    const uint32_t *flags;    /* enum wire_life_flag */
    const int64_t *cpu_us;    /* inside the window, or WIRE_LIFE_NOT_KNOWN */
    size_t n_names;
    const struct str *names;
    uint64_t left_out; /* processes of the window that are not here */
    /* The density: how many began and ended, those left out too. */
    int64_t step_ns;
    uint32_t n_buckets; /* up to WIRE_BUCKETS_MAX */
    const uint32_t *starts, *ends;
    const uint32_t *present;  /* delivered of the hosts of which data is expected, ppm */
    const uint32_t *hosts_in; /* measured in it; NULL: not told, by an older collector */
    size_t n_measured; /* as many as the answer has hosts; 0: not told, or too much for an answer */
    const uint8_t *measured; /* of each host (n_buckets + 7) / 8 bytes: a bit for each bucket,
                                lowest first, in which it was measured, so that an agent ran */
    size_t n_images;         /* those of most starts and ends, the most first */
    const struct wire_lifetimes_image *images;
};

/* Whether the host of this index was measured in bucket b, as far as that is told. */
static inline bool wire_lifetimes_measured(const struct wire_lifetimes *l, size_t host, uint32_t b)
{
    const uint8_t *bits = l->measured + host * ((l->n_buckets + 7) / 8);

    return host >= l->n_measured ? !l->hosts_in || l->hosts_in[b] : bits[b / 8] >> b % 8 & 1;
}

struct wire_arena;
struct Procfleet__V1__Answer;

/* Errors: ERR_INVALID (over a limit, or an index out of range), ERR_NOMEM */
NODISCARD enum err wire_lifetimes_put(struct Procfleet__V1__Answer *m, const struct wire_answer *in,
                                      struct wire_arena *a);
/* After the answer's hosts. Errors: ERR_CORRUPT, ERR_FULL, ERR_NOMEM */
NODISCARD enum err wire_lifetimes_get(struct wire_answer *out,
                                      const struct Procfleet__V1__Answer *m, struct wire_arena *a);

#endif
