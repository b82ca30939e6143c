/* Any bytes as the names of hosts and programs in /metrics: whatever they are, the line stays one
 * line of UTF-8 with one pair of quotes for each label, as the strictest reader wants it. */
#include <stdlib.h>
#include <string.h>

#include "collector/metrics/om.h"
#include "common/base/utf8.h"
#include "common/text/humanize.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

/* Behind the value that begins here; every escape in it is one of three. */
static const char *value_end(const char *s)
{
    for (; *s != '"'; s++) {
        must(*s && *s != '\n');
        if (*s == '\\') {
            s++;
            must(*s == '\\' || *s == '"' || *s == 'n');
        }
    }
    return s + 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    size_t cut = n ? p[0] % n : 0;
    struct buf labels, out;
    const char *at;

    buf_init(&labels, 1u << 20);
    buf_init(&out, 1u << 20);
    om_label(&labels, "host", (struct str){(const char *)p, cut});
    om_label(&labels, "program", (struct str){(const char *)p + cut, n - cut});
    om_sample(&out, "a", buf_cstr(&labels), 1);
    must(!labels.bad && !out.bad && strlen(buf_cstr(&out)) == out.n);
    must(utf8_whole((const char *)out.p, out.n) == out.n);
    must(strncmp(buf_cstr(&out), "a{host=\"", 8) == 0);
    at = value_end(buf_cstr(&out) + 8);
    must(strncmp(at, ",program=\"", 10) == 0);
    must(strcmp(value_end(at + 10), "} 1\n") == 0);
    buf_fini(&out);
    buf_fini(&labels);
    return 0;
}
