/* ClickHouse's format Native, as HTTP carries it (protocol revision 0): blocks out and in.
 *
 *     varuint columns, varuint rows, then each column: name, type (varuint length and bytes each)
 *     numbers     width bytes each, little endian          strings   varuint length, bytes
 *     UUID        two u64, the first half first            arrays    u64 ends, then all elements
 *     LowCardinality (in only): u64 1, u64 flags, u64 and that many keys, u64 and that many indices
 *
 * Blocks out are gathered column by column; a column in which no row had anything but 0 or "" does
 * not travel: the table's default is the same. What comes in is hostile: a server, or whatever
 * answered in its place, sends it.
 * Threads: one owner each. */
#ifndef PROCFLEET_COLLECTOR_CLICKHOUSE_CH_NATIVE_H
#define PROCFLEET_COLLECTOR_CLICKHOUSE_CH_NATIVE_H

#include "collector/clickhouse/ch_schema.h"
#include "common/base/arena.h"
#include "common/base/cur.h"
#include "common/os/uuid.h"

/* -- out -- */

#define CH_BLOCK_BYTES_MAX ((size_t)192 << 20) /* a block's memory: puts latch ERR_FULL beyond */

struct ch_block;
/* Errors: ERR_NOMEM */
NODISCARD enum err ch_native_block_create(struct ch_block **out, enum ch_table t);
void ch_native_block_destroy(struct ch_block *b); /* NULL is allowed */
void ch_native_block_reset(struct ch_block *b);   /* no rows; keeps some memory */

void ch_native_row(struct ch_block *b); /* begins a row; what is not put into it is 0 or "" */
/* Puts into the current row, once a column. The column's type says which of them. */
void ch_native_u64(struct ch_block *b, size_t column, uint64_t v); /* any width, Int64, TIME */
void ch_native_uuid(struct ch_block *b, size_t column, const struct uuid *v); /* UUID, FIXED16 */
void ch_native_str(struct ch_block *b, size_t column, struct str v);
void ch_native_strings(struct ch_block *b, size_t column, const struct str *v, size_t n);
void ch_native_u64s(struct ch_block *b, size_t column, const uint64_t *v, size_t n);

/* The same by columns: begins n rows; puts numbers (of any width) or one UUID for rows
 * [row, row + n), the newest of the block, of a column in which nothing was put behind `row`. */
void ch_native_rows_begin(struct ch_block *b, size_t n);
void ch_native_rows_put(struct ch_block *b, size_t column, size_t row, const int64_t *v, size_t n);
void ch_native_rows_uuid(struct ch_block *b, size_t column, size_t row, const struct uuid *v,
                         size_t n);

/* A number for every row of a column, in the place of what they had. */
void ch_native_fill(struct ch_block *b, size_t column, uint64_t (*value)(void *ctx, size_t row),
                    void *ctx);

enum ch_table ch_native_table(const struct ch_block *b);
size_t ch_native_rows(const struct ch_block *b);
size_t ch_native_bytes(const struct ch_block *b); /* about what it encodes to */

/* "INSERT INTO `cell` (…) FORMAT Native" and the block's bytes; for CH_NARROW integers of 64 bits
 * are as narrow as the block's values let them be, which is half of it. Errors: what latched,
 * ERR_NOMEM, ERR_FULL (of the buffers) */
NODISCARD enum err ch_native_encode(struct ch_block *b, enum ch_dialect d, struct buf *sql,
                                    struct buf *out);

/* -- in -- */

#define CH_IN_COLUMNS 512u

struct ch_in_column {
    struct str name;
    uint8_t type;        /* enum ch_type, of an array that of its elements; or CH_INT8 … below */
    uint8_t width;       /* 0: strings */
    bool array;          /* element range of row i: [ends[i-1], ends[i]) */
    size_t n;            /* elements */
    const uint8_t *p;    /* fixed width: all elements */
    const uint32_t *at;  /* strings: place of each element behind p */
    size_t n_bytes;      /* strings: of all of them */
    const uint8_t *ends; /* arrays: u64le each */
};

/* Further types that answers have. */
enum { CH_INT8 = CH_TYPES, CH_INT16, CH_INT32, CH_FLOAT64, CH_DATE_TIME };

struct ch_in {
    struct cur c;
    struct arena memory; /* of the block at hand */
    size_t n_columns, n_rows;
    struct ch_in_column columns[CH_IN_COLUMNS];
};

/* p stays the caller's, and unchanged as long as `in` is read. memory_max: of one block's index of
 * strings, 4 bytes each. */
void ch_native_in_init(struct ch_in *in, const void *p, size_t n, size_t memory_max);
void ch_native_in_fini(struct ch_in *in);

/* The next block with rows; the one before is gone. Errors: ERR_END (all of it was read),
 * ERR_CORRUPT (also: not Native at all, such as an error text), ERR_UNSUPPORTED (a type of which
 * this reader knows nothing), ERR_FULL, ERR_NOMEM */
NODISCARD enum err ch_native_next(struct ch_in *in);

/* The column of this name; NULL: there is none. */
const struct ch_in_column *ch_native_column(const struct ch_in *in, const char *name);

/* The element at row (of an array: element) i; 0, "" where there is none, which an array may have
 * fewer of than the block has rows, of a column of another kind, and of NULL columns. Signed ones
 * are sign-extended; floats as their bits. */
uint64_t ch_native_get(const struct ch_in_column *c, size_t i);
struct str ch_native_get_str(const struct ch_in_column *c, size_t i); /* FixedString, too */
struct uuid ch_native_get_uuid(const struct ch_in_column *c, size_t i);
/* Elements of an array's row. */
size_t ch_native_get_array(const struct ch_in_column *c, size_t row, size_t *first);

#endif
