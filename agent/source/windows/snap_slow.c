/* What is learnt once (command line, image, account) goes into one row of one table: whoever reads
 * tables keeps it. Gauges stay in the rows of a chosen process until the next period chooses
 * again. Between answer and row a text waits in `texts`. */
#include "agent/source/windows/snap_slow.h"

#include <string.h>

#include "agent/source/windows/snap_memory.h"
#include "common/base/arena.h"
#include "common/base/mem.h"

#define TEXTS_MAX   (1u << 20)
#define LEARNT_MAX  64  /* answers between two tables; see snap_ask.h */
#define WANTED_MAX  128 /* jobs for identities; the rest of the ring is for gauges and accounts */
#define SYSTEM_PIDS 4   /* up to this one: the idle process and the kernel's own */

enum {
    FLAG_WANTED = 1 << 0, /* line, image, user: to be asked */
    FLAG_SEEN = 1 << 1,
    FLAG_USER_TOLD = 1 << 2,
    FLAG_NEVER = 1 << 3,  /* do not open it */
    FLAG_CHOSEN = 1 << 4, /* among the busiest of this period */
};

struct entry {
    int64_t values[SNAP_SLOW_GAUGES];
    int64_t peak_handles;
    int64_t cpu_ns; /* when the period began */
    uint32_t row;
    uint16_t account; /* 1 + its place, 0 = unknown */
    uint8_t have;
    uint8_t flags;
};

struct account {
    char *sid, *name; /* owned; name: NULL until it is known */
};

struct learnt {
    struct proc_id id;
    struct str line, image, user;
    bool line_cut;
};

struct snap_slow {
    struct snap_slow_conf conf;
    struct snap_slow_stats stats;
    struct snap_memory *entries;
    struct snap_job jobs[SNAP_SLOW_JOBS]; /* a ring */
    size_t first_job, n_jobs;
    struct account accounts[SNAP_SLOW_ACCOUNTS];
    size_t n_accounts;
    struct learnt learnt[LEARNT_MAX];
    size_t n_learnt;
    struct arena texts;
    int64_t next_round_ns;
    uint32_t round;
    bool begun;
};

static const unsigned columns[SNAP_SLOW_GAUGES] = {M_AFFINITY_MASK, M_IO_PRIORITY, M_GDI_OBJECTS,
                                                   M_USER_OBJECTS};

enum err snap_slow_create(struct snap_slow **out, const struct snap_slow_conf *conf)
{
    struct snap_slow *s;
    enum err e;

    if (conf->top > SNAP_SLOW_TOP_MAX) {
        return ERR_RANGE;
    }
    s = mem_zalloc(sizeof *s);
    if (!s) {
        return ERR_NOMEM;
    }
    s->conf = *conf;
    arena_init(&s->texts, TEXTS_MAX);
    e = snap_memory_create(&s->entries, sizeof(struct entry), conf->processes_max);
    if (e) {
        snap_slow_destroy(s);
        return e;
    }
    *out = s;
    return ERR_OK;
}

void snap_slow_destroy(struct snap_slow *s)
{
    if (!s) {
        return;
    }
    for (size_t i = 0; i < s->n_accounts; i++) {
        mem_free(s->accounts[i].sid);
        mem_free(s->accounts[i].name);
    }
    snap_memory_destroy(s->entries);
    arena_fini(&s->texts);
    mem_free(s);
}

const struct snap_slow_stats *snap_slow_stats(const struct snap_slow *s)
{
    return &s->stats;
}

/* -- jobs -- */

static bool put_job(struct snap_slow *s, struct snap_job job)
{
    if (s->n_jobs == SNAP_SLOW_JOBS) {
        return false;
    }
    s->jobs[(s->first_job + s->n_jobs++) % SNAP_SLOW_JOBS] = job;
    return true;
}

bool snap_slow_next(struct snap_slow *s, struct snap_job *out)
{
    if (s->n_jobs == 0) {
        return false;
    }
    *out = s->jobs[s->first_job];
    s->first_job = (s->first_job + 1) % SNAP_SLOW_JOBS;
    s->n_jobs--;
    s->stats.asked++;
    return true;
}

/* Whom to leave alone whatever rights we have: opening them is what virus protection watches for,
 * and most of them are protected anyway. */
static bool is_taboo(const struct proc_info *info)
{
    static const char *const names[] = {
        "lsass.exe",
        "lsaiso.exe",
        "smss.exe",
        "csrss.exe",
        "wininit.exe",
        "services.exe",
        "sppsvc.exe",
        "MsMpEng.exe",
        "NisSrv.exe",
        "MsSense.exe",
        "Registry",
        "vmmem",
        "Secure System",
        "Memory Compression",
        "MpDefenderCoreService.exe",
        "SecurityHealthService.exe",
    };

    if (info->id.pid <= SYSTEM_PIDS) {
        return true;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]), same = 0;

        while (same < n && n == info->name.n &&
               ((unsigned char)info->name.p[same] | 0x20) == (names[i][same] | 0x20)) {
            same++;
        }
        if (same == n) {
            return true;
        }
    }
    return false;
}

/* -- accounts -- */

/* The account's place + 1; 0: there is no room for it. A new one is asked for its name. */
static uint16_t account_of(struct snap_slow *s, struct str sid)
{
    char *copy;

    for (size_t i = 0; i < s->n_accounts; i++) {
        if (str_eq(str_make(s->accounts[i].sid), sid)) {
            return (uint16_t)(i + 1);
        }
    }
    copy = s->n_accounts < SNAP_SLOW_ACCOUNTS ? mem_strndup(sid.p, sid.n) : NULL;
    if (!copy) {
        return 0;
    }
    if (!put_job(s, (struct snap_job){.what = SNAP_JOB_ACCOUNT, .sid = copy})) {
        mem_free(copy);
        return 0;
    }
    s->accounts[s->n_accounts].sid = copy;
    return (uint16_t)++s->n_accounts;
}

static void take_name(struct snap_slow *s, const struct snap_answer *a)
{
    for (size_t i = 0; i < s->n_accounts; i++) {
        struct account *account = &s->accounts[i];

        if (account->sid == a->job.sid && !account->name) {
            bool known = a->error == ERR_OK && a->user.n > 0;

            account->name = known ? mem_strndup(a->user.p, a->user.n) : mem_strdup(account->sid);
            return;
        }
    }
}

/* -- answers -- */

void snap_slow_begin(struct snap_slow *s)
{
    arena_reset(&s->texts);
    s->n_learnt = 0;
}

static struct str keep(struct snap_slow *s, struct str text)
{
    const char *copy = text.n > 0 ? arena_dup(&s->texts, text.p, text.n) : NULL;

    return copy ? (struct str){copy, text.n} : (struct str){"", 0};
}

/* Of a user beyond the limit of accounts the SID is what there is. */
static struct str take_user(struct snap_slow *s, struct entry *e, struct str sid)
{
    e->account = sid.n > 0 ? account_of(s, sid) : 0;
    if (sid.n == 0 || e->account > 0) {
        return (struct str){"", 0};
    }
    s->stats.accounts_full++;
    e->flags |= FLAG_USER_TOLD;
    return keep(s, sid);
}

static void count(struct snap_slow *s, enum err e)
{
    uint64_t *reason = e == ERR_ACCESS        ? &s->stats.denied
                       : e == ERR_UNSUPPORTED ? &s->stats.protected
                       : e == ERR_NOTFOUND    ? &s->stats.gone
                       : e == ERR_TIMEOUT     ? &s->stats.late
                                              : &s->stats.failed;

    *reason += e != ERR_OK;
}

static void take_gauges(struct entry *e, const struct snap_answer *a)
{
    e->have = (uint8_t)a->have;
    memcpy(e->values, a->values, sizeof e->values);
    if (a->peak_handles > e->peak_handles) {
        e->peak_handles = a->peak_handles;
    }
}

void snap_slow_answer(struct snap_slow *s, const struct snap_answer *a)
{
    struct entry *e = snap_memory_find(s->entries, a->job.id);

    count(s, a->error);
    if (a->job.what & SNAP_JOB_ACCOUNT) {
        take_name(s, a);
        return;
    }
    if (!e) {
        return; /* it has ended */
    }
    if (a->error == ERR_UNSUPPORTED) {
        e->flags |= FLAG_NEVER;
    }
    if (a->job.what & SNAP_JOB_GAUGES) {
        take_gauges(e, a);
    }
    if (!(a->job.what & SNAP_JOB_GAUGES) && s->n_learnt < LEARNT_MAX) {
        s->learnt[s->n_learnt++] = (struct learnt){
            .id = a->job.id,
            .line = keep(s, a->line),
            .image = keep(s, a->image),
            .user = e->account == 0 ? take_user(s, e, a->user) : (struct str){"", 0},
            .line_cut = a->line_cut};
    }
}

/* -- tables -- */

/* The account's name instead of its SID, once, as soon as it is known. */
static void tell_user(struct snap_slow *s, struct entry *e, struct proc_info *info)
{
    struct str sid = info->user;

    info->user = (struct str){"", 0};
    if (!s->conf.users || (e->flags & FLAG_USER_TOLD)) {
        return;
    }
    if (e->account == 0 && sid.n > 0) {
        e->account = account_of(s, sid);
        if (e->account == 0) {
            s->stats.accounts_full++;
            info->user = sid;
            e->flags |= FLAG_USER_TOLD;
            return;
        }
    }
    if (e->account > 0 && s->accounts[e->account - 1].name) {
        info->user = str_make(s->accounts[e->account - 1].name);
        e->flags |= FLAG_USER_TOLD;
    }
}

static void want_identity(struct snap_slow *s, struct entry *e, const struct snap_row *row)
{
    unsigned what = s->conf.command_lines ? SNAP_JOB_LINE : 0;

    if (!(e->flags & FLAG_WANTED)) {
        return;
    }
    what |= row->info.image.n == 0 ? SNAP_JOB_IMAGE : 0;
    what |= s->conf.users && e->account == 0 ? SNAP_JOB_USER : 0;
    if (what == 0 || (s->n_jobs < WANTED_MAX &&
                      put_job(s, (struct snap_job){.what = what, .id = row->info.id}))) {
        e->flags &= (uint8_t)~FLAG_WANTED;
    }
}

static void complete_row(struct snap_slow *s, struct entry *e, struct snap_row *row, bool records)
{
    if (!(e->flags & FLAG_SEEN)) {
        bool never = is_taboo(&row->info);

        e->flags = (uint8_t)(FLAG_SEEN | (never ? FLAG_NEVER : 0) |
                             (!never && (!records || !s->begun) ? FLAG_WANTED : 0));
    }
    tell_user(s, e, &row->info);
    want_identity(s, e, row);
    if ((row->mask & METRIC_BIT(M_HANDLE_COUNT)) && row->values[M_HANDLE_COUNT] > e->peak_handles) {
        e->peak_handles = row->values[M_HANDLE_COUNT];
    }
    if (e->peak_handles > 0) {
        row->values[M_PEAK_HANDLE_COUNT] = e->peak_handles;
        row->mask |= METRIC_BIT(M_PEAK_HANDLE_COUNT);
    }
    for (unsigned i = 0; i < SNAP_SLOW_GAUGES; i++) {
        if (e->have & 1u << i) {
            row->values[columns[i]] = e->values[i];
            row->mask |= METRIC_BIT(columns[i]);
        }
    }
}

static void tell_learnt(struct snap_slow *s, struct snap_row *rows)
{
    for (size_t i = 0; i < s->n_learnt; i++) {
        const struct learnt *l = &s->learnt[i];
        const struct entry *e = snap_memory_find(s->entries, l->id);
        struct proc_info *info = e ? &rows[e->row].info : NULL;

        if (!info) {
            continue;
        }
        if (l->line.n > 0) {
            info->command_line = l->line;
            info->have |= INFO_COMMAND_LINE_KNOWN | (l->line_cut ? INFO_COMMAND_LINE_CUT : 0u);
        }
        info->image = info->image.n > 0 ? info->image : l->image;
        info->user = info->user.n > 0 ? info->user : l->user;
    }
}

/* -- the busiest -- */

struct best {
    int64_t cpu_ns, bytes;
    struct entry *entry;
    size_t row;
};

static bool is_busier(const struct best *a, const struct best *b)
{
    return a->cpu_ns != b->cpu_ns ? a->cpu_ns > b->cpu_ns : a->bytes > b->bytes;
}

/* Into `all`, busiest first, which holds n and may hold max. */
static size_t insert(struct best *all, size_t n, size_t max, struct best one)
{
    size_t at = n;

    while (at > 0 && is_busier(&one, &all[at - 1])) {
        at--;
    }
    if (at == max) {
        return n;
    }
    n += n < max;
    memmove(all + at + 1, all + at, (n - at - 1) * sizeof *all);
    all[at] = one;
    return n;
}

static void begin_round(struct snap_slow *s, const struct snap_row *rows, size_t n)
{
    struct best all[SNAP_SLOW_TOP_MAX];
    size_t n_all = 0;

    s->round++;
    for (size_t i = 0; i < n; i++) {
        struct entry *e = snap_memory_find(s->entries, rows[i].info.id);
        const int64_t *v = rows[i].values;
        int64_t cpu_ns = (int64_t)((uint64_t)v[M_KERNEL_TIME] + (uint64_t)v[M_USER_TIME]);

        if (!e || e->row != i || (e->flags & FLAG_NEVER)) {
            continue;
        }
        n_all = insert(all, n_all, s->conf.top,
                       (struct best){cpu_ns - e->cpu_ns, v[M_WORKING_SET_SIZE], e, i});
        e->cpu_ns = cpu_ns;
        e->flags &= (uint8_t)~FLAG_CHOSEN;
    }
    for (size_t i = 0; i < n_all; i++) {
        const struct proc_info *info = &rows[all[i].row].info;
        bool ours = (info->have & INFO_SESSION) && info->session_id == s->conf.session;
        struct snap_job job = {.what = SNAP_JOB_GAUGES | (ours ? SNAP_JOB_GUI : 0u),
                               .id = info->id,
                               .round = s->round};

        all[i].entry->flags |= FLAG_CHOSEN;
        s->stats.elsewhere += !ours;
        s->stats.late += !put_job(s, job);
    }
    for (size_t i = 0; i < n; i++) {
        struct entry *e = snap_memory_find(s->entries, rows[i].info.id);

        if (e && !(e->flags & FLAG_CHOSEN)) {
            e->have = 0;
        }
    }
}

void snap_slow_table(struct snap_slow *s, struct snap_row *rows, size_t n, int64_t mono_ns,
                     bool records)
{
    snap_memory_begin(s->entries);
    for (size_t i = 0; i < n; i++) {
        struct entry *e = snap_memory_at(s->entries, rows[i].info.id);

        if (e) {
            e->row = (uint32_t)i;
            complete_row(s, e, &rows[i], records);
        } else if (!s->conf.users) {
            rows[i].info.user = (struct str){"", 0};
        }
    }
    tell_learnt(s, rows);
    if (s->conf.top > 0 && (!s->begun || mono_ns >= s->next_round_ns)) {
        begin_round(s, rows, n);
        s->next_round_ns = mono_ns + s->conf.period_ns;
    }
    s->begun = true;
}
