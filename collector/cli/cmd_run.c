/* Runs: marking when they begin and end, and what the collector has of them. Marks that no
 * collector could be told of are kept (below) and sent with the next command. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/cli/cli_client.h"
#include "collector/cli/run_show.h"
#include "common/base/clk.h"
#include "common/base/cur.h"
#include "common/base/hash.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/os_program.h"
#include "common/os/uuid.h"
#include "common/text/humanize.h"
#include "common/wire/wire_run.h"

/* -- marks that are kept -- */

/* Marks of runs that no collector could be told of: kept in a file of this user until the next one
 * is told, with their own times. $XDG_STATE_HOME/procfleet/marks, else below ~/.local/state or
 * LOCALAPPDATA. Bounds: 1 MiB, 7 days; what is older is dropped. Crashes: a mark that was kept is
 * on the disk; it may be sent twice, which is one mark. Threads and processes: any, one at a time
 * works; a lock beside the file says so.
 *
 * The file: records of u32 bytes behind it, u8 flags (1 end), u8 n and n bytes of the collector's
 * address, the mark as RunMark, u64 XXH3-64 of all before it but the length. It is written as a
 * whole and renamed; a record that is damaged ends it. */

#define BYTES_MAX (1u << 20)
#define AGE_NS    (7 * 86400 * CLK_S)
#define SUM_BYTES 8u
#define LOCK_NS   (2 * CLK_S)
#define KEEP_NS   (30 * CLK_S) /* to keep one: it would be lost */
#define END       1u

struct marks {
    char *dir, *path, *lock_path;
    struct os_lock *lock;
    uint8_t *bytes;
    size_t n;
};

static const char *marks_home(const char **below)
{
    static const struct {
        const char *variable, *below;
    } places[] = {{"XDG_STATE_HOME", "procfleet"},
                  {"LOCALAPPDATA", "procfleet"},
                  {"HOME", ".local/state/procfleet"}};

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = getenv(places[i].variable);

        if (value && *value) {
            *below = places[i].below;
            return value;
        }
    }
    return NULL;
}

static void marks_close(struct marks *m)
{
    os_unlock(m->lock);
    mem_free(m->dir);
    mem_free(m->path);
    mem_free(m->lock_path);
    mem_free(m->bytes);
}

/* Locks and reads; nothing kept is no error. Without `make` ERR_NOTFOUND where nothing ever was. */
static enum err marks_open(struct marks *m, bool make)
{
    const char *below = "", *home = marks_home(&below);
    int64_t until_ns = os_mono_ns() + (make ? KEEP_NS : LOCK_NS);
    enum err e;

    *m = (struct marks){.dir = NULL};
    if (!home) {
        return ERR_NOTFOUND;
    }
    m->dir = os_path_join(home, below);
    m->path = m->dir ? os_path_join(m->dir, "marks") : NULL;
    m->lock_path = m->dir ? os_path_join(m->dir, "marks.lock") : NULL;
    if (!m->path || !m->lock_path) {
        return ERR_NOMEM;
    }
    if (!make && !os_exists(m->path)) {
        return ERR_NOTFOUND;
    }
    e = os_mkdirs(m->dir, true);
    e = e ? e : os_lock(&m->lock, m->lock_path);
    while (e == ERR_BUSY && os_mono_ns() < until_ns) {
        os_sleep_ns(20 * CLK_MS);
        e = os_lock(&m->lock, m->lock_path);
    }
    e = e ? e : os_read_file(&m->bytes, &m->n, m->path, BYTES_MAX);
    return e == ERR_NOTFOUND ? ERR_OK : e;
}

/* -- records -- */

struct mark_record {
    bool end;
    struct str collector, mark, all; /* all: the record as it stands */
};

/* The next record; false: there is none, or it is damaged. */
static bool record_next(struct cur *c, struct mark_record *out)
{
    const uint8_t *begin = c->p;
    uint32_t n = cur_u32le(c);
    const uint8_t *body = cur_bytes(c, n);
    struct cur in;
    size_t name;

    if (!body || n < 2 + SUM_BYTES ||
        cur_at64le(body + n - SUM_BYTES) != hash_bytes(body, n - SUM_BYTES, 0)) {
        return false;
    }
    in = cur_make(body, n - SUM_BYTES);
    out->end = (cur_u8(&in) & END) != 0;
    name = cur_u8(&in);
    out->collector = (struct str){(const char *)cur_bytes(&in, name), name};
    out->mark.n = cur_left(&in);
    out->mark.p = (const char *)cur_bytes(&in, out->mark.n);
    out->all = (struct str){(const char *)begin, 4 + n};
    return !in.bad;
}

static enum err record_put(struct buf *out, const char *collector, bool end,
                           const struct wire_run_mark *m)
{
    struct buf body;
    size_t name = strlen(collector);
    enum err e;

    buf_init(&body, BYTES_MAX);
    buf_put_u8(&body, end ? END : 0);
    buf_put_u8(&body, (uint8_t)(name < 255 ? name : 255));
    buf_put(&body, collector, name < 255 ? name : 255);
    e = wire_run_encode(&body, WIRE_RUN_MARK, m);
    if (!e && !body.bad) {
        buf_put_u64le(&body, hash_bytes(body.p, body.n, 0));
        buf_put_u32le(out, (uint32_t)body.n);
        buf_put(out, body.p, body.n);
    }
    e = e ? e : body.bad ? body.bad : out->bad;
    buf_fini(&body);
    return e;
}

/* -- keeping and sending -- */

static enum err marks_write(const struct marks *m, const struct buf *b)
{
    if (b->bad) {
        return b->bad;
    }
    return b->n ? os_write_file(m->path, b->p, b->n, true) : os_remove(m->path);
}

/* Keeps a mark for the collector of that address. end: RunEnd. why: the file, also when all is
 * well. Errors: ERR_NOTFOUND (no home directory), ERR_FULL, ERR_IO, … */
static enum err marks_keep(const char *collector, bool end, const struct wire_run_mark *mark,
                           struct errmsg *why)
{
    struct marks m;
    struct buf b;
    enum err e = marks_open(&m, true);

    buf_init(&b, BYTES_MAX);
    if (!e) {
        buf_put(&b, m.bytes, m.n);
        e = record_put(&b, collector, end, mark);
        e = e ? e : marks_write(&m, &b);
    }
    e = errmsg_set(why, e, "%s%s%s", m.path ? m.path : "no home directory", e ? ": " : "",
                   e ? err_text(e) : "");
    buf_fini(&b);
    marks_close(&m);
    return e;
}

struct marks_sending {
    const char *collector;
    enum err (*send)(void *ctx, bool end, const struct wire_run_mark *m);
    void *ctx;
    unsigned *sent;
};

/* ERR_END: it stays. */
static enum err record_send(const struct marks_sending *s, const struct mark_record *r)
{
    struct wire_run_mark *m;
    enum err e;

    if (wire_run_decode(&m, WIRE_RUN_MARK, r->mark.p, r->mark.n) != ERR_OK) {
        return ERR_OK;
    }
    if (m->when_ns < os_utc_ns() - AGE_NS) {
        wire_run_free(m);
        return ERR_OK;
    }
    if (!str_eq(r->collector, str_make(s->collector))) {
        wire_run_free(m);
        return ERR_END;
    }
    m->late = true;
    m->now_ns = os_utc_ns();
    e = s->send(s->ctx, r->end, m);
    *s->sent += e == ERR_OK;
    wire_run_free(m);
    return e == ERR_REFUSED ? ERR_OK : e;
}

/* Sends what is kept for that collector, the oldest first: `send` returns ERR_OK (it is there),
 * ERR_REFUSED (it will never be: dropped) or another error, which ends it and keeps the rest.
 * *sent: how many are there now. */
static enum err marks_send(const char *collector,
                           enum err (*send)(void *ctx, bool end, const struct wire_run_mark *m),
                           void *ctx, unsigned *sent)
{
    const struct marks_sending s = {collector, send, ctx, sent};
    struct mark_record r;
    struct marks m;
    struct cur c;
    struct buf rest;
    enum err e = marks_open(&m, false), bad = ERR_OK;

    *sent = 0;
    buf_init(&rest, BYTES_MAX);
    c = cur_make(m.bytes, e ? 0 : m.n);
    while (!e && record_next(&c, &r)) {
        enum err sent_one = bad ? ERR_END : record_send(&s, &r);

        bad = sent_one && sent_one != ERR_END ? sent_one : bad;
        if (sent_one) {
            buf_put(&rest, r.all.p, r.all.n);
        }
    }
    if (!e && rest.n != m.n) {
        e = marks_write(&m, &rest);
    }
    buf_fini(&rest);
    marks_close(&m);
    return e == ERR_NOTFOUND ? ERR_OK : e ? e : bad;
}

/* -- the commands -- */

#define REPLY_MAX      (8u << 20)
#define EXEC_WAIT_NS   (3 * CLK_S) /* for the collector, before the command begins */
#define EXEC_TTL_NS    (24 * 3600 * CLK_S)
#define VARIABLE       "PROCFLEET_RUN"
#define COMMAND_FAILED 127 /* it could not be started */

#define OPT_LABEL                                                        \
    {                                                                    \
        "label", 0, "KEY=VALUE", "what it is called; may be repeated", 1 \
    }
#define OPT_HOSTS                                                                             \
    {                                                                                         \
        "host", 0, "HOST", "names or globs of the run's hosts; may be repeated (this one)", 1 \
    }
#define OPT_TTL                                                                    \
    {                                                                              \
        "ttl", 0, "SPAN", "it ends by itself then, at most 30d (4h; exec: 24h)", 0 \
    }

/* -- a mark from options -- */

struct mark {
    struct wire_run_mark m;
    struct str hosts[WIRE_RUN_PATTERNS];
    struct wire_label labels[WIRE_RUN_LABELS];
};

static enum err label_read(struct mark *x, const char *text, struct errmsg *why)
{
    const char *equals = strchr(text, '=');
    struct wire_label *l = &x->labels[x->m.n_labels];

    if (x->m.n_labels == WIRE_RUN_LABELS) {
        return errmsg_set(why, ERR_USAGE, "--label: at most %u", WIRE_RUN_LABELS);
    }
    if (equals) {
        l->key = (struct str){text, (size_t)(equals - text)};
        l->value = str_make(equals + 1);
    }
    if (!equals || !wire_run_label_ok(l)) {
        return errmsg_set(why, ERR_USAGE,
                          "--label: '%s' is not KEY=VALUE with a key of a-z 0-9 _ . - and at most "
                          "64 bytes of value",
                          text);
    }
    x->m.n_labels++;
    return ERR_OK;
}

static bool parent_read(struct uuid *out)
{
    const char *text = getenv(VARIABLE);

    return text && uuid_parse(out, text) == ERR_OK;
}

/* Name, labels, and what a begin has besides. */
static enum err mark_read(struct mark *x, const struct cli *c, const char *name, struct errmsg *why)
{
    const char *values[OPT_MANY_MAX], *ttl = opt_value(c->args, "ttl");
    size_t n;
    enum err e = ERR_OK;

    memset(x, 0, sizeof *x);
    x->m.name = str_make(name);
    x->m.hosts = x->hosts;
    x->m.labels = x->labels;
    x->m.key = str_make(opt_value(c->args, "job"));
    if (!wire_run_name_ok(x->m.name)) {
        return errmsg_set(why, ERR_USAGE, "'%s': a name is 1 to 64 letters, digits, '.', '_', '-'",
                          name);
    }
    if (x->m.key.n > WIRE_RUN_KEY_MAX) {
        return errmsg_set(why, ERR_USAGE, "--job: at most %u bytes", WIRE_RUN_KEY_MAX);
    }
    if (ttl && (clk_parse_span(&x->m.ttl_ns, ttl) != ERR_OK || x->m.ttl_ns <= 0)) {
        return errmsg_set(why, ERR_USAGE, "--ttl: '%s' is not a time such as 4h", ttl);
    }
    n = opt_values(c->args, "label", values, OPT_MANY_MAX);
    for (size_t i = 0; !e && i < n; i++) {
        e = label_read(x, values[i], why);
    }
    n = opt_values(c->args, "host", values, OPT_MANY_MAX);
    for (size_t i = 0; i < n; i++) {
        x->hosts[x->m.n_hosts++] = str_make(values[i]);
    }
    err_ignore(os_boot_id(x->m.boot.b)); /* without it the arrival counts */
    x->m.when_ns = os_utc_ns();
    return e;
}

/* -- telling the collector -- */

struct told {
    struct cli *c;
    struct cli_client *l;
    struct wire_run *run; /* of the newest answer; NULL: none */
    struct errmsg why;
    int code;
    bool busy;   /* it was refused for now */
    bool absent; /* an end was refused: no such run */
    bool behind; /* kept marks were refused for now: an end waits behind its begin */
    bool kept;   /* the mark was kept */
};

static enum err mark_send(struct told *t, bool end, const struct wire_run_mark *m)
{
    struct rpc_result result = {.code = RPC_OK};
    struct buf request, reply;
    enum err e;

    buf_init(&request, 64u << 10);
    buf_init(&reply, REPLY_MAX);
    e = wire_run_encode(&request, WIRE_RUN_MARK, m);
    if (!e) {
        const struct cli_client_request q = {end ? RPC_MARK_RUN_END : RPC_MARK_RUN_BEGIN, request.p,
                                             request.n, t->c->settings.timeout_ns, NULL};

        e = cli_client_call(t->l, &q, &reply, &result, &t->why);
    }
    if (!e) {
        wire_run_free(t->run);
        t->run = NULL;
        e = wire_run_decode(&t->run, WIRE_RUN_RUN, reply.p, reply.n);
    }
    t->code = e ? (int)cli_client_call_exit(e, &result) : CLI_OK;
    t->absent = e == ERR_REFUSED && result.code == RPC_NOT_FOUND;
    t->busy = e == ERR_REFUSED &&
              (result.code == RPC_RESOURCE_EXHAUSTED || result.code == RPC_UNAVAILABLE);
    buf_fini(&request);
    buf_fini(&reply);
    return e;
}

static enum err kept_send(void *ctx, bool end, const struct wire_run_mark *m)
{
    struct told *t = ctx;
    enum err e = mark_send(t, end, m);

    if (t->busy) {
        return ERR_BUSY;
    }
    if (e == ERR_REFUSED) {
        cli_tell(t->c, "a mark of '%.*s' that was kept is refused and dropped: %s", (int)m->name.n,
                 m->name.p, t->why.text);
        return ERR_REFUSED;
    }
    return e;
}

/* Connects, and sends what was kept before. */
static enum err told_open(struct told *t, struct cli *c)
{
    unsigned sent = 0;
    enum err e;

    *t = (struct told){.c = c};
    e = cli_client_open(&t->l, c, &t->code);
    if (!e) {
        e = marks_send(c->settings.collector, kept_send, t, &sent);
        if (sent) {
            cli_tell(c, "%u %s that %s kept %s sent", sent, sent == 1 ? "mark" : "marks",
                     sent == 1 ? "was" : "were", sent == 1 ? "is" : "are");
        }
        if (e) {
            cli_tell(c, "marks that were kept stay so: %s",
                     t->busy && t->why.text[0] ? t->why.text : err_text(e));
        }
        t->behind = e && t->busy;
        e = ERR_OK; /* the new mark may come through all the same */
    }
    return e;
}

static void told_close(struct told *t)
{
    if (t->l) {
        cli_client_close(t->l);
    }
    wire_run_free(t->run);
    t->run = NULL;
}

enum keep {
    KEEP_BUSY,  /* a mark that no collector was reached for, or that of a busy one */
    KEEP_EARLY, /* and an end whose begin is kept yet */
};

/* Sends it or keeps it; what else went wrong is told. Returns the exit code. */
static int mark_or_keep(struct told *t, bool end, enum keep keep, const struct wire_run_mark *m)
{
    bool waits = t->l && end && t->behind;
    enum err e = waits || !t->l ? ERR_UNREACHABLE : mark_send(t, end, m);
    struct errmsg where = {""};

    if (!e) {
        return CLI_OK;
    }
    if (t->l && !waits) {
        cli_tell(t->c, "%s", t->why.text[0] ? t->why.text : err_text(e));
    }
    if (!waits && t->code != CLI_UNREACHABLE && !t->busy && !(keep == KEEP_EARLY && t->absent)) {
        return t->code;
    }
    e = marks_keep(t->c->settings.collector, end, m, &where);
    if (e) {
        return cli_fail(t->c, CLI_UNREACHABLE, "the mark is lost: %s", where.text);
    }
    t->kept = true;
    cli_tell(t->c, "the mark is kept in %s; the next 'procfleet run' sends it", where.text);
    return CLI_OK;
}

/* -- begin, end -- */

static const char *operand(const struct cli *c)
{
    char **operands;

    return opt_operands(c->args, &operands) == 1 ? operands[0] : NULL;
}

static void id_print(const struct wire_run *run, const struct uuid *own)
{
    char text[UUID_TEXT];

    humanize_line(stdout, "%s", uuid_format(text, run ? &run->id : own));
}

static int mark_body(struct cli *c, bool end)
{
    struct errmsg why = {""};
    struct told t;
    struct mark x;
    const char *name = operand(c), *exit_code = opt_value(c->args, "exit");
    uint64_t code = 0;
    int result;

    if (!name) {
        return cli_fail(c, CLI_USAGE, "one name is needed");
    }
    if (mark_read(&x, c, name, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    if (exit_code && opt_number(&code, exit_code, UINT32_MAX) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "--exit: '%s' is not an exit code", exit_code);
    }
    x.m.has_exit = exit_code != NULL;
    x.m.exit_code = (uint32_t)code;
    if (!end) {
        (void)parent_read(&x.m.parent);
    }
    if (!end && !x.m.key.n && uuid_random(&x.m.id) != ERR_OK) {
        return cli_fail(c, CLI_FAILED, "no random number");
    }
    err_ignore(told_open(&t, c)); /* it has said so */
    result = mark_or_keep(&t, end, KEEP_BUSY, &x.m);
    if (result == CLI_OK && !end && (t.run || !x.m.key.n)) {
        id_print(t.run, &x.m.id);
    }
    told_close(&t);
    return result;
}

static int begin_body(struct cli *c)
{
    return mark_body(c, false);
}

static int end_body(struct cli *c)
{
    return mark_body(c, true);
}

static const struct opt begin_opts[] = {
    OPT_HOSTS,
    OPT_LABEL,
    OPT_TTL,
    {"job", 0, "TEXT", "the same TEXT of one certificate is the same run: the id of a CI job", 0},
    CLI_OPTS_CONNECTION,
};

static const struct opt_command begin_usage = {
    .program = "procfleet run",
    .name = "begin",
    .brief = "mark the begin of a run on one or many hosts, and print its id",
    .operands = "NAME",
    .opts = begin_opts,
    .n_opts = sizeof begin_opts / sizeof *begin_opts,
    .examples =
        "  procfleet run begin nightly-412 --host 'lab-*' --label build=4711\n"
        "  procfleet run begin nightly --ttl 8h --job \"$CI_JOB_ID\"\n"
        "  procfleet run begin patch-day --host 'lab-*' --label silence='*' --ttl 4h\n"
        "\n"
        "Needs a certificate of role mark or admin; the label silence takes admin. Without\n"
        "a collector in reach the mark is kept and sent by the next 'procfleet run'.\n",
};

static const struct opt end_opts[] = {
    {"exit", 0, "N", "exit code of what ran; other than 0: failed, left out of comparisons", 0},
    {"job", 0, "TEXT", "the run that was begun with it", 0},
    OPT_LABEL,
    CLI_OPTS_CONNECTION,
};

static const struct opt_command end_usage = {
    .program = "procfleet run",
    .name = "end",
    .brief = "mark the end of a run: the newest open one of this name",
    .operands = "NAME",
    .opts = end_opts,
    .n_opts = sizeof end_opts / sizeof *end_opts,
    .examples = "  procfleet run end nightly-412\n"
                "  procfleet run end nightly --job \"$CI_JOB_ID\" --exit $?\n",
};

/* -- exec -- */

/* A caller that waits for a build does not wait long for a collector. */
static void exec_connect(struct told *t, struct cli *c)
{
    int64_t timeout_ns = c->settings.timeout_ns;

    c->settings.timeout_ns = timeout_ns < EXEC_WAIT_NS ? timeout_ns : EXEC_WAIT_NS;
    err_ignore(told_open(t, c)); /* it has said so */
    c->settings.timeout_ns = timeout_ns;
}

static int exec_run(struct cli *c, struct mark *x, char **argv)
{
    char variable[sizeof VARIABLE + 1 + UUID_TEXT], id[UUID_TEXT];
    struct os_program *program;
    struct errmsg why = {""};
    struct told t;
    int code = COMMAND_FAILED;
    bool kept;
    enum err e;

    (void)snprintf(variable, sizeof variable, VARIABLE "=%s", uuid_format(id, &x->m.id));
    x->m.when_ns = os_utc_ns();
    e = os_program_start(&program, argv, variable, &x->m.root_pid, &x->m.root_start, &why);
    if (e) {
        return cli_fail(c, (enum cli_exit)COMMAND_FAILED, "%s", why.text);
    }
    exec_connect(&t, c);
    (void)mark_or_keep(&t, false, KEEP_BUSY, &x->m); /* the command runs, whatever becomes of it */
    kept = t.kept;
    told_close(&t);
    e = os_program_wait(program, &code, &why);
    if (e) {
        cli_tell(c, "%s", why.text);
        code = e == ERR_NOTFOUND ? COMMAND_FAILED : 126;
    }
    x->m.when_ns = os_utc_ns();
    x->m.has_exit = true;
    x->m.exit_code = (uint32_t)code;
    x->m.n_labels = 0;
    exec_connect(&t, c);
    (void)mark_or_keep(&t, true, kept ? KEEP_EARLY : KEEP_BUSY, &x->m);
    told_close(&t);
    return code;
}

static int exec_body(struct cli *c)
{
    struct errmsg why = {""};
    char **operands;
    struct mark x;
    size_t n = opt_operands(c->args, &operands);
    char **argv = mem_array(n + 1, sizeof *argv);
    int code;

    if (n < 2 || !argv) {
        code = cli_fail(c, CLI_USAGE, "a name and a command are needed: run exec NAME -- COMMAND");
    } else if (mark_read(&x, c, operands[0], &why) != ERR_OK) {
        code = cli_fail(c, CLI_USAGE, "%s", why.text);
    } else if (uuid_random(&x.m.id) != ERR_OK) {
        code = cli_fail(c, CLI_FAILED, "no random number");
    } else {
        (void)parent_read(&x.m.parent);
        x.m.ttl_ns = x.m.ttl_ns ? x.m.ttl_ns : EXEC_TTL_NS;
        memcpy(argv, operands + 1, (n - 1) * sizeof *argv);
        code = exec_run(c, &x, argv);
    }
    mem_free(argv);
    return code;
}

static const struct opt exec_opts[] = {
    OPT_HOSTS,
    OPT_LABEL,
    OPT_TTL,
    CLI_OPTS_CONNECTION,
};

static const struct opt_command exec_usage = {
    .program = "procfleet run",
    .name = "exec",
    .brief = "a command as a run: its processes, from its begin to its end",
    .operands = "NAME COMMAND...",
    .opts = exec_opts,
    .n_opts = sizeof exec_opts / sizeof *exec_opts,
    .examples =
        "  procfleet run exec cc-base -- make -j8\n"
        "  procfleet run exec pr-812 --label branch=\"$BRANCH\" -- ./build.sh release\n"
        "\n"
        "The exit code is the command's (128 and its number for a signal; 127: it could not be\n"
        "started). Signals are passed on. PROCFLEET_RUN is set for the command, so that a run\n"
        "inside is its part. Where this machine is a host of the collector, the run is the\n"
        "command's process tree, and its totals are exact; from a container with process ids of\n"
        "its own it is the whole host. Without a collector in reach the command runs all the\n"
        "same, and the marks are kept and sent by the next 'procfleet run'.\n",
};

/* -- all of them -- */

static const struct opt_command *const run_subs[] = {
    &begin_usage,    &end_usage,       &exec_usage,     &run_show_list,
    &run_show_usage, &run_show_export, &run_show_import};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "run",
    .brief = "runs: mark them, list them, see what they used, carry them elsewhere",
    .subs = run_subs,
    .n_subs = sizeof run_subs / sizeof *run_subs,
    .examples = "  procfleet run exec cc-base -- make -j8\n"
                "  procfleet run begin nightly-412 --host 'lab-*'\n"
                "  procfleet run end nightly-412\n"
                "  procfleet run list 'nightly-*'\n"
                "  procfleet run show nightly-412\n"
                "  procfleet top --run nightly-412\n",
};

static const struct cli_command commands[] = {
    {&begin_usage, begin_body, CLI_NEEDS_COLLECTOR, NULL},
    {&end_usage, end_body, CLI_NEEDS_COLLECTOR, NULL},
    {&exec_usage, exec_body, CLI_NEEDS_COLLECTOR, NULL},
    {&run_show_list, run_show_list_body, CLI_NEEDS_SETTINGS, NULL},
    {&run_show_usage, run_show_body, CLI_NEEDS_SETTINGS, NULL},
    {&run_show_export, run_show_export_body, CLI_NEEDS_COLLECTOR, NULL},
    {&run_show_import, run_show_import_body, CLI_NEEDS_COLLECTOR, NULL},
};

const struct cli_command cmd_run = {&usage, NULL, CLI_NEEDS_NOTHING, commands};
