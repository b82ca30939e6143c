/* The numbers of all sealed batches, exact, while the log is read back. Bounds: 48 bytes for every
 * range in the segments. Threads: one owner. */
#ifndef PROCFLEET_COLLECTOR_STORE_SEAL_SEALED_SEQS_H
#define PROCFLEET_COLLECTOR_STORE_SEAL_SEALED_SEQS_H

#include "collector/store/manifest/manifest.h"

struct sealed_seqs_range {
    struct uuid host;
    uint64_t stream;
    struct seq_range at;
    int64_t end_ns; /* of the window */
};

struct sealed_seqs {
    struct sealed_seqs_range *list; /* by host, stream, first, once sorted */
    size_t n, cap;
    uint64_t unreadable; /* segments */
};

void sealed_seqs_fini(struct sealed_seqs *x);

/* Adds those of every segment of the kind that ends after since_ns. A segment that cannot be read
 * is counted. Errors: ERR_NOMEM */
NODISCARD enum err sealed_seqs_add(struct sealed_seqs *x, const struct manifest_list *l,
                                   unsigned kind, int64_t since_ns);
void sealed_seqs_sort(struct sealed_seqs *x);
/* As sealed_seqs_has; *last: up to which number that is the same. */
bool sealed_seqs_span(const struct sealed_seqs *x, const struct uuid *host, uint64_t stream,
                      uint64_t seq, uint64_t *last);
/* The highest number of the stream; 0: none. */
uint64_t sealed_seqs_last(const struct sealed_seqs *x, const struct uuid *host, uint64_t stream);
bool sealed_seqs_has(const struct sealed_seqs *x, const struct uuid *host, uint64_t stream,
                     uint64_t seq);

#endif
