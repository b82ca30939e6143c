/* XXH3, the checksum of our files and the hash of our tables. Not a defence against forgery unless
 * the seed is secret. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_BASE_HASH_H
#define PROCFLEET_COMMON_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash_bytes(const void *p, size_t n, uint64_t seed); /* XXH3-64 */

#endif
