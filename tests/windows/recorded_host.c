#include "tests/windows/recorded_host.h"

#include <stdlib.h>
#include <string.h>

#include "agent/monitor.h"
#include "agent/source/etw_guid.h"
#include "agent/source/trace/etl_file.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/win32.h"
#include "tests/support/snap_gen.h"
#include "tests/support/t.h"

#define PIDS        (1u << 16) /* chains of lives, by number */
#define NAME_UNITS  64
#define TABLE_BYTES ((size_t)64 << 20)

#define CLASS_PROCESSES 5
#define CLASS_EXTENDED  57 /* of which there is no table here */
#define CLASS_FULL      148
#define LENGTH_MISMATCH ((NTSTATUS)0xC0000004)
#define INVALID_CLASS   ((NTSTATUS)0xC0000003)

struct life {
    struct proc_info info; /* its texts are not kept */
    char16_t name[NAME_UNITS];
    int64_t born_ns, died_ns; /* recorded UTC; INT64_MIN, INT64_MAX: beyond the recording */
    size_t older;             /* index + 1 of the next one in its chain; 0 = none */
};

/* Everything is kept for ever. */
struct tick {
    int64_t wall_ns; /* recorded UTC */
    int64_t *cpu_ns; /* of the first n lives */
    size_t n;
};

static struct {
    struct life *lives;
    size_t n, room;
    size_t newest[PIDS]; /* index + 1 */
    struct tick *times;
    size_t n_times, times_room;
    int64_t permille; /* of its time to ours */
    int64_t delay_ns;
    int64_t first_ns;      /* recorded UTC of the beginning */
    int64_t hour_ago_ns;   /* UTC */
    struct os_mutex *lock; /* guards the rest */
    bool begun;
    int64_t ticks, mono_ns, utc_ns; /* of here, at the beginning */
    struct buf table;
} host;

static uint64_t frequency;
static bool (*asked_for)(void);

/* ---- reading ---- */

/* Recordings of any length: both arrays grow. */
static void *grown(void *p, size_t n, size_t *room, size_t size)
{
    if (n == *room) {
        *room = *room ? 2 * *room : 256;
        p = realloc(p, *room * size);
        MUST(p != NULL);
    }
    return p;
}

static size_t *chain_of(uint32_t pid)
{
    return &host.newest[pid / 4 % PIDS];
}

/* By identity; else by number: of who lives on the creation may become known later. */
static struct life *life_of(const struct proc_info *info, bool starts)
{
    size_t *newest = chain_of(info->id.pid);
    struct life *l;

    for (size_t i = *newest; i; i = l->older) {
        l = &host.lives[i - 1];
        if (proc_id_eq(l->info.id, info->id) ||
            (!starts && l->info.id.pid == info->id.pid && l->died_ns == INT64_MAX)) {
            return l;
        }
    }
    host.lives = grown(host.lives, host.n, &host.room, sizeof *host.lives);
    l = &host.lives[host.n++];
    *l = (struct life){
        .info.id = info->id, .born_ns = INT64_MIN, .died_ns = INT64_MAX, .older = *newest};
    *newest = host.n;
    return l;
}

static struct life *know(const struct proc_info *info, bool starts)
{
    struct life *l = life_of(info, starts);
    int n;

    l->info = *info;
    if (info->name.n > 0 && info->name.n < NAME_UNITS) {
        n = MultiByteToWideChar(CP_UTF8, 0, info->name.p, (int)info->name.n, (WCHAR *)l->name,
                                NAME_UNITS - 1);
        l->name[n] = 0;
    }
    return l;
}

static void on_tick(void *ctx, const struct sample_tick *tick)
{
    const struct tick *before;
    struct tick *t;

    (void)ctx;
    for (size_t i = 0; i < tick->n_rows; i++) {
        know(tick->rows[i].info, false);
    }
    host.times = grown(host.times, host.n_times, &host.times_room, sizeof *host.times);
    t = &host.times[host.n_times++];
    *t = (struct tick){.wall_ns = tick->wall_ns, .n = host.n};
    t->cpu_ns = mem_array(host.n + 1, sizeof *t->cpu_ns);
    MUST(t->cpu_ns != NULL);
    before = host.n_times > 1 ? t - 1 : NULL;
    if (before) {
        memcpy(t->cpu_ns, before->cpu_ns, before->n * sizeof *t->cpu_ns);
    }
    for (size_t i = 0; i < tick->n_rows; i++) {
        const struct sample_row *row = &tick->rows[i];

        if (row->mask & METRIC_BIT(M_CPU_TIME)) {
            t->cpu_ns[life_of(row->info, false) - host.lives] = row->values[M_CPU_TIME];
        }
    }
}

static void on_life(void *ctx, const struct life_event *ev)
{
    (void)ctx;
    if (ev->kind == LIFE_PROCESS_START) {
        know(&ev->info, true)->born_ns = ev->wall_ns;
    } else if (ev->kind == LIFE_PROCESS_STOP) {
        know(&ev->info, false)->died_ns = ev->wall_ns;
    }
}

static enum err open_file(void *ctx, struct source **out, struct source_sink sink,
                          struct errmsg *why)
{
    const char *path = ctx;
    struct etl_file_conf conf = {.paths = &path, .n_paths = 1};

    return etl_file_open(out, &conf, sink, why);
}

void recorded_host_open(const char *path, unsigned speed_permille, unsigned delay_ms)
{
    struct monitor_conf conf = {.open = open_file,
                                .open_ctx = (void *)(uintptr_t)path,
                                .period_ns = RECORDED_PERIOD_NS,
                                .processes_max = MODEL_PROCESSES_MAX,
                                .tick = on_tick,
                                .life = on_life};
    struct errmsg why = {""};
    LARGE_INTEGER per_second;
    struct monitor *m;

    QueryPerformanceFrequency(&per_second);
    frequency = (uint64_t)per_second.QuadPart;
    host.permille = speed_permille;
    host.delay_ns = (int64_t)delay_ms * CLK_MS;
    host.hour_ago_ns = os_utc_ns() - 3600 * CLK_S;
    MUST(os_mutex_create(&host.lock) == ERR_OK);
    buf_init(&host.table, TABLE_BYTES);
    MUST(monitor_create(&m, &conf, &why) == ERR_OK);
    MUST(monitor_run(m) == ERR_END);
    host.first_ns = monitor_about(m)->first_wall_ns;
    monitor_destroy(m);
}

/* ---- time ---- */

/* Locked. */
static void begin(void)
{
    LARGE_INTEGER now;

    if (!host.begun) {
        QueryPerformanceCounter(&now);
        host.ticks = now.QuadPart + host.delay_ns / 100 * (int64_t)frequency / 10000000;
        host.mono_ns = os_mono_ns() + host.delay_ns;
        host.utc_ns = os_utc_ns() + host.delay_ns;
        host.begun = true;
    }
}

void recorded_host_begin(void)
{
    os_mutex_lock(host.lock);
    begin();
    os_mutex_unlock(host.lock);
}

/* How long after the beginning, here, that moment of the recording comes. */
static int64_t after(int64_t recorded_ns)
{
    return (recorded_ns - host.first_ns) * 1000 / host.permille;
}

static int64_t recorded_now(void)
{
    return host.begun ? host.first_ns + (os_mono_ns() - host.mono_ns) * host.permille / 1000
                      : host.first_ns;
}

uint64_t recorded_host_frequency(void)
{
    return frequency;
}

static void move_filetime(uint8_t *p)
{
    uint64_t filetime;

    memcpy(&filetime, p, sizeof filetime);
    if (filetime) {
        filetime = clk_to_filetime(host.utc_ns + after(clk_from_filetime(filetime)));
        memcpy(p, &filetime, sizeof filetime);
    }
}

/* Times of creation and exit, which the manifest provider's payloads hold. */
static void move_payload(struct raw_event *raw, uint8_t *room)
{
    static const uint8_t kernel_process[16] = ETW_PROVIDER_KERNEL_PROCESS;
    bool start = raw->id == 1, stop = raw->id == 2, found = raw->id == 15;
    bool sequence =
        (start && raw->version >= 3) || (stop && raw->version >= 2) || (found && raw->version >= 1);
    size_t at = sequence ? 12 : 4;

    if (raw->form != RAW_MANIFEST || memcmp(raw->guid, kernel_process, 16) != 0 ||
        !(start || stop || found) || raw->payload_n < at + 16) {
        return;
    }
    memcpy(room, raw->payload, raw->payload_n);
    move_filetime(room + at);
    if (stop) {
        move_filetime(room + at + 8);
    }
    raw->payload = room;
}

static bool tells_who_lives(const struct raw_event *raw)
{
    static const uint8_t classes[][16] = {ETW_CLASS_PROCESS, ETW_CLASS_THREAD, ETW_CLASS_IMAGE};

    for (size_t i = 0; i < COUNT_OF(classes); i++) {
        if (raw->opcode == 3 && memcmp(raw->guid, classes[i], 16) == 0) {
            return true;
        }
    }
    return false;
}

bool recorded_host_move(struct raw_event *raw, uint8_t *room, int64_t since_ns)
{
    int64_t after_ns = after(raw->wall_ns);

    if (host.mono_ns + after_ns < since_ns) {
        if (!tells_who_lives(raw)) {
            return false;
        }
        after_ns = since_ns - host.mono_ns;
    }

    raw->ticks = host.ticks + after_ns / 100 * (int64_t)frequency / 10000000;
    raw->frequency = frequency;
    raw->mono_ns = host.mono_ns + after_ns;
    raw->wall_ns = host.utc_ns + after_ns;
    move_payload(raw, room);
    return true;
}

/* ---- the table ---- */

static const struct tick *tick_of(int64_t recorded_ns)
{
    size_t at = 0;

    while (at + 1 < host.n_times && host.times[at + 1].wall_ns <= recorded_ns) {
        at++;
    }
    return host.n_times ? &host.times[at] : NULL;
}

/* Those whose start is not recorded have lived for an hour. */
static uint64_t created(const struct life *l)
{
    const struct proc_info *info = &l->info;

    if (l->born_ns == INT64_MIN) {
        return clk_to_filetime(host.hour_ago_ns) + info->id.pid;
    }
    return clk_to_filetime(host.utc_ns +
                           after(info->have & INFO_CREATE_TIME ? info->create_ns : l->born_ns));
}

static void put_life(size_t i, const struct tick *tick, uintptr_t base)
{
    const struct life *l = &host.lives[i];
    struct snap_gen_process p = {
        .pid = l->info.id.pid,
        .parent = l->info.have & INFO_PARENT ? l->info.parent_pid : 0,
        .session = l->info.have & INFO_SESSION ? l->info.session_id : UINT32_MAX,
        .created = l->info.id.pid ? created(l) : 0,
        .name = l->info.id.pid ? l->name : NULL,
        .user = tick && i < tick->n ? (uint64_t)(tick->cpu_ns[i] / 100) : 0,
    };

    snap_gen_put(&host.table, base, false, &p, false);
}

static void put_own(uintptr_t base)
{
    static const struct snap_gen_thread running = {.tid = 1, .state = 2};
    struct snap_gen_process p = {.pid = os_process_id(),
                                 .created = clk_to_filetime(host.hour_ago_ns),
                                 .name = u"procfleet-agent.exe",
                                 .threads = &running,
                                 .n_threads = 1,
                                 .page_faults = 1,
                                 .hard_faults = 1};
    FILETIME birth, ended, kernel, user;

    if (GetProcessTimes(GetCurrentProcess(), &birth, &ended, &kernel, &user)) {
        p.created = (uint64_t)birth.dwHighDateTime << 32 | birth.dwLowDateTime;
        p.user = (uint64_t)user.dwHighDateTime << 32 | user.dwLowDateTime;
        p.kernel = (uint64_t)kernel.dwHighDateTime << 32 | kernel.dwLowDateTime;
    }
    snap_gen_put(&host.table, base, false, &p, true);
}

/* Locked. It will stand at `base`. */
static void make_table(uintptr_t base)
{
    int64_t now_ns = recorded_now();
    const struct tick *tick = tick_of(now_ns);

    buf_reset(&host.table);
    for (size_t i = 0; i < host.n; i++) {
        const struct life *l = &host.lives[i];

        if (l->born_ns <= now_ns && now_ns < l->died_ns) {
            put_life(i, tick, base);
        }
    }
    put_own(base);
}

static NTSTATUS NTAPI answer(SYSTEM_INFORMATION_CLASS what, void *out, ULONG size, ULONG *got)
{
    NTSTATUS status = LENGTH_MISMATCH;

    int class = (int)what;
    bool processes = class == CLASS_PROCESSES || class == CLASS_EXTENDED || class == CLASS_FULL;

    if (!processes || !asked_for()) {
        return NtQuerySystemInformation(what, out, size, got);
    }
    if (class != CLASS_PROCESSES) {
        return INVALID_CLASS;
    }
    os_mutex_lock(host.lock);
    make_table((uintptr_t)out);
    if (host.table.n <= size) {
        memcpy(out, host.table.p, host.table.n);
        status = 0;
    }
    if (got) {
        *got = (ULONG)host.table.n;
    }
    os_mutex_unlock(host.lock);
    return status;
}

bool recorded_host_collides(void)
{
    for (size_t i = 0; i < host.n; i++) {
        if (host.lives[i].info.id.pid == os_process_id()) {
            return true;
        }
    }
    return false;
}

/* ---- the program's import ---- */

static ULONGLONG *import_of(uint8_t *module, const void *function)
{
    const IMAGE_DOS_HEADER *dos = (const void *)module;
    const IMAGE_NT_HEADERS64 *nt = (const void *)(module + dos->e_lfanew);
    const IMAGE_DATA_DIRECTORY *dir =
        &nt->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_IMPORT];
    const IMAGE_IMPORT_DESCRIPTOR *d = (const void *)(module + dir->VirtualAddress);

    for (; dir->VirtualAddress && d->Name; d++) {
        ULONGLONG *slot = (ULONGLONG *)(void *)(module + d->FirstThunk);

        for (; *slot; slot++) {
            if (*slot == (ULONGLONG)(uintptr_t)function) {
                return slot;
            }
        }
    }
    return NULL;
}

/* Puts ours in the place of what the program imports from `library`. */
static bool replace(const WCHAR *library, const char *name, uintptr_t ours)
{
    HMODULE module = GetModuleHandleW(library);
    FARPROC real = module ? GetProcAddress(module, name) : NULL;
    ULONGLONG *slot;
    void *address;
    DWORD rights;

    memcpy(&address, &real, sizeof address);
    slot = real ? import_of((uint8_t *)GetModuleHandleW(NULL), address) : NULL;
    if (!slot || !VirtualProtect(slot, sizeof *slot, PAGE_READWRITE, &rights)) {
        return false;
    }
    *slot = (ULONGLONG)ours;
    return VirtualProtect(slot, sizeof *slot, rights, &rights);
}

/* What names a thing of the whole system names one of this host only: others run beside it. */
static HANDLE WINAPI own_mutex(SECURITY_ATTRIBUTES *rights, BOOL owned, const WCHAR *name)
{
    WCHAR own[MAX_PATH];

    if (!name || wcslen(name) + 16 > MAX_PATH) {
        return CreateMutexW(rights, owned, name);
    }
    swprintf(own, MAX_PATH, L"%ls-%u", name, (unsigned)os_process_id());
    return CreateMutexW(rights, owned, own);
}

bool recorded_host_hook(bool (*asked)(void))
{
    asked_for = asked;
    (void)replace(L"kernel32.dll", "CreateMutexW", (uintptr_t)own_mutex);
    return replace(L"ntdll.dll", "NtQuerySystemInformation", (uintptr_t)answer);
}
