/* Events and tables, written short: what tests of the stages behind the sources are fed with.
 * Times are in milliseconds after WALL0. */
#ifndef PROCFLEET_TESTS_AGENT_FEED_H
#define PROCFLEET_TESTS_AGENT_FEED_H

#include "agent/source/event.h"
#include "agent/source/source.h"
#include "common/base/clk.h"

#define WALL0 (1700000000LL * CLK_S)

static inline struct event feed_at(enum event_kind kind, int64_t ms)
{
    return (struct event){.kind = kind,
                          .pid = EVENT_NO_ID,
                          .tid = EVENT_NO_ID,
                          .wall_ns = WALL0 + ms * CLK_MS,
                          .mono_ns = ms * CLK_MS};
}

static inline struct event feed_proc(enum event_kind kind, int64_t ms, uint32_t pid, uint64_t start)
{
    struct event ev = feed_at(kind, ms);

    ev.u.proc.info.id = (struct proc_id){pid, start};
    ev.u.proc.info.name = str_make("app");
    return ev;
}

static inline struct event feed_thread(enum event_kind kind, int64_t ms, uint32_t pid, uint32_t tid)
{
    struct event ev = feed_at(kind, ms);

    ev.u.thread.pid = pid;
    ev.u.thread.tid = tid;
    return ev;
}

static inline struct event feed_sample(int64_t ms, uint32_t tid, bool interrupt)
{
    struct event ev = feed_at(EV_CPU_SAMPLE, ms);

    ev.u.sample.tid = tid;
    ev.u.sample.interrupt = interrupt;
    return ev;
}

static inline struct event feed_interval(int64_t ms, int64_t interval_ns)
{
    struct event ev = feed_at(EV_CPU_SAMPLE_INTERVAL, ms);

    ev.u.interval_ns = interval_ns;
    return ev;
}

static inline struct event feed_early(struct event ev)
{
    ev.early = true;
    return ev;
}

static inline struct snap_row feed_row(uint32_t pid, uint64_t start, int64_t create_ms)
{
    struct snap_row row = {.info = {.id = {pid, start}, .name = str_make("app")}};

    row.info.have = INFO_CREATE_TIME;
    row.info.create_ns = WALL0 + create_ms * CLK_MS;
    return row;
}

static inline struct snapshot feed_table(int64_t ms, const struct snap_row *rows, size_t n)
{
    return (struct snapshot){.wall_ns = WALL0 + ms * CLK_MS,
                             .mono_ns = ms * CLK_MS,
                             .rows = rows,
                             .n_rows = n,
                             .complete = true};
}

#endif
