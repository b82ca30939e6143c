#include "agent/agent_run.h"

#include "common/base/buf.h"
#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"

#define MARK_BYTES 56u
#define VERSION    1u

static const char magic[4] = {'P', 'F', 'R', 'N'};

struct mark {
    struct uuid boot;
    int64_t wall_ns, mono_ns; /* when the run began */
    int64_t untold_ns;        /* since when data of an earlier run is missing; 0: none is */
};

static enum err mark_write(const char *path, const struct mark *m)
{
    struct buf b;
    enum err e;

    buf_init(&b, MARK_BYTES);
    buf_put(&b, magic, sizeof magic);
    buf_put_u32le(&b, VERSION);
    buf_put(&b, m->boot.b, sizeof m->boot.b);
    buf_put_u64le(&b, (uint64_t)m->wall_ns);
    buf_put_u64le(&b, (uint64_t)m->mono_ns);
    buf_put_u64le(&b, (uint64_t)m->untold_ns);
    if (!b.bad) {
        buf_put_u64le(&b, hash_bytes(b.p, b.n, 0));
    }
    e = b.bad ? b.bad : os_write_file(path, b.p, b.n, true);
    buf_fini(&b);
    return e;
}

/* False: there is none, or none that can be believed. */
static bool mark_read(const char *path, struct mark *m)
{
    struct mark found = {.wall_ns = 0};
    const uint8_t *boot;
    uint8_t *p;
    struct cur c;
    size_t n;
    bool good;

    if (os_read_file(&p, &n, path, MARK_BYTES)) {
        return false;
    }
    c = cur_make(p, n);
    good = n == MARK_BYTES && memcmp(p, magic, sizeof magic) == 0;
    cur_skip(&c, sizeof magic);
    good = cur_u32le(&c) == VERSION && good;
    boot = cur_bytes(&c, sizeof found.boot.b);
    if (boot) {
        memcpy(found.boot.b, boot, sizeof found.boot.b);
    }
    found.wall_ns = (int64_t)cur_u64le(&c);
    found.mono_ns = (int64_t)cur_u64le(&c);
    found.untold_ns = (int64_t)cur_u64le(&c);
    good = cur_u64le(&c) == (good ? hash_bytes(p, MARK_BYTES - 8, 0) : 0) && !c.bad && good;
    mem_free(p);
    if (good) {
        *m = found;
    }
    return good;
}

/* Since when data is missing: what came after the newest batch on disk. */
static int64_t missing_since(const struct mark *m, const struct agent_run_start *now)
{
    if (now->newest_ns >= m->wall_ns) {
        return now->newest_ns;
    }
    return m->untold_ns ? m->untold_ns : m->wall_ns;
}

static uint64_t ticks_of(int64_t span_ns, int64_t period_ns)
{
    return span_ns > 0 ? (uint64_t)(span_ns / (period_ns > 0 ? period_ns : CLK_S)) : 0;
}

/* The system is still the same: the agent alone was ended. A clock that was set since must not make
 * the time longer than it was. */
static void tell_killed(struct agent_run *r, const struct mark *m,
                        const struct agent_run_start *now, int64_t since_ns)
{
    int64_t span_ns = clk_sub(now->wall_ns, since_ns);
    int64_t whole_ns = clk_sub(now->mono_ns, m->mono_ns);

    if (since_ns >= m->wall_ns && (span_ns > whole_ns || span_ns < 0)) {
        span_ns = whole_ns;
    }
    r->killed = ticks_of(span_ns, now->period_ns);
}

/* When the system ended nobody knows: what the agent's memory could hold is what is missing. */
static void tell_power_lost(struct agent_run *r, const struct agent_run_start *now,
                            int64_t since_ns)
{
    int64_t span_ns = clk_sub(now->wall_ns, since_ns);

    if (span_ns > now->memory_ns || span_ns < 0) {
        span_ns = now->memory_ns;
    }
    r->power_lost = ticks_of(span_ns, now->period_ns);
    r->power_lost += r->power_lost == 0;
}

enum err agent_run_begin(struct agent_run *r, const char *dir, const struct agent_run_start *start)
{
    struct mark before, mark = {start->boot, start->wall_ns, start->mono_ns, 0};
    int64_t since_ns;

    r->path = os_path_join(dir, AGENT_RUN_FILE);
    if (!r->path) {
        return ERR_NOMEM;
    }
    if (mark_read(r->path, &before)) {
        since_ns = missing_since(&before, start);
        if (memcmp(before.boot.b, start->boot.b, sizeof before.boot.b) == 0) {
            tell_killed(r, &before, start, since_ns);
        } else {
            tell_power_lost(r, start, since_ns);
        }
        r->untold = r->killed > 0 || r->power_lost > 0;
        mark.untold_ns = r->untold ? since_ns : 0;
    }
    return mark_write(r->path, &mark);
}

void agent_run_end(struct agent_run *r, bool told)
{
    if (r->path && told) {
        err_ignore(os_remove(r->path));
    }
    mem_free(r->path);
    *r = (struct agent_run){.path = NULL};
}

size_t agent_run_ledger(const struct agent_run *r, struct ledger_row *rows, size_t max)
{
    const struct ledger_row all[] = {
        {str_make("agent"), str_make("killed"), r->killed},
        {str_make("agent"), str_make("power_lost"), r->power_lost},
    };
    size_t n = r->path ? sizeof all / sizeof *all : 0;

    n = n < max ? n : max;
    if (n > 0) {
        memcpy(rows, all, n * sizeof *rows);
    }
    return n;
}
