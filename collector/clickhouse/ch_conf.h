/* The settings clickhouse.* and collector.name, checked. Threads: read-only after loading. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_CONF_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_CONF_H

#include "collector/clickhouse/ch_sink.h"
#include "common/conf/conf.h"

struct ch_conf {
    bool on; /* clickhouse.urls is set */
    char name[64];
    struct ch_http_conf server; /* as who writes */
    struct ch_http_conf reader; /* as who asks: clickhouse.reader, else the same */
    struct ch_keep keep;
    const char *const *samples;
    size_t n_samples;
    int64_t gather_ns;
    unsigned quorum;
    char *paths[5]; /* absolute; owned */
};

/* Texts are borrowed from `source`; paths are relative to data_dir. *out is released by
 * ch_conf_fini, also after an error. Errors: ERR_INVALID (why says where and what), ERR_NOMEM */
NODISCARD enum err ch_conf_read(struct ch_conf *out, const struct conf *source,
                                const char *data_dir, struct errmsg *why);
void ch_conf_fini(struct ch_conf *c);

#endif
