/* What mingw's headers lack of ETW, and proof that what they have is laid out as documented.
 * Included by win32.h only. Numbers marked unverified are documented ones no SDK was compared with.
 */
#ifndef PROCFLEET_COMMON_OS_WIN32_ETW_H
#define PROCFLEET_COMMON_OS_WIN32_ETW_H

#include <stddef.h>

#include <windows.h>

#include <evntcons.h>
#include <evntrace.h>

#ifndef EVENT_FILTER_TYPE_PID
#define EVENT_FILTER_TYPE_PID 0x80000004
#endif
#ifndef EVENT_FILTER_TYPE_EXECUTABLE_NAME
#define EVENT_FILTER_TYPE_EXECUTABLE_NAME 0x80000008
#endif
#ifndef EVENT_FILTER_TYPE_PAYLOAD
#define EVENT_FILTER_TYPE_PAYLOAD 0x80000100
#endif
#ifndef EVENT_TRACE_USE_MS_FLUSH_TIMER
#define EVENT_TRACE_USE_MS_FLUSH_TIMER 0x00000010 /* FlushTimer is in ms; Windows 7 and newer */
#endif
#ifndef EVENT_FILTER_TYPE_EVENT_ID
#define EVENT_FILTER_TYPE_EVENT_ID 0x80000200
#endif
#ifndef EVENT_FILTER_TYPE_STACKWALK
#define EVENT_FILTER_TYPE_STACKWALK 0x80001000
#endif

/* Unverified. */
#ifndef EVENT_ENABLE_PROPERTY_PROCESS_START_KEY
#define EVENT_ENABLE_PROPERTY_PROCESS_START_KEY 0x80
#endif
#ifndef EVENT_ENABLE_PROPERTY_EVENT_KEY
#define EVENT_ENABLE_PROPERTY_EVENT_KEY 0x100
#endif
#ifndef EVENT_ENABLE_PROPERTY_EXCLUDE_INPRIVATE
#define EVENT_ENABLE_PROPERTY_EXCLUDE_INPRIVATE 0x200
#endif
#ifndef EVENT_HEADER_EXT_TYPE_EVENT_KEY
#define EVENT_HEADER_EXT_TYPE_EVENT_KEY 0x0A
#endif
#ifndef EVENT_HEADER_EXT_TYPE_PROCESS_START_KEY
#define EVENT_HEADER_EXT_TYPE_PROCESS_START_KEY 0x0D
#endif
#ifndef EVENT_HEADER_EXT_TYPE_STACK_KEY64
#define EVENT_HEADER_EXT_TYPE_STACK_KEY64 0x12
#endif

_Static_assert(sizeof(EVENT_HEADER) == 80, "EVENT_HEADER");
_Static_assert(sizeof(EVENT_RECORD) == 112, "EVENT_RECORD");
_Static_assert(sizeof(EVENT_TRACE_PROPERTIES) == 120, "EVENT_TRACE_PROPERTIES");
_Static_assert(sizeof(EVENT_TRACE_LOGFILEW) == 448, "EVENT_TRACE_LOGFILEW");
_Static_assert(offsetof(EVENT_TRACE_LOGFILEW, EventRecordCallback) == 424, "record callback");
_Static_assert(offsetof(EVENT_TRACE_LOGFILEW, Context) == 440, "context");
_Static_assert(sizeof(TRACE_LOGFILE_HEADER) == 280, "TRACE_LOGFILE_HEADER");
_Static_assert(sizeof(ENABLE_TRACE_PARAMETERS) == 48, "ENABLE_TRACE_PARAMETERS");
_Static_assert(sizeof(EVENT_FILTER_DESCRIPTOR) == 16, "EVENT_FILTER_DESCRIPTOR");
_Static_assert(sizeof(CLASSIC_EVENT_ID) == 24, "CLASSIC_EVENT_ID");
_Static_assert(sizeof(TRACE_PROFILE_INTERVAL) == 8, "TRACE_PROFILE_INTERVAL");

#endif
