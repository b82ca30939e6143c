/* What a question of the Query service says. Plain data, coded in wire_query.c. */
#ifndef PROCFLEET_COMMON_WIRE_WIRE_ASK_H
#define PROCFLEET_COMMON_WIRE_WIRE_ASK_H

#include "common/model/inventory.h"
#include "common/model/model.h"
#include "common/wire/wire_events.h"

#define WIRE_ROWS_MAX    4096u /* rows of one reply; more come with a cursor */
#define WIRE_CURSOR_MAX  256u  /* bytes */
#define WIRE_IDS_MAX     128u  /* hosts that a question names by their ids */
#define WIRE_METRICS_MAX 64u   /* metrics one query asks for, and an answer has; */
#define WIRE_COLUMNS_MAX 128u  /* an update has all that there are */
#define WIRE_HOSTS_MAX   64u   /* names of hosts one query asks for */
#define WIRE_CLASS_MAX   16u   /* names of a class */
#define WIRE_ASK_KNOWS   36u   /* the highest field of QueryRequest: what answers say */

/* What Top orders by, of the first metric. Wire values. */
enum wire_by {
    WIRE_BY_USUAL, /* growth of counters, last value of gauges */
    WIRE_BY_SUM,   /* growth; of gauges the sum of all samples */
    WIRE_BY_RATE,  /* growth in a second */
    WIRE_BY_MAX,   /* largest growth from one sample to the next; largest value */
    WIRE_BY_AVG,   /* the mean of these */
    WIRE_BY_GROWTH /* of gauges: from the window's first part to its last */
};

/* What a row of Top is. Wire values. */
enum wire_group {
    WIRE_GROUP_NONE, /* a process instance */
    WIRE_GROUP_IMAGE,
    WIRE_GROUP_USER,
    WIRE_GROUP_HOST,
    WIRE_GROUP_TREE,      /* a process and all that descend from it */
    WIRE_GROUP_FLEET,     /* all together */
    WIRE_GROUP_IMAGE_USER /* Top only: an image by each user that runs it */
};

/* One request shape for all methods; members that a method does not use are ignored. Time: [since,
 * until) UTC ns. With last_ns > 0 and since = until = 0, the window is the last `last_ns` up to
 * each host's newest data, so that an ended replay still answers. */
struct wire_query {
    struct str host; /* name, glob or uuid; empty = all */
    int64_t since_ns, until_ns, last_ns;
    uint8_t n_metrics;
    uint8_t metrics[WIRE_METRICS_MAX]; /* Top: the first is the order; History: the columns */
    uint32_t limit;                    /* rows wanted, 1 to WIRE_ROWS_MAX */
    bool idle, forgotten;              /* pid 0 too; hosts that are forgotten too */
    bool exited; /* Processes: also those that ended inside the window; Top by tree: count them */
    bool has_pid;
    uint32_t pid;
    uint64_t start;            /* with pid: one instance; 0 = every instance of that pid */
    struct str name;           /* glob on the image name, empty = all */
    uint32_t kinds;            /* Events: bit per enum life_kind; 0 = LIFE_KINDS_DEFAULT */
    struct wire_events events; /* Events */
    int64_t step_ns;           /* History: 0 = every sample */
    struct str cursor;         /* opaque bytes of the previous reply, empty = from the start */
    bool stages;               /* Coverage: with what every stage counted */
    uint8_t by;                /* Top: enum wire_by */
    uint8_t group_by;          /* Top: enum wire_group */
    bool folded;      /* also of processes too short for the tier that is left, by image name */
    int64_t at_ns;    /* Tree; 0 = each host's newest data */
    uint32_t buckets; /* Series: at most so many; 0 = 60 */
    bool envelope;    /* Series of processes: least and greatest of gauges, too */
    uint32_t max;     /* Lifetimes: processes, up to WIRE_LIVES_MAX; 0 = 20,000 */
    struct str ids;   /* 16 bytes each, up to WIRE_IDS_MAX: only these hosts; empty = all */
    struct str run;   /* NAME[@n|@id]: its hosts, its range and its tree; empty = no run */
    size_t n_hosts;   /* besides `host` */
    struct str hosts[WIRE_HOSTS_MAX];
    size_t n_labels; /* of hosts: values are globs; of one key any of them */
    struct label labels[INVENTORY_LABELS_MAX];
    bool ancestors; /* Tree: those above, too; Events: with the chain of parents */
    size_t n_class; /* 0: as the collector has it */
    struct str class_keys[WIRE_CLASS_MAX];
    bool types;         /* Providers: by what their events are, over all hosts */
    struct str rules;   /* RulesTest: a file; empty: those in use */
    uint32_t rules_ask; /* WIRE_RULES_* */
};

#endif
