/* On Windows the names of the system's own processes could be anybody's, so their parent must be
 * the System process too. Its numbers are multiples of four there, which keeps number 2, the parent
 * of Linux' kernel threads, apart; inside a container number 2 may be an ordinary process, whose
 * children have an image or a command line, as no kernel thread has. */
#include "agent/privacy/process_filter.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/glob.h"
#include "common/base/mem.h"
#include "common/conf/opt.h"

#define BLANKS   " \t\r\n"
#define NAME_CUT 15u /* bytes */

enum { PID_IDLE = 0, PID_KTHREADD = 2, PID_SYSTEM = 4 };

struct list {
    uint32_t pids[PROCESS_FILTER_PIDS_MAX]; /* in order */
    size_t n_pids;
    char *names[PROCESS_FILTER_NAMES_MAX];
    size_t n_names;
};

struct process_filter {
    struct list only, except;
    bool except_system;
};

/* -- making -- */

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

enum err process_filter_check_name(const char *pattern)
{
    return pattern[0] && !strpbrk(pattern, "/\\") ? ERR_OK : ERR_INVALID;
}

static enum err copy_list(struct list *to, const struct process_filter_list *from)
{
    if (from->n_pids > PROCESS_FILTER_PIDS_MAX || from->n_names > PROCESS_FILTER_NAMES_MAX) {
        return ERR_FULL;
    }
    for (size_t i = 0; i < from->n_pids; i++) {
        to->pids[i] = from->pids[i];
    }
    to->n_pids = from->n_pids;
    qsort(to->pids, to->n_pids, sizeof *to->pids, by_number);
    for (size_t i = 0; i < from->n_names; i++) {
        enum err e = process_filter_check_name(from->names[i]);

        if (e) {
            return e;
        }
        to->names[i] = mem_strdup(from->names[i]);
        if (!to->names[i]) {
            return ERR_NOMEM;
        }
        to->n_names = i + 1;
    }
    return ERR_OK;
}

enum err process_filter_create(struct process_filter **out, const struct process_filter_conf *conf)
{
    struct process_filter *w = mem_zalloc(sizeof *w);
    enum err e;

    if (!w) {
        return ERR_NOMEM;
    }
    w->except_system = conf->except_system;
    e = copy_list(&w->only, &conf->only);
    if (!e) {
        e = copy_list(&w->except, &conf->except);
    }
    if (e) {
        process_filter_destroy(w);
        return e;
    }
    *out = w;
    return ERR_OK;
}

static void free_list(struct list *l)
{
    for (size_t i = 0; i < l->n_names; i++) {
        mem_free(l->names[i]);
    }
}

void process_filter_destroy(struct process_filter *w)
{
    if (!w) {
        return;
    }
    free_list(&w->only);
    free_list(&w->except);
    mem_free(w);
}

enum err process_filter_parse_pid(uint32_t *out, const char *text)
{
    uint64_t v;
    enum err e = opt_number(&v, text, UINT32_MAX);

    if (e) {
        return e;
    }
    *out = (uint32_t)v;
    return ERR_OK;
}

/* -- asking -- */

static struct str without_folders(struct str s)
{
    for (size_t i = s.n; i-- > 0;) {
        if (s.p[i] == '/' || s.p[i] == '\\') {
            return (struct str){s.p + i + 1, s.n - i - 1};
        }
    }
    return s;
}

/* Without folders; the idle process has no name of its own. */
static struct str name_of(const struct proc_info *info)
{
    struct str s = without_folders(info->name);

    return s.n == 0 && info->id.pid == PID_IDLE ? str_make("Idle") : s;
}

static bool lists(const struct list *l, uint32_t pid, struct str name)
{
    if (bsearch(&pid, l->pids, l->n_pids, sizeof *l->pids, by_number)) {
        return true;
    }
    for (size_t i = 0; i < l->n_names && name.n > 0; i++) {
        if (glob_match(str_make(l->names[i]), name)) {
            return true;
        }
    }
    return false;
}

static bool is_system_name(struct str name)
{
    static const char *const names[] = {"Secure System", "Registry", "Memory Compression",
                                        "MemCompression"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (str_eq(name, str_make(names[i]))) {
            return true;
        }
    }
    return false;
}

static bool is_system(const struct proc_info *info, struct str name)
{
    bool parent_known = (info->have & INFO_PARENT) != 0;

    if (info->id.pid == PID_IDLE ||
        (info->id.pid == PID_SYSTEM && str_eq(name, str_make("System"))) ||
        (info->id.pid == PID_KTHREADD && str_eq(name, str_make("kthreadd")))) {
        return true;
    }
    if (parent_known && info->parent_pid == PID_KTHREADD) {
        return info->image.n == 0 && info->command_line.n == 0;
    }
    return (!parent_known || info->parent_pid == PID_SYSTEM) && is_system_name(name);
}

/* Takes the next argument off `line`, without its quotes. Empty: there is none. */
static struct str next_argument(struct str *line)
{
    struct str s = *line;
    size_t n = 0;
    char quote;

    while (s.n > 0 && strchr(BLANKS, s.p[0])) {
        s = (struct str){s.p + 1, s.n - 1};
    }
    quote = s.n > 0 && (s.p[0] == '"' || s.p[0] == '\'') ? s.p[0] : '\0';
    s = (struct str){s.p + (quote != '\0'), s.n - (quote != '\0')};
    while (n < s.n && (quote ? s.p[n] != quote : !strchr(BLANKS, s.p[n]))) {
        n++;
    }
    *line = (struct str){s.p + n, s.n - n};
    if (quote && line->n > 0) {
        *line = (struct str){line->p + 1, line->n - 1};
    }
    return (struct str){s.p, n};
}

/* As it was called: the first argument, without a login shell's dash. */
static struct str called(struct str argument)
{
    bool login = argument.n > 0 && argument.p[0] == '-';

    return without_folders((struct str){argument.p + login, argument.n - login});
}

static bool is_interpreter(struct str name)
{
    static const char *const patterns[] = {
        "sh",      "bash",  "dash",  "ash",   "zsh",  "ksh",  "mksh", "fish",   "busybox", "env",
        "python*", "perl*", "ruby*", "node*", "php*", "lua*", "*awk", "tclsh*", "Rscript"};

    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        if (glob_match(str_make(patterns[i]), name)) {
            return true;
        }
    }
    return false;
}

/* The script that an interpreter runs: its argument, behind one option at most, which is as the
 * kernel passes what follows `#!`. Empty: it runs none. */
static struct str script(struct str first, struct str line)
{
    struct str s;

    if (!is_interpreter(called(first))) {
        return (struct str){"", 0};
    }
    s = next_argument(&line);
    if (s.n > 0 && s.p[0] == '-') {
        s = next_argument(&line);
    }
    return without_folders(s);
}

/* Whether one of the names by which somebody may know the process is on the list. */
static bool lists_any(const struct list *l, const struct proc_info *info, struct str name)
{
    struct str line = info->command_line, first;

    if (lists(l, info->id.pid, name)) {
        return true;
    }
    first = next_argument(&line);
    return lists(l, info->id.pid, called(first)) || lists(l, info->id.pid, script(first, line));
}

/* Linux keeps NAME_CUT bytes of a name, and the whole one shows in the path of the program, which
 * not everybody may see. Names of its own threads are whole, and so are those of Windows. */
static bool may_be_cut(const struct proc_info *info, struct str name)
{
    bool kernels =
        (info->have & INFO_PARENT) && info->parent_pid == PID_KTHREADD && info->command_line.n == 0;

    return name.n == NAME_CUT && info->image.n == 0 && !kernels &&
           !glob_match(str_make("*.exe"), name);
}

static bool may_list(const struct list *l, struct str beginning)
{
    for (size_t i = 0; i < l->n_names; i++) {
        if (glob_may_match(str_make(l->names[i]), beginning)) {
            return true;
        }
    }
    return false;
}

bool process_filter_wants(const struct process_filter *w, const struct proc_info *info)
{
    struct str name = name_of(info);
    bool everybody = w->only.n_pids + w->only.n_names == 0;

    if (!everybody && !lists(&w->only, info->id.pid, name)) {
        return false;
    }
    if (w->except.n_names > 0 && name.n == 0) {
        return false; /* it could be one of them */
    }
    if (lists_any(&w->except, info, name) ||
        (may_be_cut(info, name) && may_list(&w->except, name))) {
        return false;
    }
    return !w->except_system || !is_system(info, name);
}
