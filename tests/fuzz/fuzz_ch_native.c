/* What a ClickHouse server, or whatever answered in its place, sends: every element of every block
 * that is accepted can be read, and every row as if it were no array. */
#include <assert.h>
#include <string.h>

#include "collector/clickhouse/ch_native.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static uint64_t element_read(const struct ch_in_column *c, size_t i)
{
    struct str s = ch_native_get_str(c, i);
    struct uuid u = ch_native_get_uuid(c, i);
    uint64_t sum = ch_native_get(c, i) + u.b[0];

    for (size_t k = 0; k < s.n; k++) {
        sum += (uint8_t)s.p[k];
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static volatile uint64_t sink;
    struct ch_in in;

    ch_native_in_init(&in, p, n, 1u << 20);
    while (ch_native_next(&in) == ERR_OK) {
        assert(in.n_rows && in.n_columns);
        for (size_t c = 0; c < in.n_columns; c++) {
            const struct ch_in_column *column = &in.columns[c];

            for (size_t row = 0; row < in.n_rows; row++) {
                size_t first, count = ch_native_get_array(column, row, &first);

                sink += element_read(column, row); /* of arrays, too: what asks expects none */
                for (size_t i = 0; i < count; i++) {
                    sink += element_read(column, first + i);
                }
            }
        }
    }
    ch_native_in_fini(&in);
    return 0;
}
