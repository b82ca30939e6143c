/* A bucket is one moment: when all that was taken out of it will have flowed back. What was taken
 * lies between now and then, and must not be more than the burst. */
#include "collector/ca/rate_limit.h"

#include <string.h>

#include "common/base/clk.h"
#include "common/base/hash.h"
#include "common/os/os.h"

enum err rate_limit_init(struct rate_limit *t, struct rate_limit_rate all,
                         struct rate_limit_rate each)
{
    *t = (struct rate_limit){.all = all, .each = each};
    return os_random(&t->seed, sizeof t->seed);
}

/* Time until one more may be taken. */
static int64_t wait_of(const struct rate_limit_bucket *b, struct rate_limit_rate r, int64_t now_ns)
{
    int64_t room_ns = (int64_t)(r.burst - 1) * CLK_S / r.per_second;
    int64_t wait_ns = b->empty_ns - now_ns - room_ns;

    return wait_ns > 0 ? wait_ns : 0;
}

static void take(struct rate_limit_bucket *b, struct rate_limit_rate r, int64_t now_ns)
{
    b->empty_ns = (b->empty_ns > now_ns ? b->empty_ns : now_ns) + CLK_S / r.per_second;
}

static struct rate_limit_bucket *place(struct rate_limit *t, const char *address)
{
    const char *end = strrchr(address, ':');
    size_t n;

    if (address[0] == '[') {
        end = address;
        for (int groups = 0; groups < 4 && end; groups++) {
            end = strchr(end + 1, ':');
        }
    }
    n = end ? (size_t)(end - address) : strlen(address);
    return &t->places[hash_bytes(address, n, t->seed) % RATE_LIMIT_PLACES];
}

int64_t rate_limit_take(struct rate_limit *t, const char *address, int64_t now_ns)
{
    struct rate_limit_bucket *b = place(t, address);
    int64_t each_ns = wait_of(b, t->each, now_ns), all_ns = wait_of(&t->total, t->all, now_ns);

    if (each_ns > 0 || all_ns > 0) {
        return each_ns > all_ns ? each_ns : all_ns;
    }
    take(b, t->each, now_ns);
    take(&t->total, t->all, now_ns);
    return 0;
}
