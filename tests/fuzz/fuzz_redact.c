/* Any bytes as a command line. Where nothing is hidden the line stays as it is; with less room the
 * same comes out, cut off. */
#include <stdint.h>
#include <string.h>

#include "agent/privacy/redact.h"
#include "tests/fuzz/touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#define ROOM (4 * 4096)

static void redacted(struct redact *r, char *out, size_t room, const uint8_t *line, size_t n)
{
    static const char *const words[] = {"password", "passwd", "pwd",       "secret",
                                        "token",    "key",    "credential"};

    *r = (struct redact){
        .words = words, .n_words = sizeof words / sizeof *words, .out = out, .room = room};
    redact_line(r, (struct str){(const char *)line, n});
    touch_must(r->n <= room);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static char whole[ROOM], part[ROOM];
    struct redact all, some;
    uint8_t *line;

    if (n > ROOM / 4) {
        return 0;
    }
    line = touch_copy(p, n);
    redacted(&all, whole, sizeof whole, line, n);
    touch_must(!all.cut);
    if (all.hidden == 0) {
        touch_must(all.n == n && (n == 0 || memcmp(whole, line, n) == 0));
    }
    redacted(&some, part, n > 0 ? p[n - 1] : 0, line, n);
    touch_must(some.n <= all.n && memcmp(part, whole, some.n) == 0);
    touch_must(some.hidden == all.hidden);
    touch_must(redact_first((struct str){(const char *)line, n}) <= n);
    free(line);
    return 0;
}
