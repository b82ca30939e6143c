/* The manifest made anew from what the segments say of themselves. It was lost or damaged, so what
 * it would have dropped may still be there: inputs of a compaction beside their result. A segment
 * whose every host and window another, newer one of its kind has with the same stamps is such an
 * input; it is left out and removed when the store opens. What cannot be read is put aside as
 * NAME.bad. Which minutes are in an hour already follows from their numbers: an hour is made after
 * its minutes. */
#include "collector/store/manifest/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/store/manifest/manifest_disk.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/os.h"
#include "common/reclog/reclog.h"

struct rebuild {
    const struct manifest_conf *conf;
    struct seg_info *all; /* by number */
    size_t n, cap;
    struct errmsg *why;
};

static enum err put_aside(const struct manifest_conf *conf, const char *name)
{
    char bad[SEG_NAME_MAX + 8];
    char *from = os_path_join(conf->dir, name), *to;
    enum err e = ERR_NOMEM;

    (void)snprintf(bad, sizeof bad, "%s.bad", name);
    to = os_path_join(conf->dir, bad);
    if (from && to) {
        e = conf->fio->rename(conf->fio->ctx, from, to);
    }
    mem_free(from);
    mem_free(to);
    return e;
}

static enum err keep(struct rebuild *r, const struct seg_info *info)
{
    enum err e = VEC_ROOM(&r->all, &r->cap, r->n + 1, MANIFEST_SEGMENTS_MAX);

    if (!e) {
        r->all[r->n++] = *info;
    }
    return e;
}

static enum err look_at(void *ctx, const char *name)
{
    struct rebuild *r = ctx;
    char own[SEG_NAME_MAX];
    struct seg *s = NULL;
    enum err e;

    if (!seg_name_is(name)) {
        return ERR_OK;
    }
    e = seg_open_name(&s, r->conf->fio, NULL, r->conf->dir, name, r->why);
    if (e == ERR_CORRUPT) {
        return put_aside(r->conf, name);
    }
    if (e) {
        return e;
    }
    seg_name(own, seg_info_of(s));
    e = strcmp(own, name) == 0 ? keep(r, seg_info_of(s)) : put_aside(r->conf, name);
    seg_close(s);
    return e;
}

/* -- what another one holds -- */

/* Whether b has this host's data of this window, under whatever index. */
static bool has_span(const struct seg *b, const struct seg_host *host, int64_t window_ns,
                     struct seg_span span)
{
    size_t i = seg_find_host(b, &host->id);

    if (i == seg_hosts(b)) {
        return false;
    }
    for (unsigned k = 0; k < seg_info_of(b)->n_windows; k++) {
        struct seg_span at = seg_host(b, i)->at[k];

        if (seg_window(b, k) == window_ns && at.t0_ns == span.t0_ns && at.t1_ns == span.t1_ns) {
            return true;
        }
    }
    return false;
}

static bool is_inside(const struct seg *a, const struct seg *b)
{
    bool any = false;

    for (size_t i = 0; i < seg_hosts(a); i++) {
        const struct seg_host *host = seg_host(a, i);

        for (unsigned k = 0; k < seg_info_of(a)->n_windows; k++) {
            if (host->at[k].t1_ns < host->at[k].t0_ns) {
                continue;
            }
            if (!has_span(b, host, seg_window(a, k), host->at[k])) {
                return false;
            }
            any = true;
        }
    }
    return any;
}

static bool may_hold(const struct seg_info *a, const struct seg_info *b)
{
    return b->kind == a->kind && b->number > a->number && b->window_ns <= a->window_ns &&
           b->window_ns + b->span_ns >= a->window_ns + a->span_ns && b->values >= a->values;
}

static enum err is_superseded(const struct rebuild *r, size_t i, bool *out)
{
    const struct manifest_conf *conf = r->conf;
    struct seg *a = NULL;
    enum err e = ERR_OK;

    *out = false;
    for (size_t k = i + 1; k < r->n && !e && !*out; k++) {
        struct seg *b = NULL;

        if (!may_hold(&r->all[i], &r->all[k])) {
            continue;
        }
        e = a ? ERR_OK : seg_open(&a, conf->fio, conf->dir, &r->all[i], r->why);
        e = e ? e : seg_open(&b, conf->fio, conf->dir, &r->all[k], r->why);
        *out = !e && is_inside(a, b);
        seg_close(b);
    }
    seg_close(a);
    return e;
}

static enum err leave_out_inputs(struct rebuild *r)
{
    bool *gone = mem_array(r->n, sizeof *gone);
    size_t kept = 0;
    enum err e = gone ? ERR_OK : ERR_NOMEM;

    for (size_t i = 0; i < r->n && !e; i++) {
        e = is_superseded(r, i, &gone[i]);
    }
    for (size_t i = 0; i < r->n && !e; i++) {
        if (!gone[i]) {
            r->all[kept++] = r->all[i];
        }
    }
    r->n = e ? r->n : kept;
    mem_free(gone);
    return e;
}

static void tell_minutes(struct rebuild *r)
{
    for (size_t i = 0; i < r->n; i++) {
        struct seg_info *minute = &r->all[i];

        for (size_t k = i + 1; k < r->n && minute->kind == SEG_1MIN; k++) {
            const struct seg_info *hour = &r->all[k];

            if (hour->kind == SEG_1H && hour->window_ns <= minute->window_ns &&
                hour->window_ns + hour->span_ns >= minute->window_ns + minute->span_ns) {
                minute->in_hour = true;
            }
        }
    }
}

enum err manifest_rebuild(const struct manifest_conf *conf, uint64_t *found, struct errmsg *why)
{
    struct rebuild r = {.conf = conf, .why = why};
    uint64_t next = 1;
    struct manifest_disk disk = {.fio = conf->fio};
    enum err e = os_list_dir(conf->dir, look_at, &r);

    if (!e && r.n > 0) {
        qsort(r.all, r.n, sizeof *r.all, reclog_by_number);
        next = r.all[r.n - 1].number + 1;
    }
    if (!e) {
        e = leave_out_inputs(&r);
    }
    if (!e) {
        tell_minutes(&r);
        disk.dir = mem_strdup(conf->dir);
        e = disk.dir ? manifest_disk_replace(&disk, r.all, r.n, next, why) : ERR_NOMEM;
        manifest_disk_close(&disk);
        mem_free(disk.dir);
    }
    if (!e) {
        *found = r.n;
    } else if (why && !why->text[0]) {
        errmsg_set(why, e, "cannot make the list of segments in %s anew: %s", conf->dir,
                   err_text(e));
    }
    mem_free(r.all);
    return e;
}
