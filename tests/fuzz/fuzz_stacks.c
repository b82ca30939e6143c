/* Any bytes as events, allocations, stacks, keys and definitions, with few times, threads and
 * addresses so that they meet: whatever comes, the tree's weights are the events that went in, and
 * what is live. */
#include "agent/etl/stack/etl_stack_live.h"
#include "agent/etl/symbol/etl_methods.h"
#include "common/base/cur.h"
#include "tests/fuzz/touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static uint32_t frame(void *ctx, uint32_t pid, uint64_t address, int64_t wall_ns)
{
    (void)pid;
    (void)wall_ns;
    return etl_stack_tree_frame(ctx, ETL_STACK_ADDRESS, 0, address);
}

static bool is_kernel(void *ctx, uint64_t address, uint8_t pointer_size)
{
    (void)ctx;
    (void)pointer_size;
    return address & 0x80;
}

/* An event whose weight is what is left of a range. */
static void allocate(struct etl_stack_join *j, struct etl_stack_live *live, int64_t ticks,
                     uint32_t tid, uint64_t base, uint64_t n)
{
    struct etl_stack_event ev = {.ticks = ticks, .tid = tid, .later = etl_stack_join_later(j)};

    touch_must(ev.later != 0);
    etl_stack_join_event(j, &ev);
    etl_stack_live_put(live, tid, base, n, ev.later);
}

static void one_step(struct etl_stack_join *j, struct etl_stack_live *live, struct cur *c,
                     uint64_t *events)
{
    uint8_t op = cur_u8(c), where = cur_u8(c);
    int64_t ticks = where >> 4;
    uint32_t tid = where & 3, cpu = where >> 2 & 1;
    struct etl_stack_part part = {.pointer_size = op & 0x80 ? 4 : 8};

    part.n = cur_u8(c) % 8;
    part.p = cur_bytes(c, part.n * part.pointer_size);
    if (c->bad) {
        return;
    }
    switch (op % 8) {
    case 1:
        if (op & 0x10) {
            allocate(j, live, ticks, tid, where, part.n);
            break;
        }
        __attribute__((fallthrough));
    case 0:
        etl_stack_join_event(
            j, &(struct etl_stack_event){
                   .ticks = ticks, .tid = tid, .cpu = cpu, .ip = op >> 4, .weight = 1});
        ++*events;
        break;
    case 2:
        etl_stack_join_part(j, ticks, tid, cpu, &part);
        break;
    case 3:
    case 4:
        etl_stack_join_key(j, ticks, tid, cpu, op >> 4, op % 8 == 3);
        break;
    case 5:
    case 6:
        etl_stack_join_define(j, op >> 4, 0, &part);
        break;
    default:
        if (op & 0x10) {
            etl_stack_live_free(live, tid, where, part.n);
        } else {
            etl_stack_join_latest(j, tid, &part);
        }
        break;
    }
}

static void try_methods(const uint8_t *p, size_t n)
{
    static const uint8_t clr[16] = {0x23, 0x0d, 0x3c, 0xe1, 0xbc, 0xcc, 0x12, 0x4e,
                                    0x93, 0x1b, 0xd9, 0xcc, 0x2e, 0xee, 0x27, 0xe4};
    struct raw_event raw = {.form = RAW_MANIFEST, .id = 143, .payload = p, .payload_n = n};
    struct etl_methods *m;

    memcpy(raw.guid, clr, sizeof clr);
    if (etl_methods_create(&m)) {
        return;
    }
    (void)etl_methods_record(m, &raw);
    raw.id = 144;
    (void)etl_methods_record(m, &raw);
    etl_methods_done(m);
    (void)etl_methods_find(m, 0, n, 0);
    etl_methods_destroy(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct etl_stack_tree tree;
    struct etl_stack_join_conf conf = {
        .tree = &tree, .frame = frame, .is_kernel = is_kernel, .ctx = &tree};
    struct etl_stack_join *j = NULL;
    struct etl_stack_live *live = NULL;
    struct cur c = cur_make(p, n);
    uint64_t events = 0, *totals;
    uint32_t *names;

    touch_must(etl_stack_tree_init(&tree, 1) == ERR_OK);
    conf.no_stack = etl_stack_tree_frame(&tree, ETL_STACK_TEXT, 0, 1);
    conf.not_recorded = etl_stack_tree_frame(&tree, ETL_STACK_TEXT, 0, 2);
    touch_must(etl_stack_join_create(&j, &conf) == ERR_OK);
    touch_must(etl_stack_live_create(&live, j) == ERR_OK);
    while (!c.bad) {
        one_step(j, live, &c, &events);
    }
    events += etl_stack_live_end(live);
    etl_stack_live_destroy(live);
    etl_stack_join_end(j);
    names = calloc(tree.n_frames, sizeof *names);
    for (size_t i = 0; i < tree.n_frames; i++) {
        names[i] = (uint32_t)i % 5;
    }
    for (unsigned pass = 0; pass < 2; pass++) {
        totals = etl_stack_tree_totals(&tree);
        touch_must(totals && totals[0] == events);
        free(totals);
        touch_must(pass || etl_stack_tree_rename(&tree, names) == ERR_OK);
    }
    free(names);
    etl_stack_join_destroy(j);
    etl_stack_tree_fini(&tree);
    try_methods(p, n);
    return 0;
}
