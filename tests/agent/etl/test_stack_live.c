/* Ranges that are live, against bytes marked one by one. */
#include "agent/etl/stack/etl_stack_live.h"

#include "common/base/mem.h"
#include "tests/support/t.h"

#define BYTES  400
#define SPACES 3
#define OWNERS 4000

static struct etl_stack_tree tree;
static struct etl_stack_join *join;
static struct etl_stack_live *live;

static uint32_t frame_of(void *ctx, uint32_t pid, uint64_t address, int64_t wall_ns)
{
    (void)ctx;
    (void)pid;
    (void)address;
    (void)wall_ns;
    return 0;
}

static bool is_kernel(void *ctx, uint64_t address, uint8_t pointer_size)
{
    (void)ctx;
    (void)address;
    (void)pointer_size;
    return false;
}

static void begin(void)
{
    struct etl_stack_join_conf conf = {.tree = &tree, .frame = frame_of, .is_kernel = is_kernel};

    assert_int_equal(etl_stack_tree_init(&tree, 7), ERR_OK);
    conf.no_stack = etl_stack_tree_frame(&tree, ETL_STACK_TEXT, 0, 1);
    assert_int_equal(etl_stack_join_create(&join, &conf), ERR_OK);
    assert_int_equal(etl_stack_live_create(&live, join), ERR_OK);
}

/* The node an allocation of this number is counted under. */
static uint32_t node_of(uint32_t owner)
{
    return etl_stack_tree_child(&tree, 0,
                                etl_stack_tree_frame(&tree, ETL_STACK_TEXT, 0, 100 + owner));
}

static void allocate(uint32_t owner, uint64_t space, uint64_t base, uint64_t n)
{
    struct etl_stack_event ev = {.ticks = owner, .tid = 1, .base = node_of(owner)};

    ev.later = etl_stack_join_later(join);
    assert_true(ev.later != 0);
    etl_stack_join_event(join, &ev);
    etl_stack_live_put(live, space, base, n, ev.later);
}

/* What the tree has under each allocation in the end. */
static uint64_t weight_of(uint32_t owner)
{
    uint32_t node = node_of(owner), leaf = etl_stack_tree_child(&tree, node, 0);
    uint64_t *totals = etl_stack_tree_totals(&tree), w;

    (void)leaf;
    assert_non_null(totals);
    w = totals[node];
    mem_free(totals);
    return w;
}

static void end(void)
{
    etl_stack_live_destroy(live);
    etl_stack_join_destroy(join);
    etl_stack_tree_fini(&tree);
}

static void what_is_freed_in_part_stays_in_part(void **state)
{
    (void)state;
    begin();
    allocate(1, 5, 1000, 100);
    allocate(2, 6, 1000, 100);              /* another space */
    etl_stack_live_free(live, 5, 1020, 30); /* out of the middle */
    allocate(3, 5, 1090, 20);               /* over its end */
    allocate(4, 5, UINT64_MAX - 10, 100);   /* up to the end of all */
    allocate(5, 5, 77, 0);
    assert_int_equal(etl_stack_live_end(live), 20 + 40 + 100 + 20 + 10);
    etl_stack_join_end(join);
    assert_int_equal(weight_of(1), 60);
    assert_int_equal(weight_of(2), 100);
    assert_int_equal(weight_of(3), 20);
    assert_int_equal(weight_of(4), 10);
    assert_int_equal(weight_of(5), 0);
    end();
}

static uint32_t owners[SPACES][BYTES];
static uint64_t want[OWNERS + 1];

static void any_order_is_as_if_bytes_were_marked(void **state)
{
    uint64_t seed = 88172645463325252u, sum = 0;

    (void)state;
    begin();
    for (uint32_t i = 1; i <= OWNERS; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        size_t space = seed % SPACES, base = seed / 8 % BYTES, n = seed / 8192 % 9;
        bool frees = seed >> 40 & 1;

        if (frees) {
            etl_stack_live_free(live, space, base, n);
        } else {
            allocate(i, space, base, n);
        }
        for (size_t at = base; at < base + n && at < BYTES; at++) {
            owners[space][at] = frees ? 0 : i;
        }
        if (base + n > BYTES) { /* what is marked ends here */
            etl_stack_live_free(live, space, BYTES, 100);
        }
    }
    for (size_t space = 0; space < SPACES; space++) {
        for (size_t at = 0; at < BYTES; at++) {
            want[owners[space][at]]++;
        }
    }
    for (uint32_t i = 1; i <= OWNERS; i++) {
        sum += want[i];
    }
    assert_int_equal(etl_stack_live_end(live), sum);
    etl_stack_join_end(join);
    for (uint32_t i = 1; i <= OWNERS; i += 7) {
        assert_int_equal(weight_of(i), want[i]);
    }
    end();
}

static void without_room_it_is_counted(void **state)
{
    (void)state;
    begin();
    for (uint32_t i = 0; i < ETL_STACK_LIVE_MAX; i++) { /* in no order, none beside another */
        uint32_t later = etl_stack_join_later(join);

        etl_stack_live_put(live, 1, (uint64_t)(i * 2654435761u) * 16, 8, later);
    }
    assert_int_equal(etl_stack_live_no_room(live), 0);
    assert_int_equal(etl_stack_join_later(join), 0);
    etl_stack_live_free(live, 1, 0, UINT64_MAX);
    assert_true(etl_stack_join_later(join) != 0);
    assert_int_equal(etl_stack_live_end(live), 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_freed_in_part_stays_in_part),
        cmocka_unit_test(any_order_is_as_if_bytes_were_marked),
        cmocka_unit_test(without_room_it_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
