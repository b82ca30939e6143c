/* The trials that need a session; each has sessions of its own, that end before the next begins. */
#include <stdio.h>
#include <string.h>

#include "agent/conf/etw_conf.h"
#include "agent/doctor/doctor_dump.h"
#include "agent/doctor/doctor_proof.h"
#include "agent/doctor/doctor_trial_win32.h"
#include "agent/source/etw_guid.h"
#include "agent/source/windows/etw_owner.h"
#include "common/base/clk.h"
#include "common/base/mem.h"

#define NAME_UNITS  1024
#define LISTED_MAX  64
#define STARTS_MAX  256
#define MANY        100 /* children of a trial; a burst has four times as many */
#define WIDE        40  /* children at once */
#define SESSION     L"procfleet-doctor"
#define SLOTS_MAX   10
#define LESS_GROUPS 6
#define KP_SEQUENCE 4 /* offset in a start of version 3 and up */

static struct { /* the functions of the system, while what they answer is dumped */
    const struct etw_api *real;
    struct doctor_dump *dump;
} wrapped;

static ULONG WINAPI dumped_start(TRACEHANDLE *h, const WCHAR *name, EVENT_TRACE_PROPERTIES *p)
{
    ULONG code = wrapped.real->start(h, name, p);

    doctor_dump_call(wrapped.dump, "start", code, p, p->Wnode.BufferSize);
    return code;
}

static ULONG WINAPI dumped_control(TRACEHANDLE h, const WCHAR *name, EVENT_TRACE_PROPERTIES *p,
                                   ULONG what)
{
    static const char *const calls[] = {"query", "stop", "update", "flush"};
    ULONG code = wrapped.real->control(h, name, p, what);

    if (what != EVENT_TRACE_CONTROL_FLUSH) { /* too many, and they say nothing */
        doctor_dump_call(wrapped.dump, what < 4 ? calls[what] : "control", code, p,
                         p->Wnode.BufferSize);
    }
    return code;
}

/* -- session: identifier, growth -- */

struct block {
    EVENT_TRACE_PROPERTIES p;
    WCHAR names[2][NAME_UNITS];
};

static void block_fill(struct block *b)
{
    memset(b, 0, sizeof *b);
    b->p.Wnode.BufferSize = sizeof *b;
    b->p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    b->p.LoggerNameOffset = offsetof(struct block, names);
    b->p.LogFileNameOffset = offsetof(struct block, names) + sizeof b->names[0];
}

static bool listed(const struct etw_api *api, const GUID *guid)
{
    struct block *blocks = mem_alloc(LISTED_MAX * sizeof *blocks);
    EVENT_TRACE_PROPERTIES *all[LISTED_MAX];
    ULONG n = 0;
    bool found = false;

    if (!blocks) {
        return false;
    }
    for (size_t i = 0; i < LISTED_MAX; i++) {
        block_fill(&blocks[i]);
        all[i] = &blocks[i].p;
    }
    if (api->list(all, LISTED_MAX, &n) == ERROR_SUCCESS) {
        for (ULONG i = 0; i < n && i < LISTED_MAX; i++) {
            found |= memcmp(&all[i]->Wnode.Guid, guid, sizeof *guid) == 0;
        }
    }
    mem_free(blocks);
    return found;
}

static void try_session(struct doctor_proof *out, const struct etw_api *api,
                        struct doctor_dump *dump)
{
    struct doctor_trial_conf conf = {.api = api, .flags = ETW_FLAG_PROCESS, .dump = dump};
    struct doctor_trial *t;
    struct block *b = mem_alloc(sizeof *b);
    ULONG masks[8] = {ETW_FLAG_PROCESS};
    GUID ours;

    if (!b || doctor_trial_begin(&t, &conf, &out->why) != ERR_OK) {
        mem_free(b);
        return;
    }
    out->sessions = true;
    out->flags_code =
        api->set_info(etw_ctl_handle(t->ctl), TraceSystemTraceEnableFlagsInfo, masks, sizeof masks);
    doctor_trial_guid(t, (uint8_t *)&ours);
    block_fill(b);
    if (api->control(0, SESSION, &b->p, EVENT_TRACE_CONTROL_QUERY) == ERROR_SUCCESS) {
        out->guid_query = memcmp(&b->p.Wnode.Guid, &ours, sizeof ours) == 0;
        out->mode_asked = b->p.LogFileMode;
        out->flags_asked = b->p.EnableFlags;
        out->buffers_asked = 2 * b->p.MaximumBuffers;
    }
    out->guid_list = listed(api, &ours);
    if (etw_ctl_buffers(t->ctl, out->buffers_asked, NULL) == ERR_OK) {
        block_fill(b);
        out->updated = api->control(0, SESSION, &b->p, EVENT_TRACE_CONTROL_QUERY) == ERROR_SUCCESS;
        out->flags_got = b->p.EnableFlags;
        out->buffers_got = b->p.MaximumBuffers;
        out->mode_got = b->p.LogFileMode;
    }
    doctor_trial_free(t);
    mem_free(b);
}

/* -- flags, one by one -- */

struct counted {
    uint8_t guid[16];
    uint64_t n;
};

static void count_class(void *ctx, const struct raw_event *raw, const struct event *ev)
{
    struct counted *c = ctx;
    bool rundown = raw->opcode == 3 || raw->opcode == 4; /* DCStart, DCEnd of every class */

    (void)ev;
    c->n += memcmp(raw->guid, c->guid, sizeof c->guid) == 0 && !rundown;
}

static void work_a_little(unsigned children, const char *dir)
{
    static uint8_t block[64u << 10];
    char *path = dir ? os_path_join(dir, "doctor-flags.probe") : NULL;

    for (unsigned i = 0; i < children && i < 8; i++) {
        PROCESS_INFORMATION p;

        if (doctor_try_spawn(&p, i, false)) {
            (void)doctor_try_reap(&p);
        }
    }
    if (path && os_write_file(path, block, sizeof block, true) == ERR_OK) {
        err_ignore(os_remove(path));
    }
    mem_free(path);
}

static void try_flags(struct doctor_proof *out, const struct etw_api *api, struct doctor_dump *dump,
                      unsigned children, int64_t patience_ns)
{
    static const struct {
        struct doctor_proof_flag flag;
        uint8_t guid[16];
    } all[DOCTOR_PROOF_FLAGS] = {
        {{"PROCESS", "Process", ETW_FLAG_PROCESS, false, false, false, 0}, ETW_CLASS_PROCESS},
        {{"THREAD", "Thread", ETW_FLAG_THREAD, false, false, false, 0}, ETW_CLASS_THREAD},
        {{"IMAGE_LOAD", "Image", ETW_FLAG_IMAGE, false, false, false, 0}, ETW_CLASS_IMAGE},
        {{"CSWITCH", "Thread", ETW_FLAG_CSWITCH, false, false, false, 0}, ETW_CLASS_THREAD},
        {{"HARD_FAULTS", "PageFault", ETW_FLAG_HARD_FAULTS, false, false, true, 0},
         ETW_CLASS_PAGE_FAULT},
        {{"DISK_IO", "DiskIo", ETW_FLAG_DISK_IO, false, false, true, 0}, ETW_CLASS_DISK_IO},
        {{"DISK_IO_INIT", "DiskIo", ETW_FLAG_DISK_INIT, false, false, true, 0}, ETW_CLASS_DISK_IO},
        {{"PROFILE", "PerfInfo", ETW_FLAG_PROFILE, false, false, false, 0}, ETW_CLASS_PERF_INFO},
    };

    for (size_t i = 0; i < DOCTOR_PROOF_FLAGS; i++) {
        struct counted counted = {{0}, 0};
        struct doctor_trial_conf conf = {.api = api,
                                         .flags = all[i].flag.flag,
                                         .flush_ms = 100,
                                         .each = count_class,
                                         .ctx = &counted,
                                         .dump = dump};
        struct doctor_trial *t;

        out->flags[i] = all[i].flag;
        memcpy(counted.guid, all[i].guid, sizeof counted.guid);
        if (doctor_trial_begin(&t, &conf, NULL) != ERR_OK) {
            continue;
        }
        out->flags[i].tried = true;
        out->flags[i].taken = doctor_trial_mask(t, 32) == ERR_OK;
        if (doctor_trial_read(t) == ERR_OK) {
            work_a_little(children, NULL);
            doctor_trial_wait(t, &t->found, 0, patience_ns / 4);
        }
        doctor_trial_end(t);
        out->flags[i].seen = counted.n;
        doctor_trial_free(t);
    }
}

/* -- bursts -- */

static unsigned burst(unsigned n)
{
    PROCESS_INFORMATION all[WIDE];
    unsigned started = 0;

    while (started < n) {
        unsigned now = 0;

        for (; now < WIDE && started + now < n; now++) {
            if (!doctor_try_spawn(&all[now], started + now, false)) {
                break;
            }
        }
        for (unsigned i = 0; i < now; i++) {
            (void)doctor_try_reap(&all[i]);
        }
        started += now;
        if (now == 0) {
            break;
        }
    }
    return started;
}

static void try_bursts(struct doctor_proof *out, const struct etw_api *api, unsigned children,
                       int64_t patience_ns)
{
    static const uint32_t least[] = {4, 64}, flush[] = {0, 100, 16, 5};

    for (size_t i = 0; i < DOCTOR_PROOF_BURSTS; i++) {
        struct doctor_proof_burst *b = &out->bursts[i];
        struct doctor_trial_conf conf = {.api = api,
                                         .flags = ETW_FLAG_PROCESS | ETW_FLAG_THREAD,
                                         .min_buffers = least[i / 4],
                                         .flush_ms = flush[i % 4]};
        struct doctor_trial *t;

        b->min_buffers = conf.min_buffers;
        b->flush_ms = conf.flush_ms;
        if (doctor_trial_begin(&t, &conf, NULL) != ERR_OK) {
            continue;
        }
        if (doctor_trial_read(t) == ERR_OK) {
            b->started = burst(4 * children);
            doctor_trial_wait(t, &t->children, b->started, patience_ns);
        }
        doctor_trial_end(t);
        b->seen = atomic_load(&t->children);
        b->events_lost = t->totals.events_lost;
        b->buffers_lost = t->totals.buffers_lost;
        b->buffers = t->totals.buffers;
        b->buffer_kb = t->totals.buffer_kb;
        doctor_trial_free(t);
    }
}

/* -- the rundown, with a reader and without -- */

static void count_images(void *ctx, const struct raw_event *raw, const struct event *ev)
{
    uint64_t *n = ctx;

    (void)raw;
    *n += ev && ev->kind == EV_IMAGE_FOUND;
}

static void try_start(struct doctor_proof_start *out, const struct etw_api *api, bool reader_first,
                      int64_t patience_ns)
{
    struct doctor_trial_conf conf = {.api = api,
                                     .flags = ETW_FLAG_PROCESS | ETW_FLAG_IMAGE,
                                     .late = reader_first,
                                     .min_buffers = 4,
                                     .each = count_images,
                                     .ctx = &out->images};
    struct doctor_trial *t;

    if (doctor_trial_begin(&t, &conf, NULL) != ERR_OK) {
        return;
    }
    if (!reader_first) {
        os_sleep_ns(patience_ns / 4);
    }
    out->tried = doctor_trial_read(t) == ERR_OK;
    if (reader_first) {
        doctor_trial_flags(t);
    }
    if (out->tried) {
        doctor_trial_wait(t, &t->found, 0, patience_ns / 2);
    }
    doctor_trial_end(t);
    out->events_lost = t->totals.events_lost;
    out->buffers_lost = t->totals.buffers_lost;
    doctor_trial_free(t);
}

/* -- one child, in table, handle and both streams -- */

struct start {
    uint32_t pid;
    int64_t stamp_ns, arrived_ns; /* on the counter */
    uint64_t created, sequence;   /* the manifest's */
};

struct starts {
    struct start all[STARTS_MAX];
    size_t n;
    uint64_t frequency;
    const struct etw_api *api;
};

static void note_starts(void *ctx, const struct raw_event *raw, const struct event *ev)
{
    struct starts *s = ctx;
    struct start *x = &s->all[s->n];
    int64_t ticks, utc_ns;
    uint64_t frequency;

    if (!ev || ev->kind != EV_PROC_START || s->n == STARTS_MAX ||
        ev->u.proc.info.parent_pid != os_process_id()) {
        return;
    }
    s->api->clock(&ticks, &frequency, &utc_ns);
    *x = (struct start){.pid = ev->u.proc.info.id.pid,
                        .stamp_ns = clk_ticks_to_ns(raw->ticks, raw->frequency),
                        .arrived_ns = clk_ticks_to_ns(ticks, frequency)};
    if (ev->u.proc.manifest) {
        x->created = ev->u.proc.info.id.start;
        if (raw->version >= 3 && raw->payload_n >= KP_SEQUENCE + 8) {
            memcpy(&x->sequence, raw->payload + KP_SEQUENCE, 8);
        }
    }
    s->n++;
}

static const struct start *start_of(const struct starts *s, uint32_t pid)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->all[i].pid == pid) {
            return &s->all[i];
        }
    }
    return NULL;
}

struct child {
    uint32_t pid;
    uint64_t created; /* as its handle says */
    struct doctor_proof_entry table;
};

static unsigned run_watched(struct child *out, unsigned n)
{
    unsigned started = 0;

    for (unsigned i = 0; i < n; i++) {
        FILETIME created = {0, 0}, other;
        PROCESS_INFORMATION p;
        uint8_t *table;
        ULONG status;
        size_t bytes;

        if (!doctor_try_spawn(&p, i, true)) {
            continue;
        }
        out[started] = (struct child){.pid = p.dwProcessId};
        (void)GetProcessTimes(p.hProcess, &created, &other, &other, &other);
        out[started].created = (uint64_t)created.dwHighDateTime << 32 | created.dwLowDateTime;
        table = doctor_try_table(5, &bytes, &status);
        if (table) {
            (void)doctor_proof_find(&out[started].table, table, bytes, (uintptr_t)table,
                                    p.dwProcessId);
        }
        mem_free(table);
        (void)doctor_try_reap(&p);
        started++;
    }
    return started;
}

static void compare(struct doctor_proof *out, const struct child *children, unsigned n,
                    const struct starts *classic, const struct starts *manifest, int64_t utc_ns)
{
    int64_t skew[DOCTOR_PROOF_CHILDREN], pair[DOCTOR_PROOF_CHILDREN];
    unsigned n_skew = 0, n_pair = 0;

    out->children = n;
    for (unsigned i = 0; i < n; i++) {
        const struct child *x = &children[i];
        const struct start *c = start_of(classic, x->pid), *m = start_of(manifest, x->pid);

        out->both += c && m;
        out->classic_only += c && !m;
        out->manifest_only += m && !c;
        out->times_equal += m && m->created == x->created && x->table.created == x->created;
        out->sequences += m && m->sequence && x->table.sequence;
        out->sequences_equal += m && m->sequence && m->sequence == x->table.sequence;
        if (c) {
            skew[n_skew++] = clk_sub(clk_add(c->stamp_ns, utc_ns), clk_from_filetime(x->created));
        }
        if (c && m) {
            pair[n_pair++] = clk_sub(m->arrived_ns, c->arrived_ns);
        }
    }
    doctor_proof_spread(&out->skew, skew, n_skew);
    doctor_proof_spread(&out->pair, pair, n_pair);
}

static void try_identity(struct doctor_proof *out, const struct etw_api *api,
                         struct doctor_dump *dump, unsigned n, int64_t patience_ns)
{
    struct starts *seen = mem_zalloc(2 * sizeof *seen);
    struct doctor_trial *t[2] = {NULL, NULL};
    struct child children[DOCTOR_PROOF_CHILDREN];
    int64_t ticks, utc_ns;
    uint64_t frequency;
    bool reads = seen != NULL;

    n = n < DOCTOR_PROOF_CHILDREN ? n : DOCTOR_PROOF_CHILDREN;
    for (unsigned i = 0; i < 2 && reads; i++) {
        struct doctor_trial_conf conf = {.api = api,
                                         .manifest = i == 1,
                                         .flags = ETW_FLAG_PROCESS,
                                         .flush_ms = 20,
                                         .each = note_starts,
                                         .ctx = &seen[i],
                                         .dump = dump};

        seen[i].api = api;
        reads = doctor_trial_begin(&t[i], &conf, NULL) == ERR_OK;
        reads = reads && doctor_trial_read(t[i]) == ERR_OK;
    }
    if (reads) {
        n = run_watched(children, n);
        doctor_trial_wait(t[0], &t[0]->children, n, patience_ns);
        doctor_trial_wait(t[1], &t[1]->children, n, patience_ns);
    }
    api->clock(&ticks, &frequency, &utc_ns);
    doctor_trial_free(t[0]);
    doctor_trial_free(t[1]);
    if (reads) {
        compare(out, children, n, &seen[0], &seen[1],
                clk_sub(utc_ns, clk_ticks_to_ns(ticks, frequency)));
    }
    mem_free(seen);
}

/* -- what must be refused -- */

static void block_start(struct block *b, ULONG mode, unsigned char mark)
{
    block_fill(b);
    b->p.Wnode.ClientContext = 1;
    memset(&b->p.Wnode.Guid, mark, sizeof b->p.Wnode.Guid);
    b->p.LogFileMode = EVENT_TRACE_REAL_TIME_MODE | mode;
    b->p.LogFileNameOffset = 0; /* of a session without a file */
    b->p.BufferSize = 4;
}

static void block_stop(const struct etw_api *api, struct block *b, const WCHAR *name)
{
    block_fill(b);
    (void)api->control(0, name, &b->p, EVENT_TRACE_CONTROL_STOP);
}

/* Whether ours can be had. */
static enum err try_ours(const struct etw_api *api, struct errmsg *why)
{
    struct doctor_trial_conf conf = {.api = api, .flags = ETW_FLAG_PROCESS};
    struct doctor_trial *t = NULL;
    enum err e = doctor_trial_begin(&t, &conf, why);

    doctor_trial_free(t);
    return e;
}

static void try_second(struct doctor_proof_negative *out)
{
    struct etw_owner *first = NULL, *second = NULL;
    enum err e = etw_owner_take(&first, NULL);

    out->second_tried = e == ERR_OK || e == ERR_BUSY; /* an agent may have them */
    out->second_refused = e == ERR_BUSY || (!e && etw_owner_take(&second, NULL) == ERR_BUSY);
    etw_owner_give(second);
    etw_owner_give(first);
}

static void try_foreign(struct doctor_proof_negative *out, const struct etw_api *api,
                        struct block *b)
{
    TRACEHANDLE h;

    block_start(b, 0, 0x5a);
    out->foreign_tried = api->start(&h, SESSION, &b->p) == ERROR_SUCCESS;
    if (!out->foreign_tried) {
        return;
    }
    out->foreign = try_ours(api, NULL);
    block_fill(b);
    out->foreign_kept =
        api->control(0, SESSION, &b->p, EVENT_TRACE_CONTROL_QUERY) == ERROR_SUCCESS &&
        b->p.Wnode.Guid.Data1 == 0x5a5a5a5a;
    block_stop(api, b, SESSION);
}

/* For a moment nobody else can have one either. */
static void try_slots(struct doctor_proof_negative *out, const struct etw_api *api, struct block *b)
{
    WCHAR name[] = SESSION L"-0";
    const size_t digit = sizeof name / sizeof *name - 2;
    struct errmsg why = {""};
    TRACEHANDLE h;

    while (out->slots < SLOTS_MAX && !out->slots_code) {
        name[digit] = (WCHAR)(L'0' + out->slots);
        block_start(b, EVENT_TRACE_SYSTEM_LOGGER_MODE, (unsigned char)(0x60 + out->slots));
        out->slots_code = api->start(&h, name, &b->p);
        out->slots += out->slots_code == ERROR_SUCCESS;
    }
    out->full = try_ours(api, &why);
    (void)snprintf(out->full_why, sizeof out->full_why, "%.*s", (int)sizeof out->full_why - 1,
                   why.text);
    for (unsigned i = 0; i < out->slots; i++) {
        name[digit] = (WCHAR)(L'0' + i);
        block_stop(api, b, name);
    }
}

/* A token as this program's, but of nobody's groups. */
static HANDLE less_token(void)
{
    static const WELL_KNOWN_SID_TYPE groups[LESS_GROUPS] = {
        WinLocalSystemSid, WinBuiltinAdministratorsSid, WinBuiltinPerfLoggingUsersSid,
        WinServiceSid,     WinLocalServiceSid,          WinNetworkServiceSid};
    BYTE sids[LESS_GROUPS][SECURITY_MAX_SID_SIZE];
    SID_AND_ATTRIBUTES all[LESS_GROUPS] = {{NULL, 0}};
    HANDLE token, less = NULL, own = NULL;

    for (size_t i = 0; i < LESS_GROUPS; i++) {
        DWORD n = sizeof sids[i];

        (void)CreateWellKnownSid(groups[i], NULL, sids[i], &n);
        all[i].Sid = sids[i];
    }
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_DUPLICATE | TOKEN_QUERY, &token)) {
        return NULL;
    }
    if (CreateRestrictedToken(token, DISABLE_MAX_PRIVILEGE, LESS_GROUPS, all, 0, NULL, 0, NULL,
                              &less)) {
        (void)DuplicateToken(less, SecurityImpersonation, &own);
        CloseHandle(less);
    }
    CloseHandle(token);
    return own;
}

static void try_less(struct doctor_proof_negative *out, const struct etw_api *api, struct block *b)
{
    HANDLE token = less_token();
    ULONG status = 0;
    TRACEHANDLE h;
    uint8_t *table;
    size_t n;

    out->less_tried = token && SetThreadToken(NULL, token);
    if (out->less_tried) {
        block_start(b, EVENT_TRACE_SYSTEM_LOGGER_MODE, 0x5b);
        out->less_start = api->start(&h, SESSION, &b->p);
        table = doctor_try_table(148, &n, &status);
        mem_free(table);
        out->less_table = status;
        (void)SetThreadToken(NULL, NULL);
        if (out->less_start == ERROR_SUCCESS) {
            block_stop(api, b, SESSION);
        }
    }
    if (token) {
        CloseHandle(token);
    }
}

static void try_negative(struct doctor_proof *out, const struct etw_api *api)
{
    struct block *b = mem_alloc(sizeof *b);

    try_second(&out->negative);
    if (b) {
        try_foreign(&out->negative, api, b);
        try_slots(&out->negative, api, b);
        try_less(&out->negative, api, b);
    }
    mem_free(b);
}

/* -- all -- */

void doctor_proof_sessions(struct doctor_proof *out, const struct etw_api *api,
                           struct doctor_dump *dump, unsigned children, int64_t patience_ns)
{
    struct etw_api ours = *api;

    if (dump) {
        wrapped.real = api;
        wrapped.dump = dump;
        ours.start = dumped_start;
        ours.control = dumped_control;
    }
    try_session(out, &ours, dump);
    if (!out->sessions) {
        return;
    }
    try_flags(out, &ours, dump, children, patience_ns);
    try_start(&out->with_reader, &ours, true, patience_ns);
    try_start(&out->without_reader, &ours, false, patience_ns);
    try_identity(out, &ours, dump, children, patience_ns);
    try_bursts(out, &ours, children, patience_ns);
    try_negative(out, api);
}

void doctor_proof_try(struct doctor_proof *out, const char *dir, struct doctor_dump *dump,
                      int64_t patience_ns)
{
    struct etw_api api;

    memset(out, 0, sizeof *out);
    doctor_proof_host(out, dir, dump, patience_ns); /* first: it says what a dump shall cover */
    if (etw_api_load(&api, &out->why) == ERR_OK) {
        doctor_proof_sessions(out, &api, dump, MANY, patience_ns);
    }
}
