/* Any bytes as a trace file (etl_shape.h), all the way: reader, schemas, names and values of every
 * record, facts, lives, totals. What each stage says of itself must add up. */
#include <string.h>

#include "agent/account/aggregate.h"
#include "agent/decode/decode.h"
#include "agent/decode/describe.h"
#include "agent/source/trace/etl_file.h"
#include "common/base/clk.h"
#include "tests/fuzz/etl_shape.h"
#include "tests/fuzz/touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

struct stages {
    struct decode *decode;
    struct describe *describe;
    struct instances *table;
    struct lifecycle *life;
    struct aggregate *aggregate;
    uint64_t records;
    struct touch touched;
};

/* ---- names and values ---- */

static void describe_record(struct stages *s, const struct raw_event *raw)
{
    struct value_sink sink = touch_sink(&s->touched);
    struct described d;
    enum err e;

    if (raw->early) {
        describe_learn(s->describe, raw);
        return;
    }
    describe_name(s->describe, raw, &d);
    touch_text(&s->touched, d.provider);
    touch_text(&s->touched, d.task);
    touch_text(&s->touched, d.name);
    e = describe_values(s->describe, raw, &sink, &d);
    touch_must(e == ERR_OK || e == ERR_NOTFOUND || e == ERR_CORRUPT);
    touch_balanced(&s->touched);
    touch_must(e == ERR_NOTFOUND || d.left <= raw->payload_n);
}

/* ---- the stages ---- */

static void on_raw(void *ctx, const struct raw_event *raw)
{
    struct stages *s = ctx;
    struct event ev;

    s->records += !raw->early;
    describe_record(s, raw);
    if (decode_event(s->decode, raw, &ev) == ERR_OK) {
        (void)aggregate_event(s->aggregate, &ev);
    }
}

static void on_fact(void *ctx, const struct event *ev)
{
    struct stages *s = ctx;

    (void)aggregate_event(s->aggregate, ev);
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct stages *s = ctx;

    lifecycle_advance(s->life, wall_ns, mono_ns);
    instances_expire(s->table, mono_ns);
}

static void on_life(void *ctx, const struct life_event *ev)
{
    struct stages *s = ctx;

    touch_text(&s->touched, ev->info.name);
    touch_text(&s->touched, ev->info.command_line);
}

static void open_stages(struct stages *s)
{
    struct instances_conf table = {
        .instances_max = 64, .threads_max = 256, .text_max = 4096, .grace_ns = 10 * CLK_S};
    struct lifecycle_conf life = {.told = on_life, .ctx = s};
    struct describe_conf describe = {.schema_max = 64u << 10};

    touch_must(decode_create(&s->decode) == ERR_OK);
    touch_must(describe_create(&s->describe, &describe, NULL) == ERR_OK);
    touch_must(instances_create(&s->table, &table) == ERR_OK);
    life.table = s->table;
    touch_must(lifecycle_create(&s->life, &life) == ERR_OK);
    touch_must(aggregate_create(&s->aggregate, s->table, s->life) == ERR_OK);
}

static void close_stages(struct stages *s)
{
    aggregate_destroy(s->aggregate);
    lifecycle_destroy(s->life);
    instances_destroy(s->table);
    describe_destroy(s->describe);
    decode_destroy(s->decode);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    const char *paths[2];
    size_t n_paths = etl_shape_files(paths, p, n);
    struct stages s = {0};
    struct etl_file_conf conf = {.paths = paths, .n_paths = n_paths, .schemas = true};
    struct source_sink sink = {.ctx = &s, .raw = on_raw, .fact = on_fact, .advance = on_advance};
    struct decode_counts counts;
    struct source *src;

    if (etl_file_open(&src, &conf, sink, NULL)) {
        return 0;
    }
    open_stages(&s);
    touch_must(src->ops->run(src) == ERR_END);
    src->ops->close(src);
    decode_stats(s.decode, &counts);
    touch_must(counts.in == s.records);
    touch_must(counts.in == counts.decoded + counts.ignored + counts.unknown + counts.corrupt);
    close_stages(&s);
    return 0;
}
