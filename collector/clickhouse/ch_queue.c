#include "collector/clickhouse/ch_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

void ch_queue_init(struct ch_queue *q, size_t bytes_max)
{
    *q = (struct ch_queue){.last = &q->first, .bytes_max = bytes_max};
}

void ch_queue_fini(struct ch_queue *q)
{
    ch_queue_free(q->first);
    ch_queue_free(q->sending);
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

bool ch_queue_put(struct ch_queue *q, struct ch_queue_item *item)
{
    if (q->bytes + item->bytes > q->bytes_max) {
        return false;
    }
    *q->last = item;
    q->last = &item->next;
    q->bytes += item->bytes;
    q->batches++;
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
