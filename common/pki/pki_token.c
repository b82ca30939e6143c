#include "common/pki/pki_token.h"

#include <string.h>

#include <mbedtls/platform_util.h>
#include <mbedtls/sha256.h>

#include "common/base/hash.h"

#define PREFIX     "pf1-"
#define PREFIX_LEN (sizeof PREFIX - 1)
#define SUM_BYTES  4u
#define ALL_BYTES  (PKI_TOKEN_BYTES + SUM_BYTES)

static void put_sum(uint8_t bytes[ALL_BYTES])
{
    uint64_t sum = hash_bytes(bytes, PKI_TOKEN_BYTES, 0);

    for (size_t i = 0; i < SUM_BYTES; i++) {
        bytes[PKI_TOKEN_BYTES + i] = (uint8_t)(sum >> (8 * i));
    }
}

enum err pki_token_hash(uint8_t hash[PKI_TOKEN_HASH_BYTES], const struct pki_token *t)
{
    uint8_t bytes[PKI_TOKEN_ID_BYTES + PKI_TOKEN_SECRET_BYTES];
    int r;

    memcpy(bytes, t->id, sizeof t->id);
    memcpy(bytes + sizeof t->id, t->secret, sizeof t->secret);
    r = mbedtls_sha256(bytes, sizeof bytes, hash, 0);
    mbedtls_platform_zeroize(bytes, sizeof bytes);
    return r == 0 ? ERR_OK : ERR_NOMEM;
}

enum err pki_token_digest(uint8_t hash[PKI_TOKEN_HASH_BYTES], const void *p, size_t n)
{
    return mbedtls_sha256(p, n, hash, 0) == 0 ? ERR_OK : ERR_NOMEM;
}

const char *pki_token_format(char text[PKI_TOKEN_TEXT], const struct pki_token *t)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[ALL_BYTES];
    char *to = text + PREFIX_LEN;

    memcpy(bytes, t->id, sizeof t->id);
    memcpy(bytes + PKI_TOKEN_ID_BYTES, t->secret, sizeof t->secret);
    memcpy(bytes + PKI_TOKEN_ID_BYTES + PKI_TOKEN_SECRET_BYTES, t->pin, sizeof t->pin);
    put_sum(bytes);
    memcpy(text, PREFIX, PREFIX_LEN);
    for (size_t i = 0; i < ALL_BYTES; i++) {
        *to++ = digits[bytes[i] >> 4];
        *to++ = digits[bytes[i] & 15];
    }
    *to = '\0';
    return text;
}

/* The value of a hexadecimal digit, or -1. */
static int digit(char c)
{
    char low = (char)(c | 0x20);

    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

enum err pki_token_parse(struct pki_token *out, const char *text)
{
    uint8_t bytes[ALL_BYTES], wanted[ALL_BYTES];

    if (strlen(text) != PKI_TOKEN_TEXT - 1 || memcmp(text, PREFIX, PREFIX_LEN) != 0) {
        return ERR_INVALID;
    }
    for (size_t i = 0; i < ALL_BYTES; i++) {
        int high = digit(text[PREFIX_LEN + 2 * i]), low = digit(text[PREFIX_LEN + 2 * i + 1]);

        if (high < 0 || low < 0) {
            return ERR_INVALID;
        }
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    memcpy(wanted, bytes, PKI_TOKEN_BYTES);
    put_sum(wanted);
    if (memcmp(bytes, wanted, ALL_BYTES) != 0) {
        return ERR_INVALID;
    }
    memcpy(out->id, bytes, sizeof out->id);
    memcpy(out->secret, bytes + PKI_TOKEN_ID_BYTES, sizeof out->secret);
    memcpy(out->pin, bytes + PKI_TOKEN_ID_BYTES + PKI_TOKEN_SECRET_BYTES, sizeof out->pin);
    return ERR_OK;
}
