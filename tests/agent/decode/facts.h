/* What decode.c makes of a payload, held against the same payload's fields by name: whoever reads
 * fast must read what the table says. */
#ifndef PROCFLEET_TESTS_AGENT_DECODE_FACTS_H
#define PROCFLEET_TESTS_AGENT_DECODE_FACTS_H

#include "tests/support/t.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "agent/source/event.h"
#include "common/base/clk.h"
#include "tests/support/vectors.h"

/* A number of a fact, and the field it comes from. */
struct facts_row {
    enum event_kind first, last;
    const char *field;
    size_t offset, size;
};

#define FACTS_ROW(first, last, field, member)                                                      \
    {                                                                                              \
        first, last, field, offsetof(struct event, member), sizeof(((struct event *)NULL)->member) \
    }

static const struct facts_row facts_numbers[] = {
    FACTS_ROW(EV_PROC_START, EV_PROC_DEFUNCT, "ProcessId", u.proc.info.id.pid),
    FACTS_ROW(EV_PROC_START, EV_PROC_DEFUNCT, "ProcessID", u.proc.info.id.pid),
    FACTS_ROW(EV_PROC_START, EV_PROC_DEFUNCT, "ParentId", u.proc.info.parent_pid),
    FACTS_ROW(EV_PROC_START, EV_PROC_DEFUNCT, "ParentProcessID", u.proc.info.parent_pid),
    FACTS_ROW(EV_PROC_START, EV_PROC_DEFUNCT, "SessionId", u.proc.info.session_id),
    FACTS_ROW(EV_PROC_START, EV_PROC_DEFUNCT, "SessionID", u.proc.info.session_id),
    FACTS_ROW(EV_PROC_STOP, EV_PROC_STOP, "ExitStatus", u.proc.info.exit_code),
    FACTS_ROW(EV_PROC_STOP, EV_PROC_STOP, "ExitCode", u.proc.info.exit_code),
    FACTS_ROW(EV_PROC_START, EV_PROC_DEFUNCT, "UniqueProcessKey", u.proc.key),
    FACTS_ROW(EV_PROC_START, EV_PROC_DEFUNCT, "PageDirectoryBase", u.proc.key),
    FACTS_ROW(EV_PROC_START, EV_PROC_DEFUNCT, "CreateTime", u.proc.info.create_ns),
    FACTS_ROW(EV_PROC_STOP, EV_PROC_STOP, "ExitTime", u.proc.info.exit_ns),
    FACTS_ROW(EV_PROC_DEFUNCT, EV_PROC_DEFUNCT, "ExitTime", u.proc.info.exit_ns),
    FACTS_ROW(EV_THREAD_START, EV_THREAD_LAST, "ProcessId", u.thread.pid),
    FACTS_ROW(EV_THREAD_START, EV_THREAD_LAST, "TThreadId", u.thread.tid),
    FACTS_ROW(EV_THREAD_START, EV_THREAD_LAST, "ProcessID", u.thread.pid),
    FACTS_ROW(EV_THREAD_START, EV_THREAD_LAST, "ThreadID", u.thread.tid),
    FACTS_ROW(EV_THREAD_NAME, EV_THREAD_NAME, "ProcessId", u.thread.pid),
    FACTS_ROW(EV_THREAD_NAME, EV_THREAD_NAME, "TThreadId", u.thread.tid),
    FACTS_ROW(EV_IMAGE_LOAD, EV_IMAGE_LAST, "BaseAddress", u.image.base),
    FACTS_ROW(EV_IMAGE_LOAD, EV_IMAGE_LAST, "ModuleSize", u.image.size),
    FACTS_ROW(EV_IMAGE_LOAD, EV_IMAGE_LAST, "ProcessId", u.image.pid),
    FACTS_ROW(EV_IMAGE_LOAD, EV_IMAGE_LAST, "ImageBase", u.image.base),
    FACTS_ROW(EV_IMAGE_LOAD, EV_IMAGE_LAST, "ImageSize", u.image.size),
    FACTS_ROW(EV_IMAGE_LOAD, EV_IMAGE_LAST, "ProcessID", u.image.pid),
    FACTS_ROW(EV_IMAGE_LOAD, EV_IMAGE_LAST, "ImageCheckSum", u.image.checksum),
    FACTS_ROW(EV_IMAGE_LOAD, EV_IMAGE_LAST, "TimeDateStamp", u.image.time_stamp),
    FACTS_ROW(EV_CPU_SAMPLE, EV_CPU_SAMPLE, "InstructionPointer", u.sample.ip),
    FACTS_ROW(EV_CPU_SAMPLE, EV_CPU_SAMPLE, "ThreadId", u.sample.tid),
    FACTS_ROW(EV_CPU_PMC, EV_CPU_PMC, "InstructionPointer", u.pmc.ip),
    FACTS_ROW(EV_CPU_PMC, EV_CPU_PMC, "ThreadId", u.pmc.tid),
    FACTS_ROW(EV_CPU_PMC, EV_CPU_PMC, "ProfileSource", u.pmc.source),
    FACTS_ROW(EV_CSWITCH, EV_CSWITCH, "NewThreadId", u.cswitch.new_tid),
    FACTS_ROW(EV_CSWITCH, EV_CSWITCH, "OldThreadId", u.cswitch.old_tid),
    FACTS_ROW(EV_CSWITCH, EV_CSWITCH, "NewThreadPriority", u.cswitch.new_priority),
    FACTS_ROW(EV_CSWITCH, EV_CSWITCH, "OldThreadPriority", u.cswitch.old_priority),
    FACTS_ROW(EV_CSWITCH, EV_CSWITCH, "OldThreadWaitReason", u.cswitch.old_wait_reason),
    FACTS_ROW(EV_CSWITCH, EV_CSWITCH, "OldThreadWaitMode", u.cswitch.old_wait_mode),
    FACTS_ROW(EV_CSWITCH, EV_CSWITCH, "OldThreadState", u.cswitch.old_state),
    FACTS_ROW(EV_CSWITCH, EV_CSWITCH, "NewThreadWaitTime", u.cswitch.new_wait_time),
    FACTS_ROW(EV_READY, EV_READY, "TThreadId", u.ready.tid),
    FACTS_ROW(EV_DPC, EV_ISR, "Routine", u.interrupt.routine),
    FACTS_ROW(EV_SYSCALL_ENTER, EV_SYSCALL_ENTER, "SysCallAddress", u.syscall.address),
    FACTS_ROW(EV_SYSCALL_EXIT, EV_SYSCALL_EXIT, "SysCallNtStatus", u.syscall.status),
    FACTS_ROW(EV_SOFT_FAULT, EV_SOFT_FAULT, "VirtualAddress", u.soft_fault.address),
    FACTS_ROW(EV_SOFT_FAULT, EV_SOFT_FAULT, "ProgramCounter", u.soft_fault.ip),
    FACTS_ROW(EV_HARD_FAULT, EV_HARD_FAULT, "ReadOffset", u.hard_fault.offset),
    FACTS_ROW(EV_HARD_FAULT, EV_HARD_FAULT, "VirtualAddress", u.hard_fault.address),
    FACTS_ROW(EV_HARD_FAULT, EV_HARD_FAULT, "FileObject", u.hard_fault.file),
    FACTS_ROW(EV_HARD_FAULT, EV_HARD_FAULT, "TThreadId", u.hard_fault.tid),
    FACTS_ROW(EV_HARD_FAULT, EV_HARD_FAULT, "ByteCount", u.hard_fault.bytes),
    FACTS_ROW(EV_VIRTUAL_ALLOC, EV_VIRTUAL_FREE, "BaseAddress", u.vm.base),
    FACTS_ROW(EV_VIRTUAL_ALLOC, EV_VIRTUAL_FREE, "RegionSize", u.vm.size),
    FACTS_ROW(EV_VIRTUAL_ALLOC, EV_VIRTUAL_FREE, "ProcessId", u.vm.pid),
    FACTS_ROW(EV_DISK_INIT, EV_DISK_FLUSH, "Irp", u.disk.irp),
    FACTS_ROW(EV_DISK_INIT, EV_DISK_FLUSH, "IssuingThreadId", u.disk.issuer_tid),
    FACTS_ROW(EV_DISK_READ, EV_DISK_WRITE, "TransferSize", u.disk.bytes),
    FACTS_ROW(EV_DISK_READ, EV_DISK_WRITE, "ByteOffset", u.disk.offset),
    FACTS_ROW(EV_NET, EV_NET, "PID", u.net.pid),
    FACTS_ROW(EV_NET, EV_NET, "size", u.net.bytes),
    FACTS_ROW(EV_REGISTRY, EV_REGISTRY, "Status", u.registry.status),
    FACTS_ROW(EV_STACK, EV_STACK, "StackProcess", u.stack.pid),
    FACTS_ROW(EV_STACK, EV_STACK, "StackThread", u.stack.tid),
    FACTS_ROW(EV_STACK, EV_STACK, "StackKey", u.stack.key),
};

static const struct facts_row facts_texts[] = {
    FACTS_ROW(EV_PROC_START, EV_PROC_DEFUNCT, "CommandLine", u.proc.info.command_line),
    FACTS_ROW(EV_PROC_START, EV_PROC_DEFUNCT, "ImageFileName", u.proc.info.name),
    FACTS_ROW(EV_PROC_START, EV_PROC_START, "ImageName", u.proc.info.image),
    FACTS_ROW(EV_PROC_FOUND, EV_PROC_FOUND, "ImageName", u.proc.info.image),
    FACTS_ROW(EV_PROC_START, EV_PROC_DEFUNCT, "UserSID", u.proc.info.user),
    FACTS_ROW(EV_PROC_START, EV_PROC_DEFUNCT, "PackageFullName", u.proc.package),
    FACTS_ROW(EV_THREAD_START, EV_THREAD_LAST, "ThreadName", u.thread.name),
    FACTS_ROW(EV_THREAD_NAME, EV_THREAD_NAME, "ThreadName", u.thread.name),
    FACTS_ROW(EV_IMAGE_LOAD, EV_IMAGE_LAST, "ImageFileName", u.image.path),
    FACTS_ROW(EV_IMAGE_LOAD, EV_IMAGE_LAST, "FileName", u.image.path),
    FACTS_ROW(EV_IMAGE_LOAD, EV_IMAGE_LAST, "ImageName", u.image.path),
};

static inline const struct values_row *facts_field(const struct facts_row *row,
                                                   const struct event *ev, const struct values *v)
{
    const struct values_row *field = values_find(v, str_make(row->field), 0);

    return ev->kind >= row->first && ev->kind <= row->last && field && !field->group ? field : NULL;
}

static inline bool facts_is_time(const struct facts_row *row)
{
    return strcmp(row->field, "CreateTime") == 0 || strcmp(row->field, "ExitTime") == 0;
}

/* Gives how many facts could be held against a field; prints and counts those that differ. */
static inline size_t facts_agree(const struct event *ev, const struct values *v, size_t *differ)
{
    size_t n = 0;

    for (size_t i = 0; i < COUNT_OF(facts_numbers); i++) {
        const struct facts_row *row = &facts_numbers[i];
        const struct values_row *field = facts_field(row, ev, v);
        uint64_t fact = 0, given = field ? field->value.v.u : 0;

        if (!field || (field->value.kind == VALUE_UINT && facts_is_time(row))) {
            continue; /* no moment was stored: no fact */
        }
        memcpy(&fact, (const char *)ev + row->offset, row->size);
        if (row->size < 8) {
            given &= (UINT64_C(1) << 8 * row->size) - 1;
        }
        n++;
        if (fact != given) {
            (*differ)++;
            printf("%s: %llx is not %llx\n", row->field, (unsigned long long)fact,
                   (unsigned long long)given);
        }
    }
    for (size_t i = 0; i < COUNT_OF(facts_texts); i++) {
        const struct facts_row *row = &facts_texts[i];
        const struct values_row *field = facts_field(row, ev, v);
        struct str fact;

        if (!field || (field->value.kind != VALUE_TEXT && field->value.kind != VALUE_SID)) {
            continue;
        }
        memcpy(&fact, (const char *)ev + row->offset, sizeof fact);
        n++;
        if (!str_eq(fact, field->value.v.text)) {
            (*differ)++;
            printf("%s: \"%.*s\" is not \"%.*s\"\n", row->field, (int)fact.n, fact.p,
                   (int)field->value.v.text.n, field->value.v.text.p);
        }
    }
    return n;
}

#endif
