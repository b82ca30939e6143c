/* What the commands of procfleet-collector store share. They read what the collector has sealed,
 * also while it runs: segments never change. */
#ifndef PROCFLEET_COLLECTOR_CMD_COLLECTOR_CMD_STORE_H
#define PROCFLEET_COLLECTOR_CMD_COLLECTOR_CMD_STORE_H

#include "collector/cmd/collector_cmd.h"
#include "collector/conf/collector_conf.h"
#include "collector/store/manifest/manifest.h"

#define COLLECTOR_CMD_STORE_CONFIG                                              \
    {                                                                           \
        "config", 'c', "FILE", "YAML file with the collector's settings", false \
    }
#define COLLECTOR_CMD_STORE_SET                                                             \
    {                                                                                       \
        "set", 's', "KEY=VALUE", "one setting, over the file's, such as data_dir=DIR", true \
    }

struct collector_cmd_store {
    struct collector_conf conf;
    char *dir; /* of the segments */
    struct manifest *m;
    struct manifest_list *l;
};

/* The store of --config and --set, to look at. *s is released by collector_cmd_store_close, also
 * after an error. */
NODISCARD enum err collector_cmd_store_open(struct collector_cmd_store *s, const struct opt_args *a,
                                            struct errmsg *why);
void collector_cmd_store_close(struct collector_cmd_store *s);

/* Bytes of the files in data_dir/name; 0 when there is no such directory. */
uint64_t collector_cmd_store_dir_bytes(const struct collector_cmd_store *s, const char *name);

extern const struct opt_command cmd_store_export_options;

#endif
