#include "tests/bench/store_ask.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clk.h"
#include "common/os/os.h"
#include "tests/bench/bench.h"

#define ROUNDS_MAX 64u
#define PATH_BYTES 512

static void check(enum err e, const char *why)
{
    if (e) {
        fprintf(stderr, "store_ask: %s: %s\n", err_text(e), why);
        exit(1);
    }
}

struct wire_query store_ask_top(int64_t since_ns, int64_t until_ns)
{
    struct wire_query q = {.since_ns = since_ns,
                           .until_ns = until_ns,
                           .n_metrics = 1,
                           .metrics = {M_CPU_TIME},
                           .limit = 10};

    return q;
}

struct wire_query store_ask_history(const struct store_ask_process *p, unsigned metrics,
                                    int64_t since_ns, int64_t until_ns)
{
    static const uint8_t order[] = {
        M_CPU_TIME,          M_CPU_CYCLES,      M_KERNEL_TIME,      M_USER_TIME,
        M_CONTEXT_SWITCHES,  M_PRIORITY,        M_WORKING_SET_SIZE, M_PRIVATE_BYTES,
        M_VIRTUAL_BYTES,     M_PAGE_FAULTS,     M_HARD_FAULTS,      M_PEAK_WORKING_SET,
        M_PAGED_POOL,        M_NON_PAGED_POOL,  M_THREAD_COUNT,     M_ACTIVE_THREADS,
        M_SUSPENDED_THREADS, M_READ_OPERATIONS, M_WRITE_OPERATIONS, M_OTHER_OPERATIONS,
        M_READ_BYTES,        M_WRITE_BYTES,     M_HANDLE_COUNT,     M_GDI_OBJECTS};
    struct wire_query q = {.since_ns = since_ns,
                           .until_ns = until_ns,
                           .limit = WIRE_ROWS_MAX,
                           .host = str_make(p->host),
                           .has_pid = true,
                           .pid = p->id.pid,
                           .start = p->id.start};

    q.n_metrics = (uint8_t)(metrics < sizeof order ? metrics : sizeof order);
    memcpy(q.metrics, order, q.n_metrics);
    return q;
}

static void run(struct query_answer *out, struct store_view **v, struct store *s,
                enum query_kind kind, const struct wire_query *q)
{
    struct errmsg why = {""};
    struct query_env env = {.now_ns = fill_now()};

    check(store_view_open(v, s), "view");
    env.view = *v;
    check(query_run(out, kind, &env, q, &why), why.text);
}

double store_ask_ms(struct store *s, enum query_kind kind, const struct wire_query *q, size_t *rows)
{
    int64_t began_ns = os_mono_ns();
    struct query_answer a;
    struct store_view *v;

    run(&a, &v, s, kind, q);
    if (rows) {
        *rows = a.data.n_rows;
    }
    query_answer_fini(&a);
    store_view_close(v);
    return (double)(os_mono_ns() - began_ns) / 1e6;
}

void store_ask_first(struct store *s, const struct wire_query *top, struct store_ask_process *out)
{
    struct query_answer a;
    struct store_view *v;
    const struct wire_host *host;

    run(&a, &v, s, QUERY_TOP, top);
    check(a.data.n_rows > 0 ? ERR_OK : ERR_NOTFOUND, "top has no rows");
    host = &a.data.hosts[a.data.rows[0].host];
    out->id = a.data.rows[0].info.id;
    (void)snprintf(out->host, sizeof out->host, "%.*s", (int)host->name.n, host->name.p);
    query_answer_fini(&a);
    store_view_close(v);
}

static void forget_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        (void)fdatasync(fd);
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
}

/* The files of a directory, and of those in it. */
static void forget_in(const char *dir, unsigned levels);

static void forget_one(const char *dir, const char *name, unsigned levels)
{
    char path[PATH_BYTES];
    struct stat st;

    if (name[0] == '.' || snprintf(path, sizeof path, "%s/%s", dir, name) >= PATH_BYTES ||
        stat(path, &st) != 0) {
        return;
    }
    if (S_ISREG(st.st_mode)) {
        forget_file(path);
    } else if (S_ISDIR(st.st_mode) && levels > 0) {
        forget_in(path, levels - 1);
    }
}

static void forget_in(const char *dir, unsigned levels)
{
    DIR *d = opendir(dir);

    for (struct dirent *x = d ? readdir(d) : NULL; x; x = readdir(d)) {
        forget_one(dir, x->d_name, levels);
    }
    if (d) {
        closedir(d);
    }
}

void store_ask_forget(const char *dir)
{
    forget_in(dir, 2);
}

struct store_ask_times store_ask_both(struct fill *f, const struct store_conf *conf,
                                      enum query_kind kind, const struct wire_query *q, unsigned n)
{
    double cold[ROUNDS_MAX], warm[ROUNDS_MAX];
    struct store_ask_times t;
    int64_t cpu_ns;

    n = n < ROUNDS_MAX ? n : ROUNDS_MAX;
    for (unsigned i = 0; i < n; i++) {
        fill_close(f);
        fill_open(f, conf);
        store_ask_forget(conf->dir);
        cold[i] = store_ask_ms(f->store, kind, q, &t.rows);
    }
    cpu_ns = os_thread_cpu_ns();
    for (unsigned i = 0; i < n; i++) {
        warm[i] = store_ask_ms(f->store, kind, q, NULL);
    }
    t.warm_cpu_ms = (double)(os_thread_cpu_ns() - cpu_ns) / 1e6 / n;
    t.cold_ms = bench_median(cold, n);
    t.warm_ms = bench_median(warm, n);
    return t;
}

static double cpu_us(struct store *s, const struct wire_query *q)
{
    int64_t began_ns = os_thread_cpu_ns();

    (void)store_ask_ms(s, QUERY_TOP, q, NULL);
    return (double)(os_thread_cpu_ns() - began_ns) / 1e3;
}

struct store_ask_cpu store_ask_live(struct store *s, unsigned n)
{
    static const struct wire_query top = {.last_ns = 60 * CLK_S, .limit = 10};
    static const struct wire_query images = {.last_ns = 60 * CLK_S,
                                             .limit = WIRE_ROWS_MAX,
                                             .by = WIRE_BY_RATE,
                                             .group_by = WIRE_GROUP_IMAGE,
                                             .n_metrics = 2,
                                             .metrics = {M_CPU_TIME, M_WORKING_SET_SIZE}};
    double a[ROUNDS_MAX], b[ROUNDS_MAX];

    n = n < ROUNDS_MAX ? n : ROUNDS_MAX;
    for (unsigned i = 0; i < n; i++) {
        a[i] = cpu_us(s, &top);
        b[i] = cpu_us(s, &images);
    }
    return (struct store_ask_cpu){bench_median(a, n), bench_median(b, n)};
}

struct store_ask_times store_ask_tell(struct fill *f, const struct store_conf *conf,
                                      const struct store_ask_figures *q, unsigned n)
{
    struct store_ask_times t = store_ask_both(f, conf, q->kind, q->q, n);
    char text[96];

    snprintf(text, sizeof text, "%s_cold", q->name);
    bench_figure(text, t.cold_ms, "ms", q->cold, BENCH_LESS);
    snprintf(text, sizeof text, "%s_warm", q->name);
    bench_figure(text, t.warm_ms, "ms", q->warm, BENCH_LESS);
    snprintf(text, sizeof text, "%s_warm_cpu", q->name);
    bench_figure(text, t.warm_cpu_ms, "ms", 0, BENCH_LESS);
    return t;
}
