/* Which process descends from which among the instances of a table, and what each did together with
 * all its descendants. Private to collector/query.
 *
 * A parent is known by its pid and, when the source tells it, its start; otherwise it is the
 * instance of that pid that began last before the child. A process whose parent is not in the table
 * has none. Bounds: KIN_DEPTH_MAX generations are added up; a way up that comes back to where it
 * was, which only a confused source makes, ends there. */
#ifndef PROCFLEET_COLLECTOR_QUERY_QUERY_TREE_H
#define PROCFLEET_COLLECTOR_QUERY_QUERY_TREE_H

#include "collector/query/query_table.h"

#define KIN_DEPTH_MAX 256u
#define KIN_NONE      SIZE_MAX

/* One instance, as far as kinship goes. */
struct kin {
    struct proc_key key;
    const struct proc_info *info; /* NULL: of unknown parents */
    size_t parent;                /* index, or KIN_NONE */
    size_t met;                   /* for walks upwards: the index it was met from, plus 1 */
};

/* The sums of a table's instances over them and their descendants. */
struct query_tree_sums {
    size_t n;
    const struct query_inst **insts; /* by key; hidden and folded ones are left out */
    struct kin *kins;                /* the same order */
    struct query_sum *sums;          /* n × the table's metrics */
    uint32_t *members;
};

/* ended: those that ended inside the window count too, and are among the instances; without, they
 * are left out. In the table's memory. Errors: ERR_FULL */
NODISCARD enum err query_tree_sums(struct query_tree_sums *out, struct query_table *t, bool ended);

#endif
