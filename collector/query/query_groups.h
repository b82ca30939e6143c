/* The rows of Top by image, user or host. Private to collector/query. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_GROUPS_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_GROUPS_H

#include "collector/query/query_impl.h"
#include "common/base/map.h"

/* In which group each process was counted, of images and users: for who reads the same once more.
 * Caller's storage, zeroed at first; freed by query_groups_members_fini. */
struct query_groups_members {
    bool hours;     /* in: processes of less than an hour need not be counted one by one */
    struct map map; /* by a hash of process and host: its group's number + 1; of at most
                       QUERY_MEMBERS_MAX */
    uint64_t seed;
    uint32_t *rows; /* of each group its row; UINT32_MAX: it has none */
};

#define QUERY_MEMBERS_MAX (1u << 20)
#define QUERY_NO_MEMBER   (UINT32_MAX - 1)

void query_groups_members_fini(struct query_groups_members *m);

/* The row of its group; UINT32_MAX: it has none, QUERY_NO_MEMBER: it is not known which. */
uint32_t query_groups_member(const struct query_groups_members *m, size_t host,
                             const struct uuid *boot, struct proc_id id);

/* Enters the groups of a planned question as the answer's rows, by rank.
 * members  NULL: not wanted
 * Errors: those of query_run */
NODISCARD enum err query_groups_rows(struct query *q, struct query_groups_members *members);

#endif
