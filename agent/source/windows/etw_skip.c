#include "agent/source/windows/etw_skip.h"

#include <string.h>

#include "agent/source/etw_guid.h"

#define OP(n)  (UINT64_C(1) << (n)) /* of opcodes below 64 */
#define OP2(n) (UINT64_C(1) << ((n)-64))

#define STARTS_AND_ENDS (OP(1) | OP(2) | OP(3) | OP(4))

/* What of a class is wanted; opcodes from 128 on never are. */
static const struct {
    uint8_t guid[16];
    uint64_t low, high; /* opcodes 0 to 63, 64 to 127 */
} wanted[] = {
    {ETW_CLASS_THREAD, STARTS_AND_ENDS | OP(36) | OP(50), OP2(72)},
    {ETW_CLASS_PERF_INFO, OP(46) | OP(47) | OP(50) | OP(51) | OP(52),
     OP2(66) | OP2(67) | OP2(68) | OP2(69) | OP2(72) | OP2(73) | OP2(74)},
    {ETW_CLASS_DISK_IO, OP(10) | OP(11) | OP(12) | OP(13) | OP(14) | OP(15), 0},
    {ETW_CLASS_PROCESS, STARTS_AND_ENDS | OP(32) | OP(33) | OP(39), 0},
    /* Not the rundown, 3 and 4: thousands of records at once, and who loads what later is told. */
    {ETW_CLASS_IMAGE, OP(2) | OP(10), 0},
    {ETW_CLASS_EVENT_TRACE, 0, 0},
    {ETW_CLASS_SYSTEM_CONFIG, 0, 0},
};

bool etw_skip(const struct raw_event *raw, bool threads_elsewhere)
{
    uint64_t bit = UINT64_C(1) << (raw->opcode & 63);

    if (raw->form != RAW_CLASSIC) {
        return raw->form == RAW_MESSAGE; /* needs its program's symbols */
    }
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        if (memcmp(wanted[i].guid, raw->guid, sizeof raw->guid) == 0) {
            if (i == 0 && threads_elsewhere && raw->opcode < 64 && (bit & STARTS_AND_ENDS)) {
                return true;
            }
            return raw->opcode >= 128 ||
                   !((raw->opcode < 64 ? wanted[i].low : wanted[i].high) & bit);
        }
    }
    return false;
}
