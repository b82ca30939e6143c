#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char program[64] = "bench";
static bool json, quick, counts;
static unsigned n_goals, n_missed;

void bench_begin(int argc, char **argv, const char *name, const char *about)
{
    (void)snprintf(program, sizeof program, "%s", name);
    for (int i = 1; i < argc; i++) {
        json |= strcmp(argv[i], "--json") == 0;
        quick |= strcmp(argv[i], "--quick") == 0;
        counts |= strcmp(argv[i], "--count") == 0;
        if (strcmp(argv[i], "--json") != 0 && strcmp(argv[i], "--quick") != 0 &&
            strcmp(argv[i], "--count") != 0) {
            printf("usage: %s [--json] [--quick] [--count]\n%s\n", name, about);
            exit(strcmp(argv[i], "--help") == 0 ? 0 : 2);
        }
    }
    if (!json && !counts) {
        printf("%s: %s\n  %-44s %14s %-12s %12s\n", name, about, "figure", "value", "unit", "goal");
    }
}

struct opt_args *bench_options(const struct opt_command *command, int argc, char **argv)
{
    struct errmsg why = {""};
    struct opt_args *args;
    struct buf help;

    (void)snprintf(program, sizeof program, "%s", command->program);
    if (opt_parse(&args, command, argc - 1, argv + 1, &why)) {
        fprintf(stderr, "%s: %s\n", command->program, why.text);
        exit(2);
    }
    if (opt_flag(args, "help")) {
        buf_init(&help, 64u << 10);
        opt_print_help(&help, command);
        fputs(buf_cstr(&help), stdout);
        exit(0);
    }
    return args;
}

double bench_number(const struct opt_args *args, const char *name, double least, double most,
                    double preset)
{
    const char *text = opt_value(args, name);
    char *end;
    double v;

    if (!text) {
        return preset;
    }
    v = strtod(text, &end);
    if (*end || end == text || !(v >= least && v <= most)) {
        fprintf(stderr, "--%s wants a number from %g to %g\n", name, least, most);
        exit(2);
    }
    return v;
}

bool bench_quick(void)
{
    return quick;
}

bool bench_counts(void)
{
    return counts;
}

/* Callgrind knows it by name: never inlined. */
void bench_counted(void (*pass)(void *), void *arg);
__attribute__((noinline, noclone)) void bench_counted(void (*pass)(void *), void *arg)
{
    pass(arg);
    __asm__ volatile("" ::: "memory"); /* no jump instead of the call: it would end here */
}

void bench_count(const char *name, double units, const char *unit, double goal,
                 void (*pass)(void *), void *arg)
{
    bench_counted(pass, arg);
    printf("{\"counted\":\"%s\",\"units\":%.0f,\"unit\":\"%s\",\"goal\":%g}\n", name, units, unit,
           goal);
    fflush(stdout);
}

void bench_figure(const char *name, double value, const char *unit, double goal,
                  enum bench_better better)
{
    bool missed = goal > 0 && (better == BENCH_LESS ? value > goal : value < goal);
    char text[32] = "null";

    n_goals += goal > 0;
    n_missed += missed;
    if (goal > 0) {
        snprintf(text, sizeof text, "%.10g", goal);
    }
    if (json) {
        printf("{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"%s\",\"goal\":%s,\"better\":\"%s\"}\n",
               name, value, unit, text, better == BENCH_LESS ? "less" : "more");
    } else {
        printf("  %-44s %14.6g %-12s %s%11s%s\n", name, value, unit,
               goal > 0 ? better == BENCH_LESS ? "<=" : ">=" : "  ", goal > 0 ? text : "-",
               missed ? "  missed" : "");
    }
    fflush(stdout);
}

double bench_ms(int64_t ns)
{
    return (double)ns / 1e6;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return a < b ? -1 : a > b;
}

double bench_median(double *values, size_t n)
{
    if (n == 0) {
        return 0;
    }
    qsort(values, n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

void bench_fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", program, what);
    exit(2);
}

void bench_check(enum err e, const char *what)
{
    char text[256];

    if (e) {
        snprintf(text, sizeof text, "%s%s%s", what ? what : "", what ? ": " : "", err_text(e));
        bench_fail(text);
    }
}

int bench_end(void)
{
    if (!json && !counts) {
        printf("  %u of %u goals reached\n", n_goals - n_missed, n_goals);
    }
    return 0;
}
