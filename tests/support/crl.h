/* Revocation lists for tests, as an authority's own tools would make them. Failures end the test.
 * Threads: one at a time. */
#ifndef PROCFLEET_TESTS_SUPPORT_CRL_H
#define PROCFLEET_TESTS_SUPPORT_CRL_H

#include <stddef.h>
#include <stdint.h>

struct crl_entry {
    uint8_t serial[20];
    size_t n;
};

/* Writes to `path` a list of the authority in `ca_dir`, to be renewed at `next_ns`. */
void crl_write(const char *path, const char *ca_dir, const struct crl_entry *entries, size_t n,
               int64_t next_ns);

#endif
