#include "collector/cli/rows.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "common/os/uuid.h"
#include "common/wire/wire_boots.h"

#define SINCE_NS (30 * 86400 * CLK_S)

static const struct opt opts[] = {
    CLI_OPT_HOST,
    CLI_OPT_LABEL,
    {"where", 0, "EXPR", "only hosts that fulfil it: 'memory < 32GiB and label.rack == \"3\"'", 0},
    {"since", 0, "TIME",
     "boots that reached then or later: 7d, yesterday, '2026-11-21 09:00' (30d)", 0},
    {"until", 0, "TIME", "boots that began before; as since", 0},
    {"limit", 'n', "N", "boots shown (1000)", 0},
    CLI_OPTS_ANSWER,
    CLI_OPTS_CONNECTION,
};

static const struct opt_command usage = {
    .program = "procfleet",
    .name = "boots",
    .brief = "when hosts started, for how long they were up, and how that ended",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .examples =
        "  procfleet boots --host 'lab-*'\n"
        "  procfleet boots --since 7d --format json\n"
        "\n"
        "ENDED: clean (the agent said good-bye and did not come again in this boot), cut (it did\n"
        "not: the agent was killed, the system stopped at once or lost its power; what agents\n"
        "send does not tell which), silent (the newest boot, and nothing is heard), - (it goes\n"
        "on). UP is to the last data. AGENT_AFTER is from the system's start to the first data.\n"
        "Recordings are left out.\n",
};

static const struct table_column columns[] = {
    {"host", "HOST", TABLE_TEXT},
    {"booted_time", "BOOTED", TABLE_TIME},
    {"up_ns", "UP", TABLE_NS},
    {"ended", "ENDED", TABLE_WORD},
    {"last_time", "LAST_DATA", TABLE_TIME},
    {"agent_after_ns", "AGENT_AFTER", TABLE_NS},
    {"first_time", NULL, TABLE_TIME},
    {"boot", NULL, TABLE_TEXT},
};

#define COLUMNS (sizeof columns / sizeof *columns)

static enum err boots_page(void *ctx, struct table *t, const struct wire_answer *a)
{
    static const char *const ends[WIRE_BOOT_ENDS] = {"", "silent", "clean", "cut"};
    enum err e = ERR_OK;

    (void)ctx;
    for (size_t i = 0; a->boots && !e && i < a->boots->n; i++) {
        const struct wire_boot *b = &a->boots->list[i];
        bool known = b->booted_ns != 0;
        char id[UUID_TEXT];
        const struct table_cell cells[COLUMNS] = {
            table_string(a->hosts[b->host].name),
            table_number(known, b->booted_ns),
            table_number(known, clk_sub(b->last_ns, b->booted_ns)),
            table_string(str_make(ends[b->end])),
            table_number(true, b->last_ns),
            table_number(known, clk_sub(b->first_ns, b->booted_ns)),
            table_number(true, b->first_ns),
            table_string(str_make(uuid_format(id, &b->boot))),
        };

        e = table_row(t, cells);
    }
    return e;
}

static int boots_body(struct cli *c)
{
    static const char *const yields[] = {"AGENT_AFTER", "LAST_DATA", NULL};
    const struct rows_table t = {.columns = columns,
                                 .n = COLUMNS,
                                 .yields = yields,
                                 .page = boots_page,
                                 .none = "no boot is known; they are noted from the first data on"};
    struct wire_query q;
    struct errmsg why = {""};

    if (cli_query(c, &q, 1000, &why) != ERR_OK) {
        return cli_fail(c, CLI_USAGE, "%s", why.text);
    }
    if (!q.since_ns) {
        q.since_ns = clk_sub(os_utc_ns(), SINCE_NS);
    }
    return rows_table(c, RPC_QUERY_BOOTS, &q, &t);
}

const struct cli_command cmd_boots = {&usage, boots_body, CLI_NEEDS_COLLECTOR, NULL};
