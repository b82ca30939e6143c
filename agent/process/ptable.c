/* Instances live in slots that are never given back to the heap before the table is destroyed, and
 * every slot has a generation that grows when its instance is forgotten. The two number maps (pid →
 * newest instance, tid → instance) hold slot and generation; an entry whose generation differs is
 * dead. So forgetting an instance with a thousand threads costs nothing, and no late event can
 * reach the next user of the slot.
 *
 * Running instances stand in one list; ended ones in another, in order of their end, so that
 * expiry looks only at its head. Instances of one pid are chained newest first through `older`. */
#include "agent/process/ptable.h"

#include <assert.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"

struct ptable_text {
    size_t bytes, max;
    struct ptable_stats *stats; /* text_full and nomem are counted there */
};

/* -- texts: copies, all of them together within a limit -- */

/* At most `max` bytes, and no character cut in two. */
static size_t ptable_text_fit(struct str s, size_t max)
{
    size_t n = s.n;

    if (n <= max) {
        return n;
    }
    n = max;
    while (n > 0 && ((unsigned char)s.p[n] & 0xC0) == 0x80) {
        n--;
    }
    return n;
}

static void ptable_text_drop_one(struct ptable_text *t, struct str *s)
{
    if (s->p) {
        assert(t->bytes >= s->n);
        t->bytes -= s->n;
        mem_free((void *)(uintptr_t)s->p);
    }
    *s = (struct str){NULL, 0};
}

/* Replaces *own by a copy of `s`; gives whether it changed. What does not fit stays as it was. */
static bool ptable_text_set_one(struct ptable_text *t, struct str *own, struct str s, size_t max)
{
    char *copy;

    s.n = ptable_text_fit(s, max);
    if (s.n == 0 || str_eq(*own, s)) {
        return false;
    }
    if (t->bytes - own->n + s.n > t->max) {
        t->stats->text_full++;
        return false;
    }
    copy = mem_dup(s.p, s.n);
    if (!copy) {
        t->stats->nomem++;
        return false;
    }
    ptable_text_drop_one(t, own);
    *own = (struct str){copy, s.n};
    t->bytes += s.n;
    return true;
}

static bool ptable_is_sid(struct str s)
{
    return s.n > 4 && memcmp(s.p, "S-1-", 4) == 0;
}

/* Replaces the texts of `own` by copies of those that `info` has, cut to the model's lengths; gives
 * whether one changed. What does not fit stays as it was, and a user's name does not become a SID
 * again. */
static bool ptable_text_set(struct ptable_text *t, struct proc_info *own,
                            const struct proc_info *info)
{
    bool changed = false;

    changed |= ptable_text_set_one(t, &own->name, info->name, MODEL_TEXT_MAX);
    changed |= ptable_text_set_one(t, &own->image, info->image, MODEL_TEXT_MAX);
    /* Records tell the SID at the end too, when the account's name may be known already. */
    if (own->user.n == 0 || ptable_is_sid(own->user) || !ptable_is_sid(info->user)) {
        changed |= ptable_text_set_one(t, &own->user, info->user, MODEL_TEXT_MAX);
    }
    changed |=
        ptable_text_set_one(t, &own->command_line, info->command_line, MODEL_COMMAND_LINE_MAX);
    return changed;
}

static void ptable_text_drop(struct ptable_text *t, struct proc_info *own)
{
    ptable_text_drop_one(t, &own->name);
    ptable_text_drop_one(t, &own->image);
    ptable_text_drop_one(t, &own->user);
    ptable_text_drop_one(t, &own->command_line);
}

/* Of an entry of pids: `mark` counts the chain, `state` says whether its newest still owns it. */
enum pid_state { PID_OWNED, PID_LEFT };

struct list {
    struct ptable_proc *first, *last;
};

struct ptable {
    struct ptable_conf conf;
    struct idmap *pids, *tids;
    struct list running, ended, spare;
    struct ptable_proc *in_grace; /* conf.keep: the first of `ended` whose grace is not over */
    size_t slots;
    struct ptable_text text;
    struct ptable_stats stats;
};

static void ptable_list_append(struct list *l, struct ptable_proc *p)
{
    p->next = NULL;
    p->prev = l->last;
    if (l->last) {
        l->last->next = p;
    } else {
        l->first = p;
    }
    l->last = p;
}

static void ptable_list_remove(struct list *l, struct ptable_proc *p)
{
    if (p->prev) {
        p->prev->next = p->next;
    } else {
        l->first = p->next;
    }
    if (p->next) {
        p->next->prev = p->prev;
    } else {
        l->last = p->prev;
    }
    p->next = p->prev = NULL;
}

enum err ptable_create(struct ptable **out, const struct ptable_conf *conf)
{
    struct ptable *t = mem_zalloc(sizeof *t);
    enum err e;

    if (!t) {
        return ERR_NOMEM;
    }
    t->conf = *conf;
    t->text = (struct ptable_text){.max = conf->text_max, .stats = &t->stats};
    e = idmap_create(&t->pids, conf->instances_max, ptable_entry_dead);
    if (e) {
        goto fail;
    }
    e = idmap_create(&t->tids, conf->threads_max, ptable_entry_dead);
    if (e) {
        goto fail;
    }
    *out = t;
    return ERR_OK;

fail:
    ptable_destroy(t);
    return e;
}

static void ptable_list_free(struct ptable *t, struct list *l)
{
    while (l->first) {
        struct ptable_proc *p = l->first;

        ptable_list_remove(l, p);
        ptable_text_drop(&t->text, &p->info);
        mem_free(p);
    }
}

void ptable_destroy(struct ptable *t)
{
    if (!t) {
        return;
    }
    ptable_list_free(t, &t->running);
    ptable_list_free(t, &t->ended);
    ptable_list_free(t, &t->spare);
    idmap_destroy(t->pids);
    idmap_destroy(t->tids);
    mem_free(t);
}

const struct ptable_stats *ptable_stats(const struct ptable *t)
{
    return &t->stats;
}

/* -- instances -- */

/* Takes p out of the chain of its pid. */
static void ptable_unchain(struct ptable *t, struct ptable_proc *p)
{
    struct idmap_entry *e = idmap_get(t->pids, p->info.id.pid);
    struct ptable_proc *newer;

    if (!e) {
        return;
    }
    newer = e->owner;
    e->mark--;
    if (newer == p) {
        if (p->older) {
            e->owner = p->older;
            e->generation = p->older->generation;
        }
        return; /* else the entry dies with p's generation */
    }
    while (newer && newer->older != p) {
        newer = newer->older;
    }
    if (newer) {
        newer->older = p->older;
    }
}

static bool ptable_is_held(const struct ptable_proc *p)
{
    return p->life.start_held || p->life.stop_held;
}

static bool ptable_can_go(const struct ptable_proc *p)
{
    return p && p->row.final_done && !ptable_is_held(p);
}

static void ptable_leave_ended(struct ptable *t, struct ptable_proc *p)
{
    t->in_grace = t->in_grace == p ? p->next : t->in_grace;
    ptable_list_remove(&t->ended, p);
}

static void ptable_forget(struct ptable *t, struct ptable_proc *p)
{
    uint32_t generation = p->generation + 1;

    assert(t->stats.ended > 0 && ptable_ended(p));
    ptable_unchain(t, p);
    ptable_leave_ended(t, p);
    ptable_text_drop(&t->text, &p->info);
    memset(p, 0, sizeof *p);
    p->generation = generation;
    ptable_list_append(&t->spare, p);
    t->stats.ended--;
    t->stats.forgotten++;
}

/* A clean slot: a spare one, a new one, or that of the longest ended instance. NULL: none. */
static struct ptable_proc *ptable_take_slot(struct ptable *t)
{
    struct ptable_proc *p = t->spare.first;

    if (!p && t->slots >= t->conf.instances_max && ptable_can_go(t->ended.first)) {
        ptable_forget(t, t->ended.first);
        p = t->spare.first;
    }
    if (p) {
        ptable_list_remove(&t->spare, p);
        return p;
    }
    if (t->slots >= t->conf.instances_max) {
        t->stats.full++;
        return NULL;
    }
    p = mem_zalloc(sizeof *p);
    if (!p) {
        t->stats.nomem++;
        return NULL;
    }
    t->slots++;
    assert(t->slots <= t->conf.instances_max);
    return p;
}

/* Whoever has the pid now has no instance: what names it must not go to the one before. */
static void ptable_leave_pid(struct ptable *t, uint32_t pid)
{
    struct idmap_entry *e = idmap_get(t->pids, pid);

    if (e) {
        e->state = PID_LEFT;
    }
}

bool ptable_room(struct ptable *t, uint32_t pid)
{
    struct idmap_entry *e = idmap_get(t->pids, pid);

    if (!e || e->mark < PTABLE_SAME_PID_MAX) {
        return true;
    }
    e->state = PID_LEFT;
    t->stats.full++;
    return false;
}

static void ptable_chain(struct idmap_entry *e, struct ptable_proc *p)
{
    assert(e->owner != p && !p->older);
    p->older = e->owner;
    e->mark = e->owner ? e->mark + 1 : 1; /* that of a dead entry is not zero */
    e->owner = p;
    e->generation = p->generation;
    e->state = PID_OWNED;
}

enum err ptable_add(struct ptable *t, const struct proc_info *info, struct ptable_proc **out)
{
    struct ptable_proc *p;
    struct idmap_entry *e;

    if (!ptable_room(t, info->id.pid)) {
        return ERR_FULL;
    }
    p = ptable_take_slot(t);
    if (!p) {
        ptable_leave_pid(t, info->id.pid);
        return t->slots >= t->conf.instances_max ? ERR_FULL : ERR_NOMEM;
    }
    e = idmap_put(t->pids, info->id.pid);
    if (!e) {
        t->stats.full++;
        ptable_list_append(&t->spare, p);
        return ERR_FULL;
    }
    ptable_chain(e, p);
    t->stats.reused += p->older != NULL;
    p->info = *info;
    p->info.name = p->info.image = p->info.command_line = p->info.user = (struct str){NULL, 0};
    (void)ptable_text_set(&t->text, &p->info, info);
    p->info_version = 1;
    ptable_list_append(&t->running, p);
    t->stats.running++;
    t->stats.instances++;
    *out = p;
    return ERR_OK;
}

static struct ptable_proc *newest(const struct ptable *t, uint32_t pid)
{
    const struct idmap_entry *e = idmap_get(t->pids, pid);

    return e ? e->owner : NULL;
}

struct ptable_proc *ptable_owner(const struct ptable *t, uint32_t pid)
{
    const struct idmap_entry *e = idmap_get(t->pids, pid);

    return e && e->state == PID_OWNED ? e->owner : NULL;
}

struct ptable_proc *ptable_find(const struct ptable *t, struct proc_id id)
{
    struct ptable_proc *p = newest(t, id.pid);

    while (p && p->info.id.start != id.start) {
        p = p->older;
    }
    return p;
}

/* Behind all that follow closely: those of one moment stand in a row, which grows at its end. */
uint64_t ptable_free_start(const struct ptable *t, struct proc_id id)
{
    while (ptable_find(t, id)) {
        uint64_t last = id.start;

        for (const struct ptable_proc *p = newest(t, id.pid); p; p = p->older) {
            if (p->info.id.start > last && p->info.id.start - id.start <= PTABLE_SAME_PID_MAX) {
                last = p->info.id.start;
            }
        }
        id.start = last + 1;
    }
    return id.start;
}

/* Members that are set once. */
static bool update_once(struct proc_info *own, const struct proc_info *info)
{
    bool changed = false;

    if ((info->have & INFO_PARENT) && !(own->have & INFO_PARENT)) {
        own->parent_pid = info->parent_pid;
        own->parent_start = info->parent_start;
        changed = true;
    }
    if ((info->have & INFO_CREATE_TIME) && !(own->have & INFO_CREATE_TIME)) {
        own->create_ns = info->create_ns;
        changed = true;
    }
    if ((info->have & INFO_SESSION) &&
        (!(own->have & INFO_SESSION) || own->session_id != info->session_id)) {
        own->session_id = info->session_id;
        changed = true;
    }
    return changed;
}

void ptable_update(struct ptable *t, struct ptable_proc *p, const struct proc_info *info)
{
    static const uint32_t keep =
        INFO_PARENT | INFO_SESSION | INFO_CREATE_TIME | INFO_COMMAND_LINE_KNOWN;
    bool changed = update_once(&p->info, info);
    bool cut = (info->have & INFO_COMMAND_LINE_CUT) != 0;
    uint32_t have = p->info.have | (info->have & keep);

    changed |= ptable_text_set(&t->text, &p->info, info);
    if (info->command_line.n > 0) {
        have = cut ? have | INFO_COMMAND_LINE_CUT : have & ~(uint32_t)INFO_COMMAND_LINE_CUT;
    }
    if (changed || have != p->info.have) {
        p->info.have = have;
        p->info_version++;
    }
}

void ptable_set_created(struct ptable *t, struct ptable_proc *p, uint64_t start, int64_t create_ns)
{
    const struct proc_id id = {p->info.id.pid, start};

    if (!p->life.named && !p->row.shown && !ptable_find(t, id)) {
        p->info.id = id;
    }
    p->info.create_ns = create_ns;
    p->info.have |= INFO_CREATE_TIME;
    p->info_version++;
}

void ptable_set_origin(struct ptable_proc *p, enum proc_origin origin)
{
    if (p->info.origin != origin) {
        p->info.origin = (uint8_t)origin;
        p->info_version++;
    }
}

void ptable_set_cpu_origin(struct ptable_proc *p, enum cpu_origin origin)
{
    if (p->info.cpu_origin != origin) {
        p->info.cpu_origin = (uint8_t)origin;
        p->info_version++;
    }
}

void ptable_end(struct ptable *t, struct ptable_proc *p, const struct proc_info *end,
                int64_t mono_ns)
{
    static const uint32_t exit_bits =
        INFO_EXIT_TIME | INFO_EXIT_CODE | INFO_EXIT_INFERRED | INFO_FINAL_TOTALS;

    if (!ptable_ended(p)) {
        ptable_list_remove(&t->running, p);
        ptable_list_append(&t->ended, p);
        t->in_grace = t->in_grace ? t->in_grace : p;
        t->stats.running--;
        t->stats.ended++;
        p->end_mono_ns = mono_ns;
        p->row.final_done = false;
    }
    p->info.have &= ~(uint32_t)INFO_EXIT_INFERRED;
    p->info.have |= INFO_EXITED | (end->have & exit_bits);
    if (end->have & INFO_EXIT_TIME) {
        p->info.exit_ns = end->exit_ns;
    }
    if (end->have & INFO_EXIT_CODE) {
        p->info.exit_code = end->exit_code;
    }
    p->info_version++;
}

void ptable_revive(struct ptable *t, struct ptable_proc *p)
{
    static const uint32_t exit_bits =
        INFO_EXITED | INFO_EXIT_TIME | INFO_EXIT_CODE | INFO_EXIT_INFERRED | INFO_FINAL_TOTALS;

    ptable_leave_ended(t, p);
    ptable_list_append(&t->running, p);
    t->stats.running++;
    t->stats.ended--;
    p->info.have &= ~exit_bits;
    p->row.final_done = false;
    p->info_version++;
}

static bool grace_over(const struct ptable *t, const struct ptable_proc *p, int64_t mono_ns)
{
    return clk_sub(mono_ns, p->end_mono_ns) > t->conf.grace_ns;
}

void ptable_expire(struct ptable *t, int64_t mono_ns)
{
    struct ptable_proc *p;

    if (t->conf.keep) {
        for (p = t->in_grace; p && !ptable_is_held(p) && grace_over(t, p, mono_ns); p = p->next) {
            p->generation++;
        }
        t->in_grace = p;
        return;
    }
    for (p = t->ended.first; ptable_can_go(p) && grace_over(t, p, mono_ns); p = t->ended.first) {
        ptable_forget(t, p);
    }
}

int64_t ptable_due_ns(const struct ptable *t)
{
    const struct ptable_proc *p = t->conf.keep ? t->in_grace : t->ended.first;

    if (!p || p->end_mono_ns > INT64_MAX - t->conf.grace_ns) {
        return INT64_MAX;
    }
    return p->end_mono_ns + t->conf.grace_ns;
}

struct ptable_proc *ptable_first_running(const struct ptable *t)
{
    return t->running.first;
}

struct ptable_proc *ptable_first_ended(const struct ptable *t)
{
    return t->ended.first;
}

/* -- threads; an entry's mark says whether the thread is alive -- */

static void thread_gone(struct idmap_entry *e)
{
    struct ptable_proc *p = e->owner;

    if (e->mark && p->threads > 0) {
        p->threads--;
    }
    e->mark = 0;
}

enum err ptable_thread_start(struct ptable *t, uint32_t tid, struct ptable_proc *p)
{
    struct idmap_entry *e = idmap_put(t->tids, tid);

    if (!e) {
        t->stats.threads_full++;
        return ERR_FULL;
    }
    if (e->owner) {
        thread_gone(e);
    }
    e->owner = p;
    e->generation = p->generation;
    e->mark = 1;
    e->state = 0;
    e->since_ns = 0;
    p->threads++;
    return ERR_OK;
}

void ptable_thread_stop(struct ptable *t, uint32_t tid)
{
    struct idmap_entry *e = idmap_get(t->tids, tid);

    if (e) {
        thread_gone(e);
    }
}

void ptable_thread_leave(struct ptable *t, uint32_t tid)
{
    struct idmap_entry *e = idmap_get(t->tids, tid);

    if (e) {
        thread_gone(e);
        e->generation--; /* generations only grow: dead for ever */
    }
}

struct ptable_proc *ptable_thread(const struct ptable *t, uint32_t tid)
{
    const struct idmap_entry *e = idmap_get(t->tids, tid);

    return e ? e->owner : NULL;
}

const struct idmap *ptable_threads(const struct ptable *t)
{
    return t->tids;
}
