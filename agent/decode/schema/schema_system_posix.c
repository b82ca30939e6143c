#include "agent/decode/schema/schema_system.h"

enum err schema_system_open(struct schema_system **out)
{
    (void)out;
    return ERR_UNSUPPORTED;
}

void schema_system_close(struct schema_system *sys)
{
    (void)sys;
}

enum err schema_system_put(struct schema_system *sys, struct schema *s, const struct raw_event *raw)
{
    (void)sys;
    (void)s;
    (void)raw;
    return ERR_NOTFOUND;
}

enum err schema_system_each(struct schema_system *sys, const uint8_t guid[16],
                            void (*each)(void *ctx, uint8_t opcode, const uint8_t *p, size_t n),
                            void *ctx)
{
    (void)sys;
    (void)guid;
    (void)each;
    (void)ctx;
    return ERR_NOTFOUND;
}
