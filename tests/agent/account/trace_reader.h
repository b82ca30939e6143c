/* A trace file through reader, decoders and stages, nothing forgotten: for tests of totals. */
#ifndef PROCFLEET_TESTS_AGENT_ACCOUNT_TRACE_READER_H
#define PROCFLEET_TESTS_AGENT_ACCOUNT_TRACE_READER_H

#include "agent/decode/decode.h"
#include "agent/source/trace/etl_file.h"
#include "tests/agent/account/stages.h"

struct reader {
    struct decode *decode;
    struct stages stages;
};

static inline void reader_raw(void *ctx, const struct raw_event *raw)
{
    struct reader *r = ctx;
    struct event ev;

    if (decode_event(r->decode, raw, &ev) == ERR_OK) {
        (void)aggregate_event(r->stages.agg, &ev);
    }
}

static inline void reader_fact(void *ctx, const struct event *ev)
{
    struct reader *r = ctx;

    (void)aggregate_event(r->stages.agg, ev);
}

static inline void reader_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct reader *r = ctx;

    lifecycle_advance(r->stages.life, wall_ns, mono_ns);
}

/* Reads the whole file; the stages are then asked, until reader_fini. */
static inline void reader_run(struct reader *r, const char *path)
{
    struct etl_file_conf conf = {.paths = &path, .n_paths = 1};
    struct source_sink sink = {
        .ctx = r, .raw = reader_raw, .fact = reader_fact, .advance = reader_advance};
    struct source *source;

    r->stages = stages_new(INT64_MAX);
    assert_ok(decode_create(&r->decode));
    assert_ok(etl_file_open(&source, &conf, sink, NULL));
    assert_err(source->ops->run(source), ERR_END);
    source->ops->close(source);
}

static inline void reader_fini(struct reader *r)
{
    decode_destroy(r->decode);
    stages_free(&r->stages);
}

#endif
