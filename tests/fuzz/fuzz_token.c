/* Any bytes as a token's text and as a line of the authority's book. What is accepted must come out
 * as it went in. */
#include <stdlib.h>
#include <string.h>

#include "collector/ca/entry.h"

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

static void try_entry(const uint8_t *p, size_t n)
{
    struct entry e;
    struct buf b;

    if (entry_get(&e, (const char *)p, n) != ERR_OK) {
        return;
    }
    buf_init(&b, 8192);
    must(entry_put(&b, &e) == ERR_OK);
    must(entry_get(&e, (const char *)b.p, b.n) == ERR_OK);
    buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    try_token(p, n);
    try_entry(p, n);
    return 0;
}
