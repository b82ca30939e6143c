#include "tests/fuzz/etl_shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/source/trace/etl_buffer.h"
#include "common/base/cur.h"
#include "tests/support/etl_writer.h"

static void give_up(const char *what)
{
    fprintf(stderr, "etl_shape: %s\n", what);
    exit(1);
}

static void open_file(struct etl_writer *w, struct cur *c)
{
    struct etl_writer_conf conf = etl_writer_defaults();
    uint8_t kind = cur_u8(c), clock = cur_u8(c), cpus = cur_u8(c);

    conf.pointer_size = kind & ETL_SHAPE_WIDE ? 8 : 4;
    conf.mode = kind & ETL_SHAPE_CIRCLE ? ETL_MODE_CIRCULAR : 1;
    conf.end = kind & ETL_SHAPE_UNENDED ? 0 : conf.end;
    conf.narrow_cpu = (kind & 8) != 0;
    conf.clock = clock & 3;
    conf.frequency = clock & 4 ? 0 : clock & 8 ? 1 : 10000000;
    conf.cpu_mhz = clock & 16 ? 0 : 3000;
    conf.cpus = cpus & 7;
    conf.buffer_size = 0x1000u << (cpus >> 6);
    conf.events_lost = cur_u8(c);
    conf.buffers_lost = cur_u8(c);
    conf.buffers_written = cur_u8(c);
    conf.build = cur_u16le(c);
    etl_writer_init(w, &conf);
}

static void add_chunk(struct etl_writer *w, struct cur *c)
{
    uint8_t kind = cur_u8(c), flags = cur_u8(c);
    size_t n = cur_u16le(c), left = cur_left(c);
    const uint8_t *p;

    n = n < left ? n : left;
    n = n < w->buffer_size - ETL_BUFFER_HEADER ? n : w->buffer_size - ETL_BUFFER_HEADER;
    p = cur_bytes(c, n);
    if (c->bad) {
        return;
    }
    etl_writer_close(w);
    etl_writer_buffer_as(w, kind >> 4, flags, kind >> 1 & 7);
    etl_writer_bytes(w, p, n);
    if (kind & ETL_SHAPE_PACK) {
        etl_writer_close_compressed(w);
        etl_writer_buffer(w, 0, 0);
    }
}

static void build(struct etl_writer *w, const uint8_t *p, size_t n)
{
    struct cur c = cur_make(p, n);

    open_file(w, &c);
    while (cur_left(&c) >= 4) {
        add_chunk(w, &c);
    }
    etl_writer_close(w);
}

static void save(int fd, const uint8_t *p, size_t n)
{
    if (ftruncate(fd, 0) || pwrite(fd, p, n, 0) != (ssize_t)n) {
        give_up("cannot write");
    }
}

static const char *one_file(size_t which, const uint8_t *p, size_t n)
{
    static struct {
        char path[64];
        int fd;
    } files[2] = {{.fd = -1}, {.fd = -1}};
    int *fd = &files[which].fd;
    struct etl_writer w;

    if (*fd < 0) {
        *fd = memfd_create("fuzz.etl", 0);
        (void)snprintf(files[which].path, sizeof files[which].path, "/proc/self/fd/%d", *fd);
    }
    if (*fd < 0) {
        give_up("no file in memory");
    }
    if (n >= ETL_SHAPE_HEADER && p[0] == 1) {
        build(&w, p + 1, n - 1);
        save(*fd, w.file.p, w.file.n);
        etl_writer_fini(&w);
    } else {
        save(*fd, p + (n > 0), n - (n > 0));
    }
    return files[which].path;
}

size_t etl_shape_files(const char *paths[2], const uint8_t *p, size_t n)
{
    size_t first;

    if (n < 3 || p[0] != 2) {
        paths[0] = one_file(0, p, n);
        return 1;
    }
    first = (p[1] | (size_t)p[2] << 8) % (n - 2);
    paths[0] = one_file(0, p + 3, first);
    paths[1] = one_file(1, p + 3 + first, n - 3 - first);
    return 2;
}
