/* Any bytes as a PE file whose identity is asked for. */
#include "agent/record/record_pe.h"
#include "tests/fuzz/touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct touch_input b = {p, n};
    const struct record_pe_input in = {touch_read, &b};
    struct record_pe pe;

    if (record_pe_read(&pe, &in) == ERR_OK) {
        touch_must(memchr(pe.pdb, 0, sizeof pe.pdb) && (pe.has_symbols || !pe.pdb[0]));
    }
    return 0;
}
