/* Classes: hosts that are alike. A class is the facts of a host's inventory that the installation
 * compares, in this order; memory counts to the GiB, a build without its revision. A host that
 * tells none of them is of the class "unknown", which is the same as another only on the same host.
 * Threads: any; no state. */
#ifndef PROCFLEET_COMMON_LAB_HOST_CLASS_H
#define PROCFLEET_COMMON_LAB_HOST_CLASS_H

#include "common/lab/run_file.h"

#define HOST_CLASS_TEXT 256u
#define HOST_CLASS_KEYS 16u

/* NULL at the end: os_name, os_build, cpu_model, cpu_cores, memory_bytes. */
extern const char *const host_class_default[];

/* "Windows 11/26100/i7-12700/20c/32G"; "" for unknown. Returns text. keys end with NULL. */
const char *host_class_text(char text[HOST_CLASS_TEXT], const struct run_pair *facts, size_t n,
                            const char *const *keys);

/* Four hex digits that stand for it in lists. */
unsigned host_class_id(const char *text);

/* The name of the inventory that a word means, as it is or short (cpu, cores, memory); NULL: none.
 */
const char *host_class_key(struct str word);

/* The names that a list with commas means, NULL behind them. Errors: ERR_USAGE (why says) */
NODISCARD enum err host_class_parse(const char *keys[HOST_CLASS_KEYS + 1], const char *list,
                                    struct errmsg *why);

/* The fact of this name; empty: not known. */
struct str host_class_fact(const struct run_pair *facts, size_t n, const char *key);

#endif
