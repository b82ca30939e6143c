/* What Windows answers about processes, as its 64-bit systems (x64 and ARM64 alike) lay it out:
 * structures with Windows's own names of fields, and the numbers of the classes that are asked for.
 * Each offset is written beside its field and asserted. test_snap_layout compares all of it with
 * the facts of the corpus. */
#ifndef PROCFLEET_AGENT_SOURCE_WINDOWS_SNAP_LAYOUT_H
#define PROCFLEET_AGENT_SOURCE_WINDOWS_SNAP_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* NtQuerySystemInformation: class, its number. */
#define SNAP_SYSTEM_CLASSES(X)       \
    X(SystemTimeOfDayInformation, 3) \
    X(SystemProcessInformation, 5)   \
    X(SystemFullProcessInformation, 148)

/* NtQueryInformationProcess. */
#define SNAP_PROCESS_CLASSES(X)          \
    X(ProcessBasicInformation, 0)        \
    X(ProcessHandleCount, 20)            \
    X(ProcessIoPriority, 33)             \
    X(ProcessCommandLineInformation, 60) \
    X(ProcessProtectionInformation, 61)  \
    X(ProcessSequenceNumber, 92)

/* KTHREAD_STATE, KWAIT_REASON: those that are told apart. */
#define SNAP_THREAD_STATES(X) \
    X(Initialized, 0)         \
    X(Ready, 1)               \
    X(Running, 2)             \
    X(Standby, 3)             \
    X(Terminated, 4)          \
    X(Waiting, 5)             \
    X(Transition, 6)          \
    X(DeferredReady, 7)       \
    X(GateWaitObsolete, 8)    \
    X(WaitingForProcessInSwap, 9)
#define SNAP_WAIT_REASONS(X) X(Suspended, 5) X(WrSuspended, 12)

#define SNAP_CLASS(name, number) SNAP_##name = number,
enum { SNAP_SYSTEM_CLASSES(SNAP_CLASS) };
enum { SNAP_PROCESS_CLASSES(SNAP_CLASS) };
#undef SNAP_CLASS
#define SNAP_STATE(name, number) SNAP_STATE_##name = number,
enum { SNAP_THREAD_STATES(SNAP_STATE) };
#undef SNAP_STATE
#define SNAP_REASON(name, number) SNAP_REASON_##name = number,
enum { SNAP_WAIT_REASONS(SNAP_REASON) };
#undef SNAP_REASON

/* Structures: struct, type, field, offset. */
#define SNAP_UNICODE_STRING(X, S) \
    X(S, uint16_t, Length, 0x00) X(S, uint16_t, MaximumLength, 0x02) X(S, uint64_t, Buffer, 0x08)

#define SNAP_CLIENT_ID(X, S) X(S, uint64_t, UniqueProcess, 0x00) X(S, uint64_t, UniqueThread, 0x08)

#define SNAP_PROCESS(X, S)                                   \
    X(S, uint32_t, NextEntryOffset, 0x00) /* 0 = the last */ \
    X(S, uint32_t, NumberOfThreads, 0x04)                    \
    X(S, uint64_t, WorkingSetPrivateSize, 0x08)              \
    X(S, uint32_t, HardFaultCount, 0x10)                     \
    X(S, uint32_t, NumberOfThreadsHighWatermark, 0x14)       \
    X(S, uint64_t, CycleTime, 0x18)                          \
    X(S, uint64_t, CreateTime, 0x20)                         \
    X(S, uint64_t, UserTime, 0x28)                           \
    X(S, uint64_t, KernelTime, 0x30)                         \
    X(S, struct snap_unicode_string, ImageName, 0x38)        \
    X(S, int32_t, BasePriority, 0x48)                        \
    X(S, uint64_t, UniqueProcessId, 0x50)                    \
    X(S, uint64_t, InheritedFromUniqueProcessId, 0x58)       \
    X(S, uint32_t, HandleCount, 0x60)                        \
    X(S, uint32_t, SessionId, 0x64)                          \
    X(S, uint64_t, UniqueProcessKey, 0x68)                   \
    X(S, uint64_t, PeakVirtualSize, 0x70)                    \
    X(S, uint64_t, VirtualSize, 0x78)                        \
    X(S, uint32_t, PageFaultCount, 0x80)                     \
    X(S, uint64_t, PeakWorkingSetSize, 0x88)                 \
    X(S, uint64_t, WorkingSetSize, 0x90)                     \
    X(S, uint64_t, QuotaPeakPagedPoolUsage, 0x98)            \
    X(S, uint64_t, QuotaPagedPoolUsage, 0xa0)                \
    X(S, uint64_t, QuotaPeakNonPagedPoolUsage, 0xa8)         \
    X(S, uint64_t, QuotaNonPagedPoolUsage, 0xb0)             \
    X(S, uint64_t, PagefileUsage, 0xb8)                      \
    X(S, uint64_t, PeakPagefileUsage, 0xc0)                  \
    X(S, uint64_t, PrivatePageCount, 0xc8) /* bytes */       \
    X(S, uint64_t, ReadOperationCount, 0xd0)                 \
    X(S, uint64_t, WriteOperationCount, 0xd8)                \
    X(S, uint64_t, OtherOperationCount, 0xe0)                \
    X(S, uint64_t, ReadTransferCount, 0xe8)                  \
    X(S, uint64_t, WriteTransferCount, 0xf0)                 \
    X(S, uint64_t, OtherTransferCount, 0xf8)

#define SNAP_THREAD(X, S)                       \
    X(S, uint64_t, KernelTime, 0x00)            \
    X(S, uint64_t, UserTime, 0x08)              \
    X(S, uint64_t, CreateTime, 0x10)            \
    X(S, uint32_t, WaitTime, 0x18)              \
    X(S, uint64_t, StartAddress, 0x20)          \
    X(S, struct snap_client_id, ClientId, 0x28) \
    X(S, int32_t, Priority, 0x38)               \
    X(S, int32_t, BasePriority, 0x3c)           \
    X(S, uint32_t, ContextSwitches, 0x40)       \
    X(S, uint32_t, ThreadState, 0x44)           \
    X(S, uint32_t, WaitReason, 0x48)

#define SNAP_FULL_THREAD(X, S)                        \
    X(S, struct snap_thread_record, ThreadInfo, 0x00) \
    X(S, uint64_t, StackBase, 0x50)                   \
    X(S, uint64_t, StackLimit, 0x58)                  \
    X(S, uint64_t, Win32StartAddress, 0x60)           \
    X(S, uint64_t, TebBaseAddress, 0x68)              \
    X(S, uint64_t, Reserved2, 0x70)                   \
    X(S, uint64_t, Reserved3, 0x78)                   \
    X(S, uint64_t, Reserved4, 0x80)

#define SNAP_DISK_COUNTERS(X, S)              \
    X(S, uint64_t, BytesRead, 0x00)           \
    X(S, uint64_t, BytesWritten, 0x08)        \
    X(S, uint64_t, ReadOperationCount, 0x10)  \
    X(S, uint64_t, WriteOperationCount, 0x18) \
    X(S, uint64_t, FlushOperationCount, 0x20)

/* Behind the threads; offsets in it count from its own beginning. */
#define SNAP_EXTENSION(X, S)                            \
    X(S, struct snap_disk_counters, DiskCounters, 0x00) \
    X(S, uint64_t, ContextSwitches, 0x28)               \
    X(S, uint32_t, Flags, 0x30)                         \
    X(S, uint32_t, UserSidOffset, 0x34)                 \
    X(S, uint32_t, PackageFullNameOffset, 0x38)         \
    X(S, struct snap_energy_values, EnergyValues, 0x40) \
    X(S, uint32_t, AppIdOffset, 0x150)                  \
    X(S, uint64_t, SharedCommitCharge, 0x158)           \
    X(S, uint32_t, JobObjectId, 0x160)                  \
    X(S, uint32_t, SpareUlong, 0x164)                   \
    X(S, uint64_t, ProcessSequenceNumber, 0x168)

#define SNAP_PROCESS_BASIC(X, S)          \
    X(S, int32_t, ExitStatus, 0x00)       \
    X(S, uint64_t, PebBaseAddress, 0x08)  \
    X(S, uint64_t, AffinityMask, 0x10)    \
    X(S, int32_t, BasePriority, 0x18)     \
    X(S, uint64_t, UniqueProcessId, 0x20) \
    X(S, uint64_t, InheritedFromUniqueProcessId, 0x28)

#define SNAP_HANDLE_COUNTS(X, S) \
    X(S, uint32_t, HandleCount, 0x00) X(S, uint32_t, HandleCountHighWatermark, 0x04)

#define SNAP_MEMBER(S, type, field, at) type field;
#define SNAP_PLACED(S, type, field, at) \
    _Static_assert(offsetof(struct S, field) == (at), "where Windows has it");
#define SNAP_STRUCT(S, LIST, size) \
    struct S {                     \
        LIST(SNAP_MEMBER, S)       \
    };                             \
    LIST(SNAP_PLACED, S)           \
    _Static_assert(sizeof(struct S) == (size), "as Windows has it")

struct snap_energy_values { /* PROCESS_ENERGY_VALUES; nothing in it is read */
    uint64_t words[0x110 / 8];
};
SNAP_STRUCT(snap_unicode_string, SNAP_UNICODE_STRING, 0x10);
SNAP_STRUCT(snap_client_id, SNAP_CLIENT_ID, 0x10);
SNAP_STRUCT(snap_process, SNAP_PROCESS, 0x100); /* without the first thread */
SNAP_STRUCT(snap_thread_record, SNAP_THREAD, 0x50);
SNAP_STRUCT(snap_full_thread, SNAP_FULL_THREAD, 0x88);
SNAP_STRUCT(snap_disk_counters, SNAP_DISK_COUNTERS, 0x28);
SNAP_STRUCT(snap_extension, SNAP_EXTENSION, 0x170);
SNAP_STRUCT(snap_process_basic, SNAP_PROCESS_BASIC, 0x30);
SNAP_STRUCT(snap_handle_counts, SNAP_HANDLE_COUNTS, 0x08);

/* Of another process, where no class gives its command line: in its PEB, and from there. */
#define SNAP_PEB_PARAMETERS  0x20 /* PEB.ProcessParameters */
#define SNAP_PARAMETERS_LINE 0x70 /* RTL_USER_PROCESS_PARAMETERS.CommandLine */

#endif
