/* The subscriptions in memory and on disk. A poll (subscriptions_poll.c) writes a subscription's
 * file before it is answered when it acknowledges something; what was dropped is written with the
 * next such write and when the roster closes. After a kill the journal's first position tells that
 * something went: all of it is counted, since nobody knows any more whose it was. */
#include "collector/subscribe/subscriptions.h"

#include <inttypes.h>
#include <string.h>

#include "collector/subscribe/subscriptions_impl.h"
#include "collector/subscribe/subscriptions_scan.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/log/log.h"

#define GRACE_NS (3600 * CLK_S) /* after a start nobody is dropped so long */

int64_t subscriptions_now(const struct subscriptions *r)
{
    return r->conf.now_ns ? r->conf.now_ns() : os_utc_ns();
}

static void sub_free(struct subscriptions_sub *sub)
{
    subscriptions_state_fini(&sub->s);
    mem_free(sub);
}

/* Whoever asks does so without the lock. */
static void samples_note(struct subscriptions *r)
{
    bool any = false;

    for (size_t i = 0; i < r->n; i++) {
        any |= r->subs[i]->s.filter.samples;
    }
    atomic_store(&r->samples, any);
}

struct subscriptions_sub *subscriptions_find(struct subscriptions *r, const char *owner,
                                             struct str name)
{
    for (size_t i = 0; i < r->n; i++) {
        struct subscriptions_state *s = &r->subs[i]->s;

        if (strcmp(s->owner, owner) == 0 && str_eq(str_make(s->name), name)) {
            return r->subs[i];
        }
    }
    return NULL;
}

/* A copy that owns its texts. */
static enum err state_own(struct subscriptions_state *out, const struct subscriptions_state *in)
{
    struct buf b;
    enum err e;

    buf_init(&b, SUBSCRIPTIONS_FILE_MAX);
    subscriptions_state_encode(&b, in);
    e = b.bad ? b.bad : subscriptions_state_decode(out, b.p, b.n);
    buf_fini(&b);
    return e;
}

enum err subscriptions_put(struct subscriptions *r, struct subscriptions_sub *sub,
                           const struct subscriptions_state *state)
{
    struct subscriptions_state own;
    enum err e = state_own(&own, state);

    if (e) {
        return e;
    }
    e = subscriptions_file_write(r->conf.fio, r->dir, &own);
    if (e) {
        subscriptions_state_fini(&own);
        return e;
    }
    subscriptions_state_fini(&sub->s);
    sub->s = own;
    sub->written_ns = own.polled_ns;
    sub->dirty = false;
    samples_note(r);
    return ERR_OK;
}

static enum err check_room(const struct subscriptions *r, const char *owner, struct errmsg *why)
{
    size_t own = 0;

    for (size_t i = 0; i < r->n; i++) {
        own += strcmp(r->subs[i]->s.owner, owner) == 0;
    }
    if (own >= SUBSCRIPTIONS_EACH) {
        return errmsg_set(why, ERR_FULL,
                          "this certificate's name has %u subscriptions: remove one that nobody "
                          "polls",
                          SUBSCRIPTIONS_EACH);
    }
    return r->n < SUBSCRIPTIONS_MAX
               ? ERR_OK
               : errmsg_set(why, ERR_FULL, "there are %u subscriptions: remove one",
                            SUBSCRIPTIONS_MAX);
}

enum err subscriptions_add(struct subscriptions *r, struct subscriptions_sub **out,
                           const struct subscriptions_state *state, struct errmsg *why)
{
    struct subscriptions_state numbered = *state;
    struct subscriptions_sub *sub;
    enum err e = check_room(r, state->owner, why);

    if (e) {
        return e;
    }
    sub = mem_zalloc(sizeof *sub);
    if (!sub) {
        return ERR_NOMEM;
    }
    numbered.number = r->next_number;
    e = subscriptions_put(r, sub, &numbered);
    if (e) {
        sub_free(sub);
        return e;
    }
    r->next_number++;
    r->subs[r->n++] = sub;
    samples_note(r);
    *out = sub;
    return ERR_OK;
}

/* -- opening -- */

/* What went while the collector was away, or before its last words were written. */
static void reconcile(struct subscriptions *r, struct subscriptions_sub *sub)
{
    struct subscriptions_state *s = &sub->s;
    uint64_t first, next, known;

    journal_range(r->conf.journal, &first, &next);
    if (s->at.epoch != r->epoch) {
        s->at = (struct subscriptions_cursor){r->epoch, first, 0};
        s->floor = first;
        s->lost = 1; /* nobody knows how many */
        s->lost_end = first;
        s->dropped++;
        sub->dirty = true;
    }
    /* Nothing else is lost at or before where it stands. */
    sub->new_epoch = s->lost > 0 && s->lost_end <= s->at.position;
    known = s->at.position > s->floor ? s->at.position : s->floor;
    if (first > known) {
        s->lost += first - known;
        s->dropped += first - known;
        s->floor = s->lost_end = first;
        sub->dirty = true;
    }
    sub->told = s->lost;
}

static enum err load(void *ctx, uint64_t number)
{
    struct subscriptions *r = ctx;
    struct subscriptions_sub *sub = mem_zalloc(sizeof *sub);
    enum err e = sub ? subscriptions_file_read(&sub->s, r->conf.fio, r->dir, number) : ERR_NOMEM;

    r->next_number = number >= r->next_number ? number + 1 : r->next_number;
    if (!e &&
        (r->n == SUBSCRIPTIONS_MAX || subscriptions_find(r, sub->s.owner, str_make(sub->s.name)))) {
        e = ERR_CORRUPT;
        subscriptions_state_fini(&sub->s);
    }
    if (e) {
        mem_free(sub);
        if (e != ERR_CORRUPT) {
            return e;
        }
        log_line(LOG_WARN, "roster", "damaged", "file=sub-%016" PRIx64 ".state remedy=%s", number,
                 "\"it was renamed; the subscription is made anew by its next poll\"");
        return subscriptions_file_aside(r->conf.fio, r->dir, number);
    }
    sub->written_ns = sub->s.polled_ns;
    reconcile(r, sub);
    r->subs[r->n++] = sub;
    return ERR_OK;
}

enum err subscriptions_open(struct subscriptions **out, const struct subscriptions_conf *conf,
                            struct errmsg *why)
{
    struct subscriptions *r = mem_zalloc(sizeof *r);
    enum err e;

    if (!r) {
        return errmsg_set(why, ERR_NOMEM, "out of memory");
    }
    r->conf = *conf;
    r->epoch = journal_epoch(conf->journal);
    r->opened_ns = subscriptions_now(r);
    r->next_number = 1;
    r->dir = mem_strdup(conf->dir);
    e = r->dir ? os_mutex_create(&r->lock) : ERR_NOMEM;
    if (!e) {
        e = os_mkdirs(r->dir, true);
    }
    if (!e) {
        e = subscriptions_files(conf->fio, r->dir, load, r);
    }
    if (e) {
        errmsg_set(why, e, "cannot read the subscriptions in %s: %s", conf->dir, err_text(e));
        subscriptions_close(r);
        return e;
    }
    samples_note(r);
    *out = r;
    return ERR_OK;
}

void subscriptions_close(struct subscriptions *r)
{
    if (!r) {
        return;
    }
    for (size_t i = 0; i < r->n; i++) {
        if (r->subs[i]->dirty) { /* counters: without them it is an upper bound */
            err_ignore(subscriptions_file_write(r->conf.fio, r->dir, &r->subs[i]->s));
        }
        sub_free(r->subs[i]);
    }
    os_mutex_destroy(r->lock);
    mem_free(r->dir);
    mem_free(r);
}

/* -- leaving -- */

static enum err drop(struct subscriptions *r, size_t i)
{
    struct subscriptions_sub *sub = r->subs[i];
    enum err e = subscriptions_file_remove(r->conf.fio, r->dir, sub->s.number);

    if (e) {
        return e;
    }
    r->subs[i] = r->subs[--r->n];
    sub_free(sub);
    samples_note(r);
    return ERR_OK;
}

enum err subscriptions_remove(struct subscriptions *r, const char *owner, const char *name)
{
    enum err e = ERR_NOTFOUND;

    os_mutex_lock(r->lock);
    for (size_t i = 0; i < r->n && e == ERR_NOTFOUND; i++) {
        if (strcmp(r->subs[i]->s.owner, owner) == 0 && strcmp(r->subs[i]->s.name, name) == 0) {
            e = drop(r, i);
        }
    }
    os_mutex_unlock(r->lock);
    return e;
}

void subscriptions_expire(struct subscriptions *r)
{
    int64_t now = subscriptions_now(r);

    if (clk_sub(now, r->opened_ns) < GRACE_NS) {
        return;
    }
    os_mutex_lock(r->lock);
    for (size_t i = r->n; i > 0; i--) {
        const struct subscriptions_state *s = &r->subs[i - 1]->s;
        char owner[140];

        if (clk_sub(now, s->polled_ns) <= r->conf.idle_ns) {
            continue;
        }
        log_line(LOG_INFO, "roster", "expired", "name=%s owner=%s dropped=%" PRIu64, s->name,
                 log_str(owner, sizeof owner, s->owner), s->dropped);
        err_ignore(drop(r, i - 1)); /* tried again with the next look */
    }
    os_mutex_unlock(r->lock);
}

/* -- what others ask -- */

bool subscriptions_wants_samples(void *roster)
{
    struct subscriptions *r = roster;

    return atomic_load(&r->samples) || subscriptions_now(r) < atomic_load(&r->samples_until_ns);
}

void subscriptions_lost(void *roster, const struct journal_record *record)
{
    struct subscriptions *r = roster;

    os_mutex_lock(r->lock);
    for (size_t i = 0; i < r->n; i++) {
        struct subscriptions_sub *sub = r->subs[i];
        struct subscriptions_state *s = &sub->s;

        if (record->position < s->at.position || record->position < s->floor) {
            continue;
        }
        s->floor = record->position + 1;
        sub->dirty = true;
        if (feed_filter_record(&s->filter, s->scope, record)) {
            s->lost++;
            s->lost_end = record->position + 1;
            s->dropped++;
            r->stats.dropped++;
        }
    }
    os_mutex_unlock(r->lock);
}

static bool keep_text(struct str *s, struct arena *memory)
{
    s->p = s->n ? arena_dup(memory, s->p, s->n) : "";
    return s->p != NULL;
}

bool subscriptions_filter_keep(struct wire_filter *f, struct arena *memory)
{
    bool ok = keep_text(&f->program, memory);

    for (size_t i = 0; ok && i < f->n_hosts; i++) {
        ok = keep_text(&f->hosts[i], memory);
    }
    return ok;
}

static bool describe(struct wire_subscription *out, const struct subscriptions *r,
                     const struct subscriptions_state *s, struct arena *memory)
{
    uint64_t begin = s->at.position > s->floor ? s->at.position : s->floor;

    *out = (struct wire_subscription){.name = str_make(s->name),
                                      .owner = str_make(s->owner),
                                      .scope = str_make(s->scope),
                                      .filter = s->filter,
                                      .created_ns = s->created_ns,
                                      .polled_ns = s->polled_ns,
                                      .behind_bytes = subscriptions_behind(r->conf.journal, begin),
                                      .dropped = s->dropped,
                                      .delivered = s->delivered};
    return keep_text(&out->name, memory) && keep_text(&out->owner, memory) &&
           keep_text(&out->scope, memory) && subscriptions_filter_keep(&out->filter, memory);
}

enum err subscriptions_list(struct subscriptions *r, const char *owner,
                            const struct wire_subscription **out, size_t *n, struct arena *memory)
{
    struct wire_subscription *list = arena_array(memory, SUBSCRIPTIONS_MAX, sizeof *list);
    size_t found = 0;
    bool ok = list != NULL;

    os_mutex_lock(r->lock);
    for (size_t i = 0; ok && i < r->n; i++) {
        if (!owner || strcmp(r->subs[i]->s.owner, owner) == 0) {
            ok = describe(&list[found++], r, &r->subs[i]->s, memory);
        }
    }
    os_mutex_unlock(r->lock);
    *out = list;
    *n = found;
    return ok ? ERR_OK : ERR_NOMEM;
}

void subscriptions_stats(struct subscriptions *r, struct subscriptions_stats *out)
{
    os_mutex_lock(r->lock);
    *out = r->stats;
    out->subscriptions = r->n;
    os_mutex_unlock(r->lock);
}
