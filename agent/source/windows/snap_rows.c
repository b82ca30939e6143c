/* One entry:
 *
 *   0x000  process, 0x100 bytes; u32 at 0: distance to the next entry, 0 = last
 *   0x100  threads, 0x50 bytes each (class 5) or 0x88 (class 148), as many as u32 at 4 says
 *   then   the extension, where the system has one: disk counters, switches, u32 at 0x34: where
 *          in it the user's SID stands (class 148), more that grew between builds; only its
 *          first 0x38 bytes are read
 *   then   the image name, to which 0x40 points
 *
 * Nothing says whether the extension is there. The name does: it stands behind everything else, so
 * an extension is what fits between the threads and the name. Process 0 has no name and is not
 * given one. That class 5 has the extension since Windows 10 is other tools' knowledge; the probe
 * (snap_rows_unfit) drops its columns where they are not filled. */
#include "agent/source/windows/snap_rows.h"

#include <string.h>

#include "agent/source/windows/snap_layout.h"
#include "common/base/clk.h"
#include "common/base/cur.h"

#define ENTRY_BYTES     sizeof(struct snap_process)
#define EXTENSION_BYTES offsetof(struct snap_extension, Flags)

/* A field of an entry, a thread or the extension. */
#define AT(S, field)     offsetof(struct snap_##S, field)
#define U32(p, S, field) u32_at(p, AT(S, field))
#define U64(p, S, field) u64_at(p, AT(S, field))

#define THREAD_COLUMNS                                                 \
    (METRIC_BIT(M_SUSPENDED_THREADS) | METRIC_BIT(M_THREADS_RUNNING) | \
     METRIC_BIT(M_THREADS_READY) | METRIC_BIT(M_THREADS_WAITING) |     \
     METRIC_BIT(M_THREADS_TERMINATED))
#define FAULT_COLUMNS SNAP_U32_COLUMNS
#define POOL_COLUMNS  (METRIC_BIT(M_PAGED_POOL) | METRIC_BIT(M_NON_PAGED_POOL))
#define IO_COLUMNS                                                    \
    (METRIC_BIT(M_READ_OPERATIONS) | METRIC_BIT(M_WRITE_OPERATIONS) | \
     METRIC_BIT(M_OTHER_OPERATIONS) | METRIC_BIT(M_READ_BYTES) | METRIC_BIT(M_WRITE_BYTES))
#define EXTENSION_COLUMNS                                             \
    (METRIC_BIT(M_CONTEXT_SWITCHES) | METRIC_BIT(M_DISK_READ_BYTES) | \
     METRIC_BIT(M_DISK_WRITE_BYTES))

void snap_rows_init(struct snap_walk *w, const void *p, size_t n, uint64_t base, bool full)
{
    *w = (struct snap_walk){.p = p, .n = n, .base = base, .full = full, .end = n == 0};
}

/* -- numbers -- */

static uint32_t u32_at(const uint8_t *p, size_t offset)
{
    struct cur c = cur_make(p + offset, 4);

    return cur_u32le(&c);
}

static uint64_t u64_at(const uint8_t *p, size_t offset)
{
    struct cur c = cur_make(p + offset, 8);

    return cur_u64le(&c);
}

static void put(struct snap_row *row, unsigned column, uint64_t value)
{
    row->mask |= METRIC_BIT(column);
    row->values[column] = value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static void put_time(struct snap_row *row, unsigned column, uint64_t hundred_ns)
{
    put(row, column, hundred_ns > INT64_MAX / 100 ? INT64_MAX : hundred_ns * 100);
}

/* -- text -- */

/* One character of UTF-16LE as UTF-8; a lone surrogate becomes U+FFFD. Gives the units taken. */
static size_t put_character(const uint8_t *p, size_t units, char out[4], size_t *n)
{
    uint32_t c = (uint32_t)(p[0] | p[1] << 8);
    size_t taken = 1;

    if (c >= 0xd800 && c < 0xe000) {
        uint32_t low = units > 1 ? (uint32_t)(p[2] | p[3] << 8) : 0;
        bool pair = c < 0xdc00 && low >= 0xdc00 && low < 0xe000;

        taken = pair ? 2 : 1;
        c = pair ? 0x10000 + ((c & 0x3ff) << 10) + (low & 0x3ff) : 0xfffd;
    }
    *n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = *n; i-- > 1; c >>= 6) {
        out[i] = (char)(0x80 | (c & 0x3f));
    }
    out[0] = (char)(*n == 1 ? c : c | (0xf00u >> *n & 0xffu));
    return taken;
}

struct str snap_rows_text(char *out, size_t size, const uint8_t *p, size_t units, bool *cut)
{
    size_t n = 0;

    while (units > 0) {
        char c[4];
        size_t bytes, taken = put_character(p, units, c, &bytes);

        if (n + bytes > size) {
            break;
        }
        memcpy(out + n, c, bytes);
        n += bytes;
        p += 2 * taken;
        units -= taken;
    }
    *cut = units > 0;
    return (struct str){out, n};
}

/* Where a path's last part begins, in units. */
static size_t base_of(const uint8_t *p, size_t units)
{
    size_t base = 0;

    for (size_t i = 0; i < units; i++) {
        if (p[2 * i] == '\\' && p[2 * i + 1] == 0) {
            base = i + 1;
        }
    }
    return base;
}

/* -- one entry: `size` bytes at `e` -- */

/* Gives where the name stands in the entry, or `size`: it has none. */
static enum err name_of(const struct snap_walk *w, const uint8_t *e, size_t size, size_t *at,
                        size_t *units)
{
    uint64_t length = U32(e, process, ImageName.Length) & 0xffff;
    uint64_t address = U64(e, process, ImageName.Buffer);
    uint64_t start = w->base + (uint64_t)(e - w->p);

    *at = size;
    *units = 0;
    if (length == 0 || address == 0) {
        return ERR_OK;
    }
    if (length % 2 != 0 || address < start || address - start > size ||
        length > size - (address - start)) {
        return ERR_CORRUPT;
    }
    *at = (size_t)(address - start);
    *units = (size_t)length / 2;
    return ERR_OK;
}

static void take_name(struct snap_walk *w, const uint8_t *name, size_t units,
                      struct proc_info *info)
{
    size_t base = w->full ? base_of(name, units) : 0;
    bool cut;

    if (units == 0) {
        info->name = info->id.pid == 0 ? str_make("Idle") : str_make("");
        return;
    }
    info->name = snap_rows_text(w->name, SNAP_NAME_MAX, name + 2 * base, units - base, &cut);
    if (base > 0) {
        info->image = snap_rows_text(w->image, SNAP_IMAGE_MAX, name, units, &cut);
    }
}

static void take_info(const uint8_t *e, struct proc_info *info)
{
    uint64_t created = U64(e, process, CreateTime);

    info->id = (struct proc_id){U32(e, process, UniqueProcessId), created};
    info->origin = ORIGIN_SNAPSHOT;
    info->parent_pid = U32(e, process, InheritedFromUniqueProcessId);
    info->session_id = U32(e, process, SessionId);
    info->create_ns = created ? clk_from_filetime(created) : 0;
    info->have = INFO_PARENT | (info->session_id != UINT32_MAX ? INFO_SESSION : 0u) |
                 (created ? INFO_CREATE_TIME : 0u);
}

static void take_columns(const uint8_t *e, struct snap_row *row)
{
    put(row, M_THREAD_COUNT, U32(e, process, NumberOfThreads));
    put(row, M_PRIVATE_WORKING_SET, U64(e, process, WorkingSetPrivateSize));
    put(row, M_HARD_FAULTS, U32(e, process, HardFaultCount));
    put(row, M_CPU_CYCLES, U64(e, process, CycleTime));
    put_time(row, M_USER_TIME, U64(e, process, UserTime));
    put_time(row, M_KERNEL_TIME, U64(e, process, KernelTime));
    put(row, M_PRIORITY, U32(e, process, BasePriority));
    put(row, M_HANDLE_COUNT, U32(e, process, HandleCount));
    put(row, M_VIRTUAL_BYTES, U64(e, process, VirtualSize));
    put(row, M_PAGE_FAULTS, U32(e, process, PageFaultCount));
    put(row, M_PEAK_WORKING_SET, U64(e, process, PeakWorkingSetSize));
    put(row, M_WORKING_SET_SIZE, U64(e, process, WorkingSetSize));
    put(row, M_PAGED_POOL, U64(e, process, QuotaPagedPoolUsage));
    put(row, M_NON_PAGED_POOL, U64(e, process, QuotaNonPagedPoolUsage));
    put(row, M_PRIVATE_BYTES, U64(e, process, PrivatePageCount));
    put(row, M_READ_OPERATIONS, U64(e, process, ReadOperationCount));
    put(row, M_WRITE_OPERATIONS, U64(e, process, WriteOperationCount));
    put(row, M_OTHER_OPERATIONS, U64(e, process, OtherOperationCount));
    put(row, M_READ_BYTES, U64(e, process, ReadTransferCount));
    put(row, M_WRITE_BYTES, U64(e, process, WriteTransferCount));
}

static void take_threads(const uint8_t *threads, size_t n, size_t bytes, struct snap_row *row)
{
    uint64_t running = 0, ready = 0, waiting = 0, terminated = 0, suspended = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t state = u32_at(threads + i * bytes, AT(thread_record, ThreadState));
        uint32_t reason = u32_at(threads + i * bytes, AT(thread_record, WaitReason));

        running += state == SNAP_STATE_Running;
        ready += state == SNAP_STATE_Ready || state == SNAP_STATE_Standby ||
                 state == SNAP_STATE_DeferredReady;
        waiting += state == SNAP_STATE_Waiting || state == SNAP_STATE_Transition ||
                   state == SNAP_STATE_GateWaitObsolete ||
                   state == SNAP_STATE_WaitingForProcessInSwap;
        terminated += state == SNAP_STATE_Terminated;
        suspended += state == SNAP_STATE_Waiting &&
                     (reason == SNAP_REASON_Suspended || reason == SNAP_REASON_WrSuspended);
    }
    put(row, M_THREADS_RUNNING, running);
    put(row, M_THREADS_READY, ready);
    put(row, M_THREADS_WAITING, waiting);
    put(row, M_THREADS_TERMINATED, terminated);
    put(row, M_SUSPENDED_THREADS, suspended);
}

static void take_extension(const uint8_t *x, struct snap_row *row)
{
    put(row, M_DISK_READ_BYTES, U64(x, extension, DiskCounters.BytesRead));
    put(row, M_DISK_WRITE_BYTES, U64(x, extension, DiskCounters.BytesWritten));
    put(row, M_CONTEXT_SWITCHES, U64(x, extension, ContextSwitches));
}

/* Nothing says how long the extension is; what cannot be a SID there is none. */
static void take_user(struct snap_walk *w, const uint8_t *x, size_t n, struct proc_info *info)
{
    size_t at = n >= AT(extension, UserSidOffset) + 4 ? u32_at(x, AT(extension, UserSidOffset)) : 0;

    if (at >= AT(extension, UserSidOffset) + 4 && at < n) {
        info->user = (struct str){w->user, sid_text(w->user, sizeof w->user, x + at, n - at)};
    }
}

static enum err take_entry(struct snap_walk *w, const uint8_t *e, size_t size, struct snap_row *row)
{
    size_t thread_bytes =
        w->full ? sizeof(struct snap_full_thread) : sizeof(struct snap_thread_record);
    size_t n_threads = U32(e, process, NumberOfThreads), behind, name, units;
    enum err err = name_of(w, e, size, &name, &units);

    if (err || n_threads > (size - ENTRY_BYTES) / thread_bytes) {
        return ERR_CORRUPT;
    }
    behind = ENTRY_BYTES + n_threads * thread_bytes;
    if (units > 0 && name < behind) {
        return ERR_CORRUPT; /* inside what it names */
    }
    take_info(e, &row->info);
    take_name(w, e + (units > 0 ? name : 0), units, &row->info);
    take_columns(e, row);
    take_threads(e + ENTRY_BYTES, n_threads, thread_bytes, row);
    if (units > 0 && name - behind >= EXTENSION_BYTES) {
        take_extension(e + behind, row);
    }
    if (units > 0 && name - behind >= sizeof(struct snap_extension)) {
        row->info.sequence = U64(e + behind, extension, ProcessSequenceNumber);
    }
    if (units > 0 && w->full) {
        take_user(w, e + behind, size - behind, &row->info);
    }
    w->threads = e + ENTRY_BYTES;
    w->n_threads = n_threads;
    w->thread_bytes = thread_bytes;
    return ERR_OK;
}

enum err snap_rows_next(struct snap_walk *w, struct snap_row *out)
{
    size_t left = w->n - w->at, next;
    struct snap_row row = {.mask = 0};
    enum err e = ERR_CORRUPT;

    if (w->end) {
        return ERR_END;
    }
    if (left < ENTRY_BYTES) {
        goto fail;
    }
    next = U32(w->p + w->at, process, NextEntryOffset);
    if (next != 0 && (next < ENTRY_BYTES || next > left)) {
        goto fail;
    }
    e = take_entry(w, w->p + w->at, next ? next : left, &row);
    if (e) {
        goto fail;
    }
    w->at += next;
    w->end = next == 0;
    *out = row;
    return ERR_OK;

fail:
    w->end = true;
    return ERR_CORRUPT;
}

void snap_rows_thread(const struct snap_walk *w, size_t i, struct snap_thread *out)
{
    const uint8_t *t = w->threads + i * w->thread_bytes;

    *out = (struct snap_thread){.tid = u32_at(t, AT(thread_record, ClientId.UniqueThread)),
                                .created = u64_at(t, AT(thread_record, CreateTime)),
                                .time = u64_at(t, AT(thread_record, KernelTime)) +
                                        u64_at(t, AT(thread_record, UserTime)),
                                .switches = u32_at(t, AT(thread_record, ContextSwitches))};
}

/* -- probe -- */

static bool all_zero(const struct snap_row *row, metric_mask columns)
{
    for (unsigned i = 0; i < METRIC_COLS; i++) {
        if ((row->mask & columns & METRIC_BIT(i)) && row->values[i] != 0) {
            return false;
        }
    }
    return true;
}

metric_mask snap_rows_unfit(const struct snap_row *own, int64_t base_priority)
{
    static const struct {
        metric_mask witness, columns;
    } groups[] = {
        {METRIC_BIT(M_CPU_CYCLES), METRIC_BIT(M_CPU_CYCLES)},
        {METRIC_BIT(M_PRIVATE_BYTES), METRIC_BIT(M_PRIVATE_BYTES)},
        {METRIC_BIT(M_PAGE_FAULTS), FAULT_COLUMNS},
        {METRIC_BIT(M_PAGED_POOL), POOL_COLUMNS},
        {METRIC_BIT(M_HANDLE_COUNT), METRIC_BIT(M_HANDLE_COUNT)},
        {METRIC_BIT(M_READ_OPERATIONS), IO_COLUMNS},
        {METRIC_BIT(M_CONTEXT_SWITCHES), EXTENSION_COLUMNS},
        {METRIC_BIT(M_WORKING_SET_SIZE), METRIC_BIT(M_WORKING_SET_SIZE)},
        {METRIC_BIT(M_PEAK_WORKING_SET), METRIC_BIT(M_PEAK_WORKING_SET)},
        {METRIC_BIT(M_PRIVATE_WORKING_SET), METRIC_BIT(M_PRIVATE_WORKING_SET)},
        /* The asking thread runs. */
        {METRIC_BIT(M_THREADS_RUNNING), THREAD_COLUMNS},
    };
    metric_mask unfit = 0;

    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        if (all_zero(own, groups[i].witness)) {
            unfit |= groups[i].columns;
        }
    }
    if (own->values[M_PRIORITY] != base_priority) {
        unfit |= METRIC_BIT(M_PRIORITY);
    }
    return unfit;
}
