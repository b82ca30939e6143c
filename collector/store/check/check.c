/* Segments: those the manifest names; when it cannot be read, all there are. With repair a damaged
 * one is written anew from what is sound in it and gets its new sizes in the manifest; one without
 * anything readable is put aside. A manifest of which a part was unreadable is written anew with an
 * empty change; one that cannot be read at all is rebuilt from the segments after they are
 * repaired. The log is only read: the collector cuts its torn end, passes over what is damaged and
 * puts aside what it cannot read at all by itself; a file of it goes when its batches are sealed.
 * */
#include "collector/store/check/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/db/db.h"
#include "collector/store/hosts.h"
#include "collector/store/manifest/manifest.h"
#include "collector/store/segment/seg.h"
#include "collector/store/segment/seg_scan.h"
#include "collector/store/wal/wal_index.h"
#include "collector/store/wal/wal_source.h"
#include "common/base/mem.h"
#include "common/base/vec.h"
#include "common/os/fio.h"
#include "common/os/os.h"

/* -- derived files: hosts, the catalogue, the indexes of the log. A damaged one costs time at the
 * next start (hosts: their counts), so a repair removes it. -- */

struct check_derived {
    const struct check_conf *conf;
    /* One that is not sound; count has its files, bytes and values already. */
    void (*tell)(void *ctx, struct check_count *count, const struct check_file *f);
    void *ctx;
};

#define NAME_MAX_BYTES 64u /* of a file of ours, with its directory */

/* Bytes of a file; those that cannot be opened have none. */
static enum err size_of(const struct fio *fio, const char *path, uint64_t *bytes)
{
    struct fio_file *f;
    enum err e = fio->open(fio->ctx, &f, path);

    if (!e) {
        e = fio->size(fio->ctx, f, bytes);
        fio->close(fio->ctx, f);
    }
    return e;
}

/* e: that of removing it, when that was tried. */
static enum err derived_repair(const struct check_derived *b, struct check_count *count,
                               struct check_file *f, enum err e)
{
    bool gone = b->conf->repair && (!e || e == ERR_NOTFOUND);

    f->state = gone ? CHECK_MENDED : CHECK_DAMAGED;
    b->tell(b->ctx, count, f);
    return e == ERR_NOTFOUND ? ERR_OK : e;
}

/* -- hosts -- */

static enum err decode_hosts(const struct fio *fio, const char *path, size_t *n, uint64_t *bytes)
{
    struct head_record *list = NULL;
    uint64_t number;
    struct buf b;
    enum err e;

    buf_init(&b, HOSTS_BYTES_MAX);
    e = fio_read_whole(fio, path, &b);
    *bytes = b.n;
    e = e ? e : hosts_decode(b.p, b.n, &number, &list, n);
    buf_fini(&b);
    mem_free(list);
    return e;
}

/* A file that goes meanwhile is none. Errors: ERR_IO, ERR_ACCESS, ERR_NOMEM */
static enum err check_hosts(const struct check_derived *b, struct check_count *count)
{
    struct check_file f = {.name = "hosts", .damaged = 1};
    char *path = os_path_join(b->conf->data_dir, f.name);
    uint64_t bytes = 0;
    size_t n = 0;
    enum err e = path ? decode_hosts(b->conf->fio, path, &n, &bytes) : ERR_NOMEM;

    if (!e || e == ERR_CORRUPT || e == ERR_IO) {
        count->files++;
        count->bytes += bytes;
        count->values += n;
    }
    if (e == ERR_CORRUPT || e == ERR_IO) {
        e = b->conf->repair ? b->conf->fio->remove(b->conf->fio->ctx, path) : ERR_OK;
        e = derived_repair(b, count, &f, e);
    }
    mem_free(path);
    return e == ERR_NOTFOUND || e == ERR_VERSION ? ERR_OK : e;
}

/* -- files of a directory -- */

struct looking {
    const struct check_derived *b;
    struct check_count *count;
    char *dir;
    const char *sub; /* its name in data_dir */
    enum err (*look)(struct looking *x, const char *name, const char *path, struct check_file *f);
    const char *suffix;
};

static enum err look_at(void *ctx, const char *name)
{
    struct looking *x = ctx;
    const struct fio *fio = x->b->conf->fio;
    size_t n = strlen(name), k = strlen(x->suffix);
    char shown[NAME_MAX_BYTES];
    struct check_file f = {.name = shown};
    uint64_t bytes = 0;
    char *path;
    enum err e = ERR_NOMEM;

    if (n <= k || strcmp(name + n - k, x->suffix) != 0) {
        return ERR_OK;
    }
    (void)snprintf(shown, sizeof shown, "%s/%s", x->sub, name);
    path = os_path_join(x->dir, name);
    if (path) {
        e = size_of(fio, path, &bytes);
        e = e ? e : x->look(x, name, path, &f);
    }
    if (!e) {
        x->count->files++;
        x->count->bytes += bytes;
        x->count->values += f.values;
    }
    if (!e && f.damaged) {
        e = derived_repair(x->b, x->count, &f,
                           x->b->conf->repair ? fio->remove(fio->ctx, path) : ERR_OK);
    }
    mem_free(path);
    return e == ERR_NOTFOUND ? ERR_OK : e; /* it went meanwhile */
}

static enum err look_in(struct looking *x)
{
    enum err e = ERR_OK;

    x->dir = os_path_join(x->b->conf->data_dir, x->sub);
    if (!x->dir) {
        return ERR_NOMEM;
    }
    if (os_exists(x->dir)) {
        e = os_list_dir(x->dir, look_at, x);
    }
    mem_free(x->dir);
    return e;
}

/* -- catalogue -- */

static enum err look_at_day(struct looking *x, const char *name, const char *path,
                            struct check_file *f)
{
    const struct fio *fio = x->b->conf->fio;
    static const char *const beside[] = {"-wal", "-shm"};
    enum err e = db_file_check(fio, path, 1, &f->values, &f->damaged);

    (void)name;
    for (size_t i = 0; !e && f->damaged && x->b->conf->repair && i < 2; i++) {
        char *other = mem_alloc(strlen(path) + 8);

        if (!other) {
            return ERR_NOMEM;
        }
        (void)snprintf(other, strlen(path) + 8, "%s%s", path, beside[i]);
        e = fio->remove(fio->ctx, other);
        e = e == ERR_NOTFOUND ? ERR_OK : e;
        mem_free(other);
    }
    return e;
}

static enum err check_catalogue(const struct check_derived *b, struct check_count *count)
{
    struct looking x = {b, count, NULL, "catalogue", look_at_day, ".db"};

    return look_in(&x);
}

/* -- indexes of the log -- */

static enum err derived_count_record(void *ctx, const struct wal_record *r)
{
    (void)r;
    ++*(uint64_t *)ctx;
    return ERR_OK;
}

/* One whose file of the log is gone says nothing; one whose file's header is, may be all that still
 * says how that can be read. */
static enum err look_at_index(struct looking *x, const char *name, const char *path,
                              struct check_file *f)
{
    const struct fio *fio = x->b->conf->fio;
    struct wal_index_job job = {
        .fio = fio, .path = path, .each = derived_count_record, .ctx = &f->values};
    struct wal_header header;
    struct wal_source *log = NULL;
    struct fio_file *file;
    uint64_t bytes;
    char *of;
    enum err e;

    if (!fio_name_parse(&job.number, name, "wal-", WAL_INDEX_SUFFIX)) {
        return ERR_OK;
    }
    of = fio_name_path(x->dir, "wal-", job.number, ".log");
    e = of ? fio->open(fio->ctx, &file, of) : ERR_NOMEM;
    mem_free(of);
    if (e) {
        return e;
    }
    e = fio->size(fio->ctx, file, &job.log_bytes);
    e = e ? e : wal_source_header(&header, fio, file, job.number);
    e = e ? e : wal_source_create(&log, fio, file, &header);
    if (e) {
        fio->close(fio->ctx, file);
        return e == ERR_CORRUPT || e == ERR_VERSION ? ERR_OK : e;
    }
    job.log = log;
    e = wal_index_replay(&job, &bytes);
    f->damaged = e == ERR_NOTFOUND && !wal_index_is_torn(fio, path);
    wal_source_unref(log);
    return e == ERR_NOTFOUND ? ERR_OK : e;
}

static enum err check_indexes(const struct check_derived *b, struct check_count *count)
{
    struct looking x = {b, count, NULL, "wal", look_at_index, WAL_INDEX_SUFFIX};

    return look_in(&x);
}

struct check {
    const struct check_conf *conf;
    char *segments, *wal; /* directories */
    struct os_lock *lock;
    struct manifest *m; /* NULL: cannot be read */
    uint64_t done_bytes, total_bytes;
    struct check_result result;
    struct errmsg *why;
};

/* -- reporting -- */

static void check_progress(struct check *c, uint64_t bytes)
{
    c->done_bytes += bytes;
    if (c->conf->on_progress) {
        c->conf->on_progress(c->conf->ctx, c->done_bytes, c->total_bytes);
    }
}

static void check_tell(struct check *c, struct check_count *count, const struct check_file *f)
{
    count->damaged_files++;
    count->damaged += f->damaged;
    count->lost += f->lost;
    c->result.mended |= f->state == CHECK_MENDED || f->state == CHECK_ASIDE;
    c->result.damaged |=
        f->state == CHECK_DAMAGED || f->state == CHECK_MISSING || f->state == CHECK_KEPT;
    if (c->conf->on_file) {
        c->conf->on_file(c->conf->ctx, f);
    }
}

/* -- one segment -- */

static enum err replace_info(struct check *c, const struct seg_info *old,
                             const struct seg_info *new)
{
    struct seg_info info = new ? *new : *old;
    enum err e;

    if (!c->m) { /* made anew from the segments later */
        return ERR_OK;
    }
    info.in_hour = old->in_hour;
    e = manifest_change(c->m, &info, new ? 1 : 0, &old->number, 1, c->why);
    if (!e) {
        manifest_publish(c->m);
    }
    return e;
}

static enum err rename_in(struct check *c, const char *name, const char *as)
{
    const struct fio *fio = c->conf->fio;
    char *from = os_path_join(c->segments, name), *to = os_path_join(c->segments, as);
    enum err e = from && to ? fio->rename(fio->ctx, from, to) : ERR_NOMEM;

    mem_free(from);
    mem_free(to);
    return e;
}

static enum err put_aside(struct check *c, const char *name)
{
    char bad[SEG_NAME_MAX + 8];

    (void)snprintf(bad, sizeof bad, "%s.bad", name);
    return rename_in(c, name, bad);
}

/* known: what the manifest says of it; NULL: nothing. */
static enum err check_mend(struct check *c, const struct seg_info *known, struct check_file *f)
{
    struct seg_info new = {.values = known ? known->values : 0};
    uint64_t kept = 0;
    enum err e =
        seg_scan_salvage(c->conf->fio, c->segments, f->name, &new, &kept, &f->lost, c->why);

    if (!e) {
        f->state = CHECK_MENDED;
        return known ? replace_info(c, known, &new) : ERR_OK;
    }
    if (e != ERR_CORRUPT) {
        return e;
    }
    f->state = CHECK_ASIDE;
    e = put_aside(c, f->name);
    return !e && known ? replace_info(c, known, NULL) : e;
}

static enum err check_verify(struct check *c, struct check_file *f, unsigned *kind, uint64_t *bytes)
{
    struct seg *s = NULL;
    enum err e = seg_open_name(&s, c->conf->fio, NULL, c->segments, f->name, c->why);

    if (!e) {
        *kind = seg_info_of(s)->kind;
        *bytes = seg_info_of(s)->bytes;
        e = seg_scan_verify(s, &f->values, &f->damaged);
    }
    seg_close(s);
    if (e == ERR_CORRUPT || e == ERR_IO) {
        f->damaged = 1;
        e = ERR_OK;
    }
    f->state = f->damaged > 0 ? CHECK_DAMAGED : CHECK_SOUND;
    return e;
}

static unsigned kind_of(const char *name)
{
    for (unsigned kind = SEG_RAW; kind < SEG_KINDS; kind++) {
        const char *text = seg_kind_name(kind);

        if (strncmp(name, text, strlen(text)) == 0 && name[strlen(text)] == '-') {
            return kind;
        }
    }
    return SEG_RAW;
}

static enum err check_segment(struct check *c, const char *name, const struct seg_info *known)
{
    struct check_file f = {.name = name};
    unsigned kind = kind_of(name);
    uint64_t bytes = known ? known->bytes : 0;
    struct check_count *count;
    enum err e = check_verify(c, &f, &kind, &bytes);

    if (e == ERR_NOTFOUND && !c->conf->repair) { /* dropped meanwhile */
        return ERR_OK;
    }
    if (e) {
        return e;
    }
    count = &c->result.kinds[kind];
    count->files++;
    count->bytes += bytes;
    count->values += f.values;
    if (f.damaged > 0 && c->conf->repair) {
        e = check_mend(c, known, &f);
    }
    if (f.damaged > 0) {
        check_tell(c, count, &f);
    }
    check_progress(c, bytes);
    return e;
}

/* -- all of them -- */

static enum err check_listed(struct check *c)
{
    struct manifest_list *l = manifest_view(c->m);
    enum err e = l ? ERR_OK : ERR_NOMEM;

    for (size_t i = 0; l && i < manifest_segments(l); i++) {
        c->total_bytes += manifest_segment(l, i)->bytes;
    }
    for (size_t i = 0; l && i < manifest_segments(l) && !e; i++) {
        char name[SEG_NAME_MAX];

        seg_name(name, manifest_segment(l, i));
        e = check_segment(c, name, manifest_segment(l, i));
    }
    manifest_list_release(l);
    return e;
}

struct names {
    char (*p)[SEG_NAME_MAX];
    size_t n, cap;
    bool logs; /* of the log instead of segments */
};

static enum err add_name(void *ctx, const char *name)
{
    struct names *names = ctx;
    uint64_t number;
    enum err e;

    if (names->logs ? !fio_name_parse(&number, name, "wal-", ".log") : !seg_name_is(name)) {
        return ERR_OK;
    }
    e = VEC_ROOM(&names->p, &names->cap, names->n + 1, SIZE_MAX);
    if (e) {
        return e;
    }
    (void)snprintf(names->p[names->n++], SEG_NAME_MAX, "%s", name);
    return ERR_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static enum err check_list(struct names *names, const char *dir)
{
    enum err e = os_list_dir(dir, add_name, names);

    if (!e && names->n > 1) {
        qsort(names->p, names->n, sizeof *names->p, by_name);
    }
    return e;
}

static enum err check_found(struct check *c)
{
    struct names names = {0};
    enum err e = check_list(&names, c->segments);

    for (size_t i = 0; i < names.n && !e; i++) {
        e = check_segment(c, names.p[i], NULL);
    }
    mem_free(names.p);
    return e;
}

/* -- files under the names of others -- */

static bool is_there(struct check *c, const char *name)
{
    char *path = os_path_join(c->segments, name);
    bool there = path && os_exists(path);

    mem_free(path);
    return there;
}

/* names->p: the files; own: what each is by its header, empty when it is where it belongs. First
 * all step aside, since they may stand in each other's place. */
static enum err sort_out(struct check *c, const struct names *names, char (*own)[SEG_NAME_MAX])
{
    enum err e = ERR_OK;

    for (size_t i = 0; i < names->n && !e; i++) {
        enum err bad = seg_scan_name(own[i], c->conf->fio, c->segments, names->p[i]);

        if (bad || strcmp(own[i], names->p[i]) == 0) {
            own[i][0] = 0;
        } else {
            e = put_aside(c, names->p[i]);
        }
    }
    for (size_t i = 0; i < names->n && !e; i++) {
        struct check_file f = {.name = names->p[i], .state = CHECK_ASIDE, .damaged = 1};
        char bad[SEG_NAME_MAX + 8];

        if (!own[i][0]) {
            continue;
        }
        if (!is_there(c, own[i])) {
            (void)snprintf(bad, sizeof bad, "%s.bad", names->p[i]);
            e = rename_in(c, bad, own[i]);
            f.state = CHECK_MENDED;
        }
        check_tell(c, &c->result.kinds[kind_of(names->p[i])], &f);
    }
    return e;
}

/* Before the manifest is opened, which removes what it does not know. */
static enum err sort_names(struct check *c)
{
    struct names names = {0};
    char(*own)[SEG_NAME_MAX] = NULL;
    enum err e = check_list(&names, c->segments);

    if (!e) {
        own = mem_array(names.n + 1, sizeof *own);
        e = own ? sort_out(c, &names, own) : ERR_NOMEM;
    }
    mem_free(own);
    mem_free(names.p);
    return e;
}

/* -- the manifest -- */

static enum err open_manifest(struct check *c)
{
    const struct manifest_conf conf = {c->segments, c->conf->fio};
    enum err e = c->conf->repair ? manifest_open(&c->m, &conf, c->why)
                                 : manifest_open_reader(&c->m, &conf, c->why);

    c->result.manifest.files = 1;
    return e == ERR_CORRUPT ? ERR_OK : e;
}

static enum err check_rebuild(struct check *c)
{
    const struct manifest_conf conf = {c->segments, c->conf->fio};
    struct check_file f = {.name = "manifest", .state = CHECK_DAMAGED, .damaged = 1};
    enum err e = ERR_OK;

    if (c->conf->repair) {
        e = manifest_rebuild(&conf, &f.values, c->why);
        f.state = CHECK_MENDED;
    }
    if (!e) {
        check_tell(c, &c->result.manifest, &f);
    }
    return e;
}

/* A part of it was unreadable, or files it names are gone. */
static enum err check_manifest(struct check *c)
{
    struct check_file f = {.name = "manifest", .state = CHECK_DAMAGED};
    struct manifest_stats st;
    enum err e = ERR_OK;

    manifest_stats(c->m, &st);
    for (unsigned kind = SEG_RAW; kind < SEG_KINDS; kind++) {
        f.values += st.files[kind];
    }
    c->result.manifest.values = f.values;
    f.damaged = st.missing + st.damaged_records;
    f.lost = st.missing;
    if (f.damaged == 0) {
        return ERR_OK;
    }
    if (c->conf->repair) {
        e = manifest_change(c->m, NULL, 0, NULL, 0, c->why);
        f.state = CHECK_MENDED;
    } else if (st.missing > 0) {
        f.state = CHECK_MISSING;
    }
    if (!e) {
        check_tell(c, &c->result.manifest, &f);
    }
    return e;
}

/* -- the log -- */

static enum err check_count_record(void *ctx, const struct wal_record *r)
{
    uint64_t *n = ctx;

    (void)r;
    (*n)++;
    return ERR_OK;
}

/* One that has an index was synced to its end before that was written: what is bad in it is damage.
 * Asked before its size is: a collector may be at work. */
static bool has_index(const struct check *c, uint64_t number, char **path)
{
    *path = fio_name_path(c->wal, "wal-", number, WAL_INDEX_SUFFIX);
    return !*path || os_exists(*path);
}

/* What stands in an open file of the log. last: its end may be torn. */
static enum err read_log(const struct check *c, struct wal_replay *job, uint64_t number,
                         const char *index, bool last, struct check_file *f)
{
    struct wal_header header, told = {.version = 0};
    struct wal_replayed done = {0};
    uint64_t log_bytes = 0;
    bool any = true;
    enum err known = wal_index_header(&told, &log_bytes, job->fio, index, number);
    enum err e = wal_source_header(&header, job->fio, job->f, number);

    job->header = &header;
    if (e == ERR_CORRUPT) {
        header = told;
        e = known;
    }
    if (!e) {
        f->damaged = header.damaged + (!known && told.seed == header.seed && log_bytes > job->size);
        e = wal_source_replay(&done, job);
        f->damaged += done.bad_records + (done.strange_end || (!last && done.end < job->size));
    } else if (e == ERR_NOTFOUND) { /* its seed is lost */
        e = last ? wal_source_any(&any, c->conf->fio, job->f, job->size) : ERR_OK;
        f->damaged = any;
    }
    return e;
}

static enum err check_log(struct check *c, const char *name, bool last)
{
    const struct fio *fio = c->conf->fio;
    struct check_file f = {.name = name, .state = CHECK_DAMAGED};
    struct wal_replay job = {.fio = fio, .each = check_count_record, .ctx = &f.values};
    uint64_t number = 0;
    char *path = os_path_join(c->wal, name), *index = NULL;
    enum err e = path && fio_name_parse(&number, name, "wal-", ".log")
                     ? fio->open(fio->ctx, &job.f, path)
                     : ERR_NOMEM;

    mem_free(path);
    if (e == ERR_NOTFOUND) { /* sealed meanwhile */
        return ERR_OK;
    }
    if (!e) {
        last = !has_index(c, number, &index) && last;
        e = index ? fio->size(fio->ctx, job.f, &job.size) : ERR_NOMEM;
    }
    if (!e) {
        e = read_log(c, &job, number, index, last, &f);
    }
    fio->close(fio->ctx, job.f);
    mem_free(index);
    if (e) {
        return errmsg_set(c->why, e, "cannot read %s/%s: %s", c->wal, name, err_text(e));
    }
    c->result.log.files++;
    c->result.log.bytes += job.size;
    c->result.log.values += f.values;
    if (f.damaged > 0) {
        check_tell(c, &c->result.log, &f);
    }
    check_progress(c, job.size);
    return ERR_OK;
}

/* One that an opening put aside. */
static enum err tell_aside(void *ctx, const char *name)
{
    struct check *c = ctx;
    struct check_file f = {.name = name, .state = CHECK_KEPT, .damaged = 1};
    uint64_t number;

    if (fio_name_parse(&number, name, "wal-", WAL_ASIDE_SUFFIX)) {
        check_tell(c, &c->result.log, &f);
    }
    return ERR_OK;
}

static enum err check_logs(struct check *c)
{
    struct names names = {.logs = true};
    enum err e = os_exists(c->wal) ? check_list(&names, c->wal) : ERR_OK;

    for (size_t i = 0; i < names.n && !e; i++) {
        e = check_log(c, names.p[i], i + 1 == names.n);
    }
    if (!e && os_exists(c->wal)) {
        e = os_list_dir(c->wal, tell_aside, c);
    }
    mem_free(names.p);
    return e;
}

/* -- the whole -- */

static enum err open_dirs(struct check *c)
{
    char *lock = os_path_join(c->conf->data_dir, "lock");
    enum err e = ERR_NOMEM;

    c->segments = os_path_join(c->conf->data_dir, "segments");
    c->wal = os_path_join(c->conf->data_dir, "wal");
    if (lock && c->segments && c->wal) {
        e = os_exists(c->segments)
                ? ERR_OK
                : errmsg_set(c->why, ERR_NOTFOUND, "there is no store in %s", c->conf->data_dir);
    }
    if (!e && c->conf->repair) {
        e = os_lock(&c->lock, lock);
        if (e) {
            errmsg_set(c->why, e, "cannot lock %s: %s", c->conf->data_dir,
                       e == ERR_BUSY ? "a collector uses it: stop that first" : err_text(e));
        }
    }
    mem_free(lock);
    return e;
}

static void tell_beside(void *ctx, struct check_count *count, const struct check_file *f)
{
    check_tell(ctx, count, f);
}

static enum err check_all(struct check *c)
{
    const struct check_derived beside = {c->conf, tell_beside, c};
    enum err e = c->conf->repair ? sort_names(c) : ERR_OK;

    e = e ? e : open_manifest(c);
    if (!e && c->m) {
        e = check_listed(c);
        e = e ? e : check_manifest(c);
    } else if (!e) {
        e = check_found(c);
        e = e ? e : check_rebuild(c);
    }
    e = e ? e : check_logs(c);
    e = e ? e : check_indexes(&beside, &c->result.indexes);
    e = e ? e : check_hosts(&beside, &c->result.hosts);
    return e ? e : check_catalogue(&beside, &c->result.catalogue);
}

enum err check_store(struct check_result *out, const struct check_conf *conf, struct errmsg *why)
{
    struct check c = {.conf = conf, .why = why};
    enum err e = open_dirs(&c);

    if (!e) {
        e = check_all(&c);
    }
    manifest_close(c.m);
    os_unlock(c.lock);
    mem_free(c.segments);
    mem_free(c.wal);
    if (!e) {
        *out = c.result;
    } else if (why && !why->text[0]) {
        errmsg_set(why, e, "cannot check %s: %s", conf->data_dir, err_text(e));
    }
    return e;
}
