/* procfleet-collector store check: verifies every checksum, and with --repair mends. */
#include <stdio.h>
#include <string.h>

#include "collector/cmd/collector_cmd_store.h"
#include "collector/ingest/forgotten.h"
#include "collector/store/check/check.h"
#include "collector/subscribe/feed_check.h"
#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/os_owner.h"
#include "common/text/humanize.h"

/* Exit codes of this command. */
enum { CHECK_EXIT_SOUND, CHECK_EXIT_MENDED, CHECK_EXIT_DAMAGED, CHECK_EXIT_FAILED };

static const struct opt opts[] = {
    COLLECTOR_CMD_STORE_CONFIG,
    COLLECTOR_CMD_STORE_SET,
    {"repair", 0, NULL,
     "mend what is damaged: keep what is sound of a file, rebuild the list of segments; the "
     "collector must be stopped",
     false},
    TABLE_OPTS,
    OPT_FORMER("repair", 'r', NULL, false),
};

const struct opt_command cmd_store_check_options = {
    .program = "procfleet-collector store",
    .name = "check",
    .brief = "read all files and verify every checksum; mend what can be mended",
    .opts = opts,
    .n_opts = sizeof opts / sizeof *opts,
    .sets = cmd_conf_sets,
    .examples = "  procfleet-collector store check --config /etc/procfleet/collector.yaml\n"
                "  procfleet-collector store check --repair --set data_dir=/tmp/fleet\n"
                "\n"
                "Exit code: 0 all is sound, 1 something was damaged and is mended, 2 something is\n"
                "damaged (or wrong usage), 3 the check could not be carried out.\n",
};

static const struct table_column columns[] = {
    {"kind", "KIND", TABLE_TEXT},
    {"files", "FILES", TABLE_COUNT},
    {"bytes", "SIZE", TABLE_BYTES},
    {"values", "VALUES", TABLE_COUNT},
    {"damaged_files", "DAMAGED FILES", TABLE_COUNT},
    {"damaged", "DAMAGED VALUES", TABLE_COUNT},
    {"lost", "LOST", TABLE_COUNT},
};

static const char *const yields[] = {"FILES", "VALUES", "SIZE", NULL};

struct run {
    struct table *sheet;
    bool terminal; /* standard error is one: progress is shown there */
    bool shown;
    int64_t told_ns;
};

/* -- on the way -- */

static void clear_progress(struct run *r)
{
    if (r->shown) {
        fputs("\r\033[K", stderr);
        r->shown = false;
    }
}

static void show_progress(void *ctx, uint64_t done_bytes, uint64_t total_bytes)
{
    struct run *r = ctx;
    int64_t now_ns = os_mono_ns();
    struct buf b;

    if (!r->terminal || now_ns - r->told_ns < 200 * CLK_MS) {
        return;
    }
    r->told_ns = now_ns;
    buf_init(&b, 256);
    buf_put_str(&b, "\rchecked ");
    humanize_bytes(&b, (int64_t)done_bytes);
    if (total_bytes >= done_bytes && total_bytes > 0) {
        buf_put_str(&b, " of ");
        humanize_bytes(&b, (int64_t)total_bytes);
    }
    buf_put_str(&b, "\033[K");
    fputs(buf_cstr(&b), stderr);
    fflush(stderr);
    r->shown = true;
    buf_fini(&b);
}

static void note_file(void *ctx, const struct check_file *f)
{
    static const char *const states[] = {
        [CHECK_SOUND] = "sound",
        [CHECK_DAMAGED] = "damaged",
        [CHECK_MENDED] = "mended",
        [CHECK_ASIDE] = "unreadable, put aside as .bad",
        [CHECK_KEPT] = "unreadable, put aside by the collector; remove it when nobody wants to "
                       "look into it any more",
        [CHECK_MISSING] = "files that it names are missing",
    };
    struct run *r = ctx;
    struct buf b;

    clear_progress(r);
    buf_init(&b, 512);
    buf_printf(&b, "%s: %s", f->name, states[f->state]);
    if (f->values >= f->damaged) {
        buf_printf(&b, "; %llu of %llu unreadable", (unsigned long long)f->damaged,
                   (unsigned long long)f->values);
    }
    if (f->lost > 0) {
        buf_printf(&b, ", %llu lost", (unsigned long long)f->lost);
    }
    table_note(r->sheet, str_make(buf_cstr(&b)));
    buf_fini(&b);
}

/* -- the feed's files -- */

struct feed_run {
    struct run *run;
    struct check_count journal, subscriptions, forgotten;
};

static void note_feed(void *ctx, const struct feed_check_file *f)
{
    struct feed_run *x = ctx;
    struct check_count *count = f->journal ? &x->journal : &x->subscriptions;
    char name[96];
    const struct check_file file = {
        .name = name, .state = CHECK_DAMAGED, .values = f->records, .damaged = f->damaged};

    count->files++;
    count->bytes += f->bytes;
    count->values += f->records;
    count->damaged_files += f->damaged > 0;
    count->damaged += f->damaged;
    if (f->damaged) {
        (void)snprintf(name, sizeof name, "feed/%s", f->name);
        note_file(x->run, &file);
    }
}

/* Only read: the collector cuts out by itself what is damaged in them when it starts. */
static enum err check_feed(struct feed_run *x, const struct check_conf *conf, struct errmsg *why)
{
    char *dir = os_path_join(conf->data_dir, "feed");
    enum err e = dir ? feed_check(conf->fio, dir, note_feed, x) : ERR_NOMEM;

    if (e) {
        errmsg_set(why, e, "cannot check %s: %s", dir ? dir : "the feed", err_text(e));
    }
    mem_free(dir);
    return e;
}

/* -- the hosts that are forgotten -- */

/* Only read: the collector sets a damaged one aside when it starts. */
static enum err check_forgotten(struct feed_run *x, const struct check_conf *conf,
                                struct errmsg *why)
{
    const struct check_file file = {
        .name = "forgotten", .state = CHECK_DAMAGED, .values = 1, .damaged = 1};
    uint64_t bytes;
    size_t n;
    enum err e = forgotten_check(conf->fio, conf->data_dir, &bytes, &n);

    if (e && e != ERR_CORRUPT) {
        return errmsg_set(why, e, "cannot check the hosts that are forgotten: %s", err_text(e));
    }
    x->forgotten = (struct check_count){.files = bytes > 0 || e,
                                        .bytes = bytes,
                                        .values = n,
                                        .damaged_files = e == ERR_CORRUPT,
                                        .damaged = e == ERR_CORRUPT};
    if (e) {
        note_file(x->run, &file);
    }
    return ERR_OK;
}

/* -- the table -- */

static enum err row(struct run *r, const char *name, const struct check_count *c)
{
    const struct table_cell cells[] = {
        table_string(str_make(name)),
        table_number(true, (int64_t)c->files),
        table_number(c->bytes > 0, (int64_t)c->bytes),
        table_number(true, (int64_t)c->values),
        table_number(true, (int64_t)c->damaged_files),
        table_number(true, (int64_t)c->damaged),
        table_number(true, (int64_t)c->lost),
    };

    return table_row(r->sheet, cells);
}

static enum err print(struct run *r, const struct check_result *result, const struct feed_run *feed)
{
    bool damaged = result->damaged || feed->journal.damaged || feed->subscriptions.damaged ||
                   feed->forgotten.damaged;
    const struct {
        const char *name;
        const struct check_count *count;
    } others[] = {{"manifest", &result->manifest},         {"log", &result->log},
                  {"indexes", &result->indexes},           {"hosts", &result->hosts},
                  {"catalogue", &result->catalogue},       {"journal", &feed->journal},
                  {"subscriptions", &feed->subscriptions}, {"forgotten", &feed->forgotten}};
    enum err e = ERR_OK;

    for (unsigned k = SEG_RAW; k < SEG_KINDS && !e; k++) {
        e = row(r, seg_kind_name(k), &result->kinds[k]);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others && !e; i++) {
        e = row(r, others[i].name, others[i].count);
    }
    if (damaged) {
        table_note(r->sheet, str_make("damaged: stop the collector and run this with --repair; "
                                      "of the log nothing can be mended, its files go when "
                                      "their batches are sealed; of the feed's files the "
                                      "collector takes out by itself what is damaged, and a "
                                      "list of forgotten hosts it sets aside"));
    } else {
        table_note(r->sheet, str_make(result->mended ? "mended" : "all is sound"));
    }
    return e;
}

static int fail(enum err e, const char *text)
{
    return collector_cmd_complain(&cmd_store_check_options, e, text) == COLLECTOR_CMD_USAGE
               ? CHECK_EXIT_DAMAGED
               : CHECK_EXIT_FAILED;
}

static int check_it(const struct check_conf *conf, struct run *r)
{
    struct check_result result = {.damaged = false};
    struct feed_run feed = {.run = r};
    struct errmsg why = {""};
    enum err e = check_store(&result, conf, &why);

    e = e ? e : check_feed(&feed, conf, &why);
    e = e ? e : check_forgotten(&feed, conf, &why);
    clear_progress(r);
    if (!e) {
        e = print(r, &result, &feed);
        result.damaged |=
            feed.journal.damaged || feed.subscriptions.damaged || feed.forgotten.damaged;
    }
    table_end(r->sheet);
    if (e) {
        return fail(e, why.text);
    }
    return result.damaged  ? CHECK_EXIT_DAMAGED
           : result.mended ? CHECK_EXIT_MENDED
                           : CHECK_EXIT_SOUND;
}

static int run(const struct opt_args *a)
{
    const char *sets[OPT_MANY_MAX];
    size_t n_sets = opt_values(a, "set", sets, OPT_MANY_MAX);
    struct collector_conf settings;
    struct check_conf conf = {.fio = fio_os(), .repair = opt_flag(a, "repair")};
    struct run r = {.terminal = os_is_terminal(2)};
    struct errmsg why = {""};
    enum err e = collector_conf_load(&settings, opt_value(a, "config"), sets, n_sets, &why);
    int code;

    if (!e) {
        e = collector_cmd_table(&r.sheet, a, columns, sizeof columns / sizeof *columns, yields,
                                &why);
    } else if (e != ERR_NOMEM) {
        e = ERR_USAGE; /* also a file that is not there */
    }
    if (!e && conf.repair) {
        e = os_owner_check(settings.data_dir, &why);
    }
    if (e) {
        code = fail(e, why.text);
    } else {
        conf.data_dir = settings.data_dir;
        conf.on_file = note_file;
        conf.on_progress = show_progress;
        conf.ctx = &r;
        code = check_it(&conf, &r);
    }
    collector_conf_fini(&settings);
    return code;
}

int collector_cmd_store_check(int argc, char **argv)
{
    return collector_cmd_with_options(&cmd_store_check_options, argc - 1, argv + 1, run);
}
