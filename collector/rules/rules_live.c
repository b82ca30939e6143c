/* One round: take what waits, judge it, judge what is due, write, notify. The engine is under
 * `judge_lock`, so that questions can look at it between two batches; the queue under `lock`, which
 * the store's writer takes for a few instructions.
 *
 * Batches of a stream are judged in its order: one whose predecessor has not come waits for HOLD_NS
 * at most. What the store had when the engine was filled is known by its number and left out when
 * it comes from the queue. */
#include "collector/rules/rules_live.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "collector/rules/rules_replay.h"
#include "common/base/hash.h"
#include "common/base/heartbeat.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/log/log.h"
#include "common/os/os.h"

#define ROUND_NS    (500 * CLK_MS)
#define HOLD_NS     (3 * CLK_S)
#define SLACK_NS    (5 * CLK_S) /* how long after its arrival a batch may come out of the queue */
#define FILE_NS     (2 * CLK_S)
#define MARK_NS     (15 * CLK_S)
#define RUNS_NS     (5 * CLK_S)
#define FORGOT_NS   (60 * CLK_S)
#define BACK_MAX_NS (25 * 3600 * CLK_S)
#define HELD_MAX    4096u
#define CHANGES_MAX 100000u
#define TEXTS_MAX   ((size_t)64 << 20)
#define UPDATE_MAX  (64u << 10)

struct item {
    struct item *next;
    struct batch *batch;
    size_t room;
    char name[MODEL_HOST_NAME_MAX + 1];
    struct host_offset clock;
    int64_t received_ns, mono_ns;
};

struct unsent {
    uint64_t n, ticket;
};

struct rules_live {
    struct rules_live_conf conf;
    struct os_thread *thread;
    struct heartbeat round;
    atomic_bool stopping, wants; /* wants: there are rules */

    struct os_mutex *lock; /* guards what follows, up to the next blank line */
    struct os_cond *wake;
    struct item *queue, **queue_end;
    size_t queued_bytes;
    bool overflow;
    struct rules_stats stats;
    char fault[256];

    struct os_mutex *judge_lock; /* guards what follows, up to the next blank line */
    struct rules_conf *rules;
    struct rules_judge *judge;
    char *text;
    size_t text_n;
    bool looked, filling; /* looked: at the file */

    /* the thread's own */
    struct rules_replay *replay; /* the streams it knows */
    bool replaying;
    int64_t *since; /* of each rule */
    int64_t at_ns;  /* what it was at that moment is known; judged again from there */
    bool filled;    /* up to now */
    bool gap;       /* batches were left out: they are read back before any is given up */
    uint64_t file_hash;
    size_t n_held, cap_held;
    struct item **held;
    struct rules_up ups[RULES_DB_UPS];
    size_t n_ups;
    struct rules_runs runs;
    bool wants_runs;
    int64_t runs_ns, file_ns, mark_ns, forgot_ns; /* when it was done last, monotonic */
    struct arena texts;                           /* of changes */
    size_t n_changes, cap_changes;
    struct rules_change *changes;
    size_t n_unsent;
    struct unsent unsent[RULES_LIVE_UNSENT];
    uint64_t handed;  /* notices up to this are on their way, or there */
    bool more, stuck; /* more: there may be such behind it; stuck: the feed takes none now */
    bool check;       /* the journal may have them */
    bool db_failed;
};

/* -- the store's side -- */

static void item_free(struct item *i)
{
    if (i) {
        wire_batch_free(i->batch);
        mem_free(i);
    }
}

void rules_live_stored(struct rules_live *l, const struct store_stored *s)
{
    size_t room = wire_batch_room(s->batch);
    struct item *i;

    if (!atomic_load_explicit(&l->wants, memory_order_relaxed)) {
        return;
    }
    i = mem_zalloc(sizeof *i);
    os_mutex_lock(l->lock);
    if (!i || l->queued_bytes + room > l->conf.queue_max) {
        l->overflow = true;
        l->stats.behind = 1;
        l->stats.left_out++;
    } else {
        *i = (struct item){.batch = wire_batch_hold(s->batch),
                           .room = room,
                           .received_ns = s->received_ns,
                           .mono_ns = os_mono_ns()};
        i->clock = s->clock ? *s->clock : i->clock;
        memcpy(i->name, s->host_name, strnlen(s->host_name, sizeof i->name - 1));
        *l->queue_end = i;
        l->queue_end = &i->next;
        l->queued_bytes += room;
        i = NULL;
        if (l->queued_bytes > l->conf.queue_max / 4) {
            os_cond_wake(l->wake); /* else it comes round by itself */
        }
    }
    os_mutex_unlock(l->lock);
    item_free(i);
}

/* -- what the engine asks and tells -- */

static int64_t live_deadline(void *ctx, int64_t step_ns, int64_t late_ns)
{
    const struct rules_live *l = ctx;

    return rules_db_deadline(l->ups, l->n_ups, step_ns, late_ns);
}

static unsigned live_runs(void *ctx, const struct uuid *host, int64_t when_ns)
{
    const struct rules_live *l = ctx;

    return rules_db_runs_open(&l->runs, host, when_ns);
}

static const struct facts *live_facts(void *ctx, const struct uuid *host, const char *name,
                                      struct arena *a)
{
    const struct rules_live *l = ctx;

    return l->conf.facts ? l->conf.facts(l->conf.ctx, host, name, a) : NULL;
}

static struct str live_class(void *ctx, const struct facts *f, struct arena *a)
{
    const struct rules_live *l = ctx;

    return l->conf.host_class ? l->conf.host_class(l->conf.ctx, f, NULL, a) : str_make("");
}

static bool live_info(void *ctx, const struct uuid *host, const struct uuid *boot,
                      struct proc_id id, struct proc_info *out)
{
    struct rules_live *l = ctx;

    return l->replaying && rules_replay_info(l->replay, host, boot, id, out);
}

static void live_failed(struct rules_live *l)
{
    os_mutex_lock(l->lock);
    l->stats.failed++;
    os_mutex_unlock(l->lock);
}

static void live_change(void *ctx, const struct rules_subject *s)
{
    struct rules_live *l = ctx;
    enum err e = VEC_ROOM(&l->changes, &l->cap_changes, l->n_changes + 1, CHANGES_MAX);

    e = e ? e : rules_db_change(&l->changes[l->n_changes], s, &l->texts);
    if (e) {
        live_failed(l);
        return;
    }
    l->n_changes++;
}

/* -- notices -- */

/* False: not now. */
static bool notice_send(void *ctx, const struct rules_found *f)
{
    struct rules_live *l = ctx;
    struct feed_notice to = {.name = f->host,
                             .host = f->id,
                             .n = f->notice->n,
                             .step_ns = f->notice->step_ns,
                             .check = l->check};
    struct unsent sent = {.n = f->notice->n};
    struct buf update;
    enum err e;

    l->stuck = l->n_unsent == RULES_LIVE_UNSENT;
    if (l->stuck) {
        return false;
    }
    buf_init(&update, UPDATE_MAX);
    e = rules_notice_encode(&update, f->notice, f->host, &f->id);
    to.update = update.p;
    to.bytes = update.n;
    e = e ? e : feed_notify(l->conf.feed, &to, &sent.ticket);
    buf_fini(&update);
    l->stuck = e != ERR_OK;
    if (e) {
        return false;
    }
    l->unsent[l->n_unsent++] = sent;
    l->handed = sent.n;
    return true;
}

/* Up to which number all are in the journal. */
static uint64_t notices_sent(struct rules_live *l)
{
    struct rules_up *mine = &l->ups[l->n_ups - 1];
    size_t n = 0;

    while (n < l->n_unsent && feed_done(l->conf.feed, l->unsent[n].ticket)) {
        mine->sent = l->unsent[n].n;
        n++;
    }
    if (n > 0) {
        memmove(l->unsent, l->unsent + n, (l->n_unsent - n) * sizeof *l->unsent);
        l->n_unsent -= n;
    }
    return mine->sent;
}

/* Gives the feed what is written and not on its way yet, as much as may be at once. */
static void notices_pump(struct rules_live *l)
{
    const struct rules_ask ask = {.after = l->handed, .since_ns = INT64_MIN, .until_ns = INT64_MAX};

    if (!l->conf.feed || !l->more) {
        return;
    }
    (void)notices_sent(l);
    l->stuck = false;
    if (rules_db_notices(l->conf.db, &ask, notice_send, l) == ERR_OK && !l->stuck) {
        l->more = l->check = false;
    }
}

static void changes_notify(struct rules_live *l)
{
    for (size_t i = 0; i < l->n_changes; i++) {
        const struct rules_change *c = &l->changes[i];
        char subject[RULES_KEY_MAX], quoted[2 * RULES_KEY_MAX];

        if (!c->notice.n) {
            continue;
        }
        (void)snprintf(subject, sizeof subject, "%.*s", (int)c->notice.subject.n,
                       c->notice.subject.p);
        log_line(LOG_INFO, "rules", notice_state_name(c->notice.state),
                 "rule=%.*s host=%s subject=%s n=%" PRIu64, (int)c->notice.rule.n, c->notice.rule.p,
                 c->host, log_str(quoted, sizeof quoted, subject), c->notice.n);
        l->more = true;
    }
    notices_pump(l);
}

static void runs_refresh(struct rules_live *l, bool now)
{
    int64_t mono_ns = os_mono_ns(), utc_ns = os_utc_ns();
    struct rules_runs runs;

    if (!now && mono_ns - l->runs_ns < RUNS_NS) {
        return;
    }
    l->runs_ns = mono_ns;
    if (rules_db_runs(l->conf.db, utc_ns - BACK_MAX_NS, INT64_MAX, &runs) == ERR_OK) {
        os_mutex_lock(l->judge_lock);
        rules_db_runs_free(&l->runs);
        l->runs = runs;
        os_mutex_unlock(l->judge_lock);
    }
}

/* That it is judged until now, which decides about what comes late: after a kill a step of which
 * something is written is judged once more as it was. */
static void up_write(struct rules_live *l)
{
    struct rules_up *mine = &l->ups[l->n_ups - 1];

    mine->until_ns = os_utc_ns();
    err_ignore(rules_db_up_write(l->conf.db, mine));
}

static void changes_write(struct rules_live *l)
{
    size_t held = 0, sent = 0;
    enum err e;

    if (!l->n_changes) {
        return;
    }
    runs_refresh(l, true);
    up_write(l);
    for (size_t i = 0; i < l->n_changes; i++) {
        struct notice *n = &l->changes[i].notice;
        const char *by = rules_db_runs_silence(&l->runs, &l->changes[i].id, n->rule, n->step_ns);

        n->silenced = str_make(by ? by : "");
    }
    e = rules_db_write(l->conf.db, l->changes, l->n_changes);
    if (e) { /* they wait for the next round */
        if (!l->db_failed) {
            log_line(LOG_WARN, "rules", "write_failed", "reason=\"%s\" remedy=%s", err_text(e),
                     "\"notices wait: look for room and errors on the disk of data_dir\"");
        }
        l->db_failed = true;
        live_failed(l);
        return;
    }
    l->db_failed = false;
    changes_notify(l);
    for (size_t i = 0; i < l->n_changes; i++) {
        sent += l->changes[i].notice.n > 0;
        held += l->changes[i].held;
    }
    os_mutex_lock(l->lock);
    l->stats.notices += sent;
    l->stats.held += held;
    os_mutex_unlock(l->lock);
    l->n_changes = 0;
    arena_reset(&l->texts);
}

/* -- batches -- */

static void item_judge(struct rules_live *l, struct item *i)
{
    const struct rules_input in = {.host = i->name,
                                   .id = &i->batch->head.host,
                                   .rest = i->batch,
                                   .rows = i->batch,
                                   .n_ticks = i->batch->n_ticks,
                                   .clock = &i->clock,
                                   .received_ns = i->received_ns};
    enum err e;

    os_mutex_lock(l->judge_lock);
    e = rules_judge_feed(l->judge, &in);
    os_mutex_unlock(l->judge_lock);
    if (e) {
        live_failed(l);
    }
    rules_replay_note(l->replay, &i->batch->head.host, i->batch->head.stream, i->batch->head.seq);
    item_free(i);
}

/* Whether it is its turn; -1: it has been judged. */
static int item_turn(const struct rules_live *l, const struct item *i)
{
    uint64_t last;

    if (!rules_replay_last(l->replay, &i->batch->head.host, i->batch->head.stream, &last)) {
        return 1;
    }
    return i->batch->head.seq <= last ? -1 : i->batch->head.seq == last + 1;
}

/* Those whose turn has come, or that have waited long enough. */
static void held_judge(struct rules_live *l)
{
    int64_t now_ns = os_mono_ns();
    bool again = l->n_held > 0;

    while (again) {
        size_t n = 0;

        again = false;
        for (size_t k = 0; k < l->n_held; k++) {
            struct item *i = l->held[k];
            int turn = item_turn(l, i);

            if (turn < 0) {
                item_free(i);
            } else if (turn > 0 || (!l->gap && now_ns - i->mono_ns > HOLD_NS)) {
                item_judge(l, i);
                again = true;
            } else {
                l->held[n++] = i;
            }
        }
        l->n_held = n;
    }
}

static void item_take(struct rules_live *l, struct item *i)
{
    int turn = item_turn(l, i);

    if (turn < 0) {
        item_free(i);
    } else if (turn > 0 || VEC_ROOM(&l->held, &l->cap_held, l->n_held + 1, HELD_MAX)) {
        item_judge(l, i);
        held_judge(l);
    } else {
        l->held[l->n_held++] = i;
    }
}

/* What waits; NULL: nothing came in this round. */
static struct item *queue_take(struct rules_live *l, bool *overflow)
{
    int64_t until_ns = os_mono_ns() + ROUND_NS;
    struct item *list;

    os_mutex_lock(l->lock);
    while (!atomic_load(&l->stopping) && l->queued_bytes < l->conf.queue_max / 4 && !l->overflow &&
           os_cond_wait_until(l->wake, until_ns) != ERR_TIMEOUT) {
    }
    list = l->queue;
    l->queue = NULL;
    l->queue_end = &l->queue;
    l->queued_bytes = 0;
    *overflow = l->overflow;
    l->overflow = false;
    os_mutex_unlock(l->lock);
    return list;
}

/* -- filling -- */

static bool host_is_forgotten(const struct rules_live *l, const struct uuid *id)
{
    return l->conf.is_forgotten && l->conf.is_forgotten(l->conf.ctx, id);
}

/* All hosts, in pieces of time, so that rules over several hosts see them side by side. */
static enum err fill_hosts(struct rules_live *l, const struct store_view *view, int64_t since_ns)
{
    int64_t now_ns = os_utc_ns();
    enum err e = ERR_OK;

    for (int64_t at = since_ns; !e && at < INT64_MAX;) {
        int64_t until =
            at + RULES_REPLAY_CHUNK_NS < now_ns ? at + RULES_REPLAY_CHUNK_NS : INT64_MAX;

        for (size_t i = 0; !e && i < store_view_hosts(view); i++) {
            const struct store_host *h = store_view_host(view, i);
            int64_t off = h->clock.known ? h->clock.offset_ns : 0;

            if (atomic_load(&l->stopping)) {
                return ERR_CLOSED;
            }
            if (h->last_ns < clk_sub(at, off) || host_is_forgotten(l, &h->id)) {
                continue;
            }
            os_mutex_lock(l->judge_lock);
            e = rules_replay_host(l->replay, l->judge, i, clk_sub(at, off),
                                  until == INT64_MAX ? until : clk_sub(until, off), NULL);
            os_mutex_unlock(l->judge_lock);
            heartbeat_work(&l->round, os_mono_ns());
        }
        os_mutex_lock(l->judge_lock);
        rules_judge_close(l->judge);
        os_mutex_unlock(l->judge_lock);
        changes_write(l);
        at = until;
    }
    return e;
}

static enum err fill(struct rules_live *l, int64_t since_ns)
{
    struct store_view *view;
    int64_t began_ns = os_mono_ns();
    enum err e = store_view_open(&view, l->conf.store);

    if (e) {
        return e;
    }
    store_info_range(view, since_ns, INT64_MAX);
    rules_replay_begin(l->replay, view);
    l->replaying = true;
    e = fill_hosts(l, view, since_ns);
    l->replaying = false;
    rules_replay_begin(l->replay, NULL);
    store_view_close(view);
    log_line(LOG_DEBUG, "rules", "filled", "ms=%" PRId64 " result=%s",
             (os_mono_ns() - began_ns) / (int64_t)CLK_MS, err_name(e));
    return e;
}

static enum err alert_restore(void *ctx, const struct rules_alert *a)
{
    struct rules_live *l = ctx;
    static const struct uuid none;
    const struct rules_subject s = {.host = a->host,
                                    .id = memcmp(a->id.b, none.b, sizeof none.b) ? &a->id : NULL,
                                    .key = a->key,
                                    .start = a->start,
                                    .class_text = a->class_text,
                                    .state = a->state,
                                    .before = a->before,
                                    .since_ns = a->since_ns,
                                    .changed_ns = a->step_ns};
    enum err e = ERR_NOTFOUND;

    for (size_t i = 0; i < rules_conf_n(l->rules); i++) {
        const struct rules_rule *rule = rules_conf_rule(l->rules, i);

        /* One that became another since then began anew, and its alerts ended. */
        if (str_eq(rule->name, a->rule) && rule->hash == a->hash && l->since[i] == l->at_ns) {
            e = rules_judge_restore(l->judge, &s, a->rule);
        }
    }
    return e == ERR_NOTFOUND || e == ERR_FULL ? ERR_OK : e;
}

/* Alerts whose rule is another now end. */
static void alerts_end(struct rules_live *l, const struct rules_conf *rules, int64_t now_ns)
{
    struct rules_change *list = NULL;
    struct arena texts;
    size_t n = 0;
    enum err e;

    arena_init(&texts, TEXTS_MAX);
    e = rules_db_ended(l->conf.db, rules, now_ns, &list, &n, &texts);
    if (!e && n) {
        e = rules_db_write(l->conf.db, list, n);
        l->more = true;
    }
    notices_pump(l);
    mem_free(list);
    arena_fini(&texts);
}

static void engine_close(struct rules_live *l)
{
    os_mutex_lock(l->judge_lock);
    rules_judge_destroy(l->judge);
    rules_conf_free(l->rules);
    l->judge = NULL;
    l->rules = NULL;
    os_mutex_unlock(l->judge_lock);
    rules_replay_destroy(l->replay);
    mem_free(l->since);
    l->replay = NULL;
    l->since = NULL;
}

/* The moment from which on it is judged: what was written of it stays. */
static int64_t judged_before(const struct rules_live *l, const struct rules_conf *rules,
                             int64_t now_ns)
{
    int64_t judged_ns = 0;

    for (size_t i = 0; i < l->n_ups; i++) {
        judged_ns = l->ups[i].judged_ns ? l->ups[i].judged_ns : judged_ns;
    }
    if (!judged_ns) {
        return now_ns;
    }
    judged_ns -= rules_conf_wait(rules) + 2 * RULES_STEP_NS;
    return judged_ns > now_ns - BACK_MAX_NS ? judged_ns : now_ns - BACK_MAX_NS;
}

static enum err engine_make(struct rules_live *l, struct rules_conf *rules)
{
    struct rules_judge_conf conf = {.rules = rules,
                                    .env = {.change = live_change,
                                            .facts = live_facts,
                                            .host_class = live_class,
                                            .runs = live_runs,
                                            .deadline = live_deadline,
                                            .info = live_info,
                                            .ctx = l}};
    int64_t now_ns = os_utc_ns() / RULES_STEP_NS * RULES_STEP_NS;
    int64_t at_ns = judged_before(l, rules, now_ns);
    struct rules_judge *judge = NULL;
    enum err e;

    l->at_ns = at_ns;
    l->filled = false;
    alerts_end(l, rules, now_ns);
    engine_close(l);
    l->since = mem_array(rules_conf_n(rules) + 1, sizeof *l->since);
    e = l->since ? rules_db_rules(l->conf.db, rules, now_ns, l->since) : ERR_NOMEM;
    for (size_t i = 0; !e && i < rules_conf_n(rules); i++) {
        l->since[i] = l->since[i] > at_ns ? l->since[i] : at_ns;
    }
    conf.since = l->since;
    e = e ? e : rules_replay_create(&l->replay, rules, NULL);
    e = e ? e : rules_judge_create(&judge, &conf);
    os_mutex_lock(l->judge_lock);
    l->rules = rules;
    l->judge = judge;
    l->filling = true;
    os_mutex_unlock(l->judge_lock);
    e = e ? e : rules_db_alerts(l->conf.db, at_ns, alert_restore, l);
    runs_refresh(l, true);
    e = e ? e : fill(l, at_ns - rules_conf_span(rules) - RULES_STEP_NS);
    l->filled = e != ERR_CLOSED;
    os_mutex_lock(l->judge_lock);
    l->filling = false;
    os_mutex_unlock(l->judge_lock);
    return e;
}

/* -- the file -- */

static void fault_set(struct rules_live *l, const char *text)
{
    os_mutex_lock(l->lock);
    l->stats.faulty = text[0] != '\0';
    (void)snprintf(l->fault, sizeof l->fault, "%s", text);
    os_mutex_unlock(l->lock);
}

/* Whether the text can be used; then it is. */
static bool text_use(struct rules_live *l, char *text, size_t n, bool keep)
{
    struct rules_conf *rules = NULL;
    struct rules_where at;
    struct errmsg why = {""};
    char quoted[700], fault[256];
    enum err e = rules_conf_read(&rules, text, n, &at, &why);

    if (e) {
        (void)snprintf(fault, sizeof fault, "%.100s:%zu:%zu: %.120s", l->conf.file, at.line,
                       at.column, why.text[0] ? why.text : err_text(e));
        log_line(LOG_ERROR, "rules", "file_faulty", "reason=%s remedy=%s",
                 log_str(quoted, sizeof quoted, fault),
                 "\"the rules stay as they were: 'procfleet rules check' says what is wrong\"");
        fault_set(l, fault);
        mem_free(text);
        return false;
    }
    os_mutex_lock(l->judge_lock);
    mem_free(l->text);
    l->text = text;
    l->text_n = n;
    os_mutex_unlock(l->judge_lock);
    if (keep) {
        fault_set(l, "");
        err_ignore(rules_db_file_write(l->conf.db, text, n));
    }
    os_mutex_lock(l->lock);
    l->stats.rules = rules_conf_n(rules);
    os_mutex_unlock(l->lock);
    atomic_store(&l->wants, rules_conf_n(rules) > 0);
    l->wants_runs = false;
    for (size_t i = 0; i < rules_conf_n(rules); i++) {
        l->wants_runs = l->wants_runs || rules_conf_rule(rules, i)->runs;
    }
    log_line(LOG_INFO, "rules", "read", "rules=%zu", rules_conf_n(rules));
    e = engine_make(l, rules);
    if (e && e != ERR_CLOSED) {
        log_line(LOG_ERROR, "rules", "failed", "reason=\"%s\"", err_text(e));
        live_failed(l);
    }
    return true;
}

/* The last one that could be used. */
static void file_of_before(struct rules_live *l)
{
    char *text;
    size_t n;

    if (rules_db_file(l->conf.db, &text, &n) == ERR_OK && text) {
        (void)text_use(l, text, n, false);
    }
}

static void file_look(struct rules_live *l, bool first)
{
    uint8_t *bytes = NULL;
    char fault[256];
    size_t n = 0;
    uint64_t hash;
    enum err e;

    l->file_ns = os_mono_ns();
    if (!l->conf.file[0]) {
        return;
    }
    e = os_read_file(&bytes, &n, l->conf.file, RULES_FILE_MAX);
    hash = e ? 1 + (uint64_t)e : hash_bytes(bytes, n, 0) | 1u << 20;
    if (hash == l->file_hash) {
        mem_free(bytes);
        return;
    }
    l->file_hash = hash;
    if (e) {
        (void)snprintf(fault, sizeof fault, "cannot read %.100s: %s", l->conf.file,
                       os_read_text(e));
        log_line(LOG_ERROR, "rules", "file_faulty", "reason=\"%s\"", fault);
        fault_set(l, fault);
    }
    if (e ? first : !text_use(l, (char *)bytes, n, true) && first) {
        file_of_before(l);
    }
}

/* -- the thread -- */

static void mark_write(struct rules_live *l)
{
    struct rules_up *mine = &l->ups[l->n_ups - 1];
    int64_t judged_ns = l->judge ? rules_judge_step(l->judge) : INT64_MAX;

    l->mark_ns = os_mono_ns();
    /* What waits to be written, and what is not filled, is judged again after a kill. */
    if (judged_ns != INT64_MAX && l->n_changes == 0 && l->filled) {
        mine->judged_ns = judged_ns;
    }
    if (l->conf.feed) {
        (void)notices_sent(l);
    }
    up_write(l);
}

static void live_begin(struct rules_live *l)
{
    struct rules_up *mine;

    if (rules_db_up(l->conf.db, l->ups, &l->n_ups) != ERR_OK) {
        l->n_ups = 0;
    }
    if (l->n_ups == RULES_DB_UPS) {
        memmove(l->ups, l->ups + 1, (RULES_DB_UPS - 1) * sizeof *l->ups);
        l->n_ups--;
    }
    mine = &l->ups[l->n_ups++];
    *mine = (struct rules_up){.since_ns = os_utc_ns()};
    mine->until_ns = mine->since_ns;
    if (l->n_ups > 1) {
        mine->sent = mine[-1].sent;
        mine->judged_ns = mine[-1].judged_ns;
    }
    l->handed = mine->sent;
    l->more = l->check = true;
    notices_pump(l);
    err_ignore(rules_db_up_write(l->conf.db, mine));
}

static void forgotten_look(struct rules_live *l)
{
    struct store_view *view;

    l->forgot_ns = os_mono_ns();
    if (store_view_open(&view, l->conf.store) != ERR_OK) {
        return;
    }
    for (size_t i = 0; i < store_view_hosts(view); i++) {
        const struct uuid *id = &store_view_host(view, i)->id;

        if (host_is_forgotten(l, id)) {
            os_mutex_lock(l->judge_lock);
            rules_judge_forget(l->judge, id, os_utc_ns());
            os_mutex_unlock(l->judge_lock);
        }
    }
    store_view_close(view);
}

static void counts_take(struct rules_live *l)
{
    struct rules_counts c;

    os_mutex_lock(l->judge_lock);
    rules_judge_counts(l->judge, &c);
    os_mutex_unlock(l->judge_lock);
    os_mutex_lock(l->lock);
    l->stats.hosts = c.hosts;
    l->stats.subjects = c.subjects;
    l->stats.bytes = c.bytes;
    l->stats.firing = c.firing;
    l->stats.unknown = c.unknown;
    l->stats.steps = c.steps;
    l->stats.late_ticks = c.late_ticks;
    l->stats.refused = c.refused;
    os_mutex_unlock(l->lock);
}

/* What cannot be read back is as what never came: it lowers the coverage of its hosts. */
static void gap_close(struct rules_live *l)
{
    int64_t step_ns = rules_judge_step(l->judge); /* no host was judged: from the beginning */
    int64_t from_ns = step_ns == INT64_MAX ? l->at_ns - rules_conf_span(l->rules) : step_ns;
    enum err e = fill(l, from_ns - 2 * RULES_REPLAY_CHUNK_NS);

    if (e && e != ERR_CLOSED) {
        live_failed(l);
    }
    l->gap = false;
    held_judge(l);
    os_mutex_lock(l->lock);
    l->stats.behind = l->overflow;
    os_mutex_unlock(l->lock);
}

static void live_round(struct rules_live *l)
{
    struct item *list = queue_take(l, &l->gap), *next;
    int64_t taken_ns = os_utc_ns();

    heartbeat_work(&l->round, os_mono_ns());
    if (l->wants_runs) {
        runs_refresh(l, false);
    }
    for (; list; list = next) {
        next = list->next;
        if (l->judge && !atomic_load(&l->stopping)) {
            item_take(l, list);
        } else {
            item_free(list);
        }
        heartbeat_work(&l->round, os_mono_ns());
    }
    notices_pump(l);
    if (!l->judge || atomic_load(&l->stopping)) {
        return;
    }
    held_judge(l);
    if (l->gap) {
        gap_close(l);
    }
    os_mutex_lock(l->judge_lock);
    rules_judge_time(l->judge, taken_ns - SLACK_NS); /* what came since waits in the queue */
    os_mutex_unlock(l->judge_lock);
    changes_write(l);
    if (os_mono_ns() - l->forgot_ns > FORGOT_NS) {
        forgotten_look(l);
    }
    counts_take(l);
}

static void live_run(void *arg)
{
    struct rules_live *l = arg;

    err_ignore(os_thread_background());
    live_begin(l);
    file_look(l, true);
    os_mutex_lock(l->judge_lock);
    l->looked = true;
    os_mutex_unlock(l->judge_lock);
    while (!atomic_load(&l->stopping)) {
        live_round(l);
        if (os_mono_ns() - l->file_ns > FILE_NS) {
            file_look(l, false);
        }
        if (os_mono_ns() - l->mark_ns > MARK_NS) {
            mark_write(l);
        }
    }
    changes_write(l);
    mark_write(l);
    heartbeat_rest(&l->round);
}

/* -- start and stop -- */

enum err rules_live_start(struct rules_live **out, const struct rules_live_conf *conf)
{
    struct rules_live *l = mem_zalloc(sizeof *l);
    enum err e;

    if (!l) {
        return ERR_NOMEM;
    }
    l->conf = *conf;
    l->conf.queue_max = conf->queue_max ? conf->queue_max : RULES_LIVE_QUEUE;
    l->queue_end = &l->queue;
    arena_init(&l->texts, TEXTS_MAX);
    e = os_mutex_create(&l->lock);
    e = e ? e : os_cond_create(&l->wake, l->lock);
    e = e ? e : os_mutex_create(&l->judge_lock);
    if (!e && conf->file[0]) {
        e = os_thread_start(&l->thread, "rules", live_run, l);
    }
    if (e) {
        rules_live_stop(l);
        return e;
    }
    *out = l;
    return ERR_OK;
}

void rules_live_stop(struct rules_live *l)
{
    if (!l) {
        return;
    }
    atomic_store(&l->stopping, true);
    if (l->wake) {
        os_mutex_lock(l->lock);
        os_cond_wake_all(l->wake);
        os_mutex_unlock(l->lock);
    }
    os_thread_join(l->thread);
    while (l->queue) {
        struct item *i = l->queue;

        l->queue = i->next;
        item_free(i);
    }
    for (size_t i = 0; i < l->n_held; i++) {
        item_free(l->held[i]);
    }
    if (l->judge_lock) {
        engine_close(l);
    }
    rules_db_runs_free(&l->runs);
    arena_fini(&l->texts);
    mem_free(l->held);
    mem_free(l->changes);
    mem_free(l->text);
    os_cond_destroy(l->wake);
    os_mutex_destroy(l->lock);
    os_mutex_destroy(l->judge_lock);
    mem_free(l);
}

/* -- questions -- */

bool rules_live_with(struct rules_live *l,
                     void (*f)(void *ctx, struct rules_judge *j, const struct rules_conf *c),
                     void *ctx, bool *whole, struct errmsg *why)
{
    struct rules_stats stats;
    bool there;

    rules_live_stats(l, &stats);
    os_mutex_lock(l->judge_lock);
    there = l->judge && rules_conf_n(l->rules) > 0;
    *whole = (l->looked || !l->conf.file[0]) && !l->filling && !stats.behind;
    if (there) {
        f(ctx, l->judge, l->rules);
        (void)errmsg_set(why, ERR_OK, "%s",
                         l->filling     ? "the windows of the rules are being filled from the store"
                         : stats.behind ? "the rules are behind: batches are read back from the "
                                          "store; states are those of before"
                                        : "");
    } else {
        (void)errmsg_set(why, ERR_OK, "%s",
                         !l->conf.file[0] ? "the collector has no rules: rules.file names a file"
                         : l->looked      ? "there are no rules in the collector's file"
                                          : "the rules are being read");
    }
    os_mutex_unlock(l->judge_lock);
    return there;
}

char *rules_live_text(struct rules_live *l, size_t *n)
{
    char *text;

    os_mutex_lock(l->judge_lock);
    text = l->text ? mem_strndup(l->text, l->text_n) : NULL;
    *n = l->text_n;
    os_mutex_unlock(l->judge_lock);
    return text;
}

void rules_live_fault(struct rules_live *l, char *out, size_t size)
{
    os_mutex_lock(l->lock);
    (void)snprintf(out, size, "%s", l->fault);
    os_mutex_unlock(l->lock);
}

int64_t rules_live_stuck_ns(const struct rules_live *l, int64_t now_ns)
{
    return l ? heartbeat_busy_ns(&l->round, now_ns) : 0;
}

void rules_live_stats(struct rules_live *l, struct rules_stats *out)
{
    os_mutex_lock(l->lock);
    *out = l->stats;
    os_mutex_unlock(l->lock);
}
