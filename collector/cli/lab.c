#include "collector/cli/lab.h"

#include <stdio.h>
#include <string.h>

#include "collector/cli/run_fetch.h"
#include "collector/cli/times.h"
#include "common/base/clk.h"
#include "common/base/glob.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"
#include "common/wire/wire_run.h"

#define LOOK_NS     (500 * CLK_MS) /* at a directory; a collector four times as seldom */
#define HISTORY_MAX 128u           /* runs asked for */

static enum err lab_fail(const struct cli *c, int *code, enum err e, const char *what)
{
    *code =
        cli_fail(c, e == ERR_USAGE ? CLI_USAGE : CLI_FAILED, "%s", what[0] ? what : err_text(e));
    return e;
}

void lab_close(struct lab *x)
{
    compare_free(x->answer);
    run_set_destroy(x->set);
    mem_free(x->a.runs);
    mem_free(x->b.runs);
    mem_free(x->history);
    x->answer = NULL;
    x->set = NULL;
    x->a.runs = x->b.runs = x->history = NULL;
}

/* -- run files of a directory -- */

/* Room for as many pointers as the set has runs. */
static const struct run_file **room_of(const struct run_set *set)
{
    const struct run_file *const *all;
    size_t n = run_set_list(set, &all);

    return mem_array(n ? n : 1, sizeof(void *));
}

static enum err dir_find(struct lab *x, struct lab_side *side, unsigned sections,
                         struct errmsg *why)
{
    side->runs = room_of(x->set);
    return side->runs ? run_set_find(x->set, side->patterns, side->n_patterns, false, sections,
                                     side->runs, &side->n_runs, why)
                      : ERR_NOMEM;
}

/* a's runs and those before them, for the noise floor: all of its names that are not b's. */
static enum err dir_open(struct lab *x, const char *dir, unsigned sections, struct errmsg *why)
{
    enum err e = run_set_add_dir(x->set, dir, why);

    if (!e) {
        e = dir_find(x, &x->a, sections, why);
    }
    if (!e) {
        e = dir_find(x, &x->b, sections, why);
    }
    if (!e) {
        x->history = room_of(x->set);
        e = x->history ? run_set_find(x->set, x->a.patterns, x->a.n_patterns, true, sections,
                                      x->history, &x->n_history, why)
                       : ERR_NOMEM;
    }
    return e;
}

/* -- run files of a collector -- */

struct fetch {
    struct run_fetch at;
    struct lab *x;
};

/* A run that has no file yet: it is told, and not judged. */
static enum err fetch_stub(struct run_file **out, const struct wire_run *run)
{
    struct run_file *r = mem_zalloc(sizeof *r);

    if (!r) {
        return ERR_NOMEM;
    }
    arena_init(&r->memory, 1u << 16);
    r->head.id = run->id;
    r->head.state = run->state <= WIRE_RUN_CLOSING ? run->state : (uint8_t)RUN_CLOSING;
    r->head.begin_ns = run->began_ns;
    r->head.end_ns = run->ended_ns > run->began_ns ? run->ended_ns : run->began_ns;
    r->head.name = run->name;
    r->head.name.p = arena_dup(&r->memory, run->name.p, run->name.n);
    *out = r;
    return r->head.name.p ? ERR_OK : ERR_NOMEM;
}

static enum err fetch_run(struct fetch *f, const struct wire_run *run, const struct run_file **out)
{
    const struct run_file *const *all;
    size_t n = run_set_list(f->x->set, &all);
    char id[UUID_TEXT], name[WIRE_RUN_NAME_MAX + UUID_TEXT + 2];
    struct run_file *file = NULL;
    struct buf bytes;
    enum err e;

    for (size_t i = 0; i < n; i++) {
        if (memcmp(&all[i]->head.id, &run->id, sizeof run->id) == 0) {
            *out = all[i];
            return ERR_OK;
        }
    }
    if (!run->revision) {
        e = fetch_stub(&file, run);
    } else {
        buf_init(&bytes, RUN_FILE_MAX);
        (void)snprintf(name, sizeof name, "%.*s@%s", (int)run->name.n, run->name.p,
                       uuid_format(id, &run->id));
        e = run_fetch_file(&f->at, str_make(name), &bytes);
        e = e ? e : run_file_decode(&file, bytes.p, bytes.n, RUN_FILE_ALL, &f->at.why);
        buf_fini(&bytes);
    }
    if (e) {
        run_file_free(file);
        return e;
    }
    *out = file;
    return run_set_add(f->x->set, file);
}

/* The runs of one pattern, the oldest first, behind those that are there. */
static enum err fetch_pattern(struct fetch *f, struct str pattern, uint32_t limit,
                              const struct run_file ***runs, size_t *n)
{
    const struct wire_runs_ask ask = {.name = pattern, .limit = limit};
    struct wire_runs *list;
    size_t cap = *n;
    enum err e = run_fetch_call(&f->at, RPC_QUERY_RUNS, WIRE_RUN_ASK, &ask, WIRE_RUN_LIST, &list);

    if (e) {
        return e;
    }
    e = VEC_ROOM(runs, &cap, *n + list->n, (size_t)LAB_PATTERNS_MAX * WIRE_RUN_LIST_MAX);
    for (size_t i = list->n; i-- > 0 && !e;) {
        e = fetch_run(f, &list->runs[i], &(*runs)[*n]);
        *n += !e;
    }
    wire_run_free(list);
    return e;
}

/* "host=lab-1 since=14:00 until=14:10"; hosts may come again. The texts stay in `words`. */
static enum err range_parse(struct wire_run_get *out, struct str *hosts, char *words, bool local,
                            struct errmsg *why)
{
    int64_t now_ns = os_utc_ns();
    struct errmsg wrong = {""};

    *out = (struct wire_run_get){.hosts = hosts};
    while (*words) {
        char *word = words + strspn(words, " \t"), *end = word + strcspn(word, " \t");
        char *value = strchr(word, '=');
        enum err e = value && value < end ? ERR_OK : ERR_USAGE;

        words = *end ? end + 1 : end;
        *end = '\0';
        if (!*word) {
            break;
        }
        value = e ? word : value + 1;
        if (!e && strncmp(word, "host=", 5) == 0 && out->n_hosts < WIRE_RUN_PATTERNS) {
            hosts[out->n_hosts++] = str_make(value);
        } else if (!e && strncmp(word, "since=", 6) == 0) {
            e = times_parse(&out->since_ns, value, now_ns, local, &wrong);
        } else if (!e && strncmp(word, "until=", 6) == 0) {
            e = times_parse(&out->until_ns, value, now_ns, local, &wrong);
        } else {
            e = ERR_USAGE;
        }
        if (e) {
            return errmsg_set(why, ERR_USAGE,
                              "'%s': a range is 'host=NAME since=TIME until=TIME'%s%s", word,
                              wrong.text[0] ? "; " : "", wrong.text);
        }
    }
    out->until_ns = out->until_ns ? out->until_ns : now_ns;
    return out->since_ns ? ERR_OK
                         : errmsg_set(why, ERR_USAGE, "a range begins somewhere: since=TIME");
}

static enum err fetch_range(struct fetch *f, struct lab_side *side)
{
    struct str hosts[WIRE_RUN_PATTERNS];
    struct wire_run_part *part;
    struct wire_run_get ask;
    struct run_file *file;
    char words[1024];
    enum err e;

    (void)snprintf(words, sizeof words, "%s", side->range);
    side->runs = mem_array(1, sizeof(void *));
    e = side->runs ? range_parse(&ask, hosts, words, f->at.c->settings.local, &f->at.why)
                   : ERR_NOMEM;
    e = e ? e
          : run_fetch_call(&f->at, RPC_QUERY_RUN_GET, WIRE_RUN_FETCH, &ask, WIRE_RUN_PART, &part);
    if (e) {
        return e;
    }
    e = run_file_decode(&file, part->data.p, part->data.n, RUN_FILE_ALL, &f->at.why);
    wire_run_free(part);
    if (!e) {
        side->runs[side->n_runs++] = file;
        e = run_set_add(f->x->set, file);
    }
    return e;
}

static enum err fetch_side(struct fetch *f, struct lab_side *side)
{
    enum err e = side->range ? fetch_range(f, side) : ERR_OK;

    for (size_t i = 0; i < side->n_patterns && !e; i++) {
        e = fetch_pattern(f, str_make(side->patterns[i]), COMPARE_RUNS_MAX, &side->runs,
                          &side->n_runs);
    }
    return e;
}

/* What hosts of one class share at this collector; one of before does not say. */
static enum err fetch_class(struct fetch *f)
{
    const struct wire_runs_ask ask = {.limit = 1};
    struct wire_runs *list;
    size_t n = 0;
    enum err e = f->x->class_keys[0] ? ERR_END
                                     : run_fetch_call(&f->at, RPC_QUERY_RUNS, WIRE_RUN_ASK, &ask,
                                                      WIRE_RUN_LIST, &list);

    if (e) {
        return e == ERR_END ? ERR_OK : e;
    }
    for (size_t i = 0; i < list->n_class && n < HOST_CLASS_KEYS; i++) {
        f->x->class_keys[n] = host_class_key(list->class_keys[i]);
        n += f->x->class_keys[n] != NULL;
    }
    wire_run_free(list);
    return ERR_OK;
}

static enum err fetch_all(struct fetch *f)
{
    struct lab *x = f->x;
    enum err e = fetch_class(f);

    e = e ? e : fetch_side(f, &x->a);
    e = e ? e : fetch_side(f, &x->b);
    for (size_t i = 0; i < x->a.n_patterns && !e; i++) {
        struct str name = {x->a.patterns[i], strcspn(x->a.patterns[i], "@")};

        e = fetch_pattern(f, name, HISTORY_MAX, &x->history, &x->n_history);
    }
    return e;
}

static enum err collector_open(struct lab *x, struct cli *c, int *code, struct errmsg *why)
{
    struct fetch f = {.at = {.c = c}, .x = x};
    enum err e = cli_client_open(&f.at.client, c, code);

    if (e) {
        return ERR_CLOSED; /* told */
    }
    e = fetch_all(&f);
    cli_client_close(f.at.client);
    if (e && f.at.code) {
        *code = run_fetch_fail(&f.at, e);
        return ERR_CLOSED;
    }
    *why = f.at.why;
    return e;
}

/* -- both -- */

static bool side_is_open(const struct lab_side *side)
{
    for (size_t i = 0; i < side->n_runs; i++) {
        if (side->runs[i]->head.state <= RUN_CLOSING) {
            return true;
        }
    }
    return side->n_runs == 0;
}

/* Errors: ERR_CLOSED (told, *code is set) and others */
static enum err sides_find(struct lab *x, struct cli *c, unsigned sections, int *code,
                           struct errmsg *why)
{
    const char *dir = opt_value(c->args, "runs");
    enum err e = run_set_create(&x->set);

    if (e) {
        return e;
    }
    return dir ? dir_open(x, dir, sections, why) : collector_open(x, c, code, why);
}

static void side_text(struct lab_side *side)
{
    size_t n = 0;

    if (side->range) {
        (void)snprintf(side->text, sizeof side->text, "%s", side->range);
    }
    for (size_t i = 0; i < side->n_patterns && n < sizeof side->text; i++) {
        n += (size_t)snprintf(side->text + n, sizeof side->text - n, "%s%s", i ? ", " : "",
                              side->patterns[i]);
    }
}

/* Names that no run has, by their own: a verdict says only that there are too few. */
static void side_missing(const struct cli *c, const struct lab_side *side)
{
    for (size_t i = 0; i < side->n_patterns; i++) {
        struct str name = {side->patterns[i], strcspn(side->patterns[i], "@")};
        bool there = false;

        for (size_t k = 0; k < side->n_runs && !there; k++) {
            there = glob_match(name, side->runs[k]->head.name);
        }
        if (!there) {
            cli_tell(c, "there is no run '%s'", side->patterns[i]);
        }
    }
}

static void ask_fill(struct lab *x, const struct cli *c)
{
    size_t a = x->a.n_runs, b = x->b.n_runs, h = x->n_history, max = COMPARE_RUNS_MAX;

    x->ask.a = x->a.runs + (a > max ? a - max : 0); /* the newest */
    x->ask.b = x->b.runs + (b > max ? b - max : 0);
    x->ask.history = x->history + (h > max ? h - max : 0);
    x->ask.n_a = a < max ? a : max;
    x->ask.n_b = b < max ? b : max;
    x->ask.n_history = h < max ? h : max;
    x->ask.pair = cli_word(c, "pair", COMPARE_PAIR_HOST);
    x->ask.replicate = cli_word(c, "replicate", COMPARE_REPLICATE_RUN);
    x->ask.overlap = opt_flag(c->args, "overlap");
    x->ask.assume_stable = opt_flag(c->args, "assume-stable");
    x->ask.failed = opt_flag(c->args, "all");
    x->ask.class_keys = x->class_keys[0] ? x->class_keys : NULL;
    x->print = (struct compare_print){.a = x->a.text, .b = x->b.text};
}

enum err lab_open(struct lab *x, struct cli *c, int64_t wait_ns, unsigned sections, int *code)
{
    const char *class = opt_value(c->args, "class");
    int64_t end_ns = os_mono_ns() + wait_ns;
    struct errmsg why = {""};
    enum err e;

    side_text(&x->a);
    side_text(&x->b);
    if (class && host_class_parse(x->class_keys, class, &why) != ERR_OK) {
        *code = cli_fail(c, CLI_USAGE, "--class: %s", why.text);
        return ERR_CLOSED;
    }
    for (;;) {
        e = sides_find(x, c, sections, code, &why);
        if (e == ERR_CLOSED) {
            return e;
        }
        if (e) {
            return lab_fail(c, code, e, why.text);
        }
        if ((!side_is_open(&x->a) && !side_is_open(&x->b)) || os_mono_ns() >= end_ns) {
            break;
        }
        lab_close(x);
        x->a.n_runs = x->b.n_runs = x->n_history = 0;
        os_sleep_ns(opt_value(c->args, "runs") ? LOOK_NS : 4 * LOOK_NS);
    }
    side_missing(c, &x->a);
    side_missing(c, &x->b);
    ask_fill(x, c);
    return ERR_OK;
}

enum err lab_compare(struct lab *x, struct cli *c, int *code)
{
    enum err e = compare_runs(&x->answer, &x->ask);

    x->print.c = x->answer;
    return e ? lab_fail(c, code, e, e == ERR_FULL ? "these are more data than can be compared" : "")
             : ERR_OK;
}

int lab_run(struct cli *c, int (*body)(struct cli *c))
{
    return opt_value(c->args, "runs") ? body(c) : cli_connected(c, body);
}
