#include "tests/agent/decode/payload.h"

#include <math.h>
#include <stdio.h>

#define METHOD "MethodID ModuleID MethodStartAddress MethodSize MethodToken MethodFlags"
#define NAMES  " MethodNamespace MethodName MethodSignature"
#define HEAP                                                                                 \
    "GenerationSize0 TotalPromotedSize0 GenerationSize1 TotalPromotedSize1 GenerationSize2 " \
    "TotalPromotedSize2 GenerationSize3 TotalPromotedSize3 FinalizationPromotedSize "        \
    "FinalizationPromotedCount PinnedObjectCount SinkBlockCount GCHandleCount"
#define TICK \
    "AllocationAmount AllocationKind ClrInstanceID AllocationAmount64 TypeID TypeName HeapIndex"
#define SUSPEND "Reason Count ClrInstanceID"
#define THROWN \
    "ExceptionType ExceptionMessage ExceptionEIP ExceptionHRESULT ExceptionFlags ClrInstanceID"

static const struct payload_row rows[] = {
    {1, 0, "44", "Count Reason", "GCStart", EV_CLR},
    {1, 1, "44442", "Count Depth Reason Type ClrInstanceID", "GCStart", EV_CLR},
    {1, 2, "444428", "Count Depth Reason Type ClrInstanceID ClientSequenceNumber", "GCStart",
     EV_CLR},
    {2, 0, "42", "Count Depth", "GCEnd", EV_CLR},
    {2, 1, "442", "Count Depth ClrInstanceID", "GCEnd", EV_CLR},
    {3, 1, "2", "ClrInstanceID", "GCRestartEEEnd", EV_CLR},
    {4, 0, "8888888888444", HEAP, "GCHeapStats", EV_CLR},
    {4, 1, "88888888884442", HEAP " ClrInstanceID", "GCHeapStats", EV_CLR},
    {4, 2, "8888888888444288", HEAP " ClrInstanceID GenerationSize4 TotalPromotedSize4",
     "GCHeapStats", EV_CLR},
    {7, 1, "2", "ClrInstanceID", "GCRestartEEBegin", EV_KIND_COUNT},
    {8, 1, "2", "ClrInstanceID", "GCSuspendEEEnd", EV_KIND_COUNT},
    {9, 0, "2", "Reason", "GCSuspendEEBegin", EV_CLR},
    {9, 1, "442", SUSPEND, "GCSuspendEEBegin", EV_CLR},
    {10, 0, "44", "AllocationAmount AllocationKind", "GCAllocationTick", EV_CLR},
    {10, 1, "442", "AllocationAmount AllocationKind ClrInstanceID", "GCAllocationTick", EV_CLR},
    {10, 2, "4428Pw4", TICK, "GCAllocationTick", EV_CLR},
    {10, 3, "4428Pw4P", TICK " Address", "GCAllocationTick", EV_CLR},
    {10, 4, "4428Pw4P8", TICK " Address ObjectSize", "GCAllocationTick", EV_CLR},
    {13, 0, "4", "Count", "GCFinalizersEnd", EV_CLR},
    {13, 1, "42", "Count ClrInstanceID", "GCFinalizersEnd", EV_CLR},
    {35, 0, "42", "Reason ClrInstanceID", "GCTriggered", EV_CLR},
    {55, 0, "8442", "AverageThroughput NewWorkerThreadCount Reason ClrInstanceID",
     "ThreadPoolWorkerThreadAdjustmentAdjustment", EV_CLR},
    {80, 1, "wwP422", THROWN, "ExceptionThrown", EV_CLR},
    {81, 1, "12", "ContentionFlags ClrInstanceID", "ContentionStart", EV_CLR},
    {91, 0, "12", "ContentionFlags ClrInstanceID", "ContentionStop", EV_CLR},
    {91, 1, "128", "ContentionFlags ClrInstanceID DurationNs", "ContentionStop", EV_CLR},
    {141, 0, "888444", METHOD, "MethodLoad", EV_CLR},
    {141, 1, "8884442", METHOD " ClrInstanceID", "MethodLoad", EV_CLR},
    {141, 2, "88844428", METHOD " ClrInstanceID ReJITID", "MethodLoad", EV_CLR},
    {142, 1, "8884442", METHOD " ClrInstanceID", "MethodUnload", EV_CLR},
    {143, 0, "888444www", METHOD NAMES, "MethodLoadVerbose", EV_CLR},
    {143, 1, "888444www2", METHOD NAMES " ClrInstanceID", "MethodLoadVerbose", EV_CLR},
    {143, 2, "888444www28", METHOD NAMES " ClrInstanceID ReJITID", "MethodLoadVerbose", EV_CLR},
    {144, 1, "888444www2", METHOD NAMES " ClrInstanceID", "MethodUnloadVerbose", EV_CLR},
    {145, 0, "8844www", "MethodID ModuleID MethodToken MethodILSize" NAMES, "MethodJittingStarted",
     EV_CLR},
    {145, 1, "8844www2", "MethodID ModuleID MethodToken MethodILSize" NAMES " ClrInstanceID",
     "MethodJittingStarted", EV_CLR},
    {187, 0, "222222222241wGw",
     "ClrInstanceID Sku BclMajorVersion BclMinorVersion BclBuildNumber BclQfeNumber VMMajorVersion "
     "VMMinorVersion VMBuildNumber VMQfeNumber StartupFlags StartupMode CommandLine ComObjectGuid "
     "RuntimeDllPath",
     "RuntimeInformationStart", EV_CLR},
};

static uint64_t number_or(const struct payload *p, const char *name, uint64_t none)
{
    return payload_has(p, name) ? payload_number(p, name) : none;
}

static void text_is(const struct ev_clr_text *text, const struct payload *p, const char *name)
{
    const char *expected = payload_has(p, name) ? payload_text(p, name) : "";

    assert_int_equal(text->n, strlen(expected));
    for (size_t i = 0; i < text->n; i++) {
        assert_int_equal(text->units[2 * i] | text->units[2 * i + 1] << 8, expected[i]);
    }
}

static void heap_is(const struct ev_clr *ev, const struct payload *p)
{
    uint64_t sum = 0, promoted = 0;

    assert_int_equal(ev->n_sizes, payload_has(p, "GenerationSize4") ? 5 : 4);
    for (unsigned i = 0; i < ev->n_sizes; i++) {
        char size[32], up[32];

        (void)snprintf(size, sizeof size, "GenerationSize%u", i);
        (void)snprintf(up, sizeof up, "TotalPromotedSize%u", i);
        assert_true(ev->sizes[i] == payload_number(p, size));
        sum += payload_number(p, size);
        promoted += payload_number(p, up);
    }
    assert_true(ev->bytes == sum && ev->promoted == promoted);
}

static void numbers_are(const struct ev_clr *ev, const struct payload *p)
{
    static const char *const counts[CLR_OP_COUNT] = {
        [CLR_GC_START] = "Count",
        [CLR_GC_END] = "Count",
        [CLR_SUSPEND] = "Count",
        [CLR_FINALIZED] = "Count",
        [CLR_ADJUSTMENT] = "NewWorkerThreadCount",
        [CLR_METHOD_LOAD] = "MethodSize",
        [CLR_METHOD_UNLOAD] = "MethodSize",
        [CLR_JIT_START] = "MethodILSize",
    };
    const char *count = counts[ev->op];

    assert_int_equal(ev->count, count ? number_or(p, count, 0) : 0);
    assert_int_equal(ev->reason, number_or(p, "Reason", 0));
    assert_int_equal(ev->instance, number_or(p, "ClrInstanceID", 0));
    assert_true(ev->method == number_or(p, "MethodID", 0));
    if (ev->op == CLR_GC_START || ev->op == CLR_GC_END) {
        assert_int_equal(ev->generation, number_or(p, "Depth", CLR_NO_GENERATION));
        assert_int_equal(ev->type, number_or(p, "Type", 0));
    }
}

static void check(const struct event *ev, const struct payload *p)
{
    const struct ev_clr *clr = &ev->u.clr;

    numbers_are(clr, p);
    text_is(&clr->text[1], p,
            clr->op == CLR_EXCEPTION ? "ExceptionMessage"
            : clr->op == CLR_RUNTIME ? "RuntimeDllPath"
                                     : "MethodName");
    text_is(&clr->text[2], p, "MethodSignature");
    switch (clr->op) {
    case CLR_HEAP:
        heap_is(clr, p);
        break;
    case CLR_ALLOC:
        assert_true(clr->bytes ==
                    number_or(p, "AllocationAmount64", payload_number(p, "AllocationAmount")));
        assert_int_equal(clr->type, payload_number(p, "AllocationKind"));
        text_is(&clr->text[0], p, "TypeName");
        break;
    case CLR_EXCEPTION:
        text_is(&clr->text[0], p, "ExceptionType");
        assert_int_equal(clr->flags, payload_number(p, "ExceptionHRESULT"));
        break;
    case CLR_METHOD_LOAD:
    case CLR_METHOD_UNLOAD:
        assert_int_equal(clr->flags, payload_number(p, "MethodFlags"));
        text_is(&clr->text[0], p, "MethodNamespace");
        break;
    case CLR_RUNTIME:
        assert_int_equal(clr->versions[0], payload_number(p, "Sku"));
        assert_int_equal(clr->versions[1], payload_number(p, "BclMajorVersion"));
        assert_int_equal(clr->versions[8], payload_number(p, "VMQfeNumber"));
        assert_int_equal(clr->type, payload_number(p, "StartupMode"));
        text_is(&clr->text[0], p, "CommandLine");
        break;
    default:
        break;
    }
}

static void every_record_is_read_whole_or_refused(void **state)
{
    payload_check(&decode_clr_class, rows, COUNT_OF(rows), check);
}

static enum err decode_id(struct event *ev, uint16_t id, uint8_t version, const uint8_t *p,
                          size_t n)
{
    struct raw_event raw = {.form = RAW_MANIFEST,
                            .id = id,
                            .version = version,
                            .pointer_size = 8,
                            .payload = p,
                            .payload_n = n};
    struct decode *d;
    enum err e;

    memcpy(raw.guid, decode_clr_class.guid, sizeof raw.guid);
    assert_ok(decode_create(&d));
    e = decode_event(d, &raw, ev);
    decode_destroy(d);
    return e;
}

static void oldest_restarts_are_empty(void **state)
{
    static const uint8_t nothing[1];
    struct event ev;

    assert_ok(decode_id(&ev, 3, 0, nothing, 0));
    assert_int_equal(ev.u.clr.op, CLR_RESTART);
    assert_err(decode_id(&ev, 80, 0, nothing, 0), ERR_NOTFOUND);
    assert_err(decode_id(&ev, 81, 0, nothing, 0), ERR_NOTFOUND);
}

static int64_t contended(double ns)
{
    uint8_t payload[11] = {0};
    struct event ev;

    memcpy(payload + 3, &ns, sizeof ns); /* tests run on little-endian machines only */
    assert_ok(decode_id(&ev, 91, 1, payload, sizeof payload));
    return ev.u.clr.took_ns;
}

static void a_duration_that_is_none_is_not_measured(void **state)
{
    assert_int_equal(contended(1500.75), 1500);
    assert_int_equal(contended(0), 0);
    assert_int_equal(contended(-1.5), -1);
    assert_int_equal(contended(NAN), -1);
    assert_int_equal(contended(INFINITY), -1);
    assert_int_equal(contended(1e30), -1);
}

/* Texts of every length, so that the terminator stands at every place of the step that finds it. */
static void texts_of_every_length_end_at_their_terminator(void **state)
{
    for (size_t n = 0; n < 40; n++) {
        uint8_t payload[256] = {0};
        struct event ev;
        size_t at = 18; /* version 2: amount, kind, instance, amount */

        at += 8;
        for (size_t i = 0; i < n; i++) {
            payload[at++] = i % 3 ? 0 : 0x80; /* units with one byte 0, both ways, and U+8000 */
            payload[at++] = i % 3 ? 0x80 : (uint8_t)(i % 2);
        }
        at += 2;
        at += 4;
        assert_ok(decode_id(&ev, 10, 2, payload, at));
        assert_int_equal(ev.u.clr.text[0].n, n);
        assert_err(decode_id(&ev, 10, 2, payload, at - 5), ERR_CORRUPT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_read_whole_or_refused),
        cmocka_unit_test(oldest_restarts_are_empty),
        cmocka_unit_test(a_duration_that_is_none_is_not_measured),
        cmocka_unit_test(texts_of_every_length_end_at_their_terminator),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
