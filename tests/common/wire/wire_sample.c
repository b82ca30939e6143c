#include "tests/common/wire/wire_sample.h"

#include <stdlib.h>

#include <zstd.h>

#include "tests/support/t.h"

static const int64_t wall[] = {1700000000000000000, 1700000001000000123, 1700000002000000456};
static const int64_t mono[] = {5, 1000000005, 2000000005};
static const int64_t cpu[] = {100, 100, 250, 7, 8, 0, 0, INT64_MAX};
static const int64_t working_set[] = {4096, 8192, 4096, INT64_MIN, INT64_MAX};

static const struct batch_run runs[] = {
    {{4, 0}, 0, 3, false, WIRE_SAMPLE_BOTH},
    {{4, 10}, 0, 1, false, METRIC_BIT(M_CPU_TIME)},
    {{4, 10}, 2, 1, false, METRIC_BIT(M_CPU_TIME)},
    {{UINT32_MAX, UINT64_MAX}, 0, 1, true, METRIC_BIT(M_CPU_TIME)},
    {{UINT32_MAX, UINT64_MAX}, 1, 2, false, WIRE_SAMPLE_BOTH},
};

static const struct batch_column columns[] = {
    {M_CPU_TIME, 8, cpu},
    {M_WORKING_SET_SIZE, 5, working_set},
};

struct batch wire_sample(void)
{
    static struct proc_info infos[2];
    static struct life_event events[3];
    static struct ledger_row ledger[2];
    struct batch b = {.head = {.stream = 77, .seq = 3, .flags = BATCH_POLLED, .cpus = 4}};

    for (unsigned i = 0; i < 16; i++) {
        b.head.host.b[i] = (uint8_t)i;
        b.head.boot.b[i] = (uint8_t)(255 - i);
    }
    b.head.source = str_make("proc");
    infos[0] = (struct proc_info){.id = {4, 10},
                                  .have = INFO_PARENT | INFO_CREATE_TIME | INFO_EXITED |
                                          INFO_COMMAND_LINE_KNOWN,
                                  .origin = ORIGIN_START,
                                  .cpu_origin = CPU_ORIGIN_TIMES,
                                  .parent_start = 9,
                                  .create_ns = -5,
                                  .name = str_make("größe.exe"),
                                  .image = str_make("/usr/bin/größe.exe")};
    infos[1] = (struct proc_info){.id = {UINT32_MAX, UINT64_MAX},
                                  .have = INFO_SESSION | INFO_EXIT_TIME | INFO_EXIT_CODE |
                                          INFO_EXIT_INFERRED | INFO_FINAL_TOTALS |
                                          INFO_COMMAND_LINE_CUT | INFO_COMMAND_LINE_KNOWN,
                                  .exit_code = 0xC0000005,
                                  .exit_ns = INT64_MAX,
                                  .session_id = 2,
                                  .command_line = str_make("a b c"),
                                  .user = str_make("S-1-5-18")};
    events[0] = (struct life_event){.kind = LIFE_PROCESS_START, .wall_ns = 1, .info = infos[0]};
    events[1] = (struct life_event){.kind = LIFE_IMAGE_LOAD,
                                    .wall_ns = wall[1],
                                    .mono_ns = mono[1],
                                    .tid = 12,
                                    .info = {.id = {4, 10}, .name = str_make("x")},
                                    .text = str_make("/lib/y.so")};
    events[2] = (struct life_event){
        .kind = LIFE_LEVEL, .wall_ns = wall[1] + 1, .text = str_make("from L2 to L1: why")};
    ledger[0] = (struct ledger_row){str_make("source"), str_make("in"), UINT64_MAX};
    ledger[1] = (struct ledger_row){str_make("queue"), str_make("full"), 0};
    b.n_ticks = 3;
    b.wall_ns = wall;
    b.mono_ns = mono;
    b.n_runs = COUNT_OF(runs);
    b.runs = runs;
    b.n_columns = COUNT_OF(columns);
    b.columns = columns;
    b.n_infos = 2;
    b.infos = infos;
    b.n_events = 3;
    b.events = events;
    b.n_ledger = 2;
    b.ledger = ledger;
    return b;
}

void wire_sample_str(struct str a, struct str b)
{
    assert_int_equal(a.n, b.n);
    if (a.n) {
        assert_memory_equal(a.p, b.p, a.n);
    }
}

enum err wire_sample_encode(struct buf *out, const struct batch *b)
{
    struct wire_encoder *enc;
    enum err e;

    buf_init(out, WIRE_SAMPLE_ROOM);
    assert_ok(wire_batch_encoder_create(&enc));
    e = wire_batch_encode(enc, out, b);
    wire_batch_encoder_destroy(enc);
    return e;
}

uint8_t *wire_sample_unwrap(size_t *n, const struct buf *b)
{
    unsigned long long size = ZSTD_getFrameContentSize(b->p, b->n);
    uint8_t *raw = malloc((size_t)size);

    assert_non_null(raw);
    *n = ZSTD_decompress(raw, (size_t)size, b->p, b->n);
    assert_int_equal(*n, size);
    return raw;
}

enum err wire_sample_decode(const void *raw, size_t n)
{
    size_t room = ZSTD_compressBound(n);
    uint8_t *frame = malloc(room);
    struct batch *out = NULL;
    enum err e;

    assert_non_null(frame);
    e = wire_batch_decode(&out, frame, ZSTD_compress(frame, room, raw, n, 1));
    if (!e) {
        wire_batch_free(out);
    }
    free(frame);
    return e;
}
