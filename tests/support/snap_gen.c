#include "tests/support/snap_gen.h"

#include <string.h>

static void set(uint8_t *p, size_t offset, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        p[offset + i] = (uint8_t)(value >> 8 * i);
    }
}

static size_t units_of(const char16_t *s)
{
    size_t n = 0;

    while (s && s[n]) {
        n++;
    }
    return n;
}

static void put_threads(uint8_t *e, size_t bytes, const struct snap_gen_process *p)
{
    for (size_t i = 0; i < p->n_threads; i++) {
        uint8_t *t = e + 0x100 + i * bytes;

        set(t, 0x00, p->threads[i].kernel, 8);
        set(t, 0x08, p->threads[i].user, 8);
        set(t, 0x10, p->threads[i].created, 8);
        set(t, 0x28, p->pid, 8);
        set(t, 0x30, p->threads[i].tid, 8);
        set(t, 0x40, p->threads[i].switches, 4);
        set(t, 0x44, p->threads[i].state, 4);
        set(t, 0x48, p->threads[i].reason, 4);
    }
}

static void put_process(uint8_t *e, const struct snap_gen_process *p)
{
    static const uint8_t wide[] = {0x08, 0x18, 0x70, 0x78, 0x88, 0x90, 0xa0,
                                   0xb0, 0xc8, 0xd0, 0xd8, 0xe0, 0xe8, 0xf0};

    for (size_t i = 0; i < sizeof wide; i++) {
        set(e, wide[i], wide[i], 8);
    }
    set(e, 0x04, p->n_threads, 4);
    set(e, 0x10, p->hard_faults, 4);
    set(e, 0x20, p->created, 8);
    set(e, 0x28, p->user, 8);
    set(e, 0x30, p->kernel, 8);
    set(e, 0x48, 8, 4);
    set(e, 0x50, p->pid, 8);
    set(e, 0x58, p->parent, 8);
    set(e, 0x60, 0x60, 4);
    set(e, 0x64, p->session, 4);
    set(e, 0x80, p->page_faults, 4);
}

void snap_gen_put(struct buf *b, uint64_t base, bool full, const struct snap_gen_process *p,
                  bool last)
{
    size_t thread_bytes = full ? 0x88 : 0x50, units = units_of(p->name);
    size_t behind = 0x100 + p->n_threads * thread_bytes;
    size_t name = behind + (p->extension ? 0x180 : 0);
    size_t sid = (name + 2 * units + (units ? 2 : 0) + 7) / 8 * 8;
    size_t bytes = (sid + p->sid_n + 7) / 8 * 8;
    uint64_t start = base + b->n;
    uint8_t *e = buf_grow(b, bytes);

    if (!e) {
        return;
    }
    memset(e, 0, bytes);
    put_process(e, p);
    put_threads(e, thread_bytes, p);
    set(e, 0x00, last ? 0 : bytes, 4);
    if (p->extension) {
        set(e + behind, 0x00, p->disk_read, 8);
        set(e + behind, 0x08, p->disk_write, 8);
        set(e + behind, 0x28, p->switches, 8);
        set(e + behind, 0x168, p->sequence, 8);
    }
    if (p->sid) {
        set(e + behind, 0x34, sid - behind, 4);
        memcpy(e + sid, p->sid, p->sid_n);
    }
    if (units) {
        set(e, 0x38, 2 * units, 2);
        set(e, 0x3a, 2 * units + 2, 2);
        set(e, 0x40, start + name, 8);
        for (size_t i = 0; i < units; i++) {
            set(e + name, 2 * i, p->name[i], 2);
        }
    }
}
