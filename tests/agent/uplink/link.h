/* An uplink with a queue, for a collector's ingest listener whose answers a test decides
 * (ingest.h): real sockets, TLS and calls. Failures end the test. Threads: one owner. */
#ifndef PROCFLEET_TESTS_AGENT_UPLINK_LINK_H
#define PROCFLEET_TESTS_AGENT_UPLINK_LINK_H

#include "agent/spool/queue.h"
#include "agent/uplink/uplink.h"
#include "common/base/clk.h"
#include "tests/support/ingest.h"

/* Longer than anything lasts that goes well. */
#define LINK_LONG_NS (30 * CLK_S)

struct link {
    struct queue *queue;
    struct uplink *uplink;
    size_t limit;
    char addresses[2][32];
    const char *list[2];
    struct uplink_conf conf;
};

/* Of the collector, the agent, and one whom another authority vouches for. */
extern struct link_tls {
    struct tls_config *server, *agent, *stranger;
} link_tls;

/* The network and the certificates of a program of tests. */
int link_set_up(void **state);
int link_tear_down(void **state);

/* Towards this collector; `conf` may be changed until link_start. */
struct link *link_new(const struct ingest *c);
void link_start(struct link *l);
void link_free(struct link *l);

void link_put(struct link *l, uint64_t seq, const char *text);
/* Until `reached` says so. */
struct uplink_status link_wait(struct link *l, bool (*reached)(const struct uplink_status *));
bool link_drained(const struct uplink_status *s);
bool link_refused(const struct uplink_status *s);
bool link_acknowledged(const struct uplink_status *s);
/* Nothing more comes; until all was delivered or set aside. */
struct uplink_status link_drain(struct link *l);
/* The batches that the collector took, one behind the other. */
void link_check_got(struct ingest *c, const char *want);

#endif
