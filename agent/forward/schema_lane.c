#include "agent/forward/schema_lane.h"

#include <assert.h>
#include <stdatomic.h>

#include "common/base/mem.h"
#include "common/os/os.h"

#define ANSWER_BYTES ((size_t)2 << 20) /* a manifest's events, all of them */

struct slot {
    struct raw_event about;
    struct schema *answer;
};

/* Slots taken <= answered <= asked, modulo their number: the owner writes those from `asked` on and
 * reads those before `answered`, the lane's thread has those between. */
struct schema_lane {
    schema_lane_find find;
    void *ctx;
    struct slot slots[SCHEMA_LANE_ASKS];
    uint64_t taken; /* the owner's */
    atomic_uint_fast64_t answered;
    struct os_mutex *lock; /* guards asked and ends; held across nothing */
    struct os_cond *news;
    uint64_t asked;
    bool ends;
    struct os_thread *thread;
};

/* False: it ends. */
static bool lane_wait(struct schema_lane *lane, uint64_t next)
{
    bool ends;

    os_mutex_lock(lane->lock);
    while (lane->asked == next && !lane->ends) {
        os_cond_wait(lane->news);
    }
    ends = lane->ends;
    os_mutex_unlock(lane->lock);
    return !ends;
}

static void lane_run(void *arg)
{
    struct schema_lane *lane = arg;

    err_ignore(os_thread_background()); /* nobody waits for it but events that it is about */
    for (uint64_t next = 0; lane_wait(lane, next); next++) {
        struct slot *slot = &lane->slots[next % SCHEMA_LANE_ASKS];

        slot->answer = NULL;
        if (schema_create(&slot->answer, ANSWER_BYTES) == ERR_OK) {
            lane->find(lane->ctx, slot->answer, &slot->about);
        }
        atomic_store_explicit(&lane->answered, next + 1, memory_order_release);
    }
}

enum err schema_lane_open(struct schema_lane **out, schema_lane_find find, void *ctx)
{
    struct schema_lane *lane = mem_zalloc(sizeof *lane);
    enum err e = lane ? os_mutex_create(&lane->lock) : ERR_NOMEM;

    if (!e) {
        lane->find = find;
        lane->ctx = ctx;
        atomic_init(&lane->answered, 0);
        e = os_cond_create(&lane->news, lane->lock);
    }
    if (!e) {
        e = os_thread_start(&lane->thread, "schemas", lane_run, lane);
    }
    if (e) {
        schema_lane_close(lane);
        return e;
    }
    *out = lane;
    return ERR_OK;
}

void schema_lane_close(struct schema_lane *lane)
{
    struct raw_event about;
    struct schema *answer;

    if (!lane) {
        return;
    }
    if (lane->thread) {
        os_mutex_lock(lane->lock);
        lane->ends = true;
        os_cond_wake_all(lane->news);
        os_mutex_unlock(lane->lock);
        os_thread_join(lane->thread);
    }
    while (schema_lane_take(lane, &answer, &about)) {
        schema_destroy(answer);
    }
    os_cond_destroy(lane->news);
    os_mutex_destroy(lane->lock);
    mem_free(lane);
}

bool schema_lane_ask(struct schema_lane *lane, const struct raw_event *about)
{
    struct raw_event *head;

    assert(lane->taken <= lane->asked); /* asked is written here only */
    if (lane->asked - lane->taken == SCHEMA_LANE_ASKS) {
        return false;
    }
    head = &lane->slots[lane->asked % SCHEMA_LANE_ASKS].about;
    *head = *about;
    head->payload = head->ext = NULL;
    head->payload_n = head->ext_n = 0;
    os_mutex_lock(lane->lock);
    lane->asked++;
    os_cond_wake(lane->news);
    os_mutex_unlock(lane->lock);
    return true;
}

bool schema_lane_answered(const struct schema_lane *lane)
{
    return atomic_load_explicit(&lane->answered, memory_order_acquire) != lane->taken;
}

bool schema_lane_take(struct schema_lane *lane, struct schema **out, struct raw_event *about)
{
    struct slot *slot = &lane->slots[lane->taken % SCHEMA_LANE_ASKS];

    if (!schema_lane_answered(lane)) {
        return false;
    }
    *out = slot->answer;
    *about = slot->about;
    lane->taken++;
    return true;
}
