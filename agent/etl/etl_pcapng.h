/* Writes packet captures (pcapng): a section for each recording, an interface for each place where
 * packets were seen, packets with nanoseconds, direction and a comment. Everything goes to the file
 * as it comes. Failure latches: the caller asks at the end.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_ETL_PCAPNG_H
#define PROCFLEET_AGENT_ETL_ETL_PCAPNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/base/str.h"

#define ETL_PCAPNG_ADDRESSES 8 /* of an interface */

struct etl_pcapng_interface {
    uint16_t link;                /* of pcap: 1 Ethernet, 101 IP, 105 802.11 */
    struct str name, description; /* UTF-8; may be empty */
    struct {
        uint8_t n; /* 4, 6 (MAC) or 16 */
        uint8_t b[16];
    } addresses[ETL_PCAPNG_ADDRESSES];
    size_t n_addresses;
};

struct etl_pcapng_packet {
    uint32_t interface; /* of the section, from 0 */
    int64_t wall_ns;    /* UTC */
    uint32_t original;  /* bytes of the whole */
    const uint8_t *bytes;
    size_t n;
    uint8_t way; /* 0 not known, 1 in, 2 out */
    bool has_id; /* packets of one id are sightings of one */
    uint64_t id;
    struct str comment; /* may be empty */
};

struct etl_pcapng;

/* Makes the file anew; without a path packets go to standard output. A file that is there is
 * replaced only if it is a capture or empty.
 * Errors: ERR_EXISTS (it is something else), ERR_IO and what the system says, ERR_NOMEM */
NODISCARD enum err etl_pcapng_open(struct etl_pcapng **out, const char *path, struct errmsg *why);

void etl_pcapng_section(struct etl_pcapng *w, struct str system, struct str program);
void etl_pcapng_interface(struct etl_pcapng *w, const struct etl_pcapng_interface *i);
void etl_pcapng_packet(struct etl_pcapng *w, const struct etl_pcapng_packet *p);
/* received, dropped  of the interface in the section */
void etl_pcapng_statistics(struct etl_pcapng *w, uint32_t interface, int64_t wall_ns,
                           uint64_t received, uint64_t dropped);
bool etl_pcapng_ok(const struct etl_pcapng *w); /* false: the file takes no more */

/* Errors: ERR_IO (not all of it could be written). NULL is allowed. */
NODISCARD enum err etl_pcapng_close(struct etl_pcapng *w);

#endif
