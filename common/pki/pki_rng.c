#include "common/pki/pki_rng.h"

#include <stdbool.h>

#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>

#include "common/os/os.h"

/* The context holds no heap memory: nothing to release when a thread ends. */
static _Thread_local struct {
    bool seeded;
    uint32_t process;
    mbedtls_ctr_drbg_context drbg;
} rng;

static int system_entropy(void *unused, unsigned char *out, size_t n)
{
    (void)unused;
    return os_random(out, n) ? MBEDTLS_ERR_ENTROPY_SOURCE_FAILED : 0;
}

static int seed(uint32_t process)
{
    int r;

    mbedtls_ctr_drbg_init(&rng.drbg);
    r = mbedtls_ctr_drbg_seed(&rng.drbg, system_entropy, NULL, (const unsigned char *)&process,
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
        int r = seed(process);

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
