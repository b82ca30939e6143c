#include "tests/fuzz/class_input.h"

#include <string.h>

#include "common/base/clk.h"

static size_t add_once(uint16_t out[CLASS_INPUT_NUMBERS], size_t n, uint16_t number)
{
    for (size_t i = 0; i < n; i++) {
        if (out[i] == number) {
            return n;
        }
    }
    if (n < CLASS_INPUT_NUMBERS) {
        out[n++] = number;
    }
    return n;
}

size_t class_input_numbers(const struct decode_class *k, uint16_t out[CLASS_INPUT_NUMBERS])
{
    size_t n = 0;

    for (size_t i = 0; i < k->n_layouts; i++) {
        n = add_once(out, n, k->layouts[i].opcode);
    }
    for (size_t i = 0; i < k->n_ops; i++) {
        n = add_once(out, n, k->ops[i].opcode);
    }
    return n;
}

bool class_input_read(struct raw_event *out, const struct decode_class *k, const uint8_t *p,
                      size_t n)
{
    uint16_t numbers[CLASS_INPUT_NUMBERS], number;
    size_t known = class_input_numbers(k, numbers);

    if (n < CLASS_INPUT_HEADER) {
        return false;
    }
    number = p[0] % (known + 1) < known ? numbers[p[0] % (known + 1)] : p[3];
    *out = (struct raw_event){.form = k->form,
                              .opcode = (uint8_t)number,
                              .id = k->form == RAW_CLASSIC ? 0 : number,
                              .version = p[1] & 15,
                              .pointer_size = p[2] & 1 ? 8 : 4,
                              .early = (p[2] & 8) != 0,
                              .pid = 4,
                              .tid = 8,
                              .wall_ns = 1700000000 * CLK_S,
                              .mono_ns = CLK_S,
                              .shift_ns = p[2] & 4 ? 86400 * CLK_S : 0,
                              .ticks = 123456789,
                              .frequency = p[2] & 2 ? 0 : 10000000,
                              .payload = p + CLASS_INPUT_HEADER,
                              .payload_n = n - CLASS_INPUT_HEADER};
    memcpy(out->guid, k->guid, sizeof out->guid);
    return true;
}
