/* A kept table is one block of memory: its rows one behind the other, each with the values it has
 * and its texts, filled up to 8 bytes. Rows at full width would take twice as much. */
#include "agent/source/windows/live_queue.h"

#include "common/base/mem.h"

struct live_kept {
    struct snapshot table; /* rows: NULL */
    size_t bytes;
    uint8_t *packed; /* behind this */
};

struct packed_row {
    struct proc_info info; /* texts: in the block */
    metric_mask mask;
};

static size_t up8(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

static size_t row_bytes(const struct snap_row *row)
{
    const struct proc_info *i = &row->info;

    return up8(sizeof(struct packed_row)) + metric_mask_count(row->mask) * sizeof *row->values +
           up8(i->name.n + i->image.n + i->command_line.n + i->user.n);
}

static uint8_t *keep_text(uint8_t *p, struct str *text)
{
    if (text->n > 0) {
        memcpy(p, text->p, text->n);
        text->p = (const char *)p;
    } else {
        *text = str_make("");
    }
    return p + text->n;
}

static uint8_t *pack(uint8_t *p, const struct snap_row *row)
{
    struct packed_row head = {.info = row->info, .mask = row->mask};
    uint8_t *end = p + row_bytes(row), *at = p + up8(sizeof head);

    for (struct metric_mask_walk each = metric_mask_walk(row->mask);
         metric_mask_walk_next(&each);) {
        memcpy(at, &row->values[each.id], sizeof *row->values);
        at += sizeof *row->values;
    }
    at = keep_text(at, &head.info.name);
    at = keep_text(at, &head.info.image);
    at = keep_text(at, &head.info.command_line);
    (void)keep_text(at, &head.info.user);
    memcpy(p, &head, sizeof head);
    return end;
}

static const uint8_t *unpack(const uint8_t *p, struct snap_row *out)
{
    struct packed_row head;

    memcpy(&head, p, sizeof head);
    p += up8(sizeof head);
    out->info = head.info;
    out->mask = head.mask;
    for (struct metric_mask_walk each = metric_mask_walk(head.mask);
         metric_mask_walk_next(&each);) {
        memcpy(&out->values[each.id], p, sizeof *out->values);
        p += sizeof *out->values;
    }
    return p +
           up8(head.info.name.n + head.info.image.n + head.info.command_line.n + head.info.user.n);
}

/* Taking a table needs no memory any more: room for its rows is made when it is put. */
static enum err make_room(struct live_queue *q, size_t n_rows)
{
    struct snap_row *rows;

    if (n_rows <= q->cap) {
        return ERR_OK;
    }
    rows = mem_realloc_array(q->rows, n_rows, sizeof *rows);
    if (!rows) {
        return ERR_NOMEM;
    }
    q->rows = rows;
    q->cap = n_rows;
    return ERR_OK;
}

void live_queue_drop(struct live_queue *q)
{
    struct live_kept *k = q->items[q->first];

    q->bytes -= k->bytes;
    mem_free(k);
    q->items[q->first] = NULL;
    q->first = (q->first + 1) % LIVE_TABLES_MAX;
    q->n--;
    q->first_ns = q->n > 0 ? q->items[q->first]->table.mono_ns : 0;
}

void live_queue_fini(struct live_queue *q)
{
    while (q->n > 0) {
        live_queue_drop(q);
    }
    mem_free(q->rows);
    *q = (struct live_queue){.n = 0};
}

enum err live_queue_put(struct live_queue *q, const struct snapshot *table)
{
    size_t bytes = up8(sizeof(struct live_kept));
    struct live_kept *k;
    uint8_t *p;

    for (size_t i = 0; i < table->n_rows; i++) {
        bytes += row_bytes(&table->rows[i]);
    }
    if (q->n == LIVE_TABLES_MAX || bytes > LIVE_TABLES_BYTES - q->bytes) {
        return ERR_FULL;
    }
    if (make_room(q, table->n_rows)) {
        return ERR_NOMEM;
    }
    k = mem_alloc(bytes);
    if (!k) {
        return ERR_NOMEM;
    }
    *k = (struct live_kept){
        .table = *table, .bytes = bytes, .packed = (uint8_t *)k + up8(sizeof *k)};
    k->table.rows = NULL;
    p = k->packed;
    for (size_t i = 0; i < table->n_rows; i++) {
        p = pack(p, &table->rows[i]);
    }
    q->first_ns = q->n > 0 ? q->first_ns : table->mono_ns;
    q->items[(q->first + q->n++) % LIVE_TABLES_MAX] = k;
    q->bytes += bytes;
    return ERR_OK;
}

bool live_queue_first(struct live_queue *q, struct snapshot *out)
{
    const struct live_kept *k = q->n > 0 ? q->items[q->first] : NULL;
    const uint8_t *p;

    if (!k) {
        return false;
    }
    p = k->packed;
    for (size_t i = 0; i < k->table.n_rows; i++) {
        p = unpack(p, &q->rows[i]);
    }
    *out = k->table;
    out->rows = q->rows;
    return true;
}
