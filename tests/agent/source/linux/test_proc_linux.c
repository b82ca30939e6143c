#include "agent/source/linux/proc_linux.h"

#include <dirent.h>
#include <grp.h>
#include <sched.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "tests/support/t.h"

extern char **environ;

#define FACTS_MAX 8192
#define WAIT_NS   (60 * CLK_S)

struct fact {
    enum event_kind kind;
    struct proc_info info;
    char name[64], command_line[128];
    metric_mask totals_mask;
    int64_t totals[METRIC_COLS];
    int64_t mono_ns;
};

/* A source running in its own thread, and what it told. */
struct watch {
    struct source *source;
    struct os_thread *thread;
    struct os_mutex *lock; /* everything below */
    struct os_cond *news;
    struct fact *facts;
    size_t n_facts;
    uint64_t tables, incomplete, advances;
    uint32_t wanted_pid; /* its last row is kept */
    struct snap_row row;
    char row_name[64];
    size_t rows_of_ended; /* rows of processes whose stop had been told: must not be */
    int64_t last_mono_ns;
    bool went_back;
    enum err result;
};

static void on_fact(void *ctx, const struct event *ev)
{
    struct watch *w = ctx;
    const struct proc_info *info = &ev->u.proc.info;
    struct fact *f;

    os_mutex_lock(w->lock);
    assert_true(w->n_facts < FACTS_MAX);
    f = &w->facts[w->n_facts++];
    f->kind = ev->kind;
    f->info = *info;
    f->mono_ns = ev->mono_ns;
    snprintf(f->name, sizeof f->name, "%.*s", (int)info->name.n, info->name.p);
    snprintf(f->command_line, sizeof f->command_line, "%.*s", (int)info->command_line.n,
             info->command_line.p ? info->command_line.p : "");
    f->totals_mask = ev->u.proc.totals_mask;
    if (ev->u.proc.totals) {
        memcpy(f->totals, ev->u.proc.totals, sizeof f->totals);
    }
    w->went_back = w->went_back || ev->mono_ns < w->last_mono_ns;
    w->last_mono_ns = ev->mono_ns;
    os_cond_wake_all(w->news);
    os_mutex_unlock(w->lock);
}

static bool stopped(const struct watch *w, struct proc_id id)
{
    for (size_t i = 0; i < w->n_facts; i++) {
        if (w->facts[i].kind == EV_PROC_STOP && proc_id_eq(w->facts[i].info.id, id)) {
            return true;
        }
    }
    return false;
}

static void on_table(void *ctx, const struct snapshot *snap)
{
    struct watch *w = ctx;

    os_mutex_lock(w->lock);
    w->tables++;
    w->incomplete += !snap->complete;
    for (size_t i = 0; i < snap->n_rows; i++) {
        const struct snap_row *row = &snap->rows[i];

        w->rows_of_ended += stopped(w, row->info.id);
        if (row->info.id.pid == w->wanted_pid) {
            w->row = *row;
            snprintf(w->row_name, sizeof w->row_name, "%.*s", (int)row->info.name.n,
                     row->info.name.p);
        }
    }
    w->went_back = w->went_back || snap->mono_ns < w->last_mono_ns;
    w->last_mono_ns = snap->mono_ns;
    os_cond_wake_all(w->news);
    os_mutex_unlock(w->lock);
}

static void on_advance(void *ctx, int64_t wall_ns, int64_t mono_ns)
{
    struct watch *w = ctx;

    assert_true(wall_ns > 0 && mono_ns > 0);
    os_mutex_lock(w->lock);
    w->advances++;
    os_cond_wake_all(w->news);
    os_mutex_unlock(w->lock);
}

static void run_source(void *arg)
{
    struct watch *w = arg;

    w->result = w->source->ops->run(w->source);
}

/* Waits until `done` holds; fails the test after a minute. */
static void wait_for(struct watch *w, bool (*done)(const struct watch *, const void *),
                     const void *arg)
{
    int64_t until = os_mono_ns() + WAIT_NS;

    os_mutex_lock(w->lock);
    while (!done(w, arg)) {
        if (os_cond_wait_until(w->news, until) == ERR_TIMEOUT) {
            os_mutex_unlock(w->lock);
            fail_msg("nothing came for a minute");
        }
    }
    os_mutex_unlock(w->lock);
}

static bool first_table_came(const struct watch *w, const void *arg)
{
    (void)arg;
    return w->tables > 0;
}

static void begin_at(struct watch *w, const struct proc_linux_conf *conf, struct source_pace pace)
{
    const struct source_sink sink = {
        .ctx = w, .fact = on_fact, .table = on_table, .advance = on_advance};
    struct errmsg why;

    memset(w, 0, sizeof *w);
    w->facts = mem_array(FACTS_MAX, sizeof *w->facts);
    assert_non_null(w->facts);
    assert_ok(os_mutex_create(&w->lock));
    assert_ok(os_cond_create(&w->news, w->lock));
    assert_ok(proc_linux_open(&w->source, conf, sink, &why));
    w->source->pace = pace;
    assert_ok(os_thread_start(&w->thread, "source", run_source, w));
    wait_for(w, first_table_came, NULL);
}

static void begin_with(struct watch *w, const struct proc_linux_conf *conf)
{
    const struct source_pace as_configured = {0};

    begin_at(w, conf, as_configured);
}

static void begin(struct watch *w, bool events, int64_t period_ns)
{
    const struct proc_linux_conf conf = {period_ns, MODEL_PROCESSES_MAX, events, false};

    begin_with(w, &conf);
}

/* Stops the source; from here on what it told belongs to the test alone. */
static void finish(struct watch *w)
{
    w->source->ops->stop(w->source);
    w->source->ops->stop(w->source);
    os_thread_join(w->thread);
    w->thread = NULL;
    assert_ok(w->result);
    assert_false(w->went_back);
    assert_int_equal(w->rows_of_ended, 0);
}

static void end(struct watch *w)
{
    if (w->thread) {
        finish(w);
    }
    w->source->ops->close(w->source);
    os_cond_destroy(w->news);
    os_mutex_destroy(w->lock);
    mem_free(w->facts);
}

static struct watch it; /* of the test that runs */

static int tear_down(void **state)
{
    end(&it);
    return 0;
}

/* Skips the test where the machine does not let us see ends as they happen. */
static void need_events(struct watch *w)
{
    if (w->source->about.polled) {
        printf("skipped: %s\n", w->source->about.detail);
        end(w);
        skip();
    }
}

static const struct fact *find_fact(const struct watch *w, enum event_kind kind, uint32_t pid)
{
    for (size_t i = w->n_facts; i-- > 0;) {
        if (w->facts[i].kind == kind && w->facts[i].info.id.pid == pid) {
            return &w->facts[i];
        }
    }
    return NULL;
}

static bool stop_of_pid_came(const struct watch *w, const void *arg)
{
    return find_fact(w, EV_PROC_STOP, *(const uint32_t *)arg) != NULL;
}

static uint32_t spawn_burn(const char *mode, const char *arg, const int *in, const int *out)
{
    char *argv[] = {(char *)BURN_PATH, (char *)mode, (char *)arg, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;

    posix_spawn_file_actions_init(&actions);
    if (in) {
        posix_spawn_file_actions_adddup2(&actions, in[0], 0);
        posix_spawn_file_actions_adddup2(&actions, out[1], 1);
        posix_spawn_file_actions_addclose(&actions, in[1]);
    }
    assert_int_equal(posix_spawn(&pid, BURN_PATH, &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return (uint32_t)pid;
}

static int64_t rusage_cpu_ns(const struct rusage *ru)
{
    return ((int64_t)ru->ru_utime.tv_sec + ru->ru_stime.tv_sec) * CLK_S +
           ((int64_t)ru->ru_utime.tv_usec + ru->ru_stime.tv_usec) * CLK_US;
}

/* The kernel counts resident pages per CPU and adds up late: some 100 KiB either way. The parent's
 * account includes what was before exec, which is the parent's own memory. */
static void check_peak(int64_t peak, const struct rusage *child)
{
    int64_t account = (int64_t)child->ru_maxrss * 1024;
    struct rusage self;

    assert_int_equal(getrusage(RUSAGE_SELF, &self), 0);
    printf("peak %lld KiB, parent's account %lld KiB, of itself %ld KiB\n",
           (long long)(peak / 1024), (long long)(account / 1024), self.ru_maxrss);
    assert_true(peak >= 64 << 20 && peak < 128 << 20);
    assert_true(llabs(peak - account) <= 1 << 20 || self.ru_maxrss >= child->ru_maxrss);
}

static void totals_at_exit_equal_what_the_process_did(void **state)
{
    const struct fact *start, *stop;
    struct rusage ru;
    uint32_t pid;
    int status;
    int64_t tick_ns = CLK_S / sysconf(_SC_CLK_TCK), off_ns;

    begin(&it, true, CLK_S / 4);
    need_events(&it);
    pid = spawn_burn(NULL, NULL, NULL, NULL);
    assert_int_equal(wait4((pid_t)pid, &status, 0, &ru), pid);
    assert_int_equal(WEXITSTATUS(status), 7);
    wait_for(&it, stop_of_pid_came, &pid);
    finish(&it);

    start = find_fact(&it, EV_PROC_START, pid);
    stop = find_fact(&it, EV_PROC_STOP, pid);
    assert_non_null(start);
    assert_string_equal(start->name, "burn");
    assert_string_equal(start->command_line, BURN_PATH);
    assert_int_equal(start->info.parent_pid, getpid());
    assert_true(start->info.parent_start > 0);
    assert_true(proc_id_eq(start->info.id, stop->info.id));
    assert_true(stop->info.have & INFO_EXIT_CODE);
    assert_int_equal(stop->info.exit_code, 7);
    assert_true(stop->info.have & INFO_FINAL_TOTALS);
    assert_true(stop->info.exit_ns > start->info.create_ns);
    /* The parent's own account of it is the measure. */
    off_ns = stop->totals[M_CPU_TIME] - rusage_cpu_ns(&ru);
    printf("cpu %lld us, parent's account %lld us, difference %lld us\n",
           (long long)(stop->totals[M_CPU_TIME] / CLK_US), (long long)(rusage_cpu_ns(&ru) / CLK_US),
           (long long)(off_ns / CLK_US));
    assert_true(llabs(off_ns) <= 2 * tick_ns);
    assert_true(stop->totals[M_CPU_TIME] >= 2 * CLK_S);
    assert_int_equal(stop->totals[M_KERNEL_TIME] + stop->totals[M_USER_TIME],
                     stop->totals[M_CPU_TIME]);
    assert_int_equal(stop->totals[M_WRITE_BYTES], 10485760);
    check_peak(stop->totals[M_PEAK_WORKING_SET], &ru);
    /* On a busy machine a few more switches follow the record, while memory is given back. */
    assert_true(stop->totals[M_CONTEXT_SWITCHES] <= ru.ru_nvcsw + ru.ru_nivcsw);
    assert_true(stop->totals[M_CONTEXT_SWITCHES] + 50 >= ru.ru_nvcsw + ru.ru_nivcsw);
}

#define BRIEF 200

static bool all_brief_came(const struct watch *w, const void *arg)
{
    const pid_t *pids = arg;

    for (int i = 0; i < BRIEF; i++) {
        if (!find_fact(w, EV_PROC_STOP, (uint32_t)pids[i])) {
            return false;
        }
    }
    return true;
}

static size_t count_facts(const struct watch *w, enum event_kind kind, uint32_t pid)
{
    size_t n = 0;

    for (size_t i = 0; i < w->n_facts; i++) {
        n += w->facts[i].kind == kind && w->facts[i].info.id.pid == pid;
    }
    return n;
}

static void of_200_processes_that_live_20_ms_none_is_missed(void **state)
{
    const struct timespec life = {0, 20 * CLK_MS};
    struct source_stats stats;
    pid_t pids[BRIEF];

    begin(&it, true, CLK_S / 4);
    need_events(&it);
    for (int i = 0; i < BRIEF; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            nanosleep(&life, NULL);
            _exit(i % 256);
        }
        assert_true(pids[i] > 0);
    }
    for (int i = 0; i < BRIEF; i++) {
        assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
    }
    wait_for(&it, all_brief_came, pids);
    finish(&it);
    for (int i = 0; i < BRIEF; i++) {
        const struct fact *stop = find_fact(&it, EV_PROC_STOP, (uint32_t)pids[i]);

        assert_int_equal(count_facts(&it, EV_PROC_STOP, (uint32_t)pids[i]), 1);
        assert_int_equal(count_facts(&it, EV_PROC_START, (uint32_t)pids[i]), 1);
        assert_int_equal(stop->info.exit_code, i % 256);
        assert_string_equal(stop->name, "test_proc_linux");
        assert_int_equal(stop->info.parent_pid, getpid());
    }
    it.source->ops->stats(it.source, &stats);
    assert_int_equal(stats.lost_events, 0);
}

#define BURST        2000
#define BURST_TEXT   "2000"
#define BURST_PLACES 400 /* beside those who live here anyway */

static size_t living(void)
{
    DIR *d = opendir("/proc");
    size_t n = 0;

    assert_non_null(d);
    for (struct dirent *entry = readdir(d); entry; entry = readdir(d)) {
        n += entry->d_name[0] >= '1' && entry->d_name[0] <= '9';
    }
    closedir(d);
    return n;
}

/* The source is held up while the burst happens: all of it waits in the sockets, many more lives
 * than the table has places. */
static void a_late_source_tells_a_burst_in_full(void **state)
{
    const struct proc_linux_conf conf = {CLK_S / 20, living() + BURST_PLACES, true, false};
    size_t starts = 0, stops = 0;
    struct source_stats stats;
    uint32_t pid;

    begin_with(&it, &conf);
    need_events(&it);
    os_mutex_lock(it.lock); /* the next table is not taken before this is free */
    pid = spawn_burn("burst", BURST_TEXT, NULL, NULL);
    assert_int_equal(waitpid((pid_t)pid, NULL, 0), pid);
    os_mutex_unlock(it.lock);
    wait_for(&it, stop_of_pid_came, &pid);
    finish(&it);
    for (size_t i = 0; i < it.n_facts; i++) {
        if (it.facts[i].info.parent_pid == pid) {
            starts += it.facts[i].kind == EV_PROC_START;
            stops += it.facts[i].kind == EV_PROC_STOP;
        }
    }
    it.source->ops->stats(it.source, &stats);
    assert_int_equal(stats.lost_events, 0);
    assert_int_equal(stats.capped, 0);
    assert_int_equal(starts, BURST);
    assert_int_equal(stops, BURST);
}

static void a_signal_that_kills_shows_in_the_exit_code(void **state)
{
    uint32_t pid;

    begin(&it, true, CLK_S / 4);
    need_events(&it);
    pid = (uint32_t)fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    kill((pid_t)pid, SIGKILL);
    assert_int_equal(waitpid((pid_t)pid, NULL, 0), pid);
    wait_for(&it, stop_of_pid_came, &pid);
    finish(&it);
    assert_int_equal(find_fact(&it, EV_PROC_STOP, pid)->info.exit_code, 128 + SIGKILL);
}

/* What was last told of a process. */
static const struct fact *last_fact(const struct watch *w, uint32_t pid)
{
    const struct fact *last = NULL;

    for (size_t i = 0; i < w->n_facts; i++) {
        if (w->facts[i].info.id.pid == pid) {
            last = &w->facts[i];
        }
    }
    return last;
}

static void a_copy_of_a_process_bears_its_programs_name_whatever_its_thread_is_called(void **state)
{
    uint32_t pid;
    size_t seen = 0;

    begin(&it, true, CLK_S / 4);
    need_events(&it);
    pid = (uint32_t)fork();
    if (pid == 0) {
        pid_t copy;

        (void)prctl(PR_SET_NAME, "MergeMutate", 0, 0, 0);
        copy = fork();
        if (copy == 0) {
            _exit(0);
        }
        _exit(waitpid(copy, NULL, 0) == copy ? 0 : 1);
    }
    assert_int_equal(waitpid((pid_t)pid, NULL, 0), pid);
    wait_for(&it, stop_of_pid_came, &pid);
    finish(&it);
    for (size_t i = 0; i < it.n_facts; i++) {
        if (it.facts[i].info.parent_pid == pid || it.facts[i].info.id.pid == pid) {
            assert_string_equal(it.facts[i].name, "test_proc_linux");
            seen++;
        }
    }
    assert_int_equal(seen, 4); /* a start and a stop of each */
}

static void after_a_chain_of_execs_the_last_program_names_the_process(void **state)
{
    char *argv[] = {"nice", "nice", "sleep", "0.3", NULL}; /* long enough for rows */
    pid_t pid;

    begin(&it, true, CLK_S / 20);
    need_events(&it);
    assert_int_equal(posix_spawnp(&pid, "nice", NULL, NULL, argv, environ), 0);
    os_mutex_lock(it.lock);
    it.wanted_pid = (uint32_t)pid;
    os_mutex_unlock(it.lock);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    wait_for(&it, stop_of_pid_came, &(uint32_t){(uint32_t)pid});
    finish(&it);
    assert_string_equal(last_fact(&it, (uint32_t)pid)->name, "sleep");
    assert_string_equal(it.row_name, "sleep");
}

static bool row_came(const struct watch *w, const void *arg)
{
    return w->row.info.id.pid == w->wanted_pid && w->tables > *(const uint64_t *)arg;
}

/* Every column Linux has, in a process of one thread and in one of several (this one). */
static const metric_mask every_column =
    METRIC_BIT(M_CPU_TIME) | METRIC_BIT(M_KERNEL_TIME) | METRIC_BIT(M_USER_TIME) |
    METRIC_BIT(M_CONTEXT_SWITCHES) | METRIC_BIT(M_PRIORITY) | METRIC_BIT(M_AFFINITY_MASK) |
    METRIC_BIT(M_WORKING_SET_SIZE) | METRIC_BIT(M_PRIVATE_BYTES) | METRIC_BIT(M_VIRTUAL_BYTES) |
    METRIC_BIT(M_PAGE_FAULTS) | METRIC_BIT(M_HARD_FAULTS) | METRIC_BIT(M_PEAK_WORKING_SET) |
    METRIC_BIT(M_THREAD_COUNT) | METRIC_BIT(M_ACTIVE_THREADS) | METRIC_BIT(M_SUSPENDED_THREADS) |
    METRIC_BIT(M_READ_OPERATIONS) | METRIC_BIT(M_WRITE_OPERATIONS) | METRIC_BIT(M_READ_BYTES) |
    METRIC_BIT(M_WRITE_BYTES) | METRIC_BIT(M_IO_PRIORITY) | METRIC_BIT(M_HANDLE_COUNT) |
    METRIC_BIT(M_PEAK_HANDLE_COUNT) | METRIC_BIT(M_THREADS_RUNNING) |
    METRIC_BIT(M_THREADS_WAITING) | METRIC_BIT(M_THREADS_DISK_WAIT) |
    METRIC_BIT(M_THREADS_STOPPED) | METRIC_BIT(M_THREADS_TERMINATED) | METRIC_BIT(M_THREADS_IDLE) |
    METRIC_BIT(M_DISK_READ_BYTES) | METRIC_BIT(M_DISK_WRITE_BYTES) | METRIC_BIT(M_READY_TIME);

/* There while kernel.task_delayacct is 1, and the agent may ask. */
static const metric_mask delays = METRIC_BIT(M_IO_WAIT_TIME) | METRIC_BIT(M_MEMORY_WAIT_TIME);

static void check_row_of_waiting_process(bool events)
{
    struct watch w;
    int in[2], out[2];
    uint64_t tables;
    uint32_t pid;
    char c;

    begin(&w, events, CLK_S / 20);
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    pid = spawn_burn("wait", NULL, in, out);
    close(in[0]);
    assert_int_equal(read(out[0], &c, 1), 1);
    os_mutex_lock(w.lock);
    w.wanted_pid = pid;
    tables = w.tables + 4; /* rates and active threads need a second row */
    os_mutex_unlock(w.lock);
    wait_for(&w, row_came, &tables);
    finish(&w);
    assert_string_equal(w.row_name, "burn");
    assert_true((w.row.mask & every_column) == every_column);
    assert_true((w.row.mask & ~(every_column | delays)) == 0);
    assert_int_equal(w.row.values[M_WRITE_BYTES], 10485760 + 1);
    assert_int_equal(w.row.values[M_WRITE_OPERATIONS], 256 + 1);
    assert_int_equal(w.row.values[M_THREAD_COUNT], 1);
    assert_int_equal(w.row.values[M_ACTIVE_THREADS], 0);
    assert_int_equal(w.row.values[M_THREADS_WAITING], 1);
    assert_int_equal(w.row.values[M_IO_PRIORITY], 2);
    assert_true(w.row.values[M_HANDLE_COUNT] >= 3);
    assert_true(w.row.values[M_CONTEXT_SWITCHES] > 0);
    close(in[1]);
    assert_int_equal(waitpid((pid_t)pid, NULL, 0), pid);
    close(out[0]);
    close(out[1]);
    end(&w);
}

static void a_living_process_has_every_column(void **state)
{
    check_row_of_waiting_process(true);
}

static void without_events_a_table_still_has_every_column(void **state)
{
    check_row_of_waiting_process(false);
}

static void a_process_of_several_threads_has_every_column(void **state)
{
    struct watch w;
    uint64_t tables;

    for (int events = 0; events < 2; events++) {
        struct rusage ru;

        begin(&w, events, CLK_S / 20);
        os_mutex_lock(w.lock);
        w.wanted_pid = (uint32_t)getpid();
        tables = w.tables + 3;
        os_mutex_unlock(w.lock);
        wait_for(&w, row_came, &tables);
        finish(&w);
        assert_true((w.row.mask & every_column) == every_column);
        assert_true(w.row.values[M_THREAD_COUNT] >= 2);
        assert_true(w.row.values[M_THREADS_RUNNING] >= 1); /* the source itself */
        assert_true(w.row.values[M_ACTIVE_THREADS] >= 1);
        assert_int_equal(getrusage(RUSAGE_SELF, &ru), 0);
        assert_true(w.row.values[M_CONTEXT_SWITCHES] > 0);
        assert_true(w.row.values[M_CONTEXT_SWITCHES] <= ru.ru_nvcsw + ru.ru_nivcsw);
        end(&w);
    }
}

/* Of all threads of this process, as the kernel has it. */
static int64_t own_ready_ns(void)
{
    DIR *d = opendir("/proc/self/task");
    int64_t sum = 0;

    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        char path[320];
        long long run, ready;
        FILE *f;

        (void)snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", e->d_name);
        f = e->d_name[0] != '.' ? fopen(path, "re") : NULL;
        if (f) {
            assert_int_equal(fscanf(f, "%lld %lld", &run, &ready), 2);
            fclose(f);
            sum += ready;
        }
    }
    closedir(d);
    return sum;
}

static atomic_bool rivals_done;
static atomic_uint rivals_spun;

/* For a third of a second one of those that want the same CPU; then asleep until all is over. */
static void rival(void *arg)
{
    int64_t end_ns = os_mono_ns() + CLK_S / 3;

    (void)sched_setaffinity(0, sizeof(cpu_set_t), arg);
    while (os_mono_ns() < end_ns) {
    }
    atomic_fetch_add(&rivals_spun, 1);
    while (!atomic_load(&rivals_done)) {
        os_sleep_ns(10 * CLK_MS);
    }
}

/* The row's value; own threads' sum before it and after. */
static int64_t shown_ready_ns(struct watch *w, int64_t *before_ns, int64_t *after_ns)
{
    uint64_t tables;
    int64_t shown_ns;

    *before_ns = own_ready_ns();
    os_mutex_lock(w->lock);
    w->wanted_pid = (uint32_t)getpid();
    tables = w->tables + 1;
    os_mutex_unlock(w->lock);
    wait_for(w, row_came, &tables);
    os_mutex_lock(w->lock);
    shown_ns = w->row.values[M_READY_TIME];
    os_mutex_unlock(w->lock);
    *after_ns = own_ready_ns();
    return shown_ns;
}

/* Its growth: what threads had that ended before is in it on some kernels only. */
static void ready_time_is_that_of_its_threads(void **state)
{
    enum { RIVALS = 3 };
    struct os_thread *threads[RIVALS];
    cpu_set_t same;

    CPU_ZERO(&same);
    CPU_SET((size_t)sched_getcpu(), &same);
    for (int events = 0; events < 2; events++) {
        int64_t before[2], shown[2], after[2], least, most;
        struct watch w;

        begin(&w, events, CLK_S / 20);
        shown[0] = shown_ready_ns(&w, &before[0], &after[0]);
        atomic_store(&rivals_done, false);
        atomic_store(&rivals_spun, 0);
        for (size_t i = 0; i < RIVALS; i++) {
            assert_ok(os_thread_start(&threads[i], "rival", rival, &same));
        }
        while (atomic_load(&rivals_spun) < RIVALS) {
            os_sleep_ns(10 * CLK_MS);
        }
        shown[1] = shown_ready_ns(&w, &before[1], &after[1]);
        least = before[1] - after[0];
        most = after[1] - before[0];
        assert_true(least > CLK_S / 10); /* there was something to wait for */
        assert_in_range(shown[1] - shown[0], least - least / 100, most + most / 100);
        finish(&w);
        atomic_store(&rivals_done, true);
        for (size_t i = 0; i < RIVALS; i++) {
            os_thread_join(threads[i]);
        }
        end(&w);
    }
}

static void polled_tables_are_complete_and_tell_no_facts(void **state)
{
    uint64_t tables = 3;

    begin(&it, false, CLK_S / 20);
    os_mutex_lock(it.lock);
    it.wanted_pid = (uint32_t)getpid();
    os_mutex_unlock(it.lock);
    wait_for(&it, row_came, &tables);
    finish(&it);
    assert_true(it.source->about.polled);
    assert_int_equal(it.n_facts, 0);
    assert_int_equal(it.incomplete, 0);
}

/* In the role of a user who may not look into others' processes. Exit code: 0 as it should be, 1
 * not, 100 when such a role cannot be had here. */
static void watch_among_hidden(void)
{
    struct source_stats stats;
    uint64_t tables = 3;
    struct watch w;
    bool good;

    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("proc", "/proc", "proc", 0, "hidepid=1") != 0 || setgroups(0, NULL) != 0 ||
        setgid(65534) != 0 || setuid(65534) != 0) {
        _exit(100);
    }
    begin(&w, false, CLK_S / 20);
    os_mutex_lock(w.lock);
    w.wanted_pid = (uint32_t)getpid();
    os_mutex_unlock(w.lock);
    wait_for(&w, row_came, &tables);
    finish(&w);
    w.source->ops->stats(w.source, &stats);
    good = w.incomplete == 0 && stats.damaged == 0;
    end(&w);
    _exit(good ? 0 : 1);
}

static void hidden_processes_are_no_damage_and_leave_tables_complete(void **state)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        watch_among_hidden();
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 100) {
        printf("skipped: hiding processes needs a mount namespace of one's own (root)\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void ignore_table(void *ctx, const struct snapshot *snap)
{
    (void)ctx;
    (void)snap;
}

static void opening_survives_every_failing_allocation(void **state)
{
    const struct proc_linux_conf conf = {CLK_S, 64, true, false};
    const struct source_sink sink = {.table = ignore_table, .advance = on_advance};
    const struct source_ops *ops;
    long before = mem_live();
    struct source *s = NULL;
    enum err e = ERR_NOMEM;

    for (long n = 0; e != ERR_OK; n++) {
        struct errmsg why = {""};

        mem_fail_after(n);
        e = proc_linux_open(&s, &conf, sink, &why);
        mem_fail_after(-1);
        if (e) {
            assert_err(e, ERR_NOMEM);
            assert_true(why.text[0] != '\0');
            assert_int_equal(mem_live(), before);
        }
        assert_true(n < 100);
    }
    ops = s->ops;
    ops->close(s);
    ops->close(NULL);
    assert_int_equal(mem_live(), before);
}

static void limits_are_checked(void **state)
{
    static const struct proc_linux_conf wrong[] = {
        {CLK_MS - 1, 100, true, false},
        {10 * CLK_S + 1, 100, true, false},
        {CLK_S, 0, true, false},
        {CLK_S, PROC_LINUX_PROCESSES_MAX + 1, true, false},
    };
    const struct source_sink sink = {.table = ignore_table, .advance = on_advance};
    struct source *s;

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_err(proc_linux_open(&s, &wrong[i], sink, NULL), ERR_RANGE);
    }
}

static bool four_tables_came(const struct watch *w, const void *arg)
{
    (void)arg;
    return w->tables >= 4;
}

static void between_two_tables_the_time_is_told_at_every_tick(void **state)
{
    const struct proc_linux_conf conf = {10 * CLK_S, MODEL_PROCESSES_MAX, false, false};
    const struct source_pace pace = {.tick_ns = 10 * CLK_MS, .table_ns = 500 * CLK_MS};
    int64_t began_ns = os_mono_ns(), took_ns;

    begin_at(&it, &conf, pace);
    wait_for(&it, four_tables_came, NULL);
    took_ns = os_mono_ns() - began_ns;
    finish(&it);
    assert_true(took_ns >= 1400 * CLK_MS);
    assert_true(it.advances > it.tables + 10);
    assert_true((int64_t)it.advances <= took_ns / (10 * CLK_MS) + (int64_t)it.tables + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_checked),
        cmocka_unit_test(opening_survives_every_failing_allocation),
        cmocka_unit_test_teardown(polled_tables_are_complete_and_tell_no_facts, tear_down),
        cmocka_unit_test(hidden_processes_are_no_damage_and_leave_tables_complete),
        cmocka_unit_test(a_living_process_has_every_column),
        cmocka_unit_test(without_events_a_table_still_has_every_column),
        cmocka_unit_test(a_process_of_several_threads_has_every_column),
        cmocka_unit_test(ready_time_is_that_of_its_threads),
        cmocka_unit_test_teardown(
            a_copy_of_a_process_bears_its_programs_name_whatever_its_thread_is_called, tear_down),
        cmocka_unit_test_teardown(after_a_chain_of_execs_the_last_program_names_the_process,
                                  tear_down),
        cmocka_unit_test_teardown(a_signal_that_kills_shows_in_the_exit_code, tear_down),
        cmocka_unit_test_teardown(of_200_processes_that_live_20_ms_none_is_missed, tear_down),
        cmocka_unit_test_teardown(a_late_source_tells_a_burst_in_full, tear_down),
        cmocka_unit_test_teardown(totals_at_exit_equal_what_the_process_did, tear_down),
        cmocka_unit_test_teardown(between_two_tables_the_time_is_told_at_every_tick, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
