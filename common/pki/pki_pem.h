/* Certificates between DER, as they travel, and PEM, as they lie in files. Nothing is checked but
 * the wrapping. Threads: any; no state. */
#ifndef PROCFLEET_COMMON_PKI_PKI_PEM_H
#define PROCFLEET_COMMON_PKI_PKI_PEM_H

#include "common/pki/pki_request.h"

#define PKI_PEM_MAX 8192u /* bytes of a file with one certificate */

/* Appends a certificate's PEM. Errors: ERR_NOMEM, ERR_FULL, ERR_INVALID (longer than PKI_PEM_MAX)
 */
NODISCARD enum err pki_pem_put(struct buf *pem, const void *der, size_t n);

/* Appends the DER of the first certificate in a file. Errors: ERR_NOTFOUND, ERR_ACCESS, ERR_CORRUPT
 * (there is none in it), ERR_NOMEM, ERR_FULL, ERR_IO */
NODISCARD enum err pki_pem_read(struct buf *der, const char *path);

/* The pin of an authority's certificate, DER. Errors: ERR_IO */
NODISCARD enum err pki_pem_pin(uint8_t pin[PKI_PIN_BYTES], const void *der, size_t n);

#endif
