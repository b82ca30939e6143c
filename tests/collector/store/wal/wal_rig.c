#include "tests/collector/store/wal/wal_rig.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/fio_fault.h"
#include "tests/support/support.h"
#include "tests/support/t.h"

char wal_rig_dir[256];

static enum err checkpoint(void *ctx, struct wal *w, int64_t now_ns)
{
    struct wal_record r = {.kind = WAL_RANGES, .host_name = str_make(""), .bytes = "0", .n = 1};

    (void)ctx;
    return wal_add(w, &r, now_ns, NULL);
}

struct wal_conf wal_rig_conf(void)
{
    return (struct wal_conf){.dir = wal_rig_dir,
                             .fio = fio_unsynced(),
                             .window_ns = WAL_RIG_WINDOW,
                             .file_bytes = 4096,
                             .checkpoint = checkpoint};
}

struct wal *wal_rig_open(const struct wal_conf *conf)
{
    struct errmsg why = {""};
    struct wal *w = NULL;

    if (wal_open(&w, conf, &why) != ERR_OK) {
        fail_msg("%s", why.text);
    }
    return w;
}

struct wal_record wal_rig_batch(uint64_t seq, const char *bytes)
{
    return (struct wal_record){.kind = WAL_BATCH,
                               .host = {{1, 2, 3}},
                               .stream = 77,
                               .seq = seq,
                               .t0_ns = -5,
                               .t1_ns = 6,
                               .received_ns = 7,
                               .host_name = str_make("host"),
                               .bytes = bytes,
                               .n = strlen(bytes)};
}

uint64_t wal_rig_commit(struct wal *w, const struct wal_record *r, int64_t now_ns)
{
    uint64_t file = 0;

    assert_ok(wal_add(w, r, now_ns, &file));
    assert_ok(wal_commit(w, NULL));
    return file;
}

static enum err note(void *ctx, struct wal *w, uint64_t file, const struct wal_record *r)
{
    struct wal_rig_seen *s = ctx;

    if (r->kind == WAL_RANGES) {
        s->ranges++;
        return ERR_OK;
    }
    assert_true(s->batches < COUNT_OF(s->seqs));
    s->seqs[s->batches++] = r->seq;
    if (s->hold) {
        wal_hold(w, file);
    }
    return s->answer;
}

struct wal_conf wal_rig_seeing(struct wal_rig_seen *seen)
{
    struct wal_conf conf = wal_rig_conf();

    conf.replay = note;
    conf.ctx = seen;
    return conf;
}

struct wal *wal_rig_reopen(struct wal_rig_seen *seen)
{
    struct wal_conf conf = wal_rig_seeing(seen);

    return wal_rig_open(&conf);
}

uint64_t wal_rig_commit_one(struct wal *w, uint64_t seq, int64_t now_ns)
{
    struct wal_record r = wal_rig_batch(seq, "encoded batch");

    return wal_rig_commit(w, &r, now_ns);
}

struct wal_stats wal_rig_stats(const struct wal *w)
{
    struct wal_stats stats;

    wal_stats(w, &stats);
    return stats;
}

const char *wal_rig_path(uint64_t number, const char *ending)
{
    static char path[400];

    snprintf(path, sizeof path, "%s/wal-%016llx%s", wal_rig_dir, (unsigned long long)number,
             ending);
    return path;
}

int wal_rig_setup(void **state)
{
    support_temp_dir(wal_rig_dir, sizeof wal_rig_dir);
    return 0;
}

int wal_rig_teardown(void **state)
{
    support_remove_dir(wal_rig_dir);
    return 0;
}
