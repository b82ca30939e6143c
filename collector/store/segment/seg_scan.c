#include <string.h>

#include "collector/store/segment/seg_impl.h"
#include "common/base/mem.h"

#define WINDOW_BYTES (1u << 20)
#define SECTOR       4096u /* skipped when it cannot be read */

static const uint8_t magic[2] = {'P', 'V'};

void seg_scan_init(struct seg_scan *sc, struct seg_file *file, uint64_t seed, uint64_t begin,
                   uint64_t end)
{
    *sc = (struct seg_scan){.file = file, .seed = seed, .at = begin, .end = end};
}

void seg_scan_fini(struct seg_scan *sc)
{
    mem_free(sc->p);
    sc->p = NULL;
}

static enum err make_room(struct seg_scan *sc, size_t want)
{
    size_t cap = want > WINDOW_BYTES ? want : WINDOW_BYTES;
    uint8_t *grown;

    if (cap <= sc->cap) {
        return ERR_OK;
    }
    grown = mem_realloc_array(sc->p, cap, 1);
    if (!grown) {
        return ERR_NOMEM;
    }
    sc->p = grown;
    sc->cap = cap;
    return ERR_OK;
}

/* n bytes from `at` on into the window; beyond a bad sector only as few as must be. */
static enum err fill(struct seg_scan *sc, uint64_t at, size_t want)
{
    uint64_t left = sc->end - at;
    size_t n = left < sc->cap ? (size_t)left : sc->cap;
    enum err e = seg_file_read(sc->file, at, sc->p, n);

    if (e && e != ERR_NOMEM && want < n) {
        n = want;
        e = seg_file_read(sc->file, at, sc->p, n);
    }
    sc->base = at;
    sc->n = e ? 0 : n;
    return e == ERR_NOMEM || !e ? e : ERR_CORRUPT;
}

static enum err need(struct seg_scan *sc, uint64_t at, size_t want, const uint8_t **p)
{
    enum err e = ERR_OK;

    if (at > sc->end || sc->end - at < want) {
        return ERR_CORRUPT;
    }
    if (at < sc->base || at + want > sc->base + sc->n) {
        e = make_room(sc, want);
        e = e ? e : fill(sc, at, want);
    }
    if (!e) {
        *p = sc->p + (at - sc->base);
    }
    return e;
}

enum err seg_scan_record(struct seg_scan *sc, struct seg_record *r, const uint8_t **p)
{
    const uint8_t *at;
    enum err e = need(sc, sc->at, SEG_RECORD_BYTES, &at);

    if (!e && !seg_record_parse(r, at, SEG_RECORD_BYTES)) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        e = need(sc, sc->at, SEG_RECORD_BYTES + (size_t)r->length, &at);
    }
    if (!e && !seg_record_sound(r, at, sc->seed)) {
        e = ERR_CORRUPT;
    }
    if (!e) {
        *p = at + SEG_RECORD_BYTES;
        sc->at += SEG_RECORD_BYTES + (uint64_t)r->length;
    }
    return e;
}

enum err seg_scan_resync(struct seg_scan *sc)
{
    sc->at++;
    while (sc->end > sc->at && sc->end - sc->at >= SEG_RECORD_BYTES) {
        const uint8_t *p, *hit;
        size_t n;
        enum err e = need(sc, sc->at, SEG_RECORD_BYTES, &p);

        if (e == ERR_CORRUPT) { /* unreadable there */
            sc->at += SECTOR - sc->at % SECTOR;
            continue;
        }
        if (e) {
            return e;
        }
        n = sc->n - (size_t)(sc->at - sc->base);
        hit = memmem(p, n, magic, sizeof magic);
        if (hit) {
            sc->at += (uint64_t)(hit - p);
            return ERR_OK;
        }
        sc->at += n - 1;
    }
    return ERR_END;
}
