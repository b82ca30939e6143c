/* Of the two calls that answer with everything, class 148 gives image paths and SIDs and is for
 * administrators and LocalSystem; class 5 asks for nothing. Which one works is tried once, when
 * opening: it must succeed and hold our own process, else the next one is taken.  The buffer grows
 * to what the system asked for and a quarter more, because processes start between two calls; it
 * never shrinks. */
#include "agent/source/windows/snap_win32.h"

#include <stdio.h>
#include <string.h>

#include "agent/source/windows/snap_ask.h"
#include "agent/source/windows/snap_handle_win32.h"
#include "agent/source/windows/snap_layout.h"
#include "agent/source/windows/snap_rows.h"
#include "agent/source/windows/snap_slow.h"
#include "agent/source/windows/snap_threads.h"
#include "agent/source/windows/snap_wide.h"
#include "common/base/arena.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/win32.h"

/* -- the slow lane -- */

/* snap_slow.h decides, a thread (snap_ask.h) asks by handle (snap_handle_win32.h). Threads: one
 * owner, who takes the tables. */

#define BUDGET_NS   (100 * CLK_MS) /* of a period's gauges: 0.2 % of the default period */
#define PATIENCE_NS CLK_S          /* of closing */

struct snap_lane {
    struct snap_slow *slow;
    struct snap_handle *handle;
    struct snap_ask *ask; /* NULL: nobody is asked anything */
};

static void lane_read(void *lane, const struct snap_job *job, struct snap_answer *out)
{
    snap_handle_read(((struct snap_lane *)lane)->handle, job, out);
}

static void lane_destroy(void *lane)
{
    struct snap_lane *l = lane;

    snap_handle_destroy(l->handle);
    snap_slow_destroy(l->slow);
    mem_free(l);
}

static enum err lane_open_parts(struct snap_lane *l, const struct snap_slow_conf *conf)
{
    const struct snap_ask_conf ask = {.read = lane_read,
                                      .release = lane_destroy,
                                      .ctx = l,
                                      .budget_ns = BUDGET_NS,
                                      .patience_ns = PATIENCE_NS};
    struct snap_slow_conf slow = *conf;
    DWORD session = 0;
    enum err e;

    (void)ProcessIdToSessionId(os_process_id(), &session);
    slow.session = session;
    e = snap_slow_create(&l->slow, &slow);
    if (e || (conf->top == 0 && !conf->users && !conf->command_lines)) {
        return e;
    }
    e = snap_handle_create(&l->handle);
    if (e) {
        return e;
    }
    return snap_ask_open(&l->ask, &ask);
}

/* conf->session is found out here. Errors: ERR_NOMEM, ERR_RANGE */
static enum err snap_lane_open(struct snap_lane **out, const struct snap_slow_conf *conf)
{
    struct snap_lane *l = mem_zalloc(sizeof *l);
    enum err e;

    if (!l) {
        return ERR_NOMEM;
    }
    e = lane_open_parts(l, conf);
    if (e) {
        lane_destroy(l);
        return e;
    }
    *out = l;
    return ERR_OK;
}

/* waits a second at most; NULL is allowed */
static void snap_lane_close(struct snap_lane *l)
{
    if (l && l->ask) {
        snap_ask_close(l->ask); /* releases it */
    } else if (l) {
        lane_destroy(l);
    }
}

/* Completes a table, and lets be asked what came up. Texts stay until the next one. */
static void snap_lane_table(struct snap_lane *l, struct snap_row *rows, size_t n, int64_t mono_ns,
                            bool records)
{
    struct snap_answer *a;
    struct snap_job job;

    snap_slow_begin(l->slow);
    while (l->ask && (a = snap_ask_take(l->ask))) {
        snap_slow_answer(l->slow, a);
        mem_free(a);
    }
    snap_slow_table(l->slow, rows, n, mono_ns, records);
    while (l->ask && snap_ask_has_room(l->ask) && snap_slow_next(l->slow, &job)) {
        snap_ask_put(l->ask, &job);
    }
}

static const struct snap_slow_stats *snap_lane_stats(const struct snap_lane *l)
{
    return snap_slow_stats(l->slow);
}

/* -- the table -- */

#define LENGTH_MISMATCH ((NTSTATUS)0xC0000004)
#define BYTES_FIRST     (256u << 10)
#define GROWTHS_MAX     8 /* in one tick */
#define TEXTS_MAX       (16u << 20)

struct snap_win32 {
    struct live_tables base; /* first: struct live_tables * is cast to us */
    struct snap_win32_conf conf;
    bool full, sequences; /* class 148; rows have numbers of starts */
    uint8_t *answer;      /* owned */
    size_t cap, n;        /* bytes */
    metric_mask unfit;    /* columns this system does not fill, */
    metric_mask absent;   /* and of these what threads do not tell either */
    struct snap_wide *wide;
    struct snap_threads *threads;
    struct snap_lane *lane;
    struct snap_row *rows;
    size_t n_rows;
    struct arena texts; /* of the rows */
    struct source_stats counts;
};

/* -- the call -- */

static enum err grow(struct snap_win32 *s, size_t wanted)
{
    uint8_t *larger;

    if (wanted > SNAP_WIN32_BYTES_MAX) {
        return ERR_FULL;
    }
    wanted += wanted / 4;
    if (wanted > SNAP_WIN32_BYTES_MAX) {
        wanted = SNAP_WIN32_BYTES_MAX;
    }
    if (wanted <= s->cap) {
        return ERR_OK;
    }
    larger = mem_alloc(wanted);
    if (!larger) {
        return ERR_NOMEM;
    }
    mem_free(s->answer); /* nothing of it is needed any more */
    s->answer = larger;
    s->cap = wanted;
    return ERR_OK;
}

static enum err ask(struct snap_win32 *s)
{
    int number = s->full ? SNAP_SystemFullProcessInformation : SNAP_SystemProcessInformation;

    for (int i = 0; i < GROWTHS_MAX; i++) {
        ULONG got = 0;
        NTSTATUS status = NtQuerySystemInformation((SYSTEM_INFORMATION_CLASS)number, s->answer,
                                                   (ULONG)s->cap, &got);
        enum err e;

        if (status == 0) {
            s->n = got && got <= s->cap ? got : s->cap;
            return ERR_OK;
        }
        if (status != LENGTH_MISMATCH) {
            return ERR_IO;
        }
        e = grow(s, got > s->cap ? got : 2 * s->cap);
        if (e) {
            return e;
        }
    }
    return ERR_BUSY; /* more processes at each try */
}

static void walk_answer(const struct snap_win32 *s, struct snap_walk *w)
{
    snap_rows_init(w, s->answer, s->n, (uintptr_t)s->answer, s->full);
}

/* -- table -- */

static bool keep_text(struct snap_win32 *s, struct str *text)
{
    const char *copy = arena_dup(&s->texts, text->p, text->n);

    *text = copy ? (struct str){copy, text->n} : str_make("");
    return copy != NULL;
}

/* Listed before it has a name and a time of creation (seen under Wine, which leaves noise there).
 */
static bool is_unborn(const struct proc_info *info, int64_t wall_ns)
{
    bool no_time = info->id.start == 0 || (info->name.n == 0 && info->create_ns > wall_ns);

    return info->id.pid != 0 && no_time;
}

/* Reads the answer into rows; false: not every process is in them. */
static bool read_rows(struct snap_win32 *s, int64_t wall_ns)
{
    bool complete = true;
    struct snap_walk w;
    enum err e;

    walk_answer(s, &w);
    arena_reset(&s->texts);
    snap_wide_begin(s->wide);
    snap_threads_begin(s->threads);
    s->n_rows = 0;
    for (;;) {
        struct snap_row row;

        e = snap_rows_next(&w, &row);
        if (e) {
            break;
        }
        if (is_unborn(&row.info, wall_ns)) {
            continue; /* the next table has it */
        }
        if (s->n_rows == s->conf.processes_max) {
            s->counts.capped++;
            complete = false;
            continue;
        }
        if (!keep_text(s, &row.info.name) || !keep_text(s, &row.info.image) ||
            !keep_text(s, &row.info.user)) {
            s->counts.damaged++;
        }
        row.info.sequence = s->sequences ? row.info.sequence : 0;
        snap_wide_row(s->wide, &row);
        row.mask &= ~s->unfit;
        snap_threads_row(s->threads, &w, &row);
        s->rows[s->n_rows++] = row;
        s->counts.rows++;
    }
    s->counts.damaged += e == ERR_CORRUPT;
    return complete && e == ERR_END;
}

static enum err take(struct live_tables *base, struct snapshot *out)
{
    struct snap_win32 *s = (struct snap_win32 *)base;
    struct snapshot snap = {.wall_ns = os_utc_ns(), .mono_ns = os_mono_ns()};
    enum err e = ask(s);

    if (e) {
        return e;
    }
    snap.complete = read_rows(s, snap.wall_ns);
    snap_lane_table(s->lane, s->rows, s->n_rows, snap.mono_ns, base->records);
    snap.rows = s->rows;
    snap.n_rows = s->n_rows;
    *out = snap;
    return ERR_OK;
}

static void stats(const struct live_tables *base, struct source_stats *out)
{
    const struct snap_win32 *s = (const struct snap_win32 *)base;
    const struct snap_slow_stats *slow = snap_lane_stats(s->lane);

    *out = s->counts;
    out->gone = slow->gone;
    out->denied = slow->denied + slow->protected;
}

/* Of the slow lane: why something is absent, no loss. */
static size_t ledger(const struct live_tables *base, struct ledger_row *rows, size_t max)
{
    const struct snap_win32 *s = (const struct snap_win32 *)base;
    const struct snap_slow_stats *slow = snap_lane_stats(s->lane);
    const struct ledger_row all[] = {
        {str_make("snap"), str_make("asked"), slow->asked},
        {str_make("snap"), str_make("denied"), slow->denied},
        {str_make("snap"), str_make("protected"), slow->protected},
        {str_make("snap"), str_make("ended"), slow->gone},
        {str_make("snap"), str_make("failed"), slow->failed},
        {str_make("snap"), str_make("late"), slow->late},
        {str_make("snap"), str_make("other_session"), slow->elsewhere},
        {str_make("snap"), str_make("accounts_full"), slow->accounts_full},
        {str_make("snap"), str_make("threads_capped"), snap_threads_capped(s->threads)},
    };
    size_t n = max < sizeof all / sizeof *all ? max : sizeof all / sizeof *all;

    memcpy(rows, all, n * sizeof *rows);
    return n;
}

static void close_tables(struct live_tables *base)
{
    struct snap_win32 *s = (struct snap_win32 *)base;

    if (!s) {
        return;
    }
    snap_wide_destroy(s->wide);
    snap_threads_destroy(s->threads);
    snap_lane_close(s->lane);
    arena_fini(&s->texts);
    mem_free(s->rows);
    mem_free(s->answer);
    mem_free(s);
}

/* -- opening -- */

static int64_t own_base_priority(void)
{
    switch (GetPriorityClass(GetCurrentProcess())) {
    case IDLE_PRIORITY_CLASS:
        return 4;
    case BELOW_NORMAL_PRIORITY_CLASS:
        return 6;
    case ABOVE_NORMAL_PRIORITY_CLASS:
        return 10;
    case HIGH_PRIORITY_CLASS:
        return 13;
    case REALTIME_PRIORITY_CLASS:
        return 24;
    default:
        return 8;
    }
}

/* The number of our own start, as the system says elsewhere: where the table says it too, it does
 * so of everybody. 0: older systems have none. */
static uint64_t own_sequence(void)
{
    uint64_t sequence = 0;

    return NtQueryInformationProcess(GetCurrentProcess(),
                                     (PROCESSINFOCLASS)SNAP_ProcessSequenceNumber, &sequence,
                                     sizeof sequence, NULL) == 0
               ? sequence
               : 0;
}

/* Whether this class answers, with our own process in it; sets the columns to leave out. */
static enum err try_class(struct snap_win32 *s, bool full)
{
    struct snap_walk w;
    struct snap_row row;
    enum err e;

    s->full = full;
    e = ask(s);
    if (e) {
        return e == ERR_NOMEM ? e : ERR_UNSUPPORTED;
    }
    walk_answer(s, &w);
    for (;;) {
        e = snap_rows_next(&w, &row);
        if (e) {
            return ERR_UNSUPPORTED;
        }
        if (row.info.id.pid == os_process_id()) {
            s->unfit = snap_rows_unfit(&row, own_base_priority());
            s->sequences = row.info.sequence && row.info.sequence == own_sequence();
            s->absent = s->unfit & ~(metric_mask)snap_threads_probe(s->threads, &w);
            return ERR_OK;
        }
    }
}

static enum err choose_class(struct snap_win32 *s, struct errmsg *why)
{
    enum err e = try_class(s, true);

    if (e == ERR_UNSUPPORTED) {
        e = try_class(s, false);
    }
    return e ? errmsg_set(why, e,
                          "cannot list processes: NtQuerySystemInformation is refused or its "
                          "answer is not laid out as documented: %s",
                          err_text(e))
             : ERR_OK;
}

/* " name name and 3 more", as many as there is room for. */
static void name_columns(char *text, size_t size, metric_mask mask)
{
    const char *name;
    size_t n = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < METRIC_COLS; i++) {
        if (!(mask & METRIC_BIT(i))) {
            continue;
        }
        name = metric_by_id(i)->name;
        if (n + strlen(name) + sizeof "  and 64 more" > size) {
            (void)snprintf(text + n, size - n, " and %d more", metric_mask_count(mask));
            return;
        }
        n += (size_t)snprintf(text + n, size - n, " %s", name);
        mask &= ~METRIC_BIT(i);
    }
}

static void describe(struct snap_win32 *s)
{
    char unfit[100];

    name_columns(unfit, sizeof unfit, s->absent);
    (void)snprintf(s->base.detail, sizeof s->base.detail,
                   "tables by class %d, not filled by this system:%s",
                   s->full ? SNAP_SystemFullProcessInformation : SNAP_SystemProcessInformation,
                   s->absent ? unfit : " nothing");
}

static enum err open_parts(struct snap_win32 *s, struct errmsg *why)
{
    size_t bytes = s->conf.answer_bytes ? s->conf.answer_bytes : BYTES_FIRST;
    enum err e;

    s->conf.slow.processes_max = s->conf.processes_max;
    s->rows = mem_array(s->conf.processes_max, sizeof *s->rows);
    if (!s->rows || grow(s, bytes) != ERR_OK) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    e = snap_wide_create(&s->wide, s->conf.processes_max);
    if (e) {
        return errmsg_set(why, e, "out of memory");
    }
    e = snap_threads_create(&s->threads, s->conf.processes_max);
    if (e) {
        return errmsg_set(why, e, "out of memory");
    }
    e = snap_lane_open(&s->lane, &s->conf.slow);
    if (e) {
        return errmsg_set(why, e, "the slow lane: %s", err_text(e));
    }
    e = choose_class(s, why);
    if (!e) {
        describe(s);
    }
    return e;
}

enum err snap_win32_open(struct live_tables **out, const struct snap_win32_conf *conf,
                         struct errmsg *why)
{
    static const struct live_tables_ops ops = {
        .take = take, .stats = stats, .ledger = ledger, .close = close_tables};
    struct snap_win32 *s;
    enum err e;

    if (conf->processes_max == 0 || conf->processes_max > SNAP_WIN32_PROCESSES_MAX) {
        return errmsg_set(why, ERR_RANGE, "a table has 1 to %d processes",
                          SNAP_WIN32_PROCESSES_MAX);
    }
    s = mem_zalloc(sizeof *s);
    if (!s) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    s->base.ops = &ops;
    s->conf = *conf;
    arena_init(&s->texts, TEXTS_MAX);
    e = open_parts(s, why);
    if (e) {
        close_tables(&s->base);
        return e;
    }
    *out = &s->base;
    return ERR_OK;
}

#define BUILD_11 22000 /* the first of Windows 11, whose registry still says 10 */

void snap_win32_name(char *out, size_t size, const struct snap_win32_version *v)
{
    static const char windows[] = "Windows ", ten[] = "Windows 10";
    const char *product = v->product;
    bool eleven = v->build >= BUILD_11 && strncmp(product, ten, sizeof ten - 1) == 0;
    char text[64];

    if (strncmp(product, windows, sizeof windows - 1) == 0) {
        product += eleven ? sizeof ten - 1 : sizeof windows - 1;
    }
    (void)snprintf(text, sizeof text, "%s%s%s", eleven ? "11" : "", product,
                   strcmp(v->type, "Server Core") == 0 ? ", Core" : "");
    (void)snprintf(out, size, "Windows %lu.%lu.%lu", v->major, v->minor, v->build);
    if (v->revision) {
        size_t n = strlen(out);

        (void)snprintf(out + n, size - n, ".%lu", v->revision);
    }
    if (text[0] && strlen(out) + 5 < size) { /* what does not fit is cut, not the bracket */
        size_t n = strlen(out);

        (void)snprintf(out + n, size - n, " (%.*s)", (int)(size - n - 4), text);
    }
}

static void registry_text(char *out, DWORD size, const char *name)
{
    static const char key[] = "SOFTWARE\\Microsoft\\Windows NT\\CurrentVersion";

    if (RegGetValueA(HKEY_LOCAL_MACHINE, key, name, RRF_RT_REG_SZ, NULL, out, &size)) {
        out[0] = '\0';
    }
}

static void read_version(struct snap_win32_version *out)
{
    static const char key[] = "SOFTWARE\\Microsoft\\Windows NT\\CurrentVersion";
    OSVERSIONINFOW version = {.dwOSVersionInfoSize = sizeof version};
    DWORD revision = 0, n = sizeof revision;

    *out = (struct snap_win32_version){.major = 0};
    if (RtlGetVersion(&version) == 0) {
        out->major = version.dwMajorVersion;
        out->minor = version.dwMinorVersion;
        out->build = version.dwBuildNumber;
    }
    registry_text(out->product, sizeof out->product, "ProductName");
    registry_text(out->type, sizeof out->type, "InstallationType");
    if (RegGetValueA(HKEY_LOCAL_MACHINE, key, "UBR", RRF_RT_REG_DWORD, NULL, &revision, &n) == 0) {
        out->revision = revision;
    }
}

enum err snap_win32_about(struct source_about *out)
{
    struct source_about about = {.cpus = os_cpu_count()};
    struct snap_win32_version version;
    enum err e = os_boot_id(about.boot.b);

    if (e) {
        return e;
    }
    read_version(&version);
    snap_win32_name(about.system, sizeof about.system, &version);
    *out = about;
    return ERR_OK;
}
