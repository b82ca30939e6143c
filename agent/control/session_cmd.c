/* What trace sessions this host has, and what its agent collects: shown, and changed for as long as
 * the agent runs. Settings stay what they are. */
#include "agent/control/session_cmd.h"

#include <stdio.h>
#include <string.h>

#include "agent/conf/agent_conf.h"
#include "agent/control/control.h"
#include "agent/control/session_list.h"
#include "common/base/clk.h"
#include "common/base/glob.h"
#include "common/text/table.h"
#include "common/text/value_text.h"

#define FOR_NS (60 * CLK_S)

enum { EXIT_DONE, EXIT_FAILED, EXIT_USAGE };

static const struct opt list_opts[] = {
    {"format", 'f', "table|json|csv|jsonl", "how to print", false},
};
#define SESSION_CONFIG                                                            \
    {                                                                             \
        "config", 'c', "FILE", "the agent's settings, for their state_dir", false \
    }
static const struct opt asking_opts[] = {SESSION_CONFIG};
static const struct opt level_opts[] = {
    SESSION_CONFIG,
    {"for", 0, "SPAN", "for so long, at most a day; default 60s", false},
};

#define SESSION_COMMAND(verb, words, text, options, example)                                       \
    {                                                                                              \
        .program = SESSION_CMD_PROGRAM " session", .name = verb, .operands = words, .brief = text, \
        .opts = options, .n_opts = sizeof options / sizeof *options,                               \
        .examples = "  procfleet-agent session " verb example "\n",                                \
    }

static const struct opt_command list_cmd = SESSION_COMMAND(
    "list", NULL, "the trace sessions of this host, whoever has started them", list_opts, "");
static const struct opt providers_opts[] = {
    {"of", 0, "SESSION", "only those that sessions of this name, or pattern, have turned on",
     false},
    {"format", 'f', "table|json|csv|jsonl", "how to print", false},
};
static const struct opt_command providers_cmd =
    SESSION_COMMAND("providers", "[PROVIDER]",
                    "which providers are turned on, by which session, and what that has lost; "
                    "PROVIDER is a name, a pattern or a GUID",
                    providers_opts, " 'Microsoft-Windows-Kernel-*' --of 'procfleet*'");
static const struct opt_command flags_cmd = SESSION_COMMAND(
    "flags", "[CHANGE]",
    "the kernel's kinds of events that the agent may collect; '+NAME,-NAME' changes them",
    asking_opts, "\n  procfleet-agent session flags +network,-cswitch");
static const struct opt_command add_cmd = SESSION_COMMAND(
    "add", "PROVIDER...", "also this provider, with its filters, written as in etw.providers",
    asking_opts,
    " Microsoft-Windows-DotNETRuntime:4:0x1#1+2\n"
    "  procfleet-agent session add Microsoft-Windows-DNS-Client#3008 "
    "exe=chrome.exe+edge.exe pid=1188 where=QueryType=28");
static const struct opt_command remove_cmd = SESSION_COMMAND(
    "remove", "PROVIDER", "this provider no more", asking_opts, " Microsoft-Windows-DotNETRuntime");
static const struct opt_command stacks_cmd = SESSION_COMMAND(
    "stacks", "on|off", "record the stacks of context switches and samples", asking_opts, " on");
static const struct opt_command level_cmd = SESSION_COMMAND(
    "level", "L0|L1|L2|L3|L4", "collect at this level for a time, also above sampler.level_max",
    level_opts, " L3 --for 5min");

static const struct opt_command *const subs[] = {
    &list_cmd, &providers_cmd, &flags_cmd, &add_cmd, &remove_cmd, &stacks_cmd, &level_cmd,
};

const struct opt_command session_cmd_opts = {
    .program = SESSION_CMD_PROGRAM,
    .name = "session",
    .brief = "what trace sessions there are, and what the agent here collects",
    .operands = "COMMAND",
    .subs = subs,
    .n_subs = sizeof subs / sizeof *subs,
    .examples = "  procfleet-agent session list\n"
                "  procfleet-agent session providers\n"
                "  procfleet-agent session level L3 --for 5min\n"
                "\nAll but 'list' and 'providers' ask the running agent, as an administrator\n"
                "(Linux: root or its user, and with its --config). What was changed lasts\n"
                "until it ends.\n"
                "Exit codes: 0 done, 1 refused or not there, 2 usage\n",
};

static int session_fail(enum err e, const char *text)
{
    fprintf(stderr, "procfleet-agent: %s\n", text[0] ? text : err_text(e));
    return e == ERR_USAGE || e == ERR_INVALID ? EXIT_USAGE : EXIT_FAILED;
}

/* -- list -- */

static const struct table_column columns[] = {
    {"name", "NAME", TABLE_TEXT},
    {"mode", "MODE", TABLE_TEXT},
    {"buffers", "BUFFERS", TABLE_COUNT},
    {"max_buffers", "MOST", TABLE_COUNT},
    {"buffer_bytes", "SIZE", TABLE_BYTES},
    {"events_lost", "EVENTS_LOST", TABLE_COUNT},
    {"buffers_lost", "BUFFERS_LOST", TABLE_COUNT},
    {"whose", "WHOSE", TABLE_TEXT},
    {"file", "FILE", TABLE_TEXT},
};

#define COLUMNS (sizeof columns / sizeof *columns)

static const enum table_format session_formats[] = {TABLE_AS_TABLE, TABLE_AS_JSON, TABLE_AS_CSV,
                                                    TABLE_AS_JSONL};

struct session_sheet {
    struct table *table;
    unsigned system; /* loggers */
    enum err e;
};

static void session_row(void *ctx, const struct session_list_row *r)
{
    struct session_sheet *s = ctx;
    const struct table_cell cells[COLUMNS] = {
        table_string(str_make(r->name)),
        table_string(str_make(r->mode)),
        table_count(r->buffers),
        table_count(r->max_buffers),
        table_count((uint64_t)r->buffer_kb * 1024),
        table_count(r->events_lost),
        table_count(r->buffers_lost),
        table_string(str_make(r->ours ? "procfleet" : "")),
        table_string(str_make(r->file)),
    };

    s->system += r->system;
    s->e = s->e ? s->e : table_row(s->table, cells);
}

static int session_print(const struct opt_args *args)
{
    struct session_sheet s = {.e = ERR_OK};
    struct errmsg why = {""};
    enum err e =
        table_begin(&s.table, stdout, session_formats[opt_word(args, &list_cmd, "format", 0)],
                    false, columns, COLUMNS);

    if (!e) {
        e = session_list(session_row, &s, &why);
        e = e ? e : s.e;
    }
    if (!e) {
        table_end(s.table);
    }
    return e ? session_fail(e, why.text) : EXIT_DONE;
}

/* -- providers -- */

static const struct table_column provider_columns[] = {
    {"provider", "PROVIDER", TABLE_TEXT},
    {"guid", NULL, TABLE_TEXT},
    {"session", "SESSION", TABLE_TEXT},
    {"level", "LEVEL", TABLE_ID},
    {"keywords_any", "ANY", TABLE_HEX},
    {"keywords_all", "ALL", TABLE_HEX},
    {"processes", "PROCESSES", TABLE_COUNT},
    {"session_events_lost", "SESSION_LOST", TABLE_ALARM},
    {"session_buffers_lost", "BUFFERS", TABLE_ALARM},
    {"whose", "WHOSE", TABLE_TEXT},
};

#define PROVIDER_COLUMNS (sizeof provider_columns / sizeof *provider_columns)

struct session_turned_on {
    struct table *table;
    struct str (*name)(const uint8_t guid[16]);
    struct str provider, session; /* patterns; empty: all */
    enum err e;
};

static void session_provider_row(void *ctx, const struct session_provider_row *r)
{
    struct session_turned_on *s = ctx;
    struct str name = s->name(r->guid), session = str_make(r->session);
    char text[UUID_TEXT];
    struct table_cell cells[PROVIDER_COLUMNS];

    (void)value_text_guid(text, r->guid);
    if ((s->provider.n && !glob_match(s->provider, name) &&
         !glob_match(s->provider, str_make(text))) ||
        (s->session.n && !glob_match(s->session, session))) {
        return;
    }
    cells[0] = table_string(name.n ? name : str_make(text));
    cells[1] = table_string(str_make(text));
    cells[2] = table_string(session);
    cells[3] = table_count(r->level);
    cells[4] = table_number(true, (int64_t)r->any);
    cells[5] = table_number(r->all != 0, (int64_t)r->all);
    cells[6] = table_count(r->processes);
    cells[7] = table_count(r->events_lost);
    cells[8] = table_count(r->buffers_lost);
    cells[9] = table_string(str_make(r->ours ? "procfleet" : ""));
    s->e = s->e ? s->e : table_row(s->table, cells);
}

static int session_print_providers(const struct opt_args *args,
                                   struct str (*name)(const uint8_t guid[16]))
{
    struct session_turned_on s = {.name = name, .session = str_make(opt_value(args, "of"))};
    struct errmsg why = {""};
    char **words;
    size_t n = opt_operands(args, &words);
    enum err e =
        table_begin(&s.table, stdout, session_formats[opt_word(args, &providers_cmd, "format", 0)],
                    false, provider_columns, PROVIDER_COLUMNS);

    s.provider = str_make(n ? words[0] : NULL);
    if (!e) {
        e = session_list_providers(session_provider_row, &s, &why);
        e = e ? e : s.e;
    }
    if (!e) {
        table_end(s.table);
    }
    return e ? session_fail(e, why.text) : EXIT_DONE;
}

/* -- asking the agent -- */

/* "+network,-cswitch" */
static enum err session_flags(struct control_wish *w, const char *text, struct errmsg *why)
{
    enum err e = ERR_OK;

    w->what = CONTROL_FLAGS;
    while (!e && *text) {
        size_t n = strcspn(text, ",");
        uint32_t flags = 0;

        if (*text != '+' && *text != '-') {
            return errmsg_set(why, ERR_USAGE, "'%s': +NAME or -NAME is expected, as in +network",
                              text);
        }
        e = control_flags(&flags, text + 1, n - 1, why);
        w->flags_on |= *text == '+' ? flags : 0;
        w->flags_off |= *text == '-' ? flags : 0;
        text += n + (text[n] == ',');
    }
    return e ? ERR_USAGE : ERR_OK;
}

static enum err session_level(struct control_wish *w, const struct opt_args *args, const char *word,
                              struct errmsg *why)
{
    const char *span = opt_value(args, "for");

    w->what = CONTROL_LEVEL;
    w->level = (unsigned)(word[1] - '0');
    w->span_ns = FOR_NS;
    if (span && (clk_parse_span(&w->span_ns, span) || w->span_ns <= 0)) {
        return errmsg_set(why, ERR_USAGE, "--for: '%s' is not a time such as 60s or 5min", span);
    }
    if (w->span_ns > CONTROL_SPAN_MAX) {
        return errmsg_set(why, ERR_USAGE, "--for: '%s' is more than a day", span);
    }
    return ERR_OK;
}

static enum err session_wish(struct control_wish *w, const struct opt_command *what,
                             const struct opt_args *args, struct errmsg *why)
{
    char **words;
    size_t n = opt_operands(args, &words);

    if (what == &flags_cmd) {
        return n > 0 ? session_flags(w, words[0], why) : ERR_OK;
    }
    if (what == &level_cmd) {
        return session_level(w, args, words[0], why);
    }
    if (what == &stacks_cmd) {
        w->what = CONTROL_STACKS;
        w->on = strcmp(words[0], "on") == 0;
        return ERR_OK;
    }
    w->what = what == &add_cmd ? CONTROL_ADD : CONTROL_REMOVE;
    for (size_t i = 0, at = 0; i < n; i++) {
        int k = snprintf(w->provider + at, sizeof w->provider - at, "%s%s", i ? " " : "", words[i]);

        at += (size_t)k;
        if (k < 0 || at >= sizeof w->provider) {
            return errmsg_set(why, ERR_USAGE, "such a provider is too long");
        }
    }
    return ERR_OK;
}

static int session_ask(const struct opt_command *what, const struct opt_args *args)
{
    struct control_wish wish = {.what = CONTROL_STATE};
    struct errmsg why = {""};
    struct agent_conf conf;
    struct buf text;
    enum err e = session_wish(&wish, what, args, &why);

    e = e ? e : agent_conf_load(&conf, opt_value(args, "config"), NULL, 0, &why);
    if (e) {
        return session_fail(e, why.text);
    }
    buf_init(&text, CONTROL_LINE);
    e = control_ask(conf.state_dir, &wish, &text, &why);
    if (!e) {
        puts(buf_cstr(&text));
    }
    buf_fini(&text);
    agent_conf_fini(&conf);
    return e ? session_fail(e == ERR_REFUSED ? ERR_IO : e, why.text) : EXIT_DONE;
}

int session_cmd(int argc, char **argv, struct str (*name)(const uint8_t guid[16]))
{
    struct errmsg why = {""};
    struct opt_args *args;
    struct buf page;
    enum err e;
    int code = EXIT_USAGE;
    const struct opt_command *chosen = opt_choose(&session_cmd_opts, argc, argv, &code);

    if (!chosen) {
        return code;
    }
    e = opt_parse(&args, chosen, argc - 1, argv + 1, &why);
    if (e) {
        return session_fail(e, why.text);
    }
    if (opt_flag(args, "help")) {
        buf_init(&page, 64u << 10);
        opt_print_help(&page, chosen);
        fputs(buf_cstr(&page), stdout);
        buf_fini(&page);
        code = EXIT_DONE;
    } else {
        code = chosen == &list_cmd        ? session_print(args)
               : chosen == &providers_cmd ? session_print_providers(args, name)
                                          : session_ask(chosen, args);
    }
    opt_free(args);
    return code;
}
