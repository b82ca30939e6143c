/* Requests and replies of the Query service and updates of the event stream as protobuf bytes, by
 * the rules of wire_batch.h. Decoded messages are released with `_free`; encoders only read. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_QUERY_H
#define PROCFLEET_COMMON_WIRE_WIRE_QUERY_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/model/inventory.h"
#include "common/model/model.h"
#include "common/wire/wire_ask.h"
#include "common/wire/wire_coverage.h"

#define RPC_QUERY_SERVER_INFO "procfleet.v1.Query/GetServerInfo"
#define RPC_QUERY_HOSTS       "procfleet.v1.Query/ListHosts"
#define RPC_QUERY_TOP         "procfleet.v1.Query/Top"
#define RPC_QUERY_PROCESSES   "procfleet.v1.Query/Processes"
#define RPC_QUERY_HISTORY     "procfleet.v1.Query/History"
#define RPC_QUERY_EVENTS      "procfleet.v1.Query/Events"
#define RPC_QUERY_COVERAGE    "procfleet.v1.Query/Coverage"
#define RPC_QUERY_TREE        "procfleet.v1.Query/Tree"
#define RPC_QUERY_OVERVIEW    "procfleet.v1.Query/Overview"
#define RPC_QUERY_SERIES      "procfleet.v1.Query/Series"
#define RPC_QUERY_LIFETIMES   "procfleet.v1.Query/Lifetimes"
#define RPC_QUERY_PULSE       "procfleet.v1.Query/Pulse"
#define RPC_QUERY_OUTLIERS    "procfleet.v1.Query/Outliers"
#define RPC_QUERY_PROVIDERS   "procfleet.v1.Query/Providers"
#define RPC_QUERY_BOOTS       "procfleet.v1.Query/Boots"
#define WIRE_USED_MAX         16u

struct wire_host {
    struct uuid id;
    struct str name;
    struct str source;  /* "proc", "etl" */
    struct str version; /* of the agent, empty if it has not said hello */
    struct uuid boot;
    bool connected, polled, replay, ended;
    bool forgotten, revoked; /* hidden until its agent calls; its newest certificate is */
    uint32_t cpus;
    uint32_t processes;        /* alive at the newest tick */
    int64_t first_ns, last_ns; /* oldest and newest data held */
    int64_t offset_ns;         /* collector's clock minus the host's, least delayed estimate */
    uint64_t batches, duplicates, gaps, lost_events;
    bool has_offset;
    int64_t offset_error_ns;      /* how far offset_ns may be off, where there is one */
    int64_t not_after_ns;         /* UTC, end of the agent's certificate; 0 = not seen */
    int64_t heard_ns;             /* UTC, the agent's last call; 0 = never */
    uint32_t clones;              /* further machines that claim this identity */
    bool has_cpu, has_memory;     /* ListHosts, of the newest 30 s up to last_ns that have it: */
    int64_t cpu_permille, memory; /* of one processor; working sets, bytes: all processes */
    const struct facts *facts;    /* ListHosts: labels and inventory; NULL: none are known */
    struct str class;             /* likewise: of hosts that are alike, in words; empty: unknown */
};

struct wire_row {  /* a process with values of the reply's `metrics` */
    uint32_t host; /* index into hosts */
    struct proc_info info;
    int64_t when_ns;       /* History: the sample; else the newest sample used */
    uint64_t have;         /* bit i: values[i] is present; */
    uint64_t have_high;    /* values[64 + i], likewise */
    const int64_t *values; /* n_metrics values */
    uint32_t instances;    /* processes that it stands for; 0 = one */
    uint32_t hosts;        /* of a group: how many it is of; `host` is that of the largest part */
    uint32_t depth;        /* Tree: generations below the first */
};

static inline bool wire_row_has(const struct wire_row *r, size_t i)
{
    return (i < 64 ? r->have >> i : i < 128 ? r->have_high >> (i - 64) : 0) & 1;
}

struct wire_event {
    uint32_t host;
    struct life_event event;
    size_t n_ancestors;
    const struct proc_info *ancestors; /* the parent first */
};

struct wire_overview;  /* wire_overview.h */
struct wire_lifetimes; /* wire_lifetimes.h */
struct wire_series;    /* wire_series.h, */
struct wire_trend;     /* likewise */
struct wire_outliers;  /* wire_outliers.h */
struct wire_providers; /* wire_providers.h */
struct wire_boots;     /* wire_boots.h */

/* One reply shape for ListHosts (hosts), Top, Processes, History, Tree (hosts, metrics, rows),
 * Events (hosts, events), Coverage (hosts, coverage), Overview, Series and Pulse (as Top, and
 * series) and Lifetimes (hosts, coverage, lifetimes). */
struct wire_answer {
    size_t n_hosts;
    const struct wire_host *hosts;
    uint8_t n_metrics;
    uint8_t metrics[WIRE_COLUMNS_MAX];
    size_t n_rows;
    const struct wire_row *rows;
    size_t n_events;
    const struct wire_event *events;
    int64_t since_ns, until_ns; /* the window answered, over all hosts */
    bool partial;               /* a host or span asked for is missing, or known to have loss */
    size_t n_notes;
    const struct str *notes; /* sentences for people: polled spans, losses; coverage is the last */
    size_t n_coverage;
    const struct wire_coverage *coverage;
    struct wire_coverage_sum sum;
    uint8_t n_used;
    uint32_t used[WIRE_USED_MAX], damaged;  /* windows read, by enum store_tier; values not read */
    const struct wire_overview *overview;   /* NULL in all others */
    const struct wire_series *series;       /* likewise */
    const struct wire_lifetimes *lifetimes; /* likewise */
    const struct wire_trend *trends;        /* Top by growth: one for each row; else NULL */
    const struct wire_outliers *outliers;   /* NULL in all others */
    const struct wire_providers *providers; /* likewise */
    const struct wire_boots *boots;         /* likewise */
    uint32_t knows;                         /* once decoded: see wire_query_unknown */
};

struct wire_server_info {
    char version[32];
    int64_t now_ns;
    uint64_t epoch; /* of the event stream */
    uint32_t max_request, max_reply, hosts;
    uint8_t frame_version_min, frame_version_max;
    struct uuid id; /* new at each start of the collector */
    size_t n_methods;
    struct wire_method {
        char name[64];
        uint32_t id;
    } methods[64];
};

/* What one PUB message carries behind topic, epoch and sequence: events or newest samples. */
struct wire_update {
    struct uuid host;
    struct str name; /* of the host */
    struct wire_answer data;
};

NODISCARD enum err wire_query_encode(struct buf *out, const struct wire_query *q);
NODISCARD enum err wire_query_decode(struct wire_query **out, const void *p, size_t n);
void wire_query_free(struct wire_query *q);
/* What of a question leaves out rows and is not known to a collector whose answers say `knows`, in
 * words; NULL: nothing, the answer is of what was asked for. */
const char *wire_query_unknown(const struct wire_query *q, uint32_t knows);
NODISCARD enum err wire_answer_encode(struct buf *out, const struct wire_answer *a);
NODISCARD enum err wire_answer_decode(struct wire_answer **out, const void *p, size_t n);
void wire_answer_free(struct wire_answer *a);

NODISCARD enum err wire_query_server_info_encode(struct buf *out, const struct wire_server_info *m);
NODISCARD enum err wire_query_server_info_decode(struct wire_server_info *m, const void *p,
                                                 size_t n);
NODISCARD enum err wire_update_encode(struct buf *out, const struct wire_update *u);
NODISCARD enum err wire_update_decode(struct wire_update **out, const void *p, size_t n);
void wire_update_free(struct wire_update *u);

#endif
