#include "collector/rules/rules_db.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/glob.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/base/vec.h"
#include "common/wire/wire_query.h"

#define UPDATE_MAX (64u << 10)
#define GRACE_NS   (60 * CLK_S) /* after a start: agents give what they kept */
#define RUNS_MAX   (1u << 18)

static const char sql_next[] = "SELECT coalesce(max(n), 0) + 1 FROM notice";
static const char sql_known[] = "SELECT count(*) FROM notice WHERE id = ?1";
static const char sql_sent[] =
    "SELECT count(*) FROM notice WHERE rule = ?1 AND host = ?2 AND step_ns > ?3 AND step_ns <= ?4"
    " AND n IS NOT NULL";
static const char sql_held[] =
    "SELECT count(*) FROM notice WHERE rule = ?1 AND host = ?2 AND n IS NULL AND row >"
    " (SELECT coalesce(max(row), 0) FROM notice WHERE rule = ?1 AND host = ?2 AND n IS NOT NULL)";
static const char sql_insert[] =
    "INSERT INTO notice(n, id, rule, host, name, class, subject, start, state, before, step_ns,"
    " since_ns, event) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
static const char sql_trim[] = "DELETE FROM notice WHERE row <= (SELECT max(row) FROM notice) - ?1";
static const char sql_alert[] =
    "INSERT OR REPLACE INTO alert(rule, host, name, class, subject, start, state, before, step_ns,"
    " since_ns) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
static const char sql_alert_end[] = "DELETE FROM alert WHERE rule = ?1 AND host = ?2 AND class = "
                                    "?4 AND subject = ?5 AND start = ?6";
static const char sql_after[] = "SELECT n, name, host, event FROM notice WHERE n > ?1 AND step_ns"
                                " >= ?2 AND step_ns < ?3 ORDER BY n";
static const char sql_after_desc[] = "SELECT n, name, host, event FROM notice WHERE n > ?1 AND"
                                     " step_ns >= ?2 AND step_ns < ?3 ORDER BY n DESC";
/* Alerts that have not changed since; of those that did what they were before the first change. */
static const char sql_alerts[] =
    "SELECT a.rule, a.host, a.name, a.class, a.subject, a.start, a.state, a.before, a.step_ns,"
    " a.since_ns, coalesce(r.hash, 0) FROM alert a LEFT JOIN rule r ON r.name = a.rule"
    " WHERE a.step_ns <= ?1"
    " UNION ALL SELECT n.rule, n.host, n.name, n.class, n.subject, n.start, n.before, 0, n.step_ns,"
    " CASE WHEN n.state = 0 THEN n.since_ns ELSE ?1 END, coalesce(r.hash, 0) FROM notice n"
    " LEFT JOIN rule r ON r.name = n.rule WHERE n.before != 0 AND n.row IN (SELECT min(row) FROM"
    " notice WHERE step_ns > ?1 GROUP BY rule, host, class, subject, start)";
static const char sql_rule[] = "SELECT hash, since_ns FROM rule WHERE name = ?1";
static const char sql_rule_put[] =
    "INSERT OR REPLACE INTO rule(name, hash, since_ns) VALUES(?1, ?2, ?3)";
static const char sql_rules[] = "SELECT name FROM rule";
static const char sql_rule_drop[] = "DELETE FROM rule WHERE name = ?1";
static const char sql_ups[] = "SELECT since_ns, until_ns, judged_ns, sent FROM rule_up"
                              " ORDER BY since_ns DESC LIMIT ?1";
static const char sql_up_put[] = "INSERT OR REPLACE INTO rule_up(since_ns, until_ns, judged_ns,"
                                 " sent) VALUES(?1, ?2, ?3, ?4)";
static const char sql_up_trim[] = "DELETE FROM rule_up WHERE since_ns NOT IN"
                                  " (SELECT since_ns FROM rule_up ORDER BY since_ns DESC LIMIT ?1)";
static const char sql_file[] = "SELECT content FROM rule_file WHERE one = 1";
static const char sql_file_put[] = "INSERT OR REPLACE INTO rule_file(one, content) VALUES(1, ?1)";
static const char sql_runs[] =
    "SELECT h.host, r.began_ns, r.ended_ns, l.value, r.name FROM run r JOIN run_host h ON h.run ="
    " r.n LEFT JOIN run_label l ON l.run = r.n AND l.key = 'silence' WHERE r.root_pid = 0 AND"
    " (r.flags & 8) = 0 AND r.began_ns < ?2 AND (r.ended_ns = 0 OR r.ended_ns > ?1)";

/* -- changes -- */

static const char *dup_text(struct arena *a, const char *text)
{
    return arena_dup(a, text, strlen(text) + 1);
}

static bool dup_str(struct arena *a, struct str *s)
{
    s->p = arena_dup(a, s->p ? s->p : "", s->n);
    return s->p != NULL;
}

enum err rules_db_change(struct rules_change *out, const struct rules_subject *s, struct arena *a)
{
    enum err e;

    *out = (struct rules_change){.host = dup_text(a, s->host),
                                 .class_text = dup_text(a, s->id ? "" : s->class_text),
                                 .start = s->start,
                                 .at_most = s->rule->at_most,
                                 .at_most_ns = s->rule->at_most_ns};
    if (s->id) {
        out->id = *s->id;
    }
    e = rules_notice_make(&out->notice, s, a);
    if (!e && (!out->host || !out->class_text || !dup_str(a, &out->notice.subject) ||
               !dup_str(a, &out->notice.rule) || !dup_str(a, &out->notice.use))) {
        e = ERR_FULL;
    }
    return e;
}

static bool id_parse(uint8_t id[RULES_ID_BYTES], const char *text)
{
    for (size_t i = 0; i < RULES_ID_BYTES; i++) {
        unsigned v;

        if (sscanf(text + 2 * i, "%2x", &v) != 1) {
            return false;
        }
        id[i] = (uint8_t)v;
    }
    return true;
}

static const struct uuid *change_id(const struct rules_change *c)
{
    return &c->id;
}

static void bind_str(sqlite3_stmt *st, int at, struct str s)
{
    (void)sqlite3_bind_text(st, at, s.p ? s.p : "", (int)s.n, SQLITE_STATIC);
}

static enum err write_known(struct lab_db *l, struct db *d, const uint8_t *id, bool *known)
{
    sqlite3_stmt *st;
    int64_t n = 0;
    enum err e = lab_db_statement(l, &st, sql_known);

    if (!e) {
        db_bind_bytes(st, 1, id, RULES_ID_BYTES);
        e = db_number(d, st, &n);
    }
    *known = n > 0;
    return e;
}

static enum err write_count(struct lab_db *l, struct db *d, const char *sql,
                            const struct rules_change *c, int64_t *n)
{
    sqlite3_stmt *st;
    enum err e = lab_db_statement(l, &st, sql);

    if (!e) {
        bind_str(st, 1, c->notice.rule);
        db_bind_bytes(st, 2, change_id(c)->b, sizeof change_id(c)->b);
        if (sql == sql_sent) {
            db_bind_number(st, 3, clk_sub(c->notice.step_ns, c->at_most_ns));
            db_bind_number(st, 4, c->notice.step_ns);
        }
        e = db_number(d, st, n);
    }
    return e;
}

/* Whether at_most holds it back; else how many were before it. */
static enum err write_limit(struct lab_db *l, struct db *d, struct rules_change *c, bool *held)
{
    int64_t sent = 0, skipped = 0;
    enum err e = ERR_OK;

    *held = false;
    if (!c->at_most) {
        return ERR_OK;
    }
    e = write_count(l, d, sql_sent, c, &sent);
    *held = sent >= c->at_most;
    if (!e && !*held) {
        e = write_count(l, d, sql_held, c, &skipped);
        c->notice.skipped = (uint64_t)skipped;
    }
    return e;
}

static enum err write_notice(struct lab_db *l, struct db *d, const struct rules_change *c,
                             const uint8_t *id)
{
    sqlite3_stmt *st;
    struct buf event;
    enum err e = lab_db_statement(l, &st, sql_insert);

    buf_init(&event, UPDATE_MAX);
    e = e ? e : rules_notice_encode(&event, &c->notice, c->host, &c->id);
    if (!e) {
        if (c->notice.n) {
            db_bind_number(st, 1, (int64_t)c->notice.n);
        }
        db_bind_bytes(st, 2, id, RULES_ID_BYTES);
        bind_str(st, 3, c->notice.rule);
        db_bind_bytes(st, 4, c->id.b, sizeof c->id.b);
        db_bind_text(st, 5, c->host);
        db_bind_text(st, 6, c->class_text);
        bind_str(st, 7, c->notice.subject);
        db_bind_number(st, 8, (int64_t)c->start);
        db_bind_number(st, 9, c->notice.state);
        db_bind_number(st, 10, c->notice.before);
        db_bind_number(st, 11, c->notice.step_ns);
        db_bind_number(st, 12, c->notice.since_ns);
        db_bind_bytes(st, 13, event.p, event.n);
        e = db_change(d, st);
    }
    buf_fini(&event);
    return e;
}

static enum err write_alert(struct lab_db *l, struct db *d, const struct rules_change *c)
{
    bool ok = c->notice.state == NOTICE_OK;
    sqlite3_stmt *st;
    enum err e = lab_db_statement(l, &st, ok ? sql_alert_end : sql_alert);

    if (e) {
        return e;
    }
    bind_str(st, 1, c->notice.rule);
    db_bind_bytes(st, 2, c->id.b, sizeof c->id.b);
    db_bind_text(st, 4, c->class_text);
    bind_str(st, 5, c->notice.subject);
    db_bind_number(st, 6, (int64_t)c->start);
    if (!ok) {
        db_bind_text(st, 3, c->host);
        db_bind_number(st, 7, c->notice.state);
        db_bind_number(st, 8, c->notice.before);
        db_bind_number(st, 9, c->notice.step_ns);
        db_bind_number(st, 10, c->notice.since_ns);
    }
    return db_change(d, st);
}

static enum err write_one(struct lab_db *l, struct db *d, struct rules_change *c, uint64_t *next)
{
    uint8_t id[RULES_ID_BYTES];
    bool known = false, held = false;
    enum err e = id_parse(id, c->notice.id) ? ERR_OK : ERR_INVALID;

    c->notice.n = 0;
    c->held = false;
    e = e ? e : write_known(l, d, id, &known);
    if (e || known) {
        return e;
    }
    e = write_limit(l, d, c, &held);
    c->held = held;
    if (!e && !held) {
        c->notice.n = (*next)++;
    }
    e = e ? e : write_notice(l, d, c, id);
    return e ? e : write_alert(l, d, c);
}

enum err rules_db_write(struct lab_db *l, struct rules_change *list, size_t n)
{
    sqlite3_stmt *st;
    struct db *d;
    int64_t next = 1;
    uint64_t number;
    enum err e = lab_db_begin(l, &d, LAB_DB_WRITE);

    if (e) {
        return e;
    }
    e = lab_db_statement(l, &st, sql_next);
    e = e ? e : db_number(d, st, &next);
    number = (uint64_t)next;
    for (size_t i = 0; !e && i < n; i++) {
        e = write_one(l, d, &list[i], &number);
    }
    e = e ? e : lab_db_statement(l, &st, sql_trim);
    if (!e) {
        db_bind_number(st, 1, RULES_DB_NOTICES);
        e = db_change(d, st);
    }
    e = lab_db_end(l, e);
    for (size_t i = 0; e && i < n; i++) {
        list[i].notice.n = 0;
    }
    return e;
}

/* -- reading notices -- */

static bool found_give(sqlite3_stmt *st, bool (*each)(void *ctx, const struct rules_found *f),
                       void *ctx)
{
    char name[MODEL_HOST_NAME_MAX + 1];
    struct rules_found f = {.host = name};
    struct wire_update *u = NULL;
    struct notice notice;
    bool more = true;

    if (!db_text(st, 1, name, sizeof name) || !db_bytes(st, 2, f.id.b, sizeof f.id.b) ||
        wire_update_decode(&u, sqlite3_column_blob(st, 3), (size_t)sqlite3_column_bytes(st, 3)) !=
            ERR_OK) {
        return true; /* damaged: the checksum of pages says so elsewhere */
    }
    if (u->data.n_events == 1 && notice_read(&notice, &u->data.events[0].event) == ERR_OK) {
        notice.n = (uint64_t)sqlite3_column_int64(st, 0);
        f.notice = &notice;
        more = each(ctx, &f);
    }
    wire_update_free(u);
    return more;
}

enum err rules_db_notices(struct lab_db *l, const struct rules_ask *ask,
                          bool (*each)(void *ctx, const struct rules_found *f), void *ctx)
{
    sqlite3_stmt *st;
    struct db *d;
    bool more = true;
    enum err e = lab_db_begin(l, &d, LAB_DB_READ);

    if (e) {
        return e;
    }
    e = lab_db_statement(l, &st, ask->newest_first ? sql_after_desc : sql_after);
    if (!e) {
        db_bind_number(st, 1, (int64_t)ask->after);
        db_bind_number(st, 2, ask->since_ns);
        db_bind_number(st, 3, ask->until_ns);
    }
    while (!e && more) {
        e = db_row(d, st);
        more = !e && found_give(st, each, ctx);
    }
    return lab_db_end(l, e == ERR_END ? ERR_OK : e);
}

/* -- notices of a run -- */

struct run_notices {
    struct run_file *f;
    struct run_notice *list;
    size_t n;
    uint64_t left_out;
    bool full; /* of memory */
};

static bool run_has(const struct run_file *f, const struct uuid *host)
{
    static const struct uuid none;

    for (size_t i = 0; i < f->n_hosts; i++) {
        if (memcmp(&f->hosts[i].id, host, sizeof *host) == 0) {
            return true;
        }
    }
    return memcmp(host, &none, sizeof none) == 0;
}

static struct str run_text(struct run_notices *x, struct str text)
{
    size_t n = utf8_cut(text.p, text.n, MODEL_TEXT_MAX);
    const char *p = arena_dup(&x->f->memory, text.p, n);

    x->full = x->full || !p;
    return (struct str){p, p ? n : 0};
}

static bool run_notice_add(void *ctx, const struct rules_found *found)
{
    const struct notice *n = found->notice;
    char subject[MODEL_HOST_NAME_MAX + MODEL_TEXT_MAX + 2];
    struct run_notices *x = ctx;

    if (n->has_watch || !run_has(x->f, &found->id)) {
        return true;
    }
    if (x->n == RUN_FILE_NOTICES_MAX - 1) {
        x->left_out++;
        return true;
    }
    (void)snprintf(subject, sizeof subject, "%s%s%.*s", found->host, n->subject.n ? " " : "",
                   (int)n->subject.n, n->subject.p);
    x->list[x->n++] =
        (struct run_notice){.when_ns = n->step_ns,
                            .rule = run_text(x, n->rule),
                            .subject = run_text(x, str_make(subject)),
                            .state = run_text(x, str_make(notice_state_name(n->state))),
                            .text = run_text(x, n->say)};
    return !x->full;
}

enum err rules_db_run_notices(struct lab_db *l, struct run_file *f)
{
    struct rules_ask ask = {.since_ns = f->head.begin_ns, .until_ns = clk_add(f->head.end_ns, 1)};
    struct run_notices x = {f, arena_array(&f->memory, RUN_FILE_NOTICES_MAX, sizeof *x.list), 0, 0,
                            false};
    char more[64];
    enum err e = x.list ? rules_db_notices(l, &ask, run_notice_add, &x) : ERR_FULL;

    if (!e && x.left_out) {
        (void)snprintf(more, sizeof more, "%llu more had no room", (unsigned long long)x.left_out);
        x.list[x.n] = x.list[x.n - 1];
        x.list[x.n].text = run_text(&x, str_make(more));
        x.list[x.n].rule = x.list[x.n].subject = x.list[x.n].state = (struct str){"", 0};
        x.n++;
    }
    f->notices = x.list;
    f->n_notices = e || x.full ? 0 : x.n;
    return e ? e : x.full ? ERR_FULL : ERR_OK;
}

/* -- alerts -- */

struct alert_texts {
    char rule[RULES_NAME_MAX + 1], host[MODEL_HOST_NAME_MAX + 1], class_text[512], key[256];
};

static bool alert_take(sqlite3_stmt *st, struct alert_texts *t, struct rules_alert *a)
{
    *a = (struct rules_alert){.host = t->host,
                              .class_text = t->class_text,
                              .key = t->key,
                              .start = (uint64_t)sqlite3_column_int64(st, 5),
                              .state = (uint8_t)sqlite3_column_int(st, 6),
                              .before = (uint8_t)sqlite3_column_int(st, 7),
                              .step_ns = sqlite3_column_int64(st, 8),
                              .since_ns = sqlite3_column_int64(st, 9),
                              .hash = (uint64_t)sqlite3_column_int64(st, 10)};
    if (!db_text(st, 0, t->rule, sizeof t->rule) || !db_bytes(st, 1, a->id.b, sizeof a->id.b) ||
        !db_text(st, 2, t->host, sizeof t->host) ||
        !db_text(st, 3, t->class_text, sizeof t->class_text) ||
        !db_text(st, 4, t->key, sizeof t->key) || a->state >= NOTICE_STATES) {
        return false;
    }
    a->rule = str_make(t->rule);
    return true;
}

enum err rules_db_alerts(struct lab_db *l, int64_t at_ns,
                         enum err (*each)(void *ctx, const struct rules_alert *a), void *ctx)
{
    struct alert_texts texts;
    struct rules_alert a;
    sqlite3_stmt *st;
    struct db *d;
    enum err e = lab_db_begin(l, &d, LAB_DB_READ);

    if (e) {
        return e;
    }
    e = lab_db_statement(l, &st, sql_alerts);
    if (!e) {
        db_bind_number(st, 1, at_ns);
    }
    while (!e) {
        e = db_row(d, st);
        if (!e && alert_take(st, &texts, &a)) {
            e = each(ctx, &a);
        }
    }
    return lab_db_end(l, e == ERR_END ? ERR_OK : e);
}

/* -- rules -- */

static const struct rules_rule *rule_find(const struct rules_conf *c, struct str name)
{
    for (size_t i = 0; i < rules_conf_n(c); i++) {
        if (str_eq(rules_conf_rule(c, i)->name, name)) {
            return rules_conf_rule(c, i);
        }
    }
    return NULL;
}

struct ended {
    const struct rules_conf *c;
    int64_t now_ns;
    struct rules_change *list;
    size_t n, cap;
    struct arena *a;
};

static enum err ended_add(void *ctx, const struct rules_alert *a)
{
    struct ended *x = ctx;
    const struct rules_rule *rule = rule_find(x->c, a->rule);
    struct rules_rule gone = {.name = a->rule, .severity = {"warning", 7}, .many = RULES_COUNT};
    static const struct uuid none;
    bool one = memcmp(a->id.b, none.b, sizeof none.b) != 0;
    struct rules_subject s = {.rule = rule ? rule : &gone,
                              .host = a->host,
                              .id = one ? &a->id : NULL,
                              .key = a->key,
                              .start = a->start,
                              .class_text = a->class_text,
                              .state = NOTICE_OK,
                              .before = a->state,
                              .since_ns = a->since_ns,
                              .step_ns = x->now_ns};
    enum err e;

    if (rule && rule->hash == a->hash) {
        return ERR_OK;
    }
    e = VEC_ROOM(&x->list, &x->cap, x->n + 1, RULES_DB_NOTICES);
    e = e ? e : rules_db_change(&x->list[x->n], &s, x->a);
    if (!e) {
        x->list[x->n].notice.reason = str_make("rule changed");
        x->list[x->n].notice.of = rule ? x->list[x->n].notice.of : str_make("");
        x->n++;
    }
    return e;
}

enum err rules_db_ended(struct lab_db *l, const struct rules_conf *c, int64_t now_ns,
                        struct rules_change **list, size_t *n, struct arena *a)
{
    struct ended x = {.c = c, .now_ns = now_ns, .a = a};
    enum err e = rules_db_alerts(l, INT64_MAX, ended_add, &x);

    *list = x.list;
    *n = x.n;
    return e;
}

static enum err rule_write(struct lab_db *l, struct db *d, const struct rules_rule *rule,
                           int64_t now_ns, int64_t *since_ns)
{
    sqlite3_stmt *st;
    enum err e = lab_db_statement(l, &st, sql_rule);

    *since_ns = now_ns;
    if (e) {
        return e;
    }
    bind_str(st, 1, rule->name);
    e = db_row(d, st);
    if (!e && (uint64_t)sqlite3_column_int64(st, 0) == rule->hash) {
        *since_ns = sqlite3_column_int64(st, 1);
        (void)sqlite3_reset(st);
        return ERR_OK;
    }
    e = e && e != ERR_END ? e : lab_db_statement(l, &st, sql_rule_put);
    if (!e) {
        bind_str(st, 1, rule->name);
        db_bind_number(st, 2, (int64_t)rule->hash);
        db_bind_number(st, 3, now_ns);
        e = db_change(d, st);
    }
    return e;
}

/* One that is not in the file, until there is none. */
static enum err rules_drop(struct lab_db *l, struct db *d, const struct rules_conf *c)
{
    char name[RULES_NAME_MAX + 1];
    bool dropped = true;
    enum err e = ERR_OK;

    while (!e && dropped) {
        sqlite3_stmt *st;

        dropped = false;
        e = lab_db_statement(l, &st, sql_rules);
        while (!e && !dropped) {
            e = db_row(d, st);
            dropped = !e && db_text(st, 0, name, sizeof name) && !rule_find(c, str_make(name));
        }
        e = e == ERR_END ? ERR_OK : e;
        if (!e && dropped) {
            e = lab_db_statement(l, &st, sql_rule_drop);
            db_bind_text(st, 1, name);
            e = e ? e : db_change(d, st);
        }
    }
    return e;
}

enum err rules_db_rules(struct lab_db *l, const struct rules_conf *c, int64_t now_ns,
                        int64_t *since_ns)
{
    struct db *d;
    enum err e = lab_db_begin(l, &d, LAB_DB_WRITE);

    if (e) {
        return e;
    }
    for (size_t i = 0; !e && i < rules_conf_n(c); i++) {
        e = rule_write(l, d, rules_conf_rule(c, i), now_ns, &since_ns[i]);
    }
    e = e ? e : rules_drop(l, d, c);
    return lab_db_end(l, e);
}

/* -- times and the file -- */

enum err rules_db_up(struct lab_db *l, struct rules_up list[RULES_DB_UPS], size_t *n)
{
    struct rules_up found[RULES_DB_UPS];
    sqlite3_stmt *st;
    struct db *d;
    size_t k = 0;
    enum err e = lab_db_begin(l, &d, LAB_DB_READ);

    if (e) {
        return e;
    }
    e = lab_db_statement(l, &st, sql_ups);
    if (!e) {
        db_bind_number(st, 1, RULES_DB_UPS);
    }
    while (!e && k < RULES_DB_UPS) {
        e = db_row(d, st);
        if (!e) {
            found[k++] = (struct rules_up){sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1),
                                           sqlite3_column_int64(st, 2),
                                           (uint64_t)sqlite3_column_int64(st, 3)};
        }
    }
    e = lab_db_end(l, e == ERR_END ? ERR_OK : e);
    for (size_t i = 0; !e && i < k; i++) {
        list[i] = found[k - 1 - i];
    }
    *n = e ? 0 : k;
    return e;
}

enum err rules_db_up_write(struct lab_db *l, const struct rules_up *up)
{
    sqlite3_stmt *st;
    struct db *d;
    enum err e = lab_db_begin(l, &d, LAB_DB_WRITE);

    if (e) {
        return e;
    }
    e = lab_db_statement(l, &st, sql_up_put);
    if (!e) {
        db_bind_number(st, 1, up->since_ns);
        db_bind_number(st, 2, up->until_ns);
        db_bind_number(st, 3, up->judged_ns);
        db_bind_number(st, 4, (int64_t)up->sent);
        e = db_change(d, st);
    }
    e = e ? e : lab_db_statement(l, &st, sql_up_trim);
    if (!e) {
        db_bind_number(st, 1, RULES_DB_UPS);
        e = db_change(d, st);
    }
    return lab_db_end(l, e);
}

enum err rules_db_file(struct lab_db *l, char **text, size_t *n)
{
    sqlite3_stmt *st;
    struct db *d;
    enum err e = lab_db_begin(l, &d, LAB_DB_READ);

    *text = NULL;
    *n = 0;
    if (e) {
        return e;
    }
    e = lab_db_statement(l, &st, sql_file);
    e = e ? e : db_row(d, st);
    if (!e) {
        *n = (size_t)sqlite3_column_bytes(st, 0);
        *text = mem_strndup(*n ? sqlite3_column_blob(st, 0) : "", *n);
        e = *text ? ERR_OK : ERR_NOMEM;
    }
    return lab_db_end(l, e == ERR_END ? ERR_OK : e);
}

enum err rules_db_file_write(struct lab_db *l, const char *text, size_t n)
{
    sqlite3_stmt *st;
    struct db *d;
    enum err e = lab_db_begin(l, &d, LAB_DB_WRITE);

    if (e) {
        return e;
    }
    e = lab_db_statement(l, &st, sql_file_put);
    if (!e) {
        db_bind_bytes(st, 1, text, n);
        e = db_change(d, st);
    }
    return lab_db_end(l, e);
}

/* -- runs -- */

void rules_db_runs_free(struct rules_runs *r)
{
    for (size_t i = 0; i < r->n; i++) {
        mem_free(r->list[i].silence);
        mem_free(r->list[i].name);
    }
    mem_free(r->list);
    *r = (struct rules_runs){0};
}

static enum err run_add(struct rules_runs *out, sqlite3_stmt *st)
{
    bool silence = sqlite3_column_type(st, 3) != SQLITE_NULL;
    char value[128] = "", name[128] = "";
    struct rules_run *r;
    enum err e = VEC_ROOM(&out->list, &out->cap, out->n + 1, RUNS_MAX);

    if (e) {
        return e;
    }
    r = &out->list[out->n];
    *r = (struct rules_run){.since_ns = sqlite3_column_int64(st, 1),
                            .until_ns = sqlite3_column_int64(st, 2)};
    r->until_ns = r->until_ns ? r->until_ns : INT64_MAX;
    if (!db_bytes(st, 0, r->host.b, sizeof r->host.b) || !db_text(st, 4, name, sizeof name) ||
        (silence && !db_text(st, 3, value, sizeof value))) {
        return ERR_OK;
    }
    r->silence = silence ? mem_strdup(value) : NULL;
    r->name = mem_strdup(name);
    out->n++;
    return r->name && (r->silence || !silence) ? ERR_OK : ERR_NOMEM;
}

enum err rules_db_runs(struct lab_db *l, int64_t since_ns, int64_t until_ns, struct rules_runs *out)
{
    sqlite3_stmt *st;
    struct db *d;
    enum err e = lab_db_begin(l, &d, LAB_DB_READ);

    *out = (struct rules_runs){0};
    if (e) {
        return e;
    }
    e = lab_db_statement(l, &st, sql_runs);
    if (!e) {
        db_bind_number(st, 1, since_ns);
        db_bind_number(st, 2, until_ns);
    }
    while (!e) {
        e = db_row(d, st);
        e = e ? e : run_add(out, st);
    }
    e = lab_db_end(l, e == ERR_END ? ERR_OK : e);
    if (e) {
        rules_db_runs_free(out);
    }
    return e;
}

static bool run_covers(const struct rules_run *r, const struct uuid *host, int64_t when_ns)
{
    return r->since_ns <= when_ns && when_ns < r->until_ns &&
           memcmp(r->host.b, host->b, sizeof host->b) == 0;
}

unsigned rules_db_runs_open(const struct rules_runs *r, const struct uuid *host, int64_t when_ns)
{
    unsigned n = 0;

    for (size_t i = 0; i < r->n; i++) {
        n += !r->list[i].silence && run_covers(&r->list[i], host, when_ns);
    }
    return n;
}

const char *rules_db_runs_silence(const struct rules_runs *r, const struct uuid *host,
                                  struct str rule, int64_t when_ns)
{
    for (size_t i = 0; i < r->n; i++) {
        if (r->list[i].silence && run_covers(&r->list[i], host, when_ns) &&
            glob_match(str_make(r->list[i].silence), rule)) {
            return r->list[i].name;
        }
    }
    return NULL;
}

/* -- times -- */

int64_t rules_db_deadline(const struct rules_up *ups, size_t n, int64_t step_ns, int64_t late_ns)
{
    int64_t due_ns = clk_add(step_ns, late_ns);

    for (size_t i = 1; i < n; i++) { /* down between the one before and this, and perhaps again */
        if (due_ns >= ups[i - 1].until_ns && due_ns < clk_add(ups[i].since_ns, GRACE_NS)) {
            due_ns = clk_add(ups[i].since_ns, GRACE_NS);
        }
    }
    return due_ns;
}
