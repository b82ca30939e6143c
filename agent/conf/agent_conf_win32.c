#include "agent/conf/agent_conf_host.h"

#include "common/base/mem.h"
#include "common/os/win32.h"

#define PATH_UNITS 4096
#define PATH_BYTES (3 * PATH_UNITS)

const char agent_conf_state_dir[] = "%ProgramData%\\procfleet";

/* The system leaves a variable that is not set as it was written: a directory of such a name beside
 * the program would be made by mistake only. */
enum err agent_conf_expand(char **out, const char *text)
{
    WCHAR given[PATH_UNITS], full[PATH_UNITS];
    DWORD n;
    char *path;

    if (!MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, given, PATH_UNITS)) {
        return ERR_INVALID;
    }
    n = ExpandEnvironmentStringsW(given, full, PATH_UNITS);
    if (n == 0 || n > PATH_UNITS || wcschr(full, L'%')) {
        return ERR_INVALID;
    }
    path = mem_alloc(PATH_BYTES);
    if (!path) {
        return ERR_NOMEM;
    }
    if (!WideCharToMultiByte(CP_UTF8, 0, full, -1, path, PATH_BYTES, NULL, NULL)) {
        mem_free(path);
        return ERR_INVALID;
    }
    *out = path;
    return ERR_OK;
}
