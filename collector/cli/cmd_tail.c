/* The live stream: one SUB connection, topics `event/` or `sample/`. A hole in a topic's sequence
 * is told as soon as it is seen; what is missing can be asked for with 'procfleet events'. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "collector/cli/fields.h"
#include "collector/cli/link.h"
#include "common/clk.h"
#include "common/cur.h"
#include "common/glob.h"
#include "common/mem.h"
#include "common/os.h"

#define MESSAGE_MAX (1u << 20)
#define TOPICS_MAX  20000u
#define POLL_NS     (200 * CLK_MS)

static const struct opt opts[] = {
    {"samples", 's', NULL, "the newest samples instead of events", 0},
    {"kind", 'k', "KIND,...", "as for 'procfleet events' (process,level,source)", 0},
    CLI_OPT_HOST,
    CLI_OPTS_PROCESS,
    {"limit", 'n', "N", "end after so many lines (never)", 0},
    {"for", 0, "SPAN", "end after so long (never)", 0},
    {"events", 0, "HOST[:PORT]", "event stream to follow (PROCFLEET_EVENTS; localhost:7422)", 0},
    CLI_OPTS_CONNECTION,
};

const struct opt_command cmd_tail_usage = {
    .program = "procfleet",
    .name = "tail",
    .brief = "follows events, or samples, as they arrive",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .sets = cli_sets,
    .examples = "  procfleet tail\n"
                "  procfleet tail --host 'lab-*' --name 'powershell*'\n"
                "  procfleet tail --samples --format json -n 1000\n"
                "\n"
                "Needs a certificate of role subscribe. JSON is one object a line.\n",
};

/* Where a topic's sequence stands. */
struct topic {
    char name[96];
    uint64_t epoch, seq;
    UT_hash_handle hh;
};

struct tail {
    struct cli *c;
    struct sheet *sheet;
    struct fields fields;
    struct wire_query q; /* the filters */
    bool samples;
    uint64_t left;  /* lines */
    int64_t end_ns; /* monotonic; 0 = never */
    struct topic *topics;
    uint64_t missed; /* messages */
    bool away;       /* the connection is lost at the moment */
    bool was_away;   /* or was: what came meanwhile is missing */
};

static atomic_bool stopped; /* set by the signal thread, which outlives every function */

static void on_stop(void *arg)
{
    (void)arg;
    atomic_store(&stopped, true);
}

/* Counts what is missing between the topic's last message and this one. */
static void follow(struct tail *t, const char *name, uint64_t epoch, uint64_t seq)
{
    struct topic *topic;

    HASH_FIND_STR(t->topics, name, topic);
    if (!topic) {
        if (HASH_COUNT(t->topics) >= TOPICS_MAX) {
            return;
        }
        topic = mem_zalloc(sizeof *topic);
        if (!topic) {
            return;
        }
        memcpy(topic->name, name, strlen(name) + 1);
        HASH_ADD_STR(t->topics, name, topic);
    } else if (topic->epoch == epoch && seq > topic->seq + 1) {
        t->missed += seq - topic->seq - 1;
        fprintf(stderr, "procfleet tail: %llu messages of %s were missed\n",
                (unsigned long long)(seq - topic->seq - 1), name);
    }
    topic->epoch = epoch;
    topic->seq = seq;
}

static bool wanted_process(const struct tail *t, const struct proc_info *p)
{
    return (!t->q.has_pid || p->id.pid == t->q.pid) &&
           (t->q.name.n == 0 || glob_match(t->q.name, p->name));
}

static bool wanted_host(const struct tail *t, const struct wire_update *u)
{
    return t->q.host.n == 0 || glob_match(t->q.host, u->name);
}

static bool wanted_event(const struct tail *t, const struct life_event *ev)
{
    uint32_t kinds = t->q.kinds ? t->q.kinds : LIFE_KINDS_DEFAULT;
    bool of_host = life_is_of_host(ev->kind);

    return ev->kind < 32 && (kinds >> ev->kind & 1) &&
           (of_host ? !t->q.has_pid && t->q.name.n == 0 : wanted_process(t, &ev->info));
}

static enum err put(struct tail *t, const struct sheet_cell *cells)
{
    enum err e = sheet_row(t->sheet, cells);

    t->left--;
    return !e && (t->left == 0 || ferror(stdout)) ? ERR_END : e;
}

static enum err print_update(struct tail *t, const struct wire_update *u)
{
    struct sheet_cell cells[SHEET_COLUMNS];
    const struct wire_answer *a = &u->data;
    enum err e = ERR_OK;

    if (!wanted_host(t, u)) {
        return ERR_OK;
    }
    for (size_t i = 0; i < a->n_events && !e && !t->samples; i++) {
        if (wanted_event(t, &a->events[i].event)) {
            fields_event(&t->fields, cells, a, &a->events[i]);
            e = put(t, cells);
        }
    }
    for (size_t i = 0; i < a->n_rows && !e && t->samples; i++) {
        if (wanted_process(t, &a->rows[i].info)) {
            fields_row(&t->fields, cells, a, &a->rows[i]);
            e = put(t, cells);
        }
    }
    return e;
}

/* One message: topic with its NUL, epoch, sequence, update. */
static enum err take(struct tail *t, const struct buf *message)
{
    struct cur c = cur_make(message->p, message->n);
    size_t n;
    const char *name = cur_cstr(&c, &n);
    uint64_t epoch = cur_u64le(&c), seq = cur_u64le(&c);
    struct wire_update *u;
    enum err e;

    if (c.bad || n >= sizeof((struct topic *)0)->name) {
        return ERR_CORRUPT;
    }
    e = wire_update_decode(&u, c.p, cur_left(&c));
    if (e) {
        return e;
    }
    follow(t, name, epoch, seq);
    e = print_update(t, u);
    wire_update_free(u);
    return e;
}

/* Says when the connection is lost and when it is back. */
static void watch(struct tail *t, const struct net_sub *sub)
{
    bool away = !net_sub_connected(sub);

    if (away && !t->away) {
        t->was_away = true;
        fprintf(stderr,
                "procfleet tail: connection to %s lost; what happens until it is back is "
                "missing here, 'procfleet events' has it\n",
                t->c->settings.events);
    } else if (!away && t->away) {
        fprintf(stderr, "procfleet tail: connected again\n");
    }
    t->away = away;
}

/* Until told to stop, the limit is reached, or the connection is refused. */
static int follow_stream(struct tail *t, struct net_sub *sub)
{
    struct buf message;
    enum err e = ERR_OK;

    buf_init(&message, MESSAGE_MAX);
    while (!atomic_load(&stopped) && (!t->end_ns || os_mono_ns() < t->end_ns) &&
           (!e || e == ERR_TIMEOUT)) {
        watch(t, sub);
        buf_reset(&message);
        e = net_sub_receive(sub, POLL_NS, &message);
        if (!e) {
            e = take(t, &message);
        }
    }
    buf_fini(&message);
    if (!e || e == ERR_TIMEOUT || e == ERR_END) {
        return t->missed || t->was_away ? CLI_PARTIAL : CLI_OK;
    }
    return cli_fail(t->c, CLI_FAILED, "event stream %s: %s", t->c->settings.events, err_text(e));
}

static void choose_fields(struct tail *t)
{
    static const uint8_t shown[] = {M_CPU_TIME, M_WORKING_SET_SIZE, M_THREAD_COUNT};
    struct fields *f = &t->fields;

    fields_add(f, FIELD_TIME, true);
    fields_add(f, FIELD_HOST, true);
    if (!t->samples) {
        fields_add(f, FIELD_KIND, true);
    }
    fields_add(f, FIELD_PID, true);
    if (t->samples) {
        for (size_t i = 0; i < sizeof shown; i++) {
            fields_add_metric(f, shown[i], true);
        }
        for (const struct metric *m = metric_next(NULL); m; m = metric_next(m)) {
            if (m->column) {
                fields_add_metric(f, m->id, false);
            }
        }
        fields_add(f, FIELD_NAME, true);
        fields_add(f, FIELD_START, false);
        fields_add(f, FIELD_CPU_TIME_ORIGIN, false);
        return;
    }
    fields_add(f, FIELD_TID, false);
    fields_add(f, FIELD_PARENT_PID, true);
    fields_add(f, FIELD_EXIT_CODE, true);
    fields_add(f, FIELD_NAME, true);
    fields_add(f, FIELD_DETAIL, true);
    fields_add(f, FIELD_START, false);
    fields_add(f, FIELD_USER, false);
    fields_add(f, FIELD_CREATE_TIME, false);
    fields_add(f, FIELD_EXIT_TIME, false);
    fields_add(f, FIELD_COMMAND_LINE, false);
    fields_add(f, FIELD_PATH, false);
    fields_add(f, FIELD_TEXT, false);
}

static enum err read_options(struct tail *t, struct errmsg *why)
{
    const char *kind = opt_value(t->c->args, "kind"), *span = opt_value(t->c->args, "for");
    int64_t ns;
    enum err e = cli_query(t->c, &t->q, UINT32_MAX, why);

    if (!e && kind) {
        e = fields_kinds(&t->q.kinds, kind, why);
    }
    if (!e && span) {
        if (clk_parse_span(&ns, span) != ERR_OK) {
            return errmsg_set(why, ERR_USAGE, "--for: '%s' is not a time such as 30s", span);
        }
        t->end_ns = os_mono_ns() + ns;
    }
    t->left = t->q.limit == UINT32_MAX ? UINT64_MAX : t->q.limit;
    t->samples = opt_flag(t->c->args, "samples");
    return e;
}

static void free_topics(struct tail *t)
{
    struct topic *topic, *next;

    HASH_ITER(hh, t->topics, topic, next)
    {
        HASH_DEL(t->topics, topic);
        mem_free(topic);
    }
}

static int subscribe(struct tail *t)
{
    struct net_sub_conf conf = {.address = t->c->settings.events, .receive_max = MESSAGE_MAX};
    struct errmsg why = {""};
    struct net_tls *tls = NULL;
    struct net_sub *sub = NULL;
    int code = CLI_FAILED;
    enum err e;

    conf.topic = t->samples ? "sample/" : "event/";
    conf.topic_n = strlen(conf.topic);
    if (link_tls(&tls, t->c, &code) != ERR_OK) {
        return code;
    }
    conf.tls = tls;
    e = net_sub_open(&sub, &conf, &why);
    if (!e) {
        e = net_sub_wait(sub, t->c->settings.timeout_ns, &why);
    }
    if (e) {
        code = cli_fail(t->c, link_exit(e), "event stream %s%s",
                        why.text[0] ? why.text : t->c->settings.events, link_remedy(e, why.text));
    } else {
        code = follow_stream(t, sub);
    }
    net_sub_close(sub);
    net_tls_free(tls);
    return code;
}

static int body(struct cli *c)
{
    struct tail t = {.c = c};
    struct errmsg why = {""};
    int code;

    if (read_options(&t, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    choose_fields(&t);
    if (os_stop_install(on_stop, NULL) != ERR_OK ||
        sheet_begin(&t.sheet, stdout, c->format, true, t.fields.columns, t.fields.n) != ERR_OK) {
        return cli_fail(c, CLI_FAILED, "out of memory");
    }
    code = subscribe(&t);
    sheet_end(t.sheet);
    free_topics(&t);
    return code;
}

int cmd_tail(int argc, char **argv)
{
    return cli_main(&cmd_tail_usage, argc, argv, body);
}
