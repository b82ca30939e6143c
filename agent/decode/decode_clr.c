/* Provider Microsoft-Windows-DotNETRuntime: what the runtime of .NET says about itself, in .NET
 * Framework, .NET and programs compiled ahead of time. Written by the process itself, so the owner
 * is the header's. C stands for u16, the number of the runtime within its process; version 0, which
 * .NET Framework 4.0 and older write, has none. w is UTF-16 with a terminator.
 *
 *     1       GCStart: u32 number; from version 1 u32 generation; u32 reason; from version 1 u32
 *             type, C; version 2: u64 sequence of who asked
 *     2       GCEnd: u32 number, u32 generation, C; version 0: u32, u16
 *     3       RestartEEEnd, 7 RestartEEBegin, 8 SuspendEEEnd: C; version 0: nothing
 *     4       GCHeapStats: 4 × (u64 size, u64 promoted) by generation, the large objects last;
 *             u64 finalization bytes, u64 and count, u32 pinned, u32 sync blocks, u32 handles, C;
 *             version 2: u64, u64 of the pinned objects' heap
 *     9       SuspendEEBegin: u32 reason, u32 number of the collection, C; version 0: u16 reason
 *     10      AllocationTick: u32 bytes, u32 kind; version 1: C; version 2: u64 bytes, P type,
 *             w type's name, u32 heap; version 3: P address; version 4: u64 size of the object
 *     13      FinalizersEnd: u32 objects, C
 *     35      GCTriggered: u32 reason, C
 *     55      ThreadPoolWorkerThreadAdjustment: f64 throughput, u32 threads, u32 reason, C
 *     80      ExceptionThrown, version 1: w type, w message, P ip, u32 HRESULT, u16 flags, C
 *     81      ContentionStart, version 1: u8 flags, C; newer ones append
 *     91      ContentionStop: u8 flags, C; version 1: f64 ns
 *     82      StackWalk: C, u8, u8, u32 n, n × P
 *     141     MethodLoad, 142 MethodUnload: u64 method, u64 module, u64 address, u32 bytes,
 *             u32 token, u32 flags; version 1: C; version 2: u64 of a method compiled again
 *     143     MethodLoadVerbose, 144 MethodUnloadVerbose: the same, and in front of C: w namespace,
 *             w name, w signature
 *     145     MethodJittingStarted: u64 method, u64 module, u32 token, u32 bytes of IL, 3 × w, C
 *     187     RuntimeStart: C, u16 kind, 4 × u16 version of the library, 4 × u16 of the runtime,
 *             u32 flags, u8 mode, w command line, GUID, w path
 *
 * 80 and 81 in version 0 have another payload, or none, and no keyword that anybody enables. */
#include <string.h>

#include "agent/decode/decode_class.h"
#include "agent/source/etw_guid.h"
#include "common/base/cur.h"

#define CONTENDED_NS_MAX 9.2e18 /* fits into int64_t */

static void clr_text(struct cur *c, struct ev_clr_text *out)
{
    size_t n;
    const uint8_t *units = cur_wstr(c, &n);

    if (units) {
        *out = (struct ev_clr_text){units, (uint32_t)n};
    }
}

static void clr_instance(struct ev_clr *ev, struct cur *c, const struct raw_event *raw)
{
    ev->instance = raw->version >= 1 ? cur_u16le(c) : 0;
}

static double clr_f64(struct cur *c)
{
    uint64_t bits = cur_u64le(c);
    double v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

static void clr_gc_start(struct ev_clr *ev, struct cur *c, const struct raw_event *raw)
{
    ev->count = cur_u32le(c);
    ev->generation = raw->version >= 1 ? cur_u32le(c) : CLR_NO_GENERATION;
    ev->reason = cur_u32le(c);
    ev->type = raw->version >= 1 ? cur_u32le(c) : 0;
    clr_instance(ev, c, raw);
    cur_skip(c, raw->version >= 2 ? 8 : 0);
}

static void clr_gc_end(struct ev_clr *ev, struct cur *c, const struct raw_event *raw)
{
    ev->count = cur_u32le(c);
    ev->generation = raw->version >= 1 ? cur_u32le(c) : cur_u16le(c);
    clr_instance(ev, c, raw);
}

static void clr_suspend(struct ev_clr *ev, struct cur *c, const struct raw_event *raw)
{
    if (raw->version == 0) {
        ev->reason = cur_u16le(c);
        return;
    }
    ev->reason = cur_u32le(c);
    ev->count = cur_u32le(c);
    clr_instance(ev, c, raw);
}

static void clr_heap_pair(struct ev_clr *ev, struct cur *c, unsigned generation)
{
    ev->sizes[generation] = cur_u64le(c);
    ev->promoted += cur_u64le(c);
    ev->bytes += ev->sizes[generation];
}

static void clr_heap(struct ev_clr *ev, struct cur *c, const struct raw_event *raw)
{
    for (unsigned i = 0; i < 4; i++) {
        clr_heap_pair(ev, c, i);
    }
    cur_skip(c, 2 * 8 + 3 * 4);
    clr_instance(ev, c, raw);
    ev->n_sizes = 4;
    if (raw->version >= 2) {
        clr_heap_pair(ev, c, 4);
        ev->n_sizes = 5;
    }
}

/* What most events of a program are: what stands before the text is checked once. */
static void clr_alloc(struct ev_clr *ev, struct cur *c, const struct raw_event *raw)
{
    size_t head = raw->version >= 2 ? 18u + raw->pointer_size : raw->version == 1 ? 10 : 8;
    const uint8_t *p = cur_bytes(c, head);

    if (!p) {
        return;
    }
    ev->bytes = cur_at32le(p);
    ev->type = cur_at32le(p + 4);
    ev->instance = raw->version >= 1 ? cur_at16le(p + 8) : 0;
    if (raw->version >= 2) {
        ev->bytes = cur_at64le(p + 10);
        clr_text(c, &ev->text[0]);
        cur_skip(c, 4u + (raw->version >= 3 ? raw->pointer_size : 0) + (raw->version >= 4 ? 8 : 0));
    }
}

static void clr_number(struct ev_clr *ev, struct cur *c, const struct raw_event *raw)
{
    ev->count = cur_u32le(c);
    clr_instance(ev, c, raw);
}

static void clr_triggered(struct ev_clr *ev, struct cur *c, const struct raw_event *raw)
{
    (void)raw;
    ev->reason = cur_u32le(c);
    ev->instance = cur_u16le(c);
}

static void clr_adjustment(struct ev_clr *ev, struct cur *c, const struct raw_event *raw)
{
    (void)raw;
    ev->throughput = clr_f64(c);
    ev->count = cur_u32le(c);
    ev->reason = cur_u32le(c);
    ev->instance = cur_u16le(c);
}

static void clr_exception(struct ev_clr *ev, struct cur *c, const struct raw_event *raw)
{
    clr_text(c, &ev->text[0]);
    clr_text(c, &ev->text[1]);
    cur_skip(c, raw->pointer_size);
    ev->flags = cur_u32le(c); /* HRESULT */
    cur_skip(c, 2);
    ev->instance = cur_u16le(c);
}

/* took_ns is -1 where the runtime did not measure. */
static void clr_contention(struct ev_clr *ev, struct cur *c, const struct raw_event *raw)
{
    double ns;

    ev->flags = cur_u8(c);
    ev->instance = cur_u16le(c);
    ev->took_ns = -1;
    if (ev->op == CLR_CONTENTION_STOP && raw->version >= 1) {
        ns = clr_f64(c);
        ev->took_ns = ns >= 0 && ns < CONTENDED_NS_MAX ? (int64_t)ns : -1; /* no number neither */
    }
}

static void clr_names(struct ev_clr *ev, struct cur *c)
{
    for (size_t i = 0; i < 3; i++) {
        clr_text(c, &ev->text[i]);
    }
}

static void clr_method(struct ev_clr *ev, struct cur *c, const struct raw_event *raw)
{
    ev->method = cur_u64le(c);
    cur_skip(c, 2 * 8);
    ev->count = cur_u32le(c); /* bytes of code */
    cur_skip(c, 4);
    ev->flags = cur_u32le(c);
    if (raw->id >= 143) {
        clr_names(ev, c);
    }
    clr_instance(ev, c, raw);
    cur_skip(c, raw->version >= 2 ? 8 : 0);
}

static void clr_jit_start(struct ev_clr *ev, struct cur *c, const struct raw_event *raw)
{
    ev->method = cur_u64le(c);
    cur_skip(c, 8 + 4);
    ev->count = cur_u32le(c); /* bytes of IL */
    clr_names(ev, c);
    clr_instance(ev, c, raw);
}

static void clr_runtime(struct ev_clr *ev, struct cur *c, const struct raw_event *raw)
{
    (void)raw;
    ev->instance = cur_u16le(c);
    for (size_t i = 0; i < CLR_VERSIONS; i++) {
        ev->versions[i] = cur_u16le(c);
    }
    ev->flags = cur_u32le(c);
    ev->type = cur_u8(c); /* mode of startup */
    clr_text(c, &ev->text[0]);
    cur_skip(c, 16);
    clr_text(c, &ev->text[1]);
}

/* By id: op, reader. */
#define CLR_EVENTS(X)                           \
    X(1, CLR_GC_START, clr_gc_start)            \
    X(2, CLR_GC_END, clr_gc_end)                \
    X(3, CLR_RESTART, clr_instance)             \
    X(4, CLR_HEAP, clr_heap)                    \
    X(9, CLR_SUSPEND, clr_suspend)              \
    X(10, CLR_ALLOC, clr_alloc)                 \
    X(13, CLR_FINALIZED, clr_number)            \
    X(35, CLR_TRIGGERED, clr_triggered)         \
    X(55, CLR_ADJUSTMENT, clr_adjustment)       \
    X(80, CLR_EXCEPTION, clr_exception)         \
    X(81, CLR_CONTENTION_START, clr_contention) \
    X(91, CLR_CONTENTION_STOP, clr_contention)  \
    X(141, CLR_METHOD_LOAD, clr_method)         \
    X(142, CLR_METHOD_UNLOAD, clr_method)       \
    X(143, CLR_METHOD_LOAD, clr_method)         \
    X(144, CLR_METHOD_UNLOAD, clr_method)       \
    X(145, CLR_JIT_START, clr_jit_start)        \
    X(187, CLR_RUNTIME, clr_runtime)

static enum err decode_clr(struct event *out, enum event_kind kind, const struct raw_event *raw,
                           struct decode_text *text)
{
    struct cur c = cur_make(raw->payload, raw->payload_n);
    struct ev_clr *ev = &out->u.clr; /* of use on ERR_OK only */

    (void)kind;
    (void)text;
    memset(ev, 0, offsetof(struct ev_clr, sizes)); /* what is behind is written by its events */
    memset(ev->text, 0, sizeof ev->text);
    ev->id = raw->id;
    switch (raw->id) {
#define CLR_CASE(number, what, read) \
    case number:                     \
        ev->op = what;               \
        read(ev, &c, raw);           \
        break;
        CLR_EVENTS(CLR_CASE)
#undef CLR_CASE
    default:
        return ERR_NOTFOUND;
    }
    return c.bad ? ERR_CORRUPT : ERR_OK;
}

/* The most frequent first. */
static const struct decode_op ops[] = {
    {10, 0, EV_CLR, decode_clr},  {145, 0, EV_CLR, decode_clr}, {143, 0, EV_CLR, decode_clr},
    {141, 0, EV_CLR, decode_clr}, {81, 1, EV_CLR, decode_clr},  {91, 0, EV_CLR, decode_clr},
    {80, 1, EV_CLR, decode_clr},  {9, 0, EV_CLR, decode_clr},   {3, 0, EV_CLR, decode_clr},
    {1, 0, EV_CLR, decode_clr},   {2, 0, EV_CLR, decode_clr},   {4, 0, EV_CLR, decode_clr},
    {55, 0, EV_CLR, decode_clr},  {13, 0, EV_CLR, decode_clr},  {35, 0, EV_CLR, decode_clr},
    {142, 0, EV_CLR, decode_clr}, {144, 0, EV_CLR, decode_clr}, {187, 0, EV_CLR, decode_clr},
};

static const struct layout_field gc_start[] = {
    {"Count", LAYOUT_U32, 0, 0, 0},
    {"Depth", LAYOUT_U32, 1, 0, 0},
    {"Reason", LAYOUT_U32, 0, 0, 0},
    {"Type", LAYOUT_U32, 1, 0, 0},
    {"ClrInstanceID", LAYOUT_U16, 1, 0, 0},
    {"ClientSequenceNumber", LAYOUT_U64, 2, 0, 0},
    {0},
};

static const struct layout_field gc_end_v0[] = {
    {"Count", LAYOUT_U32, 0, 0, 0},
    {"Depth", LAYOUT_U16, 0, 0, 0},
    {0},
};

static const struct layout_field gc_end[] = {
    {"Count", LAYOUT_U32, 0, 0, 0},
    {"Depth", LAYOUT_U32, 0, 0, 0},
    {"ClrInstanceID", LAYOUT_U16, 0, 0, 0},
    {0},
};

static const struct layout_field instance[] = {
    {"ClrInstanceID", LAYOUT_U16, 1, 0, 0},
    {0},
};

static const struct layout_field heap_stats[] = {
    {"GenerationSize0", LAYOUT_U64, 0, 0, 0},
    {"TotalPromotedSize0", LAYOUT_U64, 0, 0, 0},
    {"GenerationSize1", LAYOUT_U64, 0, 0, 0},
    {"TotalPromotedSize1", LAYOUT_U64, 0, 0, 0},
    {"GenerationSize2", LAYOUT_U64, 0, 0, 0},
    {"TotalPromotedSize2", LAYOUT_U64, 0, 0, 0},
    {"GenerationSize3", LAYOUT_U64, 0, 0, 0},
    {"TotalPromotedSize3", LAYOUT_U64, 0, 0, 0},
    {"FinalizationPromotedSize", LAYOUT_U64, 0, 0, 0},
    {"FinalizationPromotedCount", LAYOUT_U64, 0, 0, 0},
    {"PinnedObjectCount", LAYOUT_U32, 0, 0, 0},
    {"SinkBlockCount", LAYOUT_U32, 0, 0, 0},
    {"GCHandleCount", LAYOUT_U32, 0, 0, 0},
    {"ClrInstanceID", LAYOUT_U16, 1, 0, 0},
    {"GenerationSize4", LAYOUT_U64, 2, 0, 0},
    {"TotalPromotedSize4", LAYOUT_U64, 2, 0, 0},
    {0},
};

static const struct layout_field suspend_v0[] = {
    {"Reason", LAYOUT_U16, 0, 0, 0},
    {0},
};

static const struct layout_field suspend[] = {
    {"Reason", LAYOUT_U32, 0, 0, 0},
    {"Count", LAYOUT_U32, 0, 0, 0},
    {"ClrInstanceID", LAYOUT_U16, 0, 0, 0},
    {0},
};

static const struct layout_field allocation[] = {
    {"AllocationAmount", LAYOUT_U32, 0, 0, 0}, {"AllocationKind", LAYOUT_U32, 0, 0, 0},
    {"ClrInstanceID", LAYOUT_U16, 1, 0, 0},    {"AllocationAmount64", LAYOUT_U64, 2, 0, 0},
    {"TypeID", LAYOUT_PTR, 2, 0, 0},           {"TypeName", LAYOUT_W, 2, 0, 0},
    {"HeapIndex", LAYOUT_U32, 2, 0, 0},        {"Address", LAYOUT_PTR, 3, 0, 0},
    {"ObjectSize", LAYOUT_U64, 4, 0, 0},       {0},
};

static const struct layout_field finalizers[] = {
    {"Count", LAYOUT_U32, 0, 0, 0},
    {"ClrInstanceID", LAYOUT_U16, 1, 0, 0},
    {0},
};

static const struct layout_field triggered[] = {
    {"Reason", LAYOUT_U32, 0, 0, 0},
    {"ClrInstanceID", LAYOUT_U16, 0, 0, 0},
    {0},
};

static const struct layout_field adjustment[] = {
    {"AverageThroughput", LAYOUT_F64, 0, 0, 0},
    {"NewWorkerThreadCount", LAYOUT_U32, 0, 0, 0},
    {"Reason", LAYOUT_U32, 0, 0, 0},
    {"ClrInstanceID", LAYOUT_U16, 0, 0, 0},
    {0},
};

static const struct layout_field exception[] = {
    {"ExceptionType", LAYOUT_W, 0, 0, 0},
    {"ExceptionMessage", LAYOUT_W, 0, 0, 0},
    {"ExceptionEIP", LAYOUT_PTR, 0, 0, 0},
    {"ExceptionHRESULT", LAYOUT_HEX32, 0, 0, 0},
    {"ExceptionFlags", LAYOUT_U16, 0, 0, 0},
    {"ClrInstanceID", LAYOUT_U16, 0, 0, 0},
    {0},
};

static const struct layout_field contention_start[] = {
    {"ContentionFlags", LAYOUT_U8, 0, 0, 0},
    {"ClrInstanceID", LAYOUT_U16, 0, 0, 0},
    {0},
};

static const struct layout_field contention_stop[] = {
    {"ContentionFlags", LAYOUT_U8, 0, 0, 0},
    {"ClrInstanceID", LAYOUT_U16, 0, 0, 0},
    {"DurationNs", LAYOUT_F64, 1, 0, 0},
    {0},
};

static const struct layout_field stack[] = {
    {"ClrInstanceID", LAYOUT_U16, 0, 0, 0}, {"Reserved1", LAYOUT_U8, 0, 0, 0},
    {"Reserved2", LAYOUT_U8, 0, 0, 0},      {"FrameCount", LAYOUT_U32, 0, 0, 0},
    {"Stack", LAYOUT_PTR_REST, 0, 0, 0},    {0},
};

#define METHOD                                                                              \
    {"MethodID", LAYOUT_HEX64, 0, 0, 0}, {"ModuleID", LAYOUT_HEX64, 0, 0, 0},               \
        {"MethodStartAddress", LAYOUT_HEX64, 0, 0, 0}, {"MethodSize", LAYOUT_U32, 0, 0, 0}, \
        {"MethodToken", LAYOUT_HEX32, 0, 0, 0},                                             \
    {                                                                                       \
        "MethodFlags", LAYOUT_HEX32, 0, 0, 0                                                \
    }

#define NAMES                                                                  \
    {"MethodNamespace", LAYOUT_W, 0, 0, 0}, {"MethodName", LAYOUT_W, 0, 0, 0}, \
    {                                                                          \
        "MethodSignature", LAYOUT_W, 0, 0, 0                                   \
    }

#define COMPILED_AGAIN                                                        \
    {"ClrInstanceID", LAYOUT_U16, 1, 0, 0}, {"ReJITID", LAYOUT_U64, 2, 0, 0}, \
    {                                                                         \
        0                                                                     \
    }

static const struct layout_field method[] = {METHOD, COMPILED_AGAIN};
static const struct layout_field method_verbose[] = {METHOD, NAMES, COMPILED_AGAIN};

static const struct layout_field jitting[] = {
    {"MethodID", LAYOUT_HEX64, 0, 0, 0},
    {"ModuleID", LAYOUT_HEX64, 0, 0, 0},
    {"MethodToken", LAYOUT_HEX32, 0, 0, 0},
    {"MethodILSize", LAYOUT_U32, 0, 0, 0},
    NAMES,
    {"ClrInstanceID", LAYOUT_U16, 1, 0, 0},
    {0},
};

static const struct layout_field runtime[] = {
    {"ClrInstanceID", LAYOUT_U16, 0, 0, 0},   {"Sku", LAYOUT_U16, 0, 0, 0},
    {"BclMajorVersion", LAYOUT_U16, 0, 0, 0}, {"BclMinorVersion", LAYOUT_U16, 0, 0, 0},
    {"BclBuildNumber", LAYOUT_U16, 0, 0, 0},  {"BclQfeNumber", LAYOUT_U16, 0, 0, 0},
    {"VMMajorVersion", LAYOUT_U16, 0, 0, 0},  {"VMMinorVersion", LAYOUT_U16, 0, 0, 0},
    {"VMBuildNumber", LAYOUT_U16, 0, 0, 0},   {"VMQfeNumber", LAYOUT_U16, 0, 0, 0},
    {"StartupFlags", LAYOUT_HEX32, 0, 0, 0},  {"StartupMode", LAYOUT_U8, 0, 0, 0},
    {"CommandLine", LAYOUT_W, 0, 0, 0},       {"ComObjectGuid", LAYOUT_GUID, 0, 0, 0},
    {"RuntimeDllPath", LAYOUT_W, 0, 0, 0},    {0},
};

static const struct layout layouts[] = {
    {1, 0, 0, "GCStart", gc_start},
    {2, 1, 0, "GCEnd", gc_end},
    {2, 0, 0, "GCEnd", gc_end_v0},
    {3, 0, 0, "GCRestartEEEnd", instance},
    {4, 0, 0, "GCHeapStats", heap_stats},
    {7, 0, 0, "GCRestartEEBegin", instance},
    {8, 0, 0, "GCSuspendEEEnd", instance},
    {9, 1, 0, "GCSuspendEEBegin", suspend},
    {9, 0, 0, "GCSuspendEEBegin", suspend_v0},
    {10, 0, 0, "GCAllocationTick", allocation},
    {13, 0, 0, "GCFinalizersEnd", finalizers},
    {35, 0, 0, "GCTriggered", triggered},
    {55, 0, 0, "ThreadPoolWorkerThreadAdjustmentAdjustment", adjustment},
    {80, 1, 0, "ExceptionThrown", exception},
    {81, 1, 0, "ContentionStart", contention_start},
    {82, 0, 0, "CLRStackWalk", stack},
    {91, 0, 0, "ContentionStop", contention_stop},
    {141, 0, 0, "MethodLoad", method},
    {142, 0, 0, "MethodUnload", method},
    {143, 0, 0, "MethodLoadVerbose", method_verbose},
    {144, 0, 0, "MethodUnloadVerbose", method_verbose},
    {145, 0, 0, "MethodJittingStarted", jitting},
    {187, 0, 0, "RuntimeInformationStart", runtime},
};

const struct decode_class decode_clr_class = {
    .guid = ETW_PROVIDER_CLR,
    .form = RAW_MANIFEST,
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .name = "Microsoft-Windows-DotNETRuntime",
    .layouts = layouts,
    .n_layouts = sizeof layouts / sizeof layouts[0],
};
