#include "collector/store/memtable/head_age.h"

#include <string.h>

struct head_age head_age_of(const struct proc_info *info, int64_t seen_ns)
{
    bool exited = info->have & INFO_EXITED;
    int64_t ns = exited && info->exit_ns ? info->exit_ns : seen_ns;

    return (struct head_age){!exited, (uint64_t)ns ^ UINT64_C(1) << 63};
}

static int compare(const struct head_age *a, const struct head_age *b)
{
    return a->running != b->running ? a->running - b->running : (a->ns > b->ns) - (a->ns < b->ns);
}

/* How many have which byte at `shift`, of those whose bytes above are those of `of`. */
static void count_bytes(size_t in[256], const struct head_age *ages, size_t n,
                        const struct head_age *of, unsigned shift)
{
    uint64_t above = shift < 56 ? UINT64_MAX << (shift + 8) : 0;

    memset(in, 0, 256 * sizeof *in);
    for (size_t i = 0; i < n; i++) {
        if (ages[i].running == of->running && !((ages[i].ns ^ of->ns) & above)) {
            in[ages[i].ns >> shift & 0xff]++;
        }
    }
}

/* Byte by byte: whatever times a host makes up, it takes 8 looks. */
struct head_limit head_limit_of(const struct head_age *ages, size_t n, size_t k)
{
    struct head_limit limit = {{false, 0}, k};
    size_t in[256], ended = 0;

    for (size_t i = 0; i < n; i++) {
        ended += !ages[i].running;
    }
    if (k > ended) {
        limit.age.running = true;
        limit.equal -= ended;
    }
    for (unsigned shift = 64; shift > 0;) {
        size_t b = 0;

        shift -= 8;
        count_bytes(in, ages, n, &limit.age, shift);
        while (limit.equal > in[b]) {
            limit.equal -= in[b++];
        }
        limit.age.ns |= (uint64_t)b << shift;
    }
    return limit;
}

bool head_age_over(const struct head_age *a, struct head_limit *limit)
{
    int c = compare(a, &limit->age);

    if (c == 0 && limit->equal > 0) {
        limit->equal--;
        return true;
    }
    return c < 0;
}
