#include "collector/subscribe/journal_scan.h"

#include <string.h>

#include "common/base/mem.h"

#define WINDOW_BYTES (4u << 20) /* at least JOURNAL_RECORD_MAX */

/* A window over the file, moved forward as it is read. */
struct window {
    const struct journal_scan *job;
    uint8_t *p;
    size_t cap, n; /* of p */
    uint64_t base; /* offset of p[0] */
};

/* The bytes from `at` on: a whole record, unless the file ends before. */
static enum err window_at(struct window *w, uint64_t at, const uint8_t **p, size_t *n)
{
    const struct journal_scan *job = w->job;
    uint64_t left = job->size - at;
    size_t want = left < JOURNAL_RECORD_MAX ? (size_t)left : JOURNAL_RECORD_MAX;

    if (at < w->base || at + want > w->base + w->n) {
        enum err e = job->fio->read(job->fio->ctx, job->f, at, w->p, w->cap, &w->n);

        if (e) {
            w->n = 0;
            return e;
        }
        w->base = at;
        if (w->n < want) {
            return ERR_IO; /* the file shrank under us */
        }
    }
    *p = w->p + (at - w->base);
    *n = (size_t)(w->base + w->n - at);
    return ERR_OK;
}

/* Moves *at to the next place behind it where a record may begin; to the end when there is none. */
static enum err next_magic(struct window *w, uint64_t *at)
{
    const uint8_t *p, *hit = NULL;
    size_t n;

    (*at)++;
    while (w->job->size - *at > JOURNAL_RECORD_FIXED) {
        enum err e = window_at(w, *at, &p, &n);

        if (e) {
            return e;
        }
        hit = memmem(p, n, JOURNAL_RECORD_MAGIC, 4);
        if (hit) {
            *at += (uint64_t)(hit - p);
            return ERR_OK;
        }
        *at += n > 4 ? n - 3 : n;
    }
    *at = w->job->size;
    return ERR_OK;
}

static enum err scan_records(struct window *w, struct journal_scanned *out)
{
    uint64_t at = out->header.bytes;
    enum err e = ERR_OK;

    out->end = at;
    while (!e && at < w->job->size) {
        struct journal_part part;
        struct journal_found found = {
            .header = &out->header, .part = &part, .offset = at, .damaged = at - out->end};
        const uint8_t *p;
        size_t n;

        e = window_at(w, at, &p, &n);
        if (!e && journal_part_parse(&part, &found.bytes, p, n, out->header.seed) != ERR_OK) {
            e = next_magic(w, &at);
            continue;
        }
        if (!e) {
            e = w->job->each(w->job->ctx, &found);
            at += found.bytes;
            out->damaged += found.damaged;
            out->end = at;
        }
    }
    return e;
}

enum err journal_scan(struct journal_scanned *out, const struct journal_scan *job)
{
    struct window w = {.job = job};
    struct journal_scanned done = {.end = 0};
    const uint8_t *p;
    size_t n;
    enum err e;

    w.cap = job->size < WINDOW_BYTES ? (size_t)job->size : WINDOW_BYTES;
    w.p = mem_alloc(w.cap);
    if (!w.p) {
        return ERR_NOMEM;
    }
    e = window_at(&w, 0, &p, &n);
    if (!e) {
        e = journal_header_parse(&done.header, p, n);
    }
    if (!e) {
        e = scan_records(&w, &done);
    }
    mem_free(w.p);
    if (!e) {
        *out = done;
    }
    return e;
}
