/* Both ends of a connection as network records tell them: those of the classic classes TcpIp and
 * UdpIp, of Microsoft-Windows-Kernel-Network, which are the same bytes, and of
 * Microsoft-Windows-TCPIP by its fields. Threads: any; no state. */
#ifndef PROCFLEET_AGENT_ETL_ETL_ENDS_H
#define PROCFLEET_AGENT_ETL_ETL_ENDS_H

#include "agent/etl/etl_fields.h"

#define ETL_ENDS_V6_FROM 26 /* opcodes and ids of IPv6 are 16 above those of IPv4 */

struct etl_ends { /* compared and hashed as bytes: no padding */
    uint32_t pid;
    uint16_t remote_port, local_port;
    uint8_t n; /* 4 or 16 */
    uint8_t remote[16], local[16];
    uint8_t zero[3];
};

/* A payload of PID u32, size u32, remote and local address, remote and local port (big-endian).
 * size  bytes that went over it. False: it is too short. */
bool etl_ends_kernel(struct etl_ends *e, uint32_t *size, const struct raw_event *raw, bool v6);

/* RemoteAddress, LocalAddress and the field `pid`. False: the record does not have both. */
bool etl_ends_fields(struct etl_ends *e, const struct etl_fields *f, const char *pid);

#endif
