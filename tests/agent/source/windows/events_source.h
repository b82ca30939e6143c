/* Events of live.h as a source of their own, without tables: what they hand on goes to the sink
 * they were opened with. */
#ifndef PROCFLEET_TESTS_AGENT_SOURCE_WINDOWS_EVENTS_SOURCE_H
#define PROCFLEET_TESTS_AGENT_SOURCE_WINDOWS_EVENTS_SOURCE_H

#include <stdatomic.h>

#include "agent/source/windows/live.h"
#include "common/base/clk.h"
#include "common/os/os.h"

struct events_source {
    struct source source; /* first */
    struct live_events *events;
    atomic_bool stopping;
};

static inline enum err events_source_run(struct source *source)
{
    struct events_source *s = (struct events_source *)source;
    const struct live_events_ops *ops = s->events->ops;
    enum err e = ops->begin(s->events);

    while (!e && !atomic_load(&s->stopping)) {
        if (!ops->step(s->events)) {
            ops->wait(s->events, os_mono_ns() + CLK_S);
        }
    }
    ops->end(s->events);
    return e;
}

static inline void events_source_stop(struct source *source)
{
    atomic_store(&((struct events_source *)source)->stopping, true);
}

static inline void events_source_stats(const struct source *source, struct source_stats *out)
{
    const struct events_source *s = (const struct events_source *)source;

    s->events->ops->stats(s->events, out);
}

static inline void events_source_close(struct source *source)
{
    struct events_source *s = (struct events_source *)source;

    s->events->ops->close(s->events);
    *s = (struct events_source){0};
}

static const struct source_ops events_source_ops = {.run = events_source_run,
                                                    .stop = events_source_stop,
                                                    .stats = events_source_stats,
                                                    .close = events_source_close};

/* `s` is the caller's and outlives the source. */
static inline struct source *events_source_make(struct events_source *s, struct live_events *events)
{
    s->events = events;
    s->source.ops = &events_source_ops;
    s->source.about.name = "live";
    return &s->source;
}

#endif
