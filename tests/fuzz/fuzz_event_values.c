/* Any bytes as the values of an event with so many fields as the first byte says. What is accepted
 * must be read whole, and written again it must give the same values. */
#include "common/model/event_values.h"

#include "tests/fuzz/touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void read_again(const struct str *fields, size_t n_fields, struct str values)
{
    static struct event_values first, second;
    struct value_sink s = event_values_begin(&first);
    struct touch t = {0};
    struct value_sink touches = touch_sink(&t);
    struct event_type type = {.fields = fields, .n_fields = n_fields};
    struct value found;

    touch_must(event_values_read(fields, n_fields, values, &touches) == ERR_OK);
    touch_balanced(&t);
    if (event_values_find(&found, &type, values, (struct str){"f.f", 3})) {
        touch_value(&t, &found);
    }
    touch_must(event_values_read(fields, n_fields, values, &s) == ERR_OK);
    touch_must(event_values_ok(first.n_fields, (struct str){(char *)first.bytes, first.n}));
    s = event_values_begin(&second);
    touch_must(event_values_read(first.fields, first.n_fields,
                                 (struct str){(char *)first.bytes, first.n}, &s) == ERR_OK);
    touch_must(first.cut ||
               (first.n == second.n && memcmp(first.bytes, second.bytes, first.n) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct str fields[EVENT_VALUES_FIELDS];
    size_t n_fields = n ? p[0] % (EVENT_VALUES_FIELDS + 2) : 0;
    uint8_t *copy;

    for (size_t i = 0; i < EVENT_VALUES_FIELDS; i++) {
        fields[i] = (struct str){"f", 1};
    }
    if (n == 0) {
        return 0;
    }
    copy = touch_copy(p + 1, n - 1);
    if (event_values_ok(n_fields, (struct str){(char *)copy, n - 1})) {
        read_again(fields, n_fields, (struct str){(char *)copy, n - 1});
    }
    free(copy);
    return 0;
}
