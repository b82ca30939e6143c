#include "agent/source/trace/etl_input.h"

enum err etl_input_unpack(FILE *plain, FILE *packed, const char *path, struct errmsg *why)
{
    (void)plain;
    (void)packed;
    return errmsg_set(
        why, ERR_UNSUPPORTED,
        "%s is xz-compressed and this build cannot unpack it: unpack it first (xz -dk)", path);
}
