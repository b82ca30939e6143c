/* Prints the processes of this machine as they start, the CPU time that each of them uses, and
 * their end:
 *
 *   start 4711 sh
 *   cpu 4711 sh 250 ms
 *   stop 4711 sh
 *
 * or, of a recording, the events that describe themselves, with their values:
 *
 *   event 4711 MyCompany-Tool/Started Path="/tmp" Retries=3
 *
 * Usage: monitor [SECONDS | FILE.etl], 10 if not given. Exits with 1 if there is nothing to watch.
 *
 * It uses the agent as a library (agent/monitor.h): nothing is written and nothing is sent. To
 * install the library and build this program, on Linux:
 *
 *   cmake --install build/release --component monitor --prefix PREFIX
 *   export PKG_CONFIG_PATH=PREFIX/lib/pkgconfig
 *   cc monitor.c $(pkg-config --cflags --libs procfleet-monitor) -o monitor */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "agent/monitor.h"
#include "agent/source/linux/proc_linux.h"

#define PERIOD_NS INT64_C(500000000)

/* Where events come from: starts, ends and exact totals from the kernel if this program has
 * CAP_NET_ADMIN, else by comparing what /proc lists. */
static enum err open_source(void *ctx, struct source **out, struct source_sink sink,
                            struct errmsg *why)
{
    struct proc_linux_conf conf = {.period_ns = PERIOD_NS, .processes_max = 10000, .events = true};

    (void)ctx;
    return proc_linux_open(out, &conf, sink, why);
}

static void print(const char *what, const struct proc_info *info)
{
    printf("%s %" PRIu32 " %.*s", what, info->id.pid, (int)info->name.n, info->name.p);
}

/* Something happened; `ev` and its texts are borrowed during the call. */
static void on_life(void *ctx, const struct life_event *ev)
{
    (void)ctx;
    if (ev->kind == LIFE_PROCESS_START || ev->kind == LIFE_PROCESS_STOP) {
        print(ev->kind == LIFE_PROCESS_START ? "start" : "stop", &ev->info);
        printf("\n");
    }
}

/* Twice a second: a row for every process. Those that ran before this program did are left out. */
static void on_tick(void *ctx, const struct sample_tick *tick)
{
    (void)ctx;
    for (size_t i = 0; i < tick->n_rows; i++) {
        const struct sample_row *row = &tick->rows[i];
        unsigned origin = row->info->origin;

        if ((row->mask & METRIC_BIT(M_CPU_TIME)) && row->values[M_CPU_TIME] > 0 &&
            (origin == ORIGIN_START || origin == ORIGIN_INFERRED)) {
            print("cpu", row->info);
            printf(" %" PRId64 " ms\n", row->values[M_CPU_TIME] / 1000000);
        }
    }
    fflush(stdout);
}

/* -- events of other providers -- */

static void on_value(void *ctx, const struct value *v)
{
    (void)ctx;
    printf(" %.*s=", (int)v->name.n, v->name.p);
    switch (v->kind) {
    case VALUE_TEXT:
    case VALUE_SID:
        printf("\"%.*s\"", (int)v->v.text.n, v->v.text.p);
        break;
    case VALUE_INT:
    case VALUE_TIME: /* UTC, ns */
        printf("%" PRId64, v->v.i);
        break;
    case VALUE_FLOAT:
        printf("%g", v->v.f);
        break;
    case VALUE_UINT:
    case VALUE_HEX:
    case VALUE_BOOL:
        printf("%" PRIu64, v->v.u);
        break;
    default: /* bytes, addresses, GUIDs */
        printf("(%zu bytes)", v->v.bytes.n);
        break;
    }
}

static void on_group(void *ctx, struct str name, enum value_group group)
{
    (void)ctx;
    printf(" %.*s%c", (int)name.n, name.p, group == VALUE_ARRAY ? '[' : '{');
}

static void on_group_end(void *ctx)
{
    (void)ctx;
    printf(" end");
}

/* An event that is none of the monitor's own facts; everything is borrowed during the call. */
static void on_event(void *ctx, const struct life_event *ev, const struct proc_info *of)
{
    const struct value_sink sink = {ctx, on_value, on_group, on_group_end};
    const struct event_type *t = ev->type;

    (void)of; /* the process, where it is known */
    printf("event %" PRIu32 " %.*s/%.*s", ev->info.id.pid, (int)t->provider.n, t->provider.p,
           (int)t->name.n, t->name.p);
    if (event_values_read(t->fields, t->n_fields, ev->values, &sink)) {
        printf(" (damaged)");
    }
    printf("\n");
}

/* Plays the recording to its end. */
static int read_recording(struct monitor *monitor, const char *path)
{
    const struct monitor_described_sink sink = {.event = on_event};
    struct errmsg why = {""};
    enum err e = monitor_on_described(monitor, &sink, &why);

    if (!e) {
        e = monitor_read_etl(monitor, path, &why);
    }
    if (e) {
        fprintf(stderr, "monitor: %s\n", why.text);
    }
    monitor_destroy(monitor);
    return e ? 1 : 0;
}

int main(int argc, char **argv)
{
    char *end = argc > 1 ? argv[1] : NULL;
    long seconds = argc > 1 ? strtol(argv[1], &end, 10) : 10;
    struct monitor_conf conf = {.open = open_source,
                                .period_ns = PERIOD_NS,
                                .processes_max = 10000,
                                .tick = on_tick,
                                .life = on_life};
    struct timespec wait = {.tv_sec = seconds};
    struct errmsg why = {""};
    struct monitor *monitor;

    if (monitor_create(&monitor, &conf, &why)) {
        fprintf(stderr, "monitor: %s\n", why.text);
        return 1;
    }
    if (end && *end) { /* no number */
        return read_recording(monitor, argv[1]);
    }
    if (monitor_start(monitor, &why)) { /* a thread of its own calls on_life and on_tick */
        fprintf(stderr, "monitor: %s\n", why.text);
        monitor_destroy(monitor);
        return 1;
    }
    fprintf(stderr, "monitor: %s\n", why.text); /* by which means */
    nanosleep(&wait, NULL);
    monitor_destroy(monitor); /* stops the thread and waits for it */
    return 0;
}
