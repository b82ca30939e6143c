#include "agent/own/own_write.h"

enum err own_write_open(struct own_write **out, const uint8_t guid[16], const uint8_t *traits,
                        size_t n)
{
    (void)out;
    (void)guid;
    (void)traits;
    (void)n;
    return ERR_UNSUPPORTED;
}

void own_write_close(struct own_write *w)
{
    (void)w;
}

bool own_write_listens(const struct own_write *w)
{
    (void)w;
    return false;
}

void own_write_event(struct own_write *w, const struct own_event *e)
{
    (void)w;
    (void)e;
}
