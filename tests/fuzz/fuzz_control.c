/* Any bytes as a line to the agent's local control: read or refused with a sentence, and what was
 * read is within bounds. */
#include <stdlib.h>
#include <string.h>

#include "agent/control/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct errmsg why = {""};
    struct control_wish w;
    enum err e = control_read(&w, (const char *)p, n, &why);

    if (e ? !why.text[0]
          : w.what >= CONTROL_WHATS || w.level > 4 || w.span_ns < 0 ||
                !memchr(w.provider, 0, sizeof w.provider)) {
        abort();
    }
    return 0;
}
