/* Instances live in slots that are never given back to the heap before the table is destroyed, and
 * every slot has a generation that grows when its instance is forgotten. The two number maps (pid →
 * newest instance, tid → instance) hold slot and generation; an entry whose generation differs is
 * dead. So forgetting an instance with a thousand threads costs nothing, and no late event can
 * reach the next user of the slot.
 *
 * Running instances stand in one list; ended ones in another, in order of their end, so that
 * expiry looks only at its head. Instances of one pid are chained newest first through `older`. */
#include "agent/process/instances.h"

#include <assert.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"

struct instances_text {
    size_t bytes, max;
    struct instances_stats *stats; /* text_full and nomem are counted there */
};

/* -- texts: copies, all of them together within a limit -- */

/* At most `max` bytes, and no character cut in two. */
static size_t instances_text_fit(struct str s, size_t max)
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

static void instances_text_drop_one(struct instances_text *t, struct str *s)
{
    if (s->p) {
        assert(t->bytes >= s->n);
        t->bytes -= s->n;
        mem_free((void *)(uintptr_t)s->p);
    }
    *s = (struct str){NULL, 0};
}

/* Replaces *own by a copy of `s`; gives whether it changed. What does not fit stays as it was. */
static bool instances_text_set_one(struct instances_text *t, struct str *own, struct str s,
                                   size_t max)
{
    char *copy;

    s.n = instances_text_fit(s, max);
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
    instances_text_drop_one(t, own);
    *own = (struct str){copy, s.n};
    t->bytes += s.n;
    return true;
}

static bool instances_is_sid(struct str s)
{
    return s.n > 4 && memcmp(s.p, "S-1-", 4) == 0;
}

/* Replaces the texts of `own` by copies of those that `info` has, cut to the model's lengths; gives
 * whether one changed. What does not fit stays as it was, and a user's name does not become a SID
 * again. */
static bool instances_text_set(struct instances_text *t, struct proc_info *own,
                               const struct proc_info *info)
{
    bool changed = false;

    changed |= instances_text_set_one(t, &own->name, info->name, MODEL_TEXT_MAX);
    changed |= instances_text_set_one(t, &own->image, info->image, MODEL_TEXT_MAX);
    /* Records tell the SID at the end too, when the account's name may be known already. */
    if (own->user.n == 0 || instances_is_sid(own->user) || !instances_is_sid(info->user)) {
        changed |= instances_text_set_one(t, &own->user, info->user, MODEL_TEXT_MAX);
    }
    changed |=
        instances_text_set_one(t, &own->command_line, info->command_line, MODEL_COMMAND_LINE_MAX);
    return changed;
}

static void instances_text_drop(struct instances_text *t, struct proc_info *own)
{
    instances_text_drop_one(t, &own->name);
    instances_text_drop_one(t, &own->image);
    instances_text_drop_one(t, &own->user);
    instances_text_drop_one(t, &own->command_line);
}

/* Of an entry of pids: `mark` counts the chain, `state` says whether its newest still owns it. */
enum pid_state { PID_OWNED, PID_LEFT };

struct list {
    struct instance *first, *last;
};

struct instances {
    struct instances_conf conf;
    struct u32map *pids, *tids;
    struct list running, ended, spare;
    struct instance *in_grace; /* conf.keep: the first of `ended` whose grace is not over */
    size_t slots;
    struct instances_text text;
    struct instances_stats stats;
};

static void instances_list_append(struct list *l, struct instance *p)
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

static void instances_list_remove(struct list *l, struct instance *p)
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

enum err instances_create(struct instances **out, const struct instances_conf *conf)
{
    struct instances *t = mem_zalloc(sizeof *t);
    enum err e;

    if (!t) {
        return ERR_NOMEM;
    }
    t->conf = *conf;
    t->text = (struct instances_text){.max = conf->text_max, .stats = &t->stats};
    e = u32map_create(&t->pids, conf->instances_max, instances_entry_dead);
    if (e) {
        goto fail;
    }
    e = u32map_create(&t->tids, conf->threads_max, instances_entry_dead);
    if (e) {
        goto fail;
    }
    *out = t;
    return ERR_OK;

fail:
    instances_destroy(t);
    return e;
}

static void instances_list_free(struct instances *t, struct list *l)
{
    while (l->first) {
        struct instance *p = l->first;

        instances_list_remove(l, p);
        instances_text_drop(&t->text, &p->info);
        mem_free(p);
    }
}

void instances_destroy(struct instances *t)
{
    if (!t) {
        return;
    }
    instances_list_free(t, &t->running);
    instances_list_free(t, &t->ended);
    instances_list_free(t, &t->spare);
    u32map_destroy(t->pids);
    u32map_destroy(t->tids);
    mem_free(t);
}

const struct instances_stats *instances_stats(const struct instances *t)
{
    return &t->stats;
}

/* -- instances -- */

/* The living entry of a pid or tid, or NULL. */
static inline struct u32map_entry *instances_entry(const struct u32map *m, uint32_t number)
{
    struct u32map_entry *e = u32map_find(m, number);

    return e && !instances_entry_dead(e) ? e : NULL;
}

/* Takes p out of the chain of its pid. */
static void instances_unchain(struct instances *t, struct instance *p)
{
    struct u32map_entry *e = instances_entry(t->pids, p->info.id.pid);
    struct instance *newer;

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

static bool instances_is_held(const struct instance *p)
{
    return p->life.start_held || p->life.stop_held;
}

static bool instances_can_go(const struct instance *p)
{
    return p && p->row.final_done && !instances_is_held(p);
}

static void instances_leave_ended(struct instances *t, struct instance *p)
{
    t->in_grace = t->in_grace == p ? p->next : t->in_grace;
    instances_list_remove(&t->ended, p);
}

static void instances_forget(struct instances *t, struct instance *p)
{
    uint32_t generation = p->generation + 1;

    assert(t->stats.ended > 0 && instances_ended(p));
    instances_unchain(t, p);
    instances_leave_ended(t, p);
    instances_text_drop(&t->text, &p->info);
    memset(p, 0, sizeof *p);
    p->generation = generation;
    instances_list_append(&t->spare, p);
    t->stats.ended--;
    t->stats.forgotten++;
}

/* A clean slot: a spare one, a new one, or that of the longest ended instance. NULL: none. */
static struct instance *instances_take_slot(struct instances *t)
{
    struct instance *p = t->spare.first;

    if (!p && t->slots >= t->conf.instances_max && instances_can_go(t->ended.first)) {
        instances_forget(t, t->ended.first);
        p = t->spare.first;
    }
    if (p) {
        instances_list_remove(&t->spare, p);
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
static void instances_leave_pid(struct instances *t, uint32_t pid)
{
    struct u32map_entry *e = instances_entry(t->pids, pid);

    if (e) {
        e->state = PID_LEFT;
    }
}

bool instances_room(struct instances *t, uint32_t pid)
{
    struct u32map_entry *e = instances_entry(t->pids, pid);

    if (!e || e->mark < INSTANCES_SAME_PID_MAX) {
        return true;
    }
    e->state = PID_LEFT;
    t->stats.full++;
    return false;
}

static void instances_chain(struct u32map_entry *e, struct instance *p)
{
    assert(e->owner != p && !p->older);
    p->older = e->owner;
    e->mark = e->owner ? e->mark + 1 : 1; /* that of a dead entry is not zero */
    e->owner = p;
    e->generation = p->generation;
    e->state = PID_OWNED;
}

enum err instances_add(struct instances *t, const struct proc_info *info, struct instance **out)
{
    struct instance *p;
    struct u32map_entry *e;

    if (!instances_room(t, info->id.pid)) {
        return ERR_FULL;
    }
    p = instances_take_slot(t);
    if (!p) {
        instances_leave_pid(t, info->id.pid);
        return t->slots >= t->conf.instances_max ? ERR_FULL : ERR_NOMEM;
    }
    e = u32map_put(t->pids, info->id.pid);
    if (!e) {
        t->stats.full++;
        instances_list_append(&t->spare, p);
        return ERR_FULL;
    }
    instances_chain(e, p);
    t->stats.reused += p->older != NULL;
    p->info = *info;
    p->info.name = p->info.image = p->info.command_line = p->info.user = (struct str){NULL, 0};
    (void)instances_text_set(&t->text, &p->info, info);
    p->info_version = 1;
    instances_list_append(&t->running, p);
    t->stats.running++;
    t->stats.instances++;
    *out = p;
    return ERR_OK;
}

static struct instance *newest(const struct instances *t, uint32_t pid)
{
    const struct u32map_entry *e = instances_entry(t->pids, pid);

    return e ? e->owner : NULL;
}

struct instance *instances_owner(const struct instances *t, uint32_t pid)
{
    const struct u32map_entry *e = instances_entry(t->pids, pid);

    return e && e->state == PID_OWNED ? e->owner : NULL;
}

struct instance *instances_find(const struct instances *t, struct proc_id id)
{
    struct instance *p = newest(t, id.pid);

    while (p && p->info.id.start != id.start) {
        p = p->older;
    }
    return p;
}

/* Behind all that follow closely: those of one moment stand in a row, which grows at its end. */
uint64_t instances_free_start(const struct instances *t, struct proc_id id)
{
    while (instances_find(t, id)) {
        uint64_t last = id.start;

        for (const struct instance *p = newest(t, id.pid); p; p = p->older) {
            if (p->info.id.start > last && p->info.id.start - id.start <= INSTANCES_SAME_PID_MAX) {
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
    own->sequence = own->sequence ? own->sequence : info->sequence; /* nobody is told of it */
    if ((info->have & INFO_SESSION) &&
        (!(own->have & INFO_SESSION) || own->session_id != info->session_id)) {
        own->session_id = info->session_id;
        changed = true;
    }
    return changed;
}

void instances_update(struct instances *t, struct instance *p, const struct proc_info *info)
{
    static const uint32_t keep =
        INFO_PARENT | INFO_SESSION | INFO_CREATE_TIME | INFO_COMMAND_LINE_KNOWN;
    bool changed = update_once(&p->info, info);
    bool cut = (info->have & INFO_COMMAND_LINE_CUT) != 0;
    uint32_t have = p->info.have | (info->have & keep);

    changed |= instances_text_set(&t->text, &p->info, info);
    if (info->command_line.n > 0) {
        have = cut ? have | INFO_COMMAND_LINE_CUT : have & ~(uint32_t)INFO_COMMAND_LINE_CUT;
    }
    if (changed || have != p->info.have) {
        p->info.have = have;
        p->info_version++;
    }
}

void instances_set_created(struct instances *t, struct instance *p, uint64_t start,
                           int64_t create_ns)
{
    const struct proc_id id = {p->info.id.pid, start};

    if (!p->life.named && !p->row.shown && !instances_find(t, id)) {
        p->info.id = id;
    }
    p->info.create_ns = create_ns;
    p->info.have |= INFO_CREATE_TIME;
    p->info_version++;
}

void instances_set_origin(struct instance *p, enum proc_origin origin)
{
    if (p->info.origin != origin) {
        p->info.origin = (uint8_t)origin;
        p->info_version++;
    }
}

void instances_set_cpu_origin(struct instance *p, enum cpu_origin origin)
{
    if (p->info.cpu_origin != origin) {
        p->info.cpu_origin = (uint8_t)origin;
        p->info_version++;
    }
}

void instances_end(struct instances *t, struct instance *p, const struct proc_info *end,
                   int64_t mono_ns)
{
    static const uint32_t exit_bits =
        INFO_EXIT_TIME | INFO_EXIT_CODE | INFO_EXIT_INFERRED | INFO_FINAL_TOTALS | INFO_SIGNALLED;

    if (!instances_ended(p)) {
        instances_list_remove(&t->running, p);
        instances_list_append(&t->ended, p);
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

void instances_revive(struct instances *t, struct instance *p)
{
    static const uint32_t exit_bits = INFO_EXITED | INFO_EXIT_TIME | INFO_EXIT_CODE |
                                      INFO_EXIT_INFERRED | INFO_FINAL_TOTALS | INFO_SIGNALLED;

    instances_leave_ended(t, p);
    instances_list_append(&t->running, p);
    t->stats.running++;
    t->stats.ended--;
    p->info.have &= ~exit_bits;
    p->row.final_done = false;
    p->info_version++;
}

static bool grace_over(const struct instances *t, const struct instance *p, int64_t mono_ns)
{
    return clk_sub(mono_ns, p->end_mono_ns) > t->conf.grace_ns;
}

void instances_expire(struct instances *t, int64_t mono_ns)
{
    struct instance *p;

    if (t->conf.keep) {
        for (p = t->in_grace; p && !instances_is_held(p) && grace_over(t, p, mono_ns);
             p = p->next) {
            p->generation++;
        }
        t->in_grace = p;
        return;
    }
    for (p = t->ended.first; instances_can_go(p) && grace_over(t, p, mono_ns); p = t->ended.first) {
        instances_forget(t, p);
    }
}

int64_t instances_due_ns(const struct instances *t)
{
    const struct instance *p = t->conf.keep ? t->in_grace : t->ended.first;

    if (!p || p->end_mono_ns > INT64_MAX - t->conf.grace_ns) {
        return INT64_MAX;
    }
    return p->end_mono_ns + t->conf.grace_ns;
}

struct instance *instances_first_running(const struct instances *t)
{
    return t->running.first;
}

struct instance *instances_first_ended(const struct instances *t)
{
    return t->ended.first;
}

/* -- threads; an entry's mark says whether the thread is alive -- */

static void thread_gone(struct u32map_entry *e)
{
    struct instance *p = e->owner;

    if (e->mark && p->threads > 0) {
        p->threads--;
    }
    e->mark = 0;
}

enum err instances_thread_start(struct instances *t, uint32_t tid, struct instance *p)
{
    struct u32map_entry *e = u32map_put(t->tids, tid);

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

void instances_thread_stop(struct instances *t, uint32_t tid)
{
    struct u32map_entry *e = instances_entry(t->tids, tid);

    if (e) {
        thread_gone(e);
    }
}

void instances_thread_leave(struct instances *t, uint32_t tid)
{
    struct u32map_entry *e = instances_entry(t->tids, tid);

    if (e) {
        thread_gone(e);
        e->generation--; /* generations only grow: dead for ever */
    }
}

struct instance *instances_thread(const struct instances *t, uint32_t tid)
{
    const struct u32map_entry *e = instances_entry(t->tids, tid);

    return e ? e->owner : NULL;
}

const struct u32map *instances_threads(const struct instances *t)
{
    return t->tids;
}
