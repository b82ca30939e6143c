/* procfleet-etl: recorded traces looked at on the spot, without a collector. Here is which command
 * is called and what the exit code says; a command is a file beside this one (etl_commands.h).
 * Readers of hostile files do not belong into a service: `procfleet-agent etl` starts this program.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>

#include "agent/control/session_cmd.h"
#include "agent/etl/etl_commands.h"
#include "agent/etl/schema/etl_known.h"
#include "agent/record/record_cmd.h"
#include "common/conf/opt_program.h"
#include "common/log/log.h"
#include "common/os/os.h"

enum { EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_PARTIAL = OPT_EXIT_PARTIAL };

#define ETL_COMMANDS_ADDRESS(name) &etl_##name##_command,
static const struct etl_command *const commands[] = {ETL_COMMANDS(ETL_COMMANDS_ADDRESS)};
#undef ETL_COMMANDS_ADDRESS

static const struct opt_command completion_opts = OPT_COMPLETION(ETL_JOB_PROGRAM);
static const struct opt_command man_opts = OPT_MAN(ETL_JOB_PROGRAM);
static const struct opt_command version_opts = OPT_VERSION(ETL_JOB_PROGRAM);
static const struct opt_command *const standard[] = {&session_cmd_opts, &record_cmd_opts,
                                                     &completion_opts, &man_opts, &version_opts};

#define COMMANDS (sizeof commands / sizeof *commands)
#define STANDARD (sizeof standard / sizeof *standard)

static const char examples[] =
    "  procfleet-etl info trace.etl\n"
    "  procfleet-etl summary trace.etl.xz --format json\n"
    "  procfleet-etl top trace.etl --by disk\n"
    "  procfleet-etl events trace.etl --provider 'Microsoft-Windows-Kernel-*' --limit 20\n"
    "\nExit codes: 0 ok, 1 a file could not be read, 2 usage, 5 stopped before the end\n";

static const struct opt_fact exits[] = {
    {"0", "done; also when the reader of the output went away"},
    {"1", "a file could not be read (the others were), or the output could not be written"},
    {"2", "wrong usage"},
    {"5", "stopped before the end: the figures end there"},
    {NULL, NULL},
};

static const struct opt_fact see_also[] = {{"procfleet-agent", ""}, {NULL, NULL}};

static atomic_bool stopped;

static void on_stop(void *arg)
{
    (void)arg;
    atomic_store(&stopped, true);
}

static bool is_stopped(void)
{
    return atomic_load(&stopped);
}

static int fail(enum err e, const char *text)
{
    fprintf(stderr, ETL_JOB_PROGRAM ": %s\n", text[0] ? text : err_text(e));
    return e == ERR_USAGE || e == ERR_INVALID || e == ERR_RANGE ? EXIT_USAGE : EXIT_FAILED;
}

/* NULL: there is nothing to go on with, *code is the exit code. */
static struct opt_args *parse(const struct opt_command *cmd, int argc, char **argv, int *code)
{
    struct errmsg why = {""};
    struct opt_args *args;
    enum err e = opt_parse(&args, cmd, argc, argv, &why);

    if (e) {
        *code = fail(e, why.text);
        return NULL;
    }
    if (opt_flag(args, "help")) {
        struct buf page;

        buf_init(&page, 64u << 10);
        opt_print_help(&page, cmd);
        fputs(buf_cstr(&page), stdout);
        buf_fini(&page);
        opt_free(args);
        *code = EXIT_DONE;
        return NULL;
    }
    return args;
}

/* A reader that went away, as `head` does, is no failure. */
static int judge(struct etl_job *job)
{
    int error;

    if (fflush(job->out) != 0 || !etl_job_out_ok(job)) {
        error = job->out_failed ? job->out_errno : errno;
        if (error == EPIPE) {
            return EXIT_DONE;
        }
        return fail(ERR_IO, "the output could not be written");
    }
    if (job->failed) {
        return job->failed == ERR_USAGE ? EXIT_USAGE : EXIT_FAILED;
    }
    return job->partial ? EXIT_PARTIAL : EXIT_DONE;
}

static int run(const struct etl_command *c, int argc, char **argv)
{
    struct etl_job job = {.stopped = is_stopped, .no_files = !c->opts->operands};
    struct errmsg why = {""};
    int code = EXIT_FAILED;
    struct opt_args *args = parse(c->opts, argc, argv, &code);
    enum err e;

    if (!args) {
        return code;
    }
    e = etl_job_begin(&job, args, c, &why);
    if (!e) {
        e = os_stop_install(on_stop, NULL);
        e = e ? errmsg_set(&why, e, "cannot catch signals: %s", err_text(e)) : e;
    }
    if (!e) {
        e = c->run(&job, &why);
    }
    code = e ? fail(e, why.text) : judge(&job);
    etl_job_end(&job);
    opt_free(args);
    return code;
}

static int dispatch(int argc, char **argv)
{
    const struct opt_command *subs[COMMANDS + STANDARD], *chosen;
    const struct opt_command top = {
        .program = ETL_JOB_PROGRAM,
        .brief = "answers questions about recorded Windows traces (.etl, .etl.xz) on any system",
        .subs = subs,
        .n_subs = COMMANDS + STANDARD,
        .examples = examples,
    };
    const struct opt_program program = {.top = &top, .exits = exits, .see_also = see_also};
    int code = EXIT_USAGE;

    for (size_t i = 0; i < COMMANDS; i++) {
        subs[i] = commands[i]->opts;
    }
    for (size_t i = 0; i < STANDARD; i++) {
        subs[COMMANDS + i] = standard[i];
    }
    if (argc > 1 && os_is_file(argv[1])) {
        return fail(ERR_USAGE, "a command comes before the file, such as 'info' or 'summary'; "
                               "'procfleet-etl --help' lists them");
    }
    chosen = opt_program_begin(&program, argc, argv, &code);
    for (size_t i = 0; i < COMMANDS; i++) {
        if (commands[i]->opts == chosen) {
            code = run(commands[i], argc - 2, argv + 2);
        }
    }
    if (chosen == &session_cmd_opts) {
        code = session_cmd(argc - 2, argv + 2, etl_known_name);
    } else if (chosen == &record_cmd_opts) {
        code = record_cmd(argc - 2, argv + 2, etl_known_name);
    }
    return opt_program_end(&program, code);
}

int main(int argc, char **argv)
{
    enum err e = os_args(&argc, &argv);
    int code = e ? fail(e, "") : dispatch(argc, argv);

    log_close();
    return code;
}
