/* The fields of a host in expressions, for whoever judges hosts: questions and rules.
 *
 *     host, the names of the inventory (os os_name … cpu_model …), cores, memory, label.KEY
 *
 * An environment asks here behind expr_process.h and adds its own fields from EXPR_HOST_END on.
 * Threads: any; no state. */
#ifndef PROCFLEET_COMMON_EXPR_EXPR_HOST_H
#define PROCFLEET_COMMON_EXPR_EXPR_HOST_H

#include "common/expr/expr_process.h"
#include "common/model/inventory.h"

#define EXPR_HOST        EXPR_PROCESS_END
#define EXPR_HOST_LABELS (EXPR_HOST + 128u) /* a slot for each key */
#define EXPR_HOST_END    (EXPR_HOST_LABELS + INVENTORY_LABELS_MAX)

/* The labels that an expression speaks of; keys are borrowed from its text. */
struct expr_host_labels {
    uint8_t n;
    struct str keys[INVENTORY_LABELS_MAX];
};

/* False: there is no such field, or too many labels. */
bool expr_host_field(struct str name, struct expr_host_labels *labels, struct expr_field *out);

/* A slot of [EXPR_HOST, EXPR_HOST_END). f NULL: of the host its name alone is known. */
void expr_host_value(uint32_t slot, const struct expr_host_labels *labels, struct str host,
                     const struct facts *f, struct expr_value *out);

#endif
