#include "common/lab/ended.h"

#include <stdio.h>

static const struct {
    uint32_t code;
    const char *name;
} codes[] = {
    {0x40010004, "DBG_TERMINATE_PROCESS"},
    {0x40010005, "DBG_CONTROL_C"},
    {0x40010008, "DBG_CONTROL_BREAK"},
    {0x80000001, "GUARD_PAGE_VIOLATION"},
    {0x80000002, "DATATYPE_MISALIGNMENT"},
    {0x80000003, "BREAKPOINT"},
    {0x80000004, "SINGLE_STEP"},
    {0x80131506, "COR_E_EXECUTIONENGINE"},
    {0x80131623, "COR_E_FAILFAST"},
    {0xc0000001, "UNSUCCESSFUL"},
    {0xc0000005, "ACCESS_VIOLATION"},
    {0xc0000006, "IN_PAGE_ERROR"},
    {0xc0000008, "INVALID_HANDLE"},
    {0xc000000d, "INVALID_PARAMETER"},
    {0xc0000017, "NO_MEMORY"},
    {0xc000001d, "ILLEGAL_INSTRUCTION"},
    {0xc0000022, "ACCESS_DENIED"},
    {0xc0000025, "NONCONTINUABLE_EXCEPTION"},
    {0xc0000026, "INVALID_DISPOSITION"},
    {0xc000003e, "DATA_ERROR"},
    {0xc0000044, "QUOTA_EXCEEDED"},
    {0xc000007b, "INVALID_IMAGE_FORMAT"},
    {0xc000008c, "ARRAY_BOUNDS_EXCEEDED"},
    {0xc000008d, "FLOAT_DENORMAL_OPERAND"},
    {0xc000008e, "FLOAT_DIVIDE_BY_ZERO"},
    {0xc000008f, "FLOAT_INEXACT_RESULT"},
    {0xc0000090, "FLOAT_INVALID_OPERATION"},
    {0xc0000091, "FLOAT_OVERFLOW"},
    {0xc0000092, "FLOAT_STACK_CHECK"},
    {0xc0000093, "FLOAT_UNDERFLOW"},
    {0xc0000094, "INTEGER_DIVIDE_BY_ZERO"},
    {0xc0000095, "INTEGER_OVERFLOW"},
    {0xc0000096, "PRIVILEGED_INSTRUCTION"},
    {0xc000009a, "INSUFFICIENT_RESOURCES"},
    {0xc00000fd, "STACK_OVERFLOW"},
    {0xc000012d, "COMMITMENT_LIMIT"},
    {0xc0000135, "DLL_NOT_FOUND"},
    {0xc0000138, "ORDINAL_NOT_FOUND"},
    {0xc0000139, "ENTRYPOINT_NOT_FOUND"},
    {0xc000013a, "CONTROL_C_EXIT"},
    {0xc0000142, "DLL_INIT_FAILED"},
    {0xc0000144, "UNHANDLED_EXCEPTION"},
    {0xc000014c, "REGISTRY_CORRUPT"},
    {0xc000021a, "SYSTEM_PROCESS_TERMINATED"},
    {0xc0000221, "IMAGE_CHECKSUM_MISMATCH"},
    {0xc0000225, "NOT_FOUND"},
    {0xc000026b, "DLL_INIT_FAILED_LOGOFF"},
    {0xc0000374, "HEAP_CORRUPTION"},
    {0xc0000409, "STACK_BUFFER_OVERRUN"},
    {0xc0000417, "INVALID_CRUNTIME_PARAMETER"},
    {0xc0000420, "ASSERTION_FAILURE"},
    {0xc0000428, "INVALID_IMAGE_HASH"},
    {0xc000041d, "FATAL_USER_CALLBACK_EXCEPTION"},
    {0xc0000602, "FAIL_FAST_EXCEPTION"},
    {0xcfffffff, "APPLICATION_HANG"},
    {0xe0434352, "CLR_EXCEPTION"},
    {0xe0434f4d, "CLR_EXCEPTION_V1"},
    {0xe06d7363, "CPP_EXCEPTION"},
};

/* Linux' numbers, which x86 and ARM share. */
static const char *const signals[] = {
    NULL,        "SIGHUP",  "SIGINT",    "SIGQUIT", "SIGILL",   "SIGTRAP", "SIGABRT", "SIGBUS",
    "SIGFPE",    "SIGKILL", "SIGUSR1",   "SIGSEGV", "SIGUSR2",  "SIGPIPE", "SIGALRM", "SIGTERM",
    "SIGSTKFLT", "SIGCHLD", "SIGCONT",   "SIGSTOP", "SIGTSTP",  "SIGTTIN", "SIGTTOU", "SIGURG",
    "SIGXCPU",   "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO",   "SIGPWR",  "SIGSYS"};

#define SIGNALS (sizeof signals / sizeof *signals)

const char *const ended_words[] = {"running", "exited", "error", "killed", "crash", NULL};

static bool signal_is_fault(uint32_t number)
{
    /* ILL, TRAP, ABRT, BUS, FPE, SEGV, SYS */
    static const uint32_t faults =
        1u << 4 | 1u << 5 | 1u << 6 | 1u << 7 | 1u << 8 | 1u << 11 | 1u << 31;

    return number < SIGNALS && faults >> number & 1;
}

static enum ended ended_by_status(uint32_t code)
{
    switch (code) {
    case 0:
        return ENDED_EXITED;
    case 0x80000003: /* breakpoint */
    case 0x80131506: /* the CLR's engine failed */
    case 0x80131623:
        return ENDED_CRASH;
    case 0x40010004: /* terminated by a debugger */
    case 0xc000013a: /* Ctrl-C */
    case 0xc000026b: /* logging off */
        return ENDED_KILLED;
    default:
        return code >= 0xc0000000 && code != UINT32_MAX ? ENDED_CRASH : ENDED_ERROR;
    }
}

enum ended ended_by_code(uint32_t code, bool signalled)
{
    if (!signalled) {
        return ended_by_status(code);
    }
    return signal_is_fault(code - 128) ? ENDED_CRASH : ENDED_KILLED;
}

bool ended_how(const struct proc_info *info, enum ended *out)
{
    if (!(info->have & INFO_EXITED)) {
        *out = ENDED_RUNNING;
        return true;
    }
    *out = ended_by_code(info->exit_code, info->have & INFO_SIGNALLED);
    return info->have & INFO_EXIT_CODE;
}

struct proc_info ended_life(const struct run_life *l)
{
    bool signalled = l->flags & RUN_LIFE_SIGNALLED;

    return (struct proc_info){.have = (l->flags & RUN_LIFE_ENDED ? INFO_EXITED : 0u) |
                                      (l->flags & RUN_LIFE_EXIT_KNOWN ? INFO_EXIT_CODE : 0u) |
                                      (signalled ? INFO_SIGNALLED : 0u),
                              .exit_code = l->exit_code + (signalled ? 128 : 0)};
}

const char *ended_name(uint32_t code, bool signalled)
{
    if (signalled) {
        return code - 128 < SIGNALS ? signals[code - 128] : NULL;
    }
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (codes[i].code == code) {
            return codes[i].name;
        }
    }
    return NULL;
}

const char *ended_text(char text[ENDED_TEXT], const struct proc_info *info)
{
    bool signalled = info->have & INFO_SIGNALLED;
    uint32_t code = info->exit_code;
    const char *name = ended_name(code, signalled);

    text[0] = '\0';
    if (!(info->have & INFO_EXIT_CODE)) {
        return text;
    }
    if (signalled) {
        (void)snprintf(text, ENDED_TEXT, "signal %u", code - 128);
        return name ? name : text;
    } else if (name) {
        (void)snprintf(text, ENDED_TEXT, "%s 0x%08x", name, code);
    } else {
        (void)snprintf(text, ENDED_TEXT, code > 255 ? "exit 0x%08x" : "exit %u", code);
    }
    return text;
}
