/* The only includer of Windows headers. Text is UTF-8 in the product and UTF-16 at these calls. */
#ifndef PROCFLEET_COMMON_OS_WIN32_H
#define PROCFLEET_COMMON_OS_WIN32_H

#ifndef _WIN32_WINNT
#define _WIN32_WINNT 0x0A00
#endif
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif

#include <winsock2.h>
#include <ws2tcpip.h>

#include <windows.h>

#include <bcrypt.h>
#include <io.h>
#include <ntsecapi.h>
#include <psapi.h>
#include <sddl.h>
#include <tlhelp32.h>
#include <winternl.h>

#include "common/os/win32_etw.h"

/* Of ntdll, not of the C library's headers. */
NTSTATUS NTAPI RtlGetVersion(OSVERSIONINFOW *version);

/* Of the C library; its header for it is not for programs. Arguments are not expanded with
 * expand = 0. */
int __cdecl __wgetmainargs(int *argc, wchar_t ***argv, wchar_t ***environment, int expand,
                           int *new_mode);

#endif
