#include "agent/spool/spool_batch.h"

#include "common/base/mem.h"

static uint64_t rows_of(const struct batch *b)
{
    uint64_t n = 0;

    for (size_t i = 0; i < b->n_runs; i++) {
        n += b->runs[i].n_ticks;
    }
    return n;
}

void spool_batch_count(struct spool_loss *loss, const void *p, size_t n)
{
    struct batch *b;

    loss->batches++;
    if (wire_batch_decode(&b, p, n) == ERR_OK) {
        uint64_t rows, events;

        wire_batch_at_stake(b, &rows, &events);
        loss->rows += rows;
        loss->events += events;
        wire_batch_free(b);
    }
}

/* The batch's own ledger with room for three rows more; NULL: no memory. */
static struct ledger_row *longer_ledger(const struct batch *b)
{
    struct ledger_row *rows = mem_array(b->n_ledger + 3, sizeof *rows);

    for (size_t i = 0; rows && i < b->n_ledger; i++) {
        rows[i] = b->ledger[i];
    }
    return rows;
}

static void tell(struct batch *b, struct ledger_row *rows, const char *reason, uint64_t count)
{
    if (count > 0 && b->n_ledger < WIRE_LEDGER_MAX) {
        rows[b->n_ledger++] = (struct ledger_row){str_make("spool"), str_make(reason), count};
    }
}

/* *b loses what `detail` leaves out. When no event is left to say of when the batch is, its last
 * tick stays, empty. */
static void take_away(struct batch *b, struct ledger_row *rows, struct spool_loss *loss,
                      enum spool_detail detail)
{
    uint64_t n_rows = rows_of(b), n_events = detail >= SPOOL_LEDGER ? b->n_events : 0;

    tell(b, rows, "ticks_dropped", n_rows > 0 ? b->n_ticks : 0);
    tell(b, rows, "metrics_dropped", n_rows);
    tell(b, rows, "events_dropped", n_events);
    b->ledger = rows;
    loss->rows += n_rows;
    loss->events += n_events;
    b->n_runs = b->n_columns = 0;
    if (detail >= SPOOL_LEDGER) {
        b->n_infos = b->n_events = 0;
    }
    if (b->n_events > 0) {
        b->n_ticks = 0;
    } else if (b->n_ticks > 1) {
        b->wall_ns += b->n_ticks - 1;
        b->mono_ns += b->n_ticks - 1;
        b->n_ticks = 1;
    }
}

enum err spool_batch_reduce(struct wire_encoder *enc, struct buf *out, struct spool_loss *loss,
                            const void *p, size_t n, enum spool_detail detail)
{
    struct spool_loss found = {0};
    struct ledger_row *rows;
    struct batch *b, less;
    enum err e = wire_batch_decode(&b, p, n);

    if (e) {
        return e;
    }
    rows = longer_ledger(b);
    if (!rows) {
        wire_batch_free(b);
        return ERR_NOMEM;
    }
    less = *b;
    take_away(&less, rows, &found, detail);
    buf_reset(out);
    e = wire_batch_encode(enc, out, &less);
    if (!e) {
        loss->rows += found.rows;
        loss->events += found.events;
    }
    mem_free(rows);
    wire_batch_free(b);
    return e;
}

enum err spool_batch_renumber(struct wire_encoder *enc, struct buf *out, const void *p, size_t n,
                              uint64_t stream, uint64_t seq)
{
    struct batch *b;
    enum err e = wire_batch_decode(&b, p, n);

    if (e) {
        return e;
    }
    b->head.stream = stream;
    b->head.seq = seq;
    buf_reset(out);
    e = wire_batch_encode(enc, out, b);
    wire_batch_free(b);
    return e;
}
