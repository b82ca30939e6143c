/* What both sides of a certificate share: random numbers, names, PEM. Keys and requests are in
 * pki_key.h, the authority in pki_authority.h. Threads: any, without locks. */
#ifndef PROCFLEET_COMMON_PKI_PKI_H
#define PROCFLEET_COMMON_PKI_PKI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/err.h"

#define PKI_FILE_MAX  8192u /* bytes of a PEM file with one key or certificate */
#define PKI_PIN_BYTES 32u   /* SHA-256 of the authority's certificate, DER */

/* Before the first handshake, and as often as one likes. Nothing is to be released. Errors:
 * ERR_NOMEM */
NODISCARD enum err pki_begin(void);

/* Random bytes for keys, signatures and TLS: one CTR_DRBG per thread, seeded by the system's
 * generator, and again when the process id changes: a forked child never repeats its parent's
 * numbers. In the shape mbedTLS asks for; `unused` is ignored. Returns 0, or a code of mbedTLS when
 * the system's generator failed. */
int pki_rng(void *unused, unsigned char *out, size_t n);

/* ERR_EXISTS when there is a file at `path`: nothing is overwritten. */
NODISCARD enum err pki_refuse_existing(const char *path, struct errmsg *why);

/* -- names -- */

bool pki_text_ok(const char *text, size_t max, const char *more); /* 1 to max characters of a name,
                                                                     or of `more` */
bool pki_name_ok(const char *name);                               /* of any certificate */
/* What is wrong with a new holder's name, or NULL. Stricter: 'pki revoke' takes names, UUIDs and
 * fingerprints in one place, and names become files. chosen: an operator wrote this very name, not
 * the host; it may look like the digits of a fingerprint then. */
const char *pki_name_wrong(const char *name, bool chosen);

/* -- PEM: only the wrapping is checked -- */

/* Appends a certificate's PEM. Errors: ERR_NOMEM, ERR_FULL, ERR_INVALID (longer than PKI_FILE_MAX)
 */
NODISCARD enum err pki_pem_put(struct buf *pem, const void *der, size_t n);
/* Appends the DER of the first certificate in a file. Errors: ERR_NOTFOUND, ERR_ACCESS, ERR_CORRUPT
 * (there is none in it), ERR_NOMEM, ERR_FULL, ERR_IO */
NODISCARD enum err pki_pem_read(struct buf *der, const char *path);
/* The pin of an authority's certificate, DER. Errors: ERR_IO */
NODISCARD enum err pki_pem_pin(uint8_t pin[PKI_PIN_BYTES], const void *der, size_t n);

#endif
