#include "common/pki/pki.h"

#include <stdatomic.h>
#include <string.h>

#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/pem.h>
#include <mbedtls/sha256.h>
#include <psa/crypto.h>

#include "common/base/mem.h"
#include "common/model/model.h"
#include "common/os/os.h"
#include "common/os/uuid.h"
#include "common/pki/pki_threads.h"

/* -- mbedTLS -- */

/* One thread does it, the others wait for that. */
static void threads_once(void)
{
    enum { NEVER, NOW, DONE };

    static atomic_int begun = NEVER;
    int never = NEVER;

    if (atomic_load(&begun) == DONE) {
        return;
    }
    if (atomic_compare_exchange_strong(&begun, &never, NOW)) {
        pki_threads_begin();
        atomic_store(&begun, DONE);
    }
    while (atomic_load(&begun) != DONE) {
        os_sleep_ns(1000);
    }
}

enum err pki_begin(void)
{
    threads_once();
    return psa_crypto_init() == PSA_SUCCESS ? ERR_OK : ERR_NOMEM;
}

/* -- random numbers -- */

/* The context holds no heap memory: nothing to release when a thread ends. */
static _Thread_local struct {
    bool seeded;
    uint32_t process;
    mbedtls_ctr_drbg_context drbg;
} rng;

static int rng_entropy(void *unused, unsigned char *out, size_t n)
{
    (void)unused;
    return os_random(out, n) ? MBEDTLS_ERR_ENTROPY_SOURCE_FAILED : 0;
}

static int rng_seed(uint32_t process)
{
    int r;

    threads_once();
    mbedtls_ctr_drbg_init(&rng.drbg);
    r = mbedtls_ctr_drbg_seed(&rng.drbg, rng_entropy, NULL, (const unsigned char *)&process,
                              sizeof process);
    rng.seeded = r == 0;
    rng.process = process;
    return r;
}

int pki_rng(void *unused, unsigned char *out, size_t n)
{
    uint32_t process = os_process_id();

    (void)unused;
    if (!rng.seeded || rng.process != process) {
        int r = rng_seed(process);

        if (r != 0) {
            return r;
        }
    }
    while (n > 0) {
        size_t part = n < MBEDTLS_CTR_DRBG_MAX_REQUEST ? n : MBEDTLS_CTR_DRBG_MAX_REQUEST;
        int r = mbedtls_ctr_drbg_random(&rng.drbg, out, part);

        if (r != 0) {
            return r;
        }
        out += part;
        n -= part;
    }
    return 0;
}

/* -- PEM -- */

#define BEGIN "-----BEGIN CERTIFICATE-----\n"
#define END   "-----END CERTIFICATE-----\n"

enum err pki_pem_put(struct buf *pem, const void *der, size_t n)
{
    unsigned char text[PKI_FILE_MAX];
    size_t len = 0; /* with NUL */

    if (mbedtls_pem_write_buffer(BEGIN, END, der, n, text, sizeof text, &len) != 0) {
        return ERR_INVALID;
    }
    buf_put(pem, text, len - 1);
    return pem->bad;
}

/* Of a text that ends in NUL. */
static enum err pem_take(struct buf *der, const unsigned char *text)
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
    enum err e = os_read_file(&text, &n, path, PKI_FILE_MAX);

    if (!e) {
        e = pem_take(der, text);
    }
    mem_free(text);
    return e == ERR_FULL ? ERR_CORRUPT : e;
}

enum err pki_pem_pin(uint8_t pin[PKI_PIN_BYTES], const void *der, size_t n)
{
    return mbedtls_sha256(der, n, pin, 0) == 0 ? ERR_OK : ERR_IO;
}

/* -- names -- */

#define FINGERPRINT_MIN 8 /* digits of one, as 'pki revoke' takes them */

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

bool pki_text_ok(const char *text, size_t max, const char *more)
{
    size_t n = text ? strlen(text) : 0;

    for (size_t i = 0; i < n; i++) {
        if (!name_char(text[i]) && !strchr(more, text[i])) {
            return false;
        }
    }
    return n > 0 && n <= max;
}

bool pki_name_ok(const char *name)
{
    return pki_text_ok(name, MODEL_HOST_NAME_MAX, "");
}

const char *pki_name_wrong(const char *name, bool chosen)
{
    struct uuid uuid;
    size_t n;

    if (!pki_name_ok(name)) {
        return "a name has 1 to 63 letters, digits, '.', '_' or '-'";
    }
    n = strlen(name);
    if (name[0] == '-' || name[n - 1] == '.') {
        return "a name begins with no '-' and ends in no '.'";
    }
    if (uuid_parse(&uuid, name) == ERR_OK ||
        (!chosen && n >= FINGERPRINT_MIN && strspn(name, "0123456789abcdefABCDEF") == n)) {
        return "it could be taken for a UUID or a fingerprint (8 hexadecimal digits or more, and "
               "nothing else): choose another name";
    }
    return NULL;
}

/* -- files -- */

enum err pki_refuse_existing(const char *path, struct errmsg *why)
{
    if (!os_exists(path)) {
        return ERR_OK;
    }
    return errmsg_set(why, ERR_EXISTS,
                      "%s exists already; nothing is overwritten: "
                      "choose another place or move it away",
                      path);
}
