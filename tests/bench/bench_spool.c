/* What the spool costs per batch: written and made durable one by one and in groups, and read back;
 * bytes on disk per byte of batch. The directory is the first argument. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/spool/spool_disk.h"
#include "common/base/clk.h"
#include "common/os/os.h"
#include "tests/support/fleetgen.h"

#define BATCHES 200u

static void check(enum err e)
{
    if (e) {
        fprintf(stderr, "bench_spool: %s\n", err_text(e));
        exit(1);
    }
}

static struct spool_disk *open_in(const char *dir)
{
    struct spool_disk_conf conf = {dir, fio_os(), 64u << 20, 3600 * CLK_S};
    struct spool_disk *d;
    struct errmsg why = {""};

    if (spool_disk_open(&d, &conf, &why)) {
        fprintf(stderr, "bench_spool: %s\n", why.text);
        exit(1);
    }
    return d;
}

static int64_t write_in_groups(struct spool_disk *d, const struct buf *b, unsigned group)
{
    int64_t t0_ns = os_mono_ns();

    for (unsigned i = 1; i <= BATCHES; i++) {
        check(spool_disk_add(d, os_utc_ns(), b->p, b->n));
        if (i % group == 0) {
            check(spool_disk_commit(d));
        }
    }
    return (os_mono_ns() - t0_ns) / BATCHES;
}

static int64_t read_all(struct spool_disk *d, unsigned *n)
{
    int64_t t0_ns = os_mono_ns();
    struct spool_taken t;
    struct buf content;

    buf_init(&content, SPOOL_BATCH_MAX);
    for (*n = 0; spool_disk_next(d, &content, &t) == ERR_OK; (*n)++) {
        spool_disk_ack(d, &t);
    }
    buf_fini(&content);
    return (os_mono_ns() - t0_ns) / (*n ? *n : 1);
}

int main(int argc, char **argv)
{
    static const unsigned groups[] = {1, 10, 50};
    const char *dir = argc > 1 ? argv[1] : "bench-spool";
    struct fleetgen *g = fleetgen_create(&(struct fleetgen_conf){.seed = 1});
    struct wire_encoder *enc;
    struct buf b;

    check(os_mkdirs(dir, true));
    check(wire_batch_encoder_create(&enc));
    buf_init(&b, WIRE_BATCH_BYTES_MAX);
    check(wire_batch_encode(enc, &b, fleetgen_batch(g, 10)));
    printf("batch of 10 ticks, 150 processes: %zu bytes\n", b.n);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        struct spool_disk *d = open_in(dir);
        struct spool_disk_stats before, s;
        int64_t write_ns, cpu_ns = os_cpu_ns(), read_ns;
        unsigned n;

        spool_disk_stats(d, &before);
        write_ns = write_in_groups(d, &b, groups[i]);
        cpu_ns = (os_cpu_ns() - cpu_ns) / BATCHES;
        spool_disk_stats(d, &s);
        read_ns = read_all(d, &n);
        printf("%2u batches a sync: %8lld ns a batch (CPU %lld ns), %.1f bytes on disk beside the "
               "batch, read %lld ns\n",
               groups[i], (long long)write_ns, (long long)cpu_ns,
               (double)(s.bytes - before.bytes) / BATCHES - (double)b.n, (long long)read_ns);
        spool_disk_close(d);
    }
    wire_batch_encoder_destroy(enc);
    buf_fini(&b);
    fleetgen_destroy(g);
    return 0;
}
