/* A busy Windows host that never was, as its agent sees it live: the records of three event
 * sessions, and answers to the question who lives (class 5), of the same processes. Seeded: one
 * configuration always gives the same records, whoever asks and however fast.
 *
 * Of a thousand records about 880 are context switches, 30 disk requests (two records each), 20
 * hard faults, the rest threads, images and processes that come and go: ETWLOAD_BRIEF processes a
 * second, each living ETWLOAD_LIFE_NS. Processes are equally busy, so that as many as possible have
 * something to tell in a short time.
 *
 * Threads: one owner for everything but etwload_table, which has another one and only its own
 * memory. Out of memory ends the program: this is for benchmarks and tests. */
#ifndef PROCFLEET_TESTS_SUPPORT_ETWLOAD_H
#define PROCFLEET_TESTS_SUPPORT_ETWLOAD_H

#include "agent/source/source.h"
#include "common/base/buf.h"
#include "common/base/clk.h"

#define ETWLOAD_CPUS      8
#define ETWLOAD_THREADS   8 /* of each process */
#define ETWLOAD_PID       400
#define ETWLOAD_BRIEF_PID 40000
#define ETWLOAD_BRIEF     2
#define ETWLOAD_LIFE_NS   (1300 * CLK_MS)
#define ETWLOAD_KEPT      256 /* records whose payload stays valid */

enum etwload_session {
    ETWLOAD_LIFECYCLE, /* classic processes, threads, images */
    ETWLOAD_RATE,      /* context switches, disk, hard faults */
    ETWLOAD_MANIFEST,  /* Microsoft-Windows-Kernel-Process */
    ETWLOAD_SESSIONS
};

struct etwload_conf {
    uint64_t seed;
    unsigned processes;           /* that live all along, 1 to 4096 */
    unsigned per_second;          /* records, above 100 */
    unsigned gc_network;          /* of a thousand so many are of the network or, one of 25 of
                                     these, of .NET's collections */
    int64_t begin_wall, begin_ns; /* UTC and monotonic clock of the first record */
};

struct etwload;
struct etwload *etwload_create(const struct etwload_conf *conf);
void etwload_destroy(struct etwload *l); /* NULL is allowed */

/* The next record up to that moment of the monotonic clock: first the rundown of everybody, all at
 * begin_ns, then what happens. False: no more until then. The payload is valid for as many further
 * calls as ETWLOAD_KEPT says. */
bool etwload_next(struct etwload *l, int64_t until_ns, struct raw_event *raw,
                  enum etwload_session *session);

/* Everybody who lives at the moment, as the system answers, with 100-ns times; two of three
 * processes have not changed since the answer before. Names lie in the answer, whose first byte has
 * the address ETWLOAD_ADDRESS. `extension` as in snap_gen.h. */
#define ETWLOAD_ADDRESS UINT64_C(0x20000)
struct etwload_tables;
struct etwload_tables *etwload_tables_create(const struct etwload_conf *conf, bool extension);
void etwload_tables_destroy(struct etwload_tables *t);       /* NULL is allowed */
size_t etwload_tables_bytes(const struct etwload_tables *t); /* of memory that it keeps */
void etwload_table(struct etwload_tables *t, int64_t mono_ns, struct buf *answer);

#endif
