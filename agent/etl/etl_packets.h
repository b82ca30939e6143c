/* Packets in a recording: those of Packet Monitor (Microsoft-Windows-PktMon, one record each) and
 * of `netsh trace` (Microsoft-Windows-NDIS-PacketCapture, in fragments that are joined here).
 * Bounds:  ETL_PACKETS_OPEN packets of ETL_PACKETS_MAX bytes whose end has not come; the oldest
 *          makes room and is counted.
 * Threads: one owner. */
#ifndef PROCFLEET_AGENT_ETL_ETL_PACKETS_H
#define PROCFLEET_AGENT_ETL_ETL_PACKETS_H

#include "agent/source/source.h"

#define ETL_PACKETS_OPEN 256
#define ETL_PACKETS_MAX  65536

/* What a packet begins with; the value is pcap's link type. */
enum etl_packets_link {
    ETL_PACKETS_NO_LINK = 0, /* no frame: part of a message, or a kind that is not known */
    ETL_PACKETS_ETHERNET = 1,
    ETL_PACKETS_IP = 101,
    ETL_PACKETS_WIFI = 105,
};

enum etl_packets_way { ETL_PACKETS_NO_WAY, ETL_PACKETS_IN, ETL_PACKETS_OUT };

struct etl_packets_one {
    bool ndis;           /* by NDIS-PacketCapture; else PktMon */
    uint8_t link, way;   /* enum etl_packets_link, etl_packets_way */
    uint8_t direction;   /* as stored: 1 In, 2 Out, 3 Rx, 4 Tx, 5 Ingress, 6 Egress */
    bool dropped;        /* with reason and location */
    bool grouped;        /* group and number are known */
    uint32_t component;  /* PktMon: its id; NDIS: index of the miniport's interface */
    uint32_t edge;       /* NDIS: index of the lower interface */
    uint64_t group;      /* with number: the packet; */
    uint16_t number;     /* sightings of one packet have both in common, */
    uint16_t appearance; /* and are counted from 1; 0: the recording does not tell */
    uint32_t reason, location;
    uint32_t original;    /* bytes of the whole packet */
    const uint8_t *bytes; /* until the next call */
    size_t n;
};

/* What a recording says of the components that saw packets; texts are UTF-16LE as stored. */
struct etl_packets_fact {
    enum {
        ETL_PACKETS_COMPONENT, /* texts: name, description */
        ETL_PACKETS_ADDRESS,   /* bytes: 4 IPv4, 16 IPv6, 6 MAC */
        ETL_PACKETS_FLOW,      /* text 0: the edge's name; counters */
    } what;
    uint16_t component, edge;
    struct {
        const uint8_t *p;
        size_t n; /* units */
    } texts[2];
    const uint8_t *bytes;
    size_t n;
    struct {
        uint16_t direction;
        uint64_t packets;
    } flow[2];
};

struct etl_packets_stats {
    uint64_t damaged;    /* records that could not be read */
    uint64_t unfinished; /* NDIS: packets without begin or end */
};

struct etl_packets;

/* Errors: ERR_NOMEM */
NODISCARD enum err etl_packets_create(struct etl_packets **out);
void etl_packets_destroy(struct etl_packets *p); /* NULL is allowed */

/* Whether a packet ends with the record. */
bool etl_packets_take(struct etl_packets *p, const struct raw_event *raw,
                      struct etl_packets_one *out);

/* Whether the record says something of a component. */
bool etl_packets_fact(struct etl_packets_fact *out, const struct raw_event *raw);

/* After the last record: what is open has no end. */
void etl_packets_end(struct etl_packets *p, struct etl_packets_stats *out);

#endif
