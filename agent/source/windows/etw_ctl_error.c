#include "agent/source/windows/etw_ctl_impl.h"
#include "common/os/win32.h"

static const struct {
    uint32_t code;
    enum err e;
    const char *text;
} codes[] = {
    {ERROR_ACCESS_DENIED, ERR_ACCESS,
     "access denied; run as LocalSystem or an administrator, or join Performance Log Users"},
    {ERROR_PRIVILEGE_NOT_HELD, ERR_ACCESS,
     "the right to profile the system is missing; grant SeSystemProfilePrivilege to the account"},
    {ERROR_NO_SYSTEM_RESOURCES, ERR_FULL,
     "no session slot is free; stop a session that is not needed (logman query -ets)"},
    {ERROR_ALREADY_EXISTS, ERR_EXISTS,
     "another program's session has this name; stop it or configure another session_name"},
    {ERROR_INVALID_PARAMETER, ERR_INVALID,
     "the system does not take these parameters; its build is too old, or this is our mistake"},
    {ERROR_BAD_LENGTH, ERR_INVALID,
     "the system does not take a block of this length; its build is too old, or this is our "
     "mistake"},
    {ERROR_MORE_DATA, ERR_INVALID,
     "the session's names are longer than any are allowed to be; stop it with logman"},
    {ERROR_WMI_INSTANCE_NOT_FOUND, ERR_LOST,
     "the session is gone: another program stopped it; it will be started again"},
    {ERROR_DISK_FULL, ERR_NOSPACE, "the disk is full; make room"},
    {ERROR_NOT_ENOUGH_MEMORY, ERR_NOMEM, "out of memory"},
    {ERROR_OUTOFMEMORY, ERR_NOMEM, "out of memory"},
    {ERROR_CALL_NOT_IMPLEMENTED, ERR_UNSUPPORTED,
     "this system has no event tracing; processes are polled instead"},
    {ERROR_NOT_SUPPORTED, ERR_UNSUPPORTED, "this system does not support it"},
};

enum err etw_ctl_error(struct errmsg *why, const char *call, const char *what, uint32_t code)
{
    if (code == ERROR_SUCCESS) {
        return ERR_OK;
    }
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (codes[i].code == code) {
            return errmsg_set(why, codes[i].e, "%s of %s: %s (error %u)", call, what, codes[i].text,
                              (unsigned)code);
        }
    }
    return errmsg_set(why, ERR_IO, "%s of %s failed with error %u; see net helpmsg %u", call, what,
                      (unsigned)code, (unsigned)code);
}

enum err etw_ctl_failed(struct etw_ctl *c, struct errmsg *why, const char *call, uint32_t code)
{
    c->stats.failed += code != ERROR_SUCCESS;
    return etw_ctl_error(why, call, c->conf.name, code);
}
