/* Every recording of the corpus through the agent's stages: what each process is charged for,
 * against figures that were computed independently. */
#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/agent/account/trace_reader.h"
#include "tests/support/corpus.h"

/* -- figures -- */

static uint64_t sum_of(const struct instance *p, uint32_t pid, enum counters_id id)
{
    uint64_t n = 0;

    for (; p; p = p->next) {
        n += p->info.id.pid == pid ? p->tally.n[id] : 0;
    }
    return n;
}

/* All instances of the pid together. */
static uint64_t of_pid(const struct reader *r, const char *pid, enum counters_id id)
{
    unsigned n;

    if (sscanf(pid, "%u", &n) != 1) {
        return aggregate_unattributed(r->stages.agg)->n[id]; /* "None" */
    }
    return sum_of(instances_first_running(r->stages.table), n, id) +
           sum_of(instances_first_ended(r->stages.table), n, id);
}

static uint64_t of_all(const struct reader *r, enum counters_id id)
{
    const struct instance *lists[] = {instances_first_running(r->stages.table),
                                      instances_first_ended(r->stages.table)};
    uint64_t n = aggregate_unattributed(r->stages.agg)->n[id];

    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        for (const struct instance *p = lists[i]; p; p = p->next) {
            n += p->tally.n[id];
        }
    }
    return n;
}

/* Where our attribution is better than that of the figures: version 2 of DiskIo by the issuer of
 * the request instead of by who was interrupted when it completed. */
static const struct better {
    const char *name, *key, *pid;
    uint64_t theirs, ours;
} betters[] = {
    {"net.4.5.x86-win7", "writes_by_pid", "4", 469, 470},
    {"net.4.5.x86-win7", "writes_by_pid", "436", 1, 0},
    {"net.4.5.x86-win7", "write_bytes_by_pid", "4", 25995264, 26011648},
    {"net.4.5.x86-win7", "write_bytes_by_pid", "436", 16384, 0},
};

static uint64_t expected_of(const char *name, const char *key, const char *pid, uint64_t theirs)
{
    for (size_t i = 0; i < COUNT_OF(betters); i++) {
        const struct better *b = &betters[i];

        if (strcmp(b->name, name) == 0 && strcmp(b->key, key) == 0 && strcmp(b->pid, pid) == 0) {
            assert_int_equal(theirs, b->theirs);
            return b->ours;
        }
    }
    return theirs;
}

static const struct figure {
    const char *group, *key; /* group NULL: the figures themselves */
    enum counters_id id;
} figures_of_tally[] = {
    {NULL, "samples_by_pid", COUNTERS_SAMPLES},
    {NULL, "cswitch_in_by_pid", COUNTERS_SWITCHES_IN},
    {NULL, "hardfaults_by_pid", COUNTERS_HARD_FAULTS},
    {NULL, "hardfault_bytes_by_pid", COUNTERS_HARD_FAULT_BYTES},
    {NULL, "softfaults_by_pid", COUNTERS_SOFT_FAULTS},
    {NULL, "image_loads_by_pid", COUNTERS_IMAGE_LOADS},
    {NULL, "image_rundown_by_pid", COUNTERS_IMAGE_RUNDOWN},
    {"threads", "started_by_pid", COUNTERS_THREADS_STARTED},
    {"threads", "ended_by_pid", COUNTERS_THREADS_ENDED},
    {"threads", "rundown_by_pid", COUNTERS_THREAD_RUNDOWN},
    {"disk", "reads_by_pid", COUNTERS_DISK_READS},
    {"disk", "writes_by_pid", COUNTERS_DISK_WRITES},
    {"disk", "read_bytes_by_pid", COUNTERS_DISK_READ_BYTES},
    {"disk", "write_bytes_by_pid", COUNTERS_DISK_WRITE_BYTES},
    {"net_bytes_by_pid", "tcp_send", COUNTERS_TCP_SEND},
    {"net_bytes_by_pid", "tcp_recv", COUNTERS_TCP_RECV},
    {"net_bytes_by_pid", "udp_send", COUNTERS_UDP_SEND},
    {"net_bytes_by_pid", "udp_recv", COUNTERS_UDP_RECV},
};

/* The figures are of the kernel's classic records. What events of the provider Kernel-Network add,
 * by expected/manifest-tx-KernelNetwork.json; e2e_etl compares them process by process. */
static const struct {
    const char *name, *key;
    uint64_t all;
} of_manifests[] = {
    {"tx-KernelNetwork", "tcp_send", 68651},
    {"tx-KernelNetwork", "tcp_recv", 15324168},
    {"tx-KernelNetwork", "udp_send", 2912},
    {"tx-KernelNetwork", "udp_recv", 9792},
};

static uint64_t of_manifest(const char *name, const char *key)
{
    for (size_t i = 0; i < COUNT_OF(of_manifests); i++) {
        if (strcmp(of_manifests[i].name, name) == 0 && strcmp(of_manifests[i].key, key) == 0) {
            return of_manifests[i].all;
        }
    }
    return 0;
}

static size_t n_compared;

static void compare(const struct reader *r, const char *name, const json_t *figures,
                    const struct figure *f)
{
    json_t *group = f->group ? json_object_get(figures, f->group) : (json_t *)(uintptr_t)figures;
    json_t *by_pid = json_object_get(group, f->key), *value;
    uint64_t all = 0;
    const char *pid;

    json_object_foreach(by_pid, pid, value)
    {
        uint64_t want = expected_of(name, f->key, pid, (uint64_t)json_integer_value(value));
        uint64_t got = of_pid(r, pid, f->id);

        if (got != want) {
            fail_msg("%s: %s of %s is %llu, expected %llu", name, f->key, pid,
                     (unsigned long long)got, (unsigned long long)want);
        }
        all += want;
        n_compared++;
    }
    all += of_manifest(name, f->key);
    if (of_all(r, f->id) != all) {
        fail_msg("%s: %s in all %llu, expected %llu", name, f->key,
                 (unsigned long long)of_all(r, f->id), (unsigned long long)all);
    }
}

static void check_recording(const char *name, const json_t *figures)
{
    char path[1024];
    struct reader r;

    reader_run(&r, corpus_recording(path, sizeof path, name));
    for (size_t i = 0; i < COUNT_OF(figures_of_tally); i++) {
        compare(&r, name, figures, &figures_of_tally[i]);
    }
    assert_int_equal(aggregate_stats(r.stages.agg)->disk_unmatched, 0);
    assert_int_equal(instances_stats(r.stages.table)->full, 0);
    assert_int_equal(instances_stats(r.stages.table)->threads_full, 0);
    reader_fini(&r);
}

static void every_process_is_charged_with_what_the_figures_say(void **state)
{
    size_t n = corpus_each(check_recording);

    print_message("%zu recordings, %zu figures\n", n, n_compared);
    assert_true(n_compared > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_process_is_charged_with_what_the_figures_say),
    };

    return corpus_dir() ? cmocka_run_group_tests(tests, NULL, NULL) : CORPUS_SKIP;
}
