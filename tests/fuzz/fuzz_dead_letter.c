/* A file of the spool's dead letters against hostile bytes: the input as a whole file; and as the
 * content and the reason of a sound one, of which one byte is then altered. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "agent/spool/dead_letter.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check(const uint8_t *p, size_t n)
{
    struct dead_letter_batch b;

    if (dead_letter_file_parse(&b, p, n) == ERR_OK) {
        assert(strlen(b.why) <= DEAD_LETTER_WHY && b.n <= n);
        assert((const uint8_t *)b.p + b.n == p + n);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct dead_letter_batch b = {.stream = n, .seq = 1, .p = p, .n = n}, again;
    struct buf file;

    check(p, n);
    for (size_t i = 0; i < n && i < DEAD_LETTER_WHY && p[i] != 0; i++) {
        b.why[i] = (char)p[i];
    }
    buf_init(&file, n + 1024);
    dead_letter_file_format(&file, &b);
    assert(!file.bad && dead_letter_file_parse(&again, file.p, file.n) == ERR_OK);
    assert(again.n == n && (n == 0 || memcmp(again.p, p, n) == 0));
    assert(strcmp(again.why, b.why) == 0);
    if (n > 1) {
        file.p[(p[0] * 256u + p[1]) % file.n] ^= (uint8_t)(1 + p[n - 1] % 255);
        assert(dead_letter_file_parse(&again, file.p, file.n) != ERR_OK);
    }
    buf_fini(&file);
    return 0;
}
