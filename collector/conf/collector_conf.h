/* The collector's settings: the one table of its keys (docs/collector.md describes them), and the
 * values read from it, checked and with paths made absolute. Threads: read-only after loading. */
#ifndef PROCFLEET_COLLECTOR_CONF_COLLECTOR_CONF_H
#define PROCFLEET_COLLECTOR_CONF_COLLECTOR_CONF_H

#include "collector/store/retention/retain.h"
#include "common/conf/conf.h"
#include "common/log/log.h"
#include "common/os/fio.h"

const struct conf_key *collector_conf_keys(size_t *n);

struct collector_conf {
    struct conf *source;
    char *data_dir, *ca, *cert, *key; /* absolute; owned */
    char *crl;                        /* likewise, or NULL: there is none */
    char *log_file;                   /* absolute, or "" = standard error; owned */
    const char *ingest, *query;       /* addresses; the source's */
    const char *events, *enroll;      /* likewise; "" = off */
    const char *http;                 /* likewise */
    const char *console;              /* likewise */
    const char *const *console_names;
    size_t n_console_names;
    const char *console_url, *console_user_header; /* "" = none */
    char *console_tokens;                          /* absolute, or NULL: none; owned */
    bool console_audit;
    int64_t http_refresh_ns;
    uint32_t http_hosts_max, http_programs;
    bool http_programs_more;
    const char *const *http_names;
    size_t n_http_names;
    char *pki_dir;     /* absolute, or "" = none; owned */
    bool pki_required; /* set explicitly, not by default */
    int64_t cert_life_ns, renew_grace_ns;
    uint32_t hosts_max;
    uint32_t processes_max; /* of one host */
    uint32_t batch_bytes_max;
    int64_t accept_age_ns;
    uint64_t head_bytes_max;
    uint64_t process_bytes_host, process_bytes;
    uint64_t feed_bytes; /* of the journal of updates; 0: none */
    int64_t feed_age_ns;
    int64_t feed_idle_ns; /* until a durable subscription that is not polled is dropped */
    int64_t runs_age_ns;
    uint64_t runs_bytes;    /* of runs' files */
    const char *rules_file; /* "": none */
    const char *const *lab_labels, *const *lab_class;
    size_t n_lab_labels, n_lab_class;
    struct retain_conf retain; /* 0: by default, from the disk */
    enum log_level log_level;
    enum log_format log_format;
    const struct fio *fio; /* what the store writes through: fio_os() but for tests */
};

/* Defaults, then the file (NULL = none), then `n_sets` texts "key=value".
 * out     released by collector_conf_fini, also after an error
 * Errors: ERR_INVALID, ERR_NOTFOUND, ERR_ACCESS, ERR_IO, ERR_NOMEM; why says where and what */
NODISCARD enum err collector_conf_load(struct collector_conf *out, const char *file,
                                       const char *const *sets, size_t n_sets, struct errmsg *why);
void collector_conf_fini(struct collector_conf *c);

#endif
