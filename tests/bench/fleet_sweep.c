#include "tests/bench/fleet_sweep.h"

#include <errno.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/err.h"
#include "tests/bench/bench.h"
#include "tests/support/fleet_pki.h"
#include "tests/support/support.h"

#define SIZES_MAX   8u
#define FIGURES_MAX 160u
#define WORDS_MAX   96u
#define SETS_MAX    32u
#define WORD_MAX    64u
#define PREFIX      "fleet_"

extern char **environ;

struct figure {
    char name[48]; /* without PREFIX */
    double value, goal;
    bool less, has_goal;
};

struct column {
    unsigned agents;
    bool wrong;
    size_t n;
    struct figure all[FIGURES_MAX];
};

struct sweep {
    const struct opt_args *args;
    char dir[FLEET_PATH_MAX];
    bool own_dir, json;
    size_t n;
    struct column columns[SIZES_MAX + 1];
};

/* The table, in this order. */
static const struct {
    const char *name, *label;
} rows[] = {
    {"held", "held without falling behind (1: yes)"},
    {"values_per_second", "values acknowledged, M/s"},
    {"connect_all", "all connected the first time, s"},
    {"ack_p50", "acknowledged p50, ms"},
    {"ack_p99", "acknowledged p99, ms"},
    {"collector_cpu_per_million_values", "collector, CPU ms per million values"},
    {"collector_values_per_cpu_second", "collector, M values per CPU second"},
    {"collector_resident_per_agent", "collector, resident, MB per agent"},
    {"written_per_value", "written to disk, bytes per value"},
    {"collector_cpu", "collector, % of a core"},
    {"agents_cpu", "simulated agents, % of a core"},
    {"machine_idle", "left by the machine, % of a core"},
    {"guests_held", "with guests: held"},
    {"guests_ack_p50", "with guests: acknowledged p50, ms"},
    {"guests_ack_p99", "with guests: acknowledged p99, ms"},
    {"guests_collector_cpu_per_million_values", "with guests: CPU ms per million values"},
    {"guests_machine_idle", "with guests: left by the machine, %"},
    {"top_p50", "top of a minute of all hosts, p50, ms"},
    {"top_p99", "top, p99, ms"},
    {"hosts_p50", "1,000 hosts, p50, ms"},
    {"history_p50", "history of one host, p50, ms"},
    {"restart_kill_away", "kill -9: collector away, s"},
    {"restart_kill_all_connected", "kill -9: all back after, s"},
    {"restart_kill_all_acknowledged", "kill -9: all acknowledged after, s"},
    {"restart_term_away", "clean end: collector away, s"},
    {"restart_term_all_connected", "clean end: all back after, s"},
    {"made_batches", "batches made"},
    {"stored_batches", "batches stored"},
    {"lost_batches", "batches lost"},
    {"recognised_duplicates", "sent twice, stored once"},
};

static void die(const char *what, const char *more)
{
    fprintf(stderr, "bench_fleet: %s: %s\n", what, more);
    exit(2);
}

/* -- one run -- */

struct words {
    char *all[WORDS_MAX + 1];
    size_t n;
    char numbers[4][WORD_MAX];
};

static void add(struct words *w, const char *word)
{
    if (w->n == WORDS_MAX) {
        die("too many options", word);
    }
    w->all[w->n++] = (char *)(uintptr_t)word;
}

static void add_option(struct words *w, const char *option, const char *value)
{
    if (value) {
        add(w, option);
        add(w, value);
    }
}

/* What was asked for, or what suits a sweep. */
static void make_words(struct words *w, const struct sweep *s, const char *program, unsigned agents)
{
    static const char *const passed[][2] = {
        {"rate", "--rate"},
        {"processes", "--processes"},
        {"metrics", "--metrics"},
        {"samples-per-batch", "--samples-per-batch"},
        {"generators", "--generators"},
        {"connect-rate", "--connect-rate"},
        {"down", "--down"},
    };
    const char *sets[SETS_MAX], *burst = opt_value(s->args, "burst");
    const char *seconds = opt_value(s->args, "seconds"), *restart = opt_value(s->args, "restart");
    size_t n_sets = opt_values(s->args, "set", sets, SETS_MAX);

    (void)snprintf(w->numbers[0], WORD_MAX, "%u", agents);
    (void)snprintf(w->numbers[1], WORD_MAX, "%u", agents / 100);
    add(w, program);
    add_option(w, "--agents", w->numbers[0]);
    add_option(w, "--burst", burst ? burst : w->numbers[1]);
    add_option(w, "--seconds", seconds ? seconds : "30");
    add_option(w, "--restart", restart ? restart : "both");
    add_option(w, "--dir", s->dir);
    add_option(w, "--format", "json");
    add(w, "--premade");
    add(w, "--guests");
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        add_option(w, passed[i][1], opt_value(s->args, passed[i][0]));
    }
    for (size_t i = 0; i < n_sets; i++) {
        add_option(w, "--set", sets[i]);
    }
}

static FILE *start(struct words *w, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    int ends[2], r;

    if (pipe(ends) != 0 || posix_spawn_file_actions_init(&files) != 0) {
        die("cannot start a run", strerror(errno));
    }
    r = posix_spawn_file_actions_adddup2(&files, ends[1], 1) |
        posix_spawn_file_actions_addclose(&files, ends[0]) |
        posix_spawn_file_actions_addclose(&files, ends[1]);
    if (r == 0) {
        r = posix_spawn(pid, "/proc/self/exe", &files, NULL, w->all, environ);
    }
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    if (r != 0) {
        die("cannot start a run", strerror(r));
    }
    return fdopen(ends[0], "r");
}

/* A line as bench.c writes it. */
static void take_line(struct sweep *s, struct column *c, const char *line)
{
    struct figure *f = &c->all[c->n];
    char unit[24] = "", goal[24], better[8];

    if (c->n == FIGURES_MAX ||
        (sscanf(line,
                "{\"name\":\"" PREFIX "%47[^\"]\",\"value\":%lf,\"unit\":\"%23[^\"]\",\"goal\":"
                "%23[^,],\"better\":\"%7[^\"]\"",
                f->name, &f->value, unit, goal, better) != 5 &&
         sscanf(line,
                "{\"name\":\"" PREFIX "%47[^\"]\",\"value\":%lf,\"unit\":\"\",\"goal\":"
                "%23[^,],\"better\":\"%7[^\"]\"",
                f->name, &f->value, goal, better) != 4)) {
        return;
    }
    f->less = strcmp(better, "less") == 0;
    f->has_goal = strcmp(goal, "null") != 0;
    f->goal = f->has_goal ? strtod(goal, NULL) : 0;
    c->n++;
    if (s->json) {
        printf("{\"agents\":%u,%s", c->agents, line + 1);
        fflush(stdout);
    }
}

static void run(struct sweep *s, const char *program, struct column *c, unsigned agents)
{
    struct words w = {.n = 0};
    char line[512];
    pid_t pid;
    int status = 0;
    FILE *f;

    c->agents = agents;
    make_words(&w, s, program, agents);
    fprintf(stderr, "bench_fleet: %u agents\n", agents);
    f = start(&w, &pid);
    while (f && fgets(line, sizeof line, f)) {
        take_line(s, c, line);
    }
    if (f) {
        fclose(f);
    }
    c->wrong = waitpid(pid, &status, 0) != pid || status != 0;
}

/* -- the table -- */

static const struct figure *find(const struct column *c, const char *name)
{
    for (size_t i = 0; i < c->n; i++) {
        if (strcmp(c->all[i].name, name) == 0) {
            return &c->all[i];
        }
    }
    return NULL;
}

static bool is_held(const struct column *c)
{
    const struct figure *f = find(c, "held");

    return !c->wrong && f && f->value > 0;
}

static bool misses(const struct figure *f)
{
    return f->has_goal && (f->less ? f->value > f->goal : f->value < f->goal);
}

static void print_row(const struct sweep *s, const char *name, const char *label)
{
    const struct figure *any = NULL;

    printf("  %-40s", label);
    for (size_t i = 0; i < s->n; i++) {
        const struct figure *f = find(&s->columns[i], name);

        any = f ? f : any;
        if (f) {
            printf(" %11.4g%s", f->value, misses(f) ? "*" : " ");
        } else {
            printf(" %11s ", "-");
        }
    }
    if (any && any->has_goal) {
        printf("  %s %g", any->less ? "<=" : ">=", any->goal);
    }
    printf("\n");
}

static void print_table(const struct sweep *s)
{
    unsigned held = 0;

    printf("  %-40s", "agents");
    for (size_t i = 0; i < s->n; i++) {
        printf(" %11u%s", s->columns[i].agents, s->columns[i].wrong ? "!" : " ");
        held = is_held(&s->columns[i]) && s->columns[i].agents > held ? s->columns[i].agents : held;
    }
    printf("  goal (*: missed; !: the run went wrong)\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_row(s, rows[i].name, rows[i].label);
    }
    printf("  largest fleet held: %u agents\n", held);
}

/* -- the sizes -- */

static void run_all(struct sweep *s, const char *program)
{
    const char *text = opt_value(s->args, "agents");
    unsigned held = 0, not_held = 0;

    text = text ? text : "100,1000,4000";
    while (*text && s->n < SIZES_MAX) {
        char *end;
        unsigned long agents = strtoul(text, &end, 10);
        struct column *c = &s->columns[s->n];

        if (end == text || (*end && *end != ',') || agents < 1 || agents > 20000) {
            die("--agents wants numbers from 1 to 20000", text);
        }
        text = *end ? end + 1 : end;
        s->n++;
        run(s, program, c, (unsigned)agents);
        held = is_held(c) ? c->agents : held;
        not_held = !is_held(c) && !not_held ? c->agents : not_held;
    }
    if (held > 0 && not_held > held + 1) {
        run(s, program, &s->columns[s->n++], (held + not_held) / 2);
    }
}

int fleet_sweep(const char *program, const struct opt_args *args)
{
    static struct sweep s;
    const char *dir = opt_value(args, "dir"), *format = opt_value(args, "format");
    bool wrong = false;

    s.args = args;
    s.json = format && strcmp(format, "json") == 0;
    if (dir) {
        (void)snprintf(s.dir, sizeof s.dir, "%s", dir);
    } else {
        support_temp_dir(s.dir, sizeof s.dir);
        s.own_dir = true;
    }
    run_all(&s, program);
    if (!s.json) {
        print_table(&s);
    }
    for (size_t i = 0; i < s.n; i++) {
        wrong |= s.columns[i].wrong;
    }
    if (s.own_dir && !wrong) {
        support_remove_dir(s.dir);
    }
    return wrong ? 1 : 0;
}
