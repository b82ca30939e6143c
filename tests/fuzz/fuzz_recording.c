/* Any bytes as a trace file (etl_shape.h), all the way: reader, schemas, names and values of every
 * record, facts, lives, totals. What each stage says of itself must add up. */
#include <stdlib.h>
#include <string.h>

#include "agent/aggregate.h"
#include "agent/decode/decode.h"
#include "agent/decode/describe.h"
#include "agent/source/etl_file.h"
#include "common/clk.h"
#include "tests/fuzz/etl_shape.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

struct stages {
    struct decode *decode;
    struct describe *describe;
    struct ptable *table;
    struct lifecycle *life;
    struct aggregate *aggregate;
    uint64_t records;
    size_t depth; /* of the values' groups */
};

static volatile uint8_t hole;

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void touch(const void *p, size_t n)
{
    const uint8_t *bytes = p;

    for (size_t i = 0; i < n; i++) {
        hole = bytes[i];
    }
}

static void touch_text(struct str s)
{
    touch(s.p, s.n);
}

/* ---- names and values ---- */

static void on_value(void *ctx, const struct value *v)
{
    (void)ctx;
    touch_text(v->name);
    switch (v->kind) {
    case VALUE_TEXT:
    case VALUE_SID:
        touch_text(v->v.text);
        break;
    case VALUE_GUID:
    case VALUE_ADDRESS:
    case VALUE_BYTES:
        touch(v->v.bytes.p, v->v.bytes.n);
        break;
    default:
        must(v->kind <= VALUE_BYTES);
        break;
    }
}

static void on_begin(void *ctx, struct str name, enum value_group group)
{
    struct stages *s = ctx;

    (void)group;
    touch_text(name);
    s->depth++;
}

static void on_end(void *ctx)
{
    struct stages *s = ctx;

    must(s->depth > 0);
    s->depth--;
}

static void describe_record(struct stages *s, const struct raw_event *raw)
{
    struct value_sink sink = {s, on_value, on_begin, on_end};
    struct described d;
    enum err e;

    if (raw->early) {
        describe_learn(s->describe, raw);
        return;
    }
    describe_name(s->describe, raw, &d);
    touch_text(d.provider);
    touch_text(d.task);
    touch_text(d.name);
    e = describe_values(s->describe, raw, &sink, &d);
    must(e == ERR_OK || e == ERR_NOTFOUND || e == ERR_CORRUPT);
    must(s->depth == 0);
    must(e == ERR_NOTFOUND || d.left <= raw->payload_n);
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
    ptable_expire(s->table, mono_ns);
}

static void on_life(void *ctx, const struct life_event *ev)
{
    (void)ctx;
    touch_text(ev->info.name);
    touch_text(ev->info.command_line);
}

static void open_stages(struct stages *s)
{
    struct ptable_conf table = {
        .instances_max = 64, .threads_max = 256, .text_max = 4096, .grace_ns = 10 * CLK_S};
    struct lifecycle_conf life = {.told = on_life, .ctx = s};
    struct describe_conf describe = {.schema_max = 64u << 10};

    must(decode_create(&s->decode) == ERR_OK);
    must(describe_create(&s->describe, &describe, NULL) == ERR_OK);
    must(ptable_create(&s->table, &table) == ERR_OK);
    life.table = s->table;
    must(lifecycle_create(&s->life, &life) == ERR_OK);
    must(aggregate_create(&s->aggregate, s->table, s->life) == ERR_OK);
}

static void close_stages(struct stages *s)
{
    aggregate_destroy(s->aggregate);
    lifecycle_destroy(s->life);
    ptable_destroy(s->table);
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
    must(src->ops->run(src) == ERR_END);
    src->ops->close(src);
    decode_stats(s.decode, &counts);
    must(counts.in == s.records);
    must(counts.in == counts.decoded + counts.ignored + counts.unknown + counts.corrupt);
    close_stages(&s);
    return 0;
}
