/* What is dropped and what is joined, by the plans of retain.h and compact.h.
 *
 * A rest segment stays as long as a file of the log is there that was written before it was sealed:
 * else recovery, which leaves out what rest segments list, would take the batches of that file for
 * new ones and seal them again. When nothing is written, the log is made to begin a new file. */
#include <string.h>

#include "collector/store/seal/seal.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"

/* Fewer bytes of batches tell nothing; and what small files take beside what is in them. */
#define TIMES_LEARN  ((uint64_t)16 << 10)
#define TIMES_MAX    16u /* nothing that is right takes more */
#define COMING_SLACK ((uint64_t)64 << 10)

/* The most of late, slowly forgotten. */
void seal_retain_learn(struct seal *x, uint64_t bytes, uint64_t made)
{
    uint64_t times;

    if (bytes >= TIMES_LEARN) {
        times = made / bytes < TIMES_MAX ? made * 16 / bytes + 1 : TIMES_MAX * 16;
        x->times -= x->times / 16;
        x->times = times > x->times ? times : x->times;
    }
}

/* What was sealed up to now. A mark that finds no memory is made up for by the next one. */
void seal_retain_mark(struct seal *x, uint64_t log_newest)
{
    if (VEC_ROOM(&x->marks, &x->cap_marks, x->n_marks + 1, SIZE_MAX)) { /* a file each */
        return;
    }
    if (x->n_marks > 0 && x->marks[x->n_marks - 1].file == log_newest) {
        x->n_marks--;
    }
    x->marks[x->n_marks++] = (struct mark){manifest_number(x->s->manifest), log_newest};
}

/* -- retention -- */

/* What was dropped, for the hosts' books. */
struct dropping {
    struct {
        struct uuid host;
        uint64_t batches;
        bool by_age;
    } * list;
    size_t n, cap;
    bool by_age; /* of the segment at hand */
    int64_t begins_ns;
    enum err result;
};

static enum err drop_stream(void *ctx, const struct dedup_stream *st)
{
    struct dropping *d = ctx;
    uint64_t batches = 0;
    enum err e = VEC_ROOM(&d->list, &d->cap, d->n + 1, SIZE_MAX); /* a stream each */

    if (e) {
        return e;
    }
    for (size_t i = 0; i < st->n_ranges; i++) {
        batches += st->ranges[i].last - st->ranges[i].first + 1;
    }
    d->list[d->n].host = st->host;
    d->list[d->n].batches = batches;
    d->list[d->n].by_age = d->by_age;
    d->n++;
    return ERR_OK;
}

static bool is_dropped(const struct retain_plan *plan, uint64_t number)
{
    for (size_t i = 0; i < plan->n; i++) {
        if (plan->drop[i] == number) {
            return true;
        }
    }
    return false;
}

/* Whose batches the plan drops, by the rest segments: each batch is in one of them. */
static void note_dropped(struct seal *x, const struct manifest_list *l,
                         const struct retain_plan *plan, int64_t now_ns, struct dropping *d)
{
    d->begins_ns = INT64_MAX;
    for (size_t i = 0; i < manifest_segments(l); i++) {
        const struct seg_info *info = manifest_segment(l, i);
        int64_t age_ns = x->retain.age_ns[SEG_REST];
        const struct seg *seg;

        if (!is_dropped(plan, info->number)) {
            d->begins_ns = info->window_ns < d->begins_ns ? info->window_ns : d->begins_ns;
            continue;
        }
        d->by_age = age_ns > 0 && info->window_ns + info->span_ns <= now_ns - age_ns;
        if (info->kind == SEG_REST && manifest_seg(l, i, &seg) == ERR_OK) {
            err_ignore(seg_each_ranges(seg, drop_stream, d)); /* counts only */
        }
    }
}

static void publish_drop(struct store *s, void *ctx)
{
    struct dropping *d = ctx;
    struct seal_change change = {.listed = true};
    uint64_t batches = 0;

    for (size_t i = 0; i < d->n; i++) {
        batches += head_dropped(s->head, &d->list[i].host, d->list[i].batches, d->list[i].by_age);
    }
    head_begins(s->head, d->begins_ns);
    os_mutex_lock(s->lock);
    s->stats.dropped_batches += batches;
    os_mutex_unlock(s->lock);
    seal_publish(s, &change);
    d->result = change.result;
}

static enum err drop_planned(struct seal *x, const struct manifest_list *l,
                             const struct retain_plan *plan, int64_t now_ns, struct errmsg *why)
{
    struct dropping d = {.n = 0};
    enum err e = manifest_change(x->s->manifest, NULL, 0, plan->drop, plan->n, why);

    if (!e) {
        note_dropped(x, l, plan, now_ns, &d);
        store_writer_do(x->s, publish_drop, &d);
        e = d.result;
    }
    mem_free(d.list);
    return e;
}

static void measure(struct seal *x, uint64_t head_bytes, int64_t now_ns, struct retain_now *now)
{
    uint64_t batches = head_bytes > x->usual_bytes ? head_bytes : x->usual_bytes;
    uint64_t coming = batches * x->times / 16; /* an eighth more for what comes meanwhile */
    struct store *s = x->s;
    struct manifest_stats m;

    manifest_stats(s->manifest, &m);
    *now = (struct retain_now){.now_ns = now_ns,
                               .other_bytes = m.held_bytes + m.file_bytes + s->conf.beside_bytes,
                               .coming_bytes = coming + coming / 8 + COMING_SLACK + m.file_bytes,
                               .wanted_bytes = compact_wants(x->compact, now_ns)};
    if (os_disk_free(s->conf.dir, &now->disk_free, &now->disk_total)) {
        now->disk_total = 0;
    }
    os_mutex_lock(s->lock);
    now->other_bytes += s->stats.log_bytes;
    os_mutex_unlock(s->lock);
    if (s->catalogue) {
        now->other_bytes += catalogue_bytes(s->catalogue);
    }
}

static void tell_room(struct seal *x, const struct retain_now *now, const struct retain_plan *plan)
{
    struct store_room *r = &x->room;

    os_mutex_lock(x->lock);
    for (unsigned k = SEG_RAW; k < SEG_KINDS; k++) {
        r->kind[k].age_ns = x->retain.age_ns[k];
        r->kind[k].share_bytes = x->retain.share[k];
        r->kind[k].dropped_age += plan->by_age[k];
        r->kind[k].dropped_bytes += plan->by_bytes[k] + plan->by_disk[k];
    }
    r->ceiling_bytes = x->retain.total_bytes;
    r->disk_free = now->disk_free;
    r->disk_total = now->disk_total;
    r->refusing = plan->stop;
    r->next_kind = plan->next_kind;
    r->next_window_ns = plan->next_window_ns;
    r->next_in_ns = plan->next_in_ns;
    os_mutex_unlock(x->lock);
}

/* -- what the log still needs -- */

struct log_look {
    bool turn, settle;
    uint64_t oldest, newest;
    enum err result;
};

/* Nothing is written: a file that holds nothing more would stay, and what it needs with it. */
static void look_at_log(struct store *s, void *ctx)
{
    struct log_look *l = ctx;
    struct head_stats head;
    struct wal_stats log;
    struct errmsg why;

    head_stats(s->head, &head);
    l->result = ERR_OK;
    if (l->turn && head.batches == 0) {
        l->result = wal_turn(s->wal, s->newest_ns, &why);
    }
    wal_trim(s->wal);
    if (!l->result && l->settle) {
        l->result = wal_settle(s->wal);
    }
    wal_stats(s->wal, &log);
    l->oldest = log.oldest;
    l->newest = log.newest;
}

static bool log_needs(const struct seal *x, uint64_t segment, const struct log_look *log)
{
    size_t i = 0;

    while (i < x->n_marks && x->marks[i].segment < segment) {
        i++;
    }
    return log->oldest > 0 && log->oldest <= (i < x->n_marks ? x->marks[i].file : log->newest);
}

static bool is_rest(const struct manifest_list *l, uint64_t number)
{
    size_t n = manifest_segments(l);

    for (size_t i = manifest_lower(l, SEG_REST, INT64_MIN); i < n; i++) {
        if (manifest_segment(l, i)->number == number) {
            return manifest_segment(l, i)->kind == SEG_REST;
        }
    }
    return false;
}

/* Takes out of the plan the rest segments that recovery would need. */
static void spare(const struct seal *x, const struct manifest_list *l, struct retain_plan *plan,
                  const struct log_look *log)
{
    size_t kept = 0, n = plan->n;

    for (size_t i = 0; i < n; i++) {
        if (!is_rest(l, plan->drop[i]) || !log_needs(x, plan->drop[i], log)) {
            plan->drop[kept++] = plan->drop[i];
        }
    }
    plan->n = kept;
}

static void spare_all(const struct manifest_list *l, struct retain_plan *plan)
{
    size_t kept = 0, n = plan->n;

    for (size_t i = 0; i < n; i++) {
        if (!is_rest(l, plan->drop[i])) {
            plan->drop[kept++] = plan->drop[i];
        }
    }
    plan->n = kept;
}

static void forget_marks(struct seal *x, uint64_t oldest)
{
    size_t gone = 0;

    while (gone < x->n_marks && x->marks[gone].file < oldest) {
        gone++;
    }
    if (gone > 1) { /* the last of them covers all before */
        x->n_marks -= gone - 1;
        memmove(x->marks, x->marks + gone - 1, x->n_marks * sizeof *x->marks);
    }
}

/* The newest rest segment that the plan drops; 0: none. */
static uint64_t last_rest(const struct manifest_list *l, const struct retain_plan *plan)
{
    uint64_t last = 0;

    for (size_t i = 0; i < plan->n; i++) {
        last = plan->drop[i] > last && is_rest(l, plan->drop[i]) ? plan->drop[i] : last;
    }
    return last;
}

/* A log file that was removed may come back with a power cut until its directory is synced. Where
 * the log cannot do its part, what needs it stays, and the rest of the plan goes: it may be what
 * makes room for the log. */
static void mind_log(struct seal *x, const struct manifest_list *l, struct retain_plan *plan)
{
    struct log_look log = {.turn = false};
    uint64_t last = last_rest(l, plan);

    if (last == 0) {
        return;
    }
    store_writer_do(x->s, look_at_log, &log);
    if (log_needs(x, last, &log)) {
        log.turn = true;
        store_writer_do(x->s, look_at_log, &log);
    }
    spare(x, l, plan, &log);
    forget_marks(x, log.oldest);
    if (last_rest(l, plan) > 0) {
        struct log_look settle = {.settle = true};

        store_writer_do(x->s, look_at_log, &settle);
        if (settle.result) {
            spare_all(l, plan);
        }
    }
}

static void set_refusing(struct store *s, bool refusing, uint64_t disk_free)
{
    bool changed;

    os_mutex_lock(s->lock);
    changed = s->refusing != refusing;
    s->refusing = refusing;
    os_mutex_unlock(s->lock);
    if (changed && s->conf.on_refusing) {
        s->conf.on_refusing(s->conf.ctx, refusing, disk_free);
    }
}

enum err seal_retain(struct seal *x, uint64_t head_bytes, int64_t now_ns, struct errmsg *why)
{
    struct store *s = x->s;
    struct manifest_list *l = manifest_view(s->manifest);
    struct retain_plan plan = {.n = 0};
    struct retain_now now;
    enum err e;

    measure(x, head_bytes, now_ns, &now);
    e = l ? retain_plan(&plan, &x->retain, l, &now) : ERR_NOMEM;
    if (!e && plan.n > 0) {
        mind_log(x, l, &plan);
    }
    if (!e && plan.n > 0) {
        e = drop_planned(x, l, &plan, now_ns, why);
    }
    if (!e) {
        set_refusing(s, plan.stop, now.disk_free);
        tell_room(x, &now, &plan);
    }
    if (!e && s->catalogue) {
        uint64_t bytes;

        err_ignore(catalogue_drop_before(s->catalogue, plan.catalogue_before_ns, &bytes));
    }
    mem_free(plan.drop);
    manifest_list_release(l);
    return e;
}

enum err seal_retain_compact(struct seal *x, uint64_t head_bytes, int64_t now_ns, bool *worked,
                             struct errmsg *why)
{
    struct manifest_list *l = manifest_view(x->s->manifest);
    struct retain_now now;
    uint64_t room;
    enum err e;

    measure(x, head_bytes, now_ns, &now);
    room = l ? retain_spare(&x->retain, l, &now) : 0;
    manifest_list_release(l);
    e = compact_step(x->compact, now_ns, room, worked, why);
    if (!e && *worked) {
        struct log_look log = {.turn = false};

        store_writer_do(x->s, look_at_log, &log);
        seal_retain_mark(x, log.newest); /* a joined segment has a number of its own */
        x->unlisted = seal_follow(x->s);
    }
    return e;
}
