/* Any bytes as the status an agent has left: they are refused, or what is read can be written and
 * read again to the same. */
#include <stdlib.h>
#include <string.h>

#include "agent/status/status_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check_texts(const struct status *s)
{
    if (!memchr(s->why, 0, sizeof s->why) || !memchr(s->source, 0, sizeof s->source) ||
        s->n_notes > STATUS_NOTES || s->n_losses > STATUS_LOSSES || s->level > 4) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static struct status first, second;
    struct buf b;

    if (status_file_parse(&first, p, n)) {
        return 0;
    }
    check_texts(&first);
    buf_init(&b, STATUS_FILE_MAX);
    if (status_file_format(&b, &first) || status_file_parse(&second, b.p, b.n) ||
        memcmp(&first, &second, sizeof first) != 0) {
        abort();
    }
    buf_reset(&b);
    status_print(&b, &first);
    buf_fini(&b);
    return 0;
}
