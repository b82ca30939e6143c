#include "common/pki/pki_pem.h"

#include <mbedtls/pem.h>
#include <mbedtls/sha256.h>

#include "common/base/mem.h"
#include "common/os/os.h"

#define BEGIN "-----BEGIN CERTIFICATE-----\n"
#define END   "-----END CERTIFICATE-----\n"

enum err pki_pem_put(struct buf *pem, const void *der, size_t n)
{
    unsigned char text[PKI_PEM_MAX];
    size_t len = 0; /* with NUL */

    if (mbedtls_pem_write_buffer(BEGIN, END, der, n, text, sizeof text, &len) != 0) {
        return ERR_INVALID;
    }
    buf_put(pem, text, len - 1);
    return pem->bad;
}

/* Of a text that ends in NUL. */
static enum err take(struct buf *der, const unsigned char *text)
{
    mbedtls_pem_context pem;
    size_t used, n;
    const unsigned char *p;
    enum err e = ERR_CORRUPT;

    mbedtls_pem_init(&pem);
    if (mbedtls_pem_read_buffer(&pem, "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----",
                                text, NULL, 0, &used) == 0) {
        p = mbedtls_pem_get_buffer(&pem, &n);
        buf_put(der, p, n);
        e = der->bad;
    }
    mbedtls_pem_free(&pem);
    return e;
}

enum err pki_pem_read(struct buf *der, const char *path)
{
    uint8_t *text = NULL;
    size_t n = 0;
    enum err e = os_read_file(&text, &n, path, PKI_PEM_MAX);

    if (!e) {
        e = take(der, text);
    }
    mem_free(text);
    return e == ERR_FULL ? ERR_CORRUPT : e;
}

enum err pki_pem_pin(uint8_t pin[PKI_PIN_BYTES], const void *der, size_t n)
{
    return mbedtls_sha256(der, n, pin, 0) == 0 ? ERR_OK : ERR_IO;
}
