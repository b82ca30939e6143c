/* `procfleet-agent spool`: the batches that were set aside, for whoever finds out why. The agent
 * may be running: each step is one of the file system (dead_letter.h). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/cmd/agent_cmd.h"
#include "agent/cmd/wire_text.h"
#include "agent/spool/dead_letter.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/text/table.h"

static const struct opt list_opts[] = {
    TABLE_OPTS,
    AGENT_CMD_CONF_OPTS,
};
static const struct opt show_opts[] = {
    {"format", 'f', "text|jsonl", "how it is printed; default text", false},
    AGENT_CMD_CONF_OPTS,
};
static const struct opt change_opts[] = {AGENT_CMD_CONF_OPTS};

static enum err spool_run(const struct opt_args *args, struct errmsg *why);

static const struct opt_action action = {.run = spool_run};

#define COMMAND(verb, text, takes, options, example)                                         \
    {                                                                                        \
        .program = "procfleet-agent spool", .name = verb, .brief = text, .operands = takes,  \
        .opts = options, .n_opts = sizeof options / sizeof *options, .sets = cmd_conf_sets,  \
        .action = &action,                                                                   \
        .examples =                                                                          \
            "  procfleet-agent spool " verb example " --config /etc/procfleet/agent.yaml\n", \
    }

static const struct opt_command list_cmd =
    COMMAND("list", "list the batches that were set aside", NULL, list_opts, "");
static const struct opt_command show_cmd =
    COMMAND("show", "print what is in batches", "N...", show_opts, " 3");
static const struct opt_command retry_cmd =
    COMMAND("retry", "let the agent send batches again, once", "N|all...", change_opts, " all");
static const struct opt_command drop_cmd =
    COMMAND("drop", "remove batches", "N|all...", change_opts, " 3 4");

static const struct opt_command *const subs[] = {&list_cmd, &show_cmd, &retry_cmd, &drop_cmd};

const struct opt_command cmd_spool_opts = {
    .program = "procfleet-agent",
    .name = "spool",
    .brief = "list, show, send again or remove the batches that were set aside",
    .operands = "COMMAND",
    .subs = subs,
    .n_subs = sizeof subs / sizeof *subs,
    .examples =
        "  procfleet-agent spool list --config /etc/procfleet/agent.yaml\n"
        "  procfleet-agent spool show 3 --config /etc/procfleet/agent.yaml\n"
        "  procfleet-agent spool retry all --config /etc/procfleet/agent.yaml\n"
        "\nBatches lie in spool.dir/quarantine for 7 days, 64 MiB of them at most. The agent "
        "sends\n"
        "those of 'retry' again within a minute of its running; once only: refused again, they\n"
        "are listed again. Those of cause 'broken', under which connections broke, it sends again\n"
        "by itself, after a minute and then after twice as long each time.\n",
};

static const struct table_column columns[] = {
    {"number", "NUMBER", TABLE_ID},     {"kept_time", "KEPT", TABLE_TIME},
    {"since_time", "FROM", TABLE_TIME}, {"until_time", "TO", TABLE_TIME},
    {"rows", "ROWS", TABLE_COUNT},      {"events", "EVENTS", TABLE_COUNT},
    {"bytes", "BYTES", TABLE_BYTES},    {"stream", NULL, TABLE_TEXT},
    {"seq", "SEQ", TABLE_ID},           {"retry", "RETRY", TABLE_FLAG},
    {"tries", "TRIES", TABLE_COUNT},    {"cause", "CAUSE", TABLE_WORD},
    {"reason", "REASON", TABLE_TEXT},
};

#define COLUMNS (sizeof columns / sizeof *columns)

static const char *const yields[] = {"SEQ", "TRIES", "FROM", "TO", "EVENTS", "RETRY", "ROWS", NULL};

struct etl_job {
    const char *dir; /* spool.dir */
    bool wide;
    const char *format;
    struct table *sheet;
    struct wire_text text;
};

/* -- list -- */

/* What is in the batch; all absent when it cannot be read. */
static void describe(struct table_cell cells[COLUMNS], const struct dead_letter_batch *q)
{
    struct batch *b;
    int64_t rows = 0;

    if (wire_batch_decode(&b, q->p, q->n)) {
        return;
    }
    for (size_t i = 0; i < b->n_runs; i++) {
        rows += b->runs[i].n_ticks;
    }
    cells[2] = table_number(b->n_ticks > 0, b->n_ticks > 0 ? b->wall_ns[0] : 0);
    cells[3] = table_number(b->n_ticks > 0, b->n_ticks > 0 ? b->wall_ns[b->n_ticks - 1] : 0);
    cells[4] = table_number(true, rows);
    cells[5] = table_number(true, (int64_t)b->n_events);
    wire_batch_free(b);
}

static enum err list_one(struct etl_job *j, uint64_t number, struct errmsg *why)
{
    struct table_cell cells[COLUMNS] = {{0}};
    struct dead_letter_batch q;
    char stream[17];
    uint8_t *bytes;
    enum err e = dead_letter_file_read(&q, &bytes, j->dir, number);

    cells[0] = table_number(true, (int64_t)number);
    if (e == ERR_NOTFOUND) {
        return ERR_OK; /* it went meanwhile */
    }
    if (e) {
        cells[12] = table_string(str_make("its file cannot be read"));
        return table_row(j->sheet, cells) ? errmsg_set(why, ERR_IO, "cannot write") : ERR_OK;
    }
    (void)snprintf(stream, sizeof stream, "%016" PRIx64, q.stream);
    cells[1] = table_number(true, q.when_ns);
    describe(cells, &q);
    cells[6] = table_number(true, (int64_t)q.n);
    cells[7] = table_string(str_make(stream));
    cells[8] = table_number(true, (int64_t)q.seq);
    cells[9] = table_number(q.again, q.again);
    cells[10] = table_number(true, (int64_t)q.tries);
    cells[11] = table_string(str_make(q.cause == DEAD_LETTER_BROKEN ? "broken" : "refused"));
    cells[12] = table_string(str_make(q.why));
    e = table_row(j->sheet, cells);
    mem_free(bytes);
    return e ? errmsg_set(why, e, "cannot write the list") : ERR_OK;
}

static enum err begin_list(struct etl_job *j, struct errmsg *why)
{
    enum table_format how = TABLE_AS_TABLE;
    enum err e;

    if (j->format && strcmp(j->format, "json") == 0) {
        how = TABLE_AS_JSON;
    } else if (j->format && strcmp(j->format, "csv") == 0) {
        how = TABLE_AS_CSV;
    }
    e = table_begin(&j->sheet, stdout, how, false, columns, COLUMNS);
    if (e) {
        return errmsg_set(why, e, "out of memory");
    }
    table_fit(j->sheet, yields, j->wide);
    return ERR_OK;
}

/* -- show, retry, drop -- */

static enum err one_failed(uint64_t number, enum err e, struct errmsg *why)
{
    return errmsg_set(why, e, "batch %" PRIu64 ": %s", number,
                      e == ERR_NOTFOUND ? "there is none; 'procfleet-agent spool list' shows all"
                                        : err_text(e));
}

static enum err show_one(struct etl_job *j, uint64_t number, struct errmsg *why)
{
    struct dead_letter_batch q;
    struct batch *b;
    uint8_t *bytes;
    enum err e = dead_letter_file_read(&q, &bytes, j->dir, number);

    if (e) {
        return one_failed(number, e, why);
    }
    e = wire_batch_decode(&b, q.p, q.n);
    if (e) {
        e = errmsg_set(why, e, "batch %" PRIu64 " cannot be unpacked: %s", number, err_text(e));
    } else {
        wire_text_batch(&j->text, b, q.n);
        wire_batch_free(b);
    }
    mem_free(bytes);
    return e;
}

static enum err retry_one(struct etl_job *j, uint64_t number, struct errmsg *why)
{
    enum err e = dead_letter_file_retry(j->dir, number);

    return e ? one_failed(number, e, why) : ERR_OK;
}

static enum err drop_one(struct etl_job *j, uint64_t number, struct errmsg *why)
{
    enum err e = dead_letter_file_drop(j->dir, number);

    return e ? one_failed(number, e, why) : ERR_OK;
}

struct verb {
    const struct opt_command *usage;
    enum err (*each)(struct etl_job *j, uint64_t number, struct errmsg *why);
    const char *done;
};

static const struct verb verbs[] = {
    {&list_cmd, list_one, NULL},
    {&show_cmd, show_one, NULL},
    {&retry_cmd, retry_one, "the agent sends it again within a minute of its running"},
    {&drop_cmd, drop_one, "removed"},
};

/* -- which -- */

static enum err parse_number(uint64_t *out, const char *word, struct errmsg *why)
{
    if (opt_number(out, word, UINT64_MAX) != ERR_OK) {
        return errmsg_set(why, ERR_USAGE, "'%s' is no number; 'spool list' shows them", word);
    }
    return ERR_OK;
}

static enum err every(struct etl_job *j, const struct verb *v, size_t *done, struct errmsg *why)
{
    uint64_t *numbers = mem_array(DEAD_LETTER_FILES, sizeof *numbers);
    size_t n = 0;
    enum err e =
        numbers ? dead_letter_file_list(j->dir, numbers, DEAD_LETTER_FILES, &n) : ERR_NOMEM;

    if (e) {
        e = errmsg_set(why, e, "cannot list %s/" DEAD_LETTER_DIR ": %s; run as the agent's user",
                       j->dir, err_text(e));
    }
    for (*done = 0; !e && *done < n; (*done)++) {
        e = v->each(j, numbers[*done], why);
    }
    mem_free(numbers);
    return e;
}

static enum err these(struct etl_job *j, const struct verb *v, char **words, size_t n, size_t *done,
                      struct errmsg *why)
{
    enum err e = ERR_OK;

    for (*done = 0; !e && *done < n; (*done)++) {
        uint64_t number = 0;

        e = parse_number(&number, words[*done], why);
        if (!e) {
            e = v->each(j, number, why);
        }
    }
    return e;
}

static enum err run(struct etl_job *j, const struct verb *v, char **words, size_t n,
                    struct errmsg *why)
{
    bool all = n == 0 || (n == 1 && strcmp(words[0], "all") == 0);
    size_t done = 0;
    enum err e = ERR_OK;

    if (v->each == list_one) {
        e = begin_list(j, why);
    }
    if (!e) {
        e = all ? every(j, v, &done, why) : these(j, v, words, n, &done, why);
    }
    if (v->each == list_one) {
        table_end(j->sheet);
    }
    if (!e && done == 0) {
        fputs("nothing is kept: the collector has refused no batch\n", stderr);
    } else if (!e && v->done) {
        printf("%zu %s: %s\n", done, done == 1 ? "batch" : "batches", v->done);
    }
    return e;
}

static enum err spool_run(const struct opt_args *args, struct errmsg *why)
{
    struct agent_conf conf;
    struct etl_job j = {.text = {.to = stdout}};
    const struct verb *v = verbs;
    char **words;
    size_t n = opt_operands(args, &words);
    enum err e = agent_cmd_settings(&conf, args, why);

    if (e) {
        return e;
    }
    while (v->usage != opt_command_of(args)) {
        v++;
    }
    j.dir = conf.spool_dir;
    j.format = opt_value(args, "format");
    j.wide = opt_flag(args, "wide");
    j.text.json = j.format && strcmp(j.format, "jsonl") == 0;
    e = run(&j, v, words, n, why);
    if (!e && (fflush(stdout) || ferror(stdout))) {
        e = errmsg_set(why, ERR_IO, "cannot write to standard output");
    }
    agent_conf_fini(&conf);
    return e;
}
