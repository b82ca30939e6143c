#include "common/conf/opt_program.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/os/os.h"

#define PAGE_MAX_BYTES (1u << 20)

const struct opt opt_man_opts[OPT_MAN_OPTS] = {
    {"dir", 'd', "DIR", "write all pages there, each into its file; made when it is not there",
     false},
};

static int report_error(const struct opt_program *p, const char *text)
{
    fprintf(stderr, "%s: %s\n", p->top->program, text);
    return 1;
}

/* Prints the page and releases it; opt_program_end finds what cannot be written. */
static int page_print(const struct opt_program *p, struct buf *page)
{
    int code = 0;

    if (page->bad) {
        code = report_error(p, err_text(page->bad));
    } else {
        fputs(buf_cstr(page), stdout);
    }
    buf_fini(page);
    return code;
}

static int version_run(const struct opt_program *p, const struct opt_args *a)
{
    (void)a;
    printf("%s " PROCFLEET_VERSION "\n", p->top->program);
    return 0;
}

static int config_sample_run(const struct opt_program *p, const struct opt_args *a)
{
    size_t n;
    const struct conf_key *keys = p->keys(&n);
    struct buf page;

    (void)a;
    buf_init(&page, PAGE_MAX_BYTES);
    conf_print_sample(&page, keys, n, p->top->program);
    return page_print(p, &page);
}

static int completion_run(const struct opt_program *p, const struct opt_args *a)
{
    struct buf page;
    char **shell;

    buf_init(&page, PAGE_MAX_BYTES);
    if (opt_operands(a, &shell) && strcmp(shell[0], "zsh") == 0) {
        opt_completion_zsh(&page, p);
    } else {
        opt_completion_bash(&page, p);
    }
    return page_print(p, &page);
}

/* DIR/procfleet-top.1 */
static enum err write_page(const struct opt_program *p, const struct opt_command *cmd,
                           const char *dir)
{
    char name[128];
    struct buf page;
    char *path;
    FILE *file;
    enum err e = ERR_NOMEM;

    snprintf(name, sizeof name, "%s%s%s.1", p->top->program, cmd ? "-" : "", cmd ? cmd->name : "");
    buf_init(&page, PAGE_MAX_BYTES);
    opt_man_print(&page, p, cmd);
    path = os_path_join(dir, name);
    file = path && !page.bad ? os_fopen(path, "wb") : NULL;
    if (file) {
        e = fwrite(page.p, 1, page.n, file) == page.n ? ERR_OK : ERR_IO;
        e = fclose(file) ? ERR_IO : e;
    } else if (path && !page.bad) {
        e = ERR_IO;
    }
    mem_free(path);
    buf_fini(&page);
    return e;
}

static int write_all(const struct opt_program *p, const char *dir)
{
    enum err e = os_mkdirs(dir, false);
    char text[512];

    if (!e) {
        e = write_page(p, NULL, dir);
    }
    for (size_t i = 0; i < p->top->n_subs && !e; i++) {
        e = write_page(p, p->top->subs[i], dir);
    }
    if (e) {
        snprintf(text, sizeof text, "man --dir: cannot write to %s: %s", dir, err_text(e));
        return report_error(p, text);
    }
    return 0;
}

static int man_run(const struct opt_program *p, const struct opt_args *a)
{
    const struct opt_command *cmd = NULL;
    const char *dir = opt_value(a, "dir");
    struct buf page;
    char **words;
    int code = 0;

    if (dir) {
        return write_all(p, dir);
    }
    if (opt_operands(a, &words)) {
        cmd = opt_choose(p->top, 1, words, &code);
        if (!cmd) {
            return code;
        }
    }
    buf_init(&page, PAGE_MAX_BYTES);
    opt_man_print(&page, p, cmd);
    return page_print(p, &page);
}

static int help_run(const struct opt_program *p, const struct opt_command *cmd)
{
    struct buf page;

    buf_init(&page, PAGE_MAX_BYTES);
    opt_print_help(&page, cmd);
    if (cmd->action && cmd->action->shows_settings) {
        size_t n;
        const struct conf_key *keys = p->keys(&n);

        conf_print_help(&page, keys, n);
    }
    return page_print(p, &page);
}

static int command_run(const struct opt_program *p, const struct opt_command *cmd,
                       int (*run)(const struct opt_program *p, const struct opt_args *a), int argc,
                       char **argv)
{
    struct errmsg why = {""};
    struct opt_args *a;
    int code;

    if (opt_parse(&a, cmd, argc, argv, &why)) {
        fprintf(stderr, "%s %s: %s\n", cmd->program, cmd->name, why.text);
        return 2;
    }
    code = opt_flag(a, "help") ? help_run(p, cmd) : run(p, a);
    opt_free(a);
    return code;
}

static int action_run(const struct opt_program *p, const struct opt_command *cmd, int argc,
                      char **argv)
{
    const struct opt_action *action = cmd->action;
    struct errmsg why = {""};
    struct opt_args *a;
    enum err e;
    int code;

    if (action->raw) {
        return action->raw(argv);
    }
    e = opt_parse(&a, cmd, argc, argv, &why);
    if (e) {
        return p->fail(cmd, e, why.text);
    }
    if (opt_flag(a, "help")) {
        code = help_run(p, cmd);
    } else if (action->judge) {
        code = action->judge(a);
    } else {
        e = action->run(a, &why);
        code = e ? p->fail(cmd, e, why.text) : 0;
    }
    opt_free(a);
    return code;
}

/* "help top" becomes "top --help", so that there is one page. */
static void help_to_option(int argc, char **argv)
{
    static char option[] = "--help";

    if (argc > 2 && strcmp(argv[1], "help") == 0) {
        memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof *argv);
        argv[argc - 1] = option;
    }
}

const struct opt_command *opt_program_begin(const struct opt_program *p, int argc, char **argv,
                                            int *code)
{
    static const struct {
        const char *name;
        int (*run)(const struct opt_program *p, const struct opt_args *a);
    } runs[] = {{"completion", completion_run},
                {"man", man_run},
                {"version", version_run},
                {"config-sample", config_sample_run}};
    const struct opt_command *cmd;

    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        *code = version_run(p, NULL);
        return NULL;
    }
    help_to_option(argc, argv);
    cmd = opt_choose(p->top, argc - 1, argv + 1, code);
    for (size_t i = 0; i < sizeof runs / sizeof *runs && cmd; i++) {
        if (strcmp(cmd->name, runs[i].name) == 0) {
            *code = command_run(p, cmd, runs[i].run, argc - 2, argv + 2);
            return NULL;
        }
    }
    return cmd;
}

int opt_program_end(const struct opt_program *p, int code)
{
    bool lost = fflush(stdout) != 0 || ferror(stdout);

    if (lost && !os_output_is_pipe() && (code == 0 || code == OPT_EXIT_PARTIAL)) {
        return report_error(p, "cannot write to standard output: is the disk full?");
    }
    return code;
}

int opt_program_main(const struct opt_program *p, int argc, char **argv)
{
    int code = 0;
    const struct opt_command *cmd = opt_program_begin(p, argc, argv, &code);

    for (argc -= 2, argv += 2; cmd && !opt_is_leaf(cmd); argc--, argv++) {
        cmd = opt_choose(cmd, argc, argv, &code);
    }
    return opt_program_end(p, cmd ? action_run(p, cmd, argc, argv) : code);
}
