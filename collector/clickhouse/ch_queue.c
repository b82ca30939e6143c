#include "collector/clickhouse/ch_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/mem.h"

void ch_queue_init(struct ch_queue *q, size_t bytes_max)
{
    *q = (struct ch_queue){.last = &q->first, .bytes_max = bytes_max};
}

void ch_queue_fini(struct ch_queue *q)
{
    ch_queue_free(q->first);
    ch_queue_free(q->sending);
    map_fini(&q->index);
}

struct ch_queue_item *ch_queue_item(const struct store_stored *stored, int64_t made_ns)
{
    struct ch_queue_item *i = mem_zalloc(sizeof *i);

    if (i) {
        i->batch = wire_batch_hold(stored->batch);
        (void)snprintf(i->name, sizeof i->name, "%s", stored->host_name);
        i->clock = *stored->clock;
        i->received_ns = stored->received_ns;
        i->made_ns = made_ns;
        i->bytes = sizeof *i + wire_batch_room(stored->batch);
    }
    return i;
}

void ch_queue_free(struct ch_queue_item *list)
{
    for (struct ch_queue_item *next; list; list = next) {
        next = list->next;
        wire_batch_free(list->batch);
        mem_free(list);
    }
}

/* -- by number -- */

static uint64_t key_of(const struct ch_queue *q, const struct uuid *host, uint64_t stream,
                       uint64_t seq)
{
    const uint64_t numbers[] = {stream, seq};

    return hash_bytes(host->b, sizeof host->b,
                      hash_bytes(numbers, sizeof numbers, (uint64_t)(uintptr_t)q));
}

static bool is_item(const struct ch_queue_item *i, const struct uuid *host, uint64_t stream,
                    uint64_t seq)
{
    const struct batch_head *h = &i->batch->head;

    return h->seq == seq && h->stream == stream && memcmp(h->host.b, host->b, sizeof host->b) == 0;
}

/* Without memory there is no index, and the list is walked. */
static void index_add(struct ch_queue *q, const struct ch_queue_item *i)
{
    const struct batch_head *h = &i->batch->head;
    uint64_t key = key_of(q, &h->host, h->stream, h->seq);

    q->indexed = map_reserve(&q->index) == ERR_OK;
    if (q->indexed) {
        while (map_get(&q->index, key)) {
            key++;
        }
        (void)map_put(&q->index, key, (uint64_t)(uintptr_t)i);
    }
}

bool ch_queue_has(struct ch_queue *q, const struct uuid *host, uint64_t stream, uint64_t seq)
{
    const struct ch_queue_item *i = q->first;
    uint64_t key = key_of(q, host, stream, seq), place;

    if (!q->indexed && i) {
        map_clear(&q->index);
        q->indexed = true;
        for (; i && q->indexed; i = i->next) {
            index_add(q, i);
        }
    }
    if (!q->indexed) {
        for (i = q->first; i && !is_item(i, host, stream, seq); i = i->next) {
        }
        return i != NULL;
    }
    for (; (place = map_get(&q->index, key)) != 0; key++) {
        if (is_item((const struct ch_queue_item *)(uintptr_t)place, host, stream, seq)) {
            return true;
        }
    }
    return false;
}

/* -- in and out -- */

bool ch_queue_put(struct ch_queue *q, struct ch_queue_item *item)
{
    if (q->bytes + item->bytes > q->bytes_max) {
        return false;
    }
    *q->last = item;
    q->last = &item->next;
    q->bytes += item->bytes;
    q->batches++;
    if (q->indexed) {
        index_add(q, item);
    }
    return true;
}

bool ch_queue_take(struct ch_queue *q, size_t cells_max, size_t bytes_max)
{
    struct ch_queue_item **at = &q->first, *i;
    size_t cells = 0, bytes = 0;

    while ((i = *at) != NULL && cells < cells_max && bytes < bytes_max) {
        cells += i->batch->n_runs;
        bytes += i->bytes;
        q->bytes -= i->bytes;
        q->batches--;
        at = &i->next;
    }
    q->sending = at == &q->first ? NULL : q->first;
    q->first = *at;
    *at = NULL;
    if (!q->first) {
        q->last = &q->first;
    }
    q->indexed = false; /* it is made again when somebody asks */
    return q->sending != NULL;
}

static int item_order(const void *x, const void *y)
{
    const struct ch_queue_item *a = *(const struct ch_queue_item *const *)x;
    const struct ch_queue_item *b = *(const struct ch_queue_item *const *)y;
    int by_host = memcmp(&a->batch->head.host, &b->batch->head.host, sizeof a->batch->head.host);

    return by_host ? by_host : a->made_ns < b->made_ns ? -1 : a->made_ns > b->made_ns;
}

struct ch_queue_item **ch_queue_sorted(const struct ch_queue *q, size_t *n)
{
    struct ch_queue_item **list;
    size_t k = 0;

    *n = 0;
    for (const struct ch_queue_item *i = q->sending; i; i = i->next) {
        ++*n;
    }
    list = mem_array(*n, sizeof *list);
    for (struct ch_queue_item *i = q->sending; list && i; i = i->next) {
        list[k++] = i;
    }
    if (list) {
        qsort(list, *n, sizeof *list, item_order);
    }
    return list;
}
