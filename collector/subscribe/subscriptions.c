/* The subscriptions in memory and on disk. A poll writes a subscription's file before it is
 * answered when it acknowledges something; what was dropped is written with the next such write and
 * when the subscriptions are closed. After a kill the journal's first position shows that something
 * was dropped: all of it is counted, since nothing says any more whose it was.
 *
 * A poll has three steps. Under the lock: what the cursor acknowledges, made durable. Without it:
 * the search, which changes nothing. Under it again: the counters.
 *
 * What the journal drops during a search is counted for the subscription at the same time; then the
 * poll begins again, so that no update is both delivered and reported as dropped, or neither.
 *
 *   at ........ floor ........ next        at: acknowledged; [at, floor): dropped before it was
 *      `lost`         kept                 polled, of which `told` was in a reply already
 *
 * A cursor behind `floor` came with a reply that began there or that was given before the drop: in
 * the latter case nothing was lost, and what had not been reported is taken back. */
#include "collector/subscribe/subscriptions.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "collector/subscribe/subscriptions_file.h"
#include "collector/subscribe/subscriptions_scan.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/expr/expr_event.h"
#include "common/log/log.h"
#include "common/os/os.h"

#define GRACE_NS       (3600 * CLK_S) /* after a start none is dropped for so long */
#define TRIES_MAX      8u
#define SAMPLES_FOR_NS (120 * CLK_S) /* after a poll that nobody remembers */
#define POLLED_PART    16            /* of idle_ns: how far the file's polled_ns may be behind */
#define MIN_OF(a, b)   ((a) < (b) ? (a) : (b))
#define MAX_OF(a, b)   ((a) > (b) ? (a) : (b))

struct subscriptions_sub {
    struct subscriptions_state s;
    uint64_t told;      /* of s.lost, what a reply has told */
    uint64_t counted;   /* position: what is missing before it is in s.dropped */
    int64_t written_ns; /* polled_ns in the file */
    bool dirty;         /* counters are ahead of the file */
    bool new_epoch;     /* its loss is counted, and no cursor of this epoch was given yet */
};

struct subscriptions {
    struct subscriptions_conf conf;
    char *dir;
    uint64_t epoch;
    int64_t opened_ns;
    _Atomic(int64_t) samples_until_ns; /* a poll without a name wants samples */
    atomic_bool samples;               /* a subscription wants them */

    struct os_mutex *lock; /* guards what follows */
    size_t n;
    struct subscriptions_sub *subs[SUBSCRIPTIONS_MAX];
    uint64_t next_number;
    struct subscriptions_stats stats;
};

static int64_t now_of(const struct subscriptions *r)
{
    return r->conf.now_ns ? r->conf.now_ns() : os_utc_ns();
}

static void sub_free(struct subscriptions_sub *sub)
{
    subscriptions_file_fini(&sub->s);
    mem_free(sub);
}

/* Read without the lock. */
static void samples_note(struct subscriptions *r)
{
    bool any = false;

    for (size_t i = 0; i < r->n; i++) {
        any |= r->subs[i]->s.filter.samples;
    }
    atomic_store(&r->samples, any);
}

static struct subscriptions_sub *sub_find(struct subscriptions *r, const char *owner,
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
    subscriptions_file_encode(&b, in);
    e = b.bad ? b.bad : subscriptions_file_decode(out, b.p, b.n);
    buf_fini(&b);
    return e;
}

static enum err sub_put(struct subscriptions *r, struct subscriptions_sub *sub,
                        const struct subscriptions_state *state)
{
    struct subscriptions_state own;
    enum err e = state_own(&own, state);

    if (e) {
        return e;
    }
    e = subscriptions_file_write(r->conf.fio, r->dir, &own);
    if (e) {
        subscriptions_file_fini(&own);
        return e;
    }
    subscriptions_file_fini(&sub->s);
    sub->s = own;
    sub->written_ns = own.polled_ns;
    sub->dirty = false;
    samples_note(r);
    return ERR_OK;
}

static enum err sub_check_room(const struct subscriptions *r, const char *owner, struct errmsg *why)
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

static enum err sub_add(struct subscriptions *r, struct subscriptions_sub **out,
                        const struct subscriptions_state *state, struct errmsg *why)
{
    struct subscriptions_state numbered = *state;
    struct subscriptions_sub *sub;
    enum err e = sub_check_room(r, state->owner, why);

    if (e) {
        return e;
    }
    sub = mem_zalloc(sizeof *sub);
    if (!sub) {
        return ERR_NOMEM;
    }
    numbered.number = r->next_number;
    e = sub_put(r, sub, &numbered);
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
static void sub_reconcile(struct subscriptions *r, struct subscriptions_sub *sub)
{
    struct subscriptions_state *s = &sub->s;
    uint64_t first, next, known;

    journal_range(r->conf.journal, &first, &next);
    if (s->at.epoch != r->epoch) {
        s->at = (struct subscriptions_cursor){r->epoch, first, 0};
        s->floor = first;
        s->lost = 1; /* how many is unknown */
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

static enum err sub_load(void *ctx, uint64_t number)
{
    struct subscriptions *r = ctx;
    struct subscriptions_sub *sub = mem_zalloc(sizeof *sub);
    enum err e = sub ? subscriptions_file_read(&sub->s, r->conf.fio, r->dir, number) : ERR_NOMEM;

    r->next_number = number >= r->next_number ? number + 1 : r->next_number;
    if (!e && (r->n == SUBSCRIPTIONS_MAX || sub_find(r, sub->s.owner, str_make(sub->s.name)))) {
        e = ERR_CORRUPT;
        subscriptions_file_fini(&sub->s);
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
    sub_reconcile(r, sub);
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
    r->opened_ns = now_of(r);
    r->next_number = 1;
    r->dir = mem_strdup(conf->dir);
    e = r->dir ? os_mutex_create(&r->lock) : ERR_NOMEM;
    if (!e) {
        e = os_mkdirs(r->dir, true);
    }
    if (!e) {
        e = subscriptions_files(conf->fio, r->dir, sub_load, r);
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

static enum err sub_drop(struct subscriptions *r, size_t i)
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
            e = sub_drop(r, i);
        }
    }
    os_mutex_unlock(r->lock);
    return e;
}

void subscriptions_expire(struct subscriptions *r)
{
    int64_t now = now_of(r);

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
        err_ignore(sub_drop(r, i - 1)); /* tried again with the next look */
    }
    os_mutex_unlock(r->lock);
}

/* -- what others ask -- */

bool subscriptions_wants_samples(void *roster)
{
    struct subscriptions *r = roster;

    return atomic_load(&r->samples) || now_of(r) < atomic_load(&r->samples_until_ns);
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

static bool filter_keep(struct wire_filter *f, struct arena *memory)
{
    bool ok = keep_text(&f->program, memory) && keep_text(&f->providers.provider, memory) &&
              keep_text(&f->providers.event, memory) && keep_text(&f->providers.where, memory);

    for (size_t i = 0; ok && i < f->n_hosts; i++) {
        ok = keep_text(&f->hosts[i], memory);
    }
    return ok;
}

static bool sub_describe(struct wire_subscription *out, const struct subscriptions *r,
                         const struct subscriptions_state *s, struct arena *memory)
{
    uint64_t begin = s->at.position > s->floor ? s->at.position : s->floor;

    *out = (struct wire_subscription){.name = str_make(s->name),
                                      .owner = str_make(s->owner),
                                      .scope = str_make(s->scope),
                                      .filter = s->filter,
                                      .created_ns = s->created_ns,
                                      .polled_ns = s->polled_ns,
                                      .behind_bytes =
                                          subscriptions_scan_behind(r->conf.journal, begin),
                                      .dropped = s->dropped,
                                      .delivered = s->delivered};
    return keep_text(&out->name, memory) && keep_text(&out->owner, memory) &&
           keep_text(&out->scope, memory) && filter_keep(&out->filter, memory);
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
            ok = sub_describe(&list[found++], r, &r->subs[i]->s, memory);
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

/* -- polling -- */

struct poll_round {
    struct subscriptions *r;
    const struct subscriptions_peer *peer;
    const struct wire_poll *poll;
    bool has_cursor;
    struct subscriptions_cursor cursor; /* given */
    const struct subscriptions_cursor *seen;
    uint64_t first, next; /* of the journal */

    struct wire_filter filter;
    uint64_t number; /* of the subscription; 0 = none */
    uint64_t begin;  /* where the search began */
    uint64_t lost;   /* told with this reply */
    uint64_t dropped;
};

/* -- acknowledging -- */

/* The cursor is of this epoch and differs from the one kept. */
static void move_within(struct subscriptions_state *s, uint64_t told,
                        const struct subscriptions_cursor *c, uint64_t first)
{
    if (c->position >= s->at.position) {
        uint64_t untold = s->lost - MIN_OF(told, s->lost);
        uint64_t left = MIN_OF(untold, s->lost_end > c->position ? s->lost_end - c->position : 0);

        s->dropped -= MIN_OF(untold - left, s->dropped);
        s->lost = left;
    } else if (c->position < first) { /* back to what is kept no longer */
        uint64_t gone = MIN_OF(first, s->at.position) - c->position;

        s->lost += gone;
        s->lost_end = MAX_OF(s->lost_end, first);
        s->dropped += gone;
        s->floor = MAX_OF(s->floor, first);
    }
    s->at = *c;
}

/* new_epoch: as of struct subscriptions_sub. A cursor of another epoch that comes again changes
 * nothing.
 */
static void acknowledge(struct subscriptions_state *s, uint64_t told, bool new_epoch,
                        const struct poll_round *k)
{
    struct subscriptions_cursor c = k->cursor;

    if (c.epoch != k->r->epoch && new_epoch) {
        return;
    }
    if (c.epoch != k->r->epoch) {
        s->at = (struct subscriptions_cursor){k->r->epoch, k->first, 0};
        s->floor = k->first;
        s->lost = 1; /* how many is unknown */
        s->lost_end = k->first;
        s->dropped++;
        return;
    }
    if (c.position > k->next) {
        c.position = k->next;
        c.offset = 0;
    }
    if (!subscriptions_cursor_same(&c, &s->at)) {
        move_within(s, told, &c, k->first);
    } else if (s->lost_end <= c.position) { /* the first of a new epoch: it came with the loss */
        s->lost = 0;
    }
}

/* -- beginning, with a name -- */

static struct subscriptions_state state_new(const struct poll_round *k)
{
    struct subscriptions_state s = {
        .at = {k->r->epoch, k->poll->from_oldest ? k->first : k->next, 0}, .floor = k->first};

    memcpy(s.name, k->poll->name.p, k->poll->name.n);
    (void)snprintf(s.owner, sizeof s.owner, "%s", k->peer->name);
    s.created_ns = now_of(k->r);
    return s;
}

static bool has_moved(const struct subscriptions_sub *sub, const struct subscriptions_state *s)
{
    return !subscriptions_cursor_same(&s->at, &sub->s.at) || s->lost != sub->s.lost;
}

static bool must_write(const struct subscriptions_sub *sub, const struct subscriptions_state *s)
{
    return has_moved(sub, s) || !feed_filter_same(&s->filter, &sub->s.filter) ||
           strcmp(s->scope, sub->s.scope) != 0;
}

/* The poll's part in the subscription, durable. */
static enum err poll_take_part(struct poll_round *k, struct subscriptions_sub **out,
                               struct errmsg *why)
{
    struct subscriptions *r = k->r;
    struct subscriptions_sub *sub = sub_find(r, k->peer->name, k->poll->name);
    struct subscriptions_state s = sub ? sub->s : state_new(k);
    enum err e = ERR_OK;

    if (k->has_cursor) {
        acknowledge(&s, sub ? sub->told : 0, sub && sub->new_epoch, k);
    }
    if (k->poll->has_filter) {
        s.filter = k->poll->filter;
    }
    (void)snprintf(s.scope, sizeof s.scope, "%s", k->peer->scope);
    s.polled_ns = now_of(r);
    if (!sub) {
        e = sub_add(r, &sub, &s, why);
    } else if (must_write(sub, &s) ||
               clk_sub(s.polled_ns, sub->written_ns) > r->conf.idle_ns / POLLED_PART) {
        bool moved = has_moved(sub, &s), same = feed_filter_same(&s.filter, &sub->s.filter);

        e = sub_put(r, sub, &s);
        if (!e && moved) {
            sub->told = 0;
        }
        if (!e && !same) {
            sub->counted = 0;
        }
    } else {
        sub->s.polled_ns = s.polled_ns;
    }
    if (!e && k->has_cursor) {
        sub->new_epoch = k->cursor.epoch != r->epoch;
    }
    *out = sub;
    return e;
}

static enum err poll_begin_named(struct poll_round *k, struct subscriptions_scan *scan,
                                 struct errmsg *why)
{
    struct subscriptions *r = k->r;
    struct subscriptions_sub *sub;
    enum err e = ERR_OK;

    os_mutex_lock(r->lock);
    journal_range(r->conf.journal, &k->first, &k->next);
    if (k->seen->epoch) {
        sub = sub_find(r, k->peer->name, k->poll->name);
        e = sub ? ERR_OK : ERR_NOTFOUND;
    } else {
        e = poll_take_part(k, &sub, why);
    }
    if (!e) {
        k->number = sub->s.number;
        k->lost = sub->s.lost;
        k->filter = sub->s.filter;
        scan->counted = sub->counted;
        scan->at = k->seen->epoch ? *k->seen : sub->s.at;
        if (scan->at.position < sub->s.floor) {
            scan->at = (struct subscriptions_cursor){r->epoch, sub->s.floor, 0};
        }
        e = filter_keep(&k->filter, scan->memory) ? ERR_OK : ERR_NOMEM;
    }
    os_mutex_unlock(r->lock);
    return e;
}

/* -- without one -- */

static void poll_begin_nameless(struct poll_round *k, struct subscriptions_scan *scan)
{
    struct subscriptions *r = k->r;
    struct subscriptions_cursor c;

    journal_range(r->conf.journal, &k->first, &k->next);
    c = (struct subscriptions_cursor){r->epoch, k->poll->from_oldest ? k->first : k->next, 0};
    c = k->seen->epoch ? *k->seen : k->has_cursor ? k->cursor : c;
    k->lost = 0;
    if (c.epoch != r->epoch) {
        c = (struct subscriptions_cursor){r->epoch, k->first, 0};
        k->lost = 1;
    } else if (c.position < k->first) {
        k->lost = k->first - c.position;
        c = (struct subscriptions_cursor){r->epoch, k->first, 0};
    } else if (c.position > k->next) {
        c = (struct subscriptions_cursor){r->epoch, k->next, 0};
    }
    k->filter = k->poll->filter; /* all zero when there is none */
    if (k->filter.samples) {
        atomic_store(&r->samples_until_ns, clk_add(now_of(r), SAMPLES_FOR_NS));
    }
    scan->at = c;
}

/* -- ending -- */

/* Whether something went that lay behind where the search began. */
static bool poll_overtaken(struct poll_round *k)
{
    struct subscriptions *r = k->r;
    bool gone = false;

    if (k->number == 0) {
        uint64_t first, next;

        journal_range(r->conf.journal, &first, &next);
        return first > k->begin;
    }
    os_mutex_lock(r->lock);
    for (size_t i = 0; i < r->n; i++) {
        gone |= r->subs[i]->s.number == k->number && r->subs[i]->s.floor > k->begin;
    }
    os_mutex_unlock(r->lock);
    return gone;
}

static void poll_note(struct poll_round *k, const struct subscriptions_scan *scan)
{
    struct subscriptions *r = k->r;

    k->dropped = k->lost + scan->missing;
    os_mutex_lock(r->lock);
    r->stats.polls++;
    r->stats.delivered += scan->items;
    r->stats.dropped += scan->fresh;
    for (size_t i = 0; i < r->n; i++) {
        struct subscriptions_sub *sub = r->subs[i];

        if (sub->s.number != k->number) {
            continue;
        }
        sub->s.delivered += scan->items;
        sub->s.dropped += scan->fresh;
        sub->told = MAX_OF(sub->told, k->lost);
        sub->counted = MAX_OF(sub->counted, scan->at.position);
        sub->dirty = sub->dirty || scan->items || scan->fresh;
        k->dropped = sub->s.dropped;
    }
    os_mutex_unlock(r->lock);
}

static enum err poll_fill(struct wire_poll_reply *reply, const struct poll_round *k,
                          const struct subscriptions_scan *scan)
{
    uint8_t *cursor = arena_alloc(scan->memory, SUBSCRIPTIONS_CURSOR_BYTES);

    if (!cursor) {
        return ERR_NOMEM;
    }
    subscriptions_cursor_put(cursor, &scan->at);
    *reply = (struct wire_poll_reply){
        .n_updates = scan->n,
        .updates = scan->updates,
        .cursor = {(const char *)cursor, SUBSCRIPTIONS_CURSOR_BYTES},
        .more = scan->more,
        .dropped = k->dropped,
        .dropped_now = k->lost + scan->missing,
        .behind_bytes = subscriptions_scan_behind(k->r->conf.journal, scan->at.position)};
    return scan->n || scan->more || reply->dropped_now ? ERR_OK : ERR_END;
}

static enum err poll_check(struct poll_round *k, struct errmsg *why)
{
    const struct wire_poll *p = k->poll;

    if (p->name.n && !subscriptions_file_name_ok(p->name)) {
        return errmsg_set(why, ERR_INVALID,
                          "a subscription's name has letters, digits, '.', '_' and '-' only");
    }
    if (p->max > WIRE_UPDATES_MAX) {
        return errmsg_set(why, ERR_INVALID, "max may be %u at most", WIRE_UPDATES_MAX);
    }
    k->has_cursor = p->cursor.n > 0;
    if (k->has_cursor && subscriptions_cursor_get(&k->cursor, p->cursor)) {
        return errmsg_set(why, ERR_INVALID, "this is no cursor of a collector");
    }
    if (p->has_filter && p->filter.providers.where.n) {
        struct errmsg wrong = {""};
        struct expr_event where;

        if (expr_event_compile(&where, p->filter.providers.where, &wrong)) {
            return errmsg_set(why, ERR_INVALID, "where: %s", wrong.text);
        }
    }
    return ERR_OK;
}

enum err subscriptions_poll(struct subscriptions *r, const struct subscriptions_peer *peer,
                            const struct wire_poll *poll, struct subscriptions_cursor *seen,
                            struct wire_poll_reply *reply, struct arena *memory, struct errmsg *why)
{
    struct poll_round k = {.r = r, .peer = peer, .poll = poll, .seen = seen};
    struct subscriptions_scan scan;
    bool done = false;
    enum err e = poll_check(&k, why);

    for (unsigned i = 0; !e && !done && i < TRIES_MAX; i++) {
        scan = (struct subscriptions_scan){
            .filter = &k.filter,
            .scope = peer->scope,
            .room = {poll->max ? poll->max : SUBSCRIPTIONS_ITEMS_DEFAULT,
                     SUBSCRIPTIONS_REPLY_BYTES},
            .memory = memory};
        if (poll->name.n) {
            e = poll_begin_named(&k, &scan, why);
        } else {
            poll_begin_nameless(&k, &scan);
        }
        k.begin = scan.at.position;
        if (!e) {
            e = subscriptions_scan(&scan, r->conf.journal);
        }
        done = !e && !poll_overtaken(&k);
    }
    if (!e && !done) {
        e = errmsg_set(why, ERR_BUSY, "updates go faster than this poll reads them: ask again");
    }
    if (e) {
        return e;
    }
    poll_note(&k, &scan);
    *seen = scan.at;
    return poll_fill(reply, &k, &scan);
}
