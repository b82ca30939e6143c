#include "common/ledger.h"

static const char *const no_loss[] = {
    "in",           "out",       "held",  "filtered", "duplicate", "redacted", "unknown",
    "unattributed", "level_off", "early", "polled",   "up",        "down",     "request",
};

bool ledger_is_loss(struct str reason)
{
    for (size_t i = 0; i < sizeof no_loss / sizeof *no_loss; i++) {
        size_t n = strlen(no_loss[i]);

        /* "unknown_class" and "unknown class" are kinds of "unknown" */
        if (reason.n >= n && memcmp(reason.p, no_loss[i], n) == 0 &&
            (reason.n == n || reason.p[n] == '_' || reason.p[n] == ' ')) {
            return false;
        }
    }
    return true;
}
