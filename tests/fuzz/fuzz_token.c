/* Any bytes as a token's text. What is accepted must come out as it went in. */
#include <stdlib.h>
#include <string.h>

#include "common/pki/pki_token.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void try_token(const uint8_t *p, size_t n)
{
    char text[300], again[PKI_TOKEN_TEXT];
    struct pki_token t, same;

    if (n >= sizeof text) {
        return;
    }
    if (n > 0) {
        memcpy(text, p, n);
    }
    text[n] = '\0';
    if (pki_token_parse(&t, text) == ERR_OK) {
        must(pki_token_parse(&same, pki_token_format(again, &t)) == ERR_OK);
        must(memcmp(&t, &same, sizeof t) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    try_token(p, n);
    return 0;
}
