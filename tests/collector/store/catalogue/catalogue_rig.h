/* A catalogue, what it reads, and its answers: what the tests of the catalogue share. Failures end
 * the test. Threads: one, but catalogue_rig_add. */
#ifndef PROCFLEET_TESTS_COLLECTOR_STORE_CATALOGUE_CATALOGUE_RIG_H
#define PROCFLEET_TESTS_COLLECTOR_STORE_CATALOGUE_CATALOGUE_RIG_H

#include "collector/store/catalogue/catalogue.h"
#include "collector/store/meta/meta.h"

#define CATALOGUE_RIG_NAME 64
#define CATALOGUE_RIG_ROWS 4096

/* A store's segments without a store: what the catalogue reads. */
extern struct catalogue_rig {
    char dir[256], cat_dir[300];
    struct manifest *m;
    struct meta_written *written;
    struct packer *packer;
    struct catalogue *c;
} catalogue_rig;

int catalogue_rig_setup(void **state);
int catalogue_rig_teardown(void **state);

/* import: what stands in segments, as it is opened. */
void catalogue_rig_open(bool import);
/* Takes over what was sealed. */
void catalogue_rig_follow(void);
/* Seals windows of several hosts, as the sealing thread does. Gives the segment. */
struct seg_info catalogue_rig_seal(int64_t window_ns, const struct host_window *hw, size_t n);

struct catalogue_rig_rows {
    size_t n;
    struct catalogue_rig_row {
        struct uuid boot;
        struct proc_info info;
        char name[CATALOGUE_RIG_NAME], line[CATALOGUE_RIG_NAME];
        int64_t seen_ns;
    } at[CATALOGUE_RIG_ROWS];
};

/* Gives rows that are valid until the next call. */
struct catalogue_rig_rows *catalogue_rig_find(const struct catalogue_ask *ask);
/* Adds to rows, as catalogue_find wants it; ctx is struct catalogue_rig_rows. Always ERR_OK */
NODISCARD enum err catalogue_rig_add(void *ctx, const struct uuid *boot,
                                     const struct proc_info *info, int64_t seen_ns);

/* Without text, and without what lies between members: to be compared as bytes. */
void catalogue_rig_plain(struct proc_info *to, const struct proc_info *from);

#endif
